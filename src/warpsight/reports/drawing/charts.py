"""What can be drawn, as plain data. A value of None is a gap: it is left out, and a bar says so.

Every chart has its title, axes with units, and names for its series; nothing is drawn that a reader could not name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LINEAR, LOG, LOG_FROM_0 = "linear", "log", "log-from-0"
SCALES = (LINEAR, LOG, LOG_FROM_0)

Value = float | None


@dataclass(frozen=True)
class Axis:
    """`label` with its `unit` ("" for none). `log-from-0` has a step for 0 before 1.

    Values above `most` are cut, and say their number.
    """

    label: str
    unit: str = ""
    scale: str = LINEAR
    most: float | None = None

    @property
    def heading(self) -> str:
        """The label with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclass(frozen=True)
class Series:
    """Values in the order of the chart's groups or x values. `style` is for `palette.style_of`; None: the series' place."""

    name: str
    values: Sequence[Value]
    style: int | None = None


@dataclass(frozen=True)
class Bars:
    """Bars by group: side by side, or one on the other. `spans` are names of runs of groups, (name, groups in it), in order.

    `line`, if any, is a mark across each group, as a reference beside a stack.
    """

    title: str
    axis: Axis
    groups: Sequence[str]
    series: Sequence[Series]
    stacked: bool = False
    spans: Sequence[tuple[str, int]] = ()
    line: Series | None = None


@dataclass(frozen=True)
class Lines:
    """Values over `xs`, joined, as steps, or (`joined` False) as single points. `marks` are vertical lines (x, name).

    `even` spaces the x values evenly, for a handful of design points that are far from even.
    """

    title: str
    x: Axis
    y: Axis
    xs: Sequence[float]
    series: Sequence[Series]
    joined: bool = True
    steps: bool = False
    even: bool = False
    marks: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Dot:
    """One point of a scatter chart, with the name that it shows when pointed at; by `hook` a page's script finds it."""

    x: float
    y: float
    name: str
    hook: str = ""


@dataclass(frozen=True)
class Scatter:
    """Points by series: (name, points). `diagonal` draws where x equals y.

    `front` is the number of a series whose points, x ascending, are joined by steps that go on to the right edge: at an x the best
    of those up to it.
    """

    title: str
    x: Axis
    y: Axis
    series: Sequence[tuple[str, Sequence[Dot]]]
    diagonal: bool = False
    front: int | None = None


@dataclass(frozen=True)
class HeatMap:
    """A value for each row and column, written into its cell. `most` is the value of the darkest shade; None: the largest one.

    Words have a colour each, in alphabetical order. By `hooks`, one for each cell ("" for none), a page's script finds a cell.
    """

    title: str
    x: Axis
    y: Axis
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[Value | str]]
    unit: str = ""
    most: float | None = None
    hooks: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Stacks:
    """A bar for each row, lying, its parts one after the other on a common scale; `totals` are written behind the bars.

    A bar beyond the axis's `most` is cut, and has two strokes across its end.
    """

    title: str
    axis: Axis
    rows: Sequence[str]
    series: Sequence[Series]
    totals: Sequence[str]


@dataclass(frozen=True)
class Meter:
    """`share` of a whole (above 1: beyond it), with what is written behind its bar."""

    name: str
    share: float
    text: str


@dataclass(frozen=True)
class Meters:
    """A bar for each meter, lying, with a mark where the whole is."""

    title: str
    meters: Sequence[Meter]


@dataclass(frozen=True)
class Roof:
    """A limit: of a ceiling work a second, of a slope bytes a second, both in the unit of the vertical axis."""

    name: str
    value: float


@dataclass(frozen=True)
class Work:
    """A point: so much work for each byte at the level `name`, done at this rate."""

    name: str
    per_byte: float
    rate: float


@dataclass(frozen=True)
class Roofline:
    """`slopes` of memory levels, the `works` at these levels in the same order, and `ceilings`, on logarithmic axes."""

    title: str
    x: Axis
    y: Axis
    ceilings: Sequence[Roof]
    slopes: Sequence[Roof]
    works: Sequence[Work]


@dataclass(frozen=True)
class State:
    """A state of a strip: its `letter`, what it is called, its colour, and how much of the strip's height it fills (0 to 1)."""

    letter: str
    name: str
    colour: str
    height: float


@dataclass(frozen=True)
class Strips:
    """A row for each of `rows`, in it its `runs` one after the other: a state's letter and for how many steps, from `begin` on.

    Steps are whole numbers of the axis' unit; a run in a state that `states` does not have is left empty.
    """

    title: str
    axis: Axis
    begin: int
    rows: Sequence[str]
    runs: Sequence[Sequence[tuple[str, int]]]
    states: Sequence[State]


@dataclass(frozen=True)
class Lanes:
    """The lanes of a warp above the lines and sectors that they access, joined.

    `lanes` are byte offsets from the first line on, None: not active; without any nothing is joined. `sectors` are numbered from
    the first line on, in the order of lanes; lines and sectors have so many bytes, and a lane accesses `access_bytes`.
    """

    title: str
    lanes: Sequence[int | None]
    sectors: Sequence[int]
    access_bytes: int
    line_bytes: int
    sector_bytes: int


Chart = Bars | Lines | Scatter | HeatMap | Stacks | Meters | Roofline | Strips | Lanes
