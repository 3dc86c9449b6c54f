"""The compiled loop of one core of the reuse-distance model: whose turn it is, until a block has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsight.addressing.compiled import compiled, compiled_and_kept, inlined
from warpsight.caches.compiled import pointer, source_fingerprint
from warpsight.caches.reuse.calendar import NEVER, Calendar, pop, push, soonest
from warpsight.caches.reuse.stacks import Stacks
from warpsight.caches.reuse.state import (
    AT_END,
    DIVERGENCE,
    ENDED,
    HEAD,
    LATENCY,
    QUEUE,
    QUEUED,
    SPLIT,
    TIME,
    WARPS_PER_BLOCK,
    Core,
    Longs,
    Stream,
    Tally,
)
from warpsight.caches.reuse.step import access, requests

DONE, BLOCK_ENDED = range(2)

Run = Callable[[Any, Any, Longs, Longs, Any], int]


@inlined
def _enqueue(core: Any, p: Longs, warp: int) -> None:
    cell = core.cell
    place = cell[HEAD] + cell[QUEUED]
    if place >= p[QUEUE]:
        place -= p[QUEUE]
    core.queue[place] = warp
    cell[QUEUED] += 1


@inlined
def _dequeue(core: Any, p: Longs) -> int:
    cell = core.cell
    warp = core.queue[cell[HEAD]]
    cell[HEAD] = cell[HEAD] + 1 if cell[HEAD] + 1 < p[QUEUE] else 0
    cell[QUEUED] -= 1
    return warp  # type: ignore[no-any-return]


@compiled
def _run(core: Any, s: Any, p: Longs, spread: Longs, t: Any) -> int:
    cell = core.cell
    while True:
        while soonest(core.waiting) <= cell[TIME]:
            _enqueue(core, p, pop(core.waiting))
        if cell[QUEUED] == 0:
            if soonest(core.waiting) == NEVER:
                return DONE
            cell[TIME] = soonest(core.waiting)
            continue
        warp = _dequeue(core, p)
        if core.next[warp] == s.warp[warp + 1]:
            # an ended warp is only noticed at its next turn
            cell[TIME] += p[AT_END]
            block = warp // p[WARPS_PER_BLOCK]
            core.left[block] -= 1
            if core.left[block] == 0:
                cell[ENDED] += 1
                return BLOCK_ENDED
            continue
        if p[SPLIT] and p[LATENCY]:
            cell[TIME] = requests(core, s, p, spread, t, warp, cell[TIME])
            if core.part[warp] == 0 and p[DIVERGENCE] and core.slowest[warp] >= cell[TIME]:
                push(core.waiting, core.slowest[warp] + 1, warp)
            else:
                _enqueue(core, p, warp)
            continue
        latency = access(core, s, p, spread, t, warp, cell[TIME])
        if latency > 0 and p[DIVERGENCE]:
            push(core.waiting, cell[TIME] + latency + 1, warp)
        else:
            _enqueue(core, p, warp)
        cell[TIME] += 1


@inlined
def _stacks(k: Any) -> Stacks:
    return Stacks(
        pointer(k.set_of), pointer(k.first), pointer(k.slot), pointer(k.line_at), pointer(k.bits), pointer(k.tree),
        pointer(k.following), pointer(k.live),
    )


@inlined
def _calendar(k: Any) -> Calendar:
    return Calendar(
        pointer(k.first), pointer(k.last), pointer(k.some), pointer(k.time), pointer(k.what), pointer(k.following), pointer(k.cell)
    )


@inlined
def _core(c: Any) -> Core:
    """The core with plain pointers in place of its arrays, which cost reference counts wherever they are handed on."""
    return Core(
        pointer(c.local), pointer(c.line_of), pointer(c.set_of), _stacks(c.sets), _stacks(c.whole), pointer(c.flights),
        pointer(c.due), pointer(c.owner), pointer(c.arrived),
        pointer(c.seen), pointer(c.queue), pointer(c.next), pointer(c.part), pointer(c.slowest),
        pointer(c.held), pointer(c.left), _calendar(c.waiting), _calendar(c.flying),
        pointer(c.now), pointer(c.found), pointer(c.cell),
    )


def _build(fingerprint: int) -> Run:
    @compiled_and_kept
    def run(core: Any, stream: Any, rules: Longs, spread: Longs, tally: Any) -> int:
        """Go on until a block of `core` has ended (BLOCK_ENDED) or it has no more warps (DONE)."""
        s = Stream(
            pointer(stream.warp), pointer(stream.access), pointer(stream.pc), pointer(stream.line), pointer(stream.group)
        )
        t = Tally(
            pointer(tally.counts), pointer(tally.by_set), pointer(tally.by_cache), pointer(tally.misses), pointer(tally.log),
            pointer(tally.used),
        )
        return _run(_core(core), s, pointer(rules), pointer(spread), t) + 0 * fingerprint

    return run


run = _build(source_fingerprint())
