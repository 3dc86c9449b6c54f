"""The compiled main loop: turn after turn, the SM whose clock is lowest lets one of its warps do one thing."""

from __future__ import annotations

import numba

from warpsight.caches.access import access
from warpsight.caches.geometry import GTO, Machine
from warpsight.caches.program import Program
from warpsight.caches.schedule import pick, pick_all
from warpsight.caches.state import (
    BAD_WARP,
    DO_BARRIER,
    DO_EXIT,
    DO_MEMORY,
    ID,
    KIND,
    LIVE_WARPS,
    NEVER,
    NEXT_BLOCK,
    QUEUE_HEAD,
    QUEUE_TAIL,
    TURNS,
    State,
)
from warpsight.caches.warps import Window, advance, start_warp

DONE, NEED_BLOCK, PAUSED, BAD_TRACE = range(4)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _launch_blocks(machine: Machine, program: Program, window: Window, state: State) -> bool:
    """Give free block slots the next blocks; False when the next block is not in the window."""
    cell, sms = state.control.cell, state.sm
    places = len(state.control.since)
    while cell[QUEUE_HEAD] < cell[QUEUE_TAIL] and cell[NEXT_BLOCK] < machine.blocks:
        warp = cell[NEXT_BLOCK] * machine.warps_per_block
        if warp + machine.warps_per_block > window.first + len(window.path):
            return False
        at = cell[QUEUE_HEAD] % places
        sm, place, since = state.control.queue[at, 0], state.control.queue[at, 1], state.control.since[at]
        cell[QUEUE_HEAD] += 1
        cell[NEXT_BLOCK] += 1
        sms.block_live[sm, place] = machine.warps_per_block
        sms.block_waiting[sm, place] = 0
        sms.order[sm, sms.resident[sm]] = place
        sms.resident[sm] += 1
        cell[LIVE_WARPS] += machine.warps_per_block
        slot = sm * machine.slots + place * machine.warps_per_block
        for k in range(machine.warps_per_block):
            start_warp(machine, program, window, state, slot + k, warp + k, since)
        pick_all(machine, state, sm)
    return True


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _free_block(machine: Machine, state: State, sm: int, place: int, now: float) -> None:
    sms, cell = state.sm, state.control.cell
    at = 0
    while sms.order[sm, at] != place:
        at += 1
    sms.resident[sm] -= 1
    for k in range(at, sms.resident[sm]):
        sms.order[sm, k] = sms.order[sm, k + 1]
    tail = cell[QUEUE_TAIL] % len(state.control.since)
    cell[QUEUE_TAIL] += 1
    state.control.queue[tail, 0] = sm
    state.control.queue[tail, 1] = place
    state.control.since[tail] = now


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _open_barrier(machine: Machine, program: Program, window: Window, state: State, sm: int, place: int, now: float) -> None:
    """Let all warps of a block that wait at a barrier go on."""
    state.sm.block_waiting[sm, place] = 0
    first = sm * machine.slots + place * machine.warps_per_block
    for slot in range(first, first + machine.warps_per_block):
        if state.warp.row[slot, ID] >= 0 and state.warp.row[slot, KIND] == DO_BARRIER and state.warp.eligible[slot] == NEVER:
            advance(machine, program, window, state, slot, now)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _arrive_or_exit(machine: Machine, program: Program, window: Window, state: State, sm: int, slot: int, now: float) -> None:
    """A warp reaches a barrier or its end; either can complete its block's barrier."""
    sms = state.sm
    place = (slot - sm * machine.slots) // machine.warps_per_block
    state.warp.eligible[slot] = NEVER
    if state.warp.row[slot, KIND] == DO_BARRIER:
        sms.block_waiting[sm, place] += 1
    else:
        state.warp.row[slot, ID] = -1
        sms.block_live[sm, place] -= 1
        state.control.cell[LIVE_WARPS] -= 1
    if sms.block_live[sm, place] == 0:
        _free_block(machine, state, sm, place, now)
    elif sms.block_waiting[sm, place] == sms.block_live[sm, place]:
        _open_barrier(machine, program, window, state, sm, place, now)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _break_barriers(machine: Machine, program: Program, window: Window, state: State) -> None:
    """Nobody can go on: barriers for part of a block, which the trace does not tell apart. Open those that are waited at."""
    for sm in range(machine.sm_count):
        for place in range(machine.blocks_per_sm):
            if state.sm.block_waiting[sm, place] > 0:
                _open_barrier(machine, program, window, state, sm, place, state.sm.clock[sm * machine.schedulers])
        pick_all(machine, state, sm)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _turn(machine: Machine, program: Program, window: Window, state: State, issuer: int) -> None:
    """One warp of `issuer` does what it stands at, and the issuer chooses its next one."""
    sms = state.sm
    sm = issuer // machine.schedulers
    place = sms.picked[issuer]
    slot = sm * machine.slots + place
    kind, now = state.warp.row[slot, KIND], sms.key[issuer]
    sms.clock[issuer] = now if kind == DO_EXIT else now + machine.issue_cost
    # A greedy scheduler must not favour whichever warp next moves into the slot of one that ended.
    sms.last[issuer] = -1 if kind == DO_EXIT and machine.policy == GTO else place
    if kind == DO_MEMORY:
        access(machine, program, window, state, sm, slot, now)
        advance(machine, program, window, state, slot, now)
        pick(machine, state, issuer)
    else:
        _arrive_or_exit(machine, program, window, state, sm, slot, now)
        pick_all(machine, state, sm)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def run(machine: Machine, program: Program, window: Window, state: State, turns: int) -> int:
    """Go on until the launch is done, a block is missing in the window, the trace contradicts itself, or `turns` turns were taken."""
    cell = state.control.cell
    until = cell[TURNS] + turns
    while cell[BAD_WARP] < 0:
        if not _launch_blocks(machine, program, window, state):
            return NEED_BLOCK
        issuer = state.sm.winner[1]
        if state.sm.key[issuer] == NEVER:
            if cell[LIVE_WARPS] == 0:
                return DONE if cell[BAD_WARP] < 0 else BAD_TRACE
            _break_barriers(machine, program, window, state)
            continue
        if cell[TURNS] >= until:
            return PAUSED
        cell[TURNS] += 1
        _turn(machine, program, window, state, issuer)
    return BAD_TRACE
