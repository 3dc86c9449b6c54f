"""How long do loads of several lines take at the tags of the L1, in model and simulator? Cycles by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from trace_by_hand import Warp, build_trace

import warpsight
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

ONE_SM = ["sm_count=1", "dispatch.block_interval=0 ns", "dispatch.block=0 cycles"]
WARPS, LOADS = 64, 4


def loads(times: int, stride: int) -> KernelTrace:
    """Sixteen blocks of four warps, each of which makes so often four loads of a word a lane, `stride` bytes from the next lane's.

    All is in the L1.
    """
    code = [f"load.global.4 r{k} <- q0" for k in range(LOADS)]
    accesses = [[stride * lane for lane in range(32)]] * (LOADS * times)
    made = build_trace(["\n".join(code)], [Warp(((0, 32, times),), accesses) for _ in range(WARPS)], 4)
    count = LOADS * times * WARPS
    return replace(made, header=replace(made.header, warp_instructions=count, thread_instructions=32 * count))


@pytest.mark.parametrize("run", [warpsight.predict, warpsight.simulate])
@pytest.mark.parametrize(
    ("stride", "lookups", "cycles"),
    [
        (4, 4, 1),  # one line
        (16, 1, 4),  # four lines
        (16, 4, 1),  # in four banks
        (64, 4, 4),  # sixteen lines, of which each bank has four
        (256, 4, 16),  # every other line, in two of the banks
        (512, 4, 32),  # all in one bank
    ],
)
def test_lines_in_different_banks_are_looked_up_in_the_same_cycle(
    stride: int, lookups: int, cycles: int, run: Callable[..., Any]
) -> None:
    overrides = [*ONE_SM, f"l1.tag_lookups={lookups}"]
    short, long = (run(loads(times, stride), gpu="a100", overrides=overrides).cycles for times in (10, 30))
    assert (long - short) / (20 * LOADS * WARPS) == pytest.approx(cycles, rel=0.07)
