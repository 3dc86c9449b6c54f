"""Numbers of matrices as products with tensor memory take them, their scales, and sums of products.

A sum cuts all of its terms off at a unit that they share, which their largest exponent gives (`matrix_products.py`).
"""

from __future__ import annotations

from typing import Any

import lazy_loader as lazy
import numpy as np

from warpsight.base.compiled import compiled
from warpsight.emulator.textures.texels import float_of, load, narrow, pattern_of, widen

numba = lazy.load("numba")

# Types of elements, and their bits (in shared memory there may be gaps between them: 16 elements a piece).
F16, BF16, TF32, E4M3, E5M2, E2M3, E3M2, E2M1, U8, S8 = range(10)
BITS = np.array([16, 16, 32, 8, 8, 6, 6, 4, 8, 8], np.int64)
NOTHING, FLOORS = -4096, np.array([-21, -132], np.int64)  # as in `matrix_products.py`
FRACTION, GROUPED_FRACTION, GROUP = 25, 35, 16


@compiled
def number(pattern: Any, kind: Any) -> Any:
    """The number of a float's pattern, and its exponent as sums count it."""
    if kind == F16:
        single = widen(pattern)
    elif kind == BF16:
        single = pattern << 16
    elif kind == TF32:
        single = pattern & 0xFFFFE000
    elif kind == E5M2:
        single = widen(pattern << 8)
    else:
        single = numba.int64(0)
    if kind in (F16, BF16, TF32, E5M2):
        smallest = -126 if kind in (BF16, TF32) else -14
        power = max((single >> 23 & 255) - 127, smallest)
        return numba.float64(float_of(single)), power if single & 0x7FFFFFFF else numba.int64(NOTHING)
    exponents, fractions = (4, 3) if kind == E4M3 else (2, 3) if kind == E2M3 else (3, 2) if kind == E3M2 else (2, 1)
    magnitude = pattern & (1 << exponents + fractions) - 1
    if kind == E4M3 and magnitude == 0x7F:
        return np.nan, numba.int64(8)
    biased, smallest = magnitude >> fractions, 2 - (1 << exponents - 1)
    power = max(biased - 1, 0) + smallest
    units = magnitude & (1 << fractions) - 1 | (1 << fractions if biased else 0)
    value = numba.float64(units) * 2.0 ** (power - fractions)
    return -value if pattern >> exponents + fractions & 1 else value, power if magnitude else numba.int64(NOTHING)


@compiled
def scale(pattern: Any, powers: Any) -> Any:
    """The number of a scale, and its exponent: of a power of two (`ue8m0`), or an e4m3 without sign."""
    if not powers:
        return number(pattern & 0x7F, numba.int64(E4M3))
    power = pattern - 127
    return np.nan if pattern == 255 else 2.0**power, power


@compiled
def rounded(value: Any, halves: Any) -> Any:
    """The pattern of a sum: f32 cut off towards zero, f16 nearest, ties to even."""
    if np.isnan(value):
        return numba.int64(0x7FFF if halves else 0x7FFFFFFF)
    near = numba.float32(value)
    bits = pattern_of(near)
    if abs(numba.float64(near)) > abs(value) and abs(value) < 2.0**128:
        bits -= 1
    if halves:  # rounded to odd first, so that the second rounding is the only one that matters
        return narrow(bits | 1 if numba.float64(near) != value else bits)
    return bits


@compiled
def sum_of(terms: Any, powers: Any, total: Any, power: Any, floor: Any, fraction: Any) -> Any:
    """All terms and the accumulator, each cut off at a common unit, added."""
    largest = max(power, floor)
    for k in range(len(terms)):
        largest = max(largest, powers[k])
    into, back = 2.0 ** (fraction - largest), 2.0 ** (largest - fraction)
    result = 0.0 + np.trunc(total * into)
    for k in range(len(terms)):
        result += np.trunc(terms[k] * into)
    return result * back


@compiled
def make_signed(patterns: Any, kind: Any) -> Any:
    """Patterns of bytes become the numbers that they stand for."""
    for row in range(patterns.shape[0] if kind == S8 else 0):
        for k in range(patterns.shape[1]):
            if patterns[row, k] >= 128:
                patterns[row, k] -= 256


@compiled
def numbers(patterns: Any, kind: Any, negative: Any) -> Any:
    """Those of a matrix of patterns, and their exponents."""
    values, powers = np.empty(patterns.shape, np.float64), np.empty(patterns.shape, np.int64)
    for row in range(patterns.shape[0]):
        for k in range(patterns.shape[1]):
            value, powers[row, k] = number(patterns[row, k], kind)
            values[row, k] = -value if negative else value
    return values, powers


@compiled
def bits_at(place: Any, first: Any, count: Any) -> Any:
    """`count` bits from bit `first` of 16 bytes on."""
    if count == 32:
        return load(place + first // 8, 4)
    word = load(place + first // 8, 1)
    if first % 8 + count > 8:
        word |= load(place + first // 8 + 1, 1) << 8
    return word >> first % 8 & (1 << count) - 1


@compiled
def four_bytes(source: Any, word: Any, bits: Any) -> Any:
    """The four elements of so many bits that become a word: as bytes, in their lower bits, as `ldmatrix` unpacks them."""
    packed, mask = load(source + word * bits // 2, 4), (1 << bits) - 1
    return packed & mask | (packed >> bits & mask) << 8 | (packed >> 2 * bits & mask) << 16 | (packed >> 3 * bits & mask) << 24
