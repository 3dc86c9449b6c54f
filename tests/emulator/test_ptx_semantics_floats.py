"""Does each PTX instruction on floats give at its edges what the PTX ISA says? Expected values are worked out by hand."""

from __future__ import annotations

import pytest
from ptx_cases import HIGHEST, LOWEST, LOWEST64, NAN32, NAN64, ONES, ONES64, Case, cases, check_cases, f32, f64

pytestmark = pytest.mark.unit
INF, NAN, TINY, TINY_SUM = f32(float("inf")), 0x7FC00000, 1, 2
MINUS = 1 << 31

CONVERSIONS = [
    *cases(
        "rr",
        ("cvt.s32.s8", 0x1FF, ONES),
        ("cvt.u32.u8", 0x1FF, 0xFF),
        ("cvt.sat.u8.s32", ONES, 0),
        ("cvt.sat.s8.s32", 300, 127),
        ("cvt.sat.s8.s32", ONES - 299, 0xFFFFFF80),
        ("cvt.sat.u32.s32", ONES - 4, 0),
        ("cvt.sat.s32.u32", ONES, HIGHEST),
        ("cvt.sat.u16.u32", 70000, 65535),
        ("cvt.s8.s32", 300, 44),
        ("cvt.u16.u32", 0x12345, 0x2345),
    ),
    *cases("rq", ("cvt.sat.s32.s64", 1 << 40, HIGHEST), ("cvt.sat.u32.s64", ONES64, 0), ("cvt.u32.u64", 0x123456789, 0x23456789)),
    *cases("qr", ("cvt.s64.s32", ONES, ONES64), ("cvt.u64.u32", ONES, ONES), ("cvt.s64.s8", 0x80, ONES64 - 127)),
    *cases(
        "rf",
        ("cvt.rzi.s32.f32", f32(2.0**31), HIGHEST),
        ("cvt.rzi.s32.f32", NAN, 0),
        ("cvt.rni.s32.f32", f32(2.5), 2),
        ("cvt.rni.s32.f32", f32(3.5), 4),
        ("cvt.rzi.u32.f32", f32(-1.0), 0),
        ("cvt.rzi.u32.f32", f32(5e9), ONES),
        ("cvt.rmi.s32.f32", f32(-0.5), ONES),
        ("cvt.rpi.s32.f32", f32(0.1), 1),
        ("cvt.rzi.s8.f32", f32(200), 127),
        ("cvt.rzi.u16.f32", f32(70000), 65535),
        ("cvt.rzi.s32.f32", INF, HIGHEST),
        ("cvt.rpi.ftz.s32.f32", TINY, 0),
        ("cvt.rpi.s32.f32", TINY, 1),
    ),
    *cases(
        "qf", ("cvt.rzi.s64.f32", NAN, LOWEST64), ("cvt.rzi.u64.f32", f32(-3), 0), ("cvt.rzi.s64.f32", f32(1e30), (1 << 63) - 1)
    ),
    *cases(
        "rd",
        ("cvt.rzi.s32.f64", f64(float("nan")), LOWEST),
        ("cvt.rzi.u32.f64", f64(4294967295.9), ONES),
        ("cvt.rni.s32.f64", f64(-2.5), ONES - 1),
    ),
    *cases(
        "fr",
        ("cvt.rn.f32.s32", 16777217, f32(16777216)),
        ("cvt.rz.f32.s32", 16777219, f32(16777218)),
        ("cvt.rp.f32.s32", 16777217, f32(16777218)),
        ("cvt.rm.f32.s32", ONES - 16777216, f32(-16777218)),
        ("cvt.rn.f32.u32", ONES, f32(2.0**32)),
        ("cvt.rn.f32.s8", 0xFF, f32(-1)),
        ("cvt.rz.f32.u32", ONES, f32(4294967040)),
    ),
    *cases(
        "ff",
        ("cvt.sat.f32.f32", f32(1.5), f32(1)),
        ("cvt.sat.f32.f32", f32(-2), 0),
        ("cvt.sat.f32.f32", NAN, 0),
        ("cvt.rni.f32.f32", f32(2.5), f32(2)),
        ("cvt.rpi.f32.f32", f32(-0.3), MINUS),
        ("cvt.rzi.f32.f32", f32(-7.9), f32(-7)),
        ("cvt.rmi.f32.f32", INF, INF),
        ("cvt.ftz.f32.f32", TINY | MINUS, MINUS),
    ),
    *cases(
        "fd",
        ("cvt.rn.f32.f64", f64(1e300), INF),
        ("cvt.rz.f32.f64", f64(1e300), 0x7F7FFFFF),
        ("cvt.rn.f32.f64", f64(1 + 2.0**-24), f32(1)),
        ("cvt.rn.ftz.f32.f64", f64(1e-40), 0),
        ("cvt.rp.f32.f64", f64(1 + 2.0**-40), 0x3F800001),
        ("cvt.rn.f32.f64", f64(float("nan")), NAN32),
    ),
    *cases(
        "df",
        ("cvt.f64.f32", TINY, f64(2.0**-149)),
        ("cvt.ftz.f64.f32", TINY, 0),
        ("cvt.f64.f32", f32(0.1), f64(0.10000000149011612)),
    ),
    *cases(
        "hf",
        ("cvt.rn.f16.f32", f32(65519), 0x7BFF),
        ("cvt.rn.f16.f32", f32(65520), 0x7C00),
        ("cvt.rn.f16.f32", f32(1 + 2.0**-11), 0x3C00),
    ),
    *cases("hd", ("cvt.rn.f16.f64", f64(1 + 2.0**-11 + 2.0**-40), 0x3C01), ("cvt.rn.f16.f64", f64(-1e9), 0xFC00)),
    *cases("rff", ("cvt.rn.f16x2.f32", f32(-2), f32(65520), 0xC0007C00)),
    *cases("fh", ("cvt.f32.f16", 1, f32(2.0**-24)), ("cvt.f32.f16", 0x7C00, INF), ("cvt.f32.f16", 0xC000, f32(-2))),
    *cases("rh", ("cvt.rzi.s32.f16", 0xC100, ONES - 1), ("cvt.s32.s16", 0x8000, 0xFFFF8000), ("cvt.u32.u16", 0x8000, 0x8000)),
]

FLOATS = [
    *cases(
        "fff",
        ("add.f32", INF, INF | MINUS, NAN32),
        ("add.f32", TINY, TINY, TINY_SUM),
        ("add.ftz.f32", TINY, TINY, 0),
        ("add.sat.f32", f32(0.7), f32(0.7), f32(1)),
        ("mul.ftz.f32", f32(-1e-20), f32(1e-20), MINUS),
        ("mul.sat.f32", INF, 0, 0),
        ("sub.sat.f32", f32(1), f32(2), 0),
        ("sub.f32", f32(1), f32(1), 0),
        ("min.f32", NAN, f32(1), f32(1)),
        ("max.f32", f32(1), NAN, f32(1)),
        ("min.f32", NAN, NAN, NAN32),
        ("min.NaN.f32", NAN, f32(1), NAN32),
        ("min.f32", 0, MINUS, MINUS),
        ("min.f32", MINUS, 0, MINUS),
        ("max.f32", MINUS, 0, 0),
        ("max.f32", 0, MINUS, 0),
        ("max.ftz.f32", TINY, MINUS, 0),
        ("max.NaN.f32", f32(2), f32(1), f32(2)),
        ("div.rn.f32", f32(1), MINUS, INF | MINUS),
        ("div.rn.f32", 0, 0, NAN32),
        ("div.full.f32", f32(6), f32(3), f32(2)),
        ("add.rm.f32", f32(1), f32(2.0**-30), f32(1)),
        ("add.rp.f32", f32(1), f32(2.0**-30), 0x3F800001),
        ("add.rz.f32", f32(-1), f32(2.0**-30), 0xBF7FFFFF),
        ("copysign.f32", MINUS, f32(3), f32(-3)),
        ("copysign.f32", f32(1), f32(-3), f32(3)),
        ("mul.rz.f32", 0x7F7FFFFF, f32(2), 0x7F7FFFFF),
    ),
    *cases(
        "ffff",
        ("fma.rn.f32", f32(1 + 2.0**-12), f32(1 + 2.0**-12), f32(-1 - 2.0**-11), f32(2.0**-24)),
        ("fma.rm.f32", f32(1), f32(1), f32(-(2.0**-30)), 0x3F7FFFFF),
        ("fma.rn.sat.f32", f32(2), f32(2), f32(1), f32(1)),
        ("fma.rn.ftz.f32", TINY, f32(1), f32(0), 0),
        ("mad.rn.f32", f32(2), f32(3), f32(4), f32(10)),
    ),
    *cases(
        "ff",
        ("neg.f32", NAN, NAN | MINUS),
        ("abs.f32", NAN | MINUS, NAN),
        ("neg.f32", 0, MINUS),
        ("abs.ftz.f32", TINY | MINUS, 0),
        ("sqrt.rn.f32", f32(-1), NAN32),
        ("sqrt.rn.f32", MINUS, MINUS),
        ("rcp.approx.ftz.f32", 0, INF),
        ("rcp.rn.f32", f32(-4), f32(-0.25)),
        ("rsqrt.approx.f32", f32(4), f32(0.5)),
        ("lg2.approx.f32", 0, INF | MINUS),
        ("lg2.approx.f32", f32(8), f32(3)),
        ("ex2.approx.f32", f32(-3), f32(0.125)),
        ("ex2.approx.ftz.f32", INF | MINUS, 0),
        ("sin.approx.f32", 0, 0),
        ("cos.approx.f32", 0, f32(1)),
        ("tanh.approx.f32", INF, f32(1)),
        ("sqrt.rm.f32", f32(2), 0x3FB504F3),
        ("sqrt.rp.f32", f32(2), 0x3FB504F4),
    ),
    *cases(
        "ddd",
        ("min.f64", f64(float("nan")), f64(2), f64(2)),
        ("max.f64", LOWEST64, 0, 0),
        ("add.f64", f64(1), f64(2.0**-53), f64(1)),
        ("add.rp.f64", f64(1), f64(2.0**-60), f64(1) + 1),
        ("div.rn.f64", f64(1), f64(3), 0x3FD5555555555555),
        ("div.rp.f64", f64(1), f64(3), 0x3FD5555555555556),
        ("mul.f64", f64(float("inf")), 0, NAN64),
        ("copysign.f64", LOWEST64, f64(5), f64(-5)),
    ),
    *cases("dddd", ("fma.rn.f64", f64(1 + 2.0**-30), f64(1 - 2.0**-30), f64(-1), f64(-(2.0**-60)))),
    *cases(
        "hhh",
        ("add.f16", 0x3C00, 0x1000, 0x3C00),
        ("add.f16", 0x3C00, 0x1001, 0x3C01),
        ("mul.f16", 0x7BFF, 0x4000, 0x7C00),
        ("sub.f16", 0x3C00, 0x3C00, 0),
        ("add.ftz.f16", 1, 1, 0),
        ("add.sat.f16", 0x3C00, 0x3C00, 0x3C00),
        ("min.f16", 0x7E00, 0x3C00, 0x3C00),
        ("max.f16", 0x8000, 0, 0),
    ),
    *cases("hh", ("neg.f16", 0x7E00, 0xFE00), ("abs.f16", 0xFE00, 0x7E00)),
    *cases("rrr", ("add.f16x2", 0x3C003C00, 0x40003C00, 0x42004000), ("mul.f16x2", 0x7BFF4000, 0x4000BC00, 0x7C00C000)),
]

COMPARISONS = [
    *cases(
        "pff",
        *[
            (f"setp.{name}.f32", NAN, f32(1), want)
            for name, want in {
                "eq": 0,
                "ne": 0,
                "lt": 0,
                "le": 0,
                "gt": 0,
                "ge": 0,
                "equ": 1,
                "neu": 1,
                "ltu": 1,
                "leu": 1,
                "gtu": 1,
                "geu": 1,
                "num": 0,
                "nan": 1,
            }.items()
        ],
        *[
            (f"setp.{name}.f32", f32(1), f32(2), want)
            for name, want in {
                "eq": 0,
                "ne": 1,
                "lt": 1,
                "le": 1,
                "gt": 0,
                "ge": 0,
                "equ": 0,
                "neu": 1,
                "ltu": 1,
                "leu": 1,
                "gtu": 0,
                "geu": 0,
                "num": 1,
                "nan": 0,
            }.items()
        ],
        ("setp.eq.f32", MINUS, 0, 1),
        ("setp.lt.ftz.f32", 0, TINY, 0),
        ("setp.lt.f32", 0, TINY, 1),
    ),
    *cases(
        "prr",
        ("setp.lt.s32", ONES, 0, 1),
        ("setp.lt.u32", ONES, 0, 0),
        ("setp.lo.u32", 0, ONES, 1),
        ("setp.hs.u32", 5, 5, 1),
        ("setp.hi.u32", 5, 5, 0),
        ("setp.ls.u32", 6, 5, 0),
        ("setp.ne.b32", 1, 2, 1),
        ("setp.ge.s32", LOWEST, HIGHEST, 0),
    ),
    *cases("pqq", ("setp.gt.s64", ONES64, 0, 0), ("setp.gt.u64", ONES64, 0, 1), ("setp.eq.b64", 1 << 40, 1 << 40, 1)),
    *cases(
        "phh",
        ("setp.lt.s16", 0xFFFF, 0, 1),
        ("setp.lt.f16", 0x3C00, 0x4000, 1),
        ("setp.gt.f16", 0x7E00, 0x3C00, 0),
        ("setp.gtu.f16", 0x7E00, 0x3C00, 1),
    ),
    *cases("pdd", ("setp.neu.f64", f64(float("nan")), 0, 1), ("setp.ge.f64", f64(-1), f64(-2), 1)),
    *[
        Case(f"setp.{how}.s32 {pair}, {{0}}, {{1}}, {third}{{2}}", "prrp", (a, b, c), want)
        for how, pair, third, a, b, c, want in [
            ("gt.and", "{d}|%p6", "", 3, 2, 1, 1),
            ("gt.and", "%p6|{d}", "", 3, 2, 1, 0),
            ("gt.and", "%p6|{d}", "", 2, 3, 1, 1),
            ("gt.and", "%p6|{d}", "", 2, 3, 0, 0),
            ("gt.or", "{d}|%p6", "", 2, 3, 1, 1),
            ("gt.or", "%p6|{d}", "", 3, 2, 0, 0),
            ("gt.xor", "{d}|%p6", "", 3, 2, 1, 0),
            ("gt.xor", "%p6|{d}", "", 3, 2, 1, 1),
            ("gt.and", "{d}", "!", 3, 2, 0, 1),
            ("gt.and", "{d}", "!", 3, 2, 1, 0),
        ]
    ],
    *[Case("setp.lt.f32 %p6|{d}, {0}, {1}", "pff", (NAN, 0), 1)],
    *cases("rrr", ("set.lt.u32.s32", ONES, 0, ONES), ("set.gt.s32.u32", 1, 2, 0)),
    *cases("frr", ("set.eq.f32.u32", 4, 4, f32(1))),
    *cases("rff", ("set.ltu.u32.f32", NAN, 0, ONES), ("set.lt.u32.f32", NAN, 0, 0)),
    *cases("rrrp", ("selp.b32", 7, 9, 1, 7), ("selp.b32", 7, 9, 0, 9)),
    *cases("rrrr", ("slct.s32.s32", 7, 9, ONES, 9), ("slct.s32.s32", 7, 9, 0, 7)),
    *cases(
        "rrrf",
        ("slct.u32.f32", 7, 9, MINUS, 7),
        ("slct.u32.f32", 7, 9, NAN, 9),
        ("slct.u32.f32", 7, 9, TINY | MINUS, 9),
        ("slct.ftz.u32.f32", 7, 9, TINY | MINUS, 7),
    ),
    *cases(
        "pf",
        *[
            (f"testp.{name}.f32", value, want)
            for value, wants in {f32(1): "nf", TINY: "fsu", INF: "iu", NAN: "a", MINUS: "fn", 0x00800000: "nf"}.items()
            for name, want in {
                "finite": "f" in wants,
                "infinite": "i" in wants,
                "number": wants != "a",
                "notanumber": wants == "a",
                "normal": "n" in wants,
                "subnormal": "s" in wants,
            }.items()
        ],
    ),
    *cases("pd", ("testp.subnormal.f64", 1, 1), ("testp.normal.f64", f64(1), 1), ("testp.notanumber.f64", f64(float("nan")), 1)),
]


@pytest.mark.parametrize("table", [CONVERSIONS, FLOATS, COMPARISONS], ids=["conversions", "floats", "comparisons"])
def test_instruction_at_its_edges_gives_what_the_ptx_isa_says(table: list[Case]) -> None:
    check_cases(table)
