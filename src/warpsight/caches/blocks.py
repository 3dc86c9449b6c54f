"""Blocks on SMs: launching them in free places, and the barriers and ends of their warps."""

from __future__ import annotations

from warpsight.addressing.integers import quotient
from warpsight.caches.compiled import compiled
from warpsight.caches.layout import (
    BLOCKS_PER_SM,
    CELL,
    CLOCK,
    DO_BARRIER,
    ELIGIBLE,
    GAP,
    GRID,
    ID,
    KIND,
    LAST_WARP,
    LIVE,
    LIVE_WARPS,
    NEVER,
    NEXT_BLOCK,
    ORDER,
    QUEUE,
    QUEUE_HEAD,
    QUEUE_TAIL,
    QUEUE_WIDTH,
    RESIDENT,
    SCHEDULERS,
    SLOTS,
    SM_COUNT,
    WAITING,
    WARP,
    WARP_WIDTH,
    WARPS_PER_BLOCK,
    Ints,
)
from warpsight.caches.schedule import pick_all
from warpsight.caches.warps import Events, advance, start_warp


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
