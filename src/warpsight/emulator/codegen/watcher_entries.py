"""The functions of `watcher.py` that native code calls, as C functions."""

from __future__ import annotations

import functools
import zlib
from pathlib import Path

import lazy_loader as lazy
import numpy as np

from warpsight.base.compiled import c_function
from warpsight.emulator.codegen import copy_order, watcher
from warpsight.emulator.codegen.layout import ARENA_BASE, Slot

numba = lazy.load("numba")

_WARPS = int(Slot.WARPS_PER_BLOCK)


@functools.cache
def _version() -> int:
    """Numba keeps a function until its own file changes; these hold code and constants of others."""
    others = ("watcher.py", "copy_order.py", "layout.py", "locks.py", "warp_order.py")
    return zlib.crc32(b"".join(Path(__file__).with_name(name).read_bytes() for name in others)) >> 1


@functools.cache
def note_address() -> int:
    """Address of `note(context, watch, kind, pc, mask, addresses)`: lanes of the mask, at <32 x i64> addresses, are a finding."""
    version, longs = _version(), numba.types.CPointer(numba.types.int64)

    def note(context, watch, kind, pc, mask, addresses):  # type: ignore[no-untyped-def]
        if kind < 0:
            return np.int32(version)
        for lane in range(32):
            if mask >> lane & 1:
                watcher.note_one(context, watch, kind, pc, lane, addresses[lane], -1, -1, 0)
        return np.int32(0)

    word, mask_word = numba.types.int64, numba.types.uint32
    return int(c_function(note, numba.types.int32(longs, longs, word, word, mask_word, longs)).address)


@functools.cache
def order_address() -> int:
    """Address of `order(context, watch, block, mask, what, operand)`: lanes of the mask wait, meet or fence; a barrier's number."""
    version, longs = _version(), numba.types.CPointer(numba.types.int64)

    def order(context, watch, block, mask, what, operand):  # type: ignore[no-untyped-def]
        if what < 0:
            return np.int32(version)
        watcher.order(context, watch, block, np.int64(mask), what, operand)
        return np.int32(0)

    word, mask_word = numba.types.int64, numba.types.uint32
    return int(c_function(order, numba.types.int32(longs, longs, longs, mask_word, word, word)).address)


@functools.cache
def access_address() -> int:
    """Address of `access(context, watch, block, cells, mask, pc, addresses, what, values, old)`: racecheck's part of an access.

    `addresses` are <32 x i64>; `what` READS, WRITES, IN_SHARED, how many elements and their bytes; `values` and `old` are what is
    stored and what was there, 32 lanes of the first element, then of the next one.
    """
    version, longs, octets = _version(), *(numba.types.CPointer(kind) for kind in (numba.types.int64, numba.types.uint8))

    def access(context, watch, block, cells, mask, pc, addresses, what, values, old):  # type: ignore[no-untyped-def]
        if what < 0:
            return np.int32(version)
        if what & watcher.IN_SHARED:
            warps = context[_WARPS]
            first = copy_order.cells_at(warps)
            watcher.access(context, watch, block, block, first, np.int64(mask), pc, addresses, what, values, old)
        else:
            first = -watcher.CELL_WORDS * (ARENA_BASE >> 2)
            watcher.access(context, watch, block, cells, first, np.int64(mask), pc, addresses, what, values, old)
        return np.int32(0)

    numbers = (numba.types.uint32, numba.types.int64)
    signature = numba.types.int32(longs, longs, longs, longs, *numbers, longs, numba.types.int64, octets, octets)
    return int(c_function(access, signature).address)


@functools.cache
def copied_address() -> int:
    """Address of `copied(context, watch, block, cells, nothing, lane, pc, address, size, until, what)`: an access by a bulk copy.

    `nothing` is null; `address` and `until` are offsets in shared memory with the rank above, or a device address; `what` READS or
    WRITES, IN_SHARED, and COMPARES of a reduction.
    """
    version, longs, octets = _version(), *(numba.types.CPointer(kind) for kind in (numba.types.int64, numba.types.uint8))

    def copied(context, watch, block, cells, nothing, lane, pc, address, size, until, what):  # type: ignore[no-untyped-def]
        if what < 0:
            return np.int32(version)
        if what & watcher.IN_SHARED:
            first = copy_order.cells_at(context[_WARPS])
            watcher.copied(context, watch, block, block, first, nothing, lane, pc, address, size, until, what)
        else:
            first = -watcher.CELL_WORDS * (ARENA_BASE >> 2)
            watcher.copied(context, watch, block, cells, first, nothing, lane, pc, address, size, until, what)
        return np.int32(0)

    numbers = [numba.types.int64] * 6
    return int(c_function(copied, numba.types.int32(longs, longs, longs, longs, octets, *numbers)).address)
