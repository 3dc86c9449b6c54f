"""What was on each stream of a program, and when: kernels and copies, as Nsight Systems shows them of a GPU."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from warpsight.programs.session import DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, Span

KERNEL = "kernel"
_COPIES = {HOST_TO_DEVICE: "copy to device", DEVICE_TO_HOST: "copy to host", DEVICE_TO_DEVICE: "copy or fill on device"}
_Interval = tuple[float, float]


def timeline_document(spans: Sequence[Span], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The timeline as JSON values. Seconds from the first span to the last end, and of them those in which a kernel ran, something
    was copied, and neither; for each stream its spans, `from` and `to` in seconds. `rows` are the launches of the run.

    Empty where nothing had a time.
    """
    timed = [span for span in spans if span.end > span.start]
    if not timed:
        return {}
    zero, last = min(span.start for span in timed), max(span.end for span in timed)
    names = {row["number"]: row["kernel"] for row in rows}
    streams: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for span in sorted(timed, key=lambda each: (each.process, each.stream, each.start)):
        what = {"what": KERNEL, "launch": span.number, "kernel": names.get(span.number, "")}
        copy = {"what": _COPIES.get(span.direction, "copy"), "bytes": span.copied}
        entry = {**(what if span.number else copy), "from": span.start - zero, "to": span.end - zero}
        streams.setdefault((span.process, span.stream), []).append(entry)
    kernels = _union((each.start, each.end) for each in timed if each.number)
    copies = _union((each.start, each.end) for each in timed if not each.number)
    return {
        "seconds": last - zero,
        "kernel_seconds": _length(kernels), "copy_seconds": _length(copies),
        "idle_seconds": last - zero - _length(_union([*kernels, *copies])),
        "streams": [{"process": process, "stream": stream, "spans": found} for (process, stream), found in streams.items()],
    }


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


def trace_events(timeline: dict[str, Any]) -> str:
    """The same for Perfetto (JSON text in Chrome's trace event format, microseconds): a row for each stream of each process."""
    events: list[dict[str, Any]] = []
    for row in timeline.get("streams", ()):
        place = {"pid": row["process"], "tid": row["stream"]}
        events.append({**place, "ph": "M", "name": "thread_name", "args": {"name": f"stream {row['stream']}"}})
        for span in row["spans"]:
            args = {name: value for name, value in span.items() if name not in ("from", "to", "what", "kernel")}
            name = span.get("kernel") or span["what"]
            events.append({**place, "ph": "X", "name": name, "ts": 1e6 * span["from"], "dur": 1e6 * (span["to"] - span["from"]),
                           "args": args})  # fmt: skip
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
