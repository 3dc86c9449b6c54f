"""The sliding window over a trace: only the chunks whose blocks are still to run, and what resident warps have not yet consumed."""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.caches.state import EVENT, EVENT_END, ID, SECTOR, SECTOR_END, Ints, State
from warpsight.caches.warps import Window
from warpsight.trace.schema import KernelTrace, TraceChunk


@numba.njit(cache=True, nogil=True)
def _carry_over(
    row: Ints, events: npt.NDArray[np.uint8], sectors: npt.NDArray[np.uint32], kept_events: npt.NDArray[np.uint8], kept_sectors: npt.NDArray[np.uint32]
) -> None:
    """Copy what live warps still need to the front of new buffers, and point them there."""
    e, s = 0, 0
    for slot in range(row.shape[0]):
        if row[slot, ID] < 0:
            continue
        n = row[slot, EVENT_END] - row[slot, EVENT]
        for k in range(n):
            kept_events[e + k] = events[row[slot, EVENT] + k]
        row[slot, EVENT] = e
        e += n
        row[slot, EVENT_END] = e
        n = row[slot, SECTOR_END] - row[slot, SECTOR]
        for k in range(n):
            kept_sectors[s + k] = sectors[row[slot, SECTOR] + k]
        row[slot, SECTOR] = s
        s += n
        row[slot, SECTOR_END] = s


class Stream:
    """Feeds the engine. `window` always starts with the first warp of the first block that was not launched yet."""

    def __init__(self, trace: KernelTrace) -> None:
        self._trace = trace
        self._chunks: Iterator[TraceChunk] = iter(trace.chunks)
        offset = np.zeros(1, np.int64)
        self.window = Window(
            0,
            np.zeros(0, np.int32),
            np.ascontiguousarray(trace.paths.offset, np.int64),
            offset,
            np.zeros(0, np.uint8),
            offset,
            np.zeros(0, np.uint32),
        )

    def extend(self, state: State, next_warp: int) -> None:
        """Add the next chunk and drop what is consumed. Raises FormatError when the trace has no more chunks."""
        chunk = next(self._chunks, None)
        old = self.window
        expected = old.first + len(old.path)
        place = self._trace.origin or self._trace.header.kernel
        if chunk is None:
            raise FormatError(
                f"the trace ends after {expected} of {self._trace.header.warps} warps", place=place, remedy="make the trace again"
            )
        if chunk.first_warp != expected:
            raise FormatError(
                f"a chunk starts with warp {chunk.first_warp}, expected was {expected}", place=place, remedy="make the trace again"
            )
        live = state.warp.row[state.warp.row[:, ID] >= 0]
        carried_events = int((live[:, EVENT_END] - live[:, EVENT]).sum())
        carried_sectors = int((live[:, SECTOR_END] - live[:, SECTOR]).sum())
        waiting = next_warp - old.first
        first_event, first_sector = int(old.event_offset[waiting]), int(old.sector_offset[waiting])
        events = np.empty(carried_events + len(old.events) - first_event + len(chunk.events), np.uint8)
        sectors = np.empty(carried_sectors + len(old.sectors) - first_sector + len(chunk.sectors), np.uint32)
        _carry_over(state.warp.row, old.events, old.sectors, events, sectors)
        events[carried_events:] = np.concatenate([old.events[first_event:], chunk.events])
        sectors[carried_sectors:] = np.concatenate([old.sectors[first_sector:], chunk.sectors])
        event_offset = _joined(old.event_offset[waiting:] - first_event, chunk.event_offset) + carried_events
        sector_offset = _joined(old.sector_offset[waiting:] - first_sector, chunk.sector_offset) + carried_sectors
        path = np.concatenate([old.path[waiting:], chunk.path.astype(np.int32, copy=False)])
        self.window = Window(next_warp, path, old.path_begin, event_offset, events, sector_offset, sectors)


def _joined(kept: Ints, added: Ints) -> Ints:
    """Offsets of two parts that now follow each other; both start at 0."""
    return np.concatenate([kept, added[1:].astype(np.int64) - int(added[0]) + int(kept[-1])])
