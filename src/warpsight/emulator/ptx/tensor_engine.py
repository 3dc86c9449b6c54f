"""The copy engine for tensors (TMA): moves a box of a tensor between device and shared memory, as a tensor map describes it.

A function that Numba compiled does one copy; a request, an array of int64 words, says what it has to do. A tensor map is 128 bytes.
Its first 64 lie as NVIDIA's assembler writes them for `tensormap.replace`, so that both levels agree:

| bytes | holds |
|---|---|
| 0-7 | the tensor's device address |
| 8-11 | bits 4-6 rank less 1, 7-10 and 16 element type, 11-12 interleave (16 or 32 bytes), 13-14 and 22-23 swizzle, 15 fill |
| 12-31 | four strides in units of 16 bytes: 32 bits each, then 4 upper bits each |
| 32-51 | five sizes, each less 1 |
| 52-59 | 3 bits for each of five steps, less 1; from byte 55 on five sizes of the box, less 1 |
| 64-79 | a mode: `IM2COL`, `WIDE` (`im2col::w`), `WIDE128`; of pixels 65 channels less 1, 66-67 how many, 68-79 corners |
| 80-83 | "WALK" where 64-79 hold that, else the mode is `TILE`: programs that write maps themselves write the first 64 bytes |

Swizzles exchange 16-byte pieces by bits of their address in shared memory. What lies outside of the tensor is filled with zeros, or
where the map says so with NaN, and is not written. Loads round `tf32` to nearest even.

An interleaved tensor (NC/8HWC8) consists of slices of 16 or 32 bytes: dimension 0 counts them along W, the last but one has the
slices of channels, of which a copy has one, and the last one images.

The PTX ISA (5.5, "Tensors") and the CUDA Driver API say all this but the NaN, the rounding, the dimensions of an interleaved
tensor, and where the halo of `im2col::w::128` lies. These are as in the simulator of mlc-ai's TIRx-harness, written for the B200.
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
# and ROOM, the most sectors that it touches. Where RUNS is not 0, it points to room for as many runs of device memory, of which the
# copy says the addresses and sizes, and RUN_COUNT how many. WITHIN: 1 if all must lie in the allocation where the tensor begins.
(WHAT, MAP, DELTA, ALLOCATIONS, ALLOCATION_COUNT, SECTORS, HOSTS, HOST_COUNT, BASE, LIMIT, RANK) = range(11)
COORDINATES, OFFSETS, SHADOWS = 11, 16, 19
FAILURE, ADDRESS, BYTES, COUNT, ROOM = range(21, 26)
NAMED = 26  # the map's address as the program has it
RUNS, RUN_COUNT, WITHIN = 27, 28, 29
REQUEST_WORDS = 30

# WHAT: an operation, a mode, and what a reduction does. OFFSETS are those of a pixel's neighbour, or of WIDE the pixels of the halo
# and how far all are moved. ROWS: four rows of a tensor of two dimensions, each with a coordinate of its own, and a map of TILE.
PLAN, LOAD, STORE, REDUCE = range(4)
TILE, IM2COL, ROWS, WIDE, WIDE128 = range(5)
MODE_SHIFT, REDUCTION_SHIFT = 4, 8
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
ADD, MIN, MAX, INC, DEC, AND, OR, XOR = range(8)

# Element types as `tensormap.replace` numbers them. A map has those up to bf16 as they are, tf32 as f32 with bit 16: `_TYPES`.
ELEMENTS = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz", "b4x16",
            "b4x16_p64", "b6x16_p32")  # fmt: skip
F16, F32, F32_FTZ, F64, BF16, TF32, TF32_FTZ, B4 = 6, 7, 8, 9, 10, 11, 12, 13
SIGNED = (3, 5)
_TYPES = np.array([*range(TF32), 13, 14, 15, *[-1] * 9, TF32, TF32_FTZ, *[-1] * 7], np.int64)  # by bits 7-10, and 16 as the fifth
# Of 16 elements, the bytes in device memory and those in shared memory.
_DEVICE_BYTES = np.array([16, 32, 64, 64, 128, 128, 32, 64, 64, 128, 32, 64, 64, 8, 8, 12], np.int64)
_SHARED_BYTES = np.array([16, 32, 64, 64, 128, 128, 32, 64, 64, 128, 32, 64, 64, 8, 16, 16], np.int64)

_BAD_MAP, _OUTSIDE, _READ_ONLY, _MISALIGNED, _SHARED, _UNMODELLED, _ELSEWHERE = FAILURES = tuple(int(f) for f in (
    Fault.TENSOR_MAP, Fault.OUT_OF_BOUNDS, Fault.READ_ONLY, Fault.MISALIGNED, Fault.SHARED_BOUNDS, Fault.TENSOR_FORM,
    Fault.TENSOR_RANGE,
))  # fmt: skip
_ALIGN, _WALKS = 128, int.from_bytes(b"WALK", "little")  # of the box in shared memory; behind a walk
_NAN = 0x7FF77FF77FF77FF7  # outside of a tensor of floats of any size
_CHUNK = 32  # pixels of WIDE128 after which a halo is loaded, four times
# FORM: type, swizzle, fill, mode, address, what fills, bytes of an interleaved slice or 0.
_FORM_WORDS, _MOST_HOSTS = 7, 16


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
    """Read the map into `form` (`FORM`). False where it is none, or another than the instruction needs."""
    place, rank, mode = request[MAP], request[RANK], _mode(request)
    word = _word(place, 8)
    form[0], form[1] = _TYPES[word >> 7 & 15 | (word >> 16 & 1) << 4], word >> 13 & 3 | (word >> 22 & 3) << 2
    form[3], form[4] = _byte(place, 64) if _word(place, 80) == _WALKS else TILE, load(place, 8)
    form[2], form[5], form[6] = word >> 15 & 1, _NAN if word >> 15 & 1 else 0, (word >> 11 & 3) << 4
    fits = form[3] == mode or (mode == ROWS and form[3] == TILE) or (mode == WIDE128 and form[3] == WIDE)
    if (word >> 4 & 7) + 1 != rank or not fits or form[0] < 0 or form[4] & 15 or form[6] > 32 or (form[6] and rank < 3):
        return _fail(request, _BAD_MAP, request[NAMED])
    for d in range(5):
        sizes[d] = _word(place, 32 + 4 * d) + 1
        steps[d] = (_word(place, 52) >> 3 * d & 7) + 1 if d or form[6] else 1
        box[d] = _byte(place, 55 + d) + 1
        strides[d] = form[6] if d == 0 else (_word(place, 8 + 4 * d) | (_word(place, 28) >> 4 * (d - 1) & 15) << 32) << 4
    if mode == ROWS and box[1] > 1:
        return _fail(request, _UNMODELLED, request[NAMED])
    known = form[1] == form[6] // 32 and form[0] <= B4 and (mode == IM2COL or (mode == TILE and box[rank - 2] == 1))
    return True if form[6] == 0 or known else _fail(request, _UNMODELLED, request[NAMED])


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
def _reached(request: Any, seen: Any, form: Any, address: Any, size: Any) -> Any:
    """Whether bytes of device memory lie in one live allocation; the failure is noted, or what they touch."""
    table = numba.carray(pointer(request[ALLOCATIONS]), (request[ALLOCATION_COUNT], 3), numba.int64)
    row = allocation_of(table, address, size)
    if row < 0:
        return _fail(request, _OUTSIDE, address)
    if request[WHAT] & 15 != LOAD and table[row, 2] == 0:
        return _fail(request, _READ_ONLY, address)
    if request[WITHIN] and row != allocation_of(table, form[4], 1) >= 0:
        return _fail(request, _ELSEWHERE, address)
    _touch(request, seen, address, size)
    if request[RUNS]:
        runs = numba.carray(pointer(request[RUNS]), (request[ROOM], 2), numba.int64)
        runs[request[RUN_COUNT], 0], runs[request[RUN_COUNT], 1] = address, size
        request[RUN_COUNT] += 1
    return True


@compiled
def _run(request: Any, hosts: Any, seen: Any, form: Any, start: Any, count: Any, inside: Any, row: Any, length: Any) -> Any:
    """Move `count` groups of elements from `row` bytes into the box on: those from `inside[0]` to `inside[1]` lie in the tensor, at
    the device address `start`. `length` are the bytes of a group in device and in shared memory.
    """
    what, limit = request[WHAT] & 15, request[LIMIT]
    first, last = inside[0], inside[1]
    if first < last and not _reached(request, seen, form, start + first * length[0], (last - first) * length[0]):
        return False
    if (request[BASE] + row + count * length[1] + 127) // 128 * 128 > (limit + 127) // 128 * 128:
        return _fail(request, _SHARED, request[BASE] + row + count * length[1] - 1)
    device, end = request[DELTA] + start, count * length[1]
    if what == REDUCE:
        size = _DEVICE_BYTES[form[0]] // 16
        for at in range(first * length[0], last * length[0], size):  # no packed elements, so the same bytes in both
            _reduce(request, hosts, form, device + at, row + at, size)
        return True
    watched, place = request[SHADOWS] | request[SHADOWS + 1], request[BASE] + row
    if first == 0 and last == count and not watched and length[0] == length[1] and (place | end) % 16 == 0 and form[1] != 11:
        _whole(request, hosts, form, what == LOAD, device, place, end)
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
            value = _loaded(form, load(source, unit)) if there else numba.int64(0) if gap else form[5]
            _put(request, hosts, place, unit, value, written)
        elif there:
            store(source, unit, load(hosts[0] + place, unit))
            if request[SHADOWS]:
                store(source + request[SHADOWS], unit, load(hosts[0] + place + request[SHADOWS + 1], unit))
        position += unit
    return True


@compiled
def _loaded(form: Any, value: Any) -> Any:
    """Up to two elements as a load leaves them in shared memory: those of tf32 have ten bits behind the point."""
    if form[0] != TF32 and form[0] != TF32_FTZ:
        return value
    return _rounded(value & 0xFFFFFFFF) | _rounded(value >> 32 & 0xFFFFFFFF) << 32


@compiled
def _rounded(pattern: Any) -> Any:
    if pattern & 0x7F800000 == 0x7F800000:
        return pattern if pattern & 0x7FFFFF == 0 else numba.int64(0x7FFFE000)
    return pattern + 0xFFF + (pattern >> 13 & 1) & 0xFFFFE000


@compiled
def _whole(request: Any, hosts: Any, form: Any, loads: Any, device: Any, start: Any, size: Any) -> Any:
    """A run that lies in the tensor as a whole, in pieces of 16 bytes, which no swizzle parts but that of halves."""
    there = numba.carray(pointer(device), size // 8, numba.int64)
    for k in range(request[HOST_COUNT] if loads else 1):
        here = numba.carray(pointer(hosts[k]), (start + size) // 8 + 16, numba.int64)
        for piece in range(size // 16):
            place = _swizzled(start + 16 * piece, form[1]) // 8
            if loads:
                here[place], here[place + 1] = _loaded(form, there[2 * piece]), _loaded(form, there[2 * piece + 1])
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
    """A box, or rows: dimension by dimension, the first one in runs of neighbours."""
    sizes, strides, steps, rows = geometry[0], geometry[1], geometry[3], _mode(request) == ROWS
    at = request[COORDINATES : COORDINATES + 5]
    rank, row, inside = request[RANK], numba.int64(0), np.zeros(2, np.int64)
    index = np.zeros(5, np.int64)
    runs = counts[0] if steps[0] > 1 else 1
    groups = counts[0] // runs
    while True:
        address, within = form[4] + at[0] // length[2] * length[0], True
        for d in range(1, rank):
            coordinate = at[d + index[d]] if rows else at[d] + index[d] * steps[d]
            within &= 0 <= coordinate < sizes[d]
            address += coordinate * strides[d]
        for run in range(runs):
            x = at[0] + run * steps[0]
            inside[0] = min(max(-x // length[2], 0), groups) if within else 0
            inside[1] = min(max((sizes[0] - x) // length[2], 0), groups) if within else 0
            if not _run(request, hosts, seen, form, address + run * steps[0] * length[0], groups, inside, row, length):
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
    """Pixels in the order of their image, within a box whose corners the map has. A halo is what follows in that order: behind all
    pixels, first that of each chunk's first pixel, then of the second.
    """
    halo, chunks, moved = _halo(request)
    first, pixels = numba.int64(form[6] == 0), counts[1] - chunks * halo
    at, beside = request[COORDINATES : COORDINATES + 5].copy(), np.zeros(5, np.int64)
    at[first] += moved
    for pixel in range(pixels):
        if not _pixel(request, hosts, seen, form, geometry, counts, length, at, pixel):
            return False
        _advance(request, geometry, at, first, moved)
        if halo and (pixel + 1) % (pixels // chunks) == 0:
            beside[:] = at
            for k in range(halo):
                place = pixels + k * chunks + pixel // (pixels // chunks)
                if not _pixel(request, hosts, seen, form, geometry, counts, length, beside, place):
                    return False
                _advance(request, geometry, beside, first, moved)
    return True


@compiled
def _halo(request: Any) -> Any:
    """How many pixels a halo has, how many halos there are, and how far along W all pixels are moved."""
    mode = _mode(request)
    if mode < WIDE:
        return numba.int64(0), numba.int64(1), numba.int64(0)
    return request[OFFSETS], numba.int64(4 if mode == WIDE128 else 1), request[OFFSETS + 1]


@compiled
def _advance(request: Any, geometry: Any, at: Any, first: Any, moved: Any) -> Any:
    """To the next pixel: along W, then, unless the copy stays in one row of each image, along H and D; then in the next image."""
    sizes, steps, place, rank = geometry[0], geometry[3], request[MAP], request[RANK]
    for k in range(rank - 2 if _mode(request) < WIDE else 1):
        d = first + k
        at[d] += steps[d]
        if at[d] <= sizes[d] - 1 + _signed(place, 74 + 2 * k) + moved:
            return
        at[d] = _signed(place, 68 + 2 * k) + moved
    at[rank - 1] += 1


@compiled
def _pixel(
    request: Any, hosts: Any, seen: Any, form: Any, geometry: Any, counts: Any, length: Any, at: Any, number: Any
) -> Any:
    """The channels of a pixel, or the one slice of them, beside which the copy reads. It is the `number`-th in the box."""
    sizes, strides, rank = geometry[0], geometry[1], request[RANK]
    sliced, beside, inside = numba.int64(form[6] > 0), _mode(request) < WIDE, np.zeros(2, np.int64)
    address, within = form[4] if sliced else form[4] + at[0] // length[2] * length[0], True
    for d in range(1 - sliced, rank):
        k = d - 1 + sliced
        coordinate = at[d] + (request[OFFSETS + k] if beside and k < rank - 2 else 0)
        within &= 0 <= coordinate < sizes[d]
        address += coordinate * strides[d]
    if within and sliced:
        inside[1] = 1
    elif within:
        inside[0] = min(max(-at[0] // length[2], 0), counts[0])
        inside[1] = min(max((sizes[0] - at[0]) // length[2], 0), counts[0])
    return _run(request, hosts, seen, form, address, counts[0], inside, number * counts[0] * length[1], length)


@compiled
def _measure(request: Any, form: Any, geometry: Any, counts: Any, length: Any) -> Any:
    """How many groups of elements a row has, and rows there are; and of a group the bytes in device memory, those in shared memory,
    and the elements: one, 16 packed ones, or a slice. False where the halo is too large.
    """
    steps, place = geometry[3], request[MAP]
    length[2] = 16 if form[0] > TF32_FTZ and not form[6] else 1
    length[0] = form[6] if form[6] else _DEVICE_BYTES[form[0]] * length[2] // 16
    length[1] = form[6] if form[6] else _SHARED_BYTES[form[0]] * length[2] // 16
    mode = _mode(request)
    if mode in (TILE, ROWS):
        counts[0] = geometry[2, 0] // length[2] if steps[0] == 1 else (geometry[2, 0] + steps[0] - 1) // steps[0]
        for d in range(1, request[RANK]):
            counts[d] = 4 if mode == ROWS else (geometry[2, d] + steps[d] - 1) // steps[d]
        return True
    halo, chunks, moved = _halo(request)
    if halo >= (_CHUNK if mode == WIDE128 else 512) or moved >= 32:
        return _fail(request, _UNMODELLED, request[NAMED])
    counts[0] = 1 if form[6] else (_byte(place, 65) + 1) // length[2]
    counts[1] = (4 * _CHUNK if mode == WIDE128 else load(place + 66, 2) & 0xFFFF) + chunks * halo
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
        form, geometry = np.zeros(_FORM_WORDS, np.int64), np.zeros((4, 5), np.int64)
        counts, length = np.ones(5, np.int64), np.zeros(3, np.int64)
        request[FAILURE] = request[ADDRESS] = request[COUNT] = request[RUN_COUNT] = 0
        if not _decode(request, form, geometry[0], geometry[1], geometry[2], geometry[3]):
            return
        if not _measure(request, form, geometry, counts, length):
            return
        rows = counts[1] * counts[2] * counts[3] * counts[4]
        if request[WHAT] & 15 == PLAN:
            request[BYTES] = rows * counts[0] * length[0]
            request[ROOM] = rows * (counts[0] * length[0] // 32 + 2 if geometry[3, 0] == 1 else 2 * counts[0])
            return
        if request[BASE] % _ALIGN:
            _fail(request, _MISALIGNED, request[BASE])
            return
        size = 64
        while size < 2 * request[ROOM]:
            size *= 2
        seen = np.full(size, -1, np.int64)
        if _mode(request) in (TILE, ROWS):
            _tile(request, hosts, seen, form, geometry, counts, length)
        else:
            _im2col(request, hosts, seen, form, geometry, counts, length)

    return texels.warp_function(copy_tensor)
