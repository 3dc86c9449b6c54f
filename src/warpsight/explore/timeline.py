"""What the warps of one SM did, as a file for Perfetto (Chrome's trace event format; one cycle is shown as a microsecond)."""

from __future__ import annotations

import json
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.timing.result import Timeline
from warpsight.trace.schema import KernelTrace

_WAITS = ("start", "arithmetic", "memory", "barrier", "fetch")


def timeline_events(trace: KernelTrace, timeline: Timeline) -> list[dict[str, Any]]:
    """The events: for every warp slot a row, on it the warps, what they waited for, and the instructions that they issued."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": timeline.sm, "name": "process_name", "args": {"name": f"SM {timeline.sm}: {trace.header.kernel}"}}
    ]
    last: dict[int, tuple[int, int]] = {}
    columns = (timeline.issued, timeline.slot, timeline.warp, timeline.pc, timeline.ready, timeline.cause)
    for issued, slot, warp, pc, ready, cause in zip(*(column.tolist() for column in columns), strict=True):
        if slot not in last:
            name = {"name": f"warp slot {slot}"}
            events.append({"ph": "M", "pid": timeline.sm, "tid": slot, "name": "thread_name", "args": name})
        before, resident = last.get(slot, (issued - 1, -1))
        place = {"pid": timeline.sm, "tid": slot}
        if resident == warp:
            waited = max(before + 1, min(ready, issued))
            if waited > before + 1:
                events.append({"ph": "X", **place, "name": f"waits: {_WAITS[cause]}", "ts": before + 1, "dur": waited - before - 1})
            if issued > waited:
                events.append({"ph": "X", **place, "name": "eligible", "ts": waited, "dur": issued - waited})
        instruction = trace.instructions[pc]
        where = {"warp": warp, "pc": pc, "line": f"{instruction.file}:{instruction.line}"}
        events.append({"ph": "X", **place, "name": instruction.opcode, "ts": issued, "dur": 1, "args": where})
        last[slot] = (issued, warp)
    return events


def write_timeline(path: str, trace: KernelTrace, timeline: Timeline) -> None:
    """Write the file. Raises UsageError if that cannot be."""
    notes = {"truncated": timeline.truncated, "unit": "1 us is 1 core cycle"}
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": timeline_events(trace, timeline), "otherData": notes}, file)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", place=path, remedy="name another file") from error
