"""Which instruction of the program a line is, in a trace without program counters.

Native code continues in a straight line up to the next branch, call, return, convergence barrier or exit (op class `branch`), and
these are in the trace whether they are taken or not. A warp's stream is cut behind each of them into *runs*. Two runs that end at
the same branch begin at different places before it, so one is the end of the other: a run that equals the end of a longer one is
assigned to that place. What is left are the longest runs; their instructions, concatenated, are the executed part of the program.
Two pieces of code with the same text up to their branch count as one; code that is entered by a call which the tracer leaves out
counts once for each caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.traces.importers.launch import REMEDY
from warpsight.traces.importers.layout import Ints, Longs
from warpsight.traces.importers.pptgpu.files import Records, SassFile, WarpLines
from warpsight.traces.importers.streams import WarpArrays, WarpStream, lanes_of_warp, ranges

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Program:
    """`text` int32: the number of the text of each instruction, in order of its place. `streams`: for each warp the places
    of its instructions, int32 [length].
    """

    text: Ints
    streams: list[Ints]


def align(warps: Iterable[Ints], ends_run: Bools) -> Program:
    """Places of the instructions of `warps` (each a stream of numbers of texts); `ends_run` says of each text if it ends a run."""
    runs: dict[bytes, int] = {}
    followed = []
    for stream in warps:
        stops = np.flatnonzero(ends_run[stream]) + 1
        if not len(stops) or stops[-1] < len(stream):
            stops = np.append(stops, len(stream))
        data, first, taken = np.ascontiguousarray(stream, np.int32).tobytes(), 0, []
        for stop in (4 * stops).tolist():
            taken.append(runs.setdefault(data[first:stop], len(runs)))
            first = stop
        followed.append(np.array(taken, np.int64))
    texts = list(runs)
    home = _homes(texts)
    start = np.zeros(len(texts), np.int64)
    size = np.array([len(text) // 4 for text in texts], np.int64)
    parts, total = [], 0
    for run, (whole, _) in enumerate(home):
        if whole == run:
            start[run] = total
            total += int(size[run])
            parts.append(np.frombuffer(texts[run], np.int32))
    for run, (whole, skipped) in enumerate(home):
        start[run] = start[whole] + skipped
    streams = [ranges(start[taken], size[taken]).astype(np.int32) for taken in followed]
    return Program(np.concatenate(parts) if parts else np.zeros(0, np.int32), streams)


def _homes(texts: list[bytes]) -> list[tuple[int, int]]:
    """For each run (the longest run that ends like it, instructions of that before it); of several the first that came."""
    home = [(run, 0) for run in range(len(texts))]
    by_length: dict[int, list[int]] = {}
    for run, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(run)
    longest: list[int] = []
    for length in sorted(by_length, reverse=True):
        ends: dict[bytes, int] = {}
        for whole in sorted(longest):
            ends.setdefault(texts[whole][-length:], whole)
        for run in by_length[length]:
            longer = ends.get(texts[run])
            if longer is None:
                longest.append(run)
            else:
                home[run] = (longer, (len(texts[longer]) - length) // 4)
    return home


# -- The streams of a block's warps: instructions that every block shares, and for each block its own addresses.
#
# The tracer writes the record of an access when it writes the line of the access. The records of a block are therefore in the
# order of its lines, over all its warps: if the lines of a block are in the trace, the n-th record belongs to the n-th line of an
# opcode that has records. Of blocks whose lines are not in the trace (PPT-GPU writes those of one block) the order of warps is
# not known: the n-th record of an opcode is assigned to the n-th line of that opcode in the block that was written.


class Block:
    """A block's streams. `opcodes` are those of its accesses with records, in the order of their lines; `line` these lines.

    Of each place in the program, `rows` is its row in the table, `opcodes` its opcode if its accesses have records, else "".
    """

    def __init__(
        self, sass: SassFile, warps: list[WarpLines], places: list[Ints], rows: Longs, opcodes: list[str], threads: int
    ) -> None:
        self._sass, self._warps, self._places, self._rows, self._threads = sass, warps, places, rows, threads
        recorded = np.array([bool(opcode) for opcode in opcodes], np.bool_)
        self._steps = [np.flatnonzero(recorded[place]) for place in places]  # of each warp, those that are accesses
        line = np.concatenate([sass.lines.line[warp.index[steps]] for warp, steps in zip(warps, self._steps, strict=True)])
        place = np.concatenate([place[steps] for place, steps in zip(places, self._steps, strict=True)])
        order = np.argsort(line, kind="stable")
        self.line: Longs = line[order].astype(np.int64)
        self.opcodes = [opcodes[k] for k in place[order].tolist()]
        slot = np.argsort(order, kind="stable")  # of each access, warp by warp, its place in the order of lines
        self._slots = np.split(slot, np.cumsum([len(steps) for steps in self._steps])[:-1])

    def warps(self, number: int, records: Records, assigned: Longs) -> Iterator[WarpStream]:
        """The streams of block `number` with the records `assigned` to its accesses (-1: none, no lane was active)."""
        for warp, places, steps, slots in zip(self._warps, self._places, self._steps, self._slots, strict=True):
            record = np.full(len(places), -1, np.int64)
            record[steps] = assigned[slots]
            access = np.zeros(len(places), np.bool_)
            access[steps] = True
            yield WarpStream(number, warp.warp, *self._arrays(warp, places, access, record, records))

    def _arrays(
        self, warp: WarpLines, places: Ints, access: Bools, record: Longs, records: Records
    ) -> tuple[WarpArrays, Callable[[int], str]]:
        """A warp's instructions. An LDGSTS is two, the store to shared memory before the load, where both have addresses."""
        there = record >= 0
        first = np.where(there, records.offset[record], 0)
        size = np.where(there, records.offset[record + 1] - first, 0)
        shared = np.zeros(len(places), np.int64)
        shared[there] = records.shared[record[there]]
        times = 1 + (shared > 0)
        k = np.repeat(np.arange(len(places)), times)  # the instruction in the file of each one in the stream
        last = np.cumsum(times) - 1
        begin, count = first[k], shared[k]
        begin[last], count[last] = first + shared, size - shared
        mask = np.where(access[k], (1 << count) - 1, lanes_of_warp(warp.warp, self._threads))
        arrays = WarpArrays(
            self._rows[places[k]], mask, np.append(0, np.cumsum(count)),
            records.address[ranges(begin, count)],
        )  # fmt: skip

        def place(step: int) -> str:
            if there[k[step]]:
                return f"{records.path}:{int(records.line[record[k[step]]])}"
            return f"{self._sass.path}:{int(self._sass.lines.line[warp.index[k[step]]])}"

        return arrays, place


def in_order(block: Block, records: Records, sass: SassFile) -> Longs:
    """The record of each access of a block whose lines are in the trace. Raises FormatError at the first that does not fit."""
    for k, (wanted, opcode) in enumerate(zip(block.opcodes, records.opcodes, strict=False)):
        if wanted != opcode:
            what = f"the record is of {opcode}, where the block's next access is {wanted} ({sass.path}:{block.line[k]})"
            raise FormatError(what, place=f"{records.path}:{records.line[k]}", remedy=REMEDY)
    if len(records.opcodes) != len(block.opcodes):
        what = f"{len(records.opcodes):,} records of accesses, and the block's lines have {len(block.opcodes):,}"
        place = f"{records.path}:{records.line[-1]}" if records.opcodes else str(records.path)
        raise FormatError(what, place=place, remedy=f"one of them is cut: {REMEDY}")
    return np.arange(len(block.opcodes))


class ByOpcode:
    """Assigns the records of other blocks to the accesses of one block by their opcodes.

    `lacking` accesses have no record and `surplus` records no access, in `odd` blocks, the first of which is `first`. `exact` is
    whether some block has its records in the very order of the lines, as the block of the lines has.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._slots: dict[str, list[int]] = {}
        for slot, opcode in enumerate(block.opcodes):
            self._slots.setdefault(opcode, []).append(slot)
        self.lacking = self.surplus = self.odd = 0
        self.first = ""
        self.exact = False

    def assign(self, records: Records) -> Longs:
        """The record of each access of the block, -1 if it has none."""
        self.exact = self.exact or records.opcodes == self._block.opcodes
        record = np.full(len(self._block.opcodes), -1, np.int64)
        left = {opcode: iter(slots) for opcode, slots in self._slots.items()}
        for number, opcode in enumerate(records.opcodes):
            slot = next(left.get(opcode, iter(())), None)
            if slot is not None:
                record[slot] = number
        lacking = int((record < 0).sum())
        surplus = len(records.opcodes) - (len(record) - lacking)
        if lacking or surplus:
            self.odd += 1
            self.first = self.first or str(records.path)
        self.lacking += lacking
        self.surplus += surplus
        return record
