"""What the code leaves behind while it runs: block entries, events and sectors of the trace, and probes, which leave the address
of each lane at chosen accesses.

Buffers are linear. A basic block reserves its worst case before it starts, so that single appends need no check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from warpsight.emulator.codegen.cluster_addresses import places_and_ranks
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame
from warpsight.emulator.codegen.lanes import (
    I1,
    I8,
    I32,
    I64,
    IOTA32,
    PTR,
    Builder,
    Value,
    at,
    get_slot,
    internal_function,
    intrinsic,
    load_as,
    population,
    reduce_vector,
    set_slot,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import MAX_REPEAT, PATH_ENTRY_BYTES, WARP, Slot
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.ptx.rules import counts_threads, memory_access
from warpsight.traces.path_store import LANES_SHIFT
from warpsight.traces.schema import BARRIER_RECORD, NAMED_BARRIER, NO_OBJECT

# A warp touches at most 32 sectors of global memory per instruction (255 of an image; bulk copies ask for room themselves), and 4
# words x 32 lanes of local memory; stores of sectors are made in vectors of 32, so that one vector beyond the last must also fit.
SECTORS_PER_ACCESS = 288
BULK_COUNT_BYTES = 3
EVENT_BYTES_PER_ACCESS = BULK_COUNT_BYTES + 1 + BARRIER_RECORD.itemsize  # one for its sharing


def emit_block_entry(emitter: Emitter, block: int, code: Sequence[Instruction]) -> None:
    """Count instructions, ask Python whether to go on where due, reserve room, and append the block to the path."""
    builder = emitter.builder
    accesses = sum(access is not None and access.space not in ("param", "const") for access in map(memory_access, code))
    # A texture fetch touches up to 255 sectors: room for two.
    accesses += sum(instruction.opcode == "tex" or counts_threads(instruction) for instruction in code)
    arguments = (emitter.context, emitter.mask, I64(len(code)), I64(accesses), I32(block))
    if not emitter.is_compact:
        _enter_block(builder, arguments, emitter.fault_block)
        return
    function, fresh = internal_function(builder.module, "enter_block", ir.FunctionType(I32, [PTR, I32, I64, I64, I32]))
    if fresh:
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        failing = function.append_basic_block("failed")
        ir.IRBuilder(failing).ret(I32(1))
        _enter_block(inner, function.args, failing)
        inner.ret(I32(0))
    failed = builder.call(function, arguments)
    emitter.leave_if(builder.icmp_signed("!=", failed, I32(0)))


def _enter_block(builder: Builder, arguments: tuple[Value, ...], failing: Any) -> None:
    """`emit_block_entry` with numbers that may be arguments of a function."""
    context, mask, instructions, accesses, number = arguments
    slot = partial(get_slot, builder, context)
    count = builder.add(slot(Slot.INSTRUCTIONS), instructions)
    set_slot(builder, context, Slot.INSTRUCTIONS, count)
    due = builder.icmp_unsigned(">=", count, slot(Slot.POLL_AT))
    need = builder.icmp_unsigned(">", builder.add(slot(Slot.PATH_CURSOR), I64(PATH_ENTRY_BYTES)), slot(Slot.PATH_END))
    if not isinstance(accesses, ir.Constant) or accesses.constant:
        for cursor, end, size in (
            (Slot.EVENT_CURSOR, Slot.EVENT_END, EVENT_BYTES_PER_ACCESS),
            (Slot.SECTOR_CURSOR, Slot.SECTOR_END, 4 * SECTORS_PER_ACCESS),
        ):
            after = builder.add(slot(cursor), builder.mul(accesses, I64(size)))
            need = builder.or_(need, builder.icmp_unsigned(">", after, slot(end)))
    ask, go = builder.append_basic_block("ask"), builder.append_basic_block("go")
    builder.cbranch(builder.or_(due, need), ask, go).set_weights([1, 1000])
    builder.position_at_end(ask)
    room = builder.mul(builder.add(accesses, I64(1)), I64(4 * SECTORS_PER_ACCESS))
    builder.cbranch(builder.icmp_signed("==", ask_host(builder, context, room), I32(0)), failing, go)
    builder.position_at_end(go)
    _append_path(builder, context, mask, number)


def ask_host(builder: Builder, context: Value, room: Value) -> Value:
    """Let Python make room for so many bytes (i64); the i32 is 0 when it says stop. Bound when the module is loaded."""
    return builder.call(intrinsic(builder.module, "warpsight_host", I32, [PTR, I64]), [context, room])


def _append_path(builder: Builder, context: Value, mask: Value, number: Value) -> None:
    """Append (block, active lanes), or count one more repetition of the last entry."""
    cursor_pointer = at(builder, context, 8 * Slot.PATH_CURSOR)
    cursor = load_as(builder, cursor_pointer, PTR, 8)
    lanes = population(builder, mask)
    key = builder.or_(builder.shl(lanes, I32(LANES_SHIFT)), number)
    last_key = load_as(builder, at(builder, cursor, -PATH_ENTRY_BYTES), I32, 4)
    repeat_pointer = at(builder, cursor, 4 - PATH_ENTRY_BYTES)
    repeat = load_as(builder, repeat_pointer, I32, 4)
    same = builder.and_(builder.icmp_signed("==", last_key, key), builder.icmp_unsigned("<", repeat, I32(MAX_REPEAT)))
    with builder.if_else(same) as (again, fresh):
        with again:
            store_as(builder, builder.add(repeat, I32(1)), repeat_pointer, 4)
        with fresh:
            store_as(builder, key, cursor, 4)
            store_as(builder, I32(1), at(builder, cursor, 4), 4)
            store_as(builder, at(builder, cursor, PATH_ENTRY_BYTES), cursor_pointer, 8)


def emit_event_byte(emitter: Frame, value: Value) -> None:
    """Append one byte (from an i32) to the events."""
    builder, context = emitter.builder, emitter.context
    pointer = at(builder, context, 8 * Slot.EVENT_CURSOR)
    cursor = load_as(builder, pointer, PTR, 8)
    store_as(builder, builder.trunc(value, I8), cursor, 1)
    store_as(builder, at(builder, cursor, 1), pointer, 8)


def emit_bulk_count(frame: Frame, count: Value) -> None:
    """Append the number of sectors (i64) of a bulk copy to the events."""
    for place in range(BULK_COUNT_BYTES):
        emit_event_byte(frame, frame.builder.trunc(frame.builder.lshr(count, I64(8 * place)), I32))


def emit_barrier_record(
    frame: Frame, offsets: Value, amount: Value, data: Value, expected: Value, blocks: Value | None = None
) -> None:
    """Append a `BARRIER_RECORD`: what the active lanes do at the mbarrier of the first of them.

    All are <32 x i64> but `offsets`, which are as `shared_host` takes them, and `blocks` <32 x i32>. Amounts and bytes are summed
    over the lanes; if these have mbarriers at one place in several blocks, over those of the first block. `blocks`: the ranks that
    lanes reach, as masks, where `offsets` do not say so; without a cluster bit 0 is the block itself.
    """
    builder, mask = frame.builder, frame.active_mask
    first = builder.cttz(builder.and_(mask, builder.sub(I32(0), mask)), ir.Constant(ir.IntType(1), 0))
    first = builder.and_(first, I32(WARP - 1))  # of no lane
    alike = builder.and_(frame.active, builder.icmp_signed("==", offsets, splat(builder, builder.extract_element(offsets, first))))
    amount, data = (reduce_vector(builder, "add", builder.select(alike, v, splat_constant(I64, 0))) for v in (amount, data))
    ranks = splat_constant(I32, 0)
    if frame.clustered:
        offsets, ranks = places_and_ranks(frame, offsets)
    place = builder.extract_element(offsets, first)
    known = builder.icmp_unsigned("<", place, I32(8 * NO_OBJECT))
    same = builder.and_(frame.active, builder.icmp_signed("==", offsets, splat(builder, place)))
    each = builder.shl(splat_constant(I32, 1), ranks) if blocks is None else blocks
    reached = reduce_vector(builder, "or", builder.select(same, each, splat_constant(I32, 0)))
    known = builder.and_(known, builder.icmp_signed("!=", reached, I32(0)))
    own = builder.shl(I32(1), builder.trunc(frame.slot(Slot.CLUSTER_RANK), I32))
    alone = builder.icmp_signed("==", reached, own) if frame.clustered else I1(1)
    reached = builder.select(alone, I32(0), reached)
    number = builder.select(known, builder.lshr(place, I32(3)), I32(NO_OBJECT))
    most = I64(0xFFFF)
    amount = builder.select(builder.icmp_unsigned("<", amount, most), amount, most)
    last = builder.and_(builder.trunc(builder.extract_element(expected, first), I32), I32(0xFFFF))
    _append_record(frame, number, amount, data, builder.or_(last, builder.shl(reached, I32(16))))


def emit_named_barrier(frame: Frame, use: Value, shift: int, absent: Value) -> None:
    """Append the `BARRIER_RECORD` of a barrier that counts threads: its number in the lowest four bits of `use` (i32), the threads
    from bit `shift` on, 0 for all of the block. `absent`: lanes of the warp that have left the kernel, or never were (i32).
    """
    builder, mask = frame.builder, frame.active_mask
    whole = builder.icmp_signed("==", builder.or_(mask, absent), I32(-1))
    arriving = builder.select(whole, I32(WARP), population(builder, mask))
    every = builder.mul(builder.trunc(frame.slot(Slot.WARPS_PER_BLOCK), I32), I32(WARP))
    count = builder.lshr(use, I32(shift))
    count = builder.select(builder.icmp_signed("==", count, I32(0)), every, count)
    number = builder.or_(builder.and_(use, I32(15)), I32(NAMED_BARRIER))
    number = builder.select(builder.icmp_signed("==", mask, I32(0)), I32(NO_OBJECT), number)
    _append_record(frame, number, builder.zext(arriving, I64), I64(0), builder.and_(count, I32(0xFFFF)))


def _append_record(frame: Frame, number: Value, amount: Value, data: Value, last: Value) -> None:
    """Append the fields of a `BARRIER_RECORD`: the object, the amount and the bytes (i64), and the last two in one i32."""
    builder = frame.builder
    word = builder.or_(builder.zext(number, I64), builder.shl(amount, I64(16)))
    pointer = at(builder, frame.context, 8 * Slot.EVENT_CURSOR)
    cursor = load_as(builder, pointer, PTR, 8)
    store_as(builder, builder.or_(word, builder.shl(data, I64(32))), cursor, 1)
    store_as(builder, last, at(builder, cursor, 8), 1)
    store_as(builder, at(builder, cursor, BARRIER_RECORD.itemsize), pointer, 8)


def emit_sector_run(emitter: Frame, first: Value, count: Value) -> None:
    """Append `count` (i32, at most 32) consecutive sectors from sector number `first` (i64), and the event byte."""
    builder, context = emitter.builder, emitter.context
    pointer = at(builder, context, 8 * Slot.SECTOR_CURSOR)
    cursor = load_as(builder, pointer, PTR, 8)
    run = builder.add(splat(builder, builder.trunc(first, I32)), IOTA32)
    store_as(builder, run, cursor, 4)
    store_as(builder, at(builder, cursor, builder.zext(builder.shl(count, I32(2)), I64)), pointer, 8)
    emit_event_byte(emitter, count)


# -- Probes: code that looks for chosen accesses and leaves the address of each of their lanes.
#
# A trace keeps the sectors of an access, and not which lane asked for which. Code compiled with probes compares, at the chosen
# loads, stores and atomics, the running warp with those that are looked for; all other code has none of this.

PER_INSTRUCTION = 2
# A row: the warp of the launch that is looked for (-1: none), how many of its accesses come before (-1: found), mask, addresses.
_SOUGHT, _BEFORE, _MASK, _ADDRESSES = 0, 1, 2, 3
_WORDS = _ADDRESSES + WARP


@dataclass(frozen=True)
class ProbedAccess:
    """The access of warp `warp` of the launch at instruction `pc`, after `before` earlier ones of that warp there."""

    pc: int
    warp: int
    before: int


@dataclass(frozen=True)
class LaneAddresses:
    """Byte addresses of the 32 lanes, int64 [32], and the i32 `mask` of those that accessed memory; others' addresses say nothing.

    Addresses of shared memory are offsets in that of the block, those of local memory within each lane's own; generic addresses of
    both lie in their windows.
    """

    mask: int
    addresses: npt.NDArray[np.int64]


class Probes:
    """What probes look for, and what they have found: memory that native code reads and writes."""

    def __init__(self, instructions: int, accesses: Sequence[ProbedAccess]) -> None:
        self._accesses = list(accesses)
        self._table = np.zeros((instructions, PER_INSTRUCTION, _WORDS), dtype=np.int64)
        self._table[:, :, _SOUGHT] = -1
        taken = [0] * instructions
        self._rows = []
        for access in self._accesses:
            if taken[access.pc] == PER_INSTRUCTION:
                raise ValueError(f"instruction {access.pc} can have at most {PER_INSTRUCTION} probes")
            row = self._table[access.pc, taken[access.pc]]
            row[_SOUGHT], row[_BEFORE] = access.warp, access.before
            self._rows.append(row)
            taken[access.pc] += 1

    @property
    def pointer(self) -> int:
        """Host address of the table."""
        return int(self._table.ctypes.data)

    def end_block(self, warps_per_block: int) -> int:
        """Blocks up to this one have all that is looked for."""
        return max((access.warp // warps_per_block + 1 for access in self._accesses), default=0)

    def results(self) -> list[LaneAddresses | None]:
        """The addresses of each access that was looked for, in order; None where it was not made."""
        return [
            LaneAddresses(int(row[_MASK]) & 0xFFFFFFFF, row[_ADDRESSES:].copy()) if row[_BEFORE] < 0 else None for row in self._rows
        ]


def emit_probe(emitter: Emitter, addresses: Value, mask: Value) -> None:
    """The probe of an access by the lanes of `mask` at `addresses`."""
    function = _probe(emitter.builder.module)
    emitter.builder.call(function, [emitter.context, emitter.pc, mask, addresses])


def _probe(module: ir.Module) -> ir.Function:
    """`void probe(context, pc, mask, addresses)`."""
    function, fresh = internal_function(module, "probe", ir.FunctionType(ir.VoidType(), [PTR, I64, I32, vector(I64)]))
    if not fresh:
        return function
    context, pc, mask, addresses = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    slot = partial(get_slot, builder, context)
    warp = builder.add(builder.mul(slot(Slot.BLOCK), slot(Slot.WARPS_PER_BLOCK)), slot(Slot.WARP))
    table = load_as(builder, at(builder, context, 8 * Slot.PROBE_PTR), PTR, 8)
    for number in range(PER_INSTRUCTION):
        place = builder.mul(builder.add(builder.mul(pc, I64(PER_INSTRUCTION)), I64(number)), I64(8 * _WORDS))
        _look(builder, at(builder, table, place), warp, mask, addresses)
    builder.ret_void()
    return function


def _look(builder: Builder, row: Value, warp: Value, mask: Value, addresses: Value) -> None:
    """Count an access of the warp that `row` looks for, and keep it when it is the one. Continues in a new LLVM block."""
    with builder.if_then(builder.icmp_signed("==", load_as(builder, row, I64, 8), warp)):
        before = at(builder, row, 8 * _BEFORE)
        left = load_as(builder, before, I64, 8)
        store_as(builder, builder.sub(left, I64(1)), before, 8)
        with builder.if_then(builder.icmp_signed("==", left, I64(0))):
            store_as(builder, builder.zext(mask, I64), at(builder, row, 8 * _MASK), 8)
            store_as(builder, addresses, at(builder, row, 8 * _ADDRESSES), 8)
