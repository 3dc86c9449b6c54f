"""Where the intervals of a path lie among its instructions: who waits at the end of each, and which intervals a pc runs in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.trace.schema import KernelTrace

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


def waiting_pcs(trace: KernelTrace, path: int, instructions: Floats) -> npt.NDArray[np.int32]:
    """The instruction that waits at the end of each interval of path number `path`: the first one of the next interval.

    `instructions` float64 [intervals] as in an interval profile of that path. int32 [intervals], -1 for the last, which none waits
    in. Raises ValueError when the intervals are not those of the path.
    """
    block, length, start = _runs(trace, path)
    ends = np.cumsum(instructions).astype(np.int64)
    if not len(start) or ends[-1] != start[-1]:
        raise ValueError(f"the intervals hold {int(ends[-1])} instructions, path {path} another number")
    positions = ends[:-1]
    run = np.searchsorted(start, positions, side="right") - 1
    first = np.asarray(trace.block_start, dtype=np.int64)[block[run]]
    waiting = np.full(len(instructions), -1, dtype=np.int32)
    waiting[:-1] = first + (positions - start[run]) % length[run]
    return waiting


def interval_spans(trace: KernelTrace, path: int, instructions: Floats) -> Longs:
    """The first and the last interval (from 0) in which path number `path` executes each pc, int64 [instructions of the kernel, 2].

    -1 for a pc that the path never comes past. `instructions` as for `waiting_pcs`.
    """
    block, length, start = _runs(trace, path)
    ends = np.cumsum(instructions).astype(np.int64)
    spans = np.full((len(trace.instructions), 2), -1, dtype=np.int64)
    for number in np.unique(block).tolist():
        runs = np.flatnonzero((block == number) & (length > 0))
        if not runs.size:
            continue
        begin, end = int(trace.block_start[number]), int(trace.block_start[number + 1])
        offset = np.arange(end - begin)
        spans[begin:end, 0] = np.searchsorted(ends, start[runs[0]] + offset, side="right")
        spans[begin:end, 1] = np.searchsorted(ends, start[runs[-1] + 1] - (end - begin) + offset, side="right")
    return spans


def _runs(trace: KernelTrace, path: int) -> tuple[npt.NDArray[np.int32], Longs, Longs]:
    """Of each run of the path: its basic block, that block's length, and where it starts (one more: where the path ends)."""
    first, last = int(trace.paths.offset[path]), int(trace.paths.offset[path + 1])
    block = np.asarray(trace.paths.block[first:last])
    length: Longs = np.diff(np.asarray(trace.block_start, dtype=np.int64))[block].astype(np.int64)
    start = np.concatenate([[0], np.cumsum(length * trace.paths.repeat[first:last].astype(np.int64))])
    return block, length, start
