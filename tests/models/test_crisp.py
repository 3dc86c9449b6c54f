"""Does CRISP stretch what the clock stretches, and nothing else?"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import gpu, gpus, profile, profiles

from warpsight.base.errors import SpecError
from warpsight.gpu.design import Design
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import get_model
from warpsight.models.crisp import compute_store_path, load_critical_path
from warpsight.result.prediction import Prediction

pytestmark = pytest.mark.unit


def _at(made: IntervalProfile, machine: GpuSpec, slowdown: float) -> Prediction:
    target = {"crisp.target_clock": machine.core_clock_hz / slowdown}
    return get_model("crisp").predict(made, dataclasses.replace(machine, parameters=target))


@pytest.mark.parametrize(
    ("overlapped", "stalls", "slowdown", "time"),
    [(30, 70, 1, 100), (30, 70, 2, 100), (30, 70, 3, 100), (30, 70, 4, 120), (0, 70, 9, 70), (30, 0, 2, 60)],
)
def test_load_critical_path_is_memory_time_until_stretched_computation_is_longer(
    overlapped: float, stalls: float, slowdown: float, time: float
) -> None:
    assert load_critical_path(overlapped, stalls, slowdown) == time


@pytest.mark.parametrize(("computation", "stores", "slowdown", "time"), [(50, 0, 2, 100), (50, 25, 1.2, 75), (50, 25, 2, 100)])
def test_compute_store_path_scales_once_computation_has_hidden_the_stores(
    computation: float, stores: float, slowdown: float, time: float
) -> None:
    assert compute_store_path(computation, stores, slowdown) == time


def test_computation_alone_takes_as_many_cycles_and_more_seconds_at_half_the_clock() -> None:
    made = profile([(100, 300, 1, 0, 0, 0, 0, 0)])
    fast, slow = _at(made, gpu(), 1), _at(made, gpu(), 2)
    assert slow.cycles == pytest.approx(fast.cycles)
    assert slow.seconds == pytest.approx(2 * fast.seconds)
    assert slow.cpi_stack == pytest.approx(fast.cpi_stack)


def test_one_warp_that_waits_for_memory_takes_the_same_time_but_for_its_issue() -> None:
    # 10 instructions, then 400 cycles of memory, and nobody to overlap: 10 cycles stretch to 20, 400 stay
    made = profile([(10, 400, 2, 1, 0, 0, 0, 0)], warps_per_sm=1, total_warp_instructions=10 * 28)
    fast, slow = _at(made, gpu(), 1), _at(made, gpu(), 2)
    assert fast.seconds * 1.4e9 == pytest.approx(410)
    assert slow.seconds * 1.4e9 == pytest.approx(420)
    assert slow.cpi_stack["base"] * 10 == pytest.approx(10)
    assert slow.cpi_stack["mem_data"] * 10 == pytest.approx(200)


def test_warps_that_hide_each_others_loads_slow_down_only_beyond_the_memory_time() -> None:
    # round-robin, 4 warps: issue 40 of 410 cycles and more; the load critical path is 400 cycles whatever the clock
    made = profile([(10, 400, 2, 1, 0, 0, 0, 0)], warps_per_sm=4, total_warp_instructions=40 * 28)
    times = [_at(made, gpu(policy="lrr"), slowdown).seconds * 1.4e9 for slowdown in (1, 2, 40)]
    assert times[0] <= times[1] < 1.1 * times[0]
    assert times[2] == pytest.approx(40 * 40, rel=0.3)


def test_at_the_nominal_clock_the_answer_is_that_of_the_components() -> None:
    made = profile([(100, 279, 1, 0, 0, 0, 0, 0), (71, 700, 2, 1, 1, 0.5, 1, 0.5)])
    assert get_model("crisp").predict(made, gpu()).cycles == pytest.approx(get_model("gpumech").predict(made, gpu()).cycles)


def test_higher_clock_is_refused_with_the_key() -> None:
    made = profile([(100, 279, 1, 0, 0, 0, 0, 0)])
    with pytest.raises(SpecError, match=r"2\.8 GHz is above the nominal 1\.4 GHz") as caught:
        _at(made, gpu(), 0.5)
    assert caught.value.place == "crisp.target_clock"


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(profiles(), gpus, st.floats(1, 8), st.floats(1, 3))
def test_lower_clock_is_never_faster_and_never_slower_than_in_proportion(
    made: IntervalProfile, machine: GpuSpec, slowdown: float, more: float
) -> None:
    nominal, slow, slower = (_at(made, machine, factor) for factor in (1, slowdown, slowdown * more))
    assert nominal.seconds * (1 - 1e-9) <= slow.seconds <= slower.seconds * (1 + 1e-9)
    assert slow.seconds <= slowdown * nominal.seconds * (1 + 1e-9)
    assert sum(slow.cpi_stack.values()) == pytest.approx(slow.cpi)
    assert min(slow.cpi_stack.values()) >= 0


def test_clocks_of_many_designs_at_once_equal_one_at_a_time() -> None:
    made = profile([(100, 279, 1, 0, 0, 0, 0, 0), (71, 700, 2, 1, 1, 0.5, 1, 0.5)])
    clocks = np.array([1.4e9, 1.2e9, 0.7e9, 0.2e9])
    together = get_model("crisp").evaluate(made, Design.of(gpu()).varied({"crisp.target_clock": clocks}))
    for row, clock in enumerate(clocks):
        assert together["seconds"][row] == pytest.approx(_at(made, gpu(), 1.4e9 / clock).seconds, rel=1e-12)
