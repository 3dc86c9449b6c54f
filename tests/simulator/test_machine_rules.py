"""Does each rule of the simulated machine hold?"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from micro import chase, gpu, loop, run
from trace_by_hand import Warp, build_trace

from warpsight.base.errors import FormatError, LimitError, SpecError, UsageError
from warpsight.caches.exact.simulate import simulate_caches
from warpsight.simulator.simulate import simulate_launch
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

LOAD_AND_USE = ["load.global.4 r1 <- r0\nint r2 <- r1\nstore.global.4 <- r2\natomic.global.4 r3 <- r0"]


def random_trace(seed: int, warps: int = 24, per_block: int = 4, chunk: int = 1_000_000) -> KernelTrace:
    """Loads, stores and atomics at random, of random width."""
    rng = np.random.default_rng(seed)

    def access() -> list[int]:
        lanes, spread = int(rng.integers(1, 33)), int(rng.integers(1, 400))
        return [4 * int(a) for a in rng.integers(0, 32 * spread, lanes)]

    made = []
    for _ in range(warps):
        times = int(rng.integers(1, 6))
        made.append(Warp(((0, 32, times),), [access() for _ in range(3 * times)]))
    return build_trace(LOAD_AND_USE, made, per_block, chunk)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    sms=st.integers(1, 5),
    schedulers=st.sampled_from([1, 2, 4]),
    policy=st.sampled_from(["gto", "lrr"]),
    mshrs=st.integers(1, 40),
    targets=st.integers(1, 8),
    queue=st.integers(1, 5),
    buffer=st.integers(1, 6),
    sector=st.sampled_from([32, 128]),
    fill=st.sampled_from(["on-miss", "on-fill"]),
    l2=st.fixed_dictionaries({
        "partial_writes": st.sampled_from(["fetch", "mask"]), "replacement": st.sampled_from(["lru", "random"]),
        "dirty_share": st.sampled_from([0.5, 1.0]), "far_latency_cycles": st.sampled_from([0, 150]),
    }),
)
def test_every_instruction_and_request_is_done_once_whatever_is_scarce(
    seed: int, sms: int, schedulers: int, policy: str, mshrs: int, targets: int, queue: int, buffer: int, sector: int, fill: str,
    l2: dict[str, Any],
) -> None:
    spec = gpu(
        sms,
        sm={"schedulers": schedulers, "policy": policy, "access_queue": queue},
        l1={"mshrs": mshrs, "targets": targets, "sector_bytes": sector, "allocation": fill, "miss_queue": 1},
        l2={"mshrs": mshrs, "targets": targets, "sector_bytes": sector, **l2},
        noc={"buffer": buffer},
        dram={"queue": 2},
    )
    trace = random_trace(seed)
    found = run(trace, spec, 2)
    totals = found.totals()
    lines = sum(int(chunk.events[k]) for chunk in trace.chunks for k in range(len(chunk.events)))
    assert lines > 0
    assert found.warp_instructions == sum(4 * int(trace.paths.repeat[p]) for chunk in trace.chunks for p in chunk.path)
    assert totals["l1_reads"] == totals["l1_hits"] + totals["l1_misses"] + totals["l1_merges"]
    assert totals["l2_reads"] == totals["l2_read_hits"] + totals["l2_read_misses"] + totals["l2_read_merges"]
    assert totals["l1_writes"] == totals["l2_writes"] == totals["l2_write_hits"] + totals["l2_write_misses"]
    exact = simulate_caches(trace, spec, 2).totals()
    assert (totals["l1_reads"], totals["l1_writes"], totals["l2_reads"] - totals["l1_misses"]) == (
        exact["l1_reads"], exact["l1_writes"], exact["l2_reads"] - exact["l1_misses"]
    )  # fmt: skip
    parts = found.components(schedulers, sms)
    assert sum(parts.values()) == pytest.approx(found.cycles * sms / found.warp_instructions, rel=1e-9)
    assert min(parts.values()) >= 0


@settings(max_examples=25)
@given(lines=st.lists(st.integers(0, 300), min_size=1, max_size=200))
def test_one_dependent_warp_hits_as_in_the_exact_caches(lines: list[int]) -> None:
    trace, spec = chase(lines), gpu()
    ours, exact = run(trace, spec).totals(), simulate_caches(trace, spec, 1).totals()
    for name in ("l1_hits", "l1_misses", "l2_read_hits", "l2_read_misses", "dram_reads"):
        assert ours[name] == exact[name]


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_result_does_not_depend_on_how_the_trace_is_cut(chunk: int) -> None:
    whole, cut = run(random_trace(3), gpu(2), 2), run(random_trace(3, chunk=chunk), gpu(2), 2)
    assert (whole.cycles, whole.totals(), whole.miss_latency) == (cut.cycles, cut.totals(), cut.miss_latency)
    assert np.array_equal(whole.stack, cut.stack)


def test_barrier_waits_for_the_last_warp_of_its_block() -> None:
    slow, fast = ((0, 32, 100), (1, 32, 1)), ((1, 32, 1),)
    made = [Warp(path, ()) for path in (slow, fast, fast, fast)]
    code = ["int r1 <- r1", "barrier\nint r2 <- r2"]
    found = simulate_launch(build_trace(code, made, 4), gpu(), 1, watch_sm=0)
    assert found.timeline is not None
    after = found.timeline.issued[found.timeline.pc == 2]
    assert len(after) == 4
    assert after.min() > 99 * 4  # 100 dependent instructions of 4 cycles
    assert found.components(1, 1)["sync"] == 0  # the slow warp's own latency is what the SM waits for
    assert found.components(1, 1)["com_data"] > 2.5


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_barrier_that_all_reach_in_turn_costs_its_issue_slots(warps: int) -> None:
    short, long = (run(loop("barrier", times, warps, warps), gpu()).cycles for times in (10, 60))
    assert long - short == 50 * warps


def test_greedy_scheduler_stays_with_a_warp_and_round_robin_changes() -> None:
    code = "\n".join(f"int r{k} <- q{k}" for k in range(16))
    orders = {}
    for policy in ("gto", "lrr"):
        spec = gpu(sm={"policy": policy})
        found = simulate_launch(loop(code, 2, 4, 4), spec, 1, watch_sm=0)
        assert found.timeline is not None
        orders[policy] = found.timeline.warp.tolist()
    assert orders["gto"] == [0] * 32 + [1] * 32 + [2] * 32 + [3] * 32
    assert orders["lrr"] == [0, 1, 2, 3] * 32


def test_greedy_scheduler_falls_back_to_the_oldest_block() -> None:
    # dependent: after each issue the warp waits 4 cycles, so that four warps share the slots and the youngest two starve
    spec = gpu(sm={"policy": "gto"})
    found = simulate_launch(loop("int r1 <- r1", 50, 6, 1), spec, 6, watch_sm=0)
    assert found.timeline is not None
    last = {warp: int(found.timeline.issued[found.timeline.warp == warp].max()) for warp in range(6)}
    assert max(last[w] for w in range(4)) < min(last[w] for w in (4, 5))


@pytest.mark.parametrize(("schedulers", "width", "per_cycle"), [(1, 1, 1), (2, 1, 2), (4, 1, 4), (1, 2, 2)])
def test_sm_issues_schedulers_times_width_a_cycle(schedulers: int, width: int, per_cycle: int) -> None:
    code = "\n".join(f"{'int' if k % 2 else 'fp32'} r{k} <- q{k}" for k in range(16))
    spec = gpu(sm={"schedulers": schedulers, "issue_width": width})
    short, long = (run(loop(code, times, 16, 16), spec).cycles for times in (4, 24))
    assert 16 * 20 * 16 / (long - short) == pytest.approx(per_cycle, rel=0.02)


def test_next_block_starts_when_the_stores_of_one_are_done() -> None:
    stores = build_trace(["store.global.4 <- q0"], [Warp(((0, 32, 1),), [[128 * k + 4 * j for j in range(32)]]) for k in range(4)])
    one, four = run(stores, gpu(), 4).cycles, run(stores, gpu(), 1).cycles
    assert four > 3 * one


def test_idle_sms_are_idle_in_the_stack() -> None:
    found = run(loop("int r1 <- r1", 100), gpu(4))
    parts = found.components(1, 4)
    assert parts["idle"] == pytest.approx(0.75 * sum(parts.values()), rel=0.02)


def test_cycle_limit_stops_and_names_the_limit() -> None:
    with pytest.raises(LimitError, match=r"max_cycles: only 0 of 1 warps have ended after 50 cycles"):
        simulate_launch(loop("int r1 <- r1", 100), gpu(), 1, max_cycles=50)


def test_trace_that_ends_too_soon_is_refused() -> None:
    trace = random_trace(1)
    broken = dataclasses.replace(trace, header=dataclasses.replace(trace.header, grid=(50, 1, 1)))
    with pytest.raises(FormatError, match="the trace ends after warp 24 of 200"):
        run(broken, gpu())


def test_trace_with_missing_events_is_refused_by_warp() -> None:
    trace = random_trace(1)
    (chunk,) = trace.chunks
    offsets = chunk.event_offset.copy()
    offsets[-1] -= 1
    trace.chunks._chunks[0] = dataclasses.replace(chunk, event_offset=offsets)  # type: ignore[attr-defined]
    with pytest.raises(FormatError, match="warp 23 has other events or sectors"):
        run(trace, gpu())


def test_machines_that_cannot_be_simulated_are_refused_by_key() -> None:
    trace = loop("int r1 <- r1", 1)
    with pytest.raises(LimitError, match=r"sm\.max_warps"):
        run(trace, gpu(), 65)
    with pytest.raises(SpecError, match=r"dram\.channels"):
        run(trace, gpu(dram={"channels": 3}))
    with pytest.raises(UsageError, match="has no SM 7"):
        simulate_launch(trace, gpu(), 1, watch_sm=7)
    with pytest.raises(SpecError, match=r"latency\.odd"):
        run(loop("odd r1 <- r1", 1), gpu())
