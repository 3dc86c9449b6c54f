/* Tensor maps of the driver's interface: the 128 bytes that describe a tensor to the copy engine. Their layout is described in
 * `emulator/ptx/tensor_engine.py`. What the driver refuses (CUDA Driver API, "Tensor Map Object Management") is CUDA_ERROR_INVALID_VALUE.
 */
#include "runtime.h"

#include <string.h>

#define MOST_DIMENSIONS 5

enum { TYPE_FLOAT16 = 6, TYPE_FLOAT32 = 7, TYPE_FLOAT64 = 8, TYPE_BFLOAT16 = 9, TYPE_TF32_FTZ = 12, PACKED8, PACKED16, PACKED6, TYPES };
enum { INTERLEAVE_NONE, INTERLEAVE_16B, INTERLEAVE_32B };
enum { WIDE_W, WIDE_W128 }; /* of CUtensorMapIm2ColWideMode */
enum { MODE_IM2COL = 1, MODE_WIDE = 3 }; /* as the copy engine names them */
enum { SWIZZLE_NONE, SWIZZLE_32B, SWIZZLE_64B, SWIZZLE_128B, ATOM_32B, ATOM_32B_FLIP, ATOM_64B, SWIZZLES };

/* For each CUtensorMapDataType what bits 7-16 of a map have, and bytes of 16 elements in shared memory. */
static const unsigned NUMBERS[TYPES] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7 | 1 << 9, 8 | 1 << 9, 11, 12, 13};
static const unsigned BYTES_OF_16[TYPES] = {16, 32, 64, 64, 128, 128, 32, 64, 128, 32, 64, 64, 64, 8, 16, 16};
static const unsigned SPANS[SWIZZLES] = {0, 32, 64, 128, 128, 128, 128};

struct shape { /* what both forms of a map have */
    unsigned type, rank;
    uint64_t address;
    const uint64_t *sizes, *strides;
    const uint32_t *steps;
    unsigned interleave, swizzle, promotion, fill;
};

static bool is_wide(unsigned type) { return type == PACKED16 || type == PACKED6; }

/* A map may have no address yet: a kernel gives it one (`tensormap.replace`), as CUTLASS's for arrays of pointers do. */
static bool is_valid(const void *map, const struct shape *s, unsigned least_rank)
{
    if (!map || (uintptr_t)map % 64 || s->type >= TYPES || s->rank < least_rank || s->rank > MOST_DIMENSIONS || !s->sizes ||
        !s->steps || (s->rank > 1 && !s->strides) || s->interleave > INTERLEAVE_32B || s->swizzle >= SWIZZLES || s->promotion > 3 ||
        s->fill > 1)
        return false;
    unsigned align = s->interleave == INTERLEAVE_32B || is_wide(s->type) ? 32 : 16;
    bool floats = s->type >= TYPE_FLOAT16 && s->type <= TYPE_TF32_FTZ;
    if (s->address % align || (s->fill && !floats) || (s->interleave != INTERLEAVE_NONE && (s->rank < 3 || s->type == PACKED6)) ||
        (s->interleave == INTERLEAVE_32B && s->swizzle != SWIZZLE_32B))
        return false;
    for (unsigned k = 0; k < s->rank; k++) {
        if (!s->sizes[k] || s->sizes[k] > 1ull << 32 || !s->steps[k] || s->steps[k] > 8)
            return false;
        if (k + 1 < s->rank && (s->strides[k] % align || s->strides[k] >= 1ull << 40))
            return false;
    }
    return s->sizes[0] % (is_wide(s->type) ? 128 : s->type == PACKED8 ? 2 : 1) == 0;
}

/* The first dimension of the box: `elements` of it. */
static bool is_valid_row(const struct shape *s, unsigned elements)
{
    unsigned bytes = elements * BYTES_OF_16[s->type] / 16;
    if (!elements || elements > 256 || (is_wide(s->type) && elements != 128))
        return false;
    return s->interleave != INTERLEAVE_NONE || (bytes % 16 == 0 && (!SPANS[s->swizzle] || bytes <= SPANS[s->swizzle]));
}

static void put(unsigned char *map, unsigned byte, unsigned bit, uint32_t value)
{
    uint32_t word;
    memcpy(&word, map + byte, sizeof word);
    word |= value << bit;
    memcpy(map + byte, &word, sizeof word);
}

static void write_shape(unsigned char *map, const struct shape *s)
{
    static const unsigned atoms[SWIZZLES] = {0, 0, 0, 0, 1, 2, 3};
    memset(map, 0, 128);
    memcpy(map, &s->address, sizeof s->address);
    put(map, 8, 4, s->rank - 1);
    put(map, 8, 7, NUMBERS[s->type]);
    put(map, 8, 11, s->interleave);
    put(map, 8, 13, s->swizzle < SWIZZLE_128B ? s->swizzle : SWIZZLE_128B);
    put(map, 8, 15, s->fill);
    put(map, 8, 22, atoms[s->swizzle]);
    for (unsigned k = 0; k < s->rank; k++) {
        put(map, 32 + 4 * k, 0, (uint32_t)(s->sizes[k] - 1));
        put(map, 52, 3 * k, s->steps[k] - 1);
        if (k + 1 < s->rank) {
            put(map, 12 + 4 * k, 0, (uint32_t)(s->strides[k] >> 4));
            put(map, 28, 4 * k, (uint32_t)(s->strides[k] >> 36));
        }
    }
}

#define WALKS 0x4b4c4157u /* "WALK" in the bytes behind a walk, where maps that programs write themselves may have anything */

/* A walk over pixels: `mode` as the copy engine names it, and both corners of a box in `corners` dimensions. */
static void write_walk(unsigned char *map, unsigned mode, uint32_t channels, uint32_t pixels, const int *lower, const int *upper,
                       unsigned corners)
{
    map[64] = (unsigned char)mode;
    map[65] = (unsigned char)(channels - 1);
    memcpy(map + 66, &(uint16_t){(uint16_t)pixels}, 2);
    for (unsigned k = 0; k < corners; k++) {
        memcpy(map + 68 + 2 * k, &(int16_t){(int16_t)lower[k]}, 2);
        memcpy(map + 74 + 2 * k, &(int16_t){(int16_t)upper[k]}, 2);
    }
    put(map, 80, 0, WALKS);
}

/* Do both corners lie in [-most, most), and pixels of a dimension of that size between them? */
static bool is_valid_corner(uint64_t size, int lower, int upper, int most)
{
    return lower >= -most && lower < most && upper >= -most && upper < most && (int64_t)size + upper - lower > 0;
}

API error_t_ cuTensorMapEncodeTiled(void *map, unsigned type, uint32_t rank, void *address, const uint64_t *sizes, const uint64_t *strides,
                                    const uint32_t *box, const uint32_t *steps, unsigned interleave, unsigned swizzle, unsigned promotion,
                                    unsigned fill)
{
    struct shape s = {type, rank, (uint64_t)address, sizes, strides, steps, interleave, swizzle, promotion, fill};
    if (!box || !is_valid(map, &s, 1) || !is_valid_row(&s, box[0]))
        return INVALID_VALUE;
    for (unsigned k = 0; k < rank; k++)
        if (!box[k] || box[k] > 256)
            return INVALID_VALUE;
    write_shape(map, &s);
    for (unsigned k = 0; k < rank; k++)
        ((unsigned char *)map)[55 + k] = (unsigned char)(box[k] - 1);
    return SUCCESS;
}

API error_t_ cuTensorMapEncodeIm2col(void *map, unsigned type, uint32_t rank, void *address, const uint64_t *sizes, const uint64_t *strides,
                                     const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps,
                                     unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill)
{
    static const int most[MOST_DIMENSIONS + 1] = {0, 0, 0, 32768, 128, 16};
    struct shape s = {type, rank, (uint64_t)address, sizes, strides, steps, interleave, swizzle, promotion, fill};
    if (!lower || !upper || !is_valid(map, &s, 3) || !is_valid_row(&s, channels) || !pixels || pixels > 1024)
        return INVALID_VALUE;
    unsigned first = interleave == INTERLEAVE_NONE; /* without channels, which lie in slices */
    for (unsigned k = 0; k + 2 < rank; k++)
        if (!is_valid_corner(sizes[k + first], lower[k], upper[k], most[rank]))
            return INVALID_VALUE;
    write_shape(map, &s);
    write_walk(map, MODE_IM2COL, channels, pixels, lower, upper, rank - 2);
    return SUCCESS;
}

API error_t_ cuTensorMapEncodeIm2colWide(void *map, unsigned type, uint32_t rank, void *address, const uint64_t *sizes,
                                         const uint64_t *strides, int lower, int upper, uint32_t channels, uint32_t pixels,
                                         const uint32_t *steps, unsigned interleave, unsigned mode, unsigned swizzle, unsigned promotion,
                                         unsigned fill)
{
    struct shape s = {type, rank, (uint64_t)address, sizes, strides, steps, interleave, swizzle, promotion, fill};
    bool swizzles = swizzle == SWIZZLE_64B || swizzle == SWIZZLE_128B || swizzle == ATOM_32B;
    if (!is_valid(map, &s, 3) || !is_valid_row(&s, channels) || interleave != INTERLEAVE_NONE || !swizzles || mode > WIDE_W128 ||
        (mode == WIDE_W && (!pixels || pixels > 1024)) || !is_valid_corner(sizes[1], lower, upper, 32768))
        return INVALID_VALUE;
    write_shape(map, &s);
    write_walk(map, MODE_WIDE + mode, channels, pixels, &lower, &upper, 1);
    return SUCCESS;
}

API error_t_ cuTensorMapReplaceAddress(void *map, void *address)
{
    if (!map || (uintptr_t)map % 64 || !address || (uintptr_t)address % 16)
        return INVALID_VALUE;
    memcpy(map, &address, sizeof address);
    return SUCCESS;
}
