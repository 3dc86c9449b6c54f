"""One memory instruction of one warp: from its sectors to line requests, and those through the hierarchy."""

from __future__ import annotations

import numba
import numpy as np

from warpsight.addressing.coalescing import merge_lines
from warpsight.caches.counters import DIVERGENT, EXECUTIONS, SLOWEST_L1, TOUCHED_SECTORS
from warpsight.caches.geometry import Machine
from warpsight.caches.l1 import atomic, l1_read, l1_write
from warpsight.caches.l2 import LEVEL_L1
from warpsight.caches.program import IS_ATOMIC, IS_LOAD, Program
from warpsight.caches.state import COUNT, ENTRY, PC, SECTOR, TICK, State
from warpsight.caches.warps import Window

LINE_128 = 4


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _load(machine: Machine, state: State, sm: int, n: int, pc: int, now: float) -> float:
    """A load of `n` line requests; gives when the last of its data is there."""
    cache, sms = state.cache, state.sm
    back, level = now, LEVEL_L1
    for k in range(n):
        state.control.cell[TICK] += 1
        one, its_level, now = l1_read(machine, cache, sms, state.control.cell[TICK], sm, cache.lines[k], cache.masks[k], pc, now)
        back, level = max(back, one), max(level, its_level)
        now += machine.lsu_cost
    sms.lsu_free[sm] = now
    cache.count[pc, SLOWEST_L1 + level] += 1
    return back


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _store(machine: Machine, state: State, sm: int, n: int, whole: bool, pc: int, now: float) -> None:
    cache = state.cache
    for k in range(n):
        state.control.cell[TICK] += 1
        l1_write(machine, cache, state.control.cell[TICK], sm, cache.lines[k], cache.masks[k], whole, pc, now)
        now += machine.lsu_cost
    state.sm.lsu_free[sm] = now


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _atomic(machine: Machine, window: Window, state: State, sm: int, first: int, count: int, pc: int, now: float) -> float:
    """An atomic of `count` sectors, each a request of its own; gives when the last old value is there."""
    cache = state.cache
    back, level = now, LEVEL_L1
    for k in range(first, first + count):
        state.control.cell[TICK] += 1
        sector = np.int64(window.sectors[k])
        line = sector // machine.l2_line
        bit = np.int64(1) << (sector - line * machine.l2_line)
        one, its_level = atomic(machine, cache, state.control.cell[TICK], line, bit, pc, now)
        back, level = max(back, one), max(level, its_level)
        now += machine.lsu_cost
    state.sm.lsu_free[sm] = now
    cache.count[pc, SLOWEST_L1 + level] += 1
    return back


@numba.njit(cache=True, nogil=True, error_model="numpy")
def access(machine: Machine, program: Program, window: Window, state: State, sm: int, slot: int, now: float) -> None:
    """Do the memory instruction that the warp in `slot` stands at."""
    row = state.warp.row[slot]
    cache = state.cache
    pc, first, count = row[PC], row[SECTOR], row[COUNT]
    row[SECTOR] = first + count
    cache.count[pc, EXECUTIONS] += 1
    cache.count[pc, TOUCHED_SECTORS] += count
    kind = program.access[pc]
    now = max(now, state.sm.lsu_free[sm])
    if kind == IS_LOAD and program.packed[pc] < count:
        if merge_lines(window.sectors, first, count, LINE_128, cache.lines, cache.masks) > program.packed[pc]:
            cache.count[pc, DIVERGENT] += 1
    back = now
    if kind == IS_ATOMIC:
        back = _atomic(machine, window, state, sm, first, count, pc, now)
    else:
        n = merge_lines(window.sectors, first, count, machine.l1_line, cache.lines, cache.masks)
        if kind == IS_LOAD:
            back = _load(machine, state, sm, n, pc, now)
        else:
            # Lanes are known where the block was entered; with fewer bytes than its sectors hold, some sector is only partly written.
            whole = np.int64(program.path_lanes[row[ENTRY]]) * program.access_bytes[pc] >= 32 * count
            _store(machine, state, sm, n, whole, pc, now)
    index = program.load_index[pc]
    if index >= 0:
        state.warp.load_ready[slot, index] = back
