"""Do the reference kernels compute what NumPy and SciPy compute, on random inputs of at least 10^5 elements?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import warpsight
from reference_kernels import make_launch

pytestmark = pytest.mark.oracle

RELATIVE = 1e-5


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture(scope="module")
def run(shared: Path) -> Callable[..., Any]:
    source = str(shared / "reference" / "kernels" / "kernels.cu")

    def call(kernel: str, grid: Any, block: Any, *args: Any) -> Any:
        return warpsight.trace(source, kernel=kernel, grid=grid, block=block, args=list(args))

    return call


def floats(rng: np.random.Generator, *shape: int) -> Any:
    return rng.random(shape, dtype=np.float32)


def random_graph(rng: np.random.Generator, nodes: int, degree: int) -> tuple[Any, Any]:
    degrees = rng.integers(0, 2 * degree, nodes)
    rows = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    return rows, rng.integers(0, nodes, rows[-1]).astype(np.int32)


def test_vector_add_equals_numpy_and_leaves_the_tail(run: Any, rng: Any) -> None:
    n = 100_001
    a, b, c = floats(rng, n), floats(rng, n), np.full(n + 7, -1, np.float32)
    run("vector_add", 391, 256, a, b, c, n)
    np.testing.assert_array_equal(c[:n], a + b)
    np.testing.assert_array_equal(c[n:], -1)


@pytest.mark.parametrize("stride", [1, 4, 32])
def test_grid_stride_sums_squares(run: Any, rng: Any, stride: int) -> None:
    threads, steps = 102_400, 7
    values, out = floats(rng, stride * threads + steps), np.zeros(threads, np.float32)
    run("grid_stride", 400, 256, values, out, stride, steps)
    start = stride * np.arange(threads)
    expected = sum(values[start + k].astype(np.float64) ** 2 for k in range(steps))
    np.testing.assert_allclose(out, expected, rtol=RELATIVE)


def test_gather_equals_indexing(run: Any, rng: Any) -> None:
    n = 120_000
    index, values, out = rng.integers(0, 300_000, n).astype(np.int32), floats(rng, 300_000), np.zeros(n, np.float32)
    run("gather", 469, 256, index, values, out, n)
    np.testing.assert_array_equal(out, values[index])


def test_scatter_equals_a_permutation(run: Any, rng: Any) -> None:
    n = 120_000
    index, values, out = rng.permutation(n).astype(np.int32), floats(rng, n), np.zeros(n, np.float32)
    run("scatter", 469, 256, index, values, out, n)
    expected = np.empty_like(out)
    expected[index] = values
    np.testing.assert_array_equal(out, expected)


def test_spmv_csr_equals_scipy(run: Any, rng: Any) -> None:
    n = 100_000
    rows, columns = random_graph(rng, n, 6)
    values, x, y = floats(rng, len(columns)), floats(rng, n), np.full(n, -1, np.float32)
    run("spmv_csr", 391, 256, rows, columns, values, x, y, n)
    matrix = scipy.sparse.csr_matrix((values.astype(np.float64), columns, rows), shape=(n, n))
    np.testing.assert_allclose(y, matrix @ x.astype(np.float64), rtol=RELATIVE)


def test_bfs_level_marks_the_unseen_neighbours(run: Any, rng: Any) -> None:
    n = 131_072
    rows, columns = random_graph(rng, n, 4)
    level = np.where(rng.random(n) < 0.1, 0, -1).astype(np.int32)
    expected, changed = level.copy(), np.zeros(1, np.int32)
    edges_from = np.repeat(np.arange(n), np.diff(rows))
    reached = columns[level[edges_from] == 0]
    expected[reached[expected[reached] < 0]] = 1
    run("bfs_level", n // 256, 256, rows, columns, level, 0, changed, n)
    np.testing.assert_array_equal(level, expected)
    assert changed[0] == 1


def test_kmeans_assign_finds_the_nearest_center(run: Any, rng: Any) -> None:
    n, clusters, dims = 100_000, 5, 16
    point, center, label = floats(rng, n, dims), floats(rng, clusters, dims), np.full(n, -1, np.int32)
    run("kmeans_assign", 391, 256, point, center, label, n, clusters, dims)
    distance = ((point[:, None].astype(np.float64) - center[None]) ** 2).sum(axis=2)
    best = distance.argmin(axis=1)
    # Single precision may choose either of two centers that are equally near.
    chosen = np.take_along_axis(distance, label[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(chosen, distance.min(axis=1), rtol=RELATIVE)
    assert np.mean(label == best) > 0.9999


def test_transpose_naive_equals_t(run: Any, rng: Any) -> None:
    w, h = 416, 264
    values, out = floats(rng, h, w), np.zeros((w, h), np.float32)
    run("transpose_naive", (13, 33), (32, 8), values, out, w, h)
    np.testing.assert_array_equal(out, values.T)


@pytest.mark.parametrize("kernel", ["matmul_naive", "matmul_tiled"])
def test_matmul_equals_numpy(run: Any, rng: Any, kernel: str) -> None:
    n = 320
    a, b, c = floats(rng, n, n), floats(rng, n, n), np.zeros((n, n), np.float32)
    run(kernel, (n // 16, n // 16), (16, 16), a, b, c, n)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=RELATIVE)


def test_stencil5_averages_the_inside_and_leaves_the_rim(run: Any, rng: Any) -> None:
    w, h = 400, 256
    x, out = floats(rng, h, w), np.full((h, w), -1, np.float32)
    run("stencil5", (13, 32), (32, 8), x, out, w, h)
    inside = 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1])
    np.testing.assert_allclose(out[1:-1, 1:-1], inside, rtol=RELATIVE)
    rim = np.ones_like(out, dtype=bool)
    rim[1:-1, 1:-1] = False
    assert (out[rim] == -1).all()


def test_block_sum_equals_numpy(run: Any, rng: Any) -> None:
    n = 100_100
    values, out = floats(rng, n), np.zeros(392, np.float32)
    run("block_sum", 392, 256, values, out, n)
    padded = np.pad(values, (0, 392 * 256 - n)).reshape(392, 256)
    np.testing.assert_allclose(out, padded.sum(axis=1, dtype=np.float64), rtol=RELATIVE)


def test_histogram_counts_exactly(run: Any, rng: Any) -> None:
    n = 200_003
    values, bins = rng.integers(0, 1 << 32, n, dtype=np.uint32), np.zeros(256, np.uint32)
    run("histogram", 40, 256, values, bins, n)
    np.testing.assert_array_equal(bins, np.bincount(values & 255, minlength=256))


def test_row_sum_equals_numpy(run: Any, rng: Any) -> None:
    rows, cols = 4_000, 33
    values, out = floats(rng, rows, cols), np.zeros(rows, np.float32)
    run("row_sum", 16, 256, values, out, rows, cols)
    np.testing.assert_allclose(out, values.sum(axis=1, dtype=np.float64), rtol=RELATIVE)


def test_fma_chain_equals_fused_steps(run: Any) -> None:
    threads, steps = 102_400, 6
    out = np.zeros(threads, np.float32)
    run("fma_chain", 400, 256, out, steps)
    x, y = np.arange(256).astype(np.float32) * np.float32(0.001), float(np.float32(1.0001))
    for _ in range(steps):
        for addend in (0.5, -0.25, 0.125, -0.0625):
            # A product of two single-precision numbers is exact in double precision: one rounding, as a fused step has.
            x = (x.astype(np.float64) * y + addend).astype(np.float32)
    np.testing.assert_allclose(out.reshape(-1, 256), np.broadcast_to(x, (400, 256)), rtol=RELATIVE)


def test_reference_inputs_follow_the_generator() -> None:
    from reference_kernels import Generator

    state, expected = 12345, []
    for _ in range(1000):
        state = (1664525 * state + 1013904223) % 2**32
        expected.append(state)
    generator = Generator()
    drawn = np.concatenate([generator.draw(300), generator.draw(700)])
    np.testing.assert_array_equal(drawn, expected)
    assert make_launch("gather", 256).args[3] == 256
