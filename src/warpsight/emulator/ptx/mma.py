"""`mma.sync.aligned` and `mma.sp.sync.aligned` of every shape and type, with the block scales of sm_120: fragments become matrices
in memory, a loop multiplies them, the result becomes fragments.

There is one function of `library` for each kind of product, which the instruction calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import HelperFrame, call_library
from warpsight.emulator.codegen.lanes import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    bits_of,
    gather,
    load_as,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx import matrix_products as products
from warpsight.emulator.ptx.common import elements_of, operands, roundings
from warpsight.emulator.ptx.matrix_shapes import (
    BITS,
    EIGHT_BIT_FLOATS,
    SHAPE,
    SMALL_FLOATS,
    Fragment,
    Product,
    accumulators,
    constant_table,
    counted,
    dense_shapes,
    family,
    need_whole_warp,
    sparse_shapes,
)
from warpsight.isa.ptx.program import Immediate, Instruction, Register

_COLUMNS = 8
_RESULT_BYTES = 8 * 8 * WARP  # f32 of m8n8k4: 8 registers; f64 has 4


def multiply(emitter: Emitter, product: Product, sources: list[list[Value]], *others: Value) -> list[Value]:
    """The registers of D from those of A, B and C: vectors of i32, of i64 for f64. A warp that is not whole is a fault.

    The `others` are the metadata of a sparse A, and those of `scale_factors` where there are scales.
    """
    arguments = [*(register for registers in sources for register in registers), *others]
    _, results = product_types(product)
    # Results come back in memory: LLVM is slow with returned structs of wide vectors.
    room = at(emitter.builder, emitter.buffer("products", ir.ArrayType(I8, _RESULT_BYTES)), 0)
    call_library(emitter, product.symbol, I64(0), [*arguments, room])
    stride = _stride(_word(product))
    return [load_as(emitter.builder, at(emitter.builder, room, k * stride), kind, 64) for k, kind in enumerate(results)]


@functools.cache
def product_types(product: Product) -> tuple[list[Any], list[Any]]:
    """LLVM types of the registers of A, B, C and the others if any, and of D."""
    word = vector(_word(product))
    held = sum(map(len, _sources(product))) + (product.selector is not None) + (3 if product.scales else 0)
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
        a = products.expanded(helper, product, a, places[3])
    b = matrices.unpack("b", places[1], sources[1], _COLUMNS, product.b)
    c = matrices.unpack("c", places[2], sources[2], _COLUMNS, product.c)
    d = helper.buffer("matrix_d", ir.ArrayType(word, product.rows * _COLUMNS))
    if product.scales:
        scales = products.scale_factors(helper, product, at(builder, places[3], stride if product.selector is not None else 0))
        products.float_rows(helper, product, a, b, c, d, scales)
    else:
        fill = products.float_rows if is_float(product) else products.double_rows if product.a == "f64" else products.integer_rows
        fill(helper, product, a, b, c, d)
    matrices.pack(room, product.result(product.d), d)
    helper.close([])


def is_float(product: Product) -> bool:
    """Is it computed as the tensor cores add floats: all multiplicands but integers and f64?"""
    return product.a in ("f16", "bf16", "tf32", *EIGHT_BIT_FLOATS, *SMALL_FLOATS)


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
                _put(builder, products.integer_values(builder, words, shifts, element), matrix, first, 4)
            else:
                values, powers = products.float_values(builder, words, shifts, element)
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
        places = [[lane[s][0] * _COLUMNS + lane[s][1] for register in fragment for lane in register] for s in range(each)]
        tables = [constant_table(module, f"places_d{s}", numbers) for s, numbers in enumerate(places)]

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
    numbers = {
        row * columns + column: (r * WARP + lane) * 32 + (s * bits if bits < 32 else 0)
        for r, register in enumerate(fragment)
        for lane, elements in enumerate(register)
        for s, (row, column) in enumerate(elements)
    }
    return [numbers[k] for k in range(len(numbers))]


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


# -- The instructions.

LAYOUTS = ("row", "col")
_ALWAYS = ("sync", "aligned")
_SPARSE = ("sp", "sp::ordered_metadata")


class MatrixModifiers:
    """The modifiers of a matrix instruction, sorted: shape, layouts, types and the rest."""

    def __init__(self, emitter: Emitter, modifiers: Sequence[str]) -> None:
        modifiers = [m for m in modifiers if m not in _ALWAYS]
        shapes = [m for m in modifiers if SHAPE.fullmatch(m)]
        if len(shapes) != 1:
            raise emitter.unsupported("it does not name one shape")
        self.shape = shapes[0]
        self.layouts = [m for m in modifiers if m in LAYOUTS]
        self.types = [m for m in modifiers if m in BITS]
        self.rest = [m for m in modifiers if m not in shapes and m not in LAYOUTS and m not in BITS]
        self.scaled: dict[str, int] = {}  # how many scales a row may have, by `.scale_vec`

    def take(self, *known: str) -> str:
        """Remove and give the first of `known` among the rest, "" if there is none."""
        word = next((m for m in self.rest if m in known), "")
        if word:
            self.rest.remove(word)
        return word

    def refuse_rest(self, emitter: Emitter) -> None:
        """Nothing is parsed and ignored."""
        if self.rest:
            raise emitter.unsupported(f"modifier .{self.rest[0]} is not modelled")


def variant_of(emitter: Emitter, modifiers: MatrixModifiers, element: str) -> str:
    """How the products are joined: the bit operation, `satfinite`, or the rounding of f64; refuses any other modifier."""
    variant = ""
    if element == "b1":
        variant = modifiers.take("xor", "and")
        if not variant or not modifiers.take("popc"):
            raise emitter.unsupported("a product of bits needs .xor.popc or .and.popc")
    elif element == "f64":
        variant = modifiers.take(*roundings(emitter))
        variant = "" if variant == "rn" else variant
    elif accumulators(element) == ("s32",):
        variant = modifiers.take("satfinite")
    modifiers.refuse_rest(emitter)
    return variant


def mma(emitter: Emitter, instruction: Instruction) -> None:
    """`mma{.sp}.sync.aligned.shape.row.col{.kind}{.block_scale{.scale_vec}}.d.a.b.c{.scales} d, a, b, c{, e, f}{, sa, {}, sb, {}}`.

    e is the metadata of a sparse A, f the selector, an integer constant; sums are those of the dense product whose A has zeros
    elsewhere. sa and sb are scales, each with the byte and the lane that count.
    """
    modifiers = MatrixModifiers(emitter, instruction.modifiers)
    sparse, scaled = bool(modifiers.take(*_SPARSE)), "block_scale" in modifiers.rest
    _take_kind(emitter, modifiers)
    product = _product(emitter, modifiers, sparse_shapes if sparse else dense_shapes)
    d, a, b, c, *rest = operands(emitter, instruction, 4 + 2 * sparse + 4 * scaled)
    others = []
    if sparse:
        metadata, selector, *rest = rest
        product = replace(product, selector=emitter.immediate_value(selector))
        others.append(emitter.read(metadata, "b32"))
        if product.selector not in products.selectors(product.depth, product.a):
            raise emitter.unsupported(f"a selector of {product.selector} is not defined for it")
    if scaled:
        others += _scales(emitter, product, rest)
    read = [read_fragment(emitter, s, f, product.a) for s, f in zip((a, b, c), _sources(product), strict=True)]
    write_fragment(emitter, d, multiply(emitter, product, read, *others), product.a)


_SCALED = {"mxf8f6f4": {"": 1, "1X": 1}, "mxf4": {"": 2, "2X": 2}, "mxf4nvf4": {"2X": 2, "4X": 4}}  # parts, by `.scale_vec`


def _take_kind(emitter: Emitter, modifiers: MatrixModifiers) -> None:
    """Check `.kind` against the types, and name those that are packed two to a byte as such."""
    kind = modifiers.take("kind::f8f6f4", *(f"kind::{kind}" for kind in _SCALED)).removeprefix("kind::")
    if set(modifiers.types) & set(SMALL_FLOATS) and not kind:
        raise emitter.unsupported("floats of 6 and 4 bits need .kind")
    if kind and not {*modifiers.types[1:3]} <= {*EIGHT_BIT_FLOATS, *SMALL_FLOATS[:3]}:
        raise emitter.unsupported(f".kind::{kind} is not for these types")
    if kind.startswith("mxf4"):
        modifiers.types = ["e2m1x2" if element == "e2m1" else element for element in modifiers.types]
    if (kind in _SCALED) != ("block_scale" in modifiers.rest):
        raise emitter.unsupported("it needs both .block_scale and a .kind that has scales, or neither")
    modifiers.scaled = _SCALED.get(kind, {})


def _take_scales(emitter: Emitter, modifiers: MatrixModifiers) -> tuple[str, int]:
    """The type and number of the scales of a row."""
    modifiers.take("block_scale")
    size = modifiers.take(*(f"scale_vec::{n}X" for n in (1, 2, 4))).removeprefix("scale_vec::")
    kind = modifiers.take("ue8m0", "ue4m3")
    parts = modifiers.scaled.get(size)
    if parts is None or not kind or (kind == "ue4m3" and parts != 4):
        raise emitter.unsupported("PTX has no such .scale_vec or type of scales here")
    return kind, parts


def _scales(emitter: Emitter, product: Product, given: list[Any]) -> list[Value]:
    """The scales of A and B, and the selector in which `scale_factors` wants the bytes and lanes that count."""
    builder, selector, registers = emitter.builder, I32(0), []
    for scales, choice, bit, most in ((given[0], given[1], 0, 1), (given[2], given[3], 3, 3)):
        (word,), chosen = elements_of(scales), elements_of(choice)
        registers.append(emitter.read(word, "b32"))
        if len(chosen) != 2:
            raise emitter.unsupported("scales are chosen by a byte and a lane")
        for number, place, limit in zip(chosen, (bit, bit + 2), (4 - product.scaled, most), strict=True):
            if isinstance(number, Immediate) and (number.value > limit or number.value % (product.scaled if place == bit else 1)):
                raise emitter.unsupported(f"it has no scales in byte or lane {number.value}")
            first = builder.and_(builder.extract_element(emitter.read(number, "u32"), I32(0)), I32(3 if place == bit else most))
            selector = builder.or_(selector, builder.shl(first, I32(place)))
    return [*registers, splat(builder, selector)]


def _product(emitter: Emitter, modifiers: MatrixModifiers, shapes: Callable[[str], tuple[str, ...]]) -> Product:
    if len(modifiers.types) != 4 or len(modifiers.layouts) != 2:
        raise emitter.unsupported("it does not name two layouts and four types")
    d, a, b, c = modifiers.types
    if family(a) != family(b):
        raise emitter.unsupported(f"a product of .{a} and .{b} is not modelled")
    if modifiers.shape not in shapes(a):
        raise emitter.unsupported(f"shape .{modifiers.shape} with .{a} is not modelled")
    product = Product(modifiers.shape, a, b, c, d, (modifiers.layouts[0], modifiers.layouts[1]))
    if modifiers.scaled:
        kind, parts = _take_scales(emitter, modifiers)
        product = replace(product, sums="sm_120", scales=kind, scaled=parts)
    elif {a, b} & {*SMALL_FLOATS}:
        product = replace(product, sums="sm_120")
    if product.sums == "sm_120" and (modifiers.shape == "m16n8k16" or (modifiers.scaled and d != "f32")):
        raise emitter.unsupported(f"shape .{modifiers.shape} into .{d} is not modelled with these types")
    mixed = product.is_four and (d, c) == ("f32", "f16")
    if d not in accumulators(a) or (c != d and not mixed):
        raise emitter.unsupported(f"a sum of .{c} into .{d} is not modelled")
    if modifiers.layouts != ["row", "col"] and not product.is_four:
        raise emitter.unsupported(f"layouts .{'.'.join(modifiers.layouts)} with this shape are not modelled")
    return replace(product, variant=variant_of(emitter, modifiers, a))


def read_fragment(emitter: Emitter, operand: Any, fragment: Fragment, element: str) -> list[Value]:
    """The registers of a fragment as vectors of 32 bits (64 for f64), checked for their number and size."""
    parts = _checked(emitter, operand, len(fragment), element)
    return [emitter.read(part, "b64" if element == "f64" else "b32") for part in parts]


def write_fragment(emitter: Emitter, operand: Any, values: list[Value], element: str) -> None:
    """Write the registers of a fragment, checked for their number and size."""
    for part, value in zip(_checked(emitter, operand, len(values), element), values, strict=True):
        emitter.write(part, value, "b64" if element == "f64" else "b32")


def _checked(emitter: Emitter, operand: Any, count: int, element: str) -> list[Any]:
    parts = elements_of(operand)
    if len(parts) != count:
        raise emitter.unsupported(f"a fragment of {len(parts)} registers; {count} expected")
    bits = 64 if element == "f64" else 32
    for part in parts:
        if isinstance(part, Register):
            declared = emitter.kernel.function.registers.get(part.name)
            if declared is not None and (declared == "pred" or bits_of(declared) != bits):
                raise emitter.unsupported(f"register {part.name} is not of {bits} bits")
    return parts
