"""`cvt` between all pairs of types in all roundings and modifiers, against exact fractions."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import pytest
import scalar_interpreter_floats as ieee
from float_rules import BF16, F16, F32, FORMATS, LETTERS, canonical, flushed, rectified, saturated
from instruction_forms import Form, check_forms, form, words
from scalar_interpreter_floats import Format

from warpsight.base.errors import UnsupportedError

pytestmark = pytest.mark.unit
ROUNDED, WHOLE = ("rn", "rz", "rm", "rp"), ("rni", "rzi", "rmi", "rpi")
INTEGERS = [f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64)]
FLOATS = ("f16", "bf16", "f32", "f64")
REGISTER = {8: "h", 16: "h", 32: "r", 64: "q"}


def bits_of(kind: str) -> int:
    return FORMATS[kind].bits if kind in FORMATS else int(kind[1:])


def letter(kind: str) -> str:
    return LETTERS.get(kind) or REGISTER[bits_of(kind)]


def bounds(kind: str) -> tuple[int, int]:
    bits = bits_of(kind)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def number(x: int, kind: str) -> int:
    bits = bits_of(kind)
    x &= (1 << bits) - 1
    return x - (1 << bits) if kind[0] == "s" and x >> (bits - 1) else x


def in_register(value: int, kind: str) -> int:
    """An integer result as its register holds it: 8 bits are extended to 16 by the type's sign."""
    return value & ((1 << max(bits_of(kind), 16)) - 1)


def finish(f: Format, x: int, modifiers: tuple[str, ...]) -> int:
    """A float result: the canonical NaN, `.ftz` of f32, `.sat`, `.relu`, `.satfinite`."""
    if f.is_nan(x):
        x = canonical(f)
    if "ftz" in modifiers and f.bits == 32:
        x = flushed(f, x)
    if "satfinite" in modifiers and f.is_infinite(x):
        x -= 1
    if "relu" in modifiers:
        x = rectified(f, x)
    return saturated(f, x) if "sat" in modifiers else x


def float_to_float(to: str, source: str, modifiers: tuple[str, ...]) -> Callable[[int], int]:
    f, g = FORMATS[source], FORMATS[to]
    mode = next((m for m in modifiers if m in ROUNDED), "rn")
    whole = next((m for m in modifiers if m in WHOLE), "")

    def rule(a: int) -> int:
        if "ftz" in modifiers and f.bits == 32:
            a = flushed(f, a)
        a = ieee.to_integral(f, a, whole) if whole else a
        return finish(g, ieee.convert(f, g, a, mode), modifiers)

    return rule


def float_to_integer(to: str, source: str, modifiers: tuple[str, ...]) -> Callable[[int], int]:
    """Clamped to the type. A NaN gives 0, or the top bit where a 64-bit type is involved."""
    f = FORMATS[source]
    of_nan = 1 << (bits_of(to) - 1) if source == "f64" or bits_of(to) == 64 else 0
    if of_nan and to[0] == "s":
        of_nan -= 1 << bits_of(to)

    def rule(a: int) -> int:
        a = flushed(f, a) if "ftz" in modifiers else a
        return in_register(ieee.to_integer(f, a, next(m for m in modifiers if m in WHOLE), bounds(to), of_nan), to)

    return rule


def integer_to_float(to: str, source: str, modifiers: tuple[str, ...]) -> Callable[[int], int]:
    mode = next(m for m in modifiers if m in ROUNDED)
    return lambda a: finish(FORMATS[to], FORMATS[to].rounded(Fraction(number(a, source)), False, mode), modifiers)


def integer_to_integer(to: str, source: str, saturate: bool) -> Callable[[int], int]:
    low, high = bounds(to)

    def rule(a: int) -> int:
        value = number(a, source)
        return in_register(min(max(value, low), high) if saturate else number(value, to), to)

    return rule


def cvt(to: str, source: str, modifiers: tuple[str, ...], rule: Callable[[int], int]) -> Form:
    return form(".".join(("cvt", *modifiers, to, source)), letter(to) + letter(source), rule)


def of_integers() -> Iterator[Form]:
    for to, source in words(INTEGERS, INTEGERS):
        fits = bounds(to)[0] <= bounds(source)[0] and bounds(source)[1] <= bounds(to)[1]
        for modifiers in words(("",) if fits else ("", "sat")):
            yield cvt(to, source, modifiers, integer_to_integer(to, source, bool(modifiers)))


def from_integers() -> Iterator[Form]:
    for to, source in words(FLOATS, INTEGERS):
        if to == "bf16" and bits_of(source) == 8:
            continue  # not in PTX
        flushing, limit = ("", "ftz") if to == "f32" else ("",), ("", "sat") if to != "bf16" else ("",)
        for modifiers in words(ROUNDED, flushing, limit):
            yield cvt(to, source, modifiers, integer_to_float(to, source, modifiers))


def to_integers() -> Iterator[Form]:
    for to, source in words(INTEGERS, FLOATS):
        if source == "bf16" and bits_of(to) == 8:
            continue
        flushing, limit = ("", "ftz") if source == "f32" else ("",), ("", "sat") if source != "bf16" else ("",)
        for modifiers in words(WHOLE, flushing, limit):
            yield cvt(to, source, modifiers, float_to_integer(to, source, modifiers))


def of_floats() -> Iterator[Form]:
    order = {"bf16": 0, "f16": 0, "f32": 1, "f64": 2}
    for to, source in words(FLOATS, FLOATS):
        flushing = ("", "ftz") if "f32" in (to, source) else ("",)
        limit = ("", "sat") if "bf16" not in (to, source) else ("",)
        roundings = ("", *WHOLE) if to == source else ROUNDED if order[to] < order[source] else ("",)
        if to != source and (order[to] == order[source] or (source == "bf16" and to != "f16")):
            roundings = ("", *ROUNDED)
        for modifiers in words(roundings, flushing, limit):
            yield cvt(to, source, modifiers, float_to_float(to, source, modifiers))


def to_half_with_limits() -> Iterator[Form]:
    for to in ("f16", "bf16"):
        for modifiers in words(("rn", "rz"), ("", "relu"), ("", "satfinite")):
            rule = float_to_float(to, "f32", modifiers)
            yield cvt(to, "f32", modifiers, rule)
            pair = lambda a, b, rule=rule: rule(a) << 16 | rule(b)  # noqa: E731
            yield form(".".join(("cvt", *modifiers, f"{to}x2", "f32")), LETTERS[f"{to}x2"] + "ff", pair)


def to_tf32() -> Iterator[Form]:
    """A single with 13 bits less. To nearest with ties away from zero is half of such a last bit added, the rest cut off."""
    tf32 = Format(19, 10)

    def narrowed(a: int, modifiers: tuple[str, ...]) -> int:
        if F32.is_nan(a):
            return 0x7FFFFFFF
        if F32.is_infinite(a):
            result = a >> 13
        elif "rna" in modifiers:
            result = a + 0x1000 >> 13
        else:
            result = tf32.rounded(F32.number(a), F32.is_negative(a), modifiers[0])
        if "satfinite" in modifiers and tf32.is_infinite(result):
            result -= 1
        return (rectified(tf32, result) if "relu" in modifiers else result) << 13

    for modifiers in (("rna",), ("rna", "satfinite"), *words(("rn", "rz"), ("", "relu"), ("", "satfinite"))):
        yield form(".".join(("cvt", *modifiers, "tf32.f32")), "rf", lambda a, m=modifiers: narrowed(a, m))


EIGHT = {"e4m3": (4, 3, 448.0), "e5m2": (5, 2, 57344.0)}


def value_of_eight(x: int, name: str) -> Fraction | None:
    """The value of a pattern of 8 bits; None for a NaN. Infinities of `e5m2` are as large as the next binade."""
    exponent_bits, fraction_bits, _ = EIGHT[name]
    bias = (1 << (exponent_bits - 1)) - 1
    magnitude = x & 127
    if magnitude == 127 or (name == "e5m2" and magnitude > 0x7C):
        return None
    exponent, fraction = magnitude >> fraction_bits, magnitude & ((1 << fraction_bits) - 1)
    value = Fraction(fraction + ((1 << fraction_bits) if exponent else 0)) * Fraction(2) ** (
        max(exponent, 1) - bias - fraction_bits
    )
    return -value if x >> 7 else value


def nearest_of_eight(f: Format, a: int, name: str, relu: bool) -> int:
    """By search among the values of the finite patterns, which are in order: the nearest, of two the even one; what is beyond the
    largest is the largest.
    """
    if f.is_nan(a):
        return 127
    if relu and f.is_negative(a):
        return 0
    sign = 128 if f.is_negative(a) else 0
    largest = {"e4m3": 126, "e5m2": 123}[name]
    if f.is_infinite(a):
        return sign | largest
    value, values = abs(f.number(a)), finite_values(name, largest)
    above = bisect(values, value)
    return sign | min(range(max(above - 1, 0), min(above, largest) + 1), key=lambda x: (abs(values[x] - value), x & 1))


@cache
def finite_values(name: str, largest: int) -> list[Fraction]:
    """The values of the patterns from 0 to the largest finite one."""
    return [value_of_eight(x, name) or Fraction(0) for x in range(largest + 1)]


def of_eight_bits() -> Iterator[Form]:
    for name, relu in ((n, r) for n in EIGHT for r in (False, True)):
        more = ".relu" if relu else ""

        def one(f: Format, a: int, name: str = name, relu: bool = relu) -> int:
            return nearest_of_eight(f, a, name, relu)

        yield form(f"cvt.rn.satfinite{more}.{name}x2.f32", "hff", lambda a, b, one=one: one(F32, a) << 8 | one(F32, b))
        yield form(f"cvt.rn.satfinite{more}.{name}x2.f16x2", "hX", lambda a, one=one: one(F16, a >> 16) << 8 | one(F16, a & 0xFFFF))

        def widened(x: int, name: str = name, relu: bool = relu) -> int:
            value = value_of_eight(x, name)
            if value is None:
                infinite = name == "e5m2" and x & 127 == 0x7C
                result = F16.infinity | (x & 128) << 8 if infinite else 0x7FFF
            else:
                result = F16.rounded(value, bool(x >> 7))
            return rectified(F16, result) if relu else result

        widened_both = lambda a, w=widened: w(a >> 8) << 16 | w(a & 255)  # noqa: E731
        yield form(f"cvt.rn{more}.f16x2.{name}x2", "Xh", widened_both)
        yield form(f"cvt.rn{more}.f16x2.{name}x2", "XH", widened_both)


def packed_integers() -> Iterator[Form]:
    for kind in ("u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"):
        bits = int(kind[1:])

        def limited(x: int, kind: str = kind, bits: int = bits) -> int:
            low, high = bounds(kind)
            return min(max(number(x, "s32"), low), high) & ((1 << bits) - 1)

        if bits == 16:
            yield form(f"cvt.pack.sat.{kind}.s32", "rrr", lambda a, b, f=limited: f(a) << 16 | f(b))
        else:
            yield form(
                f"cvt.pack.sat.{kind}.s32.b32", "rrrr",
                lambda a, b, c, f=limited, n=bits: (c << 2 * n | f(a) << n | f(b)) & 0xFFFFFFFF,
            )  # fmt: skip


FAMILIES = [
    of_integers, from_integers, to_integers, of_floats, to_half_with_limits, to_tf32, of_eight_bits, packed_integers,
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_conversion_gives_what_the_ptx_isa_defines(family: Callable[[], Iterator[Form]]) -> None:
    check_forms(list(family()))


@pytest.mark.parametrize(
    "text", ["cvt.f32.f64", "cvt.s32.f32", "cvt.rni.f32.f64", "cvt.ftz.s32.s64", "cvt.rn.relu.f32.f64", "cvt.rna.f16.f32"]
)
def test_conversion_that_ptx_lacks_is_refused(text: str) -> None:
    _, *_, to, source = text.split(".")
    with pytest.raises(UnsupportedError, match=text):
        check_forms([form(text, letter(to) + letter(source), lambda a: 0)])


def test_widest_formats_are_as_the_isa_has_them() -> None:
    assert (F16.infinity, BF16.infinity, F32.infinity) == (0x7C00, 0x7F80, 0x7F800000)
