"""Coalescing: from the byte addresses of a warp's lanes to 32-byte sectors, and from sectors to line requests.

A warp instruction touches, lane by lane, the sectors that its bytes lie in; a sector that was touched before is not listed again
(CUDA C++ Programming Guide, "Global Memory": device memory moves in 32-byte segments). A *request* is one cache line of that list.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.integers import quotient, signed
from warpsight.base.compiled import inlined
from warpsight.base.records import Table, UInt32

SECTOR_BYTES = 32
DIVERGENCE_LINE_BYTES = 128
LINE_128 = DIVERGENCE_LINE_BYTES // SECTOR_BYTES


@inlined
def merge_lines(
    sectors: npt.NDArray[np.uint32] | Table[UInt32],
    first: int,
    count: int,
    sectors_per_line: int,
    out: npt.NDArray[np.int64] | Table[int],
    lines: int,
    masks: int,
) -> int:
    """Merge `sectors[first:first + count]` into line requests; returns their number, n.

    `out[lines:lines + n]` receives the distinct line numbers (byte address // line size) in the order of first touch,
    `out[masks:masks + n]` for each the sectors touched (bit k: k-th sector of the line). Room for `count` of each is needed.
    """
    n, highest = 0, -1
    for k in range(first, first + count):
        sector = signed(sectors[k])
        line = quotient(sector, sectors_per_line)
        bit = 1 << (sector - line * sectors_per_line)
        place = n - 1 if line <= highest else -1  # a bulk copy may have thousands of lines, most of them in order
        highest = max(highest, line)
        # Neighbouring lanes usually share a line, so the newest request is compared first.
        while place >= 0 and out[lines + place] != line:
            place -= 1
        if place >= 0:
            out[masks + place] |= bit
        else:
            out[lines + n] = line
            out[masks + n] = bit
            n += 1
    return n


@inlined
def part_of_line(line: int, sectors: int, per_line: int, other: int, per_other: int) -> int:
    """Which of `sectors` (mask) of line number `line` lie in line `other` of another cache, as a mask of that line.

    `per_line` and `per_other`: sectors in a line of each.
    """
    shift = line * per_line - other * per_other
    moved = sectors << shift if shift >= 0 else sectors >> -shift
    return int(moved & ((1 << per_other) - 1))


@inlined
def is_divergent(touched: int, packed: int) -> bool:
    """Whether a load that touches so many 128 B lines is memory-divergent; `packed` from `packed_lines`.

    Contiguous lanes that begin inside a line touch one line more than they fill: that is alignment, not divergence.
    """
    return touched > packed + 1


def packed_lines(access_bytes: int) -> int:
    """128 B lines that 32 lanes with `access_bytes` each need when their addresses are contiguous and aligned."""
    return -(-32 * access_bytes // DIVERGENCE_LINE_BYTES)


# -- Coalescing rules of the MWP-CWP model: how many memory transactions a warp instruction makes, and whether it is coalesced.
#
# Rules have names, and count over a whole warp as the model's paper does (Hong and Kim, ISCA 2009, sections 2.3 and 3.4.5: a
# coalesced warp makes one transaction); the hardware of compute capability 1.x works on half-warps.
#
# * `cc1.0` (CUDA Programming Guide 2.1, section 5.1.2.1, compute capability 1.0 and 1.1): words of 4, 8 or 16 bytes, and in each
#   half-warp lane k accesses word k of an aligned run of 16 words; else one transaction for each active lane.
# * `cc1.3` (the same, compute capability 1.2 and higher): one transaction for each distinct segment, of 32 bytes for words of 1
#   byte, 64 for 2, else 128; coalesced if there are no more of them than 32 adjacent words fill.
# * `sectors`: one transaction for each distinct sector, the bytes that an L1 miss fetches; coalesced as with `cc1.3`.
#
# From a list of 32-byte sectors (what a trace keeps) `cc1.3` and `sectors` are exact, for words that are aligned to their size.
# `cc1.0` depends on the order of lanes within a sector and on which lanes are inactive, which sectors do not show: an access that
# can satisfy the rule counts as coalesced. Addresses that are affine in the lane number give the same result both ways.

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TRANSACTION_RULES = ("sectors", "cc1.0", "cc1.3")
_SECTORS, _CC10, _CC13 = range(len(TRANSACTION_RULES))
_LANES, _HALF = 32, 16


def transaction_rule_number(rule: str) -> int:
    """The number that compiled code knows `rule` by. Raises ValueError for another word."""
    return TRANSACTION_RULES.index(rule)


def segment_bytes(rule: int, access_bytes: int, sector_bytes: int) -> int:
    """Size of the aligned pieces that rule number `rule` counts, for words of `access_bytes` (cc1.0: those of half a warp)."""
    if rule == _CC10:
        return min(max(_HALF * access_bytes, SECTOR_BYTES), 128)
    if rule == _CC13:
        return min(max(SECTOR_BYTES * access_bytes, SECTOR_BYTES), 128)
    return sector_bytes


def packed_segments(access_bytes: int, segment: int) -> int:
    """Segments that the words of 32 lanes fill when they are adjacent and aligned."""
    return max(1, -(-_LANES * access_bytes // segment))


def transactions_of_lanes(addresses: Longs, active: Bools, access_bytes: int, rule: int, sector_bytes: int) -> tuple[Longs, Bools]:
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
    return count, count <= packed_segments(access_bytes, segment)


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
def transactions_of_sectors(
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


@inlined
def bank_of(line: int, banks: int) -> int:
    """The bank of an L1's tags in which `line` is looked up, as a bit; `banks` is a power of two."""
    return 1 << (line & (banks - 1))


@inlined
def bytes_of_sector(lanes_bytes: int, repeats: int, sectors: int, lane_bytes: int) -> int:
    """Bytes that an atomic changes in each of its `sectors`, spread evenly: `lanes_bytes` of all lanes, of which `repeats` have the
    address of another one.

    Lanes are known where a basic block is entered, not those that a guard leaves, so they may have more bytes than the sectors. An
    atomic with fewer lanes than its block is mostly of one, which the assembler chooses to add for all: `lane_bytes` then.
    """
    distinct = max(0, lanes_bytes - repeats * lane_bytes)
    if distinct > SECTOR_BYTES * sectors:
        return lane_bytes
    return quotient(distinct + sectors - 1, sectors)
