"""Emits the native loop over blocks: for each, clear shared memory, then let its warps run from barrier to barrier until all end.

`i64 run(context, first, end)` returns the block to go on with: `end` when done, an earlier one when buffers are to be drained, or
`-1 - block` when that block faulted. Where lanes are scheduled independently it also returns a block that makes no progress, with
`STALLED` set, and goes on with a block that has been suspended when `RESUMING` is set.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen import lane_scheduler as scheduler
from warpsight.emulator.codegen import layout
from warpsight.emulator.codegen.independent_lanes import call_scheduler
from warpsight.emulator.codegen.lanes import I1, I8, I32, I64, PTR, Builder, Value, at, intrinsic, load_as, store_as
from warpsight.emulator.codegen.layout import Slot


class _Loop:
    """A counting loop `for i in range(start, end)`; `body` positions the builder inside, `close` after."""

    def __init__(self, builder: Builder, start: Value, end: Value, name: str) -> None:
        self.builder = builder
        before = builder.block
        self.head, self.inner, self.after = (builder.append_basic_block(f"{name}_{p}") for p in ("head", "body", "end"))
        builder.branch(self.head)
        builder.position_at_end(self.head)
        self.index = builder.phi(I64)
        self.index.add_incoming(start, before)
        builder.cbranch(builder.icmp_unsigned("<", self.index, end), self.inner, self.after)
        builder.position_at_end(self.inner)

    def close(self) -> None:
        """Count on and continue behind the loop."""
        self.index.add_incoming(self.builder.add(self.index, I64(1)), self.builder.block)
        self.builder.branch(self.head)
        self.builder.position_at_end(self.after)


def build_driver(module: Any, warp_function: Any, independent: bool, checks: bool = False) -> None:
    """Add `run` to the module; `independent` when the lanes of the kernel's warps are scheduled independently.

    With `checks` each block starts with nothing written (`validity.py`).
    """
    function = ir.Function(module, ir.FunctionType(I64, [PTR, I64, I64]), "run")
    context, first, end = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    alive = builder.alloca(I32)
    warps = _get(builder, context, Slot.WARPS_PER_BLOCK)
    blocks = _Loop(builder, first, end, "block")
    block = blocks.index
    _check_buffers(builder, context, block)
    _place_block(builder, context, block)
    rounds = builder.append_basic_block("round")
    if independent:
        fresh = builder.append_basic_block("fresh")
        resuming = builder.icmp_signed("!=", _get(builder, context, Slot.RESUMING), I64(0))
        _set(builder, context, Slot.RESUMING, I64(0))
        builder.cbranch(resuming, rounds, fresh)
        builder.position_at_end(fresh)
    _clear_memory(builder, context)
    if checks:
        _clear_memory(builder, context, Slot.SHARED_SHADOW, Slot.LOCAL_SHADOW)
    starts = _Loop(builder, I64(0), warps, "start")
    _start_warp(builder, context, starts.index, warps)
    starts.close()
    builder.branch(rounds)
    builder.position_at_end(rounds)
    builder.store(I32(0), alive)
    turn = _Loop(builder, I64(0), warps, "warp")
    _run_warp(builder, context, block, turn.index, warp_function, None if independent else alive)
    turn.close()
    finished = builder.append_basic_block("finished")
    if independent:
        _end_round(builder, context, block, rounds, finished)
    else:
        for passed, coming in ((Slot.VOTES, Slot.VOTES_COMING), (Slot.VOTERS, Slot.VOTERS_COMING)):
            _set(builder, context, passed, _get(builder, context, coming))
            _set(builder, context, coming, I64(0))
        again = builder.icmp_signed("!=", builder.load(alive, typ=I32), I32(0))
        builder.cbranch(again, rounds, finished)
    builder.position_at_end(finished)
    blocks.close()
    builder.ret(end)


def _end_round(builder: Builder, context: Value, block: Value, rounds: Any, finished: Any) -> None:
    """Each warp has had its turn: the scheduler opens barriers and says whether the block goes on."""
    nobody = _state(builder, context, I64(0))
    answer = call_scheduler(builder, context, nobody, scheduler.ROUND)
    stalled, deadlocked = builder.append_basic_block("stalled"), builder.append_basic_block("deadlocked")
    switch = builder.switch(answer, rounds)
    for value, target in ((scheduler.FINISHED, finished), (scheduler.STALLED, stalled), (scheduler.DEADLOCKED, deadlocked)):
        switch.add_case(I32(value), target)
    builder.position_at_end(stalled)
    _set(builder, context, Slot.STALLED, I64(1))
    builder.ret(block)
    builder.position_at_end(deadlocked)
    builder.ret(builder.sub(I64(-1), block))


def _get(builder: Builder, context: Value, slot: Slot) -> Value:
    return load_as(builder, at(builder, context, 8 * slot), I64, 8)


def _set(builder: Builder, context: Value, slot: Slot, value: Value) -> None:
    store_as(builder, value, at(builder, context, 8 * slot), 8)


def _check_buffers(builder: Builder, context: Value, block: Value) -> None:
    """Return to Python before a block when a buffer has passed its soft end."""
    full: Value = I1(0)
    for cursor, soft in (
        (Slot.SECTOR_CURSOR, Slot.SECTOR_SOFT_END),
        (Slot.EVENT_CURSOR, Slot.EVENT_SOFT_END),
        (Slot.PATH_CURSOR, Slot.PATH_SOFT_END),
    ):
        passed = builder.icmp_unsigned(">", _get(builder, context, cursor), _get(builder, context, soft))
        full = builder.or_(full, passed)
    full = builder.and_(full, builder.icmp_signed("==", _get(builder, context, Slot.HOLD), I64(0)))
    drain, go = builder.append_basic_block("drain"), builder.append_basic_block("go")
    builder.cbranch(full, drain, go)
    builder.position_at_end(drain)
    builder.ret(block)
    builder.position_at_end(go)


def _place_block(builder: Builder, context: Value, block: Value) -> None:
    """%ctaid from the linear number, x fastest."""
    nx, ny = _get(builder, context, Slot.NCTAID_X), _get(builder, context, Slot.NCTAID_Y)
    rest = builder.udiv(block, nx)
    _set(builder, context, Slot.BLOCK, block)
    _set(builder, context, Slot.CTAID_X, builder.urem(block, nx))
    _set(builder, context, Slot.CTAID_Y, builder.urem(rest, ny))
    _set(builder, context, Slot.CTAID_Z, builder.udiv(rest, ny))


def _clear_memory(builder: Builder, context: Value, *shadows: Slot) -> None:
    """Shared and local memory start as zeros: undefined in CUDA, but the same every time here. So does the block's record.

    Of call stacks, what any block has used so far. With `shadows`, those of shared and local memory are cleared instead.
    """
    memset = intrinsic(builder.module, "llvm.memset.p0.i64", ir.VoidType(), [PTR, I8, I64, I1])
    starts = [_get(builder, context, slot) for slot in (Slot.SHARED_PTR, Slot.LOCAL_PTR)]
    for k, shadow in enumerate(shadows):
        starts[k] = builder.add(starts[k], _get(builder, context, shadow))
    shared = builder.inttoptr(starts[0], PTR)
    builder.call(memset, [shared, I8(0), _get(builder, context, Slot.SHARED_SIZE), I1(0)])
    local = builder.inttoptr(starts[1], PTR)
    lanes = builder.mul(_get(builder, context, Slot.WARPS_PER_BLOCK), I64(layout.WARP))
    size, cleared = _get(builder, context, Slot.LOCAL_SIZE), _get(builder, context, Slot.LOCAL_CLEARED)
    at_once = builder.icmp_signed("==", size, cleared)
    pieces = _Loop(builder, I64(0), builder.select(at_once, I64(1), lanes), "clear")
    piece = builder.select(at_once, builder.mul(lanes, size), cleared)
    builder.call(memset, [at(builder, local, builder.mul(pieces.index, size)), I8(0), piece, I1(0)])
    pieces.close()
    record = builder.inttoptr(_get(builder, context, Slot.RECORD_PTR), PTR)
    builder.call(memset, [record, I8(0), I64(8 * layout.RECORD_ROWS * layout.RECORD_WORDS), I1(0)])


def _state(builder: Builder, context: Value, warp: Value) -> Value:
    base = builder.inttoptr(_get(builder, context, Slot.STATE_PTR), PTR)
    return at(builder, base, builder.mul(warp, _get(builder, context, Slot.STATE_STRIDE)))


def _start_warp(builder: Builder, context: Value, warp: Value, warps: Value) -> None:
    state = _state(builder, context, warp)
    last = builder.icmp_unsigned("==", warp, builder.sub(warps, I64(1)))
    partial = builder.trunc(_get(builder, context, Slot.LAST_WARP_MASK), I32)
    mask = builder.select(last, partial, I32(0xFFFFFFFF))
    for word, value in (
        (layout.RESUME, I32(0)),
        (layout.MASK, mask),
        (layout.RECONVERGE, I32(layout.NO_BLOCK)),
        (layout.DEPTH, I32(0)),
        (layout.GONE, I32(0)),
        (layout.START, mask),
        *((word, I32(0)) for word in range(layout.BUDGET + 1, layout.CLUSTER_GENERATION + 1)),
        (layout.BUDGET, I32(scheduler.FIRST_BUDGET)),
    ):
        store_as(builder, value, at(builder, state, 4 * word), 4)


def _run_warp(builder: Builder, context: Value, block: Value, warp: Value, warp_function: Any, alive: Value | None) -> None:
    """Run one warp to its next stop, unless it has ended; a segment mark in the buffers says which warp's entries follow.

    `alive` gathers results; without it they go into the warp's state, and the scheduler says whether the warp can go on.
    """
    state = _state(builder, context, warp)
    run, skip = builder.append_basic_block("run_warp"), builder.append_basic_block("next_warp")
    if alive is None:
        builder.cbranch(builder.icmp_signed("==", call_scheduler(builder, context, state, scheduler.READY), I32(0)), skip, run)
    else:
        resume = load_as(builder, at(builder, state, 4 * layout.RESUME), I32, 4)
        builder.cbranch(builder.icmp_signed("==", resume, I32(layout.DONE_RESUME)), skip, run)
    builder.position_at_end(run)
    _set(builder, context, Slot.WARP, warp)
    room = builder.icmp_unsigned(
        ">",
        builder.add(_get(builder, context, Slot.PATH_CURSOR), I64(layout.PATH_ENTRY_BYTES)),
        _get(builder, context, Slot.PATH_END),
    )
    segment_room = builder.icmp_unsigned(
        ">",
        builder.add(_get(builder, context, Slot.SEGMENT_CURSOR), I64(8 * layout.SEGMENT_WORDS)),
        _get(builder, context, Slot.SEGMENT_END),
    )
    ask, go, failed = (builder.append_basic_block(n) for n in ("ask", "go", "failed"))
    builder.cbranch(builder.or_(room, segment_room), ask, go)
    builder.position_at_end(ask)
    host = intrinsic(builder.module, "warpsight_host", I32, [PTR, I64])
    answer = builder.call(host, [context, I64(8 * layout.SEGMENT_WORDS)])
    builder.cbranch(builder.icmp_signed("==", answer, I32(0)), failed, go)
    builder.position_at_end(go)
    _mark_segment(builder, context, block, warp)
    result = builder.call(warp_function, [context, state])
    if alive is not None:
        builder.store(builder.or_(builder.load(alive, typ=I32), builder.and_(result, I32(layout.BARRIER))), alive)
    else:
        record = builder.inttoptr(_get(builder, context, Slot.RECORD_PTR), PTR)
        opened = at(builder, record, 8 * (layout.PROGRESS_ROW * layout.RECORD_WORDS + layout.OPENED))
        store_as(builder, builder.trunc(load_as(builder, opened, I64, 8), I32), at(builder, state, 4 * layout.SEEN), 4)
        store_as(builder, result, at(builder, state, 4 * layout.STATUS), 4)
    stopped = builder.icmp_signed("==", result, I32(layout.FAULTED))
    ok = builder.append_basic_block("ok")
    builder.cbranch(stopped, failed, ok)
    builder.position_at_end(failed)
    _set(builder, context, Slot.FAULT_WARP, warp)
    builder.ret(builder.sub(I64(-1), block))
    builder.position_at_end(ok)
    builder.branch(skip)
    builder.position_at_end(skip)


def _mark_segment(builder: Builder, context: Value, block: Value, warp: Value) -> None:
    whole = builder.add(builder.mul(block, _get(builder, context, Slot.WARPS_PER_BLOCK)), warp)
    segment = builder.inttoptr(_get(builder, context, Slot.SEGMENT_CURSOR), PTR)
    path = _get(builder, context, Slot.PATH_CURSOR)
    words = (whole, path, _get(builder, context, Slot.EVENT_CURSOR), _get(builder, context, Slot.SECTOR_CURSOR))
    for k, value in enumerate(words):
        store_as(builder, value, at(builder, segment, 8 * k), 8)
    _set(builder, context, Slot.SEGMENT_CURSOR, builder.ptrtoint(at(builder, segment, 8 * len(words)), I64))
    entry = builder.inttoptr(path, PTR)
    store_as(builder, I32(layout.SEGMENT_MARK), entry, 4)
    store_as(builder, I32(0), at(builder, entry, 4), 4)
    _set(builder, context, Slot.PATH_CURSOR, builder.add(path, I64(layout.PATH_ENTRY_BYTES)))
