"""A sliding window over a trace: what resident warps have yet to consume, and the chunks whose blocks are still to be launched.

Simulations that keep the place of each resident warp in its streams read a trace of any size through one in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.traces.schema import KernelTrace, TraceChunk

Ints = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)

# Columns of the window's rows: path entries, events and sectors of a warp, first and end.
ENTRY, END, EVENT, EVENT_END, SECTOR, SECTOR_END = range(6)
WIDTH = 6


@dataclass(frozen=True)
class Places:
    """In which columns of a simulation's table of resident warps their id (-1: nobody) and places in the streams stand.

    `taken` is a place in the sectors too: how far the events have been read.
    """

    identity: int
    event: int
    event_end: int
    sector: int
    sector_end: int
    taken: int


class TraceWindow:
    """`warps` (a row of `WIDTH` per warp, flat), `events` and `sectors` are what a simulation reads.

    The first row is that of warp `first`, the first not launched when the window was last moved; warps before `end` are in it.
    """

    def __init__(self, trace: KernelTrace, places: Places) -> None:
        self._trace = trace
        self._places = places
        self._chunks: Iterator[TraceChunk] = iter(trace.chunks)
        self._path_offset = np.asarray(trace.paths.offset, np.int64)
        self.first = self.end = 0
        self.warps = np.zeros(0, np.int64)
        self.events = np.zeros(0, np.uint8)
        self.sectors = np.zeros(0, np.uint32)

    def _next_chunk(self) -> TraceChunk:
        chunk = next(self._chunks, None)
        if chunk is not None and chunk.first_warp == self.end:
            return chunk
        what = f"ends after warp {self.end} of {self._trace.header.warps}"
        if chunk is not None:
            what = f"goes on with warp {chunk.first_warp} where warp {self.end} should follow"
        raise FormatError(f"the trace {what}", place=self._trace.origin or self._trace.header.kernel, remedy="make the trace again")

    def extend(self, rows: Ints, next_warp: int) -> None:
        """Drop what is consumed and add the next chunk; `next_warp` is the first not yet launched.

        `rows` int64 [slots, columns], a view: resident warps are pointed to where their streams go on.
        Raises FormatError if the trace has no more warps, or skips some.
        """
        chunk = self._next_chunk()
        at = self._places
        kept = self.warps.reshape(-1, WIDTH)[next_warp - self.first :].copy()
        resident = rows[rows[:, at.identity] >= 0]
        events, before = _move(self.events, chunk.events, resident[:, [at.event, at.event_end]], kept[:, EVENT : EVENT_END + 1])
        added = np.empty((len(chunk.path), WIDTH), np.int64)
        added[:, EVENT], added[:, EVENT_END] = chunk.event_offset[:-1] + before, chunk.event_offset[1:] + before
        moved = _starts(resident[:, at.event], resident[:, at.event_end])
        resident[:, at.event_end] += moved - resident[:, at.event]
        resident[:, at.event] = moved
        sectors, before = _move(
            self.sectors, chunk.sectors, resident[:, [at.sector, at.sector_end]], kept[:, SECTOR : SECTOR_END + 1]
        )
        added[:, SECTOR], added[:, SECTOR_END] = chunk.sector_offset[:-1] + before, chunk.sector_offset[1:] + before
        moved = _starts(resident[:, at.sector], resident[:, at.sector_end])
        for column in (at.taken, at.sector_end):
            resident[:, column] += moved - resident[:, at.sector]
        resident[:, at.sector] = moved
        rows[rows[:, at.identity] >= 0] = resident
        added[:, ENTRY], added[:, END] = self._path_offset[chunk.path], self._path_offset[chunk.path + 1]
        self.warps = np.concatenate([kept, added]).reshape(-1)
        self.events, self.sectors = events, sectors
        self.first, self.end = next_warp, self.end + len(added)


def contradiction(trace: KernelTrace, warp: int) -> FormatError:
    """What a simulation says of a warp whose streams do not fit its path."""
    what = f"warp {warp} has other events or sectors than its path asks for"
    return FormatError(what, place=trace.origin or trace.header.kernel, remedy="make the trace again")


def _starts(first: Ints, end: Ints) -> Ints:
    """Where each of the pieces `first:end` begins when they lie one after the other."""
    lengths = end - first
    starts: Ints = np.cumsum(lengths) - lengths
    return starts


def _move(old: npt.NDArray[Number], added: npt.NDArray[Number], pieces: Ints, kept: Ints) -> tuple[npt.NDArray[Number], int]:
    """A new buffer: the `pieces` (first, end) of `old`, what `kept` (rows in order, moved in place) has of it, then `added`.

    Also gives where `added` begins.
    """
    parts = [old[first:end] for first, end in pieces.tolist()]
    carried = int((pieces[:, 1] - pieces[:, 0]).sum())
    waiting = old[kept[0, 0] :] if len(kept) else old[:0]
    if len(kept):
        kept += carried - int(kept[0, 0])
    return np.concatenate([*parts, waiting, added]), carried + len(waiting)
