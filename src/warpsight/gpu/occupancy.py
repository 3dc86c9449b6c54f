"""How many blocks of a launch are resident on an SM, and which resource bounds it: CUDA's occupancy rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError
from warpsight.gpu.spec import GpuSpec, SmSpec

WARP_SIZE = 32
LIMITERS = ("threads", "blocks", "registers", "shared memory")


@dataclass(frozen=True)
class Occupancy:
    """Residency of a launch on a GPU. `fraction` is resident warps over the SM's warp slots, `limiter` one of `LIMITERS`.

    `carve_out_bytes` is the shared memory that an SM has during the launch, None where that does not depend on the launch.
    """

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str
    carve_out_bytes: int | None = None


def occupancy(
    gpu: GpuSpec, threads_per_block: int, registers_per_thread: int, shared_bytes: int, cluster_blocks: int = 1
) -> Occupancy:
    """Residency of blocks of that size. `shared_bytes` is a block's static and dynamic shared memory together.

    Of equal limits (`block_limits`) the first of `LIMITERS` is named. How many blocks the launch has does not matter here.
    Raises UsageError when a single block or a cluster of `cluster_blocks` does not fit, naming resource, need and what there is.
    """
    sm = gpu.sm
    warps, per_block = -(-threads_per_block // WARP_SIZE), _shared_per_block(sm, shared_bytes)
    limits = block_limits(gpu, threads_per_block, registers_per_thread, shared_bytes)
    limiter = min(limits, key=limits.__getitem__)
    blocks = limits[limiter]
    if cluster_blocks > 1:
        resident_clusters(gpu, blocks, cluster_blocks)
    others = min(limit for name, limit in limits.items() if name != "shared memory")
    return Occupancy(blocks, blocks * warps, blocks * warps / sm.max_warps, limiter, _carve_out(gpu, others * per_block))


def block_limits(gpu: GpuSpec, threads_per_block: int, registers_per_thread: int, shared_bytes: int) -> dict[str, int]:
    """The number of blocks of that size that each of `LIMITERS` allows on an SM.

    Registers are given to warps, in units, out of the equal parts of the register file that the warp schedulers own; shared memory
    is given to blocks, in units (CUDA C++ Programming Guide, hardware multithreading; CUDA's occupancy calculator).
    Raises UsageError as `occupancy`.
    """
    sm = gpu.sm
    warps = -(-threads_per_block // WARP_SIZE)
    _check_block(gpu, threads_per_block, warps, registers_per_thread, shared_bytes)
    per_warp, per_block = _registers_per_warp(sm, registers_per_thread), _shared_per_block(sm, shared_bytes)
    return {
        "threads": sm.max_warps // warps,
        "blocks": sm.max_blocks,
        # each scheduler's part of the register file holds whole warps
        "registers": sm.registers // sm.schedulers // per_warp * sm.schedulers // warps if per_warp else sm.max_blocks,
        "shared memory": sm.shared_memory_bytes // per_block if per_block else sm.max_blocks,
    }


# -- Clusters: their blocks are on SMs of one graphics processing cluster (CUDA C++ Programming Guide, "Thread Block Clusters").

def gpc_of_sms(sm_count: int, gpc_count: int) -> npt.NDArray[np.int64]:
    """The GPC of each SM, int64 [sm_count]; with `gpc_count` 0 all are of one.

    SMs come in pairs (TPCs), which are divided as evenly among the GPCs as their number allows. Neighbouring numbers are of
    different GPCs, so that a GPC of an even number is near to the partition of the L2 that SMs of even number are near to.
    """
    gpcs, sms = max(1, gpc_count), np.arange(sm_count)
    dealt = sm_count - sm_count % (2 * gpcs)  # SMs in whole rounds of pairs
    pairs_left = max(1, -(-(sm_count - dealt) // 2))
    return np.where(sms < dealt, sms % gpcs, (sms - dealt) % pairs_left)


def clusters_of(sm_count: int, gpc_count: int, blocks_per_sm: int, cluster_blocks: int) -> int:
    """Clusters that are resident at once on SMs that hold `blocks_per_sm` blocks each."""
    sms = np.bincount(gpc_of_sms(sm_count, gpc_count))
    return int((sms * blocks_per_sm // cluster_blocks).sum())


def resident_clusters(gpu: GpuSpec, blocks_per_sm: int, cluster_blocks: int) -> int:
    """Clusters that are resident at once on `gpu`, whose SMs hold `blocks_per_sm` blocks each. Raises UsageError for none."""
    clusters = clusters_of(gpu.sm_count, gpu.gpc_count, blocks_per_sm, cluster_blocks)
    if not clusters:
        most = int(np.bincount(gpc_of_sms(gpu.sm_count, gpu.gpc_count)).max()) * blocks_per_sm
        what = f"a cluster of {cluster_blocks} blocks does not fit on {gpu.name}: {most} of these blocks fit on its largest GPC"
        raise UsageError(what, place="cluster", remedy="use a smaller cluster, or blocks with fewer threads, registers or bytes")
    return clusters


def resident_blocks(gpu: GpuSpec, blocks: int, blocks_per_sm: int, cluster_blocks: int) -> int:
    """Blocks that the busiest SM holds at a time, of a launch of `blocks`: they are spread over all SMs that clusters can fill.

    Raises UsageError as `resident_clusters`.
    """
    places = resident_clusters(gpu, blocks_per_sm, cluster_blocks) * cluster_blocks
    return min(blocks_per_sm, -(-blocks * blocks_per_sm // places))


# Shared memory of an SM in KiB: the steps among which the driver chooses (CUDA C++ Programming Guide, sections on shared memory of
# each compute capability, "carveout"; tuning guides of Volta to Blackwell).
_TO_100 = (0, 8, 16, 32, 64, 100)
_TO_164 = (*_TO_100, 132, 164)
_TO_228 = (*_TO_164, 196, 228)
CARVE_OUTS = {
    "7.0": (0, 8, 16, 32, 64, 96), "7.5": (32, 64), "8.0": _TO_164, "8.6": _TO_100, "8.7": _TO_164, "8.9": _TO_100, "9.0": _TO_228,
    "10.0": _TO_228, "10.3": _TO_228, "12.0": _TO_100, "12.1": _TO_100,
}  # fmt: skip


def _carve_out(gpu: GpuSpec, wanted: int) -> int | None:
    """The least step that holds `wanted` bytes, those of all blocks that fit otherwise, so that none loses its place; else all."""
    if not gpu.l1.carve_out:
        return None
    steps = (step << 10 for step in CARVE_OUTS[gpu.compute_capability])
    return min((step for step in steps if wanted <= step < gpu.sm.shared_memory_bytes), default=gpu.sm.shared_memory_bytes)


def with_own_l1(gpu: GpuSpec, resident: Occupancy) -> GpuSpec:
    """`gpu` with the L1 of a launch: shared memory that it does not take is more ways of each set."""
    if resident.carve_out_bytes is None:
        return gpu
    size = gpu.l1.size_bytes + gpu.sm.shared_memory_bytes - resident.carve_out_bytes
    one_way = gpu.l1.line_bytes * gpu.l1.sets
    return replace(gpu, l1=replace(gpu.l1, size_bytes=size // one_way * one_way, ways=size // one_way, carve_out=False))


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _registers_per_warp(sm: SmSpec, registers_per_thread: int) -> int:
    return _round_up(registers_per_thread * WARP_SIZE, sm.register_unit)


def _shared_per_block(sm: SmSpec, shared_bytes: int) -> int:
    return _round_up(shared_bytes + sm.shared_memory_reserved_bytes, sm.shared_memory_unit_bytes)


def _check_block(gpu: GpuSpec, threads: int, warps: int, registers: int, shared_bytes: int) -> None:
    """Whether one block fits on an SM at all, resource by resource."""
    sm = gpu.sm
    if threads < 1 or registers < 0 or shared_bytes < 0:
        block = f"{threads:,} threads, {registers:,} registers per thread and {shared_bytes:,} B of shared memory"
        remedy = "a block has at least one thread, and no resource is negative"
        raise UsageError(f"a block of {block} is not possible", remedy=remedy)
    # the hardware's own check of registers takes the warps as spread over all schedulers
    of_block = _registers_per_warp(sm, registers) * _round_up(warps, sm.schedulers)
    for unit, needed, available, remedy in (
        ("threads per block", threads, min(sm.max_threads_per_block, sm.max_warps * WARP_SIZE), "make the block smaller"),
        ("registers per thread", registers, sm.max_registers_per_thread, "compile with --maxrregcount"),
        ("registers per block", of_block, sm.registers, "make the block smaller, or compile with __launch_bounds__"),
        ("bytes of shared memory per block", shared_bytes, sm.max_shared_memory_per_block_bytes or sm.shared_memory_bytes,
         "use less shared memory"),
        ("bytes of shared memory per block (rounded up, including what the system reserves)", _shared_per_block(sm, shared_bytes),
         sm.shared_memory_bytes, "use less shared memory"),
    ):  # fmt: skip
        if needed > available:
            message = f"the block does not fit on {gpu.name}: {needed:,} {unit} needed, {available:,} available"
            raise UsageError(message, remedy=remedy)
