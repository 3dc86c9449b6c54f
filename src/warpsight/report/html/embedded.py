"""A document as its page holds it: rows of code as tables, so that the names of columns are there once, and numbers are short."""

from __future__ import annotations

from typing import Any

LONG = 1000  # instructions: from here on the page has their text once, in its table
DIGITS = 5  # significant ones of a row's numbers: what a page shows has three
# What others tell: the sum of the stack, and `base` of all in cycles.
_TOLD = ["cpi", "issue_cycles"]


def embedded(document: dict[str, Any]) -> dict[str, Any]:
    """`document` with `rows` of each view of its `code` as {"columns": names, "values": a list for each row}; the rest as it is.

    Of an explanation's rows `cpi` and `issue_cycles`, components that are 0, and of `waits_for` all but `pc` and `stall_cycles` are
    left out, and numbers have five digits. What a row lacks is null, and left out at its end. Where there is a `source` view, its
    rows have no `waits_for`, which is that of their instructions, and those of `line` no file and line: each source line names its
    `pcs`. Long code has no `text` here.
    """
    code = document.get("code")
    if not code:
        return document
    left_out = {"source": [*_TOLD, "waits_for", "text"], "line": [*_TOLD, *(["file", "line"] if "source" in code else [])]}
    if len(code["line"]["rows"]) > LONG:
        left_out["line"].append("text")
    return document | {"code": {name: view | {"rows": _table(view["rows"], left_out[name])} for name, view in code.items()}}


def _table(rows: list[dict[str, Any]], left_out: list[str]) -> dict[str, Any]:
    """Columns that most rows have come first."""
    short = [_short(row, left_out) for row in rows]
    counts: dict[str, int] = {}
    for row in short:
        for name, value in row.items():
            counts[name] = counts.get(name, 0) + (value is not None)
    columns = sorted(counts, key=lambda name: -counts[name])
    return {"columns": columns, "values": [_values(row, columns) for row in short]}


def _short(row: dict[str, Any], left_out: list[str]) -> dict[str, Any]:
    shown = {key: _rounded(value) for key, value in row.items() if key not in left_out}
    shown["cpi_stack"] = {name: _rounded(value) for name, value in row["cpi_stack"].items() if value}
    if "waits_for" in shown:
        shown["waits_for"] = [{"pc": each["pc"], "stall_cycles": _rounded(each["stall_cycles"])} for each in row["waits_for"]]
    return shown


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def _values(row: dict[str, Any], columns: list[str]) -> list[Any]:
    values = [row[name] for name in columns]
    while values and values[-1] is None:
        values.pop()
    return values
