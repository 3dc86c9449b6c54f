"""With `check`: which bytes of shared, local and allocated memory have been written. Without it none of this is emitted.

Each byte has a shadow, 0 until it is written and 255 from then on, at a fixed distance from it on the host.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.base.errors import UnsupportedError
from warpsight.emulator.codegen.frame import Frame
from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    PTR,
    Value,
    gather,
    lanes_to_mask,
    mask_to_lanes,
    scatter,
    splat,
    splat_constant,
    vector,
)
from warpsight.emulator.codegen.layout import LOCAL_WINDOW, SHARED_WINDOW, Fault, Slot
from warpsight.isa.ptx.program import Function
from warpsight.isa.ptx.rules import memory_access

_WINDOWS = {"shared": (SHARED_WINDOW, Slot.SHARED_SHADOW), "local": (LOCAL_WINDOW, Slot.LOCAL_SHADOW)}
_WRITERS = frozenset({"st", "atom", "red"})
# Their writes are not seen: what is read after them would be called unwritten.
_UNSEEN = frozenset({"cp", "mbarrier", "multimem", "wgmma", "tcgen05", "suld", "sust", "sured"})


def note_access(
    frame: Frame, space: str, host: Value, addresses: Value, element_bytes: int, count: int, *, reads: bool, writes: bool
) -> None:
    """Stop the warp if a lane reads a byte that was never written; note the bytes that it writes.

    `host` are <32 x i64> host addresses of `count` elements, `addresses` the offsets (shared, local) or device addresses (global).
    Of device memory only what the kernel's own `malloc` gave is watched. Nothing is emitted without `--check`.
    """
    if not frame.checks:
        return
    builder, mask = frame.builder, frame.active_mask
    if space == "global":
        offset = builder.sub(addresses, splat(builder, frame.slot(Slot.HEAP_START)))
        inside = builder.icmp_unsigned("<", offset, splat(builder, frame.slot(Slot.HEAP_SIZE)))
        mask = builder.and_(mask, lanes_to_mask(builder, inside))
        shown, delta = addresses, frame.slot(Slot.HEAP_SHADOW)
    else:
        window, slot = _WINDOWS[space]
        wide = addresses if addresses.type.element == I64 else builder.zext(addresses, vector(I64))
        shown, delta = builder.add(wide, splat_constant(I64, window)), frame.slot(slot)
    lanes = mask_to_lanes(builder, mask)
    kind = ir.IntType(8 * element_bytes)
    shadow = builder.add(host, splat(builder, delta))
    written = splat_constant(kind, (1 << kind.width) - 1)
    missing: Value = I32(0)
    for k in range(count):
        pointers = builder.inttoptr(builder.add(shadow, splat_constant(I64, k * element_bytes)), vector(PTR))
        if reads:
            differ = builder.icmp_signed("!=", gather(builder, pointers, lanes, kind), written)
            missing = builder.or_(missing, lanes_to_mask(builder, differ))
        if writes:
            scatter(builder, written, pointers, lanes)
    if reads:
        frame.stop_lanes(builder.and_(missing, mask), Fault.UNWRITTEN, lambda lane: builder.extract_element(shown, lane))


def require_seen(function: Function, path: str) -> None:
    """Raise UnsupportedError for an instruction whose writes `check` would miss."""
    for instruction in function.instructions:
        access = memory_access(instruction)
        unseen = access is not None and access.access != "load" and instruction.opcode not in _WRITERS
        if unseen or instruction.opcode in _UNSEEN or "async" in instruction.modifiers:
            raise UnsupportedError(
                f'`check` does not see what "{instruction.text}" writes, and would report reads of it',
                place=f"{path}:{instruction.ptx_line}",
                remedy="run it without `check`",
            )
