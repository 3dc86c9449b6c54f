"""Which lane asked for which sector: what a trace does not keep, from a second run of the kernel, or as far as sectors tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from warpsight.explore.dossier.patterns import Access
from warpsight.explore.watch import Watch, stage
from warpsight.trace.schema import SECTOR_BYTES, WARP_SIZE

if TYPE_CHECKING:
    from warpsight.emulator.probe import LaneAddresses
    from warpsight.explore.kernel_input import ReadyLaunch
    from warpsight.explore.request import KernelRequest
    from warpsight.trace.schema import KernelTrace

Lanes = tuple[int | None, ...]

NO_KERNEL = "a trace keeps the sectors of an access in the order of its lanes, not the address of each lane"
CHANGED = "the kernel or its input is no longer what was traced, so it could not be run again for the addresses of lanes"
NOT_FOUND = "the address of each lane is recorded of plain loads, stores and atomics to device memory alone"


def lanes_of(
    trace: KernelTrace, request: KernelRequest | None, accesses: Sequence[Access], watch: Watch | None = None
) -> tuple[list[Lanes | None], str]:
    """Of each access the byte addresses of the 32 lanes (None: not active), or None where they are not known; and why, or "".

    The kernel of `request` runs again with probes at these accesses. What they find counts only where it gives the sectors that
    the trace has. Raises as `trace_kernel` does.
    """
    if request is None or request.is_trace:
        return [_told(access) for access in accesses], NO_KERNEL
    found = _run_again(trace, request, accesses, watch)
    if found is None:
        return [_told(access) for access in accesses], CHANGED
    lanes = [_checked(access, each) or _told(access) for access, each in zip(accesses, found, strict=True)]
    return lanes, NOT_FOUND if None in lanes else ""


def sectors_of(lanes: Lanes) -> tuple[int, ...]:
    """The sectors that these addresses lie in, in the order of lanes, each once; as a trace numbers them."""
    return tuple(dict.fromkeys(address // SECTOR_BYTES & 0xFFFFFFFF for address in lanes if address is not None))


def _run_again(
    trace: KernelTrace, request: KernelRequest, accesses: Sequence[Access], watch: Watch | None
) -> list[LaneAddresses | None] | None:
    """What probes find at the accesses; None if the launch is another one now."""
    from dataclasses import replace
    from io import StringIO

    from warpsight.emulator.launch import lane_addresses
    from warpsight.emulator.probe import Wanted
    from warpsight.explore.kernel_input import prepare
    from warpsight.workload.identity import input_hash, kernel_hash

    ready, header = prepare(request), trace.header
    now = kernel_hash(ready.launch.kernel, ready.source.ptx), input_hash(ready.launch), ready.sample
    if now != (header.kernel_hash, header.input_hash, header.sampled_blocks):
        return None
    warps = _warps_of_launch(ready, header.warps_per_block, [access.warp for access in accesses])
    wanted = [Wanted(access.pc, warp, access.before) for access, warp in zip(accesses, warps, strict=True)]
    return lane_addresses(
        ready.source,
        ready.launch,
        wanted,
        max_instructions=ready.max_instructions,
        progress=stage(watch, "finding the lanes of accesses"),
        options=replace(ready.options, output=StringIO()),  # what it prints was printed the first time
    )


def _warps_of_launch(ready: ReadyLaunch, per_block: int, warps: Sequence[int]) -> list[int]:
    """The numbers in the launch of warps of the trace, which may have some blocks alone."""
    if not ready.sample:
        return list(warps)
    from warpsight.emulator.sampling import choose_blocks

    blocks = np.flatnonzero(choose_blocks(ready.launch.blocks, ready.sample, ready.seed)).tolist()
    return [blocks[warp // per_block] * per_block + warp % per_block for warp in warps]


def _checked(access: Access, found: LaneAddresses | None) -> Lanes | None:
    """What a probe found, if the sectors are those of the access: else it was another one, or one that is recorded otherwise."""
    if found is None:
        return None
    lanes = tuple(int(address) if found.mask >> lane & 1 else None for lane, address in enumerate(found.addresses))
    return lanes if sectors_of(lanes) == access.sectors else None


def _told(access: Access) -> Lanes | None:
    """The sector's address of each lane where sectors alone tell: 32 sectors are those of 32 lanes."""
    if len(access.sectors) != WARP_SIZE or access.lanes != WARP_SIZE:
        return None
    return tuple(sector * SECTOR_BYTES for sector in access.sectors)
