"""Do the parts of the reuse-distance model do what the paper says of them?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reuse_cases import warps_stream

from warpsight.addressing.mapping import FERMI, set_index
from warpsight.base.errors import SpecError, UsageError
from warpsight.caches.reuse import state as at
from warpsight.caches.reuse.model import Placement, analyse, evaluate, next_level
from warpsight.caches.reuse.one_pass import all_sizes_and_ways
from warpsight.caches.reuse.settings import EXTENSIONS, ReuseSettings, set_numbers, spread_of

pytestmark = pytest.mark.unit
SMALL = ReuseSettings(4096, 128, 4, sigma=0.0)
ONE = Placement(1, 8)


def fermi(address: int, sets: int) -> int:
    """Section 5.1 and Fig. 6, bit by bit."""
    index = 0
    for place, (low, high) in enumerate(zip((7, 8, 9, 10, 11), (13, 14, 15, 17, 19), strict=True)):
        index |= ((address >> low & 1) ^ (address >> high & 1)) << place
    return index | (address >> 12 & 1) << 5 if sets == 64 else index


@pytest.mark.parametrize("sets", [32, 64])
def test_fermi_hash_is_section_5_1_bit_by_bit(sets):
    lines = np.random.default_rng(1).integers(0, 2**25, 2000)
    expected = [fermi(int(line) * 128, sets) for line in lines]
    assert set_numbers(lines, sets, "fermi", ()).tolist() == expected
    assert [set_index(int(line), sets, FERMI) for line in lines] == expected


def test_index_bits_that_say_the_fermi_hash_give_it():
    lines = np.random.default_rng(2).integers(0, 2**25, 500)
    bits = ((0, 6), (1, 7), (2, 8), (3, 10), (4, 12), (5,))
    assert np.array_equal(set_numbers(lines, 64, "bits", bits), set_numbers(lines, 64, "fermi", ()))


def test_spread_is_half_normal():
    drawn = spread_of(5.0)
    assert drawn.min() == 0
    assert abs(drawn.mean() - 5 * np.sqrt(2 / np.pi)) < 0.05
    assert abs(np.mean(drawn <= 5) - 0.7287) < 0.002  # |N| rounded to at most 5: below 1.1 sigma


def test_a_request_for_a_line_in_flight_is_a_latency_miss_and_asks_for_nothing_more():
    found = evaluate(SMALL, warps_stream([[[7]], [[7]], [[7]]]), ONE, keep_misses=True)
    assert found.counts.sum(0).tolist() == [0, 1, 0, 0, 2]
    assert found.misses.shape == (at.KEPT_ROWS, 1)


def test_mshrs_hold_up_warps_and_merging_needs_none():
    warps = warps_stream([[[1]], [[2]], [[1]]])
    found = evaluate(replace(SMALL, mshrs=1), warps, ONE, log=1000)
    rows = found.log
    assert rows[0, at.LOG_CLASS] == at.COMPULSORY
    assert rows[1, at.LOG_CLASS] == at.CANCEL
    assert rows[2, at.LOG_CLASS] == at.IN_FLIGHT
    assert rows[-1, at.LOG_TIME] == 101  # line 1 is back at the end of step 100, and its register free
    assert evaluate(replace(SMALL, mshrs=1).off("mshr"), warps, ONE).cancelled == 0


def test_a_warp_that_does_not_wait_holds_at_most_its_own_mshrs():
    one = warps_stream([[[line] for line in range(9)]])
    off = frozenset({"divergence"})
    free = evaluate(replace(SMALL, warp_mshrs=0, without=off), one, ONE, log=10_000)
    held = evaluate(replace(SMALL, warp_mshrs=6, without=off), one, ONE, log=10_000)
    assert free.log[:, at.LOG_USED_AFTER].max() == 9
    assert held.log[:, at.LOG_USED_AFTER].max() == 6


def test_a_divergent_warp_waits_for_its_slowest_lane_and_one_step():
    found = evaluate(SMALL, warps_stream([[[1], [2]]]), ONE, log=10)
    assert found.log[:, at.LOG_TIME].tolist() == [0, 101]


def test_next_block_goes_to_the_core_that_first_ends_one():
    # core 0 gets a long block, core 1 a short one: block 2 follows on core 1
    warps = warps_stream([[[1], [2], [3]], [[4]], [[4]]])
    found = evaluate(SMALL, warps, Placement(2, 1), keep_all=True)
    assert found.misses[at.KEPT_CORE].tolist() == [0, 1, 0, 1, 0]
    assert found.counts.sum(0)[at.HIT] == 1


def test_mshr_misses_are_the_difference_and_the_classes_sum_to_all():
    rng = np.random.default_rng(3)
    warps = warps_stream([[rng.integers(0, 90, 8).tolist() for _ in range(60)] for _ in range(12)])
    for mshrs in (2, 8, 64):
        settings_ = replace(SMALL, mshrs=mshrs, sigma=5.0)
        found = analyse(settings_, warps, Placement(1, 8))
        assert found.counts.sum() == warps.transactions
        assert (found.counts >= 0).all()
        free = evaluate(settings_.off("mshr"), warps, Placement(1, 8))
        assert found.mshr_difference == (found.outcome.total_misses - free.total_misses if found.outcome.cancelled else 0)
        assert found.totals()["mshr"] == max(0, found.mshr_difference)


def test_same_seed_same_answer_and_another_seed_another():
    rng = np.random.default_rng(4)
    warps = warps_stream([[rng.integers(0, 300, 8).tolist() for _ in range(60)] for _ in range(12)])
    spread = replace(SMALL, sigma=5.0)
    first, again, other = (evaluate(replace(spread, seed=seed), warps, ONE).by_set for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


LINES = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=6, unique=True), min_size=1, max_size=30)


@settings(max_examples=30, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=6), st.integers(1, 3), st.sampled_from(["modulo", "fermi"]))
def test_one_pass_equals_a_run_for_each_size_and_ways(warps, cores, index):
    stream, place = warps_stream(warps), Placement(cores, 2)
    base = ReuseSettings(4096, 128, 4, index, without=frozenset({"latency"}))
    points = [(size, ways) for size in (1024, 2048, 4096) for ways in (1, 2, 4, 8)]
    answers = all_sizes_and_ways(base, stream, place, points)
    for (size, ways), answer in zip(points, answers, strict=True):
        assert analyse(replace(base, size_bytes=size, ways=ways), stream, place).totals() == answer


MANY = st.lists(st.lists(st.integers(0, 2000), min_size=1, max_size=32, unique=True), min_size=1, max_size=60)


@settings(max_examples=25, deadline=None)
@given(st.lists(MANY, min_size=1, max_size=4), st.integers(1, 2), st.sampled_from(["modulo", "xor", "fermi"]), st.integers(1, 400))
def test_one_pass_equals_a_run_for_rows_of_every_width(warps, cores, index, apart):
    # few lines far apart fill few sets, and many lines fill ways beyond those that are looked at in one step
    warps = [[[line % apart * 8 for line in access] for access in accesses] for accesses in warps]
    stream, place = warps_stream([[list(dict.fromkeys(access)) for access in accesses] for accesses in warps]), Placement(cores, 2)
    base = ReuseSettings(4096, 128, 4, index, without=frozenset({"latency"}))
    points = [(128 * sets * ways, ways) for sets in (1, 2, 8, 64, 1 << 14) for ways in (1, 3, 4, 7, 16, 17, 33, 70)]
    if index == "modulo":
        points += [(128 * sets * 5, 5) for sets in (3, 6, 7, 12, 100)]
    answers = all_sizes_and_ways(base, stream, place, points)
    for (size, ways), answer in zip(points, answers, strict=True):
        assert analyse(replace(base, size_bytes=size, ways=ways), stream, place).totals() == answer


@settings(max_examples=30, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=6))
def test_every_extension_off_or_on_counts_every_transaction(warps):
    stream = warps_stream(warps)
    for name in EXTENSIONS:
        found = evaluate(replace(SMALL, mshrs=3, sigma=4.0).off(name), stream, ONE)
        assert found.counts.sum() == found.by_set.sum() == stream.transactions
        assert found.counts.sum(0)[at.COMPULSORY] == len(stream.line_number)


def test_l2_takes_the_misses_of_all_cores():
    stream = warps_stream([[[1], [2]], [[2], [1]]])
    found = evaluate(SMALL, stream, Placement(2, 1), keep_misses=True)
    second = next_level(ReuseSettings(8192, 128, 8), stream, found.misses)
    assert second.counts.sum(0).tolist() == [2, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "error", "place"),
    [
        ({"size_bytes": 1000}, SpecError, "l1.size"),
        ({"ways": 3, "size_bytes": 3 * 128 * 5, "index": "fermi"}, SpecError, "l1.index"),
        ({"index": "bits", "index_bits": ((1,),)}, SpecError, "index_bits"),
        ({"miss_latency": -1}, UsageError, "--miss-latency"),
        ({"sigma": float("nan")}, UsageError, "--sigma"),
        ({"without": frozenset({"clip"})}, UsageError, "without"),
        ({"mshrs": 0}, SpecError, "l1.mshrs"),
    ],
)
def test_what_cannot_be_modelled_is_refused_with_its_place(changes, error, place):
    with pytest.raises(error) as caught:
        replace(SMALL, **changes).check()
    assert str(caught.value).startswith(place)


def test_requests_leave_one_a_step_and_each_finds_its_own_register():
    stream = warps_stream([[[1, 2, 3], [1]]])
    found = evaluate(replace(SMALL, mshrs=2, issue="request"), stream, ONE, log=1000)
    issued = found.log[found.log[:, at.LOG_CLASS] != at.CANCEL]
    # two registers are taken at 0 and 1; the third request finds one when the first line is back; the warp waits for its last line
    assert issued[:, at.LOG_TIME].tolist() == [0, 1, 100, 201]
    assert issued[:, at.LOG_CLASS].tolist() == [at.COMPULSORY] * 3 + [at.HIT]
    assert found.log[:, at.LOG_USED_AFTER].max() == 2


@settings(max_examples=30, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=6), st.integers(1, 5))
def test_requests_one_by_one_count_every_transaction_and_keep_to_the_registers(warps, mshrs):
    stream = warps_stream(warps)
    found = evaluate(replace(SMALL, mshrs=mshrs, sigma=4.0, issue="request"), stream, ONE, log=100_000)
    assert found.counts.sum() == stream.transactions
    assert found.log[:, at.LOG_USED_AFTER].max() <= mshrs
