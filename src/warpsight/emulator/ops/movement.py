"""Moving data between registers: mov with packing, cvta, isspacep, and what has no effect on a functional model."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I64, bits_of, scalar_type, splat_constant, vector
from warpsight.emulator.layout import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from warpsight.emulator.ops.common import allow, operands, the_type
from warpsight.isa.program import Instruction, Vector

_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0, "const": 0, "param": 0}


def _mov(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction)
    kind = the_type(emitter, instruction)
    d, a = operands(emitter, instruction, 2)
    if isinstance(a, Vector):
        _pack(emitter, d, a, kind)
    elif isinstance(d, Vector):
        _unpack(emitter, d, a, kind)
    else:
        emitter.write(d, emitter.read(a, kind), kind)


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


def _cvta(emitter: Emitter, instruction: Instruction) -> None:
    """To generic adds the space's window, `.to` takes it away; global and constant addresses are generic as they are."""
    allow(emitter, instruction, "to", *_WINDOWS)
    kind = the_type(emitter, instruction)
    d, a = operands(emitter, instruction, 2)
    space = next((m for m in instruction.modifiers if m in _WINDOWS), "")
    if space in ("", "param"):
        raise emitter.unsupported("an address of parameter space has no generic form here")
    builder, window = emitter.builder, splat_constant(scalar_type(kind), _WINDOWS[space])
    value = emitter.read(a, kind)
    emitter.write(d, builder.sub(value, window) if "to" in instruction.modifiers else builder.add(value, window), kind)


def _isspacep(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction, "shared", "local", "global", "cta", "shared::cta")
    p, a = operands(emitter, instruction, 2)
    builder = emitter.builder
    address = emitter.read(a, "u64")

    def inside(window: int) -> object:
        offset = builder.sub(address, splat_constant(I64, window))
        return builder.icmp_unsigned("<", offset, splat_constant(I64, WINDOW_BYTES))

    if "local" in instruction.modifiers:
        result = inside(LOCAL_WINDOW)
    elif "global" in instruction.modifiers:
        result = builder.icmp_unsigned(">=", address, splat_constant(I64, LOCAL_WINDOW + WINDOW_BYTES))
    else:
        result = inside(SHARED_WINDOW)
    emitter.write(p, result, "pred")


def _nothing(emitter: Emitter, instruction: Instruction) -> None:
    """Ordering, prefetch and waiting: memory here is always in order, so there is nothing to do."""


def _activemask(emitter: Emitter, instruction: Instruction) -> None:
    from warpsight.emulator.lanes import splat

    allow(emitter, instruction)
    (d,) = operands(emitter, instruction, 1)
    emitter.write(d, splat(emitter.builder, emitter.mask), "b32")


HANDLERS = {
    "mov": _mov,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "activemask": _activemask,
    **dict.fromkeys(("membar", "fence", "prefetch", "prefetchu", "nanosleep", "pmevent", "applypriority", "discard"), _nothing),
}
