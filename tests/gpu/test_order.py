"""Does the order of accesses stay as a GPU is described, whatever is changed on top of it?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from warpsight.gpu.describe import dump_yaml
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.steps import BY_OWN, ordered

pytestmark = pytest.mark.unit

CHANGES = (
    "noc.bandwidth=525GB/s", "dram.bandwidth=960GB/s", "l1.mshrs=32", "core_clock=2GHz", "l2.latency=300cycles",
    "l1.latency=30cycles",
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
    design = load_gpu(replace(base, l1=replace(base.l1, mshrs=16)))
    assert design.reference == base.reference
    assert ordered(design).l1.mshrs == 128


def test_order_by_its_own_timing_is_a_method() -> None:
    design = load_gpu("mdm-pascal", ["noc.bandwidth=525GB/s"])
    assert ordered(design, BY_OWN) == design


def test_design_written_as_a_file_keeps_its_order(tmp_path: Path) -> None:
    path = tmp_path / "design.yaml"
    design = load_gpu("mdm-pascal", ["noc.bandwidth=525GB/s"])
    path.write_text(dump_yaml(design))
    assert ordered(load_gpu(path)).noc.bandwidth_bytes_per_s == 1050e9


def test_file_is_ordered_by_the_gpu_of_the_catalogue_that_it_is_like(tmp_path: Path) -> None:
    path, deeper = tmp_path / "own.yaml", tmp_path / "deeper.yaml"
    path.write_text("like: mdm-pascal\nnoc.bandwidth: 525 GB/s\nsources: estimated\n")
    deeper.write_text("like: own.yaml\ncore_clock: 2 GHz\nsources: estimated\n")
    assert ordered(load_gpu(path)).noc.bandwidth_bytes_per_s == 1050e9
    assert load_gpu(deeper).reference == load_gpu(path).reference == load_gpu("mdm-pascal").reference


def test_gpu_of_the_catalogue_is_ordered_by_itself_though_it_is_like_another() -> None:
    gpu = load_gpu("mdm-letter")
    assert gpu.reference is not None and gpu.reference.like == "mdm-letter"
    assert ordered(gpu) == gpu


def test_file_that_is_like_none_is_ordered_by_itself_and_so_are_its_changes(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(dump_yaml(load_gpu("mdm-pascal", ["noc.bandwidth=525GB/s"])).replace("like: mdm-pascal\n", ""))
    assert ordered(load_gpu(path)).noc.bandwidth_bytes_per_s == 525e9
    assert ordered(load_gpu(path, ["noc.bandwidth=2TB/s"])).noc.bandwidth_bytes_per_s == 525e9


def test_gpu_made_in_python_is_ordered_by_itself_however_it_is_changed() -> None:
    made = replace(load_gpu("mdm-pascal"), reference=None)
    assert ordered(load_gpu(made, ["noc.bandwidth=525GB/s"])).noc.bandwidth_bytes_per_s == 525e9
