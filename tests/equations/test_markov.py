"""Does the Markov chain of suspended warps equal hand calculations and a simulation of itself?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.equations.multithreading import issue_probability
from warpsight.models import markov_chain as markov

pytestmark = pytest.mark.unit

probabilities = st.floats(0.001, 1)
stalls = st.floats(1, 3000)


@given(st.lists(st.tuples(st.integers(1, 300), st.floats(0, 2000)), min_size=1, max_size=5))
def test_one_warp_alone_runs_at_equation_5_of_gpumech(rows: list[tuple[int, float]]) -> None:
    instructions, stall_cycles = np.array(rows, dtype=np.float64).T
    suspend, stall = markov.chain_parameters(instructions, stall_cycles)
    assert 0 <= suspend <= 1
    assert stall >= 1
    assert markov.throughput(1, 1, suspend, stall) == pytest.approx(issue_probability(instructions, stall_cycles))


def test_two_warps_at_one_half_are_both_suspended_a_sixth_of_the_time() -> None:
    # p = 1/M = 1/2. Rows by hand: 0 -> (1/2, 1/2, 0), 1 -> (1/4, 1/2, 1/4), 2 -> (1/4, 1/2, 1/4); stationary (1/3, 1/2, 1/6)
    chain = markov.transitions(2, 1, 0.5, 0.5)
    assert chain.tolist() == [[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]]
    assert markov.stationary(chain).tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 6])
    assert markov.throughput(2, 1, 0.5, 2) == pytest.approx(5 / 6)


def test_warps_that_always_stall_one_cycle_take_turns() -> None:
    # with two warps one issues while the other is suspended: the state with none suspended is never entered again
    assert markov.throughput(2, 1, 1.0, 1.0) == pytest.approx(1)
    assert markov.throughput(1, 1, 1.0, 1.0) == pytest.approx(1 / 2)


def test_warps_that_never_stall_fill_the_issue_width() -> None:
    assert [markov.throughput(warps, 2, 0.0, 1.0) for warps in (0, 0.5, 1, 5)] == [0, 0.5, 1, 2]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40), st.integers(1, 3), probabilities, stalls)
def test_transition_rows_are_distributions_and_one_of_them_stays(warps: int, width: int, suspend: float, stall: float) -> None:
    chain = markov.transitions(warps, width, suspend, 1 / stall)
    assert chain.min() >= 0
    assert chain.sum(axis=1) == pytest.approx(np.ones(warps + 1))
    found = markov.stationary(chain)
    assert found @ chain == pytest.approx(found, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 2), probabilities, stalls)
def test_one_warp_more_never_lowers_throughput_and_adds_at_most_its_own(
    warps: int, width: int, suspend: float, stall: float
) -> None:
    fewer, more = (markov.throughput(count, width, suspend, stall) for count in (warps, warps + 1))
    assert fewer <= more * (1 + 1e-12)
    assert more <= fewer + markov.throughput(1, width, suspend, stall) * (1 + 1e-9)


def test_fraction_of_a_warp_is_between_its_neighbours() -> None:
    below, between, above = (markov.throughput(count, 1, 0.1, 100) for count in (2, 2.5, 3))
    assert between == pytest.approx((below + above) / 2)


def test_chain_of_three_warps_runs_as_fast_as_warps_drawn_at_random() -> None:
    random, cycles, suspend, stall = np.random.default_rng(7), 100_000, 0.2, 12.0
    suspended, issued = np.zeros(3, dtype=bool), 0
    for draw in random.random((cycles, 4)):
        ready = np.flatnonzero(~suspended)
        suspended &= draw[:3] >= 1 / stall
        if ready.size:
            issued += 1
            suspended[ready[0]] |= draw[3] < suspend
    assert markov.throughput(3, 1, suspend, stall) == pytest.approx(issued / cycles, rel=0.02)
