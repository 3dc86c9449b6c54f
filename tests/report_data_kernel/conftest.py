"""Kernels small enough to run at once, each with something that a model may not expect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import warpsight
from warpsight.traces.schema import KernelTrace

STREAM = """
extern "C" __global__ void stream(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * 2.0f;
}
"""
GATHER = """
extern "C" __global__ void gather(const int *from, const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[from[i]] * 2.0f + in[from[(i * 7) % n]];
}
"""
# Every lane of a warp goes to the same bank: 32 passes. Every second warp has far more to do, with a quarter of its lanes.
UNEVEN = """
extern "C" __global__ void uneven(float *out, int *count) {
    __shared__ float rows[32 * 32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    rows[lane * 32 + warp % 32] = lane;
    __syncthreads();
    float x = rows[lane * 32];
    if (warp % 2 && lane < 8) for (int k = 0; k < 400; k++) x = x * 1.25f + 1.0f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
    atomicAdd(count, 1);
}
"""
Traced = Callable[[str], KernelTrace]


@pytest.fixture(scope="session")
def traced() -> Traced:
    """The trace of a kernel by name: stream, gather or uneven."""
    found: dict[str, KernelTrace] = {}
    launches = {
        "stream": (STREAM, 256, 128, ["f32[32768]:uniform", "f32[32768]:zeros", "i32:32768"]),
        "gather": (GATHER, 96, 128, ["i32[12288]:randint(0,12288)", "f32[12288]:uniform", "f32[12288]:zeros", "i32:12288"]),
        "uneven": (UNEVEN, 56, 256, ["f32[14336]:zeros", "i32[1]:zeros"]),
    }

    def trace(name: str) -> KernelTrace:
        if name not in found:
            source, grid, block, args = launches[name]
            found[name] = warpsight.trace(source, grid=grid, block=block, args=args)
        return found[name]

    return trace
