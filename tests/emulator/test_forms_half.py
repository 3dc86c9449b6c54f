"""Arithmetic of f16, bf16 and pairs of them in all modifiers, against exact arithmetic on fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from float_rules import FORMATS, LETTERS, arithmetic, as_float, extreme, flushed, in_pairs, sign_rule
from instruction_forms import Form, Judge, check_forms, form, near, words
from scalar_interpreter_floats import Format

import warpsight
from warpsight.base.errors import UnsupportedError

pytestmark = pytest.mark.unit
NAMES = ("f16", "bf16")


def _of_one_and_two(name: str, opcode: str, modifiers: tuple[str, ...], operands: int, rule: Callable[..., int]) -> Iterator[Form]:
    """The instruction of one value and of a pair of them."""
    yield form(".".join((opcode, *modifiers, name)), LETTERS[name] * (1 + operands), rule)
    yield form(".".join((opcode, *modifiers, f"{name}x2")), LETTERS[f"{name}x2"] * (1 + operands), in_pairs(rule))


def sums_and_products() -> Iterator[Form]:
    for opcode in ("add", "sub", "mul"):
        for name in NAMES:
            more = (("", "ftz"), ("", "sat")) if name == "f16" else ()
            for modifiers in words(("", "rn"), *more):
                yield from _of_one_and_two(name, opcode, modifiers, 2, arithmetic(opcode, FORMATS[name], modifiers))


def fused() -> Iterator[Form]:
    for name in NAMES:
        more = (("", "ftz"), ("", "sat", "relu")) if name == "f16" else (("", "relu"),)
        for modifiers in words(("rn",), *more):
            yield from _of_one_and_two(name, "fma", modifiers, 3, arithmetic("fma", FORMATS[name], modifiers))


def signs_and_extremes() -> Iterator[Form]:
    for name in NAMES:
        flushing = ("", "ftz") if name == "f16" else ("",)
        for opcode, modifiers in ((o, m) for o in ("neg", "abs") for m in words(flushing)):
            yield from _of_one_and_two(name, opcode, modifiers, 1, sign_rule(opcode, FORMATS[name], modifiers))
        for opcode, chosen in ((o, m) for o in ("min", "max") for m in words(flushing, ("", "NaN"), ("", "xorsign.abs"))):
            modifiers = tuple(".".join(chosen).split("."))
            yield from _of_one_and_two(name, opcode, chosen, 2, extreme(opcode, FORMATS[name], modifiers))


def _close(
    f: Format, exact: Callable[[float], float], absolute: float, relative: float, flushes: bool
) -> Callable[[int], Judge | int]:
    def rule(a: int) -> Judge | int:
        x = as_float(f, flushed(f, a) if flushes else a)
        try:
            wanted = exact(x)
        except OverflowError:
            wanted = math.inf
        if math.isnan(wanted):
            return f.sign - 1
        largest = as_float(f, f.infinity - 1)
        if wanted > largest * (1 + 2.0 ** -(f.fraction + 2)):
            return f.infinity
        least = 2.0 ** (f.lowest + (f.fraction if flushes else 0))
        return near(wanted, max(absolute, least), relative, lambda got: min(as_float(f, got), largest))

    return rule


def approximations() -> Iterator[Form]:
    """Errors as the ISA documents them: of ex2 relative, 2**-9.9 and 2**-7; of tanh absolute, 2**-10.987 and 2**-8."""
    for name, opcode, words_, exact, absolute, relative in (
        ("f16", "ex2", ("approx",), lambda x: 2.0**x, 0, 2.0**-9.9),
        ("bf16", "ex2", ("approx", "ftz"), lambda x: 2.0**x, 0, 2.0**-7),
        ("f16", "tanh", ("approx",), math.tanh, 2.0**-10.987, 0),
        ("bf16", "tanh", ("approx",), math.tanh, 2.0**-8, 0),
    ):
        f = FORMATS[name]
        rule = _close(f, exact, absolute, relative, "ftz" in words_)
        yield form(".".join((opcode, *words_, name)), LETTERS[name] * 2, rule)

        def both(a: int, rule: Callable[[int], Judge | int] = rule) -> Judge:
            low, high = rule(a & 0xFFFF), rule(a >> 16)
            return lambda got: all(r(x) if callable(r) else r == x for r, x in ((low, got & 0xFFFF), (high, got >> 16)))

        yield form(".".join((opcode, *words_, f"{name}x2")), LETTERS[f"{name}x2"] * 2, both)


FAMILIES = [sums_and_products, fused, signs_and_extremes, approximations]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_half_precision_instruction_gives_what_the_ptx_isa_defines(family: Callable[[], Iterator[Form]]) -> None:
    check_forms(list(family()))


@pytest.mark.parametrize(
    "text",
    [
        "add.sat.bf16 {d}, {0}, {1}", "add.ftz.bf16 {d}, {0}, {1}", "fma.rz.bf16 {d}, {0}, {1}, {1}", "mul.rz.f16 {d}, {0}, {1}",
        "fma.rn.oob.bf16 {d}, {0}, {1}, {1}", "min.xorsign.bf16 {d}, {0}, {1}", "ex2.approx.bf16 {d}, {0}",
    ],
)  # fmt: skip
def test_half_precision_instruction_that_ptx_lacks_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split(maxsplit=1)[0]):
        check_forms([Form(text, "BBB", lambda a, b: 0)])


def test_machine_code_of_sm_90_takes_the_largest_of_three_pairs() -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .b64 %x, %y, %q; .reg .b32 %i, %a, %b, %c;
    ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; mov.u32 %i, %tid.x; mul.wide.u32 %q, %i, 4;
    add.u64 %x, %x, %q; add.u64 %y, %y, %q;
    ld.global.b32 %a, [%x]; ld.global.b32 %b, [%x+128]; ld.global.b32 %c, [%x+256];
    max.f16x2 %a, %a, %b; max.f16x2 %a, %a, %c; st.global.b32 [%y], %a;
    ret;
}
"""
    x, y = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float16), np.zeros(64, np.float16)
    x[0, 3], x[1, 5], x[2, 7] = np.nan, np.inf, -0.0
    trace = warpsight.trace(text, grid=1, block=32, args=[x, y], level="sass", arch="90")
    assert "VHMNMX" in {instruction.opcode for instruction in trace.instructions}
    assert np.array_equal(y, np.fmax.reduce(x))
