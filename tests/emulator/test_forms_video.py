"""Scalar and SIMD video instructions in all types, selectors and secondary operations, as the PTX ISA's pseudo-code has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from instruction_forms import Form, check_forms, words

from warpsight.base.errors import UnsupportedError

pytestmark = pytest.mark.unit
TYPES = ("u32", "s32")
M32 = 0xFFFFFFFF
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__,
}  # fmt: skip
OPERATION: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b, "vsub": lambda a, b: a - b, "vabsdiff": lambda a, b: abs(a - b), "vmin": min, "vmax": max,
    "vavrg": lambda a, b: (a + b + 1) >> 1 if a + b >= 0 else (a + b) >> 1,
}  # fmt: skip


def number(x: int, bits: int, signed: bool) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if signed and x >> (bits - 1) else x


def selected(x: int, selector: str, kind: str) -> int:
    """partSelectSignExtend."""
    bits = {"": 32, "b": 8, "h": 16}[selector[:1]]
    return number(x >> int(selector[1:] or 0) * bits, bits, kind == "s32")


def limited(x: int, bits: int, signed: bool) -> int:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return min(max(x, low), high)


def ended(value: int, c: int, signed: bool, saturate: bool, second: str, chosen: str) -> int:
    """optSaturate, optSecondaryOp, optMerge."""
    bits = {"": 32, "b": 8, "h": 16}[chosen[:1]]
    if saturate:
        value = limited(value, bits, signed)
    if second == "add":
        value += c
    elif second:
        value = (min if second == "min" else max)(number(value, 32, signed), number(c, 32, signed))
    if chosen:
        at = int(chosen[1]) * bits
        mask = ((1 << bits) - 1) << at
        value = value << at & mask | c & ~mask
    return value & M32


def endings(can_saturate: bool = True) -> Iterator[tuple[str, str, str]]:
    """Saturation, secondary operation, selector of the destination."""
    for saturate in ("", ".sat") if can_saturate else ("",):
        yield saturate, "", ""
        for second in ("add", "min", "max"):
            yield saturate, second, ""
        for chosen in ("b0", "b3", "h0", "h1", "b2"):
            yield saturate, "", chosen


def dot(name: str) -> str:
    return f".{name}" if name else ""


SELECTORS = [("", ""), ("b0", "h1"), ("b3", "b1"), ("h0", ""), ("", "b2"), ("h1", "h0")]


def _scalar_forms(opcode: str, compute: Callable[[int, int], int], with_types: str, tail: str, saturates: bool) -> Iterator[Form]:
    """A third of the endings of an instruction, in turn, with selectors in turn; `with_types` names its types."""
    kinds = with_types.split(".")
    for k, (saturate, second, chosen) in enumerate(endings(saturates)):
        if k and (k + sum(map(ord, opcode + with_types + tail))) % 3:
            continue
        one, two = SELECTORS[(k + len(opcode) + sum(map(ord, with_types))) % len(SELECTORS)]
        takes_c = bool(second or chosen)
        text = f"{opcode}.{with_types}{saturate}{tail}{dot(second)} {{d}}{dot(chosen)}, {{0}}{dot(one)}, {{1}}{dot(two)}"

        def rule(
            a: int, b: int, c: int = 0, one: str = one, two: str = two, s: str = saturate, o: str = second, d: str = chosen
        ) -> int:
            value = compute(selected(a, one, kinds[-2]), selected(b, two, kinds[-1]))
            return ended(value, c, len(kinds) == 3 and kinds[0] == "s32", bool(s), o, d)

        yield Form(text + (", {2}" if takes_c else ""), "rww" + ("w" if takes_c else ""), rule)


def scalar_arithmetic() -> Iterator[Form]:
    for opcode in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        for types in product(TYPES, TYPES, TYPES):
            yield from _scalar_forms(opcode, OPERATION[opcode], ".".join(types), "", True)


def scalar_shifts() -> Iterator[Form]:
    for opcode, to, source, mode in product(("vshl", "vshr"), TYPES, TYPES, ("clamp", "wrap")):

        def shifted(a: int, b: int, left: bool = opcode == "vshl", wrap: bool = mode == "wrap") -> int:
            b = b & 31 if wrap else min(b, 32)
            return a << b if left else a >> b

        for one in _scalar_forms(opcode, shifted, f"{to}.{source}.u32", f".{mode}", True):
            yield Form(one.text, one.kinds[:2] + "s" + one.kinds[3:], one.rule)


def scalar_comparisons() -> Iterator[Form]:
    for one, two, name in product(TYPES, TYPES, COMPARE):
        yield from _scalar_forms("vset", lambda a, b, t=COMPARE[name]: int(t(a, b)), f"{one}.{two}", f".{name}", False)


def products_and_sums() -> Iterator[Form]:
    for (to, one, two), saturate, scale in product(product(TYPES, TYPES, TYPES), ("", ".sat"), (0, 7, 15)):
        if (to == "s32") != bool(saturate or scale == 7):
            continue  # the destination's type changes nothing
        for k, (plus, minus) in enumerate([("", ""), (".po", ""), ("", "a"), ("", "b"), ("", "ab"), ("", "c")]):
            left, right = SELECTORS[(k + scale) % len(SELECTORS)]
            signs = ["-" if x in minus else "" for x in "abc"]
            text = (
                f"vmad.{to}.{one}.{two}{plus}{saturate}{f'.shr{scale}' if scale else ''} "
                f"{{d}}, {signs[0]}{{0}}{dot(left)}, {signs[1]}{{1}}{dot(right)}, {signs[2]}{{2}}"
            )

            def rule(
                a: int, b: int, c: int, one: str = one, two: str = two, po: bool = bool(plus), minus: str = minus,
                scale: int = scale, saturate: bool = bool(saturate), left: str = left, right: str = right,
            ) -> int:  # fmt: skip
                negated = minus in ("a", "b")
                signed = "s32" in (one, two) or negated or minus == "c"
                total = selected(a, left, one) * selected(b, right, two) * (-1 if negated else 1)
                total += number(c, 32, signed) * (-1 if minus == "c" else 1) + po
                total >>= scale
                return (limited(number(total, 64, signed), 32, signed) if saturate else total) & M32

            yield Form(text, "rwww", rule)


def vectors(ways: int) -> Callable[[], Iterator[Form]]:
    bits = 32 // ways
    picks = {
        2: [("", "", ""), ("h0", "h32", "h10"), ("h1", "h11", "h03"), ("h10", "h20", "h13")],
        4: [
            ("", "", ""),
            ("b0", "b7531", "b0246"),
            ("b31", "b0000", "b7654"),
            ("b210", "b3210", "b5577"),
            ("b3210", "b6420", "b1111"),
        ],
    }[ways]

    def elements(a: int, b: int, selector: str, kind: str, start: int) -> list[int]:
        order = [int(x) for x in reversed(selector[1:])] or list(range(start, start + ways))
        return [number((b << 32 | a) >> bits * k, bits, kind == "s32") for k in order]

    def one(opcode: str, types: tuple[str, ...], compute: Callable[[int, int], int], tail: str, pick: tuple[str, ...]) -> Form:
        mask, left, right = pick
        text = f"{opcode}{ways}.{'.'.join(types)}{tail} {{d}}{dot(mask)}, {{0}}{dot(left)}, {{1}}{dot(right)}, {{2}}"
        changed = [int(x) for x in mask[1:]] or list(range(ways))

        def rule(a: int, b: int, c: int) -> int:
            pairs = zip(elements(a, b, left, types[-2], 0), elements(a, b, right, types[-1], ways), strict=True)
            values = [compute(x, y) for x, y in pairs]
            if tail.endswith(".sat"):
                values = [limited(v, bits, types[0] == "s32") for v in values]
            if tail.endswith(".add"):
                return (c + sum(values[k] for k in changed)) & M32
            return sum(((values[k] if k in changed else c >> k * bits) & ((1 << bits) - 1)) << k * bits for k in range(ways))

        return Form(text, "rvvv" if ways == 2 else "rwww", rule)

    def forms() -> Iterator[Form]:
        k = 0
        for opcode, types, tail in product(OPERATION, product(TYPES, TYPES, TYPES), ("", ".sat", ".add")):
            k += 1
            if k % 3 != len(opcode) % 3:
                yield one(opcode, types, OPERATION[opcode], tail, picks[k % len(picks)])
            if types[0] == types[1] == types[2]:
                yield one(opcode, types, OPERATION[opcode], tail, picks[0])
        for types, name, tail in product(product(TYPES, TYPES), COMPARE, ("", ".add")):
            k += 1
            yield one("vset", types, lambda a, b, t=COMPARE[name]: int(t(a, b)), f".{name}{tail}", picks[k % len(picks)])

    return forms


FAMILIES = {
    "arithmetic": scalar_arithmetic, "shifts": scalar_shifts, "comparisons": scalar_comparisons, "vmad": products_and_sums,
    "two": vectors(2), "four": vectors(4),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_video_instruction_gives_what_the_ptx_isa_defines(family: str) -> None:
    check_forms(list(FAMILIES[family]()))


@pytest.mark.parametrize(
    "text",
    [
        "vadd.u32.u32.u32 {d}, -{0}, {1}", "vadd2.u32.u32.u32.sat.add {d}, {0}, {1}, {2}",
        "vmad.u32.u32.u32.po {d}, -{0}, {1}, {2}",
        "vmad.u32.u32.u32 {d}, -{0}, {1}, -{2}", "vadd.u32.u32.u32 {d}, {0}.h2, {1}", "vadd4.u32.u32.u32 {d}, {0}.h10, {1}, {2}",
        "vshl.u32.u32.u32 {d}, {0}, {1}", "vset.u32.u32 {d}, {0}, {1}", "vadd.u32.u32.u32.add {d}.h0, {0}, {1}, {2}",
        "add.u32 {d}, -{0}, {1}", "add.u32 {d}, {0}.h0, {1}",
    ],
)  # fmt: skip
def test_video_instruction_that_ptx_lacks_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split(maxsplit=1)[0]):
        check_forms([Form(text, "rwww", lambda a, b, c: 0)])


def test_words_of_nothing_is_one_empty_choice() -> None:
    assert list(words()) == [()]
