"""Shapes and types of warp matrix products, which element of which matrix lies where in the registers of a warp, and the loops
over them.

Sources: PTX ISA, "Matrix Fragments for mma.*". One formula covers all of them but `mma.m8n8k4` on half precision. With
g = lane / 4, t = lane % 4 and e elements in a register, register r of A holds the elements of row g + 8 (r % 2) and of columns
e t to e t + e - 1, moved right by 4 e for each two registers; register r of B those rows of column g, moved down by 4 e for each
register; element i of C and D is that of row g + 8 (i / 2) and column 2 t + i % 2. Bits count as elements 32 at a time.

The layouts of `wmma` are not specified. Here they are those of the `mma` that makes 16 or 8 rows and 8 columns of the product, one
after the other; a fragment with more registers than elements holds them again. Code for sm_70 that relies on that GPU's layout (no
manual has it) goes wrong.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from warpsight.emulator.codegen.frame import Frame
from warpsight.emulator.codegen.lanes import I32, I64, Builder, Value, trailing_zeros
from warpsight.emulator.codegen.layout import WARP, Fault

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 32,
        "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 8, "e2m1x2": 4}  # fmt: skip
EIGHT_BIT_FLOATS = ("e4m3", "e5m2")
# Floats of 6 and 4 bits lie in bytes of their own; `e2m1x2`, which is not a name of PTX, are those of `.kind::mxf4`, two to a byte.
SMALL_FLOATS = ("e3m2", "e2m3", "e2m1", "e2m1x2")
_DENSE = {
    "f16": ("m8n8k4", "m16n8k8", "m16n8k16"), "bf16": ("m16n8k8", "m16n8k16"), "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"), "s8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "s4": ("m8n8k32", "m16n8k32", "m16n8k64"), "b1": ("m8n8k128", "m16n8k128", "m16n8k256"), "e4m3": ("m16n8k16", "m16n8k32"),
    "e2m1x2": ("m16n8k64",),
}  # fmt: skip
_SPARSE = {
    "f16": ("m16n8k16", "m16n8k32"), "bf16": ("m16n8k16", "m16n8k32"), "tf32": ("m16n8k8", "m16n8k16"),
    "s8": ("m16n8k32", "m16n8k64"), "s4": ("m16n8k64", "m16n8k128"), "e4m3": ("m16n8k64",), "e2m1x2": ("m16n8k128",),
}  # fmt: skip
_FAMILY = {"u8": "s8", "u4": "s4", **dict.fromkeys(("e5m2", "e3m2", "e2m3", "e2m1"), "e4m3")}
_WMMA = {
    "f16": ("m16n16k16", "m8n32k16", "m32n8k16"), "bf16": ("m16n16k16", "m8n32k16", "m32n8k16"), "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",), "s8": ("m16n16k16", "m8n32k16", "m32n8k16"), "s4": ("m8n8k32",), "b1": ("m8n8k128",),
}  # fmt: skip
SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")

Place = tuple[int, int]
Fragment = list[list[list[Place]]]  # (row, column) by register, lane and element of the register


def family(element: str) -> str:
    """The representative of the types with the same layouts: `s8` for `u8`, `e4m3` for `e5m2`."""
    return _FAMILY.get(element, element)


def dense_shapes(element: str) -> tuple[str, ...]:
    """The shapes of `mma` with multiplicands of a type."""
    return _DENSE.get(family(element), ())


def sparse_shapes(element: str) -> tuple[str, ...]:
    """The shapes of `mma.sp` with multiplicands of a type."""
    return _SPARSE.get(family(element), ())


def wmma_shapes(element: str) -> tuple[str, ...]:
    """The shapes of `wmma` with multiplicands of a type."""
    return _WMMA.get(family(element), ())


def size_of(shape: str) -> tuple[int, int, int]:
    """`m16n8k8` as (16, 8, 8)."""
    match = SHAPE.fullmatch(shape)
    assert match is not None, shape
    return int(match[1]), int(match[2]), int(match[3])


def accumulators(element: str) -> tuple[str, ...]:
    """The types that C and D may have with multiplicands of a type."""
    if element == "f16" or family(element) == "e4m3":
        return ("f16", "f32")
    return {"bf16": ("f32",), "tf32": ("f32",), "e2m1x2": ("f32",), "f64": ("f64",)}.get(element, ("s32",))


@dataclass(frozen=True)
class Product:
    """One `mma` of a warp: D = A B + C. `variant` is xor, and, satfinite, a rounding of f64, or empty.

    `layouts` (row or col, of A and B) matter for m8n8k4 on half precision alone. With `selector`, 0 to 3, A is sparse: half of its
    columns are held, and the selector says which lanes of four hold their places. `sums` is the architecture whose sums of floats
    these are (see `matrix_products.py`). `scales` (`ue8m0`, `ue4m3`) is the type of the scales that each row of A and column of B
    has for each of its `scaled` parts.
    """

    shape: str
    a: str
    b: str
    c: str
    d: str
    layouts: tuple[str, str] = ("row", "col")
    variant: str = ""
    selector: int | None = None
    sums: str = "sm_80"
    scales: str = ""
    scaled: int = 0

    @property
    def symbol(self) -> str:
        """The name of the function that computes it: all that distinguishes it from others."""
        layouts = self.layouts if self.is_four else ("row", "col")
        kind = "dense" if self.selector is None else f"sparse{self.selector}"
        types, sums = (self.a, self.b, self.c, self.d), (self.sums, self.scales, str(self.scaled))
        return ".".join(("warpsight.mma", self.shape, *types, *layouts, self.variant, kind, *sums))

    @classmethod
    def of_fields(cls, fields: list[str]) -> Product:
        """From the fields of a symbol."""
        shape, a, b, c, d, left, right, variant, kind, sums, scales, scaled = fields
        selector = None if kind == "dense" else int(kind[-1])
        return cls(shape, a, b, c, d, (left, right), variant, selector, sums, scales, int(scaled))

    @property
    def is_four(self) -> bool:
        """m8n8k4 on half precision is four products at once; here they are one of 32 rows, each 8 with a B of their own."""
        return self.shape == "m8n8k4" and self.a == "f16"

    @property
    def rows(self) -> int:
        """Rows of A, C and D."""
        return 32 if self.is_four else size_of(self.shape)[0]

    @property
    def depth(self) -> int:
        """Columns of A that enter one sum; bits count 32 at a time."""
        k = size_of(self.shape)[2]
        return k // 32 if self.a == "b1" else k

    @property
    def stored_depth(self) -> int:
        """Columns of A that registers hold."""
        return self.depth if self.selector is None else self.depth // 2

    @functools.cache  # noqa: B019  products are few
    def left(self) -> Fragment:
        """Where A is: (row, column)."""
        if self.is_four:
            return _four_factor(self.layouts[0], right=False)
        return left_fragment(self.rows, self.stored_depth, BITS[self.a])

    @functools.cache  # noqa: B019
    def right(self) -> Fragment:
        """Where B is: (row, column); the four of m8n8k4 lie below each other."""
        return _four_factor(self.layouts[1], right=True) if self.is_four else right_fragment(self.depth, BITS[self.b])

    @functools.cache  # noqa: B019
    def result(self, element: str) -> Fragment:
        """Where C or D of a type is."""
        return _four_result(element) if self.is_four else result_fragment(self.rows, element)


def left_fragment(rows: int, columns: int, bits: int) -> Fragment:
    """A of 8 or 16 rows."""
    high, e = rows // 8, 32 // min(bits, 32)
    return [
        [[(lane // 4 + 8 * (r % high), 4 * e * (r // high) + e * (lane % 4) + s) for s in range(e)] for lane in range(WARP)]
        for r in range(high * columns // (4 * e))
    ]


def right_fragment(rows: int, bits: int) -> Fragment:
    """B of 8 columns."""
    e = 32 // min(bits, 32)
    return [
        [[(4 * e * r + e * (lane % 4) + s, lane // 4) for s in range(e)] for lane in range(WARP)]
        for r in range(rows // (4 * e))
    ]  # fmt: skip


def result_fragment(rows: int, element: str) -> Fragment:
    """C or D of 8 or 16 rows and 8 columns."""
    whole = [[(lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2) for lane in range(WARP)] for i in range(rows // 4)]
    return _in_registers(whole, element)


def _in_registers(elements: list[list[Place]], element: str) -> Fragment:
    """Places by element and lane, two elements to a register when they are halves."""
    e = 2 if element == "f16" else 1
    return [[[elements[i + s][lane] for s in range(e)] for lane in range(WARP)] for i in range(0, len(elements), e)]


def _four_of(lane: int) -> tuple[int, int, int]:
    """For m8n8k4 on half precision: which of the four products a lane is in, its lower or upper half (0 or 4), and its place."""
    return lane % 16 // 4, 4 * (lane // 16), lane % 4


def _four_factor(layout: str, right: bool) -> Fragment:
    def place(lane: int, i: int) -> Place:
        product, half, number = _four_of(lane)
        row, column = (number, i) if layout == "row" else (i, number)
        return (4 * product + row, half + column) if right else (8 * product + half + row, column)

    return [[[place(lane, 2 * r + s) for s in range(2)] for lane in range(WARP)] for r in range(2)]


def _four_result(element: str) -> Fragment:
    def place(lane: int, i: int) -> Place:
        product, half, number = _four_of(lane)
        if element == "f16":
            return 8 * product + half + number, i
        return 8 * product + half + (lane & 1) + (i & 2), (i & 4) + (lane & 2) + (i & 1)

    return _in_registers([[place(lane, i) for lane in range(WARP)] for i in range(8)], element)


def is_turned(shape: str) -> bool:
    """`wmma` of 8 rows and 32 columns is computed as its transpose, D' = B' A' + C'."""
    return size_of(shape)[:2] == (8, 32)


def wmma_tile(shape: str) -> str:
    """The shape of the `mma` of which a `wmma` is made."""
    m, _, k = size_of(shape)
    return f"m{8 if m == 8 and not is_turned(shape) else 16}n8k{k}"


@functools.cache
def wmma_fragment(shape: str, operand: str, element: str) -> Fragment:
    """Where `a`, `b`, `c` or `d` of a `wmma` is: the parts that the `mma` want, one after the other, and in a product of halves
    again until there are eight registers."""
    m, n, k = size_of(shape)
    depth, bits = k // 32 if element == "b1" else k, BITS[element]
    if is_turned(shape):
        m, n, operand = n, m, {"a": "b", "b": "a"}.get(operand, operand)
    height = min(m, 16)
    if operand == "a":
        tiles = [_moved(left_fragment(height, depth, bits), i, 0) for i in range(0, m, height)]
    elif operand == "b":
        tiles = [_moved(right_fragment(depth, bits), 0, j) for j in range(0, n, 8)]
    else:
        part = result_fragment(height, element)
        tiles = [_moved(part, i, j) for i in range(0, m, height) for j in range(0, n, 8)]
    whole = [register for tile in tiles for register in tile]
    if is_turned(shape):
        whole = [[[(column, row) for row, column in lane] for lane in register] for register in whole]
    if element == "f16" and operand in ("a", "b"):
        whole = [whole[r % len(whole)] for r in range(8)]
    return whole


def _moved(fragment: Fragment, down: int, right: int) -> Fragment:
    return [[[(row + down, column + right) for row, column in lane] for lane in register] for register in fragment]


# -- Loops and constant tables in the out-of-line functions of matrix instructions, and the check that their warp is whole.

_FULL = I32(0xFFFFFFFF)


def need_whole_warp(frame: Frame) -> None:
    """Stop unless all 32 lanes are active, or none: `.aligned` asks that all of a warp's threads execute it, and none has ended.

    The fault names the first lane that executes it. With no lane active the instruction is guarded off.
    """
    builder, mask = frame.builder, frame.active_mask
    some = builder.icmp_signed("!=", mask, I32(0))
    incomplete = builder.and_(some, builder.icmp_signed("!=", mask, _FULL))
    frame.stop_if(incomplete, Fault.WARP_INCOMPLETE, lambda: (trailing_zeros(builder, mask), I64(0)))


def counted(builder: Builder, end: int | Value, step: int, body: Callable[[Builder, Value], None]) -> None:
    """Run `body(builder, i)` for i = 0, step, ... below `end` (i64), at least once. Continues in a new LLVM block."""
    before = builder.block
    inner, after = (builder.append_basic_block(n) for n in ("loop", "looped"))
    builder.branch(inner)
    builder.position_at_end(inner)
    counter = builder.phi(I64)
    counter.add_incoming(I64(0), before)
    body(builder, counter)
    following = builder.add(counter, I64(step))
    counter.add_incoming(following, builder.block)
    limit = I64(end) if isinstance(end, int) else end
    builder.cbranch(builder.icmp_unsigned("<", following, limit), inner, after)
    builder.position_at_end(after)


def constant_table(module: ir.Module, name: str, numbers: list[int]) -> Value:
    """A pointer to constant i32 numbers, made on first use of the name."""
    known = module.globals.get(name)
    if known is not None:
        return known
    kind = ir.ArrayType(I32, len(numbers))
    table = ir.GlobalVariable(module, kind, name)
    table.linkage, table.global_constant, table.align = "internal", True, 64
    table.initializer = ir.Constant(kind, numbers)
    return table
