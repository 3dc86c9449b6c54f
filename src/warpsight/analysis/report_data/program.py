"""The report data of a program under `warpsight run`: its kernels, and what was on each stream when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from warpsight.analysis.report_data.kernel import PROGRAM_REPORT, report_head
from warpsight.pipeline.timeline import PUSHED, range_name, ranges_by_name

CALLS, OTHER_CALLS, OTHER_RANGES = "calls", "other calls", "other ranges"
_NAMED, OTHER_KERNELS = 6, "other kernels"  # kernels that the timeline tells apart: those that take most time
_MOST_STREAMS, _PARTS = 32, 1200  # the timeline has spans of at least such a part of its whole, in several streams of a larger one
_WHOLE_STREAMS = 4
_MARKS = {"event recorded": "recorded event", "wait for event": "stream wait", "host function": "host function"}


def program_report_data(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a result of `warpsight run --json`.

    Its keys: `schema`, `kind`, `tool`, `title`, `gpu`, `model`, and `program`: what it was run with, `totals` and `kernels` as they
    are there, and `timeline`, if anything has a time: its seconds, and for the first streams (`more` are left out) `spans`, each
    with `what` (a kernel, a kind of copy, or a wait for an event), `from`, `to`, and how `many` of them it stands for; `host`, the
    same of what the host of each process waited for; `threads`, of the calls of each thread of the host, and its ranges of NVTX,
    the outer before the inner ones; `functions` and `ranges`, how often each function was called and each range was entered; and
    `counts` of what takes no time. Raises KeyError, TypeError and others for what is no such result.
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
        "threads": _threads(timeline, least),
        "functions": timeline.get("functions", []),
        "ranges": [_summed(domain, name, ranges) for (domain, name, _), ranges in ranges_by_name(timeline).items()],
        "counts": _counts(timeline),
        "more": len(timeline["streams"]) - len(shown),
    }  # fmt: skip


def _threads(timeline: dict[str, Any], least: float) -> list[dict[str, Any]]:
    """A row of the calls of each thread, and one for each level of its ranges."""
    rows: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    seconds: dict[str, dict[str, float]] = {OTHER_CALLS: {}, OTHER_RANGES: {}}
    for call in timeline.get("calls", ()):
        if call["to"] > call["from"]:
            rows.setdefault((call["process"], call["thread"], CALLS), []).append({**call, "what": call["name"]})
    for each in timeline.get("ranges", ()):
        if each["to"] > each["from"]:
            level = "NVTX" if each["kind"] == PUSHED else "NVTX of the process"
            name = f"{level} {each['level'] + 1}" if each["level"] else level
            entry = {**each, "what": range_name(each["domain"], each["name"])}
            rows.setdefault((each["process"], each["thread"], name), []).append(entry)
    for (_, _, name), spans in rows.items():  # of many names those that take most time are told apart
        sums = seconds[OTHER_CALLS if name == CALLS else OTHER_RANGES]
        for span in spans:
            sums[span["what"]] = sums.get(span["what"], 0.0) + span["to"] - span["from"]
    named = {name for sums in seconds.values() for name in sorted(sums, key=lambda each: -sums[each])[:_NAMED]}
    for (_, _, name), spans in rows.items():
        for span in spans:
            if span["what"] not in named:
                span["what"] = OTHER_CALLS if name == CALLS else OTHER_RANGES
    return [
        {"process": process, "thread": thread, "row": name, "spans": list(_joined(spans, (), least))}
        for (process, thread, name), spans in sorted(rows.items())
    ]


def _summed(domain: str, name: str, ranges: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All ranges of a name: seconds of the host, and of the GPU from the first that was issued in each to the last."""
    return {
        "name": range_name(domain, name), "times": len(ranges), "host_seconds": sum(each["to"] - each["from"] for each in ranges),
        "gpu_seconds": sum(each["gpu_to"] - each["gpu_from"] for each in ranges if "gpu_to" in each),
        "kernel_seconds": sum(each["kernel_seconds"] for each in ranges),
        "gpu_operations": sum(each["gpu_operations"] for each in ranges),
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
