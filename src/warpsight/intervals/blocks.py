"""A block alone on an SM, whose warps wait for each other, for bulk copies and for products: the path of its slowest population.

Warps that bring data and warps that compute with them run at one pace: a producer waits until a buffer is empty, a consumer until
it is full. Such waits are on mbarriers. A phase of one is over when all its arrivals have come, and all its bytes. The trace says
what each instruction does there, so the warps of a block are walked together, in the order of time. They share the units of the SM
and of their schedulers, and its issue slots. The unit for bulk copies makes them one after the other, and each is done when its
last line has come.

What nothing in the block ends, such as a phase for which warps of another block of the cluster arrive, is no wait: when no warp can
go on, all that wait do. The trace does not tell barriers for a part of a block apart: such barriers open in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import inlined, kept_until_changed
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.algorithm import ISSUE, TICKS, Groups, Indices, Ints, Longs, Steps, Waits, arrives, plain
from warpsight.intervals.demands import BULK_COPIES, StepTimes, step_times
from warpsight.intervals.interval_profile import Floats
from warpsight.traces.schema import BARRIER_RECORD, NO_OBJECT, KernelTrace, TraceChunk

Bytes = npt.NDArray[np.uint8]

_NOTHING, _ARRIVES, _WAITS, _COPIES, _BLOCK = range(5)  # what an instruction does at a barrier
_RUNS, _WAITS_FOR_PHASE, _AT_BARRIER, _DONE = range(4)
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class BlocksAlone:
    """`cycles` of a block alone, the mean over the blocks; `warps` float64 [paths], when the warps of each path end, likewise.

    `waits` of the first warp on each path.
    """

    cycles: float
    warps: Floats
    waits: dict[int, Waits]


def waits_in_blocks(trace: KernelTrace) -> bool:
    """Whether warps wait on mbarriers for what other warps, or bulk copies, do."""
    return any(instruction.waits_at_barrier for instruction in trace.instructions)


def blocks_alone(trace: KernelTrace, walked: Steps, latency: Floats, port_cycles: Floats, gpu: GpuSpec) -> BlocksAlone:
    """Walk one block for each combination of paths that blocks have. `latency` and `port_cycles` as for `step_times`."""
    times = step_times(trace, walked, latency, port_cycles, gpu)
    codes = _codes(trace, walked)
    ends, weights = np.zeros(len(trace.paths)), np.zeros(len(trace.paths))
    longest, blocks, waits = 0.0, 0, dict[int, Waits]()
    for chunk, first, count in _kinds_of_blocks(trace):
        paths = plain(chunk.path[first : first + trace.header.warps_per_block], np.int64)
        end, found = _walk_one(trace, walked, times, gpu, codes, chunk, first)
        np.add.at(ends, paths, count * end)
        np.add.at(weights, paths, count)
        longest, blocks = longest + count * float(end.max()), blocks + count
        for warp, path in enumerate(paths.tolist()):
            waits.setdefault(path, found[warp])
    return BlocksAlone(longest / blocks, ends / np.maximum(weights, 1), waits)


def _kinds_of_blocks(trace: KernelTrace) -> list[tuple[TraceChunk, int, int]]:
    """The first block with each combination of paths, as its chunk and its first warp there, and how many blocks have it."""
    per_block, known = trace.header.warps_per_block, dict[bytes, list[int]]()
    found: list[tuple[TraceChunk, int]] = []
    for chunk in trace.chunks:
        rows = plain(chunk.path, np.int32).reshape(-1, per_block)
        for number, row in enumerate(rows):
            entry = known.setdefault(row.tobytes(), [len(found), 0])
            if not entry[1]:
                found.append((chunk, number * per_block))
            entry[1] += 1
    return [(*found[number], count) for number, count in known.values()]


def _codes(trace: KernelTrace, walked: Steps) -> tuple[Longs, Longs]:
    """Of each step what it does at a barrier, and the bytes of its event, both at the last step of an instruction, else 0."""
    kind = np.array([
        _WAITS if i.waits_at_barrier else _COPIES if i.at_barrier and i.is_bulk else _ARRIVES if i.at_barrier and not i.polls_mbarrier
        else _BLOCK if i.is_block_barrier else _NOTHING for i in trace.instructions
    ], dtype=np.int64)  # fmt: skip
    events = np.array([i.event_bytes for i in trace.instructions], dtype=np.int64)
    return np.where(walked.ends, kind[walked.pc], _NOTHING), np.where(walked.ends, events[walked.pc], 0)


def _walk_one(
    trace: KernelTrace, walked: Steps, times: StepTimes, gpu: GpuSpec, codes: tuple[Longs, Longs], chunk: TraceChunk, first: int
) -> tuple[Floats, list[Waits]]:
    """Cycles until each warp of a block ends, and the waits of each."""
    last = first + trace.header.warps_per_block
    paths, table = plain(chunk.path[first:last], np.int64), trace.paths
    runs = np.stack([table.offset[paths], table.offset[paths + 1]], axis=1).astype(np.int64)
    kind = codes[0]
    in_block = np.add.reduceat(np.append(kind == _WAITS, False).astype(np.int64), walked.start[:-1]) * (np.diff(walked.start) > 0)
    counts = np.array([int((in_block[table.block[a:b]] * table.repeat[a:b]).sum()) for a, b in runs.tolist()], dtype=np.int64)
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ends = np.zeros(len(paths), dtype=np.int64)
    waits, causes = np.zeros(offset[-1], dtype=np.int64), np.full(offset[-1], -1, dtype=np.int32)
    machine = np.array([gpu.sm.schedulers, TICKS // gpu.sm.issue_width, TICKS * gpu.latency_cycles["int"]], dtype=np.int64)
    _walk_block(
        plain(runs, np.int64), plain(table.block, np.int32), plain(table.repeat, np.int32), walked.start, walked.sources,
        walked.destination, walked.kind, walked.pc, times, walked.registers, walked.shared, walked.groups, codes,
        plain(chunk.events, np.uint8), plain(chunk.event_offset[first:last], np.int64), machine, offset, ends, waits, causes,
    )  # fmt: skip
    return ends / TICKS, [(waits[a:b], causes[a:b]) for a, b in pairwise(offset.tolist())]


# -- The compiled walk. An mbarrier is a row of `phases`.

_PHASE, _PENDING, _DATA, _LATEST, _CAUSE, _OVER, _WHY = range(7)
# Its phase's parity; arrivals still to come, -1 if not known yet; bytes still to come. When the latest arrival or copy of this phase
# is there, and which instruction that is; the same of the phase before.
_COLUMNS = 7
_RECORD = BARRIER_RECORD.itemsize


@inlined
def _number(events: Bytes, place: int, size: int) -> int:
    value = np.int64(0)
    for k in range(size):
        value |= np.int64(events[place + k]) << 8 * k
    return value


@inlined
def _come(phases: Longs, events: Bytes, record: int, time: int, pc: int, arrives_here: bool) -> bool:
    """An arrival, or the end of a copy, at `time`. Returns whether the phase is over."""
    row = phases[_number(events, record, 2)]
    amount, data, expected = _number(events, record + 2, 2), _number(events, record + 4, 4), _number(events, record + 8, 2)
    data -= (data >> 31) << 32  # is signed
    if arrives_here and row[_PENDING] < 0:
        row[_PENDING] = expected
    row[_PENDING] -= amount if arrives_here else 0
    row[_DATA] += data
    if time >= row[_LATEST]:
        row[_LATEST], row[_CAUSE] = time, pc
    if row[_PENDING] != 0 or row[_DATA] != 0:
        return False
    row[_PHASE] ^= 1
    row[_OVER], row[_WHY] = row[_LATEST], row[_CAUSE]
    row[_PENDING], row[_LATEST], row[_CAUSE] = -1, 0, -1
    return True


@inlined
def _go_on(status: Longs, cycle: Longs, opened: npt.NDArray[np.bool_]) -> bool:
    """No warp can run: open barriers for a part of the block, else let all that wait for a phase go on (`opened`). False if none
    is left.
    """
    latest, barriers = np.int64(0), False
    for warp in range(len(status)):
        if status[warp] == _AT_BARRIER:
            latest, barriers = max(latest, cycle[warp]), True
    found = False
    for warp in range(len(status)):
        if status[warp] == (_AT_BARRIER if barriers else _WAITS_FOR_PHASE):
            status[warp], found, opened[warp] = _RUNS, True, not barriers
            cycle[warp] = latest if barriers else cycle[warp]
    return found


@kept_until_changed()
def _walk_block(
    runs: Longs, block: Ints, repeat: Ints, start: Longs, sources: Indices, destination: Indices, kinds: Ints, pcs: Ints, times: StepTimes,
    registers: int, shared: bool, groups: Groups, codes: tuple[Longs, Longs], events: Bytes, event_offset: Longs, machine: Longs,
    wait_offset: Longs, ends: Longs, waits: Longs, causes: Ints,
) -> None:
    """Fill `ends` int64 [warps], and for each wait of the warps its ticks, int64, and the instruction that it was for, int32.

    `runs` int64 [warps, 2] are the entries of the warps' paths, `machine` the schedulers, the ticks of an issue slot and those until
    an arrival is there. Warp `w` has waits `wait_offset[w]` to `wait_offset[w + 1]`.
    """
    advance, after, result, unit, busy, whole, held, queued = times
    kind, event_bytes = codes
    warps, schedulers = len(runs), machine[0]
    units = max(unit.max(), whole.max()) + 1
    ready, free = np.zeros((warps, registers + 2), np.int64), np.zeros((schedulers, units), np.int64)
    issue_free = np.zeros(schedulers, np.int64)
    phases = np.zeros((NO_OBJECT + 1, _COLUMNS), np.int64)
    phases[:, _PENDING], phases[:, _CAUSE], phases[:, _WHY] = -1, -1, -1
    cycle, status, since = np.zeros(warps, np.int64), np.full(warps, _RUNS, np.int64), np.full(warps, -1, np.int64)
    run, turn, step = runs[:, 0].copy(), np.zeros(warps, np.int64), np.full(warps, -1, np.int64)
    event, wait, waits_for = event_offset.copy(), wait_offset[:-1].copy(), np.zeros(warps, np.int64)
    opened = np.zeros(warps, np.bool_)  # a wait that nothing in the block ends
    while True:
        warp, least = -1, _NEVER
        for k in range(warps):
            if status[k] == _RUNS and cycle[k] < least:
                warp, least = k, cycle[k]
        if warp < 0:
            if not _go_on(status, cycle, opened):
                return
            continue
        # the next step, of the next basic block that has any
        while run[warp] < runs[warp, 1] and (step[warp] < 0 or step[warp] == start[block[run[warp]] + 1]):
            if step[warp] >= 0:
                turn[warp] += 1
            if turn[warp] >= repeat[run[warp]]:
                run[warp], turn[warp], step[warp] = run[warp] + 1, 0, -1
            else:
                step[warp] = start[block[run[warp]]]
        if run[warp] >= runs[warp, 1]:
            status[warp], ends[warp] = _DONE, cycle[warp]
            _open(status, cycle)
            continue
        at, scheduler = step[warp], warp % schedulers
        place = 0 if unit[at] <= BULK_COPIES else scheduler
        issue = max(cycle[warp], ready[warp, sources[at, 0]], ready[warp, sources[at, 1]], ready[warp, sources[at, 2]])
        if advance[at] > 0:
            issue = max(issue, issue_free[scheduler])
        if not queued[at]:
            issue = max(issue, free[place, unit[at]], free[place, whole[at]])
        if issue > cycle[warp]:  # others may go first
            cycle[warp] = issue
            continue
        record = event[warp] + event_bytes[at] - _RECORD
        if kind[at] == _WAITS:
            phase = phases[_number(events, record, 2)]
            known = _number(events, record, 2) != NO_OBJECT and not opened[warp]
            since[warp] = issue if since[warp] < 0 else since[warp]
            if known and phase[_PHASE] == _number(events, record + 2, 2):
                status[warp], waits_for[warp] = _WAITS_FOR_PHASE, _number(events, record, 2)
                continue
            if known and phase[_OVER] > issue:
                cycle[warp] = phase[_OVER]
                continue
            waits[wait[warp]], causes[wait[warp]] = issue - since[warp], phase[_WHY]
            since[warp], wait[warp], opened[warp] = -1, wait[warp] + 1, False
        begun = max(issue, free[place, unit[at]], free[place, whole[at]])
        if kind[at] != _COPIES or _number(events, record, 2) != NO_OBJECT:
            free[place, unit[at]] = begun + busy[at]
            free[place, whole[at]] = begun + held[at]
        arrives(ready[warp], destination[at], (issue if kinds[at] == ISSUE else begun) + after[at], shared, groups)
        event[warp] += event_bytes[at]
        step[warp] += 1
        cycle[warp] = issue + advance[at]
        if advance[at] > 0:
            issue_free[scheduler] = issue + machine[1]
        if kind[at] == _BLOCK:
            status[warp] = _AT_BARRIER
            _open(status, cycle)
        elif kind[at] == _ARRIVES or kind[at] == _COPIES:
            arrival = begun + result[at] if kind[at] == _COPIES else issue + machine[2]
            if _number(events, record, 2) != NO_OBJECT and _come(phases, events, record, arrival, pcs[at], kind[at] == _ARRIVES):
                for k in range(warps):
                    if status[k] == _WAITS_FOR_PHASE and waits_for[k] == _number(events, record, 2):
                        status[k] = _RUNS


@inlined
def _open(status: Longs, cycle: Longs) -> None:
    """Open the barrier of the block if all of its warps that have not ended are there."""
    latest, there = np.int64(0), 0
    for warp in range(len(status)):
        if status[warp] == _RUNS or status[warp] == _WAITS_FOR_PHASE:
            return
        if status[warp] == _AT_BARRIER:
            latest, there = max(latest, cycle[warp]), there + 1
    for warp in range(len(status) if there else 0):
        if status[warp] == _AT_BARRIER:
            status[warp], cycle[warp] = _RUNS, latest
