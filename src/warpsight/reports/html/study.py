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
    texts = [key_text(axis["key"], value) for value in axis["values"]]
    if axis["continuous"]:
        return f"from {texts[0]} to {texts[-1]}"
    return ", ".join(texts) if len(texts) <= 12 else f"{texts[0]}, {texts[1]} ... {texts[-1]} ({len(texts)} values)"


def _best_row(row: dict[str, Any]) -> dict[str, Any]:
    keys = {key: key_text(key, value) for key, value in row["keys"].items()}
    bound = "; ".join(sorted({kernel["bound_by"] for kernel in row["kernels"]}))
    return {"design": row["design"], "keys": keys, "performance": row["performance"], "bound": bound}


def sensitivity(document: dict[str, Any]) -> dict[str, Any] | None:
    """The sensitivity to each axis."""
    answers = _answers(document, "sensitivity")
    return {"drawings": [_drawn(answers[0])], "note": answers[0]["about"]} if answers else None


def fronts(document: dict[str, Any]) -> dict[str, Any] | None:
    """Performance over each cost, with a table of the Pareto-optimal designs."""
    tables = []
    for answer in _answers(document, "pareto"):
        cost = answer["objectives"][1]["name"]
        rows = [{"design": row["design"], "keys": keys_text(row["keys"]), "performance": row["values"][0],
                 "cost": key_text(cost, row["values"][1])} for row in answer["front"]]  # fmt: skip
        tables.append({"drawing": _drawn(answer), "cost": cost, "rows": rows})
    return {"fronts": tables} if tables else None


def maps(document: dict[str, Any]) -> dict[str, Any] | None:
    """Performance and bottleneck over the two most important axes."""
    drawings = [_drawn(answer) for answer in _answers(document, "map")]
    return {"drawings": drawings} if drawings else None


def designs(document: dict[str, Any]) -> dict[str, Any]:
    """The table of designs: the best rows; a script shows and sorts all."""
    table, study = document["designs"], document["study"]
    shown = len(table["design"])
    order = sorted(range(shown), key=lambda index: -table["performance"][index])
    rows = [
        {
            "design": table["design"][index],
            "values": [key_text(key, values[index]) for key, values in table["keys"].items()],
            "performance": three_digits(table["performance"][index]),
            "bound": [table["words"][codes[index]] for codes in table["bound_by"]],
        }
        for index in order[:_WITHOUT_SCRIPT]
    ]
    texts = {key: {str(value): key_text(key, value) for value in dict.fromkeys(values)} for key, values in table["keys"].items()}
    return {
        "keys": list(table["keys"]),
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
