"""Values that lanes of a warp compare or combine: match, redux; and `fns`, which counts in such a mask."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import (
    I1,
    I32,
    I64,
    Value,
    at,
    bits_of,
    call_same,
    intrinsic,
    is_signed,
    lanes_to_mask,
    load_as,
    mask_to_lanes,
    reduce_vector,
    scalar_type,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
    vector,
    vector_suffix,
)
from warpsight.emulator.ops.common import allow, operands, the_type
from warpsight.emulator.runtime import for_each_lane
from warpsight.isa.program import Instruction, Operand

_WHAT_CHANGES_NOTHING = {"add": 0, "or": 0, "xor": 0, "and": -1}


def _members(emitter: Emitter, operand: Operand) -> Value:
    """i32: the active lanes that the member mask names. The mask is the same in all of them, so any lane's will do."""
    builder = emitter.builder
    some = builder.and_(trailing_zeros(builder, emitter.mask), I32(31))
    return builder.and_(builder.extract_element(emitter.read(operand, "b32"), some), emitter.active_mask)


def _match(emitter: Emitter, instruction: Instruction) -> None:
    """`match.any.sync d, a, mask`: the members with this lane's value; `.all d|p`: all members if they agree, else none."""
    kind = the_type(emitter, instruction)
    allow(emitter, instruction, "any", "all", "sync")
    d, a, mask = operands(emitter, instruction, 3)
    builder, element, size = emitter.builder, scalar_type(kind), bits_of(kind) // 8
    members, value = _members(emitter, mask), emitter.read(a, kind)
    if "all" in instruction.modifiers:
        leader = builder.extract_element(value, builder.and_(trailing_zeros(builder, members), I32(31)))
        alike = lanes_to_mask(builder, builder.icmp_signed("==", value, splat(builder, leader)))
        agree = builder.icmp_signed("==", builder.and_(builder.not_(alike), members), I32(0))
        emitter.write(d, splat(builder, builder.select(agree, members, I32(0))), "b32")
        if instruction.pair is not None:
            emitter.write(instruction.pair, splat(builder, agree), "pred")
        return
    held = emitter.spill(value, "matched")
    results = emitter.spill(ir.Constant(vector(I32), None), "matches")

    def body(inner: object, lane: Value) -> None:
        offset = builder.zext(lane, I64)
        own = load_as(builder, at(builder, held, builder.mul(offset, I64(size))), element, size)
        alike = lanes_to_mask(builder, builder.icmp_signed("==", value, splat(builder, own)))
        store_as(builder, builder.and_(alike, members), at(builder, results, builder.mul(offset, I64(4))), 4)

    for_each_lane(builder, members, body)
    emitter.write(d, load_as(builder, results, vector(I32), 64), "b32")


def _redux(emitter: Emitter, instruction: Instruction) -> None:
    """`redux.sync.op.type d, a, mask`: one value of all members, the same in each."""
    kind = the_type(emitter, instruction)
    allow(emitter, instruction, "sync", "add", "min", "max", "and", "or", "xor")
    d, a, mask = operands(emitter, instruction, 3)
    operation = next((m for m in instruction.modifiers if m in (*_WHAT_CHANGES_NOTHING, "min", "max")), "")
    if not operation or kind not in ("u32", "s32", "b32"):
        raise emitter.unsupported(f"a reduction of .{kind} is not modelled")
    builder = emitter.builder
    neutral = _WHAT_CHANGES_NOTHING.get(operation)
    if neutral is None:
        low, high = (-(1 << 31), (1 << 31) - 1) if is_signed(kind) else (0, (1 << 32) - 1)
        neutral = high if operation == "min" else low
        operation = ("s" if is_signed(kind) else "u") + operation
    members = mask_to_lanes(builder, _members(emitter, mask))
    values = builder.select(members, emitter.read(a, kind), splat_constant(I32, neutral & 0xFFFFFFFF))
    emitter.write(d, splat(builder, reduce_vector(builder, operation, values)), kind)


def _find_nth_set(emitter: Emitter, instruction: Instruction) -> None:
    """`fns.b32 d, mask, base, offset`: the |offset|-th set bit from `base` on, up or down; with offset 0 bit `base` itself."""
    the_type(emitter, instruction)
    allow(emitter, instruction)
    d, a, b, c = operands(emitter, instruction, 4)
    builder = emitter.builder
    mask, base, offset = emitter.read(a, "b32"), emitter.read(b, "u32"), emitter.read(c, "s32")
    zero, one, top = (splat_constant(I32, n) for n in (0, 1, 31))
    down = builder.icmp_signed("<", offset, zero)
    base = builder.and_(base, top)
    # Downwards is upwards in the mirror image.
    bits = builder.select(down, call_same(builder, "bitreverse", mask), mask)
    start = builder.select(down, builder.sub(top, base), base)
    here = builder.shl(one, start)
    left = builder.and_(bits, builder.sub(zero, here))
    left = builder.select(builder.icmp_signed("==", offset, zero), builder.and_(bits, here), left)
    distance = builder.select(down, builder.sub(zero, offset), offset)
    for passed in range(1, 32):
        without_lowest = builder.and_(left, builder.sub(left, one))
        left = builder.select(builder.icmp_unsigned(">", distance, splat_constant(I32, passed)), without_lowest, left)
    far = builder.icmp_unsigned(">", distance, splat_constant(I32, 32))
    function = intrinsic(builder.module, f"llvm.cttz.{vector_suffix(vector(I32))}", vector(I32), [vector(I32), I1])
    place = builder.call(function, [left, I1(0)])
    place = builder.select(down, builder.sub(top, place), place)
    none = builder.or_(builder.icmp_signed("==", left, zero), far)
    emitter.write(d, builder.select(none, splat_constant(I32, 0xFFFFFFFF), place), "b32")


HANDLERS = {"match": _match, "redux": _redux, "fns": _find_nth_set}
