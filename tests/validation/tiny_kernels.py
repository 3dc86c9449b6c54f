"""A suite of two kernels that run in no time: one whose loads are scattered, one whose are not."""

from __future__ import annotations

from pathlib import Path

_HEAD = "title: {title}\ndomain: examples\nclass: {kind}\nholdout: {holdout}\ncheck: check.py\nsource: kernel.cu\n"
SCATTERED = """\
__global__ void scattered(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 4; ++k) sum += x[((i * 32 + k * 1024) * 7) % n];
  for (int k = 0; k < i % 5; ++k) sum = sum * 1.5f + 1.0f / (1.0f + sum);
  y[i] = sum;
}
"""
STREAMED = """\
__global__ void streamed(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int k = 0; k < 16; ++k) v = v * 1.5f + 0.5f;
  y[i] = v;
}
"""


def write_tiny_suite(folder: Path) -> Path:
    """The suite `tiny` in `folder`: `scattered` (divergent, set aside) and `streamed`."""
    suite = folder / "tiny"
    for name, source, kind, holdout in (
        ("scattered", SCATTERED, "memory-divergent", "true"),
        ("streamed", STREAMED, "not memory-divergent", "false"),
    ):
        place = suite / name
        place.mkdir(parents=True)
        (place / "kernel.cu").write_text(source)
        launch = "grid: 64\nblock: 64\nargs: ['f32[65536]:uniform', 'f32[4096]:zeros', 65536]\nseed: 3\n"
        (place / "manifest.yaml").write_text(_HEAD.format(title=f"A kernel, {name}", kind=kind, holdout=holdout) + launch)
        (place / "check.py").write_text("def expected(x, y, n):\n    return {}\n")
    return suite
