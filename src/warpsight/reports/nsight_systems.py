"""What a program did, as CSV files with the names and columns of the reports of Nsight Systems (`nsys stats --format csv`).

A script that reads those files reads these. Times are predicted; those of the host are those that the timeline knows: a launch
takes it `dispatch.launch_interval`, and it waits. What is not known is empty: the time of other calls, contexts, the host's memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from warpsight.pipeline.timeline import FILL, KERNEL, PUSHED, ranges_by_name, spread

_NS, _MB = 1e9, 1e-6
_OPERATIONS = {
    "copy to device": "[CUDA memcpy Host-to-Device]", "copy to host": "[CUDA memcpy Device-to-Host]",
    "copy on device": "[CUDA memcpy Device-to-Device]", "copy on host": "[CUDA memcpy Host-to-Host]", FILL: "[CUDA memset]",
}  # fmt: skip
_SIDES = {
    "copy to device": ("", "Device"), "copy to host": ("Device", ""), "copy on device": ("Device", "Device"), FILL: ("", "Device"),
}  # fmt: skip
_SPREAD, _FORMS = ("Avg", "Med", "Min", "Max", "StdDev"), (".1f", ".1f", ".0f", ".0f", ".1f")
_TRACE = ("Start (ns)", "Duration (ns)", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ", "Reg/Trd", "StcSMem (MB)",
          "DymSMem (MB)", "Bytes (MB)", "Throughput (MB/s)", "SrcMemKd", "DstMemKd", "Device", "Ctx", "GreenCtx", "Strm",
          "Name")  # fmt: skip


def tables(document: dict[str, Any]) -> dict[str, str]:
    """The text of each report by its name, for a result of `warpsight run`; without launches or copies they have no rows."""
    timeline = document["timeline"]
    spans = [span for row in timeline.get("streams", ()) for span in row["spans"]]
    kernels = _grouped((span["kernel"], _length(span)) for span in spans if span["what"] == KERNEL)
    copies = [(_operation(span), span) for span in spans if span["what"] != KERNEL]
    copied = _grouped((name, _length(span)) for name, span in copies)
    ranges = {key: [_length(each) for each in some] for key, some in ranges_by_name(timeline).items()}
    return {
        "cuda_gpu_kern_sum": _times("Instances", ("Name",), {(name,): values for name, values in kernels.items()}),
        "cuda_gpu_mem_time_sum": _times("Count", ("Operation",), {(name,): values for name, values in copied.items()}),
        "cuda_gpu_mem_size_sum": _sizes(_grouped((name, float(span["bytes"])) for name, span in copies)),
        "cuda_gpu_trace": _trace(document),
        "cuda_api_sum": _functions(timeline),
        "cuda_api_trace": _calls(timeline),
        "nvtx_sum": _times("Instances", ("Style", "Range"), {(_style(kind), f"{domain}:{name}"): values
                                                             for (domain, name, kind), values in ranges.items()}),
        "nvtx_gpu_proj_sum": _projected(timeline),
    }  # fmt: skip


def _length(entry: dict[str, Any]) -> float:
    """Seconds of what has a beginning and an end."""
    return float(entry["to"] - entry["from"])


def _operation(span: dict[str, Any]) -> str:
    return _OPERATIONS.get(span["what"], "[CUDA memcpy]")


def _style(kind: str) -> str:
    return "PushPop" if kind == PUSHED else "StartEnd"


def _grouped(pairs: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = {}
    for name, value in pairs:
        groups.setdefault(name, []).append(value)
    return groups


def _text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *rows])
    return out.getvalue()


def _spread(values: Sequence[float]) -> list[str]:
    """Mean, median, least, most and deviation in nanoseconds; empty where no value is known."""
    if not values:
        return [""] * len(_SPREAD)
    known = spread([_NS * value for value in values])
    return [f"{known[key]:{form}}" for key, form in zip(("mean", "median", "min", "max", "stddev"), _FORMS, strict=True)]


def _times(
    count: str, names: Sequence[str], groups: dict[tuple[str, ...], list[float]], counts: dict[str, int] | None = None,
) -> str:
    """A row for each group, the one that takes most time first; `names` are the columns of its name. `counts` by name, where they
    are more than the times that are known.
    """
    whole = sum(map(sum, groups.values())) or 1.0
    rows = []
    for name, values in sorted(groups.items(), key=lambda item: -sum(item[1])):
        head = [f"{100 * sum(values) / whole:.1f}", f"{_NS * sum(values):.0f}"] if values else ["", ""]
        rows.append([*head, len(values) if counts is None else counts[name[-1]], *_spread(values), *name])
    return _text(["Time (%)", "Total Time (ns)", count, *(f"{each} (ns)" for each in _SPREAD), *names], rows)


def _sizes(groups: dict[str, list[float]]) -> str:
    rows = []
    for name, values in sorted(groups.items(), key=lambda item: -sum(item[1])):
        known = spread([_MB * value for value in values])
        shown = [f"{known[key]:.3f}" for key in ("mean", "median", "min", "max", "stddev")]
        rows.append([f"{known['sum']:.3f}", len(values), *shown, name])
    return _text(["Total (MB)", "Count", *(f"{each} (MB)" for each in _SPREAD), "Operation"], rows)


def _trace(document: dict[str, Any]) -> str:
    """Each kernel and copy, in the order of their beginnings."""
    launches = {row["number"]: row for row in document["launches"]}
    rows = []
    for stream in document["timeline"].get("streams", ()):
        for span in stream["spans"]:
            start, length = _NS * span["from"], _NS * _length(span)
            head = [f"{start:.0f}", f"{length:.0f}", span.get("call", "")]
            if span["what"] == KERNEL:
                row = launches[span["launch"]]
                shared = [f"{_MB * row[key]:.3f}" for key in ("static_shared_bytes", "shared_bytes")]
                middle = [*row["grid"], *row["block"], row["registers_per_thread"], *shared, "", "", "", ""]
                name = span["kernel"]
            else:
                size = _MB * span["bytes"]
                sides = _SIDES.get(span["what"], ("", ""))
                middle = [""] * 9 + [f"{size:.3f}", f"{_NS * size / length:.3f}", *sides]
                name = _operation(span)
            rows.append((start, [*head, *middle, document["gpu"], "", "", stream["stream"], name]))
    return _text(_TRACE, [cells for _, cells in sorted(rows, key=lambda row: row[0])])


def _functions(timeline: dict[str, Any]) -> str:
    """How often each function was called; the times are of those calls of which one is known."""
    lengths = _grouped((call["name"], _length(call)) for call in timeline.get("calls", ()) if call["to"] > call["from"])
    counts = {each["name"]: each["calls"] for each in timeline.get("functions", ())}
    return _times("Num Calls", ("Name",), {(name,): lengths.get(name, []) for name in counts}, counts)


def _calls(timeline: dict[str, Any]) -> str:
    rows = [[f"{_NS * call['from']:.0f}", f"{_NS * _length(call):.0f}" if call["to"] > call["from"] else "", call["name"], "",
             call["call"], call["process"], call["thread"], "", ""] for call in timeline.get("calls", ())]  # fmt: skip
    head = ("Start (ns)", "Duration (ns)", "Name", "Result", "CorrID", "Pid", "Tid", "T-Pri", "Thread Name")
    return _text(head, rows)


def _projected(timeline: dict[str, Any]) -> str:
    """Ranges by when the first that was issued in them began on the GPU, and the last ended."""
    rows = []
    for (domain, name, kind), ranges in ranges_by_name(timeline).items():
        values = [each["gpu_to"] - each["gpu_from"] for each in ranges if "gpu_to" in each]
        if values:
            there = [each for each in ranges if "gpu_to" in each]
            operations = sum(each["gpu_operations"] for each in there)
            level = sum(each["level"] for each in there) / len(there)
            total = [f"{_NS * each:.0f}" for each in (sum(values), sum(map(_length, there)))]
            head = [f"{domain}:{name}", _style(kind), *total, len(there)]
            tail = [operations, f"{operations / len(there):.1f}", f"{level:.1f}"]
            rows.append((sum(values), [*head, *_spread(values), *tail]))
    titles = ["Range", "Style", "Total Proj Time (ns)", "Total Range Time (ns)", "Range Instances",
              *(f"Proj {each} (ns)" for each in _SPREAD), "Total GPU Ops", "Avg GPU Ops", "Avg Range Lvl"]  # fmt: skip
    return _text(titles, [cells for _, cells in sorted(rows, key=lambda row: -row[0])])
