"""Warps that begin late in their loop: what they do before is left out of a trace, but for the memory that it reads.

A loop that makes the same accesses again and again, farther on each time (module `packing`), is in the same state long before its
end. Blocks that only bring caches and warps into their state need not run all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import jit
from warpsight.traces.packing import Lines, loop_of_path, loops_of, memory_rows, unpacked
from warpsight.traces.schema import LOAD, SECTOR_BYTES, ChunkSource, KernelTrace, PathTable, TraceChunk
from warpsight.traces.waves import only

_BEGINNING = 1 << 30  # of what is not left out, in laps
_ROUND = 256 // SECTOR_BYTES  # laps after which every sector is again at its place in the widest segment of memory
_MOST_LENGTHS = 8  # of loops, in rounds, that are counted apart
Longs = npt.NDArray[np.int64]


class FewerLaps:
    """A trace of which each warp leaves out the first laps of its packed loop, as many as `skipped` says."""

    def __init__(self, trace: KernelTrace) -> None:
        self._trace = trace
        self._start, width, _ = memory_rows(trace.instructions, trace.block_start)
        self._weight = np.diff(np.concatenate([[0], np.cumsum(width)])[self._start])
        pairs = [np.empty((0, 2), np.int64), *(self._pairs(chunk) for chunk in trace.chunks.packed())]
        self._known, inverse = np.unique(np.concatenate(pairs), axis=0, return_inverse=True)
        self._numbers = inverse.reshape(-1)

    def skipped(self, chunk: TraceChunk) -> Longs:
        """Laps that each warp of a chunk leaves out, int64 [warps]."""
        raise NotImplementedError

    def _loop(self, path: int) -> tuple[int, int, int, npt.NDArray[np.int32]]:
        """The loop of a path: its first entry, entries of an iteration, bytes of events of an iteration, and its basic blocks."""
        table = self._trace.paths
        low, high = table.offset[path], table.offset[path + 1]
        first, size, _ = loop_of_path(table.block[low:high], table.lanes[low:high], table.repeat[low:high], self._weight)
        blocks = table.block[low + first : low + first + size]
        turns = np.ones(1, np.int64) if size == 1 else table.repeat[low + first : low + first + size]
        return first, size, int((self._weight[blocks] * turns).sum()), blocks

    def _pairs(self, chunk: TraceChunk) -> Longs:
        """Path and iterations left out of each warp, int64 [warps, 2]."""
        laps = self.skipped(chunk)
        period = np.zeros(len(laps), np.int64)
        for path in np.unique(np.asarray(chunk.path)[laps > 0]).tolist():
            of_path = (chunk.path == path) & (laps > 0)
            assert chunk.loops is not None
            period[of_path] = chunk.loops[of_path, 1] // self._loop(path)[2]
        return np.stack([np.asarray(chunk.path, np.int64), laps * period], axis=1)

    def trace(self) -> KernelTrace:
        """The trace without what is left out."""
        table = self._trace.paths
        columns: list[tuple[npt.NDArray[Any], ...]] = []
        for path, iterations in self._known.tolist():
            low, high = table.offset[path], table.offset[path + 1]
            column: tuple[npt.NDArray[Any], ...] = (table.block[low:high], table.lanes[low:high], table.repeat[low:high].copy())
            if iterations:
                first, size, _, _ = self._loop(path)
                if size == 1:
                    column[2][first] -= iterations
                else:
                    column = tuple(np.delete(each, np.s_[first : first + size * iterations]) for each in column)
            columns.append(column)
        offset = np.cumsum([0, *(len(block) for block, _, _ in columns)])
        block, lanes, repeat = (np.concatenate(each) for each in zip(*columns, strict=True))
        return replace(self._trace, paths=PathTable(offset, block, lanes, repeat), chunks=_Late(self._trace.chunks, self))

    def late(self, chunk: TraceChunk) -> TraceChunk:
        """The chunk without what is left out, with paths of the new table."""
        path = self._numbers[chunk.first_warp : chunk.first_warp + len(chunk.path)].astype(np.int32)
        skipped = self.skipped(chunk)
        if chunk.loops is None or not skipped.any():
            return replace(chunk, path=path)
        sectors, loops = np.array(chunk.sectors), chunk.loops.copy()
        loops[:, 4] -= skipped
        _move_on(np.ascontiguousarray(chunk.sector_offset), loops, skipped, sectors)
        return replace(chunk, path=path, sectors=sectors, loops=loops)


class LateWarps(FewerLaps):
    """A trace of which each block runs only the last `share`, float64 [recorded blocks], of the laps of its warps' packed loops.

    Loops that write to memory run whole, and so do warps without a packed loop.
    """

    def __init__(self, trace: KernelTrace, share: npt.NDArray[np.float64]) -> None:
        self._share = np.repeat(share, trace.header.warps_per_block)
        writes = np.array([i.has_sectors and i.access != LOAD for i in trace.instructions], np.int64)
        self._reads_only = np.diff(np.concatenate([[0], np.cumsum(writes)])[np.asarray(trace.block_start)]) == 0
        super().__init__(trace)

    def skipped(self, chunk: TraceChunk) -> Longs:
        """Laps that each warp of a chunk leaves out, int64 [warps]."""
        if chunk.loops is None:
            return np.zeros(len(chunk.path), np.int64)
        laps = chunk.loops[:, 4]
        share = self._share[chunk.first_warp : chunk.first_warp + len(chunk.path)]
        paths, place = np.unique(np.asarray(chunk.path), return_inverse=True)
        reads_only = np.array([bool(self._reads_only[self._loop(path)[3]].all()) for path in paths.tolist()])[place]
        return np.where(reads_only & (laps > 1), laps - np.maximum(1, np.ceil(laps * share)).astype(np.int64), 0)

    def read_before(self, most_bytes: int) -> Longs:
        """What is left out reads last, `most_bytes` at most: runs of memory, those read last at the end. Rows as `between.touch`
        takes them, int64 [n, 5].

        Warps take as long for a lap as others: what they read as many laps before they begin is read at a time.
        """
        lines = Lines(self._trace.chunks, SECTOR_BYTES)
        last = np.zeros(lines.count, np.int32)
        for chunk in self._trace.chunks.packed():
            skipped = self.skipped(chunk)
            if chunk.loops is not None and skipped.any():
                _read_last(
                    np.ascontiguousarray(chunk.sector_offset), np.ascontiguousarray(chunk.sectors),
                    np.ascontiguousarray(chunk.loops), skipped, lines.place, last,
                )  # fmt: skip
        sectors, laps = lines.numbers(last > 0).astype(np.int64), last[last > 0]
        order = np.argsort(laps, kind="stable")[-(most_bytes // SECTOR_BYTES) :]
        sectors, laps = sectors[order], laps[order]
        begins = np.ones(len(sectors), np.bool_)
        begins[1:] = (np.diff(sectors) != 1) | (np.diff(laps) != 0)
        first = np.flatnonzero(begins)
        rows = np.zeros((len(first), 5), np.int64)
        rows[:, 0], rows[:, 3] = sectors[first] * SECTOR_BYTES, 1
        rows[:, 2] = np.diff(np.append(first, len(sectors))) * SECTOR_BYTES
        return rows


class _Ends(FewerLaps):
    """A trace with few laps of each loop: so many rounds of `_ROUND` laps and what is left over of the last one."""

    def __init__(self, trace: KernelTrace, rounds: int) -> None:
        self._rounds = rounds
        super().__init__(trace)

    def skipped(self, chunk: TraceChunk) -> Longs:
        """As `FewerLaps.skipped`."""
        return _ROUND * np.maximum(0, loops_of(chunk)[:, 4] // _ROUND - self._rounds)


def sum_of(trace: KernelTrace, count: Callable[[KernelTrace], Longs]) -> Longs:
    """`count` of all warps of a trace, where it is a sum over their accesses in which only the place of sectors in aligned
    256 bytes matters. In a loop that repeats itself after `_ROUND` laps, so that two rounds of them tell of all.
    """
    rounds = [np.unique(loops_of(chunk)[:, 4] // _ROUND) for chunk in trace.chunks.packed()]
    further = np.unique(np.concatenate([np.zeros(1, np.int64), *rounds])) - 1
    further = further[further > 0]
    if not len(further) or len(further) > _MOST_LENGTHS:
        return count(trace)
    one, two = _Ends(trace, 1).trace(), _Ends(trace, 2).trace()
    total = count(one)
    for each in further.tolist():
        alike = [replace(part, chunks=_OfLength(part.chunks, trace.chunks, each)) for part in (one, two)]
        total = total + each * (count(alike[1]) - count(alike[0]))
    return total


class _Late(ChunkSource):
    def __init__(self, chunks: ChunkSource, warps: FewerLaps) -> None:
        self._chunks, self._warps = chunks, warps

    def __iter__(self) -> Iterator[TraceChunk]:
        return map(unpacked, self.packed())

    def packed(self) -> Iterator[TraceChunk]:
        """As `ChunkSource.packed`."""
        return map(self._warps.late, self._chunks.packed())


class _OfLength(ChunkSource):
    """Warps of chunks whose loops have so many further rounds of laps in the chunks `whole` beside them."""

    def __init__(self, chunks: ChunkSource, whole: ChunkSource, further: int) -> None:
        self._chunks, self._whole, self._further = chunks, whole, further

    def __iter__(self) -> Iterator[TraceChunk]:
        return map(unpacked, self.packed())

    def packed(self) -> Iterator[TraceChunk]:
        """As `ChunkSource.packed`."""
        for chunk, whole in zip(self._chunks.packed(), self._whole.packed(), strict=True):
            chosen = loops_of(whole)[:, 4] // _ROUND - 1 == self._further
            if chosen.any():
                yield chunk if chosen.all() else only(chunk, chosen)


@jit(cache=True, nogil=True)
def _move_on(sector_offset, loops, skipped, sectors):  # type: ignore[no-untyped-def]
    """Let the sectors of each warp's loop begin so many laps later."""
    for warp in range(len(loops)):
        start, count = sector_offset[warp] + loops[warp, 2], loops[warp, 3]
        for k in range(start, start + count if skipped[warp] > 0 else start):
            sectors[k] += np.uint32(skipped[warp]) * sectors[k + count]


@jit(cache=True, nogil=True)
def _read_last(sector_offset, sectors, loops, skipped, place, last):  # type: ignore[no-untyped-def]
    """Note for each sector, those of page p from `place[p]` on, when it is read last: `_BEGINNING` less the laps from there to
    where the warps begin. What equals a sector just before, or the same one of the warp before, has been noted.
    """
    for warp in range(len(loops)):
        start, count = sector_offset[warp] + loops[warp, 2], loops[warp, 3]
        before = np.int64(0)  # how far the same sector of the warp before lies behind
        if warp > 0 and (loops[warp, 2:] == loops[warp - 1, 2:]).all() and skipped[warp] == skipped[warp - 1]:
            before = sector_offset[warp] - sector_offset[warp - 1]
        for k in range(start, start + count):
            sector, stride = np.int64(sectors[k]), np.int64(sectors[k + count])
            if k > start and sectors[k - 1] == sectors[k] and sectors[k - 1 + count] == sectors[k + count]:
                continue
            if before > 0 and sectors[k - before] == sectors[k] and sectors[k - before + count] == sectors[k + count]:
                continue
            for lap in range(skipped[warp]):
                at = place[(sector & 0xFFFFFFFF) >> 12] + (sector & 0xFFF)
                last[at] = max(last[at], _BEGINNING + lap - skipped[warp])
                sector += stride
