"""SVG elements with escaped texts and identifiers that are unique in a page, and the colours that they are drawn in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import cos, radians, sin
from xml.sax.saxutils import escape, quoteattr
from zlib import crc32

from warpsight.result.prediction import STRUCT_PARTS

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#999999", "#000000")
# Lines of a hatch in a tile of 8 x 8, drawn over the colour; the first has none.
_HATCHES = ("", "M-2 2l4 -4M0 8l8 -8M6 10l4 -4", "M0 4h8", "M-2 6l4 4M0 0l8 8M6 -2l4 4", "M4 0v8", "M0 4h8M4 0v8",
            "M2 2h1.5M6 6h1.5", "M0 0l8 8M8 0l-8 8", "M0 2h8M0 6h8")  # fmt: skip
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "5 5", "12 3", "2 6", "9 3 2 3 2 3", "4 2")
_MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus", "down", "ring", "bar")

INK, FAINT, PAPER = "#222222", "#dddddd", "#ffffff"
# The CSS variables of a page, light or dark, that replace these colours in a themed picture.
_THEMED = {INK: "ink", "#000000": "ink", PAPER: "paper", FAINT: "faint", "#eeeeee": "faint"}

# The number of the style of each shared component of the CPI stack: the same in every picture.
_SHARED_STYLES = {"base": 2, "com_data": 4, "com_struct": 6, "mem_data": 0, "mshr": 1, "noc": 5, "dram": 3, "sync": 8, "idle": 7,
                  "launch": 16}  # fmt: skip
# Parts have the colour of what they are a part of, each with another hatch, but bank conflicts, which have one of their own.
_PART_STYLES = {**{name: 6 + 9 * turn for turn, name in enumerate(STRUCT_PARTS)}, "banks": 10, "drain": 25}


@dataclass(frozen=True)
class Style:
    """How one series looks: `colour`, the path of its `hatch` ("" for none), its `dash` ("" for a whole line) and `marker`."""

    colour: str
    hatch: str
    dash: str
    marker: str

    @property
    def hatch_path(self) -> str:
        """The SVG element of the hatch, white over dark colours, black over light ones; "" for none."""
        ink = INK if luminance(self.colour) > 0.3 else PAPER
        return f'<path d="{self.hatch}" stroke="{ink}" stroke-width="1.2" fill="none"/>' if self.hatch else ""


def style_of(number: int) -> Style:
    """The style of the series of that number. After nine the colours repeat, each with another hatch, dash and marker."""
    turn, place = divmod(number, len(_COLOURS))
    other = (place + turn * 4) % len(_HATCHES)
    return Style(_COLOURS[place], _HATCHES[other], _DASHES[other], _MARKERS[other])


def stack_style(component: str) -> int:
    """The number for `style_of` of a component of the CPI stack; for a model's own component it depends only on its name."""
    own = len(_SHARED_STYLES) + crc32(component.encode()) % (3 * len(_COLOURS))
    return (_SHARED_STYLES | _PART_STYLES).get(component, own)


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, 0 to 1 (WCAG 2.1)."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def shade(share: float) -> str:
    """From nearly white (0) to dark blue (1), for cells of a heat map; shares outside get the nearer end."""
    share = min(1.0, max(0.0, share))
    light, dark = (238, 245, 252), (0, 76, 129)
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(light, dark, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


_HEAT = ((255, 247, 215), (253, 174, 97), (215, 48, 31), (127, 0, 0))


def heat(share: float) -> str:
    """The colour of a share of a peak, from pale (0) over orange and red to dark red (1); it only gets darker."""
    place = min(1.0, max(0.0, share)) * (len(_HEAT) - 1)
    left = min(int(place), len(_HEAT) - 2)
    red, green, blue = (round(a + (place - left) * (b - a)) for a, b in zip(_HEAT[left], _HEAT[left + 1], strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


# -- SVG elements: texts are escaped, identifiers are unique in a page.

FONT = 11.0
# The mean width of a letter of a sans-serif face relative to its size, a little too wide, so that texts do not overlap.
LETTER = 0.6
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """`text` escaped for XML; characters that XML 1.0 forbids are replaced."""
    return escape(_NOT_XML.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))


def text_width(text: str, size: float = FONT) -> float:
    """The approximate width of `text`."""
    return LETTER * size * len(text)


def shortened(text: str, letters: int) -> str:
    """`text` in at most `letters` letters; an ellipsis marks a cut."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


class Canvas:
    """Collects elements. `name` precedes every identifier, since identifiers must be unique in an HTML page.

    `themed`: ink, paper and grid have the colours of the page around the picture, light or dark.
    """

    def __init__(self, name: str, *, themed: bool = False) -> None:
        self.name = name
        self.themed = themed
        self._parts: list[str] = []
        self._patterns: dict[Style, str] = {}

    def text(
        self, x: float, y: float, text: str, *, size: float = FONT, anchor: str = "start", turned: bool = False, bold: bool = False,
        colour: str = INK, fixed: bool = False,
    ) -> None:
        """`text` with its baseline at y. `turned`: upwards, with its baseline at x. `fixed`: the colour in themed pictures too."""
        more = f' text-anchor="{anchor}"' if anchor != "start" else ""
        more += f' font-size="{size:g}"' if size != FONT else ""
        more += ' font-weight="bold"' if bold else ""
        more += f' fill="{colour if fixed else self.colour(colour)}"' if colour != INK else ""
        more += f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{more}>{xml_text(text)}</text>')

    def colour(self, colour: str) -> str:
        """A colour as it is written: in a themed picture, ink and paper are the page's."""
        return f"var(--{_THEMED[colour]})" if self.themed and colour in _THEMED else colour

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, *, tip: str = "", edge: str = "", hook: str = "",
        fixed: bool = False,
    ) -> None:
        """A rectangle; `tip` is shown on hover, a script finds the rectangle by `hook`; `fixed` as for `text`."""
        more = f' stroke="{self.colour(edge)}" stroke-width="0.5"' if edge else ""
        more += f" data-hook={_attribute(hook)}" if hook else ""
        size = f'width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}"'
        body = f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{fill if fixed else self.colour(fill)}"{more}'
        self._parts.append(f"{body}><title>{xml_text(tip)}</title></rect>" if tip else f"{body}/>")

    def path(
        self, data: str, colour: str, *, width: float = 1.0, dash: str = "", fill: str = "none", tip: str = "", hook: str = ""
    ) -> None:
        """A path with the SVG commands `data`; `tip` and `hook` as for `rect`."""
        more = f' stroke-dasharray="{dash}"' if dash else ""
        more += f" data-hook={_attribute(hook)}" if hook else ""
        body = f'<path d="{data}" fill="{self.colour(fill)}" stroke="{self.colour(colour)}" stroke-width="{width:g}"{more}'
        self._parts.append(f"{body}><title>{xml_text(tip)}</title></path>" if tip else f"{body}/>")

    def fill(self, style: Style) -> str:
        """The fill of an area in that style: its colour, or a pattern of colour and hatch."""
        if not style.hatch:
            return style.colour
        if style not in self._patterns:
            self._patterns[style] = f"{self.name}-h{len(self._patterns)}"
        return f"url(#{self._patterns[style]})"

    def marker(self, x: float, y: float, style: Style, *, size: float = 4.0, tip: str = "", hook: str = "") -> None:
        """The style's marker, centred at (x, y); `tip` and `hook` as for `rect`."""
        if style.marker in ("circle", "ring"):
            data = f"M{x - size:.1f} {y:.1f}a{size} {size} 0 1 0 {2 * size} 0a{size} {size} 0 1 0 {-2 * size} 0"
        elif style.marker in ("cross", "plus", "bar"):
            angles = {"cross": (45, 135), "plus": (0, 90), "bar": (0,)}[style.marker]
            arms = [(1.3 * size * cos(radians(a)), 1.3 * size * sin(radians(a))) for a in angles]
            data = "".join(f"M{x - dx:.1f} {y - dy:.1f}L{x + dx:.1f} {y + dy:.1f}" for dx, dy in arms)
        else:
            first, count = {"square": (45, 4), "diamond": (0, 4), "triangle": (-90, 3), "down": (90, 3)}[style.marker]
            turns = [radians(first + 360 * k / count) for k in range(count)]
            corners = [(x + 1.3 * size * cos(a), y + 1.3 * size * sin(a)) for a in turns]
            data = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in corners) + "z"
        open_shape = style.marker in ("ring", "cross", "plus", "bar")
        fill = PAPER if open_shape else style.colour
        self.path(data, style.colour, width=1.8 if open_shape else 1.0, fill=fill, tip=tip, hook=hook)

    def document(self, width: float, height: float, title: str) -> str:
        """The whole SVG. `title` is its label for screen readers."""
        patterns = [
            f'<pattern id="{ident}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<rect width="8" height="8" fill="{style.colour}"/>{style.hatch_path}</pattern>'
            for style, ident in self._patterns.items()
        ]
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img" aria-label={_attribute(title)} font-family="sans-serif" font-size="{FONT:g}" '
            f'fill="{self.colour(INK)}">',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="{self.colour(PAPER)}"/>',
        ]
        defined = ["<defs>", *patterns, "</defs>"] if patterns else []
        return "\n".join([*head, *defined, *self._parts, "</svg>\n"])
