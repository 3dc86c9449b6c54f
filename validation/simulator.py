"""The simulator's cycles and counts on every reference row, compared with the reference's, as a Markdown table.

    python validation/simulator.py            # prints the tables
    python validation/simulator.py --write    # also rewrites them in validation/DEVIATIONS.md
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from accuracy import trace_of
from marked_page import put
from reference_kernels import ReferenceRow, reference_rows
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.simulation import SimulatedLaunch, simulate_trace
from warpsight.result.prediction import Prediction, mean_absolute_percentage_error, relative_error

PAGE = Path(__file__).resolve().with_name("DEVIATIONS.md")
COMMAND = "python validation/simulator.py --write"
# What is compared: our count, the reference's column, and the title. DRAM counts are lines there and bursts here.
COUNTS = (
    ("l1_misses", "l1_read_misses", "L1 misses"),
    ("l1_merges", "l1_mshr_merges", "L1 merges"),
    ("l2_read_misses", "l2_read_misses", "L2 misses"),
    ("dram_reads", "dram_read_bursts", "DRAM reads"),
    ("dram_writes", "dram_write_bursts", "DRAM writes"),
)
BURSTS_A_LINE = {"mdm-pascal": 4, "gpumech": 2}
_FEW = 1000  # below so many the difference of a count says nothing


@dataclass(frozen=True)
class Simulated:
    """What the simulator says of one reference row."""

    row: ReferenceRow
    prediction: Prediction

    @property
    def error(self) -> float:
        """Signed relative error of the cycles."""
        return relative_error(self.prediction.cycles, self.row.numbers["cycles"])

    def count_error(self, ours: str, theirs: str) -> float | None:
        """Signed relative error of a count; None where the reference has too few to compare."""
        reference = self.row.numbers[theirs] / (BURSTS_A_LINE[self.row.gpu] if theirs.startswith("dram") else 1)
        found = self.prediction.provenance["model"]["counts"][ours]
        return relative_error(found, reference) if reference >= _FEW else None


@cache
def simulation_of(row: ReferenceRow) -> SimulatedLaunch:
    """The row's launch in the simulator, with cold caches; made once in a process."""
    return simulate_trace(trace_of(row), load_gpu(row.gpu), caches_before="cold")


def simulated() -> list[Simulated]:
    """All rows."""
    return [Simulated(row, simulation_of(row).prediction) for row in reference_rows()]


def tables(found: list[Simulated]) -> dict[str, str]:
    """The table by its name on the page."""
    lines = [
        "| GPU | kernel | reference cycles | simulator | error | " + " | ".join(title for *_, title in COUNTS) + " |",
        "|---|---|---:|---:|---:|" + "---:|" * len(COUNTS),
    ]
    for r in sorted(found, key=lambda r: (r.row.gpu != "mdm-pascal", r.row.name)):
        counts = " | ".join(_percent(r.count_error(ours, theirs)) for ours, theirs, _ in COUNTS)
        numbers = f"{r.row.numbers['cycles']:,.0f} | {r.prediction.cycles:,.0f} | {100 * r.error:+.1f} %"
        lines.append(f"| {r.row.gpu} | {r.row.name} | {numbers} | {counts} |")
    for title in ("mdm-pascal", "gpumech", "all"):
        rows = [r for r in found if title in (r.row.gpu, "all")]
        means = " | ".join(_mean([r.count_error(ours, theirs) for r in rows]) for ours, theirs, _ in COUNTS)
        mape = mean_absolute_percentage_error([r.error for r in rows])
        lines.append(f"| | **mean of absolute errors, {title}** ({len(rows)}) | | | **{mape:.1f} %** | {means} |")
    return {"simulator": "\n".join(lines)}


def _percent(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:+.1f} %"


def _mean(errors: list[float | None]) -> str:
    known = [e for e in errors if e is not None]
    return f"**{mean_absolute_percentage_error(known):.1f} %**" if known else "-"


def main() -> None:
    """Print the table; with --write also keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"rewrite the table in {PAGE.name}")
    write = parser.parse_args().write
    found = tables(simulated())
    if write:
        put(PAGE, COMMAND, found)
    print("\n\n".join(found.values()))


if __name__ == "__main__":
    main()
