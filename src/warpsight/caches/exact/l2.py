"""The shared L2: sliced, write-back, write-allocate, LRU. One call is one line request at one slice.

How evenly traffic spreads over its ports, atomic units and memory channels is counted here too.
"""

from __future__ import annotations

import math

from warpsight.addressing.integers import quotient, set_bits
from warpsight.addressing.mapping import channel_of_slice, line_in_slice, set_index, slice_of_line
from warpsight.base.compiled import compiled, inlined
from warpsight.caches.exact.layout import (
    ATOMIC_REPEATS,
    CELL,
    CHANNEL_FREE,
    CHANNEL_LOAD,
    CHANNELS,
    COUNT,
    COUNTERS,
    DIRTY,
    DRAM_LATENCY,
    DRAM_READS,
    DRAM_SERVICE,
    DRAM_WRITES,
    FETCH_ROOM,
    L2_LATENCY,
    L2_LINE,
    L2_READ_HITS,
    L2_READ_MERGES,
    L2_READ_MISSES,
    L2_READS,
    L2_RULE,
    L2_SET,
    L2_SETS,
    L2_UNIT,
    L2_WAYS,
    L2_WRITE_HITS,
    L2_WRITE_MISSES,
    L2_WRITES,
    LEVEL_DRAM,
    LEVEL_L2,
    PER_PIECE,
    PORT_ROOM,
    REPEAT_LOAD,
    REPLY_LOAD,
    REQUEST_LOAD,
    ROUND,
    SLICE_FREE,
    SLICE_IN_FREE,
    SLICE_SERVICE,
    SLICES,
    SPREAD,
    STORE_SERVICE,
    WINDOW,
    Ints,
)
from warpsight.caches.exact.lru import find, holds, new_word, to_front, victim

# Rounds in a window: long enough for some hundred accesses at each server that is busy, so that chance stays small beside them.
ROUNDS = 8
# Columns of a row of `SPREAD`, one row for each kind of server.
REPLIES, REQUESTS, MEMORY, REPEATS = 0, 4, 8, 12
_SQUARES, _BUSIEST, _MEAN = range(3)


@inlined
def arrive(p: Ints, s: Ints, load: int, kind: int, weight: int) -> None:
    """Count an access of `weight` at the server of that kind whose load lies in `s[load]`."""
    s[load] += weight
    s[p[SPREAD] + kind + _SQUARES] += weight * weight


@inlined
def _close(s: Ints, first: int, servers: int, row: int) -> None:
    total, most, squares = 0, 0, 0
    for server in range(first, first + servers):
        total += s[server]
        most = max(most, s[server])
        squares += s[server] * s[server]
        s[server] = 0
    # the variance of a server's load, for accesses that go to servers at random, is its share of the squared weights
    # (servers squared times the variances, with one standard deviation that the measured one has by chance)
    by_chance = s[row + _SQUARES] * servers * (1.0 + math.sqrt(2.0 / max(1, servers - 1)))
    found = squares * servers - total * total
    s[row + _SQUARES] = 0
    s[row + _MEAN] += total
    s[row + _BUSIEST] += total
    if found > by_chance:
        s[row + _BUSIEST] += int((servers * most - total) * (1.0 - by_chance / found))


@inlined
def close_round(p: Ints, s: Ints) -> None:
    """At the end of a window, add what it says, and begin the next."""
    s[p[CELL] + WINDOW] += 1
    if s[p[CELL] + WINDOW] % ROUNDS == 0:
        _close(s, p[REPLY_LOAD], p[SLICES], p[SPREAD] + REPLIES)
        _close(s, p[REQUEST_LOAD], p[SLICES], p[SPREAD] + REQUESTS)
        _close(s, p[CHANNEL_LOAD], p[CHANNELS], p[SPREAD] + MEMORY)
        _close(s, p[REPEAT_LOAD], p[SLICES], p[SPREAD] + REPEATS)


def shares_in_use(p: Ints, s: Ints) -> tuple[float, float, float, float]:
    """Mean over busiest load, above 0, at most 1: slices' ports to the SMs, from the SMs, memory channels, slices' atomic units."""
    rows = s[p[SPREAD] : p[SPREAD] + REPEATS + 4].tolist()

    def share(row: int) -> float:
        return rows[row + _MEAN] / rows[row + _BUSIEST] if rows[row + _BUSIEST] else 1.0

    return share(REPLIES), share(REQUESTS), share(MEMORY), share(REPEATS)


# -- The shared L2: sliced, write-back, write-allocate, LRU. One call is one line request at one slice.

@inlined
def queue_for(p: Ints, s: Ints, server: int, now: int, service: int) -> int:
    """Take the next place at the server whose time lies in `s[server]` and that serves one after the other; gives the wait.

    SMs come one after the other within a round, not in the order of time, so a server's time runs from the start of the round.
    """
    start = max(s[server], s[p[CELL] + ROUND])
    s[server] = start + service
    return int(max(0, start - now))


@inlined
def _slice_and_set(p: Ints, line: int) -> tuple[int, int]:
    """The slice of an L2 line, and where its set begins."""
    part = slice_of_line(line, p[PER_PIECE], p[SLICES])
    row = set_index(line_in_slice(line, p[PER_PIECE], p[SLICES]), p[L2_SETS], p[L2_RULE])
    return part, p[L2_SET] + (part * p[L2_SETS] + row) * 2 * p[L2_WAYS]


@inlined
def _write_back(p: Ints, s: Ints, word: int, channel: int, pc: int, now: int) -> None:
    """What becomes of a line that is given up: if dirty it is written to memory, on the account of `pc`."""
    if word >= 0 and word & DIRTY != 0:
        s[p[COUNT] + pc * COUNTERS + DRAM_WRITES] += 1
        arrive(p, s, p[CHANNEL_LOAD] + channel, MEMORY, 1)
        queue_for(p, s, p[CHANNEL_FREE] + channel, now, p[DRAM_SERVICE])


@inlined
def _fetch(p: Ints, s: Ints, channel: int, pc: int, now: int) -> int:
    """Read from memory; gives when a reader has the data, without what it waits for in the network."""
    s[p[COUNT] + pc * COUNTERS + DRAM_READS] += 1
    arrive(p, s, p[CHANNEL_LOAD] + channel, MEMORY, 1)
    queued = queue_for(p, s, p[CHANNEL_FREE] + channel, now, p[DRAM_SERVICE])
    return int(now + p[L2_LATENCY] + p[DRAM_LATENCY] + queued)


@inlined
def l2_repeat(p: Ints, s: Ints, line: int, repeats: int, pc: int) -> None:
    """Count what the slice of `line` does again of an atomic, for each lane after the first that shares an address."""
    s[p[COUNT] + pc * COUNTERS + ATOMIC_REPEATS] += repeats
    arrive(p, s, p[REPEAT_LOAD] + slice_of_line(line, p[PER_PIECE], p[SLICES]), REPEATS, repeats)


@compiled
def l2_read(p: Ints, s: Ints, line: int, sectors: int, pc: int, now: int) -> int:
    """Read `sectors` (mask) of L2 line `line`, asked for at `now`: `time << 2 | level`, when and from where it is back."""
    count, ways = p[COUNT] + pc * COUNTERS, p[L2_WAYS]
    part, base = _slice_and_set(p, line)
    needed = s[p[L2_UNIT] + sectors]
    s[count + L2_READS] += 1
    pieces = set_bits(sectors)
    arrive(p, s, p[REPLY_LOAD] + part, REPLIES, pieces)
    queued = queue_for(p, s, p[SLICE_FREE] + part, now, quotient(p[SLICE_SERVICE] * pieces, p[L2_LINE]))
    way = find(s, base, ways, line)
    word, ready = new_word(line, 0, 0, 0), 0
    if way >= 0:
        word, ready = s[base + way], s[base + ways + way]
        if holds(word, needed):
            to_front(s, base, ways, way, word, ready)
            back = now + p[L2_LATENCY]
            if ready <= back:
                s[count + L2_READ_HITS] += 1
                return int((back + queued) << 2 | LEVEL_L2)
            s[count + L2_READ_MERGES] += 1
            return int((ready + queued) << 2 | LEVEL_DRAM)
    s[count + L2_READ_MISSES] += 1
    channel = channel_of_slice(part, p[SLICES], p[CHANNELS])
    if way < 0:
        way = victim(s, base, ways, now)
        _write_back(p, s, s[base + way], channel, pc, now)
    back = _fetch(p, s, channel, pc, now)
    to_front(s, base, ways, way, word | needed, max(ready, back))
    return (back + queued) << 2 | LEVEL_DRAM


@compiled
def l2_write(p: Ints, s: Ints, line: int, sectors: int, whole: bool, pc: int, now: int) -> int:
    """Write `sectors`; gives when the SM is rid of them: it keeps what the slice has no room for.

    `whole`: all bytes of the sectors are written, so that a miss need not fetch what it overwrites.
    """
    count, ways = p[COUNT] + pc * COUNTERS, p[L2_WAYS]
    part, base = _slice_and_set(p, line)
    needed = s[p[L2_UNIT] + sectors]
    s[count + L2_WRITES] += 1
    pieces = set_bits(sectors)
    arrive(p, s, p[REQUEST_LOAD] + part, REQUESTS, pieces)
    service = max(p[STORE_SERVICE], quotient(p[SLICE_SERVICE] * pieces, p[L2_LINE]))
    gone = now + max(0, queue_for(p, s, p[SLICE_IN_FREE] + part, now, service) - p[PORT_ROOM])
    way = find(s, base, ways, line)
    word, ready = new_word(line, 0, 0, 0), 0
    if way >= 0:
        word, ready = s[base + way], s[base + ways + way]
    if way >= 0 and holds(word, needed):
        s[count + L2_WRITE_HITS] += 1
    else:
        s[count + L2_WRITE_MISSES] += 1
        channel = channel_of_slice(part, p[SLICES], p[CHANNELS])
        if way < 0:
            way = victim(s, base, ways, now)
            _write_back(p, s, s[base + way], channel, pc, now)
        if not (whole and sectors == needed):
            back = _fetch(p, s, channel, pc, now)
            ready = max(ready, back)
            gone = max(gone, back - p[FETCH_ROOM])
    to_front(s, base, ways, way, word | needed | DIRTY, ready)
    return int(gone)
