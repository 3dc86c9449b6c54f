// Short launches, one by one and back to back, between events.
#include <cstdio>

__global__ void work(float *data) { data[threadIdx.x] += 1.0f; }

int main()
{
    float *data, once = 0, many = 0;
    cudaEvent_t start, stop;
    cudaMalloc((void **)&data, 1024);
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start);
    work<<<1, 256>>>(data);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&once, start, stop);
    cudaEventRecord(start);
    for (int k = 0; k < 20; k++)
        work<<<1, 256>>>(data);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&many, start, stop);
    printf("%.3f %.3f\n", once * 1e3, many * 1e3);
}
