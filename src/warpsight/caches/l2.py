"""The shared L2: sliced, write-back, write-allocate, LRU. One call is one line request at one slice."""

from __future__ import annotations

import numba

from warpsight.addressing.setindex import set_index
from warpsight.addressing.slices import channel_of_slice, line_in_slice, slice_of_line
from warpsight.caches.counters import (
    DRAM_READS,
    DRAM_WRITES,
    L2_READ_HITS,
    L2_READ_MERGES,
    L2_READ_MISSES,
    L2_READS,
    L2_WRITE_HITS,
    L2_WRITE_MISSES,
    L2_WRITES,
)
from warpsight.caches.geometry import Machine
from warpsight.caches.state import CacheState, Floats, Ints

LEVEL_L1, LEVEL_L2, LEVEL_DRAM = 0, 1, 2


@numba.njit(cache=True, nogil=True, error_model="numpy")
def queue_for(free: Floats, server: int, now: float, service: float) -> float:
    """Take the next place at a server that serves one after the other; gives the wait before service."""
    start = max(free[server], now)
    free[server] = start + service
    return start - now


@numba.njit(cache=True, nogil=True, error_model="numpy")
def find(tags: Ints, base: int, ways: int, line: int) -> int:
    """Index of the way that holds `line` in the set that starts at `base`, or -1."""
    for way in range(base, base + ways):
        if tags[way] == line:
            return way
    return -1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def least_recent(used: Ints, ready: Floats, base: int, ways: int, now: float) -> int:
    """The way to give up: least recently used of those not in flight at `now`; if all are, the one that arrives first."""
    best = -1
    first = base
    for way in range(base, base + ways):
        if ready[way] <= now:
            if best < 0 or used[way] < used[best]:
                best = way
        elif ready[way] < ready[first]:
            first = way
    return best if best >= 0 else first


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _take_way(machine: Machine, cache: CacheState, base: int, channel: int, line: int, pc: int, now: float) -> int:
    """Make room for `line`, writing back what was dirty."""
    way = least_recent(cache.l2_used, cache.l2_ready, base, machine.l2_ways, now)
    if cache.l2_dirty[way]:
        cache.count[pc, DRAM_WRITES] += 1
        queue_for(cache.channel_free, channel, now, machine.dram_service)
    cache.l2_tag[way] = line
    cache.l2_valid[way] = 0
    cache.l2_dirty[way] = False
    cache.l2_ready[way] = 0.0
    return way


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _fetch(machine: Machine, cache: CacheState, way: int, channel: int, pc: int, now: float) -> float:
    """Read a line from memory into `way`; gives when a reader has it, without what it waits for in the network."""
    cache.count[pc, DRAM_READS] += 1
    queued = queue_for(cache.channel_free, channel, now, machine.dram_service)
    ready = now + machine.l2_latency + machine.dram_latency + queued
    cache.l2_ready[way] = max(ready, cache.l2_ready[way])
    return ready


@numba.njit(cache=True, nogil=True, error_model="numpy")
def l2_read(machine: Machine, cache: CacheState, tick: int, line: int, sectors: int, pc: int, now: float) -> tuple[float, int]:
    """One read request for `sectors` (mask) of L2 line `line`, sent at `now`: when its data is back at the SM, and the level it came from."""
    count = cache.count
    part = slice_of_line(line, machine.per_piece, machine.slices)
    row = set_index(line_in_slice(line, machine.per_piece, machine.slices), machine.l2_sets, machine.l2_rule)
    base = (part * machine.l2_sets + row) * machine.l2_ways
    needed = machine.l2_unit[sectors]
    count[pc, L2_READS] += 1
    queued = queue_for(cache.slice_free, part, now, machine.slice_service)
    way = find(cache.l2_tag, base, machine.l2_ways, line)
    if way >= 0:
        cache.l2_used[way] = tick
        if cache.l2_valid[way] & needed == needed:
            back = now + machine.l2_latency
            if cache.l2_ready[way] <= back:
                count[pc, L2_READ_HITS] += 1
                return back + queued, LEVEL_L2
            count[pc, L2_READ_MERGES] += 1
            return cache.l2_ready[way] + queued, LEVEL_DRAM
    channel = channel_of_slice(part, machine.slices, machine.channels)
    if way < 0:
        way = _take_way(machine, cache, base, channel, line, pc, now)
        cache.l2_used[way] = tick
    count[pc, L2_READ_MISSES] += 1
    cache.l2_valid[way] |= needed
    return _fetch(machine, cache, way, channel, pc, now) + queued, LEVEL_DRAM


@numba.njit(cache=True, nogil=True, error_model="numpy")
def l2_write(machine: Machine, cache: CacheState, tick: int, line: int, sectors: int, whole: bool, pc: int, now: float) -> None:
    """One write request. `whole`: it covers every byte of its sectors, so that a miss on them need not be fetched first."""
    count = cache.count
    part = slice_of_line(line, machine.per_piece, machine.slices)
    row = set_index(line_in_slice(line, machine.per_piece, machine.slices), machine.l2_sets, machine.l2_rule)
    base = (part * machine.l2_sets + row) * machine.l2_ways
    needed = machine.l2_unit[sectors]
    count[pc, L2_WRITES] += 1
    way = find(cache.l2_tag, base, machine.l2_ways, line)
    channel = channel_of_slice(part, machine.slices, machine.channels)
    if way >= 0 and cache.l2_valid[way] & needed == needed:
        count[pc, L2_WRITE_HITS] += 1
    else:
        count[pc, L2_WRITE_MISSES] += 1
        if way < 0:
            way = _take_way(machine, cache, base, channel, line, pc, now)
        if not (whole and sectors == needed):
            _fetch(machine, cache, way, channel, pc, now)
        cache.l2_valid[way] |= needed
    cache.l2_used[way] = tick
    cache.l2_dirty[way] = True
