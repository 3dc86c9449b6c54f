// Three launches, then a program that never ends.
#include <cstdio>
#include <unistd.h>

__global__ void step(int *x) { x[threadIdx.x] += 1; }

int main() {
  int *x;
  cudaMalloc(&x, 128);
  for (int k = 0; k < 3; k++) step<<<1, 32>>>(x);
  cudaDeviceSynchronize();
  puts("launched");
  fflush(stdout);
  for (;;) usleep(1000);
}
