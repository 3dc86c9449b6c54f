"""Does the compiled simulation count what lists in plain Python count?"""

from __future__ import annotations

import dataclasses
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_hierarchy import simulate_naively
from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight.caches.exact import state
from warpsight.caches.exact.between import lines_left
from warpsight.caches.exact.simulate import CacheSimulation, simulate_caches
from warpsight.caches.miss_profile import COUNTS
from warpsight.traces.schema import InMemory, KernelTrace, TraceChunk

pytestmark = pytest.mark.property

CODE = [
    "int r1 <- r0\nload.global.4 r2 <- r1\nint r3 <- r2\nstore.global.4 <- r3 r1",
    "load.local.4 r4 <- r3\natomic.global.4 r5 <- r4\nbarrier",
    "store.shared.4 <- r4\nstore.global.16 <- r4",
]
ACCESSES = {0: 2, 1: 2, 2: 2}
SHARED = {(2, 0)}


@st.composite
def traces(draw: Any) -> tuple[KernelTrace, int]:
    """Random warps over the three blocks of code, with a small pool of addresses so that lines are met again."""
    per_block = draw(st.integers(1, 3))
    blocks = draw(st.integers(1, 9))
    seed = draw(st.integers(0, 2**32 - 1))
    reach = draw(st.sampled_from([512, 4096, 1 << 16]))
    random = np.random.default_rng(seed)
    warps = []
    for _ in range(blocks * per_block):
        path = tuple(
            (int(random.integers(3)), int(random.choice([1, 8, 32])), int(random.integers(1, 4)))
            for _ in range(random.integers(0, 4))
        )
        accesses: list[Any] = []
        for block, lanes, repeat in path:
            for k in range(ACCESSES[block] * repeat):
                if (block, k % 2) in SHARED:
                    accesses.append(int(random.integers(0, 5)))
                    continue
                start, stride = int(random.integers(reach // 4)) * 4, int(random.choice([0, 4, 4, 32, 128, 260]))
                active = int(random.choice([0, lanes, lanes]))
                accesses.append([start + stride * lane for lane in range(active)])
        warps.append(Warp(path, accesses))
    return build_trace(CODE, warps, per_block, draw(st.sampled_from([1, 2, 100]))), draw(st.integers(1, 2))


CACHES = st.sampled_from(
    [
        ({}, {}),
        ({"index": "xor", "tag_lookups": 2}, {"index": "xor", "size_bytes": 4096}),
        ({"sector_bytes": 32}, {"sector_bytes": 64, "atomic_width_bytes": 13}),
        ({"sector_bytes": 32}, {"sector_bytes": 32, "partial_writes": "mask", "dirty_share": 0.5}),
        ({"sector_bytes": 32, "tag_lookups": 4}, {"sector_bytes": 32, "partial_writes": "mask"}),
        ({}, {"sector_bytes": 64, "partial_writes": "mask", "ways": 4, "dirty_share": 0.5}),
        ({"line_bytes": 64, "sector_bytes": 32, "ways": 4}, {}),
        ({}, {"line_bytes": 64, "sector_bytes": 64, "ways": 1}),
        ({"sector_bytes": 32}, {"sector_bytes": 32, "partial_writes": "mask", "far_latency_cycles": 50}),
        ({}, {"far_latency_cycles": 50}),
        ({"size_bytes": 768, "ways": 3}, {"size_bytes": 1152, "slices": 3, "ways": 3}),
        ({"size_bytes": 5120, "ways": 40, "sector_bytes": 32}, {"size_bytes": 5120, "slices": 1, "ways": 20, "dirty_share": 0.5}),
        ({"size_bytes": 128, "ways": 1}, {"size_bytes": 4352, "slices": 1, "ways": 17}),
        ({}, {"size_bytes": 2048, "slices": 1, "ways": 16, "partial_writes": "mask", "dirty_share": 0.5}),
        ({"size_bytes": 1024, "ways": 8}, {"size_bytes": 38400, "slices": 1, "ways": 300}),
    ]
)
FIELDS = [name for name in COUNTS if not name.startswith(("slowest", "shared"))]


@given(traces(), CACHES, st.integers(1, 3))
@settings(max_examples=120, deadline=None)
def test_round_robin_any_trace_equals_lists(
    made: tuple[KernelTrace, int], caches: tuple[dict[str, Any], dict[str, Any]], sms: int
) -> None:
    trace, blocks_per_sm = made
    gpu = small_gpu(sms, *caches)
    profile = simulate_caches(trace, gpu, blocks_per_sm, interleaving="round-robin")
    expected = simulate_naively(trace, gpu, blocks_per_sm)
    for field in FIELDS:
        assert getattr(profile, field).tolist() == [expected[field, pc] for pc in range(len(trace.instructions))], field


@given(traces(), CACHES, st.sampled_from(["gto", "lrr"]), st.integers(1, 2), st.sampled_from([1, 3, 128]))
@settings(max_examples=80, deadline=None)
def test_clocked_any_trace_keeps_the_sums(made: Any, caches: Any, policy: str, schedulers: int, mshrs: int) -> None:
    trace, blocks_per_sm = made
    gpu = small_gpu(2, {**caches[0], "mshrs": mshrs}, caches[1], policy=policy, schedulers=schedulers)
    profile = simulate_caches(trace, gpu, blocks_per_sm)
    plain = simulate_naively(trace, gpu, blocks_per_sm)
    n = len(trace.instructions)
    # What a warp asks for does not depend on who goes first.
    for field in ("executions", "sectors", "divergent", "l1_reads", "l1_writes", "atomic_repeats"):
        assert getattr(profile, field).tolist() == [plain[field, pc] for pc in range(n)], field
    assert np.array_equal(profile.l1_reads, profile.l1_hits + profile.l1_misses + profile.l1_merges)
    assert np.array_equal(profile.l2_reads, profile.l2_read_hits + profile.l2_read_misses + profile.l2_read_merges)
    assert (profile.l2_far_hits <= profile.l2_read_hits).all()
    assert (profile.slowest_far <= profile.slowest_l2).all()
    assert np.array_equal(profile.l2_writes, profile.l2_write_hits + profile.l2_write_misses)
    assert (profile.dram_reads >= profile.l2_read_misses).all()
    loads = np.array([i.access in ("load", "atomic") and i.has_sectors for i in trace.instructions])
    slowest = profile.slowest_l1 + profile.slowest_l2 + profile.slowest_dram + profile.slowest_merged
    assert np.array_equal(np.where(loads, profile.executions, 0), slowest)
    longest = gpu.l2.latency_cycles + max(gpu.dram.latency_cycles, gpu.l2.far_latency_cycles)
    assert (profile.merged_wait_cycles <= profile.slowest_merged * longest).all()


def _counts(simulation: CacheSimulation) -> dict[str, list[int]]:
    profile = simulation.run()[0]
    return {field: getattr(profile, field).tolist() for field in COUNTS}


@given(traces(), CACHES, st.sampled_from(["gto", "lrr"]), st.integers(1, 3), st.sampled_from([0, 1, 2]))
@settings(max_examples=80, deadline=None)
def test_clocked_waits_for_several_loads_at_once_count_as_one_after_the_other(
    made: Any, caches: Any, policy: str, schedulers: int, few: int
) -> None:
    trace, blocks_per_sm = made
    gpu = small_gpu(2, *caches, policy=policy, schedulers=schedulers)
    expected = _counts(CacheSimulation(trace, gpu, blocks_per_sm))
    with patch.object(state, "FEW_LOADS", few):  # the loads from this number on have stops of their own, which always look them up
        assert _counts(CacheSimulation(trace, gpu, blocks_per_sm)) == expected


@given(traces(), CACHES, st.integers(1, 5))
@settings(max_examples=80, deadline=None)
def test_clocked_asking_for_records_ahead_changes_no_count(made: Any, caches: Any, sms: int) -> None:
    trace, blocks_per_sm = made
    simulation = CacheSimulation(trace, small_gpu(sms, *caches), blocks_per_sm)
    assert not simulation._machine["looks_ahead"]  # so few SMs fit
    expected = _counts(simulation)
    simulation._machine["looks_ahead"] = True
    assert _counts(simulation) == expected


def lines_of(held: Any) -> dict[int, tuple[int, bool]]:
    return {int(row["tag"]): (int(row["valid"]), int(row["dirty"])) for row in held if row["valid"] | row["dirty"]}


@given(traces(), CACHES, st.sampled_from([1, 64]))
@settings(max_examples=80, deadline=None)
def test_lines_that_any_launch_leaves_are_those_of_a_simulation_or_not_known(made: Any, caches: Any, times: int) -> None:
    trace, blocks_per_sm = made
    small = small_gpu(2, *caches)
    l2 = small.l2
    gpu = dataclasses.replace(small, l2=dataclasses.replace(l2, size_bytes=l2.size_bytes * times))
    known = lines_left(trace, gpu)
    simulation = CacheSimulation(trace, gpu, blocks_per_sm)
    left = simulation.run()[1]
    if known is None:
        full = max(np.bincount(np.flatnonzero(left["valid"]) // l2.ways), default=0) == l2.ways
        assert full or l2.partial_writes == "mask" or l2.dirty_share < 1
        return
    assert lines_of(known) == lines_of(left)
    from_known, from_left = simulation.run(known)[0], simulation.run(left)[0]
    for field in COUNTS:
        assert np.array_equal(getattr(from_known, field), getattr(from_left, field)), field


@given(traces(), st.sampled_from(["clocked", "round-robin"]))
@settings(max_examples=30, deadline=None)
def test_chunks_any_cut_gives_the_same_counts(made: Any, interleaving: str) -> None:
    trace, blocks_per_sm = made
    whole = simulate_caches(_recut(trace, 1_000), small_gpu(), blocks_per_sm, interleaving=interleaving)
    for blocks in (1, 3):
        cut = simulate_caches(_recut(trace, blocks), small_gpu(), blocks_per_sm, interleaving=interleaving)
        for field in COUNTS:
            assert np.array_equal(getattr(cut, field), getattr(whole, field)), field


def _recut(trace: KernelTrace, blocks: int) -> KernelTrace:
    """The same trace in chunks of another size."""
    rows = [
        (
            int(chunk.path[k]),
            chunk.events[chunk.event_offset[k] : chunk.event_offset[k + 1]],
            chunk.sectors[chunk.sector_offset[k] : chunk.sector_offset[k + 1]],
        )
        for chunk in trace.chunks
        for k in range(len(chunk.path))
    ]
    step = blocks * trace.header.warps_per_block
    chunks = [
        TraceChunk(
            first,
            np.array([r[0] for r in rows[first : first + step]], np.int32),
            np.cumsum([0, *(len(r[1]) for r in rows[first : first + step])], dtype=np.int64),
            np.concatenate([r[1] for r in rows[first : first + step]]),
            np.cumsum([0, *(len(r[2]) for r in rows[first : first + step])], dtype=np.int64),
            np.concatenate([r[2] for r in rows[first : first + step]]),
        )
        for first in range(0, len(rows), step)
    ]
    return dataclasses.replace(trace, chunks=InMemory(chunks))
