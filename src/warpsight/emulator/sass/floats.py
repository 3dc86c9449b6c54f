"""Floating-point arithmetic of f32 and f64 in machine code: sums, products, minimum and maximum, comparison, selection, and the
special function unit.

An opcode takes magnitudes and signs of its operands before anything else, then with `.FTZ` flushes denormals. Rounding, saturation
and NaNs are those of the PTX instructions that become these opcodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import F32, F64, I1, I32, I64, Value, splat_constant, vector
from warpsight.emulator.ptx.approximations import coarse, unit
from warpsight.emulator.ptx.common import call_math, extreme, flush
from warpsight.emulator.ptx.comparison import COMBINE, COMPARISONS, compare_floats
from warpsight.emulator.ptx.floating_point import finish_sum, flush_patterns
from warpsight.emulator.ptx.rounding import compute, convert, narrow, widen
from warpsight.emulator.sass.common import (
    allow,
    double,
    join,
    native_of,
    predicate,
    set_predicate,
    set_wide,
    set_word,
    single,
)
from warpsight.emulator.sass.half import half_as_single, in_ptx, whole_sign
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import (
    TRUE_PREDICATES,
    NativeConstant,
    NativeInstruction,
    NativeOperand,
    NativeRegister,
    is_predicate,
)

_ROUNDINGS = ("RN", "RM", "RP", "RZ")


# -- Operands.


def _is_wide(native: NativeInstruction) -> bool:
    """Whether an opcode is of doubles."""
    return native.base.removeprefix("U").startswith("D")


def _source(emitter: Emitter, native: NativeInstruction, operand: NativeOperand) -> Value:
    """A source as lanes of f32 or f64, flushed with `.FTZ`."""
    if isinstance(operand, NativeRegister | NativeConstant) and (operand.part or operand.inverted):
        raise emitter.unsupported(f"operand {operand!r} is not a whole float")
    if _is_wide(native):
        return double(emitter, operand)
    value = single(emitter, operand)
    return flush(emitter, value) if "FTZ" in native.modifiers else value


def _sources(emitter: Emitter, native: NativeInstruction, operands: Sequence[NativeOperand], count: int) -> list[Value]:
    if len(operands) != count:
        raise emitter.unsupported(f"it has {len(operands)} sources; {count} expected")
    return [_source(emitter, native, operand) for operand in operands]


def _write(emitter: Emitter, target: NativeOperand, value: Value) -> None:
    """Write a result of f32 or f64."""
    if value.type.element == F32:
        set_word(emitter, target, value)
    else:
        set_wide(emitter, target, value)


# -- Sums and products.


def _arithmetic(emitter: Emitter, instruction: Instruction, name: str, count: int) -> None:
    """An operation with one rounding; `name` is LLVM's."""
    native = native_of(instruction)
    wide = _is_wide(native)
    allow(emitter, native, *_ROUNDINGS, *(() if wide else ("FTZ", "SAT")))
    ptx = in_ptx(instruction, name, *(m.lower() for m in native.modifiers))
    target, *rest = native.operands
    result = compute(emitter, ptx, name, *_sources(emitter, native, rest, count))
    _write(emitter, target, finish_sum(emitter, ptx, "f64" if wide else "f32", result))


_SCALES = {"D2": 0.5, "D4": 0.25, "D8": 0.125, "M2": 2.0, "M4": 4.0, "M8": 8.0}


def _product(emitter: Emitter, instruction: Instruction) -> None:
    """`FMUL`, whose exact product may be divided (`.D2`) or multiplied (`.M4`) by a power of two before it is rounded.

    NVIDIA's assembler makes `0.5f * (a * b)` so. A double holds the product of two singles and that of it and the power.
    """
    native, builder = native_of(instruction), emitter.builder
    scales = [m for m in native.modifiers if m in _SCALES]
    if not scales:
        _arithmetic(emitter, instruction, "fmul", 2)
        return
    allow(emitter, native, *_ROUNDINGS, "FTZ", "SAT", scales[0])
    ptx = in_ptx(instruction, "mul", *(m.lower() for m in native.modifiers if m not in _SCALES))
    target, *rest = native.operands
    a, b = (builder.fpext(source, vector(F64)) for source in _sources(emitter, native, rest, 2))
    scaled = builder.fmul(builder.fmul(a, b), splat_constant(F64, _SCALES[scales[0]]))
    _write(emitter, target, finish_sum(emitter, ptx, "f32", convert(emitter, ptx, "fptrunc", scaled, vector(F32))))


def _of_pairs(emitter: Emitter, instruction: Instruction, name: str, count: int) -> None:
    """An operation on two singles in a pair of registers. A source is such a pair, its halves exchanged (`.LO_HI`), one single for
    both (`.F32`), or a number for both.
    """
    native = native_of(instruction)
    allow(emitter, native, *_ROUNDINGS, "FTZ")
    ptx = in_ptx(instruction, name, *(m.lower() for m in native.modifiers))
    target, *rest = native.operands
    if len(rest) != count:
        raise emitter.unsupported(f"it has {len(rest)} sources; {count} expected")
    results: list[Value] = []
    for word in (0, 1):
        sources = [single(emitter, operand, _word_of(emitter, operand, word)) for operand in rest]
        sources = [flush(emitter, source) for source in sources] if "FTZ" in native.modifiers else sources
        results.append(finish_sum(emitter, ptx, "f32", compute(emitter, ptx, name, *sources)))
    set_wide(emitter, target, join(emitter, *(emitter.builder.bitcast(result, vector(I32)) for result in results)))


def _of_halves(emitter: Emitter, instruction: Instruction, name: str, count: int) -> None:
    """An operation on singles of which all sources but the last are halves: those of 16 bits that their parts name (`.H1`)."""
    native = native_of(instruction)
    allow(emitter, native, *_ROUNDINGS, "SAT", "BF16")
    ptx = in_ptx(instruction, name, *(m.lower() for m in native.modifiers if m != "BF16"))
    target, *halves, last = native.operands
    if len(halves) != count - 1:
        raise emitter.unsupported(f"it has {len(halves) + 1} sources; {count} expected")
    values = [half_as_single(emitter, each, "bf16" if "BF16" in native.modifiers else "f16") for each in halves]
    set_word(emitter, target, finish_sum(emitter, ptx, "f32", compute(emitter, ptx, name, *values, _source(emitter, native, last))))


def _word_of(emitter: Emitter, operand: NativeOperand, word: int) -> int:
    """Which register of a source holds the single of the lower (0) or the upper half (1) of a result."""
    part = operand.part if isinstance(operand, NativeRegister | NativeConstant) else "F32"
    if part not in _WORDS:
        raise emitter.unsupported(f"its operand part .{part} is not modelled")
    return _WORDS[part][word]


_WORDS = {"F32": (0, 0), "F32x2.HI_LO": (0, 1), "F32x2.LO_HI": (1, 0)}


# Sum, product, and product and sum with one rounding; with 2 in the name those of pairs, with an H those with halves.
fadd = fadd32i = dadd = partial(_arithmetic, name="fadd", count=2)
dmul = partial(_arithmetic, name="fmul", count=2)
fmul = fmul32i = _product
ffma = ffma32i = dfma = partial(_arithmetic, name="fma", count=3)
fadd2, fmul2 = (partial(_of_pairs, name=name, count=2) for name in ("fadd", "fmul"))
ffma2 = partial(_of_pairs, name="fma", count=3)
fhadd, fhfma = partial(_of_halves, name="fadd", count=2), partial(_of_halves, name="fma", count=3)


# -- Minimum and maximum.


_SIGN = 1 << 31


def _whole(emitter: Emitter, native: NativeInstruction, operands: Sequence[NativeOperand]) -> list[NativeOperand]:
    """The sources; those of `.XORSIGN`, which are listed as magnitudes, with their signs."""
    return [whole_sign(emitter, operand, _SIGN) if "XORSIGN" in native.modifiers else operand for operand in operands]


def fmnmx(emitter: Emitter, instruction: Instruction) -> None:
    """`FMNMX`, `DMNMX` `d, a, b, p`: the minimum where p holds, else the maximum. `FMNMX3` is of three sources."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, *(() if _is_wide(native) else ("FTZ", "NAN", "XORSIGN")))
    target, *rest, chooses = native.operands
    count = 3 if native.base == "FMNMX3" else 2
    if count == 3 and "XORSIGN" in native.modifiers:
        raise emitter.unsupported(".XORSIGN of three sources is not modelled")
    names = {"NAN": ("NaN",), "XORSIGN": ("xorsign", "abs"), "FTZ": ("ftz",)}
    words = [word for m in native.modifiers for word in names[m]]
    first, *others = _sources(emitter, native, _whole(emitter, native, rest), count)

    def of(opcode: str) -> Value:
        value = first
        for other in others:
            value = extreme(emitter, in_ptx(instruction, opcode, *words), value, other)
        return value

    if isinstance(chooses, NativeRegister) and chooses.name in TRUE_PREDICATES:
        value = of("max" if chooses.inverted else "min")
    else:
        value = builder.select(predicate(emitter, chooses), of("min"), of("max"))
    _write(emitter, target, flush(emitter, value) if "FTZ" in native.modifiers else value)


fmnmx3 = dmnmx = fmnmx


# -- Comparison and selection.


def _comparison(emitter: Emitter, native: NativeInstruction, *known: str) -> tuple[str, Callable[[Value, Value], Value]]:
    """The comparison that the modifiers name, in PTX's words, and what combines its outcome with a predicate."""
    allow(emitter, native, *(name.upper() for name in (*COMPARISONS, *COMBINE)), *known, *(() if _is_wide(native) else ("FTZ",)))
    comparisons = [m.lower() for m in native.modifiers if m.lower() in COMPARISONS or (m in known and m != "BF")]
    combine = [m for m in native.modifiers if m.lower() in COMBINE]
    if len(comparisons) != 1 or len(combine) != 1:
        raise emitter.unsupported("it does not name one comparison and how it is combined")
    builder = emitter.builder
    return comparisons[0], {"AND": builder.and_, "OR": builder.or_, "XOR": builder.xor}[combine[0]]


def fsetp(emitter: Emitter, instruction: Instruction) -> None:
    """`FSETP`, `DSETP` `p, q, a, b, r`: the comparison to p and its negation to q, each combined with r."""
    native = native_of(instruction)
    comparison, combine = _comparison(emitter, native, *(("MIN", "MAX") if _is_wide(native) else ()))
    if len(native.operands) != 5 or not is_predicate(native.operands[1]):
        raise emitter.unsupported("it does not have two predicates, two sources and a predicate")
    p, q, *rest, third = native.operands
    a, b = _sources(emitter, native, rest, 2)
    other = predicate(emitter, third)
    if comparison in ("min", "max"):
        first, second = _choice(emitter, comparison, a, b)
    else:
        first = compare_floats(emitter, in_ptx(instruction, "setp", comparison), a, b)
        second = emitter.builder.not_(first)
    set_predicate(emitter, p, combine(first, other))
    set_predicate(emitter, q, combine(second, other))


dsetp = fsetp


def _choice(emitter: Emitter, comparison: str, a: Value, b: Value) -> tuple[Value, Value]:
    """`.MIN`, `.MAX`: whether the first of two doubles is the extreme, and whether both are NaNs.

    One that is a NaN is not chosen; -0 is below +0. Code behind it that makes a NaN of the second where both are quiets that.
    """
    builder = emitter.builder
    is_nan = [builder.fcmp_unordered("uno", x, x) for x in (a, b)]
    signs = [builder.icmp_signed("<", builder.bitcast(x, vector(I64)), ir.Constant(vector(I64), None)) for x in (a, b)]
    before = builder.fcmp_ordered("<" if comparison == "min" else ">", a, b)
    sign, opposite = signs if comparison == "min" else signs[::-1]
    equal = builder.and_(builder.fcmp_ordered("==", a, b), builder.and_(sign, builder.not_(opposite)))
    lone = builder.and_(is_nan[1], builder.not_(is_nan[0]))
    return builder.or_(builder.or_(before, equal), lone), builder.and_(*is_nan)


def fset(emitter: Emitter, instruction: Instruction) -> None:
    """`FSET`, `DSET` `d, a, b, r`: all ones, with `.BF` 1.0, where the comparison combined with r holds; else zero."""
    native, builder = native_of(instruction), emitter.builder
    comparison, combine = _comparison(emitter, native, "BF")
    target, *rest, third = native.operands
    a, b = _sources(emitter, native, rest, 2)
    holds = combine(compare_floats(emitter, in_ptx(instruction, "set", comparison), a, b), predicate(emitter, third))
    true = 0x3F800000 if "BF" in native.modifiers else 0xFFFFFFFF
    set_word(emitter, target, builder.select(holds, splat_constant(I32, true), splat_constant(I32, 0)))


dset = fset


def fsel(emitter: Emitter, instruction: Instruction) -> None:
    """`FSEL d, a, b, p`: a where p holds, else b. A NaN keeps its bits."""
    native = native_of(instruction)
    allow(emitter, native, "FTZ")
    target, *rest, chooses = native.operands
    a, b = _sources(emitter, native, rest, 2)
    set_word(emitter, target, emitter.builder.select(predicate(emitter, chooses), a, b))


# -- Division.

# Biased exponents (of the dividend, the divisor, and their difference) between which the assembler's quick division is exact: it
# takes a reciprocal that is no denormal, and a remainder whose last bit, 47 places below the dividend's first, is not lost. Zero,
# denormals, infinities and NaNs are outside.
_DIVIDENDS, _DIVISORS, _QUOTIENTS = (25, 254), (1, 252), (-125, 126)


def fchk(emitter: Emitter, instruction: Instruction) -> None:
    """`FCHK p, a, b`: whether a / b needs the slow division, as the quick one could overflow or lose bits."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "DIVIDE")
    target, *rest = native.operands
    bits = [builder.bitcast(value, vector(I32)) for value in _sources(emitter, native, rest, 2)]
    a, b = (builder.and_(builder.lshr(x, splat_constant(I32, 23)), splat_constant(I32, 0xFF)) for x in bits)
    fails = splat_constant(I1, 0)
    for value, (least, most) in ((a, _DIVIDENDS), (b, _DIVISORS), (builder.sub(a, b), _QUOTIENTS)):
        distance = builder.sub(value, splat_constant(I32, least & 0xFFFFFFFF))
        fails = builder.or_(fails, builder.icmp_unsigned(">", distance, splat_constant(I32, most - least)))
    set_predicate(emitter, target, fails)


# -- The special function unit.

_UNIT = ("RCP", "RSQ", "SQRT", "EX2", "LG2", "SIN", "COS", "TANH")
_COARSE = ("RCP64H", "RSQ64H")
_HALF_FUNCTIONS = {"EX2": "exp2", "TANH": "tanh"}


def mufu(emitter: Emitter, instruction: Instruction) -> None:
    """`MUFU.function d, a`: a special function of a single, of half a register (`.F16`, `.BF16`), or of a double's upper word."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, *_UNIT, *_COARSE, "F16", "BF16")
    names = [m for m in native.modifiers if m in (*_UNIT, *_COARSE)]
    if len(names) != 1 or len(native.operands) != 2:
        raise emitter.unsupported("it does not name one function of one operand")
    (name,), (target, operand) = names, native.operands
    if formats := [m.lower() for m in native.modifiers if m in ("F16", "BF16")]:
        _half_function(emitter, instruction, name, formats[0])
        return
    (value,) = _sources(emitter, native, [operand], 1)
    if name in _COARSE:
        set_word(emitter, target, coarse(emitter, name, builder.bitcast(value, vector(I32))))
    else:
        set_word(emitter, target, unit(emitter, name, value))


def _half_function(emitter: Emitter, instruction: Instruction, name: str, kind: str) -> None:
    """A function of 16-bit floats; the power of two of bf16 knows no denormals, as in PTX. The upper half of the result is zero."""
    native, builder = native_of(instruction), emitter.builder
    if name not in _HALF_FUNCTIONS:
        raise emitter.unsupported(f"{name} of a 16-bit float is not modelled")
    target, operand = native.operands
    words = ("ftz",) if (name, kind) == ("EX2", "bf16") else ()
    ptx = in_ptx(instruction, _HALF_FUNCTIONS[name], *words)
    value = half_as_single(emitter, operand, kind)
    if words:
        value = widen(builder, flush_patterns(emitter, ptx, narrow(builder, value, kind), kind), kind)
    pattern = flush_patterns(emitter, ptx, narrow(builder, call_math(builder, _HALF_FUNCTIONS[name], value), kind), kind)
    set_word(emitter, target, builder.zext(pattern, vector(I32)))
