"""A table of shades, each with its number."""

from __future__ import annotations

from math import isfinite

from warpsight.report.drawing.canvas import FONT, Canvas, shortened, text_width
from warpsight.report.drawing.charts import HeatMap
from warpsight.report.drawing.frame import GAP, LABEL_LETTERS, ROW, TITLE_ROOM, draw_title, title_width
from warpsight.report.drawing.palette import FAINT, INK, PAPER, luminance, shade, style_of
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
    flat = [value for row in chart.values for value in row]
    words = sorted({value for value in flat if isinstance(value, str)})
    cell = max([_LEAST_CELL, *(text_width(shortened(name, _LETTERS)) + 10 for name in [*columns, *words])])
    upper = top + TITLE_ROOM
    there = [value for value in flat if value is not None and not isinstance(value, str) and isfinite(value)]
    most = chart.most if chart.most is not None else max(there, default=1.0)
    draw_title(canvas, 4, top, chart.title)
    heading = shortened(chart.y.heading, LABEL_LETTERS)
    # rows grow where they are too few for the heading beside them
    tall = max(_CELL_HEIGHT, text_width(heading) / max(1, len(rows)))
    height = tall * len(rows)
    canvas.text(14, upper + height / 2, heading, anchor="middle", turned=True)
    for r, name in enumerate(rows):
        y = upper + tall * r
        canvas.text(left - GAP, y + tall / 2 + 4, name, anchor="end")
        for c, column in enumerate(columns):
            value, x = chart.values[r][c], left + cell * c
            if value is None or (not isinstance(value, str) and not isfinite(value)):
                canvas.rect(x, y, cell, tall, FAINT, edge=INK)
                canvas.text(x + cell / 2, y + tall / 2 + 4, "none", anchor="middle")
                continue
            if isinstance(value, str):
                colour, shown = style_of(words.index(value)).colour, value
            else:
                colour, shown = shade(value / most if most > 0 else 0.0), number_text(value)
            tip = f"{chart.rows[r]}, {column}: {shown} {chart.unit}".rstrip()
            hook = chart.hooks[r][c] if chart.hooks else ""
            canvas.rect(x, y, cell, tall, colour, tip=tip, edge=PAPER, fixed=True, hook=hook)
            ink = PAPER if luminance(colour) < _DARK else BLACK
            inside = shortened(shown, _LETTERS)
            canvas.text(x + cell / 2, y + tall / 2 + 4, inside, anchor="middle", colour=ink, fixed=True)
    low = upper + height
    for c, name in enumerate(columns):
        canvas.text(left + cell * (c + 0.5), low + GAP + FONT, name, anchor="middle")
    width = max(left + cell * len(columns), title_width(chart.title) + 4, text_width(chart.x.heading))
    canvas.text(left, low + 2 * ROW, chart.x.heading)
    return max(width, left + text_width(chart.x.heading)) + 16, low + 2 * ROW + 14 - top
