"""Explanations and advice as terminal text: cycles of each line, basic block or instruction, and changes with their gains."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from warpsight.base.units import percent, thousands, three_digits
from warpsight.reports.first_screen import screen_head
from warpsight.reports.machine_code import machine_cells
from warpsight.reports.prediction import notes_text
from warpsight.reports.terminal import PLAIN, WIDTH, Column, Style, aligned, counted, shortened
from warpsight.result.prediction import components_of

Row = dict[str, Any]

_LONGEST_GAP = 3
# Text gets at least this many columns, unless it is shorter; figures that leave it less are left out, in this order.
_LEAST_TEXT = 36
_LEFT_OUT = (
    "executed", "live", "sets", "waits", "sect", "req", "lanes", "waits for", "L2", "L1", "line", "stall", "issue", "cause",
)  # fmt: skip
_MOST_TEXT_LINES = 3
# By source line, lines with a smaller part of the cycles are added up, but for the first few; nor is it said for what they wait.
_LEAST_SHARE, _ALWAYS_SHOWN = 0.005, 10

_MEANINGS = {
    "issue": "issue, wait: cycles of the launch in which the instructions issue, or wait",
    "cause": "cause: the largest component of their CPI stack ({causes})",
    "executed": "executed: warp instructions",
    "lanes": "lanes: active of 32",
    "req": "req: requests per execution",
    "sect": "sect: 32 B sectors per request",
    "L1": "L1, L2: hit rates of loads",
    "waits for": "waits for: {operand} of the instruction whose result they wait for longest",
    "waits": "waits: the barriers waited for",
    "stall": "stall: cycles before the warp's next instruction may issue (y: the scheduler may switch to another warp)",
    "sets": "sets: the barriers that the result (W) and the operands (R) release",
    "live": "live: 32-bit registers needed after it",
}
_OPERANDS = {"source": "line and opcode", "ptx": "PTX line and opcode"}


def explanation_text(document: dict[str, Any], style: Style = PLAIN, *, width: int = WIDTH, listing: bool = False) -> str:
    """The launch and its time, a table of lines with what is charged to no line and the total, and what its columns mean.

    Source lines stand in the order of their cycles, with `listing` in that of their files, with the lines between them.
    """
    prediction, kind = document["prediction"], _kind(document)
    about = f"{prediction['model']}, bound by {prediction['bound_by']}"
    lines = [*screen_head(prediction, None, about, style, width), ""]
    rows, others = _chosen(document, listing)
    before, figures = _columns(rows, kind)
    texts, title = _texts(rows, document, listing)
    sums = _sums(document, others)
    before, figures = (
        [Column(each.heading, [*each.cells, *(part.get(each.heading, "") for part in sums)], each.left) for each in columns]
        for columns in (before, figures)
    )
    texts += [part["text"] for part in sums]
    room, figures, missing = _room(before, figures, texts, width)
    texts[: len(rows)] = [text if "share" in row else shortened(text, room) for row, text in zip(rows, texts, strict=False)]
    details = [_details(row, document["cycles"] if "waits for" in missing else 0) if kind == "source" else "" for row in rows]
    heats = [row.get("share", 0.0) if row.get("cause") != "base" else 0.0 for row in rows]
    shown = _Table(before, figures, [*details, *("" for _ in sums)], [*heats, *(0.0 for _ in sums)], len(rows))
    lines += [*shown.lines(title, texts, room, style, width), ""]
    faint = textwrap.wrap(_legend(figures, rows, document, missing), width - 1, initial_indent=" ", subsequent_indent=" ")
    faint += [f" note: {PurePath(file).name} was not found, so its text is missing" for file in document["missing_sources"]]
    return "\n".join([*lines, *map(style.faint, faint)]) + notes_text([prediction], style)


def _kind(document: dict[str, Any]) -> str:
    """The view of a table: `ptx` is that by line of a kernel that was executed as machine code."""
    launch = document["prediction"]["provenance"].get("launch") or {}
    native = launch.get("level") == "sass" and launch.get("registers_from") != "trace"  # those of other tools have no PTX
    return "ptx" if native and document["by"] == "line" else str(document["by"])


# -- Which rows, and what is added up below them.


def _chosen(document: dict[str, Any], listing: bool) -> tuple[list[Row], list[Row]]:
    """The rows to show, and those that are only added up. A listing has rows for lines without instructions and for gaps, and that
    of machine code one for the name of each section."""
    rows = list(document["rows"])
    if document["by"] == "sass":
        listed: list[Row] = []
        for row in rows:
            section = row["machine"]["section"]
            if listed and section != listed[-1]["machine"]["section"]:
                listed.append({"heading": f"{section}:", "machine": row["machine"]})
            listed.append(row)
        return listed, []
    if document["by"] != "source":
        return rows, []
    if listing:
        return _with_gaps(document), []
    rows.sort(key=lambda row: -row["share"])
    count = sum(row["share"] >= _LEAST_SHARE for row in rows)
    count = len(rows) if len(rows) <= max(count + 1, _ALWAYS_SHOWN) else max(count, _ALWAYS_SHOWN)
    return rows[:count], rows[count:]


def _with_gaps(document: dict[str, Any]) -> list[Row]:
    """The rows and, between them, source lines without instructions; longer gaps as one row of dots."""
    rows: list[Row] = []
    for row in document["rows"]:
        if rows and rows[-1]["file"] == row["file"] and row["file"] in document["sources"]:
            between = range(rows[-1]["line"] + 1, row["line"])
            if len(between) > _LONGEST_GAP:
                rows.append({"file": row["file"], "line": 0, "heading": "..."})
            else:
                rows += [{"file": row["file"], "line": line} for line in between]
        rows.append(row)
    return rows


def _sums(document: dict[str, Any], others: list[Row]) -> list[dict[str, str]]:
    """The rows that are only added up, the cycles charged to no line, and the totals: a text and the cells by their headings."""
    totals, components = document["totals"], components_of(document["prediction"])
    sums = []
    if others:
        issue, wait = (_cycles(sum(row[key] for row in others)) for key in ("issue_cycles", "wait_cycles"))
        text = f"{counted(len(others), 'more line')} (--listing shows all)"
        sums.append({"share": percent(sum(row["share"] for row in others)), "text": text, "issue": issue, "wait": wait})
    for part in document["rest"]:
        name = part["component"]
        meaning = components[name].meaning if name in components else ""
        text = f"no line: {meaning}" if meaning else "no line"
        sums.append({"share": percent(part["share"]), "text": text, "wait": _cycles(part["wait_cycles"]), "cause": name})
    issue, wait = (_cycles(totals[key]) for key in ("issue_cycles", "wait_cycles"))
    return [*sums, {"share": percent(1), "text": "total, as `warpsight predict` has it", "issue": issue, "wait": wait}]


# -- Columns: the share and the place of a row, then its text, then its figures.


def _columns(rows: list[Row], kind: str) -> tuple[list[Column], list[Column]]:
    """The columns before the text and those after it; rows that are not executed, and values of None, have empty cells."""

    def cells(name: str, show: Callable[[Any], str]) -> list[str]:
        return [show(row[name]) if row.get("executions") and row[name] is not None else "" for row in rows]

    def listed(show: Callable[[Row], str]) -> list[str]:
        return ["" if "heading" in row else show(row) for row in rows]

    share = Column("share", cells("share", percent))
    figures = [
        Column("issue", cells("issue_cycles", _cycles)),
        Column("wait", cells("wait_cycles", _cycles)),
        Column("cause", cells("cause", str), left=True),
    ]
    line = Column("line", listed(lambda row: _number(row["line"])))
    if kind == "sass":
        executed = Column("executed", cells("executions", thousands))
        address, *words = [Column(name, listed(lambda row, k=k: machine_cells(row["machine"])[k]))  # type: ignore[misc]
                           for k, name in enumerate(("address", "waits", "stall", "sets", "live"))]  # fmt: skip
        return [share, address], [*figures, executed, *words, line]
    operand = Column("waits for", cells("waits_for", lambda waits: _operand(waits, kind)), left=True)
    if kind == "source":
        return [share, line], [*figures, operand]
    figures += [
        Column("lanes", cells("lanes", three_digits)),
        Column("req", cells("requests_per_execution", three_digits)),
        Column("sect", cells("sectors_per_request", three_digits)),
        Column("L1", cells("l1_hit_rate", _rate)),
        Column("L2", cells("l2_hit_rate", _rate)),
        operand,
    ]
    if kind == "block":
        return [share, Column("block", [str(row["block"]) for row in rows])], figures
    if kind == "ptx":
        return [share, Column("PTX line", [_number(row["ptx_lines"][0]) for row in rows])], figures
    return [share, Column("pc", [str(row["pcs"][0]) for row in rows]), line], figures


def _texts(rows: list[Row], document: dict[str, Any], listing: bool) -> tuple[list[str], str]:
    """The text of each row, and the heading of that column."""
    if document["by"] == "block":
        return [f"{_span(row['ptx_lines'])}, from {_where(row)}" for row in rows], "PTX lines"
    if document["by"] != "source":
        texts = [row.get("heading") or row["text"] or "no PTX line" for row in rows]
        return texts, "PTX" if document["by"] == "line" else "instruction"
    shares: dict[str, float] = {}
    for row in document["rows"]:
        shares[row["file"]] = shares.get(row["file"], 0.0) + row["share"]
    main = max((file for file in shares if file), key=lambda file: shares[file], default="")
    texts, before = [], main
    dedented = {file: _dedented(lines) for file, lines in document["sources"].items()}
    for row in rows:
        file = row["file"]
        text = row.get("heading") or dedented.get(file, {}).get(row["line"], "")
        if "share" in row and not text:
            text = _where(row)
        elif file != (before if listing else main):
            text = f"{PurePath(file).name}: {text.strip()}"
        before = file or before
        texts.append(text if listing else text.strip())
    return texts, PurePath(main).name or "source"


def _dedented(lines: dict[str, str]) -> dict[int, str]:
    """The lines of a file without their common indentation."""
    texts = textwrap.dedent("\n".join(text.expandtabs(2) for text in lines.values())).split("\n")
    return dict(zip(map(int, lines), texts, strict=True))


def _room(
    before: list[Column], figures: list[Column], texts: list[str], width: int
) -> tuple[int, list[Column], list[str]]:
    """The columns of the terminal for the text, the figures beside it, and the headings of those that are left out."""
    longest, missing = max(map(len, texts)), []

    def room() -> int:
        return width - 1 - sum(2 + max(map(len, [each.heading, *each.cells])) for each in (*before, *figures))

    for heading in _LEFT_OUT:
        if room() >= min(longest, _LEAST_TEXT):
            break
        if any(each.heading == heading for each in figures):
            missing.append(heading)
            figures = [each for each in figures if each.heading != heading]
    return max(room(), 1), figures, missing


class _Table:
    """Columns before and after a text of several lines, with the `details` of each row on a line of its own below it."""

    def __init__(
        self, before: list[Column], figures: list[Column], details: list[str], heats: list[float], rows: int
    ) -> None:
        self._before, self._figures, self._details, self._heats, self._rows = before, figures, details, heats, rows

    def lines(self, title: str, texts: list[str], room: int, style: Style, width: int) -> list[str]:
        """Heading, rows, an empty line and the sums. Texts are broken into lines of `room` columns."""
        parts = [_broken(text, room) for text in texts]

        def spread(column: Column) -> Column:
            cells = [cell for text, part in zip(column.cells, parts, strict=True) for cell in (text, *("" for _ in part[1:]))]
            return Column(column.heading, cells, column.left)

        columns = [*map(spread, self._before), Column(title, [line for part in parts for line in part], left=True),
                   *map(spread, self._figures)]  # fmt: skip
        head, *rows = aligned(columns, style, width)
        first = max(map(len, [self._before[0].heading, *self._before[0].cells])) + 1
        indent = " " * (1 + sum(max(map(len, [each.heading, *each.cells])) + 2 for each in self._before))
        lines, at = [head], 0
        for number, part in enumerate(parts):
            if number == self._rows:
                lines.append("")
            own = rows[at : at + len(part)]
            at += len(part)
            own[0] = style.heat(own[0][:first], self._heats[number]) + own[0][first:]
            if number == len(parts) - 1:
                own = [style.strong(line) for line in own]
            detail = textwrap.wrap(self._details[number], width, initial_indent=indent, subsequent_indent=indent)
            lines += [*own, *map(style.faint, detail)]
        return lines


def _broken(text: str, room: int) -> list[str]:
    """A text as lines of `room` columns, each further one indented; the last one tells a cut by two dots."""
    indent = text[: len(text) - len(text.lstrip())][: room // 3]
    return textwrap.wrap(
        text.strip(), room, initial_indent=indent, subsequent_indent=f"{indent}  ", max_lines=_MOST_TEXT_LINES, placeholder=" ..",
        break_on_hyphens=False,
    ) or [""]  # fmt: skip


def _details(row: Row, cycles: float) -> str:
    """What a source line's accesses to memory do, its inactive lanes; with the `cycles` of the launch also what it waits for."""
    parts = []
    if row.get("executions"):
        if row["requests_per_execution"] is not None:
            sectors = f" of {three_digits(row['sectors_per_request'])} sectors" if row["sectors_per_request"] is not None else ""
            parts.append(f"{three_digits(row['requests_per_execution'])} requests{sectors}")
        levels = (("L1", "l1_hit_rate"), ("L2", "l2_hit_rate"))
        rates = [f"{name} {_rate(row[key])}" for name, key in levels if row[key] is not None]
        parts += [f"hit rate {', '.join(rates)}"] if rates else []
        if row["lanes"] is not None and three_digits(row["lanes"]) != "32.0":
            parts.append(f"{three_digits(row['lanes'])} of 32 lanes active")
        if row["waits_for"] and cycles and row["wait_cycles"] >= _LEAST_SHARE * cycles:
            wait = row["waits_for"][0]
            parts.append(f"waits for {_opcode(wait)}{f' of line {line}' if (line := wait['line']) else ''}")
    return "; ".join(parts)


def _legend(figures: list[Column], rows: list[Row], document: dict[str, Any], missing: list[str]) -> str:
    """What the columns mean that are shown, and which are left out."""
    components = components_of(document["prediction"])
    causes = dict.fromkeys(row["cause"] for row in rows if row.get("cause"))
    named = ", ".join(f"{name}: {components[name].meaning}" for name in causes if name in components)
    shown = {each.heading for each in figures}
    meanings = [text for name, text in _MEANINGS.items() if name in shown]
    if document["by"] == "source":
        meanings.append("requests: lines of the L1 per execution, in sectors of 32 B; hit rates: of loads")
    left_out = [name for name in missing if document["by"] != "source" or name != "waits for"]
    if left_out:
        meanings.append(f"left out in this width: {', '.join(left_out)}")
    return "; ".join(meanings).format(causes=named, operand=_OPERANDS.get(_kind(document), "pc"))


def _operand(waits: list[dict[str, Any]], view: str) -> str:
    """The operand with the longest stall."""
    if not waits:
        return ""
    wait = waits[0]
    line = {"source": "line", "ptx": "ptx_line"}.get(view)
    return f"{_number(wait[line])} {_opcode(wait)}".lstrip() if line else f"pc {wait['pc']}"


def _opcode(wait: dict[str, Any]) -> str:
    return ".".join(wait["opcode"].split(".")[:2])


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


def advice_text(document: dict[str, Any], style: Style = PLAIN, *, width: int = WIDTH) -> str:
    """The launch and its time, the changes, and a summary of the rest."""
    prediction, shown = document["prediction"], document["advice"]
    about = f"{prediction['model']}, bound by {document['bound_by']}"
    lines = [*screen_head(prediction, None, about, style, width), ""]
    if shown:
        column = max(len("saved"), *(len(thousands(change["gain_cycles"])) for change in shown))
        lines.append(style.strong(f"   gain  {'saved':>{column}}  change"))
        for change in shown:
            lines += _change(change, column, style, width)
    else:
        lines.append(" no evaluated change saves 0.1 % of the cycles")
    lines += ["", *_besides(document, style, width)]
    return "\n".join(lines) + notes_text([prediction], style)


def _change(change: dict[str, Any], column: int, style: Style, width: int) -> list[str]:
    indent = " " * (11 + column)
    bound = "<" if change.get("at_most") else ""
    gain, saved = f" {bound + percent(change['gain']):>6}", f"  {thousands(change['gain_cycles']):>{column}}  "
    title = textwrap.wrap(change["title"], width - len(indent), break_on_hyphens=False)
    setting = f" (--set '{change['setting']}')" if change["setting"] else ""
    text = f"{change['owner']}, {shortened(change['place'], _PLACE)}: {change['reason']}. Costs: {change['cost']}{setting}."
    detail = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    head = style.good(gain) + saved + style.strong(title[0])
    return [head, *(indent + style.strong(part) for part in title[1:]), *map(style.faint, detail)]


def _besides(document: dict[str, Any], style: Style, width: int) -> list[str]:
    """The changes that are not listed."""
    more = document["with_gain"] - len(document["advice"])
    texts = [" each gain is for one change alone, so gains do not add up; saved: cycles of the launch"]
    if more:
        texts.append(f" {more} more with a smaller gain; use --top N or --json to show them")
    if document["without_gain"]:
        texts.append(f" {document['without_gain']} more evaluated, each with a gain below 0.1 %")
    if document["not_tried"]:
        texts.append(f" {document['not_tried']} not evaluated: lines with less traffic than those above")
    texts += [f" not possible: {refused['title']}: {refused['why']}" for refused in document["refused"]]
    return [
        style.faint(line) for text in texts for line in textwrap.wrap(text, width, subsequent_indent="   ", break_on_hyphens=False)
    ]
