"""Comparisons and selection: setp, set, selp, slct."""

from __future__ import annotations

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I32, Value, is_float, is_signed, scalar_type, splat_constant, vector
from warpsight.emulator.ops.common import allow, flush_if, operands, the_type, types_of
from warpsight.isa.program import Instruction

_INTEGER = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_UNORDERED = {"equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">="}
COMPARISONS = (*_INTEGER, *_UNORDERED, "num", "nan")
COMBINE = ("and", "or", "xor")


def _compare(emitter: Emitter, instruction: Instruction, kind: str, a: Value, b: Value) -> Value:
    builder = emitter.builder
    name = next((m for m in instruction.modifiers if m in COMPARISONS), "")
    if is_float(kind):
        return compare_floats(emitter, instruction, a, b)
    if name in _INTEGER:
        emit = builder.icmp_signed if is_signed(kind) else builder.icmp_unsigned
        return emit(_INTEGER[name], a, b)
    raise emitter.unsupported(f"comparison of .{kind} is not understood")


def compare_floats(emitter: Emitter, instruction: Instruction, a: Value, b: Value) -> Value:
    """The comparison that the instruction names, of float lanes: the plain ones are false with a NaN, those in `u` true."""
    builder = emitter.builder
    name = next((m for m in instruction.modifiers if m in COMPARISONS), "")
    if name in ("num", "nan"):
        return builder.fcmp_ordered("ord", a, b) if name == "num" else builder.fcmp_unordered("uno", a, b)
    if name in _UNORDERED:
        return builder.fcmp_unordered(_UNORDERED[name], a, b)
    if name not in _INTEGER or name in ("lo", "ls", "hi", "hs"):
        raise emitter.unsupported("a comparison of floats is not understood")
    return builder.fcmp_ordered(_INTEGER[name], a, b)


def combined(emitter: Emitter, instruction: Instruction, holds: Value, third: tuple[object, ...]) -> tuple[Value, Value]:
    """An outcome and its negation, each combined with the predicate `third[0]` if there is one."""
    builder = emitter.builder
    fails = builder.not_(holds)
    if not third:
        return holds, fails
    other = emitter.read(third[0], "pred")  # type: ignore[arg-type]
    name = next((m for m in instruction.modifiers if m in COMBINE), "")
    if not name:
        raise emitter.unsupported("a third source needs .and, .or or .xor")
    emit = {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[name]
    return emit(holds, other), emit(fails, other)


def _outcome(emitter: Emitter, instruction: Instruction, kind: str, sources: tuple[object, ...]) -> tuple[Value, Value]:
    """The comparison and its negation, each combined with the third source where there is one."""
    a, b = (flush_if(emitter, instruction, kind, emitter.read(s, kind)) for s in sources[:2])  # type: ignore[arg-type]
    return combined(emitter, instruction, _compare(emitter, instruction, kind, a, b), sources[2:])


def _setp(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction, *COMPARISONS, *COMBINE, "ftz")
    kind = the_type(emitter, instruction)
    d, *sources = operands(emitter, instruction, 3, 4)
    holds, fails = _outcome(emitter, instruction, kind, tuple(sources))
    emitter.write(d, holds, "pred")
    if instruction.pair is not None:
        emitter.write(instruction.pair, fails, "pred")


def _set(emitter: Emitter, instruction: Instruction) -> None:
    """`set.op.dtype.stype`: all ones (1.0 for f32) where it holds."""
    allow(emitter, instruction, *COMPARISONS, *COMBINE, "ftz")
    kinds = types_of(emitter, instruction)
    if len(kinds) != 2:
        raise emitter.unsupported("set names a destination and a source type")
    d, *sources = operands(emitter, instruction, 3, 4)
    holds, _ = _outcome(emitter, instruction, kinds[1], tuple(sources))
    builder, element = emitter.builder, scalar_type(kinds[0])
    if is_float(kinds[0]):
        emitter.write(d, builder.uitofp(holds, vector(element)), kinds[0])
    else:
        emitter.write(d, builder.sext(holds, vector(element)), kinds[0])


def _selp(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction)
    kind = the_type(emitter, instruction)
    d, a, b, p = operands(emitter, instruction, 4)
    chosen = emitter.builder.select(emitter.read(p, "pred"), emitter.read(a, kind), emitter.read(b, kind))
    emitter.write(d, chosen, kind)


def _slct(emitter: Emitter, instruction: Instruction) -> None:
    """`slct.dtype.ctype d, a, b, c`: a where c >= 0."""
    allow(emitter, instruction, "ftz")
    kinds = types_of(emitter, instruction)
    d, a, b, c = operands(emitter, instruction, 4)
    builder = emitter.builder
    key = flush_if(emitter, instruction, kinds[-1], emitter.read(c, kinds[-1]))
    if kinds[-1] == "f32":
        holds = builder.fcmp_ordered(">=", key, splat_constant(scalar_type("f32"), 0.0))
    else:
        holds = builder.icmp_signed(">=", key, splat_constant(I32, 0))
    emitter.write(d, builder.select(holds, emitter.read(a, kinds[0]), emitter.read(b, kinds[0])), kinds[0])


HANDLERS = {"setp": _setp, "set": _set, "selp": _selp, "slct": _slct}
