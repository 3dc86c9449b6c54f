"""Blocks on SMs: launching them in free places, the barriers of their warps, and their end."""

from __future__ import annotations

from warpsight.addressing.integers import quotient
from warpsight.caches.compiled import compiled, inlined
from warpsight.timing import layout as at
from warpsight.timing.layout import Ints
from warpsight.timing.paths import enter
from warpsight.timing.wakeups import fetch, schedule


@inlined
def place_row(p: Ints, sm: int, slot: int) -> int:
    """Where the row of the place that `slot` belongs to begins."""
    return int(p[at.PLACE] + (sm * p[at.PLACES] + quotient(slot, p[at.WARPS_PER_BLOCK])) * at.PLACE_WIDTH)


@compiled
def start_block(p: Ints, s: Ints, warps: Ints, sm: int, place: int, now: int) -> None:
    """Put the next block of the grid into a free place; its warps can issue from `now` + 1 on."""
    cell, per_block = p[at.CELL], p[at.WARPS_PER_BLOCK]
    memory = p[at.SM] + sm * at.SM_WIDTH
    first = s[cell + at.NEXT_BLOCK] * per_block
    s[cell + at.NEXT_BLOCK] += 1
    s[cell + at.LIVE_WARPS] += per_block
    s[p[at.ORDER] + sm * p[at.PLACES] + s[memory + at.RESIDENT]] = place
    s[memory + at.RESIDENT] += 1
    row = p[at.PLACE] + (sm * p[at.PLACES] + place) * at.PLACE_WIDTH
    s[row + at.LIVE], s[row + at.AT_BARRIER] = per_block, 0
    for k in range(per_block):
        slot = place * per_block + k
        warp = p[at.WARP] + (sm * p[at.SLOTS] + slot) * at.WARP_WIDTH
        source = (first + k - s[cell + at.FIRST_WARP]) * at.WINDOW_WIDTH
        s[warp + at.ID] = first + k
        s[warp + at.ENTRY], s[warp + at.END] = warps[source + at.W_ENTRY], warps[source + at.W_END]
        s[warp + at.EVENT], s[warp + at.EVENT_END] = warps[source + at.W_EVENT], warps[source + at.W_EVENT_END]
        s[warp + at.SECTOR], s[warp + at.SECTOR_END] = warps[source + at.W_SECTOR], warps[source + at.W_SECTOR_END]
        s[warp + at.TAKEN], s[warp + at.OUTSTANDING] = s[warp + at.SECTOR], 0
        values = p[at.READY] + (sm * p[at.SLOTS] + slot) * p[at.REGISTERS]
        for register in range(values, values + p[at.REGISTERS]):
            s[register] = 0
        s[warp + at.FETCHED_AT] = 0
        if p[at.FETCH_WIDTH] > 0:
            fetch(p, s, sm, warp, now)
        if enter(p, s, warp):
            schedule(p, s, sm, slot, now + 1, now, at.CAUSE_START)
        else:
            ended(p, s, sm, slot, warp, now)


@inlined
def _open_barrier(p: Ints, s: Ints, sm: int, place: int, now: int) -> None:
    """Let all warps of a block that stand at its barrier go on."""
    s[p[at.PLACE] + (sm * p[at.PLACES] + place) * at.PLACE_WIDTH + at.AT_BARRIER] = 0
    first = place * p[at.WARPS_PER_BLOCK]
    for slot in range(first, first + p[at.WARPS_PER_BLOCK]):
        warp = p[at.WARP] + (sm * p[at.SLOTS] + slot) * at.WARP_WIDTH
        if s[warp + at.ID] >= 0 and s[warp + at.STATE] == at.STANDS:
            schedule(p, s, sm, slot, now + 1, now, at.CAUSE_BARRIER)


@compiled
def arrive_at_barrier(p: Ints, s: Ints, sm: int, slot: int, warp: int, now: int) -> None:
    """The warp has issued a barrier: it waits until all warps of its block that have not ended have come."""
    row = place_row(p, sm, slot)
    s[warp + at.STATE] = at.STANDS
    s[row + at.AT_BARRIER] += 1
    if s[row + at.AT_BARRIER] == s[row + at.LIVE]:
        _open_barrier(p, s, sm, quotient(slot, p[at.WARPS_PER_BLOCK]), now)


@compiled
def break_barriers(p: Ints, s: Ints, now: int) -> None:
    """Nobody can go on: barriers for a part of a block, which the trace does not tell apart. Open those that are waited at."""
    for sm in range(p[at.SM_COUNT]):
        for place in range(p[at.PLACES]):
            if s[p[at.PLACE] + (sm * p[at.PLACES] + place) * at.PLACE_WIDTH + at.AT_BARRIER] > 0:
                _open_barrier(p, s, sm, place, now)


@compiled
def ended(p: Ints, s: Ints, sm: int, slot: int, warp: int, now: int) -> None:
    """The warp has no instructions left. It leaves when its accesses are done; the last one of a block frees its place."""
    if s[warp + at.EVENT] != s[warp + at.EVENT_END] or s[warp + at.TAKEN] != s[warp + at.SECTOR_END]:
        s[p[at.CELL] + at.BAD_WARP] = s[warp + at.ID]
        return
    s[warp + at.STATE] = at.DRAINS
    if s[warp + at.OUTSTANDING] > 0:
        return
    row = place_row(p, sm, slot)
    s[warp + at.ID] = -1
    s[row + at.LIVE] -= 1
    s[p[at.CELL] + at.LIVE_WARPS] -= 1
    s[p[at.CELL] + at.LAST_END] = now
    if s[row + at.LIVE] == 0:
        _free_place(p, s, sm, quotient(slot, p[at.WARPS_PER_BLOCK]), row, now)
    elif s[row + at.AT_BARRIER] == s[row + at.LIVE]:
        _open_barrier(p, s, sm, quotient(slot, p[at.WARPS_PER_BLOCK]), now)


@inlined
def _free_place(p: Ints, s: Ints, sm: int, place: int, row: int, now: int) -> None:
    """Take the block out of the order of age; the block distributor finds the place in the next cycle."""
    memory, order = p[at.SM] + sm * at.SM_WIDTH, p[at.ORDER] + sm * p[at.PLACES]
    age = 0
    while s[order + age] != place:
        age += 1
    s[memory + at.RESIDENT] -= 1
    for k in range(age, s[memory + at.RESIDENT]):
        s[order + k] = s[order + k + 1]
    s[row + at.LIVE] = -1
    s[row + at.PLACE_SINCE] = now
    s[p[at.CELL] + at.WANT_BLOCK] += 1


@compiled
def hand_out(p: Ints, s: Ints, warps: Ints, now: int) -> bool:
    """One block to each SM that has a free place; False when the next block is not in the window."""
    cell = p[at.CELL]
    for sm in range(s[cell + at.DISPATCH_SM], p[at.SM_COUNT]):
        s[cell + at.DISPATCH_SM] = sm
        if s[cell + at.NEXT_BLOCK] >= p[at.GRID]:
            s[cell + at.WANT_BLOCK] = 0
            break
        for place in range(p[at.PLACES]):
            row = p[at.PLACE] + (sm * p[at.PLACES] + place) * at.PLACE_WIDTH
            if s[row + at.LIVE] < 0 and s[row + at.PLACE_SINCE] < now:
                if (s[cell + at.NEXT_BLOCK] + 1) * p[at.WARPS_PER_BLOCK] > s[cell + at.LAST_WARP]:
                    return False
                s[cell + at.WANT_BLOCK] -= 1
                start_block(p, s, warps, sm, place, now)
                break
    s[cell + at.DISPATCH_SM] = 0
    return True
