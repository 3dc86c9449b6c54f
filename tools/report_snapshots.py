"""Regenerates the pages of the documents in tests/reports/snapshots (NAME.json), each as NAME.html beside it.

`--check` only prints the differences (exit code 1 if there are any). A snapshot is the page's markup, with placeholders for styles,
scripts and data, which are files of their own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from difflib import unified_diff
from pathlib import Path
from typing import Any

from warpsight.reports.html.page import page

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "reports" / "snapshots"
COMMAND = "python tools/report_snapshots.py"
_ELSEWHERE = (
    (re.compile(r"<style>.*?</style>", re.S), "<style>(assets/*.css)</style>"),
    (re.compile(r"<script>.*?</script>", re.S), "<script>(assets/*.js)</script>"),
    (re.compile(r"sha256-[\w+/=]+"), "sha256-(of the script)"),
    (re.compile(r'(<script type="application/json" id="document">).*?</script>', re.S), r"\1(the document)</script>"),
)


def documents() -> list[Path]:
    """The documents that are drawn."""
    return sorted(FOLDER.glob("*.json"))


def markup(document: dict[str, Any]) -> str:
    """The page of `document` without styles, scripts and data."""
    text = page(document)
    for pattern, placeholder in _ELSEWHERE:
        text = pattern.sub(placeholder, text)
    return text


def difference(path: Path) -> str:
    """The difference of the page of that document to its snapshot; empty if there is none."""
    stored = path.with_suffix(".html")
    before = stored.read_text("utf-8") if stored.exists() else ""
    after = markup(json.loads(path.read_text("utf-8")))
    lines = unified_diff(before.splitlines(), after.splitlines(), f"{stored.name}, stored", f"{stored.name}, now", lineterm="", n=1)
    return "\n".join(lines)


def main() -> int:
    """Write or check the snapshots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, print the differences")
    if parser.parse_args().check:
        differences = [text for path in documents() if (text := difference(path))]
        print("\n".join(differences) or "the snapshots are up to date")
        return 1 if differences else 0
    for path in documents():
        path.with_suffix(".html").write_text(markup(json.loads(path.read_text("utf-8"))), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
