"""Curves, steps and clouds of points over a horizontal axis of numbers, and rooflines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, isfinite, log2, log10

from warpsight.reports.drawing import frame
from warpsight.reports.drawing.canvas import FAINT, FONT, INK, Canvas, shortened, style_of, text_width
from warpsight.reports.drawing.charts import LINEAR, LOG, Axis, Lines, Roofline, Scatter, StepCurve, Value
from warpsight.reports.drawing.frame import GAP, LABEL_LETTERS, ROW, SMALL, Entry, Plot, Scale, label_of, number_text, scale_for

_WIDTH, _RIGHT = 560.0, 24.0


def draw_lines(canvas: Canvas, top: float, chart: Lines) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    styled = frame.styled(chart.series)
    entries = [Entry(series.name, style, True, chart.joined) for series, style in styled]
    plot = _plot(canvas, top, chart.title, chart.y, [value for series in chart.series for value in series.values], entries)
    place_of, low = _horizontal(plot, chart)
    for x, name in chart.marks:
        middle, right = plot.x(place_of(x)), place_of(x) > 0.6
        canvas.path(f"M{middle:.1f} {plot.top:.1f}V{plot.bottom:.1f}", INK, dash="4 3")
        text = shortened(name, LABEL_LETTERS)
        canvas.text(middle + (-4 if right else 4), plot.top + FONT, text, anchor="end" if right else "start")
    for series, style in styled:
        points = [
            (plot.x(place_of(x)), plot.y(value), x, value)
            for x, value in zip(chart.xs, series.values, strict=True)
            if value is not None and isfinite(value)
        ]
        if chart.joined or chart.steps:
            canvas.path(_path([point[:2] for point in points], chart.steps, plot), style.colour, width=2, dash=style.dash)
        # many steps make a curve of their own, which markers would hide
        for left, upper, x, value in points if not chart.steps else ():
            tip = f"{series.name}, {label_of(x)} {chart.x.unit}: {number_text(value)} {chart.y.unit}".rstrip()
            canvas.marker(left, upper, style, tip=tip)
    low += _draw_ending(plot, low, chart.x.heading, entries if not chart.steps or len(entries) > 1 else [])
    return plot.left + plot.width + _RIGHT, low - top


def draw_scatter(canvas: Canvas, top: float, chart: Scatter) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    entries = [Entry(name, style_of(number), True, False) for number, (name, _) in enumerate(chart.series)]
    dots = [dot for _, each in chart.series for dot in each]
    both = [value for dot in dots for value in (dot.x, dot.y)] if chart.diagonal else []
    plot = _plot(canvas, top, chart.title, chart.y, [*(dot.y for dot in dots), *both], entries)
    across, up = scale_for(chart.x, [*(dot.x for dot in dots), *both]), plot.scale
    low = _draw_numbers(plot, across)
    if chart.diagonal:
        ends = [max(across.least, up.least), min(across.most, up.most)]
        path = "L".join(f"{plot.x(across.at(end)):.1f} {plot.y(end):.1f}" for end in ends)
        canvas.path(f"M{path}", INK, dash="4 3")
    for number, (name, each) in enumerate(chart.series):
        style = style_of(number)
        points = [(plot.x(across.at(dot.x)), plot.y(dot.y)) for dot in each]
        if number == chart.front and each:
            path = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:])
            canvas.path(f"{path}H{plot.left + plot.width:.1f}", style.colour, width=1.5)
        for dot, (x, y) in zip(each, points, strict=True):
            tip = f"{dot.name}, {name}: {number_text(dot.x)} {chart.x.unit}, {number_text(dot.y)} {chart.y.unit}"
            canvas.marker(x, y, style, tip=tip, hook=dot.hook)
    low += _draw_ending(plot, low, chart.x.heading, entries)
    # the last number is centred on the right edge
    return plot.left + plot.width + max(_RIGHT, text_width(label_of(across.most)) / 2), low - top


def _plot(canvas: Canvas, top: float, title: str, axis: Axis, values: Sequence[Value], entries: Sequence[Entry]) -> Plot:
    width = max(_WIDTH, frame.title_width(title), frame.legend_width(entries))
    return frame.begin_plot(canvas, top, title, axis, scale_for(axis, values), width)


def _draw_ending(plot: Plot, low: float, heading: str, entries: Sequence[Entry]) -> float:
    """The heading of the horizontal axis and the legend; the height they take."""
    letters = int(plot.width / text_width("x"))
    plot.canvas.text(plot.left + plot.width / 2, low + FONT + 2, shortened(heading, letters), anchor="middle")
    return ROW + 6 + frame.draw_legend(plot.canvas, plot.left, low + ROW + 6, plot.width, entries) + 8


def _horizontal(plot: Plot, chart: Lines) -> tuple[Callable[[float], float], float]:
    """Draws the horizontal axis; the function from an x value to its place (0 to 1), and how low the labels reach."""
    if not chart.even:
        scale = scale_for(chart.x, [*chart.xs, *(x for x, _ in chart.marks)])
        return scale.at, _draw_numbers(plot, scale)
    places = {x: (k + 0.5) / len(chart.xs) for k, x in enumerate(chart.xs)}
    for place in places.values():
        plot.canvas.path(f"M{plot.x(place):.1f} {plot.bottom:.1f}v4", INK)
    return places.__getitem__, _draw_names(plot, places.values(), chart.xs)


def _draw_numbers(plot: Plot, scale: Scale) -> float:
    """The numbers of a horizontal axis with their grid lines; how low they reach."""
    ticks = scale.ticks()
    for tick in ticks:
        x = plot.x(scale.at(tick))
        plot.canvas.path(f"M{x:.1f} {plot.top:.1f}V{plot.bottom:.1f}", FAINT if scale.kind == LINEAR else "#eeeeee")
        plot.canvas.path(f"M{x:.1f} {plot.bottom:.1f}v4", INK)
    return _draw_names(plot, map(scale.at, ticks), ticks)


def _draw_names(plot: Plot, places: Iterable[float], values: Sequence[float]) -> float:
    """The labels of `values` at `places`; how low they reach."""
    centres, names = [plot.x(place) for place in places], [label_of(value) for value in values]
    return plot.bottom + frame.draw_names(plot.canvas, plot.bottom, plot.width, centres, names)


def _path(points: list[tuple[float, float]], steps: bool, plot: Plot) -> str:
    """The path through the points; steps keep a value until the next x, and the last to the edge."""
    if not steps:
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) if points else "M0 0"
    data = "".join(f"H{x:.1f}V{y:.1f}" for x, y in points)
    return f"M{plot.left:.1f} {plot.bottom:.1f}{data}H{plot.left + plot.width:.1f}"


# -- A small curve of whole numbers that change in steps, with the present point.

_SMALL_WIDTH, _SMALL_HEIGHT, _MOST_INTERVALS = 132.0, 84.0, 4


def draw_step_curve(canvas: Canvas, top: float, chart: StepCurve) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    left = 2 * GAP + text_width(label_of(chart.highest))
    plot = Plot(canvas, left, top + ROW, _SMALL_WIDTH, Scale(LINEAR, 0.0, 1.1 * chart.highest), _SMALL_HEIGHT)
    across = Scale(LINEAR, 0.0, chart.end)
    canvas.text(0, top + FONT, shortened(chart.title, int((left + plot.width) / text_width("x"))), bold=True)
    for tick in (0.0, chart.highest / 2, chart.highest):
        canvas.path(f"M{left:.1f} {plot.y(tick):.1f}h{plot.width:.1f}", FAINT if tick else INK)
        canvas.text(left - GAP, plot.y(tick) + 4, label_of(tick), anchor="end", size=SMALL)
    step = 2.0 ** ceil(log2(max(chart.end, 1.0) / _MOST_INTERVALS))
    for tick in (k * step for k in range(int(chart.end / step) + 1)):
        canvas.path(f"M{plot.x(across.at(tick)):.1f} {plot.bottom:.1f}v3", INK)
        canvas.text(plot.x(across.at(tick)), plot.bottom + SMALL + 4, label_of(tick), anchor="middle", size=SMALL)
    (first, value), *later = chart.steps
    data = "".join(f"H{plot.x(across.at(x)):.1f}V{plot.y(each):.1f}" for x, each in later)
    start = f"M{plot.x(across.at(first)):.1f} {plot.y(value):.1f}"
    canvas.path(f"{start}{data}H{plot.x(across.at(chart.end)):.1f}", style_of(0).colour, width=2)
    x, value = plot.x(across.at(chart.own[0])), chart.own[1]
    canvas.path(f"M{x:.1f} {plot.top:.1f}V{plot.bottom:.1f}", INK, dash="3 3")
    tip = f"{label_of(chart.own[0])} {chart.x.label}: {label_of(value)} {chart.y.label}"
    canvas.marker(x, plot.y(value), style_of(3), size=4, tip=tip)
    return left + plot.width + 3 * GAP, ROW + plot.height + SMALL + GAP


# -- Rooflines: slopes of memory levels under ceilings of computing, and the rate of a launch at each level.

_ROOFLINE_WIDTH = 420.0
_CEILING_STYLE = style_of(8)


def draw_roofline(canvas: Canvas, top: float, chart: Roofline) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height. The axes hold all points, knees and ceilings."""
    highest = max(ceiling.value for ceiling in chart.ceilings)
    knees = [highest / slope.value for slope in chart.slopes]
    xs, ys = [*(work.per_byte for work in chart.works), *knees], [*(work.rate for work in chart.works), highest]
    across = scale_for(Axis("", scale=LOG), [min(xs) / 2, max(xs) * 4])
    up = scale_for(Axis("", scale=LOG), [10 ** (log10(min(ys)) - 0.3), highest * 1.2])
    styles = [style_of(number) for number in range(len(chart.slopes))]
    entries = [Entry(f"{slope.name}: {number_text(slope.value)} GB/s", style, True)
               for slope, style in zip(chart.slopes, styles, strict=True)]  # fmt: skip
    entries += [Entry(f"{each.name}: {number_text(each.value)}", _CEILING_STYLE, True, True) for each in chart.ceilings]
    plot = frame.begin_plot(canvas, top, chart.title, chart.y, up, max(_ROOFLINE_WIDTH, frame.legend_width(entries[:2])))
    low = _draw_numbers(plot, across)
    for ceiling in chart.ceilings:
        tip = f"{ceiling.name}: {number_text(ceiling.value)} {chart.y.heading}"
        canvas.path(f"M{plot.left:.1f} {plot.y(ceiling.value):.1f}h{plot.width:.1f}", _CEILING_STYLE.colour, width=2, tip=tip)
    for slope, style in zip(chart.slopes, styles, strict=True):
        begin = max(across.least, up.least / slope.value)
        end = min(across.most, highest / slope.value)
        if end > begin:
            data = "L".join(f"{plot.x(across.at(x)):.1f} {plot.y(x * slope.value):.1f}" for x in (begin, end))
            canvas.path(f"M{data}", style.colour, width=2, dash=style.dash, tip=f"{slope.name}: {number_text(slope.value)} GB/s")
    for work, style in zip(chart.works, styles, strict=True):
        tip = f"{work.name}: {number_text(work.per_byte)} {chart.x.label}, {number_text(work.rate)} {chart.y.label}"
        canvas.marker(plot.x(across.at(work.per_byte)), plot.y(work.rate), style, size=5, tip=tip)
    low += _draw_ending(plot, low, chart.x.heading, entries)
    return plot.left + plot.width + _RIGHT, low - top
