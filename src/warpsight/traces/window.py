"""A sliding window over a trace: the chunks that resident warps have yet to consume, or whose blocks are still to be launched.

Simulations that keep the place of each resident warp in its streams read a trace of any size through it in bounded memory. Chunks
stay where they are: a warp is never moved, and a chunk is dropped once none of its warps is resident.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.base.records import Record, dtype_of
from warpsight.traces.packing import Loop, lengths
from warpsight.traces.schema import KernelTrace, TraceChunk, TraceHeader

Rows = npt.NDArray[Any]


class WindowWarp(Record):
    """The path and the streams of a warp of the window."""

    entry: int  # of its path
    end: int
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
    A simulation that can read `packed` streams gets those.
    """

    def __init__(self, trace: KernelTrace, *, packed: bool = False) -> None:
        self._trace = trace
        self._chunks: Iterator[TraceChunk] = trace.chunks.packed() if packed else iter(trace.chunks)
        self._held: list[_HeldChunk] = []
        self._path_offset = np.asarray(trace.paths.offset, np.int64)
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
        raise FormatError(f"the trace {what}", place=self._trace.origin or self._trace.header.kernel, remedy="make the trace again")

    def extend(self, slots: Rows, next_warp: int) -> None:
        """Add the next chunk and drop those that no warp needs; `next_warp` is the first not yet launched.

        `slots` is the simulation's table of warp slots, structured, with the field `id` (-1: free).
        Raises FormatError if the trace has no more warps, or skips some.
        """
        chunk = self._next_chunk()
        events = np.require(chunk.events, np.uint8, ["C"])
        sectors = np.require(chunk.sectors, np.uint32, ["C", "A"])
        added = np.zeros(len(chunk.path), dtype_of(WindowWarp))
        added["entry"], added["end"] = self._path_offset[chunk.path], self._path_offset[chunk.path + 1]
        event, sector = chunk.event_offset + _distance(self.events, events), chunk.sector_offset + _distance(self.sectors, sectors)
        added["event"], added["event_end"] = event[:-1], event[1:]
        added["sector"], added["sector_end"] = sector[:-1], sector[:-1] + lengths(chunk)[1]
        added["loop"]["laps"] = 1
        if chunk.loops is not None:
            for column, name in enumerate(added["loop"].dtype.names or ()):
                added["loop"][name] = chunk.loops[:, column]
        self.warps = np.concatenate([self.warps[next_warp - self.first :], added])
        self.first, self.end = next_warp, self.end + len(added)
        self._held.append(_HeldChunk(self.end, events, sectors))
        ends = [held.end for held in self._held]
        needed = set(np.searchsorted(ends, slots["id"][slots["id"] >= 0], side="right").tolist())
        self._held = [held for number, held in enumerate(self._held) if number in needed or held.end > next_warp]


def contradiction(trace: KernelTrace, warp: int) -> FormatError:
    """The error for a warp whose streams do not fit its path."""
    what = f"warp {warp} has other events or sectors than its path requires"
    return FormatError(what, place=trace.origin or trace.header.kernel, remedy="make the trace again")


def _distance(origin: Rows, stream: Rows) -> int:
    """Where in `origin` the first item of `stream` is, if memory is one array."""
    return int(stream.ctypes.data - origin.ctypes.data) // origin.itemsize
