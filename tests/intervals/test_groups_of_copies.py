"""Does a wait for groups of asynchronous copies end when the copies of these groups have arrived, worked out by hand?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_programs import gpu, load, op, trace

from warpsight.intervals.algorithm import PathIntervals, dependences, path_intervals, path_stats, steps
from warpsight.intervals.demands import cycles_alone
from warpsight.traces.schema import NEXT_GROUP, KernelTrace, StaticInstruction

pytestmark = pytest.mark.unit

LATENCY = 100.0


def copy(pc: int, stall: int = 0) -> StaticInstruction:
    return replace(load(pc, ()), opcode="LDGSTS.E.BYPASS.128", stall=stall)


def close(pc: int, stall: int = 0) -> StaticInstruction:
    return op(pc, op_class="control", opcode="LDGDEPBAR", stall=stall)


def wait(pc: int, groups: int, stall: int = 0, opcode: str = "DEPBAR.LE") -> StaticInstruction:
    return op(pc, op_class="control", opcode=opcode, wait_groups=groups, stall=stall)


def once(*code: StaticInstruction, times: int = 1) -> KernelTrace:
    return trace(code, [0, len(code)], [[(0, times)]], [0])


def latencies(launched: KernelTrace) -> np.ndarray:
    return np.array([LATENCY if instruction.is_async_copy else 0.0 for instruction in launched.instructions])


def intervals(launched: KernelTrace) -> PathIntervals:
    columns = np.zeros((len(launched.instructions), 1))
    return path_intervals(launched, 0, dependences(launched.instructions), latencies(launched), columns)


def alone(launched: KernelTrace) -> tuple[float, float]:
    """Cycles of the warp by the equation, and by the latencies of a GPU description."""
    walked, port = steps(launched.instructions, launched.block_start), np.zeros(len(launched.instructions))
    first = float(path_stats(launched, walked, latencies(launched)).cycles[0])
    return first, float(cycles_alone(launched, walked, latencies(launched), port, gpu())[0][0])


@pytest.mark.parametrize("stall", [0, 1])  # as PTX, and as machine code with its control words
@pytest.mark.parametrize(("groups", "issue", "producer"), [(0, 103, 2), (1, 101, 0), (2, 4, -1)])
def test_all_but_so_many_of_the_latest_groups_have_arrived(stall: int, groups: int, issue: int, producer: int) -> None:
    """Copies at 0 and 2, each a group. The wait is the fifth instruction; a consumer issues a cycle after its source is done."""
    launched = once(copy(0, stall), close(1, stall), copy(2, stall), close(3, stall), wait(4, groups, stall), op(5, stall=stall))
    found = intervals(launched)
    stalls = [(issue - 4, producer)] if producer >= 0 else []
    assert list(zip(found.stall_cycles.tolist(), found.pc.tolist(), strict=True)) == [*stalls, (0, -1)]
    assert alone(launched) == (issue + 2, max(issue - 1, 4) + 2)


def test_copies_of_no_closed_group_are_not_waited_for() -> None:
    """The second copy comes after the only group was closed."""
    assert alone(once(copy(0), close(1), copy(2), wait(3, 0)))[0] == 102


def test_a_group_is_done_with_the_copies_before_it() -> None:
    """The second group is empty, but copies finish in order: it is done when the first is."""
    assert alone(once(copy(0), close(1), close(2), wait(3, 0)))[0] == 102


def test_wait_for_all_copies_closes_their_group() -> None:
    assert alone(once(copy(0), wait(1, 0, opcode="cp.async.wait_all")))[0] == 102


def test_two_stages_of_a_loop_take_half_the_time_of_one() -> None:
    """One stage: a copy every 102 cycles. Two: the wait is for the copy of the round before, so two rounds in 102 cycles."""
    assert alone(once(copy(0), close(1), wait(2, 0), times=10))[0] == 10 * 102
    assert alone(once(copy(0), close(1), wait(2, 1), times=10))[0] == 5 * 102
    assert alone(once(copy(0), close(1), times=10))[0] == 10 * 2


# -- Waits on mbarriers: each is for the oldest group that none has waited for.

def arrive(pc: int) -> StaticInstruction:
    return op(pc, op_class="shared", opcode="cp.async.mbarrier.arrive.noinc")


def poll(pc: int) -> StaticInstruction:
    return wait(pc, NEXT_GROUP, opcode="mbarrier.try_wait")


def test_each_wait_on_an_mbarrier_is_for_the_oldest_group_not_waited_for() -> None:
    """Copies at 0, 2 and 4. The first wait, the seventh instruction, is for that at 0, the second for that at 2, and so on."""
    found = intervals(once(copy(0), arrive(1), copy(2), arrive(3), copy(4), arrive(5), poll(6), poll(7), poll(8)))
    assert list(zip(found.stall_cycles.tolist(), found.pc.tolist(), strict=True)) == [(95, 0), (1, 2), (1, 4), (0, -1)]


def test_wait_on_an_mbarrier_without_a_group_is_for_nothing() -> None:
    """The last one, too: the only group has been waited for."""
    assert alone(once(poll(0), poll(1), copy(2), arrive(3), poll(4), poll(5)))[0] == 2 + 101 + 2


def test_stages_on_mbarriers_share_one_latency() -> None:
    """As with groups that are counted, where a loop of two stages waits for all but the latest one."""
    ahead = (copy(0), arrive(1))
    loop = (copy(2), arrive(3), poll(4))
    launched = trace((*ahead, *loop), [0, 2, 5], [[(0, 1), (1, 10)]], [0])
    counted = trace((copy(0), close(1), copy(2), close(3), wait(4, 1)), [0, 2, 5], [[(0, 1), (1, 10)]], [0])
    assert alone(launched) == alone(counted)
    assert alone(once(copy(0), arrive(1), poll(2), times=10))[0] == 10 * 102
