"""Writes docs/reference/models.md from what the models say of themselves.

Usage: python tools/model_page.py [--check]

`--check` only tells whether the page would change (exit code 1).
"""

from __future__ import annotations

import sys
from pathlib import Path

from warpsight.pipeline.installation import own_models
from warpsight.reports.catalogue import models_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "models.md"
COMMAND = "python tools/model_page.py"


def main(words: list[str]) -> int:
    """Write or check the page."""
    text = models_page(own_models(), COMMAND)
    if "--check" in words:
        same = PAGE.exists() and PAGE.read_text("utf-8") == text
        print("the page is up to date" if same else f"{PAGE.name} is out of date: run {COMMAND}")
        return 0 if same else 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
