"""Do the models of the interval family differ where their equations do, and agree where they must?"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from made_up import gpu, gpus, profile, profiles

from warpsight.base.errors import UsageError
from warpsight.gpu.design import Design
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile, LaunchShape
from warpsight.models.base import get_model

pytestmark = pytest.mark.unit

CONTENDED = ("mt-mshr", "gpumech", "gpumech-plus", "mdm-queue", "mdm-mshr", "mdm", "mdm-letter")
tried = settings(max_examples=60, deadline=None)

# One interval of 10 instructions and 1000 stall cycles; 64 warps of 8 read misses on 128 MSHRs, a quarter of them from DRAM.
DIVERGENT = [(10.0, 1000.0, 2, 1, 8.0, 0.0, 2.0, 0.0)]
# By hand, on 28 SMs at 1.4 GHz with 1050 and 480 GB/s. Services: 1.4 x 128 / 1050 = 0.1706667, 1.4 x 128 / 480 = 0.3733333 cycles.
# Without contention 1010 cycles and a latency of 120 + 0.25 x 220 = 175. GPUMech's expected delay for an MSHR: 4 rounds, 1.5 more
# than one on average. Its queues are overloaded in 1010 cycles and take their caps: DRAM 0.3733333 x 2 x 64 x 28 / 2 = 669.0133,
# NoC 0.1706667 x 8 x 64 x 28 / 2 = 1223.3387, both 1892.352. MDM has 128 misses in flight: NoC 28 x 128 x 0.1706667 = 611.6693,
# over 340 and so saturated; DRAM 0.25 x 28 x 128 x 0.3733333 = 334.5067, both 946.176; three batches before the last.
BY_HAND = {
    "naive-interval": 1010,
    "mt": 1010,
    "mt-mshr": 1010 + 1.5 * 175,
    "gpumech": 1010 + 1.5 * 175 + 669.0133333,
    "gpumech-plus": 1010 + 1892.352 + 1.5 * (175 + 1892.352),
    "mdm-queue": 1010 + 946.176 + 1.5 * (175 + 946.176),
    "mdm-mshr": 1010 + 1892.352 + 3 * (175 + 1892.352),
    "mdm": 1010 + 946.176 + 3 * (175 + 946.176),
    "mdm-letter": 1010 + 946.176 + 3 * (175 + 946.176),
}


def _cycles(model: str, made: IntervalProfile, machine: GpuSpec) -> float:
    return get_model(model).predict(made, machine).cycles


@pytest.mark.parametrize("model", BY_HAND)
def test_divergent_interval_takes_the_cycles_computed_by_hand(model: str) -> None:
    made = profile(DIVERGENT, llc_miss_ratio=0.25, nonoverlapped_instructions=0.0)
    assert _cycles(model, made, gpu()) == pytest.approx(BY_HAND[model], rel=1e-9)


def test_divergence_without_a_saturated_noc_is_half_hidden_in_mdm_and_not_in_the_letter() -> None:
    # ten times the NoC: its queue of 61.16693 cycles is below 340; DRAM's queue of 334.5067 stays
    made = profile(DIVERGENT, llc_miss_ratio=0.25, nonoverlapped_instructions=0.0)
    wide = gpu(noc=10500e9)
    full = 61.1669333 + 334.5066667
    assert _cycles("mdm-letter", made, wide) == pytest.approx(1010 + full + 3 * (175 + full))
    assert _cycles("mdm", made, wide) == pytest.approx(1010 + full / 2 + 3 * (175 + full / 2))


def test_l1_miss_latency_of_a_divergent_interval_adds_up_from_its_parts() -> None:
    # requests of batches 1 to 4 wait 0 to 3 misses of 175 + 946.176 cycles for a register, 1.5 on average
    made = profile(DIVERGENT, llc_miss_ratio=0.25)
    parts = get_model("mdm").predict(made, gpu()).provenance["model"]["l1_miss_latency"]
    expected = {"mshr": 1.5 * 1121.176, "noc_queue": 611.6693333, "l2": 120, "dram_queue": 334.5066667, "dram": 55}
    assert parts == pytest.approx(expected)


def test_l1_miss_latency_is_a_mean_over_misses_and_not_over_intervals() -> None:
    # M = 32 and 96 in flight, half of each is waited for: 28 / 2 x 0.1706667 x (32 x 32 + 96 x 96) / 128
    rows = [(10.0, 0.0, 2, 1, 0.5, 0.0, 0.0, 0.0), (10.0, 0.0, 2, 1, 1.5, 0.0, 0.0, 0.0)]
    parts = get_model("mdm").predict(profile(rows, llc_miss_ratio=0.0), gpu()).provenance["model"]["l1_miss_latency"]
    assert parts["noc_queue"] == pytest.approx(14 * 0.1706666667 * 80)
    assert (parts["mshr"], parts["l2"], parts["dram"]) == (0, 120, 0)


def test_kernel_without_read_misses_has_no_l1_miss_latency() -> None:
    stores = profile([(10.0, 0.0, 0, 0, 0.0, 8.0, 0.0, 8.0)])
    assert "l1_miss_latency" not in get_model("mdm").predict(stores, gpu()).provenance["model"]


@pytest.mark.parametrize("model", ["mdm", "mdm-letter", "mdm-mshr"])
def test_streaming_l1_is_blocked_by_a_noc_queue_as_by_so_many_mshrs(model: str) -> None:
    made = profile(DIVERGENT, llc_miss_ratio=0.25)
    assert _cycles(model, made, gpu(mshrs=4096, queue=64)) == _cycles(model, made, gpu(mshrs=64))
    assert _cycles(model, made, gpu(mshrs=4096, queue=64)) > _cycles(model, made, gpu(mshrs=4096))
    assert _cycles(model, made, gpu(mshrs=64, queue=4096)) == _cycles(model, made, gpu(mshrs=64))


def test_mdm_queue_sees_the_noc_queue_in_its_queues_and_gpumech_nowhere() -> None:
    made = profile(DIVERGENT, llc_miss_ratio=0.25)
    behind = get_model("mdm-queue").predict(made, gpu(mshrs=4096, queue=64)).cpi_stack
    assert behind["mshr"] == 0
    assert behind["noc"] == pytest.approx(get_model("mdm").predict(made, gpu(mshrs=64)).cpi_stack["noc"])
    for model in ("mt-mshr", "gpumech", "gpumech-plus"):
        assert _cycles(model, made, gpu(queue=16)) == _cycles(model, made, gpu())


@pytest.mark.property
@tried
@given(profiles(), gpus)
def test_unlimited_mshrs_and_bandwidth_leave_multithreading_alone(made: IntervalProfile, machine: GpuSpec) -> None:
    free = dataclasses.replace(
        machine,
        l1=dataclasses.replace(machine.l1, mshrs=10**9),
        noc=dataclasses.replace(machine.noc, bandwidth_bytes_per_s=1e30, queue=0),
        dram=dataclasses.replace(machine.dram, bandwidth_bytes_per_s=1e30),
    )
    for model in CONTENDED:
        assert _cycles(model, made, free) == pytest.approx(_cycles("mt", made, free), rel=1e-9), model


@pytest.mark.property
@tried
@given(profiles(), gpus)
def test_without_divergence_models_that_differ_in_it_agree(made: IntervalProfile, machine: GpuSpec) -> None:
    enough = math.ceil(made.read_misses.max() * made.warps_per_sm) + 1
    wide = dataclasses.replace(
        machine, l1=dataclasses.replace(machine.l1, mshrs=enough), noc=dataclasses.replace(machine.noc, queue=0)
    )
    for one, other in (("mdm-mshr", "gpumech-plus"), ("mdm", "mdm-queue"), ("mdm", "mdm-letter")):
        assert _cycles(one, made, wide) == pytest.approx(_cycles(other, made, wide), rel=1e-12), (one, other)


@pytest.mark.property
@tried
@given(profiles(), gpus)
def test_equal_intervals_taken_as_one_give_what_they_give_one_by_one(made: IntervalProfile, machine: GpuSpec) -> None:
    repeated = {name: np.tile(value, 3) for name, value in made.__dict__.items() if isinstance(value, np.ndarray)}
    looped = dataclasses.replace(made, **repeated)
    for model in (*CONTENDED, "mt", "naive-interval", "markov-chain"):
        many = get_model(model).evaluate(looped, Design.of([machine] * 100))
        assert many["cycles"][99] == pytest.approx(_cycles(model, looped, machine), rel=1e-12), model


@pytest.mark.property
@tried
@given(profiles(), gpus)
def test_naive_model_is_never_slower_than_multithreading(made: IntervalProfile, machine: GpuSpec) -> None:
    assert _cycles("naive-interval", made, machine) <= _cycles("mt", made, machine) * (1 + 1e-12)


def test_markov_chain_of_one_warp_alone_is_that_warp() -> None:
    alone = profile([(10.0, 30.0, 1, 0, 0, 0, 0, 0)], warps_per_sm=1, total_warp_instructions=280, launch=LaunchShape(28, 1, 8))
    assert _cycles("markov-chain", alone, gpu()) == pytest.approx(40)


def test_markov_chain_on_two_schedulers_is_two_chains_of_half_the_warps() -> None:
    # p = 1/2 with M = 2: two warps issue 5/6 of the time, so two schedulers of two warps issue 5/3
    made = profile([(2.0, 2.0, 1, 0, 0, 0, 0, 0)], warps_per_sm=4)
    assert get_model("markov-chain").predict(made, gpu(schedulers=2)).ipc_sm_warp == pytest.approx(5 / 3)


def test_markov_chain_of_too_many_warps_is_refused() -> None:
    crowded = profile([(2.0, 2.0, 1, 0, 0, 0, 0, 0)], warps_per_sm=5000)
    with pytest.raises(UsageError, match="5000 warps on a scheduler"):
        get_model("markov-chain").predict(crowded, gpu())
