"""Do the types and operations of compiled CUDA kernels give what NumPy, exact fractions or the definition gives?"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from emulator_launch import cuda, launch

pytestmark = pytest.mark.unit
SOURCE = "arithmetic.cu"
N = 256
RNG = np.random.default_rng(5)
I32, I64, U32, F32, F64 = np.int32, np.int64, np.uint32, np.float32, np.float64


def run(kernel: str, *arrays: Any) -> None:
    launch(cuda(SOURCE), kernel, N // 64, 64, arrays)


def words(dtype: Any) -> np.ndarray:
    """Integers of all sizes, with the corners."""
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, N, dtype=dtype, endpoint=True) >> RNG.integers(0, info.bits, N).astype(dtype)
    x[:8] = [0, 1, 2, info.max, info.min, info.max - 1, info.min + 1, 7]
    return x.astype(dtype)


def wrapped(values: list[int], dtype: Any) -> list[int]:
    bits = np.iinfo(dtype).bits
    return [v % (1 << bits) - (((v % (1 << bits)) >> (bits - 1)) << bits if np.iinfo(dtype).min < 0 else 0) for v in values]


def columns(out: np.ndarray, *wanted: Callable[[int, int], int], inputs: tuple[np.ndarray, np.ndarray]) -> None:
    """Each column against its function of the two inputs as Python integers, wrapped to the type."""
    x, y = ([int(v) for v in a] for a in inputs)
    for k, function in enumerate(wanted):
        assert out[:, k].tolist() == wrapped([function(p, q) for p, q in zip(x, y, strict=True)], out.dtype), f"column {k}"


def quotient(x: int, y: int) -> int:
    return (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


def remainder(x: int, y: int) -> int:
    return x - y * quotient(x, y)


def without_zero(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, 3, x).astype(x.dtype)


def test_int_arithmetic_equals_python_with_truncation() -> None:
    x, y = words(I32), without_zero(RNG.permutation(words(I32)))
    y[(x == -(2**31)) & (y == -1)] = 5  # its quotient is undefined in CUDA
    out = np.zeros((N, 12), I32)
    run("ints", x, y, out)
    columns(
        out, lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, quotient, remainder, lambda x, y: x << (y & 31),
        lambda x, y: x >> (y & 31), min, max, lambda x, y: abs(x), lambda x, y: (x * y) >> 32,
        lambda x, y: quotient(x, 7) + remainder(x, 10), inputs=(x, y),
    )  # fmt: skip


def test_unsigned_arithmetic_equals_python() -> None:
    x, y = words(U32), without_zero(RNG.permutation(words(U32)))
    out = np.zeros((N, 8), U32)
    run("uints", x, y, out)
    columns(
        out, lambda x, y: x // y, lambda x, y: x % y, lambda x, y: x >> (y & 31), min, max, lambda x, y: (x * y) >> 32,
        lambda x, y: x // 10, lambda x, y: x % 1000, inputs=(x, y),
    )  # fmt: skip


def test_long_long_arithmetic_equals_python() -> None:
    x, y = words(I64), without_zero(RNG.permutation(words(I64)))
    y[(x == -(2**63)) & (y == -1)] = 5
    out = np.zeros((N, 10), I64)
    run("longs", x, y, out)
    big = 1 << 64
    columns(
        out, lambda x, y: x + y, lambda x, y: x * y, quotient, remainder, lambda x, y: x >> (y & 63), lambda x, y: x << (y & 63),
        lambda x, y: (x * y) >> 64, lambda x, y: (x % big) // (y % big), lambda x, y: (x % big) % (y % big),
        lambda x, y: max(x, y) ^ min(x, wrapped([-y], I64)[0]), inputs=(x, y),
    )  # fmt: skip


def _leading(x: int, bits: int) -> int:
    return bits - x.bit_length()


def _first_set(x: int) -> int:
    return (x & -x).bit_length()


def test_bit_intrinsics_equal_their_definitions() -> None:
    x, y = words(U32), RNG.permutation(words(U32))
    out = np.zeros((N, 14), U32)
    run("bits", x, y, out)

    def permuted(x: int, y: int) -> int:
        eight = (y << 32 | x).to_bytes(8, "little")
        return int.from_bytes(bytes(eight[k] for k in (1, 3, 5, 7)), "little")

    def both(x: int, y: int) -> int:
        return x << 32 | y

    columns(
        out, lambda x, y: x.bit_count(), lambda x, y: _leading(x, 32), lambda x, y: int(f"{x:032b}"[::-1], 2),
        lambda x, y: _first_set(x), permuted, lambda x, y: (both(y, x) << (y & 31)) >> 32, lambda x, y: both(y, x) >> min(y, 32),
        lambda x, y: both(x, y).bit_count(), lambda x, y: _leading(both(x, y), 64), lambda x, y: _first_set(both(x, y)),
        lambda x, y: (x >> 5) & 0x7FF, lambda x, y: wrapped([x << 9], I32)[0] >> 20, lambda x, y: x & ~0xFF00 | (y & 0xFF) << 8,
        lambda x, y: (x & y) ^ (~x | y), inputs=(x, y),
    )  # fmt: skip


def test_float_arithmetic_equals_numpy_bit_for_bit() -> None:
    x, y = ((RNG.normal(size=N) * 10.0 ** RNG.integers(-3, 4, N)).astype(F32) for _ in range(2))
    out = np.zeros((N, 16), F32)
    run("floats", x, y, out)
    fused = [F32(float(Fraction(float(p)) * Fraction(float(q)) + Fraction(float(p)))) for p, q in zip(x, y, strict=True)]
    wanted = [
        x + y, x - y, x * y, x / y, fused, np.sqrt(np.abs(x)), np.minimum(x, y), np.maximum(x, y),
        np.floor(x), np.ceil(x), np.rint(x), np.trunc(x), np.copysign(x, y), -np.abs(y), F32(1) / y, np.where(x > y, x, F32(2) * y),
    ]  # fmt: skip
    np.testing.assert_array_equal(out, np.array(wanted, F32).T)


def test_special_functions_are_within_their_tolerance() -> None:
    x = RNG.uniform(0.05, 20, N).astype(F32)
    out = np.zeros((N, 12), F32)
    run("special", x, out)
    v = x.astype(F64)
    wanted = [
        np.exp(v), np.log(v), np.sin(v), np.cos(v), np.tanh(v), v**1.7, v**-0.5, np.cbrt(v), np.arctan(v), np.log2(v), np.exp2(v),
        [math.erf(p) for p in v],
    ]  # fmt: skip
    np.testing.assert_allclose(out, np.array(wanted).T, rtol=2e-6, atol=2e-7)


def test_sine_of_large_arguments_reduces_them_exactly() -> None:
    x = (RNG.uniform(1, 10, N) * 10.0 ** RNG.integers(5, 37, N)).astype(F32)
    out = np.zeros(N, F32)
    run("large_angles", x, out)
    np.testing.assert_allclose(out, np.sin(x.astype(F64)), atol=2e-7)


def test_fast_intrinsics_are_within_their_tolerance() -> None:
    x = RNG.uniform(0.1, 3, N).astype(F32)
    out = np.zeros((N, 4), F32)
    run("fast_special", x, out)
    v = x.astype(F64)
    np.testing.assert_allclose(out, np.array([np.exp(v), np.log(v), np.sin(v), v / 3]).T, rtol=1e-5, atol=1e-6)


def test_double_arithmetic_equals_numpy() -> None:
    x, y = (RNG.normal(size=N) * 10.0 ** RNG.integers(-1, 2, N) for _ in range(2))
    out = np.zeros((N, 12), F64)
    run("doubles", x, y, out)
    fused = [float(Fraction(p) * Fraction(q) + Fraction(q)) for p, q in zip(x, y, strict=True)]
    exact = [x + y, x * y, x / y, fused, np.sqrt(np.abs(x)), np.floor(x), np.minimum(x, y), np.rint(x)]
    np.testing.assert_array_equal(out[:, :8], np.array(exact).T)
    near = [np.exp(x), np.log(np.abs(x)), 1 / np.sqrt(np.abs(x)), np.tanh(x)]
    np.testing.assert_allclose(out[:, 8:], np.array(near).T, rtol=1e-14)


def check_rounding(value: Any, exact: Fraction, mode: str) -> None:
    """`value` is the neighbour of `exact` in its type on the side that the mode asks for."""
    up, down = (Fraction(float(np.nextafter(value, type(value)(s)))) for s in (np.inf, -np.inf))
    side = {"rd": -1, "ru": 1, "rz": -1 if exact > 0 else 1}[mode]
    got = Fraction(float(value))
    assert (got <= exact < up) if side < 0 else (down < exact <= got), (value, mode)


def test_directed_rounding_gives_the_neighbour_on_that_side() -> None:
    x, y = ((RNG.normal(size=N) * 10.0 ** RNG.integers(-3, 4, N)).astype(F32) for _ in range(2))
    d = RNG.normal(size=N)
    out, wide = np.zeros((N, 12), F32), np.zeros((N, 4), F64)
    run("directed", x, y, d, out, wide)
    for i in range(N):
        p, q, r = (Fraction(float(v[i])) for v in (x, y, d))
        for k, (exact, mode) in enumerate(
            [(p + q, "rz"), (p + q, "rd"), (p + q, "ru"), (p * q, "rz"), (p * q, "ru"), (p * q + p, "rd"), (p / q, "rz")]
        ):
            check_rounding(out[i, k], exact, mode)
        root = out[i, 7]
        above = np.nextafter(root, F32(np.inf))
        assert Fraction(float(root)) ** 2 <= abs(p) < Fraction(float(above)) ** 2
        check_rounding(out[i, 8], 1 / q, "ru")
        check_rounding(out[i, 9], r, "rd")
        check_rounding(out[i, 10], r, "ru")
        check_rounding(out[i, 11], Fraction(int(x.view(I32)[i])), "rz")
        for k, (exact, mode) in enumerate([(r + q, "rd"), (r * r, "ru"), (r / 3, "rz"), (Fraction(int(d.view(I64)[i])), "ru")]):
            check_rounding(wide[i, k], exact, mode)


def clamped(values: list[int | None], dtype: Any, nan: int = 0) -> list[int]:
    info = np.iinfo(dtype)
    return [nan if v is None else min(max(v, int(info.min)), int(info.max)) for v in values]


def rounded(values: np.ndarray, how: Callable[[float], int]) -> list[int | None]:
    return [None if math.isnan(v) else (2**70 if v > 0 else -(2**70)) if math.isinf(v) else how(v) for v in map(float, values)]


def test_float_to_integer_rounds_clamps_and_treats_nan_as_ptx_says() -> None:
    x = (RNG.normal(size=N) * 10.0 ** RNG.integers(-1, 12, N)).astype(F32)
    x[:8] = [np.nan, np.inf, -np.inf, 2.5, 3.5, -2.5, 4294967296.0, -0.4]
    d = (RNG.normal(size=N) * 10.0 ** RNG.integers(-1, 22, N)).astype(F64)
    d[:8] = [np.nan, np.inf, -np.inf, 2.5, -3.5, 2147483647.6, 1e30, -1.5]
    out, wide = np.zeros((N, 10), I32), np.zeros((N, 4), I64)
    run("to_ints", x, d, out, wide)
    assert out[:, 0].tolist() == clamped(rounded(x, math.trunc), I32)
    assert out[:, 1].view(U32).tolist() == clamped(rounded(x, math.trunc), U32)
    assert out[:, 2].tolist() == clamped(rounded(x, round), I32)
    assert out[:, 3].tolist() == clamped(rounded(x, math.floor), I32)
    assert out[:, 4].tolist() == clamped(rounded(x, math.ceil), I32)
    assert out[:, 5].tolist() == clamped(rounded(d, math.trunc), I32, nan=-(2**31))
    assert out[:, 6].view(U32).tolist() == clamped(rounded(d, math.trunc), U32, nan=2**31)
    assert out[:, 7].tolist() == clamped(rounded(d, round), I32, nan=-(2**31))
    assert out[:, 8].tolist() == out[:, 0].astype(np.int16).tolist()
    assert out[:, 9].tolist() == out[:, 0].astype(np.uint8).tolist()
    assert wide[:, 0].tolist() == clamped(rounded(x, math.trunc), I64, nan=-(2**63))
    assert wide[:, 1].view(np.uint64).tolist() == clamped(rounded(d, math.trunc), np.uint64, nan=2**63)
    assert wide[:, 2].tolist() == clamped(rounded(d, round), I64, nan=-(2**63))
    assert wide[:, 3].view(np.uint64).tolist() == clamped(rounded(x, math.ceil), np.uint64, nan=2**63)


def test_integer_to_float_rounds_to_nearest() -> None:
    x, y = words(I32), words(I64)
    out, wide = np.zeros((N, 6), F32), np.zeros((N, 4), F64)
    run("from_ints", x, y, out, wide)
    wanted = [x, x.view(U32), y, y.view(np.uint64), x.astype(np.int16), x.astype(np.uint8)]
    np.testing.assert_array_equal(out, np.array([w.astype(F32) for w in wanted]).T)
    np.testing.assert_array_equal(wide, np.array([w.astype(F64) for w in wanted[:4]]).T)


def half_numbers() -> np.ndarray:
    x = RNG.integers(0, 1 << 16, N).astype(np.uint16)
    x[(x & 0x7C00) == 0x7C00] = 0x1234  # no infinities and NaN here
    return x.view(np.float16)


def halved(values: list[float]) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array(values, F64).astype(np.float16)  # NumPy rounds a double to half once


def test_half_arithmetic_is_rounded_once() -> None:
    x, y = half_numbers(), half_numbers()
    d = RNG.normal(size=N) * 10.0 ** RNG.integers(-8, 6, N)
    d[:4] = [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 1 + 3 * 2.0**-11 - 2.0**-50, 2.0**-25 + 2.0**-60]  # beside ties
    out, wide = np.zeros((N, 12), np.float16), np.zeros((N, 4), F32)
    run("halves", x, y, out, wide, d)
    p, q = x.astype(F64), y.astype(F64)
    fused = [float(Fraction(a) * Fraction(b) + Fraction(a)) for a, b in zip(p, q, strict=True)]
    with np.errstate(over="ignore"):
        through_single = d.astype(F32).astype(np.float16)
    wanted = [
        halved(p + q), halved(p - q), halved(p * q), halved(fused), np.minimum(x, y), np.maximum(x, y), np.abs(x), -y,
        np.where(x < y, x, y), halved(d), through_single, halved(np.arange(N) * 977.0),
    ]  # fmt: skip
    for k, column in enumerate(wanted):
        np.testing.assert_array_equal(out[:, k], column, err_msg=f"column {k}")
    np.testing.assert_array_equal(wide, np.array([p, p > q, p != q, np.trunc(p)]).T)


def test_half_pairs_compute_each_half() -> None:
    x, y = half_numbers().reshape(-1, 2).repeat(2, 0), half_numbers().reshape(-1, 2).repeat(2, 0)[::-1].copy()
    out, wide = np.zeros((N, 6, 2), np.float16), np.zeros((N, 2), F32)
    run("half_pairs", x, y, out, wide)
    p, q = x.astype(F64), y.astype(F64)
    fused = halved([float(Fraction(a) * Fraction(b) + Fraction(a)) for a, b in zip(p.flat, q.flat, strict=True)])
    wanted = [halved(p + q), halved(p * q), fused.reshape(p.shape), -x, np.maximum(x, y), (x < y).astype(np.float16)]
    for k, pair in enumerate(wanted):
        np.testing.assert_array_equal(out[:, k], pair, err_msg=f"column {k}")
    np.testing.assert_array_equal(wide[:, 0], x[:, 0].astype(F32) + F32(1))
    np.testing.assert_array_equal(wide[:, 1], y[:, 0].astype(F32) + x[:, 1].astype(F32))


def _fns(mask: int, base: int, offset: int) -> int:
    """PTX's own definition."""
    if offset == 0:
        return base if mask >> base & 1 else -1
    count, step, at = abs(offset) - 1, 1 if offset > 0 else -1, base
    while 0 <= at < 32:
        if mask >> at & 1:
            if count == 0:
                return at
            count -= 1
        at += step
    return -1


def test_dot_products_and_nth_set_bit_equal_their_definitions() -> None:
    x, y = RNG.integers(-(2**31), 2**31, (2, N)).astype(I32)
    out = np.zeros((N, 6), I32)
    run("dots", x, y, out)
    i = np.arange(N)
    sx, sy = (v.view(np.int8).reshape(N, 4).astype(I64) for v in (x, y))
    ux, uy = (v.view(np.uint8).reshape(N, 4).astype(I64) for v in (x, y))
    sh, uh = x.view(np.int16).reshape(N, 2).astype(I64), x.view(np.uint16).reshape(N, 2).astype(I64)
    wanted = [
        (sx * sy).sum(1) + i, (ux * uy).sum(1) + i, (sh * sy[:, :2]).sum(1) + i, (uh * uy[:, 2:]).sum(1) + 1,
        [_fns(int(a) & 0xFFFFFFFF, int(b) & 31, int(math.fmod(int(a) >> 7, 5)) - 2) for a, b in zip(x, y, strict=True)],
        np.abs(x.astype(I64) - y) + 3,
    ]  # fmt: skip
    np.testing.assert_array_equal(out, np.array(wanted, I64).astype(I32).T)
