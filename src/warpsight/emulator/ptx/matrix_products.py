"""Products of matrices in memory as tensor cores form them: floats, integers and bits, doubles, and a sparse A.

The PTX ISA leaves order and rounding of the sums open. Measurements of hardware agree on this much (Fasi et al., "Numerical
behavior of NVIDIA tensor cores", 2021; Xie et al., "Bit-accurate modeling of GPU matrix multiply-accumulate units", 2025): a sum
takes a block of products and the accumulator at once; each of these is exact, is cut off (towards zero) below a unit that is 2^-F
of the largest power of two among them, and then all are added without further error. A product's power is the sum of its factors'
exponents, so one that is carried past 2 counts as smaller; subnormal numbers have the exponent of the smallest normal one and are
not flushed. The sum of one block is the accumulator of the next. After each block sums in single precision are cut off towards
zero and those in half precision rounded to nearest even; what passes the range becomes an infinity.

`mma` and `wmma` follow on all GPUs what was measured for sm_80 and sm_89: blocks of 8 products (4 of tf32, 16 of 8-bit floats),
F = 24 (13 for 8-bit floats, whose sums in single precision keep 13 bits of fraction). Products that one architecture alone has
follow what was measured for it (Xie et al.). Those of warp groups (sm_90), and those with floats of 6 or 4 bits or with scales
(sm_120), are one block each with F = 25; 8-bit floats on sm_90 have F = 13 and keep 13 bits. The exponents of scales add to that
of a product. Products of e2m1 two to a byte are first summed exactly by 16 (32 with a sparse A); such a sum times its scales has
the exponents of the scales alone, and F = 35. Sums that are zero are +0; those that are not a number are the canonical NaN.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.frame import HelperFrame
from warpsight.emulator.codegen.lanes import (
    F16,
    F32,
    F64,
    I1,
    I16,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    call_same,
    gather,
    intrinsic,
    load_as,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx.matrix_shapes import BITS, EIGHT_BIT_FLOATS, SMALL_FLOATS, Product, constant_table, counted
from warpsight.emulator.ptx.rounding import DIRECTED, NEAREST

_COLUMNS = 8
_ROW64, _ROW32, _ROWF32, _ROW16, _ROWF16, _ROWI64 = (vector(t, _COLUMNS) for t in (F64, I32, F32, I16, F16, I64))
_SMALLEST = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126, "e4m3": -6, "e5m2": -14, "e3m2": -2, "e2m3": 0,
             "e2m1": 0, "e2m1x2": 0}  # fmt: skip
# Of floats of 6 and 4 bits: where the sign lies, bits of fraction and exponent, and how far the former lie above the low end.
_SMALL = {"e3m2": (5, 5, 0, 2), "e2m3": (5, 5, 0, 3), "e2m1": (5, 3, 2, 1), "e2m1x2": (3, 3, 0, 1)}
NOTHING = -4096  # exponent of zero: below that of any number
_FLOOR = {"f32": -132, "f16": -21}  # the least power that sets the unit, by the type of D
_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}


def float_values(builder: Builder, words: Value, shifts: Value, element: str) -> tuple[Value, Value]:
    """32 elements as doubles, exact, and their exponents (i32). Each lies `shifts` bits above its word's low end."""
    single = _single(builder, words, shifts, element)
    return builder.fpext(single, vector(F64)), _exponents(builder, builder.bitcast(single, vector(I32)), _SMALLEST[element])


def _single(builder: Builder, words: Value, shifts: Value, element: str) -> Value:
    def same(number: int) -> Value:
        return splat_constant(I32, number)

    def half(bits: Value) -> Value:
        return builder.fpext(builder.bitcast(builder.trunc(bits, vector(I16)), vector(F16)), vector(F32))

    if element == "f32":
        return builder.bitcast(words, vector(F32))
    if element == "tf32":  # the low 13 bits are ignored
        return builder.bitcast(builder.and_(words, same(0xFFFFE000)), vector(F32))
    moved = builder.lshr(words, shifts)
    if element == "f16":
        return half(moved)
    if element == "bf16":
        return builder.bitcast(builder.shl(moved, same(16)), vector(F32))
    if element in SMALL_FLOATS:  # as for e4m3, but with neither infinity nor NaN
        top, count, above, fraction = _SMALL[element]
        magnitude = builder.and_(builder.lshr(moved, same(above)), same((1 << count) - 1))
        sign = builder.and_(builder.shl(moved, same(15 - top)), same(0x8000))
        factor = 2.0 ** (16 - (1 << count - fraction - 1))  # the difference of the biases
        return builder.fmul(half(builder.or_(sign, builder.shl(magnitude, same(10 - fraction)))), splat_constant(F32, factor))
    if element == "e5m2":  # the upper byte of a half
        return half(builder.and_(builder.shl(moved, same(8)), same(0xFF00)))
    magnitude = builder.and_(moved, same(0x7F))
    sign = builder.shl(builder.and_(moved, same(0x80)), same(8))
    # As a half its exponent is biased by 15 instead of 7; no infinity, and one NaN.
    value = builder.fmul(half(builder.or_(sign, builder.shl(magnitude, same(7)))), splat_constant(F32, 256.0))
    nan = builder.bitcast(same(0x7FC00000), vector(F32))
    return builder.select(builder.icmp_signed("==", magnitude, same(0x7F)), nan, value)


def _exponents(builder: Builder, bits: Value, smallest: int) -> Value:
    """Exponents of singles given by their patterns, at least `smallest`, but `NOTHING` for zero."""
    kind = bits.type

    def same(number: int) -> Value:
        return ir.Constant(kind, [number & 0xFFFFFFFF] * kind.count)

    power = builder.sub(builder.and_(builder.lshr(bits, same(23)), same(255)), same(127))
    power = _greater(builder, power, same(smallest))
    zero = builder.icmp_signed("==", builder.and_(bits, same(0x7FFFFFFF)), same(0))
    return builder.select(zero, same(NOTHING), power)


def _greater(builder: Builder, a: Value, b: Value) -> Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def float_rows(helper: HelperFrame, product: Product, a: Any, b: Any, c: Any, d: Value, scales: Any = None) -> None:
    """Fill the matrix of patterns `d` row by row; the others are (doubles, exponents). `scales` are those of `scale_factors`."""
    grouped = product.a == "e2m1x2"
    small = product.a in EIGHT_BIT_FLOATS and product.sums != "sm_120"
    limit, fraction = (16, 13) if small else (4 if product.a == "tf32" else 8, 24)
    if product.sums != "sm_80":
        limit, fraction = product.depth, 35 if grouped else 13 if small else 25
    block = min(limit, product.depth)

    def row(builder: Builder, m: Value) -> None:
        total, power = _row(builder, c[0], m, F64), _row(builder, c[1], m, I32)
        first_row = builder.mul(builder.lshr(m, I64(3)), I64(product.depth)) if product.is_four else I64(0)
        for start in range(0, product.depth, block):
            terms: list[Any] = []
            for k in range(start, start + block):
                left = builder.add(builder.mul(m, I64(product.depth)), I64(k))
                scale = None if scales is None else _Scale(builder, scales, m, k * product.scaled // product.depth)
                terms.append(_Term(builder, a, b, left, builder.add(first_row, I64(k)), scale))
            if grouped:
                each = product.depth // 4
                terms = [_Group(builder, terms[k : k + each]) for k in range(0, len(terms), each)]
            total = _block_sum(builder, terms, total, power, fraction, product.d)
            pattern = rounded_pattern(builder, total, product.d, keeps=13 if small and product.d == "f32" else 23)
            if start + block < product.depth:
                single = _as_single(builder, pattern, product.d)
                total = builder.fpext(single, _ROW64)
                power = _exponents(builder, builder.bitcast(single, _ROW32), _SMALLEST[product.d])
        store_as(builder, pattern, _at(builder, d, m, _COLUMNS, 4), 32)

    counted(helper.builder, product.rows, 1, row)


def _at(builder: Builder, matrix: Value, number: Value | int, columns: int, size: int) -> Value:
    row_bytes = columns * size
    return at(builder, matrix, number * row_bytes if isinstance(number, int) else builder.mul(number, I64(row_bytes)))


def _repeated(builder: Builder, matrix: Value, number: Value, element: Any) -> Value:
    """An element of a matrix in each of eight lanes."""
    size = 8 if element == F64 else 4
    scalar = load_as(builder, _at(builder, matrix, number, 1, size), element, size)
    undefined = ir.Constant(vector(element, _COLUMNS), ir.Undefined)
    first = builder.insert_element(undefined, scalar, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_ROW32, 0))


def _row(builder: Builder, matrix: Value, number: Value | int, element: Any) -> Value:
    size = 8 if element == F64 else 4
    return load_as(builder, _at(builder, matrix, number, _COLUMNS, size), vector(element, _COLUMNS), _COLUMNS * size)


class _Scale:
    """The scale of one part of row `m` of A, times those of the columns of B."""

    def __init__(self, builder: Builder, scales: Any, m: Value, part: int) -> None:
        self._builder, self._scales, self._m, self._part = builder, scales, m, part

    def _of(self, which: int, element: Any) -> tuple[Value, Value]:
        (left, right), builder = (side[which] for side in self._scales), self._builder
        number = builder.add(self._m, I64(WARP * self._part))
        return _repeated(builder, left, number, element), _row(builder, right, WARP // _COLUMNS * self._part, element)

    def product(self) -> Value:
        """Eight doubles, exact."""
        return self._builder.fmul(*self._of(0, F64))

    def power(self) -> Value:
        """The sums of exponents."""
        return self._builder.add(*self._of(1, I32))


class _Term:
    """An element of A times a row of B, and their scales if there are any."""

    def __init__(self, builder: Builder, a: Any, b: Any, left: Value, right: Value, scale: _Scale | None) -> None:
        self._builder, self._a, self._b, self._left, self._right, self.scale = builder, a, b, left, right, scale

    def plain(self) -> Value:
        """Eight doubles, exact, without the scales."""
        one = _repeated(self._builder, self._a[0], self._left, F64)
        return self._builder.fmul(one, _row(self._builder, self._b[0], self._right, F64))

    def product(self) -> Value:
        """Eight doubles, exact."""
        value = self.plain()
        return value if self.scale is None else self._builder.fmul(value, self.scale.product())

    def power(self) -> Value:
        """The sums of exponents."""
        one = _repeated(self._builder, self._a[1], self._left, I32)
        power = self._builder.add(one, _row(self._builder, self._b[1], self._right, I32))
        return power if self.scale is None else self._builder.add(power, self.scale.power())


class _Group:
    """Terms with the same scales that are added first, exactly."""

    def __init__(self, builder: Builder, terms: list[Any]) -> None:
        self._builder, self._terms = builder, terms

    def product(self) -> Value:
        """Eight doubles, exact."""
        total = self._terms[0].plain()
        for term in self._terms[1:]:
            total = self._builder.fadd(total, term.plain())
        return self._builder.fmul(total, self._terms[0].scale.product())

    def power(self) -> Value:
        """The exponents of the scales."""
        return self._terms[0].scale.power()


def scale_factors(helper: HelperFrame, product: Product, registers: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """(doubles, exponents) of the scales of A and of B, 32 for each part, from three registers: those of A, of B, and the selector.

    The scale of row r of A is in lane 4 (r % 8) + 2 t + r / 8, that of column n of B in lane 4 n + t (CUTLASS,
    `mma_traits_sm120.hpp`). As in machine code, bits 2, and 5 to 6, of the selector are t of A and B; bits 0 to 1, and 3 to 4, are
    the byte of the first part, unless there are four.
    """
    builder = helper.builder
    selector = load_as(builder, at(builder, registers, 2 * 4 * WARP), I32, 4)

    def field(bit: int, bits: int) -> Value:
        return builder.and_(builder.lshr(selector, I32(bit)), I32((1 << bits) - 1))

    rows = [4 * (r % 8) + r // 8 % 2 for r in range(WARP)], [4 * (r % 8) for r in range(WARP)]
    threads = builder.shl(field(2, 1), I32(1)), field(5, 2)
    first = field(0, 2), field(3, 2)
    sides = []
    for side in range(2):
        lanes = builder.add(ir.Constant(vector(I32), rows[side]), splat(builder, threads[side]))
        base = builder.ptrtoint(at(builder, registers, 4 * WARP * side), I64)
        places = builder.add(splat(builder, base), builder.shl(builder.zext(lanes, vector(I64)), splat_constant(I64, 2)))
        words = gather(builder, builder.inttoptr(places, vector(PTR)), splat_constant(I1, 1), I32)
        values = helper.buffer(f"scales_{side}", ir.ArrayType(F64, WARP * product.scaled))
        powers = helper.buffer(f"scale_powers_{side}", ir.ArrayType(I32, WARP * product.scaled))
        for part in range(product.scaled):
            byte = I32(part) if product.scaled == 4 else builder.and_(builder.add(first[side], I32(part)), I32(3))
            bits = builder.lshr(words, splat(builder, builder.shl(byte, I32(3))))
            value, power = _factors(builder, bits, product.scales)
            store_as(builder, value, at(builder, values, 8 * WARP * part), 64)
            store_as(builder, power, at(builder, powers, 4 * WARP * part), 64)
        sides.append((values, powers))
    return sides[0], sides[1]


def _factors(builder: Builder, bits: Value, kind: str) -> tuple[Value, Value]:
    """The scales (doubles) in the low bytes, and their exponents: `ue8m0`, of powers of two, or `ue4m3`. The one without a sign."""
    if kind == "ue4m3":
        return float_values(builder, builder.and_(bits, splat_constant(I32, 0x7F)), splat_constant(I32, 0), "e4m3")
    power = builder.sub(builder.and_(bits, splat_constant(I32, 255)), splat_constant(I32, 127))
    wide = builder.sext(power, vector(I64))
    pattern = builder.shl(builder.add(wide, splat_constant(I64, 1023)), splat_constant(I64, 52))
    nan = builder.icmp_signed("==", power, splat_constant(I32, 128))
    pattern = builder.select(nan, splat_constant(I64, 0x7FF8 << 48), pattern)
    return builder.bitcast(pattern, vector(F64)), power


def _block_sum(builder: Builder, terms: list[Any], total: Value, power: Value, fraction: int, kind: str) -> Value:
    """All terms and the accumulator, each cut off at a common unit, added. Infinities and NaNs pass through."""
    largest = _greater(builder, power, ir.Constant(_ROW32, _FLOOR[kind]))
    for term in terms:
        largest = _greater(builder, largest, term.power())
    above = builder.sub(ir.Constant(_ROW32, fraction), largest)
    into = _power_of_two(builder, above)
    back = _power_of_two(builder, builder.sub(ir.Constant(_ROW32, 0), above))
    # Whole numbers far below 2^53: these sums are exact in any order. + 0.0 makes a zero positive.
    result = builder.fadd(ir.Constant(_ROW64, 0.0), call_same(builder, "trunc", builder.fmul(total, into)))
    for term in terms:
        result = builder.fadd(result, call_same(builder, "trunc", builder.fmul(term.product(), into)))
    return builder.fmul(result, back)


def _power_of_two(builder: Builder, power: Value) -> Value:
    biased = builder.add(power, ir.Constant(_ROW32, 1023))
    bits = builder.shl(builder.zext(biased, _ROWI64), ir.Constant(_ROWI64, 52))
    return builder.bitcast(bits, _ROW64)


def rounded_pattern(builder: Builder, value: Value, kind: str, keeps: int = 23) -> Value:
    """Patterns (i32) of doubles as `f32`, cut off after `keeps` bits of fraction, or as `f16`, rounded to nearest even."""

    def same(number: int) -> Value:
        return ir.Constant(_ROW32, number)

    near = builder.fptrunc(value, _ROWF32)
    back, magnitude = builder.fpext(near, _ROW64), call_same(builder, "fabs", value)
    beyond = builder.fcmp_ordered(">", call_same(builder, "fabs", back), magnitude)
    beyond = builder.and_(beyond, builder.fcmp_ordered("<", magnitude, ir.Constant(_ROW64, 2.0**128)))
    bits = builder.bitcast(near, _ROW32)
    bits = builder.select(beyond, builder.sub(bits, same(1)), bits)
    if kind == "f16":  # rounded to odd first, so that the second rounding is the only one that matters
        inexact = builder.fcmp_ordered("!=", back, value)
        odd = builder.bitcast(builder.select(inexact, builder.or_(bits, same(1)), bits), _ROWF32)
        bits = builder.zext(builder.bitcast(builder.fptrunc(odd, _ROWF16), _ROW16), _ROW32)
    elif keeps < 23:
        bits = builder.and_(bits, same(0xFFFFFFFF & -(1 << (23 - keeps))))
    unordered = builder.fcmp_unordered("uno", value, value)
    return builder.select(unordered, same(_NAN[kind]), bits)


def _as_single(builder: Builder, pattern: Value, kind: str) -> Value:
    if kind == "f32":
        return builder.bitcast(pattern, _ROWF32)
    return builder.fpext(builder.bitcast(builder.trunc(pattern, _ROW16), _ROWF16), _ROWF32)


# -- Products of integers and of bits, exact; and of doubles, by fused multiply-add in the order of k.


def integer_values(builder: Builder, words: Value, shifts: Value, element: str) -> Value:
    """32 elements as i32, extended by their sign. Each lies `shifts` bits above its word's low end."""
    bits = BITS[element]
    if bits == 32:
        return words
    unused = splat_constant(I32, 32 - bits)
    top = builder.shl(words, builder.sub(unused, shifts))
    return builder.ashr(top, unused) if element[0] == "s" else builder.lshr(top, unused)


def integer_rows(helper: HelperFrame, product: Product, a: Value, b: Value, c: Value, d: Value) -> None:
    """Fill `d` row by row. Sums of products fit 32 bits by far; only adding C wraps, or saturates with `.satfinite`."""
    def row(builder: Builder, m: Value) -> None:
        total: Value = ir.Constant(_ROW32, 0)
        for k in range(product.depth):
            left, right = _operands(builder, product, a, b, m, k, I32)
            if product.a == "b1":
                joined = builder.xor(left, right) if product.variant == "xor" else builder.and_(left, right)
                total = builder.add(total, call_same(builder, "ctpop", joined))
            else:
                total = builder.add(total, builder.mul(left, right))
        start = _row(builder, c, m, I32)
        total = call_same(builder, "sadd.sat", start, total) if product.variant == "satfinite" else builder.add(start, total)
        store_as(builder, total, _at(builder, d, m, _COLUMNS, 4), 32)

    counted(helper.builder, product.rows, 1, row)


def double_rows(helper: HelperFrame, product: Product, a: Value, b: Value, c: Value, d: Value) -> None:
    """Fill `d` (patterns) row by row, each product added to the sum so far with one rounding; a NaN is canonical."""
    module = helper.builder.module
    rounding = DIRECTED.get(product.variant)
    if rounding is None:
        fused = intrinsic(module, "llvm.fma.v8f64", _ROW64, [_ROW64] * 3)
        how: list[Any] = []
    else:
        set.add(helper.function.attributes, "strictfp")  # llvmlite's own list of attributes lacks it
        types = [*[_ROW64] * 3, *[ir.MetaDataType()] * 2]
        fused = intrinsic(module, "llvm.experimental.constrained.fma.v8f64", _ROW64, types)
        how = [ir.MetaDataString(module, text) for text in ("round.dynamic", "fpexcept.ignore")]
        switch = intrinsic(module, "llvm.set.rounding", ir.VoidType(), [I32])
        helper.builder.call(switch, [I32(rounding)])

    def row(builder: Builder, m: Value) -> None:
        total = _row(builder, c, m, F64)
        for k in range(product.depth):
            left, right = _operands(builder, product, a, b, m, k, F64)
            total = builder.call(fused, [left, right, total, *how])
        nan = ir.Constant(vector(I64, _COLUMNS), 0x7FF8000000000000)
        bits = builder.bitcast(total, nan.type)
        bits = builder.select(builder.fcmp_unordered("uno", total, total), nan, bits)
        store_as(builder, bits, _at(builder, d, m, _COLUMNS, 8), 64)

    counted(helper.builder, product.rows, 1, row)
    if rounding is not None:
        helper.builder.call(switch, [I32(NEAREST)])


def _operands(builder: Builder, product: Product, a: Value, b: Value, m: Value, k: int, element: Any) -> tuple[Value, Value]:
    """Element (m, k) of A in each of eight lanes, and row k of B."""
    number = builder.add(builder.mul(m, I64(product.depth)), I64(k))
    return _repeated(builder, a, number, element), _row(builder, b, k, element)


# -- Sparse A of `mma.sp`: the half of its elements that registers hold goes to the columns that the metadata names.
#
# A row is chunks of 4 columns of which 2 are held (8 and two pairs for 4-bit types, 2 and one for tf32), and each chunk has 4
# bits of metadata: two numbers of columns (of pairs, or of halves of a tf32), the lower one first. Which lane of the four of rows g
# and g + 8 holds them, the PTX ISA shows in figures; CUTLASS arranges metadata on the host to the same end. Of types of 16 and 32
# bits, one lane holds 4 chunks of both rows, row g + 8 in its upper half; the selector names the lane, or the pair of lanes for 8
# chunks. Of smaller types, a lane holds 8 chunks of one row, row g + 8 after row g; the selector names the pair of lanes, and 16
# chunks take all four. Of metadata that the ISA leaves undefined, the element named last takes the place.

_ROWS = 16


def chunk_columns(element: str) -> int:
    """Columns that share four bits of metadata."""
    return {"tf32": 2, "s4": 8, "u4": 8, "e2m1x2": 8}.get(element, 4)


def selectors(depth: int, element: str) -> tuple[int, ...]:
    """The selectors that are defined for a product of that depth."""
    lanes = depth // chunk_columns(element) // 4
    return tuple(range(4 // lanes))


def _places(product: Product) -> list[int]:
    """For each row and chunk: lane times 32 and the first bit of its metadata."""
    chunks = product.depth // chunk_columns(product.a)
    selector = product.selector or 0
    places = []
    for row in range(_ROWS):
        for q in range(chunks):
            if BITS[product.a] >= 16:
                lane, bit = selector * (chunks // 4) + q // 4, 16 * (row // 8) + 4 * (q % 4)
            else:
                lane, bit = 2 * selector + 2 * (q // 8) + row // 8, 4 * (q % 8)
            places.append((4 * (row % 8) + lane) * 32 + bit)
    return places


def expanded(helper: HelperFrame, product: Product, held: Any, metadata: Value) -> Any:
    """The whole A from its held half: a matrix, or (doubles, exponents) for floats. `metadata` points to a register."""
    floats = isinstance(held, tuple)
    parts = held if floats else (held,)
    # LLVM type, bytes and zero of the elements of each part
    kinds = [(F64, 8, ir.Constant(vector(F64), None)), (I32, 4, splat_constant(I32, NOTHING & 0xFFFFFFFF))]
    kinds = kinds if floats else [(I32, 4, splat_constant(I32, 0))]
    whole = []
    for number, (kind, size, zero) in enumerate(kinds):
        target = helper.buffer(f"whole_{number}", ir.ArrayType(kind, _ROWS * product.depth))
        _fill(helper, target, zero, _ROWS * product.depth, size)
        whole.append(target)
    table = constant_table(helper.builder.module, "metadata", _places(product))
    columns = chunk_columns(product.a)

    def chunk(builder: Builder, number: Value) -> None:
        entry = builder.zext(load_as(builder, at(builder, table, builder.shl(number, I64(2))), I32, 4), I64)
        word = load_as(builder, at(builder, metadata, builder.shl(builder.lshr(entry, I64(5)), I64(2))), I32, 4)
        bits = builder.lshr(builder.zext(word, I64), builder.and_(entry, I64(31)))
        first = builder.mul(number, I64(columns))
        for s in range(columns // 2):
            column = _column(builder, bits, columns, s)
            source = builder.add(builder.mul(number, I64(columns // 2)), I64(s))
            for (kind, size, _), old, new in zip(kinds, parts, whole, strict=True):
                element = load_as(builder, at(builder, old, builder.mul(source, I64(size))), kind, size)
                store_as(builder, element, at(builder, new, builder.mul(builder.add(first, column), I64(size))), size)

    counted(helper.builder, _ROWS * product.depth // columns, 1, chunk)
    return tuple(whole) if floats else whole[0]


def _column(builder: Builder, bits: Value, columns: int, s: int) -> Value:
    """The column in its chunk of the chunk's held element `s`."""
    if columns == 2:
        return builder.and_(builder.lshr(bits, I64(1)), I64(1))
    number = builder.and_(builder.lshr(bits, I64(2 * (s * 4 // columns))), I64(3))
    return number if columns == 4 else builder.add(builder.shl(number, I64(1)), I64(s % 2))


def _fill(helper: HelperFrame, target: Value, value: Value, count: int, size: int) -> None:
    def step(builder: Builder, first: Value) -> None:
        store_as(builder, value, at(builder, target, builder.mul(first, I64(size))), size)

    counted(helper.builder, count, WARP, step)
