"""Does a window show each warp its own streams, wherever the chunks lie, and let go of those that no warp needs?"""

from __future__ import annotations

import ctypes
import dataclasses
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from synthetic_trace import small_trace

from warpsight.traces.schema import ChunkSource, KernelTrace, TraceChunk
from warpsight.traces.window import TraceWindow

pytestmark = pytest.mark.unit


class Read(ChunkSource):
    """The chunks of a trace, each read anew as from a file: `alive` says which of them still are in memory."""

    def __init__(self, trace: KernelTrace) -> None:
        self._trace, self._made = trace, list[Any]()

    def __iter__(self) -> Iterator[TraceChunk]:
        for chunk in self._trace.chunks:
            events, sectors = chunk.events.copy(), chunk.sectors.copy()
            self._made.append((weakref.ref(events), weakref.ref(sectors)))
            yield dataclasses.replace(chunk, events=events, sectors=sectors)
            del events, sectors

    def alive(self) -> list[bool]:
        """Whether the streams of each chunk so far are in memory."""
        return [any(stream() is not None for stream in streams) for streams in self._made]


def slots(*warps: int) -> Any:
    """A table of slots with these warps."""
    return np.array([(warp,) for warp in warps], [("id", np.int64)])


def streams_of(window: TraceWindow, row: Any) -> tuple[bytes, bytes]:
    """What a simulation reads: the events and sectors of a warp."""
    found = []
    for name, origin in (("event", window.events), ("sector", window.sectors)):
        first, end = int(row[name]), int(row[f"{name}_end"])
        found.append(ctypes.string_at(origin.ctypes.data + first * origin.itemsize, (end - first) * origin.itemsize))
    return found[0], found[1]


def test_streams_of_each_warp_are_its_own() -> None:
    trace = small_trace(blocks=12, chunks=3)
    window = TraceWindow(trace)
    for chunk in trace.chunks:
        window.extend(slots(-1), window.end)
        for k, row in enumerate(window.warps):
            events = chunk.events[chunk.event_offset[k] : chunk.event_offset[k + 1]]
            sectors = chunk.sectors[chunk.sector_offset[k] : chunk.sector_offset[k + 1]]
            assert streams_of(window, row) == (events.tobytes(), sectors.tobytes())
    assert window.end == trace.header.warps


def test_chunks_stay_until_their_warps_have_ended_and_resident_warps_do_not_move() -> None:
    trace = small_trace(blocks=12, chunks=4)
    source = Read(trace)
    window = TraceWindow(dataclasses.replace(trace, chunks=source))
    each = trace.header.warps // 4
    window.extend(slots(-1, -1), 0)
    first = window.warps[each - 1].copy()
    before = streams_of(window, first)
    window.extend(slots(-1, each - 1), each)
    window.extend(slots(each - 1, -1), each + 1)  # most of the second chunk is not launched
    assert source.alive() == [True, True, True]
    assert streams_of(window, first) == before
    assert window.first == each + 1 and len(window.warps) == 2 * each - 1
    window.extend(slots(2 * each, -1), 3 * each)
    assert source.alive() == [False, False, True, True]
