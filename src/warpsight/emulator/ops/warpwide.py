"""Operations across a warp's lanes: vote, shfl, activemask, elect, bar.warp.sync."""

from __future__ import annotations

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import (
    I1,
    I32,
    I64,
    IOTA32,
    PTR,
    Value,
    at,
    gather,
    lanes_to_mask,
    splat,
    splat_constant,
    trailing_zeros,
    vector,
)
from warpsight.emulator.ops.common import allow, operands
from warpsight.isa.program import Instruction, Operand


def _vote(emitter: Emitter, instruction: Instruction) -> None:
    """`vote[.sync].{all,any,uni,ballot}` among the active lanes (of the member mask, which PTX wants to equal them)."""
    allow(emitter, instruction, "sync", "all", "any", "uni", "ballot")
    d, p, *member = operands(emitter, instruction, 2, 3)
    builder, modifiers = emitter.builder, instruction.modifiers
    votes = splat(builder, builder.and_(lanes_to_mask(builder, emitter.read(p, "pred")), emitter.active_mask))
    voters = splat(builder, emitter.active_mask)
    if member:  # lanes that vote apart from each other, as tiles of a warp do, name different members
        named = emitter.read(member[0], "b32")
        votes, voters = builder.and_(votes, named), builder.and_(voters, named)
    if "ballot" in modifiers:
        emitter.write(d, votes, "b32")
        return
    everyone = builder.icmp_signed("==", votes, voters)
    nobody = builder.icmp_signed("==", votes, splat_constant(I32, 0))
    outcome = everyone if "all" in modifiers else builder.not_(nobody) if "any" in modifiers else builder.or_(everyone, nobody)
    emitter.write(d, outcome, "pred")


def _member_mask(emitter: Emitter, operand: Operand) -> Value:
    """i32: a member mask. It is the same in all active lanes, so that of any one will do."""
    builder = emitter.builder
    lane = builder.and_(trailing_zeros(builder, emitter.active_mask), I32(31))
    return builder.extract_element(emitter.read(operand, "b32"), lane)


def _activemask(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction)
    (d,) = operands(emitter, instruction, 1)
    emitter.write(d, splat(emitter.builder, emitter.active_mask), "b32")


def _elect(emitter: Emitter, instruction: Instruction) -> None:
    """`elect.sync d|p, mask`: the leader is the lowest member (PTX leaves that open); d is its number, p is set in it alone."""
    allow(emitter, instruction, "sync")
    d, member = operands(emitter, instruction, 2)
    builder = emitter.builder
    members = builder.and_(_member_mask(emitter, member), emitter.active_mask)
    leader = splat(builder, builder.and_(trailing_zeros(builder, members), I32(31)))
    emitter.write(d, leader, "b32")
    if instruction.pair is not None:
        emitter.write(instruction.pair, builder.icmp_signed("==", IOTA32, leader), "pred")


def _shfl(emitter: Emitter, instruction: Instruction) -> None:
    """`shfl[.sync].{up,down,bfly,idx}.b32 d|p, a, b, c[, mask]`: PTX ISA's lane formula, segment mask in c's high half."""
    allow(emitter, instruction, "sync", "up", "down", "bfly", "idx")
    d, a, b, c, *_member = operands(emitter, instruction, 4, 5)
    builder = emitter.builder
    value = emitter.read(a, "b32")
    five = splat_constant(I32, 31)
    offset, control = builder.and_(emitter.read(b, "u32"), five), emitter.read(c, "u32")
    clamp = builder.and_(control, five)
    segment = builder.and_(builder.lshr(control, splat_constant(I32, 8)), five)
    highest = builder.or_(builder.and_(IOTA32, segment), builder.and_(clamp, builder.not_(segment)))
    lowest = builder.and_(IOTA32, segment)
    if "up" in instruction.modifiers:
        source = builder.sub(IOTA32, offset)
        valid = builder.icmp_signed(">=", source, highest)
    elif "down" in instruction.modifiers:
        source = builder.add(IOTA32, offset)
        valid = builder.icmp_signed("<=", source, highest)
    elif "bfly" in instruction.modifiers:
        source = builder.xor(IOTA32, offset)
        valid = builder.icmp_signed("<=", source, highest)
    elif "idx" in instruction.modifiers:
        source = builder.or_(lowest, builder.and_(offset, builder.not_(segment)))
        valid = builder.icmp_signed("<=", source, highest)
    else:
        raise emitter.unsupported("shfl needs .up, .down, .bfly or .idx")
    source = builder.select(valid, source, IOTA32)
    # PTX leaves undefined what a lane that does not execute the shuffle gives. Here it gives 0: reduce7 of NVIDIA's samples, which
    # sums eight lanes with a mask of eight and offsets up to 16, is right only so.
    value = builder.select(emitter.active, value, splat_constant(I32, 0))
    scratch = emitter.spill(value, "shuffled")
    base = splat(builder, builder.ptrtoint(at(builder, scratch, 0), I64))
    offsets = builder.shl(builder.zext(builder.and_(source, five), vector(I64)), splat_constant(I64, 2))
    moved = gather(builder, builder.inttoptr(builder.add(base, offsets), vector(PTR)), splat_constant(I1, 1), I32)
    emitter.write(d, moved, "b32")
    if instruction.pair is not None:
        emitter.write(instruction.pair, valid, "pred")


def _warp_barrier(emitter: Emitter, instruction: Instruction) -> None:
    """`bar.warp.sync`: lanes of a warp that run in step are already there; others have waited at the start of the block."""
    if "warp" not in instruction.modifiers:
        raise emitter.unsupported("a barrier must end its basic block")


HANDLERS = {
    "vote": _vote,
    "activemask": _activemask,
    "elect": _elect,
    "shfl": _shfl,
    "bar": _warp_barrier,
    "barrier": _warp_barrier,
}
