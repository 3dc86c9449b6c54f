"""The designs that an answer is about: those with a performance on which every constraint holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError, suggestion
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.rows import WORDS
from warpsight.sweeps.answers.results import GEOMEAN, Performance, Results, performance
from warpsight.sweeps.expressions import Expression
from warpsight.sweeps.names import DESIGN

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Term:
    """An expression with the text that it was read from, which messages and documents quote."""

    text: str
    formula: Expression


def check_names(term: Term, known: Collection[str], role: str) -> None:
    """Raises UsageError where the term names something that is not `known`. `role` is what the term is: constraint, cost."""
    unknown = sorted(name for name in term.formula.names if name not in known)
    if unknown:
        near = suggestion(unknown[0], known)
        raise UsageError(f'"{unknown[0]}" is not a column of the results{near}', place=f'{role} "{term.text}"',
                         remedy=f"it may use {', '.join(sorted(known))}")  # fmt: skip


def truth(term: Term, columns: Columns, size: int) -> NDArray[np.bool_]:
    """Whether the term holds on each row, (size,). Raises UsageError for a value that is neither true nor false."""
    with np.errstate(all="ignore"):
        value = np.asarray(term.formula.evaluate(columns))
    if value.dtype != np.bool_:
        raise UsageError("a constraint must be true or false, and this is a number", place=f'constraint "{term.text}"',
                         remedy="compare it with something, as in sm_count <= 40")  # fmt: skip
    return np.broadcast_to(value, (size,))


def figures(term: Term, columns: Columns, designs: NDArray[np.int64], role: str) -> NDArray[np.float64]:
    """The term's value on each design, (n,), all of them finite.

    Raises UsageError, which names the first design, where one is not finite, and for a value that is no number.
    """
    with np.errstate(all="ignore"):
        value = np.asarray(term.formula.evaluate(columns))
    if value.dtype == np.bool_ or not np.issubdtype(value.dtype, np.number):
        raise UsageError(f"a {role} must be a number", place=f'{role} "{term.text}"',
                         remedy="write an expression such as sm_count * 2")  # fmt: skip
    numbers = np.broadcast_to(value.astype(np.float64), designs.shape)
    invalid = np.flatnonzero(~np.isfinite(numbers))
    if invalid.size:
        raise UsageError(f"is {numbers[invalid[0]]} on design {designs[invalid[0]]} and on {invalid.size - 1} more",
                         place=f'{role} "{term.text}"', remedy="leave these designs out with a constraint")  # fmt: skip
    return numbers


PERFORMANCE, TOTAL_SECONDS = "performance", "total_seconds"
# what an expression may name besides keys: a cost the first; a constraint also the columns of results, where `class` is renamed
COST_NUMBERS = (DESIGN, PERFORMANCE, TOTAL_SECONDS)
_COLUMNS = {"memory_class": "class"}
CONDITION_WORDS = tuple("memory_class" if name == "class" else name for name in WORDS)


@dataclass(frozen=True)
class Selection:
    """`positions` are the places of the chosen designs in `results`, (n,), ascending, at least one; `where` are the constraints.

    `gpu` names the GPUs that the designs are changes of, for people.
    """

    results: Results
    performance: Performance
    where: tuple[str, ...]
    positions: NDArray[np.int64]
    gpu: str = ""

    @property
    def designs(self) -> NDArray[np.int64]:
        """The chosen designs' numbers, (n,)."""
        return self.results.designs[self.positions]

    @property
    def values(self) -> NDArray[np.float64]:
        """Their performance, (n,)."""
        return self.performance.values[self.positions]

    def columns(self) -> dict[str, NDArray[Any]]:
        """What a cost may name, of the chosen designs: every key, `design`, `performance` and `total_seconds` (of all kernels)."""
        return {name: each[self.positions] for name, each in _shared(self.results, self.performance).items()}

    def head(self, answer: str) -> dict[str, Any]:
        """The first keys of every answer: the question, its designs, and how many were left out."""
        results, chosen = self.results, self.performance
        left = chosen.left_out
        return {
            "tool": TOOL,
            "answer": answer,
            "gpu": self.gpu,
            "model": results.model,
            "metric": chosen.metric,
            "kernels": [results.kernels[k] for k in chosen.kernels],
            "baseline": results.described(results.position(chosen.baseline)),
            "designs": len(results.designs),
            "left_out": left,
            "where": list(self.where),
            "excluded": len(results.designs) - left["designs"] - len(self.positions),
            "chosen": len(self.positions),
        }


def select(results: Results, *, metric: str = GEOMEAN, baseline: int | None = None, where: Sequence[Term] = ()) -> Selection:
    """The designs with a performance by that metric (see `performance`) on which every term of `where` holds.

    A term may name what `Selection.columns` has, and columns of results (`seconds`, `cpi_stack.dram`, `bound_by`; the class is
    `memory_class`); one with columns of results must hold for every kernel that counts. Each term sees the designs on which those
    before it hold. The baseline need not be among the chosen. Raises UsageError as `performance` does, for a term that names
    something else or is no condition, and where no design is left.
    """
    measured = performance(results, metric, baseline)
    chosen = np.isfinite(measured.values)
    shared = _shared(results, measured)
    for term in where:
        check_names(term, {*shared, *COST_NUMBERS, *results.names, *CONDITION_WORDS}, "constraint")
        chosen[chosen] = _holds(term, results, measured, shared, chosen)
    positions = np.flatnonzero(chosen)
    if not positions.size:
        left = measured.left_out["designs"]
        what = f"none of {len(results.designs)} designs remains: {left} without a result, {len(results.designs) - left} excluded"
        raise UsageError(what, place="results", remedy="loosen a constraint, or check why designs failed")
    return Selection(results, measured, tuple(term.text for term in where), positions)


def _shared(results: Results, measured: Performance) -> dict[str, NDArray[Any]]:
    """Columns that all kernels of a design have in common. A key has precedence over a column with its name."""
    numbers = results.designs.astype(np.float64)
    return {DESIGN: numbers, PERFORMANCE: measured.values, TOTAL_SECONDS: measured.seconds, **results.keys}


def _holds(
    term: Term, results: Results, measured: Performance, shared: Mapping[str, NDArray[Any]], among: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether the term holds on each design of `among`: those left out have no numbers to be judged by."""
    size = int(among.sum())
    # with the numbers of the designs, so that an expression can say where it fails
    common = {name: shared[name][among] for name in {DESIGN, *term.formula.names} if name in shared}
    own = sorted(name for name in term.formula.names if name not in shared)
    if not own:
        return truth(term, common, size)
    matrices = {name: results.words(_COLUMNS.get(name, name)) if name in CONDITION_WORDS else results.figures(name) for name in own}
    holds = np.ones(size, np.bool_)
    for kernel in measured.kernels:
        holds &= truth(term, {**common, **{name: each[kernel][among] for name, each in matrices.items()}}, size)
    return holds
