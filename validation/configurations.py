"""Block sizes of public kernels, ranked by prediction and by the times that others measured: is the best one chosen?

    python validation/configurations.py --sources FOLDER --tables FOLDER [--keep FILE] [--write]

`--sources`, `--tables` and `--keep` are those of `published_times.py`, which has the launches, and whose predictions these are:
with its file of kept predictions nothing is predicted twice. A problem is one kernel at one size on one GPU; its configurations are
the block sizes that were measured.

Blocks whose measured times are nearly equal have no order that a second measurement would repeat. A second tau therefore leaves out
pairs that differ by less than `DIFFERENT`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import published_times as published  # noqa: E402  found by the line above
from marked_page import put  # noqa: E402
from published_launches import FOLDERS, Row  # noqa: E402
from published_launches import rows as every_row  # noqa: E402
from warpsight.pipeline.request import DEFAULT_MODEL  # noqa: E402

PAGE = HERE / "hardware" / "configurations.md"
COMMAND = "python validation/configurations.py --sources FOLDER --tables FOLDER --write"
LEVEL, FEWEST = "sass", 3
# Of a measured time. Blocks that `nvbench.csv` has twice differ by up to 0.9 %; `h100.csv` counts ticks of 32 ns, 1.7 % of 1.9 us.
DIFFERENT = 0.02
_BLOCK = re.compile(r"(?:Num Threads|Block dim|Block axis dim|blockDimX) (\d+)(?:, )?")


@dataclass(frozen=True)
class Problem:
    """One kernel at one size on one GPU; `rows` by block, several where several tables have it."""

    gpu: str
    kernel: str
    size: str
    rows: dict[int, list[Row]]

    def measured(self, block: int) -> float:
        """Microseconds; the mean where it was measured in several tables."""
        return statistics.fmean(row.measured for row in self.rows[block])

    def predicted(self, kept: published.Kept) -> dict[int, float]:
        """Microseconds by block, of those that are predicted."""
        times = {block: kept.of(rows[0], LEVEL)["us"].get(DEFAULT_MODEL) for block, rows in self.rows.items()}
        return {block: time for block, time in times.items() if time is not None}

    @property
    def repeated(self) -> list[float]:
        """By how much the times of a block differ that was measured more than once, relative to the shortest."""
        times = [[row.measured for row in rows] for rows in self.rows.values() if len(rows) > 1]
        return [max(some) / min(some) - 1 for some in times]


def problems(tables: Path) -> Iterator[Problem]:
    """Problems with at least `FEWEST` measured blocks."""
    found: dict[tuple[str, str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in every_row(tables):
        block = _BLOCK.search(row.size)
        if block is not None:
            found[row.gpu, row.kernel, _BLOCK.sub("", row.size).strip(", ")][int(block[1])].append(row)
    for (gpu, kernel, size), rows in sorted(found.items()):
        if len(rows) >= FEWEST:
            yield Problem(gpu, kernel, size, dict(sorted(rows.items())))


def clear_tau(measured: list[float], found: list[float]) -> float | None:
    """Kendall's tau as `published.tau`, of the pairs that differ by at least `DIFFERENT` of the shorter time; None without any."""
    pairs = itertools.combinations(zip(measured, found, strict=True), 2)
    chosen = [pair for pair in pairs if max(pair[0][0], pair[1][0]) >= (1 + DIFFERENT) * min(pair[0][0], pair[1][0])]
    return statistics.fmean(published.tau(*map(list, zip(*pair, strict=True))) for pair in chosen) if chosen else None


def pages(some: list[Problem], kept: published.Kept) -> dict[str, str]:
    """The table of problems, and its summary."""
    rows, taus, clear, losses, hits, left_out = [], [], [], [], 0, []
    for problem in some:
        found = problem.predicted(kept)
        refused = sum(bool(kept.of(rows[0], LEVEL)["refused"]) for rows in problem.rows.values())
        if len(found) + refused < len(problem.rows) or len(found) < FEWEST:
            done = f"{len(found)} of {len(problem.rows)} blocks predicted, {refused} refused"
            left_out.append(f"{problem.gpu}, {problem.kernel}, {problem.size} ({done})")
            continue
        measured = {block: problem.measured(block) for block in found}
        tau = published.tau(list(measured.values()), list(found.values()))
        chosen, best = min(found, key=found.__getitem__), min(measured, key=measured.__getitem__)
        loss = measured[chosen] / measured[best] - 1
        if (of_clear := clear_tau(list(measured.values()), list(found.values()))) is not None:
            clear.append(of_clear)
        both = f"{tau:+.2f}", "" if of_clear is None else f"{of_clear:+.2f}"
        cells = (problem.gpu, problem.kernel, problem.size, len(found), *both, chosen, best, f"{100 * loss:.0f} %")
        rows.append(f"| {' | '.join(map(str, cells))} |")
        taus.append(tau)
        losses.append(loss)
        hits += chosen == best
    titles = ("GPU", "kernel", "size", "blocks", "tau", "tau, clear", "predicted best", "measured best", "longer")
    head = f"| {' | '.join(titles)} |\n" + "|---" * 3 + "|---:" * 6 + "|"
    repeated = [each for problem in some for each in problem.repeated]
    summary = (
        f"{len(taus)} problems: Kendall's tau is {statistics.fmean(taus):+.2f} on average, {statistics.median(taus):+.2f} in the\n"
        f"median; the predicted best block is the measured best in {hits}, and takes {100 * statistics.fmean(losses):.1f} %\n"
        f"longer than that on average, {100 * max(losses):.0f} % at most. Of pairs of blocks that differ clearly, tau is\n"
        f"{statistics.fmean(clear or [0.0]):+.2f} on average, in {len(clear)} problems. {len(repeated)} blocks\n"
        f"were measured more than once; their times differ by {100 * max(repeated, default=0.0):.2f} % at most.\n"
        f"Left out, since not all blocks have run: {'; '.join(left_out) or 'none'}."
    ) if taus else "Nothing is predicted yet."  # fmt: skip
    return {"summary": summary, "problems": "\n".join([head, *rows])}


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sources", type=Path, required=True, help="folder with the checkouts")
    parser.add_argument("--tables", type=Path, required=True, help="folder with nvbench.csv, events.csv and h100.csv")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="file of predictions, which are not repeated")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    parser.add_argument("--only-kept", action="store_true", help="predict nothing")
    arguments = parser.parse_args()
    kept, some = published.Kept(arguments.keep), list(problems(arguments.tables))
    needed = [rows[0] for problem in some for rows in problem.rows.values()]
    for row in [] if arguments.only_kept else needed:
        if not kept.of(row, LEVEL)["us"]:
            kept.add(row, LEVEL, published.predicted(arguments.sources / FOLDERS[row.table], row, LEVEL))
    print(*(tables := pages(some, kept)).values(), sep="\n\n")
    if arguments.write:
        put(PAGE, COMMAND, tables)


if __name__ == "__main__":
    main()
