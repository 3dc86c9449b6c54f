"""Ways to choose the representative warp: GPUMech (MICRO 2014), Fig. 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.jobs.fingerprint import PROFILE, SIMULATOR
from warpsight.papers.figures.base import GPUMECH, About, Claim, Content, Figure, Number, Table
from warpsight.papers.figures.errors import error_bars, halves_table, mape, nonempty
from warpsight.papers.results import Cast, Point, Results, Variant
from warpsight.pipeline.suites import SuiteKernel
from warpsight.result.prediction import relative_error

# As `Method.representative` and the paper call them.
WAYS = {"max": "MAX", "min": "MIN", "kmeans": "Clustering"}
_MODEL = "gpumech"
# What is within this of the best, in points of per cent, is as good.
_AS_GOOD = 1.0


@dataclass(frozen=True)
class ByChoice:
    """One control-divergent kernel: the signed CPI error by the way its warp was chosen. `paths` are its distinct streams."""

    member: SuiteKernel
    paths: int
    active_share: float
    errors: dict[str, float]

    def error(self, way: str) -> float:
        """The signed error with the warp of that choice."""
        return self.errors[way]


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
        title = "CPI error of GPUMech by the choice of the representative warp, control-divergent kernels"
        axis = {"label": "absolute CPI error", "unit": "%", "most": 200.0}
        claims = []
        if rows:
            says = "Clustering usually is the most accurate way, or all three are alike"
            ours = f"best or within {_AS_GOOD:g} point of it on {len(best)} of {len(rows)} kernels"
            claims.append(Claim(says, "section III-B, Fig. 7", 2 * len(best) > len(rows), ours))
        return Content(
            panels=[error_bars(title, axis, rows, WAYS)] if rows else [],
            rows=[{"kernel": row.member.name, "holdout": row.member.holdout, "paths": row.paths, "active_share": row.active_share,
                   "errors": row.errors} for row in rows],
            tables=[halves_table(rows, WAYS, "CPI error"), _table(rows)],
            numbers=[Number(f"{name}, mean", "%", None, mape(rows, way)) for way, name in WAYS.items()],
            claims=claims,
            differences=nonempty([_farthest(rows)]),
            notes=[
                "A kernel is control-divergent here when its warps take more than one path, or lanes are switched off: "
                f"{len(rows)} of the {len(cast.members)} are, of those with a result.",
                "MAX and MIN are the warps with the highest and the lowest performance when they run alone. Errors are of CPI.",
            ],
        )  # fmt: skip

    def _rows(self, cast: Cast, results: Results) -> list[ByChoice]:
        rows, variant = [], Variant(self.about.gpu)
        for member in cast.members:
            trace, simulated = results.traces.get(member.name), results.simulator(member.name, variant)
            if trace is None or simulated is None or (trace["paths"] == 1 and trace["active_share"] == 1):
                continue
            by_way = {way: results.prediction(member.name, variant, _MODEL, way) for way in WAYS}
            errors = {way: relative_error(each.cpi, simulated["cpi"]) for way, each in by_way.items() if each is not None}
            if len(errors) == len(WAYS):
                rows.append(ByChoice(member, trace["paths"], trace["active_share"], errors))
        return rows


def _farthest(rows: Sequence[ByChoice]) -> str:
    """Where the choice matters most."""
    if not rows:
        return ""
    row = max(rows, key=lambda each: max(each.errors.values()) - min(each.errors.values()))
    errors = ", ".join(f"{name} {100 * row.errors[way]:+.0f} %" for way, name in WAYS.items())
    return f"The choice matters most for `{row.member.name}` ({row.paths:,} paths): {errors}."


def _table(rows: Sequence[ByChoice]) -> Table:
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
