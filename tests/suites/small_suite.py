"""A suite of one small kernel, for tests that damage it."""

from __future__ import annotations

from pathlib import Path

KERNEL = """\
__global__ void twice(const float* x, float* y, int* big, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { y[i] = 2 * x[i]; if (x[i] > 0.5f) atomicAdd(big, 1); }
}
"""
MANIFEST = """\
title: Doubles numbers
domain: examples
class: not memory-divergent
holdout: false
check: check.py
tolerance: 1e-6
source: kernel.cu
grid: 4
block: 64
args: ['f32[256]:uniform', 'f32[256]:zeros', 'i32[1]:zeros', 256]
seed: 3
"""
CHECK = """\
def expected(x, y, big, n):
    return {"y": 2.0 * x, "big": [(x > 0.5).sum()]}
"""


def write_suite(folder: Path, *, manifest: str = MANIFEST, kernel: str = KERNEL, check: str = CHECK) -> Path:
    """A suite called `mine` in `folder`, with the kernel `twice`."""
    place = folder / "mine" / "twice"
    place.mkdir(parents=True, exist_ok=True)
    (place / "kernel.cu").write_text(kernel)
    (place / "manifest.yaml").write_text(manifest)
    (place / "check.py").write_text(check)
    return folder / "mine"
