"""`mov`: of every type, packing and unpacking from 16 to 128 bits, and of special registers that have one value here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from instruction_forms import Form, check_forms, form

from warpsight.base.errors import WarpsightError

pytestmark = pytest.mark.unit
MASK = {16: (1 << 16) - 1, 32: (1 << 32) - 1, 64: (1 << 64) - 1}


def whole_registers() -> Iterator[Form]:
    for bits, letter in ((16, "h"), (32, "r"), (64, "q")):
        for kind in "bus":
            yield form(f"mov.{kind}{bits}", letter * 2, lambda a: a)
    for letter, kind in (("f", "f32"), ("d", "f64"), ("p", "pred")):
        yield form(f"mov.{kind}", letter * 2, lambda a: a)
    yield Form("mov.b128 %o1, {{{0}, {1}}};\nmov.b128 %o2, %o1;\nmov.b128 {{%q6, {d}}}, %o2", "qqq", lambda a, b: b)


def packing() -> Iterator[Form]:
    yield Form("mov.b32 {d}, {{{0}, {1}}}", "rhh", lambda a, b: b << 16 | a)
    yield Form("mov.b64 {d}, {{{0}, {1}}}", "qrr", lambda a, b: b << 32 | a)
    yield Form("mov.b64 {d}, {{{0}, {1}}}", "qff", lambda a, b: b << 32 | a)
    yield Form("mov.b64 {d}, {{{0}, {1}, {2}, {3}}}", "qhhhh", lambda a, b, c, d: d << 48 | c << 32 | b << 16 | a)
    bytes_of = "\n".join(f"cvt.u8.u32 %c{k + 1}, {{{k}}};" for k in range(4))
    yield Form(f"{bytes_of}\nmov.b16 {{d}}, {{{{%c2, %c3}}}}", "hrrrr", lambda a, b, c, d: (c & 255) << 8 | b & 255)
    yield Form(
        f"{bytes_of}\nmov.b32 {{d}}, {{{{%c1, %c2, %c3, %c4}}}}", "rrrrr",
        lambda a, b, c, d: (d & 255) << 24 | (c & 255) << 16 | (b & 255) << 8 | a & 255,
    )  # fmt: skip


def unpacking() -> Iterator[Form]:
    for source, bits, parts, target, letter in (
        ("r", 32, 2, "h", "b32"), ("q", 64, 2, "r", "b64"), ("q", 64, 4, "h", "b64"), ("q", 64, 2, "f", "b64"),
    ):  # fmt: skip
        width = bits // parts
        for k in range(parts):
            names = ", ".join("{d}" if n == k else "_" for n in range(parts))
            yield Form(f"mov.{letter} {{{{{names}}}}}, {{0}}", target + source, lambda a, k=k, w=width: a >> k * w & ((1 << w) - 1))
    yield Form("mov.b16 {{%c1, %c2}}, {0};\ncvt.u32.u8 {d}, %c2", "rh", lambda a: a >> 8)
    yield Form("mov.b32 {{%c1, %c2, %c3, %c4}}, {0};\ncvt.s32.s8 {d}, %c3", "rr", lambda a: _signed_byte(a >> 16))
    for k in range(4):
        names = ", ".join("{d}" if n == k else "_" for n in range(4))
        text = f"mov.b128 %o1, {{{{{{0}}, {{1}}}}}};\nmov.b128 {{{{{names}}}}}, %o1"
        yield Form(text, "rqq", lambda a, b, k=k: (b << 64 | a) >> 32 * k & MASK[32])


def _signed_byte(x: int) -> int:
    x &= 255
    return x | 0xFFFFFF00 if x & 128 else x


def constants() -> Iterator[Form]:
    for name in ("%pm0", "%pm7", "%envreg3", "%globaltimer_hi", "%cluster_ctarank"):
        yield Form(f"mov.u32 {{d}}, {name}", "r", lambda: 0)
    yield Form("mov.u32 {d}, %aggr_smem_size", "r", lambda: 1024)  # what the system keeps of each block
    yield Form("mov.u64 {d}, %pm3_64", "q", lambda: 0)
    yield Form("mov.u32 {d}, WARP_SZ", "r", lambda: 32)


@pytest.mark.parametrize("family", [whole_registers, packing, unpacking, constants], ids=lambda f: f.__name__)
def test_move_gives_what_the_ptx_isa_defines(family: object) -> None:
    check_forms(list(family()))  # type: ignore[operator]


def test_unknown_special_register_is_refused_by_name() -> None:
    with pytest.raises(WarpsightError, match="%no_such_register"):
        check_forms([Form("mov.u64 {d}, %no_such_register", "q", lambda: 0)])
