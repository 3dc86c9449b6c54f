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
# Cycles that the section opens with: as many as each slot issues this many instructions in, within bounds that can be read.
_ISSUED_PER_SLOT, _LEAST_CYCLES, _MOST_CYCLES = 4, 200, 1000


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
    first, cycles = _opening(part)
    return {"part": part, "states": states, "rest": rest and {**rest, "share": rest["warp_cycles"] / whole}, "first": first,
            "cycles": cycles, "drawing": drawn(_some(part, first)), "command": part.get("command", "")}  # fmt: skip


def _opening(part: dict[str, Any]) -> tuple[int, int]:
    """The cycle that the section opens at, and the number of cycles: while the SM's slots are full."""
    begin, end = part["cycles"]
    wanted = _ISSUED_PER_SLOT * len(part["rows"]) * (end - begin) / max(1, part["issued"])
    cycles = min(end - begin, max(_LEAST_CYCLES, min(_MOST_CYCLES, int(wanted))))
    steady = part["map"]["steady"]
    first = steady - cycles // 2 if begin <= steady < end else begin  # a range that was asked for may be elsewhere
    return max(begin, min(first, end - cycles)), cycles


def _some(part: dict[str, Any], first: int) -> Strips:
    """Some cycles of the first warp slots, for print and for a page without scripts."""
    begin, end = part["cycles"]
    cycles, rows = min(_STATIC_CYCLES, end - first), part["rows"][:_STATIC_ROWS]
    return Strips(
        title=f"SM {part['sm']}, cycles {first:,} to {first + cycles:,}: {len(rows)} of {len(part['rows'])} warp slots",
        axis=Axis("cycle"),
        begin=first,
        rows=[f"slot {row['slot']}" for row in rows],
        runs=[_runs(row["runs"], first - begin, cycles) for row in rows],
        states=[State(letter, colour, height) for letter, (colour, height) in _LOOKS.items()],
    )


def _runs(text: str, before: int, cycles: int) -> list[tuple[str, int]]:
    """`cycles` of `text`, such as `"I2M340"`, without the `before` first: runs (letter, cycles), one per issued instruction."""
    kept: list[tuple[str, int]] = []
    for letter, count in _RUN.findall(text):
        skipped = min(int(count or 1), before)
        steps = min(int(count or 1) - skipped, cycles)
        kept += [(letter, 1)] * steps if letter == "I" else [(letter, steps)] * (steps > 0)
        before, cycles = before - skipped, cycles - steps
    return kept
