"""Builds the LLVM function that runs one warp of a kernel to its next barrier or its end."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.base.compile_budget import check
from warpsight.base.findings import SYNCCHECK
from warpsight.emulator.codegen import branching, layout
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.independent_lanes import Scheduling
from warpsight.emulator.codegen.instruction_set import InstructionSet
from warpsight.emulator.codegen.lanes import I32, Builder, at, load_as, store_as, vector
from warpsight.emulator.codegen.meetings import join_bits, note_join, note_members
from warpsight.emulator.codegen.orders import parting_blocks
from warpsight.emulator.codegen.recording import emit_block_entry, emit_probe
from warpsight.emulator.codegen.symbols import SymbolTable
from warpsight.emulator.codegen.warp_function import WarpFunction
from warpsight.emulator.codegen.watching import note_order
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.program import Function, Instruction
from warpsight.isa.ptx.rules import is_block_barrier, may_signal, memory_access, waits_for_group, writes
from warpsight.isa.ptx.slicing import Slice

# -- Which basic blocks get their bookkeeping and memory accesses in line, and which call the functions that do the same.
#
# In line is faster to run: nothing has to be saved around a call. But each costs LLVM milliseconds, so large kernels keep it for
# their innermost loops.

# An access in line costs LLVM about as much as two entries of blocks. A kernel within the budget is all in line.
BUDGET = 96
# Kernels above so many instructions go through LLVM quickly: its full code generation takes a millisecond and more for each. What
# is made so runs 1.2 to 1.7 times as long, in line or not.
QUICK_ABOVE, QUICK_BUDGET = 400, 24
ACCESS_COST, BLOCK_COST = 2, 1


def loop_depths(graph: ControlFlowGraph) -> list[int]:
    """How many loops each block lies in; a backward edge is taken as a loop over the blocks between, as compilers lay them out."""
    ends: dict[int, int] = {}
    for block, following in enumerate(graph.successors):
        for head in following:
            if head <= block:
                ends[head] = max(ends.get(head, head), block)
    return [sum(head <= block <= end for head, end in ends.items()) for block in range(len(graph))]


def is_quick(function: Function, part: Slice | None = None) -> bool:
    """Whether the kernel, or the part of it that is executed, is compiled quickly rather than well."""
    return len(function.instructions) - (len(part.skipped) if part else 0) > QUICK_ABOVE


def blocks_in_line(
    function: Function, graph: ControlFlowGraph, part: Slice | None = None, *, briefly: bool = False
) -> frozenset[int]:
    """The blocks worth the compile time: the most deeply nested first, in program order, as long as the budget lasts.

    `briefly`: for a short run.
    """
    depths = loop_depths(graph)
    chosen, left = set(), QUICK_BUDGET if briefly or is_quick(function, part) else BUDGET
    for block in sorted(range(len(graph)), key=lambda b: (-depths[b], b)):
        code = function.instructions[int(graph.block_start[block]) : int(graph.block_start[block + 1])]
        cost = BLOCK_COST + ACCESS_COST * sum(memory_access(instruction) is not None for instruction in code)
        if cost <= left:
            chosen.add(block)
            left -= cost
    return frozenset(chosen)


# -- The function of one warp.
#
# Control flow follows the reconvergence stack on immediate post-dominators: `mask` are the running lanes, `reconverge` the block at
# which they wait for others. A divergent branch leaves an entry for the lanes that run later and, unless one exists, an entry for
# the block where all meet. Reaching that block, or the end of the kernel, pops. Masks of waiting entries are disjoint, so the stack
# is bounded.

# Above this, LLVM's time to compile grows much faster than the kernel (209 targets and 1,751 registers: 31 s, in memory 3 s), and
# what it compiles is no faster, so registers then stay in the save area all the time.
MAX_PRESSURE = 300


class KernelBuilder(WarpFunction):
    """Builds the warp function of one kernel. After `build`, `site_count` and `state_stride` say what it expects."""

    def __init__(
        self, module: Any, function: Function, graph: ControlFlowGraph, symbols: SymbolTable, path: str,
        instructions: InstructionSet, checks: frozenset[str] = frozenset(), probes: frozenset[int] = frozenset(),
        clustered: bool = False, part: Slice | None = None, briefly: bool = False,
    ) -> None:
        super().__init__(module, function, graph, symbols, path, instructions.special, part)
        self.instructions, self.checks, self.probes, self.clustered, self.briefly = instructions, checks, probes, clustered, briefly
        self.barriers = branching.Barriers(self)
        self.calls = instructions.calls(self)
        self._joins = join_bits(function, graph) if SYNCCHECK in checks else {}
        self._parting = parting_blocks(checks, instructions.level, function, graph)
        self.append_bodies({graph.post_dominator[block] for block in self._parting} - {-1})
        # Kernels whose lanes may wait for each other; all others run in step.
        self.scheduling = Scheduling(self) if graph.waits.independent else None

    # -- building ------------------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Emit the whole function."""
        self._in_memory = self.scheduling is not None or self._pressure() > MAX_PRESSURE
        self._in_line = blocks_in_line(self.function, self.graph, self.slice, briefly=self.briefly)
        for block in range(len(self.bodies)):
            self._build_block(block)
        self._build_meets()
        self._build_pop()
        self.barriers.build()
        self.calls.build()
        self._build_dispatch()
        self._build_entry()

    def _pressure(self) -> int:
        """Registers that LLVM would have to hold for blocks to which lanes may come back, summed over those blocks."""
        targets = self.calls.resumed_blocks()
        for block, following in enumerate(self.graph.successors):
            meet = self.graph.post_dominator[block]
            if len(following) > 1:
                targets.update(b for b in (meet, *following) if b >= 0)
        return sum(len(self.live_in[b]) for b in targets)

    def _build_block(self, block: int) -> None:
        builder = ir.IRBuilder(self.bodies[block])
        if block in self._joins:
            note_join(self, builder, self._joins[block])
        if block in self._parting:
            branching.part_lanes(self, builder, block)
        if self.scheduling is not None:
            builder = self.scheduling.enter(block, builder)
        emitter = Emitter(self, builder, builder.load(self.mask, typ=I32))
        emitter.checks, emitter.is_compact = self.checks, block not in self._in_line
        if self.slice is not None:
            emitter.leave_out(self.slice.not_computed - self.live_in[block])
        code = self.instructions_of(block)
        emit_block_entry(emitter, block, code)
        check("generating code")
        for instruction in code:
            if not instruction.index & 255:
                check("generating code")
            if self._emit_left(emitter, instruction):
                continue
            emitter.begin(instruction)
            self._emit_probe(emitter, instruction)
            if self.checks:
                note_order(emitter, instruction)
                note_members(emitter, instruction)
            control = instruction.opcode != "call" or instruction.index in self.calls.sites
            if instruction is code[-1] and control and self._ends_block(emitter, block, instruction):
                return
            self.instructions.emit(emitter, instruction)
            if self.scheduling is not None and may_signal(instruction):
                self.scheduling.note_signal(emitter)
        emitter.leave_block(block)
        self.go_on(builder, block + 1)

    def _emit_probe(self, emitter: Emitter, instruction: Instruction) -> None:
        if instruction.index in self.probes and (probed := self.instructions.addresses(emitter, instruction)) is not None:
            emit_probe(emitter, *probed)

    def _emit_left(self, emitter: Emitter, instruction: Instruction) -> bool:
        """Emit what the slice leaves of an instruction: nothing, or its record alone. False where it leaves all of it."""
        if self.slice is None:
            return False
        needed = self.slice.recorded.get(instruction.index)
        if needed is not None:
            emitter.begin_recorded(instruction, needed)
            self._emit_probe(emitter, instruction)
            self.instructions.emit(emitter, instruction)
            emitter.end_recorded()
        elif instruction.index not in self.slice.skipped:
            return False
        elif not self.instructions.executes(instruction):
            emitter.instruction = instruction
            raise emitter.unsupported("it is not modelled")
        emitter.leave_out(writes(instruction))
        return True

    def _ends_block(self, emitter: Emitter, block: int, instruction: Instruction) -> bool:
        """Emit a block-ending control instruction; False when the last instruction is an ordinary one."""
        if instruction.opcode == "bra":
            self.instructions.branch_condition(emitter, instruction)
            branching.emit_branch(self, emitter, block, instruction)
        elif instruction.opcode == "brx":
            index = self.instructions.branch_index(emitter, instruction)
            branching.emit_indexed_branch(self, emitter, block, instruction, index)
        elif instruction.opcode == "call":
            self.calls.emit_call(emitter, block, instruction)
        elif instruction.opcode == "ret" and instruction.operands:
            self.calls.emit_return(emitter, block, instruction)
        elif instruction.opcode in ("ret", "exit"):
            self.instructions.branch_condition(emitter, instruction)
            branching.emit_exit(self, emitter, block)
        elif instruction.opcode == "trap":
            branching.emit_trap(self, emitter, block)
        elif is_block_barrier(instruction):
            if self.scheduling is not None:
                self.scheduling.barrier(emitter, block, instruction)
            else:
                branching.emit_barrier(self, self.barriers, emitter, block, instruction)
        elif waits_for_group(instruction) and self.scheduling is not None:
            self.instructions.emit(emitter, instruction)
            self.scheduling.barrier(emitter, block, instruction)
        else:
            return False
        return True

    def close_loop(self, builder: Builder, source: int, target: int) -> bool:
        """See `WarpFunction`: of a kernel whose lanes are scheduled independently some edges count turns."""
        return self.scheduling is not None and self.scheduling.close_loop(builder, source, target)

    def in_turn(self, builder: Builder, over: Any) -> Any:
        """See `WarpFunction`: of a kernel whose lanes are scheduled independently warps take turns."""
        return over if self.scheduling is None else self.scheduling.in_turn(builder, over)

    def _build_meets(self) -> None:
        for block in self.meets:
            builder = ir.IRBuilder(self.arrivals[block])
            here = builder.icmp_signed("==", builder.load(self.reconverge, typ=I32), I32(block))
            builder.cbranch(here, self.pop_block, self.bodies[block])

    def _build_pop(self) -> None:
        """Take the youngest entry that still has lanes; with none left the warp has ended."""
        builder = ir.IRBuilder(self.pop_block)
        depth = self.word(builder, layout.DEPTH)
        with builder.if_then(builder.icmp_signed("==", depth, I32(0))):
            self.set_word(builder, layout.RESUME, I32(layout.DONE_RESUME))
            builder.ret(I32(layout.EXITED))
        depth = builder.sub(depth, I32(1))
        self.set_word(builder, layout.DEPTH, depth)
        entry = self.stack_entry(builder, depth)
        block, mask, reconverge = (load_as(builder, at(builder, entry, 4 * k), I32, 4) for k in range(3))
        mask = builder.and_(mask, builder.not_(self.word(builder, layout.GONE)))
        builder.store(mask, self.mask)
        builder.store(reconverge, self.reconverge)
        run = builder.append_basic_block("run")
        builder.cbranch(builder.icmp_signed("==", mask, I32(0)), self.pop_block, run)
        builder.position_at_end(run)
        self.jump(builder, block)

    def _build_dispatch(self) -> None:
        """From the number of a block to its code; any other is that of lanes that wait for others."""
        builder = ir.IRBuilder(self._dispatch)
        cases = {target: self.bodies[target] for target in sorted(self._jump_targets)}
        waiting = self.barriers.parked_block
        if self.scheduling is not None:
            cases, waiting = self.scheduling.cases(self._jump_targets), self.scheduling.choose_block
            self.scheduling.build(cases)
        cases.update(self.calls.tokens())
        switch = builder.switch(builder.load(self.popped, typ=I32), waiting)
        for target, block in sorted(cases.items()):
            switch.add_case(I32(target), block)

    def _build_entry(self) -> None:
        """Start at block 0 with cleared registers, or restore what was saved at a barrier."""
        builder = self.entry
        if not self._in_memory:
            self._clear_registers(builder)
        self.restore_group(builder)
        begin = ir.IRBuilder(self.llvm.append_basic_block("begin"))
        switch = builder.switch(self.word(builder, layout.RESUME), begin.block)
        if self._in_memory:
            self._clear_registers(begin)
        for offset in self._storage.values():
            store_as(begin, ir.Constant(vector(I32), None), self.saved_place(begin, offset), 4)
        begin.branch(self.bodies[0] if self.bodies else self.pop_block)
        if self.scheduling is not None:
            switch.add_case(I32(layout.SUSPENDED_RESUME), self.scheduling.turn_block)
        for block, vote in sorted(self.barriers.following.items()):
            restore = self.llvm.append_basic_block(f"resume{block}")
            switch.add_case(I32(block), restore)
            inner = ir.IRBuilder(restore)
            for slot in self.to_save(block):
                saved = load_as(inner, self.saved_place(inner, slot.offset), slot.stored, 4)
                inner.store(saved, slot.pointer)
            if vote[1]:
                self.give_outcome(inner, vote[0], branching.outcome(self, inner, vote[1]))
            inner.branch(self.arrivals[block])

    def _clear_registers(self, builder: Builder) -> None:
        for slot in self._slots.values():
            store_as(builder, ir.Constant(slot.stored, None), slot.pointer, 4)
        self.calls.start(builder)

