// Streams, events, callbacks, occupancy, attributes.
#include <cstdio>

__global__ void work(float *data, int n, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        for (int k = 0; k < rounds; k++)
            data[i] = data[i] * 1.5f + 1.0f;
}

static void called(cudaStream_t, cudaError_t status, void *data) { *(int *)data = status == cudaSuccess ? 11 : -1; }
static void hosted(void *data) { *(int *)data += 100; }

int main()
{
    const int n = 4096;
    float *data, *host;
    int mark = 0;
    cudaStream_t first, second;
    cudaEvent_t start, middle, stop;
    cudaStreamCreate(&first);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEventCreate(&start);
    cudaEventCreate(&middle);
    cudaEventCreate(&stop);
    cudaMallocAsync((void **)&data, n * sizeof(float), first);
    cudaMallocHost((void **)&host, n * sizeof(float));
    cudaMemsetAsync(data, 0, n * sizeof(float), first);
    cudaEventRecord(start, first);
    work<<<16, 256, 0, first>>>(data, n, 10);
    cudaEventRecord(middle, first);
    work<<<16, 256, 0, first>>>(data, n, 200);
    cudaEventRecord(stop, first);
    cudaStreamWaitEvent(second, stop, 0);
    cudaMemcpyAsync(host, data, n * sizeof(float), cudaMemcpyDeviceToHost, second);
    cudaStreamAddCallback(second, called, &mark, 0);
    cudaLaunchHostFunc(second, hosted, &mark);
    cudaStreamSynchronize(second);
    float little = 0, much = 0, none = 0, expected = 0;
    cudaEventElapsedTime(&little, start, middle);
    cudaEventElapsedTime(&much, middle, stop);
    cudaEventElapsedTime(&none, stop, stop);
    for (int k = 0; k < 10; k++)
        expected = expected * 1.5f + 1.0f;
    printf("times %d\n", little > 0 && much > 2 * little && none == 0);
    printf("called %d\n", mark);
    printf("query %d %d\n", (int)cudaStreamQuery(first), (int)cudaEventQuery(stop));
    int blocks = 0, count = 0, least = 0, size = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, work, 256, 0);
    cudaOccupancyMaxPotentialBlockSize(&least, &size, work, 0, 0);
    cudaGetDeviceCount(&count);
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    cudaFuncAttributes a;
    cudaFuncGetAttributes(&a, work);
    printf("occupancy %d, potential %d\n", blocks, size > 0 && least > 0);
    printf("device %d: %s, %d SMs, warp %d, block %d, L2 %d\n", count, p.name, p.multiProcessorCount, p.warpSize, p.maxThreadsPerBlock,
           p.l2CacheSize);
    printf("attributes %d %d\n", a.numRegs > 0, a.maxThreadsPerBlock);
    return 7;
}
