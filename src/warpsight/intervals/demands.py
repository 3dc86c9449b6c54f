"""The demand of a launch for each resource of a GPU, as a mean over its warps: the input of models with resources.

Two parts come first: the time of a warp alone on an SM, and how unequal blocks fill the SMs.

A warp alone: the intervals are GPUMech's (eq. 4: a consumer issues a cycle after its source is done). Here, a latency is as in a
GPU description: the time from the issue of an instruction to the issue of the first one that needs its result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import jit, kept_until_changed
from warpsight.base.signals import leave_if_asked
from warpsight.caches.miss_profile import SHARES, MissProfile
from warpsight.gpu.operations import occupied
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.algorithm import (
    ISSUE,
    OPERANDS,
    TICKS,
    Groups,
    Indices,
    Ints,
    Longs,
    PathStats,
    Steps,
    arrives,
    plain,
    step_ticks,
)
from warpsight.intervals.interval_profile import Floats, ResourceDemands
from warpsight.intervals.usage import (
    dram_bytes,
    l1_cycles,
    multicast_sectors,
    pipe_cycles,
    requests,
    store_flits,
    touched_bytes,
    without_conflicts,
)
from warpsight.traces.marks import marks
from warpsight.traces.path_store import pieces, sums_of_paths
from warpsight.traces.schema import SECTOR_BYTES, KernelTrace, products_are_awaited

LOAD_STORE, BULK_COPIES, BARRIERS = range(3)  # units of an SM; the others are of its schedulers


class StepTimes(NamedTuple):
    """What the steps of a kernel take on a GPU, all [steps]; times are ticks, int64.

    `advance`: one cycle at an instruction's last step, else 0. `after`: from its issue to the first cycle in which what waits for
    its destination can issue; `result` is the same of the instruction's result, whatever the step writes. `unit` and `whole`, the
    unit that this one is a part of (itself, if of none), are occupied for `busy` and `held`. What is
    `queued` (bool) issues although its unit is occupied, and waits there. `answered`: from the start of an access to device memory
    at its unit until the memory system has answered; 0 of other steps.
    """

    advance: Longs
    after: Longs
    result: Longs
    unit: Longs
    busy: Longs
    whole: Longs
    held: Longs
    queued: npt.NDArray[np.bool_]
    answered: Longs


def step_times(
    trace: KernelTrace, walked: Steps, latency: Floats, port_cycles: Floats, gpu: GpuSpec, answered: Floats | None = None
) -> StepTimes:
    """`latency` and `port_cycles` float64 [instructions]: cycles to the consumer of the result, and cycles of the load-store unit,
    or of that for bulk copies; means over occurrences.

    An instruction waits for its unit. An instruction of these two units and an asynchronous product do not, but wait there for
    earlier ones, and the last request of an access follows its first by one cycle for each further request. An asynchronous copy of
    the load-store unit delays no access behind it. `answered` float64 [instructions]: cycles from an access's issue until the
    memory system has answered (None: not asked for).
    """
    unit, busy, whole, held = _units(trace, gpu, port_cycles)
    memory = unit <= BULK_COPIES
    # the latency of shared memory includes its further passes
    device = marks(trace.instructions).sectors
    first = gpu.sm.access_interval_cycles if trace.header.level == "sass" else 1.0
    requests = np.where(memory & device, np.maximum(port_cycles - first, 0.0), 0.0)
    after = np.maximum(latency + np.where(latency > 0, requests, 0.0), 1.0)
    answer = np.zeros(len(device)) if answered is None else np.where(answered > 0, answered + requests, 0.0)
    ticks = step_ticks(trace, walked, after)
    if len(walked.groups):  # a bulk copy to device memory has read the shared memory when it has sent its last request
        sends = marks(trace.instructions).bulk[walked.pc] & (walked.kind == OPERANDS) & (walked.destination >= walked.groups[0, 0])
        ticks = np.where(sends, _ticks(port_cycles)[walked.pc], ticks)
    queued = memory.copy()
    if products_are_awaited(trace.instructions):
        queued |= marks(trace.instructions).async_product
    return StepTimes(
        np.where(walked.ends, TICKS, 0), ticks, _ticks(after)[walked.pc], unit[walked.pc],
        np.where(walked.ends, _ticks(busy)[walked.pc], 0), whole[walked.pc], np.where(walked.ends, _ticks(held)[walked.pc], 0),
        queued[walked.pc], np.where(walked.ends, _ticks(answer)[walked.pc], 0),
    )  # fmt: skip


def cycles_alone(
    trace: KernelTrace, walked: Steps, latency: Floats, port_cycles: Floats, gpu: GpuSpec, answered: Floats | None = None
) -> tuple[Floats, Floats]:
    """Cycles of a warp alone on each path, from its first issue to one cycle after its last, and the further ones until the memory
    system has answered all of its accesses; both float64 [paths].

    `latency`, `port_cycles` and `answered` as for `step_times`.
    """
    times = step_times(trace, walked, latency, port_cycles, gpu, answered)
    ticks, open_for = np.zeros((2, len(trace.paths)), dtype=np.int64)
    for part, paths in pieces(trace.paths):
        leave_if_asked()  # a launch can have a path for each warp
        _walk(
            plain(paths.offset, np.int64), plain(paths.block, np.int32), plain(paths.repeat, np.int32), walked.start,
            walked.sources, walked.destination, walked.kind, times, walked.registers, walked.shared, walked.groups, ticks[part],
            open_for[part],
        )  # fmt: skip
    return ticks / TICKS, open_for / TICKS


def _units(trace: KernelTrace, gpu: GpuSpec, port_cycles: Floats) -> tuple[Longs, Floats, Longs, Floats]:
    """The unit of each instruction, int64 [instructions], and the cycles for which it occupies the unit; the same of the unit that
    this one is a part of (itself, if of none).
    """
    names = {"load-store": LOAD_STORE, "bulk copies": BULK_COPIES, "barriers": BARRIERS}
    unit, whole = np.zeros((2, len(trace.instructions)), dtype=np.int64)
    busy, held = np.zeros((2, len(trace.instructions)))
    for instruction in trace.instructions:
        pc = instruction.pc
        if instruction.access:
            busy[pc] = held[pc] = 0.0 if instruction.is_async_copy else port_cycles[pc]
            unit[pc] = whole[pc] = BULK_COPIES if instruction.is_bulk else LOAD_STORE
        elif instruction.is_timed_barrier:
            unit[pc], whole[pc], busy[pc], held[pc] = BARRIERS, BARRIERS, *[gpu.sm.barrier_interval_cycles] * 2
        else:
            pipes = occupied(gpu, instruction.op_class, instruction.product)
            (unit[pc], busy[pc]), (whole[pc], held[pc]) = (
                (names.setdefault(name, len(names)), cycles) for name, cycles in (pipes[0], pipes[-1])
            )
    return unit, busy, whole, held


def _ticks(cycles: Floats) -> Longs:
    return np.round(cycles * TICKS).astype(np.int64)


@kept_until_changed("intervals/algorithm.py")
def _walk(
    offset: Longs, block: Ints, repeat: Ints, start: Longs, sources: Indices, destination: Indices, kind: Ints, times: StepTimes,
    registers: int, shared: bool, groups: Groups, ticks: Longs, open_for: Longs,
) -> None:
    """As `measure_paths`, with units; `open_for` [paths]: ticks after the last instruction until all accesses are answered."""
    advance, after, _, unit, busy, whole, held, queued, answered = times
    units = max(unit.max(), whole.max()) + 1 if len(unit) else 1
    ready = np.empty(registers + 2, dtype=np.int64)
    free = np.empty(units, dtype=np.int64)
    for path in range(len(offset) - 1):
        ready[:] = 0
        free[:] = 0
        cycle = last = np.int64(0)
        for run in range(offset[path], offset[path + 1]):
            begin, end = start[block[run]], start[block[run] + 1]
            for _ in range(repeat[run]):
                for step in range(begin, end):
                    issue = max(cycle, ready[sources[step, 0]], ready[sources[step, 1]], ready[sources[step, 2]])
                    begun = max(issue, free[unit[step]], free[whole[step]])
                    if not queued[step]:
                        issue = begun
                    free[unit[step]] = begun + busy[step]
                    free[whole[step]] = begun + held[step]
                    done = (issue if kind[step] == ISSUE else begun) + after[step]
                    arrives(ready, destination[step], done, shared, groups)
                    if answered[step]:
                        last = max(last, begun + answered[step])
                    cycle = issue + advance[step]
        ticks[path] = cycle
        open_for[path] = max(last, cycle) - cycle


# -- How unequal blocks fill SMs: each block goes to the first SM with a free place, and older warps go before younger ones.
#
# The work of an SM is modelled as a fluid. A warp alone takes `alone` cycles, and occupies the busiest resource of the SM for
# `demand` of them. Under greedy-then-oldest, the oldest warp runs at that pace, the next one with the remaining share of the
# resource, and so on; under loose round-robin all warps slow down equally. The place of a block is free when its last warp ends.
#
# Issue slots and functional units belong to a scheduler, and a warp stays with the scheduler of its slot: other schedulers cannot
# take over its work. The load-store unit belongs to the SM. So an SM has `parts` resources of one kind, each for the warps of every
# `parts`th slot.

# A warp with less work left than this part of a cycle is done: rounding errors of sums of fractions.
_NOTHING = 1e-6


def makespan(alone: Floats, demand: Floats, per_block: int, places: int, sm_count: int, greedy: bool, parts: int = 1) -> float:
    """Cycles until the last warp ends. `alone` (above 0), `demand` (0 to that) float64 [warps], in the order of the grid.

    `per_block` warps are a block, an SM has `places` for blocks, and `parts` of the resource.
    """
    places = min(places, -(-len(alone) // per_block))
    return float(_run(alone, np.maximum(demand, 0.0) / alone, per_block, places, sm_count, greedy, parts))


def makespan_of_equals(
    alone: float, demand: float, blocks: int, per_block: int, places: int, sm_count: int, parts: int = 1
) -> float:
    """The same for equal warps that are not in step: the demands of the busiest SM's warps, and the rest of the last warp.

    No other warp hides the part of the rest that follows when the others are done. That part is smaller, the longer the last wave
    is relative to the rest.
    """
    busiest = -(-blocks // sm_count)
    last = -(-(busiest - (busiest - 1) // places * places) * per_block // parts) * demand
    rest = max(alone - demand, 0.0)
    unhidden = last * rest / (last + rest) if last + rest > 0 else 0.0
    return max(alone, -(-busiest * per_block // parts) * demand + unhidden)


@jit(cache=True, nogil=True)
def _run(alone: Floats, pace: Floats, per_block: int, places: int, sm_count: int, greedy: bool, parts: int) -> float:
    """`pace` [warps]: the part of the busiest resource that a warp alone takes."""
    blocks = len(alone) // per_block
    left = np.zeros((sm_count, places * per_block))
    speed = np.zeros((sm_count, places * per_block))
    first = np.zeros((sm_count, places), dtype=np.int64)
    order = np.zeros((sm_count, places), dtype=np.int64)
    held = np.zeros(sm_count, dtype=np.int64)
    clock = np.zeros(sm_count)
    following = np.full(sm_count, np.inf)
    block, end = 0, 0.0
    for place in range(places):
        for sm in range(sm_count):
            if block < blocks:
                _start(alone, left, first, order, held, sm, place, block, per_block)
                block += 1
    for sm in range(sm_count):
        following[sm] = _pace(pace, left, speed, first, order, held, sm, per_block, greedy, parts)
    while True:
        sm = int(np.argmin(following))
        now = following[sm]
        if now == np.inf:
            return end
        end = now
        passed = now - clock[sm]
        clock[sm] = now
        freed = _advance(left, speed, order, held, sm, per_block, passed)
        for _ in range(freed):
            if block < blocks:
                # places that became free are behind the occupied ones
                _start(alone, left, first, order, held, sm, order[sm, held[sm]], block, per_block)
                block += 1
        following[sm] = now + _pace(pace, left, speed, first, order, held, sm, per_block, greedy, parts)


@jit(cache=True, nogil=True)
def _start(
    alone: Floats, left: Floats, first: Longs, order: Longs, held: Longs, sm: int, place: int, block: int, per_block: int
) -> None:
    """Put `block` into `place` of the SM, as its youngest."""
    for k in range(per_block):
        left[sm, place * per_block + k] = alone[block * per_block + k]
    first[sm, place] = block * per_block
    order[sm, held[sm]] = place
    held[sm] += 1


@jit(cache=True, nogil=True)
def _advance(left: Floats, speed: Floats, order: Longs, held: Longs, sm: int, per_block: int, passed: float) -> int:
    """Advance the SM's warps by `passed` cycles; returns how many blocks end. Their places move behind the others in `order`."""
    ended = np.empty(held[sm], dtype=np.int64)
    kept, freed = 0, 0
    for age in range(held[sm]):
        place = order[sm, age]
        goes_on = False
        for warp in range(place * per_block, (place + 1) * per_block):
            rest = left[sm, warp] - passed * speed[sm, warp]
            left[sm, warp] = rest if rest > _NOTHING else 0.0
            goes_on |= rest > _NOTHING
        if goes_on:
            order[sm, kept] = place
            kept += 1
        else:
            ended[freed] = place
            freed += 1
    for k in range(freed):
        order[sm, kept + k] = ended[k]
    held[sm] = kept
    return freed


@jit(cache=True, nogil=True)
def _pace(
    pace: Floats, left: Floats, speed: Floats, first: Longs, order: Longs, held: Longs, sm: int, per_block: int, greedy: bool,
    parts: int,
) -> float:
    """Set the speed of each warp of the SM relative to a warp alone; returns the cycles until the next one ends."""
    whole = np.zeros(parts)
    for age in range(held[sm]):
        place = order[sm, age]
        for k in range(per_block):
            if left[sm, place * per_block + k] > 0:
                whole[(place * per_block + k) % parts] += pace[first[sm, place] + k]
    free, least = np.ones(parts), np.inf
    for age in range(held[sm]):
        place = order[sm, age]
        for k in range(per_block):
            warp, demand = place * per_block + k, pace[first[sm, place] + k]
            if left[sm, warp] > 0:
                part = warp % parts
                if greedy:
                    # its services share what older warps leave of the resource, its stalls take their full time
                    speed[sm, warp] = free[part] / (free[part] * (1.0 - demand) + demand) if demand > 0 else 1.0
                    free[part] = max(0.0, free[part] - speed[sm, warp] * demand)
                else:
                    speed[sm, warp] = min(1.0, 1.0 / whole[part]) if whole[part] > 0 else 1.0
                if speed[sm, warp] > 0:
                    least = min(least, left[sm, warp] / speed[sm, warp])
    return float(least)


# -- The demands.

def stall_in_step(
    instructions: Floats, stall_cycles: Floats, port_cycles: Floats, arrivals: Floats, warps: int, slots: int = 1
) -> float:
    """Stall cycles that `warps` warps in step do not hide from each other; all arrays [intervals] of one of them.

    They issue in turn, `slots` of them a cycle (schedulers x issue width), and pass the only load-store unit of the SM one after
    the other: the last one begins the stall of an interval that much later than the first. What a stall leaves of that lead hides
    later ones, too: of machine code, an access and the wait for its data are often in different intervals. `arrivals`: cycles for
    which a warp occupies the unit for barriers; above 0, it waits there for the last warp, and all go on together.
    """
    later = np.maximum(max(warps / slots - 1.0, 0.0) * instructions, (warps - 1) * port_cycles)
    return float(_not_hidden(stall_cycles, later, (warps - 1) * arrivals, arrivals > 0))


@jit(cache=True, nogil=True)
def _not_hidden(stalls: Floats, later: Floats, in_turn: Floats, ends_lead: npt.NDArray[np.bool_]) -> float:
    """Cycles of the stalls, in their order, beyond what is left of the lead that the first of the warps has gained."""
    lead, left = 0.0, 0.0
    for k in range(len(stalls)):
        lead = max(lead, later[k])
        if ends_lead[k]:
            left += stalls[k] + max(in_turn[k] - lead, 0.0)
            lead = 0.0
        else:
            left += max(stalls[k] - lead, 0.0)
            lead = max(lead - stalls[k], 0.0)
    return left


def demands_of(
    trace: KernelTrace, misses: MissProfile, gpu: GpuSpec, stats: PathStats, warps: Longs, times: Longs, hidden_in_step: float,
    places: int, conflict_cycles: Floats, block_cycles: float = 0.0, unanswered: Floats | None = None,
) -> ResourceDemands:
    """The demands of `trace` on `gpu`. `block_cycles` as in `ResourceDemands`.

    `stats` and `warps` [paths]: each path alone, and its number of warps. `times` [instructions]: how often warps executed each pc.
    `hidden_in_step` (0 to 1): the part of a warp's stalls that the warps of its block hide when they are in step. `conflict_cycles`
    float64 [paths]: by how much each path alone is longer due to bank conflicts. `block_cycles`: of a block alone, where warps wait
    for each other. `unanswered` float64 [paths]: from the end of a warp alone until its accesses are answered; None: not known.
    """
    count, atomic = trace.header.warps, marks(trace.instructions).atomic
    store = marks(trace.instructions).store
    barrier = np.array([instruction.op_class == "barrier" for instruction in trace.instructions], dtype=np.bool_)
    # an L1 miss fetches whole sectors of the L1, as many of a line as its requests touch on average
    reads, single = ~atomic, ~atomic & ~marks(trace.instructions).bulk
    beside = marks(trace.instructions).bulk | marks(trace.instructions).async_copy
    fetched = misses.l1_misses[reads] * touched_bytes(misses.sectors[reads], misses.l1_reads[reads], gpu.l1)
    joined = (misses.l2_joins / np.maximum(misses.l2_reads, 1))[reads]  # a slice sends their data once, to several SMs
    atomic_bytes = SECTOR_BYTES * float(misses.l2_reads[atomic].sum())
    beyond = float(misses.l2_read_misses.sum() + misses.l2_read_merges.sum())
    port = l1_cycles(trace, misses, gpu)
    busiest, parts = busiest_on_path(trace, gpu, port / np.maximum(times, 1), times)
    stall = float(((stats.cycles - stats.instructions) * warps).sum()) / count
    unit, unit_cycles = _busiest_unit(trace, gpu, times)
    return ResourceDemands(
        unit_cycles=unit_cycles / count,
        l1_cycles=float(port.sum()) / count,
        read_misses=float(misses.l1_misses[single].sum()) / count,
        fetched_bytes=(float((fetched * (1.0 - joined)).sum()) + atomic_bytes) / count,
        sent_bytes=(SECTOR_BYTES * float(misses.sectors[store].sum()) + atomic_bytes) / count,
        sent_requests=float(requests(trace.instructions, misses)[store | atomic].sum()) / count,
        sent_flits=float(store_flits(trace, misses, times, warps).sum()) / count,
        dram_bytes=sum(dram_bytes(misses)) / count,
        dram_alternating=float(min(misses.dram_reads.sum(), misses.dram_writes.sum())) / count,
        dram_rows=float(misses.dram_rows.sum()) / count,
        slice_accesses=float((misses.l2_reads - misses.l2_joins).sum() + misses.l2_writes[reads].sum()) / count,
        atomic_repeats=float(misses.atomic_cycles.sum()) / count,
        dram_share=beyond / max(1.0, float(misses.l2_reads.sum())),
        far_share=float(misses.l2_far_hits.sum()) / max(1.0, float(misses.l2_reads.sum())),
        **{name: getattr(misses, name) for name in SHARES},
        # an L1 that allocates on fill holds no way before the line arrives
        way_wait=misses.way_wait if gpu.l1.allocation == "on-miss" else 0.0,
        barriers=float(times[barrier].sum()) / count,
        stall_cycles=stall,
        stall_in_step=stall * (1.0 - hidden_in_step),
        work_imbalance=work_imbalance(trace, stats, busiest, parts, places, gpu, walked=block_cycles > 0),
        longest_warp=float(stats.cycles[warps > 0].max()) * count / float((stats.cycles * warps).sum()),
        port_conflict_share=_part(port_conflicts(trace, misses, gpu).sum(), port.sum()),
        stall_conflict_share=_part((conflict_cycles * warps).sum() / count, stall),
        unit=unit,
        block_cycles=block_cycles,
        drain_cycles=0.0 if unanswered is None else _drain(trace, stats.cycles, unanswered),
        multicast_bytes=(SECTOR_BYTES * multicast_sectors(trace) + float((fetched * joined).sum())) / count,
        asynchronous=_part(fetched[beside[reads]].sum(), fetched.sum()),
    )


def _drain(trace: KernelTrace, alone: Floats, unanswered: Floats) -> float:
    """Cycles from the last instruction of a block whose warps begin together until all its accesses are answered: their mean."""
    paths, answered = _paths_of_blocks(trace), alone + unanswered
    return float(sum((answered[path].max(axis=1) - alone[path].max(axis=1)).sum() for path in _some_at_a_time(paths)) / len(paths))


def _paths_of_blocks(trace: KernelTrace) -> Ints:
    """The path of each warp, int32 [blocks, warps]."""
    return np.concatenate([chunk.path for chunk in trace.chunks.packed()]).reshape(-1, trace.header.warps_per_block)


def _some_at_a_time(paths: Ints) -> list[Ints]:
    """The paths of some blocks after the other, so that what is computed of them takes little memory."""
    return [paths[first : first + (1 << 16)] for first in range(0, len(paths), 1 << 16)]


def _part(part: float, whole: float) -> float:
    """`part` over `whole`, of which it is a part but for rounding errors; 0 of nothing."""
    return min(max(float(part) / float(whole), 0.0), 1.0) if whole > 0 else 0.0


def port_conflicts(trace: KernelTrace, misses: MissProfile, gpu: GpuSpec) -> Floats:
    """The part of `l1_cycles` that is due to bank conflicts, float64 [instructions]."""
    return l1_cycles(trace, misses, gpu) - l1_cycles(trace, without_conflicts(trace.instructions, misses), gpu)


def _busiest_unit(trace: KernelTrace, gpu: GpuSpec, times: Longs) -> tuple[str, float]:
    """The busiest unit that is not fully pipelined ("": none), and for how many cycles all warps together occupy it."""
    busy = {pipe: float((cycles * times).sum()) for pipe, cycles in pipe_cycles(trace.instructions, gpu).items()}
    slow = {pipe: cycles for pipe, cycles in busy.items() if cycles > 0 and gpu.initiation_cycles.get(pipe, 1) > 1}
    return max(slow.items(), key=lambda item: item[1], default=("", 0.0))


def work_imbalance(
    trace: KernelTrace, stats: PathStats, busiest: Floats, parts: int, places: int, gpu: GpuSpec, *, walked: bool = False
) -> float:
    """The effect of unequal blocks on the time: cycles until all are done over the cycles of the same number of mean blocks.

    `busiest` float64 [paths]: cycles for which a warp on each path occupies the SM's busiest resource, of which the SM has `parts`.
    An SM has `places` for blocks. In a sampled trace, each block also represents its neighbours. `walked`: the time of a block is
    known as that of its last warp.
    """
    header, per_block = trace.header, trace.header.warps_per_block
    paths, demands = _paths_of_blocks(trace), np.minimum(busiest, stats.cycles)
    of_blocks = ((demands[path].sum(axis=1), stats.cycles[path].max(axis=1)) for path in _some_at_a_time(paths))
    ends = np.array([[(each.min(), each.max()) for each in both] for both in of_blocks])  # [pieces, demand or time, least and most]
    if np.ptp(ends[:, 0]) == 0 and np.ptp(ends[:, 1]) == 0:
        return 1.0
    paths = paths[np.arange(header.blocks) * len(paths) // header.blocks]
    alone, demand = stats.cycles[paths], demands[paths]
    greedy = gpu.sm.policy == "gto"
    unequal = makespan(np.maximum(alone, 1.0).ravel(), demand.ravel(), per_block, places, gpu.sm_count, greedy, parts)
    apart = makespan_of_equals(float(alone.mean()), float(demand.mean()), header.blocks, per_block, places, gpu.sm_count, parts)
    # The warps of a block may have parts of their own, as producers and consumers have: the equals are blocks. Which warp of a
    # walked block is the last one makes no difference.
    order = np.argsort(-alone, axis=1, kind="stable") if walked else np.broadcast_to(np.arange(per_block), alone.shape)
    mean = [np.tile(np.take_along_axis(each, order, 1).mean(axis=0), header.blocks) for each in (np.maximum(alone, 1.0), demand)]
    in_step = makespan(mean[0], mean[1], per_block, places, gpu.sm_count, greedy, parts)
    # equal blocks can be anything between in step and apart; only what exceeds both is due to inequality
    return unequal / min(max(unequal, min(apart, in_step)), max(apart, in_step))


def busiest_on_path(trace: KernelTrace, gpu: GpuSpec, port_cycles: Floats, times: Longs) -> tuple[Floats, int]:
    """Cycles for which a warp on each path occupies the resource that the launch needs most, float64 [paths]; the number of these
    resources in an SM.

    The resources are issue slots and functional units, one per scheduler, and the load-store unit, one per SM (`port_cycles`
    [instructions] of an occurrence); `times` [instructions].
    """
    issue = np.full(len(trace.instructions), 1.0 / gpu.sm.issue_width)
    costs = [(issue, gpu.sm.schedulers), (port_cycles, 1)]
    pipes = pipe_cycles(trace.instructions, gpu)
    costs += [(pipes[op_class], gpu.sm.schedulers) for op_class in gpu.initiation_cycles if op_class in pipes]
    cost, parts = max(costs, key=lambda cost: float((cost[0] * times).sum()) / cost[1])
    of_block = np.add.reduceat(np.append(cost, 0.0), trace.block_start[:-1]) * (np.diff(trace.block_start) > 0)
    return sums_of_paths(trace.paths, of_block), parts
