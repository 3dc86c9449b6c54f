"""Bars: by group, side by side or stacked; horizontal stacks on one scale, meters of a share each, and spans of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from warpsight.reports.drawing import frame
from warpsight.reports.drawing.canvas import FAINT, FONT, INK, PAPER, Canvas, Style, shortened, style_of, text_width
from warpsight.reports.drawing.charts import LINEAR, Bars, Meters, Series, Spans, Stacks, Value
from warpsight.reports.drawing.frame import GAP, LABEL_LETTERS, ROW, SMALL, TITLE_ROOM, Entry, Plot, Scale, number_text

_RIGHT = 16.0
_LEAST_WIDTH, _MOST_WIDTH = 380.0, 1800.0
_CUT_ROOM = 42.0  # for the number of a cut bar, turned, above it
_LINE_STYLE = style_of(8)  # black


def draw_bars(canvas: Canvas, top: float, chart: Bars) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    styled = frame.styled(chart.series)
    entries = [Entry(series.name, style) for series, style in styled]
    if chart.line is not None:
        entries.append(Entry(chart.line.name, _LINE_STYLE, line=True, joined=False))
    heights = _heights(chart)
    scale = frame.scale_for(chart.axis, heights)
    cut = any(map(scale.cuts, heights))
    # the numbers of cut bars need a bar's width each
    needed = len(chart.groups) * (24.0 if chart.stacked else 10.0 + (13.0 if cut else 8.0) * len(chart.series))
    width = min(_MOST_WIDTH, max(_LEAST_WIDTH, needed, frame.title_width(chart.title), frame.legend_width(entries)))
    plot = frame.begin_plot(canvas, top, chart.title, chart.axis, scale, width, _CUT_ROOM if cut else 0.0)
    slot = width / max(1, len(chart.groups))
    edges = [plot.left + slot * k for k in range(len(chart.groups) + 1)]
    for group, edge in enumerate(edges[:-1]):
        (_draw_stack if chart.stacked else _draw_group)(plot, chart, group, edge, slot, styled)
        if chart.line is not None:
            _draw_mark(plot, chart, chart.line, group, edge, slot)
    low = plot.bottom + frame.draw_names(canvas, plot.bottom, width, [edge + slot / 2 for edge in edges[:-1]], chart.groups)
    low += _draw_spans(plot, edges, chart.spans, low)
    low += 6 + frame.draw_legend(canvas, plot.left, low + 6, width, entries)
    return plot.left + width + _RIGHT, low + 8 - top


def _heights(chart: Bars) -> list[Value]:
    """Every height that the axis must hold."""
    marks = list(chart.line.values) if chart.line is not None else []
    if not chart.stacked:
        return [*(value for each in chart.series for value in each.values), *marks]
    return [*(sum(each.values[k] or 0.0 for each in chart.series) for k in range(len(chart.groups))), *marks]


def _draw_group(plot: Plot, chart: Bars, group: int, edge: float, slot: float, styled: Sequence[tuple[Series, Style]]) -> None:
    """The bars of a group side by side."""
    width = slot * 0.84 / max(1, len(styled))
    for number, (series, style) in enumerate(styled):
        value, x = series.values[group], edge + (slot - slot * 0.84) / 2 + number * width
        if value is None or not isfinite(value):
            plot.canvas.text(x + width / 2 + 3, plot.y(0) - 3, "none", size=8, turned=True)
            continue
        _draw_bar(plot, (0.0, value), x, width - 1, style, _tip(chart, group, series, value))
        if plot.scale.cuts(value):
            size = min(SMALL, width)
            plot.canvas.text(x + width / 2 + 0.3 * size, plot.top - 4, number_text(value), size=size, turned=True)


def _draw_stack(plot: Plot, chart: Bars, group: int, edge: float, slot: float, styled: Sequence[tuple[Series, Style]]) -> None:
    """The bars of a group on top of each other."""
    width = min(slot * 0.84, 60.0)
    x, height = edge + (slot - width) / 2, 0.0
    for series, style in styled:
        value = _size(series, group)
        if value > 0:
            _draw_bar(plot, (height, height + value), x, width, style, _tip(chart, group, series, value))
            height += value
    if all(series.values[group] is None for series in chart.series):
        plot.canvas.text(x + width / 2 + 3, plot.bottom - 3, "none", size=8, turned=True)
    elif plot.scale.cuts(height):
        plot.canvas.text(x + width / 2 + 3, plot.top - 4, number_text(height), size=SMALL, turned=True)


def _draw_bar(plot: Plot, ends: tuple[float, float], x: float, width: float, style: Style, tip: str) -> None:
    low, high = sorted(map(plot.scale.at, ends))
    y = plot.bottom - high * plot.height
    plot.canvas.rect(x, y, width, (high - low) * plot.height, plot.canvas.fill(style), tip=tip, edge=INK)


def _draw_mark(plot: Plot, chart: Bars, line: Series, group: int, edge: float, slot: float) -> None:
    """The value of `line` across the group."""
    value = line.values[group]
    if value is None or not isfinite(value):
        return
    y = plot.y(value)
    plot.canvas.path(f"M{edge + 1:.1f} {y:.1f}h{slot - 2:.1f}", _LINE_STYLE.colour, width=2)
    plot.canvas.marker(edge + slot / 2, y, _LINE_STYLE, size=3, tip=_tip(chart, group, line, value))


def _tip(chart: Bars, group: int, series: Series, value: float) -> str:
    return f"{chart.groups[group]}, {series.name}: {number_text(value)} {chart.axis.unit}".rstrip()


def _draw_spans(plot: Plot, edges: Sequence[float], spans: Sequence[tuple[str, int]], top: float) -> float:
    """Brackets with names under runs of groups; `edges` are those of the groups. Returns the height they take."""
    if not spans:
        return 0.0
    start = 0
    for name, count in spans:
        if count < 1:
            continue
        left, right = edges[start] + 3, edges[start + count] - 3
        plot.canvas.path(f"M{left:.1f} {top + 3:.1f}v4H{right:.1f}v-4", INK)
        letters = int((right - left) / text_width("x"))
        if letters > 1:
            plot.canvas.text((left + right) / 2, top + 19, shortened(name, letters), anchor="middle")
        if start:
            plot.canvas.path(f"M{edges[start]:.1f} {plot.top:.1f}V{plot.bottom:.1f}", FAINT, dash="4 3")
        start += count
    return ROW + 6


# -- Horizontal bars: stacks on one scale, and meters of a share each.

_BAR, _SLOT, _WIDTH = 18.0, 26.0, 420.0
_METER_STYLE = style_of(4)


def draw_stacks(canvas: Canvas, top: float, chart: Stacks) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    styled = frame.styled(chart.series)
    entries = [Entry(series.name, style) for series, style in styled]
    sums = [sum(_size(series, row) for series in chart.series) for row in range(len(chart.rows))]
    scale, left = frame.scale_for(chart.axis, sums), _names_room(chart.rows)
    width = max(_WIDTH, frame.legend_width(entries))
    frame.draw_title(canvas, left, top, chart.title)
    low = top + TITLE_ROOM
    for tick in scale.ticks():
        x = left + scale.at(tick) * width
        canvas.path(f"M{x:.1f} {low:.1f}v{_SLOT * len(chart.rows):.1f}", INK if tick == 0 else FAINT)
        canvas.text(x, low + _SLOT * len(chart.rows) + GAP + FONT, frame.label_of(tick), anchor="middle")
    for row, name in enumerate(chart.rows):
        y, done = low + row * _SLOT + (_SLOT - _BAR) / 2, 0.0
        canvas.text(left - GAP, y + _BAR - 5, shortened(name, LABEL_LETTERS), anchor="end")
        for series, style in styled:
            size = _size(series, row)
            if size <= 0.0:
                continue
            if done >= scale.most:
                break
            share = f"{100 * size / sums[row]:.1f} %"
            tip = f"{name}, {series.name}: {number_text(size)} {chart.axis.unit or chart.axis.label}, {share}"
            begin, end = scale.at(done), scale.at(done + size)
            canvas.rect(left + begin * width, y, (end - begin) * width, _BAR, canvas.fill(style), tip=tip, edge=INK,
                        hook=f"{row}/{series.name}")  # fmt: skip
            done += size
        end = left + scale.at(done) * width
        if scale.cuts(sums[row]):  # two strokes across its end
            canvas.path(f"M{end - 7:.1f} {y + _BAR + 2:.1f}l5 {-_BAR - 4:.1f}m4 0l-5 {_BAR + 4:.1f}", PAPER, width=2)
        canvas.text(end + GAP, y + _BAR - 5, chart.totals[row])
    low += _SLOT * len(chart.rows) + GAP + ROW
    canvas.text(left + width / 2, low + FONT, chart.axis.heading, anchor="middle")
    low += ROW + GAP
    low += frame.draw_legend(canvas, left, low, width, entries)
    ends = (scale.at(size) * width + GAP + text_width(text) for size, text in zip(sums, chart.totals, strict=True))
    return left + max(width + GAP, max(ends, default=0.0), frame.title_width(chart.title)) + GAP, low - top


def draw_meters(canvas: Canvas, top: float, chart: Meters) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    left = _names_room(meter.name for meter in chart.meters)
    whole = _WIDTH / max([1.0, *(meter.share for meter in chart.meters if isfinite(meter.share))])
    frame.draw_title(canvas, left, top, chart.title)
    low = top + TITLE_ROOM
    for row, meter in enumerate(chart.meters):
        y = low + row * _SLOT + (_SLOT - _BAR) / 2
        canvas.text(left - GAP, y + _BAR - 5, shortened(meter.name, LABEL_LETTERS + 10), anchor="end")
        canvas.rect(left, y, whole, _BAR, FAINT)
        canvas.rect(left, y, meter.share * whole, _BAR, _METER_STYLE.colour, tip=f"{meter.name}: {meter.text}", edge=INK)
        canvas.text(left + _WIDTH + GAP, y + _BAR - 5, meter.text)
    height = _SLOT * len(chart.meters)
    canvas.path(f"M{left + whole:.1f} {low:.1f}v{height:.1f}", INK, dash="4 3")
    canvas.text(left + whole, low + height + FONT, "100 %", anchor="end")
    widest = max((text_width(meter.text) for meter in chart.meters), default=0.0)
    return left + max(_WIDTH + GAP + widest, frame.title_width(chart.title)) + GAP, TITLE_ROOM + height + ROW


_SPANS_WIDTH, _SEEN, _EDGED = 900.0, 0.5, 4.0  # with the least width of a span, and that from which it has an edge


def draw_spans(canvas: Canvas, top: float, chart: Spans) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    styles = [style_of(number) for number in range(len(chart.names))]
    scale, left, low = Scale(LINEAR, 0.0, chart.end), _names_room(chart.rows), top + TITLE_ROOM
    height = _SLOT * len(chart.rows)
    frame.draw_title(canvas, left, top, chart.title)
    for tick in scale.ticks():
        x = left + scale.at(tick) * _SPANS_WIDTH
        canvas.path(f"M{x:.1f} {low:.1f}v{height:.1f}", INK if tick == 0 else FAINT)
        canvas.text(x, low + height + GAP + FONT, frame.label_of(tick), anchor="middle")
    for row, (name, spans) in enumerate(zip(chart.rows, chart.spans, strict=True)):
        y = low + row * _SLOT + (_SLOT - _BAR) / 2
        canvas.text(left - GAP, y + _BAR - 5, shortened(name, LABEL_LETTERS + 10), anchor="end")
        for span in spans:
            begin, end = (scale.at(each) * _SPANS_WIDTH for each in (span.begin, span.end))
            edge, fill = INK if end - begin >= _EDGED else "", canvas.fill(styles[span.name])
            canvas.rect(left + begin, y, max(end - begin, _SEEN), _BAR, fill, tip=span.tip, edge=edge)
    low += height + GAP + ROW
    canvas.text(left + _SPANS_WIDTH / 2, low + FONT, chart.axis.heading, anchor="middle")
    low += ROW + GAP
    low += frame.draw_legend(canvas, left, low, _SPANS_WIDTH, [Entry(*each) for each in zip(chart.names, styles, strict=True)])
    return left + max(_SPANS_WIDTH, frame.title_width(chart.title)) + _RIGHT, low - top


def _size(series: Series, row: int) -> float:
    value = series.values[row]
    return value if value is not None and isfinite(value) else 0.0


def _names_room(names: Iterable[str]) -> float:
    return max((text_width(shortened(name, LABEL_LETTERS + 10)) for name in names), default=0.0) + 2 * GAP
