"""Is a loop with asynchronous copies as slow as one with plain loads where it waits for each copy, and faster with more stages?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpsight

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
        gpu = {"gpu": "a100", "overrides": ["dispatch.grid=0 cycles"], "caches_before": "cold"}
        answers = [answer(trace, **gpu) for answer in (warpsight.predict, warpsight.simulate)]
        cycles[kernel] = np.array([answer.cycles for answer in answers])
    round_trip = ROUNDS * 549  # DRAM and L2 of an A100, of which each round waits for one
    assert (cycles["plain"] > round_trip).all() and (cycles["one"] > round_trip).all()
    assert (np.abs(cycles["one"] / cycles["plain"] - 1) < 0.1).all()
    assert (cycles["four"] < cycles["one"] / 3).all()
