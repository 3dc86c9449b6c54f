"""Integer arithmetic and comparison of machine code.

How a carry goes through a sum, and which operands of a product are pairs of registers, was read off what NVIDIA's assembler makes
of PTX: 64-bit and 128-bit sums and differences, products, divisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I1, I8, I16, I32, I64, Value, call_same, splat_constant, vector
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx.arithmetic import dot_product
from warpsight.emulator.sass.common import (
    allow,
    constant_elements,
    integer,
    keeps,
    native_of,
    predicate,
    raw,
    set_predicate,
    set_wide,
    set_word,
    wide_integer,
)
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import (
    TRUE_PREDICATES,
    ZERO_REGISTERS,
    NativeConstant,
    NativeImmediate,
    NativeInstruction,
    NativeOperand,
    NativeRegister,
    is_predicate,
)

_PAIRS, _BYTES = vector(I16, 2 * WARP), vector(I8, 4 * WARP)


def _split(native: NativeInstruction) -> tuple[tuple[NativeOperand, ...], list[NativeOperand], list[NativeOperand]]:
    """(results, sources that are numbers, sources that are predicates)."""
    sources = native.operands[native.results :]
    return native.operands[: native.results], [s for s in sources if not is_predicate(s)], [s for s in sources if is_predicate(s)]


def _expect(emitter: Emitter, operands: Sequence[Any], count: int) -> None:
    if len(operands) != count:
        raise emitter.unsupported("the number of its operands is not what is modelled")


def is_zero(operand: NativeOperand) -> bool:
    """Zero by its name, whatever its sign; not the inverse of zero."""
    return isinstance(operand, NativeRegister) and operand.name in ZERO_REGISTERS and not operand.inverted


def immediate(emitter: Emitter, operand: NativeOperand) -> int:
    """An operand that must be a number."""
    if not isinstance(operand, NativeImmediate):
        raise emitter.unsupported("needs a number here")
    return operand.value & 0xFFFFFFFF


def _negative(operand: NativeOperand) -> bool:
    return isinstance(operand, NativeRegister | NativeConstant) and operand.negative


# -- Sums. A carry is that of the sum of unsigned words, in which `-x` is `~x + 1`: a difference leaves one if nothing is borrowed.


@dataclass(frozen=True)
class _Term:
    """A word of a sum; `negative` if it is subtracted."""

    value: Value
    negative: bool = False


def _term(emitter: Emitter, operand: NativeOperand) -> _Term:
    value = raw(emitter, operand)
    if isinstance(operand, NativeRegister | NativeConstant) and operand.inverted:
        value = emitter.builder.not_(value)
    return _Term(value, _negative(operand))


def _carries_in(emitter: Emitter, native: NativeInstruction, operands: Sequence[NativeOperand]) -> list[Value]:
    """The carries that `.X` adds, without those that are always false."""
    if bool(operands) != ("X" in native.modifiers):
        raise emitter.unsupported("a carry comes in with .X, and only with it")
    never = [isinstance(o, NativeRegister) and o.name in TRUE_PREDICATES and o.inverted for o in operands]
    return [predicate(emitter, o) for o, skip in zip(operands, never, strict=True) if not skip]


def _sum(emitter: Emitter, terms: Sequence[_Term], carries: Sequence[Value]) -> Value:
    """The low word of a sum."""
    builder = emitter.builder
    total = None
    for term in sorted(terms, key=lambda t: t.negative):
        if term.negative:
            total = builder.sub(splat_constant(I32, 0) if total is None else total, term.value)
        else:
            total = term.value if total is None else builder.add(total, term.value)
    total = splat_constant(I32, 0) if total is None else total
    for carry in carries:
        total = builder.add(total, builder.zext(carry, vector(I32)))
    return total


def _carry(emitter: Emitter, terms: Sequence[_Term], carries: Sequence[Value], total: Value, outputs: int) -> list[Value]:
    """The carries that a sum leaves: whether there is one, and (of two `outputs`) whether there are two."""
    builder = emitter.builder
    if len(terms) < 2:
        terms = [_Term(splat_constant(I32, 0)), *terms, _Term(splat_constant(I32, 0))][:2]
    if len(terms) == 2 and not carries and not all(t.negative for t in terms):
        first, second = sorted(terms, key=lambda t: t.negative)
        if second.negative:
            there = builder.icmp_unsigned(">=", first.value, second.value)
        else:
            there = builder.icmp_unsigned("<", total, first.value)
        return [there, splat_constant(I1, 0)][:outputs]
    wide = splat_constant(I64, sum(t.negative for t in terms))
    for term in terms:
        wide = builder.add(wide, builder.zext(builder.not_(term.value) if term.negative else term.value, vector(I64)))
    for carry in carries:
        wide = builder.add(wide, builder.zext(carry, vector(I64)))
    return [builder.icmp_unsigned(">=", wide, splat_constant(I64, (k + 1) << 32)) for k in range(outputs)]


def _add(emitter: Emitter, results: Sequence[NativeOperand], terms: Sequence[_Term], carries: Sequence[Value]) -> None:
    """Write a sum, and its carries to the predicates behind the first result."""
    total = _sum(emitter, terms, carries)
    outputs = _carry(emitter, terms, carries, total, len(results) - 1) if len(results) > 1 else []
    set_word(emitter, results[0], total)
    for operand, value in zip(results[1:], outputs, strict=True):
        set_predicate(emitter, operand, value)


def iadd3(emitter: Emitter, instruction: Instruction) -> None:
    """`IADD3 d, p, q, a, b, c`: a sum of three, and its carries; `.X` adds one or two carries to it."""
    native = native_of(instruction)
    allow(emitter, native, "X", "64")
    results, sources, predicates = _split(native)
    _expect(emitter, sources, 3)
    if "64" in native.modifiers:
        _add_wide(emitter, native, results, sources)
        return
    if "X" in native.modifiers and any(map(_negative, sources)):
        raise emitter.unsupported("a sum with a carry has inverted operands, not negative ones")
    # The negative of zero leaves a carry, as ~0 + 1 does, so that it counts where carries do.
    terms = [_term(emitter, s) for s in sources if not is_zero(s) or (_negative(s) and len(results) > 1)]
    _add(emitter, results, terms, _carries_in(emitter, native, predicates))


def _add_wide(
    emitter: Emitter, native: NativeInstruction, results: Sequence[NativeOperand], sources: Sequence[NativeOperand]
) -> None:
    """`UIADD3.64`, `IADD.64`: a sum of pairs of registers."""
    if any(map(keeps, results[1:])) or "X" in native.modifiers:
        raise emitter.unsupported("a sum of pairs with a carry is not modelled")
    set_wide(emitter, results[0], reduce(emitter.builder.add, [wide_integer(emitter, source) for source in sources]))


def iadd(emitter: Emitter, instruction: Instruction) -> None:
    """`IADD d, a, b`: a sum of two, of words or (`.64`) of pairs of registers."""
    native = native_of(instruction)
    allow(emitter, native, "64")
    target, a, b = native.operands
    if "64" in native.modifiers:
        _add_wide(emitter, native, [target], [a, b])
    else:
        set_word(emitter, target, emitter.builder.add(integer(emitter, a), integer(emitter, b)))


def viadd(emitter: Emitter, instruction: Instruction) -> None:
    """`VIADD d, a, b`: a sum, of words or (`.16x2`) of half-words."""
    native = native_of(instruction)
    allow(emitter, native, "16x2")
    target, a, b = native.operands
    if "16x2" not in native.modifiers:
        set_word(emitter, target, emitter.builder.add(integer(emitter, a), integer(emitter, b)))
        return
    total = emitter.builder.add(_pairs(emitter, a), _pairs(emitter, b))
    set_word(emitter, target, emitter.builder.bitcast(total, vector(I32)))


def _pairs(emitter: Emitter, operand: NativeOperand) -> Value:
    """An operand as twice as many half-words, each with the operand's sign."""
    value = emitter.builder.bitcast(raw(emitter, operand), _PAIRS)
    if isinstance(operand, NativeRegister | NativeConstant):
        if operand.inverted or operand.part:
            raise emitter.unsupported(f"operand {operand!r} is not recognized here")
        if operand.negative:
            return emitter.builder.sub(ir.Constant(_PAIRS, None), value)
    return value


def lea(emitter: Emitter, instruction: Instruction) -> None:
    """`LEA d, p, a, b, s`: (a << s) + b, and its carry; `.HI`: the upper word of {c, a} << s, plus b.

    With `.SX32` there is no c: the upper word is the sign of a. `.X` adds a carry.
    """
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "HI", "X", "SX32")
    results, sources, predicates = _split(native)
    high, extends = "HI" in native.modifiers, "SX32" in native.modifiers
    _expect(emitter, sources, 4 if high and not extends else 3)
    if extends and not high:
        raise emitter.unsupported("the sign of its operand counts in the upper word only")
    a, b, *_, last = sources
    shift = immediate(emitter, last) & 31
    carries = _carries_in(emitter, native, predicates)
    signs = [a, *(sources[2:3] if high else [])]
    if any(isinstance(o, NativeRegister | NativeConstant) and (o.inverted or (o.negative and high)) for o in signs):
        raise emitter.unsupported("a sign of the operand that is shifted is not modelled here")
    if not high:
        shifted = _Term(builder.shl(raw(emitter, a), splat_constant(I32, shift)), _negative(a))
    elif extends:
        shifted = _Term(builder.ashr(raw(emitter, a), splat_constant(I32, min(32 - shift, 31))))
    else:
        upper = raw(emitter, sources[2])
        shifted = _Term(call_same(builder, "fshl", upper, raw(emitter, a), splat_constant(I32, shift)) if shift else upper)
    _add(emitter, results, [shifted, _term(emitter, b)], carries)


# -- Products.


def imad(emitter: Emitter, instruction: Instruction) -> None:
    """`IMAD d, a, b, c`: a * b + c. `.WIDE`: all 64 bits, c a pair; `.HI`: the upper word of that. `.X` adds a carry.

    `.MOV`, `.SHL` and `.IADD` only say how the compiler uses it.
    """
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "MOV", "SHL", "IADD", "U32", "S32", "X", "HI", "WIDE")
    results, sources, predicates = _split(native)
    _expect(emitter, sources, 3)
    a, b, c = sources
    if "X" in native.modifiers and _negative(c):
        raise emitter.unsupported("a sum with a carry has an inverted operand, not a negative one")
    carries = _carries_in(emitter, native, predicates)
    if {"HI", "WIDE"} & set(native.modifiers):
        _wide_product(emitter, native, results, (a, b, c), carries)
        return
    _expect(emitter, results, 1)
    addend = _term(emitter, c)
    if is_zero(a) or is_zero(b):
        terms = [addend]
    elif isinstance(b, NativeImmediate) and b.value == 1:
        terms = [_Term(integer(emitter, a)), addend]
    else:
        terms = [_Term(builder.mul(integer(emitter, a), integer(emitter, b))), addend]
    set_word(emitter, results[0], _sum(emitter, [t for t in terms if t is not addend or not is_zero(c)], carries))


def _wide_product(
    emitter: Emitter, native: NativeInstruction, results: Sequence[NativeOperand], sources: tuple[NativeOperand, ...],
    carries: Sequence[Value],
) -> None:
    """A product of 64 bits plus a pair of registers: all of it, or its upper word; and its carry."""
    builder, (a, b, c) = emitter.builder, sources
    unsigned = "U32" in native.modifiers
    product = builder.mul(_extended(emitter, a, unsigned), _extended(emitter, b, unsigned))
    if len(results) > 1 and _negative(c):
        raise emitter.unsupported("the carry of a difference is not modelled here")
    totals = [product] if is_zero(c) else [product, builder.add(product, _addend(emitter, c))]
    for carry in carries:
        totals.append(builder.add(totals[-1], builder.zext(carry, vector(I64))))
    overflows = [builder.icmp_unsigned("<", after, before) for before, after in pairwise(totals)]
    if "HI" in native.modifiers:
        set_word(emitter, results[0], builder.trunc(builder.lshr(totals[-1], splat_constant(I64, 32)), vector(I32)))
    else:
        set_wide(emitter, results[0], totals[-1])
    if len(results) > 1:
        carry = splat_constant(I1, 0)
        for overflow in overflows:  # at most one of them
            carry = builder.or_(carry, overflow)
        set_predicate(emitter, results[1], carry)


def _extended(emitter: Emitter, operand: NativeOperand, unsigned: bool) -> Value:
    """A word as a factor of 64 bits."""
    builder = emitter.builder
    if isinstance(operand, NativeImmediate):
        low = operand.value & 0xFFFFFFFF
        return splat_constant(I64, low if unsigned or low < 1 << 31 else low | 0xFFFFFFFF << 32)
    value = (builder.zext if unsigned else builder.sext)(raw(emitter, operand), vector(I64))
    if isinstance(operand, NativeRegister | NativeConstant) and operand.inverted:
        raise emitter.unsupported("an inverted factor is not modelled")
    return builder.sub(splat_constant(I64, 0), value) if _negative(operand) else value


def _addend(emitter: Emitter, operand: NativeOperand) -> Value:
    """The pair of registers that is added to a product; 64 bits of a constant bank are loaded as one."""
    if isinstance(operand, NativeImmediate) and operand.value:
        raise emitter.unsupported("a number in place of a pair of registers is not modelled")
    if isinstance(operand, NativeConstant) and not (operand.negative or operand.inverted):
        return constant_elements(emitter, operand, I64, 8, 1)[0]
    return wide_integer(emitter, operand)


def idp(emitter: Emitter, instruction: Instruction) -> None:
    """`IDP.4A d, a, b, c`: four products of bytes, plus c; `.2A.LO`, `.2A.HI`: two of half-words with bytes of b."""
    native = native_of(instruction)
    allow(emitter, native, "4A", "2A", "LO", "HI", "U8", "S8", "U16", "S16")
    target, *sources = native.operands
    four = "4A" in native.modifiers
    kinds = [m for m in native.modifiers if m[0] in "US"]
    if len(kinds) != 2 or len(sources) != 3 or four == bool({"LO", "HI"} & set(native.modifiers)):
        raise emitter.unsupported("it needs two types, and .2A also .LO or .HI")
    values = [integer(emitter, s) for s in sources]
    signs = (kinds[0][0] == "S", kinds[1][0] == "S")
    set_word(emitter, target, dot_product(emitter, values, signs, four, "HI" in native.modifiers))


# -- Absolute values, smallest and largest.


def iabs(emitter: Emitter, instruction: Instruction) -> None:
    """`IABS`: the absolute value; the most negative number stays what it is."""
    native = native_of(instruction)
    allow(emitter, native)
    set_word(emitter, native.operands[0], call_same(emitter.builder, "abs", integer(emitter, native.operands[1]), flag=False))


def _difference(emitter: Emitter, a: Value, b: Value, signed: bool) -> Value:
    prefix, builder = "s" if signed else "u", emitter.builder
    return builder.sub(call_same(builder, prefix + "max", a, b), call_same(builder, prefix + "min", a, b))


def vabsdiff(emitter: Emitter, instruction: Instruction) -> None:
    """`VABSDIFF d, a, b, c`: |a - b| + c."""
    native = native_of(instruction)
    allow(emitter, native, "U32", "S32")
    target, *sources = native.operands
    a, b, c = (integer(emitter, s) for s in sources)
    set_word(emitter, target, emitter.builder.add(_difference(emitter, a, b, "U32" not in native.modifiers), c))


def vabsdiff4(emitter: Emitter, instruction: Instruction) -> None:
    """`VABSDIFF4 d, a, b, c`: |a - b| of each byte; `.ACC`: their sum plus c."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "U8", "S8", "ACC")
    target, a, b, c = native.operands
    x, y = (builder.bitcast(integer(emitter, s), _BYTES) for s in (a, b))
    result = builder.bitcast(_difference(emitter, x, y, "U8" not in native.modifiers), vector(I32))
    if "ACC" in native.modifiers:
        total = integer(emitter, c)
        for k in range(4):
            byte = builder.and_(builder.lshr(result, splat_constant(I32, 8 * k)), splat_constant(I32, 255))
            total = builder.add(total, byte)
        result = total
    elif not is_zero(c):
        raise emitter.unsupported("a third operand without .ACC is not modelled")
    set_word(emitter, target, result)


_HALVES = ("U16x2", "S16x2")


def _choice(emitter: Emitter, native: NativeInstruction, values: Sequence[Value], smallest: Value) -> Value:
    """The smallest of `values` where a predicate holds, else the largest; `.RELU`: at least 0."""
    builder = emitter.builder
    prefix = "u" if {"U32", "U16x2"} & set(native.modifiers) else "s"

    def reduced(name: str) -> Value:
        value = values[0]
        for other in values[1:]:
            value = call_same(builder, prefix + name, value, other)
        return value

    condition = native.operands[-1]
    if isinstance(condition, NativeRegister) and condition.name in TRUE_PREDICATES:
        value = reduced("max" if condition.inverted else "min")
    elif values[0].type == _PAIRS:
        raise emitter.unsupported("it chooses between smallest and largest half-words at run time")
    else:
        value = builder.select(smallest, reduced("min"), reduced("max"))
    if "RELU" in native.modifiers:
        value = call_same(builder, "smax", value, ir.Constant(value.type, None))
    return value


def _operands_of_choice(emitter: Emitter, native: NativeInstruction, count: int) -> list[Value]:
    allow(emitter, native, "U32", "S32", "RELU", *_HALVES)
    sources = native.operands[native.results : -1]
    _expect(emitter, sources, count)
    read = _pairs if set(_HALVES) & set(native.modifiers) else integer
    return [read(emitter, s) for s in sources]


def _finish_choice(emitter: Emitter, native: NativeInstruction, values: Sequence[Value]) -> None:
    result = _choice(emitter, native, values, predicate(emitter, native.operands[-1]))
    if any(map(keeps, native.operands[1 : native.results])):
        _which(emitter, native, values, result)
    set_word(emitter, native.operands[0], emitter.builder.bitcast(result, vector(I32)) if result.type == _PAIRS else result)


def _which(emitter: Emitter, native: NativeInstruction, values: Sequence[Value], result: Value) -> None:
    """The predicates behind the result: whether it is the first operand, of the lower half-word and of the upper one."""
    builder = emitter.builder
    if native.results != 3 or result.type != _PAIRS or "RELU" in native.modifiers:
        raise emitter.unsupported("a predicate result is only modelled for pairs of half-words")
    same = builder.icmp_signed("==", result, values[0])
    both = ir.Constant(same.type, ir.Undefined)
    for k in (0, 1):
        chosen = ir.Constant(vector(I32), [2 * lane + k for lane in range(WARP)])
        set_predicate(emitter, native.operands[1 + k], builder.shuffle_vector(same, both, chosen))


def imnmx(emitter: Emitter, instruction: Instruction) -> None:
    """`IMNMX`, `VIMNMX d, a, b, p`: the smaller one where p holds, else the larger one; also of half-words.

    `IMNMX.U64 q, r, d, a, b, p, !PT`: of register pairs. What q, r and the last operand can be otherwise is not known.
    """
    native = native_of(instruction)
    if {"S64", "U64"} & set(native.modifiers):
        allow(emitter, native, "S64", "U64")
        first, second, target, a, b, smallest, last = native.operands
        if keeps(first) or keeps(second) or last != NativeRegister("PT", inverted=True):
            raise emitter.unsupported("a choice between register pairs with more predicates is not modelled")
        prefix, values = "u" if "U64" in native.modifiers else "s", [wide_integer(emitter, each) for each in (a, b)]
        lower, upper = (call_same(emitter.builder, prefix + name, *values) for name in ("min", "max"))
        set_wide(emitter, target, emitter.builder.select(predicate(emitter, smallest), lower, upper))
        return
    _finish_choice(emitter, native, _operands_of_choice(emitter, native, 2))


vimnmx = imnmx


def vimnmx3(emitter: Emitter, instruction: Instruction) -> None:
    """`VIMNMX3 d, a, b, c, p`: of three."""
    native = native_of(instruction)
    _finish_choice(emitter, native, _operands_of_choice(emitter, native, 3))


def viaddmnmx(emitter: Emitter, instruction: Instruction) -> None:
    """`VIADDMNMX d, a, b, c, p`: of a + b and c."""
    native = native_of(instruction)
    a, b, c = _operands_of_choice(emitter, native, 3)
    _finish_choice(emitter, native, [emitter.builder.add(a, b), c])


# -- Comparison.

_COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_COMBINATIONS = ("AND", "OR", "XOR")


def isetp(emitter: Emitter, instruction: Instruction) -> None:
    """`ISETP p, q, a, b, c`: p is the comparison combined with c, q its inverse combined with c.

    `.EX` compares upper words: where they are equal, a further predicate has the result of the lower ones.
    """
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "U32", "S32", "U64", "S64", "EX", *_COMPARISONS, *_COMBINATIONS)
    names = [m for m in native.modifiers if m in _COMPARISONS]
    combinations = [m for m in native.modifiers if m in _COMBINATIONS]
    results, sources, predicates = _split(native)
    extended = "EX" in native.modifiers
    if len(names) != 1 or len(combinations) != 1 or len(results) != 2 or len(sources) != 2 or len(predicates) != 1 + extended:
        raise emitter.unsupported("its operands or modifiers are not what is modelled")
    read = wide_integer if {"U64", "S64"} & set(native.modifiers) else integer
    name, (a, b) = names[0], (read(emitter, s) for s in sources)
    compare = builder.icmp_unsigned if {"U32", "U64"} & set(native.modifiers) else builder.icmp_signed
    holds = compare(_COMPARISONS[name], a, b)
    if extended:
        below = predicate(emitter, predicates[1])
        if name == "NE":
            holds = builder.or_(holds, below)
        elif name == "EQ":
            holds = builder.and_(holds, below)
        else:
            equal = builder.icmp_signed("==", a, b)
            holds = builder.select(equal, below, compare(_COMPARISONS[name].rstrip("="), a, b))
    other = predicate(emitter, predicates[0])
    combine = {"AND": builder.and_, "OR": builder.or_, "XOR": builder.xor}[combinations[0]]
    values = [combine(value, other) for value in (holds, builder.not_(holds))]
    for operand, value in zip(results, values, strict=True):
        set_predicate(emitter, operand, value)
