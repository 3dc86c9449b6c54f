"""What a figure is, and the document that each of them makes (schema 1; docs/reference/validate.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from warpsight.gpu.describe import resolved, spec_hash
from warpsight.gpu.loader import load_gpu
from warpsight.papers.results import Cast, Point, Results
from warpsight.pipeline.provenance import TOOL

SCHEMA = 1
MDM = "Wang, Jahre, Adileh, Eeckhout: MDM: The GPU Memory Divergence Model. MICRO 2020"
GPUMECH = "Huang, Lee, Kim, Lee: GPUMech: GPU Performance Modeling Technique Based on Interval Analysis. MICRO 2014"
# Why no number can be the paper's own, whatever the figure.
OTHER_KERNELS = {
    MDM: "The paper runs 17 applications of Rodinia, Parboil, Polybench, SDK, Mars and Tango on GPGPU-sim 3.2. Here other kernels, "
    "smaller ones, run on Warpsight's own simulator.",
    GPUMECH: "The paper runs 40 kernels of Rodinia, Parboil and the SDK on Macsim. Here other kernels run on Warpsight's own "
    "simulator, with the op latencies of the catalogue's `gpumech`.",
}


@dataclass(frozen=True)
class About:
    """A figure's `name` on the command line, `title`, the paper (`cite`), its number there (`place`), and what it `shows`.

    `gpu` is the base design, a name of the catalogue.
    """

    name: str
    title: str
    cite: str
    place: str
    shows: str
    gpu: str


class Figure(Protocol):
    """A figure of a paper, to be made again."""

    @property
    def about(self) -> About:
        """Its name, and the paper's figure."""

    def points(self, cast: Cast) -> list[Point]:
        """What it needs to know. Raises UsageError when the kernels cannot show it."""

    def content(self, cast: Cast, results: Results) -> Content:
        """What it shows, from the results for its points; of those that failed nothing."""


@dataclass(frozen=True)
class Number:
    """`what` in `unit`: the `paper`'s number (None: none in its words), `ours` (None: nothing to make it of), `where` it stands."""

    what: str
    unit: str
    paper: float | None
    ours: float | None
    where: str = ""

    def to_json(self) -> dict[str, Any]:
        """Its part of the document."""
        difference = None if self.paper is None or self.ours is None else self.ours - self.paper
        return {**self.__dict__, "difference": difference}


@dataclass(frozen=True)
class Claim:
    """What the paper observes, in words of ours; whether it `holds` here (None: cannot be said), and by which numbers."""

    says: str
    where: str
    holds: bool | None
    ours: str


@dataclass(frozen=True)
class Table:
    """Cells are texts, numbers or None."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def to_json(self) -> dict[str, Any]:
        """Its part of the document."""
        return {"title": self.title, "columns": list(self.columns), "rows": [list(row) for row in self.rows]}


@dataclass
class Content:
    """What a figure adds to its document: charts (`panels`), data `rows`, and what is said about them.

    `differences` are sentences made of numbers, `notes` what a reader must know of how the figure was made here.
    """

    panels: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def figure_document(figure: Figure, cast: Cast, results: Results) -> dict[str, Any]:
    """The result document of a figure: plain JSON types, and the same for the same results."""
    about = figure.about
    points = figure.points(cast)
    content = figure.content(cast, results)
    gpu = load_gpu(about.gpu)
    names = {point.kernel for point in points} or {member.name for member in cast.members}
    members = [member for member in cast.members if member.name in names]
    only = f" --kernels {','.join(cast.only)}" if cast.only else ""
    document = {
        "schema": SCHEMA,
        "figure": about.name,
        "title": about.title,
        "paper": {"cite": about.cite, "place": about.place, "shows": about.shows},
        "tool": TOOL,
        "command": f"warpsight validate --suite {cast.suite} --figure {about.name}{only}",
        "suite": cast.suite,
        "kernels": [member.name for member in members],
        "holdout": [member.name for member in members if member.holdout],
        "gpu": {"name": about.gpu, "hash": spec_hash(gpu), "resolved": resolved(gpu)},
        "numbers": [number.to_json() for number in content.numbers],
        "claims": [dict(vars(claim)) for claim in content.claims],
        "differences": content.differences,
        "notes": [OTHER_KERNELS[about.cite], *content.notes],
        "panels": content.panels,
        "tables": [table.to_json() for table in content.tables],
        "rows": content.rows,
        "failed": results.failures(points),
    }
    rounded: dict[str, Any] = _rounded(document)
    return rounded


def _rounded(value: Any) -> Any:
    """Floats in six significant digits: more say nothing, and take room in every figure's file."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value
