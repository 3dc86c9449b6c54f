"""Does the CPI stack charge each idle cycle to what the warp that issues next waited for?"""

from __future__ import annotations

import pytest
from micro import FAST, MISS, gpu, loop, run, uses, word
from trace_by_hand import Warp, build_trace

from warpsight.gpu.spec import GpuSpec
from warpsight.simulator.simulate import COMPONENTS, Simulation
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit


def cycles(found: Simulation) -> dict[str, float]:
    """Scheduler cycles by component, those that are not 0."""
    return {name: float(value) for name, value in zip(COMPONENTS, found.stack.sum(axis=0), strict=True) if value}


def accounts(trace: KernelTrace, on: GpuSpec) -> dict[str, float]:
    return cycles(run(trace, on))


def test_is_a_cycle_with_an_issue_base_and_the_first_one_idle() -> None:
    """Ten independent ints issue in 1 to 10; in cycle 0 the block starts."""
    assert accounts(loop("\n".join(f"int r{k} <- q{k}" for k in range(10)), 1), gpu()) == {"base": 10, "idle": 1}


def test_is_waiting_for_an_int_com_data() -> None:
    """Ten dependent ints: 9 times 3 cycles."""
    assert accounts(loop("int r1 <- r1", 10), gpu()) == {"base": 10, "com_data": 27, "idle": 1}


def test_is_waiting_for_a_unit_com_struct() -> None:
    """Ten independent fp32, each of which occupies the unit for 3 cycles: 9 times 2 cycles."""
    spec = gpu()
    spec.initiation_cycles["fp32"] = 3
    found = accounts(loop("\n".join(f"fp32 r{k} <- q{k}" for k in range(10)), 1), spec)
    assert found == {"base": 10, "com_struct": 18, "idle": 1}


def test_is_waiting_for_a_fetch_com_struct() -> None:
    """With a buffer of two, six instructions issue in 2, 3, 5, 6, 8 and 9: two cycles without one between them."""
    found = accounts(loop("\n".join(f"int r{k} <- q{k}" for k in range(6)), 1), gpu(sm={"fetch_width": 2}))
    assert found["base"] == 6
    assert found["com_struct"] + found.get("idle", 0) == 2 + 2


def test_is_waiting_for_a_load_without_queues_mem_data() -> None:
    """The use of a load that misses everything issues 340 cycles after it: 339 cycles without an issue."""
    trace = build_trace(["load.global.4 r0 <- q0\nint r1 <- r0"], [Warp(((0, 1, 1),), [word(0)])])
    assert accounts(trace, gpu()) == {"base": 2, "mem_data": MISS - 1, "idle": 1}


def test_is_waiting_for_the_dram_bus_dram_in_the_load_s_own_proportion() -> None:
    """The second of two loads of one channel waits 7 of its 347 cycles for the bus. The 7 cycles between both uses are charged
    in that proportion; the cycles before the first use are its own, without a queue."""
    spec = gpu(noc=FAST, dram={"bandwidth_bytes_per_s": 64e9})
    assert uses([word(0), word(8)], spec) == [341, 349]
    code = "load.global.4 r0 <- q0\nload.global.4 r1 <- q1\nint u0 <- r0\nint u1 <- r1"
    found = accounts(build_trace([code], [Warp(((0, 1, 1),), [word(0), word(8)])]), spec)
    assert found["dram"] == pytest.approx(7 * 7 / 347)
    assert found["mem_data"] == pytest.approx(338 + 7 * 340 / 347)


def test_is_waiting_for_the_port_noc() -> None:
    """As before at the SM's port: the second packet waits 7 of its 347 cycles."""
    spec = gpu(noc={"bandwidth_bytes_per_s": 64e9}, dram=FAST)
    code = "load.global.4 r0 <- q0\nload.global.4 r1 <- q1\nint u0 <- r0\nint u1 <- r1"
    found = accounts(build_trace([code], [Warp(((0, 1, 1),), [word(0), word(2)])]), spec)
    assert found["noc"] == pytest.approx(7 * 7 / 347)
    assert found["mem_data"] == pytest.approx(338 + 7 * 340 / 347)


def test_is_waiting_for_an_mshr_mshr() -> None:
    """One MSHR: the second load's request is at the tags in 26 and is served in 340: 314 of its 654 cycles from 2 to 656."""
    spec = gpu(noc=FAST, dram=FAST, l1={"mshrs": 1})
    code = "load.global.4 r0 <- q0\nload.global.4 r1 <- q1\nint u0 <- r0\nint u1 <- r1"
    found = accounts(build_trace([code], [Warp(((0, 1, 1),), [word(0), word(8)])]), spec)
    gap = 656 - 341 - 1
    assert found["mshr"] == pytest.approx(gap * 314 / 654)
    assert found["mem_data"] == pytest.approx(338 + gap * 340 / 654)


def test_is_waiting_behind_other_requests_com_struct() -> None:
    """A load of 8 lines that hit: its last request is at the tags 7 cycles after the first. They are the load-store unit's."""
    lines = [128 * k for k in range(8)]
    code = ["load.global.4 r0 <- r0\nint r1 <- r0"]
    once, twice = (build_trace(code, [Warp(((0, 8, n),), [lines] * n)]) for n in (1, 2))
    more = {name: value - accounts(once, gpu()).get(name, 0) for name, value in accounts(twice, gpu()).items()}
    assert more["com_struct"] == pytest.approx(31 * 7 / 32)
    assert more["mem_data"] == pytest.approx(31 * 25 / 32)


def test_is_waiting_for_a_full_queue_what_blocks_the_l1() -> None:
    """A queue of one, one MSHR: the fourth load cannot issue while the L1 is blocked by the second, which is `mshr` as well."""
    code = "\n".join(f"load.global.4 r{k} <- q{k}" for k in range(30))
    trace = build_trace([code], [Warp(((0, 1, 1),), [word(8 * k) for k in range(30)])])
    found = accounts(trace, gpu(noc=FAST, dram=FAST, sm={"access_queue": 1}, l1={"mshrs": 1}))
    assert found["base"] == 30
    assert found["mshr"] > 0.9 * (sum(found.values()) - 30)


def barrier() -> KernelTrace:
    """Warp 0 goes to the barrier at once, warp 1 after five dependent ints."""
    code = ["int r1 <- r1", "barrier\nint r2 <- q2"]
    return build_trace(code, [Warp(((1, 32, 1),), ()), Warp(((0, 32, 5), (1, 32, 1)), ())], 2)


def test_is_waiting_at_a_barrier_sync() -> None:
    """A scheduler each. Warp 0's barrier issues in 1; warp 1's ints in 1, 5, 9, 13 and 17 and its barrier in 18; both continue
    in 19. Scheduler 0 waited for the barrier from 2 to 18, scheduler 1 for its ints, 4 times 3 cycles."""
    assert accounts(barrier(), gpu(sm={"schedulers": 2})) == {"base": 9, "sync": 17, "com_data": 12, "idle": 2}


def test_is_the_time_to_the_last_arrival_what_that_warp_waited_for() -> None:
    """On one scheduler it is warp 1 that issues next, always: its ints are all that the scheduler waits for, and no cycle is
    `sync`."""
    assert accounts(barrier(), gpu()) == {"base": 9, "com_data": 12, "idle": 1}


def test_do_two_schedulers_account_for_their_own_cycles() -> None:
    """Warp 0 computes for 40 cycles, warp 1 for 4: the second scheduler has no warp after that, and its cycles are nobody's."""
    code = ["int r1 <- r1"]
    trace = build_trace(code, [Warp(((0, 32, 10),), ()), Warp(((0, 32, 1),), ())], 2)
    found = run(trace, gpu(sm={"schedulers": 2}))
    assert cycles(found) == {"base": 11, "com_data": 27, "idle": 2}
    parts = found.components(2, 1)
    assert sum(parts.values()) == pytest.approx(found.cycles / found.warp_instructions)
    # of 2 x 38 cycles 11 are base and 27 com_data
    assert parts["idle"] == pytest.approx((2 * found.cycles - 38) / 2 / 11)
