"""A fixture for pytest: `warpsight_predict(kernel, gpu=..., grid=..., ...)` gives a prediction to assert on.

pytest loads this module in every project where Warpsight is installed; what a prediction needs is loaded when a test asks for one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import warpsight

if TYPE_CHECKING:
    from warpsight.result.prediction import Prediction


@pytest.fixture
def warpsight_predict(request: pytest.FixtureRequest) -> Callable[..., Prediction]:
    """`warpsight.predict`, with a kernel or launch file named from the folder of the test.

    def test_saxpy_is_fast(warpsight_predict):
        assert warpsight_predict("saxpy.yaml", gpu="a100").seconds < 10e-6
    """

    def predict(kernel: Any, gpu: Any = None, **options: Any) -> Prediction:
        is_name = isinstance(kernel, (str, Path)) and "\n" not in str(kernel)
        beside = request.path.parent / kernel if is_name else None
        return warpsight.predict(str(beside) if beside is not None and beside.exists() else kernel, gpu=gpu, **options)

    return predict
