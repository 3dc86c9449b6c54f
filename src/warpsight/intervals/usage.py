"""Counts of a launch: warps on each path, executions and requests of each instruction and how long the SM takes for them, and the
counts of the MWP-CWP model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import segment_bytes, transaction_rule_number, transactions_of_sectors
from warpsight.base.compiled import kept_until_changed
from warpsight.base.room import drop_pages
from warpsight.caches.miss_profile import Counts, MissProfile
from warpsight.gpu.operations import occupied, pass_cycles, remote_pass_cycles
from warpsight.gpu.spec import CacheSpec, GpuSpec
from warpsight.intervals.algorithm import Longs, plain
from warpsight.intervals.interval_profile import Activity, Floats, KernelCounts, LaunchTotals
from warpsight.traces.events import EventReader, sectors_of_event
from warpsight.traces.late import sum_of
from warpsight.traces.marks import marks
from warpsight.traces.path_store import executions_of_blocks
from warpsight.traces.schema import LOAD, SECTOR_BYTES, KernelTrace, StaticInstruction


def path_use(trace: KernelTrace) -> tuple[Longs, Longs]:
    """Warps on each path, and the first warp on it (-1: none), int64 [paths]. Reads the chunks once. Nobody may change them."""
    found: tuple[Longs, Longs] | None = trace.kept.get("path use")
    if found is None:
        found = trace.kept["path use"] = _path_use(trace)
    return found


def _path_use(trace: KernelTrace) -> tuple[Longs, Longs]:
    warps = np.zeros(len(trace.paths), dtype=np.int64)
    first = np.full(len(trace.paths), -1, dtype=np.int64)
    for chunk in trace.chunks.packed():
        warps += np.bincount(chunk.path, minlength=len(warps))
        paths, places = np.unique(chunk.path, return_index=True)
        new = first[paths] < 0
        first[paths[new]] = chunk.first_warp + places[new]
    return warps, first


def occurrences(trace: KernelTrace, warps: Longs, *, of_lanes: bool = False) -> Longs:
    """How often all warps together, or their lanes, executed each pc, int64 [instructions]; `warps` is the number on each path.

    Of lanes those count that were active where the basic block began.
    """
    per_block = executions_of_blocks(trace.paths, warps, len(trace.block_start) - 1, of_lanes=of_lanes)
    return np.repeat(per_block, np.diff(trace.block_start))


def lane_executions(trace: KernelTrace, warps: Longs) -> Floats:
    """Active lanes summed over all warp executions of each pc, float64 [instructions]; `warps` as `path_use` gives them."""
    return occurrences(trace, warps, of_lanes=True).astype(np.float64)


# -- The pipes of each instruction.


def pipe_cycles(instructions: tuple[StaticInstruction, ...], gpu: GpuSpec) -> dict[str, Floats]:
    """For each pipe that is occupied the cycles of each pc, summed over the schedulers of the SM, float64 [instructions]."""
    alike: dict[Any, list[int]] = {}
    for pc, each in enumerate(instructions):
        if not each.access:
            alike.setdefault((each.op_class, each.product, each.uses_tensor_memory), []).append(pc)
    found: dict[str, Floats] = {}
    for (op_class, product, together), pcs in alike.items():
        for pipe, cycles in occupied(gpu, op_class, product):
            found.setdefault(pipe, np.zeros(len(instructions)))[pcs] = cycles * (gpu.sm.schedulers if together else 1)
    return found


def unit_cycles(trace: KernelTrace, gpu: GpuSpec, times: Longs, unit: str) -> Floats:
    """Cycles for which each pc occupies the functional unit of the op class `unit`, float64 [instructions]."""
    cycles = pipe_cycles(trace.instructions, gpu)
    return times * cycles[unit] if unit in cycles else np.zeros(len(times))


# -- The memory requests of each instruction, from the counts of the caches: one definition for demands, intervals and explanations.


def multicast_sectors(trace: KernelTrace) -> float:
    """Sectors that multicasts of all warps together bring to further blocks. Reads the chunks where there are any."""
    multicasts = [i.pc for i in trace.instructions if i.is_bulk and i.at_barrier and "multicast" in i.opcode.lower()]
    if not multicasts or trace.header.cluster_blocks == 1:
        return 0.0
    reader, total = EventReader(trace), 0
    width = np.array([i.event_bytes for i in trace.instructions], dtype=np.int64)
    for chunk in trace.chunks:
        read = reader.read(chunk)
        chosen = np.isin(read.pc, multicasts)
        end, events = (read.byte + width[read.pc])[chosen], np.asarray(chunk.events).astype(np.int64)
        reached = np.bitwise_count(events[end - 4] | events[end - 3] << 8)  # `expected` of a barrier record
        total += int((read.sectors[chosen] * np.maximum(reached.astype(np.int64) - 1, 0)).sum())
    return float(total)


def requests(instructions: Sequence[StaticInstruction], misses: MissProfile) -> Counts:
    """Requests of each pc to device memory, int64 [instructions]: lines at the L1; for atomics, which bypass it, L2 sectors."""
    return misses.l1_reads + misses.l1_writes + np.where(marks(instructions).atomic, misses.l2_reads, 0)


def leaving(instructions: Sequence[StaticInstruction], misses: MissProfile) -> tuple[Counts, Counts]:
    """Requests of each pc that leave the SM, int64 [instructions]: reads that take an MSHR, and the others (stores, atomics).

    Atomics bypass the L1 and take no MSHR, so they count with the writes.
    """
    atomic = marks(instructions).atomic
    return np.where(atomic, 0, misses.l1_misses), misses.l1_writes + np.where(atomic, misses.l2_reads, 0)


def store_flits(trace: KernelTrace, misses: MissProfile, executed: Longs, warps: Longs) -> Counts:
    """Flits of the stores and atomics of each pc at the SM's port, int64 [instructions]: header, mask of bytes, and the sectors.

    A store that fills its sectors on average needs no mask; which lanes execute it is known where its basic block begins.
    """
    store, atomic, lines = marks(trace.instructions).store, marks(trace.instructions).atomic, requests(trace.instructions, misses)
    size = np.array([instruction.access_bytes for instruction in trace.instructions], dtype=np.int64)
    lanes = occurrences(trace, warps, of_lanes=True)
    written = size * lanes * misses.executions / np.maximum(executed, 1)
    bulk = marks(trace.instructions).bulk
    masked = atomic | ~bulk & (written < SECTOR_BYTES * misses.sectors)
    sectors = np.where(atomic, misses.l2_reads, misses.sectors)
    return np.where(store | atomic, lines * (1 + masked) + sectors, 0)


def conflict_passes(instructions: Sequence[StaticInstruction], misses: MissProfile) -> Counts:
    """Passes of each pc through the banks of shared memory that are due to bank conflicts, int64 [instructions].

    A pass moves 128 B, so an access of 8 or 16 B a lane takes two or four passes without a conflict. A bulk copy has none.
    """
    least = [max(1, each.access_bytes // _PASS_BYTES_A_LANE) for each in instructions]
    further = np.maximum(misses.shared_passes - misses.shared_executions * np.array(least, dtype=np.int64), 0)
    return np.where([_BULK.search(each.opcode) is not None for each in instructions], 0, further)


_PASS_BYTES_A_LANE = 4
_BULK = re.compile(r"\.bulk|UBLK")


def without_conflicts(instructions: Sequence[StaticInstruction], misses: MissProfile) -> MissProfile:
    """`misses` without the bank conflicts of the accesses to shared memory."""
    return replace(misses, shared_passes=misses.shared_passes - conflict_passes(instructions, misses))


def hit_rates(
    instructions: Sequence[StaticInstruction], misses: MissProfile, pcs: Sequence[int]
) -> tuple[float | None, float | None]:
    """The hit rates in the L1 and in the L2 of what the instructions at `pcs` read; None where they read nothing there.

    Of the 32 B sectors, as Nsight Compute counts: a request counts with the sectors that a request of its pc touches on average. A
    request for a line that is on its way is no hit. Atomics read in the L2 alone, and stores are left out.
    """
    given, found = np.asarray(pcs, dtype=np.int64), marks(instructions)
    rows = given[(found.sectors & ~found.store)[given]]
    atomic = found.atomic[rows]
    asked = misses.l1_reads[rows] + misses.l1_writes[rows] + np.where(atomic, misses.l2_reads[rows], 0)  # as `requests`
    sectors = misses.sectors[rows] / np.maximum(asked, 1)

    def rate(hits: Counts, reads: Counts) -> float | None:
        whole = float((sectors * reads[rows]).sum())
        return float((sectors * hits[rows]).sum()) / whole if whole else None

    return rate(misses.l1_hits, misses.l1_reads), rate(misses.l2_read_hits, misses.l2_reads)


def l2_sectors(
    instructions: Sequence[StaticInstruction], misses: MissProfile, l1: CacheSpec
) -> tuple[Floats, Floats, Floats]:
    """32 B sectors of each pc at the L2 as Nsight Compute counts: all, those that hit, those of lines on their way (merges).

    Each is float64 [instructions]. A load reads what its misses in the L1 fetch, a request as much as those of its pc on average. A
    write hits unless a part of its line has to be fetched. An atomic counts once.
    """
    fetched = misses.l1_misses * touched_bytes(misses.sectors, np.maximum(misses.l1_reads, 1), l1) / SECTOR_BYTES
    atomic, store = marks(instructions).atomic, marks(instructions).store
    sectors = np.where(store, misses.sectors, np.where(atomic, misses.l2_reads, fetched))
    reads = np.maximum(misses.l2_reads, 1)
    written = np.maximum(misses.sectors - misses.dram_read_sectors, 0)
    hits = np.where(store, written, sectors * misses.l2_read_hits / reads)
    return sectors, hits, np.where(store, 0.0, sectors * misses.l2_read_merges / reads)


def touched_bytes(sectors: npt.ArrayLike, requests: npt.ArrayLike, cache: CacheSpec) -> Floats:
    """Bytes that a request fetches into `cache`, from the number of requests and of the 32 B sectors that they touch.

    The mean over the requests, at least a sector of the cache and at most a line; a cache without sectors fetches the line.
    """
    mean = SECTOR_BYTES * np.asarray(sectors, dtype=np.float64) / np.maximum(requests, 1)
    return np.asarray(np.clip(mean, cache.sector_bytes, cache.line_bytes), dtype=np.float64)


def dram_bytes(misses: MissProfile) -> tuple[float, float]:
    """Bytes read and written at DRAM by the whole trace."""
    return SECTOR_BYTES * float(misses.dram_read_sectors.sum()), SECTOR_BYTES * float(misses.dram_write_sectors.sum())


_NO_ARITHMETIC = ("tensor", "memory", "branch", "barrier", "control")
_SCALAR, _SCHEDULERS = ("uniform", "constant"), 4


def activity(trace: KernelTrace, misses: MissProfile, times: Longs, warps: Longs) -> Activity:
    """What the warps of `trace` do that takes energy, per warp.

    `times` int64 [instructions]: how often warps executed each pc, `warps` int64 [paths] their number on each path. Lanes are those
    active where a basic block begins; an operation on uniform registers or constants is one lane's.
    """
    lanes, products = 0.0, 0.0
    active = occurrences(trace, warps, of_lanes=True)
    for each in trace.instructions:
        if each.product is not None:  # the tensor cores of all schedulers make a part of a product with tensor memory
            products += times[each.pc] * each.product[1] * (_SCHEDULERS if each.uses_tensor_memory else 1)
        elif not each.access and each.op_class not in _NO_ARITHMETIC:
            lanes += (times if each.op_class in _SCALAR else active)[each.pc]
    shared = float(misses.shared_passes.sum()) * _PASS_BYTES
    passing_l1 = ~marks(trace.instructions).bypasses_l1
    l1 = SECTOR_BYTES * float(misses.sectors[passing_l1].sum())
    count = float(warps.sum())
    return Activity(lanes / count, products / count, shared / count, l1 / count)


# -- How long these requests take.

def l1_cycles(trace: KernelTrace, misses: MissProfile, gpu: GpuSpec) -> Floats:
    """Cycles of the busier stage of the load-store unit for all executions of each pc together, float64 [instructions]."""
    tags, data = l1_stages(trace, misses, gpu)
    return data if data.sum() >= tags.sum() else tags


def l1_stages(trace: KernelTrace, misses: MissProfile, gpu: GpuSpec) -> tuple[Floats, Floats]:
    """Cycles of the tags and of the data path of the load-store unit, each float64 [instructions] as `l1_cycles`.

    The tags take `MissProfile.tag_cycles` for loads, and a cycle for each request of a store or an atomic. A pass takes a cycle, a
    pass in another block's shared memory as long as `sm.cluster_width` says, and each further lane of an atomic on shared memory at
    the same address `sm.atomic_lane`. Of machine code, an instruction takes at least `sm.access_interval`, and data as long as
    `sm.access_width` says; a request then moves what the requests of its pc touch on average.

    A copy to shared memory has the tags for its requests, and the data path when its data come, 128 B a cycle; any other access of
    global memory has both at a time.
    """
    bulk = marks(trace.instructions).bulk
    lines = np.where(bulk, 0, requests(trace.instructions, misses))
    looked_up = np.where(bulk, 0, lines - misses.l1_reads + misses.tag_cycles)
    repeats = misses.shared_repeats * float(gpu.sm.atomic_lane_cycles)
    own = pass_cycles(gpu) if trace.header.level == "sass" else 1
    remote = max(own, remote_pass_cycles(gpu))
    passes = misses.shared_passes * int(own)
    for pc in trace.remote():
        passes[pc] = misses.shared_passes[pc] * int(remote)
    if trace.header.level != "sass":
        tags, least = looked_up.astype(np.float64), np.zeros(len(lines))
    else:
        width = gpu.sm.access_width_bytes or gpu.l1.line_bytes
        moved = np.maximum(touched_bytes(misses.sectors, lines, gpu.l1) / width, 1.0)
        tags = np.asarray(looked_up * moved, dtype=np.float64)
        interval = float(gpu.sm.access_interval_cycles)
        least = np.asarray(np.maximum(misses.executions, misses.shared_executions) * interval, dtype=np.float64)
    both = np.maximum(tags + passes + repeats, least)
    copies = marks(trace.instructions).async_copy
    data = np.where(copies, misses.sectors / _SECTORS_A_PASS * pass_cycles(gpu), both)
    return np.where(copies, np.maximum(tags, least), np.where(lines > 0, both, 0.0)), data


_PASS_BYTES = 128
_SECTORS_A_PASS = _PASS_BYTES // SECTOR_BYTES


def sending_cycles(trace: KernelTrace, misses: MissProfile, executed: Longs, warps: Longs, gpu: GpuSpec) -> Floats:
    """Cycles of the SM's port to the network for all stores and atomics of each pc together, float64 [instructions], without those
    of bulk copies.

    Each row of a store is a packet (`store_flits`). The load-store unit sends the packets of an access before those of the next, so
    that it is held for as long as the port takes them.
    """
    flits = store_flits(trace, misses, executed, warps) * gpu.noc.store_time_cycles / 3
    store, atomic = marks(trace.instructions).store, marks(trace.instructions).atomic
    sectors = np.where(atomic, misses.l2_reads, np.where(store, misses.sectors, 0))
    data = SECTOR_BYTES * sectors / _port_bytes(gpu)
    return np.where(marks(trace.instructions).bulk, 0.0, np.maximum(flits, data))


def _port_bytes(gpu: GpuSpec) -> float:
    """Bytes a cycle of an SM's port to the network, which is as wide as that of a slice."""
    return gpu.noc.bandwidth_bytes_per_s / gpu.l2.slices / gpu.core_clock_hz


def bulk_cycles(trace: KernelTrace, misses: MissProfile, gpu: GpuSpec) -> Floats:
    """Cycles of the SM's unit for bulk and tensor copies for all executions of each pc together, float64 [instructions].

    It sends a request for a line of the L2 a cycle, and the SM's port passes the data at its bandwidth, and stores in their flits.
    The SMs begin their blocks together and do the same, so they copy at the same time: each has an equal part of the network and of
    the DRAM. What a slice sends to several SMs at a time passes the network once.
    """
    bulk, sms = marks(trace.instructions).bulk, min(gpu.sm_count, trace.header.blocks)
    sent = misses.sectors * (1.0 - misses.l2_joins / np.maximum(misses.l2_reads, 1))
    of_network = sms * sent / gpu.noc.bandwidth_bytes_per_s
    of_dram = sms * misses.dram_read_sectors / (gpu.dram.bandwidth_bytes_per_s * gpu.dram.efficiency)
    shared = gpu.core_clock_hz * np.maximum(of_network, of_dram)
    data = SECTOR_BYTES * np.maximum(misses.sectors / _port_bytes(gpu), shared)
    lines = requests(trace.instructions, misses)
    stores = np.array([instruction.access != LOAD for instruction in trace.instructions], dtype=np.bool_)
    flits = np.where(stores, lines + misses.sectors, 0)  # of whole sectors
    return np.where(bulk, np.maximum(np.maximum(lines, data), flits * gpu.noc.store_time_cycles / 3), 0.0)


# -- The counts of the MWP-CWP model: exact executions, coalescing by the GPU's rule.

# Columns of the flat table of memory instructions, by basic block in pc order: bytes of its event, whether its first byte counts
# sectors, word size, segment of the rule for that size.
_BYTES, _SECTORS, _SIZE, _SEGMENT = range(4)


def trace_counts(trace: KernelTrace, gpu: GpuSpec, warps: Longs, blocks_per_sm: int) -> KernelCounts:
    """Counts of `trace` by the coalescing rule of `gpu`; `warps` int64 [paths] is the number on each path. Reads the chunks once.

    Instructions and barriers are exact. The lanes are those active at the start of the basic block: predicates matter only for
    compute capability 1.0 (see `addressing.coalescing`).
    """
    times = occurrences(trace, warps)
    barriers = [instruction.is_block_barrier for instruction in trace.instructions]
    rule = transaction_rule_number(gpu.sm.coalescing)
    starts, table = _memory_instructions(trace, gpu, rule)

    def count(part: KernelTrace) -> Longs:
        found, paths = np.zeros(4, dtype=np.int64), part.paths
        for chunk in part.chunks:
            _count(
                plain(paths.offset, np.int64), plain(paths.block, np.int32), plain(paths.lanes, np.uint8),
                plain(paths.repeat, np.int32), starts, table, plain(chunk.path, np.int32), plain(chunk.event_offset, np.int64),
                plain(chunk.events, np.uint8), plain(chunk.sector_offset, np.int64), plain(chunk.sectors, np.uint32), rule, found,
            )  # fmt: skip
            drop_pages(paths.block, paths.lanes, paths.repeat)
        return found

    sums = sum_of(trace, count)
    coalesced, uncoalesced, transactions, access_bytes = sums.astype(np.float64).tolist()
    instructions, synchronizations = float(times.sum()), float(times[barriers].sum())
    totals = LaunchTotals(instructions, coalesced, uncoalesced, transactions, access_bytes, synchronizations)
    header = trace.header
    return totals.per_warp(
        header.warps, header.blocks, header.warps_per_block, blocks_per_sm, coalescing=gpu.sm.coalescing, origin="trace"
    )


def _memory_instructions(trace: KernelTrace, gpu: GpuSpec, rule: int) -> tuple[Longs, Longs]:
    """Rows of each basic block, int64 [blocks + 1], and the rows [n, 4]."""
    rows, starts = [], [0]
    for begin, end in pairwise(trace.block_start.tolist()):
        for instruction in trace.instructions[begin:end]:
            if instruction.event_bytes:
                size = instruction.access_bytes
                segment = segment_bytes(rule, max(size, 1), gpu.l1.sector_bytes)
                rows.append((instruction.event_bytes, instruction.sector_bytes, size, max(segment, 32)))
        starts.append(len(rows))
    return np.array(starts, dtype=np.int64), np.array(rows, dtype=np.int64).reshape(-1, 4)


@kept_until_changed("addressing", "traces/events.py")
def _count(
    offset: Longs, block: Longs, lanes: Longs, repeat: Longs, starts: Longs, table: Longs, path: Longs, event_offset: Longs,
    events: Longs, sector_offset: Longs, sectors: npt.NDArray[np.uint32], rule: int, sums: Longs,
) -> None:
    """Adds coalesced, uncoalesced, their transactions, and the word sizes of both to `sums` int64 [4]."""
    for warp in range(len(path)):
        event, sector = event_offset[warp], sector_offset[warp]
        for run in range(offset[path[warp]], offset[path[warp] + 1]):
            first, last = starts[block[run]], starts[block[run] + 1]
            if first == last:
                continue
            active = np.int64(lanes[run])
            for _ in range(repeat[run]):
                for row in range(first, last):
                    count = sectors_of_event(events, event, table[row, _SECTORS])
                    event += table[row, _BYTES]
                    if count == 0:
                        continue
                    size = table[row, _SIZE]
                    made = transactions_of_sectors(sectors, int(sector), count, size, int(active), rule, table[row, _SEGMENT])
                    sector += count
                    sums[3] += size
                    if made < 0:
                        sums[0] += 1
                    else:
                        sums[1] += 1
                        sums[2] += made
