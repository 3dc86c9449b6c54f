"""The sliding window over a trace: chunks whose blocks are still to be launched, and what resident warps have yet to consume."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.caches import layout as at
from warpsight.caches.compiled import compiled_and_kept, source_fingerprint
from warpsight.caches.layout import EVENT, EVENT_END, ID, SECTOR, SECTOR_END, TAKEN, WARP_WIDTH, Ints
from warpsight.caches.memory import warp_rows
from warpsight.trace.schema import KernelTrace, TraceChunk

Events = npt.NDArray[np.uint8]
Sectors = npt.NDArray[np.uint32]
CarryOver = Callable[[Ints, Events, Sectors, Events, Sectors], None]


def _build(fingerprint: int) -> CarryOver:
    @compiled_and_kept
    def carry_over(rows: Ints, events: Events, sectors: Sectors, kept_events: Events, kept_sectors: Sectors) -> None:
        """Copy what resident warps still need to the front of new buffers, and point them there."""
        e, k = np.int64(0 * fingerprint), np.int64(0)
        for row in range(0, len(rows), WARP_WIDTH):
            if rows[row + ID] >= 0:
                n = rows[row + EVENT_END] - rows[row + EVENT]
                kept_events[e : e + n] = events[rows[row + EVENT] : rows[row + EVENT_END]]
                rows[row + EVENT], rows[row + EVENT_END] = e, e + n
                e += n
                n = rows[row + SECTOR_END] - rows[row + SECTOR]
                kept_sectors[k : k + n] = sectors[rows[row + SECTOR] : rows[row + SECTOR_END]]
                rows[row + TAKEN] += k - rows[row + SECTOR]
                rows[row + SECTOR], rows[row + SECTOR_END] = k, k + n
                k += n

    return carry_over


_carry_over = _build(source_fingerprint())


class Stream:
    """Feeds the engine: `warps` (a row of `WINDOW_WIDTH` per warp, flat), `events` and `sectors` are what it reads.

    The first row is that of the first warp not launched when the window was last moved (`FIRST_WARP`).
    """

    def __init__(self, trace: KernelTrace) -> None:
        self._trace = trace
        self._chunks: Iterator[TraceChunk] = iter(trace.chunks)
        self._path_offset = np.asarray(trace.paths.offset, np.int64)
        self._first = self._end = 0
        self.warps = np.zeros(0, np.int64)
        self.events = np.zeros(0, np.uint8)
        self.sectors = np.zeros(0, np.uint32)

    def _next_chunk(self) -> TraceChunk:
        chunk = next(self._chunks, None)
        if chunk is not None and chunk.first_warp == self._end:
            return chunk
        what = f"ends after warp {self._end} of {self._trace.header.warps}"
        if chunk is not None:
            what = f"goes on with warp {chunk.first_warp} where warp {self._end} should follow"
        raise FormatError(f"the trace {what}", place=self._trace.origin or self._trace.header.kernel, remedy="make the trace again")

    def extend(self, p: Ints, s: Ints, next_warp: int) -> None:
        """Drop what is consumed and add the next chunk; `next_warp` is the first not yet launched.

        Raises FormatError if the trace has no more warps, or skips some.
        """
        chunk = self._next_chunk()
        rows = warp_rows(p, s)
        resident = rows[rows[:, ID] >= 0]
        kept = self.warps.reshape(-1, at.WINDOW_WIDTH)[next_warp - self._first :].copy()
        parts = []
        for name, ends, column in (("events", (EVENT, EVENT_END), at.W_EVENT), ("sectors", (SECTOR, SECTOR_END), at.W_SECTOR)):
            carried = int((resident[:, ends[1]] - resident[:, ends[0]]).sum())
            old, added = getattr(self, name), getattr(chunk, name)
            waiting = old[kept[0, column] :] if len(kept) else old[:0]
            buffer = np.empty(carried + len(waiting) + len(added), old.dtype)
            buffer[carried : carried + len(waiting)] = waiting
            buffer[carried + len(waiting) :] = added
            kept[:, column : column + 2] += carried - (int(kept[0, column]) if len(kept) else 0)
            parts.append((buffer, carried + len(waiting)))
        (events, before_events), (sectors, before_sectors) = parts
        _carry_over(rows.reshape(-1), self.events, self.sectors, events, sectors)
        added_rows = self._rows(chunk, before_events, before_sectors)
        self.warps = np.concatenate([kept, added_rows]).reshape(-1)
        self.events, self.sectors = events, sectors
        self._first, self._end = next_warp, self._end + len(added_rows)
        s[p[at.CELL] + at.FIRST_WARP], s[p[at.CELL] + at.LAST_WARP] = self._first, self._end

    def _rows(self, chunk: TraceChunk, events: int, sectors: int) -> Ints:
        """The window's rows for a chunk whose events and sectors begin at these places of the buffers."""
        rows = np.empty((len(chunk.path), at.WINDOW_WIDTH), np.int64)
        rows[:, at.W_ENTRY] = self._path_offset[chunk.path]
        rows[:, at.W_END] = self._path_offset[chunk.path + 1]
        rows[:, at.W_EVENT], rows[:, at.W_EVENT_END] = chunk.event_offset[:-1] + events, chunk.event_offset[1:] + events
        rows[:, at.W_SECTOR], rows[:, at.W_SECTOR_END] = chunk.sector_offset[:-1] + sectors, chunk.sector_offset[1:] + sectors
        return rows
