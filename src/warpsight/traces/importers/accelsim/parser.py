"""A kernel's trace file read piece by piece: text in, streams of whole thread blocks out, errors with file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from warpsight.base.errors import FormatError, LimitError, WarpsightError
from warpsight.isa.sass.opcodes import SassTable
from warpsight.traces.importers.accelsim.files import MOST_LINE_BYTES, TraceFileHeader
from warpsight.traces.importers.accelsim.native import parse
from warpsight.traces.importers.accelsim.native_text import CURSOR, KEY, Lines, LineStatus, Phase, code_of
from warpsight.traces.importers.instructions import InstructionTable, InvalidInstruction
from warpsight.traces.importers.launch import REMEDY, damaged
from warpsight.traces.importers.layout import ADDRESS_LIMIT, Bytes, Ints, Records, Status
from warpsight.traces.importers.streams import BlockStreams, StreamBuffer, refusal, shortened

_WHAT = {
    LineStatus.NO_LINE: "not a line of a trace",
    LineStatus.NO_MASK: "the active mask is not a hexadecimal number of 32 bits",
    LineStatus.FIELDS: "the fields after the mask are not registers, opcode, registers and memory width",
    LineStatus.MODE: "the form of the addresses is not 0 (list), 1 (base and stride) or 2 (base and deltas)",
    LineStatus.ADDRESS: f"too few addresses for the active lanes, or one that is not a number below {ADDRESS_LIMIT:#x}",
    LineStatus.TAIL: "the fields after the memory fields are not numbers, Val or NoVal",
    LineStatus.NUMBER: "a number is missing after =",
    LineStatus.NESTED: "a block begins before the last one has ended",
    LineStatus.NOT_IN_BLOCK: "this line is outside of #BEGIN_TB and #END_TB",
    LineStatus.NO_BLOCK_NUMBER: "the line thread block = x,y,z is missing before it",
    LineStatus.OUTSIDE_GRID: "the block is not in the grid",
    LineStatus.NOT_IN_WARP: "an instruction, or insts =, that belongs to no warp",
    LineStatus.NO_SUCH_WARP: "a block of this launch has no warp of that number",
    LineStatus.TWICE: "the block is there twice",
    LineStatus.NO_COUNT: "the line insts = of the warp is missing before it",
    LineStatus.PREFIX: "the line begins with another block or warp than the one that contains it",
    LineStatus.STRIDE: "a base and a stride for lanes that are not contiguous",
    LineStatus.BULK: "the fields of a bulk copy are not barrier, multicast, bytes, mode 3 or 4, and addresses",
}
_COUNTER, _NUMBER = re.compile(r"(0[xX])?[0-9a-fA-F]{1,12}"), re.compile(r"[0-9]{1,12}")


class Text(Protocol):
    """Lines of a trace, grouped by block and warp."""

    ordered: bool

    def __iter__(self) -> Iterator[bytes]:
        """The text in pieces, from the line after the header on."""

    def place(self, line: int) -> str:
        """Where the line that came as number `line`, from 1, stands."""


class OutOfOrder(Exception):
    """The blocks of a file are not in order of their numbers."""


class LineTable:
    """The instructions of a kernel by the text of their lines: `lines` is the table that the compiled parser searches."""

    def __init__(self, instructions: InstructionTable) -> None:
        self._instructions = instructions
        self.lines = Lines(np.zeros(len(instructions.rows), KEY), np.zeros(1 << 14, np.uint8), np.zeros(1024, np.int32))
        self._used = 0  # of the pool

    def add(self, head: bytes, text: bytes, code: int, lineinfo: bool) -> None:
        """Enter a line with the parts `head` (pc, and before it the source line) and `text` (registers to memory width) and their
        hash `code`.

        Raises InvalidInstruction, LimitError.
        """
        first = self._add_instruction(head.decode("ascii", "replace").split(), text.decode("ascii", "replace").split(), lineinfo)
        end = len(self._instructions.instructions)
        keys, pool, table = self.lines
        if len(keys) < len(self._instructions.rows):
            keys = np.concatenate((keys, np.zeros(len(self._instructions.rows) - len(keys), KEY)))
        used = self._used + len(head) + len(text)
        while used > len(pool):
            pool = np.concatenate((pool, np.zeros_like(pool)))
        pool[self._used : used] = np.frombuffer(head + text, np.uint8)
        keys[first:end] = self._used, len(head), len(text), -1
        self._used = used
        if 4 * end > len(table):
            table = self._rehashed(keys, pool, 2 * len(table), end)
        else:
            _insert(table, code, first)
        self.lines = Lines(keys, pool, table)

    def _add_instruction(self, head: list[str], text: list[str], lineinfo: bool) -> int:
        try:
            k = 1 + int(text[0])
            written, opcode, read = tuple(text[1:k]), text[k], tuple(text[k + 2 : k + 2 + int(text[k + 1])])
            addressed = int(text[-1]) > 0
        except (ValueError, IndexError):  # a control character that is no blank to the parser
            raise InvalidInstruction(f'"{" ".join(text)[:40]}" is not registers, opcode, registers and memory width') from None
        counter, number = head[-1], head[0] if lineinfo else "0"
        if not _COUNTER.fullmatch(counter) or not _NUMBER.fullmatch(number):
            raise InvalidInstruction(f'"{" ".join(head)[:30]}" is not a program counter')
        return self._instructions.add(int(counter, 16), int(number), opcode, written, read, addressed)

    def _rehashed(self, keys: Records, pool: Bytes, size: int, end: int) -> Ints:
        table = np.zeros(size, np.int32)
        for row in np.unique(keys["at"][:end], return_index=True)[1].tolist():  # the first row of each line
            start, head, text, _ = keys[row].tolist()
            _insert(table, int(code_of(pool, start, start + head, start + head, start + head + text)), row)
        return table


def _insert(table: Ints, code: int, row: int) -> None:
    slot = code & (len(table) - 1)
    while table[slot]:
        slot = (slot + 1) & (len(table) - 1)
    table[slot] = row + 1


class Parser:
    """Reads one kernel (a `streams.Producer`); `prefix` numbers stand before the pc of each line."""

    def __init__(self, header: TraceFileHeader, isa: SassTable, text: Text, prefix: int) -> None:
        self.buffer = StreamBuffer(header)
        self.table = InstructionTable(isa, one_register=header.one_register)
        self._text, self._lines = text, LineTable(self.table)
        self._cursor: Any = np.zeros(1, CURSOR)[0]
        self._cursor["declared"] = self._cursor["previous_block"] = -1
        self._cursor["prefix"], self._cursor["lineinfo"], self._cursor["ordered"] = prefix, header.lineinfo, text.ordered
        self._cursor["grid_x"], self._cursor["grid_y"], self._cursor["grid_z"] = header.grid
        self._cursor["warps_per_block"] = header.warps_per_block

    def place(self, line: int) -> str:
        """Where the line stands."""
        return self._text.place(line)

    def notes(self) -> Iterator[str]:
        """The note on memory lines whose last fields are more or fewer than those of the first one, if there are any."""
        odd, total = int(self._cursor["odd_lines"]), int(self._cursor["memory_lines"])
        if odd:
            yield (
                f"{odd:,} of {total:,} memory lines have more or fewer fields at their end than the first one ({self._odd_place}): "
                "addresses may be missing or extra there"
            )

    _odd_place = ""

    def streams(self) -> Iterator[BlockStreams]:
        """The launch in parts of whole blocks. Raises FormatError with file and line, LimitError, OutOfOrder."""
        buffer = np.zeros(1 << 23, np.uint8)
        held = 0
        for piece in self._text:
            if held > MOST_LINE_BYTES:
                raise FormatError("a line that does not end", place=self._here(), remedy=f"the trace is damaged here: {REMEDY}")
            while held + len(piece) + 2 > len(buffer):
                buffer = np.concatenate((buffer, np.zeros_like(buffer)))
            buffer[held : held + len(piece)] = np.frombuffer(piece, np.uint8)
            held += len(piece)
            newest = piece.rfind(b"\n")
            if newest < 0:
                continue
            yield from self._read(buffer, held - len(piece) + newest + 1)
            done = int(self._cursor["position"])
            buffer[: held - done] = buffer[done:held].copy()
            held -= done
            self._cursor["position"] = 0
        self._cursor["final"] = 1
        if held:
            buffer[held] = ord("\n")
            yield from self._read(buffer, held + 1)
        if self._cursor["phase"] != Phase.OUTSIDE:
            what = f"the file ends inside thread block {int(self.buffer.state['block'])}"
            raise FormatError(what, place=self._here(), remedy=f"the trace is cut: {REMEDY}")
        yield from self.buffer.drained()

    def _read(self, text: Bytes, end: int) -> Iterator[BlockStreams]:
        """Parse `text[:end]`, which ends with a line."""
        buffer = self.buffer
        while True:
            shared = buffer.state, self.table.rows, self._lines.lines, buffer.fragments, buffer.out, buffer.places, buffer.scratch
            status = int(parse(text, end, self._cursor, *shared))
            if self._cursor["odd_lines"] and not self._odd_place:
                self._odd_place = self._text.place(int(self._cursor["odd_line"]))
            if status == Status.DONE:
                return
            if status == LineStatus.NEW_LINE:
                self._enter(text)
            elif status == Status.FRAGMENTS_FULL:
                buffer.more_fragments()
            elif status == Status.FULL:
                yield from buffer.drained()
                buffer.make_room(self._here())
            elif status == LineStatus.ORDER:
                raise OutOfOrder
            else:
                raise self._refusal(status, text)

    def _enter(self, buffer: Bytes) -> None:
        """Enter a line whose text is new."""
        head, head_end, text, text_end = (int(self._cursor[name]) for name in ("head", "head_end", "text", "text_end"))
        code = int(code_of(buffer, head, head_end, text, text_end))
        lineinfo = bool(self._cursor["lineinfo"])
        try:
            self._lines.add(buffer[head:head_end].tobytes(), buffer[text:text_end].tobytes(), code, lineinfo)
        except InvalidInstruction as error:
            raise damaged(str(error), self._here()) from None
        except LimitError as error:
            raise LimitError(error.what, place=self._here(), remedy=error.remedy) from None

    def _here(self) -> str:
        return self._text.place(int(self.buffer.state["line"]) + 1)

    def _refusal(self, status: int, buffer: Bytes) -> WarpsightError:
        """The error for `status`."""
        state, p = self.buffer.state, int(self._cursor["position"])
        if status == LineStatus.MISCOUNT:
            what = f"warp {state['warp']} has {state['executed']:,} instructions, and insts = says {self._cursor['declared']:,}"
            return damaged(what, self._here())
        text = buffer[p : p + 200].tobytes().split(b"\n")[0].decode("ascii", "replace").strip()
        if status < Status.FORMAT:
            return refusal(Status(status), self._here(), text)
        return damaged(f"{_WHAT[LineStatus(status)]}: {shortened(text)!r}", self._here())
