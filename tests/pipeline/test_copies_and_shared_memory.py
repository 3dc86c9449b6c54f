"""Do copies to shared memory and accesses to it share the data path and nothing else, in model and simulator? Cycles by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from trace_by_hand import Warp, build_trace

import warpsight
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

ONE_SM = ["sm_count=1", "dispatch.block_interval=0 ns", "dispatch.block=0 cycles", "noc.bandwidth=72000 GB/s"]
OPCODES = {"load.global.16": "cp.async.cg.shared.global", "control": "cp.async.commit_group"}
WARPS = 16


def rounds(times: int, shared: int, lines: int) -> KernelTrace:
    """Four blocks of four warps. In a round each copies 512 B from so many lines, and reads shared memory so often in 4 passes."""
    code = ["load.global.16 <- q0", "control <- q0", *(f"load.shared.4 r{k} <- q0" for k in range(shared))]
    warps = []
    for warp in range(WARPS):
        accesses: list[Any] = []
        for number in range(times):
            first = (warp * times + number) * 32
            accesses += [[128 * (first + lane * lines // 32) + 16 * (lane % (32 // lines)) for lane in range(32)], *[4] * shared]
        warps.append(Warp(((0, 32, times),), accesses))
    made = build_trace(["\n".join([*code, "control <- q0"])], warps, 4)
    named = [replace(each, opcode=OPCODES.get(each.opcode, each.opcode)) for each in made.instructions]
    named[-1] = replace(named[-1], opcode="cp.async.wait_group", wait_groups=8)
    count = len(named) * times * WARPS
    header = replace(made.header, warp_instructions=count, thread_instructions=32 * count)
    return replace(made, header=header, instructions=tuple(named))


@pytest.mark.parametrize("run", [warpsight.predict, warpsight.simulate])
@pytest.mark.parametrize(
    ("shared", "lines", "cycles"),
    [
        (2, 8, 12),  # data path: 8 passes of the reads and 4 of the copy's 512 B; tags: 8 requests
        (2, 4, 12),
        (0, 8, 8),  # the tags alone
        (1, 16, 16),
    ],
)
def test_copies_have_the_tags_first_and_the_data_path_when_their_data_come(
    shared: int, lines: int, cycles: int, run: Callable[..., Any]
) -> None:
    short, long = (
        run(rounds(times, shared, lines), gpu="a100", overrides=ONE_SM, caches_before="warm").cycles for times in (20, 40)
    )
    assert (long - short) / (20 * WARPS) == pytest.approx(cycles, rel=0.05)


QUEUE, PASSES, WORK = 20, 32, 300  # `sm.access_queue`; of a store whose lanes share a bank; dependent instructions


def stores_before_work(stores: int, *, fence: bool) -> KernelTrace:
    """A warp copies, writes shared memory so often, may wait for that at a fence, and computes."""
    copy = ["load.global.16 <- q0", "control <- q0"]
    blocks = [copy, ["store.shared.4 <- r0"], ["control <- q0"], ["int r0 <- r0"], ["control <- q0"]]
    accesses: list[Any] = [[16 * lane for lane in range(32)], *[PASSES] * stores]
    path = [(0, 32, 1), (1, 32, stores), *([(2, 32, 1)] if fence else []), (3, 32, WORK), (4, 32, 1)]
    made = build_trace(["\n".join(block) for block in blocks], [Warp(tuple(path), accesses)], 1)
    named = [replace(each, opcode=OPCODES.get(each.opcode, each.opcode)) for each in made.instructions]
    named[3] = replace(named[3], opcode="fence.proxy.async")
    named[-1] = replace(named[-1], opcode="cp.async.wait_group", wait_groups=0)
    count = 2 + stores + fence + WORK + 1
    return replace(
        made, header=replace(made.header, warp_instructions=count, thread_instructions=32 * count), instructions=tuple(named)
    )


@pytest.mark.parametrize("run", [warpsight.predict, warpsight.simulate])
def test_a_warp_waits_for_room_in_the_queue_and_at_a_fence_for_all_that_it_has_written(run: Callable[..., Any]) -> None:
    more, stores, fenced = (
        run(stores_before_work(count, fence=fence), gpu="a100", overrides=ONE_SM, caches_before="warm").cycles
        for count, fence in ((60, False), (40, False), (40, True))
    )
    assert more - stores == pytest.approx(20 * PASSES, rel=0.02)
    assert fenced - stores == pytest.approx(QUEUE * PASSES, rel=0.1)


ROWS, STORE_TIME = 8, 7  # rows of a store; `noc.store_time`, a third each for header, mask and sector of a row


def stores_behind_work(work: int, stores: int) -> KernelTrace:
    """A warp copies, computes, and then stores four bytes a lane to half sectors of eight rows, as the end of a product does."""
    blocks = [["load.global.16 <- q0", "control <- q0"], ["int r0 <- r0"], ["store.global.4 <- r0"], ["control <- q0"]]
    rows = [[4096 * (lane // 4) + 4 * (lane % 4) + 32 * number for lane in range(32)] for number in range(stores)]
    accesses: list[Any] = [[1 << 20 | 16 * lane for lane in range(32)], *rows]
    warp = Warp(((0, 32, 1), (1, 32, work), (2, 32, stores), (3, 32, 1)), accesses)
    made = build_trace(["\n".join(block) for block in blocks], [warp], 1)
    named = [replace(each, opcode=OPCODES.get(each.opcode, each.opcode)) for each in made.instructions]
    named[-1] = replace(named[-1], opcode="cp.async.wait_group", wait_groups=0)
    count = 3 + work + stores
    header = replace(made.header, warp_instructions=count, thread_instructions=32 * count)
    return replace(made, header=header, instructions=tuple(named))


@pytest.mark.parametrize("run", [warpsight.predict, warpsight.simulate])
def test_the_stores_at_the_end_of_a_block_are_not_hidden_by_its_work(run: Callable[..., Any]) -> None:
    """The only block of an SM: while it computes the port of the SM is idle, and while the port sends nothing computes."""
    few, many = (
        run(stores_behind_work(2000, stores), gpu="a100", overrides=ONE_SM, caches_before="warm").cycles for stores in (30, 90)
    )
    assert (many - few) / 60 == pytest.approx(ROWS * STORE_TIME, rel=0.05)
