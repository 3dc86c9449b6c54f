"""The rows of one model as matrices of kernels by designs, and the performance of each design relative to a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsight.base.errors import FormatError, UsageError, suggestion
from warpsight.models.base import STACK_PREFIX
from warpsight.pipeline.rows import NUMBERS, WORDS
from warpsight.sweeps.names import DESIGN, FAILED, KERNEL, MODEL

DONE, BROKEN, MISSING = 0, 1, 2
FIGURES = (*NUMBERS, "warp_instructions", "dpki", "occupancy")
_PLACE = "results"
_MOST_REASONS = 5


@dataclass(frozen=True)
class Results:
    """The results of one model for D designs and K kernels.

    `designs` are design numbers, (D,) int64, ascending. `keys` are the designs' columns, each (D,), float64 in base units or text;
    `axes` are those that the study varied, the others are derived. `state` is (K, D) int8: `DONE`, `BROKEN` (the row says why) or
    `MISSING` (no row). `table`, `spots`: the rows, and where each belongs in a flat (K, D) matrix.
    """

    model: str
    kernels: tuple[str, ...]
    designs: NDArray[np.int64]
    keys: Mapping[str, NDArray[Any]]
    axes: tuple[str, ...]
    state: NDArray[np.int8]
    table: pa.Table
    spots: NDArray[np.int64]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of numbers: `FIGURES`, and the components of the CPI stack that a model of the study declares."""
        return figure_names(self.table)

    def figures(self, name: str) -> NDArray[np.float64]:
        """A column of numbers as (K, D) float64, NaN where there is none."""
        out = np.full(self.state.size, np.nan)
        out[self.spots] = _floats(self.table[name])
        return out.reshape(self.state.shape)

    def words(self, name: str) -> NDArray[Any]:
        """A column of words as (K, D) text, empty where there is none."""
        out = np.full(self.state.size, "", dtype=object)
        out[self.spots] = _texts(self.table[name])
        return out.reshape(self.state.shape)

    def position(self, design: int) -> int:
        """The place of a design number. Raises UsageError if there is no such design."""
        position = int(np.searchsorted(self.designs, design))
        if position == len(self.designs) or self.designs[position] != design:
            raise UsageError(f"there is no design {design}", place=_PLACE,
                             remedy=f"designs are numbered from {self.designs[0]} to {self.designs[-1]}")  # fmt: skip
        return position

    def described(self, position: int) -> dict[str, Any]:
        """Number and keys of the design at that place, for a document."""
        return {"design": int(self.designs[position]), "keys": {key: plain(each[position]) for key, each in self.keys.items()}}

    def reason(self, kernel: int, position: int) -> str:
        """Why the row of that kernel and design has no numbers; empty where it has, or where there is no row."""
        rows = np.flatnonzero(self.spots == kernel * len(self.designs) + position)
        return str(_texts(self.table[FAILED].take(rows))[0]) if rows.size else ""

    def reasons(self, kernels: Sequence[int]) -> list[dict[str, Any]]:
        """Why rows of these kernels failed: the most frequent reasons, how many rows each, and the first design."""
        there = self.state.ravel()[self.spots] == BROKEN
        there &= np.isin(self.spots // len(self.designs), list(kernels))
        texts, spots = _texts(self.table[FAILED])[there], self.spots[there]
        rows: dict[str, list[int]] = {}
        for text, design in zip(texts, self.designs[spots % len(self.designs)], strict=True):
            rows.setdefault(str(text), []).append(int(design))
        ranked = sorted(rows.items(), key=lambda item: (-len(item[1]), item[0]))
        return [{"reason": text, "rows": len(numbers), "first": min(numbers)} for text, numbers in ranked[:_MOST_REASONS]]


def results_of(
    rows: pa.Table, designs: pa.Table, *, model: str, axes: Sequence[str] | None = None, kernels: Sequence[str] | None = None
) -> Results:
    """One model's part of the table of results (columns of `sweep.rows`) on the designs of a table (`design` and a column per key).

    `axes` None: every column of the designs is an axis. `kernels` None: all, in the order in which they first come. Raises
    UsageError for a model, axis or kernel that is not there, FormatError for tables that are not what they should be.
    """
    _need(rows, (DESIGN, KERNEL, MODEL, *FIGURES, *WORDS, FAILED), _PLACE)
    _need(designs, (DESIGN,), "designs")
    numbers, keys = _designs(designs)
    chosen = tuple(keys) if axes is None else tuple(axes)
    for axis in chosen:
        check_one_of(axis, keys, "axis")
    check_one_of(model, _distinct(rows[MODEL]), "model")
    table = rows.filter(pc.equal(rows[MODEL], model)).combine_chunks()
    known = _distinct(table[KERNEL])
    names = tuple(known) if kernels is None else tuple(dict.fromkeys(kernels))
    for kernel in names:
        check_one_of(kernel, known, "kernel")
    if len(names) < len(known):
        table = table.filter(pc.is_in(table[KERNEL], value_set=pa.array(names, pa.string()))).combine_chunks()
    spots = _spots(table, numbers, names)
    state = np.full(len(names) * len(numbers), MISSING, np.int8)
    done = _array(pc.equal(pc.fill_null(table[FAILED], ""), "")).astype(bool)
    state[spots] = np.where(done, DONE, BROKEN)
    _check_seconds(_floats(table["seconds"])[done], numbers[spots[done] % len(numbers)])
    return Results(model, names, numbers, keys, chosen, state.reshape(len(names), len(numbers)), table, spots)


def figure_names(table: pa.Table) -> tuple[str, ...]:
    """The columns of numbers of a table of results."""
    return tuple(dict.fromkeys([*FIGURES, *(name for name in table.column_names if name.startswith(STACK_PREFIX))]))


def check_one_of(name: str, known: Sequence[str] | Mapping[str, Any], what: str) -> None:
    """Raises UsageError where the results have no `what` of that name."""
    if name not in known:
        raise UsageError(f'unknown {what} "{name}"{suggestion(name, known)}', place=_PLACE,
                         remedy=f"known: {', '.join(known) or 'none'}")  # fmt: skip


def plain(value: Any) -> Any:
    """A number or text as a document may hold it: NaN and infinities are None."""
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def _damaged(what: str, place: str = _PLACE) -> FormatError:
    return FormatError(what, place=place, remedy="run `warpsight sweep collect` again")


def _need(table: pa.Table, names: Sequence[str], place: str) -> None:
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise _damaged(f"the column {missing[0]} is missing", place)


def _designs(table: pa.Table) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
    """Design numbers, ascending, and their keys."""
    numbers = _array(table[DESIGN]).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    if not numbers.size:
        raise UsageError("there are no designs", place="designs", remedy="loosen the study's constraints")
    twice = np.flatnonzero(numbers[1:] == numbers[:-1])
    if twice.size:
        raise _damaged(f"design {numbers[twice[0]]} is given twice", "designs")
    return numbers, {name: _key(table[name], name)[order] for name in table.column_names if name != DESIGN}


def _key(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if column.null_count:
        raise _damaged(f"{name} has no value on {column.null_count} designs", "designs")
    if pa.types.is_boolean(kind):
        return np.where(_array(column).astype(bool), "true", "false").astype(object)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(pc.cast(column, pa.string()))
    raise _damaged(f"{name} is neither a number nor text", "designs")


def _distinct(column: pa.ChunkedArray) -> list[str]:
    """The texts of a column in the order in which they first come."""
    return [str(each) for each in pc.unique(column).to_pylist()]


def _spots(table: pa.Table, designs: NDArray[np.int64], kernels: Sequence[str]) -> NDArray[np.int64]:
    """Where each row belongs in a flat matrix of kernels by designs."""
    numbers = _array(table[DESIGN]).astype(np.int64)
    places = np.searchsorted(designs, numbers)
    unknown = np.flatnonzero(designs[np.minimum(places, len(designs) - 1)] != numbers)
    if unknown.size:
        raise FormatError(f"a row is of design {numbers[unknown[0]]}, which is not among the designs", place=_PLACE,
                          remedy="take results and designs of the same study")  # fmt: skip
    rows = _array(pc.index_in(table[KERNEL], value_set=pa.array(kernels, pa.string()))).astype(np.int64)
    spots = rows * len(designs) + places
    ordered = np.sort(spots)
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if twice.size:
        kernel, place = divmod(int(ordered[twice[0]]), len(designs))
        raise _damaged(f"design {designs[place]} and kernel {kernels[kernel]} have two rows of one model")
    return spots


def _check_seconds(seconds: NDArray[np.float64], designs: NDArray[np.int64]) -> None:
    invalid = np.flatnonzero(~(np.isfinite(seconds) & (seconds > 0)))
    if invalid.size:
        raise _damaged(f"design {designs[invalid[0]]} takes {seconds[invalid[0]]} seconds in a row that did not fail")


def _array(column: pa.ChunkedArray) -> NDArray[Any]:
    return np.asarray(column.to_numpy())


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return _array(pc.fill_null(pc.cast(column, pa.float64()), np.nan)).astype(np.float64)


def _texts(column: pa.ChunkedArray) -> NDArray[Any]:
    return _array(pc.fill_null(pc.cast(column, pa.string()), "")).astype(object)


# -- One number for each design: how fast it runs the kernels, in times a baseline design's speed.

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
    missing = np.flatnonzero(states[:, place] != DONE)
    if missing.size:
        _refuse_baseline(results, kernels[int(missing[0])], place, int(results.designs[np.argmax(done)]) if done.any() else None)
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
    remedy = f"name a design on which every kernel was predicted, such as `baseline={other}`"
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
