"""The compiled walks over dynamic instruction streams behind `intervals`: GPUMech eq. 4, instruction by instruction.

Time is counted in whole ticks (int64), so that no sum depends on its order and two issues a cycle apart are exactly that.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Indices = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float64]


@numba.njit(cache=True, nogil=True)
def measure_paths(
    offset: Longs, block: Ints, repeat: Ints, start: Longs, sources: Indices, destination: Indices, advance: Longs, after: Longs,
    registers: int, ticks: Longs,
) -> None:
    """Fill `ticks` int64 [paths] with the issue and stall time of a warp alone on each path.

    `offset`, `block`, `repeat` as in `PathTable`, `start`, `sources` and `destination` as in `Steps`. `advance` [steps] is one
    cycle at an instruction's last step, else 0; `after` [steps] is from its issue to the first cycle a consumer can issue in.
    """
    ready = np.empty(registers + 2, dtype=np.int64)
    for path in range(len(offset) - 1):
        ready[:] = 0
        cycle = np.int64(0)
        for run in range(offset[path], offset[path + 1]):
            begin, end = start[block[run]], start[block[run] + 1]
            for _ in range(repeat[run]):
                for step in range(begin, end):
                    # `cycle` is the first in which this instruction may issue, given the one before and its own steps so far
                    issue = max(cycle, ready[sources[step, 0]], ready[sources[step, 1]], ready[sources[step, 2]])
                    ready[destination[step]] = issue + after[step]
                    cycle = issue + advance[step]
        ticks[path] = cycle


@numba.njit(cache=True, nogil=True)
def record_path(
    block: Ints, repeat: Ints, block_start: Ints, source_offset: Ints, sources: Ints, destination_offset: Ints, destinations: Ints,
    registers: int, cycle: int, after: Longs, columns: Floats, instructions: Longs, stalls: Longs, stall_pc: Ints, sums: Floats,
) -> int:
    """Walk one path, fill its intervals and return how many there are; with empty outputs, only count them.

    `cycle` is ticks in a cycle, `after` [instructions] as for `measure_paths`, `columns` [instructions, c] what each pc adds to
    `sums` [intervals, c]. `stalls` is in ticks, `stall_pc` -1 where nothing was waited for.
    """
    ready = np.zeros(registers, dtype=np.int64)
    producer = np.full(registers, -1, dtype=np.int32)
    following, interval, filling = np.int64(0), 0, len(instructions) > 0
    for run in range(len(block)):
        for _ in range(repeat[run]):
            for pc in range(block_start[block[run]], block_start[block[run] + 1]):
                issue, waited = following, np.int32(-1)
                for k in range(source_offset[pc], source_offset[pc + 1]):
                    if ready[sources[k]] > issue:
                        issue, waited = ready[sources[k]], producer[sources[k]]
                # every register is ready at a path's first instruction, so a stall always closes an interval that is not empty
                if waited >= 0:
                    if filling:
                        stalls[interval], stall_pc[interval] = issue - following, waited
                    interval += 1
                if filling:
                    instructions[interval] += 1
                    for column in range(columns.shape[1]):
                        sums[interval, column] += columns[pc, column]
                for k in range(destination_offset[pc], destination_offset[pc + 1]):
                    ready[destinations[k]], producer[destinations[k]] = issue + after[pc], pc
                following = issue + cycle
    return interval + 1
