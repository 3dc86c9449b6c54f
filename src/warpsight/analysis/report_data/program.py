"""The report data of a program under `warpsight run`: its kernels, and what was on each stream when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from warpsight.analysis.report_data.kernel import PROGRAM_REPORT, report_head

_NAMED, OTHER_KERNELS = 6, "other kernels"  # kernels that the timeline tells apart: those that take most time
_MOST_STREAMS, _PARTS = 32, 1200  # the timeline has spans of at least such a part of its whole, in several streams of a larger one
_WHOLE_STREAMS = 4


def program_report_data(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a result of `warpsight run --json`.

    Its keys: `schema`, `kind`, `tool`, `title`, `gpu`, `model`, and `program`: what it was run with, `totals` and `kernels` as they
    are there, and `timeline`, if anything has a time: its seconds, and for the first streams (`more` are left out) `spans`, each
    with `what` (a kernel or a kind of copy), `from`, `to`, and how `many` launches or copies it stands for. Raises KeyError,
    TypeError and others for what is no such result.
    """
    title = f"{' '.join(document['command'])} on {document['gpu']}"
    kept = ("command", "level", "target", "caches_before", "totals", "kernels")
    return {
        **report_head(PROGRAM_REPORT, title), "gpu": document["gpu"], "model": document["model"],
        "program": {**{key: document[key] for key in kept}, "timeline": _timeline(document)},
    }  # fmt: skip


def _timeline(document: dict[str, Any]) -> dict[str, Any]:
    timeline = document["timeline"]
    if not timeline:
        return {}
    named = [entry["kernel"] for entry in document["kernels"][:_NAMED]]
    shown = timeline["streams"][:_MOST_STREAMS]
    least = timeline["seconds"] / _PARTS * max(1.0, len(shown) / _WHOLE_STREAMS)
    return {
        **{key: value for key, value in timeline.items() if key.endswith("seconds")}, "named": named,
        "streams": [row | {"spans": list(_joined(row["spans"], named, least))} for row in shown],
        "more": len(timeline["streams"]) - len(shown),
    }  # fmt: skip


def _joined(spans: Sequence[dict[str, Any]], named: Sequence[str], least: float) -> Iterator[dict[str, Any]]:
    """The spans of a stream in order; shorter ones than `least` seconds, and those that follow within it, are one.

    It has the name of what takes most of its time.
    """
    group: list[dict[str, Any]] = []
    for span in spans:
        is_long = span["to"] - span["from"] >= least
        if group and (is_long or span["to"] - group[0]["from"] > least):
            yield _as_one(group, named)
            group = []
        group.append(span)
        if is_long:
            yield _as_one(group, named)
            group = []
    if group:
        yield _as_one(group, named)


def _as_one(group: Sequence[dict[str, Any]], named: Sequence[str]) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    for span in group:
        kernel = span.get("kernel")
        name = span["what"] if kernel is None else kernel if kernel in named else OTHER_KERNELS
        seconds[name] = seconds.get(name, 0.0) + span["to"] - span["from"]
    whole = {"what": max(seconds, key=lambda name: seconds[name]), "from": group[0]["from"], "to": group[-1]["to"]}
    return {**whole, "many": len(group)}
