"""Errors of models against the simulator, by kernel and design, and the figures of them: most figures are one of these two kinds.

At one design (`Accuracy`): MDM, Figs. 5 and 15; GPUMech, Figs. 11 and 12. Over designs (`Sweep`): MDM, Figs. 6 to 9; GPUMech,
Figs. 13 to 15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from warpsight.jobs.fingerprint import PROFILE, SIMULATOR
from warpsight.papers.figures.base import About, Claim, Content, Number, Table
from warpsight.papers.results import Cast, Point, Results, Variant
from warpsight.pipeline.suites import SuiteKernel
from warpsight.result.prediction import Prediction, mean_absolute_percentage_error, relative_error, with_whole

IPC, CPI = "IPC", "CPI"


class KernelErrors(Protocol):
    """A row about one kernel of the suite, with errors by model."""

    @property
    def member(self) -> SuiteKernel:
        """The kernel."""

    def error(self, model: str) -> float | None:
        """Signed relative error; None where the model gave no answer."""


Row = TypeVar("Row", bound=KernelErrors)


@dataclass(frozen=True)
class Judged:
    """One kernel on one design: the simulator's document, and the models' predictions by name (None: refused).

    `measure` is IPC, as MDM's eq. 11 has it, or CPI, as GPUMech (section VI-A) has it: what is too fast by a factor of 4 is off
    by +300 % in IPC and by -75 % in CPI.
    """

    member: SuiteKernel
    variant: Variant
    reference: dict[str, Any]
    predictions: dict[str, Prediction | None]
    measure: str

    def error(self, model: str) -> float | None:
        """Signed relative error; None where the model gave no answer."""
        prediction = self.predictions.get(model)
        if prediction is None:
            return None
        if self.measure == IPC:
            return relative_error(prediction.ipc_gpu_warp, self.reference["ipc_gpu_warp"])
        return relative_error(prediction.cpi, self.reference["cpi"])

    def most_off(self, model: str) -> tuple[str, float, float] | None:
        """The CPI component in which model and simulator differ most: its name, the model's cycles, the simulator's."""
        prediction = self.predictions.get(model)
        if prediction is None:
            return None
        theirs = self.reference["cpi_stack"]
        ours = with_whole(prediction.cpi_stack, theirs)
        name = max(ours, key=lambda component: abs(ours[component] - theirs.get(component, 0.0)))
        return name, ours[name], theirs.get(name, 0.0)

    def to_json(self, *, stacks: bool = True) -> dict[str, Any]:
        """Its row of data, with the CPI `stacks` or with the component alone in which a model differs most."""
        models = {model: self._model(model, stacks) for model in self.predictions}
        reference = {name: self.reference[name] for name in ("cycles", "ipc_gpu_warp", "cpi", "dpki", "warps_per_sm")}
        if stacks:
            reference["cpi_stack"] = _nonzero(self.reference["cpi_stack"])
        head = {"kernel": self.member.name, "class": self.member.expected_class, "holdout": self.member.holdout}
        return {**head, "design": self.variant.label, "measure": self.measure, "simulator": reference, "models": models}

    def _model(self, model: str, stacks: bool) -> dict[str, Any] | None:
        prediction, most_off = self.predictions[model], self.most_off(model)
        if prediction is None or most_off is None:
            return None
        more = {"cpi_stack": _nonzero(prediction.cpi_stack)} if stacks else {"most_off": most_off[0]}
        return {"error": self.error(model), "ipc_gpu_warp": prediction.ipc_gpu_warp, "cpi": prediction.cpi, **more}


def _nonzero(stack: dict[str, float]) -> dict[str, float]:
    """The components that are not zero."""
    return {name: value for name, value in stack.items() if value}


def both(members: Sequence[SuiteKernel], variants: Sequence[Variant]) -> list[Point]:
    """The simulator's point and the profile's for each kernel on each design."""
    return [Point(kind, member.name, variant) for member in members for variant in variants for kind in (SIMULATOR, PROFILE)]


def judge(
    results: Results, members: Sequence[SuiteKernel], variants: Sequence[Variant], models: Sequence[str], measure: str
) -> list[Judged]:
    """A row for each kernel and design that the simulator has and a profile is there for."""
    rows = []
    for variant in variants:
        for member in members:
            reference = results.simulator(member.name, variant)
            if reference is None:
                continue
            predictions = {model: results.prediction(member.name, variant, model) for model in models}
            if any(prediction is not None for prediction in predictions.values()):
                rows.append(Judged(member, variant, reference, predictions, measure))
    return rows


def divergent(rows: Sequence[Row]) -> list[Row]:
    """Rows of memory-divergent kernels."""
    return [row for row in rows if row.member.divergent]


def not_divergent(rows: Sequence[Row]) -> list[Row]:
    """Rows of the others."""
    return [row for row in rows if not row.member.divergent]


def errors_of(rows: Sequence[KernelErrors], model: str) -> list[float]:
    """Signed errors of a model."""
    return [error for row in rows if (error := row.error(model)) is not None]


def mape(rows: Sequence[KernelErrors], model: str) -> float | None:
    """Mean absolute error of a model in per cent; None where there is nothing to take the mean of."""
    errors = errors_of(rows, model)
    return mean_absolute_percentage_error(errors) if errors else None


def largest(rows: Sequence[KernelErrors], model: str) -> float | None:
    """The largest absolute error in per cent."""
    return max((100 * abs(error) for error in errors_of(rows, model)), default=None)


def error_bars(title: str, axis: dict[str, Any], rows: Sequence[KernelErrors], models: Mapping[str, str]) -> dict[str, Any]:
    """A chart of absolute errors in per cent, a group for each kernel and their mean; `models` are called by their values."""
    series = []
    for model, name in models.items():
        errors = [row.error(model) for row in rows]
        values = [*(None if error is None else 100 * abs(error) for error in errors), mape(rows, model)]
        series.append({"name": name, "values": values})
    return {"chart": "bars", "title": title, "axis": axis, "groups": [*(row.member.name for row in rows), "mean"], "series": series}


def halves_table(rows: Sequence[KernelErrors], models: Mapping[str, str], of: str, scope: str = "") -> Table:
    """Mean absolute errors `of` something on the kernels that may be looked at, on those set aside, and on all, in `scope`."""
    halves = (
        ("development", [row for row in rows if not row.member.holdout]),
        ("set aside (holdout)", [row for row in rows if row.member.holdout]),
        ("all", rows),
    )
    lines = [[name, len({row.member.name for row in half}), *(mape(half, model) for model in models)] for name, half in halves]
    return Table(f"Mean absolute {of} by half of the suite{scope}, %", ["half", "kernels", *models.values()], lines)


def kernels_table(rows: Sequence[Judged], models: Sequence[str]) -> Table:
    """Signed errors of each kernel on one design."""
    measure = rows[0].measure if rows else IPC
    lines = [
        [
            row.member.name,
            "MD" if row.member.divergent else "NMD",
            "yes" if row.member.holdout else "",
            row.reference["ipc_gpu_warp" if measure == IPC else "cpi"],
            *(None if (error := row.error(model)) is None else 100 * error for model in models),
        ]
        for row in rows
    ]
    unit = "IPC (warp, GPU)" if measure == IPC else "CPI (warp, SM)"
    return Table(f"Signed {measure} error, %", ["kernel", "class", "holdout", f"simulator's {unit}", *models], lines)


def compared(number: Number) -> str:
    """A sentence on our number beside the paper's; nothing where one of them is missing."""
    if number.paper is None or number.ours is None:
        return ""
    difference, unit = number.ours - number.paper, "points" if number.unit == "%" else number.unit
    tail = f" {number.unit}" if number.unit else ""
    way = "more" if difference > 0 else "less"
    text = f"{number.what}: {_short(number.ours)}{tail} here, {_short(number.paper)}{tail} in the paper"
    if abs(difference) < 0.05 * abs(number.paper):
        return f"{text}, within a twentieth of it."
    return f"{text}, {_short(abs(difference))} {unit} {way}.".replace("  ", " ")


def worst(rows: Sequence[Judged], model: str, where: str = "") -> str:
    """A sentence on the kernel with the largest error, and the CPI component that is behind it."""
    known = [row for row in rows if row.error(model) is not None]
    if not known:
        return ""
    row = max(known, key=lambda each: abs(each.error(model) or 0.0))
    most_off, error = row.most_off(model), row.error(model)
    assert most_off is not None and error is not None
    name, ours, theirs = most_off
    place = f" at {row.variant.label}" if row.variant.label else ""
    sentence = (
        f"`{model}`{where} is farthest off on `{row.member.name}`{place}: {100 * error:+.0f} % in {row.measure}. There model and "
        f"simulator differ most in `{name}`: {_short(ours)} against {_short(theirs)} cycles of CPI, of "
        f"{_short(row.reference['cpi'])} in all."
    )
    mean, whole = mape([each for each in known if each is not row], model), mape(known, model)
    if mean is None or whole is None:
        return sentence
    return f"{sentence} Without it the mean is {_short(mean)} %, with it {_short(whole)} %."


def causes(rows: Sequence[Judged], model: str, where: str = "") -> str:
    """A sentence on the CPI components that are behind a model's errors: for how many rows each is the one that differs most."""
    groups: dict[str, list[Judged]] = {}
    for row in rows:
        if (most_off := row.most_off(model)) is not None:
            groups.setdefault(most_off[0], []).append(row)
    parts = []
    for name, some in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        has = any((prediction := row.predictions[model]) is not None and prediction.cpi_stack.get(name) for row in rows)
        none = "" if has else ", and the model gives none of it"
        parts.append(f"`{name}` {len(some)} (mean error {_short(mape(some, model) or 0.0)} %{none})")
    if not parts:
        return ""
    return f"`{model}`{where} by the component in which it differs most from the simulator: {'; '.join(parts)}."


def nonempty(sentences: Iterable[str]) -> list[str]:
    """The sentences that are not empty."""
    return [sentence for sentence in sentences if sentence]


def _short(number: float) -> str:
    """Three significant digits without an exponent, thousands separated."""
    if number == 0:
        return "0"
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) < 10 else f"{number:.1f}"


# Above this a bar is cut, so that the others can be seen.
_MOST_PERCENT = 200.0


@dataclass(frozen=True)
class Accuracy:
    """Bars of absolute errors, a group for each kernel.

    `explained` are the models whose largest error is explained; `numbers`, `claims` and `notes` compare with the paper.
    With `by_class` the kernels stand as in MDM's figures, else in the order of the last explained model's error.
    """

    about: About
    variant: Variant
    models: tuple[str, ...]
    explained: tuple[str, ...]
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
        for model in self.explained:
            for some, where in ((divergent(rows), " on the divergent kernels"), (not_divergent(rows), " on the others")):
                differences += [worst(some, model, where), causes(some, model, where)]
        return Content(
            panels=self._panels(rows),
            rows=[row.to_json() for row in rows],
            tables=[halves_table(rows, _by_name(self.models), f"{self.measure} error"), kernels_table(rows, self.models)],
            numbers=numbers,
            claims=self.claims(rows),
            differences=nonempty(differences),
            notes=[*self.notes, _MEASURE_NOTES[self.measure]],
        )

    def _panels(self, rows: Sequence[Judged]) -> list[dict[str, Any]]:
        last = self.explained[-1]
        if self.by_class:
            groups = {"not memory-divergent": not_divergent(rows), "memory-divergent": divergent(rows)}
        else:
            ordered = sorted(rows, key=lambda row: abs(row.error(last) or 0.0))
            groups = {f"all kernels, in order of the error of {last}": ordered}
        axis = {"label": f"absolute {self.measure} error", "unit": "%", "most": _MOST_PERCENT}
        return [
            error_bars(f"{self.measure} error by kernel: {name}", axis, group, _by_name(self.models))
            for name, group in groups.items()
            if group or not self.by_class
        ]


def _by_name(models: Sequence[str]) -> dict[str, str]:
    """Models that are called by their own names."""
    return {model: model for model in models}


_MEASURE_NOTES = {
    CPI: "Errors are of CPI, as the paper says. In this measure a model that is too fast cannot be off by more than 100 %; the "
    "larger errors that the paper gives cannot be meant so.",
    IPC: "Errors are of IPC (MDM, eq. 11): a model that is too fast by a factor of 4 is off by 300 %.",
}


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
    """Curves of the mean absolute error of `models` over `steps` of `parameter` (in `unit`).

    `numbers` compare with those of the paper's text; None: it gives none.
    """

    about: About
    parameter: str
    unit: str
    steps: tuple[Step, ...]
    models: tuple[str, ...]
    explained: tuple[str, ...]
    measure: str
    only_divergent: bool
    numbers: Callable[[Sequence[float], Curves], list[Number]] | None
    claims: Callable[[Sequence[float], Curves], list[Claim]]
    notes: tuple[str, ...] = ()

    def variants(self) -> list[Variant]:
        """The designs, in the order of the steps."""
        tail = f" {self.unit}" if self.unit else ""
        return [Variant(self.about.gpu, step.overrides, f"{step.value:g}{tail}") for step in self.steps]

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return both(self._members(cast), self.variants())

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        variants = self.variants()
        rows = judge(results, self._members(cast), variants, self.models, self.measure)
        by_step = [[row for row in rows if row.variant == variant] for variant in variants]
        curves: Curves = {model: [mape(some, model) for some in by_step] for model in self.models}
        values = [step.value for step in self.steps]
        numbers = self.numbers(values, curves) if self.numbers is not None else []
        differences = [compared(number) for number in numbers]
        differences += [worst(by_step[end], model) for model in self.explained for end in (0, -1)]
        differences += [causes(by_step[end], model, f" at {variants[end].label}") for model in self.explained for end in (0, -1)]
        halves = halves_table(rows, _by_name(self.models), f"{self.measure} error", ", all values together")
        return Content(
            panels=[self._panel(values, curves)],
            rows=[row.to_json(stacks=False) for row in rows],
            tables=[self._table(values, by_step, curves), halves],
            numbers=numbers,
            claims=self.claims(values, curves),
            differences=nonempty(differences),
            notes=list(self.notes),
        )

    def _members(self, cast: Cast) -> tuple[SuiteKernel, ...]:
        return cast.divergent if self.only_divergent else cast.by_class()

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
            [value, len(some), *(curve[index] for curve in curves.values())]
            for index, (value, some) in enumerate(zip(values, by_step, strict=True))
        ]
        return Table(f"Mean absolute {self.measure} error, %", [heading, "kernels", *curves], lines)


def error_at(values: Sequence[float], curve: Sequence[float | None], value: float) -> float | None:
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
