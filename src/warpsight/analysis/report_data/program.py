"""The report data of a program under `warpsight run`: its kernels, and what was on each stream when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from warpsight.analysis.report_data.kernel import PROGRAM_REPORT, report_head

_NAMED, OTHER_KERNELS = 6, "other kernels"  # kernels that the timeline tells apart: those that take most time
_MOST_STREAMS, _PARTS = 32, 1200  # the timeline has spans of at least such a part of its whole, in several streams of a larger one
_WHOLE_STREAMS = 4
_MARKS = {"event recorded": "recorded event", "wait for event": "stream wait", "host function": "host function"}


def program_report_data(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a result of `warpsight run --json`.

    Its keys: `schema`, `kind`, `tool`, `title`, `gpu`, `model`, and `program`: what it was run with, `totals` and `kernels` as they
    are there, and `timeline`, if anything has a time: its seconds, and for the first streams (`more` are left out) `spans`, each
    with `what` (a kernel, a kind of copy, or a wait for an event), `from`, `to`, and how `many` of them it stands for; `host`, the
    same of what the host of each process waited for; and `counts` of what takes no time. Raises KeyError, TypeError and others for
    what is no such result.
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
    waits = [wait for wait in timeline.get("host", ()) if wait["to"] > wait["from"]]
    return {
        **{key: value for key, value in timeline.items() if key.endswith("seconds")}, "named": named,
        "streams": [
            {"process": row["process"], "stream": row["stream"], "spans": list(_joined(_with_waits(row), named, least))}
            for row in shown
        ],
        "host": [
            {"process": process, "spans": list(_joined([each for each in waits if each["process"] == process], named, least))}
            for process in dict.fromkeys(each["process"] for each in waits)
        ],
        "counts": _counts(timeline),
        "more": len(timeline["streams"]) - len(shown),
    }  # fmt: skip


def _with_waits(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The launches and copies of a stream, and between them its waits for events."""
    waits = [mark for mark in row.get("marks", ()) if mark["to"] > mark["from"]]
    return sorted([*row["spans"], *waits], key=lambda each: float(each["from"]))


def _counts(timeline: dict[str, Any]) -> dict[str, int]:
    marks = [mark["what"] for row in timeline["streams"] for mark in row.get("marks", ())]
    grids = sum(span.get("grid_barriers", False) for row in timeline["streams"] for span in row["spans"])
    counts = {name: marks.count(what) for what, name in _MARKS.items()}
    return counts | {"graph launch": len(timeline.get("graphs", ())), "cooperative launch": grids}


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
