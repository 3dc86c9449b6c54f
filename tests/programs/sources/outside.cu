// Accesses a few bytes past an array, as programs in the wild have them. What the arrays then hold tells what each access did.
#include <cstdio>

__global__ void shift(const int *in, int *out, int n) { int i = threadIdx.x; out[i] = in[i + n]; }
__global__ void spill(int *out, int n) { int i = threadIdx.x; out[i + n] = i + 1; }
__global__ void count(int *out, int n, int *before) { int i = threadIdx.x; before[i] = atomicAdd(&out[i + n], 5); }

int main()
{
    int *in, *out, *before, values[64];
    cudaMalloc(&in, sizeof values);
    cudaMalloc(&out, sizeof values);
    cudaMalloc(&before, sizeof values);
    for (int i = 0; i < 64; i++)
        values[i] = 100 + i;
    cudaMemcpy(in, values, sizeof values, cudaMemcpyHostToDevice);
    cudaMemcpy(out, values, sizeof values, cudaMemcpyHostToDevice);
    for (int turn = 0; turn < 2; turn++)
        shift<<<1, 64>>>(in, out, 4);
    cudaMemcpy(values, out, sizeof values, cudaMemcpyDeviceToHost);
    printf("shift %d %d %d\n", values[59], values[60], values[63]);
    spill<<<1, 64>>>(out, 61);
    cudaMemcpy(values, in, sizeof values, cudaMemcpyDeviceToHost);
    printf("in %d %d\n", values[0], values[63]);
    cudaMemcpy(values, out, sizeof values, cudaMemcpyDeviceToHost);
    printf("spill %d %d\n", values[60], values[63]);
    count<<<1, 64>>>(out, 63, before);
    cudaMemcpy(values, before, sizeof values, cudaMemcpyDeviceToHost);
    printf("count %d %d %d\n", values[0], values[1], values[63]);
    shift<<<1, 64>>>(in, out, 1 << 24);
    printf("far %d\n", (int)cudaDeviceSynchronize());
    return 0;
}
