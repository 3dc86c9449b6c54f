"""The rows of published times, and the launches that were timed: kernels of public suites, launched as by their benchmarks.

`FOLDERS` are those of the kernels below a folder with checkouts of the repositories `Programming-Massively-Parallel-Processors`
(R100001), `Kernel_Performance_Prediction` (Debdeep23), `gpu-app-collection` (accel-sim, for PolyBench) and `cuda-samples` (NVIDIA);
the tables are `nvbench.csv`, `events.csv` and `h100.csv`.

What `h100.csv` does not say is taken from the programs: a thread for each element, the blocks' second dimension, and that
`kernelID` is the number of the kernel in the loop of `transpose`. The time of a program is that of its kernels.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec

FOLDERS = {"nvbench.csv": "Programming-Massively-Parallel-Processors/Performance-Tests-NvBench",
           "events.csv": "Kernel_Performance_Prediction/gpu-perf", "h100.csv": ""}  # fmt: skip
GPUS: dict[str, tuple[str, tuple[str, ...], float]] = {  # the catalogue's name, what is changed, and microseconds of a launch
    "RTX 2060": ("rtx2060", (), 3.0), "RTX 3080": ("rtx3080", ("core_clock=1.725GHz", "noc.bandwidth=2208GB/s"), 3.0),
    "TITAN V": ("titan-v", (), 3.5), "RTX 4070": ("rtx4070", ("dispatch.launch_interval=8us",), 8.0),
    "H100 PCIe": ("h100-pcie", (), 1.4),
}  # fmt: skip
SMALLEST = 1 << 24  # elements of a reduction, whose samples contain allocations and several launches
PRELUDE = "typedef unsigned char uint8_t; typedef unsigned int uint32_t; typedef {T} T;\n#ifndef NULL\n#define NULL 0\n#endif\n"
REDUCTIONS = ("Simple", "Adjacent", "Sequential", "Two Loads", "Unroll Last", "Completely", "Multiple")


@dataclass(frozen=True)
class Launch:
    """One launch: `arguments` are numbers, or (type, count) for an array of zeros; `inner` is the trip count of its loops."""

    source: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Any, ...]
    shared: int = 0
    inner: int = 1
    defines: tuple[tuple[str, int], ...] = ()  # what the source defines otherwise


@dataclass(frozen=True)
class Row:
    """A published time, in microseconds, of all `launches` together; `line` is its line of the table, of which the first is 1.

    `caches_before` is the L2 at the start: cold where it was flushed before each sample, else warm.
    """

    table: str
    line: int
    gpu: str
    family: str
    kernel: str
    size: str
    measured: float
    launches: tuple[Launch, ...]
    caches_before: str = "warm"

    @property
    def work(self) -> int:
        """Warps times loop iterations, to which the instructions of a kernel are proportional."""
        return sum(int(np.prod(one.grid)) * ceil(int(np.prod(one.block)) / 32) * one.inner for one in self.launches)

    @property
    def described(self) -> GpuSpec:
        """The description of the GPU that was measured."""
        name, overrides, _ = GPUS[self.gpu]
        return load_gpu(name, overrides)


def _reduction(version: int, n: int, block: int) -> Iterator[Launch]:
    grid = ceil(n / (block if version < 4 else 2 * block))
    arrays = (("u4", n), n, ("u4", grid))
    yield Launch("reduction/reduction_kernels.cuh", f"reduction{version}", (grid,), (block,), arrays, 4 * block)
    if grid > 1:
        yield from _reduction(version, grid, block)


def _convolution(name: str, p: Mapping[str, int]) -> Launch:
    variant, mask = re.sub(r"Convolution .D | and", "", name).lower().replace(" ", "_"), p["Mask width"]
    grid: tuple[int, ...]
    numbers: tuple[int, ...]
    if "1D" in name:
        n, block = p["Array size"], p["Block dim"]
        shared = {"tiled": block + mask - 1, "tiled_caching": block}.get(variant, 0)
        grid, array, taps, numbers = (ceil(n / block),), ("f4", n), mask, (mask, n)
    else:
        axis, block = p["Axis size"], p["Block axis dim"]
        tile, shared = (block - mask + 1, block * block) if variant == "tiled" else (block, 0)
        grid, array, taps = (ceil(axis / tile),) * 2, ("f4", axis * axis * p["Num channels"]), mask * mask
        numbers = (mask, mask, axis, axis, p["Num channels"])
    arrays = (array, ("f4", taps), array) if variant == "basic" else (array, array)
    source, kernel, inner = "convolution/convolution_kernels.cuh", f"convolution_{name[12:14]}_{variant}_kernel", taps * numbers[-1]
    return Launch(source, kernel, grid, (block,) * len(grid), (*arrays, *numbers), 4 * shared, taps if "1D" in name else inner)


def _nvbench(suite: str, name: str, p: Mapping[str, int]) -> tuple[Launch, ...]:
    """The launches of a sample, as the suite's `*_bench.cu` make them."""
    n, block = next(iter(p.values())), p.get("Num Threads", 512)
    source, line, square, mat = f"{suite}/{suite}_kernels.cuh", (ceil(n / block),), (ceil(n / block),) * 2, ("u4", n * n)
    if suite == "reduction":
        return tuple(_reduction(next(i for i, word in enumerate(REDUCTIONS, 1) if word in name), n, block))
    if suite == "array_add":
        kernel, arrays = f"array_add_{name.lower().replace(' ', '_')}", [("f4", n * n)] * 3
        return (Launch(source, kernel, (ceil(n / 16),) * 2, (16, 16), (*arrays, n, n)),)
    if suite == "histogram":
        kernel, shared = ("simple_histogram", 0) if name.startswith("Simple") else ("histogram_shared", 4 * p["Num Bins"])
        return (Launch(source, kernel, line, (block,), (("u4", n), ("u4", p["Num Bins"]), n, p["Num Bins"]), shared),)
    if suite == "image_to_grayscale":
        source, arguments = f"{suite}/img_to_gray_kernels.cuh", (("u1", 3 * n * n), ("u1", n * n), n, n)
        return (Launch(source, "color_to_grayscale_conversion", square, (block, block), arguments),)
    if suite == "mat_mat_mul":
        kind = "_rec_tiles" if "Rect" in name else "_tiles" if "Tiles" in name else ""
        grid, tiles = (ceil(n / (block // 2 if kind == "_rec_tiles" else block)), square[0]), {"": 0, "_tiles": 2, "_rec_tiles": 3}
        shared = 4 * tiles[kind] * block * block
        return (Launch(source, "mat_mat_mul" + kind, grid, (block, block), (mat, mat, mat, n, n, n, n), shared, n),)
    kernel, shared = ("mat_vec_mul_tiles", 4 * block) if "Shared" in name else ("mat_vec_mul", 0)
    return (Launch(source, kernel, line, (block,), (("u4", n), mat, ("u4", n), n, n), shared, n),)


def _events(kernel: str, row: Mapping[str, str]) -> Launch:
    """The launch of `runner/main.cu`."""
    n, h, w, block = int(row["n"]), int(row["rows"]), int(row["cols"]), int(row["block"])
    source, name, array, image = f"kernels/{kernel}.cuh", f"{kernel}_kernel", ("f4", n), ("f4", h * w)
    side = 32 if kernel in ("shared_transpose", "matmul_tiled") else 16
    if not n:
        taps = int(kernel[-1]) ** 2 if kernel.startswith("conv2d") else 0
        pair, other = ((image, image, h, w), 1) if "transpose" in kernel else ((image, image, image, h), h)
        arguments, inner = ((image, ("f4", taps), image, h, w), taps) if taps else (pair, other)
        return Launch(source, name, (ceil(w / side), ceil(h / side)), (side, side), arguments, inner=inner)
    # The means of atomic_hotspot are over trials of `iters` iterations and as many of twice as many (`scripts/gen_trials_*.sh`, and
    # the standard deviations, which are a third of the means): in the mean 1.5 times as many.
    sums, iterations = ("f4", ceil(n / (2 * block))), 3 * int(row["iters"]) // 2
    threads, values, shared = {
        "strided_copy_8": (ceil(n / 8), (array, array, n), 0), "random_access": (n, (array, ("i4", n), array, n), 0),
        "reduce_sum": (ceil(n / 2), (array, sums, n), 4 * block), "saxpy": (n, (2.0, array, array, array, n), 0),
        "dot_product": (ceil(n / 2), (array, array, sums, n), 4 * block),
        "histogram": (n, (("u4", n), n, ("u4", 256)), 1024), "atomic_hotspot": (n, (("u4", 1), iterations), 0),
    }.get(kernel, (n, (array, array, array, n), 0))  # fmt: skip
    return Launch(source, name, (ceil(threads / block),), (block,), values, shared, iterations or 1)


POLYBENCH = "gpu-app-collection/src/cuda/polybench-gpu-1.0/CUDA"
SAMPLES = "cuda-samples/Samples"


def _h100(benchmark: str, p: Mapping[str, int]) -> tuple[Launch, ...]:
    """The launches of a program of PolyBench or of the CUDA samples: `main` of its source with the sizes of the row."""
    if benchmark == "vectoradd":
        n = p["size"]
        source, arrays = f"{SAMPLES}/0_Introduction/vectorAdd/vectorAdd.cu", (("f4", n),) * 3
        return (Launch(source, "vectorAdd", (ceil(n / 256),), (256,), (*arrays, n)),)
    if benchmark == "transpose":
        x, y, kernel = p["dimX"], p["dimY"], ("copy", "copySharedMem", "transposeNaive")[p["kernelID"]]
        source, matrix = f"{SAMPLES}/6_Performance/transpose/transpose.cu", ("f4", x * y)
        return (Launch(source, kernel, (x // 32, y // 32), (32, 16), (matrix, matrix, x, y)),)
    n, block = p["size"], p["blockDimX"]
    defines, square, line = tuple((name, n) for name in ("NI", "NJ", "NK", "NX", "NY", "N")), ("f4", n * n), ("f4", n)
    grid, plane = (ceil(n / block),), (ceil(n / block), ceil(n / 8))
    if benchmark == "2dconv":
        source = f"{POLYBENCH}/2DCONV/2DConvolution.cu"
        return (Launch(source, "Convolution2D_kernel", plane, (block, 8), (square, square), defines=defines),)
    if benchmark == "gemm":
        return (Launch(f"{POLYBENCH}/GEMM/gemm.cu", "gemm_kernel", plane, (block, 8), (square,) * 3, inner=n, defines=defines),)
    source, arrays = f"{POLYBENCH}/{benchmark.upper()}/{benchmark}.cu", (square, line, line)
    return tuple(Launch(source, f"{benchmark}_kernel{k}", grid, (block,), arrays, inner=n, defines=defines) for k in (1, 2))


def rows(tables: Path) -> Iterator[Row]:
    """Every row of the tables, without scans, and reductions from `SMALLEST` elements: their rest is time between launches."""
    for line, each in enumerate(csv.DictReader((tables / "nvbench.csv").read_text().splitlines()), 2):
        p, suite = {k: int(v) for k, v in (pair.split("=") for pair in each["parameters"].split(";") if pair)}, each["suite"]
        if suite != "scan" and (suite != "reduction" or p["Array Size"] >= SMALLEST):
            name, size = each["benchmark"].partition(" (")[0], ", ".join(f"{k} {v}" for k, v in p.items())
            family = name[:14].lower() if suite == "convolution" else suite
            launches = (_convolution(name, p),) if suite == "convolution" else _nvbench(suite, name, p)
            measured, before = (each["batch_us"], "warm") if each["batch_us"] else (each["cold_us"], "cold")
            yield Row("nvbench.csv", line, each["gpu"], family, name, size, float(measured), launches, before)
    for line, each in enumerate(csv.DictReader((tables / "events.csv").read_text().splitlines()), 2):
        kernel, size = each["kernel"], each["n"] if int(each["n"]) else f"{each['rows']} x {each['cols']}"
        yield Row("events.csv", line, each["gpu"], kernel, kernel, size, float(each["mean_us"]), (_events(kernel, each),))
    for line, each in enumerate(csv.DictReader((tables / "h100.csv").read_text().splitlines()), 2):
        p, name = {k: int(v) for k, v in (pair.split("=") for pair in each["parameters"].split(";"))}, each["benchmark"]
        size = ", ".join(f"{k} {v}" for k, v in p.items())
        yield Row("h100.csv", line, "H100 PCIe", name, name, size, float(each["microseconds"]), _h100(name, p))


def _device_code(text: str, defines: Mapping[str, int]) -> str:
    """The kernels of a whole program, with the constants and types that it defines, some of them otherwise."""
    cooperative = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n" if "cg::" in text else ""
    constants = {m[1]: m[0] for m in re.finditer(r"^#define (\w+) .*$", text, re.MULTILINE)}
    constants |= {name: f"#define {name} {value}" for name, value in defines.items() if name in constants}
    types = re.findall(r"^typedef .*$", text, re.MULTILINE)
    return cooperative + "\n".join([*constants.values(), *types, *re.findall(r"^__global__.*?^}", text, re.MULTILINE | re.DOTALL)])


def source_of(folder: Path, launch: Launch) -> str:
    """The kernels of a launch as one text, includes dropped, templates instantiated."""
    text = (folder / launch.source).read_text()
    if launch.source.startswith((POLYBENCH, SAMPLES)):
        return _device_code(text, dict(launch.defines))
    text = re.sub(r"#include\s*<.*>|#pragma once", "", text)
    if "template" in text or "uint8_t" in text:
        element = "float" if "array_add" in text else "unsigned int"
        text = PRELUDE.replace("{T}", element) + re.sub(r"template\s*<typename T>", "", text)
    return ("__constant__ float M[121];\n" if launch.source.startswith("convolution") else "") + text
