"""Do the catalogue's NVIDIA GPUs reach the peaks of NVIDIA's own data sheets, and do the models and the referee run on them?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpu_pages
import warpsight
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import occupancy
from warpsight.gpu.peaks import peak_flops
from warpsight.report.gpu_page import gpu_page

pytestmark = pytest.mark.paper

# SMs, TFLOPS in fp32 and fp64, GB/s, MB of L2: data sheets and white papers
SHEETS = {
    "gtx1080": (20, 8.873, 0.277, 320, 2),
    "titan-v": (80, 14.9, 7.45, 652.8, 4.5),
    "v100": (80, 15.7, 7.8, 900, 6),
    "gv100": (80, 14.8, 7.4, 870, 6),
    "rtx2060": (30, 6.45, 0.2016, 336, 3),
    "rtx3070": (46, 20.3, 0.3174, 448, 4),
    "a100": (108, 19.5, 9.7, 1555, 40),
    "h100-pcie": (114, 51.2, 25.6, 2039, 50),
    "h100-sxm": (132, 66.9, 33.5, 3352, 50),
    "h200": (132, 66.9, 33.5, 4800, 50),
    "l4": (58, 30.3, 0.473, 300, 48),
    "rtx4090": (128, 82.6, 1.29, 1008, 72),
}
KERNEL = """\
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""


@pytest.mark.parametrize("name", SHEETS)
def test_gpu_reaches_the_peaks_of_its_data_sheet(name: str) -> None:
    gpu = load_gpu(name)
    sms, single, double, bandwidth, l2 = SHEETS[name]
    assert gpu.sm_count == sms
    assert peak_flops(gpu, "fp32") == pytest.approx(single * 1e12, rel=0.01)
    assert peak_flops(gpu, "fp64") == pytest.approx(double * 1e12, rel=0.01)
    assert (gpu.dram.bandwidth_bytes_per_s, gpu.l2.size_bytes) == (bandwidth * 1e9, l2 * 2**20)


@pytest.mark.parametrize("name", SHEETS)
def test_gpu_fits_what_the_referee_takes(name: str) -> None:
    gpu = load_gpu(name)
    assert gpu.l2.slices % gpu.dram.channels == 0
    assert gpu.sm.max_warps <= 64 * gpu.sm.schedulers


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "blocks"),
    [
        # CUDA's occupancy rules by hand: 65,536 registers, a block's shared memory and 1 KiB more from 8.0 on
        ("v100", 256, 32, 0, 8),
        ("rtx2060", 256, 32, 0, 4),
        ("rtx3070", 256, 32, 0, 6),
        ("a100", 1024, 64, 0, 1),
        ("a100", 128, 16, 20 * 1024, 7),
        ("rtx4090", 64, 16, 0, 24),
        ("h100-sxm", 128, 16, 75 * 1024, 3),
    ],
)
def test_residency_is_that_of_the_compute_capability(name: str, threads: int, registers: int, shared: int, blocks: int) -> None:
    assert occupancy(load_gpu(name), threads, registers, shared).blocks_per_sm == blocks


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> warpsight.KernelTrace:
    path = tmp_path_factory.mktemp("kernel") / "saxpy.cu"
    path.write_text(KERNEL)
    x, y = np.ones(16_384, np.float32), np.zeros(16_384, np.float32)
    return warpsight.trace(path, kernel="saxpy", grid=64, block=256, args=[np.float32(2), x, y, np.int32(16_384)])


@pytest.mark.parametrize("name", SHEETS)
def test_models_and_referee_run_on_it(name: str, trace: warpsight.KernelTrace) -> None:
    gpu = load_gpu(name)
    least = 3 * 4 * 16_384 / gpu.dram.bandwidth_bytes_per_s  # x and y come from DRAM, whatever else
    for model in ("mdm", "warpsight"):
        assert warpsight.predict(trace, gpu=name, model=model).seconds > least / 3
    assert warpsight.simulate(trace, gpu=name).cycles > gpu.l2.latency_cycles + gpu.dram.latency_cycles


def test_pages_are_those_that_the_descriptions_make(root: Path) -> None:
    assert gpu_pages.stale(root / "docs" / "gpus") == []
    assert "gpus/README.md" in (root / "docs" / "README.md").read_text()


def test_page_names_every_estimate_and_every_source() -> None:
    page = gpu_page(load_gpu("h100-sxm"), "command")
    assert "At most: fp32 66.9 TFLOPS, fp64 33.5 TFLOPS" in page
    estimates = next(line for line in page.splitlines() if line.startswith("Estimated"))
    assert "`noc.bandwidth`" in estimates
    assert "`sm_count`" not in estimates
    assert "| `sm_count` | 132 | NVIDIA H100 white paper: 132 SMs (SXM5) |" in page


@pytest.mark.parametrize(
    ("name", "l1", "l2", "memory", "shared"),
    [
        # Jia et al. 2018, table 3.1 and figure 3.2; Luo et al. 2024, table IV
        ("v100", 28, 193, 375, 19),
        ("a100", 37.9, 261.5, 466.3, 29.0),
        ("rtx4090", 43.4, 273.0, 541.5, 30.1),
        ("h100-pcie", 40.7, 263.0, 478.8, 29.0),
    ],
)
def test_latencies_of_memory_are_the_published_measurements(name: str, l1: float, l2: float, memory: float, shared: float) -> None:
    gpu = load_gpu(name)
    assert gpu.l1.latency_cycles == pytest.approx(l1, abs=0.5)
    assert gpu.l2.latency_cycles == pytest.approx(l2, abs=0.5)
    assert gpu.l2.latency_cycles + gpu.dram.latency_cycles == pytest.approx(memory, abs=1)
    assert gpu.latency_cycles["shared"] == pytest.approx(shared, abs=0.5)


@pytest.mark.parametrize(
    ("name", "latencies"),
    [
        # Jia et al. 2019, table 4.1: IADD, FFMA, DADD, MUFU, HFMA2; Abdelkhalik et al. 2022, table II, has no MUFU
        ("gtx1080", (6, 6, 8, 14, 6)),
        ("v100", (4, 4, 8, 14, 6)),
        ("rtx2060", (4, 4, 48, 15, 6)),
        ("a100", (4, 4, 5, None, 3)),
    ],
)
def test_latencies_of_arithmetic_are_the_published_measurements(name: str, latencies: tuple[int | None, ...]) -> None:
    gpu = load_gpu(name)
    for op, cycles in zip(("int", "fp32", "fp64", "sfu", "fp16"), latencies, strict=True):
        assert cycles in (None, gpu.latency_cycles[op])
