"""Writes the table of checks into docs/reference/report.md.

`--check` only says whether the page would change (exit code 1).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warpsight.analysis.assumption_checks import Check
from warpsight.analysis.assumptions import all_checks
from warpsight.base.units import percent, three_digits

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "report.md"
BEGIN, END = "<!-- checks: python tools/report_page.py -->\n", "<!-- end checks -->"
HEAD = "| check | assumption of the model | measured | bound |\n|---|---|---|---|\n"


def table() -> str:
    """The rows of all checks, each model's own before those of all."""
    checks = sorted(all_checks(), key=lambda check: check.always)
    return "".join(map(_row, checks))


def _row(check: Check) -> str:
    bound = percent(check.bound) if check.unit == "share" else three_digits(check.bound)
    every = " (all)" if check.always else ""
    return f"| `{check.key}`{every} | {check.assumption} | {check.measure} | {check.side} {bound}: {check.why} |\n"


def main(words: list[str] | None = None) -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, say whether the page would change")
    check = parser.parse_args(words).check
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    fresh = f"{before}{BEGIN}{HEAD}{table()}{END}{after}"
    if check:
        same = fresh == text
        print("the page is up to date" if same else f"{PAGE.name} is out of date: run python tools/report_page.py")
        return 0 if same else 1
    PAGE.write_text(fresh, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
