"""Textures and surfaces as launch arguments; the kernel's parameter is a cudaTextureObject_t or cudaSurfaceObject_t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError, suggestion
from warpsight.kernels.values import shown

FILTERS = ("point", "linear")
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
READ_MODES = ("element", "normalized")
_FORMATS = ("u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4")
_CHANNELS = (1, 2, 4)
_LARGEST_SINGLE = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ImageShape:
    """How an array's axes are meant. `kind` is 1d, 2d, 3d, a1d, a2d, cube or acube; sizes are 1 where there is none."""

    kind: str
    width: int
    height: int = 1
    depth: int = 1
    layers: int = 1
    channels: int = 1

    @property
    def rows(self) -> int:
        """Rows of texels in all."""
        return self.height * self.depth * self.layers


@dataclass(frozen=True, eq=False)
class Image:
    """Base of `Texture` and `Surface`: an array of texels and what its axes mean.

    Axes are [layers or depth,] [height,] width [, channels]. `dims` (1, 2, 3) says how many are the image's own, layers and
    channels not counted. By default an array of one axis is 1d, of two 2d, of three 2d with channels if the last axis is 1, 2 or 4
    long and else 3d, of four 3d with channels; with `layered`, of two 1d layers, of three 2d layers, of four 2d layers with
    channels. `cube` takes six faces, [6, n, n(, channels)], and with `layered` cube maps, [6 * cubes, n, n(, channels)].
    Integers of 8, 16, 32 bits and floats of 16, 32 bits can be texels. Raises UsageError for anything else.
    """

    array: npt.NDArray[Any]

    def __post_init__(self) -> None:
        array, name = self.array, type(self).__name__.lower()
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        if isinstance(kind, str) or kind.newbyteorder("=").str[1:] not in _FORMATS or kind.byteorder == ">":
            remedy = "use a NumPy array of 8, 16 or 32 bit integers or of 16 or 32 bit floats"
            raise UsageError(f"{kind} cannot be the texels of a {name}", remedy=remedy)
        if array.size == 0 or not array.flags.c_contiguous:
            what = f"the array of a {name} is empty or not C-contiguous"
            raise UsageError(what, remedy="pass numpy.ascontiguousarray(array)")
        for name in ("layered", "cube", "normalized"):
            if not isinstance(getattr(self, name, False), bool):
                raise UsageError(f"{name}={shown(getattr(self, name))} is neither True nor False", remedy=f"give {name}=True")
        dims = getattr(self, "dims", None)
        if dims is not None and (isinstance(dims, bool) or not isinstance(dims, (int, np.integer)) or not 1 <= dims <= 3):
            raise UsageError(f"dims={shown(dims)} is not 1, 2 or 3", remedy="count its own axes, without layers and channels")
        _ = self.shape

    @property
    def shape(self) -> ImageShape:
        """What the axes are. Raises UsageError for axes that no image has."""
        layered, cube = getattr(self, "layered", False), getattr(self, "cube", False)
        return _shape_of(self.array.shape, getattr(self, "dims", None), layered, cube)


@dataclass(frozen=True, eq=False)
class Texture(Image):
    """Read-only texels for `tex`: the argument of a `cudaTextureObject_t` parameter. The array is copied in and never changed.

    `filter` point or linear; `address` wrap, clamp, mirror or border, one for all axes or one per axis (x first); `normalized`
    coordinates go from 0 to 1; `read` element, or normalized for 8 and 16 bit integers as floats; `border` is the colour outside, a
    number or one per channel. Wrap and mirror need normalised coordinates (CUDA clamps without). For `layered`, `dims`, `cube` see
    `Image`. Semantics: CUDA C++ Programming Guide, "Texture Fetching", and `docs/reference/textures.md`.
    """

    filter: str = "point"
    address: str | tuple[str, ...] = "clamp"
    normalized: bool = False
    read: str = "element"
    layered: bool = False
    border: float | tuple[float, ...] = 0.0
    dims: int | None = None
    cube: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of(self.filter, FILTERS, "filter")
        _one_of(self.read, READ_MODES, "read")
        modes = [self.address] if isinstance(self.address, str) else self.address
        if not isinstance(modes, (list, tuple)) or not 1 <= len(modes) <= 3:
            what = f"address={shown(self.address)} does not name one to three axes"
            raise UsageError(what, remedy="give one mode, or one per axis")
        for mode in modes:
            _one_of(mode, ADDRESS_MODES, "address")
        integers = self.array.dtype.kind in "iu"
        colour = self.border if isinstance(self.border, (list, tuple)) else [self.border]
        if not 1 <= len(colour) <= 4 or not all(_is_single(each, integers) for each in colour):
            raise UsageError(f"border={shown(self.border)} is not a color", remedy="give a number, or up to four, one per channel")
        if self.read == "normalized" and (not integers or self.array.dtype.itemsize == 4):
            raise UsageError("only 8 and 16 bit integers can be read as normalised floats", remedy='use read="element"')
        if self.filter == "linear" and integers and self.read != "normalized":
            raise UsageError("linear filtering of integers is not possible", remedy='use read="normalized", or float texels')

    @property
    def address_modes(self) -> tuple[str, ...]:
        """The mode of x, y and z; of an axis not named that of the last."""
        modes = (self.address,) if isinstance(self.address, str) else tuple(self.address)
        return modes + modes[-1:] * (3 - len(modes))

    @property
    def border_colour(self) -> tuple[float, float, float, float]:
        """The colour outside, a number per channel."""
        r, g, b, a = [self.border] * 4 if not isinstance(self.border, (list, tuple)) else [*self.border, 0, 0, 0, 0][:4]
        return (float(r), float(g), float(b), float(a))


@dataclass(frozen=True, eq=False)
class Surface(Image):
    """Texels to load and store: the argument of a `cudaSurfaceObject_t` parameter. Written back unless the array is read-only.

    For `layered`, `dims` and `cube` see `Image`. Semantics: PTX ISA, "Surface Instructions".
    """

    layered: bool = False
    dims: int | None = None
    cube: bool = False


def _is_single(value: object, finite: bool) -> bool:
    """Whether it is a number that a single can hold. Infinity and NaN are, unless it must be finite."""
    if not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return bool(-_LARGEST_SINGLE <= value <= _LARGEST_SINGLE or not (finite or -math.inf < value < math.inf))


def _one_of(value: str, known: tuple[str, ...], name: str) -> None:
    if not isinstance(value, str) or value not in known:
        near = suggestion(value, known) if isinstance(value, str) else ""
        raise UsageError(f"{name}={shown(value)} is not known{near}", remedy=f"use one of: {', '.join(known)}")


def _shape_of(shape: tuple[int, ...], dims: int | None, layered: bool, cube: bool) -> ImageShape:
    axes = len(shape)
    if dims is None and cube:
        dims = 2
    elif dims is None and layered:
        dims = min(axes - 1, 2)
    elif dims is None:
        dims = 2 if axes == 3 and shape[-1] in _CHANNELS else min(axes, 3)
    leading = dims + ((dims == 2 and cube) or layered) if dims in (1, 2, 3) else 0
    channels = shape[-1] if axes == leading + 1 else 1
    fits = leading and axes in (leading, leading + 1) and channels in _CHANNELS
    if not fits or (layered and dims == 3) or (cube and dims != 2):
        what = f"an array of shape {shape} cannot be a {'layered ' * layered}{'cube map' if cube else f'{dims}-dimensional image'}"
        raise UsageError(what, remedy="axes are [layers or depth,] [height,] width [, channels of 1, 2 or 4]; see dims and layered")
    sizes = shape[:leading]
    if cube:
        if sizes[0] % 6 or sizes[1] != sizes[2] or (sizes[0] != 6 and not layered):
            raise UsageError(f"{shape} is not a cube map", remedy="give [6, n, n(, channels)], with layered=True [6 * cubes, n, n]")
        return ImageShape("acube" if layered else "cube", sizes[2], sizes[1], 1, sizes[0], channels)
    height = sizes[-2] if dims > 1 else 1
    if layered:
        return ImageShape(f"a{dims}d", sizes[-1], height, 1, sizes[0], channels)
    return ImageShape(f"{dims}d", sizes[-1], height, sizes[0] if dims == 3 else 1, 1, channels)
