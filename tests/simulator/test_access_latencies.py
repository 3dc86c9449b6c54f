"""Does an access that nothing is in the way of take exactly what the GPU description says?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from micro import DRAM_LATENCY, L1_LATENCY, L2_LATENCY, chase, gpu, loop, per_step, run
from trace_by_hand import Warp, build_trace

from warpsight.base.errors import SpecError

pytestmark = pytest.mark.unit


def test_pointer_chase_in_the_l1_takes_its_latency() -> None:
    assert per_step(run(chase([0] * 10), gpu()), run(chase([0] * 110), gpu()), 100) == L1_LATENCY


def test_pointer_chase_in_the_l2_takes_its_latency() -> None:
    # 8 lines of one L1 set of 4 ways, again and again: all miss in the L1, and after the first round hit in the L2
    lines = [32 * k for k in range(8)]
    one, many = run(chase(lines), gpu()), run(chase(lines * 11), gpu())
    assert many.totals()["l1_hits"] == 0
    assert many.totals()["l2_read_misses"] == 8
    assert per_step(one, many, 80) == L2_LATENCY


def test_pointer_chase_in_dram_takes_both_latencies() -> None:
    short, long = run(chase(list(range(10))), gpu()), run(chase(list(range(110))), gpu())
    assert long.totals()["l2_read_misses"] == 110
    assert per_step(short, long, 100) == L2_LATENCY + DRAM_LATENCY


@settings(max_examples=25)
@given(l1=st.integers(3, 60), beyond=st.integers(10, 300), dram=st.integers(0, 500), flit=st.sampled_from([32, 64, 128]))
def test_any_latencies_come_out_to_the_cycle(l1: int, beyond: int, dram: int, flit: int) -> None:
    levels = {"l1": l1, "l2": l1 + beyond, "dram": dram}
    spec = gpu(noc={"flit_bytes": flit}, **{level: {"latency_cycles": cycles} for level, cycles in levels.items()})
    hits = per_step(run(chase([0] * 5), spec), run(chase([0] * 15), spec), 10)
    misses = per_step(run(chase([*range(5)]), spec), run(chase([*range(15)]), spec), 10)
    assert (hits, misses) == (l1, l1 + beyond + max(dram, 1))


def test_l2_latency_too_short_for_its_way_is_refused_by_name() -> None:
    with pytest.raises(SpecError, match=r"l2\.latency: an L2 round trip of 26 cycles is shorter than its way"):
        run(chase([0]), gpu(l2={"latency_cycles": 26}))


@pytest.mark.parametrize(("op", "latency"), [("int", 4), ("fp32", 4), ("slow", 90)])
def test_dependent_chain_gives_the_op_latency(op: str, latency: int) -> None:
    spec = gpu()
    spec.latency_cycles["slow"] = 90
    code = f"{op} r1 <- r1"
    assert per_step(run(loop(code, 10), spec), run(loop(code, 110), spec), 100) == latency


def test_independent_instructions_issue_every_cycle() -> None:
    code = "\n".join(f"int r{k} <- q{k}" for k in range(8))
    assert per_step(run(loop(code, 10), gpu()), run(loop(code, 110), gpu()), 800) == 1


def test_unit_takes_the_next_instruction_after_its_initiation() -> None:
    spec = gpu()
    spec.initiation_cycles["fp32"] = 3
    code = "\n".join(f"fp32 r{k} <- q{k}" for k in range(8))
    assert per_step(run(loop(code, 10), spec), run(loop(code, 110), spec), 800) == 3


def test_register_is_not_written_again_before_its_load_is_back() -> None:
    code = ["load.global.4 r0 <- q0\nint r0 <- q1"]
    traces = [build_trace(code, [Warp(((0, 1, n),), [[0]] * n)]) for n in (10, 110)]
    assert per_step(run(traces[0], gpu()), run(traces[1], gpu()), 100) >= L1_LATENCY


@pytest.mark.parametrize("passes", [1, 2, 32])
def test_bank_conflict_costs_a_cycle_for_each_further_pass(passes: int) -> None:
    def chain(times: int) -> float:
        return run(build_trace(["load.shared.4 r0 <- r0"], [Warp(((0, 32, times),), [passes] * times)]), gpu()).cycles

    assert (chain(110) - chain(10)) / 100 == 24 + passes - 1


@pytest.mark.parametrize("passes", [1, 4, 32])
def test_shared_accesses_of_many_warps_take_their_passes_in_turn(passes: int) -> None:
    def independent(times: int) -> float:
        warp = Warp(((0, 32, times),), [passes] * times)
        return run(build_trace(["load.shared.4 r0 <- q0"], [warp] * 32, 32), gpu()).cycles

    assert (independent(30) - independent(10)) / (20 * 32) == pytest.approx(passes, rel=0.02)
