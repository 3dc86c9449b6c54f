"""The memory events of a trace: the instruction that made each, and its sectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import inlined
from warpsight.traces.schema import BARRIER_RECORD, NO_OBJECT, KernelTrace, TraceChunk

Longs = npt.NDArray[np.int64]


@inlined
def sectors_of_event(events: Any, first: int, size: int) -> int:
    """In compiled code: the sectors of the event at byte `first`, which its first `size` bytes count; 0 bytes: it has none."""
    sectors = np.int64(events[first]) if size > 0 else np.int64(0)
    for byte in range(1, size):
        sectors += np.int64(events[first + byte]) << 8 * byte
    return int(sectors)


@dataclass(frozen=True)
class ChunkEvents:
    """The n events of a chunk in the order of its warps and of their paths; all int64 [n].

    `warp` counts from the chunk's first; `lanes` are active at the entry of the basic block; `run` is the index in the path table,
    `turn` the repetition of that run, from 0. `byte` is the index of its first byte in `events`; `sectors` is the number of its
    sectors, 0 for shared memory, which begin at `first` in the chunk's `sectors`.
    """

    warp: Longs
    pc: Longs
    lanes: Longs
    run: Longs
    turn: Longs
    byte: Longs
    sectors: Longs
    first: Longs


MOST_OF_A_BYTE = 255


def most_sectors(trace: KernelTrace) -> int:
    """A bound of the sectors of one event: what a byte counts, or of a launch with larger copies the most that any has."""
    most = MOST_OF_A_BYTE
    if any(instruction.sector_bytes > 1 for instruction in trace.instructions):
        reader = EventReader(trace)
        for chunk in trace.chunks:
            most = max(most, int(reader.read(chunk).sectors.max(initial=0)))
    return most


def barrier_objects(trace: KernelTrace) -> Longs:
    """The mbarriers that the events of a launch name, in units of 8 bytes of the shared memory of a block, in order."""
    found, reader = {NO_OBJECT}, EventReader(trace)
    if not any(instruction.at_barrier for instruction in trace.instructions):
        return np.zeros(0, dtype=np.int64)
    place = np.array([i.event_bytes - BARRIER_RECORD.itemsize if i.at_barrier else -1 for i in trace.instructions], dtype=np.int64)
    for chunk in trace.chunks:
        read = reader.read(chunk)
        first = (read.byte + place[read.pc])[place[read.pc] >= 0]
        events = np.asarray(chunk.events).astype(np.int64)
        found.update(np.unique(events[first] | events[first + 1] << 8).tolist())
    return np.array(sorted(found - {NO_OBJECT}), dtype=np.int64)


_MOST_KEPT = 32 << 20  # bytes of the events of paths


class EventReader:
    """Reads the events of `trace`'s chunks. The events of a path are computed once, unless there are many long ones."""

    def __init__(self, trace: KernelTrace) -> None:
        self._trace = trace
        width = np.array([instruction.event_bytes for instruction in trace.instructions], dtype=np.int64)
        self._memory = np.flatnonzero(width)
        self._width = width
        self._counts = np.array([instruction.sector_bytes for instruction in trace.instructions], dtype=np.int64)
        # memory instructions of basic block b are entries start[b] to start[b + 1] of `_memory`
        self._start = np.searchsorted(self._memory, np.asarray(trace.block_start)).astype(np.int64)
        self._paths: dict[int, Longs] = {}
        self._kept_bytes = 0

    def read(self, chunk: TraceChunk) -> ChunkEvents:
        """The events of `chunk`, a consistent part of the trace."""
        return self._trace.once("events", chunk, lambda: self._read(chunk))

    def _read(self, chunk: TraceChunk) -> ChunkEvents:
        paths, number = np.unique(chunk.path, return_inverse=True)
        parts = [self._path(path) for path in paths.tolist()]
        sizes = np.array([part.shape[1] for part in parts], dtype=np.int64)
        lengths = sizes[number]
        warp = np.repeat(np.arange(len(number)), lengths)
        if len(parts) == 1:
            pc, run, turn, offset = np.tile(parts[0], len(number))
        elif parts:  # each warp's events are those of its path, in the table of all
            begin, ends = np.cumsum(sizes) - sizes, np.cumsum(lengths)
            at = np.arange(len(warp)) + np.repeat(begin[number] - (ends - lengths), lengths)
            pc, run, turn, offset = np.concatenate(parts, axis=1)[:, at]
        else:
            pc, run, turn, offset = np.zeros((4, 0), np.int64)
        byte = offset + np.asarray(chunk.event_offset)[warp]
        sectors, counted = np.zeros(len(byte), np.int64), self._counts[pc]
        for place in range(int(counted.max(initial=0))):
            here = np.flatnonzero(counted > place)
            sectors[here] += np.asarray(chunk.events)[byte[here] + place].astype(np.int64) << 8 * place
        first = np.cumsum(sectors) - sectors + (int(chunk.sector_offset[0]) if len(chunk.sector_offset) else 0)
        lanes = np.asarray(self._trace.paths.lanes)[run].astype(np.int64)
        return ChunkEvents(warp, pc, lanes, run, turn, byte, sectors, first)

    def _path(self, path: int) -> Longs:
        """Pc, run, repetition and byte offset of each event of a warp on path number `path`: int64 [4, events]."""
        if path not in self._paths:
            table = self._trace.paths
            runs = slice(int(table.offset[path]), int(table.offset[path + 1]))
            block = np.asarray(table.block[runs], dtype=np.int64)
            each = self._start[block + 1] - self._start[block]
            total = each * np.asarray(table.repeat[runs], dtype=np.int64)
            run = np.repeat(np.arange(len(block)), total)
            within = np.arange(len(run)) - np.repeat(np.cumsum(total) - total, total)
            # a run with events has at least one in each repetition
            pc = self._memory[self._start[block[run]] + within % each[run]]
            width = self._width[pc]
            found = np.stack([pc, run + runs.start, within // each[run], np.cumsum(width) - width])
            if self._kept_bytes + found.nbytes > _MOST_KEPT:
                self._paths, self._kept_bytes = {}, 0
            self._paths[path] = found
            self._kept_bytes += found.nbytes
        return self._paths[path]
