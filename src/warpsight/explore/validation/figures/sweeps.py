"""Mean errors over a range of designs: MDM, Figs. 6 to 9; GPUMech, Figs. 13 to 15."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.explore.validation.figures.accuracy import members_of
from warpsight.explore.validation.figures.base import About, Claim, Content, Number, Table
from warpsight.explore.validation.figures.errors import (
    Judged,
    both,
    causes,
    compared,
    halves_table,
    judge,
    mape,
    said,
    worst,
)
from warpsight.explore.validation.points import Cast, Point, Variant
from warpsight.explore.validation.results import Results

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
