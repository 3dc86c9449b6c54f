/* The driver's interface: devices, contexts, memory, streams and events. There is one device, and its contexts share one memory. */
#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_INITIALIZED = 3, INVALID_CONTEXT = 201 };
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT };

typedef uint64_t address_t;

/* -- Contexts: a stack of each thread. The runtime's first call makes the primary context current. */

#define MOST_CONTEXTS 64

struct context { unsigned flags; bool primary; uint64_t id; };

static struct context primary = {0, true, 1};
static uint64_t last_id = 1;
static int primary_users;
static bool initialized;
static __thread struct context *stack[MOST_CONTEXTS];
static __thread int depth;

static struct context *current(void)
{
    if (depth)
        return stack[depth - 1];
    return runtime_was_called() ? &primary : NULL;
}

/* A stream belongs to a context: where it is named, none has to be current. The handles up to 2 are the default streams. */
#define FORWARD_ON(stream, call) \
    do { error_t_ refused_ = enter_driver((uintptr_t)(stream) <= 2); return leave_driver(refused_ ? refused_ : (call)); } while (0)

error_t_ enter_driver(bool needs_context)
{
    begin_driver_call();
    if (!initialized && !runtime_was_called())
        return NOT_INITIALIZED;
    return needs_context && !current() ? INVALID_CONTEXT : SUCCESS;
}

/* The runtime's error codes are the driver's, but for these. */
error_t_ leave_driver(error_t_ result)
{
    end_driver_call();
    switch (result) {
    case INVALID_CONFIGURATION: case INVALID_PITCH: case INVALID_DIRECTION: return INVALID_VALUE;
    case INVALID_SYMBOL: case INVALID_DEVICE_FUNCTION: return SYMBOL_NOT_FOUND;
    default: return result;
    }
}

API error_t_ cuInit(unsigned flags)
{
    int count;
    if (flags)
        return INVALID_VALUE;
    begin_driver_call();
    error_t_ status = leave_driver(cudaGetDeviceCount(&count));
    initialized = initialized || status == SUCCESS;
    return status;
}

static error_t_ put(void *where, struct context *context)
{
    if (!where)
        return INVALID_VALUE;
    *(struct context **)where = context;
    return SUCCESS;
}

static error_t_ push(struct context *context)
{
    if (!context || depth == MOST_CONTEXTS)
        return INVALID_VALUE;
    stack[depth++] = context;
    return SUCCESS;
}

static error_t_ create(void **result, unsigned flags, int device)
{
    if (!result || device)
        return device ? INVALID_DEVICE : INVALID_VALUE;
    struct context *context = malloc(sizeof *context);
    if (!context)
        return MEMORY_ALLOCATION;
    *context = (struct context){flags, false, __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED)};
    *result = context;
    return push(context);
}

API error_t_ cuCtxCreate_v2(void **result, unsigned flags, int device) { FORWARD_PLAIN(create(result, flags, device)); }
API error_t_ cuCtxCreate_v3(void **result, void *affinity, int count, unsigned flags, int device)
{
    (void)affinity;
    FORWARD_PLAIN(count ? NOT_SUPPORTED : create(result, flags, device));
}
API error_t_ cuCtxCreate_v4(void **result, void *parameters, unsigned flags, int device)
{
    FORWARD_PLAIN(parameters ? NOT_SUPPORTED : create(result, flags, device));
}

static error_t_ destroy(struct context *context)
{
    if (!context || context->primary)
        return INVALID_CONTEXT;
    if (depth && stack[depth - 1] == context)
        depth--;
    free(context);
    return SUCCESS;
}

static error_t_ pop(void **result)
{
    if (!depth)
        return INVALID_CONTEXT;
    struct context *top = stack[--depth];
    if (result)
        *result = top;
    return SUCCESS;
}

static error_t_ set_current(struct context *context)
{
    if (depth)
        depth--;
    return context ? push(context) : SUCCESS;
}

static error_t_ flags_of(unsigned *flags)
{
    if (!flags)
        return INVALID_VALUE;
    *flags = current()->flags;
    return SUCCESS;
}

static error_t_ id_of(struct context *context, unsigned long long *id)
{
    context = context ? context : current();
    if (!context || !id)
        return context ? INVALID_VALUE : INVALID_CONTEXT;
    *id = context->id;
    return SUCCESS;
}

API error_t_ cuCtxDestroy_v2(void *context) { FORWARD_PLAIN(destroy(context)); }
API error_t_ cuCtxPushCurrent_v2(void *context) { FORWARD_PLAIN(context ? push(context) : INVALID_CONTEXT); }
API error_t_ cuCtxPopCurrent_v2(void **result) { FORWARD_PLAIN(pop(result)); }
API error_t_ cuCtxSetCurrent(void *context) { FORWARD_PLAIN(set_current(context)); }
API error_t_ cuCtxGetCurrent(void **result) { FORWARD_PLAIN(put(result, current())); }
API error_t_ cuCtxGetDevice(int *device) { FORWARD(cudaGetDevice(device)); }
API error_t_ cuCtxGetId(void *context, unsigned long long *id) { FORWARD_PLAIN(id_of(context, id)); }
API error_t_ cuCtxGetFlags(unsigned *flags) { FORWARD(flags_of(flags)); }
API error_t_ cuCtxSynchronize(void) { FORWARD(cudaDeviceSynchronize()); }
API error_t_ cuCtxGetLimit(size_t *result, unsigned which) { FORWARD(cudaDeviceGetLimit(result, which)); }
API error_t_ cuCtxSetLimit(unsigned which, size_t wanted) { FORWARD(cudaDeviceSetLimit(which, wanted)); }
API error_t_ cuCtxGetStreamPriorityRange(int *least, int *greatest) { FORWARD(cudaDeviceGetStreamPriorityRange(least, greatest)); }

static error_t_ retain(void **result, int device)
{
    primary_users += !device;
    return device ? INVALID_DEVICE : put(result, &primary);
}

static error_t_ set_primary_flags(int device, unsigned flags)
{
    primary.flags = device ? primary.flags : flags;
    return device ? INVALID_DEVICE : SUCCESS;
}

static error_t_ release_primary(int device)
{
    if (device || !primary_users)
        return device ? INVALID_DEVICE : INVALID_CONTEXT;
    primary_users--;
    return SUCCESS;
}

static error_t_ primary_state(int device, unsigned *flags, int *active)
{
    if (device || !flags || !active)
        return device ? INVALID_DEVICE : INVALID_VALUE;
    *flags = primary.flags;
    *active = primary_users > 0 || runtime_was_called();
    return SUCCESS;
}

API error_t_ cuDevicePrimaryCtxRetain(void **result, int device) { FORWARD_PLAIN(retain(result, device)); }
API error_t_ cuDevicePrimaryCtxRelease_v2(int device) { FORWARD_PLAIN(release_primary(device)); }
API error_t_ cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { FORWARD_PLAIN(set_primary_flags(device, flags)); }
API error_t_ cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { FORWARD_PLAIN(primary_state(device, flags, active)); }
API error_t_ cuDevicePrimaryCtxReset_v2(int device) { FORWARD_PLAIN(device ? INVALID_DEVICE : cudaDeviceReset()); }

/* -- Devices. */

static error_t_ number_device(int *device, int number)
{
    if (!device || number)
        return device ? INVALID_DEVICE : INVALID_VALUE;
    *device = 0;
    return SUCCESS;
}

static error_t_ name_device(char *text, int length, int device)
{
    if (!text || length < 1 || device)
        return device ? INVALID_DEVICE : INVALID_VALUE;
    size_t bytes = strnlen(the_device.name, (size_t)length - 1);
    memcpy(text, the_device.name, bytes);
    text[bytes] = 0;
    return SUCCESS;
}

static error_t_ device_memory(size_t *bytes, int device)
{
    size_t available;
    return device ? INVALID_DEVICE : cudaMemGetInfo(&available, bytes);
}

static error_t_ device_uuid(char uuid[16], int device)
{
    if (!uuid || device)
        return device ? INVALID_DEVICE : INVALID_VALUE;
    memset(uuid, 0, 16);
    memcpy(uuid, "warpsight", 9);
    return SUCCESS;
}

API error_t_ cuDriverGetVersion(int *version) { return version ? cudaDriverGetVersion(version) : INVALID_VALUE; }
API error_t_ cuDeviceGet(int *device, int number) { FORWARD_PLAIN(number_device(device, number)); }
API error_t_ cuDeviceGetCount(int *count) { FORWARD_PLAIN(cudaGetDeviceCount(count)); }
API error_t_ cuDeviceGetAttribute(int *value, int which, int device) { FORWARD_PLAIN(cudaDeviceGetAttribute(value, which, device)); }
API error_t_ cuDeviceGetName(char *text, int length, int device) { FORWARD_PLAIN(name_device(text, length, device)); }
API error_t_ cuDeviceTotalMem_v2(size_t *bytes, int device) { FORWARD_PLAIN(device_memory(bytes, device)); }
API error_t_ cuDeviceGetUuid_v2(char uuid[16], int device) { FORWARD_PLAIN(device_uuid(uuid, device)); }
API error_t_ cuDeviceGetPCIBusId(char *text, int length, int device) { FORWARD_PLAIN(cudaDeviceGetPCIBusId(text, length, device)); }
API error_t_ cuDeviceGetByPCIBusId(int *device, const char *text) { FORWARD_PLAIN(cudaDeviceGetByPCIBusId(device, text)); }

/* -- Memory. */

/* CUpointer_attribute. */
enum { CONTEXT = 1, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER, IS_MANAGED = 8, ORDINAL, RANGE_START = 11, RANGE_SIZE, MAPPED };

static error_t_ pointer_attribute(void *result, int which, const void *pointer)
{
    uint64_t low, high;
    struct allocation *found = find_allocation((uint64_t)pointer, &low, &high);
    if (!result || !found)
        return INVALID_VALUE;
    switch (which) {
    case CONTEXT: return put(result, current());
    case MEMORY_TYPE: *(unsigned *)result = found->kind == KIND_HOST ? 1 : 2; return SUCCESS;
    case DEVICE_POINTER: *(const void **)result = pointer; return SUCCESS;
    case HOST_POINTER: *(const void **)result = pointer; return found->kind == KIND_DEVICE ? INVALID_VALUE : SUCCESS;
    case IS_MANAGED: *(unsigned *)result = found->kind == KIND_MANAGED; return SUCCESS;
    case ORDINAL: *(int *)result = 0; return SUCCESS;
    case RANGE_START: *(uint64_t *)result = low; return SUCCESS;
    case RANGE_SIZE: *(size_t *)result = high - low; return SUCCESS;
    case MAPPED: *(bool *)result = true; return SUCCESS;
    default: return NOT_SUPPORTED;
    }
}

/* What a pointer has not, in an answer to several questions at once: that is no error there. */
static error_t_ no_attribute(void *result, int which)
{
    switch (which) {
    case CONTEXT: case DEVICE_POINTER: case HOST_POINTER: case RANGE_START: case RANGE_SIZE: *(uint64_t *)result = 0; return SUCCESS;
    case MEMORY_TYPE: case IS_MANAGED: *(unsigned *)result = 0; return SUCCESS;
    case ORDINAL: *(int *)result = -2; return SUCCESS; /* CU_DEVICE_INVALID */
    case MAPPED: *(bool *)result = false; return SUCCESS;
    default: return NOT_SUPPORTED;
    }
}

static error_t_ pointer_attributes(unsigned count, const int *which, void **results, const void *pointer)
{
    if (!count || !which || !results)
        return INVALID_VALUE;
    for (unsigned k = 0; k < count; k++) {
        error_t_ status = pointer_attribute(results[k], which[k], pointer);
        if (status == INVALID_VALUE && results[k])
            status = no_attribute(results[k], which[k]);
        if (status != SUCCESS)
            return status;
    }
    return SUCCESS;
}

static error_t_ range_of(address_t *start, size_t *bytes, address_t pointer)
{
    uint64_t low, high;
    if (!find_allocation(pointer, &low, &high))
        return SYMBOL_NOT_FOUND;
    if (start)
        *start = low;
    if (bytes)
        *bytes = high - low;
    return SUCCESS;
}

static error_t_ fill(address_t to, size_t pitch, uint32_t value, size_t element, size_t width, size_t height, void *stream)
{
    error_t_ status = enter();
    if (status == SUCCESS && to % element)
        status = INVALID_VALUE;
    return leave(status ? status : fill_elements((void *)to, pitch, value, element, width * element, height, stream));
}

#define TO ((void *)to)
#define FROM ((const void *)from)

API error_t_ cuMemAlloc_v2(void **pointer, size_t bytes) { FORWARD(bytes ? cudaMalloc(pointer, bytes) : INVALID_VALUE); }
API error_t_ cuMemAllocAsync(void **pointer, size_t bytes, void *stream) { FORWARD(cudaMallocAsync(pointer, bytes, stream)); }
API error_t_ cuMemAllocFromPoolAsync(void **pointer, size_t bytes, struct pool *pool, void *stream)
{
    FORWARD_ON(stream, cudaMallocFromPoolAsync(pointer, bytes, pool, stream));
}
API error_t_ cuMemAllocManaged(void **pointer, size_t bytes, unsigned flags) { FORWARD(cudaMallocManaged(pointer, bytes, flags)); }
API error_t_ cuMemAllocHost_v2(void **pointer, size_t bytes) { FORWARD(cudaHostAlloc(pointer, bytes, 0)); }
API error_t_ cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) { FORWARD(cudaHostAlloc(pointer, bytes, flags)); }
API error_t_ cuMemAllocPitch_v2(void **pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
    FORWARD(element != 4 && element != 8 && element != 16 ? INVALID_VALUE : cudaMallocPitch(pointer, pitch, width, height));
}
API error_t_ cuMemFree_v2(address_t pointer) { FORWARD(cudaFree((void *)pointer)); }
API error_t_ cuMemFreeAsync(address_t pointer, void *stream) { FORWARD_ON(stream, cudaFreeAsync((void *)pointer, stream)); }
API error_t_ cuMemFreeHost(void *pointer) { FORWARD(cudaFreeHost(pointer)); }
API error_t_ cuMemHostGetDevicePointer_v2(void **result, void *host, unsigned flags)
{
    FORWARD(cudaHostGetDevicePointer(result, host, flags));
}
API error_t_ cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) { FORWARD(cudaHostRegister(pointer, bytes, flags)); }
API error_t_ cuMemHostUnregister(void *pointer) { FORWARD(cudaHostUnregister(pointer)); }
API error_t_ cuMemGetInfo_v2(size_t *available, size_t *total) { FORWARD(cudaMemGetInfo(available, total)); }
API error_t_ cuMemGetAddressRange_v2(address_t *start, size_t *bytes, address_t pointer) { FORWARD(range_of(start, bytes, pointer)); }
API error_t_ cuPointerGetAttribute(void *result, int which, address_t pointer)
{
    FORWARD(pointer_attribute(result, which, (void *)pointer));
}
API error_t_ cuPointerGetAttributes(unsigned count, const int *which, void **results, address_t pointer)
{
    FORWARD(pointer_attributes(count, which, results, (void *)pointer));
}

API error_t_ cuMemcpy(address_t to, address_t from, size_t n) { FORWARD(cudaMemcpy(TO, FROM, n, DEFAULT)); }
API error_t_ cuMemcpyAsync(address_t to, address_t from, size_t n, void *stream) { FORWARD(cudaMemcpyAsync(TO, FROM, n, DEFAULT, stream)); }
API error_t_ cuMemcpyHtoD_v2(address_t to, const void *from, size_t n) { FORWARD(cudaMemcpy(TO, from, n, HOST_TO_DEVICE)); }
API error_t_ cuMemcpyDtoH_v2(void *to, address_t from, size_t n) { FORWARD(cudaMemcpy(to, FROM, n, DEVICE_TO_HOST)); }
API error_t_ cuMemcpyDtoD_v2(address_t to, address_t from, size_t n) { FORWARD(cudaMemcpy(TO, FROM, n, DEVICE_TO_DEVICE)); }
API error_t_ cuMemcpyHtoDAsync_v2(address_t to, const void *from, size_t n, void *stream)
{
    FORWARD(cudaMemcpyAsync(TO, from, n, HOST_TO_DEVICE, stream));
}
API error_t_ cuMemcpyDtoHAsync_v2(void *to, address_t from, size_t n, void *stream)
{
    FORWARD(cudaMemcpyAsync(to, FROM, n, DEVICE_TO_HOST, stream));
}
API error_t_ cuMemcpyDtoDAsync_v2(address_t to, address_t from, size_t n, void *stream)
{
    FORWARD(cudaMemcpyAsync(TO, FROM, n, DEVICE_TO_DEVICE, stream));
}

API error_t_ cuMemsetD8_v2(address_t to, unsigned char value, size_t n) { FORWARD(fill(to, n, value, 1, n, 1, NULL)); }
API error_t_ cuMemsetD16_v2(address_t to, unsigned short value, size_t n) { FORWARD(fill(to, 2 * n, value, 2, n, 1, NULL)); }
API error_t_ cuMemsetD32_v2(address_t to, unsigned value, size_t n) { FORWARD(fill(to, 4 * n, value, 4, n, 1, NULL)); }
API error_t_ cuMemsetD8Async(address_t to, unsigned char value, size_t n, void *stream)
{
    FORWARD_ON(stream, fill(to, n, value, 1, n, 1, stream));
}
API error_t_ cuMemsetD16Async(address_t to, unsigned short value, size_t n, void *stream)
{
    FORWARD_ON(stream, fill(to, 2 * n, value, 2, n, 1, stream));
}
API error_t_ cuMemsetD32Async(address_t to, unsigned value, size_t n, void *stream)
{
    FORWARD_ON(stream, fill(to, 4 * n, value, 4, n, 1, stream));
}
API error_t_ cuMemsetD2D8_v2(address_t to, size_t pitch, unsigned char value, size_t width, size_t height)
{
    FORWARD(fill(to, pitch, value, 1, width, height, NULL));
}
API error_t_ cuMemsetD2D32_v2(address_t to, size_t pitch, unsigned value, size_t width, size_t height)
{
    FORWARD(fill(to, pitch, value, 4, width, height, NULL));
}

/* -- Streams and events. */

static error_t_ create_stream(void **stream, unsigned flags, int priority)
{
    error_t_ status = cudaStreamCreateWithPriority(stream, flags, priority);
    if (status == SUCCESS)
        stream_of(*stream)->context = current();
    return status;
}

static error_t_ context_of(void *stream, void **context)
{
    unsigned flags;
    error_t_ status = cudaStreamGetFlags(stream, &flags);
    if (status != SUCCESS)
        return status;
    struct stream *found = stream_of(stream);
    return put(context, is_shared_stream(found) ? current() : found->context ? found->context : &primary);
}

API error_t_ cuStreamCreate(void **stream, unsigned flags) { FORWARD(create_stream(stream, flags, 0)); }
API error_t_ cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { FORWARD(create_stream(stream, flags, priority)); }
API error_t_ cuStreamDestroy_v2(void *stream) { FORWARD_ON(stream, cudaStreamDestroy(stream)); }
API error_t_ cuStreamSynchronize(void *stream) { FORWARD_ON(stream, cudaStreamSynchronize(stream)); }
API error_t_ cuStreamQuery(void *stream) { FORWARD_ON(stream, cudaStreamQuery(stream)); }
API error_t_ cuStreamWaitEvent(void *stream, void *event, unsigned flags) { FORWARD_ON(stream, cudaStreamWaitEvent(stream, event, flags)); }
API error_t_ cuStreamGetFlags(void *stream, unsigned *flags) { FORWARD_ON(stream, cudaStreamGetFlags(stream, flags)); }
API error_t_ cuStreamGetDevice(void *stream, int *device) { FORWARD_ON(stream, cudaStreamGetDevice(stream, device)); }
API error_t_ cuStreamGetId(void *stream, unsigned long long *id) { FORWARD_ON(stream, cudaStreamGetId(stream, id)); }
API error_t_ cuStreamGetPriority(void *stream, int *priority) { FORWARD_ON(stream, cudaStreamGetPriority(stream, priority)); }
API error_t_ cuStreamGetCtx(void *stream, void **context) { FORWARD_ON(stream, context_of(stream, context)); }
API error_t_ cuStreamAddCallback(void *stream, void (*call)(void *, error_t_, void *), void *data, unsigned flags)
{
    FORWARD_ON(stream, cudaStreamAddCallback(stream, call, data, flags));
}
API error_t_ cuLaunchHostFunc(void *stream, void (*call)(void *), void *data)
{
    FORWARD_ON(stream, cudaLaunchHostFunc(stream, call, data));
}
API error_t_ cuEventCreate(void **event, unsigned flags) { FORWARD(cudaEventCreateWithFlags(event, flags)); }
API error_t_ cuEventDestroy_v2(void *event) { FORWARD_PLAIN(cudaEventDestroy(event)); }
API error_t_ cuEventRecord(void *event, void *stream) { FORWARD_ON(stream, cudaEventRecord(event, stream)); }
API error_t_ cuEventRecordWithFlags(void *event, void *stream, unsigned flags)
{
    FORWARD_ON(stream, cudaEventRecordWithFlags(event, stream, flags));
}
API error_t_ cuEventSynchronize(void *event) { FORWARD_PLAIN(cudaEventSynchronize(event)); }
API error_t_ cuEventQuery(void *event) { FORWARD_PLAIN(cudaEventQuery(event)); }
API error_t_ cuEventElapsedTime(float *milliseconds, void *from, void *to) { FORWARD_PLAIN(cudaEventElapsedTime(milliseconds, from, to)); }
API error_t_ cuEventElapsedTime_v2(float *milliseconds, void *from, void *to)
{
    FORWARD_PLAIN(cudaEventElapsedTime(milliseconds, from, to));
}
API error_t_ cuProfilerStart(void) { return SUCCESS; }
API error_t_ cuProfilerStop(void) { return SUCCESS; }
