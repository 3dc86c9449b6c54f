"""From a GPU description to the machine that the compiled simulation runs: checks, geometry, and times in ticks."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from warpsight.addressing.mapping import MODULO, SET_INDEX_RULES, SLICE_INDEX_RULES
from warpsight.base.errors import SpecError, UsageError
from warpsight.base.records import dtype_of
from warpsight.caches.exact.lru import packed, way_bits
from warpsight.caches.exact.state import GTO, LRR, TICKS, L1Line, Machine, Warp
from warpsight.gpu.spec import CacheSpec, GpuSpec, L2Spec
from warpsight.traces.schema import SECTOR_BYTES

POLICIES = {"gto": GTO, "lrr": LRR}
INTERLEAVINGS = ("clocked", "round-robin")
REPLACEMENTS = ("lru", "random")
MAX_LINE_BYTES = 512
# How far one access may run ahead of the other SMs before they take their turns: a full warp's requests, one a cycle.
PATIENCE_CYCLES = 32
# What the caches nearest to a core of the host hold, about.
HOST_CACHE_BYTES = 1 << 20


def _refuse(gpu: GpuSpec, key: str, what: str, remedy: str) -> NoReturn:
    raise SpecError(what, place=f"{gpu.name}: {key}", remedy=remedy)


def _check_cache(name: str, cache: CacheSpec, gpu: GpuSpec) -> None:
    refuse = partial(_refuse, gpu, name)
    line, sector = cache.line_bytes, cache.sector_bytes
    if line % SECTOR_BYTES or not 0 < line <= MAX_LINE_BYTES:
        refuse(f"a line of {line} B cannot be simulated", f"give {name}.line as a multiple of 32 B up to {MAX_LINE_BYTES} B")
    if sector % SECTOR_BYTES or not 0 < sector <= line or line % sector:
        what = f"a sector of {sector} B does not divide a line of {line} B"
        refuse(what, f"give {name}.sector as a divisor of the line, from 32 B")
    if cache.sets < 1 or cache.sets * line * cache.ways * cache.slices != cache.size_bytes:
        what = f"{cache.size_bytes} B is not a whole number of sets of {cache.ways} ways x {line} B in {cache.slices} slices"
        refuse(what, f"make {name}.size a multiple of {cache.ways * line * cache.slices} B")
    if cache.index not in SET_INDEX_RULES:
        refuse(f'unknown set index "{cache.index}"', f"use one of {', '.join(SET_INDEX_RULES)}")
    if SET_INDEX_RULES[cache.index] != MODULO and cache.sets & (cache.sets - 1):
        what = f"the {cache.index} set index needs a power-of-two number of sets, not {cache.sets}"
        refuse(what, f"use {name}.index: modulo, or another size")
    if cache.replacement not in REPLACEMENTS or (name == "l1" and cache.replacement != "lru"):
        refuse(f'replacement "{cache.replacement}" is not simulated', "use lru")
    if cache.mshrs < 1:
        refuse(f"at least one MSHR is needed, not {cache.mshrs}", f"give {name}.mshrs of at least 1")


def check_hierarchy(gpu: GpuSpec, blocks_per_sm: int) -> None:
    """Raise SpecError for caches or a scheduler that cannot be simulated, UsageError if no block fits an SM."""
    _check_cache("l1", gpu.l1, gpu)
    _check_cache("l2", gpu.l2, gpu)
    if gpu.l1.write_policy != "write-through" or gpu.l1.write_allocate:
        what = "only a write-through L1 without write allocation is simulated"
        _refuse(gpu, "l1", what, "use write_policy: write-through and write_allocate: false")
    if gpu.l2.write_policy != "write-back" or not gpu.l2.write_allocate:
        what = "only a write-back L2 with write allocation is simulated"
        _refuse(gpu, "l2", what, "use write_policy: write-back and write_allocate: true")
    piece = gpu.l2.slice_interleave_bytes
    if piece < 1 or piece % gpu.l2.line_bytes:
        what = f"an interleave of {piece} B is not a whole number of {gpu.l2.line_bytes} B lines"
        _refuse(gpu, "l2.slice_interleave", what, "make it a multiple of l2.line")
    if gpu.sm.policy not in POLICIES:
        _refuse(gpu, "sm.policy", f'unknown scheduler "{gpu.sm.policy}"', f"use one of {', '.join(POLICIES)}")
    if blocks_per_sm < 1:
        remedy = "use smaller blocks, fewer registers or less shared memory"
        raise UsageError(f"{blocks_per_sm} blocks per SM: no block fits", place=gpu.name, remedy=remedy)


def sector_groups(cache: CacheSpec) -> npt.NDArray[np.int64]:
    """For every mask of touched 32 B sectors of a line, the mask of the cache's own sectors that hold them: [2 ** sectors]."""
    sectors, unit = cache.line_bytes // SECTOR_BYTES, cache.sector_bytes // SECTOR_BYTES
    masks = np.arange(1 << sectors, dtype=np.int64)
    grown = np.zeros_like(masks)
    for first in range(0, sectors, unit):
        group = ((1 << unit) - 1) << first
        grown |= np.where(masks & group, group, 0)
    return grown


def most_dirty(l2: L2Spec) -> int:
    """Lines of a set that may be dirty, at least one."""
    return max(1, int(l2.dirty_share * l2.ways))


def machine_of(gpu: GpuSpec, blocks: int, warps_per_block: int, blocks_per_sm: int, interleaving: str) -> Any:
    """Check `gpu` and return its `Machine`, a NumPy record, for a launch of `blocks` blocks.

    With `round-robin` every turn takes one cycle and all data returns at once, which leaves nothing but the order.
    Raises SpecError or UsageError for what cannot be simulated.
    """
    check_hierarchy(gpu, blocks_per_sm)
    if interleaving not in INTERLEAVINGS:
        raise UsageError(f'unknown interleaving "{interleaving}"', remedy=f"use one of {', '.join(INTERLEAVINGS)}")
    machine = np.zeros(1, dtype_of(Machine))[0]
    l1, l2 = gpu.l1, gpu.l2
    for name, cache in (("l1", l1), ("l2", l2)):
        machine[name]["sets"], machine[name]["ways"] = cache.sets, cache.ways
        machine[name]["index_rule"], machine[name]["line_sectors"] = SET_INDEX_RULES[cache.index], cache.line_bytes // SECTOR_BYTES
    machine["l1_mshrs"] = min(l1.mshrs, l1.sets * l1.ways * (l1.line_bytes // l1.sector_bytes))
    machine["l1_buckets"] = 4 << max(2, (l1.sets * l1.ways - 1).bit_length())  # few share one
    machine["l1_on_fill"], machine["atomic_width"] = l1.allocation == "on-fill", l2.atomic_width_bytes
    machine["l2_way_bits"], machine["l2_order_words"] = way_bits(l2.ways), len(packed(l2.ways))
    machine["slices"], machine["channels"] = l2.slices, gpu.dram.channels
    machine["lines_per_piece"] = l2.slice_interleave_bytes // l2.line_bytes
    machine["slice_rule"] = SLICE_INDEX_RULES[l2.slice_index]
    machine["random"], machine["masks"] = l2.replacement == "random", l2.partial_writes == "mask"
    machine["most_dirty"] = most_dirty(l2)
    machine["partitions"] = 2 if l2.far_latency_cycles else 1
    machine["row_lines"], machine["dram_queue"] = gpu.dram.row_bytes // l2.line_bytes, gpu.dram.queue
    machine["unit_sectors"] = l2.sector_bytes // SECTOR_BYTES
    machine["sm_count"], machine["blocks"] = gpu.sm_count, blocks
    machine["blocks_per_sm"], machine["warps_per_block"] = blocks_per_sm, warps_per_block
    machine["warp_slots"] = blocks_per_sm * warps_per_block
    machine["access_queue"], machine["tag_banks"] = gpu.sm.access_queue, l1.tag_lookups
    if interleaving == "clocked":
        machine["schedulers"], machine["policy"] = gpu.sm.schedulers, POLICIES[gpu.sm.policy]
        _set_times(machine, gpu)
    else:
        machine["schedulers"], machine["policy"] = 1, LRR
        # In turn: no SM is a cycle ahead.
        machine["issue_ticks"] = machine["lookahead"] = TICKS
    machine["scheduler_slots"] = -(-machine["warp_slots"] // machine["schedulers"])
    return machine


def _set_times(machine: Any, gpu: GpuSpec) -> None:
    machine["issue_ticks"] = TICKS // gpu.sm.issue_width
    machine["request_ticks"] = TICKS
    machine["patience"] = TICKS * PATIENCE_CYCLES
    machine["first_sm_step"] = 1
    lines, warps = gpu.l1.sets * gpu.l1.ways, int(machine["warp_slots"])
    of_sm = lines * dtype_of(L1Line).itemsize + warps * dtype_of(Warp).itemsize
    machine["looks_ahead"] = gpu.sm_count * of_sm > HOST_CACHE_BYTES
    # An effect of one SM reaches another through the L2, and no sooner.
    machine["lookahead"] = TICKS * max(1, gpu.l2.latency_cycles)
    machine["l1"]["latency"] = TICKS * gpu.l1.latency_cycles
    l2_latency = machine["l2"]["latency"] = TICKS * gpu.l2.latency_cycles
    machine["merged_reads"] = gpu.l2.merged_reads
    machine["far_latency"] = TICKS * gpu.l2.far_latency_cycles
    dram_latency = machine["dram_latency"] = TICKS * gpu.dram.latency_cycles
    line_ticks = TICKS * gpu.l2.line_bytes * gpu.core_clock_hz
    # A slice takes one access a cycle. Its input port holds what passes in the L2's latency, and its MSHRs the fetches.
    machine["store_ticks"], machine["store_backlog"] = TICKS, l2_latency
    machine["reply_ticks"] = round(line_ticks * gpu.l2.slices / gpu.noc.bandwidth_bytes_per_s)
    channel = gpu.dram.bandwidth_bytes_per_s * gpu.dram.efficiency / gpu.dram.channels
    units = gpu.l2.line_bytes // gpu.l2.sector_bytes
    dram_ticks = machine["dram_ticks"] = round(line_ticks / units / channel)
    fetches = gpu.l2.mshrs * gpu.l2.slices // gpu.dram.channels
    machine["fetch_backlog"] = l2_latency + dram_latency + fetches * dram_ticks * units
