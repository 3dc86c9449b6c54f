/* Parameters that the driver makes at each launch: a cubin of CUDA Tile has code for the host that writes them, such as tensor maps,
 * behind those that the program gives (`kernels/cubin.py`, `host_code`). As with NVIDIA's driver it runs in the program's process.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <string.h>
#include <sys/mman.h>

enum { CALLBACKS = 64 };

/* What it is given beside the parameters: functions of the driver. No cubin was seen that calls one; each says that it has failed. */
static uint64_t refuse(void)
{
    warn_once("a function of the driver that a cubin's code for the host calls");
    return NOT_SUPPORTED;
}

/* Without code the function makes none from now on. */
error_t_ set_maker(struct function *f, const void *code, size_t bytes)
{
    if (f->maker)
        munmap(f->maker, f->maker_bytes);
    f->maker = NULL;
    f->maker_bytes = bytes;
    if (!bytes)
        return SUCCESS;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return MEMORY_ALLOCATION;
    f->maker = pages;
    memcpy(pages, code, bytes);
    return mprotect(pages, bytes, PROT_READ | PROT_EXEC) ? NOT_SUPPORTED : SUCCESS;
}

error_t_ make_parameters(const struct function *f, void *parameters)
{
    if (!f->maker)
        return SUCCESS;
    uint64_t (*callbacks[CALLBACKS])(void);
    for (int k = 0; k < CALLBACKS; k++)
        callbacks[k] = refuse;
    int (*make)(const void *, void *, void *, void *);
    memcpy(&make, &f->maker, sizeof make);
    return make(callbacks, callbacks, callbacks, parameters) ? INVALID_VALUE : SUCCESS;
}
