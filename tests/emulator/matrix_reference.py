"""Matrix products written down a second time: layouts section by section from the PTX ISA's formulas, sums in exact fixed point.

`left`, `right` and `result` give (row, column) of element i in lane `lane`, i counted over the registers from the low bits on.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Place = Callable[[int, int], tuple[int, int]]


def _row_of(upper: bool, lane: int) -> int:
    return (lane >> 2) if upper else (lane >> 2) + 8


def left(shape: str, kind: str) -> Place:
    """A, by the sections "Matrix Fragments for mma.<shape>"."""
    places: dict[tuple[str, int], Place] = {
        ("m16n8k8", 16): lambda x, i: (_row_of(i < 2, x), x % 4 * 2 + (i & 1)),
        ("m16n8k16", 16): lambda x, i: (_row_of(i < 2 or 4 <= i < 6, x), x % 4 * 2 + (i & 1) + (8 if i >= 4 else 0)),
        ("m16n8k4", 32): lambda x, i: (_row_of(i == 0, x), x % 4),
        ("m16n8k8", 32): lambda x, i: (_row_of(i in (0, 2), x), x % 4 if i < 2 else x % 4 + 4),
        ("m8n8k4", 64): lambda x, i: (x >> 2, x % 4),
        ("m16n8k4", 64): lambda x, i: (_row_of(i == 0, x), x % 4),
        ("m16n8k8", 64): lambda x, i: (_row_of(i in (0, 2), x), x % 4 if i < 2 else x % 4 + 4),
        ("m16n8k16", 64): lambda x, i: (_row_of(i % 2 == 0, x), (i * 2 if i % 2 == 0 else i * 2 - 2) + x % 4),
        ("m8n8k16", 8): lambda x, i: (x >> 2, x % 4 * 4 + i),
        ("m16n8k16", 8): lambda x, i: (_row_of(i < 4, x), x % 4 * 4 + (i & 3)),
        ("m16n8k32", 8): lambda x, i: (_row_of(i < 4 or 8 <= i < 12, x), x % 4 * 4 + (i & 3) + (16 if i >= 8 else 0)),
        ("m8n8k32", 4): lambda x, i: (x >> 2, x % 4 * 8 + i),
        ("m16n8k32", 4): lambda x, i: (_row_of(i < 8, x), x % 4 * 8 + (i & 7)),
        ("m16n8k64", 4): lambda x, i: (_row_of(i < 8 or 16 <= i < 24, x), x % 4 * 8 + (i & 7) + (32 if i >= 16 else 0)),
        ("m8n8k128", 1): lambda x, i: (x >> 2, x % 4 * 32 + i),
        ("m16n8k128", 1): lambda x, i: (_row_of(i < 32, x), x % 4 * 32 + (i & 0x1F)),
        ("m16n8k256", 1): lambda x, i: (_row_of(i < 32 or 64 <= i < 96, x), x % 4 * 32 + (i & 0x1F) + (128 if i >= 64 else 0)),
    }  # fmt: skip
    return places[shape, BITS[kind]]


def right(shape: str, kind: str) -> Place:
    """B, likewise."""
    places: dict[tuple[str, int], Place] = {
        ("m16n8k8", 16): lambda x, i: (x % 4 * 2 + i, x >> 2),
        ("m16n8k16", 16): lambda x, i: (x % 4 * 2 + (i & 1) + (8 if i >= 2 else 0), x >> 2),
        ("m16n8k4", 32): lambda x, i: (x % 4, x >> 2),
        ("m16n8k8", 32): lambda x, i: (x % 4 if i == 0 else x % 4 + 4, x >> 2),
        ("m8n8k4", 64): lambda x, i: (x % 4, x >> 2),
        ("m16n8k4", 64): lambda x, i: (x % 4, x >> 2),
        ("m16n8k8", 64): lambda x, i: (x % 4 if i == 0 else x % 4 + 4, x >> 2),
        ("m16n8k16", 64): lambda x, i: (x % 4 + i * 4, x >> 2),
        ("m8n8k16", 8): lambda x, i: (x % 4 * 4 + i, x >> 2),
        ("m16n8k16", 8): lambda x, i: (x % 4 * 4 + i, x >> 2),
        ("m16n8k32", 8): lambda x, i: (x % 4 * 4 + (i & 3) + (16 if i >= 4 else 0), x >> 2),
        ("m8n8k32", 4): lambda x, i: (x % 4 * 8 + i, x >> 2),
        ("m16n8k32", 4): lambda x, i: (x % 4 * 8 + i, x >> 2),
        ("m16n8k64", 4): lambda x, i: (x % 4 * 8 + (i & 7) + (32 if i >= 8 else 0), x >> 2),
        ("m8n8k128", 1): lambda x, i: (x % 4 * 32 + i, x >> 2),
        ("m16n8k128", 1): lambda x, i: (x % 4 * 32 + i, x >> 2),
        ("m16n8k256", 1): lambda x, i: (x % 4 * 32 + (i & 0x1F) + (128 if i >= 32 else 0), x >> 2),
    }
    return places[shape, BITS[kind]]


def result(shape: str) -> Place:
    """C and D of every shape but m8n8k4 on halves."""
    if shape.startswith("m8"):
        return lambda x, i: (x >> 2, x % 4 * 2 + i)
    return lambda x, i: (_row_of(i < 2, x), x % 4 * 2 + (i & 1))


# -- numbers -----------------------------------------------------------------------------------------------------------------

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
        "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 8, "e2m1x2": 4}  # fmt: skip
SMALLEST = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126, "e4m3": -6, "e5m2": -14, "e3m2": -2, "e2m3": 0, "e2m1": 0}
# Of a block: how many products, how many bits below the largest exponent count, and how many bits of fraction a sum in f32 has.
BLOCKS = {
    "sm_80": {"tf32": (4, 24, 23), "e4m3": (16, 13, 13), "e5m2": (16, 13, 13), "": (8, 24, 23)},
    "sm_90": {"e4m3": (32, 13, 13), "e5m2": (32, 13, 13), "": (64, 25, 23)},
    "sm_120": {"": (64, 25, 23)},
}


def value(pattern: int, kind: str) -> float | int:
    """The number that a bit pattern stands for."""
    if kind in ("f16", "f32", "f64"):
        word = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}[kind]
        return float(np.array([pattern], word).view(kind.replace("f", "float"))[0])
    if kind == "bf16":
        return value(pattern << 16, "f32")
    if kind == "tf32":
        return value(pattern & ~0x1FFF, "f32")
    if kind == "e5m2":
        return value(pattern << 8, "f16")
    if kind == "e4m3":
        sign, power, fraction = -1 if pattern & 0x80 else 1, pattern >> 3 & 15, pattern & 7
        if pattern & 0x7F == 0x7F:
            return math.nan
        return sign * (math.ldexp(fraction, -9) if power == 0 else math.ldexp(8 + fraction, power - 10))
    if kind in ("e3m2", "e2m3", "e2m1", "e2m1x2"):  # of 6 bits, or of 4 in the middle of a byte, or alone
        fraction = int(kind[3])
        pattern = pattern >> 2 & 15 if kind == "e2m1" else pattern
        width = fraction + int(kind[1])
        power, bits = pattern >> fraction & (1 << int(kind[1])) - 1, pattern & (1 << fraction) - 1
        lowest = 2 - (1 << int(kind[1]) - 1)
        size = math.ldexp(bits + (1 << fraction if power else 0), max(lowest, lowest - 1 + power) - fraction)
        return -size if pattern >> width & 1 else size
    if kind[0] == "s":
        return pattern - (1 << BITS[kind]) if pattern >> (BITS[kind] - 1) else pattern
    return pattern


POINT = 700  # fixed-point numbers are multiples of 2^-POINT: products of subnormal bf16 are of 2^-266


def _power(x: float, smallest: int) -> int:
    return max(math.frexp(x)[1] - 1, smallest)


def _fixed(x: float, y: float = 1.0) -> int:
    """x y times 2^POINT, exact."""
    (p, q), (r, t) = x.as_integer_ratio(), y.as_integer_ratio()
    return (p * r << POINT) // (q * t)


def _cut(number: int, power: int) -> int:
    """A fixed-point number without what lies below 2^power, towards zero."""
    bits = power + POINT
    whole = abs(number) >> bits << bits
    return -whole if number < 0 else whole


def block_sum(
    a: list[float], b: list[float], c: float, kinds: tuple[str, str, str], d: str, fraction: int, keeps: int, scale: float = 1.0
) -> int:
    """One block of a product of floats, to a pattern of type `d`: exact terms, cut off at a unit common to them and c."""
    if not all(map(math.isfinite, [*a, *b, c])):
        total = sum(x * y * scale for x, y in zip(a, b, strict=True)) + c
        return (0x7FFF if d == "f16" else 0x7FFFFFFF) if math.isnan(total) else pattern_of(total, d)
    scaled = _power(scale, -300)
    powers = [_power(x, SMALLEST[kinds[0]]) + _power(y, SMALLEST[kinds[1]]) + scaled for x, y in zip(a, b, strict=True) if x and y]
    if c:
        powers.append(_power(c, SMALLEST[kinds[2]]))
    unit = max([*powers, -132 if d == "f32" else -21]) - fraction
    terms = [_fixed(c), *(_fixed(x, y * scale) for x, y in zip(a, b, strict=True))]
    return rounded(sum(_cut(t, unit) for t in terms), d, keeps)


def rounded(number: int, kind: str, keeps: int = 23) -> int:
    """Pattern of a fixed-point number: f32 with `keeps` bits, towards zero; f16 to nearest even. Past the range it is infinite."""
    sign, size = int(number < 0), abs(number)
    if size == 0:
        return 0
    power = size.bit_length() - 1 - POINT
    if kind == "f16":
        unit = max(power, -14) - 10
        units, rest = divmod(size, 1 << unit + POINT)
        half = 1 << unit + POINT - 1
        units += rest > half or (rest == half and units % 2 == 1)
        x = math.ldexp(units, unit)
        return sign << 15 | (0x7C00 if x >= 65520 else pattern_of(x, "f16"))
    unit = max(power, -126) - 23
    bits = 0x7F800000 if power >= 128 else pattern_of(math.ldexp(size >> unit + POINT, unit), "f32")
    return sign << 31 | bits & -(1 << (23 - keeps))


def pattern_of(x: float, kind: str) -> int:
    """Bit pattern of a number that the type holds."""
    word = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}[kind]
    return int(np.array([x], kind.replace("f", "float")).view(word)[0])


def float_product(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, kinds: tuple[str, str, str], d: str, sums: str = "sm_80",
    scales: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Patterns of D from patterns of A, B and C, block after block along k; `scales` are numbers for each row and each column."""
    block, fraction, keeps = BLOCKS[sums].get(kinds[0], BLOCKS[sums][""])
    depth = a.shape[1]
    wanted = np.zeros(c.shape, np.uint64)
    rows = [[float(value(int(p), kinds[0])) for p in row] for row in a]
    columns = [[float(value(int(p), kinds[1])) for p in column] for column in b.T]
    for m, n in np.ndindex(*c.shape):
        x, y = rows[m], columns[n]
        pattern, kind = int(c[m, n]), kinds[2]
        for k in range(0, depth, block):
            end = min(k + block, depth)
            scale = 1.0 if scales is None else float(scales[0][m] * scales[1][n])
            before = float(value(pattern, kind))
            pattern = block_sum(x[k:end], y[k:end], before, (kinds[0], kinds[1], kind), d, fraction, keeps, scale)
            kind = d
        wanted[m, n] = pattern
    return wanted


def integer_product(a: np.ndarray, b: np.ndarray, c: np.ndarray, kinds: tuple[str, str], how: str) -> np.ndarray:
    """Patterns of D (32 bits): exact sums that wrap, or saturate; or of bits, counted after xor or and."""
    numbers = [np.vectorize(lambda p, k=kind: value(int(p), k), otypes=[np.int64])(x) for x, kind in ((a, kinds[0]), (b, kinds[1]))]
    if how in ("xor", "and"):
        join = np.bitwise_xor if how == "xor" else np.bitwise_and
        total = join(numbers[0][:, :, None], numbers[1][None, :, :]).sum(axis=1)
    else:
        total = numbers[0] @ numbers[1]
    total = total + c.astype(np.uint32).view(np.int32).astype(np.int64)
    if how == "satfinite":
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return total.astype(np.uint64) & np.uint64(0xFFFFFFFF)


# -- registers ---------------------------------------------------------------------------------------------------------------


def spread(matrix: np.ndarray, place: Place, kind: str, registers: int) -> np.ndarray:
    """Registers [lane, register] from a matrix of patterns: 32-bit words, 64-bit for f64."""
    bits = BITS[kind]
    width = max(32, bits)
    words = np.zeros((32, registers), np.uint64)
    for lane in range(32):
        for i in range(registers * width // bits):
            words[lane, i * bits // width] |= np.uint64(int(matrix[place(lane, i)]) << i * bits % width)
    return words.astype(np.uint64 if bits == 64 else np.uint32)


def collect(words: np.ndarray, place: Place, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """The matrix of patterns that registers [lane, register] hold."""
    bits = BITS[kind]
    width = max(32, bits)
    matrix = np.zeros(shape, np.uint64)
    for lane in range(32):
        for i in range(words.shape[1] * width // bits):
            word = int(words[lane, i * bits // width])
            matrix[place(lane, i)] = word >> i * bits % width & ((1 << bits) - 1)
    return matrix
