"""The static instructions of a trace with their registers and opcodes, then basic blocks and paths."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from warpsight.base.errors import LimitError
from warpsight.isa.sass.opcodes import TMA, Meaning, SassOpcode, SassTable, bulk_direction, is_move_of_constant, matrix_rows
from warpsight.isa.sass.registers import destinations, is_register, named, sources, split_operands
from warpsight.traces.importers.layout import INSTRUCTION, MAX_REPEAT, SPACES, Branch, Bytes, Ints, Kind, Longs, Records, Space
from warpsight.traces.schema import PathTable, StaticInstruction

_MOST_INSTRUCTIONS = 1 << 22
_OPCODE = re.compile(r"[A-Z][A-Z0-9_]*(\.[A-Za-z0-9_]+)*")


@dataclass(frozen=True)
class TracedInstruction:
    """One row of the table. `part` orders the rows of one pc: LDGSTS and bulk copies have two.

    `destinations` and `sources` are all registers; `operands` are the names in the trace, one for each operand (written, read).
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
    meaning: Meaning
    addressed: bool
    part: int
    operands: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def row(self) -> SassOpcode:
        """The opcode's row in the table of opcodes."""
        return self.meaning.row

    @property
    def text(self) -> str:
        """As a disassembler writes it."""
        operands = ", ".join((*self.destinations, *self.sources))
        return f"/*{self.pc:04x}*/ {self.opcode} {operands}".rstrip()


class InvalidInstruction(Exception):
    """An instruction that does not exist: the message says why."""


class InstructionTable:
    """The distinct instructions of a kernel: `instructions`, and for compiled code `rows`, `INSTRUCTION` records.

    Without `bulk`, bulk copies have no addresses. With `request_bytes`, each address of an access to device memory stands for so
    many bytes, whatever the opcode's width. With `one_register`, a name is one register, whatever the operand's size.
    """

    def __init__(self, isa: SassTable, *, bulk: bool = True, request_bytes: int = 0, one_register: bool = False) -> None:
        self._isa, self._bulk, self._request_bytes, self._one_register = isa, bulk, request_bytes, one_register
        self.instructions: list[TracedInstruction] = []
        self.rows: Records = np.zeros(256, INSTRUCTION)

    def add_listed(self, pc: int, opcode: str, names: list[str], *, addressed: bool) -> int:
        """As `add`, for operands in the order in which a disassembler lists them. Returns the first row."""
        written, read = split_operands(self._isa.meaning(opcode).row, opcode, names)
        return self.add(pc, 0, opcode, written, read, addressed)

    def add(self, pc: int, source_line: int, opcode: str, written: tuple[str, ...], read: tuple[str, ...], addressed: bool) -> int:
        """Enter an instruction with the registers that it writes and reads; `addressed` if its executions come with addresses.

        Returns the first of its rows (two for LDGSTS and for bulk copies). Raises InvalidInstruction, LimitError.
        """
        for name in (*written, *read):
            if not is_register(name):
                raise InvalidInstruction(f'"{name[:20]}" is not a register')
        if not _OPCODE.fullmatch(opcode):
            raise InvalidInstruction(f'"{opcode[:30]}" is not an opcode')
        if not 0 <= source_line < 1 << 31:
            raise InvalidInstruction(f"{source_line} is not a source line")
        first = len(self.instructions)
        if first + 2 > _MOST_INSTRUCTIONS:
            what = f"has more than {_MOST_INSTRUCTIONS:,} distinct instructions"
            raise LimitError(what, remedy="is it the trace of one kernel? Trace fewer instructions")
        if first + 2 > len(self.rows):
            self.rows = np.concatenate((self.rows, np.zeros_like(self.rows)))
        parts = self._parts(pc, source_line, opcode, written, read, addressed)
        for part in parts:
            self._enter(part)
        if parts[0].row.name == "LDGSTS" and len(parts) == 2:
            self.rows["paired"][first : first + 2] = first + 2
        return first

    def is_bulk(self, opcode: str) -> bool:
        """Whether executions come with the fields of a bulk copy."""
        return self._bulk and opcode.split(".", maxsplit=1)[0] in TMA

    def _parts(
        self, pc: int, source_line: int, opcode: str, written: tuple[str, ...], read: tuple[str, ...], addressed: bool
    ) -> list[TracedInstruction]:
        meaning = self._isa.meaning(opcode)
        row, bulk = meaning.row, self.is_bulk(opcode)
        space, access = bulk_direction(opcode) if bulk else (row.space, row.access)
        if access and space != "const" and not addressed and not bulk:
            space, access = "", ""  # the tracer gives no addresses, as for textures
        if addressed and not access and not meaning.known:
            space, access = "generic", "load" if written else "store"
        op_class = "int" if is_move_of_constant(opcode, read) else row.op_class
        size = (32 if bulk else meaning.bytes) if access else 0
        registers = destinations(row, opcode, written, size), sources(row, opcode, read, size)
        if self._one_register:
            registers = named(written), named(read)

        first = TracedInstruction(
            pc, source_line, opcode, *registers, op_class, space, access, size, meaning, addressed, int(row.name == "LDGSTS"),
            (written, read),
        )  # fmt: skip
        if row.name == "LDGSTS" and addressed:
            return [first, replace(first, space="shared", access="store", op_class="shared", part=0)]
        return [first, replace(first, part=1)] if bulk and access else [first]

    def _enter(self, added: TracedInstruction) -> None:
        whole = self._request_bytes if added.access and added.space in ("global", "generic") else 0
        exits = added.row.name in ("EXIT", "KILL")
        row = self.rows[len(self.instructions)]
        row["kind"] = Kind.BULK if self.is_bulk(added.opcode) else Kind.ADDRESSED if added.addressed else Kind.PLAIN
        row["space"] = SPACES.get(added.space, Space.NONE) if added.access else Space.NONE
        row["atomic"] = added.access == "atomic"
        row["loads"] = added.access == "load" and not matrix_rows(added.opcode)
        row["bytes"] = whole or added.bytes
        row["lanes"] = matrix_rows(added.opcode) or 32
        row["branch"] = Branch.EXIT if exits else Branch.BRANCH if added.row.op_class == "branch" else Branch.NONE
        row["successor"] = -1
        self.instructions.append(added)


# -- From the runs of instructions that warps executed to the instructions, basic blocks and paths of a trace.

class Code:
    """The instructions that were executed, in order of pc, and the basic blocks that make up every warp's stream.

    `order` are their rows in the table; `rank` int64 [rows] the place of a row in this order, -1 if it was not executed. A basic
    block begins at a pc that was jumped to, and behind a branch or an instruction that was jumped from.
    """

    def __init__(self, table: InstructionTable, fragments: Longs) -> None:
        instructions = table.instructions
        rows = table.rows[: len(instructions)]
        self.order = sorted(
            np.flatnonzero(rows["executed"]).tolist(), key=lambda k: (instructions[k].pc, instructions[k].part, k)
        )
        self.rank = np.full(len(rows), -1, np.int64)
        self.rank[self.order] = np.arange(len(self.order))
        self.executed = [instructions[k] for k in self.order]
        self.rows = rows[self.order]
        self._successor = rows["successor"]
        self._runs = [self._instructions(int(start), int(length)) for start, length in fragments]
        self.block_start = self._leaders()
        self._blocks = [self._blocks_of(run) for run in self._runs]

    def _instructions(self, start: int, length: int) -> Longs:
        """The instructions of a fragment: from its first one on, each one's successor."""
        run = np.empty(length, np.int64)
        for k in range(length):
            run[k] = self.rank[start]
            start = int(self._successor[start])
        return run

    def _leaders(self) -> Ints:
        count = len(self.order)
        leader = np.zeros(count + 1, np.bool_)
        leader[[0, count]] = True
        leader[1:][self.rows["branch"] != 0] = True
        for run in self._runs:
            leader[run[0]] = leader[run[-1] + 1] = True
            jumps = np.flatnonzero(np.diff(run) != 1)
            leader[run[jumps] + 1] = leader[run[jumps + 1]] = True
        return np.flatnonzero(leader).astype(np.int32)

    def _blocks_of(self, run: Longs) -> Ints:
        """The basic blocks of a fragment, in order."""
        block = np.searchsorted(self.block_start, run, side="right") - 1
        entered: Ints = block[self.block_start[block] == run].astype(np.int32)
        return entered

    def paths(self, table: PathTable) -> PathTable:
        """The table of paths over fragments as one over basic blocks, with equal successive runs joined."""
        sizes = np.array([len(blocks) for blocks in self._blocks], np.int64)
        flat = np.concatenate(self._blocks)
        first = np.cumsum(sizes) - sizes
        single = sizes[table.block] == 1
        expanded = np.where(single, 1, table.repeat).astype(np.int64) * sizes[table.block]
        entry = np.repeat(np.arange(len(table.block)), expanded)
        within = np.arange(len(entry)) - np.repeat(np.cumsum(expanded) - expanded, expanded)
        block = flat[first[table.block[entry]] + within % sizes[table.block[entry]]]
        repeat = np.where(single[entry], table.repeat[entry], 1).astype(np.int32)
        offset = np.append(0, np.cumsum(expanded))[table.offset]
        return _merged(offset, block, table.lanes[entry], repeat)

    def instructions(self) -> tuple[StaticInstruction, ...]:
        """The rows of the trace, in order of pc. Registers are numbered in order of their first use."""
        numbers: dict[str, int] = {}

        def numbered(names: tuple[str, ...]) -> tuple[int, ...]:
            return tuple(numbers.setdefault(name, len(numbers)) for name in names)

        return tuple(
            StaticInstruction(
                pc, each.opcode, each.op_class, numbered(each.destinations), numbered(each.sources),
                each.space if each.access else "", each.access, each.bytes, "", each.source_line, pc + 1,
            )
            for pc, each in enumerate(self.executed)
        )  # fmt: skip


def _merged(offset: Longs, block: Ints, lanes: Bytes, repeat: Ints) -> PathTable:
    """Join equal neighbours within a path."""
    starts = np.zeros(len(block) + 1, np.bool_)
    starts[offset] = True
    same = np.zeros(len(block), np.bool_)
    same[1:] = (block[1:] == block[:-1]) & (lanes[1:] == lanes[:-1]) & ~starts[1:-1]
    kept = np.flatnonzero(~same)
    total = np.add.reduceat(repeat.astype(np.int64), kept)
    if int(total.max(initial=0)) > MAX_REPEAT:
        return PathTable(offset, block, lanes, repeat)
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(~same)))
    begins: Longs = before[offset].astype(np.int64)
    return PathTable(begins, block[kept], lanes[kept], total.astype(np.int32))
