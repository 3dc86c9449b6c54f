"""The demonstration: two predictions of one loop beside each other, with a line of explanation for each."""

from __future__ import annotations

from typing import Any

from warpsight.base.format import duration, percent, thousands, three_digits
from warpsight.report.components import dominant, queueing, shares
from warpsight.report.prediction_text import classification, notes_text
from warpsight.report.stack_text import meaning, stacks_beside
from warpsight.report.style import PLAIN, Style

_LABEL, _COLUMN = 15, 34


def demo_text(documents: list[dict[str, Any]], strides: list[int], style: Style = PLAIN) -> str:
    """Headline figures and CPI stacks of the same kernel at each stride, and what the difference comes from."""
    first = documents[0]
    titles = [f"stride {stride}" for stride in strides]
    about = "the loop of Listing 1 in the MDM paper (MICRO 2020)"
    head = f"{first['provenance']['tool']}   {about}   {first['gpu']}   model {first['model']}"
    lines = [head, "", style.strong(_row("", titles)), *_figures(documents), ""]
    lines += [*stacks_beside(documents, titles, style), ""]
    told = zip(titles, documents, strides, strict=True)
    lines += [f" {title:<10} {explanation(document, stride)}" for title, document, stride in told]
    return "\n".join(lines) + notes_text(documents, style)


def _figures(documents: list[dict[str, Any]]) -> list[str]:
    rows = {
        "predicted": [f"{thousands(d['cycles'])} cycles" for d in documents],
        "time": [duration(d["seconds"]) for d in documents],
        "instructions": [f"{thousands(d['warp_instructions'])} (warp)" for d in documents],
        "IPC/SM": [f"{three_digits(d['ipc_sm_warp'])} (warp)" for d in documents],
        "class": [classification(d).split(" (")[0] for d in documents],
        "bound by": [d["bound_by"] for d in documents],
    }
    return [_row(label, cells) for label, cells in rows.items()]


def _row(label: str, cells: list[str]) -> str:
    return f"  {label:<{_LABEL}}{''.join(f'{cell:<{_COLUMN}}' for cell in cells)}".rstrip()


def explanation(document: dict[str, Any], stride: int) -> str:
    """One line: how the loads fall on cache lines (a fact of the kernel), then where the cycles go (from the prediction)."""
    lines = min(32, max(1, stride * 32 * 4 // 128))
    access = "neighbours share a line" if lines == 1 else f"a line per thread, {lines} requests a load"
    if queueing(document) > 0.5:
        return f"{access}: {percent(queueing(document))} of the cycles go to MSHRs and to NoC and DRAM queues"
    largest = dominant(document)
    return f"{access}: the largest part, {percent(shares(document)[largest])} of the cycles, is {largest}, {meaning(largest)}"
