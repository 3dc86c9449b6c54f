"""Emits the native loop over blocks: for each, clear shared memory, then let its warps run from barrier to barrier until all end.

`i64 run(warp, context, first, end)`, where `warp` is the kernel's function, returns the block to go on with: `end` when done, an
earlier one when buffers are to be drained, or `-1 - block` when that block faulted. Where lanes are scheduled independently it
also returns a block that makes no progress, with
`STALLED` set, and goes on with a block that has been suspended when `RESUMING` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from warpsight.base.findings import INITCHECK, ORDER, RACECHECK
from warpsight.emulator.codegen import lane_scheduler as scheduler
from warpsight.emulator.codegen import layout, watcher
from warpsight.emulator.codegen.independent_lanes import call_scheduler
from warpsight.emulator.codegen.lanes import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    get_slot,
    internal_function,
    intrinsic,
    load_as,
    loop,
    set_slot,
    store_as,
)
from warpsight.emulator.codegen.layout import Slot
from warpsight.emulator.codegen.orders import warp_order
from warpsight.emulator.codegen.recording import ask_host
from warpsight.emulator.codegen.watching import order_in


def _for_range(builder: Builder, start: Value, end: Value, body: Callable[[Value], None]) -> None:
    """`for i in range(start, end): body(i)` over i64. Continues in a new LLVM block."""

    def count(index: Value) -> tuple[Value]:
        body(index)
        return (builder.add(index, I64(1)),)

    loop(builder, [start], lambda index: builder.icmp_unsigned("<", index, end), count)


DRIVER = "run"
_WARP_FUNCTION = ir.FunctionType(I32, [PTR, PTR])


def build_driver(module: Any, independent: bool, checks: frozenset[str] = frozenset()) -> None:
    """Add `run` to the module, as a function that kernels share; `independent` when the lanes of their warps are scheduled
    independently.

    With `checks` each block starts with nothing written, and no order between its warps (`watching.py`); warps take turns in other
    orders (`orders.py`).
    """
    function, _ = internal_function(module, DRIVER, ir.FunctionType(I64, [_WARP_FUNCTION.as_pointer(), PTR, I64, I64]))
    warp_function, context, first, end = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    alive = builder.alloca(I32)
    warps = get_slot(builder, context, Slot.WARPS_PER_BLOCK)

    def run_block(block: Value) -> None:
        _check_buffers(builder, context, block)
        _place_block(builder, context, block)
        rounds = builder.append_basic_block("round")
        if independent:
            fresh = builder.append_basic_block("fresh")
            resuming = builder.icmp_signed("!=", get_slot(builder, context, Slot.RESUMING), I64(0))
            set_slot(builder, context, Slot.RESUMING, I64(0))
            builder.cbranch(resuming, rounds, fresh)
            builder.position_at_end(fresh)
        _clear_memory(builder, context)
        _clear_record(builder, context)
        if INITCHECK in checks:
            _clear_memory(builder, context, Slot.SHARED_SHADOW, Slot.LOCAL_SHADOW)
        if RACECHECK in checks:
            order_in(builder, context, I32(0), watcher.BLOCK_STARTS, I64(0))
        _for_range(builder, I64(0), warps, lambda warp: _start_warp(builder, context, warp, warps))
        builder.branch(rounds)
        builder.position_at_end(rounds)
        builder.store(I32(0), alive)
        results = None if independent else alive
        number = warp_order(builder, context, warps) if ORDER in checks else lambda place: place
        _for_range(builder, I64(0), warps, lambda place: _run_warp(builder, context, block, number(place), warp_function, results))
        finished = builder.append_basic_block("finished")
        if independent:
            _end_round(builder, context, block, rounds, finished)
        else:
            for passed, coming in ((Slot.VOTES, Slot.VOTES_COMING), (Slot.VOTERS, Slot.VOTERS_COMING)):
                set_slot(builder, context, passed, get_slot(builder, context, coming))
                set_slot(builder, context, coming, I64(0))
            builder.cbranch(builder.icmp_signed("!=", builder.load(alive, typ=I32), I32(0)), rounds, finished)
        builder.position_at_end(finished)

    _for_range(builder, first, end, run_block)
    builder.ret(end)


def _end_round(builder: Builder, context: Value, block: Value, rounds: Any, finished: Any) -> None:
    """Each warp has had its turn: the scheduler opens barriers and says whether the block goes on."""
    nobody = _state(builder, context, I64(0))
    stalled, deadlocked = builder.append_basic_block("stalled"), builder.append_basic_block("deadlocked")
    switch = builder.switch(call_scheduler(builder, context, nobody, scheduler.ROUND), rounds)
    for value, target in ((scheduler.FINISHED, finished), (scheduler.STALLED, stalled), (scheduler.DEADLOCKED, deadlocked)):
        switch.add_case(I32(value), target)
    builder.position_at_end(stalled)
    set_slot(builder, context, Slot.STALLED, I64(1))
    builder.ret(block)
    builder.position_at_end(deadlocked)
    builder.ret(builder.sub(I64(-1), block))


def _check_buffers(builder: Builder, context: Value, block: Value) -> None:
    """Return to Python before a block when a buffer has passed its soft end."""
    full: Value = I1(0)
    for cursor, soft in (
        (Slot.SECTOR_CURSOR, Slot.SECTOR_SOFT_END),
        (Slot.EVENT_CURSOR, Slot.EVENT_SOFT_END),
        (Slot.PATH_CURSOR, Slot.PATH_SOFT_END),
    ):
        passed = builder.icmp_unsigned(">", get_slot(builder, context, cursor), get_slot(builder, context, soft))
        full = builder.or_(full, passed)
    full = builder.and_(full, builder.icmp_signed("==", get_slot(builder, context, Slot.HOLD), I64(0)))
    with builder.if_then(full):
        builder.ret(block)


def _place_block(builder: Builder, context: Value, block: Value) -> None:
    """%ctaid from the linear number, x fastest."""
    nx, ny = get_slot(builder, context, Slot.NCTAID_X), get_slot(builder, context, Slot.NCTAID_Y)
    rest = builder.udiv(block, nx)
    set_slot(builder, context, Slot.BLOCK, block)
    set_slot(builder, context, Slot.CTAID_X, builder.urem(block, nx))
    set_slot(builder, context, Slot.CTAID_Y, builder.urem(rest, ny))
    set_slot(builder, context, Slot.CTAID_Z, builder.udiv(rest, ny))


def _clear_memory(builder: Builder, context: Value, *shadows: Slot) -> None:
    """Shared and local memory start as zeros: undefined in CUDA, but the same every time here.

    Of call stacks, what any block has used so far. With `shadows`, those of shared and local memory are cleared instead.
    """
    memset = intrinsic(builder.module, "llvm.memset.p0.i64", ir.VoidType(), [PTR, I8, I64, I1])
    starts = [get_slot(builder, context, slot) for slot in (Slot.SHARED_PTR, Slot.LOCAL_PTR)]
    for k, shadow in enumerate(shadows):
        starts[k] = builder.add(starts[k], get_slot(builder, context, shadow))
    shared, local = (builder.inttoptr(start, PTR) for start in starts)
    builder.call(memset, [shared, I8(0), _unless_together(builder, context, get_slot(builder, context, Slot.SHARED_SIZE)), I1(0)])
    lanes = builder.mul(get_slot(builder, context, Slot.WARPS_PER_BLOCK), I64(layout.WARP))
    size, cleared = get_slot(builder, context, Slot.LOCAL_SIZE), get_slot(builder, context, Slot.LOCAL_CLEARED)
    at_once = builder.icmp_signed("==", size, cleared)
    piece = builder.select(at_once, builder.mul(lanes, size), cleared)

    def clear(lane: Value) -> None:
        builder.call(memset, [at(builder, local, builder.mul(lane, size)), I8(0), piece, I1(0)])

    _for_range(builder, I64(0), builder.select(at_once, I64(1), lanes), clear)


def _clear_record(builder: Builder, context: Value) -> None:
    """Clear the block's record, and that of the cluster behind it."""
    memset = intrinsic(builder.module, "llvm.memset.p0.i64", ir.VoidType(), [PTR, I8, I64, I1])
    record = builder.inttoptr(get_slot(builder, context, Slot.RECORD_PTR), PTR)
    more = _unless_together(builder, context, I64(8 * layout.CLUSTER_RECORD_WORDS))
    builder.call(memset, [record, I8(0), builder.add(I64(8 * layout.RECORD_ROWS * layout.RECORD_WORDS), more), I1(0)])


def _unless_together(builder: Builder, context: Value, size: Value) -> Value:
    """None of it where other blocks of a cluster use it already: then it was cleared before the first of them."""
    alone = builder.icmp_signed("==", get_slot(builder, context, Slot.CLUSTER_BLOCKS), I64(1))
    return builder.select(alone, size, I64(0))


def _state(builder: Builder, context: Value, warp: Value) -> Value:
    base = builder.inttoptr(get_slot(builder, context, Slot.STATE_PTR), PTR)
    return at(builder, base, builder.mul(warp, get_slot(builder, context, Slot.STATE_STRIDE)))


def _start_warp(builder: Builder, context: Value, warp: Value, warps: Value) -> None:
    state = _state(builder, context, warp)
    last = builder.icmp_unsigned("==", warp, builder.sub(warps, I64(1)))
    partial = builder.trunc(get_slot(builder, context, Slot.LAST_WARP_MASK), I32)
    mask = builder.select(last, partial, I32(0xFFFFFFFF))
    first = {layout.MASK: mask, layout.START: mask, layout.RECONVERGE: layout.NO_BLOCK, layout.BUDGET: scheduler.FIRST_BUDGET}
    for word in range(layout.STATE_WORDS):
        value = first.get(word, 0)
        store_as(builder, I32(value) if isinstance(value, int) else value, at(builder, state, 4 * word), 4)


def _run_warp(builder: Builder, context: Value, block: Value, warp: Value, warp_function: Any, alive: Value | None) -> None:
    """Run one warp to its next stop, unless it has ended; a segment mark in the buffers says which warp's entries follow.

    `alive` gathers results; without it they go into the warp's state, and the scheduler says whether the warp can go on.
    """
    state = _state(builder, context, warp)
    run, skip = builder.append_basic_block("run_warp"), builder.append_basic_block("next_warp")
    if alive is None:
        ended = builder.icmp_signed("==", call_scheduler(builder, context, state, scheduler.READY), I32(0))
    else:
        resume = load_as(builder, at(builder, state, 4 * layout.RESUME), I32, 4)
        ended = builder.icmp_signed("==", resume, I32(layout.DONE_RESUME))
    builder.cbranch(ended, skip, run)
    builder.position_at_end(run)
    set_slot(builder, context, Slot.WARP, warp)
    path_end = builder.add(get_slot(builder, context, Slot.PATH_CURSOR), I64(layout.PATH_ENTRY_BYTES))
    full = builder.icmp_unsigned(">", path_end, get_slot(builder, context, Slot.PATH_END))
    segment_end = builder.add(get_slot(builder, context, Slot.SEGMENT_CURSOR), I64(8 * layout.SEGMENT_WORDS))
    full = builder.or_(full, builder.icmp_unsigned(">", segment_end, get_slot(builder, context, Slot.SEGMENT_END)))
    failed = builder.append_basic_block("failed")
    with builder.if_then(full):
        room_made = builder.append_basic_block("room_made")
        made = ask_host(builder, context, I64(8 * layout.SEGMENT_WORDS))
        builder.cbranch(builder.icmp_signed("==", made, I32(0)), failed, room_made)
        builder.position_at_end(room_made)
    _mark_segment(builder, context, block, warp)
    result = builder.call(warp_function, [context, state])
    if alive is not None:
        builder.store(builder.or_(builder.load(alive, typ=I32), builder.and_(result, I32(layout.BARRIER))), alive)
    else:
        record = builder.inttoptr(get_slot(builder, context, Slot.RECORD_PTR), PTR)
        opened = at(builder, record, 8 * (layout.PROGRESS_ROW * layout.RECORD_WORDS + layout.OPENED))
        store_as(builder, builder.trunc(load_as(builder, opened, I64, 8), I32), at(builder, state, 4 * layout.SEEN), 4)
        store_as(builder, result, at(builder, state, 4 * layout.STATUS), 4)
    builder.cbranch(builder.icmp_signed("==", result, I32(layout.FAULTED)), failed, skip)
    builder.position_at_end(failed)
    set_slot(builder, context, Slot.FAULT_WARP, warp)
    builder.ret(builder.sub(I64(-1), block))
    builder.position_at_end(skip)


def _mark_segment(builder: Builder, context: Value, block: Value, warp: Value) -> None:
    whole = builder.add(builder.mul(block, get_slot(builder, context, Slot.WARPS_PER_BLOCK)), warp)
    segment = builder.inttoptr(get_slot(builder, context, Slot.SEGMENT_CURSOR), PTR)
    path = get_slot(builder, context, Slot.PATH_CURSOR)
    words = (whole, path, get_slot(builder, context, Slot.EVENT_CURSOR), get_slot(builder, context, Slot.SECTOR_CURSOR))
    for k, value in enumerate(words):
        store_as(builder, value, at(builder, segment, 8 * k), 8)
    set_slot(builder, context, Slot.SEGMENT_CURSOR, builder.ptrtoint(at(builder, segment, 8 * len(words)), I64))
    entry = builder.inttoptr(path, PTR)
    store_as(builder, I32(layout.SEGMENT_MARK), entry, 4)
    store_as(builder, I32(0), at(builder, entry, 4), 4)
    set_slot(builder, context, Slot.PATH_CURSOR, builder.add(path, I64(layout.PATH_ENTRY_BYTES)))
