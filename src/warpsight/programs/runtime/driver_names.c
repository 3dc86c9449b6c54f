/* Functions of the driver by name. Those that this library has not are not found. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The names that are exported, the length of the names that programs ask for, and the version of CUDA since which that is meant,
   or a function with the same parameters. */
static const struct { const char *exported; unsigned length; int since; } ENTRIES[] = {
    {"cuInit", 6, 2000}, {"cuDriverGetVersion", 18, 2020}, {"cuGetErrorString", 16, 6000}, {"cuGetErrorName", 14, 6000},
    {"cuGetProcAddress_v2", 16, 12000}, {"cuDeviceGet", 11, 2000}, {"cuDeviceGetCount", 16, 2000}, {"cuDeviceGetName", 15, 2000},
    {"cuDeviceGetUuid_v2", 15, 11040}, {"cuDeviceGetAttribute", 20, 2000}, {"cuDeviceTotalMem_v2", 16, 3020},
    {"cuDeviceGetPCIBusId", 19, 4010}, {"cuDeviceGetByPCIBusId", 21, 4010}, {"cuDevicePrimaryCtxRetain", 24, 7000},
    {"cuDevicePrimaryCtxRelease_v2", 25, 11000}, {"cuDevicePrimaryCtxSetFlags_v2", 26, 11000},
    {"cuDevicePrimaryCtxGetState", 26, 7000}, {"cuDevicePrimaryCtxReset_v2", 23, 11000}, {"cuCtxCreate_v2", 11, 3020},
    {"cuCtxCreate_v3", 11, 11040}, {"cuCtxCreate_v4", 11, 12050}, {"cuCtxDestroy_v2", 12, 2000}, {"cuCtxPushCurrent_v2", 16, 2000},
    {"cuCtxPopCurrent_v2", 15, 2000}, {"cuCtxSetCurrent", 15, 4000}, {"cuCtxGetCurrent", 15, 4000}, {"cuCtxGetDevice", 14, 2000},
    {"cuCtxGetFlags", 13, 7000}, {"cuCtxSynchronize", 16, 2000}, {"cuCtxGetLimit", 13, 3010}, {"cuCtxSetLimit", 13, 3010},
    {"cuCtxGetStreamPriorityRange", 27, 5050}, {"cuModuleLoad", 12, 2000}, {"cuModuleLoadData", 16, 2000},
    {"cuModuleLoadDataEx", 18, 2010}, {"cuModuleLoadFatBinary", 21, 2000}, {"cuModuleUnload", 14, 2000},
    {"cuLinkCreate_v2", 12, 6050}, {"cuLinkAddData_v2", 13, 6050}, {"cuLinkAddFile_v2", 13, 6050}, {"cuLinkComplete", 14, 5050},
    {"cuLinkDestroy", 13, 5050},
    {"cuGraphCreate", 13, 10000}, {"cuGraphDestroy", 14, 10000}, {"cuGraphClone", 12, 10000},
    {"cuGraphAddKernelNode_v2", 20, 12000}, {"cuGraphAddMemsetNode", 20, 10000}, {"cuGraphAddHostNode", 18, 10000},
    {"cuGraphAddMemcpyNode", 20, 10000},
    {"cuGraphAddChildGraphNode", 24, 10000}, {"cuGraphAddEmptyNode", 19, 10000}, {"cuGraphInstantiateWithFlags", 27, 11040},
    {"cuGraphUpload", 13, 11010}, {"cuGraphLaunch", 13, 10000}, {"cuGraphExecDestroy", 18, 10000},
    {"cuGraphExecKernelNodeSetParams_v2", 30, 12000}, {"cuGraphGetNodes", 15, 10000}, {"cuGraphNodeGetType", 18, 10000},
    {"cuStreamBeginCapture_v2", 20, 10010}, {"cuStreamEndCapture", 18, 10000}, {"cuStreamIsCapturing", 19, 10000},
    {"cuModuleGetLoadingMode", 22, 11070}, {"cuModuleGetFunction", 19, 2000}, {"cuModuleGetGlobal_v2", 17, 3020},
    {"cuLibraryLoadData", 17, 12000}, {"cuLibraryLoadFromFile", 21, 12000}, {"cuLibraryUnload", 15, 12000},
    {"cuLibraryGetKernelCount", 23, 12040}, {"cuLibraryEnumerateKernels", 25, 12040}, {"cuModuleGetFunctionCount", 24, 12040},
    {"cuModuleEnumerateFunctions", 26, 12040},
    {"cuLibraryGetKernel", 18, 12000}, {"cuLibraryGetModule", 18, 12000}, {"cuLibraryGetGlobal", 18, 12000},
    {"cuKernelGetFunction", 19, 12000}, {"cuKernelGetAttribute", 20, 12000}, {"cuKernelSetAttribute", 20, 12000},
    {"cuKernelGetName", 15, 12030}, {"cuFuncGetAttribute", 18, 2020}, {"cuFuncSetAttribute", 18, 9000},
    {"cuFuncSetCacheConfig", 20, 3000}, {"cuFuncGetName", 13, 12030}, {"cuFuncGetParamInfo", 18, 12040},
    {"cuLaunchKernel", 14, 4000}, {"cuLaunchKernelEx", 16, 11060}, {"cuLaunchCooperativeKernel", 25, 9000},
    {"cuLaunchHostFunc", 16, 10000}, {"cuOccupancyMaxActiveBlocksPerMultiprocessor", 43, 6050},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 52, 7000}, {"cuOccupancyMaxPotentialBlockSize", 32, 6050},
    {"cuOccupancyAvailableDynamicSMemPerBlock", 39, 10020},
    {"cuOccupancyMaxActiveClusters", 28, 11070}, {"cuOccupancyMaxPotentialClusterSize", 34, 11070}, {"cuMemAlloc_v2", 10, 3020},
    {"cuMemAllocAsync", 15, 11020}, {"cuMemAllocManaged", 17, 6000}, {"cuMemAllocHost_v2", 14, 3020},
    {"cuMemAllocPitch_v2", 15, 3020}, {"cuMemHostAlloc", 14, 2020}, {"cuMemFree_v2", 9, 3020}, {"cuMemFreeAsync", 14, 11020},
    {"cuMemFreeHost", 13, 2000}, {"cuMemHostGetDevicePointer_v2", 25, 3020}, {"cuMemHostRegister_v2", 17, 6050},
    {"cuMemHostUnregister", 19, 4000}, {"cuMemGetInfo_v2", 12, 3020}, {"cuMemGetAddressRange_v2", 20, 3020},
    {"cuPointerGetAttribute", 21, 4000}, {"cuMemcpy", 8, 4000}, {"cuMemcpyAsync", 13, 4000}, {"cuMemcpyHtoD_v2", 12, 3020},
    {"cuMemcpyDtoH_v2", 12, 3020}, {"cuMemcpyDtoD_v2", 12, 3020}, {"cuMemcpyHtoDAsync_v2", 17, 3020},
    {"cuMemcpyDtoHAsync_v2", 17, 3020}, {"cuMemcpyDtoDAsync_v2", 17, 3020}, {"cuMemsetD8_v2", 10, 3020},
    {"cuMemsetD16_v2", 11, 3020}, {"cuMemsetD32_v2", 11, 3020}, {"cuMemsetD8Async", 15, 3020}, {"cuMemsetD16Async", 16, 3020},
    {"cuMemsetD32Async", 16, 3020}, {"cuMemsetD2D8_v2", 12, 3020}, {"cuMemsetD2D32_v2", 13, 3020}, {"cuStreamCreate", 14, 2000},
    {"cuStreamCreateWithPriority", 26, 5050}, {"cuStreamDestroy_v2", 15, 2000}, {"cuStreamSynchronize", 19, 2000},
    {"cuStreamQuery", 13, 2000}, {"cuStreamWaitEvent", 17, 3020}, {"cuStreamGetFlags", 16, 5050},
    {"cuStreamGetPriority", 19, 5050}, {"cuStreamGetCtx", 14, 9020}, {"cuStreamAddCallback", 19, 5000},
    {"cuEventCreate", 13, 2000}, {"cuEventDestroy_v2", 14, 2000}, {"cuEventRecord", 13, 2000},
    {"cuEventRecordWithFlags", 22, 11010}, {"cuEventSynchronize", 18, 2000}, {"cuEventQuery", 12, 2000},
    {"cuEventElapsedTime", 18, 2000}, {"cuEventElapsedTime_v2", 18, 12080}, {"cuProfilerStart", 15, 4000},
    {"cuProfilerStop", 14, 4000}, {"cuTensorMapEncodeTiled", 22, 12000}, {"cuTensorMapEncodeIm2col", 23, 12000},
    {"cuTensorMapEncodeIm2colWide", 27, 12080},
    {"cuTensorMapReplaceAddress", 25, 12000}, {"cuGetExportTable", 16, 3000},
    {"cuPointerGetAttributes", 22, 7000}, {"cuCtxGetId", 10, 12000}, {"cuStreamGetId", 13, 12000},
    {"cuGraphAddEventRecordNode", 25, 11010}, {"cuGraphAddMemAllocNode", 22, 11040}, {"cuGraphAddMemFreeNode", 21, 11040},
    {"cuDeviceGetDefaultMemPool", 25, 11020}, {"cuDeviceGetMemPool", 18, 11020}, {"cuDeviceSetMemPool", 18, 11020},
    {"cuMemPoolCreate", 15, 11020}, {"cuMemPoolDestroy", 16, 11020}, {"cuMemPoolGetAttribute", 21, 11020},
    {"cuMemPoolSetAttribute", 21, 11020}, {"cuMemPoolTrimTo", 15, 11020}, {"cuMemPoolSetAccess", 18, 11020},
    {"cuMemGetDefaultMemPool", 22, 13000}, {"cuMemGetMemPool", 15, 13000}, {"cuMemSetMemPool", 15, 13000},
    {"cuStreamGetDevice", 17, 12080},
    {"cuMemPoolGetAccess", 18, 11020}, {"cuMemAllocFromPoolAsync", 23, 11020},
    {"cuIpcGetMemHandle", 17, 4010}, {"cuIpcOpenMemHandle_v2", 18, 4010}, {"cuIpcCloseMemHandle", 19, 4010},
};

enum { FOUND, NOT_FOUND, TOO_OLD }; /* cudaDriverEntryPointQueryResult, CUdriverProcAddressQueryResult */

static void *own_function(const char *exported)
{
    Dl_info own;
    if (!dladdr((void *)own_function, &own))
        return NULL;
    void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return library ? dlsym(library, exported) : NULL;
}

/* The newest form of a function that `version` knows. */
static int look_up(const char *name, unsigned version, void **function)
{
    int result = NOT_FOUND;
    *function = NULL;
    for (size_t k = 0; k < sizeof ENTRIES / sizeof *ENTRIES; k++) {
        if (strlen(name) != ENTRIES[k].length || strncmp(name, ENTRIES[k].exported, ENTRIES[k].length))
            continue;
        if ((unsigned)ENTRIES[k].since <= version) {
            *function = own_function(ENTRIES[k].exported);
            result = FOUND;
        } else if (result == NOT_FOUND) {
            result = TOO_OLD;
        }
    }
    return result;
}

static error_t_ find_entry(const char *name, void **function, unsigned version, int *result)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!name || !*name || !function))
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        int found = look_up(name, version, function);
        if (result)
            *result = found;
        else if (found != FOUND)
            status = SYMBOL_NOT_FOUND;
    }
    return leave(status);
}

API error_t_ cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *result)
{
    return flags > 2 ? INVALID_VALUE : find_entry(name, function, CUDART * 1000 + 999, result);
}

API error_t_ cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags, int *result)
{
    return flags > 2 ? INVALID_VALUE : find_entry(name, function, version, result);
}

API error_t_ cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *result)
{
    if (flags > 2 || !name || !function)
        return INVALID_VALUE;
    int found = look_up(name, (unsigned)version, function);
    if (result)
        *result = found;
    return found == FOUND ? SUCCESS : SYMBOL_NOT_FOUND;
}

API error_t_ cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

/* The table that NVIDIA's runtime asks for. */
static const unsigned char RUNTIME_TABLE[] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};

/* NVIDIA's libraries ask for tables of private functions, of which there are none here. Its runtime that is linked statically needs
   them, also to make sure that the driver is NVIDIA's: its functions are replaced before (preload/static_runtime.c), but not where
   the program is stripped. NVRTC 13.5 does without, but reads a null pointer where this function does not exist. */
API error_t_ cuGetExportTable(const void **table, const void *id)
{
    if (!table || !id)
        return INVALID_VALUE;
    *table = NULL;
    static bool said;
    Dl_info caller;
    if (!memcmp(id, RUNTIME_TABLE, sizeof RUNTIME_TABLE) && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        fprintf(stderr,
                "warpsight: NVIDIA's runtime in %s was not replaced, because its functions are not named, or the program was started by "
                "another one; its calls of CUDA fail. Link with nvcc -cudart shared, or do not strip the program, and start it itself. "
                "NVIDIA's own libraries (cuBLAS, cuFFT, ...) are stripped and not supported: call kernels in their place\n",
                dladdr(__builtin_return_address(0), &caller) ? caller.dli_fname : "this program");
    return SYMBOL_NOT_FOUND;
}
