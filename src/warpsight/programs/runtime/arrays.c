/* CUDA arrays: rows of texels in device memory, with copies in and out of them. */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

#define ROW_ALIGNMENT 64u

API struct channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return (struct channel){x, y, z, w, kind}; }

static size_t at_least_one(size_t n) { return n ? n : 1; }

API error_t_ cudaMalloc3DArray(struct array **result, const struct channel *channel, struct extent extent, unsigned flags)
{
    error_t_ status = enter();
    if (status == SUCCESS && (!result || !channel || !extent.width))
        status = INVALID_VALUE;
    if (status == SUCCESS) {
        struct array *array = calloc(1, sizeof *array);
        if (!array)
            return leave(MEMORY_ALLOCATION);
        size_t bits = (size_t)(channel->x + channel->y + channel->z + channel->w);
        *array = (struct array){0, *channel, extent, bits / 8, 0, flags};
        array->pitch = (extent.width * array->element + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
        size_t bytes = array->pitch * at_least_one(extent.height) * at_least_one(extent.depth);
        status = bits && bits % 8 == 0 ? allocate(bytes, KIND_DEVICE, 0, &array->address) : INVALID_VALUE;
        if (status == SUCCESS)
            *result = array;
        else
            free(array);
    }
    return leave(status);
}

API error_t_ cudaMallocArray(struct array **result, const struct channel *channel, size_t width, size_t height, unsigned flags)
{
    return cudaMalloc3DArray(result, channel, (struct extent){width, height, 0}, flags);
}

API error_t_ cudaFreeArray(struct array *array)
{
    error_t_ status = enter();
    if (status == SUCCESS && array) {
        status = release(array->address);
        free(array);
    }
    return leave(status);
}

API error_t_ cudaArrayGetInfo(struct channel *channel, struct extent *extent, unsigned *flags, const struct array *array)
{
    error_t_ status = enter();
    if (status == SUCCESS && !array)
        status = INVALID_HANDLE;
    if (status == SUCCESS) {
        if (channel)
            *channel = array->channel;
        if (extent)
            *extent = array->extent;
        if (flags)
            *flags = array->flags;
    }
    return leave(status);
}

API error_t_ cudaGetChannelDesc(struct channel *channel, const struct array *array)
{
    return cudaArrayGetInfo(channel, NULL, NULL, array);
}

/* Where a position of an array, in bytes and rows, lies; NULL where `width` bytes and `height` rows do not fit there. */
static char *place(const struct array *array, size_t x, size_t y, size_t width, size_t height)
{
    size_t rows = at_least_one(array->extent.height) * at_least_one(array->extent.depth);
    if (x + width > array->extent.width * array->element || y + height > rows)
        return NULL;
    return (char *)array->address + y * array->pitch + x;
}

API error_t_ cudaMemcpy2DToArrayAsync(struct array *to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height,
                                      int kind, void *stream)
{
    error_t_ status = enter();
    if (status == SUCCESS) {
        char *start = to ? place(to, x, y, width, height) : NULL;
        status = start ? copy_rows(start, to->pitch, from, pitch, width, height, kind) : INVALID_VALUE;
    }
    if (status == SUCCESS)
        spend_copy(stream, width * height, kind, true);
    return leave(status);
}

API error_t_ cudaMemcpy2DToArray(struct array *to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind)
{
    return cudaMemcpy2DToArrayAsync(to, x, y, from, pitch, width, height, kind, NULL);
}

API error_t_ cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, const struct array *from, size_t x, size_t y, size_t width, size_t height,
                                        int kind, void *stream)
{
    error_t_ status = enter();
    if (status == SUCCESS) {
        char *start = from ? place(from, x, y, width, height) : NULL;
        status = start ? copy_rows(to, pitch, start, from->pitch, width, height, kind) : INVALID_VALUE;
    }
    if (status == SUCCESS)
        spend_copy(stream, width * height, kind, true);
    return leave(status);
}

API error_t_ cudaMemcpy2DFromArray(void *to, size_t pitch, const struct array *from, size_t x, size_t y, size_t width, size_t height, int kind)
{
    return cudaMemcpy2DFromArrayAsync(to, pitch, from, x, y, width, height, kind, NULL);
}

API error_t_ cudaMemcpy2DArrayToArray(struct array *to, size_t to_x, size_t to_y, const struct array *from, size_t from_x, size_t from_y,
                                      size_t width, size_t height, int kind)
{
    char *source = from ? place(from, from_x, from_y, width, height) : NULL;
    if (!source) {
        enter_quietly();
        return leave(INVALID_VALUE);
    }
    return cudaMemcpy2DToArray(to, to_x, to_y, source, from->pitch, width, height, kind);
}

/* The linear forms: bytes run on from row to row. */
static error_t_ linear(struct array *array, size_t x, size_t y, char *memory, size_t bytes, int kind, bool into)
{
    error_t_ status = array ? SUCCESS : INVALID_VALUE;
    size_t row = array ? array->extent.width * array->element : 1;
    while (status == SUCCESS && bytes) {
        size_t part = bytes < row - x ? bytes : row - x;
        char *start = x < row ? place(array, x, y, part, 1) : NULL;
        status = !start ? INVALID_VALUE : into ? copy_bytes(start, memory, part, kind) : copy_bytes(memory, start, part, kind);
        memory += part;
        bytes -= part;
        x = 0;
        y++;
    }
    return status;
}

API error_t_ cudaMemcpyToArrayAsync(struct array *to, size_t x, size_t y, const void *from, size_t bytes, int kind, void *stream)
{
    error_t_ status = enter();
    if (status == SUCCESS)
        status = linear(to, x, y, (char *)from, bytes, kind, true);
    if (status == SUCCESS)
        spend_copy(stream, bytes, kind, true);
    return leave(status);
}

API error_t_ cudaMemcpyToArray(struct array *to, size_t x, size_t y, const void *from, size_t bytes, int kind)
{
    return cudaMemcpyToArrayAsync(to, x, y, from, bytes, kind, NULL);
}

API error_t_ cudaMemcpyFromArrayAsync(void *to, const struct array *from, size_t x, size_t y, size_t bytes, int kind, void *stream)
{
    error_t_ status = enter();
    if (status == SUCCESS)
        status = linear((struct array *)from, x, y, to, bytes, kind, false);
    if (status == SUCCESS)
        spend_copy(stream, bytes, kind, true);
    return leave(status);
}

API error_t_ cudaMemcpyFromArray(void *to, const struct array *from, size_t x, size_t y, size_t bytes, int kind)
{
    return cudaMemcpyFromArrayAsync(to, from, x, y, bytes, kind, NULL);
}

/* One side of a 3D copy: where it starts, and how far rows and slices lie apart. Positions in arrays count elements, else bytes. */
struct side { char *start; size_t row, slice; };

static bool find_side(struct side *side, const struct array *array, struct position at, struct pitched pointer)
{
    if (array) {
        side->row = array->pitch;
        side->slice = array->pitch * at_least_one(array->extent.height);
        side->start = (char *)array->address + at.z * side->slice + at.y * side->row + at.x * array->element;
    } else {
        side->row = pointer.pitch;
        side->slice = pointer.pitch * pointer.ysize;
        side->start = (char *)pointer.ptr + at.z * side->slice + at.y * side->row + at.x;
    }
    return array || pointer.ptr;
}

static bool fits(const struct array *array, struct position at, struct extent extent)
{
    return !array || (at.x + extent.width <= array->extent.width && at.y + extent.height <= at_least_one(array->extent.height) &&
                      at.z + extent.depth <= at_least_one(array->extent.depth));
}

API error_t_ cudaMemcpy3DAsync(const struct copy_parameters *p, void *stream)
{
    struct side to, from;
    error_t_ status = enter();
    if (status == SUCCESS &&
        (!p || !find_side(&to, p->to_array, p->to_position, p->to_pointer) || !find_side(&from, p->from_array, p->from_position, p->from_pointer) ||
         !fits(p->to_array, p->to_position, p->extent) || !fits(p->from_array, p->from_position, p->extent)))
        status = INVALID_VALUE;
    if (status)
        return leave(status);
    if (is_captured(stream))
        return leave(capture(stream, (struct operation){.kind = COPY_NODE, .of.copy = *p}));
    const struct array *array = p->to_array ? p->to_array : p->from_array;
    size_t width = p->extent.width * (array ? array->element : 1);
    for (size_t z = 0; status == SUCCESS && z < p->extent.depth; z++)
        status = copy_rows(to.start + z * to.slice, to.row, from.start + z * from.slice, from.row, width, p->extent.height, p->kind);
    if (status == SUCCESS)
        spend_copy(stream, width * p->extent.height * p->extent.depth, p->kind, true);
    return leave(status);
}

API error_t_ cudaMemcpy3D(const struct copy_parameters *p) { return cudaMemcpy3DAsync(p, NULL); }
