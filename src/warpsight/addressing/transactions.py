"""Coalescing rules of the MWP-CWP model: how many memory transactions a warp instruction makes, and whether it is coalesced.

Rules are by name, and counted over a whole warp as the model's paper counts them (Hong and Kim, ISCA 2009, sections 2.3 and 3.4.5:
a coalesced warp makes one transaction); the hardware of compute capability 1.x works on half-warps.

* `cc1.0` (CUDA Programming Guide 2.1, section 5.1.2.1, compute capability 1.0 and 1.1): words of 4, 8 or 16 bytes, and in each
  half-warp lane k accesses word k of an aligned run of 16 words; else one transaction for each active lane.
* `cc1.3` (the same, compute capability 1.2 and higher): one transaction for each distinct segment, of 32 bytes for words of 1 byte,
  64 for 2, else 128; coalesced when there are no more of them than 32 adjacent words fill.
* `sectors`: one transaction for each distinct sector, the bytes that an L1 miss fetches; coalesced as with `cc1.3`.

From a list of 32-byte sectors (what a trace keeps) `cc1.3` and `sectors` are exact, for words that are aligned to their size. For
`cc1.0` the order of lanes within a sector and which lanes are off cannot be seen: what satisfies the rule as far as sectors show it
counts as coalesced. Addresses that are affine in the lane number come out the same both ways.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import SECTOR_BYTES
from warpsight.addressing.compiled import inlined
from warpsight.addressing.integers import signed

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RULES = ("sectors", "cc1.0", "cc1.3")
_SECTORS, _CC10, _CC13 = range(len(RULES))
_LANES, _HALF = 32, 16


def rule_number(rule: str) -> int:
    """The number that compiled code knows `rule` by. Raises ValueError for another word."""
    return RULES.index(rule)


def segment_bytes(rule: int, access_bytes: int, sector_bytes: int) -> int:
    """Size of the aligned pieces that rule number `rule` counts, for words of `access_bytes` (cc1.0: those of half a warp)."""
    if rule == _CC10:
        return min(max(_HALF * access_bytes, SECTOR_BYTES), 128)
    if rule == _CC13:
        return min(max(SECTOR_BYTES * access_bytes, SECTOR_BYTES), 128)
    return sector_bytes


def packed(access_bytes: int, segment: int) -> int:
    """Segments that the words of 32 lanes fill when they are adjacent and aligned."""
    return max(1, -(-_LANES * access_bytes // segment))


def of_lanes(addresses: Longs, active: Bools, access_bytes: int, rule: int, sector_bytes: int) -> tuple[Longs, Bools]:
    """Transactions int64 [warps] and whether coalesced bool [warps], exactly, from every lane's address.

    `addresses` bytes and `active`, both [warps, 32]. A warp without active lanes makes 0 transactions.
    """
    lanes = active.sum(axis=1)
    segment = segment_bytes(rule, access_bytes, sector_bytes)
    if rule == _CC10:
        good = _in_order(addresses, active, access_bytes, segment)
        return np.where(good, np.minimum(lanes, 1), lanes), good
    first, last = addresses // segment, (addresses + access_bytes - 1) // segment
    pieces = int((last - first).max(initial=0)) + 1
    touched = np.concatenate([np.where(active & (first + k <= last), first + k, -1) for k in range(pieces)], axis=1)
    touched.sort(axis=1)
    new = np.diff(touched, axis=1, prepend=-1) > 0
    count: Longs = (new & (touched >= 0)).sum(axis=1)
    return count, count <= packed(access_bytes, segment)


def _in_order(addresses: Longs, active: Bools, access_bytes: int, segment: int) -> Bools:
    """Compute capability 1.0: lane k of each half-warp at word k of an aligned run."""
    if access_bytes not in (4, 8, 16):
        return np.logical_not(active.any(axis=1))
    start = (addresses - np.arange(_LANES) % _HALF * access_bytes).reshape(-1, 2, _HALF)
    on = active.reshape(-1, 2, _HALF)
    low = np.where(on, start, np.iinfo(np.int64).max).min(axis=2)
    high = np.where(on, start, np.iinfo(np.int64).min).max(axis=2)
    fits: Bools = ~on.any(axis=2) | ((low == high) & (low % segment == 0))
    return np.asarray(fits.all(axis=1), dtype=np.bool_)


@inlined
def of_sectors(
    sectors: npt.NDArray[np.uint32], first: int, count: int, access_bytes: int, lanes: int, rule: int, segment: int
) -> int:
    """Transactions of a warp whose sectors (in lane order, duplicates merged) are `sectors[first:first + count]`, count at least 1.

    Negated when the access is coalesced. `lanes` are active, `segment` is `segment_bytes` of the rule. See the module for what is
    exact.
    """
    per_segment = segment // 32
    distinct = 0
    gaps = 0
    for k in range(first, first + count):
        mine = signed(sectors[k]) // per_segment
        new = True
        for j in range(k - 1, first - 1, -1):
            if signed(sectors[j]) // per_segment == mine:
                new = False
                break
        if new:
            distinct += 1
        if k > first and signed(sectors[k]) != signed(sectors[k - 1]) + 1:
            gaps += 1
    if rule != 1:
        fill = max(1, -(-32 * access_bytes // segment))
        return -distinct if distinct <= fill else distinct
    if access_bytes not in (4, 8, 16):
        return lanes
    # each half-warp has its own run of words, in order: at most one gap, and no more segments than two half-warps have
    runs = 2 * max(1, 16 * access_bytes // segment)
    # with all lanes on, whole segments are touched; with some off, there is at least a word for every lane
    filled = 32 * count == distinct * segment if lanes == 32 else 32 * count >= lanes * access_bytes
    return -1 if gaps <= 1 and distinct <= runs and filled else lanes
