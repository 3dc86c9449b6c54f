"""The interval algorithm (GPUMech section III-B, eq. 4): one warp alone, in order, one instruction a cycle, stalling on registers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.profile.dependences import Dependences
from warpsight.profile.latency import LatencyTable
from warpsight.profile.walk import measure_paths, record_path
from warpsight.trace.schema import KernelTrace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PathStats:
    """Per path: `instructions` int64, `cycles` float64 (issue and stall cycles of a warp alone) and `intervals` int64, all [paths]."""

    instructions: npt.NDArray[np.int64]
    cycles: Floats
    intervals: npt.NDArray[np.int64]


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


def path_stats(trace: KernelTrace, depends: Dependences, latency: LatencyTable) -> PathStats:
    """Instructions, cycles and number of intervals of every distinct path, walked in full."""
    paths = len(trace.paths)
    instructions, intervals = np.zeros(paths, dtype=np.int64), np.zeros(paths, dtype=np.int64)
    cycles = np.zeros(paths, dtype=np.float64)
    measure_paths(
        _writable(trace.paths.offset, np.int64), *_stream(trace), *_flat(depends), latency.cycles, instructions, cycles, intervals
    )
    return PathStats(instructions, cycles, intervals)


def path_intervals(
    trace: KernelTrace, path: int, count: int, depends: Dependences, latency: LatencyTable, columns: Floats
) -> PathIntervals:
    """The intervals of path number `path`, of which there are `count` (from `path_stats`).

    `columns` float64 [instructions, columns]: what each execution of a pc adds to `sums`.
    """
    first, last = int(trace.paths.offset[path]), int(trace.paths.offset[path + 1])
    instructions, stalls = np.zeros(count), np.zeros(count)
    pc, sums = np.full(count, -1, dtype=np.int32), np.zeros((count, columns.shape[1]))
    record_path(first, last, *_stream(trace), *_flat(depends), latency.cycles, columns, instructions, stalls, pc, sums)
    return PathIntervals(instructions, stalls, pc, sums)


def _stream(trace: KernelTrace) -> tuple[npt.NDArray[np.int32], ...]:
    return tuple(_writable(array, np.int32) for array in (trace.paths.block, trace.paths.repeat, trace.block_start))


def _flat(depends: Dependences) -> tuple[npt.NDArray[np.int32] | int, ...]:
    return depends.source_offset, depends.sources, depends.destination_offset, depends.destinations, depends.registers


def _writable(array: npt.NDArray[np.generic], dtype: type[np.generic]) -> npt.NDArray[np.int32]:
    # Arrays read from disk are read-only, which is another type to Numba and would compile the walk a second time.
    return np.require(array, dtype=dtype, requirements=["C", "W"])
