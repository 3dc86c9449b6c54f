"""Speed-ups of each kernel on some designs, or along one axis, against the baseline design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError
from warpsight.explore.sweep.answers.results import check_one_of, plain
from warpsight.explore.sweep.answers.selection import Selection

_MOST_DESIGNS = 500


def speedups(selection: Selection, *, designs: Sequence[int] | None = None, axis: str | None = None) -> dict[str, Any]:
    """Times the baseline's speed: a row for each kernel that counts, a column for each design. `values` is a list of rows.

    The columns are the chosen `designs` in the order given; or, of one `axis`, the baseline and the chosen designs that differ from
    it in nothing else, by ascending value; or all that are chosen. `performance` is the selection's metric, and `geomean` the
    geometric mean of a column. A kernel without a time on a design has None there, and so has the column's mean; designs without a
    performance can only be named as `designs`. Raises UsageError for what is not there and for more than 500 columns.
    """
    if designs is not None and axis is not None:
        raise UsageError("both designs and an axis are named", place="speed-ups", remedy="name one of them")
    results, found = selection.results, selection.performance
    if axis is not None:
        positions = _along(selection, axis)
    elif designs is not None:
        positions = np.array([results.position(number) for number in dict.fromkeys(designs)], np.int64)
    else:
        positions = selection.positions
    if not 0 < len(positions) <= _MOST_DESIGNS:
        raise UsageError(f"{len(positions)} designs are too {'many' if len(positions) else 'few'} for a table", place="speed-ups",
                         remedy=f"name designs, at most {_MOST_DESIGNS}, or an axis")  # fmt: skip
    values = found.speeds[list(found.kernels)][:, positions]
    with np.errstate(invalid="ignore"):
        means = np.exp(np.log(values).mean(axis=0))
    return {
        **selection.head("speedups"),
        "axis": axis,
        "columns": [results.described(int(place)) for place in positions],
        "values": [[plain(each) for each in row] for row in values],
        "geomean": [plain(each) for each in means],
        "performance": [plain(each) for each in found.values[positions]],
    }


def _along(selection: Selection, axis: str) -> NDArray[np.int64]:
    """The baseline and the chosen designs that differ from it in this axis alone, in its order."""
    results = selection.results
    check_one_of(axis, results.axes, "axis")
    base = results.position(selection.performance.baseline)
    there = np.union1d(selection.positions, [base])
    same = np.ones(len(there), np.bool_)
    for key in results.axes:
        if key != axis:
            same &= results.keys[key][there] == results.keys[key][base]
    there = there[same]
    # words in the order of their designs
    column = results.keys[axis][there]
    return there if column.dtype == object else there[np.argsort(column, kind="stable")]
