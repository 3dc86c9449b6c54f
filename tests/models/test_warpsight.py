"""Does Warpsight's own model give what follows by hand, and is no resource ever worth less than nothing?"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import gpu, gpus, profile, profiles

from warpsight.base.errors import UsageError
from warpsight.gpu.design import Design
from warpsight.gpu.spec import DispatchSpec, GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile, LaunchShape
from warpsight.models.base import get_model
from warpsight.models.warpsight import WARPSIGHT_PARTS

pytestmark = pytest.mark.unit

RESOURCES = (
    "l1_mshrs", "noc_bandwidth_bytes_per_s", "dram_bandwidth_bytes_per_s", "sm_schedulers", "sm_issue_width", "noc_queue",
    "dram_channels", "dram_queue", "dram_efficiency",
)  # fmt: skip
ONE_WAVE = LaunchShape(28, 8, 8)
COMPUTE = [(100, 60, 1, 0, 0, 0, 0, 0)]


def changed(base: IntervalProfile, **demands: float) -> IntervalProfile:
    assert base.demands is not None
    return dataclasses.replace(base, demands=dataclasses.replace(base.demands, **demands))


def launched(rows: list[tuple[float, ...]], launch: LaunchShape, **demands: float) -> IntervalProfile:
    """A launch whose warps all do the instructions of `rows`."""
    total = int(sum(row[0] for row in rows)) * launch.blocks * launch.warps_per_block
    warps = launch.warps_per_block * min(launch.blocks_per_sm, -(-launch.blocks // 28))
    return changed(profile(rows, launch=launch, warps_per_sm=warps, total_warp_instructions=total), **demands)


def cycles(found: IntervalProfile, machine: GpuSpec | None = None, model: str = "warpsight") -> float:
    return get_model(model).predict(found, machine or gpu()).cycles


def test_one_warp_takes_its_instructions_and_its_stalls() -> None:
    assert cycles(launched(COMPUTE, LaunchShape(28, 1, 1))) == pytest.approx(160)


def test_block_on_schedulers_of_its_own_takes_what_one_warp_takes() -> None:
    """Four warps in step on four schedulers wait for nobody; on two, they issue in two turns, which here hide nothing."""
    block = LaunchShape(28, 4, 1)
    for schedulers, expected in ((8, 160), (4, 160), (2, 260)):
        found = changed(launched(COMPUTE, block), stall_in_step=60.0)
        assert cycles(found, gpu(schedulers=schedulers, policy="lrr")) == pytest.approx(expected)


def test_warps_beyond_what_hides_the_stalls_take_their_issue_slots_and_the_last_ones_stalls() -> None:
    # 8 warps issue 800 cycles; of the last one's 60 stall cycles 800 x 60 / 860 stick out
    assert cycles(launched(COMPUTE, ONE_WAVE)) == pytest.approx(800 + 800 * 60 / 860)
    assert cycles(launched(COMPUTE, ONE_WAVE), model="warpsight~last-warp") == pytest.approx(800)


def test_one_warp_waits_for_each_of_its_requests_too() -> None:
    """Forty lines that hit the L2: its latency once (a stall of the warp), and the lines of 28 SMs through the NoC in a row.

    The stall has the 40 cycles in which the lines leave the load-store unit, but they pass the NoC at the same time.
    """
    rows = [(10, 160, 2, 1, 40, 0, 0, 0)]
    found = launched(rows, LaunchShape(28, 1, 1), dram_share=0.0, l1_cycles=40.0)
    noc = 28 * 40 * 128 / 1050e9 * 1.4e9
    assert cycles(found, gpu(mshrs=4096)) == pytest.approx(10 + 120 + noc, rel=0.05)


def test_launch_ends_when_its_last_stores_are_answered() -> None:
    """Once, however many waves there are: blocks do not wait for the answers of those before them."""
    for launch in (LaunchShape(28, 1, 1), LaunchShape(28 * 80, 8, 8)):
        found = launched(COMPUTE, launch)
        before = get_model("warpsight").predict(found, gpu())
        after = get_model("warpsight").predict(changed(found, drain_cycles=250.0), gpu())
        assert after.cycles == pytest.approx(before.cycles + 250)
        # a component of its own, beside those of the waits of warps, which stay as they are
        assert after.cpi_stack.pop("drain") == pytest.approx(250 * 28 / found.total_warp_instructions)
        assert after.cpi_stack == pytest.approx(before.cpi_stack)


def test_rows_of_memory_are_opened_one_after_the_other_in_a_channel() -> None:
    """28 SMs x 8 warps x 100 rows over 24 channels, 4 ns (5.6 cycles) each, take longer than the issue; in half of the channels
    twice as long. A row that is opened while the bus is busy costs nothing.
    """
    machine = dram(gpu(), row_interval_ns=4.0, channels=24)
    alone = 28 * 8 * 100 * 5.6 / 24
    for share in (1.0, 0.5):
        found = launched(COMPUTE, ONE_WAVE, dram_rows=100.0, channel_share=share, dram_bytes=0.0)
        assert cycles(found, machine, "warpsight~last-warp") == pytest.approx(alone / share, rel=0.02)
    busy = launched(COMPUTE, ONE_WAVE, dram_bytes=1e6)
    assert cycles(changed(busy, dram_rows=100.0), machine) == cycles(busy, machine)


def test_full_waves_go_on_without_a_gap() -> None:
    """Ten waves of 64 warps: 64,000 issue slots; only the last wave's end sticks out, and MVA's own 1 per cent."""
    found = cycles(launched(COMPUTE, LaunchShape(28 * 80, 8, 8)))
    assert 64_000 < found < 64_000 * 1.01


def test_units_of_four_cycles_bound_what_uses_them() -> None:
    assert cycles(launched(COMPUTE, ONE_WAVE, unit_cycles=400.0), model="warpsight~last-warp") == pytest.approx(8 * 400)
    assert cycles(launched(COMPUTE, ONE_WAVE, unit_cycles=400.0), model="warpsight~last-warp~units") == pytest.approx(800)


def test_bank_conflicts_and_requests_bound_the_load_store_unit() -> None:
    found = get_model("warpsight").predict(launched(COMPUTE, ONE_WAVE, l1_cycles=1000.0), gpu())
    assert found.cycles == pytest.approx(8000, rel=0.02)
    assert found.bound_by == "load-store unit"
    conflicted = launched(COMPUTE, ONE_WAVE, l1_cycles=1000.0, port_conflict_share=0.75)
    split = get_model("warpsight").predict(conflicted, gpu())
    assert split.cycles == pytest.approx(found.cycles)
    assert split.bound_by == "shared-memory bank conflicts"
    assert split.cpi_stack["banks"] == pytest.approx(3 * split.cpi_stack["lsu"])
    assert split.cpi_stack["banks"] + split.cpi_stack["lsu"] == pytest.approx(found.cpi_stack["lsu"])
    assert "banks" not in found.cpi_stack and found.cpi_stack["com_struct"] == 0


def test_stalls_for_conflicts_are_bank_conflicts_and_count_their_passes_once() -> None:
    """A warp alone: of 60 stall cycles 30 are due to conflicts, whose 10 passes are in the load-store unit at that time."""
    found = get_model("warpsight").predict(
        launched(COMPUTE, LaunchShape(28, 1, 1), l1_cycles=10.0, port_conflict_share=1.0, stall_conflict_share=0.5), gpu()
    )
    plain = get_model("warpsight").predict(launched(COMPUTE, LaunchShape(28, 1, 1), l1_cycles=10.0), gpu())
    assert found.cycles == pytest.approx(plain.cycles) == pytest.approx(160)
    assert found.cpi_stack["banks"] == pytest.approx(found.cpi_stack["com_data"]) == pytest.approx(30 / 100)


@pytest.mark.parametrize(("unit", "component", "words"), [
    ("fp64", "fp64", "FP64 pipe"), ("imad", "fma", "FMA pipe"), ("sfu", "xu", "XU pipe"), ("tensor", "tensor", "tensor cores"),
    ("shared", "lsu", "load-store unit"), ("", "com_struct", "arithmetic or load-store throughput"),
])  # fmt: skip
def test_time_at_the_busiest_unit_has_its_name(unit: str, component: str, words: str) -> None:
    base = launched(COMPUTE, ONE_WAVE, unit_cycles=400.0, l1_cycles=0.0)
    assert base.demands is not None
    found = get_model("warpsight").predict(dataclasses.replace(base, demands=dataclasses.replace(base.demands, unit=unit)), gpu())
    assert found.bound_by == words
    assert found.cpi_stack[component] > 0.5 * found.cpi
    assert sum(found.cpi_stack.values()) == pytest.approx(found.cpi)
    if component != "com_struct":
        assert found.cpi_stack["com_struct"] == 0


def test_misses_take_the_mshrs_for_their_latency() -> None:
    """64 warps of 40 misses that all hit the L2, 8 MSHRs: 2,560 misses, eight in every 120 cycles but the L1's own 25."""
    rows = [(10, 120, 2, 1, 40, 0, 0, 0)]
    found = launched(rows, LaunchShape(28 * 8, 8, 8), dram_share=0.0, l1_cycles=0.0)
    assert cycles(found, gpu(mshrs=8), "warpsight~last-warp") == pytest.approx(64 * 40 * 95 / 8, rel=0.03)
    assert cycles(found, gpu(mshrs=8), "warpsight~last-warp~l1-pipeline") == pytest.approx(64 * 40 * 120 / 8, rel=0.03)


def test_misses_keep_the_load_store_unit_while_the_ways_of_their_set_are_on_their_way() -> None:
    """64 warps of 40 misses in one set of 6 ways: six in every 95 cycles, though there are 128 MSHRs; the stack says so."""
    rows = [(10, 120, 2, 1, 40, 0, 0, 0)]
    crowded = launched(rows, LaunchShape(28 * 8, 8, 8), dram_share=0.0, l1_cycles=0.0, way_wait=1 / 6)
    assert cycles(crowded, model="warpsight~last-warp") == pytest.approx(64 * 40 * 95 / 6, rel=0.03)
    assert get_model("warpsight").predict(crowded, gpu()).bound_by == "MSHR"
    even = changed(crowded, way_wait=0.0)
    assert cycles(crowded, model="warpsight~ways") == cycles(even) < 0.5 * cycles(crowded)


def test_traffic_at_one_slice_of_four_takes_four_times_as_long() -> None:
    rows = [(1, 0, 2, 1, 0, 50, 0, 0)]
    even = launched(rows, LaunchShape(28 * 8, 8, 8), l1_cycles=0.0)
    camped = changed(even, request_share=0.25)
    assert cycles(camped) == pytest.approx(4 * cycles(even), rel=0.01)
    assert cycles(camped, model="warpsight~spread") == cycles(even)


def test_atomics_at_one_address_are_served_one_after_the_other_by_its_slice() -> None:
    """64 warps on each of 28 SMs, 31 repeats each, all in one of 24 slices."""
    rows = [(1, 0, 2, 1, 0, 1, 0, 0)]
    spread_out = launched(rows, LaunchShape(28 * 8, 8, 8))
    found = get_model("warpsight").predict(changed(spread_out, atomic_repeats=31.0, repeat_share=1 / 24), gpu())
    assert found.cycles == pytest.approx(28 * 64 * (31 + 4 / 24), rel=0.01)
    assert found.bound_by == "NoC queueing"


def test_block_in_step_under_lrr_hides_its_stalls_only_behind_itself() -> None:
    """One block of eight warps, stalls of 500 of which 430 are left in step: 8 x 100 + 430, where gto overlaps more."""
    rows = [(100, 500, 1, 0, 0, 0, 0, 0)]
    found = launched(rows, LaunchShape(28, 8, 1), stall_in_step=430.0)
    assert cycles(found, gpu(policy="lrr")) >= 800 + 430
    assert cycles(found, gpu(policy="lrr"), "warpsight~in-step") == cycles(found, gpu(policy="gto"))


# Ten rounds of 10 instructions and a stall of 60, in which the load-store unit is needed for a tenth of 200 cycles.
ROUNDS = [(10, 60, 1, 0, 0, 0, 0, 0)] * 10


def test_blocks_of_one_pace_end_with_one_stall_of_the_last_not_with_all_of_them() -> None:
    """Eight blocks of a warp in step fill the load-store unit for 1,600 cycles; of the last one's stalls of 500, 50 follow."""
    found, lrr = launched(ROUNDS, LaunchShape(28 * 8, 1, 8), l1_cycles=200.0, stall_in_step=600.0), gpu(policy="lrr")
    assert 1600 + 1600 * 50 / 1650 <= cycles(found, lrr) < 1660
    assert cycles(found, lrr, "warpsight~even-pace") == pytest.approx(1600 + 1600 * 500 / 2100)
    assert cycles(found, gpu()) == cycles(found, gpu(), "warpsight~even-pace")
    # the warps of a block that is walked as a whole do different things at a time
    walked = changed(found, block_cycles=5000.0)
    assert cycles(walked, lrr) == cycles(walked, lrr, "warpsight~even-pace")


def test_last_blocks_begin_while_the_wave_before_them_ends() -> None:
    """Nine blocks where eight fit: 1,800 cycles of the load-store unit, not 1,600 and then the 700 of a warp alone."""
    found, lrr = launched(ROUNDS, LaunchShape(28 * 9, 1, 8), l1_cycles=200.0, stall_in_step=600.0), gpu(policy="lrr")
    assert 1800 <= cycles(found, lrr) < 1950
    assert cycles(found, lrr, "warpsight~even-pace") > 2300
    # where no server is full, a place is free only when a warp has had its time
    assert cycles(changed(found, l1_cycles=2.0), lrr) >= 1400


def test_warps_in_step_are_at_issue_slots_and_load_store_unit_at_the_same_time() -> None:
    """Seven warps behind the first take 700 cycles of the slots and 350 of the unit, one after the other 1,050 beside its 160."""
    found = launched(COMPUTE, LaunchShape(28, 8, 1), l1_cycles=50.0, stall_in_step=60.0)
    assert cycles(found, gpu(policy="lrr")) == pytest.approx(160 + 700)
    assert cycles(found, gpu(policy="lrr"), "warpsight~step-overlap") == pytest.approx(160 + 1050)


def test_unequal_blocks_leave_sms_idle() -> None:
    """Two waves of 64 warps issue 12,800 cycles, and half as long again for being unequal."""
    equal = launched(COMPUTE, LaunchShape(28 * 16, 8, 8))
    assert cycles(changed(equal, work_imbalance=1.5)) == pytest.approx(cycles(equal) + 0.5 * 12_800)


def test_blocks_held_together_by_barriers_hide_their_stalls_behind_other_blocks_only() -> None:
    """One block of eight warps, whose stalls outlast the others by 430 cycles: with many barriers all show, with one half."""
    rows = [(100, 500, 1, 0, 0, 0, 0, 0)]
    apart = launched(rows, LaunchShape(28, 8, 1), stall_in_step=430.0)
    often = cycles(changed(apart, barriers=1e6))
    assert often == pytest.approx(800 + 430, rel=1e-4)
    assert cycles(changed(apart, barriers=1.0)) == pytest.approx((cycles(apart) + often) / 2, rel=1e-4)


def test_stores_without_room_in_the_network_keep_the_load_store_unit() -> None:
    """50 stores of 128 B of a warp of each SM take 50 x 128 x 28 bytes' time, in which the unit serves no load."""
    rows = [(1, 0, 2, 1, 0, 50, 0, 0)]
    found = launched(rows, LaunchShape(28 * 8, 8, 8), l1_cycles=300.0)
    sent = 28 * 50 * 128 / 1050e9 * 1.4e9
    assert sent > 50
    assert cycles(found, model="warpsight~last-warp") == pytest.approx(64 * (300 + sent - 50), rel=0.01)
    assert cycles(found, model="warpsight~last-warp~stores") == pytest.approx(64 * 300, rel=0.05)


def test_launch_is_not_over_before_its_slowest_warp() -> None:
    """A warp alone takes 160 cycles, and the slowest 20 times that, for most of which its SM has nothing else to do."""
    equal = launched(COMPUTE, ONE_WAVE)
    found = get_model("warpsight").predict(changed(equal, longest_warp=20.0), gpu())
    assert found.cycles == pytest.approx(20 * 160)
    assert found.cpi_stack["idle"] * 800 == pytest.approx(found.cycles - cycles(equal))
    assert cycles(changed(equal, longest_warp=5.0)) == cycles(equal)


def test_grid_begins_and_ends_once_however_many_waves_it_has() -> None:
    for blocks in (28, 28 * 8, 28 * 80):
        found = launched(COMPUTE, LaunchShape(blocks, 8, 8))
        answer = get_model("warpsight").predict(found, gpu(dispatch=DispatchSpec(grid_cycles=2200)))
        assert answer.cycles == pytest.approx(cycles(found) + 2200)
        assert answer.cpi_stack["launch"] * answer.cycles / answer.cpi == pytest.approx(2200)
        assert answer.cpi_stack["idle"] == get_model("warpsight").predict(found, gpu()).cpi_stack["idle"]


def test_first_warps_wait_for_the_parameters_of_a_kernel_that_uses_memory() -> None:
    """Two round trips to an L2 of 120 cycles, once for any number of waves; a kernel without memory has no address to wait for."""
    machine = gpu(dispatch=DispatchSpec(parameter_reads=2))
    for blocks in (28, 28 * 80):
        alone = launched(COMPUTE, LaunchShape(blocks, 8, 8))
        loads = changed(alone, fetched_bytes=1e-9)
        for model in ("warpsight", "bottleneck"):
            assert cycles(alone, machine, model) == cycles(alone, model=model)
            answer = get_model(model).predict(loads, machine)
            assert answer.cycles == pytest.approx(cycles(loads, model=model) + 2 * gpu().l2.latency_cycles)
            assert answer.cpi_stack["launch"] * answer.cycles / answer.cpi == pytest.approx(2 * gpu().l2.latency_cycles)


def test_place_of_a_block_stays_free_for_a_while_before_each_block_but_the_first() -> None:
    """One block of one warp at a time, ten in turn: 160 cycles each, with nine pauses of 400."""
    found, machine = launched(COMPUTE, LaunchShape(280, 1, 1)), gpu(dispatch=DispatchSpec(block_cycles=400, warp_cycles=7))
    answer = get_model("warpsight").predict(found, machine)
    assert answer.cycles == pytest.approx(10 * 160 + 9 * 400)
    assert answer.cpi_stack["launch"] / answer.cpi == pytest.approx(9 * 400 / answer.cycles)
    # where other blocks fill the pause, it costs nothing
    busy = launched(COMPUTE, LaunchShape(280 * 8, 8, 8))
    assert cycles(busy, machine) == pytest.approx(cycles(busy), rel=0.01)


def test_warps_of_a_block_start_one_after_the_other_where_nothing_else_takes_longer() -> None:
    """Eight warps on four schedulers: the last starts 7 x 40 cycles after the first. 10 cycles apart is less than they issue."""
    found = changed(launched(COMPUTE, LaunchShape(28, 8, 1)), stall_in_step=60.0)
    free = cycles(found, gpu(schedulers=4, policy="lrr"))
    slow, fast = (gpu(schedulers=4, policy="lrr", dispatch=DispatchSpec(warp_cycles=pause)) for pause in (40, 10))
    assert cycles(found, slow) == pytest.approx(7 * 40 + 160)
    assert cycles(found, fast) == pytest.approx(free)


def test_dispatch_of_many_short_blocks_bounds_the_launch_and_hides_behind_long_ones() -> None:
    """At 1.4 GHz a block leaves every 7 cycles: the last of 2,240 after 15,680, and then takes 160."""
    found, machine = launched(COMPUTE, LaunchShape(2240, 1, 32)), gpu(dispatch=DispatchSpec(block_interval_ns=5.0))
    assert cycles(found) < 2240 * 7.0
    assert cycles(found, machine) == pytest.approx(2240 * 7.0 + 160, rel=1e-3)
    longer = launched([(100, 20_000, 1, 0, 0, 0, 0, 0)], LaunchShape(2240, 1, 32))
    assert cycles(longer, machine) == cycles(longer)


def test_part_that_is_not_there_is_refused_with_the_parts_that_are() -> None:
    with pytest.raises(UsageError, match='no part "spred"; did you mean "spread"'):
        get_model("warpsight~spred")


def test_model_without_parts_says_so() -> None:
    with pytest.raises(UsageError, match='"mdm" has no parts'):
        get_model("mdm~noc")


def dram(machine: GpuSpec, **fields: float) -> GpuSpec:
    return dataclasses.replace(machine, dram=dataclasses.replace(machine.dram, **fields))  # type: ignore[arg-type]


def noc(machine: GpuSpec, **fields: int) -> GpuSpec:
    return dataclasses.replace(machine, noc=dataclasses.replace(machine.noc, **fields))


BINDING = {
    "all-warps": ({"stall_cycles": 5000.0}, gpu()),
    "units": ({"unit_cycles": 1e5}, gpu()),
    "l1-port": ({"l1_cycles": 1e5}, gpu()),
    "mshrs": ({}, gpu(mshrs=1)),
    "noc": ({}, gpu(noc=1e9)),
    "ways": ({"way_wait": 0.5}, gpu()),
    "l1-pipeline": ({}, gpu(mshrs=1)),
    "dram": ({}, gpu(dram=1e9)),
    "dram-efficiency": ({}, dram(gpu(dram=1e9), efficiency=0.5)),
    "rows": ({"dram_rows": 1e3}, dram(gpu(), row_interval_ns=4.0)),
    "drain": ({"drain_cycles": 5000.0}, gpu()),
    "turnaround": ({"dram_alternating": 64.0}, dram(gpu(dram=1e9), turnaround_cycles=20_000)),
    "store-port": ({"sent_flits": 1e4}, noc(gpu(), store_time_cycles=6)),
    "stores": ({"l1_cycles": 300.0, "sent_bytes": 1e5}, gpu()),
    "own-time": ({"l1_cycles": 200.0, "stall_cycles": 3000.0}, gpu()),
    "overlap": ({"l1_cycles": 60.0, "stall_cycles": 3000.0}, gpu()),
    "atomics": ({"atomic_repeats": 1e5}, gpu()),
    "spread": ({"channel_share": 0.5}, gpu(dram=1e9)),
    "asynchronous": ({"block_cycles": 1e5, "asynchronous": 0.5}, gpu()),
    "in-step": ({"stall_in_step": 300.0}, gpu(policy="lrr")),
    "step-overlap": ({"l1_cycles": 40.0}, gpu(policy="lrr")),
    "even-pace": ({"l1_cycles": 200.0, "stall_in_step": 300.0}, gpu(policy="lrr")),
    "barriers": ({"barriers": 9.0, "stall_cycles": 5000.0, "stall_in_step": 4500.0}, gpu()),
    "last-warp": ({}, gpu()),
    "launch": ({}, gpu(dispatch=DispatchSpec(2000, 0.6, 400, 7))),
    "unequal-blocks": ({"work_imbalance": 1.5}, gpu()),
}


# the parts that save time
SAVING = ("overlap", "own-time", "l1-pipeline", "step-overlap", "even-pace")


def test_every_part_has_a_case_below() -> None:
    assert set(BINDING) == set(WARPSIGHT_PARTS)


@pytest.mark.parametrize("part", BINDING)
def test_part_left_out_is_felt_where_it_binds(part: str) -> None:
    demands, machine = BINDING[part]
    found = launched([(50, 300, 2, 2, 12, 6, 10, 5)], LaunchShape(28 * 12, 8, 3), **demands)
    without, whole = cycles(found, machine, f"warpsight~{part}"), cycles(found, machine)
    assert without > whole * 1.001 if part in SAVING else without < whole * 0.99


def test_blocks_that_fill_the_sms_better_than_their_number_take_less_whatever_binds() -> None:
    """Were only the time shortened that the SM's own units take, a second scheduler would lengthen what the DRAM bounds."""
    equal = launched([(1, 0, 2, 1, 0, 1, 0, 1)], LaunchShape(1, 8, 1), unit_cycles=7.0, sent_bytes=128.0, channel_share=1.0)
    better = changed(equal, work_imbalance=0.875)
    for schedulers in (1, 2):
        machine = gpu(sm_count=2, noc=1e10, dram=1e10, schedulers=schedulers)
        assert cycles(better, machine) == pytest.approx(0.875 * cycles(equal, machine))


STREAM = [(1, 0, 2, 1, 4, 0, 4, 0)]
COPY = [(1, 0, 2, 1, 4, 4, 4, 4)]


def test_stream_of_reads_reaches_the_efficiency_of_its_memory() -> None:
    reads = launched(STREAM, LaunchShape(28 * 64, 8, 8))
    slow = gpu(dram=1e10)
    assert cycles(reads, dram(slow, efficiency=0.8)) == pytest.approx(cycles(reads, slow) / 0.8, rel=1e-3)


def test_copy_turns_the_bus_around_twice_for_a_queue_of_writes() -> None:
    """Each of 28 x 512 warps writes 4 lines: 57,344 on 24 channels with queues of 64 are 37.3 pairs of turns for each."""
    copied = launched(COPY, LaunchShape(28 * 64, 8, 8))
    slow = gpu(dram=1e10)
    more = cycles(copied, dram(slow, turnaround_cycles=1000)) - cycles(copied, slow)
    assert more == pytest.approx(2 * 1000 * 28 * 64 * 8 * 4 / 64 / 24, rel=1e-3)
    reads = launched(STREAM, LaunchShape(28 * 64, 8, 8))
    assert cycles(reads, dram(slow, turnaround_cycles=1000)) == cycles(reads, slow)


@pytest.mark.parametrize("flits", [2, 3])
def test_stores_of_few_bytes_take_a_third_of_the_store_s_time_at_the_port_for_each_flit(flits: int) -> None:
    """64 blocks of 8 warps an SM, each with 16 stores of 32 B, with and without a mask of bytes."""
    scattered = launched([(1, 0, 2, 1, 0, 16, 0, 0)], LaunchShape(28 * 64, 8, 8), sent_bytes=512.0, sent_flits=16.0 * flits)
    assert cycles(scattered, noc(gpu(), store_time_cycles=6)) == pytest.approx(64 * 8 * 16 * 2 * flits, rel=1e-2)


@pytest.mark.parametrize(("blocks", "senders"), [(14, 1), (15, 2), (28, 2)])
def test_sms_of_a_tpc_share_a_port_where_both_have_blocks(blocks: int, senders: int) -> None:
    """28 SMs in 14 TPCs. A warp of each block reads 3,200 lines of a sector from the L2, a request a cycle of the port."""
    reads = launched([(1, 0, 2, 1, 0, 100, 0, 0)] * 8, LaunchShape(blocks, 8, 8), read_misses=3200.0, fetched_bytes=32 * 3200.0)
    wide = dataclasses.replace(gpu(dram=1e15), l1=dataclasses.replace(gpu().l1, mshrs=1 << 16))
    assert cycles(reads, noc(wide, tpc_sms=2, bandwidth_bytes_per_s=1e15)) == pytest.approx(8 * 3200 * senders, rel=0.05)


@pytest.mark.property
@settings(deadline=None, max_examples=150)
@given(profiles(), gpus, st.sampled_from(RESOURCES))
def test_more_of_a_resource_is_never_slower(found: IntervalProfile, machine: GpuSpec, resource: str) -> None:
    design = Design.of(machine)
    more = design.varied(**{resource: 2 * getattr(design, resource)})
    model = get_model("warpsight")
    assert model.evaluate(found, more)["cycles"] <= model.evaluate(found, design)["cycles"] * (1 + 1e-9)


@pytest.mark.property
@settings(deadline=None, max_examples=150)
@given(profiles(), gpus, st.sampled_from(["l2_latency_cycles", "dram_latency_cycles"]))
def test_longer_latency_is_never_faster(found: IntervalProfile, machine: GpuSpec, latency: str) -> None:
    design = Design.of(machine)
    longer = design.varied(**{latency: 2 * getattr(design, latency)})
    model = get_model("warpsight")
    assert model.evaluate(found, longer)["cycles"] >= model.evaluate(found, design)["cycles"] * (1 - 1e-9)


@pytest.mark.property
@settings(deadline=None, max_examples=150)
@given(profiles(), gpus)
def test_throughput_never_exceeds_what_any_single_resource_carries(found: IntervalProfile, machine: GpuSpec) -> None:
    design = Design.of(machine)
    ours = get_model("warpsight").evaluate(found, design)
    bound = get_model("bottleneck").evaluate(found, design)
    busy = bound["cpi"] - bound["cpi_stack.idle"]
    assert np.all(ours["cpi"] >= busy * (1 - 1e-9))
