"""On a GPU of this machine: does it write, bit for bit, what the emulator writes? Skipped, with the reason, where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpsight.base.errors import WarpsightError
from warpsight.hardware.device.gpu import Gpu
from warpsight.hardware.device.measure import Loaded, Settings, Stopwatch, measure
from warpsight.hardware.device.prepare import helpers_ptx, make_case
from warpsight.hardware.device.suite import device_document, run_worker
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.suites import load_suite

pytestmark = pytest.mark.gpu

# no approximate instruction, no product that may be fused with a sum, no atomic that returns a value or adds floats
EXACT = (
    "spmv_csr_scalar", "spmv_ell_band", "bitonic_step", "histogram_shared", "transpose_shared", "im2col", "gemm_tiled",
    "conv2d_shared", "string_match",
)  # fmt: skip


@pytest.fixture(scope="module")
def gpu_number() -> int:
    """The GPU, or the reason why there is none."""
    try:
        device_document(0)
    except WarpsightError as error:
        pytest.skip(error.what)
    return 0


@pytest.mark.parametrize("name", EXACT)
def test_gpu_writes_the_emulators_bits(name: str, gpu_number: int) -> None:
    case = make_case(load_suite("warpsight").kernel(name).request(), name)
    with Gpu(gpu_number) as gpu:
        found, differing = measure(gpu, case, Settings(runs=5, warm_up=1))
    assert not differing, (found["buffers"], case.may_differ)
    assert found["repeatable"]
    assert 0 < found["kernel"]["median"] < 1e5
    assert 1e8 < found["kernel"]["clock_hz"] < 4e9
    # an empty kernel takes some microseconds, and no kernel less
    assert 0.3 < found["empty"]["median"] < 50
    assert found["kernel"]["median"] > 0.9 * found["empty"]["median"]


def test_clock_is_that_which_a_timed_spin_says(gpu_number: int) -> None:
    with Gpu(gpu_number) as gpu:
        watch = Stopwatch(gpu, helpers_ptx("sm_75"), Settings(runs=1, warm_up=0, hold_microseconds=2000))
        clocks = [watch.series(watch.hold, lambda: None) for _ in range(5)]
    readings = [series["clock_hz"] for series in clocks]
    assert max(readings) < 1.1 * min(readings)
    # events around a spin of 2 ms
    assert all(1950 < series["median"] < 2200 for series in clocks)


def test_fault_costs_only_its_own_process(gpu_number: int, tmp_path: Path) -> None:
    wild = 'extern "C" __global__ void wild(int* x, long long far) { x[far * (threadIdx.x + 1)] = 1; }\n'
    good = make_case(KernelRequest(path=wild, grid=1, block=32, args=(np.zeros(32, np.int32), 0)), "wild")
    bad = good.__class__(**{
        **good.__dict__, "parameters": (good.parameters[0], good.parameters[1].__class__((1 << 40).to_bytes(8, "little"))),
    })  # fmt: skip
    for case, name in ((bad, "bad"), (good, "good")):
        case.save(tmp_path / f"{name}.npz")
        assert run_worker([str(tmp_path / f"{name}.npz"), str(tmp_path / f"{name}.json"), '{"runs": 1}', str(gpu_number)]) == ""
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in (tmp_path / "bad.json").read_text()
    assert '"equal": true' in (tmp_path / "good.json").read_text()


def test_order_of_a_case_on_the_gpu_leaves_its_inputs_as_they_were(gpu_number: int) -> None:
    case = make_case(load_suite("warpsight").kernel("group_by_sum").request(), "group_by_sum")
    with Gpu(gpu_number) as gpu:
        loaded = Loaded(gpu, case)
        loaded.restore()
        gpu.synchronise()
        kept = loaded.written()
    for (_, _, parameter), array in zip(loaded.arrays, kept, strict=True):
        assert parameter.before is not None
        assert array.tobytes() == parameter.before.tobytes()
