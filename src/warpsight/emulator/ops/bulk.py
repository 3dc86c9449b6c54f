"""`cp.async.bulk` and `cp.reduce.async.bulk`: a lane copies a run of bytes between device memory and shared memory, at once.

Their shared side lies in the block itself: a cluster is one block, and a multicast reaches it if bit 0 of its mask is set. Lanes
act one after the other, lowest first. An event counts sectors in one byte, so a warp that moves more than 255 of them with one
instruction is refused.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.frame import Frame, HelperFrame, call_helper
from warpsight.emulator.lanes import (
    I1,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    bits_of,
    intrinsic,
    lanes_to_mask,
    load_as,
    reduce_vector,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.layout import Fault, Slot
from warpsight.emulator.ops.access import stop_on
from warpsight.emulator.ops.atomic_values import FLOATS, new_value
from warpsight.emulator.ops.atomics import operation_of, record_sharing
from warpsight.emulator.ops.common import operands
from warpsight.emulator.ops.mbarriers import complete_bytes
from warpsight.emulator.ops.memory import allow_words
from warpsight.emulator.part import PartFrame
from warpsight.emulator.recording import emit_event_byte, internal_function
from warpsight.emulator.runtime import check_lanes, for_each_lane
from warpsight.isa.opcodes import bulk_spaces
from warpsight.isa.program import Instruction

_WORDS = (
    "async", "bulk", "reduce", "global", "shared::cta", "shared::cluster", "mbarrier::complete_tx::bytes", "bulk_group",
    "multicast::cluster", "L2::cache_hint", "noftz",
)  # fmt: skip
_OPERATIONS = ("and", "or", "xor", "add", "inc", "dec", "min", "max")
_MOST_SECTORS = 255
_SECTOR_SHIFT = 5
_GRAIN = 16  # bytes: alignment of both addresses and unit of the size


def emit(emitter: Emitter, instruction: Instruction) -> None:
    """Emit a bulk copy, reduction or prefetch."""
    if "prefetch" in instruction.modifiers:
        _prefetch(emitter, instruction)
        return
    allow_words(emitter, instruction, *_WORDS, *_OPERATIONS)
    words = instruction.modifiers
    target, source = bulk_spaces(instruction)
    signals = "mbarrier::complete_tx::bytes" in words
    if signals is ("bulk_group" in words) or signals is (target == "global"):
        raise emitter.unsupported("such a bulk copy is not modelled")
    reduction = _reduction(emitter, instruction) if "reduce" in words else ("", "")
    multicast = "multicast::cluster" in words
    count = 3 + int(signals) + int(multicast) + int("L2::cache_hint" in words)
    to, origin, size, *rest = operands(emitter, instruction, count)
    if "L2::cache_hint" in words:
        emitter.read(rest.pop(), "b64")
    frame: Frame = emitter
    if multicast:
        reached = emitter.builder.trunc(emitter.read(rest.pop(), "b16"), vector(I1))
        frame = PartFrame(emitter, emitter.builder.and_(lanes_to_mask(emitter.builder, reached), emitter.active_mask))
    sizes = emitter.read(size, "u32")
    places = [_address(emitter, space, operand) for space, operand in ((target, to), (source, origin))]
    shape = _Shape(target, source, *reduction)
    call_helper(frame, shape.name, emitter.kernel.next_site(), [*places, sizes], [], shape.body)
    if signals:
        barrier = emitter.effective_address(rest[0], 32)
        complete_bytes(frame, barrier, emitter.builder.zext(sizes, vector(I64)))


def _prefetch(emitter: Emitter, instruction: Instruction) -> None:
    """A hint; its address need not be mapped."""
    allow_words(emitter, instruction, "async", "bulk", "prefetch", "L2", "global", "L2::cache_hint")
    address, size, *policy = operands(emitter, instruction, 3 if "L2::cache_hint" in instruction.modifiers else 2)
    emitter.effective_address(address)
    emitter.read(size, "u32")
    for operand in policy:
        emitter.read(operand, "b64")


def _reduction(emitter: Emitter, instruction: Instruction) -> tuple[str, str]:
    operation, kind = operation_of(emitter, instruction)
    if operation not in _OPERATIONS or (kind in ("f32", "f64") and operation != "add"):
        raise emitter.unsupported(f"a bulk {operation} of .{kind} is not modelled")
    return operation, kind


def _address(emitter: Emitter, space: str, operand: Any) -> Value:
    """<32 x i64>: a device address, or an offset in shared memory."""
    if space == "global":
        return emitter.effective_address(operand)
    return emitter.builder.zext(emitter.effective_address(operand, 32), vector(I64))


class _Shape:
    """A bulk copy from state space `source` to `target`; with an `operation`, a reduction of elements of PTX type `kind`."""

    def __init__(self, target: str, source: str, operation: str, kind: str) -> None:
        self.target, self.source, self.operation, self.kind = target, source, operation, kind
        self.name = f"bulk_{target}_{source}{operation}{kind}"

    def body(self, helper: HelperFrame) -> list[Value]:
        """Out of line: check, record, move."""
        builder, (to, origin, sizes) = helper.builder, helper.arguments
        rest = builder.and_(sizes, splat_constant(I32, _GRAIN - 1))
        stop_on(helper, _some(builder, rest), sizes, Fault.BULK_SIZE)
        busy = builder.and_(_some(builder, sizes), helper.active_mask)
        for space, place, writes in ((self.target, to, True), (self.source, origin, False)):
            if space == "global":
                check_runs(helper, busy, place, sizes, _GRAIN, writes=writes)
                _record_sectors(helper, busy, place, sizes)
            else:
                _check_shared(helper, busy, place, sizes)
        if self.target == self.source:
            _record_passes(helper, busy, sizes)
        if self.operation:
            record_sharing(PartFrame(helper, busy), to)
        self._move(helper, busy, to, origin, sizes)
        return []

    def _move(self, helper: HelperFrame, busy: Value, to: Value, origin: Value, sizes: Value) -> None:
        builder = helper.builder
        base = {"global": helper.slot(Slot.ARENA_DELTA), "shared": helper.slot(Slot.SHARED_PTR)}
        hosts = [builder.add(v, splat(builder, base[s])) for v, s in ((to, self.target), (origin, self.source))]
        held = [helper.spill(v, f"bulk{k}") for k, v in enumerate((*hosts, builder.zext(sizes, vector(I64))))]
        move = intrinsic(builder.module, "llvm.memmove.p0.p0.i64", ir.VoidType(), [PTR, PTR, I64, I1])

        def body(inner: Builder, lane: Value) -> None:
            offset = inner.shl(inner.zext(lane, I64), I64(3))
            first, second, size = (load_as(inner, at(inner, p, offset), I64, 8) for p in held)
            pointers = [inner.inttoptr(v, PTR) for v in (first, second)]
            if self.operation:
                inner.call(self._reduce_run(inner.module), [*pointers, size])
            else:
                inner.call(move, [*pointers, size, I1(0)])

        for_each_lane(builder, busy, body)

    def _reduce_run(self, module: ir.Module) -> ir.Function:
        """`void run(to, from, bytes)`: one element after the other."""
        function, fresh = internal_function(module, f"{self.name}_run", ir.VoidType(), [PTR, PTR, I64])
        if not fresh:
            return function
        to, origin, size = function.args
        start = function.append_basic_block()
        builder = ir.IRBuilder(start)
        head, inside, after = (function.append_basic_block(n) for n in ("head", "element", "end"))
        builder.branch(head)
        builder.position_at_end(head)
        offset = builder.phi(I64)
        offset.add_incoming(I64(0), start)
        builder.cbranch(builder.icmp_unsigned("<", offset, size), inside, after)
        builder.position_at_end(inside)
        element = ir.IntType(bits_of(self.kind))
        place = at(builder, to, offset)
        old, b = load_as(builder, place, element, 1), load_as(builder, at(builder, origin, offset), element, 1)
        store_as(builder, new_value(builder, self.operation, self.kind, old, b, None, I1(self.kind in FLOATS)), place, 1)
        offset.add_incoming(builder.add(offset, I64(element.width // 8)), builder.block)
        builder.branch(head)
        ir.IRBuilder(after).ret_void()
        return function


def _some(builder: Builder, lanes: Value) -> Value:
    """i32 mask of the lanes (<32 x i32>) that are not zero."""
    return lanes_to_mask(builder, builder.icmp_signed("!=", lanes, splat_constant(I32, 0)))


def _check_shared(helper: HelperFrame, busy: Value, offsets: Value, sizes: Value) -> None:
    """Stop unless each busy lane's run lies, aligned, in shared memory."""
    builder = helper.builder
    end = builder.add(offsets, builder.zext(sizes, vector(I64)))
    beyond = builder.icmp_unsigned(">", end, splat(builder, helper.slot(Slot.SHARED_SIZE)))
    narrow = builder.trunc(offsets, vector(I32))
    part = PartFrame(helper, busy)
    stop_on(part, lanes_to_mask(builder, beyond), narrow, Fault.SHARED_BOUNDS)
    stop_on(part, _some(builder, builder.and_(narrow, splat_constant(I32, _GRAIN - 1))), narrow, Fault.MISALIGNED)


def _record_sectors(helper: HelperFrame, busy: Value, addresses: Value, sizes: Value) -> None:
    """Append the distinct sectors of the lanes' runs in lane order, and their number. Refused when they may be more than 255."""
    builder = helper.builder
    wide = builder.zext(sizes, vector(I64))
    shift = splat_constant(I64, _SECTOR_SHIFT)
    first = builder.lshr(addresses, shift)
    last = builder.lshr(builder.sub(builder.add(addresses, wide), splat_constant(I64, 1)), shift)
    counts = builder.add(builder.sub(last, first), splat_constant(I64, 1))
    lanes = PartFrame(helper, busy).active
    counts = builder.select(lanes, counts, splat_constant(I64, 0))
    total = reduce_vector(builder, "add", counts)
    many = builder.icmp_unsigned(">", total, I64(_MOST_SECTORS))
    helper.stop_if(many, Fault.BULK_EVENT, lambda: (I32(0), total))
    firsts, numbers = helper.spill(first, "first sectors"), helper.spill(counts, "sector counts")
    pointer = at(builder, helper.context, 8 * Slot.SECTOR_CURSOR)
    start = load_as(builder, pointer, I64, 8)

    def body(inner: Builder, lane: Value) -> None:
        offset = inner.shl(inner.zext(lane, I64), I64(3))
        sector, count = (load_as(inner, at(inner, p, offset), I64, 8) for p in (firsts, numbers))
        inner.call(_append_run(inner.module), [helper.context, start, inner.trunc(sector, I32), inner.trunc(count, I32)])

    for_each_lane(builder, busy, body)
    written = builder.sub(load_as(builder, pointer, I64, 8), start)
    emit_event_byte(helper, builder.trunc(builder.lshr(written, I64(2)), I32))


def _append_run(module: ir.Module) -> ir.Function:
    """`void append(context, start, sector, count)`: append consecutive sectors but those that other lanes wrote from `start` on."""
    function, fresh = internal_function(module, "append_run", ir.VoidType(), [PTR, I64, I32, I32])
    if not fresh:
        return function
    context, start, sector, count = function.args
    entry = function.append_basic_block("entry")
    names = ("next", "look", "compare", "new", "on", "end")
    following, look, compare, new, on, end = (function.append_basic_block(n) for n in names)
    builder = ir.IRBuilder(entry)
    pointer = at(builder, context, 8 * Slot.SECTOR_CURSOR)
    before = load_as(builder, pointer, I64, 8)  # what other lanes wrote ends here
    builder.branch(following)
    builder.position_at_end(following)
    k = builder.phi(I32)
    k.add_incoming(I32(0), entry)
    number = builder.add(sector, k)
    inside = builder.append_basic_block("sector")
    builder.cbranch(builder.icmp_unsigned("<", k, count), inside, end)
    builder.position_at_end(inside)
    builder.branch(look)
    builder.position_at_end(look)
    place = builder.phi(I64)
    place.add_incoming(start, inside)
    builder.cbranch(builder.icmp_unsigned("<", place, before), compare, new)
    builder.position_at_end(compare)
    known = load_as(builder, builder.inttoptr(place, PTR), I32, 4)
    place.add_incoming(builder.add(place, I64(4)), compare)
    builder.cbranch(builder.icmp_signed("==", known, number), on, look)
    builder.position_at_end(new)
    cursor = load_as(builder, pointer, PTR, 8)
    store_as(builder, number, cursor, 4)
    store_as(builder, at(builder, cursor, 4), pointer, 8)
    builder.branch(on)
    builder.position_at_end(on)
    k.add_incoming(builder.add(k, I32(1)), on)
    builder.branch(following)
    ir.IRBuilder(end).ret_void()
    return function


def _record_passes(helper: HelperFrame, busy: Value, sizes: Value) -> None:
    """The degree of a copy within shared memory: 128 bytes go through the banks in a pass; at most 255 are counted."""
    builder = helper.builder
    passes = builder.lshr(builder.add(sizes, splat_constant(I32, 127)), splat_constant(I32, 7))
    passes = builder.select(PartFrame(helper, busy).active, passes, splat_constant(I32, 0))
    total = reduce_vector(builder, "add", passes)
    most = I32(255)
    emit_event_byte(helper, builder.select(builder.icmp_unsigned(">", total, most), most, total))


def check_runs(helper: HelperFrame, mask: Value, addresses: Value, sizes: Value, align: int, *, writes: bool) -> None:
    """Stop unless each lane of the mask may access as many bytes (<32 x i32>, not 0) at its device address as it says."""
    builder = helper.builder
    places, held = helper.spill(addresses, "run addresses"), helper.spill(sizes, "run sizes")

    def body(inner: Builder, lane: Value) -> None:
        size = inner.zext(load_as(inner, at(inner, held, inner.mul(inner.zext(lane, I64), I64(4))), I32, 4), I64)
        alone = inner.shl(I32(1), lane)
        arguments = [helper.context, places, alone, size, I64(align), I64(int(writes)), helper.site, helper.pc]
        helper.leave_if(inner.icmp_signed("!=", inner.call(check_lanes(inner.module), arguments), I32(0)))

    for_each_lane(builder, mask, body)
