"""IEEE 754 arithmetic on bit patterns, exact by way of fractions: one correct rounding, whatever the host does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache


@cache
def power_of_two(exponent: int) -> Fraction:
    """2 to an exponent of either sign; `Fraction(2) ** exponent` is the slowest step of all that is done here."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


@dataclass(frozen=True)
class Format:
    """A binary interchange format: its bits, and how many of them are the fraction."""

    bits: int
    fraction: int

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        """The pattern of +infinity."""
        return ((1 << (self.bits - 1 - self.fraction)) - 1) << self.fraction

    @property
    def nan(self) -> int:
        """A quiet NaN. Which one is not for a test to say: NaN equals NaN."""
        return self.infinity | 1 << (self.fraction - 1)

    @property
    def lowest(self) -> int:
        """Exponent of the unit in the last place of the smallest numbers."""
        return 2 - (1 << (self.bits - 2 - self.fraction)) - self.fraction

    def is_nan(self, x: int) -> bool:
        """Any NaN."""
        return x & ~self.sign > self.infinity

    def is_infinite(self, x: int) -> bool:
        """Either infinity."""
        return x & ~self.sign == self.infinity

    def is_negative(self, x: int) -> bool:
        """The sign bit, of whatever."""
        return bool(x & self.sign)

    def number(self, x: int) -> Fraction:
        """The exact value of a finite pattern."""
        magnitude = x & ~self.sign
        exponent, fraction = magnitude >> self.fraction, magnitude & ((1 << self.fraction) - 1)
        if exponent:
            fraction |= 1 << self.fraction
        value = fraction * power_of_two(max(exponent, 1) - 1 + self.lowest)
        return -value if self.is_negative(x) else value

    def rounded(self, value: Fraction, negative_zero: bool = False, mode: str = "rn") -> int:
        """The pattern nearest to `value` (`mode` rn, ties to even; rz, rm, rp directed). Zero takes the sign asked for."""
        if value == 0:
            return self.sign if negative_zero else 0
        sign = self.sign if value < 0 else 0
        magnitude = abs(value)
        exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        if power_of_two(exponent) > magnitude:
            exponent -= 1
        unit = max(exponent - self.fraction, self.lowest)
        scaled = magnitude * power_of_two(-unit)
        steps = _to_integer(scaled, {"rn": "rn", "rz": "rz", "rm": "rp" if sign else "rz", "rp": "rz" if sign else "rp"}[mode])
        # A pattern counts upwards through the binades, so that a carry lands where it must.
        pattern = steps + ((unit - self.lowest) << self.fraction)
        if pattern >= self.infinity:
            towards_zero = mode == "rz" or (mode == "rm" and not sign) or (mode == "rp" and sign)
            pattern = self.infinity - 1 if towards_zero else self.infinity
        return sign | pattern


def _to_integer(value: Fraction, mode: str) -> int:
    if mode == "rz":
        return math.trunc(value)
    if mode == "rm":
        return math.floor(value)
    return math.ceil(value) if mode == "rp" else round(value)  # round() of a Fraction goes to even


F32, F64 = Format(32, 23), Format(64, 52)
FORMATS = {"f32": F32, "f64": F64}


def add(f: Format, a: int, b: int, mode: str = "rn") -> int:
    """a + b."""
    return fma(f, a, f.rounded(Fraction(1)), b, mode)


def fma(f: Format, a: int, b: int, c: int, mode: str = "rn") -> int:
    """a * b + c with one rounding."""
    if f.is_nan(a) or f.is_nan(b) or f.is_nan(c):
        return f.nan
    negative = f.is_negative(a) != f.is_negative(b)
    if f.is_infinite(a) or f.is_infinite(b):
        if 0 in (a & ~f.sign, b & ~f.sign) or (f.is_infinite(c) and f.is_negative(c) != negative):
            return f.nan
        return f.infinity | (f.sign if negative else 0)
    if f.is_infinite(c):
        return c
    product, addend = f.number(a) * f.number(b), f.number(c)
    # Only matters if the sum is exactly zero, when the two signs are either one, or cancel.
    minus = negative if negative == f.is_negative(c) else mode == "rm"
    return f.rounded(product + addend, minus, mode)


def multiply(f: Format, a: int, b: int, mode: str = "rn") -> int:
    """a * b."""
    if f.is_nan(a) or f.is_nan(b):
        return f.nan
    negative = f.is_negative(a) != f.is_negative(b)
    if f.is_infinite(a) or f.is_infinite(b):
        return f.nan if 0 in (a & ~f.sign, b & ~f.sign) else f.infinity | (f.sign if negative else 0)
    return f.rounded(f.number(a) * f.number(b), negative, mode)


def divide(f: Format, a: int, b: int, mode: str = "rn") -> int:
    """a / b."""
    if f.is_nan(a) or f.is_nan(b):
        return f.nan
    sign = f.sign if f.is_negative(a) != f.is_negative(b) else 0
    if f.is_infinite(a):
        return f.nan if f.is_infinite(b) else f.infinity | sign
    if f.is_infinite(b):
        return sign
    if f.number(b) == 0:
        return f.nan if f.number(a) == 0 else f.infinity | sign
    return f.rounded(f.number(a) / f.number(b), bool(sign), mode)


def square_root(f: Format, a: int) -> int:
    """The square root, to nearest."""
    if f.is_nan(a) or (f.is_negative(a) and a != f.sign):
        return f.nan
    if f.is_infinite(a) or a & ~f.sign == 0:
        return a
    # The root of a scaled integer, with a sticky last bit: far below half a unit, so that the rounding sees what it must.
    shift = 2 * (f.fraction + 600)
    root = math.isqrt(scaled := int(f.number(a) * 2**shift * 2 ** (2 * f.bits)))
    sticky = int(root * root != scaled or f.number(a) * 2**shift * 2 ** (2 * f.bits) != scaled)
    return f.rounded(Fraction(2 * root + sticky, 2) / 2 ** (shift // 2 + f.bits))


def least(f: Format, a: int, b: int) -> int:
    """min: a number wins over NaN, -0 is below +0."""
    if f.is_nan(a) or f.is_nan(b):
        return f.nan if f.is_nan(a) and f.is_nan(b) else (b if f.is_nan(a) else a)
    return a if _order(f, a) <= _order(f, b) else b


def greatest(f: Format, a: int, b: int) -> int:
    """max: a number wins over NaN, +0 is above -0."""
    if f.is_nan(a) or f.is_nan(b):
        return least(f, a, b)
    return a if _order(f, a) >= _order(f, b) else b


def _order(f: Format, x: int) -> int:
    return -(x & ~f.sign) * 2 - 1 if f.is_negative(x) else x * 2


def compare(f: Format, name: str, a: int, b: int) -> bool:
    """A comparison of setp: ordered (eq, lt, ...), unordered (equ, ltu, ...), num or nan."""
    unordered = f.is_nan(a) or f.is_nan(b)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if unordered:
        return name.endswith("u")
    x, y = (_value(f, v) for v in (a, b))
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[name[:2]]


def _value(f: Format, x: int) -> Fraction:
    if f.is_infinite(x):
        return Fraction(-1 if f.is_negative(x) else 1) * Fraction(2) ** (1 << (f.bits - 1 - f.fraction))
    return f.number(x)


def to_integer(f: Format, a: int, mode: str, bounds: tuple[int, int], of_nan: int) -> int:
    """A float as an integer, rounded by `mode` (rni, rzi, rmi, rpi) and clamped to `bounds`."""
    if f.is_nan(a):
        return of_nan
    low, high = bounds
    if f.is_infinite(a):
        return low if f.is_negative(a) else high
    return min(max(_to_integer(f.number(a), mode[:2]), low), high)


def to_integral(f: Format, a: int, mode: str) -> int:
    """A float rounded to a whole number, still a float; the sign stays."""
    if f.is_nan(a) or f.is_infinite(a):
        return f.nan if f.is_nan(a) else a
    return f.rounded(Fraction(_to_integer(f.number(a), mode[:2])), f.is_negative(a))


def convert(source: Format, target: Format, a: int, mode: str) -> int:
    """A float in another format."""
    if source.is_nan(a):
        return target.nan
    if source.is_infinite(a):
        return target.infinity | (target.sign if source.is_negative(a) else 0)
    return target.rounded(source.number(a), source.is_negative(a), mode)
