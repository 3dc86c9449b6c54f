"""Does the model take the paper's parameters from counts and GPU, and split its cycles into a stack that sums?"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from made_up import gpu, profile

from warpsight.equations import mwp_cwp as eq
from warpsight.equations.mwp_cwp import solve
from warpsight.gpu.design import Design
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import KernelCounts
from warpsight.models.base import get_model
from warpsight.models.mwp_cwp import parameters
from warpsight.result.prediction import Prediction

pytestmark = pytest.mark.unit


def _predict(counts: KernelCounts, machine: GpuSpec) -> Prediction:
    made = profile([(100, 0, 1, 0, 0, 0, 0, 0)], counts=counts)
    total = round(counts.instructions * counts.blocks * counts.warps_per_block)
    return get_model("mwp-cwp").predict(dataclasses.replace(made, total_warp_instructions=total), machine)


def _stated(*cycles: int) -> dict[str, int]:
    names = ("memory_latency", "departure_coalesced", "departure_uncoalesced", "issue_cycles")
    return {f"mwp-cwp.{name}": number for name, number in zip(names, cycles, strict=True)}


def test_table_2_as_a_profile_has_its_cycles_and_their_parts() -> None:
    counts = KernelCounts(27, 0, 6, 32, 6, 128, 80, 4, 5, "cc1.0")
    answer = _predict(counts, load_gpu("fx5600", ["core_clock=1 GHz", "dram.bandwidth=80 GB/s"]))
    assert answer.cycles == pytest.approx(50728.1875)
    per_sm = 33 * 4 * 5
    assert answer.cpi_stack["base"] * per_sm == pytest.approx(132 * 20)
    assert answer.cpi_stack["sync"] * per_sm == pytest.approx(12300)
    memory = 38428.1875 - 132 * 20
    assert answer.cpi_stack["mem_data"] * per_sm == pytest.approx(memory * 2.28125 / 20)
    assert answer.cpi_stack["dram"] * per_sm == pytest.approx(memory * (1 - 2.28125 / 20))


def test_numbers_that_a_gpu_leaves_open_follow_from_the_rest() -> None:
    counts = KernelCounts(90, 5, 5, 4, 0, 128, 1000, 8, 8, "sectors")
    given = parameters(counts, Design.of(gpu()))
    assert given.memory_latency == 120 + 220
    assert given.departure_coalesced == pytest.approx(128 * 1.4e9 * 28 / 480e9)
    assert given.departure_uncoalesced == pytest.approx(128 * 1.4e9 * 28 / 480e9)
    own = dataclasses.replace(gpu(), parameters=_stated(500, 3, 7, 4))
    given = parameters(counts, Design.of(own))
    assert (given.memory_latency, given.departure_coalesced, given.departure_uncoalesced, given.issue_cycles) == (500, 3, 7, 4)


def test_issue_slots_divide_the_issue_cycles_as_far_as_there_are_warps() -> None:
    many, few = KernelCounts(90, 5, 0, 1, 0, 128, 28, 8, 8, "sectors"), KernelCounts(90, 5, 0, 1, 0, 128, 28, 2, 8, "sectors")
    wide = gpu(schedulers=4)
    assert parameters(many, Design.of(wide)).issue_cycles == 0.25
    assert parameters(few, Design.of(wide)).issue_cycles == 0.5


def test_equation_23_below_the_issue_of_all_instructions_is_bounded_by_it() -> None:
    # one memory instruction each 1000: MWP 1.03 by the departure delay, CWP 1.03; eq. 23 alone would give a tenth of the issue
    counts = KernelCounts(10_000, 0, 10, 33, 0, 128, 28 * 8, 8, 8, "sectors")
    machine = dataclasses.replace(gpu(), parameters=_stated(40, 1, 10, 1))
    found = solve(parameters(counts, Design.of(machine)))
    assert found["Case"] == eq.MEMORY_BOUND
    assert found["Final_cycles"] < found["Comp_cycles"] * 64
    answer = _predict(counts, machine)
    assert answer.cycles == pytest.approx(10_010 * 64)
    assert answer.cpi == pytest.approx(answer.cpi_stack["base"])


def test_launch_of_few_blocks_leaves_sms_idle_and_the_others_with_their_share() -> None:
    counts = KernelCounts(100, 0, 0, 1, 0, 0, 14, 8, 8, "sectors")
    answer = _predict(counts, gpu())
    assert answer.cycles == pytest.approx(800)
    assert answer.cpi_stack["idle"] == pytest.approx(answer.cpi_stack["base"])


def test_repetitions_may_be_a_fraction_but_not_below_one() -> None:
    found = [
        solve(parameters(KernelCounts(10, 1, 0, 1, 0, 128, blocks, 4, 5, "sectors"), Design.of(gpu())))["Rep"].item()
        for blocks in (10, 28, 70, 140, 175, 280)
    ]
    assert np.array(found) == pytest.approx([1, 1, 1, 1, 1.25, 2])
