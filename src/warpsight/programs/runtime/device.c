/* The one device: its properties and attributes, from the GPU description that `warpsight run` was given. */
#include "runtime.h"

#include <string.h>

#define MAX_PITCH 0x7fffffff

static int value(enum device_value which) { return (int)the_device.values[which]; }

/* cudaDeviceProp, in the order of CUDA's header. CUDA 13 left out what is marked OLD; before CUDA 12 it ended after `reserved_shared`. */
#if CUDART >= 13
#define OLD(declaration)
#else
#define OLD(declaration) declaration;
#endif
struct properties {
    char name[256];
    unsigned char uuid[16];
    char luid[8];
    unsigned luid_mask;
    size_t memory, shared_per_block;
    int registers_per_block, warp_size;
    size_t pitch;
    int threads_per_block, block[3], grid[3];
    OLD(int clock_rate)
    size_t constant_memory;
    int major, minor;
    size_t texture_alignment, texture_pitch_alignment;
    OLD(int device_overlap)
    int sm_count;
    OLD(int kernel_timeout)
    int integrated, maps_host_memory;
    OLD(int compute_mode)
    int texture1d, texture1d_mipmap;
    OLD(int texture1d_linear)
    int texture2d[2], texture2d_mipmap[2], texture2d_linear[3], texture2d_gather[2], texture3d[3], texture3d_alternate[3];
    int texture_cubemap, texture1d_layered[2], texture2d_layered[3], texture_cubemap_layered[2];
    int surface1d, surface2d[2], surface3d[3], surface1d_layered[2], surface2d_layered[3], surface_cubemap, surface_cubemap_layered[2];
    size_t surface_alignment;
    int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, engines, unified_addressing;
    OLD(int memory_clock_rate)
    int bus_bits, l2_bytes, persisting_l2, threads_per_sm, stream_priorities, global_l1, local_l1;
    size_t shared_per_sm;
    int registers_per_sm, managed, multi_gpu, multi_gpu_group, native_atomics;
    OLD(int single_to_double)
    int pageable_access, concurrent_managed, preemption, registered_pointer, cooperative;
    OLD(int cooperative_multi_device)
    size_t shared_optin;
    int pageable_tables, direct_managed, blocks_per_sm, access_window;
    size_t reserved_shared;
    int host_register, sparse_arrays, read_only_register, semaphores, pools, rdma, rdma_options, rdma_order, pool_handles, deferred, ipc_events,
        clusters, more[59];
};

static const struct properties LIMITS = {
    .warp_size = 32, .pitch = MAX_PITCH, .block = {1024, 1024, 64}, .grid = {0x7fffffff, 65535, 65535}, .constant_memory = 65536,
    .texture_alignment = 512, .texture_pitch_alignment = 32, .maps_host_memory = 1,
    .texture1d = 131072, .texture1d_mipmap = 32768, .texture2d = {131072, 65536}, .texture2d_mipmap = {32768, 32768},
    .texture2d_linear = {131072, 65000, 2097120}, .texture2d_gather = {32768, 32768}, .texture3d = {16384, 16384, 16384},
    .texture3d_alternate = {8192, 8192, 32768}, .texture_cubemap = 32768, .texture1d_layered = {32768, 2048},
    .texture2d_layered = {32768, 32768, 2048}, .texture_cubemap_layered = {32768, 2046}, .surface1d = 32768,
    .surface2d = {131072, 65536}, .surface3d = {16384, 16384, 16384}, .surface1d_layered = {32768, 2048},
    .surface2d_layered = {32768, 32768, 2048}, .surface_cubemap = 32768, .surface_cubemap_layered = {32768, 2046},
    .surface_alignment = 512, .concurrent_kernels = 1, .engines = 2, .unified_addressing = 1, .stream_priorities = 1,
    .global_l1 = 1, .local_l1 = 1, .managed = 1, .concurrent_managed = 1, .preemption = 1, .cooperative = 1, .host_register = 1, .pools = 1,
#if CUDART < 13
    .texture1d_linear = 268435456, .device_overlap = 1, .single_to_double = 32, .pci_bus = 1,
#else
    .pci_bus = 1,
#endif
};

static void describe(struct properties *p)
{
    *p = LIMITS;
    memcpy(p->name, the_device.name, sizeof p->name);
    memcpy(p->uuid, "warpsight", 9);
    p->memory = (size_t)the_device.values[D_MEMORY];
    p->shared_per_block = (size_t)the_device.values[D_SHARED_PER_BLOCK];
    p->registers_per_block = p->registers_per_sm = value(D_REGISTERS);
    p->threads_per_block = value(D_THREADS_PER_BLOCK);
    p->major = value(D_MAJOR);
    p->minor = value(D_MINOR);
    p->sm_count = value(D_SM_COUNT);
    p->bus_bits = value(D_BUS_BITS);
    p->l2_bytes = value(D_L2_BYTES);
    p->threads_per_sm = value(D_THREADS_PER_SM);
    p->shared_per_sm = (size_t)the_device.values[D_SHARED_PER_SM];
    p->shared_optin = (size_t)the_device.values[D_SHARED_PER_BLOCK_OPTIN];
    p->blocks_per_sm = value(D_BLOCKS_PER_SM);
    p->reserved_shared = (size_t)the_device.values[D_SHARED_RESERVED];
    p->clusters = value(D_CLUSTERS);
#if CUDART < 13
    p->clock_rate = value(D_CLOCK_KHZ);
    p->memory_clock_rate = value(D_MEMORY_CLOCK_KHZ);
#endif
}

static error_t_ properties(struct properties *result, int device, size_t bytes)
{
    struct properties p;
    error_t_ status = enter();
    if (status == SUCCESS && !result)
        status = INVALID_VALUE;
    if (status == SUCCESS && device)
        status = INVALID_DEVICE;
    if (status == SUCCESS) {
        describe(&p);
        memcpy(result, &p, bytes);
    }
    return leave(status);
}

#if CUDART >= 13
API error_t_ cudaGetDeviceProperties(struct properties *result, int device) { return properties(result, device, sizeof *result); }
#else
API error_t_ cudaGetDeviceProperties(struct properties *result, int device)
{
    return properties(result, device, offsetof(struct properties, host_register));
}
API error_t_ cudaGetDeviceProperties_v2(struct properties *result, int device) { return properties(result, device, sizeof *result); }
#endif

/* cudaDeviceAttr: its numbers with where the answer lies; any other attribute is 0, "no". */
static int attribute(const struct properties *p, int which)
{
    switch (which) {
    case 1: return p->threads_per_block;
    case 2: case 3: case 4: return p->block[which - 2];
    case 5: case 6: case 7: return p->grid[which - 5];
    case 8: return (int)p->shared_per_block;
    case 9: return (int)p->constant_memory;
    case 10: return p->warp_size;
    case 11: return (int)p->pitch;
    case 12: return p->registers_per_block;
    case 13: return value(D_CLOCK_KHZ);
    case 14: return (int)p->texture_alignment;
    case 15: case 19: case 31: case 41: case 78: case 79: case 80: case 83: case 89: case 90: case 95: case 99: case 115: return 1;
    case 16: return p->sm_count;
    case 21: return p->texture1d;
    case 22: case 23: return p->texture2d[which - 22];
    case 24: case 25: case 26: return p->texture3d[which - 24];
    case 27: case 28: case 29: return p->texture2d_layered[which - 27];
    case 30: return (int)p->surface_alignment;
    case 33: return p->pci_bus;
    case 36: return value(D_MEMORY_CLOCK_KHZ);
    case 37: return p->bus_bits;
    case 38: return p->l2_bytes;
    case 39: return p->threads_per_sm;
    case 40: return p->engines;
    case 42: case 43: return p->texture1d_layered[which - 42];
    case 51: return (int)p->texture_pitch_alignment;
    case 52: return p->texture_cubemap;
    case 55: return p->surface1d;
    case 56: case 57: return p->surface2d[which - 56];
    case 58: case 59: case 60: return p->surface3d[which - 58];
    case 69: return 268435456;
    case 70: case 71: case 72: return p->texture2d_linear[which - 70];
    case 75: return p->major;
    case 76: return p->minor;
    case 81: return (int)p->shared_per_sm;
    case 82: return p->registers_per_sm;
    case 87: return 32;
    case 97: return (int)p->shared_optin;
    case 106: return p->blocks_per_sm;
    case 111: return (int)p->reserved_shared;
    case 120: return p->clusters;
    default: return 0;
    }
}

API error_t_ cudaDeviceGetAttribute(int *result, int which, int device)
{
    struct properties p;
    error_t_ status = enter();
    if (status == SUCCESS && (!result || which < 1 || which > 200))
        status = INVALID_VALUE;
    if (status == SUCCESS && device)
        status = INVALID_DEVICE;
    if (status == SUCCESS) {
        describe(&p);
        *result = attribute(&p, which);
    }
    return leave(status);
}

API error_t_ cudaGetDeviceCount(int *count)
{
    error_t_ status = enter();
    if (status == SUCCESS && !count)
        status = INVALID_VALUE;
    if (status == SUCCESS)
        *count = 1;
    return leave(status);
}

API error_t_ cudaGetDevice(int *device)
{
    error_t_ status = enter();
    if (status == SUCCESS && !device)
        status = INVALID_VALUE;
    if (status == SUCCESS)
        *device = 0;
    return leave(status);
}

static error_t_ only_device_0(int device)
{
    error_t_ status = enter();
    return leave(status == SUCCESS && device ? INVALID_DEVICE : status);
}

API error_t_ cudaSetDevice(int device) { return only_device_0(device); }

API error_t_ cudaInitDevice(int device, unsigned flags, unsigned more)
{
    (void)flags, (void)more;
    return only_device_0(device);
}

API error_t_ cudaSetValidDevices(int *devices, int count)
{
    return count < 1 ? only_device_0(0) : only_device_0(devices[0]);
}

API error_t_ cudaChooseDevice(int *device, const struct properties *wanted)
{
    (void)wanted;
    return cudaGetDevice(device);
}

API error_t_ cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    static const char id[] = "0000:01:00.0";
    if (!text || length < (int)sizeof id) {
        enter_quietly();
        return leave(INVALID_VALUE);
    }
    memcpy(text, id, sizeof id);
    return only_device_0(device);
}

API error_t_ cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    (void)text;
    return cudaGetDevice(device);
}
