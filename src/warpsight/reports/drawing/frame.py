"""What charts share: scales with round numbers, the area between the axes, titles, names of groups, legends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, isfinite, log10

from warpsight.reports.drawing.canvas import FAINT, FONT, INK, Canvas, Style, shortened, style_of, text_width
from warpsight.reports.drawing.charts import LINEAR, LOG, LOG_FROM_0, Axis, Series, Value

_MOST_TICKS = 12
_NOTHING = 1e-290  # smaller doubles do not have the digits that a step needs


@dataclass(frozen=True)
class Scale:
    """Maps values from `least` to `most` to places from 0 to 1; values outside get the nearer end."""

    kind: str
    least: float
    most: float

    def at(self, value: float) -> float:
        """The place of `value`."""
        low, high, middle = (self._linear(each) for each in (self.least, self.most, value))
        return min(1.0, max(0.0, (middle - low) / (high - low)))

    def cuts(self, value: Value) -> bool:
        """Whether `value` is above the scale."""
        return value is not None and value > self.most * (1 + 1e-9)

    def _linear(self, value: float) -> float:
        if self.kind == LINEAR:
            return value
        if self.kind == LOG:
            return log10(max(value, self.least))
        # one step from 0 to 1, then one for each doubling
        return value if value < 1 else 1 + log10(value) / log10(2)

    def ticks(self) -> list[float]:
        """Round values within, in order."""
        if self.kind == LOG:
            first, last = floor(log10(self.least) + 1e-9), ceil(log10(self.most) - 1e-9)
            powers = [10.0**k for k in range(first, last + 1)]
            return powers[:: ceil(len(powers) / _MOST_TICKS)]
        if self.kind == LOG_FROM_0:
            doublings = [2.0**k for k in range(64) if 2.0**k <= self.most]
            return doublings[:: ceil(len(doublings) / _MOST_TICKS) or 1]
        step = _step(self.most - self.least)
        first = ceil(self.least / step - 1e-9)
        return [k * step for k in range(first, floor(self.most / step + 1e-9) + 1)]


def scale_for(axis: Axis, values: Iterable[Value]) -> Scale:
    """A scale for the values; a linear one begins at 0 if no value is negative, and ends at the axis's `most` or a round number."""
    finite = [0.0 if abs(value) < _NOTHING else value for value in values if value is not None and isfinite(value)]
    if axis.scale == LOG:
        positive = [value for value in finite if value > 0] or [1.0]
        least, most = 10.0 ** floor(log10(min(positive))), 10.0 ** ceil(log10(max(positive)))
        return Scale(LOG, least, most if most > least else 10 * least)
    top, bottom = max([*finite, 0.0]), min([*finite, 0.0])
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
    """A value as text: three significant digits, thousands separated."""
    if value == 0:
        return "0"
    if abs(value) >= 1e9 or abs(value) < 1e-3:
        return f"{value:.3g}"
    digits = max(0, 2 - floor(log10(abs(value))))
    return f"{value:,.{digits}f}"


def _step(width: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that divides `width` into four to ten parts."""
    if not width > 0 or not isfinite(width):
        return 1.0
    rough = width / 5
    power = 10.0 ** floor(log10(rough))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))


# -- The area between the axes, titles, names of groups, legends.

TITLE_SIZE, SMALL = 14.0, 10.0
TITLE_ROOM, ROW = 34.0, 18.0
PLOT_HEIGHT = 240.0
GAP = 6.0
LABEL_LETTERS, TITLE_LETTERS = 30, 150


@dataclass(frozen=True)
class Plot:
    """The rectangle between the axes, and the scale of its vertical axis."""

    canvas: Canvas
    left: float
    top: float
    width: float
    scale: Scale
    height: float = PLOT_HEIGHT

    @property
    def bottom(self) -> float:
        """Where the horizontal axis is."""
        return self.top + self.height

    def x(self, place: float) -> float:
        """The place (0 to 1) on the horizontal axis."""
        return self.left + place * self.width

    def y(self, value: float) -> float:
        """Where `value` is on the vertical axis."""
        return self.bottom - self.scale.at(value) * self.height


@dataclass(frozen=True)
class Entry:
    """An entry of the legend: a filled box, or a line with a marker."""

    name: str
    style: Style
    line: bool = False
    joined: bool = True


def styled(series: Sequence[Series]) -> list[tuple[Series, Style]]:
    """Each series with its style."""
    return [(each, style_of(number if each.style is None else each.style)) for number, each in enumerate(series)]


def title_width(title: str) -> float:
    """The width that a title takes."""
    return text_width(shortened(title, TITLE_LETTERS), TITLE_SIZE)


def draw_title(canvas: Canvas, left: float, top: float, title: str) -> None:
    """The chart's title, in its own row."""
    canvas.text(left, top + 20, shortened(title, TITLE_LETTERS), size=TITLE_SIZE, bold=True)


def begin_plot(canvas: Canvas, top: float, title: str, axis: Axis, scale: Scale, width: float, room: float = 0.0) -> Plot:
    """The title and the vertical axis with grid lines, numbers and heading; `room` is left free below the title."""
    ticks = scale.ticks()
    left = 20.0 + max((text_width(label_of(tick)) for tick in ticks), default=0.0) + 2 * GAP
    plot = Plot(canvas, left, top + TITLE_ROOM + room, width, scale)
    draw_title(canvas, left, top, title)
    for tick in ticks:
        y = plot.y(tick)
        canvas.path(f"M{left:.1f} {y:.1f}h{width:.1f}", INK if tick == 0 else FAINT)
        canvas.text(left - GAP, y + 4, label_of(tick), anchor="end")
    heading = shortened(axis.heading, int(plot.height / text_width("x")))
    canvas.text(13, plot.top + plot.height / 2, heading, anchor="middle", turned=True)
    canvas.path(f"M{left:.1f} {plot.top:.1f}V{plot.bottom:.1f}H{left + width:.1f}", INK)
    return plot


def draw_names(canvas: Canvas, top: float, width: float, centres: Sequence[float], names: Sequence[str]) -> float:
    """Names below a horizontal axis at `top`, turned if they are wider than their room; `width` is that of a single one.

    Returns the height they take.
    """
    if not names:
        return 0.0
    room = min((b - a for a, b in pairwise(centres)), default=width)
    shown = [shortened(name, LABEL_LETTERS) for name in names]
    widest = max(map(text_width, shown))
    turned = widest > room - 4
    for x, name in zip(centres, shown, strict=True):
        if turned:
            canvas.text(x + 4, top + GAP, name, anchor="end", turned=True)
        else:
            canvas.text(x, top + GAP + FONT, name, anchor="middle")
    return GAP + (widest if turned else ROW)


def draw_legend(canvas: Canvas, left: float, top: float, width: float, entries: Sequence[Entry]) -> float:
    """Names of series, in as many rows as they need. Returns the height they take."""
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
    """The width of the widest entry: the least width of a legend."""
    return max((66.0 + text_width(shortened(entry.name, 40)) for entry in entries), default=0.0)
