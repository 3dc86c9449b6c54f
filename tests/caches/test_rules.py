"""Does each rule of the hierarchy hold, on streams whose counts follow by hand?"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight.caches.exact.simulate import simulate_caches
from warpsight.caches.miss_profile import MissProfile
from warpsight.caches.reuse.miss_source import reuse_miss_profile
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

LOAD = ["load.global.4 r1 <- r0\nint r2 <- r1"]
STORE_THEN_LOAD = ["store.global.4 <- r0", "load.global.4 r1 <- r0"]
ATOMIC = ["atomic.global.4 r1 <- r0"]
ONE_SET = {"size_bytes": 4 * 128, "ways": 4}


def loads(lines: list[int], repeat: int = 1, offset: int = 0) -> KernelTrace:
    """One warp that loads a word of each of these lines, the list `repeat` times."""
    return build_trace(LOAD, [Warp(((0, 1, len(lines) * repeat),), [[128 * line + offset] for line in lines] * repeat)])


def stores(lines: list[int], then_loads: list[int], width: int = 4) -> KernelTrace:
    """One warp that stores to whole lines (4 B a lane) or to one word of each, then loads words."""
    lanes = 32 if width == 128 else 1
    accesses: list[list[int]] = [[128 * line + 4 * k for k in range(lanes)] for line in lines]
    path = ((0, lanes, len(lines)), (1, 1, len(then_loads)))[: 2 if then_loads else 1]
    return build_trace(STORE_THEN_LOAD, [Warp(path, accesses + [[128 * line] for line in then_loads])])


def totals(trace: KernelTrace, interleaving: str = "round-robin", blocks: int = 1, **gpu: Any) -> dict[str, int]:
    return simulate_caches(trace, small_gpu(**{"sm_count": 1, **gpu}), blocks, interleaving=interleaving).totals()


def test_capacity_as_many_lines_as_ways_hit_on_the_second_pass() -> None:
    found = totals(loads([0, 1, 2, 3], 2), l1=ONE_SET)
    assert (found["l1_misses"], found["l1_hits"]) == (4, 4)


def test_capacity_one_line_more_than_ways_never_hits_in_turn() -> None:
    found = totals(loads([0, 1, 2, 3, 4], 3), l1=ONE_SET)
    assert (found["l1_misses"], found["l1_hits"]) == (15, 0)


def test_lru_a_hit_line_outlives_one_that_was_not_used() -> None:
    found = totals(loads([0, 1, 2, 3, 0, 4, 0, 1]), l1=ONE_SET)
    # 4 replaces 1, not 0: only the last access misses again.
    assert (found["l1_misses"], found["l1_hits"]) == (6, 2)


def test_sets_modulo_conflicting_lines_miss_where_xor_spreads_them() -> None:
    stream = loads([0, 2, 4], 4)
    assert totals(stream)["l1_misses"] == 12
    assert totals(stream, l1={"index": "xor", "size_bytes": 1024})["l1_misses"] == 3


def test_sectored_line_present_but_sector_absent_is_a_miss() -> None:
    stream = build_trace(LOAD, [Warp(((0, 1, 3),), [[0], [32], [0]])])
    assert totals(stream, l1={"sector_bytes": 32})["l1_misses"] == 2
    assert totals(stream)["l1_misses"] == 1


def test_write_through_sends_every_store_on_and_allocates_nothing_in_l1() -> None:
    found = totals(stores([0, 0, 0], [0]))
    assert (found["l1_writes"], found["l2_writes"], found["l1_misses"], found["l2_read_hits"]) == (3, 3, 1, 1)


def test_write_hit_in_l1_keeps_the_line() -> None:
    code = [*STORE_THEN_LOAD]
    path = ((1, 1, 1), (0, 1, 1), (1, 1, 1))
    found = totals(build_trace(code, [Warp(path, [[0], [0], [0]])]))
    assert (found["l1_misses"], found["l1_hits"]) == (1, 1)


def test_write_back_whole_lines_are_neither_fetched_nor_written_before_eviction() -> None:
    found = totals(stores([0, 1], [], width=128))
    assert (found["l2_write_misses"], found["dram_reads"], found["dram_writes"]) == (2, 0, 0)


def test_write_miss_of_a_part_of_a_line_fetches_it() -> None:
    found = totals(stores([0, 0], []))
    assert (found["l2_write_misses"], found["l2_write_hits"], found["dram_reads"]) == (1, 1, 1)


SECTORS = {"sector_bytes": 32}


def test_write_of_a_part_of_a_sector_is_not_fetched_where_the_l2_marks_bytes() -> None:
    fetched, marked = (totals(stores([0, 0], []), l2=SECTORS | {"partial_writes": word}) for word in ("fetch", "mask"))
    assert (fetched["dram_reads"], fetched["dram_read_sectors"], fetched["l2_write_hits"]) == (1, 1, 1)
    assert (marked["dram_reads"], marked["dram_read_sectors"], marked["l2_write_hits"]) == (0, 0, 1)


def test_read_of_a_sector_that_was_written_in_part_fetches_the_rest() -> None:
    marks = SECTORS | {"partial_writes": "mask"}
    found = totals(stores([0], [0]), l1=SECTORS, l2=marks)
    assert (found["l2_read_misses"], found["dram_reads"], found["dram_read_sectors"]) == (1, 1, 1)
    whole = totals(stores([0], [0], 128), l1=SECTORS, l2=marks)
    assert (whole["l2_read_hits"], whole["dram_reads"]) == (1, 0)


def test_write_back_moves_the_sectors_that_were_written() -> None:
    """Line 0 has one dirty sector, or four; lines 8 and 16 evict it from its set of two ways."""
    marks = SECTORS | {"partial_writes": "mask"}
    for width, sectors in ((4, 1), (128, 4)):
        found = totals(stores([0], [8, 16], width), l2=marks)
        assert (found["dram_writes"], found["dram_write_sectors"]) == (1, sectors)


def test_dirty_lines_beyond_their_share_are_written_back_and_stay() -> None:
    """Lines 0 and 8 fill a set of two ways. With a share of one half the first is written when the second gets dirty."""
    for share, writes in ((1.0, 0), (0.5, 1)):
        found = totals(stores([0, 8], [0], 128), l2={"dirty_share": share})
        assert (found["dram_writes"], found["l2_read_hits"]) == (writes, 1)


def test_random_replacement_keeps_a_part_of_what_lru_loses() -> None:
    """Five lines in turn through a set of four: LRU never hits. If any line may go, some of the five are there after each round."""
    l1, l2 = {"size_bytes": 128, "ways": 1}, {"size_bytes": 2 * 4 * 128, "ways": 4}
    stream = loads([0, 8, 16, 24, 32], 40)
    assert totals(stream, l1=l1, l2=l2)["l2_read_hits"] == 0
    assert 60 < totals(stream, l1=l1, l2=l2 | {"replacement": "random"})["l2_read_hits"] < 160


def test_write_back_dirty_line_is_charged_to_the_instruction_that_evicts_it() -> None:
    # Lines 0, 8, 16 share slice 0, set 0 of two ways.
    profile = simulate_caches(stores([0], [8, 16], 128), small_gpu(1), 1, interleaving="round-robin")
    assert profile.dram_writes.tolist() == [0, 1]
    assert profile.dram_reads.tolist() == [0, 2]


def test_atomic_sectors_are_read_and_written_in_l2_and_pass_by_l1() -> None:
    profile = simulate_caches(build_trace(ATOMIC, [Warp(((0, 32, 1),), [[4 * k for k in range(32)]])]), small_gpu(1), 1)
    found = profile.totals()
    assert (found["l1_reads"], found["l1_writes"], found["l2_reads"], found["l2_writes"]) == (0, 0, 4, 4)
    assert (found["l2_read_misses"], found["l2_write_hits"], found["dram_reads"]) == (1, 4, 1)


def test_atomic_of_lanes_at_one_address_repeats_for_each_after_the_first() -> None:
    shared = [[4 * (k // 8) for k in range(32)], [0] * 32, list(range(0, 128, 4))]
    profile = simulate_caches(build_trace(ATOMIC, [Warp(((0, 32, 3),), shared)]), small_gpu(1), 1)
    assert profile.atomic_repeats.tolist() == [7 + 31 + 0]


def test_atomic_takes_a_slice_the_time_of_its_bytes_for_each_sector_and_a_cycle_for_each_lane_at_its_address() -> None:
    """32 words in four sectors change 32 bytes of each, lanes at one address and a lane alone 4; beyond a cycle for each sector."""
    dense, lanes, one = list(range(0, 128, 4)), [0] * 32, [128]
    for width, cycles in ((32, 0 + 31), (16, 4 * 1 + 31), (13, 4 * 19 // 13 + 31), (1, 4 * 31 + 31 + 3)):
        gpu = small_gpu(1, l2={"atomic_width_bytes": width})
        profile = simulate_caches(build_trace(ATOMIC, [Warp(((0, 32, 3),), [dense, lanes, one])]), gpu, 1)
        assert (profile.atomic_cycles.tolist(), profile.atomic_repeats.tolist()) == ([cycles], [31])


@pytest.mark.parametrize(("opcode", "repeats"), [("ATOMS.ADD", 31 + 7), ("ATOMS.POPC.INC.32", 0)])
def test_lanes_of_a_shared_atomic_at_one_address_count_unless_the_hardware_adds_them_up(opcode: str, repeats: int) -> None:
    trace = build_trace(["atomic.shared.4 r1 <- r0"], [Warp(((0, 32, 3),), [(1, 32), (2, 8), (1, 1)])])
    named = dataclasses.replace(trace, instructions=(dataclasses.replace(trace.instructions[0], opcode=opcode),))
    found = simulate_caches(named, small_gpu(1), 1).totals()
    assert (found["shared_repeats"], found["shared_passes"], found["atomic_repeats"]) == (repeats, 4, 0)


@pytest.mark.parametrize(("opcode", "hits"), [("LDGSTS.E.BYPASS.128", 0), ("cp.async.cg.shared", 0), ("LDGSTS.E.128", 1)])
def test_copy_that_bypasses_the_l1_neither_takes_nor_reads_a_line_of_it(opcode: str, hits: int) -> None:
    trace = build_trace(LOAD, [Warp(((0, 1, 2),), [[0], [0]])])
    named = dataclasses.replace(trace, instructions=(dataclasses.replace(trace.instructions[0], opcode=opcode),))
    found = simulate_caches(named, small_gpu(1), 1, interleaving="round-robin").totals()
    assert (found["l1_reads"], found["l1_hits"], found["l1_misses"], found["l2_read_hits"]) == (2, hits, 2 - hits, 1 - hits)


def test_copy_past_the_l1_is_none_of_the_reuse_distance_model_s_loads() -> None:
    """Its counts are those of the exact hierarchy: both copies go to the L2, and the load between them misses in an empty L1."""
    code = "load.global.4 r0 <- q0\nload.global.4 r1 <- q1\nload.global.4 r2 <- q2"
    trace = build_trace([code], [Warp(((0, 1, 1),), [[0], [0], [0]])])
    copies = tuple(dataclasses.replace(i, opcode="LDGSTS.E.BYPASS.128") if i.pc != 1 else i for i in trace.instructions)
    found = reuse_miss_profile(dataclasses.replace(trace, instructions=copies), small_gpu(1), 1)
    assert found.l1_reads.tolist() == found.l1_misses.tolist() == [1, 1, 1] and not found.l1_hits.any()


def test_l2_is_shared_by_the_sms() -> None:
    two_blocks = build_trace(LOAD, [Warp(((0, 1, 1),), [[0]]), Warp(((0, 1, 1),), [[0]])])
    found = totals(two_blocks, sm_count=2)
    assert (found["l1_misses"], found["l2_read_misses"], found["l2_read_hits"]) == (2, 1, 1)


def test_merge_second_warp_finds_the_line_in_flight() -> None:
    pair = build_trace(LOAD, [Warp(((0, 1, 1),), [[0]])] * 2, 2)
    found = totals(pair, "clocked")
    assert (found["l1_misses"], found["l1_merges"]) == (1, 1)
    # The second warp asks one cycle later, so it has one cycle less to wait.
    gpu = small_gpu(1)
    alone = gpu.l2.latency_cycles + gpu.dram.latency_cycles
    assert (found["slowest_dram"], found["slowest_merged"], found["merged_wait_cycles"]) == (1, 1, alone - 1)


def test_unaligned_lanes_in_a_row_are_not_divergent() -> None:
    stream = build_trace(LOAD, [Warp(((0, 32, 1),), [[64 + 4 * k for k in range(32)]])])
    found = totals(stream)
    assert (found["l1_reads"], found["divergent"]) == (2, 0)


def test_merge_in_l2_when_another_sm_asks_in_time() -> None:
    pair = build_trace(LOAD, [Warp(((0, 1, 1),), [[0]])] * 2, 1)
    found = totals(pair, "clocked", sm_count=2)
    assert (found["l2_read_misses"], found["l2_read_merges"]) == (1, 1)


def test_no_merge_once_the_data_is_used() -> None:
    found = totals(loads([0], 2), "clocked")
    # The second load writes the register of the first, so it waits for it, and then hits.
    assert (found["l1_misses"], found["l1_hits"], found["l1_merges"]) == (1, 1, 0)


def test_slowest_request_decides_the_level_of_a_load() -> None:
    stream = build_trace(LOAD, [Warp(((0, 2, 2),), [[0], [0, 4096]])])
    found = totals(stream, "clocked")
    assert (found["slowest_l1"], found["slowest_l2"], found["slowest_dram"]) == (0, 0, 2)


@pytest.mark.parametrize(("stride", "divergent"), [(4, 0), (8, 0), (12, 1), (128, 1)])
def test_divergent_load_touches_more_lines_than_lanes_in_a_row_can(stride: int, divergent: int) -> None:
    stream = build_trace(LOAD, [Warp(((0, 32, 1),), [[stride * k for k in range(32)]])])
    assert totals(stream)["divergent"] == divergent


def test_divergence_counts_lines_of_128_bytes_whatever_the_cache_line() -> None:
    stream = build_trace(LOAD, [Warp(((0, 32, 1),), [[4 * k for k in range(32)]])])
    found = totals(stream, l1={"line_bytes": 32, "sector_bytes": 32})
    assert (found["divergent"], found["l1_reads"]) == (0, 4)


def test_shared_memory_passes_are_summed_and_idle_accesses_left_out() -> None:
    code = ["store.shared.4 <- r0\nload.shared.4 r1 <- r0"]
    profile = simulate_caches(build_trace(code, [Warp(((0, 32, 2),), [1, 4, 0, 2])]), small_gpu(1), 1)
    assert profile.shared_executions.tolist() == [1, 2]
    assert profile.shared_passes.tolist() == [1, 6]
    assert profile.totals()["l1_reads"] == 0


def test_generic_access_counts_where_it_went() -> None:
    code = ["load.generic.4 r1 <- r0"]
    trace = build_trace(code, [Warp((), [])])
    events = np.array([1, 0, 0, 3], np.uint8)
    chunk = next(iter(trace.chunks))
    from warpsight.traces.schema import InMemory, PathTable

    chunk = dataclasses.replace(
        chunk,
        events=events,
        event_offset=np.array([0, 4]),
        sectors=np.array([5], np.uint32),
        sector_offset=np.array([0, 1]),
    )
    paths = PathTable(np.array([0, 1]), np.array([0], np.int32), np.array([32], np.uint8), np.array([2], np.int32))
    found = simulate_caches(dataclasses.replace(trace, paths=paths, chunks=InMemory([chunk])), small_gpu(1), 1).totals()
    assert (found["l1_reads"], found["shared_executions"], found["shared_passes"]) == (1, 1, 3)


@pytest.mark.parametrize("interleaving", ["clocked", "round-robin"])
@pytest.mark.parametrize("code", [["int r1 <- r0"], ["int r1 <- r0\nbarrier\nint r2 <- r1"]])
def test_no_memory_instruction_gives_zeros(code: list[str], interleaving: str) -> None:
    trace = build_trace(code, [Warp(((0, 32, 1000),), [])] * 12, 3)
    assert set(totals(trace, interleaving, blocks=2).values()) == {0}


def test_empty_path_ends_at_once() -> None:
    assert totals(build_trace(LOAD, [Warp((), [])] * 4, 2), "clocked")["executions"] == 0


def test_barrier_holds_the_block_together() -> None:
    # Warp 0 has used line 0 long before; warp 1 reaches its load only after the barrier, when the line is there: no merge.
    code = ["load.global.4 r1 <- r0\nint r2 <- r1\nbarrier\nint r3 <- r2", "barrier\nload.global.4 r4 <- r0"]
    found = totals(build_trace(code, [Warp(((0, 1, 1),), [[0]]), Warp(((1, 1, 1),), [[0]])], 2), "clocked")
    assert (found["l1_misses"], found["l1_hits"], found["l1_merges"]) == (1, 1, 0)


def test_barrier_of_a_part_of_the_block_does_not_hang() -> None:
    code = ["barrier\nload.global.4 r1 <- r0", "load.global.4 r1 <- r0\nint r2 <- r1\nbarrier\nbarrier"]
    found = totals(build_trace(code, [Warp(((0, 1, 1),), [[0]]), Warp(((1, 1, 1),), [[128]])], 2), "clocked")
    assert found["executions"] == 2


@pytest.mark.parametrize("policy", ["gto", "lrr"])
@pytest.mark.parametrize("mshrs", [1, 2, 5])
def test_few_mshrs_every_request_is_still_served_once(policy: str, mshrs: int) -> None:
    warps = [Warp(((0, 32, 3),), [[128 * (32 * w + k) for k in range(32)]] * 3) for w in range(24)]
    found = totals(build_trace(LOAD, warps, 4), "clocked", blocks=2, sm_count=2, l1={"mshrs": mshrs}, policy=policy)
    assert found["l1_reads"] == 24 * 3 * 32
    assert found["l1_reads"] == found["l1_hits"] + found["l1_misses"] + found["l1_merges"]


def test_greedy_scheduler_keeps_what_round_robin_throws_out() -> None:
    # Forty warps read their own 2 lines again and again: 80 lines on an L1 of 64, which four MSHRs fill slowly.
    warps = [Warp(((0, 2, 40),), [[256 * w, 256 * w + 128]] * 40) for w in range(40)]
    trace = build_trace(LOAD, warps, 40)
    l1 = {"size_bytes": 64 * 128, "ways": 64, "mshrs": 4}
    assert totals(trace, l1=l1)["l1_hits"] == 0
    assert totals(trace, "clocked", l1=l1, policy="lrr")["l1_hits"] == 0
    assert totals(trace, "clocked", l1=l1, policy="gto")["l1_hits"] > 1600


def test_warp_has_one_access_waiting_so_that_others_come_between_its_own() -> None:
    """An L1 of one line. The first warp's second load waits for it; its third is issued after that, behind the other warp's."""
    code = ["load.global.4 r1 <- r0\nload.global.4 r2 <- r0\nload.global.4 r3 <- r0", "load.global.4 r1 <- r0"]
    warps = [Warp(((0, 1, 1),), [[0], [128], [256]]), Warp(((1, 1, 1),), [[128]])]
    found = totals(build_trace(code, warps, 2), "clocked", l1={"size_bytes": 128, "ways": 1}, policy="gto")
    assert (found["l1_misses"], found["l1_merges"] + found["l1_hits"]) == (3, 1)


def test_inclusion_more_ways_of_a_fully_associative_l1_never_miss_more() -> None:
    random = np.random.default_rng(1)
    stream = loads(random.integers(0, 40, 3000).tolist())
    misses = [totals(stream, l1={"size_bytes": 128 * ways, "ways": ways})["l1_misses"] for ways in (1, 2, 4, 8, 16, 32, 64)]
    assert misses == sorted(misses, reverse=True)
    assert misses[-1] == 40


def test_progress_ends_with_all_warps() -> None:
    seen: list[tuple[int, int]] = []
    simulate_caches(loads([1, 2, 3]), small_gpu(1), 1, progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (1, 1)


def test_same_input_twice_gives_the_same_profile() -> None:
    trace = loads(list(range(50)), 2)
    first, second = (simulate_caches(trace, small_gpu(1), 1) for _ in range(2))
    assert all(np.array_equal(getattr(first, f), getattr(second, f)) for f in MissProfile.__dataclass_fields__)
