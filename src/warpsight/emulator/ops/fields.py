"""Bytes and bit fields chosen at run time: prmt, bmsk, szext."""

from __future__ import annotations

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I32, I64, Builder, Value, call_same, is_signed, splat_constant, vector
from warpsight.emulator.ops.common import allow, operands, the_type
from warpsight.emulator.ops.library import outlined
from warpsight.isa.program import Immediate, Instruction

# For each mode, the source byte of each byte of the result, lowest first, by the two low bits of the selector (PTX ISA, prmt).
_MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def _prmt(emitter: Emitter, instruction: Instruction) -> None:
    """Each nibble of the selector picks a byte of {b, a}, its top bit replicates that byte's sign; a mode picks all four."""
    allow(emitter, instruction, *_MODES)
    d, a, b, c = operands(emitter, instruction, 4)
    builder = emitter.builder
    low, high, selector = (emitter.read(x, "b32") for x in (a, b, c))
    mode = next((m for m in instruction.modifiers if m in _MODES), "")
    if mode:
        choices = [splat_constant(I32, sum(byte << 4 * k for k, byte in enumerate(row))) for row in _MODES[mode]]
        bit = [builder.icmp_signed("!=", builder.and_(selector, splat_constant(I32, n)), splat_constant(I32, 0)) for n in (1, 2)]
        upper, lower = (builder.select(bit[0], choices[k + 1], choices[k]) for k in (2, 0))
        selector = builder.select(bit[1], upper, lower)
    values = [low, high, selector]
    if isinstance(c, Immediate):  # folds to a few instructions
        emitter.write(d, _permuted(builder, values), "b32")
    else:
        emitter.write(d, outlined(builder, "permute", low.type, values, _permuted), "b32")


def _permuted(builder: Builder, values: list[Value]) -> Value:
    low, high, selector = (builder.zext(x, vector(I64)) for x in values)
    both = builder.or_(builder.shl(high, splat_constant(I64, 32)), low)
    result = splat_constant(I64, 0)
    for k in range(4):
        nibble = builder.lshr(selector, splat_constant(I64, 4 * k))
        shift = builder.shl(builder.and_(nibble, splat_constant(I64, 7)), splat_constant(I64, 3))
        byte = builder.and_(builder.lshr(both, shift), splat_constant(I64, 255))
        negative = builder.icmp_unsigned(">=", byte, splat_constant(I64, 128))
        replicate = builder.icmp_signed("!=", builder.and_(nibble, splat_constant(I64, 8)), splat_constant(I64, 0))
        filled = builder.select(negative, splat_constant(I64, 255), splat_constant(I64, 0))
        byte = builder.select(replicate, filled, byte)
        result = builder.or_(result, builder.shl(byte, splat_constant(I64, 8 * k)))
    return builder.trunc(result, vector(I32))


def _amount(emitter: Emitter, instruction: Instruction, operand: object) -> Value:
    """A position or width as 64 bits: modulo 32 with `.wrap`, at most 32 with `.clamp`."""
    builder = emitter.builder
    if ("wrap" in instruction.modifiers) == ("clamp" in instruction.modifiers):
        raise emitter.unsupported("it needs .clamp or .wrap")
    value = emitter.read(operand, "u32")  # type: ignore[arg-type]
    if "wrap" in instruction.modifiers:
        value = builder.and_(value, splat_constant(I32, 31))
    return builder.zext(call_same(builder, "umin", value, splat_constant(I32, 32)), vector(I64))


def _ones(builder: Builder, width: Value) -> Value:
    """As many low bits as `width` says."""
    one = splat_constant(I64, 1)
    return builder.sub(builder.shl(one, width), one)


def _bmsk(emitter: Emitter, instruction: Instruction) -> None:
    """`bmsk d, position, width`: ones from a position on; what lies past bit 31 is lost."""
    the_type(emitter, instruction)
    allow(emitter, instruction, "clamp", "wrap")
    d, a, b = operands(emitter, instruction, 3)
    mask = _ones(emitter.builder, _amount(emitter, instruction, b))
    shifted = emitter.builder.shl(mask, _amount(emitter, instruction, a))
    emitter.write(d, emitter.builder.trunc(shifted, vector(I32)), "b32")


def _szext(emitter: Emitter, instruction: Instruction) -> None:
    """The low bits of a, as many as b says, extended by their sign or by zero; of none 0, of 32 or more (`.clamp`) all of a."""
    kind = the_type(emitter, instruction)
    allow(emitter, instruction, "clamp", "wrap")
    d, a, b = operands(emitter, instruction, 3)
    builder = emitter.builder
    away = builder.sub(splat_constant(I64, 64), _amount(emitter, instruction, b))
    none = builder.icmp_signed("==", away, splat_constant(I64, 64))
    up = builder.shl(builder.zext(emitter.read(a, "b32"), vector(I64)), call_same(builder, "umin", away, splat_constant(I64, 63)))
    down = call_same(builder, "umin", away, splat_constant(I64, 63))
    field = builder.ashr(up, down) if is_signed(kind) else builder.lshr(up, down)
    emitter.write(d, builder.trunc(builder.select(none, splat_constant(I64, 0), field), vector(I32)), "b32")


HANDLERS = {"prmt": _prmt, "bmsk": _bmsk, "szext": _szext}
