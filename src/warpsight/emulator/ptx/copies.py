"""Asynchronous copies: `cp.async` between device memory and the shared memory of the block, and bulk copies and reductions.

They are carried out at once, so a group is complete when it is committed, and waiting for groups does nothing. In a trace,
`cp.async` is the access to device memory that it makes; its shared side is checked, but not recorded. The shared side of a bulk
copy may lie in another block of the cluster; a multicast writes at the same place in each block of its mask. Lanes act one after
the other, lowest first.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.base.findings import INITCHECK
from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.access import (
    check_global,
    check_runs,
    check_window,
    each_block,
    record_sectors,
    shared_host,
    stop_on,
)
from warpsight.emulator.codegen.cluster_addresses import at_rank
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, PartFrame, call_helper
from warpsight.emulator.codegen.helpers import for_each_lane
from warpsight.emulator.codegen.lanes import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    bits_of,
    internal_function,
    intrinsic,
    lanes_to_mask,
    load_as,
    mask_to_lanes,
    reduce_vector,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import RANK_SHIFT, Fault, Slot
from warpsight.emulator.codegen.recording import (
    ask_host,
    emit_barrier_record,
    emit_bulk_count,
    emit_event_byte,
)
from warpsight.emulator.codegen.watching import note_access, note_copy
from warpsight.emulator.ptx.atomics import FLOATS, new_value, operation_of, record_sharing
from warpsight.emulator.ptx.common import operands
from warpsight.emulator.ptx.mbarriers import Step, complete_bytes, emit_copy_arrival
from warpsight.emulator.ptx.memory import allow_words, without_policy
from warpsight.emulator.ptx.tensor_copies import tensor_copy
from warpsight.isa.ptx.program import Instruction, Negated, Register
from warpsight.isa.ptx.rules import bulk_spaces, is_async_copy

_BULK_WORDS = (
    "async", "bulk", "reduce", "global", "shared::cta", "shared::cluster", "mbarrier::complete_tx::bytes", "bulk_group",
    "multicast::cluster", "L2::cache_hint", "noftz",
)  # fmt: skip
_OPERATIONS = ("and", "or", "xor", "add", "inc", "dec", "min", "max")
_SECTOR_SHIFT = 5
_GRAIN = 16  # bytes: alignment of both addresses and unit of the size


def emit_bulk(emitter: Emitter, instruction: Instruction) -> None:
    """Emit a bulk copy, reduction or prefetch."""
    if "prefetch" in instruction.modifiers:
        _prefetch(emitter, instruction)
        return
    allow_words(emitter, instruction, *_BULK_WORDS, *_OPERATIONS)
    modifiers = instruction.modifiers
    target, source = bulk_spaces(instruction)
    signals = "mbarrier::complete_tx::bytes" in modifiers
    if signals is ("bulk_group" in modifiers) or signals is (target == "global"):
        raise emitter.unsupported("such a bulk copy is not modelled")
    reduction = _reduction(emitter, instruction) if "reduce" in modifiers else ("", "")
    multicast = "multicast::cluster" in modifiers
    to, origin, size, *rest = without_policy(emitter, instruction, 3 + int(signals) + int(multicast))
    sizes = emitter.read(size, "u32")
    places = [_address(emitter, space, operand) for space, operand in ((target, to), (source, origin))]
    blocks = emitter.builder.zext(emitter.read(rest.pop(), "b16"), vector(I32)) if multicast else None
    barrier = emitter.cluster_address(rest[0]) if signals else None
    BulkShape(target, source, *reduction).call(emitter, emitter.kernel.next_site(), places, sizes, barrier, blocks)


def _prefetch(emitter: Emitter, instruction: Instruction) -> None:
    """A hint; its address need not be mapped."""
    allow_words(emitter, instruction, "async", "bulk", "prefetch", "L2", "global", "L2::cache_hint")
    address, size = without_policy(emitter, instruction, 2)
    emitter.effective_address(address)
    emitter.read(size, "u32")


def _reduction(emitter: Emitter, instruction: Instruction) -> tuple[str, str]:
    operation, kind = operation_of(emitter, instruction)
    if operation not in _OPERATIONS or (kind in ("f32", "f64") and operation != "add"):
        raise emitter.unsupported(f"a bulk {operation} of .{kind} is not modelled")
    return operation, kind


def _address(emitter: Emitter, space: str, operand: Any) -> Value:
    """<32 x i64>: a device address, or an offset in shared memory."""
    if space == "global":
        return emitter.effective_address(operand)
    return emitter.builder.zext(emitter.cluster_address(operand), vector(I64))


class BulkShape:
    """A bulk copy from state space `source` to `target`; with an `operation`, a reduction of elements of PTX type `kind`.

    `step` is what completes bytes on an mbarrier object, as for `complete_bytes`.
    """

    def __init__(self, target: str, source: str, operation: str, kind: str, step: Step | None = None) -> None:
        self.target, self.source, self.operation, self.kind = target, source, operation, kind
        self.name = f"bulk_{target}_{source}{operation}{kind}"
        self.step: dict[str, Any] = {} if step is None else {"function": step}

    def call(
        self, frame: Frame, site: int, places: list[Value], sizes: Value, barrier: Value | None = None, blocks: Value | None = None
    ) -> None:
        """Copy `sizes` (<32 x i32>) bytes between two places (<32 x i64>), and complete them on mbarrier objects at shared offsets.

        `blocks` (<32 x i32>) has the blocks that a multicast reaches.
        """
        objects = [] if barrier is None else [barrier]
        name = f"{self.name}{'_signals' * len(objects)}{'_multicast' * (blocks is not None)}"
        arguments = [*places, sizes, *objects, *([] if blocks is None else [blocks])]
        call_helper(frame, name, site, arguments, [], lambda helper: self._body(helper, len(objects) > 0, blocks is not None))

    def _body(self, helper: HelperFrame, signals: bool, multicast: bool) -> list[Value]:
        """Out of line: check, record, move."""
        builder, (to, origin, sizes, *more) = helper.builder, helper.arguments
        rest = builder.and_(sizes, splat_constant(I32, _GRAIN - 1))
        stop_on(helper, _some(builder, rest), sizes, Fault.BULK_SIZE)
        busy = builder.and_(_some(builder, sizes), helper.active_mask)
        barrier = more[0] if signals else None
        if multicast:  # to no block at all: nothing is read
            busy = builder.and_(busy, _some(builder, more[-1]))
        wide = builder.zext(sizes, vector(I64))
        for space, place, writes in ((self.target, to, True), (self.source, origin, False)):
            part = PartFrame(helper, busy)
            if space == "global":
                check_runs(helper, busy, place, sizes, _GRAIN, writes=writes)
                _record_sectors(helper, busy, place, sizes)
                note_copy(part, space, place, wide, writes=writes, until=watcher.AT_ONCE, reduces=writes and self.operation != "")
            elif not writes:  # machine code does not say which groups its waits are for
                until = watcher.AT_ONCE if signals or self.step else watcher.BY_GROUP
                note_copy(part, space, place, wide, writes=False, until=until)
        if self.target == self.source:
            _record_passes(helper, busy, sizes)
        if self.operation:
            record_sharing(PartFrame(helper, busy), to)
        if signals:
            zero = splat_constant(I64, 0)
            moved, blocks = builder.zext(sizes, vector(I64)), more[-1] if multicast else None
            reached = zero if blocks is None else builder.zext(blocks, vector(I64))
            emit_barrier_record(PartFrame(helper, busy), more[0], zero, builder.sub(zero, moved), reached, blocks)
        if not multicast:
            self._deliver(helper, busy, to, origin, sizes, barrier)
            return []

        def in_block(frame: Frame, rank: Value) -> None:
            there = builder.zext(at_rank(frame, builder.trunc(to, vector(I32)), rank), vector(I64))
            signal = None if barrier is None else at_rank(frame, barrier, rank)
            self._deliver(frame, builder.and_(busy, frame.active_mask), there, origin, sizes, signal)

        each_block(helper, more[-1], in_block)
        return []

    def _deliver(self, frame: Frame, busy: Value, to: Value, origin: Value, sizes: Value, barrier: Value | None) -> None:
        """Move the data to one place, and complete it there."""
        hosts = [_host(frame, busy, space, place, sizes) for space, place in ((self.target, to), (self.source, origin))]
        if barrier is not None:
            part, wide = PartFrame(frame, busy), frame.builder.zext(sizes, vector(I64))
            until = frame.builder.zext(barrier, vector(I64))
            note_copy(part, self.target, to, wide, writes=True, until=until, reduces=self.operation != "")
        self._move(frame, busy, hosts, sizes)
        if barrier is not None:
            complete_bytes(frame, barrier, frame.builder.zext(sizes, vector(I64)), **self.step)

    def _move(self, frame: Frame, busy: Value, hosts: list[Value], sizes: Value) -> None:
        builder = frame.builder
        held = [frame.spill(v, f"bulk{k}") for k, v in enumerate((*hosts, builder.zext(sizes, vector(I64))))]
        move = intrinsic(builder.module, "llvm.memmove.p0.p0.i64", ir.VoidType(), [PTR, PTR, I64, I1])
        shadows = INITCHECK in frame.checks and not self.operation

        def body(inner: Builder, lane: Value) -> None:
            offset = inner.shl(inner.zext(lane, I64), I64(3))
            first, second, size = (load_as(inner, at(inner, p, offset), I64, 8) for p in held)
            pointers = [inner.inttoptr(v, PTR) for v in (first, second)]
            if self.operation:
                inner.call(self._reduce_run(inner.module), [*pointers, size])
            else:
                inner.call(move, [*pointers, size, I1(0)])

            if shadows:  # what was never written stays so where it is copied to
                distance = {"global": frame.slot(Slot.GLOBAL_SHADOW), "shared": frame.slot(Slot.SHARED_SHADOW)}
                places = ((first, self.target), (second, self.source))
                beside = [inner.inttoptr(inner.add(v, distance[space]), PTR) for v, space in places]
                inner.call(move, [*beside, size, I1(0)])

        for_each_lane(builder, busy, body)

    def _reduce_run(self, module: ir.Module) -> ir.Function:
        """`void run(to, from, bytes)`: one element after the other."""
        function, fresh = internal_function(module, f"{self.name}_run", ir.FunctionType(ir.VoidType(), [PTR, PTR, I64]))
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


def _host(frame: Frame, busy: Value, space: str, places: Value, sizes: Value) -> Value:
    """Host addresses (<32 x i64>) of the runs of busy lanes; those in shared memory are checked."""
    builder = frame.builder
    if space == "global":
        return builder.add(places, splat(builder, frame.slot(Slot.ARENA_DELTA)))
    part, offsets = PartFrame(frame, busy), builder.trunc(places, vector(I32))
    host = shared_host(part, offsets, _GRAIN)
    within = builder.and_(places, splat_constant(I64, (1 << RANK_SHIFT) - 1)) if frame.clustered else places
    end = builder.add(within, builder.zext(sizes, vector(I64)))
    beyond = builder.icmp_unsigned(">", end, splat(builder, frame.slot(Slot.SHARED_SIZE)))
    stop_on(part, lanes_to_mask(builder, beyond), offsets, Fault.SHARED_BOUNDS)
    return host


def _record_sectors(helper: HelperFrame, busy: Value, addresses: Value, sizes: Value) -> None:
    """Append the distinct sectors of the lanes' runs in lane order, and their number."""
    builder = helper.builder
    wide = builder.zext(sizes, vector(I64))
    shift, one = splat_constant(I64, _SECTOR_SHIFT), splat_constant(I64, 1)
    first = builder.lshr(addresses, shift)
    last = builder.lshr(builder.sub(builder.add(addresses, wide), one), shift)
    counts = builder.add(builder.sub(last, first), one)
    counts = builder.select(PartFrame(helper, busy).active, counts, splat_constant(I64, 0))
    total = reduce_vector(builder, "add", counts)
    helper.leave_if(builder.icmp_signed("==", ask_host(builder, helper.context, builder.shl(total, I64(2))), I32(0)))
    firsts, numbers = helper.spill(first, "first sectors"), helper.spill(counts, "sector counts")
    pointer = at(builder, helper.context, 8 * Slot.SECTOR_CURSOR)
    start = load_as(builder, pointer, I64, 8)

    def body(inner: Builder, lane: Value) -> None:
        offset = inner.shl(inner.zext(lane, I64), I64(3))
        sector, count = (load_as(inner, at(inner, p, offset), I64, 8) for p in (firsts, numbers))
        inner.call(_append_run(inner.module), [helper.context, start, inner.trunc(sector, I32), inner.trunc(count, I32)])

    for_each_lane(builder, busy, body)
    written = builder.sub(load_as(builder, pointer, I64, 8), start)
    emit_bulk_count(helper, builder.lshr(written, I64(2)))


def _append_run(module: ir.Module) -> ir.Function:
    """`void append(context, start, sector, count)`: append consecutive sectors but those that other lanes wrote from `start` on."""
    function, fresh = internal_function(module, "append_run", ir.FunctionType(ir.VoidType(), [PTR, I64, I32, I32]))
    if not fresh:
        return function
    context, start, sector, count = function.args
    names = ("entry", "next", "look", "compare", "new", "on", "end")
    entry, following, look, compare, new, on, end = (function.append_basic_block(n) for n in names)
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
    total, most = reduce_vector(builder, "add", passes), I32(255)
    emit_event_byte(helper, builder.select(builder.icmp_unsigned(">", total, most), most, total))


# -- `cp`, which chooses among them, and `cp.async`.

_WORDS = ("async", "ca", "cg", "shared", "shared::cta", "global", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B")


def cp(emitter: Emitter, instruction: Instruction) -> None:
    """`cp.async`, `cp.async.bulk`, `cp.reduce.async.bulk`, and the groups and barriers that wait for them."""
    modifiers = instruction.modifiers
    if is_async_copy(instruction):
        _copy_lanes(emitter, instruction)
    elif "mbarrier" in modifiers:
        emit_copy_arrival(emitter, instruction)
    elif {"commit_group", "wait_group", "wait_all"} & {*modifiers}:
        _group(emitter, instruction)
    elif "tensor" in modifiers:
        tensor_copy(emitter, instruction)
    elif "bulk" in modifiers:
        emit_bulk(emitter, instruction)
    else:
        raise emitter.unsupported("it is not modelled")


def _group(emitter: Emitter, instruction: Instruction) -> None:
    allow_words(emitter, instruction, "async", "bulk", "commit_group", "wait_group", "wait_all", "read")
    waits = "wait_group" in instruction.modifiers
    count = operands(emitter, instruction, int(waits))
    if waits and emitter.immediate_value(count[0]) < 0:
        raise emitter.unsupported("it waits for a negative number of groups")


def _copy_lanes(emitter: Emitter, instruction: Instruction) -> None:
    """`cp.async.{ca,cg}.shared.global [dst], [src], bytes{, source bytes | ignore-source}{, policy}`."""
    allow_words(emitter, instruction, *_WORDS)
    modifiers = instruction.modifiers
    hinted = "L2::cache_hint" in modifiers
    to, origin, count, *rest = operands(emitter, instruction, 3 + int(hinted), 5)
    if hinted:
        emitter.read(rest.pop(), "b64")
    size = emitter.immediate_value(count)
    if size not in ((16,) if "cg" in modifiers else (4, 8, 16)) or len(rest) > 1:
        raise emitter.unsupported("its size or its operands are not recognized")
    sizes = _source_bytes(emitter, rest[0], size) if rest else splat_constant(I32, size)
    copy_lanes(emitter, size, emitter.effective_address(origin), emitter.effective_address(to, 32), sizes)


def copy_lanes(emitter: Emitter, size: int, source: Value, target: Value, sizes: Value) -> None:
    """Each lane copies as many bytes (<32 x i32>) as it says from device (i64) to shared memory (i32) and fills up with zeros."""
    number = emitter.kernel.next_site()
    call_helper(emitter, f"copy_{size}", number, [source, target, sizes], [], lambda helper: _copy_body(helper, size))


def _note_copies(helper: HelperFrame, full: Frame, target: Value, places: Value, size: int) -> None:
    """Tell the checks what the lanes of `full` read as a whole, and what all active lanes write."""
    builder, words = helper.builder, max(1, size // 4)
    host = builder.add(places, splat(builder, helper.slot(Slot.ARENA_DELTA)))
    note_access(full, "global", host, places, size // words, words, reads=True, writes=False)
    shared = builder.add(builder.zext(target, vector(I64)), splat(builder, helper.slot(Slot.SHARED_PTR)))
    note_access(helper, "shared", shared, target, size // words, words, reads=False, writes=True)


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
    check_window(helper, target, size, helper.slot(Slot.SHARED_SIZE), Fault.SHARED_BOUNDS, drops=True)
    more = lanes_to_mask(builder, builder.icmp_unsigned(">", sizes, splat_constant(I32, size)))
    stop_on(helper, more, sizes, Fault.BULK_SIZE)
    reads = lanes_to_mask(builder, builder.icmp_signed("!=", sizes, splat_constant(I32, 0)))
    whole = lanes_to_mask(builder, builder.icmp_signed("==", sizes, splat_constant(I32, size)))
    reads, whole = builder.and_(reads, helper.active_mask), builder.and_(whole, helper.active_mask)
    full = PartFrame(helper, whole)
    places = check_global(full, source, size, False, helper.site, replaces=True)
    # Lanes with a wrong source, where they are noted, get zeros.
    sizes = builder.select(mask_to_lanes(builder, builder.xor(whole, full.active_mask)), splat_constant(I32, 0), sizes)
    reads = builder.and_(reads, builder.not_(builder.xor(whole, full.active_mask)))
    whole = full.active_mask
    _note_copies(helper, full, target, places, size)
    check_runs(helper, builder.and_(reads, builder.not_(whole)), source, sizes, size, writes=False)
    record_sectors(PartFrame(helper, reads), source)
    if not helper.moves:
        return []
    held = [helper.spill(v, f"copy{k}") for k, v in enumerate((places, target, sizes))]
    arena, shared = helper.slot(Slot.ARENA_DELTA), helper.slot(Slot.SHARED_PTR)
    element = vector(I8, size)
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
