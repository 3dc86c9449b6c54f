"""Bars: by group, side by side or stacked; horizontal stacks on one scale, and meters of a share each."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from warpsight.reports.drawing.canvas import FAINT, FONT, INK, PAPER, Canvas, Style, shortened, style_of, text_width
from warpsight.reports.drawing.charts import Bars, Meters, Series, Stacks, Value
from warpsight.reports.drawing.frame import (
    GAP,
    LABEL_LETTERS,
    PLOT_HEIGHT,
    ROW,
    SMALL,
    TITLE_ROOM,
    Entry,
    Plot,
    Scale,
    draw_legend,
    draw_names,
    draw_spans,
    draw_title,
    draw_vertical,
    label_of,
    left_room,
    legend_width,
    number_text,
    scale_for,
    title_width,
)

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


# -- Bars that lie: stacks beside each other on one scale, and meters of a share each.

_BAR, _SLOT, _INNER = 18.0, 26.0, 420.0
_METER_STYLE = 4


def draw_stacks(canvas: Canvas, top: float, chart: Stacks) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    styles = [style_of(place if each.style is None else each.style) for place, each in enumerate(chart.series)]
    entries = [Entry(each.name, style) for each, style in zip(chart.series, styles, strict=True)]
    sums = [sum(_size(each, row) for each in chart.series) for row in range(len(chart.rows))]
    scale, left = scale_for(chart.axis, sums), _names_room(list(chart.rows))
    inner = max(_INNER, legend_width(entries))
    draw_title(canvas, left, top, chart.title)
    low = top + TITLE_ROOM
    for tick in scale.ticks():
        x = left + scale.at(tick) * inner
        canvas.path(f"M{x:.1f} {low:.1f}v{_SLOT * len(chart.rows):.1f}", INK if tick == 0 else FAINT)
        canvas.text(x, low + _SLOT * len(chart.rows) + GAP + FONT, label_of(tick), anchor="middle")
    for row, name in enumerate(chart.rows):
        y, done = low + row * _SLOT + (_SLOT - _BAR) / 2, 0.0
        canvas.text(left - GAP, y + _BAR - 5, shortened(name, LABEL_LETTERS), anchor="end")
        for each, style in zip(chart.series, styles, strict=True):
            size = _size(each, row)
            if size <= 0.0:
                continue
            if done >= scale.most:
                break
            share = f"{100 * size / sums[row]:.1f} %"
            tip = f"{name}, {each.name}: {number_text(size)} {chart.axis.unit or chart.axis.label}, {share}"
            begin, end = scale.at(done), scale.at(done + size)
            canvas.rect(left + begin * inner, y, (end - begin) * inner, _BAR, canvas.fill(style), tip=tip, edge=INK,
                        hook=f"{row}/{each.name}")  # fmt: skip
            done += size
        end = left + scale.at(done) * inner
        if sums[row] > scale.most * (1 + 1e-9):  # cut: two strokes across its end
            canvas.path(f"M{end - 7:.1f} {y + _BAR + 2:.1f}l5 {-_BAR - 4:.1f}m4 0l-5 {_BAR + 4:.1f}", PAPER, width=2)
        canvas.text(end + GAP, y + _BAR - 5, chart.totals[row])
    low += _SLOT * len(chart.rows) + GAP + ROW
    canvas.text(left + inner / 2, low + FONT, chart.axis.heading, anchor="middle")
    low += ROW + GAP
    low += draw_legend(canvas, left, low, inner, entries)
    ends = (scale.at(size) * inner + GAP + text_width(text) for size, text in zip(sums, chart.totals, strict=True))
    behind = max(ends, default=0.0)
    return left + max(inner + GAP, behind, title_width(chart.title)) + GAP, low - top


def draw_meters(canvas: Canvas, top: float, chart: Meters) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    left = _names_room([meter.name for meter in chart.meters])
    most = max([1.0, *(meter.share for meter in chart.meters if isfinite(meter.share))])
    whole = _INNER / most
    draw_title(canvas, left, top, chart.title)
    low = top + TITLE_ROOM
    style = style_of(_METER_STYLE)
    for row, meter in enumerate(chart.meters):
        y = low + row * _SLOT + (_SLOT - _BAR) / 2
        canvas.text(left - GAP, y + _BAR - 5, shortened(meter.name, LABEL_LETTERS + 10), anchor="end")
        canvas.rect(left, y, whole, _BAR, FAINT)
        canvas.rect(left, y, meter.share * whole, _BAR, style.colour, tip=f"{meter.name}: {meter.text}", edge=INK)
        canvas.text(left + _INNER + GAP, y + _BAR - 5, meter.text)
    height = _SLOT * len(chart.meters)
    canvas.path(f"M{left + whole:.1f} {low:.1f}v{height:.1f}", INK, dash="4 3")
    canvas.text(left + whole, low + height + FONT, "100 %", anchor="end")
    behind = max((text_width(meter.text) for meter in chart.meters), default=0.0)
    return left + max(_INNER + GAP + behind, title_width(chart.title)) + GAP, TITLE_ROOM + height + ROW


def _size(series: Series, row: int) -> float:
    value = series.values[row]
    return value if value is not None and isfinite(value) else 0.0


def _names_room(names: list[str]) -> float:
    return max((text_width(shortened(name, LABEL_LETTERS + 10)) for name in names), default=0.0) + 2 * GAP
