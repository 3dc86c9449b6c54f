"""The table of the kernels of Warpsight's own suite, and which of them are set aside.

    python validation/own_suite.py            # prints the table
    python validation/own_suite.py --write    # also rewrites it in suites/README.md
    python validation/own_suite.py --holdout  # sets `holdout` in every manifest by the rule
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from marked_page import put
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import ProfiledTrace, profile_trace
from warpsight.pipeline.request import Method
from warpsight.pipeline.suites import Suite, SuiteKernel, load_suite
from warpsight.result.prediction import MEMORY_CLASSES, memory_class
from warpsight.traces.schema import KernelTrace

ROOT = Path(__file__).resolve().parents[1]
SUITE = ROOT / "suites" / "warpsight"
PAGE = ROOT / "suites" / "README.md"
COMMAND = "python validation/own_suite.py --write"
GPU = "mdm-pascal"
HEADER = (
    "| kernel | what it does | domain | class | DPKI | lines a load | warp instructions | warps | MB | holdout |\n"
    "|---|---|---|---|---:|---:|---:|---:|---:|---|"
)


@dataclass(frozen=True)
class Row:
    """What the table says of a kernel. `lines` are requests per divergent load, `megabytes` those of its arrays (10^6 bytes)."""

    kernel: SuiteKernel
    memory_class: str
    dpki: float
    lines: float
    warp_instructions: int
    blocks: int
    warps_per_block: int
    megabytes: float

    def text(self) -> str:
        """One line of the table."""
        kernel, none = self.kernel, self.dpki == 0
        cells = (
            f"[{kernel.name}](warpsight/{kernel.name}/kernel.cu)",
            kernel.title,
            kernel.domain,
            "MD" if self.memory_class == MEMORY_CLASSES[0] else "NMD",
            "0" if none else f"{self.dpki:.1f}",
            "" if none else f"{self.lines:.1f}",
            f"{self.warp_instructions:,}",
            f"{self.blocks} x {self.warps_per_block}",
            f"{self.megabytes:.1f}",
            "yes" if kernel.holdout else "",
        )
        return f"| {' | '.join(cells)} |"


def row_of(kernel: SuiteKernel, trace: KernelTrace) -> Row:
    """The row of a kernel that has been run."""
    profiled = profile_trace(trace, load_gpu(GPU), Method(caches_before="cold"))
    dpki = profiled.profile.dpki or 0.0
    header = trace.header
    return Row(
        kernel, memory_class(dpki), dpki, _lines(profiled), header.warp_instructions, header.blocks, header.warps_per_block,
        _megabytes(kernel),
    )  # fmt: skip


def _lines(profiled: ProfiledTrace) -> float:
    """Requests at the L1 for each execution of the loads that diverge at least once."""
    misses = profiled.misses
    diverges = misses.divergent > 0
    return float(misses.l1_reads[diverges].sum() / max(int(misses.executions[diverges].sum()), 1))


def _megabytes(kernel: SuiteKernel) -> float:
    from warpsight.kernels.launch import ArrayArgument
    from warpsight.kernels.launch_file import prepare

    _, launch = prepare(kernel.launch_spec())
    return sum(each.array.nbytes for each in launch.arguments if isinstance(each, ArrayArgument)) / 1e6


def held_out(kernels: Iterable[SuiteKernel]) -> set[str]:
    """Names that the rule sets aside: of each class, in the order of the SHA-256 of their names, the first half, rounded down."""
    chosen: set[str] = set()
    listed = list(kernels)
    for each in MEMORY_CLASSES:
        names = [kernel.name for kernel in listed if kernel.expected_class == each]
        names.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())
        chosen |= set(names[: len(names) // 2])
    return chosen


def set_holdout(suite: Suite) -> list[str]:
    """Correct `holdout` in the manifests where the rule says otherwise; the names of those that were."""
    chosen, changed = held_out(suite), []
    for kernel in suite:
        wanted = kernel.name in chosen
        if kernel.holdout != wanted:
            path = Path(kernel.path)
            path.write_text(re.sub(r"^holdout:.*$", f"holdout: {str(wanted).lower()}", path.read_text(), flags=re.MULTILINE))
            changed.append(kernel.name)
    return changed


def table(suite: Suite) -> str:
    """All rows: memory-divergent kernels first, by DPKI."""
    from warpsight.pipeline.tracing import obtain_trace

    rows = [row_of(kernel, obtain_trace(kernel.request())) for kernel in suite]
    rows.sort(key=lambda row: (row.memory_class != MEMORY_CLASSES[0], -row.dpki, row.kernel.name))
    return "\n".join([HEADER, *(row.text() for row in rows)])


def main() -> None:
    """Print the table, rewrite it with --write, or apply the rule with --holdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help=f"rewrite {PAGE.name}")
    parser.add_argument("--holdout", action="store_true", help="set holdout in every manifest by the rule")
    arguments = parser.parse_args()
    suite = load_suite(SUITE)
    if arguments.holdout:
        print("changed:", ", ".join(set_holdout(suite)) or "none")
        return
    found = table(suite)
    print(found)
    if arguments.write:
        put(PAGE, COMMAND, {"kernels": found})


if __name__ == "__main__":
    main()
