"""Predicts kernels of two public benchmark suites as PTX and as machine code, and compares with the times that others published.

    python validation/published_times.py --sources FOLDER --tables FOLDER             # prints the tables
    python validation/published_times.py --sources FOLDER --tables FOLDER --write     # and writes them into the page

FOLDER of `--sources` holds checkouts of the repositories `Programming-Massively-Parallel-Processors` (R100001) and
`Kernel_Performance_Prediction` (Debdeep23); that of `--tables` holds their times, as `nvbench.csv` and `events.csv`. With
`--keep FILE` predictions are added to FILE and not repeated, `--only TEXT` runs the rows whose kernel contains TEXT.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from marked_page import put  # noqa: E402  found by the line above

import warpsight  # noqa: E402
from warpsight.base.errors import WarpsightError  # noqa: E402
from warpsight.gpu.loader import load_gpu  # noqa: E402
from warpsight.result.prediction import mean_absolute_percentage_error, relative_error  # noqa: E402

PAGE = HERE / "hardware" / "published-times.md"
COMMAND = "python validation/published_times.py --sources FOLDER --tables FOLDER --write"
NVBENCH, EVENTS = "Programming-Massively-Parallel-Processors/Performance-Tests-NvBench", "Kernel_Performance_Prediction/gpu-perf"
GPUS: dict[str, tuple[str, tuple[str, ...]]] = {  # the catalogue's name, and the clock of the measured board where it is another
    "RTX 2060": ("rtx2060", ()), "RTX 3080": ("rtx3080", ("core_clock=1.725GHz", "noc.bandwidth=2208GB/s")),
    "TITAN V": ("titan-v", ()), "RTX 4070": ("rtx4070", ()),
}  # fmt: skip
LEVELS, MODELS, SIMULATOR = ("ptx", "sass"), ("warpsight", "mdm", "bottleneck"), "simulator"
LIMIT, SIMULATED = 30_000_000, 1_500_000  # warp instructions of a launch: traced, and simulated
SMALLEST = 1 << 20  # elements of reductions and scans, whose samples contain allocations and several launches
PRELUDE = "typedef unsigned char uint8_t; typedef unsigned int uint32_t; typedef {T} T;\n#ifndef NULL\n#define NULL 0\n#endif\n"
CONSTANT_MASK = "__constant__ float M[121];\n"
OVER = 0.3
ISSUE_US = {"TITAN V": 3.5, "RTX 4070": 8.0, "RTX 2060": 3.0, "RTX 3080": 3.0}  # a launch of an empty kernel, back to back


@dataclass(frozen=True)
class Launch:
    """One launch: `arguments` are numbers, or (type, count) for an array of zeros. `inner` is the trip count of a thread's loops."""

    source: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Any, ...]
    shared: int = 0
    inner: int = 1
    element: str = "unsigned int"

    @property
    def work(self) -> int:
        """Warps times loop iterations, to which the instructions are proportional."""
        return int(np.prod(self.grid)) * -(-int(np.prod(self.block)) // 32) * self.inner

    @property
    def footprint(self) -> int:
        """Bytes of its arrays."""
        return sum(np.dtype(a[0]).itemsize * a[1] for a in self.arguments if isinstance(a, tuple))


@dataclass(frozen=True)
class Row:
    """A published time, in microseconds, of all `launches` together; `line` is its line of the table, of which the first is 1."""

    table: str
    line: int
    gpu: str
    family: str
    kernel: str
    size: str
    measured: float
    launches: tuple[Launch, ...]

    @property
    def part(self) -> str:
        """Even lines are for development, the others are only looked at."""
        return "held-out" if self.line % 2 else "development"


def _blocks(elements: int, block: int) -> int:
    return -(-elements // block)


def _reduction(version: int, n: int, block: int) -> Iterator[Launch]:
    while True:
        grid = _blocks(n, block if version < 4 else 2 * block)
        arrays = (("u4", n), n, ("u4", grid))
        yield Launch("reduction/reduction_kernels.cuh", f"reduction{version}", (grid,), (block,), arrays, 4 * block)
        n = grid
        if n <= 1:
            return


def _scan(kernel: str, n: int, shared: int, each: int) -> Iterator[Launch]:
    source, extra = "scan/scan_kernels.cuh", ((shared,) if kernel.startswith("three") else ())
    blocks = _blocks(n, each)
    yield Launch(source, kernel, (blocks,), (512,), (("u4", n), ("u4", n), n, *extra, ("u4", blocks)), 4 * shared)
    if blocks > each:
        yield from _scan(kernel, blocks, shared, each)
    elif blocks > 1:
        yield Launch(source, kernel, (1,), (512,), (("u4", blocks), ("u4", blocks), blocks, *extra, 0), 4 * shared)
    if blocks > 1:
        arguments = (("u4", n - each), n - each, ("u4", blocks), each)
        yield Launch(source, "add_intermediate_results", (blocks - 1,), (512,), arguments)


REDUCTIONS = ("Simple", "Adjacent", "Sequential", "Two Loads", "Unroll Last", "Completely", "Multiple")
SCANS = {"Kogge": ("Kogge_Stone_inclusive_scan", 1024, 512), "Brent": ("Brent_Kung_inclusive_scan", 2048, 1024),
         "Three": ("three_phase_parallel_inclusive_scan", 4096, 4096)}  # fmt: skip


def _convolution(name: str, p: Mapping[str, int]) -> Launch:
    mask, variant = p["Mask width"], re.sub(r"Convolution (1|2)D | and", "", name).lower().replace(" ", "_")
    source, basic = "convolution/convolution_kernels.cuh", variant == "basic"
    if "1D" in name:
        n, block = p["Array size"], p["Block dim"]
        arrays = (("f4", n), *([("f4", mask)] if basic else []), ("f4", n))
        shared = {"tiled": 4 * (block + mask - 1), "tiled_caching": 4 * block}.get(variant, 0)
        grid = (_blocks(n, block),)
        return Launch(source, f"convolution_1D_{variant}_kernel", grid, (block,), (*arrays, mask, n), shared, mask)
    axis, channels, block = p["Axis size"], p["Num channels"], p["Block axis dim"]
    arrays = (("f4", axis * axis * channels), *([("f4", mask * mask)] if basic else []), ("f4", axis * axis * channels))
    tile, shared = (block - mask + 1, 4 * block * block) if variant == "tiled" else (block, 0)
    arguments = (*arrays, mask, mask, axis, axis, channels)
    grid, inner = (_blocks(axis, tile),) * 2, mask * mask * channels
    return Launch(source, f"convolution_2D_{variant}_kernel", grid, (block, block), arguments, shared, inner)


def _nvbench(suite: str, name: str, p: Mapping[str, int]) -> tuple[Launch, ...]:
    """The launches of a sample, as the suite's `*_bench.cu` make them."""
    n = next(iter(p.values()))
    if suite == "array_add":
        kernel = "array_add_not_coalesced" if name.startswith("Not") else "array_add_coalesced"
        arguments = (*[("f4", n * n)] * 3, n, n)
        return (Launch("array_add/array_add_kernels.cuh", kernel, (_blocks(n, 16),) * 2, (16, 16), arguments, element="float"),)
    if suite == "convolution":
        return (_convolution(name, p),)
    block = p.get("Num Threads", 512)
    if suite == "histogram":
        kernel, shared = ("simple_histogram", 0) if name.startswith("Simple") else ("histogram_shared", 4 * p["Num Bins"])
        arguments = (("u4", n), ("u4", p["Num Bins"]), n, p["Num Bins"])
        return (Launch("histogram/histogram_kernels.cuh", kernel, (_blocks(n, block),), (block,), arguments, shared),)
    if suite == "image_to_grayscale":
        source, kernel = "image_to_grayscale/img_to_gray_kernels.cuh", "color_to_grayscale_conversion"
        return (Launch(source, kernel, (_blocks(n, block),) * 2, (block, block), (("u1", 3 * n * n), ("u1", n * n), n, n)),)
    if suite == "mat_mat_mul":
        kind = "_rec_tiles" if "Rect" in name else "_tiles" if "Tiles" in name else ""
        grid = (_blocks(n, block // 2 if kind == "_rec_tiles" else block), _blocks(n, block))
        shared = {"": 0, "_tiles": 8, "_rec_tiles": 12}[kind] * block * block
        arguments = (*[("u4", n * n)] * 3, n, n, n, n)
        return (Launch("mat_mat_mul/mat_mat_mul_kernels.cuh", "mat_mat_mul" + kind, grid, (block, block), arguments, shared, n),)
    if suite == "mat_vec_mul":
        kernel, shared = ("mat_vec_mul_tiles", 4 * block) if "Shared" in name else ("mat_vec_mul", 0)
        arguments = (("u4", n), ("u4", n * n), ("u4", n), n, n)
        return (Launch("mat_vec_mul/mat_vec_mul_kernels.cuh", kernel, (_blocks(n, block),), (block,), arguments, shared, n),)
    if suite == "reduction":
        version = next(i for i, word in enumerate(REDUCTIONS, 1) if word in name)
        return tuple(_reduction(version, n, block))
    return tuple(_scan(*[(k, n, s, e) for word, (k, s, e) in SCANS.items() if word in name][0]))


def _events(kernel: str, row: Mapping[str, str]) -> Launch:
    """The launch of `runner/main.cu`."""
    n, h, w, block = int(row["n"]), int(row["rows"]), int(row["cols"]), int(row["block"])
    source, name, shape, f = f"kernels/{kernel}.cuh", f"{kernel}_kernel", (16, 16), "f4"
    grid = (_blocks(n, block),)
    if kernel in ("vector_add", "vector_add_divergent", "saxpy"):
        alpha = (2.0,) if kernel == "saxpy" else ()
        return Launch(source, name, grid, (block,), (*alpha, *[(f, n)] * 3, n))
    if kernel == "strided_copy_8":
        return Launch(source, name, (_blocks(_blocks(n, 8), block),), (block,), (*[(f, n)] * 2, n))
    if kernel == "random_access":
        return Launch(source, name, grid, (block,), ((f, n), ("i4", n), (f, n), n))
    if kernel in ("reduce_sum", "dot_product"):
        blocks, arrays = _blocks(n, 2 * block), [(f, n)] * (2 if kernel == "dot_product" else 1)
        return Launch(source, name, (blocks,), (block,), (*arrays, (f, blocks), n), 4 * block)
    if kernel == "histogram":
        return Launch(source, name, grid, (block,), (("u4", n), n, ("u4", 256)), 1024)
    if kernel == "atomic_hotspot":
        return Launch(source, name, grid, (block,), (("u4", 1), int(row["iters"])), inner=int(row["iters"]))
    if kernel.startswith("conv2d"):
        taps = int(kernel[-1]) ** 2
        return Launch(source, name, (_blocks(w, 16), _blocks(h, 16)), shape, ((f, h * w), (f, taps), (f, h * w), h, w), inner=taps)
    if "transpose" in kernel:
        side = 32 if kernel.startswith("shared") else 16
        return Launch(source, name, (_blocks(w, side), _blocks(h, side)), (side, side), ((f, h * w), (f, h * w), h, w))
    side = 32 if kernel == "matmul_tiled" else 16
    return Launch(source, name, (_blocks(h, side),) * 2, (side, side), (*[(f, h * h)] * 3, h), inner=h)


def rows(sources: Path, tables: Path) -> Iterator[Row]:
    """Every row of both tables; of reductions and scans those of `SMALLEST` elements or more, for the rest is time between launches."""
    sizes = {}
    for gpu, file in (("RTX 2060", "2060"), ("RTX 3080", "3080")):  # the size of a scan is in the suite's own table alone
        with (sources / NVBENCH / "scan" / "BenchResults" / f"BenchResults{file}.csv").open() as text:
            for each in csv.DictReader(text):
                if each.get("GPU Time (sec)"):
                    sizes[gpu, each["Benchmark"], f"{1e6 * float(each['GPU Time (sec)']):.3f}"] = int(each["Num Elements"])
    with (tables / "nvbench.csv").open() as text:
        for line, each in enumerate(csv.DictReader(text), 2):
            p = {k: int(v) for k, v in (pair.split("=") for pair in each["parameters"].split(";") if pair)}
            if each["suite"] == "scan":
                p = {"Num Elements": sizes[each["gpu"], each["benchmark"], each["cold_us"]]}
            if each["suite"] in ("reduction", "scan") and next(iter(p.values())) < SMALLEST:
                continue
            name, size = each["benchmark"].partition(" (")[0], ", ".join(f"{k} {v}" for k, v in p.items())
            family = name[:14].lower() if each["suite"] == "convolution" else each["suite"]
            launches, measured = _nvbench(each["suite"], name, p), float(each["batch_us"] or each["cold_us"])
            yield Row("nvbench.csv", line, each["gpu"], family, name, size, measured, launches)
    with (tables / "events.csv").open() as text:
        for line, each in enumerate(csv.DictReader(text), 2):
            launches, size = (_events(each["kernel"], each),), each["n"] if int(each["n"]) else f"{each['rows']} x {each['cols']}"
            yield Row("events.csv", line, each["gpu"], each["kernel"], each["kernel"], size, float(each["mean_us"]), launches)


def _text(folder: Path, launch: Launch) -> str:
    """The source that is compiled: includes dropped, templates instantiated for the type that was measured, host code cut off."""
    text = re.sub(r"#include\s*<.*>|#pragma once", "", (folder / launch.source).read_text())
    text = re.sub(r"template\s*<typename T>", "", text.partition("// This function can")[0])
    head = CONSTANT_MASK if launch.source.startswith("convolution") else ""
    return (PRELUDE.replace("{T}", launch.element) if "/kernels/" not in str(folder / launch.source) else "") + head + text


@lru_cache(maxsize=4)
def traced(folder: Path, launch: Launch, level: str, gpu: str | None) -> Any:
    """The trace of a launch on zeros; PTX is the same for every GPU (None). Raises what `warpsight.trace` raises."""
    args = [np.zeros(a[1], np.dtype(a[0])) if isinstance(a, tuple) else a for a in launch.arguments]
    return warpsight.trace(_text(folder, launch), launch.kernel, grid=launch.grid, block=launch.block, args=args, shared=launch.shared,
                           gpu=gpu, level=level, max_instructions=2 * LIMIT)  # fmt: skip


def predicted(folder: Path, row: Row, level: str) -> dict[str, Any]:
    """Microseconds by model, warp instructions, and CPI stack and bound of the first launch; or what refused it."""
    name, overrides = GPUS[row.gpu]
    out: dict[str, Any] = {"us": {}, "instructions": 0, "refused": {}}
    try:
        for launch in row.launches:
            trace = traced(folder, launch, level, name if level == "sass" else None)
            count = trace.header.warp_instructions
            out["instructions"] += count
            runs: dict[str, Callable[[], Any]] = {
                model: (lambda model=model: warpsight.predict(trace, gpu=name, model=model, overrides=overrides)) for model in MODELS
            }
            if count <= SIMULATED:
                runs[SIMULATOR] = lambda: warpsight.simulate(trace, gpu=name, overrides=overrides)
            for model, run in runs.items():
                answer = run()
                if model == MODELS[0] and "stack" not in out:
                    out["stack"] = {k: round(v, 3) for k, v in answer.cpi_stack.items() if v > 0.005}
                out["us"].setdefault(model, []).append(1e6 * answer.seconds)
        out["us"] = {model: sum(times) for model, times in out["us"].items() if len(times) == len(row.launches)}
    except WarpsightError as error:
        out["us"], out["refused"] = {}, {"what": f"{type(error).__name__}: {error.what}"}
    except Exception as error:  # noqa: BLE001  a crash is a result here
        out["us"], out["refused"] = {}, {"what": f"crash: {type(error).__name__}: {error}"[:300]}
    return out
