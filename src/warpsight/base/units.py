"""Numbers as people write and read them: quantities with units from text and back, and numbers formatted for reports.

Quantities become numbers in base units (Hz, B, B/s, cycles, ns, count, W, pJ) and back without loss. Formatted numbers are rounded:
for reports, never for files.

Sizes are written in binary units (KiB, MiB, GiB) or plain bytes; `KB` is refused for them, because GPU papers write it for
1,024 bytes and data sheets for 1,000. Bandwidths are decimal (GB/s) as everywhere in the field, or binary (GiB/s). Case
matters.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from warpsight.base.errors import SpecError, suggestion

FREQUENCY, SIZE, BANDWIDTH, CYCLES, TIME, COUNT, SHARE = "frequency", "size", "bandwidth", "cycles", "time", "count", "share"
POWER, ENERGY = "power", "energy"

FRACTIONAL = (FREQUENCY, BANDWIDTH, TIME, SHARE, POWER, ENERGY)
"""Dimensions whose quantities need not be whole in their base unit."""

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

# unit -> factor to the dimension's base unit; the first entries are those that `format_quantity` writes
UNITS: dict[str, dict[str, int]] = {
    FREQUENCY: {f"{prefix}Hz": factor for prefix, factor in _DECIMAL.items()},
    SIZE: {"B": 1, **{f"{prefix}B": factor for prefix, factor in _BINARY.items()}, "kB": 1000},
    BANDWIDTH: {f"{prefix}B/s": factor for prefix, factor in (_DECIMAL | _BINARY).items()},
    CYCLES: {"cycles": 1, "cycle": 1},
    TIME: {"ns": 1, "us": 10**3, "ms": 10**6},
    COUNT: {},
    SHARE: {},
    POWER: {"W": 1},
    ENERGY: {"pJ": 1, "nJ": 10**3},
}
EXAMPLES = {
    FREQUENCY: "1.4 GHz", SIZE: "96 KiB", BANDWIDTH: "1050 GB/s", CYCLES: "25 cycles", TIME: "3.5 us", COUNT: "28", SHARE: "0.92",
    POWER: "350 W", ENERGY: "2.6 pJ",
}  # fmt: skip
_WRITTEN = {
    FREQUENCY: ("GHz", "MHz", "kHz", "Hz"),
    SIZE: ("TiB", "GiB", "MiB", "KiB", "B"),
    BANDWIDTH: ("TB/s", "GB/s", "MB/s", "kB/s", "B/s"),
    CYCLES: ("cycles",),
    TIME: ("ms", "us", "ns"),
    POWER: ("W",),
    ENERGY: ("nJ", "pJ"),
}
# read with a remedy, never taken: KB and its like mean 1,000 or 1,024 bytes depending on who writes
_AMBIGUOUS = {
    SIZE: {"KB": "KiB (1,024) or kB (1,000)", "MB": "MiB (1,048,576 B)", "GB": "GiB (1,073,741,824 B)", "TB": "TiB (2^40 B)"},
    BANDWIDTH: {"KB/s": "kB/s (1,000) or KiB/s (1,024)"},
}
_QUANTITY = re.compile(
    r"([+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2}(?!\d))?)(?![eE][+-]?\d)\s*(.*)", re.DOTALL | re.ASCII
)
_SPECIAL = re.compile(r"[+-]?\.?(nan|inf|infinity)\b.*", re.IGNORECASE | re.DOTALL)
_LONGEST = 64


def parse_quantity(text: str, dimension: str, *, key: str, place: str = "") -> int | float:
    """The number that `text` (`1.4 GHz`, `96KiB`, `25 cycles`, `28`) stands for, in the base unit of `dimension`.

    Sizes, cycles and counts give int, frequencies (Hz), bandwidths (B/s), times (ns), powers (W), energies (pJ) and shares the
    nearest float. The value is exact before that last rounding. Raises what `exact_quantity` raises.
    """
    value = exact_quantity(text, dimension, key=key, place=place)
    return float(value) if dimension in FRACTIONAL else int(value)


def exact_quantity(text: str, dimension: str, *, key: str, place: str = "") -> Fraction:
    """As `parse_quantity`, before any rounding: whole for sizes, cycles and counts.

    `key` names the quantity in messages. Raises SpecError: unit missing, unknown or of another dimension, ambiguous `KB`,
    negative, NaN or infinite, not whole where only whole numbers make sense, or no number at all.
    """
    number, unit = _split(text.strip(), dimension, key, place)
    factor = _factor(unit, dimension, number, key, place)
    value = Fraction(Decimal(number.replace("_", ""))) * factor
    if value < 0:
        raise SpecError(f'{key} is negative: "{text}"', place=place, remedy=_write(dimension))
    if dimension not in FRACTIONAL and value.denominator != 1:
        whole = {SIZE: "bytes", CYCLES: "cycles"}.get(dimension, "things")
        raise SpecError(f'{key} is not a whole number of {whole}: "{text}"', place=place, remedy=_write(dimension))
    return value


def _split(text: str, dimension: str, key: str, place: str) -> tuple[str, str]:
    """Number and unit, as written."""
    if not text:
        raise SpecError(f"{key} has no value", place=place, remedy=_write(dimension))
    if _SPECIAL.fullmatch(text):
        raise SpecError(f'{key} is not finite: "{text}"', place=place, remedy=_write(dimension))
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
        raise SpecError(f'{key} is not a {_noun(dimension)}: "{shown}"', place=place, remedy=_write(dimension))
    return match[1], match[2].strip()


def _factor(unit: str, dimension: str, number: str, key: str, place: str) -> int:
    """What `unit` multiplies by, or the error that tells why it cannot."""
    units = UNITS[dimension]
    if unit in units:
        return units[unit]
    if not unit:
        if dimension in (COUNT, SHARE):
            return 1
        raise SpecError(f'{key} has no unit: "{number}"', place=place, remedy=_write(dimension))
    if ambiguous := _AMBIGUOUS.get(dimension, {}).get(unit):
        raise SpecError(f'{key}: "{unit}" is ambiguous', place=place, remedy=f"write {ambiguous}")
    other = next((d for d, known in UNITS.items() if unit in known or unit in _AMBIGUOUS.get(d, {})), None)
    if other is not None:
        what = f'{key} is a {_noun(dimension)}, but "{number} {unit}" is a {_noun(other)}'
        raise SpecError(what, place=place, remedy=_write(dimension))
    if dimension in (COUNT, SHARE):
        what = f'{key} is a plain {dimension}, but "{number} {unit}" has something behind the number'
        raise SpecError(what, place=place, remedy=_write(dimension))
    same = next((known for known in units if known.lower() == unit.lower()), unit)
    raise SpecError(f'{key} has an unknown unit "{unit}"{suggestion(same, units)}', place=place, remedy=_write(dimension))


def _noun(dimension: str) -> str:
    return {CYCLES: "number of cycles"}.get(dimension, dimension)


def _write(dimension: str) -> str:
    return f'write for example "{EXAMPLES[dimension]}"'


@lru_cache(1 << 12, typed=True)
def format_quantity(value: int | float, dimension: str) -> str:
    """`value` (base unit) as text that `parse_quantity` turns back into the same number: `1.4 GHz`, `96 KiB`, `1 cycle`, `28`.

    Raises ValueError when `value` is negative or not finite, which no checked quantity is.
    """
    exact = Decimal(repr(value if isinstance(value, int) else float(value)))
    if not exact.is_finite() or exact < 0:
        raise ValueError(f"{value!r} is not a quantity")
    if dimension == COUNT:
        return str(int(value))
    if dimension == SHARE:
        return _plain(exact)
    if dimension == CYCLES:
        return f"{int(value)} cycle" if value == 1 else f"{int(value)} cycles"
    for unit in _WRITTEN[dimension]:
        factor = UNITS[dimension][unit]
        if value and value % factor == 0 if dimension == SIZE else exact >= factor:
            return f"{_plain(exact / factor)} {unit}"
    return f"{_plain(exact)} {_WRITTEN[dimension][-1]}"


def _plain(number: Decimal) -> str:
    """Without exponent or trailing zeros. Division by a power of ten or an exact divisor keeps every digit of a double."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


# -- Numbers for people: thousands separated, three significant digits, durations in a fitting unit. For reports, never for files.

_SECONDS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
AUTO = "auto"
TIME_UNITS = (AUTO, *(unit for unit, _ in _SECONDS))
"""What a time can be shown in; `auto` is the unit that gives one to three digits before the point."""


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


def duration_in(seconds: float, unit: str) -> str:
    """A time with four significant digits in one of `TIME_UNITS`: `280.9 us`, `1,234 us`."""
    return duration(seconds) if unit == AUTO else f"{significant(seconds / dict(_SECONDS)[unit], 4)} {unit}"


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


def parse_share(text: str) -> float:
    """A share as 0.02, or in percent as 2 %. Raises ValueError."""
    number, percent, rest = text.partition("%")
    if rest.strip():
        raise ValueError(text)
    return float(number) / (100 if percent else 1)
