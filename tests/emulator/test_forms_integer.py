"""Integer instructions in all types and modifiers, against their definitions in the PTX ISA written out on Python integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from instruction_forms import Form, check_forms, form, words

pytestmark = pytest.mark.unit
LETTERS = {16: "h", 32: "r", 64: "q"}
TYPES = [f"{kind}{bits}" for kind in "us" for bits in (16, 32, 64)]
WIDE = [t for t in TYPES if not t.endswith("16")]
M32 = 0xFFFFFFFF


def width(kind: str) -> int:
    return int(kind[1:].removesuffix("x2"))


def letter(kind: str) -> str:
    return LETTERS[width(kind)]


def number(x: int, kind: str) -> int:
    """The value of a pattern of an integer type."""
    bits = width(kind)
    x &= (1 << bits) - 1
    return x - (1 << bits) if kind[0] == "s" and x >> (bits - 1) else x


def pattern(x: int, kind: str) -> int:
    return x & ((1 << width(kind)) - 1)


def bounded(x: int, kind: str) -> int:
    """Saturated to the type."""
    bits = width(kind)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return pattern(min(max(x, low), high), kind)


def on_numbers(kind: str, compute: Callable[..., int], saturate: bool = False) -> Callable[..., int]:
    finish = bounded if saturate else pattern
    return lambda *xs: finish(compute(*(number(x, kind) for x in xs)), kind)


def by_halves(kind: str, compute: Callable[..., int]) -> Callable[..., int]:
    """An operation on both 16-bit halves of 32-bit operands."""
    one = on_numbers(kind[:-2], compute)
    return lambda *xs: one(*(x & 0xFFFF for x in xs)) | one(*(x >> 16 for x in xs)) << 16


def sums() -> Iterator[Form]:
    for t in TYPES:
        three = letter(t) * 3
        yield form(f"add.{t}", three, on_numbers(t, lambda a, b: a + b))
        yield form(f"sub.{t}", three, on_numbers(t, lambda a, b: a - b))
        yield form(f"min.{t}", three, on_numbers(t, min))
        yield form(f"max.{t}", three, on_numbers(t, max))
        yield form(f"sad.{t}", letter(t) * 4, on_numbers(t, lambda a, b, c: abs(a - b) + c))
        if t[0] == "s":
            yield form(f"abs.{t}", three[:2], on_numbers(t, abs))
            yield form(f"neg.{t}", three[:2], on_numbers(t, lambda a: -a))
    yield form("add.sat.s32", "rrr", on_numbers("s32", lambda a, b: a + b, True))
    yield form("sub.sat.s32", "rrr", on_numbers("s32", lambda a, b: a - b, True))
    yield form("min.relu.s32", "rrr", on_numbers("s32", lambda a, b: max(min(a, b), 0)))
    yield form("max.relu.s32", "rrr", on_numbers("s32", lambda a, b: max(a, b, 0)))
    for t in ("u16x2", "s16x2"):
        yield form(f"add.{t}", "vvv", by_halves(t, lambda a, b: a + b))
        yield form(f"min.{t}", "vvv", by_halves(t, min))
        yield form(f"max.{t}", "vvv", by_halves(t, max))
    yield form("min.relu.s16x2", "vvv", by_halves("s16x2", lambda a, b: max(min(a, b), 0)))
    yield form("max.relu.s16x2", "vvv", by_halves("s16x2", lambda a, b: max(a, b, 0)))


def products() -> Iterator[Form]:
    for t in TYPES:
        three, bits = letter(t) * 3, width(t)
        yield form(f"mul.lo.{t}", three, on_numbers(t, lambda a, b: a * b))
        yield form(f"mul.hi.{t}", three, on_numbers(t, lambda a, b, n=bits: a * b >> n))
        yield form(f"mad.lo.{t}", three + three[0], on_numbers(t, lambda a, b, c: a * b + c))
        yield form(f"mad.hi.{t}", three + three[0], on_numbers(t, lambda a, b, c, n=bits: (a * b >> n) + c))
        if bits < 64:
            double, wide = LETTERS[2 * bits], f"{t[0]}{2 * bits}"
            yield form(f"mul.wide.{t}", double + three[:2], lambda a, b, t=t, w=wide: pattern(number(a, t) * number(b, t), w))
            yield form(
                f"mad.wide.{t}", double + three[:2] + double,
                lambda a, b, c, t=t, w=wide: pattern(number(a, t) * number(b, t) + number(c, w), w),
            )  # fmt: skip
    yield form("mad.hi.sat.s32", "rrrr", on_numbers("s32", lambda a, b, c: (a * b >> 32) + c, True))
    for t in ("u32", "s32"):
        for half, shift in (("lo", 0), ("hi", 16)):
            yield form(f"mul24.{half}.{t}", "rrr", lambda a, b, t=t, s=shift: pattern(product24(a, b, t) >> s, t))
            yield form(f"mad24.{half}.{t}", "rrrr", lambda a, b, c, t=t, s=shift: pattern((product24(a, b, t) >> s) + c, t))
    yield form(
        "mad24.hi.sat.s32", "rrrr", lambda a, b, c: bounded(number(product24(a, b, "s32") >> 16, "s32") + number(c, "s32"), "s32")
    )


def product24(a: int, b: int, kind: str) -> int:
    def low(x: int) -> int:
        x &= 0xFFFFFF
        return x - (1 << 24) if kind[0] == "s" and x >> 23 else x

    return low(a) * low(b)


def part(x: int, start: int, bits: int, signed: bool) -> int:
    x = x >> start & ((1 << bits) - 1)
    return x - (1 << bits) if signed and x >> (bits - 1) else x


def dot_products() -> Iterator[Form]:
    for a, b in words(("u32", "s32"), ("u32", "s32")):

        def four(x: int, y: int, c: int, a: str = a, b: str = b) -> int:
            return (sum(part(x, 8 * k, 8, a == "s32") * part(y, 8 * k, 8, b == "s32") for k in range(4)) + c) & M32

        def two(x: int, y: int, c: int, a: str = a, b: str = b, at: int = 0) -> int:
            return (sum(part(x, 16 * k, 16, a == "s32") * part(y, at + 8 * k, 8, b == "s32") for k in range(2)) + c) & M32

        yield form(f"dp4a.{a}.{b}", "rwwr", four)
        yield form(f"dp2a.lo.{a}.{b}", "rvwr", two)
        yield form(f"dp2a.hi.{a}.{b}", "rvwr", lambda x, y, c, two=two: two(x, y, c, at=16))


def quotients() -> Iterator[Form]:
    """A divisor of zero: all ones and the dividend, which the ISA leaves open. The most negative number by -1 wraps."""

    def divided(a: int, b: int) -> int:
        return -1 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)

    for t in TYPES:
        yield form(f"div.{t}", letter(t) * 3, on_numbers(t, divided))
        yield form(f"rem.{t}", letter(t) * 3, on_numbers(t, lambda a, b: a if b == 0 else a - b * divided(a, b)))


def logic() -> Iterator[Form]:
    for bits, r in LETTERS.items():
        ones = (1 << bits) - 1
        yield form(f"and.b{bits}", r * 3, lambda a, b: a & b)
        yield form(f"or.b{bits}", r * 3, lambda a, b: a | b)
        yield form(f"xor.b{bits}", r * 3, lambda a, b: a ^ b)
        yield form(f"not.b{bits}", r * 2, lambda a, m=ones: a ^ m)
        yield form(f"cnot.b{bits}", r * 2, lambda a: int(a == 0))
        yield form(f"shl.b{bits}", r * 2 + "s", lambda a, s, m=ones: a << min(s, 64) & m)
        for kind in "bus":
            t = f"{kind}{bits}"
            yield form(f"shr.{t}", r * 2 + "s", lambda a, s, t=t: pattern(number(a, t) >> min(s, 64), t))
    yield form("and.pred", "ppp", lambda a, b: a & b)
    yield form("or.pred", "ppp", lambda a, b: a | b)
    yield form("xor.pred", "ppp", lambda a, b: a ^ b)
    yield form("not.pred", "pp", lambda a: 1 - a)
    yield form("mov.pred", "pp", lambda a: a)


def table(lut: int, a: int, b: int, c: int) -> int:
    return sum((lut >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1) << k for k in range(32))


def three_way_logic() -> Iterator[Form]:
    for lut in (0, 0x96, 0x1A, 0x80, 0xFE, 0xFF, 0x2C):
        yield Form(f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {lut:#x}", "rrrr", lambda a, b, c, t=lut: table(t, a, b, c))
    for lut in (0x96, 0, 0x80):
        tail = f"{{0}}, {{1}}, {{2}}, {lut:#x}"
        for name, combine in (("or", lambda x, y: x | y), ("and", lambda x, y: x & y)):
            yield Form(
                f"lop3.{name}.b32 _|{{d}}, {tail}, {{3}}", "prrrp",
                lambda a, b, c, q, t=lut, f=combine: f(int(table(t, a, b, c) != 0), q),
            )  # fmt: skip
            yield Form(
                f"lop3.{name}.b32 %r6|{{d}}, {tail}, !{{3}}", "prrrp",
                lambda a, b, c, q, t=lut, f=combine: f(int(table(t, a, b, c) != 0), 1 - q),
            )  # fmt: skip
            yield Form(f"lop3.{name}.b32 {{d}}|%p6, {tail}, {{3}}", "rrrrp", lambda a, b, c, q, t=lut: table(t, a, b, c))


def funnel_shifts() -> Iterator[Form]:
    """`shf.l` gives the upper half of {b:a} shifted left, `shf.r` the lower half of it shifted right."""
    for mode, amount in (("wrap", lambda s: s & 31), ("clamp", lambda s: min(s, 32))):
        yield form(f"shf.l.{mode}.b32", "rrrs", lambda a, b, s, f=amount: ((b << 32 | a) << f(s)) >> 32 & M32)
        yield form(f"shf.r.{mode}.b32", "rrrs", lambda a, b, s, f=amount: (b << 32 | a) >> f(s) & M32)


def extracted(a: int, position: int, length: int, kind: str) -> int:
    """Bit by bit, as the ISA defines `bfe`."""
    position, length, top = position & 255, length & 255, width(kind) - 1
    sign = 0 if kind[0] == "u" or length == 0 else a >> min(position + length - 1, top) & 1
    bits = [a >> (position + k) & 1 if k < length and position + k <= top else sign for k in range(top + 1)]
    return sum(bit << k for k, bit in enumerate(bits))


def inserted(a: int, b: int, position: int, length: int, bits: int) -> int:
    position, length = position & 255, length & 255
    for k in range(length):
        if position + k < bits:
            b = b & ~(1 << (position + k)) | (a >> k & 1) << (position + k)
    return b


def found(a: int, kind: str, shift_amount: bool) -> int:
    """`bfind`: the highest bit that differs from the sign."""
    top = width(kind) - 1
    if kind[0] == "s" and a >> top:
        a ^= (1 << width(kind)) - 1
    if a == 0:
        return M32
    return top - (a.bit_length() - 1) if shift_amount else a.bit_length() - 1


def fields() -> Iterator[Form]:
    for t in WIDE:
        r = letter(t)
        yield form(f"bfe.{t}", r * 2 + "ss", lambda a, p, n, t=t: extracted(a, p, n, t))
        yield form(f"bfind.{t}", "r" + r, lambda a, t=t: found(a, t, False))
        yield form(f"bfind.shiftamt.{t}", "r" + r, lambda a, t=t: found(a, t, True))
    for bits in (32, 64):
        r = LETTERS[bits]
        yield form(f"bfi.b{bits}", r * 3 + "ss", lambda a, b, p, n, w=bits: inserted(a, b, p, n, w))
        yield form(f"brev.b{bits}", r * 2, lambda a, w=bits: int(f"{a:0{w}b}"[::-1], 2))
        yield form(f"popc.b{bits}", "r" + r, lambda a: a.bit_count())
        yield form(f"clz.b{bits}", "r" + r, lambda a, w=bits: w - a.bit_length())
    # The base must be below 32.
    lines = "and.b32 %r6, {1}, 31;\nfns.b32 {d}, {0}, %r6, {2}"
    yield Form(lines, "rrss", lambda m, b, n: nth_set(m, b & 31, number(n, "s32")))
    yield Form(lines, "rrsr", lambda m, b, n: nth_set(m, b & 31, number(n, "s32")))
    for mode in ("clamp", "wrap"):
        yield form(f"bmsk.{mode}.b32", "rss", lambda a, b, c=mode == "clamp": bit_mask(a, b, c))
        for t in ("u32", "s32"):
            yield form(f"szext.{mode}.{t}", "rrs", lambda a, n, t=t, c=mode == "clamp": extended(a, n, t, c))


def nth_set(mask: int, base: int, offset: int) -> int:
    if offset == 0:
        return base if mask >> base & 1 else M32
    step = 1 if offset > 0 else -1
    places = [k for k in range(base, 32 if step > 0 else -1, step) if mask >> k & 1]
    return places[abs(offset) - 1] if abs(offset) <= len(places) else M32


def bit_mask(position: int, length: int, clamp: bool) -> int:
    if not clamp:
        position, length = position & 31, length & 31
    return sum(1 << k for k in range(32) if position <= k < position + length)


def extended(a: int, length: int, kind: str, clamp: bool) -> int:
    length = min(length, 32) if clamp else length & 31
    return part(a, 0, length, kind == "s32") & M32 if length else 0


def byte_choices() -> Iterator[Form]:
    def general(a: int, b: int, c: int) -> int:
        whole, result = b << 32 | a, 0
        for k in range(4):
            nibble = c >> 4 * k & 15
            byte = whole >> 8 * (nibble & 7) & 255
            result |= ((255 if byte & 128 else 0) if nibble & 8 else byte) << 8 * k
        return result

    yield form("prmt.b32", "rrrr", general)
    yield form("prmt.b32", "rrrs", general)
    yield Form("prmt.b32 {d}, {0}, {1}, 0x7ba4", "rrr", lambda a, b: general(a, b, 0x7BA4))
    # The four bytes, highest first, for the values 0 to 3 of the selector's low bits, as the ISA's table has them.
    tables = {
        "f4e": "3210 4321 5432 6543", "b4e": "5670 6701 7012 0123", "rc8": "0000 1111 2222 3333",
        "ecl": "3210 3211 3222 3333", "ecr": "0000 1110 2210 3210", "rc16": "1010 3232 1010 3232",
    }  # fmt: skip
    for mode, rows in tables.items():
        yield form(f"prmt.b32.{mode}", "rrrr", lambda a, b, c, rows=rows: general(a, b, int(rows.split()[c & 3], 16)))


FAMILIES = [
    sums, products, dot_products, quotients, logic, three_way_logic, funnel_shifts, fields, byte_choices,
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_integer_instruction_gives_what_the_ptx_isa_defines(family: Callable[[], Iterator[Form]]) -> None:
    check_forms(list(family()))
