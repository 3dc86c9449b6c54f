"""Texture and surface objects of a program: what `runtime/objects.c` asks, as rows of the emulator's table."""

from __future__ import annotations

import struct

from warpsight.base.errors import UsageError
from warpsight.emulator.cuda_objects import Channels, TextureSettings, array_image, linear_image, pitched_image, texture
from warpsight.emulator.descriptors import Descriptor, DescriptorTable, Use

OBJECT = struct.Struct("<21q4d")
_ARRAY, _LINEAR, _PITCHED = 0, 2, 3  # cudaResourceType


def make_object(table: DescriptorTable, payload: bytes) -> int:
    """The handle of a new object. Raises UsageError for what CUDA refuses, UnsupportedError for what is not modelled."""
    use, kind, address, width, height, depth, pitch, flags, *rest = OBJECT.unpack(payload)
    channels = Channels((rest[0], rest[1], rest[2], rest[3]), rest[4])
    if kind == _ARRAY:
        image = array_image(Use(use), address, (width, height, depth), flags, channels, pitch)
    elif kind == _LINEAR:
        image = linear_image(address, width, channels)
    elif kind == _PITCHED:
        image = pitched_image(address, width, height, pitch, channels)
    else:
        raise UsageError(f"resource type {kind} does not exist")
    return table.add(_sampled(image, rest[5:]) if use == Use.TEXTURE else image)


def _sampled(image: Descriptor, fields: list[float]) -> Descriptor:
    """`image` with the fields of cudaTextureDesc from the address modes on."""
    x, y, z, filter_mode, read_mode, normalized, srgb, seamless = (int(field) for field in fields[:8])
    border = (fields[8], fields[9], fields[10], fields[11])
    settings = TextureSettings((x, y, z), filter_mode, read_mode, bool(normalized), border, bool(srgb), bool(seamless))
    return texture(image, settings)
