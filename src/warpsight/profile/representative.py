"""Which warp stands for all (GPUMech section III-C): two clusters over performance and length, or an extreme."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError, suggestion

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

_MAX_ROUNDS = 300


def select(instructions: Longs, cycles: Floats, warps: Longs, first_warp: Longs, *, method: str = "kmeans") -> int:
    """The number of the path whose warps are representative. All arrays [paths]; paths that no warp took are passed over.

    `method` kmeans: the warp nearest to the centre of the larger of two clusters over (performance, instructions), each over its
    mean (eqs. 5-6); `max`, `min`: highest, lowest warp performance. Equal candidates: the lowest-numbered warp (`first_warp`).
    Raises UsageError for another method, or when no warp executed anything.
    """
    if method not in METHODS:
        what = f'"{method}" is not a way to choose the representative warp{suggestion(method, METHODS)}'
        raise UsageError(what, remedy=f"known: {', '.join(METHODS)}")
    taken = np.flatnonzero((warps > 0) & (instructions > 0))
    if not taken.size:
        raise UsageError("no warp executed an instruction, so there is none to represent the others", remedy="check the launch")
    taken = taken[np.argsort(first_warp[taken], kind="stable")]
    performance = instructions[taken] / cycles[taken]
    points = np.stack([performance, instructions[taken].astype(np.float64)], axis=1)
    return int(taken[METHODS[method](points, warps[taken].astype(np.float64))])


def _by_kmeans(points: Floats, weights: Floats) -> int:
    features = points / np.average(points, axis=0, weights=weights)
    second = two_means(features, weights)
    sizes = weights[~second].sum(), weights[second].sum()
    # of equal clusters the one that holds the lowest-numbered warp, which is the first point
    largest = second == (second[0] if sizes[0] == sizes[1] else sizes[1] > sizes[0])
    centre = np.average(features[largest], axis=0, weights=weights[largest])
    distance = np.where(largest, ((features - centre) ** 2).sum(axis=1), np.inf)
    return int(np.argmin(distance))


def two_means(points: Floats, weights: Floats) -> npt.NDArray[np.bool_]:
    """Weighted 2-means of `points` float64 [n, 2]: True for members of the second cluster. Deterministic.

    Starts from the best cut across the widest direction, or along either axis where that is better, then moves points to the nearer
    centre until none moves (Lloyd). The second cluster is empty only when all points are equal.
    """
    centred = points - np.average(points, axis=0, weights=weights)
    covariance = (centred * weights[:, None]).T @ centred
    directions = [*np.eye(points.shape[1]), np.linalg.eigh(covariance)[1][:, -1]]
    cuts = [_best_cut(centred, weights, centred @ direction) for direction in directions]
    second = min(cuts, key=lambda cut: cut[0])[1]
    for _ in range(_MAX_ROUNDS):
        if second.all() or not second.any():
            break
        centres = [np.average(points[side], axis=0, weights=weights[side]) for side in (~second, second)]
        distances = [((points - centre) ** 2).sum(axis=1) for centre in centres]
        moved = distances[1] < distances[0]
        if (moved == second).all():
            break
        second = moved
    return second


def _best_cut(points: Floats, weights: Floats, along: Floats) -> tuple[float, npt.NDArray[np.bool_]]:
    """The cut of the order `along` with the least sum of squares: that sum (up to a constant), and who is beyond the cut."""
    order = np.argsort(along, kind="stable")
    weight = np.cumsum(weights[order])
    total = np.cumsum(points[order] * weights[order, None], axis=0)
    distinct = np.flatnonzero(np.diff(along[order]) > 0)
    if not distinct.size:
        return np.inf, np.zeros(len(points), dtype=np.bool_)
    left, right = weight[distinct], weight[-1] - weight[distinct]
    spread = (total[distinct] ** 2).sum(axis=1) / left + ((total[-1] - total[distinct]) ** 2).sum(axis=1) / right
    best = int(np.argmax(spread))
    beyond = np.ones(len(points), dtype=np.bool_)
    beyond[order[: distinct[best] + 1]] = False
    return -float(spread[best]), beyond


METHODS: dict[str, Callable[[Floats, Floats], int]] = {
    "kmeans": _by_kmeans,
    "max": lambda points, weights: int(np.argmax(points[:, 0])),
    "min": lambda points, weights: int(np.argmin(points[:, 0])),
}
