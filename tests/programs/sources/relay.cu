// Two kernels of which the second reads what the first has written, then once more after other memory has been cleared.
#include <cstdio>

__global__ void write(int *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x; }

__global__ void add_up(const int *x, int *sum)
{
    int value = x[blockIdx.x * blockDim.x + threadIdx.x];
    if (value == -1)
        *sum = 1;
}

int main()
{
    const int blocks = 64, threads = 256, bytes = blocks * threads * 4, many = 96 << 20;
    int *x, *y, *sum, *other;
    cudaMalloc(&x, bytes);
    cudaMalloc(&y, bytes);
    cudaMalloc(&sum, 4);
    cudaMalloc(&other, many);
    write<<<blocks, threads>>>(x);
    add_up<<<blocks, threads>>>(x, sum); // finds it in the L2
    add_up<<<blocks, threads>>>(x, sum);
    cudaMemset(other, 0, many);
    add_up<<<blocks, threads>>>(x, sum); // has to fetch it again
    cudaMemset(y, 0, bytes);
    add_up<<<blocks, threads>>>(y, sum); // finds what the fill has written
    int *host = new int[blocks * threads]();
    cudaMemset(other, 0, many);
    cudaMemcpy(y, host, bytes, cudaMemcpyHostToDevice);
    add_up<<<blocks, threads>>>(y, sum); // finds what the copy has written
    cudaMemset(other, 0, many);
    cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);
    add_up<<<blocks, threads>>>(y, sum); // finds what the copy has read
    std::printf("%d\n", cudaDeviceSynchronize());
}
