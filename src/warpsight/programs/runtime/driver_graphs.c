/* Graphs of the driver: those of the runtime, whose structures for nodes have the same layout. */
#include "graphs.h"

API error_t_ cudaGraphCreate(struct graph **graph, unsigned flags);
API error_t_ cudaGraphDestroy(struct graph *graph);
API error_t_ cudaGraphClone(struct graph **clone, struct graph *graph);
API error_t_ cudaGraphAddKernelNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                    const struct kernel_parameters *p);
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
