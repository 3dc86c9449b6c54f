"""Curves, steps and clouds of points over a horizontal axis of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from warpsight.report.drawing.canvas import FONT, Canvas, shortened, text_width
from warpsight.report.drawing.charts import LINEAR, Axis, Lines, Scatter
from warpsight.report.drawing.frame import (
    LABEL_LETTERS,
    PLOT_HEIGHT,
    ROW,
    TITLE_ROOM,
    Entry,
    Plot,
    draw_legend,
    draw_names,
    draw_title,
    draw_vertical,
    left_room,
    legend_width,
    title_width,
)
from warpsight.report.drawing.palette import FAINT, INK, style_of
from warpsight.report.drawing.scales import Scale, label_of, number_text, scale_for

_WIDTH, _RIGHT = 560.0, 24.0


def draw_lines(canvas: Canvas, top: float, chart: Lines) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    styles = [style_of(place if each.style is None else each.style) for place, each in enumerate(chart.series)]
    entries = [Entry(each.name, style, True, chart.joined) for each, style in zip(chart.series, styles, strict=True)]
    vertical = scale_for(chart.y, [value for each in chart.series for value in each.values])
    plot = _plot(canvas, top, chart.title, vertical, chart.y, entries)
    place, low = _horizontal(canvas, plot, chart)
    for x, name in chart.marks:
        at, right = plot.x(place(x)), place(x) > 0.6
        canvas.path(f"M{at:.1f} {plot.top:.1f}V{plot.bottom:.1f}", INK, dash="4 3")
        shown = shortened(name, LABEL_LETTERS)
        canvas.text(at + (-4 if right else 4), plot.top + FONT, shown, anchor="end" if right else "start")
    for each, style in zip(chart.series, styles, strict=True):
        spots = [
            (plot.x(place(x)), plot.y(vertical.at(value)), x, value)
            for x, value in zip(chart.xs, each.values, strict=True)
            if value is not None and isfinite(value)
        ]
        if chart.joined or chart.steps:
            canvas.path(_way(spots, chart.steps, plot), style.colour, width=2, dash=style.dash)
        # many steps make a curve of their own, which markers would hide
        for sx, sy, x, value in spots if not chart.steps else ():
            tip = f"{each.name}, {label_of(x)} {chart.x.unit}: {number_text(value)} {chart.y.unit}".rstrip()
            canvas.marker(sx, sy, style, tip=tip)
    low += draw_ending(canvas, plot, low, chart.x.heading, entries if not chart.steps or len(entries) > 1 else [])
    return plot.left + plot.width + _RIGHT, low - top


def draw_scatter(canvas: Canvas, top: float, chart: Scatter) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    entries = [Entry(name, style_of(k), True, False) for k, (name, _) in enumerate(chart.series)]
    dots = [dot for _, each in chart.series for dot in each]
    both = [value for dot in dots for value in (dot.x, dot.y)] if chart.diagonal else []
    vertical = scale_for(chart.y, [*(dot.y for dot in dots), *both])
    across = scale_for(chart.x, [*(dot.x for dot in dots), *both])
    plot = _plot(canvas, top, chart.title, vertical, chart.y, entries)
    low = draw_numbers(canvas, plot, across)
    if chart.diagonal:
        ends = [max(across.least, vertical.least), min(across.most, vertical.most)]
        way = "L".join(f"{plot.x(across.at(end)):.1f} {plot.y(vertical.at(end)):.1f}" for end in ends)
        canvas.path(f"M{way}", INK, dash="4 3")
    for number, (name, each) in enumerate(chart.series):
        if number == chart.front and each:
            spots = [(plot.x(across.at(dot.x)), plot.y(vertical.at(dot.y))) for dot in each]
            way = f"M{spots[0][0]:.1f} {spots[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in spots[1:])
            canvas.path(f"{way}H{plot.left + plot.width:.1f}", style_of(number).colour, width=1.5)
        for dot in each:
            tip = f"{dot.name}, {name}: {number_text(dot.x)} {chart.x.unit}, {number_text(dot.y)} {chart.y.unit}"
            canvas.marker(plot.x(across.at(dot.x)), plot.y(vertical.at(dot.y)), style_of(number), tip=tip, hook=dot.hook)
    low += draw_ending(canvas, plot, low, chart.x.heading, entries)
    return plot.left + plot.width + _RIGHT, low - top


def _plot(canvas: Canvas, top: float, title: str, vertical: Scale, axis: Axis, entries: Sequence[Entry]) -> Plot:
    left = left_room(vertical)
    plot = Plot(left, top + TITLE_ROOM, max(_WIDTH, title_width(title), legend_width(entries)), PLOT_HEIGHT)
    draw_title(canvas, left, top, title)
    draw_vertical(canvas, plot, vertical, axis)
    return plot


def draw_ending(canvas: Canvas, plot: Plot, low: float, heading: str, entries: Sequence[Entry]) -> float:
    """The horizontal axis's heading and the legend; the height they take."""
    letters = int(plot.width / text_width("x"))
    canvas.text(plot.left + plot.width / 2, low + FONT + 2, shortened(heading, letters), anchor="middle")
    return ROW + 6 + draw_legend(canvas, plot.left, low + ROW + 6, plot.width, entries) + 8


def _horizontal(canvas: Canvas, plot: Plot, chart: Lines) -> tuple[Callable[[float], float], float]:
    """Where an x value is, 0 to 1, after the axis is drawn; and how low its labels reach."""
    if not chart.even:
        scale = scale_for(chart.x, [*chart.xs, *(x for x, _ in chart.marks)])
        return scale.at, draw_numbers(canvas, plot, scale)
    places = {x: (k + 0.5) / len(chart.xs) for k, x in enumerate(chart.xs)}
    for place in places.values():
        canvas.path(f"M{plot.x(place):.1f} {plot.bottom:.1f}v4", INK)
    names = [label_of(x) for x in chart.xs]
    return places.__getitem__, plot.bottom + draw_names(canvas, plot, [plot.x(place) for place in places.values()], names)


def draw_numbers(canvas: Canvas, plot: Plot, scale: Scale) -> float:
    """The numbers of a horizontal axis with their grid lines; how low they reach."""
    ticks = scale.ticks()
    for tick in ticks:
        x = plot.x(scale.at(tick))
        canvas.path(f"M{x:.1f} {plot.top:.1f}V{plot.bottom:.1f}", FAINT if scale.kind == LINEAR else "#eeeeee")
        canvas.path(f"M{x:.1f} {plot.bottom:.1f}v4", INK)
    return plot.bottom + draw_names(canvas, plot, [plot.x(scale.at(tick)) for tick in ticks], [label_of(t) for t in ticks])


def _way(spots: list[tuple[float, float, float, float]], steps: bool, plot: Plot) -> str:
    """The path through the spots; steps keep a value until the next x, and the last to the edge."""
    if not steps:
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in spots) if spots else "M0 0"
    data = f"M{plot.left:.1f} {plot.bottom:.1f}"
    for x, y, _, _ in spots:
        data += f"H{x:.1f}V{y:.1f}"
    return f"{data}H{plot.left + plot.width:.1f}"


