"""`tex`, `tld4`, `txq`, `suq`, `istypep`: PTX ISA, section "Texture Instructions". Objects have one mip level, level 0."""

from __future__ import annotations

from typing import Any

from warpsight.emulator.descriptors import AddressMode, Row, Use
from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import F16, F32, I1, I16, I32, I64, Value, splat_constant, vector
from warpsight.emulator.ops.common import allow, operands
from warpsight.emulator.ops.images import GEOMETRIES, call_native, coordinates, elements, geometry_of, handle
from warpsight.isa.program import Instruction, Vector
from warpsight.isa.types import TYPE_NAMES

_EXTRAS = {"level": 1, "grad": 2}
_COMPONENTS = {"r": 1, "g": 2, "b": 3, "a": 4}
_ADDRESS_MODES = {AddressMode.WRAP: 0, AddressMode.MIRROR: 1, AddressMode.CLAMP: 3, AddressMode.BORDER: 4}  # PTX's numbers


def _fetch(emitter: Emitter, instruction: Instruction) -> None:
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
    found = [m for m in instruction.modifiers if m in TYPE_NAMES]
    results = {"u32": "v4", "s32": "v4", "f32": "v4", "f16": "v4", "f16x2": "v2"}
    if len(found) != 2 or results.get(found[0]) not in instruction.modifiers or found[1] not in ("s32", "f32"):
        raise emitter.unsupported("it gives four values of u32, s32, f32 or f16 (or v2.f16x2) by coordinates of s32 or f32")
    return found[0], found[1]


def _write(emitter: Emitter, destination: Any, kind: str, values: list[Value]) -> None:
    """Patterns of 32 bits as the result's type; f16 is rounded to nearest even."""
    builder, targets = emitter.builder, elements(destination)
    if len(targets) != (2 if kind == "f16x2" else 4):
        raise emitter.unsupported(f"it names {len(targets)} destinations")
    patterns = [builder.trunc(value, vector(I32)) for value in values]
    if kind.startswith("f16"):
        halves = [builder.fptrunc(builder.bitcast(pattern, vector(F32)), vector(F16)) for pattern in patterns]
        if kind == "f16x2":
            wide = [builder.zext(builder.bitcast(half, vector(I16)), vector(I32)) for half in halves]
            upper = splat_constant(I32, 16)
            halves = [builder.or_(wide[k], builder.shl(wide[k + 1], upper)) for k in (0, 2)]
        patterns = halves
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


def _query(emitter: Emitter, instruction: Instruction) -> None:
    """A field of a descriptor; sizes that the object lacks are 1. `txq.level` answers for level 0, the only one."""
    surface = instruction.opcode == "suq"
    names = [m for m in instruction.modifiers if m not in ("level", "b32")]
    known = (*_OF_SURFACE, "memory_layout") if surface else (*_WORDS, *_ONES, "force_unnormalized_coords")
    if len(names) != 1 or names[0] not in known:
        raise emitter.unsupported("it asks for what is not modelled")
    d, place, *_level = operands(emitter, instruction, 2, 3)
    (name,) = names
    uses = [Use.SURFACE] if surface else [Use.TEXTURE, *([Use.SAMPLER] if name in _OF_SAMPLER else [])]
    found = _word(emitter, place, _WORDS.get(name, Row.CHANNELS), uses, optional=False)
    builder = emitter.builder
    if name.startswith("addr_mode"):
        answer = splat_constant(I64, 0)
        for mode, number in _ADDRESS_MODES.items():
            same = builder.icmp_signed("==", found, splat_constant(I64, mode))
            answer = builder.select(same, splat_constant(I64, number), answer)
        found = answer
    elif name in (*_ONES, "memory_layout"):  # rows of a surface lie one after the other: linear
        found = splat_constant(I64, 1)
    elif name == "force_unnormalized_coords":
        found = splat_constant(I64, 0)
    emitter.write(d, builder.trunc(found, vector(I32)), "b32")


def _is_type(emitter: Emitter, instruction: Instruction) -> None:
    uses = {"texref": Use.TEXTURE, "surfref": Use.SURFACE, "samplerref": Use.SAMPLER}
    d, source = operands(emitter, instruction, 2)
    use = uses.get(instruction.modifiers[0]) if len(instruction.modifiers) == 1 else None
    if use is None:
        raise emitter.unsupported("it asks for a type that is not modelled")
    found = _word(emitter, source, Row.USE, [use], optional=True)
    emitter.write(d, emitter.builder.icmp_signed("!=", found, splat_constant(I64, 0)), "pred")


def _word(emitter: Emitter, operand: Any, word: Row, uses: list[Use], *, optional: bool) -> Value:
    what = int(word) | (1 << 8 if optional else 0) | sum(1 << 16 + use for use in uses)
    handles, none = handle(emitter, operand), splat_constant(I32, 0)
    return call_native(emitter, "warpsight_image_query", "", what, [handles, handles], [none] * 4, [])[0]


HANDLERS = {"tex": _fetch, "tld4": _fetch, "txq": _query, "suq": _query, "istypep": _is_type}
