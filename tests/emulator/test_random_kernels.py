"""Does the emulator compute, bit for bit, what an independent interpreter computes, on any kernel?"""

from __future__ import annotations

import os

import numpy as np
import pytest
import scalar_interpreter
from hypothesis import HealthCheck, Phase, given, note, settings
from random_kernels import DOUBLES_AT, FLOATS_AT, OUT_WORDS, RandomKernel, branching, exchanging, straight_line

import warpsight

pytestmark = pytest.mark.property
# The same kernels every time: a run that fails must fail again. No shrinking: each try compiles a kernel, and the text is shown.
EXAMPLES = int(os.environ.get("WARPSIGHT_TEST_EXAMPLES", "12"))
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
QUIET = list(HealthCheck)
thorough = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, phases=PHASES, suppress_health_check=QUIET)
UNTOUCHED = 0xDEADBEEF


def _comparable(out: np.ndarray) -> np.ndarray:
    """Output words with every NaN made the same one: PTX does not say which NaN an operation gives."""
    words = out.reshape(-1, OUT_WORDS).copy()
    floats = words[:, FLOATS_AT]
    floats[np.isnan(floats.view(np.float32))] = 0x7FFFFFFF
    doubles = np.ascontiguousarray(words[:, DOUBLES_AT]).view(np.uint64)
    doubles[np.isnan(doubles.view(np.float64))] = 0x7FFFFFFFFFFFFFFF
    words[:, DOUBLES_AT] = doubles.view(np.uint32)
    return words


def check_agreement(kernel: RandomKernel) -> None:
    """Run both and compare all that they stored."""
    note(kernel.text)
    note(f"grid {kernel.grid} block {kernel.block} scalar {kernel.scalar}")
    wanted, got = (np.full(kernel.threads * OUT_WORDS, UNTOUCHED, np.uint32) for _ in range(2))
    launch = {"grid": kernel.grid, "block": kernel.block}
    scalar_interpreter.run(kernel.text, "k", **launch, args=[kernel.words.copy(), wanted, np.uint32(kernel.scalar)])
    warpsight.trace(kernel.text, kernel="k", **launch, args=[kernel.words.copy(), got, np.uint32(kernel.scalar)])
    np.testing.assert_array_equal(_comparable(got), _comparable(wanted))


@thorough
@given(straight_line())
def test_straight_line_kernel_equals_the_interpreter(kernel: RandomKernel) -> None:
    check_agreement(kernel)


@thorough
@given(branching())
def test_branching_kernel_equals_the_interpreter(kernel: RandomKernel) -> None:
    check_agreement(kernel)


@thorough
@given(exchanging())
def test_kernel_with_barriers_equals_the_interpreter(kernel: RandomKernel) -> None:
    check_agreement(kernel)
