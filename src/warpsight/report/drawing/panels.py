"""Charts from the `panels` of a result document: the same data as plain JSON."""

from __future__ import annotations

from typing import Any

from warpsight.report.drawing.charts import Axis, Bars, Chart, Dot, HeatMap, Lines, Scatter, Series


def chart_of(panel: dict[str, Any]) -> Chart:
    """The chart that a panel describes: `chart` is bars, lines, scatter or heat map, the other keys are the chart's fields.

    Raises KeyError or TypeError for what is no panel: documents are checked where they are made.
    """
    kind = panel["chart"]
    given = {key: value for key, value in panel.items() if key != "chart"}
    for name in ("axis", "x", "y"):
        if name in given:
            given[name] = Axis(**given[name])
    if kind == "scatter":
        given["series"] = tuple((each["name"], tuple(Dot(**dot) for dot in each["dots"])) for each in given["series"])
        return Scatter(**given)
    if kind == "heat map":
        return HeatMap(**given)
    given["series"] = tuple(Series(**each) for each in given["series"])
    if given.get("line") is not None:
        given["line"] = Series(**given["line"])
    for name in ("spans", "marks"):
        if name in given:
            given[name] = tuple((a, b) for a, b in given[name])
    return Bars(**given) if kind == "bars" else Lines(**given)
