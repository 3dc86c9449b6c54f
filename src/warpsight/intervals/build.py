"""From a trace and its misses on a GPU to the interval profile of its representative warp (MDM Fig. 1, steps 2 and 3).

The latency of each static instruction (GPUMech section V-B), the choice of the representative warp (section III-C), the profile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError, suggestion
from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.occupancy import Occupancy, resident_blocks
from warpsight.gpu.operations import ISSUE_ONLY, op_latency, remote_pass_cycles, shared_latency
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.algorithm import (
    NO_WAITS,
    RESULT,
    Longs,
    PathIntervals,
    Steps,
    dependences,
    path_intervals,
    path_stats,
    steps,
)
from warpsight.intervals.blocks import BlocksAlone, blocks_alone, overlap_in_blocks
from warpsight.intervals.demands import cycles_alone, demands_of, stall_in_step
from warpsight.intervals.interval_profile import CAUSES, Floats, IntervalProfile, LaunchShape
from warpsight.intervals.usage import (
    activity,
    bulk_cycles,
    conflict_passes,
    l1_cycles,
    leaving,
    occurrences,
    path_use,
    sending_cycles,
    trace_counts,
    without_conflicts,
)
from warpsight.traces.marks import marks
from warpsight.traces.schema import ATOMIC, LOAD, STORE, KernelTrace, StaticInstruction

LEVELS = ("l1", "l2", "dram")
TRACED_BANKS = 32  # a trace holds the conflict degree of each shared-memory access for so many


@dataclass(frozen=True)
class LatencyTable:
    """Per pc. `cycles` float64 [instructions] from issue to done (0: no consumer ever waits).

    `memory` bool [instructions]: a stall for this pc is a memory stall. `levels` float64 [instructions, 3]: the part of
    `cycles` that is served by L1, L2 and DRAM; a request counts in full for the level that serves it. `answered` float64
    [instructions]: from issue until the memory system has answered an access to device memory, even if nothing waits for it.
    """

    cycles: Floats
    memory: npt.NDArray[np.bool_]
    levels: Floats
    answered: Floats


def latency_table(
    instructions: tuple[StaticInstruction, ...], misses: MissProfile, gpu: GpuSpec, occurrences: Longs,
    remote: frozenset[int] = frozenset(),
) -> LatencyTable:
    """Latencies of `instructions` on `gpu` with the misses found on its caches.

    `occurrences` int64 [instructions]: how often warps executed each pc, including executions with all lanes predicated off. Those
    cost only their issue, so memory latencies are means over all occurrences. The pcs `remote` access shared memory of other
    blocks. Raises SpecError for an op class without a latency.
    """
    levels = np.zeros((len(instructions), len(LEVELS)))
    other, answered = np.zeros((2, len(instructions)))
    for instruction in instructions:
        pc, times = instruction.pc, int(occurrences[instruction.pc])
        if instruction.at_barrier and instruction.is_bulk:  # the trace says which executions copy
            times = min(times, int(misses.executions[pc]))
        if not instruction.access and instruction.op_class != "memory":
            other[pc] = _compute_latency(instruction, gpu)
        elif instruction.is_bulk and instruction.access != LOAD:
            other[pc] = float(gpu.l2.latency_cycles)  # until it is written; only waits for its group wait for it
        elif times and _is_waited_for(instruction):
            levels[pc] = _served(instruction, misses, gpu) / times
            other[pc] = _on_chip(instruction, misses, gpu, times, remote=pc in remote)
        elif times and instruction.has_sectors and not instruction.is_bulk:  # a store, or an atomic whose result nothing reads
            reached = _served(instruction, misses, gpu).sum() if instruction.access == ATOMIC else 0.0
            answered[pc] = max(float(reached), float(misses.executions[pc]) * gpu.l2.latency_cycles) / times
    device = levels.sum(axis=1)
    return LatencyTable(device + other, device > other, levels, np.maximum(answered, device))


def _is_waited_for(instruction: StaticInstruction) -> bool:
    """Whether something can wait for what the access brings: for registers, or for a copy."""
    return instruction.access != STORE and (bool(instruction.destinations) or instruction.is_async_copy or instruction.is_bulk)


def _compute_latency(instruction: StaticInstruction, gpu: GpuSpec) -> float:
    """The latency of the op class: the GPU's, or 0 for an instruction that only issues (it never stalls a consumer, eq. 4).

    That of a barrier is the time until a warp that is alone in its block goes on.
    """
    if instruction.is_timed_barrier:
        return float(gpu.sm.barrier_interval_cycles + gpu.sm.barrier_latency_cycles)
    if instruction.op_class in ISSUE_ONLY and instruction.op_class not in gpu.latency_cycles:
        return 0.0
    named = f'"{instruction.opcode}" ({instruction.file}:{instruction.line})'
    return float(op_latency(gpu, instruction.op_class, named, instruction.product))


def _served(instruction: StaticInstruction, misses: MissProfile, gpu: GpuSpec) -> Floats:
    """Latency cycles of all executions together, by the level that served them: a load by its slowest request."""
    if not instruction.has_sectors:
        return np.zeros(len(LEVELS))
    pc = instruction.pc
    l2 = float(gpu.l2.latency_cycles)
    reach = np.array([float(gpu.l1.latency_cycles), l2, l2 + gpu.dram.latency_cycles])
    if instruction.access == LOAD:
        reach[1] += _far_share(misses.slowest_far[pc], misses.slowest_l2[pc]) * gpu.l2.far_latency_cycles
        served = np.array([misses.slowest_l1[pc], misses.slowest_l2[pc], misses.slowest_dram[pc]], dtype=np.float64)
        return np.asarray(served * reach + _merged(pc, misses, reach))
    if instruction.access == ATOMIC and misses.l2_reads[pc]:
        # The slowest request of an atomic is not recorded, so its misses are assumed to be spread evenly over its executions.
        missed = float(misses.l2_read_misses[pc] + misses.l2_read_merges[pc]) / float(misses.l2_reads[pc])
        reach[1] += _far_share(misses.l2_far_hits[pc], misses.l2_read_hits[pc]) * gpu.l2.far_latency_cycles
        return np.asarray(float(misses.executions[pc]) * np.array([0.0, 1.0 - missed, missed]) * reach)
    return np.zeros(len(LEVELS))


def _far_share(far: np.int64, hits: np.int64) -> float:
    """The part of the hits in the L2 that are in the other partition."""
    return float(far) / float(hits) if hits else 0.0


def _merged(pc: int, misses: MissProfile, reach: Floats) -> Floats:
    """Cycles that loads waited for lines in flight, divided between L2 and DRAM as the L1 misses of this pc are.

    The cache simulation measures the wait with the latencies by which it orders accesses. The wait is the same share of the latency
    of the level that serves the line on this GPU, `reach` [3].
    """
    if not misses.merged_wait_cycles[pc]:
        return np.zeros(len(LEVELS))
    beyond = np.array([0.0, float(misses.slowest_l2[pc]), float(misses.slowest_dram[pc])])
    if not beyond.any():
        beyond[1] = 1.0  # only merges: the lines came at least from the L2
    measured = np.cumsum([0.0, misses.l2_latency_cycles, misses.dram_latency_cycles])
    measured[1] += _far_share(misses.slowest_far[pc], misses.slowest_l2[pc]) * misses.far_latency_cycles
    scale = np.divide(reach, measured, out=np.ones(len(LEVELS)), where=measured > 0)
    return np.asarray(float(misses.merged_wait_cycles[pc]) * beyond / beyond.sum() * scale)


def _on_chip(instruction: StaticInstruction, misses: MissProfile, gpu: GpuSpec, times: int, *, remote: bool) -> float:
    """Mean cycles in shared memory (its latency, those of each further pass, and those of lanes of atomics at one address), or in
    the constant and parameter cache. `remote`: that of another block.
    """
    if instruction.has_degree:
        latency = shared_latency(gpu, remote=remote)
        executions, passes = int(misses.shared_executions[instruction.pc]), int(misses.shared_passes[instruction.pc])
        lanes = int(misses.shared_repeats[instruction.pc]) * gpu.sm.atomic_lane_cycles
        each = remote_pass_cycles(gpu) if remote else 1
        return (executions * latency + (passes - executions) * each + lanes) / times if executions else 0.0
    # Constants and parameters hit a cache next to the register file (assumed perfect): they cost as much as a move.
    return 0.0 if instruction.has_sectors else float(gpu.latency_cycles["int"])


# -- The choice of the representative warp (GPUMech section III-C): two clusters over performance and length, or an extreme.

_MAX_ROUNDS = 300


def select(instructions: Longs, cycles: Floats, warps: Longs, first_warp: Longs, *, method: str = "kmeans") -> int:
    """The number of the path whose warps are representative. All arrays [paths]; paths without warps are ignored.

    `method` kmeans: the warp nearest to the centre of the larger of two clusters over (performance, instructions), each over its
    mean (eqs. 5-6); `max`, `min`: highest, lowest warp performance. Equal candidates: the lowest-numbered warp (`first_warp`).
    Raises UsageError for another method, or when no warp executed anything.
    """
    if method not in METHODS:
        what = f'"{method}" is not a way to choose the representative warp{suggestion(method, METHODS)}'
        raise UsageError(what, remedy=f"known: {', '.join(METHODS)}")
    taken = np.flatnonzero((warps > 0) & (instructions > 0))
    if not taken.size:
        raise UsageError("no warp executed an instruction, so there is none to represent the others", remedy="check the launch")
    taken = taken[np.argsort(first_warp[taken], kind="stable")]
    performance = instructions[taken] / cycles[taken]
    points = np.stack([performance, instructions[taken].astype(np.float64)], axis=1)
    return int(taken[METHODS[method](points, warps[taken].astype(np.float64))])


def _by_kmeans(points: Floats, weights: Floats) -> int:
    features = points / np.average(points, axis=0, weights=weights)
    second = two_means(features, weights)
    sizes = weights[~second].sum(), weights[second].sum()
    # of equal clusters, the one with the lowest-numbered warp, which is the first point
    largest = second == (second[0] if sizes[0] == sizes[1] else sizes[1] > sizes[0])
    centre = np.average(features[largest], axis=0, weights=weights[largest])
    distance = np.where(largest, ((features - centre) ** 2).sum(axis=1), np.inf)
    return int(np.argmin(distance))


def two_means(points: Floats, weights: Floats) -> npt.NDArray[np.bool_]:
    """Weighted 2-means of `points` float64 [n, 2]: True for members of the second cluster. Deterministic.

    It starts from the best cut across the widest direction, or along an axis where that is better, then moves points to the nearer
    centre until none moves (Lloyd). The second cluster is empty only if all points are equal.
    """
    centred = points - np.average(points, axis=0, weights=weights)
    covariance = (centred * weights[:, None]).T @ centred
    directions = [*np.eye(points.shape[1]), np.linalg.eigh(covariance)[1][:, -1]]
    cuts = [_best_cut(centred, weights, centred @ direction) for direction in directions]
    second = min(cuts, key=lambda cut: cut[0])[1]
    for _ in range(_MAX_ROUNDS):
        if second.all() or not second.any():
            break
        centres = [np.average(points[side], axis=0, weights=weights[side]) for side in (~second, second)]
        distances = [((points - centre) ** 2).sum(axis=1) for centre in centres]
        moved = distances[1] < distances[0]
        if (moved == second).all():
            break
        second = moved
    return second


def _best_cut(points: Floats, weights: Floats, along: Floats) -> tuple[float, npt.NDArray[np.bool_]]:
    """The cut of the order `along` with the smallest sum of squares: that sum (up to a constant), and the points beyond the cut."""
    order = np.argsort(along, kind="stable")
    weight = np.cumsum(weights[order])
    total = np.cumsum(points[order] * weights[order, None], axis=0)
    distinct = np.flatnonzero(np.diff(along[order]) > 0)
    if not distinct.size:
        return np.inf, np.zeros(len(points), dtype=np.bool_)
    left, right = weight[distinct], weight[-1] - weight[distinct]
    spread = (total[distinct] ** 2).sum(axis=1) / left + ((total[-1] - total[distinct]) ** 2).sum(axis=1) / right
    best = int(np.argmax(spread))
    beyond = np.ones(len(points), dtype=np.bool_)
    beyond[order[: distinct[best] + 1]] = False
    return -float(spread[best]), beyond


DEFAULT_METHOD = "kmeans"
METHODS: dict[str, Callable[[Floats, Floats], int]] = {
    DEFAULT_METHOD: _by_kmeans,
    "max": lambda points, weights: int(np.argmax(points[:, 0])),
    "min": lambda points, weights: int(np.argmin(points[:, 0])),
}


# -- The profile.

_NONE, _COMPUTE, _MEMORY = (CAUSES.index(cause) for cause in ("none", "compute", "memory"))


def build_profile(
    trace: KernelTrace, misses: MissProfile, gpu: GpuSpec, occupancy: Occupancy, *, representative: str = DEFAULT_METHOD,
    counts: bool = True,
) -> IntervalProfile:
    """The interval profile of `trace` on `gpu`. Every distinct path is walked; the profile has the representative's intervals.

    `misses` are those of the trace on the caches of `gpu`, `occupancy` its residency. `representative` as for `select`. Without
    `counts`, the profile has no counts of instructions by kind, for models that do not need them.
    Raises SpecError for an op class without a latency, UsageError for an unknown method or a trace without instructions.
    """
    warps, first_warp = path_use(trace)
    times = occurrences(trace, warps)
    remote = trace.remote()
    latency = latency_table(trace.instructions, misses, gpu, times, remote)
    walked = steps(trace.instructions, trace.block_start)
    stats = path_stats(trace, walked, latency.cycles)
    path = select(stats.instructions, stats.cycles, warps, first_warp, method=representative)
    alone = _alone(trace, walked, misses, latency, times, warps, gpu)
    if alone.critical >= 0 and representative == DEFAULT_METHOD:
        path, representative = alone.critical, "the pace of its block"
    conflicts = np.zeros(len(alone.warps))
    if conflict_passes(trace.instructions, misses).any():
        ideal = without_conflicts(trace.instructions, misses)
        faster = latency_table(trace.instructions, ideal, gpu, times, remote)
        conflicts = alone.warps - _alone(trace, walked, ideal, faster, times, warps, gpu).warps
    whole = [i.is_timed_barrier and i.is_block_barrier and not i.waits_for_part for i in trace.instructions]
    barriers = np.array(whole) * float(gpu.sm.barrier_interval_cycles)  # there all warps arrive, one after the other
    columns = np.column_stack([traffic(trace, misses, times, gpu), barriers])
    waits = alone.waits.get(path, NO_WAITS)
    intervals = path_intervals(trace, path, dependences(trace.instructions), latency.cycles, columns, waits)
    header = trace.header
    resident = resident_blocks(gpu, header.blocks, occupancy.blocks_per_sm, header.cluster_blocks)
    cause = np.where(intervals.pc < 0, _NONE, np.where(_for_memory(intervals, latency), _MEMORY, _COMPUTE)).astype(np.int8)
    # to nine decimals: the rounding errors of a sum of thirds could turn ceil(10.000000000000002) into another batch
    rounded = np.round(intervals.sums, 9)
    memory_instructions, read_misses, write_misses, dram_reads, dram_writes, port_cycles, arrivals = np.ascontiguousarray(rounded.T)
    stalled = float(intervals.stall_cycles.sum())
    slots = gpu.sm.schedulers * gpu.sm.issue_width
    in_step = stall_in_step(intervals.instructions, intervals.stall_cycles, port_cycles, arrivals, header.warps_per_block, slots)
    hidden = 1.0 - in_step / stalled if stalled else 0.0
    return IntervalProfile(
        kernel=header.kernel, warps_per_sm=resident * header.warps_per_block,
        total_warp_instructions=header.warp_instructions, llc_miss_ratio=misses.llc_miss_ratio, path=path,
        instructions=intervals.instructions, stall_cycles=intervals.stall_cycles, cause=cause, pc=intervals.pc,
        memory_instructions=memory_instructions, read_misses=read_misses, write_misses=write_misses,
        dram_reads=dram_reads, dram_writes=dram_writes,
        dpki=1000.0 * float(misses.divergent[~marks(trace.instructions).bulk].sum()) / header.recorded_instructions,
        launch=LaunchShape(
            header.blocks, header.warps_per_block, occupancy.blocks_per_sm, occupancy.limiter, float(occupancy.fraction),
            header.cluster_blocks,
        ),
        notes=(_representative(int(first_warp[path]), header.warps_per_block, representative, warps, path), *_banks(misses, gpu)),
        memory_stall_levels=_levels(intervals, cause, latency),
        demands=demands_of(
            trace, misses, gpu, replace(stats, cycles=alone.warps), warps, times, hidden, occupancy.blocks_per_sm, conflicts,
            alone.cycles, alone.unanswered,
        ),
        counts=trace_counts(trace, gpu, warps, occupancy.blocks_per_sm) if counts else None,
        activity=activity(trace, misses, times, warps),
    )


def _alone(
    trace: KernelTrace, walked: Steps, misses: MissProfile, latency: LatencyTable, times: Longs, warps: Longs, gpu: GpuSpec
) -> BlocksAlone:
    """Cycles of warps alone; of a kernel whose asynchronous copies or warps on mbarriers run ahead, those in its blocks.

    `times` int64 [instructions]: how often warps executed each pc. `warps` int64 [paths].

    Copies of a block go on beside its work, but the stores with which it ends do not: the SM's port sends them while no product or
    copy of the block is left. So in a block they hold the load-store unit for as long as the port takes.
    """
    port_cycles = l1_cycles(trace, misses, gpu) / np.maximum(times, 1)
    port_cycles += bulk_cycles(trace, misses, gpu) / np.maximum(misses.executions, 1)
    if overlap_in_blocks(trace):
        port_cycles = np.maximum(port_cycles, sending_cycles(trace, misses, times, warps, gpu) / np.maximum(times, 1))
        return blocks_alone(trace, walked, latency.cycles, port_cycles, gpu)
    ends, unanswered = cycles_alone(trace, walked, latency.cycles, port_cycles, gpu, latency.answered)
    return BlocksAlone(0.0, ends, {}, unanswered=unanswered)


def traffic(trace: KernelTrace, misses: MissProfile, times: Longs, gpu: GpuSpec) -> Floats:
    """The contribution of one occurrence of each pc to an interval, float64 [instructions, 6].

    Columns: memory instructions, read misses, write misses, DRAM reads, DRAM writes, cycles of the load-store unit.

    Counts are means over all occurrences, so that their sums over the launch are the totals of the caches. A memory instruction
    is one that waits for device memory: a load or an atomic. `leaving` defines which requests are misses.
    """
    waits = marks(trace.instructions).sectors & ~marks(trace.instructions).store
    reads, writes = leaving(trace.instructions, misses)
    counts = np.stack([reads, writes, misses.dram_reads, misses.dram_writes, l1_cycles(trace, misses, gpu)], axis=1)
    means = counts / np.maximum(times, 1)[:, None]
    return np.concatenate([np.array(waits, dtype=np.float64)[:, None], means], axis=1)


def _for_memory(intervals: PathIntervals, latency: LatencyTable) -> npt.NDArray[np.bool_]:
    """Which intervals end with a wait for a result from memory."""
    return np.asarray(latency.memory[intervals.pc] & (intervals.kind == RESULT))


def _levels(intervals: PathIntervals, cause: npt.NDArray[np.int8], latency: LatencyTable) -> tuple[float, float, float] | None:
    """Shares of L1, L2 and DRAM in the memory stall cycles, by the distribution of each stalling pc (GPUMech section VII)."""
    memory = cause == _MEMORY
    stalls, parts = intervals.stall_cycles[memory], latency.levels[intervals.pc[memory]]
    if not stalls.size:
        return None
    cycles = (stalls[:, None] * parts / parts.sum(axis=1, keepdims=True)).sum(axis=0)
    l1, l2, dram = (cycles / cycles.sum()).tolist()
    return l1, l2, dram


def _banks(misses: MissProfile, gpu: GpuSpec) -> tuple[str, ...]:
    """What a reader must know of bank conflicts where the GPU has another number of banks than a trace counts them for."""
    if gpu.sm.shared_memory_banks == TRACED_BANKS or not misses.shared_executions.any():
        return ()
    return (f"bank conflicts are those of {TRACED_BANKS} shared-memory banks; {gpu.name} has {gpu.sm.shared_memory_banks}",)


def _representative(warp: int, warps_per_block: int, method: str, warps: Longs, path: int) -> str:
    block, place = divmod(warp, warps_per_block)
    return (
        f"representative ({method}): warp {place} of block {block}, whose path {warps[path]:,} of {warps.sum():,} warps took; "
        f"{np.count_nonzero(warps):,} distinct paths"
    )
