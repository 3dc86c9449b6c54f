"""Predicted against measured, as a picture: a point for each launch and model, the diagonal where both are the same."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.report.drawing.charts import LOG, Axis, Dot, Scatter
from warpsight.report.drawing.sheet import svg


def comparison_svg(document: dict[str, Any]) -> str:
    """A scatter chart of cycles and one of times, each where any were measured. Raises UsageError where there is no point."""
    file = PurePath(document["against"] or "").name
    side = "measured" if document["measured_by"] else "reference"
    charts = []
    for name, unit, key, scale in (("cycles", "", "cycles", 1.0), ("time", "us", "seconds", 1e6)):
        series = _series(document, key, scale)
        if series:
            x, y = Axis(f"{side} {name}", unit, LOG), Axis(f"predicted {name}", unit, LOG)
            charts.append(Scatter(f"{document['gpu']}: predicted against {file}", x, y, series, diagonal=True))
    if not charts:
        what = "no model has a prediction beside a measured number of cycles or time"
        raise UsageError(what, place="--plot", remedy="give --against a file with cycles or times")
    return svg(charts)


def _series(document: dict[str, Any], key: str, scale: float) -> list[tuple[str, list[Dot]]]:
    series: list[tuple[str, list[Dot]]] = []
    for number, model in enumerate(document["models"]):
        dots = []
        for launch in document["launches"]:
            answer = launch["answers"][number]["prediction"]
            measured = (launch["reference"] or {}).get(key)
            if answer and measured:
                dots.append(Dot(scale * measured, scale * answer[key], launch["label"]))
        series.append((model, dots))
    return [each for each in series if each[1]]
