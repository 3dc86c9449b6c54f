"""What the compiled parser of Accel-Sim's text and Python share: its place in the file, the lines it knows, and why it returns."""

from __future__ import annotations

from enum import IntEnum, auto
from pathlib import Path
from typing import NamedTuple

from warpsight.traces.importers.layout import Answer, Bytes, Ints, Records, record, source_fingerprint

CURSOR = record(
    "position",  # next byte of the buffer
    "phase",
    "declared",  # `insts =` of the warp, -1 before it is known
    "previous_block",
    # of the file
    "prefix",  # numbers before the pc (or the source line) that give block and warp
    "lineinfo",
    "grid_x",
    "grid_y",
    "grid_z",
    "warps_per_block",
    "ordered",  # 1: blocks must come in order
    "final",  # 1: the buffer holds the end of the file
    # parts of a line whose text is new
    "head",
    "head_end",
    "text",
    "text_end",
    "wrong_at",  # where something is wrong
    # fields behind the addresses: of the first memory line; how many lines have other numbers, and the first of them
    "last_fields",
    "memory_lines",
    "odd_lines",
    "odd_line",
)
KEY = record(
    "at",  # where the text of a line begins in the pool
    "head",  # bytes of the part before the mask, and of the part behind it
    "text",
    "guess",  # the row that followed last, unless it is one of a pair; -1 before
)


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
