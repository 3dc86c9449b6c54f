"""What of an answer's document is drawn, in the page and in a notebook: the rest is in its report, and need not be sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsight.explorer.designs import SHOWN
from warpsight.reports.html.code import accesses_by_line
from warpsight.reports.html.page import advice_part, stack_part

_PARTS = ("title", "predictions", "references", "speed_of_light")
_ROW = ("line", "share", "cause")


def shown(document: dict[str, Any], file: str) -> dict[str, Any]:
    """The parts of a report's data that are drawn beside the kernel, which is called `file`, and of its lines those with a share of
    the cycles (`rows`) and those that access memory (`accesses`).
    """
    source = document.get("code", {}).get("source", {"rows": ()})
    rows = [{name: row[name] for name in _ROW} for row in source["rows"] if row["file"] == file]
    return shown_parts(document) | {"rows": rows, "accesses": sorted(accesses_by_line(document, file))}


def shown_parts(document: dict[str, Any]) -> dict[str, Any]:
    """The parts alone that are drawn without the kernel's text. `stack` and `advice` are HTML, as the report has them."""
    parts = {name: document[name] for name in _PARTS if name in document}
    first = document["predictions"][0]
    parts["stack"] = stack_part(first)
    if "advice" in document:
        parts["advice"] = advice_part(first, document["advice"])
    return parts | {"predictions": [{name: each[name] for name in SHOWN if name in each} for each in document["predictions"][:1]]}


def shown_lines(document: dict[str, Any], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """The lines of source with text, share of the cycles and cause, from the first that has a share to the last, file by file;
    `accesses`: whether a line accesses memory.

    None of a kernel without line information. `texts`: files that are on no disk.
    """
    view = document.get("code", {}).get("source")
    if view is None:
        return []
    rows = {(row["file"], row["line"]): row for row in view["rows"] if row["line"]}
    known = {file: {int(line): text for line, text in lines.items()} for file, lines in view["sources"].items()}
    known |= {file: dict(enumerate(texts[file].splitlines(), 1)) for file in view["missing_sources"] if file in texts}
    lines = {(file, line): text for file, own in known.items() for line, text in own.items()}
    accessing = {(entry["file"], entry["line"]) for entry in document.get("loads") or ()}
    nothing = {"share": 0.0, "cause": ""}
    return [
        {"file": file, "line": line, "text": lines.get((file, line), ""), "accesses": (file, line) in accessing,
         **{name: rows.get((file, line), nothing)[name] for name in nothing}}
        for file, line in sorted(lines.keys() | rows.keys())
    ]  # fmt: skip
