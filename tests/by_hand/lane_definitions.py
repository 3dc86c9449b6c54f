"""What the lanes of a warp touch, worked out lane by lane: the sectors of global memory and the passes through the shared banks.

The emulator and the importers compute the same in compiled code.

Shared memory has 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory", compute capability 5.x and later). Lanes that
address the same 4-byte word are served together (broadcast); different words of one bank need one pass each. Accesses of 8 bytes a
lane are done in two half-warps, of 16 bytes in four quarter-warps.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsight.addressing.coalescing import SECTOR_BYTES

BANKS = 32
BANK_BYTES = 4
WARP_SIZE = 32


def sectors_of_lanes(addresses: Sequence[int], access_bytes: int) -> list[int]:
    """The distinct sectors (byte address // 32) that the lanes touch, in lane order; the caller leaves out inactive lanes.

    `addresses` are byte addresses, one per active lane, `access_bytes` what each lane moves.
    """
    seen: dict[int, None] = {}
    for address in addresses:
        for sector in range(address // SECTOR_BYTES, (address + access_bytes - 1) // SECTOR_BYTES + 1):
            seen[sector] = None
    return list(seen)


def _degree(addresses: Sequence[int], access_bytes: int, banks: int) -> int:
    words: dict[int, set[int]] = {}
    for address in addresses:
        for word in range(address // BANK_BYTES, (address + access_bytes - 1) // BANK_BYTES + 1):
            words.setdefault(word % banks, set()).add(word)
    return max((len(distinct) for distinct in words.values()), default=0)


def bank_passes(
    addresses: Sequence[int], active: Sequence[bool], access_bytes: int, banks: int = BANKS, *, loads: bool = False
) -> int:
    """Passes through the banks of one warp access: 1 without conflict, 0 if no lane is active.

    `addresses` (bytes) and `active` have one entry per lane, 32 of each; `access_bytes` is what each lane moves (1 to 16).
    The largest number of distinct words in one bank, summed over the half-warps (8 bytes) or quarter-warps (16 bytes). Of `loads`
    whose lanes n and n ^ 1, or n and n ^ 2, have one address wherever both are active, two of these parts go together.
    """
    parts = max(1, access_bytes // BANK_BYTES)
    if loads and parts > 1 and any(
        all(addresses[n] == addresses[n ^ step] for n in range(WARP_SIZE) if active[n] and active[n ^ step]) for step in (1, 2)
    ):
        parts //= 2
    width = WARP_SIZE // parts
    return sum(
        _degree([a for a, on in zip(addresses[k : k + width], active[k : k + width], strict=True) if on], access_bytes, banks)
        for k in range(0, WARP_SIZE, width)
    )
