"""Time and energy over clocks as terminal text."""

from __future__ import annotations

import textwrap
from typing import Any

from warpsight.base.format import duration, percent, three_digits
from warpsight.base.units import FREQUENCY, format_quantity
from warpsight.report.columns import Column
from warpsight.report.style import PLAIN, WIDTH, Style
from warpsight.report.sweep_head import head, table
from warpsight.report.sweep_units import key_text, si_prefix

MEASURES = {"seconds": "time", "joules": "energy", "edp": "energy x time", "ed2p": "energy x time^2"}
_UNITS = {"joules": "J", "edp": "J s", "ed2p": "J s^2"}


def energy_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """A row for each pair of clocks, all kernels together; then the clocks of the least of each measure, by kernel."""
    whole = document["of"][0]
    columns = _clocks(document, whole["clocks"])
    names = [name for name in MEASURES if name in whole["best"]]
    used = [row["utilisation"] for row in whole["clocks"]]
    columns.append(Column("issuing", ["-" if each is None else percent(each) for each in used]))
    if document["power"]:
        columns.append(Column("power", [f"{three_digits(row['watts'])} W" for row in whole["clocks"]]))
    for name in names:
        marks = ["*" if row["design"] == whole["best"][name] else " " for row in whole["clocks"]]
        cells = [measure_text(name, row[name]) + mark for row, mark in zip(whole["clocks"], marks, strict=True)]
        columns.append(Column(f"{MEASURES[name]} ", cells))
    lines = [*head(document, "clocks", style, metric=False), *_power(document["power"]), "", *table(columns, style)]
    lines += [style.faint(" *: the least"), ""]
    lines += [" clocks of the least of each, by kernel", *_best(document, names, style)]
    lines += [style.faint(f" {note}") for note in document["notes"]]
    return "\n".join(lines)


def _power(power: dict[str, Any] | None) -> list[str]:
    """Where the watts come from."""
    if power is None:
        return [" no power curve was given: times alone"]
    if power["kind"] == "expression":
        return textwrap.wrap(f" power in W: {power['text']}", WIDTH, subsequent_indent="   ")
    ends = " to ".join(format_quantity(power["points"][place][0], FREQUENCY) for place in (0, -1))
    return [f" power: straight lines through {len(power['points'])} points, {ends}"]


def measure_text(name: str, value: float) -> str:
    """A time or an energy with its unit."""
    if name == "seconds":
        return duration(value)
    prefix, scale = si_prefix(value)
    return f"{three_digits(value / scale)} {prefix}{_UNITS[name]}"


def _clocks(document: dict[str, Any], rows: list[dict[str, Any]]) -> list[Column]:
    columns = [Column(document["core"], [key_text(document["core"], row["core"]) for row in rows])]
    if document["memory"]:
        columns.append(Column(document["memory"], [key_text(document["memory"], row["memory"]) for row in rows]))
    return columns


def _best(document: dict[str, Any], names: list[str], style: Style) -> list[str]:
    columns = [Column("kernel", [entry["kernel"] for entry in document["of"]], left=True)]
    for name in names:
        cells = []
        for entry in document["of"]:
            row = next(each for each in entry["clocks"] if each["design"] == entry["best"][name])
            cells.append(", ".join(column.cells[0] for column in _clocks(document, [row])))
        columns.append(Column(MEASURES[name], cells))
    return table(columns, style)
