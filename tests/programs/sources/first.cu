#include <cstdio>
static __device__ int base = 10;
static __global__ void fill(int *data) { data[threadIdx.x] = base + threadIdx.x; }
template <typename T> __global__ void plus(T *data, T value) { data[threadIdx.x] += value; }
void fill_second(int *data);

int main()
{
    int *data, host[32], other[32];
    cudaMalloc(&data, sizeof host);
    fill<<<1, 32>>>(data);
    plus<int><<<1, 32>>>(data, 5);
    cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost);
    fill_second(data);
    cudaMemcpy(other, data, sizeof other, cudaMemcpyDeviceToHost);
    printf("%d %d\n", host[31], other[31]);
    return 0;
}
