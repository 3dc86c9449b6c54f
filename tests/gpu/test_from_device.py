"""Does a description of a GPU of this machine say what its driver says? The driver is a library that the test makes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.gpu.describe import made_yaml
from warpsight.gpu.importers.device import ATTRIBUTES, LIBRARY, OF_CAPABILITY, describe_device
from warpsight.gpu.loader import load_gpu

pytestmark = pytest.mark.unit

# as CUDA's deviceQuery shows them for these boards
A100_80GB = {
    "clock_khz": 1_410_000, "sm_count": 108, "memory_clock_khz": 1_593_000, "bus_bits": 5120, "l2_bytes": 41_943_040,
    "threads_per_sm": 2048, "major": 8, "minor": 0, "shared_bytes": 167_936, "registers": 65_536, "shared_bytes_of_block": 166_912,
    "blocks_per_sm": 32, "reserved_bytes": 1024, "warp_size": 32, "threads_of_block": 1024,
}  # fmt: skip
RTX4070 = A100_80GB | {
    "clock_khz": 2_475_000, "sm_count": 46, "memory_clock_khz": 10_501_000, "bus_bits": 192, "l2_bytes": 37_748_736,
    "threads_per_sm": 1536, "major": 8, "minor": 9, "shared_bytes": 102_400, "shared_bytes_of_block": 101_376, "blocks_per_sm": 24,
}  # fmt: skip
H200 = A100_80GB | {
    "clock_khz": 1_980_000, "sm_count": 132, "memory_clock_khz": 3_201_000, "bus_bits": 6144, "l2_bytes": 52_428_800, "major": 9,
    "shared_bytes": 233_472, "shared_bytes_of_block": 232_448,
}  # fmt: skip


class FakeDriver:
    """The functions of libcuda.so.1 that are asked, with its way of giving results: through pointers, 0 for success."""

    def __init__(self, *devices: tuple[str, dict[str, int]], init: int = 0) -> None:
        self.devices, self.init = devices, init

    def cuInit(self, flags: int) -> int:
        assert flags == 0
        return self.init

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.devices)
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 12080
        return 0

    def cuDeviceGet(self, handle: Any, number: int) -> int:
        handle._obj.value = 40 + number
        return 0

    def cuDeviceGetName(self, name: Any, length: int, handle: ctypes.c_int) -> int:
        assert length == len(name)
        name.value = self.devices[handle.value - 40][0].encode()
        return 0

    def cuDeviceGetPCIBusId(self, bus: Any, length: int, handle: ctypes.c_int) -> int:
        bus.value = b"0000:3b:00.0"
        return 0

    def cuDeviceGetAttribute(self, value: Any, code: int, handle: ctypes.c_int) -> int:
        name = next(name for name, known in ATTRIBUTES.items() if known == code)
        attributes = self.devices[handle.value - 40][1]
        if name not in attributes:
            return 1  # CUDA_ERROR_INVALID_VALUE: an attribute that the driver does not know
        value._obj.value = attributes[name]
        return 0


def install(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver | None) -> None:
    def load(name: str) -> FakeDriver:
        assert name == LIBRARY
        if driver is None:
            raise OSError("cannot open shared object file")
        return driver

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setitem(sys.modules, "pynvml", None)


def test_a100_is_what_its_driver_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, FakeDriver(("NVIDIA A100-SXM4-80GB", A100_80GB)))
    made = describe_device()
    assert (made.name, made.description.partition(",")[0]) == ("nvidia-a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB")
    (tmp_path / "a.yaml").write_text(made_yaml(made))
    gpu, base = load_gpu(tmp_path / "a.yaml"), load_gpu("a100")
    # 1,593 MHz, twice a clock, 5,120 bits: NVIDIA's data sheet has 2,039 GB/s
    assert gpu.dram.bandwidth_bytes_per_s == pytest.approx(2039.04e9)
    assert (gpu.sm_count, gpu.core_clock_hz, gpu.l2.size_bytes, gpu.sm.max_warps) == (108, 1.41e9, 40 * 2**20, 64)
    assert (gpu.sm, gpu.latency_cycles, gpu.l1, gpu.l2) == (base.sm, base.latency_cycles, base.l1, base.l2)
    assert "memory clock 1593 MHz x 2" in gpu.sources["dram.bandwidth"]
    assert gpu.sources["l2.latency"].startswith("must be calibrated: as on a100 (Luo et al. 2025")


def test_numbers_that_no_driver_tells_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(("NVIDIA A100-SXM4-80GB", A100_80GB)))
    made = describe_device()
    marked = {key for key, value in made.values.items() if value.source.startswith("must be calibrated")}
    assert {"latency.int", "l1.latency", "l1.mshrs", "l2.latency", "dram.latency", "noc.bandwidth", "sm.schedulers"} <= marked
    assert not {"sm_count", "core_clock", "sm.registers", "l2.size", "dram.bandwidth"} & marked
    assert "latency.int" in made.notes[0]
    assert "NVML is not available" in made.notes[-1]


def test_gpu_that_the_catalogue_lacks_takes_the_sm_of_its_compute_capability(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, FakeDriver(("other", A100_80GB), ("NVIDIA GeForce RTX 4070", RTX4070)))
    made = describe_device(1, name="mine")
    (tmp_path / "mine.yaml").write_text(made_yaml(made))
    gpu = load_gpu(tmp_path / "mine.yaml")
    # 504 GB/s on NVIDIA's page; 36 MB of L2 behind six controllers of 32 bits
    assert gpu.dram.bandwidth_bytes_per_s == pytest.approx(504e9, rel=1e-3)
    assert (gpu.name, gpu.sm_count, gpu.sm.max_blocks, gpu.l2.size_bytes) == ("mine", 46, 24, 36 * 2**20)
    assert (gpu.dram.channels, gpu.l2.slices) == (6, 36)
    # as many bytes a clock and slice as on the RTX 4090: 32
    assert gpu.noc.bandwidth_bytes_per_s == pytest.approx(36 * 32 * 2.475e9, rel=1e-4)


def test_l2_that_does_not_divide_among_the_channels_of_the_bus_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(("NVIDIA H200", H200)))
    made = describe_device()
    assert (made.values["dram.channels"].content, made.values["l2.slices"].content) == (40, 80)
    assert made.values["dram.bandwidth"].content == pytest.approx(4916.7e9, rel=1e-4)
    assert any("does not divide among 48 channels" in note for note in made.notes)


def test_compute_capability_without_a_gpu_in_the_catalogue_takes_the_nearest_below_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeDriver(("NVIDIA A10G-like", A100_80GB | {"minor": 7})))
    made = describe_device()
    assert any("no GPU of compute capability 8.7 is in the catalogue: rtx3070" in note for note in made.notes)
    assert made.values["compute_capability"].content == "8.7"
    install(monkeypatch, FakeDriver(("NVIDIA of tomorrow", H200 | {"minor": 9})))
    made = describe_device()
    assert made.values["compute_capability"].content == "9.0"
    assert any("no machine code for 9.9: that of 9.0 is executed" in note for note in made.notes)
    install(monkeypatch, FakeDriver(("Tesla P100", A100_80GB | {"major": 6})))
    with pytest.raises(UnsupportedError, match=r"compute capability 6\.0, and the catalogue begins at 6\.1"):
        describe_device()


def test_every_base_of_a_compute_capability_is_in_the_catalogue() -> None:
    assert all(load_gpu(name).name == name for name in OF_CAPABILITY.values())


def test_attributes_that_the_driver_does_not_know_stay_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: value for name, value in A100_80GB.items() if name not in ("memory_clock_khz", "l2_bytes", "clock_khz")}
    install(monkeypatch, FakeDriver(("NVIDIA A100", known)))
    made = describe_device()
    for key in ("dram.bandwidth", "l2.size", "core_clock"):
        assert made.values[key].source.startswith("must be calibrated: as on a100")


def test_clocks_are_those_of_nvml_where_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(("NVIDIA A100", A100_80GB)))
    nvml = types.ModuleType("pynvml")
    asked: list[bytes] = []

    def handle(bus: bytes) -> str:
        asked.append(bus)
        return "device"

    facts = {
        "NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVMLError": type("NVMLError", (Exception,), {}), "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None, "nvmlDeviceGetHandleByPciBusId": handle,
        "nvmlDeviceGetMaxClockInfo": lambda device, kind: {1: 1400, 2: 1215}[kind],
    }  # fmt: skip
    for name, fact in facts.items():
        monkeypatch.setattr(nvml, name, fact, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    made = describe_device()
    assert asked == [b"0000:3b:00.0"]
    assert made.values["core_clock"].content == 1.4e9
    assert made.values["dram.bandwidth"].content == pytest.approx(1555.2e9)
    assert not any("NVML is not available" in note for note in made.notes)

    def fails() -> None:
        raise nvml.NVMLError

    monkeypatch.setattr(nvml, "nvmlInit", fails)
    assert describe_device().values["core_clock"].content == 1.41e9


@pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler makes the library")
def test_a_library_that_is_really_loaded_is_asked_as_the_driver_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, Path(__file__).parent / "fake_libcuda.c"], check=True)
    monkeypatch.setattr("warpsight.gpu.importers.device.LIBRARY", str(library))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    made = describe_device()
    (tmp_path / "v.yaml").write_text(made_yaml(made))
    gpu, base = load_gpu(tmp_path / "v.yaml"), load_gpu("v100")
    assert made.description.startswith("Tesla V100-SXM2-16GB, as its driver (CUDA 12.8) reports, the rest as v100")
    # NVIDIA's white paper: 900 GB/s, rounded from 877 MHz x 2 x 4,096 bits
    assert gpu.dram.bandwidth_bytes_per_s == pytest.approx(898.05e9, rel=1e-4)
    assert (gpu.sm_count, gpu.core_clock_hz, gpu.l2, gpu.l1) == (80, 1.53e9, base.l2, base.l1)
    assert gpu.noc.bandwidth_bytes_per_s == pytest.approx(base.noc.bandwidth_bytes_per_s)


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (None, "this machine has no NVIDIA driver"),
        (FakeDriver(), "finds no GPU"),
        (FakeDriver(init=100), "finds no GPU"),
        (FakeDriver(init=999), "refuses cuInit with error 999"),
        (object(), "has no cuInit: it is too old"),
    ],
)
def test_without_driver_or_gpu_there_is_one_clear_error(driver: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, driver)
    with pytest.raises(UnsupportedError, match=said) as caught:
        describe_device()
    assert caught.value.exit_code == 3


def test_number_of_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(("NVIDIA A100", A100_80GB)))
    with pytest.raises(UsageError, match="there is no GPU 1: the driver finds 1"):
        describe_device(1)
