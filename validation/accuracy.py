"""Predicted and reference cycles for every row of the reference table, by every model, as a Markdown table.

    python validation/accuracy.py            # prints the table
    python validation/accuracy.py --write    # also rewrites validation/accuracy.md
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import warpsight
from marked_page import put
from reference_kernels import SOURCE, ReferenceRow, make_launch, reference_rows
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import ProfiledTrace, predict_profiled, profile_trace
from warpsight.pipeline.request import Method
from warpsight.result.prediction import Prediction, mean_absolute_percentage_error, relative_error
from warpsight.traces.schema import KernelTrace

MODELS = ("gpumech", "mdm")
HERE = Path(__file__).resolve().parent
COMMAND = "python validation/accuracy.py --write"


@dataclass(frozen=True)
class Outcome:
    """What Warpsight says of one reference row."""

    row: ReferenceRow
    profiled: ProfiledTrace
    predictions: dict[str, Prediction]

    def error(self, model: str) -> float:
        """Signed relative error of the model's cycles."""
        return relative_error(self.predictions[model].cycles, self.row.numbers["cycles"])

    def counts(self) -> dict[str, tuple[float, float]]:
        """Ours and the reference's: instructions, L1 read requests and misses, L2 read misses, blocks per SM."""
        totals, numbers = self.profiled.misses.totals(), self.row.numbers
        return {
            "warp_instructions": (self.profiled.trace.header.warp_instructions, numbers["warp_instructions"]),
            "l1_read_requests": (totals["l1_reads"], numbers["l1_read_requests"]),
            "l1_read_misses": (totals["l1_misses"], numbers["l1_read_misses"]),
            "l2_read_misses": (totals["l2_read_misses"], numbers["l2_read_misses"]),
            "blocks_per_sm": (self.profiled.occupancy.blocks_per_sm, numbers["blocks_per_sm"]),
        }


@cache
def _trace(kernel: str, size: int | None) -> KernelTrace:
    launch = make_launch(kernel, size)
    return warpsight.trace(str(SOURCE), kernel=launch.kernel, grid=launch.grid, block=launch.block, args=launch.args)


def trace_of(row: ReferenceRow) -> KernelTrace:
    """The row's launch, run once in a process, whatever GPU its trace is then looked at on."""
    return _trace(row.kernel, row.size)


@cache
def profile_of(row: ReferenceRow) -> ProfiledTrace:
    """The row's launch on its GPU, whose caches are cold; made once in a process."""
    return profile_trace(trace_of(row), load_gpu(row.gpu), Method(caches_before="cold"))


def outcomes(models: Sequence[str] = MODELS) -> list[Outcome]:
    """All rows by all of `models`."""
    found = []
    for row in reference_rows():
        answers = predict_profiled(profile_of(row), load_gpu(row.gpu), models)
        found.append(Outcome(row, profile_of(row), {p.model: p for p in answers}))
    return found


def dominant(prediction: Prediction) -> str:
    """The three largest components of the CPI stack."""
    parts = sorted(prediction.cpi_stack.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {value:.2f}" for name, value in parts if value > 0)


def accuracy_table(found: list[Outcome]) -> str:
    """Cycles, errors and the largest terms of MDM's stack."""
    lines = [
        "| GPU | kernel | reference cycles | GPUMech | error | MDM | error | MDM's largest terms (CPI) |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for o in sorted(found, key=lambda o: (o.row.gpu != "mdm-pascal", o.row.name)):
        cells = [f"{o.predictions[m].cycles:,.0f} | {100 * o.error(m):+.1f} %" for m in MODELS]
        reference = f"{o.row.numbers['cycles']:,.0f}"
        lines.append(f"| {o.row.gpu} | {o.row.name} | {reference} | {cells[0]} | {cells[1]} | {dominant(o.predictions['mdm'])} |")
    mape = [mean_absolute_percentage_error([o.error(m) for o in found]) for m in MODELS]
    lines.append(f"| | **MAPE** | | | **{mape[0]:.1f} %** | | **{mape[1]:.1f} %** | |")
    return "\n".join(lines)


def counts_table(found: list[Outcome]) -> str:
    """Instructions, requests and misses as ratios to the reference."""
    names = ("warp_instructions", "l1_read_requests", "l1_read_misses", "l2_read_misses", "blocks_per_sm")
    lines = [f"| GPU | kernel | {' | '.join(n.replace('_', ' ') for n in names)} |", "|---|---|" + "---:|" * len(names)]
    for o in sorted(found, key=lambda o: (o.row.gpu != "mdm-pascal", o.row.name)):
        cells = []
        for name, (ours, reference) in o.counts().items():
            cells.append(f"{ours:,.0f} ({100 * relative_error(ours, reference):+.1f} %)" if reference else f"{ours:,.0f}")
            assert name in names
        lines.append(f"| {o.row.gpu} | {o.row.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables; with --write also keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite the tables in validation/accuracy.md")
    write = parser.parse_args().write
    found = outcomes()
    parts = {"accuracy": accuracy_table(found), "counts": counts_table(found)}
    print("\n\n".join(parts.values()))
    if write:
        put(HERE / "accuracy.md", COMMAND, parts)


if __name__ == "__main__":
    main()
