// A program with mistakes on the host's side: nvcc -cudart shared -g -lineinfo program.cu -o program, warpsight check -- ./program
#include <cstdio>

#include "wrong.cu"

int main()
{
    const int n = 1000;
    float *out, *never_freed;
    cudaMalloc(&out, n * sizeof(float));
    cudaMalloc(&never_freed, 4096);
    past_the_end<<<8, 128>>>(out, n);
    past_the_end<<<8, 256>>>(out, n);
    cudaMemset(out, 0, 2 * n * sizeof(float)); // twice as much as there is
    float last;
    cudaMemcpy(&last, never_freed + 1023, sizeof last, cudaMemcpyDeviceToHost); // nobody has written it
    printf("%g\n", last);
    cudaFree(out);
}
