"""Memory of every state space: `ld`, `ldu`, `st`, with vectors up to 16 bytes a lane (32 in global memory); addresses; and the
stack of each lane in local memory (`alloca`, `stacksave`, `stackrestore`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.access import (
    Access,
    append_sectors,
    check_window,
    global_access,
    in_parts,
    local_access,
    move_global,
    move_local,
    move_shared,
    private_body,
    shared_access,
)
from warpsight.emulator.codegen.cluster_addresses import cluster_mask, generic_offsets, own_window
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame
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
    is_signed,
    lanes_to_mask,
    load_as,
    scalar_type,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
    vector,
)
from warpsight.emulator.codegen.layout import (
    CLUSTER_WINDOW,
    LOCAL_WINDOW,
    MOST_RANKS,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
    WINDOW_BYTES,
    Fault,
    Slot,
)
from warpsight.emulator.codegen.recording import emit_event_byte
from warpsight.emulator.ptx.common import allow, elements_of, operands, outlined, the_type, typed_operands
from warpsight.isa.ptx.constants import TYPE_NAMES, vector_lanes
from warpsight.isa.ptx.program import Address, Instruction, Symbol

# Orders, scopes and cache operators change when memory is seen, not what: a functional model that runs in order needs none of them.
CACHE_WORDS = (
    "weak", "volatile", "relaxed", "acquire", "release", "sc", "acq_rel", "mmio",
    "cta", "cluster", "gpu", "sys", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc",
    "unified", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
    "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint", "L2::evict_last", "L2::evict_normal", "L2::evict_first",
)  # fmt: skip
SHARED_SPACES = ("shared", "shared::cta", "shared::cluster")
SPACES = ("global", *SHARED_SPACES, "local", "const", "param", "param::entry", "param::func")
VECTORS = ("v2", "v4", "v8")
# What a type is moved as. Halves stay bit patterns: nothing is computed with them here.
_MOVED_AS = {
    **{f"{kind}{bits}": f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)},
    "f32": "f32", "f64": "f64", "b128": "b128", "f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32",
}  # fmt: skip


def memory_type(emitter: Emitter, instruction: Instruction) -> str:
    """The type that an access moves; refuses an instruction without one, or with one that memory does not hold."""
    kinds = [m for m in instruction.modifiers if m in TYPE_NAMES]
    if len(kinds) != 1 or kinds[0] not in _MOVED_AS:
        raise emitter.unsupported("it must name exactly one type that can be loaded or stored")
    return _MOVED_AS[kinds[0]]


def allow_words(emitter: Emitter, instruction: Instruction, *known: str) -> None:
    """Refuse any modifier that is neither a PTX type nor in `known`: nothing is parsed and ignored."""
    for modifier in instruction.modifiers:
        if modifier not in known and modifier not in TYPE_NAMES:
            raise emitter.unsupported(f"modifier .{modifier} is not modelled")


def without_policy(emitter: Emitter, instruction: Instruction, count: int) -> tuple[Any, ...]:
    """The `count` operands of an access; a cache policy comes behind them, if and only if `.L2::cache_hint` is given."""
    if "L2::cache_hint" in instruction.modifiers:
        *plain, policy = operands(emitter, instruction, count + 1)
        emitter.read(policy, "b64")
        return tuple(plain)
    return operands(emitter, instruction, count)


def vector_parts(emitter: Emitter, instruction: Instruction, register_side: Any) -> list[Any]:
    """The registers that an access moves, as many as `.v2`, `.v4` or `.v8` says."""
    count, parts = vector_lanes(instruction.modifiers), elements_of(register_side)
    if len(parts) != count:
        raise emitter.unsupported(f"it moves {count} elements but names {len(parts)} registers")
    return parts


def _shape(emitter: Emitter, instruction: Instruction, register_side: Any) -> tuple[str, list[Any]]:
    """The element type and the list of registers moved."""
    kind, parts = memory_type(emitter, instruction), vector_parts(emitter, instruction, register_side)
    most = 32 if space_of(instruction) == "global" else 16
    if len(parts) * bits_of(kind) > 8 * most:
        raise emitter.unsupported(f"an access of more than {most} bytes per lane is not modelled")
    return kind, parts


def space_of(instruction: Instruction) -> str:
    """State space by name, `generic` when none is given."""
    return next((m for m in instruction.modifiers if m in SPACES), "generic").split("::")[0]


def load(emitter: Emitter, instruction: Instruction) -> None:
    """`ld` and `ldu`."""
    allow_words(emitter, instruction, *VECTORS, *SPACES, *CACHE_WORDS)
    d, address = without_policy(emitter, instruction, 2)
    kind, parts = _shape(emitter, instruction, d)
    space = space_of(instruction)
    halves = 2 if kind == "b128" else 1
    moved = "b64" if halves == 2 else kind
    access = Access(scalar_type(moved), bits_of(moved) // 8, halves * len(parts), record=space != "const")
    if space == "shared" and "shared::cluster" in instruction.modifiers:
        space = "cluster"
    if "param::func" in instruction.modifiers:
        access = replace(access, record=False)
        values = access.outside(emitter, "private", I64(0), emitter.effective_address(address, 32), private_body)
    else:
        values = _load_param(emitter, address, access) if space == "param" else _dispatch(emitter, space, address, access)
    if halves == 2:
        values = [join_halves(emitter, low, high) for low, high in zip(values[::2], values[1::2], strict=True)]
    for part, value in zip(parts, values, strict=True):
        emitter.write(part, value, kind)


def store(emitter: Emitter, instruction: Instruction) -> None:
    """`st`."""
    allow_words(emitter, instruction, *VECTORS, *SPACES, *CACHE_WORDS)
    address, source = without_policy(emitter, instruction, 2)
    kind, parts = _shape(emitter, instruction, source)
    space = space_of(instruction)
    called = "param::func" in instruction.modifiers
    if space == "param" and not called:
        raise emitter.unsupported("it writes to a parameter of the kernel")
    if space == "const":
        raise emitter.unsupported("a store to .const is not modelled")
    values = [emitter.read(p, kind) for p in parts]
    if kind == "b128":
        values = [half for value in values for half in split_halves(emitter, value)]
        kind = "b64"
    access = Access(scalar_type(kind), bits_of(kind) // 8, len(values), tuple(values), record=not called)
    if called:
        access.outside(emitter, "private", I64(0), emitter.effective_address(address, 32), private_body)
    else:
        _dispatch(emitter, "cluster" if "shared::cluster" in instruction.modifiers else space, address, access)


def shared_address(emitter: Emitter, address: Any, space: str) -> Value:
    """Offsets of an operand in shared memory (<32 x i32>); in space `cluster` it may be that of another block."""
    return emitter.cluster_address(address) if space == "cluster" else emitter.effective_address(address, 32)


def join_halves(frame: Frame, low: Value, high: Value) -> Value:
    """Two vectors of 64-bit lanes as one of 128-bit lanes."""
    wide = vector(ir.IntType(128))

    def body(builder: Builder, halves: list[Value]) -> Value:
        order = ir.Constant(vector(I32, 64), [32 * half + lane for lane in range(32) for half in range(2)])
        return builder.bitcast(builder.shuffle_vector(*halves, order), wide)

    return outlined(frame.builder, "join_halves", wide, [low, high], body)


def split_halves(frame: Frame, value: Value) -> list[Value]:
    """The low and the high 64 bits of 128-bit lanes."""
    both = ir.LiteralStructType([vector(I64)] * 2)

    def body(builder: Builder, values: list[Value]) -> Value:
        pieces = builder.bitcast(values[0], vector(I64, 64))
        undefined, result = ir.Constant(pieces.type, ir.Undefined), ir.Constant(both, ir.Undefined)
        for half in range(2):
            order = ir.Constant(vector(I32), [2 * lane + half for lane in range(32)])
            result = builder.insert_value(result, builder.shuffle_vector(pieces, undefined, order), half)
        return result

    pair = outlined(frame.builder, "split_halves", both, [value], body)
    return [frame.builder.extract_value(pair, half) for half in range(2)]


def _dispatch(emitter: Emitter, space: str, address: Any, access: Access) -> list[Value]:
    site = I64(emitter.kernel.next_site())
    if space in ("global", "const"):
        return global_access(emitter, emitter.effective_address(address), access, site)
    if space in ("shared", "cluster"):
        return shared_access(emitter, shared_address(emitter, address, space), access, site)
    if space == "local":
        return local_access(emitter, emitter.effective_address(address, 32), access, site)
    return generic_access(emitter, emitter.effective_address(address), access, site)


def generic_access(frame: Frame, addresses: Value, access: Access, site: Value) -> list[Value]:
    """Access memory at <32 x i64> generic addresses, of device memory or in a window; two event bytes."""
    return access.outside(frame, "generic", site, addresses, _generic)


def _generic(helper: HelperFrame, addresses: Value, access: Access) -> list[Value]:
    """Lanes of one access may be in different spaces. Two event bytes: sectors of device, then of local memory; bank conflicts."""
    builder = helper.builder
    windows = {w: window_mask(helper, addresses, w) for w in (LOCAL_WINDOW, SHARED_WINDOW, PARAM_WINDOW)}
    elsewhere = helper.active_mask
    for mask in windows.values():
        elsewhere = builder.and_(elsewhere, builder.not_(mask))

    def device() -> list[Value]:
        values = move_global(helper, addresses, access)
        return [*values, append_sectors(helper, addresses), I32(0)]

    def inside(window: int) -> list[Value]:
        return _in_window(helper, window, window_offset(helper, addresses, window), access, addresses)

    parts: list[tuple[Value, Callable[[], list[Value]]]] = [(elsewhere, device)]
    parts += [(mask, partial(inside, window)) for window, mask in windows.items()]
    *values, sectors, degree = in_parts(helper, [*access.nothing(), I32(0), I32(0)], parts)
    emit_event_byte(helper, sectors)
    emit_event_byte(helper, degree)
    return values


def _in_window(helper: HelperFrame, window: int, offsets: Value, access: Access, addresses: Value) -> list[Value]:
    """The access in one of the windows: values, number of sectors, bank-conflict degree."""
    if window == SHARED_WINDOW:
        values, degree = move_shared(helper, offsets, access)
        return [*values, I32(0), degree]
    if window == LOCAL_WINDOW:
        values, sectors = move_local(helper, offsets, access)
        return [*values, sectors, I32(0)]
    builder, values = helper.builder, []
    if access.writes:
        first = builder.and_(trailing_zeros(builder, helper.active_mask), I32(31))
        helper.stop_if(I1(1), Fault.READ_ONLY, lambda: (first, builder.extract_element(addresses, first)))
    else:
        values = gather_params(helper, offsets, access, helper.slot(Slot.PARAM_SIZE))
    return [*values, I32(0), I32(0)]


def window_mask(frame: Frame, addresses: Value, window: int) -> Value:
    """i32 mask of active lanes whose generic address lies in a window."""
    builder = frame.builder
    offset = builder.sub(addresses, splat_constant(I64, window))
    inside = lanes_to_mask(builder, builder.icmp_unsigned("<", offset, splat_constant(I64, WINDOW_BYTES)))
    if window == SHARED_WINDOW and frame.clustered:
        inside = builder.or_(inside, cluster_mask(frame, addresses))
    return builder.and_(inside, frame.active_mask)


def window_offset(frame: Frame, addresses: Value, window: int) -> Value:
    """Generic addresses as i32 offsets into a window."""
    if window == SHARED_WINDOW:
        return generic_offsets(frame, addresses)
    return frame.builder.trunc(frame.builder.sub(addresses, splat_constant(I64, window)), vector(I32))


def _load_param(emitter: Emitter, address: object, access: Access) -> list[Value]:
    """Parameters are the same for all lanes: a scalar load unless the address is computed."""
    builder = emitter.builder
    if not isinstance(address, Address):
        raise emitter.unsupported("its address is not in brackets")
    base = emitter.slot_pointer(Slot.PARAM_PTR)
    limit = emitter.kernel.symbols.param_bytes
    if isinstance(address.base, Symbol):
        offset = emitter.symbol_address(address.base) + address.offset
        if not 0 <= offset <= limit - access.size:
            raise emitter.unsupported("it reads past the kernel's parameters")
        if offset % access.size:
            raise emitter.unsupported(f"offset {offset} of the parameters is not a multiple of its {access.size} bytes")
        pointer = at(builder, base, offset)
        places = (at(builder, pointer, k * access.element_bytes) for k in range(access.count))
        return [splat(builder, load_as(builder, place, access.element, 1)) for place in places]
    return gather_params(emitter, emitter.effective_address(address, 32), access, I64(limit))


def gather_params(frame: Frame, offsets: Value, access: Access, limit: Value) -> list[Value]:
    """Load at <32 x i32> offsets among the kernel's parameters."""
    builder = frame.builder
    check_window(frame, offsets, access.size, limit, Fault.PARAM_BOUNDS)
    start = splat(builder, frame.slot(Slot.PARAM_PTR))
    host = builder.add(builder.zext(offsets, vector(I64)), start)
    places = (builder.add(host, splat_constant(I64, k * access.element_bytes)) for k in range(access.count))
    return [gather(builder, builder.inttoptr(place, vector(PTR)), frame.active, access.element) for place in places]


# -- Addresses: between state spaces and the generic one, which space one lies in, and other blocks of a cluster.

_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0, "const": 0, "param": PARAM_WINDOW}


def _space(emitter: Emitter, instruction: Instruction) -> str:
    spaces = [m.split("::")[0] for m in instruction.modifiers if m in SPACES]
    if len(spaces) != 1:
        raise emitter.unsupported("it must name exactly one state space")
    return spaces[0]


def cvta(emitter: Emitter, instruction: Instruction) -> None:
    """To generic adds the space's window, `.to` takes it away; global and constant addresses are generic as they are."""
    kind, d, a = typed_operands(emitter, instruction, 2, "to", *SPACES)
    space = _space(emitter, instruction)
    start = CLUSTER_WINDOW if emitter.clustered and space == "shared" else _WINDOWS[space]
    builder, window = emitter.builder, splat_constant(scalar_type(kind), start)
    value = emitter.read(a, kind)
    emitter.write(d, builder.sub(value, window) if "to" in instruction.modifiers else builder.add(value, window), kind)


def isspacep(emitter: Emitter, instruction: Instruction) -> None:
    """`isspacep.space p, a`: constant data lie in the arena between global ones; parameters are in .global's window too (PTX)."""
    allow(emitter, instruction, *SPACES)
    p, a = operands(emitter, instruction, 2)
    builder, space = emitter.builder, _space(emitter, instruction)
    address = emitter.read(a, "u64")

    def between(start: int, size: int) -> Value:
        offset = builder.sub(own_window(emitter, address) if emitter.clustered else address, splat_constant(I64, start))
        return builder.icmp_unsigned("<", offset, splat_constant(I64, size))

    if space in ("global", "const"):
        constant: Value = ir.Constant(vector(I1), None)
        for data in emitter.kernel.symbols.global_data:
            if not data.writable and data.variable.size:
                constant = builder.or_(constant, between(data.address, data.variable.size))
        beyond = builder.icmp_unsigned(">=", address, splat_constant(I64, LOCAL_WINDOW + WINDOW_BYTES))
        if emitter.clustered:
            beyond = builder.and_(beyond, builder.not_(between(CLUSTER_WINDOW, MOST_RANKS << RANK_SHIFT)))
            beyond = builder.and_(beyond, builder.not_(between(SHARED_WINDOW, WINDOW_BYTES)))
        result = constant if space == "const" else builder.and_(beyond, builder.not_(constant))
    else:
        result = between(_WINDOWS[space], WINDOW_BYTES)
        if emitter.clustered and "shared::cluster" in instruction.modifiers:
            result = builder.or_(result, between(CLUSTER_WINDOW, MOST_RANKS << RANK_SHIFT))
    emitter.write(p, result, "pred")


def mapa(emitter: Emitter, instruction: Instruction) -> None:
    """`mapa{.shared::cluster}.type d, a, rank`: the same address in block `rank` of the cluster."""
    kind, d, a, b = typed_operands(emitter, instruction, 3, "shared::cluster")
    if is_signed(kind):
        raise emitter.unsupported("its type must be .u32 or .u64")
    builder, element = emitter.builder, scalar_type(kind)
    rank, address = emitter.reinterpret(emitter.read(b, "u32"), element), emitter.read(a, kind)
    if not emitter.clustered:  # the block is its whole cluster: any other rank is nowhere, past the end of all memory
        here = builder.icmp_signed("==", rank, ir.Constant(vector(element), None))
        emitter.write(d, builder.select(here, address, splat_constant(element, -(1 << 12) & ((1 << element.width) - 1))), kind)
        return
    offset = builder.and_(address, splat_constant(element, ~(0xFF << RANK_SHIFT) & ((1 << element.width) - 1)))
    known = builder.icmp_unsigned("<", rank, splat_constant(element, MOST_RANKS))
    shown = builder.select(known, rank, splat_constant(element, 0xFF))
    emitter.write(d, builder.or_(offset, builder.shl(shown, splat_constant(element, RANK_SHIFT))), kind)


def getctarank(emitter: Emitter, instruction: Instruction) -> None:
    """`getctarank{.shared::cluster}.type d, a`: the rank of the block that owns a shared address."""
    kind, d, a = typed_operands(emitter, instruction, 2, "shared::cluster")
    builder, element, address = emitter.builder, scalar_type(kind), emitter.read(a, kind)
    rank = builder.and_(builder.lshr(address, splat_constant(element, RANK_SHIFT)), splat_constant(element, 0xFF))
    emitter.write(d, emitter.reinterpret(rank, I32) if emitter.clustered else splat_constant(I32, 0), "u32")


# -- `alloca`, `stacksave`, `stackrestore`: a stack in each lane's local memory, behind the declared local variables.
#
# It grows upwards; the saved value is the local address of its top. At most `symbols.STACK_LIMIT` bytes, else the launch faults.

_DEFAULT_ALIGN = 8


def _top(emitter: Emitter) -> Value:
    """Pointer to the 32 int32 that hold each lane's top of the stack, counted from the stack's start."""
    return emitter.kernel.saved_place(emitter.builder, emitter.kernel.warp_storage("stack"))


def _set_top(emitter: Emitter, top: Value) -> None:
    """Store a new top (<32 x i64> local addresses) for the active lanes, checked against the limit."""
    builder, symbols = emitter.builder, emitter.kernel.symbols
    start = splat_constant(I64, symbols.stack_start)
    high = splat_constant(I64, symbols.local_bytes - symbols.stack_start)
    used = builder.sub(top, start)
    over = builder.and_(lanes_to_mask(builder, builder.icmp_unsigned(">", used, high)), emitter.active_mask)

    def details() -> tuple[Value, Value]:
        lane = trailing_zeros(builder, over)
        return lane, builder.extract_element(used, lane)

    emitter.stop_if(builder.icmp_signed("!=", over, I32(0)), Fault.ALLOCA_OVERFLOW, details)
    place = _top(emitter)
    old = load_as(builder, place, vector(I32), 4)
    store_as(builder, builder.select(emitter.active, builder.trunc(used, vector(I32)), old), place, 4)


def _address_of_top(emitter: Emitter) -> Value:
    builder = emitter.builder
    used = builder.zext(load_as(builder, _top(emitter), vector(I32), 4), vector(I64))
    return builder.add(used, splat_constant(I64, emitter.kernel.symbols.stack_start))


def alloca(emitter: Emitter, instruction: Instruction) -> None:
    """`alloca.type d, size{, align}`: a local address, aligned to 8 bytes by default."""
    allow(emitter, instruction)
    kind = the_type(emitter, instruction)
    d, size, *rest = operands(emitter, instruction, 2, 3)
    align = emitter.immediate_value(rest[0]) if rest else _DEFAULT_ALIGN
    if align < 1 or align & (align - 1):
        raise emitter.unsupported("its alignment is not a power of two")
    builder = emitter.builder
    up = splat_constant(I64, align - 1)
    place = builder.and_(builder.add(_address_of_top(emitter), up), builder.not_(up))
    room = emitter.reinterpret(emitter.read(size, kind), I64)
    # A size near 2^64 must not wrap past the check.
    sane = builder.icmp_unsigned("<", room, splat_constant(I64, 1 << 40))
    _set_top(emitter, builder.select(sane, builder.add(place, room), splat_constant(I64, 1 << 41)))
    emitter.write(d, emitter.reinterpret(place, I32) if kind == "u32" else place, kind)


def stacksave(emitter: Emitter, instruction: Instruction) -> None:
    """`stacksave d`: the local address of the top of the stack."""
    kind, d = typed_operands(emitter, instruction, 1)
    top = _address_of_top(emitter)
    emitter.write(d, emitter.reinterpret(top, I32) if kind == "u32" else top, kind)


def stackrestore(emitter: Emitter, instruction: Instruction) -> None:
    """`stackrestore a`: back to a top that was saved."""
    kind, a = typed_operands(emitter, instruction, 1)
    _set_top(emitter, emitter.reinterpret(emitter.read(a, kind), I64))
