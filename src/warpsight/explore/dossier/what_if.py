"""What if the GPU were another one: a grid of designs around it, evaluated beforehand, which sliders of a report pick from.

The evaluation is that of sweeps: designs with the same caches share a profile, and the model takes their own numbers as arrays. So
each point is what `predict` gives with its keys as `--set`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import WarpsightError
from warpsight.explore.dossier.modes import FULL, NONE, QUICK, known_mode
from warpsight.explore.dossier.what_if_space import SliderAxis, Space, axis_document, point, slider_axes, space_of
from warpsight.explore.pipeline import ProfiledTrace, profile_trace
from warpsight.explore.sweep.evaluate import failed_rows, joined, model_rows
from warpsight.explore.sweep.groups import Group, groups_of
from warpsight.explore.sweep.stages import model_only, profile_view
from warpsight.explore.sweep.tasks import design_gpu
from warpsight.explore.watch import Watch, stage
from warpsight.result.cpi_stack import bound_by_rows
from warpsight.result.prediction import COMPONENTS

if TYPE_CHECKING:
    from warpsight.gpu.spec import GpuSpec

_QUICK_SECONDS, _QUICK_MOST, _FULL_MOST = 20.0, 16, 512
# What a simulation of the caches with its profile takes on one core, an upper estimate from the kernels of the suite: by request
# at the L1, by warp instruction, and at all. From the trace alone, so that a report does not depend on who makes it.
_OF_REQUEST, _OF_INSTRUCTION, _AT_ALL = 0.35e-6, 2e-8, 5e-3
# Characters that the columns may take in the document, which JSON's own text is added to.
_MOST_CHARACTERS = {QUICK: 200_000, FULL: 380_000}
_SHARE = 2**32 - 1
_IS_CLOCK = 1e-12


def what_if(
    profiled: ProfiledTrace, gpu: GpuSpec, model: str, mode: str = QUICK, *, watch: Watch | None = None
) -> dict[str, Any] | None:
    """The grid's document (docs/reference/report.md), or None for mode `none`. Raises UsageError for an unknown mode or model."""
    known_mode(mode)
    if mode == NONE:
        return None
    axes, refused = slider_axes(gpu)
    simulations = _affordable(profiled) if mode == QUICK else _FULL_MOST
    space = space_of(axes, simulations, _most_points(gpu, model, mode))
    rows = evaluate(space, profiled, gpu, model, watch)
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


def evaluate(
    space: Space, profiled: ProfiledTrace, gpu: GpuSpec, model: str, watch: Watch | None = None
) -> dict[str, Any]:
    """The rows of the model for all designs of `space` in order: the columns of a sweep's results by name."""
    columns = space.columns()
    own = model_only(gpu, columns)
    groups = groups_of(columns, np.arange(len(space)), own)
    progress, parts = stage(watch, "evaluating designs"), []
    for number, group in enumerate(groups):
        if progress is not None:
            progress(number, len(groups))
        parts.append(_rows(group, columns, own, profiled, gpu, model))
    rows = joined(parts)
    back = np.argsort(np.concatenate([group.designs for group in groups]), kind="stable")
    return {name: values[back] if isinstance(values, np.ndarray) else [values[k] for k in back] for name, values in rows.items()}


def _rows(
    group: Group, columns: dict[str, npt.NDArray[np.float64]], own: frozenset[str], profiled: ProfiledTrace, gpu: GpuSpec,
    model: str,
) -> dict[str, Any]:
    """The rows of designs with one profile; the one of the GPU itself is there already."""
    count = len(group.designs)
    try:
        design = design_gpu(gpu, group.overrides)
        same = profile_view(design) == profile_view(gpu)
        profile = profiled.profile if same else profile_trace(profiled.trace, design, profiled.method).profile
    except WarpsightError as error:
        return failed_rows(str(error), count, model)
    return model_rows(profile, design, {key: columns[key][group.designs] for key in own if key in columns}, count, model)


def simulation_seconds(profiled: ProfiledTrace) -> float:
    """About how long another simulation of the caches takes, on one core."""
    header, misses = profiled.trace.header, profiled.misses
    requests = float((misses.l1_reads + misses.l1_writes + misses.l2_reads).sum())
    return _AT_ALL + _OF_REQUEST * requests + _OF_INSTRUCTION * header.warp_instructions


def _affordable(profiled: ProfiledTrace) -> int:
    """Geometries of a quick grid; the GPU's own costs nothing."""
    return min(_QUICK_MOST, 1 + int(_QUICK_SECONDS / simulation_seconds(profiled)))


def _most_points(gpu: GpuSpec, model: str, mode: str) -> int:
    """Designs whose columns take no more than their room: cycles 8 bytes, a component 4, what binds 1; base64.

    Seconds take 8 more where they may be of another clock than the core's.
    """
    from warpsight.models.registry import get_model

    components = get_model(model).about.stack or COMPONENTS
    seconds = 8 if gpu.dvfs.target_clock_hz else 0
    return int(_MOST_CHARACTERS[mode] / ((8 + seconds + 4 * len(components) + 1) * 4 / 3))


def _packed(rows: dict[str, Any], space: Space, gpu: GpuSpec) -> dict[str, Any]:
    """The columns of the document, and the words that one of them is the number of."""
    cycles, seconds = rows["cycles"], rows["seconds"]
    stacks = np.stack([rows[f"cpi_stack.{name}"] for name in COMPONENTS])
    answered = np.isfinite(cycles)
    words = [word if fine else why for word, why, fine in zip(_bounds(stacks, answered), rows["failed"], answered, strict=True)]
    bounds = sorted(set(words))
    if len(bounds) > 256:  # reasons with numbers in them: what binds is never so many
        raise ValueError(f"{len(bounds)} different words for what binds")
    columns = [_column("cycles", cycles, "<f8")]
    clock = space.columns().get("core_clock", gpu.core_clock_hz)
    if not np.allclose(seconds[answered], (cycles / clock)[answered], rtol=_IS_CLOCK, atol=0.0):
        columns.append(_column("seconds", seconds, "<f8"))
    whole = np.where(answered, stacks.sum(axis=0), 1.0)
    for name, values in zip(COMPONENTS, stacks, strict=True):
        shares = np.where(answered, values, 0.0) / whole
        if shares.any():
            columns.append(_column(f"share.{name}", np.rint(shares * _SHARE), "<u4"))
    columns.append(_column("bound_by", np.array([bounds.index(word) for word in words]), "u1"))
    return {"share_of": _SHARE, "bounds": bounds, "columns": columns}


def _bounds(stacks: npt.NDArray[np.float64], answered: npt.NDArray[np.bool_]) -> list[str]:
    return bound_by_rows(np.where(answered, stacks, 0.0))


def _column(name: str, values: npt.NDArray[Any], kind: str) -> dict[str, str]:
    types = {"<f8": "float64", "<u4": "uint32", "u1": "uint8"}
    return {"name": name, "type": types[kind], "data": base64.b64encode(values.astype(kind).tobytes()).decode("ascii")}


def unpacked(document: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """The columns of a grid's document by name, [points]: what a reader of it does. Shares are float64, 0 to 1."""
    types = {"float64": "<f8", "uint32": "<u4", "uint8": "u1"}
    found: dict[str, npt.NDArray[Any]] = {}
    for column in document["columns"]:
        values = np.frombuffer(base64.b64decode(column["data"]), dtype=types[column["type"]])
        found[column["name"]] = values / document["share_of"] if column["name"].startswith("share.") else values
    return found


def _one_at_a_time(space: Space, rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Each value of each key, all others as the GPU has them: cycles, speed-up (above 1: faster), what binds."""
    own = point(space, {})
    assert own is not None, "the GPU itself is the first geometry"
    found = []
    for axis in (*space.simulated, *space.free):
        for place in range(len(axis.values)):
            at = point(space, {axis.key: place})
            if place == axis.own or at is None:
                continue
            document = axis_document(axis)
            answered = bool(np.isfinite(rows["cycles"][at]))
            found.append({
                "key": axis.key,
                "label": axis.label,
                "setting": document["settings"][place],
                "factor": axis.values[place] / axis.values[axis.own],
                "cycles": float(rows["cycles"][at]) if answered else None,
                "seconds": float(rows["seconds"][at]) if answered else None,
                "speedup": float(rows["seconds"][own] / rows["seconds"][at]) if answered else None,
                "bound_by": rows["bound_by"][at] if answered else rows["failed"][at],
            })  # fmt: skip
    return found


def _left_out(axes: list[SliderAxis], space: Space) -> list[dict[str, Any]]:
    """Values that the description can have and the grid has not, by key."""
    kept = {axis.key: set(axis.values) for axis in (*space.simulated, *space.free)}
    missing = [(axis, [value for value in axis.values if value not in kept[axis.key]]) for axis in axes]
    return [
        {"key": axis.key, "settings": [axis_document(axis)["settings"][axis.values.index(value)] for value in values]}
        for axis, values in missing
        if values
    ]
