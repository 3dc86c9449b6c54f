"""Floating-point instructions of f32 and f64 in all roundings and modifiers, against exact arithmetic on fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
from float_rules import F32, F64, LETTERS, any_nan, arithmetic, as_float, canonical, extreme, flushed, sign_rule
from instruction_forms import Form, Judge, check_forms, form, near, words
from scalar_interpreter_floats import Format

pytestmark = pytest.mark.unit
ROUNDED = ("rn", "rz", "rm", "rp")
OPTIONAL = ("", *ROUNDED)


def nan_is_open(f: Format, rule: Callable[..., int]) -> Callable[..., int | Judge]:
    """The ISA does not say which NaN arithmetic of f32 and f64 gives."""

    def relaxed(*sources: int) -> int | Judge:
        result = rule(*sources)
        return any_nan(f) if f.is_nan(result) else result

    return relaxed


def _arithmetic(opcode: str, roundings: tuple[str, ...], operands: int, saturate: bool) -> Iterator[Form]:
    for kind, f in (("f32", F32), ("f64", F64)):
        flushing, limits = (("", "ftz"), ("", "sat") if saturate else ("",)) if kind == "f32" else (("",), ("",))
        for modifiers in words(roundings, flushing, limits):
            rule = nan_is_open(f, arithmetic(opcode, f, modifiers))
            yield form(".".join((opcode, *modifiers, kind)), LETTERS[kind] * (1 + operands), rule)


def add() -> Iterator[Form]:
    return _arithmetic("add", OPTIONAL, 2, True)


def sub() -> Iterator[Form]:
    return _arithmetic("sub", OPTIONAL, 2, True)


def mul() -> Iterator[Form]:
    return _arithmetic("mul", OPTIONAL, 2, True)


def fma() -> Iterator[Form]:
    return _arithmetic("fma", ROUNDED, 3, True)


def mad() -> Iterator[Form]:
    return _arithmetic("mad", ROUNDED, 3, True)


def div() -> Iterator[Form]:
    return _arithmetic("div", ROUNDED, 2, False)


def rcp() -> Iterator[Form]:
    return _arithmetic("rcp", ROUNDED, 1, False)


def sqrt() -> Iterator[Form]:
    return _arithmetic("sqrt", ROUNDED, 1, False)


def signs_and_extremes() -> Iterator[Form]:
    for kind, f in (("f32", F32), ("f64", F64)):
        r, flushing = LETTERS[kind], ("", "ftz") if kind == "f32" else ("",)
        for opcode, modifiers in ((o, m) for o in ("neg", "abs") for m in words(flushing)):
            yield form(".".join((opcode, *modifiers, kind)), r * 2, sign_rule(opcode, f, modifiers))
        more = (("", "NaN"), ("", "xorsign.abs")) if kind == "f32" else ()
        for opcode, chosen in ((o, m) for o in ("min", "max") for m in words(flushing, *more)):
            modifiers = tuple(".".join(chosen).split("."))
            yield form(".".join((opcode, *chosen, kind)), r * 3, extreme(opcode, f, modifiers))
        three = ((o, m) for o in ("min", "max") for m in words(flushing, ("", "NaN"), ("", "abs"))) if kind == "f32" else ()
        for opcode, modifiers in three:
            yield form(".".join((opcode, *modifiers, kind)), r * 4, _extreme_of_three(opcode, f, modifiers))
        yield form(f"copysign.{kind}", r * 3, lambda a, b, f=f: b & ~f.sign | a & f.sign)
        yield form(f"mov.{kind}", r * 2, lambda a: a)


def _extreme_of_three(opcode: str, f: Format, modifiers: tuple[str, ...]) -> Callable[[int, int, int], int]:
    """PTX ISA 8.8: the numbers among three sources are compared; with .NaN a NaN wins; .abs is of all sources."""

    def rule(*sources: int) -> int:
        values = [flushed(f, each) if "ftz" in modifiers else each for each in sources]
        numbers = [each & ~f.sign if "abs" in modifiers else each for each in values if not f.is_nan(each)]
        if not numbers or (len(numbers) < 3 and "NaN" in modifiers):
            return canonical(f)
        # As integers of sign and magnitude, floats are in order, and -0 is below +0.
        order = sorted(numbers, key=lambda each: -(each & ~f.sign) * 2 - 1 if each & f.sign else each * 2)
        return order[0] if opcode == "min" else order[-1]

    return rule


def kinds_of_numbers() -> Iterator[Form]:
    for kind, f in (("f32", F32), ("f64", F64)):
        tests: dict[str, Callable[[int, Format], bool]] = {
            "finite": lambda x, f: not f.is_nan(x) and not f.is_infinite(x),
            "infinite": lambda x, f: f.is_infinite(x),
            "number": lambda x, f: not f.is_nan(x),
            "notanumber": lambda x, f: f.is_nan(x),
            "normal": lambda x, f: (  # zeros are normal numbers
                not f.is_nan(x)
                and not f.is_infinite(x)
                and (x & ~f.sign == 0 or abs(as_float(f, x)) >= math.ldexp(1, f.lowest + f.fraction))
            ),
            "subnormal": lambda x, f: 0 < abs(as_float(f, x)) < math.ldexp(1, f.lowest + f.fraction),
        }
        for name, test in tests.items():
            yield form(f"testp.{name}.{kind}", "p" + LETTERS[kind], lambda x, f=f, test=test: int(test(x, f)))


# Documented errors: relative ones in units of 2**n, absolute ones where the ISA gives those.
def _close(
    opcode: str, exact: Callable[[float], float], absolute: float, relative: float, flushes: bool
) -> Callable[[int], Judge | int]:
    def rule(a: int) -> Judge | int:
        x = as_float(F32, flushed(F32, a) if flushes else a)
        try:
            wanted = exact(x)
        except (ValueError, OverflowError, ZeroDivisionError):
            wanted = {"lg2": -math.inf if x == 0 else math.nan, "ex2": math.inf}.get(opcode, math.nan)
            if opcode in ("rcp", "rsqrt") and x == 0:
                wanted = math.copysign(math.inf, x)
        if math.isnan(wanted):
            return any_nan(F32)
        if abs(wanted) >= 2.0**128:
            return F32.infinity | (F32.sign if wanted < 0 else 0)
        if opcode in ("sin", "cos") and abs(x) > math.pi:  # beyond, the error grows with the argument
            wanted, absolute_here = 0, 1.0
        else:
            absolute_here = absolute
        tiny = 2.0**-126 if flushes else 2.0**-149
        return near(wanted, max(absolute_here, tiny if abs(wanted) < 2.0**-125 else 0), relative, lambda got: as_float(F32, got))

    return rule


def approximations() -> Iterator[Form]:
    functions: dict[str, tuple[Callable[[float], float], float, float]] = {
        "rcp": (lambda x: 1 / x, 0, 2.0**-23),
        "sqrt": (math.sqrt, 0, 2.0**-23),
        "rsqrt": (lambda x: 1 / math.sqrt(x), 0, 2.0**-22.9),
        "lg2": (math.log2, 2.0**-22, 2.0**-22),
        "ex2": (lambda x: 2.0**x, 0, 2.0**-22),
        "sin": (math.sin, 2.0**-20.5, 0),
        "cos": (math.cos, 2.0**-20.5, 0),
    }
    for opcode, (exact, absolute, relative) in functions.items():
        for flush in ("", ".ftz"):
            yield form(f"{opcode}.approx{flush}.f32", "ff", _close(opcode, exact, absolute, relative, bool(flush)))
    yield form("tanh.approx.f32", "ff", _close("tanh", math.tanh, 0, 2.0**-11, False))
    for opcode, name in (("div", "approx"), ("div", "full")):
        for flush in ("", ".ftz"):
            yield form(f"{opcode}.{name}{flush}.f32", "fff", _quotient(name, bool(flush)))
    yield form("rsqrt.approx.f64", "dd", _coarse(lambda x: 1 / math.sqrt(x), 2.0**-50, False))
    yield form("rsqrt.approx.ftz.f64", "dd", _coarse(lambda x: 1 / math.sqrt(x), 2.0**-19, True))
    yield form("rcp.approx.ftz.f64", "dd", _coarse(lambda x: 1 / x, 2.0**-19, True))


def _quotient(name: str, flushes: bool) -> Callable[[int, int], Judge | int]:
    """Within 2 units of the last place; with `.approx` nothing is left of a quotient by more than 2**126."""

    def rule(a: int, b: int) -> Judge | int:
        if flushes:
            a, b = flushed(F32, a), flushed(F32, b)
        size = abs(as_float(F32, b))
        if name == "approx" and 2.0**126 < size < math.inf and not F32.is_nan(a):
            return any_nan(F32) if F32.is_infinite(a) else (a ^ b) & F32.sign
        exact = arithmetic("div", F32, ())(a, b)
        if F32.is_nan(exact):
            return any_nan(F32)
        if F32.is_infinite(exact):
            return exact
        value = as_float(F32, exact)
        return near(value, 2.0**-126 if flushes else 2.0**-148, 2.0**-22, lambda got: as_float(F32, got))

    return rule


def _coarse(exact: Callable[[float], float], relative: float, upper: bool) -> Callable[[int], Judge | int]:
    """Doubles; with `upper` from and to their upper 32 bits, without denormals."""

    def rule(a: int) -> Judge | int:
        if upper and not F64.is_nan(a):
            a = flushed(F64, a & ~0xFFFFFFFF)
        x = as_float(F64, a)
        try:
            wanted = exact(x)
        except ZeroDivisionError:
            wanted = math.copysign(math.inf, x)
        except (ValueError, OverflowError):
            wanted = math.nan
        if math.isnan(wanted):
            return any_nan(F64)
        if math.isinf(wanted):
            return F64.infinity | (F64.sign if wanted < 0 else 0)
        fits = near(wanted, 2.0**-1022 if upper else 0, relative, lambda got: as_float(F64, got))
        return lambda got: fits(got) and (not upper or got & 0xFFFFFFFF == 0)

    return rule


FAMILIES = [add, sub, mul, fma, mad, div, rcp, sqrt, signs_and_extremes, kinds_of_numbers, approximations]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_float_instruction_gives_what_the_ptx_isa_defines(family: Callable[[], Iterator[Form]]) -> None:
    check_forms(list(family()))
