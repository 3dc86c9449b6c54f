"""Copies of boxes of a tensor (`cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`), and `tensormap.replace`.

They are carried out at once, lane after lane, by `tensor_engine.py`. A load completes as many bytes as its box has in shared
memory, also where the box lies outside of the tensor. With `.multicast::cluster` it does so at the same place in every block of
its mask. With `.cta_group::2` and a multicast the bytes complete, for each block of the mask, in that block of its pair (ranks 2 n
and 2 n + 1) whose rank has the parity of the one with the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from warpsight.base.findings import INITCHECK, MEMCHECK, RACECHECK
from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.access import check_runs, each_block, shared_host
from warpsight.emulator.codegen.cluster_addresses import at_rank
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, PartFrame, call_helper
from warpsight.emulator.codegen.helpers import for_each_lane
from warpsight.emulator.codegen.lanes import (
    I1,
    I16,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    intrinsic,
    lanes_to_mask,
    load_as,
    mask_to_lanes,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import MOST_RANKS, PARAM_WINDOW, RANK_SHIFT, WINDOW_BYTES, Fault, Slot
from warpsight.emulator.codegen.recording import ask_host, emit_barrier_record, emit_bulk_count, emit_event_byte
from warpsight.emulator.codegen.watching import note_copy, note_runs
from warpsight.emulator.ptx import tensor_engine as engine
from warpsight.emulator.ptx.common import elements_of, operands
from warpsight.emulator.ptx.mbarriers import Step, complete_bytes, shared_offsets
from warpsight.emulator.ptx.memory import allow_words, shared_address, window_mask
from warpsight.isa.ptx.program import Immediate, Instruction

MAP_BYTES = 128
_BYTES_A_SECTOR = 4 + 16 + 8  # of its number, of a run's address and size, and of what aligns these
_RANKS = {f"{n}d": n for n in range(1, 6)}
_MODES = {
    "tile": engine.TILE, "im2col": engine.IM2COL, "im2col_no_offs": engine.IM2COL, "im2col::w": engine.WIDE,
    "im2col::w::128": engine.WIDE128, "tile::gather4": engine.ROWS, "tile::scatter4": engine.ROWS,
}  # fmt: skip
_WORDS = (
    "async", "bulk", "tensor", "reduce", "prefetch", "L2", "global", "shared::cta", "shared::cluster", "bulk_group",
    "mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint", "cta_group::1", "cta_group::2",
    *_RANKS, *_MODES, *engine.REDUCTIONS,
)  # fmt: skip


class TensorCopy:
    """One shape of a copy: an operation of the engine on tensors of `rank` dimensions, and what completes a load."""

    def __init__(
        self, operation: int, rank: int, mode: int, reduction: int = 0, multicast: bool = False, step: Step | None = None,
        in_pairs: bool = False,
    ) -> None:
        self.operation, self.rank, self.mode, self.reduction, self.multicast = operation, rank, mode, reduction, multicast
        self.in_pairs = in_pairs
        self.step: dict[str, Any] = {} if step is None else {"function": step}
        self.name = f"tensor_{operation}_{rank}_{mode}_{reduction}_{int(multicast)}_{int(in_pairs)}"

    def call(
        self, frame: Frame, site: int, place: Value, coordinates: list[Value], offsets: list[Value], shared: Value, barrier: Value,
        blocks: Value,
    ) -> None:
        """Copy for each active lane: the map at generic addresses `place`, `coordinates` and `offsets` (<32 x i32>), the box at
        `shared` and the mbarrier object at `barrier`, as `shared_host` takes them, and the mask of blocks that a multicast reaches.
        """
        zero = splat_constant(I32, 0)
        filled = [*coordinates, *[zero] * (5 - len(coordinates)), *offsets, *[zero] * (3 - len(offsets))]
        call_helper(frame, self.name, site, [place, shared, barrier, blocks, *filled], [], self._body)

    def _body(self, helper: HelperFrame) -> list[Value]:
        """Out of line: the lanes one after the other. The sectors of all of them are one event."""
        builder, (place, shared, barrier, blocks, *numbers) = helper.builder, helper.arguments
        maps = map_hosts(helper, place)
        hosts, inside = self._targets(helper, shared, barrier)
        held = [helper.spill(builder.zext(v, vector(I64)), f"tensor{k}") for k, v in enumerate((inside, blocks))]
        wide = (builder.sext(n, vector(I64)) for n in numbers)
        held += [helper.spill(v, f"tensor{k}") for k, v in enumerate((maps, hosts, place, *wide), 2)]
        request = helper.buffer("tensor request", ir.ArrayType(I64, engine.REQUEST_WORDS))
        targets = helper.buffer("tensor targets", ir.ArrayType(I64, 16))
        amount, count = helper.buffer("tensor bytes", vector(I64)), helper.buffer("tensor sectors", I64)
        store_as(builder, ir.Constant(vector(I64), None), amount, 64)
        store_as(builder, I64(0), count, 8)

        def body(inner: Builder, lane: Value) -> None:
            offset = inner.shl(inner.zext(lane, I64), I64(3))
            base, mask, where, host, named, *rest = (load_as(inner, at(inner, p, offset), I64, 8) for p in held)
            self._fill(helper, request, targets, (base, mask, where, host, named), rest)
            self._ask(helper, request, engine.PLAN, lane)
            words = [load_as(inner, at(inner, request, 8 * k), I64, 8) for k in (engine.ROOM, engine.BYTES)]
            made = ask_host(inner, helper.context, inner.mul(words[0], I64(_BYTES_A_SECTOR)))
            helper.leave_if(inner.icmp_signed("==", made, I32(0)))
            self._ask(helper, request, self.operation, lane)
            self._watch_runs(helper, request, lane)
            made = load_as(inner, at(inner, request, 8 * engine.COUNT), I64, 8)
            cursor = at(inner, helper.context, 8 * Slot.SECTOR_CURSOR)
            store_as(inner, inner.add(load_as(inner, cursor, I64, 8), inner.shl(made, I64(2))), cursor, 8)
            store_as(inner, inner.add(load_as(inner, count, I64, 8), made), count, 8)
            store_as(inner, words[1], at(inner, amount, offset), 8)

        for_each_lane(builder, helper.active_mask, body)
        emit_bulk_count(helper, load_as(builder, count, I64, 8))
        if self.operation == engine.REDUCE:  # one lane makes it
            emit_event_byte(helper, builder.zext(builder.icmp_signed("!=", helper.active_mask, I32(0)), I32))
        moved = load_as(builder, amount, vector(I64), 64)
        self._watch(helper, shared, barrier, blocks, moved)
        if self.operation == engine.LOAD:
            self._record(helper, barrier, blocks, moved)
            self._complete(helper, barrier, blocks, moved)
        return []

    def _watch_runs(self, helper: HelperFrame, request: Value, lane: Value) -> None:
        """Tell racecheck of what a lane's copy accesses in device memory."""
        if RACECHECK not in helper.checks:
            return
        words = (at(helper.builder, request, 8 * word) for word in (engine.RUNS, engine.RUN_COUNT))
        runs, count = (load_as(helper.builder, word, I64, 8) for word in words)
        note_runs(helper, lane, runs, count, writes=self.operation != engine.LOAD, reduces=self.operation == engine.REDUCE)

    def _watch(self, helper: HelperFrame, shared: Value, barrier: Value, blocks: Value, moved: Value) -> None:
        """Tell racecheck of the boxes in shared memory."""

        def of_block(frame: Frame, there: Value, signal: Value) -> None:
            place, until = (frame.builder.zext(value, vector(I64)) for value in (there, signal))
            note_copy(frame, "shared", place, moved, writes=True, until=until)

        if self.operation != engine.LOAD:
            by_group = watcher.AT_ONCE if self.step else watcher.BY_GROUP  # machine code does not say for which groups it waits
            note_copy(helper, "shared", helper.builder.zext(shared, vector(I64)), moved, writes=False, until=by_group)
        elif not self.multicast:
            of_block(helper, shared, barrier)
        elif RACECHECK in helper.checks:
            def reached(frame: Frame, rank: Value) -> None:
                for part, signal in self._signalled(frame, barrier, rank):
                    of_block(part, at_rank(part, shared, rank), signal)

            each_block(helper, blocks, reached)

    def _record(self, helper: HelperFrame, barrier: Value, blocks: Value, moved: Value) -> None:
        """Say where bytes complete. In pairs they come to one block of each pair, of both blocks if the multicast reaches both."""
        builder, zero = helper.builder, splat_constant(I64, 0)
        data = builder.sub(zero, moved)
        if not self.multicast:
            emit_barrier_record(helper, barrier, zero, data, zero)
            return
        signalled = blocks
        if self.in_pairs:
            even, beside = splat_constant(I32, 0x5555), builder.lshr(blocks, splat_constant(I32, 1))
            both = builder.and_(builder.and_(blocks, beside), even)
            twice = builder.icmp_signed("!=", both, splat_constant(I32, 0))
            data = builder.select(twice, builder.shl(data, splat_constant(I64, 1)), data)
            odd = mask_to_lanes(builder, _by_parity(helper, barrier)[1])
            pairs = builder.and_(builder.or_(blocks, beside), even)
            signalled = builder.shl(pairs, builder.zext(odd, vector(I32)))
        emit_barrier_record(helper, barrier, zero, data, builder.zext(blocks, vector(I64)), signalled)

    def _targets(self, helper: HelperFrame, shared: Value, barrier: Value) -> tuple[Value, Value]:
        """Host addresses (<32 x i64>) of byte 0 of the shared memory with the box, and the box's offset there (<32 x i32>)."""
        builder = helper.builder
        inside = builder.and_(shared, splat_constant(I32, 0xFFFFFF)) if helper.clustered else shared
        host = shared_host(helper, shared, 16)
        return builder.sub(host, builder.zext(inside, vector(I64))), inside

    def _fill(self, helper: HelperFrame, request: Value, targets: Value, place: tuple[Value, ...], rest: list[Value]) -> None:
        """Write the request of one lane."""
        builder, (base, mask, where, host, named) = helper.builder, place
        count: Value = I64(1)
        if self.multicast:
            count = self._reached(helper, targets, mask)
        else:
            store_as(builder, host, at(builder, targets, 0), 8)
        watched = INITCHECK in helper.checks
        shadows = [helper.slot(s) if watched else I64(0) for s in (Slot.GLOBAL_SHADOW, Slot.SHARED_SHADOW)]
        words: dict[int, Value] = {
            engine.MAP: where, engine.NAMED: named, engine.DELTA: helper.slot(Slot.ARENA_DELTA),
            engine.ALLOCATIONS: helper.slot(Slot.ALLOC_PTR),
            engine.ALLOCATION_COUNT: helper.slot(Slot.ALLOC_COUNT), engine.HOSTS: builder.ptrtoint(at(builder, targets, 0), I64),
            engine.WITHIN: I64(int(MEMCHECK in helper.checks)), engine.HOST_COUNT: count, engine.BASE: base,
            engine.LIMIT: helper.slot(Slot.SHARED_SIZE), engine.RANK: I64(self.rank),
            **{engine.COORDINATES + k: value for k, value in enumerate(rest[:5])},
            **{engine.OFFSETS + k: value for k, value in enumerate(rest[5:])},
            **{engine.SHADOWS + k: value for k, value in enumerate(shadows)},
        }  # fmt: skip
        for word, value in words.items():
            store_as(builder, value, at(builder, request, 8 * word), 8)

    def _reached(self, helper: HelperFrame, targets: Value, mask: Value) -> Value:
        """Where the shared memory of the blocks of a multicast begins, one after the other; how many there are."""
        builder = helper.builder
        if not helper.clustered:
            store_as(builder, helper.slot(Slot.SHARED_PTR), at(builder, targets, 0), 8)
            return builder.and_(mask, I64(1))
        start, step = helper.slot(Slot.CLUSTER_SHARED), helper.slot(Slot.CLUSTER_STRIDE)
        count: Value = I64(0)
        for rank in range(MOST_RANKS):
            host = builder.add(start, builder.mul(step, I64(rank)))
            store_as(builder, host, at(builder, targets, builder.shl(builder.and_(count, I64(MOST_RANKS - 1)), I64(3))), 8)
            count = builder.add(count, builder.and_(builder.lshr(mask, I64(rank)), I64(1)))
        return count

    def _ask(self, helper: HelperFrame, request: Value, operation: int, lane: Value) -> None:
        """Call the engine; stop on a failure."""
        builder = helper.builder
        what = operation | self.mode << engine.MODE_SHIFT | self.reduction << engine.REDUCTION_SHIFT
        sectors, runs = helper.slot(Slot.SECTOR_CURSOR), I64(0)
        if operation != engine.PLAN and RACECHECK in helper.checks:  # behind the sectors, where nothing will be kept
            room = load_as(builder, at(builder, request, 8 * engine.ROOM), I64, 8)
            runs = builder.and_(builder.add(builder.add(sectors, builder.shl(room, I64(2))), I64(7)), I64(-8))
        for word, value in ((engine.WHAT, I64(what)), (engine.SECTORS, sectors), (engine.RUNS, runs)):
            store_as(builder, value, at(builder, request, 8 * word), 8)
        builder.call(intrinsic(builder.module, "warpsight_tensor", ir.VoidType(), [PTR]), [at(builder, request, 0)])
        failure, address = (load_as(builder, at(builder, request, 8 * k), I64, 8) for k in (engine.FAILURE, engine.ADDRESS))
        for kind in map(Fault, engine.FAILURES):
            helper.stop_if(builder.icmp_signed("==", failure, I64(kind)), kind, lambda: (lane, address))

    def _complete(self, helper: HelperFrame, barrier: Value, blocks: Value, amount: Value) -> None:
        """The bytes of each lane's box complete on the mbarrier object, of a multicast at the same place in each block."""
        if self.multicast:
            def signal(frame: Frame, rank: Value) -> None:
                for part, there in self._signalled(frame, barrier, rank):
                    complete_bytes(part, there, amount, **self.step)

            each_block(helper, blocks, signal)
        else:
            complete_bytes(helper, barrier, amount, **self.step)

    def _signalled(self, frame: Frame, barrier: Value, rank: Value) -> Iterator[tuple[Frame, Value]]:
        """On which objects a multicast completes for the block of a rank (i32), and of which lanes."""
        if not self.in_pairs:
            yield frame, at_rank(frame, barrier, rank)
            return
        for parity, lanes in enumerate(_by_parity(frame, barrier)):
            part = PartFrame(frame, lanes)
            block = frame.builder.or_(frame.builder.and_(rank, I32(-2)), I32(parity))
            yield part, at_rank(part, barrier, block)


def _by_parity(frame: Frame, objects: Value) -> tuple[Value, Value]:
    """The active lanes (i32 masks) whose object, as `shared_host` takes it, is in a block with an even rank, and an odd one."""
    builder = frame.builder
    own = builder.trunc(frame.slot(Slot.CLUSTER_RANK), I32)
    rank = builder.add(builder.lshr(objects, splat_constant(I32, RANK_SHIFT)), splat(builder, own))
    odd = lanes_to_mask(builder, builder.trunc(rank, vector(I1)))
    return builder.and_(frame.active_mask, builder.not_(odd)), builder.and_(frame.active_mask, odd)


def map_hosts(helper: HelperFrame, addresses: Value) -> Value:
    """Where tensor maps at generic addresses lie on the host: among the kernel's parameters, or in device memory (<32 x i64>)."""
    builder = helper.builder
    offset = builder.sub(addresses, splat_constant(I64, PARAM_WINDOW))
    inside = builder.icmp_unsigned("<", offset, splat_constant(I64, WINDOW_BYTES))
    room = builder.sub(helper.slot(Slot.PARAM_SIZE), I64(MAP_BYTES))
    fits = builder.icmp_signed("<=", offset, splat(builder, room))
    beyond = builder.and_(lanes_to_mask(builder, builder.and_(inside, builder.not_(fits))), helper.active_mask)
    helper.stop_lanes(beyond, Fault.PARAM_BOUNDS, lambda lane: builder.extract_element(offset, lane))
    device = builder.and_(helper.active_mask, builder.not_(lanes_to_mask(builder, inside)))
    check_runs(helper, device, addresses, splat_constant(I32, MAP_BYTES), 64, writes=False)
    parameters = builder.add(offset, splat(builder, helper.slot(Slot.PARAM_PTR)))
    return builder.select(inside, parameters, builder.add(addresses, splat(builder, helper.slot(Slot.ARENA_DELTA))))


# -- The instructions.


def tensor_copy(emitter: Emitter, instruction: Instruction) -> None:
    """`cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`, `cp.async.bulk.prefetch.tensor`."""
    allow_words(emitter, instruction, *_WORDS)
    modifiers = instruction.modifiers
    rank = next((_RANKS[m] for m in modifiers if m in _RANKS), 0)
    modes = [m for m in modifiers if m in _MODES]
    mode = _MODES[modes[0]] if modes else engine.TILE
    by_rows = mode == engine.ROWS
    walks, loads = mode not in (engine.TILE, engine.ROWS), "mbarrier::complete_tx::bytes" in modifiers
    if not rank or len(modes) > 1 or (walks and rank < 3) or (by_rows and (rank != 2 or "reduce" in modifiers)):
        raise emitter.unsupported("its dimensions or its mode are not recognized")
    arguments = list(instruction.operands)
    if "L2::cache_hint" in modifiers:
        emitter.read(arguments.pop(), "b64")
    multicast = "multicast::cluster" in modifiers
    zero = splat_constant(I32, 0)
    blocks = emitter.builder.zext(emitter.read(arguments.pop(), "b16"), vector(I32)) if multicast else zero
    if "prefetch" in modifiers:
        _prefetch(emitter, arguments, 5 if by_rows else rank)
        return
    if loads is ("bulk_group" in modifiers):
        raise emitter.unsupported("it must complete on an mbarrier object or in a bulk group")
    count = (4 if loads else 3) + int(loads and walks)
    if len(arguments) != count:
        raise emitter.unsupported(f"it has {len(arguments)} operands; {count} expected")
    offsets: list[Value] = []
    if loads:
        box, place, where, barrier, *more = arguments
        if more:
            moves = rank - 2 if mode == engine.IM2COL else 2
            offsets = [_offset(emitter, element) for element in _listed(emitter, more[0], moves, "offsets")]
        objects = emitter.cluster_address(barrier)
    else:
        (place, where, box), objects = arguments, zero
    listed = _listed(emitter, where, 5 if by_rows else rank, "coordinates")  # of four rows the column, then each of them
    coordinates = [emitter.read(element, "s32") for element in listed]
    reduction = next((engine.REDUCTIONS.index(m) for m in modifiers if m in engine.REDUCTIONS), 0)
    operation = engine.LOAD if loads else engine.REDUCE if "reduce" in modifiers else engine.STORE
    shared = shared_address(emitter, box, "cluster" if "shared::cluster" in modifiers else "shared")
    copy = TensorCopy(operation, rank, mode, reduction, multicast, in_pairs="cta_group::2" in modifiers and emitter.clustered)
    copy.call(
        emitter, emitter.kernel.next_site(), emitter.effective_address(place), coordinates, offsets, shared, objects, blocks
    )


def _listed(emitter: Emitter, operand: Any, count: int, what: str) -> list[Any]:
    found = elements_of(operand)
    if len(found) != count:
        raise emitter.unsupported(f"it has {len(found)} {what}; {count} expected")
    return found


def _offset(emitter: Emitter, operand: Any) -> Value:
    return emitter.builder.zext(emitter.builder.bitcast(emitter.read(operand, "u16"), vector(I16)), vector(I32))


def _prefetch(emitter: Emitter, arguments: list[Any], rank: int) -> None:
    """A hint."""
    place, where, *_ = arguments
    emitter.effective_address(place)
    for element in _listed(emitter, where, rank, "coordinates"):
        emitter.read(element, "s32")


# -- `tensormap.replace`: a field of a map in device memory or in the block's shared memory.

# First byte, first bit and bits of a field, or of its part with an ordinal.
_FIELDS = {
    "rank": (8, 4, 3), "interleave_layout": (8, 11, 2), "swizzle_mode": (8, 13, 2), "fill_mode": (8, 15, 1),
    "swizzle_atomicity": (8, 22, 2),
}  # fmt: skip


def replace(emitter: Emitter, instruction: Instruction) -> None:
    """`tensormap.replace.tile.field{.space}.b1024.type [address], {ordinal,} value`, and `tensormap.cp_fenceproxy`."""
    if "cp_fenceproxy" in instruction.modifiers:
        _copy_map(emitter, instruction)
        return
    fields = (*_FIELDS, "elemtype", "global_address", "box_dim", "global_dim", "global_stride", "element_stride")
    allow_words(emitter, instruction, "replace", "tile", "global", "shared::cta", "b1024", *fields)
    modifiers, builder = instruction.modifiers, emitter.builder
    field = next((m for m in modifiers if m in fields), "")
    ordered = field in fields[-4:]
    address, *rest = operands(emitter, instruction, 3 if ordered else 2)
    number = emitter.immediate_value(rest.pop(0)) if ordered else 0
    if not field or not 0 <= number < 5:
        raise emitter.unsupported("its field is not recognized")
    if field == "elemtype":
        _write_fields(emitter, instruction, address, field, _element_type(emitter, emitter.immediate_value(rest[0])))
        return
    wide = field in ("global_address", "global_stride")
    if not wide and isinstance(rest[0], Immediate):
        value = splat_constant(I64, emitter.immediate_value(rest[0]) & 0xFFFFFFFF)
    else:
        value = builder.zext(emitter.read(rest[0], "b32"), vector(I64)) if not wide else emitter.read(rest[0], "b64")
    one = splat_constant(I64, 1)
    if field == "global_address":
        parts = [(0, 0, 32, value), (4, 0, 32, builder.lshr(value, splat_constant(I64, 32)))]
    elif field == "global_stride":
        units = builder.lshr(value, splat_constant(I64, 4))
        parts = [(12 + 4 * number, 0, 32, units), (28, 4 * number, 4, builder.lshr(units, splat_constant(I64, 32)))]
    elif ordered:
        first, bit, bits = {
            "global_dim": (32 + 4 * number, 0, 32), "element_stride": (52, 3 * number, 3),
            "box_dim": ((55 + number) // 4 * 4, (55 + number) % 4 * 8, 8),
        }[field]  # fmt: skip
        parts = [(first, bit, bits, builder.sub(value, one))]
    else:
        parts = [(*_FIELDS[field], value)]
    _write_fields(emitter, instruction, address, field, parts)


def _element_type(emitter: Emitter, number: int) -> list[Any]:
    """The parts of a map that say its type (`engine.ELEMENTS`). As the assembler does it, nothing takes bit 16 away again."""
    if not 0 <= number < len(engine.ELEMENTS):
        raise emitter.unsupported("its element type is not recognized")
    rounds = engine.TF32 <= number <= engine.TF32_FTZ
    code = number - engine.TF32 + engine.F32 if rounds else number - 2 * (number > engine.TF32_FTZ)
    return [(8, 7, 4, splat_constant(I64, code)), *([(8, 16, 1, splat_constant(I64, 1))] if rounds else [])]


def _copy_map(emitter: Emitter, instruction: Instruction) -> None:
    """`tensormap.cp_fenceproxy ... [to], [from], 128`: a map that was made in shared memory goes to device memory."""
    scopes = ("cta", "cluster", "gpu", "sys")
    known = ("cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", "sync", "aligned", *scopes)
    allow_words(emitter, instruction, *known)
    to, made, size = operands(emitter, instruction, 3)
    if emitter.immediate_value(size) != MAP_BYTES:
        raise emitter.unsupported(f"its size is not {MAP_BYTES}")
    addresses = [emitter.effective_address(to), shared_address(emitter, made, "shared")]

    def body(helper: HelperFrame) -> list[Value]:
        builder, (target, source) = helper.builder, helper.arguments
        check_runs(helper, helper.active_mask, target, splat_constant(I32, MAP_BYTES), MAP_BYTES, writes=True)
        target = builder.add(target, splat(builder, helper.slot(Slot.ARENA_DELTA)))
        held = [helper.spill(target, "to"), helper.spill(shared_host(helper, source, MAP_BYTES, MAP_BYTES), "from")]

        def of_lane(inner: Builder, lane: Value) -> None:
            offset = inner.shl(inner.zext(lane, I64), I64(3))
            there, here = (load_as(inner, at(inner, p, offset), I64, 8) for p in held)
            for byte in range(0, MAP_BYTES, 8):
                value = load_as(inner, inner.inttoptr(inner.add(here, I64(byte)), PTR), I64, 8)
                store_as(inner, value, inner.inttoptr(inner.add(there, I64(byte)), PTR), 8)

        for_each_lane(builder, helper.active_mask, of_lane)
        return []

    call_helper(emitter, "tensormap_cp_fenceproxy", emitter.kernel.next_site(), addresses, [], body)


def _write_fields(emitter: Emitter, instruction: Instruction, address: Any, field: str, parts: list[Any]) -> None:
    in_shared = "shared::cta" in instruction.modifiers
    if in_shared:
        where = shared_offsets(emitter, instruction, address)
    else:
        where = emitter.effective_address(address)
        if "global" not in instruction.modifiers:
            emitter.stop_lanes(window_mask(emitter, where, 1 << 24), Fault.GENERIC_SPACE)
    places = [(first, bit, bits) for first, bit, bits, _ in parts]

    def body(helper: HelperFrame) -> list[Value]:
        builder, (lanes, *values) = helper.builder, helper.arguments
        if in_shared:
            host = shared_host(helper, lanes, MAP_BYTES, 64)
        else:
            check_runs(helper, helper.active_mask, lanes, splat_constant(I32, MAP_BYTES), 64, writes=True)
            host = builder.add(lanes, splat(builder, helper.slot(Slot.ARENA_DELTA)))
        held = [helper.spill(v, f"replaced{k}") for k, v in enumerate((host, *values))]

        def of_lane(inner: Builder, lane: Value) -> None:
            offset = inner.shl(inner.zext(lane, I64), I64(3))
            start, *news = (load_as(inner, at(inner, p, offset), I64, 8) for p in held)
            for (first, bit, bits), new in zip(places, news, strict=True):
                pointer = inner.inttoptr(inner.add(start, I64(first)), PTR)
                mask = I32(((1 << bits) - 1) << bit & 0xFFFFFFFF)
                shifted = inner.and_(inner.shl(inner.trunc(new, I32), I32(bit)), mask)
                store_as(inner, inner.or_(inner.and_(load_as(inner, pointer, I32, 4), inner.not_(mask)), shifted), pointer, 4)

        for_each_lane(builder, helper.active_mask, of_lane)
        return []

    name = f"tensormap_{field}_{'_'.join(str(n) for place in places for n in place)}_{int(in_shared)}"
    call_helper(emitter, name, emitter.kernel.next_site(), [where, *(value for *_, value in parts)], [], body)
