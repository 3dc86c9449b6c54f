"""Does the machine code of any kernel write what its PTX writes, bit for bit?

`WARPSIGHT_TEST_EXAMPLES` says how many kernels of each kind are tried, `WARPSIGHT_TEST_ARCHITECTURES` (`75,90`) on what they run.
"""

from __future__ import annotations

import os
import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from random_kernels import OUT_WORDS, RandomKernel, branching, exchanging, straight_line
from test_random_kernels import UNTOUCHED, _comparable

from warpsight.emulator.run.launch import emulate, prepare_kernel
from warpsight.kernels.launch_check import make_launch
from warpsight.kernels.machine_code import UNFUSED
from warpsight.kernels.registers import RegisterUse
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture

pytestmark = pytest.mark.property
EXAMPLES = int(os.environ.get("WARPSIGHT_TEST_EXAMPLES", "2"))
ARCHITECTURES = [int(each) for each in os.environ.get("WARPSIGHT_TEST_ARCHITECTURES", "90").split(",")]
# The same kernels every time, as in `test_random_kernels.py`.
quick = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def _written(kernel: RandomKernel, architecture: Architecture | None) -> npt.NDArray[np.uint32]:
    """What the kernel stores, at the level of PTX (None) or as machine code."""
    source, out = load_source(kernel.text), np.full(kernel.threads * OUT_WORDS, UNTOUCHED, np.uint32)
    launch = make_launch(source, "k", kernel.grid, kernel.block, [kernel.words.copy(), out, np.uint32(kernel.scalar)])
    prepared = prepare_kernel(source, "k", architecture=architecture, assembler=(UNFUSED,))
    emulate(source, launch, registers=RegisterUse(32, "estimate", 0), prepared=prepared)
    return out


# Not tried: shifts by more than any width. NVIDIA's assembler (13.0) makes `mul.wide.s32 q, r, 1` and `shl.b64 q, q, 2147483647`
# behind it one product by 1, where PTX defines 0. And `bfe.s32` of constant bits behind the last one: it gives -1 for every value,
# where PTX defines the sign.
_FAR = re.compile(r"shl\.b\d\d .*, \d{3,};|bfe\.s32 .*, (3[2-9]|[4-9]\d|\d{3,}), \d+;")


def check_levels(kernel: RandomKernel, number: int) -> None:
    """Run a kernel at both levels and compare all that it stored."""
    assume(not _FAR.search(kernel.text))
    note(kernel.text)
    note(f"sm_{number} grid {kernel.grid} block {kernel.block} scalar {kernel.scalar}")
    wanted, got = (_comparable(_written(kernel, architecture)) for architecture in (None, Architecture(number)))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("number", ARCHITECTURES)
@quick
@given(kernel=straight_line())
def test_machine_code_of_a_straight_line_kernel_writes_what_its_ptx_writes(number: int, kernel: RandomKernel) -> None:
    check_levels(kernel, number)


@pytest.mark.parametrize("number", ARCHITECTURES)
@quick
@given(kernel=branching())
def test_machine_code_of_a_branching_kernel_writes_what_its_ptx_writes(number: int, kernel: RandomKernel) -> None:
    check_levels(kernel, number)


@pytest.mark.parametrize("number", ARCHITECTURES)
@quick
@given(kernel=exchanging())
def test_machine_code_of_a_kernel_with_barriers_writes_what_its_ptx_writes(number: int, kernel: RandomKernel) -> None:
    check_levels(kernel, number)
