"""`cvt`: between integers and floats with rounding and saturation; and the forms that pack or unpack several values."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    F32,
    F64,
    I8,
    I16,
    I32,
    INTERLEAVED,
    Value,
    bits_of,
    call_same,
    intrinsic,
    is_signed,
    scalar_type,
    splat_constant,
    vector,
    vector_suffix,
)
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx.common import allow, canonical, flush_if, integer_range, kinds_of, operands, roundings, saturate
from warpsight.emulator.ptx.floating_point import read_patterns, write_patterns
from warpsight.emulator.ptx.rounding import DIRECTED, convert, integer_to_odd, narrow, random_of_pairs, relu, to_odd, widen
from warpsight.isa.ptx.program import Instruction

_PAIRS = {"f16x2": "f16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2"}
_PACKED = frozenset({"tf32", *_PAIRS})
_EIGHT = ("e4m3x2", "e5m2x2")
_SIXTEEN_PAIRS = ("f16x2", "bf16x2")
_PACKED_INTEGERS = ("u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16")


def _convert_packed(emitter: Emitter, instruction: Instruction, to: str, source: str) -> None:
    """Between f32 and pairs of narrower floats in a register, or `tf32`."""
    modifiers = set(instruction.modifiers)
    allow(emitter, instruction, "rn", "rz", "rna", "rs", "relu", "satfinite")
    mode = next((m for m in ("rn", "rz", "rna", "rs") if m in modifiers), "")
    wrong_pair = mode == "rs" and (to not in _SIXTEEN_PAIRS or source != "f32")
    if not mode or wrong_pair or (mode == "rna") > (to == "tf32") or (mode == "rna" and "relu" in modifiers):
        raise emitter.unsupported("PTX does not have this rounding here")
    if source == "f32" and (to in _PAIRS or to == "tf32"):
        _from_single(emitter, instruction, to, mode)
    elif mode == "rn" and to in _EIGHT and source == "f16x2" and "satfinite" in modifiers:
        d, a = operands(emitter, instruction, 2)
        halves = widen(emitter.builder, read_patterns(emitter, a, source), "f16")
        _write(emitter, d, _narrowed(emitter, instruction, halves, to, mode))
    elif mode == "rn" and to == "f16x2" and source in _EIGHT and "satfinite" not in modifiers:
        d, a = operands(emitter, instruction, 2)
        patterns = emitter.builder.bitcast(emitter.read(a, "b16"), vector(I8, 2 * WARP))
        _write(emitter, d, _narrowed(emitter, instruction, widen(emitter.builder, patterns, _PAIRS[source]), to, mode))
    else:
        raise emitter.unsupported(f"PTX has no such conversion of .{source} to .{to}")


def _from_single(emitter: Emitter, instruction: Instruction, to: str, mode: str) -> None:
    """`cvt.rn.f16x2.f32 d, a, b`: a becomes the high half, b the low one; of `cvt.rs` then random bits. Of one single: `tf32`."""
    if to in _EIGHT and (mode != "rn" or "satfinite" not in instruction.modifiers):
        raise emitter.unsupported("a conversion to 8-bit floats needs .rn.satfinite")
    d, *sources = operands(emitter, instruction, {"tf32": 2}.get(to, 4 if mode == "rs" else 3))
    word = emitter.read(sources.pop(), "b32") if mode == "rs" else None
    values = [emitter.read(x, "f32") for x in sources]
    whole = values[0] if to == "tf32" else emitter.builder.shuffle_vector(values[1], values[0], INTERLEAVED)
    random = random_of_pairs(emitter.builder, word, _PAIRS[to]) if word is not None else None
    _write(emitter, d, _narrowed(emitter, instruction, whole, to, mode, random))


def _narrowed(
    emitter: Emitter, instruction: Instruction, value: Value, to: str, mode: str, random: Value | None = None
) -> Value:
    value = relu(emitter.builder, value) if "relu" in instruction.modifiers else value
    return narrow(emitter.builder, value, _PAIRS.get(to, to), mode, "satfinite" in instruction.modifiers, random)


def _write(emitter: Emitter, destination: Any, value: Value) -> None:
    """Write lanes of 32 bits, or pairs of 16 or 8."""
    if value.type.element == I16:
        write_patterns(emitter, destination, value)
    elif value.type.element == I8:
        emitter.write(destination, emitter.builder.bitcast(value, vector(I16)), "b16")
    else:
        emitter.write(destination, value, "b32")


def _pack_integers(emitter: Emitter, instruction: Instruction) -> None:
    """`cvt.pack.sat.ctype.s32[.b32] d, a, b[, c]`: a above b, each clamped to ctype; c, moved up by both, above them."""
    modifiers = instruction.modifiers
    name = modifiers[2] if len(modifiers) > 2 else ""
    narrow_type = name not in ("u16", "s16")
    known = ("pack", "sat", name, "s32", "b32") if narrow_type else ("pack", "sat", name, "s32")
    if name not in _PACKED_INTEGERS or modifiers != known:
        raise emitter.unsupported("cvt.pack is not recognized")
    d, a, b, *c = operands(emitter, instruction, 4 if narrow_type else 3)
    result = packed_integers(emitter, name, emitter.read(a, "s32"), emitter.read(b, "s32"))
    if c:
        moved = emitter.builder.shl(emitter.read(c[0], "b32"), splat_constant(I32, 2 * int(name[1:])))
        result = emitter.builder.or_(result, moved)
    emitter.write(d, result, "b32")


def packed_integers(emitter: Emitter, name: str, a: Value, b: Value) -> Value:
    """a above b, each clamped to the integer type `name`, in the low bits of i32 lanes."""
    builder, bits = emitter.builder, int(name[1:])
    low, high = integer_range(name)
    fields = []
    for operand in (a, b):
        value = call_same(builder, "smin", operand, splat_constant(I32, high))
        value = call_same(builder, "smax", value, splat_constant(I32, low & 0xFFFFFFFF))
        fields.append(builder.and_(value, splat_constant(I32, (1 << bits) - 1)))
    return builder.or_(builder.shl(fields[0], splat_constant(I32, bits)), fields[1])


# -- `cvt` between numbers: integers and f16, bf16, f32, f64 with rounding and saturation.

_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_SIXTEEN = ("f16", "bf16")
_FLOATS = (*_SIXTEEN, "f32", "f64")
_INTEGERS = frozenset(f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64))
_FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_RANGE = {"f16": 5, "bf16": 8, "f32": 8, "f64": 11}


def cvt(emitter: Emitter, instruction: Instruction) -> None:
    """`cvt` of every type."""
    if "pack" in instruction.modifiers:
        _pack_integers(emitter, instruction)
        return
    kinds = kinds_of(instruction)
    if len(kinds) != 2:
        raise emitter.unsupported("a conversion names two types")
    to, source = kinds
    if not _PACKED.isdisjoint(instruction.modifiers):
        _convert_packed(emitter, instruction, to, source)
        return
    if source not in (*_INTEGERS, *_FLOATS) or to not in (*_INTEGERS, *_FLOATS):
        raise emitter.unsupported(f"a conversion of .{source} to .{to} is not modelled")
    _check(emitter, instruction, to, source)
    d, a = operands(emitter, instruction, 2)
    if source in _FLOATS:
        # 16-bit floats as f32
        value = widen(emitter.builder, emitter.read(a, "b16"), source) if source in _SIXTEEN else emitter.read(a, source)
        value = flush_if(emitter, instruction, source, value)
        result = (float_to_float if to in _FLOATS else float_to_integer)(emitter, instruction, value, to)
    else:
        emit = integer_to_float if to in _FLOATS else integer_to_integer
        result = emit(emitter, instruction, emitter.read(a, source), to, source)
    emitter.write(d, result, f"b{bits_of(to)}" if to in _SIXTEEN else to)


def _check(emitter: Emitter, instruction: Instruction, to: str, source: str) -> None:
    """Which modifiers PTX defines for a pair of types, and where it demands a rounding."""
    modifiers = set(instruction.modifiers)
    rounding = roundings(emitter)
    allow(emitter, instruction, *rounding, *_TO_INTEGRAL, "sat", "ftz", "relu", "satfinite")
    if "ftz" in modifiers and "f32" not in (to, source):
        raise emitter.unsupported("PTX has .ftz for f32 only")
    if modifiers & {"relu", "satfinite"} and (to not in _SIXTEEN or source != "f32" or modifiers & {"sat", "ftz", "rm", "rp"}):
        raise emitter.unsupported("PTX has .relu and .satfinite for conversions from f32 to narrower types, rounded by .rn or .rz")
    if "sat" in modifiers and "bf16" in (to, source):
        raise emitter.unsupported("PTX has no .sat for bf16")
    if to in _FLOATS and modifiers & set(_TO_INTEGRAL) and to != source:
        raise emitter.unsupported("PTX rounds to a whole number between equal types only")
    inexact = to in _FLOATS and (source in _INTEGERS or _FRACTION[to] < _FRACTION[source] or _RANGE[to] < _RANGE[source])
    if inexact and {to, source} != set(_SIXTEEN) and not modifiers & set(rounding):
        raise emitter.unsupported("a conversion that is not exact needs .rn, .rz, .rm or .rp")
    if to in _INTEGERS and modifiers & set(rounding):
        raise emitter.unsupported("PTX rounds a conversion to integer by .rni, .rzi, .rmi or .rpi")
    if to in _INTEGERS and bool(modifiers & set(_TO_INTEGRAL)) != (source in _FLOATS):
        raise emitter.unsupported("a conversion to integer needs .rni, .rzi, .rmi or .rpi if and only if it is from a float")


def _finish(emitter: Emitter, instruction: Instruction, value: Value, to: str) -> Value:
    """From a value in the destination's type (16-bit floats: in f32, not yet rounded) to the result. NaNs are canonical."""
    builder, modifiers = emitter.builder, instruction.modifiers
    value = saturate(emitter, value) if "sat" in modifiers else value
    if to in _SIXTEEN:
        value = relu(builder, value) if "relu" in modifiers else value
        return narrow(builder, value, to, next((m for m in DIRECTED if m in modifiers), "rn"), "satfinite" in modifiers)
    return canonical(emitter, flush_if(emitter, instruction, to, value))


def float_to_float(emitter: Emitter, instruction: Instruction, value: Value, to: str) -> Value:
    """Lanes of f32 or f64 (16-bit floats as f32) in the float type `to`; of one with 16 bits as patterns."""
    builder = emitter.builder
    name = next((_TO_INTEGRAL[m] for m in instruction.modifiers if m in _TO_INTEGRAL), "")
    value = call_same(builder, name, value) if name else value
    have, want = value.type.element, F64 if to == "f64" else F32
    if have == F32 and want == F64:
        value = builder.fpext(value, vector(F64))
    elif have == F64 and want == F32:
        value = to_odd(builder, value) if to in _SIXTEEN else convert(emitter, instruction, "fptrunc", value, vector(F32))
    return _finish(emitter, instruction, value, to)


def integer_to_float(emitter: Emitter, instruction: Instruction, value: Value, to: str, source: str) -> Value:
    """Integers of type `source` in the float type `to`; of one with 16 bits as patterns."""
    if to in _SIXTEEN:
        return _finish(emitter, instruction, integer_to_odd(emitter.builder, value, is_signed(source)), to)
    name = "sitofp" if is_signed(source) else "uitofp"
    return _finish(emitter, instruction, convert(emitter, instruction, name, value, vector(scalar_type(to))), to)


def float_to_integer(emitter: Emitter, instruction: Instruction, value: Value, to: str) -> Value:
    """Out of range clamps. A NaN gives 0, or the top bit alone where source or destination has 64 bits (PTX ISA, cvt)."""
    builder = emitter.builder
    value = call_same(builder, next(_TO_INTEGRAL[m] for m in instruction.modifiers if m in _TO_INTEGRAL), value)
    kind = vector(scalar_type(to))
    name = "fptosi" if is_signed(to) else "fptoui"
    full = f"llvm.{name}.sat.{vector_suffix(kind)}.{vector_suffix(value.type)}"
    result = builder.call(intrinsic(builder.module, full, kind, [value.type]), [value])
    if bits_of(to) == 64 or value.type.element == F64:
        nan = builder.fcmp_unordered("uno", value, value)
        result = builder.select(nan, splat_constant(scalar_type(to), 1 << (bits_of(to) - 1)), result)
    return result


def integer_to_integer(emitter: Emitter, instruction: Instruction, value: Value, to: str, source: str) -> Value:
    """Integers of type `source` in the width of type `to`, with `.sat` clamped to what it can hold."""
    builder = emitter.builder
    have, want = bits_of(source), bits_of(to)
    if "sat" in instruction.modifiers:
        value = _clamped(emitter, value, source, to)
    if want == have:
        return value
    if want < have:
        return builder.trunc(value, vector(ir.IntType(want)))
    return (builder.sext if is_signed(source) else builder.zext)(value, vector(ir.IntType(want)))


def _clamped(emitter: Emitter, value: Value, source: str, to: str) -> Value:
    """Limit lanes of the integer type `source` to what the integer type `to` can hold, where they can exceed it."""
    builder, element = emitter.builder, scalar_type(source)
    (low, high), (source_low, source_high) = integer_range(to), integer_range(source)
    if high < source_high:
        value = call_same(builder, "smin" if is_signed(source) else "umin", value, splat_constant(element, high))
    if source_low < low:
        value = call_same(builder, "smax", value, splat_constant(element, low & ((1 << element.width) - 1)))
    return value
