"""The charts, as plain data: each has a title, axes with units and names for its series. A value of None is a gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LINEAR, LOG, LOG_FROM_0 = "linear", "log", "log-from-0"

Value = float | None


@dataclass(frozen=True)
class Axis:
    """`label` with its `unit` ("" for none). `log-from-0` has a step for 0 before 1. Values above `most` are cut and labelled."""

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
    """Values in the order of the chart's groups or x values. `style` is for `canvas.style_of`; default: the series' number."""

    name: str
    values: Sequence[Value]
    style: int | None = None


@dataclass(frozen=True)
class Bars:
    """Bars by group: side by side, or stacked. `spans` are names of runs of groups, (name, number of groups), in order.

    `line` is a mark across each group, such as a reference for a stack.
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

    `even` spaces the x values evenly, for a few design points with very different distances.
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
    """One point of a scatter chart; `name` is shown on hover, a page's script finds the point by `hook`."""

    x: float
    y: float
    name: str
    hook: str = ""


@dataclass(frozen=True)
class Scatter:
    """Points by series: (name, points). `diagonal` draws the line where x equals y.

    `front` is the number of a series whose points, x ascending, are joined by steps up to the right edge: the best up to an x.
    """

    title: str
    x: Axis
    y: Axis
    series: Sequence[tuple[str, Sequence[Dot]]]
    diagonal: bool = False
    front: int | None = None


@dataclass(frozen=True)
class HeatMap:
    """A value for each row and column, written into its cell. `most` is the value of the darkest shade; default: the largest one.

    Each word has its own colour, in alphabetical order. `hooks`, one for each cell ("" for none), are names for a page's script.
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
    """A horizontal bar for each row, its parts one after the other on a common scale; `totals` are written after the bars.

    A bar beyond the axis's `most` is cut, and has two strokes across its end.
    """

    title: str
    axis: Axis
    rows: Sequence[str]
    series: Sequence[Series]
    totals: Sequence[str]


@dataclass(frozen=True)
class Meter:
    """A `share` of a whole (may be above 1), and the `text` after its bar."""

    name: str
    share: float
    text: str


@dataclass(frozen=True)
class Meters:
    """A horizontal bar for each meter, with a mark at the whole."""

    title: str
    meters: Sequence[Meter]


@dataclass(frozen=True)
class Roof:
    """A limit: work per second of a ceiling, bytes per second of a slope, in the unit of the vertical axis."""

    name: str
    value: float


@dataclass(frozen=True)
class Work:
    """A point: the work per byte at the level `name`, and its rate."""

    name: str
    per_byte: float
    rate: float


@dataclass(frozen=True)
class Roofline:
    """`slopes` of memory levels, `works` at these levels in the same order, and `ceilings`, on logarithmic axes."""

    title: str
    x: Axis
    y: Axis
    ceilings: Sequence[Roof]
    slopes: Sequence[Roof]
    works: Sequence[Work]


@dataclass(frozen=True)
class State:
    """A state of a strip: its `letter`, its colour, and the part of the strip's height that it fills (0 to 1)."""

    letter: str
    colour: str
    height: float


@dataclass(frozen=True)
class Strips:
    """A row for each of `rows` with its `runs` (letter of the state, steps) one after the other, starting at `begin`.

    A step is one unit of the axis; runs of a state that is not in `states` are left empty.
    """

    title: str
    axis: Axis
    begin: int
    rows: Sequence[str]
    runs: Sequence[Sequence[tuple[str, int]]]
    states: Sequence[State]


@dataclass(frozen=True)
class Span:
    """What is in a row from `begin` to `end`: `name` is the number of its name, `tip` is shown on hover."""

    begin: float
    end: float
    name: int
    tip: str


@dataclass(frozen=True)
class Spans:
    """A row for each of `rows` with its `spans` on an axis from 0 to `end`; each of `names` has its own colour."""

    title: str
    axis: Axis
    end: float
    rows: Sequence[str]
    names: Sequence[str]
    spans: Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Lanes:
    """The lanes of a warp above the lines and sectors that they access, joined.

    `lanes` are byte offsets from the first line, None for an inactive lane; empty: unknown, then nothing is joined. `sectors` are
    counted from the first line, in the order of the lanes. A lane accesses `access_bytes`.
    """

    title: str
    lanes: Sequence[int | None]
    sectors: Sequence[int]
    access_bytes: int
    line_bytes: int
    sector_bytes: int


@dataclass(frozen=True)
class StepCurve:
    """A small chart of a whole number, at most `highest`, that changes in `steps` (x, value from there on) up to x = `end`.

    `own` is the present point, (x, value).
    """

    title: str
    x: Axis
    y: Axis
    steps: Sequence[tuple[float, float]]
    end: float
    highest: float
    own: tuple[float, float]


@dataclass(frozen=True)
class Memory:
    """A box of the memory chart: its `title`, `lines` of text, and its `share` of the peak, None where it has none."""

    title: str
    lines: Sequence[str]
    share: float | None = None


@dataclass(frozen=True)
class Flow:
    """An arrow between two boxes: its `name`, the `count` and `size` of what goes there, the `share` of the peak.

    `inward`: towards the kernel.
    """

    name: str
    count: str
    size: str
    share: float
    inward: bool


@dataclass(frozen=True)
class MemoryChart:
    """The memory hierarchy: boxes `kernel`, `l1`, `shared`, `l2` and `dram`, and the flows between pairs of them, nearer box first.

    `unit` is written over L1 and shared memory, which share a unit. `upright`: from top to bottom, for a narrow screen.
    """

    title: str
    boxes: Mapping[str, Memory]
    flows: Mapping[tuple[str, str], Sequence[Flow]]
    unit: str
    upright: bool = False


Chart = Bars | Lines | Scatter | HeatMap | Stacks | Meters | Roofline | Strips | Spans | Lanes | StepCurve | MemoryChart
