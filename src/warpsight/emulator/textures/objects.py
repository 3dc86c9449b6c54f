"""What a texture, surface or sampler object is: a descriptor, its packed form that native code reads, the table of a launch;
made from the images of a launch or from the descriptors of CUDA.

A program holds a 64-bit handle. `DescriptorTable.add` may be called at any time between launches; `remove` makes the handle
invalid. A packed descriptor is `ROW_WORDS` little-endian int64 words, in the order of `Row`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.kernels.images import ADDRESS_MODES, FILTERS, Image, Texture


class Use(IntEnum):
    """Which instructions may use the object."""

    TEXTURE, SURFACE, SAMPLER = range(1, 4)


class Kind(IntEnum):
    """How texels are arranged. The first seven are also the geometries of PTX's `tex`: 1d 2d 3d a1d a2d cube acube.

    LINEAR is plain device memory: read by integer coordinates, zero outside.
    """

    ONE_D, TWO_D, THREE_D, LAYERED_1D, LAYERED_2D, CUBE, LAYERED_CUBE, LINEAR = range(8)


class Format(IntEnum):
    """What a channel holds."""

    UNSIGNED, SIGNED, FLOAT = range(3)


class Filter(IntEnum):
    """cudaTextureFilterMode."""

    POINT, LINEAR = range(2)


class AddressMode(IntEnum):
    """cudaTextureAddressMode."""

    WRAP, CLAMP, MIRROR, BORDER = range(4)


class Row(IntEnum):
    """The words of a packed descriptor."""

    (
        USE, KIND,
        ADDRESS,  # device address of the first texel
        WIDTH,  # in texels
        HEIGHT, DEPTH,  # 1 where there is none
        LAYERS,  # of a cube map: faces, six a cube
        ROW_PITCH,  # bytes from row to row
        SLICE_PITCH,  # bytes from slice, layer or face to the next
        CHANNELS, CHANNEL_BITS, FORMAT, NORMALIZED_READ, FILTER, ADDRESS_X, ADDRESS_Y, ADDRESS_Z,
        NORMALIZED,  # coordinates
        HANDLE,  # 0 while the row is free
        DATA_TYPE, ORDER,  # what txq and suq answer, as numbers of OpenCL
        BORDER,  # four words: the result's 32-bit patterns
    ) = range(22)  # fmt: skip


ROW_WORDS = 32
HANDLE_BASE = 0x7E << 48  # no device address and no small integer is a handle
_GENERATION_SHIFT = 32
_GENERATIONS = 1 << 15

# cl_channel_type by (format, normalised, bits) and cl_channel_order by channels: PTX says "as in the source language", and of the
# source languages OpenCL alone has numbers.
_DATA_TYPES = {
    (Format.SIGNED, True, 8): 0x10D0, (Format.SIGNED, True, 16): 0x10D1, (Format.UNSIGNED, True, 8): 0x10D2,
    (Format.UNSIGNED, True, 16): 0x10D3, (Format.SIGNED, False, 8): 0x10D7, (Format.SIGNED, False, 16): 0x10D8,
    (Format.SIGNED, False, 32): 0x10D9, (Format.UNSIGNED, False, 8): 0x10DA, (Format.UNSIGNED, False, 16): 0x10DB,
    (Format.UNSIGNED, False, 32): 0x10DC, (Format.FLOAT, False, 16): 0x10DD, (Format.FLOAT, False, 32): 0x10DE,
}  # fmt: skip
_ORDERS = {1: 0x10B0, 2: 0x10B2, 4: 0x10B5}


@dataclass(frozen=True)
class Descriptor:
    """One object. Sizes in texels, pitches in bytes (0: rows and slices without gaps), `layers` of a cube map counts faces.

    `border` is a float per channel, for integer formats rounded towards zero. A sampler needs only the fields from `filter` on.
    Raises UsageError for what CUDA would refuse.
    """

    use: Use
    kind: Kind = Kind.TWO_D
    address: int = 0
    width: int = 1
    height: int = 1
    depth: int = 1
    layers: int = 1
    row_pitch: int = 0
    slice_pitch: int = 0
    channels: int = 1
    channel_bits: int = 32
    format: Format = Format.FLOAT
    normalized_read: bool = False
    filter: Filter = Filter.POINT
    address_modes: tuple[AddressMode, AddressMode, AddressMode] = (AddressMode.CLAMP,) * 3
    normalized: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        if self.use != Use.SAMPLER and (problem := self._problem()):
            raise UsageError(f"{self.use.name.lower()}: {problem}", remedy="give a format, a size and modes that CUDA allows")

    @property
    def texel_bytes(self) -> int:
        """Bytes of one texel."""
        return self.channels * self.channel_bits // 8

    @property
    def pitches(self) -> tuple[int, int]:
        """Bytes from row to row and from slice to slice."""
        row = self.row_pitch or self.width * self.texel_bytes
        return row, self.slice_pitch or row * self.height

    def _problem(self) -> str:
        """Why the object cannot be, or nothing."""
        bits, texel = self.channel_bits, self.texel_bytes
        if self.channels not in _ORDERS:
            return f"{self.channels} channels, and a texel has 1, 2 or 4"
        if (self.format, False, bits) not in _DATA_TYPES:
            return f"{bits}-bit {self.format.name.lower()} channels are not a format"
        if self.normalized_read and (self.format == Format.FLOAT or bits == 32):
            return "only 8 and 16 bit integers are read as normalised floats"
        if self.filter == Filter.LINEAR and self.format != Format.FLOAT and not self.normalized_read:
            return "linear filtering needs floating-point texels, or integers read as normalised floats"
        if not all(1 <= size < 1 << 31 for size in (self.width, self.height, self.depth, self.layers)):
            return f"its size {self.width} x {self.height} x {self.depth}, {self.layers} layers, is not positive and below 2^31"
        row, slice_ = self.pitches
        if self.address % texel or row % texel or slice_ % texel:
            return f"address or pitch is not a multiple of a texel's {texel} bytes"
        if row < 0 or slice_ < 0 or not 0 <= self.address + row * self.height + slice_ * self.depth * self.layers < 1 << 63:
            return f"its rows or slices, {row} and {slice_} bytes apart, lie outside of any memory"
        if self.kind in (Kind.CUBE, Kind.LAYERED_CUBE) and (self.layers % 6 or self.width != self.height):
            return "a cube map has six square faces a cube"
        return ""

    def pack(self, handle: int) -> npt.NDArray[np.int64]:
        """The row that native code reads, int64 [ROW_WORDS]."""
        row = np.zeros(ROW_WORDS, dtype=np.int64)
        row_pitch, slice_pitch = self.pitches
        data_type = _DATA_TYPES.get((self.format, self.normalized_read, self.channel_bits), 0)
        for word, value in {
            Row.USE: self.use, Row.KIND: self.kind, Row.ADDRESS: self.address, Row.WIDTH: self.width, Row.HEIGHT: self.height,
            Row.DEPTH: self.depth, Row.LAYERS: self.layers, Row.ROW_PITCH: row_pitch, Row.SLICE_PITCH: slice_pitch,
            Row.CHANNELS: self.channels, Row.CHANNEL_BITS: self.channel_bits, Row.FORMAT: self.format,
            Row.NORMALIZED_READ: self.normalized_read, Row.FILTER: self.filter, Row.NORMALIZED: self.normalized,
            Row.HANDLE: handle, Row.DATA_TYPE: data_type, Row.ORDER: _ORDERS.get(self.channels, 0),
        }.items():  # fmt: skip
            row[word] = int(value)
        row[Row.ADDRESS_X : Row.ADDRESS_Z + 1] = self.address_modes
        row[Row.BORDER : Row.BORDER + 4] = [self._border_pattern(value) for value in self.border]
        return row

    def _border_pattern(self, value: float) -> int:
        if self.format == Format.FLOAT or self.normalized_read:
            return int(struct.unpack("<I", struct.pack("<f", value))[0])
        return int(value) & 0xFFFFFFFF


class DescriptorTable:
    """The live objects of a device. `rows` (int64 [capacity, ROW_WORDS]) moves as it grows, so a launch takes its address anew."""

    def __init__(self) -> None:
        self.rows: npt.NDArray[np.int64] = np.zeros((8, ROW_WORDS), dtype=np.int64)
        self.count = 0
        self._descriptors: dict[int, Descriptor] = {}
        self._free: list[tuple[int, int]] = []

    def add(self, descriptor: Descriptor) -> int:
        """Make the object; returns its handle. A handle is not given twice before 2^15 others have had its row."""
        if self._free:
            index, generation = self._free.pop()
        else:
            index, generation = self.count, 0
            self.count += 1
            if self.count > len(self.rows):
                self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        handle = HANDLE_BASE | generation << _GENERATION_SHIFT | index
        self.rows[index] = descriptor.pack(handle)
        self._descriptors[handle] = descriptor
        return handle

    def remove(self, handle: int) -> Descriptor:
        """Destroy the object. Raises UsageError when the handle is of none."""
        descriptor = self.get(handle)
        index, generation = handle & 0xFFFFFFFF, handle >> _GENERATION_SHIFT & _GENERATIONS - 1
        self.rows[index] = 0
        self._free.append((index, (generation + 1) % _GENERATIONS))
        del self._descriptors[handle]
        return descriptor

    def get(self, handle: int) -> Descriptor:
        """The object of a handle. Raises UsageError for an invalid handle."""
        if handle not in self._descriptors:
            raise UsageError(f"{handle:#x} is not a texture or surface object", remedy="pass the handle that its creation returned")
        return self._descriptors[handle]

    def surfaces(self) -> list[Descriptor]:
        """The live surface objects."""
        return [each for each in self._descriptors.values() if each.use == Use.SURFACE]


# -- Puts the textures and surfaces of a launch into device memory and its table of objects.

PITCH_ALIGN = 32  # bytes: rows start in a sector of their own, cudaDeviceProp::texturePitchAlignment
_KINDS = dict(zip(("1d", "2d", "3d", "a1d", "a2d", "cube", "acube"), Kind, strict=False))
_FORMAT_OF_DTYPE = {"u": Format.UNSIGNED, "i": Format.SIGNED, "f": Format.FLOAT}


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
        shape.channels, 8 * dtype.itemsize, _FORMAT_OF_DTYPE[dtype.kind],
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


# -- Descriptors from the fields of cudaResourceDesc and cudaTextureDesc, for a runtime library that makes objects as programs ask.
#
# Typical use: `handle = table.add(texture(array_image(Use.TEXTURE, address, (w, h, 0), flags, channels), settings))`. Numbers are
# those of the CUDA runtime's enumerations; a field that is not modelled is an error, never ignored.

LAYERED, SURFACE_LOAD_STORE, CUBEMAP, TEXTURE_GATHER = 1, 2, 4, 8  # cudaArrayLayered, ...
_KNOWN_FLAGS = LAYERED | SURFACE_LOAD_STORE | CUBEMAP | TEXTURE_GATHER
_CUDA_FORMATS = (Format.SIGNED, Format.UNSIGNED, Format.FLOAT)  # cudaChannelFormatKind


@dataclass(frozen=True)
class Channels:
    """cudaChannelFormatDesc: bits of x, y, z, w (0: none) and the kind (0 signed, 1 unsigned, 2 float)."""

    bits: tuple[int, int, int, int]
    kind: int

    @property
    def format(self) -> tuple[int, int, Format]:
        """Number of channels, bits of each, what they hold. Raises UsageError unless all channels are alike."""
        used = [bits for bits in self.bits if bits]
        if not used or set(used) != {used[0]} or tuple(used) != self.bits[: len(used)] or not 0 <= self.kind < len(_CUDA_FORMATS):
            raise UsageError(f"channels of {self.bits} bits, kind {self.kind}, are not a format of textures and surfaces")
        return len(used), used[0], _CUDA_FORMATS[self.kind]

    @property
    def texel_bytes(self) -> int:
        """Bytes of a texel."""
        return sum(self.bits) // 8


@dataclass(frozen=True)
class TextureSettings:
    """cudaTextureDesc. `read_mode` 1 is normalised float; the fields from `srgb` on are only taken as they are here."""

    address_modes: tuple[int, int, int] = (1, 1, 1)
    filter_mode: int = 0
    read_mode: int = 0
    normalized: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    srgb: bool = False
    seamless_cubemap: bool = False


def array_image(
    use: Use, address: int, extent: tuple[int, int, int], flags: int, channels: Channels, row_pitch: int = 0
) -> Descriptor:
    """Texels of a cudaArray of `extent` (width in elements, height, depth; 0 where there is none) and cudaMalloc3DArray's flags.

    Rows lie `row_pitch` bytes apart (0: no gap), slices and layers height rows apart. Raises UsageError for what cannot be.
    """
    width, height, depth = extent
    if flags & ~_KNOWN_FLAGS or (flags & CUBEMAP and width != height):
        raise UsageError(f"an array of {extent} with flags {flags:#x} is not modelled")
    count, bits, format_ = channels.format
    kind, layers = Kind.THREE_D if depth else Kind.TWO_D if height else Kind.ONE_D, 1
    if flags & CUBEMAP:
        kind, layers, depth = Kind.LAYERED_CUBE if flags & LAYERED else Kind.CUBE, depth, 1
    elif flags & LAYERED:
        kind, layers, depth = Kind.LAYERED_2D if height else Kind.LAYERED_1D, depth, 1
    return Descriptor(
        use, kind, address, width, max(height, 1), max(depth, 1), layers, row_pitch,
        channels=count, channel_bits=bits, format=format_,
    )  # fmt: skip


def linear_image(address: int, size: int, channels: Channels) -> Descriptor:
    """cudaResourceTypeLinear: `size` bytes of device memory, for tex1Dfetch."""
    count, bits, format_ = channels.format
    width = size // channels.texel_bytes
    return Descriptor(Use.TEXTURE, Kind.LINEAR, address, width, channels=count, channel_bits=bits, format=format_)


def pitched_image(address: int, width: int, height: int, pitch: int, channels: Channels) -> Descriptor:
    """cudaResourceTypePitch2D: rows `pitch` bytes apart."""
    count, bits, format_ = channels.format
    return Descriptor(
        Use.TEXTURE, Kind.TWO_D, address, width, height, row_pitch=pitch, channels=count, channel_bits=bits, format=format_
    )


def texture(image: Descriptor, settings: TextureSettings) -> Descriptor:
    """`image` with the sampler of `settings`. Raises UnsupportedError for sRGB and seamless cube maps, UsageError for nonsense.

    A 32-bit integer format with read mode 1 is read as elements, as CUDA does.
    """
    for name in ("srgb", "seamless_cubemap"):
        if getattr(settings, name):
            raise UnsupportedError(f"a texture with {name.replace('_', ' ')} is not modelled")
    if any(mode not in (0, 1, 2, 3) for mode in settings.address_modes) or settings.filter_mode not in (0, 1):
        raise UsageError(f"address modes {settings.address_modes} or filter mode {settings.filter_mode} do not exist")
    x, y, z = (AddressMode(mode) for mode in settings.address_modes)
    exact = image.format == Format.FLOAT or image.channel_bits == 32
    return replace(
        image, use=Use.TEXTURE, filter=Filter(settings.filter_mode), address_modes=(x, y, z), normalized=settings.normalized,
        border=settings.border, normalized_read=settings.read_mode == 1 and not exact,
    )  # fmt: skip
