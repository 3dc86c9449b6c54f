"""`setp`, `set`, `selp`, `slct` with all comparisons, types, boolean combinations and second destinations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import scalar_interpreter_floats as ieee
from float_rules import BF16, COMPARISONS, F16, F32, FORMATS, LETTERS, flushed
from instruction_forms import Form, check_forms, form, words

from warpsight.base.errors import UnsupportedError

pytestmark = pytest.mark.unit
REGISTER = {"16": "h", "32": "r", "64": "q"}
INTEGERS = [f"{kind}{bits}" for kind in "bus" for bits in REGISTER]
FLOATS = ["f16", "bf16", "f32", "f64"]
SIGNED = ["eq", "ne", "lt", "le", "gt", "ge"]
UNSIGNED = [*SIGNED, "lo", "ls", "hi", "hs"]
_COMBINE: dict[str, Callable[[bool, bool], bool]] = {"": lambda x, _: x, "and": lambda x, y: x and y, "or": lambda x, y: x or y,
                                                     "xor": lambda x, y: x != y}  # fmt: skip
Holds = Callable[[int, int], bool]


def names_of(kind: str) -> list[str]:
    """The comparisons that PTX has for a type."""
    if kind in INTEGERS:
        return {"b": ["eq", "ne"], "u": UNSIGNED, "s": SIGNED}[kind[0]]
    return COMPARISONS


def letter(kind: str) -> str:
    return LETTERS.get(kind) or REGISTER[kind[1:]]


def holds(name: str, kind: str, flush: bool) -> Holds:
    """Whether a comparison of two patterns holds."""
    if kind in FORMATS:
        f = FORMATS[kind]
        return lambda a, b: ieee.compare(f, name, flushed(f, a) if flush else a, flushed(f, b) if flush else b)
    bits = int(kind[1:])

    def number(x: int) -> int:
        return x - (1 << bits) if kind[0] == "s" and x >> (bits - 1) else x

    test: dict[str, Callable[[int, int], bool]] = {
        "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    }  # fmt: skip
    plain = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
    return lambda a, b: test[plain](number(a), number(b))


def variants(kind: str) -> Iterator[tuple[str, bool, Holds]]:
    for name in names_of(kind):
        for flush in (False, True) if kind in ("f16", "f32") else (False,):
            yield name, flush, holds(name, kind, flush)


def predicates() -> Iterator[Form]:
    for kind in [*INTEGERS, *FLOATS]:
        two = letter(kind) * 2
        for name, flush, test in variants(kind):
            tail = f"{'.ftz' if flush else ''}.{kind}"
            yield form(f"setp.{name}{tail}", "p" + two, lambda a, b, t=test: int(t(a, b)))
            yield Form(f"setp.{name}{tail} _|{{d}}, {{0}}, {{1}}", "p" + two, lambda a, b, t=test: int(not t(a, b)))


def combined_predicates() -> Iterator[Form]:
    """p = (a op b) bool c, q = !(a op b) bool c."""
    for kind in [*INTEGERS, *FLOATS]:
        three = letter(kind) * 2 + "p"
        for how in ("and", "or", "xor"):
            name = "le" if kind[0] != "b" or kind == "bf16" else "ne"
            test, f = holds(name, kind, False), _COMBINE[how]
            text = f"setp.{name}.{how}.{kind}"
            yield Form(f"{text} {{d}}|%p6, {{0}}, {{1}}, {{2}}", "p" + three, lambda a, b, c, t=test, f=f: int(f(t(a, b), bool(c))))
            yield Form(
                f"{text} %p6|{{d}}, {{0}}, {{1}}, !{{2}}", "p" + three, lambda a, b, c, t=test, f=f: int(f(not t(a, b), not c))
            )


def pair_predicates() -> Iterator[Form]:
    """Of pairs p is for the low halves, q for the high ones."""
    for kind in ("f16", "bf16"):
        two = LETTERS[f"{kind}x2"] * 2
        for name, flush, test in variants(kind):
            text = f"setp.{name}{'.ftz' if flush else ''}.{kind}x2"
            yield Form(f"{text} {{d}}|%p6, {{0}}, {{1}}", "p" + two, lambda a, b, t=test: int(t(a & 0xFFFF, b & 0xFFFF)))
            yield Form(f"{text} %p6|{{d}}, {{0}}, {{1}}", "p" + two, lambda a, b, t=test: int(t(a >> 16, b >> 16)))
        for how, f in list(_COMBINE.items())[1:]:
            test = holds("gtu", kind, False)
            yield Form(
                f"setp.gtu.{how}.{kind}x2 %p6|{{d}}, {{0}}, {{1}}, !{{2}}", f"p{two}p",
                lambda a, b, c, t=test, f=f: int(f(t(a >> 16, b >> 16), not c)),
            )  # fmt: skip


TRUE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "u16": 0xFFFF, "s16": 0xFFFF}


def _set(to: str, kind: str, name: str, flush: bool, how: str, test: Holds) -> Form:
    rule = lambda a, b, c=0, f=_COMBINE[how]: TRUE[to] if f(test(a, b), bool(c)) else 0  # noqa: E731
    text = ".".join(w for w in ("set", name, how, "ftz" if flush else "", to, kind) if w)
    return form(text, letter(to) + letter(kind) * 2 + ("p" if how else ""), rule)


def values() -> Iterator[Form]:
    for kind in INTEGERS:
        for to in ("u32", "s32", "f32", "f16", "bf16"):
            for name in names_of(kind) if to == "u32" else ("eq",):
                yield _set(to, kind, name, False, "", holds(name, kind, False))
            yield _set(to, kind, "ne", False, "xor", holds("ne", kind, False))


def values_of_floats() -> Iterator[Form]:
    for kind in FLOATS:
        for to in ("u32", "s32", "f32", "f16", "bf16", *(("u16", "s16") if kind in ("f16", "bf16") else ())):
            if kind in ("f16", "bf16") and to == "f32":
                continue  # not in PTX
            for name, flush, test in variants(kind):
                if (to == "u32" or name in ("lt", "geu", "nan")) and not (flush and to == "bf16"):
                    yield _set(to, kind, name, flush, "", test)
            for how in ("and", "or", "xor"):
                yield _set(to, kind, "lt", False, how, holds("lt", kind, False))


def values_of_pairs() -> Iterator[Form]:
    for kind in ("f16", "bf16"):
        pair = f"{kind}x2"
        for name, flush, test in variants(kind):
            for to, result in ((pair, LETTERS[pair]), ("u32", "r"), ("s32", "r")):
                true = TRUE[kind] if to == pair else 0xFFFF

                def rule(a: int, b: int, test: Holds = test, true: int = true) -> int:
                    return (true if test(a & 0xFFFF, b & 0xFFFF) else 0) | (true << 16 if test(a >> 16, b >> 16) else 0)

                yield form(f"set.{name}{'.ftz' if flush else ''}.{to}.{pair}", result + LETTERS[pair] * 2, rule)


def selections() -> Iterator[Form]:
    for kind in [*INTEGERS, "f32", "f64"]:
        r = letter(kind)
        yield form(f"selp.{kind}", r * 3 + "p", lambda a, b, p: a if p else b)
        yield Form(f"slct.{kind}.s32 {{d}}, {{0}}, {{1}}, {{2}}", r * 3 + "r", lambda a, b, *c: b if c[-1] >> 31 else a)
        for flush in ("", ".ftz"):

            def chosen(a: int, b: int, *c: int, flush: bool = bool(flush)) -> int:
                key = flushed(F32, c[-1]) if flush else c[-1]
                return a if ieee.compare(F32, "ge", key, 0) else b

            yield form(f"slct{flush}.{kind}.f32", r * 3 + "f", chosen)


FAMILIES: list[Any] = [
    predicates, combined_predicates, pair_predicates, values, values_of_floats, values_of_pairs, selections,
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_comparison_gives_what_the_ptx_isa_defines(family: Callable[[], Iterator[Form]]) -> None:
    check_forms(list(family()))


@pytest.mark.parametrize(
    "text", ["setp.lo.s32", "setp.lt.b32", "setp.equ.u32", "setp.lo.f32", "setp.lt.ftz.f64", "setp.lt.ftz.bf16", "setp.and.s32"]
)
def test_comparison_that_ptx_lacks_is_refused(text: str) -> None:
    kind = text.rsplit(".", 1)[1]
    with pytest.raises(UnsupportedError, match=text):
        check_forms([form(text, "p" + letter(kind) * 2, lambda a, b: 0)])


def test_one_of_the_narrow_formats_is_the_pattern_that_set_gives() -> None:
    assert (F16.number(TRUE["f16"]), BF16.number(TRUE["bf16"])) == (1, 1)


def test_words_leaves_out_what_is_empty() -> None:
    assert list(words(("a",), ("", "b"))) == [("a",), ("a", "b")]
