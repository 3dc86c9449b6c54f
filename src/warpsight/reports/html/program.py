"""The sections of the report of a program: its totals and kernels, and the timeline of its streams."""

from __future__ import annotations

from typing import Any

from warpsight.base.units import duration
from warpsight.reports.drawing.charts import Axis, Span, Spans
from warpsight.reports.html.parts import drawn
from warpsight.reports.terminal import counted

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_LEAST_NUMBER = 5.0  # on the axis at its end


def kernels(document: dict[str, Any]) -> dict[str, Any]:
    """The totals, and a row for each kernel."""
    program = document["program"]
    whole = program["totals"]["seconds"] or 1.0
    rows = [{**entry, "share": entry["seconds"] / whole, "spread": entry.get("spread")} for entry in program["kernels"]]
    return {"program": program, "gpu": document["gpu"], "model": document["model"], "rows": rows}


def timeline(document: dict[str, Any]) -> dict[str, Any] | None:
    """What was on each stream, and when; None if nothing has a time."""
    part = document["program"]["timeline"]
    if not part:
        return None
    scale, unit = next((each for each in _UNITS if part["seconds"] >= _LEAST_NUMBER * each[0]), _UNITS[-1])
    rows = [*part["streams"], *part["host"], *part["threads"]]
    spans = [row["spans"] for row in rows]
    present = list(dict.fromkeys(span["what"] for row in spans for span in row))
    names = sorted(present, key=lambda name: (name not in part["named"], present.index(name)))
    processes = len({row["process"] for row in rows})
    threads = len({row["thread"] for row in part["threads"]})
    chart = Spans(
        title=f"Streams of {document['title']}",
        axis=Axis("time", unit),
        end=part["seconds"] / scale,
        rows=[f"process {row['process']}, " * (processes > 1) + _row_name(row, threads) for row in rows],
        names=names,
        spans=[[Span(span["from"] / scale, span["to"] / scale, names.index(span["what"]), _tip(span)) for span in row]
               for row in spans],
    )  # fmt: skip
    shares = [(name, part[key] / part["seconds"]) for name, key in (
        ("kernels", "kernel_seconds"), ("copies and fills", "copy_seconds"), ("neither", "idle_seconds"))]  # fmt: skip
    counts = [counted(count, name) for name, count in part["counts"].items() if count]
    return {"part": part, "shares": shares, "drawing": drawn(chart), "counts": counts}


def _row_name(row: dict[str, Any], threads: int) -> str:
    """`stream 3`, `host`, or of a thread its `calls` or `NVTX`."""
    if "row" in row:
        return str(row["row"]) + f", thread {row['thread']}" * (threads > 1)
    return f"stream {row['stream']}" if "stream" in row else "host"


def _tip(span: dict[str, Any]) -> str:
    others = f" and others, {span['many']:,} of these" if span["many"] > 1 else ""
    return f"{span['what']}{others}: {duration(span['to'] - span['from'])} from {duration(span['from'])}"
