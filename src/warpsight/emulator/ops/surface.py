"""`suld`, `sust`, `sured`: PTX ISA, section "Surface Instructions". Cache operators have no effect."""

from __future__ import annotations

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I64, Value, bits_of, scalar_type, vector
from warpsight.emulator.ops.common import allow, operands, the_type
from warpsight.emulator.ops.images import GEOMETRIES, call_native, coordinates, elements, geometry_of, handle
from warpsight.isa.program import Instruction, Operand

_BOUNDS = ("trap", "clamp", "zero")
_CACHE = ("ca", "cg", "cs", "cv", "wb", "wt")
_OPERATIONS = {"suld": 0, "sust": 1, "add": 2, "min": 3, "max": 4, "and": 5, "or": 6}


def _what(emitter: Emitter, instruction: Instruction, geometry: str, operation: int, kind: str, count: int) -> int:
    """The access as `emulator.surfaces` reads it."""
    form, bounds = instruction.modifiers[0], next((m for m in instruction.modifiers if m in _BOUNDS), "trap")
    if form not in ("b", "p") or "cube" in geometry:
        raise emitter.unsupported("this form of surface access is not modelled")
    signed = kind.startswith("s")
    return (
        GEOMETRIES[geometry][0]
        | operation << 8
        | _BOUNDS.index(bounds) << 16
        | (form == "p") << 20
        | signed << 21
        | bits_of(kind) // 8 << 24
        | count << 32
    )


def _shape(emitter: Emitter, instruction: Instruction, side: object) -> tuple[str, list[Operand | None]]:
    """Type and registers of the elements that a lane moves."""
    allow(emitter, instruction, "b", "p", "v2", "v4", *GEOMETRIES, *_BOUNDS, *_CACHE)
    kind, parts = the_type(emitter, instruction), elements(side)
    count = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4")), 1)
    if len(parts) != count or count * bits_of(kind) > 128 or not kind.startswith("b"):
        raise emitter.unsupported(f"it moves {count} elements of .{kind} and names {len(parts)} registers")
    return kind, parts


def _load(emitter: Emitter, instruction: Instruction) -> None:
    d, surface, place = operands(emitter, instruction, 3)
    kind, parts = _shape(emitter, instruction, d)
    if instruction.modifiers[0] != "b":
        raise emitter.unsupported("formatted loads are not modelled")
    geometry = geometry_of(emitter, instruction)
    what, where = _what(emitter, instruction, geometry, 0, kind, len(parts)), coordinates(emitter, place, geometry, "s32")
    handles = handle(emitter, surface)
    values = call_native(emitter, "warpsight_surface", "load", what, [handles, handles], where, [])
    for part, value in zip(parts, values, strict=False):
        emitter.write(part, value if kind == "b64" else emitter.builder.trunc(value, vector(scalar_type(kind))), kind)


def _store(emitter: Emitter, instruction: Instruction) -> None:
    surface, place, source = operands(emitter, instruction, 3)
    kind, parts = _shape(emitter, instruction, source)
    if instruction.modifiers[0] == "p" and kind != "b32":
        raise emitter.unsupported("a formatted store takes b32")
    geometry = geometry_of(emitter, instruction)
    what, where = _what(emitter, instruction, geometry, 1, kind, len(parts)), coordinates(emitter, place, geometry, "s32")
    handles = handle(emitter, surface)
    values = [_wide(emitter, part, kind) for part in parts]
    call_native(emitter, "warpsight_surface", "store", what, [handles, handles], where, values)


def _reduce(emitter: Emitter, instruction: Instruction) -> None:
    operations = [m for m in instruction.modifiers if m in _OPERATIONS]
    allow(emitter, instruction, "b", *operations, "1d", "2d", "3d", *_BOUNDS)
    surface, place, source = operands(emitter, instruction, 3)
    kind = the_type(emitter, instruction)
    logic = bool(operations) and operations[0] in ("and", "or")
    if len(operations) != 1 or kind not in ("u32", "s32", "b32", "u64", "s64") or (kind == "b32") != logic:
        raise emitter.unsupported("this reduction is not modelled")
    geometry = geometry_of(emitter, instruction)
    what = _what(emitter, instruction, geometry, _OPERATIONS[operations[0]], kind, 1)
    where, handles = coordinates(emitter, place, geometry, "s32"), handle(emitter, surface)
    value = _wide(emitter, elements(source)[0], kind)
    call_native(emitter, "warpsight_surface", "atomic", what, [handles, handles], where, [value])


def _wide(emitter: Emitter, operand: Operand | None, kind: str) -> Value:
    """An element in 64 bits."""
    bits = scalar_type(f"b{bits_of(kind)}")
    value = emitter.builder.bitcast(emitter.read(operand, f"b{bits_of(kind)}"), vector(bits))
    return value if bits == I64 else emitter.builder.zext(value, vector(I64))


HANDLERS = {"suld": _load, "sust": _store, "sured": _reduce}
