"""What if each thread did the work of several: the loads and instructions that are the same for all of them are executed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from warpsight.analysis.advice.rewriting import (
    Accesses,
    Bools,
    Rewritten,
    depends_on_thread,
    differing_axes,
    executing,
    has_texts,
    numbered,
    recoded,
    writes_memory,
    written,
)  # fmt: skip
from warpsight.analysis.advice.rule import PROGRAMMER, Case, WhatIf, heaviest_lines, line_name, place_of
from warpsight.base.errors import LimitError
from warpsight.base.units import percent
from warpsight.gpu.spec import GpuSpec
from warpsight.traces.schema import LOAD, WARP_SIZE, KernelTrace, StaticInstruction, TraceChunk

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
    dependence, header = depends_on_thread(trace, differing_axes(trace.header.block, 1)), trace.header
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
        return written(moved, instructions, path[:, 0].astype(np.int32), chunk.first_warp // factor)

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
