"""From values to places, and round numbers to write beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from warpsight.report.drawing.charts import LINEAR, LOG, LOG_FROM_0, Axis, Value

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
