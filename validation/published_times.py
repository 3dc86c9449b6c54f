"""Predicts kernels of two public benchmark suites as PTX and as machine code, and compares with the times that others published.

    python validation/published_times.py --sources FOLDER --tables FOLDER [--write]     # prints the tables, writes the page

FOLDER of `--sources` holds checkouts of the repositories `Programming-Massively-Parallel-Processors` (R100001),
`Kernel_Performance_Prediction` (Debdeep23), `gpu-app-collection` (accel-sim, for PolyBench) and `cuda-samples` (NVIDIA); that of
`--tables` holds published times, as `nvbench.csv`, `events.csv` and `h100.csv`.

What `h100.csv` does not say is taken from the programs: a thread for each element, the blocks' second dimension, and that
`kernelID` is the number of the kernel in the loop of `transpose`. The time of a program is that of its kernels.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import warpsight  # noqa: E402
from marked_page import put  # noqa: E402  found by the line above
from warpsight.gpu.loader import load_gpu  # noqa: E402
from warpsight.models.warpsight import WARPSIGHT_PARTS  # noqa: E402
from warpsight.pipeline.predict import LaunchesInOrder  # noqa: E402
from warpsight.pipeline.request import AUTO, CARRIED, COLD, Method  # noqa: E402
from warpsight.pipeline.simulation import simulate_trace  # noqa: E402
from warpsight.reports.drawing.charts import LOG, Axis, Dot, Scatter  # noqa: E402
from warpsight.reports.drawing.svg import svg  # noqa: E402
from warpsight.result.prediction import STRUCT_PARTS, relative_error  # noqa: E402

PAGE = HERE / "hardware" / "published-times.md"
PICTURE = HERE.parent / "docs" / "images" / "published-times.svg"
COMMAND = "python validation/published_times.py --sources FOLDER --tables FOLDER --write"
FOLDERS = {"nvbench.csv": "Programming-Massively-Parallel-Processors/Performance-Tests-NvBench",
           "events.csv": "Kernel_Performance_Prediction/gpu-perf", "h100.csv": ""}  # fmt: skip
GPUS: dict[str, tuple[str, tuple[str, ...], float]] = {  # the catalogue's name, what is changed, and microseconds of a launch
    "RTX 2060": ("rtx2060", (), 3.0), "RTX 3080": ("rtx3080", ("core_clock=1.725GHz", "noc.bandwidth=2208GB/s"), 3.0),
    "TITAN V": ("titan-v", (), 3.5), "RTX 4070": ("rtx4070", ("dispatch.launch_interval=8us",), 8.0),
    "H100 PCIe": ("h100-pcie", (), 1.4),
}  # fmt: skip
LEVELS, MODELS, SIMULATOR = ("ptx", "sass"), ("warpsight", "mdm", "bottleneck"), "simulator"
WITHOUT = [f"{MODELS[0]}~{part}" for part in WARPSIGHT_PARTS]  # machine code alone
LIMIT, SIMULATED = 30_000_000, 1_500_000  # warp instructions (as PTX) of a row, and of a launch that is simulated too
PARTS = ("development", "held out")  # even lines of a table, which errors may be looked for in, and odd ones
MOST_THREADS, FAR_APART = 1024, 4096  # of a block; columns of a matrix
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
    sums, iterations = ("f4", ceil(n / (2 * block))), int(row["iters"])
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
        source, arrays = f"{SAMPLES}/0_Introduction/vectorAdd/vectorAdd.cu", [("f4", n)] * 3
        return (Launch(source, "vectorAdd", (ceil(n / 256),), (256,), (*arrays, n)),)
    if benchmark == "transpose":
        x, y, kernel = p["dimX"], p["dimY"], ("copy", "copySharedMem", "transposeNaive")[p["kernelID"]]
        source, arrays = f"{SAMPLES}/6_Performance/transpose/transpose.cu", [("f4", x * y)] * 2
        return (Launch(source, kernel, (x // 32, y // 32), (32, 16), (*arrays, x, y)),)
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


@lru_cache(maxsize=4)
def traced(folder: Path, launch: Launch, level: str, gpu: str | None) -> Any:
    """The trace of a launch on zeros, includes dropped, templates instantiated; PTX is the same for every GPU (None)."""
    text = (folder / launch.source).read_text()
    if launch.source.startswith((POLYBENCH, SAMPLES)):
        text = _device_code(text, dict(launch.defines))
    else:
        text = re.sub(r"#include\s*<.*>|#pragma once", "", text)
    if not launch.source.startswith((POLYBENCH, SAMPLES)) and ("template" in text or "uint8_t" in text):
        element = "float" if "array_add" in text else "unsigned int"
        text = PRELUDE.replace("{T}", element) + re.sub(r"template\s*<typename T>", "", text)
    head = "__constant__ float M[121];\n" if launch.source.startswith("convolution") else ""
    args = [np.zeros(a[1], np.dtype(a[0])) if isinstance(a, tuple) else a for a in launch.arguments]
    return warpsight.trace(head + text, launch.kernel, grid=launch.grid, block=launch.block, args=args, shared=launch.shared,
                           gpu=gpu, level=level, max_instructions=2 * LIMIT)  # fmt: skip


def predicted(folder: Path, row: Row, level: str) -> dict[str, Any]:
    """Microseconds by model, warp instructions, and the CPI stack of the first launch; or why there is none.

    Where the first launch finds a cold L2, the others find what those before them have left.
    """
    (name, overrides, _), out = GPUS[row.gpu], dict[str, Any](us={}, instructions=0, refused={})
    gpu, left = load_gpu(name, overrides), None
    in_order = LaunchesInOrder(gpu, Method(caches_before=AUTO if row.caches_before == COLD else row.caches_before))
    try:
        for launch in row.launches:
            trace = traced(folder, launch, level, name if level == "sass" else None)
            out["instructions"] += trace.header.warp_instructions
            predict = in_order.launch(trace)
            for answer in map(predict, MODELS if level == "ptx" else (*MODELS, *WITHOUT)):
                out.setdefault("stack", {k: round(v, 3) for k, v in answer.cpi_stack.items() if v > 0.005})
                out["us"].setdefault(answer.model, []).append(1e6 * answer.seconds)
            if trace.header.warp_instructions <= SIMULATED:
                state = row.caches_before if left is None else CARRIED
                simulated = simulate_trace(trace, gpu, caches_before=state, l2_before=left)
                left = simulated.simulation.l2_left if row.caches_before == COLD else None
                out["us"].setdefault(SIMULATOR, []).append(1e6 * simulated.prediction.seconds)
        # launches back to back between two events: a short kernel shows the rate at which the host issues them
        least = 1e-3 * gpu.dispatch.launch_interval_ns if row.table == "events.csv" else 0.0
        out["us"] = {m: max(least, sum(times)) for m, times in out["us"].items() if len(times) == len(row.launches)}
    except Exception as error:  # a crash is a result here
        out["us"], out["refused"] = {}, {"what": f"{type(error).__name__}: {error}"[:300]}
    return out


def cause(row: Row, us: float, stack: Mapping[str, float]) -> str:
    """What the models leave out that fits the launch, the CPI stack, and the sign of the error: a guess by rule."""
    first = row.launches[0]
    bytes_ = max(sum(np.dtype(a[0]).itemsize * a[1] for a in one.arguments if isinstance(a, tuple)) for one in row.launches)
    if row.table == "events.csv" and row.measured <= 1.3 * GPUS[row.gpu][2]:
        return "rate at which the host issues launches"
    if "atomic" in row.kernel or "istogram" in row.kernel:
        return "atomics to one address"
    if us > row.measured and np.prod(first.block) >= MOST_THREADS:
        return "warps of a block of 1,024 threads overlap, which are in step in the model"
    if us < row.measured and row.family == "mat_vec_mul" and first.inner >= FAR_APART:
        return "lanes load from rows that are 16 KiB apart or more: DRAM opens a row for each"
    if us < row.measured and bytes_ <= 1.4 * load_gpu(GPUS[row.gpu][0]).l2.size_bytes:
        return "data that fit or almost fit in the L2, of which not all may be used; barriers"
    if sum(stack.get(each, 0) for each in ("base", "com_data", "com_struct", *STRUCT_PARTS)) > 0.7 * sum(stack.values()):
        return "not memory: what the pipes execute in a cycle"
    return "not known"


def tau(measured: list[float], found: list[float]) -> float:
    """Kendall's tau: of all pairs, the share in the same order less that in the other."""
    pairs = itertools.combinations(zip(measured, found, strict=True), 2)
    return statistics.mean(float(np.sign((a[0] - b[0]) * (a[1] - b[1]))) for a, b in pairs)


Kept = dict[tuple[str, int, str], dict[str, Any]]
COLUMNS = [(level, model) for level in LEVELS for model in (*MODELS, SIMULATOR)]
HEAD, RULE = " | ".join(f"{level} `{model}`" for level, model in COLUMNS), "---:|" * len(COLUMNS)


def pages(kept: Kept, every: list[Row], large: list[Row]) -> dict[str, str]:
    """The tables of the page by name."""
    both = [r for r in every if all(kept.get((r.table, r.line, level), {}).get("us") for level in LEVELS)]
    errors = [f"| table | rows | family | number | simulated | {HEAD} |", f"|---|---|---|---:|---:|{RULE}"]
    for table, (odd, part) in itertools.product(FOLDERS, enumerate(PARTS)):
        chosen = [r for r in both if (r.table, r.line % 2) == (table, odd)]
        for family in [*sorted({r.family for r in chosen}), "all", "all: median"]:
            some = [r for r in chosen if family.startswith("all") or family == r.family]
            pairs = [[(kept[r.table, r.line, level]["us"].get(model), r.measured) for r in some] for level, model in COLUMNS]
            columns = [[100 * abs(relative_error(*pair)) for pair in column if pair[0] is not None] for column in pairs]
            mean = statistics.median if "median" in family else statistics.mean
            cells = " | ".join(f"{mean(c):.0f} %" if c else "" for c in columns)
            errors.append(f"| {table} | {part} | {family} | {len(some)} | {len(columns[len(MODELS)])} | {cells} |")
    ranks = [f"| family | GPU | size | kernels | {HEAD} |", f"|---|---|---|---:|{RULE}"]
    for gpu, family in itertools.product(GPUS, ("reduction", "mat_mat_mul", "histogram", "convolution 1d", "convolution 2d")):
        sizes: dict[str, dict[str, Row]] = defaultdict(dict)
        for r in (r for r in both if (r.table, r.gpu, r.family) == ("nvbench.csv", gpu, family)):
            sizes[r.size][r.kernel] = r
        some = list(max(sizes.values(), key=lambda s: (len(s), sum(r.measured for r in s.values())), default={}).values())
        if len(some) > 1:
            found = [[kept[r.table, r.line, level]["us"].get(model) for r in some] for level, model in COLUMNS]
            cells = " | ".join("" if None in column else f"{tau([r.measured for r in some], column):+.2f}" for column in found)
            ranks.append(f"| {family} | {gpu} | {some[0].size} | {len(some)} | {cells} |")
    misses = ["| line | GPU | kernel | size | measured | ptx | sass | error | cause |", "|---|---|---|---|" + "---:|" * 4 + "---|"]
    for r in both:
        ptx, sass = (kept[r.table, r.line, level]["us"][MODELS[0]] for level in LEVELS)
        if abs(error := relative_error(sass, r.measured)) > 0.3:
            text = cause(r, sass, kept[r.table, r.line, LEVELS[1]]["stack"])
            cells = f"{r.measured:,.1f} | {ptx:,.1f} | {sass:,.1f} | {100 * error:+.0f} % | {text}"
            misses.append(f"| {r.table}, {r.line} | {r.gpu} | {r.kernel} | {r.size} | {cells} |")
    used = [f"| table | family | {' | '.join(PARTS)} | refused or not run | too large |", "|---|---|---|---|---|---:|"]
    for table, family in sorted({(r.table, r.family) for r in every}):
        sets: list[list[str]] = [[], [], [], []]
        for r in (r for r in every if (r.table, r.family) == (table, family)):
            sets[r.line % 2 if r in both else 3 if r in large else 2].append(str(r.line))
        used.append(f"| {table} | {family} | {' | '.join(map(', '.join, sets[:3]))} | {len(sets[3])} rows |")
    named = ("errors", errors), ("without", _without(kept, both)), ("ranks", ranks), ("misses", misses), ("rows", used)
    return {name: "\n".join(text) for name, text in named}


def _without(kept: Kept, chosen: list[Row]) -> list[str]:
    """The mean error of the model with each of its parts left out, machine code."""
    columns = list(itertools.product(FOLDERS, enumerate(PARTS)))
    lines = [f"| without | {' | '.join(f'{table}, {part}' for table, (_, part) in columns)} |", "|---|" + "---:|" * len(columns)]
    for model in (MODELS[0], *WITHOUT):
        cells = []
        for table, (odd, _) in columns:
            some = [r for r in chosen if (r.table, r.line % 2) == (table, odd)]
            times = [(kept[r.table, r.line, LEVELS[1]]["us"].get(model), r.measured) for r in some]
            errors = [100 * abs(relative_error(us, measured)) for us, measured in times if us is not None]
            cells.append(f"{statistics.mean(errors):.1f} %" if errors else "")
        lines.append(f"| {model.partition('~')[2] or '(the whole model)'} | {' | '.join(cells)} |")
    return lines


def picture(kept: Kept, every: list[Row]) -> str:
    """Predicted over measured times of all rows, machine code, as SVG: a point a row, a colour a GPU."""
    times: dict[str, list[Dot]] = defaultdict(list)
    for r in every:
        us = kept.get((r.table, r.line, LEVELS[1]), {}).get("us", {}).get(MODELS[0])
        if us is not None:
            times[r.gpu].append(Dot(r.measured, us, f"{r.kernel}, {r.size}: {us:,.1f} us for {r.measured:,.1f}"))
    axes = Axis("measured", "us", LOG), Axis("predicted", "us", LOG)
    return svg(Scatter("Predicted and measured times of kernels on real GPUs", *axes, sorted(times.items()), diagonal=True))


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sources", type=Path, required=True, help="folder with the checkouts")
    parser.add_argument("--tables", type=Path, required=True, help="folder with nvbench.csv, events.csv and h100.csv")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="file of predictions, which are not repeated")
    parser.add_argument("--only", default="", help="predict kernels whose name contains this; others are reported if kept")
    parser.add_argument("--table", choices=FOLDERS, help="predict rows of this table; others are reported if kept")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    options = parser.parse_args()
    lines = options.keep.read_text().splitlines() if options.keep.exists() else []
    kept: Kept = {(each["table"], each["line"], each["level"]): each for each in map(json.loads, lines)}
    every, large, share = list(rows(options.tables)), list[Row](), dict[str, float]()
    for r in sorted(every, key=lambda r: (r.work, r.launches[0].kernel, r.gpu)):
        if share.get(first := r.launches[0].kernel, 0) * r.work > LIMIT:  # by the instructions of a smaller row of the kernel
            large.append(r)
        for level in () if r in large else LEVELS:
            if (r.table, r.line, level) not in kept and options.only in r.kernel and options.table in (None, r.table):
                out = predicted(options.sources / FOLDERS[r.table], r, level)
                kept[r.table, r.line, level] = out = {"table": r.table, "line": r.line, "level": level, **out}
                with options.keep.open("a") as file:
                    print(json.dumps(out), file=file)
        if count := kept.get((r.table, r.line, LEVELS[0]), {}).get("instructions"):
            share[first] = count / r.work
    print(*(tables := pages(kept, every, large)).values(), sep="\n\n")
    if options.write:
        put(PAGE, COMMAND, tables)
        PICTURE.write_text(picture(kept, every))


if __name__ == "__main__":
    main()
