"""The timeline section: the state of each warp of an SM in the simulator, cycle by cycle."""

from __future__ import annotations

import re
from typing import Any

from warpsight.reports.drawing.canvas import luminance
from warpsight.reports.drawing.charts import Axis, State, Strips
from warpsight.reports.html.parts import drawn

_RUN = re.compile(r"([-A-Z])(\d*)")
# Okabe and Ito's colours; heights, so that states can be distinguished without colour.
_LOOKS = {"I": ("#009E73", 1.0), "E": ("#999999", 0.88), "A": ("#56B4E9", 0.75), "F": ("#F0E442", 0.75), "B": ("#CC79A7", 0.75),
          "M": ("#0072B2", 0.75)}  # fmt: skip
_STATIC_CYCLES, _STATIC_ROWS = 100, 16


def timeline(document: dict[str, Any]) -> dict[str, Any] | None:
    """The template's values; None if the simulator did not run."""
    part = document.get("timeline")
    if part is None or not part["rows"]:
        return None
    whole = sum(state["warp_cycles"] for state in part["states"])
    states = [
        {**state, "share": state["warp_cycles"] / whole, "colour": _LOOKS[state["letter"]][0], "height": _LOOKS[state["letter"]][1],
         "dark": luminance(_LOOKS[state["letter"]][0]) <= 0.2}
        for state in part["states"] if state["letter"] in _LOOKS
    ]  # fmt: skip
    rest = next((state for state in part["states"] if state["letter"] == "-"), None)
    return {"part": part, "states": states, "rest": rest and {**rest, "share": rest["warp_cycles"] / whole},
            "drawing": drawn(_first(part)), "command": part.get("command", "")}  # fmt: skip


def _first(part: dict[str, Any]) -> Strips:
    """The first cycles of the first warp slots."""
    begin, end = part["cycles"]
    cycles, rows = min(_STATIC_CYCLES, end - begin), part["rows"][:_STATIC_ROWS]
    return Strips(
        title=f"SM {part['sm']}, cycles {begin:,} to {begin + cycles:,}: {len(rows)} of {len(part['rows'])} warp slots",
        axis=Axis("cycle"),
        begin=begin,
        rows=[f"slot {row['slot']}" for row in rows],
        runs=[_runs(row["runs"], cycles) for row in rows],
        states=[State(letter, colour, height) for letter, (colour, height) in _LOOKS.items()],
    )


def _runs(text: str, cycles: int) -> list[tuple[str, int]]:
    """The first `cycles` of `text`, such as `"I2M340"`, as runs (letter, cycles), with one run per issued instruction."""
    kept: list[tuple[str, int]] = []
    for letter, count in _RUN.findall(text):
        steps = min(int(count or 1), cycles)
        kept += [(letter, 1)] * steps if letter == "I" else [(letter, steps)] * (steps > 0)
        cycles -= steps
    return kept
