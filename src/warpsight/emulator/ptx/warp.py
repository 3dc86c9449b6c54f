"""Operations across the lanes of a warp: vote, shfl, activemask, elect, bar.warp.sync, match, redux; and `fns` on a lane mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.helpers import for_each_lane, permuted
from warpsight.emulator.codegen.lanes import (
    F32,
    I32,
    I64,
    IOTA32,
    Value,
    at,
    call_same,
    is_signed,
    lanes_to_mask,
    load_as,
    mask_to_lanes,
    reduce_vector,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.meetings import note_sources
from warpsight.emulator.ptx.common import allow, integer_range, operands, typed_operands
from warpsight.isa.ptx.program import Instruction


def vote(emitter: Emitter, instruction: Instruction) -> None:
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


def activemask(emitter: Emitter, instruction: Instruction) -> None:
    """`activemask d`: the mask of the active lanes."""
    allow(emitter, instruction)
    (d,) = operands(emitter, instruction, 1)
    emitter.write(d, splat(emitter.builder, emitter.active_mask), "b32")


def elect(emitter: Emitter, instruction: Instruction) -> None:
    """`elect.sync d|p, mask`: the leader is the lowest member (PTX leaves that open); d is its number, p is set in it alone."""
    allow(emitter, instruction, "sync")
    d, member = operands(emitter, instruction, 2)
    members = emitter.builder.and_(emitter.read(member, "b32"), splat(emitter.builder, emitter.active_mask))
    leader, leads = leader_of(emitter, members)
    emitter.write(d, leader, "b32")
    if instruction.pair is not None:
        emitter.write(instruction.pair, leads, "pred")


def leader_of(emitter: Emitter, members: Value) -> tuple[Value, Value]:
    """The lowest of the lanes in each lane's mask (i32), and whether that is the lane itself."""
    builder = emitter.builder
    leader = builder.and_(call_same(builder, "cttz", members, flag=False), splat_constant(I32, 31))
    return leader, builder.icmp_signed("==", IOTA32, leader)


def shfl(emitter: Emitter, instruction: Instruction) -> None:
    """`shfl[.sync].{up,down,bfly,idx}.b32 d|p, a, b, c[, mask]`: PTX ISA's lane formula, segment mask in c's high half."""
    allow(emitter, instruction, "sync", *DIRECTIONS)
    d, a, b, c, *member = operands(emitter, instruction, 4, 5)
    direction = next((m for m in DIRECTIONS if m in instruction.modifiers), "")
    if not direction:
        raise emitter.unsupported("shfl needs .up, .down, .bfly or .idx")
    members = emitter.read(member[0], "b32") if member else None
    moved, valid = shuffle(emitter, direction, emitter.read(a, "b32"), emitter.read(b, "u32"), emitter.read(c, "u32"), members)
    emitter.write(d, moved, "b32")
    if instruction.pair is not None:
        emitter.write(instruction.pair, valid, "pred")


DIRECTIONS = ("up", "down", "bfly", "idx")


def shuffle(
    emitter: Emitter, direction: str, value: Value, offset: Value, control: Value, members: Value | None = None
) -> tuple[Value, Value]:
    """The value (i32) that each lane gets from another, and whether that one is in its segment; `control` is c of `shfl`.

    `members` are the lanes' member masks, as far as they are known here.
    """
    builder = emitter.builder
    five = splat_constant(I32, 31)
    offset = builder.and_(offset, five)
    clamp = builder.and_(control, five)
    segment = builder.and_(builder.lshr(control, splat_constant(I32, 8)), five)
    lowest = builder.and_(IOTA32, segment)
    highest = builder.or_(lowest, builder.and_(clamp, builder.not_(segment)))
    if direction == "up":
        source = builder.sub(IOTA32, offset)
    elif direction == "down":
        source = builder.add(IOTA32, offset)
    elif direction == "bfly":
        source = builder.xor(IOTA32, offset)
    else:
        source = builder.or_(lowest, builder.and_(offset, builder.not_(segment)))
    valid = builder.icmp_signed(">=" if direction == "up" else "<=", source, highest)
    note_sources(emitter, source, valid, members)
    source = builder.select(valid, source, IOTA32)
    # PTX leaves undefined what a lane that does not execute the shuffle gives. Here it gives 0: reduce7 of NVIDIA's samples, which
    # sums eight lanes with a mask of eight and offsets up to 16, is right only so.
    value = builder.select(emitter.active, value, splat_constant(I32, 0))
    moved = permuted(emitter, value, builder.and_(source, five))
    return moved, valid


def warp_barrier(emitter: Emitter, instruction: Instruction) -> None:
    """`bar.warp.sync`: lanes of a warp that run in step are already there; others have waited at the start of the block."""
    if "warp" not in instruction.modifiers:
        raise emitter.unsupported("a barrier must end its basic block")


# -- Values that lanes of a warp compare or combine: match, redux; and `fns`, which counts in such a mask.

_NEUTRAL = {"add": 0, "or": 0, "xor": 0, "and": -1}


def _of_each_lane(
    emitter: Emitter, masks: Value, names: tuple[str, ...], value: Callable[[Value, Value], tuple[Value, ...]]
) -> list[Value]:
    """Lanes of i32 vectors called `names`, lane by lane: `value(lane, members)`, members being the active ones of its own mask.

    Lanes that meet here apart from each other, as tiles of a warp do, name different members.
    """
    builder = emitter.builder
    masks = emitter.spill(masks, "members")
    results = [emitter.spill(ir.Constant(vector(I32), None), name) for name in names]
    active = emitter.active_mask

    def body(inner: object, lane: Value) -> None:
        place = builder.shl(builder.zext(lane, I64), I64(2))
        members = builder.and_(load_as(builder, at(builder, masks, place), I32, 4), active)
        for result, own in zip(results, value(lane, members), strict=True):
            store_as(builder, own, at(builder, result, place), 4)

    for_each_lane(builder, active, body)
    return [load_as(builder, result, vector(I32), 64) for result in results]


def match(emitter: Emitter, instruction: Instruction) -> None:
    """`match.any.sync d, a, mask`: the members with this lane's value; `.all d|p`: all members if they agree, else none."""
    kind, d, a, mask = typed_operands(emitter, instruction, 3, "any", "all", "sync")
    together = "all" in instruction.modifiers
    matches, agree = matching(emitter, emitter.read(a, kind), emitter.read(mask, "b32"), together)
    emitter.write(d, matches, "b32")
    if together and instruction.pair is not None:
        emitter.write(instruction.pair, agree, "pred")


def matching(emitter: Emitter, value: Value, masks: Value, together: bool) -> tuple[Value, Value]:
    """The members (i32 lanes) with each lane's value, and whether those are all of them; `together`: no members unless they are."""
    builder, element = emitter.builder, value.type.element
    size = element.width // 8
    held = emitter.spill(value, "matched")

    def of_lane(lane: Value, members: Value) -> tuple[Value, ...]:
        own = load_as(builder, at(builder, held, builder.mul(builder.zext(lane, I64), I64(size))), element, size)
        alike = builder.and_(lanes_to_mask(builder, builder.icmp_signed("==", value, splat(builder, own))), members)
        agree = builder.icmp_signed("==", alike, members)
        return builder.select(agree, members, I32(0)) if together else alike, builder.zext(agree, I32)

    matches, agree = _of_each_lane(emitter, masks, ("matches", "agree"), of_lane)
    return matches, builder.icmp_signed("!=", agree, splat_constant(I32, 0))


def redux(emitter: Emitter, instruction: Instruction) -> None:
    """`redux.sync.op.type d, a, mask`: one value of all members, the same in each; of f32 `min` and `max` with `.abs`, `.NaN`."""
    of_floats = ("abs", "NaN") if instruction.modifiers[-1] == "f32" else ()
    kind, d, a, mask = typed_operands(emitter, instruction, 3, "sync", "add", "min", "max", "and", "or", "xor", *of_floats)
    operation = next((m for m in instruction.modifiers if m in (*_NEUTRAL, "min", "max")), "")
    if of_floats and operation in ("min", "max"):
        patterns = emitter.builder.bitcast(emitter.read(a, kind), vector(I32))
        found = float_reduction(emitter, operation, instruction.modifiers, patterns, emitter.read(mask, "b32"))
        emitter.write(d, emitter.builder.bitcast(found, vector(F32)), kind)
        return
    if not operation or kind not in ("u32", "s32", "b32"):
        raise emitter.unsupported(f"a reduction of .{kind} is not modelled")
    emitter.write(d, reduction(emitter, operation, kind, emitter.read(a, kind), emitter.read(mask, "b32")), kind)


def float_reduction(emitter: Emitter, operation: str, modifiers: Sequence[str], patterns: Value, masks: Value) -> Value:
    """`min` or `max` of f32 patterns by signed integers in the same order, -0 below +0, of which the ends stand for NaNs: these
    lose, or with `.NaN` win.
    """
    builder = emitter.builder
    low, high, rest = splat_constant(I32, -(1 << 31)), splat_constant(I32, (1 << 31) - 1), splat_constant(I32, 31)
    magnitude = builder.and_(patterns, high)
    given = magnitude if "abs" in modifiers else patterns
    order = builder.xor(given, builder.and_(builder.ashr(given, rest), high))
    is_nan = builder.icmp_unsigned(">", magnitude, splat_constant(I32, 0x7F800000))
    numbers = builder.select(is_nan, high if ("NaN" in modifiers) == (operation == "max") else low, order)
    found = reduction(emitter, operation, "s32", numbers, masks)
    back = builder.xor(found, builder.and_(builder.ashr(found, rest), high))
    ends = builder.or_(builder.icmp_signed("==", found, low), builder.icmp_signed("==", found, high))
    return builder.select(ends, splat_constant(I32, 0x7FFFFFFF), back)


def reduction(emitter: Emitter, operation: str, kind: str, value: Value, masks: Value) -> Value:
    """`add`, `min`, `and`, ... over the members of each lane's mask, as i32 lanes; `kind` is u32, s32 or b32."""
    builder = emitter.builder
    neutral = _NEUTRAL.get(operation)
    if neutral is None:
        low, high = integer_range(kind)
        neutral = high if operation == "min" else low
        operation = ("s" if is_signed(kind) else "u") + operation

    def of_lane(lane: Value, members: Value) -> tuple[Value, ...]:
        chosen = builder.select(mask_to_lanes(builder, members), value, splat_constant(I32, neutral & 0xFFFFFFFF))
        return (reduce_vector(builder, operation, chosen),)

    return _of_each_lane(emitter, masks, ("reduced",), of_lane)[0]


def fns(emitter: Emitter, instruction: Instruction) -> None:
    """`fns.b32 d, mask, base, offset`: the |offset|-th set bit from `base` on, up or down; with offset 0 bit `base` itself."""
    _, d, a, b, c = typed_operands(emitter, instruction, 4)
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
    place = call_same(builder, "cttz", left, flag=False)
    place = builder.select(down, builder.sub(top, place), place)
    none = builder.or_(builder.icmp_signed("==", left, zero), far)
    emitter.write(d, builder.select(none, splat_constant(I32, 0xFFFFFFFF), place), "b32")
