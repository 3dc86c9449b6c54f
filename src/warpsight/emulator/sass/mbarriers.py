"""mbarrier objects in machine code, and the copies, stores and reductions whose bytes complete on one: `SYNCS`, `ARRIVES`,
`UBLKCP`, `UBLKRED`, `STAS`, `REDAS`, `UGETNEXTWORKID`.

Programs compute objects and look into them, so they have the device's form here, as far as programs show it; a count is held as
what it lacks to its modulus. From sm_90 on: from bit 1 on 20 bits of expected arrivals, from bit 21 on the pending bytes, from bit
43 on 20 bits of pending arrivals, and the phase on top. Before that: expected arrivals in the lower word modulo 2^30, pending ones
in the upper word modulo 2^31, and the phase on top. The bodies are those of `ptx/mbarriers.py` and `ptx/copies.py`.
"""

from __future__ import annotations

import re

from llvmlite import ir

from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.access import Access, shared_access
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, PartFrame, call_helper
from warpsight.emulator.codegen.lanes import (
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
    scatter,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import Fault
from warpsight.emulator.codegen.recording import emit_barrier_record
from warpsight.emulator.codegen.watching import note_objects
from warpsight.emulator.ptx.atomics import Shape, shared_place
from warpsight.emulator.ptx.copies import BulkShape
from warpsight.emulator.ptx.mbarriers import (
    COUNT_BITS,
    COUNT_MASK,
    PHASE,
    TX_BITS,
    TX_SHIFT,
    VALID,
    arrive_in_blocks,
    complete_bytes,
    emit_test_record,
    note_live,
    refuse_work,
    step_function,
    step_lanes,
    stop_or_note,
)
from warpsight.emulator.sass.addresses import address_operand, shared_offsets, within_window
from warpsight.emulator.sass.common import allow, join, native_of, raw, set_predicate, set_wide, wide_integer
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import ZERO_REGISTERS, NativeInstruction, NativeRegister

# -- The form of objects from sm_90 on, and that of `ptx/mbarriers.py`.

_EXPECTED, _BYTES, _PENDING = 1, 21, 43
_SHORT_BITS = 30  # of the expected arrivals before sm_90


def _field(builder: Builder, word: Value, first: int, bits: int) -> Value:
    return builder.and_(builder.lshr(word, I64(first)), I64((1 << bits) - 1))


def _lacking(builder: Builder, count: Value) -> Value:
    """A count as what it lacks to its modulus, and back."""
    return builder.and_(builder.sub(I64(0), count), I64(COUNT_MASK))


def _from_device(builder: Builder, word: Value) -> Value:
    """An object in the form of `ptx/mbarriers.py`. One that is all zeros was not initialised."""
    fields = [_field(builder, word, first, COUNT_BITS) for first in (_PENDING, _EXPECTED)]
    known = builder.icmp_signed("!=", builder.or_(*fields), I64(0))
    pending, expected = (_lacking(builder, field) for field in fields)
    counts = builder.or_(pending, builder.shl(expected, I64(COUNT_BITS)))
    data = builder.shl(_field(builder, word, _BYTES, TX_BITS), I64(TX_SHIFT))
    phase = builder.or_(builder.and_(word, I64(PHASE)), builder.select(known, I64(VALID), I64(0)))
    return builder.or_(builder.or_(counts, data), phase)


def _to_device(builder: Builder, word: Value) -> Value:
    """The inverse of `_from_device`."""
    pending = _lacking(builder, _field(builder, word, 0, COUNT_BITS))
    expected = _lacking(builder, _field(builder, word, COUNT_BITS, COUNT_BITS))
    counts = builder.or_(builder.shl(pending, I64(_PENDING)), builder.shl(expected, I64(_EXPECTED)))
    data = builder.shl(_field(builder, word, TX_SHIFT, TX_BITS), I64(_BYTES))
    return builder.or_(builder.or_(counts, data), builder.and_(word, I64(PHASE)))


def device_step(module: ir.Module) -> ir.Function:
    """As `step_function`, of an object in the form of sm_90."""
    function, fresh = internal_function(module, "mbarrierdevice_step", ir.FunctionType(I32, [PTR, I64, I64, I64, PTR]))
    if not fresh:
        return function
    pointer, arrivals, dropped, transferred, before = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    held = builder.alloca(ir.ArrayType(I64, 2))
    old = load_as(builder, pointer, I64, 8)
    store_as(builder, old, before, 8)
    store_as(builder, _from_device(builder, old), at(builder, held, 0), 8)
    kind = builder.call(step_function(module), [at(builder, held, 0), arrivals, dropped, transferred, at(builder, held, 8)])
    new = _to_device(builder, load_as(builder, at(builder, held, 0), I64, 8))
    with builder.if_then(builder.icmp_signed("==", kind, I32(0))):
        store_as(builder, new, pointer, 8)
    builder.ret(kind)
    return function


def _short_step(module: ir.Module) -> ir.Function:
    """As `step_function`, of an object in the form of sm_80, where programs themselves make all changes but one arrival."""
    function, fresh = internal_function(module, "mbarrier_short_step", ir.FunctionType(I32, [PTR, I64, I64, I64, PTR]))
    if not fresh:
        return function
    pointer, arrivals, _, _, before = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    old = load_as(builder, pointer, I64, 8)
    store_as(builder, old, before, 8)
    low, high = builder.trunc(old, I32), builder.trunc(builder.lshr(old, I64(32)), I32)
    with builder.if_then(builder.icmp_signed("==", low, I32(0))):
        builder.ret(I32(Fault.MBARRIER_STATE))
    top = I32(0x80000000)
    next_high = builder.add(high, builder.trunc(arrivals, I32))
    over = builder.icmp_signed("<", builder.xor(high, next_high), I32(0))
    again = builder.or_(builder.and_(next_high, top), builder.or_(low, I32(0x40000000)))
    store_as(builder, builder.select(over, again, next_high), at(builder, pointer, 4), 4)
    builder.ret(I32(0))
    return function


# -- Operations on objects.

_AMOUNTS = re.compile(r"A([01R])T([01RX])")  # arrivals and bytes: a number, the register's, or (X) the register's completed


def _call(emitter: Emitter, name: str, offsets: Value, arguments: list[Value], results: list[ir.Type], body: object) -> list[Value]:
    return call_helper(emitter, f"mbarrier_{name}", emitter.kernel.next_site(), [offsets, *arguments], results, body)  # type: ignore[arg-type]


def _change(
    emitter: Emitter, offsets: Value, arrivals: Value, dropped: Value, transferred: Value, *, short: bool = False,
    frame: Frame | None = None,
) -> Value:
    """Arrivals, drops and bytes (<32 x i64>) of each active lane, those of `frame` if it is given; gives the old objects."""

    def body(helper: HelperFrame) -> list[Value]:
        where, arriving, leaving, moved = helper.arguments
        note_objects(helper, helper.active_mask, where, watcher.ARRIVED)
        step = _short_step if short else device_step
        objects = step_lanes(helper, shared_place(helper, where, 8), arriving, leaving, moved, where, step)
        first, bits = (0, _SHORT_BITS) if short else (_EXPECTED, COUNT_BITS)
        emit_barrier_record(helper, where, arriving, moved, _expected(helper.builder, objects, first, bits))
        return [objects]

    arguments = [offsets, arrivals, dropped, transferred]
    return call_helper(frame or emitter, "mbarrier_change", emitter.kernel.next_site(), arguments, [vector(I64)], body)[0]


def _expected(builder: Builder, objects: Value, first: int = _EXPECTED, bits: int = COUNT_BITS) -> Value:
    """The arrivals that objects (<32 x i64>) expect in a phase."""
    lacking = builder.sub(splat_constant(I64, 0), builder.lshr(objects, splat_constant(I64, first)))
    return builder.and_(lacking, splat_constant(I64, (1 << bits) - 1))


def syncs(emitter: Emitter, instruction: Instruction) -> None:
    """`SYNCS`: `.EXCH` initialises, `.ARRIVE` arrives and counts bytes, `.PHASECHK` tests, `.CCTL.IV` ends the use of an object."""
    native = native_of(instruction)
    forms = {"EXCH": _initialise, "ARRIVE": _arrive, "PHASECHK": _test, "CCTL": _end}
    emit = forms.get(native.modifiers[0]) if native.modifiers else None
    if emit is None:
        raise emitter.unsupported("it is not modelled")
    emit(emitter, native)


def _initialise(emitter: Emitter, native: NativeInstruction) -> None:
    """`SYNCS.EXCH.64 URZ, [address], object`, which the program has computed. All operands are uniform: one lane does it."""
    allow(emitter, native, "EXCH", "64")
    target, _, source = native.operands
    if not isinstance(target, NativeRegister) or target.name not in ZERO_REGISTERS:
        raise emitter.unsupported("its result is not modelled")
    builder = emitter.builder
    offsets, objects = shared_offsets(emitter, address_operand(emitter, native)), wide_integer(emitter, source)
    # Of a count from 1 to the most, the two fields that hold it are alike and not zero.
    mask, zero = splat_constant(I64, COUNT_MASK), splat_constant(I64, 0)
    fields = [builder.and_(builder.lshr(objects, splat_constant(I64, first)), mask) for first in (_EXPECTED, _PENDING)]
    wrong = builder.or_(builder.icmp_signed("!=", *fields), builder.icmp_signed("==", fields[0], zero))
    stop_or_note(emitter, lanes_to_mask(builder, wrong), offsets, Fault.MBARRIER_COUNT)
    _set(one_lane(emitter), emitter.kernel.next_site(), offsets, objects, fresh=True)


def _end(emitter: Emitter, native: NativeInstruction) -> None:
    """`SYNCS.CCTL.IV [address]`: what was an object is none."""
    allow(emitter, native, "CCTL", "IV")
    _set(emitter, emitter.kernel.next_site(), shared_offsets(emitter, address_operand(emitter, native)), splat_constant(I64, 0))


def _set(frame: Frame, site: int, offsets: Value, objects: Value, *, fresh: bool = False) -> None:
    """Store objects (<32 x i64>); `fresh`: there should be none yet."""

    def body(helper: HelperFrame) -> list[Value]:
        where, words = helper.arguments
        place = shared_place(helper, where, 8, sharing=False, reads=False)
        pointers = helper.builder.inttoptr(place, vector(PTR))
        if fresh:
            note_live(helper, pointers, where, _is_live)
            note_objects(helper, helper.active_mask, where, watcher.INITIALISED)
        scatter(helper.builder, words, pointers, helper.active)
        return []

    call_helper(frame, "mbarrier_init" if fresh else "mbarrier_inval", site, [offsets, objects], [], body)


def _is_live(builder: Builder, words: Value) -> Value:
    """Whether words hold objects: counts that an object can have, which of a phase that began just now are alike."""
    mask = splat_constant(I64, COUNT_MASK)
    expected, pending = (
        builder.and_(builder.sub(splat_constant(I64, 0), builder.lshr(words, splat_constant(I64, first))), mask)
        for first in (_EXPECTED, _PENDING)
    )
    return builder.icmp_unsigned("<", builder.sub(pending, splat_constant(I64, 1)), expected)


def one_lane(emitter: Emitter) -> Frame:
    """The first of the active lanes: what has uniform operands only is done once."""
    builder, mask = emitter.builder, emitter.active_mask
    return PartFrame(emitter, builder.and_(mask, builder.sub(I32(0), mask)))


def _arrive(emitter: Emitter, native: NativeInstruction) -> None:
    """`SYNCS.ARRIVE.TRANS64{.RED}{.OPTOUT}{.A1TR}`: `result, [address], amount`; the result is the old object."""
    amounts = [match for m in native.modifiers if (match := _AMOUNTS.fullmatch(m))]
    allow(emitter, native, "ARRIVE", "TRANS64", "RED", "OPTOUT", *(match[0] for match in amounts))
    target, _, source = native.operands
    builder, zero, one = emitter.builder, splat_constant(I64, 0), splat_constant(I64, 1)
    amount = builder.zext(raw(emitter, source), vector(I64))
    values = {"0": zero, "1": one, "R": amount, "X": builder.sub(zero, amount)}
    arrivals, transferred = (values[letter] for letter in (amounts[0].groups() if amounts else ("1", "R")))
    dropped = arrivals if "OPTOUT" in native.modifiers else zero
    offsets = shared_offsets(emitter, address_operand(emitter, native), others=True)
    set_wide(emitter, target, _change(emitter, offsets, arrivals, dropped, transferred))


def _test(emitter: Emitter, native: NativeInstruction) -> None:
    """`SYNCS.PHASECHK.TRANS64{.TRYWAIT} predicate, [address], word`: is the phase over whose parity is the word's upper bit?"""
    allow(emitter, native, "PHASECHK", "TRANS64", "TRYWAIT")
    target, _, source = native.operands

    def body(helper: HelperFrame) -> list[Value]:
        where, waited = helper.arguments
        builder = helper.builder
        place = shared_place(helper, where, 8, sharing=False)
        objects = gather(builder, builder.inttoptr(place, vector(PTR)), helper.active, I64)
        mask = (COUNT_MASK << _EXPECTED) | (COUNT_MASK << _PENDING)
        unknown = builder.icmp_signed("==", builder.and_(objects, splat_constant(I64, mask)), splat_constant(I64, 0))
        nothing = lanes_to_mask(builder, unknown)
        stop_or_note(helper, nothing, where, Fault.MBARRIER_STATE)
        parities = builder.zext(builder.lshr(waited, splat_constant(I32, 31)), vector(I64))
        emit_test_record(helper, where, parities)
        upper = builder.trunc(builder.lshr(objects, splat_constant(I64, 32)), vector(I32))
        over = lanes_to_mask(builder, builder.icmp_signed("<", builder.xor(upper, waited), splat_constant(I32, 0)))
        note_objects(helper, over, where, watcher.WAITED, parities)
        return [builder.or_(over, nothing)]

    offsets = shared_offsets(emitter, address_operand(emitter, native), others=True)
    (over,) = _call(emitter, "wait", offsets, [raw(emitter, source)], [I32], body)
    if "TRYWAIT" in native.modifiers:
        over = emitter.kernel.in_turn(emitter.builder, over)
    set_predicate(emitter, target, mask_to_lanes(emitter.builder, over))


def arrive_once(emitter: Emitter, offsets: Value, blocks: Value | None) -> None:
    """The first of the active lanes arrives on the object at its offset (<32 x i32>), or there in each block of a mask."""
    zero, one = (splat_constant(I64, number) for number in (0, 1))
    if blocks is None:
        _change(emitter, offsets, one, zero, zero, frame=one_lane(emitter))
    else:
        arrive_in_blocks(one_lane(emitter), emitter.kernel.next_site(), offsets, blocks, device_step, _expected)


def arrive_short(emitter: Emitter, native: NativeInstruction) -> None:
    """`ATOMS.ARRIVE.64 result, [address]`: an arrival before sm_90."""
    allow(emitter, native, "ARRIVE", "64")
    zero, one = (splat_constant(I64, number) for number in (0, 1))
    offsets = shared_offsets(emitter, address_operand(emitter, native), others=True)
    set_wide(emitter, native.operands[0], _change(emitter, offsets, one, zero, zero, short=True))


def arrives(emitter: Emitter, instruction: Instruction) -> None:
    """`ARRIVES.LDGSTSBAR.64`: `cp.async.mbarrier.arrive`; the lanes' copies are done already, so it happens at once.

    From sm_90 on it completes what counts as a byte (`.TRANSCNT`), or arrives (`.ARVCNT`).
    """
    native = native_of(instruction)
    allow(emitter, native, "LDGSTSBAR", "64", "TRANSCNT", "ARVCNT")
    zero, one = (splat_constant(I64, number) for number in (0, 1))
    offsets = shared_offsets(emitter, address_operand(emitter, native), others=True)
    if "TRANSCNT" in native.modifiers:
        _change(emitter, offsets, zero, zero, emitter.builder.sub(zero, one))
    else:
        _change(emitter, offsets, one, zero, zero, short="ARVCNT" not in native.modifiers)


# -- Bulk copies and reductions. One lane makes them, whichever are active: all their operands are uniform.

_BULK_TYPES = {
    "S32": "s32", "U32": "u32", "64": "u64", "U64": "u64", "S64": "s64", "F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64",
}  # fmt: skip
_BULK_OPERATIONS = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR")
_UNIT_SHIFT, _SIZE_MASK = 4, 0xFFFF  # a size is 16 bits, in units of 16 bytes; the mask of blocks that a copy reaches is above


def ublkcp(emitter: Emitter, instruction: Instruction) -> None:
    """`UBLKCP.to.from`, `UBLKRED.to.from.operation{.type}`: `[to], [from], size`.

    Behind an address in shared memory that is written comes that of the mbarrier object on which the bytes complete.
    """
    native, builder = native_of(instruction), emitter.builder
    reduces = native.base == "UBLKRED"
    known = (*_BULK_OPERATIONS, *_BULK_TYPES, "RN", "FTZ") if reduces else ("MULTICAST",)
    allow(emitter, native, "S", "G", *known)
    target, source = ({"S": "shared", "G": "global"}[m] for m in native.modifiers[:2])
    places = [address_operand(emitter, native, k) for k in range(2)]
    if any(p.uniform is None or p.base is not None or p.offset for p in places):
        raise emitter.unsupported("its addresses are not recognized")
    to, origin = (
        wide_integer(emitter, p.uniform) if space == "global"  # type: ignore[arg-type]
        else builder.zext(within_window(emitter, raw(emitter, p.uniform)), vector(I64))  # type: ignore[arg-type]
        for p, space in zip(places, (target, source), strict=True)
    )  # fmt: skip
    word = raw(emitter, native.operands[2])
    sizes = builder.shl(builder.and_(word, splat_constant(I32, _SIZE_MASK)), splat_constant(I32, _UNIT_SHIFT))
    blocks = builder.lshr(word, splat_constant(I32, 16)) if "MULTICAST" in native.modifiers else None
    barrier = within_window(emitter, raw(emitter, places[0].uniform, 1)) if target == "shared" else None  # type: ignore[arg-type]
    shape = BulkShape(target, source, *(_reduction(emitter, native) if reduces else ("", "")), step=device_step)
    shape.call(one_lane(emitter), emitter.kernel.next_site(), [to, origin], sizes, barrier, blocks)


ublkred = ublkcp


def _reduction(emitter: Emitter, native: NativeInstruction) -> tuple[str, str]:
    operations = [m.lower() for m in native.modifiers if m in _BULK_OPERATIONS]
    kinds = [_BULK_TYPES[m] for m in native.modifiers if m in _BULK_TYPES]
    if len(operations) != 1 or len(kinds) > 1:
        raise emitter.unsupported("its operation or type is not recognized")
    return operations[0], kinds[0] if kinds else "u32"


def ublkpf(emitter: Emitter, instruction: Instruction) -> None:
    """`UBLKPF`: a hint."""


# -- Stores and reductions of each lane: the register behind that of the address has the address of the mbarrier object.


def stas(emitter: Emitter, instruction: Instruction) -> None:
    """`STAS [address and object], value`: `st.async`. `REDAS`: `red.async`."""
    native = native_of(instruction)
    place = address_operand(emitter, native)
    if place.base is None or not place.wide or place.uniform is not None or place.offset or place.scale != 1:
        raise emitter.unsupported("its address is not recognized")
    offsets, barrier = (within_window(emitter, raw(emitter, place.base, k)) for k in range(2))
    count = native.access_bytes // 4
    words = [raw(emitter, native.operands[1], k) for k in range(count)]
    if native.base == "REDAS":
        allow(emitter, native, *_BULK_OPERATIONS, "S32", "U32", "64", "U64", "S64")
        operation, kind = _reduction(emitter, native)
        value = words[0] if bits_of(kind) == 32 else join(emitter, *words)
        Shape("shared", operation, kind, 1).call(emitter, offsets, [value])
    else:
        allow(emitter, native, "64", "128")
        shared_access(emitter, offsets, Access(I32, 4, count, tuple(words)), I64(emitter.kernel.next_site()))
    complete_bytes(emitter, barrier, splat_constant(I64, 4 * count), device_step, recorded=True)


redas = stas


def ugetnextworkid(emitter: Emitter, instruction: Instruction) -> None:
    """`UGETNEXTWORKID.SELFCAST [answer], [object]`: `clusterlaunchcontrol.try_cancel`; `.BROADCAST` answers all blocks."""
    native = native_of(instruction)
    allow(emitter, native, "SELFCAST", "BROADCAST")
    places = [address_operand(emitter, native, k) for k in range(2)]
    if any(p.uniform is None or p.base is not None or p.offset for p in places):
        raise emitter.unsupported("its addresses are not recognized")
    answer, barrier = (within_window(emitter, raw(emitter, p.uniform)) for p in places)  # type: ignore[arg-type]
    everywhere = "BROADCAST" in native.modifiers
    site = emitter.kernel.next_site()
    refuse_work(one_lane(emitter), site, answer, barrier, everywhere=everywhere, function=device_step, expected=_expected)
