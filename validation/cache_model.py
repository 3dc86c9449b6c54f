"""The reuse-distance cache model compared with an independent implementation and with hardware, as Markdown tables.

    python validation/cache_model.py            # prints the tables
    python validation/cache_model.py --write    # also rewrites them in validation/cache_model.md
"""

from __future__ import annotations

import argparse
import csv
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from marked_page import put
from warpsight.caches.reuse.access_list import AccessList, of_list
from warpsight.caches.reuse.access_stream import AccessStream
from warpsight.caches.reuse.model import Placement, analyse, evaluate
from warpsight.caches.reuse.settings import ReuseSettings

PAGE = Path(__file__).resolve().with_suffix(".md")
COMMAND = "python validation/cache_model.py --write"
REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference" / "cache"
LARGE = 2.0
SEEDS = range(1, 11)
OTHER_RULES: tuple[dict[str, Any], ...] = ({"clip": False}, {"issue": "request"})
# HPCA 2014, Fig. 3: measured on a GTX 470, percent
MEASURED = {32: 3.13, 64: 3.77, 128: 32.71, 256: 42.05, 512: 67.20, 1024: 82.28}


@dataclass(frozen=True)
class Row:
    """One line of the reference: its columns, our strict miss rate in percent and compulsory misses, and the rate by other rules.

    `unclipped` with --no-clip, `by_request` with --issue request, on deterministic lines.
    """

    reference: dict[str, str]
    rate: float
    compulsory: int
    unclipped: float
    by_request: float

    @property
    def difference(self) -> float:
        """Ours less theirs, in percentage points."""
        return self.rate - float(self.reference["strict_miss_rate_pct"])


def trace_makers() -> dict[str, tuple[tuple[int, int, int], Iterable[Any]]]:
    """Block size and records of each trace by name, as the reference's own script makes them, without its files."""
    text = (REFERENCE / "make_traces.py").read_text()
    head, _, main = text.partition("if __name__ == '__main__':\n")
    made: dict[str, tuple[tuple[int, int, int], Iterable[Any]]] = {}
    space: dict[str, Any] = {}
    exec(head.replace("os.makedirs(OUT, exist_ok=True)", ""), space | {"__file__": __file__}, space)
    known = dict(space)
    known["w"] = lambda name, block, records: made.__setitem__(name, (block, records))
    for value in list(known.values()):
        if callable(value) and hasattr(value, "__globals__"):
            value.__globals__.update(space)
    exec(textwrap.dedent(main), known)
    return made


def list_of(block: tuple[int, int, int], records: Iterable[Any]) -> AccessList:
    """The records of a trace as an access list."""
    flat = np.fromiter((value for record in records for value in record), np.int64).reshape(-1, 4)
    return AccessList(block, *(np.ascontiguousarray(flat[:, k]) for k in range(4)))


def reference_rows() -> Iterator[tuple[dict[str, str], AccessStream]]:
    """Every line of the reference with the accesses coalesced for its line size."""
    with open(REFERENCE / "cache.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    makers = trace_makers()
    for name in dict.fromkeys(row["trace"] for row in lines):
        given = list_of(*makers[name])
        streams: dict[int, AccessStream] = {}
        for row in (row for row in lines if row["trace"] == name):
            line = int(row["line_bytes"])
            yield row, streams.setdefault(line, of_list(given, line))


def settings_of_row(row: dict[str, str], **changes: Any) -> ReuseSettings:
    """What a line of the reference was run with."""
    return replace(
        ReuseSettings(int(row["cache_bytes"]), int(row["line_bytes"]), int(row["ways"]), "fermi", mshrs=int(row["mshrs"]),
                      miss_latency=int(row["miss_latency"]), sigma=float(row["sigma"])), **changes)


def placement_of(stream: AccessStream) -> Placement:
    """One core with the blocks that fit a GTX 470's."""
    return Placement(1, min(1536 // stream.threads_per_block, 8))


def compare() -> list[Row]:
    """Our strict miss rate beside each line of the reference; random lines are the mean over ten seeds."""
    found = []
    for row, stream in reference_rows():
        seeds = SEEDS if float(row["sigma"]) else [1]
        runs = [evaluate(settings_of_row(row, seed=seed), stream, placement_of(stream), whole=seed == 1) for seed in seeds]
        changes = OTHER_RULES if kind_of(row) == "deterministic" else ()
        others = [evaluate(settings_of_row(row, **change), stream, placement_of(stream), whole=False) for change in changes]
        means = [np.mean([run.total_misses for run in some]) for some in (runs, *([one] for one in others))]
        rate, *by_others = (float(100 * mean / stream.transactions) for mean in means)
        found.append(Row(row, rate, int(runs[0].counts[:, 1].sum()), *(by_others or [rate, rate])))
    return found


def kind_of(row: dict[str, str]) -> str:
    """Which promise a line is held to."""
    if row["config"].endswith("lat0"):
        return "no latency"
    return "random, ten seeds" if float(row["sigma"]) else "deterministic"


def agreement(rows: list[Row]) -> str:
    """Differences by kind and configuration."""
    lines = ["| kind | configuration | rows | mean difference, points | largest |", "|---|---|---:|---:|---:|"]
    for kind in dict.fromkeys(kind_of(row.reference) for row in rows):
        mine = [row for row in rows if kind_of(row.reference) == kind]
        for config in dict.fromkeys(row.reference["config"] for row in mine):
            lines.append(_line(kind, f"`{config}`", [row for row in mine if row.reference["config"] == config]))
        lines.append(_line(f"**{kind}**", "all", mine))
    return "\n".join(lines)


def _line(kind: str, config: str, rows: list[Row]) -> str:
    found = [abs(row.difference) for row in rows]
    return f"| {kind} | {config} | {len(rows)} | {np.mean(found):.2f} | {max(found):.2f} |"


def large(rows: list[Row]) -> str:
    """The rows off by more than `LARGE` points."""
    lines = ["| trace | configuration | theirs, % | ours, % | difference | ours, --no-clip |", "|---|---|---:|---:|---:|---:|"]
    for row in sorted(rows, key=lambda row: -abs(row.difference)):
        if abs(row.difference) > LARGE:
            theirs = float(row.reference["strict_miss_rate_pct"])
            names = f"{row.reference['trace']} | `{row.reference['config']}`"
            lines.append(f"| {names} | {theirs:.2f} | {row.rate:.2f} | {row.difference:+.2f} | {row.unclipped:.2f} |")
    return "\n".join(lines)


def figure_3() -> str:
    """The column-major copy: hardware, theirs and ours, and ours without each extension, at 16 KB."""
    with open(REFERENCE / "cache.csv", newline="") as file:
        theirs = {row["trace"]: row["strict_miss_rate_pct"] for row in csv.DictReader(file) if row["config"] == "c16"}
    makers = trace_makers()
    without = ("latency", "associativity", "mshr", "divergence")
    lines = [
        "| threads | measured | theirs | ours | ours, by request | " + " | ".join(f"without {name}" for name in without) + " |",
        "|---:|" + "---:|" * (4 + len(without)),
    ]
    base = ReuseSettings(16384, 128, 4, "fermi")
    for threads, measured in MEASURED.items():
        name = f"fig3_T{threads:04d}"
        stream = of_list(list_of(*makers[name]), 128)
        rates = [
            100 * analyse(base.off(*off), stream, placement_of(stream)).outcome.total_misses / stream.transactions
            for off in ((), *((one,) for one in without))
        ]
        one_by_one = replace(base, issue="request")
        run = analyse(one_by_one, stream, placement_of(stream)).outcome
        rates.insert(1, 100 * run.total_misses / stream.transactions)
        other = f"{float(theirs[name]):.2f}" if name in theirs else "-"
        lines.append(f"| {threads} | {measured:.2f} | {other} | " + " | ".join(f"{rate:.2f}" for rate in rates) + " |")
    return "\n".join(lines)


@dataclass(frozen=True)
class KernelRow:
    """A reference kernel: L1 misses that ask for a line, percent of requests.

    By the exact hierarchy, the simulator, and this model with both ways to issue.
    """

    gpu: str
    kernel: str
    exact: float
    simulator: float
    request: float
    access: float


def kernels() -> list[KernelRow]:
    """The reference kernels by the exact hierarchy, the simulator and this model."""
    from accuracy import profile_of, trace_of
    from reference_kernels import reference_rows as kernel_rows
    from simulator import simulation_of
    from warpsight.gpu.loader import load_gpu
    from warpsight.pipeline.evaluate import profile_trace
    from warpsight.pipeline.request import Method

    found = []
    for row in kernel_rows():
        trace, gpu = trace_of(row), load_gpu(row.gpu)
        reuse = profile_trace(trace, gpu, Method(caches="reuse-distance", caches_before="cold"))
        counts = (profile_of(row).misses.totals(), simulation_of(row).simulation.totals(), reuse.misses.totals())
        exact, simulator, ours = (100 * count["l1_misses"] / max(1, count["l1_reads"]) for count in counts)
        found.append(KernelRow(row.gpu, row.name, exact, simulator, ours, _by_access(trace, gpu)))
    return found


def _by_access(trace: Any, gpu: Any) -> float:
    """As `KernelRow.access`."""
    from warpsight.caches.reuse.access_stream import of_trace
    from warpsight.caches.reuse.settings import settings_of
    from warpsight.pipeline.evaluate import trace_occupancy

    stream = of_trace(trace, gpu.l1.line_bytes)
    placement = Placement(gpu.sm_count, trace_occupancy(trace, gpu).blocks_per_sm)
    counts = evaluate(settings_of(gpu.l1), stream, placement, whole=False).counts.sum(axis=0)
    # a latency miss, the last class, asks for nothing more
    return float(100 * counts[1:-1].sum() / max(1, stream.transactions))


def kernel_table(found: list[KernelRow]) -> str:
    """L1 miss rates of the reference kernels, of `kernels()`."""
    lines = [
        "| GPU | kernel | exact, % | simulator, % | reuse distance, % | from exact | from simulator |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r.gpu} | {r.kernel} | {r.exact:.2f} | {r.simulator:.2f} | {r.request:.2f} | {r.request - r.exact:+.2f} | "
        f"{r.request - r.simulator:+.2f} |"
        for r in found
    ]
    means = [np.mean([abs(r.request - other) for r, other in zip(found, others, strict=True)])
             for others in ([r.exact for r in found], [r.simulator for r in found])]
    return "\n".join([*lines, f"| | **mean absolute difference** ({len(found)}) | | | | **{means[0]:.2f}** | **{means[1]:.2f}** |"])


def issue_table(rows: list[Row], found: list[KernelRow]) -> str:
    """What each way to issue costs: mean absolute difference in points from the other implementation and the exact hierarchy."""
    fixed = [row for row in rows if kind_of(row.reference) == "deterministic"]
    theirs = [float(row.reference["strict_miss_rate_pct"]) for row in fixed]
    measured = (
        ("access", [row.rate for row in fixed], [row.access for row in found]),
        ("request", [row.by_request for row in fixed], [row.request for row in found]),
    )
    lines = [
        f"| `--issue` | default for | from the other implementation ({len(fixed)} deterministic rows) | "
        f"from the exact hierarchy ({len(found)} kernels) |", "|---|---|---:|---:|",
    ]
    for (name, rates, kernel_rates), default in zip(measured, ("access lists", "kernels and traces"), strict=True):
        from_theirs = np.mean([abs(a - b) for a, b in zip(rates, theirs, strict=True)])
        from_exact = np.mean([abs(rate - row.exact) for rate, row in zip(kernel_rates, found, strict=True)])
        lines.append(f"| `{name}` | {default} | {from_theirs:.2f} | {from_exact:.2f} |")
    return "\n".join(lines)


def tables(rows: list[Row], found: list[KernelRow]) -> dict[str, str]:
    """All tables by name, from `compare()` and `kernels()`."""
    return {
        "agreement": agreement(rows), "large": large(rows), "figure-3": figure_3(), "kernels": kernel_table(found),
        "issue": issue_table(rows, found),
    }


def main() -> None:
    """Print the tables, and with --write put them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true", help=f"rewrite the tables in {PAGE.name}")
    arguments = parser.parse_args()
    found = tables(compare(), kernels())
    print("\n\n".join(found.values()))
    if arguments.write:
        put(PAGE, COMMAND, found)


if __name__ == "__main__":
    main()
