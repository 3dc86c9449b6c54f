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
