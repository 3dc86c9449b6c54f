/* Graphs of the driver: those of the runtime, whose structures for nodes have the same layout. */
#include "graphs.h"

API error_t_ cudaGraphCreate(struct graph **graph, unsigned flags);
API error_t_ cudaGraphDestroy(struct graph *graph);
API error_t_ cudaGraphClone(struct graph **clone, struct graph *graph);
API error_t_ cudaGraphAddKernelNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                    const struct kernel_parameters *p);
API error_t_ cudaGraphAddMemcpyNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                    const struct copy_parameters *copy);
API error_t_ cudaGraphAddMemsetNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                    const struct fill_parameters *p);
API error_t_ cudaGraphAddHostNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                  const struct host_parameters *p);
API error_t_ cudaGraphAddChildGraphNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                        struct graph *child);
API error_t_ cudaGraphAddEmptyNode(struct node **node, struct graph *graph, struct node *const *before, size_t count);
API error_t_ cudaGraphAddEventRecordNode(struct node **node, struct graph *graph, struct node *const *before, size_t count, void *event);
API error_t_ cudaGraphInstantiateWithFlags(struct graph **made, struct graph *graph, unsigned long long flags);
API error_t_ cudaGraphUpload(struct graph *executable, void *stream);
API error_t_ cudaGraphLaunch(struct graph *executable, void *stream);
API error_t_ cudaGraphExecKernelNodeSetParams(struct graph *executable, struct node *node, const struct kernel_parameters *p);
API error_t_ cudaGraphGetNodes(struct graph *graph, struct node **nodes, size_t *count);
API error_t_ cudaGraphNodeGetType(const struct node *node, int *type);
API error_t_ cudaStreamBeginCapture(void *stream, int mode);
API error_t_ cudaStreamEndCapture(void *stream, struct graph **graph);
API error_t_ cudaStreamIsCapturing(void *stream, int *state);

API error_t_ cuGraphCreate(struct graph **graph, unsigned flags) { FORWARD(cudaGraphCreate(graph, flags)); }
API error_t_ cuGraphDestroy(struct graph *graph) { FORWARD(cudaGraphDestroy(graph)); }
API error_t_ cuGraphClone(struct graph **clone, struct graph *graph) { FORWARD(cudaGraphClone(clone, graph)); }
API error_t_ cuGraphAddKernelNode_v2(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                     const struct kernel_parameters *p)
{
    FORWARD(cudaGraphAddKernelNode(node, graph, before, count, p));
}
API error_t_ cuGraphAddMemsetNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                  const struct fill_parameters *p, void *context)
{
    (void)context; /* there is one */
    FORWARD(cudaGraphAddMemsetNode(node, graph, before, count, p));
}

/* A side of the driver's copies: arrays, which its programs cannot make here, are the third kind of memory. */
struct driver_side { size_t x, y, z, level; int memory; const void *host; void *device, *array, *reserved; size_t pitch, height; };
struct driver_copy { struct driver_side from, to; size_t width, height, depth; };
enum { MEMORY_HOST = 1, MEMORY_DEVICE, MEMORY_ARRAY, MEMORY_UNIFIED };

static error_t_ side_of(const struct driver_side *side, const struct driver_copy *copy, struct position *at, struct pitched *memory)
{
    if (side->memory < MEMORY_HOST || side->memory > MEMORY_UNIFIED)
        return INVALID_VALUE;
    if (side->memory == MEMORY_ARRAY) {
        warn_once("a copy of an array in a graph of the driver (cuGraphAddMemcpyNode)");
        return NOT_SUPPORTED;
    }
    size_t pitch = side->pitch ? side->pitch : side->x + copy->width, rows = side->height ? side->height : side->y + copy->height;
    if (pitch < side->x + copy->width || rows < side->y + copy->height)
        return INVALID_VALUE;
    *at = (struct position){side->x, side->y, side->z};
    *memory = (struct pitched){side->memory == MEMORY_HOST ? (void *)side->host : side->device, pitch, pitch, rows};
    return SUCCESS;
}

static error_t_ add_copy(struct node **node, struct graph *graph, struct node *const *before, size_t count, const struct driver_copy *p)
{
    struct copy_parameters copy = {0};
    error_t_ status = p ? side_of(&p->from, p, &copy.from_position, &copy.from_pointer) : INVALID_VALUE;
    if (status == SUCCESS)
        status = side_of(&p->to, p, &copy.to_position, &copy.to_pointer);
    if (status)
        return status;
    copy.extent = (struct extent){p->width, p->height, p->depth};
    copy.kind = 4; /* the addresses say from where to where */
    return cudaGraphAddMemcpyNode(node, graph, before, count, &copy);
}

API error_t_ cuGraphAddMemcpyNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                  const struct driver_copy *p, void *context)
{
    (void)context;
    FORWARD(add_copy(node, graph, before, count, p));
}
API error_t_ cuGraphAddHostNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                const struct host_parameters *p)
{
    FORWARD(cudaGraphAddHostNode(node, graph, before, count, p));
}
API error_t_ cuGraphAddChildGraphNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                      struct graph *child)
{
    FORWARD(cudaGraphAddChildGraphNode(node, graph, before, count, child));
}
API error_t_ cuGraphAddEmptyNode(struct node **node, struct graph *graph, struct node *const *before, size_t count)
{
    FORWARD(cudaGraphAddEmptyNode(node, graph, before, count));
}
API error_t_ cuGraphAddEventRecordNode(struct node **node, struct graph *graph, struct node *const *before, size_t count, void *event)
{
    FORWARD(cudaGraphAddEventRecordNode(node, graph, before, count, event));
}
API error_t_ cuGraphInstantiateWithFlags(struct graph **made, struct graph *graph, unsigned long long flags)
{
    FORWARD(cudaGraphInstantiateWithFlags(made, graph, flags));
}
API error_t_ cuGraphUpload(struct graph *executable, void *stream) { FORWARD(cudaGraphUpload(executable, stream)); }
API error_t_ cuGraphLaunch(struct graph *executable, void *stream) { FORWARD(cudaGraphLaunch(executable, stream)); }
API error_t_ cuGraphExecDestroy(struct graph *executable) { FORWARD(cudaGraphDestroy(executable)); }
API error_t_ cuGraphExecKernelNodeSetParams_v2(struct graph *executable, struct node *node, const struct kernel_parameters *p)
{
    FORWARD(cudaGraphExecKernelNodeSetParams(executable, node, p));
}
API error_t_ cuGraphGetNodes(struct graph *graph, struct node **nodes, size_t *count) { FORWARD(cudaGraphGetNodes(graph, nodes, count)); }
API error_t_ cuGraphNodeGetType(const struct node *node, int *type) { FORWARD(cudaGraphNodeGetType(node, type)); }
API error_t_ cuStreamBeginCapture_v2(void *stream, int mode) { FORWARD(cudaStreamBeginCapture(stream, mode)); }
API error_t_ cuStreamEndCapture(void *stream, struct graph **graph) { FORWARD(cudaStreamEndCapture(stream, graph)); }
API error_t_ cuStreamIsCapturing(void *stream, int *state) { FORWARD(cudaStreamIsCapturing(stream, state)); }
