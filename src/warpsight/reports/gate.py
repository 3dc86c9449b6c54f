"""What `warpsight gate` has found: text for a terminal, and a Markdown table for a pull request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from warpsight.analysis.regression import FAILS, FASTER, NEW, REFUSED, SLOWER
from warpsight.base.units import AUTO, duration_in
from warpsight.reports.terminal import PLAIN, Column, Style, aligned, counted

_MARKER = "<!-- warpsight -->"  # by which a comment is found again
_COMMIT, _SHORT_COMMIT = r"[0-9a-f]{40}", 12


def gate_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """The rows as a table, then what fails."""
    rows = document["rows"]
    lines = aligned([
        Column("kernel", [row["kernel"] for row in rows], left=True), Column("GPU", [row["gpu"] for row in rows], left=True),
        Column("base", [_time(row["base_seconds"], style.time_unit) for row in rows]),
        Column("now", [_time(row["seconds"], style.time_unit) for row in rows]),
        Column("change", [_change(row) for row in rows]), Column("limit", [f"{100 * row['limit']:g} %" for row in rows]),
        Column("bound by", [row["refused"] or row["bound_by"] for row in rows], left=True),
    ], style)  # fmt: skip
    ends = _outcome(document)
    return "\n".join([f"{document['model']}, {_base(document)}", *lines, *_gone(document), *_check(document),
                      style.good(ends) if document["passed"] else style.hot(ends)])  # fmt: skip


def gate_markdown(document: dict[str, Any]) -> str:
    """The same for a comment on a pull request."""
    lines = [_MARKER, "### Predicted kernel times", "", f"Model `{document['model']}`, {_base(document)}. No GPU was used.", "",
             "| kernel | GPU | base | now | change | limit | bound by |", "|---|---|---:|---:|---:|---:|---|"]  # fmt: skip
    for row in document["rows"]:
        mark = {SLOWER: " ❌", REFUSED: " ❌", FASTER: " ✅"}.get(row["verdict"], "")
        change = f"**{_change(row)}**{mark}" if mark else _change(row)
        times = (_time(row["base_seconds"]), _time(row["seconds"]))
        cells = (row["kernel"], row["gpu"], *times, change, f"{100 * row['limit']:g} %", row["refused"] or row["bound_by"])
        lines.append(f"| {' | '.join(_cell(each) for each in cells)} |")
    after = [*_gone(document), *_check(document)]
    outcome = _outcome(document)
    return "\n".join([*lines, "", *after, *([""] if after else []), f"{outcome[:1].upper()}{outcome[1:]}.", ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _time(seconds: float | None, unit: str = AUTO) -> str:
    return "-" if seconds is None else duration_in(seconds, unit)


def _change(row: dict[str, Any]) -> str:
    if row["change"] is None:
        return row["verdict"] if row["verdict"] in (NEW, REFUSED) else "-"
    return f"{100 * row['change']:+.1f} %"


def _base(document: dict[str, Any]) -> str:
    base = document["base"]
    if not base:
        return "without a base to compare with"
    shown = base[:_SHORT_COMMIT] if re.fullmatch(_COMMIT, base) else base
    if document["base_is_empty"]:
        return f"without a base to compare with: {shown} has no {Path(document['project']).name}"
    return f"compared with {shown}"


def _gone(document: dict[str, Any]) -> list[str]:
    return [f"no longer in {Path(document['project']).name}: {', '.join(document['gone'])}"] if document["gone"] else []


def _check(document: dict[str, Any]) -> list[str]:
    found = [row for row in document.get("check", []) if row["errors"] or row["warnings"] or row["refused"]]
    return [
        f"check of {row['kernel']}: {row['refused']}" if row["refused"] else
        f"check of {row['kernel']}: {counted(row['errors'], 'error')}, {counted(row['warnings'], 'warning')}"
        for row in found
    ]  # fmt: skip


def _outcome(document: dict[str, Any]) -> str:
    failed = [row for row in document["rows"] if row["verdict"] in FAILS]
    if failed:
        slower = sum(row["verdict"] == SLOWER for row in failed)
        parts = [f"{counted(slower, 'prediction')} slower than the limit allows"] if slower else []
        parts += [f"{counted(len(failed) - slower, 'prediction')} refused"] if len(failed) > slower else []
        return f"failed: {', '.join(parts)}"
    return "passed" if document["passed"] else "failed: checks have found errors"
