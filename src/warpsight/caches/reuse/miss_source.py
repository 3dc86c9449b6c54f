"""A miss profile from the reuse-distance model, in place of that of the exact hierarchy.

Loads come from this model: their classes at the L1, and at the L2, which takes the misses of all SMs in the order of their time
stamps. The rest (stores, atomics, copies past the L1, shared memory, write-backs) comes from the exact hierarchy, interleaved
round-robin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import SpecError
from warpsight.caches.exact.simulate import Progress, simulate_caches
from warpsight.caches.miss_profile import MissProfile
from warpsight.caches.reuse import state
from warpsight.caches.reuse.access_stream import of_trace
from warpsight.caches.reuse.model import Placement, evaluate, next_level
from warpsight.caches.reuse.settings import settings_of
from warpsight.caches.reuse.structures import Longs
from warpsight.gpu.spec import GpuSpec
from warpsight.traces.schema import SECTOR_BYTES, KernelTrace

_L1, _L2, _DRAM = range(3)


def reuse_miss_profile(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, *, progress: Progress | None = None, warm: bool = False
) -> MissProfile:
    """The miss profile of `trace` on `gpu` by the reuse-distance model, with its own latencies (100 + |N(0, 5)| time stamps).

    A merged load waits for the rest of its line's latency, in cycles of the level that serves the line. The caches are empty at
    the start; with `warm` the launch's own loads have passed through the L2 before, so that a line's first reuse distance there is
    counted from its last use by the launch before.
    Raises SpecError for sectored caches, lines that differ between L1 and L2, or an L2 without LRU, and as `simulate_caches` does.
    """
    lines = {gpu.l1.line_bytes, gpu.l1.sector_bytes, gpu.l2.line_bytes, gpu.l2.sector_bytes}
    if len(lines) > 1:
        what = "the reuse-distance model simulates whole lines, of one size in L1 and L2"
        raise SpecError(what, place=f"{gpu.name}: l1.sector", remedy="make l1 and l2 line and sector equal, or use `caches=exact`")
    if gpu.l2.replacement != "lru":
        what = f'the reuse-distance model has LRU sets, not the replacement "{gpu.l2.replacement}"'
        raise SpecError(what, place=f"{gpu.name}: l2.replacement", remedy="write l2.replacement: lru, or use `caches=exact`")
    base = simulate_caches(trace, gpu, blocks_per_sm, progress=progress, interleaving="round-robin", warm=warm)
    settings = replace(settings_of(gpu.l1), issue="request")
    stream = of_trace(trace, gpu.l1.line_bytes)
    kept = evaluate(settings, stream, Placement(gpu.sm_count, blocks_per_sm), keep_all=True).misses
    goes_on = ~np.isin(kept[state.KEPT_CLASS], (state.HIT, state.IN_FLIGHT))
    requests = kept[:, goes_on]
    passing = np.concatenate([requests, requests], axis=1) if warm else requests
    second = next_level(settings_of(gpu.l2), stream, passing, keep_all=True).misses
    level = np.full(kept.shape[1], _L1)
    # without latencies the order of the answers is that of the requests
    level[goes_on] = np.where(second[state.KEPT_CLASS, passing.shape[1] - requests.shape[1] :] == state.HIT, _L2, _DRAM)
    return _profile(base, kept, level, gpu, settings.miss_latency)


def _profile(base: MissProfile, kept: Longs, level: Longs, gpu: GpuSpec, latency: int) -> MissProfile:
    """`base` with the counts of loads from `kept` and `level`, the level that served each."""
    pcs, pc = len(base.executions), kept[state.KEPT_PC]
    hit, merged = kept[state.KEPT_CLASS] == state.HIT, kept[state.KEPT_CLASS] == state.IN_FLIGHT
    reads, l1_misses, l2_misses = _per_pc(pc, pcs), _per_pc(pc[level != _L1], pcs), _per_pc(pc[level == _DRAM], pcs)
    counts = {
        "l1_reads": reads, "l1_hits": _per_pc(pc[hit], pcs), "l1_merges": _per_pc(pc[merged], pcs), "l1_misses": l1_misses,
        "l2_reads": l1_misses, "l2_read_hits": _per_pc(pc[level == _L2], pcs), "l2_read_misses": l2_misses,
        "l2_far_hits": np.zeros(pcs, np.int64), "slowest_far": np.zeros(pcs, np.int64),  # it has no partitions
        "l2_read_merges": np.zeros(pcs, np.int64), "l2_joins": np.zeros(pcs, np.int64), "dram_reads": l2_misses,
        "dram_read_sectors": l2_misses * (gpu.l2.line_bytes // SECTOR_BYTES), **_slowest(kept, level, merged, gpu, latency, pcs),
    }
    changes: dict[str, Any] = {name: np.where(reads > 0, values, getattr(base, name)) for name, values in counts.items()}
    # merged requests wait a part of these latencies
    return replace(base, **changes, l2_latency_cycles=gpu.l2.latency_cycles, dram_latency_cycles=gpu.dram.latency_cycles)


def _per_pc(pc: Longs, pcs: int) -> Longs:
    return np.bincount(pc, minlength=pcs).astype(np.int64)


def _slowest(kept: Longs, level: Longs, merged: npt.NDArray[np.bool_], gpu: GpuSpec, latency: int, pcs: int) -> dict[str, Longs]:
    """Counts of accesses by their slowest request, as the exact hierarchy defines them."""
    access = kept[state.KEPT_ACCESS]
    alone = np.array([gpu.l1.latency_cycles, gpu.l2.latency_cycles, gpu.l2.latency_cycles + gpu.dram.latency_cycles])
    wait = np.where(merged, np.minimum(kept[state.KEPT_WAIT] / max(1, latency), 1.0) * alone[_of_line(kept, level, merged)], 0.0)
    accesses = int(access.max(initial=-1)) + 1
    deepest, longest, pc = np.zeros(accesses, np.int64), np.zeros(accesses), np.zeros(accesses, np.int64)
    np.maximum.at(deepest, access, level)
    np.maximum.at(longest, access, wait)
    pc[access] = kept[state.KEPT_PC]
    waits = longest > alone[deepest]
    cycles = np.bincount(pc[waits], weights=longest[waits], minlength=pcs)
    by_level = {"slowest_l1": _L1, "slowest_l2": _L2, "slowest_dram": _DRAM}
    return {
        **{name: _per_pc(pc[~waits & (deepest == served_by)], pcs) for name, served_by in by_level.items()},
        "slowest_merged": _per_pc(pc[waits], pcs), "merged_wait_cycles": np.rint(cycles).astype(np.int64),
    }


def _of_line(kept: Longs, level: Longs, merged: npt.NDArray[np.bool_]) -> Longs:
    """The level that serves the line of each transaction: for one that merged, that of the last request before for its line."""
    order = np.lexsort((np.arange(len(level)), kept[state.KEPT_LINE], kept[state.KEPT_CORE]))
    sent = np.where(merged[order] | (level[order] == _L1), -1, np.arange(len(order)))
    last = np.maximum.accumulate(sent)
    levels = np.empty(len(level), np.int64)
    levels[order] = np.where(last >= 0, level[order][np.maximum(last, 0)], _L1)
    return levels
