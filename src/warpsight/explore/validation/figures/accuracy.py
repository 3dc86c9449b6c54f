"""Errors of models by kernel at one design: MDM, Figs. 5 and 15; GPUMech, Figs. 11 and 12."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.explore.validation.figures.base import About, Claim, Content, Number
from warpsight.explore.validation.figures.errors import (
    CPI,
    Judged,
    both,
    causes,
    compared,
    divergent,
    halves_table,
    judge,
    kernels_table,
    mape,
    not_divergent,
    said,
    worst,
)
from warpsight.explore.validation.points import Cast, Member, Point, Variant
from warpsight.explore.validation.results import Results

# Above this a bar is cut, so that the others can be seen.
_MOST_PERCENT = 200.0


@dataclass(frozen=True)
class Accuracy:
    """Bars of absolute errors, a group for each kernel.

    `judged` are the models whose largest error is explained; `numbers`, `claims` and `notes` are what is held against the paper.
    With `by_class` the kernels stand as in MDM's figures, else in the order of the last judged model's error.
    """

    about: About
    variant: Variant
    models: tuple[str, ...]
    judged: tuple[str, ...]
    measure: str
    numbers: Callable[[Sequence[Judged]], list[Number]]
    claims: Callable[[Sequence[Judged]], list[Claim]]
    notes: tuple[str, ...] = ()
    by_class: bool = True

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return both(cast.by_class(), [self.variant])

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        rows = judge(results, cast.by_class(), [self.variant], self.models, self.measure)
        numbers = self.numbers(rows)
        differences = [compared(number) for number in numbers]
        for model in self.judged:
            for test, where in ((divergent, " on the divergent kernels"), (not_divergent, " on the others")):
                some = [row for row in rows if test(row)]
                differences += [worst(some, model, where), causes(some, model, where)]
        return Content(
            panels=self._panels(rows),
            rows=[row.to_json() for row in rows],
            tables=[halves_table(rows, self.models), kernels_table(rows, self.models)],
            numbers=numbers,
            claims=self.claims(rows),
            differences=said(differences),
            notes=[*self.notes, _measure_note(self.measure)],
        )

    def _panels(self, rows: Sequence[Judged]) -> list[dict[str, Any]]:
        if not self.by_class:
            ordered = sorted(rows, key=lambda row: abs(row.error(self.judged[-1]) or 0.0))
            return [self._bars("all kernels, in order of the error of " + self.judged[-1], ordered)]
        parts = (("not memory-divergent", not_divergent), ("memory-divergent", divergent))
        return [self._bars(name, chosen) for name, test in parts if (chosen := [row for row in rows if test(row)])]

    def _bars(self, name: str, rows: Sequence[Judged]) -> dict[str, Any]:
        def height(row: Judged, model: str) -> float | None:
            error = row.error(model)
            return None if error is None else 100 * abs(error)

        return {
            "chart": "bars",
            "title": f"{self.measure} error by kernel: {name}",
            "axis": {"label": f"absolute {self.measure} error", "unit": "%", "most": _MOST_PERCENT},
            "groups": [*(row.member.name for row in rows), "mean"],
            "series": [
                {"name": model, "values": [*(height(row, model) for row in rows), mape(rows, model)]} for model in self.models
            ],
        }


def _measure_note(measure: str) -> str:
    if measure == CPI:
        return (
            "Errors are of CPI, as the paper says. In this measure a model that is too fast cannot be off by more than 100 %; the "
            "larger errors that the paper gives cannot be meant so."
        )
    return "Errors are of IPC (MDM, eq. 11): a model that is too fast by a factor of 4 is off by 300 %."


def members_of(cast: Cast, *, only_divergent: bool) -> tuple[Member, ...]:
    """The divergent kernels, or all."""
    return cast.divergent if only_divergent else cast.by_class()
