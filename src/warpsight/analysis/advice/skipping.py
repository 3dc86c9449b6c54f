"""Traces whose warps leave out executions of instructions, and traces whose blocks do the work of several, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from warpsight.analysis.advice.rewriting import Longs, with_events, with_share
from warpsight.base.errors import LimitError
from warpsight.intervals.usage import occurrences, path_use
from warpsight.traces.events import EventReader
from warpsight.traces.schema import ChunkSource, InMemory, KernelTrace, PathTable, StaticInstruction, TraceChunk

Arrangement = Callable[[list[StaticInstruction]], list[StaticInstruction]]
# Visits of basic blocks of all paths together that are looked at.
_MOST_VISITS = 1 << 22


@dataclass(frozen=True)
class Visits:
    """The basic blocks that the warps on each path execute, one entry a visit: `block` and active `lanes`, int64 [visits]. Path p
    has the visits `first[p]` to `first[p + 1]`; run r of the path table begins at visit `of_run[r]`.
    """

    block: Longs
    lanes: Longs
    first: Longs
    of_run: Longs


def visits_of(trace: KernelTrace) -> Visits:
    """The visits of the paths of `trace`. Raises LimitError where they are too many."""
    table = trace.paths
    repeat = np.asarray(table.repeat, dtype=np.int64)
    if int(repeat.sum()) > _MOST_VISITS:
        raise LimitError(f"the paths of the warps have over {_MOST_VISITS:,} basic blocks", remedy="use a smaller launch")
    of_run = np.concatenate([[0], np.cumsum(repeat)])
    block, lanes = (np.repeat(np.asarray(column, dtype=np.int64), repeat) for column in (table.block, table.lanes))
    return Visits(block, lanes, of_run[np.asarray(table.offset, dtype=np.int64)], of_run)


def skipping(trace: KernelTrace, visits: Visits, skipped: Longs, arranged: Arrangement = list) -> KernelTrace:
    """`trace` without the executions `skipped`: sorted numbers, visit x instructions + pc.

    A visit that leaves out instructions is one of a basic block of its own, with the others; one without any others is none. These
    are `arranged`, which must keep the order of those with events.
    """
    count = len(trace.instructions)
    visit, pc = skipped // count, skipped % count
    mark = np.random.default_rng(0).integers(1, 1 << 62, count)
    left_out = np.zeros(len(visits.block), dtype=np.int64)
    np.add.at(left_out, visit, mark[pc])  # tells apart what visits of a block leave out
    forms, example, form = np.unique(np.stack([visits.block, left_out]), axis=1, return_index=True, return_inverse=True)
    instructions, start, number = list(trace.instructions), trace.block_start.tolist(), np.zeros(len(example), dtype=np.int64)
    for each, (block, some) in enumerate(forms.T.tolist()):
        if not some:
            number[each] = block
            continue
        begin, end = np.searchsorted(visit, (example[each], example[each] + 1))
        gone = set(pc[begin:end].tolist())
        whole = trace.instructions[trace.block_start[block] : trace.block_start[block + 1]]
        left = arranged([i for i in whole if i.pc not in gone])
        number[each] = len(start) - 1 if left else -1
        if left:
            instructions += [replace(i, pc=len(instructions) + k) for k, i in enumerate(left)]
            start.append(len(instructions))
    paths = _packed(visits, number[form.reshape(-1)])
    changed = replace(
        trace, instructions=tuple(instructions), block_start=np.array(start, dtype=np.int32), paths=paths, origin="", extra={},
        chunks=_Skipping(trace, visits, skipped),
    )  # fmt: skip
    warps = path_use(trace)[0]
    share = occurrences(changed, warps).sum() / occurrences(trace, warps).sum()
    return replace(changed, header=with_share(trace.header, float(share)))


def _packed(visits: Visits, block: Longs) -> PathTable:
    """The path table of these visits, as visits of `block` (-1: left out): equal ones in succession are one run."""
    path = np.repeat(np.arange(len(visits.first) - 1), np.diff(visits.first))
    kept = block >= 0
    path, block, lanes = path[kept], block[kept], visits.lanes[kept]
    new = np.ones(len(path), dtype=np.bool_)
    new[1:] = (path[1:] != path[:-1]) | (block[1:] != block[:-1]) | (lanes[1:] != lanes[:-1])
    begin = np.flatnonzero(new)
    repeat = np.diff(np.append(begin, len(path)))
    offset = np.searchsorted(path[begin], np.arange(len(visits.first)))
    return PathTable(
        offset.astype(np.int64), block[begin].astype(np.int32), lanes[begin].astype(np.uint8), repeat.astype(np.int32)
    )


class _Skipping(ChunkSource):
    """The chunks of a trace without the events of executions that are skipped."""

    def __init__(self, trace: KernelTrace, visits: Visits, skipped: Longs) -> None:
        self._trace, self._visits, self._skipped, self._reader = trace, visits, skipped, EventReader(trace)

    def __iter__(self) -> Iterator[TraceChunk]:
        for chunk in self._trace.chunks:
            events = self._reader.read(chunk)
            execution = (self._visits.of_run[events.run] + events.turn) * len(self._trace.instructions) + events.pc
            place = np.minimum(np.searchsorted(self._skipped, execution), max(len(self._skipped) - 1, 0))
            gone = self._skipped[place] == execution if len(self._skipped) else np.zeros(len(execution), dtype=np.bool_)
            yield with_events(self._trace, chunk, events, np.flatnonzero(~gone))


# -- Blocks that do the work of several.

def in_turn(trace: KernelTrace, few: int) -> tuple[KernelTrace, list[Longs]]:
    """`trace` of all blocks with the work in `few` blocks, each that of several in a row, one after the other; and for each path of
    it the runs at which the second and later ones of these begin. Raises LimitError where that takes too much memory."""
    chunk, per_block, table = _joined(trace), trace.header.warps_per_block, trace.paths
    warp = np.arange(len(chunk.path))
    merged = warp // per_block * few // trace.header.blocks * per_block + warp % per_block
    order = np.argsort(merged, kind="stable")
    place = np.empty_like(order)
    place[order] = warp
    events = EventReader(trace).read(chunk)
    kept = np.argsort(place[events.warp], kind="stable")
    ends = np.searchsorted(merged[order], np.arange(few * per_block + 1))
    joined = [tuple(chunk.path[order[a:b]].tolist()) for a, b in pairwise(ends.tolist())]
    numbers = {path: number for number, path in enumerate(dict.fromkeys(joined))}
    path = np.array([numbers[each] for each in joined], dtype=np.int32)
    moved = with_events(trace, replace(chunk, path=path), replace(events, warp=merged[events.warp]), kept)
    runs = np.diff(np.asarray(table.offset, dtype=np.int64))
    lengths = [runs[list(each)] for each in numbers]
    if sum(int(each.sum()) for each in lengths) > _MOST_VISITS:
        raise LimitError("the blocks execute too many different instruction streams", remedy="use a smaller launch")
    old = np.concatenate([np.arange(table.offset[p], table.offset[p + 1]) for each in numbers for p in each])
    offset = np.concatenate([[0], np.cumsum([int(each.sum()) for each in lengths])])
    paths = PathTable(offset, table.block[old], table.lanes[old], table.repeat[old])
    header = replace(trace.header, grid=(few, 1, 1))
    changed = replace(trace, header=header, paths=paths, chunks=InMemory([moved]), origin="")
    return changed, [offset[k] + np.cumsum(each)[:-1] for k, each in enumerate(lengths)]


_MOST_SECTORS = 1 << 26


def _joined(trace: KernelTrace) -> TraceChunk:
    """All chunks as one."""
    chunks = list[TraceChunk]()
    for chunk in trace.chunks:
        chunks.append(chunk)
        if sum(len(each.sectors) for each in chunks) > _MOST_SECTORS:
            raise LimitError(f"the launch touches over {_MOST_SECTORS:,} sectors", remedy="use a smaller launch")
    event, sector = (
        np.concatenate([[0], np.cumsum(np.concatenate([np.diff(np.asarray(getattr(each, name))) for each in chunks]))])
        for name in ("event_offset", "sector_offset")
    )
    path, events, sectors = (np.concatenate([getattr(each, name) for each in chunks]) for name in ("path", "events", "sectors"))
    return TraceChunk(0, path, event, events, sector, sectors)
