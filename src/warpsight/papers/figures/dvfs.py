"""Time at a lower clock: MDM (MICRO 2020), Fig. 13."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.gpu.loader import load_gpu
from warpsight.models.crisp import TARGET_CLOCK
from warpsight.papers.figures.base import MDM, About, Claim, Content, Figure, Number, Table, halves
from warpsight.papers.figures.errors import both, compared, said
from warpsight.papers.results import Cast, Member, Point, Results, Variant
from warpsight.result.prediction import mean_absolute_percentage_error, relative_error

FAST_GHZ, SLOW_GHZ = 2.0, 1.4
# L2 and DRAM have clocks of their own: what takes 120 and 220 cycles at 1.4 GHz takes as many seconds, so more cycles, at 2 GHz.
FAST = ("core_clock=2GHz", "l2.latency=171cycles", "dram.latency=314cycles")
_MODELS = ("gpumech", "crisp", "mdm", "warpsight")
_JUDGED = ("gpumech", "crisp", "mdm")


@dataclass(frozen=True)
class Slowed:
    """One kernel's time at 1.4 GHz over that at 2 GHz, by the simulator and by each model (None: no answer)."""

    member: Member
    simulator: float
    models: dict[str, float | None]

    def error(self, model: str) -> float | None:
        """Signed relative error of a model's ratio."""
        ratio = self.models[model]
        return None if ratio is None else relative_error(ratio, self.simulator)


@dataclass(frozen=True)
class Dvfs:
    """Bars of the errors of the predicted ratio, for the divergent kernels."""

    about: About

    def _fast(self) -> Variant:
        return Variant(self.about.gpu, FAST, "2 GHz")

    def _slow(self) -> Variant:
        return Variant(self.about.gpu, (), "1.4 GHz")

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return both(cast.divergent, [self._fast(), self._slow()])

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        rows = self._rows(cast, results)
        numbers = [
            Number(f"{model}, mean", "%", paper, _mean(rows, model), "section VII, Fig. 13" if paper else "")
            for model, paper in (("crisp", 3.7), ("mdm", 4.6), ("gpumech", 28.0), ("warpsight", None))
        ]
        differences = [*(compared(number) for number in numbers), *(_worst(rows, model) for model in _JUDGED)]
        return Content(
            panels=[self._panel(rows)] if rows else [],
            rows=[{"kernel": row.member.name, "holdout": row.member.holdout, "simulator_ratio": row.simulator, "ratios": row.models,
                   "errors": {model: row.error(model) for model in _MODELS}} for row in rows],
            tables=[_halves(rows), _table(rows)],
            numbers=numbers,
            claims=_claims(rows),
            differences=said(differences),
            notes=[
                f"The design at 2 GHz is the baseline with {', '.join(f'`{each}`' for each in FAST)}: L2 and DRAM take the same "
                "time in seconds at both clocks. Bandwidths are the same in bytes a second.",
                "In the paper CRISP measures its stall components at 2 GHz. `crisp` has no counters: its components are what "
                "GPUMech's equations give there, so it misses what they miss. See docs/explanation/crisp.md.",
            ],
        )  # fmt: skip

    def _rows(self, cast: Cast, results: Results) -> list[Slowed]:
        fast, slow, rows = self._fast(), self._slow(), []
        # CRISP predicts from the higher clock for a lower one
        crisp = load_gpu(self.about.gpu, overrides=(*FAST, f"{TARGET_CLOCK.name}={SLOW_GHZ}GHz"))
        for member in cast.divergent:
            times = [results.simulator(member.name, variant) for variant in (slow, fast)]
            if times[0] is None or times[1] is None:
                continue
            ratios: dict[str, float | None] = {}
            for model in _MODELS:
                at_fast = results.prediction(member.name, fast, model)
                at_slow = (
                    results.prediction(member.name, fast, model, gpu=crisp)
                    if model == "crisp"
                    else results.prediction(member.name, slow, model)
                )
                ratios[model] = at_slow.seconds / at_fast.seconds if at_slow and at_fast else None
            rows.append(Slowed(member, times[0]["seconds"] / times[1]["seconds"], ratios))
        return rows

    def _panel(self, rows: Sequence[Slowed]) -> dict[str, Any]:
        def height(row: Slowed, model: str) -> float | None:
            error = row.error(model)
            return None if error is None else 100 * abs(error)

        return {
            "chart": "bars",
            "title": "Error of the time at 1.4 GHz relative to that at 2 GHz: memory-divergent",
            "axis": {"label": "absolute error of the ratio", "unit": "%"},
            "groups": [*(row.member.name for row in rows), "mean"],
            "series": [{"name": model, "values": [*(height(row, model) for row in rows), _mean(rows, model)]} for model in _MODELS],
        }


def _mean(rows: Sequence[Slowed], model: str) -> float | None:
    errors = [error for row in rows if (error := row.error(model)) is not None]
    return mean_absolute_percentage_error(errors) if errors else None


def _claims(rows: Sequence[Slowed]) -> list[Claim]:
    means = {model: _mean(rows, model) for model in _JUDGED}
    known = {model: mean for model, mean in means.items() if mean is not None}
    if len(known) < len(_JUDGED):
        return []
    shown = ", ".join(f"{model} {mean:.1f} %" for model, mean in known.items())
    where = "section VII, Fig. 13"
    return [
        Claim("CRISP is the most accurate", where, known["crisp"] == min(known.values()), shown),
        Claim("MDM is closer to CRISP than to GPUMech", where,
              abs(known["mdm"] - known["crisp"]) < abs(known["mdm"] - known["gpumech"]), shown),
    ]  # fmt: skip


def _worst(rows: Sequence[Slowed], model: str) -> str:
    known = [(row, error) for row in rows if (error := row.error(model)) is not None]
    if not known:
        return ""
    row, error = max(known, key=lambda pair: abs(pair[1]))
    return (
        f"`{model}` is farthest off on `{row.member.name}`, {100 * error:+.1f} %: a ratio of {row.models[model]:.3f} against "
        f"{row.simulator:.3f}. {FAST_GHZ / SLOW_GHZ:.3f} would be all of the time scaling with the clock, 1 none of it."
    )


def _halves(rows: Sequence[Slowed]) -> Table:
    lines = [[name, len(some), *(_mean(some, model) for model in _MODELS)] for name, some in halves(rows)]
    return Table("Mean absolute error of the ratio by half of the suite, %", ["half", "kernels", *_MODELS], lines)


def _table(rows: Sequence[Slowed]) -> Table:
    lines = [
        [row.member.name, "yes" if row.member.holdout else "", row.simulator, *(row.models[model] for model in _MODELS)]
        for row in rows
    ]
    return Table("Time at 1.4 GHz over time at 2 GHz", ["kernel", "holdout", "simulator", *_MODELS], lines)


FIGURES: tuple[Figure, ...] = (
    Dvfs(
        About("mdm-13", "Time at 1.4 GHz relative to 2 GHz", MDM, "Fig. 13",
              "Error of the predicted time at 1.4 GHz relative to 2 GHz for the divergent applications, by GPUMech, CRISP and MDM",
              "mdm-pascal"),
    ),
)  # fmt: skip
