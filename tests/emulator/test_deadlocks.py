"""Does a launch in which threads wait for ever end, with an error that says where they wait?"""

from __future__ import annotations

import _thread
import re
import threading
import time

import numpy as np
import pytest
from emulator_launch import KERNELS, cuda, launch, ptx

from warpsight.base.errors import LaunchFault, LimitError, UnsupportedError

pytestmark = pytest.mark.unit
I32 = np.int32


def deadlock(kernel: str, grid: int, block: int) -> LaunchFault:
    out = np.zeros(grid * block, I32)
    with pytest.raises(LaunchFault, match="every running thread") as caught:
        launch(cuda("waiting.cu"), kernel, grid, block, [out], max_instructions=10**7)
    assert not out.any()
    assert re.search(r"waiting\.cu:\d+$", caught.value.place)
    return caught.value


def source_line(text: str) -> int:
    """The line of `waiting.cu` that contains `text` after the kernel's name, given as `kernel: text`."""
    kernel, wanted = text.split(": ")
    lines = (KERNELS / "waiting.cu").read_text().split("\n")
    start = next(k for k, line in enumerate(lines) if f" {kernel}(" in line)
    return next(k for k in range(start, len(lines)) if wanted in lines[k]) + 1


def test_barrier_that_too_few_warps_reach_names_warps_lanes_and_lines() -> None:
    error = deadlock("one_warp_missing", 2, 100)
    message = error.what
    assert error.details is not None
    assert (error.details.kind, error.details.block, error.details.thread) == ("deadlock", (0, 0, 0), (0, 0, 0))
    assert "kernel one_warp_missing: deadlock: every running thread of block (0,0,0) waits: " in message
    for warp, barrier in ((0, 1), (1, 2)):
        line = source_line(f"one_warp_missing: bar.sync {barrier}")
        assert re.search(rf"warp {warp} lanes 0-31 at barrier {barrier} \(\S*waiting\.cu:{line}, PTX line \d+\)", message), message
    assert "warp 2" not in message


def test_long_list_of_waiting_warps_is_cut_after_eight() -> None:
    message = deadlock("each_at_its_own", 1, 352).what
    assert [int(w) for w in re.findall(r"warp (\d+)", message)] == list(range(8))
    assert message.endswith("and 3 more")


def test_lanes_of_a_warp_at_different_barriers_are_listed_apart() -> None:
    message = deadlock("lanes_apart", 1, 32).what
    assert f"lanes {','.join(map(str, range(1, 32, 2)))} at barrier 1" in message
    assert f"lanes {','.join(map(str, range(0, 32, 2)))} at barrier 2" in message


def test_lanes_that_wait_for_lanes_at_a_barrier_are_listed() -> None:
    message = deadlock("warp_waits_for_itself", 1, 32).what
    assert 'warp 0 lanes 0-3 for lanes of its warp at "bar.warp.sync"' in message
    assert "warp 0 lanes 4-31 at barrier 1" in message


def test_deadlock_of_a_block_that_was_suspended_names_that_block() -> None:
    source = ptx(
        """
        mov.u32 %r1, %ctaid.x;
        ld.param.u64 %q1, [out];
        setp.eq.u32 %p1, %r1, 1;
        @%p1 bra SET;
        WAIT: ld.volatile.global.u64 %q2, [%q1];
        setp.eq.u64 %p2, %q2, 0;
        @%p2 bra WAIT;
        bar.sync 3, 64;
        ret;
        SET: st.volatile.global.u64 [%q1], 1;
        ret;"""
    )
    with pytest.raises(LaunchFault, match=r"block \(0,0,0\) waits:.* warp 0 lanes 0-31 at barrier 3"):
        launch(source, "k", 2, 32, [np.zeros(64, np.uint64)], max_instructions=10**7)


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (3, 96)])
def test_lock_that_nobody_gives_back_ends_at_the_limit_of_instructions(grid: int, block: int) -> None:
    with pytest.raises(LimitError, match="10,000,000 warp instructions"):
        launch(cuda("waiting.cu"), "never_unlocked", grid, block, [np.zeros(1, I32)], max_instructions=10**7)


def test_keyboard_interrupt_stops_threads_that_spin() -> None:
    lock = np.zeros(1, I32)
    with pytest.raises(LimitError):
        launch(cuda("waiting.cu"), "never_unlocked", 2, 32, [lock], max_instructions=1000)  # compiled beforehand
    timer = threading.Timer(0.3, _thread.interrupt_main)
    started = time.process_time()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        launch(cuda("waiting.cu"), "never_unlocked", 2, 32, [lock], max_instructions=10**11)
    assert time.process_time() - started < 20  # 0.3 s and one poll; of processor time, as others use the machine, too


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("bar.sync 16;", "barrier number above 15"),
        ("bar.sync 1, 33;", "thread count 33"),
        ("bar.sync %n, 32;", "different barriers"),
    ],
)
def test_operand_that_no_barrier_has_is_a_fault(text: str, match: str) -> None:
    with pytest.raises(LaunchFault, match=match) as caught:
        launch(ptx(f"{text}\nret;"), "k", 1, 32, [np.zeros(32, np.uint64)])
    assert caught.value.place == "test.ptx:23"


def test_values_that_lanes_would_exchange_in_different_places_are_refused() -> None:
    body = """
        setp.lt.u32 %p1, %n, 5;
        @%p1 bra A;
        vote.sync.ballot.b32 %r1, %p1, -1;
        bra.uni B;
        A: vote.sync.ballot.b32 %r1, %p1, -1;
        B: st.global.u32 [%out], %r1;
        ret;"""
    with pytest.raises(UnsupportedError, match="in different places"):
        launch(ptx(body), "k", 1, 32, [np.zeros(32, np.uint64)])
