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
