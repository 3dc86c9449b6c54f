"""A GPU description reduced to the plain numbers that the compiled simulation needs, checked on the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.addressing.setindex import RULES, XOR
from warpsight.base.errors import SpecError, UsageError
from warpsight.gpu.spec import CacheSpec, GpuSpec
from warpsight.trace.schema import SECTOR_BYTES

GTO, LRR = 0, 1
POLICIES = {"gto": GTO, "lrr": LRR}
INTERLEAVINGS = ("clocked", "round-robin")
MAX_LINE_BYTES = 512

Ints = npt.NDArray[np.int64]


class Machine(NamedTuple):
    """One SM count, one hierarchy, one interleaving rule. Times in core cycles; `*_line` in 32 B sectors; `slots` warps per SM.

    `issue_cost` is the time of one instruction on one scheduler, `lsu_cost` that of one request in the load-store unit; `*_service` is how
    long one line keeps a port, a slice's reply path or a memory channel busy.
    """

    sm_count: int
    schedulers: int
    policy: int
    blocks_per_sm: int
    warps_per_block: int
    slots: int
    blocks: int
    issue_cost: float
    lsu_cost: float
    l1_sets: int
    l1_ways: int
    l1_rule: int
    l1_line: int
    l1_latency: float
    mshrs: int
    l1_unit: Ints
    slices: int
    l2_sets: int
    l2_ways: int
    l2_rule: int
    l2_line: int
    per_piece: int
    l2_latency: float
    l2_unit: Ints
    channels: int
    dram_latency: float
    port_service: float
    slice_service: float
    dram_service: float


def _units(line_bytes: int, sector_bytes: int) -> Ints:
    """For every set of 32 B sectors of a line (a bit mask), the cache's own sectors that it reaches into, as 32 B sectors again."""
    sectors, unit = line_bytes // SECTOR_BYTES, sector_bytes // SECTOR_BYTES
    masks = np.arange(1 << sectors, dtype=np.int64)
    grown = np.zeros_like(masks)
    for first in range(0, sectors, unit):
        group = ((1 << unit) - 1) << first
        grown |= np.where(masks & group, group, 0)
    return grown


def _check_cache(name: str, cache: CacheSpec, gpu: GpuSpec) -> None:
    def refuse(what: str, remedy: str) -> None:
        raise SpecError(what, place=f"{gpu.name}: {name}", remedy=remedy)

    line, sector = cache.line_bytes, cache.sector_bytes
    if line % SECTOR_BYTES or not 0 < line <= MAX_LINE_BYTES:
        refuse(f"a line of {line} B cannot be simulated", f"give {name}.line as a multiple of 32 B up to {MAX_LINE_BYTES} B")
    if sector % SECTOR_BYTES or not 0 < sector <= line or line % sector:
        refuse(f"a sector of {sector} B does not divide a line of {line} B", f"give {name}.sector as a multiple of 32 B that divides the line")
    if cache.sets < 1 or cache.sets * line * cache.ways * cache.slices != cache.size_bytes:
        refuse(
            f"{cache.size_bytes} B is not a whole number of sets of {cache.ways} ways x {line} B in {cache.slices} slices",
            f"make {name}.size a multiple of {cache.ways * line * cache.slices} B",
        )
    if cache.index not in RULES:
        refuse(f'unknown set index "{cache.index}"', f"use one of {', '.join(RULES)}")
    if RULES[cache.index] == XOR and cache.sets & (cache.sets - 1):
        refuse(f"the xor set index needs a power of two of sets, not {cache.sets}", f"use {name}.index: modulo, or another size")
    if cache.replacement != "lru":
        refuse(f'replacement "{cache.replacement}" is not simulated', "use lru")
    if cache.mshrs < 1:
        refuse(f"{cache.mshrs} MSHRs let no miss through", f"give {name}.mshrs of at least 1")


def _check(gpu: GpuSpec, blocks_per_sm: int, interleaving: str) -> None:
    _check_cache("l1", gpu.l1, gpu)
    _check_cache("l2", gpu.l2, gpu)
    if gpu.l1.write_policy != "write-through" or gpu.l1.write_allocate:
        raise SpecError(
            "only a write-through L1 without write allocation is simulated", place=f"{gpu.name}: l1", remedy="use write_policy: write-through"
        )
    piece = gpu.l2.slice_interleave_bytes
    if piece < 1 or piece % gpu.l2.line_bytes:
        raise SpecError(
            f"an interleave of {piece} B is not a whole number of {gpu.l2.line_bytes} B lines",
            place=f"{gpu.name}: l2.slice_interleave",
            remedy="make it a multiple of l2.line",
        )
    if gpu.sm.policy not in POLICIES:
        raise SpecError(f'unknown scheduler "{gpu.sm.policy}"', place=f"{gpu.name}: sm.policy", remedy=f"use one of {', '.join(POLICIES)}")
    if blocks_per_sm < 1:
        raise UsageError(
            f"{blocks_per_sm} blocks per SM: not one block fits", place=gpu.name, remedy="use smaller blocks or fewer registers or less shared memory"
        )
    if interleaving not in INTERLEAVINGS:
        raise UsageError(f'unknown interleaving "{interleaving}"', remedy=f"use one of {', '.join(INTERLEAVINGS)}")


def machine_of(gpu: GpuSpec, blocks: int, warps_per_block: int, blocks_per_sm: int, interleaving: str) -> Machine:
    """Check and reduce `gpu` for a launch of `blocks` blocks. Raises SpecError or UsageError for what cannot be simulated.

    With `round-robin` every turn takes one cycle and everything returns at once, which leaves nothing but the order.
    """
    _check(gpu, blocks_per_sm, interleaving)
    clocked = interleaving == "clocked"
    timed = 1.0 if clocked else 0.0
    l1, l2 = gpu.l1, gpu.l2
    cycle_bytes = gpu.noc.bandwidth_bytes_per_s / gpu.core_clock_hz
    # A crossbar's ports are equally wide, so the narrower side carries the aggregate.
    port = timed * l2.line_bytes * min(gpu.sm_count, l2.slices) / cycle_bytes
    dram = timed * l2.line_bytes * gpu.dram.channels * gpu.core_clock_hz / gpu.dram.bandwidth_bytes_per_s
    lines_in_flight = l1.sets * l1.ways * (l1.line_bytes // l1.sector_bytes)
    return Machine(
        sm_count=gpu.sm_count,
        schedulers=gpu.sm.schedulers if clocked else 1,
        policy=POLICIES[gpu.sm.policy] if clocked else LRR,
        blocks_per_sm=blocks_per_sm,
        warps_per_block=warps_per_block,
        slots=blocks_per_sm * warps_per_block,
        blocks=blocks,
        issue_cost=1.0 / gpu.sm.issue_width if clocked else 1.0,
        lsu_cost=timed,
        l1_sets=l1.sets,
        l1_ways=l1.ways,
        l1_rule=RULES[l1.index],
        l1_line=l1.line_bytes // SECTOR_BYTES,
        l1_latency=timed * l1.latency_cycles,
        mshrs=min(l1.mshrs, lines_in_flight),
        l1_unit=_units(l1.line_bytes, l1.sector_bytes),
        slices=l2.slices,
        l2_sets=l2.sets,
        l2_ways=l2.ways,
        l2_rule=RULES[l2.index],
        l2_line=l2.line_bytes // SECTOR_BYTES,
        per_piece=l2.slice_interleave_bytes // l2.line_bytes,
        l2_latency=timed * l2.latency_cycles,
        l2_unit=_units(l2.line_bytes, l2.sector_bytes),
        channels=gpu.dram.channels,
        dram_latency=timed * gpu.dram.latency_cycles,
        port_service=port,
        slice_service=port,
        dram_service=dram,
    )
