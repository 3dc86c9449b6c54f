"""`alloca`, `stacksave`, `stackrestore`: a stack in each lane's local memory, behind the declared local variables.

It grows upwards; the saved value is the local address of its top. At most `symbols.STACK_LIMIT` bytes, else the launch faults.
"""

from __future__ import annotations

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I32, I64, Value, lanes_to_mask, load_as, splat_constant, store_as, trailing_zeros, vector
from warpsight.emulator.layout import Fault
from warpsight.emulator.ops.common import allow, operands, the_type
from warpsight.isa.program import Instruction

_DEFAULT_ALIGN = 8


def _top(emitter: Emitter) -> Value:
    """Pointer to the 32 int32 that hold each lane's top of the stack, counted from the stack's start."""
    return emitter.kernel.saved_place(emitter.builder, emitter.kernel.warp_storage("stack"))


def _set_top(emitter: Emitter, top: Value) -> None:
    """Store a new top (<32 x i64> local addresses) for the active lanes, checked against the limit."""
    builder, symbols = emitter.builder, emitter.kernel.symbols
    start = splat_constant(I64, symbols.stack_start)
    high = splat_constant(I64, symbols.local_bytes - symbols.stack_start)
    used = builder.sub(top, start)
    over = builder.and_(lanes_to_mask(builder, builder.icmp_unsigned(">", used, high)), emitter.active_mask)

    def details() -> tuple[Value, Value]:
        lane = trailing_zeros(builder, over)
        return lane, builder.extract_element(used, lane)

    emitter.stop_if(builder.icmp_signed("!=", over, I32(0)), Fault.ALLOCA_OVERFLOW, details)
    place = _top(emitter)
    old = load_as(builder, place, vector(I32), 4)
    store_as(builder, builder.select(emitter.active, builder.trunc(used, vector(I32)), old), place, 4)


def _address_of_top(emitter: Emitter) -> Value:
    builder = emitter.builder
    used = builder.zext(load_as(builder, _top(emitter), vector(I32), 4), vector(I64))
    return builder.add(used, splat_constant(I64, emitter.kernel.symbols.stack_start))


def _alloca(emitter: Emitter, instruction: Instruction) -> None:
    """`alloca.type d, size{, align}`: a local address, aligned to 8 bytes unless said otherwise."""
    allow(emitter, instruction)
    kind = the_type(emitter, instruction)
    d, size, *rest = operands(emitter, instruction, 2, 3)
    align = emitter.immediate_value(rest[0]) if rest else _DEFAULT_ALIGN
    if align < 1 or align & (align - 1):
        raise emitter.unsupported("its alignment is not a power of two")
    builder = emitter.builder
    up = splat_constant(I64, align - 1)
    place = builder.and_(builder.add(_address_of_top(emitter), up), builder.not_(up))
    room = emitter.reinterpret(emitter.read(size, kind), I64)
    # A size near 2^64 must not wrap past the check.
    sane = builder.icmp_unsigned("<", room, splat_constant(I64, 1 << 40))
    _set_top(emitter, builder.select(sane, builder.add(place, room), splat_constant(I64, 1 << 41)))
    emitter.write(d, emitter.reinterpret(place, I32) if kind == "u32" else place, kind)


def _save(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction)
    kind = the_type(emitter, instruction)
    (d,) = operands(emitter, instruction, 1)
    top = _address_of_top(emitter)
    emitter.write(d, emitter.reinterpret(top, I32) if kind == "u32" else top, kind)


def _restore(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction)
    (a,) = operands(emitter, instruction, 1)
    _set_top(emitter, emitter.reinterpret(emitter.read(a, the_type(emitter, instruction)), I64))


HANDLERS = {"alloca": _alloca, "stacksave": _save, "stackrestore": _restore}
