"""One core of the reuse-distance model, compiled: time stamps, the pool of warps, look-ups of an access and their effects.

In each time step one warp, the first of the queue, makes one access: all its transactions look up, and its hits take effect. A
miss takes effect when it arrives, those of the same time in the order of issue (HPCA 2014, section 4.2).

A line that arrives at the time of a look-up: where warps wait for their data (`AT_END`), it takes effect and frees its MSHR at the
end of the step, for all warps; the warp that requested it continues in the next step. In the paper's Tables 3 to 5, where no warp
waits, it is earlier: the look-up finds the line at the top of the stack (below lines that arrive later), and it takes effect before
the hits of the access. Accesses issued one request at a time follow the tables too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.base.compiled import compiled, inlined
from warpsight.caches.reuse import state
from warpsight.caches.reuse.structures import NEVER_USED, Longs, distance, enter, pop, push, soonest, use

# A request in flight that hit: it holds no MSHR.
HIT_FLAG = 1 << 40


@inlined
def _random(c: Any, p: Longs, spread: Longs) -> int:
    """One of the latencies of `spread`, equally likely: splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    if p[state.DRAWS] == 1:
        return spread[0]  # type: ignore[no-any-return]
    z = c[state.RANDOM] - 7046029254386353131
    c[state.RANDOM] = z
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    z ^= (z >> 31) & 0x1FFFFFFFF
    return spread[((z >> 20) & 0xFFFFFFFF) % p[state.DRAWS]]  # type: ignore[no-any-return]


@inlined
def _number(core: Any, p: Longs, line: int) -> int:
    """The core's own number of a line of the launch."""
    own = core.local[line]
    if own == 0:
        own = core.cell[state.KNOWN] + 1
        core.cell[state.KNOWN] = own
        core.local[line] = own
        core.line_of[own] = line
        enter(core.sets, own, core.set_of[line])
        if p[state.WHOLE]:
            enter(core.whole, own, 0)
        core.flights[own], core.arrived[own], core.seen[own] = 0, -1, 0
    return np.int64(own)  # type: ignore[return-value]


@inlined
def _take_effect(core: Any, p: Longs, line: int) -> None:
    use(core.sets, line)
    if p[state.WHOLE]:
        use(core.whole, line)


@inlined
def _land(core: Any, item: int) -> int:
    """A request comes back: returns its line, and frees its MSHR unless other requests wait for the same line."""
    line = item & (HIT_FLAG - 1)
    if item < HIT_FLAG:
        core.flights[line] -= 1
        if core.flights[line] == 0:
            core.cell[state.OUTSTANDING] -= 1
            core.held[core.owner[line]] -= 1
    return line


@inlined
def _arrivals(core: Any, p: Longs, now: int) -> None:
    """Lines that arrived before `now` take effect; those that arrive at `now` free their MSHRs and are kept in `now`, or wait."""
    flying, cell = core.flying, core.cell
    while soonest(flying) < now:
        _take_effect(core, p, _land(core, pop(flying)))
    cell[state.ARRIVED] = 0
    while p[state.AT_END] == 0 and soonest(flying) == now:
        line = _land(core, pop(flying))
        core.arrived[line] = now
        core.now[cell[state.ARRIVED]] = line
        cell[state.ARRIVED] += 1


@inlined
def _distance(core: Any, line: int, now: int) -> int:
    return 0 if core.arrived[line] == now else distance(core.sets, line)


@inlined
def _must_wait(core: Any, p: Longs, held: int, now: int, line: int) -> bool:
    """Whether `line` needs an MSHR, and none is free, or none for its warp, which holds `held` from earlier accesses.

    Where an access is issued as a whole, its first lane decides (the paper's examples have one thread per warp): an access with
    more lines than MSHRs could never be issued if all its lines needed a free one.
    """
    if core.cell[state.OUTSTANDING] < p[state.MSHRS] and held < p[state.WARP_MSHRS]:
        return False
    if core.flights[line] > 0:
        return False
    depth = _distance(core, line, now)
    return depth == NEVER_USED or depth >= p[state.WAYS]


@inlined
def _classify(core: Any, p: Longs, line: int, now: int, j: int) -> None:
    """Look up a transaction: its class, its distance in its set and in the whole cache, as entries `j` of `lookups`."""
    depth = _distance(core, line, now)
    whole = depth
    if p[state.WHOLE]:
        whole = 0 if core.arrived[line] == now else distance(core.whole, line)
    kind = state.HIT
    if depth == NEVER_USED or depth >= p[state.WAYS]:
        if core.flights[line] > 0:
            kind = state.IN_FLIGHT
        elif core.seen[line] == 0:
            kind = state.COMPULSORY
        elif whole == NEVER_USED:
            # requested by another transaction of this access: in flight just now
            kind = state.IN_FLIGHT
        else:
            kind = state.CAPACITY if whole >= p[state.LINES] else state.ASSOCIATIVITY
    core.seen[line] = 1
    row = state.LOOKUP_WIDTH * j
    core.lookups[row + state.LOOKUP_CLASS], core.lookups[row + state.LOOKUP_DISTANCE] = kind, depth
    core.lookups[row + state.LOOKUP_WHOLE], core.lookups[row + state.LOOKUP_LINE] = whole, line


@inlined
def _send(core: Any, p: Longs, spread: Longs, line: int, warp: int, now: int) -> int:
    """A miss leaves the core, merged with one for the same line in flight; returns when it comes back."""
    back = now + p[state.MISS_LATENCY] + _random(core.cell, p, spread)
    if core.flights[line] == 0:
        core.cell[state.OUTSTANDING] += 1
        core.owner[line] = warp
        core.held[warp] += 1
        core.due[line] = back
    else:
        if p[state.CLIP]:
            back = min(back, core.due[line])
        core.due[line] = min(core.due[line], back)
    core.flights[line] += 1
    push(core.flying, back, line)
    return back  # type: ignore[no-any-return]


@inlined
def _count(core: Any, p: Longs, t: Any, line: int, pc: int, access: int, now: int, j: int) -> None:
    look_up = state.LOOKUP_WIDTH * j
    kind, whole = core.lookups[look_up + state.LOOKUP_CLASS], core.lookups[look_up + state.LOOKUP_WHOLE]
    t.counts[pc * state.CLASSES + kind] += 1
    t.by_set[core.lookups[look_up + state.LOOKUP_DISTANCE] + 1] += 1
    t.by_cache[whole + 1] += 1
    if p[state.KEPT] > 0 and (p[state.KEEP_ALL] or kind not in (state.HIT, state.IN_FLIGHT)):
        n, row = t.used[0], p[state.KEPT]
        t.misses[state.KEPT_TIME * row + n], t.misses[state.KEPT_LINE * row + n] = now, core.line_of[line]
        t.misses[state.KEPT_PC * row + n] = pc
        t.misses[state.KEPT_CORE * row + n], t.misses[state.KEPT_DISTANCE * row + n] = core.cell[state.NUMBER], whole
        t.misses[state.KEPT_CLASS * row + n], t.misses[state.KEPT_ACCESS * row + n] = kind, access
        t.misses[state.KEPT_WAIT * row + n] = core.due[line] - now if core.flights[line] > 0 else 0
        t.used[0] = n + 1


@compiled
def _log(core: Any, t: Any, warp: int, pc: int, line: int, now: int, j: int, used: int, back: int) -> None:
    n = t.used[1]
    row = n * state.LOG_WIDTH
    t.used[1] = n + 1
    log = t.log
    log[row + state.LOG_TIME], log[row + state.LOG_WARP] = now, warp
    log[row + state.LOG_PC], log[row + state.LOG_LINE] = pc, core.line_of[line]
    log[row + state.LOG_USED_BEFORE], log[row + state.LOG_USED_AFTER] = used, core.cell[state.OUTSTANDING]
    look_up = state.LOOKUP_WIDTH * j
    log[row + state.LOG_DISTANCE] = _distance(core, line, now) if j < 0 else core.lookups[look_up + state.LOOKUP_DISTANCE]
    log[row + state.LOG_CLASS] = state.CANCEL if j < 0 else core.lookups[look_up + state.LOOKUP_CLASS]
    log[row + state.LOG_LATENCY], log[row + state.LOG_EFFECT] = back - now, back


@inlined
def _at_once(core: Any, s: Any, p: Longs, t: Any, access: int, now: int) -> None:
    """An access without latencies: one transaction after the other looks up and takes effect."""
    pc = s.pc[access]
    for i in range(s.access[access], s.access[access + 1]):
        line = _number(core, p, s.line[i])
        _classify(core, p, line, now, 0)
        _count(core, p, t, line, pc, access, now, 0)
        _take_effect(core, p, line)


@inlined
def _effects(core: Any, s: Any, p: Longs, spread: Longs, t: Any, warp: int, first: int, end: int, now: int, used: int) -> int:
    """The effects of the transactions from `first` to `end` of an access, just looked up; returns their latency.

    Those without latency take effect at once, hits and then misses, in the order of lanes. The others are sent in that order too.
    """
    number = core.next[warp] - 1
    pc = s.pc[number]
    misses_fly = p[state.MISS_LATENCY] + p[state.SPREAD] > 0
    slowest = now
    for i in range(first, end):
        j = i - first
        line = core.lookups[state.LOOKUP_WIDTH * j + state.LOOKUP_LINE]
        _count(core, p, t, line, pc, number, now, j)
        if core.lookups[state.LOOKUP_WIDTH * j + state.LOOKUP_CLASS] == state.HIT and p[state.HIT_LATENCY] == 0:
            _take_effect(core, p, line)
            if p[state.LOGGED] > 0:
                _log(core, t, warp, pc, line, now, j, used, now)
    for i in range(end if misses_fly else first, end):
        if core.lookups[state.LOOKUP_WIDTH * (i - first) + state.LOOKUP_CLASS] != state.HIT:
            line = core.lookups[state.LOOKUP_WIDTH * (i - first) + state.LOOKUP_LINE]
            _take_effect(core, p, line)
            if p[state.LOGGED] > 0:
                _log(core, t, warp, pc, line, now, i - first, used, now)
    for j in range(end - first):
        line, back = core.lookups[state.LOOKUP_WIDTH * j + state.LOOKUP_LINE], now
        if core.lookups[state.LOOKUP_WIDTH * j + state.LOOKUP_CLASS] == state.HIT:
            if p[state.HIT_LATENCY] > 0:
                back = now + p[state.HIT_LATENCY]
                push(core.flying, back, line | HIT_FLAG)
        elif misses_fly:
            back = _send(core, p, spread, line, warp, now)
        if p[state.LOGGED] > 0 and back > now:
            _log(core, t, warp, pc, line, now, j, used, back)
        slowest = max(slowest, back)
    return slowest - now


@compiled
def requests(core: Any, s: Any, p: Longs, spread: Longs, t: Any, warp: int, now: int) -> int:
    """Requests of the next access of `warp`, one per time step from `now`, until one needs an MSHR and none is free.

    Returns the time of the next step. The rest is issued again later; once all are issued, `slowest` is when the last is back.
    """
    number = core.next[warp]
    pc, end = s.pc[number], s.access[number + 1]
    i = s.access[number] + core.part[warp]
    while i < end:
        line = _number(core, p, s.line[i])
        _arrivals(core, p, now)
        used = core.cell[state.OUTSTANDING]
        wait = _must_wait(core, p, core.held[warp] if i == s.access[number] else 0, now, line)
        if not wait:
            _classify(core, p, line, now, 0)
        for k in range(core.cell[state.ARRIVED]):
            _take_effect(core, p, core.now[k])
        if wait:
            if p[state.LOGGED] > 0:
                _log(core, t, warp, pc, line, now, -1, used, now)
            core.cell[state.CANCELLED] += 1
            now += 1
            break
        _count(core, p, t, line, pc, number, now, 0)
        back = now + p[state.HIT_LATENCY]
        if core.lookups[state.LOOKUP_CLASS] != state.HIT:
            back = _send(core, p, spread, line, warp, now)
        elif p[state.HIT_LATENCY] == 0:
            _take_effect(core, p, line)
        else:
            push(core.flying, back, line | HIT_FLAG)
        if p[state.LOGGED] > 0:
            _log(core, t, warp, pc, line, now, 0, used, back)
        core.slowest[warp] = max(core.slowest[warp], back)
        now += 1
        i += 1
    core.part[warp] = i - s.access[number]
    if i == end:
        core.part[warp] = 0
        core.next[warp] = number + 1
    return now


@inlined
def access(core: Any, s: Any, p: Longs, spread: Longs, t: Any, warp: int, now: int) -> int:
    """The next access of `warp` at `now`; returns its latency, that of its slowest transaction, or CANCEL."""
    number = core.next[warp]
    first, end, pc = s.access[number], s.access[number + 1], s.pc[number]
    if p[state.LATENCY] == 0:
        core.next[warp] = number + 1
        _at_once(core, s, p, t, number, now)
        return 0
    _arrivals(core, p, now)
    used = core.cell[state.OUTSTANDING]
    line = _number(core, p, s.line[first])
    wait = _must_wait(core, p, core.held[warp], now, line)
    if wait and p[state.LOGGED] > 0:
        _log(core, t, warp, pc, line, now, -1, used, now)
    if wait:
        core.cell[state.CANCELLED] += 1
        end = first
    else:
        core.next[warp] = number + 1
    latency = state.CANCEL if wait else 0
    arrived, at_top = core.cell[state.ARRIVED], now
    while first < end:
        # a group of lanes that is a request of its own finds the lines of the group before it
        group = first + 1
        while group < end and s.group[group] == 0:
            group += 1
        for i in range(first, group):
            _classify(core, p, _number(core, p, s.line[i]), at_top, i - first)
        for i in range(arrived):
            _take_effect(core, p, core.now[i])
        arrived, at_top = 0, -2
        latency = max(latency, _effects(core, s, p, spread, t, warp, first, group, now, used))
        first = group
    for i in range(arrived):
        _take_effect(core, p, core.now[i])
    return latency
