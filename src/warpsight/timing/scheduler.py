"""Warp schedulers: which eligible warp issues, and what an idle issue slot waited for.

A scheduler issues up to `issue_width` instructions a cycle, of different warps. `lrr` takes the next warp in turn after the one
that issued last, `gto` the same warp again as long as it can, then the oldest (Rogers, O'Connor, Aamodt, MICRO 2012).
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient, trailing_zeros
from warpsight.caches.compiled import compiled, inlined
from warpsight.timing import layout as at
from warpsight.timing.issue import issue
from warpsight.timing.layout import Floats, Ints
from warpsight.timing.paths import Events


@inlined
def _bits(first: int, count: int) -> int:
    """A mask of `count` bits from `first` on."""
    return -1 << first if count >= at.WHEEL else ((1 << count) - 1) << first


@inlined
def _oldest(p: Ints, s: Ints, sm: int, scheduler: int, candidates: int) -> int:
    """The candidate of the block that came first to the SM, and of its warps the first."""
    order, schedulers, per_block = p[at.ORDER] + sm * p[at.PLACES], p[at.SCHEDULERS], p[at.WARPS_PER_BLOCK]
    for age in range(s[p[at.SM] + sm * at.SM_WIDTH + at.RESIDENT]):
        first_slot = s[order + age] * per_block
        first = quotient(first_slot + schedulers - 1 - scheduler, schedulers)
        last = quotient(first_slot + per_block + schedulers - 1 - scheduler, schedulers)
        mine = candidates & _bits(first, last - first)
        if mine != 0:
            return int(trailing_zeros(mine))
    return int(trailing_zeros(candidates))


@inlined
def _pick(p: Ints, s: Ints, sm: int, scheduler: int, row: int, candidates: int) -> int:
    """The bit of the warp that issues."""
    last = s[row + at.LAST]
    if p[at.POLICY] == at.GTO:
        if last >= 0 and candidates & (1 << last) != 0:
            return int(last)
        return int(_oldest(p, s, sm, scheduler, candidates))
    later = candidates & (-2 << last) if last >= 0 else candidates
    return int(trailing_zeros(later if later != 0 else candidates))


@inlined
def _wake(p: Ints, s: Ints, sm: int, scheduler: int, row: int, now: int) -> None:
    """Take the warps whose time has come out of the wheel."""
    spoke = now & (at.WHEEL - 1)
    if s[row + at.OCCUPIED] & (1 << spoke) == 0:
        return
    wheel = p[at.SLOT_WHEEL] + (sm * p[at.SCHEDULERS] + scheduler) * at.WHEEL
    woken = s[wheel + spoke]
    s[wheel + spoke] = 0
    s[row + at.OCCUPIED] &= ~(1 << spoke)
    far = woken & s[row + at.FAR]
    while far != 0:
        bit = trailing_zeros(far)
        far &= far - 1
        warp = p[at.WARP] + (sm * p[at.SLOTS] + bit * p[at.SCHEDULERS] + scheduler) * at.WARP_WIDTH
        when = s[warp + at.READY_AT]
        if when <= now:
            s[row + at.FAR] &= ~(1 << bit)
            continue
        woken &= ~(1 << bit)
        place = min(when, now + at.WHEEL - 1)
        if place == when:
            s[row + at.FAR] &= ~(1 << bit)
        s[wheel + (place & (at.WHEEL - 1))] |= 1 << bit
        s[row + at.OCCUPIED] |= 1 << (place & (at.WHEEL - 1))
    s[row + at.READY_MASK] |= woken


@inlined
def _next_wakeup(s: Ints, row: int, now: int) -> int:
    """When the wheel next turns somebody out, after `now`."""
    occupied = s[row + at.OCCUPIED]
    if occupied == 0:
        return at.NEVER
    start = (now + 1) & (at.WHEEL - 1)
    later = occupied & (-1 << start)
    if later != 0:
        return int(now + 1 + trailing_zeros(later) - start)
    return int(now + 1 + trailing_zeros(occupied) + at.WHEEL - start)


@inlined
def _candidates(p: Ints, s: Ints, sm: int, scheduler: int, row: int, now: int) -> int:
    """Ready warps whose unit is free; keeps in `NEXT_SCHEDULER` when another unit is."""
    candidates = s[row + at.READY_MASK]
    units = (sm * p[at.SCHEDULERS] + scheduler) * p[at.UNITS]
    memory, following = p[at.SM] + sm * at.SM_WIDTH, p[at.NEXT_SCHEDULER] + sm * p[at.SCHEDULERS] + scheduler
    if s[memory + at.QUEUE_COUNT] >= p[at.QUEUE_DEPTH]:
        candidates &= ~s[p[at.WANTS] + units + at.UNIT_MEMORY]
    for unit in range(1, p[at.UNITS]):
        free = s[p[at.UNIT_FREE] + units + unit]
        if free > now:
            if candidates & s[p[at.WANTS] + units + unit] != 0:
                s[following] = min(s[following], free)
            candidates &= ~s[p[at.WANTS] + units + unit]
    return int(candidates)


@compiled
def act(p: Ints, s: Ints, f: Floats, events: Events, number: int, now: int) -> None:
    """One cycle of the scheduler with this number, counted through all SMs."""
    sm = quotient(number, p[at.SCHEDULERS])
    scheduler = number - sm * p[at.SCHEDULERS]
    row, following = p[at.SCHED] + number * at.SCHED_WIDTH, p[at.NEXT_SCHEDULER] + number
    _wake(p, s, sm, scheduler, row, now)
    s[following] = at.NEVER
    issued = 0
    while issued < p[at.WIDTH]:
        candidates = _candidates(p, s, sm, scheduler, row, now)
        if candidates == 0:
            break
        bit = _pick(p, s, sm, scheduler, row, candidates)
        s[row + at.READY_MASK] &= ~(1 << bit)
        s[row + at.LAST] = bit
        issue(p, s, f, events, sm, scheduler, row, bit, now)
        issued += 1
    again = now + 1 if issued > 0 and s[row + at.READY_MASK] != 0 else _next_wakeup(s, row, now)
    s[following] = min(s[following], again)
