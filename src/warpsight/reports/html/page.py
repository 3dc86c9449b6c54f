"""Report data as one HTML file: the sections of its kind in order, drawn, styled and scripted in place.

A section names what it needs, its template, and the assets that it brings.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateError
from markupsafe import Markup

from warpsight.analysis.report_data.files import DAMAGE
from warpsight.base.errors import FormatError
from warpsight.base.units import duration, percent, thousands, three_digits
from warpsight.reports.comparison import signed_percent
from warpsight.reports.formats import plain
from warpsight.reports.html import study
from warpsight.reports.html.advice import advice
from warpsight.reports.html.code import code
from warpsight.reports.html.comparison import differences
from warpsight.reports.html.overview import overview
from warpsight.reports.html.parts import paints
from warpsight.reports.html.provenance import provenance
from warpsight.reports.html.timeline import timeline
from warpsight.reports.html.what_if import times, what_if

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


# -- Numbers and names as a page shows them: filters of the templates.

def dimensions(sizes: list[int]) -> str:
    """A grid or block as CUDA writes it: `(128,1,1)`."""
    return f"({','.join(map(str, sizes))})"


def signed(number: float) -> str:
    """A whole number with its sign, thousands separated."""
    return f"{number:+,.0f}" if round(number) else "0"


FILTERS: dict[str, Any] = {
    "dimensions": dimensions,
    "duration": duration,
    "percent": percent,
    "signed_percent": signed_percent,
    "signed": signed,
    "significant": three_digits,
    "thousands": thousands,
    "times": times,
}


# -- A document as its page holds it: rows of code as tables, so that the names of columns are there once, and numbers are short.

LONG = 1000  # instructions: from here on the page has their text once, in its table
DIGITS = 5  # significant ones of a row's numbers: what a page shows has three
# What the stack tells: its sum, that over the whole, its parts in cycles, and the largest.
_TOLD = ["cpi", "share", "issue_cycles", "wait_cycles", "cause"]
_PAIRS = ("ptx_lines", "intervals")


def embedded(document: dict[str, Any]) -> dict[str, Any]:
    """`document` with `rows` of each view of its `code` as {"columns": names, "values": a list for each row}; the rest as it is.

    Of an explanation's rows what the stack tells is left out (`cpi`, `share`, `issue_cycles`, `wait_cycles`, `cause`). `cpi_stack`
    is a list in the order of the view's own, zeros at its end left out; `waits_for` has pairs (pc, stall cycles); a pair of equal
    numbers (`ptx_lines`, `intervals`) is one; numbers have five digits. What a row lacks is null, and left out at its end; a column
    that all rows lack is not there.

    Rows of `line` that are in the order of their pcs have no `pcs`. Where there is a `source` view, its rows have no `waits_for`,
    which is that of their instructions, and those of `line` no file and line: each source line names its `pcs`. Long code has no
    `text`.
    """
    code = document.get("code")
    if not code:
        return document
    lines = code["line"]["rows"]
    # without source lines no instruction has any
    left_out = {"source": [*_TOLD, "waits_for", "text"], "line": [*_TOLD, "file", "line"]}
    if len(lines) > LONG:
        left_out["line"].append("text")
    if all(row["pcs"] == [pc] for pc, row in enumerate(lines)):
        left_out["line"].append("pcs")
    tables = {name: _table(view["rows"], list(view["cpi_stack"]), left_out[name]) for name, view in code.items()}
    return document | {"code": {name: view | {"rows": tables[name]} for name, view in code.items()}}


def _table(rows: list[dict[str, Any]], components: list[str], left_out: list[str]) -> dict[str, Any]:
    """Columns that most rows have come first."""
    short = [_short(row, components, left_out) for row in rows]
    counts: dict[str, int] = {}
    for row in short:
        for name, value in row.items():
            counts[name] = counts.get(name, 0) + (value is not None and value != "")
    columns = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    return {"columns": columns, "values": [_values(row, columns) for row in short]}


def _short(row: dict[str, Any], components: list[str], left_out: list[str]) -> dict[str, Any]:
    shown = {key: _rounded(value) for key, value in row.items() if key not in left_out}
    shown["cpi_stack"] = _without_end([_rounded(row["cpi_stack"].get(name, 0.0)) for name in components], 0)
    for name in _PAIRS:
        if shown.get(name) and shown[name][0] == shown[name][1]:
            shown[name] = shown[name][0]
    if "waits_for" in shown:
        shown["waits_for"] = [[each["pc"], _rounded(each["stall_cycles"])] for each in row["waits_for"]]
    return shown


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def _values(row: dict[str, Any], columns: list[str]) -> list[Any]:
    return _without_end([row[name] for name in columns], None)


def _without_end(values: list[Any], nothing: Any) -> list[Any]:
    """The list up to its last value that is something."""
    while values and values[-1] == nothing:
        values.pop()
    return values


# -- A document (a dossier of `explore/dossier`) as one HTML file: sections of its kind, drawn, styled and scripted in place.

SELF = "'self'"
_STYLES = ("base.css", "layout.css", "parts.css")
_SCRIPTS = ("core.js", "tabs.js", "keys.js")


def checked_page(document: dict[str, Any], place: str, *, live: bool = False) -> str:
    """The page of a document that was read from the file `place`: raises FormatError where it is no dossier."""
    try:
        return page(document, live=live)
    except (TemplateError, *DAMAGE) as error:
        what = f"is no document that a report can be made of ({type(error).__name__}: {error})"
        raise FormatError(what, place=place, remedy="make it again with `warpsight report --json` of this version") from error


def page(document: dict[str, Any], *, live: bool = False) -> str:
    """The HTML of `document`. The same document always gives the same text; every text in it is shown as it is, never run.

    `live` is for a server (`serving.py`): the page asks it whether the result has changed, and shows itself again then.
    Raises KeyError or ValueError for what is no dossier or has NaN for a number: dossiers are checked where they are made.
    """
    content = plain(document)
    shown = [(section, section.context(content)) for section in sections_of(content["kind"])]
    present = [(section, context) for section, context in shown if context is not None]
    style = "\n".join([*(_asset(name) for name in (*_STYLES, *_extra(present, "styles"))), paints(_components(content))])
    script = _bundle((*_SCRIPTS, *_extra(present, "scripts"), *(["live.js"] if live else [])))
    bodies = [{"section": section, "html": render(section.template, **context)} for section, context in present]
    whole = render(
        "page.jinja",
        document=content,
        sections=bodies,
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{_digest(script)}'; "
        f"base-uri 'none'; form-action 'none'{'; connect-src ' + SELF if live else ''}",
        data=_data(embedded(content)),
    )
    # plain text, so that what is put beside it is not escaped; a file's name that is no text keeps the rest from no one
    return str(whole).encode("utf-8", "replace").decode("utf-8")


def _components(document: dict[str, Any]) -> list[str]:
    """The components of all CPI stacks in the document."""
    stacks = [each["cpi_stack"] for each in document.get("predictions") or ()]
    stacks.append((document.get("designs") or {}).get("components", ()))
    rows = document["components"] if document["kind"] == "comparison" else ()
    return [*(name for stack in stacks for name in stack), *(row["name"] for row in rows)]


def list_page(folder: str, items: Sequence[Any]) -> str:
    """The page that lists results: each with `ident`, `name` and `kind`."""
    return render("list.jinja", folder=folder, items=items, style="\n".join(_asset(name) for name in _STYLES))


def _extra(present: list[tuple[Section, dict[str, Any]]], kind: str) -> list[str]:
    """The assets that the sections ask for, each once, in order."""
    return list(dict.fromkeys(name for section, _ in present for name in getattr(section, kind)))


def _bundle(names: tuple[str, ...]) -> str:
    """Scripts as one, in a scope of its own. `W` is what they share."""
    parts = "\n".join(_asset(name).strip() for name in names)
    return f'(() => {{\n"use strict";\nconst W = {{}};\n{parts}\nW.start();\n}})();'


def _digest(text: str) -> str:
    """What a browser compares with the policy, so that it runs this script and no other."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()


def _data(content: Any) -> str:
    """The document as JSON inside a script element: `<` is written as an escape, so that no text can end it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _asset(name: str) -> str:
    return files("warpsight.reports.html").joinpath("assets", name).read_text("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("warpsight.reports.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment


def render(template: str, **context: Any) -> Markup:
    """The text of a template of ours, marked as HTML that is already escaped. What `context` holds is escaped."""
    return Markup(_environment().get_template(template).render(**context))
