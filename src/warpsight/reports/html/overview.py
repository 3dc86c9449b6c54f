"""The overview of a kernel: the predictions, the bottleneck, and the utilization of each resource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from warpsight.analysis.explanation import place_of_row
from warpsight.base.units import percent, three_digits
from warpsight.reports.comparison import signed_percent
from warpsight.reports.drawing.canvas import stack_style
from warpsight.reports.drawing.charts import Axis, Meter, Meters, Roof, Roofline, Series, Stacks, Work
from warpsight.reports.html.parts import drawn
from warpsight.reports.stack import shares, shown
from warpsight.result.prediction import components_of

_MOST_LINES = 3
_MOST_TIMES = 2.5


def overview(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The template's values; parts that the document does not have are None.

    `prefix` precedes the ids on a page with several overviews; such a page has no code section to link to.
    """
    predictions = document["predictions"]
    first, references = predictions[0], document.get("references") or []
    return {
        "prefix": prefix,
        "first": first,
        "launch": first["provenance"].get("launch"),
        "notes": first["provenance"].get("notes", []),
        "predictions": predictions,
        "refused": document.get("refused", []),
        "stacks": drawn(stacks_of(predictions, references)),
        "references": references,
        "components": [_component(name, document) for name in shown([first])],
        "speed": _speed(document.get("speed_of_light")),
        "alone": _alone(document.get("alone"), first),
        "rooflines": [drawn(_roofline(each)) for each in document.get("rooflines") or ()],
        "latencies": _latencies(predictions),
    }


def stacks_of(predictions: list[dict[str, Any]], references: Sequence[dict[str, Any]] = ()) -> Stacks:
    """A bar for each prediction, all on one scale, with parts by component and the error relative to the first reference."""
    names = shown(predictions)
    errors: dict[str, float] = references[0]["errors"] if references else {}
    known = {each["name"] for each in references}
    return Stacks(
        title="CPI stacks: cycles per warp instruction of an SM",
        axis=Axis("cycles per instruction", most=_widest(predictions, known)),
        rows=[each["model"] + (" (reference)" if each["model"] in known else "") for each in predictions],
        series=[Series(name, [each["cpi_stack"].get(name, 0.0) for each in predictions], stack_style(name)) for name in names],
        totals=[f"{three_digits(each['cpi'])} CPI, {each['cycles']:,.0f} cycles"
                + (f", {signed_percent(errors[each['model']])}" if errors.get(each["model"]) is not None else "")
                for each in predictions],
    )  # fmt: skip


def _widest(predictions: list[dict[str, Any]], references: set[str]) -> float | None:
    """The limit at which bars are cut, so that a model far off does not make the first one and the references unreadable."""
    most = max(each["cpi"] for number, each in enumerate(predictions) if number == 0 or each["model"] in references)
    return _MOST_TIMES * most if most > 0 else None


def _component(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """A row of the table: the component's part of the CPI, the model's equation for it, and its main lines."""
    first = document["predictions"][0]
    about = (document.get("models") or {}).get(first["model"]) or {}
    component = components_of(first)[name]
    return {
        "name": name,
        "meaning": component.meaning,
        "nsight": component.nsight,
        "cpi": first["cpi_stack"][name],
        "share": shares(first)[name],
        "equation": about.get("by_component", {}).get(name, ""),
        "lines": top_lines(document, name),
    }


def top_lines(document: dict[str, Any], component: str) -> list[dict[str, Any]]:
    """The lines with the largest parts of a component: `place`, `share` of the component, and `anchor` in the code section."""
    code = document.get("code") or {}
    view = code.get("source") or code.get("line") or code.get("sass")
    if view is None:
        return []
    whole = view["cpi_stack"].get(component, 0.0)
    rows = [row for row in view["rows"] if row["cpi_stack"].get(component, 0.0) > 0.0]
    rows.sort(key=lambda row: -row["cpi_stack"][component])
    top = rows[:_MOST_LINES]
    return [{"place": place_of_row(row), "share": row["cpi_stack"][component] / whole, "anchor": anchor_of(row)} for row in top]


def anchor_of(row: dict[str, Any]) -> str:
    """The id of a row's first instruction in the code section."""
    return f"pc-{row['pcs'][0]}"


def _speed(rows: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    if not rows:
        return None
    meters = [
        Meter(row["label"], row["percent"] / 100, f"{percent(row['percent'] / 100)}, {three_digits(row['value'])} of "
              f"{three_digits(row['peak'])} {row['unit']}")
        for row in rows
    ]  # fmt: skip
    return {"drawing": drawn(Meters("Speed of light: utilization relative to the peak", meters)), "rows": rows,
            "beyond": [row["label"] for row in rows if row["percent"] > 100.5]}  # fmt: skip


def _alone(rows: list[dict[str, Any]] | None, first: dict[str, Any]) -> dict[str, Any] | None:
    if not rows:
        return None
    cycles = first["cycles"]
    meters = [Meter(row["label"], row["cycles"] / cycles, f"{row['cycles']:,.0f} cycles, {percent(row['cycles'] / cycles)}")
              for row in rows]  # fmt: skip
    title = f"Cycles with this resource as the only limit, of {cycles:,.0f} predicted"
    return {"drawing": drawn(Meters(title, meters)), "rows": rows}


def _roofline(roofline: dict[str, Any]) -> Roofline:
    unit, levels = roofline["unit"], roofline["levels"]
    return Roofline(
        title=f"Roofline by {unit}",
        x=Axis(f"{unit} per byte"),
        y=Axis(f"10^9 {unit}/s"),
        ceilings=[Roof(ceiling["name"], ceiling["per_s"] / 1e9) for ceiling in roofline["ceilings"]],
        slopes=[Roof(level["name"], level["bytes_per_s"] / 1e9) for level in levels],
        works=[Work(level["name"], roofline["work"] / level["bytes"], roofline["per_s"] / 1e9) for level in levels],
    )


def _latencies(predictions: list[dict[str, Any]]) -> Markup | None:
    """The mean latency of an L1 read miss by where the cycles are spent, for each model that gives it (MDM, Fig. 3)."""
    known = [(each["model"], parts) for each in predictions
             if (parts := each["provenance"].get("model", {}).get("l1_miss_latency"))]  # fmt: skip
    if not known:
        return None
    names = dict.fromkeys(name for _, parts in known for name in parts)
    series = [Series(name.replace("_", " "), [parts.get(name, 0.0) for _, parts in known]) for name in names]
    totals = [f"{sum(parts.values()):,.0f} cycles" for _, parts in known]
    return drawn(Stacks("L1 miss latency: a mean read miss", Axis("cycles"), [model for model, _ in known], series, totals))
