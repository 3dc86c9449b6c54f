"""The kernels and the cache that the tests of `workload` share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsight.kernels.launch import KernelSource
from warpsight.kernels.sources import load_source

SMALL = """\
template <class T, int N> __global__ void scale(T* p) { p[threadIdx.x] *= N; }
namespace ns {
struct V3 { float x, y, z; };
template <class T> __global__ void copy(T* a, T* b) { *a = *b; }
__global__ void mixed(V3 v, bool b, signed char c, short s, double d, float f, int* o) { *o = v.x + b + c + s + d + f; }
}
__global__ void saxpy(float a, const float* x, float* y, int n, long long big) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i] + big;
}
__global__ void __launch_bounds__(128) bounded(int* p) { *p = threadIdx.x; }
"""


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSIGHT_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def small(own_cache: Path) -> KernelSource:
    return load_source(SMALL, kernel_expressions=("scale<float, 3>", "scale<unsigned, 7>", "ns::copy<ns::V3>"), name="small.cu")


@pytest.fixture(scope="session")
def reference(own_cache: Path, shared: Path) -> KernelSource:
    return load_source(shared / "reference" / "kernels" / "kernels.cu")
