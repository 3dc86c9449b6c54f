"""Sparse A of `mma.sp`: the half of its elements that registers hold goes to the columns that the metadata names.

A row is chunks of 4 columns of which 2 are held (8 and two pairs for 4-bit integers, 2 and one for tf32), and each chunk has 4
bits of metadata: two numbers of columns (of pairs, or of halves of a tf32), the lower one first. Which lane of the four of rows g
and g + 8 holds them, the PTX ISA shows in figures; CUTLASS arranges metadata on the host to the same end. Of types of 16 and 32
bits, one lane holds 4 chunks of both rows, row g + 8 in its upper half; the selector names the lane, or the pair of lanes for 8
chunks. Of smaller types, a lane holds 8 chunks of one row, row g + 8 after row g; the selector names the pair of lanes, and 16
chunks take all four. Of metadata that the ISA leaves undefined, the element named last takes the place.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.frame import HelperFrame
from warpsight.emulator.lanes import F64, I32, I64, Builder, Value, at, load_as, splat_constant, store_as, vector
from warpsight.emulator.layout import WARP
from warpsight.emulator.ops.matrix_floats import NOTHING
from warpsight.emulator.ops.matrix_loops import constant_table, counted
from warpsight.emulator.ops.matrix_shapes import BITS, Product

_ROWS = 16


def chunk_columns(element: str) -> int:
    """Columns that share four bits of metadata."""
    return {"tf32": 2, "s4": 8, "u4": 8}.get(element, 4)


def selectors(depth: int, element: str) -> tuple[int, ...]:
    """The selectors that are defined for a product of that depth."""
    lanes = depth // chunk_columns(element) // 4
    return tuple(range(4 // lanes))


def _places(product: Product) -> list[int]:
    """For each row and chunk: lane times 32 and the first bit of its metadata."""
    chunks = product.depth // chunk_columns(product.a)
    selector = product.selector or 0
    found = []
    for row in range(_ROWS):
        for q in range(chunks):
            if BITS[product.a] >= 16:
                lane, bit = selector * (chunks // 4) + q // 4, 16 * (row // 8) + 4 * (q % 4)
            else:
                lane, bit = 2 * selector + 2 * (q // 8) + row // 8, 4 * (q % 8)
            found.append((4 * (row % 8) + lane) * 32 + bit)
    return found


def expanded(helper: HelperFrame, product: Product, held: Any, metadata: Value) -> Any:
    """The whole A from its held half: a matrix, or (doubles, exponents) for floats. `metadata` points to a register."""
    parts = held if isinstance(held, tuple) else (held,)
    kinds = [(F64, 8), (I32, 4)] if isinstance(held, tuple) else [(I32, 4)]
    empty = [ir.Constant(vector(F64), None), splat_constant(I32, NOTHING & 0xFFFFFFFF)]
    whole = []
    for number, (kind, size) in enumerate(kinds):
        target = helper.buffer(f"whole_{number}", ir.ArrayType(kind, _ROWS * product.depth))
        nothing = empty[number] if isinstance(held, tuple) else splat_constant(I32, 0)
        _fill(helper, target, nothing, _ROWS * product.depth, size)
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
            for (kind, size), old, new in zip(kinds, parts, whole, strict=True):
                element = load_as(builder, at(builder, old, builder.mul(source, I64(size))), kind, size)
                store_as(builder, element, at(builder, new, builder.mul(builder.add(first, column), I64(size))), size)

    counted(helper.builder, _ROWS * product.depth // columns, 1, chunk)
    return tuple(whole) if isinstance(held, tuple) else whole[0]


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
