"""Is the launch found after which a program's memory depends on the order of blocks, and is a right program left alone?"""

from __future__ import annotations

import pytest
from programs_build import build, needs_nvcc

from warpsight.base.findings import ORDER, Finding
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.orders import compare_program_orders

pytestmark = [pytest.mark.unit, needs_nvcc]


def compared(*words: str) -> list[Finding]:
    found = compare_program_orders([str(build("orders.cu")), *words], load_gpu("a100"), 2)
    assert all(f.tool == ORDER and f.kind == "non-deterministic" for f in found)
    return found


def test_program_that_leaves_the_same_in_all_orders_has_no_finding() -> None:
    assert compared() == []


def test_first_launch_that_leaves_something_else_is_found_with_both_values() -> None:
    (finding,) = compared("last")
    assert (finding.launch, finding.kernel, finding.severity, finding.bytes) == (2, "last", "error", 4)
    assert "element 7 (uint32) of the device memory of 2,048 bytes is 7 in the usual order" in finding.message
    assert "and 0 in order 1" in finding.message


def test_sum_of_floats_is_a_warning() -> None:
    (finding,) = compared("sum")
    assert (finding.launch, finding.kernel, finding.severity) == (2, "sum", "warning")
    assert "element 3 (float32)" in finding.message


def test_output_in_another_order_is_a_warning() -> None:
    (finding,) = compared("print")
    assert finding.severity == "warning"
    assert "'block 0' in line 1" in finding.message
    assert "'block 2' in order 1" in finding.message
