"""PTX fundamental types: how many bits a type holds and how constants of it are laid out in memory (PTX ISA, section "Types")."""

from __future__ import annotations

import math
import struct

from warpsight.base.errors import FormatError, suggestion

_PACKED = {"f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "u8x4": 32, "s8x4": 32, "b4x16": 64, "b8x16": 128,
           "e4m3x2": 16, "e5m2x2": 16, "ue8m0x2": 16, "e2m1x2": 8, "e2m3x2": 16, "e3m2x2": 16, "f32x2": 64,
           "e4m3x4": 32, "e5m2x4": 32, "e2m1x4": 16, "e2m3x4": 32, "e3m2x4": 32}
_OPAQUE = {"texref": 64, "samplerref": 64, "surfref": 64}
_BITS = {
    **{f"{kind}{bits}": bits for kind in "usb" for bits in (8, 16, 32, 64)},
    "b1": 1, "b4": 4, "u4": 4, "s4": 4, "b128": 128, "pred": 1,
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8,
    **_PACKED, **_OPAQUE,
}
_LANES = {"v2": 2, "v4": 4, "v8": 8}
TYPE_NAMES = frozenset(_BITS)
# What a register can be: fundamental types. The others are held in registers of bits.
REGISTER_TYPES = frozenset({"pred", "b128", "f16x2", "bf16", "bf16x2"} | {t for t in _BITS if t[1:] in {"8", "16", "32", "64"}})


def type_bits(type: str) -> int:
    """Bits in a value of a PTX type: `f32` is 32, `pred` 1, `b128` 128, `v4.f32` 128; a leading dot is allowed.

    Raises FormatError for a name that is no PTX type.
    """
    lanes = 1
    name = type.lstrip(".")
    head, _, tail = name.partition(".")
    if head in _LANES:
        lanes, name = _LANES[head], tail
    bits = _BITS.get(name)
    if bits is None:
        what = f'"{type}" is not a PTX type{suggestion(name, _BITS)}'
        raise FormatError(what, remedy="use a type of the PTX ISA such as .u32, .f64 or .v4.f32")
    return bits * lanes


def vector_lanes(modifiers: tuple[str, ...]) -> int:
    """2, 4 or 8 when one of an opcode's modifiers is `v2`, `v4` or `v8`, else 1."""
    for modifier in modifiers:
        if modifier in _LANES:
            return _LANES[modifier]
    return 1


def is_float(type: str) -> bool:
    """Whether a constant of this type is stored in a floating-point format."""
    return type in {"f16", "bf16", "f32", "f64"}


def pack_float(type: str, value: float) -> bytes:
    """The little-endian bytes of `value` in `f16`, `bf16`, `f32` or `f64`, rounded to nearest even.

    Raises OverflowError where a finite value does not fit.
    """
    if type == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        if math.isnan(value):
            return struct.pack("<H", 0x7FFF)
        return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF)
    return struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[type], value)
