"""When does the simulator issue what waits for asynchronous copies, what shares a pipe, and what a slower load-store unit holds up?
Worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from micro import MISS, gpu, issues, run, whole, word
from trace_by_hand import Warp, build_trace

from warpsight.gpu.spec import GpuSpec
from warpsight.traces.schema import NEXT_GROUP, KernelTrace

pytestmark = pytest.mark.unit

# what a line of a kernel by hand stands for: its opcode, and the groups that it lets be on their way
COPY, CLOSE, ALL = ("LDGSTS.E", -1), ("LDGDEPBAR", -1), ("cp.async.wait_all", 0)
ARRIVE, POLL = ("cp.async.mbarrier.arrive.noinc", -1), ("mbarrier.try_wait", NEXT_GROUP)


def wait(groups: int) -> tuple[str, int]:
    return "DEPBAR.LE", groups


def copies(*code: tuple[str, int], times: int = 1, lines: list[int] | None = None) -> KernelTrace:
    """One warp that runs the code so many times; each copy reads a line of its own, or those of `lines`."""
    text = "\n".join("load.global.4 <- q0" if each == COPY else "control <- q0" for each in code)
    count = times * sum(each == COPY for each in code)
    made = build_trace([text], [Warp(((0, 1, times),), [word(line) for line in lines or range(count)])])
    named = [
        replace(instruction, opcode=opcode, wait_groups=groups)
        for instruction, (opcode, groups) in zip(made.instructions, code, strict=True)
    ]
    return replace(made, instructions=tuple(named))


def issued(trace: KernelTrace) -> list[int]:
    return [cycle for cycle, _, _ in issues(trace, gpu())]


@pytest.mark.parametrize(("groups", "cycle"), [(0, 3 + MISS), (1, 1 + MISS), (2, 5)])
def test_wait_ends_when_all_but_the_latest_groups_have_arrived(groups: int, cycle: int) -> None:
    """Copies issue in cycles 1 and 3, each a group; both miss all caches. The wait is the fifth instruction."""
    assert issued(copies(COPY, CLOSE, COPY, CLOSE, wait(groups))) == [1, 2, 3, 4, cycle]


def test_copy_after_the_last_group_is_not_waited_for_unless_all_are() -> None:
    assert issued(copies(COPY, CLOSE, COPY, wait(0))) == [1, 2, 3, 1 + MISS]
    assert issued(copies(COPY, CLOSE, COPY, ALL)) == [1, 2, 3, 3 + MISS]


def test_group_waits_for_its_slowest_copy() -> None:
    """The second copy of the group, of a line that has come to the L1 before, is there long before the first."""
    warm = copies(COPY, CLOSE, wait(0), COPY, COPY, CLOSE, wait(0), lines=[0, 1, 0])
    first = 1 + MISS
    assert issued(warm)[2:] == [first, first + 1, first + 2, first + 3, first + 1 + MISS]


@pytest.mark.parametrize("allocation", ["on-miss", "on-fill"])
@pytest.mark.parametrize(("opcode", "hits"), [("LDGSTS.E", 1), ("LDGSTS.E.BYPASS.128", 0)])
def test_does_a_copy_that_bypasses_the_l1_leave_no_line_there(opcode: str, hits: int, allocation: str) -> None:
    """A copy, and after its arrival another of the same line."""
    trace = copies(COPY, CLOSE, wait(0), COPY, CLOSE, wait(0), lines=[0, 0])
    named = tuple(replace(i, opcode=opcode if i.opcode == COPY[0] else i.opcode) for i in trace.instructions)
    found = run(replace(trace, instructions=named), gpu(l1={"allocation": allocation})).totals()
    assert (found["l1_reads"], found["l1_hits"], found["l2_reads"]) == (2, hits, 2 - hits)


def test_same_copy_is_under_way_several_times() -> None:
    """Four rounds; with two groups under way the wait of a round is for the copy two rounds before."""
    every = issued(copies(COPY, CLOSE, wait(2), times=4))
    assert every[:6] == [1, 2, 3, 4, 5, 6] and every[8] == 1 + MISS and every[11] == 4 + MISS


def test_waits_on_mbarriers_are_for_the_groups_in_their_order() -> None:
    """Copies issue in cycles 1 and 3. The third wait finds no group that has not been waited for."""
    assert issued(copies(COPY, ARRIVE, COPY, ARRIVE, POLL, POLL, POLL)) == [1, 2, 3, 4, 1 + MISS, 3 + MISS, 4 + MISS]


def test_two_rounds_share_a_latency_where_a_loop_copies_one_round_ahead() -> None:
    """The wait of a round is for the oldest copy: the second waits for nothing more, as that copy issued in the first round."""
    every = issued(copies(COPY, ARRIVE, COPY, ARRIVE, POLL, times=2))
    assert every[4] == 1 + MISS and every[9] == every[4] + 5


def test_launch_ends_with_its_last_copy() -> None:
    alone, waiting = copies(COPY, CLOSE, wait(1)), copies(COPY, CLOSE, wait(0))
    assert len(issued(alone)) == 3 and issued(waiting)[2] == 1 + MISS


# -- Pipes of which one is a part of another.

def pipes(fp32: int, imad: int) -> GpuSpec:
    spec = gpu()
    return replace(
        spec, latency_cycles=spec.latency_cycles | {"imad": 4, "uniform": 4}, initiation_cycles={"fp32": fp32, "imad": imad}
    )


def of_warps(*classes: str) -> KernelTrace:
    """Each warp has one instruction, of one of these op classes."""
    blocks = [f"{each} r0 <- q0" for each in classes]
    return build_trace(blocks, [Warp(((k, 32, 1),), ()) for k in range(len(classes))], len(classes))


@pytest.mark.parametrize(
    ("classes", "fp32", "imad", "cycles"),
    [
        (("imad", "imad", "imad"), 1, 2, [1, 3, 5]),  # half of the pipe multiplies integers
        (("fp32", "fp32", "fp32"), 1, 2, [1, 2, 3]),
        (("imad", "fp32", "imad", "fp32"), 1, 2, [1, 2, 3, 4]),  # the other half, and the dispatch port, are free
        (("imad", "fp32", "imad", "fp32"), 2, 2, [1, 3, 5, 7]),  # one pipe for both
        (("imad", "uniform", "fp32", "uniform"), 2, 2, [1, 2, 3, 4]),  # uniform instructions have their own
    ],
)
def test_multiply_adds_of_integers_occupy_half_of_the_pipe_of_single_precision(
    classes: tuple[str, ...], fp32: int, imad: int, cycles: list[int]
) -> None:
    assert [cycle for cycle, _, _ in issues(of_warps(*classes), pipes(fp32, imad))] == cycles


# -- A load-store unit with lanes for half a warp, or with a narrow way to the registers; only machine code knows of it.

def as_machine_code(trace: KernelTrace) -> KernelTrace:
    return replace(trace, header=replace(trace.header, level="sass"))


def hits(lanes: int, **sm: int) -> list[int]:
    """Cycles between the uses of four loads that hit the line that a fifth has brought, each of its first words."""
    code = "load.global.4 r0 <- q0\nint u0 <- r0\n" + "\n".join(f"load.global.4 r{k} <- q{k}" for k in range(1, 5))
    code += "\n" + "\n".join(f"int u{k} <- r{k}" for k in range(1, 5))
    trace = build_trace([code], [Warp(((0, 32, 1),), [whole(0)] + [whole(0)[:lanes]] * 4)])
    cycles = [cycle for cycle, _, pc in issues(as_machine_code(trace), gpu(sm=sm)) if pc >= 6]
    return [later - earlier for earlier, later in pairwise(cycles)]


@pytest.mark.parametrize(
    ("sm", "between"),
    [({}, 1), ({"access_interval_cycles": 2}, 2), ({"access_width_bytes": 64}, 2), ({"access_width_bytes": 32}, 4)],
)
def test_hits_of_a_whole_line_follow_each_other_as_fast_as_the_unit_moves_them(sm: dict[str, int], between: int) -> None:
    assert hits(32, **sm) == [between] * 3


def test_hit_of_one_sector_takes_no_longer_than_its_bytes() -> None:
    """Eight words are a sector of 32 B."""
    assert hits(8, access_width_bytes=32) == [1] * 3


def shared(degree: int, times: int, level: str, **sm: int) -> int:
    """Cycles of 32 warps with shared accesses of this conflict degree; so many hide the latency of 24 cycles."""
    trace = build_trace(["load.shared.4 r0 <- q0"], [Warp(((0, 32, times),), [degree] * times)] * 32, 32)
    return run(as_machine_code(trace) if level == "sass" else trace, gpu(sm=sm)).cycles


@pytest.mark.parametrize(
    ("degree", "sm", "between"),
    [
        (1, {}, 1), (1, {"access_interval_cycles": 2}, 2), (3, {"access_interval_cycles": 2}, 3),
        (3, {"access_interval_cycles": 2, "access_width_bytes": 64}, 6),
    ],
)
def test_passes_through_the_banks_take_as_long_as_the_way_to_the_registers(degree: int, sm: dict[str, int], between: int) -> None:
    """Per access of 32 warps, from the difference of two long runs; at the level of PTX a pass is a cycle."""
    assert shared(degree, 40, "sass", **sm) - shared(degree, 20, "sass", **sm) == 20 * 32 * between
    assert shared(degree, 40, "ptx", **sm) - shared(degree, 20, "ptx", **sm) == 20 * 32 * degree


@pytest.mark.parametrize(("opcode", "later"), [("LDGSTS.E", 0), ("LDG.E", 31)])
def test_does_an_access_of_many_lines_hold_up_shared_memory(opcode: str, later: int) -> None:
    """32 requests and a read of shared memory behind them, and its consumer. Those of a copy need the tags alone."""
    code = ["load.global.4 <- q0\ncontrol <- q0\nload.shared.4 r1 <- q0\nint r2 <- r1\ncontrol <- q0"]
    made = build_trace(code, [Warp(((0, 32, 1),), [[128 * line for line in range(32)], 1])])
    names = ((opcode, -1), CLOSE, ("LDS", -1), ("IADD3", -1), wait(0))
    named = tuple(replace(i, opcode=name, wait_groups=groups) for i, (name, groups) in zip(made.instructions, names, strict=True))
    alone = build_trace(["load.shared.4 r1 <- q0\nint r2 <- r1"], [Warp(((0, 32, 1),), [1])])
    waited = issued(replace(made, instructions=named))[3] - issued(alone)[1]
    assert waited == max(2, 1 + later)  # two instructions before it; the load is taken a cycle before the read of shared memory
