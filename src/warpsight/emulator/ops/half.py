"""Half precision: arithmetic and comparison of f16, and of f16x2, which is two of them in a 32-bit register.

Computed in wider types that make one rounding to half exact: single for sums and products, double for fused multiply-add (the exact
sum has a tie in half precision only where double holds all of it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import F16, F32, F64, I16, I32, Value, call_same, is_float, scalar_type, splat_constant, vector
from warpsight.emulator.ops.common import allow, operands, saturate
from warpsight.emulator.ops.comparison import COMBINE, COMPARISONS, combined, compare_floats
from warpsight.emulator.ops.rounding import double_to_half
from warpsight.isa.program import Instruction, Operand

Handler = Callable[[Emitter, Instruction], None]

_ARITHMETIC = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "neg": 1, "abs": 1, "min": 2, "max": 2, "ex2": 1, "tanh": 1}


def concerns(instruction: Instruction) -> bool:
    """Is it one of this module's opcodes, on half precision?"""
    named = [m for m in instruction.modifiers if m in ("f16", "f16x2")]
    return bool(named) and (
        instruction.opcode in (*_ARITHMETIC, "setp", "set") or (instruction.opcode == "cvt" and named == ["f16x2"])
    )


def or_else(handler: Handler) -> Handler:
    """A handler that leaves all types but half precision to `handler`."""

    def emit(emitter: Emitter, instruction: Instruction) -> None:
        (_HANDLERS.get(instruction.opcode, _arithmetic) if concerns(instruction) else handler)(emitter, instruction)

    return emit


@dataclass(frozen=True)
class _Halves:
    """One value per lane (f16) or two (f16x2, the low half first), as lanes of half."""

    parts: tuple[Value, ...]

    @classmethod
    def read(cls, emitter: Emitter, instruction: Instruction, operand: Operand) -> _Halves:
        """An operand; `.ftz` takes its denormals to zero."""
        builder = emitter.builder
        if "f16x2" in instruction.modifiers:
            whole = emitter.read(operand, "b32")
            high = builder.lshr(whole, splat_constant(I32, 16))
            parts = [builder.bitcast(builder.trunc(x, vector(I16)), vector(F16)) for x in (whole, high)]
        else:
            parts = [emitter.read(operand, "f16")]
        return cls(tuple(_flushed(emitter, instruction, p) for p in parts))

    def write(self, emitter: Emitter, destination: Operand) -> None:
        """Pack and write."""
        builder = emitter.builder
        if len(self.parts) == 1:
            emitter.write(destination, self.parts[0], "f16")
            return
        low, high = (builder.zext(builder.bitcast(p, vector(I16)), vector(I32)) for p in self.parts)
        emitter.write(destination, builder.or_(low, builder.shl(high, splat_constant(I32, 16))), "b32")


def _flushed(emitter: Emitter, instruction: Instruction, value: Value) -> Value:
    if "ftz" not in instruction.modifiers:
        return value
    builder = emitter.builder
    bits = builder.bitcast(value, vector(I16))
    tiny = builder.icmp_signed("==", builder.and_(bits, splat_constant(I16, 0x7C00)), splat_constant(I16, 0))
    return builder.bitcast(builder.select(tiny, builder.and_(bits, splat_constant(I16, 0x8000)), bits), vector(F16))


def _arithmetic(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction, "rn", "ftz", "sat", "NaN", "approx")
    d, *sources = operands(emitter, instruction, 1 + _ARITHMETIC[instruction.opcode])
    values = [_Halves.read(emitter, instruction, s) for s in sources]
    results = []
    for parts in zip(*(v.parts for v in values), strict=True):
        value = _flushed(emitter, instruction, _one(emitter, instruction, parts))
        results.append(saturate(emitter, value) if "sat" in instruction.modifiers else value)
    replace(values[0], parts=tuple(results)).write(emitter, d)


def _one(emitter: Emitter, instruction: Instruction, parts: tuple[Value, ...]) -> Value:
    """One operation on lanes of half."""
    builder, opcode = emitter.builder, instruction.opcode
    if opcode in ("neg", "abs"):  # of the sign bit alone, also of a NaN
        bits = builder.bitcast(parts[0], vector(I16))
        changed = (
            builder.xor(bits, splat_constant(I16, 0x8000)) if opcode == "neg" else builder.and_(bits, splat_constant(I16, 0x7FFF))
        )
        return builder.bitcast(changed, vector(F16))
    wide = [builder.fpext(p, vector(F64 if opcode == "fma" else F32)) for p in parts]
    if opcode in ("add", "sub", "mul"):
        value = getattr(builder, f"f{opcode}")(*wide)
    elif opcode in ("min", "max"):
        value = call_same(builder, opcode + ("imum" if "NaN" in instruction.modifiers else "imumnum"), *wide)
    else:
        value = call_same(builder, {"ex2": "exp2"}.get(opcode, opcode), *wide)
    return double_to_half(emitter, value) if opcode == "fma" else builder.fptrunc(value, vector(F16))


def _outcomes(emitter: Emitter, instruction: Instruction, sources: tuple[Operand, ...]) -> list[tuple[Value, Value]]:
    """For each half the comparison and its negation, combined with a third source where there is one."""
    a, b = (_Halves.read(emitter, instruction, s) for s in sources[:2])
    outcomes = []
    for parts in zip(a.parts, b.parts, strict=True):
        wide = [emitter.builder.fpext(p, vector(F32)) for p in parts]
        outcomes.append(combined(emitter, instruction, compare_floats(emitter, instruction, *wide), sources[2:]))
    return outcomes


def _setp(emitter: Emitter, instruction: Instruction) -> None:
    """`setp.op.f16 p|q`: q is the negation; `setp.op.f16x2 p|q`: p for the low half, q for the high one."""
    allow(emitter, instruction, *COMPARISONS, *COMBINE, "ftz")
    d, *sources = operands(emitter, instruction, 3, 4)
    outcomes = _outcomes(emitter, instruction, tuple(sources))
    first, second = outcomes[0] if len(outcomes) == 1 else (outcomes[0][0], outcomes[1][0])
    emitter.write(d, first, "pred")
    if instruction.pair is not None:
        emitter.write(instruction.pair, second, "pred")


def _set(emitter: Emitter, instruction: Instruction) -> None:
    """`set.op.dtype.stype`: per half all ones, or 1.0 where dtype is f16 or f16x2; f32 and 32-bit integers from f16 alone."""
    allow(emitter, instruction, *COMPARISONS, *COMBINE, "ftz")
    kinds = [m for m in instruction.modifiers if m not in (*COMPARISONS, *COMBINE, "ftz")]
    d, *sources = operands(emitter, instruction, 3, 4)
    builder = emitter.builder
    outcomes = [holds for holds, _ in _outcomes(emitter, instruction, tuple(sources))]
    target = kinds[0]
    if target == "f16x2" or (len(outcomes) == 1 and is_float(target)):
        element = F16 if target == "f16x2" else scalar_type(target)
        values = [builder.uitofp(holds, vector(element)) for holds in outcomes]
        if element != F16:
            emitter.write(d, values[0], target)
        else:
            _Halves(tuple(values)).write(emitter, d)
    elif len(outcomes) == 2:
        low, high = (builder.zext(builder.sext(holds, vector(I16)), vector(I32)) for holds in outcomes)
        emitter.write(d, builder.or_(low, builder.shl(high, splat_constant(I32, 16))), "b32")
    else:
        emitter.write(d, builder.sext(outcomes[0], vector(scalar_type(target))), target)


def _cvt(emitter: Emitter, instruction: Instruction) -> None:
    """`cvt.rn.f16x2.f32 d, a, b`: a becomes the high half, b the low one."""
    allow(emitter, instruction, "rn")
    if instruction.modifiers != ("rn", "f16x2", "f32"):
        raise emitter.unsupported("only pairs of f32 are converted to f16x2")
    d, high, low = operands(emitter, instruction, 3)
    parts = tuple(emitter.builder.fptrunc(emitter.read(x, "f32"), vector(F16)) for x in (low, high))
    _Halves(parts).write(emitter, d)


_HANDLERS: dict[str, Handler] = {"setp": _setp, "set": _set, "cvt": _cvt}
OPCODES = (*_ARITHMETIC, *_HANDLERS)
