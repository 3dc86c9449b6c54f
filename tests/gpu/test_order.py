"""Does the order of accesses stay as a GPU is described, whatever is changed on top of it?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from warpsight.gpu.describe import dump_yaml
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import ordered

pytestmark = pytest.mark.unit

CHANGES = (
    "noc.bandwidth=525GB/s", "dram.bandwidth=960GB/s", "l1.mshrs=32", "core_clock=2GHz", "l2.latency=300cycles", "l2.mshrs=16",
)  # fmt: skip


def test_changed_design_is_ordered_by_the_timing_of_the_described_gpu() -> None:
    base, design = load_gpu("mdm-pascal"), load_gpu("mdm-pascal", [*CHANGES, "sm_count=15", "l1.size=96KiB"])
    seen = ordered(design)
    assert (seen.core_clock_hz, seen.l1.mshrs, seen.l2, seen.noc, seen.dram) == (1.4e9, 128, base.l2, base.noc, base.dram)
    assert (seen.sm_count, seen.l1.size_bytes) == (15, 96 * 1024)


def test_described_gpu_is_ordered_by_its_own_timing() -> None:
    base = load_gpu("gpumech")
    assert ordered(base) == base


def test_changes_in_two_steps_are_the_changes_in_one() -> None:
    twice = load_gpu(load_gpu("mdm-pascal", CHANGES[:3]), CHANGES[3:])
    assert twice == load_gpu("mdm-pascal", CHANGES)


def test_change_in_python_leaves_the_order_too() -> None:
    base = load_gpu("mdm-pascal")
    assert load_gpu(replace(base, l1=replace(base.l1, mshrs=16))).order == base.order


def test_zero_orders_by_the_designs_own_timing() -> None:
    design = load_gpu("mdm-pascal", ["noc.bandwidth=525GB/s", "order.noc_bandwidth=0B/s"])
    assert ordered(design).noc.bandwidth_bytes_per_s == 525e9


def test_design_written_as_a_file_keeps_its_order(tmp_path: Path) -> None:
    path = tmp_path / "design.yaml"
    design = load_gpu("mdm-pascal", ["noc.bandwidth=525GB/s"])
    path.write_text(dump_yaml(design))
    assert ordered(load_gpu(path)).noc.bandwidth_bytes_per_s == 1050e9


def test_file_of_its_own_is_ordered_by_itself_though_it_is_like_another(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("like: mdm-pascal\nnoc.bandwidth: 525 GB/s\nsources: estimated\n")
    assert ordered(load_gpu(path)).noc.bandwidth_bytes_per_s == 525e9
