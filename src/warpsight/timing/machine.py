"""A GPU description reduced to the plain numbers that the compiled simulation needs, checked on the way."""

from __future__ import annotations

import math

import numpy as np

from warpsight.addressing.setindex import RULES
from warpsight.base.errors import LimitError, SpecError, UsageError
from warpsight.caches.geometry import POLICIES, check_hierarchy
from warpsight.gpu.spec import GpuSpec
from warpsight.timing import layout as at
from warpsight.timing.layout import TICKS, Ints
from warpsight.trace.schema import SECTOR_BYTES

WRITE_BACK_CYCLES = 1  # of the data of an access into the registers
_MOST_TARGETS = 1 << 22


def _flits(sectors: int, flit_bytes: int) -> int:
    return max(1, -(-sectors * SECTOR_BYTES // flit_bytes))


def _check(gpu: GpuSpec, blocks_per_sm: int, warps_per_block: int) -> None:
    check_hierarchy(gpu, blocks_per_sm)
    slots = blocks_per_sm * warps_per_block
    if -(-slots // gpu.sm.schedulers) > at.WHEEL:
        raise LimitError(
            f"{slots} warps on {gpu.sm.schedulers} schedulers: the simulator has {at.WHEEL} warps a scheduler at most",
            place=f"{gpu.name}: sm.max_warps",
            remedy="lower sm.max_warps, or give more sm.schedulers",
        )
    for name, cache in (("l1", gpu.l1), ("l2", gpu.l2)):
        if cache.mshrs * cache.targets > _MOST_TARGETS:
            raise LimitError(
                f"{cache.mshrs:,} MSHRs x {cache.targets:,} targets are more than {_MOST_TARGETS:,} waiting requests",
                place=f"{gpu.name}: {name}.targets",
                remedy=f"lower {name}.mshrs or {name}.targets",
            )
    if gpu.dram.row_bytes % gpu.l2.line_bytes:
        raise SpecError(
            f"a row of {gpu.dram.row_bytes} B is not a whole number of L2 lines of {gpu.l2.line_bytes} B",
            place=f"{gpu.name}: dram.row",
            remedy="make it a multiple of l2.line, for example 2 KiB, or 0 B for memory without rows",
        )
    if gpu.l2.slices % gpu.dram.channels:
        raise SpecError(
            f"{gpu.l2.slices} L2 slices do not divide evenly among {gpu.dram.channels} memory channels",
            place=f"{gpu.name}: dram.channels",
            remedy="make l2.slices a multiple of dram.channels",
        )


def parameters_of(gpu: GpuSpec, blocks: int, warps_per_block: int, blocks_per_sm: int) -> Ints:
    """Check and reduce `gpu` for a launch of `blocks` blocks to the machine part of `p` (module `layout`).

    Raises SpecError, LimitError or UsageError for what cannot be simulated.
    """
    if blocks < 1:
        raise UsageError("the launch has no blocks", remedy="record a launch with at least one block")
    _check(gpu, blocks_per_sm, warps_per_block)
    p = np.zeros(at.PARAMETERS, np.int64)
    p[at.SM_COUNT], p[at.GRID] = gpu.sm_count, blocks
    p[at.SCHEDULERS], p[at.WIDTH], p[at.POLICY] = gpu.sm.schedulers, gpu.sm.issue_width, POLICIES[gpu.sm.policy]
    p[at.PLACES], p[at.WARPS_PER_BLOCK] = blocks_per_sm, warps_per_block
    p[at.SLOTS] = blocks_per_sm * warps_per_block
    p[at.QUEUE_DEPTH], p[at.FETCH_WIDTH] = gpu.sm.access_queue, gpu.sm.fetch_width
    _set_caches(p, gpu)
    _set_network(p, gpu)
    _set_memory(p, gpu)
    _set_latencies(p, gpu)
    return p


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


def _set_caches(p: Ints, gpu: GpuSpec) -> None:
    l1, l2 = gpu.l1, gpu.l2
    p[at.L1_SETS], p[at.L1_WAYS], p[at.L1_RULE], p[at.L1_LINE] = l1.sets, l1.ways, RULES[l1.index], l1.line_bytes // SECTOR_BYTES
    p[at.L2_SETS], p[at.L2_WAYS], p[at.L2_RULE], p[at.L2_LINE] = l2.sets, l2.ways, RULES[l2.index], l2.line_bytes // SECTOR_BYTES
    p[at.SLICES], p[at.PER_PIECE] = l2.slices, l2.slice_interleave_bytes // l2.line_bytes
    p[at.L1_ON_FILL] = l1.allocation == "on-fill"
    parts = max(1, l1.line_bytes // l2.line_bytes)
    p[at.MISS_QUEUE] = max(l1.miss_queue, parts)
    for name, cache in (("L1", l1), ("L2", l2)):
        p[getattr(at, f"{name}_MSHRS")], p[getattr(at, f"{name}_TARGETS")] = cache.mshrs, cache.targets
        p[getattr(at, f"{name}_NODES")] = cache.mshrs * cache.targets
        p[getattr(at, f"{name}_BUCKETS")] = _power_of_two(2 * cache.mshrs)


def _set_network(p: Ints, gpu: GpuSpec) -> None:
    port = gpu.noc.bandwidth_bytes_per_s / gpu.l2.slices
    p[at.FLIT] = gpu.noc.flit_bytes
    p[at.FLIT_TICKS] = max(1, round(TICKS * gpu.noc.flit_bytes * gpu.core_clock_hz / port))
    p[at.EJECT_ROOM] = gpu.noc.buffer
    p[at.OUT_ROOM] = gpu.noc.buffer + gpu.l2.targets  # a line that comes from memory answers all who wait for it at once


def _set_memory(p: Ints, gpu: GpuSpec) -> None:
    dram = gpu.dram
    channel = dram.bandwidth_bytes_per_s / dram.channels
    p[at.CHANNELS], p[at.SLICES_PER_CHANNEL] = dram.channels, gpu.l2.slices // dram.channels
    p[at.DRAM_LATENCY], p[at.DRAM_QUEUE] = dram.latency_cycles, max(2, dram.queue)
    p[at.DRAM_TICKS] = max(1, round(TICKS * SECTOR_BYTES * gpu.core_clock_hz / channel))
    p[at.BANKS], p[at.ROW_SECTORS] = dram.banks, dram.row_bytes // SECTOR_BYTES
    if dram.row_bytes:
        p[at.ROW_OPEN], p[at.ROW_CLOSE] = TICKS * dram.activate_cycles, TICKS * dram.precharge_cycles
        p[at.TURNAROUND] = TICKS * dram.turnaround_cycles
    p[at.RETURN_ROOM] = gpu.l2.mshrs * (gpu.l2.slices // dram.channels) * int(p[at.L2_LINE])


def _set_latencies(p: Ints, gpu: GpuSpec) -> None:
    """Shares out the round trips of the description, so that an access alone takes exactly what they say."""
    l1, l2 = gpu.l1.latency_cycles, gpu.l2.latency_cycles
    # reading registers and adding an offset is what an integer operation does
    p[at.ADDRESS] = min(gpu.latency_cycles["int"], l1 - 1)
    p[at.BACK] = min(WRITE_BACK_CYCLES, l1 - int(p[at.ADDRESS]))
    p[at.PIPE] = l1 - int(p[at.ADDRESS]) - int(p[at.BACK])
    p[at.SHARED_LATENCY] = max(1, gpu.latency_cycles["shared"] - int(p[at.ADDRESS]))
    line = min(int(p[at.L1_LINE]), gpu.l1.sector_bytes // SECTOR_BYTES)
    flit = int(p[at.FLIT_TICKS])
    there, back = math.ceil(flit / TICKS), math.ceil(_flits(line, gpu.noc.flit_bytes) * flit / TICKS)
    fixed = int(p[at.ADDRESS]) + int(p[at.PIPE]) + there + back + 1
    if l2 < fixed:
        raise SpecError(
            f"an L2 round trip of {l2} cycles is shorter than its way: the L1 ({l1} cycles) and the ports ({there + back})",
            place=f"{gpu.name}: l2.latency",
            remedy=f"give l2.latency of at least {fixed} cycles, or a shorter l1.latency or more noc.bandwidth",
        )
    p[at.L2_PIPE] = l2 - fixed
    p[at.IN_ROOM] = int(p[at.L2_PIPE]) + gpu.noc.buffer
