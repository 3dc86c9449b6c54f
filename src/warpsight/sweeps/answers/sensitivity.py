"""Which axis matters: the share of each axis in the variance of the performance over the designs, per kernel and over all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import isqrt, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError
from warpsight.sweeps.answers.results import plain
from warpsight.sweeps.answers.selection import Selection

_FULLER = 8  # cells of a lattice that is laid out, for each design
_ROUNDING = 1e-15


@dataclass(frozen=True)
class Factor:
    """One axis over n designs: `codes` (n,) are the numbers of its distinct `values`, which ascend (text: alphabetically)."""

    key: str
    codes: NDArray[np.int64]
    values: NDArray[Any]

    @property
    def numeric(self) -> bool:
        """Numbers and not text."""
        return self.values.dtype != object


def factor(key: str, column: NDArray[Any]) -> Factor:
    """The axis of a column of (n,) numbers or text."""
    values, codes = np.unique(column, return_inverse=True)
    return Factor(key, codes.ravel().astype(np.int64), values)


def lattice(factors: Sequence[Factor]) -> NDArray[np.int64] | None:
    """The design of each combination of values, an array with an axis for each factor; -1: there is none.

    None where two designs have the same values, or where combinations are too many for it to be laid out (8 for each design).
    """
    shape = tuple(len(each.values) for each in factors)
    count = len(factors[0].codes)
    if prod(shape) > _FULLER * count:
        return None
    flat = np.ravel_multi_index([each.codes for each in factors], shape)
    out = np.full(prod(shape), -1, np.int64)
    out[flat] = np.arange(count)
    return out.reshape(shape) if np.count_nonzero(out >= 0) == count else None


def grid_first(values: NDArray[np.float64], axis: int) -> float:
    """The first-order index on a full grid: the variance of the means over all other axes, over the variance."""
    return _share(float(values.mean(axis=_others(values, axis)).var()), values)


def grid_total(values: NDArray[np.float64], axis: int) -> float:
    """The total index on a full grid: the mean of the variances along the axis, all others fixed, over the variance."""
    return _share(float(values.var(axis=axis).mean()), values)


def _share(variance: float, values: NDArray[np.float64]) -> float:
    """A variance over that of all values; what is below the rounding of their sums is nothing."""
    share = variance / float(values.var())
    return share if share > _ROUNDING else 0.0


def grid_pairs(values: NDArray[np.float64]) -> dict[tuple[int, int], float]:
    """For each pair of axes what they explain together beyond what each does alone, over the variance."""
    first = [grid_first(values, axis) for axis in range(values.ndim)]
    return {
        (a, b): float(values.mean(axis=_others(values, a, b)).var() / values.var()) - first[a] - first[b]
        for a, b in combinations(range(values.ndim), 2)
    }


def _others(values: NDArray[np.float64], *axes: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(values.ndim) if axis not in axes)


@dataclass(frozen=True)
class Ratio:
    """A first-order index estimated from a sample: `index`, of which `noise` may be chance, from `bins` groups of designs.

    `index` is not bounded below: about 0, of either sign, where the axis explains nothing.
    """

    index: float
    noise: float
    bins: int


def correlation_ratio(each: Factor, values: NDArray[np.float64]) -> Ratio | None:
    """The first-order index of an axis, from any sample of (n,) values: designs are grouped by the axis, means of groups compared.

    Groups are the distinct values, or, of numbers with more than sqrt(n) of them, sqrt(n) groups of consecutive values, equally
    large but for equal values, which stay together. With B groups and eta^2 = the variance between groups over the whole (Pearson
    1905; as an index: McKay, NUREG/CR-6311, 1995), which chance alone makes (B-1)/(n-1) large, the index is Kelley's epsilon^2 =
    1 - (1 - eta^2) (n-1) / (n-B) (PNAS 21, 1935), unbiased where the axis explains nothing. What varies within a group counts as
    unexplained: 1/B^2 of a linear effect. `noise` is two standard deviations of the index where the axis explains nothing and
    values are normally distributed (eta^2 is then Beta((B-1)/2, (n-B)/2)). None where there are as many groups as designs, or one.
    """
    count = len(values)
    groups = _groups(each, count)
    _, groups, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    bins = len(sizes)
    if not 1 < bins < count:
        return None
    centred = values - values.mean()
    means = np.bincount(groups.ravel(), weights=centred, minlength=bins) / sizes
    eta = float((sizes * means**2).sum() / (centred**2).sum())
    spread = sqrt(2 * (bins - 1) * (count - bins) / (count + 1)) / (count - 1)
    return Ratio(1 - (1 - eta) * (count - 1) / (count - bins), 2 * spread * (count - 1) / (count - bins), bins)


def _groups(each: Factor, count: int) -> NDArray[np.int64]:
    """The group of each design."""
    bins = isqrt(count)
    if not each.numeric or len(each.values) <= bins:
        return each.codes
    # where the first of equal values stands in order decides for all of them
    before = np.cumsum(np.bincount(each.codes)) - np.bincount(each.codes)
    return (before[each.codes] * bins) // count


def rank_correlation(each: Factor, values: NDArray[np.float64]) -> float | None:
    """Spearman's rank correlation of an axis of numbers with (n,) values, ties by mean rank: the direction. None for text."""
    if not each.numeric or len(each.values) < 2:
        return None
    one, other = (ranks - ranks.mean() for ranks in [_ranks(each.codes), _ranks(np.unique(values, return_inverse=True)[1].ravel())])
    scale = sqrt(float((one**2).sum()) * float((other**2).sum()))
    return float((one * other).sum()) / scale if scale > 0 else None


def _ranks(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    sizes = np.bincount(codes)
    return np.asarray((np.cumsum(sizes) - (sizes - 1) / 2)[codes], np.float64)


@dataclass(frozen=True)
class Elasticity:
    """Of the slopes between `pairs` of neighbours: the median, and the tenth and ninetieth percentile."""

    median: float
    low: float
    high: float
    pairs: int


def elasticity(each: Factor, axis: int, spots: NDArray[np.int64], logs: NDArray[np.float64]) -> Elasticity | None:
    """d ln(performance) / d ln(key) between designs that are neighbours on the axis and alike on all others.

    `spots` is the lattice, `logs` (n,) the logarithms of the performance. None for text, and where no two neighbours are there
    with values above 0.
    """
    if not each.numeric:
        return None
    laid = np.moveaxis(np.where(spots >= 0, logs[spots], np.nan), axis, 0)
    above = each.values > 0
    widths = np.diff(np.log(each.values[above].astype(np.float64)))
    with np.errstate(divide="ignore", invalid="ignore"):  # values so close that their logarithms are equal have no slope
        slopes = np.diff(laid[above], axis=0) / widths.reshape(-1, *[1] * (laid.ndim - 1))
    there = slopes[np.isfinite(slopes)]
    if not there.size:
        return None
    low, median, high = np.quantile(there, (0.1, 0.5, 0.9))
    return Elasticity(float(median), float(low), float(high), there.size)


# -- The answer.

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
        raise UsageError(f'unknown scale "{scale}"', place="sensitivity", remedy=f"use {LOG} or {LINEAR}")
    factors = [factor(key, selection.results.keys[key][selection.positions]) for key in selection.results.axes]
    varied = [each for each in factors if len(each.values) > 1]
    if not varied:
        raise UsageError("no axis varies among the designs", place="sensitivity", remedy="loosen a constraint, or sweep an axis")
    spots = lattice(varied)
    full = spots is not None and bool(np.all(spots >= 0))
    count = len(selection.positions)
    if not full and count < _LEAST_SAMPLE:
        raise UsageError(f"{count} designs without a full grid are too few", place="sensitivity",
                         remedy=f"take {_LEAST_SAMPLE} or more, or a full grid")  # fmt: skip
    kernels, speeds = selection.performance.kernels, selection.performance.speeds
    logs = {ALL: np.log(selection.values)}
    if len(kernels) > 1:
        logs |= {selection.results.kernels[k]: np.log(speeds[k, selection.positions]) for k in kernels}
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
