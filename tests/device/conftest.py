"""A GPU that is none: a driver's library of our own, for this process and for those that it starts."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path

import pytest
from fake_profiler import TENTH, TWICE, fake_ncu

import hardware_suite
from warpsight.hardware.device import profiler, suite
from warpsight.hardware.device.suite import worker_environment
from warpsight.pipeline.suites import Suite, load_suite

SOURCE = """\
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


def use_fake_gpu(library: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU is there, and writes its calls into `log`."""
    monkeypatch.setattr("warpsight.gpu.importers.device.LIBRARY", str(library))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    # NVRTC loads a driver where it finds one, and this one has not what it wants: only processes that use the GPU find it
    for module in (suite, profiler):
        ours = lambda: {**worker_environment(), "LD_LIBRARY_PATH": str(library.parent)}  # noqa: E731
        monkeypatch.setattr(module, "worker_environment", ours)
    monkeypatch.setenv("FAKE_GPU_LOG", str(log))
    for name in ("FAKE_GPU_CUDA", "FAKE_GPU_NAME", "FAKE_GPU_WHOLE_L2"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake_gpu(fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The GPU is there; the file in which its calls are written."""
    use_fake_gpu(fake_library, tmp_path / "gpu.log", monkeypatch)
    return tmp_path / "gpu.log"


def make_suite(folder: Path, *names: str, shared: int = 0) -> Suite:
    """A suite of the named `KERNELS` in `folder/small`."""
    for name in names:
        place = folder / "small" / name
        place.mkdir(parents=True)
        value, right = KERNELS[name]
        (place / "kernel.cu").write_text(SOURCE.format(name=name, value=value))
        (place / "check.py").write_text(CHECK.format(value=right))
        (place / "manifest.yaml").write_text(MANIFEST.format(shared=shared))
    return load_suite(folder / "small")


@pytest.fixture
def suite_of(tmp_path: Path) -> Callable[..., Suite]:
    """Makes a suite of the named `KERNELS`."""
    return partial(make_suite, tmp_path)


@pytest.fixture(scope="session")
def measured(fake_library: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Three kernels measured, one of which fails; two of them under ncu: the folder with `small` and `out`, and what was told."""
    folder, told = tmp_path_factory.mktemp("measured"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(told):
        use_fake_gpu(fake_library, folder / "gpu.log", patch)
        fake_ncu(patch, folder / "bin", TENTH, TWICE)
        words = ["--suite", make_suite(folder, "faulty", "tenth", "twice").path, "--out", str(folder / "out"), "--write"]
        assert hardware_suite.main([*words, "--runs", "2", "--jobs", "2", "--cases", str(folder / "cases")]) == 0
    return folder, told.getvalue()
