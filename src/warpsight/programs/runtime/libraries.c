/* Modules that a program loads itself, as the runtime's libraries or the driver's modules; their kernels, and launches by the driver. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_IMAGE = 200 };

/* -- Images: a fat binary, a cubin, or PTX that ends with a zero byte. */

struct fatbin { uint32_t magic; uint16_t version, header_bytes; uint64_t bytes; };
struct wrapper { uint32_t magic, version; const void *data; void *more; };
struct elf { unsigned char ident[16]; uint16_t type, machine; uint32_t version; uint64_t entry, segments, sections; uint32_t flags;
             uint16_t header_bytes, segment_bytes, segment_count, section_bytes, section_count, names; };
struct section { uint32_t name, type; uint64_t flags, address, offset, bytes; uint32_t link, info; uint64_t align, entry_bytes; };

static size_t later(size_t a, size_t b) { return a > b ? a : b; }

static size_t elf_bytes(const void *image)
{
    struct elf head;
    memcpy(&head, image, sizeof head);
    size_t end = later(head.sections + (size_t)head.section_count * head.section_bytes,
                       head.segments + (size_t)head.segment_count * head.segment_bytes);
    for (unsigned k = 0; k < head.section_count; k++) {
        struct section section;
        memcpy(&section, (const char *)image + head.sections + k * sizeof section, sizeof section);
        if (section.type != 8) /* SHT_NOBITS has no bytes in the file */
            end = later(end, section.offset + section.bytes);
    }
    return end;
}

/* What is loaded, and its size; 0 for anything else. */
static size_t image_bytes(const void **image)
{
    uint32_t magic;
    memcpy(&magic, *image, sizeof magic);
    if (magic == WRAPPER_MAGIC) {
        *image = ((const struct wrapper *)*image)->data;
        memcpy(&magic, *image, sizeof magic);
    }
    if (magic == FATBIN_MAGIC) {
        const struct fatbin *fatbin = *image;
        return fatbin->header_bytes + fatbin->bytes;
    }
    if (!memcmp(*image, "\177ELF", 4))
        return elf_bytes(*image);
    return strstr(*image, ".version") ? strlen(*image) : 0;
}

/* -- Libraries. */

/* cudaJitOption: what the compiler says goes into the program's buffers, and it says nothing; other options choose how it optimises. */
void read_options(const int *options, void **values, unsigned count)
{
    enum { MOST_REGISTERS, INFO_LOG = 3, INFO_BYTES, ERROR_LOG, ERROR_BYTES };
    for (unsigned k = 0; k < count && options && values; k++) {
        if ((options[k] == INFO_LOG || options[k] == ERROR_LOG) && values[k])
            *(char *)values[k] = 0;
        if (options[k] == INFO_BYTES || options[k] == ERROR_BYTES)
            values[k] = NULL;
        if (options[k] == MOST_REGISTERS)
            warn_ignored("the option of registers per thread of a module that is loaded");
    }
}

static error_t_ load_image(void **library, const void *image)
{
    if (!library || !image)
        return INVALID_VALUE;
    size_t bytes = image_bytes(&image);
    struct module *module;
    error_t_ status = bytes ? add_module(image, bytes, &module) : INVALID_IMAGE;
    if (status == SUCCESS)
        *library = module;
    return status;
}

API error_t_ cudaLibraryLoadData(void **library, const void *image, const int *options, void **values, unsigned count, const int *more,
                                 void **more_values, unsigned more_count)
{
    (void)more, (void)more_values, (void)more_count; /* whether the image may be read later: it is copied at once */
    error_t_ status = enter();
    read_options(options, values, count);
    return leave(status ? status : load_image(library, image));
}

/* A file as an image, which ends with a zero byte; NULL where it cannot be read. */
char *read_file(const char *path, size_t *size)
{
    FILE *file = path ? fopen(path, "rb") : NULL;
    long bytes = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
    char *image = bytes > 0 ? calloc(1, (size_t)bytes + 8) : NULL;
    bool whole = image && !fseek(file, 0, SEEK_SET) && fread(image, 1, (size_t)bytes, file) == (size_t)bytes;
    if (file)
        fclose(file);
    if (!whole) {
        free(image);
        return NULL;
    }
    *size = (size_t)bytes;
    return image;
}

API error_t_ cudaLibraryLoadFromFile(void **library, const char *path, const int *options, void **values, unsigned count, const int *more,
                                     void **more_values, unsigned more_count)
{
    size_t bytes;
    char *image = read_file(path, &bytes);
    error_t_ status = FILE_NOT_FOUND;
    if (image) {
        status = cudaLibraryLoadData(library, image, options, values, count, more, more_values, more_count);
    } else {
        enter_quietly();
        leave(status);
    }
    free(image);
    return status;
}

API error_t_ cudaLibraryUnload(void *library)
{
    error_t_ status = enter();
    return leave(status ? status : remove_module(library));
}

API error_t_ cudaLibraryGetKernel(void **kernel, void *library, const char *name)
{
    struct function *function;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = kernel && name ? named_function(library, name, &function) : INVALID_VALUE;
    if (status == SUCCESS)
        *kernel = function;
    return leave(status == INVALID_DEVICE_FUNCTION ? SYMBOL_NOT_FOUND : status);
}

/* The number of kernels, of which the first ones are resolved where there is room for them. */
static error_t_ kernels_of(void *library, void **kernels, unsigned room, unsigned *count)
{
    struct function *function;
    error_t_ status = enter();
    for (*count = 0; status == SUCCESS && (!kernels || *count < room); ++*count) {
        status = kernel_at(library, *count, &function);
        if (status == INVALID_VALUE) {
            status = SUCCESS;
            break;
        }
        if (status == SUCCESS && kernels)
            kernels[*count] = function;
    }
    return leave(status);
}

API error_t_ cudaLibraryGetKernelCount(unsigned *count, void *library) { return count ? kernels_of(library, NULL, 0, count) : INVALID_VALUE; }
API error_t_ cudaLibraryEnumerateKernels(void **kernels, unsigned room, void *library)
{
    unsigned count;
    return kernels && room ? kernels_of(library, kernels, room, &count) : INVALID_VALUE;
}

API error_t_ cudaLibraryGetGlobal(void **address, size_t *bytes, void *library, const char *name)
{
    struct variable *variable;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = name ? named_variable(library, name, &variable) : INVALID_VALUE;
    if (status == SUCCESS && address)
        *address = (void *)variable->address;
    if (status == SUCCESS && bytes)
        *bytes = variable->size;
    return leave(status);
}

API error_t_ cudaLibraryGetManaged(void **address, size_t *bytes, void *library, const char *name)
{
    return cudaLibraryGetGlobal(address, bytes, library, name);
}

API error_t_ cudaKernelSetAttributeForDevice(const void *kernel, int attribute, int value, int device)
{
    if (!device)
        return cudaFuncSetAttribute(kernel, attribute, value);
    enter_quietly();
    return leave(INVALID_DEVICE);
}

/* -- Modules of the driver. */

API error_t_ cuModuleLoadDataEx(void **module, const void *image, unsigned count, const int *options, void **values)
{
    FORWARD(cudaLibraryLoadData(module, image, options, values, count, NULL, NULL, 0));
}
API error_t_ cuModuleLoadData(void **module, const void *image) { return cuModuleLoadDataEx(module, image, 0, NULL, NULL); }
API error_t_ cuModuleLoadFatBinary(void **module, const void *image) { return cuModuleLoadData(module, image); }
API error_t_ cuModuleLoad(void **module, const char *path)
{
    FORWARD(cudaLibraryLoadFromFile(module, path, NULL, NULL, 0, NULL, NULL, 0));
}
API error_t_ cuModuleUnload(void *module) { FORWARD(cudaLibraryUnload(module)); }
API error_t_ cuModuleGetFunction(void **function, void *module, const char *name) { FORWARD(cudaLibraryGetKernel(function, module, name)); }
API error_t_ cuModuleGetGlobal_v2(void **address, size_t *bytes, void *module, const char *name)
{
    FORWARD(cudaLibraryGetGlobal(address, bytes, module, name));
}
API error_t_ cuModuleGetLoadingMode(int *mode) { return mode ? (*mode = 2 /* lazy */, SUCCESS) : INVALID_VALUE; }

API error_t_ cuLibraryLoadData(void **library, const void *image, const int *options, void **values, unsigned count, const int *more,
                               void **more_values, unsigned more_count)
{
    FORWARD_PLAIN(cudaLibraryLoadData(library, image, options, values, count, more, more_values, more_count));
}
API error_t_ cuLibraryLoadFromFile(void **library, const char *path, const int *options, void **values, unsigned count, const int *more,
                                   void **more_values, unsigned more_count)
{
    FORWARD_PLAIN(cudaLibraryLoadFromFile(library, path, options, values, count, more, more_values, more_count));
}
API error_t_ cuLibraryUnload(void *library) { FORWARD_PLAIN(cudaLibraryUnload(library)); }
API error_t_ cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    FORWARD_PLAIN(cudaLibraryGetKernel(kernel, library, name));
}
API error_t_ cuLibraryGetKernelCount(unsigned *count, void *library) { FORWARD_PLAIN(cudaLibraryGetKernelCount(count, library)); }
API error_t_ cuLibraryEnumerateKernels(void **kernels, unsigned room, void *library)
{
    FORWARD_PLAIN(cudaLibraryEnumerateKernels(kernels, room, library));
}
API error_t_ cuModuleGetFunctionCount(unsigned *count, void *module) { FORWARD(cudaLibraryGetKernelCount(count, module)); }
API error_t_ cuModuleEnumerateFunctions(void **functions, unsigned room, void *module)
{
    FORWARD(cudaLibraryEnumerateKernels(functions, room, module));
}
API error_t_ cuLibraryGetGlobal(void **address, size_t *bytes, void *library, const char *name)
{
    FORWARD(cudaLibraryGetGlobal(address, bytes, library, name));
}

/* A kernel and its function, a library and its module are the same here. */
static error_t_ same(void **result, void *given)
{
    if (!result || !given)
        return INVALID_VALUE;
    *result = given;
    return SUCCESS;
}

API error_t_ cuLibraryGetModule(void **module, void *library) { FORWARD(same(module, library)); }
API error_t_ cuKernelGetFunction(void **function, void *kernel) { FORWARD(same(function, kernel)); }

/* -- Functions of the driver. */

/* CUfunction_attribute. */
static error_t_ attribute_of(int *result, int which, void *key)
{
    struct function *f;
    error_t_ status = result && which >= 0 && which < 16 ? find_function(key, &f) : INVALID_VALUE;
    if (status == SUCCESS)
        status = resolve(f);
    if (status)
        return status;
    int64_t values[16] = {f->max_threads, f->shared, f->constant, f->local, f->registers, f->ptx_version, f->binary_version, 0,
                          f->max_dynamic_shared, f->carveout, f->cluster_needed, f->cluster[0], f->cluster[1], f->cluster[2],
                          f->any_cluster_size, f->cluster_policy};
    *result = (int)values[which];
    return SUCCESS;
}

static error_t_ function_attribute(int *result, int which, void *key)
{
    error_t_ status = enter();
    return leave(status ? status : attribute_of(result, which, key));
}

static error_t_ parameter_place(void *key, size_t number, size_t *offset, size_t *bytes)
{
    struct function *f;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = find_function(key, &f);
    if (status == SUCCESS)
        status = resolve(f);
    if (status == SUCCESS && (number >= (size_t)f->parameters || !offset))
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        *offset = (size_t)f->layout[number][0];
        if (bytes)
            *bytes = (size_t)f->layout[number][1];
    }
    return leave(status);
}

API error_t_ cudaFuncGetParamInfo(void *key, size_t number, size_t *offset, size_t *bytes)
{
    return parameter_place(key, number, offset, bytes);
}

API error_t_ cuFuncGetAttribute(int *result, int which, void *function) { FORWARD(function_attribute(result, which, function)); }
API error_t_ cuFuncSetAttribute(void *function, int which, int value) { FORWARD(cudaFuncSetAttribute(function, which, value)); }
API error_t_ cuFuncSetCacheConfig(void *function, int config) { FORWARD(cudaFuncSetCacheConfig(function, config)); }
API error_t_ cuFuncGetName(const char **name, void *function) { FORWARD(cudaFuncGetName(name, function)); }
API error_t_ cuFuncGetParamInfo(void *function, size_t number, size_t *offset, size_t *bytes)
{
    FORWARD(parameter_place(function, number, offset, bytes));
}
API error_t_ cuKernelGetAttribute(int *result, int which, void *kernel, int device)
{
    FORWARD(device ? INVALID_DEVICE : function_attribute(result, which, kernel));
}
API error_t_ cuKernelSetAttribute(int which, int value, void *kernel, int device)
{
    FORWARD(device ? INVALID_DEVICE : cudaFuncSetAttribute(kernel, which, value));
}
API error_t_ cuKernelGetName(const char **name, void *kernel) { FORWARD(cudaFuncGetName(name, kernel)); }

/* -- Launches of the driver. */

#define MOST_PARAMETERS 4096 /* of a byte each */

struct driver_config { unsigned grid[3], block[3], shared; void *stream; struct attribute *attributes; unsigned count; };

static struct launch_config runtime_config(const struct driver_config *c)
{
    return (struct launch_config){{c->grid[0], c->grid[1], c->grid[2]}, {c->block[0], c->block[1], c->block[2]}, c->shared, c->stream,
                                  c->attributes, c->count};
}

/* Arguments that come as one buffer, in `more`: pairs of a name and a value. */
static error_t_ from_buffer(void *function, void **more, void *arguments[MOST_PARAMETERS])
{
    const char *buffer = NULL;
    size_t bytes = 0, offset, size;
    for (; *more; more += 2) {
        if (*more == (void *)1) /* CU_LAUNCH_PARAM_BUFFER_POINTER */
            buffer = more[1];
        else if (*more == (void *)2) /* CU_LAUNCH_PARAM_BUFFER_SIZE */
            bytes = *(const size_t *)more[1];
        else
            return INVALID_VALUE;
    }
    error_t_ status = SUCCESS;
    for (size_t k = 0; k < MOST_PARAMETERS && (status = parameter_place(function, k, &offset, &size)) == SUCCESS; k++) {
        if (!buffer || offset + size > bytes)
            return INVALID_VALUE;
        arguments[k] = (void *)(buffer + offset);
    }
    return status == INVALID_VALUE ? SUCCESS : status; /* after the last parameter */
}

static error_t_ launch(const struct driver_config *config, void *function, void **arguments, void **more)
{
    void *collected[MOST_PARAMETERS];
    if (!config || (arguments && more))
        return INVALID_VALUE;
    if (more) {
        error_t_ status = from_buffer(function, more, collected);
        if (status)
            return status;
        arguments = collected;
    }
    struct launch_config same_config = runtime_config(config);
    return cudaLaunchKernelExC(&same_config, function, arguments);
}

API error_t_ cuLaunchKernelEx(const struct driver_config *config, void *function, void **arguments, void **more)
{
    FORWARD(launch(config, function, arguments, more));
}

API error_t_ cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                            void *stream, void **arguments, void **more)
{
    struct driver_config config = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
    FORWARD(launch(&config, function, arguments, more));
}

API error_t_ cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                       unsigned shared, void *stream, void **arguments)
{
    FORWARD(cudaLaunchCooperativeKernel(function, (struct dim3){gx, gy, gz}, (struct dim3){bx, by, bz}, arguments, shared, stream));
}

API error_t_ cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared)
{
    FORWARD(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0));
}
API error_t_ cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, void *function, int threads, size_t shared, unsigned flags)
{
    FORWARD(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, flags));
}

API error_t_ cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, void *function, int blocks, int threads)
{
    FORWARD(cudaOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads));
}
API error_t_ cuOccupancyMaxActiveClusters(int *clusters, void *function, const struct driver_config *config)
{
    struct launch_config same_config = config ? runtime_config(config) : (struct launch_config){0};
    FORWARD(cudaOccupancyMaxActiveClusters(clusters, function, config ? &same_config : NULL));
}
API error_t_ cuOccupancyMaxPotentialClusterSize(int *size, void *function, const struct driver_config *config)
{
    struct launch_config same_config = config ? runtime_config(config) : (struct launch_config){0};
    FORWARD(cudaOccupancyMaxPotentialClusterSize(size, function, config ? &same_config : NULL));
}

/* The block size with the most threads per SM, the larger of two that are alike. */
static error_t_ best_block(int *grid, int *block, void *function, size_t (*shared_of)(int), size_t shared, int limit)
{
    int most, best = 0, threads_per_block;
    error_t_ status = grid && block ? function_attribute(&threads_per_block, 0, function) : INVALID_VALUE;
    if (status)
        return status;
    if (limit <= 0 || limit > threads_per_block)
        limit = threads_per_block;
    for (int threads = limit; threads > 0; threads = (threads - 1) / 32 * 32) {
        size_t own = shared_of ? shared_of(threads) : shared;
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&most, function, threads, own, 0);
        if (status)
            return status;
        if (most * threads > best) {
            best = most * threads;
            *block = threads;
            *grid = most * (int)the_device.values[D_SM_COUNT];
        }
    }
    return SUCCESS;
}

API error_t_ cuOccupancyMaxPotentialBlockSize(int *grid, int *block, void *function, size_t (*shared_of)(int), size_t shared, int limit)
{
    FORWARD(best_block(grid, block, function, shared_of, shared, limit));
}
