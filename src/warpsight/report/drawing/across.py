"""Bars that lie: stacks beside each other on one scale, and meters of a share each."""

from __future__ import annotations

from math import isfinite

from warpsight.report.drawing.canvas import FONT, Canvas, shortened, text_width
from warpsight.report.drawing.charts import Meters, Series, Stacks
from warpsight.report.drawing.frame import (
    GAP,
    LABEL_LETTERS,
    ROW,
    TITLE_ROOM,
    Entry,
    draw_legend,
    draw_title,
    legend_width,
    title_width,
)
from warpsight.report.drawing.palette import FAINT, INK, PAPER, style_of
from warpsight.report.drawing.scales import label_of, number_text, scale_for

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
