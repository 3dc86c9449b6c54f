"""How long a warp takes that has an SM to itself, on every path: its dependences, and the units that it keeps busy itself.

Unlike the intervals, which are GPUMech's (eq. 4: a consumer issues a cycle after its source is done), this is the machine as a GPU
description defines it: a latency is the time from an instruction's issue to that of the first that needs its result.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from warpsight.gpu.spec import GpuSpec
from warpsight.profile.dependences import Steps
from warpsight.profile.intervals import plain
from warpsight.profile.walk import Indices, Longs
from warpsight.trace.schema import KernelTrace

Floats = npt.NDArray[np.float64]

# Ticks in a cycle, so that no sum depends on its order.
TICKS = 1 << 20
LOAD_STORE = 0


def cycles_alone(trace: KernelTrace, walked: Steps, latency: Floats, port_cycles: Floats, gpu: GpuSpec) -> Floats:
    """Cycles of a warp alone on each path, float64 [paths], from its first issue to one cycle after its last.

    `latency` and `port_cycles` float64 [instructions]: cycles to the result's consumer, and cycles of the load-store unit; means
    of an occurrence. An instruction waits for its unit. One of the load-store unit does not, but its access waits there for those
    before it, and its last request comes as many cycles after its first as there are others.
    """
    unit, busy = _units(trace, gpu, port_cycles)
    memory = unit == LOAD_STORE
    # shared memory's further passes are in its latency already
    device = np.array([instruction.has_sectors for instruction in trace.instructions], dtype=np.bool_)
    late = np.where(memory & device & (latency > 0), np.maximum(port_cycles - 1.0, 0.0), 0.0)
    after = np.maximum(latency + late, 1.0)
    ticks = np.zeros(len(trace.paths), dtype=np.int64)
    paths = trace.paths
    _walk(
        plain(paths.offset, np.int64), plain(paths.block, np.int32), plain(paths.repeat, np.int32), walked.start, walked.sources,
        walked.destination, np.where(walked.ends, TICKS, 0), _ticks(after)[walked.pc], unit[walked.pc],
        np.where(walked.ends, _ticks(busy)[walked.pc], 0), walked.registers, int(unit.max(initial=0)) + 1, ticks,
    )  # fmt: skip
    return ticks / TICKS


def _units(trace: KernelTrace, gpu: GpuSpec, port_cycles: Floats) -> tuple[Longs, Floats]:
    """The unit of each instruction, int64 [instructions], and the cycles that it keeps it; 0 of a unit that is always free."""
    names: dict[str, int] = {}
    unit = np.zeros(len(trace.instructions), dtype=np.int64)
    busy = np.zeros(len(trace.instructions))
    for instruction in trace.instructions:
        pc = instruction.pc
        if instruction.access:
            busy[pc] = port_cycles[pc]
        else:
            unit[pc] = 1 + names.setdefault(instruction.op_class, len(names))
            busy[pc] = gpu.initiation_cycles.get(instruction.op_class, 1)
    return unit, busy


def _ticks(cycles: Floats) -> Longs:
    return np.round(cycles * TICKS).astype(np.int64)


@numba.njit(cache=True, nogil=True)
def _walk(
    offset: Longs, block: npt.NDArray[np.int32], repeat: npt.NDArray[np.int32], start: Longs, sources: Indices,
    destination: Indices, advance: Longs, after: Longs, unit: Longs, busy: Longs, registers: int, units: int, ticks: Longs,
) -> None:
    """As `measure_paths`, with the `unit` of each step, and the ticks that an instruction's last one keeps it `busy`."""
    ready = np.empty(registers + 2, dtype=np.int64)
    free = np.empty(units, dtype=np.int64)
    for path in range(len(offset) - 1):
        ready[:] = 0
        free[:] = 0
        cycle = np.int64(0)
        for run in range(offset[path], offset[path + 1]):
            begin, end = start[block[run]], start[block[run] + 1]
            for _ in range(repeat[run]):
                for step in range(begin, end):
                    issue = max(cycle, ready[sources[step, 0]], ready[sources[step, 1]], ready[sources[step, 2]])
                    begun = max(issue, free[unit[step]])
                    if unit[step] != LOAD_STORE:
                        issue = begun
                    free[unit[step]] = begun + busy[step]
                    ready[destination[step]] = begun + after[step]
                    cycle = issue + advance[step]
        ticks[path] = cycle
