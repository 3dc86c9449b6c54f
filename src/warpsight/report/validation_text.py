"""Figures of the papers made again, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsight.report.validation_page import heading

_MOST_REASONS = 3


def list_text(figures: Sequence[dict[str, str]]) -> str:
    """A line for each figure."""
    width = max(len(row["figure"]) for row in figures)
    papers = dict.fromkeys(row["paper"] for row in figures)
    lines = []
    for paper in papers:
        lines.append(paper)
        lines += [f"  {row['figure']:<{width}}  {row['title']}" for row in figures if row["paper"] == paper]
    return "\n".join(lines)


def figures_text(documents: Sequence[dict[str, Any]], written: Sequence[Path]) -> str:
    """For each figure the papers' numbers beside ours, what holds and what does not, and where the page is."""
    blocks = []
    for place, document in enumerate(documents):
        lines = [heading(document), f"  {len(document['kernels'])} kernels of {document['suite']} on {document['gpu']['name']}"]
        given = [number for number in document["numbers"] if number["ours"] is not None or number["paper"] is not None]
        width = max((len(number["what"]) for number in given), default=0)
        for number in given:
            ours, paper = (_value(number[key], number["unit"]) for key in ("ours", "paper"))
            lines.append(f"  {number['what']:<{width}}  {ours:>12}   paper {paper:>12}".rstrip())
        words = {True: "holds", False: "does not hold", None: "unknown"}
        lines += [f"  {words[claim['holds']]}: {claim['says']} ({claim['ours']})" for claim in document["claims"]]
        failed = document["failed"]
        if failed:
            lines.append(f"  {len(failed)} points failed; the first:")
            for row in failed[:_MOST_REASONS]:
                lines.append(f"    {row['kernel']}, {row['design'] or 'baseline'}, {row['what']}: {row['reason']}")
        if written:
            lines.append(f"  {written[place]}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    return f"{value:,.1f} {unit}".rstrip()
