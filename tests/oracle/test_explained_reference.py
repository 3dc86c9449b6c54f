"""Do explanations of the reference kernels sum to their predictions, for every model?"""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.analysis.explanation import explain_profiled
from warpsight.base.errors import WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.hardware.comparison import compare
from warpsight.models.base import model_names
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.request import KernelRequest
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
        try:
            predict_profiled(profiled, gpu, [model])
        except WarpsightError:
            continue  # it needs more than a profile, and has no prediction to explain
        stacks = {view: explain_profiled(profiled, gpu, model, view) for view in ("line", "source", "block")}
        for view, explanation in stacks.items():
            for name in COMPONENTS:
                found = sum(part.cpi_stack[name] for part in explanation.rows) + explanation.rest.get(name, 0.0)
                assert found == pytest.approx(explanation.prediction.cpi_stack[name], abs=1e-9), (model, view, name)
            # what no line is charged with is idle time alone: every other component has its cause in the trace
            assert set(explanation.rest) <= {"idle"}, (model, view)


def test_comparison_with_the_reference_table_has_the_errors_of_its_rows(shared: Path) -> None:
    import reference_kernels as reference

    assert shared.is_dir()
    rows = {row.name: row for row in reference.reference_rows() if row.gpu == "mdm-pascal"}
    names = ("grid_stride 1", "grid_stride 32", "vector_add", "gather")
    requests = []
    for name in names:
        launch = reference.make_launch(rows[name].kernel, rows[name].size)
        path = f"{name}={reference.SOURCE}" if rows[name].size else str(reference.SOURCE)
        requests.append(KernelRequest(path, kernel=launch.kernel, grid=launch.grid, block=launch.block, args=tuple(launch.args)))
    found = compare(requests, load_gpu("mdm-pascal"), ["mdm"], against=str(reference.CYCLES), gates=["mdm:1000", "mdm:1"])
    assert [launch.label for launch in found.launches] == list(names)
    for launch, (label, error) in zip(found.launches, found.errors("mdm"), strict=True):
        prediction = launch.predictions[0].prediction
        assert prediction is not None
        assert error == pytest.approx(prediction.cycles / rows[label].numbers["cycles"] - 1)
    assert [gate["passed"] for gate in found.to_json()["gates"]] == [True, False]
    assert not found.passed()
