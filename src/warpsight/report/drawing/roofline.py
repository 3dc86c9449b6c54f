"""Rooflines: slopes of memory levels under ceilings of computing, and where a launch is at each level."""

from __future__ import annotations

from math import log10

from warpsight.report.drawing.canvas import Canvas
from warpsight.report.drawing.charts import LOG, Axis, Roofline
from warpsight.report.drawing.frame import PLOT_HEIGHT, TITLE_ROOM, Entry, Plot, draw_title, draw_vertical, left_room, legend_width
from warpsight.report.drawing.lines import draw_ending, draw_numbers
from warpsight.report.drawing.palette import style_of
from warpsight.report.drawing.scales import Scale, number_text, scale_for

_WIDTH, _RIGHT = 420.0, 24.0
_CEILING_STYLE = 8


def draw_roofline(canvas: Canvas, top: float, chart: Roofline) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    across, up = _scales(chart)
    styles = [style_of(place) for place in range(len(chart.slopes))]
    entries = [Entry(f"{slope.name}: {number_text(slope.value)} GB/s", style, True)
               for slope, style in zip(chart.slopes, styles, strict=True)]  # fmt: skip
    black = style_of(_CEILING_STYLE)
    entries += [Entry(f"{each.name}: {number_text(each.value)}", black, True, True) for each in chart.ceilings]
    plot = Plot(left_room(up), top + TITLE_ROOM, max(_WIDTH, legend_width(entries[:2])), PLOT_HEIGHT)
    draw_title(canvas, plot.left, top, chart.title)
    draw_vertical(canvas, plot, up, chart.y)
    low = draw_numbers(canvas, plot, across)
    highest = max(each.value for each in chart.ceilings)
    for each in chart.ceilings:
        y = plot.y(up.at(each.value))
        canvas.path(f"M{plot.left:.1f} {y:.1f}h{plot.width:.1f}", black.colour, width=2,
                    tip=f"{each.name}: {number_text(each.value)} {chart.y.heading}")  # fmt: skip
    for slope, style in zip(chart.slopes, styles, strict=True):
        begin = max(across.least, up.least / slope.value)
        end = min(across.most, highest / slope.value)
        if end > begin:
            ends = [(plot.x(across.at(x)), plot.y(up.at(x * slope.value))) for x in (begin, end)]
            data = "L".join(f"{x:.1f} {y:.1f}" for x, y in ends)
            canvas.path(f"M{data}", style.colour, width=2, dash=style.dash, tip=f"{slope.name}: {number_text(slope.value)} GB/s")
    for work, style in zip(chart.works, styles, strict=True):
        tip = f"{work.name}: {number_text(work.per_byte)} {chart.x.label}, {number_text(work.rate)} {chart.y.label}"
        canvas.marker(plot.x(across.at(work.per_byte)), plot.y(up.at(work.rate)), style, size=5, tip=tip)
    low += draw_ending(canvas, plot, low, chart.x.heading, entries)
    return plot.left + plot.width + _RIGHT, low - top


def _scales(chart: Roofline) -> tuple[Scale, Scale]:
    """Axes that hold all points, every knee and the ceilings."""
    highest = max(each.value for each in chart.ceilings)
    knees = [highest / slope.value for slope in chart.slopes]
    xs, ys = [*(work.per_byte for work in chart.works), *knees], [*(work.rate for work in chart.works), highest]
    across = scale_for(Axis("", scale=LOG), [min(xs) / 2, max(xs) * 4])
    up = scale_for(Axis("", scale=LOG), [10 ** (log10(min(ys)) - 0.3), highest * 1.2])
    return across, up
