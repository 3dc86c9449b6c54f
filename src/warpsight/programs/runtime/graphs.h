/* Graphs: operations that are kept instead of done, with what must be done before each. A stream that is captured keeps its own. */
#ifndef WARPSIGHT_GRAPHS_H
#define WARPSIGHT_GRAPHS_H

#include "driver.h"

enum node_kind { KERNEL_NODE, COPY_NODE, FILL_NODE, HOST_NODE, CHILD_NODE, EMPTY_NODE, WAIT_NODE, RECORD_NODE }; /* cudaGraphNodeType */

struct kernel_parameters { const void *key; struct dim3 grid, block; unsigned shared; void **arguments, **more; };
struct fill_parameters { void *to; size_t pitch; unsigned value, element; size_t width, height; };
struct host_parameters { void (*call)(void *); void *data; };

struct copy_parameters {
    struct array *from_array;
    struct position from_position;
    struct pitched from_pointer;
    struct array *to_array;
    struct position to_position;
    struct pitched to_pointer;
    struct extent extent;
    int kind;
};

struct operation {
    enum node_kind kind;
    union {
        struct { struct launch_config config; const void *key; void **arguments; } kernel; /* arguments of its own, in one block */
        struct copy_parameters copy;
        struct fill_parameters fill;
        struct host_parameters host;
        struct graph *child;
        void *event;
    } of;
};

struct node {
    struct operation what;
    struct node **before;
    size_t count;
    struct node *copy; /* that in the graph that was copied last */
    bool disabled;
};

struct graph {
    struct node **nodes;
    size_t count, room;
    struct graph *source; /* of an executable graph: the one that it was made of */
};

/* graphs.c */
struct graph *new_graph(void);
struct graph *copy_graph(const struct graph *graph);
void free_graph(struct graph *graph);
bool has(const struct graph *graph, const struct node *node);
bool comes_before(const struct node *node, const struct node *later);
error_t_ add_edge(struct node *node, struct node *before);
error_t_ add_operation(struct graph *graph, struct operation what, struct node *const *before, size_t count, struct node **added);
error_t_ check_order(const struct graph *graph);
error_t_ run_graph(const struct graph *graph, void *stream);
error_t_ keep_arguments(const void *key, void **arguments, void ***kept);
error_t_ kernel_operation(const struct kernel_parameters *p, struct operation *what);

/* capture.c */
bool is_captured(void *stream);
error_t_ capture(void *stream, struct operation what);
error_t_ capture_kernel(const struct launch_config *config, const void *key, void **arguments);
error_t_ capture_rows(void *stream, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind);
error_t_ capture_event(void *stream, struct event *event);
error_t_ capture_wait(void *stream, const struct event *event);
void forget_captured(struct event *event);

/* arrays.c */
API error_t_ cudaMemcpy3DAsync(const struct copy_parameters *p, void *stream);

#endif
