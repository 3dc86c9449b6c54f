"""Figures of the functional simulator for `measure.py`; each function runs in a process of its own."""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from pathlib import Path

# Ten times the work of the default size, where the size is work: edges of square problems grow by the square or cube root.
TEN_TIMES = {
    "vector_add": 10 << 18,
    "gather": 10 << 17,
    "scatter": 10 << 16,
    "spmv_csr": 10 << 15,
    "bfs_level": 10 << 17,
    "kmeans_assign": 10 << 15,
    "transpose_naive": 1632,
    "matmul_naive": 416,
    "matmul_tiled": 560,
    "stencil5": 3232,
    "block_sum": 10 << 19,
    "histogram": 10 << 19,
    "row_sum": 10 << 14,
    "fma_chain": 320,
}


def best_seconds(kernel: str, size: int | None, threads: int, rounds: int = 3) -> tuple[int, float]:
    """Warp instructions of a reference kernel, and the shortest time of several runs with recording."""
    import warpsight
    from reference_kernels import SOURCE, make_launch

    best, instructions = float("inf"), 0
    for _ in range(rounds):
        launch = make_launch(kernel, size)
        given = {"kernel": kernel, "grid": launch.grid, "block": launch.block, "args": launch.args, "threads": threads}
        header = warpsight.trace(str(SOURCE), **given).header
        best, instructions = min(best, header.emulation_seconds), header.warp_instructions
    return instructions, best


def emulate(kernel: str, size: int | None) -> float:
    """Million warp instructions per second, trace recording included, on one thread."""
    instructions, seconds = best_seconds(kernel, size, 1)
    return instructions / seconds / 1e6


def ten_times() -> float:
    """Million warp instructions per second over all reference kernels at ten times their work: all instructions by all time."""
    total, spent = 0, 0.0
    for kernel, size in TEN_TIMES.items():
        instructions, seconds = best_seconds(kernel, size, 1)
        total, spent = total + instructions, spent + seconds
    return total / spent / 1e6


def two_threads() -> float:
    """How many times as fast two threads run `fma_chain` as one."""
    return best_seconds("fma_chain", 100_000, 1)[1] / best_seconds("fma_chain", 100_000, 2)[1]


def billion_gib() -> float:
    """Peak memory, in GiB, of a process that runs and records a launch of 10^9 warp instructions."""
    instructions, _ = best_seconds("matmul_naive", 1808, 1, rounds=1)
    if instructions < 1e9:
        raise ValueError(f"the launch has only {instructions} warp instructions")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


GATHERS = """
extern "C" __global__ void gathers(const float* data, float* out, unsigned steps, unsigned mask)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, x = i * 2654435761u + 12345u;
    float sum = 0;
    for (unsigned k = 0; k < steps; k++) { x = x * 1664525u + 1013904223u; sum += data[(x >> 6) & mask]; }
    out[i] = sum;
}
"""


def gathers_gib(threads: int, steps: int = 3600) -> float:
    """Peak memory, in GiB, of a process that records random gathers, 9 x 10^8 warp instructions, without a folder of its own."""
    import numpy as np

    import warpsight

    data, out = np.zeros(1 << 24, np.float32), np.zeros(1 << 20, np.float32)
    with tempfile.NamedTemporaryFile("w", suffix=".cu") as file:
        file.write(GATHERS)
        file.flush()
        args = [data, out, np.uint32(steps), np.uint32(len(data) - 1)]
        trace = warpsight.trace(file.name, kernel="gathers", grid=len(out) // 256, block=256, args=args, threads=threads)
    if trace.header.warp_instructions < 9e8:
        raise ValueError(f"the launch has only {trace.header.warp_instructions} warp instructions")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def trace_bytes() -> float:
    """Bytes on disk per warp instruction, the mean over the reference kernels at their default sizes."""
    import warpsight
    from reference_kernels import SOURCE, make_launch
    from warpsight.traces import store

    ratios = []
    for kernel in TEN_TIMES:
        launch = make_launch(kernel)
        with tempfile.TemporaryDirectory() as folder:
            where = str(Path(folder) / "trace")
            trace = warpsight.trace(str(SOURCE), kernel=kernel, grid=launch.grid, block=launch.block, args=launch.args, out=where)
            ratios.append(store.trace_bytes(where) / trace.header.warp_instructions)
    return sum(ratios) / len(ratios)


LARGE = """
extern "C" __global__ void large(const float* a, const float* b, float* out, int n)
{
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float own[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) own[k] = a[(i + 37 * k) % n];
    for (int t = 0; t < n / 256; ++t) {
        s[threadIdx.x] = b[t * 256 + threadIdx.x];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 64; ++k) {
            own[k & 15] += s[(k * 4 + threadIdx.x) & 255] * a[k];
            if ((k & 7) == 7 && own[k & 15] > 100.0f) own[k & 15] *= 0.5f;
        }
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < 16; ++k) out[i * 16 + k] = sqrtf(own[k]) / (1.0f + own[k] * own[k]);
}
"""


def compile_seconds() -> float:
    """Seconds of processor time to compile a kernel, for each 1,000 of its PTX instructions (it has some more), nothing kept."""
    from warpsight.base import diskcache
    from warpsight.emulator.codegen.native import compile_kernel
    from warpsight.emulator.codegen.symbols import SymbolTable
    from warpsight.emulator.ptx.instruction_set import PTX
    from warpsight.isa.ptx.inlining import inline_calls
    from warpsight.kernels.sources import load_source

    source = load_source(LARGE, name="large.cu")
    function = inline_calls(source.module, source.module.functions["large"])
    best = float("inf")
    for _ in range(3):
        shutil.rmtree(diskcache.folder() / "native", ignore_errors=True)
        start = time.process_time()
        compile_kernel(source.module, function, source.ptx, PTX, SymbolTable(source.module, function))
        best = min(best, time.process_time() - start)
    return 1000 * best / len(function.instructions)
