/* The program's fat binaries, kernels and variables, as its start-up code registers them. Each is sent to the emulator at first use. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u

struct wrapper { uint32_t magic, version; const void *data; void *more; };
struct fatbin { uint32_t magic; uint16_t version, header_bytes; uint64_t bytes; };

static struct module *modules;
static struct function *by_host[BUCKETS];

static unsigned bucket(const void *key) { return (unsigned)(((uint64_t)key >> 4) * 2654435761u) % BUCKETS; }

API void **__cudaRegisterFatBinary(void *given)
{
    const struct wrapper *wrapper = given;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        abort();
    const struct fatbin *fatbin = wrapper->data;
    if (wrapper->magic == WRAPPER_MAGIC && fatbin && fatbin->magic == FATBIN_MAGIC) {
        module->fatbin = fatbin;
        module->bytes = fatbin->header_bytes + fatbin->bytes;
    }
    enter_quietly();
    module->next = modules;
    modules = module;
    leave(SUCCESS);
    return (void **)module;
}

API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

API void __cudaUnregisterFatBinary(void **handle) { (void)handle; } /* at exit: the emulator sees the connection close */

API void __cudaRegisterFunction(void **handle, const char *host, char *device_name, const char *name, int thread_limit, void *tid,
                                void *bid, void *block, void *grid, int *warp_size)
{
    (void)device_name, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp_size;
    struct function *function = calloc(1, sizeof *function);
    if (!function)
        abort();
    function->host = host;
    function->name = name;
    function->module = (struct module *)handle;
    enter_quietly();
    function->next = by_host[bucket(host)];
    by_host[bucket(host)] = function;
    leave(SUCCESS);
}

static void register_variable(void **handle, void *host, const char *name, size_t size, bool managed)
{
    struct module *module = (struct module *)handle;
    struct variable *variable = calloc(1, sizeof *variable);
    if (!variable)
        abort();
    *variable = (struct variable){host, name, module, size, 0, managed, false, module->variables};
    enter_quietly();
    module->variables = variable;
    leave(SUCCESS);
}

API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size, int constant, int global)
{
    (void)device, (void)external, (void)constant, (void)global;
    register_variable(handle, host, name, size, false);
}

API void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external, size_t size, int constant,
                                  int global)
{
    (void)device, (void)external, (void)constant, (void)global;
    register_variable(handle, host, name, size, true);
}

API void __cudaRegisterHostVar(void **handle, const char *name, char *host, size_t size)
{
    (void)handle, (void)name, (void)host, (void)size;
}

/* A variable of a module that the program loads: the emulator says which there are. */
static error_t_ add_variable(struct module *module, const char *name, size_t length, size_t size)
{
    for (struct variable *v = module->variables; v; v = v->next)
        if (strlen(v->name) == length && !memcmp(v->name, name, length))
            return SUCCESS; /* after cudaDeviceReset */
    struct variable *variable = calloc(1, sizeof *variable);
    char *copy = strndup(name, length);
    if (!variable || !copy) {
        free(variable);
        free(copy);
        return MEMORY_ALLOCATION;
    }
    *variable = (struct variable){NULL, copy, module, size, 0, false, false, module->variables};
    module->variables = variable;
    return SUCCESS;
}

/* The answer to LOAD: module id, count, then per variable address, size, writable, bytes of its name, its name; then the kernels' names. */
static error_t_ place_variables(struct module *module, const char *answer, size_t bytes)
{
    int64_t head[2], row[4];
    const char *end = answer + bytes;
    memcpy(head, answer, sizeof head);
    answer += sizeof head;
    module->id = head[0];
    for (int64_t k = 0; k < head[1] && answer < end; k++) {
        memcpy(row, answer, sizeof row);
        answer += sizeof row;
        error_t_ status = row[1] ? insert_module_data((uint64_t)row[0], (size_t)row[1], row[2] != 0) : SUCCESS;
        if (status)
            return status;
        if (module->by_program) {
            status = add_variable(module, answer, (size_t)row[3], (size_t)row[1]);
            if (status)
                return status;
        }
        for (struct variable *v = module->variables; v; v = v->next) {
            if (strlen(v->name) == (size_t)row[3] && !memcmp(v->name, answer, (size_t)row[3])) {
                v->address = (uint64_t)row[0];
                v->resolved = true;
                if (v->managed)
                    *(void **)v->host = (void *)v->address;
            }
        }
        answer += row[3];
    }
    free(module->kernel_names);
    module->kernel_names_bytes = (size_t)(end - answer);
    module->kernel_names = malloc(module->kernel_names_bytes + 1);
    if (!module->kernel_names)
        return MEMORY_ALLOCATION;
    memcpy(module->kernel_names, answer, module->kernel_names_bytes);
    return SUCCESS;
}

static error_t_ load(struct module *module)
{
    if (module->loaded)
        return module->failed;
    void *answer = NULL;
    size_t bytes = 0;
    module->loaded = true;
    module->failed = module->fatbin ? call_emulator(2, NULL, 0, module->fatbin, module->bytes, &answer, &bytes) : NO_KERNEL_IMAGE;
    if (module->failed == SUCCESS)
        module->failed = place_variables(module, answer, bytes);
    free(answer);
    return module->failed;
}

API char __cudaInitModule(void **handle)
{
    error_t_ status = enter();
    if (status == SUCCESS)
        status = load((struct module *)handle);
    leave(status);
    return 1;
}

error_t_ find_function(const void *key, struct function **found)
{
    for (struct function *f = by_host[bucket(key)]; f; f = f->next)
        if (f->host == key) {
            *found = f;
            return SUCCESS;
        }
    for (unsigned k = 0; k < BUCKETS; k++) /* a handle that cudaGetKernel gave */
        for (struct function *f = by_host[k]; f; f = f->next)
            if (f == key) {
                *found = f;
                return SUCCESS;
            }
    return INVALID_DEVICE_FUNCTION;
}

error_t_ find_variable(const void *key, struct variable **found)
{
    for (struct module *module = modules; module; module = module->next)
        for (struct variable *v = module->variables; v; v = v->next) {
            /* A managed variable's stand-in holds its address, and is what the program names as well. */
            if (v->host != key && !(v->managed && v->resolved && (void *)v->address == key))
                continue;
            error_t_ status = load(module);
            if (status)
                return status;
            *found = v;
            return v->resolved ? SUCCESS : INVALID_SYMBOL;
        }
    return INVALID_SYMBOL;
}

/* What `resolve` has found, which may be something else after cudaDeviceReset. */
static void forget_function(struct function *f)
{
    f->resolved = false;
    free(f->layout);
    f->layout = NULL;
    set_maker(f, NULL, 0);
}

/* The answer to RESOLVE: 18 numbers, then offset and size of each parameter, then the code that makes others. */
error_t_ resolve(struct function *function)
{
    if (function->resolved)
        return SUCCESS;
    error_t_ status = load(function->module);
    if (status)
        return status;
    void *answer = NULL;
    size_t bytes = 0;
    status = call_emulator(3, &function->module->id, sizeof function->module->id, function->name, strlen(function->name), &answer, &bytes);
    int64_t head[18];
    if (status == SUCCESS && bytes >= sizeof head) {
        memcpy(head, answer, sizeof head);
        function->id = head[0];
        function->parameters = head[1];
        function->parameter_bytes = head[2];
        function->registers = head[3];
        function->shared = head[4];
        function->local = head[5];
        function->constant = head[6];
        function->max_threads = head[7];
        function->ptx_version = head[8];
        function->binary_version = head[9];
        if (head[10])
            memcpy(function->cluster, head + 10, sizeof function->cluster);
        function->max_cluster = head[13];
        memcpy(function->block, head + 14, sizeof function->block);
        size_t layout_bytes = bytes - sizeof head - (size_t)head[17];
        function->layout = malloc(layout_bytes + 1);
        if (!function->layout)
            abort();
        memcpy(function->layout, (char *)answer + sizeof head, layout_bytes);
        status = set_maker(function, (char *)answer + sizeof head + layout_bytes, (size_t)head[17]);
        if (!function->max_dynamic_shared)
            function->max_dynamic_shared = (int)(the_device.values[D_SHARED_PER_BLOCK] - function->shared);
        function->resolved = status == SUCCESS;
    }
    free(answer);
    return status;
}

/* cudaDeviceReset: modules are loaded again, variables with their first contents, when next used. */
void forget_modules(void)
{
    for (struct module *module = modules; module; module = module->next) {
        module->loaded = false;
        module->failed = SUCCESS;
        for (struct variable *v = module->variables; v; v = v->next)
            v->resolved = false;
    }
    for (unsigned k = 0; k < BUCKETS; k++)
        for (struct function *f = by_host[k]; f; f = f->next)
            forget_function(f);
}

/* -- Modules that the program loads itself. Their kernels are found by handles, which are their keys as well. */

error_t_ add_module(const void *image, size_t bytes, struct module **added)
{
    struct module *module = calloc(1, sizeof *module);
    void *copy = malloc(bytes + 1);
    if (!module || !copy) {
        free(module);
        free(copy);
        return MEMORY_ALLOCATION;
    }
    memcpy(copy, image, bytes);
    *module = (struct module){.fatbin = copy, .bytes = bytes, .by_program = true, .next = modules};
    modules = module;
    error_t_ status = load(module);
    if (status)
        remove_module(module);
    else
        *added = module;
    return status;
}

static void remove_functions(const struct module *module)
{
    for (unsigned k = 0; k < BUCKETS; k++)
        for (struct function **link = &by_host[k]; *link;) {
            struct function *f = *link;
            if (f->module != module) {
                link = &f->next;
                continue;
            }
            *link = f->next;
            forget_function(f);
            free((char *)f->name);
            free(f);
        }
}

/* The memory of its variables stays taken until the device is reset. */
error_t_ remove_module(struct module *module)
{
    struct module **link = &modules;
    while (*link && *link != module)
        link = &(*link)->next;
    if (!*link || !module->by_program)
        return INVALID_HANDLE;
    *link = module->next;
    remove_functions(module);
    for (struct variable *v = module->variables, *next; v; v = next) {
        next = v->next;
        free((char *)v->name);
        free(v);
    }
    free(module->kernel_names);
    free((void *)module->fatbin);
    free(module);
    return SUCCESS;
}

static bool is_loaded_by_program(const struct module *module)
{
    for (const struct module *m = modules; m; m = m->next)
        if (m == module)
            return m->by_program;
    return false;
}

error_t_ named_function(struct module *module, const char *name, struct function **found)
{
    if (!is_loaded_by_program(module))
        return INVALID_HANDLE;
    for (unsigned k = 0; k < BUCKETS; k++)
        for (struct function *f = by_host[k]; f; f = f->next)
            if (f->module == module && !strcmp(f->name, name)) {
                *found = f;
                return SUCCESS;
            }
    struct function *function = calloc(1, sizeof *function);
    char *copy = strdup(name);
    if (!function || !copy)
        abort();
    *function = (struct function){.host = function, .name = copy, .module = module};
    error_t_ status = resolve(function);
    if (status) {
        free(copy);
        free(function);
        return status;
    }
    function->next = by_host[bucket(function)];
    by_host[bucket(function)] = function;
    *found = function;
    return SUCCESS;
}

error_t_ kernel_at(struct module *module, size_t place, struct function **found)
{
    if (!is_loaded_by_program(module))
        return INVALID_HANDLE;
    error_t_ status = load(module);
    const char *name = module->kernel_names, *end = name + module->kernel_names_bytes;
    for (; status == SUCCESS && name < end; name += strlen(name) + 1)
        if (!place--)
            return named_function(module, name, found);
    return status ? status : INVALID_VALUE;
}

error_t_ named_variable(struct module *module, const char *name, struct variable **found)
{
    if (!is_loaded_by_program(module))
        return INVALID_HANDLE;
    error_t_ status = load(module);
    for (struct variable *v = module->variables; v && status == SUCCESS; v = v->next)
        if (!strcmp(v->name, name)) {
            *found = v;
            return v->resolved ? SUCCESS : INVALID_SYMBOL;
        }
    return status ? status : SYMBOL_NOT_FOUND;
}
