"""Do cycles, waves and the CPI stack of interval models come out as by hand?"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from made_up import gpu, profile

from warpsight.base.errors import SpecError, UsageError
from warpsight.gpu.design import Design
from warpsight.intervals.interval_profile import LaunchShape
from warpsight.models.base import get_model, require
from warpsight.result.prediction import bound_by, memory_class

pytestmark = pytest.mark.unit

COMPUTE = [(10.0, 30.0, 1, 0, 0, 0, 0, 0)]


def test_lone_warp_takes_its_issue_and_stall_cycles() -> None:
    alone = profile(COMPUTE, warps_per_sm=1, total_warp_instructions=280, launch=LaunchShape(28, 1, 8))
    answer = get_model("mdm").predict(alone, gpu())
    assert answer.cycles == pytest.approx(40)
    assert answer.cpi_stack == pytest.approx({**dict.fromkeys(answer.cpi_stack, 0.0), "base": 1.0, "com_data": 3.0})


def test_launch_of_two_and_a_half_waves_takes_full_waves_and_a_smaller_one() -> None:
    # round-robin: 40 + 0.25 (W - 1) 9 cycles a wave; 2 SMs, 4 one-warp blocks each, 10 blocks an SM: waves of 4, 4, 2
    launched = profile(COMPUTE, warps_per_sm=4, total_warp_instructions=200, launch=LaunchShape(20, 1, 4))
    answer = get_model("gpumech").predict(launched, gpu(sm_count=2, policy="lrr"))
    assert answer.cycles == pytest.approx(2 * (40 + 0.25 * 3 * 9) + (40 + 0.25 * 9))
    assert answer.cpi_stack["idle"] == 0


def test_sms_without_blocks_are_idle() -> None:
    # three one-warp blocks on four SMs
    launched = profile(COMPUTE, warps_per_sm=1, total_warp_instructions=30, launch=LaunchShape(3, 1, 4))
    answer = get_model("mdm").predict(launched, gpu(sm_count=4))
    assert answer.cycles == pytest.approx(40)
    assert answer.ipc_gpu_warp == pytest.approx(30 / 40)
    assert answer.cpi_stack["idle"] == pytest.approx(4 * 40 / 30 - 4)


def test_longer_mean_warp_than_the_representative_lengthens_the_launch() -> None:
    # warps execute 15 instructions on average, the representative 10 in 40 cycles
    launched = profile(COMPUTE, warps_per_sm=1, total_warp_instructions=15 * 28, launch=LaunchShape(28, 1, 4))
    assert get_model("mdm").predict(launched, gpu()).cycles == pytest.approx(60)


def test_last_wave_on_few_sms_queues_less() -> None:
    # one block on one SM of 28: the NoC carries the misses of one warp
    lone = profile([(10.0, 0.0, 0, 1, 4.0, 0, 0, 0)], llc_miss_ratio=0.0, total_warp_instructions=10, launch=LaunchShape(1, 1, 4))
    answer = get_model("mdm").predict(lone, gpu())
    service = 1.4e9 * 128 / 1050e9
    assert answer.cycles == pytest.approx(10 + 0.5 * 1 * 4 * service)


def test_base_is_the_share_of_issue_slots_whatever_the_stalls() -> None:
    for schedulers, width, base in ((1, 1, 1.0), (2, 1, 0.5), (4, 2, 0.125)):
        stack = get_model("gpumech").predict(profile(COMPUTE), gpu(schedulers=schedulers, width=width)).cpi_stack
        assert stack["base"] == pytest.approx(base)


def test_stalls_left_by_multithreading_keep_the_warps_own_proportions() -> None:
    rows = [(10.0, 30.0, 1, 0, 0, 0, 0, 0), (10.0, 90.0, 2, 1, 0, 0, 0, 0)]
    stack = get_model("mdm").predict(profile(rows, warps_per_sm=2), gpu()).cpi_stack
    assert stack["com_data"] > 0
    assert stack["mem_data"] == pytest.approx(3 * stack["com_data"])


def test_given_nonoverlapped_instructions_replace_the_multithreading_model() -> None:
    given = profile(COMPUTE, warps_per_sm=4, nonoverlapped_instructions=60.0)
    assert get_model("gpumech").predict(given, gpu()).ipc_sm_warp == pytest.approx(4 * 10 / (40 + 60))


def test_divergent_and_saturated_interval_pays_batches_and_full_queues() -> None:
    # 64 warps x 8 misses on 128 MSHRs: 4 batches; M = 128; NoC queue 28 x 128 x 0.17067 = 611.7 > 340 cycles
    rows = [(10.0, 0.0, 0, 1, 8.0, 0, 0, 0)]
    answer = get_model("mdm").predict(profile(rows, llc_miss_ratio=0.25, nonoverlapped_instructions=0.0), gpu())
    noc, dram = 28 * 128 * 1.4e9 * 128 / 1050e9, 28 * 128 * 0.25 * 1.4e9 * 128 / 480e9
    memory = 120 + 0.25 * 220 + noc + dram
    assert answer.ipc_sm_warp == pytest.approx(640 / (10 + 3 * memory + noc + dram))
    # 630 more cycles go to issuing what the lone warp's 10 cycles cannot, so contention shows that much less
    shown = sum(answer.cpi_stack[name] for name in ("mshr", "noc", "dram")) * 640
    assert shown == pytest.approx(10 + 3 * memory + noc + dram - 640)


def test_mem_data_by_level_in_the_provenance_sums_to_mem_data() -> None:
    rows = [(10.0, 90.0, 2, 1, 0, 0, 0, 0)]
    answer = get_model("mdm").predict(profile(rows, warps_per_sm=2, memory_stall_levels=(0.5, 0.25, 0.25)), gpu())
    levels = answer.provenance["model"]["mem_data_by_level"]
    assert levels["l1"] == pytest.approx(answer.cpi_stack["mem_data"] / 2)
    assert sum(levels.values()) == pytest.approx(answer.cpi_stack["mem_data"])


def test_design_varied_over_two_numbers_has_every_point() -> None:
    design = Design.of(gpu()).varied(sm_count=np.array([14.0, 28.0]), noc_bandwidth_bytes_per_s=np.array([1e12, 2e12]))
    assert len(design) == 2
    assert design.l1_mshrs.tolist() == [128, 128]
    assert design.greedy.tolist() == [True, True]


def test_design_of_an_unknown_scheduler_is_refused() -> None:
    with pytest.raises(SpecError, match='warp scheduler "random"'):
        Design.of(gpu(policy="random"))


def test_model_that_needs_a_launch_refuses_a_profile_without() -> None:
    class Needy:
        name, title, source, needs = "needy", "", "", frozenset({"launch"})
        predict = evaluate = None

    with pytest.raises(UsageError, match='model "needy" needs launch, which the profile of made-up does not have'):
        require(Needy(), profile(COMPUTE))  # type: ignore[arg-type]


def test_occupancy_without_a_launch_is_warps_over_slots() -> None:
    assert get_model("mdm").predict(profile(COMPUTE, warps_per_sm=48), gpu()).occupancy == 0.75


def test_profile_made_for_another_sm_count_is_noted() -> None:
    launched = profile(COMPUTE, warps_per_sm=1, launch=LaunchShape(28, 1, 8))
    note = get_model("mdm").predict(launched, gpu(sm_count=14)).provenance["model"]["note"]
    assert note == "warps_per_sm is 1 in the profile and 2 by its launch on made-up"


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ({"base": 0.9, "mshr": 0.1}, "instruction issue"),
        ({"mshr": 0.4, "mem_data": 0.35, "base": 0.25}, "MSHR and exposed memory latency"),
        ({"idle": 0.5, "noc": 0.05, "dram": 0.05}, "idle SMs"),
    ],
)
def test_bound_is_the_largest_component_and_a_close_second(stack: dict[str, float], words: str) -> None:
    assert bound_by(stack) == words


@pytest.mark.parametrize(("dpki", "name"), [(None, "unknown"), (10.0, "not memory-divergent"), (10.1, "memory-divergent")])
def test_memory_class_is_divergent_above_10(dpki: float | None, name: str) -> None:
    assert memory_class(dpki) == name
    assert get_model("mdm").predict(dataclasses.replace(profile(COMPUTE), dpki=dpki), gpu()).memory_class == name
