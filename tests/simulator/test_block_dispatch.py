"""Does a launch cost what the keys `dispatch.*` say: block starts, the pause of a place, the begin and end of a grid?"""

from __future__ import annotations

import dataclasses

import pytest
from micro import CHASE, chase, gpu, loop, run

from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.simulation import simulate_trace
from warpsight.simulator.simulate import COMPONENTS
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit


def on(sms: int = 1, **costs: float) -> GpuSpec:
    machine = gpu(sms)
    return dataclasses.replace(machine, dispatch=dataclasses.replace(machine.dispatch, **costs))


def test_blocks_leave_for_their_sms_at_the_pace_of_the_gpu() -> None:
    """Sixteen SMs, a block each, one every 2.5 cycles: the last leaves after 37, and issues a cycle later."""
    trace = loop("int r0 <- q0", 1, warps=16)
    assert run(trace, on(16)).cycles == 2
    assert run(trace, on(16, block_interval_ns=2.5)).cycles == 37 + 2
    faster = run(trace, on(16, block_interval_ns=0.25))  # four a cycle
    assert faster.cycles == 3 + 2


def test_no_two_sms_are_passed_over_while_blocks_wait() -> None:
    """Three SMs with room for two blocks get six blocks in turn, every tenth cycle one, and each SM its two 30 cycles apart."""
    trace = loop("int r0 <- r0", 100, warps=6)
    found = run(trace, on(3, block_interval_ns=10.0), blocks=2)
    alone = run(loop("int r0 <- r0", 100), on()).cycles
    assert found.cycles == 50 + alone


def test_place_is_not_used_again_before_the_sm_is_ready() -> None:
    """Five blocks of two warps after each other on one place: four pauses of 100, and the second warp starts 5 cycles after the
    first, not one."""
    trace = loop("int r0 <- q0", 1, warps=10, warps_per_block=2)
    without, found = run(trace, on()), run(trace, on(block_cycles=100, warp_cycles=5))
    assert found.cycles == without.cycles + 4 * 100 + 5 * 4
    stack = dict(zip(COMPONENTS, found.stack.sum(axis=0), strict=True))
    assert stack["launch"] >= 4 * 100 + 5 * 4
    assert stack["idle"] == 0
    assert found.warp_instructions == without.warp_instructions == 10


def test_other_place_works_meanwhile() -> None:
    """Two places, and a pause as long as a block takes: the pauses of one hide behind the blocks of the other."""
    trace = loop("int r0 <- r0", 50, warps=20)
    one = run(trace, on(block_cycles=200)).cycles
    assert run(trace, on(block_cycles=200), blocks=2).cycles == pytest.approx(one / 2, rel=0.06)


def sample(trace: KernelTrace, instructions: int, times: int) -> KernelTrace:
    """The trace of so many warp instructions as a sample of a launch with `times` as many blocks."""
    header, whole = trace.header, instructions * times
    launch = dataclasses.replace(
        header, grid=(header.blocks * times, 1, 1), warp_instructions=whole, thread_instructions=32 * whole,
        sampled_blocks=header.blocks, sampled_instructions=instructions,
    )  # fmt: skip
    return dataclasses.replace(trace, header=launch)


def test_parameters_are_read_once_and_only_by_a_kernel_that_uses_memory() -> None:
    without, loads = sample(loop("int r0 <- r0", 100, warps=8), 800, 1), sample(chase([0, 1, 2]), 3 * len(CHASE), 1)
    slow = on(2, parameter_reads=3)
    assert simulate_trace(without, slow).prediction.cycles == simulate_trace(without, on(2)).prediction.cycles
    more = simulate_trace(loads, slow).prediction.cycles - simulate_trace(loads, on(2)).prediction.cycles
    assert more == pytest.approx(3 * slow.l2.latency_cycles)


@pytest.mark.parametrize("times", [1, 8])
def test_grid_begins_and_ends_once_whatever_share_of_its_blocks_was_traced(times: int) -> None:
    trace = sample(loop("int r0 <- r0", 100, warps=8), 800, times)
    free, paid = (simulate_trace(trace, machine).prediction for machine in (on(2), on(2, grid_cycles=2000)))
    assert paid.cycles == pytest.approx(free.cycles + 2000)
    assert sum(paid.cpi_stack.values()) == pytest.approx(paid.cpi, rel=1e-9)
    assert paid.cpi_stack["launch"] / paid.cpi == pytest.approx(2000 / paid.cycles)
    assert paid.cpi == pytest.approx(2 * paid.cycles / paid.warp_instructions)
