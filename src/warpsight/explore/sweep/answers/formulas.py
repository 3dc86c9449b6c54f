"""What answers ask of an expression: the names in it, and its value on columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError, suggestion

Columns = Mapping[str, NDArray[Any]]


class Formula(Protocol):
    """A parsed expression. It is not changed, and the same columns always give the same values."""

    @property
    def names(self) -> Collection[str]:
        """The columns that it needs."""

    def evaluate(self, columns: Columns) -> NDArray[Any]:
        """Its value on each row. Columns are arrays of one length, (n,), of float64 or text; so is the result, or one value."""


@dataclass(frozen=True)
class Term:
    """An expression with the text that it was read from, which messages and documents quote."""

    text: str
    formula: Formula


def check_names(term: Term, known: Collection[str], role: str) -> None:
    """Raises UsageError where the term names something that is not `known`. `role` is what the term is: constraint, cost."""
    unknown = sorted(name for name in term.formula.names if name not in known)
    if unknown:
        near = suggestion(unknown[0], known)
        raise UsageError(f'"{unknown[0]}" is no column of the results{near}', place=f'{role} "{term.text}"',
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
    found = np.broadcast_to(value.astype(np.float64), designs.shape)
    wrong = np.flatnonzero(~np.isfinite(found))
    if wrong.size:
        raise UsageError(f"is {found[wrong[0]]} on design {designs[wrong[0]]} and on {wrong.size - 1} more",
                         place=f'{role} "{term.text}"', remedy="leave these designs out with a constraint")  # fmt: skip
    return found
