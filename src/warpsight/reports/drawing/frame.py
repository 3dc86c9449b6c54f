"""What charts share: scales from values to places with round numbers, the room that charts draw in, axes, titles, legends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, isfinite, log10

from warpsight.reports.drawing.canvas import FAINT, FONT, INK, Canvas, Style, shortened, text_width
from warpsight.reports.drawing.charts import LINEAR, LOG, LOG_FROM_0, Axis, Value

_MOST_TICKS = 12
_NOTHING = 1e-290  # below it a double has not the digits that a step needs


@dataclass(frozen=True)
class Scale:
    """Values from `least` to `most` onto places from 0 to 1. Outside, the nearer end."""

    kind: str
    least: float
    most: float

    def at(self, value: float) -> float:
        """The place of `value`."""
        low, high, here = (self._even(each) for each in (self.least, self.most, value))
        return min(1.0, max(0.0, (here - low) / (high - low)))

    def _even(self, value: float) -> float:
        if self.kind == LINEAR:
            return value
        if self.kind == LOG:
            return log10(max(value, self.least))
        # one step from 0 to 1, then one for each doubling
        return value if value < 1 else 1 + log10(value) / log10(2)

    def ticks(self) -> list[float]:
        """Round values within, in order."""
        if self.kind == LOG:
            return _powers(self.least, self.most)
        if self.kind == LOG_FROM_0:
            doublings = [2.0**k for k in range(64) if 2.0**k <= self.most]
            return doublings[:: ceil(len(doublings) / _MOST_TICKS) or 1]
        step = _step(self.most - self.least)
        first = ceil(self.least / step - 1e-9)
        return [k * step for k in range(first, floor(self.most / step + 1e-9) + 1)]


def scale_for(axis: Axis, values: Iterable[Value]) -> Scale:
    """A scale that holds the values, from 0 where it is linear and none is negative, up to the axis's `most` or a round number."""
    finite = [value for value in values if value is not None and isfinite(value)]
    there = [0.0 if abs(value) < _NOTHING else value for value in finite]
    if axis.scale == LOG:
        above = [value for value in there if value > 0] or [1.0]
        least, most = 10.0 ** floor(log10(min(above))), 10.0 ** ceil(log10(max(above)))
        return Scale(LOG, least, most if most > least else 10 * least)
    top, bottom = max([*there, 0.0]), min([*there, 0.0])
    if axis.scale == LOG_FROM_0:
        return Scale(LOG_FROM_0, 0.0, max(top, 2.0))
    if axis.most is not None and top > axis.most:
        top = axis.most
    if top == bottom:
        top = bottom + 1.0
    step = _step(top - bottom)
    return Scale(LINEAR, step * floor(bottom / step + 1e-9), step * ceil(top / step - 1e-9))


def label_of(value: float) -> str:
    """A tick as text: thousands separated, no more digits than it has."""
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def number_text(value: float) -> str:
    """A value as text: three significant digits, thousands separated; `0` for what is none of a number's size."""
    if value == 0:
        return "0"
    if abs(value) >= 1e9 or abs(value) < 1e-3:
        return f"{value:.3g}"
    digits = max(0, 2 - floor(log10(abs(value))))
    return f"{value:,.{digits}f}"


def _step(width: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that cuts `width` into four to ten."""
    if not width > 0 or not isfinite(width):
        return 1.0
    rough = width / 5
    power = 10.0 ** floor(log10(rough))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))


def _powers(least: float, most: float) -> list[float]:
    first, last = floor(log10(least) + 1e-9), ceil(log10(most) - 1e-9)
    powers = [10.0**k for k in range(first, last + 1)]
    return powers[:: ceil(len(powers) / _MOST_TICKS)]


# -- What charts share: the room that they draw in, axes, titles, legends.

TITLE_SIZE, SMALL = 14.0, 10.0
TITLE_ROOM, ROW = 34.0, 18.0
PLOT_HEIGHT = 240.0
GAP = 6.0
LABEL_LETTERS, TITLE_LETTERS = 30, 150


@dataclass(frozen=True)
class Plot:
    """The rectangle between the axes."""

    left: float
    top: float
    width: float
    height: float

    @property
    def bottom(self) -> float:
        """Where the horizontal axis is."""
        return self.top + self.height

    def x(self, place: float) -> float:
        """The place (0 to 1) on the horizontal axis."""
        return self.left + place * self.width

    def y(self, place: float) -> float:
        """The place (0 to 1) on the vertical axis, from below."""
        return self.bottom - place * self.height


@dataclass(frozen=True)
class Entry:
    """A line of the legend: a filled box, or a line with a marker."""

    name: str
    style: Style
    line: bool = False
    joined: bool = True


def title_width(title: str) -> float:
    """The width that a title takes."""
    return text_width(shortened(title, TITLE_LETTERS), TITLE_SIZE)


def draw_title(canvas: Canvas, left: float, top: float, title: str) -> None:
    """The chart's title, in its own row."""
    canvas.text(left, top + 20, shortened(title, TITLE_LETTERS), size=TITLE_SIZE, bold=True)


def left_room(scale: Scale) -> float:
    """What a vertical axis takes: its heading, its widest label, a tick."""
    widest = max((text_width(label_of(tick)) for tick in scale.ticks()), default=0.0)
    return 20.0 + widest + 2 * GAP


def draw_vertical(canvas: Canvas, plot: Plot, scale: Scale, axis: Axis) -> None:
    """Ticks with grid lines, their numbers, and the heading."""
    for tick in scale.ticks():
        y = plot.y(scale.at(tick))
        canvas.path(f"M{plot.left:.1f} {y:.1f}h{plot.width:.1f}", INK if tick == 0 else FAINT)
        canvas.text(plot.left - GAP, y + 4, label_of(tick), anchor="end")
    heading = shortened(axis.heading, int(plot.height / text_width("x")))
    canvas.text(plot.left - left_room(scale) + 13, plot.top + plot.height / 2, heading, anchor="middle", turned=True)
    canvas.path(f"M{plot.left:.1f} {plot.top:.1f}V{plot.bottom:.1f}H{plot.left + plot.width:.1f}", INK)


def draw_names(canvas: Canvas, plot: Plot, centres: Sequence[float], names: Sequence[str]) -> float:
    """Names below the horizontal axis, turned where they are wider than their room. The height they take."""
    if not names:
        return 0.0
    room = min((b - a for a, b in pairwise(centres)), default=plot.width)
    shown = [shortened(name, LABEL_LETTERS) for name in names]
    widest = max(text_width(name) for name in shown)
    turned = widest > room - 4
    for x, name in zip(centres, shown, strict=True):
        if turned:
            canvas.text(x + 4, plot.bottom + GAP, name, anchor="end", turned=True)
        else:
            canvas.text(x, plot.bottom + GAP + FONT, name, anchor="middle")
    return GAP + (widest if turned else ROW)


def draw_spans(
    canvas: Canvas, plot: Plot, edges: Sequence[float], spans: Sequence[tuple[str, int]], top: float
) -> float:
    """Brackets with names under runs of groups, which `edges` (one more than groups) part. The height they take."""
    if not spans:
        return 0.0
    start = 0
    for name, count in spans:
        if count < 1:
            continue
        left, right = edges[start] + 3, edges[start + count] - 3
        canvas.path(f"M{left:.1f} {top + 3:.1f}v4H{right:.1f}v-4", INK)
        letters = int((right - left) / text_width("x"))
        if letters > 1:
            canvas.text((left + right) / 2, top + 19, shortened(name, letters), anchor="middle")
        if start:
            canvas.path(f"M{edges[start]:.1f} {plot.top:.1f}V{plot.bottom:.1f}", FAINT, dash="4 3")
        start += count
    return ROW + 6


def draw_legend(canvas: Canvas, left: float, top: float, width: float, entries: Sequence[Entry]) -> float:
    """Names of series, in as many rows as they need. The height they take."""
    x, y = left, top
    for entry in entries:
        name = shortened(entry.name, 40)
        mark = 30.0 if entry.line else 16.0
        need = mark + 6 + text_width(name) + 14
        if x > left and x + need > left + width:
            x, y = left, y + ROW
        middle = y + ROW / 2
        if entry.line:
            if entry.joined:
                canvas.path(f"M{x:.1f} {middle:.1f}h{mark:.1f}", entry.style.colour, width=2, dash=entry.style.dash)
            canvas.marker(x + mark / 2, middle, entry.style)
        else:
            canvas.rect(x, middle - 6, mark, 12, canvas.fill(entry.style), edge=INK)
        canvas.text(x + mark + 6, middle + 4, name)
        x += need
    return y + ROW - top if entries else 0.0


def legend_width(entries: Sequence[Entry]) -> float:
    """The width of the widest entry: what a legend needs at least."""
    return max((66.0 + text_width(shortened(entry.name, 40)) for entry in entries), default=0.0)
