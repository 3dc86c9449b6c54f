"""Products of integers and of bits, exact; and of doubles, by fused multiply-add in the order of k."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.frame import HelperFrame
from warpsight.emulator.lanes import F64, I32, I64, Builder, Value, at, intrinsic, load_as, splat_constant, store_as
from warpsight.emulator.ops.matrix_loops import counted
from warpsight.emulator.ops.matrix_shapes import BITS, Product

_COLUMNS = 8
_ROW, _ROW64 = ir.VectorType(I32, _COLUMNS), ir.VectorType(F64, _COLUMNS)
_ROUNDINGS = {"rz": 0, "rp": 2, "rm": 3}  # arguments of llvm.set.rounding; 1 is to nearest even
_NEAREST = 1


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
    bits = product.a == "b1"
    count = intrinsic(helper.builder.module, "llvm.ctpop.v8i32", _ROW, [_ROW])

    def row(builder: Builder, m: Value) -> None:
        total: Value = ir.Constant(_ROW, [0] * _COLUMNS)
        for k in range(product.depth):
            left, right = _operands(builder, product, a, b, m, k, I32, _ROW)
            if bits:
                joined = builder.xor(left, right) if product.variant == "xor" else builder.and_(left, right)
                total = builder.add(total, builder.call(count, [joined]))
            else:
                total = builder.add(total, builder.mul(left, right))
        start = load_as(builder, _row_at(builder, c, m, 4), _ROW, 32)
        if product.variant == "satfinite":
            saturating = intrinsic(builder.module, "llvm.sadd.sat.v8i32", _ROW, [_ROW, _ROW])
            total = builder.call(saturating, [start, total])
        else:
            total = builder.add(start, total)
        store_as(builder, total, _row_at(builder, d, m, 4), 32)

    counted(helper.builder, product.rows, 1, row)


def double_rows(helper: HelperFrame, product: Product, a: Value, b: Value, c: Value, d: Value) -> None:
    """Fill `d` (patterns) row by row, each product added to the sum so far with one rounding; a NaN is canonical."""
    module = helper.builder.module
    rounding = _ROUNDINGS.get(product.variant)
    words = ir.MetaDataType()
    if rounding is None:
        fused = intrinsic(module, "llvm.fma.v8f64", _ROW64, [_ROW64] * 3)
        how: list[Any] = []
    else:
        set.add(helper.function.attributes, "strictfp")  # llvmlite's own list of attributes lacks it
        fused = intrinsic(module, "llvm.experimental.constrained.fma.v8f64", _ROW64, [*([_ROW64] * 3), words, words])
        how = [ir.MetaDataString(module, text) for text in ("round.dynamic", "fpexcept.ignore")]
        switch = intrinsic(module, "llvm.set.rounding", ir.VoidType(), [I32])
        helper.builder.call(switch, [I32(rounding)])

    def row(builder: Builder, m: Value) -> None:
        total = load_as(builder, _row_at(builder, c, m, 8), _ROW64, 64)
        for k in range(product.depth):
            left, right = _operands(builder, product, a, b, m, k, F64, _ROW64)
            total = builder.call(fused, [left, right, total, *how])
        nan = ir.Constant(ir.VectorType(I64, _COLUMNS), [0x7FF8000000000000] * _COLUMNS)
        bits = builder.bitcast(total, nan.type)
        bits = builder.select(builder.fcmp_unordered("uno", total, total), nan, bits)
        store_as(builder, bits, _row_at(builder, d, m, 8), 64)

    counted(helper.builder, product.rows, 1, row)
    if rounding is not None:
        helper.builder.call(switch, [I32(_NEAREST)])


def _operands(
    builder: Builder, product: Product, a: Value, b: Value, m: Value, k: int, element: Any, row: Any
) -> tuple[Value, Value]:
    """Element (m, k) of A in each of eight lanes, and row k of B."""
    size = 8 if element == F64 else 4
    number = builder.add(builder.mul(m, I64(product.depth)), I64(k))
    one = load_as(builder, at(builder, a, builder.mul(number, I64(size))), element, size)
    undefined = ir.Constant(row, ir.Undefined)
    spread = builder.shuffle_vector(builder.insert_element(undefined, one, I32(0)), undefined, ir.Constant(_ROW, [0] * _COLUMNS))
    return spread, load_as(builder, at(builder, b, k * _COLUMNS * size), row, size * _COLUMNS)


def _row_at(builder: Builder, matrix: Value, m: Value, size: int) -> Value:
    return at(builder, matrix, builder.mul(m, I64(_COLUMNS * size)))
