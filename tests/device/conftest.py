"""A GPU that is none: a driver's library of our own, for this process and for those that it starts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsight.hardware.device import profiler, suite
from warpsight.hardware.device.suite import worker_environment
from warpsight.pipeline.suites import Suite, load_suite

TWICE = """\
__global__ void {name}(const float* x, float* y, int* big, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {{ y[i] = {value}; if (x[i] > 0.5f) atomicAdd(big, 1); }}
}}
"""
MANIFEST = """\
title: Small
domain: examples
class: not memory-divergent
holdout: false
check: check.py
tolerance: 1e-6
source: kernel.cu
grid: 4
block: 64
shared: {shared}
args: ['f32[256]:uniform', 'f32[256]:zeros', 'i32[1]:zeros', 256]
seed: 3
"""
CHECK = """\
def expected(x, y, big, n):
    return {{"y": {value}, "big": [(x > 0.5).sum()]}}
"""
# what the kernel computes, and what is right
KERNELS = {
    "twice": ("2 * x[i]", "2.0 * x"), "tenth": ("0.1f * x[i]", "x / 10.0"), "faulty": ("x[i]", "x"), "stuck": ("x[i]", "x"),
    "dies": ("x[i]", "x"),
}  # fmt: skip


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built with the C compiler of this machine."""
    if shutil.which("cc") is None:
        pytest.skip("a C compiler makes the driver's stand-in, and there is none")
    library = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-Wno-stringop-truncation", "-o", library,
                    Path(__file__).with_name("fake_gpu.c")], check=True)  # fmt: skip
    return library


@pytest.fixture
def fake_gpu(fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The GPU is there; the file in which its calls are written."""
    log = tmp_path / "gpu.log"
    monkeypatch.setattr("warpsight.gpu.importers.device.LIBRARY", str(fake_library))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    # NVRTC loads a driver where it finds one, and this one has not what it wants: only processes that use the GPU find it
    for module in (suite, profiler):
        ours = lambda: {**worker_environment(), "LD_LIBRARY_PATH": str(fake_library.parent)}  # noqa: E731
        monkeypatch.setattr(module, "worker_environment", ours)
    monkeypatch.setenv("FAKE_GPU_LOG", str(log))
    for name in ("FAKE_GPU_CUDA", "FAKE_GPU_NAME", "FAKE_GPU_WHOLE_L2"):
        monkeypatch.delenv(name, raising=False)
    return log


@pytest.fixture
def suite_of(tmp_path: Path) -> Callable[..., Suite]:
    """Makes a suite of the named `KERNELS`."""

    def make(*names: str, shared: int = 0) -> Suite:
        for name in names:
            place = tmp_path / "small" / name
            place.mkdir(parents=True)
            value, right = KERNELS[name]
            (place / "kernel.cu").write_text(TWICE.format(name=name, value=value))
            (place / "check.py").write_text(CHECK.format(value=right))
            (place / "manifest.yaml").write_text(MANIFEST.format(shared=shared))
        return load_suite(tmp_path / "small")

    return make
