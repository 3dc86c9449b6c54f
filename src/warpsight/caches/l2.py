"""The shared L2: sliced, write-back, write-allocate, LRU. One call is one line request at one slice."""

from __future__ import annotations

from warpsight.addressing.integers import quotient, set_bits
from warpsight.addressing.setindex import set_index
from warpsight.addressing.slices import channel_of_slice, line_in_slice, slice_of_line
from warpsight.caches.compiled import compiled, inlined
from warpsight.caches.layout import (
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
    STORE_SERVICE,
    Ints,
)
from warpsight.caches.spread import MEMORY, REPEATS, REPLIES, REQUESTS, arrive
from warpsight.caches.ways import find, holds, new_word, to_front, victim


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
