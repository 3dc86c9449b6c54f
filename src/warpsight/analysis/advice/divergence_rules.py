"""What if the threads of a warp took the same side of a branch? Threads on the same side are moved into the same warps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.advice.rewriting import with_events, with_share
from warpsight.analysis.advice.rule import PROGRAMMER, Case, WhatIf, place_of_instruction
from warpsight.analysis.explanation_rows import has_machine_code, machine_word
from warpsight.base.units import percent
from warpsight.caches.miss_profile import MissProfile
from warpsight.intervals.usage import occurrences, path_use
from warpsight.result.prediction import Prediction
from warpsight.traces.events import EventReader
from warpsight.traces.schema import ChunkSource, KernelTrace, PathTable, TraceChunk

Longs = npt.NDArray[np.int64]

# Forms of a path: the executions that remain are distributed over this many warps in turn, so that together they have the right
# share.
PHASES = 8

_PER_EXECUTION = ("executions", "divergent", "slowest_l1", "slowest_l2", "slowest_far", "slowest_dram", "slowest_merged",
                  "merged_wait_cycles", "shared_executions", "shared_passes")  # fmt: skip


def divergent_runs(trace: KernelTrace) -> Longs:
    """For each run of the path table the basic block whose branch diverged, int64; -1 if all lanes of the warp are active.

    That is the last block before the run that the warp executed with all its lanes: of nested branches the outermost.
    """
    table = trace.paths
    lengths = np.diff(table.offset)
    most = np.zeros(len(table), dtype=np.int64)
    path = np.repeat(np.arange(len(table)), lengths)
    np.maximum.at(most, path, table.lanes)
    whole = table.lanes >= most[path]
    last = np.maximum.accumulate(np.where(whole, np.arange(len(path)), -1)) if len(path) else np.zeros(0, np.int64)
    # a path starts with all its lanes, or the branch that diverged is not in it
    return np.where(~whole & (last >= table.offset[path]), np.asarray(table.block, dtype=np.int64)[last], -1)


def compacted(trace: KernelTrace, misses: MissProfile, block: int) -> tuple[KernelTrace, MissProfile]:
    """`trace` and its cache counts without divergence at the branch that ends basic block `block`.

    The chunks keep the events of the remaining executions, with their sectors. The cache counts keep all requests:
    they are for the profile; the trace is not to be simulated again.
    """
    warps, _ = path_use(trace)
    before = occurrences(trace, warps)
    forms = _forms(trace, divergent_runs(trace) == block)
    changed = replace(trace, paths=forms.table, chunks=_FormChunks(trace, forms), origin="")
    used, _ = path_use(changed)
    after = occurrences(changed, used)
    header = with_share(trace.header, int(after.sum()) / int(before.sum()))
    kept = after / np.maximum(before, 1)
    counts: dict[str, Any] = {name: np.rint(getattr(misses, name) * kept).astype(np.int64) for name in _PER_EXECUTION}
    return replace(changed, header=header), replace(misses, **counts)


@dataclass(frozen=True)
class _Forms:
    """Paths in several forms. `table` holds them; path p has `count[p]` forms, starting at row `first[p]` (int64 [paths]).

    `kept` int64 [runs, PHASES]: repetitions that each form leaves of a run of the old table.
    """

    table: PathTable
    first: Longs
    count: Longs
    kept: Longs


def _forms(trace: KernelTrace, parted: npt.NDArray[np.bool_]) -> _Forms:
    """Every path in `PHASES` forms, or in one form if no run of it is `parted`."""
    table = trace.paths
    offsets, blocks, lanes, repeats = [0], [], [], []
    count = np.ones(len(table), dtype=np.int64)
    kept = np.repeat(np.asarray(table.repeat, dtype=np.int64)[:, None], PHASES, axis=1)
    for path in range(len(table)):
        runs = slice(int(table.offset[path]), int(table.offset[path + 1]))
        here = parted[runs]
        most = max(int(table.lanes[runs].max(initial=0)), 1)
        total = np.cumsum(np.where(here, table.lanes[runs] * kept[runs, 0] / most, 0.0))
        count[path] = PHASES if here.any() else 1
        for phase in range(int(count[path])):
            if count[path] > 1:
                left = np.floor(total + (phase + 0.5) / PHASES).astype(np.int64)
                kept[runs, phase] = np.where(here, np.diff(left, prepend=0), kept[runs, phase])
            there = kept[runs, phase] > 0
            blocks.append(table.block[runs][there])
            lanes.append(np.where(here, most, table.lanes[runs])[there].astype(np.uint8))
            repeats.append(kept[runs, phase][there].astype(np.int32))
            offsets.append(offsets[-1] + int(there.sum()))
    joined = PathTable(np.array(offsets, dtype=np.int64), np.concatenate(blocks), np.concatenate(lanes), np.concatenate(repeats))
    return _Forms(joined, np.cumsum(count) - count, count, kept)


class _FormChunks(ChunkSource):
    """Chunks whose warps on one path are assigned to its forms in turn, with the events that these keep."""

    def __init__(self, trace: KernelTrace, forms: _Forms) -> None:
        self._trace, self._forms, self._reader = trace, forms, EventReader(trace)

    def __iter__(self) -> Iterator[TraceChunk]:
        seen = np.zeros(len(self._forms.count), dtype=np.int64)
        for chunk in self._trace.chunks:
            path = np.asarray(chunk.path, dtype=np.int64)
            order = np.argsort(path, kind="stable")
            number = np.zeros(len(path), dtype=np.int64)
            number[order] = np.arange(len(path)) - np.searchsorted(path[order], path[order])
            phase = (seen[path] + number) % self._forms.count[path]
            seen += np.bincount(path, minlength=len(seen))
            yield self._left(chunk, self._forms.first[path] + phase, phase)

    def _left(self, chunk: TraceChunk, path: Longs, phase: Longs) -> TraceChunk:
        """The chunk with its warps on other paths, without the events of executions that these paths do not have."""
        events = self._reader.read(chunk)
        stay = np.flatnonzero(events.turn < self._forms.kept[events.run, phase[events.warp]])
        return with_events(self._trace, replace(chunk, path=path.astype(np.int32)), events, stay)


@dataclass(frozen=True)
class Parting:
    """The divergence of a branch: warp instructions executed with fewer lanes, and those that full warps would need."""

    block: int
    executed: float
    needed: float


def partings(trace: KernelTrace) -> list[Parting]:
    """The branches that diverge, by the instructions that convergence would save, most first."""
    table, runs = trace.paths, divergent_runs(trace)
    warps, _ = path_use(trace)
    path = np.repeat(np.arange(len(table)), np.diff(table.offset))
    most = np.ones(len(table), dtype=np.int64)
    np.maximum.at(most, path, table.lanes)
    length = np.diff(np.asarray(trace.block_start, dtype=np.int64))[table.block]
    executed = (warps[path] * table.repeat.astype(np.int64) * length).astype(np.float64)
    needed = executed * table.lanes / most[path]
    blocks = np.unique(runs[runs >= 0]).tolist()
    branches = [Parting(block, float(executed[runs == block].sum()), float(needed[runs == block].sum())) for block in blocks]
    return sorted(branches, key=lambda part: part.needed - part.executed)


# -- The rule.

# A branch whose divergence costs a smaller part of all warp instructions is not proposed.
_LEAST = 0.001


class Divergence:
    """Divergent branches: fewer instructions and the same traffic; profile and model are evaluated again."""

    name = "divergence"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each divergent branch, those that cost most instructions first."""
        recorded = case.trace.header.recorded_instructions
        for part in partings(case.trace):
            if part.executed - part.needed > _LEAST * recorded:
                yield self._change(case, part, recorded)

    def _change(self, case: Case, part: Parting, recorded: int) -> WhatIf:
        branch = case.trace.instructions[int(case.trace.block_start[part.block + 1]) - 1]
        place = place_of_instruction(case.trace, branch)
        where = f"line {branch.line}" if branch.file else place
        if has_machine_code(case.trace) and (branch.file or branch.ptx_line):  # the assembler makes several branches of one
            where += f" (SASS {machine_word(case.trace, branch).address:#07x})"
        lanes = percent(part.needed / part.executed)
        return WhatIf(
            title=f"no divergence at the branch of {where}",
            place=place,
            reason=f"{percent(part.executed / recorded)} of the instructions run in its divergent paths, with {lanes} of the lanes",
            cost="sort or group the work so that neighbouring threads take the same path",
            owner=PROGRAMMER,
            evaluate=lambda: self._evaluate(case, part.block),
        )

    @staticmethod
    def _evaluate(case: Case, block: int) -> Prediction:
        trace, misses = compacted(case.trace, case.profiled.misses, block)
        return case.with_misses(misses, trace)
