"""`suld`, `sust` and `sured` for a warp, compiled by Numba: PTX ISA, section "Surface Instructions".

`.b` takes x in bytes, `.p` in tx. Outside of the surface `.trap` is a fault, `.clamp` the nearest place, `.zero` loads 0 and
stores nothing. An access that is not aligned is a fault (the ISA leaves it open). Lanes act lowest first.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import lazy_loader as lazy
import numpy as np

from warpsight.base.compiled import compiled
from warpsight.emulator.textures import texels as tx

numba = lazy.load("numba")

# WHAT: geometry in the lowest byte, then these.
OPERATION, BOUNDS, FORMATTED, SIGNED, BYTES, ELEMENTS = 8, 16, 20, 21, 24, 32
LOAD, STORE, ADD, LOWEST, HIGHEST, AND, OR = range(7)
TRAP, NEAREST, ZERO = range(3)


@compiled
def _suits(row: Any, geometry: Any) -> Any:
    """May this object be used with this geometry? A cube map is an array of faces."""
    if row[tx.USE] != tx.SURFACE:
        return False
    return row[tx.KIND] == geometry or (geometry == tx.LAYERED_2D and row[tx.KIND] in (tx.CUBE, tx.LAYERED_CUBE))


@compiled
def _extent(row: Any, geometry: Any, place: Any, bounds: Any, width: Any, size: Any) -> Any:
    """Brings x (bytes), y and z into the surface as BOUNDS asks. 0: inside; 1: outside and nothing is done; 2: a fault."""
    extent = (width, row[tx.HEIGHT], row[tx.LAYERS] if geometry in (tx.LAYERED_1D, tx.LAYERED_2D) else row[tx.DEPTH])
    room = (size, 1, 1)
    for axis in range(3):
        last = extent[axis] - room[axis]
        if 0 <= place[axis] <= last:
            continue
        if bounds != NEAREST or last < 0:
            return 1 if bounds == ZERO else 2
        place[axis] = 0 if place[axis] < 0 else last // room[axis] * room[axis]
    return 0


@compiled
def _place(request: Any, lane: Any, row: Any, size: Any, place: Any) -> Any:
    """The lane's x in bytes, y, and z or layer into `place`."""
    geometry = request[tx.WHAT] & 0xFF
    coordinates = numba.carray(tx.pointer(request[tx.COORDINATES]), (4, 32), numba.int32)
    place[:] = 0
    if geometry in (tx.LAYERED_1D, tx.LAYERED_2D):
        place[2] = coordinates[0, lane]
        place[0] = coordinates[1, lane]
        if geometry == tx.LAYERED_2D:
            place[1] = coordinates[2, lane]
    else:
        place[0] = coordinates[0, lane]
        if geometry != tx.ONE_D:
            place[1] = coordinates[1, lane]
        if geometry == tx.THREE_D:
            place[2] = coordinates[2, lane]
    if request[tx.WHAT] >> FORMATTED & 1:
        place[0] *= size


@compiled
def _formatted(pattern: Any, row: Any) -> Any:
    """A 32-bit source as a channel of the surface's format: floats rounded, integers saturated."""
    bits = row[tx.CHANNEL_BITS]
    if row[tx.FORMAT] == tx.FLOAT_FORMAT:
        return pattern if bits == 32 else tx.narrow(pattern)
    if row[tx.FORMAT] == tx.SIGNED_FORMAT:
        value = pattern - (1 << 32) if pattern >> 31 else pattern
        return min(max(value, -(1 << (bits - 1))), (1 << (bits - 1)) - 1)
    return min(pattern, (1 << bits) - 1)


@compiled
def _combined(operation: Any, signed: Any, size: Any, old: Any, operand: Any) -> Any:
    """New value of a reduction, on `size` bytes."""
    if operation == ADD:
        return old + operand
    if operation == AND:
        return old & operand
    if operation == OR:
        return old | operand
    if size == 4 and signed:
        left, right = numba.int64(numba.int32(old)), numba.int64(numba.int32(operand))
    else:
        left, right = old, operand
    less = left < right if signed or size == 4 else numba.uint64(left) < numba.uint64(right)
    return left if less == (operation == LOWEST) else right


@compiled
def _act(request: Any, lane: Any, row: Any, address: Any, values: Any) -> Any:
    """Load, store or combine at a device address that has been checked."""
    what = request[tx.WHAT]
    operation, size, elements = what >> OPERATION & 0xFF, what >> BYTES & 0xFF, what >> ELEMENTS & 0xFF
    host = address + request[tx.DELTA]
    if operation == LOAD:
        for k in range(elements):
            values[k, lane] = tx.load(host + k * size, size)
    elif operation == STORE and what >> FORMATTED & 1:
        step = row[tx.CHANNEL_BITS] // 8
        for k in range(row[tx.CHANNELS]):
            pattern = values[k, lane] & 0xFFFFFFFF if k < elements else numba.int64(0)
            tx.store(host + k * step, step, _formatted(pattern, row))
    elif operation == STORE:
        for k in range(elements):
            tx.store(host + k * size, size, values[k, lane])
    else:
        tx.store(host, size, _combined(operation, what >> SIGNED & 1, size, tx.load(host, size), values[0, lane]))


@compiled
def _access(request: Any, lane: Any, row: Any, place: Any, values: Any) -> Any:
    """One lane. Returns its device address, 0 when it is outside and does nothing, -1 after a failure."""
    what = request[tx.WHAT]
    texel = row[tx.CHANNELS] * row[tx.CHANNEL_BITS] // 8
    operation, formatted = what >> OPERATION & 0xFF, what >> FORMATTED & 1
    size = texel if formatted and operation == STORE else (what >> BYTES & 0xFF) * (what >> ELEMENTS & 0xFF)
    _place(request, lane, row, texel, place)
    x = place[0]
    outside = _extent(row, what & 0xFF, place, what >> BOUNDS & 0xF, row[tx.WIDTH] * texel, size)
    if outside == 2:
        tx.fail(request, tx.SURFACE_BOUNDS, lane, x)
        return -1
    if outside == 1:
        return 0
    address = row[tx.ADDRESS_WORD] + place[2] * row[tx.SLICE_PITCH] + place[1] * row[tx.ROW_PITCH] + place[0]
    if address % size:
        tx.fail(request, tx.MISALIGNED, lane, address)
        return -1
    failure = tx.reach(request, address, size, operation != LOAD)
    if failure != tx.FINE:
        tx.fail(request, failure, lane, address)
        return -1
    tx.touch(request, address)
    _act(request, lane, row, address, values)
    return address


@cache
def surface_function(sources: int = tx.SOURCES) -> Any:
    """The C function of `suld`, `sust` and `sured`. For `sources` see `fetch_function`."""

    def surface_warp(place):  # type: ignore[no-untyped-def]
        """A surface instruction of a warp on VALUES of the request; a load's lanes that are off or outside get 0."""
        if sources < 0:
            return
        request = numba.carray(place, tx.REQUEST_WORDS, numba.int64)
        values = numba.carray(tx.pointer(request[tx.VALUES]), (4, 32), numba.int64)
        table = numba.carray(tx.pointer(request[tx.TABLE]), (request[tx.TABLE_COUNT], tx.ROW_WORDS), numba.int64)
        request[tx.FAILURE], request[tx.COUNT], request[tx.SHARING] = tx.FINE, 0, 0
        if request[tx.WHAT] >> OPERATION & 0xFF == LOAD:
            values[:] = 0
        where, touched = np.zeros(3, np.int64), np.zeros(32, np.int64)
        for lane in range(32):
            if not request[tx.MASK] >> lane & 1:
                continue
            number = tx.find(request, lane, tx.HANDLES)
            if number < 0 or not _suits(table[number], request[tx.WHAT] & 0xFF):
                tx.refuse(request, tx.BAD_HANDLE if number < 0 else tx.WRONG_KIND, lane, tx.HANDLES)
                return
            touched[lane] = _access(request, lane, table[number], where, values)
            if touched[lane] < 0:
                return
        for lane in range(32):
            same = 0
            for other in range(32):
                same += touched[lane] != 0 and touched[other] == touched[lane]
            request[tx.SHARING] = max(request[tx.SHARING], same)

    return tx.warp_function(surface_warp)
