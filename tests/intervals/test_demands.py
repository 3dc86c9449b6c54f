"""Are the demands of a launch those that follow from its trace and its misses by hand?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_programs import gpu, load, misses, op, trace

from warpsight.gpu.occupancy import Occupancy
from warpsight.intervals.algorithm import PathStats
from warpsight.intervals.build import build_profile
from warpsight.intervals.demands import busiest_on_path, stall_in_step, work_imbalance
from warpsight.intervals.interval_profile import Activity, ResourceDemands
from warpsight.intervals.usage import activity, conflict_passes
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

STORE = op(3, (), (2,), "memory", opcode="st.global.f32", space="global", access="store", access_bytes=4)
ATOMIC = op(4, (3,), (2,), "memory", opcode="atom.add.u32", space="global", access="atomic", access_bytes=4)
PROGRAM = (op(0, (1,)), load(1, (2,), (1,)), op(2, (2,), (2,)), STORE, ATOMIC, op(5, (), (), "barrier"))


def _demands(stored_sectors: int = 24) -> ResourceDemands:
    """Four warps in blocks of two, each past the load, the store, the atomic and the barrier twice."""
    launched = trace(PROGRAM, [0, 6], [[(0, 2)]], [0, 0, 0, 0], warps_per_block=2)
    counts = {
        "executions": {1: 8, 3: 8, 4: 8}, "slowest_l2": {1: 8}, "sectors": {1: 64, 3: stored_sectors, 4: 40},
        "l1_reads": {1: 20}, "l1_misses": {1: 12}, "l1_writes": {3: 10}, "l2_reads": {1: 12, 4: 40}, "l2_writes": {3: 10, 4: 40},
        "l2_read_misses": {1: 9, 4: 4}, "dram_reads": {1: 9, 4: 4}, "dram_writes": {3: 3},
        "dram_read_sectors": {1: 36, 4: 16}, "dram_write_sectors": {3: 12},
    }  # fmt: skip
    found = build_profile(launched, misses(6, **counts), gpu(sm_count=2), Occupancy(8, 16, 0.5, "threads")).demands
    assert found is not None
    return found


def test_demands_are_the_launchs_counts_over_its_warps() -> None:
    found = _demands()
    assert found.l1_cycles == (20 + 10 + 40) / 4
    assert found.read_misses == 12 / 4
    # a miss fetches its line, each sector of an atomic comes back as one
    assert found.fetched_bytes == (12 * 128 + 40 * 32) / 4
    assert found.sent_requests == (10 + 40) / 4
    assert found.sent_bytes == (24 + 40) * 32 / 4
    assert found.dram_bytes == (9 + 4 + 3) * 128 / 4
    # the lines of loads and stores, the sectors of atomics
    assert found.slice_accesses == (12 + 10 + 40) / 4
    assert found.dram_share == 13 / 52
    assert found.barriers == 2
    assert found.work_imbalance == 1
    assert found.longest_warp == 1


def test_a_store_has_a_mask_of_bytes_unless_it_fills_its_sectors() -> None:
    """Ten requests of 8 x 32 lanes, 4 B each: 32 sectors if they fill them. A sector of an atomic always has header and mask."""
    assert _demands(32).sent_flits == (10 + 32 + 3 * 40) / 4
    assert _demands(33).sent_flits == (2 * 10 + 33 + 3 * 40) / 4


def test_conflicts_are_passes_beyond_those_of_the_bytes_and_lengthen_a_warp_alone() -> None:
    """Two loads of 16 B a lane take 8 passes of 128 B at least. Of 28 passes 20 are conflicts, for which a warp waits."""
    wide = op(1, (2,), (1,), "shared", opcode="ld.shared.v4.f32", space="shared", access="load", access_bytes=16)
    bulk = op(3, (), (), "memory", opcode="cp.async.bulk.shared", space="shared", access="store", access_bytes=4)
    program = (op(0, (1,)), wide, op(2, (2,), (2,)), bulk)
    launched = trace(program, [0, 4], [[(0, 2)]], [0])
    for passes, conflicts in ((8, 0), (28, 20)):
        found = misses(4, shared_executions={1: 2, 3: 2}, shared_passes={1: passes, 3: 16})
        assert conflict_passes(program, found).tolist() == [0, conflicts, 0, 0]
        demands = build_profile(launched, found, gpu(), Occupancy(8, 8, 0.5, "threads")).demands
        assert demands is not None
        assert demands.l1_cycles * demands.port_conflict_share == pytest.approx(conflicts)
        assert demands.stall_cycles * demands.stall_conflict_share == pytest.approx(conflicts)


def test_busiest_unit_is_named() -> None:
    slow = gpu(initiation_cycles={"int": 2, "sfu": 4, "fp32": 1, "fp64": 1, "shared": 1, "fp16": 1})
    program = (op(0, (1,)), op(1, (2,), (1,), "sfu"), op(2, (3,), (2,), "sfu"))
    demands = build_profile(trace(program, [0, 3], [[(0, 1)]], [0]), misses(3), slow, Occupancy(8, 8, 0.5, "threads")).demands
    assert demands is not None
    assert (demands.unit, demands.unit_cycles) == ("sfu", 8)
    assert (_demands().unit, _demands().unit_cycles) == ("", 0)


def test_stalls_in_step_are_what_outlasts_the_other_warps() -> None:
    instructions, stalls, port = np.array([10.0, 2.0, 4.0]), np.array([100.0, 20.0, 500.0]), np.array([0.0, 30.0, 16.0])
    # three more warps issue 30, pass the port for 90, and 48 cycles after the first; of the 90 the second stall leaves 70
    assert stall_in_step(instructions, stalls, port, np.zeros(3), 4) == (100 - 30) + 0 + (500 - 70)


def test_warps_in_step_on_schedulers_of_their_own_hide_nothing_from_each_other_but_at_the_port() -> None:
    instructions, stalls, port = np.array([10.0, 2.0, 4.0]), np.array([100.0, 20.0, 500.0]), np.array([0.0, 30.0, 16.0])
    # on four slots all four issue at once; eight take two turns
    assert stall_in_step(instructions, stalls, port, np.zeros(3), 4, 4) == 100 + 0 + (500 - 70)
    assert stall_in_step(instructions, stalls, port, np.zeros(3), 8, 4) == (100 - 10) + 0 + (500 - 190)


def test_lead_of_a_warp_hides_the_wait_for_its_data_also_after_short_stalls() -> None:
    """As machine code has it: an access of 32 requests, two stalls that it states, then the wait for the data, then another."""
    instructions, port = np.ones(5), np.array([32.0, 0.0, 0.0, 0.0, 0.0])
    stalls = np.array([2.0, 3.0, 250.0, 100.0, 200.0])
    # fifteen more warps are at the port for 480 cycles, of which the last stall finds 125
    assert stall_in_step(instructions, stalls, port, np.zeros(5), 16, 16) == 200 - (480 - 2 - 3 - 250 - 100)


def test_at_a_barrier_the_first_of_the_warps_waits_for_the_last_and_loses_its_lead() -> None:
    """Eight warps on four slots arrive at a barrier, 2 cycles each, that is over 14 cycles after the one that is there last."""
    instructions, stalls = np.array([5.0, 5.0, 5.0]), np.array([14.0, 14.0, 30.0])
    port, arrivals = np.array([0.0, 3.0, 0.0]), np.array([2.0, 2.0, 0.0])
    # the last one is 5 cycles behind, and its turn at the barrier comes after 14; then 21, of the port; then 5 of the lead are new
    assert stall_in_step(instructions, stalls, port, arrivals, 8, 4) == (14 + 14 - 5) + 14 + (30 - 5)


def _imbalance(launched: KernelTrace, work: list[float], sm_count: int, places: int = 1) -> float:
    """Of blocks of one warp that does nothing but work."""
    stats = PathStats(np.array(work, dtype=np.int64), np.array(work))
    return work_imbalance(launched, stats, np.array(work), 1, places, gpu(sm_count=sm_count))


def test_blocks_of_unequal_work_leave_the_busiest_sm_above_the_mean() -> None:
    launched = trace((op(0, (1,)),), [0, 1], [[(0, 30)], [(0, 10)]], [0, 1, 1, 1, 1, 1], warps_per_block=1)
    # dealt to two SMs: 30, then 10 10 10 on the other, then one each: 40 and 40, as equal blocks would be
    assert _imbalance(launched, [30.0, 10.0], 2) == pytest.approx(1)
    # to three: 30, 10 10, 10 10 and one more on an SM with 20: 30 of a mean of 80 / 3, where 2 blocks each would be even
    assert _imbalance(launched, [30.0, 10.0], 3) == pytest.approx(30 / (80 / 3))


def test_warps_with_parts_of_their_own_do_not_make_blocks_unequal() -> None:
    """A producer that does little beside a consumer, in each block; one of eight works a thousandth longer."""
    paths = [[(0, 1000)], [(0, 10)], [(0, 1001)]]
    launched = trace((op(0, (1,)),), [0, 1], paths, [0, 1] * 7 + [2, 1], warps_per_block=2)
    work = np.array([1000.0, 10.0, 1001.0])
    stats = PathStats(work.astype(np.int64), work)
    # eight blocks on four SMs, one at a time: two turns of 1,000 cycles, whatever the mean warp takes
    found = work_imbalance(launched, stats, work / 10, 2, 1, gpu(sm_count=4))
    assert 1 <= found < 1.001


def test_walked_blocks_that_last_equally_long_are_equal_whichever_warp_is_the_last() -> None:
    paths = [[(0, 1000)], [(0, 10)], [(0, 1001)]]
    launched = trace((op(0, (1,)),), [0, 1], paths, [0, 1, 1, 2], warps_per_block=2)
    work = np.array([1000.0, 10.0, 1001.0])
    stats, machine = PathStats(work.astype(np.int64), work), gpu(sm_count=2)
    assert work_imbalance(launched, stats, work / 10, 2, 1, machine, walked=True) == pytest.approx(1001 / 1000.5)
    # of blocks that were not walked the mean warp is known, and about half of the time is the wait for the last one
    assert work_imbalance(launched, stats, work / 10, 2, 1, machine) == pytest.approx(1001 / 505.5)


def test_blocks_that_were_not_recorded_work_as_their_neighbours_did() -> None:
    launched = trace((op(0, (1,)),), [0, 1], [[(0, 30)], [(0, 10)]], [0, 1, 1], warps_per_block=1)
    header = replace(launched.header, grid=(6, 1, 1), sampled_blocks=3, sampled_instructions=50, warp_instructions=100)
    # 30 30 10 10 10 10: on two SMs 30 10 10 on each, as equal blocks would be; on three 40, 30 and 30
    assert _imbalance(replace(launched, header=header), [30.0, 10.0], 2) == pytest.approx(1)
    assert _imbalance(replace(launched, header=header), [30.0, 10.0], 3) == pytest.approx(40 / (100 / 3))


def test_unequal_work_that_evens_out_is_less_than_the_number_of_blocks_says() -> None:
    launched = trace((op(0, (1,)),), [0, 1], [[(0, 20)], [(0, 10)]], [0, 1, 1], warps_per_block=1)
    # 20 beside 10 and 10 on two SMs is even; two blocks against one would be 4 / 3
    assert _imbalance(launched, [20.0, 10.0], 2) == pytest.approx(3 / 4)


def test_busiest_resource_is_the_one_that_all_warps_together_need_most() -> None:
    launched = trace((op(0, (1,)), op(1, (2,), (), "sfu")), [0, 1, 2], [[(0, 30)], [(0, 10), (1, 10)]], [0, 1], warps_per_block=1)
    machine = replace(gpu(), initiation_cycles={"sfu": 4})
    none, times = np.zeros(2), np.array([40, 10])
    # 50 instructions are more than 10 x 4 cycles of the special functions; with 8 cycles each they are less
    busiest, _ = busiest_on_path(launched, machine, none, times)
    assert busiest.tolist() == [30, 20]
    busiest, _ = busiest_on_path(launched, replace(machine, initiation_cycles={"sfu": 8}), none, times)
    assert busiest.tolist() == [0, 80]


def test_units_are_a_schedulers_and_the_load_store_unit_is_the_sms() -> None:
    launched = trace((op(0, (1,)), op(1, (2,), (), "sfu")), [0, 1, 2], [[(0, 30)], [(0, 10), (1, 10)]], [0, 1], warps_per_block=1)
    machine = replace(gpu(), initiation_cycles={"sfu": 8}, sm=replace(gpu().sm, schedulers=4))
    times = np.array([40, 10])
    # 80 cycles of the special functions are 20 of each of four; 10 instructions with 3 cycles of the port are more
    assert busiest_on_path(launched, machine, np.zeros(2), times)[1] == 4
    port, parts = busiest_on_path(launched, machine, np.array([0.0, 3.0]), times)
    assert (port.tolist(), parts) == ([0, 30], 1)


def test_slowest_warp_is_measured_against_the_mean_of_all() -> None:
    launched = trace((op(0, (1,)),), [0, 1], [[(0, 30)], [(0, 10)]], [0, 1, 1, 1], warps_per_block=1)
    found = build_profile(launched, misses(1), gpu(sm_count=2), Occupancy(8, 16, 0.5, "threads")).demands
    assert found is not None
    assert found.longest_warp == 30 / ((30 + 3 * 10) / 4)


def test_activity_counts_lanes_products_and_bytes_of_a_warp() -> None:
    """Two warps: an addition of 32 lanes and one on a uniform register, two products of 16x8x16 and one of half the depth, a load
    of 8 sectors, and 6 passes through the banks. Branch and load are no arithmetic."""
    shared = op(6, (6,), (1,), "shared", opcode="ld.shared.f32", space="shared", access="load", access_bytes=4)
    product = "mma.sync.aligned.m16n8k{}.row.col.f16.f16.f16.f16"
    program = (
        op(0, (1,)), op(1, (2,), op_class="uniform"), op(2, (3,), op_class="tensor", opcode=product.format(16)),
        op(3, (3,), op_class="tensor", opcode=product.format(16)), op(4, (3,), op_class="tensor", opcode=product.format(8)),
        load(5, (5,)), shared, op(7, (), (), "branch"),
    )  # fmt: skip
    launched = trace(program, [0, 8], [[(0, 1)]], [0, 0])
    counted = misses(8, executions={5: 2}, sectors={5: 16}, shared_passes={6: 12})
    found = activity(launched, counted, np.full(8, 2, dtype=np.int64), np.array([2], dtype=np.int64))
    assert found == Activity(lanes=33.0, products=2.5, shared_bytes=6 * 128.0, l1_bytes=8 * 32.0)
