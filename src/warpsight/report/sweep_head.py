"""What the texts of a sweep's answers share: what was asked of which designs, and tables that keep within the width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from warpsight.base.format import thousands
from warpsight.report.columns import Column, aligned, fits, shortened
from warpsight.report.style import WIDTH, Style
from warpsight.report.sweep_units import key_text, keys_text, metric_text

_LONGEST = 40
_MOST_ROWS = 40


def spread(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """All rows if they are at most 40, else 40 evenly over them, the first and the last among them."""
    if len(rows) <= _MOST_ROWS:
        return rows
    return [rows[round(n * (len(rows) - 1) / (_MOST_ROWS - 1))] for n in range(_MOST_ROWS)]


def head(document: dict[str, Any], title: str, style: Style, *, metric: bool = True) -> list[str]:
    """Tool, model, with `metric` what performance is and over which design; how many designs there are, are left out and why."""
    kernels = document["kernels"]
    many = f"{len(kernels)} kernels" if len(kernels) > 1 else f"kernel {kernels[0]}"
    lines = _wrapped(f"{document['tool']}   {title}   model {document['model']}   {many}")
    if metric:
        base = document["baseline"]
        meaning = metric_text(document["metric"]) if len(kernels) > 1 else f"speed of {kernels[0]}"
        lines += _wrapped(f" performance: {meaning}, design {base['design']} is 1: {keys_text(base['keys'])}")
    left = document["left_out"]
    parts = [f"{thousands(document['designs'])} designs"]
    if left["designs"]:
        parts.append(f"{thousands(left['designs'])} left out ({left['failed']} failed, {left['missing']} without a row)")
    if document["where"]:
        parts.append(f"{thousands(document['excluded'])} excluded (kept: {' and '.join(document['where'])})")
    lines += _wrapped(f" {', '.join(parts)}; {thousands(document['chosen'])} considered")
    for row in left["reasons"]:
        reason = " ".join(row["reason"].split())  # its remedy is on a line of its own
        told = _wrapped(f"   failed on design {row['first']}: {reason} (rows: {row['rows']})")
        lines += [style.faint(each) for each in told]
    return lines


def key_columns(rows: Sequence[dict[str, Any]]) -> list[Column]:
    """A column for each key of the designs."""
    keys = rows[0]["keys"] if rows else ()
    return [Column(key, [key_text(key, row["keys"][key]) for row in rows]) for key in keys]


def table(columns: Sequence[Column], style: Style) -> list[str]:
    """The columns as lines, the heading strong; those that do not fit are left out from the end, and a line says which.

    Headings and words longer than 40 letters are shortened, so that one name cannot take the room of all numbers.
    """
    shown = [_short(each) for each in columns]
    headings = [column.heading for column in shown]
    while len(shown) > 1 and not fits(shown, cut=False):
        shown.pop()
    lines = aligned(shown)
    lines = [style.strong(lines[0]), *lines[1:]]
    left = headings[len(shown) :]
    if left:
        named = ", ".join(left) if len(left) <= 8 else f"{', '.join(left[:8])} and {len(left) - 8} more"
        lines += [style.faint(each) for each in _wrapped(f" too wide for: {named}; --json has all")]
    return lines


def _short(column: Column) -> Column:
    cells = [shortened(cell, _LONGEST) for cell in column.cells] if column.left else column.cells
    return Column(shortened(column.heading, _LONGEST), cells, column.left)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="   ", break_on_hyphens=False)
