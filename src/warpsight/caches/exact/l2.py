"""The shared L2 and the memory behind it: sliced, write-back, write-allocate. One call is one line request at one slice.

A sector that is written in part and not there is fetched first, or (`l2.partial_writes: mask`) its bytes are marked: it is dirty
but not valid, and a read fetches the rest. Lines leave a set in the order of their last use, or (`l2.replacement: random`) in any.

An L2 of two partitions: a line is in the one that its slice belongs to. The first read from an SM of the other goes there and
brings a copy of the sectors to the SM's own partition, for later reads; a write, which goes to the line's slice, drops the copy.

It also measures how evenly traffic spreads over the ports of the slices, their atomic units and the memory channels, in windows of
`ROUNDS` rounds: the mean load over the busiest one's, less the imbalance that random traffic of the same size would show.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from warpsight.addressing.integers import quotient, set_bits
from warpsight.addressing.mapping import channel_of_slice, is_in_other_partition, line_in_slice, set_index, slice_of_line
from warpsight.base.compiled import ask_for, compiled, inlined
from warpsight.base.records import Memory, Table
from warpsight.caches.exact.lru import age_of, find, to_back, to_front, victim, way_at
from warpsight.caches.exact.state import IS_ATOMIC, LEVEL_DRAM, LEVEL_FAR, LEVEL_L2, NO_LINE, Machine, Port, Spread, State
from warpsight.caches.miss_profile import SHARES

ROW_PLACES = 256  # of a channel, for the rows that it has opened: two rows rarely have the same
# Rounds in a window: enough for some hundred accesses at each busy port, so that random imbalance stays small.
ROUNDS = 8


@inlined
def _count_load(port: Port, spread: Spread, weight: int) -> None:
    """Count an access of `weight` at `port`."""
    port.load += weight
    spread.squares += weight * weight


@inlined
def _wait_for(state: State, port: Port, now: int, service: int) -> int:
    """Take the next turn of `service` ticks at `port`; returns the wait.

    Within a round SMs act one after the other, not in the order of time, so the port's time runs from the start of the round.
    """
    start = max(port.free_at, state.round_start)
    port.free_at = start + service
    return max(0, start - now)


# -- Reads and writes.

@inlined
def latency_beyond_l1(machine: Machine, level: int) -> int:
    """The latency of a request that the L2 or, at that `level`, what is behind it serves."""
    return machine.l2.latency + (machine.dram_latency if level == LEVEL_DRAM else machine.far_latency if level == LEVEL_FAR else 0)


@inlined
def _set_of(state: State, part: int, line: int) -> int:
    """The number of the set of L2 line `line` in slice `part`."""
    machine = state.machine
    cache = machine.l2
    row = set_index(line_in_slice(line, machine.lines_per_piece, machine.slices), cache.sets, cache.index_rule)
    return part * cache.sets + row


@inlined
def _transfer(state: State, channel: int, sectors: int, now: int) -> int:
    """Move `sectors` (mask) over the channel's bus; returns the wait for it."""
    machine = state.machine
    units = quotient(set_bits(sectors), machine.unit_sectors)
    _count_load(state.channels[channel], state.channel_spread, units)
    return _wait_for(state, state.channels[channel], now, units * machine.dram_ticks)


@inlined
def _open_row(state: State, row: int, line: int, channel: int, pc: int) -> None:
    """Count the row of L2 `line`, of set `row`, unless the channel has it open.

    A channel takes accesses to an open row first, of those in its queue: each row is opened once for a queue of accesses.
    """
    machine = state.machine
    if machine.row_lines == 0:
        return
    port = state.channels[channel]
    queue = 1 + quotient(port.accesses, machine.dram_queue)
    port.accesses += 1
    within = quotient(line_in_slice(line, machine.lines_per_piece, machine.slices), machine.row_lines)
    number = within * machine.slices + quotient(row, machine.l2.sets)
    known = state.open_rows[channel * ROW_PLACES + ((number * 0x9E3779B1) & 0xFFFFFFFF) >> 24]
    if known.row != number or known.queue != queue:
        known.row, known.queue = number, queue
        state.counters[pc].dram_rows += 1


@inlined
def _write_back(state: State, row: int, way: int, channel: int, pc: int, now: int) -> None:
    """Write the line in `way` of set `row` to memory if it is dirty; the write is charged to `pc`. The line stays, clean."""
    line = state.l2_lines[row * state.machine.l2.ways + way]
    if line.dirty != 0:
        state.counters[pc].dram_writes += 1
        state.counters[pc].dram_write_sectors += set_bits(line.dirty)
        _open_row(state, row, line.tag, channel, pc)
        _transfer(state, channel, line.dirty, now)
        line.dirty = 0
        state.l2_dirty[row] -= 1


@inlined
def _fetch(state: State, row: int, line: int, channel: int, sectors: int, pc: int, now: int) -> int:
    """Read `sectors` (mask) of `line`, of set `row`, from memory; returns when a reader has the data, without the wait for
    the slice's port.
    """
    machine = state.machine
    state.counters[pc].dram_reads += 1
    state.counters[pc].dram_read_sectors += set_bits(sectors)
    _open_row(state, row, line, channel, pc)
    return now + machine.l2.latency + machine.dram_latency + _transfer(state, channel, sectors, now)


@inlined
def _room(state: State, row: int, new: int, channel: int, pc: int, now: int) -> int:
    """The way of set `row` that line `new` takes, still without a sector. The line that was there is written back."""
    machine, lines, first = state.machine, state.l2_lines, row * state.machine.l2.ways
    age = victim(state, row, now)
    there = lines[first + way_at(state, row, age)]
    if machine.random and there.valid | there.dirty != 0:
        state.chance = (state.chance * 1103515245 + 12345) & 0x7FFFFFFF  # the generator of the C standard
        other = (state.chance >> 12) % machine.l2.ways
        age = other if lines[first + way_at(state, row, other)].ready <= now else age
    way = way_at(state, row, age)
    _write_back(state, row, way, channel, pc, now)
    to_front(state, row, age)
    state.l2_tags[first + way] = new
    line = lines[first + way]
    line.tag, line.valid, line.ready = new, 0, 0
    if machine.partitions > 1:
        copy = state.l2_copies[first + way]
        copy.sectors, copy.ready = 0, 0
    return way


@inlined
def _taken(state: State, row: int, line: int, channel: int, pc: int, now: int) -> int:
    """The place of `line` in `State.l2_lines`, from now on the most recently used one of its set; if it has none, what it takes."""
    way = find(state, row, line)
    if way >= 0:
        to_front(state, row, age_of(state, row, way))
    else:
        way = _room(state, row, line, channel, pc, now)
    return row * state.machine.l2.ways + way


@inlined
def _limit_dirty(state: State, row: int, channel: int, pc: int, now: int) -> None:
    """Write back the least recently used dirty line of a set that has too many; without a valid sector it leaves the set."""
    if state.l2_dirty[row] <= state.machine.most_dirty:
        return
    first, age = row * state.machine.l2.ways, state.machine.l2.ways - 1
    while state.l2_lines[first + way_at(state, row, age)].dirty == 0:
        age -= 1
    way = way_at(state, row, age)
    _write_back(state, row, way, channel, pc, now)
    line = state.l2_lines[first + way]
    if line.valid == 0:
        to_back(state, row, age)
        state.l2_tags[first + way] = NO_LINE
        line.ready = 0


@inlined
def l2_atomic(state: State, line: int, changed: int, repeats: int, pc: int) -> None:
    """Count the time, beyond the first cycle, for which the slice of `line` executes a sector of an atomic, in bytes at its width.

    It changes `changed` bytes, and meanwhile serves lanes at one address, `repeats` after the first, one after the other.
    """
    width = state.machine.atomic_width
    further = max(changed - width, repeats * width)
    if further <= 0:
        return
    state.counters[pc].atomic_repeats += repeats
    state.counters[pc].atomic_cycles += further
    part = slice_of_line(line, state.machine.lines_per_piece, state.machine.slices, state.machine.slice_rule)
    _count_load(state.atomics[part], state.atomic_spread, further)


@inlined
def _joins(state: State, place: int, line: int, needed: int, pc: int, now: int) -> bool:
    """Whether a read of the line at `place` joins one on its way; if it does not, others may join it."""
    machine, flight = state.machine, state.flights[place]
    if now < flight.until and flight.line == line and needed & ~flight.sectors == 0 and flight.reads < machine.merged_reads:
        flight.reads += 1
        state.counters[pc].l2_joins += 1
        return True
    flight.line, flight.sectors, flight.reads = line, needed, 1
    return False


@inlined
def _answer(
    state: State, place: int, row: int, line: int, channel: int, needed: int, part: int, pc: int, now: int, sm: int
) -> int:
    """When the data of a read of the line at `place` are back, and from where, without the wait for the slice's port; the counts of
    hits and misses.
    """
    machine, count, level, further, found = state.machine, state.counters[pc], LEVEL_L2, 0, state.l2_lines[place]
    if machine.partitions > 1 and is_in_other_partition(part, machine.slices, sm):
        copy = state.l2_copies[place]
        if needed & ~copy.sectors != 0:
            level = LEVEL_FAR
            copy.sectors, copy.ready = copy.sectors | needed, now + machine.far_latency
        further = max(0, copy.ready - now)
        if 2 * further > machine.far_latency:
            level = LEVEL_FAR  # it waits for most of the way of a copy
    if found.valid & needed == needed:
        back = now + machine.l2.latency + further
        if found.ready <= back:
            count.l2_read_hits += 1
            count.l2_far_hits += 1 if level == LEVEL_FAR else 0
            return back << 2 | level
        count.l2_read_merges += 1
        return found.ready << 2 | LEVEL_DRAM
    count.l2_read_misses += 1
    back = _fetch(state, row, line, channel, needed & ~found.valid, pc, now)
    found.valid, found.ready = found.valid | needed, max(found.ready, back)
    return back << 2 | LEVEL_DRAM


@inlined
def l2_read(state: State, line: int, sectors: int, pc: int, now: int, sm: int) -> int:
    """Read `sectors` (mask) of L2 line `line`, requested by `sm` at `now`; returns `time << 2 | level`: when and from where it is
    back.
    """
    machine, count = state.machine, state.counters[pc]
    needed, pieces = state.l2_groups[sectors], set_bits(sectors)
    part = slice_of_line(line, machine.lines_per_piece, machine.slices, machine.slice_rule)
    row = _set_of(state, part, line)
    count.l2_reads += 1
    channel = channel_of_slice(part, machine.slices, machine.channels)
    place = _taken(state, row, line, channel, pc, now)
    queued = 0
    merges = machine.merged_reads > 1 and state.code[pc].access != IS_ATOMIC
    joins = merges and _joins(state, place, line, needed, pc, now)
    if not joins:
        _count_load(state.replies[part], state.reply_spread, pieces)
        queued = _wait_for(state, state.replies[part], now, quotient(machine.reply_ticks * pieces, machine.l2.line_sectors))
    answer = _answer(state, place, row, line, channel, needed, part, pc, now, sm)
    back = (answer >> 2) + queued
    if joins:
        back = max(back, state.flights[place].until + machine.l1.latency)
    elif merges:
        state.flights[place].until = back - machine.l1.latency
    return back << 2 | answer & 3


@compiled
def l2_write(state: State, line: int, sectors: int, whole: bool, pc: int, now: int) -> int:
    """Write `sectors` (mask) of L2 line `line`; returns when they leave the SM, which holds them while the slice has no room.

    `whole`: all bytes of the sectors are written, so that a miss need not fetch what it overwrites.
    """
    machine, count = state.machine, state.counters[pc]
    needed, pieces = state.l2_groups[sectors], set_bits(sectors)
    part = slice_of_line(line, machine.lines_per_piece, machine.slices, machine.slice_rule)
    row = _set_of(state, part, line)
    count.l2_writes += 1
    _count_load(state.stores[part], state.store_spread, pieces)
    service = max(machine.store_ticks, quotient(machine.reply_ticks * pieces, machine.l2.line_sectors))
    gone = now + max(0, _wait_for(state, state.stores[part], now, service) - machine.store_backlog)
    channel = channel_of_slice(part, machine.slices, machine.channels)
    place = _taken(state, row, line, channel, pc, now)
    found = state.l2_lines[place]
    if machine.partitions > 1:
        state.l2_copies[place].sectors &= ~needed
    written = needed
    if (found.valid | found.dirty) & needed == needed:
        count.l2_write_hits += 1
        written = needed if whole and sectors == needed else needed & found.valid
    else:
        count.l2_write_misses += 1
        if not (whole and sectors == needed):
            if machine.masks:
                written = needed & found.valid
            else:
                back = _fetch(state, row, line, channel, needed & ~found.valid, pc, now)
                found.ready = max(found.ready, back)
                gone = max(gone, back - machine.fetch_backlog)
    found.valid |= written
    state.l2_dirty[row] += 1 if found.dirty == 0 else 0
    found.dirty |= needed
    if machine.most_dirty < machine.l2.ways:
        _limit_dirty(state, row, channel, pc, now)
    return gone


# -- What is asked for before its turn, in two steps (module `ahead`).

@inlined
def _home(state: State, line: int) -> int:
    """The number of the set that L2 line `line` belongs to."""
    machine = state.machine
    return _set_of(state, slice_of_line(line, machine.lines_per_piece, machine.slices, machine.slice_rule), line)


@inlined
def ask_for_set(state: State, line: int) -> None:
    """Ask for the tags of the set of L2 line `line`, and for the order of its ways."""
    row = _home(state, line)
    ask_for(state.l2_tags, row * state.machine.l2.ways)
    ask_for(state.l2_order, row * state.machine.l2_order_words)
    ask_for(state.l2_dirty, row)


@inlined
def _ask_for_way(state: State, row: int, way: int) -> None:
    """Ask for the line in `way` of set `row`."""
    ask_for(state.l2_lines, row * state.machine.l2.ways + way)
    if state.machine.partitions > 1:
        ask_for(state.l2_copies, row * state.machine.l2.ways + way)


@inlined
def ask_for_room(state: State, line: int) -> None:
    """Ask for all that L2 line `line` changes if it is not there: the order of its set need not be waited for, it is small."""
    row, ways = _home(state, line), state.machine.l2.ways
    ask_for(state.l2_tags, row * ways)
    _ask_for_way(state, row, way_at(state, row, ways - 1))


@inlined
def ask_for_line(state: State, line: int) -> None:
    """Ask for L2 line `line`, or for the one whose place it takes."""
    row = _home(state, line)
    way = find(state, row, line)
    _ask_for_way(state, row, way if way >= 0 else way_at(state, row, state.machine.l2.ways - 1))


# -- How evenly traffic spreads.

@inlined
def _close_window(ports: Table[Port], count: int, spread: Spread) -> None:
    total, most, squares = 0, 0, 0
    for number in range(count):
        load = ports[number].load
        total += load
        most = max(most, load)
        squares += load * load
        ports[number].load = 0
    # For accesses to random ports, the variance of a port's load is its share of the squared weights. Here: `count` squared times
    # the variance, plus one standard deviation of its estimate.
    by_chance = spread.squares * count * (1.0 + math.sqrt(2.0 / max(1, count - 1)))
    measured = squares * count - total * total
    spread.squares = 0
    spread.total += total
    spread.busiest += total
    if measured > by_chance:
        spread.busiest += int((count * most - total) * (1.0 - by_chance / measured))


@inlined
def close_round(state: State) -> None:
    """Count the round; at the end of a window, add what it measured to the spreads."""
    state.rounds += 1
    if state.rounds % ROUNDS == 0:
        _close_window(state.replies, state.machine.slices, state.reply_spread)
        _close_window(state.stores, state.machine.slices, state.store_spread)
        _close_window(state.channels, state.machine.channels, state.channel_spread)
        _close_window(state.atomics, state.machine.slices, state.atomic_spread)


@inlined
def close_launch(state: State) -> None:
    """At the end of a launch shorter than a window: atomics at one address can take most of its time in a slice."""
    if state.rounds < ROUNDS:
        _close_window(state.atomics, state.machine.slices, state.atomic_spread)


Traffic = npt.NDArray[np.int64]
"""Measures of the traffic of a simulation, or of a stretch of it, as sums of two numbers: int64 [kinds, 2]. Of each of `SHARES` the
load of all ports and that of the busiest times ports, over all windows; last the times of `way_wait`.
"""

_SPREADS = ("reply_spread", "store_spread", "channel_spread", "atomic_spread")


def traffic_of(memory: Memory) -> Traffic:
    """What the simulation has measured so far."""
    state = memory.root
    spreads = [(int(state[each]["total"]), int(state[each]["busiest"])) for each in _SPREADS]
    return np.array([*spreads, (int(state["held_up"]), int(state["in_flight"]))], np.int64)


def traffic_measures(traffic: Traffic) -> dict[str, float]:
    """Mean over busiest load (above 0, at most 1) of each kind of port and `way_wait`, under the names of `MissProfile`."""
    *spreads, (held_up, in_flight) = traffic.tolist()
    shares = {name: total / busiest if busiest else 1.0 for name, (total, busiest) in zip(SHARES, spreads, strict=True)}
    return {**shares, "way_wait": min(1.0, held_up / in_flight) if in_flight else 0.0}
