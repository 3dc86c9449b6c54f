"""Executed instructions become streams of whole thread blocks: path entries, event bytes and sectors of each warp.

A path entry is a *fragment*, a straight run of instructions, with its active lanes. Fragments become basic blocks when all of the
trace has been read (`instructions.Code`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from warpsight.base.errors import LimitError, WarpsightError
from warpsight.traces.importers.accesses import add_event, fill_lanes, population
from warpsight.traces.importers.instructions import InstructionTable
from warpsight.traces.importers.launch import KernelHeader, damaged
from warpsight.traces.importers.layout import (
    FINISHED,
    LANES_SHIFT,
    LOCAL_PAGE_ROWS,
    LOCAL_WINDOW_BYTES,
    MAX_REPEAT,
    MOST_FRAGMENTS,
    MOST_SECTORS,
    REGION_LIMIT,
    SHARED_WINDOW_BYTES,
    STATE,
    AddressMap,
    Branch,
    Bytes,
    Fragments,
    Longs,
    Output,
    Records,
    Scratch,
    Status,
    StreamState,
    Words,
    compiled_and_kept,
    inlined,
)

_ENTRIES, _EVENTS, _SECTORS, _WARPS = 1 << 19, 1 << 21, 1 << 21, 1 << 16  # room at the start
_MOST_GROWTH = 1 << 27
_LIMITS = {
    Status.REGIONS: "the kernel's addresses lie in more than 255 regions of 256 MiB, more than a trace can number",
    Status.TOO_MANY_FRAGMENTS: "the kernel has more than 16 million distinct runs of instructions",
}
_DAMAGE = {
    Status.LOCAL_WINDOW: "the address of a local access is not in a window of local memory",
    Status.SECTOR_COUNT: f"one access touches more than {MOST_SECTORS} sectors",
}


def refusal(status: Status, place: str, text: str) -> WarpsightError:
    """The error for `status` at `place`, where the instruction `text` stands."""
    if status in _LIMITS:
        return LimitError(_LIMITS[status], place=place, remedy="trace fewer instructions or a smaller launch")
    return damaged(f"{_DAMAGE[status]}: {shortened(text)!r}", place)


def shortened(text: str) -> str:
    """At most 70 characters of a line."""
    return text if len(text) <= 70 else f"{text[:67]}..."


# -- Compiled: fragments and path entries.


@inlined
def fragment_number(start: int, length: int, st: StreamState, fragments: Any) -> Any:
    """The number of a fragment, a new one if necessary. The caller has made room."""
    size = len(fragments.table)
    slot = (start * 40503 + length * 2654435761) & (size - 1)
    while fragments.table[slot] != 0:
        number = fragments.table[slot] - 1
        if fragments.rows[number, 0] == start and fragments.rows[number, 1] == length:
            return np.int64(number)
        slot = (slot + 1) & (size - 1)
    number = st.fragments
    fragments.rows[number, 0] = start
    fragments.rows[number, 1] = length
    fragments.table[slot] = number + 1
    st.fragments = number + 1
    return number


@inlined
def close_fragment(st: StreamState, fragments: Any, out: Any) -> None:
    """Append the running fragment to the warp's entries, or count one more repetition."""
    if st.fragment_length == 0:
        return
    number = fragment_number(st.fragment_start, st.fragment_length, st, fragments)
    key = np.uint32(number | st.fragment_lanes << LANES_SHIFT)
    entry = st.entries
    st.fragment_length = 0
    st.fragment_lanes = 0
    if entry > st.first_entry and out.entries[entry - 1, 0] == key and out.entries[entry - 1, 1] < MAX_REPEAT:
        out.entries[entry - 1, 1] += 1
        return
    out.entries[entry, 0] = key
    out.entries[entry, 1] = 1
    st.entries = entry + 1


@inlined
def count_instruction(number: int, lanes: int, st: StreamState, rows: Any, fragments: Any, out: Any) -> None:
    """Add one execution to the warp's stream. The running fragment continues if the instruction follows in a straight line.

    An exit is a fragment of its own, so that the number of lanes that exit is known.
    """
    last = st.last
    if st.fragment_length > 0:
        continues = False
        if not rows[last].branch:
            if rows[last].successor < 0:
                rows[last].successor = number
            continues = rows[last].successor == number and rows[number].branch != Branch.EXIT
        if not continues:
            close_fragment(st, fragments, out)
    if st.fragment_length == 0:
        st.fragment_start = number
    st.fragment_length += 1
    st.fragment_lanes = max(st.fragment_lanes, lanes)
    rows[number].executed += 1
    rows[number].lane_sum += lanes
    st.last = number
    st.executed += 1


@inlined
def is_full(st: StreamState, out: Any) -> Any:
    """Whether the next instruction may lack room: at most 3 event bytes, 512 sectors, an entry and two records."""
    streams = len(out.events) - st.events < 4096 or len(out.sectors) - st.sectors < 4096
    return streams or len(out.entries) - st.entries < 2048 or len(out.warps) - st.warps < 4


@inlined
def lacks_fragments(st: StreamState, fragments: Any) -> Any:
    """`Status.DONE`, or the status where the tables of fragments are nearly full."""
    if 2 * st.fragments + 4096 > len(fragments.table) or st.fragments + 2048 > len(fragments.rows):
        return np.int64(Status.FRAGMENTS_FULL if st.fragments + 4096 < MOST_FRAGMENTS else Status.TOO_MANY_FRAGMENTS)
    return np.int64(Status.DONE)


@inlined
def add_finished(warp: int, st: StreamState, out: Any) -> None:
    """Record where a finished warp's streams end; of warp -1, where a block ends."""
    ended = out.warps[st.warps]
    ended.block, ended.warp, ended.line, ended.executed = st.block, warp, st.line, st.executed
    ended.entries, ended.events, ended.sectors = st.entries, st.events, st.sectors
    st.warps += 1


@inlined
def start_warp(warp: int, st: StreamState) -> None:
    """Make `warp` the running one; -1: none runs."""
    st.warp, st.executed, st.last = warp, 0, -1
    st.first_entry = st.entries


@inlined
def copy_part(number: int, first: int, st: StreamState, rows: Any) -> Any:
    """The row of an LDGSTS whose first address is `first`: the store to shared memory, or the load from device memory."""
    base = st.shared_base
    inside = first < st.shared_bytes or (base > 0 and base <= first < base + st.shared_bytes)
    return rows[number].paired - 1 if inside else number


# -- Compiled: the streams of one warp, given as arrays.


class WarpArrays(NamedTuple):
    """A warp's n instructions: `row` int64 [n] in the table, `mask` int64 [n], and `address` int64, of instruction k
    `address[first[k] : first[k + 1]]`, one for each active lane.
    """

    row: Longs
    mask: Longs
    first: Longs
    address: Longs


@compiled_and_kept
def read_warp(
    warp: WarpArrays, start: int, st: StreamState, rows: Records, fragments: Fragments, out: Output, places: AddressMap,
    scratch: Scratch,
) -> Any:  # fmt: skip
    """Read the running warp from instruction `start` on. Returns (why it stopped, the next instruction)."""
    k = start
    while True:
        if is_full(st, out):
            return np.int64(Status.FULL), k
        status = lacks_fragments(st, fragments)
        if status:
            return status, k
        if k == len(warp.row):
            close_fragment(st, fragments, out)
            return np.int64(Status.DONE), k
        number, mask = warp.row[k], warp.mask[k]
        if rows[number].kind:
            count = fill_lanes(mask, scratch)
            for lane in range(count):
                scratch.address[lane] = warp.address[warp.first[k] + lane]
            if rows[number].paired and count:
                number = copy_part(number, scratch.address[0], st, rows)
            if rows[number].space:
                sectors, events = st.sectors, st.events
                status = add_event(rows[number], count, st, out, places, scratch)
                if status:
                    st.sectors, st.events = sectors, events
                    return status, k
        count_instruction(number, population(mask), st, rows, fragments, out)
        st.line += 1
        k += 1


@compiled_and_kept
def end_warp(warp: int, st: StreamState, out: Any) -> None:
    """End the running warp, or with -1 the running block."""
    add_finished(warp, st, out)
    start_warp(-1, st)


# -- The buffers, and the two kinds of producers that fill them: a format's own text parser, or arrays.


@dataclass(frozen=True)
class BlockStreams:
    """The warps of some whole blocks, in the order of the trace: `FINISHED` records with the ends of their streams."""

    warps: Records
    entries: Words
    events: Bytes
    sectors: Words


class StreamBuffer:
    """Outputs and tables of the compiled loops. They grow, and complete blocks are taken out of them."""

    def __init__(self, header: KernelHeader) -> None:
        self.fragments = Fragments(np.zeros((1 << 13, 2), np.int64), np.zeros(1 << 14, np.int64))
        pages = LOCAL_WINDOW_BYTES // (4 * LOCAL_PAGE_ROWS) + 2
        self.places = AddressMap(np.zeros(REGION_LIMIT, np.int64), np.zeros((pages, 2), np.int64))
        self.out = Output(
            np.zeros((_ENTRIES, 2), np.uint32), np.zeros(_EVENTS, np.uint8), np.zeros(_SECTORS, np.uint32),
            np.zeros(_WARPS, FINISHED),
        )  # fmt: skip
        self.scratch = Scratch(*(np.zeros(shape, np.int64) for shape in (32, 32, 128, 4, (32, 2), (32, 2))))
        self._state = np.zeros(1, STATE)
        self.state: Any = self._state[0]  # a view, which compiled code takes
        for name in ("block", "warp", "last", "region"):
            self.state[name] = -1
        self.state["shared_base"], self.state["local_base"] = header.shared_base, header.local_base
        # The blocks of a cluster (sm_90 and up, at most 16) have their shared memory side by side in the window.
        self.state["shared_bytes"] = SHARED_WINDOW_BYTES * (16 if header.binary >= 90 else 1)
        self._stuck = -1

    def more_fragments(self) -> None:
        """Make the tables of fragments four times as large."""
        rows, old = self.fragments
        table = np.zeros(4 * len(old), np.int64)
        for number in range(int(self.state["fragments"])):
            start, length = rows[number].tolist()
            slot = (start * 40503 + length * 2654435761) & (len(table) - 1)
            while table[slot]:
                slot = (slot + 1) & (len(table) - 1)
            table[slot] = number + 1
        self.fragments = Fragments(np.concatenate((rows, np.zeros((3 * len(rows), 2), np.int64))), table)

    def drained(self) -> Iterator[BlockStreams]:
        """Take out the blocks that are complete. What is left moves to the front."""
        out, st = self.out, self.state
        ends = np.flatnonzero(out.warps["warp"][: st["warps"]] < 0)
        if not len(ends):
            return
        complete = int(ends[-1]) + 1
        done = out.warps[:complete].copy()
        sizes = {name: int(done[name][-1]) for name in ("entries", "events", "sectors")}
        yield BlockStreams(done, *(getattr(out, name)[:size].copy() for name, size in sizes.items()))
        for name, size in sizes.items():
            stream, kept = getattr(out, name), int(st[name]) - size
            stream[:kept] = stream[size : size + kept].copy()
            st[name] = kept
        st["first_entry"] = max(0, int(st["first_entry"]) - sizes["entries"])
        left = int(st["warps"]) - complete
        out.warps[:left] = out.warps[complete : complete + left].copy()
        for name, size in sizes.items():
            out.warps[name][:left] -= size
        st["warps"] = left

    def make_room(self, place: str) -> None:
        """Double the streams that one block fills by half, or all if one instruction needs it. Raises LimitError at `place`."""
        st = self.state
        stuck = self._stuck == int(st["line"])
        self._stuck = int(st["line"])
        parts = self.out._asdict()
        for name, stream in parts.items():
            if stuck or 2 * int(st[name]) > len(stream):
                if len(stream) > _MOST_GROWTH:
                    what = "one thread block has more instructions than can be held in memory at a time"
                    raise LimitError(what, place=place, remedy="trace fewer instructions of each block")
                parts[name] = np.concatenate((stream, np.zeros_like(stream)))
        self.out = Output(**parts)


class Producer(Protocol):
    """Reads one launch. `streams` gives its blocks in order; afterwards `buffer` and `table` hold what all of them share."""

    buffer: StreamBuffer
    table: InstructionTable

    def streams(self) -> Iterator[BlockStreams]:
        """The launch in parts of whole blocks. Raises FormatError with file and line, LimitError."""

    def place(self, line: int) -> str:
        """Where line `line` (from 1) of the trace is."""


@dataclass(frozen=True)
class WarpStream:
    """What warp `warp` of block `block` executed; `place(k)` says where its instruction k stands in the files."""

    block: int
    warp: int
    arrays: WarpArrays
    place: Callable[[int], str]


class ArrayProducer:
    """Reads warps given as arrays, in order of their blocks; `path` is the file that errors about all of it name."""

    def __init__(self, header: KernelHeader, table: InstructionTable, warps: Iterable[WarpStream], path: Path) -> None:
        self.buffer, self.table = StreamBuffer(header), table
        self._header, self._warps, self._path = header, warps, path

    def place(self, line: int) -> str:
        """The file."""
        return str(self._path)

    def streams(self) -> Iterator[BlockStreams]:
        """As `Producer.streams`."""
        buffer, block = self.buffer, -1
        for stream in self._warps:
            if stream.block != block and block >= 0:
                end_warp(-1, buffer.state, buffer.out)
            if stream.block < block:
                raise ValueError(f"block {stream.block} comes after block {block}")
            block = stream.block
            yield from self._read(stream)
        if block >= 0:
            end_warp(-1, buffer.state, buffer.out)
        yield from buffer.drained()

    def _check(self, stream: WarpStream) -> None:
        """Refuse what the launch does not have: compiled code reads the arrays without checks."""
        launch, arrays = self._header, stream.arrays
        if not (0 <= stream.block < launch.blocks and 0 <= stream.warp < launch.warps_per_block):
            shape = f"{launch.blocks:,} blocks of {launch.warps_per_block} warps"
            message = f"warp {stream.warp} of block {stream.block}, but the launch has {shape}"
            raise damaged(message, stream.place(0))
        lanes, addresses = np.bitwise_count(arrays.mask), np.diff(arrays.first)
        accesses = self.table.rows["kind"][arrays.row] != 0
        wrong = (arrays.mask >> 32 != 0) | (accesses & (addresses != lanes))
        if wrong.any():
            k = int(wrong.argmax())
            raise damaged(f"{addresses[k]} addresses for {lanes[k]} active lanes", stream.place(k))

    def _read(self, stream: WarpStream) -> Iterator[BlockStreams]:
        self._check(stream)
        buffer, k = self.buffer, 0
        buffer.state["block"] = stream.block
        buffer.state["epoch"] += 1
        while True:
            status, k = read_warp(
                stream.arrays, k, buffer.state, self.table.rows, buffer.fragments, buffer.out, buffer.places, buffer.scratch
            )
            if status == Status.DONE:
                break
            if status == Status.FRAGMENTS_FULL:
                buffer.more_fragments()
            elif status == Status.FULL:
                yield from buffer.drained()
                buffer.make_room(stream.place(min(k, len(stream.arrays.row) - 1)))
            else:
                raise refusal(Status(status), stream.place(k), self.table.instructions[int(stream.arrays.row[k])].text)
        end_warp(stream.warp, buffer.state, buffer.out)


def lanes_of_warp(warp: int, threads: int) -> int:
    """Mask of the lanes that a warp of a block of `threads` has."""
    left = threads - 32 * warp
    return 0xFFFFFFFF if left >= 32 else (1 << left) - 1


def ranges(first: Longs, size: Longs) -> Longs:
    """The indices first[0] .. first[0] + size[0] - 1, first[1] .. and so on, int64."""
    before = np.cumsum(size) - size
    return np.repeat(np.asarray(first, np.int64) - before, size) + np.arange(int(size.sum()), dtype=np.int64)
