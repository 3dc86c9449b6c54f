"""What atomic operations give, on bit patterns, by exact arithmetic: written from the PTX ISA, without the emulator's code."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scalar_interpreter_floats import power_of_two


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: bits in all, of the significand (its hidden one included), and the largest exponent."""

    bits: int
    precision: int
    highest: int

    @property
    def infinity(self) -> int:
        """The pattern of +infinity; patterns above it, without the sign, are NaNs."""
        return (2 * self.highest + 1) << (self.precision - 1)

    @property
    def nan(self) -> int:
        """PTX's canonical NaN: all ones but the sign; of doubles the quiet NaN without payload."""
        return 0x7FF8 << 48 if self.bits == 64 else (1 << (self.bits - 1)) - 1

    def split(self, pattern: int) -> tuple[int, int]:
        """Sign and the rest."""
        return pattern >> (self.bits - 1), pattern & ((1 << (self.bits - 1)) - 1)

    def is_nan(self, pattern: int) -> bool:
        """Whether a pattern is a NaN."""
        return self.split(pattern)[1] > self.infinity

    def value(self, pattern: int) -> Fraction:
        """The number that a finite pattern stands for."""
        sign, rest = self.split(pattern)
        exponent, fraction = divmod(rest, 1 << (self.precision - 1))
        if exponent:
            fraction += 1 << (self.precision - 1)
        scale = max(exponent, 1) - self.highest - (self.precision - 1)
        return (-1) ** sign * fraction * power_of_two(scale)

    def nearest(self, value: Fraction, sign_of_zero: int) -> int:
        """The pattern nearest to a number, ties to even, overflow to infinity."""
        if not value:
            return sign_of_zero << (self.bits - 1)
        sign, size = int(value < 0), abs(value)
        lowest = 1 - self.highest - (self.precision - 1)  # of the last place of the smallest numbers
        scale = max(lowest, size.numerator.bit_length() - size.denominator.bit_length() - self.precision)
        while size >= power_of_two(scale + self.precision):
            scale += 1
        # round() of a Fraction rounds half to even, and an overflow of the significand carries into the exponent.
        whole = round(size * power_of_two(-scale))
        pattern = whole + ((scale - lowest) << (self.precision - 1))
        return sign << (self.bits - 1) | min(pattern, self.infinity)


FORMATS = {"f16": Format(16, 11, 15), "bf16": Format(16, 8, 127), "f32": Format(32, 24, 127), "f64": Format(64, 53, 1023)}


def add(kind: str, a: int, b: int, flush: bool = False) -> int:
    """a + b of a float type, rounded to nearest even; with `flush` denormals are zeros of their sign, before and after."""
    form = FORMATS[kind]

    def flushed(pattern: int) -> int:
        sign, rest = form.split(pattern)
        return sign << (form.bits - 1) if flush and rest < 1 << (form.precision - 1) else pattern

    a, b = flushed(a), flushed(b)
    (sign_a, rest_a), (sign_b, rest_b) = form.split(a), form.split(b)
    infinite = [sign for sign, rest in ((sign_a, rest_a), (sign_b, rest_b)) if rest == form.infinity]
    if form.is_nan(a) or form.is_nan(b) or len(set(infinite)) == 2:
        return form.nan
    if infinite:
        return infinite[0] << (form.bits - 1) | form.infinity
    return flushed(form.nearest(form.value(a) + form.value(b), sign_a & sign_b))


def extreme(operation: str, kind: str, a: int, b: int) -> int:
    """min or max of halves: a number wins over a NaN, and -0 is below +0."""
    form = FORMATS[kind]
    numbers = [x for x in (a, b) if not form.is_nan(x)]
    if not numbers:
        return form.nan

    def rank(pattern: int) -> int:
        sign, rest = form.split(pattern)
        return -rest - 1 if sign else rest

    return (min if operation == "min" else max)(numbers, key=rank)


def integer(operation: str, kind: str, old: int, b: int, c: int = 0) -> int:
    """The new value of an integer operation on bit patterns."""
    bits = int(kind[1:])
    span = 1 << bits

    def number(x: int) -> int:
        return x - span if kind[0] == "s" and x >> (bits - 1) else x

    return {
        "add": lambda: (old + b) % span,
        "and": lambda: old & b,
        "or": lambda: old | b,
        "xor": lambda: old ^ b,
        "exch": lambda: b,
        "cas": lambda: c if old == b else old,
        "inc": lambda: 0 if old >= b else old + 1,
        "dec": lambda: b if old == 0 or old > b else old - 1,
        "min": lambda: min(old, b, key=number),
        "max": lambda: max(old, b, key=number),
    }[operation]()


def apply(operation: str, kind: str, old: int, b: int, c: int = 0, flush: bool = False) -> int:
    """The new value of any operation; packed halves are two values, the first in the low bits."""
    if kind.endswith("x2"):
        parts = [apply(operation, kind[:-2], old >> s & 0xFFFF, b >> s & 0xFFFF) for s in (0, 16)]
        return parts[0] | parts[1] << 16
    if kind in FORMATS and operation == "add":
        return add(kind, old, b, flush and kind == "f32")
    if kind in FORMATS and operation in ("min", "max"):
        return extreme(operation, kind, old, b)
    return integer(operation, f"b{FORMATS[kind].bits}" if kind in FORMATS else kind, old, b, c)
