"""How often a launch used what it has: warps on each path, executions of each instruction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.trace.schema import KernelTrace

Longs = npt.NDArray[np.int64]


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
    """How often all warps together came past each pc, int64 [instructions]; `warps` is the number of warps on each path."""
    paths = trace.paths
    runs = np.repeat(warps, np.diff(paths.offset)) * paths.repeat
    per_block = np.zeros(len(trace.block_start) - 1, dtype=np.int64)
    np.add.at(per_block, paths.block, runs)
    return np.repeat(per_block, np.diff(trace.block_start))
