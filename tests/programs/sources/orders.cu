// A program that leaves the same in all orders of blocks, or (with an argument) does not.
#include <cstdio>

__global__ void fill(int *out) { out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x; }
__global__ void last(int *out) { out[7] = blockIdx.x; }
__global__ void sum(float *out) { atomicAdd(out + 3, 1.0f / (1 + threadIdx.x + blockIdx.x * blockDim.x)); }
__global__ void say() { printf("block %d\n", blockIdx.x); }

int main(int count, char **words)
{
    const char what = count > 1 ? words[1][0] : 0;
    int *numbers, seventh;
    float *sums;
    cudaMalloc(&numbers, 512 * sizeof(int));
    cudaMalloc(&sums, 16 * sizeof(float));
    cudaMemset(sums, 0, 16 * sizeof(float));
    fill<<<8, 64>>>(numbers);
    if (what == 'l')
        last<<<8, 64>>>(numbers);
    if (what == 's')
        sum<<<8, 64>>>(sums);
    if (what == 'p')
        say<<<3, 1>>>();
    cudaMemcpy(&seventh, numbers + 7, sizeof seventh, cudaMemcpyDeviceToHost);
    printf("%d\n", seventh);
    cudaFree(numbers);
    cudaFree(sums);
}
