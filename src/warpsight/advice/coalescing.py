"""A trace whose accesses at some instructions are coalesced: the same data, laid out so that a warp's lanes find it side by side.

An access that touches n sectors where its lanes' bytes fill m is given m sectors next to each other. Which m of its n it stands
for turns from one execution to the next: a warp that touches the same n sectors again (as a strided walk does, word by word) has
moved on by one word, so the accesses together touch what they touched before, and what is used again later is found again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError
from warpsight.trace.events import ChunkEvents, EventReader
from warpsight.trace.schema import SECTOR_BYTES, STORE, WARP_SIZE, ChunkSource, KernelTrace, TraceChunk

Longs = npt.NDArray[np.int64]
_MOST_SECTOR = 2**32 - 1


def coalesced(trace: KernelTrace, pcs: Sequence[int], line_bytes: int) -> KernelTrace:
    """`trace` with the accesses of `pcs` coalesced, for an L1 with lines of `line_bytes`. Accesses that are so already stay.

    The data move to new addresses behind all others. Lanes are those active at the entry of the basic block.
    Raises LimitError when addresses run out.
    """
    return replace(trace, chunks=_Coalesced(trace, pcs, line_bytes), origin="")


@dataclass(frozen=True)
class _Moved:
    """The events of a chunk that change: their numbers, new counts of sectors, and the old sector that names their new place."""

    event: Longs
    count: Longs
    leader: Longs


class _Coalesced(ChunkSource):
    """The chunks of a trace, rewritten as they are read."""

    def __init__(self, trace: KernelTrace, pcs: Sequence[int], line_bytes: int) -> None:
        self._trace, self._pcs, self._per_line = trace, np.array(pcs), line_bytes // SECTOR_BYTES
        self._bytes = np.array([instruction.access_bytes for instruction in trace.instructions], dtype=np.int64)
        self._store = np.array([instruction.access == STORE for instruction in trace.instructions], dtype=np.int64)
        self._reader = EventReader(trace)
        leaders, last = np.zeros(0, dtype=np.int64), 0
        for chunk in trace.chunks:
            events = self._reader.read(chunk)
            leaders = np.union1d(leaders, self._moved(chunk, events).leader)
            last = max(last, int(chunk.sectors.max(initial=0)))
        self._leaders = leaders
        # a full warp's bytes, so that neighbours in the old order are neighbours in the new one
        self._stride = max(1, int(-(-self._bytes[self._pcs].max() * WARP_SIZE // SECTOR_BYTES)))
        self._base = (last // self._per_line + 1) * self._per_line
        if self._base + len(leaders) * self._stride > _MOST_SECTOR:
            raise LimitError("the addresses of the trace leave no room to move data", remedy="advise on a smaller launch")

    def __iter__(self) -> Iterator[TraceChunk]:
        for chunk in self._trace.chunks:
            yield self._rewritten(chunk)

    def _moved(self, chunk: TraceChunk, events: ChunkEvents) -> _Moved:
        chosen = np.flatnonzero(np.isin(events.pc, self._pcs) & (events.sectors > 0))
        count, first, pc = events.sectors[chosen], events.first[chosen], events.pc[chosen]
        least = np.maximum(-(-events.lanes[chosen] * self._bytes[pc] // SECTOR_BYTES), 1)
        own = np.repeat(np.arange(len(chosen)), count)
        place = np.arange(len(own)) - np.repeat(np.cumsum(count) - count, count)
        sectors = chunk.sectors[np.repeat(first, count) + place].astype(np.int64)
        lines = _distinct(own, sectors // self._per_line, len(chosen))
        m = np.minimum(count, least)
        moving = (count > least) | (lines > -(-m // self._per_line))
        turn = _turns(events.warp[chosen], self._store[pc], _hashes(own, place, sectors, len(chosen)))
        slot = turn % np.maximum(count // m, 1)
        leader = chunk.sectors[first + slot * m].astype(np.int64) if len(chosen) else count
        return _Moved(chosen[moving], m[moving], leader[moving])

    def _rewritten(self, chunk: TraceChunk) -> TraceChunk:
        events = self._reader.read(chunk)
        moved = self._moved(chunk, events)
        count = events.sectors.copy()
        count[moved.event] = moved.count
        base = np.full(len(count), -1, dtype=np.int64)
        base[moved.event] = self._base + np.searchsorted(self._leaders, moved.leader) * self._stride
        own = np.repeat(np.arange(len(count)), count)
        place = np.arange(len(own)) - np.repeat(np.cumsum(count) - count, count)
        old = chunk.sectors[events.first[own] + place].astype(np.int64) if len(own) else own
        sectors = np.where(base[own] >= 0, base[own] + place, old)
        bytes_ = np.array(chunk.events, copy=True)
        bytes_[events.at[moved.event]] = moved.count
        per_warp = np.bincount(events.warp, count, len(chunk.path)).astype(np.int64)
        offset = np.concatenate([[0], np.cumsum(per_warp)])
        return replace(chunk, events=bytes_, sector_offset=offset, sectors=sectors.astype(np.uint32))


def _distinct(own: Longs, values: Longs, count: int) -> Longs:
    """How many different `values` each of `count` owners has."""
    order = np.lexsort((values, own))
    owner, value = own[order], values[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (owner[1:] != owner[:-1]) | (value[1:] != value[:-1])
    return np.bincount(owner[new], minlength=count).astype(np.int64)


def _hashes(own: Longs, place: Longs, sectors: Longs, count: int) -> npt.NDArray[np.uint64]:
    """A number for each owner's list of sectors; equal lists have equal ones."""
    mixed = (sectors + (place << 33)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    found = np.zeros(count, dtype=np.uint64)
    np.add.at(found, own, mixed)
    return found


def _turns(warp: Longs, store: Longs, hashes: npt.NDArray[np.uint64]) -> Longs:
    """How many times before a warp has touched the same list, loads and stores apart."""
    order = np.lexsort((np.arange(len(warp)), hashes, store, warp))
    same = np.ones(len(order), dtype=np.bool_)
    for key in (warp, store, hashes):
        sorted_key = key[order]
        same[1:] &= sorted_key[1:] == sorted_key[:-1]
    same[:1] = False
    starts = np.flatnonzero(~same)
    turns = np.zeros(len(order), dtype=np.int64)
    turns[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return turns
