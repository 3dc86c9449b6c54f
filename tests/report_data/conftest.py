"""Report data for several tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import warpsight
from warpsight.analysis.report_data.kernel import kernel_report_data
from warpsight.gpu.loader import load_gpu
from warpsight.reports.formats import plain

SOURCE = """
extern "C" __global__ void stride(const float* in, float* out, int step) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 2.0f * in[i * step] + 1.0f;
}
"""


@pytest.fixture(scope="session")
def strided(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The trace of a kernel that reads 32 sectors a warp and writes 4."""
    path = tmp_path_factory.mktemp("kernel") / "stride.cu"
    path.write_text(SOURCE)
    return warpsight.trace(str(path), grid=64, block=128, args=["f32[262144]:uniform", "f32[8192]:zeros", 32])


@pytest.fixture(scope="session")
def report_data(strided: Any) -> dict[str, Any]:
    """Its report data on mdm-pascal, as JSON."""
    found: dict[str, Any] = plain(kernel_report_data(strided, load_gpu("mdm-pascal"), "mdm"))
    return found


@pytest.fixture
def results(tmp_path: Path, report_data: dict[str, Any]) -> Path:
    """A folder with a file of predictions."""
    import json

    (tmp_path / "stride.json").write_text(json.dumps(report_data["predictions"][:1]))
    return tmp_path
