"""What an operation on tensor memory reads and writes, for racecheck: runs of shared memory, and parts of tensor memory.

A run is three words: an address as `watcher.copied` takes it, with the rank of its block relative to the one that runs; its
bytes; and whether it is written. A part of tensor memory is 16 lanes of a column (`watcher.TENSOR_ADDRESS`).
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from typing import Any

import lazy_loader as lazy

from warpsight.base.compiled import compiled
from warpsight.emulator.codegen.layout import RANK_SHIFT, TENSOR_COLUMNS, TENSOR_LANES, WARP
from warpsight.emulator.codegen.watcher import TENSOR_ADDRESS, TENSOR_PART
from warpsight.emulator.ptx import tensor_memory_engine as engine
from warpsight.emulator.ptx import tensor_numbers as types
from warpsight.emulator.textures import texels
from warpsight.emulator.textures.texels import pointer

numba = lazy.load("numba")

# A product has at most 1,600 runs: in each of two blocks two pieces of 16 bytes for each of 128 rows, four (sparse) for each of 128
# columns, and 32 of tensor memory. A form with more rows or columns is not valid, and the product itself fails.
RUN_WORDS, MOST_RUNS = 3, 2048
_RANKS = (1 << 32 - RANK_SHIFT) - 1
_PARTS = TENSOR_LANES // TENSOR_PART


@compiled
def _add(request: Any, block: Any, address: Any, size: Any, writes: Any) -> Any:
    """One more run, or a longer last one."""
    if request[engine.FAILURE] or size <= 0 or request[engine.COUNT_RUNS] == MOST_RUNS:
        return
    runs = numba.carray(pointer(request[engine.RUNS]), MOST_RUNS * RUN_WORDS, numba.int64)
    address |= ((request[engine.AWAY] + block) & _RANKS) << RANK_SHIFT
    last = RUN_WORDS * (request[engine.COUNT_RUNS] - 1)
    if last >= 0 and runs[last] + runs[last + 1] == address and runs[last + 2] == writes:
        runs[last + 1] += size
        return
    runs[last + 3], runs[last + 4], runs[last + 5] = address, size, writes
    request[engine.COUNT_RUNS] += 1


@compiled
def _shared(request: Any, block: Any, descriptor: Any, across: Any, rows: Any, depth: Any, each: Any) -> Any:
    """The pieces of a matrix in the shared memory of one block, in an order that joins what lies together."""
    base = request[engine.PEER_SHARED if block else engine.SHARED]
    inner, outer = (each, 1) if across else (1, each)
    swizzled = descriptor >> 61 & 7 != 0
    steps_k, steps_row = depth // outer, (rows + inner - 1) // inner
    for step in range(steps_k * steps_row):
        row, k = (step // steps_k, step % steps_k) if swizzled else (step % steps_row, step // steps_row)
        place = engine.piece_at(request, block, descriptor, across, row * inner, k * outer, each)
        _add(request, block, place - base, 16, 0)


@compiled
def _inside(request: Any, block: Any, address: Any, lanes: Any, step: Any, columns: Any, writes: Any) -> Any:
    """`columns` columns of `lanes` lanes from an address on, of which each second part of 16 is left out where `step` is 2."""
    first, column = (address >> 16 & 0x7FFF) // TENSOR_PART, address & 0xFFFF
    for part in range(first, min(first + max(1, lanes // TENSOR_PART), _PARTS), step):
        size = min(columns, TENSOR_COLUMNS - column)
        _add(request, block, TENSOR_ADDRESS + 4 * (part * TENSOR_COLUMNS + column), 4 * size, writes)


@compiled
def _product(request: Any) -> Any:
    kind, form = request[engine.KIND], request[engine.FORM]
    rows, columns = (form >> 24 & 31) << 4, (form >> 17 & 63) << 3
    a_format, b_format, sparse = min(form >> 7 & 7, 5), min(form >> 10 & 7, 5), request[engine.METADATA] >= 0
    a_type, b_type = engine.TYPES[kind, a_format], engine.TYPES[kind, b_format]
    if min(a_type, b_type) < 0 or rows == 0:
        return  # the product itself fails
    blocks, depth, packed = 2 if request[engine.PEER] else 1, engine.DEPTHS[kind], kind in (engine.MXF4, engine.MXF4NVF4)
    a_bits, b_bits = types.BITS[a_type], types.BITS[b_type]
    own = rows // blocks
    lanes, folded = TENSOR_LANES, request[engine.STATIONARY] or blocks == 2  # D's columns go on down the lanes
    step = 2 if own < TENSOR_LANES and not folded else 1
    wide = columns * own // TENSOR_LANES if folded else columns
    for block in range(blocks):
        if request[engine.LEFT_INSIDE]:
            _inside(request, block, request[engine.LEFT], lanes, step, depth * max(a_bits, 8) // 32, 0)
        else:
            each = 128 // a_bits if a_bits >= 8 or packed else 16
            _shared(request, block, request[engine.LEFT], form >> 15 & 1, own, depth, each)
        each = 128 // b_bits if b_bits >= 8 or packed else 16
        _shared(request, block, request[engine.RIGHT], form >> 16 & 1, columns // blocks, 2 * depth if sparse else depth, each)
        if request[engine.PARTS]:
            _inside(request, block, request[engine.SCALES_A], WARP, 1, (own + WARP - 1) // WARP, 0)
            _inside(request, block, request[engine.SCALES_B], WARP, 1, (columns + WARP - 1) // WARP, 0)
        if sparse:
            _inside(request, block, request[engine.METADATA], TENSOR_LANES, 1, 1 if a_bits >= 16 else 2, 0)
        _inside(request, block, request[engine.TARGET], lanes, step, wide, 1)
        if request[engine.SHIFTS]:
            _inside(request, block, request[engine.LEFT], TENSOR_LANES, 1, 8, 1)


@compiled
def _copy(request: Any) -> Any:
    shape = request[engine.SHAPE]
    rows, pieces = 128 if shape in (0, 2) else 4 if shape == 1 else 64 if shape in (3, 4) else 32, 2 if shape in (0, 1) else 1
    for row in range(rows):
        for number in range(pieces):
            place = engine.piece_at(request, 0, request[engine.RIGHT], False, row, number, 1)
            _add(request, 0, place - request[engine.SHARED], 16, 0)
    _inside(request, 0, request[engine.TARGET], TENSOR_LANES, 2 if rows == 4 else 1, 4 * pieces, 1)


@compiled
def _move(request: Any) -> Any:
    shape, count = request[engine.SHAPE], request[engine.COUNT]
    columns = (engine.place_in_shape(shape, WARP - 1, count - 1)[1] + 1) * (2 if request[engine.PACKED] else 1)
    lanes, writes = WARP if shape == 0 else WARP // 2, request[engine.WHAT] == engine.STORE
    _inside(request, 0, request[engine.TARGET], lanes, 1, columns, writes)
    if request[engine.SPLIT]:
        _inside(request, 0, request[engine.TARGET] + request[engine.SPLIT], lanes, 1, columns, writes)


@cache
def accesses_function(sources: int = zlib.crc32(Path(__file__).read_bytes()) ^ engine.SOURCES) -> Any:
    """The C function. `sources` is a constant in it, so that a copy on disk is used for these sources only."""

    def accesses(place):  # type: ignore[no-untyped-def]
        """Fill RUNS and COUNT_RUNS of a request; none where the operation will fail."""
        if sources < 0:
            return
        request = numba.carray(place, engine.REQUEST_WORDS, numba.int64)
        request[engine.FAILURE] = request[engine.COUNT_RUNS] = 0
        what = request[engine.WHAT]
        if what in (engine.LOAD, engine.STORE):
            _move(request)
        elif what == engine.MULTIPLY:
            _product(request)
        elif what == engine.COPY:
            _copy(request)
        elif what == engine.SHIFT:
            _inside(request, 0, request[engine.TARGET], WARP, 1, 8, 1)
        if request[engine.FAILURE]:
            request[engine.COUNT_RUNS] = 0

    return texels.warp_function(accesses)
