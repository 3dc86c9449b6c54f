"""A GPU fitted to micro-benchmarks as terminal text: what was fitted and how well, what the timings do not tell, and why."""

from __future__ import annotations

import textwrap
from typing import Any

from warpsight.report.columns import Column, aligned
from warpsight.report.style import WIDTH


def microbenchmarks_text(document: dict[str, Any]) -> str:
    """A table of the keys, beside the GPU's that was taken for what is not measured; then the refused ones."""
    device = f"   {document['device']}" if document["device"] else ""
    head = f"{document['tool']}   {document['timings']}   {document['rows']} timings   like {document['gpu']}{device}"
    lines = textwrap.wrap(head, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    fitted = document["fitted"]
    if fitted:
        table = [
            Column("key", [row["key"] for row in fitted], left=True),
            Column("fitted", [row["text"] for row in fitted]),
            Column(document["gpu"], [row["described"] for row in fitted]),
            Column("timings", [str(row["timings"]) for row in fitted]),
            Column("goodness", [row["quality"] for row in fitted], left=True),
        ]
        lines += ["", *aligned(table)]
    for row in document["refused"]:
        told = f" {row['key']} is not told: {row['reason']}"
        lines += ["", *textwrap.wrap(told, WIDTH, subsequent_indent="   ", break_on_hyphens=False)]
    return "\n".join(lines)
