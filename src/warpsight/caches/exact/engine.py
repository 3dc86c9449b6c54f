"""The compiled main loop. SMs act in rounds, one after the other.

A round is as long as what one SM does takes to reach another (through the L2), the lookahead of conservative parallel simulation
(Chandy and Misra, 1979). Within it an SM acts by itself, in the order of time: its state stays in the host's nearest cache.
"""

from __future__ import annotations

from collections.abc import Callable

from warpsight.addressing.integers import quotient
from warpsight.base.compiled import compiled, compiled_and_kept, inlined
from warpsight.caches.compiled import pointer, source_fingerprint
from warpsight.caches.exact.l2 import close_round
from warpsight.caches.exact.layout import (
    BAD_WARP,
    CELL,
    CLOCK,
    DO_EXIT,
    DO_MEMORY,
    FIRST,
    GAP,
    GTO,
    ISSUE_COST,
    ISSUERS,
    KEY,
    KIND,
    LAST,
    LIVE_WARPS,
    LOOKAHEAD,
    NEVER,
    NEXT_SM,
    PICKED,
    POLICY,
    ROUND,
    SCHEDULERS,
    SLOTS,
    SM_COUNT,
    TURN,
    TURNS,
    WARP,
    WARP_WIDTH,
    WINDOW,
    Ints,
)
from warpsight.caches.exact.lsu import Sectors, issue, work
from warpsight.caches.exact.scheduler import pick_all
from warpsight.caches.exact.warps import Events, advance, arrive_or_end, break_barriers, launch_blocks

DONE, NEED_BLOCK, PAUSED, BAD_TRACE = range(4)

Run = Callable[[Ints, Ints, Ints, Events, Sectors, int], int]


@inlined
def _turn(p: Ints, s: Ints, events: Events, sectors: Sectors, issuer: int) -> None:
    """One warp of `issuer` does what it stands at."""
    sm = quotient(issuer, p[SCHEDULERS])
    place = s[p[PICKED] + issuer]
    slot = sm * p[SLOTS] + place
    row = p[WARP] + slot * WARP_WIDTH
    kind, now = s[row + KIND], s[p[KEY] + issuer]
    ends = kind == DO_EXIT
    s[p[CLOCK] + issuer] = now if ends else now + p[ISSUE_COST]
    # A greedy scheduler must not favour whichever warp next moves into the slot of one that ended.
    s[p[LAST] + issuer] = -1 if ends and p[POLICY] == GTO else place
    if kind == DO_MEMORY:
        issue(p, s, events, sectors, sm, slot, now)
        s[row + GAP] = 0
        advance(p, s, events, slot, now)
    else:
        arrive_or_end(p, s, events, sm, slot, now)
    pick_all(p, s, sm)


@inlined
def _first(p: Ints, s: Ints, sm: int) -> int:
    """What of `sm` acts first: a warp scheduler or, numbered after all of these, the load-store unit. Keeps the time in `FIRST`."""
    first = p[ISSUERS] + sm
    # A tie goes to the scheduler with the lowest number.
    for issuer in range((sm + 1) * p[SCHEDULERS] - 1, sm * p[SCHEDULERS] - 1, -1):
        if s[p[KEY] + issuer] <= s[p[KEY] + first]:
            first = issuer
    s[p[FIRST] + sm] = s[p[KEY] + first]
    return int(first)


@compiled
def _go_on(p: Ints, s: Ints, warps: Ints, events: Events, sectors: Sectors, sm: int, until: int) -> bool:
    """Let `sm` act until it comes to the time `until`; False if it first needs a block that is missing in the window."""
    turns = p[CELL] + TURNS
    while True:
        if not launch_blocks(p, s, warps, events):
            return False
        actor = _first(p, s, sm)
        if s[p[KEY] + actor] >= until:
            return True
        s[turns] += 1
        if actor < p[ISSUERS]:
            _turn(p, s, events, sectors, actor)
        elif work(p, s, events, sectors, sm, s[p[KEY] + actor]):
            pick_all(p, s, sm)


@inlined
def _round(p: Ints, s: Ints, warps: Ints, events: Events, sectors: Sectors) -> bool:
    """Let the SMs that have not yet had their turn in this round go on to its end; False if a block is missing in the window."""
    cell = p[CELL]
    until = s[cell + ROUND] + p[LOOKAHEAD]
    while s[cell + NEXT_SM] < p[SM_COUNT]:
        # ports serve SMs in turn: none is the first at every slice and channel all the time
        sm = (s[cell + NEXT_SM] + s[cell + WINDOW] * p[TURN]) % p[SM_COUNT]
        if s[p[FIRST] + sm] < until and not _go_on(p, s, warps, events, sectors, sm, until):
            return False
        s[cell + NEXT_SM] += 1
    return True


@inlined
def _start_round(p: Ints, s: Ints) -> int:
    """Begin a round at the time at which the first of the SMs acts, which it gives; NEVER if none does."""
    close_round(p, s)
    start = NEVER
    for sm in range(p[SM_COUNT]):
        _first(p, s, sm)
        start = min(start, s[p[FIRST] + sm])
    s[p[CELL] + ROUND], s[p[CELL] + NEXT_SM] = start, 0
    return int(start)


@compiled
def _run(p: Ints, s: Ints, warps: Ints, events: Events, sectors: Sectors, turns: int) -> int:
    cell = p[CELL]
    stop = s[cell + TURNS] + turns
    while s[cell + BAD_WARP] < 0:
        if not (launch_blocks(p, s, warps, events) and _round(p, s, warps, events, sectors)):
            return NEED_BLOCK
        if s[cell + TURNS] >= stop:
            return PAUSED
        if _start_round(p, s) == NEVER:
            if s[cell + BAD_WARP] < 0 and s[cell + LIVE_WARPS] == 0:
                return DONE
            s[cell + NEXT_SM] = p[SM_COUNT]
            break_barriers(p, s, events)
    return BAD_TRACE


def _build(fingerprint: int) -> Run:
    @compiled_and_kept
    def run(p: Ints, s: Ints, warps: Ints, events: Events, sectors: Sectors, turns: int) -> int:
        """Go on until the launch is done, a block is missing in the window, the trace contradicts itself, or `turns` were taken."""
        return _run(pointer(p), pointer(s), pointer(warps), pointer(events), pointer(sectors), turns + 0 * fingerprint)

    return run


run = _build(source_fingerprint())
