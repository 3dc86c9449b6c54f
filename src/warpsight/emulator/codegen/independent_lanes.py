"""Emits the code of kernels whose lanes are scheduled independently: calls of the scheduler where lanes may have to wait.

Registers of such a kernel live in the warp's state all the time, so that a warp can be suspended anywhere between two basic blocks.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.base.findings import SYNCCHECK
from warpsight.emulator.codegen import lane_scheduler as scheduler
from warpsight.emulator.codegen import layout
from warpsight.emulator.codegen.branching import outcome_of
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    I32,
    PTR,
    Builder,
    Value,
    at,
    intrinsic,
    lanes_to_mask,
    load_as,
    reduce_vector,
    splat,
    splat_constant,
    trailing_zeros,
)
from warpsight.emulator.codegen.layout import Fault, Slot
from warpsight.emulator.codegen.recording import emit_named_barrier
from warpsight.emulator.codegen.warp_function import WarpFunction
from warpsight.isa.ptx.program import Immediate, Instruction, Register
from warpsight.isa.ptx.rules import counts_threads, is_warp_barrier, waits_for_group
from warpsight.isa.ptx.waiting import is_aligned, meeting_kind

_VOTES = ("popc", "and", "or")
_CLUSTER = {"arrive": scheduler.CLUSTER_ARRIVE, "wait": scheduler.CLUSTER_WAIT}


def call_scheduler(builder: Builder, context: Value, state: Value, operation: int, *operands: Value) -> Value:
    """Call `scheduler.schedule`; the answer is an i32."""
    slots = (Slot.WATCH_PTR, Slot.STATE_PTR, Slot.RECORD_PTR)
    watch, states, record = (load_as(builder, at(builder, context, 8 * s), PTR, 8) for s in slots)
    function = intrinsic(builder.module, "warpsight_schedule", I32, [PTR, PTR, PTR, PTR, PTR, *[I32] * 5])
    padded = [*operands, *[I32(0)] * (4 - len(operands))]
    return builder.call(function, [context, watch, states, record, state, I32(operation), *padded])


class Scheduling:
    """The points of one kernel where lanes may wait or give way. `build` comes after all blocks."""

    def __init__(self, kernel: WarpFunction) -> None:
        self.kernel = kernel
        waits = kernel.graph.waits
        self._edges, self._meetings = waits.spinning, waits.meetings
        self._code = kernel.entry.alloca(I32)
        self.choose_block = kernel.llvm.append_basic_block("choose")
        self.turn_block = kernel.llvm.append_basic_block("turn")
        self._yield_block = kernel.llvm.append_basic_block("yield")
        self._follow_block = kernel.llvm.append_basic_block("follow")
        self._counted = {target: kernel.llvm.append_basic_block(f"count{target}") for target in {t for _, t in self._edges}}
        for target in self._counted:
            kernel.may_be_resumed_at(target)
        self._admitted: dict[int, ir.Block] = {}
        self._woken: dict[int, tuple[str, str]] = {}
        self._kinds: dict[str, int] = {}

    def note_signal(self, emitter: Emitter) -> None:
        """The active lanes signal an mbarrier."""
        builder = emitter.builder
        some = builder.zext(builder.icmp_signed("!=", emitter.active_mask, I32(0)), I32)
        self.kernel.set_word(builder, layout.SIGNALLED, builder.or_(self.kernel.word(builder, layout.SIGNALLED), some))

    def in_turn(self, builder: Builder, over: Value) -> Value:
        """What a wait for a phase answers, which may say no at any time (PTX ISA, `mbarrier.try_wait`): lanes `over` (i32). If the
        warp has signalled an mbarrier before, it is none, once, and the warp gives way to other warps where it closes the loop.

        Otherwise a warp that completes a phase by itself could complete the next one too before others have seen the first: as the
        parity is the same again, they would wait for ever. On a GPU warps take turns every few cycles.
        """
        signalled = builder.icmp_signed("!=", self.kernel.word(builder, layout.SIGNALLED), I32(0))
        for word in (layout.BUDGET, layout.PATIENCE):
            self.kernel.set_word(builder, word, builder.select(signalled, I32(0), self.kernel.word(builder, word)))
        self.kernel.set_word(builder, layout.SIGNALLED, I32(0))
        return builder.select(signalled, I32(0), over)

    # -- what other parts of the kernel ask for ---------------------------------------------------------------------------------

    def close_loop(self, builder: Builder, source: int, target: int) -> bool:
        """Go to `target` by an edge that closes a loop that may wait for another thread; False where the edge is not such a one."""
        kernel = self.kernel
        if (source, target) not in self._edges:
            return False
        if target in kernel.meets:
            here = builder.icmp_signed("==", builder.load(kernel.reconverge, typ=I32), I32(target))
            builder.cbranch(here, kernel.pop_block, self._counted[target])
        else:
            builder.branch(self._counted[target])
        return True

    def enter(self, block: int, builder: Builder) -> Builder:
        """At the start of a block: wait if its first instruction is a meeting. Count blocks that store, as a sign of progress."""
        kernel = self.kernel
        instructions = kernel.instructions_of(block)
        if instructions and instructions[0].index in self._meetings:
            builder = self._wait_for_members(block, builder, instructions[0])
        if any(i.opcode in ("st", "red") and "local" not in i.modifiers for i in instructions):
            kernel.set_word(builder, layout.STORES, builder.add(kernel.word(builder, layout.STORES), I32(1)))
        return builder

    def barrier(self, emitter: Emitter, block: int, instruction: Instruction) -> None:
        """End a block with `bar` or `barrier`, in any form."""
        kernel, guard = self.kernel, emitter.guard_lanes
        if block + 1 == len(kernel.bodies):
            raise emitter.unsupported("nothing follows it")
        if "cluster" in instruction.modifiers:
            operation = self._cluster_operation(emitter, instruction)
            use = yes = I32(0)
        elif waits_for_group(instruction):
            operation, yes = scheduler.AT_BARRIER, I32(0)
            group = emitter.builder.lshr(emitter.builder.trunc(emitter.slot(Slot.WARP), I32), I32(2))
            use = emitter.builder.add(group, I32(layout.GROUP_ROW | scheduler.ALIGNED))
        else:
            operation = scheduler.AT_BARRIER
            use, yes = self._use(emitter, block, instruction)
            if counts_threads(instruction):
                start, gone = (kernel.word(emitter.builder, word) for word in (layout.START, layout.GONE))
                absent = emitter.builder.or_(emitter.builder.not_(start), gone)
                emit_named_barrier(emitter, use, scheduler.COUNT_SHIFT, absent)
        builder = emitter.builder
        emitter.leave_block(block)
        if guard is not None:
            self._part(builder, emitter, lanes_to_mask(builder, guard), block + 1)
        kernel.may_be_resumed_at(block + 1)
        self._woken.setdefault(block + 1, ("", ""))
        kernel.save_group(builder)
        self._ask_scheduler(builder, operation, I32(block + 1), use, yes, I32(instruction.index))

    def cases(self, targets: set[int]) -> dict[int, ir.Block]:
        """Which LLVM block runs which code of a group, for all blocks that groups may stand at."""
        cases = {target: self._counted.get(target, self.kernel.bodies[target]) for target in targets}
        cases |= {target | layout.WAKING: self.kernel.llvm.append_basic_block(f"wake{target}") for target in self._woken}
        return cases | {target | layout.GRANTED: block for target, block in self._admitted.items()}

    def build(self, cases: dict[int, ir.Block]) -> None:
        """Emit what the points share."""
        kernel = self.kernel
        for block, operation in ((self.choose_block, scheduler.CHOOSE), (self.turn_block, scheduler.TURN)):
            self._ask_scheduler(ir.IRBuilder(block), operation)
        builder = ir.IRBuilder(self._yield_block)
        kernel.save_group(builder)
        self._ask_scheduler(builder, scheduler.YIELD, builder.load(self._code, typ=I32))
        for target, block in self._counted.items():
            self._build_counter(ir.IRBuilder(block), target)
        for target, vote in self._woken.items():
            builder = ir.IRBuilder(cases[target | layout.WAKING])
            if vote[1]:
                number = kernel.word(builder, layout.WOKEN_BY)
                kernel.give_outcome(builder, vote[0], outcome_of(kernel, builder, vote[1], number))
            builder.branch(self._counted.get(target, kernel.bodies[target]))
        self._build_follow()

    # -- parts ------------------------------------------------------------------------------------------------------------------

    def _ask_scheduler(self, builder: Builder, operation: int, *operands: Value) -> None:
        """End an LLVM block with a call of the scheduler, and do what it answers."""
        builder.store(call_scheduler(builder, self.kernel.context, self.kernel.state, operation, *operands), self._code)
        builder.branch(self._follow_block)

    def _build_follow(self) -> None:
        """Run the group that the scheduler has chosen, or return to the driver."""
        kernel, builder = self.kernel, ir.IRBuilder(self._follow_block)
        code = builder.load(self._code, typ=I32)
        with builder.if_then(builder.icmp_signed("<", code, I32(0))):
            builder.ret(builder.sub(I32(-1), code))
        kernel.restore_group(builder)
        kernel.jump(builder, code)

    def _build_counter(self, builder: Builder, target: int) -> None:
        left = builder.sub(self.kernel.word(builder, layout.BUDGET), I32(1))
        self.kernel.set_word(builder, layout.BUDGET, left)
        spent = builder.append_basic_block("spent")
        builder.cbranch(builder.icmp_signed("<", left, I32(0)), spent, self.kernel.bodies[target]).set_weights([1, 1000])
        builder.position_at_end(spent)
        builder.store(I32(target), self._code)
        builder.branch(self._yield_block)

    def _part(self, builder: Builder, emitter: Emitter, arriving: Value, following: int) -> None:
        """Lanes whose guard does not hold pass the barrier; when some do and some do not, those that pass wait on the stack."""
        kernel, mask = self.kernel, emitter.mask
        with builder.if_then(builder.icmp_signed("==", arriving, I32(0))):
            builder.branch(kernel.arrivals[following])
        passing = builder.xor(mask, arriving)
        with builder.if_then(builder.icmp_signed("!=", passing, I32(0))):
            kernel.push(builder, following, passing, builder.load(kernel.reconverge, typ=I32))
            builder.store(arriving, kernel.mask)
            if SYNCCHECK in emitter.checks and not kernel.only_leaves(following):
                unknown = builder.icmp_signed("==", kernel.word(builder, layout.AWAITED), I32(0))
                for word, value in ((layout.AWAITED, passing), (layout.AWAITED_PC, builder.trunc(emitter.pc, I32))):
                    kernel.set_word(builder, word, builder.select(unknown, value, kernel.word(builder, word)))

    def _use(self, emitter: Emitter, block: int, instruction: Instruction) -> tuple[Value, Value]:
        """The barrier's number, kind and thread count as the scheduler wants them, and the lanes that vote yes."""
        modifiers, operands, builder = instruction.modifiers, instruction.operands, emitter.builder
        unknown = set(modifiers) - {"cta", "sync", "arrive", "red", "aligned", "packed", "pred", "u32", *_VOTES}
        forms = [m for m in modifiers if m in ("sync", "arrive", "red")]
        if unknown or len(forms) != 1:
            raise emitter.unsupported("this form of it is not modelled")
        form, yes = forms[0], I32(0)
        flags = scheduler.ALIGNED if is_aligned(instruction) else 0
        low, high = {"sync": (1, 2), "arrive": (2, 2), "red": (3, 4)}[form]
        if not low <= len(operands) <= high:
            raise emitter.unsupported(f"it has {len(operands)} operands; {low} to {high} expected")
        if form == "red":
            how = next((m for m in modifiers if m in _VOTES), "")
            if not how or not isinstance(operands[0], Register):
                raise emitter.unsupported("its result is not recognized")
            flags |= scheduler.VOTING
            yes = builder.and_(lanes_to_mask(builder, emitter.read(operands[-1], "pred")), emitter.active_mask)
            self.kernel.slot_of(operands[0].name, instruction)
            self._woken[block + 1] = (operands[0].name, how)
            operands = operands[1:-1]
        elif form == "arrive":
            flags |= scheduler.ARRIVE_ONLY
        number = self._same_in_all(emitter, operands[0])
        if "packed" in modifiers:  # both numbers in one register
            count = builder.lshr(number, I32(16))
            use = builder.or_(builder.and_(number, I32(15)), builder.shl(count, I32(scheduler.COUNT_SHIFT)))
            return builder.or_(use, I32(flags)), yes
        # What no barrier can be called stays so in five bits.
        number = builder.select(builder.icmp_unsigned(">", number, I32(15)), I32(16), number)
        use = builder.or_(number, I32(flags))
        if len(operands) > 1:
            use = builder.or_(use, builder.shl(self._same_in_all(emitter, operands[1]), I32(scheduler.COUNT_SHIFT)))
        return use, yes

    def _same_in_all(self, emitter: Emitter, operand: object) -> Value:
        """A number that must be the same in all active lanes, as an i32."""
        if isinstance(operand, Immediate):
            return I32(int(operand.value))
        builder, values = emitter.builder, emitter.read(operand, "u32")  # type: ignore[arg-type]
        lane = builder.and_(trailing_zeros(builder, emitter.active_mask), I32(31))
        chosen = builder.extract_element(values, lane)
        others = builder.and_(builder.icmp_signed("!=", values, splat(builder, chosen)), emitter.active)
        emitter.stop_lanes(lanes_to_mask(builder, others), Fault.BARRIERS_DIFFER)
        return chosen

    def _cluster_operation(self, emitter: Emitter, instruction: Instruction) -> int:
        known = {"cluster", "arrive", "wait", "release", "acquire", "relaxed", "aligned"}
        operation = next((o for m, o in _CLUSTER.items() if m in instruction.modifiers), None)
        if operation is None or set(instruction.modifiers) - known or instruction.operands:
            raise emitter.unsupported("this form of it is not modelled")
        return operation

    def _wait_for_members(self, block: int, builder: Builder, instruction: Instruction) -> Builder:
        """Unless all lanes that the member mask names are here or have ended, wait for them; continues where they are."""
        kernel = self.kernel
        emitter = Emitter(kernel, builder, builder.load(kernel.mask, typ=I32))
        emitter.begin(instruction)
        members = emitter.read(instruction.operands[-1], "b32")
        named = reduce_vector(builder, "or", builder.select(emitter.active, members, splat_constant(I32, 0)))
        start, gone = (kernel.word(builder, word) for word in (layout.START, layout.GONE))
        absent = builder.and_(builder.and_(named, start), builder.not_(builder.or_(gone, emitter.mask)))
        wait, go = builder.append_basic_block("wait"), builder.append_basic_block("admitted")
        builder.cbranch(builder.icmp_signed("==", absent, I32(0)), go, wait).set_weights([1000, 1])
        builder.position_at_end(wait)
        kind = 2 * self._kinds.setdefault(meeting_kind(instruction), len(self._kinds)) + (not is_warp_barrier(instruction))
        kernel.save_group(builder)
        self._ask_scheduler(builder, scheduler.MEET, I32(block), named, I32(kind), I32(instruction.index))
        self._admitted[block] = go
        return ir.IRBuilder(go)
