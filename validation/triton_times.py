"""Predicts kernels of Triton's tutorials on Hopper GPUs, and compares their rates with those that others measured and published.

    python validation/triton_times.py --tutorials FOLDER [--traces FOLDER] [--only TEXT] [--write]

FOLDER of `--tutorials` is `python/tutorials` of a checkout of Triton of the version that is installed (`pip install
'warpsight[triton]' torch pytest`); nothing of it is kept here. FOLDER of `--traces` keeps traces, of which one takes up to minutes
to make. `--only` predicts the rows whose source has the text. `--write` puts the tables into the page.

Rows at even lines of a table are for development, those at odd lines are held out, as in `published_times.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import prod
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

import numpy as np
import torch

import warpsight
from marked_page import put
from published_times import tau
from tensor_times import PAGE, PARTS, SIMULATED
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.operations import peak_flops
from warpsight.programs.script import ScriptDevice, seen_by_scripts
from warpsight.programs.session import Observer
from warpsight.result.prediction import relative_error
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import save_trace

COMMAND = "python validation/triton_times.py --tutorials FOLDER --write"
SXM, PCIE, UNLIMITED = "H100 SXM", "H100 PCIe", "H100 PCIe without limit"
GPUS: dict[str, tuple[str, tuple[str, ...]]] = {  # the catalogue's name, and what is changed
    SXM: ("h100-sxm", ()), PCIE: ("h100-pcie", ()), UNLIMITED: ("h100-pcie", ("power.limit=0W",)),
}  # fmt: skip


@dataclass(frozen=True)
class Work:
    """A launch of a tutorial's kernel: its configuration, and its grid, which may be a slice of the published launch.

    `shape`: M, N, K of a product; length and width of the heads of attention. `operations`: two for each multiply-add
    of products.
    """

    tutorial: str
    shape: tuple[int, ...]
    configuration: tuple[tuple[str, int], ...]
    grid: tuple[int, ...]
    operations: float

    @property
    def name(self) -> str:
        """Of its trace, without the GPU."""
        numbers = (*self.shape, *(value for _, value in self.configuration), *self.grid)
        return "_".join((Path(self.tutorial).stem, *map(str, numbers)))


@dataclass(frozen=True)
class Row:
    """A published rate in TFLOPS, at line `line` of its table, whose head is line 1."""

    source: str
    line: int
    gpu: str
    problem: str
    tflops: float
    work: Work

    @property
    def part(self) -> str:
        """Development or held out."""
        return PARTS[self.line % 2]


Launch = tuple[Any, dict[str, Any], Callable[[], bool]]  # the kernel, what `warpsight.trace` gets, and whether the result is right


def _integers(rows: int, columns: int, seed: int) -> np.ndarray[Any, np.dtype[np.float16]]:
    """A matrix whose products are exact."""
    return np.random.default_rng(seed).integers(-1, 2, (rows, columns)).astype(np.float16)


# -- Tutorial 03, a product of matrices. Up to 2816 the times are 82 to 90 us for any size, in which Python issues a launch.

PRODUCT = "03-matrix-multiplication.py"
PRODUCTS = {23: (2944, 471.4), 24: (3072, 524.7)}  # line: M = N = K, TFLOPS
_TILING = (
    ("BLOCK_SIZE_M", 128), ("BLOCK_SIZE_N", 256), ("BLOCK_SIZE_K", 64), ("GROUP_SIZE_M", 8), ("num_stages", 3), ("num_warps", 8)
)  # fmt: skip


def products() -> list[Row]:
    """The rows, with the first configuration of the tutorial's list."""
    return [
        Row("issue 3672 of `triton-lang/triton`", line, SXM, f"03, {size}", rate,
            Work(PRODUCT, (size,) * 3, _TILING, (-(-size // 128) * -(-size // 256),), 2.0 * size**3))
        for line, (size, rate) in PRODUCTS.items()
    ]  # fmt: skip


def _product(module: ModuleType, work: Work) -> Launch:
    size = work.shape[0]
    a, b, c = _integers(size, size, 1), _integers(size, size, 2), np.zeros((size, size), np.float16)
    args = [a, b, c, size, size, size, size, 1, size, 1, size, 1]
    launch = {"grid": work.grid, "args": args, "constants": {"ACTIVATION": "", **dict(work.configuration)}}
    return module.matmul_kernel, launch, lambda: np.array_equal(c[:2], a[:2].astype(np.float32) @ b)


# -- Tutorial 06, attention without a mask. A block attends to all keys; of the heads there are as many as fill the GPU once.

ATTENTION = "06-fused-attention.py"
_TRITON, _ON_PCIE = "pull request 205 of `facebookexperimental/triton`", "issue 1777 of `Dao-AILab/flash-attention`"
ATTENTIONS = {  # source and GPU: width of the heads, stages, and by line the length and TFLOPS
    (_ON_PCIE, PCIE): (64, 3, {2: (1024, 230.0), 3: (2048, 233.0), 4: (4096, 239.0)}),
    (_ON_PCIE, UNLIMITED): (64, 3, {2: (1024, 230.0), 3: (2048, 233.0), 4: (4096, 239.0)}),
    (_TRITON, SXM): (128, 2, {2: (1024, 406.8), 3: (2048, 427.8)}),
    ("issue 141 of `meta-pytorch/tritonbench`", SXM): (128, 2, {2: (8192, 469.1)}),
}


def attentions() -> list[Row]:
    """The rows, with tiles of 128 queries and 64 keys."""
    rows = []
    for (source, gpu), (width, stages, published) in ATTENTIONS.items():
        tiling = (("BLOCK_M", 128), ("BLOCK_N", 64), ("num_stages", stages), ("num_warps", 4))
        for line, (length, rate) in published.items():
            blocks = 2 * load_gpu(GPUS[gpu][0]).sm_count
            of_a_head = max(count for count in range(1, length // 128 + 1) if blocks % count == 0)
            work = Work(ATTENTION, (length, width), tiling, (of_a_head, blocks // of_a_head), 4.0 * blocks * 128 * length * width)
            rows.append(Row(source, line, gpu, f"06, heads of {width}, length {length}", rate, work))
    return rows


def _attention(module: ModuleType, work: Work) -> Launch:
    (length, width), heads = work.shape, work.grid[1]
    random, shape = np.random.default_rng(1), [heads * length, width]
    tensors = [torch.from_numpy((random.standard_normal(shape) / 2).astype(np.float16)) for _ in range(3)]
    tensors.append(torch.zeros_like(tensors[0]))
    described = [module.TensorDescriptor(each, shape, [width, 1], [1, 1]) for each in tensors]
    flags = {"FP8_OUTPUT": False, "STAGE": 1, "warp_specialize": False, "IS_HOPPER": True}
    launch = {
        "grid": work.grid, "args": [0.5, np.zeros(heads * length, np.float32), 1, heads, *described],
        "constants": {"N_CTX": length, "HEAD_DIM": width, **flags, **dict(work.configuration)},
    }  # fmt: skip

    def right() -> bool:
        q, k, v = (each[:length].float() for each in tensors[:3])
        expected = torch.softmax(0.5 * q[:16] @ k.T, 1) @ v
        return torch.allclose(expected, tensors[3][:16].float(), atol=1e-2)

    return module._attn_fwd, launch, right


# -- Tutorial 05 of Gluon: products of 8192 x 8192 x 16384 whose copies and products wait for each other, or have two buffers.

GLUON, DEPTH, SMS = "gluon/05-wgmma.py", 2048, 132
TILES = {  # by line: the tile, the warps, TFLOPS
    "one buffer": {
        2: (128, 256, 256, 8, 412.1), 3: (256, 128, 256, 8, 387.7), 4: (64, 256, 128, 4, 474.0), 5: (64, 128, 256, 4, 355.6),
        6: (128, 128, 128, 4, 441.9), 7: (128, 128, 128, 8, 380.1),
    },
    "two buffers": {
        2: (128, 256, 128, 8, 426.1), 3: (256, 128, 128, 8, 385.9), 4: (64, 256, 64, 4, 417.5), 5: (64, 128, 128, 4, 385.0),
        6: (128, 128, 64, 4, 495.3), 7: (128, 128, 64, 8, 446.8), 8: (64, 256, 128, 4, 363.4),
    },
}  # fmt: skip


def tiles() -> list[Row]:
    """The rows: of each whole waves of blocks, about as many in M as the published product has, and `DEPTH` of the inner dimension.

    An SM has room for one or two blocks, and for three of the tiles of 128 x 128 with four warps: two blocks each, or three.
    """
    rows = []
    for buffers, (title, published) in enumerate(TILES.items(), 1):
        for line, (m, n, k, warps, rate) in published.items():
            blocks = SMS * (3 if (m, n, warps) == (128, 128, 4) else 2)
            grid = 33 * 256 // m, blocks * m // (33 * 256)
            shape = grid[0] * m, grid[1] * n, DEPTH
            tiling = (("BLOCK_M", m), ("BLOCK_N", n), ("BLOCK_K", k), ("num_warps", warps), ("buffers", buffers))
            work = Work(GLUON, shape, tiling, grid, 2.0 * prod(shape))
            rows.append(Row(f"Gluon's tutorial 05, {title}", line, SXM, f"Gluon 05, {title}", rate, work))
    return rows


def _tiles(module: ModuleType, work: Work) -> Launch:
    (rows, columns, depth), of = work.shape, dict(work.configuration)
    a, b = (torch.from_numpy(_integers(*shape)) for shape in ((rows, depth, 1), (depth, columns, 2)))
    c = torch.zeros((rows, columns), dtype=torch.float16)
    m, n, k = of["BLOCK_M"], of["BLOCK_N"], of["BLOCK_K"]
    described = [
        module.TensorDescriptor.from_tensor(each, block, module.gl.NVMMASharedLayout.get_default_for(block, module.gl.float16))
        for each, block in ((a, [m, k]), (b, [k, n]), (c, [m, n]))
    ]
    one = of["buffers"] == 1
    constants = {"num_warps": of["num_warps"], **({"TRANSPOSE_B": False} if one else {})}
    kernel = module.blocked_matmul_kernel if one else module.blocked_matmul_pipelined_kernel
    launch = {"grid": work.grid, "args": described, "constants": constants}
    return kernel, launch, lambda: torch.equal(c[:2].float(), a[:2].float() @ b.float())


# -- Traces and times.

_LAUNCHES: dict[str, Callable[[ModuleType, Work], Launch]] = {PRODUCT: _product, ATTENTION: _attention, GLUON: _tiles}


@cache
def _module(path: Path, gpu: str) -> ModuleType:
    """A tutorial, imported as on this GPU, without what tutorial 03 does when it is imported."""
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    assert spec is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    with seen_by_scripts(ScriptDevice(load_gpu(gpu), None, Observer(), 0)):
        exec(compile(path.read_text().partition("# %%\n# Unit Test")[0], path, "exec"), module.__dict__)
    return module


def trace_of(row: Row, tutorials: Path, folder: Path) -> KernelTrace:
    """The trace, from `folder` if it is there. Raises AssertionError if the result is wrong."""
    device, work = GPUS[row.gpu][0], row.work
    place = folder / f"{device}_{work.name}"
    if not place.is_dir():
        kernel, launch, right = _LAUNCHES[work.tutorial](_module(tutorials / work.tutorial, device), work)
        trace = warpsight.trace(kernel, gpu=device, level="sass", **launch)
        assert right(), f"{place.name}: wrong result"
        return save_trace(trace, place)
    return warpsight.load_trace(place)


def rates_of(row: Row, tutorials: Path, folder: Path) -> list[float | None]:
    """TFLOPS by `warpsight` and by the simulator, None where the launch is too large. Triton's benchmarks overwrite the L2."""
    trace = trace_of(row, tutorials, folder)
    name, changes = GPUS[row.gpu]
    seconds = [warpsight.predict(trace, gpu=name, overrides=changes, caches_before="cold").seconds]
    if trace.header.warp_instructions <= SIMULATED:
        seconds.append(warpsight.simulate(trace, gpu=name, overrides=changes, caches_before="cold").seconds)
    rates = [1e-12 * row.work.operations / each for each in seconds]
    assert max(rates) <= 1e-12 * peak_flops(load_gpu(name, changes), "tensor"), f"{row}: above the peak"
    print(row.work.name, trace.header.warp_instructions, rates, file=sys.stderr, flush=True)
    return [*rates, None][:2]


# -- The tables.

Rates = Mapping[Row, Sequence[float | None]]


def table(rates: Rates) -> str:
    """A line for each row."""
    lines = [
        "| source, line | part | GPU | tutorial, problem | configuration | TFLOPS | `warpsight` | error | simulator | error |",
        "|---|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row, found in rates.items():
        cells = [f"{x:.1f} | {100 * relative_error(x, row.tflops):+.0f} %" if x is not None else " | " for x in found]
        tiling = " ".join(str(value) for _, value in row.work.configuration)
        first = f"| {row.source}, {row.line} | {row.part} | {row.gpu} | {row.problem} | {tiling} | {row.tflops:.1f} |"
        lines.append(f"{first} {' | '.join(cells)} |")
    return "\n".join(lines)


def sums(rates: Rates) -> str:
    """The mean error of each source's rows, and Kendall's tau of several."""
    lines = [
        "| source | GPU | rows | mean of the errors | mean of their magnitudes | tau of `warpsight` |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (source, gpu), group in groupby(rates, lambda row: (row.source, row.gpu)):
        rows = list(group)
        found = [float(rates[row][0] or 0.0) for row in rows]
        errors = [100 * relative_error(rate, row.tflops) for rate, row in zip(found, rows, strict=True)]
        order = f"{tau([row.tflops for row in rows], found):+.2f}" if len(rows) > 2 else ""
        lines.append(f"| {source} | {gpu} | {len(rows)} | {mean(errors):+.0f} % | {mean(map(abs, errors)):.0f} % | {order} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables; with --write also keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutorials", type=Path, required=True, help="python/tutorials of a checkout of Triton")
    parser.add_argument("--traces", type=Path, help="folder that keeps the traces")
    parser.add_argument("--only", default="", help="predict the rows whose source has this text")
    parser.add_argument("--write", action="store_true", help=f"rewrite the tables in {PAGE.name}")
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write needs all rows: leave out --only")
    rows = [row for row in (*products(), *attentions(), *tiles()) if arguments.only in row.source]
    with tempfile.TemporaryDirectory() as scratch:
        rates = {row: rates_of(row, arguments.tutorials, arguments.traces or Path(scratch)) for row in rows}
    tables = {"tutorials": table(rates), "tutorial sums": sums(rates)}
    print(*tables.values(), sep="\n\n")
    if arguments.write:
        put(PAGE, COMMAND, tables)


if __name__ == "__main__":
    main()
