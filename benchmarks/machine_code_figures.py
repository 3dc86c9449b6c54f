"""Figures of machine code for `measure.py`: how long its execution takes beside that of PTX, and what assembling and decoding cost.

    python benchmarks/machine_code_figures.py [--write]    # the table by kernel, into benchmarks/README.md
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "validation"))

from emulator_figures import LARGE, TEN_TIMES  # noqa: E402  found by the line above
from marked_page import put  # noqa: E402

COMMAND = "python benchmarks/machine_code_figures.py --write"
GPU, ARCHITECTURE = "a100", 80
INSTRUCTIONS = 2_000  # that assembling and decoding is measured for
ROUNDS = 8


@dataclass(frozen=True)
class Timed:
    """Seconds and warp instructions of a kernel as PTX and as machine code, and its instructions in the code of each."""

    name: str
    seconds: tuple[float, float]
    executed: tuple[int, int]
    static: tuple[int, int]

    @property
    def ratio(self) -> float:
        """Time as machine code over time as PTX."""
        return self.seconds[1] / self.seconds[0]


def _launches() -> Iterator[tuple[str, Any]]:
    """Each kernel of our suite, and each reference kernel, ready to run on its input."""
    from reference_kernels import SOURCE, make_launch
    from warpsight.pipeline.kernel_input import prepare
    from warpsight.pipeline.request import KernelRequest
    from warpsight.pipeline.suites import load_suite

    for kernel in load_suite(HERE.parent / "suites" / "warpsight").kernels:
        yield kernel.name, prepare(kernel.request())
    for name in TEN_TIMES if SOURCE.exists() else ():
        made = make_launch(name)
        yield name, prepare(KernelRequest(str(SOURCE), kernel=name, grid=made.grid, block=made.block, args=tuple(made.args)))


def timed() -> Iterator[Timed]:
    """Every kernel at both levels, on one thread, recording; the fastest of several runs that take turns."""
    from warpsight.emulator.run.launch import emulate, prepare_kernel
    from warpsight.kernels.launch import ArrayArgument
    from warpsight.kernels.toolkit import Architecture

    for name, ready in _launches():
        codes = [prepare_kernel(ready.source, ready.launch.kernel, architecture=a) for a in (None, Architecture(ARCHITECTURE))]
        seconds, counts = [math.inf, math.inf], [0, 0]
        for turn in range(2 * ROUNDS):
            level = turn % 2
            given = ready.launch.arguments
            arguments = [replace(a, array=a.array.copy()) if isinstance(a, ArrayArgument) else copy.deepcopy(a) for a in given]
            launch = replace(ready.launch, arguments=tuple(arguments))
            header = emulate(ready.source, launch, registers=ready.registers, prepared=codes[level], options=ready.options).header
            seconds[level], counts[level] = min(seconds[level], header.emulation_seconds), header.warp_instructions
        lengths = [len(code.function.instructions) for code in codes]
        yield Timed(name, (seconds[0], seconds[1]), (counts[0], counts[1]), (lengths[0], lengths[1]))


def ratios() -> tuple[float, float]:
    """Time as machine code over time as PTX: the geometric mean, and the worst."""
    found = [one.ratio for one in timed()]
    return statistics.geometric_mean(found), max(found)


# -- assembling and decoding -------------------------------------------------------------------------------------------------------


def _large() -> Any:
    """A kernel with about 2,000 instructions: the loop of `LARGE` three times."""
    from warpsight.kernels.sources import load_source

    start, end = LARGE.index("    for (int t"), LARGE.rindex("#pragma")
    body = "".join(LARGE[start:end].replace("a[k]", f"a[k + {k}]") for k in range(3))
    return load_source(LARGE[:start] + body + LARGE[end:], name="large.cu")


def _best(action: Callable[[], Any], rounds: int = 7) -> float:
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


def code_seconds(cold: bool) -> float:
    """Seconds from PTX to decoded machine code of 2,000 instructions, nothing or everything of it kept on disk."""
    from warpsight.base import diskcache
    from warpsight.kernels.machine_code import machine_code
    from warpsight.kernels.toolkit import Architecture

    source, lengths = _large(), []

    def whole() -> None:
        if cold:
            for kind in ("cubin", "listing"):
                shutil.rmtree(diskcache.folder() / kind, ignore_errors=True)
        lengths.append(len(machine_code(source, Architecture(ARCHITECTURE)).function("large").instructions))

    with _own_cache():
        whole()
        return _best(whole) * INSTRUCTIONS / lengths[0]


class _own_cache:  # noqa: N801  used like a function
    """An empty cache folder, so that nobody's entries are removed."""

    def __enter__(self) -> None:
        self._folder, self._before = tempfile.TemporaryDirectory(), os.environ.get("WARPSIGHT_CACHE")
        os.environ["WARPSIGHT_CACHE"] = self._folder.name

    def __exit__(self, *_: object) -> None:
        os.environ.pop("WARPSIGHT_CACHE")
        if self._before is not None:
            os.environ["WARPSIGHT_CACHE"] = self._before
        self._folder.cleanup()


def steps() -> dict[str, float]:
    """Seconds of each step for the same kernel, as it is."""
    from warpsight.isa.sass.listing import read_listing
    from warpsight.kernels import assembler
    from warpsight.kernels.machine_code import machine_code
    from warpsight.kernels.toolkit import Architecture

    source, architecture = _large(), Architecture(ARCHITECTURE)
    code = machine_code(source, architecture)
    code.function("large")
    read = _best(lambda: read_listing(code.text, ""))
    with _own_cache():
        assembled = _best(lambda: assembler.assemble(assembler.with_lines(source.ptx), "", architecture))

        def disassemble() -> None:
            assembler.disassemble(code.cubin, "")
            shutil.rmtree(Path(os.environ["WARPSIGHT_CACHE"]) / "listing")

        listed = _best(disassemble)
    return {"ptxas": assembled, "nvdisasm": listed, "reading the listing": read,
            "decoding": _best(lambda: code.function("large"))}  # fmt: skip


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the tables into benchmarks/README.md")
    options = parser.parse_args()
    lines = ["| kernel | PTX | machine code | time | warp instructions | instructions in the code |", "|---|" + "---:|" * 5]
    every = list(timed())
    for one in sorted(every, key=lambda one: -one.ratio):
        (a, b), (c, d), (e, f) = one.seconds, one.executed, one.static
        lines.append(f"| {one.name} | {1e3 * a:.2f} ms | {1e3 * b:.2f} ms | {b / a:.2f} | {d / c:.2f} | {e}, {f} |")
    mean = statistics.geometric_mean(one.ratio for one in every)
    within = sum(one.ratio <= 1.2 for one in every)
    lines += ["", f"Geometric mean of the time {mean:.2f}; {within} of {len(every)} kernels are within 1.2."]
    parts = ["| step | time |", "|---|---:|", *(f"| {name} | {1e3 * seconds:.1f} ms |" for name, seconds in steps().items())]
    tables = {"machine code": "\n".join(lines), "assembling": "\n".join(parts)}
    print(*tables.values(), sep="\n\n")
    if options.write:
        put(HERE / "README.md", COMMAND, tables)


if __name__ == "__main__":
    main()
