/* The CUDA runtime API for programs on a machine without a GPU: memory and copies are done here, kernels by the emulator.
 *
 * Device memory is one shared mapping that this process and the emulator both see, at the emulator's device addresses, so that a
 * pointer means the same on both sides and nothing is ever copied between the processes. Every type below is declared as CUDA's
 * binary interface has it; no CUDA header is needed.
 */
#ifndef WARPSIGHT_RUNTIME_H
#define WARPSIGHT_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef CUDART
#define CUDART 13 /* the major version of the interface that is built */
#endif

#define API __attribute__((visibility("default")))

/* Where things lie, as in `emulator/layout.py` and `programs/wire.py`. */
#define ARENA_BASE 0x100000000ull
#define MODULE_ZONE 0x40000000ull /* variables of modules come first, heap after */
#define TABLE_BYTES 0x4000000ull  /* the table of live allocations comes before the arena in the shared memory */
#define ALIGNMENT 512ull

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u

enum {
    SUCCESS = 0, INVALID_VALUE = 1, MEMORY_ALLOCATION = 2, INITIALIZATION = 3, INVALID_CONFIGURATION = 9, INVALID_PITCH = 12,
    INVALID_SYMBOL = 13, INVALID_DIRECTION = 21, INVALID_DEVICE_FUNCTION = 98, NO_DEVICE = 100, INVALID_DEVICE = 101,
    NO_KERNEL_IMAGE = 209, INVALID_HANDLE = 400, SYMBOL_NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
    PEER_NOT_ENABLED = 705, HOST_REGISTERED = 712, HOST_NOT_REGISTERED = 713, COOPERATIVE_TOO_LARGE = 720, NOT_SUPPORTED = 801,
    INVALID_CLUSTER_SIZE = 912, UNKNOWN = 999
};

typedef int error_t_;
#define cudaError_t error_t_

struct dim3 { unsigned x, y, z; };
struct extent { size_t width, height, depth; };
struct position { size_t x, y, z; };
struct pitched { void *ptr; size_t pitch, xsize, ysize; };
struct channel { int x, y, z, w, kind; };
struct location { int type, id; };

/* Memory that lies outside all device allocations belongs to the host. */
enum kind { KIND_DEVICE, KIND_MANAGED, KIND_HOST, KIND_MODULE, KIND_TENSOR /* of PyTorch of the CPU, which the host frees */ };

struct allocation { /* beside a row of the shared table */
    enum kind kind;
    unsigned flags;
    void *registered; /* host pages that alias this allocation (cudaHostRegister) */
    size_t registered_bytes;
    char *site; /* who allocated it, where that is asked for (`call_site`) */
    struct pool *pool; /* that counts it; NULL if none does */
};

struct array { /* cudaArray: row-major texels in device memory */
    uint64_t address;
    struct channel channel;
    struct extent extent; /* height and depth 0 where the array has no such dimension */
    size_t element, pitch;
    unsigned flags;
};

struct device { /* the answer to HELLO, all int64, in the order of `programs/device.py` */
    int64_t values[64];
    char name[256];
};

enum device_value {
    D_MAJOR, D_MINOR, D_SM_COUNT, D_CLOCK_KHZ, D_MEMORY, D_SHARED_PER_BLOCK, D_SHARED_PER_BLOCK_OPTIN, D_SHARED_PER_SM,
    D_SHARED_RESERVED, D_REGISTERS, D_THREADS_PER_BLOCK, D_THREADS_PER_SM, D_BLOCKS_PER_SM, D_L2_BYTES, D_BUS_BITS,
    D_MEMORY_CLOCK_KHZ, D_BANDWIDTH, D_LAUNCH_NS, D_CLUSTERS
};

struct function {
    const void *host; /* the key: the address of the host's stub */
    const char *name;
    struct module *module;
    bool resolved;
    int64_t id, parameters, parameter_bytes, registers, shared, local, constant, max_threads, ptx_version, binary_version;
    int64_t (*layout)[2]; /* offset and size of each parameter */
    int64_t cluster[3];   /* the shape that it was compiled for, or was given by cudaFuncSetAttribute; else zeros */
    int64_t block[3];     /* the block that it was compiled for (.reqntid), else zeros */
    int64_t max_cluster;  /* the most blocks that it was compiled for, 0 where that is not said */
    int max_dynamic_shared, carveout, cluster_needed, cluster_policy;
    bool any_cluster_size; /* more than 8 blocks */
    void *maker;          /* makes the parameters behind those of the layout; NULL where there are none */
    size_t maker_bytes;
    struct function *next;
};

struct variable {
    void *host;
    const char *name;
    struct module *module;
    size_t size;
    uint64_t address;
    bool managed, resolved;
    struct variable *next;
};

struct module {
    const void *fatbin;
    size_t bytes;
    int64_t id;
    bool loaded, by_program; /* the program loads it itself, and asks for its kernels and variables by name */
    error_t_ failed;
    struct variable *variables;
    char *kernel_names;        /* each with its zero byte; NULL before it is loaded */
    size_t kernel_names_bytes;
    struct module *next;
};

struct captured { struct capture *by; struct node **after; size_t count; }; /* by NULL: it is not captured */
struct stream { double clock; unsigned flags; int priority; uint64_t id; void *context; struct captured captured; }; /* none: primary */
struct event { double time; bool recorded, timed; uint64_t id; struct captured captured; };

/* link.c */
error_t_ connect_emulator(void);
error_t_ call_emulator(uint32_t kind, const void *head, size_t head_bytes, const void *body, size_t body_bytes, void **answer,
                       size_t *answer_bytes);
bool is_connected(void); /* this process, not one that it was forked from */
extern struct device the_device;
extern uint8_t *the_table;

/* state.c: every call of the interface begins with `enter` and ends with `leave`. */
error_t_ enter(void);            /* lock, connect; gives an earlier fault, which no later call gets past */
error_t_ enter_quietly(void);    /* lock only */
bool enter_for_host(void);       /* lock, connect, for what is no call of the program's; false, without the lock, where that fails */
error_t_ leave(error_t_ result); /* remember an error for cudaGetLastError, unlock */
void fault(error_t_ code);       /* a launch has failed: later calls find out */
void forget_fault(void);
void warn_once(const char *name);    /* it is not supported */
void warn_ignored(const char *name); /* it has no effect */
void hold_call(void); /* until `release_call`, calls of these functions belong to one of the program's */
void release_call(void);
void begin_driver_call(void); /* a function of the driver calls functions of the runtime until it ends */
void end_driver_call(void);
bool runtime_was_called(void); /* by the program itself, in this thread */
void pause_lock(void);
void resume_lock(void);

/* memory.c */
void memory_reset(void);
uint64_t table_count(void);
error_t_ allocate(size_t bytes, enum kind kind, unsigned flags, uint64_t *address);
error_t_ insert_module_data(uint64_t address, size_t bytes, bool writable);
error_t_ release(uint64_t address);
struct allocation *find_allocation(uint64_t address, uint64_t *low, uint64_t *high);
bool range_is_live(uint64_t address, uint64_t bytes);
bool in_arena(const void *pointer);

/* pools.c: `pool` is NULL for the device's current one */
void pools_reset(void);
error_t_ take_from_pool(struct pool *pool, uint64_t bytes); /* whether it may give so many */
void count_in_pool(struct pool *pool, struct allocation *given, uint64_t bytes);
void give_back_to_pool(struct pool *pool, uint64_t bytes);

/* malloc.c */
bool is_page_locked(const void *host);

/* check.c */
extern bool checking;
char *call_site(void);
void tell_failed(error_t_ code);
void tell_copied_out(const void *start, size_t pitch, size_t width, size_t rows);
void tell_leaks(void);

/* errors.c */
API const char *cudaGetErrorName(error_t_ code);
API const char *cudaGetErrorString(error_t_ code);

/* device.c, settings.c */
API error_t_ cudaDeviceGetAttribute(int *result, int which, int device);
API error_t_ cudaGetDevice(int *device);
API error_t_ cudaGetDeviceCount(int *count);
API error_t_ cudaDriverGetVersion(int *result);

/* modules.c */
error_t_ find_function(const void *key, struct function **found);
error_t_ resolve(struct function *function);
error_t_ find_variable(const void *key, struct variable **found);
void forget_modules(void);
error_t_ add_module(const void *image, size_t bytes, struct module **added);
error_t_ remove_module(struct module *module);
error_t_ named_function(struct module *module, const char *name, struct function **found);
error_t_ kernel_at(struct module *module, size_t place, struct function **found); /* INVALID_VALUE behind the last */
error_t_ named_variable(struct module *module, const char *name, struct variable **found);

/* made_parameters.c */
error_t_ set_maker(struct function *f, const void *code, size_t bytes);
error_t_ make_parameters(const struct function *f, void *parameters);

/* copy.c */
error_t_ copy_bytes(void *to, const void *from, size_t bytes, int kind);
error_t_ copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind);
void tell_touched(void); /* before a launch: which device memory copies and fills have touched since the last */
void tell_allocated(uint64_t address, size_t bytes, enum kind kind); /* for checks: what is written, and what is not yet */

/* settings.c */
size_t heap_limit(void); /* cudaLimitMallocHeapSize */

/* streams.c */
struct stream *stream_of(void *handle);
struct stream *stream_at(int place); /* below stream_count(); NULL where one was destroyed */
int stream_count(void);
bool is_shared_stream(const struct stream *stream); /* a default stream, which no program has made */
void spend(void *handle, double seconds); /* move the stream's clock on */
void spend_launch(void *handle, double seconds, int64_t number); /* the same for a launch, which the host must have issued */
void issue_one(void);     /* the host has issued a launch */
double host_clock(void); /* when it can issue the next */
/* The kind as in cudaMemcpyKind, or FILLED; `waits`: the host waits for it, unless it is on the device. */
void spend_copy(void *handle, size_t bytes, int kind, bool waits);

/* timeline.c */
enum span_kind { /* as in `programs/wire.py`; from 0 to 4 the direction of a copy */
    FILLED = 5, LAUNCHED = 8, RECORDED = 16, WAITED_FOR_EVENT, CALLED_HOST,
    HOST_WAITED_FOR_EVENT = 32, HOST_WAITED_FOR_STREAM, HOST_WAITED_FOR_DEVICE,
    CALLED = 48, COUNTED, RANGE_PUSHED = 64, RANGE_POPPED, RANGE_STARTED, RANGE_ENDED, MARKED
};

/* `number` is that of the launch, the event, the stream waited for, or the name; `bytes` those copied, the calls counted, or the
 * number of a range that was started; `stream` of what belongs to NVTX its domain; `graph` the number of the graph's launch, else 0. */
struct span { int64_t kind, stream, number, bytes, graph, call, thread; double start, end; };

void add_span(struct span what);
void tell_timeline(void); /* what has been on the streams since the last time */
void tell_counts(void);   /* of all calls, at the end */
void begin_graph(void);   /* what is spent until `end_graph` belongs to the launch of a graph */
void end_graph(void);
bool in_graph(void);
void begin_call(void);    /* the program has made a call, which ends with `end_call` */
void end_call(void);

#endif
