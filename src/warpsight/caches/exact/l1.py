"""The L1 of an SM: LRU, write-through, no write allocation, with MSHRs. One call is one line request.

A set can have hundreds of ways (an L1 with all of the memory that it shares with shared memory), so none of the work depends on
their number: the ways of a set are linked in the order of their use, and lines are found by a hash. The tags of up to
`FEW_WAYS` ways lie side by side, so that they are compared at once, and their order is one word.
"""

from __future__ import annotations

from warpsight.addressing.coalescing import part_of_line
from warpsight.addressing.integers import quotient, trailing_zeros
from warpsight.addressing.mapping import set_index
from warpsight.base.compiled import ask_for, equal_among_8, inlined
from warpsight.base.records import Table
from warpsight.caches.exact.l2 import l2_read, l2_write, latency_beyond_l1
from warpsight.caches.exact.lru import with_first
from warpsight.caches.exact.state import FEW_WAYS, LEVEL_L1, L1Line, L1Set, State

# -- MSHRs: a miss holds one until its data is back. An SM keeps the times of return in order, in a window of twice as many entries.

@inlined
def _mshr_free_at(state: State, sm: int, now: int) -> int:
    """When a miss of `sm` gets an MSHR: now, or when the first miss in flight returns."""
    unit, mshrs = state.sms[sm], state.machine.l1_mshrs
    if unit.mshr_tail - unit.mshr_head < mshrs:
        return now
    return max(now, state.mshrs[2 * sm * mshrs + unit.mshr_head])


@inlined
def _first_after(times: Table[int], first: int, count: int, time: int) -> int:
    """The first of `count` ordered entries that is later than `time`, or the one behind them. Its steps have no branches."""
    while count > 0:
        half = count >> 1
        is_later = times[first + half] > time
        first = first if is_later else first + half + 1
        count = half if is_later else count - half - 1
    return first


@inlined
def _hold_mshr(state: State, sm: int, now: int, until: int) -> None:
    """Hold an MSHR of `sm` for a miss that returns at `until`; if all are held, release those of misses that are back by `now`."""
    unit, mshrs, returns = state.sms[sm], state.machine.l1_mshrs, state.mshrs
    first = 2 * sm * mshrs
    head, tail = unit.mshr_head, unit.mshr_tail
    if tail - head == mshrs:
        while head < tail and returns[first + head] <= now:
            head += 1
        unit.mshr_head = head
    if tail == 2 * mshrs:
        for k in range(tail - head):
            returns[first + k] = returns[first + head + k]
        head, tail = 0, tail - head
        unit.mshr_head = 0
    unit.mshr_tail = tail + 1
    state.in_flight += until - now
    place = first + tail
    if tail > head and returns[place - 1] > until:
        place = _first_after(returns, first + head, tail - head, until)
        for entry in range(first + tail, place, -1):
            returns[entry] = returns[entry - 1]
    returns[place] = until


# -- Lines. Ways are numbered within the L1 of the SM.

@inlined
def _way(state: State, sm: int, way: int) -> L1Line:
    """A way of the L1 of `sm`."""
    return state.l1_lines[sm * state.machine.l1.sets * state.machine.l1.ways + way]


@inlined
def _set_of(state: State, sm: int, line: int) -> L1Set:
    """The set of the L1 of `sm` to which `line` belongs."""
    cache = state.machine.l1
    return state.l1_sets[sm * cache.sets + set_index(line, cache.sets, cache.index_rule)]


@inlined
def _bucket(state: State, sm: int, line: int) -> int:
    """Where the ways of the L1 of `sm` that may hold `line` are listed: Fibonacci hashing, neighbours side by side."""
    buckets = state.machine.l1_buckets
    group = (((line >> 4) * 0x9E3779B1) & 0xFFFFFFFF) >> 8 & (buckets - 1)
    return sm * buckets + (group ^ (line & 15))


@inlined
def _find(state: State, sm: int, ways: L1Set, line: int) -> int:
    """The way of the L1 of `sm` that holds `line`, or -1."""
    if state.machine.l1.ways <= FEW_WAYS:
        first = sm * state.machine.l1.sets * state.machine.l1.ways + ways.first
        found = equal_among_8(state.l1_tags, first, line) & ((1 << state.machine.l1.ways) - 1)
        return -1 if found == 0 else ways.first + trailing_zeros(found)
    number = state.l1_buckets[_bucket(state, sm, line)]
    while number != 0 and _way(state, sm, number - 1).tag != line:
        number = _way(state, sm, number - 1).following
    return number - 1


@inlined
def _to_front(state: State, sm: int, ways: L1Set, way: int) -> None:
    """Make `way` the most recently used of its set."""
    if state.machine.l1.ways <= FEW_WAYS:
        ways.order = with_first(ways.order, way - ways.first)
        return
    if ways.newest == way:
        return
    moved, newest = _way(state, sm, way), ways.newest
    _way(state, sm, moved.newer).older = moved.older
    if ways.oldest == way:
        ways.oldest = moved.newer
    else:
        _way(state, sm, moved.older).newer = moved.newer
    moved.older = newest
    _way(state, sm, newest).newer = way
    ways.newest = way


@inlined
def _victim_of_few(state: State, sm: int, ways: L1Set, now: int) -> int:
    """`_victim`, where the order of use is a word."""
    place = 4 * state.machine.l1.ways - 4
    oldest = ways.first + (ways.order >> place)
    way = earliest = oldest
    while _way(state, sm, way).ready > now:
        if place == 0:
            return oldest if state.machine.l1_on_fill else earliest
        place -= 4
        way = ways.first + (ways.order >> place & 15)
        if _way(state, sm, way).ready < _way(state, sm, earliest).ready:
            earliest = way
    return way


@inlined
def _victim(state: State, sm: int, ways: L1Set, now: int) -> int:
    """The way that gives place to a new line: the least recently used of those not in flight at `now`. If all are in flight: the
    least recently used (allocation on fill: the line that was requested first is the first to be replaced) or the first to arrive.
    """
    if state.machine.l1.ways <= FEW_WAYS:
        return _victim_of_few(state, sm, ways, now)
    way = earliest = ways.oldest
    while _way(state, sm, way).ready > now:
        if way == ways.newest:
            return ways.oldest if state.machine.l1_on_fill else earliest
        way = _way(state, sm, way).newer
        if _way(state, sm, way).ready < _way(state, sm, earliest).ready:
            earliest = way
    return way


@inlined
def _leave_bucket(state: State, sm: int, way: int) -> None:
    """Take `way` out of the list of its line's bucket."""
    bucket, number, following = _bucket(state, sm, _way(state, sm, way).tag), way + 1, _way(state, sm, way).following
    if state.l1_buckets[bucket] == number:
        state.l1_buckets[bucket] = following
        return
    before = _way(state, sm, state.l1_buckets[bucket] - 1)
    while before.following != number:
        before = _way(state, sm, before.following - 1)
    before.following = following


@inlined
def _replace(state: State, sm: int, way: int, line: int) -> None:
    """Put `line`, still without a sector, in the place of what is in `way`."""
    there = _way(state, sm, way)
    if state.machine.l1.ways > FEW_WAYS:
        if there.valid != 0:
            _leave_bucket(state, sm, way)
        bucket = _bucket(state, sm, line)
        there.following = state.l1_buckets[bucket]
        state.l1_buckets[bucket] = way + 1
    else:
        state.l1_tags[sm * state.machine.l1.sets * state.machine.l1.ways + way] = line
    there.tag, there.valid, there.ready = line, 0, 0


# -- What is asked for before its turn, in three steps (module `ahead`). The lines of a set of few ways lie side by side.

@inlined
def ask_for_bucket(state: State, sm: int, line: int) -> None:
    """Ask for where `line` is looked for."""
    if state.machine.l1.ways <= FEW_WAYS:
        ways, first = _set_of(state, sm, line), sm * state.machine.l1.sets * state.machine.l1.ways
        ask_for(state.l1_tags, first + ways.first)
        ask_for(state.l1_lines, first + ways.first + (ways.order >> 4 * state.machine.l1.ways - 4 & 15))
    else:
        ask_for(state.l1_buckets, _bucket(state, sm, line))


@inlined
def ask_for_way(state: State, sm: int, line: int) -> None:
    """Ask for what `line` is compared with first."""
    if state.machine.l1.ways > FEW_WAYS:
        number = state.l1_buckets[_bucket(state, sm, line)]
        ask_for(state.l1_lines, sm * state.machine.l1.sets * state.machine.l1.ways + max(0, number - 1))


@inlined
def ask_for_neighbours(state: State, sm: int, line: int) -> bool:
    """Ask for the ways that change when `line` becomes the most recent, or takes the place of the oldest. Whether it is there."""
    ways = _set_of(state, sm, line)
    way = _find(state, sm, ways, line)
    if state.machine.l1.ways > FEW_WAYS:
        first = sm * state.machine.l1.sets * state.machine.l1.ways
        moved = way if way >= 0 else ways.oldest
        ask_for(state.l1_lines, first + _way(state, sm, moved).newer)
        ask_for(state.l1_lines, first + _way(state, sm, moved).older)
    return way >= 0


# -- Reads and writes.

@inlined
def _read_from_l2(state: State, line: int, sectors: int, pc: int, now: int, sm: int) -> int:
    """Read `sectors` of L1 line `line`, one request for each L2 line that holds some; returns `time << 2 | level` of all."""
    per_line, per_l2_line = state.machine.l1.line_sectors, state.machine.l2.line_sectors
    if per_line == per_l2_line:
        return l2_read(state, line, sectors, pc, now, sm)
    first = quotient(line * per_line, per_l2_line)
    last = quotient(line * per_line + per_line - 1, per_l2_line)
    back, level = now, LEVEL_L1
    for l2_line in range(first, last + 1):
        part = part_of_line(line, sectors, per_line, l2_line, per_l2_line)
        if part != 0:
            answer = l2_read(state, l2_line, part, pc, now, sm)
            back, level = max(back, answer >> 2), max(level, answer & 3)
    return back << 2 | level


@inlined
def l1_read(state: State, sm: int, line: int, sectors: int, pc: int, now: int, patience: int) -> int:
    """One read request of the load in work; raises the load's return time and level, and returns when the unit can go on.

    A miss waits for an MSHR and, unless the L1 allocates on fill, for a line of its set that is not in flight. If that lasts
    beyond `patience`, nothing changes and the complement (~) of the time to try again is returned.
    """
    machine, count, lsu = state.machine, state.counters[pc], state.sms[sm].lsu
    needed, keeps = state.l1_groups[sectors], not state.code[pc].bypasses_l1
    ways = _set_of(state, sm, line)
    way = _find(state, sm, ways, line) if keeps else -1
    valid = 0
    if way >= 0:
        found = _way(state, sm, way)
        valid, ready = found.valid, found.ready
        if valid & needed == needed:
            count.l1_reads += 1
            _to_front(state, sm, ways, way)
            lsu.back = max(lsu.back, ready, now + machine.l1.latency)
            if ready <= now:
                count.l1_hits += 1
            else:
                count.l1_merges += 1
                # What is left of the miss, without the waits that other requests cause: at most the latency of its level.
                lsu.waited = max(lsu.waited, min(ready - now, latency_beyond_l1(machine, found.level)))
            return now
    now = _mshr_free_at(state, sm, now)
    is_new = way < 0
    if is_new and keeps:
        way = _victim(state, sm, ways, now)
        held_up = 0 if machine.l1_on_fill else max(0, _way(state, sm, way).ready - now)
        state.held_up += held_up
        now += held_up
    if now > patience:
        return ~now
    count.l1_reads += 1
    count.l1_misses += 1
    answer = _read_from_l2(state, line, needed & ~valid, pc, now, sm)
    back, level = answer >> 2, answer & 3
    _hold_mshr(state, sm, now, back)
    if keeps:
        if is_new:
            _replace(state, sm, way, line)
        _to_front(state, sm, ways, way)
        kept = _way(state, sm, way)
        kept.valid, kept.level, kept.ready = valid | needed, level, max(kept.ready, back)
    lsu.back = max(lsu.back, back)
    lsu.level = max(lsu.level, level)
    return now


@inlined
def l1_write(state: State, sm: int, line: int, sectors: int, whole: bool, pc: int, now: int) -> int:
    """One write request: a line that is present becomes the most recent; the data goes on to the L2 in any case.

    Returns when it has left the SM.
    """
    machine = state.machine
    state.counters[pc].l1_writes += 1
    ways = _set_of(state, sm, line)
    way = _find(state, sm, ways, line)
    if way >= 0:
        _to_front(state, sm, ways, way)
    per_line, per_l2_line = machine.l1.line_sectors, machine.l2.line_sectors
    first = quotient(line * per_line, per_l2_line)
    last = quotient(line * per_line + per_line - 1, per_l2_line)
    for l2_line in range(first, last + 1):
        part = part_of_line(line, sectors, per_line, l2_line, per_l2_line)
        if part != 0:
            now = l2_write(state, l2_line, part, whole, pc, now)
    return now
