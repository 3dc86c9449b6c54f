"""Descriptors from the fields of cudaResourceDesc and cudaTextureDesc, for a runtime library that makes objects as programs ask.

Typical use: `handle = table.add(texture(array_image(Use.TEXTURE, address, (w, h, 0), flags, channels), settings))`. Numbers are
those of the CUDA runtime's enumerations; a field that is not modelled is an error, never ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.emulator.descriptors import AddressMode, Descriptor, Filter, Format, Kind, Use

LAYERED, SURFACE_LOAD_STORE, CUBEMAP, TEXTURE_GATHER = 1, 2, 4, 8  # cudaArrayLayered, ...
_KNOWN_FLAGS = LAYERED | SURFACE_LOAD_STORE | CUBEMAP | TEXTURE_GATHER
_FORMATS = (Format.SIGNED, Format.UNSIGNED, Format.FLOAT)  # cudaChannelFormatKind


@dataclass(frozen=True)
class Channels:
    """cudaChannelFormatDesc: bits of x, y, z, w (0: none) and the kind (0 signed, 1 unsigned, 2 float)."""

    bits: tuple[int, int, int, int]
    kind: int

    @property
    def format(self) -> tuple[int, int, Format]:
        """Number of channels, bits of each, what they hold. Raises UsageError unless all channels are alike."""
        used = [bits for bits in self.bits if bits]
        if not used or set(used) != {used[0]} or tuple(used) != self.bits[: len(used)] or not 0 <= self.kind < len(_FORMATS):
            raise UsageError(f"channels of {self.bits} bits, kind {self.kind}, are no format of textures and surfaces")
        return len(used), used[0], _FORMATS[self.kind]

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
