"""The code of a kernel: source lines and instructions side by side, each with what it costs."""

from __future__ import annotations

from typing import Any

from warpsight.base.format import percent, three_digits
from warpsight.explore.explain import places
from warpsight.report.html.loads import load_panels

# Columns between share and text, in order: name in the URL's hash, heading, what it means, and whether the page has it of long
# code too; what is then left out the script makes, which has the document.
COLUMNS = (
    ("wait", "wait cycles", "predicted cycles beyond issue that this line is charged with", True),
    ("cause", "cause", "the component of the CPI stack that is largest here", True),
    ("executions", "executions", "warp instructions executed", True),
    ("requests", "requests per execution", "lines asked for by one execution", False),
    ("sectors", "sectors per request", "32 B sectors in each of these lines", False),
    ("l1", "L1 hits", "share of the requests to the L1", False),
    ("l2", "L2 hits", "share of the requests to the L2", False),
    ("lanes", "active lanes", "mean number of active lanes", False),
    ("interval", "interval", "intervals of the representative warp in which it comes, from 0", False),
)
ALWAYS = sum(always for _, _, _, always in COLUMNS)
WHOLE_ROWS = 600
HOT, LEAST_HEAT, LEAST_SHARE = 20, 0.05, 0.0005  # how many at most, of the hottest one's share, and what is shown as a share
# Of the other columns the key of a row, and how its number is shown.
_PLAIN = {"requests": ("requests_per_execution", three_digits), "sectors": ("sectors_per_request", three_digits),
          "l1": ("l1_hit_rate", percent), "l2": ("l2_hit_rate", percent), "lanes": ("lanes", three_digits)}  # fmt: skip


def code(document: dict[str, Any]) -> dict[str, Any] | None:
    """What the template takes, or None where the document has no code."""
    views = document.get("code")
    if not views:
        return None
    line, source = views["line"], views.get("source")
    rows = line["rows"]
    written = language(rows)
    columns = COLUMNS if len(rows) + (len(source["rows"]) if source else 0) <= WHOLE_ROWS else COLUMNS[:ALWAYS]
    drawn = {entry["pc"] for entry in document.get("loads") or ()}
    ranks = _ranks(rows)
    most = _most(rows)
    instructions = [_instruction(row, rows[number - 1] if number else None, columns, ranks, drawn, most)
                    for number, row in enumerate(rows)]  # fmt: skip
    rest = [each for each in line["rest"] if each["share"] > 0.0]
    return {
        "model": line["model"],
        "columns": columns,
        "language": written,
        "instructions": instructions,
        "files": _files(source, columns) if source else [],
        "without_source": _without_source(source, columns) if source else None,
        "rest": rest,
        "loads": load_panels(document, written),
    }  # fmt: skip


def language(rows: list[dict[str, Any]]) -> str:
    """What the instructions of a kernel are written in: PTX or SASS."""
    return places.language(next((row["text"] for row in rows if row["text"]), ""))


def _most(rows: list[dict[str, Any]]) -> float:
    """The largest share: what a full bar stands for."""
    return max((row["share"] for row in rows), default=0.0)


def _ranks(rows: list[dict[str, Any]]) -> dict[int, int]:
    """The places of the hottest instructions, from 1, by pc."""
    hot = sorted((row for row in rows if row["share"] > LEAST_HEAT * _most(rows)), key=lambda row: (-row["share"], row["pcs"][0]))
    return {row["pcs"][0]: rank for rank, row in enumerate(hot[:HOT], 1)}


def _instruction(
    row: dict[str, Any], before: dict[str, Any] | None, columns: Any, ranks: dict[int, int], drawn: set[int], most: float
) -> dict[str, Any]:
    """A row of the right-hand table."""
    pc = row["pcs"][0]
    kinds = [name for name, holds in (("hot", pc in ranks), ("mem", pc in drawn),
                                      ("entry", before is None or before["block"] != row["block"])) if holds]  # fmt: skip
    return {"id": f"pc-{pc}", "kinds": " ".join(kinds), "rank": ranks.get(pc), "line": row["ptx_lines"][0],
            "text": row.get("text", ""), **_costs(row, columns, most)}  # fmt: skip


def _costs(row: dict[str, Any], columns: Any, most: float) -> dict[str, Any]:
    share = row["share"]
    heat = 100.0 * share / most if most else 0.0
    return {"share": percent(share) if share >= LEAST_SHARE else "", "heat": f"{min(heat, 100.0):.0f}",
            "cells": [cell(row, name) for name, _, _, _ in columns]}  # fmt: skip


def cell(row: dict[str, Any], name: str) -> str:
    """What a row has in a column; "" where it has nothing there."""
    if name == "wait":
        return f"{row['wait_cycles']:,.0f}" if row["wait_cycles"] >= 0.5 else ""
    if name == "cause":
        return str(row["cause"])
    if name == "executions":
        return f"{row['executions']:,}"
    if name == "interval":
        span = row.get("intervals")
        return "" if span is None else f"{span[0]}" if span[0] == span[1] else f"{span[0]}-{span[1]}"
    key, shown = _PLAIN[name]
    value = row.get(key)
    return "" if value is None else shown(value)


def _without_source(source: dict[str, Any], columns: Any) -> dict[str, Any] | None:
    """The row of the instructions that no source line is known of."""
    row = next((row for row in source["rows"] if not row["file"]), None)
    return None if row is None else _source(row, "", columns, _most(source["rows"]))


def _files(source: dict[str, Any], columns: Any) -> list[dict[str, Any]]:
    """A table for each source file: the lines at hand, with costs where they have instructions."""
    by_file: dict[str, dict[int, dict[str, Any]]] = {}
    for row in source["rows"]:
        if row["file"]:
            by_file.setdefault(row["file"], {})[row["line"]] = row
    most = _most(source["rows"])
    found = []
    for number, (file, rows) in enumerate(sorted(by_file.items())):
        texts = source["sources"].get(file, {})
        lines = sorted({*rows, *map(int, texts)})
        made = [_line(number, line, texts.get(str(line), ""), rows.get(line), columns, most) for line in lines]
        found.append({"path": file, "missing": file in source["missing_sources"], "lines": made})
    return found


def _line(number: int, line: int, text: str, row: dict[str, Any] | None, columns: Any, most: float) -> dict[str, Any]:
    """A row of the left-hand table."""
    made = {"id": f"src-{number}-{line}", "line": line}
    if row is None:
        blank = [""] * len(columns)  # a line without an instruction
        return made | {"text": text, "pcs": "", "share": "", "heat": "0", "cells": blank}
    return made | _source(row, text, columns, most)


def _source(row: dict[str, Any], text: str, columns: Any, most: float) -> dict[str, Any]:
    return {"text": text, "pcs": " ".join(map(str, row["pcs"])), **_costs(row, columns, most)}
