// The driver's interface, modules that a program loads, and graphs. Its kernel is PTX text: no device code is compiled.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

static const char *const PTX = R"(
.version 7.0
.target sm_75
.address_size 64
.global .align 4 .f32 factor = 0f40000000;
.visible .entry scale(.param .u64 data, .param .u32 count)
{
    .reg .pred p;
    .reg .b32 i, n;
    .reg .f32 v, f;
    .reg .b64 a;
    mov.u32 i, %tid.x;
    ld.param.u32 n, [count];
    setp.ge.u32 p, i, n;
    @p ret;
    ld.param.u64 a, [data];
    mad.wide.u32 a, i, 4, a;
    ld.global.f32 v, [a];
    ld.global.f32 f, [factor];
    mul.f32 v, v, f;
    st.global.f32 [a], v;
    ret;
}
)";
static const int N = 100;

static void check(const char *what, bool good) { printf("%s %s\n", what, good ? "good" : "BAD"); }

static bool all_are(const float *data, float value)
{
    std::vector<float> values(N);
    cudaMemcpy(values.data(), data, N * sizeof(float), cudaMemcpyDefault);
    for (float each : values)
        if (each != value)
            return false;
    return true;
}

static void fill(CUdeviceptr data, float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    cuMemsetD32(data, bits, N);
}

static void driver()
{
    CUdevice device;
    CUcontext context, top;
    CUmodule module;
    CUfunction scale;
    CUdeviceptr data, factor;
    size_t bytes;
    char name[64];
    const char *error;
    int n = N, registers = 0;
    check("uninitialized", cuMemAlloc(&data, 4) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_SUCCESS);
    cuDeviceGet(&device, 0);
    cuDeviceGetName(name, sizeof name, device);
    check("device", strstr(name, "warpsight") && cuDeviceGet(&device, 1) == CUDA_ERROR_INVALID_DEVICE);
    check("no context", cuMemAlloc(&data, 4) == CUDA_ERROR_INVALID_CONTEXT);
    cuCtxCreate(&context, nullptr, 0, 0);
    check("context", cuCtxGetCurrent(&top) == CUDA_SUCCESS && top == context);
    check("no image", cuModuleLoadData(&module, "this is no image") == CUDA_ERROR_INVALID_IMAGE);
    cuGetErrorName(CUDA_ERROR_INVALID_IMAGE, &error);
    check("names", !strcmp(error, "CUDA_ERROR_INVALID_IMAGE") && cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &error) == CUDA_SUCCESS &&
                       !strcmp(error, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    CUlinkState link;
    void *image = nullptr;
    cuLinkCreate(0, nullptr, nullptr, &link);
    check("link", cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)PTX, strlen(PTX), "scale.ptx", 0, nullptr, nullptr) == CUDA_SUCCESS &&
                      cuLinkComplete(link, &image, &bytes) == CUDA_SUCCESS);
    check("module", cuModuleLoadData(&module, image) == CUDA_SUCCESS && cuLinkDestroy(link) == CUDA_SUCCESS);
    check("no function", cuModuleGetFunction(&scale, module, "nothing") == CUDA_ERROR_NOT_FOUND);
    cuModuleGetFunction(&scale, module, "scale");
    check("attribute", cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, scale) == CUDA_SUCCESS && registers > 0);
    cuMemAlloc(&data, N * sizeof(float));
    fill(data, 1);
    void *arguments[] = {&data, &n};
    check("launch", cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
    struct { CUdeviceptr data; int n; } packed = {data, n};
    size_t size = sizeof packed;
    void *more[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    check("buffer", cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, more) == CUDA_SUCCESS);
    float three = 3, out[N];
    check("variable", cuModuleGetGlobal(&factor, &bytes, module, "factor") == CUDA_SUCCESS && bytes == sizeof three);
    cuMemcpyHtoD(factor, &three, sizeof three);
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {1, 1, 1, 128, 1, 1, 0, nullptr, &attribute, 1};
    check("launch ex", cuLaunchKernelEx(&config, scale, arguments, nullptr) == CUDA_SUCCESS);
    attribute.id = (CUlaunchAttributeID)99;
    check("unknown attribute", cuLaunchKernelEx(&config, scale, arguments, nullptr) == CUDA_ERROR_INVALID_VALUE);
    cuMemcpyDtoH(out, data, sizeof out);
    check("results", out[0] == 12 && out[N - 1] == 12);
    decltype(&cuMemFree) release = nullptr;
    CUdriverProcAddressQueryResult found;
    check("entry", cuGetProcAddress("cuMemFree", (void **)&release, 12000, 0, &found) == CUDA_SUCCESS && release == &cuMemFree &&
                       release(data) == CUDA_SUCCESS);
    check("too old", cuGetProcAddress("cuLaunchKernelEx", (void **)&release, 11000, 0, &found) == CUDA_ERROR_NOT_FOUND &&
                         found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    CUgraph graph, recorded;
    CUgraphExec executable;
    CUgraphNode node;
    CUstream stream;
    size_t nodes = 0;
    cuMemAlloc(&data, N * sizeof(float));
    CUDA_MEMSET_NODE_PARAMS ones = {data, 0, 0x3f800000, 4, (size_t)N, 1};
    CUDA_KERNEL_NODE_PARAMS by_three = {scale, 1, 1, 1, 128, 1, 1, 0, arguments, nullptr};
    cuGraphCreate(&graph, 0);
    cuGraphAddMemsetNode(&node, graph, nullptr, 0, &ones, context);
    cuGraphAddKernelNode(&node, graph, &node, 1, &by_three);
    float corner[2][3] = {}; // of a matrix of two rows of eight
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.srcDevice = data, copy.srcPitch = 8 * sizeof(float), copy.srcXInBytes = 4;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = corner, copy.dstPitch = sizeof corner[0];
    copy.WidthInBytes = 2 * sizeof(float), copy.Height = 2, copy.Depth = 1;
    check("copy node", cuGraphAddMemcpyNode(&node, graph, &node, 1, &copy, context) == CUDA_SUCCESS);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    check("copy of an array", cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context) == CUDA_ERROR_NOT_SUPPORTED);
    check("graph of the driver", cuGraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS && cuGraphLaunch(executable, 0) == CUDA_SUCCESS);
    check("copied by the graph", corner[0][1] == 3 && corner[1][1] == 3 && corner[0][2] == 0);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr);
    check("capture", cuStreamEndCapture(stream, &recorded) == CUDA_SUCCESS && cuGraphGetNodes(recorded, nullptr, &nodes) == CUDA_SUCCESS &&
                         nodes == 1 && cuGraphInstantiate(&executable, recorded, 0) == CUDA_SUCCESS &&
                         cuGraphLaunch(executable, 0) == CUDA_SUCCESS);
    cuCtxPopCurrent(&top);
    check("stream without a context", cuStreamGetCtx(stream, &top) == CUDA_SUCCESS && top == context &&
                                          cuMemsetD32Async(data, 0x41100000, 1, stream) == CUDA_SUCCESS && // 9
                                          cuStreamSynchronize(stream) == CUDA_SUCCESS &&
                                          cuStreamSynchronize(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    cuCtxPushCurrent(context);
    cuMemcpyDtoH(out, data, sizeof out);
    check("both graphs", out[0] == 9 && out[N - 1] == 9);
    check("unloaded", cuModuleUnload(module) == CUDA_SUCCESS &&
                          cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr) != CUDA_SUCCESS);
    check("last error", cudaGetLastError() == cudaSuccess); // the runtime knows nothing of the driver's errors
    cuCtxDestroy(context);
}

static void CUDART_CB add_one(void *data) { ++*(int *)data; }

static void built(float *data, cudaKernel_t kernel)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaGraphNode_t fill, first, second, host, copy;
    int n = N, calls = 0;
    std::vector<float> out(N);
    void *arguments[] = {&data, &n};
    cudaMemsetParams zeros = {data, 0, 0x3f800000, 4, (size_t)N, 1};
    cudaKernelNodeParams launch = {(void *)kernel, 1, 128, 0, arguments, nullptr};
    cudaHostNodeParams call = {add_one, &calls};
    cudaGraphCreate(&graph, 0);
    // added in another order than they must be done in
    cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, out.data(), data, N * sizeof(float), cudaMemcpyDeviceToHost);
    cudaGraphAddKernelNode(&second, graph, nullptr, 0, &launch);
    cudaGraphAddKernelNode(&first, graph, nullptr, 0, &launch);
    cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &zeros);
    cudaGraphAddHostNode(&host, graph, &copy, 1, &call);
    cudaGraphNode_t from[] = {fill, first, second}, to[] = {first, second, copy};
    cudaGraphAddDependencies(graph, from, to, nullptr, 3);
    n = 0; // a graph has its own copies of the arguments
    check("instantiated", cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    check("graph", cudaGraphLaunch(executable, 0) == cudaSuccess && cudaGraphLaunch(executable, 0) == cudaSuccess && calls == 2 &&
                       out[0] == 4 && out[N - 1] == 4);
    n = N / 2;
    check("updated", cudaGraphExecKernelNodeSetParams(executable, second, &launch) == cudaSuccess);
    cudaGraphLaunch(executable, 0);
    check("updated graph", out[0] == 4 && out[N - 1] == 2);
    cudaGraphAddDependencies(graph, &copy, &fill, nullptr, 1);
    check("circle", cudaGraphInstantiate(&executable, graph, 0) == cudaErrorInvalidValue);
    cudaGetLastError();
    cudaGraphDestroy(graph);
}

static void captured(float *data, cudaKernel_t kernel)
{
    cudaStream_t stream, other;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaStreamCaptureStatus state;
    size_t nodes = 0, roots = 0;
    int n = N, half = N / 2;
    float *upper = data + half;
    void *low[] = {&data, &half}, *high[] = {&upper, &half}, *whole[] = {&data, &n};
    cudaStreamCreate(&stream);
    cudaStreamCreate(&other);
    cudaEventCreate(&fork);
    cudaEventCreate(&join);
    check("default stream", cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal) == cudaErrorStreamCaptureUnsupported);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(data, 0, N * sizeof(float), stream);
    cudaEventRecord(fork, stream);
    cudaStreamWaitEvent(other, fork, 0);
    cudaLaunchKernel((void *)kernel, 1, 128, low, 0, stream);
    cudaLaunchKernel((void *)kernel, 1, 128, high, 0, other);
    check("unjoined", cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);

    cudaMemset(data, 0, N * sizeof(float));
    std::vector<float> ones(N, 1);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaStreamIsCapturing(stream, &state);
    check("capturing", state == cudaStreamCaptureStatusActive && cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    cudaMemcpyAsync(data, ones.data(), N * sizeof(float), cudaMemcpyHostToDevice, stream);
    cudaEventRecord(fork, stream);
    cudaStreamWaitEvent(other, fork, 0);
    cudaLaunchKernel((void *)kernel, 1, 128, low, 0, stream);
    cudaLaunchKernel((void *)kernel, 1, 128, high, 0, other);
    cudaEventRecord(join, other);
    cudaStreamWaitEvent(stream, join, 0);
    cudaLaunchKernel((void *)kernel, 1, 128, whole, 0, stream);
    check("ended", cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    cudaGraphGetNodes(graph, nullptr, &nodes);
    cudaGraphGetRootNodes(graph, nullptr, &roots);
    check("nodes", nodes == 4 && roots == 1 && all_are(data, 0)); // nothing was done yet
    cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    cudaGraphLaunch(executable, stream);
    check("captured graph", all_are(data, 4));
    cudaGraphExecDestroy(executable);
}

int main()
{
    cudaLibrary_t library;
    cudaKernel_t kernel;
    float *data, *factor;
    size_t bytes;
    driver();
    cudaMalloc(&data, N * sizeof(float));
    check("library", cudaLibraryLoadData(&library, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaSuccess);
    check("kernel", cudaLibraryGetKernel(&kernel, library, "scale") == cudaSuccess);
    check("global", cudaLibraryGetGlobal((void **)&factor, &bytes, library, "factor") == cudaSuccess && bytes == sizeof(float));
    built(data, kernel);
    captured(data, kernel);
    return 0;
}
