"""A trace of another format as the text that the reader of grouped traces takes (Accel-Sim's form), piece by piece.

The reader's rules for sectors, banks, registers and opcodes then hold for every format, and an error still has the place in the
file that the line came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from warpsight.isa.sass.opcodes import SassTable
from warpsight.isa.sass.registers import split_operands

ALL_LANES = 0xFFFFFFFF
_KEPT = 3


@dataclass(frozen=True)
class Piece:
    """Some lines, each with its line feed; `place` says of the k-th, from 0, where it came from."""

    text: bytes
    place: Callable[[int], str]


class PieceText:
    """The text that pieces add up to (`accelsim.parser.Text`)."""

    ordered = True

    def __init__(self, pieces: Iterable[Piece], path: str) -> None:
        self._pieces, self._path = pieces, path
        self._last: list[tuple[int, int, Piece]] = []  # first line, lines

    def __iter__(self) -> Iterator[bytes]:
        given = 0
        for piece in self._pieces:
            count = piece.text.count(b"\n")
            self._last = [*self._last[1 - _KEPT :], (given, count, piece)]
            given += count
            yield piece.text

    def place(self, line: int) -> str:
        """Where the line came from that was given as number `line`, from 1."""
        for first, count, piece in self._last:
            if first < line <= first + count:
                return piece.place(line - 1 - first)
        return self._path


def block_begins(grid: tuple[int, int, int], number: int) -> bytes:
    """The lines that begin a block."""
    x, y, _ = grid
    return f"#BEGIN_TB\nthread block = {number % x},{number // x % y},{number // (x * y)}\n".encode()


BLOCK_ENDS = b"#END_TB\n"
WARP_LINES = 2


def warp_begins(warp: int, count: int) -> bytes:
    """The `WARP_LINES` lines that begin a warp."""
    return f"warp = {warp}\ninsts = {count}\n".encode()


def lanes_of_warp(warp: int, threads: int) -> int:
    """Mask of the lanes that a warp of a block of `threads` has."""
    left = threads - 32 * warp
    return ALL_LANES if left >= 32 else (1 << left) - 1


class LineForm:
    """The parts of an instruction's line: (before the mask, behind it). Behind an access follow its addresses."""

    def __init__(self, isa: SassTable) -> None:
        self._isa = isa

    def of(self, pc: int, opcode: str, names: list[str], *, addressed: bool) -> tuple[bytes, bytes]:
        """Of one instruction; `names` are its operands as a disassembler orders them."""
        written, read = split_operands(self._isa.meaning(opcode).row, opcode, names)
        group = " 0" if opcode[1:5] == "GMMA" else ""
        tail = " ".join([str(len(written)), *written, opcode, str(len(read)), *read])
        return f"{pc:04x} ".encode(), f" {tail}{group} {4 if addressed else 0}".encode()


def masked(form: tuple[bytes, bytes], mask: int, addresses: bytes = b"") -> bytes:
    """The whole line of a form, with its line feed."""
    return b"%s%08x%s%s\n" % (form[0], mask, form[1], addresses)


def listed(form: tuple[bytes, bytes], count: int, addresses: bytes) -> bytes:
    """The line of an access with a list of `count` addresses, blanks between them; they are given to the first lanes."""
    return masked(form, (1 << count) - 1, b" 0 " + addresses)
