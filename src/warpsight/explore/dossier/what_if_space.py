"""Which designs around a GPU the what-if grid has: values of each key, and which of them are simulated together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import WarpsightError
from warpsight.explore.sweep.groups import key_text
from warpsight.explore.sweep.names import WHOLE
from warpsight.explore.sweep.stages import model_only
from warpsight.explore.sweep.tasks import design_gpu
from warpsight.gpu.keys import KEYS
from warpsight.gpu.values import flatten

if TYPE_CHECKING:
    from warpsight.gpu.spec import GpuSpec

# Key, its name on a slider, and by which factors of the GPU's own value it is varied, the most telling ones first.
SLIDERS: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("sm_count", "SMs", (2.0, 0.5, 4.0)),
    ("core_clock", "core clock", (0.75, 1.25, 0.5, 1.5)),
    ("noc.bandwidth", "NoC bandwidth", (2.0, 0.5, 4.0, 0.25)),
    ("dram.bandwidth", "DRAM bandwidth", (2.0, 0.5, 4.0, 0.25)),
    ("l1.mshrs", "L1 miss registers", (2.0, 0.5, 4.0, 0.25)),
    ("l1.size", "L1 size", (2.0, 0.5, 4.0)),
    ("l2.size", "L2 size", (2.0, 0.5, 4.0)),
)
_FEWEST = 3  # values that an axis keeps as long as another has more


@dataclass(frozen=True)
class SliderAxis:
    """Values of one key, ascending, in base units; `own` is the place of the GPU's own among them.

    `ranks` say how telling each is (0: the GPU's own, then in the order of `SLIDERS`). `simulated`: another value takes another
    simulation of the caches.
    """

    key: str
    label: str
    values: tuple[float, ...]
    ranks: tuple[int, ...]
    simulated: bool

    @property
    def own(self) -> int:
        """The place of the GPU's own value."""
        return self.ranks.index(0)

    def first(self, count: int) -> SliderAxis:
        """With the `count` most telling values."""
        return self.only([place for place, rank in enumerate(self.ranks) if rank < count])

    def only(self, places: Sequence[int]) -> SliderAxis:
        """With the values at some places (ascending)."""
        return replace(self, values=tuple(self.values[k] for k in places), ranks=tuple(self.ranks[k] for k in places))


@dataclass(frozen=True)
class Space:
    """The designs: every combination of the values of `free` axes, for each of `geometries`, places on the `simulated` axes."""

    free: tuple[SliderAxis, ...]
    simulated: tuple[SliderAxis, ...]
    geometries: tuple[tuple[int, ...], ...]

    @property
    def each(self) -> int:
        """Designs of one geometry."""
        return prod(len(axis.values) for axis in self.free)

    def __len__(self) -> int:
        return self.each * len(self.geometries)

    def columns(self) -> dict[str, npt.NDArray[np.float64]]:
        """The values of each key on all designs, [D]: geometry by geometry, of the free axes the last one fastest."""
        grid = list(product(*(axis.values for axis in self.free)))
        free = np.array(grid, dtype=np.float64).reshape(len(grid), len(self.free))
        columns = {axis.key: np.tile(free[:, k], len(self.geometries)) for k, axis in enumerate(self.free)}
        for k, axis in enumerate(self.simulated):
            columns[axis.key] = np.repeat([axis.values[geometry[k]] for geometry in self.geometries], self.each)
        return columns


def slider_axes(gpu: GpuSpec) -> tuple[list[SliderAxis], list[dict[str, str]]]:
    """The axes around `gpu`, and the values that its description cannot have: their `setting`, and `why`."""
    described, refused, axes = flatten(gpu), list[dict[str, str]](), []
    columns = {key: np.array([float(described[key])]) for key, _, _ in SLIDERS}
    own = model_only(gpu, columns)
    for key, label, factors in SLIDERS:
        found = {float(described[key]): 0}
        for factor in factors:
            value = float(described[key]) * factor
            why = _refusal(gpu, key, value)
            if why:
                refused.append({"setting": f"{key}={value:.6g}", "why": why})
            elif value not in found:
                found[value] = len(found)
        values = tuple(sorted(found))
        axes.append(SliderAxis(key, label, values, tuple(found[value] for value in values), key not in own))
    return axes, refused


def _refusal(gpu: GpuSpec, key: str, value: float) -> str:
    """Why a description cannot have that value; empty where it can."""
    if KEYS[key].kind in WHOLE and not value.is_integer():
        return "is no whole number"
    try:
        design_gpu(gpu, (f"{key}={key_text(key, value)}",))
    except WarpsightError as error:
        return error.what
    return ""


def space_of(axes: Sequence[SliderAxis], simulations: int, most: int) -> Space:
    """At most `simulations` geometries, the most telling ones first, and of the free axes as many values as `most` designs allow.

    Geometries in which one key differs from the GPU's come before those in which two do.
    """
    simulated = tuple(axis for axis in axes if axis.simulated)
    free = [axis for axis in axes if not axis.simulated]

    def telling(places: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        ranks = [axis.ranks[place] for axis, place in zip(simulated, places, strict=True)]
        return sum(rank > 0 for rank in ranks), sum(ranks), tuple(-rank for rank in ranks)

    every = sorted(product(*(range(len(axis.values)) for axis in simulated)), key=telling)
    chosen = every[: max(1, min(simulations, most))]
    used = [sorted({geometry[k] for geometry in chosen}) for k in range(len(simulated))]
    geometries = tuple(tuple(used[k].index(place) for k, place in enumerate(geometry)) for geometry in chosen)
    kept = tuple(axis.only(places) for axis, places in zip(simulated, used, strict=True))
    return Space(tuple(_fitting(free, most // len(chosen))), kept, geometries)


def _fitting(axes: Sequence[SliderAxis], most: int) -> list[SliderAxis]:
    """The axes with the most telling of their values, as many as make at most `most` combinations (but at least one)."""
    counts = [len(axis.values) for axis in axes]
    while prod(counts) > most and max(counts, default=1) > 1:
        least = min(_FEWEST, max(counts) - 1)
        # of the axes with the most values the first, and none below what the others keep
        longest = max(range(len(counts)), key=lambda k: (counts[k] > least, counts[k]))
        counts[longest] -= 1
    return [axis.first(count) for axis, count in zip(axes, counts, strict=True)]


def point(space: Space, places: dict[str, int]) -> int | None:
    """The number of the design at `places` (of each key; left out: the GPU's own), None for a geometry that is not there."""
    geometry = tuple(places.get(axis.key, axis.own) for axis in space.simulated)
    if geometry not in space.geometries:
        return None
    at = space.geometries.index(geometry)
    for axis in space.free:
        at = at * len(axis.values) + places.get(axis.key, axis.own)
    return at


def axis_document(axis: SliderAxis) -> dict[str, Any]:
    """An axis as the dossier has it."""
    return {
        "key": axis.key,
        "label": axis.label,
        "values": list(axis.values),
        "settings": [key_text(axis.key, value) for value in axis.values],
        "own": axis.own,
        "simulated": axis.simulated,
    }
