"""Time at a lower clock: MDM (MICRO 2020), Fig. 13."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.gpu.loader import load_gpu
from warpsight.models.crisp import TARGET_CLOCK
from warpsight.papers.figures.base import MDM, About, Claim, Content, Figure, Number, Table
from warpsight.papers.figures.errors import both, compared, error_bars, halves_table, mape, nonempty
from warpsight.papers.results import Cast, Point, Results, Variant
from warpsight.pipeline.suites import SuiteKernel
from warpsight.result.prediction import relative_error

FAST_GHZ, SLOW_GHZ = 2.0, 1.4
# L2 and DRAM have clocks of their own: what takes 120 and 220 cycles at 1.4 GHz takes as many seconds, so more cycles, at 2 GHz.
FAST = ("core_clock=2GHz", "l2.latency=171cycles", "dram.latency=314cycles")
_MODELS = ("gpumech", "crisp", "mdm", "warpsight")
_EXPLAINED = ("gpumech", "crisp", "mdm")


@dataclass(frozen=True)
class ClockRatio:
    """One kernel's time at 1.4 GHz over that at 2 GHz, by the simulator and by each model (None: no answer)."""

    member: SuiteKernel
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

    def _variants(self) -> tuple[Variant, Variant]:
        return Variant(self.about.gpu, FAST, "2 GHz"), Variant(self.about.gpu, (), "1.4 GHz")

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return both(cast.divergent, self._variants())

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        rows = self._rows(cast, results)
        numbers = [
            Number(f"{model}, mean", "%", paper, mape(rows, model), "section VII, Fig. 13" if paper else "")
            for model, paper in (("crisp", 3.7), ("mdm", 4.6), ("gpumech", 28.0), ("warpsight", None))
        ]
        differences = [*(compared(number) for number in numbers), *(_worst(rows, model) for model in _EXPLAINED)]
        title = "Error of the time at 1.4 GHz relative to that at 2 GHz: memory-divergent"
        axis = {"label": "absolute error of the ratio", "unit": "%"}
        models = dict(zip(_MODELS, _MODELS, strict=True))
        return Content(
            panels=[error_bars(title, axis, rows, models)] if rows else [],
            rows=[{"kernel": row.member.name, "holdout": row.member.holdout, "simulator_ratio": row.simulator, "ratios": row.models,
                   "errors": {model: row.error(model) for model in _MODELS}} for row in rows],
            tables=[halves_table(rows, models, "error of the ratio"), _table(rows)],
            numbers=numbers,
            claims=_claims(rows),
            differences=nonempty(differences),
            notes=[
                f"The design at 2 GHz is the baseline with {', '.join(f'`{each}`' for each in FAST)}: L2 and DRAM take the same "
                "time in seconds at both clocks. Bandwidths are the same in bytes a second.",
                "In the paper CRISP measures its stall components at 2 GHz. `crisp` has no counters: its components are what "
                "GPUMech's equations give there, so it misses what they miss. See docs/explanation/crisp.md.",
            ],
        )  # fmt: skip

    def _rows(self, cast: Cast, results: Results) -> list[ClockRatio]:
        (fast, slow), rows = self._variants(), []
        # CRISP predicts from the higher clock for a lower one
        crisp = load_gpu(self.about.gpu, overrides=(*FAST, f"{TARGET_CLOCK.name}={SLOW_GHZ}GHz"))
        for member in cast.divergent:
            simulated = [results.simulator(member.name, variant) for variant in (slow, fast)]
            if simulated[0] is None or simulated[1] is None:
                continue
            ratios: dict[str, float | None] = {}
            for model in _MODELS:
                at_fast = results.prediction(member.name, fast, model)
                variant, gpu = (fast, crisp) if model == "crisp" else (slow, None)
                at_slow = results.prediction(member.name, variant, model, gpu=gpu)
                ratios[model] = at_slow.seconds / at_fast.seconds if at_slow and at_fast else None
            rows.append(ClockRatio(member, simulated[0]["seconds"] / simulated[1]["seconds"], ratios))
        return rows


def _claims(rows: Sequence[ClockRatio]) -> list[Claim]:
    known = {model: mean for model in _EXPLAINED if (mean := mape(rows, model)) is not None}
    if len(known) < len(_EXPLAINED):
        return []
    shown = ", ".join(f"{model} {mean:.1f} %" for model, mean in known.items())
    where = "section VII, Fig. 13"
    return [
        Claim("CRISP is the most accurate", where, known["crisp"] == min(known.values()), shown),
        Claim("MDM is closer to CRISP than to GPUMech", where,
              abs(known["mdm"] - known["crisp"]) < abs(known["mdm"] - known["gpumech"]), shown),
    ]  # fmt: skip


def _worst(rows: Sequence[ClockRatio], model: str) -> str:
    known = [(row, error) for row in rows if (error := row.error(model)) is not None]
    if not known:
        return ""
    row, error = max(known, key=lambda pair: abs(pair[1]))
    return (
        f"`{model}` is farthest off on `{row.member.name}`, {100 * error:+.1f} %: a ratio of {row.models[model]:.3f} against "
        f"{row.simulator:.3f}. {FAST_GHZ / SLOW_GHZ:.3f} would be all of the time scaling with the clock, 1 none of it."
    )


def _table(rows: Sequence[ClockRatio]) -> Table:
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
