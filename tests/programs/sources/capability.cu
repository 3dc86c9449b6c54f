// What the program is told of the GPU and of a kernel, and a variable in constant memory that it sets.
#include <cstdio>

__constant__ int factors[10];

__global__ void scale(int *p) { p[threadIdx.x] = factors[threadIdx.x] + factors[p[threadIdx.x]]; }

int main()
{
    cudaDeviceProp device;
    cudaFuncAttributes function;
    int values[10] = {3, 4, 4, 4}, *p, result[2] = {2, 3};
    cudaGetDeviceProperties(&device, 0);
    cudaFuncGetAttributes(&function, scale);
    cudaMemcpyToSymbol(factors, values, sizeof values);
    cudaMalloc(&p, sizeof result);
    cudaMemcpy(p, result, sizeof result, cudaMemcpyHostToDevice);
    scale<<<1, 2>>>(p);
    cudaMemcpy(result, p, sizeof result, cudaMemcpyDeviceToHost);
    printf("%d.%d, code %d, constants %d: %d %d\n", device.major, device.minor, function.binaryVersion,
           (int)function.constSizeBytes, result[0], result[1]);
    return 0;
}
