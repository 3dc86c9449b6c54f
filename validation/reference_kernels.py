"""The launches behind the reference figures: every kernel of `kernels.cu` with the inputs that its own `main` makes.

The inputs come from the generator in that file, x' = 1664525 x + 1013904223 (mod 2^32) from 12345, in the order in which `main`
draws them (arguments right to left, as the compiler of the reference evaluated them).
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT.parent / "shared" / "reference"
SOURCE = REFERENCE / "kernels" / "kernels.cu"
CYCLES = REFERENCE / "cycles.csv"

Array = npt.NDArray[Any]


class Generator:
    """The reference program's generator of inputs."""

    def __init__(self) -> None:
        self.state = np.uint32(12345)

    def draw(self, count: int) -> npt.NDArray[np.uint32]:
        """The next `count` numbers. Each doubling applies the generator's power to what is already there."""
        out = np.empty(count, dtype=np.uint32)
        a, c = 1664525, 1013904223
        out[0] = (a * int(self.state) + c) & 0xFFFFFFFF
        have = 1
        while have < count:
            step = min(have, count - have)
            out[have : have + step] = out[:step] * np.uint32(a) + np.uint32(c)
            c = (a * c + c) & 0xFFFFFFFF
            a = (a * a) & 0xFFFFFFFF
            have += step
        self.state = out[-1]
        return out

    def floats(self, count: int) -> npt.NDArray[np.float32]:
        """Uniform in [0, 1) with 24 bits."""
        return (self.draw(count) >> np.uint32(8)).astype(np.float32) * np.float32(1 / 16777216)

    def indices(self, count: int, below: int) -> npt.NDArray[np.int32]:
        """Integers below `below`."""
        return (self.draw(count) % np.uint32(below)).astype(np.int32)

    def graph(self, nodes: int, degree: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Row starts and columns of a random graph: a node draws its degree, then its neighbours."""
        start = self.state
        numbers = self.draw(nodes * (2 * degree + 1))
        rows, columns, position = np.zeros(nodes + 1, dtype=np.int32), [], 0
        for node in range(nodes):
            size = 1 + int(numbers[position]) % (2 * degree)
            columns.append(numbers[position + 1 : position + 1 + size])
            position += 1 + size
            rows[node + 1] = rows[node] + size
        self.state = numbers[position - 1] if position else start
        return rows, (np.concatenate(columns) % np.uint32(nodes)).astype(np.int32)


@dataclass(frozen=True)
class ReferenceLaunch:
    """One launch: kernel name, grid, block and arguments (NumPy arrays and ints)."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: list[Any]


def _vector_add(g: Generator, size: int | None) -> ReferenceLaunch:
    n = size or 1 << 18
    c, b, a = g.floats(n), g.floats(n), g.floats(n)
    return ReferenceLaunch("vector_add", (n // 256,), (256,), [a, b, c, n])


def _grid_stride(g: Generator, size: int | None) -> ReferenceLaunch:
    stride, threads, steps = size or 1, 28 * 8 * 256, 8
    out, values = g.floats(threads), g.floats(stride * threads + steps)
    return ReferenceLaunch("grid_stride", (threads // 256,), (256,), [values, out, stride, steps])


def _gather(g: Generator, size: int | None) -> ReferenceLaunch:
    n = size or 1 << 17
    out, values, index = g.floats(n), g.floats(1 << 22), g.indices(n, 1 << 22)
    return ReferenceLaunch("gather", (n // 256,), (256,), [index, values, out, n])


def _scatter(g: Generator, size: int | None) -> ReferenceLaunch:
    n = size or 1 << 16
    out, values, index = g.floats(1 << 22), g.floats(n), g.indices(n, 1 << 22)
    return ReferenceLaunch("scatter", (n // 256,), (256,), [index, values, out, n])


def _spmv_csr(g: Generator, size: int | None) -> ReferenceLaunch:
    n = size or 1 << 15
    rows, columns = g.graph(n, 8)
    y, x, values = g.floats(n), g.floats(n), g.floats(n * 17)
    return ReferenceLaunch("spmv_csr", (n // 256,), (256,), [rows, columns, values, x, y, n])


def _bfs_level(g: Generator, size: int | None) -> ReferenceLaunch:
    n = size or 1 << 17
    rows, columns = g.graph(n, 4)
    level = np.full(n, -1, dtype=np.int32)
    level[::8] = 0
    return ReferenceLaunch("bfs_level", (n // 256,), (256,), [rows, columns, level, 0, np.zeros(1, dtype=np.int32), n])


def _kmeans_assign(g: Generator, size: int | None) -> ReferenceLaunch:
    n = size or 1 << 15
    label, center, point = g.indices(n, 2), g.floats(5 * 16), g.floats(n * 16)
    return ReferenceLaunch("kmeans_assign", (n // 256,), (256,), [point, center, label, n, 5, 16])


def _transpose_naive(g: Generator, size: int | None) -> ReferenceLaunch:
    w = size or 512
    out, values = g.floats(w * w), g.floats(w * w)
    return ReferenceLaunch("transpose_naive", (w // 32, w // 8), (32, 8), [values, out, w, w])


def _matmul(name: str, default: int) -> Callable[[Generator, int | None], ReferenceLaunch]:
    def make(g: Generator, size: int | None) -> ReferenceLaunch:
        n = size or default
        c, b, a = g.floats(n * n), g.floats(n * n), g.floats(n * n)
        return ReferenceLaunch(name, (n // 16, n // 16), (16, 16), [a, b, c, n])

    return make


def _stencil5(g: Generator, size: int | None) -> ReferenceLaunch:
    w = size or 1024
    out, values = g.floats(w * w), g.floats(w * w)
    return ReferenceLaunch("stencil5", (w // 32, w // 8), (32, 8), [values, out, w, w])


def _block_sum(g: Generator, size: int | None) -> ReferenceLaunch:
    n = size or 1 << 19
    out, values = g.floats(n // 256), g.floats(n)
    return ReferenceLaunch("block_sum", (n // 256,), (256,), [values, out, n])


def _histogram(g: Generator, size: int | None) -> ReferenceLaunch:
    n = size or 1 << 19
    bins, values = g.indices(256, 1), g.indices(n, 1 << 30)
    return ReferenceLaunch("histogram", (224,), (256,), [values.view(np.uint32), bins.view(np.uint32), n])


def _row_sum(g: Generator, size: int | None) -> ReferenceLaunch:
    n = size or 1 << 14
    out, values = g.floats(n), g.floats(n * 64)
    return ReferenceLaunch("row_sum", (n // 256,), (256,), [values, out, n, 64])


def _fma_chain(g: Generator, size: int | None) -> ReferenceLaunch:
    return ReferenceLaunch("fma_chain", (28 * 8,), (256,), [g.floats(28 * 8 * 256), size or 32])


LAUNCHES: dict[str, Callable[[Generator, int | None], ReferenceLaunch]] = {
    "vector_add": _vector_add,
    "grid_stride": _grid_stride,
    "gather": _gather,
    "scatter": _scatter,
    "spmv_csr": _spmv_csr,
    "bfs_level": _bfs_level,
    "kmeans_assign": _kmeans_assign,
    "transpose_naive": _transpose_naive,
    "matmul_naive": _matmul("matmul_naive", 192),
    "matmul_tiled": _matmul("matmul_tiled", 256),
    "stencil5": _stencil5,
    "block_sum": _block_sum,
    "histogram": _histogram,
    "row_sum": _row_sum,
    "fma_chain": _fma_chain,
}


def make_launch(kernel: str, size: int | None = None) -> ReferenceLaunch:
    """The launch that `kernels KERNEL [SIZE]` makes, with fresh inputs."""
    return LAUNCHES[kernel](Generator(), size)


@dataclass(frozen=True)
class ReferenceRow:
    """One row of `cycles.csv`; numbers by column name."""

    gpu: str
    kernel: str
    size: int | None
    numbers: dict[str, float] = field(hash=False)
    limiter: str

    @property
    def name(self) -> str:
        """Kernel with its size where one was given, `grid_stride 32`."""
        return f"{self.kernel} {self.size}" if self.size else self.kernel


def reference_rows() -> list[ReferenceRow]:
    """All rows of the reference table."""
    with CYCLES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    texts = ("gpu", "kernel", "size", "grid", "block", "limiter")
    return [
        ReferenceRow(
            r["gpu"],
            r["kernel"],
            int(r["size"]) if r["size"] else None,
            {k: float(v) for k, v in r.items() if k not in texts},
            r["limiter"],
        )
        for r in rows
    ]
