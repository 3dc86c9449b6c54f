"""`cp`: asynchronous copies between device memory and the block's shared memory. They are carried out at once.

So a group is complete when it is committed, and waiting for groups does nothing. In a trace a copy is the access to device memory
that it makes; its shared side is checked, but not recorded.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.frame import HelperFrame, call_helper
from warpsight.emulator.lanes import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    intrinsic,
    lanes_to_mask,
    load_as,
    splat_constant,
    store_as,
)
from warpsight.emulator.layout import Fault, Slot
from warpsight.emulator.ops import bulk
from warpsight.emulator.ops.access import check_global, check_window, record_sectors, stop_on
from warpsight.emulator.ops.common import operands
from warpsight.emulator.ops.mbarriers import emit_copy_arrival
from warpsight.emulator.ops.memory import allow_words
from warpsight.emulator.part import PartFrame
from warpsight.emulator.runtime import for_each_lane
from warpsight.isa.opcodes import is_async_copy
from warpsight.isa.program import Instruction, Negated, Register

_WORDS = ("async", "ca", "cg", "shared", "shared::cta", "global", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B")


def _copy(emitter: Emitter, instruction: Instruction) -> None:
    words = instruction.modifiers
    if is_async_copy(instruction):
        _copy_lanes(emitter, instruction)
    elif "mbarrier" in words:
        emit_copy_arrival(emitter, instruction)
    elif {"commit_group", "wait_group", "wait_all"} & {*words}:
        _group(emitter, instruction)
    elif "bulk" in words:
        bulk.emit(emitter, instruction)
    else:
        raise emitter.unsupported("it is not modelled")


def _group(emitter: Emitter, instruction: Instruction) -> None:
    allow_words(emitter, instruction, "async", "bulk", "commit_group", "wait_group", "wait_all", "read")
    waits = "wait_group" in instruction.modifiers
    found = operands(emitter, instruction, int(waits)) if waits or instruction.operands else ()
    if waits and emitter.immediate_value(found[0]) < 0:
        raise emitter.unsupported("it waits for a negative number of groups")


def _copy_lanes(emitter: Emitter, instruction: Instruction) -> None:
    """`cp.async.{ca,cg}.shared.global [dst], [src], bytes{, source bytes | ignore-source}{, policy}`."""
    allow_words(emitter, instruction, *_WORDS)
    words = instruction.modifiers
    given = list(operands(emitter, instruction, 3, 5))
    if "L2::cache_hint" in words:
        emitter.read(given.pop(), "b64")
    size = emitter.immediate_value(given[2])
    if size not in ((16,) if "cg" in words else (4, 8, 16)) or len(given) > 4:
        raise emitter.unsupported("its size or its operands are not understood")
    sizes = _source_bytes(emitter, given[3], size) if len(given) == 4 else splat_constant(I32, size)
    source, target = emitter.effective_address(given[1]), emitter.effective_address(given[0], 32)
    number = emitter.kernel.next_site()
    call_helper(emitter, f"copy_{size}", number, [source, target, sizes], [], lambda helper: _copy_body(helper, size))


def _source_bytes(emitter: Emitter, operand: Any, size: int) -> Value:
    """How many bytes each lane reads: a number, or none where a predicate says to ignore the source."""
    registers = emitter.kernel.function.registers
    if isinstance(operand, Negated) or (isinstance(operand, Register) and registers.get(operand.name) == "pred"):
        ignored = emitter.read(operand, "pred")
        return emitter.builder.select(ignored, splat_constant(I32, 0), splat_constant(I32, size))
    return emitter.read(operand, "u32")


def _copy_body(helper: HelperFrame, size: int) -> list[Value]:
    """Each lane: check both sides, fill with zeros what is not read."""
    builder, (source, target, sizes) = helper.builder, helper.arguments
    check_window(helper, target, size, helper.slot(Slot.SHARED_SIZE), Fault.SHARED_BOUNDS)
    more = lanes_to_mask(builder, builder.icmp_unsigned(">", sizes, splat_constant(I32, size)))
    stop_on(helper, more, sizes, Fault.BULK_SIZE)
    reads = lanes_to_mask(builder, builder.icmp_signed("!=", sizes, splat_constant(I32, 0)))
    whole = lanes_to_mask(builder, builder.icmp_signed("==", sizes, splat_constant(I32, size)))
    reads, whole = builder.and_(reads, helper.active_mask), builder.and_(whole, helper.active_mask)
    check_global(PartFrame(helper, whole), source, size, False, helper.site)
    bulk.check_runs(helper, builder.and_(reads, builder.not_(whole)), source, sizes, size, writes=False)
    record_sectors(PartFrame(helper, reads), source)
    held = [helper.spill(v, f"copy{k}") for k, v in enumerate((source, target, sizes))]
    arena, shared = helper.slot(Slot.ARENA_DELTA), helper.slot(Slot.SHARED_PTR)
    element = ir.VectorType(I8, size)
    memcpy = intrinsic(builder.module, "llvm.memcpy.p0.p0.i64", ir.VoidType(), [PTR, PTR, I64, I1])

    def body(inner: Builder, lane: Value) -> None:
        wide = inner.zext(lane, I64)
        address = load_as(inner, at(inner, held[0], inner.mul(wide, I64(8))), I64, 8)
        offset, count = (load_as(inner, at(inner, p, inner.mul(wide, I64(4))), I32, 4) for p in held[1:])
        pointer = inner.inttoptr(inner.add(shared, inner.zext(offset, I64)), PTR)
        origin = inner.inttoptr(inner.add(arena, address), PTR)
        with inner.if_else(inner.icmp_signed("==", count, I32(size)), likely=True) as (all_of_it, part):
            with all_of_it:
                store_as(inner, load_as(inner, origin, element, 1), pointer, 1)
            with part:
                store_as(inner, ir.Constant(element, None), pointer, 1)
                inner.call(memcpy, [pointer, origin, inner.zext(count, I64), I1(0)])

    for_each_lane(builder, helper.active_mask, body)
    return []


HANDLERS = {"cp": _copy}
