"""Which warp issues which instruction in which cycle? Issue, fetch, barriers, fences and the distribution of blocks, to the
cycle."""

from __future__ import annotations

import numpy as np
import pytest
from micro import MISS, cycles_of, gpu, issues, loop, word
from trace_by_hand import Warp, build_trace

from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit


def straight(*lines: str, warps: int = 1, per_block: int = 1) -> KernelTrace:
    """Warps that run these instructions, without memory accesses, once."""
    return loop("\n".join(lines), 1, warps, per_block)


# -- Issue within a warp.

def test_does_a_block_issue_in_the_cycle_after_it_starts() -> None:
    """The block starts in cycle 0; two independent instructions issue in the two cycles that follow."""
    assert issues(straight("int r0 <- q0", "int r1 <- q1"), gpu()) == [(1, 0, 0), (2, 0, 1)]


def test_does_a_warp_issue_in_order_behind_an_instruction_that_waits() -> None:
    """The load misses everything: its use issues in 1 + 340. The last instruction waits for nothing, and issues one cycle later."""
    trace = build_trace(["load.global.4 r0 <- q0\nint r1 <- r0\nint r2 <- q1"], [Warp(((0, 1, 1),), [word(0)])])
    assert [cycle for cycle, _, _ in issues(trace, gpu())] == [1, 1 + MISS, 2 + MISS]


def test_does_a_load_alone_hold_up_nothing() -> None:
    """Only the use of a register waits: what does not touch it issues in the next cycles."""
    trace = build_trace(["load.global.4 r0 <- q0\nint r1 <- q1\nint r2 <- q2"], [Warp(((0, 1, 1),), [word(0)])])
    assert [cycle for cycle, _, _ in issues(trace, gpu())] == [1, 2, 3]


def test_is_a_register_that_waits_to_be_read_free_to_be_written_by_the_instruction_itself() -> None:
    """r1 <- r1 depends on itself alone: latency 4, so 1, 5, 9, 13."""
    assert [cycle for cycle, _, _ in issues(loop("int r1 <- r1", 4), gpu())] == [1, 5, 9, 13]


def test_is_a_result_not_overwritten_before_the_earlier_writer_is_done() -> None:
    """slow writes r0 in 1 + 90; the int that writes r0 as well cannot issue before, the one behind it follows in order."""
    spec = gpu()
    spec.latency_cycles["slow"] = 90
    assert [c for c, _, _ in issues(straight("slow r0 <- q0", "int r0 <- q1", "int r1 <- q2"), spec)] == [1, 91, 92]


def test_does_an_access_of_no_lane_cost_its_issue_alone() -> None:
    """A load whose lanes are all predicated off sends nothing: its register is there after the latency of an int, 4."""
    trace = build_trace(["load.global.4 r0 <- q0\nint r1 <- r0"], [Warp(((0, 1, 1),), [[]])])
    assert [cycle for cycle, _, _ in issues(trace, gpu())] == [1, 5]


# -- Several warps, schedulers and units.

def test_does_a_warp_issue_one_instruction_a_cycle_however_wide_the_scheduler_is() -> None:
    """Width 2: one warp issues once a cycle. Of two warps both issue in cycle 2, when they need different units."""
    spec = gpu(sm={"issue_width": 2})
    code = ("int r0 <- q0", "fp32 r1 <- q1")
    assert issues(straight(*code), spec) == [(1, 0, 0), (2, 0, 1)]
    assert sorted(issues(straight(*code, warps=2, per_block=2), spec)) == [(1, 0, 0), (2, 0, 1), (2, 1, 0), (3, 1, 1)]


def test_does_a_unit_take_one_warp_instruction_a_cycle_however_wide_the_scheduler_is() -> None:
    """Two warps, two ints each, width 2: four cycles."""
    found = issues(straight("int r0 <- q0", "int r1 <- q1", warps=2, per_block=2), gpu(sm={"issue_width": 2}))
    assert [cycle for cycle, _, _ in found] == [1, 2, 3, 4]


def test_do_warps_belong_to_the_schedulers_in_turn() -> None:
    """Four warps, two schedulers, gto: scheduler 0 runs warp 0 and then 2, scheduler 1 warp 1 and then 3, in the same cycles."""
    spec = gpu(sm={"schedulers": 2, "policy": "gto"})
    found = issues(straight("int r0 <- q0", "int r1 <- q1", warps=4, per_block=4), spec)
    by_warp = {warp: [cycle for cycle, w, _ in found if w == warp] for warp in range(4)}
    assert by_warp == {0: [1, 2], 1: [1, 2], 2: [3, 4], 3: [3, 4]}


def test_does_gto_return_to_the_oldest_warp_when_its_own_stalls() -> None:
    """Chains of 3 dependent ints (latency 4) of two warps: 0 issues, stalls to cycle 5, and warp 1 gets the slots between."""
    found = issues(loop("int r1 <- r1", 3, 2, 2), gpu(sm={"policy": "gto"}))
    assert found == [(1, 0, 0), (2, 1, 0), (5, 0, 0), (6, 1, 0), (9, 0, 0), (10, 1, 0)]


def test_does_gto_stay_with_a_younger_warp_while_that_can_issue() -> None:
    """Warp 0 waits 4 cycles for its first result; warp 1 has 6 independent instructions. It starts in cycle 2 and keeps the slot to
    cycle 7, although warp 0 is ready again in cycle 5."""
    code = ["int r1 <- r1\nint r1 <- r1", "\n".join(f"int r{k} <- q{k}" for k in range(2, 8))]
    trace = build_trace(code, [Warp(((0, 32, 1),), ()), Warp(((1, 32, 1),), ())], 2)
    found = issues(trace, gpu(sm={"policy": "gto"}))
    assert [(cycle, warp) for cycle, warp, _ in found] == [(1, 0), *((c, 1) for c in range(2, 8)), (8, 0)]


def test_does_lrr_change_to_the_warp_that_is_ready_again() -> None:
    """The same two warps under lrr: in cycle 5 warp 0 is ready and its turn comes."""
    code = ["int r1 <- r1\nint r1 <- r1", "\n".join(f"int r{k} <- q{k}" for k in range(2, 8))]
    trace = build_trace(code, [Warp(((0, 32, 1),), ()), Warp(((1, 32, 1),), ())], 2)
    assert [warp for _, warp, _ in issues(trace, gpu(sm={"policy": "lrr"}))] == [0, 1, 1, 1, 0, 1, 1, 1]


def test_is_a_unit_busy_for_its_initiation_for_all_warps_of_the_scheduler() -> None:
    """fp32 takes a warp instruction every 3 cycles: two warps issue in 1 and 4, and an int goes between them."""
    spec = gpu()
    spec.initiation_cycles["fp32"] = 3
    assert [cycle for cycle, _, _ in issues(straight("fp32 r0 <- q0", warps=2, per_block=2), spec)] == [1, 4]
    found = issues(straight("fp32 r0 <- q0", "int r1 <- q1", warps=2, per_block=2), spec)
    assert found == [(1, 0, 0), (2, 0, 1), (4, 1, 0), (5, 1, 1)]


def test_has_each_scheduler_units_of_its_own() -> None:
    """Two schedulers, one warp each: both issue their fp32 in cycles 1 and 4."""
    spec = gpu(sm={"schedulers": 2})
    spec.initiation_cycles["fp32"] = 3
    found = issues(straight("fp32 r0 <- q0", "fp32 r1 <- q1", warps=2, per_block=2), spec)
    assert [cycle for cycle, _, _ in found] == [1, 1, 4, 4]


@pytest.mark.parametrize("schedulers", [2, 3, 4])
def test_do_schedulers_that_wait_for_the_load_store_unit_take_turns(schedulers: int) -> None:
    """Four warps each, which make accesses of eight lines and nothing else, in a queue of two: at any time they have issued as many
    as others.
    """
    warps, accesses = 4 * schedulers, 30
    stream = Warp(((0, 32, accesses),), [[128 * line for line in range(8)]] * accesses)
    trace = build_trace(["load.global.4 r0 <- q0"], [stream] * warps, warps)
    found = [warp % schedulers for _, warp, _ in issues(trace, gpu(sm={"schedulers": schedulers, "access_queue": 2}))]
    assert len(found) == warps * accesses
    counts = np.cumsum(np.array(found)[:, None] == np.arange(schedulers), axis=0)
    assert np.ptp(counts[: 3 * len(found) // 4], axis=1).max() <= 4


@pytest.mark.parametrize("latency", [63, 64, 65, 127, 128, 500])
def test_does_a_warp_wake_up_to_the_cycle_beyond_the_timing_wheel(latency: int) -> None:
    """The wheel spans 64 cycles; a warp that waits longer goes round it again, and is ready neither early nor late."""
    spec = gpu()
    spec.latency_cycles["slow"] = latency
    assert [cycle for cycle, _, _ in issues(loop("slow r1 <- r1", 3), spec)] == [1, 1 + latency, 1 + 2 * latency]


# -- Fetch: with `sm.fetch_width` a warp has a buffer of so many instructions. One warp of the SM is fetched for in a cycle, and
# issues the first of them two cycles later.

def test_does_a_warp_without_fetch_limit_issue_every_cycle() -> None:
    code = [f"int r{k} <- q{k}" for k in range(6)]
    assert [cycle for cycle, _, _ in issues(straight(*code), gpu())] == [1, 2, 3, 4, 5, 6]


def test_does_a_buffer_of_two_give_two_instructions_every_three_cycles() -> None:
    """Fetched in 0, issued from 2: 2 and 3. The issue in 3 empties the buffer, the next two are there in 5; and so on."""
    code = [f"int r{k} <- q{k}" for k in range(6)]
    assert [cycle for cycle, _, _ in issues(straight(*code), gpu(sm={"fetch_width": 2}))] == [2, 3, 5, 6, 8, 9]


def test_is_one_warp_fetched_for_in_a_cycle() -> None:
    """Three warps are fetched for in cycles 0, 1 and 2: their first instructions issue in 2, 3 and 4."""
    found = issues(straight("int r0 <- q0", warps=3, per_block=3), gpu(sm={"fetch_width": 2}))
    assert found == [(2, 0, 0), (3, 1, 0), (4, 2, 0)]


def test_does_a_taken_branch_lose_the_rest_of_the_buffer() -> None:
    """A loop of three instructions with a buffer of 4: 2, 3 and 4 issue; the branch of 4 is fetched for in 5, and issues from 7."""
    code = "\n".join(f"int r{k} <- q{k}" for k in range(3))
    assert [cycle for cycle, _, _ in issues(loop(code, 3), gpu(sm={"fetch_width": 4}))] == [2, 3, 4, 7, 8, 9, 12, 13, 14]


# -- Barriers and fences.

BARRIER = ["int r1 <- r1", "barrier\nint r2 <- q2"]


def test_does_a_barrier_open_when_the_last_warp_arrives() -> None:
    """Warp 1 runs 5 dependent ints (1 or 2, then every 4 cycles) before the barrier. The cycle after its barrier both continue."""
    fast, slow = Warp(((1, 32, 1),), ()), Warp(((0, 32, 5), (1, 32, 1)), ())
    trace = build_trace(BARRIER, [fast, slow], 2)
    (last,) = cycles_of(1, trace, gpu(), warp=1)
    # its ints issue in 2, 6, 10, 14, 18; the barrier is independent of them
    assert last == 19
    assert sorted(cycles_of(2, trace, gpu(), warp=0) + cycles_of(2, trace, gpu(), warp=1)) == [20, 21]


def test_does_a_barrier_open_when_the_last_warp_that_is_missing_ends() -> None:
    """Warp 1 has no barrier: its last int issues in 18, with that it ends, and warp 0 continues in 19."""
    trace = build_trace(BARRIER, [Warp(((1, 32, 1),), ()), Warp(((0, 32, 5),), ())], 2)
    assert cycles_of(0, trace, gpu(), warp=1)[-1] == 18
    assert cycles_of(2, trace, gpu(), warp=0) == [19]


def test_does_a_barrier_not_wait_for_a_warp_s_stores_but_a_warp_s_end_does() -> None:
    """Warp 1's store needs 120 cycles for its acknowledgement. At a barrier that is no hindrance; if the warp ends instead, it
    stays until then (issue in 2, done in 2 + 119), and warp 0 continues in the next cycle."""
    code = ["barrier\nint r2 <- q2", "store.global.4 <- q0"]
    both = build_trace(code, [Warp(((0, 32, 1),), ()), Warp(((1, 1, 1), (0, 32, 1)), [word(0)])], 2)
    assert cycles_of(1, both, gpu(), warp=0) == [4]
    alone = build_trace(code, [Warp(((0, 32, 1),), ()), Warp(((1, 32, 1),), [[4 * k for k in range(32)]])], 2)
    assert cycles_of(1, alone, gpu(), warp=0) == [2 + 119 + 1]


def test_does_a_barrier_concern_its_own_block_alone() -> None:
    """Two blocks of two warps on the SM. Block 1 (warps 2 and 3) passes its barrier while warp 1 of block 0 is still on its way."""
    fast, slow = Warp(((1, 32, 1),), ()), Warp(((0, 32, 50), (1, 32, 1)), ())
    trace = build_trace(BARRIER, [fast, slow, fast, fast], 2)
    assert max(c for warp in (2, 3) for c in cycles_of(2, trace, gpu(), warp=warp, blocks=2)) < 12
    assert cycles_of(2, trace, gpu(), warp=0, blocks=2)[0] > 50 * 4 - 4


def test_does_a_fence_wait_for_the_warp_s_stores() -> None:
    """A whole line leaves the L1 in 25, is at the L2's tags in 119, is acknowledged in 120; the warp continues in the next
    cycle."""
    spec = gpu()
    spec.latency_cycles["membar"] = 1
    lanes = [4 * k for k in range(32)]
    trace = build_trace(["store.global.4 <- q0\nmembar\nint r1 <- q1"], [Warp(((0, 32, 1),), [lanes])])
    assert issues(trace, spec) == [(1, 0, 0), (2, 0, 1), (121, 0, 2)]


def test_does_a_fence_without_accesses_under_way_cost_its_issue_alone() -> None:
    spec = gpu()
    spec.latency_cycles["membar"] = 1
    assert [cycle for cycle, _, _ in issues(straight("membar", "int r1 <- q1"), spec)] == [1, 2]


# -- Blocks.

def test_does_an_sm_get_one_block_a_cycle() -> None:
    """Three blocks of one warp fit: they start in 0, 1 and 2, and issue in the cycles after."""
    found = issues(straight("int r0 <- q0", warps=3), gpu(), blocks=3)
    assert found == [(1, 0, 0), (2, 1, 0), (3, 2, 0)]


def test_do_blocks_go_to_the_sms_in_turn() -> None:
    """Five blocks, two places on each of two SMs: 0 and 1 in cycle 0, 2 and 3 in cycle 1, 4 to the SM whose block ends first."""
    trace, spec = straight("int r0 <- q0", warps=5), gpu(2)
    on = [[(cycle, warp) for cycle, warp, _ in issues(trace, spec, blocks=2, sm=sm)] for sm in range(2)]
    assert on == [[(1, 0), (2, 2), (3, 4)], [(1, 1), (2, 3)]]


def test_does_the_next_block_start_in_the_cycle_after_a_place_is_free() -> None:
    """One place: warp 0 issues its only instruction in 1 and ends; block 1 starts in 2 and issues in 3."""
    assert issues(straight("int r0 <- q0", warps=3), gpu(), blocks=1) == [(1, 0, 0), (3, 1, 0), (5, 2, 0)]


def test_does_a_warp_without_instructions_end_at_once() -> None:
    """Its path has an entry that never runs: the block's place is free in the cycle in which it started."""
    idle, busy = Warp(((0, 32, 0),), ()), Warp(((0, 32, 1),), ())
    assert issues(build_trace(["int r0 <- q0"], [idle, busy]), gpu(), blocks=1) == [(2, 1, 0)]
