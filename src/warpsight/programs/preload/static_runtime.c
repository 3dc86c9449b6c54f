/* Programs that NVIDIA's runtime is linked into statically (nvcc's default): each of its functions is made to jump to the function of
   the same name in the runtime library beside this one. Loaded before the program and its libraries (LD_PRELOAD).

   The functions are found in the symbol table of the file, which `strip` removes. The library of CUTLASS's Python DSL is stripped, but it
   exports a function of one jump for each function of the runtime that it hands on: the jump leads to the runtime's function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_OBJECTS 4096
#define MARK "libcudart_static_" /* begins the names of functions that only the static runtime has */
#define REGISTERS "__sti____cudaRegisterAll" /* in the name of what nvcc adds to each file: it registers the file's kernels */

enum { JUMP_BYTES = 14, ALIGNMENT = 16 };

/* A file with its symbols, checked to lie within it. */
struct file {
    const unsigned char *data;
    size_t bytes;
    const Elf64_Sym *symbols;
    size_t count;
    const char *names;
    size_t name_bytes;
};

static bool inside(const struct file *file, uint64_t offset, uint64_t bytes)
{
    return offset <= file->bytes && bytes <= file->bytes - offset;
}

/* `kind`: SHT_SYMTAB, all symbols of the file, or SHT_DYNSYM, those that it exports or needs. */
static bool find_symbols(struct file *file, Elf64_Word kind)
{
    const Elf64_Ehdr *head = (const void *)file->data;
    if (!inside(file, 0, sizeof *head) || memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    if (head->e_shentsize != sizeof(Elf64_Shdr) || !inside(file, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr)))
        return false;
    const Elf64_Shdr *sections = (const void *)(file->data + head->e_shoff);
    for (int k = 0; k < head->e_shnum; k++) {
        const Elf64_Shdr *table = sections + k;
        if (table->sh_type != kind || table->sh_link >= head->e_shnum || !inside(file, table->sh_offset, table->sh_size))
            continue;
        const Elf64_Shdr *names = sections + table->sh_link;
        if (!names->sh_size || !inside(file, names->sh_offset, names->sh_size) || file->data[names->sh_offset + names->sh_size - 1])
            continue;
        file->symbols = (const void *)(file->data + table->sh_offset);
        file->count = table->sh_size / sizeof *file->symbols;
        file->names = (const char *)file->data + names->sh_offset;
        file->name_bytes = names->sh_size;
        return true;
    }
    return false;
}

static const char *name_of(const struct file *file, size_t k)
{
    const Elf64_Sym *symbol = file->symbols + k;
    bool defined = symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_size;
    return defined && symbol->st_name < file->name_bytes ? file->names + symbol->st_name : "";
}

static bool has(const struct file *file, const char *name)
{
    for (size_t k = 0; k < file->count; k++)
        if (!strcmp(name_of(file, k), name))
            return true;
    return false;
}

static bool is_static(const struct file *file)
{
    for (size_t k = 0; k < file->count; k++)
        if (!strncmp(name_of(file, k), MARK, strlen(MARK)))
            return true;
    return false;
}

/* CUDA 12 has both forms of the properties' structure, and other versions one; functions came with 12.5 that 11 has not. */
static const char *library_of(const struct file *file)
{
    if (has(file, "cudaGetDeviceProperties_v2"))
        return "libcudart.so.12";
    return has(file, "cudaGetDriverEntryPointByVersion") ? "libcudart.so.13" : "libcudart.so.11.0";
}

static void *open_beside(const char *name)
{
    Dl_info own;
    char path[PATH_MAX];
    if (!dladdr((void *)open_beside, &own) || !strrchr(own.dli_fname, '/'))
        return NULL;
    int folder = (int)(strrchr(own.dli_fname, '/') - own.dli_fname);
    if (snprintf(path, sizeof path, "%.*s/%s", folder, own.dli_fname, name) >= (int)sizeof path)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* jmp *0(%rip), and the address. A short function has the bytes up to the next multiple of the alignment. */
static bool redirect(unsigned char *from, size_t bytes, const void *to)
{
    size_t room = (uintptr_t)from % ALIGNMENT ? bytes : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (room < JUMP_BYTES)
        return false;
    static const unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0};
    memcpy(from, jump, sizeof jump);
    memcpy(from + sizeof jump, &to, sizeof to);
    return true;
}

struct object { const char *path; uintptr_t base; const ElfW(Phdr) *segments; int count; };

static bool executable(const struct object *object, uint64_t address, uint64_t bytes)
{
    for (int k = 0; k < object->count; k++) {
        const ElfW(Phdr) *segment = object->segments + k;
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X && address >= segment->p_vaddr
            && address - segment->p_vaddr <= segment->p_memsz && bytes <= segment->p_memsz - (address - segment->p_vaddr))
            return true;
    }
    return false;
}

/* The pages of the object's code: writable, or as they were. */
static bool protect(const struct object *object, bool writable)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int k = 0; k < object->count; k++) {
        const ElfW(Phdr) *segment = object->segments + k;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        uintptr_t begin = (object->base + segment->p_vaddr) / page * page;
        uintptr_t end = object->base + segment->p_vaddr + segment->p_memsz;
        if (mprotect((void *)begin, end - begin, PROT_READ | PROT_EXEC | (writable ? PROT_WRITE : 0)))
            return false;
    }
    return true;
}

static void *open_for(const struct object *object, const char *library)
{
    void *runtime = open_beside(library);
    if (runtime && protect(object, true))
        return runtime;
    fprintf(stderr, "warpsight: the CUDA runtime in %s cannot be replaced: %s\n", object->path,
            runtime ? "its code cannot be changed" : dlerror());
    return NULL;
}

static void replace_runtime(const struct object *object, const struct file *file, bool initialized)
{
    void *runtime = open_for(object, library_of(file));
    if (!runtime)
        return;
    for (size_t k = 0; k < file->count; k++) {
        const char *name = name_of(file, k);
        if (strncmp(name, "cuda", 4) && strncmp(name, "__cuda", 6))
            continue;
        const Elf64_Sym *symbol = file->symbols + k;
        const void *ours = dlsym(runtime, name);
        if (ours && executable(object, symbol->st_value, symbol->st_size > ALIGNMENT ? symbol->st_size : ALIGNMENT))
            redirect((unsigned char *)object->base + symbol->st_value, symbol->st_size, ours);
    }
    protect(object, false);
    for (size_t k = 0; initialized && k < file->count; k++)
        if (strstr(name_of(file, k), REGISTERS) && executable(object, file->symbols[k].st_value, file->symbols[k].st_size))
            ((void (*)(void))(object->base + file->symbols[k].st_value))();
}

/* -- Stripped files that export jumps to the runtime's functions. `_cudaX` leads to cudaX, `_cuX` asks the runtime for the driver's. */

static bool hands_on(const struct file *file) { return has(file, "_cudaLibraryLoadData") && has(file, "_cudaLaunchKernelEx"); }

/* Where a function leads that is a jump, or a jump after the third argument became 0; NULL for any other. */
static unsigned char *target_of(const struct object *object, uint64_t address)
{
    static const unsigned char zero_third[] = {0x31, 0xd2};
    int32_t distance;
    if (!executable(object, address, ALIGNMENT))
        return NULL;
    if (!memcmp((const void *)(object->base + address), zero_third, sizeof zero_third))
        address += sizeof zero_third;
    const unsigned char *code = (const unsigned char *)object->base + address;
    if (*code != 0xe9)
        return NULL;
    memcpy(&distance, code + 1, sizeof distance);
    uint64_t target = address + 1 + sizeof distance + (uint64_t)(int64_t)distance;
    return executable(object, target, ALIGNMENT) ? (unsigned char *)object->base + target : NULL;
}

static void replace_handed_on(const struct object *object, const struct file *file)
{
    void *runtime = open_for(object, "libcudart.so.13"), *driver = open_beside("libcuda.so.1");
    for (size_t k = 0; runtime && k < file->count; k++) {
        const char *name = name_of(file, k);
        const Elf64_Sym *symbol = file->symbols + k;
        bool of_runtime = !strncmp(name, "_cuda", 5);
        if (strncmp(name, "_cu", 3))
            continue;
        const void *ours = dlsym(of_runtime ? runtime : driver, strcmp(name, "_cudaLaunchKernelEx") ? name + 1 : "cudaLaunchKernelExC");
        unsigned char *from = of_runtime ? target_of(object, symbol->st_value) : (unsigned char *)object->base + symbol->st_value;
        if (ours && from && executable(object, symbol->st_value, ALIGNMENT))
            redirect(from, ALIGNMENT, ours);
    }
    if (runtime)
        protect(object, false);
}

/* -- PyTorch of the CPU. Its tensors get memory that kernels reach at the same address, so that a script may pass them to kernels. */

#define TENSOR_LIBRARY "/libc10.so" /* allocates the memory of all of PyTorch's tensors of the CPU */

static void *(*take)(size_t, size_t);
static bool (*give_back)(void *);

static int take_aligned(void **memory, size_t alignment, size_t bytes)
{
    void *taken = take(alignment, bytes);
    if (!taken)
        return posix_memalign(memory, alignment, bytes);
    *memory = taken;
    return 0;
}

static void free_either(void *memory)
{
    if (!give_back(memory))
        free(memory);
}

/* Where the object calls a function of another file, it calls ours. */
static void replace_imports(const struct object *object, const Elf64_Rela *rows, size_t bytes, const Elf64_Sym *symbols, const char *names)
{
    for (size_t k = 0; rows && k < bytes / sizeof *rows; k++) {
        const char *name = names + symbols[ELF64_R_SYM(rows[k].r_info)].st_name;
        unsigned type = ELF64_R_TYPE(rows[k].r_info);
        void *ours = !strcmp(name, "posix_memalign") ? (void *)take_aligned : !strcmp(name, "free") ? (void *)free_either : NULL;
        uintptr_t place = object->base + rows[k].r_offset, page = (uintptr_t)sysconf(_SC_PAGESIZE), first = place / page * page;
        if (ours && (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT)
            && !mprotect((void *)first, place + sizeof ours - first, PROT_READ | PROT_WRITE))
            memcpy((void *)place, &ours, sizeof ours);
    }
}

static void replace_allocator(const struct object *object)
{
    void *runtime = open_beside("libcudart.so.13");
    uint64_t values[DT_NUM] = {0};
    for (int k = 0; k < object->count; k++)
        if (object->segments[k].p_type == PT_DYNAMIC)
            for (const Elf64_Dyn *row = (const void *)(object->base + object->segments[k].p_vaddr); row->d_tag != DT_NULL; row++)
                if (row->d_tag > 0 && row->d_tag < DT_NUM)
                    values[row->d_tag] = row->d_un.d_val; /* addresses, which the loader has moved */
    *(void **)&take = runtime ? dlsym(runtime, "__cudaTakeForHost") : NULL;
    *(void **)&give_back = runtime ? dlsym(runtime, "__cudaGiveBackFromHost") : NULL;
    if (!take || !give_back || !values[DT_SYMTAB] || !values[DT_STRTAB])
        return;
    const Elf64_Sym *symbols = (const void *)values[DT_SYMTAB];
    const char *names = (const char *)values[DT_STRTAB];
    replace_imports(object, (const void *)values[DT_JMPREL], values[DT_PLTRELSZ], symbols, names);
    replace_imports(object, (const void *)values[DT_RELA], values[DT_RELASZ], symbols, names);
}

static void look_at(const struct object *object, bool initialized)
{
    size_t length = strlen(object->path), name = strlen(TENSOR_LIBRARY);
    if (length >= name && !strcmp(object->path + length - name, TENSOR_LIBRARY)) {
        replace_allocator(object);
        return;
    }
    struct stat state;
    int handle = open(object->path, O_RDONLY | O_CLOEXEC);
    if (handle < 0)
        return;
    if (!fstat(handle, &state) && S_ISREG(state.st_mode) && state.st_size > 0) {
        struct file file = {.bytes = (size_t)state.st_size};
        void *data = mmap(NULL, file.bytes, PROT_READ, MAP_PRIVATE, handle, 0);
        file.data = data;
        if (data != MAP_FAILED) {
            if (find_symbols(&file, SHT_SYMTAB) && is_static(&file))
                replace_runtime(object, &file, initialized);
            else if (find_symbols(&file, SHT_DYNSYM) && hands_on(&file))
                replace_handed_on(object, &file);
            munmap(data, file.bytes);
        }
    }
    close(handle);
}

/* -- What is loaded: at the start, and by dlopen. */

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t seen[MOST_OBJECTS]; /* where the objects that were looked at begin */
static int seen_count;

struct found { struct object objects[MOST_OBJECTS]; int count; };

static int add(struct dl_phdr_info *info, size_t size, void *where)
{
    (void)size;
    struct found *found = where;
    for (int k = 0; k < seen_count; k++)
        if (seen[k] == (uintptr_t)info->dlpi_phdr)
            return 0;
    if (seen_count == MOST_OBJECTS)
        return 1;
    seen[seen_count++] = (uintptr_t)info->dlpi_phdr;
    const char *path = strdup(info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe");
    if (path)
        found->objects[found->count++] = (struct object){path, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
    return 0;
}

/* The constructors of objects have run, but for the program's own at the start, which is the first one. */
static void look(bool at_start)
{
    struct found *found = calloc(1, sizeof *found);
    if (!found)
        return;
    pthread_mutex_lock(&looking);
    dl_iterate_phdr(add, found);
    pthread_mutex_unlock(&looking);
    for (int k = 0; k < found->count; k++) {
        look_at(found->objects + k, !at_start || k);
        free((void *)found->objects[k].path);
    }
    free(found);
}

__attribute__((constructor)) static void at_the_start(void) { look(true); }

/* A name without a folder is looked for where the caller's file says: this must then be the caller's own call, a jump. */
__attribute__((visibility("default"))) void *dlopen(const char *name, int mode)
{
    static void *(*real)(const char *, int);
    if (!real)
        real = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    if (!name || !strchr(name, '/'))
        return real(name, mode);
    void *handle = real(name, mode);
    if (handle)
        look(false);
    return handle;
}
