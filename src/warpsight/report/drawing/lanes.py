"""The accesses of a warp's lanes: lanes on top, the lines that they touch below, each with its sectors."""

from __future__ import annotations

from collections.abc import Iterable

from warpsight.report.drawing.canvas import FONT, Canvas, text_width
from warpsight.report.drawing.charts import Lanes
from warpsight.report.drawing.frame import ROW, TITLE_ROOM, Plot, draw_names, draw_title, title_width
from warpsight.report.drawing.palette import FAINT, INK, style_of

_LANE, _LANE_HEIGHT = 20.0, 18.0
_BETWEEN, _LINE_HEIGHT = 84.0, 16.0
_MOST_LINES, _WIDEST_LINE = 64, 160.0
_SMALL = 9.0
_LANE_STYLE, _SECTOR_STYLE = 4, 1

Box = tuple[float, float, float, float]


def draw_lanes(canvas: Canvas, top: float, chart: Lanes) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    left, width = 8.0, _LANE * 32
    draw_title(canvas, left, top, chart.title)
    low = top + TITLE_ROOM
    lines = sorted({sector * chart.sector_bytes // chart.line_bytes for sector in chart.sectors})
    shown = lines[:_MOST_LINES]
    slot = width / len(shown) if shown else width
    wide = min(slot - 3, _WIDEST_LINE)
    place = {line: left + slot * k + (slot - wide) / 2 for k, line in enumerate(shown)}
    below = low + (_LANE_HEIGHT + _BETWEEN if chart.lanes else ROW)
    if chart.lanes:
        _draw_joins(canvas, chart, (left, low + _LANE_HEIGHT), place, wide, below)
        _draw_row(canvas, chart, left, low)
    _draw_lines(canvas, chart, place, wide, below)
    plot = Plot(left, below, width, _LINE_HEIGHT)
    names = [f"{(line - shown[0]) * chart.line_bytes:,}" for line in shown]
    high = plot.bottom + draw_names(canvas, plot, [place[line] + wide / 2 for line in shown], names)
    text = f"lines of {chart.line_bytes} B, by their distance from the first in bytes"
    if len(lines) > len(shown):
        text += f"; {len(lines) - len(shown)} more are not drawn"
    canvas.text(left + width / 2, high + FONT, text, anchor="middle")
    return left + max(width, title_width(chart.title), text_width(text)) + left, high + ROW - top


def _draw_row(canvas: Canvas, chart: Lanes, left: float, top: float) -> None:
    """The lanes' boxes, those not active crossed out, every fourth with its number."""
    boxes = [(left + _LANE * lane + 1, top, _LANE - 2, _LANE_HEIGHT) for lane in range(len(chart.lanes))]
    active = [box for box, byte in zip(boxes, chart.lanes, strict=True) if byte is not None]
    idle = [box for box, byte in zip(boxes, chart.lanes, strict=True) if byte is None]
    if active:
        canvas.path(_boxes(active), INK, width=0.6, fill=style_of(_LANE_STYLE).colour)
    if idle:
        crosses = "".join(f"M{x:.1f} {y:.1f}l{w:.1f} {h:.1f}m0 {-h:.1f}l{-w:.1f} {h:.1f}" for x, y, w, h in idle)
        canvas.path(_boxes(idle) + crosses, INK, width=0.6)
    for lane in range(0, len(boxes), 4):
        x, y, wide, high = boxes[lane]
        if chart.lanes[lane] is not None:
            # on the lane's own colour, which is light in any theme
            canvas.text(x + wide / 2, y + high - 5, str(lane), size=_SMALL, anchor="middle", colour="#111111")


def _draw_joins(
    canvas: Canvas, chart: Lanes, start: tuple[float, float], place: dict[int, float], wide: float, below: float
) -> None:
    """From the middle of each active lane to the middle of the bytes that it accesses."""
    data = ""
    for lane, byte in enumerate(chart.lanes):
        if byte is None or byte // chart.line_bytes not in place:
            continue
        line = byte // chart.line_bytes
        end = place[line] + min(byte % chart.line_bytes + chart.access_bytes / 2, chart.line_bytes) / chart.line_bytes * wide
        data += f"M{start[0] + _LANE * (lane + 0.5):.0f} {start[1]:.0f}L{end:.1f} {below:.0f}"
    if data:
        canvas.path(data, INK, width=0.8)


def _draw_lines(canvas: Canvas, chart: Lanes, place: dict[int, float], wide: float, below: float) -> None:
    """A box for each line, its sectors parted; those that are accessed filled."""
    parts = chart.line_bytes // chart.sector_bytes
    width = wide / parts
    touched = set(chart.sectors)
    groups: dict[bool, list[Box]] = {True: [], False: []}
    for line, x in place.items():
        for part in range(parts):
            groups[line * parts + part in touched].append((x + part * width, below, width, _LINE_HEIGHT))
    if groups[False]:
        canvas.path(_boxes(groups[False]), INK, width=0.6, fill=FAINT)
    if groups[True]:
        canvas.path(_boxes(groups[True]), INK, width=0.6, fill=style_of(_SECTOR_STYLE).colour)


def _boxes(boxes: Iterable[Box]) -> str:
    """Rectangles of one path, each placed from the one before."""
    data, at = "", (0.0, 0.0)
    for x, y, w, h in boxes:
        # from places as they are written, so that rounding does not add up
        step = round(x, 1) - at[0], round(y, 1) - at[1]
        at = round(x, 1), round(y, 1)
        data += f"m{_short(step[0])} {_short(step[1])}h{_short(w)}v{_short(h)}h{_short(-w)}z"
    return data


def _short(number: float) -> str:
    text = f"{number:.1f}"
    return text[:-2] if text.endswith(".0") else text
