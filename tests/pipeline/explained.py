"""Traces to explain: kernels of a few lines, and the sums that every explanation must keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpsight
from warpsight.analysis.explanation import Explanation
from warpsight.base.errors import WarpsightError
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.evaluate import ProfiledTrace, predict_profiled
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace

KERNELS = """\
__global__ void row_sum(const float* matrix, float* sum, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float total = 0.0f;
  for (int column = 0; column < columns; column++)
    total += matrix[row * columns + column];
  sum[row] = total;
}
__global__ void count(const unsigned* values, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[(values[i] * 32) % 256], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x % 16], local[threadIdx.x]);
}
__global__ void odd_and_even(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  if (i % 2) {
    for (int k = 0; k < n; k++) value = sqrtf(value) + 1.0f;
  } else {
    value = value * 3.0f;
  }
  y[i] = value;
}
"""


def traces(folder: Path) -> dict[str, KernelTrace]:
    """The kernels above, each run once; the source stays in `folder`."""
    source = folder / "kernels.cu"
    source.write_text(KERNELS)
    random = np.random.default_rng(0)
    matrix, total = random.random((4096, 32), dtype=np.float32), np.zeros(4096, np.float32)
    values, bins = random.integers(0, 1 << 30, 1 << 13, dtype=np.uint32), np.zeros(16, np.uint32)
    x, y = random.random(2048, dtype=np.float32), np.zeros(2048, np.float32)
    launches = {
        "row_sum": (32, 128, [matrix, total, 4096, 32]),
        "count": (8, 256, [values, bins, 1 << 13]),
        "odd_and_even": (16, 128, [x, y, 8]),
    }
    return {
        name: warpsight.trace(source, kernel=name, grid=grid, block=block, args=args)
        for name, (grid, block, args) in launches.items()
    }


def prediction_or_skip(profiled: ProfiledTrace, gpu: GpuSpec, model: str) -> Prediction:
    """The prediction to be explained; a model that needs more than a profile has none."""
    try:
        (prediction,) = predict_profiled(profiled, gpu, [model])
    except WarpsightError as error:
        pytest.skip(f"{model}: {error.what}")
    return prediction


def assert_sums_are_the_prediction(explanation: Explanation) -> None:
    """Component by component, rows and rest are the stack; nothing is negative; shares and cycles follow."""
    prediction = explanation.prediction
    for name in prediction.cpi_stack:
        parts = [row.cpi_stack[name] for row in explanation.rows]
        assert min(parts) >= 0
        assert sum(parts) + explanation.rest.get(name, 0.0) == pytest.approx(prediction.cpi_stack[name], abs=1e-9), name
    document = explanation.to_json()
    cycles = sum(row.issue_cycles + row.wait_cycles for row in explanation.rows) + sum(r["wait_cycles"] for r in document["rest"])
    assert cycles == pytest.approx(prediction.cycles, rel=1e-9)
    assert sum(row.share for row in explanation.rows) + sum(r["share"] for r in document["rest"]) == pytest.approx(1.0)
    totals = document["totals"]
    assert totals["issue_cycles"] == pytest.approx(sum(row.issue_cycles for row in explanation.rows))
    assert totals["issue_cycles"] + totals["wait_cycles"] == pytest.approx(prediction.cycles)
