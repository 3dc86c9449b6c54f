"""Measures what Warpsight promises about speed and memory, each figure in a process of its own, on one core.

    python benchmarks/measure.py                 # prints a table
    python benchmarks/measure.py --write         # also rewrites it in benchmarks/README.md
    python benchmarks/measure.py --only demo     # rows whose name contains a word; with --write only these are rewritten

Wall-clock figures of a shared machine move by tens of per cent from run to run; the best of several is shown, with the ratio to the
target. Inputs are those of `validation/reference_kernels.py` where the reference program is at hand.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "validation"))
sys.path.insert(0, str(HERE))

import emulator_figures as figures_of_emulator  # noqa: E402  found by the line above
import importing_figures as figures_of_importing  # noqa: E402
import machine_code_figures as figures_of_machine_code  # noqa: E402
import reuse_figures as figures_of_reuse  # noqa: E402
import simulator_figures as figures_of_simulator  # noqa: E402
import sweep_figures as figures_of_sweeps  # noqa: E402
from marked_page import put  # noqa: E402

COMMAND = "python benchmarks/measure.py --write"
WARPSIGHT = [sys.executable, "-m", "warpsight"]
MIB = 1 << 20


@dataclass(frozen=True)
class Figure:
    """One measured row. `better` is "more" or "less"; `unit` goes with value and target."""

    name: str
    value: float
    target: float
    unit: str
    better: str
    peak_bytes: int

    @property
    def ratio(self) -> float:
        """How many times better than the target: above 1 meets it."""
        return self.value / self.target if self.better == "more" else self.target / self.value


# -- what runs in the measured processes -------------------------------------------------------------------------------------------


def _caches(kernel: str, size: int | None) -> float:
    """Million line requests (reads and writes at L1) per second."""
    import warpsight
    from reference_kernels import SOURCE, make_launch
    from warpsight.caches.exact.simulate import simulate_caches
    from warpsight.gpu.loader import load_gpu
    from warpsight.gpu.occupancy import occupancy

    launch = make_launch(kernel, size)
    trace = warpsight.trace(str(SOURCE), kernel=kernel, grid=launch.grid, block=launch.block, args=launch.args)
    gpu = load_gpu("mdm-pascal")
    blocks = occupancy(gpu, trace.header.threads_per_block, trace.header.registers_per_thread, trace.header.static_shared_bytes)
    best = 0.0
    for _ in range(4):
        start = time.perf_counter()
        totals = simulate_caches(trace, gpu, blocks.blocks_per_sm).totals()
        best = max(best, (totals["l1_reads"] + totals["l1_writes"]) / (time.perf_counter() - start) / 1e6)
    return best


def _reuse_model(threads: int = 1024, width: int = 1024) -> float:
    """Million transactions per second of the reuse-distance model, all extensions on: a column-major copy (HPCA 2014, Fig. 3)."""
    import numpy as np

    from warpsight.caches.reuse.access_list import AccessList, of_list
    from warpsight.caches.reuse.model import Placement, analyse
    from warpsight.caches.reuse.settings import settings_of
    from warpsight.gpu.loader import load_gpu

    column, thread = np.divmod(np.arange(threads * width), threads)
    zeros = np.zeros_like(thread)
    stream = of_list(AccessList((threads, 1, 1), thread, zeros, 4 * (thread * width + column), zeros + 4), 128)
    best = 0.0
    for _ in range(4):
        start = time.perf_counter()
        analyse(settings_of(load_gpu("gtx470-16k").l1), stream, Placement(1, 1))
        best = max(best, stream.transactions / (time.perf_counter() - start) / 1e6)
    return best


def _spmv_profile() -> tuple[Any, Any]:
    """The interval profile of spmv_csr, and the GPU that it is for."""
    import warpsight
    from reference_kernels import SOURCE, make_launch
    from warpsight.gpu.loader import load_gpu
    from warpsight.pipeline.evaluate import profile_trace

    launch = make_launch("spmv_csr")
    trace = warpsight.trace(str(SOURCE), kernel="spmv_csr", grid=launch.grid, block=launch.block, args=launch.args)
    gpu = load_gpu("mdm-pascal")
    return profile_trace(trace, gpu).profile, gpu


def _designs() -> float:
    """Seconds that the slowest model of intervals or demands takes for spmv_csr's profile on 10^5 designs."""
    import numpy as np

    from warpsight.gpu.design import Design
    from warpsight.models.base import get_model, model_names
    from warpsight.models.interval_model import IntervalModel

    profile, gpu = _spmv_profile()
    random, count = np.random.default_rng(0), 100_000
    design = Design.of(gpu).varied(
        sm_count=random.integers(10, 101, count),
        l1_mshrs=random.integers(16, 513, count),
        noc_bandwidth_bytes_per_s=random.uniform(1e11, 1e13, count),
        dram_bandwidth_bytes_per_s=random.uniform(1e11, 1e13, count),
    )
    slowest = 0.0
    for model in map(get_model, model_names()):
        if isinstance(model, IntervalModel) or "demands" in model.needs:
            times = []
            for _ in range(3):
                start = time.perf_counter()
                model.evaluate(profile, design)
                times.append(time.perf_counter() - start)
            slowest = max(slowest, min(times))
    return slowest


def _model() -> float:
    """Milliseconds of the model step on spmv_csr."""
    from warpsight.models.base import get_model

    profile, gpu = _spmv_profile()
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        get_model("mdm").predict(profile, gpu)
        best = min(best, 1e3 * (time.perf_counter() - start))
    return best


INSIDE: dict[str, Callable[[], float]] = {
    "fma": lambda: figures_of_emulator.emulate("fma_chain", 200_000),
    "spmv": lambda: figures_of_emulator.emulate("spmv_csr", None),
    "ten": figures_of_emulator.ten_times,
    "two": figures_of_emulator.two_threads,
    "billion": figures_of_emulator.billion_gib,
    "gathers-one": lambda: figures_of_emulator.gathers_gib(1),
    "gathers-two": lambda: figures_of_emulator.gathers_gib(2),
    "bytes": figures_of_emulator.trace_bytes,
    "compile": figures_of_emulator.compile_seconds,
    "machine-mean": lambda: figures_of_machine_code.ratios()[0],
    "machine-worst": lambda: figures_of_machine_code.ratios()[1],
    "machine-cold": lambda: figures_of_machine_code.code_seconds(cold=True),
    "machine-warm": lambda: figures_of_machine_code.code_seconds(cold=False),
    "divergent": lambda: _caches("row_sum", None),
    "coalesced": lambda: _caches("vector_add", 1 << 22),
    "irregular": lambda: _caches("spmv_csr", None),
    "reuse": _reuse_model,
    "slowest": figures_of_reuse.slowest,
    "reading": figures_of_reuse.reading,
    "sweep": figures_of_reuse.sweep_ratio,
    "import-strided": lambda: figures_of_importing.lines_per_second(scattered=False),
    "import-scattered": lambda: figures_of_importing.lines_per_second(scattered=True),
    "simulator": lambda: figures_of_simulator.rate(slowest=False),
    "simulator-least": lambda: figures_of_simulator.rate(slowest=True),
    "model": _model,
    "designs": _designs,
    "recurring-new": lambda: figures_of_sweeps.recurring()[0],
    "recurring-known": lambda: figures_of_sweeps.recurring()[1],
}


# -- measuring ---------------------------------------------------------------------------------------------------------------------


def _run(command: list[str], environment: dict[str, str] | None = None, cores: int = 1, processor: bool = False
         ) -> tuple[float, int, str]:  # fmt: skip
    """Wall seconds, or the processor's seconds of it and its children; peak bytes and output of one process, pinned to the first
    `cores` cores.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, env=environment, preexec_fn=lambda: os.sched_setaffinity(0, range(cores)))  # noqa: PLW1509
        _, status, usage = os.wait4(child.pid, 0)
        seconds = usage.ru_utime + usage.ru_stime if processor else time.perf_counter() - start
        out.seek(0)
        text = out.read()
    if status:
        raise SystemExit(f"{' '.join(command)} failed:\n{text}")
    return seconds, usage.ru_maxrss * 1024, text


def _inside(name: str, cores: int = 1, environment: dict[str, str] | None = None) -> tuple[float, int]:
    _, peak, text = _run([sys.executable, str(Path(__file__)), "--inside", name], environment, cores)
    return float(json.loads(text)), peak


def _seconds(command: list[str], repeats: int = 5, environment: dict[str, str] | None = None, processor: bool = False
             ) -> tuple[float, int]:  # fmt: skip
    runs = [_run(command, environment, processor=processor)[:2] for _ in range(repeats)]
    return min(r[0] for r in runs), max(r[1] for r in runs)


def _spmv_launch(folder: Path, *options: str) -> list[str]:
    """`warpsight predict` on spmv_csr with 32,768 rows, its inputs in a launch file."""
    from reference_kernels import SOURCE

    launch = folder / "spmv.py"
    launch.write_text(
        f"import sys\nsys.path.insert(0, {str(HERE.parent / 'validation')!r})\n"
        "from reference_kernels import make_launch\n"
        f"source = {str(SOURCE)!r}\nmade = make_launch('spmv_csr')\n"
        "kernel, grid, block, args = made.kernel, made.grid, made.block, made.args\n"
    )
    return [*WARPSIGHT, "predict", str(launch), *options]


def _cold_environment(folder: Path) -> dict[str, str]:
    """As on a machine where Warpsight has never run: no cache of ours and none of Numba's."""
    return {**os.environ, "WARPSIGHT_CACHE": str(folder / "cache"), "NUMBA_CACHE_DIR": str(folder / "numba")}


@cache
def _sweep(axes: tuple[str, ...], kernels: int) -> tuple[float, float, int]:
    """Seconds of a sweep with nothing but its traces at hand, of the same again, and its peak in bytes; on two cores."""
    return figures_of_sweeps.sweep_seconds(axes, figures_of_sweeps.kernels()[:kernels])


def _add_sweeps(add: Callable[[str, float, str, str, Callable[[], tuple[float, int]]], None]) -> None:
    """The rows of sweeps, with three models each."""
    plain, geometries, million = figures_of_sweeps.PLAIN, figures_of_sweeps.GEOMETRIES, figures_of_sweeps.MILLION
    many = figures_of_sweeps.KERNELS
    add("sweep, 1,000 designs, 20 kernels", 10, "s", "less", lambda: _sweep(plain, many)[::2])
    add("sweep, the same again", 10, "s", "less", lambda: _sweep(plain, many)[1:])
    add("sweep, 1,000 designs of 25 cache geometries, 20 kernels", 120, "s", "less", lambda: _sweep(geometries, many)[::2])
    add("sweep, 10^6 designs, one kernel", 10, "s", "less", lambda: _sweep(million, 1)[::2])
    add("memory of the sweep of 10^6 designs", 2, "GiB", "less",
        lambda: (_sweep(million, 1)[2] / 2**30, _sweep(million, 1)[2]))  # fmt: skip
    add("a kernel on a design of a new cache geometry, mean", 100, "ms", "less", lambda: _inside("recurring-new"))
    add("a kernel on a design of a known cache geometry, mean", 0.1, "ms", "less", lambda: _inside("recurring-known"))


def _time_loop(folder: Path, *options: str) -> list[str]:
    """`warpsight run` of a program with 10,000 launches of four kernels on 65,536 elements."""
    program, source = folder / "time_loop", HERE.parent / "tests" / "programs" / "sources" / "time_loop.cu"
    subprocess.run(["nvcc", "-cudart", "shared", "-arch=sm_80", "-o", str(program), str(source)], check=True)
    return [*WARPSIGHT, "run", "--gpu", "a100", *options, "--", str(program), "2000", "65536"]


def measure(only: str) -> list[Figure]:
    """All figures whose name contains `only`."""
    figures: list[Figure] = []

    def add(name: str, target: float, unit: str, better: str, take: Callable[[], tuple[float, int]]) -> None:
        if only in name:
            value, peak = take()
            figures.append(Figure(name, value, target, unit, better, peak))
            print(f"{name}: {value:.3g} {unit} (target {target:g}), {peak / MIB:.0f} MiB", file=sys.stderr)

    add("emulator, fma_chain, recording", 300, "M warp instructions/s", "more", lambda: _inside("fma"))
    add("emulator, spmv_csr, recording", 10, "M warp instructions/s", "more", lambda: _inside("spmv"))
    add("emulator, all kernels at ten times the work, recording", 30, "M warp instructions/s", "more", lambda: _inside("ten"))
    add("emulator, two threads to one, fma_chain", 1.7, "times", "more", lambda: _inside("two", cores=2))
    add("machine code to PTX, time with recording, geometric mean", 1.2, "times", "less", lambda: _inside("machine-mean"))
    add("machine code to PTX, time with recording, worst kernel", 1.2, "times", "less", lambda: _inside("machine-worst"))
    add("assembling and decoding 2,000 instructions, cold", 1.5, "s", "less", lambda: _inside("machine-cold"))
    add("assembling and decoding 2,000 instructions, warm", 0.05, "s", "less", lambda: _inside("machine-warm"))
    add("memory of a recorded launch of 10^9 warp instructions", 2, "GiB", "less", lambda: _inside("billion"))
    add("memory of recorded random gathers, 9 x 10^8 warp instructions", 1, "GiB", "less", lambda: _inside("gathers-one"))
    add("the same on two threads", 1, "GiB", "less", lambda: _inside("gathers-two", cores=2))
    add("trace on disk", 2, "bytes/warp instruction", "less", lambda: _inside("bytes"))
    add("caches, row_sum (divergent)", 10, "M requests/s", "more", lambda: _inside("divergent"))
    add("caches, vector_add (coalesced)", 10, "M requests/s", "more", lambda: _inside("coalesced"))
    add("caches, spmv_csr (irregular)", 10, "M requests/s", "more", lambda: _inside("irregular"))
    add("reuse-distance caches, column-major copy", 3, "M accesses/s", "more", lambda: _inside("reuse"))
    add("reuse-distance caches, slowest of 12 traces", 3, "M thread accesses/s", "more", lambda: _inside("slowest"))
    add("reuse-distance caches, reading a compressed list", 3, "M accesses/s", "more", lambda: _inside("reading"))
    add("reuse-distance caches, 64 sizes and ways, worst of 12 traces", 3, "times one point", "less", lambda: _inside("sweep"))
    add("importing Accel-Sim traces, strided accesses", 2, "M lines/s", "more", lambda: _inside("import-strided"))
    add("importing Accel-Sim traces, scattered accesses", 2, "M lines/s", "more", lambda: _inside("import-scattered"))
    add("simulator, all reference kernels", 1, "M warp instructions/s", "more", lambda: _inside("simulator"))
    add("simulator, slowest reference kernel", 1, "M warp instructions/s", "more", lambda: _inside("simulator-least"))
    add("model step, MDM on spmv_csr", 5, "ms", "less", lambda: _inside("model"))
    add("slowest interval model, spmv_csr on 10^5 designs", 0.5, "s", "less", lambda: _inside("designs"))
    _add_sweeps(add)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        add("warpsight --help", 0.3, "s", "less", lambda: _seconds([*WARPSIGHT, "--help"]))
        add("warpsight predict, spmv_csr, warm", 2.5, "s", "less", lambda: _seconds(_spmv_launch(folder)))
        native = _spmv_launch(folder, "--gpu", figures_of_machine_code.GPU, "--level", "sass")
        add("warpsight predict, spmv_csr, machine code, warm", 2.5, "s", "less", lambda: _seconds(native))
        add("warpsight run, 10,000 launches", 60, "s", "less", lambda: _seconds(_time_loop(folder), 2))
        add("warpsight run, 10,000 launches, of the processor", 60, "s", "less",
            lambda: _seconds(_time_loop(folder), 2, processor=True))  # fmt: skip
        add("warpsight run, 10,000 launches, each predicted", 60, "s", "less", lambda: _seconds(_time_loop(folder, "--exact"), 1))
        cold = _cold_environment(folder)
        add("compiling 1,000 PTX instructions", 0.5, "s", "less", lambda: _inside("compile", environment=cold))
        add("warpsight demo, first", 60, "s", "less", lambda: _seconds([*WARPSIGHT, "demo"], 1, cold))
        add("warpsight demo, second", 4, "s", "less", lambda: _seconds([*WARPSIGHT, "demo"], 3, cold))
        shutil.rmtree(folder / "numba", ignore_errors=True)
    return figures


def table(figures: list[Figure]) -> str:
    """The figures as Markdown."""
    lines = ["| what | measured | target | times the target | peak memory |", "|---|---:|---:|---:|---:|"]
    for f in figures:
        sign = "at least" if f.better == "more" else "at most"
        value, peak = f"{float(f'{f.value:.3g}'):,g} {f.unit}", f"{f.peak_bytes / MIB:,.0f} MiB"
        lines.append(f"| {f.name} | {value} | {sign} {f.target:g} {f.unit} | {f.ratio:.1f} | {peak} |")
    return "\n".join(lines)


def merged(text: str) -> str:
    """The table of benchmarks/README.md with the rows of `text` in place of those with their names, and new ones at the end."""
    page = (HERE / "README.md").read_text(encoding="utf-8")
    there = page.partition("<!-- figures:")[2].partition("-->")[2].partition("<!-- end figures")[0].strip().splitlines()
    rows = {line.split("|")[1].strip(): line for line in [*there[2:], *text.splitlines()[2:]]}
    return "\n".join([*there[:2], *rows.values()])


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite the table in benchmarks/README.md")
    parser.add_argument("--only", default="", help="measure only rows whose name contains this")
    parser.add_argument("--inside", choices=INSIDE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["WARPSIGHT_GPU"] = "mdm-pascal"  # of commands that name none, whatever the user has chosen
    if options.inside:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        print(json.dumps(INSIDE[options.inside]()))
        return
    text = table(measure(options.only))
    print(text)
    if options.write:
        put(HERE / "README.md", COMMAND, {"figures": merged(text) if options.only else text})


if __name__ == "__main__":
    main()
