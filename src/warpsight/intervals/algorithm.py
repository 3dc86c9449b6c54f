"""The interval algorithm (GPUMech section III-B, eq. 4): one warp alone, in order, one instruction a cycle.

An instruction issues one cycle after the one before it, or one cycle after the last of its sources is done, whichever is later; a
source is done its latency after its issue. An interval is the instructions between two stalls, with the stall that follows them.

Machine code says itself when its instructions may issue (Huerta et al., MICRO 2025, "Analyzing Modern NVIDIA GPU cores", section
4): a number of cycles after the one before, and when the barriers that it names are released, by a result or by operands that have
been read. The equation keeps its form, with these in the place of registers. Asynchronous copies and products have none either.
What waits for groups of them waits for one of a row of registers: of all so far, of the newest group, of the one before, and so on.
A group is done when all up to its end are, so to close a group is to move the row on by one. Each kind of groups has a row.

A wait on an mbarrier where other warps arrive, or bulk copies, is one for the whole block: `blocks.py` walks its warps together.
The walk over one path is told how long each of these waits is.

The file has the register dependences as flat arrays, the compiled walks over them, the intervals, and their place in a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import inlined, jit
from warpsight.intervals.interval_profile import Floats
from warpsight.isa.sass.native import BARRIERS
from warpsight.traces.marks import issue_cycles, marks
from warpsight.traces.path_store import pieces, sums_of_paths
from warpsight.traces.schema import (
    COPIES,
    GROUP_KINDS,
    NEXT_GROUP,
    PRODUCTS,
    READS,
    KernelTrace,
    StaticInstruction,
    kept_of_code,
)  # fmt: skip

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Indices = npt.NDArray[np.uint32]

Groups = npt.NDArray[np.int64]

SOURCES_PER_STEP = 3
_ON_MBARRIERS = 16  # groups of copies in the row where waits are on mbarriers


@dataclass(frozen=True)
class Dependences:
    """Registers read and written by each pc, all int32; of machine code barriers, and the right to issue.

    Pc p reads `sources[source_offset[p]:source_offset[p + 1]]`, and writes the same range of `destinations`, of which `kinds` says
    what they wait for: `RESULT`, `OPERANDS` or `ISSUE`. `registers` is their number. `shared`: several instructions may be on the
    way to one register, and all are waited for, as barriers have it. `groups` int64 [kinds, 3]: the first and the last register of
    the row of each kind of asynchronous work, which a pc moves on that writes the second of them, and the register of the oldest
    group not waited for, behind which comes the number of these groups, which a pc lowers that writes it; -1 for none.
    """

    source_offset: Ints
    sources: Ints
    destination_offset: Ints
    destinations: Ints
    kinds: Ints
    registers: int
    shared: bool
    groups: Groups


@dataclass(frozen=True)
class Steps:
    """The same with one shape for every step, so that the walk has no loop over registers.

    Basic block b is steps `start[b]` to `start[b + 1]`. A step reads `sources` uint32 [steps, 3] and writes `destination` uint32
    [steps], of the kind `kind` int32; register number `registers` stands for no source, `registers + 1` for no destination. Most
    instructions are one step; `ends` is False for all but the last step of one with more registers. `pc` int32 is the instruction
    of each step.
    """

    start: Longs
    sources: Indices
    destination: Indices
    kind: Ints
    ends: npt.NDArray[np.bool_]
    pc: Ints
    registers: int
    shared: bool
    groups: Groups


RESULT, OPERANDS, ISSUE = range(3)  # what a register waits for: the result, the reading of the operands, the stall cycles
_RIGHT_TO_ISSUE = BARRIERS


class _Registers:
    """What instructions write and read: registers, or in machine code barriers; and the row of registers for copies."""

    def __init__(self, instructions: Sequence[StaticInstruction]) -> None:
        self.controlled = any(instruction.stall for instruction in instructions)
        named = [register for i in instructions for register in (*i.sources, *i.destinations)]
        first = _RIGHT_TO_ISSUE + 1 if self.controlled else max(named, default=-1) + 1
        self.rows: dict[str, tuple[int, int, int]] = {}
        for kind in GROUP_KINDS:
            counts = [i.wait_groups for i in instructions if i.wait_kind == kind]
            on_mbarriers = NEXT_GROUP in counts
            most = max([*counts, _ON_MBARRIERS if on_mbarriers else -1], default=-1)
            if most >= 0:
                self.rows[kind] = first, first + 1 + most, first + 2 + most if on_mbarriers else -1
                first += 4 + most if on_mbarriers else 2 + most
        self.end = first

    def written(self, instruction: StaticInstruction) -> list[tuple[int, int]]:
        """(register, kind) of what an instruction writes."""
        if self.controlled:
            barriers = [(instruction.write_barrier, RESULT), (instruction.read_barrier, OPERANDS)]
            found = [(barrier, kind) for barrier, kind in barriers if barrier < BARRIERS]
            found += [(_RIGHT_TO_ISSUE, ISSUE)] if instruction.stall > 1 or instruction.is_block_barrier else []
        else:  # of an asynchronous product only those that wait for its group may read the results
            asynchronous = instruction.is_async_product and PRODUCTS in self.rows
            found = [(register, RESULT) for register in instruction.destinations if not asynchronous]
        # the shared memory that a bulk copy reads is the operand that it has read first
        found += [(self.rows[kind][0], OPERANDS if kind == READS else RESULT) for kind in instruction.joins if kind in self.rows]
        found += [(self.rows[kind][0] + 1, RESULT) for kind in instruction.ends if kind in self.rows]
        if instruction.wait_groups == NEXT_GROUP:
            found.append((self.rows[COPIES][2] + 1, RESULT))
        return found

    def read(self, instruction: StaticInstruction) -> list[int]:
        """The registers that an instruction waits for."""
        found = list(dict.fromkeys(instruction.sources))
        if self.controlled:
            found = [k for k in range(BARRIERS) if instruction.waits >> k & 1] + [_RIGHT_TO_ISSUE]
        if instruction.wait_groups >= 0:  # one that closes a group waits for that, too
            found.append(self.rows[instruction.wait_kind][0] + (0 if instruction.closes_group else 1 + instruction.wait_groups))
        if instruction.wait_groups == NEXT_GROUP:
            found.append(self.rows[COPIES][2])
        return found

    @property
    def groups(self) -> Groups:
        """The rows of `Dependences.groups`."""
        return np.array(list(self.rows.values()), dtype=np.int64).reshape(-1, 3)


@kept_of_code
def dependences(instructions: tuple[StaticInstruction, ...]) -> Dependences:
    """The dependences of `instructions`, guard predicates included. A register that is never written is ready from the start."""
    rules = _Registers(instructions)
    written = [rules.written(instruction) for instruction in instructions]
    source_offset, sources = _flat([rules.read(instruction) for instruction in instructions])
    destination_offset, destinations = _flat([[register for register, _ in each] for each in written])
    _, kinds = _flat([[kind for _, kind in each] for each in written])
    most = max((int(part.max()) for part in (sources, destinations) if part.size), default=-1)
    registers = max(most + 1, rules.end if rules.rows else 0)
    return Dependences(source_offset, sources, destination_offset, destinations, kinds, registers, rules.controlled, rules.groups)


@kept_of_code
def steps(instructions: tuple[StaticInstruction, ...], block_start: Ints) -> Steps:
    """The steps of every basic block; `block_start` int32 [blocks + 1] as in a trace.

    A source that an earlier instruction of the block has read, and that was not written since, is left out: a warp issues in order,
    so the earlier instruction has waited for it, and it cannot stall the warp again.
    """
    known, rules = dependences(instructions), _Registers(instructions)
    registers = known.registers
    rows_of_groups = set(range(int(known.groups[0, 0]), rules.end)) if rules.rows else set()
    rows: list[_Step] = []
    start = [0]
    for begin, end in pairwise(block_start.tolist()):
        waited: set[int] = set()
        for instruction in instructions[begin:end]:
            reads, writes = rules.read(instruction), rules.written(instruction)
            rows += _steps_of(instruction.pc, [source for source in reads if source not in waited], writes, registers)
            waited |= set(reads)
            waited -= {register for register, _ in writes}
            waited -= rows_of_groups if instruction.ends or instruction.wait_groups == NEXT_GROUP else set()
        start.append(len(rows))
    pc, ends, sources, destination, kind = zip(*rows, strict=True) if rows else ([], [], [], [], [])
    return Steps(
        np.array(start, dtype=np.int64), np.array(sources, dtype=np.uint32).reshape(-1, SOURCES_PER_STEP),
        np.array(destination, dtype=np.uint32), np.array(kind, dtype=np.int32), np.array(ends, dtype=np.bool_),
        np.array(pc, dtype=np.int32), registers, known.shared, known.groups,
    )


_Step = tuple[int, bool, list[int], int, int]


def _steps_of(pc: int, needed: list[int], written: list[tuple[int, int]], registers: int) -> list[_Step]:
    """Pc, whether it is the last, sources, destination and its kind of each step. All sources are waited for before any result is
    written.
    """
    none, nothing = registers, (registers + 1, RESULT)
    reads = [needed[k : k + SOURCES_PER_STEP] for k in range(0, len(needed), SOURCES_PER_STEP)] or [[]]
    writes = written or [nothing]
    pairs = [*((part, nothing) for part in reads[:-1]), (reads[-1], writes[0]), *(([], each) for each in writes[1:])]
    padded = [(part + [none] * (SOURCES_PER_STEP - len(part)), *each) for part, each in pairs]
    return [(pc, number == len(padded) - 1, *each) for number, each in enumerate(padded)]


def _flat(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    offset = np.zeros(len(lists) + 1, dtype=np.int32)
    np.cumsum([len(part) for part in lists], out=offset[1:])
    return offset, np.array([register for part in lists for register in part], dtype=np.int32)


# -- The compiled walks over dynamic instruction streams: GPUMech eq. 4, instruction by instruction.
#
# Time is in whole ticks (int64), so that sums do not depend on their order, and two issues a cycle apart differ by exactly a cycle.

@inlined
def row_of(register: np.int64, registers: int, groups: Groups) -> tuple[int, int, int]:
    """The row of groups that the register is in, as in `Dependences.groups`; -1 where it is in none.

    `registers`: how many are real.
    """
    if len(groups) == 0 or register < groups[0, 0] or register >= registers:
        return -1, -1, -1
    row = 0
    while row + 1 < len(groups) and groups[row + 1, 0] <= register:
        row += 1
    return groups[row, 0], groups[row, 1], groups[row, 2]


@inlined
def arrives(ready: Longs, destination: np.uint32, done: int, shared: bool, groups: Groups) -> None:
    """What writes the register is done then; or, at registers of groups of copies, a group is closed or has been waited for."""
    register = np.int64(destination)
    first, last, oldest = row_of(register, len(ready) - 1, groups)
    if register > first >= 0:
        if register == first + 1:
            for k in range(last, first, -1):
                ready[k] = ready[k - 1]
            ahead = ready[oldest + 1] + 1 if oldest >= 0 else 0
        else:
            ahead = max(ready[oldest + 1] - 1, 0)
        if oldest >= 0:
            ready[oldest] = ready[min(first + ahead, last)] if ahead > 0 else 0
            ready[oldest + 1] = ahead
    elif shared or register == first:
        ready[register] = max(done, ready[register])
    else:
        ready[register] = done


@jit(cache=True, nogil=True)
def measure_paths(
    offset: Longs, block: Ints, repeat: Ints, start: Longs, sources: Indices, destination: Indices, advance: Longs, after: Longs,
    registers: int, shared: bool, groups: Groups, ticks: Longs,
) -> None:
    """Fill `ticks` int64 [paths] with the issue and stall time of a warp alone on each path.

    `offset`, `block`, `repeat` as in `PathTable`, `start`, `sources`, `destination`, `shared` and `groups` as in `Steps`. `advance`
    [steps] is one cycle at an instruction's last step, else 0; `after` [steps] is from its issue to the first cycle a consumer can
    issue in.
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
                    done = issue + after[step]
                    arrives(ready, destination[step], done, shared, groups)
                    cycle = issue + advance[step]
        ticks[path] = cycle


@inlined
def _move_on(register: int, row: tuple[int, int, int], ready: Longs, producer: Ints, kind_of: Ints) -> None:
    """A group is closed, or the oldest has been waited for."""
    first, last, oldest = row
    closes = register == first + 1
    if closes:
        for older in range(last, first, -1):
            newer = older - 1
            ready[older], producer[older], kind_of[older] = ready[newer], producer[newer], kind_of[newer]
    if oldest >= 0:
        ahead = ready[oldest + 1] + 1 if closes else max(ready[oldest + 1] - 1, 0)
        of = min(first + ahead, last)
        ready[oldest], producer[oldest], kind_of[oldest] = ready[of] if ahead > 0 else 0, producer[of], kind_of[of]
        ready[oldest + 1] = ahead


@inlined
def _at_barrier(tests: bool, turn: int, waits: Longs, wait_pc: Ints, issue: np.int64, waited: np.int32, kind: np.int32) -> Any:
    """When the instruction issues, and what it has waited for, with its wait on an mbarrier if it `tests` one."""
    if tests and turn < len(waits) and waits[turn] > 0 and issue > 0:  # no interval is empty
        return issue + waits[turn], wait_pc[turn], np.int32(RESULT)
    return issue, waited, kind


@jit(cache=True, nogil=True)
def record_path(
    block: Ints, repeat: Ints, block_start: Ints, source_offset: Ints, sources: Ints, destination_offset: Ints, destinations: Ints,
    registers: int, shared: bool, groups: Groups, cycle: int, after: Longs, kinds: Ints, at_barrier: npt.NDArray[np.bool_],
    waits: Longs, wait_pc: Ints, columns: Floats,
    instructions: Longs, stalls: Longs, stall_pc: Ints, stall_kind: Ints, sums: Floats,
) -> int:
    """Walk one path, fill its intervals and return their number; with empty outputs, only count them.

    `cycle` is ticks in a cycle; `after` [destinations] as for `measure_paths`, and `kinds` as in `Dependences`. `columns`
    [instructions, c] is the contribution of each pc to `sums` [intervals, c]. `at_barrier` [instructions]: it waits on an mbarrier,
    the k-th of these for `waits[k]` ticks for `wait_pc[k]`. `stalls` is in ticks; `stall_pc` is -1 for the
    interval without a stall, `stall_kind` what it waited for.
    """
    ready = np.zeros(registers, dtype=np.int64)
    producer = np.full(registers, -1, dtype=np.int32)
    kind_of = np.zeros(registers, dtype=np.int32)
    following, interval, filling, turn = np.int64(0), 0, len(instructions) > 0, 0
    for run in range(len(block)):
        for _ in range(repeat[run]):
            for pc in range(block_start[block[run]], block_start[block[run] + 1]):
                issue, waited, kind = following, np.int32(-1), np.int32(0)
                for k in range(source_offset[pc], source_offset[pc + 1]):
                    if ready[sources[k]] > issue:
                        issue, waited, kind = ready[sources[k]], producer[sources[k]], kind_of[sources[k]]
                issue, waited, kind = _at_barrier(at_barrier[pc], turn, waits, wait_pc, issue, waited, kind)
                turn += 1 if at_barrier[pc] else 0
                # every register is ready at a path's first instruction, so a stall always closes an interval that is not empty
                if waited >= 0:
                    if filling:
                        stalls[interval], stall_pc[interval], stall_kind[interval] = issue - following, waited, kind
                    interval += 1
                if filling:
                    instructions[interval] += 1
                    for column in range(columns.shape[1]):
                        sums[interval, column] += columns[pc, column]
                for k in range(destination_offset[pc], destination_offset[pc + 1]):
                    register, done = destinations[k], issue + after[k]
                    row = row_of(np.int64(register), registers, groups)
                    if register > row[0] >= 0:
                        _move_on(register, row, ready, producer, kind_of)
                    elif not (shared or register == row[0]) or done > ready[register]:
                        ready[register], producer[register], kind_of[register] = done, pc, kinds[k]
                following = issue + cycle
    return interval + 1


# -- The intervals of paths.

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

    `pc` int32 [intervals]: the instruction that the warp waited for, -1 for none; `kind` int32 [intervals]: for its `RESULT`,
    `OPERANDS` or `ISSUE`. `sums` float64 [intervals, columns]: the
    requested columns, summed over the instructions of each interval.
    """

    instructions: Floats
    stall_cycles: Floats
    pc: Ints
    kind: Ints
    sums: Floats


# Of each wait on an mbarrier, in the order of a path, how long it is, in ticks, and the instruction that it waits for.
Waits = tuple[Longs, Ints]
NO_WAITS = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)


def path_stats(trace: KernelTrace, walked: Steps, latency: Floats) -> PathStats:
    """Instructions and cycles of every distinct path, walked in full. `latency` float64 [instructions], cycles."""
    ticks, issues, after = np.zeros(len(trace.paths), np.int64), np.where(walked.ends, TICKS, 0), _after(trace, latency)
    for part, paths in pieces(trace.paths):
        measure_paths(
            plain(paths.offset, np.int64), plain(paths.block, np.int32), plain(paths.repeat, np.int32), walked.start,
            walked.sources, walked.destination, issues, step_ticks(trace, walked, after), walked.registers, walked.shared,
            walked.groups, ticks[part],
        )  # fmt: skip
    return PathStats(sums_of_paths(trace.paths, np.diff(trace.block_start).astype(np.int64)), ticks / TICKS)


def path_intervals(
    trace: KernelTrace, path: int, depends: Dependences, latency: Floats, columns: Floats, waits: Waits = NO_WAITS
) -> PathIntervals:
    """The intervals of path number `path`.

    `latency` float64 [instructions], cycles; `columns` float64 [instructions, columns]: the contribution of each pc to `sums`.
    `waits` on mbarriers, in the order of the path.
    """
    first, last = int(trace.paths.offset[path]), int(trace.paths.offset[path + 1])
    of = np.repeat(np.arange(len(trace.instructions), dtype=np.int32), np.diff(depends.destination_offset))
    stream = (
        plain(trace.paths.block[first:last], np.int32), plain(trace.paths.repeat[first:last], np.int32),
        plain(trace.block_start, np.int32), depends.source_offset, depends.sources, depends.destination_offset,
        depends.destinations, depends.registers, depends.shared, depends.groups, TICKS,
        _ticks(trace, of, depends.kinds, _after(trace, latency)), depends.kinds,
        marks(trace.instructions).waits_at_barrier, *waits,
        plain(columns, np.float64),
    )  # fmt: skip

    def outputs(count: int) -> tuple[Longs, Longs, Ints, Ints, Floats]:
        pc, kind = np.full(count, -1, dtype=np.int32), np.zeros(count, dtype=np.int32)
        return np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64), pc, kind, np.zeros((count, columns.shape[1]))

    instructions, stalls, pc, kind, sums = outputs(record_path(*stream, *outputs(0)))
    record_path(*stream, instructions, stalls, pc, kind, sums)
    return PathIntervals(instructions.astype(np.float64), stalls / TICKS, pc, kind, sums)


def _after(trace: KernelTrace, latency: Floats) -> Floats:
    """From the issue to that of a consumer: a cycle more than the latency (GPUMech, eq. 4), but for barriers."""
    return np.asarray(latency + ~marks(trace.instructions).block_barrier)


def step_ticks(trace: KernelTrace, walked: Steps, after: Floats) -> Longs:
    """From the issue of each step's instruction to the first cycle in which what waits for its destination can issue, in ticks.

    `after` float64 [instructions] is that of results, in cycles.
    """
    return _ticks(trace, walked.pc, walked.kind, after)


def _ticks(trace: KernelTrace, pc: Ints, kind: Ints, after: Floats) -> Longs:
    """The same of registers of these kinds that the instructions `pc` write. The result of a barrier is that it is over."""
    results = np.where(marks(trace.instructions).block_barrier, after, 0.0)
    stall, read = issue_cycles(trace.instructions)
    cycles = np.choose(kind, [after[pc], read[pc], np.maximum(stall, results)[pc]]) if len(pc) else np.zeros(0)
    return np.round(cycles * TICKS).astype(np.int64)


def plain(array: npt.NDArray[np.generic], dtype: type[np.generic]) -> npt.NDArray[Any]:
    """`array` as the compiled walks need it: contiguous, writable, of that type."""
    # Arrays read from disk are read-only. That is another type for Numba, which would compile the walk a second time.
    return np.require(array, dtype=dtype, requirements=["C", "W"])


# -- The place of the intervals in a path: the instruction that waits at the end of each, and the intervals in which a pc runs.

def waiting_pcs(trace: KernelTrace, path: int, instructions: Floats) -> Ints:
    """The instruction that waits at the end of each interval of path number `path`: the first one of the next interval.

    `instructions` float64 [intervals] as in an interval profile of that path. The result is int32 [intervals], -1 for the last one,
    which has no stall. Raises ValueError when the intervals are not those of the path.
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

    -1 for a pc that is not on the path. `instructions` as for `waiting_pcs`.
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


def _runs(trace: KernelTrace, path: int) -> tuple[Ints, Longs, Longs]:
    """Of each run of the path: its basic block, that block's length, and where it starts (one more: where the path ends)."""
    first, last = int(trace.paths.offset[path]), int(trace.paths.offset[path + 1])
    block = np.asarray(trace.paths.block[first:last])
    length: Longs = np.diff(np.asarray(trace.block_start, dtype=np.int64))[block].astype(np.int64)
    start = np.concatenate([[0], np.cumsum(length * trace.paths.repeat[first:last].astype(np.int64))])
    return block, length, start
