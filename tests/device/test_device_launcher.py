"""Does the launcher speak to a driver as cuda.h says, and tell what the driver refuses? The driver is a library of the test's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import UnsupportedError
from warpsight.hardware.device.gpu import DeviceError, Gpu, PackedLaunch, for_driver, readable_version, refuse_old
from warpsight.hardware.device.measure import Loaded, Settings, measure
from warpsight.hardware.device.prepare import helpers_ptx, make_case
from warpsight.kernels.assembler import assemble
from warpsight.kernels.toolkit import parse_architecture
from warpsight.pipeline.suites import Suite

pytestmark = pytest.mark.unit
Make = Callable[..., Suite]


def test_kernel_gets_the_arguments_and_arrays_of_the_case_and_its_results_come_back(fake_gpu: Path, suite_of: Make) -> None:
    case = make_case(suite_of("twice").kernel("twice").request(), "twice")
    with Gpu() as gpu:
        loaded = Loaded(gpu, case)
        first, second = loaded.run_once(), loaded.run_once()
    x, y, big = first
    assert np.array_equal(y, 2 * x)
    assert big[0] == (x > 0.5).sum()
    # the arrays are put back before each launch: the count is not added to
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    log = fake_gpu.read_text().splitlines()
    assert [line for line in log if line.startswith("launch")] == ["launch _Z5twicePKfPfPii 4x1x1 of 64x1x1, 0"] * 2
    assert log[-1] == "release, 0 allocations left"


def test_measured_run_is_restored_held_swept_and_between_two_events(fake_gpu: Path, suite_of: Make) -> None:
    case = make_case(suite_of("twice").kernel("twice").request(), "twice")
    with Gpu() as gpu:
        found, differing = measure(gpu, case, Settings(runs=5, warm_up=1))
    assert not differing
    assert found["equal"]
    assert found["repeatable"]
    # by the stand-in's own clock: 12 us the kernel, 2 us an empty one, 1.5 cycles a nanosecond
    assert found["kernel"]["microseconds"] == pytest.approx([12.0] * 5, rel=1e-4)
    assert (found["kernel"]["median"], found["empty"]["median"]) == (pytest.approx(12.0, rel=1e-4), pytest.approx(2.0, rel=1e-4))
    assert found["kernel"]["clock_hz"] == pytest.approx(1.5e9)
    log = fake_gpu.read_text().splitlines()
    run = ["copy"] * 3 + ["launch warpsight_clock 1x1x1 of 1x1x1, 0", "launch warpsight_sweep 1056x1x1 of 256x1x1, 0", "record",
                          "launch _Z5twicePKfPfPii 4x1x1 of 64x1x1, 0", "record"]  # fmt: skip
    text = "\n".join(log)
    assert text.count("\n".join(run)) == 6
    assert text.count("launch warpsight_empty 4x1x1 of 64x1x1, 0") == 6


def test_warm_runs_sweep_nothing(fake_gpu: Path, suite_of: Make) -> None:
    case = make_case(suite_of("twice").kernel("twice").request(), "twice")
    with Gpu() as gpu:
        measure(gpu, case, Settings(runs=2, warm_up=0, cold=False))
    assert "sweep" not in fake_gpu.read_text()


def test_much_dynamic_shared_memory_is_asked_for(fake_gpu: Path, suite_of: Make) -> None:
    case = make_case(suite_of("twice", shared=60_000).kernel("twice").request(), "twice")
    with Gpu() as gpu:
        assert measure(gpu, case, Settings(runs=1, warm_up=0))[0]["equal"]
    log = fake_gpu.read_text()
    assert "most dynamic shared memory of _Z5twicePKfPfPii: 60000" in log
    assert "launch warpsight_empty 4x1x1 of 64x1x1, 60000" in log


def test_other_bits_are_counted_and_kept(fake_gpu: Path, suite_of: Make) -> None:
    # the emulator multiplies by 0.1f, the stand-in divides by 10: of 256 numbers some round differently
    case = make_case(suite_of("tenth").kernel("tenth").request(), "tenth")
    with Gpu() as gpu:
        found, differing = measure(gpu, case, Settings(runs=1, warm_up=0))
    x = case.parameters[0].before
    assert x is not None
    by_hand = int(np.count_nonzero(x / np.float32(10) != np.float32(0.1) * x))
    rows = {row["parameter"]: row for row in found["buffers"]}
    assert by_hand > 0
    assert (rows[1]["differing"], rows[1]["largest_ulp"]) == (by_hand, 1)
    assert (rows[0]["differing"], rows[2]["differing"], found["equal"]) == (0, 0, False)
    assert np.array_equal(differing[1], x / np.float32(10))


def test_fault_of_a_kernel_is_told_with_the_drivers_words(fake_gpu: Path, suite_of: Make) -> None:
    case = make_case(suite_of("faulty").kernel("faulty").request(), "faulty")
    said = r"running faulty: CUDA_ERROR_ILLEGAL_ADDRESS \(700\), an illegal memory access was encountered"
    with pytest.raises(DeviceError, match=said) as caught, Gpu() as gpu:
        Loaded(gpu, case).run_once()
    assert caught.value.code == 700


def test_assemblers_log_is_shown(fake_gpu: Path) -> None:
    said = r"(?s)the driver's assembler refuses mine: CUDA_ERROR_INVALID_PTX \(218\).*line 7; error"
    with Gpu() as gpu, pytest.raises(DeviceError, match=said) as caught:
        gpu.load(".version 9.0\n.target sm_75\nunknown.opcode;", [], "mine")
    assert "\n" in caught.value.what


def test_launch_that_the_gpu_does_not_take_is_told(fake_gpu: Path) -> None:
    with Gpu() as gpu, pytest.raises(DeviceError, match=r"launching warpsight_empty: error \(1\)"):
        (empty,) = gpu.load(helpers_ptx("sm_75"), ["warpsight_empty"])
        PackedLaunch(gpu, empty, (1, 1, 1), (2048, 1, 1), []).launch()
    with Gpu() as gpu, pytest.raises(DeviceError, match=r"looking for nothing in PTX: error \(500\)"):
        gpu.load(helpers_ptx("sm_75"), ["nothing"])


def test_number_that_no_gpu_has_is_told(fake_gpu: Path) -> None:
    with pytest.raises(DeviceError, match="looking for GPU 3"):
        Gpu(3)


def test_without_a_driver_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsight.gpu.importers.device.LIBRARY", "libcuda-that-is-not-there.so.1")
    with pytest.raises(UnsupportedError, match="this machine has no NVIDIA driver") as caught:
        Gpu()
    assert caught.value.exit_code == 3


def test_driver_too_old_for_a_function_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with pytest.raises(UnsupportedError, match="has no cuInit: it is too old"):
        Gpu()


def test_ptx_of_a_newer_compiler_is_marked_as_the_driver_reads_it() -> None:
    ptx = "//\n.version 9.0\n.target sm_75\n.address_size 64\n"
    # PTX ISA, release table: 8.7 came with CUDA 12.8, 8.5 with 12.5 and was 12.6's too, 9.0 with 13.0
    assert for_driver(ptx, 12080) == ptx.replace("9.0", "8.7")
    assert for_driver(ptx, 12060) == ptx.replace("9.0", "8.5")
    assert for_driver(ptx, 13000) == ptx
    assert for_driver(ptx, 13020) == ptx
    assert for_driver(ptx.replace("9.0", "7.0"), 12080) == ptx.replace("9.0", "7.0")
    assert readable_version(12999) == "8.8"


def test_older_driver_is_given_ptx_that_it_reads(fake_gpu: Path, suite_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GPU_CUDA", "12080")
    case = make_case(suite_of("twice").kernel("twice").request(), "twice")
    assert ".version 9.0" in case.ptx
    with Gpu() as gpu:
        Loaded(gpu, case).run_once()


def test_gpu_older_than_the_kernel_is_told() -> None:
    refuse_old(9, 0, "sm_75")
    refuse_old(7, 5, "sm_75, texmode_independent")
    with pytest.raises(UnsupportedError, match=r"compiled for sm_75, and this GPU has compute capability 7\.0"):
        refuse_old(7, 0, "sm_75")


def test_sweep_reads_every_piece() -> None:
    ptx, pieces = helpers_ptx("sm_75"), 1000
    for place in (None, 0, 3, 1023, 2048, 4 * pieces - 1):
        data, out = np.zeros(4 * pieces, np.uint32), np.zeros(1, np.uint32)
        if place is not None:
            data[place] = 1
        warpsight.trace(ptx, kernel="warpsight_sweep", grid=2, block=128, args=[data, pieces, out])
        assert out[0] == (place is not None)


def test_clock_is_read_for_the_time_that_is_asked_for() -> None:
    # the emulator's clock and timer both count instructions: a cycle is a nanosecond there
    for nanoseconds in (10, 500, 5000):
        out = np.zeros(2, np.uint64)
        warpsight.trace(helpers_ptx("sm_75"), kernel="warpsight_clock", grid=1, block=1, args=[out, nanoseconds])
        cycles, measured = map(int, out)
        assert nanoseconds <= measured <= nanoseconds + 50
        assert abs(cycles - measured) <= 20


@pytest.mark.parametrize("architecture", ["75", "90", "120"])
def test_nvidias_assembler_takes_the_kernels_of_ours(architecture: str) -> None:
    assert len(assemble(helpers_ptx("sm_75"), "helpers.cu", parse_architecture(architecture))) > 1000
