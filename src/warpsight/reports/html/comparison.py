"""The section of two results side by side: what differs first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from warpsight.base.units import duration, percent, thousands, three_digits
from warpsight.reports.drawing.canvas import stack_style
from warpsight.reports.drawing.charts import Axis, Series, Stacks
from warpsight.reports.html.parts import drawn
from warpsight.result.prediction import in_order

_MOST_LINES = 200
_SHOWN = {
    "cycles": ("cycles", thousands), "seconds": ("time", duration), "warp_instructions": ("warp instructions", thousands),
    "ipc_sm_warp": ("IPC per SM", three_digits), "cpi": ("CPI", three_digits), "dpki": ("DPKI", three_digits),
    "occupancy": ("occupancy", percent),
}  # fmt: skip


def differences(document: dict[str, Any]) -> dict[str, Any]:
    """The template's values: the change of the time or the cycles, then of figures, components, lines, GPU and launch."""
    figures = {row["name"]: row for row in document["figures"]}
    timed = document["unit"] == "us"
    lines = document["lines"]
    return {
        "names": document["names"],
        "model": document["model"],
        "change": _change(figures["seconds" if timed else "cycles"]["ratio"]),
        "outcome": [_outcome(figures, side, timed) for side in ("before", "after")],
        "measure": "Time" if timed else "Cycles",
        "unit": document["unit"],
        "amount": _AMOUNTS[document["unit"]],
        "difference": _DIFFERENCES[document["unit"]],
        "figures": [_figure(row) for row in document["figures"]],
        "words": [{**row, "name": row["name"].replace("_", " "), "differs": row["before"] != row["after"]}
                  for row in document["words"]],
        "stacks": _stacks(document),
        "components": document["components"],
        "lines": None if lines is None else lines[:_MOST_LINES],
        "more_lines": 0 if lines is None else max(0, len(lines) - _MOST_LINES),
        "gpu": document["gpu"],
        "launch": document["launch"],
    }  # fmt: skip


_AMOUNTS: dict[str, Callable[[float], str]] = {"cycles": thousands, "us": three_digits}
_DIFFERENCES: dict[str, Callable[[float], str]] = {
    "cycles": lambda number: f"{number:+,.0f}" if round(number) else "0",
    "us": lambda number: f"{'+' if number > 0 else ''}{three_digits(number)}" if number else "0",
}


def _outcome(figures: dict[str, dict[str, Any]], side: str, timed: bool) -> str:
    """`32.18 us (45,370 cycles)`, or the cycles alone where both sides have the same clock."""
    cycles = f"{thousands(figures['cycles'][side])} cycles"
    return f"{duration(figures['seconds'][side])} ({cycles})" if timed else cycles


def _change(ratio: float | None) -> str:
    """The change of the time or the cycles in words."""
    if ratio is None or ratio <= 0:
        return "nothing to compare"
    if abs(ratio - 1) < 5e-5:
        return "equally fast"
    return f"{three_digits(1 / ratio)}x faster" if ratio < 1 else f"{three_digits(ratio)}x slower"


def _figure(row: dict[str, Any]) -> dict[str, Any]:
    label, show = _SHOWN[row["name"]]
    texts = {side: "unknown" if row[side] is None else show(row[side]) for side in ("before", "after")}
    return {"name": label, **texts, "change": "" if row["ratio"] is None else f"{100 * (row['ratio'] - 1):+.1f} %"}


def _stacks(document: dict[str, Any]) -> Markup:
    """Both stacks in cycles or time, so that a change of the instruction count is visible too."""
    unit = document["unit"]
    rows = list(in_order({row["name"]: row for row in document["components"]}).values())
    series = [Series(row["name"], [row["before"], row["after"]], stack_style(row["name"])) for row in rows]
    totals = [f"{_AMOUNTS[unit](sum(row[side] for row in rows))} {unit}" for side in ("before", "after")]
    title, axis = ("Cycles", Axis("cycles")) if unit == "cycles" else ("Time", Axis("time", unit))
    return drawn(Stacks(f"{title} by component, {document['model']}", axis, document["names"], series, totals))
