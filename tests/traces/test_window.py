"""Does a window show each warp its own streams, wherever the chunks lie, and let go of those that no warp needs?"""

from __future__ import annotations

import ctypes
import dataclasses
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from synthetic_trace import PATHS, small_trace, with_chunk

from warpsight.base.errors import FormatError
from warpsight.traces.packing import Packed
from warpsight.traces.schema import ChunkSource, KernelTrace, PathTable, TraceChunk
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


def crafted(**fields: Any) -> KernelTrace:
    """A trace whose second chunk is wrong; of its offsets the last or first number alone."""
    trace = small_trace(blocks=12, chunks=3)
    chunk = list(trace.chunks)[1]
    changed = {}
    for name, (place, change) in fields.items():
        changed[name] = getattr(chunk, name).copy()
        changed[name][place] += change
    return with_chunk(trace, 1, **changed)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"event_offset": (-1, 1)}, "event offsets"),
        ({"event_offset": (0, -1)}, "event offsets"),
        ({"event_offset": (2, 10**12)}, "event offsets"),
        ({"sector_offset": (-1, 1)}, "sector offsets"),
        ({"sector_offset": (0, -(10**12))}, "sector offsets"),
        ({"path": (3, 2)}, "none of its 2 paths"),
        ({"path": (3, -2)}, "none of its 2 paths"),
    ],
)
def test_chunk_that_names_memory_of_others_is_refused_before_it_is_read(fields: dict[str, Any], message: str) -> None:
    window = TraceWindow(crafted(**fields))
    window.extend(slots(-1), 0)
    with pytest.raises(FormatError, match=message):
        window.extend(slots(-1), 0)


@pytest.mark.parametrize(("column", "place", "value"), [("offset", -1, 6), ("offset", 0, -1), ("offset", 1, 7), ("block", 2, 3)])
def test_paths_that_leave_their_tables_are_refused(column: str, place: int, value: int) -> None:
    columns = {name: getattr(PATHS, name).copy() for name in ("offset", "block", "lanes", "repeat")}
    columns[column][place] = value
    with pytest.raises(FormatError, match="has paths"):
        TraceWindow(dataclasses.replace(small_trace(), paths=PathTable(**columns)))


# One warp on path 0: block 0, whose load names its sectors in an event's first byte and whose store has one byte, three times.
# Packed by hand: of the three turns one is kept (2 bytes; 2 sectors and their strides), to be read three times.
EVENTS, SECTORS, LOOP = [2, 1], [100, 200, 8, 16], (0, 2, 0, 2, 3)


def packed_by_hand(events: list[int], sectors: list[int], loop: tuple[int, ...]) -> KernelTrace:
    chunk = TraceChunk(
        0, np.zeros(2, np.int32), np.array([0, len(events), 2 * len(events)]), np.array(2 * events, np.uint8),
        np.array([0, len(sectors), 2 * len(sectors)]), np.array(2 * sectors, np.uint32), np.array([loop, loop]),
    )  # fmt: skip
    return dataclasses.replace(small_trace(blocks=1, chunks=1), chunks=Packed([chunk]))


def test_loop_that_fits_its_path_is_taken() -> None:
    window = TraceWindow(packed_by_hand(EVENTS, SECTORS, LOOP), packed=True)
    window.extend(slots(-1), 0)
    assert window.warps["sector_end"][0] - window.warps["sector"][0] == 6  # as if it were not packed


def test_loops_of_other_warps_are_refused() -> None:
    trace = packed_by_hand(EVENTS, SECTORS, LOOP)
    (chunk,) = trace.chunks.packed()
    assert chunk.loops is not None
    cut = dataclasses.replace(trace, chunks=Packed([dataclasses.replace(chunk, loops=chunk.loops[:1])]))
    with pytest.raises(FormatError, match="loops for others"):
        TraceWindow(cut, packed=True).extend(slots(-1), 0)


@pytest.mark.parametrize(
    ("events", "loop"),
    [
        (EVENTS, (0, 3, 0, 2, 3)),  # longer than its stream
        (EVENTS, (-2, 2, 0, 2, 3)),
        (EVENTS, (0, 2, 1, 2, 3)),  # no room for the strides
        (EVENTS, (0, 2, 2**62, 2**62, 3)),  # sums would overflow
        (EVENTS, (0, 2, 0, 2, 0)),
        (EVENTS, (0, 2, 0, 1, 3)),  # an event goes past the end of a lap
        ([3, 1], (0, 2, 0, 2, 3)),  # so does this one
        (EVENTS, (0, 2, 0, 2, 2)),  # the third turn finds no event
        (EVENTS, (0, 1, 0, 2, 3)),  # a lap ends between two events
    ],
)
def test_loop_that_leaves_its_streams_is_refused(events: list[int], loop: tuple[int, ...]) -> None:
    with pytest.raises(FormatError, match="loop of warp 0"):
        TraceWindow(packed_by_hand(events, SECTORS, loop), packed=True).extend(slots(-1), 0)
