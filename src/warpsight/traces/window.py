"""A sliding window over a trace: the chunks that resident warps have yet to consume, or whose blocks are still to be launched.

Simulations that keep the place of each resident warp in its streams read a trace of any size through it in bounded memory. Chunks
stay where they are: a warp is never moved, and a chunk is dropped once none of its warps is resident.

Compiled code reads the streams by address and does not know where a chunk ends. It stays within the streams of a warp, as far as
these are said to go. That they lie within their chunk is checked here, before compiled code sees them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import compiled, jit
from warpsight.base.errors import FormatError
from warpsight.base.records import Record, UInt32, dtype_of, fields_of
from warpsight.traces.events import sectors_of_event
from warpsight.traces.packing import Loop, memory_rows
from warpsight.traces.path_store import pieces
from warpsight.traces.schema import KernelTrace, TraceChunk, TraceHeader

Rows = npt.NDArray[Any]


class WindowWarp(Record):
    """The path and the streams of a warp of the window: a line of the host's caches."""

    entry: UInt32  # of its path
    end: UInt32
    event: int
    event_end: int
    sector: int
    sector_end: int  # as if its loop were not packed
    loop: Loop  # of packed streams


def block_order(header: TraceHeader) -> npt.NDArray[np.int64]:
    """The numbers of the blocks in the order in which a GPU starts them, empty where this is the order of their numbers."""
    return np.asarray(header.block_at(np.arange(0 if header.starts_in_order else header.recorded_blocks)), np.int64)


class _HeldChunk(NamedTuple):
    """A chunk of which warps up to `end` are resident or not launched."""

    end: int
    events: npt.NDArray[np.uint8]
    sectors: npt.NDArray[np.uint32]


class TraceWindow:
    """`warps` (structured as `WindowWarp`), `events` and `sectors` are what a simulation reads.

    The first row is that of warp `first`, the first not launched when the window was last moved; warps before `end` are in it.
    `events` and `sectors` are only origins: an index is the distance in memory to an item of some chunk, and can be negative.
    A simulation that can read `packed` streams gets those. Raises FormatError for paths that name what is not there.
    """

    def __init__(self, trace: KernelTrace, *, packed: bool = False) -> None:
        self._trace = trace
        self._chunks: Iterator[TraceChunk] = trace.chunks.packed() if packed else iter(trace.chunks)
        self._held: list[_HeldChunk] = []
        self._path_offset = np.asarray(trace.paths.offset, np.int64)
        self._rows = memory_rows(trace.instructions, trace.block_start)
        self._refuse_wrong_paths()
        self.first = self.end = 0
        self.warps: Rows = np.zeros(0, dtype_of(WindowWarp))
        self.events = np.zeros(1, np.uint8)
        self.sectors = np.zeros(1, np.uint32)

    def _next_chunk(self) -> TraceChunk:
        chunk = next(self._chunks, None)
        if chunk is not None and chunk.first_warp == self.end:
            return chunk
        what = f"ends after warp {self.end} of {self._trace.header.warps}"
        if chunk is not None:
            what = f"continues with warp {chunk.first_warp} where warp {self.end} should follow"
        raise _refusal(self._trace, f"the trace {what}")

    def _refuse_wrong_paths(self) -> None:
        offset, table, blocks = self._path_offset, self._trace.paths, len(self._trace.block_start) - 1
        if not len(offset) or offset[0] < 0 or offset[-1] > min(len(table.block), len(table.lanes), len(table.repeat)):
            raise _refusal(self._trace, f"the trace has paths outside of their {len(table.block)} entries")
        if bool((np.diff(offset) < 0).any()) or not all(_within(each.block, blocks) for _, each in pieces(table)):
            raise _refusal(self._trace, f"the trace has paths that do not divide their entries, or leave its {blocks} basic blocks")

    def _refuse_outside(self, chunk: TraceChunk) -> None:
        """Raises FormatError for a chunk whose offsets, paths or loops name something outside of its streams or the paths."""
        warps, table = len(chunk.path), self._trace.paths
        for name, offset, stream in (("event", chunk.event_offset, chunk.events), ("sector", chunk.sector_offset, chunk.sectors)):
            if len(offset) != warps + 1 or offset[0] < 0 or offset[-1] > len(stream) or bool((np.diff(offset) < 0).any()):
                raise _refusal(self._trace, f"the trace has {name} offsets outside of the chunk of warp {chunk.first_warp}")
        if warps and (chunk.path.min() < 0 or chunk.path.max() >= len(table)):
            raise _refusal(self._trace, f"the trace has a warp from {chunk.first_warp} on with none of its {len(table)} paths")
        if chunk.loops is None:
            return
        if chunk.loops.shape != (warps, len(fields_of(Loop))):
            raise _refusal(self._trace, f"the trace has loops for others than the warps of the chunk of warp {chunk.first_warp}")
        held = np.diff(chunk.event_offset), np.diff(chunk.sector_offset)
        event, event_period, sector, sector_period, laps = chunk.loops.T
        # one after the other, so that no sum is larger than a stream
        inside = (chunk.loops >> 32 == 0).all(axis=1) & (event <= held[0]) & (event_period <= held[0] - event)
        inside &= (sector <= held[1]) & (sector_period <= (held[1] - sector) // 2) & (laps >= 1) & (laps < 1 << 31)
        streams = (chunk.path, chunk.event_offset, chunk.events, chunk.sector_offset)
        bad = _first_bad_loop(
            (self._path_offset, table.block, table.repeat), self._rows, tuple(map(np.ascontiguousarray, streams)),
            np.ascontiguousarray(chunk.loops), inside,
        )  # fmt: skip
        if bad >= 0:
            raise _refusal(self._trace, f"the trace has a loop of warp {chunk.first_warp + bad} that does not fit its path")

    def extend(self, slots: Rows, next_warp: int) -> None:
        """Add the next chunk and drop those that no warp needs; `next_warp` is the first not yet launched.

        `slots` is the simulation's table of warp slots, structured, with the field `id` (-1: free).
        Raises FormatError if the trace has no more warps, or skips some, or names places outside of its chunk.
        """
        chunk = self._next_chunk()
        self._refuse_outside(chunk)
        events = np.require(chunk.events, np.uint8, ["C"])
        sectors = np.require(chunk.sectors, np.uint32, ["C", "A"])
        left, known = self.warps[next_warp - self.first :], len(chunk.path)
        self.warps = np.empty(len(left) + known, dtype_of(WindowWarp))
        self.warps[: len(left)] = left
        event, sector = _distance(self.events, events), _distance(self.sectors, sectors)
        streams = tuple(np.ascontiguousarray(each, np.int64) for each in (chunk.path, chunk.event_offset, chunk.sector_offset))
        loops = np.ascontiguousarray(_NO_LOOPS if chunk.loops is None else chunk.loops, np.int64)
        _fill(self.warps[len(left) :], self._path_offset, streams, (event, sector), loops)
        self.first, self.end = next_warp, self.end + known
        self._held.append(_HeldChunk(self.end, events, sectors))
        ends = [held.end for held in self._held]
        needed = set(np.searchsorted(ends, slots["id"][slots["id"] >= 0], side="right").tolist())
        self._held = [held for number, held in enumerate(self._held) if number in needed or held.end > next_warp]


_NO_LOOPS = np.zeros((0, len(fields_of(Loop))), np.int64)


@jit(cache=True, nogil=True)
def _fill(rows, path_offset, chunk, origins, loops):  # type: ignore[no-untyped-def]
    """Fill the `rows` of a chunk (path, offsets of events and sectors), whose streams begin at `origins`, with its `loops` [warps,
    fields of `Loop`], or none.
    """
    path, event_offset, sector_offset = chunk
    first_event, first_sector = origins
    for warp in range(len(rows)):
        row, number = rows[warp], path[warp]
        row.entry, row.end = path_offset[number], path_offset[number + 1]
        row.event, row.event_end = first_event + event_offset[warp], first_event + event_offset[warp + 1]
        row.sector, row.sector_end = first_sector + sector_offset[warp], first_sector + sector_offset[warp + 1]
        loop = row.loop
        loop.event = loop.event_period = loop.sector = loop.sector_period = 0
        loop.laps = 1
        if len(loops) > 0:
            loop.event, loop.event_period, loop.sector, loop.sector_period, loop.laps = loops[warp]
            row.sector_end += (loops[warp, 4] - 2) * loops[warp, 3]  # strides are no sectors; the period's are read once a lap


@compiled
def _is_like_before(warp, event_offset, events, sector_offset, loops):  # type: ignore[no-untyped-def]
    """Whether a warp has the loop and the events of the warp before, and as many sectors."""
    event, last_event, back = event_offset[warp], event_offset[warp + 1], event_offset[warp] - event_offset[warp - 1]
    sectors = sector_offset[warp + 1] - sector_offset[warp]
    if last_event - event != back or sectors != sector_offset[warp] - sector_offset[warp - 1]:
        return False
    for k in range(len(loops[warp])):
        if loops[warp, k] != loops[warp - 1, k]:
            return False
    while event < last_event and events[event] == events[event - back]:
        event += 1
    return event == last_event


@jit(sources=("traces/events.py",), cache=True, nogil=True)
def _first_bad_loop(paths, rows, chunk, loops, inside):  # type: ignore[no-untyped-def]
    """The first warp whose loop is not `inside` its streams, or whose laps do not end where events end; -1 if none.

    `paths`: offset, blocks, repetitions; `rows` as `memory_rows` gives them; `chunk`: path, offset of events, events, offset of
    sectors. A reader goes back, or on behind the distances, where it stands at the end of a lap exactly: no event may go past it.
    A warp with the path, loop and events of the warp before is as right as that one.
    """
    offset, blocks, repeat = paths
    start, width, counts = rows
    path, event_offset, events, sector_offset = chunk
    for warp in range(len(path)):
        first_event, event_period, first_sector, sector_period, laps = loops[warp]
        if not inside[warp]:
            return warp
        if event_period == 0 and sector_period == 0:
            continue
        event, last_event = event_offset[warp], event_offset[warp + 1]
        sector, last_sector = sector_offset[warp], sector_offset[warp + 1]
        is_alike = warp > 0 and path[warp] == path[warp - 1]
        if is_alike and _is_like_before(warp, event_offset, events, sector_offset, loops):  # type: ignore[no-untyped-call]
            continue
        event_wrap, sector_wrap = event + first_event + event_period, sector + first_sector + sector_period
        event_laps = sector_laps = laps - 1
        is_looping = sector_period > 0
        for entry in range(offset[path[warp]], offset[path[warp] + 1]):
            for _ in range(repeat[entry] if start[blocks[entry]] < start[blocks[entry] + 1] else 0):
                for row in range(start[blocks[entry]], start[blocks[entry] + 1]):
                    if event + width[row] > last_event:
                        return warp
                    count = sectors_of_event(events, event, counts[row])
                    event, sector = event + width[row], sector + count
                    if event == event_wrap and event_laps > 0:
                        event, event_laps = event - event_period, event_laps - 1
                    if sector > (sector_wrap if is_looping else last_sector):
                        return warp
                    if count > 0 and is_looping and sector == sector_wrap:
                        is_looping = sector_laps > 0
                        sector, sector_laps = sector + (-sector_period if is_looping else sector_period), sector_laps - 1
    return -1


def contradiction(trace: KernelTrace, warp: int) -> FormatError:
    """The error for a warp whose streams do not fit its path."""
    return _refusal(trace, f"warp {warp} has other events or sectors than its path requires")


def _within(block: npt.NDArray[np.int32], blocks: int) -> bool:
    return not len(block) or 0 <= int(block.min()) <= int(block.max()) < blocks


def _refusal(trace: KernelTrace, what: str) -> FormatError:
    return FormatError(what, place=trace.origin or trace.header.kernel, remedy="make the trace again")


def _distance(origin: Rows, stream: Rows) -> int:
    """Where in `origin` the first item of `stream` is, if memory is one array."""
    return int(stream.ctypes.data - origin.ctypes.data) // origin.itemsize
