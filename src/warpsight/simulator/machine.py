"""The machine that the compiled simulation runs: the GPU description checked, and reduced to plain numbers."""

from __future__ import annotations

import math

from warpsight.addressing.mapping import SET_INDEX_RULES
from warpsight.base.errors import LimitError, SpecError, UsageError
from warpsight.caches.exact.geometry import check_hierarchy
from warpsight.gpu.spec import CacheSpec, GpuSpec, L1Spec
from warpsight.simulator import codes
from warpsight.traces.schema import SECTOR_BYTES

WRITE_BACK_CYCLES = 1  # of the data of an access into the registers
_MOST_TARGETS = 1 << 22

Numbers = dict[str, int]


def _check(gpu: GpuSpec, blocks_per_sm: int, warps_per_block: int) -> None:
    check_hierarchy(gpu, blocks_per_sm)
    slots = blocks_per_sm * warps_per_block
    if -(-slots // gpu.sm.schedulers) > codes.WHEEL:
        what = f"{slots} warps on {gpu.sm.schedulers} schedulers: the simulator has {codes.WHEEL} warps a scheduler at most"
        raise LimitError(what, place=f"{gpu.name}: sm.max_warps", remedy="lower sm.max_warps, or give more sm.schedulers")
    for name, cache in (("l1", gpu.l1), ("l2", gpu.l2)):
        if cache.mshrs * cache.targets > _MOST_TARGETS:
            what = f"{cache.mshrs:,} MSHRs x {cache.targets:,} targets are more than {_MOST_TARGETS:,} waiting requests"
            raise LimitError(what, place=f"{gpu.name}: {name}.targets", remedy=f"lower {name}.mshrs or {name}.targets")
    if gpu.dram.row_bytes % gpu.l2.line_bytes:
        what = f"a row of {gpu.dram.row_bytes} B is not a whole number of L2 lines of {gpu.l2.line_bytes} B"
        remedy = "make it a multiple of l2.line, for example 2 KiB, or 0 B for memory without rows"
        raise SpecError(what, place=f"{gpu.name}: dram.row", remedy=remedy)
    if gpu.l2.slices % gpu.dram.channels:
        what = f"{gpu.l2.slices} L2 slices do not divide evenly among {gpu.dram.channels} memory channels"
        raise SpecError(what, place=f"{gpu.name}: dram.channels", remedy="make l2.slices a multiple of dram.channels")


def machine_of(gpu: GpuSpec, blocks: int, warps_per_block: int, blocks_per_sm: int) -> Numbers:
    """Check `gpu` and return the fields of `state.Machine` that it and a launch of `blocks` blocks decide.

    Raises SpecError, LimitError or UsageError for what cannot be simulated.
    """
    if blocks < 1:
        raise UsageError("the launch has no blocks", remedy="record a launch with at least one block")
    _check(gpu, blocks_per_sm, warps_per_block)
    return {
        "sm_count": gpu.sm_count, "schedulers": gpu.sm.schedulers, "issue_width": gpu.sm.issue_width,
        "greedy": gpu.sm.policy == "gto", "places": blocks_per_sm, "slots": blocks_per_sm * warps_per_block,
        "fetch_width": gpu.sm.fetch_width, "blocks": blocks, "warps_per_block": warps_per_block,
        "slices": gpu.l2.slices, "lines_per_piece": gpu.l2.slice_interleave_bytes // gpu.l2.line_bytes,
        **_latencies(gpu), **_memory(gpu),
    }  # fmt: skip


def geometry_of(cache: CacheSpec) -> Numbers:
    """The fields of `structures.Geometry`, without the table of sector groups."""
    return {
        "sets": cache.sets, "ways": cache.ways, "index_rule": SET_INDEX_RULES[cache.index],
        "line_sectors": cache.line_bytes // SECTOR_BYTES, "mshrs": cache.mshrs, "targets": cache.targets,
        "buckets": 1 << (2 * cache.mshrs - 1).bit_length(),
        "allocate_on_fill": isinstance(cache, L1Spec) and cache.allocation == "on-fill",
    }  # fmt: skip


def queues_of(gpu: GpuSpec, machine: Numbers) -> dict[str, dict[str, int]]:
    """How many elements each queue (`structures.Queue`) of an SM, of a slice and of a channel has room for."""
    per_channel = gpu.l2.slices // gpu.dram.channels
    return {
        "sm": {
            "access_queue": gpu.sm.access_queue,
            "pipeline": machine["pipeline_cycles"] + 1,
            # a line that lies in several lines of the L2 is sent as a whole
            "miss_queue": max(1, gpu.l1.miss_queue, gpu.l1.line_bytes // gpu.l2.line_bytes),
            "arrival_queue": gpu.noc.buffer,
        },
        "slice": {
            "inbox": machine["l2_cycles"] + gpu.noc.buffer,
            "outbox": gpu.noc.buffer + gpu.l2.targets,  # a line that comes from memory answers all its requests at once
        },
        "channel": {"returning": gpu.l2.mshrs * per_channel * (gpu.l2.line_bytes // SECTOR_BYTES)},
    }


def _memory(gpu: GpuSpec) -> Numbers:
    dram, rows = gpu.dram, gpu.dram.row_bytes > 0
    channel = dram.bandwidth_bytes_per_s / dram.channels
    return {
        "channels": dram.channels, "slices_per_channel": gpu.l2.slices // dram.channels,
        "dram_cycles": dram.latency_cycles, "dram_queue": max(2, dram.queue),
        "dram_ticks": max(1, round(codes.TICKS * SECTOR_BYTES * gpu.core_clock_hz / channel)),
        "banks": dram.banks, "row_sectors": dram.row_bytes // SECTOR_BYTES,
        "open_ticks": codes.TICKS * dram.activate_cycles if rows else 0,
        "close_ticks": codes.TICKS * dram.precharge_cycles if rows else 0,
        "turnaround_ticks": codes.TICKS * dram.turnaround_cycles if rows else 0,
    }  # fmt: skip


def _latencies(gpu: GpuSpec) -> Numbers:
    """Divides the round trips of the description, so that an access without contention takes exactly what they say."""
    l1, l2, flit_bytes = gpu.l1.latency_cycles, gpu.l2.latency_cycles, gpu.noc.flit_bytes
    # reading registers and adding an offset is what an integer operation does
    address = min(gpu.latency_cycles["int"], l1 - 1)
    write_back = min(WRITE_BACK_CYCLES, l1 - address)
    pipeline = l1 - address - write_back
    port = gpu.noc.bandwidth_bytes_per_s / gpu.l2.slices
    flit = max(1, round(codes.TICKS * flit_bytes * gpu.core_clock_hz / port))
    line_bytes = min(gpu.l1.line_bytes, gpu.l1.sector_bytes)
    there, back = math.ceil(flit / codes.TICKS), math.ceil(max(1, -(-line_bytes // flit_bytes)) * flit / codes.TICKS)
    fixed = address + pipeline + there + back + 1
    if l2 < fixed:
        what = f"an L2 round trip of {l2} cycles is shorter than its way: the L1 ({l1} cycles) and the ports ({there + back})"
        remedy = f"give l2.latency of at least {fixed} cycles, or a shorter l1.latency or more noc.bandwidth"
        raise SpecError(what, place=f"{gpu.name}: l2.latency", remedy=remedy)
    return {
        "address_cycles": address, "write_back_cycles": write_back, "pipeline_cycles": pipeline,
        "shared_cycles": max(1, gpu.latency_cycles["shared"] - address),
        "flit_bytes": flit_bytes, "flit_ticks": flit, "l2_cycles": l2 - fixed,
    }  # fmt: skip
