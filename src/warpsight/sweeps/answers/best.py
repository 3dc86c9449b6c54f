"""The best designs: ranked by performance, and the Pareto fronts of performance against one or more costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError
from warpsight.sweeps.answers.results import plain
from warpsight.sweeps.answers.selection import PERFORMANCE, Selection, Term, check_names, figures
from warpsight.sweeps.names import DESIGN


def best(selection: Selection, count: int = 10) -> dict[str, Any]:
    """The `count` chosen designs of most performance, most first; of equal ones the lower design number first.

    Each with its keys, its performance, the seconds of all kernels, and for each kernel its seconds, speed relative to the
    baseline, `bound_by` and `class`. `ties` counts further designs that are as good as the last. Raises UsageError for a count
    below 1.
    """
    if count < 1:
        raise UsageError(f"{count} designs are requested", place="best", remedy="request at least 1")
    results, performance = selection.results, selection.performance
    # stable, and positions ascend by design number
    order = np.argsort(-selection.values, kind="stable")
    shown = selection.positions[order[:count]]
    ties = int(np.count_nonzero(selection.values[order[count:]] == performance.values[shown[-1]]))
    seconds, bound, kind = results.figures("seconds"), results.words("bound_by"), results.words("class")
    listed = []
    for place in shown:
        kernels = [
            {"kernel": results.kernels[k], "seconds": plain(seconds[k, place]), "speedup": plain(performance.speeds[k, place]),
             "bound_by": bound[k, place], "class": kind[k, place]}
            for k in performance.kernels
        ]  # fmt: skip
        listed.append({**results.described(place), "performance": plain(performance.values[place]),
                       "seconds": plain(performance.seconds[place]), "kernels": kernels})  # fmt: skip
    return {**selection.head("best"), "best": listed, "ties": ties}


# -- Fronts of designs that no other design betters: performance against one or more costs.

_MOST_EQUAL, _MOST_OTHERS = 20, 1000
_BLOCK, _FRONT_BLOCK = 2048, 128


def pareto(selection: Selection, costs: Sequence[Term]) -> dict[str, Any]:
    """The front of most performance and least of each cost, in ascending order of the first cost.

    A design betters another if it is at least as good in every objective and better in one; the front holds those that none
    betters. Designs equal in every objective are one point: the lowest number represents them, `equal` counts the others. Costs may
    name what `Selection.columns` has. `others` are points off the front, for a picture: at most 1,000, evenly taken along the first
    cost, with the design of each in `others_designs`. Raises UsageError without a cost, for unknown names, and for a cost that is
    not finite on a chosen design.
    """
    if not costs:
        raise UsageError("a Pareto front needs a cost", place="pareto", remedy="give an expression to minimize, such as sm_count")
    columns = selection.columns()
    for term in costs:
        check_names(term, columns, "cost")
    read = [{name: columns[name] for name in {DESIGN, *term.formula.names}} for term in costs]
    small = [figures(term, own, selection.designs, "cost") for term, own in zip(costs, read, strict=True)]
    points = np.column_stack([*small, -selection.values])
    group, firsts, sizes = _distinct(points)
    on = pareto_front(points[firsts])
    members: dict[int, list[int]] = {int(g): [] for g in np.flatnonzero(on)}  # design numbers, ascending
    for place in np.flatnonzero(on[group]):
        members[int(group[place])].append(int(selection.designs[place]))
    front = [
        {
            **selection.results.described(int(selection.positions[firsts[g]])),
            "values": _values(points[firsts[g]]),
            "equal": int(sizes[g]) - 1,
            "equal_designs": members[g][1 : 1 + _MOST_EQUAL],
        }
        for g in members
    ]
    off = firsts[~on]
    step = -(-len(off) // _MOST_OTHERS) or 1
    objectives = [{"name": PERFORMANCE, "better": "more"}, *({"name": term.text, "better": "less"} for term in costs)]
    return {
        **selection.head("pareto"),
        "objectives": objectives,
        "front": front,
        "bettered": int(len(points) - sizes[on].sum()),
        "others": [_values(points[place]) for place in off[::step]],
        "others_designs": [int(selection.designs[place]) for place in off[::step]],
        "others_of": len(off),
    }


def pareto_front(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of (n, m) points none betters, (n,): smaller is better in every column, and all values are finite.

    j betters i if it is nowhere larger and somewhere smaller; equal points do not better each other. Two columns take
    O(n log n) time: sorted by the first, then the second, a point is on the front if its second is below all before it (Kung,
    Luccio and Preparata, J. ACM 22(4), 1975). More take O(n f) with a front of f points, by blocks (the sort-filter-skyline of
    Chomicki, Godfrey, Gryz and Liang, ICDE 2003).
    """
    group, firsts, _ = _distinct(points)
    # in lexicographic order nothing betters what is before it
    unique = points[firsts]
    on = _by_sorting(unique) if unique.shape[1] == 2 else _by_blocks(unique)
    return np.asarray(on[group], np.bool_)


def _distinct(points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The group of each point; and for each group, in lexicographic order, the first point in it and how many there are."""
    order = np.lexsort(points.T[::-1])  # stable: equal points stay in their order
    ordered = points[order]
    new = np.ones(len(points), np.bool_)
    new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    group = np.empty(len(points), np.int64)
    group[order] = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    return group, order[starts], np.diff(np.append(starts, len(points)))


def _by_sorting(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    least = np.minimum.accumulate(points[:, 1])
    on = np.ones(len(points), np.bool_)
    on[1:] = points[1:, 1] < least[:-1]
    return on


def _by_blocks(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    on = np.zeros(len(points), np.bool_)
    front = np.empty((0, points.shape[1]))
    for start in range(0, len(points), _BLOCK):
        left = np.arange(start, min(start + _BLOCK, len(points)))
        # those with the least sums better most others, so they go first
        for low in range(0, len(front), _FRONT_BLOCK):
            left = left[~_bettered(points[left], front[low : low + _FRONT_BLOCK])]
            if not left.size:
                break
        block = points[left]
        kept = [~_bettered(block[low : low + _FRONT_BLOCK], block) for low in range(0, len(block), _FRONT_BLOCK)]
        left = left[np.concatenate(kept)] if kept else left
        on[left] = True
        front = np.concatenate([front, points[left]])
        front = front[np.argsort(_ranked(front), kind="stable")]
    return on


def _ranked(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of the columns, each scaled to the range 0 to 1."""
    low = points.min(axis=0, initial=np.inf)
    span = points.max(axis=0, initial=-np.inf) - low
    return np.asarray(((points - low) / np.where(span > 0, span, 1.0)).sum(axis=1))


def _bettered(points: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points one of `by` betters. Distinct points: no worse anywhere and not itself is better."""
    worse = np.ones((len(points), len(by)), np.bool_)
    same = np.ones_like(worse)
    for column in range(points.shape[1]):
        worse &= by[None, :, column] <= points[:, None, column]
        same &= by[None, :, column] == points[:, None, column]
    return np.asarray(np.any(worse & ~same, axis=1))


def _values(point: NDArray[np.float64]) -> list[float]:
    """In the order of the objectives, performance as it is."""
    return [float(-point[-1]), *(float(each) for each in point[:-1])]
