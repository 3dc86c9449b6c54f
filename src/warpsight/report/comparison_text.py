"""A comparison of models as terminal text, and as CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from pathlib import PurePath
from typing import Any

from warpsight.base.format import thousands
from warpsight.report.columns import Column, aligned
from warpsight.report.prediction_text import dimensions
from warpsight.report.stack_text import decimals
from warpsight.report.style import PLAIN, WIDTH, Style
from warpsight.result.prediction import COMPONENTS

_REFERENCE = "reference"


def comparison_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """One table a launch, models below each other; with a reference errors, a summary and the gates."""
    against = f"   against {PurePath(document['against']).name}" if document["against"] else ""
    parts = [f"{document['tool']}   {document['gpu']}   models {', '.join(document['models'])}{against}"]
    parts = textwrap.wrap(parts[0], WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    for launch in document["launches"]:
        parts += ["", *_launch(launch, style)]
    if document["summary"]:
        parts += ["", *_summary(document["summary"], style)]
    if document["gates"]:
        parts += ["", *(_gate(gate, style) for gate in document["gates"])]
    return "\n".join(parts)


def comparison_csv(document: dict[str, Any]) -> str:
    """One row a launch and model; empty where there is nothing to say."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    stack = [f"cpi_stack.{name}" for name in COMPONENTS]
    head = ["gpu", "kernel", "label", "model", "cycles", "reference_cycles", "relative_error", "cpi", *stack, "bound_by"]
    writer.writerow([*head, "most_off", "most_off_difference", "refused"])
    for launch in document["launches"]:
        reference = launch["reference"] or {}
        for answer in launch["answers"]:
            told, off = answer["prediction"] or {}, answer["most_off"] or {}
            row = [document["gpu"], launch["kernel"], launch["label"], answer["model"], told.get("cycles")]
            row += [reference.get("cycles"), answer["error"], told.get("cpi")]
            row += [told.get("cpi_stack", {}).get(name) for name in COMPONENTS]
            row += [told.get("bound_by"), off.get("component"), off.get("difference"), answer["refused"]]
            writer.writerow(["" if value is None else value for value in row])
    return out.getvalue()


def _launch(launch: dict[str, Any], style: Style) -> list[str]:
    title = launch["label"] if launch["label"] == launch["kernel"] else f"{launch['label']} ({launch['kernel']})"
    count = thousands(launch["warp_instructions"])
    head = f" {title}   grid {dimensions(launch['grid'])} block {dimensions(launch['block'])}   {count} warp instructions"
    rows = [answer for answer in launch["answers"] if answer["prediction"]]
    lines = [style.strong(head), *(_table(launch, rows, style) if rows else [])]
    for answer in launch["answers"]:
        if answer["refused"]:
            told = f" {answer['model']}: {answer['refused']}"
            lines += textwrap.wrap(told, WIDTH, drop_whitespace=True, subsequent_indent="   ")
    return lines


def _table(launch: dict[str, Any], rows: list[dict[str, Any]], style: Style) -> list[str]:
    reference = launch["reference"]
    stacks = [answer["prediction"]["cpi_stack"] for answer in rows]
    told = [answer["prediction"] for answer in rows]
    extra = int(reference is not None)
    if reference is not None:
        stacks = [reference["cpi_stack"], *stacks]
    names = [name for name in COMPONENTS if any(stack.get(name) for stack in stacks)]
    digits = decimals(max(answer["cpi"] for answer in told))
    columns = [
        Column("model", [*[_REFERENCE] * extra, *(answer["model"] for answer in rows)], left=True),
        Column("cycles", [*[thousands(reference["cycles"])] * extra, *(thousands(answer["cycles"]) for answer in told)] if extra
               else [thousands(answer["cycles"]) for answer in told]),
    ]  # fmt: skip
    if extra:
        columns.append(Column("error", ["", *(signed_percent(answer["error"]) for answer in rows)]))
    columns.append(Column("CPI", [*[""] * extra, *(f"{answer['cpi']:,.{digits}f}" for answer in told)]))
    columns += [Column(name, [_part(stack, name, digits) for stack in stacks]) for name in names]
    if extra and reference["cpi_stack"]:
        columns.append(Column("most off", ["", *(_off(answer["most_off"], digits) for answer in rows)], left=True))
    columns.append(Column("bound by", [*[""] * extra, *(answer["bound_by"] for answer in told)], left=True))
    table = aligned(columns)
    return [style.strong(table[0]), *table[1:]]


def _part(stack: dict[str, float], name: str, digits: int) -> str:
    return f"{stack[name]:,.{digits}f}" if name in stack else ""


def _off(off: dict[str, Any], digits: int) -> str:
    return f"{off['component']} {off['difference']:+,.{digits}f}"


def _summary(rows: list[dict[str, Any]], style: Style) -> list[str]:
    table = aligned([
        Column("model", [row["model"] for row in rows], left=True),
        Column("launches", [str(row["launches"]) for row in rows]),
        Column("MAPE", ["-" if row["mape"] is None else f"{row['mape']:.1f} %" for row in rows]),
        Column("mean error", ["-" if row["mean_error"] is None else signed_percent(row["mean_error"]) for row in rows]),
        Column("largest", [_largest(row["largest"]) for row in rows], left=True),
    ])  # fmt: skip
    return [style.strong(table[0]), *table[1:]]


def _largest(largest: dict[str, Any] | None) -> str:
    return f"{signed_percent(largest['error'])}, {largest['label']}" if largest else "-"


def _gate(gate: dict[str, Any], style: Style) -> str:
    told = "has no error to judge" if gate["mape"] is None else f"MAPE {gate['mape']:.1f} %"
    verdict = "passed" if gate["passed"] else style.strong("FAILED")
    return f" gate {gate['model']}:{gate['limit']:g}   {verdict}   {told}, at most {gate['limit']:g} % allowed"


def signed_percent(fraction: float) -> str:
    """`+12.3 %`."""
    return f"{100 * fraction:+,.1f} %"
