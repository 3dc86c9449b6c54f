"""Texture and surface instructions: `tex`, `tld4`, `txq`, `suq`, `istypep`, `suld`, `sust`, `sured`. Functions that Numba
compiled do the work. Objects have one mip level; cache operators have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, call_helper
from warpsight.emulator.codegen.lanes import (
    F16,
    F32,
    I1,
    I16,
    I32,
    I64,
    PTR,
    Value,
    at,
    bits_of,
    intrinsic,
    is_signed,
    load_as,
    scalar_type,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import Fault, Slot
from warpsight.emulator.codegen.recording import emit_event_byte
from warpsight.emulator.ptx.common import allow, elements_of, operands, the_type
from warpsight.emulator.textures import texels
from warpsight.emulator.textures.objects import AddressMode, Row, Use
from warpsight.isa.ptx.constants import TYPE_NAMES
from warpsight.isa.ptx.program import Address, Instruction, Vector

# PTX's geometries, by their number in `descriptors.Kind`, with the coordinates that each takes (a fourth pads a vector of three).
GEOMETRIES = {"1d": (0, 1), "2d": (1, 2), "3d": (2, 3), "a1d": (3, 2), "a2d": (4, 3), "cube": (5, 3), "acube": (6, 4)}
LAYERED = ("a1d", "a2d", "acube")
_FAILURES = (Fault.OUT_OF_BOUNDS, Fault.READ_ONLY, Fault.MISALIGNED, Fault.BAD_IMAGE, Fault.IMAGE_KIND, Fault.SURFACE_BOUNDS)
_SLOTS = (Slot.ARENA_DELTA, Slot.ALLOC_PTR, Slot.ALLOC_COUNT, Slot.IMAGE_PTR, Slot.IMAGE_COUNT)


def geometry_of(emitter: Emitter, instruction: Instruction) -> str:
    """The geometry that an instruction names."""
    geometry = next((m for m in instruction.modifiers if m in GEOMETRIES), None)
    if geometry is None:
        raise emitter.unsupported("it names no geometry that is modelled")
    return geometry


def handle(emitter: Emitter, operand: Any) -> Value:
    """The object's handle in each lane; a name gives the address of its variable, which native code follows."""
    return emitter.effective_address(operand) if isinstance(operand, Address) else emitter.read(operand, "u64")


def coordinates(emitter: Emitter, operand: Any, geometry: str, kind: str) -> list[Value]:
    """Four vectors of 32-bit patterns; the first of a layered geometry is the layer. `kind` is s32 or f32."""
    elements, count = elements_of(operand), GEOMETRIES[geometry][1]
    if len(elements) != count and not (count == 3 and len(elements) == 4):
        raise emitter.unsupported(f"it has {len(elements)} coordinates, and .{geometry} takes {count}")
    values = []
    for place, element in enumerate(elements[:count]):
        value = emitter.read(element, "u32" if place == 0 and geometry in LAYERED else kind)
        values.append(emitter.builder.bitcast(value, vector(I32)))
    return values + [splat_constant(I32, 0)] * (4 - count)


def call_native(
    emitter: Emitter, name: str, access: str, what: int | Value, handles: list[Value], place: list[Value], values: list[Value]
) -> list[Value]:
    """Do an access in one out-of-line function per native function: `handles` of object and sampler, `place` four coordinates.

    `access` is load, store, atomic, or empty for a query, which leaves no event. `values` (up to four <32 x i64>) are what a store
    or atomic takes; the others give four <32 x i64>.
    """
    stored = [*values, *([splat_constant(I64, 0)] * (4 - len(values)))] if values else []

    def body(helper: HelperFrame) -> list[Value]:
        request, held = _call(helper, name, *helper.arguments)
        if access:
            _record(helper, request, access == "atomic")
        return [] if values else [load_as(helper.builder, at(helper.builder, held, 256 * k), vector(I64), 64) for k in range(4)]

    results = [] if values else [vector(I64)] * 4
    site = emitter.kernel.next_site()
    number = I64(what) if isinstance(what, int) else what
    return call_helper(emitter, f"{name}_{access}", site, [number, *handles, *place, *stored], results, body)


def _call(helper: HelperFrame, name: str, what: Value, image: Value, sampler: Value, *rest: Value) -> tuple[Value, Value]:
    """Fill a request, call, and stop on a failure; returns the request and where its values lie. `rest`: coordinates, values."""
    builder = helper.builder
    held = _side_by_side(helper, "values", vector(I64), rest[4:] or [splat_constant(I64, 0)] * 4)
    words: dict[int, Value] = {
        texels.MASK: builder.zext(helper.active_mask, I64),
        texels.WHAT: what,
        texels.HANDLES: helper.spill(image, "handles"),
        texels.SAMPLERS: helper.spill(sampler, "samplers"),
        texels.COORDINATES: _side_by_side(helper, "coordinates", vector(I32), rest[:4]),
        texels.VALUES: held,
        texels.SITE: at(builder, helper.slot_pointer(Slot.SITE_PTR), builder.mul(helper.site, I64(16))),
        texels.SECTORS: helper.slot_pointer(Slot.SECTOR_CURSOR),
        **{texels.DELTA + k: helper.slot(slot) for k, slot in enumerate(_SLOTS)},
    }
    request = helper.buffer("request", ir.ArrayType(I64, texels.REQUEST_WORDS))
    for word, value in words.items():
        store_as(builder, value, at(builder, request, 8 * word), 8)
    builder.call(intrinsic(builder.module, name, ir.VoidType(), [PTR]), [request])

    def details() -> tuple[Value, Value]:
        return builder.trunc(_word_of(helper, request, texels.LANE), I32), _word_of(helper, request, texels.ADDRESS)

    failure = _word_of(helper, request, texels.FAILURE)
    for number, kind in enumerate(_FAILURES, 1):
        helper.stop_if(builder.icmp_signed("==", failure, I64(number)), kind, details)
    return request, held


def _record(helper: HelperFrame, request: Value, shares: bool) -> None:
    """The event: how many sectors were appended, and for an atomic how many lanes share an address."""
    builder = helper.builder
    count = _word_of(helper, request, texels.COUNT)
    cursor = at(builder, helper.slot_pointer(Slot.SECTOR_CURSOR), builder.shl(count, I64(2)))
    store_as(builder, cursor, at(builder, helper.context, 8 * Slot.SECTOR_CURSOR), 8)
    emit_event_byte(helper, builder.trunc(count, I32))
    if shares:
        emit_event_byte(helper, builder.trunc(_word_of(helper, request, texels.SHARING), I32))


def _word_of(helper: HelperFrame, request: Value, word: int) -> Value:
    return load_as(helper.builder, at(helper.builder, request, 8 * word), I64, 8)


def _side_by_side(frame: Frame, name: str, kind: Any, values: Sequence[Value]) -> Value:
    """Four vectors in one stack slot, one after the other."""
    size = 32 * kind.element.width // 8
    pointer = frame.buffer(name, ir.ArrayType(kind, 4))
    for k, value in enumerate(values):
        store_as(frame.builder, value, at(frame.builder, pointer, size * k), 64)
    return pointer


# -- `tex`, `tld4`, `txq`, `suq`, `istypep`: PTX ISA, section "Texture Instructions". Objects have one mip level, level 0.

_EXTRAS = {"level": 1, "grad": 2}
_COMPONENTS = {"r": 1, "g": 2, "b": 3, "a": 4}
_ADDRESS_MODES = {AddressMode.WRAP: 0, AddressMode.MIRROR: 1, AddressMode.CLAMP: 3, AddressMode.BORDER: 4}  # PTX's numbers


def fetch(emitter: Emitter, instruction: Instruction) -> None:
    """Level of detail and gradients choose among mip levels, and there is one: they are read and have no effect."""
    gather = instruction.opcode == "tld4"
    allow(emitter, instruction, "v2", "v4", *GEOMETRIES, *(_COMPONENTS if gather else ("base", *_EXTRAS)))
    geometry = geometry_of(emitter, instruction)
    d, texture, *rest = operands(emitter, instruction, 3, 8)
    extras = next((n for m, n in _EXTRAS.items() if m in instruction.modifiers), 0)
    sampler = texture
    if len(rest) == 2 + extras and not isinstance(rest[0], Vector):
        sampler, *rest = rest
    if len(rest) != 1 + extras:
        raise emitter.unsupported("texel offsets and depth comparison are not modelled")
    result, coordinate = _types(emitter, instruction)
    what = GEOMETRIES[geometry][0]
    if gather:
        if geometry in ("1d", "3d", "a1d"):
            raise emitter.unsupported(f".{geometry} has no footprint of four texels")
        what |= next(n for m, n in _COMPONENTS.items() if m in instruction.modifiers) << 16
    elif coordinate == "s32":
        if "cube" in geometry:
            raise emitter.unsupported("a cube map has no integer coordinates")
        what |= 1 << 8
    place = coordinates(emitter, rest[0], geometry, coordinate)
    handles = [handle(emitter, texture), handle(emitter, sampler)]
    _write(emitter, d, result, call_native(emitter, "warpsight_texture", "load", what, handles, place, []))
    if instruction.pair is not None:  # all of the texture is resident
        emitter.write(instruction.pair, splat_constant(I1, 1), "pred")


def _types(emitter: Emitter, instruction: Instruction) -> tuple[str, str]:
    """Types of result and coordinates."""
    kinds = [m for m in instruction.modifiers if m in TYPE_NAMES]
    results = {"u32": "v4", "s32": "v4", "f32": "v4", "f16": "v4", "f16x2": "v2"}
    if len(kinds) != 2 or results.get(kinds[0]) not in instruction.modifiers or kinds[1] not in ("s32", "f32"):
        raise emitter.unsupported("its result must be v4 of u32, s32, f32 or f16, or v2.f16x2, and its coordinates s32 or f32")
    return kinds[0], kinds[1]


def _write(emitter: Emitter, destination: Any, kind: str, values: list[Value]) -> None:
    """Patterns of 32 bits as the result's type; f16 is rounded to nearest even."""
    builder, targets = emitter.builder, elements_of(destination)
    if len(targets) != (2 if kind == "f16x2" else 4):
        raise emitter.unsupported(f"it names {len(targets)} destinations")
    patterns = [builder.trunc(value, vector(I32)) for value in values]
    if kind.startswith("f16"):
        patterns = [builder.fptrunc(builder.bitcast(pattern, vector(F32)), vector(F16)) for pattern in patterns]
        if kind == "f16x2":
            wide = [builder.zext(builder.bitcast(half, vector(I16)), vector(I32)) for half in patterns]
            patterns = [builder.or_(wide[k], builder.shl(wide[k + 1], splat_constant(I32, 16))) for k in (0, 2)]
    elif kind == "f32":
        patterns = [builder.bitcast(pattern, vector(F32)) for pattern in patterns]
    for target, value in zip(targets, patterns, strict=True):
        emitter.write(target, value, "b32" if kind == "f16x2" else kind)


_WORDS = {
    "width": Row.WIDTH, "height": Row.HEIGHT, "depth": Row.DEPTH, "array_size": Row.LAYERS, "channel_data_type": Row.DATA_TYPE,
    "channel_order": Row.ORDER, "normalized_coords": Row.NORMALIZED, "filter_mode": Row.FILTER, "addr_mode_0": Row.ADDRESS_X,
    "addr_mode_1": Row.ADDRESS_Y, "addr_mode_2": Row.ADDRESS_Z,
}  # fmt: skip
_ONES = ("num_mipmap_levels", "num_samples")
_OF_SURFACE = ("width", "height", "depth", "array_size", "channel_data_type", "channel_order")
_OF_SAMPLER = ("filter_mode", "addr_mode_0", "addr_mode_1", "addr_mode_2")


def query(emitter: Emitter, instruction: Instruction) -> None:
    """A field of a descriptor; sizes that the object lacks are 1. `txq.level` answers for level 0, the only one."""
    surface = instruction.opcode == "suq"
    names = [m for m in instruction.modifiers if m not in ("level", "b32")]
    known = (*_OF_SURFACE, "memory_layout") if surface else (*_WORDS, *_ONES, "force_unnormalized_coords")
    if len(names) != 1 or names[0] not in known:
        raise emitter.unsupported("this query is not modelled")
    d, place, *_level = operands(emitter, instruction, 2, 3)
    (name,) = names
    uses = [Use.SURFACE] if surface else [Use.TEXTURE, *([Use.SAMPLER] if name in _OF_SAMPLER else [])]
    value = _word(emitter, place, _WORDS.get(name, Row.CHANNELS), uses, optional=False)
    builder = emitter.builder
    if name.startswith("addr_mode"):
        mode, value = value, splat_constant(I64, 0)
        for ours, number in _ADDRESS_MODES.items():
            same = builder.icmp_signed("==", mode, splat_constant(I64, ours))
            value = builder.select(same, splat_constant(I64, number), value)
    elif name in (*_ONES, "memory_layout"):  # rows of a surface lie one after the other: linear
        value = splat_constant(I64, 1)
    elif name == "force_unnormalized_coords":
        value = splat_constant(I64, 0)
    emitter.write(d, builder.trunc(value, vector(I32)), "b32")


def istypep(emitter: Emitter, instruction: Instruction) -> None:
    """`istypep.{texref,surfref,samplerref} p, a`."""
    uses = {"texref": Use.TEXTURE, "surfref": Use.SURFACE, "samplerref": Use.SAMPLER}
    d, source = operands(emitter, instruction, 2)
    use = uses.get(instruction.modifiers[0]) if len(instruction.modifiers) == 1 else None
    if use is None:
        raise emitter.unsupported("this type is not modelled")
    held = _word(emitter, source, Row.USE, [use], optional=True)
    emitter.write(d, emitter.builder.icmp_signed("!=", held, splat_constant(I64, 0)), "pred")


def _word(emitter: Emitter, operand: Any, word: Row, uses: list[Use], *, optional: bool) -> Value:
    what = int(word) | (1 << 8 if optional else 0) | sum(1 << 16 + use for use in uses)
    handles, none = handle(emitter, operand), splat_constant(I32, 0)
    return call_native(emitter, "warpsight_image_query", "", what, [handles, handles], [none] * 4, [])[0]


# -- `suld`, `sust`, `sured`: PTX ISA, section "Surface Instructions". Cache operators have no effect.

BOUNDS = ("trap", "clamp", "zero")
_CACHE = ("ca", "cg", "cs", "cv", "wb", "wt")
_OPERATIONS = {"suld": 0, "sust": 1, "add": 2, "min": 3, "max": 4, "and": 5, "or": 6}


def surface_code(geometry: str, operation: str, bounds: str, kind: str, count: int, *, formatted: bool) -> int:
    """What an access does, as `textures/surfaces.py` reads it: `count` elements of PTX type `kind` for each lane."""
    return (
        GEOMETRIES[geometry][0]
        | _OPERATIONS[operation] << 8
        | BOUNDS.index(bounds) << 16
        | formatted << 20
        | is_signed(kind) << 21
        | bits_of(kind) // 8 << 24
        | count << 32
    )


def _access(
    emitter: Emitter, instruction: Instruction, access: str, operation: str, kind: str, image: Any, place: Any, parts: list[Any]
) -> list[Value]:
    """Do an access, described as `textures/surfaces.py` reads it; `parts` are the elements that a lane moves."""
    geometry = geometry_of(emitter, instruction)
    form, bounds = instruction.modifiers[0], next((m for m in instruction.modifiers if m in BOUNDS), "trap")
    if form not in ("b", "p") or "cube" in geometry:
        raise emitter.unsupported("this form of surface access is not modelled")
    what = surface_code(geometry, operation, bounds, kind, len(parts), formatted=form == "p")
    where, handles = coordinates(emitter, place, geometry, "s32"), handle(emitter, image)
    values = [_wide(emitter, part, kind) for part in parts] if access != "load" else []
    return call_native(emitter, "warpsight_surface", access, what, [handles, handles], where, values)


def _shape(emitter: Emitter, instruction: Instruction, side: Any) -> tuple[str, list[Any]]:
    """Type and registers of the elements that a lane moves."""
    allow(emitter, instruction, "b", "p", "v2", "v4", *GEOMETRIES, *BOUNDS, *_CACHE)
    kind, parts = the_type(emitter, instruction), elements_of(side)
    count = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4")), 1)
    if len(parts) != count or count * bits_of(kind) > 128 or not kind.startswith("b"):
        raise emitter.unsupported(f"it moves {count} elements of .{kind} and names {len(parts)} registers")
    return kind, parts


def surface_load(emitter: Emitter, instruction: Instruction) -> None:
    """`suld`."""
    d, surface, place = operands(emitter, instruction, 3)
    kind, parts = _shape(emitter, instruction, d)
    if instruction.modifiers[0] != "b":
        raise emitter.unsupported("formatted loads are not modelled")
    values = _access(emitter, instruction, "load", "suld", kind, surface, place, parts)
    for part, value in zip(parts, values, strict=False):
        emitter.write(part, value if kind == "b64" else emitter.builder.trunc(value, vector(scalar_type(kind))), kind)


def surface_store(emitter: Emitter, instruction: Instruction) -> None:
    """`sust`."""
    surface, place, source = operands(emitter, instruction, 3)
    kind, parts = _shape(emitter, instruction, source)
    if instruction.modifiers[0] == "p" and kind != "b32":
        raise emitter.unsupported("a formatted store takes b32")
    _access(emitter, instruction, "store", "sust", kind, surface, place, parts)


def surface_reduce(emitter: Emitter, instruction: Instruction) -> None:
    """`sured`."""
    operations = [m for m in instruction.modifiers if m in _OPERATIONS]
    allow(emitter, instruction, "b", *operations, "1d", "2d", "3d", *BOUNDS)
    surface, place, source = operands(emitter, instruction, 3)
    kind = the_type(emitter, instruction)
    logic = bool(operations) and operations[0] in ("and", "or")
    if len(operations) != 1 or kind not in ("u32", "s32", "b32", "u64", "s64") or (kind == "b32") != logic:
        raise emitter.unsupported("this reduction is not modelled")
    _access(emitter, instruction, "atomic", operations[0], kind, surface, place, elements_of(source)[:1])


def _wide(emitter: Emitter, operand: Any, kind: str) -> Value:
    """An element in 64 bits."""
    bits = scalar_type(f"b{bits_of(kind)}")
    value = emitter.builder.bitcast(emitter.read(operand, f"b{bits_of(kind)}"), vector(bits))
    return value if bits == I64 else emitter.builder.zext(value, vector(I64))
