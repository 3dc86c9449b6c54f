"""Helper functions in LLVM code, made once per module: address checks, sectors of scattered lanes, bank conflicts, sharing.

They are the slow paths: each loops over lanes. All take the context first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from warpsight.emulator.codegen.frame import Frame, HelperFrame, record_fault
from warpsight.emulator.codegen.lanes import (
    I1,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    compress_store,
    gather,
    get_slot,
    internal_function,
    intrinsic,
    lanes_to_mask,
    load_as,
    loop,
    mask_to_lanes,
    population,
    scatter,
    set_slot,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
    vector,
)
from warpsight.emulator.codegen.layout import (
    MAPPED_PAGE_BITS,
    OUTSIDE_LANE_BYTES,
    OUTSIDE_ROW_WORDS,
    PATTERN_BYTES,
    WARP,
    Fault,
    Slot,
)


def for_each_lane(builder: Builder, mask: Value, body: Callable[[Builder, Value], None]) -> None:
    """Run `body(builder, lane)` for each set bit of an i32 mask, lowest first. Continues in a new LLVM block."""

    def visit_first(left: Value) -> tuple[Value]:
        body(builder, trailing_zeros(builder, left))
        return (builder.and_(left, builder.sub(left, I32(1))),)

    loop(builder, [mask], lambda left: builder.icmp_signed("!=", left, I32(0)), visit_first)


def until_no_lane_is_left(builder: Builder, mask: Value, serve: Callable[[Builder, Value, Value], tuple[Value, Value]]) -> Value:
    """Rounds of `serve(builder, lanes left, result so far)`, which gives the lanes served and the new result (i32, 0 at first)."""

    def serve_some(left: Value, result: Value) -> tuple[Value, Value]:
        served, following = serve(builder, left, result)
        return builder.and_(left, builder.not_(served)), following

    return loop(builder, [mask, I32(0)], lambda left, _: builder.icmp_signed("!=", left, I32(0)), serve_some)[1]


@functools.cache
def _has_wide_permutes() -> bool:
    return bool(llvm.get_host_cpu_features().get("avx512f"))


def permuted(frame: Frame, values: Value, sources: Value) -> Value:
    """Of <32 x i32> `values` in each lane that of the lane in `sources`, <32 x i32> below 32."""
    builder, half = frame.builder, WARP // 2
    if not _has_wide_permutes():  # by way of memory
        base = splat(builder, builder.ptrtoint(at(builder, frame.spill(values, "permuted"), 0), I64))
        offsets = builder.shl(builder.zext(sources, vector(I64)), splat_constant(I64, 2))
        return gather(builder, builder.inttoptr(builder.add(base, offsets), vector(PTR)), splat_constant(I1, 1), I32)
    kind, undefined = vector(I32, half), ir.Constant(values.type, ir.Undefined)
    function = intrinsic(builder.module, "llvm.x86.avx512.vpermi2var.d.512", kind, [kind] * 3)

    def part(whole: Value, first: int) -> Value:
        return builder.shuffle_vector(whole, undefined, ir.Constant(kind, list(range(first, first + half))))

    low, high = part(values, 0), part(values, half)
    results = [builder.call(function, [low, part(sources, first), high]) for first in (0, half)]
    return builder.shuffle_vector(*results, ir.Constant(vector(I32), list(range(WARP))))


def _element(builder: Builder, pointer: Value, lane: Value, kind: Any, size: int) -> Value:
    return load_as(builder, at(builder, pointer, builder.mul(builder.zext(lane, I64), I64(size))), kind, size)


def check_lanes(module: ir.Module, *, notes: bool = False) -> ir.Function:
    """`i32 check(context, addresses, mask, size, align, write, site, pc, outside)`: 0, or 1 with the fault recorded.

    With `notes` all bad lanes are noted for `check` (`watching.py`), and the answer is their mask.

    Each active lane's [address, address + size) must lie in one live allocation, aligned, and writable for a write. The
    allocation of the last lane is remembered for the site. `addresses` points to 32 i64 device addresses. `outside` (i64) is 0, or
    the slot's OUTSIDE_PTR: an address near an allocation is then replaced by one of zeros that belong to its lane.
    """
    name = "note_lanes" if notes else "check_lanes"
    function, fresh = internal_function(module, name, ir.FunctionType(I32, [PTR, PTR, I32, I64, I64, I64, I64, I64, I64]))
    if not fresh:
        return function
    context, addresses, mask, size, align, write, site, pc, outside = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    bad = builder.alloca(I32)
    store_as(builder, I32(0), bad, 4)

    def lane_body(inner: Builder, lane: Value) -> None:
        address = _element(inner, addresses, lane, I64, 8)
        let_through = function.append_basic_block("let_through")

        def fail(at_fault: Builder, kind: int) -> None:
            if notes:
                this = at_fault.shl(I32(1), lane)
                note_in(at_fault, context, I64(kind), pc, this, addresses)
                store_as(at_fault, at_fault.or_(load_as(at_fault, bad, I32, 4), this), bad, 4)
                at_fault.branch(let_through)
            else:
                record_fault(at_fault, context, kind, pc, lane, address)
                set_slot(at_fault, context, Slot.FAULT_BYTES, size)
                at_fault.ret(I32(1))

        with inner.if_then(inner.icmp_signed("!=", inner.and_(address, inner.sub(align, I64(1))), I64(0))):
            fail(inner, Fault.MISALIGNED)

        def leave(at_fault: Builder, kind: int, mapped: Value) -> None:
            if kind == Fault.OUT_OF_BOUNDS and not notes:
                lenient = at_fault.and_(at_fault.icmp_signed("!=", outside, I64(0)), mapped)
                with at_fault.if_then(lenient):
                    place = _note_outside(at_fault, context, outside, (site, pc, lane, address))
                    store_as(at_fault, place, at(at_fault, addresses, at_fault.mul(at_fault.zext(lane, I64), I64(8))), 8)
                    at_fault.branch(let_through)
            fail(at_fault, kind)

        start, end = _search(inner, address, size, write, leave, context)
        sites = load_as(inner, at(inner, context, 8 * Slot.SITE_PTR), PTR, 8)
        entry = at(inner, sites, inner.mul(site, I64(16)))
        store_as(inner, start, entry, 8)
        store_as(inner, end, at(inner, entry, 8), 8)
        inner.branch(let_through)
        inner.position_at_end(let_through)

    for_each_lane(builder, mask, lane_body)
    builder.ret(load_as(builder, bad, I32, 4))
    return function


def note_in(builder: Builder, context: Value, kind: Value, pc: Value, lanes: Value, addresses: Value) -> None:
    """Call `watcher.note` for the lanes of an i32 mask; `addresses` points to 32 i64."""
    function = intrinsic(builder.module, "warpsight_note", I32, [PTR, PTR, I64, I64, I32, PTR])
    watch = load_as(builder, at(builder, context, 8 * Slot.WATCH_PTR), PTR, 8)
    builder.call(function, [context, watch, kind, pc, lanes, addresses])


def _note_outside(builder: Builder, context: Value, outside: Value, access: tuple[Value, Value, Value, Value]) -> Value:
    """Count an access out of bounds, of which `access` is (site, pc, lane, address); the device address to use in its place."""
    site, pc, lane, address = access
    place = builder.add(outside, builder.mul(builder.zext(lane, I64), I64(OUTSIDE_LANE_BYTES)))
    store_as(builder, ir.Constant(vector(I64, OUTSIDE_LANE_BYTES // 8), None), builder.inttoptr(place, PTR), 8)
    rows = builder.add(outside, I64(WARP * OUTSIDE_LANE_BYTES))
    row = builder.inttoptr(builder.add(rows, builder.mul(site, I64(8 * OUTSIDE_ROW_WORDS))), PTR)
    count = load_as(builder, row, I64, 8)
    store_as(builder, builder.add(count, I64(1)), row, 8)
    with builder.if_then(builder.icmp_signed("==", count, I64(0))):
        warp, block = (get_slot(builder, context, slot) for slot in (Slot.WARP, Slot.BLOCK))
        for k, value in enumerate((pc, builder.zext(lane, I64), address, warp, block), start=1):
            store_as(builder, value, at(builder, row, 8 * k), 8)
    return builder.sub(place, get_slot(builder, context, Slot.ARENA_DELTA))


def _search(builder: Builder, address: Value, size: Value, write: Value, fail: Any, context: Value) -> tuple[Value, Value]:
    """Bounds of the last allocation that starts at or below `address`, by binary search. Checks them and the permission.

    `fail(builder, kind, mapped)` emits what is done otherwise; `mapped` (i1): an allocation has bytes in the same page.
    """
    table = load_as(builder, at(builder, context, 8 * Slot.ALLOC_PTR), PTR, 8)

    def halve(low: Value, high: Value) -> tuple[Value, Value]:
        middle = builder.lshr(builder.add(low, high), I64(1))
        start = load_as(builder, at(builder, table, builder.mul(middle, I64(24))), I64, 8)
        below = builder.icmp_unsigned("<=", start, address)
        return builder.select(below, builder.add(middle, I64(1)), low), builder.select(below, high, middle)

    def same_page(other: Value) -> Value:
        return builder.icmp_unsigned("<", builder.xor(address, other), I64(1 << MAPPED_PAGE_BITS))

    count = get_slot(builder, context, Slot.ALLOC_COUNT)
    low, _ = loop(builder, [I64(0), count], lambda low, high: builder.icmp_unsigned("<", low, high), halve)
    has_above = builder.icmp_unsigned("<", low, count)
    following = builder.select(has_above, at(builder, table, builder.mul(low, I64(24))), context)  # some memory that exists
    near_above = builder.and_(has_above, same_page(load_as(builder, following, I64, 8)))
    with builder.if_then(builder.icmp_unsigned("==", low, I64(0))):
        fail(builder, Fault.OUT_OF_BOUNDS, near_above)
    row = at(builder, table, builder.mul(builder.sub(low, I64(1)), I64(24)))
    start, end, writable = (load_as(builder, at(builder, row, 8 * k), I64, 8) for k in range(3))
    # By subtraction: address plus size could pass 2^64.
    offset, length = builder.sub(address, start), builder.sub(end, start)
    fits = builder.and_(builder.icmp_unsigned("<", offset, length), builder.icmp_unsigned(">=", builder.sub(length, offset), size))
    with builder.if_then(builder.not_(fits)):
        fail(builder, Fault.OUT_OF_BOUNDS, builder.or_(near_above, same_page(builder.sub(end, I64(1)))))
    with builder.if_then(builder.and_(builder.icmp_signed("!=", write, I64(0)), builder.icmp_signed("==", writable, I64(0)))):
        fail(builder, Fault.READ_ONLY, None)
    return start, end


_FEW_LANES = 6  # so many rounds of one lane each take as long as the comparison of all pairs


def scattered_sectors(module: ir.Module) -> ir.Function:
    """`i32 sectors(context, numbers, mask)`: append the distinct sectors of the active lanes, in lane order; returns how many.

    Three cases are faster than the general one: one sector for all; few lanes, which are visited one by one; and numbers that never
    fall from lane to lane, where equal ones are neighbours.
    """
    lanes32 = vector(I32)
    function, fresh = internal_function(module, "scattered_sectors", ir.FunctionType(I32, [PTR, lanes32, I32]))
    if not fresh:
        return function
    context, numbers, mask = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    scratch = builder.alloca(lanes32)
    scratch.align = 64
    pointer = at(builder, context, 8 * Slot.SECTOR_CURSOR)
    cursor = load_as(builder, pointer, PTR, 8)

    def end(count: Value) -> None:
        store_as(builder, at(builder, cursor, builder.zext(builder.shl(count, I32(2)), I64)), pointer, 8)
        builder.ret(count)

    first = builder.extract_element(numbers, builder.and_(trailing_zeros(builder, mask), I32(31)))
    alike = lanes_to_mask(builder, builder.icmp_signed("==", numbers, splat(builder, first)))
    with builder.if_then(builder.icmp_signed("==", builder.and_(mask, builder.not_(alike)), I32(0))):
        store_as(builder, first, cursor, 4)
        end(builder.zext(builder.icmp_signed("!=", mask, I32(0)), I32))  # none when no lane is active
    with builder.if_then(builder.icmp_unsigned("<=", population(builder, mask), I32(_FEW_LANES))):
        store_as(builder, numbers, scratch, 64)

        def serve(inner: Builder, left: Value, count: Value) -> tuple[Value, Value]:
            number = _element(inner, scratch, trailing_zeros(inner, left), I32, 4)
            store_as(inner, number, at(inner, cursor, inner.zext(inner.shl(count, I32(2)), I64)), 4)
            return lanes_to_mask(inner, inner.icmp_signed("==", numbers, splat(inner, number))), inner.add(count, I32(1))

        end(until_no_lane_is_left(builder, mask, serve))

    def before(values: Value, order: list[int]) -> Value:
        return builder.shuffle_vector(values, ir.Constant(lanes32, ir.Undefined), ir.Constant(lanes32, order))

    # Lanes that are off behind the last active one are no obstacle.
    held = builder.select(mask_to_lanes(builder, mask), numbers, splat_constant(I32, -1))
    previous = before(held, [0, *range(WARP - 1)])
    falls = lanes_to_mask(builder, builder.icmp_unsigned("<", held, previous))
    equal = builder.and_(lanes_to_mask(builder, builder.icmp_signed("==", held, previous)), builder.shl(mask, I32(1)))
    with builder.if_then(builder.icmp_signed("==", falls, I32(0))):
        kept = builder.and_(mask, builder.not_(equal))
        compress_store(builder, numbers, cursor, kept)
        end(population(builder, kept))
    duplicate: Value = I32(0)
    for distance in range(1, WARP):  # each pair of lanes once, 32 at a time
        same = builder.icmp_signed("==", numbers, before(numbers, [(lane - distance) % WARP for lane in range(WARP)]))
        duplicate = builder.or_(duplicate, builder.and_(lanes_to_mask(builder, same), builder.shl(mask, I32(distance))))
    kept = builder.and_(mask, builder.not_(duplicate))
    compress_store(builder, numbers, cursor, kept)
    end(population(builder, kept))
    return function


def bank_degree(module: ir.Module) -> ir.Function:
    """`i32 degree(words, mask)`: most distinct 4-byte words that fall in one of 32 banks, over active lanes; 0 with none active.

    Each round lets one word per bank through: lanes write their word to a table by bank, and those that read their own word back
    are served. The number of rounds is the degree.
    """
    lanes32 = vector(I32)
    function, fresh = internal_function(module, "bank_degree", ir.FunctionType(I32, [lanes32, I32]))
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


def remembered_degree(helper: HelperFrame, offsets: Value, size: int, *, loads: bool = False) -> Value:
    """`conflict_degree`, kept per instruction: moving all words alike rotates the banks and changes nothing.

    Instructions in loops nearly always repeat their pattern relative to lane 0.
    """
    builder = helper.builder
    words = builder.lshr(offsets, splat_constant(I32, 2))
    relative = builder.sub(words, splat(builder, builder.extract_element(words, I32(0))))
    entry = at(builder, helper.slot_pointer(Slot.PATTERN_PTR), builder.mul(helper.site, I64(PATTERN_BYTES)))
    known = load_as(builder, entry, vector(I32), 64)
    known_mask = load_as(builder, at(builder, entry, 128), I32, 4)
    differ = builder.not_(lanes_to_mask(builder, builder.icmp_signed("==", known, relative)))
    new = builder.or_(builder.and_(differ, helper.active_mask), builder.xor(known_mask, helper.active_mask))
    with builder.if_then(builder.icmp_signed("!=", new, I32(0))):
        degree = conflict_degree(helper, offsets, size, loads=loads)
        store_as(builder, relative, entry, 64)
        store_as(builder, helper.active_mask, at(builder, entry, 128), 4)
        store_as(builder, degree, at(builder, entry, 132), 4)
    return load_as(builder, at(builder, entry, 132), I32, 4)


def conflict_degree(frame: Frame, offsets: Value, size: int, *, loads: bool = False) -> Value:
    """Passes through the banks: 8-byte accesses go by half-warps, 16-byte ones by quarters (i32).

    Wide `loads` whose lanes read the same in pairs go by twice as many lanes: the result is passed on at 128 bytes a cycle, and a
    pair's is passed on once. Pairs are lanes n and n ^ 1, or n and n ^ 2, for all active lanes (an engineer of NVIDIA on its forum,
    forums.developer.nvidia.com/t/unexpected-shared-memory-bank-conflict/77228, for compute capability 7.x).
    """
    builder = frame.builder
    words = builder.lshr(offsets, splat_constant(I32, 2))
    share = WARP // max(1, size // 4)
    paired = _in_pairs(frame, words) if loads and share < WARP else None
    total: Value = I32(0)
    for first in range(0, WARP, share):
        lanes = I32(((1 << share) - 1) << first)
        if paired is not None:
            both = I32(((1 << 2 * share) - 1) << first) if first % (2 * share) == 0 else I32(0)
            lanes = builder.select(paired, both, lanes)
        part = builder.and_(frame.active_mask, lanes)
        total = builder.add(total, builder.call(bank_degree(builder.module), [words, part]))
    return total


def _in_pairs(frame: Frame, words: Value) -> Value:
    """Whether active lanes n and n ^ 1 have equal `words`, or n and n ^ 2, for all n (i1)."""
    builder, paired = frame.builder, ir.Constant(ir.IntType(1), 0)
    active = frame.active_mask
    for step, low in ((1, 0x55555555), (2, 0x33333333)):
        others = builder.shuffle_vector(words, words, ir.Constant(vector(I32), [lane ^ step for lane in range(WARP)]))
        differ = builder.not_(lanes_to_mask(builder, builder.icmp_signed("==", words, others)))
        upper, lower = builder.and_(builder.lshr(active, I32(step)), I32(low)), builder.and_(active, I32(low))
        both = builder.and_(active, builder.or_(upper, builder.shl(lower, I32(step))))
        paired = builder.or_(paired, builder.icmp_signed("==", builder.and_(differ, both), I32(0)))
    return paired


def most_sharing(module: ir.Module) -> ir.Function:
    """`i32 sharing(addresses, mask)`: the largest number of active lanes with one address; 0 with none active."""
    lanes64 = vector(I64)
    function, fresh = internal_function(module, "most_sharing", ir.FunctionType(I32, [lanes64, I32]))
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
