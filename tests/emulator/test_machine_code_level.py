"""Does machine code write the same memory as PTX, bit for bit? Each kernel of our suite on one architecture, by its place in the
list.

`validation/machine_code.py` runs all of them on all architectures, and `pytest tests/emulator --machine-code 80` every kernel of
these tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from machine_code import ARCHITECTURES, compared
from warpsight.pipeline.suites import SuiteKernel, load_suite

pytestmark = pytest.mark.oracle

SUITE = load_suite(Path(__file__).resolve().parents[2] / "suites" / "warpsight")
CASES = [(kernel, ARCHITECTURES[place % len(ARCHITECTURES)]) for place, kernel in enumerate(SUITE.kernels)]


@pytest.mark.parametrize(("kernel", "architecture"), CASES, ids=lambda value: getattr(value, "name", str(value)))
def test_kernel_of_the_suite_writes_the_same_memory_at_both_levels(kernel: SuiteKernel, architecture: int) -> None:
    run = compared(kernel.request(), architecture)
    assert run.differences == 0
    assert run.opcodes  # it was machine code that ran
