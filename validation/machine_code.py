"""Runs the kernels of our suite as PTX and as machine code on each architecture, and compares what they write, bit for bit.

    python validation/machine_code.py            # prints a table
    python validation/machine_code.py --write    # and writes it into docs/explanation/machine-code.md
"""

from __future__ import annotations

import argparse
import copy
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from marked_page import put  # noqa: E402  found by the line above
from warpsight.base.errors import WarpsightError  # noqa: E402
from warpsight.emulator.run.launch import emulate, prepare_kernel  # noqa: E402
from warpsight.kernels.launch import ArrayArgument, Launch  # noqa: E402
from warpsight.kernels.machine_code import UNFUSED  # noqa: E402
from warpsight.kernels.toolkit import Architecture  # noqa: E402
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare  # noqa: E402
from warpsight.pipeline.suites import load_suite  # noqa: E402

ARCHITECTURES = (75, 80, 86, 89, 90)
PAGE = HERE.parent / "docs" / "explanation" / "machine-code.md"
COMMAND = "python validation/machine_code.py --write"


@dataclass(frozen=True)
class Compared:
    """One kernel on one architecture: bytes that differ, warp instructions of each level, and the opcodes of the machine code."""

    differences: int
    ptx_instructions: int
    sass_instructions: int
    opcodes: frozenset[str]


def _run(ready: ReadyLaunch, architecture: Architecture | None) -> tuple[list[npt.NDArray[Any]], int, frozenset[str]]:
    """The arrays that a launch leaves behind, its warp instructions, and the native opcodes of its code."""
    arguments = tuple(
        replace(each, array=each.array.copy()) if isinstance(each, ArrayArgument) else copy.deepcopy(each)
        for each in ready.launch.arguments
    )
    launch: Launch = replace(ready.launch, arguments=arguments)
    prepared = prepare_kernel(ready.source, launch.kernel, architecture=architecture, assembler=(UNFUSED,), briefly=True)  # once
    trace = emulate(ready.source, launch, registers=ready.registers, prepared=prepared, options=ready.options)
    opcodes = frozenset(i.native.base for i in prepared.function.instructions if i.native is not None)
    return [each.array for each in arguments if hasattr(each, "array")], trace.header.warp_instructions, opcodes


def compared(ready: ReadyLaunch, architecture: int) -> Compared:
    """Run `ready` at both levels. Raises what the emulator raises."""
    expected, ptx_count, _ = _run(ready, None)
    found, sass_count, opcodes = _run(ready, Architecture(architecture))
    pairs = zip(expected, found, strict=True)
    differences = sum(int((a.reshape(-1).view(np.uint8) != b.reshape(-1).view(np.uint8)).sum()) for a, b in pairs)
    return Compared(differences, ptx_count, sass_count, opcodes)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    options = parser.parse_args()
    lines = ["| kernel | " + " | ".join(f"sm_{a}" for a in ARCHITECTURES) + " |", "|---|" + "---:|" * len(ARCHITECTURES)]
    opcodes: set[str] = set()
    same = total = 0
    for kernel in load_suite(HERE.parent / "suites" / "warpsight").kernels:
        cells = []
        for architecture in ARCHITECTURES:
            total += 1
            try:
                run = compared(prepare(kernel.request()), architecture)
            except WarpsightError as error:
                cells.append(error.what.partition(":")[0])
                continue
            same += not run.differences
            opcodes |= run.opcodes
            share = f"{run.sass_instructions / run.ptx_instructions:.2f}"
            cells.append(share if not run.differences else f"{run.differences:,} bytes differ")
        lines.append(f"| {kernel.name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    text = "\n".join([
        f"{same} of {total} runs write the same memory, bit for bit; {len(opcodes)} opcodes of machine code were executed.",
        "A cell is the number of warp instructions as machine code over that as PTX. Here the assembler does not fuse products and",
        "sums (`-fmad=false`), as PTX without a rounding modifier lets it do.", "", *lines,
    ])  # fmt: skip
    print(text)
    if options.write:
        put(PAGE, COMMAND, {"levels": text})


if __name__ == "__main__":
    main()
