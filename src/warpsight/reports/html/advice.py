"""The advice section: changes by their gain, each with its stack before and after."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from warpsight.analysis.explanation import place_of_row
from warpsight.reports.html.overview import anchor_of
from warpsight.reports.html.parts import paint_class, stack_bar
from warpsight.result.prediction import in_order


def advice(document: dict[str, Any]) -> dict[str, Any] | None:
    """The template's values; None without advice."""
    answer = document.get("advice")
    if answer is None:
        return None
    first = document["predictions"][0]
    places, designs = _code_places(document), _designs(document)
    changes = [_change(change, first, places, designs) for change in answer["advice"]]
    stacks = [first["cpi_stack"], *(change["cpi_stack"] for change in answer["advice"])]
    names = in_order({name: 0.0 for stack in stacks for name in stack})
    used = [name for name in names if any(stack.get(name, 0.0) > 0 for stack in stacks)]
    components = [{"name": name, "paint": paint_class(name)} for name in used]
    others = {key: answer[key] for key in ("without_gain", "not_tried", "refused")}
    return {"first": first, "changes": changes, "components": components, **others}


def _change(change: dict[str, Any], first: dict[str, Any], places: dict[str, str], designs: dict[str, str]) -> dict[str, Any]:
    """A change with its two bars, whose lengths are cycles, and the hash of its place in the page, or None."""
    longest = max(first["cycles"], change["cycles"])
    return {
        **change,
        "link": places.get(change["place"]) or designs.get(_squeezed(change["setting"] or "")),
        "before": _bar("now", first, longest),
        "after": _bar("changed", change, longest),
        "times": first["cycles"] / change["cycles"],
    }


def _bar(label: str, prediction: dict[str, Any], longest: float) -> dict[str, Any]:
    cpi, cycles = sum(prediction["cpi_stack"].values()), prediction["cycles"]
    stack = {name: value / cpi * cycles for name, value in prediction["cpi_stack"].items()}
    return stack_bar(label, stack, longest, f"{cycles:,.0f} cycles, bound by {prediction['bound_by']}")


def _code_places(document: dict[str, Any]) -> dict[str, str]:
    """The code section's hash for each place of its rows, by the place's text."""
    code = document.get("code") or {}
    rows = [row for view in ("source", "line", "sass") for row in code.get(view, {}).get("rows", [])]
    return {place_of_row(row): f"#code&line={anchor_of(row)}" for row in reversed(rows)}


def _designs(document: dict[str, Any]) -> dict[str, str]:
    """The what-if section's hash for each setting of its grid."""
    axes = (document.get("what_if") or {}).get("axes", [])
    return {
        _squeezed(f"{axis['key']}={setting}"): f"#what-if&{quote(axis['key'])}={quote(setting, safe='')}"
        for axis in axes for setting in axis["settings"]
    }  # fmt: skip


def _squeezed(text: str) -> str:
    return "".join(text.split()).lower()
