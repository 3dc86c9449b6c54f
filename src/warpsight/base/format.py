"""Numbers for people: thousands separated, three significant digits, durations in a fitting unit. For reports, never for files."""

from __future__ import annotations

import math

_SECONDS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def thousands(number: int | float) -> str:
    """Rounded to a whole number, thousands separated by commas: `393,216`. NaN and infinities as words."""
    return f"{number:,.0f}" if math.isfinite(number) else str(float(number))


def significant(number: float, digits: int) -> str:
    """With `digits` significant digits, trailing zeros kept, thousands separated: `0.250`, `1.50`, `1,230`.

    Below 1e-4 and from 1e15 on with an exponent. Zero is `0`; NaN and infinities as words.
    """
    if not math.isfinite(number):
        return str(float(number))
    if number == 0:
        return "0"
    scientific = f"{number:.{digits - 1}e}"
    exponent = int(scientific.partition("e")[2])
    if exponent < -4 or exponent >= 15:
        return scientific
    return f"{float(scientific):,.{max(digits - 1 - exponent, 0)}f}"


def three_digits(number: float) -> str:
    """With three significant digits, as every figure in a report: `0.667`, `64.2`, `1,230`."""
    return significant(number, 3)


def percent(fraction: float) -> str:
    """A fraction in per cent with one decimal: `16.7 %`; a whole is `100 %`."""
    return "100 %" if fraction == 1 else f"{100 * fraction:.1f} %"


def duration(seconds: float) -> str:
    """A time in the unit that gives one to three digits before the point, four significant digits: `280.9 us`, `1.234 ms`."""
    if not math.isfinite(seconds) or seconds == 0:
        return f"{significant(seconds, 4)} s"
    for unit, scale in _SECONDS:
        # rounding first: 999.96 us is 1.000 ms
        text = significant(seconds / scale, 4)
        if abs(float(text.replace(",", ""))) >= 1 or unit == "ns":
            return f"{text} {unit}"
    raise AssertionError("unreachable: the last unit takes everything")
