"""What was on each stream of a program, and when, as Nsight Systems shows it of a GPU: kernels, copies, events, calls and waits."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from warpsight.programs.session import Span
from warpsight.programs.wire import Spent

KERNEL = "kernel"
FILL = "fill"
_COPIES = {
    Spent.TO_DEVICE: "copy to device", Spent.TO_HOST: "copy to host", Spent.ON_DEVICE: "copy on device",
    Spent.ON_HOST: "copy on host", Spent.FILLED: FILL,
}  # fmt: skip
_MARKS = {Spent.RECORDED: "event recorded", Spent.WAITED_FOR_EVENT: "wait for event", Spent.CALLED_HOST: "host function"}
_WAITS = {
    Spent.HOST_WAITED_FOR_EVENT: "event", Spent.HOST_WAITED_FOR_STREAM: "stream", Spent.HOST_WAITED_FOR_DEVICE: "device",
}  # fmt: skip
_OF_CALLS = (Spent.CALLED, Spent.COUNTED)
PUSHED, STARTED = "push and pop", "start and end"  # the two kinds of ranges
_Interval = tuple[float, float]


def timeline_document(spans: Sequence[Span], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The timeline as JSON values. Seconds from the first launch or copy to the last end, and of them those in which a kernel ran,
    something was copied, and neither. For each stream of a process:

    - `spans`: its launches and copies, `from` and `to` in seconds; `grid_barriers` where the launch is cooperative, so that its
      blocks may wait for each other; `graph` where it belongs to a launch of a graph, with the number of that;
    - `marks`: events that were recorded on it (`event`: their number), its waits for events, and calls of host functions.

    `graphs`: of each launch of a graph its stream, and when its launches and copies began and ended. `host`: what the host waited
    for (`event`, `stream`, or the `device`), and when.

    `calls`: the calls of CUDA's interface that put something on a stream or waited, by the host's `thread`, with a number (`call`)
    that also the spans and marks have that they made. `from` and `to` are when the host could issue the next launch: it takes it
    `dispatch.launch_interval` to issue one, and it waits; what else a call takes is not known. `functions`: how often each function
    was called at all, and for how long by those times. `ranges` and `range_marks`: those of NVTX (`_Ranges`).

    `rows` are the launches of the run. Empty where nothing had a time.
    """
    timed = [span for span in spans if span.kind < Spent.RECORDED and span.end > span.start]
    if not timed:
        return {}
    zero, last = min(span.start for span in timed), max(span.end for span in timed)
    kernels = _union((each.start, each.end) for each in timed if each.kind == Spent.LAUNCHED)
    copies = _union((each.start, each.end) for each in timed if each.kind != Spent.LAUNCHED)
    launched = {row["number"]: row for row in rows}
    on, marks = _by_stream(timed), _by_stream(span for span in spans if span.kind in _MARKS)
    recorded = {(each.process, each.number): each.stream for each in spans if each.kind == Spent.RECORDED}
    return {
        "seconds": last - zero,
        "kernel_seconds": _length(kernels), "copy_seconds": _length(copies),
        "idle_seconds": last - zero - _length(_union([*kernels, *copies])),
        "streams": [
            {"process": process, "stream": stream,
             "spans": [_span(each, launched, zero) for each in on[process, stream]],
             "marks": [_mark(each, zero, recorded) for each in marks.get((process, stream), ())]}
            for process, stream in sorted(on)
        ],
        "graphs": _graphs(timed, zero),
        "host": [_wait(each, zero) for each in spans if each.kind in _WAITS],
        "calls": [_call(each, zero) for each in spans if each.kind == Spent.CALLED],
        "functions": _functions(spans),
        **_Ranges(zero, last).of(spans),
    }  # fmt: skip


def _by_stream(spans: Iterable[Span]) -> dict[tuple[int, int], list[Span]]:
    found: dict[tuple[int, int], list[Span]] = {}
    for span in sorted(spans, key=lambda each: each.start):
        found.setdefault((span.process, span.stream), []).append(span)
    return found


def _times(span: Span, zero: float) -> dict[str, float]:
    return {"from": span.start - zero, "to": span.end - zero}


def _span(span: Span, rows: dict[int, dict[str, Any]], zero: float) -> dict[str, Any]:
    graph = _of(span)
    if span.kind != Spent.LAUNCHED:
        return {"what": _COPIES.get(span.kind, "copy"), "bytes": span.copied, **graph, **_times(span, zero)}
    row = rows.get(span.number, {})
    whole_grid = {"grid_barriers": True} if row.get("cooperative") else {}
    return {"what": KERNEL, "launch": span.number, "kernel": row.get("kernel", ""), **whole_grid, **graph, **_times(span, zero)}


def _of(span: Span) -> dict[str, int]:
    """The launch of a graph and the call that it belongs to."""
    return {key: number for key, number in (("graph", span.graph), ("call", span.call)) if number}


def _mark(span: Span, zero: float, recorded: dict[tuple[int, int], int]) -> dict[str, Any]:
    event = {} if span.kind == Spent.CALLED_HOST else {"event": span.number}
    if span.kind == Spent.WAITED_FOR_EVENT and (stream := recorded.get((span.process, span.number))):
        event["recorded_on"] = stream
    return {"what": _MARKS[span.kind], **event, **_of(span), **_times(span, zero)}


def _wait(span: Span, zero: float) -> dict[str, Any]:
    what = _WAITS[span.kind]
    number = {} if span.kind == Spent.HOST_WAITED_FOR_DEVICE else {what: span.number}
    return {"process": span.process, "what": f"wait for {what}", **number, **_of(span), **_times(span, zero)}


def _call(span: Span, zero: float) -> dict[str, Any]:
    return {"process": span.process, "thread": span.thread, "name": span.name, "call": span.call, **_times(span, zero)}


def _functions(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """Those that take most time first, and of the others those that are called most often. A program that is killed tells no
    counts: then those of its calls that are in the timeline are counted.
    """
    found: dict[str, dict[str, Any]] = {}
    told: dict[str, int] = {}
    for span in spans:
        entry = found.setdefault(span.name, {"name": span.name, "calls": 0, "seconds": 0.0}) if span.kind in _OF_CALLS else {}
        if span.kind == Spent.CALLED:
            entry["calls"] += 1
            entry["seconds"] += span.end - span.start
        elif span.kind == Spent.COUNTED:
            told[span.name] = told.get(span.name, 0) + span.copied
    for name, calls in told.items():
        found[name]["calls"] = max(found[name]["calls"], calls)
    return sorted(found.values(), key=lambda entry: (-entry["seconds"], -entry["calls"], entry["name"]))


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


class _Ranges:
    """The ranges of NVTX. Each has its `kind` (of a thread, `push and pop`, or of the process), `name`, `domain` (empty: the
    default one), `thread`, and `level` (how many ranges of the thread it is in); when the host was in it (`from` and `to`, by the
    host's clock of `calls`); how many launches and copies were issued in it (`gpu_operations`); if any were, when the first of
    them began and the last ended (`gpu_from`, `gpu_to`); and the sum of the kernels' times (`kernel_seconds`). What a program
    leaves open ends with it. Marks have a name and a time.
    """

    def __init__(self, zero: float, last: float) -> None:
        self._zero, self._last = zero, last
        self._pushed: dict[tuple[int, int, int], list[dict[str, Any]]] = {}  # by process, thread and domain
        self._started: dict[tuple[int, int], dict[str, Any]] = {}  # by process and number
        self._ranges: list[dict[str, Any]] = []
        self._marks: list[dict[str, Any]] = []

    def of(self, spans: Iterable[Span]) -> dict[str, Any]:
        """`ranges` and `range_marks`."""
        for span in spans:
            if span.kind >= Spent.RANGE_PUSHED:
                self._tell(span)
            elif span.kind < Spent.RECORDED and span.end > span.start:
                self._add(span)
        return {"ranges": self._ranges, "range_marks": self._marks}

    def _tell(self, span: Span) -> None:
        at = span.start - self._zero
        place = (span.process, span.thread, span.stream)
        domain, _, name = span.name.partition(":") if span.stream else ("", "", span.name)
        named = {"process": span.process, "thread": span.thread, "domain": domain, "name": name}
        if span.kind == Spent.MARKED:
            self._marks.append({**named, "from": at, "to": at})
        elif span.kind == Spent.RANGE_POPPED:
            if stack := self._pushed.get(place):
                stack.pop()["to"] = at
        elif span.kind == Spent.RANGE_ENDED:
            if (started := self._started.pop((span.process, span.copied), None)) is not None:
                started["to"] = at
        else:
            level = sum(len(stack) for (process, thread, _), stack in self._pushed.items() if (process, thread) == place[:2])
            end = max(at, self._last - self._zero)
            made = {**named, "kind": PUSHED, "level": level, "from": at, "to": end, "gpu_operations": 0, "kernel_seconds": 0.0}
            self._ranges.append(made)
            if span.kind == Spent.RANGE_PUSHED:
                self._pushed.setdefault(place, []).append(made)
            else:
                made |= {"kind": STARTED, "level": 0}
                self._started[span.process, span.copied] = made

    def _add(self, span: Span) -> None:
        pushed = [each for (process, thread, _), stack in self._pushed.items() if (process, thread) == (span.process, span.thread)
                  for each in stack]  # fmt: skip
        for made in [*pushed, *(each for (process, _), each in self._started.items() if process == span.process)]:
            made["gpu_operations"] += 1
            made["kernel_seconds"] += (span.end - span.start) * (span.kind == Spent.LAUNCHED)
            made["gpu_from"] = min(made.get("gpu_from", span.start - self._zero), span.start - self._zero)
            made["gpu_to"] = max(made.get("gpu_to", 0.0), span.end - self._zero)


def ranges_by_name(timeline: dict[str, Any]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The ranges of NVTX by domain, name and kind."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for each in timeline.get("ranges", ()):
        found.setdefault((each["domain"], each["name"], each["kind"]), []).append(each)
    return found


def range_name(domain: str, name: str) -> str:
    """As it is shown: `name`, or `domain:name`."""
    return f"{domain}:{name}" if domain else name


def spread(values: Sequence[float]) -> dict[str, float]:
    """Sum, mean, median, least, most and standard deviation (of a sample; 0 of one value) of some values."""
    return {
        "sum": sum(values), "mean": statistics.fmean(values), "median": statistics.median(values), "min": min(values),
        "max": max(values), "stddev": statistics.stdev(values) if len(values) > 1 else 0.0,
    }  # fmt: skip


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

# Rows of the host come after those of streams, whose numbers are small.
_HOST_ROWS, _NVTX_ROWS = 1 << 30, (1 << 30) + (1 << 20)


def trace_events(timeline: dict[str, Any]) -> str:
    """JSON text in Chrome's trace event format, microseconds: a row for each stream of each process, and for each thread of the
    host its calls, waits and ranges. Arrows lead from a call to what it has put on streams.
    """
    events: list[dict[str, Any]] = []
    made: dict[tuple[int, int], list[tuple[dict[str, Any], dict[str, Any]]]] = {}  # what a call has put on streams, by process
    for row in timeline.get("streams", ()):
        place = {"pid": row["process"], "tid": row["stream"]}
        events.append(_named(place, f"stream {row['stream']}"))
        events += [_event(place, span, span.get("kernel") or span["what"]) for span in row["spans"]]
        events += [_event(place, mark, _label(mark)) for mark in row["marks"]]
        for span in row["spans"]:
            made.setdefault((row["process"], span.get("call", 0)), []).append((place, span))
    for graph in timeline.get("graphs", ()):  # around its launches and copies
        place = {"pid": graph["process"], "tid": graph["stream"]}
        events.append(_event(place, graph, f"launch {graph['graph']} of a graph"))
    return json.dumps({"traceEvents": [*events, *_host_events(timeline, made)], "displayTimeUnit": "ms"})


def _host_events(timeline: dict[str, Any], made: dict[tuple[int, int], list[tuple[dict[str, Any], dict[str, Any]]]]
                 ) -> list[dict[str, Any]]:  # fmt: skip
    """Calls with arrows to what they have `made`, waits below the call that waits, and ranges."""
    calls, ranges = timeline.get("calls", ()), [*timeline.get("ranges", ()), *timeline.get("range_marks", ())]
    threads = list(dict.fromkeys((each["process"], each["thread"]) for each in [*calls, *ranges]))
    rows = {thread: number for number, thread in enumerate(threads)}
    events = [_named({"pid": process, "tid": _HOST_ROWS + rows[process, thread]}, f"host, thread {thread}")
              for process, thread in dict.fromkeys((each["process"], each["thread"]) for each in calls)]  # fmt: skip
    events += [_named({"pid": process, "tid": _NVTX_ROWS + rows[process, thread]}, f"NVTX, thread {thread}")
               for process, thread in dict.fromkeys((each["process"], each["thread"]) for each in ranges)]  # fmt: skip
    place_of: dict[tuple[int, int], dict[str, Any]] = {}
    for call in calls:
        place = {"pid": call["process"], "tid": _HOST_ROWS + rows[call["process"], call["thread"]]}
        place_of[call["process"], call["call"]] = place
        events.append(_event(place, call, call["name"]))
        if call["to"] > call["from"]:
            for number, (where, span) in enumerate(made.get((call["process"], call["call"]), ())):
                arrow = {"cat": "call", "name": "made by the call", "id": f"{call['process']}.{call['call']}.{number}"}
                events += [{**place, **arrow, "ph": "s", "ts": 1e6 * call["from"]},
                           {**where, **arrow, "ph": "f", "bp": "e", "ts": 1e6 * span["from"]}]  # fmt: skip
    for wait in timeline.get("host", ()):
        own = {"pid": wait["process"], "tid": _HOST_ROWS}  # after a fault calls are refused, and only their waits are told
        events.append(_event(place_of.get((wait["process"], wait.get("call", 0)), own), wait, _label(wait)))
    for number, each in enumerate(ranges):
        place = {"pid": each["process"], "tid": _NVTX_ROWS + rows[each["process"], each["thread"]]}
        name = range_name(each["domain"], each["name"])
        if each.get("kind") == STARTED:  # may overlap with others
            whole = {**place, "cat": "NVTX", "name": name, "id": number}
            events += [{**whole, "ph": "b", "ts": 1e6 * each["from"]}, {**whole, "ph": "e", "ts": 1e6 * each["to"]}]
        else:
            events.append(_event(place, each, name))
    return events


def _named(place: dict[str, Any], name: str) -> dict[str, Any]:
    return {**place, "ph": "M", "name": "thread_name", "args": {"name": name}}


def _label(entry: dict[str, Any]) -> str:
    number = entry.get("event", entry.get("stream"))
    return str(entry["what"]) if number is None else f"{entry['what']} {number}"


def _event(place: dict[str, Any], entry: dict[str, Any], name: str) -> dict[str, Any]:
    """A slice, or an instant where it takes no time."""
    args = {key: value for key, value in entry.items() if key not in ("from", "to", "what", "kernel", "process", "name")}
    length = 1e6 * (entry["to"] - entry["from"])
    shape = {"ph": "X", "dur": length} if length > 0 else {"ph": "i", "s": "t"}
    return {**place, **shape, "name": name, "ts": 1e6 * entry["from"], "args": args}
