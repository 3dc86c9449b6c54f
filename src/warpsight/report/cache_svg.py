"""Pictures of the reuse-distance cache model: the cumulative curve of distances, and a sweep in bars as in HPCA 2014, Fig. 12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsight.report.drawing.charts import LOG_FROM_0, Axis, Bars, Lines, Series
from warpsight.report.drawing.sheet import svg

_KINDS = ("compulsory", "capacity", "associativity", "latency", "mshr")


def curve_svg(curve: Sequence[tuple[int, float]], name: str, settings: dict[str, Any]) -> str:
    """Share of transactions below each distance (`CacheResult.curve`) over lines, on a scale of powers of two."""
    capacity = settings["size_bytes"] // settings["line_bytes"]
    return svg(
        Lines(
            title=f"{name}: transactions below a reuse distance",
            x=Axis("lines of a fully associative LRU cache", scale=LOG_FROM_0),
            y=Axis("transactions", "%"),
            xs=[lines for lines, _ in curve],
            series=[Series("transactions", [100 * share for _, share in curve])],
            steps=True,
            marks=[(capacity, f"{capacity} lines: this cache")],
        )
    )


def sweep_svg(rows: Sequence[dict[str, Any]], axes: Sequence[str], name: str) -> str:
    """A bar for each row, its misses by class as shares of the transactions; `axes` label it."""
    groups = [", ".join(f"{axis} {_short(row[axis])}" for axis in axes) for row in rows]
    series = [Series(kind, [100 * row[kind] / max(1, row["transactions"]) for row in rows]) for kind in _KINDS]
    return svg(Bars(f"{name}: miss rate by class", Axis("miss rate", "%"), groups, series, stacked=True))


def _short(number: int) -> str:
    return f"{number // 1024}K" if number >= 1024 and number % 1024 == 0 else str(number)
