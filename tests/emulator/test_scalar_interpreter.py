"""Does the interpreter that the emulator is held against compute what the PTX ISA says? Every value here was worked out by hand
or comes from NumPy.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import scalar_interpreter
import scalar_interpreter_floats as floats
from scalar_interpreter_floats import F32, F64
from scalar_interpreter_ops import evaluate
from scalar_interpreter_text import read_kernel

pytestmark = pytest.mark.unit
MASK = 0xFFFFFFFF


def f32(x: float) -> int:
    """The pattern of a single."""
    return int.from_bytes(struct.pack("<f", x), "little")


def f64(x: float) -> int:
    """The pattern of a double."""
    return int.from_bytes(struct.pack("<d", x), "little")


@pytest.mark.parametrize(
    ("text", "sources", "wanted"),
    [
        ("add.u32", [0xFFFFFFFF, 2], 1),
        ("add.sat.s32", [0x7FFFFFFF, 1], 0x7FFFFFFF),
        ("sub.sat.s32", [0x80000000, 1], 0x80000000),
        ("mul.hi.s32", [-2 & MASK, 3], MASK),
        ("mul.hi.u32", [0xFFFFFFFE, 3], 2),
        ("mul.wide.s32", [-2 & MASK, 3], -6 & (1 << 64) - 1),
        ("mul.wide.u32", [0xFFFFFFFF, 0xFFFFFFFF], 0xFFFFFFFE00000001),
        ("mad.hi.u32", [0x80000000, 4, 5], 7),
        ("mad.wide.s32", [-1 & MASK, 5, 3], -2 & (1 << 64) - 1),
        ("sad.s32", [-3 & MASK, 4, 10], 17),
        ("div.s32", [-7 & MASK, 2], -3 & MASK),
        ("rem.s32", [-7 & MASK, 2], -1 & MASK),
        ("rem.u64", [(1 << 64) - 1, 10], 5),
        ("min.s32", [MASK, 0], MASK),
        ("min.u32", [MASK, 0], 0),
        ("abs.s32", [0x80000000], 0x80000000),
        ("neg.s32", [1], MASK),
        ("shl.b32", [1, 32], 0),
        ("shr.s32", [0x80000000, 40], MASK),
        ("shr.u32", [0x80000000, 31], 1),
        ("bfe.s32", [0x00000F00, 8, 4], MASK),
        ("bfe.u32", [0x00000F00, 8, 4], 15),
        ("bfe.s32", [0x80000000, 28, 9], 0xFFFFFFF8),
        ("bfe.u32", [MASK, 40, 4], 0),
        ("bfe.s32", [0x80000000, 40, 4], MASK),
        ("bfi.b32", [0xFF, 0, 4, 8], 0xFF0),
        ("bfi.b32", [0xFF, 0x12345678, 28, 8], 0xF2345678),
        ("popc.b64", [(1 << 63) | 7], 4),
        ("clz.b32", [0], 32),
        ("clz.b64", [1], 63),
        ("brev.b32", [1], 0x80000000),
        ("prmt.b32", [0x33221100, 0x77665544, 0x7531], 0x77553311),
        ("prmt.b32", [0x80, 0, 0x0008], 0x808080FF),
        ("lop3.b32", [0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA, 0x96], 0x96969696),
        ("shf.l.wrap.b32", [0x80000000, 1, 33], 3),
        ("shf.r.clamp.b32", [0x12345678, 0x9ABCDEF0, 40], 0x9ABCDEF0),
        ("setp.lt.s32", [MASK, 0], 1),
        ("setp.lo.u32", [MASK, 0], 0),
        ("setp.ne.f32", [f32(float("nan")), 0], 0),
        ("setp.neu.f32", [f32(float("nan")), 0], 1),
        ("setp.eq.f32", [0x80000000, 0], 1),
        ("cvt.s32.s8", [0x80], 0xFFFFFF80),
        ("cvt.u32.u8", [0x80], 0x80),
        ("cvt.s64.u32", [MASK], MASK),
        ("cvt.s64.s32", [MASK], (1 << 64) - 1),
        ("cvt.sat.u8.s32", [-5 & MASK], 0),
        ("cvt.sat.s8.s32", [300], 127),
        ("cvt.rni.s32.f32", [f32(2.5)], 2),
        ("cvt.rpi.s32.f32", [f32(-1.5)], -1 & MASK),
        ("cvt.rmi.s32.f32", [f32(-1.5)], -2 & MASK),
        ("cvt.rzi.u32.f32", [f32(-1.5)], 0),
        ("cvt.rzi.s32.f32", [f32(3e9)], 0x7FFFFFFF),
        ("cvt.rzi.s32.f32", [f32(float("nan"))], 0),
        ("cvt.rzi.s64.f32", [f32(float("nan"))], 1 << 63),
        ("cvt.rzi.s32.f64", [f64(float("nan"))], 1 << 31),
        ("cvt.rn.f32.s32", [16777217], f32(16777216.0)),
        ("cvt.rn.f32.u64", [(1 << 64) - 1], f32(2.0**64)),
        ("cvt.rz.f32.u32", [MASK], f32(4294967040.0)),
        ("cvt.rni.f32.f32", [f32(-0.25)], 0x80000000),
        ("cvt.sat.f32.f32", [f32(float("nan"))], 0),
        ("cvt.rn.f32.f64", [f64(1e300)], F32.infinity),
        ("min.f32", [f32(float("nan")), f32(2.0)], f32(2.0)),
        ("min.f32", [0, 0x80000000], 0x80000000),
        ("max.f32", [0x80000000, 0], 0),
        ("add.sat.f32", [f32(0.75), f32(0.75)], f32(1.0)),
        ("add.rn.ftz.f32", [1, 1], 0),
        ("rcp.rn.f32", [0x80000000], 0xFF800000),
    ],
)
def test_opcode_on_known_values_gives_the_known_result(text: str, sources: list[int], wanted: int) -> None:
    opcode, *modifiers = text.split(".")
    assert f"{evaluate(opcode, tuple(modifiers), sources):#x}" == f"{wanted:#x}"


def test_fma_rounded_once_differs_from_twice() -> None:
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last term is lost when the product is rounded by itself.
    x = f32(1 + 2**-12)
    assert floats.fma(F32, x, x, f32(-1 - 2**-11)) == f32(2**-24)
    assert floats.add(F32, floats.multiply(F32, x, x), f32(-1 - 2**-11)) == 0


def test_zero_sums_have_the_sign_that_ieee_gives_them() -> None:
    assert floats.add(F32, f32(1.0), f32(-1.0)) == 0
    assert floats.add(F32, F32.sign, F32.sign) == F32.sign
    assert floats.add(F32, f32(1.0), f32(-1.0), "rm") == F32.sign


@pytest.mark.parametrize(("kind", "f"), [(np.float32, F32), (np.float64, F64)])
def test_arithmetic_on_random_patterns_equals_numpy(kind: Any, f: floats.Format) -> None:
    rng = np.random.default_rng(3)
    smallest = 1 << f.fraction
    special = np.array([0, f.sign, 1, f.sign | 1, f.infinity, f.infinity - 1, f.nan, smallest, smallest - 1], np.uint64)
    any_pattern = rng.integers(0, 1 << f.bits, (2, 1500), np.uint64)
    pattern = np.where(rng.random((2, 1500)) < 0.25, rng.choice(special, (2, 1500)), any_pattern)
    # Sums are only interesting when the exponents are near and the signs differ.
    opposite = (pattern[0] ^ np.uint64(f.sign)) + rng.integers(0, smallest, 1500, np.uint64)
    pattern[1] = np.where(rng.random(1500) < 0.5, opposite & np.uint64(2**f.bits - 1), pattern[1])
    a, b = (row.astype(f"uint{f.bits}").view(kind) for row in pattern)
    with np.errstate(all="ignore"):
        results = {"add": a + b, "multiply": a * b, "divide": a / b, "square_root": np.sqrt(a)}
    for name, wanted in results.items():
        rule = getattr(floats, name)
        operands = pattern[:1] if name == "square_root" else pattern
        got = np.array([rule(f, *map(int, column)) for column in operands.T], np.uint64).astype(f"uint{f.bits}").view(kind)
        np.testing.assert_array_equal(got, wanted, err_msg=name)
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(wanted[~np.isnan(wanted)]), err_msg=name)


KERNEL = """
.visible .entry k(.param .u64 k_param_0, .param .u32 k_param_1)
{
    .reg .pred %p<3>;  .reg .b32 %r<8>;  .reg .b64 %rd<3>;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %rd0, [k_param_0];   // where to
    ld.param.u32 %r0, [k_param_1];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 0;
$top:
    setp.ge.u32 %p0|%p1, %r2, %r1;
    @%p0 bra $done;
    add.u32 %r2, %r2, 1;
    bra $top;
$done:
    shl.b32 %r3, %r1, 2;
    mov.u32 %r4, tile;
    add.u32 %r4, %r4, %r3;
    mad.lo.u32 %r2, %r2, 10, %r0;
    st.shared.u32 [%r4], %r2;
    bar.sync 0;
    mov.u32 %r5, tile;
    sub.u32 %r6, 28, %r3;
    add.u32 %r5, %r5, %r6;
    ld.shared.u32 %r5, [%r5];
    mul.wide.u32 %rd1, %r1, 8;
    add.u64 %rd0, %rd0, %rd1;
    setp.eq.u32 %p2, %r1, 3;
    @%p2 ret;
    st.global.v2.u32 [%rd0], {%r5, %r1};
    ret;
}
"""


def test_kernel_with_loop_barrier_and_early_exit_gives_the_known_result() -> None:
    out = np.full(16, 99, np.uint32)
    scalar_interpreter.run(KERNEL, "k", grid=(1,), block=(8,), args=[out, np.uint32(1000)])
    # Thread t reads what thread 7 - t wrote: 1000 + 10 (7 - t). Thread 3 leaves without a store.
    assert out.reshape(8, 2).tolist() == [[99, 99] if t == 3 else [1070 - 10 * t, t] for t in range(8)]


def test_access_outside_of_an_array_is_refused() -> None:
    with pytest.raises(IndexError, match="access to 8 bytes"):
        scalar_interpreter.run(KERNEL, "k", grid=(1,), block=(8,), args=[np.zeros(8, np.uint32), np.uint32(0)])


def test_endless_loop_is_stopped() -> None:
    text = ".visible .entry k() { .reg .b32 %r<2>; $a: mov.u32 %r0, 1; bra $a; }"
    with pytest.raises(scalar_interpreter.RunawayError):
        scalar_interpreter.run(text, "k", grid=(1,), block=(1,), args=[], max_steps=100)


def test_text_that_is_not_understood_is_refused() -> None:
    with pytest.raises(ValueError, match="no kernel other"):
        read_kernel(KERNEL, "other")
    with pytest.raises(ValueError, match="unknown directive"):
        read_kernel(".visible .entry k() { .local .b8 x[4]; ret; }", "k")
    with pytest.raises(KeyError, match="frob"):
        scalar_interpreter.run(".visible .entry k() { .reg .b32 %r<1>; frob.b32 %r0, 1; }", "k", grid=(1,), block=(1,), args=[])
