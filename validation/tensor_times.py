"""Predicts products of matrices on tensor cores, and compares their rates with those that others measured and published.

    python validation/tensor_times.py --sources FOLDER [--traces FOLDER] [--write]     # prints the tables, writes the page

FOLDER of `--sources` holds a checkout of `blackwell-tensorcore-kernels` (waynehacking8), whose kernels are predicted for the sizes
of its tables of results. Kernels that were tuned, in Triton and cuBLAS, are compared with `validation/hardware/gemm.cu` in the best
of some tilings. FOLDER of `--traces` keeps traces, of which one takes up to a minute to make.

Rows at even lines of a table are for development, those at odd lines are held out, as in `published_times.py`.
"""

from __future__ import annotations

import argparse
import csv
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import warpsight
from marked_page import put
from published_times import tau
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.operations import peak_flops
from warpsight.result.prediction import Prediction, relative_error
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import save_trace

HERE = Path(__file__).resolve().parent
PAGE, KERNEL = HERE / "hardware" / "tensor.md", HERE / "hardware" / "gemm.cu"
COMMAND = "python validation/tensor_times.py --sources FOLDER --write"
LADDER = "blackwell-tensorcore-kernels"
SIMULATED = 5_000_000  # warp instructions of a launch
PARTS = ("development", "held out")


def at_clock(ghz: float) -> tuple[str, str]:
    """The clock of the RTX PRO 6000, and the bandwidth of its L2, of which a slice passes 32 B a clock, as on rtx5090."""
    return f"core_clock={ghz}GHz", f"noc.bandwidth={128 * 32 * ghz:.0f}GB/s"


# The workstation GPU is a larger GB202 than the catalogue's rtx5090. Its tensor cores have the same rate with 32- as with 16-bit
# sums, 1,024 operations a clock and SM, at 2.22 GHz: results/mma_rate_probe.csv. So are its rates in FP8, twice those of FP16.
_FULL_RATE = ("initiation.tensor_fp32acc=16 cycles", "initiation.tensor_fp8_fp32acc=16 cycles")
# Power: the A100's energies times 0.606, with which `gpu_burn -tc` takes 300 W at 1,417 MHz and 124.2 TFLOPS in TF32, and a
# voltage that is a line through the square roots of (power - 40 W) / clock at nine limits from 250 to 500 W
# (github.com/Visual-Synthesizer/rtx6kpro, Server and Max-Q); 65 W between kernels at 2.27 GHz (results/clock_state_*.txt);
# GDDR7 as GDDR6X, 15.9 pJ a bit beyond the L2 (github.com/bang001/gpupower0701, RTX 3090). None is from the rows predicted here.
_POWER = (
    "limit=300W", "fixed=40W", "clock=2.22GHz", "floor=1.252GHz", "floor_voltage=0.781", "clocked=25W", "sm=0.744W", "lane=5.14pJ",
    "product=2.48nJ", "shared=1.58pJ", "l1=2.27pJ", "l2=15pJ", "dram=127pJ",
)  # fmt: skip
PRO_6000 = ("sm_count=188", "l2.size=128MiB", "l2.slices=128", *_FULL_RATE, *(f"power.{each}" for each in _POWER))
WORKSTATION, SLOWER = "RTX PRO 6000 Max-Q", "RTX PRO 6000 Max-Q at 2.06 GHz"
GPUS: dict[str, tuple[str, str, tuple[str, ...]]] = {  # the catalogue's name, the architecture, what is changed
    "A100": ("a100", "sm_80", ()), "H100 SXM": ("h100-sxm", "sm_90", ()),
    WORKSTATION: ("rtx5090", "sm_120", (*PRO_6000, *at_clock(2.22))),
    SLOWER: ("rtx5090", "sm_120", (*PRO_6000, *at_clock(2.06))),  # the mean in results/phase3_lowprec.md, at its limit of 300 W
}  # fmt: skip


@dataclass(frozen=True)
class Format:
    """How a kernel's operands are stored: the codes of 1 and of the sign, the elements of a byte, what the kernel divides by.

    `pipe` names the tensor cores' rate with 32-bit sums, `multiplies` are those of an instruction at that interval.
    """

    one: int
    sign: int
    elements: int
    scale: int
    pipe: str
    multiplies: int

    def encoded(self, values: np.ndarray[Any, np.dtype[np.int8]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Numbers -1, 0 and 1, the inner dimension last, as bytes."""
        codes = np.where(values == 0, 0, self.one | np.where(values < 0, self.sign, 0)).astype(np.uint8, order="C")
        if self.elements == 1:
            return codes
        return codes[:, ::2] | codes[:, 1::2] << 4


FORMATS = {  # of the kernels of gemm_mma_fp8.cu; a 4-bit number that is alone in its byte is in the bits 2 to 5
    "FP8": Format(0x38, 0x80, 1, 1, "tensor_fp8_fp32acc", 4096), "FP4": Format(2 << 2, 8 << 2, 1, 64, "tensor_fp8_fp32acc", 4096),
    "MXFP4": Format(2, 8, 2, 64, "tensor_fp4", 8192),
}  # fmt: skip


def predicted(trace: KernelTrace, gpu: str, *changes: str, before: str = "warm") -> Prediction:
    """A launch as `warpsight` predicts it, with further changes of the GPU's description; `before`: the L2's state."""
    name, _, known = GPUS[gpu]
    values = dict(change.split("=") for change in (*known, *changes))
    overrides = [f"{key}={value}" for key, value in values.items()]
    return warpsight.predict(trace, gpu=name, overrides=overrides, caches_before=before)


def simulated(trace: KernelTrace, gpu: str) -> float | None:
    """Seconds in the simulator; None for a launch that is too large."""
    if trace.header.warp_instructions > SIMULATED:
        return None
    return warpsight.simulate(trace, gpu=GPUS[gpu][0], overrides=GPUS[gpu][2]).seconds


def peak(gpu: str, stored: Format | None = None) -> float:
    """TFLOPS of the tensor cores with 32-bit sums, in FP16 or as the operands are stored."""
    spec = load_gpu(GPUS[gpu][0], GPUS[gpu][2])
    if stored:
        of_a_scheduler = stored.multiplies / spec.initiation_cycles[stored.pipe]
        return 2e-12 * spec.sm_count * spec.sm.schedulers * spec.core_clock_hz * of_a_scheduler
    kind = "tensor_fp32acc" if "tensor_fp32acc" in spec.initiation_cycles else "tensor"
    return peak_flops(spec, "tensor") * spec.initiation_cycles["tensor"] / spec.initiation_cycles[kind] * 1e-12


def kept(
    folder: Path, name: str, shape: tuple[int, int, int], gpu: str, result: type[np.generic], stored: Format | None = None,
    **launch: Any,
) -> KernelTrace:
    """The trace of a product of `shape` M, N, K, from `folder` if it is there. Raises AssertionError if the product is wrong.

    The second operand lies as K x N in FP16, as N x K in a `stored` format.
    """
    device, arch, _ = GPUS[gpu]
    if (folder / name).is_dir():
        return warpsight.load_trace(folder / name)
    m, n, k = shape
    random = np.random.default_rng(1)
    a, b = (random.integers(-1, 2, size).astype(np.int8) for size in ((m, k), (k, n)))
    operands = [stored.encoded(a), stored.encoded(b.T)] if stored else [a.astype(np.float16), b.astype(np.float16)]
    c = np.zeros((m, n), result)
    arch += "a" if stored else ""  # where the instructions of 4-bit numbers are
    trace = warpsight.trace(args=[*operands, c, m, n, k], gpu=device, level="sass", arch=arch, **launch)
    expected = a[:2].astype(np.float32) @ b.astype(np.float32) / (stored.scale if stored else 1)
    assert np.array_equal(c[:2].astype(np.float32), expected), f"{name}: wrong product"
    return save_trace(trace, folder / name)


# -- The kernels of a repository, for its own tables.


@dataclass(frozen=True)
class Step:
    """A kernel of the ladder: its template, with a tile of `side` x `side` a block and 64 bytes deep, `threads`, and buffers."""

    template: str
    threads: int
    stages: int
    side: int = 128
    source: str = "gemm_mma"
    registers: int | None = None  # those that Nsight Compute showed, where the assembler used here takes others
    stored: str | None = None  # one of `FORMATS`, where it is not FP16

    @property
    def shared_bytes(self) -> int:
        """The ring of buffers."""
        return self.stages * 2 * self.side * 64

    @property
    def format(self) -> Format | None:
        """How operands are stored; None: in FP16."""
        return FORMATS[self.stored] if self.stored else None

    @property
    def kernel(self) -> str:
        """The name of the function."""
        return "gemm_lowprec_t" if self.stored else f"{self.source}_t"


def _mma(warp: int, stages: int, features: str = "true, true") -> Step:
    return Step(f"128, 128, 32, {warp}, {warp}, {stages}, {features}", 32 * (128 // warp) ** 2, stages)


STEPS = {
    "mma_base": _mma(32, 1, "false, false"), "mma_swizzle": _mma(32, 1, "false, true"), "mma_vec": _mma(32, 1),
    "mma_pipe": _mma(32, 2), "mma_warptile": _mma(64, 2),
    **{f"mma_pipe@s{stages}": _mma(32, stages) for stages in (2, 3, 4)},
    **{f"mma_warptile@s{stages}": _mma(64, stages) for stages in (2, 3, 4)},
    **{f"mma_{name.lower()}": Step(f"Fmt::{name}, {stages}", 128, stages, source="gemm_mma_fp8", stored=name)
       for name, stages in (("FP8", 3), ("FP4", 2), ("MXFP4", 2))},
}  # fmt: skip
SMALL, LARGE = Step("64, 64, 2", 512, 2, 64, "gemm_wmma"), Step("128, 128, 3", 512, 3, 128, "gemm_wmma", 64)  # to 1,535; from there
TABLES = {
    "bench_mma_session.csv": WORKSTATION, "mma_stage_sweep.csv": WORKSTATION, "bench_sm90a.csv": "H100 SXM",
    "bench_phase3_session.csv": WORKSTATION,
}  # fmt: skip
MOST = 1 << 33  # M N K of a product that is traced whole; an eighth of it where a thread loads one element at a time
SLICE = (2048, 6016, 2048)  # predicted in place of larger ones, the depth in bytes: 752 blocks fill 188 SMs evenly


@dataclass(frozen=True)
class Row:
    """A line of a table of the repository, of which the first is 1."""

    table: str
    line: int
    gpu: str
    kernel: str
    step: Step
    size: int
    tflops: float

    @property
    def part(self) -> str:
        """Development or held out."""
        return PARTS[self.line % 2]

    @property
    def sliced(self) -> bool:
        """Whether a slice is predicted."""
        return self.size**3 > MOST

    @property
    def slice(self) -> tuple[int, int, int]:
        """M, N, K of the slice: 32 steps of a block."""
        stored = self.step.format
        return *SLICE[:2], SLICE[2] * stored.elements if stored else SLICE[2] // 2


def rows(sources: Path) -> Iterator[Row]:
    """The rows whose kernels are known here and can be traced; of larger ones those of the sweep and of FP8 and FP4, as slices.

    The session of the latter has its clock at 8192, for which they are predicted, too.
    """
    for table, gpu in TABLES.items():
        for line, each in enumerate(csv.DictReader((sources / LADDER / "results" / table).read_text().splitlines()), 2):
            size, kernel = int(each["M"]), each["kernel"]
            step = (LARGE if size >= 1536 else SMALL) if kernel == "wmma" else STEPS.get(kernel)
            if step is None:
                continue
            most = MOST // 8 if "false" in step.template else MOST
            low = step.stored is not None and size == 8192
            if size**3 <= most or "@" in kernel or low:
                row = Row(table, line, gpu, kernel, step, size, float(each["tflops"]))
                yield from (row, replace(row, gpu=SLOWER)) if low else (row,)


def _code(sources: Path, step: Step) -> str:
    """The kernel alone, without what launches it, instantiated."""
    folder = sources / LADDER
    helpers = re.sub(r"#pragma once|#include <cstdint>", "", (folder / "include" / "mma_ptx.cuh").read_text())
    helpers = "typedef unsigned char uint8_t;\n" + helpers
    text = (folder / "src" / f"{step.source}.cu").read_text()
    if step.stored:
        kinds = re.findall(r"enum class Fmt.*", text)[0]
        text, operand = f"{helpers}\n{kinds}\n{text[text.index('template <Fmt') : text.index('// Staging')]}", "uint8_t"
    else:
        text = re.sub(r'#include (<cstdlib>|"util.cuh")', "", text.split("// FP16 staging")[0].split("__global__ void f2h")[0])
        text, operand = text.replace('#include "mma_ptx.cuh"', helpers), "half"
    arguments = f"const {operand}*, const {operand}*, float*, int, int, int"
    return f"{text}\ntemplate __global__ void {step.kernel}<{step.template}>({arguments});\n"


def trace_of(row: Row, shape: tuple[int, int, int], sources: Path, folder: Path) -> KernelTrace:
    """The trace of the row's kernel for M, N, K."""
    step = row.step
    name = "_".join(map(str, (GPUS[row.gpu][1], step.source, *step.template.split(", "), *shape)))
    return kept(
        folder, name, shape, row.gpu, np.float32, step.format, source=_code(sources, step), kernel=step.kernel, block=step.threads,
        grid=(shape[1] // step.side, shape[0] // step.side), shared=step.shared_bytes, registers=step.registers,
    )  # fmt: skip


def seconds_of(row: Row, sources: Path, folder: Path) -> tuple[float, float | None]:
    """Seconds as `warpsight` and the simulator predict them; of a slice those of the whole product, by its work."""
    shape = row.slice if row.sliced else (row.size,) * 3
    trace = trace_of(row, shape, sources, folder)
    share = row.size**3 / prod(shape)
    reference = simulated(trace, row.gpu)
    return predicted(trace, row.gpu).seconds * share, reference and reference * share


def _errors(values: list[float | None], published: float) -> str:
    """A cell for each value, and one for its error."""
    shown = [(f"{v:.1f}", f"{100 * relative_error(v, published):+.0f} %") if v is not None else ("", "") for v in values]
    return " | ".join(cell for pair in shown for cell in pair)


Rates = list[tuple[Row, list[float | None]]]  # TFLOPS of each row by `warpsight`, and by the simulator


def rates_of(sources: Path, folder: Path) -> Rates:
    """Every row. Raises AssertionError for a rate above the peak of the GPU."""
    found = [
        (row, [2e-12 * row.size**3 / each if each else None for each in seconds_of(row, sources, folder)]) for row in rows(sources)
    ]
    assert all(rate is None or rate <= peak(row.gpu, row.step.format) for row, rates in found for rate in rates)
    return found


def _described(row: Row) -> str:
    """The first cells of a row, up to the published rate."""
    size = f"{row.size}{', slice' if row.sliced else ''}"
    return f"| `{row.table}`, {row.line} | {row.part} | {row.gpu} | `{row.kernel}` | {size} | {row.tflops:.1f}"


def ladder(found: Rates) -> str:
    """A line for each row."""
    lines = [
        "| table, line | part | GPU | kernel | M = N = K | TFLOPS | `warpsight` | error | simulator | error |",
        "|---|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row, rates in found:
        lines.append(f"{_described(row)} | {_errors(rates, row.tflops)} |")
    return "\n".join(lines)


def taus(found: Rates) -> str:
    """Kendall's tau over the kernels of each table and size, on the GPU of the table."""
    lines = ["| table | M = N = K | kernels | tau of `warpsight` | tau of the simulator |", "|---|---:|---:|---:|---:|"]
    once = [each for each in found if each[0].gpu == TABLES[each[0].table]]
    for (table, size), group in groupby(once, lambda each: (each[0].table, each[0].size)):
        members = list(group)
        if len(members) < 2:
            continue
        published, cells = [row.tflops for row, _ in members], []
        for column in range(2):
            rates = [rate for _, each in members if (rate := each[column]) is not None]
            cells.append(f"{tau(published, rates):+.2f}" if len(rates) == len(members) else "")
        lines.append(f"| `{table}` | {size} | {len(members)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def means(found: Rates) -> str:
    """The mean error of each part, on the GPUs of the tables."""
    lines = ["| part | rows | mean error of `warpsight` | rows | mean error of the simulator |", "|---|---:|---:|---:|---:|"]
    for part in PARTS:
        cells = []
        for column in range(2):
            of_part = [(row.tflops, rates[column]) for row, rates in found if row.part == part and row.gpu == TABLES[row.table]]
            errors = [abs(relative_error(rate, published)) for published, rate in of_part if rate is not None]
            cells.append(f"{len(errors)} | {100 * mean(errors):.0f} %")
        lines.append(f"| {part} | {' | '.join(cells)} |")
    return "\n".join(lines)


def power(sources: Path, folder: Path) -> str:
    """The rows whose clock the board's power limit lowers: with and without it, by the work of the launches that are predicted."""
    lines = [
        "| table, line | part | GPU | kernel | M = N = K | TFLOPS | without limit | error | with limit | error | clock |",
        "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    errors: dict[str, list[tuple[float, float]]] = {part: [] for part in PARTS}
    for row in rows(sources):
        shape = row.slice if row.sliced else (row.size,) * 3
        if row.gpu != TABLES[row.table] or row.size < LEAST_LIMITED:
            continue
        trace = trace_of(row, shape, sources, folder)
        free, held = (predicted(trace, row.gpu, *changes) for changes in (("power.limit=0W",), ()))
        clock = held.cycles / held.seconds
        rates = [2e-12 * prod(shape) / each.seconds for each in (free, held)]
        first, second = (relative_error(rate, row.tflops) for rate in rates)
        errors[row.part].append((abs(first), abs(second)))
        lines.append(f"{_described(row)} | {_errors([*rates], row.tflops)} | {clock / 1e9:.2f} GHz |")
    sums = ("", *(f"{part}, {len(each)} rows: mean error {100 * mean(e for e, _ in each):.0f} % without the limit, "
                  f"{100 * mean(e for _, e in each):.0f} % with it." for part, each in errors.items()))  # fmt: skip
    return "\n".join([*lines, *sums])


LEAST_LIMITED = 2048  # smaller products are below the limit, and the board is too: 44 to 173 W in clock_state_mma_session.txt
PROFILES = {"ncu_sm120_mma_warptile_8192.txt": "mma_warptile@s2"}  # the kernel's name in the sweep


def profiled(sources: Path, folder: Path) -> str:
    """Cycles that Nsight Compute counted, at the clock that it locked, and those predicted for that clock.

    From slices of one and of two depths: their blocks begin and end alike, and the difference is that of the further steps.
    """
    lines = ["| profile | kernel | clock | cycles | `warpsight` | error |", "|---|---|---:|---:|---:|---:|"]
    for file, kernel in PROFILES.items():
        text = (sources / LADDER / "results" / file).read_text()
        counted, clock = (float(re.findall(rf"{name} +\w+ +([\d.]+)", text)[0]) for name in ("Elapsed Cycles", "SM Frequency"))
        row = next(row for row in rows(sources) if row.kernel == kernel)
        m, n, k = row.slice
        traces = (trace_of(row, (m, n, depth), sources, folder) for depth in (k, 2 * k))
        once, twice = (predicted(trace, row.gpu, *at_clock(clock)).cycles for trace in traces)
        cycles = (once + (row.size / k - 1) * (twice - once)) * row.size**2 / (m * n)
        error = f"{100 * relative_error(cycles, counted):+.0f} %"
        lines.append(f"| `{file}` | `{kernel}` | {clock:.2f} GHz | {counted:,.0f} | {cycles:,.0f} | {error} |")
    return "\n".join(lines)


# -- Kernels that were tuned.


@dataclass(frozen=True)
class Tiling:
    """The tile of a block and its depth, the warps in both directions, the buffers."""

    m: int
    n: int
    k: int
    warps_m: int
    warps_n: int
    stages: int

    @property
    def defines(self) -> list[str]:
        """What the kernel is compiled with."""
        names = ("TILE_M", "TILE_N", "TILE_K", "WARPS_M", "WARPS_N", "STAGES")
        values = (self.m, self.n, self.k, self.warps_m, self.warps_n, self.stages)
        return [f"{name}={value}" for name, value in zip(names, values, strict=True)]

    @property
    def shared_bytes(self) -> int:
        """The ring of buffers, or the padded tile of the result, which takes its place."""
        return max(2 * self.stages * (self.m + self.n) * self.k, 2 * self.m * (self.n + 8))

    def __str__(self) -> str:
        return f"{self.m} x {self.n} x {self.k}, {self.warps_m} x {self.warps_n} warps, {self.stages} stages"


# Whether cuBLAS was asked for 16- or 32-bit sums is not said.
TILINGS = (Tiling(128, 256, 64, 2, 4, 3), Tiling(128, 128, 32, 2, 2, 4), Tiling(64, 128, 32, 2, 2, 4), Tiling(64, 64, 32, 2, 2, 5))


@dataclass(frozen=True)
class Tuned:
    """Published rates of tuned kernels for one M = N = K, by their name. `line` of a printed table, whose first size is line 2."""

    size: int
    published: dict[str, float]
    source: str
    line: int = 2
    tilings: tuple[Tiling, ...] = TILINGS
    gpu: str = "A100"
    before: str = "cold"  # Triton's benchmark overwrites the L2 before each launch

    @property
    def part(self) -> str:
        """Development or held out."""
        return PARTS[self.line % 2]


TUTORIAL = "documentation of Triton, tutorial 03"
BY_LINE = {4: (512, 26.2, 26.2), 5: (640, 42.7, 42.7), 8: (1024, 99.9, 110.4), 9: (1152, 129.8, 135.7), 16: (2048, 190.7, 223.7)}
TUNED = [
    *(Tuned(size, {"Triton": triton, "cuBLAS": cublas}, TUTORIAL, line) for line, (size, triton, cublas) in BY_LINE.items()),
    Tuned(4096, {"Triton": 220.0, "cuBLAS": 219.7}, TUTORIAL, 32, TILINGS[:1]),
    Tuned(1024, {"Triton 3.2": 97.54, "cuBLAS": 99.86}, "issue 7085 of `triton-lang/triton`"),
    Tuned(2048, {"Triton 3.5": 101.07, "cuBLAS": 143.40}, "issue 6523 of `triton-lang/triton`"),
    Tuned(4096, {"cuBLAS": 230.0}, "README of `mli/transformers-benchmarks`, largest of several sizes", tilings=TILINGS[:1],
          before="warm"),
]  # fmt: skip


def rate_of(each: Tuned, tiling: Tiling, folder: Path) -> float:
    """TFLOPS of our own kernel as `warpsight` predicts them."""
    shape = (each.size,) * 3
    name = "_".join(map(str, (GPUS[each.gpu][1], *shape, *tiling.defines)))
    trace = kept(
        folder, name, shape, each.gpu, np.float16, source=KERNEL, kernel="gemm", block=32 * tiling.warps_m * tiling.warps_n,
        grid=each.size // tiling.m * (each.size // tiling.n), shared=tiling.shared_bytes, defines=tiling.defines,
    )  # fmt: skip
    return 2e-12 * each.size**3 / predicted(trace, each.gpu, before=each.before).seconds


def tuned(folder: Path) -> str:
    """A line for each published rate of a tuned kernel, beside that of the tiling with the shortest predicted time."""
    lines = [
        "| GPU | M = N = K | part | kernel | published | best tiling | `warpsight` | error | source |",
        "|---|---:|---|---|---:|---|---:|---:|---|",
    ]
    for each in TUNED:
        fitting = [tiling for tiling in each.tilings if each.size % tiling.m == 0 == each.size % tiling.n]
        rate, best = max(((rate_of(each, tiling, folder), tiling) for tiling in fitting), key=lambda pair: pair[0])
        assert rate <= peak(each.gpu), f"{each}: above the peak"
        for kernel, published in each.published.items():
            first = f"| {each.gpu} | {each.size} | {each.part} | {kernel} | {published:.1f} | {best}"
            lines.append(f"{first} | {_errors([rate], published)} | {each.source} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables; with --write also keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True, help=f"folder with a checkout of {LADDER}")
    parser.add_argument("--traces", type=Path, help="folder that keeps the traces")
    parser.add_argument("--write", action="store_true", help=f"rewrite the tables in {PAGE.name}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.traces or Path(scratch)
        found = rates_of(arguments.sources, folder)
        tables = {"ladder": ladder(found), "tau": taus(found), "means": means(found)}
        tables |= {"profiled": profiled(arguments.sources, folder), "tuned": tuned(folder)}
        tables["power"] = power(arguments.sources, folder)
    print(*tables.values(), sep="\n\n")
    if arguments.write:
        put(PAGE, COMMAND, tables)


if __name__ == "__main__":
    main()
