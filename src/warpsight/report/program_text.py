"""What a program's run was, as terminal text: one line per launch, or per kernel where there are many."""

from __future__ import annotations

from typing import Any

from warpsight.base.format import duration, percent, thousands
from warpsight.report.prediction_text import dimensions
from warpsight.report.style import PLAIN, Style

_MOST_LAUNCHES = 40
_NAME = 32


def program_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Heading, the launches or their sums, totals."""
    totals = document["totals"]
    head = f"{document['tool']}   {' '.join(document['command'])}   {document['gpu']}   model {document['model']}"
    if not document["used_cuda"]:
        return f"{head}\n\n  the program never called CUDA{_ended(document)}\n{_hint()}"
    if not document["launches"]:
        return f"{head}\n\n  no kernel was launched{_ended(document)}"
    many = totals["launches"] > _MOST_LAUNCHES
    table = _kernels(document, style) if many else _launches(document, style)
    notes = []
    if totals["scaled"]:
        notes.append(f" note: ~ marks times scaled by instructions from the kernel's predictions ({totals['scaled']} launches)")
    if totals["failed"]:
        notes.append(f" note: {totals['failed']} launches failed; the errors are above")
    summary = (
        f"  {'total':<8} {totals['launches']} launches, {thousands(totals['warp_instructions'])} warp instructions, "
        f"{thousands(totals['cycles'])} cycles, {duration(totals['seconds'])}{_ended(document)}"
    )
    return "\n".join([head, "", *table, "", summary, *notes])


def _ended(document: dict[str, Any]) -> str:
    if document["ended_by"]:
        return f"; the program was {document['ended_by']}"
    return f"; exit code {document['exit_code']}" if document["exit_code"] else ""


def _hint() -> str:
    return "  (a program must be linked with the shared runtime: nvcc -cudart shared -gencode arch=compute_75,code=compute_75)"


def _name(text: str) -> str:
    return text if len(text) <= _NAME else text[: _NAME - 2] + ".."


def _launches(document: dict[str, Any], style: Style) -> list[str]:
    lines = [
        f"{'#':>5}  {'kernel':<{_NAME}} {'grid':>14} {'block':>12} {'warp instr.':>13} {'cycles':>12} {'time':>10}  bound by",
    ]
    for row in document["launches"]:
        if "error" in row:
            lines.append(f"{row['number']:>5}  {_name(row['kernel']):<{_NAME}} {style.strong('failed')}")
            continue
        mark = "~" if row["time"] == "scaled" else ""
        cycles = mark + thousands(row["cycles"]) if row["cycles"] is not None else "-"
        time = mark + duration(row["seconds"]) if row["seconds"] is not None else "-"
        lines.append(
            f"{row['number']:>5}  {_name(row['kernel']):<{_NAME}} {dimensions(row['grid']):>14} {dimensions(row['block']):>12} "
            f"{thousands(row['warp_instructions']):>13} {cycles:>12} {time:>10}  {row['bound_by']}"
        )
    return lines


def _kernels(document: dict[str, Any], style: Style) -> list[str]:
    lines = [f"  {'kernel':<{_NAME}} {'launches':>9} {'warp instr.':>15} {'cycles':>14} {'time':>11} {'share':>7}  bound by"]
    total = document["totals"]["seconds"]
    for row in document["kernels"]:
        mark = "~" if row["scaled"] else ""
        share = percent(row["seconds"] / total) if total else "-"
        lines.append(
            f"  {_name(row['kernel']):<{_NAME}} {row['launches']:>9,} {thousands(row['warp_instructions']):>15} "
            f"{mark + thousands(row['cycles']):>14} {mark + duration(row['seconds']):>11} {share:>7}  "
            f"{style.strong(row['bound_by'])}"
        )
    return lines
