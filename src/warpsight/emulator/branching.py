"""Block-ending instructions: branches, exits, traps and barriers, on the reconvergence stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from warpsight.emulator.barriers import cast_votes
from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I32, I64, Builder, Value, lanes_to_mask, splat, splat_constant, trailing_zeros
from warpsight.emulator.layout import Fault
from warpsight.isa.program import Instruction, Register, Symbol

if TYPE_CHECKING:
    from warpsight.emulator.skeleton import KernelBuilder


def emit_branch(kernel: KernelBuilder, emitter: Emitter, block: int, instruction: Instruction) -> None:
    """`bra`: all one way without touching the stack; a split pushes the fall-through and runs the taken side."""
    builder = emitter.builder
    taken = _block_of_label(kernel, emitter, instruction.operands[0])
    guard = emitter.guard_lanes
    kernel.flush_block(emitter, block)
    if guard is None or taken == block + 1:
        _enter(kernel, builder, taken, block)
        return
    mask_taken = lanes_to_mask(builder, guard)
    mask_fallen = builder.xor(emitter.mask, mask_taken)
    follow, some, split = (builder.append_basic_block(n) for n in ("follow", "some", "split"))
    builder.cbranch(builder.icmp_signed("==", mask_taken, I32(0)), follow, some)
    builder.position_at_end(follow)
    _enter(kernel, builder, block + 1)
    builder.position_at_end(some)
    whole = builder.append_basic_block("taken")
    builder.cbranch(builder.icmp_signed("==", mask_fallen, I32(0)), whole, split)
    builder.position_at_end(whole)
    _enter(kernel, builder, taken, block)
    builder.position_at_end(split)
    meet = kernel.graph.post_dominator[block]
    _leave_entry_for(kernel, builder, emitter.mask, meet)
    if taken == meet:
        builder.store(mask_fallen, kernel.mask)
        _enter(kernel, builder, block + 1)
        return
    if block + 1 != meet:
        _push_or_leave(kernel, builder, block + 1, mask_fallen, meet)
    builder.store(mask_taken, kernel.mask)
    _enter(kernel, builder, taken, block)


def emit_indexed_branch(kernel: KernelBuilder, emitter: Emitter, block: int, instruction: Instruction) -> None:
    """`brx.idx`: push one entry for each distinct target with its lanes, then run the youngest. Lanes under a false guard go on."""
    builder = emitter.builder
    guarded, branching = emitter.guard_lanes is not None, emitter.active_mask
    index = emitter.read(instruction.operands[0], "u32")
    table = instruction.operands[1]
    assert isinstance(table, Symbol)
    labels = kernel.function.branch_targets.get(table.name)
    if not labels:
        raise emitter.unsupported(f'no .branchtargets list "{table.name}"')
    beyond = builder.and_(builder.icmp_unsigned(">=", index, splat_constant(I32, len(labels))), emitter.active)
    beyond_mask = lanes_to_mask(builder, beyond)
    lane = trailing_zeros(builder, beyond_mask)
    emitter.stop_if(
        builder.icmp_signed("!=", beyond_mask, I32(0)),
        Fault.BRANCH_INDEX,
        lambda: (lane, builder.zext(builder.extract_element(index, lane), I64)),
    )
    targets: dict[int, list[int]] = {}
    for k, label in enumerate(labels):
        targets.setdefault(_block_of_label(kernel, emitter, Symbol(label)), []).append(k)
    kernel.flush_block(emitter, block)
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


def emit_exit(kernel: KernelBuilder, emitter: Emitter, block: int) -> None:
    """`ret`, `exit`: the lanes end; under a guard the others go on without them."""
    builder = emitter.builder
    guard = emitter.guard_lanes
    kernel.flush_block(emitter, block)
    if guard is None:
        kernel.leave(builder, emitter.mask)
        return
    ending = lanes_to_mask(builder, guard)
    staying = builder.xor(emitter.mask, ending)
    gone, rest = builder.append_basic_block("gone"), builder.append_basic_block("rest")
    builder.cbranch(builder.icmp_signed("==", staying, I32(0)), gone, rest)
    builder.position_at_end(gone)
    kernel.leave(builder, ending)
    builder.position_at_end(rest)
    kernel.note_gone(builder, ending)
    builder.store(staying, kernel.mask)
    _enter(kernel, builder, block + 1)


def emit_trap(kernel: KernelBuilder, emitter: Emitter, block: int) -> None:
    """`trap`: stop the launch when any lane gets here."""
    builder = emitter.builder
    mask = emitter.active_mask
    emitter.stop_if(builder.icmp_signed("!=", mask, I32(0)), Fault.TRAP, lambda: (trailing_zeros(builder, mask), I64(0)))
    kernel.flush_block(emitter, block)
    _enter(kernel, builder, block + 1)


def emit_barrier(kernel: KernelBuilder, emitter: Emitter, block: int, instruction: Instruction) -> None:
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
            raise emitter.unsupported("its result is not understood")
        yes = emitter.builder.and_(lanes_to_mask(emitter.builder, emitter.read(source, "pred")), emitter.mask)
        cast_votes(kernel, emitter.builder, yes, emitter.mask)
        vote = (register.name, how)
        kernel.slot_of(register.name, instruction)
    kernel.flush_block(emitter, block)
    if block + 1 == len(kernel.bodies):
        kernel.leave(emitter.builder, emitter.mask)  # nothing follows: to wait would change nothing
        return
    kernel.barriers.arrive(emitter.builder, block + 1, instruction.index, vote)


def _enter(kernel: KernelBuilder, builder: Builder, block: int, source: int = -1) -> None:
    """Go to `block` with the current mask, by a branch of block `source` if that is given; past the last block the lanes end."""
    if kernel.scheduling is not None and kernel.scheduling.spins(source, block):
        kernel.scheduling.close_loop(builder, block)
    elif block >= len(kernel.bodies):
        kernel.leave(builder, builder.load(kernel.mask, typ=I32))
    else:
        builder.branch(kernel.target(block))


def _leave_entry_for(kernel: KernelBuilder, builder: Builder, mask: Value, meet: int) -> None:
    """Before a split: unless the lanes already wait for `meet`, push the entry under which all of them continue there."""
    if meet < 0:
        return  # they meet only at the end of the kernel, where nothing waits
    current = builder.load(kernel.reconverge, typ=I32)
    fresh, go = builder.append_basic_block("fresh"), builder.append_basic_block("go")
    builder.cbranch(builder.icmp_signed("!=", current, I32(meet)), fresh, go)
    builder.position_at_end(fresh)
    kernel.push(builder, meet, mask, current)
    builder.store(I32(meet), kernel.reconverge)
    builder.branch(go)
    builder.position_at_end(go)


def _push_or_leave(kernel: KernelBuilder, builder: Builder, block: int, mask: Value, meet: int) -> None:
    """Push lanes that run `block` later; lanes whose next block lies past the end have ended.

    With no block at which they meet in this function, they meet where all of its lanes do: at the end of the call.
    """
    if block >= len(kernel.bodies):
        kernel.note_gone(builder, mask)
        return
    kernel.push(builder, block, mask, builder.load(kernel.reconverge, typ=I32) if meet < 0 else I32(meet))


def _block_of_label(kernel: KernelBuilder, emitter: Emitter, operand: object) -> int:
    if not isinstance(operand, Symbol) or operand.name not in kernel.function.labels:
        raise emitter.unsupported("its target is not a label of this function")
    index = kernel.function.labels[operand.name]
    if index >= len(kernel.function.instructions):
        return len(kernel.bodies)
    return int(kernel.graph.block_of(index))
