"""Charts as one SVG: the way in."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from warpsight.report.drawing.bars import draw_bars
from warpsight.report.drawing.canvas import Canvas
from warpsight.report.drawing.charts import Bars, Chart, Lines, Scatter
from warpsight.report.drawing.heat_map import draw_heat_map
from warpsight.report.drawing.lines import draw_lines, draw_scatter

_BETWEEN = 14.0


def svg(charts: Chart | Sequence[Chart], title: str = "") -> str:
    """The charts one below the other, in SVG that stands alone or in a page. The same charts always give the same text.

    `title` is for readers who do not see the picture; without one, the charts' own titles.
    """
    listed = [charts] if isinstance(charts, Chart) else list(charts)
    # identifiers differ between pictures of one page, and are the same in every run
    canvas = Canvas(f"w{zlib.crc32(repr((title, listed)).encode('utf-8', 'backslashreplace')):08x}")
    width, height = 100.0, 4.0
    for chart in listed:
        wide, high = _draw(canvas, height, chart)
        width, height = max(width, wide), height + high + _BETWEEN
    return canvas.document(width, height, title or "; ".join(chart.title for chart in listed))


def _draw(canvas: Canvas, top: float, chart: Chart) -> tuple[float, float]:
    if isinstance(chart, Bars):
        return draw_bars(canvas, top, chart)
    if isinstance(chart, Lines):
        return draw_lines(canvas, top, chart)
    if isinstance(chart, Scatter):
        return draw_scatter(canvas, top, chart)
    return draw_heat_map(canvas, top, chart)
