"""Arithmetic, comparison, minimum and maximum of pairs of 16-bit floats (f16, with `.BF16_V2` bf16) in machine code.

Every operation is on the two halves of a register. A source may take one of its halves for both (`.H0_H0` the low one, `.H1_H1` the
high one), and has its own sign. The arithmetic is that of PTX's f16x2 and bf16x2: one rounding, and NaNs become 0x7FFF.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    HIGH_HALVES,
    I16,
    I32,
    LOW_HALVES,
    Value,
    splat_constant,
    vector,
)
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx.common import canonical, extreme, saturate
from warpsight.emulator.ptx.comparison import COMBINE, COMPARISONS, compare_floats
from warpsight.emulator.ptx.floating_point import flush_patterns, rounded_half
from warpsight.emulator.ptx.rounding import narrow, same, widen
from warpsight.emulator.sass.common import allow, native_of, predicate, raw, set_predicate, set_word, single
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import (
    TRUE_PREDICATES,
    NativeConstant,
    NativeImmediate,
    NativeInstruction,
    NativeOperand,
    NativeRegister,
    is_predicate,
)

_PAIRS = vector(I16, 2 * WARP)
_BOTH = {
    "H0_H0": ir.Constant(vector(I32, 2 * WARP), [2 * (k // 2) for k in range(2 * WARP)]),
    "H1_H1": ir.Constant(vector(I32, 2 * WARP), [2 * (k // 2) + 1 for k in range(2 * WARP)]),
}
_TWICE = ir.Constant(vector(I32, 2 * WARP), [k // 2 for k in range(2 * WARP)])
_ONES = {"f16": 0x3C00, "bf16": 0x3F80}
_ALL = 0xFFFF


def in_ptx(instruction: Instruction, opcode: str, *modifiers: str) -> Instruction:
    """The instruction under a name of PTX, for functions of `emulator/ptx` that ask what it says."""
    return replace(instruction, opcode=opcode, modifiers=modifiers)


# -- Operands.


def without_part(emitter: Emitter, operand: NativeOperand) -> NativeOperand:
    """An operand that must be all of its register."""
    if isinstance(operand, NativeRegister | NativeConstant) and operand.part:
        raise emitter.unsupported(f"a part .{operand.part} of this operand is not modelled")
    return operand


def signed_patterns(emitter: Emitter, operand: NativeOperand, value: Value) -> Value:
    """Patterns of 16-bit floats with the sign that an operand has."""
    builder = emitter.builder
    if isinstance(operand, NativeRegister | NativeConstant):
        if operand.inverted:
            raise emitter.unsupported("a 16-bit float has no bitwise inverse")
        if operand.absolute:
            value = builder.and_(value, same(value, 0x7FFF))
        if operand.negative:
            value = builder.xor(value, same(value, 0x8000))
    return value


def _patterns(emitter: Emitter, operand: NativeOperand) -> Value:
    """Both halves of a source: 64 lanes of i16, the low half of a register first."""
    builder = emitter.builder
    if isinstance(operand, NativeImmediate):  # one text for each half; the encoding has both
        return builder.bitcast(splat_constant(I32, operand.bits), _PAIRS)
    if not isinstance(operand, NativeRegister | NativeConstant):
        raise emitter.unsupported(f"operand {operand!r} is not recognized here")
    if operand.part == "F32":  # of sm_75: a single, cut off to a half, for both halves
        half = narrow(builder, single(emitter, operand), "f16", "rz")
        return builder.shuffle_vector(half, half, _TWICE)
    value = builder.bitcast(raw(emitter, operand), _PAIRS)
    if operand.part in _BOTH:
        value = builder.shuffle_vector(value, value, _BOTH[operand.part])
    elif operand.part:
        raise emitter.unsupported(f"its operand part .{operand.part} is not modelled")
    return signed_patterns(emitter, operand, value)


def _sources(emitter: Emitter, operands: Sequence[NativeOperand], count: int) -> list[NativeOperand]:
    """The sources, a pair of immediates as the first of them."""
    found: list[NativeOperand] = []
    pending = False
    for operand in operands:
        pending = isinstance(operand, NativeImmediate) and not pending
        if pending or not isinstance(operand, NativeImmediate):
            found.append(operand)
    if len(found) != count or pending:
        raise emitter.unsupported(f"it has other operands than {count} pairs of 16-bit floats")
    return found


def _format(native: NativeInstruction) -> str:
    return "bf16" if "BF16_V2" in native.modifiers else "f16"


def _words(emitter: Emitter, native: NativeInstruction, *known: str) -> tuple[str, ...]:
    """The modifiers in PTX's words; refuses others than `known`. `.MMA` says which unit computes."""
    allow(emitter, native, "MMA", "BF16_V2", *known)
    if _format(native) == "bf16" and {"FTZ", "SAT"} & set(native.modifiers):
        raise emitter.unsupported("there is no .FTZ and no .SAT for bf16")
    names = {"FTZ": "ftz", "SAT": "sat", "RELU": "relu", "NAN": "NaN"}
    return tuple(names[m] for m in native.modifiers if m in names)


def _write(emitter: Emitter, target: NativeOperand, patterns: Value) -> None:
    set_word(emitter, without_part(emitter, target), emitter.builder.bitcast(patterns, vector(I32)))


# -- Arithmetic.


def _arithmetic(emitter: Emitter, instruction: Instruction, opcode: str, count: int) -> None:
    native = native_of(instruction)
    ptx = in_ptx(instruction, opcode, *_words(emitter, native, "FTZ", "SAT", "RELU"))
    name = _format(native)
    target, *rest = native.operands
    patterns = [flush_patterns(emitter, ptx, _patterns(emitter, x), name) for x in _sources(emitter, rest, count)]
    result = rounded_half(emitter, ptx, [widen(emitter.builder, p, name) for p in patterns], name)
    _write(emitter, target, flush_patterns(emitter, ptx, result, name))


def hadd2(emitter: Emitter, instruction: Instruction) -> None:
    """`HADD2`: sums. With `.F32` of one half each, as a single."""
    if "F32" in native_of(instruction).modifiers:
        _sum_in_single(emitter, instruction)
    else:
        _arithmetic(emitter, instruction, "add", 2)


hadd2_32i = hadd2


def hmul2(emitter: Emitter, instruction: Instruction) -> None:
    """`HMUL2`: products."""
    _arithmetic(emitter, instruction, "mul", 2)


hmul2_32i = hmul2


def hfma2(emitter: Emitter, instruction: Instruction) -> None:
    """`HFMA2`, `HFMA2.MMA`: fused multiply-adds. `HFMA2.MMA R0, -RZ, RZ, a, b` loads a constant of 32 bits, a in the high half."""
    _arithmetic(emitter, instruction, "fma", 3)


hfma2_32i = hfma2


def _sum_in_single(emitter: Emitter, instruction: Instruction) -> None:
    native = native_of(instruction)
    allow(emitter, native, "F32", "SAT")
    builder = emitter.builder
    target, *rest = native.operands
    values = []
    for operand in _sources(emitter, rest, 2):
        zero = isinstance(operand, NativeRegister) and operand.name in ("RZ", "URZ")
        if not zero and not (isinstance(operand, NativeRegister | NativeConstant) and operand.part in _BOTH):
            raise emitter.unsupported("it does not say of which halves the sum is")
        pair = _patterns(emitter, operand)
        values.append(widen(builder, builder.shuffle_vector(pair, pair, LOW_HALVES), "f16"))
    total = builder.fadd(*values)
    total = saturate(emitter, total) if "SAT" in native.modifiers else total
    set_word(emitter, without_part(emitter, target), canonical(emitter, total))


# -- Minimum, maximum and comparison.


def hmnmx2(emitter: Emitter, instruction: Instruction) -> None:
    """`HMNMX2 d, a, b, p`: the minimum where p holds, else the maximum; `VHMNMX d, a, b, c, p`: of three. `.XORSIGN`: of
    magnitudes, the signs multiplied.
    """
    native = native_of(instruction)
    words = _words(emitter, native, "FTZ", "NAN", "XORSIGN")
    builder, name = emitter.builder, _format(native)
    target, *rest, choice = native.operands
    operands = _sources(emitter, rest, 3 if native.base == "VHMNMX" else 2)
    if "XORSIGN" in native.modifiers:
        operands = [whole_sign(emitter, operand, _SIGNS) for operand in operands]
        words += ("xorsign", "abs")
    patterns = [flush_patterns(emitter, in_ptx(instruction, "min", *words), _patterns(emitter, x), name) for x in operands]
    wide = [widen(builder, p, name) for p in patterns]

    def chosen(opcode: str) -> Value:
        ptx = in_ptx(instruction, opcode, *words)
        found = reduce(lambda first, second: extreme(emitter, ptx, first, second), wide)
        return flush_patterns(emitter, ptx, narrow(builder, found, name), name)

    holds = predicate(emitter, choice)
    if isinstance(choice, NativeRegister) and choice.name in TRUE_PREDICATES:
        _write(emitter, target, chosen("max" if choice.inverted else "min"))
    else:
        _write(emitter, target, builder.select(builder.shuffle_vector(holds, holds, _TWICE), chosen("min"), chosen("max")))


vhmnmx = hmnmx2
_SIGNS = 0x8000_8000  # of a pair


def whole_sign(emitter: Emitter, operand: NativeOperand, signs: int) -> NativeOperand:
    """A source of `.XORSIGN`, which is listed as a magnitude, with its sign; or a number, none of whose bits `signs` is set."""
    if isinstance(operand, NativeRegister | NativeConstant) and operand.absolute and not operand.negative:
        return replace(operand, absolute=False)
    if isinstance(operand, NativeImmediate) and not operand.bits & signs:
        return operand
    raise emitter.unsupported(".XORSIGN is modelled of magnitudes and of numbers that are not negative")


def _outcomes(emitter: Emitter, instruction: Instruction, operands: Sequence[NativeOperand], *known: str) -> list[Value]:
    """Of the low and the high halves: whether the comparison holds, combined with the predicate that is the last of `operands`."""
    native = native_of(instruction)
    comparisons = [m for m in native.modifiers if m.lower() in COMPARISONS and m not in known]
    combine = [m for m in native.modifiers if m.lower() in COMBINE]
    words = _words(emitter, native, "FTZ", *comparisons, *combine, *known)
    if len(comparisons) != 1 or len(combine) != 1:
        raise emitter.unsupported("it does not name one comparison and how it is combined")
    builder, name = emitter.builder, _format(native)
    ptx = in_ptx(instruction, "setp", comparisons[0].lower(), *(w for w in words if w == "ftz"))
    *rest, other = operands
    patterns = [flush_patterns(emitter, ptx, _patterns(emitter, x), name) for x in _sources(emitter, rest, 2)]
    holds = compare_floats(emitter, ptx, *(widen(builder, p, name) for p in patterns))
    emit = {"AND": builder.and_, "OR": builder.or_, "XOR": builder.xor}[combine[0]]
    third = predicate(emitter, other)
    return [emit(builder.shuffle_vector(holds, holds, half), third) for half in (LOW_HALVES, HIGH_HALVES)]


def hsetp2(emitter: Emitter, instruction: Instruction) -> None:
    """`HSETP2.op.combine p, q, a, b, r`: p is for the low halves and q for the high ones."""
    low, high, *rest = native_of(instruction).operands
    if not is_predicate(high):
        raise emitter.unsupported("it has one predicate as its result")
    for target, value in zip((low, high), _outcomes(emitter, instruction, rest), strict=True):
        set_predicate(emitter, target, value)


def hset2(emitter: Emitter, instruction: Instruction) -> None:
    """`HSET2.op.combine d, a, b, r`: all ones for each half, with `.BF` 1.0, where the comparison holds, else zero."""
    native, builder = native_of(instruction), emitter.builder
    target, *rest = native.operands
    true = _ONES[_format(native)] if "BF" in native.modifiers else _ALL
    low, high = _outcomes(emitter, instruction, rest, "BF")
    zero = splat_constant(I32, 0)
    upper = builder.select(high, splat_constant(I32, true << 16), zero)
    set_word(emitter, without_part(emitter, target), builder.or_(builder.select(low, splat_constant(I32, true), zero), upper))


# -- One half, for conversions.


def half_as_single(emitter: Emitter, operand: NativeOperand, name: str) -> Value:
    """The half of an operand that its part names (`.H1` the high one), in the 16-bit format `name`, as lanes of f32."""
    builder = emitter.builder
    if not isinstance(operand, NativeRegister | NativeConstant) or operand.part not in ("", "H0", "H1", "H0_H0", "H1_H1"):
        raise emitter.unsupported(f"operand {operand!r} is not one half")
    value = raw(emitter, operand)
    if operand.part.startswith("H1"):
        value = builder.lshr(value, splat_constant(I32, 16))
    return widen(builder, signed_patterns(emitter, operand, builder.trunc(value, vector(I16))), name)
