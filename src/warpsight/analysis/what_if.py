"""The what-if grid: designs similar to the GPU, evaluated in advance for the sliders of a report.

First the size of the grid and the values of each key, then its evaluation.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError, WarpsightError, suggestion
from warpsight.base.progress import Watch, stage
from warpsight.gpu.keys import key_of
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.gpu.steps import BY_REFERENCE, model_only
from warpsight.models.base import STACK_PREFIX, get_model
from warpsight.models.crisp import TARGET_CLOCK
from warpsight.pipeline.evaluate import ProfiledTrace, evaluate
from warpsight.pipeline.rows import Rows, joined
from warpsight.result.prediction import STRUCT_PARTS
from warpsight.sweeps.designs import groups_of, key_text
from warpsight.sweeps.names import WHOLE

QUICK, FULL, NONE = "quick", "full", "none"
MODES = (QUICK, FULL, NONE)
"""`quick`: as many geometries as take about 20 s, at most 16; `full`: every combination of SMs and cache sizes, at most 512;
`none`: no grid."""


def known_mode(mode: str) -> None:
    """Raises UsageError for an unknown mode."""
    if mode not in MODES:
        what = f'"{mode}" is not a size of the what-if grid{suggestion(mode, MODES)}'
        raise UsageError(what, place="what_if", remedy=f"known: {', '.join(MODES)}")


# -- The designs of the grid: the values of each key, and which of them are simulated together.

# Key, its label on a slider, and the factors of the GPU's own value, the most informative ones first.
SLIDERS: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("sm_count", "SMs", (2.0, 0.5, 4.0)),
    ("core_clock", "core clock", (0.75, 1.25, 0.5, 1.5)),
    ("noc.bandwidth", "NoC bandwidth", (2.0, 0.5, 4.0, 0.25)),
    ("dram.bandwidth", "DRAM bandwidth", (2.0, 0.5, 4.0, 0.25)),
    ("l1.mshrs", "L1 MSHRs", (2.0, 0.5, 4.0, 0.25)),
    ("l1.size", "L1 size", (2.0, 0.5, 4.0)),
    ("l2.size", "L2 size", (2.0, 0.5, 4.0)),
)
_FEWEST = 3  # values that an axis keeps while another has more


@dataclass(frozen=True)
class SliderAxis:
    """Values of one key, ascending, in base units; `own` is the index of the GPU's own value.

    `ranks` order them by information (0: the GPU's own, then in the order of `SLIDERS`). `simulated`: each value needs its own
    cache simulation.
    """

    key: str
    label: str
    values: tuple[float, ...]
    ranks: tuple[int, ...]
    simulated: bool

    @property
    def own(self) -> int:
        """The index of the GPU's own value."""
        return self.ranks.index(0)

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


def slider_axes(gpu: GpuSpec, order: str = BY_REFERENCE) -> tuple[list[SliderAxis], list[dict[str, str]]]:
    """The axes around `gpu`, and the invalid values: their `setting`, and `why`."""
    described, refused, axes = gpu.by_key, list[dict[str, str]](), []
    own = model_only((key for key, _, _ in SLIDERS), order)
    for key, label, factors in SLIDERS:
        ranks = {float(described[key]): 0}
        for factor in factors:
            value = float(described[key]) * factor
            if why := _refusal(gpu, key, value):
                refused.append({"setting": f"{key}={value:.6g}", "why": why})
            else:
                ranks.setdefault(value, len(ranks))
        values = tuple(sorted(ranks))
        axes.append(SliderAxis(key, label, values, tuple(ranks[value] for value in values), key not in own))
    return axes, refused


def _refusal(gpu: GpuSpec, key: str, value: float) -> str:
    """Why the value is invalid in a description; empty if it is valid."""
    if key_of(key).kind in WHOLE and not value.is_integer():
        return "is not a whole number"
    try:
        load_gpu(gpu, (f"{key}={key_text(key, value)}",))
    except WarpsightError as error:
        return error.what
    return ""


def space_of(axes: Sequence[SliderAxis], simulations: int, most: int) -> Space:
    """At most `simulations` geometries, the most informative ones first, and as many values of the free axes as `most` designs
    allow.

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
    """The axes with their most informative values, for at most `most` combinations (but at least one)."""
    counts = [len(axis.values) for axis in axes]
    while prod(counts) > most and max(counts, default=1) > 1:
        least = min(_FEWEST, max(counts) - 1)
        # the first of the axes with the most values, none below `least`
        longest = max(range(len(counts)), key=lambda k: (counts[k] > least, counts[k]))
        counts[longest] -= 1
    most_informative = ([k for k, rank in enumerate(axis.ranks) if rank < count] for axis, count in zip(axes, counts, strict=True))
    return [axis.only(places) for axis, places in zip(axes, most_informative, strict=True)]


def point(space: Space, places: dict[str, int]) -> int | None:
    """The number of the design at `places` (by key; default: the GPU's own), None for a missing geometry."""
    geometry = tuple(places.get(axis.key, axis.own) for axis in space.simulated)
    if geometry not in space.geometries:
        return None
    number = space.geometries.index(geometry)
    for axis in space.free:
        number = number * len(axis.values) + places.get(axis.key, axis.own)
    return number


def axis_document(axis: SliderAxis) -> dict[str, Any]:
    """An axis as in the report data."""
    settings = [key_text(axis.key, value) for value in axis.values]
    return {"key": axis.key, "label": axis.label, "values": list(axis.values), "settings": settings, "own": axis.own,
            "simulated": axis.simulated}  # fmt: skip


# -- The grid.
#
# The evaluation is that of sweeps: designs with the same caches share a profile, and the model takes their other values as arrays.
# So each point equals `predict` with the same overrides.

_QUICK_SECONDS, _QUICK_MOST, _FULL_MOST = 20.0, 16, 512
# Seconds of a cache simulation with its profile on one core, an upper estimate from the kernels of the suite: per request
# at the L1, per warp instruction, and fixed. From the trace alone, so that a report does not depend on the machine.
_OF_REQUEST, _OF_INSTRUCTION, _AT_ALL = 0.35e-6, 2e-8, 5e-3
# Characters of the columns in the document, in addition to the rest of the JSON.
_MOST_CHARACTERS = {QUICK: 200_000, FULL: 380_000}
_SHARE = 2**32 - 1
_CLOCK_TOLERANCE = 1e-12


def what_if(
    profiled: ProfiledTrace, gpu: GpuSpec, model: str, mode: str = QUICK, *, watch: Watch | None = None
) -> dict[str, Any] | None:
    """The grid's document (docs/reference/report.md), or None for mode `none`. Raises UsageError for an unknown mode or model."""
    known_mode(mode)
    if mode == NONE:
        return None
    axes, refused = slider_axes(gpu, profiled.method.order)
    # the GPU's own geometry needs no simulation
    affordable = min(_QUICK_MOST, 1 + int(_QUICK_SECONDS / simulation_seconds(profiled)))
    simulations = affordable if mode == QUICK else _FULL_MOST
    space = space_of(axes, simulations, _most_points(gpu, model, mode))
    rows = evaluate_space(space, profiled, gpu, model, watch)
    return {
        "mode": mode,
        "model": model,
        "warp_instructions": profiled.profile.total_warp_instructions,
        "axes": [axis_document(axis) for axis in (*space.simulated, *space.free)],
        "geometries": [list(geometry) for geometry in space.geometries],
        "points": len(space),
        **_packed(rows, space, gpu),
        "own": point(space, {}),
        "one_at_a_time": _one_at_a_time(space, rows),
        "not_possible": refused,
        "not_simulated": _left_out(axes, space),
    }


def evaluate_space(space: Space, profiled: ProfiledTrace, gpu: GpuSpec, model: str, watch: Watch | None = None) -> Rows:
    """The rows of the model for all designs of `space`, in order."""
    columns = space.columns()
    own = {key: columns[key] for key in model_only(columns, profiled.method.order)}
    groups = groups_of(columns, np.arange(len(space)), own)
    designs = [group.on(gpu, own, profiled.method) for group in groups]
    progress, parts = stage(watch, "evaluating designs"), list[Rows]()
    for number, evaluation in enumerate(evaluate(profiled.trace, designs, [model], profiled.store), 1):
        parts += evaluation.rows()
        if progress is not None:
            progress(number, len(groups))
    rows = joined(parts)
    back = np.argsort(np.concatenate([group.designs for group in groups]), kind="stable")
    return {name: values[back] if isinstance(values, np.ndarray) else [values[k] for k in back] for name, values in rows.items()}


def simulation_seconds(profiled: ProfiledTrace) -> float:
    """The approximate time of another cache simulation, on one core."""
    header, misses = profiled.trace.header, profiled.misses
    requests = float((misses.l1_reads + misses.l1_writes + misses.l2_reads).sum())
    return _AT_ALL + _OF_REQUEST * requests + _OF_INSTRUCTION * header.warp_instructions


def _most_points(gpu: GpuSpec, model: str, mode: str) -> int:
    """Designs whose columns fit: cycles 8 bytes, a component 4, the bottleneck 1; base64.

    Seconds take 8 more if they may be of another clock than the core's.
    """
    stack = set(get_model(model).about.stack)
    # of the parts of `com_struct` a kernel has at most three, in its place: conflicts, the load-store unit and its busiest unit
    columns = len(stack - set(STRUCT_PARTS)) + (2 if stack & set(STRUCT_PARTS) else 0)
    seconds = 8 if gpu.parameters.get(TARGET_CLOCK.name) else 0
    return int(_MOST_CHARACTERS[mode] / ((8 + seconds + 4 * columns + 1) * 4 / 3))


def _packed(rows: dict[str, Any], space: Space, gpu: GpuSpec) -> dict[str, Any]:
    """The columns of the document, and the words that one of them refers to by number."""
    cycles, seconds = rows["cycles"], rows["seconds"]
    stacks = {key.removeprefix(STACK_PREFIX): values for key, values in rows.items() if key.startswith(STACK_PREFIX)}
    answered = np.isfinite(cycles)
    words = [word if fine else why for word, why, fine in zip(rows["bound_by"], rows["failed"], answered, strict=True)]
    bounds = sorted(set(words))
    if len(bounds) > 256:  # reasons with numbers in them: there are never so many bottlenecks
        raise ValueError(f"{len(bounds)} different bottlenecks")
    columns = [_column("cycles", cycles, "float64")]
    clock = space.columns().get("core_clock", gpu.core_clock_hz)
    if not np.allclose(seconds[answered], (cycles / clock)[answered], rtol=_CLOCK_TOLERANCE, atol=0.0):
        columns.append(_column("seconds", seconds, "float64"))
    whole = np.where(answered, sum(stacks.values()), 1.0)
    for name, values in stacks.items():
        shares = np.where(answered, values, 0.0) / whole
        if shares.any():
            columns.append(_column(f"share.{name}", np.rint(shares * _SHARE), "uint32"))
    columns.append(_column("bound_by", np.array([bounds.index(word) for word in words]), "uint8"))
    return {"share_of": _SHARE, "bounds": bounds, "columns": columns}


_TYPES = {"float64": "<f8", "uint32": "<u4", "uint16": "<u2", "uint8": "u1"}  # of columns, as NumPy writes them


def _column(name: str, values: npt.NDArray[Any], kind: str) -> dict[str, str]:
    return {"name": name, "type": kind, "data": base64.b64encode(values.astype(_TYPES[kind]).tobytes()).decode("ascii")}


def unpacked(document: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """The columns of a grid's document, or of the grid in a page, by name, [points]: decodes them. Shares are float64, 0 to 1."""
    columns: dict[str, npt.NDArray[Any]] = {}
    rows = _values(document["rows"]) if "rows" in document else slice(None)
    for column in document["columns"]:
        values = _values(column)[rows]
        columns[column["name"]] = values / document["share_of"] if column["name"].startswith("share.") else values
    return columns


def _values(column: dict[str, str]) -> npt.NDArray[Any]:
    return np.frombuffer(base64.b64decode(column["data"]), dtype=_TYPES[column["type"]])


def _one_at_a_time(space: Space, rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Each value of each key, all others unchanged: cycles, speedup (above 1: faster), bottleneck."""
    own = point(space, {})
    assert own is not None, "the GPU itself is the first geometry"
    values = []
    for axis in (*space.simulated, *space.free):
        for place in range(len(axis.values)):
            number = point(space, {axis.key: place})
            if place == axis.own or number is None:
                continue
            answered = bool(np.isfinite(rows["cycles"][number]))
            values.append({
                "key": axis.key,
                "label": axis.label,
                "setting": key_text(axis.key, axis.values[place]),
                "factor": axis.values[place] / axis.values[axis.own],
                "cycles": float(rows["cycles"][number]) if answered else None,
                "seconds": float(rows["seconds"][number]) if answered else None,
                "speedup": float(rows["seconds"][own] / rows["seconds"][number]) if answered else None,
                "bound_by": rows["bound_by"][number] if answered else rows["failed"][number],
            })  # fmt: skip
    return values


def _left_out(axes: list[SliderAxis], space: Space) -> list[dict[str, Any]]:
    """Valid values that are not in the grid, by key."""
    kept = {axis.key: set(axis.values) for axis in (*space.simulated, *space.free)}
    missing = [(axis, [value for value in axis.values if value not in kept[axis.key]]) for axis in axes]
    return [{"key": axis.key, "settings": [key_text(axis.key, value) for value in values]} for axis, values in missing if values]
