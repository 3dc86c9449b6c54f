/* Streams that are captured: what is issued on them becomes the nodes of a graph. Events carry a capture from stream to stream. */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

enum { UNSUPPORTED = 900, MERGE = 902, UNMATCHED = 903, UNJOINED = 904 };
enum { NONE, ACTIVE }; /* cudaStreamCaptureStatus */

struct capture { struct graph *graph; struct stream *origin; uint64_t id; };

static uint64_t next_id = 1;

/* -- What the next node of a stream comes after. */

static void clear(struct captured *captured)
{
    free(captured->after);
    *captured = (struct captured){NULL, NULL, 0};
}

static error_t_ join(struct captured *captured, struct node *const *more, size_t count)
{
    struct node **grown = realloc(captured->after, (captured->count + count + 1) * sizeof *grown);
    if (!grown)
        return MEMORY_ALLOCATION;
    captured->after = grown;
    for (size_t k = 0; k < count; k++)
        captured->after[captured->count++] = more[k];
    return SUCCESS;
}

/* -- What is issued on a stream that is captured. */

bool is_captured(void *stream) { return stream_of(stream)->captured.by != NULL; }

error_t_ capture(void *stream, struct operation what)
{
    struct captured *own = &stream_of(stream)->captured;
    struct node *node;
    error_t_ status = add_operation(own->by->graph, what, own->after, own->count, &node);
    own->count = status ? own->count : 0;
    return status ? status : join(own, &node, 1);
}

error_t_ capture_kernel(const struct launch_config *config, const void *key, void **arguments)
{
    struct operation what = {.kind = KERNEL_NODE, .of.kernel = {*config, key, NULL}};
    what.of.kernel.config.attributes = NULL;
    if (config->count) {
        struct attribute *own = malloc(config->count * sizeof *own);
        if (!own)
            return MEMORY_ALLOCATION;
        what.of.kernel.config.attributes = memcpy(own, config->attributes, config->count * sizeof *own);
    }
    error_t_ status = keep_arguments(key, arguments, &what.of.kernel.arguments);
    if (status) {
        free(what.of.kernel.config.attributes);
        return status;
    }
    return capture(config->stream, what);
}

error_t_ capture_rows(void *stream, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind)
{
    struct copy_parameters copy = {.from_pointer = {(void *)from, from_pitch, width, height}, .to_pointer = {to, to_pitch, width, height},
                                   .extent = {width, height, 1}, .kind = kind};
    return capture(stream, (struct operation){.kind = COPY_NODE, .of.copy = copy});
}

void forget_captured(struct event *event) { clear(&event->captured); }

error_t_ capture_event(void *stream, struct event *event)
{
    const struct captured *own = &stream_of(stream)->captured;
    clear(&event->captured);
    event->captured.by = own->by;
    return join(&event->captured, own->after, own->count);
}

/* A stream that waits for an event of a capture is part of it from then on. */
error_t_ capture_wait(void *stream, const struct event *event)
{
    struct captured *own = &stream_of(stream)->captured;
    if (own->by && own->by != event->captured.by)
        return MERGE;
    own->by = event->captured.by;
    return join(own, event->captured.after, event->captured.count);
}

/* -- Begin and end. */

static error_t_ begin(void *handle, struct graph *graph)
{
    struct stream *stream = stream_of(handle);
    if (is_shared_stream(stream))
        return UNSUPPORTED; /* those that all threads have cannot be captured */
    if (stream->captured.by)
        return 401; /* cudaErrorIllegalState */
    struct capture *made = malloc(sizeof *made);
    if (!made)
        return MEMORY_ALLOCATION;
    *made = (struct capture){graph ? graph : new_graph(), stream, next_id++};
    stream->captured.by = made;
    return made->graph ? SUCCESS : MEMORY_ALLOCATION;
}

/* Whether all that another stream has issued comes before what its origin issues next. */
static bool is_joined(const struct captured *other, const struct captured *origin)
{
    for (size_t k = 0; k < other->count; k++) {
        bool joined = false;
        for (size_t j = 0; j < origin->count && !joined; j++)
            joined = comes_before(other->after[k], origin->after[j]);
        if (!joined)
            return false;
    }
    return true;
}

static error_t_ end(void *handle, struct graph **graph)
{
    struct stream *stream = stream_of(handle);
    struct capture *by = stream->captured.by;
    error_t_ status = SUCCESS;
    if (!by || !graph)
        return by ? INVALID_VALUE : 401; /* cudaErrorIllegalState */
    if (by->origin != stream)
        return UNMATCHED;
    for (int k = 0; k < stream_count(); k++) {
        struct stream *other = stream_at(k);
        if (!other || other == stream || other->captured.by != by)
            continue;
        if (!is_joined(&other->captured, &stream->captured))
            status = UNJOINED;
        clear(&other->captured);
    }
    clear(&stream->captured);
    *graph = status ? NULL : by->graph;
    if (status)
        free_graph(by->graph);
    free(by);
    return status;
}

API error_t_ cudaStreamBeginCapture(void *stream, int mode)
{
    error_t_ status = enter();
    if (status == SUCCESS && (mode < 0 || mode > 2))
        status = INVALID_VALUE;
    return leave(status ? status : begin(stream, NULL));
}

API error_t_ cudaStreamBeginCaptureToGraph(void *stream, struct graph *graph, struct node *const *after, const void *edges, size_t count,
                                           int mode)
{
    (void)edges;
    error_t_ status = enter();
    if (status == SUCCESS && (!graph || mode < 0 || mode > 2 || (count && !after)))
        status = INVALID_VALUE;
    if (status == SUCCESS)
        status = begin(stream, graph);
    return leave(status ? status : join(&stream_of(stream)->captured, after, count));
}

API error_t_ cudaStreamEndCapture(void *stream, struct graph **graph)
{
    error_t_ status = enter();
    return leave(status ? status : end(stream, graph));
}

API error_t_ cudaThreadExchangeStreamCaptureMode(int *mode)
{
    static __thread int current;
    error_t_ status = enter();
    if (status == SUCCESS && (!mode || *mode < 0 || *mode > 2))
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        int before = current;
        current = *mode;
        *mode = before;
    }
    return leave(status);
}

API error_t_ cudaStreamIsCapturing(void *stream, int *state)
{
    error_t_ status = enter();
    if (status == SUCCESS && !state)
        status = INVALID_VALUE;
    if (status == SUCCESS)
        *state = is_captured(stream) ? ACTIVE : NONE;
    return leave(status);
}

static error_t_ describe(void *stream, int *state, unsigned long long *id, struct graph **graph, struct node *const **after, size_t *count)
{
    error_t_ status = enter();
    const struct captured *own = &stream_of(stream)->captured;
    if (status == SUCCESS && !state)
        status = INVALID_VALUE;
    if (status)
        return leave(status);
    *state = own->by ? ACTIVE : NONE;
    if (id)
        *id = own->by ? own->by->id : 0;
    if (graph)
        *graph = own->by ? own->by->graph : NULL;
    if (after)
        *after = own->after;
    if (count)
        *count = own->count;
    return leave(SUCCESS);
}

#if CUDART >= 13
API error_t_ cudaStreamGetCaptureInfo(void *stream, int *state, unsigned long long *id, struct graph **graph, struct node *const **after,
                                      const void **edges, size_t *count)
{
    if (edges)
        *edges = NULL; /* all are full dependencies */
    return describe(stream, state, id, graph, after, count);
}
#else
API error_t_ cudaStreamGetCaptureInfo(void *stream, int *state, unsigned long long *id)
{
    return describe(stream, state, id, NULL, NULL, NULL);
}
API error_t_ cudaStreamGetCaptureInfo_v2(void *stream, int *state, unsigned long long *id, struct graph **graph, struct node *const **after,
                                         size_t *count)
{
    return describe(stream, state, id, graph, after, count);
}
#endif
