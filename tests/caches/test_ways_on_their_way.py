"""Is an L1 that waits for a way of a full set told from one that waits for miss registers, or for nothing?"""

from __future__ import annotations

from typing import Any

import pytest
from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight.caches.exact.simulate import simulate_caches

pytestmark = pytest.mark.unit

SETS, WAYS, LANES = 64, 6, 32
L1 = {"size_bytes": SETS * WAYS * 128, "ways": WAYS}


def way_wait(stride: int, interleaving: str = "clocked", **l1: Any) -> float:
    """Of one warp whose 32 lanes load words `stride` lines apart, fifty times, nowhere twice."""
    accesses = [[128 * (stride * (LANES * k + lane)) for lane in range(LANES)] for k in range(50)]
    trace = build_trace(["load.global.4 r1 <- r0\nint r2 <- r1"], [Warp(((0, LANES, 50),), accesses)])
    gpu = small_gpu(sm_count=1, l1={**L1, **l1})
    return simulate_caches(trace, gpu, 1, interleaving=interleaving).way_wait


def test_lines_of_one_set_are_in_flight_six_at_a_time() -> None:
    # of each round, six cycles are those in which the six requests pass
    assert way_wait(SETS) == pytest.approx(1 / WAYS, rel=0.1)


def test_lines_of_few_sets_are_in_flight_as_many_at_a_time_as_those_have_ways() -> None:
    assert way_wait(SETS // 2) == pytest.approx(1 / (2 * WAYS), rel=0.3)


def test_lines_of_as_many_sets_as_hold_them_wait_for_no_way() -> None:
    assert way_wait(1) == 0
    assert way_wait(SETS // 8) == 0


def test_waiting_for_a_miss_register_is_not_waiting_for_a_way() -> None:
    assert way_wait(1, mshrs=2) == 0


def test_an_l1_that_allocates_on_fill_waits_for_no_way() -> None:
    assert way_wait(SETS, allocation="on-fill") == 0


def test_nothing_waits_where_nothing_takes_time() -> None:
    assert way_wait(SETS, "round-robin") == 0
