"""Charts as one SVG: the way in."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

from warpsight.report.drawing.across import draw_meters, draw_stacks
from warpsight.report.drawing.bars import draw_bars
from warpsight.report.drawing.canvas import Canvas
from warpsight.report.drawing.charts import Bars, Chart, HeatMap, Lanes, Lines, Meters, Roofline, Scatter, Stacks, Strips
from warpsight.report.drawing.heat_map import draw_heat_map
from warpsight.report.drawing.lanes import draw_lanes
from warpsight.report.drawing.lines import draw_lines, draw_scatter
from warpsight.report.drawing.roofline import draw_roofline
from warpsight.report.drawing.strips import draw_strips

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
