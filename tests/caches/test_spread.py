"""Is traffic that meets in few slices told from traffic that is even, or only few? And how many rows of memory does it open?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight.caches.exact.simulate import simulate_caches
from warpsight.caches.miss_profile import MissProfile

pytestmark = pytest.mark.unit

NEAR = 0.25  # what is taken off for chance is felt with as few accesses as these
EIGHT = {"slices": 8, "size_bytes": 8 * 512}
LOAD = ["load.global.4 r1 <- r0"]
STORE = ["store.global.4 <- r0"]
ATOMIC = ["atomic.global.4 r1 <- r0"]


def found(code: list[str], accesses: list[list[int]], warps: int = 4, **gpu: Any) -> MissProfile:
    """`warps` warps that each do all of these accesses."""
    lanes = max(map(len, accesses))
    warp = Warp(((0, lanes, len(accesses)),), accesses)
    return simulate_caches(build_trace(code, [warp] * warps), small_gpu(**{"sm_count": 1, "l2": EIGHT, **gpu}), warps)


def strided(stride: int, count: int = 400, lanes: int = 8) -> list[list[int]]:
    """Addresses `stride` bytes apart, `lanes` an access."""
    return [[stride * (lanes * number + lane) for lane in range(lanes)] for number in range(count)]


def test_loads_in_a_row_use_all_slices() -> None:
    # of one warp: in a cache of four lines several warps fetch the same few lines again and again, from the same few slices
    assert found(LOAD, strided(128), warps=1).reply_share > 0.9


def test_loads_a_multiple_of_all_slices_apart_use_one_of_eight() -> None:
    assert found(LOAD, strided(8 * 256)).reply_share == pytest.approx(1 / 8, rel=NEAR)


def test_stores_two_slices_apart_use_half_of_the_ports_to_the_slices_and_no_port_from_them() -> None:
    profile = found(STORE, strided(2 * 256))
    assert profile.request_share == pytest.approx(1 / 2, rel=NEAR)
    assert profile.reply_share == 1


def test_random_traffic_counts_as_even_though_chance_favours_some_slice() -> None:
    rng = np.random.default_rng(3)
    warps = [Warp(((0, 8, 600),), (256 * rng.integers(0, 1 << 20, (600, 8))).tolist()) for _ in range(4)]
    profile = simulate_caches(build_trace(LOAD, warps), small_gpu(sm_count=1, l2=EIGHT), 4)
    assert profile.reply_share > 0.9


def test_a_launch_shorter_than_a_window_knows_the_slice_of_its_atomics() -> None:
    assert found(ATOMIC, [[0] * 32] * 4).repeat_share == pytest.approx(1 / 8, rel=NEAR)


def test_atomics_at_one_address_keep_one_slice_busy_and_those_of_a_lane_each_none() -> None:
    one = found(ATOMIC, [[0] * 8] * 400)
    assert one.repeat_share == pytest.approx(1 / 8, rel=NEAR)
    assert found(ATOMIC, strided(8 * 256)).repeat_share == 1


def test_rows_of_memory_are_opened_once_for_accesses_that_wait_together() -> None:
    """Rows of 2 KiB: lines in a row of one warp come 16 to a row of each of the two slices, and lines 4 KiB apart each have one of
    their own. The same lines again in the queue of accesses find their row open; without rows nothing is opened.
    """
    def opened(accesses: list[list[int]], row: int = 2048) -> int:
        spec = small_gpu(sm_count=1)
        spec = replace(spec, dram=replace(spec.dram, row_bytes=row, queue=64))
        trace = build_trace(LOAD, [Warp(((0, 8, len(accesses)),), accesses)])
        return int(simulate_caches(trace, spec, 1).dram_rows.sum())

    assert opened(strided(128)) == 3200 // 16
    assert opened(strided(4096)) == 3200
    assert opened([[0, 4096, 8192, 12288]] * 16) == 4
    assert opened(strided(4096), row=0) == 0


def test_few_accesses_say_nothing_against_even_traffic() -> None:
    assert found(LOAD, [[0]], warps=1).reply_share == 1


def test_stride_that_meets_in_one_channel_leaves_the_other_idle() -> None:
    assert found(LOAD, strided(8 * 256)).channel_share == pytest.approx(1 / 2, rel=NEAR)
