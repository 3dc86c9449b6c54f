"""A document as its page holds it: rows of code as tables, so that the names of columns are there once, and numbers are short."""

from __future__ import annotations

from typing import Any

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
