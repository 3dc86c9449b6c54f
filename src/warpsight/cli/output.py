"""Where answers go and how: results to stdout, as text with the next useful command, or as JSON."""

from __future__ import annotations

import os
import sys
from typing import Any

from warpsight.report.style import Style


def terminal_style() -> Style:
    """Colour only on a terminal that has it and where NO_COLOR is not set (no-color.org: set and not empty)."""
    return Style(sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


def print_json(documents: list[Any]) -> None:
    """One document as an object, several as a list."""
    from warpsight.report.json_text import documents_json

    print(documents_json(documents))


def print_answer(text: str, next_line: str) -> None:
    """The answer, then the line with the next useful command."""
    print(f"{text}\n\n{next_line}")

