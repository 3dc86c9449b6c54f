/* What graphs are made of, and how they are launched: nodes are done one after the other, each after those before it. */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

/* -- Building. */

struct graph *new_graph(void) { return calloc(1, sizeof(struct graph)); }

static void free_operation(struct operation *what)
{
    if (what->kind == KERNEL_NODE) {
        free(what->of.kernel.arguments);
        free(what->of.kernel.config.attributes);
    }
    if (what->kind == CHILD_NODE)
        free_graph(what->of.child);
}

static void free_node(struct node *node)
{
    free_operation(&node->what);
    free(node->before);
    free(node);
}

void free_graph(struct graph *graph)
{
    for (size_t k = 0; graph && k < graph->count; k++)
        free_node(graph->nodes[k]);
    if (graph)
        free(graph->nodes);
    free(graph);
}

bool has(const struct graph *graph, const struct node *node)
{
    for (size_t k = 0; k < graph->count; k++)
        if (graph->nodes[k] == node)
            return true;
    return false;
}

bool comes_before(const struct node *node, const struct node *later)
{
    if (node == later)
        return true;
    for (size_t k = 0; k < later->count; k++)
        if (comes_before(node, later->before[k]))
            return true;
    return false;
}

error_t_ add_edge(struct node *node, struct node *before)
{
    struct node **grown = realloc(node->before, (node->count + 1) * sizeof *grown);
    if (!grown)
        return MEMORY_ALLOCATION;
    node->before = grown;
    node->before[node->count++] = before;
    return SUCCESS;
}

/* Takes what `what` points to, also where it fails. */
error_t_ add_operation(struct graph *graph, struct operation what, struct node *const *before, size_t count, struct node **added)
{
    error_t_ status = graph && (before || !count) ? SUCCESS : INVALID_VALUE;
    for (size_t k = 0; k < count && status == SUCCESS; k++)
        status = has(graph, before[k]) ? SUCCESS : INVALID_VALUE;
    struct node *node = status ? NULL : calloc(1, sizeof *node);
    if (status == SUCCESS && graph->count == graph->room) {
        size_t room = graph->room ? 2 * graph->room : 16;
        struct node **grown = realloc(graph->nodes, room * sizeof *grown);
        graph->nodes = grown ? grown : graph->nodes;
        graph->room = grown ? room : graph->room;
    }
    if (!node || graph->count == graph->room) {
        free_operation(&what);
        free(node);
        return status ? status : MEMORY_ALLOCATION;
    }
    node->what = what;
    graph->nodes[graph->count++] = node;
    for (size_t k = 0; k < count && status == SUCCESS; k++)
        status = add_edge(node, before[k]);
    if (added)
        *added = node;
    return status;
}

/* The values of a launch's arguments, behind the pointers to them, in one block. */
error_t_ keep_arguments(const void *key, void **arguments, void ***kept)
{
    struct function *f;
    error_t_ status = find_function(key, &f);
    if (status == SUCCESS)
        status = resolve(f);
    if (status == SUCCESS && f->parameters && !arguments)
        status = INVALID_VALUE;
    if (status)
        return status;
    size_t pointers = (size_t)(f->parameters + 1) * sizeof *arguments;
    *kept = calloc(1, pointers + (size_t)f->parameter_bytes);
    if (!*kept)
        return MEMORY_ALLOCATION;
    for (int64_t k = 0; k < f->parameters; k++) {
        (*kept)[k] = (char *)*kept + pointers + f->layout[k][0];
        memcpy((*kept)[k], arguments[k], (size_t)f->layout[k][1]);
    }
    return SUCCESS;
}

error_t_ kernel_operation(const struct kernel_parameters *p, struct operation *what)
{
    if (!p || p->more) /* arguments in one buffer are the driver's */
        return p ? NOT_SUPPORTED : INVALID_VALUE;
    *what = (struct operation){.kind = KERNEL_NODE};
    what->of.kernel.config = (struct launch_config){p->grid, p->block, p->shared, NULL, NULL, 0};
    what->of.kernel.key = p->key;
    return keep_arguments(p->key, p->arguments, &what->of.kernel.arguments);
}

static error_t_ copy_operation(struct operation *what)
{
    if (what->kind == CHILD_NODE)
        return (what->of.child = copy_graph(what->of.child)) ? SUCCESS : MEMORY_ALLOCATION;
    if (what->kind != KERNEL_NODE)
        return SUCCESS;
    struct launch_config *config = &what->of.kernel.config;
    if (config->count) {
        struct attribute *own = malloc(config->count * sizeof *own);
        if (!own)
            return MEMORY_ALLOCATION;
        config->attributes = memcpy(own, config->attributes, config->count * sizeof *own);
    }
    return keep_arguments(what->of.kernel.key, what->of.kernel.arguments, &what->of.kernel.arguments);
}

struct graph *copy_graph(const struct graph *graph)
{
    struct graph *copy = new_graph();
    error_t_ status = copy ? SUCCESS : MEMORY_ALLOCATION;
    for (size_t k = 0; k < graph->count && status == SUCCESS; k++) {
        struct operation what = graph->nodes[k]->what;
        status = copy_operation(&what);
        if (status == SUCCESS)
            status = add_operation(copy, what, NULL, 0, &graph->nodes[k]->copy);
    }
    for (size_t k = 0; k < graph->count && status == SUCCESS; k++) {
        graph->nodes[k]->copy->disabled = graph->nodes[k]->disabled;
        for (size_t j = 0; j < graph->nodes[k]->count && status == SUCCESS; j++)
            status = add_edge(graph->nodes[k]->copy, graph->nodes[k]->before[j]->copy);
    }
    if (status == SUCCESS)
        return copy;
    free_graph(copy);
    return NULL;
}

/* -- Doing. */

static error_t_ perform(const struct node *node, void *stream)
{
    const struct operation *what = &node->what;
    const struct fill_parameters *fill = &what->of.fill;
    struct launch_config config;
    error_t_ status;
    switch (node->disabled ? EMPTY_NODE : what->kind) {
    case KERNEL_NODE:
        config = what->of.kernel.config;
        config.stream = stream;
        return cudaLaunchKernelExC(&config, what->of.kernel.key, what->of.kernel.arguments);
    case COPY_NODE: return cudaMemcpy3DAsync(&what->of.copy, stream);
    case FILL_NODE:
        status = enter();
        return leave(status ? status : fill_elements(fill->to, fill->pitch, fill->value, fill->element, fill->width * fill->element,
                                                     fill->height, stream));
    case HOST_NODE: return cudaLaunchHostFunc(stream, what->of.host.call, what->of.host.data);
    case CHILD_NODE: return run_graph(what->of.child, stream);
    case WAIT_NODE: return cudaStreamWaitEvent(stream, what->of.event, 0);
    case RECORD_NODE: return cudaEventRecord(what->of.event, stream);
    case EMPTY_NODE: break;
    }
    return SUCCESS;
}

static bool is_ready(const struct graph *graph, const struct node *node, const bool *done)
{
    for (size_t k = 0; k < node->count; k++)
        for (size_t j = 0; j < graph->count; j++)
            if (graph->nodes[j] == node->before[k] && !done[j])
                return false;
    return true;
}

/* Each of the nodes, in an order in which each comes after those before it; INVALID_VALUE for a circle. */
static error_t_ in_order(const struct graph *graph, error_t_ (*each)(const struct node *node, void *stream), void *stream)
{
    bool *done = calloc(graph->count + 1, sizeof *done);
    size_t left = graph->count;
    error_t_ status = done ? SUCCESS : MEMORY_ALLOCATION;
    for (bool moved = true; left && moved && status == SUCCESS;) {
        moved = false;
        for (size_t k = 0; k < graph->count && status == SUCCESS; k++)
            if (!done[k] && is_ready(graph, graph->nodes[k], done)) {
                status = each(graph->nodes[k], stream);
                done[k] = moved = true;
                left--;
            }
    }
    free(done);
    return status == SUCCESS && left ? INVALID_VALUE : status;
}

error_t_ run_graph(const struct graph *graph, void *stream) { return in_order(graph, perform, stream); }

static error_t_ pass_by(const struct node *node, void *stream)
{
    (void)node, (void)stream;
    return SUCCESS;
}

error_t_ check_order(const struct graph *graph) { return in_order(graph, pass_by, NULL); }
