"""Does machine code read a last parameter that is shorter than the word it reads?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpsight

pytestmark = pytest.mark.unit
SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void fill(float *x, __half value) { x[threadIdx.x] = __half2float(value); }
"""


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_half_as_the_last_parameter(level: str, tmp_path: Path) -> None:
    path = tmp_path / "fill.cu"
    path.write_text(SOURCE)
    out = np.zeros(32, np.float32)
    warpsight.trace(path, "fill", grid=1, block=32, args=[out, np.float16(1.5)], gpu="a100", level=level)
    assert (out == 1.5).all()


LARGE = """
struct Table { int values[8100]; };
extern "C" __global__ void pick(int *out, __grid_constant__ const Table table, int step, int last) {
  int sum = 0;
  #pragma unroll 1
  for (int i = 0; i < 8100; i += step) sum += table.values[i];
  out[threadIdx.x] = sum + table.values[8000] + table.values[8000 + threadIdx.x] + last;
}
"""


@pytest.mark.parametrize("level", ["ptx", "sass"])
@pytest.mark.parametrize("gpu", ["a100", "h100-sxm"])
def test_parameters_in_the_second_half_of_the_constant_bank(level: str, gpu: str, tmp_path: Path) -> None:
    # CUDA 12.1 allows 32,764 bytes of parameters: the last lie beyond offset 32,768, which listings show as negative numbers
    path = tmp_path / "pick.cu"
    path.write_text(LARGE)
    out, table = np.zeros(32, np.int32), np.arange(8100, dtype=np.int32) * 7
    warpsight.trace(path, "pick", grid=1, block=32, args=[out, table.tobytes(), np.int32(900), np.int32(5)], gpu=gpu, level=level)
    assert (out == table[::900].sum() + table[8000] + table[8000:8032] + 5).all()
