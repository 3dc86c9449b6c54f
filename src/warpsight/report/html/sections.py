"""The sections of a report, in order: what each needs, its template, and the assets that it brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpsight.report.html import study
from warpsight.report.html.advice import advice
from warpsight.report.html.code import code
from warpsight.report.html.comparison import differences
from warpsight.report.html.overview import overview
from warpsight.report.html.provenance import provenance
from warpsight.report.html.timeline import timeline
from warpsight.report.html.what_if import what_if

Context = dict[str, Any] | None


@dataclass(frozen=True)
class Section:
    """`name` is its id and its word in the URL's hash, `title` is what a reader sees.

    `context` makes of a document what the `template` takes, or None where the document does not have it; then the section is left
    out. `scripts` and `styles` are files of `assets/` beyond those of every page.
    """

    name: str
    title: str
    context: Callable[[dict[str, Any]], Context]
    template: str
    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()


def _side(number: int) -> Callable[[dict[str, Any]], Context]:
    """The overview of one side of a comparison."""
    return lambda document: overview(document["sides"][number], ("before-", "after-")[number])


SECTIONS: dict[str, tuple[Section, ...]] = {
    "kernel": (
        Section("overview", "Overview", overview, "overview.jinja", scripts=("overview.js",)),
        Section("code", "Code", code, "code.jinja", scripts=("code.js", "code_find.js", "loads.js"), styles=("code.css",)),
        Section("what-if", "What if", what_if, "what_if.jinja", scripts=("what_if.js",), styles=("stack_bars.css", "what_if.css")),
        Section("advice", "Advice", advice, "advice.jinja", styles=("stack_bars.css", "advice.css")),
        Section("timeline", "Timeline", timeline, "timeline.jinja", scripts=("timeline.js",), styles=("timeline.css",)),
        Section("provenance", "Provenance", provenance, "provenance.jinja", styles=("provenance.css",)),
    ),
    "comparison": (
        Section("differences", "Differences", differences, "differences.jinja"),
        Section("before", "Before", _side(0), "overview.jinja"),
        Section("after", "After", _side(1), "overview.jinja"),
    ),
    "study": (
        Section("summary", "Summary", study.summary, "study_summary.jinja"),
        Section("sensitivity", "Sensitivity", study.sensitivity, "drawings.jinja"),
        Section("fronts", "Pareto fronts", study.fronts, "fronts.jinja", scripts=("fronts.js",)),
        Section("maps", "Maps", study.maps, "drawings.jinja", scripts=("fronts.js",)),
        Section("designs", "Designs", study.designs, "designs.jinja", ("stacks.js", "designs.js"), ("stack_bars.css",)),
    ),
}


def sections_of(kind: str) -> tuple[Section, ...]:
    """The sections of documents of that kind. Raises KeyError for one that there is none of."""
    return SECTIONS[kind]
