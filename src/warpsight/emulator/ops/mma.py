"""`mma.sync.aligned` of every shape and type up to sm_90, and `mma.sp.sync.aligned`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import Value, bits_of
from warpsight.emulator.ops.common import operands
from warpsight.emulator.ops.matrix_product import multiply
from warpsight.emulator.ops.matrix_shapes import BITS, SHAPE, Fragment, Product, accumulators, dense_shapes, family, sparse_shapes
from warpsight.emulator.ops.matrix_sparse import selectors
from warpsight.isa.program import Instruction, Register, Vector

LAYOUTS = ("row", "col")
ROUNDINGS = ("rn", "rz", "rm", "rp")
_ALWAYS = ("sync", "aligned")
_SPARSE = ("sp", "sp::ordered_metadata")


class Words:
    """The modifiers of a matrix instruction, sorted: shape, layouts, types and the rest."""

    def __init__(self, emitter: Emitter, modifiers: Sequence[str]) -> None:
        words = [m for m in modifiers if m not in _ALWAYS]
        shapes = [m for m in words if SHAPE.fullmatch(m)]
        if len(shapes) != 1:
            raise emitter.unsupported("it does not name one shape")
        self.shape = shapes[0]
        self.layouts = [m for m in words if m in LAYOUTS]
        self.types = [m for m in words if m in BITS]
        self.rest = [m for m in words if m not in shapes and m not in LAYOUTS and m not in BITS]

    def take(self, *known: str) -> str:
        """Remove and give the first of `known` among the rest, "" if there is none."""
        found = next((m for m in self.rest if m in known), "")
        if found:
            self.rest.remove(found)
        return found

    def refuse_rest(self, emitter: Emitter) -> None:
        """Nothing is parsed and ignored."""
        if self.rest:
            raise emitter.unsupported(f"modifier .{self.rest[0]} is not modelled")


def variant_of(emitter: Emitter, words: Words, element: str) -> str:
    """How the products are joined: the bit operation, `satfinite`, or the rounding of f64; refuses any other modifier."""
    variant = ""
    if element == "b1":
        variant = words.take("xor", "and")
        if not variant or not words.take("popc"):
            raise emitter.unsupported("a product of bits needs .xor.popc or .and.popc")
    elif element == "f64":
        variant = words.take(*ROUNDINGS)
        variant = "" if variant == "rn" else variant
    elif accumulators(element) == ("s32",):
        variant = words.take("satfinite")
    words.refuse_rest(emitter)
    return variant


def _mma(emitter: Emitter, instruction: Instruction) -> None:
    """`mma.sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype d, a, b, c`."""
    words = Words(emitter, instruction.modifiers)
    if words.take(*_SPARSE):
        _sparse(emitter, instruction, words)
        return
    product = _product(emitter, words, dense_shapes)
    d, *sources = operands(emitter, instruction, 4)
    fragments = (product.left(), product.right(), product.result(product.c))
    read = [read_fragment(emitter, s, f, product.a) for s, f in zip(sources, fragments, strict=True)]
    write_fragment(emitter, d, multiply(emitter, product, read), product.a)


def _sparse(emitter: Emitter, instruction: Instruction, words: Words) -> None:
    """`mma.sp{::ordered_metadata}.sync.aligned... d, a, b, c, e, f`: e the metadata, f the selector, an integer constant.

    Sums are those of the dense product whose A has zeros elsewhere.
    """
    d, *sources, metadata, selector = operands(emitter, instruction, 6)
    product = replace(_product(emitter, words, sparse_shapes), selector=emitter.immediate_value(selector))
    if product.selector not in selectors(product.depth, product.a):
        raise emitter.unsupported(f"a selector of {product.selector} is not defined for it")
    fragments = (product.left(), product.right(), product.result(product.c))
    read = [read_fragment(emitter, s, f, product.a) for s, f in zip(sources, fragments, strict=True)]
    write_fragment(emitter, d, multiply(emitter, product, read, emitter.read(metadata, "b32")), product.a)


def _product(emitter: Emitter, words: Words, shapes: Callable[[str], tuple[str, ...]]) -> Product:
    if len(words.types) != 4 or len(words.layouts) != 2:
        raise emitter.unsupported("it does not name two layouts and four types")
    d, a, b, c = words.types
    if family(a) != family(b):
        raise emitter.unsupported(f"a product of .{a} and .{b} is not modelled")
    if words.shape not in shapes(a):
        raise emitter.unsupported(f"shape .{words.shape} with .{a} is not modelled")
    four = words.shape == "m8n8k4" and a == "f16"
    mixed = four and (d, c) == ("f32", "f16")
    if d not in accumulators(a) or (c != d and not mixed):
        raise emitter.unsupported(f"a sum of .{c} into .{d} is not modelled")
    if words.layouts != ["row", "col"] and not four:
        raise emitter.unsupported(f"layouts .{'.'.join(words.layouts)} with this shape are not modelled")
    variant = variant_of(emitter, words, a)
    return Product(words.shape, a, b, c, d, (words.layouts[0], words.layouts[1]), variant)


def elements_of(operand: Any) -> list[Any]:
    """The registers of a vector operand, or the one register."""
    return list(operand.elements) if isinstance(operand, Vector) else [operand]


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
        raise emitter.unsupported(f"a fragment of {len(parts)} registers where {count} belong")
    bits = 64 if element == "f64" else 32
    for part in parts:
        if isinstance(part, Register):
            declared = emitter.kernel.function.registers.get(part.name)
            if declared is not None and (declared == "pred" or bits_of(declared) != bits):
                raise emitter.unsupported(f"register {part.name} is not of {bits} bits")
    return parts


HANDLERS = {"mma": _mma}
