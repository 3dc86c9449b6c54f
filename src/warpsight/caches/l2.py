"""The shared L2: sliced, write-back, write-allocate, LRU. One call is one line request at one slice."""

from __future__ import annotations

from warpsight.addressing.setindex import set_index
from warpsight.addressing.slices import channel_of_slice, line_in_slice, slice_of_line
from warpsight.caches.compiled import compiled
from warpsight.caches.layout import (
    CELL,
    CHANNEL_FREE,
    CHANNELS,
    COUNT,
    COUNTERS,
    DRAM_LATENCY,
    DRAM_READS,
    DRAM_SERVICE,
    DRAM_WRITES,
    L2_DIRTY,
    L2_LATENCY,
    L2_READ_HITS,
    L2_READ_MERGES,
    L2_READ_MISSES,
    L2_READS,
    L2_READY,
    L2_RULE,
    L2_SETS,
    L2_TAG,
    L2_UNIT,
    L2_USED,
    L2_VALID,
    L2_WAYS,
    L2_WRITE_HITS,
    L2_WRITE_MISSES,
    L2_WRITES,
    LEVEL_DRAM,
    LEVEL_L2,
    PER_PIECE,
    SLICE_FREE,
    SLICE_SERVICE,
    SLICES,
    TICK,
    Ints,
)


@compiled
def queue_for(s: Ints, server: int, now: int, service: int) -> int:
    """Take the next place at the server whose time lies in `s[server]` and that serves one after the other; gives the wait."""
    start = max(s[server], now)
    s[server] = start + service
    return start - now


@compiled
def find(s: Ints, tags: int, ways: int, line: int) -> int:
    """The way that holds `line` in the set whose tags begin at `s[tags]`, or -1."""
    for way in range(ways):
        if s[tags + way] == line:
            return way
    return -1


@compiled
def least_recent(s: Ints, used: int, ready: int, ways: int, now: int) -> int:
    """The way to give up: least recently used of those not in flight at `now`; if all are, the one that arrives first."""
    best, first = -1, 0
    for way in range(ways):
        if s[ready + way] <= now:
            if best < 0 or s[used + way] < s[used + best]:
                best = way
        elif s[ready + way] < s[ready + first]:
            first = way
    return best if best >= 0 else first


@compiled
def _take_way(p: Ints, s: Ints, base: int, channel: int, line: int, pc: int, now: int) -> int:
    """Make room for `line` in the set that begins at entry `base`, writing back what was dirty; gives the entry."""
    entry = base + least_recent(s, p[L2_USED] + base, p[L2_READY] + base, p[L2_WAYS], now)
    if s[p[L2_DIRTY] + entry] != 0:
        s[p[COUNT] + pc * COUNTERS + DRAM_WRITES] += 1
        queue_for(s, p[CHANNEL_FREE] + channel, now, p[DRAM_SERVICE])
    s[p[L2_TAG] + entry] = line
    s[p[L2_VALID] + entry] = 0
    s[p[L2_DIRTY] + entry] = 0
    s[p[L2_READY] + entry] = 0
    return entry


@compiled
def _fetch(p: Ints, s: Ints, entry: int, channel: int, pc: int, now: int) -> int:
    """Read from memory into `entry`; gives when a reader has it, without what it waits for in the network."""
    s[p[COUNT] + pc * COUNTERS + DRAM_READS] += 1
    queued = queue_for(s, p[CHANNEL_FREE] + channel, now, p[DRAM_SERVICE])
    ready = now + p[L2_LATENCY] + p[DRAM_LATENCY] + queued
    s[p[L2_READY] + entry] = max(ready, s[p[L2_READY] + entry])
    return ready


@compiled
def l2_read(p: Ints, s: Ints, line: int, sectors: int, pc: int, now: int) -> tuple[int, int]:
    """Read `sectors` (mask) of L2 line `line`, asked for at `now`: when the data is back at the SM, and the level it came from."""
    count = p[COUNT] + pc * COUNTERS
    part = slice_of_line(line, p[PER_PIECE], p[SLICES])
    row = set_index(line_in_slice(line, p[PER_PIECE], p[SLICES]), p[L2_SETS], p[L2_RULE])
    base = (part * p[L2_SETS] + row) * p[L2_WAYS]
    needed = s[p[L2_UNIT] + sectors]
    s[count + L2_READS] += 1
    queued = queue_for(s, p[SLICE_FREE] + part, now, p[SLICE_SERVICE])
    way = find(s, p[L2_TAG] + base, p[L2_WAYS], line)
    entry = base + way
    if way >= 0:
        s[p[L2_USED] + entry] = s[p[CELL] + TICK]
        if s[p[L2_VALID] + entry] & needed == needed:
            back, arrives = now + p[L2_LATENCY], s[p[L2_READY] + entry]
            if arrives <= back:
                s[count + L2_READ_HITS] += 1
                return back + queued, LEVEL_L2
            s[count + L2_READ_MERGES] += 1
            return arrives + queued, LEVEL_DRAM
    s[count + L2_READ_MISSES] += 1
    channel = channel_of_slice(part, p[SLICES], p[CHANNELS])
    if way < 0:
        entry = _take_way(p, s, base, channel, line, pc, now)
        s[p[L2_USED] + entry] = s[p[CELL] + TICK]
    s[p[L2_VALID] + entry] |= needed
    return _fetch(p, s, entry, channel, pc, now) + queued, LEVEL_DRAM


@compiled
def l2_write(p: Ints, s: Ints, line: int, sectors: int, whole: bool, pc: int, now: int) -> None:
    """Write `sectors`. `whole`: all bytes of them are written, so that a miss need not fetch what it overwrites."""
    count = p[COUNT] + pc * COUNTERS
    part = slice_of_line(line, p[PER_PIECE], p[SLICES])
    row = set_index(line_in_slice(line, p[PER_PIECE], p[SLICES]), p[L2_SETS], p[L2_RULE])
    base = (part * p[L2_SETS] + row) * p[L2_WAYS]
    needed = s[p[L2_UNIT] + sectors]
    s[count + L2_WRITES] += 1
    way = find(s, p[L2_TAG] + base, p[L2_WAYS], line)
    entry = base + way
    if way >= 0 and s[p[L2_VALID] + entry] & needed == needed:
        s[count + L2_WRITE_HITS] += 1
    else:
        s[count + L2_WRITE_MISSES] += 1
        channel = channel_of_slice(part, p[SLICES], p[CHANNELS])
        if way < 0:
            entry = _take_way(p, s, base, channel, line, pc, now)
        if not (whole and sectors == needed):
            _fetch(p, s, entry, channel, pc, now)
        s[p[L2_VALID] + entry] |= needed
    s[p[L2_USED] + entry] = s[p[CELL] + TICK]
    s[p[L2_DIRTY] + entry] = 1
