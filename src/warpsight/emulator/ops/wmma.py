"""`wmma.load`, `wmma.store` and `wmma.mma`. A product is one or two of `mma`'s, on the layouts of `matrix_shapes`."""

from __future__ import annotations

from typing import Any

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.frame import call_library
from warpsight.emulator.lanes import I32, I64, Value, at, load_as, store_as, vector
from warpsight.emulator.layout import WARP
from warpsight.emulator.ops.common import operands
from warpsight.emulator.ops.matrix_memory import FRAGMENT, MatrixAccess
from warpsight.emulator.ops.matrix_product import multiply
from warpsight.emulator.ops.matrix_shapes import Product, accumulators, is_turned, wmma_fragment, wmma_shapes, wmma_tile
from warpsight.emulator.ops.mma import Words, read_fragment, variant_of, write_fragment
from warpsight.isa.program import Instruction

_SPACES = ("global", "shared", "shared::cta")
_MULTIPLICANDS = ("f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4", "b1")


def _wmma(emitter: Emitter, instruction: Instruction) -> None:
    what, *words = instruction.modifiers or ("",)
    if what == "mma":
        _multiply(emitter, instruction, words)
    elif what == "load" and words and words[0] in ("a", "b", "c"):
        _load(emitter, instruction, words)
    elif what == "store" and words and words[0] == "d":
        _store(emitter, instruction, words)
    else:
        raise emitter.unsupported("only wmma.load.a, .b and .c, wmma.store.d and wmma.mma are modelled")


def _load(emitter: Emitter, instruction: Instruction, words: list[str]) -> None:
    """`wmma.load.a.sync.aligned.layout.shape{.space}.type r, [p]{, stride}`."""
    access = _access(emitter, words)
    d, address, *stride = operands(emitter, instruction, 2, 3)
    buffer = emitter.buffer("fragment", FRAGMENT)
    _call(emitter, access, address, stride, buffer)
    double = access.element == "f64"
    step = WARP * (8 if double else 4)
    held = len(access.pieces()[1]) * access.pieces()[0] // step
    values = [
        load_as(emitter.builder, at(emitter.builder, buffer, r % held * step), vector(I64 if double else I32), 64)
        for r in range(access.registers())
    ]
    write_fragment(emitter, d, values, access.element)


def _store(emitter: Emitter, instruction: Instruction, words: list[str]) -> None:
    """`wmma.store.d.sync.aligned.layout.shape{.space}.type [p], r{, stride}`."""
    access = _access(emitter, words)
    address, source, *stride = operands(emitter, instruction, 2, 3)
    fragment = wmma_fragment(access.shape, "d", access.element)
    values = read_fragment(emitter, source, fragment, access.element)
    buffer = emitter.buffer("fragment", FRAGMENT)
    for r, value in enumerate(values):
        store_as(emitter.builder, value, at(emitter.builder, buffer, r * WARP * (8 if access.element == "f64" else 4)), 64)
    _call(emitter, access, address, stride, buffer)


def _access(emitter: Emitter, modifiers: list[str]) -> MatrixAccess:
    operand, words = modifiers[0], Words(emitter, modifiers[1:])
    space = words.take(*_SPACES).split("::")[0] or "generic"
    words.refuse_rest(emitter)
    if len(words.types) != 1 or len(words.layouts) != 1:
        raise emitter.unsupported("it does not name one layout and one type")
    element, layout = words.types[0], words.layouts[0]
    if operand in ("a", "b"):
        fits = element in _MULTIPLICANDS and words.shape in wmma_shapes(element)
    else:
        fits = any(element in accumulators(m) and words.shape in wmma_shapes(m) for m in _MULTIPLICANDS)
    if not fits:
        raise emitter.unsupported(f"shape .{words.shape} with .{element} is not modelled")
    if element in ("s4", "u4", "b1") and layout != {"a": "row", "b": "col"}[operand]:
        raise emitter.unsupported(f"layout .{layout} with .{element} is not modelled")
    return MatrixAccess(words.shape, operand, element, layout, space)


def _call(emitter: Emitter, access: MatrixAccess, address: Any, stride: list[Any], buffer: Value) -> None:
    builder = emitter.builder
    bits = 32 if access.space == "shared" else 64
    first = builder.extract_element(emitter.effective_address(address, bits), I32(0))
    if bits == 32:
        first = builder.zext(first, I64)
    step: Value = I64(access.line_elements)
    if stride:
        step = builder.zext(builder.extract_element(emitter.read(stride[0], "u32"), I32(0)), I64)

    call_library(emitter, access.symbol, I64(emitter.kernel.next_site()), [first, step, at(builder, buffer, 0)])


def _multiply(emitter: Emitter, instruction: Instruction, modifiers: list[str]) -> None:
    """`wmma.mma.sync.aligned.alayout.blayout.shape.dtype{.atype.btype}.ctype d, a, b, c`."""
    words = Words(emitter, modifiers)
    types = words.types if len(words.types) != 2 else [words.types[0], "f16", "f16", words.types[1]]
    if len(types) != 4 or len(words.layouts) != 2:
        raise emitter.unsupported("it does not name two layouts and two or four types")
    d_type, a_type, b_type, c_type = types
    shape = words.shape
    if a_type != b_type or a_type not in _MULTIPLICANDS or shape not in wmma_shapes(a_type):
        raise emitter.unsupported(f"shape .{shape} with .{a_type} and .{b_type} is not modelled")
    if not {c_type, d_type} <= set(accumulators(a_type)):
        raise emitter.unsupported(f"a sum of .{c_type} into .{d_type} is not modelled")
    if a_type in ("s4", "u4", "b1") and words.layouts != ["row", "col"]:
        raise emitter.unsupported(f"layouts .{'.'.join(words.layouts)} with .{a_type} are not modelled")
    product = Product(wmma_tile(shape), a_type, b_type, c_type, d_type, variant=variant_of(emitter, words, a_type))
    d, *sources = operands(emitter, instruction, 4)
    kinds = (("a", a_type), ("b", b_type), ("c", c_type))
    a, b, c = (
        read_fragment(emitter, source, wmma_fragment(shape, operand, element), a_type)
        for source, (operand, element) in zip(sources, kinds, strict=True)
    )
    if is_turned(shape):
        a, b = b, a
    result: list[Value] = []
    tall = is_turned(shape) or shape.startswith("m32")
    for tile in _tiles(product, a, b, c, tall):
        result += multiply(emitter, product, tile)
    write_fragment(emitter, d, result, a_type)


def _tiles(product: Product, a: list[Value], b: list[Value], c: list[Value], tall: bool) -> list[list[list[Value]]]:
    """The registers of A, B and C of each `mma`: parts of A with all of B when `tall`, else A with parts of B."""
    of_a, of_b, of_c = (len(f) for f in (product.left(), product.right(), product.result(product.c)))
    found = []
    for t in range(len(c) // of_c):
        i, j = (t, 0) if tall else (0, t)
        found.append([a[i * of_a : (i + 1) * of_a], b[j * of_b : (j + 1) * of_b], c[t * of_c : (t + 1) * of_c]])
    return found


HANDLERS = {"wmma": _wmma}
