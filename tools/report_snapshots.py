"""Draws the documents of tests/report/snapshots (NAME.json) again, each into NAME.html beside it.

Usage: python tools/report_snapshots.py [--check]

`--check` only tells which would change (exit code 1), and shows the difference. A snapshot is the page's markup: in place of
styles, scripts and data, which are files of their own, it says what is there.
"""

from __future__ import annotations

import json
import re
import sys
from difflib import unified_diff
from pathlib import Path
from typing import Any

from warpsight.reports.html.page import page

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "report" / "snapshots"
COMMAND = "python tools/report_snapshots.py"
_ELSEWHERE = (
    (re.compile(r"<style>.*?</style>", re.S), "<style>(assets/*.css)</style>"),
    (re.compile(r"<script>.*?</script>", re.S), "<script>(assets/*.js)</script>"),
    (re.compile(r"'sha256-[^']*'"), "'sha256-(of the script)'"),
    (re.compile(r'(<script type="application/json" id="document">).*?</script>', re.S), r"\1(the document)</script>"),
)


def documents() -> list[Path]:
    """The documents that are drawn."""
    return sorted(FOLDER.glob("*.json"))


def markup(document: dict[str, Any]) -> str:
    """The page of `document` without styles, scripts and data."""
    text = page(document)
    for pattern, words in _ELSEWHERE:
        text = pattern.sub(words, text)
    return text


def difference(path: Path) -> str:
    """How the page of that document differs from its snapshot; empty where it does not."""
    kept = path.with_suffix(".html")
    before = kept.read_text("utf-8") if kept.exists() else ""
    after = markup(json.loads(path.read_text("utf-8")))
    lines = unified_diff(before.splitlines(), after.splitlines(), f"{kept.name}, stored", f"{kept.name}, now", lineterm="", n=1)
    return "\n".join(lines)


def main(words: list[str]) -> int:
    """Write or check the snapshots."""
    if "--check" in words:
        found = [text for path in documents() if (text := difference(path))]
        print("\n".join(found) or "the snapshots are up to date")
        return 1 if found else 0
    for path in documents():
        path.with_suffix(".html").write_text(markup(json.loads(path.read_text("utf-8"))), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
