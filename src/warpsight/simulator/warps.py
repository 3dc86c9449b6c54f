"""Warps and blocks on SMs: the next instruction of a warp, when it can issue; launches, barriers and ends of blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.integers import quotient, signed
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import layout as at
from warpsight.simulator.layout import Ints

Events = npt.NDArray[np.uint8]
Sectors = npt.NDArray[np.uint32]


@inlined
def enter(p: Ints, s: Ints, row: int) -> bool:
    """Stand at the first instruction of the path entry that the warp has come to; False if none is left."""
    while s[row + at.ENTRY] < s[row + at.END]:
        entry = p[at.PATH] + s[row + at.ENTRY] * at.PATH_WIDTH
        block = p[at.BLOCK] + s[entry]
        s[row + at.LIVE_LANES] = s[entry + 1]
        s[row + at.REPEAT] = s[entry + 2]
        s[row + at.PC], s[row + at.BLOCK_END] = s[block], s[block + 1]
        if s[row + at.REPEAT] > 0 and s[block] < s[block + 1]:
            return True
        s[row + at.ENTRY] += 1
    return False


@inlined
def step(p: Ints, s: Ints, row: int) -> bool:
    """Go on to the next instruction; False if there is none."""
    s[row + at.PC] += 1
    if s[row + at.PC] < s[row + at.BLOCK_END]:
        return True
    s[row + at.REPEAT] -= 1
    if s[row + at.REPEAT] > 0:
        s[row + at.PC] = s[p[at.BLOCK] + s[p[at.PATH] + s[row + at.ENTRY] * at.PATH_WIDTH]]
        return True
    s[row + at.ENTRY] += 1
    return bool(enter(p, s, row))


@inlined
def take_event(p: Ints, s: Ints, events: Events, row: int, pc: int) -> int:
    """Read the warp's next event, of instruction `pc`: sectors | degree << 8 | most lanes that share an address << 16.

    -1 where the trace contradicts its path.
    """
    code = p[at.CODE] + pc * at.CODE_WIDTH
    place = s[row + at.EVENT]
    s[row + at.EVENT] = place + s[code + at.EVENT_BYTES]
    if s[row + at.EVENT] > s[row + at.EVENT_END]:
        return -1
    found = 0
    if s[code + at.HAS_SECTORS] != 0:
        found = signed(events[place])
        place += 1
    s[row + at.TAKEN] += found
    if s[row + at.TAKEN] > s[row + at.SECTOR_END]:
        return -1
    if s[code + at.HAS_DEGREE] != 0:
        found |= signed(events[place]) << 8
        place += 1
    if s[code + at.ACCESS] == at.IS_ATOMIC:
        found |= signed(events[place]) << 16
    return found


# -- When warps can issue next: the registers they wait for, and each scheduler's wheel of wake-ups.
#
# Slot `i` of an SM belongs to scheduler `i % schedulers`, bit `i // schedulers` of its masks. A warp whose next instruction has all
# its operands at a known time lies in the wheel until then, and in the ready mask afterwards. The wheel spans `WHEEL` cycles; what
# wakes up later goes round it again (`FAR`).

@inlined
def warp_row(p: Ints, sm: int, slot: int) -> int:
    """Where the row of the warp in `slot` begins."""
    return int(p[at.WARP] + (sm * p[at.SLOTS] + slot) * at.WARP_WIDTH)


@inlined
def operands_ready(p: Ints, s: Ints, sm: int, slot: int, pc: int) -> int:
    """When all registers that `pc` reads or writes are there; NEVER while a load under way is to write one of them."""
    code = p[at.CODE] + pc * at.CODE_WIDTH
    first = p[at.REGS] + s[code + at.FIRST_REG]
    values = p[at.READY] + (sm * p[at.SLOTS] + slot) * p[at.REGISTERS]
    ready = 0
    for k in range(first, first + s[code + at.REG_COUNT]):
        ready = max(ready, s[values + s[k]])
    return ready


@inlined
def put_in_wheel(p: Ints, s: Ints, sm: int, slot: int, when: int, now: int) -> None:
    """Let the warp become ready at `when`, after `now`."""
    scheduler = slot % p[at.SCHEDULERS]
    row = p[at.SCHED] + (sm * p[at.SCHEDULERS] + scheduler) * at.SCHED_WIDTH
    bit = 1 << quotient(slot, p[at.SCHEDULERS])
    place = when
    if when - now >= at.WHEEL:
        place = now + at.WHEEL - 1
        s[row + at.FAR] |= bit
    spoke = place & (at.WHEEL - 1)
    s[p[at.SLOT_WHEEL] + (sm * p[at.SCHEDULERS] + scheduler) * at.WHEEL + spoke] |= bit
    s[row + at.OCCUPIED] |= 1 << spoke
    following = p[at.NEXT_SCHEDULER] + sm * p[at.SCHEDULERS] + scheduler
    s[following] = min(s[following], place)


@inlined
def fetch(p: Ints, s: Ints, sm: int, row: int, from_cycle: int) -> None:
    """Fill the warp's instruction buffer: one warp of the SM a cycle, decoded in the next, to be issued in the one after that."""
    memory = p[at.SM] + sm * at.SM_WIDTH
    when = max(from_cycle, s[memory + at.FETCH_NEXT])
    s[memory + at.FETCH_NEXT] = when + 1
    s[row + at.FETCHED_AT] = when + 2
    s[row + at.BUFFERED] = p[at.FETCH_WIDTH]


@compiled
def schedule(p: Ints, s: Ints, sm: int, slot: int, earliest: int, now: int, cause: int) -> None:
    """The warp stands at its next instruction and can issue from `earliest` (> `now`) on, if its operands are there."""
    row = warp_row(p, sm, slot)
    pc = s[row + at.PC]
    ready = operands_ready(p, s, sm, slot, pc)
    scheduler = slot % p[at.SCHEDULERS]
    bit = 1 << quotient(slot, p[at.SCHEDULERS])
    unit = s[p[at.CODE] + pc * at.CODE_WIDTH + at.UNIT]
    s[p[at.WANTS] + (sm * p[at.SCHEDULERS] + scheduler) * p[at.UNITS] + unit] |= bit
    if ready >= at.NEVER:
        s[row + at.STATE] = at.NEEDS_DATA
        return
    s[row + at.STATE] = at.RUNS
    when = max(ready, earliest, s[row + at.FETCHED_AT])
    s[row + at.CAUSE] = cause if when == earliest else (at.CAUSE_ALU if when == ready else at.CAUSE_FETCH)
    s[row + at.READY_AT] = when
    put_in_wheel(p, s, sm, slot, when, now)


@compiled
def data_came(p: Ints, s: Ints, sm: int, slot: int, pc: int, when: int, now: int, cause: int) -> None:
    """The registers that `pc` writes are there at `when`; a warp that waits for them goes on."""
    code = p[at.CODE] + pc * at.CODE_WIDTH
    first = p[at.REGS] + s[code + at.FIRST_REG]
    values = p[at.READY] + (sm * p[at.SLOTS] + slot) * p[at.REGISTERS]
    for k in range(first, first + s[code + at.WRITES]):
        s[values + s[k]] = when
    row = warp_row(p, sm, slot)
    if s[row + at.STATE] == at.NEEDS_DATA:
        ready = operands_ready(p, s, sm, slot, s[row + at.PC])
        if ready < at.NEVER:
            s[row + at.STATE] = at.RUNS
            s[row + at.CAUSE] = cause
            s[row + at.READY_AT] = max(ready, now + 1, s[row + at.FETCHED_AT])
            put_in_wheel(p, s, sm, slot, s[row + at.READY_AT], now)


# -- Blocks on SMs: launching them in free places, the barriers of their warps, and their end.

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
