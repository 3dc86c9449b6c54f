"""Arithmetic opcodes of several types, which choose by type: integers are done here, floats in `floating_point`.

Also the carry chain `add.cc` .. `madc`, products of 24 bits, and sums of products of bytes, `dp4a` and `dp2a`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    I16,
    I32,
    Value,
    bits_of,
    call_same,
    is_float,
    is_signed,
    scalar_type,
    splat_constant,
    vector,
)
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx import floating_point as floating
from warpsight.emulator.ptx.common import allow, extended, operands, the_type, typed_operands, types_of
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.ptx.rules import CARRY, in_chain


def chain(emitter: Emitter, instruction: Instruction) -> None:
    """`add`, `sub`, `mad` with `.cc` and their `c` forms. The carry is a predicate register without a name.

    Computed in twice the width, where the bit above the result is the carry. A difference is, as in hardware, a sum with the
    complement and a carry in: the carry that it leaves is the inverted borrow, which an `addc` behind a `sub.cc` gets to see.
    """
    family = instruction.opcode.removesuffix("c")
    kind, d, *sources = typed_operands(emitter, instruction, 4 if family == "mad" else 3, "cc", "lo", "hi")
    builder, bits = emitter.builder, bits_of(kind)
    wide = vector(ir.IntType(2 * bits))
    first, *rest = (emitter.read(s, kind) for s in sources)
    if family == "mad":
        if not {"lo", "hi"} & set(instruction.modifiers):
            raise emitter.unsupported("a product in a carry chain needs .lo or .hi")
        first, _ = _product(emitter, instruction, kind, first, rest[0])
    second = builder.not_(rest[-1]) if family == "sub" else rest[-1]
    a, b = builder.zext(first, wide), builder.zext(second, wide)
    total = builder.add(a, b)
    if instruction.opcode.endswith("c"):
        total = builder.add(total, builder.zext(emitter.register(CARRY), wide))
    elif family == "sub":
        total = builder.add(total, splat_constant(wide.element, 1))
    emitter.write(d, builder.trunc(total, vector(scalar_type(kind))), kind)
    if "cc" in instruction.modifiers:
        high = builder.lshr(total, splat_constant(wide.element, bits))
        emitter.set_register(CARRY, builder.trunc(high, emitter.lanes.type))


def dot(emitter: Emitter, instruction: Instruction) -> None:
    """`dp4a.atype.btype d, a, b, c`: four products of bytes; `dp2a.{lo,hi}`: two of half-words with two bytes of b. Plus c."""
    allow(emitter, instruction, "lo", "hi")
    kinds = types_of(emitter, instruction)
    four = instruction.opcode == "dp4a"
    if len(kinds) != 2 or four == bool({"lo", "hi"} & set(instruction.modifiers)):
        raise emitter.unsupported("it needs two types, and dp2a also .lo or .hi")
    d, a, b, c = operands(emitter, instruction, 4)
    values = [emitter.read(x, "b32") for x in (a, b, c)]
    signs = (is_signed(kinds[0]), is_signed(kinds[1]))
    emitter.write(d, dot_product(emitter, values, signs, four, "hi" in instruction.modifiers), "b32")


def dot_product(emitter: Emitter, values: Sequence[Value], signs: tuple[bool, bool], four: bool, high: bool) -> Value:
    """Of `values` a, b, c: c plus four products of bytes, or two of half-words of a with the two lower or upper bytes of b."""
    builder, (x, y, total) = emitter.builder, values
    for k in range(4 if four else 2):
        left = _field(emitter, x, 8 * k if four else 16 * k, 8 if four else 16, signs[0])
        right = _field(emitter, y, (16 if high else 0) + 8 * k, 8, signs[1])
        total = builder.add(total, builder.mul(left, right))
    return total


def _field(emitter: Emitter, value: Value, position: int, length: int, signed: bool) -> Value:
    builder = emitter.builder
    up = builder.shl(value, splat_constant(I32, 32 - position - length))
    down = splat_constant(I32, 32 - length)
    return builder.ashr(up, down) if signed else builder.lshr(up, down)


# -- Integer arithmetic: add, sub, mul, mad, div, rem, abs, neg, min, max, sad, mul24, mad24.

Handler = Callable[[Emitter, Instruction], None]
Typed = Callable[[Emitter, Instruction, str], None]
_PAIRS = vector(I16, 2 * WARP)


def _add_sub(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    if in_chain(instruction):
        chain(emitter, instruction)
        return
    allow(emitter, instruction, "sat")
    if "sat" in instruction.modifiers and kind != "s32":
        raise emitter.unsupported("PTX has .sat for s32 only")
    d, a, b = operands(emitter, instruction, 3)
    x, y = emitter.read(a, kind), emitter.read(b, kind)
    if "sat" in instruction.modifiers:
        result = call_same(emitter.builder, f"s{instruction.opcode}.sat", x, y)
    else:
        result = getattr(emitter.builder, instruction.opcode)(x, y)
    emitter.write(d, result, kind)


def _product(emitter: Emitter, instruction: Instruction, kind: str, a: Value, b: Value) -> tuple[Value, str]:
    """`.lo`, `.hi` or `.wide` product and its type."""
    builder, bits = emitter.builder, bits_of(kind)
    if "lo" in instruction.modifiers:
        return builder.mul(a, b), kind
    wide = ir.IntType(2 * bits)
    full = builder.mul(extended(builder, a, wide, is_signed(kind)), extended(builder, b, wide, is_signed(kind)))
    if "wide" in instruction.modifiers:
        return full, f"{kind[0]}{2 * bits}"
    if "hi" in instruction.modifiers:
        return builder.trunc(builder.lshr(full, splat_constant(wide, bits)), a.type), kind
    raise emitter.unsupported("an integer product needs .lo, .hi or .wide")


def _mul(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    allow(emitter, instruction, "lo", "hi", "wide")
    d, a, b = operands(emitter, instruction, 3)
    value, result = _product(emitter, instruction, kind, emitter.read(a, kind), emitter.read(b, kind))
    emitter.write(d, value, result)


def _mad(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    if in_chain(instruction):
        chain(emitter, instruction)
        return
    allow(emitter, instruction, "lo", "hi", "wide", "sat")
    if "sat" in instruction.modifiers and instruction.modifiers != ("hi", "sat", "s32"):
        raise emitter.unsupported("PTX has .sat for mad.hi.s32 only")
    d, a, b, c = operands(emitter, instruction, 4)
    value, result = _product(emitter, instruction, kind, emitter.read(a, kind), emitter.read(b, kind))
    addend = emitter.read(c, result)
    builder, saturates = emitter.builder, "sat" in instruction.modifiers
    total = call_same(builder, "sadd.sat", value, addend) if saturates else builder.add(value, addend)
    emitter.write(d, total, result)


def mul24(emitter: Emitter, instruction: Instruction) -> None:
    """Product of the low 24 bits: bits 31..0 of it (`.lo`) or 47..16 (`.hi`); `mad24.hi.sat.s32` saturates the sum."""
    kind, modifiers = the_type(emitter, instruction), instruction.modifiers
    allow(emitter, instruction, "lo", "hi", "sat")
    saturates = "sat" in modifiers
    forbidden = saturates and (instruction.opcode, modifiers) != ("mad24", ("hi", "sat", "s32"))
    if ("lo" in modifiers) == ("hi" in modifiers) or forbidden:
        raise emitter.unsupported("it needs one of .lo and .hi, and .sat is for mad24.hi.s32")
    values = operands(emitter, instruction, 3 if instruction.opcode == "mul24" else 4)
    builder, shift = emitter.builder, splat_constant(scalar_type(kind), 8)
    cut = []
    for operand in values[1:3]:  # the low 24 bits, sign- or zero-extended
        up = builder.shl(emitter.read(operand, kind), shift)
        low = builder.ashr(up, shift) if is_signed(kind) else builder.lshr(up, shift)
        cut.append(extended(builder, low, ir.IntType(64), is_signed(kind)))
    full = builder.mul(*cut)
    if "hi" in modifiers:
        full = builder.lshr(full, splat_constant(ir.IntType(64), 16))
    result = builder.trunc(full, vector(scalar_type(kind)))
    if instruction.opcode == "mad24":
        addend = emitter.read(values[3], kind)
        result = call_same(builder, "sadd.sat", result, addend) if saturates else builder.add(result, addend)
    emitter.write(values[0], result, kind)


def _div_rem(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """Division by zero gives all ones (the dividend for rem) and the most negative by -1 wraps, as NVIDIA hardware does."""
    allow(emitter, instruction)
    d, a, b = operands(emitter, instruction, 3)
    builder, element = emitter.builder, scalar_type(kind)
    x, y = emitter.read(a, kind), emitter.read(b, kind)
    zero = builder.icmp_signed("==", y, splat_constant(element, 0))
    unsafe = zero
    ones = splat_constant(element, (1 << bits_of(kind)) - 1)
    if is_signed(kind):
        lowest = builder.icmp_signed("==", x, splat_constant(element, 1 << (bits_of(kind) - 1)))
        unsafe = builder.or_(zero, builder.and_(lowest, builder.icmp_signed("==", y, ones)))
    divisor = builder.select(unsafe, splat_constant(element, 1), y)
    if instruction.opcode == "div":
        value = builder.sdiv(x, divisor) if is_signed(kind) else builder.udiv(x, divisor)
        value = builder.select(zero, ones, value)
    else:
        value = builder.srem(x, divisor) if is_signed(kind) else builder.urem(x, divisor)
        value = builder.select(zero, x, value)
    emitter.write(d, value, kind)


def _negate(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    allow(emitter, instruction)
    d, a = operands(emitter, instruction, 2)
    builder, x, zero = emitter.builder, emitter.read(a, kind), splat_constant(scalar_type(kind), 0)
    value = builder.sub(zero, x)
    if instruction.opcode == "abs":
        value = builder.select(builder.icmp_signed("<", x, zero), value, x)
    emitter.write(d, value, kind)


def _min_max(emitter: Emitter, instruction: Instruction, kind: str) -> None:
    """`.relu` (of s32) takes a negative result to 0."""
    allow(emitter, instruction, *(("relu",) if kind == "s32" else ()))
    d, a, b = operands(emitter, instruction, 3)
    name = ("s" if is_signed(kind) else "u") + instruction.opcode
    value = call_same(emitter.builder, name, emitter.read(a, kind), emitter.read(b, kind))
    emitter.write(d, _rectified(emitter, instruction, value), kind)


def _rectified(emitter: Emitter, instruction: Instruction, value: Value) -> Value:
    if "relu" not in instruction.modifiers:
        return value
    return call_same(emitter.builder, "smax", value, ir.Constant(value.type, None))


def _pairs(emitter: Emitter, instruction: Instruction) -> None:
    """`add`, `min`, `max` of u16x2 and s16x2: a register seen as twice as many lanes of half the width."""
    opcode, signed = instruction.opcode, "s16x2" in instruction.modifiers
    allow(emitter, instruction, *(("relu",) if signed and opcode != "add" else ()))
    d, *sources = operands(emitter, instruction, 3)
    builder = emitter.builder
    a, b = (builder.bitcast(emitter.read(s, "b32"), _PAIRS) for s in sources)
    value = builder.add(a, b) if opcode == "add" else call_same(builder, ("s" if signed else "u") + opcode, a, b)
    emitter.write(d, builder.bitcast(_rectified(emitter, instruction, value), vector(I32)), "b32")


def sad(emitter: Emitter, instruction: Instruction) -> None:
    """`sad d, a, b, c`: |a - b| + c."""
    kind, d, a, b, c = typed_operands(emitter, instruction, 4)
    builder, prefix = emitter.builder, "s" if is_signed(kind) else "u"
    x, y = emitter.read(a, kind), emitter.read(b, kind)
    difference = builder.sub(call_same(builder, prefix + "max", x, y), call_same(builder, prefix + "min", x, y))
    emitter.write(d, builder.add(difference, emitter.read(c, kind)), kind)


def _by_type(integer: Typed, floats: Typed, pairs: Handler | None = None) -> Handler:
    """The handler of an opcode that exists for integers, floats and, with `pairs`, for two 16-bit integers in a register."""

    def emit(emitter: Emitter, instruction: Instruction) -> None:
        if floating.is_half(instruction):
            floating.half_arithmetic(emitter, instruction)
        elif instruction.opcode in ("add", "sub", "mul") and floating.is_pair(instruction):
            floating.pair_arithmetic(emitter, instruction)
        elif pairs is not None and instruction.modifiers[-1:] in (("u16x2",), ("s16x2",)):
            pairs(emitter, instruction)
        else:
            kind = the_type(emitter, instruction)
            (floats if is_float(kind) else integer)(emitter, instruction, kind)

    return emit


add = _by_type(_add_sub, floating.add_sub_mul, _pairs)
subtract = _by_type(_add_sub, floating.add_sub_mul)
multiply = _by_type(_mul, floating.add_sub_mul)
multiply_add = _by_type(_mad, floating.multiply_add)
divide = _by_type(_div_rem, floating.divide)
remainder = _by_type(_div_rem, floating.refuse)
sign = _by_type(_negate, floating.sign)
min_max = _by_type(_min_max, floating.min_max, _pairs)
