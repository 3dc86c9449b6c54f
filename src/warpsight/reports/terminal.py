"""Text for a terminal: emphasis that can be disabled, paragraphs, and tables of aligned columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.result.prediction import STRUCT_PARTS

WIDTH = 120

_COLOURS = {
    "base": "32", "com_data": "36", "com_struct": "36", **dict.fromkeys(STRUCT_PARTS, "36"), "banks": "31", "mem_data": "33",
    "mshr": "31", "noc": "35", "dram": "34",
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """Emphasis. With `colour` off, text is unchanged."""

    colour: bool = False

    def strong(self, text: str) -> str:
        """Bold."""
        return self._wrap(text, "1")

    def faint(self, text: str) -> str:
        """Dimmed."""
        return self._wrap(text, "2")

    def component(self, name: str, text: str) -> str:
        """In the colour of a CPI-stack component."""
        return self._wrap(text, _COLOURS.get(name, "0"))

    def _wrap(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


PLAIN = Style()


def wrapped(text: str, indent: str = "   ", *, hyphens: bool = False) -> list[str]:
    """`text` as lines of at most `WIDTH`, all but the first indented; `hyphens` allows breaks after hyphens."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=hyphens)


def counted(count: int, noun: str) -> str:
    """`1 design`, `1,024 designs`, `2 launches`."""
    plural = noun + ("es" if noun.endswith(("ch", "ss")) else "s")
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
