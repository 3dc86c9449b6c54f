"""A GPU description reduced to the plain numbers that the compiled simulation needs, checked on the way."""

from __future__ import annotations

import numpy as np

from warpsight.addressing.mapping import MODULO, SET_INDEX_RULES
from warpsight.base.errors import SpecError, UsageError
from warpsight.caches.exact import layout as at
from warpsight.caches.exact.layout import GTO, LRR, TICKS, Ints
from warpsight.gpu.spec import CacheSpec, GpuSpec
from warpsight.traces.schema import SECTOR_BYTES

POLICIES = {"gto": GTO, "lrr": LRR}
INTERLEAVINGS = ("clocked", "round-robin")
MAX_LINE_BYTES = 512
# How far one access may run ahead of the other SMs before they take their turns: a full warp's requests, one a cycle.
PATIENCE_CYCLES = 32


def _check_cache(name: str, cache: CacheSpec, gpu: GpuSpec) -> None:
    def refuse(what: str, remedy: str) -> None:
        raise SpecError(what, place=f"{gpu.name}: {name}", remedy=remedy)

    line, sector = cache.line_bytes, cache.sector_bytes
    if line % SECTOR_BYTES or not 0 < line <= MAX_LINE_BYTES:
        refuse(f"a line of {line} B cannot be simulated", f"give {name}.line as a multiple of 32 B up to {MAX_LINE_BYTES} B")
    if sector % SECTOR_BYTES or not 0 < sector <= line or line % sector:
        refuse(
            f"a sector of {sector} B does not divide a line of {line} B", f"give {name}.sector as a divisor of the line, from 32 B"
        )
    if cache.sets < 1 or cache.sets * line * cache.ways * cache.slices != cache.size_bytes:
        refuse(
            f"{cache.size_bytes} B is not a whole number of sets of {cache.ways} ways x {line} B in {cache.slices} slices",
            f"make {name}.size a multiple of {cache.ways * line * cache.slices} B",
        )
    if cache.index not in SET_INDEX_RULES:
        refuse(f'unknown set index "{cache.index}"', f"use one of {', '.join(SET_INDEX_RULES)}")
    if SET_INDEX_RULES[cache.index] != MODULO and cache.sets & (cache.sets - 1):
        what = f"the {cache.index} set index needs a power of two of sets, not {cache.sets}"
        refuse(what, f"use {name}.index: modulo, or another size")
    if cache.replacement != "lru":
        refuse(f'replacement "{cache.replacement}" is not simulated', "use lru")
    if cache.mshrs < 1:
        refuse(f"{cache.mshrs} MSHRs let no miss through", f"give {name}.mshrs of at least 1")


def check_hierarchy(gpu: GpuSpec, blocks_per_sm: int) -> None:
    """Raise SpecError for caches or a scheduler that cannot be simulated, UsageError if not one block fits an SM."""
    _check_cache("l1", gpu.l1, gpu)
    _check_cache("l2", gpu.l2, gpu)
    if gpu.l1.write_policy != "write-through" or gpu.l1.write_allocate:
        raise SpecError(
            "only a write-through L1 without write allocation is simulated",
            place=f"{gpu.name}: l1",
            remedy="use write_policy: write-through and write_allocate: false",
        )
    if gpu.l2.write_policy != "write-back" or not gpu.l2.write_allocate:
        raise SpecError(
            "only a write-back L2 with write allocation is simulated",
            place=f"{gpu.name}: l2",
            remedy="use write_policy: write-back and write_allocate: true",
        )
    piece = gpu.l2.slice_interleave_bytes
    if piece < 1 or piece % gpu.l2.line_bytes:
        raise SpecError(
            f"an interleave of {piece} B is not a whole number of {gpu.l2.line_bytes} B lines",
            place=f"{gpu.name}: l2.slice_interleave",
            remedy="make it a multiple of l2.line",
        )
    if gpu.sm.policy not in POLICIES:
        place = f"{gpu.name}: sm.policy"
        raise SpecError(f'unknown scheduler "{gpu.sm.policy}"', place=place, remedy=f"use one of {', '.join(POLICIES)}")
    if blocks_per_sm < 1:
        raise UsageError(
            f"{blocks_per_sm} blocks per SM: not one block fits",
            place=gpu.name,
            remedy="use smaller blocks, fewer registers or less shared memory",
        )


def _check(gpu: GpuSpec, blocks_per_sm: int, interleaving: str) -> None:
    check_hierarchy(gpu, blocks_per_sm)
    if interleaving not in INTERLEAVINGS:
        raise UsageError(f'unknown interleaving "{interleaving}"', remedy=f"use one of {', '.join(INTERLEAVINGS)}")


def sector_groups(cache: CacheSpec) -> Ints:
    """For every mask of touched 32 B sectors of a line, the cache's own sectors that they lie in, as such a mask."""
    sectors, unit = cache.line_bytes // SECTOR_BYTES, cache.sector_bytes // SECTOR_BYTES
    masks = np.arange(1 << sectors, dtype=np.int64)
    grown = np.zeros_like(masks)
    for first in range(0, sectors, unit):
        group = ((1 << unit) - 1) << first
        grown |= np.where(masks & group, group, 0)
    return grown


def parameters_of(gpu: GpuSpec, blocks: int, warps_per_block: int, blocks_per_sm: int, interleaving: str) -> Ints:
    """Check and reduce `gpu` for a launch of `blocks` blocks to the machine part of `p` (module `layout`).

    With `round-robin` every turn takes one cycle and everything returns at once, which leaves nothing but the order.
    Raises SpecError or UsageError for what cannot be simulated.
    """
    _check(gpu, blocks_per_sm, interleaving)
    clocked = interleaving == "clocked"
    p = np.zeros(at.PARAMETERS, np.int64)
    p[at.SM_COUNT], p[at.GRID] = gpu.sm_count, blocks
    p[at.SCHEDULERS] = gpu.sm.schedulers if clocked else 1
    p[at.POLICY] = POLICIES[gpu.sm.policy] if clocked else LRR
    p[at.BLOCKS_PER_SM], p[at.WARPS_PER_BLOCK] = blocks_per_sm, warps_per_block
    p[at.SLOTS] = blocks_per_sm * warps_per_block
    p[at.ISSUERS] = p[at.SM_COUNT] * p[at.SCHEDULERS]
    p[at.DEPTH] = gpu.sm.access_queue
    p[at.ISSUE_COST] = TICKS // gpu.sm.issue_width if clocked else TICKS
    # What one SM does reaches another through the L2, and no sooner. In turn means: no SM a cycle ahead.
    p[at.LOOKAHEAD] = TICKS * max(1, gpu.l2.latency_cycles) if clocked else TICKS
    l1, l2 = gpu.l1, gpu.l2
    p[at.L1_SETS], p[at.L1_WAYS], p[at.L1_RULE], p[at.L1_LINE] = l1.sets, l1.ways, SET_INDEX_RULES[l1.index], l1.line_bytes // SECTOR_BYTES
    p[at.L2_SETS], p[at.L2_WAYS], p[at.L2_RULE], p[at.L2_LINE] = l2.sets, l2.ways, SET_INDEX_RULES[l2.index], l2.line_bytes // SECTOR_BYTES
    p[at.SLICES], p[at.CHANNELS] = l2.slices, gpu.dram.channels
    p[at.PER_PIECE] = l2.slice_interleave_bytes // l2.line_bytes
    p[at.MSHRS] = min(l1.mshrs, l1.sets * l1.ways * (l1.line_bytes // l1.sector_bytes))
    if clocked:
        _set_times(p, gpu)
    return p


def _set_times(p: Ints, gpu: GpuSpec) -> None:
    p[at.TURN] = 1
    p[at.LSU_COST] = TICKS
    p[at.PATIENCE] = TICKS * PATIENCE_CYCLES
    p[at.L1_LATENCY] = TICKS * gpu.l1.latency_cycles
    p[at.L2_LATENCY] = TICKS * gpu.l2.latency_cycles
    p[at.DRAM_LATENCY] = TICKS * gpu.dram.latency_cycles
    line_ticks = TICKS * gpu.l2.line_bytes * gpu.core_clock_hz
    # A slice takes one access a cycle. Its input port holds what passes in the L2's latency, and its MSHRs the fetches.
    p[at.STORE_SERVICE], p[at.PORT_ROOM] = TICKS, p[at.L2_LATENCY]
    p[at.SLICE_SERVICE] = round(line_ticks * gpu.l2.slices / gpu.noc.bandwidth_bytes_per_s)
    p[at.DRAM_SERVICE] = round(line_ticks * gpu.dram.channels / gpu.dram.bandwidth_bytes_per_s)
    fetches = gpu.l2.mshrs * gpu.l2.slices // gpu.dram.channels
    p[at.FETCH_ROOM] = p[at.L2_LATENCY] + p[at.DRAM_LATENCY] + fetches * p[at.DRAM_SERVICE]
