"""`D = A B + C` over a warp: fragments become matrices in memory, a loop multiplies them, the result becomes fragments again.

There is one function of `library` for each kind of product, which the instruction calls.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.frame import HelperFrame, call_library
from warpsight.emulator.lanes import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    gather,
    load_as,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.layout import WARP
from warpsight.emulator.ops.matrix_floats import float_rows, float_values
from warpsight.emulator.ops.matrix_integers import double_rows, integer_rows, integer_values
from warpsight.emulator.ops.matrix_loops import constant_table, counted, need_whole_warp
from warpsight.emulator.ops.matrix_shapes import BITS, EIGHT_BIT_FLOATS, Fragment, Product
from warpsight.emulator.ops.matrix_sparse import expanded

_COLUMNS = 8
_RESULT_BYTES = 8 * 8 * WARP  # f32 of m8n8k4: 8 registers; f64 has 4


def multiply(emitter: Emitter, product: Product, sources: list[list[Value]], metadata: Value | None = None) -> list[Value]:
    """The registers of D from those of A, B and C: vectors of i32, of i64 for f64. A warp that is not whole is a fault."""
    arguments = [register for registers in sources for register in registers]
    if metadata is not None:
        arguments.append(metadata)
    _, results = product_types(product)
    # Results come back in memory: LLVM is slow with returned structs of wide vectors.
    room = at(emitter.builder, emitter.buffer("products", ir.ArrayType(I8, _RESULT_BYTES)), 0)
    call_library(emitter, product.symbol, I64(0), [*arguments, room])
    stride = _stride(_word(product))
    return [load_as(emitter.builder, at(emitter.builder, room, k * stride), kind, 64) for k, kind in enumerate(results)]


@functools.cache
def product_types(product: Product) -> tuple[list[Any], list[Any]]:
    """LLVM types of the registers of A, B, C and the metadata if any, and of D."""
    word = vector(_word(product))
    held = sum(map(len, _sources(product))) + (product.selector is not None)
    return [word] * held, [word] * len(product.result(product.d))


def _sources(product: Product) -> tuple[Fragment, Fragment, Fragment]:
    return product.left(), product.right(), product.result(product.c)


def _word(product: Product) -> Any:
    return I64 if product.a == "f64" else I32


def _stride(word: Any) -> int:
    return WARP * int(word.width) // 8


def multiply_inside(helper: HelperFrame, product: Product) -> None:
    """The whole out-of-line function: arguments are the registers of `product_types` and a pointer to room for D's."""
    need_whole_warp(helper)
    builder, word, stride = helper.builder, _word(product), _stride(_word(product))
    registers = helper.buffer("registers", ir.ArrayType(I8, (len(helper.arguments) - 1) * stride))
    *arguments, room = helper.arguments
    for k, value in enumerate(arguments):
        store_as(builder, value, at(builder, registers, k * stride), 64)
    sources = _sources(product)
    places = [at(builder, registers, stride * sum(map(len, sources[:k]))) for k in range(4)]
    matrices = Matrices(helper, product, word)
    a = matrices.unpack("a", places[0], sources[0], product.stored_depth, product.a)
    if product.selector is not None:
        a = expanded(helper, product, a, places[3])
    b = matrices.unpack("b", places[1], sources[1], _COLUMNS, product.b)
    c = matrices.unpack("c", places[2], sources[2], _COLUMNS, product.c)
    d = helper.buffer("matrix_d", ir.ArrayType(word, product.rows * _COLUMNS))
    rows = float_rows if is_float(product) else double_rows if product.a == "f64" else integer_rows
    rows(helper, product, a, b, c, d)
    matrices.pack(room, product.result(product.d), d)
    helper.close([])


def is_float(product: Product) -> bool:
    """Is it computed as the tensor cores add floats: all multiplicands but integers and f64?"""
    return product.a in ("f16", "bf16", "tf32", *EIGHT_BIT_FLOATS)


class Matrices:
    """Moves elements between the registers of a fragment and a matrix in memory, rows after each other."""

    def __init__(self, helper: HelperFrame, product: Product, word: Any) -> None:
        self._helper, self._product, self._word = helper, product, word

    def unpack(self, name: str, registers: Value, fragment: Fragment, columns: int, element: str) -> Value:
        """The matrix of a fragment: i32 elements for integers, f64 for f64, and for floats what `float_values` gives."""
        helper = self._helper
        numbers = _numbers(fragment, columns, BITS[element])
        table = constant_table(helper.builder.module, f"places_{name}", numbers)
        floats = is_float(self._product)
        kind = ir.DoubleType() if floats or element == "f64" else I32
        matrix = helper.buffer(f"matrix_{name}", ir.ArrayType(kind, len(numbers)))
        exponents = helper.buffer(f"exponents_{name}", ir.ArrayType(I32, len(numbers))) if floats else None

        def step(builder: Builder, first: Value) -> None:
            words, shifts = self._words(builder, registers, table, first)
            if element == "f64":
                _put(builder, builder.bitcast(words, vector(kind)), matrix, first, 8)
            elif exponents is None:
                _put(builder, integer_values(builder, words, shifts, element), matrix, first, 4)
            else:
                values, powers = float_values(builder, words, shifts, element)
                _put(builder, values, matrix, first, 8)
                _put(builder, powers, exponents, first, 4)

        counted(helper.builder, len(numbers), WARP, step)
        return (matrix, exponents) if floats else matrix

    def _words(self, builder: Builder, registers: Value, table: Value, first: Value) -> tuple[Value, Value]:
        """The words that hold 32 elements of the table, and how far each lies from its word's low end."""
        entries = load_as(builder, _element(builder, table, first, 4), vector(I32), 4)
        words = _gather_words(builder, registers, builder.lshr(entries, splat_constant(I32, 5)), self._word)
        return words, builder.and_(entries, splat_constant(I32, 31))

    def pack(self, registers: Value, fragment: Fragment, matrix: Value) -> None:
        """Fill registers from a matrix of patterns, one to a word; halves go in pairs."""
        helper, module = self._helper, self._helper.builder.module
        each = len(fragment[0][0])
        tables = [
            constant_table(
                module,
                f"places_d{s}",
                [lane[s][0] * _COLUMNS + lane[s][1] for register in fragment for lane in register],
            )
            for s in range(each)
        ]

        def step(builder: Builder, first: Value) -> None:
            whole: Value = None
            for s, table in enumerate(tables):
                numbers = load_as(builder, _element(builder, table, first, 4), vector(I32), 4)
                part = _gather_words(builder, matrix, numbers, self._word)
                whole = part if s == 0 else builder.or_(whole, builder.shl(part, splat_constant(I32, 16)))
            _put(builder, whole, registers, first, int(self._word.width) // 8)

        counted(helper.builder, len(fragment) * WARP, WARP, step)


def _numbers(fragment: Fragment, columns: int, bits: int) -> list[int]:
    """For each element of the matrix, rows after each other, its register's number times 1024, lane times 32, and first bit."""
    found = {}
    for r, register in enumerate(fragment):
        for lane, elements in enumerate(register):
            for s, (row, column) in enumerate(elements):
                found[row * columns + column] = (r * WARP + lane) * 32 + (s * bits if bits < 32 else 0)
    return [found[k] for k in range(len(found))]


def _element(builder: Builder, base: Value, number: Value, size: int) -> Value:
    return at(builder, base, builder.mul(number, I64(size)))


def _put(builder: Builder, values: Value, matrix: Value, first: Value, size: int) -> None:
    store_as(builder, values, _element(builder, matrix, first, size), 64)


def _gather_words(builder: Builder, base: Value, numbers: Value, word: Any) -> Value:
    """The words of these numbers from `base` on."""
    start = splat(builder, builder.ptrtoint(base, I64))
    offsets = builder.mul(builder.zext(numbers, vector(I64)), splat_constant(I64, int(word.width) // 8))
    pointers = builder.inttoptr(builder.add(start, offsets), vector(PTR))
    return gather(builder, pointers, splat_constant(I1, 1), word)
