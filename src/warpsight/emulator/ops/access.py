"""One warp-wide access to a state space: checked, performed, recorded. Used by loads and stores; atomics share the checks.

A full warp with consecutive addresses takes a vector load or store; every other pattern a masked gather or scatter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import (
    I32,
    I64,
    IOTA64,
    PTR,
    Value,
    at,
    gather,
    lanes_to_mask,
    load_as,
    scatter,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
    vector,
)
from warpsight.emulator.layout import LOCAL_TRACE_BASE, WARP, Fault, Slot
from warpsight.emulator.recording import emit_event_byte, emit_sector_run
from warpsight.emulator.runtime import bank_degree, check_lanes, scattered_sectors

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


def check_global(emitter: Emitter, addresses: Value, size: int, writes: bool, site: int) -> None:
    """Stop the warp unless each active lane's bytes lie, aligned, in one live allocation (writable for a write)."""
    builder = emitter.builder
    low, high = _site_bounds(emitter, site)
    room = builder.sub(builder.sub(high, low), I64(size))  # the cached allocation is empty at first: -size, so nothing passes signed
    offset = builder.sub(addresses, splat(builder, low))
    inside = builder.icmp_unsigned("<=", offset, splat(builder, room))
    fits = builder.icmp_signed(">=", room, I64(0))
    good = lanes_to_mask(builder, inside)
    if size > 1:
        aligned = builder.icmp_signed("==", builder.and_(addresses, splat_constant(I64, size - 1)), splat_constant(I64, 0))
        good = builder.and_(good, lanes_to_mask(builder, aligned))
    mask = emitter.active_mask
    bad = builder.icmp_signed("!=", builder.and_(mask, builder.not_(good)), I32(0))
    bad = builder.or_(bad, builder.not_(fits))
    slow, after = builder.append_basic_block("check"), builder.append_basic_block("checked")
    builder.cbranch(bad, slow, after).set_weights([1, 1000])
    builder.position_at_end(slow)
    assert emitter.instruction is not None
    pointer = emitter.spill(addresses)
    failed = builder.call(
        check_lanes(builder.module),
        [emitter.kernel.context, pointer, mask, I64(size), I64(size), I64(int(writes)), I64(site), I64(emitter.instruction.index)],
    )
    builder.cbranch(builder.icmp_signed("!=", failed, I32(0)), emitter.kernel.fault_block, after)
    builder.position_at_end(after)


def _site_bounds(emitter: Emitter, site: int) -> tuple[Value, Value]:
    builder = emitter.builder
    entry = at(builder, emitter.slot_pointer(Slot.SITE_PTR), 16 * site)
    return load_as(builder, entry, I64, 8), load_as(builder, at(builder, entry, 8), I64, 8)


def check_window(emitter: Emitter, offsets: Value, size: int, limit: Value, kind: Fault) -> None:
    """Stop the warp unless each active lane's offset (i32 lanes) lies aligned within `limit` (i64) bytes."""
    builder = emitter.builder
    # Offsets and limits are below 2^32; a space smaller than the access admits nothing.
    room = builder.trunc(builder.sub(limit, I64(size)), I32)
    inside = lanes_to_mask(builder, builder.icmp_unsigned("<=", offsets, splat(builder, room)))
    fits = builder.sext(builder.icmp_unsigned(">=", limit, I64(size)), I32)
    outside = builder.and_(emitter.active_mask, builder.not_(builder.and_(inside, fits)))
    _stop_on(emitter, outside, offsets, kind)
    if size > 1:
        low_bits = builder.and_(offsets, splat_constant(I32, size - 1))
        crooked = lanes_to_mask(builder, builder.icmp_signed("!=", low_bits, splat_constant(I32, 0)))
        _stop_on(emitter, builder.and_(crooked, emitter.active_mask), offsets, Fault.MISALIGNED)


def _stop_on(emitter: Emitter, mask: Value, addresses: Value, kind: Fault) -> None:
    builder = emitter.builder
    lane = builder.and_(trailing_zeros(builder, mask), I32(31))
    # The address is only wanted when the fault happens; extracting by a variable lane goes through memory, so do it there.
    failing, following = builder.append_basic_block("bad"), builder.append_basic_block("good")
    builder.cbranch(builder.icmp_signed("!=", mask, I32(0)), failing, following).set_weights([1, 1000])
    builder.position_at_end(failing)
    address = builder.zext(builder.extract_element(addresses, lane), I64)
    emitter.stop_if_with(ir.Constant(ir.IntType(1), 1), kind, lane, address)
    builder.branch(following)
    builder.position_at_end(following)


def global_access(emitter: Emitter, addresses: Value, access: Access) -> list[Value]:
    """Access device memory at <32 x i64> addresses; appends sectors and one event byte."""
    builder = emitter.builder
    site = emitter.kernel.next_site()
    size = access.size
    first = builder.extract_element(addresses, I32(0))
    expected = builder.add(splat(builder, first), splat_constant_iota(size))
    in_order = lanes_to_mask(builder, builder.icmp_signed("==", addresses, expected))
    low, high = _site_bounds(emitter, site)
    fits = builder.and_(
        builder.icmp_unsigned(">=", first, low), builder.icmp_unsigned("<=", builder.add(first, I64(size * WARP)), high)
    )
    straight = builder.and_(builder.icmp_signed("==", builder.and_(in_order, emitter.active_mask), FULL), fits)
    if size > 1:
        straight = builder.and_(straight, builder.icmp_signed("==", builder.and_(first, I64(size - 1)), I64(0)))
    fast, slow, done = (builder.append_basic_block(n) for n in ("straight", "scattered", "accessed"))
    builder.cbranch(straight, fast, slow)
    builder.position_at_end(fast)
    delta = emitter.slot(Slot.ARENA_DELTA)
    fast_values = _straight(emitter, builder.inttoptr(builder.add(first, delta), PTR), access)
    if access.record:
        sector = builder.lshr(first, I64(5))
        last = builder.lshr(builder.add(first, I64(size * WARP - 1)), I64(5))
        emit_sector_run(emitter, sector, builder.trunc(builder.add(builder.sub(last, sector), I64(1)), I32))
    fast_end = builder.block
    builder.branch(done)
    builder.position_at_end(slow)
    check_global(emitter, addresses, size, access.writes, site)
    slow_values = _scattered(emitter, builder.add(addresses, splat(builder, emitter.slot(Slot.ARENA_DELTA))), access)
    if access.record:
        record_sectors(emitter, addresses)
    return _merge(emitter, done, [(fast_end, fast_values)], slow_values)


def splat_constant_iota(step: int) -> Value:
    """0, step, 2 step, ... as <32 x i64>."""
    return ir.Constant(vector(I64), [step * k for k in range(WARP)])


def record_sectors(emitter: Emitter, addresses: Value) -> None:
    """Append the distinct sectors of the active lanes and their number as an event byte. An aligned access lies in one sector."""
    builder = emitter.builder
    numbers = builder.trunc(builder.lshr(addresses, splat_constant(I64, 5)), vector(I32))
    count = builder.call(scattered_sectors(builder.module), [emitter.kernel.context, numbers, emitter.active_mask])
    emit_event_byte(emitter, count)


def shared_access(emitter: Emitter, offsets: Value, access: Access) -> list[Value]:
    """Access the block's shared memory at <32 x i32> offsets; appends one event byte, the bank-conflict degree."""
    builder = emitter.builder
    check_window(emitter, offsets, access.size, emitter.slot(Slot.SHARED_SIZE), Fault.SHARED_BOUNDS)
    base = emitter.slot(Slot.SHARED_PTR)
    first = builder.extract_element(offsets, I32(0))
    step = ir.Constant(vector(I32), [access.size * k for k in range(WARP)])
    in_order = lanes_to_mask(builder, builder.icmp_signed("==", offsets, builder.add(splat(builder, first), step)))
    straight = builder.icmp_signed("==", builder.and_(in_order, emitter.active_mask), FULL)
    fast, slow, done = (builder.append_basic_block(n) for n in ("straight", "scattered", "accessed"))
    builder.cbranch(straight, fast, slow)
    builder.position_at_end(fast)
    fast_values = _straight(emitter, builder.inttoptr(builder.add(base, builder.zext(first, I64)), PTR), access)
    emit_event_byte(emitter, I32(max(1, access.size // 4)))
    fast_end = builder.block
    builder.branch(done)
    builder.position_at_end(slow)
    slow_values = _scattered(emitter, builder.add(builder.zext(offsets, vector(I64)), splat(builder, base)), access)
    emit_event_byte(emitter, conflict_degree(emitter, offsets, access.size))
    return _merge(emitter, done, [(fast_end, fast_values)], slow_values)


def conflict_degree(emitter: Emitter, offsets: Value, size: int) -> Value:
    """Passes through the banks: 8-byte accesses go by half-warps, 16-byte ones by quarters (i32)."""
    builder = emitter.builder
    words = builder.lshr(offsets, splat_constant(I32, 2))
    function, mask = bank_degree(builder.module), emitter.active_mask
    parts = max(1, size // 4)
    share = WARP // parts
    total: Value = I32(0)
    for part in range(parts):
        window = ((1 << share) - 1) << (part * share)
        total = builder.add(total, builder.call(function, [words, builder.and_(mask, I32(window))]))
    return total


def local_access(emitter: Emitter, offsets: Value, access: Access) -> list[Value]:
    """Access the lanes' own local memory at <32 x i32> offsets. Recorded word by word as hardware interleaves it."""
    builder = emitter.builder
    limit = emitter.slot(Slot.LOCAL_SIZE)
    check_window(emitter, offsets, access.size, limit, Fault.LOCAL_BOUNDS)
    wide = builder.zext(offsets, vector(I64))
    warp = builder.mul(emitter.slot(Slot.WARP), I64(WARP))
    lane_base = builder.mul(builder.add(splat(builder, warp), IOTA64), splat(builder, limit))
    addresses = builder.add(builder.add(lane_base, wide), splat(builder, emitter.slot(Slot.LOCAL_PTR)))
    values = _scattered(emitter, addresses, access)
    if not access.record:
        return values
    whole = builder.add(builder.mul(emitter.slot(Slot.BLOCK), emitter.slot(Slot.WARPS_PER_BLOCK)), emitter.slot(Slot.WARP))
    rows = builder.mul(whole, builder.mul(limit, I64(WARP)))
    total: Value = I32(0)
    for word in range(max(1, access.size // 4)):
        row = builder.shl(builder.add(builder.lshr(wide, splat_constant(I64, 2)), splat_constant(I64, word)), splat_constant(I64, 7))
        place = builder.add(row, builder.add(splat(builder, builder.add(rows, I64(LOCAL_TRACE_BASE))), splat_constant_iota(4)))
        numbers = builder.trunc(builder.lshr(place, splat_constant(I64, 5)), vector(I32))
        count = builder.call(scattered_sectors(builder.module), [emitter.kernel.context, numbers, emitter.active_mask])
        total = builder.add(total, count)
    emit_event_byte(emitter, total)
    return values


def _straight(emitter: Emitter, pointer: Value, access: Access) -> list[Value]:
    """All lanes, consecutive: one wide load or store; several elements per lane are (de)interleaved."""
    builder, count = emitter.builder, access.count
    total = ir.VectorType(access.element, WARP * count)
    if access.values is None:
        whole = load_as(builder, pointer, total, 1)
        if count == 1:
            return [whole]
        undefined = ir.Constant(total, ir.Undefined)
        return [
            builder.shuffle_vector(whole, undefined, ir.Constant(vector(I32), [count * lane + k for lane in range(WARP)]))
            for k in range(count)
        ]
    if count == 1:
        store_as(builder, access.values[0], pointer, 1)
        return []
    whole = access.values[0]
    for k in range(1, count):  # concatenate, then interleave
        have = ir.VectorType(access.element, WARP * k)
        extended = builder.shuffle_vector(
            access.values[k],
            ir.Constant(vector(access.element), ir.Undefined),
            ir.Constant(ir.VectorType(I32, WARP * k), [j if j < WARP else 0 for j in range(WARP * k)]),
        )
        assert whole.type == have
        order = [j if j < WARP * k else WARP * k + (j - WARP * k) for j in range(WARP * (k + 1))]
        whole = builder.shuffle_vector(whole, extended, ir.Constant(ir.VectorType(I32, WARP * (k + 1)), order))
    order = [k * WARP + lane for lane in range(WARP) for k in range(count)]
    whole = builder.shuffle_vector(whole, ir.Constant(total, ir.Undefined), ir.Constant(ir.VectorType(I32, WARP * count), order))
    store_as(builder, whole, pointer, 1)
    return []


def _scattered(emitter: Emitter, host: Value, access: Access) -> list[Value]:
    """Masked gather or scatter at <32 x i64> host addresses."""
    builder = emitter.builder
    values = []
    for k in range(access.count):
        shifted = builder.add(host, splat_constant(I64, k * access.element_bytes)) if k else host
        pointers = builder.inttoptr(shifted, vector(PTR))
        if access.values is None:
            values.append(gather(builder, pointers, emitter.active, access.element))
        else:
            scatter(builder, access.values[k], pointers, emitter.active)
    return values


def _merge(emitter: Emitter, done: Any, others: list[tuple[Any, list[Value]]], values: list[Value]) -> list[Value]:
    """Join the paths of an access in `done`; the current block holds `values`."""
    builder = emitter.builder
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


