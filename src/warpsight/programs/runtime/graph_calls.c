/* The interface of graphs that are built node by node, and of executable graphs. */
#include "graphs.h"

#include <stdlib.h>

/* -- Building. */

static error_t_ add(struct node **node, struct graph *graph, struct node *const *before, size_t count, struct operation what)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!node || !graph))
        status = INVALID_VALUE;
    return leave(status ? status : add_operation(graph, what, before, count, node));
}

API error_t_ cudaGraphCreate(struct graph **graph, unsigned flags)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!graph || flags))
        status = INVALID_VALUE;
    if (status == SUCCESS && !(*graph = new_graph()))
        status = MEMORY_ALLOCATION;
    return leave(status);
}

API error_t_ cudaGraphDestroy(struct graph *graph)
{
    error_t_ status = enter();
    if (status == SUCCESS && !graph)
        status = INVALID_VALUE;
    if (status == SUCCESS)
        free_graph(graph);
    return leave(status);
}

API error_t_ cudaGraphClone(struct graph **clone, struct graph *graph)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!clone || !graph))
        status = INVALID_VALUE;
    if (status == SUCCESS && !(*clone = copy_graph(graph)))
        status = MEMORY_ALLOCATION;
    return leave(status);
}

API error_t_ cudaGraphAddKernelNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                    const struct kernel_parameters *parameters)
{
    struct operation what;
    error_t_ status = enter();
    if (status == SUCCESS && (!node || !graph))
        status = INVALID_VALUE;
    if (status == SUCCESS)
        status = kernel_operation(parameters, &what);
    return leave(status ? status : add_operation(graph, what, before, count, node));
}

API error_t_ cudaGraphAddMemcpyNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                    const struct copy_parameters *copy)
{
    return add(node, graph, before, count, (struct operation){.kind = COPY_NODE, .of.copy = copy ? *copy : (struct copy_parameters){0}});
}

API error_t_ cudaGraphAddMemcpyNode1D(struct node **node, struct graph *graph, struct node *const *before, size_t count, void *to,
                                      const void *from, size_t bytes, int kind)
{
    struct copy_parameters copy = {.from_pointer = {(void *)from, bytes, bytes, 1}, .to_pointer = {to, bytes, bytes, 1},
                                   .extent = {bytes, 1, 1}, .kind = kind};
    return cudaGraphAddMemcpyNode(node, graph, before, count, &copy);
}

API error_t_ cudaGraphAddMemsetNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                    const struct fill_parameters *fill)
{
    if (!fill || (fill->element != 1 && fill->element != 2 && fill->element != 4)) {
        enter_quietly();
        return leave(INVALID_VALUE);
    }
    return add(node, graph, before, count, (struct operation){.kind = FILL_NODE, .of.fill = *fill});
}

API error_t_ cudaGraphAddHostNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                  const struct host_parameters *host)
{
    if (!host || !host->call) {
        enter_quietly();
        return leave(INVALID_VALUE);
    }
    return add(node, graph, before, count, (struct operation){.kind = HOST_NODE, .of.host = *host});
}

API error_t_ cudaGraphAddChildGraphNode(struct node **node, struct graph *graph, struct node *const *before, size_t count,
                                        struct graph *child)
{
    struct graph *copy = child ? copy_graph(child) : NULL;
    if (!copy) {
        enter_quietly();
        return leave(child ? MEMORY_ALLOCATION : INVALID_VALUE);
    }
    return add(node, graph, before, count, (struct operation){.kind = CHILD_NODE, .of.child = copy});
}

API error_t_ cudaGraphAddEmptyNode(struct node **node, struct graph *graph, struct node *const *before, size_t count)
{
    return add(node, graph, before, count, (struct operation){.kind = EMPTY_NODE});
}

API error_t_ cudaGraphAddEventRecordNode(struct node **node, struct graph *graph, struct node *const *before, size_t count, void *event)
{
    return add(node, graph, before, count, (struct operation){.kind = RECORD_NODE, .of.event = event});
}

API error_t_ cudaGraphAddEventWaitNode(struct node **node, struct graph *graph, struct node *const *before, size_t count, void *event)
{
    return add(node, graph, before, count, (struct operation){.kind = WAIT_NODE, .of.event = event});
}

static error_t_ add_edges(struct graph *graph, struct node *const *from, struct node *const *to, size_t count)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!graph || (count && (!from || !to))))
        status = INVALID_VALUE;
    for (size_t k = 0; k < count && status == SUCCESS; k++)
        status = has(graph, from[k]) && has(graph, to[k]) && from[k] != to[k] ? add_edge(to[k], from[k]) : INVALID_VALUE;
    return leave(status);
}

#if CUDART >= 13
API error_t_ cudaGraphAddDependencies(struct graph *graph, struct node *const *from, struct node *const *to, const void *edges, size_t count)
{
    (void)edges; /* programmatic edges let a node begin early; here none does */
    return add_edges(graph, from, to, count);
}
#else
API error_t_ cudaGraphAddDependencies(struct graph *graph, struct node *const *from, struct node *const *to, size_t count)
{
    return add_edges(graph, from, to, count);
}
#endif

API error_t_ cudaGraphGetNodes(struct graph *graph, struct node **nodes, size_t *count)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!graph || !count))
        status = INVALID_VALUE;
    for (size_t k = 0; status == SUCCESS && nodes && k < *count; k++)
        nodes[k] = k < graph->count ? graph->nodes[k] : NULL;
    if (status == SUCCESS && (!nodes || graph->count < *count))
        *count = graph->count;
    return leave(status);
}

API error_t_ cudaGraphGetRootNodes(struct graph *graph, struct node **nodes, size_t *count)
{
    size_t found = 0;
    error_t_ status = enter();
    if (status == SUCCESS && (!graph || !count))
        status = INVALID_VALUE;
    for (size_t k = 0; status == SUCCESS && k < graph->count; k++) {
        if (graph->nodes[k]->count)
            continue;
        if (nodes && found < *count)
            nodes[found] = graph->nodes[k];
        found++;
    }
    if (status == SUCCESS && (!nodes || found < *count))
        *count = found;
    return leave(status);
}

API error_t_ cudaGraphNodeGetType(const struct node *node, int *type)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!node || !type))
        status = INVALID_VALUE;
    if (status == SUCCESS)
        *type = (int)node->what.kind;
    return leave(status);
}

/* -- Executable graphs: copies, whose nodes are named by those of the graph that they were made of. */

static error_t_ instantiate(struct graph **made, struct graph *graph)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!made || !graph))
        status = INVALID_VALUE;
    if (status == SUCCESS)
        status = check_order(graph);
    if (status == SUCCESS && !(*made = copy_graph(graph)))
        status = MEMORY_ALLOCATION;
    if (status == SUCCESS)
        (*made)->source = graph;
    return leave(status);
}

#if CUDART >= 12
API error_t_ cudaGraphInstantiate(struct graph **made, struct graph *graph, unsigned long long flags)
{
    (void)flags; /* how memory of the graph is freed, and where the launch comes from */
    return instantiate(made, graph);
}
#else
API error_t_ cudaGraphInstantiate(struct graph **made, struct graph *graph, struct node **wrong, char *log, size_t bytes)
{
    if (wrong)
        *wrong = NULL;
    if (log && bytes)
        *log = 0;
    return instantiate(made, graph);
}
#endif

API error_t_ cudaGraphInstantiateWithFlags(struct graph **made, struct graph *graph, unsigned long long flags)
{
    (void)flags;
    return instantiate(made, graph);
}

API error_t_ cudaGraphExecDestroy(struct graph *executable) { return cudaGraphDestroy(executable); }

API error_t_ cudaGraphUpload(struct graph *executable, void *stream)
{
    (void)stream;
    error_t_ status = enter();
    return leave(status == SUCCESS && !executable ? INVALID_VALUE : status);
}

static error_t_ launch_graph(struct graph *executable, void *stream)
{
    error_t_ status = enter();
    struct operation what = {.kind = CHILD_NODE, .of.child = executable};
    if (status == SUCCESS && !executable)
        status = INVALID_VALUE;
    if (status == SUCCESS && is_captured(stream)) {
        what.of.child = copy_graph(executable);
        return leave(what.of.child ? capture(stream, what) : MEMORY_ALLOCATION);
    }
    if (status)
        return leave(status);
    begin_graph();
    leave(status);
    status = run_graph(executable, stream);
    enter_quietly();
    end_graph();
    if (!in_graph())
        issue_one();
    leave(SUCCESS);
    return status;
}

API error_t_ cudaGraphLaunch(struct graph *executable, void *stream)
{
    hold_call();
    error_t_ status = launch_graph(executable, stream);
    release_call();
    return status;
}

/* The node of an executable graph that was made of `node`. */
static struct node *made_of(const struct graph *executable, const struct node *node)
{
    if (!executable || !executable->source || !node)
        return NULL;
    for (size_t k = 0; k < executable->source->count && k < executable->count; k++)
        if (executable->source->nodes[k] == node)
            return executable->nodes[k];
    return NULL;
}

static error_t_ replace_kernel(struct node *node, const struct kernel_parameters *parameters)
{
    struct operation what;
    if (!node || node->what.kind != KERNEL_NODE)
        return INVALID_VALUE;
    error_t_ status = kernel_operation(parameters, &what);
    if (status)
        return status;
    what.of.kernel.config.attributes = node->what.of.kernel.config.attributes;
    what.of.kernel.config.count = node->what.of.kernel.config.count;
    free(node->what.of.kernel.arguments);
    node->what = what;
    return SUCCESS;
}

API error_t_ cudaGraphKernelNodeSetParams(struct node *node, const struct kernel_parameters *parameters)
{
    error_t_ status = enter();
    return leave(status ? status : replace_kernel(node, parameters));
}

API error_t_ cudaGraphExecKernelNodeSetParams(struct graph *executable, struct node *node, const struct kernel_parameters *parameters)
{
    error_t_ status = enter();
    return leave(status ? status : replace_kernel(made_of(executable, node), parameters));
}

API error_t_ cudaGraphKernelNodeGetParams(const struct node *node, struct kernel_parameters *result)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!node || !result || node->what.kind != KERNEL_NODE))
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        const struct launch_config *config = &node->what.of.kernel.config;
        *result = (struct kernel_parameters){node->what.of.kernel.key, config->grid, config->block, (unsigned)config->shared,
                                             node->what.of.kernel.arguments, NULL};
    }
    return leave(status);
}

API error_t_ cudaGraphNodeSetEnabled(struct graph *executable, struct node *node, unsigned enabled)
{
    error_t_ status = enter();
    struct node *own = made_of(executable, node);
    if (status == SUCCESS && (!own || own->what.kind > FILL_NODE))
        status = INVALID_VALUE;
    if (status == SUCCESS)
        own->disabled = !enabled;
    return leave(status);
}

/* cudaGraphExecUpdate: the same nodes in the same order, with other parameters. */
enum { UPDATED, UPDATE_ERROR, TOPOLOGY_CHANGED, TYPE_CHANGED, UPDATE_FAILURE = 910 };

static int difference(const struct graph *executable, const struct graph *graph)
{
    if (executable->count != graph->count)
        return TOPOLOGY_CHANGED;
    for (size_t k = 0; k < graph->count; k++) {
        if (executable->nodes[k]->what.kind != graph->nodes[k]->what.kind)
            return TYPE_CHANGED;
        if (executable->nodes[k]->count != graph->nodes[k]->count)
            return TOPOLOGY_CHANGED;
    }
    return UPDATED;
}

static error_t_ update(struct graph *executable, struct graph *graph, int *result)
{
    error_t_ status = enter();
    struct graph *copy = NULL;
    if (status == SUCCESS && (!executable || !graph || !result))
        status = INVALID_VALUE;
    if (status == SUCCESS && (*result = difference(executable, graph)) != UPDATED)
        status = UPDATE_FAILURE;
    if (status == SUCCESS && !(copy = copy_graph(graph)))
        status = MEMORY_ALLOCATION;
    if (status == SUCCESS) {
        struct graph old = *executable;
        *executable = *copy;
        executable->source = graph;
        *copy = old;
        free_graph(copy);
    }
    return leave(status);
}

#if CUDART >= 12
struct update_result { int result; struct node *wrong, *from; };

API error_t_ cudaGraphExecUpdate(struct graph *executable, struct graph *graph, struct update_result *result)
{
    struct update_result unused;
    result = result ? result : &unused;
    result->wrong = result->from = NULL;
    return update(executable, graph, &result->result);
}
#else
API error_t_ cudaGraphExecUpdate(struct graph *executable, struct graph *graph, struct node **wrong, int *result)
{
    if (wrong)
        *wrong = NULL;
    return update(executable, graph, result);
}
#endif
