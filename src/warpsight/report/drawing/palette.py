"""Colours that stay apart for colour-blind readers, each with a hatch, a dash and a marker, so that colour is never the only sign.

The colours are Okabe and Ito's (Color Universal Design, 2008) with a grey for what has no cause.
"""

from __future__ import annotations

from dataclasses import dataclass

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#999999", "#000000")
# Lines of a hatch in a tile of 8 x 8, drawn over the colour; the first has none.
_HATCHES = ("", "M-2 2l4 -4M0 8l8 -8M6 10l4 -4", "M0 4h8", "M-2 6l4 4M0 0l8 8M6 -2l4 4", "M4 0v8", "M0 4h8M4 0v8",
            "M2 2h1.5M6 6h1.5", "M0 0l8 8M8 0l-8 8", "M0 2h8M0 6h8")  # fmt: skip
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "5 5", "12 3", "2 6", "9 3 2 3 2 3", "4 2")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus", "down", "ring", "bar")

INK, FAINT, PAPER = "#222222", "#dddddd", "#ffffff"
_FAINTER = "#eeeeee"
# In a page that is light or dark, these follow its own colours.
_INKS, _PAPERS, _FAINTS = (INK, "#000000"), (PAPER,), (FAINT, _FAINTER)
THEMED = {colour: f"var(--{word},{colour})" for word, colours in (("ink", _INKS), ("paper", _PAPERS), ("faint", _FAINTS))
          for colour in colours}  # fmt: skip

# The style (`style_of`) of each component of the CPI stack: the same in every picture.
STACK_STYLES = {"base": 2, "com_data": 4, "com_struct": 6, "mem_data": 0, "mshr": 1, "noc": 5, "dram": 3, "sync": 8, "idle": 7}


@dataclass(frozen=True)
class Style:
    """How one series looks: `colour`, the path of its `hatch` ("" for none), its `dash` ("" for a whole line) and `marker`."""

    colour: str
    hatch: str
    dash: str
    marker: str

    @property
    def hatch_ink(self) -> str:
        """White over dark colours, black over light ones."""
        return INK if luminance(self.colour) > 0.3 else PAPER


def style_of(number: int) -> Style:
    """The style of the series of that number. After nine the colours come again, each with another hatch, dash and marker."""
    turn, place = divmod(number, len(_COLOURS))
    other = (place + turn * 4) % len(_HATCHES)
    return Style(_COLOURS[place], _HATCHES[other], _DASHES[other], MARKERS[other])


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, 0 to 1 (WCAG 2.1)."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def shade(share: float) -> str:
    """From nearly white (0) to dark blue (1), for cells of a heat map. A share outside is taken as the nearer end."""
    share = min(1.0, max(0.0, share))
    light, dark = (238, 245, 252), (0, 76, 129)
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(light, dark, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"
