"""Do explanations of the reference kernels sum to their predictions, for every model?"""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.explore.explain.explanation import explain_profiled
from warpsight.explore.explain.rows import VIEWS
from warpsight.explore.pipeline import profile_trace
from warpsight.gpu.loader import load_gpu
from warpsight.models.registry import model_names
from warpsight.result.prediction import COMPONENTS

pytestmark = pytest.mark.oracle

KERNELS = ("bfs_level", "block_sum", "fma_chain", "gather", "histogram", "kmeans_assign", "matmul_tiled", "scatter", "spmv_csr")


@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_of_a_reference_kernel_are_the_prediction_s(kernel: str, shared: Path) -> None:
    import accuracy

    assert shared.is_dir()
    row = next(row for row in accuracy.reference_rows() if row.kernel == kernel)
    gpu = load_gpu(row.gpu)
    profiled = profile_trace(accuracy.trace_of(row), gpu)
    for model in model_names():
        stacks = {view: explain_profiled(profiled, gpu, model, view) for view in VIEWS}
        for view, explanation in stacks.items():
            for name in COMPONENTS:
                found = sum(part.cpi_stack[name] for part in explanation.rows) + explanation.rest.get(name, 0.0)
                assert found == pytest.approx(explanation.prediction.cpi_stack[name], abs=1e-9), (model, view, name)
            # what no line is charged with is idle time alone: every other component has its cause in the trace
            assert set(explanation.rest) <= {"idle"}, (model, view)
