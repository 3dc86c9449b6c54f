"""Programs with many launches: the total of `warpsight run` with sampled launches against all of them (`--exact`).

    python validation/launch_samples.py --write hecbench=/build/hecbench polybench=/build/polybench

writes the page validation/launch_samples.md. It downloads and builds nothing: each argument names a suite and a folder of programs,
built as for validation/programs.py. Without `--write` the rows are printed, with `--only REGEX` those of some programs; with both,
the page keeps its other rows.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from marked_page import put

PAGE, COMMAND = Path(__file__).with_suffix(".md"), "python validation/launch_samples.py --write SUITE=FOLDER ..."
GPU = "a100"
HEAD = (
    "| suite | program | arguments | launches | predicted | total, all | total, samples | error | checked | CPU s, none "
    "| CPU s, all | CPU s, samples | ratio |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True)
class Case:
    """A program and its arguments; `lattice:N` stands for the file of a graph, a lattice of N x N nodes."""

    suite: str
    program: str
    arguments: tuple[str, ...]


CASES = (
    Case("hecbench", "bfs", ("lattice:128",)),
    Case("hecbench", "bitonic-sort", ("14", "2")),
    Case("hecbench", "floydwarshall", ("128", "2", "16")),
    Case("hecbench", "gaussian", ("-q", "-t", "-s", "256")),
    Case("hecbench", "nw", ("256", "10", "4")),
    Case("polybench", "GRAMSCHM", ()),
    Case("polybench", "LU", ()),
)


@dataclass(frozen=True)
class Measured:
    """The totals of a run, and the processor's seconds that it and the program took."""

    totals: dict[str, Any]
    seconds: float


def write_lattice(side: int, file: Path) -> None:
    """A graph in Rodinia's format: nodes (first edge, edges), the source, edges (to, cost). A search takes 2 * `side` - 1 steps."""
    neighbours = [
        [y * side + x for y, x in ((row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column))
         if 0 <= y < side and 0 <= x < side]
        for row in range(side) for column in range(side)
    ]  # fmt: skip
    lines, first = [str(len(neighbours))], 0
    for nodes in neighbours:
        lines.append(f"{first} {len(nodes)}")
        first += len(nodes)
    lines += ["", "0", "", str(first), *(f"{node} 1" for nodes in neighbours for node in nodes)]
    file.write_text("\n".join(lines) + "\n")


def words(case: Case, folder: Path) -> Iterator[str]:
    """The arguments as the program gets them."""
    for word in case.arguments:
        name, _, side = word.partition(":")
        if name != "lattice":
            yield word
            continue
        file = folder / f"{name}{side}.txt"
        write_lattice(int(side), file)
        yield str(file)


def measure(program: list[str], options: list[str]) -> Measured:
    """One `warpsight run`. Raises RuntimeError where the program or a launch fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "warpsight", "run", "--gpu", GPU, "--json", *options, "--", *program]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    totals = json.loads(run.stdout)["totals"] if run.stdout.startswith("{") else {"failed": True}
    if run.returncode or totals["failed"]:
        raise RuntimeError(f"{' '.join(command)}: exit code {run.returncode}: {run.stderr[-500:]}")
    return Measured(totals, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def row(case: Case, program: Path) -> str:
    """A row of the table. The first run predicts one launch of each kernel: it compiles what the others need."""
    with TemporaryDirectory() as folder:
        command = [str(program), *words(case, Path(folder))]
        measure(command, ["--launches", "1:1"])
        none, samples, every = (measure(command, options) for options in (["--kernels", "^$"], [], ["--exact"]))
    exact, sampled = every.totals["seconds"], samples.totals["seconds"]
    checked = samples.totals["scaled_error"]
    cells = [
        case.suite, case.program, " ".join(case.arguments), f"{samples.totals['launches']:,}",
        f"{samples.totals['predicted'] / samples.totals['launches']:.1%}", f"{exact * 1e6:,.1f} us", f"{sampled * 1e6:,.1f} us",
        f"{sampled / exact - 1:+.2%}", "" if checked is None else f"{checked:.2%}", f"{none.seconds:.1f}", f"{every.seconds:.1f}",
        f"{samples.seconds:.1f}", f"{every.seconds / samples.seconds:.1f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def merged(rows: list[str]) -> list[str]:
    """The page's rows, in their order, with `rows` in place of those of the same program."""
    beginnings = tuple(f"| {case.suite} | {case.program} |" for case in CASES)
    there = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(beginnings)]
    known = {tuple(line.split("|")[1:3]): line for line in [*there, *rows]}
    return list(known.values())


def main() -> int:
    """Run, print the rows, and keep them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="SUITE=FOLDER")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    folders = {suite: Path(folder) for suite, _, folder in (word.partition("=") for word in arguments.folders)}
    rows = [HEAD]
    for case in CASES:
        if re.search(arguments.only, case.program):
            rows.append(row(case, (folders[case.suite] / case.program).resolve()))
            print(rows[-1], flush=True)
    if arguments.write:
        put(PAGE, COMMAND, {"table": "\n".join([HEAD, *merged(rows[1:])])})
    return 0


if __name__ == "__main__":
    sys.exit(main())
