"""A table of shades, each with its number."""

from __future__ import annotations

from math import isfinite

from warpsight.report.drawing.canvas import FONT, Canvas, shortened, text_width
from warpsight.report.drawing.charts import HeatMap
from warpsight.report.drawing.frame import GAP, ROW, TITLE_ROOM, draw_title, title_width
from warpsight.report.drawing.palette import FAINT, INK, PAPER, luminance, shade
from warpsight.report.drawing.scales import number_text

_CELL_HEIGHT, _LEAST_CELL = 30.0, 58.0
_LETTERS = 16
# White and black stand out equally on this luminance, 4.5 times (WCAG 2.1).
_DARK, BLACK = 0.179, "#000000"


def draw_heat_map(canvas: Canvas, top: float, chart: HeatMap) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    rows = [shortened(name, _LETTERS) for name in chart.rows]
    columns = [shortened(name, _LETTERS) for name in chart.columns]
    left = 24.0 + max((text_width(name) for name in rows), default=0.0) + GAP
    cell = max([_LEAST_CELL, *(text_width(name) + 10 for name in columns)])
    upper = top + TITLE_ROOM
    there = [value for row in chart.values for value in row if value is not None and isfinite(value)]
    most = chart.most if chart.most is not None else max(there, default=1.0)
    draw_title(canvas, 4, top, chart.title)
    height = _CELL_HEIGHT * len(rows)
    letters = max(2, int(max(height, 60.0) / text_width("x")))
    canvas.text(14, upper + height / 2, shortened(chart.y.heading, letters), anchor="middle", turned=True)
    for r, name in enumerate(rows):
        y = upper + _CELL_HEIGHT * r
        canvas.text(left - GAP, y + _CELL_HEIGHT / 2 + 4, name, anchor="end")
        for c, column in enumerate(columns):
            value, x = chart.values[r][c], left + cell * c
            if value is None or not isfinite(value):
                canvas.rect(x, y, cell, _CELL_HEIGHT, FAINT, edge=INK)
                canvas.text(x + cell / 2, y + _CELL_HEIGHT / 2 + 4, "none", anchor="middle")
                continue
            colour = shade(value / most if most > 0 else 0.0)
            tip = f"{chart.rows[r]}, {column}: {number_text(value)} {chart.unit}".rstrip()
            canvas.rect(x, y, cell, _CELL_HEIGHT, colour, tip=tip, edge=PAPER)
            ink = PAPER if luminance(colour) < _DARK else BLACK
            canvas.text(x + cell / 2, y + _CELL_HEIGHT / 2 + 4, number_text(value), anchor="middle", colour=ink)
    low = upper + height
    for c, name in enumerate(columns):
        canvas.text(left + cell * (c + 0.5), low + GAP + FONT, name, anchor="middle")
    width = max(left + cell * len(columns), title_width(chart.title) + 4, text_width(chart.x.heading))
    canvas.text(left, low + 2 * ROW, chart.x.heading)
    return max(width, left + text_width(chart.x.heading)) + 16, low + 2 * ROW + 14 - top
