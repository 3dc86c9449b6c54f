"""The static instructions of a trace: its distinct lines with their registers and opcodes, then basic blocks and paths."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from warpsight.base.errors import LimitError
from warpsight.isa.sass.opcodes import TMA, Meaning, SassOpcode, SassTable, bulk_direction, is_move_of_constant, matrix_rows
from warpsight.isa.sass.registers import destinations, is_register, named, sources
from warpsight.traces.importers.accelsim import layout as at
from warpsight.traces.importers.accelsim.layout import SPACES, Branch, Bytes, Ints, Kind, Static, Statics
from warpsight.traces.importers.accelsim.native_text import code_of
from warpsight.traces.schema import PathTable, StaticInstruction

_MOST_STATICS = 1 << 22
_COUNTER, _NUMBER = re.compile(r"(0[xX])?[0-9a-fA-F]{1,12}"), re.compile(r"[0-9]{1,12}")
_OPCODE = re.compile(r"[A-Z][A-Z0-9_]*(\.[A-Za-z0-9_]+)*")
CONTINUED = "part of a bulk copy"


@dataclass(frozen=True)
class Line:
    """What a line says apart from mask and addresses. `part` tells lines of one pc apart.

    `destinations` and `sources` are all registers; `operands` the names that stand in the line, one for each operand.
    """

    pc: int
    source_line: int
    opcode: str
    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    op_class: str
    space: str
    access: str
    bytes: int
    row: SassOpcode
    known: bool
    has_addresses: bool
    part: int
    operands: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def text(self) -> str:
        """As a disassembler would put it."""
        operands = ", ".join((*self.destinations, *self.sources))
        return f"/*{self.pc:04x}*/ {self.opcode} {operands}".rstrip()


class WrongLine(Exception):
    """A line's text that cannot be: the message says what is wrong."""


class LineTable:
    """All distinct lines of a kernel, and the tables that the compiled parser knows them by.

    Without `bulk`, lines of bulk copies have no addresses. With `request_bytes`, each address of an access to device memory stands
    for so many bytes, whatever the opcode's width. With `one_register`, a name is one register, whatever the operand's size.
    """

    def __init__(
        self, isa: SassTable, *, bulk: bool = True, request_bytes: int = 0, one_register: bool = False
    ) -> None:
        self._isa, self._bulk, self._request_bytes, self._one_register = isa, bulk, request_bytes, one_register
        self.lines: list[Line] = []
        self.native = Statics(np.zeros((256, Static.WIDTH), np.int64), np.zeros(1 << 14, np.uint8), np.zeros(1024, np.int32))
        self._pool = 0

    def add(self, head: bytes, text: bytes, code: int, lineinfo: bool) -> int:
        """Enter a line with the parts `head` (pc, source line before it) and `text` (registers to memory width) and the hash
        `code`.

        How many rows it takes (two for LDGSTS and for bulk copies). Raises WrongLine.
        """
        lines = self._lines(head.decode("ascii", "replace").split(), text.decode("ascii", "replace").split(), lineinfo)
        if len(self.lines) + 2 > _MOST_STATICS:
            what = f"has more than {_MOST_STATICS:,} distinct instructions"
            raise LimitError(what, remedy="is it the trace of one kernel? Trace fewer instructions")
        first = len(self.lines)
        self._reserve(len(head) + len(text))
        at = self._pool
        self.native.pool[at : at + len(head) + len(text)] = np.frombuffer(head + text, np.uint8)
        self._pool += len(head) + len(text)
        for line in lines:
            self._enter(line, at, len(head), len(text))
        if lines[0].row.name == "LDGSTS" and len(lines) == 2:
            for k in (first, first + 1):
                self.native.rows[k, Static.PAIRED] = first + 2
        size = len(self.native.table)
        slot = code & (size - 1)
        while self.native.table[slot]:
            slot = (slot + 1) & (size - 1)
        self.native.table[slot] = first + 1
        return len(lines)

    def _lines(self, head: list[str], text: list[str], lineinfo: bool) -> list[Line]:
        try:
            at = 1 + int(text[0])
            written, opcode, read = tuple(text[1:at]), text[at], tuple(text[at + 2 : at + 2 + int(text[at + 1])])
            addressed = int(text[-1]) > 0
        except (ValueError, IndexError):  # a control character that is no blank to the parser
            raise WrongLine(f'"{" ".join(text)[:40]}" is not registers, opcode, registers and memory width') from None
        for name in (*written, *read):
            if not is_register(name):
                raise WrongLine(f'"{name[:20]}" is no register')
        if not _OPCODE.fullmatch(opcode):
            raise WrongLine(f'"{opcode[:30]}" is no opcode')
        counter, number = head[-1], head[0] if lineinfo else "0"
        if not _COUNTER.fullmatch(counter) or not _NUMBER.fullmatch(number):
            raise WrongLine(f'"{" ".join(head)[:30]}" is no program counter')
        pc, source = int(counter, 16), int(number)
        if not 0 <= source < 1 << 31:
            raise WrongLine(f"{source} is no source line")
        meaning = self._isa.meaning(opcode)
        return self._variants(pc, source, opcode, written, read, meaning, addressed)

    def _variants(
        self, pc: int, source: int, opcode: str, written: tuple[str, ...], read: tuple[str, ...], meaning: Meaning, addressed: bool
    ) -> list[Line]:
        row, base = meaning.row, opcode.split(".", maxsplit=1)[0]
        bulk = self._bulk and base in TMA
        space, access = bulk_direction(opcode) if bulk else (row.space, row.access)
        if access and space != "const" and not addressed and not bulk:
            space, access = "", ""  # the tracer gives no addresses, as for textures
        if addressed and not access and not meaning.known:
            space, access = "generic", "load" if written else "store"
        op_class = "int" if is_move_of_constant(opcode, read) else row.op_class
        size = meaning.bytes if access else 0
        if bulk and access:
            size = 32
        registers = destinations(row, opcode, written, size), sources(row, opcode, read, size)
        if self._one_register:
            registers = named(written), named(read)

        def line(space: str, access: str, op_class: str, part: int) -> Line:
            return Line(
                pc, source, opcode, *registers, op_class, space, access, size, row, meaning.known, addressed, part, (written, read)
            )

        first = line(space, access, op_class, 1 if row.name == "LDGSTS" else 0)
        if row.name == "LDGSTS" and addressed:
            return [first, line("shared", "store", "shared", 0)]
        return [first, line(space, access, op_class, 1)] if bulk and access else [first]

    def _enter(self, line: Line, at: int, head: int, text: int) -> None:
        rows = self.native.rows
        k = len(self.lines)
        rows[k] = 0
        bulk = self._bulk and line.opcode.split(".")[0] in TMA
        rows[k, [Static.PC, Static.AT, Static.HEAD, Static.TEXT]] = line.pc, at, head, text
        rows[k, Static.KIND] = Kind.BULK if bulk else Kind.MEMORY if line.has_addresses else Kind.PLAIN
        rows[k, Static.SPACE] = SPACES.get(line.space, 0) if line.access else 0
        rows[k, Static.ATOMIC] = line.access == "atomic"
        whole = self._request_bytes if line.access and line.space in ("global", "generic") else 0
        rows[k, Static.BYTES] = whole or line.bytes
        rows[k, Static.LANES] = matrix_rows(line.opcode) or 32
        exits = line.row.name in ("EXIT", "KILL")
        rows[k, Static.BRANCH] = Branch.EXIT if exits else Branch.BRANCH if line.row.op_class == "branch" else Branch.NONE
        rows[k, [Static.SUCCESSOR, Static.GUESS]] = -1
        self.lines.append(line)

    def _reserve(self, size: int) -> None:
        rows, pool, table = self.native
        if len(self.lines) + 2 > len(rows):
            rows = np.vstack((rows, np.zeros_like(rows)))
        while self._pool + size > len(pool):
            pool = np.concatenate((pool, np.zeros_like(pool)))
        if 4 * (len(self.lines) + 2) > len(table):
            table = self._rehashed(2 * len(table), pool)
        self.native = Statics(rows, pool, table)

    def _rehashed(self, size: int, pool: Bytes) -> Ints:
        table = np.zeros(size, np.int32)
        entered = set()
        for k in range(len(self.lines)):
            at, head, text = (int(self.native.rows[k, c]) for c in (Static.AT, Static.HEAD, Static.TEXT))
            if at in entered:  # the second row of a pair
                continue
            entered.add(at)
            slot = int(code_of(pool, at, at + head, at + head, at + head + text)) & (size - 1)
            while table[slot]:
                slot = (slot + 1) & (size - 1)
            table[slot] = k + 1
        return table


# -- From the runs of distinct lines that warps went through to instructions, basic blocks and paths of a trace.

class Code:
    """The instructions that were executed, in order of pc, and the basic blocks that every warp's stream is a sequence of.

    `rank` int64 [lines]: the instruction of a line, -1 if it never came. A basic block begins at a pc that was jumped to and
    behind a branch or an
    instruction that was jumped from.
    """

    def __init__(self, lines: list[Line], rows: at.Longs, fragments: at.Longs) -> None:
        executed = [k for k in range(len(lines)) if rows[k, Static.EXECUTED] > 0]
        self.order = sorted(executed, key=lambda k: (lines[k].pc, lines[k].part, k))
        self.rank = np.full(len(lines), -1, np.int64)
        self.rank[self.order] = np.arange(len(self.order))
        self.lines = [lines[k] for k in self.order]
        self._successor = rows[:, Static.SUCCESSOR]
        self._runs = [self._instructions(int(start), int(length)) for start, length in fragments]
        self.block_start = self._leaders(rows)
        self._blocks = [self._blocks_of(run) for run in self._runs]

    def _instructions(self, start: int, length: int) -> at.Longs:
        """The instructions of a fragment: each line's successor, from its first one on."""
        found = np.empty(length, np.int64)
        for k in range(length):
            found[k] = self.rank[start]
            start = int(self._successor[start])
        return found

    def _leaders(self, rows: at.Longs) -> at.Ints:
        count = len(self.order)
        leader = np.zeros(count + 1, np.bool_)
        leader[[0, count]] = True
        leader[1:][rows[self.order, Static.BRANCH] != 0] = True
        for run in self._runs:
            leader[run[0]] = leader[run[-1] + 1] = True
            jumps = np.flatnonzero(np.diff(run) != 1)
            leader[run[jumps] + 1] = leader[run[jumps + 1]] = True
        return np.flatnonzero(leader).astype(np.int32)

    def _blocks_of(self, run: at.Longs) -> at.Ints:
        """The basic blocks of a fragment, in order."""
        block = np.searchsorted(self.block_start, run, side="right") - 1
        found: at.Ints = block[self.block_start[block] == run].astype(np.int32)
        return found

    def paths(self, table: PathTable) -> PathTable:
        """The table of paths over fragments as one over basic blocks; equal runs in succession are counted once."""
        sizes = np.array([len(blocks) for blocks in self._blocks], np.int64)
        flat = np.concatenate(self._blocks) if self._blocks else np.zeros(0, np.int32)
        first = np.cumsum(sizes) - sizes
        single = sizes[table.block] == 1 if len(table.block) else np.zeros(0, np.bool_)
        times = np.where(single, 1, table.repeat).astype(np.int64)
        expanded = times * sizes[table.block] if len(table.block) else np.zeros(0, np.int64)
        entry = np.repeat(np.arange(len(table.block)), expanded)
        within = np.arange(len(entry)) - np.repeat(np.cumsum(expanded) - expanded, expanded)
        block = flat[first[table.block[entry]] + within % sizes[table.block[entry]]] if len(entry) else np.zeros(0, np.int32)
        repeat = np.where(single[entry], table.repeat[entry], 1).astype(np.int32) if len(entry) else np.zeros(0, np.int32)
        offset = np.concatenate((np.zeros(1, np.int64), np.cumsum(expanded)))[table.offset]
        return _merged(offset, block, table.lanes[entry] if len(entry) else np.zeros(0, np.uint8), repeat)

    def instructions(self) -> tuple[StaticInstruction, ...]:
        """Rows in order of pc; registers are numbered in order of their first mention."""
        numbers: dict[str, int] = {}
        rows = []
        for pc, line in enumerate(self.lines):
            written = tuple(numbers.setdefault(name, len(numbers)) for name in line.destinations)
            read = tuple(numbers.setdefault(name, len(numbers)) for name in line.sources)
            rows.append(
                StaticInstruction(
                    pc, line.opcode, line.op_class, written, read, line.space if line.access else "", line.access, line.bytes,
                    "", line.source_line, pc + 1,
                )
            )  # fmt: skip
        return tuple(rows)


def _merged(offset: at.Longs, block: at.Ints, lanes: at.Bytes, repeat: at.Ints) -> PathTable:
    """Join equal neighbours within a path."""
    if not len(block):
        return PathTable(offset, block, lanes, repeat)
    starts = np.zeros(len(block) + 1, np.bool_)
    starts[offset] = True
    same = np.zeros(len(block), np.bool_)
    same[1:] = (block[1:] == block[:-1]) & (lanes[1:] == lanes[:-1]) & ~starts[1:-1]
    kept = np.flatnonzero(~same)
    total = np.add.reduceat(repeat.astype(np.int64), kept)
    if int(total.max(initial=0)) > at.MAX_REPEAT:
        return PathTable(offset, block, lanes, repeat)
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(~same)))
    begins: at.Longs = before[offset].astype(np.int64)
    return PathTable(begins, block[kept], lanes[kept], total.astype(np.int32))
