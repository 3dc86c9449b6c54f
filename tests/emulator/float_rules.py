"""What floating-point instructions of any width compute, on bit patterns, with one exact rounding (PTX ISA, floating point).

Built on `scalar_interpreter_floats`, which has the four operations of arithmetic; here are the modifiers and the narrow formats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import scalar_interpreter_floats as ieee
from scalar_interpreter_floats import Format

F16, BF16, F32, F64 = Format(16, 10), Format(16, 7), ieee.F32, ieee.F64
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
LETTERS = {"f16": "H", "bf16": "B", "f32": "f", "f64": "d", "f16x2": "X", "bf16x2": "Y"}
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]


def canonical(f: Format) -> int:
    """The NaN that instructions give: 0x7FFF, 0x7FFFFFFF, 0x7FF8000000000000."""
    return 0x7FF8 << 48 if f.bits == 64 else f.sign - 1


def flushed(f: Format, x: int) -> int:
    """A denormal as a zero of its sign."""
    return x & f.sign if x & ~f.sign < 1 << f.fraction else x


def saturated(f: Format, x: int) -> int:
    """`.sat`: into [0, 1]; NaN and -0 to +0."""
    one = f.rounded(Fraction(1))
    if f.is_nan(x) or f.is_negative(x):
        return 0
    return min(x, one)


def rectified(f: Format, x: int) -> int:
    """`.relu`: negative numbers to +0."""
    return 0 if f.is_negative(x) and not f.is_nan(x) else x


def finished(f: Format, x: int, modifiers: tuple[str, ...]) -> int:
    """The modifiers that work on a result."""
    if f.is_nan(x):
        x = canonical(f)
    if "ftz" in modifiers:
        x = flushed(f, x)
    if "sat" in modifiers:
        x = saturated(f, x)
    return rectified(f, x) if "relu" in modifiers else x


def mode_of(modifiers: tuple[str, ...]) -> str:
    return next((m for m in modifiers if m in ("rn", "rz", "rm", "rp", "rna")), "rn")


def square_root(f: Format, a: int, mode: str) -> int:
    """The root, rounded: exact below by an integer root with far more bits than the result, and a sticky bit."""
    if mode == "rn" or f.is_nan(a) or f.is_infinite(a) or f.is_negative(a) or a == 0:
        return ieee.square_root(f, a)
    scaled = f.number(a) * 4**1300
    root = math.isqrt(int(scaled))
    sticky = Fraction(int(root * root != scaled), 2)
    return f.rounded((root + sticky) / 2**1300, False, mode)


def subtract(f: Format, a: int, b: int, mode: str) -> int:
    return ieee.add(f, a, b if f.is_nan(b) else b ^ f.sign, mode)


_OPERATIONS: dict[str, Callable[..., int]] = {
    "add": ieee.add, "sub": subtract, "mul": ieee.multiply, "div": ieee.divide, "fma": ieee.fma, "mad": ieee.fma,
    "rcp": lambda f, a, mode: ieee.divide(f, f.rounded(Fraction(1)), a, mode), "sqrt": square_root,
}  # fmt: skip


def arithmetic(opcode: str, f: Format, modifiers: tuple[str, ...]) -> Callable[..., int]:
    """The rule of an operation with rounding, `.ftz`, `.sat`, `.relu`."""

    def rule(*sources: int) -> int:
        taken = [flushed(f, x) for x in sources] if "ftz" in modifiers else sources
        return finished(f, _OPERATIONS[opcode](f, *taken, mode_of(modifiers)), modifiers)

    return rule


def extreme(opcode: str, f: Format, modifiers: tuple[str, ...]) -> Callable[[int, int], int]:
    """The rule of `min` and `max`."""

    def rule(a: int, b: int) -> int:
        if "ftz" in modifiers:
            a, b = flushed(f, a), flushed(f, b)
        sign = (a ^ b) & f.sign
        if "abs" in modifiers:
            a, b = a & ~f.sign, b & ~f.sign
        nans = f.is_nan(a) + f.is_nan(b)
        if nans == 2 or (nans and "NaN" in modifiers):
            return canonical(f)
        result = (ieee.least if opcode == "min" else ieee.greatest)(f, a, b)
        return result | sign if "abs" in modifiers else result

    return rule


def sign_rule(opcode: str, f: Format, modifiers: tuple[str, ...]) -> Callable[[int], int]:
    """`neg` and `abs` change the sign bit, also of a NaN."""

    def rule(a: int) -> int:
        if "ftz" in modifiers:
            a = flushed(f, a)
        return a ^ f.sign if opcode == "neg" else a & ~f.sign

    return rule


def in_pairs(rule: Callable[..., int]) -> Callable[..., int]:
    """A rule on 16 bits for both halves of 32."""
    return lambda *xs: rule(*(x & 0xFFFF for x in xs)) | rule(*(x >> 16 for x in xs)) << 16


def as_float(f: Format, x: int) -> float:
    """A pattern as a Python float (exact for all formats here)."""
    if f.is_nan(x):
        return math.nan
    if f.is_infinite(x):
        return -math.inf if f.is_negative(x) else math.inf
    return math.copysign(float(f.number(x)), -1.0 if f.is_negative(x) else 1.0)


def any_nan(f: Format) -> Callable[[int], bool]:
    """Judges a result that may be any NaN."""
    return f.is_nan
