/* Copies and fills. All run at once: every launch before them has ended, and what is copied is mapped here. */
#include "graphs.h"

#include <string.h>

enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT };

static bool good_device_range(const void *pointer, size_t bytes)
{
    return in_arena(pointer) && range_is_live((uint64_t)pointer, bytes);
}

/* What CUDA checks: the side that is called device memory must be live memory that the device can reach. A host side that lies in
 * the arena must be live as well. */
static error_t_ check(const void *to, const void *from, size_t to_bytes, size_t from_bytes, int kind)
{
    if (kind < HOST_TO_HOST || kind > DEFAULT)
        return INVALID_DIRECTION;
    if (!to || !from)
        return INVALID_VALUE;
    bool to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE || in_arena(to);
    bool from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE || in_arena(from);
    if ((to_device && !good_device_range(to, to_bytes)) || (from_device && !good_device_range(from, from_bytes)))
        return INVALID_VALUE;
    return SUCCESS;
}

/* Copies and fills pass through the L2 of the GPU. What they touch is collected, and told before the next launch. For checks so is
 * what is allocated, and which copies take unwritten bytes with them. */
#define MOST_TOUCHED 512
#define TOUCH 9

enum touching { READ, WRITTEN, ALLOCATED, ALLOCATED_WRITTEN, COPIED /* from the row before */ };

static struct touched { int64_t address, pitch, width, rows, how; } touched[MOST_TOUCHED];
static int touches;

void tell_touched(void)
{
    if (touches)
        call_emulator(TOUCH, touched, (size_t)touches * sizeof *touched, NULL, 0, NULL, NULL);
    touches = 0;
}

static void add_touched(uint64_t address, size_t pitch, size_t width, size_t rows, enum touching how)
{
    if (touches >= MOST_TOUCHED - (how == READ)) /* the copy that follows comes in the same message */
        tell_touched();
    touched[touches++] = (struct touched){(int64_t)address, (int64_t)pitch, (int64_t)width, (int64_t)rows, how};
}

void tell_allocated(uint64_t address, size_t bytes, enum kind kind)
{
    add_touched(address, bytes, bytes, 1, kind == KIND_DEVICE ? ALLOCATED : ALLOCATED_WRITTEN);
}

static bool touch(const void *start, size_t pitch, size_t width, size_t rows, enum touching how)
{
    uint64_t low, high;
    struct allocation *memory = in_arena(start) ? find_allocation((uint64_t)start, &low, &high) : NULL;
    if (!memory || memory->kind == KIND_HOST)
        return false;
    add_touched((uint64_t)start, pitch, width, rows, how);
    return true;
}

/* The direction of a copy, where the program leaves it to the addresses. */
static int direction_of(const void *to, const void *from, int kind)
{
    uint64_t low, high;
    if (kind != DEFAULT)
        return kind;
    struct allocation *target = in_arena(to) ? find_allocation((uint64_t)to, &low, &high) : NULL;
    bool to_device = target && target->kind != KIND_HOST;
    struct allocation *source = in_arena(from) ? find_allocation((uint64_t)from, &low, &high) : NULL;
    bool from_device = source && source->kind != KIND_HOST;
    return from_device ? (to_device ? DEVICE_TO_DEVICE : DEVICE_TO_HOST) : to_device ? HOST_TO_DEVICE : HOST_TO_HOST;
}

static void touch_both(const void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows)
{
    bool from_device = touch(from, from_pitch, width, rows, READ);
    bool to_device = touch(to, to_pitch, width, rows, checking && from_device ? COPIED : WRITTEN);
    if (checking && from_device && !to_device)
        tell_copied_out(from, from_pitch, width, rows);
}

error_t_ copy_bytes(void *to, const void *from, size_t bytes, int kind)
{
    if (!bytes)
        return kind < HOST_TO_HOST || kind > DEFAULT ? INVALID_DIRECTION : SUCCESS;
    error_t_ status = check(to, from, bytes, bytes, kind);
    if (status == SUCCESS) {
        memmove(to, from, bytes);
        touch_both(to, bytes, from, bytes, bytes, 1);
    }
    return status;
}

error_t_ copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind)
{
    if (!width || !height)
        return SUCCESS;
    if (height > 1 && (width > to_pitch || width > from_pitch))
        return INVALID_PITCH;
    error_t_ status = check(to, from, to_pitch * (height - 1) + width, from_pitch * (height - 1) + width, kind);
    for (size_t row = 0; status == SUCCESS && row < height; row++)
        memmove((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    if (status == SUCCESS) {
        touch_both(to, to_pitch, from, from_pitch, width, height);
    }
    return status;
}

static void fill_row(char *to, uint32_t value, size_t element, size_t width)
{
    if (element == 1)
        memset(to, (int)value, width);
    else
        for (size_t at = 0; at < width; at += element)
            memcpy(to + at, &value, element);
}

static error_t_ fill_rows(void *to, size_t pitch, uint32_t value, size_t element, size_t width, size_t height)
{
    if (!width || !height)
        return SUCCESS;
    if (height > 1 && width > pitch)
        return INVALID_PITCH;
    if (!good_device_range(to, pitch * (height - 1) + width))
        return INVALID_VALUE;
    for (size_t row = 0; row < height; row++)
        fill_row((char *)to + row * pitch, value, element, width);
    touch(to, pitch, width, height, WRITTEN);
    return SUCCESS;
}

/* The host goes on while page-locked memory is copied, if the program has asked for that. */
static void spend_copy_of(const void *to, const void *from, size_t bytes, int kind, void *stream, bool asynchronous)
{
    int direction = direction_of(to, from, kind);
    const void *host = direction == HOST_TO_DEVICE ? from : to;
    spend_copy(stream, bytes, direction, !asynchronous || direction == HOST_TO_HOST || !is_page_locked(host));
}

static error_t_ copy(void *to, const void *from, size_t bytes, int kind, void *stream, bool asynchronous)
{
    error_t_ status = enter();
    if (status == SUCCESS && is_captured(stream))
        return leave(capture_rows(stream, to, bytes, from, bytes, bytes, 1, kind));
    if (status == SUCCESS)
        status = copy_bytes(to, from, bytes, kind);
    if (status == SUCCESS)
        spend_copy_of(to, from, bytes, kind, stream, asynchronous);
    return leave(status);
}

API error_t_ cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    return copy(to, from, bytes, kind, stream, true);
}

API error_t_ cudaMemcpy(void *to, const void *from, size_t bytes, int kind) { return copy(to, from, bytes, kind, NULL, false); }

API error_t_ cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, void *stream)
{
    if (to_device || from_device) {
        enter_quietly();
        return leave(INVALID_DEVICE);
    }
    return cudaMemcpyAsync(to, from, bytes, DEFAULT, stream);
}

API error_t_ cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, NULL);
}

static error_t_ copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind,
                        void *stream, bool asynchronous)
{
    error_t_ status = enter();
    if (status == SUCCESS && is_captured(stream))
        return leave(capture_rows(stream, to, to_pitch, from, from_pitch, width, height, kind));
    if (status == SUCCESS)
        status = copy_rows(to, to_pitch, from, from_pitch, width, height, kind);
    if (status == SUCCESS)
        spend_copy_of(to, from, width * height, kind, stream, asynchronous);
    return leave(status);
}

API error_t_ cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind,
                               void *stream)
{
    return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, stream, true);
}

API error_t_ cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind)
{
    return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, NULL, false);
}

/* Rows of elements of 1, 2 or 4 bytes; `width` in bytes. */
error_t_ fill_elements(void *to, size_t pitch, uint32_t value, size_t element, size_t width, size_t height, void *stream)
{
    struct fill_parameters fill = {to, pitch, value, (unsigned)element, width / element, height};
    if (is_captured(stream))
        return capture(stream, (struct operation){.kind = FILL_NODE, .of.fill = fill});
    error_t_ status = fill_rows(to, pitch, value, element, width, height);
    if (status == SUCCESS)
        spend_copy(stream, width * height, FILLED, false);
    return status;
}

API error_t_ cudaMemsetAsync(void *to, int value, size_t bytes, void *stream)
{
    error_t_ status = enter();
    return leave(status ? status : fill_elements(to, bytes, (uint32_t)value, 1, bytes, 1, stream));
}

API error_t_ cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }

API error_t_ cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, void *stream)
{
    error_t_ status = enter();
    return leave(status ? status : fill_elements(to, pitch, (uint32_t)value, 1, width, height, stream));
}

API error_t_ cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
    return cudaMemset2DAsync(to, pitch, value, width, height, NULL);
}

API error_t_ cudaMemset3DAsync(struct pitched to, int value, struct extent extent, void *stream)
{
    error_t_ status = enter();
    for (size_t z = 0; status == SUCCESS && z < extent.depth; z++)
        status = fill_rows((char *)to.ptr + z * to.pitch * to.ysize, to.pitch, (uint32_t)value, 1, extent.width, extent.height);
    if (status == SUCCESS)
        spend_copy(stream, extent.width * extent.height * extent.depth, FILLED, false);
    return leave(status);
}

API error_t_ cudaMemset3D(struct pitched to, int value, struct extent extent) { return cudaMemset3DAsync(to, value, extent, NULL); }

static error_t_ symbol_range(const void *symbol, size_t bytes, size_t offset, char **address)
{
    struct variable *variable;
    error_t_ status = find_variable(symbol, &variable);
    if (status == SUCCESS && (offset > variable->size || bytes > variable->size - offset))
        status = INVALID_VALUE;
    if (status == SUCCESS)
        *address = (char *)variable->address + offset;
    return status;
}

static error_t_ copy_to_symbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind, void *stream, bool asynchronous)
{
    char *to;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = symbol_range(symbol, bytes, offset, &to);
    if (status == SUCCESS && is_captured(stream))
        return leave(capture_rows(stream, to, bytes, from, bytes, bytes, 1, kind));
    if (status == SUCCESS)
        status = kind == DEVICE_TO_HOST || kind == HOST_TO_HOST ? INVALID_DIRECTION : copy_bytes(to, from, bytes, kind);
    if (status == SUCCESS)
        spend_copy_of(to, from, bytes, kind, stream, asynchronous);
    return leave(status);
}

API error_t_ cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset, int kind, void *stream)
{
    return copy_to_symbol(symbol, from, bytes, offset, kind, stream, true);
}

API error_t_ cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind)
{
    return copy_to_symbol(symbol, from, bytes, offset, kind, NULL, false);
}

static error_t_ copy_from_symbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind, void *stream, bool asynchronous)
{
    char *from;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = symbol_range(symbol, bytes, offset, &from);
    if (status == SUCCESS && is_captured(stream))
        return leave(capture_rows(stream, to, bytes, from, bytes, bytes, 1, kind));
    if (status == SUCCESS)
        status = kind == HOST_TO_DEVICE || kind == HOST_TO_HOST ? INVALID_DIRECTION : copy_bytes(to, from, bytes, kind);
    if (status == SUCCESS)
        spend_copy_of(to, from, bytes, kind, stream, asynchronous);
    return leave(status);
}

API error_t_ cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset, int kind, void *stream)
{
    return copy_from_symbol(to, symbol, bytes, offset, kind, stream, true);
}

API error_t_ cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind)
{
    return copy_from_symbol(to, symbol, bytes, offset, kind, NULL, false);
}

API error_t_ cudaGetSymbolAddress(void **address, const void *symbol)
{
    struct variable *variable;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = address ? find_variable(symbol, &variable) : INVALID_VALUE;
    if (status == SUCCESS)
        *address = (void *)variable->address;
    return leave(status);
}

API error_t_ cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    struct variable *variable;
    error_t_ status = enter();
    if (status == SUCCESS)
        status = bytes ? find_variable(symbol, &variable) : INVALID_VALUE;
    if (status == SUCCESS)
        *bytes = variable->size;
    return leave(status);
}
