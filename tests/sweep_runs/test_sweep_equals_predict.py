"""Is a row of a sweep what `predict` says of that design, and of the kernel as it is launched there?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sweep_cases import KERNELS, MODELS, study

from warpsight.base.errors import WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.jobs.executor import make_executor
from warpsight.pipeline.evaluate import predict_trace
from warpsight.pipeline.predict import predict_kernel
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.pipeline.tracing import trace_kernel
from warpsight.result.prediction import COMPONENTS, Prediction
from warpsight.sweeps.run import run_sweep
from warpsight.sweeps.study import Study
from warpsight.sweeps.tables import result_tables

VALUES = {
    "sm_count": ["1", "7", "28", "61"],
    "core_clock": ["900MHz", "1.4GHz", "2.05GHz"],
    "noc.bandwidth": ["90GB/s", "1050GB/s"],
    "noc.queue": ["0", "64"],
    "dram.bandwidth": ["61GB/s", "480GB/s"],
    "dram.latency": ["100cycles", "220cycles", "777cycles"],
    "dram.queue": ["8", "64"],
    "l1.mshrs": ["4", "128"],
    "l1.size": ["6KiB", "48KiB", "50KiB"],
    "l1.latency": ["10cycles", "25cycles"],
    "l1.miss_queue": ["2", "16"],
    "l2.latency": ["90cycles", "120cycles"],
    "l2.mshrs": ["2", "128"],
    "l2.size": ["768KiB", "3MiB"],
    "latency.fp32": ["4cycles", "11cycles"],
    "initiation.fp32": ["1cycle", "2cycles"],
    "mwp-cwp.memory_latency": ["0cycles", "300cycles"],
    "crisp.target_clock": ["0Hz", "800MHz"],
    "sm.registers": ["2048", "65536"],
    "sm.max_warps": ["8", "64"],
    "sm.policy": ["gto", "lrr"],
    "sm.schedulers": ["1", "4"],
    "method.representative": ["kmeans", "max"],
    "method.interleaving": ["clocked", "round-robin"],
    "method.order": ["reference", "own"],
}


def rows_of(case: Study, results: Path) -> list[dict[str, Any]]:
    outcome = run_sweep(case, make_executor("inline"), results=results)
    return [row for table in result_tables(outcome.plan) for row in table.to_pylist()]


def close(row: dict[str, Any], answer: Prediction) -> None:
    for name in ("cycles", "seconds", "ipc_sm_warp", "ipc_gpu_warp", "cpi"):
        assert row[name] == pytest.approx(getattr(answer, name), rel=1e-12)
    for name in COMPONENTS:
        assert row[f"cpi_stack.{name}"] == pytest.approx(answer.cpi_stack[name], rel=1e-12, abs=1e-12 * answer.cpi)
    same = ("bound_by", "occupancy", "occupancy_limiter", "dpki", "warp_instructions")
    assert {name: row[name] for name in same} == {name: getattr(answer, name) for name in same}
    assert row["class"] == answer.memory_class


@st.composite
def chosen_axes(draw: st.DrawFn) -> dict[str, list[str]]:
    keys = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4, unique=True))
    return {key: draw(st.lists(st.sampled_from(VALUES[key]), min_size=2, max_size=2, unique=True)) for key in keys}


@pytest.fixture(scope="module")
def traces() -> dict[str, Any]:
    return {name: trace_kernel(KernelRequest(path=str(KERNELS / f"{name}.yaml"))) for name in ("gather", "rounds")}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.mark.property
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen_axes(), st.sampled_from(["gather", "rounds"]), st.integers(0, 2**31))
def test_any_row_is_what_predict_says_of_that_design(
    traces: dict[str, Any], kept: Path, axes: dict[str, list[str]], name: str, pick: int
) -> None:
    """Results of other examples are kept in the same folder: a key that leaves something out would take another's answer."""
    rows = rows_of(study(*(f"{key}={','.join(values)}" for key, values in axes.items()), kernels=(name,)), kept)
    assert len(rows) == len(MODELS) * 2 ** len(axes)
    row = rows[pick % len(rows)]
    choice, chosen = row["design"], {}
    for key in reversed(axes):  # the last axis varies fastest
        choice, place = divmod(choice, 2)
        chosen[key] = axes[key][place]
    method = Method(**{key.partition(".")[2]: value for key, value in chosen.items() if key.startswith("method.")})
    overrides = [f"{key}={value}" for key, value in chosen.items() if not key.startswith("method.")]
    try:
        (answer,) = predict_trace(traces[name], load_gpu("mdm-pascal", overrides), [row["model"]], method)
    except WarpsightError as error:
        assert row["cycles"] is None
        assert row["failed"].splitlines()[0].partition(": ")[2] in str(error)
    else:
        assert row["failed"] == ""
        close(row, answer)


@pytest.mark.unit
def test_launch_axes_launch_the_kernel_anew(tmp_path: Path) -> None:
    rows = rows_of(study("launch.block=64,128", "launch.arg.4=4000,12288", kernels=("gather",), models=("mdm",)), tmp_path)
    assert len({row["cycles"] for row in rows}) == 4
    for row in rows:
        args = ("i32[12288]:randint(0,12288)", "f32[12288]:uniform", "f32[12288]:zeros", f"i32:{row['launch.arg.4']}")
        request = KernelRequest(path=str(KERNELS / "gather.yaml"), block=int(row["launch.block"]), args=args)
        close(row, predict_kernel(request, load_gpu("mdm-pascal"), ["mdm"])[0])
