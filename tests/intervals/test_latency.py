"""Is the latency of each instruction what the GPU and its caches give?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_programs import gpu, load, misses, op

from warpsight.base.errors import SpecError
from warpsight.intervals.build import LatencyTable, latency_table
from warpsight.traces.schema import StaticInstruction

pytestmark = pytest.mark.unit


def _of(instruction: StaticInstruction, times: int = 100, **counts: dict[int, int]) -> LatencyTable:
    return latency_table((instruction,), misses(1, **counts), gpu(), np.array([times]))


@pytest.mark.parametrize(
    ("op_class", "cycles"), [("int", 4), ("fp64", 8), ("sfu", 20), ("branch", 0), ("barrier", 0), ("control", 0)]
)
def test_latency_of_an_op_class_is_the_gpus_and_0_for_what_only_issues(op_class: str, cycles: int) -> None:
    found = _of(op(0, (1,), (), op_class))
    assert (found.cycles.tolist(), found.memory.tolist()) == ([cycles], [False])


def test_latency_of_an_unknown_op_class_is_refused_by_name() -> None:
    words = r'latency\.fp23: "add\.s32" \(k\.cu:1\) is of op class "fp23".*did you mean "fp32"'
    with pytest.raises(SpecError, match=words) as error:
        _of(op(0, (1,), (), "fp23"))
    assert "latency: {fp23: N cycles}" in error.value.remedy


def test_latency_of_a_load_is_the_mean_over_its_slowest_requests() -> None:
    found = _of(load(0, (1,)), slowest_l1={0: 50}, slowest_l2={0: 30}, slowest_dram={0: 20}, executions={0: 100})
    assert found.cycles[0] == pytest.approx(0.5 * 25 + 0.3 * 120 + 0.2 * 420, rel=1e-12)
    assert found.levels[0].tolist() == pytest.approx([12.5, 36.0, 84.0])
    assert found.memory[0]


def test_latency_of_a_load_that_is_guarded_off_half_the_time_is_half() -> None:
    found = _of(load(0, (1,)), times=200, slowest_l2={0: 100}, executions={0: 100})
    assert found.cycles[0] == 60.0


def test_latency_of_a_shared_load_grows_by_a_cycle_per_further_pass() -> None:
    found = _of(load(0, (1,), space="shared"), shared_executions={0: 100}, shared_passes={0: 350})
    assert found.cycles[0] == pytest.approx(24 + 3.5 - 1)
    assert not found.memory[0]


def test_latency_of_a_shared_atomic_grows_with_the_lanes_at_its_address() -> None:
    atomic = op(0, (1,), (2,), "memory", opcode="ATOMS.ADD", space="shared", access="atomic", access_bytes=4)
    counts: dict[str, Any] = {"shared_executions": {0: 100}, "shared_passes": {0: 100}, "shared_repeats": {0: 700}}
    assert _of(atomic, **counts).cycles[0] == 24
    on = replace(gpu(), sm=replace(gpu().sm, atomic_lane_cycles=2))
    table = latency_table((atomic,), misses(1, **counts), on, np.array([100]))
    assert table.cycles[0] == pytest.approx(24 + 2 * 7)


def test_latency_of_a_generic_load_mixes_both_memories_by_executions() -> None:
    counts: dict[str, Any] = {"slowest_dram": {0: 75}, "shared_executions": {0: 25}, "shared_passes": {0: 25}}
    found = _of(load(0, (1,), space="generic"), **counts)
    assert found.cycles[0] == pytest.approx(0.75 * 420 + 0.25 * 24)
    assert found.memory[0]


def test_latency_of_a_store_is_nothing_to_wait_for() -> None:
    store = op(0, (), (1, 2), "memory", opcode="st.global.f32", space="global", access="store", access_bytes=4)
    assert _of(store, executions={0: 100}, l1_writes={0: 100}).cycles[0] == 0


def test_latency_of_an_atomic_is_the_l2s_with_its_share_of_dram() -> None:
    atomic = op(0, (1,), (2,), "memory", opcode="atom.add.u32", space="global", access="atomic", access_bytes=4)
    found = _of(atomic, executions={0: 100}, l2_reads={0: 400}, l2_read_misses={0: 60}, l2_read_merges={0: 40})
    assert found.cycles[0] == pytest.approx(0.75 * 120 + 0.25 * 420)


def test_latency_of_a_parameter_load_is_that_of_a_move() -> None:
    assert _of(load(0, (1,), space="param")).cycles[0] == 4
