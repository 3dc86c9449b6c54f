"""mbarrier objects: `mbarrier.*`, `cp.async.mbarrier.arrive`, and what completes on one: the stores and reductions `st.async` and
`red.async`, and `clusterlaunchcontrol`. All but `init`, `inval` and waits may be of an object in another block of the cluster.

The object is opaque in PTX. Here its 64 bits are, from bit 0: 20 bits pending arrivals, 20 bits arrivals that the next phase
expects, 21 bits pending transaction bytes (signed), and from the top: the phase's parity, a mark of initialisation. A phase
completes when no arrival and no byte is pending. The state that an arrival gives is the object before it.

`test_wait` and `try_wait` never wait: they say whether the phase has completed by now, so that a loop around them is what waits.
Lanes act one after the other, lowest first. Of what PTX leaves undefined, an object that was not initialised, an arrival past the
count and a byte count past the limit stop the launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from warpsight.base.findings import INITCHECK, SYNCCHECK
from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.access import Access, each_block, shared_access, shared_host, stop_on
from warpsight.emulator.codegen.cluster_addresses import at_rank
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, PartFrame, call_helper
from warpsight.emulator.codegen.helpers import for_each_lane
from warpsight.emulator.codegen.lanes import (
    I1,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    bits_of,
    gather,
    internal_function,
    lanes_to_mask,
    load_as,
    mask_to_lanes,
    scalar_type,
    scatter,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import SHARED_WINDOW, Fault, Slot
from warpsight.emulator.codegen.recording import emit_barrier_record
from warpsight.emulator.codegen.watching import note, note_objects, note_written
from warpsight.emulator.ptx import memory
from warpsight.emulator.ptx.atomics import Shape, atomic, operation_of, shared_place
from warpsight.emulator.ptx.common import operands
from warpsight.emulator.ptx.memory import (
    SHARED_SPACES,
    VECTORS,
    allow_words,
    memory_type,
    shared_address,
    vector_parts,
    window_mask,
    window_offset,
)
from warpsight.isa.ptx.program import Instruction

COUNT_BITS, TX_BITS = 20, 21
COUNT_MASK = (1 << COUNT_BITS) - 1
TX_SHIFT = 2 * COUNT_BITS
Step = Callable[[ir.Module], ir.Function]  # gives the function that changes an object, in the form that objects have
VALID, PHASE = 1 << 62, 1 << 63
_WORDS = (
    "init", "inval", "expect_tx", "complete_tx", "arrive", "arrive_drop", "test_wait", "try_wait", "pending_count", "parity",
    "noComplete", "relaxed", "acquire", "release", "cta", "cluster", *SHARED_SPACES,
)  # fmt: skip


def shared_offsets(emitter: Emitter, instruction: Instruction, address: Any) -> Value:
    """<32 x i32> offsets of an operand in shared memory; a generic address outside of it becomes one that no access may have."""
    if any(m in SHARED_SPACES for m in instruction.modifiers):
        return shared_address(emitter, address, "cluster" if "shared::cluster" in instruction.modifiers else "shared")
    builder, places = emitter.builder, emitter.effective_address(address)
    inside = mask_to_lanes(builder, window_mask(emitter, places, SHARED_WINDOW))
    return builder.select(inside, window_offset(emitter, places, SHARED_WINDOW), splat_constant(I32, 0xFFFFFFF8))


def step_function(module: ir.Module) -> ir.Function:
    """`i32 step(object, arrivals, dropped, bytes, before)`: change an object, keep what it was; 0 or the kind of fault."""
    function, fresh = internal_function(module, "mbarrier_step", ir.FunctionType(I32, [PTR, I64, I64, I64, PTR]))
    if not fresh:
        return function
    pointer, arrivals, dropped, transferred, before = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    old = load_as(builder, pointer, I64, 8)
    store_as(builder, old, before, 8)
    pending = builder.and_(old, I64(COUNT_MASK))
    expected = builder.and_(builder.lshr(old, I64(COUNT_BITS)), I64(COUNT_MASK))
    tx = builder.ashr(builder.shl(old, I64(64 - TX_SHIFT - TX_BITS)), I64(64 - TX_BITS))
    tx = builder.add(tx, transferred)
    unknown = builder.icmp_signed("==", builder.and_(old, I64(VALID)), I64(0))
    too_many = builder.icmp_unsigned(">", arrivals, pending)
    beyond = builder.icmp_unsigned(">", builder.add(tx, I64(COUNT_MASK)), I64(2 * COUNT_MASK))
    wrong = builder.or_(too_many, beyond)
    failed, good = builder.append_basic_block("failed"), builder.append_basic_block("good")
    builder.cbranch(builder.or_(unknown, wrong), failed, good)
    builder.position_at_end(failed)
    builder.ret(builder.select(unknown, I32(Fault.MBARRIER_STATE), I32(Fault.MBARRIER_COUNT)))
    builder.position_at_end(good)
    pending, expected = builder.sub(pending, arrivals), builder.sub(expected, dropped)
    complete = builder.icmp_signed("==", builder.or_(pending, tx), I64(0))
    pending = builder.select(complete, expected, pending)
    phase = builder.xor(builder.and_(old, I64(PHASE)), builder.select(complete, I64(PHASE), I64(0)))
    tx = builder.shl(builder.and_(tx, I64((1 << TX_BITS) - 1)), I64(TX_SHIFT))
    new = builder.or_(builder.or_(pending, builder.shl(expected, I64(COUNT_BITS))), builder.or_(tx, phase))
    store_as(builder, builder.or_(new, I64(VALID)), pointer, 8)
    builder.ret(I32(0))
    return function


def stop_or_note(frame: Frame, bad: Value, offsets: Value, kind: Fault) -> None:
    """`stop_on`, or with synccheck a finding of the active lanes of an i32 mask, and the launch goes on."""
    if SYNCCHECK in frame.checks:
        note(frame, frame.builder.and_(bad, frame.active_mask), kind, frame.builder.zext(offsets, vector(I64)))
    else:
        stop_on(frame, bad, offsets, kind)


def step_lanes(
    frame: Frame, host: Value, arrivals: Value, dropped: Value, transferred: Value, offsets: Value,
    function: Step = step_function,
) -> Value:
    """Change the objects at <32 x i64> host addresses, active lane by lane; the amounts are <32 x i64>. Gives the old objects.

    `offsets` (<32 x i32>) are what a fault names. `function` makes a change of one object, in the form that objects have.
    """
    builder = frame.builder
    step = function(builder.module)
    held = [frame.spill(v, f"barrier{k}") for k, v in enumerate((host, arrivals, dropped, transferred))]
    results = frame.spill(splat_constant(I64, 0), "barrier states")

    def body(inner: Builder, lane: Value) -> None:
        offset = inner.shl(inner.zext(lane, I64), I64(3))
        place, *amounts = (load_as(inner, at(inner, pointer, offset), I64, 8) for pointer in held)
        kind = inner.call(step, [inner.inttoptr(place, PTR), *amounts, at(inner, results, offset)])
        for fault in (Fault.MBARRIER_STATE, Fault.MBARRIER_COUNT):
            failed = inner.icmp_signed("==", kind, I32(fault))
            if SYNCCHECK in frame.checks:  # the object stays as it is
                this = inner.select(failed, inner.shl(I32(1), lane), I32(0))
                note(frame, this, fault, inner.zext(offsets, vector(I64)))
                continue
            frame.stop_if(failed, fault, lambda: (lane, inner.zext(inner.extract_element(offsets, lane), I64)))

    for_each_lane(builder, frame.active_mask, body)
    return load_as(builder, results, vector(I64), 64)


def complete_bytes(
    frame: Frame, offsets: Value, transferred: Value, function: Step = step_function, *, recorded: bool = False
) -> None:
    """`complete_tx` of <32 x i64> bytes on the objects at shared offsets, as part of a copy or a store."""

    def body(helper: HelperFrame) -> list[Value]:
        where, amount = helper.arguments
        builder, zero = helper.builder, splat_constant(I64, 0)
        place, moved = shared_host(helper, where, 8), builder.sub(zero, amount)
        step_lanes(helper, place, zero, zero, moved, where, function)
        if recorded:
            emit_barrier_record(helper, where, zero, moved, zero)
        return []

    call_helper(frame, f"mbarrier_complete{'_recorded' * recorded}", 0, [offsets, transferred], [], body)


def mbarrier(emitter: Emitter, instruction: Instruction) -> None:
    """`mbarrier` in its forms; `_FORMS` lists them."""
    allow_words(emitter, instruction, *_WORDS)
    if "b64" not in instruction.modifiers:
        raise emitter.unsupported("its type is not .b64")
    emit = _FORMS.get(instruction.modifiers[0])
    if emit is None:
        raise emitter.unsupported("it is not modelled")
    emit(emitter, instruction)


def _call(emitter: Emitter, name: str, offsets: Value, arguments: list[Value], results: list[Any], body: Any) -> list[Value]:
    return call_helper(emitter, f"mbarrier_{name}", emitter.kernel.next_site(), [offsets, *arguments], results, body)


def _set(emitter: Emitter, instruction: Instruction) -> None:
    """`init`: the count is what the first phase waits for and the following ones expect. `inval`: forget the object."""
    address, *count = operands(emitter, instruction, 2 if instruction.modifiers[0] == "init" else 1)
    builder = emitter.builder
    word = splat_constant(I64, 0)
    offsets = shared_offsets(emitter, instruction, address)
    if count:
        number = emitter.read(count[0], "u32")
        beyond = builder.icmp_unsigned(">=", builder.sub(number, splat_constant(I32, 1)), splat_constant(I32, COUNT_MASK))
        stop_or_note(emitter, lanes_to_mask(builder, beyond), offsets, Fault.MBARRIER_COUNT)
        wide = builder.zext(number, vector(I64))
        word = builder.or_(wide, builder.shl(wide, splat_constant(I64, COUNT_BITS)))
        word = builder.or_(word, splat_constant(I64, VALID))

    def body(helper: HelperFrame) -> list[Value]:
        where, modifiers = helper.arguments
        place = shared_place(helper, where, 8, sharing=False, reads=False)
        pointers = helper.builder.inttoptr(place, vector(PTR))
        if count:
            note_live(helper, pointers, where, is_live)
            note_objects(helper, helper.active_mask, where, watcher.INITIALISED)
        scatter(helper.builder, modifiers, pointers, helper.active)
        return []

    _call(emitter, "init" if count else "inval", offsets, [word], [], body)


def note_live(helper: HelperFrame, pointers: Value, offsets: Value, live: Callable[[Builder, Value], Value]) -> None:
    """For synccheck, before objects are initialised: is there an object already? `live(builder, words)` says so (<32 x i1>)."""
    if SYNCCHECK in helper.checks:
        builder = helper.builder
        known = lanes_to_mask(builder, live(builder, gather(builder, pointers, helper.active, I64)))
        note(helper, builder.and_(known, helper.active_mask), watcher.MBARRIER_LIVE, builder.zext(offsets, vector(I64)))


def is_live(builder: Builder, words: Value) -> Value:
    """Whether words hold objects: the mark, and counts that an object can have."""
    mask = splat_constant(I64, COUNT_MASK)
    pending, expected = (builder.and_(builder.lshr(words, splat_constant(I64, first)), mask) for first in (0, COUNT_BITS))
    marked = builder.icmp_signed("!=", builder.and_(words, splat_constant(I64, VALID)), splat_constant(I64, 0))
    counts = builder.icmp_unsigned("<", builder.sub(pending, splat_constant(I64, 1)), expected)
    return builder.and_(marked, counts)


def _change(emitter: Emitter, instruction: Instruction) -> None:
    """`arrive`, `arrive_drop` (both with `.expect_tx` or `.noComplete`), `expect_tx`, `complete_tx`."""
    builder, modifiers = emitter.builder, instruction.modifiers
    zero, one = splat_constant(I64, 0), splat_constant(I64, 1)
    name, arrives = modifiers[0], modifiers[0].startswith("arrive")
    if arrives:
        needs_amount = "expect_tx" in modifiers or "noComplete" in modifiers
        destination, address, *rest = operands(emitter, instruction, 3 if needs_amount else 2, 3)
    else:
        destination, (address, *rest) = None, operands(emitter, instruction, 2)
    amount = builder.zext(emitter.read(rest[0], "u32"), vector(I64)) if rest else one
    if "expect_tx" in modifiers:
        arrivals, transferred = one if arrives else zero, amount
    elif name == "complete_tx":
        arrivals, transferred = zero, builder.sub(zero, amount)
    else:
        arrivals, transferred = amount, zero
    dropped = arrivals if name == "arrive_drop" else zero
    offsets = shared_offsets(emitter, instruction, address)
    (state,) = _call(emitter, "change", offsets, [arrivals, dropped, transferred], [vector(I64)], _changed)
    emitter.write(destination, state, "b64")


def _changed(helper: HelperFrame) -> list[Value]:
    """Out of line: arrivals, drops and bytes of each lane."""
    where, arrivals, dropped, transferred = helper.arguments
    note_objects(helper, helper.active_mask, where, watcher.ARRIVED)
    objects = step_lanes(helper, shared_place(helper, where, 8), arrivals, dropped, transferred, where)
    emit_barrier_record(helper, where, arrivals, transferred, _expected(helper.builder, objects))
    return [objects]


def _expected(builder: Builder, objects: Value) -> Value:
    """The arrivals that a phase of each object expects."""
    return builder.and_(builder.lshr(objects, splat_constant(I64, COUNT_BITS)), splat_constant(I64, COUNT_MASK))


def _wait(emitter: Emitter, instruction: Instruction) -> None:
    """`test_wait` and `try_wait`: is the phase of the state (`.parity`: of that parity) over? The time limit is not used."""
    longest = 4 if instruction.modifiers[0] == "try_wait" else 3
    p, address, phase, *limit = operands(emitter, instruction, 3, longest)
    builder = emitter.builder
    if limit:
        emitter.read(limit[0], "u32")
    if "parity" in instruction.modifiers:
        parity = builder.zext(emitter.read(phase, "u32"), vector(I64))
    else:
        parity = builder.lshr(emitter.read(phase, "b64"), splat_constant(I64, 63))

    def body(helper: HelperFrame) -> list[Value]:
        where, waited = helper.arguments
        inner = helper.builder
        place = shared_place(helper, where, 8, sharing=False)
        modifiers = gather(inner, inner.inttoptr(place, vector(PTR)), helper.active, I64)
        unknown = inner.icmp_signed("==", inner.and_(modifiers, splat_constant(I64, VALID)), splat_constant(I64, 0))
        unknown = lanes_to_mask(inner, unknown)
        stop_or_note(helper, unknown, where, Fault.MBARRIER_STATE)
        emit_test_record(helper, where, waited)
        now = inner.lshr(modifiers, splat_constant(I64, 63))
        over = lanes_to_mask(inner, inner.icmp_signed("!=", now, inner.and_(waited, splat_constant(I64, 1))))
        note_objects(helper, over, where, watcher.WAITED, waited)
        return [inner.or_(over, unknown)]  # where there is no object nobody waits for ever

    offsets = shared_offsets(emitter, instruction, address)
    (over,) = _call(emitter, "wait", offsets, [parity], [I32], body)
    if longest == 4:
        over = emitter.kernel.in_turn(builder, over)
    emitter.write(p, mask_to_lanes(builder, over), "pred")


def emit_test_record(helper: HelperFrame, where: Value, parity: Value) -> None:
    """Append a `BARRIER_RECORD` of a test: the parity is that of the first lane."""
    builder, zero, mask = helper.builder, splat_constant(I64, 0), helper.active_mask
    first = PartFrame(helper, builder.and_(mask, builder.sub(I32(0), mask)))
    emit_barrier_record(first, where, builder.and_(parity, splat_constant(I64, 1)), zero, zero)


def _pending_count(emitter: Emitter, instruction: Instruction) -> None:
    """`pending_count.b64 count, state`: the arrivals that were pending when the state was taken."""
    d, state = operands(emitter, instruction, 2)
    builder = emitter.builder
    count = builder.and_(emitter.read(state, "b64"), splat_constant(I64, COUNT_MASK))
    emitter.write(d, builder.trunc(count, vector(I32)), "u32")


def arrive(emitter: Emitter, offsets: Value, arrivals: int = 1) -> None:
    """Each active lane arrives on the object at its offset (<32 x i32>), so many times."""
    zero = splat_constant(I64, 0)
    _call(emitter, "change", offsets, [splat_constant(I64, arrivals), zero, zero], [vector(I64)], _changed)


def arrive_in_blocks(
    frame: Frame, site: int, offsets: Value, blocks: Value, step: Step = step_function,
    expected: Callable[[Builder, Value], Value] = _expected,
) -> None:
    """Arrive on the objects at the same place (<32 x i32>) in each block of a mask (<32 x i32>).

    `step` makes a change of an object in the form that objects have, and `expected` reads from them what they expect.
    """

    def body(helper: HelperFrame) -> list[Value]:
        builder, (where, mask) = helper.builder, helper.arguments
        zero, one = splat_constant(I64, 0), splat_constant(I64, 1)
        own = at_rank(helper, where, builder.trunc(helper.slot(Slot.CLUSTER_RANK), I32))
        note_objects(helper, helper.active_mask, where, watcher.ARRIVED)
        shared_place(helper, own, 8)
        objects = helper.spill(zero, "objects of the blocks")

        def signal(part: Frame, rank: Value) -> None:
            there = at_rank(part, where, rank)
            found = step_lanes(part, shared_host(part, there, 8), one, zero, zero, there, step)
            known = load_as(part.builder, objects, vector(I64), 64)
            store_as(part.builder, part.builder.select(part.active, found, known), objects, 64)

        each_block(helper, mask, signal)
        emit_barrier_record(helper, own, one, zero, expected(builder, load_as(builder, objects, vector(I64), 64)), mask)
        return []

    call_helper(frame, "mbarrier_arrive_in_blocks", site, [offsets, blocks], [], body)


def emit_copy_arrival(emitter: Emitter, instruction: Instruction) -> None:
    """`cp.async.mbarrier.arrive{.noinc}.b64 [mbarrier]`: the lanes' copies are done already, so the arrival happens at once.

    Without `.noinc` it was added to the pending count just before, which leaves nothing to change.
    """
    allow_words(emitter, instruction, "async", "mbarrier", "arrive", "noinc", *SHARED_SPACES)
    (address,) = operands(emitter, instruction, 1)
    arrive(emitter, shared_offsets(emitter, instruction, address), int("noinc" in instruction.modifiers))


_FORMS = {
    "init": _set, "inval": _set, "arrive": _change, "arrive_drop": _change, "expect_tx": _change, "complete_tx": _change,
    "test_wait": _wait, "try_wait": _wait, "pending_count": _pending_count,
}  # fmt: skip


# -- `st.async` and `red.async`: a store or a reduction in shared memory whose bytes complete on an mbarrier object there.

_ASYNC_WORDS = ("async", "weak", "relaxed", "cluster", "shared::cluster", "mbarrier::complete_tx::bytes")
_OPERATIONS = ("inc", "dec", "min", "max", "add", "and", "or", "xor")


def _store_async(emitter: Emitter, instruction: Instruction) -> None:
    """`st.async [address], value, [mbarrier]`."""
    allow_words(emitter, instruction, *_ASYNC_WORDS, *VECTORS)
    address, source, barrier = operands(emitter, instruction, 3)
    kind, parts = memory_type(emitter, instruction), vector_parts(emitter, instruction, source)
    size = bits_of(kind) // 8
    if size < 4 or size * len(parts) > 16:
        raise emitter.unsupported("an asynchronous store of such a value is not modelled")
    values = tuple(emitter.read(p, kind) for p in parts)
    access = Access(scalar_type(kind), size, len(parts), values)
    shared_access(emitter, emitter.cluster_address(address), access, emitter.kernel.next_site())
    complete_bytes(emitter, emitter.cluster_address(barrier), splat_constant(I64, access.size), recorded=True)


def _reduce_async(emitter: Emitter, instruction: Instruction) -> None:
    """`red.async [address], value, [mbarrier]`."""
    allow_words(emitter, instruction, *_ASYNC_WORDS, *_OPERATIONS)
    address, source, barrier = operands(emitter, instruction, 3)
    operation, kind = operation_of(emitter, instruction)
    if operation not in _OPERATIONS or kind[0] not in "bus":
        raise emitter.unsupported(f"an asynchronous {operation} of .{kind} is not modelled")
    value = emitter.read(source, f"b{bits_of(kind)}")
    Shape("shared", operation, kind, 1).call(emitter, emitter.cluster_address(address), [value])
    complete_bytes(emitter, emitter.cluster_address(barrier), splat_constant(I64, bits_of(kind) // 8), recorded=True)


# -- `clusterlaunchcontrol`: a running cluster asks for the work of one that has not started, which is then not launched.
#
# No request succeeds, as PTX allows it at any time: clusters run one after the other here, and the first one would take all work.
# So each does its own part, and a trace has the work of every block where a GPU would distribute it.

_ANSWER_BYTES = 16  # zeros: nothing was cancelled; from bit 64 on whether something was, as in machine code


def launch_control(emitter: Emitter, instruction: Instruction) -> None:
    """`clusterlaunchcontrol.try_cancel [answer], [mbarrier]`, `.query_cancel`."""
    modifiers = instruction.modifiers
    if "query_cancel" in modifiers:
        _query_cancel(emitter, instruction)
        return
    allow_words(
        emitter, instruction, "try_cancel", "async", "shared::cta", "mbarrier::complete_tx::bytes", "multicast::cluster::all"
    )
    answer, barrier = (emitter.cluster_address(operand) for operand in operands(emitter, instruction, 2))
    refuse_work(emitter, emitter.kernel.next_site(), answer, barrier, everywhere="multicast::cluster::all" in modifiers)


def _query_cancel(emitter: Emitter, instruction: Instruction) -> None:
    """`.is_canceled.pred predicate, answer`; `.get_first_ctaid{::x}.b32 number, answer`, also of all three dimensions."""
    dimensions = tuple(f"get_first_ctaid{d}" for d in ("", "::x", "::y", "::z"))
    allow_words(emitter, instruction, "query_cancel", "is_canceled", "v4", *dimensions)
    target, answer = operands(emitter, instruction, 2)
    builder, halves = emitter.builder, memory.split_halves(emitter, emitter.read(answer, "b128"))
    if "is_canceled" in instruction.modifiers:
        emitter.write(target, builder.trunc(halves[1], vector(I1)), "pred")
        return
    for part in vector_parts(emitter, instruction, target):
        emitter.write(part, builder.trunc(halves[0], vector(I32)), "b32")


def refuse_work(
    frame: Frame, site: int, answer: Value, barrier: Value, *, everywhere: bool, function: Step = step_function,
    expected: Callable[[Builder, Value], Value] = _expected,
) -> None:
    """Answer each active lane that nothing was cancelled, and complete the answer on its mbarrier object; with `everywhere` in all
    blocks of the cluster. Both are as `shared_host` takes them; `function` and `expected` know the form of objects.
    """

    def body(helper: HelperFrame) -> list[Value]:
        where, signal = helper.arguments
        builder, zero, amount = helper.builder, splat_constant(I64, 0), splat_constant(I64, -_ANSWER_BYTES)

        def in_block(part: Frame, rank: Value) -> None:
            place = at_rank(part, where, rank)
            host = shared_host(part, place, _ANSWER_BYTES)
            if INITCHECK in part.checks:  # the mbarrier orders what is written here, as with bulk copies
                wide = part.builder.zext(place, vector(I64))
                note_written(part, "shared", host, wide, 8, 2, reads=False, writes=True)
            for half in range(2):
                pointers = part.builder.inttoptr(part.builder.add(host, splat_constant(I64, 8 * half)), vector(PTR))
                scatter(part.builder, zero, pointers, part.active)
            own = part.builder.icmp_signed("==", rank, part.builder.trunc(part.slot(Slot.CLUSTER_RANK), I32))
            others = PartFrame(part, part.builder.select(own, I32(0), part.active_mask))
            complete_bytes(others, at_rank(others, signal, rank), splat_constant(I64, _ANSWER_BYTES), function)

        bit = builder.shl(I32(1), builder.trunc(helper.slot(Slot.CLUSTER_BLOCKS if everywhere else Slot.CLUSTER_RANK), I32))
        each_block(helper, splat(builder, builder.sub(bit, I32(1)) if everywhere else bit), in_block)
        objects = step_lanes(helper, shared_place(helper, signal, 8), zero, zero, amount, signal, function)
        blocks = splat(builder, builder.sub(bit, I32(1))) if everywhere else None
        emit_barrier_record(helper, signal, zero, amount, expected(builder, objects), blocks)
        return []

    call_helper(frame, f"refuse_work_{int(everywhere)}", site, [answer, barrier], [], body)


def store(emitter: Emitter, instruction: Instruction) -> None:
    """`st`, and `st.async`."""
    (_store_async if "async" in instruction.modifiers else memory.store)(emitter, instruction)


def reduce(emitter: Emitter, instruction: Instruction) -> None:
    """`red`, and `red.async`."""
    (_reduce_async if "async" in instruction.modifiers else atomic)(emitter, instruction)
