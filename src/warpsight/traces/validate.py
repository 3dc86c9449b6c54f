"""Checks that a trace is consistent, so that compiled loops over it never index out of bounds.

A producer's defect and a damaged file are detected here, once, and named.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import jit
from warpsight.base.errors import FormatError
from warpsight.base.room import drop_pages
from warpsight.traces.events import sectors_of_event
from warpsight.traces.path_store import pieces, sums_of_paths
from warpsight.traces.schema import ACCESSES, WARP_SIZE, KernelTrace, PathTable, StaticInstruction, TraceChunk, TraceHeader
from warpsight.traces.store_format import REMEDY

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
_LIMIT = float(2**62)  # totals above this would wrap around in int64


@jit(sources=("traces/events.py",), cache=True, nogil=True)  # type: ignore[misc, unused-ignore]
def _walk_sectors(
    path: Ints, event_offset: Longs, events: npt.NDArray[np.uint8], run_offset: Longs, run_block: Ints, run_repeat: Ints,
    shape_offset: Longs, shape_width: Longs, shape_counts: Longs,
) -> Any:  # fmt: skip
    """Number of sectors by each warp's events, int64 [n]. The caller has checked that the events of every warp match its path."""
    counted = np.zeros(len(path), np.int64)
    for w in range(len(path)):
        event = event_offset[w]
        for run in range(run_offset[path[w]], run_offset[path[w] + 1]):
            first, last = shape_offset[run_block[run]], shape_offset[run_block[run] + 1]
            if first == last:
                continue
            for _ in range(run_repeat[run]):
                for k in range(first, last):
                    counted[w] += sectors_of_event(events, event, shape_counts[k])
                    event += shape_width[k]
    return counted


class ChunkChecker:
    """Checks chunks against the rest of the trace. Made once per trace; making it checks the static part and the paths.

    `instructions_of_path` int64 [paths] is the number of warp instructions of each path.
    Raises FormatError, naming `origin`.
    """

    def __init__(
        self, header: TraceHeader, instructions: tuple[StaticInstruction, ...], block_start: Ints, paths: PathTable, origin: str
    ) -> None:
        self.origin, self._paths = origin, paths
        self._per_block = max(1, header.warps_per_block)
        if min(*header.grid, *header.block) < 1:
            self._fail(f"grid {header.grid} or block {header.block} has a dimension below one")
        if min(header.cluster) < 1 or any(blocks % size for blocks, size in zip(header.grid, header.cluster, strict=True)):
            self._fail(f"clusters of {header.cluster} blocks do not divide the grid {header.grid}")
        if header.recorded_blocks % header.cluster_blocks:
            self._fail(f"its {header.recorded_blocks} blocks are not whole clusters of {header.cluster_blocks}")
        if header.sampled_blocks > header.blocks or header.sampled_instructions > header.warp_instructions:
            self._fail(f"it holds {header.sampled_blocks} blocks of {header.blocks}, or more instructions than were executed")
        self._check_instructions(instructions)
        if not len(block_start) or block_start[0] != 0 or block_start[-1] != len(instructions) or (np.diff(block_start) < 0).any():
            self._fail(f"the basic blocks do not divide the {len(instructions)} instructions")
        self._check_paths(paths, len(block_start) - 1)
        width = np.array([i.event_bytes for i in instructions], np.int64)
        memory = np.flatnonzero(width)
        self._shape_offset = np.searchsorted(memory, block_start).astype(np.int64)
        self._shape_width = width[memory]
        self._shape_counts = np.array([instructions[i].sector_bytes for i in memory], np.int64)
        self.instructions_of_path = self._per_path(np.diff(block_start).astype(np.int64))
        total = np.concatenate(([0], np.cumsum(width)))
        self.event_bytes_of_path = self._per_path(np.diff(total[block_start]))

    def check(self, chunk: TraceChunk, first_warp: int) -> None:
        """Check one chunk that must begin at warp `first_warp`. Raises FormatError."""
        n = len(chunk.path)
        if chunk.first_warp != first_warp or n % self._per_block:
            self._fail(f"{n} warps from warp {chunk.first_warp}, and whole blocks from warp {first_warp} are expected")
        self._check_offsets("event", chunk.event_offset, n, len(chunk.events))
        self._check_offsets("sector", chunk.sector_offset, n, len(chunk.sectors))
        if n and (int(chunk.path.min()) < 0 or int(chunk.path.max()) >= len(self._paths)):
            self._fail(f"a warp names a path that is not among the {len(self._paths)} paths")
        self._check_counts(np.diff(chunk.event_offset), self.event_bytes_of_path[chunk.path], first_warp, "event bytes")
        counted = _walk_sectors(
            chunk.path, chunk.event_offset, chunk.events, self._paths.offset, self._paths.block, self._paths.repeat,
            self._shape_offset, self._shape_width, self._shape_counts,
        )  # fmt: skip
        drop_pages(self._paths.block, self._paths.repeat)
        self._check_counts(np.diff(chunk.sector_offset), counted, first_warp, "sectors")

    def _per_path(self, per_block: Longs) -> Longs:
        if float(sums_of_paths(self._paths, per_block.astype(np.float64)).sum()) > _LIMIT:
            self._fail("the paths repeat their blocks more often than can be counted")
        return sums_of_paths(self._paths, per_block)

    def _check_instructions(self, instructions: tuple[StaticInstruction, ...]) -> None:
        for index, i in enumerate(instructions):
            if i.pc != index:
                self._fail(f"instruction {index} has pc {i.pc}")
            if i.access not in ("", *ACCESSES) or i.access_bytes < 0:
                self._fail(f'instruction {index} has access "{i.access}" of {i.access_bytes} bytes')
            if min((*i.sources, *i.destinations), default=0) < 0:
                self._fail(f"instruction {index} names a negative register")

    def _check_paths(self, paths: PathTable, blocks: int) -> None:
        runs = len(paths.block)
        if len(paths.lanes) != runs or len(paths.repeat) != runs:
            self._fail("the columns of the paths differ in length")
        self._check_offsets("path", paths.offset, len(paths), runs)
        for _, piece in pieces(paths):
            if not len(piece.block):
                continue
            if int(piece.block.min()) < 0 or int(piece.block.max()) >= blocks:
                self._fail(f"a path enters a basic block that is not among the {blocks} blocks")
            if int(piece.lanes.max()) > WARP_SIZE or int(piece.repeat.min()) < 1:
                self._fail(f"a path enters a basic block with more than {WARP_SIZE} lanes or less than once")

    def _check_offsets(self, name: str, offset: Longs, rows: int, items: int) -> None:
        divides = rows >= 0 and len(offset) == rows + 1 and offset[0] == 0 and offset[-1] == items
        if not divides or bool((np.diff(offset) < 0).any()):
            self._fail(f"the {name} offsets do not divide its {items} items among {max(rows, 0)} rows")

    def _check_counts(self, counts: Longs, expected: Longs, first_warp: int, name: str) -> None:
        different = np.flatnonzero(counts != expected)
        if len(different):
            w = int(different[0])
            self._fail(f"warp {first_warp + w} has {int(counts[w])} {name}, and its path and events need {int(expected[w])}")

    def _fail(self, contradiction: str) -> None:
        raise FormatError(f"the trace contradicts itself: {contradiction}", place=self.origin, remedy=REMEDY)


def validate(trace: KernelTrace) -> None:
    """Check a whole trace: static part, paths, every chunk, and the totals of the header. Raises FormatError at the first fault.

    One pass over the chunks; a stored trace is read piece by piece.
    """
    place = trace.origin or trace.header.kernel
    checker = ChunkChecker(trace.header, trace.instructions, trace.block_start, trace.paths, place)
    warps = instructions = 0
    for chunk in trace.chunks:
        checker.check(chunk, warps)
        warps += len(chunk.path)
        instructions += int(checker.instructions_of_path[chunk.path].sum())
    header = trace.header
    totals = (("warps", warps, header.warps), ("warp instructions", instructions, header.recorded_instructions))
    for name, count, stated in totals:
        if count != stated:
            raise FormatError(f"the trace has {count} {name}, and its header states {stated}", place=place, remedy=REMEDY)
