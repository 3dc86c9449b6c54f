"""Report data as one self-contained HTML file: the sections of its kind in order.

A section is a function from the document to its template's values, a template, and its assets.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Sequence
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
from warpsight.reports.html import program, study
from warpsight.reports.html.advice import advice
from warpsight.reports.html.code import accesses_by_line, code, load_panels, places_of, sectors_of, shows_ptx
from warpsight.reports.html.comparison import differences
from warpsight.reports.html.overview import overview
from warpsight.reports.html.parts import paint_class, paints, stack_bar
from warpsight.reports.html.provenance import provenance
from warpsight.reports.html.timeline import timeline
from warpsight.reports.html.what_if import times, what_if
from warpsight.reports.prediction import dimensions
from warpsight.result.prediction import in_order

Context = dict[str, Any] | None


@dataclass(frozen=True)
class Section:
    """`name` is its id and its name in the URL's hash, `title` its heading.

    `context` maps a document to the template's values, or to None to leave the section out. `scripts` and `styles` are files of
    `assets/` in addition to those of every page.
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


_SLIDERS = "built/what_if.js"  # built from explorer/src/report.tsx: the components of the explorer
_OVERVIEW_STYLES = ("stack_bars.css", "overview.css")

SECTIONS: dict[str, tuple[Section, ...]] = {
    "kernel": (
        Section("overview", "Overview", overview, "overview.jinja", ("overview.js",), _OVERVIEW_STYLES),
        Section("code", "Code", code, "code.jinja", ("code.js", "code_find.js", "loads.js"), ("code.css", "loads.css")),
        Section("what-if", "What if", what_if, "what_if.jinja", (_SLIDERS,), ("stack_bars.css", "what_if.css")),
        Section("advice", "Advice", advice, "advice.jinja", styles=("stack_bars.css", "advice.css")),
        Section("timeline", "Timeline", timeline, "timeline.jinja", scripts=("timeline.js",), styles=("timeline.css",)),
        Section("provenance", "Provenance", provenance, "provenance.jinja", styles=("provenance.css",)),
    ),
    "comparison": (
        Section("differences", "Differences", differences, "differences.jinja"),
        Section("before", "Before", _side(0), "overview.jinja", styles=_OVERVIEW_STYLES),  # their titles are the names of the two
        Section("after", "After", _side(1), "overview.jinja", styles=_OVERVIEW_STYLES),
    ),
    "program": (
        Section("timeline", "Timeline", program.timeline, "program_timeline.jinja"),
        Section("kernels", "Kernels", program.kernels, "program_kernels.jinja"),
    ),
    "study": (
        Section("summary", "Summary", study.summary, "study_summary.jinja"),
        Section("sensitivity", "Sensitivity", study.sensitivity, "drawings.jinja"),
        Section("fronts", "Pareto fronts", study.fronts, "fronts.jinja", scripts=("fronts.js",)),
        Section("maps", "Maps", study.maps, "drawings.jinja", scripts=("fronts.js",)),
        Section("designs", "Designs", study.designs, "designs.jinja", (_SLIDERS, "designs.js"), ("stack_bars.css",)),
    ),
}


# -- Filters of the templates: numbers and names as text.

_FILTERS: dict[str, Any] = {
    "dimensions": dimensions, "duration": duration, "percent": percent, "signed_percent": signed_percent,
    "significant": three_digits, "thousands": thousands, "times": times,
}  # fmt: skip


# -- The document embedded in the page: rows of code as tables, so that column names are stored once, and numbers are short.

LONG = 1000  # instructions: above this the page has their text once, in its table
DIGITS, FEWER_DIGITS = 5, 3  # significant digits of a row's numbers, and beside long machine code; the page shows three
# Derived from the stack: its sum, its share of the total, its parts in cycles, and the largest one.
_DERIVED = ["cpi", "share", "issue_cycles", "wait_cycles", "cause"]
_PAIRS = ("ptx_lines", "intervals")
_BYTES = {"float64": 8, "uint32": 4, "uint8": 1}  # of a value in a column of the grid of designs


def embedded(document: dict[str, Any]) -> dict[str, Any]:
    """`document` with `rows` of each view of its `code` as {"columns": names, "values": a list for each row}.

    The summary of the first prediction has no `not_tried`, which may be long and of which the page shows what matters. Entries of
    `loads` have no file and lines, which are those of their pc, and the `timeline` names each file of its `instructions`
    once, in `files`. The rest of the document is as it is.

    Values of a row that follow from its stack are left out (`cpi`, `share`, `issue_cycles`, `wait_cycles`, `cause`). `cpi_stack`
    is a list in the order of the view's own, without zeros at its end; `waits_for` has pairs (pc, stall cycles); a pair of equal
    numbers (`ptx_lines`, `intervals`) is one number; numbers have five digits. A missing value is null, left out at the end of a
    row; a column without any value is left out. `same` has the columns with one value in all rows, and the `cpi_stack` of a row of
    long code is the number of its list in `stacks`. `loads` are such a table too.

    Designs of the grid that are the same in all of its columns stand there once: `rows` is then the number of each point's.

    Rows of instructions (`sass`, else `line`) in the order of their pcs have no `pcs`. What stands in the tables alone is left
    out: `machine` of `sass`, `unused` of `line`, and the `text` of long code. Rows that are not of instructions have no
    `waits_for`, and only those of `source` have file and line: each names its `pcs`. Beside long machine code there is no `line`.
    """
    code = document.get("code")
    first, *others = document.get("predictions") or [{}]
    if "summary" in first:
        summary = {key: value for key, value in first["summary"].items() if key != "not_tried"}
        document = document | {"predictions": [first | {"summary": summary}, *others]}
    if document.get("what_if"):
        document = document | {"what_if": _with_rows(document["what_if"])}
    if "timeline" in document:
        document = document | {"timeline": _with_files(document["timeline"])}
    if not code:
        return document
    digits = DIGITS
    if not shows_ptx(code):
        code, digits = {name: view for name, view in code.items() if name != "line"}, FEWER_DIGITS
    finest = "sass" if "sass" in code else "line"
    instructions = code[finest]["rows"]
    # without a source view no instruction has a file or line
    left_out = {name: [*_DERIVED, "machine", *(["file", "line"] if name != "source" else [])] for name in code}
    for name in code:
        if name != finest:
            left_out[name].append("waits_for")
        if name == "source" or len(instructions) > LONG:
            left_out[name].append("text")
    if all(row["pcs"] == [pc] for pc, row in enumerate(instructions)):
        left_out[finest].append("pcs")
    tables = {name: _code_table(view, left_out[name], digits) for name, view in code.items()}
    views = {name: {key: part for key, part in view.items() if key != "unused"} for name, view in code.items()}
    places = ("file", "line", "ptx_line")
    if "loads" in document:
        loads = [{key: part for key, part in entry.items() if key not in places} for entry in document["loads"]]
        document = document | {"loads": _table(loads)}
    return document | {"code": {name: view | {"rows": tables[name]} for name, view in views.items()}}


def _with_files(timeline: dict[str, Any]) -> dict[str, Any]:
    files = list(dict.fromkeys(each["file"] for each in timeline["instructions"].values()))
    numbers = {file: number for number, file in enumerate(files)}
    instructions = {pc: each | {"file": numbers[each["file"]]} for pc, each in timeline["instructions"].items()}
    return timeline | {"files": files, "instructions": instructions}


def _with_rows(grid: dict[str, Any]) -> dict[str, Any]:
    """A grid whose columns have designs that are the same in all of them once, where that is shorter."""
    columns = [(each, base64.b64decode(each["data"]), _BYTES[each["type"]]) for each in grid["columns"]]
    points = list(zip(*([data[at : at + size] for at in range(0, len(data), size)] for _, data, size in columns), strict=True))
    designs = {design: number for number, design in enumerate(dict.fromkeys(points))}
    if len(designs) > len(points) // 2:
        return grid
    short = [each | {"data": _packed(b"".join(design[k] for design in designs))} for k, (each, _, _) in enumerate(columns)]
    numbers = struct.pack(f"<{len(points)}H", *(designs[point] for point in points))
    return grid | {"columns": short, "rows": {"name": "rows", "type": "uint16", "data": _packed(numbers)}}


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _code_table(view: dict[str, Any], left_out: list[str], digits: int) -> dict[str, Any]:
    rows = [_short(row, list(view["cpi_stack"]), left_out, digits) for row in view["rows"]]
    if len(rows) <= LONG:
        return _table(rows)
    stacks = {tuple(row["cpi_stack"]): row["cpi_stack"] for row in rows}
    numbers = {stack: number for number, stack in enumerate(stacks)}
    table = _table([row | {"cpi_stack": numbers[tuple(row["cpi_stack"])]} for row in rows])
    return table | {"stacks": list(stacks.values())}


def _table(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns with values in the most rows come first."""
    counts: dict[str, int] = {}
    for row in rows:
        for name, value in row.items():
            counts[name] = counts.get(name, 0) + (value is not None and value != "")
    there = [name for name in counts if counts[name]]
    same = {name: rows[0][name] for name in there if len(rows) > 1 and all(row.get(name) == rows[0].get(name) for row in rows)}
    columns = sorted((name for name in there if name not in same), key=lambda name: -counts[name])
    return {"columns": columns, "same": same, "values": [_without_end([row.get(name) for name in columns], None) for row in rows]}


def _short(row: dict[str, Any], components: list[str], left_out: list[str], digits: int) -> dict[str, Any]:
    shown = {key: _rounded(value, digits) for key, value in row.items() if key not in left_out}
    shown["cpi_stack"] = _without_end([_rounded(row["cpi_stack"].get(name, 0.0), digits) for name in components], 0)
    for name in _PAIRS:
        if shown.get(name) and shown[name][0] == shown[name][1]:
            shown[name] = shown[name][0]
    if "waits_for" in shown:
        shown["waits_for"] = [[each["pc"], _rounded(each["stall_cycles"], digits)] for each in row["waits_for"]]
    return shown


def _rounded(value: Any, digits: int) -> Any:
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short


def _without_end(values: list[Any], nothing: Any) -> list[Any]:
    """The list up to its last value other than `nothing`."""
    while values and values[-1] == nothing:
        values.pop()
    return values


# -- Report data (`analysis/report_data`) as one HTML file.

MOST_PANELS = 8  # of one line; an unrolled loop has hundreds
_STYLES = ("base.css", "layout.css", "parts.css")
_SCRIPTS = ("core.js", "figures.js", "tabs.js", "keys.js")


def checked_page(document: dict[str, Any], place: str) -> str:
    """The page of a document read from the file `place`. Raises FormatError if the document is not report data."""
    try:
        return page(document)
    except (TemplateError, *DAMAGE) as error:
        what = f"is not report data ({type(error).__name__}: {error})"
        raise FormatError(what, place=place, remedy="create it again with `warpsight report --json` of this version") from error


def page(document: dict[str, Any]) -> str:
    """The HTML of `document`. The same document always gives the same text; every text in it is escaped, never executed.

    Raises KeyError or ValueError if the document is not report data or has NaN.
    """
    content = plain(document)
    shown = [(section, section.context(content)) for section in SECTIONS[content["kind"]]]
    present = [(section, context) for section, context in shown if context is not None]
    style = "\n".join([*(_asset(name) for name in (*_STYLES, *_extra(present, "styles"))), paints(_components(content))])
    script = _bundle((*_SCRIPTS, *_extra(present, "scripts")))
    titles = dict(zip(("before", "after"), content.get("names", ()), strict=False))
    bodies = [{"section": section, "title": titles.get(section.name, section.title), "html": render(section.template, **context)}
              for section, context in present]
    whole = render(
        "page.jinja",
        document=content,
        sections=bodies,
        style=style,
        script=script,
        policy=_policy(script, "form-action 'none'"),
        data=_data(embedded(content)),
    )
    # a plain str, so that text appended to it is not escaped; undecodable file names are replaced
    return str(whole).encode("utf-8", "replace").decode("utf-8")


def accesses(document: dict[str, Any], file: str, line: int) -> str:
    """The memory instructions of a line of the kernel's own `file`, as the code section shows them: HTML with its styles and
    without scripts, for a page that has the colours of `base.css`. "" for a line without them.

    `document` is the data of a kernel's report. Of many instructions those with the most sectors are shown, in order of pc.
    """
    found = accesses_by_line(document, file).get(line, [])
    busiest = sorted(found, key=lambda entry: (-sectors_of(entry), entry["pc"]))[:MOST_PANELS]
    chosen = document | {"loads": sorted(busiest, key=lambda entry: entry["pc"])}
    loads = load_panels(chosen, places_of(document["code"])) if found else None
    if loads is None:
        return ""
    style = Markup("\n".join(map(_asset, ("parts.css", "loads.css"))))  # ours, and no text of the document
    return str(render("accesses.jinja", style=style, panels=loads["panels"], left=len(found) - len(busiest)))


def stack_part(prediction: dict[str, Any]) -> str:
    """The CPI stack of a prediction with its key, as reports draw it: HTML with its styles and without scripts, as `accesses`."""
    stack = in_order(prediction["cpi_stack"])
    text = f"{three_digits(prediction['cpi'])} cycles per instruction"
    bar = stack_bar("CPI stack", stack, prediction["cpi"], text)
    sizes = {name: size for name, size in stack.items() if size > 0}
    key = [{"name": name, "paint": paint_class(name), "share": size / prediction["cpi"]} for name, size in sizes.items()]
    return _part("stack.jinja", {"bar": bar, "components": key}, ("stack_bars.css",), stack)


def advice_part(prediction: dict[str, Any], advised: dict[str, Any]) -> str:
    """The advice section of a report on `prediction`, of which `advised` is the `advice`; as `stack_part`."""
    document = {"kind": "kernel", "predictions": [prediction], "advice": advised}
    context = advice(document)
    assert context is not None
    return _part("advice.jinja", context, ("stack_bars.css", "advice.css"), _components(document))


def _part(template: str, context: dict[str, Any], styles: Sequence[str], components: Iterable[str]) -> str:
    style = Markup("\n".join([*map(_asset, ("parts.css", *styles)), paints(components)]))  # names of components are identifiers
    return f"<style>{style}</style>{render(template, **context)}"


def _components(document: dict[str, Any]) -> list[str]:
    """The components of all CPI stacks in the document."""
    stacks = [each["cpi_stack"] for each in document.get("predictions") or ()]
    stacks += [each["cpi_stack"] for each in (document.get("advice") or {}).get("advice", ())]
    stacks.append((document.get("designs") or {}).get("components", ()))
    rows = document["components"] if document["kind"] == "comparison" else ()
    return [*(name for stack in stacks for name in stack), *(row["name"] for row in rows)]


def _policy(script: str, more: str) -> str:
    """A browser runs only the script with this hash, and asks no other place for anything."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; base-uri 'none'; {more}"


def _extra(present: list[tuple[Section, dict[str, Any]]], kind: str) -> list[str]:
    """The assets of the sections, each once, in order."""
    return list(dict.fromkeys(name for section, _ in present for name in getattr(section, kind)))


def _bundle(names: tuple[str, ...]) -> str:
    """Scripts as one, in a scope of its own. They share `W`."""
    parts = "\n".join(_asset(name).strip() for name in names)
    return f'(() => {{\n"use strict";\nconst W = {{}};\n{parts}\nW.start();\n}})();'


def _data(content: Any) -> str:
    """The document as JSON inside a script element; `<` is escaped, so that no text can end the element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _asset(name: str) -> str:
    return files("warpsight.reports.html").joinpath("assets", name).read_text("utf-8")


@cache
def _environment() -> Environment:
    loader = PackageLoader("warpsight.reports.html")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(_FILTERS)
    return environment


def render(template: str, **context: Any) -> Markup:
    """The text of a template, marked as HTML. Values of `context` are escaped."""
    return Markup(_environment().get_template(template).render(**context))
