"""Tables and state that Python and the compiled loops of the importers share, and how those loops are compiled."""

from __future__ import annotations

from enum import IntEnum, auto
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import Compiled, jit
from warpsight.base.records import Record, dtype_of

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
Records = npt.NDArray[np.void]

# The run time of Numba (_nrt) would count references to every array that is passed on, which took four fifths of the time. None of
# these functions allocates memory.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
compiled = jit(**_OPTIONS)  # called by compiled code only
# kept on disk until one of these folders changes
compiled_and_kept: Any = partial(Compiled, sources=("base", "traces/importers"), **_OPTIONS, cache=True)
inlined = jit(**_OPTIONS, forceinline=True)


class StreamState(Record):
    """Where the streams of a launch are while they are read."""

    line: int  # lines, or instructions, read so far: the position that error messages name
    block: int  # linear number, x fastest; -1 before it is known
    warp: int  # the running warp, -1 if there is none
    executed: int  # its instructions so far
    last: int  # row of its last instruction, -1 before the first
    fragment_start: int  # the running fragment: its first row, its length and its most active lanes
    fragment_length: int
    fragment_lanes: int
    first_entry: int  # where the running warp's entries begin
    entries: int  # used length of each output
    events: int
    sectors: int
    warps: int
    fragments: int
    regions: int  # regions of addresses in use; the one looked up last and its index
    region: int
    region_index: int
    local_pages: int  # pages of local memory handed out over the launch
    epoch: int  # number of the running warp, from 1: marks the entries of the page table that are its own
    shared_base: int  # windows of the generic address space; 0 if unknown
    shared_bytes: int
    local_base: int


class InstructionRow(Record):
    """What compiled code knows of an instruction."""

    kind: int
    space: int
    atomic: int
    loads: int  # reads without writing, and not rows of matrices
    bytes: int  # per address
    lanes: int  # lanes that count (matrix loads), else 32
    branch: int
    paired: int  # LDGSTS: 1 + the row of its store to shared memory, else 0
    successor: int  # the row that followed first in a straight line; -1 before
    executed: int
    lane_sum: int


class FinishedWarp(Record):
    """Where the streams of a warp end; of warp -1, where a block ends."""

    block: int
    warp: int
    entries: int
    events: int
    sectors: int
    line: int
    executed: int


STATE, INSTRUCTION, FINISHED = dtype_of(StreamState), dtype_of(InstructionRow), dtype_of(FinishedWarp)


class Status(IntEnum):
    """Why a compiled loop returned. A format's own statuses begin at `FORMAT`."""

    DONE = 0  # everything that was passed is read
    FULL = auto()  # no room for the next instruction
    FRAGMENTS_FULL = auto()
    REGIONS = auto()
    LOCAL_WINDOW = auto()
    SECTOR_COUNT = auto()
    TOO_MANY_FRAGMENTS = auto()
    FORMAT = 100


class Kind(IntEnum):
    """What an execution comes with: nothing, an address for each active lane, or the fields of a bulk copy."""

    PLAIN = 0
    ADDRESSED = auto()
    BULK = auto()


class Branch(IntEnum):
    """Whether other lanes may take another path after an instruction."""

    NONE = 0
    BRANCH = auto()
    EXIT = auto()


class Space(IntEnum):
    """The memory space of an access. NONE also for one that makes no event."""

    NONE = 0
    GLOBAL = auto()
    SHARED = auto()
    LOCAL = auto()
    GENERIC = auto()


SPACES = {space.name.lower(): space for space in Space if space}


class Fragments(NamedTuple):
    """Distinct straight runs of instructions: int64 [n, 2] (first row, length), and a hash table of their numbers + 1."""

    rows: Longs
    table: Longs


class Output(NamedTuple):
    """What has been read: entries uint32 [n, 2] (fragment | lanes << 24, repeat), event bytes, sectors, and `FINISHED` records.

    A record ends a warp's streams; one of warp -1 ends a block.
    """

    entries: Words
    events: Bytes
    sectors: Words
    warps: Records


class AddressMap(NamedTuple):
    """Regions of addresses [REGION_LIMIT], in order of first use; the warp's local pages [pages, 2]: epoch, page of the trace."""

    regions: Longs
    pages: Longs


class Scratch(NamedTuple):
    """Work space for one instruction, int64: addresses and lanes [32], words [128], parts [4], banks and saved lanes [32, 2]."""

    address: Longs
    lane: Longs
    words: Longs
    parts: Longs
    banks: Longs
    saved: Longs


LANES_SHIFT = 24
MAX_REPEAT = 0x7FFFFFFF
MOST_FRAGMENTS = 1 << LANES_SHIFT
MOST_SECTORS = 255  # an event counts them in a byte
ALL_LANES = 0xFFFFFFFF

# 64-bit addresses become 32-bit sector numbers. Regions of 256 MiB are numbered in order of their first use and fill the first
# 64 GiB, except the first region. Local memory lies beyond, interleaved word by word, in pages of 512 bytes a lane (16 KiB a warp).
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
