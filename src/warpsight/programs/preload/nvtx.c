/* What NVTX loads (NVTX_INJECTION64_PATH): it hands NVTX on to the runtime library that the program has, of whatever version of CUDA,
   or, where it has none yet, to that of the driver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

typedef int (*initialize_t)(void *);

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(void *export_table)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
    void *library = NULL;
    for (size_t k = 0; !library && k < sizeof names / sizeof *names; k++)
        library = dlopen(names[k], RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        library = dlopen("libcuda.so.1", RTLD_LAZY);
    void *found = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    return found ? ((initialize_t)found)(export_table) : 0;
}
