"""Arithmetic longer than a register: the carry chain `add.cc` .. `madc`, and sums of products of bytes, `dp4a` and `dp2a`."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I32, Value, bits_of, is_signed, scalar_type, splat_constant, vector
from warpsight.emulator.ops.common import allow, operands, the_type, types_of
from warpsight.isa.dataflow import CARRY
from warpsight.isa.program import Instruction


def chain(emitter: Emitter, instruction: Instruction) -> None:
    """`add`, `sub`, `mad` with `.cc` and their `c` forms. The carry is a predicate register without a name.

    Computed in twice the width, where the bit above the result is the carry. A difference is, as in hardware, a sum with the
    complement and a carry in: the carry that it leaves is the inverted borrow, which an `addc` behind a `sub.cc` gets to see.
    """
    kind = the_type(emitter, instruction)
    allow(emitter, instruction, "cc", "lo", "hi")
    family = instruction.opcode.removesuffix("c")
    d, *sources = operands(emitter, instruction, 4 if family == "mad" else 3)
    builder, bits = emitter.builder, bits_of(kind)
    wide = vector(ir.IntType(2 * bits))
    first, *rest = (emitter.read(s, kind) for s in sources)
    if family == "mad":
        first = _half_product(emitter, instruction, kind, first, rest[0])
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


def _half_product(emitter: Emitter, instruction: Instruction, kind: str, a: Value, b: Value) -> Value:
    """`.lo` or `.hi` half of a product."""
    builder = emitter.builder
    wide = vector(ir.IntType(2 * bits_of(kind)))
    extend = builder.sext if is_signed(kind) else builder.zext
    full = builder.mul(extend(a, wide), extend(b, wide))
    if "hi" in instruction.modifiers:
        full = builder.lshr(full, splat_constant(wide.element, bits_of(kind)))
    elif "lo" not in instruction.modifiers:
        raise emitter.unsupported("a product in a carry chain needs .lo or .hi")
    return builder.trunc(full, a.type)


def _dot(emitter: Emitter, instruction: Instruction) -> None:
    """`dp4a.atype.btype d, a, b, c`: four products of bytes; `dp2a.{lo,hi}`: two of half-words with two bytes of b. Plus c."""
    allow(emitter, instruction, "lo", "hi")
    kinds = types_of(emitter, instruction)
    four = instruction.opcode == "dp4a"
    if len(kinds) != 2 or four == bool({"lo", "hi"} & set(instruction.modifiers)):
        raise emitter.unsupported("it names two types, and dp2a one half")
    d, a, b, c = operands(emitter, instruction, 4)
    builder = emitter.builder
    x, y, total = emitter.read(a, "b32"), emitter.read(b, "b32"), emitter.read(c, "b32")
    start = 16 if "hi" in instruction.modifiers else 0
    for k in range(4 if four else 2):
        left = _field(emitter, x, 8 * k if four else 16 * k, 8 if four else 16, is_signed(kinds[0]))
        right = _field(emitter, y, start + 8 * k, 8, is_signed(kinds[1]))
        total = builder.add(total, builder.mul(left, right))
    emitter.write(d, total, "b32")


def _field(emitter: Emitter, value: Value, position: int, length: int, signed: bool) -> Value:
    builder = emitter.builder
    up = builder.shl(value, splat_constant(I32, 32 - position - length))
    down = splat_constant(I32, 32 - length)
    return builder.ashr(up, down) if signed else builder.lshr(up, down)


HANDLERS = {**dict.fromkeys(("addc", "subc", "madc"), chain), **dict.fromkeys(("dp4a", "dp2a"), _dot)}
