"""Numba kernels of a test, and whether they can be compiled here."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")


@functools.cache
def compiles() -> bool:
    """Has Numba a compiler here? It needs NVIDIA's NVVM, from the toolkit or with `numba-cuda[cu13]`."""
    try:
        cuda.compile_ptx(fills.py_func, (fills.typeof_pyval(np.zeros(1, np.float32)),), cc=(7, 5))
    except Exception as error:
        if "nvvm" in str(error).lower():
            return False
        raise
    return True


@cuda.jit
def fills(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 1


@cuda.jit
def mixes(a, scale, flag, z, pair, out):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        value = a[i, j] * scale + pair[0] - pair[1][0]
        out[i, j] = value + z.real * z.imag if flag else -value


@cuda.jit
def strides(a, out):
    i = cuda.grid(1)
    if i < a.shape[0]:
        total = 0
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                total += a[i, j, k] * (j + 1) * (k + 2)
        out[i] = total


@cuda.jit
def computes(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.sin(x[i]) + math.exp(x[i]) ** 0.5 + math.sqrt(abs(x[i]))


@cuda.jit
def histogram(values, counts):
    local = cuda.shared.array(0, np.int32)
    t = cuda.threadIdx.x
    if t < 16:
        local[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(local, values[i], 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(counts, t, local[t])


@cuda.jit
def prints(x):
    i = cuda.grid(1)
    if i % 2:
        print("thread", i, "has", x[i])


@cuda.jit
def past_the_end(x, out):
    i = cuda.grid(1)
    out[i] = x[i + 1]  # the last thread reads past x


@cuda.jit
def wrong(x):
    x[0] = x.no_such_thing


@cuda.jit
def records(points, out):
    i = cuda.grid(1)
    if i < points.size:
        out[i] = points[i].x + points[i].n
