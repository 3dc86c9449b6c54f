"""Coalescing: from the byte addresses of a warp's lanes to 32-byte sectors, and from sectors to line requests.

A warp instruction touches, lane by lane, the sectors that its bytes lie in; a sector that was touched before is not listed again
(CUDA C++ Programming Guide, "Global Memory": device memory moves in 32-byte segments). A *request* is one cache line of that list.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from warpsight.addressing.compiled import inlined
from warpsight.addressing.integers import quotient, signed

SECTOR_BYTES = 32
DIVERGENCE_LINE_BYTES = 128
LINE_128 = DIVERGENCE_LINE_BYTES // SECTOR_BYTES


def sectors_of_lanes(addresses: Sequence[int], access_bytes: int) -> list[int]:
    """The distinct sectors (byte address // 32) that the lanes touch, in lane order; inactive lanes are left out by the caller.

    `addresses` are byte addresses, one per active lane, `access_bytes` what each lane moves.
    """
    seen: dict[int, None] = {}
    for address in addresses:
        for sector in range(address // SECTOR_BYTES, (address + access_bytes - 1) // SECTOR_BYTES + 1):
            seen[sector] = None
    return list(seen)


@inlined
def merge_lines(
    sectors: npt.NDArray[np.uint32],
    first: int,
    count: int,
    sectors_per_line: int,
    out: npt.NDArray[np.int64],
    lines: int,
    masks: int,
) -> int:
    """Merge `sectors[first:first + count]` into line requests; gives their number, n.

    `out[lines:lines + n]` receives the distinct line numbers (byte address // line size) in the order of first touch,
    `out[masks:masks + n]` for each the sectors touched (bit k: k-th sector of the line). Room for `count` of each is needed.
    """
    n = 0
    for k in range(first, first + count):
        sector = signed(sectors[k])
        line = quotient(sector, sectors_per_line)
        bit = 1 << (sector - line * sectors_per_line)
        place = n - 1
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

    Lanes in a row that begin inside a line touch one line more than they fill: that is alignment, not divergence.
    """
    return touched > packed + 1


def packed_lines(access_bytes: int) -> int:
    """128 B lines that 32 lanes with `access_bytes` each need when their addresses are contiguous and aligned."""
    return -(-32 * access_bytes // DIVERGENCE_LINE_BYTES)
