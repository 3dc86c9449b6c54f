"""Streams of loops, packed: a loop whose accesses move by the same distance in each turn is recorded once, with the distances.

In a product of matrices a warp loads from thousands of places, each as far from the place before as that from its predecessor. Of
such a loop the events and sectors of one *period* are kept, a few iterations, which is read `Loop.laps` times. In each lap a sector
is one *stride* farther on; the strides follow the period's sectors. Nothing is lost: `unpacked` gives the recorded streams back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import copy_entries, jit
from warpsight.base.records import Record, UInt32, fields_of
from warpsight.traces.events import sectors_of_event
from warpsight.traces.path_store import PathStore
from warpsight.traces.schema import SECTOR_BYTES, ChunkSource, InMemory, StaticInstruction, TraceChunk

_LEAST_LAPS = 4  # fewer save nothing
_MOST_ENTRIES = 16  # of a path that are an iteration
_MOST_ITERATIONS = 32  # of a period: sectors of 32 B that bytes in a row lie in


class Loop(Record):
    """The loop in a warp's packed streams, in bytes of its events and in sectors, from their beginnings on.

    The period's sectors are followed by as many strides. Streams without a loop have one lap of nothing.
    """

    event: UInt32
    event_period: UInt32
    sector: UInt32
    sector_period: UInt32
    laps: UInt32


Longs = npt.NDArray[np.int64]
Loops = Longs  # [warps, fields of Loop]
_FIELDS = len(fields_of(Loop))


@jit(cache=True, nogil=True)
def loop_of_path(blocks, lanes, repeat, weight):  # type: ignore[no-untyped-def]
    """The loop of a path that has the most events: its first entry, entries of an iteration and iterations; no iterations if none.

    An iteration of a single entry is one of its repetitions. `weight`: bytes of events of an entry's block.
    """
    found, most, count = (0, 1, 0), 0, len(blocks)
    for entry in range(count):
        if repeat[entry] > 1 and weight[blocks[entry]] * repeat[entry] > most:
            found, most = (entry, 1, repeat[entry]), weight[blocks[entry]] * repeat[entry]
    for size in range(2, min(_MOST_ENTRIES, count // 2) + 1):
        first, held = 0, 0
        for entry in range(count - size + 1):
            other = entry + size
            is_alike = other < count and blocks[entry] == blocks[other] and lanes[entry] == lanes[other]
            if is_alike and repeat[entry] == repeat[other]:
                held += weight[blocks[entry]] * repeat[entry]
                continue
            if held > most and entry - first >= size:
                found, most = (first, size, (entry - first) // size + 1), held
            first, held = entry + 1, 0
    return found


@jit(sources=("traces/events.py",), cache=True, nogil=True)
def _marks(path, loop, memory, events, bounds, marks):  # type: ignore[no-untyped-def]
    """Fill `marks` [iterations + 1, 2]: where, in `events` and in the sectors, each iteration of a warp's `loop` begins, and the
    last one ends. The warp's streams lie within `bounds`; False where its path needs more than is there.

    `path`: blocks and repetitions of its entries; `memory`: where the memory instructions of each block begin, and of each the
    bytes of its event and those that count sectors.
    """
    blocks, repeat = path
    first, size, iterations = loop
    start, width, counts = memory
    event, last_event, sector, last_sector = bounds
    end = first + 1 if size == 1 else first + size * iterations
    number = 0
    for entry in range(end):
        for turn in range(repeat[entry]):
            if entry >= first and ((turn == 0 and (entry - first) % size == 0) if size > 1 else True):
                marks[number, 0], marks[number, 1] = event, sector
                number += 1
            for row in range(start[blocks[entry]], start[blocks[entry] + 1]):
                if event + width[row] > last_event:
                    return False
                sector += sectors_of_event(events, event, counts[row])
                event += width[row]
    marks[number, 0], marks[number, 1] = event, sector
    return sector <= last_sector


@jit(cache=True, nogil=True)
def _laps(events, sectors, marks, iterations, period):  # type: ignore[no-untyped-def]
    """How many times in a row, from its first iteration on, the loop's events are those of the first `period` iterations, and its
    sectors as far from those of the lap before as in all laps.
    """
    event, sector = marks[0]
    size, count = marks[period, 0] - event, marks[period, 1] - sector
    laps = 1
    while (laps + 1) * period <= iterations:
        to_event, to_sector = marks[laps * period, 0], marks[laps * period, 1]
        if marks[(laps + 1) * period, 0] - to_event != size or marks[(laps + 1) * period, 1] - to_sector != count:
            return laps
        for k in range(size):
            if events[to_event + k] != events[event + k]:
                return laps
        for k in range(count if laps > 1 else 0):
            if sectors[to_sector + k] - sectors[to_sector - count + k] != sectors[sector + count + k] - sectors[sector + k]:
                return laps
        laps += 1
    return laps


@jit(cache=True, nogil=True)
def _best(events, sectors, marks, iterations):  # type: ignore[no-untyped-def]
    """The laps and the iterations of the period that cover at least half of the loop, or else the most; one lap: none."""
    laps, period, tried = 1, 1, 1
    while tried <= _MOST_ITERATIONS and tried * _LEAST_LAPS <= iterations and laps * period * 2 < iterations:
        found = _laps(events, sectors, marks, iterations, tried)
        if found >= _LEAST_LAPS and found * tried > laps * period:
            laps, period = found, tried
        tried *= 2
    return laps, period


@jit(cache=True, nogil=True)
def _put(events, sectors, bounds, marks, found, packed, at, loop):  # type: ignore[no-untyped-def]
    """Put the streams of a warp, which lie within `bounds`, where `at` says in `packed`; returns where they end there."""
    event, last_event, sector, last_sector = bounds
    to_events, to_sectors = packed
    at_event, at_sector = at
    laps, period = found
    loop[4] = 1
    if laps > 1:
        end_event, end_sector = marks[period]
        count = end_sector - marks[0, 1]
        loop[0], loop[1] = marks[0, 0] - event, end_event - marks[0, 0]
        loop[2], loop[3], loop[4] = marks[0, 1] - sector, count, laps
        copy_entries(events, event, end_event, to_events, at_event)
        copy_entries(sectors, sector, end_sector, to_sectors, at_sector)
        at_event, at_sector = at_event + end_event - event, at_sector + end_sector - sector
        for k in range(count):
            to_sectors[at_sector + k] = sectors[end_sector + k] - sectors[end_sector - count + k]
        at_sector += count
        event, sector = marks[laps * period]
    copy_entries(events, event, last_event, to_events, at_event)
    copy_entries(sectors, sector, last_sector, to_sectors, at_sector)
    return at_event + last_event - event, at_sector + last_sector - sector


@jit(sources=("base/compiled.py", "traces/events.py"), cache=True, nogil=True)
def _pack(paths, memory, chunk, packed, offsets, loops):  # type: ignore[no-untyped-def]
    """Pack the streams of the warps of a `chunk` into `packed`; their `offsets` [warps + 1, 2] and `loops` are filled.

    `paths`: offset, block, lanes and repetitions; `memory` as of `_marks`, and the bytes of events of each block; `chunk`: path,
    offset of events, events, offset of sectors, sectors.
    """
    offset, block, lanes, repeat = paths
    start, width, counts, weight = memory
    path, event_offset, events, sector_offset, sectors = chunk
    known, marks = np.empty((len(offset) - 1, 3), np.int64), np.empty((1024, 2), np.int64)
    for number in range(len(known)):
        known[number, 2] = -1
    for warp in range(len(path)):
        number = path[warp]
        low, high = offset[number], offset[number + 1]
        if known[number, 2] < 0:
            found = loop_of_path(block[low:high], lanes[low:high], repeat[low:high], weight)
            known[number, 0], known[number, 1], known[number, 2] = found
        first, entries, iterations = known[number]
        laps, period = 1, 1
        bounds = (event_offset[warp], event_offset[warp + 1], sector_offset[warp], sector_offset[warp + 1])
        if iterations >= _LEAST_LAPS:
            marks = marks if iterations < len(marks) else np.empty((2 * iterations, 2), np.int64)
            of_path, loop = (block[low:high], repeat[low:high]), (first, entries, iterations)
            if _marks(of_path, loop, (start, width, counts), events, bounds, marks):  # else its readers say what is wrong
                laps, period = _best(events, sectors, marks, iterations)
        ends = _put(events, sectors, bounds, marks, (laps, period), packed, offsets[warp], loops[warp])
        offsets[warp + 1, 0], offsets[warp + 1, 1] = ends  # to assign the whole row takes Numba a second to compile


@jit(cache=True, nogil=True)
def _unpack(chunk, loops, unpacked):  # type: ignore[no-untyped-def]
    """Write the streams of a packed `chunk` (offset of events, events, offset of sectors, sectors) one after the other."""
    event_offset, events, sector_offset, sectors = chunk
    to_events, to_sectors = unpacked
    at_event = at_sector = 0
    for warp in range(len(loops)):
        first, size, first_sector, count, laps = loops[warp]
        event, sector = event_offset[warp], sector_offset[warp]
        for k in range(first):
            to_events[at_event + k] = events[event + k]
        for k in range(first_sector):
            to_sectors[at_sector + k] = sectors[sector + k]
        event, at_event, sector, at_sector = event + first, at_event + first, sector + first_sector, at_sector + first_sector
        for lap in range(laps):
            for k in range(size):
                to_events[at_event + k] = events[event + k]
            for k in range(count):
                to_sectors[at_sector + k] = sectors[sector + k] + np.uint32(lap) * sectors[sector + count + k]
            at_event, at_sector = at_event + size, at_sector + count
        event, sector = event + size, sector + 2 * count
        for k in range(event, event_offset[warp + 1]):
            to_events[at_event] = events[k]
            at_event += 1
        for k in range(sector, sector_offset[warp + 1]):
            to_sectors[at_sector] = sectors[k]
            at_sector += 1


def memory_rows(instructions: Sequence[StaticInstruction], block_start: npt.NDArray[np.int32]) -> tuple[Longs, Longs, Longs]:
    """Where the memory instructions of each basic block begin, int64 [basic blocks + 1], and of each the bytes of its event and
    those that count sectors, int64 [memory instructions].
    """
    chosen = [instruction for instruction in instructions if instruction.event_bytes]
    start = np.searchsorted([each.pc for each in chosen], block_start).astype(np.int64)
    width, counts = (np.array([getattr(i, name) for i in chosen], np.int64) for name in ("event_bytes", "sector_bytes"))
    return start, width, counts


class Packer:
    """Packs the chunks of a kernel's trace."""

    def __init__(self, instructions: Sequence[StaticInstruction], block_start: npt.NDArray[np.int32]) -> None:
        start, width, counts = memory_rows(instructions, block_start)
        self._memory = start, width, counts, np.diff(np.concatenate([[0], np.cumsum(width)])[start])

    def packed(self, chunk: TraceChunk, store: PathStore) -> TraceChunk:
        """The chunk with its loops packed, as far as they are regular."""
        warps = len(chunk.path)
        numbers, path = np.unique(np.asarray(chunk.path, np.int64), return_inverse=True)
        paths = store.table_of(numbers)
        streams = (path, chunk.event_offset, chunk.events, chunk.sector_offset, chunk.sectors)
        to_events, to_sectors = np.empty(len(chunk.events), np.uint8), np.empty(len(chunk.sectors), np.uint32)
        offsets, loops = np.zeros((warps + 1, 2), np.int64), np.zeros((warps, _FIELDS), np.int64)
        _pack(
            (paths.offset, paths.block, paths.lanes, paths.repeat), self._memory, tuple(map(np.ascontiguousarray, streams)),
            (to_events, to_sectors), offsets, loops,
        )  # fmt: skip
        if (loops[:, 4] == 1).all():
            return chunk
        events, sectors = offsets[-1].tolist()
        return TraceChunk(
            chunk.first_warp, chunk.path, np.ascontiguousarray(offsets[:, 0]), to_events[:events].copy(),
            np.ascontiguousarray(offsets[:, 1]), to_sectors[:sectors].copy(), loops,
        )  # fmt: skip


def loops_of(chunk: TraceChunk) -> Loops:
    """The loops of a chunk's warps, of one that is not packed with a single lap of nothing; int64 [warps, 5]."""
    none = np.array([0, 0, 0, 0, 1], np.int64)
    return np.ascontiguousarray(np.tile(none, (len(chunk.path), 1)) if chunk.loops is None else chunk.loops)


def lengths(chunk: TraceChunk) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Events in bytes and sectors of each warp of a chunk, packed or not, each int64 [warps]."""
    events, sectors = np.diff(chunk.event_offset), np.diff(chunk.sector_offset)
    if chunk.loops is None:
        return events, sectors
    further = chunk.loops[:, 4] - 1
    return events + further * chunk.loops[:, 1], sectors + (further - 1) * chunk.loops[:, 3]


def unpacked(chunk: TraceChunk) -> TraceChunk:
    """The chunk as it was recorded."""
    if chunk.loops is None:
        return chunk
    events, sectors = (np.concatenate([[0], np.cumsum(each)]) for each in lengths(chunk))
    to_events, to_sectors = np.empty(events[-1], np.uint8), np.empty(sectors[-1], np.uint32)
    streams = (chunk.event_offset, chunk.events, chunk.sector_offset, chunk.sectors)
    _unpack(tuple(map(np.ascontiguousarray, streams)), np.ascontiguousarray(chunk.loops), (to_events, to_sectors))
    return replace(chunk, event_offset=events, events=to_events, sector_offset=sectors, sectors=to_sectors, loops=None)


# -- Which lines of the memory warps touch.

_PAGE_BITS = 12  # of a line's number: lines lie in some regions, far apart


@jit(cache=True, nogil=True)
def _mark(sector_offset, sectors, loops, shift, place, marks):  # type: ignore[no-untyped-def]
    """Mark the lines of ``1 << shift`` sectors that warps touch, those of page p from `place[p]` on.

    Warps of a block share much of what they touch, and lanes of an access lie side by side: what equals the same sector of the warp
    before, or one of the two sectors before in its line, has been marked.
    """
    for warp in range(len(loops)):
        begin, end = sector_offset[warp], sector_offset[warp + 1]
        start, count, laps = begin + loops[warp, 2], loops[warp, 3], loops[warp, 4]
        before = np.int64(0)  # how far the same sector of the warp before lies behind
        if warp > 0 and end - begin == begin - sector_offset[warp - 1] and (loops[warp, 2:] == loops[warp - 1, 2:]).all():
            before = end - begin
        marked = (np.int64(-1), np.int64(0)), (np.int64(-1), np.int64(0))  # lines with their strides
        k = begin
        while k < end:
            in_loop = start <= k < start + count
            sector, stride = np.int64(sectors[k]), np.int64(sectors[k + count] if in_loop else 0)
            line = (sector & 0xFFFFFFFF) >> shift
            seen = (line, stride) == marked[0] or (line, stride) == marked[1]
            if not seen and before > 0:
                seen = sectors[k - before] == sectors[k] and (not in_loop or sectors[k - before + count] == sectors[k + count])
            if not seen:
                if stride % (1 << shift) == 0:  # only then do all laps keep the place in the line
                    marked = (line, stride), marked[0]
                distance = abs(np.int64(np.int32(stride)))
                step = max(1, (1 << shift) // max(1, distance))  # laps that lead no farther than to the next line
                last = laps - 1 if in_loop and distance > 0 else 0
                lap = 0
                while True:
                    line = ((sector + lap * stride) & 0xFFFFFFFF) >> shift
                    marks[place[line >> _PAGE_BITS] + (line & ((1 << _PAGE_BITS) - 1))] = True
                    if lap == last:
                        break
                    lap = min(lap + step, last)
            k += 1 + count if k == start + count - 1 else 1


class Lines:
    """Lines of so many bytes that the warps of a trace touch, as marks, in the order of their numbers."""

    def __init__(self, chunks: ChunkSource, line_bytes: int) -> None:
        self._shift = (line_bytes // SECTOR_BYTES).bit_length() - 1
        pages = np.zeros(1 << 32 - self._shift - _PAGE_BITS, np.bool_)
        of_pages = np.arange(0, len(pages), 1 << _PAGE_BITS)
        for chunk in chunks.packed():
            _mark(*_streams(chunk), self._shift + _PAGE_BITS, of_pages, pages)
        self._pages = np.flatnonzero(pages)
        self.place = np.cumsum(pages) - 1 << _PAGE_BITS
        self.count = len(self._pages) << _PAGE_BITS

    def mark(self, chunk: TraceChunk, marks: npt.NDArray[np.bool_]) -> None:
        """Mark what a chunk touches; bool [count]."""
        _mark(*_streams(chunk), self._shift, self.place, marks)

    def numbers(self, marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
        """The numbers of the marked lines."""
        page, line = np.divmod(np.flatnonzero(marks), 1 << _PAGE_BITS)
        return np.asarray((self._pages[page] << _PAGE_BITS) + line, np.uint32)


def _streams(chunk: TraceChunk) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], Loops]:
    return np.ascontiguousarray(chunk.sector_offset), np.ascontiguousarray(chunk.sectors), loops_of(chunk)


_MOST_UNPACKED = 16 << 20  # bytes of chunks that are kept as they were recorded, too
_MOST_JOINED = 1 << 15  # bytes of chunks that become one: each costs its readers some hundred microseconds


def _joined(chunks: Sequence[TraceChunk]) -> list[TraceChunk]:
    """The same warps in fewer chunks: small ones that follow each other are one."""
    groups, room = list[list[TraceChunk]](), 0
    for chunk in chunks:
        streams = ((chunk.event_offset, 1), (chunk.sector_offset, 4))
        size = 4 * len(chunk.path) + sum(int(np.diff(offset).sum()) * width for offset, width in streams)
        if size > room or not groups:
            groups.append([])
            room = _MOST_JOINED
        groups[-1].append(chunk)
        room -= size
    return [group[0] if len(group) == 1 else _one_of(group) for group in groups]


def _one_of(chunks: Sequence[TraceChunk]) -> TraceChunk:
    """The chunk of the warps of all these."""

    def joined(streams: list[tuple[Longs, npt.NDArray[Any]]]) -> tuple[Longs, npt.NDArray[Any]]:
        lengths = np.concatenate([np.diff(offset) for offset, _ in streams])
        parts = [np.asarray(stream)[int(offset[0]) : int(offset[-1])] for offset, stream in streams]
        return np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(parts)

    event_offset, events = joined([(chunk.event_offset, chunk.events) for chunk in chunks])
    sector_offset, sectors = joined([(chunk.sector_offset, chunk.sectors) for chunk in chunks])
    is_packed = any(chunk.loops is not None for chunk in chunks)
    return TraceChunk(
        chunks[0].first_warp, np.concatenate([chunk.path for chunk in chunks]), event_offset, events, sector_offset, sectors,
        np.concatenate([loops_of(chunk) for chunk in chunks]) if is_packed else None,
    )  # fmt: skip


class Packed(InMemory):
    """Chunks of which some are packed, held in memory in warp order; few are also held as they were recorded."""

    def __init__(self, chunks: list[TraceChunk]) -> None:
        chunks = _joined(chunks)
        super().__init__(chunks)
        self._unpacked: list[TraceChunk] = []
        self.held = sum(int(events.sum()) + 4 * int(sectors.sum()) for events, sectors in map(lengths, chunks)) <= _MOST_UNPACKED

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        columns = ("path", "event_offset", "events", "sector_offset", "sectors")
        return sum(getattr(chunk, name).nbytes for chunk in super().__iter__() for name in columns)

    def __iter__(self) -> Iterator[TraceChunk]:
        if not self.held:
            return map(unpacked, super().__iter__())
        if not self._unpacked:
            self._unpacked = [unpacked(chunk) for chunk in super().__iter__()]
        return iter(self._unpacked)

    def packed(self) -> Iterator[TraceChunk]:
        """As `ChunkSource.packed`."""
        return super().__iter__()
