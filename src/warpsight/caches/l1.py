"""The L1 of one SM: LRU, write-through, no write allocation, a limited number of misses in flight. One call is one line request."""

from __future__ import annotations

import numba

from warpsight.addressing.setindex import set_index
from warpsight.caches.counters import L1_HITS, L1_MERGES, L1_MISSES, L1_READS, L1_WRITES
from warpsight.caches.geometry import Machine
from warpsight.caches.l2 import LEVEL_L1, find, l2_read, l2_write, least_recent, queue_for
from warpsight.caches.state import CacheState, Floats, SmState


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _drop_first(heap: Floats, size: int) -> int:
    """Remove the smallest of a binary heap in `heap[:size]`; gives the new size."""
    size -= 1
    moved = heap[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= moved:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moved
    return size


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _free_mshr(cache: CacheState, sm: int, limit: int, now: float) -> float:
    """When a miss of `sm` gets an MSHR: at once, or when the first outstanding miss returns."""
    heap = cache.mshr[sm]
    size = cache.mshr_used[sm]
    if size < limit:
        return now
    now = max(now, heap[0])
    while size > 0 and heap[0] <= now:
        size = _drop_first(heap, size)
    cache.mshr_used[sm] = size
    return now


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _hold_mshr(cache: CacheState, sm: int, until: float) -> None:
    heap = cache.mshr[sm]
    place = cache.mshr_used[sm]
    cache.mshr_used[sm] = place + 1
    while place > 0 and heap[(place - 1) // 2] > until:
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = until


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _from_l2(machine: Machine, cache: CacheState, sm_state: SmState, tick: int, sm: int, line: int, need: int, pc: int, now: float) -> tuple[float, int]:
    """Ask the L2 for the sectors `need` of L1 line `line`: one request for each L2 line that holds some of them."""
    first = line * machine.l1_line
    back, level = now, LEVEL_L1
    for l2_line in range(first // machine.l2_line, (first + machine.l1_line - 1) // machine.l2_line + 1):
        shift = first - l2_line * machine.l2_line
        part = need << shift if shift >= 0 else need >> -shift
        part &= len(machine.l2_unit) - 1
        if part != 0:
            one, its_level = l2_read(machine, cache, tick, l2_line, part, pc, now)
            back, level = max(back, one), max(level, its_level)
    queued = queue_for(sm_state.port_free, sm, now, machine.port_service)
    return back + queued, level


@numba.njit(cache=True, nogil=True, error_model="numpy")
def l1_read(machine: Machine, cache: CacheState, sm_state: SmState, tick: int, sm: int, line: int, sectors: int, pc: int, now: float) -> tuple[float, int, float]:
    """One read request: when the data is there, the level it came from, and when the load-store unit could take it."""
    count = cache.count
    count[pc, L1_READS] += 1
    base = (sm * machine.l1_sets + set_index(line, machine.l1_sets, machine.l1_rule)) * machine.l1_ways
    needed = machine.l1_unit[sectors]
    way = find(cache.l1_tag, base, machine.l1_ways, line)
    if way >= 0:
        cache.l1_used[way] = tick
        if cache.l1_valid[way] & needed == needed:
            if cache.l1_ready[way] <= now:
                count[pc, L1_HITS] += 1
                return now + machine.l1_latency, LEVEL_L1, now
            count[pc, L1_MERGES] += 1
            return max(cache.l1_ready[way], now + machine.l1_latency), cache.l1_level[way], now
    count[pc, L1_MISSES] += 1
    now = _free_mshr(cache, sm, machine.mshrs, now)
    if way < 0:
        way = least_recent(cache.l1_used, cache.l1_ready, base, machine.l1_ways, now)
        # A set whose lines are all still on their way has no place: the request waits for the first to arrive.
        now = max(now, cache.l1_ready[way])
        cache.l1_tag[way] = line
        cache.l1_valid[way] = 0
        cache.l1_ready[way] = 0.0
        cache.l1_used[way] = tick
    back, level = _from_l2(machine, cache, sm_state, tick, sm, line, needed & ~cache.l1_valid[way], pc, now)
    cache.l1_valid[way] |= needed
    cache.l1_ready[way] = max(back, cache.l1_ready[way])
    cache.l1_level[way] = level
    _hold_mshr(cache, sm, back)
    return back, level, now


@numba.njit(cache=True, nogil=True, error_model="numpy")
def l1_write(machine: Machine, cache: CacheState, tick: int, sm: int, line: int, sectors: int, whole: bool, pc: int, now: float) -> None:
    """One write request: a line that is present stays and becomes the most recent; the data goes on to the L2 in any case."""
    cache.count[pc, L1_WRITES] += 1
    base = (sm * machine.l1_sets + set_index(line, machine.l1_sets, machine.l1_rule)) * machine.l1_ways
    way = find(cache.l1_tag, base, machine.l1_ways, line)
    if way >= 0:
        cache.l1_used[way] = tick
    first = line * machine.l1_line
    for l2_line in range(first // machine.l2_line, (first + machine.l1_line - 1) // machine.l2_line + 1):
        shift = first - l2_line * machine.l2_line
        part = sectors << shift if shift >= 0 else sectors >> -shift
        part &= len(machine.l2_unit) - 1
        if part != 0:
            l2_write(machine, cache, tick, l2_line, part, whole, pc, now)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def atomic(machine: Machine, cache: CacheState, tick: int, line: int, sectors: int, pc: int, now: float) -> tuple[float, int]:
    """One 32 B sector of an atomic, done in the L2 as a read and a write of it; `line` and `sectors` (one bit) are the L2's."""
    answer = l2_read(machine, cache, tick, line, sectors, pc, now)
    l2_write(machine, cache, tick, line, sectors, False, pc, now)
    return answer
