"""Warps and blocks on SMs: how a warp goes from one stop to the next along its path; launches, barriers and ends of blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.integers import quotient, signed
from warpsight.base.compiled import compiled, inlined
from warpsight.caches.exact.layout import (
    ACCESS,
    ARRIVE,
    BAD_WARP,
    BARRIER,
    BLOCK,
    BLOCK_WIDTH,
    BLOCKS_PER_SM,
    CELL,
    CLOCK,
    CODE,
    CODE_WIDTH,
    COST,
    COUNT,
    COUNTERS,
    DO_BARRIER,
    DO_EXIT,
    DO_MEMORY,
    ELIGIBLE,
    END,
    ENTRY,
    EVENT,
    EVENT_BYTES,
    EVENT_END,
    FIRST_WARP,
    GAP,
    GRID,
    HAS_DEGREE,
    HAS_SECTORS,
    HELD,
    ID,
    IS_ATOMIC,
    ISSUE_COST,
    KIND,
    LAST_WARP,
    LIVE,
    LIVE_WARPS,
    LOADS,
    NEVER,
    NEXT,
    NEXT_BLOCK,
    ORDER,
    PATH,
    PATH_WIDTH,
    PC,
    PENDING,
    QUEUE,
    QUEUE_HEAD,
    QUEUE_TAIL,
    QUEUE_WIDTH,
    READY,
    REPEAT,
    REPEATS_HERE,
    RESIDENT,
    SCHEDULERS,
    SECTOR,
    SECTOR_END,
    SECTORS_HERE,
    SHARED_EXECUTIONS,
    SHARED_PASSES,
    SLOTS,
    SM_COUNT,
    STOP,
    STOP_WIDTH,
    TAKEN,
    W_END,
    W_ENTRY,
    W_EVENT,
    W_EVENT_END,
    W_SECTOR,
    W_SECTOR_END,
    WAIT,
    WAITING,
    WARP,
    WARP_WIDTH,
    WARPS_PER_BLOCK,
    WINDOW_WIDTH,
    Ints,
)
from warpsight.caches.exact.scheduler import pick_all

Events = npt.NDArray[np.uint8]


@inlined
def _take_event(p: Ints, s: Ints, events: Events, row: int, pc: int) -> int:
    """Read the warp's next event, of instruction `pc`, and keep an atomic's repeats.

    Gives its number of sectors, or -1 where the trace contradicts its path.
    """
    code = p[CODE] + pc * CODE_WIDTH
    at = s[row + EVENT]
    s[row + EVENT] = at + s[code + EVENT_BYTES]
    if s[row + EVENT] > s[row + EVENT_END]:
        return -1
    sectors = 0
    if s[code + HAS_SECTORS] != 0:
        sectors = signed(events[at])
        at += 1
    if s[code + HAS_DEGREE] != 0 and events[at] > 0:
        s[p[COUNT] + pc * COUNTERS + SHARED_EXECUTIONS] += 1
        s[p[COUNT] + pc * COUNTERS + SHARED_PASSES] += signed(events[at])
    s[row + REPEATS_HERE] = 0
    if s[code + ACCESS] == IS_ATOMIC:
        # the event's last byte: most lanes that share one address, 0 where none is active
        s[row + REPEATS_HERE] = max(0, signed(events[s[row + EVENT] - 1]) - 1)
    s[row + TAKEN] += sectors
    return sectors if s[row + TAKEN] <= s[row + SECTOR_END] else -1


@inlined
def _stand(p: Ints, s: Ints, slot: int, kind: int, gap: int, since_wait: int, now: int) -> None:
    """Let the warp stand at a stop that it reaches at `now`, after `gap` instructions, `since_wait` of them after its last wait."""
    row = p[WARP] + slot * WARP_WIDTH
    s[row + KIND] = kind
    s[row + GAP] = gap
    s[row + ARRIVE] = now
    # What the warp issues on the way takes its turns while it waits, so it can be picked that much earlier. A warp's accesses leave
    # in order, and only one of them can wait for the load-store unit: the next is issued when that one has got there.
    at_once = kind == DO_BARRIER or (kind != HELD and s[row + PENDING] == 0)
    s[p[ELIGIBLE] + slot] = now - since_wait * p[ISSUE_COST] if at_once else NEVER


@inlined
def _enter(p: Ints, s: Ints, row: int) -> None:
    """Begin the path entry that the warp has come to, if there is one left."""
    if s[row + ENTRY] < s[row + END]:
        entry = p[PATH] + s[row + ENTRY] * PATH_WIDTH
        s[row + REPEAT] = s[entry + 2]
        s[row + NEXT] = s[p[BLOCK] + s[entry] * BLOCK_WIDTH]


@inlined
def _leave(p: Ints, s: Ints, row: int, block: int) -> int:
    """Leave a basic block; gives how often its tail was passed. A block without stops is passed as often as it repeats."""
    passed = s[row + REPEAT]
    if s[block] < s[block + BLOCK_WIDTH]:
        passed = 1
        s[row + REPEAT] -= 1
        s[row + NEXT] = s[block]
        if s[row + REPEAT] > 0:
            return int(passed)
    s[row + ENTRY] += 1
    _enter(p, s, row)
    return int(passed)


@compiled
def advance(p: Ints, s: Ints, events: Events, slot: int, now: int) -> None:
    """Bring the warp in `slot`, which goes on at `now`, to its next stop that needs a turn: a request, a barrier or its end.

    Its `GAP` are instructions that it came past since its last turn. If it goes on later than it arrived, it has waited since.
    Shared-memory accesses, accesses without an active lane and data that is already there are passed on the way.
    """
    row = p[WARP] + slot * WARP_WIDTH
    gap = s[row + GAP]
    since_wait = 0 if now > s[row + ARRIVE] else gap
    while s[row + ENTRY] < s[row + END]:
        block = p[BLOCK] + s[p[PATH] + s[row + ENTRY] * PATH_WIDTH] * BLOCK_WIDTH
        while s[row + NEXT] < s[block + BLOCK_WIDTH]:
            stop = p[STOP] + s[row + NEXT] * STOP_WIDTH
            s[row + NEXT] += 1
            kind, item = s[stop], s[stop + 1]
            gap += s[stop + 2]
            since_wait += s[stop + 2]
            now += s[stop + 3]
            if kind == WAIT:
                ready = s[p[READY] + slot * p[LOADS] + item]
                if ready == NEVER:
                    s[row + PC] = item
                    _stand(p, s, slot, HELD, gap, since_wait, now)
                    return
                if ready > now:
                    now, since_wait = ready, 0
                continue
            if kind == BARRIER:
                _stand(p, s, slot, DO_BARRIER, gap, since_wait, now)
                return
            sectors = _take_event(p, s, events, row, item)
            if sectors < 0:
                s[p[CELL] + BAD_WARP] = s[row + ID]
            elif sectors > 0:
                s[row + PC] = item
                s[row + SECTORS_HERE] = sectors
                _stand(p, s, slot, DO_MEMORY, gap, since_wait, now)
                return
            gap += s[p[CODE] + item * CODE_WIDTH + COST]
            since_wait += s[p[CODE] + item * CODE_WIDTH + COST]
        passed = _leave(p, s, row, block)
        gap += passed * s[block + 1]
        since_wait += passed * s[block + 1]
        now += passed * s[block + 2]
    if s[row + EVENT] != s[row + EVENT_END] or s[row + TAKEN] != s[row + SECTOR_END]:
        s[p[CELL] + BAD_WARP] = s[row + ID]
    _stand(p, s, slot, DO_EXIT, gap, since_wait, now)


@inlined
def served(p: Ints, s: Ints, events: Events, slot: int, load: int, back: int, now: int) -> None:
    """The load-store unit has done, by `now`, an access of the warp in `slot`; load `load` (-1: none) has its data at `back`."""
    row = p[WARP] + slot * WARP_WIDTH
    s[row + PENDING] -= 1
    if load >= 0:
        s[p[READY] + slot * p[LOADS] + load] = back
        if s[row + KIND] == HELD and s[row + PC] == load:
            advance(p, s, events, slot, max(back, s[row + ARRIVE]))
    kind = s[row + KIND]
    if s[row + PENDING] == 0 and s[p[ELIGIBLE] + slot] == NEVER and kind in (DO_EXIT, DO_MEMORY):
        on_the_way = s[row + GAP] * p[ISSUE_COST] if kind == DO_MEMORY else 0
        s[p[ELIGIBLE] + slot] = max(now, s[row + ARRIVE]) - on_the_way


@compiled
def start_warp(p: Ints, s: Ints, warps: Ints, events: Events, slot: int, warp: int, now: int) -> None:
    """Put `warp`, which the window `warps` holds, into `slot` and bring it to its first stop."""
    row = p[WARP] + slot * WARP_WIDTH
    at = (warp - s[p[CELL] + FIRST_WARP]) * WINDOW_WIDTH
    s[row + ID] = warp
    s[row + ENTRY] = warps[at + W_ENTRY]
    s[row + END] = warps[at + W_END]
    s[row + EVENT] = warps[at + W_EVENT]
    s[row + EVENT_END] = warps[at + W_EVENT_END]
    s[row + SECTOR] = warps[at + W_SECTOR]
    s[row + SECTOR_END] = warps[at + W_SECTOR_END]
    s[row + TAKEN], s[row + PENDING] = s[row + SECTOR], 0
    _enter(p, s, row)
    for load in range(p[LOADS]):
        s[p[READY] + slot * p[LOADS] + load] = 0
    s[row + GAP] = 0
    advance(p, s, events, slot, now)


# -- Blocks on SMs: launching them in free places, and the barriers and ends of their warps.

@compiled
def launch_blocks(p: Ints, s: Ints, warps: Ints, events: Events) -> bool:
    """Give free places the next blocks; False when the next block is not in the window."""
    cell, per_block = p[CELL], p[WARPS_PER_BLOCK]
    while s[cell + QUEUE_HEAD] < s[cell + QUEUE_TAIL] and s[cell + NEXT_BLOCK] < p[GRID]:
        warp = s[cell + NEXT_BLOCK] * per_block
        if warp + per_block > s[cell + LAST_WARP]:
            return False
        free = p[QUEUE] + s[cell + QUEUE_HEAD] % (p[SM_COUNT] * p[BLOCKS_PER_SM]) * QUEUE_WIDTH
        sm, place, since = s[free], s[free + 1], s[free + 2]
        s[cell + QUEUE_HEAD] += 1
        s[cell + NEXT_BLOCK] += 1
        s[cell + LIVE_WARPS] += per_block
        s[p[LIVE] + sm * p[BLOCKS_PER_SM] + place] = per_block
        s[p[ORDER] + sm * p[BLOCKS_PER_SM] + s[p[RESIDENT] + sm]] = place
        s[p[RESIDENT] + sm] += 1
        for k in range(per_block):
            start_warp(p, s, warps, events, sm * p[SLOTS] + place * per_block + k, warp + k, since)
        pick_all(p, s, sm)
    return True


@compiled
def _free_place(p: Ints, s: Ints, sm: int, place: int, now: int) -> None:
    cell, order = p[CELL], p[ORDER] + sm * p[BLOCKS_PER_SM]
    age = 0
    while s[order + age] != place:
        age += 1
    s[p[RESIDENT] + sm] -= 1
    for k in range(age, s[p[RESIDENT] + sm]):
        s[order + k] = s[order + k + 1]
    free = p[QUEUE] + s[cell + QUEUE_TAIL] % (p[SM_COUNT] * p[BLOCKS_PER_SM]) * QUEUE_WIDTH
    s[cell + QUEUE_TAIL] += 1
    s[free], s[free + 1], s[free + 2] = sm, place, now


@compiled
def _open_barrier(p: Ints, s: Ints, events: Events, sm: int, place: int, now: int) -> None:
    """Let all warps of a block that wait at a barrier go on."""
    s[p[WAITING] + sm * p[BLOCKS_PER_SM] + place] = 0
    first = sm * p[SLOTS] + place * p[WARPS_PER_BLOCK]
    for slot in range(first, first + p[WARPS_PER_BLOCK]):
        row = p[WARP] + slot * WARP_WIDTH
        if s[row + ID] >= 0 and s[row + KIND] == DO_BARRIER and s[p[ELIGIBLE] + slot] == NEVER:
            s[row + GAP] = 0
            advance(p, s, events, slot, now)


@compiled
def arrive_or_end(p: Ints, s: Ints, events: Events, sm: int, slot: int, now: int) -> None:
    """A warp reaches a barrier or its end; either can complete its block's barrier."""
    place = quotient(slot - sm * p[SLOTS], p[WARPS_PER_BLOCK])
    live, waiting = p[LIVE] + sm * p[BLOCKS_PER_SM] + place, p[WAITING] + sm * p[BLOCKS_PER_SM] + place
    row = p[WARP] + slot * WARP_WIDTH
    s[p[ELIGIBLE] + slot] = NEVER
    if s[row + KIND] == DO_BARRIER:
        s[waiting] += 1
    else:
        s[row + ID] = -1
        s[live] -= 1
        s[p[CELL] + LIVE_WARPS] -= 1
    if s[live] == 0:
        _free_place(p, s, sm, place, now)
    elif s[waiting] == s[live]:
        _open_barrier(p, s, events, sm, place, now)


@compiled
def break_barriers(p: Ints, s: Ints, events: Events) -> None:
    """Nobody can go on: barriers for a part of a block, which the trace does not tell apart. Open those that are waited at."""
    for sm in range(p[SM_COUNT]):
        for place in range(p[BLOCKS_PER_SM]):
            if s[p[WAITING] + sm * p[BLOCKS_PER_SM] + place] > 0:
                _open_barrier(p, s, events, sm, place, s[p[CLOCK] + sm * p[SCHEDULERS]])
        pick_all(p, s, sm)
