"""Does a profile hold what trace and caches hold?"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from small_programs import gpu, load, misses, op, trace

from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.occupancy import Occupancy
from warpsight.intervals.build import build_profile
from warpsight.intervals.interval_profile import CAUSES, IntervalProfile, LaunchShape
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

STORE = op(3, (), (2,), "memory", opcode="st.global.f32", space="global", access="store", access_bytes=4)
ATOMIC = op(4, (3,), (2,), "memory", opcode="atom.add.u32", space="global", access="atomic", access_bytes=4)
PROGRAM = (op(0, (1,)), load(1, (2,), (1,)), op(2, (2,), (2,)), STORE, ATOMIC, op(5, (), (), "branch"))


def _launch() -> tuple[KernelTrace, MissProfile]:
    """Six warps in blocks of two: four go once round the load, two go three times. 10 rounds and 6 ends in all."""
    launched = trace(PROGRAM, [0, 4, 6], [[(0, 1), (1, 1)], [(0, 3), (1, 1)]], [0, 0, 1, 0, 1, 0], warps_per_block=2)
    counts = {
        "executions": {1: 10, 3: 10, 4: 6},
        "divergent": {1: 5},
        "slowest_l2": {1: 4},
        "slowest_dram": {1: 6},
        "l1_misses": {1: 25},
        "l1_writes": {3: 10},
        "l2_reads": {1: 25, 4: 12},
        "l2_read_misses": {1: 15, 4: 3},
        "l2_writes": {3: 10, 4: 12},
        "l2_write_hits": {3: 10, 4: 12},
        "dram_reads": {1: 15, 4: 3},
        "dram_writes": {3: 2},
    }
    return launched, misses(6, **counts)


def _profile(representative: str = "kmeans", blocks_per_sm: int = 8, sm_count: int = 2) -> IntervalProfile:
    launched, found = _launch()
    resident = Occupancy(blocks_per_sm, 2 * blocks_per_sm, 2 * blocks_per_sm / 32, "threads")
    return build_profile(launched, found, gpu(sm_count=sm_count), resident, representative=representative)


def test_intervals_of_the_majoritys_path_are_those_by_hand() -> None:
    profile = _profile()
    # pc 0 issues at 0, done 4; the load at 5, done 5 + 0.4 x 120 + 0.6 x 420 = 305; pc 2 at 306, done 310; the store at 311
    assert profile.instructions.tolist() == [1, 1, 1, 3]
    assert profile.stall_cycles == pytest.approx([4, 300, 4, 0], rel=1e-6)
    assert profile.pc.tolist() == [0, 1, 2, -1]
    assert [CAUSES[cause] for cause in profile.cause] == ["compute", "memory", "compute", "none"]
    assert profile.memory_instructions.tolist() == [0, 1, 0, 1]
    assert profile.read_misses.tolist() == [0, 2.5, 0, 0]
    assert profile.write_misses.tolist() == [0, 0, 0, 3]
    assert profile.dram_reads.tolist() == [0, 1.5, 0, 0.5]
    assert profile.dram_writes.tolist() == [0, 0, 0, 0.2]


def test_memory_stalls_are_told_apart_by_level() -> None:
    # of the load's 300 cycles 48 are spent on L2 hits and 252 on DRAM accesses
    assert _profile().memory_stall_levels == pytest.approx((0.0, 0.16, 0.84))


def test_totals_are_those_of_the_launch() -> None:
    profile = _profile()
    assert profile.total_warp_instructions == 10 * 4 + 6 * 2
    assert profile.dpki == pytest.approx(1000 * 5 / 52)
    # 18 lines read and 2 written back for 59 accesses of the L2
    assert profile.llc_miss_ratio == pytest.approx(20 / 59)
    assert profile.launch == LaunchShape(3, 2, 8, "threads", 0.5)
    assert profile.notes == ("representative (kmeans): warp 0 of block 0, whose path 4 of 6 warps took; 2 distinct paths",)


def test_traffic_of_all_warps_sums_to_what_the_caches_counted() -> None:
    short, long = _profile(), _profile("min")
    assert long.instructions.sum() == 14
    for name, counted in (("read_misses", 25), ("write_misses", 10 + 12), ("dram_reads", 18), ("dram_writes", 2)):
        assert 4 * getattr(short, name).sum() + 2 * getattr(long, name).sum() == pytest.approx(counted)


@pytest.mark.parametrize(("blocks_per_sm", "sm_count", "warps"), [(8, 2, 4), (1, 2, 2), (8, 28, 2), (8, 1, 6)])
def test_warps_per_sm_is_what_the_busiest_sm_gets(blocks_per_sm: int, sm_count: int, warps: int) -> None:
    assert _profile(blocks_per_sm=blocks_per_sm, sm_count=sm_count).warps_per_sm == warps


def test_profile_of_a_trace_in_chunks_and_read_only_is_the_same() -> None:
    launched, found = _launch()
    frozen = dataclasses.replace(launched.paths)
    for array in (frozen.block, frozen.repeat, frozen.offset):
        array.flags.writeable = False
    resident = Occupancy(8, 16, 0.5, "threads")
    again = build_profile(dataclasses.replace(launched, paths=frozen), found, gpu(), resident)
    assert np.array_equal(again.stall_cycles, _profile().stall_cycles)
