"""What the compiled parser and Python share: the slots of its state, its tables, and its answers. Defined here, once, for both."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]


class Slot(IntEnum):
    """Index of an int64 in the state."""

    POS = 0  # next byte of the buffer
    LINE = auto()  # line ends that have been passed
    PHASE = auto()
    BLOCK = auto()  # linear number, x-fastest; -1 before it is known
    WARP = auto()
    DECLARED = auto()  # `insts =` of the warp, -1 before it is known
    GOT = auto()  # its lines so far
    LAST = auto()  # static number of its last line, -1 before the first
    FRAGMENT_START = auto()  # static number that the running fragment begins with
    FRAGMENT_LENGTH = auto()
    FRAGMENT_LANES = auto()
    FIRST_ENTRY = auto()  # where the running warp's entries begin
    ENTRIES = auto()
    EVENTS = auto()
    SECTORS = auto()
    ROWS = auto()
    FRAGMENTS = auto()
    STATICS = auto()
    REGIONS = auto()
    REGION = auto()  # the region looked up last, and its place
    REGION_PLACE = auto()
    LOCAL_NEXT = auto()  # local pages given out, over the launch
    EPOCH = auto()  # number of the running warp, from 1: which marks of the page table are its own
    PREVIOUS_BLOCK = auto()
    # what is known of the file
    PREFIX = auto()  # numbers before the pc (or the source line) that say block and warp
    LINEINFO = auto()
    SHARED_BASE = auto()
    SHARED_BYTES = auto()
    LOCAL_BASE = auto()
    GRID_X = auto()
    GRID_Y = auto()
    GRID_Z = auto()
    WARPS_PER_BLOCK = auto()
    ORDERED = auto()  # 1: blocks must come in order
    FINAL = auto()  # 1: the buffer holds the end of the file
    # where a line's parts are, for a line that is new, and where something is wrong
    HEAD = auto()
    HEAD_END = auto()
    TEXT = auto()
    TEXT_END = auto()
    MASK = auto()
    WRONG_AT = auto()
    SECOND = auto()  # 1: the line is the second one of an LDGSTS
    # how many fields follow the addresses: of the first memory line, how many lines have others, and the first of these
    LAST_FIELDS = auto()
    MEMORY_LINES = auto()
    ODD_LINES = auto()
    ODD_LINE = auto()
    COUNT = auto()


class Phase(IntEnum):
    """Where in a file the parser is."""

    OUTSIDE = 0
    BLOCK = auto()  # between #BEGIN_TB and the first warp
    WARP = auto()


class Answer(IntEnum):
    """Why the parser came back. From `WRONG` on, what is wrong."""

    MORE = 0  # all complete lines are read
    NEW_LINE = auto()  # a line with a text that no table row has
    FULL = auto()  # no room for the next line
    FRAGMENTS_FULL = auto()
    WRONG = auto()
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
    ORDER = auto()
    REGIONS = auto()
    LOCAL_WINDOW = auto()
    BULK = auto()
    SECTOR_COUNT = auto()
    TWICE = auto()
    TOO_MANY_FRAGMENTS = auto()
    NO_COUNT = auto()
    PREFIX = auto()
    STRIDE = auto()


class Kind(IntEnum):
    """Which fields follow a line's text."""

    PLAIN = 0
    MEMORY = auto()
    BULK = auto()


class Branch(IntEnum):
    """Whether other lanes may go another way after an instruction."""

    NONE = 0
    BRANCH = auto()
    EXIT = auto()


class Space(IntEnum):
    """Where an access goes. NONE also for one that leaves no event."""

    NONE = 0
    GLOBAL = auto()
    SHARED = auto()
    LOCAL = auto()
    GENERIC = auto()


SPACES = {"global": Space.GLOBAL, "shared": Space.SHARED, "local": Space.LOCAL, "generic": Space.GENERIC}


class Static(IntEnum):
    """Column of `Statics.rows`."""

    PC = 0
    AT = auto()  # where its key begins in the pool
    HEAD = auto()  # bytes of the part before the mask, and of the part behind it
    TEXT = auto()
    KIND = auto()
    SPACE = auto()
    ATOMIC = auto()
    BYTES = auto()
    LANES = auto()  # lanes that count (matrix loads), else 32
    BRANCH = auto()
    PAIRED = auto()  # LDGSTS: 1 + its other variant, else 0
    SUCCESSOR = auto()  # the static that followed it first, in a straight line; -1 before
    GUESS = auto()  # the static that followed it last
    EXECUTED = auto()
    LANE_SUM = auto()
    WIDTH = auto()


class Row(IntEnum):
    """Column of the rows of finished warps. WARP is -1 in the row that ends a block."""

    BLOCK = 0
    WARP = auto()
    ENTRIES = auto()
    EVENTS = auto()
    SECTORS = auto()
    LINE = auto()
    INSTRUCTIONS = auto()
    WIDTH = auto()


class Statics(NamedTuple):
    """Distinct lines: their numbers, the bytes of their keys, and a hash table of row numbers + 1 (a power of two long)."""

    rows: Longs
    pool: Bytes
    table: Ints


class Fragments(NamedTuple):
    """Distinct straight runs of instructions: (first static, length), and a hash table of row numbers + 1."""

    rows: Longs
    table: Longs


class Out(NamedTuple):
    """What has been read: entries (fragment | lanes << 24, repeat), event bytes, sectors, and a row per finished warp."""

    entries: Words
    events: Bytes
    sectors: Words
    rows: Longs


class Places(NamedTuple):
    """Regions of addresses, int64 [REGION_LIMIT] in the order of their places, and the running warp's local pages, int64
    [pages, 2] (mark, place).
    """

    regions: Longs
    pages: Longs


class Scratch(NamedTuple):
    """Work space of one line: addresses and lanes int64 [32], words int64 [128], a line's parts int64 [4], banks and lanes
    that are kept int64 [32, 2].
    """

    address: Longs
    lane: Longs
    words: Longs
    parts: Longs
    banks: Longs
    kept: Longs


LANES_SHIFT = 24
MAX_REPEAT = 0x7FFFFFFF
MOST_FRAGMENTS = 1 << LANES_SHIFT
MOST_SECTORS = 255  # an event counts them in a byte

# Addresses of 64 bits are kept as 32-bit sector numbers: regions of 256 MiB get places in the order of their first use, the first
# 64 GiB
# without the first region; beyond them lies local memory, interleaved word by word, in pages of 512 bytes a lane (16 KiB a warp).
REGION_SHIFT = 28
FIRST_REGION = 1
REGION_LIMIT = 256
LOCAL_TRACE_SECTOR = 1 << 31
LOCAL_PAGE_ROWS = 128
LOCAL_PAGE_SECTORS = 4 * LOCAL_PAGE_ROWS
LOCAL_PAGES = (1 << 31) // LOCAL_PAGE_SECTORS
LOCAL_WINDOW_BYTES = 1 << 24
SHARED_WINDOW_BYTES = 1 << 24
ADDRESS_LIMIT = 1 << 57  # the virtual addresses of GPUs to date have 49 to 57 bits
MOST_BULK_ADDRESSES = 1 << 16
MOST_BULK_PIECE = 1 << 18
