"""Which axis matters: each one's share of the variance of the performance over the designs, per kernel and over all."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError
from warpsight.explore.sweep.answers.indices import (
    Factor,
    correlation_ratio,
    elasticity,
    factor,
    grid_first,
    grid_pairs,
    grid_total,
    lattice,
    rank_correlation,
)
from warpsight.explore.sweep.answers.results import plain
from warpsight.explore.sweep.answers.selection import Selection

LOG, LINEAR = "log", "linear"
GRID, SAMPLE = "grid", "sample"
ALL = "all kernels"
_LEAST_SAMPLE = 16
_SPREAD = 1e-12  # relative: a difference that is rounding alone
_MOST_PAIRS = 5
_ABOUT = {
    GRID: "Sobol indices by the analysis of variance of the full grid, every value of an axis counting the same: exact for these "
          "designs",
    SAMPLE: "first-order Sobol indices by the correlation ratio of groups of designs, corrected for what chance makes of it "
            "(Kelley's epsilon squared); total indices and interactions are not known from such designs",
}  # fmt: skip


def sensitivity(selection: Selection, scale: str = LOG) -> dict[str, Any]:
    """For each kernel that counts and over all, each axis's share of the variance of the logarithm of the performance.

    `scale` "linear" takes the performance itself. On a full grid of the axes that vary: first-order and total indices, and the
    pairs of axes of most interaction. On anything else (a random or Latin hypercube sample, a grid with designs left out):
    first-order indices by the correlation ratio, with the part that may be chance. On both: the rank correlation, and where designs
    are neighbours on a grid the elasticity, the median of d ln(performance) / d ln(key).

    Raises UsageError for an unknown scale, where no axis varies among the chosen designs, and for fewer than 16 that are no grid.
    """
    if scale not in (LOG, LINEAR):
        raise UsageError(f'there is no scale "{scale}"', place="sensitivity", remedy=f"there are {LOG} and {LINEAR}")
    factors = [factor(key, selection.results.keys[key][selection.positions]) for key in selection.results.axes]
    varied = [each for each in factors if len(each.values) > 1]
    if not varied:
        raise UsageError("no axis varies among the designs", place="sensitivity", remedy="loosen a constraint, or sweep an axis")
    spots = lattice(varied)
    full = spots is not None and bool(np.all(spots >= 0))
    count = len(selection.positions)
    if not full and count < _LEAST_SAMPLE:
        raise UsageError(f"{count} designs that are no full grid are too few", place="sensitivity",
                         remedy=f"take {_LEAST_SAMPLE} or more, or a full grid")  # fmt: skip
    found = selection.performance
    logs = {ALL: np.log(selection.values)}
    if len(found.kernels) > 1:
        logs |= {selection.results.kernels[k]: np.log(found.speeds[k, selection.positions]) for k in found.kernels}
    return {
        **selection.head("sensitivity"),
        "scale": scale,
        "estimator": GRID if full else SAMPLE,
        "about": _ABOUT[GRID if full else SAMPLE],
        "why": "" if full else _why(varied, spots, count),
        "axes": [_axis(each) for each in factors],
        "of": [_of(name, each, scale, varied, spots, full) for name, each in logs.items()],
    }


def _why(varied: list[Factor], spots: NDArray[np.int64] | None, count: int) -> str:
    """Why the designs are no full grid."""
    if spots is not None:
        empty = np.count_nonzero(spots < 0)
        return f"{empty} combinations of the {spots.size} have no design here; constraints that keep whole values leave a grid"
    levels = " x ".join(str(len(each.values)) for each in varied)
    return f"{count} designs are not the {levels} combinations of their values"


def _axis(each: Factor) -> dict[str, Any]:
    ends = (plain(each.values[0]), plain(each.values[-1])) if each.numeric else (None, None)
    return {"key": each.key, "values": len(each.values), "least": ends[0], "most": ends[1]}


def _of(
    name: str, logs: NDArray[np.float64], scale: str, varied: list[Factor], spots: NDArray[np.int64] | None, full: bool
) -> dict[str, Any]:
    """The entry of one kernel, or of all."""
    values = logs if scale == LOG else np.exp(logs)
    moves = float(np.ptp(values)) > _SPREAD * max(1.0, float(np.abs(values).max()))
    entry: dict[str, Any] = {"kernel": name, "variance": float(values.var()) if moves else 0.0}
    laid = values[spots] if full and moves else None
    keys = []
    for axis, each in enumerate(varied):
        row: dict[str, Any] = {"key": each.key, "first": None, "total": None, "noise": None, "groups": None}
        if laid is not None:
            row |= {"first": grid_first(laid, axis), "total": grid_total(laid, axis), "groups": len(each.values)}
        elif moves:
            ratio = correlation_ratio(each, values)
            row |= {"first": ratio.index, "noise": ratio.noise, "groups": ratio.bins} if ratio else {}
        row["rank_correlation"] = rank_correlation(each, values) if moves else None
        slope = elasticity(each, axis, spots, logs) if spots is not None else None
        row["elasticity"] = asdict(slope) if slope else None
        keys.append(row)
    entry["keys"] = keys
    entry["interactions"] = _interactions(laid, varied) if laid is not None else None
    return entry


def _interactions(laid: NDArray[np.float64], varied: list[Factor]) -> dict[str, Any]:
    """What no axis explains alone, and the pairs of most of it."""
    pairs = sorted(grid_pairs(laid).items(), key=lambda item: (-item[1], item[0]))[:_MOST_PAIRS]
    return {
        "share": 1 - sum(grid_first(laid, axis) for axis in range(laid.ndim)),
        "pairs": [{"keys": [varied[a].key, varied[b].key], "share": share} for (a, b), share in pairs],
    }
