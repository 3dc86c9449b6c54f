"""Advice as terminal text: changes by what they gain, each with its reason and its cost."""

from __future__ import annotations

import textwrap
from typing import Any

from warpsight.base.format import percent, thousands
from warpsight.report.columns import shortened
from warpsight.report.prediction_text import heading, notes_text
from warpsight.report.style import PLAIN, WIDTH, Style

_PLACE = 24


def advice_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Heading, the changes, and what was evaluated besides. At most 120 columns."""
    prediction, shown = document["prediction"], document["advice"]
    lines = [heading(prediction), "", f"  predicted    {thousands(document['cycles'])} cycles, bound by {document['bound_by']}", ""]
    if shown:
        width = max(len("saved"), *(len(thousands(change["gain_cycles"])) for change in shown))
        lines.append(style.strong(f"   gain  {'saved':>{width}}  change"))
        for change in shown:
            lines += _change(change, width, style)
    else:
        lines.append(" no change that was evaluated saves 0.1 % of the cycles")
    lines += ["", *_besides(document, style)]
    return "\n".join(lines) + notes_text([prediction], style)


def _change(change: dict[str, Any], width: int, style: Style) -> list[str]:
    indent = " " * (11 + width)
    place = shortened(change["place"], _PLACE)
    head = f" {percent(change['gain']):>6}  {thousands(change['gain_cycles']):>{width}}  "
    title = textwrap.wrap(change["title"], WIDTH - len(head), break_on_hyphens=False)
    setting = f" (--set '{change['setting']}')" if change["setting"] else ""
    told = f"{change['owner']}, {place}: {change['reason']}. Costs: {change['cost']}{setting}."
    detail = textwrap.wrap(told, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return [head + style.strong(title[0]), *(indent + part for part in title[1:]), *map(style.faint, detail)]


def _besides(document: dict[str, Any], style: Style) -> list[str]:
    more = document["with_gain"] - len(document["advice"])
    lines = [" gains are of each change alone, evaluated again, and do not add up; saved: cycles of the launch"]
    if more:
        lines.append(f" {more} more with a smaller gain; a larger --top or --json shows them")
    if document["without_gain"]:
        lines.append(f" {document['without_gain']} evaluated without gain (less than 0.1 %)")
    if document["not_tried"]:
        lines.append(f" {document['not_tried']} not evaluated: lines with less traffic than those above")
    for refused in document["refused"]:
        told = f" not possible: {refused['title']}: {refused['why']}"
        lines += textwrap.wrap(told, WIDTH, subsequent_indent="   ", break_on_hyphens=False)
    return [style.faint(line) for line in lines]
