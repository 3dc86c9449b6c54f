"""The distinct lines of a trace: what each says once, its registers and what its opcode means."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from warpsight.base.errors import LimitError
from warpsight.isa.sass.registers import destinations, is_register, named, sources
from warpsight.isa.sass.semantics import Meaning, SassTable, bulk_direction, is_move_of_constant
from warpsight.isa.sass.table import TMA, SassOpcode
from warpsight.isa.sass.width import matrix_rows
from warpsight.trace.importers.accelsim.layout import SPACES, Branch, Bytes, Ints, Kind, Static, Statics

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
        from warpsight.trace.importers.accelsim.native_text import code_of

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
