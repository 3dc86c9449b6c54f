"""The L1 of one SM: LRU, write-through, no write allocation, with miss registers. One call is one line request."""

from __future__ import annotations

from warpsight.addressing.coalescing import part_of_line
from warpsight.addressing.integers import quotient
from warpsight.addressing.mapping import set_index
from warpsight.base.compiled import compiled, inlined
from warpsight.caches.exact.l2 import l2_read, l2_write
from warpsight.caches.exact.layout import (
    BACK,
    COUNT,
    COUNTERS,
    DRAM_LATENCY,
    FLIGHT,
    FLIGHT_WIDTH,
    HELD_UP,
    IN_FLIGHT,
    L1_HITS,
    L1_LATENCY,
    L1_LINE,
    L1_MERGES,
    L1_MISSES,
    L1_READS,
    L1_RULE,
    L1_SET,
    L1_SETS,
    L1_UNIT,
    L1_WAYS,
    L1_WRITES,
    L2_LATENCY,
    L2_LINE,
    LEVEL,
    LEVEL_DRAM,
    LEVEL_L1,
    LEVEL_SHIFT,
    LSU,
    LSU_WIDTH,
    MSHR,
    MSHR_ENDS,
    MSHRS,
    VALID_MASK,
    WAITED,
    Ints,
)
from warpsight.caches.exact.lru import find, holds, new_word, to_front, victim


@inlined
def mshr_free_at(p: Ints, s: Ints, sm: int, now: int) -> int:
    """When a miss of `sm` gets a register: now, or when the first outstanding miss returns."""
    ends = p[MSHR_ENDS] + 2 * sm
    if s[ends + 1] - s[ends] < p[MSHRS]:
        return now
    return int(max(now, s[p[MSHR] + 2 * sm * p[MSHRS] + s[ends]]))


@inlined
def hold_mshr(p: Ints, s: Ints, sm: int, now: int, until: int) -> None:
    """Take a register of `sm` for a miss that returns at `until`; if none is free, those whose misses are back by `now` are."""
    ends, row = p[MSHR_ENDS] + 2 * sm, p[MSHR] + 2 * sm * p[MSHRS]
    head, tail = s[ends], s[ends + 1]
    if tail - head == p[MSHRS]:
        while head < tail and s[row + head] <= now:
            head += 1
        s[ends] = head
    if tail == 2 * p[MSHRS]:
        for k in range(tail - head):
            s[row + k] = s[row + head + k]
        head, tail = 0, tail - head
        s[ends] = 0
    s[ends + 1] = tail + 1
    s[p[FLIGHT] + IN_FLIGHT] += until - now
    place = row + tail
    while place > row + head and s[place - 1] > until:
        s[place] = s[place - 1]
        place -= 1
    s[place] = until


def way_wait(p: Ints, s: Ints) -> float:
    """Time for which an L1 is held up by sets whose ways are all on their way, over the time that misses are in flight; 0 to 1."""
    flight, held_up = s[p[FLIGHT] : p[FLIGHT] + FLIGHT_WIDTH].tolist()
    return min(1.0, held_up / flight) if flight else 0.0


# -- The L1 of one SM: LRU, write-through, no write allocation, a limited number of misses in flight. One call is one line request.

@inlined
def _set_of(p: Ints, sm: int, line: int) -> int:
    """Where the set of `line` in the L1 of `sm` begins."""
    row = sm * p[L1_SETS] + set_index(line, p[L1_SETS], p[L1_RULE])
    return int(p[L1_SET] + row * 2 * p[L1_WAYS])


@compiled
def _from_l2(p: Ints, s: Ints, line: int, sectors: int, pc: int, now: int) -> int:
    """Ask the L2 for `sectors` of L1 line `line`, one request for each L2 line that holds some; `time << 2 | level` of all."""
    if p[L1_LINE] == p[L2_LINE]:
        return l2_read(p, s, line, sectors, pc, now)
    first = quotient(line * p[L1_LINE], p[L2_LINE])
    last = quotient(line * p[L1_LINE] + p[L1_LINE] - 1, p[L2_LINE])
    back, level = now, LEVEL_L1
    for l2_line in range(first, last + 1):
        part = part_of_line(line, sectors, p[L1_LINE], l2_line, p[L2_LINE])
        if part != 0:
            answer = l2_read(p, s, l2_line, part, pc, now)
            back, level = max(back, answer >> 2), max(level, answer & 3)
    return back << 2 | level


@inlined
def l1_read(p: Ints, s: Ints, sm: int, line: int, sectors: int, pc: int, now: int, patience: int) -> int:
    """One read request of the load in hand, whose time and level (`LSU` row) it raises; gives when the unit could pass it on.

    A miss waits for an MSHR, and for a line of its set that is not still on its way. If that takes beyond `patience`, nothing
    is done, and the answer is the complement (~) of the time to try again.
    """
    count, ways, lsu = p[COUNT] + pc * COUNTERS, p[L1_WAYS], p[LSU] + sm * LSU_WIDTH
    base = _set_of(p, sm, line)
    needed = s[p[L1_UNIT] + sectors]
    way = find(s, base, ways, line)
    word, ready = new_word(line, 0, 0, 0), 0
    if way >= 0:
        word, ready = s[base + way], s[base + ways + way]
        if holds(word, needed):
            s[count + L1_READS] += 1
            to_front(s, base, ways, way, word, ready)
            s[lsu + BACK] = max(s[lsu + BACK], ready, now + p[L1_LATENCY])
            if ready <= now:
                s[count + L1_HITS] += 1
            else:
                s[count + L1_MERGES] += 1
                # What is left of the way, without what other requests make it wait: no more than its level takes alone.
                alone = p[L2_LATENCY] + (p[DRAM_LATENCY] if word >> LEVEL_SHIFT & 3 == LEVEL_DRAM else 0)
                s[lsu + WAITED] = max(s[lsu + WAITED], min(ready - now, alone))
            return now
    now = mshr_free_at(p, s, sm, now)
    if way < 0:
        way = victim(s, base, ways, now)
        held_up = max(0, s[base + ways + way] - now)
        s[p[FLIGHT] + HELD_UP] += held_up
        now += held_up
    if now > patience:
        return ~now
    s[count + L1_READS] += 1
    s[count + L1_MISSES] += 1
    answer = _from_l2(p, s, line, needed & ~word, pc, now)
    back, level = answer >> 2, answer & 3
    hold_mshr(p, s, sm, now, back)
    valid = (word | needed) & VALID_MASK
    to_front(s, base, ways, way, new_word(line, level, 0, valid), max(ready, back))
    s[lsu + BACK] = max(s[lsu + BACK], back)
    s[lsu + LEVEL] = max(s[lsu + LEVEL], level)
    return now


@inlined
def l1_write(p: Ints, s: Ints, sm: int, line: int, sectors: int, whole: bool, pc: int, now: int) -> int:
    """One write request: a line that is present stays and becomes the most recent; the data goes on to the L2 in any case.

    Gives when it has left the SM.
    """
    ways = p[L1_WAYS]
    s[p[COUNT] + pc * COUNTERS + L1_WRITES] += 1
    base = _set_of(p, sm, line)
    way = find(s, base, ways, line)
    if way >= 0:
        to_front(s, base, ways, way, s[base + way], s[base + ways + way])
    first = quotient(line * p[L1_LINE], p[L2_LINE])
    last = quotient(line * p[L1_LINE] + p[L1_LINE] - 1, p[L2_LINE])
    for l2_line in range(first, last + 1):
        part = part_of_line(line, sectors, p[L1_LINE], l2_line, p[L2_LINE])
        if part != 0:
            now = l2_write(p, s, l2_line, part, whole, pc, now)
    return now
