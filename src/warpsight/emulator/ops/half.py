"""Arithmetic in 16 bits: f16 and bf16, and f16x2 and bf16x2, which are two of them in a 32-bit register.

Computed in wider types that make one rounding exact: single for sums and for products of f16, double for products of bf16 (whose
range is that of single) and for fused multiply-add. A pair is a vector of 64 lanes, the low half of a register first. Results that
are NaN are 0x7FFF.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import F64, I16, I32, I64, Builder, Value, vector
from warpsight.emulator.layout import WARP
from warpsight.emulator.ops.common import allow, extreme, operands, saturate
from warpsight.emulator.ops.library import call_library, outlined
from warpsight.emulator.ops.narrow import FORMATS, lanes_like, narrow, relu, same, to_odd, widen
from warpsight.isa.program import Instruction, Operand

Handler = Callable[[Emitter, Instruction], None]

TYPES = {"f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16"}
_SOURCES = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "neg": 1, "abs": 1, "min": 2, "max": 2, "ex2": 1, "tanh": 1}
_MODIFIERS = {
    "add": ("rn", "ftz", "sat"), "sub": ("rn", "ftz", "sat"), "mul": ("rn", "ftz", "sat"),
    "fma": ("rn", "ftz", "sat", "relu"), "neg": ("ftz",), "abs": ("ftz",),
    "min": ("ftz", "NaN", "xorsign", "abs"), "max": ("ftz", "NaN", "xorsign", "abs"),
    "ex2": ("approx", "ftz"), "tanh": ("approx",),
}  # fmt: skip
OPCODES = tuple(_SOURCES)
_PAIRS = ir.VectorType(I16, 2 * WARP)


def type_of(instruction: Instruction) -> str:
    """The 16-bit type or pair of them that an instruction names last, "" when it names none."""
    return next((m for m in reversed(instruction.modifiers) if m in TYPES), "")


def or_else(handler: Handler) -> Handler:
    """A handler that leaves all types but 16-bit floats to `handler`."""

    def emit(emitter: Emitter, instruction: Instruction) -> None:
        (_arithmetic if type_of(instruction) else handler)(emitter, instruction)

    return emit


def read_patterns(emitter: Emitter, operand: Operand, kind: str) -> Value:
    """An operand's patterns: 32 lanes of i16, or 64 for a pair."""
    if kind.endswith("x2"):
        return emitter.builder.bitcast(emitter.read(operand, "b32"), _PAIRS)
    return emitter.read(operand, "b16")


def write_patterns(emitter: Emitter, destination: Operand, value: Value) -> None:
    """Write 32 or 64 lanes of i16."""
    if value.type.count == WARP:
        emitter.write(destination, value, "b16")
    else:
        emitter.write(destination, emitter.builder.bitcast(value, vector(I32)), "b32")


def flush_patterns(emitter: Emitter, instruction: Instruction, value: Value, name: str) -> Value:
    """With `.ftz`, denormals become zero of the same sign."""
    if "ftz" not in instruction.modifiers:
        return value
    builder, form = emitter.builder, FORMATS[name]
    exponent = builder.and_(value, same(value, ((1 << form.exponent) - 1) << form.fraction))
    tiny = builder.icmp_unsigned("==", exponent, same(value, 0))
    return builder.select(tiny, builder.and_(value, same(value, 0x8000)), value)


def _arithmetic(emitter: Emitter, instruction: Instruction) -> None:
    opcode, kind = instruction.opcode, type_of(instruction)
    name = TYPES[kind]
    allow(emitter, instruction, *_MODIFIERS[opcode])
    _check(emitter, instruction, name)
    d, *sources = operands(emitter, instruction, 1 + _SOURCES[opcode])
    patterns = [flush_patterns(emitter, instruction, read_patterns(emitter, s, kind), name) for s in sources]
    if opcode in ("neg", "abs"):  # of the sign bit alone, also of a NaN
        change = emitter.builder.xor if opcode == "neg" else emitter.builder.and_
        write_patterns(emitter, d, change(patterns[0], same(patterns[0], 0x8000 if opcode == "neg" else 0x7FFF)))
        return
    wide = [widen(emitter.builder, p, name) for p in patterns]
    if opcode in ("min", "max"):
        result = narrow(emitter.builder, extreme(emitter, instruction, *wide), name)
    else:
        result = _rounded(emitter, instruction, wide, name)
    write_patterns(emitter, d, flush_patterns(emitter, instruction, result, name))


def _check(emitter: Emitter, instruction: Instruction, name: str) -> None:
    """What PTX does not define: `.ftz` and `.sat` of bf16, but for `ex2`, which has nothing else."""
    words = set(instruction.modifiers)
    if name == "bf16" and instruction.opcode != "ex2" and words & {"ftz", "sat"}:
        raise emitter.unsupported("PTX has no .ftz and no .sat of bf16")
    if instruction.opcode == "ex2" and (name == "bf16") != ("ftz" in words):
        raise emitter.unsupported("PTX has ex2 of bf16 with .ftz, and of f16 without")


def _rounded(emitter: Emitter, instruction: Instruction, wide: list[Value], name: str) -> Value:
    """An operation in a wider type and its rounding."""
    builder, opcode = emitter.builder, instruction.opcode
    if opcode in ("add", "sub"):
        value = getattr(builder, f"f{opcode}")(*wide)
    elif opcode == "mul":
        value = builder.fmul(*wide) if name == "f16" else to_odd(builder, builder.fmul(*_doubles(builder, wide)))
    elif opcode == "fma":
        title = f"fused_{name}_{wide[0].type.count}"
        value = outlined(builder, title, wide[0].type, wide, lambda b, v: to_odd(b, _sum_of_product(b, v, name)))
    else:
        value = call_library(builder, {"ex2": "exp2"}.get(opcode, opcode), wide[0])
    if "relu" in instruction.modifiers:
        value = relu(builder, value)
    if "sat" in instruction.modifiers:
        value = saturate(emitter, value)
    return narrow(builder, value, name)


def _doubles(builder: Builder, values: list[Value]) -> list[Value]:
    return [builder.fpext(v, lanes_like(v, F64)) for v in values]


def _sum_of_product(builder: Builder, wide: list[Value], name: str) -> Value:
    """The product is exact in double, and so is the sum wherever a second rounding to f16 could tell; for bf16 it is made odd."""
    a, b, c = _doubles(builder, wide)
    product = builder.fmul(a, b)
    total = builder.fadd(product, c)
    if name == "f16":
        return total
    # The exact error of a sum (Knuth) says whether the rounded sum is the exact one, and on which side of it that lies.
    rest = builder.fsub(total, product)
    error = builder.fadd(builder.fsub(product, builder.fsub(total, rest)), builder.fsub(c, rest))
    bits = builder.bitcast(total, lanes_like(total, I64))
    error_bits = builder.bitcast(error, bits.type)
    outward = builder.icmp_signed(">=", builder.xor(bits, error_bits), same(bits, 0))
    odd = builder.or_(builder.select(outward, bits, builder.sub(bits, same(bits, 1))), same(bits, 1))
    is_odd = builder.icmp_signed("!=", builder.and_(bits, same(bits, 1)), same(bits, 0))
    exact = builder.or_(is_odd, builder.not_(builder.fcmp_ordered("!=", error, same(error, 0.0))))
    return builder.bitcast(builder.select(exact, bits, odd), total.type)
