"""Results in a notebook: an HTML fragment without scripts, with its own background, drawn as in reports."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from warpsight.analysis.report_data.study import study_report_data
from warpsight.reports.drawing.svg import svg
from warpsight.reports.formats import plain
from warpsight.reports.html.overview import stacks_of
from warpsight.reports.html.page import render
from warpsight.reports.html.study import summary
from warpsight.reports.prediction import dimensions
from warpsight.reports.sweep_pictures import answer_picture
from warpsight.result.prediction import Prediction
from warpsight.sweeps.result import Sweep
from warpsight.traces.schema import KernelTrace

_MOST_BEST = 5


def notebook_html(value: object) -> str:
    """`value`, a Prediction, KernelTrace or Sweep, as HTML. Raises TypeError for anything else."""
    if isinstance(value, Prediction):
        document = plain(value.to_json())
        return render("notebook_prediction.jinja", first=document, drawing=Markup(svg(stacks_of([document]))))
    if isinstance(value, KernelTrace):
        return _trace(value)
    if isinstance(value, Sweep):
        return _sweep(value)
    raise TypeError(f"{type(value).__name__} has no drawing")


def _trace(value: KernelTrace) -> str:
    header, memory = value.header, sum(bool(instruction.access) for instruction in value.instructions)
    rows: list[tuple[str, Any]] = [
        ("source", header.source),
        ("grid, block", f"{dimensions(header.grid)}, {dimensions(header.block)}"),
        *([("cluster", dimensions(header.cluster))] if header.cluster_blocks > 1 else []),
        ("warps", f"{header.blocks * header.warps_per_block:,} in {header.blocks:,} blocks"),
        ("warp instructions", f"{header.warp_instructions:,}"),
        ("active lanes, mean", f"{header.thread_instructions / max(1, header.warp_instructions):.1f} of 32"),
        ("registers per thread", f"{header.registers_per_thread} ({header.registers_from})"),
        ("shared memory", f"{header.static_shared_bytes:,} bytes static, {header.dynamic_shared_bytes:,} dynamic"),
        ("static instructions", f"{len(value.instructions):,}, {memory:,} of them access memory"),
        ("distinct paths of warps", f"{len(value.paths):,}"),
        ("target", header.target),
    ]
    if header.sampled_blocks:
        rows.insert(3, ("recorded", f"{header.sampled_blocks:,} of {header.blocks:,} blocks"))
    return render("notebook_trace.jinja", kernel=header.kernel, rows=rows, notes=value.notes)


def _sweep(value: Sweep) -> str:
    """The best designs, and the sensitivity if it is known."""
    document = plain(study_report_data(value))
    context = summary(document)
    answer = next((answer for answer in document["answers"] if answer["answer"] == "sensitivity"), None)
    picture = Markup(answer_picture(answer) or "") if answer else None
    return render("notebook_sweep.jinja", **{**context, "best": context["best"][:_MOST_BEST]}, drawing=picture)
