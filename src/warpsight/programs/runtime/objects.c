/* Texture and surface objects: each is a row of the emulator's table, a handle here. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

#define MAKE_OBJECT 7u
#define REMOVE_OBJECT 8u

enum use { TEXTURE = 1, SURFACE = 2 };
enum resource_kind { RESOURCE_ARRAY, RESOURCE_MIPMAPPED, RESOURCE_LINEAR, RESOURCE_PITCHED };

struct resource {
    int kind;
    union {
        struct array *array;
        struct { void *memory; struct channel channel; size_t bytes; } linear;
        struct { void *memory; struct channel channel; size_t width, height, pitch; } pitched;
        int reserved[32];
    } in;
};

struct texture {
    int address_modes[3], filter, read_mode, srgb;
    float border[4];
    int normalized;
    unsigned anisotropy;
    int mipmap_filter;
    float mipmap_bias, mipmap_low, mipmap_high;
    int disable_trilinear, seamless_cubemap;
};

struct question { /* `OBJECT` of `programs/objects.py` */
    int64_t use, kind, address, width, height, depth, pitch, flags, channel[5], address_modes[3], filter, read_mode, normalized, srgb,
        seamless_cubemap;
    double border[4];
};

static error_t_ describe(const struct resource *resource, struct question *q)
{
    struct channel channel;
    uint64_t bytes;
    q->kind = resource->kind;
    if (resource->kind == RESOURCE_ARRAY) {
        const struct array *array = resource->in.array;
        if (!array)
            return INVALID_HANDLE;
        channel = array->channel;
        q->address = (int64_t)array->address;
        q->width = (int64_t)array->extent.width;
        q->height = (int64_t)array->extent.height;
        q->depth = (int64_t)array->extent.depth;
        q->pitch = (int64_t)array->pitch;
        q->flags = array->flags;
        bytes = 1;
    } else if (resource->kind == RESOURCE_LINEAR) {
        channel = resource->in.linear.channel;
        q->address = (int64_t)resource->in.linear.memory;
        q->width = (int64_t)(bytes = resource->in.linear.bytes);
    } else if (resource->kind == RESOURCE_PITCHED) {
        channel = resource->in.pitched.channel;
        q->address = (int64_t)resource->in.pitched.memory;
        q->width = (int64_t)resource->in.pitched.width;
        q->height = (int64_t)resource->in.pitched.height;
        q->pitch = (int64_t)resource->in.pitched.pitch;
        bytes = resource->in.pitched.pitch * resource->in.pitched.height;
    } else {
        return NOT_SUPPORTED;
    }
    if (!range_is_live((uint64_t)q->address, bytes))
        return INVALID_VALUE;
    int64_t fields[5] = {channel.x, channel.y, channel.z, channel.w, channel.kind};
    memcpy(q->channel, fields, sizeof fields);
    return SUCCESS;
}

static error_t_ make(uint64_t *handle, const struct question *q)
{
    void *answer = NULL;
    size_t bytes = 0;
    error_t_ status = call_emulator(MAKE_OBJECT, q, sizeof *q, NULL, 0, &answer, &bytes);
    if (status == SUCCESS)
        memcpy(handle, answer, sizeof *handle);
    free(answer);
    return status;
}

API error_t_ cudaCreateTextureObject(uint64_t *handle, const struct resource *resource, const struct texture *texture, const void *view)
{
    error_t_ status = enter();
    struct question q = {.use = TEXTURE};
    if (status == SUCCESS && (!handle || !resource || !texture))
        status = INVALID_VALUE;
    if (status == SUCCESS && view) {
        warn_once("cudaResourceViewDesc");
        status = NOT_SUPPORTED;
    }
    if (status == SUCCESS)
        status = describe(resource, &q);
    if (status == SUCCESS) {
        for (int k = 0; k < 3; k++)
            q.address_modes[k] = texture->address_modes[k];
        for (int k = 0; k < 4; k++)
            q.border[k] = texture->border[k];
        q.filter = texture->filter;
        q.read_mode = texture->read_mode;
        q.normalized = texture->normalized != 0;
        q.srgb = texture->srgb != 0;
        q.seamless_cubemap = texture->seamless_cubemap != 0; /* fields of mipmaps mean nothing without one */
        status = make(handle, &q);
    }
    return leave(status);
}

API error_t_ cudaCreateSurfaceObject(uint64_t *handle, const struct resource *resource)
{
    error_t_ status = enter();
    struct question q = {.use = SURFACE};
    if (status == SUCCESS && (!handle || !resource || resource->kind != RESOURCE_ARRAY))
        status = INVALID_VALUE;
    if (status == SUCCESS)
        status = describe(resource, &q);
    if (status == SUCCESS)
        status = make(handle, &q);
    return leave(status);
}

static error_t_ destroy(uint64_t handle)
{
    error_t_ status = enter();
    if (status == SUCCESS)
        status = call_emulator(REMOVE_OBJECT, &handle, sizeof handle, NULL, 0, NULL, NULL);
    return leave(status);
}

API error_t_ cudaDestroyTextureObject(uint64_t handle) { return destroy(handle); }
API error_t_ cudaDestroySurfaceObject(uint64_t handle) { return destroy(handle); }
