"""The parameters of the compiled reuse-distance model, and the state of one core."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.caches.reuse.structures import Calendar, Ints, Longs, Stacks, new_calendar, new_stacks

# Entries of the parameters, int64.
(
    HIT_LATENCY, MISS_LATENCY, SPREAD, DRAWS, WAYS, LINES, MSHRS, WARP_MSHRS, CLIP, DIVERGENCE, LATENCY, WHOLE, BLOCKS_PER_CORE,
    WARPS_PER_BLOCK, QUEUE, WIDEST, KEPT, KEEP_ALL, LOGGED, SPLIT, AT_END, RULES,
) = range(22)

# Classes of transactions: columns of the counts.
HIT, COMPULSORY, CAPACITY, ASSOCIATIVITY, IN_FLIGHT, CLASSES = range(6)

# A core's cell.
TIME, HEAD, QUEUED, OUTSTANDING, RANDOM, CANCELLED, ARRIVED, ENDED, NUMBER, KNOWN, CELL = range(11)
# The look-up of each transaction of an access: entries of `lookups`.
LOOKUP_CLASS, LOOKUP_DISTANCE, LOOKUP_WHOLE, LOOKUP_LINE, LOOKUP_WIDTH = range(5)

# The log of an attempt to access: a row each.
(
    LOG_TIME, LOG_WARP, LOG_PC, LOG_LINE, LOG_DISTANCE, LOG_CLASS, LOG_USED_BEFORE, LOG_USED_AFTER, LOG_LATENCY, LOG_EFFECT,
    LOG_WIDTH,
) = range(11)
# What is kept of a transaction: a row each.
KEPT_TIME, KEPT_LINE, KEPT_PC, KEPT_CORE, KEPT_DISTANCE, KEPT_CLASS, KEPT_ACCESS, KEPT_WAIT, KEPT_ROWS = range(9)
CANCEL = -1  # LOG_CLASS of a cancelled access


class Stream(NamedTuple):
    """The accesses of a launch, int64 or int32, one cache line size.

    `warp` [warps + 1]: accesses of warp w are `warp[w]` to `warp[w + 1]`; `access` [accesses + 1]: transactions of access a are
    `access[a]` to `access[a + 1]`; `pc` int32 [accesses]; `line` int32 [transactions], dense numbers from 0; `group` uint8
    [transactions], 1 for the first of a group of lanes that look up at once.
    """

    warp: Longs
    access: Longs
    pc: Ints
    line: Ints
    group: npt.NDArray[np.uint8]


class Core(NamedTuple):
    """One core: its stacks, the lines in flight, and its warps.

    Lines are numbered from 1 as the core first requests them, so that its memory grows with its own lines only: `local` int32
    [lines of the launch], 0: never requested; `line_of` int32 the number in the launch; `set_of` int32 [lines of the launch].
    Per line: `flights` int32 requests in flight, `due` int64 the first arrival, `owner` int32 the warp that holds the
    MSHR, `arrived` int64 time of the last arrival, `seen` uint8; each set when the line gets its number. `queue` a ring of
    warps. Shared by the cores: `next` int64 [warps] the next access of each, `part` int64 [warps] transactions of it that are
    issued, `slowest` int64 [warps] when the last of them is back, `held` int32 [warps] MSHRs, `left` int32 [blocks]
    warps that have not ended. `now` int64: lines that arrive in this step. `lookups` int64 [widest access, LOOKUP_WIDTH]: class,
    distance, that in the whole cache, and line.
    """

    local: Ints
    line_of: Ints
    set_of: Ints
    sets: Stacks
    whole: Stacks
    flights: Ints
    due: Longs
    owner: Ints
    arrived: Longs
    seen: npt.NDArray[np.uint8]
    queue: Longs
    next: Longs
    part: Longs
    slowest: Longs
    held: Ints
    left: Ints
    waiting: Calendar
    flying: Calendar
    now: Longs
    lookups: Longs
    cell: Longs


class Tally(NamedTuple):
    """The counts of all cores, int64.

    `counts` [pcs * CLASSES]; `by_set`, `by_cache` [longest + 2]: transactions by distance + 1 in the stacks of the sets and in one
    stack of the whole cache; `misses` [KEPT_ROWS * n or 0]: rows `KEPT_TIME` and so on of the requests to the next level, or of
    all transactions; `log` [n * LOG_WIDTH or 0]; `used` [2]: entries of `misses` and `log`.
    """

    counts: Longs
    by_set: Longs
    by_cache: Longs
    misses: Longs
    log: Longs
    used: Longs


def new_core(
    stream: Stream, set_of: Ints, sets: int, rules: Longs, seed: int, shared: tuple[Longs, Longs, Longs, Ints, Ints]
) -> Core:
    """The initial state of a core. `shared` are `next`, `part`, `slowest`, `held` and `left`."""
    lines = len(set_of)
    widest = int(rules[WIDEST])
    resident = int(rules[BLOCKS_PER_CORE] * rules[WARPS_PER_BLOCK])
    longest = int(max(rules[HIT_LATENCY], rules[MISS_LATENCY] + rules[SPREAD])) + 2
    # a warp that waits for its access has one in flight; otherwise as many as fit in the longest latency
    flights = min(len(stream.line), resident * widest if rules[DIVERGENCE] else longest * widest) + widest
    cell = np.zeros(CELL, np.int64)
    cell[RANDOM] = seed
    # pages that are never written cost nothing: zeros, and `empty` where entries are set one by one
    return Core(
        np.zeros(lines, np.int32), np.empty(lines + 1, np.int32), np.ascontiguousarray(set_of, np.int32),
        new_stacks(np.bincount(set_of, minlength=sets) if lines else np.zeros(sets, np.int64)),
        new_stacks(np.array([lines if rules[WHOLE] else 0])), np.empty(lines + 1, np.int32), np.empty(lines + 1, np.int64),
        np.empty(lines + 1, np.int32), np.empty(lines + 1, np.int64), np.empty(lines + 1, np.uint8),
        np.zeros(resident + 1, np.int64), *shared,
        new_calendar(resident + 1, longest + widest), new_calendar(flights, longest + widest), np.zeros(flights + 1, np.int64),
        np.zeros(LOOKUP_WIDTH * (widest + 1), np.int64), cell,
    )
