"""Explanations and advice as terminal text: cycles of each line or basic block, and changes with their gains."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from warpsight.base.units import percent, thousands, three_digits
from warpsight.reports.prediction import heading, notes_text
from warpsight.reports.terminal import PLAIN, WIDTH, Column, Style, aligned, shortened
from warpsight.result.prediction import components_of

_LONGEST_GAP = 3
_LEGEND = (
    "issue and wait: cycles of the launch, by the instruction that issues or waits; cause: its largest CPI-stack component; lanes: "
    "active of 32; req: requests per execution; sect: 32 B sectors per request; L1, L2: hit rates of loads; interval: of the "
    "representative warp; waits for: {operand}"
)
_OPERANDS = {
    "line": "pc of the producer of the operand with the longest stall",
    "source": "line and opcode of the producer of the operand with the longest stall",
    "block": "pc of the producer of the operand with the longest stall",
}


def explanation_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Heading, table, cycles charged to no line, total and legend. At most 120 columns; longer source text is cut."""
    prediction, view = document["prediction"], document["by"]
    head = f"  predicted    {thousands(document['cycles'])} cycles, bound by {prediction['bound_by']}"
    rows = _with_gaps(document) if view == "source" else list(document["rows"])
    table = aligned([*_place(rows, view), *_figures(rows, view), _text(rows, document)])
    body = [style.strong(table[0]), *table[1 : 1 + len(rows)]]
    legend = textwrap.wrap(_LEGEND.format(operand=_OPERANDS[view]), WIDTH - 2, initial_indent=" ", subsequent_indent=" ")
    notes = [f" note: {PurePath(file).name} was not found, so its text is missing" for file in document["missing_sources"]]
    parts = [heading(prediction), "", head, "", *body, "", *_sums(document, style), "", *map(style.faint, [*legend, *notes])]
    return "\n".join(parts) + notes_text([prediction], style)


def _place(rows: list[dict[str, Any]], view: str) -> list[Column]:
    if view == "source":
        return [Column("line", [_number(row["line"]) for row in rows])]
    if view == "line":
        return [Column("pc", [str(row["pcs"][0]) for row in rows]), Column("line", [_number(row["line"]) for row in rows])]
    return [Column("block", [str(row["block"]) for row in rows])]


def _figures(rows: list[dict[str, Any]], view: str) -> list[Column]:
    """The columns that all views have; a cell is empty where there is nothing to say."""
    ran = [bool(row.get("executions")) for row in rows]

    def cells(show: Any) -> list[str]:
        return [show(row) if here else "" for row, here in zip(rows, ran, strict=True)]

    def optional(name: str, show: Any) -> list[str]:
        return [show(row[name]) if here and row[name] is not None else "" for row, here in zip(rows, ran, strict=True)]

    return [
        Column("share", cells(lambda row: percent(row["share"]))),
        Column("issue", cells(lambda row: _cycles(row["issue_cycles"]))),
        Column("wait", cells(lambda row: _cycles(row["wait_cycles"]))),
        Column("cause", cells(lambda row: row["cause"]), left=True),
        Column("lanes", optional("lanes", three_digits)),
        Column("req", optional("requests_per_execution", three_digits)),
        Column("sect", optional("sectors_per_request", three_digits)),
        Column("L1", optional("l1_hit_rate", _rate)),
        Column("L2", optional("l2_hit_rate", _rate)),
        Column("interval", optional("intervals", _span)),
        Column("waits for", cells(lambda row: _operand(row, view)), left=True),
    ]


def _text(rows: list[dict[str, Any]], document: dict[str, Any]) -> Column:
    if document["by"] == "line":
        return Column("PTX", [row["text"] for row in rows], left=True)
    if document["by"] == "block":
        return Column("PTX lines", [f"{_span(row['ptx_lines'])}, from {_where(row)}" for row in rows], left=True)
    files = {row["file"] for row in rows if row["file"]}
    return Column("source" if len(files) != 1 else PurePath(files.pop()).name, _listing(rows, document), left=True)


def _listing(rows: list[dict[str, Any]], document: dict[str, Any]) -> list[str]:
    """The source text of each row without common indentation; the file's name where it changes."""
    several = len({row["file"] for row in rows} - {""}) > 1
    found, before = [], None
    for row in rows:
        text = document["sources"].get(row["file"], {}).get(str(row["line"]), "").expandtabs(2)
        named = several and row["file"] != before
        found.append(f"{PurePath(row['file']).name}: {text.strip()}" if named and row["file"] else row.get("gap", text))
        before = row["file"]
    texts = found if several else textwrap.dedent("\n".join(found)).split("\n")
    return [text if row["file"] else "(no source line)" for row, text in zip(rows, texts, strict=True)]


def _with_gaps(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows and, between them, source lines without instructions; longer gaps as one row of dots."""
    found: list[dict[str, Any]] = []
    for row in document["rows"]:
        before = found[-1] if found else None
        if before is not None and before["file"] == row["file"] and row["file"] in document["sources"]:
            between = range(before["line"] + 1, row["line"])
            if len(between) > _LONGEST_GAP:
                found.append({"file": row["file"], "line": 0, "gap": "..."})
            else:
                found += [{"file": row["file"], "line": line} for line in between]
        found.append(row)
    return found


def _sums(document: dict[str, Any], style: Style) -> list[str]:
    """The cycles charged to no line, and the totals."""
    totals, rest = document["totals"], document["rest"]
    names = [*(part["component"] for part in rest), "total"]
    shares = [*(percent(part["share"]) for part in rest), percent(1)]
    issue = [*("" for _ in rest), _cycles(totals["issue_cycles"])]
    wait = [*(_cycles(part["wait_cycles"]) for part in rest), _cycles(totals["wait_cycles"])]
    components = components_of(document["prediction"])
    meanings = [components[part["component"]].meaning for part in rest]
    why = [*(f"{meaning}; charged to no line".lstrip("; ") for meaning in meanings), "equal to `warpsight predict`"]
    columns = [Column("", names, left=True), Column("share", shares), Column("issue", issue), Column("wait", wait)]
    lines = aligned([*columns, Column("", why, left=True)])
    return [*lines[:-1], style.strong(lines[-1])]


def _operand(row: dict[str, Any], view: str) -> str:
    """The operand with the longest stall."""
    if not row["waits_for"]:
        return ""
    wait = row["waits_for"][0]
    opcode = ".".join(wait["opcode"].split(".")[:2])
    return f"{_number(wait['line'])} {opcode}".lstrip() if view == "source" else f"pc {wait['pc']}"


def _span(ends: Sequence[int]) -> str:
    """`3-8`, or `3` for one."""
    return "-".join(map(str, dict.fromkeys(ends)))


def _where(row: dict[str, Any]) -> str:
    return f"{PurePath(row['file']).name}:{row['line']}" if row["file"] else "no source line"


def _number(line: int) -> str:
    return str(line) if line else ""


def _cycles(cycles: float) -> str:
    return thousands(cycles) if cycles >= 100 or cycles == 0 else three_digits(cycles)


def _rate(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"


# -- Advice as terminal text: changes by their gain, each with its reason and its cost.

_PLACE = 24


def advice_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Heading, the changes, and a summary of the rest. At most 120 columns."""
    prediction, shown = document["prediction"], document["advice"]
    lines = [heading(prediction), "", f"  predicted    {thousands(document['cycles'])} cycles, bound by {document['bound_by']}", ""]
    if shown:
        width = max(len("saved"), *(len(thousands(change["gain_cycles"])) for change in shown))
        lines.append(style.strong(f"   gain  {'saved':>{width}}  change"))
        for change in shown:
            lines += _change(change, width, style)
    else:
        lines.append(" no evaluated change saves 0.1 % of the cycles")
    lines += ["", *_besides(document, style)]
    return "\n".join(lines) + notes_text([prediction], style)


def _change(change: dict[str, Any], width: int, style: Style) -> list[str]:
    indent = " " * (11 + width)
    place = shortened(change["place"], _PLACE)
    head = f" {percent(change['gain']):>6}  {thousands(change['gain_cycles']):>{width}}  "
    title = textwrap.wrap(change["title"], WIDTH - len(head), break_on_hyphens=False)
    setting = f" (--set '{change['setting']}')" if change["setting"] else ""
    text = f"{change['owner']}, {place}: {change['reason']}. Costs: {change['cost']}{setting}."
    detail = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return [head + style.strong(title[0]), *(indent + part for part in title[1:]), *map(style.faint, detail)]


def _besides(document: dict[str, Any], style: Style) -> list[str]:
    more = document["with_gain"] - len(document["advice"])
    lines = [" each gain is for one change alone, so gains do not add up; saved: cycles of the launch"]
    if more:
        lines.append(f" {more} more with a smaller gain; use --top N or --json to show them")
    if document["without_gain"]:
        lines.append(f" {document['without_gain']} evaluated without gain (less than 0.1 %)")
    if document["not_tried"]:
        lines.append(f" {document['not_tried']} not evaluated: lines with less traffic than those above")
    for refused in document["refused"]:
        text = f" not possible: {refused['title']}: {refused['why']}"
        lines += textwrap.wrap(text, WIDTH, subsequent_indent="   ", break_on_hyphens=False)
    return [style.faint(line) for line in lines]
