/* Streams and events. Everything has been done when a call returns; what they keep is the predicted time, a clock per stream. */
#include "graphs.h"

#include <stdlib.h>

/* A host link of PCIe 3.0 x16 as most systems reach it; the GPU description says nothing about it. */
#define HOST_LINK_BYTES_PER_S 12e9
#define CLOCK_START 1.0
#define STREAMS 4096

static struct stream legacy = {.clock = CLOCK_START, .id = 1};
static struct stream per_thread = {.clock = CLOCK_START, .id = 2};
static struct stream *all[STREAMS];
static int made;
static uint64_t next_id = 3, next_event = 1;
/* When the host can issue the next launch: it issues them ahead of the GPU, one after the other, and waits where the program does. */
static double issue = CLOCK_START;

double host_clock(void) { return issue; }

static double latest(void)
{
    double time = legacy.clock > per_thread.clock ? legacy.clock : per_thread.clock;
    for (int k = 0; k < made; k++)
        if (all[k] && all[k]->clock > time)
            time = all[k]->clock;
    return time;
}

struct stream *stream_of(void *handle)
{
    if (handle == NULL || handle == (void *)1)
        return &legacy;
    return handle == (void *)2 ? &per_thread : handle;
}

struct stream *stream_at(int place) { return all[place]; }
int stream_count(void) { return made; }
bool is_shared_stream(const struct stream *stream) { return stream == &legacy || stream == &per_thread; }

/* The legacy stream waits for all others, and they for it, except those that were made not to. */
void spend(void *handle, double seconds)
{
    struct stream *stream = stream_of(handle);
    if (stream == &legacy)
        stream->clock = latest();
    else if (!(stream->flags & 1) && legacy.clock > stream->clock)
        stream->clock = legacy.clock;
    stream->clock += seconds;
}

static void occupy(struct stream *stream, double seconds, struct span what)
{
    what.stream = (int64_t)stream->id;
    what.start = stream->clock;
    what.end = stream->clock += seconds;
    add_span(what);
}

static void wait_until(double time)
{
    if (time > issue)
        issue = time;
}

/* The host waits in a call of its own. */
static void host_waits(enum span_kind kind, uint64_t number, double time)
{
    double start = issue;
    wait_until(time);
    add_span((struct span){.kind = kind, .number = (int64_t)number, .start = start, .end = issue});
}

/* What the host issues on a stream does not begin before that. */
static struct stream *issued(void *handle)
{
    struct stream *stream = stream_of(handle);
    spend(handle, 0);
    if (issue > stream->clock)
        stream->clock = issue;
    return stream;
}

/* A launch, or a graph with all of its launches, takes the host as long as it needs to issue one. */
void issue_one(void) { issue += (double)the_device.values[D_LAUNCH_NS] * 1e-9; }

void spend_launch(void *handle, double seconds, int64_t number)
{
    occupy(issued(handle), seconds, (struct span){.kind = LAUNCHED, .number = number});
    if (!in_graph())
        issue_one();
}

/* The host's link carries one copy at a time in each direction, whatever their streams. */
void spend_copy(void *handle, size_t bytes, int kind, bool waits)
{
    static double link_is_free[2];
    bool on_device = kind == 3 || kind == FILLED;
    struct stream *stream = issued(handle);
    double *free_at = &link_is_free[kind == 2], touched = kind == FILLED ? 1.0 : 2.0; /* a copy reads each byte and writes it */
    double a_byte = on_device ? touched / (double)the_device.values[D_BANDWIDTH] : 1.0 / HOST_LINK_BYTES_PER_S;
    if (!on_device && *free_at > stream->clock)
        stream->clock = *free_at;
    occupy(stream, (double)bytes * a_byte, (struct span){.kind = kind, .bytes = (int64_t)bytes});
    if (!on_device)
        *free_at = stream->clock;
    if (!on_device && waits && !in_graph())
        wait_until(stream->clock);
}

API error_t_ cudaStreamCreateWithPriority(void **result, unsigned flags, int priority)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!result || flags > 1))
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        struct stream *stream = malloc(sizeof *stream);
        int place = 0;
        while (place < made && all[place])
            place++;
        if (!stream || place == STREAMS) {
            free(stream);
            return leave(MEMORY_ALLOCATION);
        }
        if (place == made)
            made++;
        *stream = (struct stream){.clock = latest(), .flags = flags, .priority = priority, .id = next_id++};
        all[place] = stream;
        *result = stream;
    }
    return leave(status);
}

API error_t_ cudaStreamCreateWithFlags(void **result, unsigned flags) { return cudaStreamCreateWithPriority(result, flags, 0); }
API error_t_ cudaStreamCreate(void **result) { return cudaStreamCreateWithPriority(result, 0, 0); }

API error_t_ cudaStreamDestroy(void *handle)
{
    error_t_ status = enter();
    if (status == SUCCESS) {
        status = INVALID_HANDLE;
        for (int k = 0; k < made; k++)
            if (handle && all[k] == handle) {
                if (legacy.clock < all[k]->clock && !(all[k]->flags & 1))
                    legacy.clock = all[k]->clock;
                free(handle);
                all[k] = NULL;
                status = SUCCESS;
            }
    }
    return leave(status);
}

static error_t_ known(void *handle)
{
    error_t_ status = enter();
    if (status == SUCCESS && handle > (void *)2) {
        status = INVALID_HANDLE;
        for (int k = 0; k < made; k++)
            if (all[k] == handle)
                status = SUCCESS;
    }
    return status;
}

/* The same for a call that no graph can hold. */
static error_t_ known_uncaptured(void *handle)
{
    error_t_ status = known(handle);
    return status == SUCCESS && is_captured(handle) ? 900 : status; /* cudaErrorStreamCaptureUnsupported */
}

API error_t_ cudaStreamSynchronize(void *handle)
{
    error_t_ status = known_uncaptured(handle);
    if (status == SUCCESS)
        host_waits(HOST_WAITED_FOR_STREAM, stream_of(handle)->id, stream_of(handle)->clock);
    return leave(status);
}

API error_t_ cudaStreamQuery(void *handle) { return leave(known_uncaptured(handle)); }

API error_t_ cudaDeviceSynchronize(void)
{
    error_t_ status = enter();
    host_waits(HOST_WAITED_FOR_DEVICE, 0, latest());
    return leave(status);
}

API error_t_ cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }

API error_t_ cudaStreamAttachMemAsync(void *handle, void *pointer, size_t bytes, unsigned flags)
{
    (void)pointer, (void)bytes, (void)flags;
    return leave(known(handle));
}

API error_t_ cudaStreamGetFlags(void *handle, unsigned *flags)
{
    error_t_ status = known(handle);
    if (status == SUCCESS)
        *flags = stream_of(handle)->flags;
    return leave(status);
}

API error_t_ cudaStreamGetPriority(void *handle, int *priority)
{
    error_t_ status = known(handle);
    if (status == SUCCESS)
        *priority = stream_of(handle)->priority;
    return leave(status);
}

API error_t_ cudaStreamGetId(void *handle, unsigned long long *id)
{
    error_t_ status = known(handle);
    if (status == SUCCESS)
        *id = stream_of(handle)->id;
    return leave(status);
}

API error_t_ cudaStreamGetDevice(void *handle, int *device)
{
    error_t_ status = known(handle);
    if (status == SUCCESS)
        *device = 0;
    return leave(status);
}

API error_t_ cudaStreamWaitEvent(void *handle, void *given, unsigned flags)
{
    error_t_ status = known(handle);
    const struct event *event = given;
    if (status == SUCCESS && !event)
        status = INVALID_HANDLE;
    if (status == SUCCESS && event->captured.by)
        return leave(capture_wait(handle, event));
    if (status == SUCCESS && is_captured(handle))
        return leave(flags & 1 ? capture(handle, (struct operation){.kind = WAIT_NODE, .of.event = given}) : 905); /* ...Isolation */
    if (status == SUCCESS && event->recorded) {
        struct stream *stream = stream_of(handle);
        double wait = event->time > stream->clock ? event->time - stream->clock : 0;
        occupy(stream, wait, (struct span){.kind = WAITED_FOR_EVENT, .number = (int64_t)event->id});
    }
    return leave(status);
}

API error_t_ cudaStreamAddCallback(void *handle, void (*call)(void *, error_t_, void *), void *data, unsigned flags)
{
    error_t_ status = known_uncaptured(handle);
    if (status == SUCCESS && (!call || flags))
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        occupy(issued(handle), 0, (struct span){.kind = CALLED_HOST});
        pause_lock();
        call(handle, SUCCESS, data);
        resume_lock();
    }
    return leave(status);
}

API error_t_ cudaLaunchHostFunc(void *handle, void (*call)(void *), void *data)
{
    error_t_ status = known(handle);
    if (status == SUCCESS && !call)
        status = INVALID_VALUE;
    if (status == SUCCESS && is_captured(handle))
        return leave(capture(handle, (struct operation){.kind = HOST_NODE, .of.host = {call, data}}));
    if (status == SUCCESS) {
        occupy(issued(handle), 0, (struct span){.kind = CALLED_HOST});
        pause_lock();
        call(data);
        resume_lock();
    }
    return leave(status);
}

API error_t_ cudaEventCreateWithFlags(void **result, unsigned flags)
{
    error_t_ status = enter();
    if (status == SUCCESS) {
        struct event *event = calloc(1, sizeof *event);
        if (!result || !event)
            return leave(result ? MEMORY_ALLOCATION : INVALID_VALUE);
        event->timed = !(flags & 2);
        event->id = next_event++;
        *result = event;
    }
    return leave(status);
}

API error_t_ cudaEventCreate(void **result) { return cudaEventCreateWithFlags(result, 0); }

API error_t_ cudaEventDestroy(void *event)
{
    error_t_ status = enter();
    if (status == SUCCESS && !event)
        status = INVALID_HANDLE;
    if (event)
        forget_captured(event);
    free(event);
    return leave(status);
}

API error_t_ cudaEventRecord(void *given, void *handle)
{
    struct event *event = given;
    error_t_ status = known(handle);
    if (status == SUCCESS && !event)
        status = INVALID_HANDLE;
    if (status == SUCCESS && is_captured(handle))
        return leave(capture_event(handle, event));
    if (status == SUCCESS) {
        forget_captured(event);
        struct stream *stream = issued(handle);
        event->time = stream->clock;
        event->recorded = true;
        occupy(stream, 0, (struct span){.kind = RECORDED, .number = (int64_t)event->id});
    }
    return leave(status);
}

API error_t_ cudaEventRecordWithFlags(void *event, void *handle, unsigned flags)
{
    if (!(flags & 1) || !is_captured(handle)) /* cudaEventRecordExternal: a node of the graph records it */
        return cudaEventRecord(event, handle);
    error_t_ status = known(handle);
    if (status == SUCCESS)
        status = event ? capture(handle, (struct operation){.kind = RECORD_NODE, .of.event = event}) : INVALID_HANDLE;
    return leave(status);
}

API error_t_ cudaEventQuery(void *event)
{
    error_t_ status = enter();
    return leave(status == SUCCESS && !event ? INVALID_HANDLE : status);
}

API error_t_ cudaEventSynchronize(void *given)
{
    const struct event *event = given;
    error_t_ status = enter();
    if (status == SUCCESS && !event)
        status = INVALID_HANDLE;
    if (status == SUCCESS)
        host_waits(HOST_WAITED_FOR_EVENT, event->id, event->time);
    return leave(status);
}

API error_t_ cudaEventElapsedTime(float *milliseconds, void *from, void *to)
{
    const struct event *first = from, *last = to;
    error_t_ status = enter();
    if (status == SUCCESS && !milliseconds)
        status = INVALID_VALUE;
    if (status == SUCCESS && (!first || !last || !first->recorded || !last->recorded || !first->timed || !last->timed))
        status = INVALID_HANDLE;
    if (status == SUCCESS)
        *milliseconds = (float)((last->time - first->time) * 1e3);
    return leave(status);
}
