"""The sections of a study's report: summary, sensitivity, Pareto fronts, maps, and the table of designs."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from warpsight.base.units import thousands, three_digits
from warpsight.reports.sweep_answers import key_text, keys_text, metric_text
from warpsight.reports.sweep_pictures import answer_picture

_WITHOUT_SCRIPT = 50


def summary(document: dict[str, Any]) -> dict[str, Any]:
    """The number of designs, the varied keys, and the best designs."""
    study = document["study"]
    best = _answers(document, "best")
    axes = [{"key": axis["key"], "values": _values(axis)} for axis in study["axes"]]
    return {
        "study": study,
        "metric": metric_text(study["metric"]),
        "axes": axes,
        "baseline": keys_text(study["baseline"]["keys"]),
        "best": [_best_row(row) for row in best[0]["best"]] if best else [],
        "keys": list(study["baseline"]["keys"]),
        "unanswered": document["unanswered"],
    }


def _values(axis: dict[str, Any]) -> str:
    shown = [key_text(axis["key"], value) for value in axis["values"]]
    if axis["continuous"]:
        return f"from {shown[0]} to {shown[-1]}"
    return ", ".join(shown) if len(shown) <= 12 else f"{shown[0]}, {shown[1]} ... {shown[-1]} ({len(shown)} values)"


def _best_row(row: dict[str, Any]) -> dict[str, Any]:
    bound = sorted({kernel["bound_by"] for kernel in row["kernels"]})
    shown = {key: key_text(key, value) for key, value in row["keys"].items()}
    return {"design": row["design"], "keys": shown, "performance": row["performance"], "bound": "; ".join(bound)}


def sensitivity(document: dict[str, Any]) -> dict[str, Any] | None:
    """The sensitivity to each axis."""
    found = _answers(document, "sensitivity")
    return {"drawings": [_drawn(found[0])], "note": found[0]["about"]} if found else None


def fronts(document: dict[str, Any]) -> dict[str, Any] | None:
    """Performance over each cost, with a table of the Pareto-optimal designs."""
    found = _answers(document, "pareto")
    tables = [
        {
            "drawing": _drawn(answer),
            "cost": answer["objectives"][1]["name"],
            "rows": [
                {"design": row["design"], "keys": keys_text(row["keys"]), "performance": row["values"][0],
                 "cost": key_text(answer["objectives"][1]["name"], row["values"][1])}
                for row in answer["front"]
            ],
        }
        for answer in found
    ]  # fmt: skip
    return {"fronts": tables} if found else None


def maps(document: dict[str, Any]) -> dict[str, Any] | None:
    """Performance and bottleneck over the two most important axes."""
    found = _answers(document, "map")
    return {"drawings": [_drawn(answer) for answer in found]} if found else None


def designs(document: dict[str, Any]) -> dict[str, Any]:
    """The table of designs: the best rows; a script shows and sorts all."""
    table, study = document["designs"], document["study"]
    order = sorted(range(len(table["design"])), key=lambda place: -table["performance"][place])
    keys = list(table["keys"])
    rows = [
        {
            "design": table["design"][place],
            "values": [key_text(key, table["keys"][key][place]) for key in keys],
            "performance": three_digits(table["performance"][place]),
            "bound": [table["words"][codes[place]] for codes in table["bound_by"]],
        }
        for place in order[:_WITHOUT_SCRIPT]
    ]
    texts = {key: {str(value): key_text(key, value) for value in dict.fromkeys(table["keys"][key])} for key in keys}
    shown = len(order)
    return {
        "keys": keys,
        "kernels": table["kernels"],
        "rows": rows,
        "shown": thousands(shown),
        "of": thousands(table["of"]) if table["of"] > shown else "",
        "metric": metric_text(study["metric"]),
        "texts": texts,
    }


def _answers(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [answer for answer in document["answers"] if answer["answer"] == kind]


def _drawn(answer: dict[str, Any]) -> Markup:
    return Markup(answer_picture(answer, themed=True) or "")
