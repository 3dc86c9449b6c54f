/* Memory pools, from which cudaMallocAsync takes memory. All memory lies in one heap: a pool counts what it has given. What is freed goes
   back to the heap at once, so that a pool reserves what is in use, in pages of the GPU. */
#include "driver.h"

#include <stdlib.h>

#define GPU_PAGE (2ull << 20)

enum { REUSES = 3, RELEASE_THRESHOLD, RESERVED_NOW, RESERVED_MOST, USED_NOW, USED_MOST }; /* cudaMemPoolAttr; before these three of reuse */
enum { PINNED = 1, OF_DEVICE = 1, READ_WRITE = 3 };                                        /* type, place and access of memory */

struct pool {
    uint64_t used, most_used, threshold, limit; /* bytes; no limit is 0 */
    int reuse[REUSES];
    bool destroyed;
    struct pool *next;
};
struct pool_properties { int type, handles; struct location location; void *security; size_t limit; unsigned char reserved[56]; };
struct pool_access { struct location location; int flags; };

static struct pool of_device = {.reuse = {1, 1, 1}};
static struct pool *current = &of_device, *made;

static uint64_t pages(uint64_t bytes) { return (bytes + GPU_PAGE - 1) / GPU_PAGE * GPU_PAGE; }

static bool is_pool(const struct pool *pool)
{
    const struct pool *each = made;
    while (each && each != pool)
        each = each->next;
    return pool == &of_device || (each && !each->destroyed);
}

static void discard(struct pool *pool)
{
    struct pool **link = &made;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    free(pool);
}

void pools_reset(void)
{
    while (made)
        discard(made);
    of_device = (struct pool){.reuse = {1, 1, 1}};
    current = &of_device;
}

error_t_ take_from_pool(struct pool *pool, uint64_t bytes)
{
    pool = pool ? pool : current;
    if (!is_pool(pool))
        return INVALID_VALUE;
    return pool->limit && bytes > pool->limit - pool->used ? MEMORY_ALLOCATION : SUCCESS;
}

void count_in_pool(struct pool *pool, struct allocation *given, uint64_t bytes)
{
    given->pool = pool = pool ? pool : current;
    pool->used += bytes;
    if (pool->used > pool->most_used)
        pool->most_used = pool->used;
}

void give_back_to_pool(struct pool *pool, uint64_t bytes)
{
    pool->used -= bytes;
    if (pool->destroyed && !pool->used)
        discard(pool);
}

API error_t_ cudaMemPoolCreate(struct pool **result, const struct pool_properties *properties)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!result || !properties))
        status = INVALID_VALUE;
    if (status == SUCCESS && (properties->type != PINNED || properties->location.type != OF_DEVICE || properties->handles)) {
        warn_once(properties->handles ? "a memory pool with handles for other processes" : "a memory pool that is not of the device");
        status = NOT_SUPPORTED;
    }
    if (status == SUCCESS && properties->location.id)
        status = INVALID_DEVICE;
    if (status == SUCCESS) {
        struct pool *pool = malloc(sizeof *pool);
        if (!pool)
            return leave(MEMORY_ALLOCATION);
        *pool = (struct pool){.limit = properties->limit, .reuse = {1, 1, 1}, .next = made};
        *result = made = pool;
    }
    return leave(status);
}

API error_t_ cudaMemPoolDestroy(struct pool *pool)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!is_pool(pool) || pool == &of_device))
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        if (pool == current)
            current = &of_device;
        pool->destroyed = true; /* it exists until all of its memory is free */
        if (!pool->used)
            discard(pool);
    }
    return leave(status);
}

API error_t_ cudaMemPoolSetAttribute(struct pool *pool, unsigned attribute, const void *value)
{
    error_t_ status = enter();
    if (status == SUCCESS) {
        if (!is_pool(pool) || !value)
            status = INVALID_VALUE;
        else if (attribute >= 1 && attribute <= REUSES)
            pool->reuse[attribute - 1] = *(const int *)value;
        else if (attribute == RELEASE_THRESHOLD)
            pool->threshold = *(const uint64_t *)value;
        else if ((attribute == RESERVED_MOST || attribute == USED_MOST) && !*(const uint64_t *)value)
            pool->most_used = pool->used;
        else
            status = INVALID_VALUE;
    }
    return leave(status);
}

API error_t_ cudaMemPoolGetAttribute(struct pool *pool, unsigned attribute, void *value)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!is_pool(pool) || !value))
        status = INVALID_VALUE;
    if (status != SUCCESS)
        return leave(status);
    switch (attribute) {
    case 1: case 2: case REUSES: *(int *)value = pool->reuse[attribute - 1]; break;
    case RELEASE_THRESHOLD: *(uint64_t *)value = pool->threshold; break;
    case RESERVED_NOW: *(uint64_t *)value = pages(pool->used); break;
    case RESERVED_MOST: *(uint64_t *)value = pages(pool->most_used); break;
    case USED_NOW: *(uint64_t *)value = pool->used; break;
    case USED_MOST: *(uint64_t *)value = pool->most_used; break;
    default: status = INVALID_VALUE;
    }
    return leave(status);
}

API error_t_ cudaMemPoolTrimTo(struct pool *pool, size_t least)
{
    (void)least; /* nothing is kept that is not in use */
    error_t_ status = enter();
    return leave(status == SUCCESS && !is_pool(pool) ? INVALID_VALUE : status);
}

API error_t_ cudaMemPoolSetAccess(struct pool *pool, const struct pool_access *list, size_t count)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!is_pool(pool) || (count && !list)))
        status = INVALID_VALUE;
    for (size_t k = 0; status == SUCCESS && k < count; k++) /* a pool's own device has access, always */
        if (list[k].location.type != OF_DEVICE || list[k].flags != READ_WRITE)
            status = INVALID_VALUE;
        else if (list[k].location.id)
            status = INVALID_DEVICE;
    return leave(status);
}

API error_t_ cudaMemPoolGetAccess(int *flags, struct pool *pool, const struct location *location)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!flags || !is_pool(pool) || !location || location->type != OF_DEVICE))
        status = INVALID_VALUE;
    if (status == SUCCESS && location->id)
        status = INVALID_DEVICE;
    if (status == SUCCESS)
        *flags = READ_WRITE;
    return leave(status);
}

static error_t_ get_pool(struct pool **result, struct pool *pool, int device)
{
    error_t_ status = enter();
    if (status == SUCCESS && device)
        status = INVALID_DEVICE;
    if (status == SUCCESS && !result)
        status = INVALID_VALUE;
    if (status == SUCCESS)
        *result = pool;
    return leave(status);
}

API error_t_ cudaDeviceGetDefaultMemPool(struct pool **result, int device) { return get_pool(result, &of_device, device); }
API error_t_ cudaDeviceGetMemPool(struct pool **result, int device) { return get_pool(result, current, device); }
API error_t_ cudaDeviceSetMemPool(int device, struct pool *pool)
{
    error_t_ status = enter();
    if (status == SUCCESS && device)
        status = INVALID_DEVICE;
    if (status == SUCCESS && !is_pool(pool))
        status = INVALID_VALUE;
    if (status == SUCCESS)
        current = pool;
    return leave(status);
}

/* CUDA 13 asks by place and type of the memory. */
static error_t_ has_pools(const struct location *location, int type)
{
    if (!location)
        return INVALID_VALUE;
    if (type != PINNED || location->type != OF_DEVICE) {
        warn_once("a memory pool that is not of the device");
        return NOT_SUPPORTED;
    }
    return location->id ? INVALID_DEVICE : SUCCESS;
}

static error_t_ refused(error_t_ status)
{
    enter_quietly();
    return leave(status);
}

API error_t_ cudaMemGetDefaultMemPool(struct pool **result, const struct location *location, int type)
{
    error_t_ status = has_pools(location, type);
    return status == SUCCESS ? get_pool(result, &of_device, location->id) : refused(status);
}
API error_t_ cudaMemGetMemPool(struct pool **result, const struct location *location, int type)
{
    error_t_ status = has_pools(location, type);
    return status == SUCCESS ? get_pool(result, current, location->id) : refused(status);
}
API error_t_ cudaMemSetMemPool(const struct location *location, int type, struct pool *pool)
{
    error_t_ status = has_pools(location, type);
    return status == SUCCESS ? cudaDeviceSetMemPool(location->id, pool) : refused(status);
}

API error_t_ cuMemGetDefaultMemPool(struct pool **result, const struct location *location, int type)
{
    FORWARD_PLAIN(cudaMemGetDefaultMemPool(result, location, type));
}
API error_t_ cuMemGetMemPool(struct pool **result, const struct location *location, int type)
{
    FORWARD_PLAIN(cudaMemGetMemPool(result, location, type));
}
API error_t_ cuMemSetMemPool(const struct location *location, int type, struct pool *pool)
{
    FORWARD_PLAIN(cudaMemSetMemPool(location, type, pool));
}
API error_t_ cuDeviceGetDefaultMemPool(struct pool **result, int device) { FORWARD_PLAIN(cudaDeviceGetDefaultMemPool(result, device)); }
API error_t_ cuDeviceGetMemPool(struct pool **result, int device) { FORWARD_PLAIN(cudaDeviceGetMemPool(result, device)); }
API error_t_ cuDeviceSetMemPool(int device, struct pool *pool) { FORWARD_PLAIN(cudaDeviceSetMemPool(device, pool)); }
API error_t_ cuMemPoolCreate(struct pool **result, const struct pool_properties *properties)
{
    FORWARD_PLAIN(cudaMemPoolCreate(result, properties));
}
API error_t_ cuMemPoolDestroy(struct pool *pool) { FORWARD_PLAIN(cudaMemPoolDestroy(pool)); }
API error_t_ cuMemPoolGetAttribute(struct pool *pool, unsigned attribute, void *value)
{
    FORWARD_PLAIN(cudaMemPoolGetAttribute(pool, attribute, value));
}
API error_t_ cuMemPoolSetAttribute(struct pool *pool, unsigned attribute, const void *value)
{
    FORWARD_PLAIN(cudaMemPoolSetAttribute(pool, attribute, value));
}
API error_t_ cuMemPoolTrimTo(struct pool *pool, size_t least) { FORWARD_PLAIN(cudaMemPoolTrimTo(pool, least)); }
API error_t_ cuMemPoolSetAccess(struct pool *pool, const struct pool_access *list, size_t count)
{
    FORWARD_PLAIN(cudaMemPoolSetAccess(pool, list, count));
}
API error_t_ cuMemPoolGetAccess(int *flags, struct pool *pool, const struct location *location)
{
    FORWARD_PLAIN(cudaMemPoolGetAccess(flags, pool, location));
}
