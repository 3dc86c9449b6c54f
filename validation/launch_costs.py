"""Compares the time of an empty kernel, by threads and blocks, with published times of an H100 PCIe.

    python validation/launch_costs.py --tables FOLDER [--write]     # prints the tables, writes the page

FOLDER holds `h100-empty.csv` (threads, blocks, microseconds). The empty kernel is ours; it is traced as machine code. Rows on even
lines of the table are the development rows, from which the keys `dispatch.*` of `h100-pcie` were derived, those on odd lines are
held out.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import warpsight  # noqa: E402
from marked_page import put  # noqa: E402  found by the line above
from warpsight.result.prediction import mean_absolute_percentage_error, relative_error  # noqa: E402

PAGE = HERE / "hardware" / "launch-costs.md"
COMMAND = "python validation/launch_costs.py --tables FOLDER --write"
GPU, SIMULATOR = "h100-pcie", "simulator"
MODELS = ("warpsight", "warpsight~launch", "bottleneck")
EMPTY = 'extern "C" __global__ void empty() {}'
PARTS = ("development", "held out")
SHOWN = (32, 512, 576, 704, 1024)  # threads of the rows that the page shows one by one: where an SM has room for fewer blocks

Row = tuple[int, int, int, float]  # line, threads, blocks, microseconds


def rows(tables: Path) -> list[Row]:
    """The rows of the table; the first line is 1."""
    with (tables / "h100-empty.csv").open() as file:
        return [(line, int(r["threads"]), int(r["blocks"]), float(r["microseconds"]))
                for line, r in enumerate(csv.DictReader(file), 2)]  # fmt: skip


def predicted(threads: int, blocks: int) -> dict[str, float]:
    """Microseconds by model, and by the simulator."""
    trace = warpsight.trace(EMPTY, "empty", grid=(blocks,), block=(threads,), args=[], gpu=GPU, level="sass")
    found = {model: 1e6 * warpsight.predict(trace, gpu=GPU, model=model).seconds for model in MODELS}
    return found | {SIMULATOR: 1e6 * warpsight.simulate(trace, gpu=GPU).seconds}


def _group(blocks: int) -> str:
    """Blocks of a row, in classes."""
    return "1 to 114 (an SM each)" if blocks <= 114 else "115 to 1,024" if blocks <= 1024 else "more"


def pages(found: dict[Row, dict[str, float]]) -> dict[str, str]:
    """The tables of the page by name."""
    columns = (*MODELS, SIMULATOR)
    head, rule = " | ".join(f"`{name}`" for name in columns), "---:|" * len(columns)
    errors = [f"| rows | blocks | number | {head} | worst of `warpsight` |", f"|---|---|---:|{rule}---:|"]
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        for name in (_group(row[2]), "all"):
            groups[PARTS[row[0] % 2], name].append(row)
    for part in PARTS:
        for name in dict.fromkeys(name for _, name in groups):
            some = groups[part, name]
            signed = {c: [relative_error(found[r][c], r[3]) for r in some] for c in columns}
            cells = " | ".join(f"{mean_absolute_percentage_error(signed[c]):.1f} %" for c in columns)
            worst = max(signed[MODELS[0]], key=abs)
            errors.append(f"| {part} | {name} | {len(some)} | {cells} | {100 * worst:+.0f} % |")
    single = ["| threads | blocks | measured | `warpsight` | error | simulator | error |", "|---:|---:|" + "---:|" * 5]
    for row in sorted(found, key=lambda r: r[1:3]):
        _, threads, blocks, measured = row
        if threads in SHOWN and PARTS[row[0] % 2] == PARTS[0]:
            pair = (found[row][MODELS[0]], found[row][SIMULATOR])
            cells = " | ".join(f"{us:,.2f} us | {100 * relative_error(us, measured):+.0f} %" for us in pair)
            single.append(f"| {threads} | {blocks:,} | {measured:,.2f} us | {cells} |")
    return {"errors": "\n".join(errors), "rows": "\n".join(single)}


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", type=Path, required=True, help="folder with h100-empty.csv")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    options = parser.parse_args()
    tables = pages({row: predicted(row[1], row[2]) for row in rows(options.tables)})
    print(*tables.values(), sep="\n\n")
    if options.write:
        put(PAGE, COMMAND, tables)


if __name__ == "__main__":
    main()
