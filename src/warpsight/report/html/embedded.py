"""A document as its page holds it: rows of code as tables, so that the names of columns are there once."""

from __future__ import annotations

from typing import Any

LONG = 1000  # instructions: from here on the page has their text once, in its table


def embedded(document: dict[str, Any]) -> dict[str, Any]:
    """`document` with `rows` of each view of its `code` as {"columns": names, "values": a list for each row}; the rest as it is.

    What a row lacks is null, and left out at its end. Where there is a `source` view, its rows have no `waits_for`, which is
    that of their instructions, and those of `line` no file and line: each source line names its `pcs`. Long code has no `text`
    here.
    """
    code = document.get("code")
    if not code:
        return document
    left_out: dict[str, list[str]] = {"source": ["waits_for"], "line": ["file", "line"] if "source" in code else []}
    if len(code["line"]["rows"]) > LONG:
        left_out["line"].append("text")
    return document | {"code": {name: view | {"rows": _table(view["rows"], left_out[name])} for name, view in code.items()}}


def _table(rows: list[dict[str, Any]], left_out: list[str]) -> dict[str, Any]:
    """Columns that most rows have come first."""
    counts: dict[str, int] = {}
    for row in rows:
        for name in row:
            counts[name] = counts.get(name, 0) + 1
    columns = [name for name in sorted(counts, key=lambda name: -counts[name]) if name not in left_out]
    return {"columns": columns, "values": [_values(row, columns) for row in rows]}


def _values(row: dict[str, Any], columns: list[str]) -> list[Any]:
    values = [row.get(name) for name in columns]
    while values and values[-1] is None:
        values.pop()
    return values
