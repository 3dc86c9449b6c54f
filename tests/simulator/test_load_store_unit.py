"""Does the load-store unit take instructions in order, and send one request a cycle?"""

from __future__ import annotations

import dataclasses

import pytest
from micro import L1_LATENCY, MISS, cycles_of, gpu, issues, per_step, run, uses, whole, word
from trace_by_hand import Warp, build_trace

from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit


def loads(count: int) -> KernelTrace:
    """One warp with so many independent loads of one line."""
    code = "\n".join(f"load.global.4 r{k} <- q{k}" for k in range(count))
    return build_trace([code], [Warp(((0, 1, 1),), [word(0)] * count)])


@pytest.mark.parametrize(("depth", "expected"), [(1, [1, 5, 9, 13]), (2, [1, 2, 5, 6]), (4, [1, 2, 3, 4])])
def test_does_a_full_queue_hold_up_the_issue_of_memory_instructions(depth: int, expected: list[int]) -> None:
    """An instruction is in the queue for the 4 cycles of its address; it is taken in 1 + 4, which makes room in the same cycle."""
    assert [cycle for cycle, _, _ in issues(loads(4), gpu(sm={"access_queue": depth}))] == expected


def test_does_a_full_queue_let_other_warps_compute() -> None:
    """Queue of 1: warp 0's load issues in 1, warp 1's in 5. Warp 2, which computes, issues in the free cycles 2 to 4."""
    code = ["load.global.4 r0 <- q0", "int r1 <- q1\nint r2 <- q2\nint r3 <- q3"]
    warps = [Warp(((0, 1, 1),), [word(0)]), Warp(((0, 1, 1),), [word(0)]), Warp(((1, 32, 1),), ())]
    found = issues(build_trace(code, warps, 3), gpu(sm={"access_queue": 1}))
    assert [(cycle, warp) for cycle, warp, _ in found] == [(1, 0), (2, 2), (3, 2), (4, 2), (5, 1)]


@pytest.mark.parametrize("lines", [1, 2, 8, 32])
def test_does_each_further_line_of_a_load_cost_a_cycle(lines: int) -> None:
    """All hit: the last of n requests is at the tags n - 1 cycles after the first, and the load waits for all of them."""
    access = [128 * (k % lines) for k in range(32)]

    def chain(times: int) -> KernelTrace:
        return build_trace(["load.global.4 r0 <- r0"], [Warp(((0, 32, times),), [access] * times)])

    assert per_step(run(chain(5), gpu()), run(chain(25), gpu()), 20) == L1_LATENCY + lines - 1


def test_does_a_load_wait_for_the_slowest_of_its_lines() -> None:
    """Line 0 is in the L1 when the second load touches lines 0 and 1: the hit in 1 + 25, the miss one cycle behind the first."""
    trace = build_trace(
        ["load.global.4 r0 <- q0\nint r1 <- r0\nload.global.4 r2 <- r1\nint r3 <- r2"], [Warp(((0, 2, 1),), [word(0), [0, 128]])]
    )
    assert [cycle for cycle, _, _ in issues(trace, gpu())] == [1, 341, 345, 345 + MISS + 1]


def test_does_a_divergent_access_hold_up_the_next_one() -> None:
    """The first load sends 32 requests in 5 to 36; the second, issued in 2, is taken in 37: 31 cycles later than by itself."""
    spec = gpu(l1={"mshrs": 64}, noc={"bandwidth_bytes_per_s": 1e15}, dram={"bandwidth_bytes_per_s": 1e15})
    code = "load.global.4 r0 <- q0\nload.global.4 r1 <- q1\nint r2 <- r1"
    trace = build_trace([code], [Warp(((0, 32, 1),), [[128 * k for k in range(32)], word(100)])])
    assert cycles_of(2, trace, spec) == [2 + 31 + MISS]


@pytest.mark.parametrize("passes", [1, 2, 32])
def test_do_passes_through_the_banks_hold_up_a_global_load(passes: int) -> None:
    """The shared load is taken in 5 and occupies the unit to 5 + passes; without it the global load would be taken in 6."""
    code = "load.shared.4 r0 <- q0\nload.global.4 r1 <- q1\nint r2 <- r1"
    trace = build_trace([code], [Warp(((0, 1, 1),), [passes, word(0)])])
    assert cycles_of(2, trace, gpu()) == [2 + (passes - 1) + MISS]


@pytest.mark.parametrize(("opcode", "lanes", "each", "cycles"), [
    ("ATOMS.ADD", 32, 2, 62), ("ATOMS.ADD", 1, 2, 0), ("ATOMS.ADD", 32, 0, 0), ("ATOMS.POPC.INC.32", 32, 2, 0),
])  # fmt: skip
def test_do_lanes_of_a_shared_atomic_at_one_address_hold_up_the_unit(opcode: str, lanes: int, each: int, cycles: int) -> None:
    """The atomic has its result, and the global load behind it is taken, as many cycles later."""
    code = "atomic.shared.4 r0 <- q0\nload.global.4 r1 <- q1\nint r2 <- r0\nint r3 <- r1"
    trace = build_trace([code], [Warp(((0, 32, 1),), [(1, lanes), word(0)])])
    atomic, *others = trace.instructions
    trace = dataclasses.replace(trace, instructions=(dataclasses.replace(atomic, opcode=opcode), *others))
    spec = gpu(sm={"atomic_lane_cycles": each})
    assert (cycles_of(2, trace, spec), cycles_of(3, trace, spec)) == ([1 + 24 + cycles], [2 + cycles + MISS])


def test_is_shared_memory_not_held_up_by_misses() -> None:
    """One MSHR, and two loads that miss: the L1 is blocked. The shared load behind them has its data after its 24 cycles."""
    code = "load.global.4 r0 <- q0\nload.global.4 r1 <- q1\nload.shared.4 r2 <- q2\nint r3 <- r2"
    trace = build_trace([code], [Warp(((0, 1, 1),), [word(0), word(1), 1])])
    assert cycles_of(3, trace, gpu(l1={"mshrs": 1})) == [3 + 24]


def test_do_the_lanes_of_one_line_make_one_request() -> None:
    """32 words of a line are one request as one word is: the same cycle, one L1 read."""
    assert uses([whole(0)], gpu()) == uses([word(0)], gpu()) == [1 + MISS]
    found = run(build_trace(["load.global.4 r0 <- q0"], [Warp(((0, 32, 1),), [whole(0)])]), gpu()).totals()
    assert (found["executions"], found["divergent"], found["l1_reads"]) == (1, 0, 1)


def test_is_an_atomic_sent_sector_by_sector() -> None:
    """Four sectors of one line are four requests to the L2, one a cycle; the atomic has its result with the last: 3 cycles
    later."""
    def atomic(lanes: list[int]) -> list[int]:
        trace = build_trace(["atomic.global.4 r0 <- q0\nint r1 <- r0"], [Warp(((0, 32, 1),), [lanes])])
        return [cycle for cycle, _, _ in issues(trace, gpu())]

    one, four = atomic([0]), atomic([0, 32, 64, 96])
    assert (one, four) == ([1, 1 + MISS], [1, 1 + MISS + 3])


def test_do_loads_of_two_warps_keep_the_order_of_issue() -> None:
    """Warp 0's load misses 8 lines, warp 1's one line that a load of its own brought before: it is served behind them."""
    code = ["load.global.4 r0 <- q0\nint r1 <- r0", "int r2 <- q2\nload.global.4 r3 <- q3\nint r4 <- r3"]
    spec = gpu(noc={"bandwidth_bytes_per_s": 1e15}, dram={"bandwidth_bytes_per_s": 1e15})
    alone = build_trace(code, [Warp(((1, 1, 1),), [word(50)])], 1)
    behind = build_trace(code, [Warp(((0, 8, 1),), [[128 * k for k in range(8)]]), Warp(((1, 1, 1),), [word(50)])], 2)
    assert cycles_of(4, alone, spec) == [2 + MISS]
    # with lrr warp 1's load issues in 3, after 8 requests that are sent in 5 to 12: sent in 13, not in 7
    assert cycles_of(4, behind, spec, warp=1) == [cycles_of(3, behind, spec, warp=1)[0] + (13 - 4) - 3 + MISS]
