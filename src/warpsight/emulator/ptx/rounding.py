"""Directed rounding of floating-point operations, and formats narrower than single with one correct rounding.

The processor's rounding mode is set inside an out-of-line function for just the one operation, so that no other code sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    INTERLEAVED,
    Builder,
    Value,
    call_same,
    internal_function,
    intrinsic,
    vector,
    vector_suffix,
)
from warpsight.emulator.ptx.common import outlined
from warpsight.isa.ptx.program import Instruction

# PTX modifier to the argument of llvm.set.rounding; 1 is to nearest even, which holds everywhere else.
DIRECTED = {"rz": 0, "rp": 2, "rm": 3}
NEAREST = 1
_CONVERSIONS = ("fptrunc", "sitofp", "uitofp")


def compute(emitter: Emitter, instruction: Instruction, name: str, *values: Value) -> Value:
    """`fadd`, `fsub`, `fmul`, `fdiv`, `fma` or `sqrt` of `values`, all of one type, rounded as the instruction says."""
    mode = next((m for m in instruction.modifiers if m in DIRECTED), None)
    if mode is not None:
        return _directed(emitter, name, mode, values[0].type, values)
    if name in ("fma", "sqrt"):
        return call_same(emitter.builder, name, *values)
    return getattr(emitter.builder, name)(*values)


def convert(emitter: Emitter, instruction: Instruction, name: str, value: Value, kind: Any) -> Value:
    """`fptrunc`, `sitofp` or `uitofp` of `value` to the vector type `kind` (f32 or f64), rounded as the instruction says."""
    mode = next((m for m in instruction.modifiers if m in DIRECTED), None)
    if mode is None:
        return getattr(emitter.builder, name)(value, kind)
    return _directed(emitter, name, mode, kind, (value,))


def _directed(emitter: Emitter, name: str, mode: str, kind: Any, values: tuple[Value, ...]) -> Value:
    """Call the function for this operation, rounding and type, made on first use."""
    module = emitter.builder.module
    types = [v.type for v in values]
    suffix = vector_suffix(kind) + (f".{vector_suffix(types[0])}" if name in _CONVERSIONS else "")
    function, fresh = internal_function(module, f"{name}_{mode}_{suffix}", ir.FunctionType(kind, types))
    if fresh:
        set.add(function.attributes, "strictfp")  # llvmlite's own list of attributes lacks it
        builder = ir.IRBuilder(function.append_basic_block())
        words = ir.MetaDataType()
        operation = intrinsic(module, f"llvm.experimental.constrained.{name}.{suffix}", kind, [*types, words, words])
        switch = intrinsic(module, "llvm.set.rounding", ir.VoidType(), [I32])
        builder.call(switch, [I32(DIRECTED[mode])])
        how = [ir.MetaDataString(module, text) for text in ("round.dynamic", "fpexcept.ignore")]
        result = builder.call(operation, [*function.args, *how])
        builder.call(switch, [I32(NEAREST)])
        if name == "uitofp":  # without AVX-512 LLVM subtracts two equal numbers to convert 0, which is -0 under round-down
            zero = builder.icmp_unsigned("==", function.args[0], ir.Constant(types[0], None))
            result = builder.select(zero, ir.Constant(kind, None), result)
        builder.ret(result)
    return emitter.builder.call(function, list(values))


# -- Floating-point formats narrower than single: what they look like, and conversion from and to single, with one rounding.
#
# Lanes of such a format are integers here (`bf16` and `e4m3` have no LLVM type). Everything works on any number of lanes, so that a
# packed pair (`f16x2`) is a vector of 64. A source wider than single is first rounded to odd, after which a second rounding is
# exact: the odd last bit says that something was lost, and is below every bit that the second rounding looks at.

@dataclass(frozen=True)
class Format:
    """Sign, `exponent` and `fraction` bits in lanes of `bits`. Without infinities (`e4m3`) the largest pattern alone is a NaN."""

    name: str
    bits: int
    exponent: int
    fraction: int
    has_infinity: bool = True

    @property
    def lowest(self) -> int:
        """Exponent of the smallest normal number."""
        return 2 - (1 << (self.exponent - 1))

    @property
    def largest(self) -> int:
        """Pattern of the largest finite number."""
        top = ((1 << self.exponent) - 1) << self.fraction
        return top - 1 if self.has_infinity else top + (1 << self.fraction) - 2

    @property
    def nan(self) -> int:
        """The canonical NaN: all bits but the sign (of `tf32`, which lies in 32 bits, all 31 of them)."""
        return 0x7FFFFFFF if self.name == "tf32" else (1 << (self.exponent + self.fraction)) - 1

    @property
    def lane(self) -> Any:
        """LLVM's type of a lane."""
        return {8: I8, 16: I16, 32: I32}[self.bits]


FORMATS = {
    "f16": Format("f16", 16, 5, 10),
    "bf16": Format("bf16", 16, 8, 7),
    "tf32": Format("tf32", 32, 8, 10),
    "e4m3": Format("e4m3", 8, 4, 3, False),
    "e5m2": Format("e5m2", 8, 5, 2),
}


def lanes_like(value: Value, element: Any) -> Any:
    """As many lanes as `value` has, of `element`."""
    return vector(element, value.type.count)


def same(value: Value, constant: float, element: Any = None) -> Value:
    """A constant in as many lanes as `value` has, of its type or of `element`."""
    kind = lanes_like(value, element or value.type.element)
    return ir.Constant(kind, [constant] * kind.count)


def widen(builder: Builder, value: Value, name: str) -> Value:
    """Patterns of a format as singles, exactly; a NaN stays one."""
    if name == "f16":
        return builder.fpext(builder.bitcast(value, lanes_like(value, F16)), lanes_like(value, F32))
    wide = lanes_like(value, I32)
    if name == "bf16":
        return builder.bitcast(builder.shl(builder.zext(value, wide), same(value, 16, I32)), lanes_like(value, F32))
    half = builder.shl(builder.zext(value, lanes_like(value, I16)), same(value, 8, I16))
    if name == "e5m2":
        return widen(builder, half, "f16")
    # e4m3 as the upper byte of a half, one place down: the exponent is then too small by the difference of the biases, 8.
    sign = builder.and_(half, same(half, 0x8000))
    magnitude = builder.lshr(builder.shl(half, same(half, 1)), same(half, 2))
    scaled = widen(builder, builder.or_(sign, magnitude), "f16")
    nan = builder.icmp_unsigned("==", magnitude, same(half, 0x3F80))
    return builder.select(nan, same(scaled, float("nan")), builder.fmul(scaled, same(scaled, 256.0)))


def to_odd(builder: Builder, value: Value) -> Value:
    """Doubles as singles, rounded to odd: an inexact result is the neighbour whose last bit is one. Overflow gives the largest."""
    near = builder.fptrunc(value, lanes_like(value, F32))
    back = builder.fpext(near, value.type)
    bits = builder.bitcast(near, lanes_like(value, I32))
    one = same(bits, 1)
    beyond = builder.fcmp_ordered(">", call_same(builder, "fabs", back), call_same(builder, "fabs", value))
    odd = builder.or_(builder.select(beyond, builder.sub(bits, one), bits), one)
    inexact = builder.fcmp_ordered("!=", back, value)
    return builder.bitcast(builder.select(inexact, odd, bits), near.type)


def integer_to_odd(builder: Builder, value: Value, signed: bool) -> Value:
    """Integers of up to 64 bits as singles, rounded to odd."""
    width = value.type.element.width
    convert = builder.sitofp if signed else builder.uitofp
    if width <= 16:
        return convert(value, lanes_like(value, F32))
    if width == 64:  # what a double would lose goes into its last bit
        low = builder.and_(value, same(value, 0x7FF))
        carried = builder.lshr(builder.add(low, same(value, 0x7FF)), same(value, 11))  # 1 if anything is lost
        kept = builder.or_(builder.sub(value, low), builder.shl(carried, same(value, 11)))
        magnitude = call_same(builder, "abs", value, flag=True) if signed else value
        small = builder.icmp_unsigned("<", magnitude, same(value, 1 << 53))
        value = builder.select(small, value, kept)
    return to_odd(builder, convert(value, lanes_like(value, F64)))


def relu(builder: Builder, value: Value) -> Value:
    """`.relu` of singles: negative numbers and -0 become +0; a NaN stays."""
    negative = builder.fcmp_unordered("<=", value, same(value, 0.0))
    ordered = builder.fcmp_ordered("ord", value, value)
    return builder.select(builder.and_(negative, ordered), same(value, 0.0), value)


def narrow(
    builder: Builder, value: Value, name: str, mode: str = "rn", finite: bool = False, random: Value | None = None
) -> Value:
    """Singles as patterns of a format, rounded by `mode`; `finite` (`.satfinite`): the largest number in place of infinity.

    NaNs become the format's canonical one. Mode `rs` adds `random` (see `random_of_pairs`) below the last bit that is kept.
    """
    if name == "f16" and mode == "rn" and not finite:
        half = builder.bitcast(builder.fptrunc(value, lanes_like(value, F16)), lanes_like(value, I16))
        return builder.select(builder.fcmp_unordered("uno", value, value), same(half, FORMATS[name].nan), half)
    form = FORMATS[name]
    title = f"narrow_{name}_{mode}{'_finite' if finite else ''}_{value.type.count}"
    arguments = [value] if random is None else [value, random]
    return outlined(builder, title, lanes_like(value, form.lane), arguments, lambda b, v: _narrowed(b, v, form, mode, finite))


def random_of_pairs(builder: Builder, word: Value, name: str) -> Value:
    """Of `.rs`, what each single of a pair is rounded with: the low bits of the low and of the high half of a word, as many as the
    format `name` has fewer than a single (PTX ISA, `cvt`: layout of rbits).
    """
    mask = same(word, (1 << 23 - FORMATS[name].fraction) - 1)
    low, high = builder.and_(word, mask), builder.and_(builder.lshr(word, same(word, 16)), mask)
    return builder.shuffle_vector(low, high, INTERLEAVED)


def _narrowed(builder: Builder, arguments: Sequence[Value], form: Format, mode: str, finite: bool) -> Value:
    """A pattern counts upwards through the binades, so that a rounding that carries lands where it must."""
    value = arguments[0]
    bits = builder.bitcast(value, lanes_like(value, I32))
    magnitude = builder.and_(bits, same(bits, 0x7FFFFFFF))
    negative = builder.icmp_signed("<", bits, same(bits, 0))
    exponent = builder.lshr(magnitude, same(bits, 23))
    hidden = builder.icmp_unsigned("!=", exponent, same(bits, 0))
    significand = builder.or_(builder.and_(bits, same(bits, 0x7FFFFF)), builder.select(hidden, same(bits, 1 << 23), same(bits, 0)))
    # Binades above the lowest normal one of the format; below it more bits are lost.
    binade = builder.sub(call_same(builder, "umax", exponent, same(bits, 1)), same(bits, 127 + form.lowest))
    below = builder.neg(call_same(builder, "smin", binade, same(bits, 0)))
    above = call_same(builder, "smax", binade, same(bits, 0))
    cut = same(bits, 23 - form.fraction)
    if mode == "rs":  # what a subnormal number has below the random bits is dropped first
        fine = builder.lshr(significand, call_same(builder, "umin", below, same(bits, 24)))
        steps = builder.lshr(builder.add(fine, arguments[1]), cut)
    else:
        lost = call_same(builder, "umin", builder.add(cut, below), same(bits, 26))
        steps = builder.lshr(builder.add(significand, _bias(builder, significand, lost, negative, mode)), lost)
    pattern = builder.add(steps, builder.shl(above, same(bits, form.fraction)))
    limit = form.largest if finite or mode == "rz" else form.largest + 1
    ceiling = same(bits, limit)
    if mode in ("rp", "rm") and not finite:  # past the largest only away from zero
        outward = builder.not_(negative) if mode == "rp" else negative
        ceiling = builder.select(outward, ceiling, same(bits, form.largest))
    pattern = call_same(builder, "umin", pattern, ceiling)
    if not finite:
        infinite = builder.icmp_unsigned("==", magnitude, same(bits, 0x7F800000))
        pattern = builder.select(infinite, same(bits, form.largest + 1), pattern)
    sign_place = form.exponent + form.fraction
    sign = builder.select(negative, same(bits, 1 << sign_place), same(bits, 0))
    signed = builder.or_(pattern, sign)
    if form.name == "tf32":  # a single whose last 13 bits are zero
        signed = builder.shl(signed, same(bits, 13))
    nan = builder.icmp_unsigned(">", magnitude, same(bits, 0x7F800000))
    result = builder.select(nan, same(bits, form.nan), signed)
    return result if form.bits == 32 else builder.trunc(result, lanes_like(value, form.lane))


def _bias(builder: Builder, significand: Value, lost: Value, negative: Value, mode: str) -> Value:
    """What to add to a significand before its lowest `lost` bits are cut off."""
    one, zero = same(lost, 1), same(lost, 0)
    if mode == "rz":
        return zero
    if mode in ("rp", "rm"):
        outward = builder.not_(negative) if mode == "rp" else negative
        return builder.select(outward, builder.sub(builder.shl(one, lost), one), zero)
    half = builder.shl(one, builder.sub(lost, one))
    if mode == "rna":
        return half
    even = builder.and_(builder.lshr(significand, lost), one)
    return builder.add(builder.sub(half, one), even)
