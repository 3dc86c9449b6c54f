"""A sliding window over a trace: what resident warps have yet to consume, and the chunks whose blocks are still to be launched.

Simulations that keep the place of each resident warp in its streams read a trace of any size through it in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.base.records import Record, dtype_of
from warpsight.traces.schema import KernelTrace, TraceChunk, TraceHeader

Rows = npt.NDArray[Any]
Number = TypeVar("Number", bound=np.generic)


class WindowWarp(Record):
    """The pieces of its streams that a warp of the window has yet to consume."""

    entry: int  # of its path
    end: int
    event: int
    event_end: int
    sector: int
    sector_end: int


def block_order(header: TraceHeader) -> npt.NDArray[np.int64]:
    """The numbers of the blocks in the order in which a GPU starts them, empty where this is the order of their numbers."""
    return np.asarray(header.block_at(np.arange(0 if header.starts_in_order else header.recorded_blocks)), np.int64)


class TraceWindow:
    """`warps` (structured as `WindowWarp`), `events` and `sectors` are what a simulation reads.

    The first row is that of warp `first`, the first not launched when the window was last moved; warps before `end` are in it.
    """

    def __init__(self, trace: KernelTrace) -> None:
        self._trace = trace
        self._chunks: Iterator[TraceChunk] = iter(trace.chunks)
        self._path_offset = np.asarray(trace.paths.offset, np.int64)
        self.first = self.end = 0
        self.warps: Rows = np.zeros(0, dtype_of(WindowWarp))
        self.events = np.zeros(0, np.uint8)
        self.sectors = np.zeros(0, np.uint32)

    def _next_chunk(self) -> TraceChunk:
        chunk = next(self._chunks, None)
        if chunk is not None and chunk.first_warp == self.end:
            return chunk
        what = f"ends after warp {self.end} of {self._trace.header.warps}"
        if chunk is not None:
            what = f"continues with warp {chunk.first_warp} where warp {self.end} should follow"
        raise FormatError(f"the trace {what}", place=self._trace.origin or self._trace.header.kernel, remedy="make the trace again")

    def extend(self, slots: Rows, next_warp: int) -> None:
        """Drop what is consumed and add the next chunk; `next_warp` is the first not yet launched.

        `slots` is the simulation's table of warp slots, structured, with int64 fields `id` (-1: free), `event`, `event_end`,
        `sector`, `sector_end` and `taken` (a place in the sectors too: how far the events have been read). The resident warps are
        changed to point to where their streams continue. Raises FormatError if the trace has no more warps, or skips some.
        """
        chunk = self._next_chunk()
        kept = self.warps[next_warp - self.first :].copy()
        resident = slots[slots["id"] >= 0]
        added = np.zeros(len(chunk.path), dtype_of(WindowWarp))
        added["entry"], added["end"] = self._path_offset[chunk.path], self._path_offset[chunk.path + 1]
        self.events, before = _move(self.events, chunk.events, resident, kept, "event")
        added["event"], added["event_end"] = chunk.event_offset[:-1] + before, chunk.event_offset[1:] + before
        read = resident["taken"] - resident["sector"]
        self.sectors, before = _move(self.sectors, chunk.sectors, resident, kept, "sector")
        added["sector"], added["sector_end"] = chunk.sector_offset[:-1] + before, chunk.sector_offset[1:] + before
        resident["taken"] = resident["sector"] + read
        slots[slots["id"] >= 0] = resident
        self.warps = np.concatenate([kept, added])
        self.first, self.end = next_warp, self.end + len(added)


def contradiction(trace: KernelTrace, warp: int) -> FormatError:
    """The error for a warp whose streams do not fit its path."""
    what = f"warp {warp} has other events or sectors than its path requires"
    return FormatError(what, place=trace.origin or trace.header.kernel, remedy="make the trace again")


def _move(
    old: npt.NDArray[Number], added: npt.NDArray[Number], resident: Rows, kept: Rows, stream: str
) -> tuple[npt.NDArray[Number], int]:
    """A new buffer, and where `added` begins in it: what `resident` and `kept` have of `old`, then `added`. Updates both."""
    ends = f"{stream}_end"
    lengths = resident[ends] - resident[stream]
    parts = [old[first:end] for first, end in zip(resident[stream].tolist(), resident[ends].tolist(), strict=True)]
    resident[stream] = np.cumsum(lengths) - lengths
    resident[ends] = resident[stream] + lengths
    carried = int(lengths.sum())
    first = int(kept[stream][0]) if len(kept) else len(old)
    kept[stream] += carried - first
    kept[ends] += carried - first
    return np.concatenate([*parts, old[first:], added]), carried + len(old) - first
