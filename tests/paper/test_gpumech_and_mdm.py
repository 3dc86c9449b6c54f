"""Do we get the numbers of GPUMech (MICRO 2014) and MDM (MICRO 2020)?"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsight.caches.miss_profile import MissProfile
from warpsight.equations import multithreading
from warpsight.equations import queues as mshr
from warpsight.gpu.design import Design
from warpsight.gpu.spec import DramSpec, GpuSpec, L1Spec, L2Spec, NocSpec, SmSpec
from warpsight.intervals.build import latency_table
from warpsight.intervals.interchange import read_profile
from warpsight.models.base import get_model
from warpsight.traces.schema import StaticInstruction

pytestmark = pytest.mark.paper

# The hand-made profile: two intervals, of which the second misses once.
GPU = GpuSpec(
    "by-hand", 1.6e9, 20, SmSpec(64, 32, 65536, 98304, 4, 1, "gto"), {"int": 4}, {"int": 1},
    L1Spec(49152, 128, 128, 6, 128, 64, 25), NocSpec(1050e9),
    L2Spec(3 << 20, 128, 128, 8, 128, 64, 120, slices=24), DramSpec(320e9, 24, 220),
)  # fmt: skip
NO_MISSES = {"read_misses": 0, "write_misses": 0, "dram_reads": 0, "dram_writes": 0}
PROFILE: dict[str, Any] = {
    "schema": 1, "kernel": "by hand", "warps_per_sm": 64, "total_warp_instructions": 171 * 64 * 20, "llc_miss_ratio": 0.97392,
    "intervals": [
        {"instructions": 100, "stall_cycles": 279.050537, "cause": "compute", "pc": None, "memory_instructions": 0, **NO_MISSES},
        {"instructions": 71, "stall_cycles": 700, "cause": "memory", "pc": None, "memory_instructions": 1, **NO_MISSES,
         "read_misses": 1, "dram_reads": 1},
    ],
    "nonoverlapped_instructions": 2520,
}  # fmt: skip


def _by_hand(**changes: Any) -> Any:
    return read_profile(json.dumps({**PROFILE, **changes}), origin="by hand")


# Nothing diverges, so MSHRs cost nothing. Without contention 171 + 979.050537 + 2520 = 3670.050537 cycles, as MT has it. The
# NoC's queue in GPUMech+ has a utilisation of 1280 x 0.195048 / 771 = 0.3238: M/D/1 gives 0.0467 cycles beside DRAM's cap of 409.6.
@pytest.mark.parametrize(
    ("model", "ipc"),
    [
        ("mdm", 2.6096), ("mdm-queue", 2.6096), ("mdm-letter", 2.6096), ("gpumech", 2.6826), ("gpumech-plus", 2.6826),
        ("mdm-mshr", 2.6826), ("mt", 2.9820), ("mt-mshr", 2.9820),
    ],
)  # fmt: skip
def test_hand_made_profile_has_the_ipc_of_the_equations(model: str, ipc: float) -> None:
    answer = get_model(model).predict(_by_hand(), GPU)
    assert answer.ipc_sm_warp == pytest.approx(ipc, abs=1e-4)
    assert answer.cycles == pytest.approx(171 * 64 / ipc, rel=1e-4)


def test_hand_made_profile_under_gpumech_plus_queues_a_little_at_the_noc() -> None:
    for model in ("gpumech-plus", "mdm-mshr"):
        stack = get_model(model).predict(_by_hand(), GPU).cpi_stack
        assert stack["noc"] * 171 * 64 == pytest.approx(0.0467, abs=5e-5)
        assert stack["dram"] * 171 * 64 == pytest.approx(409.6)


def test_hand_made_profile_under_the_naive_model_hides_every_stall() -> None:
    # eq. 1: 64 x 171 / 1150.050537 = 9.516, more than four schedulers issue
    answer = get_model("naive-interval").predict(_by_hand(), GPU)
    assert answer.ipc_sm_warp == pytest.approx(4)
    few = get_model("naive-interval").predict(_by_hand(warps_per_sm=16), GPU)
    assert few.ipc_sm_warp == pytest.approx(16 * 171 / 1150.050537)


def test_hand_made_profile_under_mdm_stalls_on_queues_alone() -> None:
    stack = get_model("mdm").predict(_by_hand(), GPU).cpi_stack
    assert stack["mshr"] == 0
    assert (stack["noc"] + stack["dram"]) * 171 * 64 == pytest.approx(523.75, abs=5e-3)


def test_hand_made_profile_under_gpumech_takes_the_cap_of_equation_21() -> None:
    stack = get_model("gpumech").predict(_by_hand(), GPU).cpi_stack
    assert stack["dram"] * 171 * 64 == pytest.approx(409.6)


def test_noc_sweep_has_the_stalls_of_the_equations() -> None:
    bandwidths = np.array([525e9, 1700e9, 2100e9, 4200e9, 8400e9])
    found = get_model("mdm").evaluate(_by_hand(), Design.of(GPU).varied(noc_bandwidth_bytes_per_s=bandwidths))
    stalls = (found["cpi_stack.noc"] + found["cpi_stack.dram"]) * 171 * 64
    assert stalls == pytest.approx([648.58, 476.02, 461.33, 430.13, 414.52], abs=5e-3)


def test_without_misses_mdm_equals_gpumechs_multithreading() -> None:
    calm = _by_hand(intervals=[{**row, **NO_MISSES} for row in PROFILE["intervals"]], nonoverlapped_instructions=None)
    assert get_model("mdm").predict(calm, GPU).cycles == get_model("gpumech").predict(calm, GPU).cycles


def test_figure_2_of_gpumech_three_warps_of_one_instruction_and_ten_stalls_have_ipc_3_11() -> None:
    interval = {"instructions": 1, "stall_cycles": 10, "cause": "compute", "pc": None, "memory_instructions": 0, **NO_MISSES}
    narrow = dataclasses.replace(GPU, sm=dataclasses.replace(GPU.sm, schedulers=1))
    profile = _by_hand(intervals=[interval], warps_per_sm=3, nonoverlapped_instructions=None)
    for policy in ("lrr", "gto"):
        one = dataclasses.replace(narrow, sm=dataclasses.replace(narrow.sm, policy=policy))
        for model in ("naive-interval", "mt", "gpumech"):
            assert get_model(model).predict(profile, one).ipc_sm_warp == pytest.approx(3 / 11)


def test_figure_8_of_gpumech_has_2_nonoverlapped_instructions_round_robin_and_3_greedy() -> None:
    instructions, stalls = np.array([3.0]), np.array([6.0])
    warps, rate = np.array([4.0, 4.0]), np.ones(2)
    found = multithreading.nonoverlapped(instructions, stalls, warps, rate, greedy=np.array([False, True]))
    assert found.tolist() == pytest.approx([2, 3])


@pytest.mark.parametrize(("policy", "extra"), [("lrr", 2), ("gto", 3)])
def test_figure_8_of_gpumech_under_mt_takes_9_cycles_and_the_nonoverlapped_instructions(policy: str, extra: int) -> None:
    interval = {"instructions": 3, "stall_cycles": 6, "cause": "compute", "pc": None, "memory_instructions": 0, **NO_MISSES}
    narrow = dataclasses.replace(GPU, sm=dataclasses.replace(GPU.sm, schedulers=1, policy=policy))
    profile = _by_hand(intervals=[interval], warps_per_sm=4, nonoverlapped_instructions=None)
    # four warps of three instructions need 12 issue cycles, which is more than 9 + 2
    assert get_model("mt").predict(profile, narrow).ipc_sm_warp == pytest.approx(12 / max(9 + extra, 12))


def test_amat_example_of_gpumech_is_150_cycles() -> None:
    load = StaticInstruction(0, "ld.global.f32", "memory", (1,), (), "global", "load", 4, "k.cu", 1, 1)
    per_instruction = [field.name for field in dataclasses.fields(MissProfile) if field.default is dataclasses.MISSING]
    counts = {name: np.zeros(1, dtype=np.int64) for name in per_instruction}
    counts |= {"executions": np.array([100]), "slowest_l2": np.array([90]), "slowest_dram": np.array([10])}
    machine = dataclasses.replace(GPU, dram=dataclasses.replace(GPU.dram, latency_cycles=300))
    assert latency_table((load,), MissProfile(**counts), machine, np.array([100])).cycles.tolist() == [150]


def test_figure_4_of_mdm_takes_6_requests_on_3_mshrs_in_2_batches() -> None:
    assert mshr.batches(6, 1, 3) == 2
    assert mshr.batching_stall(np.array([6.0, 1.0]), np.array([1.0, 3.0]), 3, 100.0).tolist() == [100, 0]


def test_figure_4_of_mdm_under_the_model_waits_for_one_batch() -> None:
    # three warps of six requests on three MSHRs would be six batches; one warp is two, of which the last is not counted
    interval = {"instructions": 2, "stall_cycles": 340, "cause": "memory", "pc": None, "memory_instructions": 1, **NO_MISSES}
    profile = _by_hand(intervals=[{**interval, "read_misses": 6}], warps_per_sm=1, llc_miss_ratio=0, nonoverlapped_instructions=0)
    small = dataclasses.replace(GPU, l1=dataclasses.replace(GPU.l1, mshrs=3))
    stack = get_model("mdm").predict(profile, small).cpi_stack
    # the NoC's queue of 20 x 3 x 0.195048 = 11.70 cycles is not saturated: half of it is waited for
    assert stack["mshr"] * 2 == pytest.approx(120 + 11.7029 / 2, abs=1e-3)


def test_profile_in_the_reference_pages_is_the_hand_made_one(root: Path) -> None:
    page = (root / "docs" / "reference" / "interval-profile.md").read_text(encoding="utf-8")
    text = page.split("```json\n")[1].split("```")[0]
    assert json.loads(text) == PROFILE
    assert get_model("mdm").predict(read_profile(text, origin="page"), GPU).ipc_sm_warp == pytest.approx(2.6096, abs=1e-4)
