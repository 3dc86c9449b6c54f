"""With all extensions off, is the reuse-distance model the exact simulation of the caches?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight.caches.exact.simulate import simulate_caches
from warpsight.caches.reuse.access_stream import of_trace
from warpsight.caches.reuse.model import Placement, evaluate
from warpsight.caches.reuse.settings import EXTENSIONS, settings_of

pytestmark = pytest.mark.property

ACCESSES = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8), min_size=1, max_size=60)


def trace_of(warps: list[list[list[int]]]):
    code = ["load.global.4 r1 <- r0"]
    return build_trace(code, [
        Warp(((0, 32, len(accesses)),), [[128 * line for line in access] for access in accesses]) for accesses in warps
    ])


@settings(max_examples=40, deadline=None)
@given(ACCESSES, st.sampled_from([(1, 8), (4, 2), (8, 1)]), st.sampled_from(["modulo", "xor", "fermi"]))
def test_one_warp_equals_the_exact_simulation(accesses, shape, index):
    sets, ways = shape
    trace = trace_of([accesses])
    gpu = small_gpu(1, {"size_bytes": sets * ways * 128, "ways": ways, "index": index})
    off = frozenset(EXTENSIONS) - ({"associativity"} if sets > 1 else frozenset())
    found = evaluate(settings_of(gpu.l1).off(*off), of_trace(trace, 128), Placement(1, 1))
    exact = simulate_caches(trace, gpu, 1, interleaving="round-robin")
    assert int(exact.l1_reads.sum()) == found.counts.sum()
    assert int(exact.l1_hits.sum()) == int(found.counts.sum(axis=0)[0])


@settings(max_examples=30, deadline=None)
@given(st.lists(ACCESSES, min_size=1, max_size=6))
def test_warps_in_turn_without_latency_equal_the_exact_simulation_in_turn(warps):
    trace, gpu = trace_of(warps), small_gpu(1, {"size_bytes": 4096, "ways": 4})
    found = evaluate(settings_of(gpu.l1).off("latency", "mshr"), of_trace(trace, 128), Placement(1, len(warps)))
    exact = simulate_caches(trace, gpu, len(warps), interleaving="round-robin")
    assert int(exact.l1_reads.sum()) == found.counts.sum()
    difference = int(exact.l1_hits.sum()) - int(found.counts.sum(axis=0)[0])
    assert np.abs(difference) == 0
