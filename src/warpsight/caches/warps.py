"""How a warp goes from one stop to the next along its path, and what it does to the counters on the way."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from warpsight.caches.counters import SHARED_EXECUTIONS, SHARED_PASSES
from warpsight.caches.geometry import Machine
from warpsight.caches.program import BARRIER, SECTORS, WAIT, Program
from warpsight.caches.state import (
    BAD_WARP,
    COUNT,
    DO_BARRIER,
    DO_EXIT,
    DO_MEMORY,
    END,
    ENTRY,
    EVENT,
    EVENT_END,
    GAP,
    ID,
    KIND,
    PC,
    REPEAT,
    SECTOR,
    SECTOR_END,
    STOP,
    Ints,
    State,
)


class Window(NamedTuple):
    """The part of the trace that is in memory: warps `first` .. `first + len(path)`, and what is left of the resident warps' streams.

    `path_begin` is `PathTable.offset`; the other arrays as in `TraceChunk`.
    """

    first: int
    path: npt.NDArray[np.int32]
    path_begin: Ints
    event_offset: Ints
    events: npt.NDArray[np.uint8]
    sector_offset: Ints
    sectors: npt.NDArray[np.uint32]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _take_event(program: Program, window: Window, state: State, slot: int, pc: int) -> int:
    """Read the next event of the warp in `slot`; gives its number of sectors, or -1 when the trace ends too early."""
    row = state.warp.row[slot]
    at = row[EVENT]
    row[EVENT] = at + program.event_bytes[pc]
    if row[EVENT] > row[EVENT_END]:
        return -1
    sectors = 0
    if program.has_sectors[pc]:
        sectors = np.int64(window.events[at])
        at += 1
    if program.has_degree[pc]:
        passes = np.int64(window.events[at])
        if passes > 0:
            state.cache.count[pc, SHARED_EXECUTIONS] += 1
            state.cache.count[pc, SHARED_PASSES] += passes
    if row[SECTOR] + sectors > row[SECTOR_END]:
        return -1
    return sectors


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _stop_here(machine: Machine, state: State, slot: int, kind: int, gap: int, since_wait: int, now: float) -> None:
    row = state.warp.row[slot]
    row[KIND] = kind
    row[GAP] = gap
    state.warp.arrive[slot] = now
    # What the warp issues on the way takes its turns while it waits, so it can be picked that much earlier.
    state.warp.eligible[slot] = now - since_wait * machine.issue_cost


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _next_block(program: Program, row: Ints, block: int) -> None:
    """Move to the next basic block of the path; a block without stops is passed as often as it repeats."""
    row[REPEAT] -= 1
    if row[REPEAT] > 0 and program.begin[block] < program.begin[block + 1]:
        row[STOP] = program.begin[block]
        return
    row[ENTRY] += 1
    if row[ENTRY] < row[END]:
        row[REPEAT] = program.path_repeat[row[ENTRY]]
        row[STOP] = program.begin[program.path_block[row[ENTRY]]]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def advance(machine: Machine, program: Program, window: Window, state: State, slot: int, now: float) -> None:
    """Bring the warp in `slot`, which goes on at `now`, to its next stop that needs a turn: a request, a barrier or its end.

    Shared-memory accesses, accesses without an active lane and data that is already there are passed on the way.
    """
    row = state.warp.row[slot]
    gap, since_wait = 0, 0
    while row[ENTRY] < row[END]:
        block = np.int64(program.path_block[row[ENTRY]])
        end = program.begin[block + 1]
        while row[STOP] < end:
            stop = row[STOP]
            row[STOP] = stop + 1
            gap += program.gap[stop]
            since_wait += program.gap[stop]
            now += program.lag[stop]
            kind, item = program.kind[stop], program.item[stop]
            if kind == WAIT:
                ready = state.warp.load_ready[slot, item]
                if ready > now:
                    now, since_wait = ready, 0
                continue
            if kind == BARRIER:
                _stop_here(machine, state, slot, DO_BARRIER, gap, since_wait, now)
                return
            row[PC] = item
            row[COUNT] = _take_event(program, window, state, slot, item)
            if row[COUNT] < 0:
                state.control.cell[BAD_WARP] = row[ID]
                row[COUNT] = 0
            if row[COUNT] > 0:
                _stop_here(machine, state, slot, DO_MEMORY, gap, since_wait, now)
                return
            gap += program.cost[item]
            since_wait += program.cost[item]
        times = np.int64(1) if program.begin[block] < end else row[REPEAT]
        gap += times * program.tail_gap[block]
        since_wait += times * program.tail_gap[block]
        now += times * program.tail_lag[block]
        _next_block(program, row, block)
    if row[EVENT] != row[EVENT_END] or row[SECTOR] != row[SECTOR_END]:
        state.control.cell[BAD_WARP] = row[ID]
    _stop_here(machine, state, slot, DO_EXIT, gap, since_wait, now)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def start_warp(machine: Machine, program: Program, window: Window, state: State, slot: int, warp: int, now: float) -> None:
    """Put `warp`, which the window holds, into `slot` and bring it to its first stop."""
    row = state.warp.row[slot]
    at = warp - window.first
    path = window.path[at]
    row[ID] = warp
    row[ENTRY] = window.path_begin[path]
    row[END] = window.path_begin[path + 1]
    row[EVENT] = window.event_offset[at]
    row[EVENT_END] = window.event_offset[at + 1]
    row[SECTOR] = window.sector_offset[at]
    row[SECTOR_END] = window.sector_offset[at + 1]
    if row[ENTRY] < row[END]:
        row[REPEAT] = program.path_repeat[row[ENTRY]]
        row[STOP] = program.begin[program.path_block[row[ENTRY]]]
    state.warp.load_ready[slot, :] = 0.0
    advance(machine, program, window, state, slot, now)
