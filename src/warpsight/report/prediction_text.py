"""Predictions as terminal text (DESIGN section 7). Pure functions of the result documents; nothing is computed but shares."""

from __future__ import annotations

from typing import Any

from warpsight.base.format import duration, thousands, three_digits
from warpsight.report.stack_text import stack_table
from warpsight.report.style import PLAIN, Style

_PLACES = {
    "mshr": "for an MSHR", "noc_queue": "in the NoC's queue", "l2": "to the L2", "dram_queue": "in DRAM's queue", "dram": "in DRAM",
}  # fmt: skip


def predictions_text(documents: list[dict[str, Any]], style: Style = PLAIN) -> str:
    """One block of text per prediction, the notes once at the end. Never wider than 120 columns, unless a file name is."""
    blocks = [prediction_text(document, style) for document in documents]
    return "\n\n".join(blocks) + notes_text(documents, style)


def prediction_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """What ran where, the headline figures, what bounds them, and the CPI stack."""
    stack = [*stack_table(document, style), *_miss_latency(document)]
    return "\n".join([heading(document), "", *headline(document, style), "", *stack])


def _miss_latency(document: dict[str, Any]) -> list[str]:
    """Where a mean L1 read miss spends its cycles, for models that say it."""
    parts = document["provenance"].get("model", {}).get("l1_miss_latency")
    if not parts:
        return []
    spent = ", ".join(f"{thousands(cycles)} {_PLACES.get(name, name)}" for name, cycles in parts.items() if cycles)
    return ["", f" an L1 miss takes {thousands(sum(parts.values()))} cycles: {spent}"]


def heading(document: dict[str, Any]) -> str:
    """Tool, kernel, launch, GPU and model in one line."""
    provenance = document["provenance"]
    launch = provenance.get("launch") or {}
    source = f"{launch['source']} : " if launch.get("source") else ""
    parts = [provenance.get("tool", "warpsight"), source + document["kernel"]]
    if launch:
        parts.append(f"grid {dimensions(launch['grid'])} block {dimensions(launch['block'])}")
    return "   ".join([*parts, document["gpu"], f"model {document['model']}"])


def headline(document: dict[str, Any], style: Style = PLAIN) -> list[str]:
    """Cycles, time, IPC and class; occupancy; what bounds the kernel."""
    cycles, seconds = thousands(document["cycles"]), duration(document["seconds"])
    found = "simulated" if "simulator" in document["provenance"].get("method", {}) else "predicted"
    lines = [f"  {found}    {cycles} cycles   {seconds}   IPC/SM {three_digits(document['ipc_sm_warp'])} (warp)"]
    if classification(document):
        lines.append(f"  class        {classification(document)}")
    if document["occupancy"]:
        limiter = f", limited by {document['occupancy_limiter']}" if document["occupancy_limiter"] else ""
        lines.append(f"  occupancy    {three_digits(document['occupancy'])}{limiter}")
    return [*lines, f"  bound by     {style.strong(document['bound_by'])}"]


def classification(document: dict[str, Any]) -> str:
    """`memory-divergent (64.2 divergent loads per 1000 instructions)`; empty where the divergence is not known."""
    if document["dpki"] is None:
        return ""
    return f"{document['class']} ({three_digits(document['dpki'])} divergent loads per 1000 instructions)"


def notes_text(documents: list[dict[str, Any]], style: Style = PLAIN) -> str:
    """The notes of all documents, each once, or nothing."""
    notes = dict.fromkeys(note for document in documents for note in document["provenance"].get("notes", ()))
    lines = "".join(f"\n{style.faint(f' note: {note}')}" for note in notes)
    return f"\n{lines}" if notes else ""


def dimensions(size: list[int] | tuple[int, ...]) -> str:
    """`(128,1,1)`."""
    return f"({','.join(str(n) for n in size)})"

