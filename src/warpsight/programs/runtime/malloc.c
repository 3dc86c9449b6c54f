/* cudaMalloc and its relatives. Managed and page-locked memory lie in device memory, which the host sees at the same addresses. */
#define _GNU_SOURCE
#include "graphs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define PITCH 512u

static error_t_ give(void **pointer, size_t bytes, enum kind kind, unsigned flags)
{
    error_t_ status = enter();
    if (status == SUCCESS && !pointer)
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        uint64_t address = 0;
        status = bytes ? allocate(bytes, kind, flags, &address) : SUCCESS;
        if (status == SUCCESS)
            *pointer = (void *)address;
    }
    return leave(status);
}

static error_t_ take(void *pointer, bool host)
{
    error_t_ status = enter();
    if (status == SUCCESS && pointer) {
        uint64_t low, high;
        struct allocation *found = find_allocation((uint64_t)pointer, &low, &high);
        if (!found || found->registered || (found->kind == KIND_HOST) != host)
            status = INVALID_VALUE;
        else
            status = release((uint64_t)pointer);
    }
    return leave(status);
}

/* Memory for a library of the host, which kernels may reach too: `preload/static_runtime.c` asks. NULL where there is none. */
API void *__cudaTakeForHost(size_t alignment, size_t bytes)
{
    uint64_t address = 0;
    if (alignment > ALIGNMENT || !enter_for_host())
        return NULL;
    if (allocate(bytes, KIND_TENSOR, 0, &address))
        address = 0;
    leave(SUCCESS);
    return (void *)address;
}

/* Whether the memory was given by that. */
API bool __cudaGiveBackFromHost(void *pointer)
{
    uint64_t low, high;
    if (!in_arena(pointer))
        return false;
    enter_quietly();
    const struct allocation *found = find_allocation((uint64_t)pointer, &low, &high);
    bool ours = found && found->kind == KIND_TENSOR && low == (uint64_t)pointer;
    if (ours && is_connected()) /* a forked process shares the memory, and keeps it */
        release(low);
    leave(SUCCESS);
    return ours;
}

API error_t_ cudaMalloc(void **pointer, size_t bytes) { return give(pointer, bytes, KIND_DEVICE, 0); }
/* A graph that allocates is not provided. */
static error_t_ refuse_capture(void)
{
    enter_quietly();
    warn_once("memory that a captured stream allocates or frees");
    return leave(NOT_SUPPORTED);
}
static error_t_ give_from_pool(void **pointer, size_t bytes, struct pool *pool, void *stream)
{
    if (is_captured(stream))
        return refuse_capture();
    error_t_ status = take_from_pool(pool, bytes);
    if (status != SUCCESS) {
        enter_quietly();
        return leave(status);
    }
    status = give(pointer, bytes, KIND_DEVICE, 0);
    uint64_t low, high;
    if (status == SUCCESS && bytes)
        count_in_pool(pool, find_allocation((uint64_t)*pointer, &low, &high), bytes);
    return status;
}
API error_t_ cudaMallocAsync(void **pointer, size_t bytes, void *stream) { return give_from_pool(pointer, bytes, NULL, stream); }
API error_t_ cudaMallocFromPoolAsync(void **pointer, size_t bytes, struct pool *pool, void *stream)
{
    if (pool)
        return give_from_pool(pointer, bytes, pool, stream);
    enter_quietly();
    return leave(INVALID_VALUE);
}
API error_t_ cudaMallocManaged(void **pointer, size_t bytes, unsigned flags)
{
    if (!bytes || (flags != 1 && flags != 2)) {
        enter_quietly();
        return leave(INVALID_VALUE);
    }
    return give(pointer, bytes, KIND_MANAGED, flags);
}
API error_t_ cudaMallocHost(void **pointer, size_t bytes) { return give(pointer, bytes, KIND_HOST, 0); }
API error_t_ cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) { return give(pointer, bytes, KIND_HOST, flags); }
API error_t_ cudaFree(void *pointer) { return take(pointer, false); }
API error_t_ cudaFreeHost(void *pointer) { return take(pointer, true); }
API error_t_ cudaFreeAsync(void *pointer, void *stream)
{
    if (is_captured(stream))
        return refuse_capture();
    return take(pointer, false);
}

API error_t_ cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    if (!pitch) {
        enter_quietly();
        return leave(INVALID_VALUE);
    }
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return give(pointer, *pitch * height, KIND_DEVICE, 0);
}

API error_t_ cudaMalloc3D(struct pitched *result, struct extent extent)
{
    if (!result) {
        enter_quietly();
        return leave(INVALID_VALUE);
    }
    result->pitch = (extent.width + PITCH - 1) / PITCH * PITCH;
    result->xsize = extent.width;
    result->ysize = extent.height;
    return give(&result->ptr, result->pitch * extent.height * extent.depth, KIND_DEVICE, 0);
}

/* The host's pages are replaced by pages of device memory with the same contents: from then on both names mean the same bytes. */
static error_t_ lock_pages(void *pointer, size_t bytes, unsigned flags)
{
    if (!pointer || !bytes || in_arena(pointer))
        return INVALID_VALUE;
    uint64_t first = (uint64_t)pointer / PAGE * PAGE, last = ((uint64_t)pointer + bytes + PAGE - 1) / PAGE * PAGE, block;
    error_t_ status = allocate(last - first + PAGE, KIND_HOST, flags, &block);
    if (status)
        return status;
    uint64_t address = (block + PAGE - 1) / PAGE * PAGE, low, high;
    memcpy((void *)address, (void *)first, last - first);
    if (mremap((void *)address, 0, last - first, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)first) != (void *)first) {
        release(block);
        return NOT_SUPPORTED;
    }
    struct allocation *found = find_allocation(block, &low, &high);
    found->registered = pointer;
    found->registered_bytes = bytes;
    return SUCCESS;
}

/* The allocation whose host pages hold `pointer`, and the device address of that byte. */
static struct allocation *registered_at(const void *pointer, uint64_t *block, uint64_t *address)
{
    const uint64_t(*row)[3] = (const uint64_t(*)[3])the_table;
    uint64_t low, high;
    for (uint64_t k = 0; k < table_count(); k++) {
        struct allocation *found = find_allocation(row[k][0], &low, &high);
        uint64_t start = (uint64_t)found->registered / PAGE * PAGE;
        if (found->registered && (uint64_t)pointer >= (uint64_t)found->registered &&
            (uint64_t)pointer < (uint64_t)found->registered + found->registered_bytes) {
            *block = low;
            *address = (low + PAGE - 1) / PAGE * PAGE + ((uint64_t)pointer - start);
            return found;
        }
    }
    return NULL;
}

/* Allocated so, managed, or registered. */
bool is_page_locked(const void *host)
{
    uint64_t low, high;
    const struct allocation *found = in_arena(host) ? find_allocation((uint64_t)host, &low, &high) : registered_at(host, &low, &high);
    return found && (found->kind == KIND_HOST || found->kind == KIND_MANAGED || found->registered);
}

API error_t_ cudaHostRegister(void *pointer, size_t bytes, unsigned flags)
{
    error_t_ status = enter();
    uint64_t block, address;
    if (status == SUCCESS)
        status = registered_at(pointer, &block, &address) ? HOST_REGISTERED : lock_pages(pointer, bytes, flags);
    return leave(status);
}

API error_t_ cudaHostUnregister(void *pointer)
{
    error_t_ status = enter();
    uint64_t block, address;
    if (status == SUCCESS) {
        struct allocation *found = registered_at(pointer, &block, &address);
        if (found && found->registered == pointer) {
            size_t bytes = (found->registered_bytes + (uint64_t)pointer % PAGE + PAGE - 1) / PAGE * PAGE;
            void *first = (void *)((uint64_t)pointer / PAGE * PAGE);
            void *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (fresh == MAP_FAILED)
                return leave(MEMORY_ALLOCATION);
            memcpy(fresh, first, bytes);
            mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, first);
            status = release(block);
        } else {
            status = HOST_NOT_REGISTERED;
        }
    }
    return leave(status);
}

API error_t_ cudaHostGetDevicePointer(void **result, void *pointer, unsigned flags)
{
    error_t_ status = enter();
    uint64_t block, address;
    if (status == SUCCESS) {
        if (!result || flags)
            status = INVALID_VALUE;
        else if (in_arena(pointer))
            *result = pointer;
        else if (registered_at(pointer, &block, &address))
            *result = (void *)address;
        else
            status = INVALID_VALUE;
    }
    return leave(status);
}

API error_t_ cudaHostGetFlags(unsigned *flags, void *pointer)
{
    error_t_ status = enter();
    uint64_t low, high;
    if (status == SUCCESS) {
        struct allocation *found = find_allocation((uint64_t)pointer, &low, &high);
        if (flags && found && found->kind == KIND_HOST)
            *flags = found->flags;
        else
            status = INVALID_VALUE;
    }
    return leave(status);
}

struct pointer_attributes { int type, device; void *device_pointer, *host_pointer; long reserved[8]; };

API error_t_ cudaPointerGetAttributes(struct pointer_attributes *result, const void *pointer)
{
    error_t_ status = enter();
    uint64_t low, high, address;
    if (status == SUCCESS && !result)
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        struct allocation *found = find_allocation((uint64_t)pointer, &low, &high);
        *result = (struct pointer_attributes){0, found ? 0 : -2, NULL, (void *)pointer, {0}};
        if (found) {
            result->type = found->kind == KIND_HOST ? 1 : found->kind == KIND_MANAGED ? 3 : 2;
            result->device_pointer = (void *)pointer;
            result->host_pointer = result->type == 2 ? NULL : (void *)pointer;
        } else if (registered_at(pointer, &low, &address)) {
            result->type = 1;
            result->device = 0;
            result->device_pointer = (void *)address;
        }
    }
    return leave(status);
}

API error_t_ cudaMemGetInfo(size_t *available, size_t *total)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!available || !total))
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        size_t used = 0;
        for (uint64_t k = 0; k < table_count(); k++)
            used += ((uint64_t *)the_table)[3 * k + 1] - ((uint64_t *)the_table)[3 * k];
        *total = (size_t)the_device.values[D_MEMORY];
        *available = *total - MODULE_ZONE > used ? *total - MODULE_ZONE - used : 0;
    }
    return leave(status);
}

#if CUDART >= 13
API error_t_ cudaMemPrefetchAsync(const void *pointer, size_t bytes, struct location location, unsigned flags, void *stream)
{
    (void)location, (void)flags, (void)stream;
#else
API error_t_ cudaMemPrefetchAsync(const void *pointer, size_t bytes, int device, void *stream)
{
    (void)device, (void)stream;
#endif
    error_t_ status = enter();
    if (status == SUCCESS && !range_is_live((uint64_t)pointer, bytes))
        status = INVALID_VALUE;
    return leave(status); /* memory is always where it is needed */
}

#if CUDART >= 13
API error_t_ cudaMemAdvise(const void *pointer, size_t bytes, int advice, struct location location)
{
    (void)advice, (void)location;
#else
API error_t_ cudaMemAdvise(const void *pointer, size_t bytes, int advice, int device)
{
    (void)advice, (void)device;
#endif
    error_t_ status = enter();
    if (status == SUCCESS && !range_is_live((uint64_t)pointer, bytes))
        status = INVALID_VALUE;
    return leave(status);
}
