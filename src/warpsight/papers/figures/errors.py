"""Errors of models against the simulator, by kernel and design: what most of the figures are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.jobs.fingerprint import PROFILE, SIMULATOR
from warpsight.papers.figures.base import Number, Table, halves
from warpsight.papers.results import Member, Point, Results, Variant
from warpsight.result.prediction import Prediction, mean_absolute_percentage_error, relative_error

IPC, CPI = "IPC", "CPI"
Chosen = Callable[["Judged"], bool]


@dataclass(frozen=True)
class Judged:
    """One kernel on one design: the simulator's document, and the models' answers by name (None: refused).

    `measure` is IPC, as MDM's eq. 11 has it, or CPI, as GPUMech (section VI-A) has it: what is too fast by a factor of 4 is off
    by +300 % in IPC and by -75 % in CPI.
    """

    member: Member
    variant: Variant
    reference: dict[str, Any]
    answers: dict[str, Prediction | None]
    measure: str

    def error(self, model: str, measure: str = "") -> float | None:
        """Signed relative error; None where the model gave no answer."""
        answer = self.answers.get(model)
        if answer is None:
            return None
        if (measure or self.measure) == IPC:
            return relative_error(answer.ipc_gpu_warp, self.reference["ipc_gpu_warp"])
        return relative_error(answer.cpi, self.reference["cpi"])

    def most_off(self, model: str) -> tuple[str, float, float] | None:
        """The CPI component in which model and simulator differ most: its name, the model's cycles, the simulator's."""
        answer = self.answers.get(model)
        if answer is None:
            return None
        ours, theirs = answer.cpi_stack, self.reference["cpi_stack"]
        name = max(ours, key=lambda component: abs(ours[component] - theirs.get(component, 0.0)))
        return name, ours[name], theirs.get(name, 0.0)

    def to_json(self, *, stacks: bool = True) -> dict[str, Any]:
        """Its row of data, with the CPI `stacks` or with the component alone in which a model differs most."""
        models = {model: self._answer(model, stacks) for model in self.answers}
        reference = {name: self.reference[name] for name in ("cycles", "ipc_gpu_warp", "cpi", "dpki", "warps_per_sm")}
        if stacks:
            reference["cpi_stack"] = _there(self.reference["cpi_stack"])
        head = {"kernel": self.member.name, "class": self.member.memory_class, "holdout": self.member.holdout}
        return {**head, "design": self.variant.label, "measure": self.measure, "simulator": reference, "models": models}

    def _answer(self, model: str, stacks: bool) -> dict[str, Any] | None:
        answer, most_off = self.answers[model], self.most_off(model)
        if answer is None or most_off is None:
            return None
        more = {"cpi_stack": _there(answer.cpi_stack)} if stacks else {"most_off": most_off[0]}
        return {"error": self.error(model), "ipc_gpu_warp": answer.ipc_gpu_warp, "cpi": answer.cpi, **more}


def _there(stack: dict[str, float]) -> dict[str, float]:
    """The components that are not zero."""
    return {name: value for name, value in stack.items() if value}


def both(members: Sequence[Member], variants: Sequence[Variant]) -> list[Point]:
    """The simulator's point and the profile's for each kernel on each design."""
    return [Point(what, member.name, variant) for member in members for variant in variants for what in (SIMULATOR, PROFILE)]


def judge(
    results: Results, members: Sequence[Member], variants: Sequence[Variant], models: Sequence[str], measure: str
) -> list[Judged]:
    """A row for each kernel and design that the simulator has and a profile is there for."""
    rows = []
    for variant in variants:
        for member in members:
            reference = results.simulator(member.name, variant)
            if reference is None:
                continue
            answers = {model: results.prediction(member.name, variant, model) for model in models}
            if any(answer is not None for answer in answers.values()):
                rows.append(Judged(member, variant, reference, answers, measure))
    return rows


def everything(row: Judged) -> bool:
    """All rows."""
    return True


def divergent(row: Judged) -> bool:
    """Rows of memory-divergent kernels."""
    return row.member.divergent


def not_divergent(row: Judged) -> bool:
    """Rows of the others."""
    return not row.member.divergent


def errors_of(rows: Sequence[Judged], model: str, chosen: Chosen = everything, measure: str = "") -> list[float]:
    """Signed errors of a model."""
    found = [row.error(model, measure) for row in rows if chosen(row)]
    return [error for error in found if error is not None]


def mape(rows: Sequence[Judged], model: str, chosen: Chosen = everything, measure: str = "") -> float | None:
    """Mean absolute error of a model in per cent; None where there is nothing to take the mean of."""
    errors = errors_of(rows, model, chosen, measure)
    return mean_absolute_percentage_error(errors) if errors else None


def largest(rows: Sequence[Judged], model: str, chosen: Chosen = everything) -> float | None:
    """The largest absolute error in per cent."""
    return max((100 * abs(error) for error in errors_of(rows, model, chosen)), default=None)


def halves_table(rows: Sequence[Judged], models: Sequence[str], of: str = "") -> Table:
    """Mean absolute errors on the kernels that may be looked at and on those set aside, side by side; `of` ends the title."""
    lines = [
        [name, len({row.member.name for row in some}), *(mape(some, model) for model in models)] for name, some in halves(rows)
    ]
    measure = rows[0].measure if rows else IPC
    return Table(f"Mean absolute {measure} error by half of the suite{of}, %", ["half", "kernels", *models], lines)


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
    found, error = row.most_off(model), row.error(model)
    assert found is not None and error is not None
    name, ours, theirs = found
    place = f" at {row.variant.label}" if row.variant.label else ""
    return (
        f"`{model}`{where} is farthest off on `{row.member.name}`{place}: {100 * error:+.0f} % in {row.measure}. There model and "
        f"simulator differ most in `{name}`: {_short(ours)} against {_short(theirs)} cycles of CPI, of "
        f"{_short(row.reference['cpi'])} in all.{_without(known, row, model)}"
    )


def _without(rows: Sequence[Judged], row: Judged, model: str) -> str:
    """How much of the mean is that one kernel's."""
    rest = [each for each in rows if each is not row]
    mean, whole = mape(rest, model), mape(rows, model)
    return "" if mean is None or whole is None else f" Without it the mean is {_short(mean)} %, with it {_short(whole)} %."


def causes(rows: Sequence[Judged], model: str, where: str = "") -> str:
    """A sentence on the CPI components that are behind a model's errors: for how many rows each is the one that differs most."""
    groups: dict[str, list[Judged]] = {}
    for row in rows:
        found = row.most_off(model)
        if found is not None:
            groups.setdefault(found[0], []).append(row)
    parts = []
    for name, some in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        has = any((answer := row.answers[model]) is not None and answer.cpi_stack.get(name) for row in rows)
        none = "" if has else ", and the model gives none of it"
        parts.append(f"`{name}` {len(some)} (mean error {_short(mape(some, model) or 0.0)} %{none})")
    if not parts:
        return ""
    return f"`{model}`{where} by the component in which it differs most from the simulator: {'; '.join(parts)}."


def said(sentences: Sequence[str]) -> list[str]:
    """Those that say something."""
    return [sentence for sentence in sentences if sentence]


def _short(number: float) -> str:
    """Three significant digits without an exponent, thousands separated."""
    if number == 0:
        return "0"
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) < 10 else f"{number:.1f}"
