"""What a launch asks of each resource of a GPU, as a mean over its warps: the input of models that see resources as queues."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.spec import GpuSpec
from warpsight.profile.interval_profile import ResourceDemands
from warpsight.profile.intervals import PathStats
from warpsight.profile.requests import atomics, requests
from warpsight.trace.schema import SECTOR_BYTES, STORE, KernelTrace

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


def l1_cycles(trace: KernelTrace, misses: MissProfile) -> Floats:
    """Cycles of the load-store unit for all executions of each pc together, float64 [instructions]."""
    return np.asarray(requests(trace.instructions, misses) + misses.shared_passes, dtype=np.float64)


def stall_in_step(instructions: Floats, stall_cycles: Floats, port_cycles: Floats, warps: int) -> float:
    """Stall cycles that `warps` warps in step do not hide from each other; all arrays [intervals] of one of them.

    They issue, and pass the load-store unit, one after the other: the last begins an interval's stall as much later than the first.
    """
    later = (warps - 1) * np.maximum(instructions, port_cycles)
    return float(np.maximum(stall_cycles - later, 0.0).sum())


def demands_of(
    trace: KernelTrace, misses: MissProfile, gpu: GpuSpec, stats: PathStats, warps: Longs, times: Longs, hidden_in_step: float
) -> ResourceDemands:
    """The demands of `trace` on `gpu`.

    `stats` and `warps` [paths]: each path alone, and how many warps took it. `times` [instructions]: how often warps came past each
    pc. `hidden_in_step` (0 to 1): the part of a warp's stalls that the warps of its block hide when they move in step.
    """
    count = trace.header.warps
    atomic = atomics(trace.instructions)
    store = np.array([instruction.access == STORE for instruction in trace.instructions], dtype=np.bool_)
    barrier = np.array([instruction.op_class == "barrier" for instruction in trace.instructions], dtype=np.bool_)
    atomic_bytes = SECTOR_BYTES * float(misses.l2_reads[atomic].sum())
    beyond = float(misses.l2_read_misses.sum() + misses.l2_read_merges.sum())
    stall = float(((stats.cycles - stats.instructions) * warps).sum()) / count
    return ResourceDemands(
        unit_cycles=_unit_cycles(trace, gpu, times) / count,
        l1_cycles=float(l1_cycles(trace, misses).sum()) / count,
        read_misses=float(misses.l1_misses[~atomic].sum()) / count,
        fetched_bytes=(_fetched_bytes(misses, gpu, ~atomic) + atomic_bytes) / count,
        sent_bytes=(SECTOR_BYTES * float(misses.sectors[store].sum()) + atomic_bytes) / count,
        dram_bytes=float(misses.dram_reads.sum() + misses.dram_writes.sum()) * gpu.l2.sector_bytes / count,
        slice_accesses=float(misses.l2_reads.sum() + misses.l2_writes[~atomic].sum()) / count,
        atomic_repeats=float(misses.atomic_repeats.sum()) / count,
        dram_share=beyond / max(1.0, float(misses.l2_reads.sum())),
        reply_share=misses.reply_share,
        request_share=misses.request_share,
        channel_share=misses.channel_share,
        repeat_share=misses.repeat_share,
        barriers=float(times[barrier].sum()) / count,
        stall_cycles=stall,
        stall_in_step=stall * (1.0 - hidden_in_step),
        work_imbalance=work_imbalance(trace, stats, gpu.sm_count),
        longest_warp=float(stats.cycles[warps > 0].max()) * count / float((stats.cycles * warps).sum()),
    )


def _unit_cycles(trace: KernelTrace, gpu: GpuSpec, times: Longs) -> float:
    """Cycles that all warps together keep the busiest unit which is not fully pipelined."""
    busy: dict[str, float] = {}
    for instruction in trace.instructions:
        initiation = gpu.initiation_cycles.get(instruction.op_class, 1)
        if initiation > 1 and not instruction.access:
            busy[instruction.op_class] = busy.get(instruction.op_class, 0.0) + initiation * float(times[instruction.pc])
    return max(busy.values(), default=0.0)


def _fetched_bytes(misses: MissProfile, gpu: GpuSpec, reads: npt.NDArray[np.bool_]) -> float:
    """Bytes that L1 misses bring: whole sectors of the L1, as many of a line as its requests touch on average."""
    requests = np.maximum(misses.l1_reads[reads], 1)
    touched = SECTOR_BYTES * misses.sectors[reads] / requests
    sector, line = gpu.l1.sector_bytes, gpu.l1.line_bytes
    return float((misses.l1_misses[reads] * np.minimum(np.ceil(touched / sector) * sector, line)).sum())


def work_imbalance(trace: KernelTrace, stats: PathStats, sm_count: int) -> float:
    """Instructions of the busiest SM over the mean, divided by what equally large blocks would give.

    Blocks are dealt as the hardware does: to each SM in turn, then each to the SM that is done first. In a trace of some
    blocks each stands for its neighbours too.
    """
    per_block = trace.header.warps_per_block
    work = np.concatenate([stats.instructions[chunk.path].reshape(-1, per_block).sum(axis=1) for chunk in trace.chunks])
    if int(work.min()) == int(work.max()):
        return 1.0
    work = work[np.arange(trace.header.blocks) * len(work) // trace.header.blocks]
    total = int(work.sum())
    busiest = _deal(work.astype(np.int64), sm_count)
    even = -(-len(work) // sm_count) * sm_count / len(work)
    return float(busiest) * sm_count / total / even


@numba.njit(cache=True, nogil=True)
def _deal(work: Longs, sm_count: int) -> int:
    """The largest sum of `work` on an SM when each block goes to the SM with the least so far, the lowest of equals."""
    done = np.zeros(sm_count, dtype=np.int64)
    for block in range(len(work)):
        done[np.argmin(done)] += work[block]
    return int(done.max())
