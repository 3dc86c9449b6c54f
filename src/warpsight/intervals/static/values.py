"""What the analysis knows of a register, and what PTX instructions make of known values.

A value is a number for every thread plus multiples of loop counters, or unknown. Only integers, addresses and predicates are
followed.

Threads are those of the blocks looked at together, flat. A known value is `const + sum(coefficient x counter)`, each a Python
int where it is the same for all threads, else int64 [threads]. 32-bit values are kept as signed numbers; loop counters are
taken not to wrap.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.isa.ptx.constants import type_bits as _bits
from warpsight.isa.ptx.program import Instruction

Number = int | npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Linear:
    """A known value. `terms` by counter: `LABEL` of a loop, or `phi REGISTER` while a loop's changes are still to be found."""

    const: Number
    terms: dict[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Unknown:
    """Not known: `why` completes "depends on ...", `line` is the PTX line it comes from."""

    why: str
    line: int


@dataclass(frozen=True)
class Later:
    """Known once these counters are, but no multiple of them."""

    counters: frozenset[str]


@dataclass(frozen=True, eq=False)
class Compare:
    """A predicate that depends on counters: `difference` compared (lt, le, gt, ge, eq, ne) with 0."""

    relation: str
    difference: Linear


Truth = bool | Mask
Value = Linear | Unknown | Later
Predicate = Truth | Compare | Later | Unknown
Content = Value | Predicate

OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def wrap(number: Number, bits: int) -> Number:
    """`number` as a signed integer of so many bits."""
    if isinstance(number, int):
        half = 1 << (bits - 1)
        return (number + half) % (2 * half) - half
    if bits >= 64:
        return number
    return number.astype({8: np.int8, 16: np.int16}.get(bits, np.int32)).astype(np.int64)


def unsigned(number: Number, bits: int) -> Number:
    """A signed number of up to 32 bits as the unsigned one with its pattern; 64-bit numbers are taken as they are."""
    return number & ((1 << bits) - 1) if bits < 64 else number


def linear(a: Content, b: Content, combine: Callable[[Number, Number], Number], bits: int) -> Content:
    """Sum or difference, term by term."""
    other = _not_linear(a, b)
    if other is not None:
        return other
    assert isinstance(a, Linear) and isinstance(b, Linear)
    terms = {name: combine(a.terms.get(name, 0), b.terms.get(name, 0)) for name in (*a.terms, *b.terms)}
    terms = {name: number for name, number in terms.items() if not _is_zero(number)}
    const = combine(a.const, b.const)
    return Linear(const if terms else wrap(const, bits), terms)


def product(a: Content, b: Content, bits: int) -> Content:
    """Product: linear as long as only one factor has counters."""
    other = _not_linear(a, b)
    if other is not None:
        return other
    assert isinstance(a, Linear) and isinstance(b, Linear)
    if a.terms and b.terms:
        return Later(frozenset((*a.terms, *b.terms)))
    many, one = (a, b) if a.terms else (b, a)
    terms = {name: number * one.const for name, number in many.terms.items()}
    const = _times(many.const, one.const)
    return Linear(const if terms else wrap(const, bits), {name: number for name, number in terms.items() if not _is_zero(number)})


def _times(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return wrap(a * b, 64)
    with np.errstate(over="ignore"):
        return a * b


def numbers(values: list[Content], combine: Callable[..., Any]) -> Content:
    """A function of plain numbers; of counters it is not linear."""
    other = _not_linear(*values)
    if other is not None:
        return other
    counters = _all_counters(values)
    if counters:
        return Later(counters)
    result: Content = combine(*(value.const for value in values if isinstance(value, Linear)))
    return result


def _not_linear(*values: Content) -> Unknown | Later | None:
    unknown = next((value for value in values if isinstance(value, Unknown)), None)
    return unknown or (None if all(isinstance(value, Linear) for value in values) else Later(_all_counters(values)))


def _all_counters(values: Iterable[Content]) -> frozenset[str]:
    return frozenset().union(*(counters_of(value) for value in values))


def _is_zero(number: Number) -> bool:
    return number == 0 if isinstance(number, int) else not number.any()


def counters_of(value: Content) -> frozenset[str]:
    """The counters that a value or predicate depends on."""
    if isinstance(value, Linear):
        return frozenset(value.terms)
    if isinstance(value, Later):
        return value.counters
    if isinstance(value, Compare):
        return frozenset(value.difference.terms)
    return frozenset()


def merged(mask: Mask, new: Content, old: Content) -> Content:
    """`new` for the threads of `mask`, `old` for the others."""
    if new is old:
        return new
    if isinstance(new, Unknown) or isinstance(old, Unknown):
        return new if isinstance(new, Unknown) else old
    if isinstance(new, Linear) and isinstance(old, Linear):
        terms = {name: _chosen(mask, new.terms.get(name, 0), old.terms.get(name, 0)) for name in (*new.terms, *old.terms)}
        return Linear(_chosen(mask, new.const, old.const), terms)
    if isinstance(new, bool | np.ndarray) and isinstance(old, bool | np.ndarray):
        return np.where(mask, new, old)
    return Later(counters_of(new) | counters_of(old))


def _chosen(mask: Mask, new: Number, old: Number) -> Number:
    if isinstance(new, int) and isinstance(old, int) and new == old:
        return new
    return np.where(mask, new, old)


def substituted(value: Content, name: str, by: Content) -> Content:
    """`value` with the counter `name` replaced."""
    if isinstance(value, Compare):
        inner = substituted(value.difference, name, by)
        return Compare(value.relation, inner) if isinstance(inner, Linear) else inner
    if isinstance(value, Later) and name in value.counters:
        return by if isinstance(by, Unknown) else Later(value.counters - {name} | counters_of(by))
    if not isinstance(value, Linear) or name not in value.terms:
        return value
    rest = Linear(value.const, {key: number for key, number in value.terms.items() if key != name})
    return linear(rest, product(Linear(value.terms[name]), by, 64), operator.add, 64)


def same(a: Content, b: Content) -> bool:
    """The two are the same for all threads, as far as can be seen cheaply."""
    if a is b:
        return True
    if isinstance(a, Linear) and isinstance(b, Linear):
        return a.terms.keys() == b.terms.keys() and all(
            np.array_equal(x, y) for x, y in ((a.const, b.const), *((a.terms[key], b.terms[key]) for key in a.terms))
        )
    return isinstance(a, bool) and isinstance(b, bool) and a == b


# -- What PTX instructions make of known values. Only integers, addresses and predicates are followed: floating point is data.

_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_RELATIONS = {**{name: name for name in ("lt", "le", "gt", "ge", "eq", "ne")}, **_UNSIGNED}
_BITWISE: dict[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def apply(instruction: Instruction, sources: list[Content]) -> Content:
    """The result of an instruction (other than a load) for its source operands, which are values or predicates."""
    types = [m for m in instruction.modifiers if m[:1] in "usbfp" and (m[1:].isdigit() or m == "pred")]
    kind = types[-1] if types else ""
    if kind == "pred":
        return _logic(instruction.opcode, sources, instruction.ptx_line)
    if kind.startswith(("f", "bf")) or any(m.startswith(("f16", "bf16", "e4m3", "e5m2")) for m in instruction.modifiers):
        return Unknown("a floating-point value", instruction.ptx_line)
    handler = _HANDLERS.get(instruction.opcode)
    if handler is None or not kind or "sat" in instruction.modifiers:
        return Unknown(f'the result of "{instruction.text}"', instruction.ptx_line)
    result = handler(instruction, sources, kind)
    return Unknown(f'the result of "{instruction.text}"', instruction.ptx_line) if result is None else result


def _read(value: Content, kind: str) -> Content:
    """A source as its type has it: unsigned numbers of up to 32 bits without their sign."""
    if isinstance(value, Linear) and kind.startswith(("u", "b")) and not value.terms:
        return Linear(unsigned(value.const, _bits(kind)))
    return value


def _signed_alike(value: Content, kind: str, line: int) -> Content:
    """As `_read`; an unsigned 64-bit number that would be negative here is not followed."""
    if kind == "u64" and isinstance(value, Linear) and np.any(np.asarray(value.const) < 0):
        return Unknown("an unsigned number beyond 63 bits", line)
    return _read(value, kind)


def _sum(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    return linear(s[0], s[1], operator.add, _bits(kind))


def _difference(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    return linear(s[0], s[1], operator.sub, _bits(kind))


def _multiplied(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    if "wide" in ins.modifiers:
        return product(_read(s[0], kind), _read(s[1], kind), 2 * _bits(kind))
    bits = _bits(kind)
    if "hi" not in ins.modifiers:
        return product(s[0], s[1], bits)
    if bits > 32:
        return None
    return numbers([_read(v, kind) for v in s[:2]], lambda a, b: Linear(wrap((a * b) >> bits, bits)))


def _multiplied_and_added(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    bits = _bits(kind) * (2 if "wide" in ins.modifiers else 1)
    factor_product = _multiplied(ins, s, kind)
    return None if factor_product is None else linear(factor_product, s[2], operator.add, bits)


def _amount(value: Content) -> Content:
    """How far to shift: an unsigned 32-bit number, of which no more than 63 matters."""
    return numbers([_read(value, "u32")], lambda b: Linear(min(b, 63) if isinstance(b, int) else np.minimum(b, 63)))


def _shifted_left(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    bits, amount = _bits(kind), _amount(s[1])
    if isinstance(amount, Linear) and isinstance(amount.const, int) and not amount.terms:
        return product(s[0], Linear(wrap(1 << amount.const, 64)), bits) if amount.const < bits else Linear(0)
    return numbers([s[0], amount], lambda a, b: Linear(wrap(np.where(b < bits, np.left_shift(a, b, dtype=np.int64), 0), bits)))


def _shifted_right(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    value = _signed_alike(s[0], "u64" if kind == "b64" else kind, ins.ptx_line)
    return numbers([value, _amount(s[1])], lambda a, b: Linear(_whole(a >> b, _bits(kind))))


def _plain(combine: Callable[..., Any]) -> Callable[[Instruction, list[Content], str], Content | None]:
    """An operation on numbers of the instruction's type."""

    def handler(ins: Instruction, s: list[Content], kind: str) -> Content | None:
        values = [_signed_alike(value, kind, ins.ptx_line) for value in s]
        return numbers(values, lambda *n: Linear(_whole(combine(*n), _bits(kind))))

    return handler


def _whole(number: Any, bits: int) -> Number:
    return wrap(number if isinstance(number, int) else np.asarray(number, dtype=np.int64), bits)


def _divided(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    """Division and remainder round towards zero; by zero they are not known."""

    def divide(a: Number, b: Number) -> Content:
        if np.any(np.asarray(b) == 0):
            return Unknown("a division by zero", ins.ptx_line)
        quotient = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
        result = quotient if ins.opcode == "div" else a - quotient * b
        uniform = isinstance(a, int) and isinstance(b, int)
        return Linear(_whole(int(result) if uniform else result, _bits(kind)))

    return numbers([_signed_alike(v, kind, ins.ptx_line) for v in s], divide)


def _converted(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    types = [m for m in ins.modifiers if m[:1] in "usb" and m[1:].isdigit()]
    if len(types) != 2:
        return None
    value = s[0]
    if isinstance(value, Linear) and not value.terms:
        read = unsigned if types[1].startswith("u") else wrap
        return Linear(wrap(read(value.const, _bits(types[1])), _bits(types[0])))
    return value


def _selected(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    choice = s[2]
    if isinstance(choice, bool):
        return s[0] if choice else s[1]
    if isinstance(choice, np.ndarray) and isinstance(s[0], Linear) and isinstance(s[1], Linear) and not (s[0].terms or s[1].terms):
        return Linear(np.where(choice, s[0].const, s[1].const))
    unknown = next((value for value in (choice, *s[:2]) if isinstance(value, Unknown)), None)
    return unknown or Later(_all_counters(s))


def _compared(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    relation = next((_RELATIONS[m] for m in ins.modifiers if m in _RELATIONS), None)
    if relation is None:
        return None
    is_unsigned = kind.startswith("u") or any(m in _UNSIGNED for m in ins.modifiers)
    as_kind = f"u{_bits(kind)}" if is_unsigned else f"s{_bits(kind)}"
    a, b = (_signed_alike(value, as_kind, ins.ptx_line) for value in s[:2])
    result = linear(a, b, operator.sub, 64)
    if isinstance(result, Linear) and result.terms:
        result = Compare(relation, result)
    elif isinstance(result, Linear) and isinstance(a, Linear) and isinstance(b, Linear):
        result = compared(relation, a.const, b.const)
    combine = next((m for m in ins.modifiers if m in ("and", "or", "xor")), None)
    return result if combine is None else _logic(combine, [result, s[2]], ins.ptx_line)


def compared(relation: str, a: Number, b: Number) -> Content:
    """Numbers compared: lt, le, gt, ge, eq, ne."""
    truth = getattr(operator, relation)(a, b)
    return bool(truth) if isinstance(truth, bool | np.bool_) else np.asarray(truth, dtype=np.bool_)


def negated(value: Content) -> Content:
    """The opposite of a predicate."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, np.ndarray):
        return ~value
    if isinstance(value, Compare):
        return Compare(OPPOSITE[value.relation], value.difference)
    return value


def _logic(opcode: str, s: list[Content], line: int) -> Content:
    """and, or, xor, not, mov of predicates; a side that decides alone makes the other needless."""
    # a literal predicate is a number here
    s = [bool(v.const) if isinstance(v, Linear) and isinstance(v.const, int) and not v.terms else v for v in s]
    if opcode == "mov":
        return s[0]
    if opcode == "not":
        return negated(s[0])
    deciding = {"and": False, "or": True}.get(opcode)
    for mine, other in ((s[0], s[1]), (s[1], s[0])) if len(s) == 2 else ():
        if isinstance(mine, bool) and deciding is not None:
            return mine if mine == deciding else other
        if isinstance(mine, bool) and opcode == "xor":
            return negated(other) if mine else other
    if all(isinstance(value, bool | np.ndarray) for value in s) and opcode in _BITWISE and len(s) == 2:
        truth: Mask = _BITWISE[opcode](np.asarray(s[0]), np.asarray(s[1]))
        return truth
    unknown = next((value for value in s if isinstance(value, Unknown)), None)
    counters = _all_counters(s)
    return unknown or (Later(counters) if counters else Unknown(f'the result of "{opcode}.pred"', line))


def _copied(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    return s[0] if len(s) == 1 else None


def _lut(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    """lop3: bit by bit, the entry of the table that the three bits name."""
    if not isinstance(s[3], Linear) or not isinstance(s[3].const, int):
        return None
    table = s[3].const

    def look_up(a: Any, b: Any, c: Any) -> Content:
        result: Any = 0
        for row in range(8):
            if table >> row & 1:
                result = result | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return Linear(_whole(result, 32))

    return numbers(s[:3], look_up)


def _field(ins: Instruction, s: list[Content], kind: str) -> Content | None:
    """bfe of unsigned type, position and length the same for all threads."""
    if kind != "u32" or not all(isinstance(v, Linear) and isinstance(v.const, int) and not v.terms for v in s[1:]):
        return None
    first, length = (v.const & 255 for v in s[1:] if isinstance(v, Linear) and isinstance(v.const, int))
    first, length = min(first, 32), min(length, 32)
    return numbers([_read(s[0], kind)], lambda a: Linear(_whole((a >> first) & ((1 << length) - 1), 32)))


_HANDLERS: dict[str, Callable[[Instruction, list[Content], str], Content | None]] = {
    "mov": _copied, "cvta": _copied, "add": _sum, "sub": _difference, "mul": _multiplied, "mad": _multiplied_and_added,
    "shl": _shifted_left, "shr": _shifted_right, "and": _plain(operator.and_), "or": _plain(operator.or_),
    "xor": _plain(operator.xor), "not": _plain(operator.invert), "neg": _plain(operator.neg),
    "min": _plain(lambda a, b: np.minimum(a, b) if not (isinstance(a, int) and isinstance(b, int)) else min(a, b)),
    "max": _plain(lambda a, b: np.maximum(a, b) if not (isinstance(a, int) and isinstance(b, int)) else max(a, b)),
    "abs": _plain(abs), "div": _divided, "rem": _divided, "cvt": _converted, "selp": _selected, "setp": _compared,
    "lop3": _lut, "bfe": _field,
}  # fmt: skip
