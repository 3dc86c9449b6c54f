"""Do non-overlapped instructions follow GPUMech's eqs. 9-16?"""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.equations.multithreading import (
    issue_probability,
    multithreaded_cycles,
    nonoverlapped,
    nonoverlapped_greedy,
)

pytestmark = pytest.mark.unit

INSTRUCTIONS, STALLS = np.array([1.0, 4.0, 7.0]), np.array([10.0, 10.0, 0.0])


def _plain_total(warps: float, width: float, greedy: bool) -> float:
    """Eqs. 9-16 one interval at a time."""
    probability = 12 / 32
    total = 0.0
    for count, stall in zip(INSTRUCTIONS, STALLS, strict=True):
        if greedy:
            issued = 4.0 * min(probability * stall, 1.0) * (warps - 1)
            total += max(issued - stall * width, 0.0)
        else:
            total += probability * (warps - 1) * (count - 1)
    return total


def test_issue_probability_is_instructions_over_cycles() -> None:
    assert issue_probability(INSTRUCTIONS, STALLS) == 12 / 32


def test_nonoverlapped_for_many_designs_equals_one_at_a_time() -> None:
    warps = np.array([1.0, 2.5, 16.0, 64.0, 3.0, 64.0])
    width = np.array([1.0, 1.0, 2.0, 1.0, 1.0, 2.0])
    greedy = np.array([True, True, True, True, False, False])
    found = nonoverlapped(INSTRUCTIONS, STALLS, warps, width, greedy=greedy)
    assert found == pytest.approx([_plain_total(w, i, g) for w, i, g in zip(warps, width, greedy, strict=True)])


def test_probability_in_a_long_stall_is_1_and_not_more() -> None:
    # corrected eq. 15: the others issue 4 each on average, however long the stall
    assert nonoverlapped_greedy(np.array([100.0]), 1.0, 4.0, 51, issue_rate=1.0).tolist() == [100]


def test_overlapped_stall_leaves_no_negative_count() -> None:
    # corrected eq. 16
    assert nonoverlapped_greedy(np.array([100.0]), 1.0, 4.0, 3, issue_rate=1.0).tolist() == [0]


def test_one_warp_has_nothing_to_wait_for() -> None:
    one = np.ones(1)
    assert nonoverlapped(INSTRUCTIONS, STALLS, one, one, greedy=np.array([False])).tolist() == [0]
    assert nonoverlapped_greedy(STALLS, 0.375, 4.0, 1, issue_rate=1.0).tolist() == [0, 0, 0]


def test_wider_issue_takes_nonoverlapped_instructions_in_fewer_cycles() -> None:
    assert multithreaded_cycles(INSTRUCTIONS, STALLS, 20.0, np.array([1.0, 2.0])).tolist() == [52, 42]
