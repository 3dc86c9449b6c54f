"""The what-if section: sliders over the document's grid of designs, and a table of changes one at a time.

The sliders and what they come to are drawn by the components of the explorer (explorer/src/what_if.tsx).
"""

from __future__ import annotations

from math import prod
from typing import Any

from warpsight.base.units import three_digits

_FACTORS = {0.25: "1/4", 0.5: "1/2", 0.75: "3/4", 1.25: "5/4", 1.5: "3/2"}


def what_if(document: dict[str, Any]) -> dict[str, Any] | None:
    """The template's values; None without a grid."""
    grid = document.get("what_if")
    if not grid:
        return None
    simulated = [axis for axis in grid["axes"] if axis["simulated"]]
    return {
        "first": document["predictions"][0],
        "grid": grid,
        "marks": {axis["key"]: [times(value / axis["values"][axis["own"]]) for value in axis["values"]] for axis in grid["axes"]},
        "rows": grid["one_at_a_time"],
        "simulated": [axis["label"] for axis in simulated],
        "free": [axis["label"] for axis in grid["axes"] if not axis["simulated"]],
        "alone": len(grid["geometries"]) < prod(len(axis["values"]) for axis in simulated),
    }


def times(factor: float) -> str:
    """A factor as text: `x 2`, `x 1/2`; `x 1` is the original GPU."""
    return f"x {_FACTORS.get(factor, three_digits(factor) if factor % 1 else f'{factor:.0f}')}"
