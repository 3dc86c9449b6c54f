"""What the compiled parser of Accel-Sim's text and Python share: its place in the file, the lines it knows, and why it returns."""

from __future__ import annotations

from enum import IntEnum, auto
from pathlib import Path
from typing import NamedTuple

from warpsight.base.records import Record, dtype_of
from warpsight.traces.importers.layout import Answer, Bytes, Ints, Records, source_fingerprint


class Cursor(Record):
    """The parser's place in a file, and what it knows of the file."""

    position: int  # next byte of the buffer
    phase: int
    declared: int  # `insts =` of the warp, -1 before it is known
    previous_block: int
    # of the file
    prefix: int  # numbers before the pc (or the source line) that give block and warp
    lineinfo: int
    grid_x: int
    grid_y: int
    grid_z: int
    warps_per_block: int
    ordered: int  # 1: blocks must come in order
    final: int  # 1: the buffer holds the end of the file
    # parts of a line whose text is new
    head: int
    head_end: int
    text: int
    text_end: int
    wrong_at: int  # where something is wrong
    # fields behind the addresses: of the first memory line; how many lines have other numbers, and the first of them
    last_fields: int
    memory_lines: int
    odd_lines: int
    odd_line: int


class LineKey(Record):
    """Where the text of a line stands in the pool, and the line that is tried first behind it."""

    at: int  # where the text of a line begins in the pool
    head: int  # bytes of the part before the mask, and of the part behind it
    text: int
    guess: int  # the row that followed last, unless it is one of a pair; -1 before


CURSOR, KEY = dtype_of(Cursor), dtype_of(LineKey)


class Lines(NamedTuple):
    """The texts of distinct lines: a `KEY` record for each row of the table of instructions, the pool of their bytes, and a hash
    table of row numbers + 1 (a power of two long).
    """

    keys: Records
    pool: Bytes
    table: Ints


class Phase(IntEnum):
    """Where in a file the parser is."""

    OUTSIDE = 0
    BLOCK = auto()  # between #BEGIN_TB and the first warp
    WARP = auto()


class LineAnswer(IntEnum):
    """Why the parser returned, beside `Answer`: something to do, then what is wrong."""

    NEW_LINE = Answer.FORMAT  # a line with a text that no row has
    NEXT_LINE = auto()  # the line cannot be read without the next one
    ORDER = auto()
    NO_LINE = auto()
    NO_MASK = auto()
    FIELDS = auto()
    MODE = auto()
    ADDRESS = auto()
    TAIL = auto()
    NUMBER = auto()
    NESTED = auto()
    NOT_IN_BLOCK = auto()
    NO_BLOCK_NUMBER = auto()
    OUTSIDE_GRID = auto()
    NOT_IN_WARP = auto()
    NO_SUCH_WARP = auto()
    MISCOUNT = auto()
    BULK = auto()
    TWICE = auto()
    NO_COUNT = auto()
    PREFIX = auto()
    STRIDE = auto()


MOST_BULK_ADDRESSES = 1 << 16
MOST_BULK_PIECE = 1 << 18
FINGERPRINT = source_fingerprint(Path(__file__).resolve().parent)
