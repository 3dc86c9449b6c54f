"""The L1 of an SM: LRU, write-through, no write allocation, with MSHRs. One call is one line request."""

from __future__ import annotations

from warpsight.addressing.coalescing import part_of_line
from warpsight.addressing.integers import quotient
from warpsight.addressing.mapping import set_index
from warpsight.base.compiled import compiled, inlined
from warpsight.caches.exact.l2 import l2_read, l2_write, latency_beyond_l1
from warpsight.caches.exact.lru import find, to_front, victim
from warpsight.caches.exact.state import LEVEL_L1, Machine, State

# -- MSHRs: a miss holds one until its data is back. An SM keeps the times of return in order, in a window of twice as many entries.

@inlined
def _mshr_free_at(state: State, sm: int, now: int) -> int:
    """When a miss of `sm` gets an MSHR: now, or when the first miss in flight returns."""
    unit, mshrs = state.sms[sm], state.machine.l1_mshrs
    if unit.mshr_tail - unit.mshr_head < mshrs:
        return now
    return max(now, state.mshrs[2 * sm * mshrs + unit.mshr_head])


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
    while place > first + head and returns[place - 1] > until:
        returns[place] = returns[place - 1]
        place -= 1
    returns[place] = until


# -- Reads and writes.

@inlined
def _first_way(machine: Machine, sm: int, line: int) -> int:
    """Where the set of `line` in the L1 of `sm` begins."""
    cache = machine.l1
    return (sm * cache.sets + set_index(line, cache.sets, cache.index_rule)) * cache.ways


@compiled
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
    machine, lines, count, lsu = state.machine, state.l1_lines, state.counters[pc], state.sms[sm].lsu
    ways, needed = machine.l1.ways, state.l1_groups[sectors]
    first, keeps = _first_way(machine, sm, line), not state.code[pc].bypasses_l1
    way = find(lines, first, ways, line) if keeps else -1
    valid, ready = 0, 0
    if way >= 0:
        valid, ready = lines[first + way].valid, lines[first + way].ready
        if valid & needed == needed:
            level = lines[first + way].level
            count.l1_reads += 1
            to_front(lines, first, way, line, valid, level, 0, ready)
            lsu.back = max(lsu.back, ready, now + machine.l1.latency)
            if ready <= now:
                count.l1_hits += 1
            else:
                count.l1_merges += 1
                # What is left of the miss, without the waits that other requests cause: at most the latency of its level.
                lsu.waited = max(lsu.waited, min(ready - now, latency_beyond_l1(machine, level)))
            return now
    now = _mshr_free_at(state, sm, now)
    if way < 0 and keeps:
        way = victim(lines, first, ways, now)
        if machine.l1_on_fill and lines[first + way].ready > now:
            way = ways - 1  # the line that was requested first is the first to be replaced
        held_up = 0 if machine.l1_on_fill else max(0, lines[first + way].ready - now)
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
        to_front(lines, first, way, line, valid | needed, level, 0, max(ready, back))
    lsu.back = max(lsu.back, back)
    lsu.level = max(lsu.level, level)
    return now


@inlined
def l1_write(state: State, sm: int, line: int, sectors: int, whole: bool, pc: int, now: int) -> int:
    """One write request: a line that is present becomes the most recent; the data goes on to the L2 in any case.

    Returns when it has left the SM.
    """
    machine, lines = state.machine, state.l1_lines
    state.counters[pc].l1_writes += 1
    first_way = _first_way(machine, sm, line)
    way = find(lines, first_way, machine.l1.ways, line)
    if way >= 0:
        present = lines[first_way + way]
        to_front(lines, first_way, way, line, present.valid, present.level, 0, present.ready)
    per_line, per_l2_line = machine.l1.line_sectors, machine.l2.line_sectors
    first = quotient(line * per_line, per_l2_line)
    last = quotient(line * per_line + per_line - 1, per_l2_line)
    for l2_line in range(first, last + 1):
        part = part_of_line(line, sectors, per_line, l2_line, per_l2_line)
        if part != 0:
            now = l2_write(state, l2_line, part, whole, pc, now)
    return now
