"""Is what a report says of resources what the launch asks of them, by hand?"""

from __future__ import annotations

from typing import Any

import pytest

from warpsight.analysis.report_data.resources import operations
from warpsight.gpu.loader import load_gpu

pytestmark = pytest.mark.unit

GPU = load_gpu("mdm-pascal")
WARPS = 64 * 4


def row(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(each for each in rows if each["name"] == name)


def test_load_store_unit_takes_a_line_a_cycle(report_data: dict[str, Any]) -> None:
    # a warp reads 32 lines and writes one
    alone = row(report_data["alone"], "l1")["cycles"]
    assert alone == pytest.approx(33 * WARPS / GPU.sm_count)


def test_issue_slots_take_an_instruction_a_cycle(report_data: dict[str, Any]) -> None:
    instructions = report_data["predictions"][0]["warp_instructions"]
    assert row(report_data["alone"], "issue")["cycles"] == pytest.approx(instructions / GPU.sm_count)


def test_noc_carries_a_line_for_each_miss(report_data: dict[str, Any]) -> None:
    # every line is touched once: 32 x 128 B a warp come back, more than the 128 B that a store sends
    cycles = 32 * 128 * WARPS / GPU.noc.bandwidth_bytes_per_s * GPU.core_clock_hz
    assert row(report_data["alone"], "noc")["cycles"] == pytest.approx(cycles)


def test_speed_of_light_is_the_time_alone_over_the_predicted(report_data: dict[str, Any]) -> None:
    cycles = report_data["predictions"][0]["cycles"]
    for each in report_data["alone"][:-1]:
        found = row(report_data["speed_of_light"], each["name"])
        assert found["percent"] == pytest.approx(100 * each["cycles"] / cycles)
        assert found["value"] / found["peak"] == pytest.approx(found["percent"] / 100)


def test_roofline_counts_sectors_at_l1_and_a_multiply_add_as_two(report_data: dict[str, Any]) -> None:
    instructions, flops = report_data["rooflines"]
    assert row(instructions["levels"], "L1")["bytes"] == 36 * 32 * WARPS
    assert flops["work"] == 2 * 32 * WARPS
    assert flops["ceilings"][0]["per_s"] == pytest.approx(28 * 32 * 2 * 1.4e9)


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("fma.rn.f32", ("fp32", 2.0)), ("add.f64", ("fp64", 1.0)), ("fma.rn.f16x2", ("fp16", 4.0)), ("add.s32", ("", 0.0)),
        ("mad.lo.s32", ("", 0.0)), ("FFMA", ("fp32", 2.0)), ("DFMA", ("fp64", 2.0)), ("HFMA2.MMA", ("fp16", 4.0)),
        ("MUFU.RCP64H", ("fp64", 1.0)), ("IADD3", ("", 0.0)), ("ld.global.f32", ("", 0.0)),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ("tensor", 2 * 16 * 8 * 16 / 32)),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", ("tensor", 2 * 16 * 16 * 16 / 32)),
        ("HMMA.16816.F32", ("tensor", 2 * 16 * 8 * 16 / 32)), ("DMMA.884", ("tensor", 2 * 8 * 8 * 4 / 32)),
        ("HMMA.884.F32.F32.STEP1", ("tensor", 2 * 8 * 8 * 4 / 32)), ("IMMA.16832.S8.S8", ("", 0.0)),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", ("tensor", 2 * 64 * 256 * 16 / 128)),
        ("wgmma.fence.sync.aligned", ("", 0.0)), ("HGMMA.64x256x16.F32", ("tensor", 2 * 64 * 256 * 16 / 128)),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", ("", 0.0)), ("wmma.load.a.sync.aligned.row.m16n16k16.f16", ("", 0.0)),
    ],
)  # fmt: skip
def test_operations_of_an_opcode(opcode: str, expected: tuple[str, float]) -> None:
    assert operations(opcode) == expected
