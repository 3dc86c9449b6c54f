"""Performance along axes: maps over two, as MDM (MICRO 2020) Figs. 11 and 12, and speed-ups along one or over some designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError
from warpsight.pipeline.rows import WORDS
from warpsight.sweeps.answers.results import Results, check_one_of, plain
from warpsight.sweeps.answers.selection import PERFORMANCE, Selection

MEAN, BEST = "mean", "best"
_MOST_VALUES = 100
_SAME = 1e-12


def design_map(
    selection: Selection, x: str, y: str, *, value: str = PERFORMANCE, kernel: str | None = None,
    fixed: Mapping[str, float | str] | None = None, others: str | None = None,
) -> dict[str, Any]:
    """`value` over two keys: `performance`, a column of results (`cpi_stack.dram`), or a word of it (`bound_by`, `class`).

    `fixed` holds other keys at a value, in base units. Where designs still differ in other keys, `others` says what a cell shows:
    the arithmetic "mean" of its designs, or the value of its "best" design, the one of most performance (of equal ones the lowest
    number). `kernel` is needed for a column of results where several count; with a kernel, `performance` is that kernel's speed. In
    the document `values`, `shown` (the number of the design shown, None for a mean) and `counts` are lists of a row per y value and
    a column per x value; a cell without a design holds None. Numbers ascend, words come in the order of their first design.

    Raises UsageError for what is not there, more than 100 values on an axis, and cells of several designs without `others`.
    """
    results, held = selection.results, dict(fixed or {})
    for key in (x, y, *held):
        check_one_of(key, results.keys, "key")
    if x == y or x in held or y in held:
        raise UsageError(f"{y if x == y else x if x in held else y} is named twice", place="map", remedy="name each key once")
    if others not in (None, MEAN, BEST):
        raise UsageError(f'"{others}" is not a known value of others', place="map", remedy=f"use {MEAN} or {BEST}")
    if others == MEAN and value in WORDS:
        raise UsageError(f"{value} has no mean", place="map", remedy=f"show the best design's: {BEST}")
    positions = _held(selection, held)
    shown = _values(selection, value, kernel)[positions]
    xs, columns = _levels(results, x, positions)
    ys, rows = _levels(results, y, positions)
    cells = rows * len(xs) + columns
    counts = np.bincount(cells, minlength=len(ys) * len(xs))
    if others is None and counts.max() > 1:
        raise UsageError(f"{counts.max()} designs share a cell: they differ in {', '.join(_differ(results, positions, x, y))}",
                         place="map", remedy=f"fix these keys, or show the {MEAN} or the {BEST} of them")  # fmt: skip
    shape = (len(ys), len(xs))
    if others == MEAN:
        sums = np.bincount(cells, weights=shown, minlength=counts.size)
        with np.errstate(invalid="ignore"):
            laid, numbers = (sums / counts).astype(object), np.full(counts.size, -1)
    else:
        laid, numbers = _of_best(selection, positions, cells, shown, counts.size)
    return {
        **selection.head("map"),
        "x": {"key": x, "values": xs},
        "y": {"key": y, "values": ys},
        "value": value,
        "kernel": kernel,
        "fixed": held,
        "others": others,
        "values": _matrix(laid, counts, shape),
        "shown": _matrix(numbers, (counts > 0) & (numbers >= 0), shape),
        "counts": counts.reshape(shape).tolist(),
    }


def _held(selection: Selection, held: Mapping[str, float | str]) -> NDArray[np.int64]:
    """The chosen designs on which the fixed keys have their values."""
    positions = selection.positions
    for key, value in held.items():
        column = selection.results.keys[key][positions]
        if column.dtype == object:
            same = column == value
        elif isinstance(value, str):
            raise UsageError(f'{key} is a number and not "{value}"', place="map", remedy="give it in base units")
        else:
            same = np.isclose(column, value, rtol=_SAME, atol=0.0)
        if not np.any(same):
            there = [str(plain(each)) for each in np.unique(column)]
            more = f" and {len(there) - 10} more" if len(there) > 10 else ""
            raise UsageError(f"no design has {key} at {value}", place="map", remedy=f"there are {', '.join(there[:10])}{more}")
        positions = positions[np.asarray(same)]
    return np.asarray(positions, np.int64)


def _values(selection: Selection, value: str, kernel: str | None) -> NDArray[Any]:
    """The value on every design of the results, (D,)."""
    results, performance = selection.results, selection.performance
    names = [results.kernels[k] for k in performance.kernels]
    if kernel is not None:
        check_one_of(kernel, names, "kernel")
    if value == PERFORMANCE:
        return performance.values if kernel is None else performance.speeds[results.kernels.index(kernel)]
    check_one_of(value, (PERFORMANCE, *results.names, *WORDS), "value")
    if kernel is None and len(names) > 1:
        raise UsageError(f"{value} differs between kernels", place="map", remedy=f"name a kernel: {', '.join(names)}")
    row = results.kernels.index(names[0] if kernel is None else kernel)
    column: NDArray[Any] = (results.words if value in WORDS else results.figures)(value)[row]
    return column


def _levels(results: Results, key: str, positions: NDArray[np.int64]) -> tuple[list[Any], NDArray[np.int64]]:
    """The values of a key, and the number of each design's."""
    values, firsts, codes = np.unique(results.keys[key][positions], return_index=True, return_inverse=True)
    if len(values) > _MOST_VALUES:
        raise UsageError(f"{key} has {len(values)} values", place="map",
                         remedy=f"a map holds {_MOST_VALUES}: sweep a grid, or name other keys")  # fmt: skip
    if values.dtype == object:
        order = np.argsort(firsts)
        values, codes = values[order], np.argsort(order)[codes]
    return [plain(each) for each in values], codes.ravel()


def _differ(results: Results, positions: NDArray[np.int64], x: str, y: str) -> list[str]:
    rest = [key for key in results.axes if key not in (x, y)]
    return [key for key in rest if len(np.unique(results.keys[key][positions])) > 1] or ["no other axis"]


def _of_best(
    selection: Selection, positions: NDArray[np.int64], cells: NDArray[np.int64], shown: NDArray[Any], size: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Each cell's value on its best design, and that design's number."""
    # the last write stays, so the best come last; of equal ones the lowest number
    order = np.lexsort((-positions, selection.performance.values[positions]))
    laid, numbers = np.full(size, None, dtype=object), np.full(size, -1, np.int64)
    place = np.full(size, -1, np.int64)
    place[cells[order]] = order
    there = place >= 0
    laid[there] = shown[place[there]]
    numbers[there] = selection.results.designs[positions[place[there]]]
    return laid, numbers


def _matrix(flat: NDArray[Any], there: NDArray[Any], shape: tuple[int, int]) -> list[list[Any]]:
    cells = [plain(value) if here else None for value, here in zip(flat, there, strict=True)]
    return [cells[row * shape[1] : (row + 1) * shape[1]] for row in range(shape[0])]


# -- Speed-ups of each kernel on some designs, or along one axis, against the baseline design.

_MOST_DESIGNS = 500


def speedups(selection: Selection, *, designs: Sequence[int] | None = None, axis: str | None = None) -> dict[str, Any]:
    """Times the baseline's speed: a row for each kernel that counts, a column for each design. `values` is a list of rows.

    The columns are the chosen `designs` in the order given; or, of one `axis`, the baseline and the chosen designs that differ from
    it in nothing else, by ascending value; or all that are chosen. `performance` is the selection's metric, and `geomean` the
    geometric mean of a column. A kernel without a time on a design has None there, and so has the column's mean; designs without a
    performance can only be named as `designs`. Raises UsageError for what is not there and for more than 500 columns.
    """
    if designs is not None and axis is not None:
        raise UsageError("both designs and an axis are named", place="speedups", remedy="name one of them")
    results, performance = selection.results, selection.performance
    if axis is not None:
        positions = _along(selection, axis)
    elif designs is not None:
        positions = np.array([results.position(number) for number in dict.fromkeys(designs)], np.int64)
    else:
        positions = selection.positions
    if not 0 < len(positions) <= _MOST_DESIGNS:
        raise UsageError(f"{len(positions)} designs are too {'many' if len(positions) else 'few'} for a table", place="speedups",
                         remedy=f"name designs, at most {_MOST_DESIGNS}, or an axis")  # fmt: skip
    values = performance.speeds[list(performance.kernels)][:, positions]
    with np.errstate(invalid="ignore"):
        means = np.exp(np.log(values).mean(axis=0))
    return {
        **selection.head("speedups"),
        "axis": axis,
        "columns": [results.described(int(place)) for place in positions],
        "values": [[plain(each) for each in row] for row in values],
        "geomean": [plain(each) for each in means],
        "performance": [plain(each) for each in performance.values[positions]],
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
