from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.base.errors import SpecError, UsageError
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import CARVE_OUTS, LIMITERS, occupancy, with_own_l1
from warpsight.gpu.spec import SmSpec

PASCAL = load_gpu("mdm-pascal", ["sm.register_unit=256"])
LIMITER_WORDS = {"threads": "threads", "regs": "registers"}

# Registers per thread and static shared memory of the reference kernels, as the assembler of CUDA 13.0 reports them:
# nvcc -O3 -arch=sm_75 -cubin -Xptxas -v kernels.cu (V13.0.88)
RESOURCES = {
    "vector_add": (12, 0), "grid_stride": (41, 0), "gather": (10, 0), "spmv_csr": (55, 0), "bfs_level": (14, 0),
    "kmeans_assign": (53, 0), "transpose_naive": (8, 0), "matmul_naive": (49, 0), "matmul_tiled": (64, 2048), "stencil5": (16, 0),
    "block_sum": (10, 1024), "histogram": (10, 1024), "row_sum": (42, 0), "fma_chain": (8, 0), "scatter": (10, 0),
}


@pytest.mark.oracle
def test_occupancy_of_every_reference_kernel_equals_the_reference(shared: Path) -> None:
    with (shared / "reference" / "cycles.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["gpu"] for row in rows} == {"mdm-pascal", "gpumech"}
    assert {row["kernel"] for row in rows} == set(RESOURCES)
    for row in rows:
        x, y, z = (int(part) for part in row["block"].split("x"))
        found = occupancy(load_gpu(row["gpu"]), x * y * z, *RESOURCES[row["kernel"]])
        expected = (int(row["blocks_per_sm"]), LIMITER_WORDS[row["limiter"]])
        assert (found.blocks_per_sm, found.limiter) == expected, row
        assert found.warps_per_sm == found.blocks_per_sm * x * y * z // 32


# what the occupancy tables of CUDA give for an SM of compute capability 7.5 and 8.0, worked by hand from their rules
TURING = replace(load_gpu("mdm-letter").sm, max_warps=32, max_blocks=16, shared_memory_bytes=64 << 10, schedulers=4,
                 register_unit=256)
AMPERE = replace(TURING, max_warps=64, max_blocks=32, shared_memory_bytes=164 << 10, shared_memory_unit_bytes=128,
                 shared_memory_reserved_bytes=1024, max_shared_memory_per_block_bytes=163 << 10)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("sm", "block", "expected"),
    [
        (TURING, (32, 16, 0), (16, 16, "blocks")),
        (TURING, (33, 16, 0), (16, 32, "threads")),
        (TURING, (1024, 64, 0), (1, 32, "threads")),
        (TURING, (256, 16, 16 << 10), (4, 32, "threads")),
        (TURING, (128, 16, (16 << 10) + 1), (3, 12, "shared memory")),
        (AMPERE, (256, 32, 0), (8, 64, "threads")),
        # 33 registers are 40 a thread, 1,280 a warp; each quarter of the file holds 12 warps, so 48 in all
        (AMPERE, (256, 33, 0), (6, 48, "registers")),
        # 80 registers: 2,560 a warp, 6 warps a quarter, 24 in all; the undivided file would hold 25
        (AMPERE, (32, 80, 0), (24, 24, "registers")),
        # one warp of 255 registers: 8,192 a warp, two a quarter, eight in all
        (AMPERE, (32, 255, 0), (8, 8, "registers")),
        # 1 KiB of every block goes to the system: 164 KiB / (40 + 1) KiB
        (AMPERE, (128, 16, 40 << 10), (4, 16, "shared memory")),
        (AMPERE, (128, 16, 163 << 10), (1, 4, "shared memory")),
        (AMPERE, (64, 0, 0), (32, 64, "threads")),
    ],
)
def test_occupancy_follows_the_allocation_rules_of_cuda(
    sm: SmSpec, block: tuple[int, int, int], expected: tuple[int, int, str]
) -> None:
    found = occupancy(replace(load_gpu("mdm-letter"), sm=sm), *block)
    assert (found.blocks_per_sm, found.warps_per_sm, found.limiter) == expected
    assert found.fraction == expected[1] / sm.max_warps


@pytest.mark.unit
@pytest.mark.parametrize(
    ("threads", "registers", "shared", "words"),
    [
        (2048, 16, 0, "2,048 threads per block needed, 1,024 available"),
        (256, 256, 0, "256 registers per thread needed, 255 available"),
        (1024, 65, 0, "73,728 registers per block needed, 65,536 available"),
        (256, 16, 97 << 10, "99,328 bytes of shared memory per block needed, 98,304 available"),
        (0, 16, 0, "is not possible"), (32, -1, 0, "is not possible"), (32, 1, -1, "is not possible"),
    ],
)
def test_occupancy_of_a_block_that_does_not_fit_names_the_resource(threads: int, registers: int, shared: int, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        occupancy(PASCAL, threads, registers, shared)
    assert words in str(caught.value)
    assert caught.value.remedy


@pytest.mark.unit
def test_occupancy_of_a_block_that_the_reserved_memory_pushes_out_is_refused() -> None:
    gpu = load_gpu("mdm-pascal", ["sm.shared_memory_reserved=1KiB"])
    with pytest.raises(UsageError, match=r"99,328 bytes of shared memory per block .rounded up"):
        occupancy(gpu, 32, 16, 96 << 10)


@pytest.mark.property
@given(threads=st.integers(1, 1024), registers=st.integers(0, 64), shared=st.integers(0, 96 << 10))
def test_occupancy_of_any_block_fits_and_one_block_more_would_not(threads: int, registers: int, shared: int) -> None:
    sm = PASCAL.sm
    found = occupancy(PASCAL, threads, registers, shared)
    warps = (threads + 31) // 32

    def fits(blocks: int) -> bool:
        per_warp = (registers * 32 + 255) // 256 * 256
        return (blocks * warps <= sm.max_warps and blocks <= sm.max_blocks and blocks * warps * per_warp <= sm.registers
                and blocks * ((shared + 255) // 256 * 256) <= sm.shared_memory_bytes)

    assert fits(found.blocks_per_sm)
    assert not fits(found.blocks_per_sm + 1)
    assert found.limiter in LIMITERS


@pytest.mark.parametrize(
    ("gpu", "threads", "shared", "l1_kib"),
    [
        # 8 blocks of 256 threads on an A100, each with the system's 1 KiB: 8 KiB are shared memory, of 192
        ("a100", 256, 0, 192 - 8),
        ("a100", 64, 0, 192 - 32),  # 32 blocks
        ("a100", 1024, 20 << 10, 192 - 64),  # 2 blocks of 21 KiB
        ("a100", 32, 160 << 10, 192 - 164),
        ("v100", 256, 0, 128),  # the system takes nothing before 8.0
        ("rtx2060", 1024, 0, 96 - 32),  # Turing has two steps
        ("rtx2060", 1024, 33 << 10, 96 - 64),
        ("rtx3080", 512, 4096, 128 - 16),  # 3 blocks of 5 KiB
        ("h100-sxm", 128, 12 << 10, 256 - 228),  # 16 blocks of 13 KiB are 208
        ("mdm-pascal", 256, 0, 48),
    ],
)
def test_l1_is_what_the_blocks_of_a_launch_leave(gpu: str, threads: int, shared: int, l1_kib: int) -> None:
    described = load_gpu(gpu)
    launched = with_own_l1(described, occupancy(described, threads, 16, shared))
    assert launched.l1.size_bytes == l1_kib << 10
    assert launched.l1.sets == described.l1.sets
    assert occupancy(described, threads, 16, shared).blocks_per_sm == occupancy(launched, threads, 16, shared).blocks_per_sm


@given(st.sampled_from(sorted(CARVE_OUTS)), st.integers(1, 32), st.integers(0, 48 << 10))
def test_carve_out_never_costs_a_block_its_place(capability: str, warps: int, shared: int) -> None:
    gpu = load_gpu("h100-sxm", overrides=[f"compute_capability={capability}"])
    resident = occupancy(gpu, 32 * warps, 16, shared)
    assert resident.carve_out_bytes is not None
    per_block = -(-(shared + 1024) // 128) * 128
    assert resident.blocks_per_sm * per_block <= resident.carve_out_bytes <= gpu.sm.shared_memory_bytes


def test_carve_out_without_a_compute_capability_is_refused() -> None:
    with pytest.raises(SpecError, match=r"l1\.carve_out is true.*compute capability 7\.0"):
        load_gpu("mdm-pascal", overrides=["l1.carve_out=true"])
