"""What was on each stream of a program, and when, as Nsight Systems shows it of a GPU: kernels, copies, events, calls and waits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from warpsight.programs.session import Span
from warpsight.programs.wire import Spent

KERNEL = "kernel"
_COPIES = {Spent.TO_DEVICE: "copy to device", Spent.TO_HOST: "copy to host", Spent.ON_DEVICE: "copy or fill on device"}
_MARKS = {Spent.RECORDED: "event recorded", Spent.WAITED_FOR_EVENT: "wait for event", Spent.CALLED_HOST: "host function"}
_WAITS = {
    Spent.HOST_WAITED_FOR_EVENT: "event", Spent.HOST_WAITED_FOR_STREAM: "stream", Spent.HOST_WAITED_FOR_DEVICE: "device",
}  # fmt: skip
_HOST_ROW, _HOST_PROCESS = 0, "host"
_Interval = tuple[float, float]


def timeline_document(spans: Sequence[Span], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The timeline as JSON values. Seconds from the first launch or copy to the last end, and of them those in which a kernel ran,
    something was copied, and neither. For each stream of a process:

    - `spans`: its launches and copies, `from` and `to` in seconds; `grid_barriers` where the launch is cooperative, so that its
      blocks may wait for each other; `graph` where it belongs to a launch of a graph, with the number of that;
    - `marks`: events that were recorded on it (`event`: their number), its waits for events, and calls of host functions.

    `graphs`: of each launch of a graph its stream, and when its launches and copies began and ended. `host`: what the host waited
    for (`event`, `stream`, or the `device`), and when. `rows` are the launches of the run. Empty where nothing had a time.
    """
    timed = [span for span in spans if span.kind < Spent.RECORDED and span.end > span.start]
    if not timed:
        return {}
    zero, last = min(span.start for span in timed), max(span.end for span in timed)
    kernels = _union((each.start, each.end) for each in timed if each.kind == Spent.LAUNCHED)
    copies = _union((each.start, each.end) for each in timed if each.kind != Spent.LAUNCHED)
    launched = {row["number"]: row for row in rows}
    on, marks = _by_stream(timed), _by_stream(span for span in spans if span.kind in _MARKS)
    return {
        "seconds": last - zero,
        "kernel_seconds": _length(kernels), "copy_seconds": _length(copies),
        "idle_seconds": last - zero - _length(_union([*kernels, *copies])),
        "streams": [
            {"process": process, "stream": stream,
             "spans": [_span(each, launched, zero) for each in on[process, stream]],
             "marks": [_mark(each, zero) for each in marks.get((process, stream), ())]}
            for process, stream in sorted(on)
        ],
        "graphs": _graphs(timed, zero),
        "host": [_wait(each, zero) for each in spans if each.kind in _WAITS],
    }  # fmt: skip


def _by_stream(spans: Iterable[Span]) -> dict[tuple[int, int], list[Span]]:
    found: dict[tuple[int, int], list[Span]] = {}
    for span in sorted(spans, key=lambda each: each.start):
        found.setdefault((span.process, span.stream), []).append(span)
    return found


def _times(span: Span, zero: float) -> dict[str, float]:
    return {"from": span.start - zero, "to": span.end - zero}


def _span(span: Span, rows: dict[int, dict[str, Any]], zero: float) -> dict[str, Any]:
    graph = {"graph": span.graph} if span.graph else {}
    if span.kind != Spent.LAUNCHED:
        return {"what": _COPIES.get(span.kind, "copy"), "bytes": span.copied, **graph, **_times(span, zero)}
    row = rows.get(span.number, {})
    whole_grid = {"grid_barriers": True} if row.get("cooperative") else {}
    return {"what": KERNEL, "launch": span.number, "kernel": row.get("kernel", ""), **whole_grid, **graph, **_times(span, zero)}


def _mark(span: Span, zero: float) -> dict[str, Any]:
    event = {} if span.kind == Spent.CALLED_HOST else {"event": span.number}
    return {"what": _MARKS[span.kind], **event, **({"graph": span.graph} if span.graph else {}), **_times(span, zero)}


def _wait(span: Span, zero: float) -> dict[str, Any]:
    what = _WAITS[span.kind]
    number = {} if span.kind == Spent.HOST_WAITED_FOR_DEVICE else {what: span.number}
    return {"process": span.process, "what": f"wait for {what}", **number, **_times(span, zero)}


def _graphs(timed: Sequence[Span], zero: float) -> list[dict[str, Any]]:
    found: dict[tuple[int, int], list[Span]] = {}
    for span in timed:
        if span.graph:
            found.setdefault((span.process, span.graph), []).append(span)
    return [
        {"process": process, "graph": number, "stream": spans[0].stream, "from": min(each.start for each in spans) - zero,
         "to": max(each.end for each in spans) - zero}
        for (process, number), spans in found.items()
    ]  # fmt: skip


def _union(intervals: Iterable[_Interval]) -> list[_Interval]:
    """The same times as intervals that do not overlap, in order."""
    found: list[_Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _length(intervals: Sequence[_Interval]) -> float:
    return sum(end - start for start, end in intervals)


# -- The same for Perfetto.

def trace_events(timeline: dict[str, Any]) -> str:
    """JSON text in Chrome's trace event format, microseconds: a row for each stream of each process, and one for the host."""
    events: list[dict[str, Any]] = []
    for row in timeline.get("streams", ()):
        place = {"pid": row["process"], "tid": row["stream"]}
        events.append(_named(place, f"stream {row['stream']}"))
        events += [_event(place, span, span.get("kernel") or span["what"]) for span in row["spans"]]
        events += [_event(place, mark, _label(mark)) for mark in row["marks"]]
    for graph in timeline.get("graphs", ()):  # around its launches and copies
        place = {"pid": graph["process"], "tid": graph["stream"]}
        events.append(_event(place, graph, f"launch {graph['graph']} of a graph"))
    hosts = dict.fromkeys(wait["process"] for wait in timeline.get("host", ()))
    events += [_named({"pid": process, "tid": _HOST_ROW}, _HOST_PROCESS) for process in hosts]
    events += [_event({"pid": wait["process"], "tid": _HOST_ROW}, wait, _label(wait)) for wait in timeline.get("host", ())]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _named(place: dict[str, Any], name: str) -> dict[str, Any]:
    return {**place, "ph": "M", "name": "thread_name", "args": {"name": name}}


def _label(entry: dict[str, Any]) -> str:
    number = entry.get("event", entry.get("stream"))
    return str(entry["what"]) if number is None else f"{entry['what']} {number}"


def _event(place: dict[str, Any], entry: dict[str, Any], name: str) -> dict[str, Any]:
    """A slice, or an instant where it takes no time."""
    args = {key: value for key, value in entry.items() if key not in ("from", "to", "what", "kernel", "process")}
    length = 1e6 * (entry["to"] - entry["from"])
    shape = {"ph": "X", "dur": length} if length > 0 else {"ph": "i", "s": "t"}
    return {**place, **shape, "name": name, "ts": 1e6 * entry["from"], "args": args}
