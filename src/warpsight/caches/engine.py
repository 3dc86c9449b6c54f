"""The compiled main loop: turn after turn, the SM that acts first lets one of its warps do one thing."""

from __future__ import annotations

from collections.abc import Callable

from warpsight.addressing.integers import quotient
from warpsight.caches.blocks import arrive_or_end, break_barriers, launch_blocks
from warpsight.caches.compiled import compiled, compiled_and_kept, pointer, source_fingerprint
from warpsight.caches.layout import (
    BAD_WARP,
    CELL,
    CLOCK,
    DO_EXIT,
    DO_MEMORY,
    GAP,
    GTO,
    ISSUE_COST,
    ISSUERS,
    KEY,
    KIND,
    LAST,
    LIVE_WARPS,
    NEVER,
    PICKED,
    POLICY,
    SCHEDULERS,
    SLOTS,
    TURNS,
    WARP,
    WARP_WIDTH,
    WINNER,
    Ints,
)
from warpsight.caches.lsu import Sectors, issue, work
from warpsight.caches.schedule import pick_all
from warpsight.caches.warps import Events, advance

DONE, NEED_BLOCK, PAUSED, BAD_TRACE = range(4)

Run = Callable[[Ints, Ints, Ints, Events, Sectors, int], int]


@compiled
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


@compiled
def _act(p: Ints, s: Ints, events: Events, sectors: Sectors, actor: int) -> None:
    """Let `actor` act: a warp scheduler or, numbered after these, the load-store unit of an SM."""
    if actor < p[ISSUERS]:
        _turn(p, s, events, sectors, actor)
    else:
        sm = actor - p[ISSUERS]
        if work(p, s, events, sectors, sm, s[p[KEY] + actor]):
            pick_all(p, s, sm)


@compiled
def _run(p: Ints, s: Ints, warps: Ints, events: Events, sectors: Sectors, turns: int) -> int:
    cell = p[CELL]
    until = s[cell + TURNS] + turns
    while s[cell + BAD_WARP] < 0:
        if not launch_blocks(p, s, warps, events):
            return NEED_BLOCK
        actor = s[p[WINNER] + 1]
        if s[p[KEY] + actor] == NEVER:
            if s[cell + BAD_WARP] < 0 and s[cell + LIVE_WARPS] == 0:
                return DONE
            break_barriers(p, s, events)
        elif s[cell + TURNS] >= until:
            return PAUSED
        else:
            s[cell + TURNS] += 1
            _act(p, s, events, sectors, actor)
    return BAD_TRACE


def _build(fingerprint: int) -> Run:
    @compiled_and_kept
    def run(p: Ints, s: Ints, warps: Ints, events: Events, sectors: Sectors, turns: int) -> int:
        """Go on until the launch is done, a block is missing in the window, the trace contradicts itself, or `turns` were taken."""
        return _run(pointer(p), pointer(s), pointer(warps), pointer(events), pointer(sectors), turns + 0 * fingerprint)

    return run


run = _build(source_fingerprint())
