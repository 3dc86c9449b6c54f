"""Logic, shifts and bit fields, also those chosen at run time (`prmt`, `bmsk`, `szext`)."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    Builder,
    Value,
    bits_of,
    call_same,
    is_signed,
    scalar_type,
    splat_constant,
    vector,
    width,
)
from warpsight.emulator.ptx.common import allow, extended, operands, outlined, the_type, typed_operands
from warpsight.isa.ptx.program import Immediate, Instruction


def logic(emitter: Emitter, instruction: Instruction) -> None:
    """`and`, `or`, `xor`."""
    kind, d, a, b = typed_operands(emitter, instruction, 3)
    builder = emitter.builder
    emit = {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[instruction.opcode]
    emitter.write(d, emit(emitter.read(a, kind), emitter.read(b, kind)), kind)


def invert(emitter: Emitter, instruction: Instruction) -> None:
    """`not`, and `cnot`: 1 where the source is 0, else 0."""
    kind, d, a = typed_operands(emitter, instruction, 2)
    value = emitter.read(a, kind)
    if instruction.opcode == "cnot":
        zero = emitter.builder.icmp_signed("==", value, splat_constant(scalar_type(kind), 0))
        emitter.write(d, emitter.builder.zext(zero, value.type), kind)
    else:
        emitter.write(d, emitter.builder.not_(value), kind)


def shift(emitter: Emitter, instruction: Instruction) -> None:
    """Amounts past the width give 0 (the sign for an arithmetic right shift): PTX clamps, it does not wrap."""
    kind, d, a, b = typed_operands(emitter, instruction, 3)
    builder, bits = emitter.builder, bits_of(kind)
    value, amount32 = emitter.read(a, kind), emitter.read(b, "u32")
    arithmetic = instruction.opcode == "shr" and is_signed(kind)
    emit = builder.shl if instruction.opcode == "shl" else builder.ashr if arithmetic else builder.lshr
    if isinstance(b, Immediate) and 0 <= int(b.value) < bits:
        emitter.write(d, emit(value, splat_constant(scalar_type(kind), int(b.value))), kind)
        return
    within = builder.icmp_unsigned("<", amount32, splat_constant(I32, bits))
    safe = builder.select(within, amount32, splat_constant(I32, bits - 1 if arithmetic else 0))
    shifted = emit(value, emitter.reinterpret(safe, scalar_type(kind)))
    emitter.write(d, shifted if arithmetic else builder.select(within, shifted, ir.Constant(value.type, None)), kind)


def lop3(emitter: Emitter, instruction: Instruction) -> None:
    """Any function of three bits: the or over the minterms in the table. With `.or`/`.and` also p = (d != 0) op q."""
    kind = the_type(emitter, instruction)
    allow(emitter, instruction, "or", "and")
    combine = next((m for m in ("or", "and") if m in instruction.modifiers), "")
    d, a, b, c, table, *q = operands(emitter, instruction, 6 if combine else 5)
    lut = emitter.immediate_value(table)
    if not 0 <= lut <= 0xFF:
        raise emitter.unsupported(f"its table {lut:#x} is out of range 0 to 0xff")
    builder = emitter.builder
    values = [emitter.read(x, kind) for x in (a, b, c)]
    result = splat_constant(scalar_type(kind), 0)
    for k in range(8):
        if lut >> k & 1:
            term = [v if k >> (2 - n) & 1 else builder.not_(v) for n, v in enumerate(values)]
            result = builder.or_(result, builder.and_(builder.and_(term[0], term[1]), term[2]))
    if combine:
        some = builder.icmp_signed("!=", result, splat_constant(scalar_type(kind), 0))
        other = emitter.read(q[0], "pred")
        emitter.write(instruction.pair, builder.or_(some, other) if combine == "or" else builder.and_(some, other), "pred")
    emitter.write(d, result, kind)


def funnel_shift(emitter: Emitter, instruction: Instruction) -> None:
    """`shf.{l,r}.{wrap,clamp}.b32 d, a, b, c`: shift the 64-bit {b:a}."""
    allow(emitter, instruction, "l", "r", "wrap", "clamp")
    d, a, b, c = operands(emitter, instruction, 4)
    builder = emitter.builder
    amount = emitter.read(c, "u32")
    wraps = "wrap" in instruction.modifiers
    amount = builder.and_(amount, splat_constant(I32, 31)) if wraps else call_same(builder, "umin", amount, splat_constant(I32, 32))
    low, high = (emitter.reinterpret(emitter.read(x, "b32"), I64) for x in (a, b))
    both = builder.or_(builder.shl(high, splat_constant(I64, 32)), low)
    amount = emitter.reinterpret(amount, I64)
    left = "l" in instruction.modifiers
    value = builder.lshr(builder.shl(both, amount), splat_constant(I64, 32)) if left else builder.lshr(both, amount)
    emitter.write(d, builder.trunc(value, vector(I32)), "b32")


def bfe(emitter: Emitter, instruction: Instruction) -> None:
    """Extract `len` bits from `pos`; past the top the sign (or 0) fills, and len 0 gives 0."""
    kind, d, a, b, c = typed_operands(emitter, instruction, 4)
    builder, bits, element = emitter.builder, bits_of(kind), scalar_type(kind)
    position, length = (builder.and_(emitter.read(x, "u32"), splat_constant(I32, 255)) for x in (b, c))
    wide = ir.IntType(2 * bits)
    doubled = extended(builder, emitter.read(a, kind), wide, is_signed(kind))
    # With the value sign-extended to twice its width, positions clamp at the width and lengths at what is left of the double.
    start = emitter.reinterpret(call_same(builder, "umin", position, splat_constant(I32, bits)), wide)
    size = emitter.reinterpret(call_same(builder, "umin", length, splat_constant(I32, bits)), wide)
    up = builder.sub(splat_constant(wide, 2 * bits), builder.add(start, size))
    # A field that runs past the top keeps its sign because the extension continues it.
    left = builder.shl(doubled, up)
    down = call_same(builder, "umin", builder.sub(splat_constant(wide, 2 * bits), size), splat_constant(wide, 2 * bits - 1))
    field = builder.ashr(left, down) if is_signed(kind) else builder.lshr(left, down)
    result = builder.trunc(field, vector(element))
    empty = builder.icmp_signed("==", length, splat_constant(I32, 0))
    emitter.write(d, builder.select(empty, splat_constant(element, 0), result), kind)


def bfi(emitter: Emitter, instruction: Instruction) -> None:
    """Insert the low `len` bits of a into b at `pos`."""
    kind, f, a, b, c, e = typed_operands(emitter, instruction, 5)
    builder, bits = emitter.builder, bits_of(kind)
    wide = ir.IntType(2 * bits)
    clamp = splat_constant(I32, bits)
    position, length = (
        emitter.reinterpret(call_same(builder, "umin", builder.and_(emitter.read(x, "u32"), splat_constant(I32, 255)), clamp), wide)
        for x in (c, e)
    )
    one = splat_constant(wide, 1)
    mask = builder.shl(builder.sub(builder.shl(one, length), one), position)
    new = builder.and_(builder.shl(builder.zext(emitter.read(a, kind), vector(wide)), position), mask)
    kept = builder.and_(builder.zext(emitter.read(b, kind), vector(wide)), builder.not_(mask))
    emitter.write(f, builder.trunc(builder.or_(new, kept), vector(scalar_type(kind))), kind)


def count_bits(emitter: Emitter, instruction: Instruction) -> None:
    """`popc` and `clz`."""
    kind, d, a = typed_operands(emitter, instruction, 2)
    name, flag = ("ctpop", None) if instruction.opcode == "popc" else ("ctlz", False)
    count = call_same(emitter.builder, name, emitter.read(a, kind), flag=flag)
    emitter.write(d, emitter.reinterpret(count, I32), "u32")


def bfind(emitter: Emitter, instruction: Instruction) -> None:
    """Position of the highest bit that is not a sign bit, or all ones; `.shiftamt`: the shift that brings it to the top."""
    kind, d, a = typed_operands(emitter, instruction, 2, "shiftamt")
    shifts = "shiftamt" in instruction.modifiers
    emitter.write(d, highest_bit(emitter, emitter.read(a, kind), is_signed(kind), shifts), "u32")


def highest_bit(emitter: Emitter, value: Value, signed: bool, shifts: bool) -> Value:
    """`bfind` of lanes of 32 or 64 bits; `shifts`: the shift that brings the bit to the top."""
    builder, element = emitter.builder, value.type.element
    if signed:
        negative = builder.icmp_signed("<", value, splat_constant(element, 0))
        value = builder.select(negative, builder.not_(value), value)
    leading = emitter.reinterpret(call_same(builder, "ctlz", value, flag=False), I32)
    place = leading if shifts else builder.sub(splat_constant(I32, width(element) - 1), leading)
    none = builder.icmp_signed("==", value, splat_constant(element, 0))
    return builder.select(none, splat_constant(I32, 0xFFFFFFFF), place)


def brev(emitter: Emitter, instruction: Instruction) -> None:
    """`brev`: the bits in reverse order."""
    kind, d, a = typed_operands(emitter, instruction, 2)
    emitter.write(d, call_same(emitter.builder, "bitreverse", emitter.read(a, kind)), kind)


# -- Bytes and bit fields chosen at run time: prmt, bmsk, szext.

# For each mode, the source byte of each byte of the result, lowest first, by the two low bits of the selector (PTX ISA, prmt).
BYTE_MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def prmt(emitter: Emitter, instruction: Instruction) -> None:
    """Each nibble of the selector picks a byte of {b, a}, its top bit replicates that byte's sign; a mode picks all four."""
    allow(emitter, instruction, *BYTE_MODES)
    d, a, b, c = operands(emitter, instruction, 4)
    builder = emitter.builder
    low, high, selector = (emitter.read(x, "b32") for x in (a, b, c))
    if mode := next((m for m in instruction.modifiers if m in BYTE_MODES), ""):
        selector = selector_of(builder, mode, selector)
    values, folds = [low, high, selector], isinstance(c, Immediate)  # a constant selector leaves a few instructions
    emitter.write(d, _permuted(builder, values) if folds else permuted(builder, values), "b32")


def selector_of(builder: Builder, mode: str, selector: Value) -> Value:
    """The selector of bytes that stands for a mode and the two low bits of its operand."""
    choices = [splat_constant(I32, sum(byte << 4 * k for k, byte in enumerate(row))) for row in BYTE_MODES[mode]]
    bit = [builder.icmp_signed("!=", builder.and_(selector, splat_constant(I32, n)), splat_constant(I32, 0)) for n in (1, 2)]
    upper, lower = (builder.select(bit[0], choices[k + 1], choices[k]) for k in (2, 0))
    return builder.select(bit[1], upper, lower)


def permuted(builder: Builder, values: list[Value]) -> Value:
    """Bytes chosen at run time, of `values` low word, high word and selector."""
    return outlined(builder, "permute", values[0].type, values, _permuted)


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


def _wraps(emitter: Emitter, instruction: Instruction) -> bool:
    if ("wrap" in instruction.modifiers) == ("clamp" in instruction.modifiers):
        raise emitter.unsupported("it needs .clamp or .wrap")
    return "wrap" in instruction.modifiers


def _amount(builder: Builder, value: Value, wraps: bool) -> Value:
    """A position or width as 64 bits: modulo 32 if it wraps, else at most 32."""
    if wraps:
        value = builder.and_(value, splat_constant(I32, 31))
    return builder.zext(call_same(builder, "umin", value, splat_constant(I32, 32)), vector(I64))


def bmsk(emitter: Emitter, instruction: Instruction) -> None:
    """`bmsk d, position, width`: ones from a position on; what lies past bit 31 is lost."""
    _, d, a, b = typed_operands(emitter, instruction, 3, "clamp", "wrap")
    wraps = _wraps(emitter, instruction)
    emitter.write(d, bit_mask(emitter, emitter.read(a, "u32"), emitter.read(b, "u32"), wraps), "b32")


def bit_mask(emitter: Emitter, position: Value, count: Value, wraps: bool) -> Value:
    """`count` ones from a position on; `wraps`: both are taken modulo 32."""
    builder, one = emitter.builder, splat_constant(I64, 1)
    ones = builder.sub(builder.shl(one, _amount(builder, count, wraps)), one)
    return builder.trunc(builder.shl(ones, _amount(builder, position, wraps)), vector(I32))


def szext(emitter: Emitter, instruction: Instruction) -> None:
    """The low bits of a, as many as b says, extended by their sign or by zero; of none 0, of 32 or more (`.clamp`) all of a."""
    kind, d, a, b = typed_operands(emitter, instruction, 3, "clamp", "wrap")
    wraps = _wraps(emitter, instruction)
    emitter.write(d, low_bits(emitter, emitter.read(a, "b32"), emitter.read(b, "u32"), is_signed(kind), wraps), "b32")


def low_bits(emitter: Emitter, value: Value, count: Value, signed: bool, wraps: bool) -> Value:
    """The low `count` bits of a word, extended by their sign or by zero; `wraps`: as many as `count` modulo 32."""
    builder = emitter.builder
    away = builder.sub(splat_constant(I64, 64), _amount(builder, count, wraps))
    none = builder.icmp_signed("==", away, splat_constant(I64, 64))
    up = call_same(builder, "umin", away, splat_constant(I64, 63))
    moved = builder.shl(builder.zext(value, vector(I64)), up)
    field = builder.ashr(moved, up) if signed else builder.lshr(moved, up)
    return builder.trunc(builder.select(none, splat_constant(I64, 0), field), vector(I32))
