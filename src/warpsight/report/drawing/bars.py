"""Bars by group, side by side or stacked."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from warpsight.report.drawing.canvas import Canvas
from warpsight.report.drawing.charts import Bars, Series, Value
from warpsight.report.drawing.frame import (
    PLOT_HEIGHT,
    SMALL,
    TITLE_ROOM,
    Entry,
    Plot,
    draw_legend,
    draw_names,
    draw_spans,
    draw_title,
    draw_vertical,
    left_room,
    legend_width,
    title_width,
)
from warpsight.report.drawing.palette import INK, Style, style_of
from warpsight.report.drawing.scales import Scale, number_text, scale_for

_RIGHT = 16.0
_LEAST_WIDTH, _MOST_WIDTH = 380.0, 1800.0
# Above a cut bar stands its number, turned.
_CUT_ROOM = 42.0
_LINE_STYLE = 8  # black


def draw_bars(canvas: Canvas, top: float, chart: Bars) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    styles = [style_of(place if each.style is None else each.style) for place, each in enumerate(chart.series)]
    entries = [Entry(each.name, style) for each, style in zip(chart.series, styles, strict=True)]
    line_style = style_of(_LINE_STYLE)
    if chart.line is not None:
        entries.append(Entry(chart.line.name, line_style, line=True, joined=False))
    scale = scale_for(chart.axis, _heights(chart))
    left = left_room(scale)
    cut = any(_is_cut(value, scale) for value in _heights(chart))
    # the numbers of bars that are cut need a bar's width each
    wanted = len(chart.groups) * (24.0 if chart.stacked else 10.0 + (13.0 if cut else 8.0) * len(chart.series))
    inner = min(_MOST_WIDTH, max(_LEAST_WIDTH, wanted, title_width(chart.title), legend_width(entries)))
    plot = Plot(left, top + TITLE_ROOM + (_CUT_ROOM if cut else 0.0), inner, PLOT_HEIGHT)
    draw_title(canvas, left, top, chart.title)
    draw_vertical(canvas, plot, scale, chart.axis)
    slot = inner / max(1, len(chart.groups))
    for number, group in enumerate(chart.groups):
        _draw_group(canvas, plot, scale, chart, number, group, (plot.left + slot * number, slot), styles)
        if chart.line is not None:
            _draw_mark(canvas, plot, scale, chart, number, (plot.left + slot * number, slot), line_style)
    edges = [plot.left + slot * k for k in range(len(chart.groups) + 1)]
    low = plot.bottom + draw_names(canvas, plot, [edge + slot / 2 for edge in edges[:-1]], chart.groups)
    low += draw_spans(canvas, plot, edges, chart.spans, low)
    low += 6 + draw_legend(canvas, left, low + 6, inner, entries)
    return left + inner + _RIGHT, low + 8 - top


def _heights(chart: Bars) -> list[Value]:
    """Every height that the axis must hold."""
    marks = list(chart.line.values) if chart.line is not None else []
    if not chart.stacked:
        return [*(value for each in chart.series for value in each.values), *marks]
    sums = [sum(each.values[k] or 0.0 for each in chart.series) for k in range(len(chart.groups))]
    return [*sums, *marks]


def _is_cut(value: Value, scale: Scale) -> bool:
    return value is not None and value > scale.most * (1 + 1e-9)


def _draw_group(
    canvas: Canvas, plot: Plot, scale: Scale, chart: Bars, number: int, group: str, slot: tuple[float, float], styles: list[Style]
) -> None:
    start, width = slot
    inner = min(width * 0.84, 60.0 if chart.stacked else width)
    left = start + (width - inner) / 2
    if chart.stacked:
        _draw_stack(canvas, plot, scale, chart, number, group, (left, inner), styles)
        return
    each_width = inner / max(1, len(chart.series))
    for place, (each, style) in enumerate(zip(chart.series, styles, strict=True)):
        value, x = each.values[number], left + place * each_width
        if value is None or not isfinite(value):
            canvas.text(x + each_width / 2 + 3, plot.y(scale.at(0)) - 3, "none", size=8, turned=True)
            continue
        tip = f"{group}, {each.name}: {number_text(value)} {chart.axis.unit}".rstrip()
        _draw_bar(canvas, plot, (scale.at(0), scale.at(value)), (x, each_width - 1), canvas.fill(style), tip)
        if _is_cut(value, scale):
            size = min(SMALL, each_width)
            canvas.text(x + each_width / 2 + 0.3 * size, plot.top - 4, number_text(value), size=size, turned=True)


def _draw_bar(canvas: Canvas, plot: Plot, places: tuple[float, float], where: tuple[float, float], fill: str, tip: str) -> None:
    low, high = sorted(places)
    canvas.rect(where[0], plot.y(high), where[1], (high - low) * plot.height, fill, tip=tip, edge=INK)


def _parts(chart: Bars, number: int) -> Iterator[tuple[Series, int, float]]:
    for place, each in enumerate(chart.series):
        value = each.values[number]
        if value is not None and isfinite(value) and value > 0:
            yield each, place, value


def _draw_stack(
    canvas: Canvas, plot: Plot, scale: Scale, chart: Bars, number: int, group: str, where: tuple[float, float], styles: list[Style]
) -> None:
    height = 0.0
    for each, place, value in _parts(chart, number):
        tip = f"{group}, {each.name}: {number_text(value)} {chart.axis.unit}".rstrip()
        _draw_bar(canvas, plot, (scale.at(height), scale.at(height + value)), where, canvas.fill(styles[place]), tip)
        height += value
    middle = where[0] + where[1] / 2
    if all(each.values[number] is None for each in chart.series):
        canvas.text(middle + 3, plot.bottom - 3, "none", size=8, turned=True)
    elif _is_cut(height, scale):
        canvas.text(middle + 3, plot.top - 4, number_text(height), size=SMALL, turned=True)


def _draw_mark(
    canvas: Canvas, plot: Plot, scale: Scale, chart: Bars, number: int, slot: tuple[float, float], style: Style
) -> None:
    assert chart.line is not None
    value = chart.line.values[number]
    if value is None or not isfinite(value):
        return
    y = plot.y(scale.at(value))
    canvas.path(f"M{slot[0] + 1:.1f} {y:.1f}h{slot[1] - 2:.1f}", style.colour, width=2)
    tip = f"{chart.groups[number]}, {chart.line.name}: {number_text(value)} {chart.axis.unit}".rstrip()
    canvas.marker(slot[0] + slot[1] / 2, y, style, size=3, tip=tip)
