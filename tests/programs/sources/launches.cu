// A stream that waits for another one, a host function, a graph that is launched twice, and a cooperative launch; with an argument
// one kernel, launched 128 times. How many rounds each thread makes is read from memory: 100 at first, then 10 more each time.
#include <cooperative_groups.h>
#include <cstdio>

__global__ void work(float *data, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < rounds; k++)
        data[i] = data[i] * 1.5f + 1.0f;
}

__global__ void drift(float *data, const int *rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = data[i];
    #pragma unroll 1
    for (int k = 0; k < *rounds; k++)
        sum = sum * 1.5f + 1.0f;
    data[i] = sum;
}

__global__ void halves(float *data)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    data[i] *= 0.5f;
    cooperative_groups::this_grid().sync();
    data[i] += data[n - 1 - i];
}

static void hosted(void *data) { ++*(int *)data; }

static int drifting()
{
    float *data;
    int *rounds, now = 100;
    cudaMalloc(&data, 1024 * sizeof(float));
    cudaMemset(data, 0, 1024 * sizeof(float));
    cudaMalloc(&rounds, sizeof(int));
    for (int launch = 0; launch < 128; launch++) {
        now += launch < 64 ? 0 : 10;
        cudaMemcpy(rounds, &now, sizeof(int), cudaMemcpyHostToDevice);
        drift<<<4, 256>>>(data, rounds);
    }
    printf("rounds %d\n", now);
    return 0;
}

int main(int argc, char **)
{
    if (argc > 1)
        return drifting();
    const int n = 1024;
    float *data;
    int calls = 0;
    cudaStream_t first, second;
    cudaEvent_t done;
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEventCreate(&done);
    cudaMalloc(&data, n * sizeof(float));
    work<<<4, 256, 0, first>>>(data, 2000);
    cudaEventRecord(done, first);
    cudaStreamWaitEvent(second, done, 0);
    cudaLaunchHostFunc(second, hosted, &calls);
    void *arguments[] = {&data};
    cudaLaunchCooperativeKernel((void *)halves, dim3(4), dim3(256), arguments, 0, second);
    cudaStreamSynchronize(second);
    cudaGraph_t graph;
    cudaGraphExec_t made;
    cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal);
    work<<<4, 256, 0, first>>>(data, 2000);
    work<<<4, 256, 0, first>>>(data, 3000);
    cudaStreamEndCapture(first, &graph);
    cudaGraphInstantiate(&made, graph, nullptr, nullptr, 0);
    cudaGraphLaunch(made, first);
    cudaGraphLaunch(made, first);
    cudaDeviceSynchronize();
    printf("calls %d\n", calls);
    return 0;
}
