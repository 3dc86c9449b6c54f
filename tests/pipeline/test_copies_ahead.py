"""Is a loop with asynchronous copies as slow as one with plain loads where it waits for each copy, and faster with more stages?

The loop waits for groups of copies, or on mbarriers.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import warpsight
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

ROUNDS = 16
SOURCE = r"""
template <int STAGES> __device__ float tile(const float4* x, int rounds) {
    __shared__ float4 buffer[STAGES][64];
    const int t = threadIdx.x;
    float sum = 0;
    auto fetch = [&](int k) {
        unsigned to = __cvta_generic_to_shared(&buffer[k % STAGES][t]);
        if (k < rounds) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(x + k * 64 + t));
        asm volatile("cp.async.commit_group;");
    };
    for (int k = 0; k < STAGES - 1; ++k) fetch(k);
    #pragma unroll 1
    for (int k = 0; k < rounds; ++k) {
        fetch(k + STAGES - 1);
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1));
        __syncthreads();
        float4 v = buffer[k % STAGES][t ^ 1];
        sum += v.x * v.y + v.z * v.w;
        __syncthreads();
    }
    return sum;
}
extern "C" __global__ void one(const float4* x, float* y, int n) { y[threadIdx.x] = tile<1>(x, n); }
extern "C" __global__ void four(const float4* x, float* y, int n) { y[threadIdx.x] = tile<4>(x, n); }
extern "C" __global__ void plain(const float4* x, float* y, int n) {
    __shared__ float4 buffer[64];
    const int t = threadIdx.x;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) {
        buffer[t] = x[k * 64 + t];
        __syncthreads();
        float4 v = buffer[t ^ 1];
        sum += v.x * v.y + v.z * v.w;
        __syncthreads();
    }
    y[t] = sum;
}
"""


@pytest.mark.parametrize("level", ["sass", "ptx"])
def test_copies_ahead_hide_the_latency_of_memory_and_copies_that_are_awaited_do_not(tmp_path: Path, level: str) -> None:
    """One block: nothing but the latency of memory limits the loop. With four stages, four rounds share one."""
    path = tmp_path / "tile.cu"
    path.write_text(SOURCE)
    data = [np.zeros(ROUNDS * 64 * 4, np.float32), np.zeros(64, np.float32), ROUNDS]
    cycles = {}
    for kernel in ("plain", "one", "four"):
        trace = warpsight.trace(path, kernel, grid=1, block=64, args=data, gpu="a100", level=level, arch="sm_80")
        gpu = {"gpu": "a100", "overrides": ["dispatch.grid=0 cycles", "dispatch.parameter_reads=0"], "caches_before": "cold"}
        answers = [answer(trace, **gpu) for answer in (warpsight.predict, warpsight.simulate)]
        cycles[kernel] = np.array([answer.cycles for answer in answers])
    round_trip = ROUNDS * 549  # DRAM and L2 of an A100, of which each round waits for one
    assert (cycles["plain"] > round_trip).all() and (cycles["one"] > round_trip).all()
    assert (np.abs(cycles["one"] / cycles["plain"] - 1) < 0.1).all()
    assert (cycles["four"] < cycles["one"] / 3).all()


ON_MBARRIERS = r"""
template <int STAGES> __device__ float tile(const float4* x, int rounds) {
    __shared__ float4 buffer[STAGES][64];
    __shared__ unsigned long long full[STAGES];
    const int t = threadIdx.x;
    auto at = [](const void* p) { return (unsigned)__cvta_generic_to_shared(p); };
    if (t < STAGES) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at(&full[t])));
    __syncthreads();
    float sum = 0;
    auto fetch = [&](int k) {
        if (k >= rounds) return;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(&buffer[k % STAGES][t])), "l"(x + k * 64 + t));
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at(&full[k % STAGES])));
    };
    for (int k = 0; k < STAGES - 1; ++k) fetch(k);
    #pragma unroll 1
    for (int k = 0; k < rounds; ++k) {
        fetch(k + STAGES - 1);
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
                     :: "r"(at(&full[k % STAGES])), "r"(k / STAGES & 1));
        float4 v = buffer[k % STAGES][t ^ 1];
        sum += v.x * v.y + v.z * v.w;
        __syncthreads();
    }
    return sum;
}
extern "C" __global__ void one(const float4* x, float* y, int n) { y[threadIdx.x] = tile<1>(x, n); }
extern "C" __global__ void four(const float4* x, float* y, int n) { y[threadIdx.x] = tile<4>(x, n); }
"""


def test_wait_on_an_mbarrier_ends_when_the_copies_that_arrive_on_it_do(tmp_path: Path) -> None:
    """A round on one mbarrier waits for its copy. On four, copies are three rounds ahead, and four rounds share a latency."""
    path = tmp_path / "mbarriers.cu"
    path.write_text(ON_MBARRIERS)
    data = [np.zeros(ROUNDS * 64 * 4, np.float32), np.zeros(64, np.float32), ROUNDS]
    cycles = {}
    for kernel in ("one", "four"):
        trace = warpsight.trace(path, kernel, grid=1, block=64, args=data, gpu="h100-pcie", level="sass", arch="sm_90")
        assert waits(trace) == [ROUNDS, ROUNDS]  # the tests that fail are not in the trace
        gpu = {"gpu": "h100-pcie", "overrides": ["dispatch.grid=0 cycles"], "caches_before": "cold"}
        cycles[kernel] = np.array([answer(trace, **gpu).cycles for answer in (warpsight.predict, warpsight.simulate)])
    assert (cycles["one"] > ROUNDS * 618).all()  # L2 and DRAM of an H100
    assert (cycles["four"] < cycles["one"] / 2).all()


def waits(trace: KernelTrace) -> list[int]:
    """How often each warp executes an instruction that tests an mbarrier."""
    runs = [sum(i.polls_mbarrier for i in trace.instructions[first:end]) for first, end in pairwise(trace.block_start.tolist())]
    paths, table = [path for chunk in trace.chunks for path in chunk.path.tolist()], trace.paths
    spans = [slice(*table.offset[path : path + 2]) for path in paths]
    return [sum(runs[b] * r for b, r in zip(table.block[span], table.repeat[span], strict=True)) for span in spans]
