"""`ld`, `ldu`, `st` in every state space."""

from __future__ import annotations

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.frame import Frame, HelperFrame
from warpsight.emulator.lanes import (
    I32,
    I64,
    PTR,
    Value,
    at,
    bits_of,
    gather,
    lanes_to_mask,
    load_as,
    scalar_type,
    splat,
    splat_constant,
    vector,
)
from warpsight.emulator.layout import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES, Fault, Slot
from warpsight.emulator.ops.access import (
    Access,
    check_window,
    global_access,
    local_access,
    local_body,
    merge,
    scattered_global,
    scattered_shared,
    shared_access,
)
from warpsight.emulator.ops.common import allow, operands, the_type
from warpsight.emulator.recording import emit_event_byte
from warpsight.isa.program import Address, Instruction, Symbol, Vector

# Orders, scopes and cache operators change when memory is seen, not what: a functional model that runs in order needs none of them.
CACHE_WORDS = (
    "weak", "volatile", "relaxed", "acquire", "release", "sc", "acq_rel", "mmio",
    "cta", "cluster", "gpu", "sys", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc",
    "unified", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
    "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint", "L2::evict_last", "L2::evict_normal", "L2::evict_first",
)  # fmt: skip
SPACES = ("global", "shared", "shared::cta", "local", "const", "param", "param::entry")


def _shape(emitter: Emitter, instruction: Instruction, register_side: object) -> tuple[str, list[object]]:
    """The element type and the list of registers moved."""
    kind = the_type(emitter, instruction)
    count = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    parts: list[object] = list(register_side.elements) if isinstance(register_side, Vector) else [register_side]
    if len(parts) != count:
        raise emitter.unsupported(f"it moves {count} elements but names {len(parts)} registers")
    if count * bits_of(kind) > 128:
        raise emitter.unsupported("accesses of more than 16 bytes per lane are not modelled")
    return kind, parts


def space_of(instruction: Instruction) -> str:
    """State space by name, `generic` when none is given."""
    name = next((m for m in instruction.modifiers if m in SPACES), "generic")
    return name.split("::")[0]


def _load(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction, "v2", "v4", "v8", *SPACES, *CACHE_WORDS)
    d, address, *_hint = operands(emitter, instruction, 2, 3)
    kind, parts = _shape(emitter, instruction, d)
    space = space_of(instruction)
    access = Access(scalar_type(kind), bits_of(kind) // 8, len(parts), record=space != "const")
    values = _load_param(emitter, address, access) if space == "param" else _dispatch(emitter, space, address, access)
    for part, value in zip(parts, values, strict=True):
        emitter.write(part, value, kind)  # type: ignore[arg-type]


def _store(emitter: Emitter, instruction: Instruction) -> None:
    allow(emitter, instruction, "v2", "v4", "v8", *SPACES, *CACHE_WORDS)
    address, source, *_hint = operands(emitter, instruction, 2, 3)
    kind, parts = _shape(emitter, instruction, source)
    space = space_of(instruction)
    if space == "param":
        raise emitter.unsupported("it passes an argument to a function, and calls are not modelled")
    if space == "const":
        raise emitter.unsupported(f"a store to .{space} is not modelled")
    values = tuple(emitter.read(p, kind) for p in parts)  # type: ignore[arg-type]
    _dispatch(emitter, space, address, Access(scalar_type(kind), bits_of(kind) // 8, len(parts), values))


def _dispatch(emitter: Emitter, space: str, address: object, access: Access) -> list[Value]:
    site = I64(emitter.kernel.next_site())
    if space in ("global", "const"):
        return global_access(emitter, emitter.effective_address(address), access, site)  # type: ignore[arg-type]
    if space == "shared":
        return shared_access(emitter, emitter.effective_address(address, 32), access, site)  # type: ignore[arg-type]
    if space == "local":
        return local_access(emitter, emitter.effective_address(address, 32), access, site)  # type: ignore[arg-type]
    return access.outside(emitter, "generic", site, emitter.effective_address(address), _generic)  # type: ignore[arg-type]


def _generic(helper: HelperFrame, addresses: Value, access: Access) -> list[Value]:
    """All active lanes in one space (two event bytes: sectors, degree). Lanes of one access in different spaces are refused."""
    builder, mask = helper.builder, helper.active_mask
    in_shared, in_local = window_mask(helper, addresses, SHARED_WINDOW), window_mask(helper, addresses, LOCAL_WINDOW)
    any_shared, any_local = (builder.icmp_signed("!=", m, I32(0)) for m in (in_shared, in_local))
    whole = builder.or_(builder.icmp_signed("==", in_shared, mask), builder.icmp_signed("==", in_local, mask))
    mixed = builder.and_(builder.or_(any_shared, any_local), builder.not_(whole))
    helper.stop_if(mixed, Fault.MIXED_SPACES, lambda: (I32(0), I64(0)))
    shared, other, local, device, done = (builder.append_basic_block(n) for n in ("shared", "other", "local", "device", "joined"))
    builder.cbranch(any_shared, shared, other)
    builder.position_at_end(shared)
    emit_event_byte(helper, I32(0))
    from_shared = scattered_shared(helper, window_offset(helper, addresses, SHARED_WINDOW), access)
    ways = [(builder.block, from_shared)]
    builder.branch(done)
    builder.position_at_end(other)
    builder.cbranch(any_local, local, device)
    builder.position_at_end(local)
    from_local = local_body(helper, window_offset(helper, addresses, LOCAL_WINDOW), access)
    emit_event_byte(helper, I32(0))
    ways.append((builder.block, from_local))
    builder.branch(done)
    builder.position_at_end(device)
    from_device = scattered_global(helper, addresses, access)
    emit_event_byte(helper, I32(0))
    return merge(helper, done, ways, from_device)


def window_mask(frame: Frame, addresses: Value, window: int) -> Value:
    """i32 mask of active lanes whose generic address lies in a window."""
    builder = frame.builder
    offset = builder.sub(addresses, splat_constant(I64, window))
    inside = builder.icmp_unsigned("<", offset, splat_constant(I64, WINDOW_BYTES))
    return builder.and_(lanes_to_mask(builder, inside), frame.active_mask)


def window_offset(frame: Frame, addresses: Value, window: int) -> Value:
    """Generic addresses as i32 offsets into a window."""
    return frame.builder.trunc(frame.builder.sub(addresses, splat_constant(I64, window)), vector(I32))


def _load_param(emitter: Emitter, address: object, access: Access) -> list[Value]:
    """Parameters are the same for all lanes: a scalar load unless the address is computed."""
    builder = emitter.builder
    if not isinstance(address, Address):
        raise emitter.unsupported("its address is not in brackets")
    base = emitter.slot_pointer(Slot.PARAM_PTR)
    limit = emitter.kernel.symbols.param_bytes
    if isinstance(address.base, Symbol):
        offset = emitter.kernel.symbols.address(address.base.name, emitter) + address.base.offset + address.offset
        if not 0 <= offset <= limit - access.size:
            raise emitter.unsupported("it reads past the kernel's parameters")
        pointer = at(builder, base, offset)
        return [
            splat(builder, load_as(builder, at(builder, pointer, k * access.element_bytes), access.element, 1))
            for k in range(access.count)
        ]
    offsets = emitter.effective_address(address, 32)
    check_window(emitter, offsets, access.size, I64(limit), Fault.PARAM_BOUNDS)
    start = splat(builder, builder.ptrtoint(base, I64))
    host = builder.add(builder.zext(offsets, vector(I64)), start)
    return [
        gather(
            builder,
            builder.inttoptr(builder.add(host, splat_constant(I64, k * access.element_bytes)), vector(PTR)),
            emitter.active,
            access.element,
        )
        for k in range(access.count)
    ]


HANDLERS = {"ld": _load, "ldu": _load, "st": _store}
