"""Kernels as a user would have them on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SAXPY = """\
__global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void spin(int* flag) {
  while (atomicAdd(flag, 0) == 0) {}
}
"""


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all of these tests, emptied for each: a kernel that many of them write has one path, and is compiled once."""
    folder = tmp_path_factory.getbasetemp() / "cli"
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


@pytest.fixture
def saxpy(tmp_path: Path) -> Path:
    """A CUDA file with two kernels."""
    path = tmp_path / "saxpy.cu"
    path.write_text(SAXPY)
    return path


@pytest.fixture
def launch_file(saxpy: Path) -> Path:
    """A launch file beside it."""
    path = saxpy.parent / "launch.yaml"
    path.write_text(
        "source: saxpy.cu\nkernel: saxpy\ngrid: 8\nblock: 256\nargs: ['2.0', 'f32[2048]:uniform', 'f32[2048]:zeros', '2048']\n"
    )
    return path
