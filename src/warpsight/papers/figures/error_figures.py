"""Figures of models' errors: by kernel at one design, and their means over a range of designs.

At one design: MDM, Figs. 5 and 15; GPUMech, Figs. 11 and 12. Over designs: MDM, Figs. 6 to 9; GPUMech, Figs. 13 to 15.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.papers.figures.base import About, Claim, Content, Number, Table
from warpsight.papers.figures.errors import (
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
from warpsight.papers.results import Cast, Member, Point, Results, Variant

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


# -- Mean errors over a range of designs: MDM, Figs. 6 to 9; GPUMech, Figs. 13 to 15.

# Mean absolute error in per cent by model and value; None where no kernel has one.
Curves = dict[str, list[float | None]]


@dataclass(frozen=True)
class Step:
    """One value of the parameter, and the overrides that set it."""

    value: float
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """Curves of the mean absolute error of `models` over `steps` of `parameter` (in `unit`, of the GPU key `key`)."""

    about: About
    parameter: str
    unit: str
    steps: tuple[Step, ...]
    models: tuple[str, ...]
    judged: tuple[str, ...]
    measure: str
    only_divergent: bool
    numbers: Callable[[Sequence[float], Curves], list[Number]]
    claims: Callable[[Sequence[float], Curves], list[Claim]]
    notes: tuple[str, ...] = ()

    def variants(self) -> list[Variant]:
        """The designs, in the order of the steps."""
        tail = f" {self.unit}" if self.unit else ""
        return [Variant(self.about.gpu, step.overrides, f"{step.value:g}{tail}") for step in self.steps]

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return both(members_of(cast, only_divergent=self.only_divergent), self.variants())

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        members, variants = members_of(cast, only_divergent=self.only_divergent), self.variants()
        rows = judge(results, members, variants, self.models, self.measure)
        by_step = [[row for row in rows if row.variant == variant] for variant in variants]
        curves: Curves = {model: [mape(some, model) for some in by_step] for model in self.models}
        values = [step.value for step in self.steps]
        numbers = self.numbers(values, curves)
        differences = [compared(number) for number in numbers]
        differences += [worst(some, model) for model in self.judged for some in (by_step[0], by_step[-1])]
        ends = tuple(f" at {variant.label}" for variant in (variants[0], variants[-1]))
        differences += [
            causes(some, model, end) for model in self.judged for some, end in zip((by_step[0], by_step[-1]), ends, strict=True)
        ]
        return Content(
            panels=[self._panel(values, curves)],
            rows=[row.to_json(stacks=False) for row in rows],
            tables=[self._table(values, by_step, curves), halves_table(rows, self.models, ", all values together")],
            numbers=numbers,
            claims=self.claims(values, curves),
            differences=said(differences),
            notes=list(self.notes),
        )

    def _panel(self, values: list[float], curves: Curves) -> dict[str, Any]:
        which = "divergent kernels" if self.only_divergent else "all kernels"
        return {
            "chart": "lines",
            "title": f"Mean absolute {self.measure} error over {self.parameter}: {which}",
            "x": {"label": self.parameter, "unit": self.unit},
            "y": {"label": f"mean absolute {self.measure} error", "unit": "%"},
            "xs": values,
            "even": True,
            "series": [{"name": model, "values": curve} for model, curve in curves.items()],
        }

    def _table(self, values: list[float], by_step: list[list[Judged]], curves: Curves) -> Table:
        heading = f"{self.parameter}, {self.unit}" if self.unit else self.parameter
        lines = [
            [value, len(some), *(curve[place] for curve in curves.values())]
            for place, (value, some) in enumerate(zip(values, by_step, strict=True))
        ]
        return Table(f"Mean absolute {self.measure} error, %", [heading, "kernels", *curves], lines)


def at(values: Sequence[float], curve: Sequence[float | None], value: float) -> float | None:
    """The curve's error at a value; None where the sweep has none."""
    return curve[list(values).index(value)] if value in values else None


def trend(says: str, where: str, values: Sequence[float], curve: Sequence[float | None], *, rises: bool) -> Claim:
    """The error at the last value is above (or below) that at the first."""
    first, last = curve[0], curve[-1]
    if first is None or last is None:
        return Claim(says, where, None, "no kernel has both ends")
    return Claim(says, where, (last > first) == rises, f"{first:.1f} % at {values[0]:g}, {last:.1f} % at {values[-1]:g}")


def lowest(says: str, where: str, values: Sequence[float], curves: Curves, model: str, against: Sequence[str]) -> Claim:
    """At every value the model's error is the smallest of those compared."""
    pairs = [(value, curves[model][k], [curves[other][k] for other in against]) for k, value in enumerate(values)]
    known = [(value, own, [o for o in others if o is not None]) for value, own, others in pairs if own is not None]
    if not known:
        return Claim(says, where, None, "no kernel has an error")
    lost = [f"{value:g}" for value, own, others in known if others and own > min(others)]
    ours = "at every value" if not lost else f"not at {', '.join(lost)}"
    return Claim(says, where, not lost, ours)
