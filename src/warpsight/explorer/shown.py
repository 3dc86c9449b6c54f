"""What of an answer's document the page draws: the rest is in its report, and need not be sent."""

from __future__ import annotations

from typing import Any

from warpsight.explorer.designs import SHOWN
from warpsight.reports.html.code import accesses_by_line

_PARTS = ("title", "predictions", "references", "speed_of_light", "advice")
_ROW = ("line", "share", "cause")


def shown(document: dict[str, Any], file: str) -> dict[str, Any]:
    """The parts of a report's data that are drawn beside the kernel, which is called `file`, and of its lines those with a share of
    the cycles (`rows`) and those that access memory (`accesses`).
    """
    parts = {name: document[name] for name in _PARTS if name in document}
    parts["predictions"] = [{name: each[name] for name in SHOWN if name in each} for each in document["predictions"][:1]]
    source = document.get("code", {}).get("source", {"rows": ()})
    rows = [{name: row[name] for name in _ROW} for row in source["rows"] if row["file"] == file]
    return parts | {"rows": rows, "accesses": sorted(accesses_by_line(document, file))}
