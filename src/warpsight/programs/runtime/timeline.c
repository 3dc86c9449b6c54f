/* What is told of a program's timeline: what was on each stream and when, which call of the interface put it there, and the ranges
 * and marks of NVTX. Calls that neither wait nor put anything on a stream are only counted: how long they take is not modelled. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define TIMELINE 13
#define NAME 15
#define MOST_SPANS 512
#define TELLING 0.5 /* seconds: no more is lost where the program is killed */
#define MOST_FRAMES 12
#define BUCKETS 4096u

static struct span spans[MOST_SPANS];
static int span_count, graph_depth;
static int64_t graph_launches, span_total;
static __thread int64_t call; /* the number of the program's own call that this thread is in, else 0 */

bool in_graph(void) { return graph_depth > 0; }
void begin_graph(void) { graph_launches += graph_depth++ == 0; }
void end_graph(void) { graph_depth--; }

static double told; /* when */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void tell_timeline(void)
{
    told = seconds_now();
    if (span_count)
        call_emulator(TIMELINE, spans, (size_t)span_count * sizeof *spans, NULL, 0, NULL, NULL);
    span_count = 0;
}

void add_span(struct span what)
{
    what.graph = graph_depth ? graph_launches : 0;
    what.call = call;
    what.thread = syscall(SYS_gettid);
    spans[span_count++] = what;
    span_total++;
    if (span_count == MOST_SPANS || seconds_now() - told > TELLING)
        tell_timeline();
}

/* -- Names, of functions and ranges: each is told once, with its number. */

struct name { char *text; int64_t number, count; const void *place; struct name *next; };

static struct name *by_text[BUCKETS], *by_place[BUCKETS];
static int64_t names;

static struct name *add_name(struct name **bucket, const char *text, const void *place, int64_t number)
{
    struct name *name = calloc(1, sizeof *name);
    char *kept = name ? strdup(text) : NULL;
    if (!kept) {
        free(name);
        return NULL;
    }
    *name = (struct name){kept, number, 0, place, *bucket};
    return *bucket = name;
}

/* NULL where there is no memory for it. */
static struct name *named(const char *text)
{
    unsigned hash = 5381;
    for (const char *at = text; *at; at++)
        hash = hash * 33u + (unsigned char)*at;
    struct name **bucket = &by_text[hash % BUCKETS];
    for (struct name *name = *bucket; name; name = name->next)
        if (!strcmp(name->text, text))
            return name;
    struct name *name = add_name(bucket, text, NULL, names + 1);
    if (name) {
        names++;
        call_emulator(NAME, &name->number, sizeof name->number, text, strlen(text), NULL, NULL);
    }
    return name;
}

/* -- The program's calls. */

extern const char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

static bool is_own(const void *place) { return (const char *)place >= __ehdr_start && (const char *)place < _end; }

/* The function of the interface that the program has called: the outermost of this library. */
static struct name *called_function(void)
{
    void *frames[MOST_FRAMES];
    int count = backtrace(frames, MOST_FRAMES), k = 0;
    while (k + 1 < count && is_own(frames[k + 1]))
        k++;
    struct name **bucket = &by_place[(uintptr_t)frames[k] / 8 % BUCKETS];
    for (struct name *known = *bucket; known; known = known->next)
        if (known->place == frames[k])
            return named(known->text);
    Dl_info info;
    char text[128];
    if (!dladdr(frames[k], &info) || !info.dli_sname)
        return NULL;
    snprintf(text, sizeof text, "%s", info.dli_sname + (strncmp(info.dli_sname, "__", 2) ? 0 : 2)); /* as nvcc calls it */
    char *end = strstr(text, "_pt"); /* the same function for the default stream of each thread */
    if (end && (!strcmp(end, "_ptsz") || !strcmp(end, "_ptds")))
        *end = 0;
    add_name(bucket, text, frames[k], 0);
    return named(text);
}

static __thread struct { struct name *name; double start; int64_t spans; } made;
static int64_t calls;

void begin_call(void)
{
    made.name = called_function();
    made.start = host_clock();
    made.spans = span_total;
    call = ++calls;
}

void end_call(void)
{
    if (made.name) {
        made.name->count++;
        if (span_total != made.spans || host_clock() > made.start)
            add_span((struct span){.kind = CALLED, .number = made.name->number, .start = made.start, .end = host_clock()});
    }
    call = 0;
}

void tell_counts(void)
{
    for (unsigned k = 0; k < BUCKETS; k++)
        for (const struct name *name = by_text[k]; name; name = name->next)
            if (name->count)
                add_span((struct span){.kind = COUNTED, .number = name->number, .bytes = name->count});
}

/* -- NVTX. Its headers load the library that NVTX_INJECTION64_PATH names, and call the function at the end of this file. What it
 * hands over is declared as in `nvtx3/nvtxDetail/nvtxTypes.h`. A name has its domain before it. */

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_kind;
    uint32_t color;
    int32_t payload_kind, reserved;
    uint64_t payload;
    int32_t message_kind;
    const void *message;
};
struct domain { int64_t number; char *name; };
enum { ASCII = 1, UNICODE, REGISTERED };

static const struct domain no_domain = {0, ""};
static int64_t domains;
static uint64_t ranges;
static __thread int depth;

static bool begin_mark(void)
{
    enter_quietly();
    bool there = connect_emulator() == SUCCESS && is_connected();
    if (!there)
        leave(SUCCESS);
    return there;
}

static char *utf8(const wchar_t *wide)
{
    char *text = malloc(4 * wcslen(wide) + 1), *at = text;
    for (; text && *wide; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (c < 0x80) {
            *at++ = (char)c;
            continue;
        }
        int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        *at++ = (char)((0xf00 >> (more + 1)) | (c >> 6 * more));
        for (int k = more - 1; k >= 0; k--)
            *at++ = (char)(0x80 | (c >> 6 * k & 0x3f));
    }
    if (text)
        *at = 0;
    return text;
}

static void mark(enum span_kind kind, const struct domain *domain, const char *text, uint64_t range)
{
    domain = domain ? domain : &no_domain;
    if (!begin_mark())
        return;
    char *whole = NULL;
    if (text && domain->number && asprintf(&whole, "%s:%s", domain->name, text) < 0)
        whole = NULL;
    struct name *name = text ? named(whole ? whole : text) : NULL;
    int64_t number = name ? name->number : 0;
    double now = host_clock();
    add_span((struct span){.kind = kind, .stream = domain->number, .number = number, .bytes = (int64_t)range, .start = now, .end = now});
    free(whole);
    leave(SUCCESS);
}

static void mark_wide(enum span_kind kind, const wchar_t *wide, uint64_t range)
{
    char *text = wide ? utf8(wide) : NULL;
    mark(kind, NULL, text ? text : "", range);
    free(text);
}

static void mark_as(enum span_kind kind, const struct domain *domain, const struct attributes *a, uint64_t range)
{
    char *text = a && a->message && a->message_kind == UNICODE ? utf8(a->message) : NULL;
    const char *plain = a && a->message && (a->message_kind == ASCII || a->message_kind == REGISTERED) ? a->message : "";
    mark(kind, domain, text ? text : plain, range);
    free(text);
}

static uint64_t next_range(void) { return __atomic_add_fetch(&ranges, 1, __ATOMIC_RELAXED); }

static void mark_ex(const struct attributes *a) { mark_as(MARKED, NULL, a, 0); }
static void mark_a(const char *text) { mark(MARKED, NULL, text ? text : "", 0); }
static void mark_w(const wchar_t *text) { mark_wide(MARKED, text, 0); }
static void domain_mark(const struct domain *domain, const struct attributes *a) { mark_as(MARKED, domain, a, 0); }

static uint64_t domain_start(const struct domain *domain, const struct attributes *a)
{
    uint64_t range = next_range();
    mark_as(RANGE_STARTED, domain, a, range);
    return range;
}
static uint64_t start_ex(const struct attributes *a) { return domain_start(NULL, a); }
static uint64_t start_a(const char *text)
{
    uint64_t range = next_range();
    mark(RANGE_STARTED, NULL, text ? text : "", range);
    return range;
}
static uint64_t start_w(const wchar_t *text)
{
    uint64_t range = next_range();
    mark_wide(RANGE_STARTED, text, range);
    return range;
}
static void domain_end(const struct domain *domain, uint64_t range) { mark(RANGE_ENDED, domain, NULL, range); }
static void end_range(uint64_t range) { domain_end(NULL, range); }

static int domain_push(const struct domain *domain, const struct attributes *a)
{
    mark_as(RANGE_PUSHED, domain, a, 0);
    return depth++;
}
static int push_ex(const struct attributes *a) { return domain_push(NULL, a); }
static int push_a(const char *text)
{
    mark(RANGE_PUSHED, NULL, text ? text : "", 0);
    return depth++;
}
static int push_w(const wchar_t *text)
{
    mark_wide(RANGE_PUSHED, text, 0);
    return depth++;
}
static int domain_pop(const struct domain *domain)
{
    if (!depth)
        return -1;
    mark(RANGE_POPPED, domain, NULL, 0);
    return --depth;
}
static int pop(void) { return domain_pop(NULL); }

static char *register_a(const struct domain *domain, const char *text)
{
    (void)domain;
    return strdup(text ? text : "");
}
static char *register_w(const struct domain *domain, const wchar_t *text)
{
    (void)domain;
    return utf8(text ? text : L"");
}

static struct domain *new_domain(char *name)
{
    struct domain *domain = name ? malloc(sizeof *domain) : NULL;
    if (domain)
        *domain = (struct domain){__atomic_add_fetch(&domains, 1, __ATOMIC_RELAXED), name};
    return domain;
}
static struct domain *domain_a(const char *name) { return new_domain(strdup(name ? name : "")); }
static struct domain *domain_w(const wchar_t *name) { return new_domain(utf8(name ? name : L"")); }

typedef void (*function_t)(void);
struct callbacks { size_t size; int (*table_of)(int module, function_t ***table, unsigned *size); };
enum { CORE = 1, CORE_OF_DOMAINS = 5, CALLBACKS = 1 };

/* Returns whether NVTX may call these functions; those that are not set here do nothing. */
API int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t which))
{
    const function_t core[] = {
        NULL, (function_t)mark_ex, (function_t)mark_a, (function_t)mark_w, (function_t)start_ex, (function_t)start_a,
        (function_t)start_w, (function_t)end_range, (function_t)push_ex, (function_t)push_a, (function_t)push_w, (function_t)pop};
    const function_t of_domains[] = {
        NULL, (function_t)domain_mark, (function_t)domain_start, (function_t)domain_end, (function_t)domain_push,
        (function_t)domain_pop, NULL, NULL, NULL, NULL, (function_t)register_a, (function_t)register_w, (function_t)domain_a,
        (function_t)domain_w};
    const struct { int module; const function_t *functions; unsigned count; } given[] = {
        {CORE, core, sizeof core / sizeof *core}, {CORE_OF_DOMAINS, of_domains, sizeof of_domains / sizeof *of_domains}};
    const struct callbacks *callbacks = export_table(CALLBACKS);
    for (unsigned k = 0; callbacks && k < sizeof given / sizeof *given; k++) {
        function_t **table;
        unsigned size;
        if (!callbacks->table_of(given[k].module, &table, &size))
            return 0;
        for (unsigned n = 1; n < given[k].count && n < size; n++)
            if (table[n] && given[k].functions[n])
                *table[n] = given[k].functions[n];
    }
    return callbacks != NULL;
}
