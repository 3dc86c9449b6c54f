"""Curves, steps and clouds of points over a horizontal axis of numbers, and rooflines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, log10

from warpsight.reports.drawing.canvas import FAINT, FONT, INK, Canvas, shortened, style_of, text_width
from warpsight.reports.drawing.charts import LINEAR, LOG, Axis, Lines, Roofline, Scatter
from warpsight.reports.drawing.frame import (
    LABEL_LETTERS,
    PLOT_HEIGHT,
    ROW,
    TITLE_ROOM,
    Entry,
    Plot,
    Scale,
    draw_legend,
    draw_names,
    draw_title,
    draw_vertical,
    label_of,
    left_room,
    legend_width,
    number_text,
    scale_for,
    title_width,
)

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


# -- Rooflines: slopes of memory levels under ceilings of computing, and where a launch is at each level.

_ROOFLINE_WIDTH, _ROOFLINE_RIGHT = 420.0, 24.0
_CEILING_STYLE = 8


def draw_roofline(canvas: Canvas, top: float, chart: Roofline) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    across, up = _scales(chart)
    styles = [style_of(place) for place in range(len(chart.slopes))]
    entries = [Entry(f"{slope.name}: {number_text(slope.value)} GB/s", style, True)
               for slope, style in zip(chart.slopes, styles, strict=True)]  # fmt: skip
    black = style_of(_CEILING_STYLE)
    entries += [Entry(f"{each.name}: {number_text(each.value)}", black, True, True) for each in chart.ceilings]
    plot = Plot(left_room(up), top + TITLE_ROOM, max(_ROOFLINE_WIDTH, legend_width(entries[:2])), PLOT_HEIGHT)
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
    return plot.left + plot.width + _ROOFLINE_RIGHT, low - top


def _scales(chart: Roofline) -> tuple[Scale, Scale]:
    """Axes that hold all points, every knee and the ceilings."""
    highest = max(each.value for each in chart.ceilings)
    knees = [highest / slope.value for slope in chart.slopes]
    xs, ys = [*(work.per_byte for work in chart.works), *knees], [*(work.rate for work in chart.works), highest]
    across = scale_for(Axis("", scale=LOG), [min(xs) / 2, max(xs) * 4])
    up = scale_for(Axis("", scale=LOG), [10 ** (log10(min(ys)) - 0.3), highest * 1.2])
    return across, up
