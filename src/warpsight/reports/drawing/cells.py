"""Charts of cells: heat maps, rows of states over time, and the lines and sectors that the lanes of a warp access."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from warpsight.reports.drawing import frame
from warpsight.reports.drawing.canvas import FAINT, FONT, INK, PAPER, Canvas, luminance, shade, shortened, style_of, text_width
from warpsight.reports.drawing.charts import HeatMap, Lanes, Strips
from warpsight.reports.drawing.frame import GAP, LABEL_LETTERS, ROW, SMALL, TITLE_ROOM

_CELL_HEIGHT, _LEAST_CELL = 30.0, 58.0
_LETTERS = 16
# White and black have the same contrast on this luminance, 4.5 (WCAG 2.1).
_DARK, _BLACK = 0.179, "#000000"


def draw_heat_map(canvas: Canvas, top: float, chart: HeatMap) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    rows = [shortened(name, _LETTERS) for name in chart.rows]
    columns = [shortened(name, _LETTERS) for name in chart.columns]
    left = 24.0 + max((text_width(name) for name in rows), default=0.0) + GAP
    values = [value for row in chart.values for value in row]
    words = sorted({value for value in values if isinstance(value, str)})
    cell = max([_LEAST_CELL, *(text_width(shortened(name, _LETTERS)) + 10 for name in [*columns, *words])])
    upper = top + TITLE_ROOM
    numbers = [value for value in values if value is not None and not isinstance(value, str) and isfinite(value)]
    most = chart.most if chart.most is not None else max(numbers, default=1.0)
    frame.draw_title(canvas, 4, top, chart.title)
    heading = shortened(chart.y.heading, LABEL_LETTERS)
    # rows grow if they are too few for the heading beside them
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
                colour, text = style_of(words.index(value)).colour, value
            else:
                colour, text = shade(value / most if most > 0 else 0.0), frame.number_text(value)
            tip = f"{chart.rows[r]}, {column}: {text} {chart.unit}".rstrip()
            hook = chart.hooks[r][c] if chart.hooks else ""
            canvas.rect(x, y, cell, tall, colour, tip=tip, edge=PAPER, fixed=True, hook=hook)
            ink = PAPER if luminance(colour) < _DARK else _BLACK
            canvas.text(x + cell / 2, y + tall / 2 + 4, shortened(text, _LETTERS), anchor="middle", colour=ink, fixed=True)
    low = upper + height
    for c, name in enumerate(columns):
        canvas.text(left + cell * (c + 0.5), low + GAP + FONT, name, anchor="middle")
    width = max(left + cell * len(columns), frame.title_width(chart.title) + 4, text_width(chart.x.heading))
    canvas.text(left, low + 2 * ROW, chart.x.heading)
    return max(width, left + text_width(chart.x.heading)) + 16, low + 2 * ROW + 14 - top


# -- Rows of states over time, each state with a letter, a colour and a height.

_STEP, _STRIP, _STRIP_GAP = 9.0, 13.0, 3.0
_TICKS = 10  # steps from one tick to the next


def draw_strips(canvas: Canvas, top: float, chart: Strips) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    names = [shortened(name, LABEL_LETTERS) for name in chart.rows]
    left = max(map(text_width, names), default=0.0) + 2 * GAP
    steps = max((sum(count for _, count in runs) for runs in chart.runs), default=0)
    low, high = top + TITLE_ROOM, (_STRIP + _STRIP_GAP) * len(names)
    frame.draw_title(canvas, left, top, chart.title)
    for tick in range(-(-chart.begin // _TICKS) * _TICKS, chart.begin + steps + 1, _TICKS):
        x = left + (tick - chart.begin) * _STEP
        canvas.path(f"M{x:.1f} {low:.1f}v{high:.1f}", FAINT)
        canvas.text(x, low + high + FONT + 2, f"{tick:,}", anchor="middle")
    known = {state.letter: state for state in chart.states}
    for row, (name, runs) in enumerate(zip(names, chart.runs, strict=True)):
        y, x = low + row * (_STRIP + _STRIP_GAP), left
        canvas.text(left - GAP, y + _STRIP - 3, name, anchor="end")
        for letter, count in runs:
            if letter in known:
                state = known[letter]
                room = state.height * _STRIP
                canvas.rect(x, y + _STRIP - room, count * _STEP, room, state.colour, edge=INK)
                # an ink of its own, since the colour is the same in every theme
                ink = "#1b1f24" if luminance(state.colour) > 0.2 else "#fffffe"
                canvas.text(x + _STEP / 2, y + _STRIP - 3, letter, size=SMALL, anchor="middle", colour=ink)
            x += count * _STEP
    low += high + ROW
    canvas.text(left + steps * _STEP / 2, low + FONT, chart.axis.heading, anchor="middle")
    return max(left + steps * _STEP, frame.title_width(chart.title) + left) + 3 * GAP, low + ROW - top


# -- The accesses of a warp's lanes: lanes on top, the lines that they touch below, each with its sectors.

_LANE, _LANE_HEIGHT = 20.0, 18.0
_LANES_GAP, _LINE_HEIGHT = 84.0, 16.0
_MOST_LINES, _WIDEST_LINE = 64, 160.0
_SMALL = 9.0
_LANE_STYLE, _SECTOR_STYLE = 4, 1

Box = tuple[float, float, float, float]


def draw_lanes(canvas: Canvas, top: float, chart: Lanes) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    left, width = 8.0, _LANE * 32
    frame.draw_title(canvas, left, top, chart.title)
    low = top + TITLE_ROOM
    lines = sorted({sector * chart.sector_bytes // chart.line_bytes for sector in chart.sectors})
    shown = lines[:_MOST_LINES]
    slot = width / len(shown) if shown else width
    wide = min(slot - 3, _WIDEST_LINE)
    place = {line: left + slot * k + (slot - wide) / 2 for k, line in enumerate(shown)}
    below = low + (_LANE_HEIGHT + _LANES_GAP if chart.lanes else ROW)
    if chart.lanes:
        _draw_joins(canvas, chart, left, low + _LANE_HEIGHT, place, wide, below)
        _draw_row(canvas, chart, left, low)
    _draw_lines(canvas, chart, place, wide, below)
    names = [f"{(line - shown[0]) * chart.line_bytes:,}" for line in shown]
    bottom = below + _LINE_HEIGHT
    bottom += frame.draw_names(canvas, bottom, width, [x + wide / 2 for x in place.values()], names)
    text = f"lines of {chart.line_bytes} B, by their distance from the first in bytes"
    if len(lines) > len(shown):
        text += f"; {len(lines) - len(shown)} more are not drawn"
    canvas.text(left + width / 2, bottom + FONT, text, anchor="middle")
    return left + max(width, frame.title_width(chart.title), text_width(text)) + left, bottom + ROW - top


def _draw_row(canvas: Canvas, chart: Lanes, left: float, top: float) -> None:
    """The boxes of the lanes, inactive ones crossed out, every fourth with its number."""
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
    canvas: Canvas, chart: Lanes, left: float, top: float, place: dict[int, float], wide: float, below: float
) -> None:
    """A line from the middle of each active lane to the middle of the bytes that it accesses."""
    data = ""
    for lane, byte in enumerate(chart.lanes):
        if byte is None or byte // chart.line_bytes not in place:
            continue
        line = byte // chart.line_bytes
        end = place[line] + min(byte % chart.line_bytes + chart.access_bytes / 2, chart.line_bytes) / chart.line_bytes * wide
        data += f"M{left + _LANE * (lane + 0.5):.0f} {top:.0f}L{end:.1f} {below:.0f}"
    if data:
        canvas.path(data, INK, width=0.8)


def _draw_lines(canvas: Canvas, chart: Lanes, place: dict[int, float], wide: float, below: float) -> None:
    """A box for each sector of each line; those that are accessed are filled."""
    sectors = chart.line_bytes // chart.sector_bytes
    width, accessed = wide / sectors, set(chart.sectors)
    boxes = {line * sectors + n: (x + n * width, below, width, _LINE_HEIGHT) for line, x in place.items() for n in range(sectors)}
    for filled, fill in ((False, FAINT), (True, style_of(_SECTOR_STYLE).colour)):
        group = [box for sector, box in boxes.items() if (sector in accessed) == filled]
        if group:
            canvas.path(_boxes(group), INK, width=0.6, fill=fill)


def _boxes(boxes: Iterable[Box]) -> str:
    """Rectangles of one path, each placed relative to the one before."""
    data, before_x, before_y = "", 0.0, 0.0
    for x, y, w, h in boxes:
        # from rounded places, so that errors do not add up
        data += f"m{_short(round(x, 1) - before_x)} {_short(round(y, 1) - before_y)}h{_short(w)}v{_short(h)}h{_short(-w)}z"
        before_x, before_y = round(x, 1), round(y, 1)
    return data


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
