"""What texture and surface instructions share in native code: their request, the look-up of a handle, checked memory, sectors.

These functions are compiled by Numba and called once per warp instruction with the address of a request: `REQUEST_WORDS` int64
words that the kernel's code fills (`ptx/textures.py`) and that say in `FAILURE` and the words after it how it went. Addresses are
the host's where a word is called a pointer. Texels are powers of two long and aligned, so each lies in one sector.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazy_loader as lazy
import numpy as np
from llvmlite import ir

from warpsight.base.compiled import c_function, compiled, intrinsic
from warpsight.emulator.codegen.layout import ARENA_BASE, ARENA_LIMIT
from warpsight.emulator.textures import objects as descriptors

numba = lazy.load("numba")

# Words of a request. Pointers: handles and samplers to 32 i64, coordinates to 4 x 32 i32, values to 4 x 32 i64, SITE to the bounds
# of the allocation that the instruction last hit, SECTORS to where sectors are appended.
(
    MASK, WHAT, HANDLES, SAMPLERS, COORDINATES, VALUES, DELTA, ALLOCATIONS, ALLOCATION_COUNT, TABLE, TABLE_COUNT, SITE, SECTORS,
    FAILURE, LANE, ADDRESS, COUNT, SHARING,
) = range(18)  # fmt: skip
REQUEST_WORDS = 18

# What FAILURE may hold.
FINE, OUT_OF_BOUNDS, READ_ONLY, MISALIGNED, BAD_HANDLE, WRONG_KIND, SURFACE_BOUNDS = range(7)

MAX_SECTORS = 255  # an event counts them in a byte: of 32 lanes x 8 texels that all lie apart, the last is not recorded

# The words of a descriptor and the numbers in it. Enumerations do not compile to plain numbers everywhere.
ROW_WORDS = descriptors.ROW_WORDS
(
    USE, KIND, ADDRESS_WORD, WIDTH, HEIGHT, DEPTH, LAYERS, ROW_PITCH, SLICE_PITCH, CHANNELS, CHANNEL_BITS, FORMAT, NORMALIZED_READ,
    FILTER, ADDRESS_X, ADDRESS_Y, ADDRESS_Z, NORMALIZED, HANDLE, DATA_TYPE, ORDER, BORDER,
) = (int(word) for word in descriptors.Row)  # fmt: skip
TEXTURE, SURFACE, SAMPLER = (int(use) for use in descriptors.Use)
ONE_D, TWO_D, THREE_D, LAYERED_1D, LAYERED_2D, CUBE, LAYERED_CUBE, LINEAR_MEMORY = (int(kind) for kind in descriptors.Kind)
FLOAT_FORMAT, SIGNED_FORMAT = int(descriptors.Format.FLOAT), int(descriptors.Format.SIGNED)
ONE = 0x3F800000

# Numba keeps compiled functions on disk until their own file changes. What is kept under this number, which is a constant in the
# functions that are kept, changes with each file that they are made of.
_FILES = ("textures/objects.py", "textures/texels.py", "textures/fetch.py", "textures/surfaces.py", "codegen/layout.py")
SOURCES = zlib.crc32(b"".join((Path(__file__).parents[1] / name).read_bytes() for name in _FILES))


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """An int64 as a pointer that `numba.carray` takes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], numba.core.cgutils.voidptr_t)

    return numba.types.voidptr(numba.types.int64), generate


@intrinsic
def float_of(typing_context: Any, pattern: Any) -> Any:
    """The f32 that has these 32 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.trunc(arguments[0], ir.IntType(32)), ir.FloatType())

    return numba.types.float32(numba.types.int64), generate


@intrinsic
def pattern_of(typing_context: Any, value: Any) -> Any:
    """The bits of an f32, as an int64 without sign."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.bitcast(arguments[0], ir.IntType(32)), ir.IntType(64))

    return numba.types.int64(numba.types.float32), generate


@compiled
def load(address: Any, size: Any) -> Any:
    """The 1, 2, 4 or 8 bytes at a host address, without sign (8 bytes: as they are)."""
    if size == 1:
        return numba.int64(numba.carray(pointer(address), 1, numba.uint8)[0])
    if size == 2:
        return numba.int64(numba.carray(pointer(address), 1, numba.uint16)[0])
    if size == 4:
        return numba.int64(numba.carray(pointer(address), 1, numba.uint32)[0])
    return numba.carray(pointer(address), 1, numba.int64)[0]


@compiled
def store(address: Any, size: Any, value: Any) -> Any:
    """Write the low 1, 2, 4 or 8 bytes of an int64 to a host address."""
    if size == 1:
        numba.carray(pointer(address), 1, numba.uint8)[0] = value & 0xFF
    elif size == 2:
        numba.carray(pointer(address), 1, numba.uint16)[0] = value & 0xFFFF
    elif size == 4:
        numba.carray(pointer(address), 1, numba.uint32)[0] = value & 0xFFFFFFFF
    else:
        numba.carray(pointer(address), 1, numba.int64)[0] = value


@compiled
def fail(request: Any, what: Any, lane: Any, address: Any) -> Any:
    """Say how it failed; returns `what`."""
    request[FAILURE], request[LANE], request[ADDRESS] = what, lane, address
    return what


@compiled
def allocation_of(table: Any, address: Any, size: Any) -> Any:
    """The row of the live allocation that holds `size` bytes at a device address, or -1. `table` has bounds, in ascending order."""
    low, high = numba.int64(0), len(table)
    while low < high:
        middle = (low + high) // 2
        if table[middle, 0] <= address:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low and table[low - 1, 1] - address >= size else -1


@compiled
def search(request: Any, address: Any, size: Any, writes: Any, site: Any) -> Any:
    """FINE when `size` bytes at a device address lie in one live allocation (writable for a write), whose bounds go to `site`."""
    table = numba.carray(pointer(request[ALLOCATIONS]), (request[ALLOCATION_COUNT], 3), numba.int64)
    row = allocation_of(table, address, size)
    if row < 0:
        return OUT_OF_BOUNDS
    if writes and table[row, 2] == 0:
        return READ_ONLY
    site[0], site[1] = table[row, 0], table[row, 1]
    return FINE


@compiled
def reach(request: Any, address: Any, size: Any, writes: Any) -> Any:
    """`search`, at once where the allocation is that of the instruction's last access. A site either reads or writes."""
    site = numba.carray(pointer(request[SITE]), 2, numba.int64)
    if site[0] <= address <= site[1] - size:
        return FINE
    return search(request, address, size, writes, site)


@compiled
def find(request: Any, lane: Any, word: Any) -> Any:
    """Row of the object whose handle lane `lane` has in `word` of the request, or -1.

    The address of a `.texref`, `.surfref` or `.samplerref` variable stands for the handle that the variable holds.
    """
    handle = numba.carray(pointer(request[word]), 32, numba.int64)[lane]
    if ARENA_BASE <= handle < ARENA_LIMIT and search(request, handle, 8, False, np.empty(2, np.int64)) == FINE:
        handle = load(handle + request[DELTA], 8)
    row = handle & 0xFFFFFFFF
    table = numba.carray(pointer(request[TABLE]), (request[TABLE_COUNT], ROW_WORDS), numba.int64)
    if handle <= 0 or row >= request[TABLE_COUNT] or table[row, HANDLE] != handle:
        return -1
    return row


@compiled
def refuse(request: Any, what: Any, lane: Any, word: Any) -> Any:
    """`fail` with the handle that lane `lane` has in `word` of the request."""
    return fail(request, what, lane, load(request[word] + 8 * lane, 8))


@compiled
def touch(request: Any, address: Any) -> Any:
    """Append the sector of a device address unless the request has it already."""
    sectors = numba.carray(pointer(request[SECTORS]), MAX_SECTORS, numba.uint32)
    sector, count = numba.uint32(address >> 5), request[COUNT]
    for before in range(count - 1, -1, -1):
        if sectors[before] == sector:
            return
    if count < MAX_SECTORS:
        sectors[count] = sector
        request[COUNT] = count + 1


@compiled
def widen(half: Any) -> Any:
    """The f32 pattern of an f16 pattern; exact."""
    sign, exponent, fraction = (half & 0x8000) << 16, half >> 10 & 31, half & 0x3FF
    if exponent == 31:
        return sign | 0x7F800000 | fraction << 13
    if exponent == 0:
        return sign | pattern_of(numba.float32(fraction * 2.0**-24))
    return sign | (exponent + 112) << 23 | fraction << 13


@compiled
def narrow(pattern: Any) -> Any:
    """The f16 pattern nearest to an f32 pattern, ties to even; NaN gives 0x7fff."""
    sign, magnitude = pattern >> 16 & 0x8000, pattern & 0x7FFFFFFF
    if magnitude > 0x7F800000:
        return numba.int64(0x7FFF)
    if magnitude >= 0x477FF000:  # 65520 and above round to infinity
        return sign | 0x7C00
    if magnitude < 0x38800000:  # below 2^-14: units of 2^-24
        units = numba.float64(float_of(magnitude)) * 2.0**24
        whole = numba.int64(units)
        rest = units - whole
        if rest > 0.5 or (rest == 0.5 and whole & 1):
            whole += 1
        return sign | whole
    rebased = magnitude - (112 << 23)
    return sign | (rebased + 0xFFF + (rebased >> 13 & 1)) >> 13


def warp_function(function: Callable[[Any], None]) -> Any:
    """A function of the address of a request, for one warp instruction, as a C function: `address` is what native code calls."""
    return c_function(function, numba.types.void(numba.types.voidptr), nogil=True, error_model="numpy")
