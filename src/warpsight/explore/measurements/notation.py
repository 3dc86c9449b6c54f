"""Numbers and units as profilers write them: thousands in groups, in the way of the machine's language.

`1,234.5`, `1.234,5`, `1 234,5` and `1'234.5` are one number. Which mark is the decimal one is decided for a whole file, from the
numbers that leave no doubt; where none does, it is the point, which is what the tools write where no other language is set.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from warpsight.base.errors import FormatError

# apostrophes and the spaces that languages group thousands with
_GROUPING = "'\u2019 \u00a0\u202f\u2009"
_NUMBER = re.compile(rf"[+-]?[\d.,{_GROUPING}]*\d(?:[.,])?(?:[eE][+-]?\d{{1,3}})?")
# a value with the values of its instances behind it, as --print-metric-instances has them
_INSTANCES = re.compile(r"\s*\(.*\)\s*$")
_NONE = {"", "n/a", "nan", "-nan", "inf", "-inf", "<invalid>", "no data", "<overflow>", "overflow"}
_LONGEST = 64

_PREFIX = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "Ki": 2.0**10, "Mi": 2.0**20,
           "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip
_TIME = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "µs": 1e-6,
    "ns": 1e-9, "nsecond": 1e-9,
}  # fmt: skip
TIME, CLOCK, CYCLES, COUNT, BYTES = "time", "clock", "cycles", "count", "bytes"
RATE, PERCENT, RATIO = "bytes a second", "%", "ratio"


def is_none(text: str) -> bool:
    """Whether the tool says that it has no value: `n/a`, `nan`, `(!)` before or after one."""
    return "(!)" in text or text.strip().lower() in _NONE


@dataclass(frozen=True)
class Notation:
    """The decimal mark of a file; `told` whether its numbers say so."""

    decimal: str
    told: bool

    def number(self, text: str, what: str, place: str) -> float:
        """The number `text` of the metric `what`. Raises FormatError."""
        bare = _bare(text)
        if len(bare) > _LONGEST or not _NUMBER.fullmatch(bare):
            raise FormatError(f'{what} is "{text[:_LONGEST]}", which is no number', place=place, remedy="correct the cell")
        other = "," if self.decimal == "." else "."
        digits = re.sub(f"[{_GROUPING}{other}]", "", bare)
        whole = bare.partition(self.decimal)[0]
        groups = re.split(f"[{_GROUPING}{other}]", whole.lstrip("+-"))
        # groups of three, or as India writes them of two before the last
        if len(groups) > 1 and (len(groups[-1].lower().partition("e")[0]) != 3 or any(len(g) not in (2, 3) for g in groups[1:-1])):
            raise FormatError(f'{what} is "{text}", whose digits are in no groups', place=place, remedy="correct the cell")
        try:
            value = float(digits.replace(self.decimal, "."))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise FormatError(f'{what} is "{text}", which is no number', place=place, remedy="correct the cell")
        return value


def notation_of(cells: Iterable[tuple[str, str]]) -> Notation:
    """The notation of a file from its `cells` with values, each (text, place). FormatError where two contradict."""
    found: dict[str, tuple[str, str]] = {}
    for text, place in cells:
        decimal = _decimal_of(_bare(text))
        if decimal:
            found.setdefault(decimal, (text, place))
    if len(found) > 1:
        (point, first), (comma, second) = found["."], found[","]
        what = f'"{comma}" has a decimal comma, and "{point}" of {first} a decimal point'
        raise FormatError(what, place=second, remedy="write all numbers in one way; LC_ALL=C makes the tools use the point")
    return Notation(next(iter(found)), True) if found else Notation(".", False)


def _bare(text: str) -> str:
    """A cell's number, without the values of instances behind it."""
    return _INSTANCES.sub("", text.strip()).strip()


def _decimal_of(text: str) -> str:
    """The decimal mark that `text` proves, or nothing."""
    if not _NUMBER.fullmatch(text):
        return ""
    marks = [c for c in text if c in ".,"]
    if not marks:
        return ""
    mark, other = marks[-1], "," if marks[-1] == "." else "."
    if other in marks:
        return mark if marks.count(mark) == 1 else ""
    if len(marks) > 1:
        return other
    before, _, after = text.lstrip("+-").partition(mark)
    digits = after.lower().partition("e")[0]
    grouped = 1 <= len(before) <= 3 and before != "0" and len(digits) == 3 and "e" not in after.lower()
    if any(c in before for c in _GROUPING):
        return mark
    return "" if grouped else mark


def factor(unit: str, kind: str) -> float | None:
    """What a value in `unit` is multiplied by for the base unit of `kind`; None where it is no unit of that kind.

    Base units: s, Hz, cycles, pieces, B, B/s; PERCENT and RATIO become fractions, or stay plain numbers.
    """
    unit = unit.strip()
    low = unit.lower()
    if kind == TIME:
        return _TIME.get(low)
    if kind == PERCENT:
        return 0.01 if unit == "%" else None
    if kind == RATIO:
        return None if low in _TIME or unit == "%" else 1.0
    if kind == CLOCK:
        numerator, slash, below = low.partition("/")
        if slash:
            time, prefix = _TIME.get(below), _prefix(numerator, ("cycle", "cycles"))
            return prefix / time if time and prefix else None
        return _prefix(unit[:-2] + "hz" if low.endswith("hz") else unit, ("hz",))
    if kind == RATE:
        above, slash, below = unit.partition("/")
        time, prefix = _TIME.get(below.lower()), _prefix(above, ("byte", "bytes", "B"))
        return prefix / time if slash and time and prefix else None
    if kind == BYTES:
        return _prefix(unit, ("byte", "bytes", "B"))
    if low in _TIME or unit == "%" or "/" in unit:
        return None
    nouns = ("cycle", "cycles") if kind == CYCLES else ("inst", "sector", "request", "warp", "thread", "transaction", "count")
    return _prefix(unit, ("", *nouns))


def _prefix(unit: str, nouns: tuple[str, ...]) -> float | None:
    for noun in nouns:
        head = unit[: len(unit) - len(noun)]
        if unit.endswith(noun) and head in _PREFIX:
            return _PREFIX[head]
        if unit.endswith(noun) and head.lower() in ("k", "m", "g", "t"):
            return _PREFIX[head.upper()]
    return None
