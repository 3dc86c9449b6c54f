/* Calls that set or ask how the device works, where there is one way only: accepted, remembered where they can be read back. */
#include "runtime.h"

#include <string.h>

static size_t limits[7] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};
static int cache_config, shared_config;
static unsigned device_flags;

size_t heap_limit(void) { return limits[2]; }

static error_t_ accept(void) { return leave(enter()); }

static error_t_ answer(void *to, const void *from, size_t bytes)
{
    error_t_ status = enter();
    if (status == SUCCESS && !to)
        status = INVALID_VALUE;
    if (status == SUCCESS)
        memcpy(to, from, bytes);
    return leave(status);
}

API error_t_ cudaDeviceGetLimit(size_t *result, unsigned which)
{
    if (which < 7)
        return answer(result, &limits[which], sizeof *result);
    enter_quietly();
    return leave(215); /* cudaErrorUnsupportedLimit */
}

API error_t_ cudaDeviceSetLimit(unsigned which, size_t wanted)
{
    error_t_ status = enter();
    if (status == SUCCESS && which >= 7)
        status = 215;
    if (status == SUCCESS)
        limits[which] = wanted;
    return leave(status);
}

API error_t_ cudaDeviceGetCacheConfig(int *config) { return answer(config, &cache_config, sizeof *config); }
API error_t_ cudaDeviceSetCacheConfig(int config)
{
    cache_config = config;
    return accept();
}
API error_t_ cudaThreadSetCacheConfig(int config) { return cudaDeviceSetCacheConfig(config); }
API error_t_ cudaDeviceGetSharedMemConfig(int *config) { return answer(config, &shared_config, sizeof *config); }
API error_t_ cudaDeviceSetSharedMemConfig(int config)
{
    shared_config = config;
    return accept();
}
API error_t_ cudaSetDeviceFlags(unsigned flags)
{
    device_flags = flags;
    return accept();
}
API error_t_ cudaGetDeviceFlags(unsigned *flags) { return answer(flags, &device_flags, sizeof *flags); }

API error_t_ cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    error_t_ status = enter();
    if (status == SUCCESS) {
        if (least)
            *least = 0;
        if (greatest)
            *greatest = -5;
    }
    return leave(status);
}

API error_t_ cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    int no = 0;
    if (device || peer) {
        enter_quietly();
        return leave(INVALID_DEVICE);
    }
    return answer(can, &no, sizeof no);
}

API error_t_ cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer, (void)flags;
    enter_quietly();
    return leave(INVALID_DEVICE); /* there is no other device */
}

API error_t_ cudaDeviceDisablePeerAccess(int peer)
{
    enter_quietly();
    return leave(peer ? INVALID_DEVICE : PEER_NOT_ENABLED);
}

static const int version = CUDART >= 13 ? 13000 : CUDART * 1000 + 60;

API error_t_ cudaRuntimeGetVersion(int *result) { return answer(result, &version, sizeof version); }
API error_t_ cudaDriverGetVersion(int *result) { return answer(result, &version, sizeof version); }

API error_t_ cudaProfilerStart(void) { return SUCCESS; }
API error_t_ cudaProfilerStop(void) { return SUCCESS; }
API error_t_ cudaCtxResetPersistingL2Cache(void) { return accept(); }

/* Everything that was allocated is gone; modules come back with their first contents. A fault is forgotten with the context. */
API error_t_ cudaDeviceReset(void)
{
    enter_quietly();
    forget_fault();
    leave(SUCCESS);
    error_t_ status = enter();
    if (status == SUCCESS) {
        if (checking)
            tell_leaks();
        status = call_emulator(6, NULL, 0, NULL, 0, NULL, NULL);
        const uint64_t(*row)[3] = (const uint64_t(*)[3])the_table;
        for (uint64_t k = table_count(); k-- > 0;)
            release(row[k][0]);
        memory_reset();
        forget_modules();
    }
    return leave(status);
}

API error_t_ cudaThreadExit(void) { return cudaDeviceReset(); }
