"""Text for a terminal: emphasis and colours that can be disabled, units, paragraphs, and tables of aligned columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.base.units import AUTO, duration_in

WIDTH = 120

# What emphasis and colours mean, with their codes (ECMA-48).
_CODES = {
    "strong": "1",
    "faint": "2",
    "hot": "31",  # red: where most cycles are lost, and what has failed
    "warning": "33",  # yellow: where some are lost, and what makes a number uncertain
    "good": "32",  # green: cycles that do work, what saves cycles, what has passed
}
# A line or a component is hot, or gets a warning, from this part of the cycles on.
_HOT, _WARM = 0.2, 0.05


@dataclass(frozen=True)
class Style:
    """How a terminal shows text and times. With `colour` off, text is unchanged; times are in `time_unit` (`units.TIME_UNITS`)."""

    colour: bool = False
    time_unit: str = AUTO

    def time(self, seconds: float) -> str:
        """A time with its unit."""
        return duration_in(seconds, self.time_unit)

    def strong(self, text: str) -> str:
        """Headings and the most important figure."""
        return self._wrap(text, "strong")

    def faint(self, text: str) -> str:
        """Explanations."""
        return self._wrap(text, "faint")

    def hot(self, text: str) -> str:
        """Where most cycles are lost, and what has failed."""
        return self._wrap(text, "hot")

    def warning(self, text: str) -> str:
        """Where some cycles are lost, and what makes a number uncertain."""
        return self._wrap(text, "warning")

    def good(self, text: str) -> str:
        """Cycles that do work, what saves cycles, and what has passed."""
        return self._wrap(text, "good")

    def heat(self, text: str, share: float) -> str:
        """Hot, a warning, or plain, by the part of the cycles that are lost."""
        return self.hot(text) if share >= _HOT else self.warning(text) if share >= _WARM else text

    def component(self, name: str, text: str, share: float) -> str:
        """A component of the CPI stack by its share of the cycles: `base` does work, all others are lost."""
        return self.good(text) if name == "base" else self.heat(text, share)

    def _wrap(self, text: str, meaning: str) -> str:
        return f"\x1b[{_CODES[meaning]}m{text}\x1b[0m" if self.colour and text else text


PLAIN = Style()


def wrapped(text: str, indent: str = "   ", *, hyphens: bool = False) -> list[str]:
    """`text` as lines of at most `WIDTH`, all but the first indented; `hyphens` allows breaks after hyphens."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=hyphens)


def counted(count: int, noun: str) -> str:
    """`1 design`, `1,024 designs`, `2 launches`, `3 copies`."""
    ends_in_y = noun.endswith("y") and noun[-2] not in "aeiou"
    plural = noun[:-1] + "ies" if ends_in_y else noun + ("es" if noun.endswith(("ch", "ss")) else "s")
    return f"{count:,} {noun if count == 1 else plural}"


# -- Tables of plain text: columns as wide as their cells, the last one cut to the remaining width.

_SHORTEST = 12


@dataclass(frozen=True)
class Column:
    """A heading and the cells under it; `left` aligns them left."""

    heading: str
    cells: Sequence[str]
    left: bool = False


def aligned(columns: Sequence[Column], style: Style = PLAIN, width: int = WIDTH) -> list[str]:
    """The heading line in bold and one line per row, without trailing spaces, at most `width` wide.

    Two spaces between columns, or one before right-aligned ones if the lines would be too wide.
    """
    texts = [[column.heading, *column.cells] for column in columns]
    widths = [max(map(len, text)) for text in texts]
    gaps = [1, *(2 for _ in columns[1:])]
    if sum(gaps) + sum(widths) > width:
        gaps = [1, *(1 + column.left for column in columns[1:])]
    left = width - sum(gaps) - sum(widths[:-1])
    if widths[-1] > left:
        widths[-1] = max(left, _SHORTEST)
        texts[-1] = [shortened(text, widths[-1]) for text in texts[-1]]
    cells = [
        [" " * gap + (text.ljust(size) if column.left else text.rjust(size)) for text in part]
        for part, size, gap, column in zip(texts, widths, gaps, columns, strict=True)
    ]
    lines = ["".join(row).rstrip() for row in zip(*cells, strict=True)]
    return [style.strong(lines[0]), *lines[1:]]


def fits(columns: Sequence[Column], width: int = WIDTH, *, cut: bool = True) -> bool:
    """Whether `aligned` can keep these columns within `width`; with `cut` the last one may be cut."""
    widths = [max(map(len, [column.heading, *column.cells])) for column in columns]
    gaps = 1 + sum(1 + column.left for column in columns[1:])
    return gaps + sum(widths[:-1]) + min(widths[-1], _SHORTEST if cut else width) <= width


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` characters; two dots at the end mark a cut."""
    return text if len(text) <= width else text[: width - 2].rstrip() + ".."
