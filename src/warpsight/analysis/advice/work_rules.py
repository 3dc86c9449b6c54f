"""What if each thread, or each block, did the work of several: what is the same for all of them is executed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from warpsight.analysis.advice.rewriting import (
    Accesses,
    Bools,
    EventBytes,
    Rewritten,
    depends_on,
    differing_axes,
    executing,
    following_blocks,
    has_texts,
    loops_of,
    numbered,
    recoded,
    writes_memory,
    written,
)  # fmt: skip
from warpsight.analysis.advice.rule import PROGRAMMER, Case, WhatIf, heaviest_lines, line_name, place_of
from warpsight.analysis.advice.skipping import in_turn, skipping, visits_of
from warpsight.base.errors import LimitError
from warpsight.base.units import percent
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.usage import occurrences, path_use
from warpsight.traces.schema import LOAD, STORE, WARP_SIZE, KernelTrace, StaticInstruction, TraceChunk

# Results of a thread, the first that leaves a warp for each warp scheduler.
_FACTORS = (4, 2)
_MOST_REGISTERS = 255
# Loads that are the same for the threads of a block must be this part of all instructions.
_LEAST_SHARED = 0.05


@dataclass(frozen=True)
class Merging:
    """Warps of a block that become one: `factor` in a row. It executes once what is `once`, bool [instructions]; of the others
    `differs` has the source registers that differ. `registers` are those that a thread needs then.
    """

    factor: int
    once: Bools
    differs: dict[int, frozenset[int]]
    registers: int


def merging(trace: KernelTrace, factor: int) -> Merging:
    """How `factor` warps in a row become one: what does not depend on which of them it is, is executed once, but for stores."""
    dependence, header = depends_on(trace, differing_axes(trace.header.block, 1)), trace.header
    once = [
        i.op_class in ("branch", "barrier", "control") or (i.pc not in dependence.sources and not writes_memory(i))
        for i in trace.instructions
    ]
    registers = header.registers_per_thread + (factor - 1) * dependence.registers
    return Merging(factor, np.array(once, dtype=np.bool_), dependence.sources, registers)


def merged(trace: KernelTrace, how: Merging) -> KernelTrace:
    """`trace` with that many warps of each block as one, whose threads do the work of all.

    What is not executed once follows itself as often, with other registers. Raises LimitError where warps that become one execute
    different streams.
    """
    factor, header = how.factor, trace.header
    instructions, start, first = recoded(trace, _copies(trace, how))
    held = EventBytes.of(instructions)

    def rewrite(chunk: TraceChunk, accesses: Accesses) -> TraceChunk:
        path = np.asarray(chunk.path).reshape(-1, factor)
        if (path != path[:, :1]).any():
            raise LimitError("the warps of a block execute different instructions", remedy="merge threads that do the same")
        number, _ = numbered(accesses.warp, path.size)
        turn, once = accesses.warp % factor, how.once[accesses.pc]
        kept = np.flatnonzero(~once | (turn == 0))
        order = kept[np.lexsort((turn[kept], number[kept], accesses.warp[kept] // factor))]
        pc = first[accesses.pc[order]] + np.where(once[order], 0, turn[order])
        moved = accesses.reordered(order, warp=accesses.warp[order] // factor, pc=pc)
        return written(moved, held, path[:, 0].astype(np.int32), chunk.first_warp // factor)

    x, y, z = header.block
    block = (x, y // factor, z) if y % factor == 0 else (x // factor, y, z)
    return replace(
        trace, instructions=instructions, block_start=start, chunks=Rewritten(trace, rewrite), origin="", extra={},
        header=replace(executing(trace, np.where(how.once, 1 / factor, 1.0)), block=block, registers_per_thread=how.registers),
    )  # fmt: skip


def _copies(trace: KernelTrace, how: Merging) -> list[list[StaticInstruction]]:
    """What takes the place of each instruction. Copies do not depend on each other: the next one may follow a cycle later."""
    registers = 1 + max((r for i in trace.instructions for r in (*i.sources, *i.destinations)), default=0)

    def copy(each: StaticInstruction, turn: int) -> StaticInstruction:
        differs = how.differs.get(each.pc, frozenset())
        return replace(
            each, sources=tuple(r + turn * registers * (r in differs) for r in each.sources),
            destinations=tuple(r + turn * registers for r in each.destinations),
            stall=each.stall if turn == how.factor - 1 else min(each.stall, 1),
        )  # fmt: skip

    return [[each] if how.once[each.pc] else [copy(each, turn) for turn in range(how.factor)] for each in trace.instructions]


# -- The rule.

class WorkPerThread:
    """Loads that several warps of a block repeat: the trace is rewritten, and everything is evaluated again."""

    name = "work_per_thread"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """The change, where a large part of the instructions are such loads, for as many results as leave enough warps."""
        how = self._how(case.trace, case.gpu)
        if how is None:
            return
        trace, times = case.trace, np.maximum(case.profiled.misses.executions, case.profiled.misses.shared_executions)
        loads = np.array([i.access == LOAD and (i.has_sectors or i.has_degree) for i in trace.instructions], dtype=np.bool_)
        shared = loads & how.once
        share = int(times[shared].sum()) / trace.header.recorded_instructions
        if share < _LEAST_SHARED:
            return
        _, row, _ = heaviest_lines(case, lambda pc: bool(shared[pc]), times)[0]
        yield WhatIf(
            title=f"{how.factor} results in each thread (register tiling): loads of {line_name(row)} once for all of them",
            place=place_of(row),
            reason=f"{percent(share)} of the instructions are loads that other warps of the block repeat with the same addresses",
            cost=f"a loop over the results: {how.registers} registers in a thread instead of {trace.header.registers_per_thread}",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(merged(trace, how)),
            part=share * (1 - 1 / how.factor),
        )

    @staticmethod
    def _how(trace: KernelTrace, gpu: GpuSpec) -> Merging | None:
        """The first factor that leaves a warp for each scheduler, and registers enough; None where warps cannot become one."""
        header = trace.header
        if not has_texts(trace) or header.threads_per_block % WARP_SIZE:
            return None
        for factor in _FACTORS:
            fits = header.warps_per_block % factor == 0 and (header.block[1] % factor == 0 or header.block[0] % factor == 0)
            alike = (np.asarray(next(iter(trace.chunks)).path).reshape(-1, factor) if fits else np.zeros((1, factor))).T
            warps = header.blocks * header.warps_per_block // factor
            if fits and (alike == alike[0]).all() and warps >= gpu.sm_count * gpu.sm.schedulers:
                how = merging(trace, factor)
                if how.registers <= _MOST_REGISTERS:
                    return how
        return None


# -- What if as many blocks as are resident at once did the work of all: what is the same for all blocks once?

# What all blocks repeat must be this part of all instructions.
_LEAST_REPEATED = 0.05


def same_in_all_blocks(trace: KernelTrace) -> Bools:
    """The instructions that a block which does the work of several executes only for the first, bool [instructions].

    They do not depend on the block index. In a loop they are so if nothing in the loop does, and no instruction there writes device
    memory. Stores to shared memory count if nothing that depends on the block is stored there. Barriers are executed for each.
    """
    axes = {f"{name}.{axis}" for name in ("ctaid", "clusterid", "cluster_ctaid") for axis in "xyz"}
    sources = depends_on(trace, axes | {"clusterid", "cluster_ctarank"}).sources
    own = np.array([i.pc in sources for i in trace.instructions], dtype=np.bool_)
    staging = [i for i in trace.instructions if i.access == STORE and i.space == "shared"]
    keeps = not any(own[i.pc] for i in staging) and not any(i.is_async_copy or i.is_bulk for i in trace.instructions)
    for i in trace.instructions:
        writes = writes_memory(i) and not (keeps and i.access == STORE and i.space == "shared")
        own[i.pc] |= writes or i.op_class == "barrier" or (i.access == LOAD and i.space == "shared" and not keeps)
    following = following_blocks(trace)
    once = ~own
    for body in loops_of(following):
        inside = np.concatenate([np.arange(trace.block_start[b], trace.block_start[b + 1]) for b in body])
        once[inside] &= not own[inside].any()
    ends = [pc for pc in np.asarray(trace.block_start[1:]) - 1 if trace.instructions[pc].op_class in ("branch", "control")]
    last = [pc for pc in ends if not following.get(int(np.searchsorted(trace.block_start, pc, side="right")) - 1)]
    once[last] = False  # the end of the kernel
    return once


class ResidentBlocks:
    """A prologue that all blocks repeat: the trace is rewritten for blocks that do the work of several, and evaluated again."""

    name = "resident_blocks"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """The change, if more blocks than are resident at once repeat a notable part of the instructions."""
        trace, launch, header = case.trace, case.profiled.profile.launch, case.trace.header
        if launch is None or not has_texts(trace) or header.cluster_blocks > 1 or trace.waves is not None:
            return
        resident = launch.blocks_per_sm * case.gpu.sm_count
        if header.blocks <= resident or header.sampled_blocks:
            return
        times = occurrences(trace, path_use(trace)[0])
        once = same_in_all_blocks(trace)
        share = float(times[once].sum()) / header.recorded_instructions
        prepares = any(once[i.pc] and (i.has_sectors or i.has_degree) for i in trace.instructions)  # else rule `launch` says it
        if share < _LEAST_REPEATED or not prepares:
            return
        lines = heaviest_lines(case, lambda pc: bool(once[pc]), times)
        if not lines:
            return
        row = lines[0][1]
        yield WhatIf(
            title=f"one prologue for several blocks: the same work in {resident} blocks instead of {header.blocks}",
            place=place_of(row),
            reason=f"{percent(share)} of the instructions are the same in all blocks, most of them at {line_name(row)}; "
            f"{resident} are resident at once",
            cost="a persistent kernel: a loop over the tiles or elements of a block, after what is the same for all",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(in_few_blocks(trace, resident, once)),
        )


def in_few_blocks(trace: KernelTrace, few: int, once: Bools) -> KernelTrace:
    """`trace` with the work in `few` blocks, each of which does what is `once` for its first one alone. Raises LimitError."""
    turns, starts = in_turn(trace, few)
    visits = visits_of(turns)
    later = np.zeros(len(visits.block), dtype=np.bool_)
    for path, begins in enumerate(starts):
        if len(begins):
            later[visits.of_run[begins[0]] : visits.first[path + 1]] = True
    count = len(trace.instructions)
    inside = [np.flatnonzero(once[a:b]) + a for a, b in pairwise(trace.block_start.tolist())]
    skipped = [visit * count + inside[block] for visit, block in zip(np.flatnonzero(later), visits.block[later], strict=True)]
    return skipping(turns, visits, np.concatenate([np.zeros(0, dtype=np.int64), *skipped]))
