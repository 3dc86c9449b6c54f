"""Tables of a study as tests need them, and expressions that are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from warpsight.models.base import STACK_PREFIX
from warpsight.pipeline.rows import WORDS
from warpsight.result.prediction import COMPONENTS
from warpsight.sweeps.answers.results import Results, results_of
from warpsight.sweeps.answers.selection import Selection, Term, select

Cell = tuple[int, str]


@dataclass(frozen=True)
class Said:
    """An expression: a function of columns."""

    names: tuple[str, ...]
    function: Callable[[Mapping[str, Any]], Any]

    def evaluate(self, columns: Mapping[str, Any]) -> Any:
        assert set(columns) >= set(self.names)
        return self.function(columns)


def term(text: str, function: Callable[..., Any], *names: str) -> Term:
    """The function of the named columns, called with them in that order, stands in for the parsed text."""
    return Term(text, Said(names, lambda columns: function(*(columns[name] for name in names))))


def grid_of(**axes: Sequence[Any]) -> dict[str, list[Any]]:
    """Columns of the full grid, the last axis fastest. `__` in a name stands for a dot."""
    combined = list(product(*axes.values()))
    return {name.replace("__", "."): [each[k] for each in combined] for k, name in enumerate(axes)}


def tables(
    keys: Mapping[str, Sequence[Any]], seconds: Mapping[str, Sequence[float]], *, failed: Mapping[Cell, str] | None = None,
    missing: Sequence[Cell] = (), model: str = "mdm", first: int = 0,
    columns: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
) -> tuple[pa.Table, pa.Table]:
    """Rows and designs: seconds by kernel, in the designs' order. `columns` are further result columns by kernel."""
    failed, columns = failed or {}, columns or {}
    count = len(next(iter(keys.values())))
    designs = pa.table({"design": pa.array(range(first, first + count), pa.int64()), **{k: list(v) for k, v in keys.items()}})
    rows: list[dict[str, Any]] = []
    for place in range(count):
        for kernel, times in seconds.items():
            cell = (first + place, kernel)
            if cell in missing:
                continue
            fails = cell in failed
            number = float("nan") if fails else times[place]
            row: dict[str, Any] = {"design": first + place, **{key: each[place] for key, each in keys.items()}}
            row |= {"kernel": kernel, "model": model, "cycles": number * 1e9, "half_width": 0.0, "seconds": number,
                    "ipc_sm_warp": 1.0, "ipc_gpu_warp": 1.0, "cpi": 1.0 if not fails else number}  # fmt: skip
            row |= {f"{STACK_PREFIX}{name}": 0.0 for name in COMPONENTS}
            row |= {"warp_instructions": 1000, "dpki": 1.0, "occupancy": 1.0}
            row |= dict.fromkeys(WORDS, "" if fails else "dram") | {"failed": failed.get(cell, "")}
            row |= {name: each[kernel][place] for name, each in columns.items() if not fails}
            rows.append(row)
    return pa.Table.from_pylist(rows), designs


def results(*args: Any, axes: Sequence[str] | None = None, kernels: Sequence[str] | None = None, **more: Any) -> Results:
    """The results of `tables(*args, **more)`."""
    rows, designs = tables(*args, **more)
    return results_of(rows, designs, model=more.get("model", "mdm"), axes=axes, kernels=kernels)


def chosen(keys: Mapping[str, Sequence[Any]], seconds: Mapping[str, Sequence[float]] | Sequence[float], **asked: Any) -> Selection:
    """A selection of all designs that have a performance; `seconds` of one kernel `k`, or by kernel."""
    by_kernel = seconds if isinstance(seconds, Mapping) else {"k": list(np.asarray(seconds, float))}
    return select(results(keys, by_kernel), **asked)
