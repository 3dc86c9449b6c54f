"""The L1 of one SM: LRU, write-through, no write allocation, a limited number of misses in flight. One call is one line request."""

from __future__ import annotations

from warpsight.addressing.setindex import set_index
from warpsight.caches.compiled import compiled
from warpsight.caches.l2 import find, l2_read, l2_write, least_recent, queue_for
from warpsight.caches.layout import (
    CELL,
    COUNT,
    COUNTERS,
    L1_HITS,
    L1_LATENCY,
    L1_LEVEL,
    L1_LINE,
    L1_MERGES,
    L1_MISSES,
    L1_READS,
    L1_READY,
    L1_RULE,
    L1_SETS,
    L1_TAG,
    L1_UNIT,
    L1_USED,
    L1_VALID,
    L1_WAYS,
    L1_WRITES,
    L2_LINE,
    L2_MASK,
    LEVEL_L1,
    PORT_FREE,
    PORT_SERVICE,
    TICK,
    Ints,
)
from warpsight.caches.mshr import hold_mshr, mshr_free_at, retire_mshrs


@compiled
def _part_of(p: Ints, line: int, sectors: int, l2_line: int) -> int:
    """Which of `sectors` of L1 line `line` lie in `l2_line`, as a mask of that line."""
    shift = line * p[L1_LINE] - l2_line * p[L2_LINE]
    moved = sectors << shift if shift >= 0 else sectors >> -shift
    return moved & p[L2_MASK]


@compiled
def _from_l2(p: Ints, s: Ints, sm: int, line: int, sectors: int, pc: int, now: int) -> tuple[int, int]:
    """Ask the L2 for `sectors` of L1 line `line`: one request for each L2 line that holds some of them."""
    first = line * p[L1_LINE] // p[L2_LINE]
    last = (line * p[L1_LINE] + p[L1_LINE] - 1) // p[L2_LINE]
    back, level = now, LEVEL_L1
    for l2_line in range(first, last + 1):
        part = _part_of(p, line, sectors, l2_line)
        if part != 0:
            its_back, its_level = l2_read(p, s, l2_line, part, pc, now)
            back, level = max(back, its_back), max(level, its_level)
    return back + queue_for(s, p[PORT_FREE] + sm, now, p[PORT_SERVICE]), level


@compiled
def _miss(p: Ints, s: Ints, sm: int, entry: int, line: int, needed: int, pc: int, now: int) -> tuple[int, int]:
    """Fetch what `entry` lacks of `needed`, giving up another line that it may hold; an MSHR is free."""
    s[p[COUNT] + pc * COUNTERS + L1_MISSES] += 1
    if s[p[L1_TAG] + entry] != line:
        s[p[L1_TAG] + entry] = line
        s[p[L1_VALID] + entry] = 0
        s[p[L1_READY] + entry] = 0
    s[p[L1_USED] + entry] = s[p[CELL] + TICK]
    back, level = _from_l2(p, s, sm, line, needed & ~s[p[L1_VALID] + entry], pc, now)
    s[p[L1_VALID] + entry] |= needed
    s[p[L1_READY] + entry] = max(back, s[p[L1_READY] + entry])
    s[p[L1_LEVEL] + entry] = level
    hold_mshr(p, s, sm, back)
    return back, level


@compiled
def l1_read(p: Ints, s: Ints, sm: int, line: int, sectors: int, pc: int, now: int, patience: int) -> tuple[int, int, int]:
    """One read request: when the data is there, the level it came from, and when the load-store unit could pass it on.

    A miss waits for an MSHR, and for a line of its set that is not still on its way. If that takes beyond `patience`, nothing is done:
    the level is -1 and the last time says when to try again.
    """
    count = p[COUNT] + pc * COUNTERS
    base = (sm * p[L1_SETS] + set_index(line, p[L1_SETS], p[L1_RULE])) * p[L1_WAYS]
    needed = s[p[L1_UNIT] + sectors]
    way = find(s, p[L1_TAG] + base, p[L1_WAYS], line)
    entry = base + way
    if way >= 0 and s[p[L1_VALID] + entry] & needed == needed:
        s[count + L1_READS] += 1
        s[p[L1_USED] + entry] = s[p[CELL] + TICK]
        arrives, hit = s[p[L1_READY] + entry], now + p[L1_LATENCY]
        if arrives <= now:
            s[count + L1_HITS] += 1
            return hit, LEVEL_L1, now
        s[count + L1_MERGES] += 1
        return max(arrives, hit), s[p[L1_LEVEL] + entry], now
    now = mshr_free_at(p, s, sm, now)
    if way < 0:
        entry = base + least_recent(s, p[L1_USED] + base, p[L1_READY] + base, p[L1_WAYS], now)
        now = max(now, s[p[L1_READY] + entry])
    if now > patience:
        return now, -1, now
    retire_mshrs(p, s, sm, now)
    s[count + L1_READS] += 1
    back, level = _miss(p, s, sm, entry, line, needed, pc, now)
    return back, level, now


@compiled
def l1_write(p: Ints, s: Ints, sm: int, line: int, sectors: int, whole: bool, pc: int, now: int) -> None:
    """One write request: a line that is present stays and becomes the most recent; the data goes on to the L2 in any case."""
    s[p[COUNT] + pc * COUNTERS + L1_WRITES] += 1
    base = (sm * p[L1_SETS] + set_index(line, p[L1_SETS], p[L1_RULE])) * p[L1_WAYS]
    way = find(s, p[L1_TAG] + base, p[L1_WAYS], line)
    if way >= 0:
        s[p[L1_USED] + base + way] = s[p[CELL] + TICK]
    first = line * p[L1_LINE] // p[L2_LINE]
    last = (line * p[L1_LINE] + p[L1_LINE] - 1) // p[L2_LINE]
    for l2_line in range(first, last + 1):
        part = _part_of(p, line, sectors, l2_line)
        if part != 0:
            l2_write(p, s, l2_line, part, whole, pc, now)
