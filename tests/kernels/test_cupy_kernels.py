"""Is the text of a CuPy `RawKernel` compiled and run, without CuPy?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import UnsupportedError, UsageError

pytestmark = pytest.mark.unit
CODE = """
#ifndef STEP
#define STEP 1
#endif
extern "C" __global__ void other(float *y) { y[0] = -1; }
extern "C" __global__ void add(const float *x, float *y) { int i = threadIdx.x; y[i] = x[i] + STEP; }
"""


def raw(name: str = "add", code: str = CODE, options: Any = ()) -> SimpleNamespace:
    """What of a `cupy.RawKernel` is read."""
    return SimpleNamespace(code=code, name=name, options=options, backend="nvrtc")


@pytest.mark.parametrize(
    ("options", "step"),
    [((), 1), (("-DSTEP=5",), 5), (("-D", "STEP=6"), 6), (("--define-macro=STEP=7", "--std=c++14", "-lineinfo"), 7), (None, 1)],
)
def test_raw_kernel_runs_with_its_options(options: Any, step: int) -> None:
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    trace = warpsight.trace(raw(options=options), grid=1, block=32, args=[x, y])
    assert y.tolist() == (x + step).tolist()
    assert (trace.header.kernel, trace.header.source) == ("add", "add.cu")


def test_raw_kernel_is_compiled_for_the_standard_of_its_options() -> None:
    y = np.zeros(1, np.int64)
    code = 'extern "C" __global__ void standard(long *y) { *y = __cplusplus; }\n'
    warpsight.trace(raw("standard", code, ("-std=c++20",)), grid=1, block=1, args=[y])
    assert y.tolist() == [202002]
    warpsight.trace(raw("standard", code, ("-std=c++20",)), grid=1, block=1, args=[y], std="c++14")
    assert y.tolist() == [201402]


def test_kernel_of_the_text_is_the_one_that_the_object_names() -> None:
    y = np.zeros(4, np.float32)
    warpsight.trace(raw("other"), grid=1, block=1, args=[y])
    assert y.tolist() == [-1, 0, 0, 0]


def test_options_that_are_not_understood_and_missing_texts_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="--maxrregcount=32"):
        warpsight.trace(raw(options=("--maxrregcount=32",)), grid=1, block=1, args=[])
    with pytest.raises(UsageError, match="no source text"):
        warpsight.trace(raw(code=""), grid=1, block=1, args=[])
    with pytest.raises(UsageError, match="contains no PTX"):
        warpsight.trace(SimpleNamespace(code=CODE), grid=1, block=1, args=[])
