"""What a texture fetch gives, one sample at a time, in exact rationals: the CUDA C++ Programming Guide, "Texture Fetching".

Texels are an array [layers or depth, height, width, channels]. A position is a coordinate in texels. Where the Guide says nothing
(NaN, ties on a cube, channels that are not there) the outcomes are those of docs/reference/textures.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

AXES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 2, "acube": 2}
FAR = Fraction(1 << 40)


@dataclass(frozen=True)
class Sampler:
    """How a texture is read."""

    filter: str = "point"
    address: str = "clamp"
    normalized: bool = False
    read: str = "element"
    border: float = 0.0


def numeric(texel: np.generic, read: str) -> int | float:
    """What a channel reads as."""
    if texel.dtype.kind == "f":
        return float(texel)
    if read == "element":
        return int(texel)
    signed = texel.dtype.kind == "i"
    largest = (1 << (8 * texel.dtype.itemsize - signed)) - 1
    return float(np.float32(max(Fraction(int(texel), largest), Fraction(-1))))


def position(coordinate: float | Fraction, size: int, sampler: Sampler, plain: bool) -> Fraction:
    """A coordinate in texels: wrapped to frac(x), mirrored to frac(x) or 1 - frac(x), times the size when normalised."""
    normalized = sampler.normalized and not plain
    if math.isnan(coordinate) or (math.isinf(coordinate) and normalized and sampler.address in ("wrap", "mirror")):
        return Fraction(0)
    if math.isinf(coordinate):
        return FAR if coordinate > 0 else -FAR
    x = Fraction(coordinate)
    if not normalized:
        return x
    whole = math.floor(x)
    if sampler.address == "wrap":
        x -= whole
    elif sampler.address == "mirror":
        x = x - whole if whole % 2 == 0 else 1 - (x - whole)
    return x * size


def texel_index(index: int, size: int, sampler: Sampler, plain: bool) -> int | None:
    """The texel that stands for an index out of range; None is the border."""
    if 0 <= index < size:
        return index
    if sampler.address == "border":
        return None
    if sampler.address == "wrap" and sampler.normalized and not plain:
        return index % size
    return 0 if index < 0 else size - 1


def on_cube(x: float, y: float, z: float) -> tuple[int, Fraction, Fraction]:
    """Face of a cube map and the coordinates on it: the Guide's table of m, s and t."""
    table = [(x, -z, -y), (-x, z, -y), (y, x, z), (-y, x, -z), (z, x, -y), (-z, -x, -y)]
    largest = max(abs(x), abs(y), abs(z))
    axis = next(k for k, v in enumerate((x, y, z)) if abs(v) == largest)
    face = 2 * axis + ((x, y, z)[axis] < 0)
    m, s, t = (Fraction(value) for value in table[face])
    return (face, (s / m + 1) / 2, (t / m + 1) / 2) if m else (face, m, m)


class Reference:
    """One texture. `fetch` and `gather` take the coordinates as `tex` does, layer first."""

    def __init__(self, texels: np.ndarray, geometry: str, sampler: Sampler) -> None:
        self.texels, self.geometry, self.sampler = texels, geometry, sampler
        depth, height, width, self.channels = texels.shape
        self.sizes = (width, height, depth)
        self.float_result = texels.dtype.kind == "f" or sampler.read == "normalized"

    def _place(self, coordinates: list[float]) -> tuple[list[float | Fraction], int, Sampler]:
        """Coordinates of the filtered axes, the layer, and the sampler that applies: faces are clamped, coordinates 0 to 1."""
        layer, sampler = 0, self.sampler
        if self.geometry.startswith("a"):
            layers = self.sizes[2] // (6 if "cube" in self.geometry else 1)
            layer, coordinates = min(int(coordinates[0]), layers - 1), coordinates[1:]
        if "cube" in self.geometry:
            face, s, t = on_cube(*coordinates[:3])
            sampler = Sampler(sampler.filter, "clamp", True, sampler.read, sampler.border)
            return [s, t], 6 * layer + face, sampler
        return [*coordinates][: AXES[self.geometry]], layer, sampler

    def _texel(self, index: list[int], layer: int, sampler: Sampler, plain: bool) -> list[int | float]:
        places = [texel_index(i, size, sampler, plain) for i, size in zip(index, self.sizes, strict=False)]
        if None in places:
            found: list[int | float] = [sampler.border if self.float_result else int(sampler.border)] * self.channels
        else:
            x, y, z = [*places, *([0, 0, layer][len(places) :])]
            found = [numeric(v, sampler.read) for v in self.texels[z, y, x]]
        return found + [0, 0, 0, 1][self.channels :]

    def _corners(self, coordinates: list[float | Fraction], sampler: Sampler) -> list[tuple[int, Fraction]]:
        """Per axis the index i of the footprint's first texel and the weight of the next, rounded to 8 bits of fraction."""
        found = []
        for coordinate, size in zip(coordinates, self.sizes, strict=False):
            nearest = math.floor((position(coordinate, size, sampler, False) - Fraction(1, 2)) * 256 + Fraction(1, 2))
            found.append((nearest // 256, Fraction(nearest % 256, 256)))
        return found

    def fetch(self, coordinates: list[float], plain: bool = False) -> list[int | float]:
        """Four values. `plain`: integer coordinates, which are neither normalised nor filtered."""
        places, layer, sampler = self._place(coordinates)
        if plain or sampler.filter == "point":
            sizes = zip(places, self.sizes, strict=False)
            return self._texel([math.floor(position(c, size, sampler, plain)) for c, size in sizes], layer, sampler, plain)
        corners = self._corners(places, sampler)
        total = [Fraction(0)] * 4
        for corner in range(1 << len(corners)):
            chosen = [corner >> axis & 1 for axis in range(len(corners))]
            weight = math.prod((a if bit else 1 - a for bit, (_, a) in zip(chosen, corners, strict=True)), start=Fraction(1))
            texel = self._texel([i + bit for bit, (i, _) in zip(chosen, corners, strict=True)], layer, sampler, False)
            total = [t + weight * Fraction(v) for t, v in zip(total, texel, strict=True)]
        return [float(np.float32(float(t))) for t in total]

    def gather(self, coordinates: list[float], component: int) -> list[int | float]:
        """One component of the footprint's texels, counter-clockwise from the lower left (y grows downwards)."""
        places, layer, sampler = self._place(coordinates)
        (i, _), (j, _) = self._corners(places, sampler)
        order = [(i, j + 1), (i + 1, j + 1), (i + 1, j), (i, j)]
        return [self._texel(list(index), layer, sampler, False)[component] for index in order]
