"""How unequal blocks fill SMs: each block goes to the SM that has room first, and older warps go before younger ones.

The work of an SM is seen as a fluid. A warp alone would take `alone` cycles, and keeps the SM's busiest resource busy for `demand`
of them. Under greedy-then-oldest the oldest warp runs at that pace, the next on what it leaves of the resource, and so on; under
loose round-robin all warps slow down alike. A block's place is free when its last warp ends.

Issue slots and functional units are a scheduler's own, and a warp stays with the scheduler of its slot: what some warps have left
to do, the other schedulers cannot take over. The load-store unit is the SM's. So `parts` resources of one kind are an SM's, each
for the warps of every `parts`th slot.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

# A warp with less left than this part of a cycle is done: what is left of sums of fractions.
_NOTHING = 1e-6


def makespan(alone: Floats, demand: Floats, per_block: int, places: int, sm_count: int, greedy: bool, parts: int = 1) -> float:
    """Cycles until the last warp ends. `alone` (above 0), `demand` (0 to that) float64 [warps], in the order of the grid.

    `per_block` warps are a block, an SM has `places` for blocks, and `parts` of the resource.
    """
    places = min(places, -(-len(alone) // per_block))
    return float(_run(alone, np.maximum(demand, 0.0) / alone, per_block, places, sm_count, greedy, parts))


def makespan_of_equals(
    alone: float, demand: float, blocks: int, per_block: int, places: int, sm_count: int, parts: int = 1
) -> float:
    """The same for equal warps that are not in step: what the busiest SM's warps demand, and of the last of them the rest.

    Nobody hides the part of it that comes when the others are done: less, the longer the last wave's work is beside it.
    """
    busiest = -(-blocks // sm_count)
    last = -(-(busiest - (busiest - 1) // places * places) * per_block // parts) * demand
    rest = max(alone - demand, 0.0)
    unhidden = last * rest / (last + rest) if last + rest > 0 else 0.0
    return max(alone, -(-busiest * per_block // parts) * demand + unhidden)


@numba.njit(cache=True, nogil=True)
def _run(alone: Floats, pace: Floats, per_block: int, places: int, sm_count: int, greedy: bool, parts: int) -> float:
    """`pace` [warps]: the part of the busiest resource that a warp alone takes."""
    blocks = len(alone) // per_block
    left = np.zeros((sm_count, places * per_block))
    speed = np.zeros((sm_count, places * per_block))
    first = np.zeros((sm_count, places), dtype=np.int64)
    order = np.zeros((sm_count, places), dtype=np.int64)
    held = np.zeros(sm_count, dtype=np.int64)
    clock = np.zeros(sm_count)
    following = np.full(sm_count, np.inf)
    block, end = 0, 0.0
    for place in range(places):
        for sm in range(sm_count):
            if block < blocks:
                _start(alone, left, first, order, held, sm, place, block, per_block)
                block += 1
    for sm in range(sm_count):
        following[sm] = _pace(pace, left, speed, first, order, held, sm, per_block, greedy, parts)
    while True:
        sm = int(np.argmin(following))
        now = following[sm]
        if now == np.inf:
            return end
        end = now
        passed = now - clock[sm]
        clock[sm] = now
        freed = _advance(left, speed, order, held, sm, per_block, passed)
        for _ in range(freed):
            if block < blocks:
                # places that came free stand behind those that are held
                _start(alone, left, first, order, held, sm, order[sm, held[sm]], block, per_block)
                block += 1
        following[sm] = now + _pace(pace, left, speed, first, order, held, sm, per_block, greedy, parts)


@numba.njit(cache=True, nogil=True)
def _start(
    alone: Floats, left: Floats, first: Longs, order: Longs, held: Longs, sm: int, place: int, block: int, per_block: int
) -> None:
    """Put `block` into `place` of the SM, as its youngest."""
    for k in range(per_block):
        left[sm, place * per_block + k] = alone[block * per_block + k]
    first[sm, place] = block * per_block
    order[sm, held[sm]] = place
    held[sm] += 1


@numba.njit(cache=True, nogil=True)
def _advance(left: Floats, speed: Floats, order: Longs, held: Longs, sm: int, per_block: int, passed: float) -> int:
    """Let the SM's warps go on for `passed` cycles. Places of blocks that end move behind the others in `order`; gives how many."""
    ended = np.empty(held[sm], dtype=np.int64)
    kept, freed = 0, 0
    for age in range(held[sm]):
        place = order[sm, age]
        goes_on = False
        for warp in range(place * per_block, (place + 1) * per_block):
            rest = left[sm, warp] - passed * speed[sm, warp]
            left[sm, warp] = rest if rest > _NOTHING else 0.0
            goes_on |= rest > _NOTHING
        if goes_on:
            order[sm, kept] = place
            kept += 1
        else:
            ended[freed] = place
            freed += 1
    for k in range(freed):
        order[sm, kept + k] = ended[k]
    held[sm] = kept
    return freed


@numba.njit(cache=True, nogil=True)
def _pace(
    pace: Floats, left: Floats, speed: Floats, first: Longs, order: Longs, held: Longs, sm: int, per_block: int, greedy: bool,
    parts: int,
) -> float:
    """Set how fast each warp of the SM goes now, as a part of what it does alone; gives the cycles until the next one ends."""
    whole = np.zeros(parts)
    for age in range(held[sm]):
        place = order[sm, age]
        for k in range(per_block):
            if left[sm, place * per_block + k] > 0:
                whole[(place * per_block + k) % parts] += pace[first[sm, place] + k]
    free, least = np.ones(parts), np.inf
    for age in range(held[sm]):
        place = order[sm, age]
        for k in range(per_block):
            warp, wanted = place * per_block + k, pace[first[sm, place] + k]
            if left[sm, warp] > 0:
                part = warp % parts
                if greedy:
                    # its services take what older warps leave of the resource, its stalls as long as ever
                    speed[sm, warp] = free[part] / (free[part] * (1.0 - wanted) + wanted) if wanted > 0 else 1.0
                    free[part] = max(0.0, free[part] - speed[sm, warp] * wanted)
                else:
                    speed[sm, warp] = min(1.0, 1.0 / whole[part]) if whole[part] > 0 else 1.0
                if speed[sm, warp] > 0:
                    least = min(least, left[sm, warp] / speed[sm, warp])
    return float(least)
