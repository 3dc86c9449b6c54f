"""`mma.sync` on doubles and in its four-fold form, near the exact sum, under guards; what is refused and what is a fault."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from emulator_launch import launch, ptx
from matrix_reference import collect, float_product, left, result, right, spread, value
from test_matrix_mma import patterns, registers, run, sizes

from warpsight.base.errors import LaunchFault, UnsupportedError

pytestmark = pytest.mark.unit


def _rounded(x: Fraction, how: str) -> float:
    """A fraction as a double, by the rounding modifier; normal numbers only."""
    near = float(x)
    exact = Fraction(near)
    up = {"rp": x > exact, "rm": False, "rz": x > exact and x < 0}.get(how, False)
    down = {"rm": x < exact, "rp": False, "rz": x < exact and x > 0}.get(how, False)
    return math.nextafter(near, math.inf) if up else math.nextafter(near, -math.inf) if down else near


@pytest.mark.parametrize("how", ["", "rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"])
def test_mma_of_doubles_is_a_chain_of_fused_multiply_adds(shape: str, how: str) -> None:
    m, n, k = sizes(shape)
    rng = np.random.default_rng(4)
    a, b, c = (rng.normal(0, 1, s) for s in ((m, k), (k, n), (m, n)))
    words = [
        spread(x.view(np.uint64), place, "f64", registers(x.shape, "f64"))
        for x, place in ((a, left(shape, "f64")), (b, right(shape, "f64")), (c, result(shape)))
    ]
    opcode = f"mma.sync.aligned.{shape}.row.col{'.' + how if how else ''}.f64.f64.f64.f64"
    got = collect(run(opcode, words, registers((m, n), "f64")), result(shape), "f64", (m, n)).view(np.float64)
    wanted = c.copy()
    for row, column in np.ndindex(m, n):
        total = float(c[row, column])
        for x, y in zip(a[row], b[:, column], strict=True):
            total = _rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(total), how)
        wanted[row, column] = total
    np.testing.assert_array_equal(got, wanted)


def test_nan_of_a_double_product_is_the_canonical_one() -> None:
    a, b, c = np.full((32, 1), np.inf), np.zeros((32, 1)), np.zeros((32, 2))
    got = run("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", [x.view(np.uint64) for x in (a, b, c)], 2)
    assert np.all(got == 0x7FF8000000000000)


# The four products of m8n8k4 on halves: by "Matrix Fragments for mma.m8n8k4 with .f16 floating point type".


def _product_of(lane: int) -> int:
    return lane % 16 // 4


def _four_left(layout: str, lane: int, i: int) -> tuple[int, int]:
    row = lane % 4 if lane < 16 else lane % 4 + 4
    turned = i % 4 if lane < 16 else i % 4 + 4
    return (row, i) if layout == "row" else (turned, lane % 4)


def _four_right(layout: str, lane: int, i: int) -> tuple[int, int]:
    if layout == "row":
        return lane % 4, i if lane < 16 else i + 4
    return i, lane % 4 if lane < 16 else lane % 4 + 4


def _four_result(kind: str, lane: int, i: int) -> tuple[int, int]:
    if kind == "f16":
        return lane % 4 if lane < 16 else lane % 4 + 4, i
    x = (lane & 0b1) + (i & 0b10)
    return x if lane < 16 else x + 4, (i & 0b100) + (lane & 0b10) + (i & 0b1)


@pytest.mark.parametrize("layouts", ["row.row", "row.col", "col.row", "col.col"])
@pytest.mark.parametrize(("d", "c"), [("f16", "f16"), ("f32", "f16"), ("f32", "f32")])
def test_mma_m8n8k4_of_halves_makes_four_products(layouts: str, d: str, c: str) -> None:
    rng = np.random.default_rng(5)
    of_a, of_b = layouts.split(".")
    sets = [(patterns(rng, (8, 4), "f16", "near"), patterns(rng, (4, 8), "f16", "near"), patterns(rng, (8, 8), c, "near"))
            for _ in range(4)]  # fmt: skip

    def fragment(which: int, kind: str, count: int, place: object) -> np.ndarray:
        words = [spread(s[which], place, kind, count) for s in sets]  # type: ignore[arg-type]
        return np.array([words[_product_of(lane)][lane] for lane in range(32)])

    of_c = 4 if c == "f16" else 8
    words = [
        fragment(0, "f16", 2, lambda lane, i: _four_left(of_a, lane, i)),
        fragment(1, "f16", 2, lambda lane, i: _four_right(of_b, lane, i)),
        fragment(2, c, of_c, lambda lane, i: _four_result(c, lane, i)),
    ]
    out = run(f"mma.sync.aligned.m8n8k4.{layouts}.{d}.f16.f16.{c}", words, 4 if d == "f16" else 8)
    for number, (a, b, start) in enumerate(sets):
        own = np.array([out[lane] if _product_of(lane) == number else out[4 * number + lane // 16 * 16 + lane % 4]
                        for lane in range(32)])  # fmt: skip
        got = collect(own, lambda lane, i: _four_result(d, lane, i), d, (8, 8))
        np.testing.assert_array_equal(got, float_product(a, b, start, ("f16", "f16", c), d))


@pytest.mark.parametrize(("kind", "shape"), [("f16", "m16n8k16"), ("bf16", "m16n8k16"), ("tf32", "m16n8k8")])
def test_sum_lies_within_the_error_of_single_precision(kind: str, shape: str) -> None:
    m, n, k = sizes(shape)
    rng = np.random.default_rng(6)
    a, b, c = (patterns(rng, s, t, "near") for s, t in (((m, k), kind), ((k, n), kind), ((m, n), "f32")))
    words = [spread(x, place, t, registers(x.shape, t)) for x, place, t in
             ((a, left(shape, kind), kind), (b, right(shape, kind), kind), (c, result(shape), "f32"))]  # fmt: skip
    got = collect(run(f"mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32", words, 4), result(shape), "f32", (m, n))
    numbers = [np.vectorize(lambda p, t=t: value(int(p), t))(x) for x, t in ((a, kind), (b, kind), (c, "f32"), (got, "f32"))]
    scale = np.abs(numbers[0]) @ np.abs(numbers[1]) + np.abs(numbers[2])
    assert np.all(np.abs(numbers[3] - (numbers[0] @ numbers[1] + numbers[2])) <= scale * 2.0**-20)


_GUARDED = """
mov.b32 %r1, 0x3c003c00;
mov.f32 %f1, 0f40000000;
setp.{compare}.u32 %p1, %i, {bound};
@%p1 mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%f1, %f2, %f3, %f4}}, {{%r1, %r1}}, {{%r1}}, {{%f1, %f1, %f1, %f1}};
st.global.f32 [%out], %f1;
ret;
"""


@pytest.mark.parametrize(("bound", "expected"), [(32, 10.0), (0, 2.0)])
def test_guard_that_holds_for_all_or_no_lane_is_obeyed(bound: int, expected: float) -> None:
    out = np.zeros((32, 2), np.float32)
    launch(ptx(_GUARDED.format(compare="lt", bound=bound)), "k", 1, 32, [out])
    assert np.all(out[:, 0] == expected)


@pytest.mark.parametrize(("threads", "compare", "bound", "lane"), [(32, "lt", 31, 0), (32, "gt", 5, 6), (48, "lt", 99, 32)])
def test_warp_that_is_not_whole_is_a_fault_naming_a_thread(threads: int, compare: str, bound: int, lane: int) -> None:
    source = ptx(_GUARDED.format(compare=compare, bound=bound))
    with pytest.raises(LaunchFault, match=rf"only some of the 32 threads .*mma\.sync.*thread \({lane},0,0\)"):
        launch(source, "k", 1, threads, [np.zeros((threads, 2), np.float32)])


_F = "{%f1, %f2, %f3, %f4}"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {_F}, {{%r1,%r2,%r3,%r4}}, {{%r5,%r6}}, {_F};", "row.row"),
        (f"mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {_F}, {{%r1,%r2,%r3,%r4}}, {{%r5,%r6}}, {_F};", "f16 and .bf16"),
        (f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {_F}, {{%r1,%r2,%r3,%r4}}, {{%r5}}, {_F};", "4 registers; 2 expected"),
        (f"mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {_F}, {{%r1,%r2}}, {{%r5}}, {_F};", "shape .m16n8k32"),
        (f"mma.sync.aligned.m16n8k8.row.col.satfinite.f32.f16.f16.f32 {_F}, {{%r1,%r2}}, {{%r5}}, {_F};", "satfinite"),
        (f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f16 {_F}, {{%r1,%r2}}, {{%r5}}, {{%r6,%r7}};", "sum of .f16 into .f32"),
        ("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.popc {%r1,%r2}, {%r3}, {%r4}, {%r1,%r2};", "xor.popc"),
        (f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {_F}, {{%q1,%r2}}, {{%r5}}, {_F};", "%q1 is not of 32 bits"),
        (f"mma.sync.aligned.m16n8k32.row.col.kind::i8.f32.e4m3.e4m3.f32 {_F}, {{%r1,%r2,%r3,%r4}}, {{%r5,%r6}}, {_F};", "kind::i8"),
    ],
)  # fmt: skip
def test_form_that_is_not_modelled_is_refused_by_name(line: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why) as caught:
        launch(ptx(f"{line}\nret;"), "k", 1, 32, [np.zeros(64, np.uint64)])
    assert "mma.sync" in str(caught.value)
