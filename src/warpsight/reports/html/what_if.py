"""The what-if section: sliders over the document's grid of designs, and a table of changes one at a time."""

from __future__ import annotations

from math import prod
from typing import Any

from warpsight.base.units import duration, three_digits
from warpsight.reports.html.parts import paint_class, stack_bar

_FACTORS = {0.25: "1/4", 0.5: "1/2", 0.75: "3/4", 1.25: "5/4", 1.5: "3/2"}


def what_if(document: dict[str, Any]) -> dict[str, Any] | None:
    """The template's values; None without a grid."""
    grid = document.get("what_if")
    if not grid:
        return None
    first = document["predictions"][0]
    stack = {name: value / first["cpi"] for name, value in first["cpi_stack"].items()}
    simulated = [axis for axis in grid["axes"] if axis["simulated"]]
    names = [column["name"].removeprefix("share.") for column in grid["columns"] if column["name"].startswith("share.")]
    return {
        "first": first,
        "grid": grid,
        "axes": [_slider(axis) for axis in grid["axes"] if len(axis["values"]) > 1],
        "bar": stack_bar("original", stack, 1.0, f"{duration(first['seconds'])}, {first['cycles']:,.0f} cycles"),
        "components": [
            {"name": name, "paint": paint_class(name), "cpi": first["cpi_stack"].get(name, 0.0), "share": stack.get(name, 0.0)}
            for name in names
        ],
        "rows": grid["one_at_a_time"],
        "simulated": [axis["label"] for axis in simulated],
        "free": [axis["label"] for axis in grid["axes"] if not axis["simulated"]],
        "alone": len(grid["geometries"]) < prod(len(axis["values"]) for axis in simulated),
    }


def _slider(axis: dict[str, Any]) -> dict[str, Any]:
    """A slider: its axis, and the mark of each value (its ratio to the GPU's own)."""
    own = axis["values"][axis["own"]]
    marks = [times(value / own) for value in axis["values"]]
    return {**axis, "marks": marks, "last": len(marks) - 1, "setting": axis["settings"][axis["own"]]}


def times(factor: float) -> str:
    """A factor as text: `x 2`, `x 1/2`; `x 1` is the original GPU."""
    return f"x {_FACTORS.get(factor, three_digits(factor) if factor % 1 else f'{factor:.0f}')}"
