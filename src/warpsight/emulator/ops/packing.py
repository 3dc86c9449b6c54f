"""`cvt` that packs or unpacks: pairs of f16, bf16 and 8-bit floats, `tf32`, and `cvt.pack` of integers."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I8, I16, I32, Value, call_same, splat_constant, vector
from warpsight.emulator.layout import WARP
from warpsight.emulator.ops.common import allow, kinds_of, operands
from warpsight.emulator.ops.half import read_patterns, write_patterns
from warpsight.emulator.ops.narrow import narrow, relu, widen
from warpsight.isa.program import Instruction

_PAIRS = {"f16x2": "f16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2"}
_EIGHT = ("e4m3x2", "e5m2x2")
_INTERLEAVED = ir.Constant(ir.VectorType(I32, 2 * WARP), [WARP * (k % 2) + k // 2 for k in range(2 * WARP)])
_PACKED_INTEGERS = ("u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16")


def is_packed(instruction: Instruction) -> bool:
    """Does a conversion concern this module?"""
    words = instruction.modifiers
    return "pack" in words or "tf32" in words or any(m in _PAIRS for m in words)


def convert_packed(emitter: Emitter, instruction: Instruction) -> None:
    """Emit it."""
    if "pack" in instruction.modifiers:
        _pack_integers(emitter, instruction)
        return
    kinds = kinds_of(instruction)
    if len(kinds) != 2:
        raise emitter.unsupported("a conversion names two types")
    to, source = kinds
    words = set(instruction.modifiers)
    allow(emitter, instruction, "rn", "rz", "rna", "relu", "satfinite")
    mode = next((m for m in ("rn", "rz", "rna") if m in words), "")
    if not mode or (mode == "rna") > (to == "tf32") or (mode == "rna" and "relu" in words):
        raise emitter.unsupported("its rounding is none that PTX has here")
    if source == "f32" and (to in _PAIRS or to == "tf32"):
        _from_single(emitter, instruction, to, mode)
    elif mode == "rn" and to in _EIGHT and source == "f16x2" and "satfinite" in words:
        d, a = operands(emitter, instruction, 2)
        _write(
            emitter, d, _narrowed(emitter, instruction, widen(emitter.builder, read_patterns(emitter, a, source), "f16"), to, mode)
        )
    elif mode == "rn" and to == "f16x2" and source in _EIGHT and "satfinite" not in words:
        d, a = operands(emitter, instruction, 2)
        patterns = emitter.builder.bitcast(emitter.read(a, "b16"), ir.VectorType(I8, 2 * WARP))
        _write(emitter, d, _narrowed(emitter, instruction, widen(emitter.builder, patterns, _PAIRS[source]), to, mode))
    else:
        raise emitter.unsupported(f"PTX has no such conversion of .{source} to .{to}")


def _from_single(emitter: Emitter, instruction: Instruction, to: str, mode: str) -> None:
    """`cvt.rn.f16x2.f32 d, a, b`: a becomes the high half, b the low one. Of one single: `tf32`."""
    if to in _EIGHT and (mode != "rn" or "satfinite" not in instruction.modifiers):
        raise emitter.unsupported("a conversion to 8-bit floats needs .rn.satfinite")
    d, *sources = operands(emitter, instruction, 2 if to == "tf32" else 3)
    values = [emitter.read(x, "f32") for x in sources]
    whole = values[0] if to == "tf32" else emitter.builder.shuffle_vector(values[1], values[0], _INTERLEAVED)
    _write(emitter, d, _narrowed(emitter, instruction, whole, to, mode))


def _narrowed(emitter: Emitter, instruction: Instruction, value: Value, to: str, mode: str) -> Value:
    if "relu" in instruction.modifiers:
        value = relu(emitter.builder, value)
    return narrow(emitter.builder, value, _PAIRS.get(to, to), mode, "satfinite" in instruction.modifiers)


def _write(emitter: Emitter, destination: object, value: Value) -> None:
    """Write lanes of 32 bits, or pairs of 16 or 8."""
    if value.type.element == I16:
        write_patterns(emitter, destination, value)  # type: ignore[arg-type]
    elif value.type.element == I8:
        emitter.write(destination, emitter.builder.bitcast(value, vector(I16)), "b16")  # type: ignore[arg-type]
    else:
        emitter.write(destination, value, "b32")  # type: ignore[arg-type]


def _pack_integers(emitter: Emitter, instruction: Instruction) -> None:
    """`cvt.pack.sat.ctype.s32[.b32] d, a, b[, c]`: a above b, each clamped to ctype; c, moved up by both, above them."""
    words = instruction.modifiers
    name = words[2] if len(words) > 2 else ""
    narrow_type = name not in ("u16", "s16")
    if words[:2] != ("pack", "sat") or name not in _PACKED_INTEGERS or words[3:] != (("s32", "b32") if narrow_type else ("s32",)):
        raise emitter.unsupported("cvt.pack is not understood")
    d, a, b, *c = operands(emitter, instruction, 4 if narrow_type else 3)
    builder, bits = emitter.builder, int(name[1:])
    high = (1 << (bits - 1)) - 1 if name[0] == "s" else (1 << bits) - 1
    low = -(1 << (bits - 1)) if name[0] == "s" else 0
    fields = []
    for operand in (a, b):
        value = call_same(builder, "smin", emitter.read(operand, "s32"), splat_constant(I32, high))
        value = call_same(builder, "smax", value, splat_constant(I32, low & 0xFFFFFFFF))
        fields.append(builder.and_(value, splat_constant(I32, (1 << bits) - 1)))
    result = builder.or_(builder.shl(fields[0], splat_constant(I32, bits)), fields[1])
    if c:
        result = builder.or_(result, builder.shl(emitter.read(c[0], "b32"), splat_constant(I32, 2 * bits)))
    emitter.write(d, result, "b32")
