"""Does each PTX instruction on integers give at its edges what the PTX ISA says? Expected values are worked out by hand."""

from __future__ import annotations

import pytest
from ptx_cases import HIGHEST, LOWEST, LOWEST64, ONES, ONES64, Case, cases, check_cases, f32, f64

pytestmark = pytest.mark.unit
MINUS, TINY = 1 << 31, 1

SHIFTS = [
    *cases(
        "rrr",
        ("shl.b32", 1, 31, LOWEST),
        ("shl.b32", 1, 32, 0),
        ("shl.b32", 3, 33, 0),
        ("shl.b32", 1, ONES, 0),
        ("shr.u32", LOWEST, 31, 1),
        ("shr.u32", LOWEST, 32, 0),
        ("shr.s32", LOWEST, 31, ONES),
        ("shr.s32", LOWEST, 32, ONES),
        ("shr.s32", LOWEST, 200, ONES),
        ("shr.s32", HIGHEST, 40, 0),
        ("shr.b32", LOWEST, 4, 0x08000000),
    ),
    *cases(
        "qqr",
        ("shl.b64", 1, 63, LOWEST64),
        ("shl.b64", 1, 64, 0),
        ("shr.s64", LOWEST64, 64, ONES64),
        ("shr.u64", ONES64, 64, 0),
        ("shr.s64", LOWEST64, 1, 3 << 62),
    ),
    *cases(
        "hhr", ("shl.b16", 1, 15, 0x8000), ("shl.b16", 1, 16, 0), ("shr.s16", 0x8000, 16, 0xFFFF), ("shr.u16", 0x8000, 3, 0x1000)
    ),
    *cases(
        "rrrr",
        ("shf.l.wrap.b32", 0x80000001, 0x10, 33, 0x21),
        ("shf.l.clamp.b32", 0x1234, 0x10, 40, 0x1234),
        ("shf.r.clamp.b32", 0x1234, 0x5678, 32, 0x5678),
        ("shf.r.wrap.b32", 0x1, 0x3, 1, 0x80000000),
        ("shf.r.clamp.b32", 0x1234, 0x5678, 0, 0x1234),
        ("shf.l.wrap.b32", 0x1234, 0x5678, 32, 0x5678),
    ),
]

PRODUCTS = [
    *cases(
        "rrr",
        ("mul.hi.u32", ONES, ONES, 0xFFFFFFFE),
        ("mul.hi.s32", ONES, ONES, 0),
        ("mul.hi.s32", LOWEST, LOWEST, 0x40000000),
        ("mul.hi.s32", LOWEST, 1, ONES),
        ("mul.lo.s32", 0x10001, 0x10001, 0x20001),
        ("mul24.lo.u32", 0xFF000002, 3, 6),
        ("mul24.lo.s32", 0x00FFFFFF, 5, 0xFFFFFFFB),
        ("mul24.hi.u32", 0x00FFFFFF, 0x00FFFFFF, 0xFFFFFE00),
    ),
    *cases(
        "qqq",
        ("mul.hi.u64", ONES64, ONES64, ONES64 - 1),
        ("mul.hi.s64", ONES64, ONES64, 0),
        ("mul.lo.u64", ONES64, 2, ONES64 - 1),
        ("mul.hi.s64", LOWEST64, 3, ONES64 - 1),
    ),
    *cases("qrr", ("mul.wide.u32", ONES, ONES, 0xFFFFFFFE00000001), ("mul.wide.s32", ONES - 1, 3, ONES64 - 5)),
    *cases(
        "rhh",
        ("mul.wide.u16", 0xFFFF, 0xFFFF, 0xFFFE0001),
        ("mul.wide.s16", 0xFFFF, 0xFFFF, 1),
        ("mul.wide.s16", 0x8000, 2, 0xFFFF0000),
    ),
    *cases("hhh", ("mul.lo.s16", 0x100, 0x101, 0x0100), ("mul.hi.u16", 0x8000, 4, 2)),
    *cases("qrrq", ("mad.wide.u32", ONES, 2, 5, 0x200000003), ("mad.wide.s32", ONES, 2, 5, 3)),
    *cases(
        "rrrr",
        ("mad.lo.s32", 7, ONES, 3, 0xFFFFFFFC),
        ("mad.hi.u32", LOWEST, 6, 10, 13),
        ("mad.hi.sat.s32", HIGHEST, 4, HIGHEST, HIGHEST),
        ("mad.hi.sat.s32", LOWEST, 4, LOWEST, LOWEST),
        ("sad.s32", LOWEST, HIGHEST, 1, 0),
        ("sad.u32", 3, 10, 100, 107),
    ),
]

DIVISION = (
    cases(
        "rrr",
        ("div.u32", 7, 0, ONES),
        ("rem.u32", 7, 0, 7),
        ("div.s32", LOWEST, ONES, LOWEST),
        ("rem.s32", LOWEST, ONES, 0),
        ("rem.s32", ONES - 6, 3, ONES),
        ("rem.s32", 7, ONES - 2, 1),
        ("div.s32", ONES - 6, 2, ONES - 2),
        ("div.u32", ONES, 10, 429496729),
        ("add.sat.s32", HIGHEST, 1, HIGHEST),
        ("sub.sat.s32", LOWEST, 1, LOWEST),
        ("add.s32", HIGHEST, 1, LOWEST),
        ("min.s32", LOWEST, 1, LOWEST),
        ("min.u32", LOWEST, 1, 1),
        ("max.s32", ONES, 0, 0),
        ("max.u32", ONES, 0, ONES),
    )
    + cases("rr", ("abs.s32", LOWEST, LOWEST), ("abs.s32", ONES, 1), ("neg.s32", LOWEST, LOWEST), ("neg.s32", 5, ONES - 4))
    + cases(
        "qqq",
        ("div.s64", LOWEST64, ONES64, LOWEST64),
        ("rem.u64", ONES64, 10, 5),
        ("div.u64", 9, 0, ONES64),
        ("min.s64", LOWEST64, 3, LOWEST64),
    )
    + cases(
        "hhh", ("div.s16", 0x8000, 3, 0xD556), ("rem.u16", 0xFFFF, 10, 5), ("sub.u16", 0, 1, 0xFFFF), ("min.s16", 0xFFFF, 1, 0xFFFF)
    )
)

FIELDS = [
    *cases(
        "rrrr",
        ("bfe.u32", 0xABCDEF12, 8, 8, 0xEF),
        ("bfe.u32", 0xABCDEF12, 8, 0, 0),
        ("bfe.u32", 0xABCDEF12, 28, 8, 0xA),
        ("bfe.u32", ONES, 32, 4, 0),
        ("bfe.u32", 0xABCDEF12, 0x108, 8, 0xEF),
        ("bfe.u32", 0xABCDEF12, 0, 32, 0xABCDEF12),
        ("bfe.u32", 0xABCDEF12, 0, 255, 0xABCDEF12),
        ("bfe.s32", LOWEST, 31, 1, ONES),
        ("bfe.s32", LOWEST, 28, 8, 0xFFFFFFF8),
        ("bfe.s32", LOWEST, 40, 4, ONES),
        ("bfe.s32", HIGHEST, 40, 4, 0),
        ("bfe.s32", ONES, 4, 0, 0),
        ("bfe.s32", 0xF80, 7, 5, ONES),
        ("prmt.b32", 0x33221100, 0x77665544, 0x3210, 0x33221100),
        ("prmt.b32", 0x33221100, 0x77665544, 0x7654, 0x77665544),
        ("prmt.b32", 0x332211F0, 0x77665544, 0x8888, ONES),
        ("prmt.b32", 0x33221100, 0x77A65544, 0x1E6F, 0x11FFA600),
        ("prmt.b32", 0x33221100, 0x77665544, 0x10246, 0x00224466),
    ),
    *cases("qqrr", ("bfe.u64", 0xABCDEF0123456789, 32, 16, 0xEF01), ("bfe.s64", LOWEST64, 60, 20, ONES64 - 7)),
    *cases(
        "rrrrr",
        ("bfi.b32", 0xFF, 0, 28, 8, 0xF0000000),
        ("bfi.b32", 0xFF, 0x1234, 32, 8, 0x1234),
        ("bfi.b32", 0xFF, 0x1234, 4, 0, 0x1234),
        ("bfi.b32", 0x5, ONES, 8, 4, 0xFFFFF5FF),
        ("bfi.b32", 0x1234, 0, 0, 40, 0x1234),
    ),
    *cases("qqqrr", ("bfi.b64", ONES64, 0, 60, 10, 0xF << 60), ("bfi.b64", 0xAB, ONES64, 32, 8, 0xFFFFFFABFFFFFFFF)),
    *cases(
        "rr",
        ("popc.b32", 0xF0F0, 8),
        ("clz.b32", 0, 32),
        ("clz.b32", 1, 31),
        ("brev.b32", 0x1, LOWEST),
        ("bfind.u32", 0, ONES),
        ("bfind.u32", 0x8000, 15),
        ("bfind.s32", ONES, ONES),
        ("bfind.s32", 0xFFFF0000, 15),
        ("bfind.shiftamt.u32", 1, 31),
        ("bfind.shiftamt.u32", 0, ONES),
        ("cnot.b32", 0, 1),
        ("cnot.b32", 5, 0),
        ("not.b32", 0xF, 0xFFFFFFF0),
    ),
    *cases("rq", ("clz.b64", 0, 64), ("popc.b64", ONES64, 64), ("bfind.u64", LOWEST64, 63), ("bfind.s64", LOWEST64, 62)),
    *[
        # The low bytes list all eight inputs, so that the low byte of the result is the table; elsewhere the inputs are 0, 0, 0.
        Case(f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {table:#x}", "rrrr", (0xF0, 0xCC, 0xAA), table | (table & 1) * 0xFFFFFF00)
        for table in (0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x00, 0x1B)
    ],
    Case("lop3.b32 {d}, {0}, {1}, {2}, 255", "rrrr", (0, 1, 2), ONES),
]
MOVES = [
    *[
        Case(f"mov.{kind} {{d}}, {text}", register, (), want)
        for kind, register, text, want in [
            ("f32", "f", "0f7FC12345", 0x7FC12345),
            ("f32", "f", "0fFFC00001", 0xFFC00001),
            ("f32", "f", "1.5", f32(1.5)),
            ("f32", "f", "0f80000000", MINUS),
            ("f32", "f", "0f00000001", TINY),
            ("f32", "f", "0.1", f32(0.1)),
            ("f64", "d", "0d7FF8000000000123", 0x7FF8000000000123),
            ("f64", "d", "0d3FB999999999999A", f64(0.1)),
            ("f64", "d", "0d8000000000000000", LOWEST64),
            ("f64", "d", "0d0000000000000001", 1),
            ("b32", "r", "0f3F800000", f32(1)),
            ("u32", "r", "-1", ONES),
            ("u32", "r", "0xDEADBEEF", 0xDEADBEEF),
            ("u64", "q", "0xFFFFFFFFFFFFFFFF", ONES64),
            ("s64", "q", "-9223372036854775808", LOWEST64),
            ("u16", "h", "65535", 0xFFFF),
            ("s32", "r", "017", 15),
            ("b64", "q", "0d3FF0000000000000", f64(1)),
        ]
    ],
    Case("mov.b64 {d}, {{ {0}, {1} }}", "qrr", (0x11111111, 0x22222222), 0x2222222211111111),
    Case("mov.b32 {d}, {{ {0}, {1} }}", "rhh", (0x1111, 0x2222), 0x22221111),
    Case("mov.b64 {{ {d}, %r8 }}, {0}", "rq", (0x2222222211111111,), 0x11111111),
    Case("mov.b64 {{ %r8, {d} }}, {0}", "rq", (0x2222222211111111,), 0x22222222),
    Case("mov.b64 {{ _, {d} }}, {0}", "rq", (0x2222222211111111,), 0x22222222),
    Case("mov.b64 {{ %h5, %h6, {d}, %h4 }}, {0}", "hq", (0x4444333322221111,), 0x3333),
    Case("mov.b32 {{ {d}, _ }}, {0}", "hr", (0x22221111,), 0x1111),
    Case("mov.b64 {d}, {{ {0}, {1} }}", "dff", (0, f32(1.875)), f64(1.0)),
]


@pytest.mark.parametrize(
    "table", [SHIFTS, PRODUCTS, DIVISION, FIELDS, MOVES], ids=["shifts", "products", "division", "fields", "moves"]
)
def test_instruction_at_its_edges_gives_what_the_ptx_isa_says(table: list[Case]) -> None:
    check_cases(table)
