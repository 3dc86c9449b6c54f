"""What the analysis knows of a register: a number for every thread, plus multiples of loop counters; or nothing, and why.

Threads are those of the blocks looked at together, flat. A known value is `const + sum(coefficient x counter)`, each a Python int
where it is the same for all threads, else int64 [threads]. 32-bit values are kept as signed numbers; loop counters are taken not to
wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

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
    counters = frozenset(name for value in values if isinstance(value, Linear) for name in value.terms)
    if counters:
        return Later(counters)
    result: Content = combine(*(value.const for value in values if isinstance(value, Linear)))
    return result


def _not_linear(*values: Content) -> Unknown | Later | None:
    for value in values:
        if isinstance(value, Unknown):
            return value
    later = [value for value in values if not isinstance(value, Linear)]
    if not later:
        return None
    return Later(frozenset().union(*(counters_of(value) for value in values)))


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
    for value in (new, old):
        if isinstance(value, Unknown):
            return value
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
    return linear(rest, product(Linear(value.terms[name]), by, 64), lambda a, b: a + b, 64)


def same(a: Content, b: Content) -> bool:
    """The two are the same for all threads, as far as can be seen cheaply."""
    if a is b:
        return True
    if isinstance(a, Linear) and isinstance(b, Linear):
        return a.terms.keys() == b.terms.keys() and all(
            np.array_equal(x, y) for x, y in ((a.const, b.const), *((a.terms[key], b.terms[key]) for key in a.terms))
        )
    return isinstance(a, bool) and isinstance(b, bool) and a == b
