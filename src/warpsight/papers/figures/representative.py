"""Ways to choose the representative warp: GPUMech (MICRO 2014), Fig. 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.jobs.fingerprint import PROFILE, SIMULATOR
from warpsight.papers.figures.base import GPUMECH, About, Claim, Content, Figure, Number, Table, halves
from warpsight.papers.figures.errors import said
from warpsight.papers.results import Cast, Member, Point, Results, Variant
from warpsight.result.prediction import mean_absolute_percentage_error, relative_error

# As `Method.representative` and the paper call them.
WAYS = {"max": "MAX", "min": "MIN", "kmeans": "Clustering"}
_MODEL = "gpumech"
# What is within this of the best, in points of per cent, is as good.
_AS_GOOD = 1.0


@dataclass(frozen=True)
class Chosen:
    """One control-divergent kernel: the signed CPI error by the way its warp was chosen. `paths` are its distinct streams."""

    member: Member
    paths: int
    active_share: float
    errors: dict[str, float]


@dataclass(frozen=True)
class Representative:
    """Bars of the errors, kernels in order of the clustering's."""

    about: About

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`. Which kernels diverge is known when they have run: all of them are asked for."""
        variant = Variant(self.about.gpu)
        return [
            point
            for member in cast.members
            for point in (Point(SIMULATOR, member.name, variant), *(Point(PROFILE, member.name, variant, way) for way in WAYS))
        ]

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        rows = sorted(self._rows(cast, results), key=lambda row: (abs(row.errors["kmeans"]), row.member.name))
        best = [row for row in rows if abs(row.errors["kmeans"]) <= min(map(abs, row.errors.values())) + _AS_GOOD / 100]
        means = {way: _mean(rows, way) for way in WAYS}
        claims = []
        if rows:
            says = "Clustering usually is the most accurate way, or all three are alike"
            ours = f"best or within {_AS_GOOD:g} point of it on {len(best)} of {len(rows)} kernels"
            claims.append(Claim(says, "section III-B, Fig. 7", 2 * len(best) > len(rows), ours))
        return Content(
            panels=[self._panel(rows)] if rows else [],
            rows=[{"kernel": row.member.name, "holdout": row.member.holdout, "paths": row.paths, "active_share": row.active_share,
                   "errors": row.errors} for row in rows],
            tables=[_halves(rows), _table(rows)],
            numbers=[Number(f"{words}, mean", "%", None, means[way]) for way, words in WAYS.items()],
            claims=claims,
            differences=said([_farthest(rows)]),
            notes=[
                "A kernel is control-divergent here when its warps take more than one path, or lanes are switched off: "
                f"{len(rows)} of the {len(cast.members)} are, of those with a result.",
                "MAX and MIN are the warps with the highest and the lowest performance when they run alone. Errors are of CPI.",
            ],
        )  # fmt: skip

    def _rows(self, cast: Cast, results: Results) -> list[Chosen]:
        rows, variant = [], Variant(self.about.gpu)
        for member in cast.members:
            trace, found = results.traces.get(member.name), results.simulator(member.name, variant)
            if trace is None or found is None or (trace["paths"] == 1 and trace["active_share"] == 1):
                continue
            answers = {way: results.prediction(member.name, variant, _MODEL, way) for way in WAYS}
            errors = {way: relative_error(answer.cpi, found["cpi"]) for way, answer in answers.items() if answer is not None}
            if len(errors) == len(WAYS):
                rows.append(Chosen(member, trace["paths"], trace["active_share"], errors))
        return rows

    def _panel(self, rows: Sequence[Chosen]) -> dict[str, Any]:
        return {
            "chart": "bars",
            "title": "CPI error of GPUMech by the choice of the representative warp, control-divergent kernels",
            "axis": {"label": "absolute CPI error", "unit": "%", "most": 200.0},
            "groups": [*(row.member.name for row in rows), "mean"],
            "series": [
                {"name": words, "values": [*(100 * abs(row.errors[way]) for row in rows), _mean(rows, way)]}
                for way, words in WAYS.items()
            ],
        }


def _mean(rows: Sequence[Chosen], way: str) -> float | None:
    return mean_absolute_percentage_error([row.errors[way] for row in rows]) if rows else None


def _farthest(rows: Sequence[Chosen]) -> str:
    """Where the choice matters most."""
    if not rows:
        return ""
    row = max(rows, key=lambda each: max(each.errors.values()) - min(each.errors.values()))
    errors = ", ".join(f"{words} {100 * row.errors[way]:+.0f} %" for way, words in WAYS.items())
    return f"The choice matters most for `{row.member.name}` ({row.paths:,} paths): {errors}."


def _halves(rows: Sequence[Chosen]) -> Table:
    lines = [[name, len(some), *(_mean(some, way) for way in WAYS)] for name, some in halves(rows)]
    return Table("Mean absolute CPI error by half of the suite, %", ["half", "kernels", *WAYS.values()], lines)


def _table(rows: Sequence[Chosen]) -> Table:
    lines = [
        [row.member.name, "yes" if row.member.holdout else "", row.paths, 100 * row.active_share,
         *(100 * row.errors[way] for way in WAYS)]
        for row in rows
    ]  # fmt: skip
    return Table("Signed CPI error, %", ["kernel", "holdout", "paths", "lanes active, %", *WAYS.values()], lines)


FIGURES: tuple[Figure, ...] = (
    Representative(
        About("gpumech-7", "Errors by the choice of the representative warp", GPUMECH, "Fig. 7",
              "CPI error of GPUMech for control-divergent kernels, by three ways to choose the representative warp", "gpumech"),
    ),
)  # fmt: skip
