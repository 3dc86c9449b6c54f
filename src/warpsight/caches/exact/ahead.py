"""Asks the host's memory for the records of the SMs that act next.

The records of a hundred SMs do not fit the caches nearest to a core of the host. An SM that begins its turn would wait for one
record after the other: a warp, its place in the trace, the line's bucket of the L1, the line. Rounds tell which SMs come next, so
each of these is asked for while other SMs act; each step needs what the step before has brought. No record is changed.
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient
from warpsight.base.compiled import ask_for, compiled, inlined
from warpsight.caches.exact.l1 import ask_for_bucket, ask_for_neighbours, ask_for_way
from warpsight.caches.exact.l2 import ask_for_line, ask_for_set
from warpsight.caches.exact.state import DO_MEMORY, FEW_LOADS, HOST_LINE, IS_LOAD, State, Warp
from warpsight.caches.exact.warps import next_sector


@inlined
def _ask_for_warps(state: State, sm: int) -> None:
    """First step: what an SM has for each warp, and its queue."""
    machine = state.machine
    places, slots, depth = machine.schedulers * machine.scheduler_slots, machine.warp_slots, machine.access_queue
    for place in range(sm * places, (sm + 1) * places, HOST_LINE):
        ask_for(state.eligible, place)
    for slot in range(sm * slots, (sm + 1) * slots):
        ask_for(state.warps, slot)
    for entry in range(sm * depth, (sm + 1) * depth, 3):
        ask_for(state.waiting_accesses, entry)
    ask_for(state.l1_sets, sm * machine.l1.sets)
    ask_for(state.mshrs, 2 * sm * machine.l1_mshrs + state.sms[sm].mshr_tail)


@inlined
def _acts(state: State, warp: Warp, until: int) -> bool:
    """Whether the warp can issue or has an access waiting before `until`."""
    return state.eligible[warp.turn] < until or warp.pending > 0


@inlined
def _ask_for_streams(state: State, sm: int, until: int) -> None:
    """Second step: where the warps stand in the trace, and when their loads are back."""
    slots, loads = state.machine.warp_slots, state.machine.loads
    for slot in range(sm * slots, (sm + 1) * slots):
        warp = state.warps[slot]
        if _acts(state, warp, until):
            ask_for(state.events, warp.event)
            for first in range(warp.sector, warp.sector + 4 * HOST_LINE, 2 * HOST_LINE):
                ask_for(state.sectors, first)
                ask_for(state.sectors, first + warp.sector_period)
            for first in range(0, min(loads, FEW_LOADS), HOST_LINE):
                if warp.in_flight >> first & ((1 << HOST_LINE) - 1) != 0:
                    ask_for(state.load_ready, slot * loads + first)


@inlined
def _note_lines(state: State, warp: Warp, pc: int, sectors: int, known: int) -> int:
    """Note the lines of the warp's next access behind `known` others in `State.upcoming`; returns how many there are now."""
    per_line, beyond = state.machine.l1.line_sectors, 0 if state.code[pc].access == IS_LOAD else 1
    room = quotient(state.machine.lookahead, state.machine.request_ticks)
    before = -1
    for k in range(min(sectors, room - known)):
        line = quotient(next_sector(state, warp, k), per_line)
        if line != before:
            state.upcoming[known] = line << 1 | beyond
            known += 1
        before = line
    return known


@inlined
def _note_upcoming(state: State, sm: int, until: int) -> int:
    """Note the lines of accesses that wait for the load-store unit of `sm` and of those that warps issue next, as many as pass it
    in a round; returns their number.
    """
    machine, lsu, known = state.machine, state.sms[sm].lsu, 0
    for number in range(lsu.length):
        place = lsu.head + number if lsu.head + number < machine.access_queue else lsu.head + number - machine.access_queue
        access = state.waiting_accesses[sm * machine.access_queue + place]
        known = _note_lines(state, state.warps[access.slot], access.pc, access.sectors, known)
    for slot in range(sm * machine.warp_slots, (sm + 1) * machine.warp_slots):
        warp = state.warps[slot]
        if warp.kind == DO_MEMORY and state.eligible[warp.turn] < until:
            known = _note_lines(state, warp, warp.pc, warp.sectors_here, known)
    return known


@inlined
def _ask_for_lines(state: State, sm: int, until: int) -> None:
    """Third step: the lines that the SM looks for in its L1, and of those that are not there the sets of the L2."""
    known = _note_upcoming(state, sm, until) if state.sms[sm].lsu.free_at < until else 0
    per_line, per_l2_line = state.machine.l1.line_sectors, state.machine.l2.line_sectors
    for k in range(known):
        ask_for_bucket(state, sm, state.upcoming[k] >> 1)
    for k in range(known):
        ask_for_way(state, sm, state.upcoming[k] >> 1)
    missing = 0
    for k in range(known):
        line, beyond = state.upcoming[k] >> 1, state.upcoming[k] & 1
        if not ask_for_neighbours(state, sm, line) or beyond == 1:
            state.upcoming[missing] = quotient(line * per_line, per_l2_line)
            ask_for_set(state, state.upcoming[missing])
            missing += 1
    for k in range(missing):
        ask_for_line(state, state.upcoming[k])


@compiled
def look_ahead(state: State, until: int) -> None:
    """Before the next SM of a round that lasts `until`: the steps for the three that follow, those that act in it."""
    machine = state.machine
    for step in range(3):
        following = state.next_sm + 3 - step
        sm = (following + state.rounds * machine.first_sm_step) % machine.sm_count
        if following < machine.sm_count and state.sms[sm].next_event < until:
            if step == 0:
                _ask_for_warps(state, sm)
            elif step == 1:
                _ask_for_streams(state, sm, until)
            else:
                _ask_for_lines(state, sm, until)
