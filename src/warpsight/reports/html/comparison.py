"""The section of two results side by side: what differs first."""

from __future__ import annotations

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
    """The template's values: the change of the cycles, then of figures, components, lines, GPU and launch."""
    cycles = next(row for row in document["figures"] if row["name"] == "cycles")
    lines = document["lines"]
    return {
        "names": document["names"],
        "model": document["model"],
        "change": _change(cycles["ratio"]),
        "cycles": cycles,
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


def _change(ratio: float | None) -> str:
    """The change of the cycles in words."""
    if ratio is None or ratio <= 0:
        return "no cycles to compare"
    if abs(ratio - 1) < 5e-5:
        return "equally fast"
    return f"{three_digits(1 / ratio)} times as fast" if ratio < 1 else f"{three_digits(ratio)} times as slow"


def _figure(row: dict[str, Any]) -> dict[str, Any]:
    label, show = _SHOWN[row["name"]]
    texts = {side: "unknown" if row[side] is None else show(row[side]) for side in ("before", "after")}
    return {"name": label, **texts, "change": "" if row["ratio"] is None else f"{100 * (row['ratio'] - 1):+.1f} %"}


def _stacks(document: dict[str, Any]) -> Markup:
    """Both stacks in cycles, so that a change of the instruction count is visible too."""
    rows = list(in_order({row["name"]: row for row in document["components"]}).values())
    series = [Series(row["name"], [row["before"], row["after"]], stack_style(row["name"])) for row in rows]
    totals = [f"{sum(row[side] for row in rows):,.0f} cycles" for side in ("before", "after")]
    return drawn(Stacks(f"Cycles by component, {document['model']}", Axis("cycles"), document["names"], series, totals))
