"""Generated tables in a page, between comments that name the command, and its picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pictures


def put(page: Path, command: str, tables: Mapping[str, str]) -> None:
    """Replace, in `page`, the text between `<!-- NAME: command -->` and `<!-- end NAME -->` for each name, and draw its picture.

    Raises ValueError, and leaves the page unchanged, unless each pair of marks occurs exactly once.
    """
    text = page.read_text()
    for name, table in tables.items():
        before, after = _marks(name, command)
        head, _, rest = _once(page, text, before).partition(before)
        _, _, tail = _once(page, rest, after).partition(after)
        text = f"{head}{before}\n{table}\n{after}{tail}"
    page.write_text(text)
    pictures.draw(page)


def get(page: Path, command: str, name: str) -> str:
    """What stands there now. Raises ValueError as `put`."""
    before, after = _marks(name, command)
    text = page.read_text()
    return _once(page, text, before).partition(before)[2].partition(after)[0].strip("\n")


def _marks(name: str, command: str) -> tuple[str, str]:
    return f"<!-- {name}: {command} -->", f"<!-- end {name} -->"


def _once(page: Path, text: str, mark: str) -> str:
    if text.count(mark) != 1:
        raise ValueError(f"{page} should have the line {mark} once, it has it {text.count(mark)} times")
    return text
