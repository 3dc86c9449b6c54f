"""One warp-wide access to a state space: checked, performed, recorded. Used by loads and stores; atomics share the checks.

A full warp with consecutive addresses takes a vector load or store in line; every other pattern an out-of-line function with masked
gathers or scatters, one per shape of access.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.cluster_addresses import host_of_ranks
from warpsight.emulator.codegen.frame import Frame, HelperFrame, PartFrame, call_helper
from warpsight.emulator.codegen.helpers import check_lanes, for_each_lane, remembered_degree, scattered_sectors
from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    IOTA64,
    PTR,
    Builder,
    Value,
    at,
    gather,
    lanes_to_mask,
    load_as,
    reduce_vector,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
    vector,
    vector_suffix,
)
from warpsight.emulator.codegen.layout import LOCAL_TRACE_BASE, LOCAL_WINDOW, SHARED_WINDOW, WARP, Fault, Slot
from warpsight.emulator.codegen.orders import store_lanes
from warpsight.emulator.codegen.recording import emit_event_byte, emit_sector_run
from warpsight.emulator.codegen.watching import drop_lanes, goes_on, note_access

FULL = I32(0xFFFFFFFF)


@dataclass(frozen=True)
class Access:
    """What each lane moves: `count` elements of LLVM type `element`, `element_bytes` each. `values` for a store, None for a load.

    `record` is False for constant memory, which never appears in a trace's events.
    """

    element: Any
    element_bytes: int
    count: int
    values: tuple[Value, ...] | None = None
    record: bool = True

    @property
    def size(self) -> int:
        """Bytes per lane."""
        return self.element_bytes * self.count

    @property
    def writes(self) -> bool:
        """Is it a store?"""
        return self.values is not None

    def nothing(self) -> list[Value]:
        """What it gives where nothing is moved."""
        return [] if self.writes else [ir.Constant(vector(self.element), None)] * self.count

    def outside(self, frame: Frame, space: str, site: Value, addresses: Value, body: Any) -> list[Value]:
        """Do this access in an out-of-line function of its shape; `body(frame, addresses, access)` emits it there."""
        shape = f"{'store' if self.writes else 'load'}_{self.count}{vector_suffix(vector(self.element))}"
        name = f"{space}_{shape}{'' if self.record else '_quiet'}"

        def inside(helper: HelperFrame) -> list[Value]:
            lane_addresses, *values = helper.arguments
            return list(body(helper, lane_addresses, replace(self, values=tuple(values) if self.writes else None)))

        results = [] if self.writes else [vector(self.element)] * self.count
        return call_helper(frame, name, site, [addresses, *(self.values or ())], results, inside)


# -- global memory -----------------------------------------------------------------------------------------------------------


def global_access(frame: Frame, addresses: Value, access: Access, site: Value) -> list[Value]:
    """Access device memory at <32 x i64> addresses; appends sectors and one event byte. `site` numbers the instruction (i64)."""
    if frame.checks:
        return access.outside(frame, "global", site, addresses, scattered_global)
    if frame.is_compact:
        return access.outside(frame, "any_global", site, addresses, lambda h, a, x: global_access(h, a, x, h.site))
    builder, size = frame.builder, access.size
    if size > 16:
        return access.outside(frame, "global", site, addresses, scattered_global)
    first, straight = _consecutive(frame, addresses, size)
    low, high = _site_bounds(frame, site)
    # By subtraction: the last address could pass 2^64. The room is negative where the allocation is smaller than the access.
    room = builder.sub(builder.sub(high, low), I64(size * WARP))
    straight = builder.and_(straight, builder.icmp_unsigned("<=", builder.sub(first, low), room))
    straight = builder.and_(straight, builder.icmp_signed(">=", room, I64(0)))

    def move() -> list[Value]:
        values = _move_straight(frame, [builder.add(first, frame.slot(Slot.ARENA_DELTA))], access)
        if access.record:
            sector, end = builder.lshr(first, I64(5)), builder.lshr(builder.add(first, I64(size * WARP - 1)), I64(5))
            emit_sector_run(frame, sector, builder.trunc(builder.add(builder.sub(end, sector), I64(1)), I32))
        return values

    return _either(frame, straight, move, lambda: access.outside(frame, "global", site, addresses, scattered_global))


def _consecutive(frame: Frame, addresses: Value, size: int) -> tuple[Value, Value]:
    """The address of lane 0, and whether (i1) all lanes are active and access `size` bytes each, aligned, one after the other."""
    builder, kind = frame.builder, addresses.type.element
    first = builder.extract_element(addresses, I32(0))
    steps = ir.Constant(addresses.type, [size * lane for lane in range(WARP)])
    in_order = lanes_to_mask(builder, builder.icmp_signed("==", addresses, builder.add(splat(builder, first), steps)))
    straight = builder.icmp_signed("==", builder.and_(in_order, frame.active_mask), FULL)
    aligned = builder.icmp_signed("==", builder.and_(first, kind(size - 1)), kind(0))
    return first, builder.and_(straight, aligned)


def _either(frame: Frame, straight: Value, fast: Callable[[], list[Value]], slow: Callable[[], list[Value]]) -> list[Value]:
    """The values of `fast` where the i1 holds, else those of `slow`."""
    builder = frame.builder
    ways = [builder.append_basic_block(name) for name in ("straight", "scattered")]
    done = builder.append_basic_block("accessed")
    builder.cbranch(straight, *ways)
    builder.position_at_end(ways[0])
    fast_values, fast_end = fast(), builder.block
    builder.branch(done)
    builder.position_at_end(ways[1])
    return merge(frame, done, [(fast_end, fast_values)], slow())


def scattered_global(helper: HelperFrame, addresses: Value, access: Access) -> list[Value]:
    """The out-of-line body of an access to device memory."""
    values = move_global(helper, addresses, access)
    if access.record:
        record_sectors(helper, addresses)
    return values


def move_global(helper: HelperFrame, addresses: Value, access: Access) -> list[Value]:
    """`scattered_global` without a record."""
    builder = helper.builder
    places = check_global(helper, addresses, access.size, access.writes, helper.site, replaces=True)
    host = builder.add(places, splat(builder, helper.slot(Slot.ARENA_DELTA)))
    return _move_scattered(helper, "global", host, places, access)


def check_global(
    frame: Frame, addresses: Value, size: int, writes: bool, site: Value, align: int = 0, *, replaces: bool = False
) -> Value:
    """Stop the warp unless each active lane's bytes lie, aligned, in one live allocation (writable for a write).

    `align` is their size unless another is given. Gives the addresses to use: with `replaces`, and where the launch lets accesses
    out of bounds through, lanes out of bounds have the address of zeros of their own. With `replaces` and memcheck, bad lanes are
    noted, and active no longer.
    """
    builder, align = frame.builder, align or size
    low, high = _site_bounds(frame, site)
    room = builder.sub(builder.sub(high, low), I64(size))  # negative while the site has hit nothing yet
    inside = builder.icmp_unsigned("<=", builder.sub(addresses, splat(builder, low)), splat(builder, room))
    good = lanes_to_mask(builder, inside)
    if align > 1:
        aligned = builder.icmp_signed("==", builder.and_(addresses, splat_constant(I64, align - 1)), splat_constant(I64, 0))
        good = builder.and_(good, lanes_to_mask(builder, aligned))
    mask = frame.active_mask
    bad = builder.icmp_signed("!=", builder.and_(mask, builder.not_(good)), I32(0))
    bad = builder.or_(bad, builder.icmp_signed("<", room, I64(0)))
    before, slow, after = builder.block, builder.append_basic_block("check"), builder.append_basic_block("checked")
    builder.cbranch(bad, slow, after).set_weights([1, 1000])
    builder.position_at_end(slow)
    pointer = frame.spill(addresses, "checked")
    outside = frame.slot(Slot.OUTSIDE_PTR) if replaces else I64(0)
    notes = replaces and goes_on(frame)
    failed = builder.call(
        check_lanes(builder.module, notes=notes),
        [frame.context, pointer, mask, I64(size), I64(align), I64(int(writes)), site, frame.pc, outside],
    )
    if notes:
        left = builder.and_(mask, builder.not_(failed))
        builder.branch(after)
        builder.position_at_end(after)
        chosen = builder.phi(I32)
        chosen.add_incoming(mask, before)
        chosen.add_incoming(left, slow)
        frame.keep_lanes(chosen)
        return addresses
    replaced = load_as(builder, pointer, addresses.type, 64) if replaces else addresses
    builder.cbranch(builder.icmp_signed("!=", failed, I32(0)), frame.fault_block, after)
    builder.position_at_end(after)
    if not replaces:
        return addresses
    chosen = builder.phi(addresses.type)
    chosen.add_incoming(addresses, before)
    chosen.add_incoming(replaced, slow)
    return chosen


def _site_bounds(frame: Frame, site: Value) -> tuple[Value, Value]:
    """The allocation that this memory instruction last hit, as [low, high); empty at first."""
    builder = frame.builder
    entry = at(builder, frame.slot_pointer(Slot.SITE_PTR), builder.mul(site, I64(16)))
    return load_as(builder, entry, I64, 8), load_as(builder, at(builder, entry, 8), I64, 8)


def append_sectors(frame: Frame, addresses: Value) -> Value:
    """Append the distinct sectors of the active lanes; their number (i32). An aligned access lies in one sector."""
    builder = frame.builder
    numbers = builder.trunc(builder.lshr(addresses, splat_constant(I64, 5)), vector(I32))
    return builder.call(scattered_sectors(builder.module), [frame.context, numbers, frame.active_mask])


def record_sectors(frame: Frame, addresses: Value) -> None:
    """Append the distinct sectors of the active lanes and their number as an event byte."""
    emit_event_byte(frame, append_sectors(frame, addresses))


# -- shared memory -----------------------------------------------------------------------------------------------------------


def shared_access(frame: Frame, offsets: Value, access: Access, site: Value) -> list[Value]:
    """Access the block's shared memory at <32 x i32> offsets; appends one event byte, the bank-conflict degree."""
    if frame.checks:
        return access.outside(frame, "shared", site, offsets, scattered_shared)
    if frame.is_compact:
        return access.outside(frame, "any_shared", site, offsets, lambda h, a, x: shared_access(h, a, x, h.site))
    builder, size = frame.builder, access.size
    first, straight = _consecutive(frame, offsets, size)
    wide = builder.zext(first, I64)
    fits = builder.icmp_unsigned("<=", builder.add(wide, I64(size * WARP)), frame.slot(Slot.SHARED_SIZE))
    straight = builder.and_(straight, fits)

    def move() -> list[Value]:
        values = _move_straight(frame, [builder.add(frame.slot(Slot.SHARED_PTR), wide)], access)
        emit_event_byte(frame, I32(max(1, size // 4)))
        return values

    return _either(frame, straight, move, lambda: access.outside(frame, "shared", site, offsets, scattered_shared))


def scattered_shared(helper: HelperFrame, offsets: Value, access: Access) -> list[Value]:
    """The out-of-line body of an access to shared memory."""
    values, degree = move_shared(helper, offsets, access)
    emit_event_byte(helper, degree)
    return values


def move_shared(helper: HelperFrame, offsets: Value, access: Access) -> tuple[list[Value], Value]:
    """`scattered_shared` without a record; also the bank-conflict degree (i32)."""
    host = shared_host(helper, offsets, access.size, drops=True)
    values = _move_scattered(helper, "shared", host, offsets, access)
    return values, remembered_degree(helper, offsets, access.size, loads=not access.writes)


def shared_host(frame: Frame, offsets: Value, size: int, align: int = 0, *, drops: bool = False) -> Value:
    """Check an access to shared memory at <32 x i32> offsets, as `check_window` does; <32 x i64> host addresses.

    In a cluster the offsets may be in the memory of another block: see `cluster_addresses.py`.
    """
    builder = frame.builder
    if not frame.clustered:
        check_window(frame, offsets, size, frame.slot(Slot.SHARED_SIZE), Fault.SHARED_BOUNDS, align, drops=drops)
        return builder.add(builder.zext(offsets, vector(I64)), splat(builder, frame.slot(Slot.SHARED_PTR)))
    host, inside, known, ranks = host_of_ranks(frame, offsets)
    _refuse(frame, builder.not_(known), ranks, Fault.CLUSTER_RANK, 0, drops)
    check_window(frame, inside, size, frame.slot(Slot.SHARED_SIZE), Fault.SHARED_BOUNDS, align, drops=drops)
    return host


def _refuse(frame: Frame, bad: Value, offsets: Value, kind: Fault, window: int, drops: bool) -> None:
    """Stop on the lanes of an i32 mask; with `drops` and memcheck they are noted, and active no longer."""
    if drops and goes_on(frame):
        drop_lanes(frame, bad, kind, frame.builder.add(frame.builder.zext(offsets, vector(I64)), splat_constant(I64, window)))
    else:
        stop_on(frame, bad, offsets, kind, window)


def check_window(
    frame: Frame, offsets: Value, size: int, limit: Value, kind: Fault, align: int = 0, *, drops: bool = False
) -> None:
    """Stop the warp unless each active lane's offset (i32 lanes) lies, aligned, within `limit` (i64) bytes. `align` as there.

    With `drops` and memcheck, bad lanes are noted, and active no longer.
    """
    builder, align = frame.builder, align or size
    # Offsets and limits are below 2^32; a space smaller than the access admits nothing.
    room = builder.trunc(builder.sub(limit, I64(size)), I32)
    inside = lanes_to_mask(builder, builder.icmp_unsigned("<=", offsets, splat(builder, room)))
    fits = builder.sext(builder.icmp_unsigned(">=", limit, I64(size)), I32)
    window = {Fault.SHARED_BOUNDS: SHARED_WINDOW, Fault.LOCAL_BOUNDS: LOCAL_WINDOW}.get(kind, 0)
    _refuse(frame, builder.not_(builder.and_(inside, fits)), offsets, kind, 0, drops)
    if align > 1:
        low_bits = builder.and_(offsets, splat_constant(I32, align - 1))
        misaligned = lanes_to_mask(builder, builder.icmp_signed("!=", low_bits, splat_constant(I32, 0)))
        _refuse(frame, misaligned, offsets, Fault.MISALIGNED, window, drops)


def check_runs(helper: HelperFrame, mask: Value, addresses: Value, sizes: Value, align: int, *, writes: bool) -> None:
    """Stop unless each lane of the mask may access as many bytes (<32 x i32>, not 0) at its device address as it says."""
    builder = helper.builder
    places, held = helper.spill(addresses, "run addresses"), helper.spill(sizes, "run sizes")

    def body(inner: Builder, lane: Value) -> None:
        size = inner.zext(load_as(inner, at(inner, held, inner.mul(inner.zext(lane, I64), I64(4))), I32, 4), I64)
        alone = inner.shl(I32(1), lane)
        arguments = [helper.context, places, alone, size, I64(align), I64(int(writes)), helper.site, helper.pc, I64(0)]
        helper.leave_if(inner.icmp_signed("!=", inner.call(check_lanes(inner.module), arguments), I32(0)))

    for_each_lane(builder, mask, body)


def stop_on(frame: Frame, mask: Value, offsets: Value, kind: Fault, window: int = 0) -> None:
    """Stop when an active lane is in the i32 mask, naming the first such lane and its offset, from `window` on."""
    builder = frame.builder

    def address(lane: Value) -> Value:
        return builder.add(builder.zext(builder.extract_element(offsets, lane), I64), I64(window))

    frame.stop_lanes(builder.and_(mask, frame.active_mask), kind, address)


def each_block(frame: Frame, blocks: Value, emit: Callable[[Frame, Value], None]) -> None:
    """Run `emit(frame, rank)` for each block (i32 rank) that active lanes name in `blocks` (<32 x i32> masks), with these lanes.

    Without clusters bit 0 is the block itself. A rank that the cluster does not have is a fault.
    """
    builder = frame.builder
    nothing = ir.Constant(vector(I32), None)
    named = reduce_vector(builder, "or", builder.select(frame.active, blocks, nothing))
    known = builder.shl(I32(1), builder.trunc(frame.slot(Slot.CLUSTER_BLOCKS), I32))
    beyond = builder.and_(named, builder.sub(I32(0), known))

    def details() -> tuple[Value, Value]:
        return I32(0), builder.zext(trailing_zeros(builder, beyond), I64)

    frame.stop_if(builder.icmp_signed("!=", beyond, I32(0)), Fault.CLUSTER_RANK, details)

    def in_block(inner: Builder, rank: Value) -> None:
        bit = splat(inner, inner.shl(I32(1), rank))
        reached = lanes_to_mask(inner, inner.icmp_signed("!=", inner.and_(blocks, bit), nothing))
        emit(PartFrame(frame, inner.and_(reached, frame.active_mask)), rank)

    for_each_lane(builder, named, in_block)


# -- local memory ------------------------------------------------------------------------------------------------------------


def local_access(frame: Frame, offsets: Value, access: Access, site: Value) -> list[Value]:
    """Access the lanes' own local memory at <32 x i32> offsets; appends sectors and one event byte."""
    return access.outside(frame, "local", site, offsets, local_body)


def local_body(helper: HelperFrame, offsets: Value, access: Access) -> list[Value]:
    """The out-of-line body of an access to local memory."""
    values, sectors = move_local(helper, offsets, access)
    emit_event_byte(helper, sectors)
    return values


def move_local(helper: HelperFrame, offsets: Value, access: Access) -> tuple[list[Value], Value]:
    """`private_body`, and appends sectors word by word, as hardware interleaves local memory: lane after lane for each 4-byte word.

    Also the number of sectors (i32).
    """
    builder = helper.builder
    limit = helper.slot(Slot.LOCAL_SIZE)
    values = private_body(helper, offsets, access)
    wide = builder.zext(offsets, vector(I64))
    whole = builder.add(builder.mul(helper.slot(Slot.BLOCK), helper.slot(Slot.WARPS_PER_BLOCK)), helper.slot(Slot.WARP))
    rows = builder.mul(whole, builder.mul(limit, I64(WARP)))
    base = builder.add(splat(builder, builder.add(rows, I64(LOCAL_TRACE_BASE))), builder.shl(IOTA64, splat_constant(I64, 2)))
    total: Value = I32(0)
    for word in range(max(1, access.size // 4)):
        number = builder.add(builder.lshr(wide, splat_constant(I64, 2)), splat_constant(I64, word))
        row = builder.shl(number, splat_constant(I64, 7))
        total = builder.add(total, append_sectors(helper, builder.add(row, base)))
    return values, total


def private_body(helper: HelperFrame, offsets: Value, access: Access) -> list[Value]:
    """Local memory without a record: what passes through frames of the call stack."""
    builder, limit = helper.builder, helper.slot(Slot.LOCAL_SIZE)
    check_window(helper, offsets, access.size, limit, Fault.LOCAL_BOUNDS, drops=True)
    warp = builder.mul(helper.slot(Slot.WARP), I64(WARP))
    lane_base = builder.mul(builder.add(splat(builder, warp), IOTA64), splat(builder, limit))
    addresses = builder.add(builder.add(lane_base, builder.zext(offsets, vector(I64))), splat(builder, helper.slot(Slot.LOCAL_PTR)))
    return _move_scattered(helper, "local", addresses, offsets, access)


# -- moving the data ---------------------------------------------------------------------------------------------------------


def _move_straight(frame: Frame, starts: Sequence[Value], access: Access) -> list[Value]:
    """All lanes, consecutive from the host address `starts[0]` on, or each half of them from one of two: a wide load or store for
    each. Several elements per lane are (de)interleaved.
    """
    builder, count = frame.builder, access.count
    if not frame.moves:
        return access.nothing()
    elements = WARP * count // len(starts)
    pointers = [builder.inttoptr(start, PTR) for start in starts]
    if access.values is None:
        parts = [load_as(builder, pointer, vector(access.element, elements), 1) for pointer in pointers]
        second = parts[1] if len(parts) == 2 else ir.Constant(parts[0].type, ir.Undefined)
        orders = ([count * lane + k for lane in range(WARP)] for k in range(count))
        if parts[0].type == vector(access.element) and count == 1:
            return parts
        return [builder.shuffle_vector(parts[0], second, ir.Constant(vector(I32), order)) for order in orders]
    whole = access.values[0]
    for k in range(1, count):  # concatenate: both sides of a shuffle must be equally long, so stretch the new one first
        stretched = _shuffle(frame, access.values[k], [lane if lane < WARP else 0 for lane in range(WARP * k)])
        lanes = WARP * (k + 1)
        whole = builder.shuffle_vector(whole, stretched, ir.Constant(vector(I32, lanes), list(range(lanes))))
    if count > 1:
        whole = _shuffle(frame, whole, [k * WARP + lane for lane in range(WARP) for k in range(count)])
    for k, pointer in enumerate(pointers):
        part = whole if len(pointers) == 1 else _shuffle(frame, whole, [k * elements + place for place in range(elements)])
        store_as(builder, part, pointer, 1)
    return []


def _shuffle(frame: Frame, value: Value, order: list[int]) -> Value:
    undefined = ir.Constant(value.type, ir.Undefined)
    return frame.builder.shuffle_vector(value, undefined, ir.Constant(vector(I32, len(order)), order))


def _move_scattered(frame: Frame, space: str, host: Value, addresses: Value, access: Access) -> list[Value]:
    """Any lanes at <32 x i64> host addresses, which have been checked."""
    if not frame.moves:
        return access.nothing()
    note_access(frame, space, host, addresses, access.element_bytes, access.count, reads=not access.writes,
                writes=access.writes, values=access.values or ())
    if frame.checks or space == "local":
        return _move_lanes(frame, host, access)
    # Blocks 16 threads wide have two rows in a warp.
    builder, half = frame.builder, WARP // 2
    firsts = _shuffle(frame, host, [0] * half + [half] * half)
    rows = builder.add(firsts, ir.Constant(host.type, [access.size * (lane % half) for lane in range(WARP)]))
    in_rows = builder.and_(lanes_to_mask(builder, builder.icmp_signed("==", host, rows)), frame.active_mask)

    def move() -> list[Value]:
        return _move_straight(frame, [builder.extract_element(host, I32(lane)) for lane in (0, half)], access)

    return _either(frame, builder.icmp_signed("==", in_rows, FULL), move, lambda: _move_lanes(frame, host, access))


def _move_lanes(frame: Frame, host: Value, access: Access) -> list[Value]:
    """Masked gather or scatter."""
    builder = frame.builder
    values = []
    for k in range(access.count):
        shifted = builder.add(host, splat_constant(I64, k * access.element_bytes)) if k else host
        pointers = builder.inttoptr(shifted, vector(PTR))
        if access.values is None:
            values.append(gather(builder, pointers, frame.active, access.element))
        else:
            store_lanes(frame, access.values[k], pointers)
    return values


def in_parts(frame: Frame, held: list[Value], parts: Sequence[tuple[Value, Callable[[], list[Value]]]]) -> list[Value]:
    """For each i32 mask with lanes, run its function with these lanes active. Its vectors replace those of `held` in lanes that
    are then still active, its numbers (i32) are added to those of `held`.
    """
    builder = frame.builder
    for mask, body in parts:
        inside, after, before = builder.append_basic_block("part"), builder.append_basic_block("parted"), builder.block
        builder.cbranch(builder.icmp_signed("!=", mask, I32(0)), inside, after)
        builder.position_at_end(inside)
        with frame.on_a_branch():
            frame.keep_lanes(mask)
            found = body()
            joined = [
                builder.add(old, new) if new.type == I32 else builder.select(frame.active, new, old)
                for old, new in zip(held, found, strict=True)
            ]
        held = merge(frame, after, [(before, held)], joined)
    return held


def merge(frame: Frame, done: Any, others: list[tuple[Any, list[Value]]], values: list[Value]) -> list[Value]:
    """Join the ways of an access in `done`: the current block holds `values`, `others` have already branched there."""
    builder = frame.builder
    here = builder.block
    builder.branch(done)
    builder.position_at_end(done)
    merged = []
    for k, value in enumerate(values):
        phi = builder.phi(value.type)
        phi.add_incoming(value, here)
        for block, alternatives in others:
            phi.add_incoming(alternatives[k], block)
        merged.append(phi)
    return merged
