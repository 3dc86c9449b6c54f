"""Puts the textures and surfaces of a launch into device memory and its table of objects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from warpsight.emulator.descriptors import AddressMode, Descriptor, Filter, Format, Kind, Use
from warpsight.workload.images import ADDRESS_MODES, FILTERS, Image, Texture

PITCH_ALIGN = 32  # bytes: rows start in a sector of their own, cudaDeviceProp::texturePitchAlignment
_KINDS = dict(zip(("1d", "2d", "3d", "a1d", "a2d", "cube", "acube"), Kind, strict=False))
_FORMATS = {"u": Format.UNSIGNED, "i": Format.SIGNED, "f": Format.FLOAT}


def row_bytes(image: Image) -> tuple[int, int]:
    """Bytes of texels in a row, and from one row to the next."""
    shape = image.shape
    used = shape.width * shape.channels * image.array.dtype.itemsize
    return used, -(-used // PITCH_ALIGN) * PITCH_ALIGN if shape.rows > 1 else used


def image_bytes(image: Image) -> int:
    """Device memory that an image takes."""
    return row_bytes(image)[1] * image.shape.rows


def describe(image: Image, address: int) -> Descriptor:
    """The object of an image whose texels lie at a device address."""
    shape, dtype = image.shape, image.array.dtype
    pitch = row_bytes(image)[1]
    size = Descriptor(
        Use.SURFACE, _KINDS[shape.kind], address, shape.width, shape.height, shape.depth, shape.layers, pitch, pitch * shape.height,
        shape.channels, 8 * dtype.itemsize, _FORMATS[dtype.kind],
    )  # fmt: skip
    if not isinstance(image, Texture):
        return size
    x, y, z = (AddressMode(ADDRESS_MODES.index(mode)) for mode in image.address_modes)
    return replace(
        size, use=Use.TEXTURE, normalized_read=image.read == "normalized", filter=Filter(FILTERS.index(image.filter)),
        address_modes=(x, y, z), normalized=image.normalized, border=image.border_colour,
    )  # fmt: skip


def _rows(image: Image) -> npt.NDArray[np.uint8]:
    return image.array.reshape(image.shape.rows, -1).view(np.uint8)


def copy_in(image: Image, memory: npt.NDArray[np.uint8]) -> None:
    """Texels to device memory, `image_bytes` long."""
    used, pitch = row_bytes(image)
    memory.reshape(-1, pitch)[:, :used] = _rows(image)


def copy_out(image: Image, memory: npt.NDArray[np.uint8]) -> None:
    """Texels from device memory."""
    used, pitch = row_bytes(image)
    _rows(image)[:] = memory.reshape(-1, pitch)[:, :used]
