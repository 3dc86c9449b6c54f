"""Do the trees tell the distances that a list of lines tells?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.caches.reuse.access_stream import AccessStream, packed
from warpsight.caches.reuse.model import Placement, evaluate
from warpsight.caches.reuse.settings import EXTENSIONS, ReuseSettings

pytestmark = pytest.mark.property


def naive(lines: list[int], sets: int) -> dict[int, int]:
    """Distances of an LRU stack for each set (the remainder of the line), O(N M)."""
    stacks: dict[int, list[int]] = {}
    found: dict[int, int] = {}
    for line in lines:
        stack = stacks.setdefault(line % sets, [])
        distance = stack.index(line) if line in stack else -1
        found[distance] = found.get(distance, 0) + 1
        if distance >= 0:
            stack.remove(line)
        stack.insert(0, line)
    return found


def one_warp(lines: list[int]) -> AccessStream:
    """One warp that accesses one line after the other."""
    numbers, zeros = np.array(lines, np.int64), np.zeros(len(lines), np.int64)
    stream, known = packed(1, zeros, np.arange(len(lines)), numbers, zeros)
    return AccessStream(stream, known, 128, 1, 32, 1, len(lines), 1)


def histogram(counts: np.ndarray) -> dict[int, int]:
    return {place - 1: int(count) for place, count in enumerate(counts) if count}


# few lines make long reuses of each; many fill several words of a tree and make marks move together
TRACES = st.integers(1, 400).flatmap(lambda lines: st.lists(st.integers(0, lines), min_size=1, max_size=1500))


@settings(max_examples=60, deadline=None)
@given(TRACES, st.sampled_from([1, 2, 3, 8]), st.integers(1, 5))
def test_histogram_of_a_random_trace_equals_a_naive_lru_stack(lines, sets, ways):
    off = frozenset(EXTENSIONS) - {"associativity"}
    found = evaluate(ReuseSettings(sets * ways * 128, 128, ways, without=off), one_warp(lines), Placement(1, 1))
    expected, whole = naive(lines, sets), naive(lines, 1)
    assert histogram(found.by_set) == expected
    assert histogram(found.by_cache) == whole
    counts = found.counts.sum(0).tolist()
    assert counts[0] == sum(n for distance, n in expected.items() if 0 <= distance < ways)
    assert counts[1] == len(set(lines))
    assert sum(counts) == len(lines)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(100, 3000))
def test_histogram_of_a_long_trace_equals_a_naive_lru_stack(seed, lines):
    drawn = np.random.default_rng(seed).zipf(1.3, 4000) % lines
    found = evaluate(ReuseSettings(128 * 64, 128, 4, without=frozenset(EXTENSIONS)), one_warp(drawn.tolist()), Placement(1, 1))
    assert histogram(found.by_set) == naive(drawn.tolist(), 1)


@settings(max_examples=40, deadline=None)
@given(TRACES)
def test_every_extension_on_with_latency_zero_and_one_warp_changes_nothing(lines):
    off = frozenset(EXTENSIONS) - {"associativity"}
    plain = evaluate(ReuseSettings(4096, 128, 4, without=off), one_warp(lines), Placement(1, 1))
    on = evaluate(ReuseSettings(4096, 128, 4, miss_latency=0, sigma=0.0), one_warp(lines), Placement(1, 1))
    assert np.array_equal(plain.by_set, on.by_set)
    assert np.array_equal(plain.counts, on.counts)
