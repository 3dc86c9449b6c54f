"""Tensor memory of Blackwell's tensor cores (sm_100), and the operations on it: loads, stores, copies and products.

Each block has 128 lanes (rows) of 512 columns of 32 bits. An address has the lane in its upper half and the column in its lower
one. A function that Numba compiled does one operation; a request, an array of int64 words, says what it has to do.

A product D = A B + D takes B, and A unless it is in tensor memory, from shared memory, as a descriptor says ("Shared memory
descriptor", PTX ISA; CUTLASS `mma_sm100_desc.hpp`): pieces of 16 bytes as for `wgmma`, whose layouts `wgmma.py` describes. Row i of
128 rows of D or A is in lane i, of 64 rows in lane 32 (i / 16) + i % 16 (CUTLASS, `mma_traits_sm100_frag.hpp`); an element of D
fills a column, elements of A are packed. Of a pair of blocks each has half of the rows of A and D and half of the columns of B;
with 64 rows each, the second half of D's columns is in lanes 64 to 127. Of `.ws` with 64 or 32 rows, parts of D's columns follow
each other down the lanes. Sums are those of `matrix_products.py`: one block of products with F = 25, which is what was measured for
sm_100 (Xie et al., 2025).

Scales of blocks lie in 32 lanes: those of row r in lane r % 32, column r / 32, a byte for each part of the depth from the byte on
that the instruction descriptor names.

Of sparse A half of the elements are there, and B is twice as deep. Of four elements two are, which two bits each of the metadata
name; of two of `tf32` one, which four bits name. The metadata of a row lie as CUTLASS has them (`tmem_e_frg`): of types of up to 8
bits one after the other in its lane; of wider ones those of rows r and r + 8 in a word, of the first half of the depth in lane r,
of the second in lane r + 8.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from typing import Any

import lazy_loader as lazy
import numpy as np

from warpsight.base.compiled import compiled
from warpsight.emulator.codegen.layout import TENSOR_COLUMNS, TENSOR_LANES, WARP, Fault
from warpsight.emulator.ptx import tensor_numbers as types
from warpsight.emulator.ptx.tensor_numbers import bits_at, four_bytes, make_signed, numbers, rounded, scale, sum_of
from warpsight.emulator.textures import texels
from warpsight.emulator.textures.texels import float_of, load, pointer, store, widen

numba = lazy.load("numba")

# Words of a request. TENSOR: host address of the block's tensor memory; TARGET: an address in it. REGISTERS: of a load or store,
# COUNT rows of 32 words. LEFT and RIGHT: descriptors, or an address in tensor memory where LEFT_INSIDE. DISABLED: bits of lanes of
# D that stay as they are. HALVINGS of D before the sum; PARTS of the depth that have scales. COLUMNS of an
# allocation. SEEN: host address of what `PRODUCT_PTR` keeps of the instruction. PEER: of a product of two blocks, host address of
# the tensor memory of the second one, else 0; then TENSOR and SHARED are those of the first one. METADATA: of a product with sparse
# A an address in tensor memory, else -1. STATIONARY: `.ws`. PACKED: of a load or store, a register has two columns; of a copy, the
# bits of elements that become bytes, else 0. SHIFTS: A in tensor memory is shifted after the product (`.ashift`).
# RUNS: host address of what `tensor_memory_accesses.py` lists, COUNT_RUNS of them; AWAY: the rank of SHARED's block less the own.
(WHAT, TENSOR, BLOCK, WARP_NUMBER, SHARED, LIMIT, TARGET, COUNT, REGISTERS, SHAPE, SPLIT, PACKED, KIND, FORM, LEFT, LEFT_INSIDE,
 RIGHT, ADDS, HALVINGS, SCALES_A, SCALES_B, PARTS, COLUMNS, SEEN, PEER, PEER_SHARED) = range(26)  # fmt: skip
DISABLED = 26
FAILURE, ADDRESS = 34, 35
METADATA, STATIONARY, SHIFTS = 36, 37, 38
RUNS, COUNT_RUNS, AWAY = 39, 40, 41
REQUEST_WORDS = 42

LOAD, STORE, MULTIPLY, COPY, ALLOCATE, FREE, SHIFT = range(7)  # WHAT
SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")  # of loads and stores
COPIES = ("128x256b", "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4")
KINDS = ("f16", "tf32", "i8", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")
F16, TF32, I8, F8F6F4, MXF8F6F4, MXF4, MXF4NVF4 = range(len(KINDS))
TF32_FORMAT, SPARSE = 2, 1 << 2  # in an instruction descriptor: a type of A and B, and a bit

_SMALL, _NIBBLES = [types.E4M3, types.E5M2, -1, types.E2M3, types.E3M2, types.E2M1], [-1, types.E2M1, -1, -1, -1, -1]
TYPES = np.array([[types.F16, types.BF16, -1, -1, -1, -1], [-1, -1, types.TF32, -1, -1, -1], [types.U8, types.S8, -1, -1, -1, -1],
                   _SMALL, _SMALL, _NIBBLES, _NIBBLES], np.int64)  # fmt: skip
DEPTHS = np.array([16, 8, 32, 32, 32, 64, 64], np.int64)
_INTO_F16, _INTO_F32, _INTO_S32 = range(3)

_OUTSIDE, _SHARED_BOUNDS, _TAKEN, _BAD_FORM = (
    int(f) for f in (Fault.TENSOR_MEMORY, Fault.SHARED_BOUNDS, Fault.TENSOR_COLUMNS, Fault.PRODUCT_FORM)
)
_GRANULE = 32  # columns


@compiled
def _fail(request: Any, kind: Any, address: Any) -> Any:
    if request[FAILURE] == 0:
        request[FAILURE], request[ADDRESS] = kind, address
    return False


@compiled
def _cell(request: Any, lane: Any, column: Any, block: Any = 0) -> Any:
    """The host address of a column of a lane, in the second of two blocks if `block` is 1; outside the request fails."""
    if not (0 <= lane < TENSOR_LANES and 0 <= column < TENSOR_COLUMNS):
        _fail(request, _OUTSIDE, request[TARGET])
        return request[TENSOR]
    return request[PEER if block else TENSOR] + 4 * (lane * TENSOR_COLUMNS + column)


# -- Allocation: 16 pieces of 32 columns, as bits of a word behind the memory. The word before it names the block they belong to.


@compiled
def _allocation(request: Any) -> Any:
    words = numba.carray(pointer(request[TENSOR] + 4 * TENSOR_LANES * TENSOR_COLUMNS), 2, numba.int64)
    if words[0] != request[BLOCK] + 1:
        words[0], words[1] = request[BLOCK] + 1, 0
    return words


@compiled
def _allocate(request: Any) -> Any:
    """The first free columns, as the address that TARGET gets; their cells are zeros, which CUDA leaves open."""
    words, columns = _allocation(request), request[COLUMNS]
    if columns < _GRANULE or columns > TENSOR_COLUMNS or columns & columns - 1:
        return _fail(request, _TAKEN, columns)
    count = columns // _GRANULE
    for first in range(0, TENSOR_COLUMNS // _GRANULE, count):
        bits = ((1 << count) - 1) << first
        if words[1] & bits == 0:
            words[1] |= bits
            request[TARGET] = first * _GRANULE
            for lane in range(TENSOR_LANES):
                for column in range(first * _GRANULE, first * _GRANULE + columns):
                    store(_cell(request, lane, column), 4, 0)
            return True
    return _fail(request, _TAKEN, columns)


@compiled
def _free(request: Any) -> Any:
    words, columns, first = _allocation(request), request[COLUMNS], request[TARGET]
    if columns < _GRANULE or columns > TENSOR_COLUMNS or columns & columns - 1 or first % columns or first >= TENSOR_COLUMNS:
        return _fail(request, _OUTSIDE, first)
    bits = ((1 << columns // _GRANULE) - 1) << first // _GRANULE
    if words[1] & bits != bits:
        return _fail(request, _OUTSIDE, first)
    words[1] &= ~bits
    return True


# -- Loads and stores of a warp, which reaches a quarter of the lanes.


@compiled
def place_in_shape(shape: Any, lane: Any, register: Any) -> Any:
    """Row and column of a register of a lane, without the distance of 16x32bx2 (PTX ISA, "Matrix fragments for shape ..."; CUTLASS
    `copy_traits_sm100.hpp`).
    """
    if shape == 0:
        return lane, register
    if shape == 1:
        return (lane & 1) * 8 + (lane >> 2), 2 * register + (lane >> 1 & 1)
    if shape == 2:
        return (lane >> 2) + 8 * (register & 1), (lane & 3) + 4 * (register >> 1)
    if shape == 3:
        return (lane >> 2) + 8 * (register >> 1 & 1), 2 * (lane & 3) + (register & 1) + 8 * (register >> 2)
    return lane & 15, register


@compiled
def _move(request: Any) -> Any:
    """Between registers and tensor memory; PACKED: a register has the low halves of two columns. SPLIT is always in columns."""
    registers = numba.carray(pointer(request[REGISTERS]), (request[COUNT], WARP), numba.int32)
    first, quarter = request[TARGET] >> 16, request[WARP_NUMBER] & 3
    for register in range(request[COUNT]):
        for lane in range(WARP):
            row, ahead = place_in_shape(request[SHAPE], lane, register)
            column = (request[TARGET] & 0xFFFF) + (lane >> 4) * request[SPLIT]
            if (first + row) >> 5 != quarter:
                return _fail(request, _OUTSIDE, request[TARGET])
            if not request[PACKED]:
                place = _cell(request, first + row, column + ahead)
                if request[WHAT] == LOAD:
                    registers[register, lane] = numba.int32(load(place, 4))
                elif request[FAILURE] == 0:
                    store(place, 4, registers[register, lane])
                continue
            low, high = _cell(request, first + row, column + 2 * ahead), _cell(request, first + row, column + 2 * ahead + 1)
            if request[WHAT] == LOAD:
                registers[register, lane] = numba.int32(load(low, 4) & 0xFFFF | (load(high, 4) & 0xFFFF) << 16)
            elif request[FAILURE] == 0:
                store(low, 4, registers[register, lane] & 0xFFFF)
                store(high, 4, registers[register, lane] >> 16 & 0xFFFF)
    return True


# -- Matrices in shared memory.


@compiled
def piece_at(request: Any, block: Any, descriptor: Any, across: Any, row: Any, k: Any, each: Any) -> Any:
    """The host address of the 16 bytes with an element: `each` are the elements of a piece, which follow each other along k, or
    with `across` along the rows.
    """
    start, leading, stride = (descriptor & 0x3FFF) << 4, (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
    base, mode = descriptor >> 49 & 7, descriptor >> 61 & 7
    if mode not in (0, 2, 4, 6):
        _fail(request, _BAD_FORM, request[FORM])
        return request[SHARED]
    width = 0 if mode == 0 else 4 - mode // 2  # pieces in a row of the swizzle, as a power of two
    most = (1 << width) - 1
    if across:
        eight = row // each
        offset = (eight & most) * 16 + (eight >> width) * (stride if mode == 0 else leading)
        offset += (k & 7) * (16 << width) + (k >> 3) * (leading if mode == 0 else stride)
    else:
        offset = (row >> 3) * stride + (row & 7) * (16 << width) + k // each * (leading if mode == 0 else 16)
    offset += start
    offset ^= ((offset >> 7) - base & most) << 4
    if offset + 16 > request[LIMIT]:
        _fail(request, _SHARED_BOUNDS, offset)
        return request[SHARED]
    return request[PEER_SHARED if block else SHARED] + offset


@compiled
def _fetch(request: Any, matrix: Any, kind: Any, descriptor: Any, across: Any, packed: Any) -> Any:
    """The patterns [row, k] of a matrix in shared memory, of a pair of blocks a half in each. Elements of 6 and 4 bits go 16 to a
    piece, or `packed` 32.
    """
    bits, blocks = types.BITS[kind], 2 if request[PEER] else 1
    each, own = 128 // bits if bits >= 8 or packed else 16, matrix.shape[0] // blocks
    for number in range(matrix.shape[0]):
        block, row = number // own, number % own
        for k in range(matrix.shape[1]):
            place = piece_at(request, block, descriptor, across, row, k, each)
            matrix[number, k] = bits_at(place, (row if across else k) % each * bits, bits)


@compiled
def _lane(request: Any, rows: Any, row: Any) -> Any:
    """The block of a row of A or D, and the lane there."""
    if request[PEER]:
        return row // (rows // 2), row % (rows // 2)
    return numba.int64(0), row if rows == TENSOR_LANES else 32 * (row >> 4) + (row & 15)


@compiled
def _fetch_inside(request: Any, matrix: Any, kind: Any) -> Any:
    """The same of A in tensor memory, where elements are packed into columns; those of 6 and 4 bits have a byte each."""
    bits = max(types.BITS[kind], 8)
    for row in range(matrix.shape[0]):
        block, lane = _lane(request, matrix.shape[0], row)
        for k in range(matrix.shape[1]):
            place = _cell(request, lane + (request[LEFT] >> 16), (request[LEFT] & 0xFFFF) + k * bits // 32, block)
            matrix[row, k] = bits_at(place, k * bits % 32, bits)


# -- Products.


@compiled
def _scales_of(request: Any, address: Any, rows: Any, first: Any, halved: Any) -> Any:
    """The scales [row, part] and their exponents. Where `halved`, each of two blocks has those of its rows."""
    parts, powers = request[PARTS], request[FORM] >> 23 & 1
    values, exponents = np.ones((rows, max(parts, 1)), np.float64), np.zeros((rows, max(parts, 1)), np.int64)
    for row in range(rows if parts else 0):
        block = row // TENSOR_LANES if halved else 0
        column = (address & 0xFFFF) + (row - TENSOR_LANES * block) // WARP
        word = load(_cell(request, (address >> 16 & 0x7FFF) + row % WARP, column, block), 4)
        for part in range(parts):
            values[row, part], exponents[row, part] = scale(word >> 8 * (first + part) & 255, powers)
    return values, exponents


@compiled
def _partners(request: Any, rows: Any, depth: Any, kind: Any) -> Any:
    """[row, k]: the element along the depth of B that each one of A is multiplied by."""
    partners = np.empty((rows, depth), np.int64)
    wide = types.BITS[kind] >= 16
    for row in range(rows):
        block, lane = (row // TENSOR_LANES, row % TENSOR_LANES) if request[PEER] else (0, row)
        for k in range(depth):
            if request[METADATA] < 0:
                partners[row, k] = k
                continue
            bit = 4 * k if kind == types.TF32 else 2 * k
            first, column = request[METADATA] >> 16, request[METADATA] & 0xFFFF
            if wide:
                place = _cell(request, first + (lane & ~15) + (lane & 7) + 8 * (bit >> 4), column, block)
                bit = 16 * (lane >> 3 & 1) + (bit & 15)
            else:
                place = _cell(request, first + lane, column + (bit >> 5), block)
            index = load(place, 4) >> (bit & 31) & 3
            partners[row, k] = 2 * k + (index >> 1) if kind == types.TF32 else 4 * (k // 2) + index
    return partners


@compiled
def _multiply_floats(request: Any, into: Any, a: Any, b: Any, partners: Any, left: Any, right: Any) -> Any:
    """`a` and `b` are numbers [row, k] with exponents; `left` and `right` the scales of their rows."""
    rows, depth = a[0].shape
    parts, grouped = left[0].shape[1], request[KIND] in (MXF4, MXF4NVF4)
    terms, powers = np.empty(depth, np.float64), np.empty(depth, np.int64)
    groups = depth // types.GROUP
    halves, floor = into == _INTO_F16, types.FLOORS[into]
    for row in range(rows):
        for column in range(b[0].shape[0]):
            place = _result_cell(request, rows, b[0].shape[0], row, column)
            if place == 0:
                continue
            total, power = 0.0, numba.int64(types.NOTHING)
            if request[ADDS]:
                old = load(place, 4)
                single = widen(old & 0xFFFF) if halves else old
                total = numba.float64(float_of(single)) * 2.0 ** -request[HALVINGS]
                if single & 0x7FFFFFFF:
                    power = max((single >> 23 & 255) - 127, -14 if halves else -126) - request[HALVINGS]
            for k in range(depth):
                part = k * parts // depth
                factor = left[0][row, part] * right[0][column, part]
                other = partners[row, k]
                terms[k] = a[0][row, k] * b[0][column, other] * (1.0 if grouped else factor)
                powers[k] = a[1][row, k] + b[1][column, other] + left[1][row, part] + right[1][column, part]
            if grouped:
                for group in range(groups):
                    part = group * parts // groups
                    whole = terms[group * types.GROUP : (group + 1) * types.GROUP].sum()
                    terms[group] = whole * left[0][row, part] * right[0][column, part]
                    powers[group] = left[1][row, part] + right[1][column, part]
                total = sum_of(terms[:groups], powers[:groups], total, power, floor, types.GROUPED_FRACTION)
            else:
                total = sum_of(terms, powers, total, power, floor, types.FRACTION)
            store(place, 4, rounded(total, halves))


@compiled
def _multiply_integers(request: Any, a: Any, b: Any, partners: Any) -> Any:
    """Only adding D wraps, or saturates where the descriptor says so."""
    for row in range(a.shape[0]):
        for column in range(b.shape[0]):
            place = _result_cell(request, a.shape[0], b.shape[0], row, column)
            if place == 0:
                continue
            total = numba.int64(0)
            for k in range(a.shape[1]):
                total += a[row, k] * b[column, partners[row, k]]
            if request[ADDS]:
                total += numba.int64(numba.int32(load(place, 4)))
            if request[FORM] >> 3 & 1:
                total = min(max(total, -(1 << 31)), (1 << 31) - 1)
            store(place, 4, total)


@compiled
def _result_cell(request: Any, rows: Any, columns: Any, row: Any, column: Any) -> Any:
    """The host address of an element of D, 0 where its lane is disabled."""
    block, lane = _lane(request, rows, row)
    if request[STATIONARY]:
        part = columns * rows // TENSOR_LANES
        lane, column = row + rows * (column // part), column % part
    if request[PEER] and rows == TENSOR_LANES:
        lane, column = lane + 64 * (column // (columns // 2)), column % (columns // 2)
    if request[DISABLED + 4 * block + (lane >> 5)] >> (lane & 31) & 1:
        return numba.int64(0)
    return _cell(request, lane + (request[TARGET] >> 16), column + (request[TARGET] & 0xFFFF), block)


@compiled
def _multiply(request: Any) -> Any:
    """As the instruction descriptor says (PTX ISA, "Instruction descriptor")."""
    kind, form = request[KIND], request[FORM]
    scaled = kind >= MXF8F6F4
    rows, columns = (form >> 24 & 31) << 4, (form >> 17 & 63) << 3
    a_format, b_format = form >> 7 & 7, form >> 10 & 7
    into = numba.int64(_INTO_F32) if scaled else form >> 4 & 3
    a_type, b_type = TYPES[kind, min(a_format, 5)], TYPES[kind, min(b_format, 5)]
    if request[PEER]:
        fits = columns % 16 == 0 and (rows == 256 or (rows == 128 and columns % 32 == 0 and not scaled))
    elif request[STATIONARY]:
        fits = rows in (32, 64, 128) and columns in (64, 128, 256) and (rows == 128 or not request[LEFT_INSIDE])
    else:
        fits = (rows == 128 and columns % 16 == 0) or (rows == 64 and columns % 8 == 0 and not scaled)
    sparse = request[METADATA] >= 0
    fits &= 8 <= columns <= 256 and max(a_format, b_format) <= 5 and min(a_type, b_type) >= 0 and form >> 2 & 1 == sparse
    fits &= not sparse or (rows == (256 if request[PEER] else 128) and form & 3 == 0)
    fits &= into == _INTO_S32 if kind == I8 else into == _INTO_F32 if kind == TF32 else into in (_INTO_F16, _INTO_F32)
    a_across, b_across = form >> 15 & 1, form >> 16 & 1
    packed = kind in (MXF4, MXF4NVF4)
    fits &= not (a_across and (packed or request[LEFT_INSIDE])) and not (b_across and packed)
    fits &= kind in (F16, TF32) or request[HALVINGS] == 0
    if kind == F16:
        fits &= a_type == b_type and (into == _INTO_F32 or a_type == types.F16)
    if not fits:
        return _fail(request, _BAD_FORM, form)
    seen = numba.carray(pointer(request[SEEN]), 1, numba.int64)
    seen[0] = form + 1 if seen[0] in (0, form + 1) else -1
    depth = DEPTHS[kind]
    a, b = np.empty((rows, depth), np.int64), np.empty((columns, 2 * depth if sparse else depth), np.int64)
    if request[LEFT_INSIDE]:
        if types.BITS[a_type] < 8:
            return _fail(request, _BAD_FORM, form)
        _fetch_inside(request, a, a_type)
    else:
        _fetch(request, a, a_type, request[LEFT], a_across, packed)
    _fetch(request, b, b_type, request[RIGHT], b_across, packed)
    partners = _partners(request, rows, depth, a_type)
    if request[FAILURE]:
        return False
    if kind == I8:
        make_signed(a, a_type)
        make_signed(b, b_type)
        _multiply_integers(request, a, b, partners)
        return True
    left = _scales_of(request, request[SCALES_A], rows, form >> 29 & 3, request[PEER] != 0)
    right = _scales_of(request, request[SCALES_B], columns, form >> 4 & 3, False)
    if request[FAILURE] == 0:
        signed = numbers(a, a_type, form >> 13 & 1), numbers(b, b_type, form >> 14 & 1)
        _multiply_floats(request, into, signed[0], signed[1], partners, left, right)
    return request[FAILURE] == 0


@compiled
def _shift(request: Any, address: Any, lanes: Any, block: Any = 0) -> Any:
    """Of 8 columns, each of `lanes` lanes takes those of the next one, the last one of a quarter keeps its own (CUTLASS, Python's
    `tcgen05_mma`: `shifted[r] = A[r + 1]` unless r % 32 is 31).
    """
    if address >> 16 & WARP - 1:
        return _fail(request, _OUTSIDE, address)
    for k in range(lanes * 8):
        lane, column = (address >> 16) + k // 8, (address & 0xFFFF) + k % 8
        if lane & WARP - 1 != WARP - 1:
            source, target = _cell(request, lane + 1, column, block), _cell(request, lane, column, block)
            if request[FAILURE] == 0:
                store(target, 4, load(source, 4))
    return request[FAILURE] == 0


@compiled
def _multiply_and_shift(request: Any) -> Any:
    """A product, after which A moves in each block that has a part of it."""
    blocks = 2 if request[PEER] else 1
    if request[SHIFTS] and ((request[FORM] >> 24 & 31) << 4 != TENSOR_LANES * blocks or not request[LEFT_INSIDE]):
        return _fail(request, _BAD_FORM, request[FORM])
    if not _multiply(request):
        return False
    for block in range(blocks if request[SHIFTS] else 0):
        _shift(request, request[LEFT], TENSOR_LANES, block)
    return request[FAILURE] == 0


def shape_of(kind: str, form: int) -> str:
    """The shape that an instruction descriptor stands for, as other products name theirs."""
    depth = DEPTHS[KINDS.index(kind)] * (2 if form >> 2 & 1 else 1)
    return f"m{(form >> 24 & 31) << 4}n{(form >> 17 & 63) << 3}k{depth}"


@compiled
def _copy(request: Any) -> Any:
    """Rows of 16 or 32 bytes from shared memory into lanes; some go to two or to all four quarters of them.

    Where elements are unpacked, 16 of them and a gap are 16 bytes of shared memory.
    """
    shape, first, column, bits = request[SHAPE], request[TARGET] >> 16, request[TARGET] & 0xFFFF, request[PACKED]
    rows = 128 if shape in (0, 2) else 4 if shape == 1 else 64 if shape in (3, 4) else 32
    pieces = 2 if shape in (0, 1) else 1
    for row in range(rows):
        for piece in range(pieces):
            source = piece_at(request, 0, request[RIGHT], False, row, piece, 1)
            for quarter in range(4):
                if rows == 128:
                    lane = row if quarter == row >> 5 else -1
                elif rows == 4:
                    lane = 32 * row if quarter == row else -1
                elif rows == 32:
                    lane = 32 * quarter + row
                else:
                    half = quarter & 1 if shape == 3 else quarter >> 1
                    lane = 32 * quarter + (row & 31) if half == row >> 5 else -1
                for word in range(4 if lane >= 0 else 0):
                    target = _cell(request, first + lane, column + 4 * piece + word)
                    if request[FAILURE] == 0:
                        store(target, 4, four_bytes(source, word, bits) if bits else load(source + 4 * word, 4))
    return True


_FILES = (Path(__file__), Path(__file__).with_name("tensor_numbers.py"))
SOURCES = zlib.crc32(b"".join(map(Path.read_bytes, _FILES))) ^ texels.SOURCES


@cache
def engine_function(sources: int = SOURCES) -> Any:
    """The C function. `sources` is a constant in it, so that a copy on disk is used for these sources only."""

    def operate(place):  # type: ignore[no-untyped-def]
        """One operation."""
        if sources < 0:
            return
        request = numba.carray(place, REQUEST_WORDS, numba.int64)
        request[FAILURE] = request[ADDRESS] = 0
        what = request[WHAT]
        if what in (LOAD, STORE):
            _move(request)
        elif what == MULTIPLY:
            _multiply_and_shift(request)
        elif what == SHIFT:
            _shift(request, request[TARGET], WARP)
        elif what == COPY:
            _copy(request)
        elif what == ALLOCATE:
            _allocate(request)
        else:
            _free(request)

    return texels.warp_function(operate)
