"""Block sizes of public kernels, ranked by prediction and by the times that others measured: is the best one chosen?

    python validation/configurations.py --sources FOLDER --tables FOLDER [--keep FILE] [--write]

`--sources` and `--tables` are those of `published_times.py`, which has the launches. A problem is one kernel at one size on one
GPU; its configurations are the block sizes that were measured. Where a problem is too large to execute here, the same blocks are
predicted on a smaller one (`SMALLER`), which the page says.

Blocks whose measured times are nearly equal have no order that a second measurement would repeat. A second tau therefore leaves out
pairs that differ by less than `DIFFERENT`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import published_times as published  # noqa: E402  found by the line above
from marked_page import put  # noqa: E402
from warpsight.base.errors import WarpsightError  # noqa: E402
from warpsight.gpu.loader import load_gpu  # noqa: E402
from warpsight.pipeline.evaluate import predict_trace  # noqa: E402
from warpsight.pipeline.request import DEFAULT_MODEL, Method  # noqa: E402

PAGE = HERE / "hardware" / "configurations.md"
COMMAND = "python validation/configurations.py --sources FOLDER --tables FOLDER --write"
LEVEL, FEWEST, MOST_SIZE = "sass", 3, 512
# Of a measured time. Blocks that `nvbench.csv` has twice differ by up to 0.9 %; `h100.csv` counts ticks of 32 ns, 1.7 % of 1.9 us.
DIFFERENT = 0.02
SMALLER = {"mat_mat_mul": (4096, 512), "convolution 1d": (1 << 26, 1 << 22), "convolution 2d": (8192, 1024),
           "histogram": (1 << 26, 1 << 21)}  # fmt: skip
_BLOCK = re.compile(r"(?:Num Threads|Block dim|Block axis dim|blockDimX) (\d+)(?:, )?")


@dataclass(frozen=True)
class Problem:
    """One kernel at one size on one GPU, and where it is predicted at a smaller one, both sizes; `rows` by block."""

    gpu: str
    kernel: str
    size: str
    smaller: tuple[int, int] | None
    rows: dict[int, list[published.Row]]

    @property
    def key(self) -> str:
        """What a kept prediction is found by, with the block."""
        return f"{self.gpu}, {self.kernel}, {self.size}"

    def measured(self, block: int) -> float:
        """Microseconds; the mean where it was measured in several tables."""
        return statistics.fmean(row.measured for row in self.rows[block])

    @property
    def repeated(self) -> list[float]:
        """By how much the times of a block differ that was measured more than once, relative to the shortest."""
        times = [[row.measured for row in rows] for rows in self.rows.values() if len(rows) > 1]
        return [max(some) / min(some) - 1 for some in times]

    def launched(self, block: int) -> published.Row:
        """What is predicted."""
        row = self.rows[block][0]
        if self.smaller is None:
            return row
        large, small = self.smaller
        pairs = (part.rpartition(" ") for part in row.size.split(", "))
        sizes = {name: small if int(value) == large else int(value) for name, _, value in pairs}
        is_convolution = row.family.startswith("convolution")
        some = (published._convolution(row.kernel, sizes),) if is_convolution else published._nvbench(row.family, row.kernel, sizes)
        return replace(row, launches=some)


def problems(tables: Path) -> Iterator[Problem]:
    """Problems with at least `FEWEST` measured blocks."""
    found: dict[tuple[str, str, str], dict[int, list[published.Row]]] = defaultdict(lambda: defaultdict(list))
    for row in published.rows(tables):
        block = _BLOCK.search(row.size)
        if block is not None:
            found[row.gpu, row.kernel, _BLOCK.sub("", row.size).strip(", ")][int(block[1])].append(row)
    for (gpu, kernel, size), rows in sorted(found.items()):
        family = next(iter(rows.values()))[0].family
        large = SMALLER.get(family, (0, 0))[0]
        is_large = f" {large}" in size
        too_long = family == "gemm" and int(size.rpartition(" ")[2]) > MOST_SIZE
        if len(rows) >= FEWEST and not too_long:
            yield Problem(gpu, kernel, size, SMALLER[family] if is_large else None, dict(sorted(rows.items())))


def predicted(row: published.Row, sources: Path) -> float | None:
    """Microseconds, None where the launch is refused."""
    name, overrides, _ = published.GPUS[row.gpu]
    gpu, method, seconds = load_gpu(name, overrides), Method(caches_before=row.caches_before), 0.0
    try:
        for launch in row.launches:
            trace = published.traced(sources / published.FOLDERS[row.table], launch, LEVEL, name)
            seconds += predict_trace(trace, gpu, [DEFAULT_MODEL], method)[0].seconds
    except WarpsightError as error:
        print(f"{row.gpu}, {row.kernel}, {row.size}: {error}", file=sys.stderr)
        return None
    return 1e6 * seconds


def clear_tau(measured: list[float], found: list[float]) -> float | None:
    """Kendall's tau as `published.tau`, of the pairs that differ by at least `DIFFERENT` of the shorter time; None without any."""
    pairs = itertools.combinations(zip(measured, found, strict=True), 2)
    chosen = [pair for pair in pairs if max(pair[0][0], pair[1][0]) >= (1 + DIFFERENT) * min(pair[0][0], pair[1][0])]
    return statistics.fmean(published.tau(*zip(*pair, strict=True)) for pair in chosen) if chosen else None


def pages(some: list[Problem], kept: dict[str, float | None]) -> dict[str, str]:
    """The table of problems, and its summary."""
    rows, taus, clear, losses, hits = [], [], [], [], 0
    for problem in some:
        times = {block: kept.get(f"{problem.key}, block {block}") for block in problem.rows}
        found = {block: time for block, time in times.items() if time is not None}
        if len(found) < FEWEST:
            continue
        measured = {block: problem.measured(block) for block in found}
        tau = published.tau(list(measured.values()), list(found.values()))
        chosen, best = min(found, key=found.__getitem__), min(measured, key=measured.__getitem__)
        loss = measured[chosen] / measured[best] - 1
        if (of_clear := clear_tau(list(measured.values()), list(found.values()))) is not None:
            clear.append(of_clear)
        note = f" (predicted at {problem.smaller[1]} for {problem.smaller[0]})" if problem.smaller else ""
        both = f"{tau:+.2f}", "" if of_clear is None else f"{of_clear:+.2f}"
        cells = (problem.gpu, problem.kernel, problem.size + note, len(found), *both, chosen, best, f"{100 * loss:.0f} %")
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
        f"were measured more than once; their times differ by {100 * max(repeated, default=0.0):.2f} % at most."
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
    lines = arguments.keep.read_text().splitlines() if arguments.keep.exists() else []
    kept: dict[str, float | None] = dict(map(json.loads, lines))
    some = list(problems(arguments.tables))
    for problem in some:
        for block in problem.rows:
            key = f"{problem.key}, block {block}"
            if key not in kept and not arguments.only_kept:
                kept[key] = predicted(problem.launched(block), arguments.sources)
                with arguments.keep.open("a") as file:
                    print(json.dumps([key, kept[key]]), file=file)
    print(*(tables := pages(some, kept)).values(), sep="\n\n")
    if arguments.write:
        put(PAGE, COMMAND, tables)


if __name__ == "__main__":
    main()
