"""Block-ending instructions on the reconvergence stack: branches, exits, traps, and barriers of a thread block.

A warp stops at a barrier when each of its lanes has arrived or has left the kernel. Usually the running lanes are all there are.
Otherwise the others run first (PTX ISA, barrier: from sm_70 on, arrivals are counted thread by thread): the lanes that have arrived
are parked on the stack under `PARKED`, those that wait elsewhere run on, not to meet again before the end of the kernel, and when
all have arrived they go on together.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from warpsight.base.findings import ORDER
from warpsight.emulator.codegen import layout
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import record_fault
from warpsight.emulator.codegen.lanes import (
    I1,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    get_slot,
    lanes_to_mask,
    load_as,
    loop,
    population,
    set_slot,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
)
from warpsight.emulator.codegen.layout import PARKED, Fault, Slot
from warpsight.emulator.codegen.orders import ahead, is_heads
from warpsight.emulator.codegen.warp_function import WarpFunction
from warpsight.isa.ptx.program import Instruction, Register, Symbol


class Barriers:
    """The code that all barriers of one kernel share. `arrive` ends a block at a barrier, `build` comes after all blocks."""

    def __init__(self, kernel: WarpFunction) -> None:
        self.kernel = kernel
        self.entry_block = kernel.llvm.append_basic_block("arrival")
        self.parked_block = kernel.llvm.append_basic_block("parked")
        self.following: dict[int, tuple[str, str]] = {}  # block after a barrier: register for its vote, and how votes combine
        self._place = kernel.entry.alloca(I32)
        self._pc = kernel.entry.alloca(I32)
        self._scattered = kernel.entry.alloca(I1)

    def arrive(self, builder: Builder, following: int, pc: int, vote: tuple[str, str]) -> None:
        """The running lanes are at the barrier at `pc` and go on at block `following`, where `vote` gives a register its value."""
        self.following[following] = vote
        builder.store(I32(following), self._place)
        builder.store(I32(pc), self._pc)
        builder.branch(self.entry_block)

    def build(self) -> None:
        """Emit the shared code: who is missing, who runs next, and the way out."""
        kernel = self.kernel
        if not self.following:
            for unused in (self.entry_block, self.parked_block):
                ir.IRBuilder(unused).unreachable()
            return
        kernel.entry.store(I1(0), self._scattered)
        builder = ir.IRBuilder(self.entry_block)
        mask = builder.load(kernel.mask, typ=I32)
        present = builder.and_(kernel.word(builder, layout.START), builder.not_(kernel.word(builder, layout.GONE)))
        together, missing = builder.append_basic_block("together"), builder.append_basic_block("missing")
        builder.cbranch(builder.icmp_signed("==", present, mask), together, missing)
        builder.position_at_end(missing)
        self._look_for_others(builder, builder.and_(present, builder.not_(mask)), together)
        builder.position_at_end(together)
        self._gather(builder)
        self._stop(builder)
        self._build_parked()

    # -- who is missing ------------------------------------------------------------------------------------------------------

    def _look_for_others(self, builder: Builder, absent: Value, together: ir.Block) -> None:
        """From the youngest entry down, find lanes that are neither parked nor about to leave the kernel, and run them."""
        kernel = self.kernel
        builder.store(absent, absent_slot := kernel.buffer("absent", I32))
        _for_each_entry(kernel, builder, lambda inner, entry, _: self._strike_parked(inner, entry, absent_slot))
        chosen, inward = kernel.buffer("chosen", I32), kernel.buffer("chosen block", I32)
        builder.store(I32(0), chosen)
        leaving = [b for b in range(len(kernel.bodies)) if kernel.only_leaves(b)]

        def choose(inner: Builder, entry: Value, block: Value) -> None:
            lanes = inner.and_(load_as(inner, at(inner, entry, 4), I32, 4), inner.load(absent_slot, typ=I32))
            suits = inner.and_(inner.icmp_signed("!=", lanes, I32(0)), inner.icmp_signed("<", block, I32(PARKED)))
            suits = inner.and_(suits, inner.icmp_signed("==", inner.load(chosen, typ=I32), I32(0)))
            for b in leaving:
                suits = inner.and_(suits, inner.icmp_signed("!=", block, I32(b)))
            with inner.if_then(suits):
                inner.store(lanes, chosen)
                inner.store(block, inward)

        _for_each_entry(kernel, builder, choose)
        some = builder.append_basic_block("others")
        lanes = builder.load(chosen, typ=I32)
        builder.cbranch(builder.icmp_signed("==", lanes, I32(0)), together, some)
        builder.position_at_end(some)
        _for_each_entry(kernel, builder, lambda inner, entry, _: _strike(inner, at(inner, entry, 4), lanes))
        parked = builder.or_(builder.load(self._place, typ=I32), I32(PARKED))
        kernel.push(builder, parked, builder.load(kernel.mask, typ=I32), builder.load(self._pc, typ=I32))
        builder.store(lanes, kernel.mask)
        builder.store(I32(layout.NO_BLOCK), kernel.reconverge)
        builder.store(I1(1), self._scattered)
        kernel.jump(builder, builder.load(inward, typ=I32))

    def _strike_parked(self, builder: Builder, entry: Value, absent: Value) -> None:
        """Lanes that are parked are not absent."""
        parked = builder.icmp_signed(">=", load_as(builder, entry, I32, 4), I32(PARKED))
        lanes = builder.select(parked, load_as(builder, at(builder, entry, 4), I32, 4), I32(0))
        _strike(builder, absent, lanes)

    # -- all have arrived ----------------------------------------------------------------------------------------------------

    def _gather(self, builder: Builder) -> None:
        """Lanes that ran apart go on together; nothing waits for them any more. Refused when they are at different barriers."""
        kernel = self.kernel
        with builder.if_then(builder.load(self._scattered, typ=I1)):
            place = builder.or_(builder.load(self._place, typ=I32), I32(PARKED))
            elsewhere = kernel.buffer("elsewhere", I32)
            builder.store(I32(0), elsewhere)

            def join(inner: Builder, entry: Value, block: Value) -> None:
                lanes = load_as(inner, at(inner, entry, 4), I32, 4)
                here, parked = inner.icmp_signed("==", block, place), inner.icmp_signed(">=", block, I32(PARKED))
                joining = inner.select(here, lanes, I32(0))
                inner.store(inner.or_(inner.load(kernel.mask, typ=I32), joining), kernel.mask)
                apart = inner.select(inner.and_(parked, inner.not_(here)), lanes, I32(0))
                inner.store(inner.or_(inner.load(elsewhere, typ=I32), apart), elsewhere)

            _for_each_entry(kernel, builder, join)
            apart = builder.load(elsewhere, typ=I32)
            with builder.if_then(builder.icmp_signed("!=", apart, I32(0)), likely=False):
                pc, lane = builder.load(self._pc, typ=I32), trailing_zeros(builder, apart)
                record_fault(builder, kernel.context, Fault.BARRIERS_DIFFER, pc, lane, I64(0))
                builder.branch(kernel.fault_block)
            kernel.set_word(builder, layout.DEPTH, I32(0))
            gone = builder.and_(kernel.word(builder, layout.START), builder.not_(builder.load(kernel.mask, typ=I32)))
            kernel.set_word(builder, layout.GONE, gone)
            builder.store(I32(layout.NO_BLOCK), kernel.reconverge)
            builder.store(I1(0), self._scattered)

    def _stop(self, builder: Builder) -> None:
        """Save the warp, by where it continues, and return."""
        kernel = self.kernel
        place = builder.load(self._place, typ=I32)
        kernel.set_word(builder, layout.RESUME, place)
        kernel.save_group(builder)
        nowhere = builder.append_basic_block("no_barrier")
        ir.IRBuilder(nowhere).unreachable()
        switch = builder.switch(place, nowhere)
        for block in sorted(self.following):
            saving = builder.append_basic_block(f"save{block}")
            switch.add_case(I32(block), saving)
            inner = ir.IRBuilder(saving)
            for slot in kernel.to_save(block):
                value = load_as(inner, slot.pointer, slot.stored, 4)
                store_as(inner, value, kernel.saved_place(inner, slot.offset), 4)
            inner.ret(I32(layout.BARRIER))

    def _build_parked(self) -> None:
        """A parked entry is the youngest that is left: the others have ended, so its lanes look again whom they wait for."""
        builder, kernel = ir.IRBuilder(self.parked_block), self.kernel
        block = builder.load(kernel.popped, typ=I32)
        builder.store(builder.and_(block, I32(PARKED - 1)), self._place)
        builder.store(builder.load(kernel.reconverge, typ=I32), self._pc)
        builder.store(I32(layout.NO_BLOCK), kernel.reconverge)
        builder.branch(self.entry_block)


def _for_each_entry(kernel: WarpFunction, builder: Builder, body: Callable[[Builder, Value, Value], None]) -> None:
    """Emit a loop over the stack, youngest entry first: `body(builder, entry pointer, its block)`."""

    def visit(left: Value) -> tuple[Value]:
        index = builder.sub(left, I32(1))
        entry = kernel.stack_entry(builder, index)
        body(builder, entry, load_as(builder, entry, I32, 4))
        return (index,)

    loop(builder, [kernel.word(builder, layout.DEPTH)], lambda left: builder.icmp_signed(">", left, I32(0)), visit)


def _strike(builder: Builder, place: Value, lanes: Value) -> None:
    """Take lanes out of the mask in memory."""
    store_as(builder, builder.and_(load_as(builder, place, I32, 4), builder.not_(lanes)), place, 4)


def cast_votes(kernel: WarpFunction, builder: Builder, votes: Value, mask: Value) -> None:
    """Count the running lanes and those of them that vote yes (i32 masks) for the barrier that the block is coming to."""
    for slot, lanes in ((Slot.VOTES_COMING, votes), (Slot.VOTERS_COMING, mask)):
        count = builder.zext(population(builder, lanes), I64)
        set_slot(builder, kernel.context, slot, builder.add(get_slot(builder, kernel.context, slot), count))


def outcome(kernel: WarpFunction, builder: Builder, how: str) -> Value:
    """What the block voted at the barrier that it has left: an i32 count for `popc`, else an i1."""
    return _result(builder, how, *(get_slot(builder, kernel.context, slot) for slot in (Slot.VOTES, Slot.VOTERS)))


def outcome_of(kernel: WarpFunction, builder: Builder, how: str, number: Value) -> Value:
    """The same for barrier `number` (i32) of a block whose barriers are counted one by one."""
    record = load_as(builder, at(builder, kernel.context, 8 * Slot.RECORD_PTR), PTR, 8)
    row = at(builder, record, builder.mul(builder.zext(number, I64), I64(8 * layout.RECORD_WORDS)))
    words = (layout.VOTES_PASSED, layout.VOTERS_PASSED)
    return _result(builder, how, *(load_as(builder, at(builder, row, 8 * word), I64, 8) for word in words))


def _result(builder: Builder, how: str, yes: Value, voters: Value) -> Value:
    if how == "popc":
        return builder.trunc(yes, I32)
    return builder.icmp_signed("!=", yes, I64(0)) if how == "or" else builder.icmp_signed("==", yes, voters)


# -- Block-ending instructions: branches, exits, traps and barriers, on the reconvergence stack.

def emit_branch(kernel: WarpFunction, emitter: Emitter, block: int, instruction: Instruction) -> None:
    """`bra`: all one way without touching the stack; a split pushes the fall-through and runs the taken side."""
    builder = emitter.builder
    taken = _block_of_label(kernel, emitter, instruction.operands[0])
    guard = emitter.guard_lanes
    emitter.leave_block(block)
    if guard is None or taken == block + 1:
        kernel.go_on(builder, taken, block)
        return
    mask_taken = lanes_to_mask(builder, guard)
    mask_fallen = builder.xor(emitter.mask, mask_taken)
    with builder.if_then(builder.icmp_signed("==", mask_taken, I32(0))):
        kernel.go_on(builder, block + 1)
    with builder.if_then(builder.icmp_signed("==", mask_fallen, I32(0))):
        kernel.go_on(builder, taken, block)
    meet = kernel.graph.post_dominator[block]
    _leave_entry_for(kernel, builder, emitter.mask, meet)
    if taken == meet:
        builder.store(mask_fallen, kernel.mask)
        kernel.go_on(builder, block + 1)
        return
    if block + 1 != meet:
        if ORDER in emitter.checks:
            with builder.if_then(is_heads(builder, kernel.context)):
                _push_or_leave(kernel, builder, taken, mask_taken, meet)
                builder.store(mask_fallen, kernel.mask)
                kernel.go_on(builder, block + 1)
        _push_or_leave(kernel, builder, block + 1, mask_fallen, meet)
    builder.store(mask_taken, kernel.mask)
    kernel.go_on(builder, taken, block)


def part_lanes(kernel: WarpFunction, builder: Builder, block: int) -> None:
    """At the start of a block, now and then: some lanes run to its immediate post-dominator before the others, or further: to where
    those around them meet.
    """
    mask, meet = builder.load(kernel.mask, typ=I32), kernel.graph.post_dominator[block]
    first = ahead(builder, kernel.context, mask)
    with builder.if_then(builder.icmp_signed("!=", first, I32(0)), likely=False):
        # Few lanes meet soon again: each lane for itself would take too long.
        near = builder.icmp_unsigned("<=", population(builder, mask), I32(layout.WARP // 2))
        with builder.if_then(builder.or_(near, is_heads(builder, kernel.context))):
            _leave_entry_for(kernel, builder, mask, meet)
        kernel.push(builder, block, builder.xor(mask, first), builder.load(kernel.reconverge, typ=I32))
        builder.store(first, kernel.mask)


def emit_indexed_branch(kernel: WarpFunction, emitter: Emitter, block: int, instruction: Instruction, index: Value) -> None:
    """`brx.idx`, each lane to the target of its `index`: push one entry for each distinct target with its lanes, then run the
    youngest. Lanes under a false guard go on.
    """
    builder = emitter.builder
    guarded, branching = emitter.guard_lanes is not None, emitter.active_mask
    table = instruction.operands[1]
    assert isinstance(table, Symbol)
    labels = kernel.function.branch_targets.get(table.name)
    if not labels:
        raise emitter.unsupported(f'no .branchtargets list "{table.name}"')
    beyond = builder.and_(builder.icmp_unsigned(">=", index, splat_constant(I32, len(labels))), emitter.active)
    emitter.stop_lanes(
        lanes_to_mask(builder, beyond), Fault.BRANCH_INDEX, lambda lane: builder.zext(builder.extract_element(index, lane), I64)
    )
    targets: dict[int, list[int]] = {}
    for k, label in enumerate(labels):
        targets.setdefault(_block_of_label(kernel, emitter, Symbol(label)), []).append(k)
    emitter.leave_block(block)
    meet = kernel.graph.post_dominator[block]
    _leave_entry_for(kernel, builder, emitter.mask, meet)
    if guarded and block + 1 != meet:
        _push_or_leave(kernel, builder, block + 1, builder.xor(emitter.mask, branching), meet)
    for target, indices in targets.items():
        if target == meet:
            continue
        lanes = ir.Constant(emitter.lanes.type, None)
        for k in indices:
            lanes = builder.or_(lanes, builder.icmp_unsigned("==", index, splat(builder, I32(k))))
        _push_or_leave(kernel, builder, target, builder.and_(lanes_to_mask(builder, lanes), branching), meet)
    builder.branch(kernel.pop_block)


def emit_exit(kernel: WarpFunction, emitter: Emitter, block: int) -> None:
    """`ret`, `exit`: the lanes end; under a guard the others go on without them."""
    builder = emitter.builder
    guard = emitter.guard_lanes
    emitter.leave_block(block)
    if guard is None:
        kernel.leave(builder, emitter.mask)
        return
    ending = lanes_to_mask(builder, guard)
    staying = builder.xor(emitter.mask, ending)
    with builder.if_then(builder.icmp_signed("==", staying, I32(0))):
        kernel.leave(builder, ending)
    kernel.note_gone(builder, ending)
    builder.store(staying, kernel.mask)
    kernel.go_on(builder, block + 1)


def emit_trap(kernel: WarpFunction, emitter: Emitter, block: int) -> None:
    """`trap`: stop the launch when any lane gets here."""
    emitter.stop_lanes(emitter.active_mask, Fault.TRAP)
    emitter.leave_block(block)
    kernel.go_on(emitter.builder, block + 1)


def emit_barrier(kernel: WarpFunction, barriers: Barriers, emitter: Emitter, block: int, instruction: Instruction) -> None:
    """`bar.sync`, `bar.red` and their `barrier` forms, of the whole block: save the warp and return to the driver."""
    if emitter.guard_lanes is not None:
        raise emitter.unsupported("a barrier under a guard is not modelled")
    votes = "red" in instruction.modifiers
    if not votes and "sync" not in instruction.modifiers:
        raise emitter.unsupported("only barriers that synchronise the whole block are modelled")
    if len(instruction.operands) != (3 if votes else 1):
        raise emitter.unsupported("a barrier with a thread count is not modelled")
    vote = ("", "")
    if votes:
        register, _, source = instruction.operands
        how = next((m for m in instruction.modifiers if m in ("popc", "and", "or")), "")
        if not how or not isinstance(register, Register):
            raise emitter.unsupported("its result is not recognized")
        yes = emitter.builder.and_(lanes_to_mask(emitter.builder, emitter.read(source, "pred")), emitter.mask)
        cast_votes(kernel, emitter.builder, yes, emitter.mask)
        vote = (register.name, how)
        kernel.slot_of(register.name, instruction)
    emitter.leave_block(block)
    if block + 1 == len(kernel.bodies):
        kernel.leave(emitter.builder, emitter.mask)  # nothing follows: to wait would change nothing
        return
    barriers.arrive(emitter.builder, block + 1, instruction.index, vote)


def _leave_entry_for(kernel: WarpFunction, builder: Builder, mask: Value, meet: int) -> None:
    """Before a split: unless the lanes already wait for `meet`, push the entry under which all of them continue there."""
    if meet < 0:
        return  # they meet only at the end of the kernel, where nothing waits
    current = builder.load(kernel.reconverge, typ=I32)
    with builder.if_then(builder.icmp_signed("!=", current, I32(meet))):
        kernel.push(builder, meet, mask, current)
        builder.store(I32(meet), kernel.reconverge)


def _push_or_leave(kernel: WarpFunction, builder: Builder, block: int, mask: Value, meet: int) -> None:
    """Push lanes that run `block` later; lanes whose next block lies past the end have ended.

    With no block at which they meet in this function, they meet where all of its lanes do: at the end of the call.
    """
    if block >= len(kernel.bodies):
        kernel.note_gone(builder, mask)
        return
    kernel.push(builder, block, mask, builder.load(kernel.reconverge, typ=I32) if meet < 0 else I32(meet))


def _block_of_label(kernel: WarpFunction, emitter: Emitter, operand: object) -> int:
    if not isinstance(operand, Symbol) or operand.name not in kernel.function.labels:
        raise emitter.unsupported("its target is not a label of this function")
    index = kernel.function.labels[operand.name]
    if index >= len(kernel.function.instructions):
        return len(kernel.bodies)
    return int(kernel.graph.block_of(index))
