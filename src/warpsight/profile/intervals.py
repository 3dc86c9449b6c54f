"""The interval algorithm (GPUMech section III-B, eq. 4): one warp alone, in order, one instruction a cycle.

An instruction issues one cycle after the one before it, or one cycle after the last of its sources is done, whichever is later; a
source is done its latency after its issue. An interval is the instructions between two stalls, with the stall that follows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.profile.dependences import Dependences, Steps
from warpsight.profile.walk import measure_paths, record_path
from warpsight.trace.schema import KernelTrace

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

# Ticks in a cycle: latencies are rounded to a millionth of a cycle, and a path may last 2^43 cycles.
TICKS = 1 << 20


@dataclass(frozen=True)
class PathStats:
    """Per path: `instructions` int64 and `cycles` float64, the issue and stall cycles of a warp alone; both [paths]."""

    instructions: Longs
    cycles: Floats


@dataclass(frozen=True)
class PathIntervals:
    """The intervals of one path in order. `instructions`, `stall_cycles` float64 [intervals]; the last one stalls 0 cycles.

    `pc` int32 [intervals]: the instruction whose result was waited for, -1 for none. `sums` float64 [intervals, columns]: the
    columns that were asked for, summed over each interval's instructions.
    """

    instructions: Floats
    stall_cycles: Floats
    pc: npt.NDArray[np.int32]
    sums: Floats


def path_stats(trace: KernelTrace, walked: Steps, latency: Floats) -> PathStats:
    """Instructions and cycles of every distinct path, walked in full. `latency` float64 [instructions], cycles."""
    paths = trace.paths
    lengths = np.diff(trace.block_start).astype(np.int64)[paths.block] * paths.repeat
    running = np.concatenate([[0], np.cumsum(lengths)])
    ticks = np.zeros(len(paths), dtype=np.int64)
    measure_paths(
        plain(paths.offset, np.int64), plain(paths.block, np.int32), plain(paths.repeat, np.int32), walked.start, walked.sources,
        walked.destination, np.where(walked.ends, TICKS, 0), _ticks(latency)[walked.pc], walked.registers, ticks,
    )  # fmt: skip
    return PathStats(np.diff(running[paths.offset]), ticks / TICKS)


def path_intervals(trace: KernelTrace, path: int, depends: Dependences, latency: Floats, columns: Floats) -> PathIntervals:
    """The intervals of path number `path`.

    `latency` float64 [instructions], cycles; `columns` float64 [instructions, columns]: what each pc adds to `sums`.
    """
    first, last = int(trace.paths.offset[path]), int(trace.paths.offset[path + 1])
    stream = (
        plain(trace.paths.block[first:last], np.int32), plain(trace.paths.repeat[first:last], np.int32),
        plain(trace.block_start, np.int32), depends.source_offset, depends.sources, depends.destination_offset,
        depends.destinations, depends.registers, TICKS, _ticks(latency), plain(columns, np.float64),
    )  # fmt: skip

    def outputs(count: int) -> tuple[Longs, Longs, npt.NDArray[np.int32], Floats]:
        pc = np.full(count, -1, dtype=np.int32)
        return np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64), pc, np.zeros((count, columns.shape[1]))

    instructions, stalls, pc, sums = outputs(record_path(*stream, *outputs(0)))
    record_path(*stream, instructions, stalls, pc, sums)
    return PathIntervals(instructions.astype(np.float64), stalls / TICKS, pc, sums)


def _ticks(latency: Floats) -> Longs:
    """From the issue of each instruction to the first cycle in which a consumer can issue, in ticks."""
    return np.round(latency * TICKS).astype(np.int64) + TICKS


def plain(array: npt.NDArray[np.generic], dtype: type[np.generic]) -> npt.NDArray[np.generic]:
    """`array` as compiled walks take it: contiguous, writable, of that type."""
    # Arrays read from disk are read-only, which is another type to Numba and would compile the walk a second time.
    return np.require(array, dtype=dtype, requirements=["C", "W"])
