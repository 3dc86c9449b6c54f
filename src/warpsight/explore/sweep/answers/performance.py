"""One number for each design: how fast it runs the kernels, in times a baseline design's speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError, suggestion
from warpsight.explore.sweep.answers.results import BROKEN, DONE, MISSING, Results

GEOMEAN, TOTAL, WORST = "geomean", "total", "worst"
METRICS = (GEOMEAN, TOTAL, WORST)
_KERNEL = "kernel:"


@dataclass(frozen=True)
class Performance:
    """`values` are (D,) float64: times the speed of the design numbered `baseline`, NaN for designs that are left out.

    `kernels` are the numbers of the kernels that count. `speeds` (K, D) is each kernel's own speed relative to the baseline, NaN
    where the kernel has no time on a design, and `seconds` (D,) the time of all that count, one after the other. `left_out` says
    for a document how many designs have no value, and why.
    """

    metric: str
    baseline: int
    kernels: tuple[int, ...]
    values: NDArray[np.float64]
    speeds: NDArray[np.float64]
    seconds: NDArray[np.float64]
    left_out: dict[str, Any]


def performance(results: Results, metric: str = GEOMEAN, baseline: int | None = None) -> Performance:
    """Every design's performance, more is better. With t_k(d) the seconds of kernel k on design d, and b the baseline:

    `geomean` is the geometric mean over the kernels of t_k(b) / t_k(d), which does not depend on how long a kernel runs (and ranks
    designs in the same order whatever the baseline); `total` the sum of t_k(b) over the sum of t_k(d): the time of all kernels, one
    after the other; `worst` the least t_k(b) / t_k(d); a kernel's name that kernel's alone (`kernel:NAME` where it is called like
    one of the words before). `baseline` None: the design of the lowest number that has a value.

    A design on which a kernel that counts failed, or has no row, has no value: it is left out, and counted. Raises UsageError for
    an unknown metric or baseline, and where the baseline itself has no value.
    """
    kernels = _kernels(results, metric)
    seconds = results.figures("seconds")
    states = results.state[list(kernels)]
    done = np.all(states == DONE, axis=0)
    # where none has a value, argmax gives the first, which is then refused
    place = int(np.argmax(done)) if baseline is None else results.position(baseline)
    wrong = np.flatnonzero(states[:, place] != DONE)
    if wrong.size:
        _refuse_baseline(results, kernels[int(wrong[0])], place, int(results.designs[np.argmax(done)]) if done.any() else None)
    seconds[results.state != DONE] = np.nan
    speeds = seconds[:, place : place + 1] / seconds
    counted = speeds[list(kernels)]
    total = seconds[list(kernels)].sum(axis=0)
    if metric == GEOMEAN and len(kernels) > 1:
        # of the logarithms: a product of many ratios may leave the range of a double
        values = np.exp(np.log(counted).mean(axis=0))
    elif metric == TOTAL:
        values = total[place] / total
    else:
        values = counted.min(axis=0)
    return Performance(metric, int(results.designs[place]), kernels, np.where(done, values, np.nan), speeds, total,
                       _left_out(results, kernels, states))  # fmt: skip


def _refuse_baseline(results: Results, kernel: int, place: int, other: int | None) -> NoReturn:
    """`other`: a design that could be the baseline."""
    first_line = results.reason(kernel, place).partition("\n")[0]
    what = f"{results.model} has no time of {results.kernels[kernel]} on design {results.designs[place]}"
    remedy = f"name a design on which every kernel was predicted, as {other} (--baseline {other})"
    if other is None:
        remedy = "no design has a time of every kernel: correct those that failed, or leave them out"
    raise UsageError(f"{what}: {first_line}" if first_line else what, place="baseline", remedy=remedy)


def _kernels(results: Results, metric: str) -> tuple[int, ...]:
    if metric in METRICS:
        return tuple(range(len(results.kernels)))
    name = metric.removeprefix(_KERNEL)
    if name not in results.kernels:
        known = (*METRICS, *results.kernels)
        raise UsageError(f'there is no metric and no kernel "{name}"{suggestion(name, known)}', place="metric",
                         remedy=f"there are {', '.join(known)}")  # fmt: skip
    return (results.kernels.index(name),)


def _left_out(results: Results, kernels: tuple[int, ...], states: NDArray[np.int8]) -> dict[str, Any]:
    failed = np.any(states == BROKEN, axis=0)
    missing = np.any(states == MISSING, axis=0) & ~failed
    return {
        "designs": int(failed.sum() + missing.sum()),
        "failed": int(failed.sum()),
        "missing": int(missing.sum()),
        "reasons": results.reasons(kernels) if failed.any() else [],
    }
