"""Predicts products of matrices on tensor cores, and compares their rates with those that others measured and published.

    python validation/tensor_times.py [--traces FOLDER] [--write]     # prints the tables, writes the page

The kernel is `validation/hardware/gemm.cu`, with the tiles, warps and stages of the one that was measured. FOLDER keeps traces, of
which one takes up to a minute to make. The simulator runs where a launch has at most 10 million warp instructions.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from pathlib import Path

import numpy as np

import warpsight
from marked_page import put
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import peak_flops
from warpsight.result.prediction import relative_error
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import save_trace

HERE = Path(__file__).resolve().parent
PAGE, KERNEL = HERE / "hardware" / "tensor.md", HERE / "hardware" / "gemm.cu"
COMMAND = "python validation/tensor_times.py --write"
SIMULATED = 10_000_000  # warp instructions of a launch

# The workstation GPU of the second table is a larger GB202 than the catalogue's rtx5090. Its tensor cores have the same rate with
# 32- as with 16-bit sums, 1,024 operations a clock and SM, at 2.22 GHz: results/mma_rate_probe.csv of its repository.
PRO_6000 = ("core_clock=2.22GHz", "sm_count=188", "l2.size=128MiB", "l2.slices=128", "initiation.tensor_fp32acc=16 cycles")
GPUS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "A100": ("a100", "sm_80", ()), "RTX PRO 6000 Max-Q": ("rtx5090", "sm_120", PRO_6000), "RTX 4090": ("rtx4090", "sm_89", ()),
}  # fmt: skip


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


@dataclass(frozen=True)
class Row:
    """A published rate. `predicted_size`: M, N, K of the launch that is predicted, where that of `size` is too large to trace."""

    gpu: str
    size: tuple[int, int, int]
    tiling: Tiling
    tflops: float
    source: str
    half_sums: bool = False
    predicted_size: tuple[int, int, int] | None = None

    @property
    def launched(self) -> tuple[int, int, int]:
        """M, N, K of the launch that is predicted."""
        return self.predicted_size or self.size


def cube(n: int) -> tuple[int, int, int]:
    """All three sizes are `n`."""
    return n, n, n


# Of repository `waynehacking8/blackwell-tensorcore-kernels`: blocks of 128 x 128 x 32, warps of 32 x 32 or 64 x 64.
SWEEP, LADDER = "`results/mma_stage_sweep.csv`", "`results/bench_mma_session.csv`"
SLICE = (4096, 4096, 1024)
ROWS = [
    *(Row("RTX PRO 6000 Max-Q", cube(8192), Tiling(128, 128, 32, 4, 4, s), rate, SWEEP, predicted_size=SLICE)
      for s, rate in ((2, 178.78), (3, 172.72), (4, 151.68))),
    *(Row("RTX PRO 6000 Max-Q", cube(8192), Tiling(128, 128, 32, 2, 2, s), rate, SWEEP, predicted_size=SLICE)
      for s, rate in ((2, 243.73), (3, 238.37), (4, 180.28))),
    Row("RTX PRO 6000 Max-Q", cube(2048), Tiling(128, 128, 32, 4, 4, 2), 141.93, LADDER),
    Row("RTX PRO 6000 Max-Q", cube(2048), Tiling(128, 128, 32, 2, 2, 2), 207.01, LADDER),
]  # fmt: skip

# Kernels that were tuned: the best of these tilings is compared. Whether cuBLAS was asked for 16- or 32-bit sums is not said.
TILINGS = (Tiling(128, 256, 64, 2, 4, 3), Tiling(128, 128, 32, 2, 2, 4), Tiling(64, 128, 32, 2, 2, 4), Tiling(64, 64, 32, 2, 2, 5))


@dataclass(frozen=True)
class Tuned:
    """Published rates of tuned kernels for one size, by their name."""

    gpu: str
    size: tuple[int, int, int]
    published: dict[str, float]
    source: str
    tilings: tuple[Tiling, ...] = TILINGS


TUNED = [
    Tuned("A100", cube(1024), {"Triton 3.2": 97.54, "cuBLAS": 99.86}, "issue 7085 of `triton-lang/triton`"),
    Tuned("A100", cube(2048), {"Triton 3.5": 101.07, "cuBLAS": 143.40}, "issue 6523 of `triton-lang/triton`"),
    Tuned("A100", cube(4096), {"cuBLAS": 230.0}, "README of `mli/transformers-benchmarks`, largest of several sizes", TILINGS[:1]),
]


def trace_of(row: Row, folder: Path) -> KernelTrace:
    """The trace of the row's launch, from `folder` if it is there. Raises AssertionError if its product is wrong."""
    _, arch, _ = GPUS[row.gpu]
    m, n, k = row.launched
    tile, name = row.tiling, "_".join(map(str, (arch, *row.launched, *row.tiling.defines, row.half_sums)))
    if (folder / name).is_dir():
        return warpsight.load_trace(folder / name)
    random = np.random.default_rng(1)
    a, b = (random.integers(-1, 2, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    defines = tile.defines + (["HALF_SUMS"] if row.half_sums else [])
    trace = warpsight.trace(
        KERNEL, "gemm", grid=m // tile.m * (n // tile.n), block=32 * tile.warps_m * tile.warps_n, args=[a, b, c, m, n, k],
        gpu=GPUS[row.gpu][0], level="sass", arch=arch, shared=tile.shared_bytes, defines=defines,
    )  # fmt: skip
    assert np.array_equal(c[:2].astype(np.float32), a[:2].astype(np.float32) @ b.astype(np.float32)), f"{row}: wrong product"
    return save_trace(trace, folder / name)


def rates_of(row: Row, folder: Path, *, simulator: bool = True) -> dict[str, float | None]:
    """TFLOPS of the row as `warpsight` and the simulator predict them, and the peak; None where the launch is not simulated."""
    gpu, _, changes = GPUS[row.gpu]
    trace = trace_of(row, folder)
    m, n, k = row.launched

    def rate(seconds: float) -> float:
        return 2.0 * m * n * k / seconds * 1e-12

    model = warpsight.predict(trace, gpu=gpu, overrides=changes)
    simulated = simulator and trace.header.warp_instructions <= SIMULATED
    reference = warpsight.simulate(trace, gpu=gpu, overrides=changes) if simulated else None
    kind = "tensor" if row.half_sums or "tensor_fp32acc" not in load_gpu(gpu).initiation_cycles else "tensor_fp32acc"
    spec = load_gpu(gpu, changes)
    peak = peak_flops(spec, "tensor") * spec.initiation_cycles["tensor"] / spec.initiation_cycles[kind] * 1e-12
    return {"warpsight": rate(model.seconds), "simulator": rate(reference.seconds) if reference else None, "peak": peak}


def kendall(first: list[float], second: list[float]) -> float:
    """Kendall's tau-b of two lists of equal length."""
    pairs = list(combinations(zip(first, second, strict=True), 2))
    ordered = [((a[0] > b[0]) - (a[0] < b[0])) * ((a[1] > b[1]) - (a[1] < b[1])) for a, b in pairs]
    untied = [sum(a[i] != b[i] for a, b in pairs) for i in range(2)]
    return sum(ordered) / sqrt(untied[0] * untied[1])


def _cells(values: list[float | None], published: float) -> str:
    shown = [(f"{v:.1f}", f"{100 * relative_error(v, published):+.0f} %") if v is not None else ("", "") for v in values]
    return " | ".join(cell for pair in shown for cell in pair)


def configurations(folder: Path) -> tuple[str, str]:
    """A line for each published configuration, and a line of Kendall's tau for each GPU and size."""
    lines = [
        "| GPU | published for | predicted for | tile, warps, stages | TFLOPS | `warpsight` | error | simulator | error | peak |",
        "|---|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    found: dict[tuple[str, tuple[int, int, int]], list[tuple[float, ...]]] = {}
    for row in ROWS:
        rates = rates_of(row, folder)
        sizes = " | ".join(" x ".join(map(str, size)) for size in (row.size, row.launched))
        values = [rates["warpsight"], rates["simulator"]]
        lines.append(
            f"| {row.gpu} | {sizes} | {row.tiling} | {row.tflops:.1f} | {_cells(values, row.tflops)} | {rates['peak']:.0f} |"
        )
        complete = (row.tflops, *(value for value in values if value is not None))
        found.setdefault((row.gpu, row.size), []).append(complete)
    taus = ["| GPU | size | configurations | tau of `warpsight` | tau of the simulator |", "|---|---|---:|---:|---:|"]
    for (gpu, size), rows in found.items():
        published, *predicted = (list(column) for column in zip(*rows, strict=True))
        cells = " | ".join([f"{kendall(published, each):+.2f}" for each in predicted] + [""] * (2 - len(predicted)))
        taus.append(f"| {gpu} | {' x '.join(map(str, size))} | {len(rows)} | {cells} |")
    return "\n".join(lines), "\n".join(taus)


def tuned(folder: Path) -> str:
    """A line for each published rate of a tuned kernel, beside that of the tiling with the shortest predicted time."""
    lines = [
        "| GPU | size | kernel | published | best tiling | `warpsight` | error | source |",
        "|---|---|---|---:|---|---:|---:|---|",
    ]
    for each in TUNED:
        rates = {}
        for tiling in each.tilings:
            found = rates_of(Row(each.gpu, each.size, tiling, 0.0, each.source), folder, simulator=False)["warpsight"]
            assert found is not None
            rates[tiling] = found
        best, rate = max(rates.items(), key=lambda item: item[1])
        for kernel, published in each.published.items():
            lines.append(
                f"| {each.gpu} | {' x '.join(map(str, each.size))} | {kernel} | {published:.1f} | {best} | "
                f"{_cells([rate], published)} | {each.source} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Print the tables; with --write also keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, help="folder that keeps the traces")
    parser.add_argument("--write", action="store_true", help=f"rewrite the tables in {PAGE.name}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.traces or Path(scratch)
        rows, taus = configurations(folder)
        best = tuned(folder)
    print(rows, taus, best, sep="\n\n")
    if arguments.write:
        put(PAGE, COMMAND, {"configurations": rows, "tau": taus, "tuned": best})


if __name__ == "__main__":
    main()
