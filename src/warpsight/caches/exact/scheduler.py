"""Which warp of an SM acts next."""

from __future__ import annotations

from warpsight.addressing.integers import quotient
from warpsight.base.compiled import compiled, inlined
from warpsight.caches.exact.layout import (
    ARRIVE,
    CLOCK,
    DEPTH,
    DO_MEMORY,
    ELIGIBLE,
    GAP,
    GTO,
    ISSUE_COST,
    KEY,
    KIND,
    LAST,
    LENGTH,
    LSU,
    LSU_WIDTH,
    NEVER,
    ORDER,
    PICKED,
    POLICY,
    RESIDENT,
    ROOM_SINCE,
    SCHEDULERS,
    SLOTS,
    WARP,
    WARP_WIDTH,
    WARPS_PER_BLOCK,
    Ints,
)
from warpsight.caches.exact.layout import BLOCKS_PER_SM as PLACES


@inlined
def _earliest(s: Ints, first: int, end: int, step: int) -> int:
    """The least of every `step`-th entry. Free of branches where all count, so that the compiler compares several at a time."""
    least = NEVER
    if step == 1:
        for place in range(first, end):
            least = min(least, s[place])
        return least
    place = first
    while place < end:
        least = min(least, s[place])
        place += step
    return least


@inlined
def _greedy_then_oldest(p: Ints, s: Ints, sm: int, scheduler: int, limit: int) -> int:
    """The oldest of the scheduler's warps that can go by `limit`; -1 if none."""
    eligible = p[ELIGIBLE] + sm * p[SLOTS]
    for age in range(s[p[RESIDENT] + sm]):
        first = s[p[ORDER] + sm * p[PLACES] + age] * p[WARPS_PER_BLOCK]
        end = first + p[WARPS_PER_BLOCK]
        while p[SCHEDULERS] > 1 and (first - scheduler) % p[SCHEDULERS] != 0:
            first += 1
        while first < end:
            if s[eligible + first] <= limit:
                return int(first)
            first += p[SCHEDULERS]
    return -1


@compiled
def _round_robin(p: Ints, s: Ints, sm: int, scheduler: int, limit: int) -> int:
    """The next of the scheduler's warps in turn that can go by `limit`; -1 if none."""
    eligible = p[ELIGIBLE] + sm * p[SLOTS]
    place = s[p[LAST] + sm * p[SCHEDULERS] + scheduler]
    for _ in range(p[SLOTS]):
        place = scheduler if place < 0 or place + p[SCHEDULERS] >= p[SLOTS] else place + p[SCHEDULERS]
        if s[eligible + place] <= limit:
            return int(place)
    return -1


@inlined
def _choose(p: Ints, s: Ints, sm: int, scheduler: int, horizon: int) -> int:
    """The warp that goes next, by the GPU's policy, among those that can go by `horizon`, else the first that can; -1 if none.

    Warp slots belong to the schedulers in turn. A greedy one keeps to its last warp while that can go on.
    """
    eligible = p[ELIGIBLE] + sm * p[SLOTS]
    greedy = p[POLICY] == GTO
    last = s[p[LAST] + sm * p[SCHEDULERS] + scheduler]
    if greedy and last >= 0 and s[eligible + last] <= horizon:
        return int(last)
    earliest = _earliest(s, eligible + scheduler, eligible + p[SLOTS], p[SCHEDULERS])
    if earliest == NEVER:
        return -1
    limit = max(earliest, horizon)
    return _greedy_then_oldest(p, s, sm, scheduler, limit) if greedy else _round_robin(p, s, sm, scheduler, limit)


@compiled
def pick(p: Ints, s: Ints, issuer: int) -> None:
    """Choose the warp that `issuer` runs next, and when."""
    sm = quotient(issuer, p[SCHEDULERS])
    lsu = p[LSU] + sm * LSU_WIDTH
    clock, room_since = s[p[CLOCK] + issuer], s[lsu + ROOM_SINCE]
    place = _choose(p, s, sm, issuer - sm * p[SCHEDULERS], max(clock, room_since))
    s[p[PICKED] + issuer] = place
    key = NEVER
    if place >= 0:
        row = p[WARP] + (sm * p[SLOTS] + place) * WARP_WIDTH
        key = max(clock + s[row + GAP] * p[ISSUE_COST], s[row + ARRIVE])
        if s[row + KIND] == DO_MEMORY:
            # No room in the queue of accesses: the choice falls anew when there is.
            key = NEVER if s[lsu + LENGTH] == p[DEPTH] else max(key, room_since)
    s[p[KEY] + issuer] = key


@inlined
def pick_all(p: Ints, s: Ints, sm: int) -> None:
    """Choose anew for every scheduler of `sm`, after something changed that concerns them all."""
    for issuer in range(sm * p[SCHEDULERS], (sm + 1) * p[SCHEDULERS]):
        pick(p, s, issuer)
