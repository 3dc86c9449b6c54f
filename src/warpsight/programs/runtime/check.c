/* For `warpsight check`: which calls fail and from where, and what is never freed; and what is told at the end of any program. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAILED 10
#define LEAKED 11
#define COPIED_OUT 12
#define MOST_FRAMES 48
#define MOST_SHOWN 8
#define TEXT_BYTES 8192

bool checking;

static int append(char *text, int used, const char *form, ...) __attribute__((format(printf, 3, 4)));

static int append(char *text, int used, const char *form, ...)
{
    va_list values;
    va_start(values, form);
    int more = vsnprintf(text + used, (size_t)(TEXT_BYTES - used), form, values);
    va_end(values);
    return more < 0 || used + more >= TEXT_BYTES ? used : used + more;
}

/* The call of this library that the program has made, and on a line each who made it, from the inside out: return address, where its
 * file is loaded, and the file. The caller frees it. */
char *call_site(void)
{
    void *frames[MOST_FRAMES];
    char program[4096], *text = malloc(TEXT_BYTES);
    Dl_info own, info;
    if (!text || !dladdr((void *)call_site, &own)) {
        free(text);
        return NULL;
    }
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    int count = backtrace(frames, MOST_FRAMES), k = 0;
    const char *name = "";
    for (; k < count && dladdr(frames[k], &info) && info.dli_fbase == own.dli_fbase; k++)
        name = info.dli_sname ? info.dli_sname : name;
    int used = append(text, 0, "%s\n", name);
    for (int shown = 0; k < count && shown < MOST_SHOWN; k++, shown++)
        if (dladdr(frames[k], &info)) {
            bool main_program = !strchr(info.dli_fname, '/') || !strcmp(info.dli_fname, program_invocation_name);
            used = append(text, used, "%lx %lx %s\n", (unsigned long)frames[k], (unsigned long)info.dli_fbase,
                          main_program ? program : info.dli_fname);
        }
    return text;
}

static void tell(uint32_t kind, const void *head, size_t bytes, const char *text)
{
    call_emulator(kind, head, bytes, text, text ? strlen(text) : 0, NULL, NULL);
}

void tell_failed(error_t_ code)
{
    char text[512];
    int64_t head = code;
    char *site = call_site();
    snprintf(text, sizeof text, "%s\n%s\n", cudaGetErrorName(code), cudaGetErrorString(code));
    char *whole = site ? malloc(strlen(text) + strlen(site) + 1) : NULL;
    if (whole)
        tell(FAILED, &head, sizeof head, strcat(strcpy(whole, text), site));
    free(whole);
    free(site);
}

void tell_copied_out(const void *start, size_t pitch, size_t width, size_t rows)
{
    int64_t head[4] = {(int64_t)start, (int64_t)pitch, (int64_t)width, (int64_t)rows};
    char *site = call_site();
    tell_touched();
    tell(COPIED_OUT, head, sizeof head, site);
    free(site);
}

void tell_leaks(void)
{
    const uint64_t(*row)[3] = (const uint64_t(*)[3])the_table;
    uint64_t low, high;
    tell_touched();
    for (uint64_t k = 0; k < table_count(); k++) {
        struct allocation *found = find_allocation(row[k][0], &low, &high);
        int64_t head[2] = {(int64_t)row[k][0], (int64_t)(row[k][1] - row[k][0])};
        if (found && (found->kind == KIND_DEVICE || found->kind == KIND_MANAGED))
            tell(LEAKED, head, sizeof head, found->site);
    }
}

/* After the program's own destructors, which may still free memory. */
__attribute__((destructor)) static void at_end(void)
{
    if (is_connected()) {
        enter_quietly();
        tell_counts();
        tell_timeline();
        if (checking)
            tell_leaks();
        leave(SUCCESS);
    }
}
