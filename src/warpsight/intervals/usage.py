"""Counts of a launch: warps on each path, executions of each instruction, and its requests to memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from warpsight.caches.miss_profile import Counts, MissProfile
from warpsight.gpu.spec import CacheSpec
from warpsight.traces.schema import ATOMIC, SECTOR_BYTES, KernelTrace, StaticInstruction

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def path_use(trace: KernelTrace) -> tuple[Longs, Longs]:
    """Warps on each path, and the first warp on it (-1: none), both int64 [paths]. Reads the chunks once."""
    warps = np.zeros(len(trace.paths), dtype=np.int64)
    first = np.full(len(trace.paths), -1, dtype=np.int64)
    for chunk in trace.chunks:
        warps += np.bincount(chunk.path, minlength=len(warps))
        paths, places = np.unique(chunk.path, return_index=True)
        new = first[paths] < 0
        first[paths[new]] = chunk.first_warp + places[new]
    return warps, first


def occurrences(trace: KernelTrace, warps: Longs) -> Longs:
    """How often all warps together executed each pc, int64 [instructions]; `warps` is the number of warps on each path."""
    paths = trace.paths
    runs = np.repeat(warps, np.diff(paths.offset)) * paths.repeat
    per_block = np.zeros(len(trace.block_start) - 1, dtype=np.int64)
    np.add.at(per_block, paths.block, runs)
    return np.repeat(per_block, np.diff(trace.block_start))


# -- The memory requests of each instruction, from the counts of the caches: one definition for demands, intervals and explanations.


def atomics(instructions: Sequence[StaticInstruction]) -> npt.NDArray[np.bool_]:
    """Which instructions are atomics, bool [instructions]."""
    return np.array([instruction.access == ATOMIC for instruction in instructions], dtype=np.bool_)


def requests(instructions: Sequence[StaticInstruction], misses: MissProfile) -> Counts:
    """Requests of each pc to device memory, int64 [instructions]: lines at the L1; for atomics, which bypass it, L2 sectors."""
    return misses.l1_reads + misses.l1_writes + np.where(atomics(instructions), misses.l2_reads, 0)


def leaving(instructions: Sequence[StaticInstruction], misses: MissProfile) -> tuple[Counts, Counts]:
    """Requests of each pc that leave the SM, int64 [instructions]: reads that take an MSHR, and the others (stores, atomics).

    Atomics bypass the L1 and take no MSHR, so they count with the writes.
    """
    atomic = atomics(instructions)
    return np.where(atomic, 0, misses.l1_misses), misses.l1_writes + np.where(atomic, misses.l2_reads, 0)


def touched_bytes(sectors: npt.ArrayLike, requests: npt.ArrayLike, cache: CacheSpec) -> Floats:
    """Bytes that a request fetches into `cache`, from the number of requests and of the 32 B sectors that they touch.

    The mean over the requests, at least a sector of the cache and at most a line; a cache without sectors fetches the line.
    """
    mean = SECTOR_BYTES * np.asarray(sectors, dtype=np.float64) / np.maximum(requests, 1)
    return np.asarray(np.clip(mean, cache.sector_bytes, cache.line_bytes), dtype=np.float64)


def dram_bytes(misses: MissProfile, l2: CacheSpec) -> tuple[float, float]:
    """Bytes read and written at DRAM by the whole trace. A fetch reads the sectors that the requests of its pc touch on average.

    A write-back writes what stores touch on average, for any access that evicts the line. An atomic fetches one sector.
    """
    lines = misses.l1_reads + misses.l1_writes
    fetched = np.where(lines > 0, touched_bytes(misses.sectors, lines, l2), l2.sector_bytes)
    stores = misses.l1_writes > 0
    stored = touched_bytes(misses.sectors[stores].sum(), misses.l1_writes[stores].sum(), l2) if stores.any() else l2.sector_bytes
    return float((misses.dram_reads * fetched).sum()), float(misses.dram_writes.sum() * stored)
