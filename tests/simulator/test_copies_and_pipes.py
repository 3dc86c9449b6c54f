"""When does the simulator issue what waits for asynchronous copies, and what shares a pipe? Worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from micro import MISS, gpu, issues, word
from trace_by_hand import Warp, build_trace

from warpsight.gpu.spec import GpuSpec
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

# what a line of a kernel by hand stands for: its opcode, and the groups that it lets be on their way
COPY, CLOSE, ALL = ("LDGSTS.E", -1), ("LDGDEPBAR", -1), ("cp.async.wait_all", 0)


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


def test_same_copy_is_under_way_several_times() -> None:
    """Four rounds; with two groups under way the wait of a round is for the copy two rounds before."""
    every = issued(copies(COPY, CLOSE, wait(2), times=4))
    assert every[:6] == [1, 2, 3, 4, 5, 6] and every[8] == 1 + MISS and every[11] == 4 + MISS


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
