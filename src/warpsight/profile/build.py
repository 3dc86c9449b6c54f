"""From a trace and its misses on a GPU to the interval profile of its representative warp (MDM Fig. 1, steps 2 and 3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.occupancy import Occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.profile.alone import cycles_alone
from warpsight.profile.demands import demands_of, l1_cycles, stall_in_step
from warpsight.profile.dependences import dependences, steps
from warpsight.profile.interval_profile import CAUSES, Floats, IntervalProfile, LaunchShape
from warpsight.profile.intervals import PathIntervals, path_intervals, path_stats
from warpsight.profile.latency import LatencyTable, latency_table
from warpsight.profile.representative import select
from warpsight.profile.requests import leaving
from warpsight.profile.trace_counts import trace_counts
from warpsight.profile.usage import occurrences, path_use
from warpsight.trace.schema import STORE, KernelTrace

_NONE, _COMPUTE, _MEMORY = (CAUSES.index(cause) for cause in ("none", "compute", "memory"))


def build_profile(
    trace: KernelTrace, misses: MissProfile, gpu: GpuSpec, occupancy: Occupancy, *, representative: str = "kmeans",
    counts: bool = True,
) -> IntervalProfile:
    """The interval profile of `trace` on `gpu`; every distinct path is walked, the representative's intervals are kept.

    `misses` is what the caches of `gpu` made of the trace, `occupancy` its residency. `representative` as for `select`. Without
    `counts` the profile lacks those of its instructions, for models that do not ask for them.
    Raises SpecError for an op class without a latency, UsageError for an unknown method or a trace without instructions.
    """
    warps, first_warp = path_use(trace)
    times = occurrences(trace, warps)
    latency = latency_table(trace.instructions, misses, gpu, times)
    walked = steps(trace.instructions, trace.block_start)
    stats = path_stats(trace, walked, latency.cycles)
    path = select(stats.instructions, stats.cycles, warps, first_warp, method=representative)
    found = path_intervals(trace, path, dependences(trace.instructions), latency.cycles, traffic(trace, misses, times))
    header = trace.header
    resident = min(occupancy.blocks_per_sm, -(-header.blocks // gpu.sm_count))
    cause = np.where(found.pc < 0, _NONE, np.where(latency.memory[found.pc], _MEMORY, _COMPUTE)).astype(np.int8)
    # to nine decimals, or the noise of summing thirds could tip ceil(10.000000000000002) into another batch
    rounded = np.round(found.sums, 9)
    memory_instructions, read_misses, write_misses, dram_reads, dram_writes, port_cycles = np.ascontiguousarray(rounded.T)
    alone = float(found.stall_cycles.sum())
    slots = gpu.sm.schedulers * gpu.sm.issue_width
    in_step = stall_in_step(found.instructions, found.stall_cycles, port_cycles, header.warps_per_block, slots)
    hidden = 1.0 - in_step / alone if alone else 0.0
    own = cycles_alone(trace, walked, latency.cycles, l1_cycles(trace, misses) / np.maximum(times, 1), gpu)
    return IntervalProfile(
        kernel=header.kernel,
        warps_per_sm=resident * header.warps_per_block,
        total_warp_instructions=header.warp_instructions,
        llc_miss_ratio=misses.llc_miss_ratio,
        path=path,
        instructions=found.instructions,
        stall_cycles=found.stall_cycles,
        cause=cause,
        pc=found.pc,
        memory_instructions=memory_instructions,
        read_misses=read_misses,
        write_misses=write_misses,
        dram_reads=dram_reads,
        dram_writes=dram_writes,
        dpki=1000.0 * float(misses.divergent.sum()) / header.recorded_instructions,
        launch=LaunchShape(
            header.blocks, header.warps_per_block, occupancy.blocks_per_sm, occupancy.limiter, float(occupancy.fraction)
        ),
        notes=(_who(int(first_warp[path]), header.warps_per_block, representative, warps, path),),
        memory_stall_levels=_levels(found, cause, latency),
        demands=demands_of(trace, misses, gpu, replace(stats, cycles=own), warps, times, hidden, occupancy.blocks_per_sm),
        counts=trace_counts(trace, gpu, warps, occupancy.blocks_per_sm) if counts else None,
    )


def traffic(trace: KernelTrace, misses: MissProfile, times: npt.NDArray[np.int64]) -> Floats:
    """What one occurrence of each pc adds to an interval, float64 [instructions, 6].

    Columns: memory instructions, read misses, write misses, DRAM reads, DRAM writes, cycles of the load-store unit.

    Counts are means over all occurrences, so that they sum over the launch to what the caches saw. A memory instruction here is one
    that waits for device memory: a load or an atomic. Which requests are misses: see `leaving`.
    """
    waits = [instruction.has_sectors and instruction.access != STORE for instruction in trace.instructions]
    reads, writes = leaving(trace.instructions, misses)
    counts = np.stack([reads, writes, misses.dram_reads, misses.dram_writes, l1_cycles(trace, misses)], axis=1)
    means = counts / np.maximum(times, 1)[:, None]
    return np.concatenate([np.array(waits, dtype=np.float64)[:, None], means], axis=1)


def _levels(found: PathIntervals, cause: npt.NDArray[np.int8], latency: LatencyTable) -> tuple[float, float, float] | None:
    """Shares of L1, L2 and DRAM in the memory stall cycles, by the distribution of each stalling pc (GPUMech section VII)."""
    memory = cause == _MEMORY
    stalls, parts = found.stall_cycles[memory], latency.levels[found.pc[memory]]
    if not stalls.size:
        return None
    cycles = (stalls[:, None] * parts / parts.sum(axis=1, keepdims=True)).sum(axis=0)
    l1, l2, dram = (float(share) for share in cycles / cycles.sum())
    return l1, l2, dram


def _who(warp: int, warps_per_block: int, method: str, warps: npt.NDArray[np.int64], path: int) -> str:
    block, place = divmod(warp, warps_per_block)
    return (
        f"representative ({method}): warp {place} of block {block}, whose path {warps[path]:,} of {warps.sum():,} warps took; "
        f"{np.count_nonzero(warps):,} distinct paths"
    )
