"""Charts as one SVG: the entry point of this package."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

from warpsight.reports.drawing.bars import draw_bars, draw_meters, draw_spans, draw_stacks
from warpsight.reports.drawing.canvas import Canvas
from warpsight.reports.drawing.cells import draw_heat_map, draw_lanes, draw_strips
from warpsight.reports.drawing.charts import (
    Bars,
    Chart,
    HeatMap,
    Lanes,
    Lines,
    MemoryChart,
    Meters,
    Roofline,
    Scatter,
    Spans,
    Stacks,
    StepCurve,
    Strips,
)
from warpsight.reports.drawing.lines import draw_lines, draw_roofline, draw_scatter, draw_step_curve
from warpsight.reports.drawing.memory import draw_memory_chart

_BETWEEN = 14.0
_DRAW: dict[type, Callable[[Canvas, float, Any], tuple[float, float]]] = {
    Bars: draw_bars, Lines: draw_lines, Scatter: draw_scatter, HeatMap: draw_heat_map, Stacks: draw_stacks, Meters: draw_meters,
    Roofline: draw_roofline, Strips: draw_strips, Spans: draw_spans, Lanes: draw_lanes,
    StepCurve: draw_step_curve, MemoryChart: draw_memory_chart,
}  # fmt: skip


def svg(charts: Chart | Sequence[Chart], title: str = "", *, themed: bool = False) -> str:
    """The charts one below the other as an SVG for a file or a page. The same charts always give the same text.

    `title` is the label for screen readers; default: the charts' own titles. `themed` as for `Canvas`.
    """
    listed = [charts] if isinstance(charts, Chart) else list(charts)
    # identifiers differ between the pictures of a page, and are the same in every run
    name = f"w{zlib.crc32(repr((title, listed)).encode('utf-8', 'backslashreplace')):08x}"
    canvas = Canvas(name, themed=themed)
    width, height = 100.0, 4.0
    for chart in listed:
        wide, high = _DRAW[type(chart)](canvas, height, chart)
        width, height = max(width, wide), height + high + _BETWEEN
    return canvas.document(width, height, title or "; ".join(chart.title for chart in listed))
