"""The copy engine for tensors (TMA): moves a box of a tensor between device and shared memory, as a tensor map describes it.

A function that Numba compiled does one copy; a request, an array of int64 words, says what it has to do. A tensor map is 128 bytes.
Its first 64 lie as NVIDIA's assembler writes them for `tensormap.replace`, so that both levels agree:

| bytes | holds |
|---|---|
| 0-7 | the tensor's device address |
| 8-11 | bits 4-6 rank less 1, 7-10 element type (`ELEMENTS`), 11-12 interleave, 13-14 and 22-23 swizzle, 15 fill |
| 12-31 | four strides in units of 16 bytes: 32 bits each, then 4 upper bits each |
| 32-51 | five sizes, each less 1 |
| 52-59 | 3 bits for each of five steps, less 1; from byte 55 on five sizes of the box, less 1 |
| 64 | 0: a box (`tile`); 1: `im2col`, for which 65 has channels of a pixel less 1, 66-67 pixels, 68-79 the corners of its box |

Swizzles exchange 16-byte pieces by bits of their address in shared memory. What lies outside of the tensor is filled with zeros, or
where the map says so with NaN, and is not written.
"""

from __future__ import annotations

import math
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import lazy_loader as lazy
import numpy as np

from warpsight.base.compiled import compiled
from warpsight.emulator.codegen.layout import Fault
from warpsight.emulator.textures import texels
from warpsight.emulator.textures.texels import allocation_of, float_of, load, narrow, pattern_of, pointer, store, widen

numba = lazy.load("numba")

# Words of a request. HOSTS points to host addresses of the shared memory of the blocks that a load reaches, of which the first is
# the block's own for all else; BASE is the offset there and LIMIT its size. SHADOWS: distances to the shadows of device and shared
# memory, 0 without. PLAN asks only for BYTES, which complete on the mbarrier (of packed elements without the gaps that they get),
# and ROOM, the most sectors that it touches.
(WHAT, MAP, DELTA, ALLOCATIONS, ALLOCATION_COUNT, SECTORS, HOSTS, HOST_COUNT, BASE, LIMIT, RANK) = range(11)
COORDINATES, OFFSETS, SHADOWS = 11, 16, 19
FAILURE, ADDRESS, BYTES, COUNT, ROOM = range(21, 26)
NAMED = 26  # the map's address as the program has it
REQUEST_WORDS = 27

# WHAT: an operation, a mode, and what a reduction does.
PLAN, LOAD, STORE, REDUCE = range(4)
TILE, IM2COL, ROWS = range(3)  # ROWS: four rows of a tensor of two dimensions, each with a coordinate of its own, and a map of TILE
MODE_SHIFT, REDUCTION_SHIFT = 4, 8
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
ADD, MIN, MAX, INC, DEC, AND, OR, XOR = range(8)

# Element types by their number in a map, as `tensormap.replace` numbers them.
ELEMENTS = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz", "b4x16",
            "b4x16_p64", "b6x16_p32")  # fmt: skip
F16, F32, F32_FTZ, F64, BF16, TF32, TF32_FTZ = 6, 7, 8, 9, 10, 11, 12
SIGNED = (3, 5)
# Of 16 elements, the bytes in device memory and those in shared memory.
_DEVICE_BYTES = np.array([16, 32, 64, 64, 128, 128, 32, 64, 64, 128, 32, 64, 64, 8, 8, 12], np.int64)
_SHARED_BYTES = np.array([16, 32, 64, 64, 128, 128, 32, 64, 64, 128, 32, 64, 64, 8, 16, 16], np.int64)

_BAD_MAP, _OUTSIDE, _READ_ONLY, _MISALIGNED, _SHARED, _UNMODELLED = (
    int(f) for f in (
        Fault.TENSOR_MAP, Fault.OUT_OF_BOUNDS, Fault.READ_ONLY, Fault.MISALIGNED, Fault.SHARED_BOUNDS, Fault.TENSOR_FORM,
    )
)  # fmt: skip
_ALIGN = 128  # of the box in shared memory
_MOST_HOSTS = 16


@compiled
def _byte(place: Any, k: Any) -> Any:
    return load(place + k, 1) & 0xFF


@compiled
def _word(place: Any, k: Any) -> Any:
    return load(place + k, 4) & 0xFFFFFFFF


@compiled
def _signed(place: Any, k: Any) -> Any:
    value = load(place + k, 2) & 0xFFFF
    return value - 0x10000 if value & 0x8000 else value


@compiled
def _fail(request: Any, kind: Any, address: Any) -> Any:
    request[FAILURE], request[ADDRESS] = kind, address
    return False


@compiled
def _mode(request: Any) -> Any:
    return request[WHAT] >> MODE_SHIFT & 15


@compiled
def _decode(request: Any, form: Any, sizes: Any, strides: Any, box: Any, steps: Any) -> Any:
    """Read the map: `form` gets type, swizzle, fill, mode, address (and later what fills). False where it is none, or another than
    the instruction needs.
    """
    place, rank = request[MAP], request[RANK]
    word = _word(place, 8)
    form[0], form[1], form[2] = word >> 7 & 15, word >> 13 & 3 | (word >> 22 & 3) << 2, word >> 15 & 1
    form[3], form[4] = _byte(place, 64), load(place, 8)
    if word >> 11 & 3:
        return _fail(request, _UNMODELLED, request[NAMED])
    if (word >> 4 & 7) + 1 != rank or form[3] != (_mode(request) if _mode(request) != ROWS else TILE) or form[4] & 15:
        return _fail(request, _BAD_MAP, request[NAMED])
    for d in range(5):
        sizes[d] = _word(place, 32 + 4 * d) + 1
        steps[d] = (_word(place, 52) >> 3 * d & 7) + 1 if d else 1
        box[d] = _byte(place, 55 + d) + 1
        strides[d] = 0 if d == 0 else (_word(place, 8 + 4 * d) | (_word(place, 28) >> 4 * (d - 1) & 15) << 32) << 4
    return True if _mode(request) != ROWS or box[1] == 1 else _fail(request, _UNMODELLED, request[NAMED])


@compiled
def _swizzled(address: Any, kind: Any) -> Any:
    """Where a byte of shared memory lies with a swizzle: pieces of 16 bytes change places within 32, 64 or 128, or larger ones."""
    if kind == 0:
        return address
    if kind == 1:
        return address ^ (address >> 3 & 0x10)
    if kind == 2:
        return address ^ (address >> 3 & 0x30)
    if kind == 3:
        return address ^ (address >> 3 & 0x70)
    if kind == 7:  # pieces of 32 bytes
        return address ^ (address >> 2 & 0x60)
    if kind == 11:  # the same, and halves of 16 bytes in every other row
        return address ^ (address >> 2 & 0x60) ^ (address >> 4 & 0x08)
    return address ^ (address >> 1 & 0x40)  # pieces of 64 bytes


@compiled
def _device(request: Any, address: Any, size: Any, writes: Any) -> Any:
    """Whether bytes of device memory lie in one live allocation; the failure is noted."""
    table = numba.carray(pointer(request[ALLOCATIONS]), (request[ALLOCATION_COUNT], 3), numba.int64)
    row = allocation_of(table, address, size)
    if row < 0:
        return _fail(request, _OUTSIDE, address)
    if writes and table[row, 2] == 0:
        return _fail(request, _READ_ONLY, address)
    return True


@compiled
def _touch(request: Any, seen: Any, address: Any, size: Any) -> Any:
    """Append the sectors of a run that were not touched before; `seen` is a table of those by their number."""
    sectors = numba.carray(pointer(request[SECTORS]), request[ROOM], numba.uint32)
    for sector in range(address >> 5, (address + size + 31) >> 5):
        place = (sector * 0x9E3779B1 >> 7) % len(seen)
        while seen[place] != -1 and seen[place] != sector:
            place = (place + 1) % len(seen)
        if seen[place] == -1:
            seen[place] = sector
            sectors[request[COUNT]] = sector & 0xFFFFFFFF
            request[COUNT] += 1


@compiled
def _reduced_half(kind: Any, operation: Any, old: Any, new: Any) -> Any:
    """The same of halves: the number wins over a NaN."""
    x = float_of(widen(old & 0xFFFF) if kind == F16 else (old & 0xFFFF) << 16)
    y = float_of(widen(new & 0xFFFF) if kind == F16 else (new & 0xFFFF) << 16)
    if operation == ADD:
        total = pattern_of(numba.float32(x + y)) & 0xFFFFFFFF
        if kind == F16:
            return narrow(total)
        if total & 0x7FFFFFFF > 0x7F800000:
            return numba.int64(0x7FFF)
        return (total + 0x7FFF + (total >> 16 & 1)) >> 16
    if math.isnan(x) or math.isnan(y):
        return new if math.isnan(x) else old
    return old if (x < y) == (operation == MIN) else new


@compiled
def _reduced(kind: Any, operation: Any, size: Any, old: Any, new: Any) -> Any:
    """What a reduction of two patterns leaves. Float sums round to nearest even, those of f32 as the type says flush denormals."""
    if operation == AND:
        return old & new
    if operation == OR:
        return old | new
    if operation == XOR:
        return old ^ new
    if kind in (F16, BF16):
        return _reduced_half(kind, operation, old, new)
    if kind in (F32, F32_FTZ, TF32, TF32_FTZ):
        flush = kind in (F32_FTZ, TF32_FTZ)
        total = pattern_of(numba.float32(float_of(_flushed(old, flush)) + float_of(_flushed(new, flush)))) & 0xFFFFFFFF
        return numba.int64(0x7FFFFFFF) if total & 0x7FFFFFFF > 0x7F800000 else _flushed(total, flush)
    if operation == ADD:
        return old + new
    mask = numba.int64(-1) if size == 8 else (numba.int64(1) << 8 * size) - 1
    if operation == INC:
        return numba.int64(0) if old & mask >= new & mask else old + 1
    if operation == DEC:
        return new if old & mask == 0 or old & mask > new & mask else old - 1
    top = numba.int64(1) << 8 * size - 1
    # Without a sign the upper half comes last: the top bit is turned over to compare.
    left, right = (old & mask) ^ top, (new & mask) ^ top
    if kind in SIGNED:
        left, right = left ^ top, right ^ top
    left, right = left << 64 - 8 * size, right << 64 - 8 * size
    return old if (left < right) == (operation == MIN) else new


@compiled
def _flushed(pattern: Any, flush: Any) -> Any:
    return pattern & 0x80000000 if flush and pattern & 0x7F800000 == 0 else pattern & 0xFFFFFFFF


@compiled
def _double(operation: Any, place: Any, other: Any) -> Any:
    there, here = numba.carray(pointer(place), 1, numba.float64), numba.carray(pointer(other), 1, numba.float64)
    if operation == ADD:
        there[0] += here[0]


@compiled
def _reached(request: Any, seen: Any, address: Any, size: Any) -> Any:
    if not _device(request, address, size, request[WHAT] & 15 != LOAD):
        return False
    _touch(request, seen, address, size)
    return True


@compiled
def _run(request: Any, hosts: Any, seen: Any, form: Any, start: Any, count: Any, inside: Any, row: Any, length: Any) -> Any:
    """Move `count` groups of elements from `row` bytes into the box on: those from `inside[0]` to `inside[1]` lie in the tensor, at
    the device address `start`. `length` are the bytes of a group in device and in shared memory.
    """
    what, limit = request[WHAT] & 15, request[LIMIT]
    first, last = inside[0], inside[1]
    if first < last and not _reached(request, seen, start + first * length[0], (last - first) * length[0]):
        return False
    if (request[BASE] + row + count * length[1] + 127) // 128 * 128 > (limit + 127) // 128 * 128:
        return _fail(request, _SHARED, request[BASE] + row + count * length[1] - 1)
    device, end = request[DELTA] + start, count * length[1]
    if what == REDUCE:
        for group in range(first, last):
            _reduce(request, hosts, form, device + group * length[0], row + group * length[1], length[0])
        return True
    watched, place = request[SHADOWS] | request[SHADOWS + 1], request[BASE] + row
    if first == 0 and last == count and not watched and length[0] == length[1] and (place | end) % 16 == 0 and form[1] != 11:
        _whole(request, hosts, form[1], what == LOAD, device, place, end)
        return True
    position = numba.int64(0)
    while position < end:
        unit = _unit(position, end, inside, length)
        group, gap = position // length[1], position % length[1] >= length[0]
        there = first <= group < last and not gap
        source = device + group * length[0] + position % length[1]
        place = _swizzled(request[BASE] + row + position, form[1])
        if what == LOAD:
            written = load(source + request[SHADOWS], unit) if there and request[SHADOWS] else numba.int64(-1)
            _put(request, hosts, place, unit, load(source, unit) if there else numba.int64(0) if gap else form[5], written)
        elif there:
            store(source, unit, load(hosts[0] + place, unit))
            if request[SHADOWS]:
                store(source + request[SHADOWS], unit, load(hosts[0] + place + request[SHADOWS + 1], unit))
        position += unit
    return True


@compiled
def _whole(request: Any, hosts: Any, swizzle: Any, loads: Any, device: Any, start: Any, size: Any) -> Any:
    """A run that lies in the tensor as a whole, in pieces of 16 bytes, which no swizzle parts but that of halves."""
    there = numba.carray(pointer(device), size // 8, numba.int64)
    for k in range(request[HOST_COUNT] if loads else 1):
        here = numba.carray(pointer(hosts[k]), (start + size) // 8 + 16, numba.int64)
        for piece in range(size // 16):
            place = _swizzled(start + 16 * piece, swizzle) // 8
            if loads:
                here[place], here[place + 1] = there[2 * piece], there[2 * piece + 1]
            else:
                there[2 * piece], there[2 * piece + 1] = here[place], here[place + 1]


@compiled
def _unit(position: Any, end: Any, inside: Any, length: Any) -> Any:
    """How many bytes to move at once: 8, which lie together in any swizzle, unless their elements part there."""
    if length[0] != length[1]:  # 16 elements, then a gap
        return numba.int64(4) if position % length[1] < length[0] else length[1] - length[0]
    if position % 8 or position + 8 > end:
        return length[1]
    first, last = position // length[1], (position + 7) // length[1]
    return length[1] if (inside[0] <= first < inside[1]) != (inside[0] <= last < inside[1]) else numba.int64(8)


@compiled
def _put(request: Any, hosts: Any, place: Any, unit: Any, value: Any, written: Any) -> Any:
    """Store in the shared memory of each block that the copy reaches, and what is written in its shadow."""
    for k in range(request[HOST_COUNT]):
        store(hosts[k] + place, unit, value)
        if request[SHADOWS + 1]:
            store(hosts[k] + place + request[SHADOWS + 1], unit, written)


@compiled
def _reduce(request: Any, hosts: Any, form: Any, device: Any, row: Any, size: Any) -> Any:
    """An element of shared memory into device memory. No swizzle parts the bytes of an element."""
    operation, place = request[WHAT] >> REDUCTION_SHIFT, hosts[0] + _swizzled(request[BASE] + row, form[1])
    if form[0] == F64:
        _double(operation, device, place)
    else:
        store(device, size, _reduced(form[0], operation, size, load(device, size), load(place, size)))


@compiled
def _tile(request: Any, hosts: Any, seen: Any, form: Any, geometry: Any, counts: Any, length: Any) -> Any:
    """A box, or rows: dimension by dimension, the first one in runs."""
    sizes, strides, steps, rows = geometry[0], geometry[1], geometry[3], _mode(request) == ROWS
    at = request[COORDINATES : COORDINATES + 5]
    rank, row, inside = request[RANK], numba.int64(0), np.zeros(2, np.int64)
    index = np.zeros(5, np.int64)
    while True:
        address, within = form[4] + at[0] // length[2] * length[0], True
        for d in range(1, rank):
            coordinate = at[d + index[d]] if rows else at[d] + index[d] * steps[d]
            within &= 0 <= coordinate < sizes[d]
            address += coordinate * strides[d]
        groups = counts[0]
        if within:
            inside[0] = min(max(-at[0] // length[2], 0), groups)
            inside[1] = min(max((sizes[0] - at[0]) // length[2], 0), groups)
        else:
            inside[0] = inside[1] = 0
        if not _run(request, hosts, seen, form, address, groups, inside, row, length):
            return False
        row += groups * length[1]
        d = 1
        while d < rank:
            index[d] += 1
            if index[d] < counts[d]:
                break
            index[d] = 0
            d += 1
        if d >= rank:
            return True


@compiled
def _im2col(request: Any, hosts: Any, seen: Any, form: Any, geometry: Any, counts: Any, length: Any) -> Any:
    """Pixels in the order of their image, within a box whose corners the map has; offsets move what is read, not the box."""
    sizes, strides, steps = geometry[0], geometry[1], geometry[3]
    rank, place, inside = request[RANK], request[MAP], np.zeros(2, np.int64)
    at = request[COORDINATES : COORDINATES + 5].copy()
    for pixel in range(counts[1]):
        address, within = form[4] + at[0] // length[2] * length[0], True
        for d in range(1, rank):
            coordinate = at[d] + (request[OFFSETS + d - 1] if d < rank - 1 else 0)
            within &= 0 <= coordinate < sizes[d]
            address += coordinate * strides[d]
        inside[0] = min(max(-at[0] // length[2], 0), counts[0]) if within else 0
        inside[1] = min(max((sizes[0] - at[0]) // length[2], 0), counts[0]) if within else 0
        if not _run(request, hosts, seen, form, address, counts[0], inside, pixel * counts[0] * length[1], length):
            return False
        d = 1
        while d < rank:
            at[d] += steps[d] if d < rank - 1 else 1
            if d == rank - 1 or at[d] <= sizes[d] - 1 + _signed(place, 72 + 2 * d):
                break
            at[d] = _signed(place, 66 + 2 * d)
            d += 1
    return True


@cache
def engine_function(sources: int = zlib.crc32(Path(__file__).read_bytes()) ^ texels.SOURCES) -> Any:
    """The C function. `sources` is a constant in it, so that a copy on disk is used for these sources only."""

    def copy_tensor(place):  # type: ignore[no-untyped-def]
        """One copy, or with PLAN only its size."""
        if sources < 0:
            return
        request = numba.carray(place, REQUEST_WORDS, numba.int64)
        hosts = numba.carray(pointer(request[HOSTS]), _MOST_HOSTS, numba.int64)
        form, geometry = np.zeros(6, np.int64), np.zeros((4, 5), np.int64)
        request[FAILURE] = request[ADDRESS] = request[COUNT] = 0
        if not _decode(request, form, geometry[0], geometry[1], geometry[2], geometry[3]):
            return
        rank, im2col = request[RANK], form[3] == IM2COL
        counts, length, steps = np.ones(5, np.int64), np.zeros(3, np.int64), geometry[3]
        if form[2]:  # a NaN in each element: all ones but for the sign
            bits = _DEVICE_BYTES[form[0]] // 2
            form[5] = 0x7FFF7FFF7FFF7FFF if bits == 16 else 0x7FFFFFFF7FFFFFFF if bits == 32 else 0x7FFFFFFFFFFFFFFF
        # In which units elements are moved: one by one, packed ones by 16.
        length[2] = 16 if form[0] > TF32_FTZ else 1
        length[0], length[1] = _DEVICE_BYTES[form[0]] * length[2] // 16, _SHARED_BYTES[form[0]] * length[2] // 16
        if im2col:
            counts[0] = (_byte(request[MAP], 65) + 1) // length[2]
            counts[1] = load(request[MAP] + 66, 2) & 0xFFFF
        else:
            counts[0] = geometry[2, 0] // length[2]
            for d in range(1, rank):
                counts[d] = 4 if _mode(request) == ROWS else (geometry[2, d] + steps[d] - 1) // steps[d]
        rows = counts[1] * counts[2] * counts[3] * counts[4]
        if request[WHAT] & 15 == PLAN:
            request[BYTES] = rows * counts[0] * length[0]
            request[ROOM] = rows * (counts[0] * length[0] // 32 + 2)
            return
        if request[BASE] % _ALIGN:
            _fail(request, _MISALIGNED, request[BASE])
            return
        size = 64
        while size < 2 * request[ROOM]:
            size *= 2
        seen = np.full(size, -1, np.int64)
        if im2col:
            _im2col(request, hosts, seen, form, geometry, counts, length)
        else:
            _tile(request, hosts, seen, form, geometry, counts, length)

    return texels.warp_function(copy_tensor)
