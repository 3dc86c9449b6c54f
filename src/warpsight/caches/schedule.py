"""Which SM acts next, and which of its warps: the interleaving of the launch's memory accesses."""

from __future__ import annotations

from warpsight.addressing.integers import quotient
from warpsight.caches.compiled import compiled
from warpsight.caches.layout import (
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
    LEAVES,
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
    WINNER,
    Ints,
)
from warpsight.caches.layout import BLOCKS_PER_SM as PLACES


@compiled
def set_key(p: Ints, s: Ints, issuer: int, key: int) -> None:
    """Tell the tournament when `issuer` acts next; node 1 names the issuer that acts first, the lower number in a tie."""
    if s[p[KEY] + issuer] == key:
        return
    s[p[KEY] + issuer] = key
    node = (p[LEAVES] + issuer) >> 1
    while node >= 1:
        left, right = s[p[WINNER] + 2 * node], s[p[WINNER] + 2 * node + 1]
        best = left if s[p[KEY] + left] <= s[p[KEY] + right] else right
        if best == s[p[WINNER] + node] and best != issuer:
            # Another stays ahead, with the key that it had.
            return
        s[p[WINNER] + node] = best
        node >>= 1


@compiled
def _greedy_then_oldest(p: Ints, s: Ints, sm: int, scheduler: int, horizon: int) -> int:
    """The last warp while it can go on, else the oldest that can, else the one that can first (the older in a tie); -1 if none."""
    eligible = p[ELIGIBLE] + sm * p[SLOTS]
    last = s[p[LAST] + sm * p[SCHEDULERS] + scheduler]
    if last >= 0 and s[eligible + last] <= horizon:
        return int(last)
    best, earliest = -1, NEVER
    for age in range(s[p[RESIDENT] + sm]):
        first = s[p[ORDER] + sm * p[PLACES] + age] * p[WARPS_PER_BLOCK]
        # Warp slots belong to the schedulers in turn.
        start = first
        while p[SCHEDULERS] > 1 and (start - scheduler) % p[SCHEDULERS] != 0:
            start += 1
        for place in range(start, first + p[WARPS_PER_BLOCK], p[SCHEDULERS]):
            if s[eligible + place] < earliest:
                best, earliest = place, s[eligible + place]
                if earliest <= horizon:
                    return best
    return best


@compiled
def _round_robin(p: Ints, s: Ints, sm: int, scheduler: int, horizon: int) -> int:
    """The next warp in turn that can go on, else the one that can first (the earlier in turn in a tie); -1 if none."""
    eligible = p[ELIGIBLE] + sm * p[SLOTS]
    place = s[p[LAST] + sm * p[SCHEDULERS] + scheduler]
    best, earliest = -1, NEVER
    for _ in range(scheduler, p[SLOTS], p[SCHEDULERS]):
        place = scheduler if place < 0 or place + p[SCHEDULERS] >= p[SLOTS] else place + p[SCHEDULERS]
        if s[eligible + place] < earliest:
            best, earliest = place, s[eligible + place]
            if earliest <= horizon:
                return best
    return best


@compiled
def pick(p: Ints, s: Ints, issuer: int) -> None:
    """Choose the warp that `issuer` runs next, and when."""
    sm = quotient(issuer, p[SCHEDULERS])
    scheduler = issuer - sm * p[SCHEDULERS]
    lsu = p[LSU] + sm * LSU_WIDTH
    clock, room_since = s[p[CLOCK] + issuer], s[lsu + ROOM_SINCE]
    horizon = max(clock, room_since)
    greedy = p[POLICY] == GTO
    place = _greedy_then_oldest(p, s, sm, scheduler, horizon) if greedy else _round_robin(p, s, sm, scheduler, horizon)
    s[p[PICKED] + issuer] = place
    key = NEVER
    if place >= 0:
        row = p[WARP] + (sm * p[SLOTS] + place) * WARP_WIDTH
        key = max(clock + s[row + GAP] * p[ISSUE_COST], s[row + ARRIVE])
        if s[row + KIND] == DO_MEMORY:
            # No room in the queue of accesses: the choice falls anew when there is.
            key = NEVER if s[lsu + LENGTH] == p[DEPTH] else max(key, room_since)
    set_key(p, s, issuer, key)


@compiled
def pick_all(p: Ints, s: Ints, sm: int) -> None:
    """Choose anew for every scheduler of `sm`, after something changed that concerns them all."""
    for issuer in range(sm * p[SCHEDULERS], (sm + 1) * p[SCHEDULERS]):
        pick(p, s, issuer)
