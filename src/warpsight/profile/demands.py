"""What a launch asks of each resource of a GPU, as a mean over its warps: the input of models that see resources as queues."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.spec import GpuSpec
from warpsight.profile.dealing import makespan, makespan_of_equals
from warpsight.profile.interval_profile import ResourceDemands
from warpsight.profile.intervals import PathStats
from warpsight.profile.requests import atomics, dram_bytes, requests, touched_bytes
from warpsight.trace.schema import SECTOR_BYTES, STORE, KernelTrace

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


def l1_cycles(trace: KernelTrace, misses: MissProfile) -> Floats:
    """Cycles of the load-store unit for all executions of each pc together, float64 [instructions]."""
    return np.asarray(requests(trace.instructions, misses) + misses.shared_passes, dtype=np.float64)


def stall_in_step(instructions: Floats, stall_cycles: Floats, port_cycles: Floats, warps: int, slots: int = 1) -> float:
    """Stall cycles that `warps` warps in step do not hide from each other; all arrays [intervals] of one of them.

    They issue, `slots` of them a cycle (one a scheduler and instruction of its width), and pass the load-store unit, which the SM
    has one of, one after the other: the last begins an interval's stall as much later than the first.
    """
    later = np.maximum(max(warps / slots - 1.0, 0.0) * instructions, (warps - 1) * port_cycles)
    return float(np.maximum(stall_cycles - later, 0.0).sum())


def demands_of(
    trace: KernelTrace, misses: MissProfile, gpu: GpuSpec, stats: PathStats, warps: Longs, times: Longs, hidden_in_step: float,
    places: int,
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
    port = l1_cycles(trace, misses) / np.maximum(times, 1)
    stall = float(((stats.cycles - stats.instructions) * warps).sum()) / count
    return ResourceDemands(
        unit_cycles=_unit_cycles(trace, gpu, times) / count,
        l1_cycles=float(l1_cycles(trace, misses).sum()) / count,
        read_misses=float(misses.l1_misses[~atomic].sum()) / count,
        fetched_bytes=(_fetched_bytes(misses, gpu, ~atomic) + atomic_bytes) / count,
        sent_bytes=(SECTOR_BYTES * float(misses.sectors[store].sum()) + atomic_bytes) / count,
        sent_requests=float(requests(trace.instructions, misses)[store | atomic].sum()) / count,
        dram_bytes=sum(dram_bytes(misses, gpu.l2)) / count,
        slice_accesses=float(misses.l2_reads.sum() + misses.l2_writes[~atomic].sum()) / count,
        atomic_repeats=float(misses.atomic_repeats.sum()) / count,
        dram_share=beyond / max(1.0, float(misses.l2_reads.sum())),
        reply_share=misses.reply_share,
        request_share=misses.request_share,
        channel_share=misses.channel_share,
        repeat_share=misses.repeat_share,
        # an L1 that allocates when a line arrives keeps no way for it before
        way_wait=misses.way_wait if gpu.l1.allocation == "on-miss" else 0.0,
        barriers=float(times[barrier].sum()) / count,
        stall_cycles=stall,
        stall_in_step=stall * (1.0 - hidden_in_step),
        work_imbalance=work_imbalance(trace, stats, *busiest_on_path(trace, gpu, port, times), places, gpu),
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
    each = touched_bytes(misses.sectors[reads], misses.l1_reads[reads], gpu.l1)
    return float((misses.l1_misses[reads] * each).sum())


def work_imbalance(trace: KernelTrace, stats: PathStats, busiest: Floats, parts: int, places: int, gpu: GpuSpec) -> float:
    """How much longer the launch's blocks take for being unequal: cycles until all are done over those of as many mean blocks.

    `busiest` float64 [paths]: cycles for which a warp on each path keeps the SM's busiest resource, of which the SM has `parts`.
    An SM has `places` for blocks. In a trace of some blocks each stands for its neighbours too.
    """
    header, per_block = trace.header, trace.header.warps_per_block
    path = np.concatenate([chunk.path for chunk in trace.chunks]).reshape(-1, per_block)
    alone, demand = stats.cycles[path], np.minimum(busiest, stats.cycles)[path]
    if np.ptp(demand.sum(axis=1)) == 0 and np.ptp(alone.max(axis=1)) == 0:
        return 1.0
    neighbour = np.arange(header.blocks) * len(path) // header.blocks
    alone, demand = alone[neighbour].ravel(), demand[neighbour].ravel()
    greedy = gpu.sm.policy == "gto"
    unequal = makespan(np.maximum(alone, 1.0), demand, per_block, places, gpu.sm_count, greedy, parts)
    apart = makespan_of_equals(float(alone.mean()), float(demand.mean()), header.blocks, per_block, places, gpu.sm_count, parts)
    mean = np.full((2, len(alone)), [[float(alone.mean())], [float(demand.mean())]])
    in_step = makespan(mean[0], mean[1], per_block, places, gpu.sm_count, greedy, parts)
    # equal warps can be anything between in step and apart; only what lies beyond both is because they are not equal
    return unequal / min(max(unequal, min(apart, in_step)), max(apart, in_step))


def busiest_on_path(trace: KernelTrace, gpu: GpuSpec, port_cycles: Floats, times: Longs) -> tuple[Floats, int]:
    """Cycles for which a warp on each path keeps the resource of its SM that the launch needs most, float64 [paths]; how many of
    that resource the SM has.

    One of issue slots and functional units, which each scheduler has, and load-store unit, which the SM has (`port_cycles`
    [instructions], an occurrence); `times` [instructions].
    """
    issue = np.full(len(trace.instructions), 1.0 / gpu.sm.issue_width)
    costs = [(issue, gpu.sm.schedulers), (port_cycles, 1)]
    for op_class, initiation in gpu.initiation_cycles.items():
        uses = np.array([not i.access and i.op_class == op_class for i in trace.instructions], dtype=np.float64)
        costs.append((uses * initiation, gpu.sm.schedulers))
    cost, parts = max(costs, key=lambda cost: float((cost[0] * times).sum()) / cost[1])
    of_block = np.add.reduceat(np.append(cost, 0.0), trace.block_start[:-1]) * (np.diff(trace.block_start) > 0)
    running = np.concatenate([[0.0], np.cumsum(of_block[trace.paths.block] * trace.paths.repeat)])
    return np.asarray(np.diff(running[trace.paths.offset])), parts
