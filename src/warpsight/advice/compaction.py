"""A trace whose warps agree at a branch: threads that go the same way are put into the same warps.

What a warp executes with fewer lanes than it has, from a branch on until all lanes are together again, is executed by fewer
warps instead, with all lanes: of executions with a of A lanes the part a / A is left. The threads do what they did, so
instructions become fewer and requests to memory do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.caches.miss_profile import MissProfile
from warpsight.profile.usage import occurrences, path_use
from warpsight.trace.schema import ChunkSource, KernelTrace, PathTable, TraceChunk

Longs = npt.NDArray[np.int64]

# Of so many warps on one path, each keeps other executions, so that all together keep the parts that they should.
PHASES = 8

_PER_EXECUTION = ("executions", "divergent", "slowest_l1", "slowest_l2", "slowest_dram", "slowest_merged", "merged_wait_cycles",
                  "shared_executions", "shared_passes")  # fmt: skip


def divergent_runs(trace: KernelTrace) -> Longs:
    """For each run of the path table the basic block whose branch parted its lanes, int64; -1 where all of the warp's are active.

    That is the last block before it that the warp ran with all its lanes: of nested branches the outermost.
    """
    table = trace.paths
    lengths = np.diff(table.offset)
    most = np.zeros(len(table), dtype=np.int64)
    path = np.repeat(np.arange(len(table)), lengths)
    np.maximum.at(most, path, table.lanes)
    whole = table.lanes >= most[path]
    last = np.maximum.accumulate(np.where(whole, np.arange(len(path)), -1)) if len(path) else np.zeros(0, np.int64)
    # a path begins with all its lanes, or what parted them is not in it
    known = ~whole & (last >= table.offset[path])
    return np.where(known, np.asarray(table.block, dtype=np.int64)[last], -1)


def compacted(trace: KernelTrace, misses: MissProfile, block: int) -> tuple[KernelTrace, MissProfile]:
    """`trace` and its cache counts with warps that agree at the branch that ends basic block `block`.

    The chunks' events are left as they are: the trace is for profiles, not for another simulation of caches.
    """
    warps, _ = path_use(trace)
    before = occurrences(trace, warps)
    table, first = _variants(trace, divergent_runs(trace) == block)
    changed = replace(trace, paths=table, chunks=_Dealt(trace.chunks, first), origin="")
    used, _ = path_use(changed)
    after = occurrences(changed, used)
    scale = int(after.sum()) / int(before.sum())
    header = replace(
        trace.header,
        warp_instructions=round(trace.header.warp_instructions * scale),
        sampled_instructions=round(trace.header.sampled_instructions * scale),
    )
    kept = after / np.maximum(before, 1)
    counts: dict[str, Any] = {name: getattr(misses, name) for name in MissProfile.__dataclass_fields__}
    counts |= {name: np.rint(counts[name] * kept).astype(np.int64) for name in _PER_EXECUTION}
    return replace(changed, header=header), MissProfile(**counts)


def _variants(trace: KernelTrace, parted: npt.NDArray[np.bool_]) -> tuple[PathTable, Longs]:
    """Every path in as many forms as there are phases, or one where nothing is `parted`; and the first form of each path."""
    table = trace.paths
    offsets, blocks, lanes, repeats = [0], [], [], []
    first = np.zeros(len(table) + 1, dtype=np.int64)
    for path in range(len(table)):
        runs = slice(int(table.offset[path]), int(table.offset[path + 1]))
        here, count = parted[runs], np.asarray(table.repeat[runs], dtype=np.int64)
        most = max(int(table.lanes[runs].max(initial=0)), 1)
        share = np.where(here, table.lanes[runs] * count / most, 0.0)
        total = np.cumsum(share)
        forms = PHASES if here.any() else 1
        for phase in range(forms):
            left = np.floor(total + (phase + 0.5) / forms).astype(np.int64)
            kept = np.where(here, np.diff(left, prepend=0), count)
            there = kept > 0
            blocks.append(table.block[runs][there])
            lanes.append(np.where(here, most, table.lanes[runs])[there].astype(np.uint8))
            repeats.append(kept[there].astype(np.int32))
            offsets.append(offsets[-1] + int(there.sum()))
        first[path + 1] = first[path] + forms
    joined = PathTable(np.array(offsets, dtype=np.int64), np.concatenate(blocks), np.concatenate(lanes), np.concatenate(repeats))
    return joined, first


class _Dealt(ChunkSource):
    """Chunks whose warps on one path are dealt out to its forms in turn."""

    def __init__(self, chunks: ChunkSource, first: Longs) -> None:
        self._chunks, self._first = chunks, first

    def __iter__(self) -> Iterator[TraceChunk]:
        seen = np.zeros(len(self._first) - 1, dtype=np.int64)
        for chunk in self._chunks:
            path = np.asarray(chunk.path, dtype=np.int64)
            order = np.argsort(path, kind="stable")
            starts = np.searchsorted(path[order], path[order])
            turn = np.zeros(len(path), dtype=np.int64)
            turn[order] = np.arange(len(path)) - starts
            forms = np.diff(self._first)[path]
            dealt = self._first[path] + (seen[path] + turn) % forms
            seen += np.bincount(path, minlength=len(seen))
            yield replace(chunk, path=dealt.astype(np.int32))


@dataclass(frozen=True)
class Parting:
    """How much a branch parts: warp executions of instructions with fewer lanes, and those that whole warps would need."""

    block: int
    executed: float
    needed: float


def partings(trace: KernelTrace) -> list[Parting]:
    """The branches that part lanes, by the instructions that agreement would save, most first."""
    table, runs = trace.paths, divergent_runs(trace)
    warps, _ = path_use(trace)
    path = np.repeat(np.arange(len(table)), np.diff(table.offset))
    most = np.ones(len(table), dtype=np.int64)
    np.maximum.at(most, path, table.lanes)
    length = np.diff(np.asarray(trace.block_start, dtype=np.int64))[table.block]
    executed = (warps[path] * table.repeat.astype(np.int64) * length).astype(np.float64)
    needed = executed * table.lanes / most[path]
    found = []
    for block in np.unique(runs[runs >= 0]).tolist():
        here = runs == block
        found.append(Parting(block, float(executed[here].sum()), float(needed[here].sum())))
    return sorted(found, key=lambda part: part.needed - part.executed)
