"""Charts, or the `panels` of a result document, as one SVG: the entry point of this package."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

from warpsight.reports.drawing.bars import draw_bars, draw_meters, draw_stacks
from warpsight.reports.drawing.canvas import Canvas
from warpsight.reports.drawing.cells import draw_heat_map, draw_lanes, draw_strips
from warpsight.reports.drawing.charts import (
    Axis,
    Bars,
    Chart,
    Dot,
    HeatMap,
    Lanes,
    Lines,
    Meters,
    Roofline,
    Scatter,
    Series,
    Stacks,
    Strips,
)
from warpsight.reports.drawing.lines import draw_lines, draw_roofline, draw_scatter


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


# -- Charts as one SVG: the way in.

_BETWEEN = 14.0


def svg(charts: Chart | Sequence[Chart], title: str = "", *, themed: bool = False) -> str:
    """The charts one below the other, in SVG that stands alone or in a page. The same charts always give the same text.

    `title` is for readers who do not see the picture; without one, the charts' own titles. `themed` as for `Canvas`.
    """
    listed = [charts] if isinstance(charts, Chart) else list(charts)
    # identifiers differ between pictures of one page, and are the same in every run
    name = f"w{zlib.crc32(repr((title, listed)).encode('utf-8', 'backslashreplace')):08x}"
    canvas = Canvas(name, themed=themed)
    width, height = 100.0, 4.0
    for chart in listed:
        wide, high = _DRAWN[type(chart)](canvas, height, chart)
        width, height = max(width, wide), height + high + _BETWEEN
    return canvas.document(width, height, title or "; ".join(chart.title for chart in listed))


_DRAWN: dict[type, Callable[[Canvas, float, Any], tuple[float, float]]] = {
    Bars: draw_bars, Lines: draw_lines, Scatter: draw_scatter, HeatMap: draw_heat_map, Stacks: draw_stacks, Meters: draw_meters,
    Roofline: draw_roofline, Strips: draw_strips, Lanes: draw_lanes,
}  # fmt: skip
