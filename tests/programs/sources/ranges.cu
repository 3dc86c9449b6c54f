// Ranges and marks of NVTX around launches, copies and a graph; copies of page-locked and of pageable memory on several streams.
#include <cstdio>
#include <nvtx3/nvtx3.hpp>

struct library { static constexpr char const *name{"library"}; };

__global__ void work(float *data, int rounds)
{
    float x = data[threadIdx.x];
    for (int k = 0; k < rounds; k++)
        x = x * 1.5f + 1.0f;
    data[threadIdx.x] = x;
}

__global__ void other(float *data) { data[threadIdx.x] += 1; }

int main()
{
    const size_t bytes = 1 << 20;
    float *data, *more, *host;
    static float pageable[300];
    cudaStream_t stream, second, third, fourth;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    for (cudaStream_t *each : {&stream, &second, &third, &fourth})
        cudaStreamCreateWithFlags(each, cudaStreamNonBlocking);
    cudaMalloc(&data, bytes);
    cudaMalloc(&more, bytes);
    cudaMallocHost(&host, bytes);
    nvtxRangePushA("upload");
    cudaMemset(data, 0, bytes);
    cudaMemcpy(data, host, bytes / 2, cudaMemcpyHostToDevice);
    nvtxRangePop();
    nvtxRangeId_t whole = nvtxRangeStartA("whole");
    nvtxRangePushA("steps");
    for (int k = 1; k <= 4; k++) {
        nvtx3::scoped_range_in<library> step{"step"};
        work<<<1, 32, 0, stream>>>(data, 100 * k);
    }
    nvtxMarkA("all issued");
    cudaStreamSynchronize(stream);
    nvtxRangePop();
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int k = 0; k < 3; k++)
        other<<<1, 32, 0, stream>>>(data);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    nvtxRangePushA("graph");
    cudaGraphLaunch(executable, stream);
    nvtxRangeEnd(whole);
    cudaDeviceSynchronize();
    nvtxRangePop();
    cudaMemcpyAsync(data, host, bytes, cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(more, host, bytes, cudaMemcpyHostToDevice, second);
    cudaMemcpyAsync(host, data, bytes, cudaMemcpyDeviceToHost, third);
    other<<<1, 32, 0, fourth>>>(more);
    cudaMemcpyAsync(data, pageable, sizeof pageable, cudaMemcpyHostToDevice, fourth);
    nvtxRangePushW(L"d\u00e9but \u2192 fin");
    printf("first %g\n", host[0]);
    return 0;
}
