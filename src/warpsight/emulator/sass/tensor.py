"""Matrix products of a warp: fragments lie in the registers as those of PTX's `mma` do, and the same library multiplies them."""

from __future__ import annotations

from dataclasses import replace

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I1, I32, I64, Value, splat_constant
from warpsight.emulator.ptx.matrix_products import selectors
from warpsight.emulator.ptx.matrix_shapes import SMALL_FLOATS, Product, accumulators, dense_shapes, sparse_shapes
from warpsight.emulator.ptx.mma import multiply
from warpsight.emulator.ptx.wgmma import ACROSS_K, ALONG_K, REGISTERS, group_product, multiply_group
from warpsight.emulator.sass.common import allow, halves, join, native_of, predicate, raw, set_predicate, set_words
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import (
    ZERO_REGISTERS,
    NativeDescriptors,
    NativeImmediate,
    NativeInstruction,
    NativeOperand,
    NativeRegister,
    NativeWord,
    is_predicate,
)
from warpsight.isa.sass.registers import matrix_size

_LAYOUTS = {"ROW": "row", "COL": "col", "": ""}


def hmma(emitter: Emitter, instruction: Instruction) -> None:
    """`HMMA.shape.D{.BF16,.TF32} D, A, B, C`: floats of 16 bits, or of 19 in 32; D and C are F32 or F16.

    `HMMA.884.D.C.STEPn` gives two registers of the four small products of `mma.m8n8k4`, the first two with STEP0.
    """
    native = native_of(instruction)
    words = _Words(emitter, native)
    step = next((m for m in words.rest if m.startswith("STEP")), "")
    types = words.take("F32", "F16")
    element = words.one("BF16", "TF32").lower() or "f16"
    if step:
        words.take(step)
        _step(emitter, native, words, types, int(step.removeprefix("STEP")))
        return
    accumulator = types[0].lower()
    _multiply(emitter, native, Product(words.shape, element, element, accumulator, accumulator), words)


def imma(emitter: Emitter, instruction: Instruction) -> None:
    """`IMMA.shape.A.B{.SAT} D, A, B, C`: integers of 4 or 8 bits, into 32."""
    native = native_of(instruction)
    words = _Words(emitter, native)
    a, b = (word.lower() for word in words.take("S8", "U8", "S4", "U4", count=2))
    variant = "satfinite" if words.one("SAT") else ""
    _multiply(emitter, native, Product(words.shape, a, b, "s32", "s32", variant=variant), words)


def bmma(emitter: Emitter, instruction: Instruction) -> None:
    """`BMMA.shape.{XOR,AND}.POPC D, A, B, C`: bits, whose combination is counted."""
    native = native_of(instruction)
    words = _Words(emitter, native)
    (how,) = words.take("XOR", "AND", count=1)
    words.take("POPC", count=1)
    _multiply(emitter, native, Product(words.shape, "b1", "b1", "s32", "s32", variant=how.lower()), words)


def dmma(emitter: Emitter, instruction: Instruction) -> None:
    """`DMMA.shape{.RZ,.RM,.RP} D, A, B, C`: double precision."""
    native = native_of(instruction)
    words = _Words(emitter, native)
    variant = words.one("RZ", "RM", "RP").lower()
    _multiply(emitter, native, Product(words.shape, "f64", "f64", "f64", "f64", variant=variant), words)


def qmma(emitter: Emitter, instruction: Instruction) -> None:
    """`QMMA{.SF}.shape.D.A.B{.E8} D, A, B, C{, SA, SB, UR}`: floats of 8 bits or fewer, with scales of A and B (sm_120)."""
    native = native_of(instruction)
    words = _Words(emitter, native)
    accumulator = words.take("F32", "F16", count=1)[0].lower()
    a, b = (word.lower() for word in words.take("E4M3", "E5M2", "E3M2", "E2M3", "E2M1", count=2))
    product = Product(words.shape, a, b, accumulator, accumulator)
    if words.one("SF"):
        words.take("E8", count=1)
        product = replace(product, sums="sm_120", scales="ue8m0", scaled=1)
    elif {a, b} & {*SMALL_FLOATS}:
        product = replace(product, sums="sm_120")
    _multiply(emitter, native, product, words)


def omma(emitter: Emitter, instruction: Instruction) -> None:
    """`OMMA.SF.shape.F32.E2M1.E2M1.{E8,UE4M3.4X} D, A, B, C, SA, SB, UR`: floats of 4 bits, two to a byte, with scales."""
    native = native_of(instruction)
    words = _Words(emitter, native)
    words.take("SF", count=1)
    words.take("F32", count=1)
    words.take("E2M1", count=2)
    (kind,) = words.take("E8", "UE4M3", count=1)
    parts = 4 if words.one("4X") else 2
    scales = "ue8m0" if kind == "E8" else "ue4m3"
    product = Product(words.shape, "e2m1x2", "e2m1x2", "f32", "f32", sums="sm_120", scales=scales, scaled=parts)
    _multiply(emitter, native, product, words)


class _Words:
    """The modifiers of an instruction, taken one by one; its shape and whether A is sparse."""

    def __init__(self, emitter: Emitter, native: NativeInstruction) -> None:
        self.emitter, self.rest = emitter, list(native.modifiers)
        size = matrix_size(native.mnemonic)
        if size is None:
            raise emitter.unsupported("it does not name a shape that is known")
        self.shape = "m{}n{}k{}".format(*size[0])
        self.rest.remove(size[1])
        self.sparse = bool(self.one("SP"))

    def take(self, *known: str, count: int = 0) -> list[str]:
        """Remove and give those of the modifiers that are known: `count` of them, or at least one."""
        found = [word for word in self.rest if word in known]
        self.rest = [word for word in self.rest if word not in known]
        if not found or (count and len(found) != count):
            raise self.emitter.unsupported(f"it does not name {count or 'any'} of {', '.join(known)}")
        return found

    def one(self, *known: str) -> str:
        """Remove and give the one modifier that is known, "" if there is none."""
        return self.take(*known, count=1)[0] if any(word in known for word in self.rest) else ""


def _multiply(emitter: Emitter, native: NativeInstruction, product: Product, words: _Words) -> None:
    """D = A B + C. Behind C are the metadata of a sparse A; the scales of A (in the next register then) and B, and which of them
    count; and the selector of a sparse A.
    """
    if words.rest:
        raise emitter.unsupported(f"modifier .{words.rest[0]} is not modelled")
    d, a, b, c, *rest = native.operands
    if [_part(o) for o in (a, b)] not in (["", ""], ["row", "col"]):
        raise emitter.unsupported("the layout of A or B is not modelled")
    others: list[Value] = []
    if words.sparse:
        if len(rest) < 2 or not isinstance(rest[-1], NativeImmediate):
            raise emitter.unsupported("its metadata and selector are not recognized")
        product = replace(product, selector=rest.pop().value)  # type: ignore[union-attr]
        others = [raw(emitter, rest[0])]
        if product.selector not in selectors(product.depth, product.a):
            raise emitter.unsupported(f"a selector of {product.selector} is not defined for it")
    if product.scales:
        first, *rest = rest
        others += [raw(emitter, first, int(words.sparse)), *(raw(emitter, operand) for operand in rest)]
    elif len(rest) != words.sparse:
        raise emitter.unsupported("it has more operands than matrices")
    shapes = (sparse_shapes if words.sparse else dense_shapes)(product.a)
    if product.shape not in shapes or product.d not in accumulators(product.a):
        raise emitter.unsupported("PTX has no product of this shape and these types")
    fragments = [(a, product.left()), (b, product.right()), (c, product.result(product.c))]
    sources = [[_register(emitter, o, k, product.a == "f64") for k in range(len(f))] for o, f in fragments]
    values = multiply(emitter, product, sources, *others)
    set_words(emitter, d, [half for v in values for half in halves(emitter, v)] if product.a == "f64" else values)


def _step(emitter: Emitter, native: NativeInstruction, words: _Words, types: list[str], step: int) -> None:
    """Two registers of D, of the same two of C: an element of D depends on no other one of C."""
    if words.rest or len(types) != 2 or words.shape != "m8n8k4":
        raise emitter.unsupported("this form of it is not modelled")
    d, a, b, c = native.operands
    product = Product("m8n8k4", "f16", "f16", types[1].lower(), types[0].lower(), (_part(a) or "row", _part(b) or "col"))
    held = len(product.result(product.c))
    if len(product.result(product.d)) != held or not 0 <= 2 * step < held:
        raise emitter.unsupported("a sum of this type into that one is not modelled")
    zero = splat_constant(I32, 0)
    part = [_register(emitter, c, k, False) for k in range(2)]
    whole = [part[k - 2 * step] if k // 2 == step else zero for k in range(held)]
    factors = [[_register(emitter, o, k, False) for k in range(2)] for o in (a, b)]
    set_words(emitter, d, multiply(emitter, product, [*factors, whole])[2 * step : 2 * step + 2])


def _part(operand: NativeOperand) -> str:
    return _LAYOUTS.get(operand.part, "?") if isinstance(operand, NativeRegister) else "?"


def _register(emitter: Emitter, operand: NativeOperand, number: int, wide: bool) -> Value:
    """Register `number` of a fragment, of 64 bits if `wide`."""
    if not isinstance(operand, NativeRegister) or operand.negative or operand.absolute or operand.inverted:
        raise emitter.unsupported(f"operand {operand!r} is not recognized here")
    if not wide:
        return raw(emitter, operand, number)
    return join(emitter, raw(emitter, operand, 2 * number), raw(emitter, operand, 2 * number + 1))


# -- Products of a warp group.


def hgmma(emitter: Emitter, instruction: Instruction) -> None:
    """`HGMMA.MxNxK.D{.BF16,.TF32} D, {A,} gdesc[UR], C{, P}`: as HMMA, by a warp group. P says whether C counts."""
    words = _Words(emitter, native_of(instruction))
    (d,) = (word.lower() for word in words.take("F32", "F16", count=1))
    element = words.one("BF16", "TF32").lower() or "f16"
    _multiply_group(words, native_of(instruction), element, element, d)


def qgmma(emitter: Emitter, instruction: Instruction) -> None:
    """`QGMMA.MxNxK.D.A.B D, {A,} gdesc[UR], C{, P}`: floats of 8 bits."""
    words = _Words(emitter, native_of(instruction))
    (d,) = (word.lower() for word in words.take("F32", "F16", count=1))
    a, b = (word.lower() for word in words.take("E4M3", "E5M2", count=2))
    _multiply_group(words, native_of(instruction), a, b, d)


def igmma(emitter: Emitter, instruction: Instruction) -> None:
    """`IGMMA.MxNxK.A.B{.SAT} D, {A,} gdesc[UR], C{, P}`: integers of 8 bits."""
    words = _Words(emitter, native_of(instruction))
    a, b = (word.lower() for word in words.take("S8", "U8", count=2))
    _multiply_group(words, native_of(instruction), a, b, "s32", "satfinite" if words.one("SAT") else "")


def bgmma(emitter: Emitter, instruction: Instruction) -> None:
    """`BGMMA.MxNxK.AND.POPC D, {A,} gdesc[UR], C{, P}`: bits, whose combination is counted."""
    words = _Words(emitter, native_of(instruction))
    words.take("AND", count=1)
    words.take("POPC", count=1)
    _multiply_group(words, native_of(instruction), "b1", "b1", "s32", "and")


def warpgroup(emitter: Emitter, instruction: Instruction) -> None:
    """`WARPGROUP.ARRIVE`, `WARPGROUP.DEPBAR.LE gsb0, N`: products are executed where they are issued (`ptx/wgmma.py` says why)."""
    allow(emitter, native_of(instruction), "ARRIVE", "DEPBAR", "LE")


def usetmaxreg(emitter: Emitter, instruction: Instruction) -> None:
    """`USETMAXREG.DEALLOC.CTAPOOL n`, `USETMAXREG.TRY_ALLOC.CTAPOOL UP, n`: registers are always free."""
    native = native_of(instruction)
    allow(emitter, native, "DEALLOC", "TRY_ALLOC", "CTAPOOL")
    if "TRY_ALLOC" in native.modifiers:
        set_predicate(emitter, native.operands[0], splat_constant(I1, 1))


def _multiply_group(words: _Words, native: NativeInstruction, a: str, b: str, d: str, variant: str = "") -> None:
    """D = A B + C. Without D, it only ends a group of products (`gsb0`, which the last product of a group has)."""
    emitter = words.emitter
    if words.rest:
        raise emitter.unsupported(f"modifier .{words.rest[0]} is not modelled")
    target, *operands = [operand for operand in native.operands if not isinstance(operand, NativeWord)]
    held = operands.pop(0) if isinstance(operands[0], NativeRegister) else None
    descriptors, before, *operands = operands
    if not isinstance(descriptors, NativeDescriptors) or not isinstance(target, NativeRegister):
        raise emitter.unsupported("it has no matrix descriptors")
    if target.name in ZERO_REGISTERS:
        return
    scale = predicate(emitter, operands.pop(0)) if operands and is_predicate(operands[0]) else splat_constant(I1, 1)
    metadata = raw(emitter, operands.pop(0)) if words.sparse else None
    selector = 0 if words.sparse else None
    if words.sparse and operands and isinstance(operands[0], NativeImmediate):
        selector = operands.pop(0).value  # type: ignore[union-attr]
    how = set(descriptors.words)
    if operands or how - {"negA", "negB", "tnspA", "tnspB"}:
        raise emitter.unsupported("its operands are not recognized")
    left, right = (ACROSS_K if word in how else ALONG_K for word in ("tnspA", "tnspB"))
    minus = held.negative if isinstance(held, NativeRegister) else "negA" in how
    group, columns = group_product(
        emitter, words.shape, a, b, d, left if held is None else REGISTERS, right, variant=variant,
        negative=minus != ("negB" in how), selector=selector,
    )
    fragment = []
    if isinstance(held, NativeRegister):
        fragment = [_register(emitter, replace(held, negative=False), k, False) for k in range(len(group.part.left()))]
    accumulator = [raw(emitter, before, k) for k in range(len(group.part.result(d)) * columns // 8)]
    both = (I64(0) if held is not None else _descriptor(emitter, descriptors, 0), _descriptor(emitter, descriptors, 2))
    set_words(emitter, target, multiply_group(emitter, group, columns, fragment, both, accumulator, scale, metadata))


def _descriptor(emitter: Emitter, descriptors: NativeDescriptors, first: int) -> Value:
    """A descriptor (i64) in two uniform registers."""
    register = NativeRegister(descriptors.name)
    both = join(emitter, raw(emitter, register, first), raw(emitter, register, first + 1))
    return emitter.builder.extract_element(both, I32(0))
