"""The worked examples of Nugteren et al. (HPCA 2014), Tables 1 to 5, cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.caches.reuse import state as at
from warpsight.caches.reuse.access_stream import AccessStream, packed
from warpsight.caches.reuse.model import ModelRun, Placement, evaluate
from warpsight.caches.reuse.settings import EXTENSIONS, ReuseSettings

pytestmark = pytest.mark.paper

INFINITE = -1
ONE_THREAD_A_WARP = [[0, 1], [2, 3], [4, 5], [6, 7]]  # x[2 * tid], x[2 * tid + 1]


def stream_of(addresses: list[list[int]], line: int) -> AccessStream:
    """Warps of one thread, each with its addresses, in elements; `line` elements a cache line."""
    warp = np.repeat(np.arange(len(addresses)), [len(one) for one in addresses])
    flat = np.concatenate([np.array(one, np.int64) for one in addresses])
    stream, numbers = packed(len(addresses), warp, np.arange(len(flat)), flat // line, np.zeros_like(flat))
    return AccessStream(stream, numbers, line, 1, len(addresses), len(addresses), len(flat), 1)


def outcome(addresses: list[list[int]], line: int = 4, cache_lines: int = 1024, **given: object) -> ModelRun:
    settings = ReuseSettings(cache_lines * line, line, cache_lines, sigma=0.0, clip=False, **given)  # type: ignore[arg-type]
    return evaluate(settings, stream_of(addresses, line), Placement(1, 1), log=64)


def column(found: ModelRun, which: int) -> list[int]:
    return [int(x) for x in found.log[:, which]]


def missed(found: ModelRun) -> str:
    return "".join("h" if kind == at.HIT else "m" for kind in column(found, at.LOG_CLASS))


def distances(histogram: np.ndarray) -> dict[int, int]:
    return {place - 1: int(count) for place, count in enumerate(histogram) if count}


OFF = frozenset(EXTENSIONS)


@pytest.mark.parametrize(
    ("line", "expected"),
    [(1, {INFINITE: 4, 0: 1, 1: 1, 2: 1}), (4, {INFINITE: 3, 0: 1, 1: 2, 2: 1})],
    ids=["addresses", "lines"],
)
def test_table_1_and_figure_1_give_the_histogram(line, expected):
    assert distances(outcome([[0, 5, 3, 9, 3, 3, 5]], line, without=OFF).by_set) == expected


def test_table_1_distances_in_order():
    found = outcome([[0, 5, 3, 9, 3, 3, 5]], 4, miss_latency=0)
    assert column(found, at.LOG_DISTANCE) == [INFINITE, INFINITE, 1, INFINITE, 1, 0, 2]


def test_table_1_a_cache_of_two_lines_has_3_compulsory_and_1_capacity_miss():
    counts = outcome([[0, 5, 3, 9, 3, 3, 5]], 4, 2, without=OFF).counts.sum(0)
    assert (counts[at.COMPULSORY], counts[at.CAPACITY], counts[at.HIT]) == (3, 1, 3)


def test_table_2_round_robin_without_latency():
    found = outcome(ONE_THREAD_A_WARP, miss_latency=0)
    assert column(found, at.LOG_WARP) == [0, 1, 2, 3, 0, 1, 2, 3]
    assert column(found, at.LOG_DISTANCE) == [INFINITE, 0, INFINITE, 0, 1, 0, 1, 0]
    assert distances(outcome(ONE_THREAD_A_WARP, without=OFF).by_set) == {INFINITE: 2, 0: 4, 1: 2}


def test_table_3_fixed_latency_of_two():
    found = outcome(ONE_THREAD_A_WARP, hit_latency=2, miss_latency=2, without=frozenset({"divergence"}))
    assert column(found, at.LOG_TIME) == list(range(8))
    assert column(found, at.LOG_WARP) == [0, 1, 2, 3, 0, 1, 2, 3]
    assert column(found, at.LOG_LINE) == [0, 0, 1, 1, 0, 0, 1, 1]
    assert column(found, at.LOG_DISTANCE) == [INFINITE] * 4 + [0, 1, 0, 1]
    assert missed(found) == "mmmmhhhh"
    assert column(found, at.LOG_LATENCY) == [2] * 8
    assert column(found, at.LOG_EFFECT) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert found.counts.sum(0)[[at.COMPULSORY, at.IN_FLIGHT]].tolist() == [2, 2]


def test_table_4_hits_take_no_time():
    found = outcome(ONE_THREAD_A_WARP, cache_lines=2, miss_latency=2, without=frozenset({"divergence"}))
    assert column(found, at.LOG_LINE) == [0, 0, 1, 1, 0, 0, 1, 1]
    assert column(found, at.LOG_DISTANCE) == [INFINITE] * 4 + [0, 0, 1, 0]
    assert missed(found) == "mmmmhhhh"
    assert column(found, at.LOG_LATENCY) == [2, 2, 2, 2, 0, 0, 0, 0]
    assert column(found, at.LOG_EFFECT) == [2, 3, 4, 5, 4, 5, 6, 7]


def test_table_4_a_request_for_a_line_in_flight_comes_back_with_the_first():
    settings = ReuseSettings(8, 4, 2, sigma=0.0, miss_latency=2, without=frozenset({"divergence"}))
    found = evaluate(settings, stream_of(ONE_THREAD_A_WARP, 4), Placement(1, 1), log=64)
    assert column(found, at.LOG_EFFECT)[:2] == [2, 2]


def test_table_5_one_miss_register():
    found = outcome([[0, 1], [4, 5]], cache_lines=2, miss_latency=2, mshrs=1, without=frozenset({"divergence"}))
    assert column(found, at.LOG_TIME) == [0, 1, 2, 3, 4]
    assert column(found, at.LOG_WARP) == [0, 1, 0, 1, 1]
    assert column(found, at.LOG_LINE) == [0, 1, 0, 1, 1]
    assert column(found, at.LOG_DISTANCE) == [INFINITE, INFINITE, 0, INFINITE, INFINITE]
    assert column(found, at.LOG_USED_BEFORE) == [0, 1, 0, 0, 1]
    hit, compulsory, latency = at.HIT, at.COMPULSORY, at.IN_FLIGHT
    assert column(found, at.LOG_CLASS) == [compulsory, at.CANCEL, hit, compulsory, latency]
    used, effect = column(found, at.LOG_USED_AFTER), column(found, at.LOG_EFFECT)
    assert [used[i] for i in (0, 2, 3, 4)] == [1, 0, 1, 1]
    assert [effect[i] for i in (0, 2, 3, 4)] == [2, 2, 5, 6]
    assert found.cancelled == 1
