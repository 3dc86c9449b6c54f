"""Writes docs/reference/models.md from what the models say of themselves.

`--check` only says whether the page would change (exit code 1).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warpsight.pipeline.installation import own_models
from warpsight.reports.catalogue import models_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "models.md"
COMMAND = "python tools/model_page.py"


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, say whether the page would change")
    check = parser.parse_args().check
    text = models_page(own_models(), COMMAND)
    if check:
        same = PAGE.exists() and PAGE.read_text("utf-8") == text
        print("the page is up to date" if same else f"{PAGE.name} is out of date: run {COMMAND}")
        return 0 if same else 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
