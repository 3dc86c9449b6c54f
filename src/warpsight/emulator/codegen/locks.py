"""Locks that warps take in device memory with `atom.cas`, for racecheck: does each holder wait for what the one before it did?

A fence before a lock is released lets the next holder see what was done under it. The next holder needs a fence too, after it has
taken the lock: without one its accesses may come before those of the holder before. Which of two warps comes first is a matter of
time, so both must have that fence, whichever came first in this execution.

Each warp of a launch has a row: the lock that it took last, as the address and the first byte of a free lock's value; from which
of its clocks on it holds the lock, and until when; and when it executed its first fence of device scope since, and of any scope.
0: not yet. Two warps have held the same lock in turn if both found the same value there, and the first has written to the lock
meanwhile. A warp whose lanes hold several locks is known by the last.
"""

from __future__ import annotations

import numpy as np

from warpsight.base.compiled import jit

_LOCK, _TAKEN, _RELEASED, _FENCED, _FENCED_HERE, ROW_WORDS = range(6)
_VALUE_SHIFT = 44  # above all addresses


@jit()
def note_fence(watch, row, clock, device):  # type: ignore[no-untyped-def]
    """The warp of a row executes a fence or comes to a barrier."""
    if watch[row + _FENCED] == 0 and device:
        watch[row + _FENCED] = clock
    if watch[row + _FENCED_HERE] == 0:
        watch[row + _FENCED_HERE] = clock


@jit()
def note_write(watch, row, clock, mask, addresses, size, values, old):  # type: ignore[no-untyped-def]
    """Lanes write device memory: does the warp release its lock? With a size they compare `values` and `old`: does it take one?"""
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        if addresses[lane] == watch[row + _LOCK] & ((1 << _VALUE_SHIFT) - 1) and watch[row + _RELEASED] == 0:
            watch[row + _RELEASED] = clock
        equal = size > 0
        for k in range(lane * size, (lane + 1) * size):
            equal = equal and values[k] == old[k]
        if equal:
            watch[row + _LOCK] = addresses[lane] | np.int64(values[lane * size]) << _VALUE_SHIFT
            watch[row + _TAKEN], watch[row + _RELEASED], watch[row + _FENCED], watch[row + _FENCED_HERE] = clock, 0, 0, 0


@jit()
def may_swap(watch, mine, theirs, clock, same_block):  # type: ignore[no-untyped-def]
    """Were their access, at `clock`, and my one now made under one lock, and one of them without a fence since it was taken?"""
    if watch[mine + _LOCK] == 0 or watch[mine + _LOCK] != watch[theirs + _LOCK] or watch[mine + _RELEASED]:
        return False
    if not watch[theirs + _TAKEN] <= clock < watch[theirs + _RELEASED]:
        return False
    scope = _FENCED_HERE if same_block else _FENCED
    return watch[mine + scope] == 0 or not 0 < watch[theirs + scope] <= clock
