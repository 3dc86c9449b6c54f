"""Do the micro-benchmarks that the driver runs have the configurations of the CUDA program, and does `calibrate --run` fit them?"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import assert_one_error, run

from warpsight.gpu.loader import load_gpu
from warpsight.hardware.microbenchmarks.run import (
    MISS_RUNS,
    MOST_MISSES,
    RUNS,
    Machine,
    chases,
    residents,
    run_microbenchmarks,
    save,
    streams,
)
from warpsight.hardware.microbenchmarks.timings import read_timings

pytestmark = pytest.mark.unit

# what the host program calls, with a GPU whose every kernel takes no time
RUNTIME = """\
#include <cstddef>
typedef unsigned long long u64;
typedef int cudaError_t, cudaDeviceAttr, cudaEvent_t;
struct uint4 {{ unsigned x; }};
struct cudaDeviceProp {{ int multiProcessorCount, l2CacheSize, major, minor; char name[9]; }};
enum {{ cudaSuccess, cudaMemcpyDeviceToHost, cudaDevAttrClockRate }};
template <typename... T> int any(T...) {{ return 0; }}
#define cudaDeviceGetAttribute any
#define cudaMemset any
#define cudaDeviceSynchronize any
#define cudaGetLastError any
#define cudaMemcpy any
#define cudaEventSynchronize any
#define cudaEventElapsedTime any
#define cudaEventRecord any
#define cudaEventCreate any
#define cudaSetDevice any
#define cudaMalloc any
inline const char* cudaGetErrorString(int) {{ return ""; }}
inline int cudaGetDeviceProperties(cudaDeviceProp* p, int) {{ *p = {{{sms}, {l2}, 9, 0, "none"}}; return 0; }}
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="a C++ compiler builds the host program")
@pytest.mark.parametrize(("sms", "l2"), [(4, 65536), (28, 3 << 20), (132, 50 << 20)])
def test_plan_is_what_the_cuda_program_runs(sms: int, l2: int, tmp_path: Path) -> None:
    program, kernels = save(tmp_path)
    kernels.write_text("")
    program.write_text(re.sub(r"\w+<<<[^>]*>>>\(", "any(", program.read_text()))
    (tmp_path / "cuda_runtime.h").write_text(RUNTIME.format(sms=sms, l2=l2))
    built = tmp_path / "program"
    subprocess.run(["c++", "-std=c++17", "-w", "-x", "c++", f"-I{tmp_path}", program, "-o", built], check=True)
    text = subprocess.run([built], check=True, capture_output=True, text=True).stdout
    theirs = [tuple(line.split(",")[:6]) for line in text.splitlines()[2:]]
    machine = Machine(sms, l2)
    ours = [("resident", size * passes * sms, 16, passes, sms, threads) for threads, size, passes in residents(machine)] * 1
    ours += [("stream", size, 16, 1, blocks, threads) for blocks, threads, size in streams(machine)]
    ours = [row for row in ours for _ in range(RUNS)]
    ours += [("misses", 128 * count, 128, count, 1, 32) for count in range(1, MOST_MISSES + 1) for _ in range(MISS_RUNS)]
    ours += [("chase", c.lines * c.stride, c.stride, c.steps, 1, 32) for c in chases(machine) for _ in range(RUNS)]
    assert [tuple(map(str, row)) for row in ours] == theirs


def test_timings_of_a_gpu_are_what_its_kernels_took(fake_gpu: Path) -> None:
    told: list[tuple[int, int]] = []
    text = run_microbenchmarks(0, progress=lambda done, total: told.append((done, total)))
    found = read_timings(text, "t.csv")
    assert found.device == "NVIDIA H100 80GB HBM3, compute capability 9.0, 132 SMs, up to 1980000 kHz, L2 1048576 bytes"
    # the stand-in's: 30 cycles a step, 2 TB/s behind a microsecond
    assert {row.each for row in found.of("chase")} == {30.0}
    assert all(row.time == pytest.approx(1000 + row.size / 2000, rel=1e-3) for row in found.of("stream"))
    assert [row.time for row in found.of("misses")][:2] == [401, 402]
    assert told[-1][0] == told[-1][1] == len(text.splitlines()) - 2


def test_calibrate_runs_and_fits(fake_gpu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(capsys, "calibrate", tmp_path / "t.csv", "--run", "-o", tmp_path / "mine.yaml")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "t.csv").read_text().startswith("# device: NVIDIA H100 80GB HBM3")
    gpu = load_gpu(tmp_path / "mine.yaml")
    assert (gpu.name, gpu.sm_count) == ("mine", 132)  # what is not fitted is as on h100-sxm
    assert gpu.l1.latency_cycles == 30
    assert "calibrated: t.csv" in gpu.sources["l1.latency"]


def test_calibrate_refuses_what_cannot_be_meant(
    fake_gpu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("")
    assert_one_error(run(capsys, "calibrate", tmp_path / "t.csv", "--run"), 2, "t.csv: exists, and --run would overwrite it")
    assert_one_error(run(capsys, "calibrate", tmp_path / "t.csv", "--device", 1), 2, "--device: needs --run")
    assert_one_error(run(capsys, "calibrate", "--run"), 2, "--run: needs a file for the timings")
    assert_one_error(run(capsys, "calibrate", "--run", "--kernels", tmp_path), 2, "--run: needs a file for the timings")
    assert_one_error(run(capsys, "calibrate", "n.csv", "--run", "--kernels", tmp_path), 2, "--kernels: cannot be combined with --run")
    assert_one_error(run(capsys, "calibrate", tmp_path / "n.csv", "--run", "--device", "x"), 2, '"x" is not a whole number')
    assert_one_error(run(capsys, "calibrate", tmp_path / "n.csv", "--run", "--device", 4), 2, "there is no GPU 4")
    monkeypatch.setenv("FAKE_GPU_NAME", "NVIDIA H800")
    outcome = run(capsys, "calibrate", tmp_path / "n.csv", "--run")
    assert_one_error(outcome, 2, "no description of NVIDIA H800", "gpus from-device --device 0 -o base.yaml")
    assert not (tmp_path / "n.csv").exists()
    monkeypatch.setattr("warpsight.gpu.importers.device.LIBRARY", "libcuda-that-is-not-there.so.1")
    assert_one_error(run(capsys, "calibrate", tmp_path / "n.csv", "--run"), 3, "this machine has no NVIDIA driver")
