"""What if memory accesses were coalesced, hit the L1 twice as often, had no bank conflicts, or combined their atomics?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.advice.reuse_rules import reuse_in_blocks
from warpsight.analysis.advice.rewriting import distinct
from warpsight.analysis.advice.rule import NAMED, PROFILE, PROGRAMMER, Case, WhatIf, heaviest_lines, line_name, listed, place_of
from warpsight.analysis.explanation_rows import ExplanationRow
from warpsight.base.errors import LimitError
from warpsight.base.units import percent, three_digits
from warpsight.caches.miss_profile import COUNTS, MissProfile
from warpsight.intervals.usage import conflict_passes, hit_rates, without_conflicts
from warpsight.traces.events import ChunkEvents, EventReader
from warpsight.traces.schema import ATOMIC, LOAD, SECTOR_BYTES, STORE, WARP_SIZE, ChunkSource, KernelTrace, TraceChunk

Longs = npt.NDArray[np.int64]
_MOST_SECTOR = 2**32 - 1


def coalesced(trace: KernelTrace, pcs: Sequence[int], line_bytes: int) -> KernelTrace:
    """`trace` with the accesses of `pcs` coalesced, for an L1 with lines of `line_bytes`. Coalesced accesses stay as they are.

    The data move to new addresses above all others. Lanes are those active at the entry of the basic block.
    Raises LimitError when addresses run out.
    """
    return replace(trace, chunks=_Coalesced(trace, pcs, line_bytes), origin="")


@dataclass(frozen=True)
class _Moved:
    """The events of a chunk that change: their numbers, new counts of sectors, and the old sector that selects the new address."""

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
        self._chosen = np.zeros(len(trace.instructions), dtype=np.bool_)
        self._chosen[self._pcs] = True
        self._known: dict[int, _Moved] = {}  # of chunks that the trace holds, by their first warp
        leaders, last = np.zeros(0, dtype=np.int64), 0
        for chunk in trace.chunks:
            moved = self._moved(chunk, self._reader.read(chunk))
            if trace.chunks.held:
                self._known[chunk.first_warp] = moved
            leaders = distinct(np.concatenate([leaders, moved.leader]))
            last = max(last, int(chunk.sectors.max(initial=0)))
        self._leaders = leaders
        # a full warp's bytes, so that neighbours before are neighbours after
        self._stride = max(1, int(-(-self._bytes[self._pcs].max() * WARP_SIZE // SECTOR_BYTES)))
        self._base = (last // self._per_line + 1) * self._per_line
        if self._base + len(leaders) * self._stride > _MOST_SECTOR:
            raise LimitError("the trace uses the whole address range, so its data cannot be moved", remedy="use a smaller launch")

    def __iter__(self) -> Iterator[TraceChunk]:
        return map(self._rewritten, self._trace.chunks)

    def _moved(self, chunk: TraceChunk, events: ChunkEvents) -> _Moved:
        chosen = np.flatnonzero(self._chosen[events.pc] & (events.sectors > 0))
        count, first, pc = events.sectors[chosen], events.first[chosen], events.pc[chosen]
        least = np.maximum(-(-events.lanes[chosen] * self._bytes[pc] // SECTOR_BYTES), 1)
        own, place = _numbered(count)
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
        moved = self._known.get(chunk.first_warp) or self._moved(chunk, events)
        count = events.sectors.copy()
        count[moved.event] = moved.count
        kept = np.zeros(len(chunk.sectors), dtype=np.bool_)
        kept[int(chunk.sector_offset[0]) : int(chunk.sector_offset[-1])] = True
        own, place = _numbered(events.sectors[moved.event] - moved.count)
        kept[(events.first[moved.event] + moved.count)[own] + place] = False  # what moves has fewer sectors then
        sectors = chunk.sectors[kept]
        own, place = _numbered(moved.count)
        base = self._base + np.searchsorted(self._leaders, moved.leader) * self._stride
        sectors[(np.cumsum(count) - count)[moved.event][own] + place] = base[own] + place
        bytes_ = np.array(chunk.events, copy=True)
        bytes_[events.byte[moved.event]] = moved.count
        per_warp = np.bincount(events.warp, count, len(chunk.path)).astype(np.int64)
        offset = np.concatenate([[0], np.cumsum(per_warp)])
        return replace(chunk, events=bytes_, sector_offset=offset, sectors=sectors)


def _numbered(counts: Longs) -> tuple[Longs, Longs]:
    """For each k in turn `counts[k]` times k; and beside it 0, 1, ..."""
    own = np.repeat(np.arange(len(counts)), counts)
    return own, np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)


def _distinct(own: Longs, values: Longs, count: int) -> Longs:
    """How many different `values` each of `count` owners has."""
    order = np.lexsort((values, own))
    owner, value = own[order], values[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (owner[1:] != owner[:-1]) | (value[1:] != value[:-1])
    return np.bincount(owner[new], minlength=count).astype(np.int64)


def _hashes(own: Longs, place: Longs, sectors: Longs, count: int) -> npt.NDArray[np.uint64]:
    """A hash for each owner's list of sectors."""
    mixed = (sectors + (place << 33)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    hashes = np.zeros(count, dtype=np.uint64)
    np.add.at(hashes, own, mixed)
    return hashes


def _turns(warp: Longs, store: Longs, hashes: npt.NDArray[np.uint64]) -> Longs:
    """How often a warp has touched the same list before, for loads and stores separately."""
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


# -- What if the loads and stores of a line were coalesced?

# An access is proposed if its requests or sectors exceed those of a full warp's bytes by this factor.
_EXCESS = 1.05


class Coalescing:
    """Uncoalesced accesses: the trace is rewritten, and everything is evaluated again."""

    name = "coalescing"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each line with such accesses, those with most requests first."""
        misses = case.profiled.misses
        weight = misses.l1_reads + misses.l1_writes
        for requests, row, pcs in heaviest_lines(case, lambda pc: self._scattered(case, pc), weight):
            yield self._change(case, row, pcs, requests)

    def _scattered(self, case: Case, pc: int) -> bool:
        instruction, misses = case.trace.instructions[pc], case.profiled.misses
        if not instruction.has_sectors or instruction.access == ATOMIC or not instruction.access_bytes:
            return False
        lines, sectors = self._least(case, [pc])
        requests = int(misses.l1_reads[pc] + misses.l1_writes[pc])
        return requests > _EXCESS * lines or int(misses.sectors[pc]) > _EXCESS * sectors

    @staticmethod
    def _least(case: Case, pcs: list[int]) -> tuple[int, int]:
        """Lines and sectors that hold the bytes of full warps, for all executions together."""
        line, instructions = case.gpu.l1.line_bytes, case.trace.instructions
        accesses = [(int(case.profiled.misses.executions[pc]), instructions[pc].access_bytes * WARP_SIZE) for pc in pcs]
        lines, sectors = (sum(times * -(-bytes_ // unit) for times, bytes_ in accesses) for unit in (line, SECTOR_BYTES))
        return lines, sectors

    def _change(self, case: Case, row: ExplanationRow, pcs: list[int], requests: int) -> WhatIf:
        accesses = {case.trace.instructions[pc].access for pc in pcs}
        kinds = "loads and stores" if len(accesses) > 1 else "loads" if accesses == {LOAD} else "stores"
        misses, (lines, least) = case.profiled.misses, self._least(case, pcs)
        executions, sectors = int(misses.executions[pcs].sum()), int(misses.sectors[pcs].sum())
        each, held, needed = (three_digits(count / executions) for count in (requests, sectors, lines))
        seen = f"each warp access causes {each} requests and {held} sectors"
        # no sector is moved in vain: the lanes are in more lines than they need
        whole = all(int(misses.sectors[pc]) <= _EXCESS * self._least(case, [pc])[1] for pc in pcs)
        return WhatIf(
            title=f"{kinds} of {line_name(row)} " + ("in fewer lines" if whole else "coalesced"),
            place=place_of(row),
            reason=f"{seen}; the bytes of a full warp fit into {needed} lines" if whole else seen,
            cost="longer rows for each warp: more threads of a block along x, or tiles as wide as a line" if whole
            else "change the data layout or index order, or stage through shared memory",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(coalesced(case.trace, pcs, case.gpu.l1.line_bytes)),
            relieves=("lsu", "com_struct", "mshr") if whole else (),
            part=max(1 - lines / requests, 1 - least / sectors),
        )


# -- What if a line's loads hit the L1 twice as often?

def doubled_hits(misses: MissProfile, pcs: Sequence[int]) -> MissProfile:
    """`misses` with twice the L1 hits of `pcs`, at most all reads; the counts beyond the L1 shrink in proportion to the misses.

    Counts stay integers: they are rounded, and the hits absorb the difference.
    """
    rows = np.array(pcs, dtype=np.int64)
    counts: dict[str, Any] = {name: getattr(misses, name).copy() for name in COUNTS}
    reads, hits = misses.l1_reads[rows], misses.l1_hits[rows]
    missed = reads - hits
    left = np.where(missed > 0, (reads - np.minimum(2 * hits, reads)) / np.maximum(missed, 1), 1.0)
    shrunk = ("l1_misses", "l1_merges", "slowest_l2", "slowest_far", "slowest_dram", "slowest_merged", "merged_wait_cycles",
              "l2_reads", "l2_far_hits", "l2_read_misses", "l2_read_merges", "dram_reads")  # fmt: skip
    for name in shrunk:
        counts[name][rows] = np.rint(counts[name][rows] * left).astype(np.int64)
    counts["l2_reads"][rows] = np.maximum(counts["l2_reads"][rows], counts["l2_read_misses"][rows] + counts["l2_read_merges"][rows])
    counts["l2_read_hits"][rows] = counts["l2_reads"][rows] - counts["l2_read_misses"][rows] - counts["l2_read_merges"][rows]
    counts["l1_hits"][rows] = reads - counts["l1_misses"][rows] - counts["l1_merges"][rows]
    beyond = sum(counts[name][rows] for name in ("slowest_l2", "slowest_dram", "slowest_merged"))
    before = sum(getattr(misses, name)[rows] for name in ("slowest_l1", "slowest_l2", "slowest_dram", "slowest_merged"))
    counts["slowest_l1"][rows] = before - beyond
    return replace(misses, **counts)


class L1Hits:
    """Reuse that the L1 loses: the cache counts are changed; profile and model are evaluated again."""

    name = "l1_hits"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each line with loads that sometimes hit and sometimes miss, those with most misses first; without those
        whose data the threads of a block share (rule `tiling`)."""
        misses = case.profiled.misses
        both = (misses.l1_hits > 0) & (misses.l1_hits < misses.l1_reads)
        reuse = case.once(reuse_in_blocks)
        both[list(reuse.pcs) if reuse else []] = False  # advised to be kept in shared memory
        for missed, row, pcs in heaviest_lines(case, lambda pc: bool(both[pc]), misses.l1_misses):
            after = doubled_hits(misses, pcs)
            reads = int(misses.l1_reads[pcs].sum())
            # of all loads of the line, also those that always hit or always miss, as `explain` has it
            rates = [hit_rates(case.trace.instructions, counts, row.pcs)[0] or 0.0 for counts in (misses, after)]
            yield WhatIf(
                title=f"L1 hit rate of {line_name(row)} from {percent(rates[0])} to {percent(rates[1])}",
                place=place_of(row),
                reason=f"{missed:,} of its {reads:,} read requests miss, although some data are reused",
                cost="reduce the working set between uses: tiling, another order of work, fewer resident warps",
                owner=PROGRAMMER,
                evaluate=lambda after=after: case.with_misses(after),  # type: ignore[misc]
                again=PROFILE,
                relieves=("mem_data", "mshr", "noc", "dram"),
                part=1 - int(after.l1_misses[pcs].sum()) / missed if missed else 0.0,
            )


# -- What if accesses to shared memory had no bank conflicts?


class BankConflicts:
    """Accesses with bank conflicts: profile and model are evaluated again without conflicts on any line."""

    name = "bank_conflicts"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for all lines with conflicts, those with most passes due to conflicts first."""
        instructions, misses = case.trace.instructions, case.profiled.misses
        conflicts = conflict_passes(instructions, misses)
        lines = heaviest_lines(case, lambda pc: bool(conflicts[pc]), conflicts)
        if not lines:
            return
        ideal = without_conflicts(instructions, misses)
        names = listed([row for _, row, _ in lines])
        passes = [[int(each.shared_passes[pcs].sum()) / int(misses.shared_executions[pcs].sum()) for each in (misses, ideal)]
                  for _, _, pcs in lines]  # fmt: skip
        found = [f"{line_name(row)}: {three_digits(now)} instead of {three_digits(least)}"
                 for (_, row, _), (now, least) in zip(lines[:NAMED], passes, strict=False)]  # fmt: skip
        yield WhatIf(
            title=f"no bank conflicts in shared memory at {names}",
            place=place_of(lines[0][1]),
            reason=f"passes through the banks for each access, {', '.join(found)}",
            cost="pad the rows of the array by a word (by 16 bytes for ldmatrix), or permute (swizzle) its index",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_misses(ideal),
            again=PROFILE,
        )


# -- What if the lanes of a warp combined their atomics to one address first?

def combined(misses: MissProfile, pcs: Sequence[int]) -> MissProfile:
    """`misses` with distinct addresses for the lanes of an atomic at `pcs`: the time in which sectors are changed is left."""
    rows = list(pcs)
    repeats, cycles, shared = misses.atomic_repeats.copy(), misses.atomic_cycles.copy(), misses.shared_repeats.copy()
    repeats[rows] = shared[rows] = 0
    cycles[rows] = np.maximum(0, cycles[rows] - misses.atomic_repeats[rows])
    return replace(misses, atomic_repeats=repeats, atomic_cycles=cycles, shared_repeats=shared)


class Atomics:
    """Atomics whose lanes share an address: profile and model are evaluated again with one of these lanes."""

    name = "atomics"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each line with such atomics, those with most serialized lanes first."""
        misses = case.profiled.misses
        serialized = misses.atomic_repeats + (misses.shared_repeats if case.gpu.sm.atomic_lane_cycles else 0)
        for repeats, row, pcs in heaviest_lines(case, lambda pc: bool(serialized[pc] > 0), serialized):
            lanes = 1 + repeats / int(np.maximum(misses.executions, misses.shared_executions)[pcs].sum())
            unit = "L2 slice" if misses.atomic_repeats[pcs].any() else "load-store unit"
            yield WhatIf(
                title=f"atomics of {line_name(row)} combined in each warp",
                place=place_of(row),
                reason=f"{three_digits(lanes)} lanes share an address, and the {unit} serializes them",
                cost="reduce over the lanes before the atomic, or keep a copy per block in shared memory",
                owner=PROGRAMMER,
                evaluate=lambda pcs=pcs: case.with_misses(combined(misses, pcs)),  # type: ignore[misc]
                again=PROFILE,
            )
