"""Moving data between registers: mov with packing; and what has no effect on a functional model."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import bits_of, splat_constant, vector
from warpsight.emulator.ops.common import allow, kinds_of, operands, the_type
from warpsight.isa.program import Instruction, Vector
from warpsight.isa.types import vector_lanes


def _mov(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction, "v2", "v4")
    kind = "b128" if kinds_of(instruction) == ["b128"] else the_type(emitter, instruction)
    d, a = operands(emitter, instruction, 2)
    if {"v2", "v4"} & {*instruction.modifiers}:
        _elementwise(emitter, d, a, kind, instruction.modifiers)
    elif isinstance(a, Vector):
        _pack(emitter, d, a, kind)
    elif isinstance(d, Vector):
        _unpack(emitter, d, a, kind)
    else:
        emitter.write(d, emitter.read(a, kind), kind)


def _elementwise(emitter: Emitter, d: object, a: object, kind: str, modifiers: tuple[str, ...]) -> None:
    """`mov.v4.f32 {a, b, c, d}, V`: every source is read before the first destination is written."""
    lanes = vector_lanes(modifiers)
    if not (isinstance(d, Vector) and isinstance(a, Vector) and len(d.elements) == len(a.elements) == lanes):
        raise emitter.unsupported("both its operands must be vectors of that many elements")
    values = [emitter.read(source, kind) for source in a.elements]
    for target, value in zip(d.elements, values, strict=True):
        emitter.write(target, value, kind)


def _pack(emitter: Emitter, d: object, parts: Vector, kind: str) -> None:
    """`mov.b64 d, {lo, hi}`."""
    builder, element = emitter.builder, ir.IntType(bits_of(kind))
    size = element.width // len(parts.elements)
    total = splat_constant(element, 0)
    for k, part in enumerate(parts.elements):
        piece = builder.zext(emitter.read(part, f"b{size}"), vector(element))
        total = builder.or_(total, builder.shl(piece, splat_constant(element, k * size)))
    emitter.write(d, total, f"b{element.width}")  # type: ignore[arg-type]


def _unpack(emitter: Emitter, parts: Vector, a: object, kind: str) -> None:
    """`mov.b64 {lo, hi}, a`."""
    builder, element = emitter.builder, ir.IntType(bits_of(kind))
    size = element.width // len(parts.elements)
    value = emitter.read(a, f"b{element.width}")  # type: ignore[arg-type]
    for k, part in enumerate(parts.elements):
        piece = builder.trunc(builder.lshr(value, splat_constant(element, k * size)), vector(ir.IntType(size)))
        emitter.write(part, piece, f"b{size}")


def _nothing(emitter: Emitter, instruction: Instruction) -> None:
    """Waiting and signals to a profiler change nothing that the kernel computes."""


HANDLERS = {"mov": _mov, "nanosleep": _nothing, "pmevent": _nothing}
