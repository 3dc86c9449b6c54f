"""GPU descriptions as terminal text."""

from __future__ import annotations

import textwrap
from typing import Any

from warpsight.report.style import WIDTH


def gpu_list_text(documents: list[dict[str, Any]]) -> str:
    """One GPU a line: name and description."""
    width = max(map(len, (document["name"] for document in documents)), default=0) + 3
    return "\n".join(
        textwrap.fill(document["description"], WIDTH, initial_indent=f" {document['name']:<{width}}",
                      subsequent_indent=" " * (width + 1))
        for document in documents
    )


def problems_text(place: str, problems: list[str]) -> str:
    """Everything that is wrong with a description, each with its remedy."""
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    return "\n".join([*(f"error: {problem}" for problem in problems), f"{place}: {count}"])


def made_text(document: dict[str, Any]) -> str:
    """A description that was made: every key with value and source, then what it does not say."""
    rows = document["values"].items()
    key_width = max((len(key) for key, _ in rows), default=0) + 2
    value_width = max((len(row["value"]) for _, row in rows), default=0) + 2
    lines = [f" {document['output']}: {document['name']}, {document['description']}", ""]
    for key, row in rows:
        head = f" {key:<{key_width}}{row['value']:<{value_width}}"
        lines.append(textwrap.fill(row["source"] or "-", WIDTH, initial_indent=head, subsequent_indent=" " * len(head)))
    lines += ["", f" not in the description, or not as it stands there ({len(document['notes'])}):"]
    lines += [textwrap.fill(note, WIDTH, initial_indent=" - ", subsequent_indent="   ") for note in document["notes"]]
    return "\n".join(lines)
