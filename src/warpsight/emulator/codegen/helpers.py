"""Helper functions in LLVM code, made once per module: address checks, sectors of scattered lanes, bank conflicts, sharing.

They are the slow paths: each loops over lanes. All take the context first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    compress_store,
    gather,
    lanes_to_mask,
    load_as,
    mask_to_lanes,
    population,
    scatter,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
    vector,
)
from warpsight.emulator.codegen.layout import WARP, Fault, Slot
from warpsight.emulator.codegen.recording import internal_function


def for_each_lane(builder: Builder, mask: Value, body: Callable[[Builder, Value], None]) -> None:
    """Run `body(builder, lane)` for each set bit of an i32 mask, lowest first. Continues in a new LLVM block."""
    before = builder.block
    head, inner, after = (builder.append_basic_block(n) for n in ("lane_head", "lane", "lane_end"))
    builder.branch(head)
    builder.position_at_end(head)
    left = builder.phi(I32)
    left.add_incoming(mask, before)
    builder.cbranch(builder.icmp_signed("==", left, I32(0)), after, inner)
    builder.position_at_end(inner)
    lane = trailing_zeros(builder, left)
    body(builder, lane)
    left.add_incoming(builder.and_(left, builder.sub(left, I32(1))), builder.block)
    builder.branch(head)
    builder.position_at_end(after)


def until_no_lane_is_left(builder: Builder, mask: Value, serve: Callable[[Builder, Value, Value], tuple[Value, Value]]) -> Value:
    """Rounds of `serve(builder, lanes left, result so far)`, which gives the lanes served and the new result (i32, 0 at first)."""
    before = builder.block
    head, body, after = (builder.append_basic_block(n) for n in ("head", "round", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    left, result = builder.phi(I32), builder.phi(I32)
    left.add_incoming(mask, before)
    result.add_incoming(I32(0), before)
    builder.cbranch(builder.icmp_signed("==", left, I32(0)), after, body)
    builder.position_at_end(body)
    served, following = serve(builder, left, result)
    left.add_incoming(builder.and_(left, builder.not_(served)), builder.block)
    result.add_incoming(following, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return result


def _element(builder: Builder, pointer: Value, lane: Value, kind: Any, size: int) -> Value:
    return load_as(builder, at(builder, pointer, builder.mul(builder.zext(lane, I64), I64(size))), kind, size)


def _record_fault(builder: Builder, context: Value, kind: Value, pc: Value, lane: Value, address: Value) -> None:
    for slot, value in ((Slot.FAULT_KIND, kind), (Slot.FAULT_PC, pc), (Slot.FAULT_LANE, lane), (Slot.FAULT_ADDRESS, address)):
        wide = value if value.type == I64 else builder.zext(value, I64)
        store_as(builder, wide, at(builder, context, 8 * slot), 8)


def check_lanes(module: ir.Module) -> ir.Function:
    """`i32 check(context, addresses, mask, size, align, write, site, pc)`: 0, or 1 with the fault recorded.

    Each active lane's [address, address + size) must lie in one live allocation, aligned, and writable for a write. The
    allocation of the last lane is remembered for the site. `addresses` points to 32 i64 device addresses.
    """
    function, fresh = internal_function(module, "check_lanes", I32, [PTR, PTR, I32, I64, I64, I64, I64, I64])
    if not fresh:
        return function
    context, addresses, mask, size, align, write, site, pc = function.args
    builder = ir.IRBuilder(function.append_basic_block())

    def fail(inner: Builder, kind: int, lane: Value, address: Value) -> None:
        _record_fault(inner, context, I64(kind), pc, lane, address)
        inner.ret(I32(1))

    def lane_body(inner: Builder, lane: Value) -> None:
        address = _element(inner, addresses, lane, I64, 8)
        bad, fine = inner.append_basic_block("misaligned"), inner.append_basic_block("aligned")
        inner.cbranch(inner.icmp_signed("!=", inner.and_(address, inner.sub(align, I64(1))), I64(0)), bad, fine)
        inner.position_at_end(bad)
        fail(inner, Fault.MISALIGNED, lane, address)
        inner.position_at_end(fine)
        table = load_as(inner, at(inner, context, 8 * Slot.ALLOC_PTR), PTR, 8)
        count = load_as(inner, at(inner, context, 8 * Slot.ALLOC_COUNT), I64, 8)
        _search(inner, table, count, address, size, write, lane, fail, context, site)

    for_each_lane(builder, mask, lane_body)
    builder.ret(I32(0))
    return function


def _search(
    builder: Builder, table: Value, count: Value, address: Value, size: Value, write: Value, lane: Value, fail: Any, context: Value,
    site: Value,
) -> None:
    """Binary search for the last allocation that starts at or below `address`; then check its end and its permission."""
    before = builder.block
    head, body, found = (builder.append_basic_block(n) for n in ("search", "halve", "found"))
    builder.branch(head)
    builder.position_at_end(head)
    low, high = builder.phi(I64), builder.phi(I64)
    low.add_incoming(I64(0), before)
    high.add_incoming(count, before)
    builder.cbranch(builder.icmp_unsigned("<", low, high), body, found)
    builder.position_at_end(body)
    middle = builder.lshr(builder.add(low, high), I64(1))
    start = load_as(builder, at(builder, table, builder.mul(middle, I64(24))), I64, 8)
    below = builder.icmp_unsigned("<=", start, address)
    low.add_incoming(builder.select(below, builder.add(middle, I64(1)), low), body)
    high.add_incoming(builder.select(below, high, middle), body)
    builder.branch(head)
    builder.position_at_end(found)
    outside, some = builder.append_basic_block("outside"), builder.append_basic_block("some")
    builder.cbranch(builder.icmp_unsigned("==", low, I64(0)), outside, some)
    builder.position_at_end(some)
    row = at(builder, table, builder.mul(builder.sub(low, I64(1)), I64(24)))
    start, end, writable = (load_as(builder, at(builder, row, 8 * k), I64, 8) for k in range(3))
    inside, readonly, good = (builder.append_basic_block(n) for n in ("inside", "readonly", "good"))
    # By subtraction: address plus size could pass 2^64.
    offset, length = builder.sub(address, start), builder.sub(end, start)
    fits = builder.and_(builder.icmp_unsigned("<", offset, length), builder.icmp_unsigned(">=", builder.sub(length, offset), size))
    builder.cbranch(fits, inside, outside)
    builder.position_at_end(inside)
    refused = builder.and_(builder.icmp_signed("!=", write, I64(0)), builder.icmp_signed("==", writable, I64(0)))
    builder.cbranch(refused, readonly, good)
    builder.position_at_end(outside)
    fail(builder, Fault.OUT_OF_BOUNDS, lane, address)
    builder.position_at_end(readonly)
    fail(builder, Fault.READ_ONLY, lane, address)
    builder.position_at_end(good)
    sites = load_as(builder, at(builder, context, 8 * Slot.SITE_PTR), PTR, 8)
    entry = at(builder, sites, builder.mul(site, I64(16)))
    store_as(builder, start, entry, 8)
    store_as(builder, end, at(builder, entry, 8), 8)


def scattered_sectors(module: ir.Module) -> ir.Function:
    """`i32 sectors(context, numbers, mask)`: append the distinct sectors of the active lanes, in lane order; returns how many.

    A lane is a duplicate when an active lane before it has the same sector: each pair of lanes is compared once, 32 at a time.
    """
    lanes32 = vector(I32)
    function, fresh = internal_function(module, "scattered_sectors", I32, [PTR, lanes32, I32])
    if not fresh:
        return function
    context, numbers, mask = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    pointer = at(builder, context, 8 * Slot.SECTOR_CURSOR)
    cursor = load_as(builder, pointer, PTR, 8)
    first = builder.extract_element(numbers, builder.and_(trailing_zeros(builder, mask), I32(31)))
    alike = lanes_to_mask(builder, builder.icmp_signed("==", numbers, splat(builder, first)))
    differ = builder.icmp_signed("!=", builder.and_(mask, builder.not_(alike)), I32(0))
    several, one = builder.append_basic_block("several"), builder.append_basic_block("one")
    builder.cbranch(differ, several, one)
    builder.position_at_end(one)  # one sector, or none when no lane is active
    some = builder.zext(builder.icmp_signed("!=", mask, I32(0)), I32)
    store_as(builder, first, cursor, 4)
    store_as(builder, at(builder, cursor, builder.zext(builder.shl(some, I32(2)), I64)), pointer, 8)
    builder.ret(some)
    builder.position_at_end(several)
    duplicate: Value = I32(0)
    undefined = ir.Constant(lanes32, ir.Undefined)
    for distance in range(1, WARP):
        order = ir.Constant(lanes32, [(lane - distance) % WARP for lane in range(WARP)])
        before = builder.shuffle_vector(numbers, undefined, order)
        same = lanes_to_mask(builder, builder.icmp_signed("==", numbers, before))
        duplicate = builder.or_(duplicate, builder.and_(same, builder.shl(mask, I32(distance))))
    kept = builder.and_(mask, builder.not_(duplicate))
    compress_store(builder, numbers, cursor, mask_to_lanes(builder, kept))
    count = population(builder, kept)
    store_as(builder, at(builder, cursor, builder.zext(builder.shl(count, I32(2)), I64)), pointer, 8)
    builder.ret(count)
    return function


def bank_degree(module: ir.Module) -> ir.Function:
    """`i32 degree(words, mask)`: most distinct 4-byte words that fall in one of 32 banks, over active lanes; 0 with none active.

    Each round lets one word per bank through: lanes write their word to a table by bank, and those that read their own word back
    are served. The number of rounds is the degree.
    """
    lanes32 = vector(I32)
    function, fresh = internal_function(module, "bank_degree", I32, [lanes32, I32])
    if not fresh:
        return function
    words, mask = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    table = builder.alloca(lanes32)
    table.align = 64
    store_as(builder, splat_constant(I32, 0), table, 64)
    bank = builder.zext(builder.and_(words, splat_constant(I32, 31)), vector(I64))
    base = splat(builder, builder.ptrtoint(table, I64))
    pointers = builder.inttoptr(builder.add(base, builder.shl(bank, splat_constant(I64, 2))), vector(PTR))

    def serve(inner: Builder, left: Value, rounds: Value) -> tuple[Value, Value]:
        waiting = mask_to_lanes(inner, left)
        scatter(inner, words, pointers, waiting)
        seen = gather(inner, pointers, waiting, I32)
        return lanes_to_mask(inner, inner.icmp_signed("==", seen, words)), inner.add(rounds, I32(1))

    builder.ret(until_no_lane_is_left(builder, mask, serve))
    return function


def most_sharing(module: ir.Module) -> ir.Function:
    """`i32 sharing(addresses, mask)`: the largest number of active lanes with one address; 0 with none active."""
    lanes64 = vector(I64)
    function, fresh = internal_function(module, "most_sharing", I32, [lanes64, I32])
    if not fresh:
        return function
    addresses, mask = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    scratch = builder.alloca(lanes64)
    scratch.align = 64
    store_as(builder, addresses, scratch, 64)

    def serve(inner: Builder, left: Value, most: Value) -> tuple[Value, Value]:
        address = _element(inner, scratch, trailing_zeros(inner, left), I64, 8)
        same = inner.and_(lanes_to_mask(inner, inner.icmp_signed("==", addresses, splat(inner, address))), left)
        count = population(inner, same)
        return same, inner.select(inner.icmp_unsigned(">", count, most), count, most)

    builder.ret(until_no_lane_is_left(builder, mask, serve))
    return function
