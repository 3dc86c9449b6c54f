"""Do blocks on SMs end when a fluid does, worked out by hand?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.intervals.demands import makespan, makespan_of_equals

pytestmark = pytest.mark.unit


def run(alone: list[float], demand: list[float], per_block: int, places: int, sm_count: int, greedy: bool = True) -> float:
    return makespan(np.array(alone), np.array(demand), per_block, places, sm_count, greedy)


def test_warps_that_need_nothing_of_each_other_end_when_the_slowest_does() -> None:
    assert run([10, 30, 20], [0, 0, 0], 1, 3, 1) == 30


def test_block_without_a_place_begins_when_one_ends() -> None:
    assert run([10, 30, 5], [0, 0, 0], 1, 2, 1) == 30
    assert run([10, 30, 25], [0, 0, 0], 1, 2, 1) == 35


def test_block_holds_its_place_until_its_last_warp_ends() -> None:
    assert run([10, 30, 5, 5], [0, 0, 0, 0], 2, 1, 1) == 35


def test_older_warp_goes_first_and_the_younger_on_what_it_leaves() -> None:
    """Both keep the resource busy all the time: 10, then 10."""
    assert run([10, 10], [10, 10], 1, 2, 1) == pytest.approx(20)
    # The older takes half. The younger's service takes twice as long for 20 cycles: it does 2 / 3 of its work, and then the rest.
    assert run([20, 20], [10, 10], 1, 2, 1) == pytest.approx(20 + 20 / 3)


def test_warps_slow_down_alike_under_round_robin() -> None:
    assert run([20, 20], [15, 15], 1, 2, 1, greedy=False) == pytest.approx(30)


def test_equal_warps_take_their_work_and_what_the_last_does_besides() -> None:
    assert makespan_of_equals(100, 10, 28, 1, 4, 28) == 100
    # 40 warps of 10 cycles, of which the last wave's 400 hide some of the other 90
    assert makespan_of_equals(100, 10, 28 * 40, 1, 40, 28) == pytest.approx(400 + 400 * 90 / 490)


def test_warps_of_different_schedulers_do_not_slow_each_other_down_and_do_not_help_each_other_out() -> None:
    alone, demand = np.array([20.0, 40.0, 20.0, 40.0]), np.array([20.0, 40.0, 20.0, 40.0])
    for greedy in (False, True):
        # slots 0 and 2 are the first scheduler's, 1 and 3 the second's: 40 cycles of work, and 80, which share nothing
        assert makespan(alone, demand, 1, 4, 1, greedy, 2) == pytest.approx(80)
        # one resource does all 120
        assert makespan(alone, demand, 1, 4, 1, greedy) == pytest.approx(120)


def test_equal_warps_take_the_scheduler_with_most_of_them() -> None:
    # 6 warps on 4 schedulers: two of them have two, and of the last one's other 10 cycles 20 x 10 / 30 stick out
    assert makespan_of_equals(20, 10, 1, 6, 1, 1, 4) == pytest.approx(20 + 20 * 10 / 30)


WARPS = st.lists(st.tuples(st.floats(1, 100), st.floats(0, 1)), min_size=1, max_size=40)


@pytest.mark.property
@given(WARPS, st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_no_launch_ends_before_its_longest_warp_or_its_work_is_done(
    warps: list[tuple[float, float]], places: int, sm_count: int, greedy: bool
) -> None:
    alone = [cycles for cycles, _ in warps]
    demand = [cycles * share for cycles, share in warps]
    found = run(alone, demand, 1, places, sm_count, greedy)
    assert found >= max(alone) - 1e-3
    assert found >= sum(demand) / sm_count - 1e-3
    assert found <= sum(alone) + 1e-3
