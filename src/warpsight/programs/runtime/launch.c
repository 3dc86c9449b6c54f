/* Launches: the configuration that <<< >>> pushes, the checks that CUDA makes, then the emulator. */
#include "graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 16

struct configuration { struct dim3 grid, block; size_t shared; void *stream; };
static __thread struct configuration pushed[DEPTH];
static __thread int depth;

API unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream)
{
    if (depth == DEPTH)
        return INVALID_CONFIGURATION;
    pushed[depth++] = (struct configuration){grid, block, shared, stream};
    return SUCCESS;
}

API error_t_ __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
    if (!depth)
        return INVALID_CONFIGURATION;
    struct configuration *top = &pushed[--depth];
    *grid = top->grid;
    *block = top->block;
    *shared = top->shared;
    *(void **)stream = top->stream;
    return SUCCESS;
}

static bool outside(struct dim3 d, unsigned x, unsigned y, unsigned z)
{
    return !d.x || !d.y || !d.z || d.x > x || d.y > y || d.z > z;
}

static error_t_ check(const struct function *f, struct dim3 grid, struct dim3 block, size_t shared)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (outside(grid, 0x7fffffff, 65535, 65535) || outside(block, 1024, 1024, 64) ||
        threads > (uint64_t)the_device.values[D_THREADS_PER_BLOCK])
        return INVALID_CONFIGURATION;
    uint64_t warp_registers = ((uint64_t)f->registers * 32 + 255) / 256 * 256;
    if (threads > (uint64_t)f->max_threads || (threads + 31) / 32 * warp_registers > (uint64_t)the_device.values[D_REGISTERS])
        return 701; /* cudaErrorLaunchOutOfResources */
    if (shared > (size_t)f->max_dynamic_shared)
        return INVALID_VALUE;
    if (f->block[0] && (block.x != f->block[0] || block.y != f->block[1] || block.z != f->block[2]))
        return INVALID_VALUE;
    return SUCCESS;
}

struct message { int64_t kernel, grid[3], block[3], cluster[3], shared, allocations, cooperative, heap_bytes, parameter_bytes; };

/* What the emulator answers: the kernel's time in seconds, the number of the launch, then the text that the kernel printed. */
static error_t_ send_launch(struct function *f, const struct message *message, const void *parameters, void *stream)
{
    void *answer = NULL;
    size_t bytes = 0;
    error_t_ status = call_emulator(4, message, sizeof *message, parameters, (size_t)f->parameter_bytes, &answer, &bytes);
    struct { double seconds; int64_t number; } done;
    if (bytes >= sizeof done) {
        memcpy(&done, answer, sizeof done);
        fwrite((char *)answer + sizeof done, 1, bytes - sizeof done, stdout);
        spend_launch(stream, done.seconds, done.number);
    }
    free(answer);
    if (status == INVALID_CONFIGURATION || status == INVALID_VALUE || status == COOPERATIVE_TOO_LARGE || status == 701)
        return status; /* nothing ran */
    if (status)
        fault(status); /* as on a GPU, the program finds out when it waits */
    return SUCCESS;
}

/* How a launch is made, beside its grid and block. A cluster of zeros is what the kernel was compiled for, if anything. */
struct extras { size_t shared; void *stream; bool cooperative; struct dim3 cluster; void *event; /* recorded when it ends */ };

/* The shape of the clusters of a launch, zeros where it has none. */
static error_t_ cluster_of(const struct function *f, struct dim3 grid, struct dim3 wanted, int64_t shape[3])
{
    int64_t asked[3] = {wanted.x, wanted.y, wanted.z}, blocks[3] = {grid.x, grid.y, grid.z};
    memcpy(shape, wanted.x ? asked : f->cluster, 3 * sizeof *shape);
    if (!shape[0])
        return f->cluster_needed ? INVALID_CLUSTER_SIZE : SUCCESS;
    int64_t size = shape[0] * shape[1] * shape[2], most = f->any_cluster_size ? 16 : 8;
    if (f->max_cluster && f->max_cluster < most)
        most = f->max_cluster;
    if (size < 1 || size > most || (f->cluster[0] && memcmp(shape, f->cluster, 3 * sizeof *shape)))
        return INVALID_CLUSTER_SIZE;
    for (int k = 0; k < 3; k++)
        if (blocks[k] % shape[k])
            return INVALID_CLUSTER_SIZE;
    if (size > 1 && !the_device.values[D_CLUSTERS]) {
        warn_once("a launch with thread block clusters on a GPU below compute capability 9.0");
        return NOT_SUPPORTED;
    }
    return SUCCESS;
}

static error_t_ run(const void *key, struct dim3 grid, struct dim3 block, void **arguments, struct extras extras)
{
    struct function *f;
    int64_t shape[3];
    error_t_ status = find_function(key, &f);
    if (status == SUCCESS)
        status = resolve(f);
    if (status == SUCCESS)
        status = check(f, grid, block, extras.shared);
    if (status == SUCCESS)
        status = cluster_of(f, grid, extras.cluster, shape);
    if (status)
        return status;
    char *parameters = calloc(1, (size_t)f->parameter_bytes + 1);
    if (!parameters)
        return MEMORY_ALLOCATION;
    for (int64_t k = 0; k < f->parameters; k++)
        memcpy(parameters + f->layout[k][0], arguments[k], (size_t)f->layout[k][1]);
    status = make_parameters(f, parameters);
    if (status) {
        free(parameters);
        return status;
    }
    struct message message = {f->id, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, {shape[0], shape[1], shape[2]},
                              (int64_t)extras.shared, (int64_t)table_count(), extras.cooperative, (int64_t)heap_limit(),
                              f->parameter_bytes};
    tell_touched();
    status = send_launch(f, &message, parameters, extras.stream);
    free(parameters);
    return status;
}

/* cudaLaunchAttributeID */
enum {
    IGNORE, ACCESS_WINDOW, COOPERATIVE, SYNC_POLICY, CLUSTER, CLUSTER_POLICY_PREFERENCE, PROGRAMMATIC_SERIALIZATION, PROGRAMMATIC_EVENT,
    PRIORITY, MEMORY_DOMAIN_MAP, MEMORY_DOMAIN, PREFERRED_CLUSTER, COMPLETION_EVENT, UPDATABLE_NODE, SHARED_CARVEOUT, NVLINK_CENTRIC = 16,
    PORTABLE_CLUSTER_MODE
};

static error_t_ capture_launch(const void *key, struct dim3 grid, struct dim3 block, void **arguments, struct extras extras)
{
    struct attribute cooperative = {.id = COOPERATIVE, .value.integer = 1};
    struct launch_config config = {grid, block, extras.shared, extras.stream, &cooperative, extras.cooperative};
    return capture_kernel(&config, key, arguments);
}

static error_t_ launch(const void *key, struct dim3 grid, struct dim3 block, void **arguments, struct extras extras)
{
    error_t_ status = enter();
    if (status == SUCCESS && is_captured(extras.stream))
        return leave(capture_launch(key, grid, block, arguments, extras));
    if (status == SUCCESS)
        status = run(key, grid, block, arguments, extras);
    return leave(status);
}

API error_t_ cudaLaunchKernel(const void *key, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream)
{
    return launch(key, grid, block, arguments, (struct extras){.shared = shared, .stream = stream});
}

API error_t_ __cudaLaunchKernel(void *key, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream)
{
    return launch(key, grid, block, arguments, (struct extras){.shared = shared, .stream = stream});
}

API error_t_ cudaLaunchCooperativeKernel(const void *key, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                                         void *stream)
{
    return launch(key, grid, block, arguments, (struct extras){.shared = shared, .stream = stream, .cooperative = true});
}

static bool has_shape(const struct attribute *a) { return a->value.dims[0] && a->value.dims[1] && a->value.dims[2]; }

/* One attribute of a launch. A launch ends before the next begins, so that those of its order with others hold without more. */
static error_t_ read_attribute(const struct attribute *a, struct extras *extras)
{
    switch (a->id) {
    case COOPERATIVE:
        extras->cooperative = a->value.integer != 0;
        return SUCCESS;
    case CLUSTER:
        extras->cluster = (struct dim3){a->value.dims[0], a->value.dims[1], a->value.dims[2]};
        return has_shape(a) ? SUCCESS : INVALID_CLUSTER_SIZE;
    case PREFERRED_CLUSTER: /* the launch has the shape that it needs at least, which is always allowed */
        return has_shape(a) ? SUCCESS : INVALID_CLUSTER_SIZE;
    case PROGRAMMATIC_EVENT: case COMPLETION_EVENT:
        extras->event = a->value.pointer;
        return extras->event ? SUCCESS : INVALID_VALUE;
    case UPDATABLE_NODE:
        warn_once("a kernel node that the device can update");
        return NOT_SUPPORTED;
    case IGNORE: case ACCESS_WINDOW: case SYNC_POLICY: case CLUSTER_POLICY_PREFERENCE: case PROGRAMMATIC_SERIALIZATION: case PRIORITY:
    case MEMORY_DOMAIN_MAP: case MEMORY_DOMAIN: case SHARED_CARVEOUT: case NVLINK_CENTRIC: case PORTABLE_CLUSTER_MODE:
        return SUCCESS;
    default: return INVALID_VALUE;
    }
}

static error_t_ read_config(const struct launch_config *config, struct extras *extras)
{
    if (!config || (config->count && !config->attributes))
        return INVALID_VALUE;
    error_t_ status = SUCCESS;
    *extras = (struct extras){.shared = config->shared, .stream = config->stream};
    for (unsigned k = 0; k < config->count && status == SUCCESS; k++)
        status = read_attribute(&config->attributes[k], extras);
    return status;
}

static error_t_ launch_with(const struct launch_config *config, const void *key, void **arguments)
{
    struct extras extras;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = read_config(config, &extras);
    if (status == SUCCESS && is_captured(extras.stream))
        return leave(capture_kernel(config, key, arguments));
    leave(status);
    if (status == SUCCESS)
        status = launch(key, config->grid, config->block, arguments, extras);
    return status == SUCCESS && extras.event ? cudaEventRecord(extras.event, extras.stream) : status;
}

API error_t_ cudaLaunchKernelExC(const struct launch_config *config, const void *key, void **arguments)
{
    hold_call();
    error_t_ status = launch_with(config, key, arguments);
    release_call();
    return status;
}

API error_t_ __cudaGetKernel(void **kernel, const void *key)
{
    struct function *f;
    enter_quietly();
    error_t_ status = find_function(key, &f);
    if (status == SUCCESS)
        *kernel = f;
    return leave(status);
}

API error_t_ cudaGetKernel(void **kernel, const void *key) { return __cudaGetKernel(kernel, key); }
API error_t_ cudaGetFuncBySymbol(void **function, const void *key) { return __cudaGetKernel(function, key); }

API error_t_ cudaFuncGetName(const char **name, const void *key)
{
    struct function *f;
    enter_quietly();
    error_t_ status = name ? find_function(key, &f) : INVALID_VALUE;
    if (status == SUCCESS)
        *name = f->name;
    return leave(status);
}

struct function_attributes {
    size_t shared, constant, local;
    int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared, carveout;
#if CUDART >= 12
    int cluster[6], reserved[16];
#endif
};

API error_t_ cudaFuncGetAttributes(struct function_attributes *result, const void *key)
{
    struct function *f;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = result ? find_function(key, &f) : INVALID_VALUE;
    if (status == SUCCESS)
        status = resolve(f);
    if (status == SUCCESS) {
        memset(result, 0, sizeof *result);
        result->shared = (size_t)f->shared;
        result->constant = (size_t)f->constant;
        result->local = (size_t)f->local;
        result->max_threads = (int)f->max_threads;
        result->registers = (int)f->registers;
        result->ptx_version = (int)f->ptx_version;
        result->binary_version = (int)f->binary_version;
        result->max_dynamic_shared = f->max_dynamic_shared;
        result->carveout = f->carveout;
#if CUDART >= 12
        int cluster[6] = {f->cluster_needed, (int)f->cluster[0], (int)f->cluster[1], (int)f->cluster[2], f->cluster_policy,
                          f->any_cluster_size};
        memcpy(result->cluster, cluster, sizeof cluster);
#endif
    }
    return leave(status);
}

enum { MAX_DYNAMIC_SHARED = 8, CARVEOUT, CLUSTER_NEEDED, CLUSTER_WIDTH, CLUSTER_HEIGHT, CLUSTER_DEPTH, ANY_CLUSTER_SIZE, CLUSTER_POLICY };

API error_t_ cudaFuncSetAttribute(const void *key, int attribute, int value)
{
    struct function *f;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = find_function(key, &f);
    if (status == SUCCESS)
        status = resolve(f);
    if (status == SUCCESS && attribute == MAX_DYNAMIC_SHARED) {
        if (value < 0 || value + f->shared > the_device.values[D_SHARED_PER_BLOCK_OPTIN])
            status = INVALID_VALUE;
        else
            f->max_dynamic_shared = value;
    } else if (status == SUCCESS && attribute == CARVEOUT) {
        f->carveout = value;
    } else if (status == SUCCESS && attribute == CLUSTER_NEEDED) {
        f->cluster_needed = value != 0;
    } else if (status == SUCCESS && attribute >= CLUSTER_WIDTH && attribute <= CLUSTER_DEPTH) {
        if (value < 0)
            status = INVALID_VALUE;
        else
            f->cluster[attribute - CLUSTER_WIDTH] = value;
    } else if (status == SUCCESS && attribute == ANY_CLUSTER_SIZE) {
        f->any_cluster_size = value != 0;
    } else if (status == SUCCESS && attribute == CLUSTER_POLICY) {
        f->cluster_policy = value; /* a preference */
    } else if (status == SUCCESS) {
        status = INVALID_VALUE;
    }
    return leave(status);
}

API error_t_ cudaFuncSetCacheConfig(const void *key, int config)
{
    struct function *f;
    (void)config; /* a preference */
    error_t_ status = enter();
    return leave(status ? status : find_function(key, &f));
}

API error_t_ cudaFuncSetSharedMemConfig(const void *key, int config) { return cudaFuncSetCacheConfig(key, config); }

/* What of a function's blocks is resident at a time: blocks on an SM, and on the whole GPU clusters of so many blocks. */
struct residency { int64_t blocks, clusters; };

static error_t_ resident(const void *key, int threads, size_t shared, int64_t cluster_blocks, struct residency *found)
{
    struct function *f;
    error_t_ status = find_function(key, &f);
    if (status == SUCCESS)
        status = resolve(f);
    if (status)
        return status;
    int64_t question[4] = {f->id, threads, (int64_t)shared, cluster_blocks};
    void *answer = NULL;
    size_t bytes = 0;
    status = call_emulator(5, question, sizeof question, NULL, 0, &answer, &bytes);
    if (status == SUCCESS && bytes == sizeof *found)
        memcpy(found, answer, sizeof *found);
    free(answer);
    return status;
}

API error_t_ cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *key, int threads, size_t shared, unsigned flags)
{
    struct residency found = {0, 0};
    (void)flags;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = blocks && threads > 0 ? resident(key, threads, shared, 1, &found) : INVALID_VALUE;
    if (status == SUCCESS)
        *blocks = (int)found.blocks;
    return leave(status);
}

API error_t_ cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *key, int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, key, threads, shared, 0);
}

API error_t_ cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *key, int blocks, int threads)
{
    struct function *f;
    (void)threads;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = bytes && blocks > 0 ? find_function(key, &f) : INVALID_VALUE;
    if (status == SUCCESS)
        status = resolve(f);
    if (status == SUCCESS) {
        int64_t each = the_device.values[D_SHARED_PER_SM] / blocks / 256 * 256 - the_device.values[D_SHARED_RESERVED] - f->shared;
        *bytes = each > 0 ? (size_t)each : 0;
    }
    return leave(status);
}

static int threads_of(const struct launch_config *config) { return (int)(config->block.x * config->block.y * config->block.z); }

/* How many clusters of a launch run at the same time: each is on one of the GPU's GPCs. */
API error_t_ cudaOccupancyMaxActiveClusters(int *clusters, const void *key, const struct launch_config *config)
{
    struct function *f;
    struct extras extras;
    struct residency found = {0, 0};
    int64_t shape[3];
    error_t_ status = enter();
    if (status == SUCCESS)
        status = clusters ? read_config(config, &extras) : INVALID_VALUE;
    if (status == SUCCESS)
        status = find_function(key, &f);
    if (status == SUCCESS)
        status = resolve(f);
    if (status == SUCCESS)
        status = cluster_of(f, config->grid, extras.cluster, shape);
    if (status == SUCCESS)
        status = resident(key, threads_of(config), config->shared, shape[0] ? shape[0] * shape[1] * shape[2] : 1, &found);
    if (status == SUCCESS)
        *clusters = (int)found.clusters;
    return leave(status);
}

/* The largest cluster of which one fits; 0 where not one block does. */
API error_t_ cudaOccupancyMaxPotentialClusterSize(int *size, const void *key, const struct launch_config *config)
{
    struct function *f;
    struct residency found = {0, 0};
    int64_t most = 0;
    error_t_ status = enter();
    if (status == SUCCESS && (!size || !config))
        status = INVALID_VALUE;
    if (status == SUCCESS)
        status = find_function(key, &f);
    if (status == SUCCESS)
        status = resolve(f); /* which says what the function was compiled for */
    if (status == SUCCESS) {
        most = f->any_cluster_size ? 16 : 8;
        most = !the_device.values[D_CLUSTERS] ? 1 : f->max_cluster && f->max_cluster < most ? f->max_cluster : most;
        for (; status == SUCCESS && most; most /= 2) {
            status = resident(key, threads_of(config), config->shared, most, &found);
            if (found.clusters)
                break;
        }
    }
    if (status == SUCCESS)
        *size = (int)most;
    return leave(status);
}
