"""What code that is compiled for `check` does more: it notes wrong accesses and goes on, tells which bytes are written, and tells
`watcher.py` of accesses and of what orders them. Without checks none of this is emitted.

For initcheck each byte has a shadow, 0 until it is written and 255 from then on, at a fixed distance from it on the host.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.base.findings import INITCHECK, MEMCHECK, RACECHECK
from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame
from warpsight.emulator.codegen.helpers import for_each_lane, note_in, until_no_lane_is_left
from warpsight.emulator.codegen.lanes import (
    I8,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    gather,
    intrinsic,
    lanes_to_mask,
    load_as,
    loop,
    scatter,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
    vector,
    width,
)
from warpsight.emulator.codegen.layout import CLUSTER_ROW, GROUP_ROW, LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW, WARP, Fault, Slot
from warpsight.isa.ptx.program import Immediate, Instruction, Negated, Operand
from warpsight.isa.ptx.rules import is_block_barrier, is_warp_barrier, memory_access, waits_for_group

_WINDOWS = {
    "global": (0, Slot.GLOBAL_SHADOW), "shared": (SHARED_WINDOW, Slot.SHARED_SHADOW), "local": (LOCAL_WINDOW, Slot.LOCAL_SHADOW),
}


def goes_on(frame: Frame) -> bool:
    """Are wrong accesses noted, and then left out, rather than the end of the launch?"""
    return MEMCHECK in frame.checks


def drop_lanes(frame: Frame, bad: Value, kind: Fault, addresses: Value) -> None:
    """Note the active lanes of an i32 mask at <32 x i64> addresses, and leave them out of the rest of the instruction."""
    bad = frame.builder.and_(bad, frame.active_mask)
    note(frame, bad, kind, addresses)
    frame.keep_lanes(frame.builder.and_(frame.active_mask, frame.builder.not_(bad)))


def note(frame: Frame, lanes: Value, kind: int, addresses: Value | None = None) -> None:
    """Add the lanes of an i32 mask to the findings; without lanes nothing happens. Continues in a new LLVM block."""
    builder = frame.builder
    with builder.if_then(builder.icmp_signed("!=", lanes, I32(0)), likely=False):
        where = splat_constant(I64, 0) if addresses is None else addresses
        note_in(builder, frame.context, I64(kind), frame.pc, lanes, frame.spill(where, "noted"))


def note_access(
    frame: Frame, space: str, host: Value, addresses: Value, element_bytes: int, count: int, *, reads: bool, writes: bool,
    values: tuple[Value, ...] = (), unwritten: bool = True,
) -> None:
    """Tell the checks of an access of the active lanes, before it is made.

    `host` are <32 x i64> host addresses of `count` elements, `addresses` the offsets (shared, local) or device addresses (global);
    `values` are what a plain store stores, or what `atom.cas` compares with. With `unwritten` false, reads of unwritten memory are
    no finding.
    """
    if not frame.checks & {INITCHECK, RACECHECK}:
        return
    wide = addresses if addresses.type.element == I64 else frame.builder.zext(addresses, vector(I64))
    if INITCHECK in frame.checks:
        note_written(frame, space, host, wide, element_bytes, count, reads=reads and unwritten, writes=writes)
    if RACECHECK in frame.checks and space != "local":
        _note_order(frame, space, host, wide, element_bytes, count, reads=reads, writes=writes, values=values)


def note_written(
    frame: Frame, space: str, host: Value, addresses: Value, element_bytes: int, count: int, *, reads: bool, writes: bool
) -> None:
    """Note lanes that read a byte that was never written, with its address; remember the bytes that are written."""
    builder, (window, slot) = frame.builder, _WINDOWS[space]
    kind = ir.IntType(8 * element_bytes)
    shadow = builder.add(host, splat(builder, frame.slot(slot)))
    written = splat_constant(kind, (1 << kind.width) - 1)
    missing: Value = I32(0)
    first = addresses
    for k in reversed(range(count)):
        pointers = builder.inttoptr(builder.add(shadow, splat_constant(I64, k * element_bytes)), vector(PTR))
        if reads:
            seen = gather(builder, pointers, frame.active, kind)
            differ = builder.icmp_signed("!=", seen, written)
            missing = builder.or_(missing, lanes_to_mask(builder, differ))
            first = builder.select(differ, builder.add(addresses, _first_unwritten(builder, seen, k * element_bytes)), first)
        if writes:
            scatter(builder, written, pointers, frame.active)
    if reads:
        shown = builder.add(first, splat_constant(I64, window))
        note(frame, builder.and_(missing, frame.active_mask), Fault.UNWRITTEN, shown)


def _first_unwritten(builder: Builder, seen: Value, start: int) -> Value:
    """Bytes before the first zero byte of each lane's shadow, from `start` on, <32 x i64>. Shadows are 0 or 255 in each byte."""
    flipped = builder.xor(seen, splat_constant(seen.type.element, (1 << width(seen.type.element)) - 1))
    kind, name = seen.type, f"llvm.cttz.v{WARP}i{width(seen.type.element)}"
    function = intrinsic(builder.module, name, kind, [kind, ir.IntType(1)])
    bits = builder.call(function, [flipped, ir.IntType(1)(0)])
    narrow = builder.zext if width(kind.element) < 64 else builder.trunc if width(kind.element) > 64 else None
    wide = bits if narrow is None else narrow(bits, vector(I64))
    return builder.add(builder.lshr(wide, splat_constant(I64, 3)), splat_constant(I64, start))


def _note_order(
    frame: Frame, space: str, host: Value, addresses: Value, element_bytes: int, count: int, *, reads: bool, writes: bool,
    values: tuple[Value, ...],
) -> None:
    """Call `watcher.access`."""
    builder = frame.builder
    what = watcher.READS * reads | watcher.WRITES * writes | watcher.IN_SHARED * (space == "shared")
    what |= watcher.COMPARES * (reads and bool(values))
    what |= count << watcher.COUNT_SHIFT | element_bytes << watcher.BYTES_SHIFT
    nothing = ir.Constant(PTR, None)
    stored = old = nothing
    if values:
        element = values[0].type.element
        pieces = [gather(builder, _pointers(builder, host, k * element_bytes), frame.active, element) for k in range(count)]
        stored, old = _spill_all(frame, values, "stored"), _spill_all(frame, tuple(pieces), "old")
    function = intrinsic(builder.module, "warpsight_access", I32, [PTR, PTR, PTR, PTR, I32, I64, PTR, I64, PTR, PTR])
    pointers = [frame.slot_pointer(slot) for slot in (Slot.WATCH_PTR, Slot.WATCH_BLOCK_PTR, Slot.CELLS_PTR)]
    where = frame.spill(addresses, "watched")
    builder.call(function, [frame.context, *pointers, frame.active_mask, frame.pc, where, I64(what), stored, old])


def note_copy(
    frame: Frame, space: str, places: Value, sizes: Value, *, writes: bool, until: Value | int, reduces: bool = False
) -> None:
    """Tell racecheck of bulk copies of the active lanes: `sizes` (<32 x i64>) bytes from `places` (<32 x i64>) on. `until` are the
    offsets (<32 x i64>) of the mbarrier objects on which they complete, or one of `watcher.BY_GROUP` and `watcher.AT_ONCE`.
    """
    if RACECHECK not in frame.checks:
        return
    what = watcher.WRITES if writes else watcher.READS
    what |= watcher.IN_SHARED * (space == "shared") | watcher.COMPARES * reduces
    waits = splat_constant(I64, until) if isinstance(until, int) else until
    held = [frame.spill(value, f"watched copy {k}") for k, value in enumerate((places, sizes, waits))]

    def of_lane(inner: Builder, lane: Value) -> None:
        offset = inner.shl(inner.zext(lane, I64), I64(3))
        place, size, end = (load_as(inner, at(inner, pointer, offset), I64, 8) for pointer in held)
        _copied(frame, lane, place, size, end, what)

    for_each_lane(frame.builder, frame.active_mask, of_lane)


def note_runs(frame: Frame, lane: Value, runs: Value, count: Value, *, writes: bool, reduces: bool) -> None:
    """Tell racecheck of what a copy of a lane accesses in device memory: `runs` (i64, a host address) are so many addresses and
    sizes. Such an access counts as one of the lane. Continues in a new LLVM block.
    """
    builder, what = frame.builder, (watcher.WRITES if writes else watcher.READS) | watcher.COMPARES * reduces

    def of_run(number: Value) -> tuple[Value]:
        run = builder.inttoptr(builder.add(runs, builder.shl(number, I64(4))), PTR)
        place, size = (load_as(builder, at(builder, run, 8 * k), I64, 8) for k in range(2))
        _copied(frame, lane, place, size, I64(watcher.AT_ONCE), what)
        return (builder.add(number, I64(1)),)

    loop(builder, [I64(0)], lambda number: builder.icmp_signed("<", number, count), of_run)


def note_listed(frame: Frame, lane: Value, runs: Value, count: Value, until: int) -> None:
    """Tell racecheck of so many runs of shared or tensor memory, at a pointer: of each the address, the size, and whether it is
    written. Continues in a new LLVM block.
    """
    builder = frame.builder

    def of_run(number: Value) -> tuple[Value]:
        run = at(builder, runs, builder.mul(number, I64(24)))
        place, size, writes = (load_as(builder, at(builder, run, 8 * k), I64, 8) for k in range(3))
        way = builder.select(builder.icmp_signed("!=", writes, I64(0)), I64(watcher.WRITES), I64(watcher.READS))
        _copied(frame, lane, place, size, I64(until), builder.or_(way, I64(watcher.IN_SHARED)))
        return (builder.add(number, I64(1)),)

    loop(builder, [I64(0)], lambda number: builder.icmp_signed("<", number, count), of_run)


def _copied(frame: Frame, lane: Value, place: Value, size: Value, until: Value, what: int | Value) -> None:
    """Call `watcher.copied`."""
    builder = frame.builder
    function = intrinsic(builder.module, "warpsight_copied", I32, [PTR] * 5 + [I64] * 6)
    pointers = [frame.slot_pointer(slot) for slot in (Slot.WATCH_PTR, Slot.WATCH_BLOCK_PTR, Slot.CELLS_PTR)]
    numbers = [builder.zext(lane, I64), frame.pc, place, size, until, I64(what) if isinstance(what, int) else what]
    builder.call(function, [frame.context, *pointers, ir.Constant(PTR, None), *numbers])


def note_objects(frame: Frame, lanes: Value, offsets: Value, what: int, parities: Value | None = None) -> None:
    """Tell racecheck what lanes of an i32 mask do with mbarrier objects at <32 x i32> offsets, those of the own block: INITIALISED,
    ARRIVED, or WAITED for phases of these parities (<32 x i64>).
    """
    if RACECHECK not in frame.checks:
        return
    builder = frame.builder
    wide = builder.zext(offsets, vector(I64))
    if frame.clustered:
        away = builder.icmp_unsigned(">=", wide, splat_constant(I64, 1 << RANK_SHIFT))
        lanes = builder.and_(lanes, builder.not_(lanes_to_mask(builder, away)))
    if parities is not None:
        wide = builder.or_(builder.shl(wide, splat_constant(I64, 1)), builder.and_(parities, splat_constant(I64, 1)))
    held = frame.spill(wide, "watched objects")

    def of_lane(inner: Builder, lane: Value) -> None:
        number = load_as(inner, at(inner, held, inner.shl(inner.zext(lane, I64), I64(3))), I64, 8)
        order_in(inner, frame.context, inner.shl(I32(1), lane), what, number)

    for_each_lane(builder, builder.and_(lanes, frame.active_mask), of_lane)


def _pointers(builder: Builder, host: Value, offset: int) -> Value:
    return builder.inttoptr(builder.add(host, splat_constant(I64, offset)), vector(PTR))


def _spill_all(frame: Frame, values: tuple[Value, ...], name: str) -> Value:
    """The vectors one after the other in a stack slot."""
    kind = values[0].type
    bytes_each = WARP * width(kind.element) // 8
    pointer = frame.buffer(f"{name}{len(values)}", ir.ArrayType(I8, bytes_each * len(values)))
    for k, value in enumerate(values):
        store_as(frame.builder, value, at(frame.builder, pointer, k * bytes_each), 1)
    return pointer


# -- What orders accesses.

_MEETINGS = frozenset({"shfl", "vote", "match", "redux"})
_LEAVING = frozenset({"bra", "brx", "call", "ret", "exit", "bar", "barrier"})


def note_order(frame: Emitter, instruction: Instruction) -> None:
    """Before a barrier or fence is emitted, and before what the lanes of a warp meet at: tell racecheck."""
    if RACECHECK not in frame.checks:
        return
    modifiers, opcode = instruction.modifiers, instruction.opcode
    number: Value = I64(0)
    if "cluster" in modifiers and opcode == "barrier":
        what = watcher.ARRIVES if "arrive" in modifiers else watcher.CLUSTER_WAIT
        number = I64(CLUSTER_ROW)
    elif waits_for_group(instruction):
        what = watcher.BARRIER
        number = frame.builder.add(frame.builder.lshr(frame.slot(Slot.WARP), I64(2)), I64(GROUP_ROW))
    elif is_warp_barrier(instruction) or (opcode in _MEETINGS and "sync" in modifiers):
        if instruction.native is None:  # in machine code lanes of a warp are not told apart
            _note_meeting(frame, instruction.operands[-1])
        return
    elif is_block_barrier(instruction):
        what = watcher.ARRIVES if "arrive" in modifiers else watcher.BARRIER
        number = _barrier_number(frame, instruction)
    elif opcode == "cp" and instruction.native is None and "bulk" in modifiers and {"commit_group", "wait_group"} & {*modifiers}:
        waits = "wait_group" in modifiers
        what = watcher.GROUPS if waits else watcher.COMMIT
        number = I64(int(instruction.operands[0].value)) if waits else number  # type: ignore[union-attr]
    elif opcode in ("membar", "fence"):
        native = instruction.native
        of_proxies = "proxy" in modifiers if native is None else "VIEW" in native.modifiers  # orders accesses of one thread only
        words = modifiers if native is None else native.modifiers
        of_cluster = native is not None and _is_of_cluster_barrier(frame, instruction)
        if (of_proxies and not {"async", "ASYNC"} & {*words}) or (of_cluster and not of_proxies):
            return
        of_block = "cta" in words or "CTA" in words
        what = watcher.PROXY_FENCE if of_proxies else watcher.BLOCK_FENCE if of_block else watcher.FENCE
    elif opcode == "mbarrier" and frame.clustered:  # objects of other blocks are not told apart
        what = watcher.ACQUIRE if modifiers[0] in ("test_wait", "try_wait") else watcher.RELEASE
    else:
        return
    tell(frame, what, number)


def _is_of_cluster_barrier(emitter: Emitter, fence: Instruction) -> bool:
    """Whether an assembler made the fence for the release of the cluster's barrier, which comes without an access in between."""
    for following in emitter.kernel.function.instructions[fence.index + 1 :]:
        if following.native is not None and following.native.base == "UCGABAR_ARV":
            return True
        if following.opcode in _LEAVING or memory_access(following) is not None:
            return False
    return False


def _note_meeting(emitter: Emitter, operand: Operand | Negated) -> None:
    """Lanes that name the same members meet."""
    members = emitter.read(operand, "b32")

    def serve(inner: Builder, left: Value, result: Value) -> tuple[Value, Value]:
        named = inner.extract_element(members, inner.and_(trailing_zeros(inner, left), I32(31)))
        same = inner.and_(lanes_to_mask(inner, inner.icmp_signed("==", members, splat(inner, named))), left)
        order_in(inner, emitter.context, inner.and_(same, named), watcher.WARP_MEETS, I64(0))
        return same, result

    until_no_lane_is_left(emitter.builder, emitter.active_mask, serve)


def _barrier_number(emitter: Emitter, instruction: Instruction) -> Value:
    """Which barrier of the block it is, i64."""
    operand = instruction.operands[int("red" in instruction.modifiers)]
    if isinstance(operand, Immediate):
        return I64(int(operand.value) & 15)
    builder, values = emitter.builder, emitter.read(operand, "u32")
    lane = builder.and_(trailing_zeros(builder, emitter.active_mask), I32(31))
    return builder.zext(builder.and_(builder.extract_element(values, lane), I32(15)), I64)


def tell(frame: Frame, what: int, number: Value) -> None:
    """Call `watcher.order` for the active lanes."""
    order_in(frame.builder, frame.context, frame.active_mask, what, number)


def order_in(builder: Builder, context: Value, mask: Value, what: int, number: Value) -> None:
    """The same anywhere."""
    function = intrinsic(builder.module, "warpsight_order", I32, [PTR, PTR, PTR, I32, I64, I64])
    watch, block = (load_as(builder, at(builder, context, 8 * slot), PTR, 8) for slot in (Slot.WATCH_PTR, Slot.WATCH_BLOCK_PTR))
    builder.call(function, [context, watch, block, mask, I64(what), number])
