"""Explanations and advice as terminal text: cycles of each line or basic block, and changes with their gains."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from warpsight.base.units import percent, thousands, three_digits
from warpsight.reports.machine_code import machine_cells
from warpsight.reports.prediction import heading, notes_text
from warpsight.reports.terminal import PLAIN, WIDTH, Column, Style, aligned, shortened, wrapped
from warpsight.result.prediction import components_of

_LONGEST_GAP = 3
_LEGEND = (
    "issue and wait: cycles of the launch, by the instruction that issues or waits; cause: its largest CPI-stack component; lanes: "
    "active of 32; req: requests per execution; sect: 32 B sectors per request; L1, L2: hit rates of loads; interval: of the "
    "representative warp; waits for: {operand} of the producer of the operand with the longest stall"
)

_MACHINE_LEGEND = (
    "issue and wait: cycles of the launch, by the instruction that issues or waits; cause: its largest CPI-stack component; "
    "executed: warp instructions; waits: the barriers waited for; stall: cycles before the warp's next instruction may issue (y: "
    "the scheduler may switch to another warp); sets: the barriers that the result (W) and the operands (R) release; live: 32-bit "
    "registers needed after it"
)


def explanation_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Heading, table, cycles charged to no line, total and legend. At most 120 columns; longer source text is cut."""
    prediction, view = document["prediction"], document["by"]
    head = f"  predicted    {thousands(document['cycles'])} cycles, bound by {prediction['bound_by']}"
    rows = _with_gaps(document) if view == "source" else list(document["rows"])
    if view == "sass":
        columns = _machine(rows)
    else:
        columns = [*_place(rows, _kind(document)), *_figures(rows, _kind(document)), _text(rows, document)]
    table = aligned(columns, style)
    legend = _MACHINE_LEGEND if view == "sass" else _LEGEND.format(operand=_OPERANDS.get(_kind(document), "pc"))
    faint = textwrap.wrap(legend, WIDTH - 2, initial_indent=" ", subsequent_indent=" ")
    faint += [f" note: {PurePath(file).name} was not found, so its text is missing" for file in document["missing_sources"]]
    lines = [heading(prediction), "", head, "", *table, "", *_sums(document, style), "", *map(style.faint, faint)]
    return "\n".join(lines) + notes_text([prediction], style)


def _kind(document: dict[str, Any]) -> str:
    """The view of a table: `ptx` is that by line of a kernel that was executed as machine code."""
    launch = document["prediction"]["provenance"].get("launch") or {}
    native = launch.get("level") == "sass" and launch.get("registers_from") != "trace"  # those of other tools have no PTX
    return "ptx" if native and document["by"] == "line" else str(document["by"])


_OPERANDS = {"source": "line and opcode", "ptx": "PTX line and opcode"}


def _machine(rows: list[dict[str, Any]]) -> list[Column]:
    """Instructions of machine code with their control words, executions and cycles; the name of a section where another begins."""
    listed: list[dict[str, Any] | str] = []
    for before, row in pairwise([rows[0], *rows]):
        if before["machine"]["section"] != row["machine"]["section"]:
            listed.append(f"{row['machine']['section']}:")
        listed.append(row)

    def cells(show: Callable[[dict[str, Any]], str]) -> list[str]:
        return ["" if isinstance(each, str) else show(each) for each in listed]

    words = [Column(name, cells(lambda row, k=k: machine_cells(row["machine"])[k]))  # type: ignore[misc]
             for k, name in enumerate(("address", "waits", "stall", "sets", "live"))]  # fmt: skip
    figures = {column.heading: column for column in _figures([{} if isinstance(each, str) else each for each in listed], "sass")}
    return [
        words[0], *(figures[name] for name in ("share", "issue", "wait", "cause")),
        Column("executed", cells(lambda row: thousands(row["executions"]))), *words[1:],
        Column("line", cells(lambda row: _number(row["line"]))),
        Column("instruction", [each if isinstance(each, str) else each["text"] for each in listed], left=True),
    ]  # fmt: skip


def _place(rows: list[dict[str, Any]], view: str) -> list[Column]:
    if view == "block":
        return [Column("block", [str(row["block"]) for row in rows])]
    if view == "ptx":
        return [Column("PTX line", [_number(row["ptx_lines"][0]) for row in rows])]
    line = Column("line", [_number(row["line"]) for row in rows])
    return [line] if view == "source" else [Column("pc", [str(row["pcs"][0]) for row in rows]), line]


def _figures(rows: list[dict[str, Any]], view: str) -> list[Column]:
    """The columns that all views have; rows that are not executed, and values of None, have empty cells."""

    def cells(name: str, show: Callable[[Any], str]) -> list[str]:
        return [show(row[name]) if row.get("executions") and row[name] is not None else "" for row in rows]

    return [
        Column("share", cells("share", percent)),
        Column("issue", cells("issue_cycles", _cycles)),
        Column("wait", cells("wait_cycles", _cycles)),
        Column("cause", cells("cause", str), left=True),
        Column("lanes", cells("lanes", three_digits)),
        Column("req", cells("requests_per_execution", three_digits)),
        Column("sect", cells("sectors_per_request", three_digits)),
        Column("L1", cells("l1_hit_rate", _rate)),
        Column("L2", cells("l2_hit_rate", _rate)),
        Column("interval", cells("intervals", _span)),
        Column("waits for", cells("waits_for", lambda waits: _operand(waits, view)), left=True),
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
    texts, before = [], None
    for row in rows:
        text = document["sources"].get(row["file"], {}).get(str(row["line"]), "").expandtabs(2)
        named = several and row["file"] != before
        texts.append(f"{PurePath(row['file']).name}: {text.strip()}" if named and row["file"] else row.get("gap", text))
        before = row["file"]
    if not several:
        texts = textwrap.dedent("\n".join(texts)).split("\n")
    return [text if row["file"] else "(no source line)" for row, text in zip(rows, texts, strict=True)]


def _with_gaps(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows and, between them, source lines without instructions; longer gaps as one row of dots."""
    rows: list[dict[str, Any]] = []
    for row in document["rows"]:
        if rows and rows[-1]["file"] == row["file"] and row["file"] in document["sources"]:
            between = range(rows[-1]["line"] + 1, row["line"])
            if len(between) > _LONGEST_GAP:
                rows.append({"file": row["file"], "line": 0, "gap": "..."})
            else:
                rows += [{"file": row["file"], "line": line} for line in between]
        rows.append(row)
    return rows


def _sums(document: dict[str, Any], style: Style) -> list[str]:
    """The cycles charged to no line, and the totals."""
    totals, rest = document["totals"], document["rest"]
    components = components_of(document["prediction"])
    meanings = [components[part["component"]].meaning for part in rest]
    lines = aligned([
        Column("", [*(part["component"] for part in rest), "total"], left=True),
        Column("share", [*(percent(part["share"]) for part in rest), percent(1)]),
        Column("issue", [*("" for _ in rest), _cycles(totals["issue_cycles"])]),
        Column("wait", [*(_cycles(part["wait_cycles"]) for part in rest), _cycles(totals["wait_cycles"])]),
        Column("", [*(f"{meaning}; charged to no line".lstrip("; ") for meaning in meanings), "equal to `warpsight predict`"],
               left=True),
    ])  # fmt: skip
    return [*lines[:-1], style.strong(lines[-1])]


def _operand(waits: list[dict[str, Any]], view: str) -> str:
    """The operand with the longest stall."""
    if not waits:
        return ""
    wait = waits[0]
    opcode = ".".join(wait["opcode"].split(".")[:2])
    line = {"source": "line", "ptx": "ptx_line"}.get(view)
    return f"{_number(wait[line])} {opcode}".lstrip() if line else f"pc {wait['pc']}"


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
    head = f" {percent(change['gain']):>6}  {thousands(change['gain_cycles']):>{width}}  "
    title = textwrap.wrap(change["title"], WIDTH - len(head), break_on_hyphens=False)
    setting = f" (--set '{change['setting']}')" if change["setting"] else ""
    text = f"{change['owner']}, {shortened(change['place'], _PLACE)}: {change['reason']}. Costs: {change['cost']}{setting}."
    detail = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return [head + style.strong(title[0]), *(indent + part for part in title[1:]), *map(style.faint, detail)]


def _besides(document: dict[str, Any], style: Style) -> list[str]:
    """The changes that are not listed."""
    more = document["with_gain"] - len(document["advice"])
    lines = [" each gain is for one change alone, so gains do not add up; saved: cycles of the launch"]
    if more:
        lines.append(f" {more} more with a smaller gain; use --top N or --json to show them")
    if document["without_gain"]:
        lines.append(f" {document['without_gain']} evaluated without gain (less than 0.1 %)")
    if document["not_tried"]:
        lines.append(f" {document['not_tried']} not evaluated: lines with less traffic than those above")
    for refused in document["refused"]:
        lines += wrapped(f" not possible: {refused['title']}: {refused['why']}")
    return [style.faint(line) for line in lines]
