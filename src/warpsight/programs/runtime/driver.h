/* The driver's interface is the runtime's under other names: its functions call those below, between `enter_driver` and `leave_driver`. */
#ifndef WARPSIGHT_DRIVER_H
#define WARPSIGHT_DRIVER_H

#include "runtime.h"

/* `call` is made where a context is current, or, for PLAIN, where cuInit has been called. */
#define FORWARD(call) do { error_t_ refused_ = enter_driver(true); return leave_driver(refused_ ? refused_ : (call)); } while (0)
#define FORWARD_PLAIN(call) do { error_t_ refused_ = enter_driver(false); return leave_driver(refused_ ? refused_ : (call)); } while (0)

error_t_ enter_driver(bool needs_context);
error_t_ leave_driver(error_t_ result);

enum { FILE_NOT_FOUND = 301 };
char *read_file(const char *path, size_t *size);                                /* NULL if it cannot be read */
void read_options(const int *options, void **values, unsigned count); /* of a compilation: logs stay empty */

struct attribute { int id; char pad[4]; union { char bytes[64]; int integer; unsigned dims[3]; void *pointer; } value; };
struct launch_config { struct dim3 grid, block; size_t shared; void *stream; struct attribute *attributes; unsigned count; };

API error_t_ cudaDeviceGetByPCIBusId(int *device, const char *text);
API error_t_ cudaDeviceGetLimit(size_t *result, unsigned which);
API error_t_ cudaDeviceGetPCIBusId(char *text, int length, int device);
API error_t_ cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
API error_t_ cudaDeviceReset(void);
API error_t_ cudaDeviceSetLimit(unsigned which, size_t wanted);
API error_t_ cudaDeviceSynchronize(void);
API error_t_ cudaEventCreateWithFlags(void **result, unsigned flags);
API error_t_ cudaEventDestroy(void *event);
API error_t_ cudaEventElapsedTime(float *milliseconds, void *from, void *to);
API error_t_ cudaEventQuery(void *event);
API error_t_ cudaEventRecord(void *event, void *stream);
API error_t_ cudaEventRecordWithFlags(void *event, void *stream, unsigned flags);
API error_t_ cudaEventSynchronize(void *event);
API error_t_ cudaFree(void *pointer);
API error_t_ cudaFreeAsync(void *pointer, void *stream);
API error_t_ cudaFreeHost(void *pointer);
API error_t_ cudaFuncGetName(const char **name, const void *key);
API error_t_ cudaFuncSetAttribute(const void *key, int attribute, int value);
API error_t_ cudaFuncSetCacheConfig(const void *key, int config);
API error_t_ cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
API error_t_ cudaHostGetDevicePointer(void **result, void *pointer, unsigned flags);
API error_t_ cudaHostRegister(void *pointer, size_t bytes, unsigned flags);
API error_t_ cudaHostUnregister(void *pointer);
API error_t_ cudaLaunchCooperativeKernel(const void *key, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                                         void *stream);
API error_t_ cudaLaunchHostFunc(void *stream, void (*call)(void *), void *data);
API error_t_ cudaLaunchKernel(const void *key, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream);
API error_t_ cudaLaunchKernelExC(const struct launch_config *config, const void *key, void **arguments);
API error_t_ cudaMalloc(void **pointer, size_t bytes);
API error_t_ cudaMallocAsync(void **pointer, size_t bytes, void *stream);
API error_t_ cudaMallocFromPoolAsync(void **pointer, size_t bytes, struct pool *pool, void *stream);
API error_t_ cudaMallocManaged(void **pointer, size_t bytes, unsigned flags);
API error_t_ cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);
API error_t_ cudaMemGetInfo(size_t *available, size_t *total);
API error_t_ cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
API error_t_ cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
API error_t_ cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, void *stream);
API error_t_ cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *key, int threads, size_t shared,
                                                                    unsigned flags);
API error_t_ cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *key, int blocks, int threads);
API error_t_ cudaOccupancyMaxActiveClusters(int *clusters, const void *key, const struct launch_config *config);
API error_t_ cudaOccupancyMaxPotentialClusterSize(int *size, const void *key, const struct launch_config *config);
API error_t_ cudaStreamAddCallback(void *stream, void (*call)(void *, error_t_, void *), void *data, unsigned flags);
API error_t_ cudaStreamCreateWithPriority(void **result, unsigned flags, int priority);
API error_t_ cudaStreamDestroy(void *stream);
API error_t_ cudaStreamGetDevice(void *stream, int *device);
API error_t_ cudaStreamGetFlags(void *stream, unsigned *flags);
API error_t_ cudaStreamGetId(void *stream, unsigned long long *id);
API error_t_ cudaStreamGetPriority(void *stream, int *priority);
API error_t_ cudaStreamQuery(void *stream);
API error_t_ cudaStreamSynchronize(void *stream);
API error_t_ cudaStreamWaitEvent(void *stream, void *event, unsigned flags);

/* libraries.c */
API error_t_ cudaLibraryGetGlobal(void **address, size_t *bytes, void *library, const char *name);
API error_t_ cudaLibraryGetKernel(void **kernel, void *library, const char *name);
API error_t_ cudaLibraryLoadData(void **library, const void *image, const int *options, void **values, unsigned count, const int *more,
                                 void **more_values, unsigned more_count);
API error_t_ cudaLibraryLoadFromFile(void **library, const char *path, const int *options, void **values, unsigned count, const int *more,
                                     void **more_values, unsigned more_count);
API error_t_ cudaLibraryUnload(void *library);

/* copy.c */
error_t_ fill_elements(void *to, size_t pitch, uint32_t value, size_t element, size_t width, size_t height, void *stream);

#endif
