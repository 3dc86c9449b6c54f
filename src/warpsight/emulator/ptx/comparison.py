"""Comparison, selection and movement: setp, set, selp, slct, and mov with packing."""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    HIGH_HALVES,
    I16,
    I32,
    LOW_HALVES,
    Value,
    bits_of,
    is_float,
    is_signed,
    scalar_type,
    splat_constant,
    vector,
)
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx.common import allow, flush_if, kinds_of, operands, the_type, typed_operands, types_of
from warpsight.emulator.ptx.floating_point import HALF_TYPES, flush_patterns, read_patterns
from warpsight.emulator.ptx.rounding import widen
from warpsight.isa.ptx.constants import vector_lanes
from warpsight.isa.ptx.program import Instruction, Vector

_INTEGER = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_UNORDERED = {"equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">="}
COMPARISONS = (*_INTEGER, *_UNORDERED, "num", "nan")
COMBINE = ("and", "or", "xor")
_UNSIGNED_ONLY = ("lo", "ls", "hi", "hs")
_ONES = {"f32": 0x3F800000, "f16": 0x3C00, "f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}
_SET_TYPES = ("u16", "s16", "u32", "s32", "f32")


def _comparison(instruction: Instruction) -> str:
    return next((m for m in instruction.modifiers if m in COMPARISONS), "")


def _compare(emitter: Emitter, instruction: Instruction, kind: str, a: Value, b: Value) -> Value:
    builder, name = emitter.builder, _comparison(instruction)
    if name in _INTEGER and (kind[0] == "u" or name not in _UNSIGNED_ONLY) and (kind[0] != "b" or name in ("eq", "ne")):
        emit = builder.icmp_signed if is_signed(kind) else builder.icmp_unsigned
        return emit(_INTEGER[name], a, b)
    raise emitter.unsupported(f"a comparison of .{kind} is not recognized")


def compare_floats(emitter: Emitter, instruction: Instruction, a: Value, b: Value) -> Value:
    """The comparison that the instruction names, of float lanes: the plain ones are false with a NaN, those in `u` true."""
    builder, name = emitter.builder, _comparison(instruction)
    if name in ("num", "nan"):
        return builder.fcmp_ordered("ord", a, b) if name == "num" else builder.fcmp_unordered("uno", a, b)
    if name in _UNORDERED:
        return builder.fcmp_unordered(_UNORDERED[name], a, b)
    if name not in _INTEGER or name in _UNSIGNED_ONLY:
        raise emitter.unsupported("a comparison of floats is not recognized")
    return builder.fcmp_ordered(_INTEGER[name], a, b)


def _combined(emitter: Emitter, instruction: Instruction, holds: Value, third: tuple[Any, ...]) -> tuple[Value, Value]:
    """An outcome and its negation, each combined with the predicate `third[0]` if there is one."""
    builder = emitter.builder
    fails = builder.not_(holds)
    name = next((m for m in instruction.modifiers if m in COMBINE), "")
    if bool(name) != bool(third):
        raise emitter.unsupported("a third source requires .and, .or or .xor, and the reverse")
    if not third:
        return holds, fails
    other = emitter.read(third[0], "pred")
    emit = {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[name]
    return emit(holds, other), emit(fails, other)


def _outcomes(emitter: Emitter, instruction: Instruction, kind: str, sources: tuple[Any, ...]) -> list[tuple[Value, Value]]:
    """The comparison and its negation, for each half of a pair, combined with the third source where there is one."""
    builder = emitter.builder
    if kind in HALF_TYPES:
        if "ftz" in instruction.modifiers and HALF_TYPES[kind] == "bf16":
            raise emitter.unsupported("PTX has no .ftz for bf16")
        patterns = (flush_patterns(emitter, instruction, read_patterns(emitter, s, kind), HALF_TYPES[kind]) for s in sources[:2])
        holds = compare_floats(emitter, instruction, *(widen(builder, p, HALF_TYPES[kind]) for p in patterns))
    else:
        if "ftz" in instruction.modifiers and kind != "f32":
            raise emitter.unsupported(f"PTX has no .ftz for .{kind}")
        a, b = (flush_if(emitter, instruction, kind, emitter.read(s, kind)) for s in sources[:2])
        holds = (compare_floats if is_float(kind) else partial(_compare, kind=kind))(emitter, instruction, a=a, b=b)
    lanes = [holds]
    if holds.type.count != WARP:
        lanes = [builder.shuffle_vector(holds, holds, half) for half in (LOW_HALVES, HIGH_HALVES)]
    return [_combined(emitter, instruction, x, sources[2:]) for x in lanes]


def setp(emitter: Emitter, instruction: Instruction) -> None:
    """`setp.op p|q`: q is the negation; of a pair, p is for the low half and q for the high one."""
    allow(emitter, instruction, *COMPARISONS, *COMBINE, "ftz")
    kind = next((m for m in reversed(instruction.modifiers) if m in HALF_TYPES), "") or the_type(emitter, instruction)
    d, *sources = operands(emitter, instruction, 3, 4)
    outcomes = _outcomes(emitter, instruction, kind, tuple(sources))
    first, second = outcomes[0] if len(outcomes) == 1 else (outcomes[0][0], outcomes[1][0])
    emitter.write(d, first, "pred")
    if instruction.pair is not None:
        emitter.write(instruction.pair, second, "pred")


def set_value(emitter: Emitter, instruction: Instruction) -> None:
    """`set.op.dtype.stype`: all ones, or 1.0 where dtype is a float; for each half of a pair."""
    allow(emitter, instruction, *COMPARISONS, *COMBINE, "ftz")
    kinds = kinds_of(instruction)
    if len(kinds) != 2:
        raise emitter.unsupported("set names a destination and a source type")
    to, source = kinds
    d, *sources = operands(emitter, instruction, 3, 4)
    outcomes = [holds for holds, _ in _outcomes(emitter, instruction, source, tuple(sources))]
    builder, pairs = emitter.builder, len(outcomes) == 2
    if to not in (*HALF_TYPES, *_SET_TYPES) or (pairs and to not in (source, "u32", "s32")) or (to.endswith("x2") and not pairs):
        raise emitter.unsupported(f"a comparison of .{source} does not give .{to}")
    element = I16 if pairs else ir.IntType(bits_of(to))
    true = splat_constant(element, _ONES.get(to, (1 << element.width) - 1))
    parts = [builder.select(holds, true, splat_constant(element, 0)) for holds in outcomes]
    if pairs:
        low, high = (builder.zext(part, vector(I32)) for part in parts)
        emitter.write(d, builder.or_(low, builder.shl(high, splat_constant(I32, 16))), "b32")
    else:
        emitter.write(d, parts[0], to if to not in HALF_TYPES and to != "f32" else f"b{element.width}")


def selp(emitter: Emitter, instruction: Instruction) -> None:
    """`selp d, a, b, p`: a where p holds, else b."""
    kind, d, a, b, p = typed_operands(emitter, instruction, 4)
    chosen = emitter.builder.select(emitter.read(p, "pred"), emitter.read(a, kind), emitter.read(b, kind))
    emitter.write(d, chosen, kind)


def slct(emitter: Emitter, instruction: Instruction) -> None:
    """`slct.dtype.ctype d, a, b, c`: a where c >= 0."""
    allow(emitter, instruction, "ftz")
    kinds = types_of(emitter, instruction)
    if len(kinds) != 2 or kinds[1] not in ("s32", "f32") or (kinds[1] == "s32" and "ftz" in instruction.modifiers):
        raise emitter.unsupported("slct compares .s32 or .f32, and .ftz requires .f32")
    d, a, b, c = operands(emitter, instruction, 4)
    builder = emitter.builder
    key = flush_if(emitter, instruction, kinds[-1], emitter.read(c, kinds[-1]))
    if kinds[-1] == "f32":
        holds = builder.fcmp_ordered(">=", key, splat_constant(scalar_type("f32"), 0.0))
    else:
        holds = builder.icmp_signed(">=", key, splat_constant(I32, 0))
    emitter.write(d, builder.select(holds, emitter.read(a, kinds[0]), emitter.read(b, kinds[0])), kinds[0])


# -- Moving data between registers: mov with packing.

def mov(emitter: Emitter, instruction: Instruction) -> None:
    """`mov`, with packing and unpacking of vectors."""
    allow(emitter, instruction, "v2", "v4")
    kind = "b128" if kinds_of(instruction) == ["b128"] else the_type(emitter, instruction)
    d, a = operands(emitter, instruction, 2)
    if {"v2", "v4"} & {*instruction.modifiers}:
        _elementwise(emitter, d, a, kind, instruction.modifiers)
    elif isinstance(a, Vector):
        _pack(emitter, d, a, kind)
    elif isinstance(d, Vector):
        _unpack(emitter, d, a, kind)
    else:
        emitter.write(d, emitter.read(a, kind), kind)


def _elementwise(emitter: Emitter, d: Any, a: Any, kind: str, modifiers: tuple[str, ...]) -> None:
    """`mov.v4.f32 {a, b, c, d}, V`: every source is read before the first destination is written."""
    lanes = vector_lanes(modifiers)
    if not (isinstance(d, Vector) and isinstance(a, Vector) and len(d.elements) == len(a.elements) == lanes):
        raise emitter.unsupported("both its operands must be vectors of that many elements")
    for target, value in zip(d.elements, [emitter.read(source, kind) for source in a.elements], strict=True):
        emitter.write(target, value, kind)


def _pack(emitter: Emitter, d: Any, parts: Vector, kind: str) -> None:
    """`mov.b64 d, {lo, hi}`."""
    builder, element = emitter.builder, ir.IntType(bits_of(kind))
    size = element.width // len(parts.elements)
    total = splat_constant(element, 0)
    for k, part in enumerate(parts.elements):
        piece = builder.zext(emitter.read(part, f"b{size}"), vector(element))
        total = builder.or_(total, builder.shl(piece, splat_constant(element, k * size)))
    emitter.write(d, total, f"b{element.width}")


def _unpack(emitter: Emitter, parts: Vector, a: Any, kind: str) -> None:
    """`mov.b64 {lo, hi}, a`."""
    builder, element = emitter.builder, ir.IntType(bits_of(kind))
    size = element.width // len(parts.elements)
    value = emitter.read(a, f"b{element.width}")
    for k, part in enumerate(parts.elements):
        piece = builder.trunc(builder.lshr(value, splat_constant(element, k * size)), vector(ir.IntType(size)))
        emitter.write(part, piece, f"b{size}")
