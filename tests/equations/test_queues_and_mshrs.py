"""Do the contention equations equal their plain sums and limits?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.equations import queues
from warpsight.equations import queues as mshr

pytestmark = pytest.mark.unit


@given(st.integers(1, 3000), st.integers(1, 300))
def test_expected_queueing_delay_equals_the_sum_of_equation_19(requests: int, mshrs: int) -> None:
    rounds = sum(-(-j // mshrs) for j in range(1, requests + 1))
    assert mshr.expected_queueing_delay(requests, mshrs, 1.0) == pytest.approx(rounds / requests - 1, abs=1e-9)


def test_mshr_delay_at_figure_9_waits_one_latency_for_a_quarter_of_the_requests() -> None:
    # 4 warps of 2 requests on 6 MSHRs: requests 7 and 8 are served in the second round
    delay = mshr.mshr_delay(np.array([2.0]), np.array([1.0]), 4, 6, 100.0)
    assert delay.tolist() == pytest.approx([25.0])


def test_mshr_delay_where_registers_suffice_is_0() -> None:
    assert mshr.mshr_delay(np.array([2.0, 0.0, 1.0]), np.ones(3), 3, 6, 100.0).tolist() == [0, 0, 0]


def test_batching_stall_at_one_miss_more_than_the_registers_is_one_latency() -> None:
    reads = np.array([2.0, 2.03125, 4.03125])
    assert mshr.batching_stall(reads, 64, 128, 500.0).tolist() == [0, 500, 1000]


def test_misses_in_flight_are_bounded_for_reads_and_not_for_writes() -> None:
    assert mshr.misses_in_flight(np.array([4.0, 0.5]), np.array([3.0, 0.0]), 64, 128).tolist() == [128 + 192, 32]


@given(st.floats(0.05, 0.999), st.floats(0.1, 50))
def test_bandwidth_delay_of_a_stable_queue_is_the_m_d_1_mean_or_the_cap(utilisation: float, service: float) -> None:
    requests, sms = 10.0, 4
    cycles = requests * sms * service / utilisation
    # Pollaczek-Khinchine with constant service: rho / (2 (1 - rho)) services
    expected = min(service * utilisation / (2 * (1 - utilisation)), service * requests * sms / 2)
    assert queues.bandwidth_delay(requests, sms, service, cycles) == pytest.approx(expected, rel=1e-6)


def test_bandwidth_delay_of_an_overloaded_queue_is_half_of_all_requests() -> None:
    assert queues.bandwidth_delay(np.array([10.0, 10.0]), 4, 2.0, np.array([80.0, 10.0])).tolist() == [40, 40]


def test_bandwidth_delay_without_requests_is_0() -> None:
    assert queues.bandwidth_delay(np.array([0.0]), 4, 2.0, np.array([80.0])).tolist() == [0]


def test_service_cycles_of_a_line_are_bytes_over_bandwidth_in_core_cycles() -> None:
    assert queues.service_cycles(1.6e9, 128, 320e9) == pytest.approx(0.64)
    assert queues.dram_service_cycles(1.6e9, 128, 320e9, 0.25) == pytest.approx(0.16)


def test_queueing_stall_is_half_unless_exposed() -> None:
    assert queues.queueing_stall(64, 20, 0.5, np.array([False, True])).tolist() == [320, 640]


def test_noc_is_saturated_only_beyond_the_round_trip() -> None:
    assert queues.is_noc_saturated(1.0, np.array([17.0, 17.5]), 20, 120, 220).tolist() == [False, True]


def test_latencies_add_up_as_in_equations_4_and_5() -> None:
    plain = queues.latency_without_contention(120, 220, 0.5)
    assert plain == 230
    assert math.isclose(queues.memory_stall(plain, 10, 20), 260)
