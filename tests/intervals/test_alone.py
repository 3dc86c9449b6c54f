"""Does a warp alone take what its latencies and its own units say, worked out by hand?"""

from __future__ import annotations

import signal
from dataclasses import replace

import numpy as np
import pytest
from small_programs import gpu, load, op, trace

from warpsight.base.signals import Interruption
from warpsight.intervals.algorithm import steps
from warpsight.intervals.demands import cycles_alone
from warpsight.traces.schema import StaticInstruction

pytestmark = pytest.mark.unit


def alone(code: tuple[StaticInstruction, ...], latency: list[float], port: list[float] | None = None, **initiation: int) -> float:
    """Cycles of a warp that goes through `code` once."""
    launched = trace(code, [0, len(code)], [[(0, 1)]], [0], warps_per_block=1)
    machine = replace(gpu(), initiation_cycles=initiation)
    walked, requests = steps(code, launched.block_start), np.array(port or [0.0] * len(code))
    return float(cycles_alone(launched, walked, np.array(latency), requests, machine)[0][0])


def test_last_store_is_answered_a_latency_after_it_has_left() -> None:
    """The store begins at 1, its third request leaves at 3, and the answer is there at 1 + 2 + 120 = 123. Of a chain behind it the
    last instruction issues at 3, 50 and 201, and the warp ends a cycle later.
    """
    store = op(1, (), (1,), "memory", opcode="st.global.f32", space="global", access="store", access_bytes=4)
    code = (op(0, (1,)), store, op(2, (2,)), op(3, (), (2,)))
    launched = trace(code, [0, 4], [[(0, 1)]], [0])
    port, answered = np.array([0.0, 3.0, 0.0, 0.0]), np.array([0.0, 120.0, 0.0, 0.0])
    for latency, expected in ((1.0, (4, 119)), (48.0, (51, 72)), (199.0, (202, 0))):
        latencies = np.array([1.0, 0.0, latency, 0.0])
        ends, unanswered = cycles_alone(launched, steps(code, launched.block_start), latencies, port, gpu(), answered)
        assert (ends[0], unanswered[0]) == expected


def test_consumer_issues_a_latency_after_its_producer() -> None:
    """At 0, 4 and 8; the last is done a cycle later."""
    assert alone((op(0, (1,)), op(1, (1,), (1,)), op(2, (1,), (1,))), [4, 4, 4]) == 9


def test_walk_along_the_paths_of_a_launch_ends_when_a_signal_waits() -> None:
    """There can be a path for each warp, and minutes of them."""
    assert alone((op(0, (1,)),), [4]) == 1  # compiles, where a signal is noticed, too
    with Interruption() as held:
        held.pending = signal.SIGINT
        try:
            with pytest.raises(KeyboardInterrupt):
                alone((op(0, (1,)),), [4])
        finally:
            held.pending = 0


def test_instruction_of_one_cycle_or_none_never_holds_up_the_next() -> None:
    assert alone((op(0, (1,)), op(1, (2,), (1,)), op(2, (3,), (2,))), [0, 1, 1]) == 3


def test_unit_takes_its_next_instruction_after_its_initiation_interval() -> None:
    """Three independent ones at 0, 4 and 8, and between them one of another unit at 5."""
    code = (op(0, (1,), (), "sfu"), op(1, (2,), (), "sfu"), op(2, (3,)), op(3, (4,), (), "sfu"))
    assert alone(code, [20, 20, 4, 20], sfu=4) == 9


def test_accesses_wait_in_the_load_store_unit_while_the_warp_goes_on() -> None:
    """Two loads of ten lines at 0 and 1: the second begins at 10, its last line's data is there at 10 + 9 + 25."""
    code = (load(0, (1,), (9,)), load(1, (2,), (9,)), op(2, (3,), (2,)))
    assert alone(code, [25, 25, 4], [10, 10, 0]) == 10 + 9 + 25 + 1
