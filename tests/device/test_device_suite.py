"""Are all kernels of a suite measured, each in a process of its own, whatever one of them does to the GPU?"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_profiler import TENTH, TWICE, fake_ncu

from warpsight.gpu.loader import load_gpu
from warpsight.hardware.device.measure import Settings, nvml_state
from warpsight.hardware.device.prepare import prepare_cases
from warpsight.hardware.device.profiler import METRICS, profile_cases
from warpsight.hardware.device.suite import catalogue_name, device_document, gpu_of, measure_cases, run_worker
from warpsight.hardware.measurements.metrics import METRIC_KINDS
from warpsight.pipeline.suites import Suite

pytestmark = pytest.mark.unit
Make = Callable[..., Suite]
SETTINGS = Settings(runs=2, warm_up=0)


def _measured(suite: Suite, folder: Path, **options: Any) -> dict[str, Any]:
    assert not prepare_cases([(kernel.name, kernel.request()) for kernel in suite], folder)
    return measure_cases(suite, folder, SETTINGS, **options)


def test_faults_cost_nobody_elses_results(fake_gpu: Path, suite_of: Make, tmp_path: Path) -> None:
    told: list[str] = []
    found = _measured(suite_of("dies", "faulty", "tenth", "twice"), tmp_path / "cases", log=told.append)
    rows = {row["name"]: row for row in found["kernels"]}
    assert list(rows) == ["dies", "faulty", "tenth", "twice"]
    assert "the process ended with exit code -6" in rows["dies"]["failed"]
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in rows["faulty"]["failed"]
    assert rows["twice"]["measured"]["right"] == {"by": "same bits", "right": True, "why": ""}
    # other bits than the emulator's, and right within the tolerance of the suite's own check
    assert rows["tenth"]["measured"]["equal"] is False
    assert rows["tenth"]["measured"]["right"] == {"by": "check file", "right": True, "why": ""}
    assert rows["twice"]["measured"]["kernel"]["median"] == pytest.approx(12.0, rel=1e-4)
    assert told[3] == "twice: 12.00 us, an empty kernel 2.00 us, same bits"
    assert (found["device"]["name"], found["device"]["driver"]) == ("NVIDIA H100 80GB HBM3", "13.0")
    assert (found["settings"]["runs"], found["swept_l2s"]) == (2, 4)


def test_wrong_results_are_told_by_the_check_file(fake_gpu: Path, suite_of: Make, tmp_path: Path) -> None:
    suite = suite_of("tenth")
    check = Path(suite.kernel("tenth").check)
    check.write_text(check.read_text().replace("x / 10.0", "x / 11.0"))
    (row,) = _measured(suite, tmp_path / "cases")["kernels"]
    assert row["measured"]["right"]["right"] is False
    assert "256 of 256 elements differ" in row["measured"]["right"]["why"]


def test_kernel_that_never_ends_is_ended(fake_gpu: Path, suite_of: Make, tmp_path: Path) -> None:
    suite = suite_of("stuck")
    assert not prepare_cases([("stuck", suite.kernel("stuck").request())], tmp_path)
    words = [str(tmp_path / "stuck.npz"), str(tmp_path / "r.json"), "{}", "0"]
    assert run_worker(words, limit=4) == "it did not finish within 4 seconds"


def test_case_that_is_missing_or_damaged_is_a_row_with_its_reason(fake_gpu: Path, suite_of: Make, tmp_path: Path) -> None:
    (tmp_path / "tenth.npz").write_text("damaged")
    found = measure_cases(suite_of("tenth", "twice"), tmp_path, SETTINGS)
    reasons = [row["failed"] for row in found["kernels"]]
    assert "is not a case" in reasons[0]
    assert reasons[1] == "it has no case"


def test_device_is_described_by_the_catalogue_or_by_what_its_driver_told(fake_gpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, said = gpu_of(device_document(0), 1.755e9)
    assert (spec.name, spec.core_clock_hz) == ("h100-sxm", 1.755e9)
    assert said == "`h100-sxm` of the catalogue, at the measured 1,755 MHz"
    monkeypatch.setenv("FAKE_GPU_NAME", "NVIDIA H800")
    monkeypatch.setenv("FAKE_GPU_WHOLE_L2", "1")
    made, said = gpu_of(device_document(0))
    assert (made.name, made.sm_count, made.core_clock_hz) == ("nvidia-h800", 132, 1.98e9)
    assert said.startswith("as `warpsight gpus from-device` describes it")


@pytest.mark.parametrize("name", ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"])
def test_nvml_tells_what_it_can_and_no_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = types.ModuleType("pynvml")
    failure = type("NVMLError", (Exception,), {})

    def fails(device: object) -> int:
        raise failure

    facts = {
        "NVMLError": failure, "nvmlInit": lambda: None, "nvmlShutdown": lambda: None, "NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2,
        "nvmlDeviceGetHandleByPciBusId": lambda bus: bus, "nvmlSystemGetDriverVersion": lambda: b"580.65.06",
        "nvmlDeviceGetClockInfo": lambda device, kind: {1: 1755, 2: 2619}[kind], "nvmlDeviceGetPowerUsage": fails,
        # the power cap and the temperature, by NVML's table of bits
        name: lambda device: 0x4 | 0x20,
    }  # fmt: skip
    for key, fact in facts.items():
        monkeypatch.setattr(nvml, key, fact, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert nvml_state("0000:3b:00.0") == {
        "driver": "580.65.06", "sm_clock_hz": 1.755e9, "memory_clock_hz": 2.619e9, "held_by": ["power cap", "temperature"],
    }  # fmt: skip
    monkeypatch.setattr(nvml, "nvmlInit", lambda: fails(None))
    assert nvml_state("0000:3b:00.0") == {}


def test_names_of_drivers_are_names_of_the_catalogue() -> None:
    # as nvidia-smi -L writes them
    names = {
        "NVIDIA H200": "h200", "NVIDIA H100 PCIe": "h100-pcie", "NVIDIA A100-SXM4-40GB": "a100",
        "NVIDIA A100-SXM4-80GB": "a100-80gb", "NVIDIA GeForce RTX 4090": "rtx4090",
        "NVIDIA GeForce RTX 3070 Ti": "rtx3070-ti", "Tesla V100-SXM2-16GB": "v100",
        "NVIDIA GeForce GTX 1080 Ti": "", "NVIDIA L4": "l4", "NVIDIA L40": "", "NVIDIA L40S": "l40s", "NVIDIA A100 80GB PCIe": "",
        "Tesla T4": "t4", "NVIDIA RTX A6000": "a6000", "NVIDIA A10": "a10", "NVIDIA B200": "b200", "NVIDIA A100-SXM-64GB": "",
        "NVIDIA GeForce RTX 5090": "rtx5090", "NVIDIA GeForce RTX 3090": "rtx3090", "NVIDIA GeForce RTX 3090 Ti": "",
    }  # fmt: skip
    assert {name: catalogue_name(name) for name in names} == names
    assert all(load_gpu(name).name == name for name in names.values() if name)


def _profiled(suite: Suite, tmp_path: Path) -> Any:
    folder = tmp_path / "cases"
    if not folder.exists():
        assert not prepare_cases([(kernel.name, kernel.request()) for kernel in suite], folder)
    names = [kernel.name for kernel in suite]
    return profile_cases([folder / f"{name}.npz" for name in names], names)


def test_profiler_sees_each_case_once_and_nothing_else(
    fake_gpu: Path, suite_of: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(monkeypatch, tmp_path / "bin", TENTH, TWICE)
    found = _profiled(suite_of("tenth", "twice"), tmp_path)
    assert found.why_not == ""
    assert found.version == "2025.3.1.0"
    assert [launch.value("cycles") for launch in found.measurements.launches] == [18000, 18001]
    assert found.measurements.launches[0].value("sm_clock") == 1.5e9
    launches = [line.split()[1] for line in fake_gpu.read_text().splitlines() if line.startswith("launch")]
    assert launches == ["_Z5tenthPKfPfPii", "_Z5twicePKfPfPii"]


def test_profiler_that_does_not_know_a_metric_is_asked_for_its_whole_set(
    fake_gpu: Path, suite_of: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(monkeypatch, tmp_path / "bin", TWICE, refused="--metrics")
    assert _profiled(suite_of("twice"), tmp_path).measurements is not None


def test_why_the_profiler_cannot_is_told(fake_gpu: Path, suite_of: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = suite_of("twice")
    fake_ncu(monkeypatch, tmp_path / "bin", TWICE, permission=True)
    assert "ERR_NVGPUCTRPERM: this user may not read" in _profiled(suite, tmp_path).why_not
    fake_ncu(monkeypatch, tmp_path / "bin", TWICE, refused="--csv")
    assert _profiled(suite, tmp_path).why_not == "Failed to find metric regex:smsp__x"
    fake_ncu(monkeypatch, tmp_path / "bin", TWICE, TENTH)
    assert "has 2 launches instead of 1" in _profiled(suite, tmp_path).why_not
    monkeypatch.setattr("warpsight.hardware.device.profiler.find_ncu", lambda: None)
    assert _profiled(suite, tmp_path).why_not.startswith("ncu is neither on PATH")


def test_every_metric_that_is_asked_for_is_read() -> None:
    assert set(METRICS[:-1]) <= set(METRIC_KINDS) | {"sm__cycles_elapsed.max"}
