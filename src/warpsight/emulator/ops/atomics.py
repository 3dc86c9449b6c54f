"""`atom` and `red`: lanes one after the other, lowest first, so that the outcome is the same every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import (
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    bits_of,
    is_float,
    is_signed,
    load_as,
    scalar_type,
    splat,
    store_as,
    vector,
)
from warpsight.emulator.layout import SHARED_WINDOW, Fault, Slot
from warpsight.emulator.ops.access import check_global, check_window, conflict_degree, merge, record_sectors
from warpsight.emulator.ops.common import allow, operands, the_type
from warpsight.emulator.ops.memory import CACHE_WORDS, space_of, window_mask, window_offset
from warpsight.emulator.recording import emit_event_byte
from warpsight.emulator.runtime import for_each_lane, most_sharing
from warpsight.isa.program import Instruction

_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


def _new_value(builder: Builder, operation: str, kind: str, old: Value, b: Value, c: Value | None) -> Value:
    """What one lane writes: PTX's definition of each operation on scalars."""
    signed, floating = is_signed(kind), is_float(kind)
    compare = builder.icmp_signed if signed else builder.icmp_unsigned
    if operation == "add":
        return builder.fadd(old, b) if floating else builder.add(old, b)
    if operation in ("min", "max"):
        return builder.select(compare("<" if operation == "min" else ">", old, b), old, b)
    if operation in ("and", "or", "xor"):
        return {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[operation](old, b)
    if operation == "exch":
        return b
    if operation == "cas":
        return builder.select(builder.icmp_signed("==", old, b), c, old)
    one, zero = old.type(1), old.type(0)
    if operation == "inc":
        return builder.select(builder.icmp_unsigned(">=", old, b), zero, builder.add(old, one))
    wraps = builder.or_(builder.icmp_signed("==", old, zero), builder.icmp_unsigned(">", old, b))
    return builder.select(wraps, b, builder.sub(old, one))


def _atomic(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction, *_OPERATIONS, "global", "shared", "shared::cta", "noftz", *CACHE_WORDS)
    kind = the_type(emitter, instruction)
    operation = next((m for m in instruction.modifiers if m in _OPERATIONS), "")
    returns = instruction.opcode == "atom"
    needed = 1 + (1 if returns else 0) + (2 if operation == "cas" else 1)
    values = operands(emitter, instruction, needed)
    destination = values[0] if returns else None
    address, *sources = values[1:] if returns else values
    narrow = bits_of(kind) < 32 and (kind, operation) not in (("b16", "cas"), ("b16", "exch"), ("f16", "add"))
    if not operation or narrow or (is_float(kind) and operation not in ("add", "exch")):
        raise emitter.unsupported(f"atomic {operation or '?'} of .{kind} is not modelled")
    if operation == "cas" or (operation == "exch" and is_float(kind)):
        kind = f"b{bits_of(kind)}"
    lanes = [emitter.read(s, kind) for s in sources]
    host = _locate(emitter, space_of(instruction), address, bits_of(kind) // 8)
    _run(emitter, operation, kind, host, lanes, destination)


def _locate(emitter: Emitter, space: str, operand: Any, size: int) -> Value:
    """Check and record the access; returns <32 x i64> host addresses."""
    builder = emitter.builder
    if space == "shared":
        offsets = emitter.effective_address(operand, 32)
        return _shared_place(emitter, offsets, size)
    addresses = emitter.effective_address(operand)
    if space == "global":
        host = _device_place(emitter, addresses, size)
        _record_sharing(emitter, addresses)
        return host
    in_shared = window_mask(emitter, addresses, SHARED_WINDOW)
    any_shared = builder.icmp_signed("!=", in_shared, I32(0))
    mixed = builder.and_(any_shared, builder.icmp_signed("!=", in_shared, emitter.active_mask))
    emitter.stop_if(mixed, Fault.MIXED_SPACES, lambda: (I32(0), I64(0)))
    shared, device, done = (builder.append_basic_block(n) for n in ("shared", "device", "placed"))
    builder.cbranch(any_shared, shared, device)
    builder.position_at_end(shared)
    emit_event_byte(emitter, I32(0))
    first = _shared_place(emitter, window_offset(emitter, addresses, SHARED_WINDOW), size)
    first_end = builder.block
    builder.branch(done)
    builder.position_at_end(device)
    second = _device_place(emitter, addresses, size)
    emit_event_byte(emitter, I32(0))
    _record_sharing(emitter, addresses)
    return merge(emitter, done, [(first_end, [first])], [second])[0]


def _device_place(emitter: Emitter, addresses: Value, size: int) -> Value:
    check_global(emitter, addresses, size, True, I64(emitter.kernel.next_site()))
    record_sectors(emitter, addresses)
    return emitter.builder.add(addresses, splat(emitter.builder, emitter.slot(Slot.ARENA_DELTA)))


def _shared_place(emitter: Emitter, offsets: Value, size: int) -> Value:
    builder = emitter.builder
    check_window(emitter, offsets, size, emitter.slot(Slot.SHARED_SIZE), Fault.SHARED_BOUNDS)
    emit_event_byte(emitter, conflict_degree(emitter, offsets, size))
    wide = builder.zext(offsets, vector(I64))
    _record_sharing(emitter, wide)
    return builder.add(wide, splat(builder, emitter.slot(Slot.SHARED_PTR)))


def _record_sharing(emitter: Emitter, addresses: Value) -> None:
    count = emitter.builder.call(most_sharing(emitter.builder.module), [addresses, emitter.active_mask])
    emit_event_byte(emitter, count)


def _run(emitter: Emitter, operation: str, kind: str, host: Value, sources: list[Value], destination: Any) -> None:
    """The read-modify-write of each active lane in turn."""
    builder, element, size = emitter.builder, scalar_type(kind), bits_of(kind) // 8
    places = emitter.spill(host, "places")
    results = emitter.spill(ir.Constant(vector(element), None), "results")
    held = [emitter.spill(value, f"source{k}") for k, value in enumerate(sources)]

    def of_lane(inner: Builder, pointer: Value, lane: Value, what: Any, width: int) -> Value:
        return load_as(inner, at(inner, pointer, inner.mul(inner.zext(lane, I64), I64(width))), what, width)

    def body(inner: Builder, lane: Value) -> None:
        pointer = inner.inttoptr(of_lane(inner, places, lane, I64, 8), PTR)
        old = load_as(inner, pointer, element, 1)
        arguments = [of_lane(inner, p, lane, element, size) for p in held]
        new = _new_value(inner, operation, kind, old, arguments[0], arguments[1] if len(arguments) > 1 else None)
        store_as(inner, new, pointer, 1)
        store_as(inner, old, at(inner, results, inner.mul(inner.zext(lane, I64), I64(size))), size)

    for_each_lane(builder, emitter.active_mask, body)
    if destination is not None:
        emitter.write(destination, load_as(builder, results, vector(element), 64), kind)


HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {"atom": _atomic, "red": _atomic}
