"""How much of a number's variance over designs is due to which axis: the arithmetic, on plain arrays.

First-order and total indices are Sobol's (Math. Comput. Simul. 55, 2001; the total one by Homma and Saltelli, Reliab. Eng. Syst.
Saf. 52, 1996). docs/explanation/sensitivity.md says what they mean and when they mislead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isqrt, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    pair = [_ranks(each.codes), _ranks(np.unique(values, return_inverse=True)[1].ravel())]
    one, other = (ranks - ranks.mean() for ranks in pair)
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
    slopes = np.diff(laid[above], axis=0) / widths.reshape(-1, *[1] * (laid.ndim - 1))
    there = slopes[np.isfinite(slopes)]
    if not there.size:
        return None
    low, median, high = np.quantile(there, (0.1, 0.5, 0.9))
    return Elasticity(float(median), float(low), float(high), there.size)
