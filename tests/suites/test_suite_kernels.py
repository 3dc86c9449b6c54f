"""Does each kernel of our own suite compute what NumPy and SciPy do, and is it what its manifest and the page say it is?"""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.pipeline.suite_check import check_kernel
from warpsight.pipeline.suites import SuiteKernel, load_suite

pytestmark = pytest.mark.oracle

SUITE = load_suite(Path(__file__).resolve().parents[2] / "suites" / "warpsight")


@pytest.mark.parametrize("kernel", SUITE.kernels, ids=lambda kernel: kernel.name)
def test_kernel_of_the_suite_is_right_and_as_its_manifest_and_the_page_say(kernel: SuiteKernel) -> None:
    import marked_page
    import own_suite

    run = check_kernel(kernel)
    assert [str(each) for each in run.differences] == []
    assert run.trace.header.kernel == kernel.name
    row = own_suite.row_of(kernel, run.trace)
    assert row.memory_class == kernel.expected_class
    assert 50_000 <= row.warp_instructions <= 1_500_000
    assert row.megabytes <= 40
    assert row.text() in marked_page.get(own_suite.PAGE, own_suite.COMMAND, "kernels").splitlines(), f"run {own_suite.COMMAND}"


def test_page_has_a_row_for_every_kernel_and_no_other() -> None:
    import marked_page
    import own_suite

    header, ruler, *rows = marked_page.get(own_suite.PAGE, own_suite.COMMAND, "kernels").splitlines()
    assert f"{header}\n{ruler}" == own_suite.HEADER
    assert sorted(row.split("[")[1].split("]")[0] for row in rows) == [kernel.name for kernel in SUITE]
