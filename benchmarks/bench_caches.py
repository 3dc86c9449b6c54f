"""How fast is the cache simulation? Requests per second, and as a ratio to a plain pass over the same lines in the same run.

    python benchmarks/bench_caches.py

The baseline looks up and replaces one tag per request in a direct-mapped table, compiled: the least work of any simulation. Unlike
a time, a ratio can be compared between machines. Divergent: one thread per row, every request to a line of its own. Coalesced: a
warp access is one request, so that each pays for the warp's bookkeeping. Product: of matrices, without tiling, with many loads in
flight and a wait for each; many of its requests hit in the L1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "caches"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "by_hand"))

from reference_streams import row_sum, vector_add

from warpsight.caches.exact.simulate import simulate_caches
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import occupancy, with_own_l1
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import trace_kernel
from warpsight.traces.schema import KernelTrace

ROUNDS = 5


@numba.njit
def _direct_mapped(lines: np.ndarray, tags: np.ndarray) -> int:
    misses = 0
    for line in lines:
        place = line % len(tags)
        if tags[place] != line:
            tags[place] = line
            misses += 1
    return misses


def product(size: int = 512) -> KernelTrace:
    """One thread computes one element of a product of matrices, in machine code of the A100."""
    source, blocks = Path(__file__).resolve().parents[1] / "examples" / "sgemm.cu", size // 16
    args = (f"i32:{size}", *[f"f32[{size * size}]:zeros"] * 3)
    request = KernelRequest(str(source), kernel="sgemm_naive", grid=f"{blocks},{blocks}", block="16,16", args=args)
    return trace_kernel(request, gpu=load_gpu("a100"))


def best_of(work: Callable[[], object]) -> float:
    """The shortest processor time of several rounds, in seconds; the first call, which may compile, is not counted."""
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measure(name: str, trace: KernelTrace, blocks_per_sm: int, described: str) -> None:
    """Print one line per interleaving."""
    header, gpu = trace.header, load_gpu(described)
    gpu = with_own_l1(gpu, occupancy(gpu, header.threads_per_block, header.registers_per_thread, 0))
    lines = np.concatenate([chunk.sectors for chunk in trace.chunks]).astype(np.int64) // 4
    tags = np.zeros(24_576, np.int64)
    baseline = best_of(lambda: _direct_mapped(lines, tags)) / len(lines)
    for interleaving in ("clocked", "round-robin"):
        totals = simulate_caches(trace, gpu, blocks_per_sm, interleaving=interleaving).totals()
        requests = totals["l1_reads"] + totals["l1_writes"]
        seconds = best_of(lambda way=interleaving: simulate_caches(trace, gpu, blocks_per_sm, interleaving=way)) / requests  # type: ignore[misc]
        print(
            f"{name:<10} {described:<11} {interleaving:<12} {requests:>10,} requests   {1e-6 / seconds:6.1f} M/s   "
            f"{seconds * 1e9:6.1f} ns each   {seconds / baseline:6.1f} x baseline ({baseline * 1e9:.1f} ns)"
        )


if __name__ == "__main__":
    started = time.perf_counter()
    simulate_caches(vector_add(1 << 10), load_gpu("mdm-pascal"), 8)
    print(f"first simulation of the process {time.perf_counter() - started:.2f} s (compiles if nothing is kept on disk)")
    for described in ("mdm-pascal", "a100"):  # an L1 of six ways a set, and of hundreds
        measure("divergent", row_sum(), 5, described)
        measure("coalesced", vector_add(1 << 21), 8, described)
    measure("product", product(), 8, "a100")
