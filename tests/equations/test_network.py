"""Does the closed network obey the laws of queueing, and come near exact mean-value analysis?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.equations.queues import closed_network

pytestmark = pytest.mark.unit

_cycles = st.floats(0.01, 1e4)
_networks = st.tuples(st.lists(_cycles, min_size=1, max_size=5), st.floats(0, 1e5), st.integers(1, 80))


def throughput(demands: list[float], delay: float, customers: float) -> float:
    rate, _ = closed_network(np.array([demands]), np.array([delay]), np.array([float(customers)]))
    return float(rate[0])


def exact(demands: list[float], delay: float, customers: int) -> float:
    """Reiser and Lavenberg's recursion over the number of customers."""
    queue = [0.0] * len(demands)
    rate = 0.0
    for count in range(1, customers + 1):
        residence = [d * (1 + q) for d, q in zip(demands, queue, strict=True)]
        rate = count / (delay + sum(residence))
        queue = [rate * r for r in residence]
    return rate


def test_one_customer_never_waits() -> None:
    assert throughput([3.0, 5.0], 12.0, 1) == pytest.approx(1 / 20)


def test_one_server_without_delay_is_always_busy() -> None:
    assert throughput([4.0], 0.0, 7) == pytest.approx(1 / 4)


def test_equal_servers_share_the_customers_as_in_the_exact_solution() -> None:
    # four servers of 2 cycles, six customers: X = C / (D (K + C - 1))
    assert throughput([2.0] * 4, 0.0, 6) == pytest.approx(6 / (2 * 9))


def test_many_customers_reach_the_bottleneck_and_no_more() -> None:
    assert throughput([1.0, 8.0], 100.0, 4000) == pytest.approx(1 / 8, rel=1e-2)
    assert throughput([1.0, 8.0], 100.0, 4000) <= 1 / 8


def test_delay_alone_lets_all_go_round_at_once() -> None:
    assert throughput([0.0], 50.0, 10) == pytest.approx(10 / 50)


def test_constant_services_are_waited_for_less_than_random_ones() -> None:
    """Two customers, a service of 1 and a delay of 3: X (3 + R) = 2 with R = (1 - u / 2) / (1 - u), or 1 / (1 - u), and u = X / 2.

    These are 1.75 X^2 - 5 X + 2 = 0 and 1.5 X^2 - 5 X + 2 = 0.
    """
    rows = np.array([[1.0], [1.0]]), np.array([3.0, 3.0]), np.array([2.0, 2.0])
    rate, residence = closed_network(*rows, np.array([0.0, 1.0]))
    assert rate == pytest.approx([(5 - 11**0.5) / 3.5, (5 - 13**0.5) / 3])
    assert rate * (3 + residence[:, 0]) == pytest.approx([2, 2])


def test_round_without_any_cycles_is_refused() -> None:
    with pytest.raises(ValueError, match="takes no cycles"):
        throughput([0.0], 0.0, 3)


@pytest.mark.property
@settings(deadline=None, max_examples=200)
@given(_networks)
def test_throughput_is_near_the_exact_one_and_within_its_bounds(network: tuple[list[float], float, int]) -> None:
    demands, delay, customers = network
    found = throughput(demands, delay, customers)
    assert found == pytest.approx(exact(demands, delay, customers), rel=0.15)
    assert found <= min(1 / max(demands), customers / (delay + sum(demands))) * (1 + 1e-12)


@pytest.mark.property
@settings(deadline=None, max_examples=200)
@given(_networks, st.integers(0, 4), st.floats(1.0, 5.0))
def test_slower_server_or_longer_delay_never_raises_the_throughput(
    network: tuple[list[float], float, int], which: int, factor: float
) -> None:
    demands, delay, customers = network
    slower = [d * factor if k == which % len(demands) else d for k, d in enumerate(demands)]
    base = throughput(demands, delay, customers)
    assert throughput(slower, delay, customers) <= base * (1 + 1e-9)
    assert throughput(demands, delay * factor, customers) <= base * (1 + 1e-9)
    assert throughput(demands, delay, customers + 1) >= base * (1 - 1e-9)


@pytest.mark.property
@settings(deadline=None, max_examples=100)
@given(_networks)
def test_customers_are_all_somewhere(network: tuple[list[float], float, int]) -> None:
    demands, delay, customers = network
    rate, residence = closed_network(np.array([demands]), np.array([delay]), np.array([float(customers)]))
    somewhere = rate[0] * (delay + residence[0].sum())
    # fewer only where the bottleneck law holds the throughput back
    assert somewhere == pytest.approx(customers, rel=1e-6) or rate[0] == pytest.approx(1 / max(demands))
