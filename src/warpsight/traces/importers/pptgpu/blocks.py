"""Which instruction of the program a line is, in a trace without program counters.

Native code goes on in a straight line up to the next branch, call, return, barrier of convergence or exit (op class `branch`), and
these are in the trace whether they are taken or not. A warp's stream is cut behind each of them into *runs*. Two runs that end at
one branch of the program begin at different places before it, so that one is the end of the other: a run that equals the end of a
longer one is taken for that place. What is left are the longest runs; their instructions, one behind the other, are the program as
far as it was executed. Two pieces of code with the same text up to their branch count as one; code that is entered by a call
which the tracer leaves out counts once for each caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.traces.importers.launch import REMEDY
from warpsight.traces.importers.pieces import WARP_LINES, Piece, lanes_of_warp, listed, masked, warp_begins
from warpsight.traces.importers.pptgpu.files import Record, SassFile, WarpStream

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Program:
    """`text` int32: of each instruction, in order of its place, the number of its text. `streams`: of each stream that was given,
    int32 [length], the places of its instructions.
    """

    text: Ints
    streams: list[Ints]


def align(streams: Iterable[Ints], ends_run: npt.NDArray[np.bool_]) -> Program:
    """Places of the instructions of warps' `streams` (numbers of texts); `ends_run` says of each text that it ends a run."""
    runs: dict[bytes, int] = {}
    followed = []
    for stream in streams:
        stops = np.flatnonzero(ends_run[stream]) + 1
        if not len(stops) or stops[-1] < len(stream):
            stops = np.append(stops, len(stream))
        data, first, found = np.ascontiguousarray(stream, np.int32).tobytes(), 0, []
        for stop in (4 * stops).tolist():
            found.append(runs.setdefault(data[first:stop], len(runs)))
            first = stop
        followed.append(np.array(found, np.int64))
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
    return Program(
        np.concatenate(parts) if parts else np.zeros(0, np.int32), [_expanded(start[found], size[found]) for found in followed]
    )


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
            found = ends.get(texts[run])
            if found is None:
                longest.append(run)
            else:
                home[run] = (found, (len(texts[found]) - length) // 4)
    return home


def _expanded(start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> Ints:
    """start[0] .. start[0] + size[0] - 1, start[1] .. and so on."""
    before = np.cumsum(size) - size
    return (np.repeat(start - before, size) + np.arange(int(size.sum()))).astype(np.int32)


# -- The warps of a block as lines: what every block writes once, and for each block its own addresses in their places.
#
# The tracer writes an access's record in the moment in which it writes the access's line. The records of a block are thus in the
# order of its lines, over all its warps, and where the lines of a block are in the trace the n-th record belongs to the n-th
# line of an opcode that has records. Of blocks whose lines are not in the trace (PPT-GPU writes those of one block) the order of
# warps is not known: there the n-th record of an opcode is given to the n-th line of that opcode in the block that was written.

Form = tuple[bytes, bytes]
_SHARED_LIMIT = 1 << 24  # offsets in shared memory are below it, addresses of device memory above


@dataclass(frozen=True, slots=True)
class Slot:
    """A line whose addresses come from a record: the k-th of its warp, and the part of the warp's text that it is."""

    opcode: str
    line: int
    stream: int
    part: int
    k: int
    form: Form


class BlockLines:
    """A block's streams, with a slot for each access that has a record. `forms` and `opcodes` are by place in the program."""

    def __init__(
        self, sass: SassFile, streams: list[WarpStream], places: list[Ints], forms: list[Form], addressed: list[str], threads: int
    ) -> None:
        self._sass, self._streams = sass, streams
        self._parts: list[list[bytes]] = []
        self.slots: list[Slot] = []
        for number, (stream, sequence) in enumerate(zip(streams, places, strict=True)):
            self._add(number, stream, sequence, forms, addressed, lanes_of_warp(stream.warp, threads))
        self.slots.sort(key=lambda slot: slot.line)
        self.order = [slot.opcode for slot in self.slots]
        self._of_stream: list[list[int]] = [[] for _ in streams]
        for number, slot in enumerate(self.slots):
            self._of_stream[slot.stream].append(number)

    def _add(self, number: int, stream: WarpStream, sequence: Ints, forms: list[Form], addressed: list[str], mask: int) -> None:
        """The parts of one warp: lines that never change joined, and one part for each access."""
        plain = {place: masked(forms[place], mask) for place in set(sequence.tolist()) if not addressed[place]}
        parts: list[bytes] = []
        held: list[bytes] = []
        lines = self._sass.lines.line[stream.index].tolist()
        for k, place in enumerate(sequence.tolist()):
            if not addressed[place]:
                held.append(plain[place])
                continue
            parts.append(b"".join(held))
            held = []
            self.slots.append(Slot(addressed[place], lines[k], number, len(parts), k, forms[place]))
            parts.append(b"")
        parts.append(b"".join(held))
        self._parts.append(parts)

    def pieces(self, records: list[Record | None], path: Path) -> Iterator[Piece]:
        """The warps' text with the records of the slots, in their order (None: no lane was active); `path` is the records' file."""
        for number, stream in enumerate(self._streams):
            parts = list(self._parts[number])
            where: dict[int, int] = {}
            doubled = 0
            for at in self._of_stream[number]:
                slot, record = self.slots[at], records[at]
                text = masked(slot.form, 0, b" 0") if record is None else _access(slot, record, path)
                doubled += text.count(b"\n") - 1
                parts[slot.part] = text
                if record is not None:
                    where[slot.k] = record.line
            text = warp_begins(stream.warp, len(stream.index) + doubled) + b"".join(parts)
            yield Piece(text, self._placing(stream, where, path))

    def _placing(self, stream: WarpStream, where: dict[int, int], path: Path) -> Callable[[int], str]:
        """Where a line of the warp's text came from: the record of an access, else the line of the instruction."""

        def place(line: int) -> str:
            k = min(max(line - WARP_LINES, 0), len(stream.index) - 1)
            if k in where:
                return f"{path}:{where[k]}"
            return f"{self._sass.path}:{int(self._sass.lines.line[stream.index[k]])}"

        return place


def _access(slot: Slot, record: Record, path: Path) -> bytes:
    """The line of an access; of an `LDGSTS` two, the write to shared memory before the read from device memory."""
    if not slot.opcode.startswith("LDGSTS"):
        return listed(slot.form, record.count, record.addresses)
    words = record.addresses.split()
    shared = [word for word in words if int(word, 16) < _SHARED_LIMIT]
    device = [word for word in words if int(word, 16) >= _SHARED_LIMIT]
    if max(len(shared), len(device)) > 32:
        what = f"a copy to shared memory has {len(shared)} and {len(device)} addresses, and a warp 32 lanes"
        raise FormatError(what, place=f"{path}:{record.line}", remedy=REMEDY)
    first = listed(slot.form, len(shared), b" ".join(shared)) if shared else b""
    return first + listed(slot.form, len(device), b" ".join(device))


def in_order(block: BlockLines, records: list[Record], sass: SassFile, path: Path) -> list[Record | None]:
    """The records of a block whose lines are in the trace. Raises FormatError, at the first that is not its line's."""
    for slot, record in zip(block.slots, records, strict=False):
        if slot.opcode != record.opcode:
            what = f"the record is of {record.opcode}, where the block's next access is {slot.opcode} ({sass.path}:{slot.line})"
            raise FormatError(what, place=f"{path}:{record.line}", remedy=REMEDY)
    if len(records) != len(block.slots):
        what = f"{len(records):,} records of accesses, and the block's lines have {len(block.slots):,}"
        place = f"{path}:{records[-1].line}" if records else str(path)
        raise FormatError(what, place=place, remedy=f"one of them is cut: {REMEDY}")
    return list(records)


class ByOpcode:
    """Gives records to the lines of another block by their opcodes.

    `lacking` lines had no record and `surplus` records no line, in `odd` blocks, the first of which is `first`. `exact` is whether
    some block had its records in the very order of the lines, as the block of the lines has.
    """

    def __init__(self, block: BlockLines) -> None:
        self._block = block
        self._slots: dict[str, list[int]] = {}
        for number, slot in enumerate(block.slots):
            self._slots.setdefault(slot.opcode, []).append(number)
        self.lacking = self.surplus = self.odd = 0
        self.first = ""
        self.exact = False

    def assign(self, records: list[Record], path: Path) -> list[Record | None]:
        """The record of each slot of the block."""
        if not self.exact:
            self.exact = [record.opcode for record in records] == self._block.order
        found: list[Record | None] = [None] * len(self._block.slots)
        given = dict.fromkeys(self._slots, 0)
        surplus = 0
        for record in records:
            slots = self._slots.get(record.opcode, ())
            n = given.get(record.opcode, 0)
            if n < len(slots):
                found[slots[n]] = record
                given[record.opcode] = n + 1
            else:
                surplus += 1
        lacking = len(found) - (len(records) - surplus)
        if lacking or surplus:
            self.odd += 1
            self.first = self.first or str(path)
        self.lacking += lacking
        self.surplus += surplus
        return found
