"""Whether the cost of a sweep grows linearly with its designs: seconds of one kernel without geometry, as a table and a picture.

    python benchmarks/sweep_cost.py            # prints the table
    python benchmarks/sweep_cost.py --write    # also rewrites it in benchmarks/README.md, and benchmarks/sweep-cost.svg
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "validation"))

from marked_page import put  # noqa: E402  found by the line above
from sweep_figures import growth  # noqa: E402
from warpsight.reports.sweep_pictures import cost_picture  # noqa: E402

COMMAND = "python benchmarks/sweep_cost.py --write"


def table(seconds: dict[str, list[tuple[int, float]]]) -> str:
    """Seconds by model and number of designs, and what ten times the last but one would be."""
    counts = [count for count, _ in next(iter(seconds.values()))]
    lines = [f"| model | {' | '.join(f'{count:,}' for count in counts)} | growth from {counts[-2]:,} to {counts[-1]:,} |"]
    lines.append(f"|---|{'---:|' * (len(counts) + 1)}")
    for model, points in seconds.items():
        times = [each for _, each in points]
        cells = " | ".join(f"{each:.2f} s" for each in times)
        lines.append(f"| {model} | {cells} | {times[-1] / times[-2]:.1f} times |")
    return "\n".join(lines)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite table and picture")
    arguments = parser.parse_args()
    os.environ["WARPSIGHT_GPU"] = "mdm-pascal"  # of commands that name none, whatever the user has chosen
    seconds = growth()
    print(table(seconds))
    if arguments.write:
        put(HERE / "README.md", COMMAND, {"sweep cost": table(seconds)})
        title = "Seconds of a sweep of one kernel over the number of its designs"
        (HERE / "sweep-cost.svg").write_text(cost_picture(seconds, title), encoding="utf-8")


if __name__ == "__main__":
    main()
