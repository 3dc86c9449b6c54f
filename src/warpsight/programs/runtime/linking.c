/* Linking by the driver. One image is its own result: what is loaded is compiled then. Several are linked by the emulator, to a cubin. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum { LINK_MESSAGE = 14, LINKED_FATBINARY = 2, LINKED_KINDS = 5, MOST_IMAGES = 1024 };
struct input { int64_t kind, bytes; char *data; };
struct linked { struct input inputs[MOST_IMAGES]; int64_t count; char *image; size_t bytes; };

static error_t_ add_linked(struct linked *state, int kind, const void *data, size_t bytes)
{
    if (!state || !data || !bytes || kind < 0 || state->image)
        return INVALID_VALUE;
    if (kind >= LINKED_KINDS || state->count == MOST_IMAGES) {
        warn_once("linking of more than 1,024 images, or of one that is no cubin, PTX, fat binary, object file or library");
        return NOT_SUPPORTED;
    }
    struct input *input = &state->inputs[state->count];
    *input = (struct input){kind, (int64_t)bytes, calloc(1, bytes + 8)}; /* PTX may come without its zero byte */
    if (!input->data)
        return MEMORY_ALLOCATION;
    memcpy(input->data, data, bytes);
    state->count++;
    return SUCCESS;
}

static error_t_ start_linking(void **state, unsigned count, const int *options, void **values)
{
    read_options(options, values, count);
    if (!state)
        return INVALID_VALUE;
    *state = calloc(1, sizeof(struct linked));
    return *state ? SUCCESS : MEMORY_ALLOCATION;
}

static error_t_ add_linked_file(void *state, int kind, const char *path)
{
    size_t bytes;
    char *image = read_file(path, &bytes);
    error_t_ status = image ? add_linked(state, kind, image, bytes) : FILE_NOT_FOUND;
    free(image);
    return status;
}

/* Asks the emulator: how many images, the kind and size of each, then all of them. */
static error_t_ link_images(struct linked *state)
{
    size_t total = 0, at = 0;
    for (int64_t k = 0; k < state->count; k++)
        total += (size_t)state->inputs[k].bytes;
    int64_t *head = malloc((size_t)(1 + 2 * state->count) * sizeof *head);
    char *body = malloc(total);
    if (!head || !body)
        abort();
    head[0] = state->count;
    for (int64_t k = 0; k < state->count; k++) {
        head[1 + 2 * k] = state->inputs[k].kind;
        head[2 + 2 * k] = state->inputs[k].bytes;
        memcpy(body + at, state->inputs[k].data, (size_t)state->inputs[k].bytes);
        at += (size_t)state->inputs[k].bytes;
    }
    void *answer = NULL;
    error_t_ status = call_emulator(LINK_MESSAGE, head, (size_t)(1 + 2 * state->count) * sizeof *head, body, total, &answer, &state->bytes);
    state->image = status == SUCCESS ? answer : NULL;
    if (status)
        free(answer);
    free(head);
    free(body);
    return status;
}

static error_t_ finish_linking(struct linked *state, void **image, size_t *bytes)
{
    if (!state || !state->count || !image)
        return INVALID_VALUE;
    error_t_ status = SUCCESS;
    if (!state->image && state->count == 1 && state->inputs[0].kind <= LINKED_FATBINARY) {
        state->image = state->inputs[0].data;
        state->bytes = (size_t)state->inputs[0].bytes;
    } else if (!state->image) {
        status = link_images(state);
    }
    if (status)
        return status;
    *image = state->image;
    if (bytes)
        *bytes = state->bytes;
    return SUCCESS;
}

API error_t_ cuLinkCreate_v2(unsigned count, const int *options, void **values, void **state)
{
    FORWARD(start_linking(state, count, options, values));
}
API error_t_ cuLinkAddData_v2(void *state, int kind, const void *data, size_t bytes, const char *name, unsigned count, const int *options,
                              void **values)
{
    (void)name, (void)count, (void)options, (void)values;
    FORWARD(add_linked(state, kind, data, bytes));
}
API error_t_ cuLinkAddFile_v2(void *state, int kind, const char *path, unsigned count, const int *options, void **values)
{
    (void)count, (void)options, (void)values;
    FORWARD(add_linked_file(state, kind, path));
}
API error_t_ cuLinkComplete(void *state, void **image, size_t *bytes) { FORWARD(finish_linking(state, image, bytes)); }
API error_t_ cuLinkDestroy(struct linked *state)
{
    for (int64_t k = 0; state && k < state->count; k++)
        if (state->inputs[k].data != state->image)
            free(state->inputs[k].data);
    if (state)
        free(state->image);
    free(state);
    return SUCCESS;
}
