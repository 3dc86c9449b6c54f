"""A warp's value is a vector of 32 lanes. Types, constants and small helpers for building LLVM code over such vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from warpsight.emulator.codegen.layout import WARP, Slot


class _Integer(ir.IntType):
    """An integer type each constant of which is made, and written, once."""

    _instance_cache: dict[int, Any] = {}

    @functools.lru_cache(maxsize=4096, typed=True)  # noqa: B019 - there are five, for ever
    def __call__(self, value: Any) -> Any:
        return super().__call__(value)


I1, I8, I16, I32, I64 = (_Integer(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()

Value = Any  # an llvmlite value; llvmlite has no type stubs
Builder = Any

_FLOATS = {"f16": F16, "f32": F32, "f64": F64}


class _Vector(ir.VectorType):
    """A vector whose constants name once what all lanes have: half of what LLVM would have to read otherwise."""

    def wrap_constant_value(self, values: Any) -> Any:
        return values if values is None or values is ir.Undefined else super().wrap_constant_value(values)

    def format_constant(self, value: Any) -> str:
        return f"splat ({value[0]})" if isinstance(value, tuple) else str(super().format_constant(value))


@functools.cache
def vector(scalar: Any, count: int = WARP) -> Any:
    """The type of 32 lanes of `scalar`, or of `count`. A constant of it is made from one value for all, or from a list."""
    return _Vector(scalar, count)


def splat_constant(scalar: Any, value: float) -> Value:
    """A constant with the same value in each lane."""
    return ir.Constant(vector(scalar), value)


IOTA32 = ir.Constant(vector(I32), list(range(WARP)))
IOTA64 = ir.Constant(vector(I64), list(range(WARP)))
ZERO_SHUFFLE = splat_constant(I32, 0)
# Of a register seen as twice as many lanes of half the width: the lower halves, the upper halves, and both put together again.
LOW_HALVES, HIGH_HALVES = (ir.Constant(vector(I32), list(range(start, 2 * WARP, 2))) for start in (0, 1))
INTERLEAVED = ir.Constant(vector(I32, 2 * WARP), [WARP * (k % 2) + k // 2 for k in range(2 * WARP)])


def splat(builder: Builder, scalar: Value) -> Value:
    """Broadcast a scalar to all lanes."""
    undefined = ir.Constant(vector(scalar.type), ir.Undefined)
    return builder.shuffle_vector(builder.insert_element(undefined, scalar, I32(0)), undefined, ZERO_SHUFFLE)


def scalar_type(ptx_type: str) -> Any:
    """LLVM's type for a PTX fundamental type; float types as floats, the rest as integers of that width."""
    if ptx_type == "pred":
        return I1
    if ptx_type in _FLOATS:
        return _FLOATS[ptx_type]
    return ir.IntType(bits_of(ptx_type))


def bits_of(ptx_type: str) -> int:
    """Width in bits of a scalar PTX type."""
    if ptx_type == "pred":
        return 1
    if ptx_type in ("f16x2", "bf16x2"):
        return 32
    return int(ptx_type.lstrip("busfl") if not ptx_type.startswith("bf") else ptx_type[2:])


def width(scalar: Any) -> int:
    """Width in bits of an LLVM scalar type."""
    return int(scalar.width) if isinstance(scalar, ir.IntType) else {"half": 16, "float": 32, "double": 64}[str(scalar)]


def is_float(ptx_type: str) -> bool:
    """f16, f32 or f64: held as an LLVM float."""
    return ptx_type in _FLOATS


def is_signed(ptx_type: str) -> bool:
    """s8 to s64."""
    return ptx_type[0] == "s"


def mask_to_lanes(builder: Builder, mask: Value) -> Value:
    """i32 mask to <32 x i1>, lane 0 in bit 0."""
    return builder.bitcast(mask, vector(I1))


def lanes_to_mask(builder: Builder, lanes: Value) -> Value:
    """<32 x i1> to i32 mask."""
    return builder.bitcast(lanes, I32)


def vector_suffix(vector_type: Any) -> str:
    """`v32i32`, `v32f64`: how LLVM mangles a 32-lane type in an intrinsic's name."""
    element = vector_type.element
    name = {"half": "f16", "float": "f32", "double": "f64"}.get(str(element), str(element))
    return f"v{vector_type.count}{name}"


def intrinsic(module: Any, name: str, result: Any, arguments: list[Any]) -> Value:
    """Declare (once) and return the function `name`."""
    known = module.globals.get(name)
    return known if known is not None else ir.Function(module, ir.FunctionType(result, arguments), name)


class KernelModule(ir.Module):
    """A module of functions for this machine. Those in `known`, by name, were made for an earlier kernel, and need no body here."""

    def __init__(self, name: str, known: Mapping[str, Any] | None = None) -> None:
        super().__init__(name=name)
        self.triple = llvm.get_default_triple()
        self.known = known or {}


def internal_function(module: KernelModule, name: str, kind: ir.FunctionType) -> tuple[ir.Function, bool]:
    """A helper function of the module and whether it is new and must be given a body."""
    known = module.globals.get(name)
    if known is not None:
        return known, False
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function, name not in module.known


def call_same(builder: Builder, name: str, *arguments: Value, flag: bool | None = None) -> Value:
    """Call `llvm.<name>.<vector>` whose result and overloaded arguments share one vector type; `flag` is a last i1 argument."""
    kind = arguments[0].type
    operands = [*arguments, *([] if flag is None else [I1(int(flag))])]
    function = intrinsic(builder.module, f"llvm.{name}.{vector_suffix(kind)}", kind, [a.type for a in operands])
    return builder.call(function, operands)


def gather(builder: Builder, pointers: Value, mask: Value, element: Any) -> Value:
    """Masked gather; lanes out of the mask are zero."""
    kind = vector(element)
    name = f"llvm.masked.gather.{vector_suffix(kind)}.v32p0"
    function = intrinsic(builder.module, name, kind, [vector(PTR), I32, vector(I1), kind])
    return builder.call(function, [pointers, I32(1), mask, ir.Constant(kind, None)])


def scatter(builder: Builder, values: Value, pointers: Value, mask: Value) -> None:
    """Masked scatter, lane 31 written last."""
    kind = values.type
    name = f"llvm.masked.scatter.{vector_suffix(kind)}.v32p0"
    function = intrinsic(builder.module, name, ir.VoidType(), [kind, vector(PTR), I32, vector(I1)])
    builder.call(function, [values, pointers, I32(1), mask])


def compress_store(builder: Builder, values: Value, pointer: Value, mask: Value) -> None:
    """Store the <32 x i32> lanes of an i32 mask next to each other at `pointer`, and anything up to 32 lanes behind them.

    They are compressed in registers, 16 at a time: compressing into memory takes over 100 cycles on some processors.
    """
    kind, half = vector(I32, WARP // 2), WARP // 2
    arguments = [kind, vector(I1, half), kind]
    function = intrinsic(builder.module, f"llvm.experimental.vector.compress.v{half}i32", kind, arguments)
    undefined, place = ir.Constant(values.type, ir.Undefined), pointer
    for first in (0, half):
        lanes = ir.Constant(vector(I32, half), list(range(first, first + half)))
        part = builder.shuffle_vector(values, undefined, lanes)
        chosen = builder.trunc(builder.lshr(mask, I32(first)), ir.IntType(half))
        wanted = builder.bitcast(chosen, arguments[1])
        store_as(builder, builder.call(function, [part, wanted, ir.Constant(kind, ir.Undefined)]), place, 4)
        place = at(builder, pointer, builder.zext(builder.shl(population(builder, builder.zext(chosen, I32)), I32(2)), I64))


def population(builder: Builder, mask: Value) -> Value:
    """Number of set bits of an i32."""
    return builder.call(intrinsic(builder.module, "llvm.ctpop.i32", I32, [I32]), [mask])


def trailing_zeros(builder: Builder, mask: Value) -> Value:
    """Index of the lowest set bit of an i32 (32 when none)."""
    return builder.call(intrinsic(builder.module, "llvm.cttz.i32", I32, [I32, I1]), [mask, I1(0)])


def reduce_vector(builder: Builder, operation: str, values: Value) -> Value:
    """Horizontal `or`, `and`, `add`, `umax`, ... over all lanes."""
    name = f"llvm.vector.reduce.{operation}.{vector_suffix(values.type)}"
    return builder.call(intrinsic(builder.module, name, values.type.element, [values.type]), [values])


def at(builder: Builder, base: Value, byte_offset: int | Value) -> Value:
    """Pointer `base + byte_offset`."""
    offset = I64(byte_offset) if isinstance(byte_offset, int) else byte_offset
    pointer = builder.gep(base, [offset], source_etype=I8)
    pointer.type = PTR  # llvmlite still types pointers into an alloca by what was allocated
    return pointer


def load_as(builder: Builder, pointer: Value, kind: Any, align: int = 1) -> Value:
    """Load `kind` from `pointer`."""
    return builder.load(pointer, typ=kind, align=align)


def store_as(builder: Builder, value: Value, pointer: Value, align: int = 1) -> None:
    """Store with a stated alignment, so that LLVM never assumes more."""
    builder.store(value, pointer, align=align)


def get_slot(builder: Builder, context: Value, slot: Slot) -> Value:
    """Load a slot of the context as i64."""
    return load_as(builder, at(builder, context, 8 * slot), I64, 8)


def set_slot(builder: Builder, context: Value, slot: Slot, value: Value) -> None:
    """Store an i64 in a slot of the context."""
    store_as(builder, value, at(builder, context, 8 * slot), 8)


def loop(
    builder: Builder, values: Sequence[Value], goes_on: Callable[..., Value], body: Callable[..., Sequence[Value]]
) -> list[Value]:
    """`while goes_on(*values): values = body(*values)`; the values after it. Continues in a new LLVM block."""
    before = builder.block
    head, inner, after = (builder.append_basic_block(name) for name in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    phis = [builder.phi(value.type) for value in values]
    for phi, value in zip(phis, values, strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(goes_on(*phis), inner, after)
    builder.position_at_end(inner)
    for phi, value in zip(phis, body(*phis), strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return phis
