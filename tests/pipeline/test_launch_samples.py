"""Which launches of a program are recorded, and is the time of the others right where the program changes its work?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from warpsight.pipeline.launch_samples import LEAST, LaunchSamples, Pace

pytestmark = pytest.mark.unit

MODEL = "warpsight"


def launched(kernel: str, count: int) -> Any:
    return SimpleNamespace(kernel=kernel, warp_instructions=count, trace=None, launch=SimpleNamespace(blocks=1))


def run(launches: list[tuple[str, int]], seconds: Callable[[int, str, int], float], *, every: bool = False) -> tuple[Any, ...]:
    """Launches of kernels with so many instructions: the numbers of those recorded, total time, true time, and the samples."""
    samples, recorded, total, true = LaunchSamples(every), list[int](), 0.0, 0.0
    for number, (kernel, count) in enumerate(launches):
        launch, actual = launched(kernel, count), seconds(number, kernel, count)
        true += actual
        expected = samples.foretold(kernel, launch, MODEL)
        if samples.wants(kernel):
            recorded.append(number)
            total += expected if samples.only_warms(kernel) and expected is not None else actual
            samples.recorded(kernel, launch, {MODEL: Pace.of(launch, actual, 0.0)})
        else:
            assert expected is not None
            total += expected
            samples.skipped(kernel, launch)
    return recorded, total, true, samples


LOOP = [("a", 100), ("b", 300)] * 5000
STARTS = [0, 33]  # of windows: the second kernel begins another one, which is as long as what follows it; then 32, 64 ... others
while STARTS[-1] < 5000:
    STARTS.append(STARTS[-1] + LEAST + 2 ** (len(STARTS) - 1) * LEAST)


def test_windows_are_twice_as_far_apart_after_each_that_was_right() -> None:
    recorded, total, true, samples = run(LOOP, lambda number, kernel, count: count * 1e-6)
    assert recorded == [0, *(start + k for start in [1, *STARTS[1:]] for k in range(LEAST) if start + k < len(LOOP))]
    assert total == pytest.approx(true) and samples.checked > 0 and samples.wrong == pytest.approx(0, abs=1e-9)


def test_launches_whose_time_cannot_be_foretold_are_all_recorded() -> None:
    wild = [("a", 100)] * 400
    recorded, total, true, _ = run(wild, lambda number, kernel, count: 1e-6 * (1 + number % 7))
    assert len(recorded) == 400 and total == pytest.approx(true)
    recorded, *_ = run([("a", 100)] * 400, lambda number, kernel, count: 1e-6, every=True)
    assert len(recorded) == 400


def test_a_new_kernel_and_other_numbers_of_instructions_begin_a_window() -> None:
    launches = [("a", 100)] * 1000 + [("b", 50)] * 500 + [("a", 100)] * 500 + [("a", 300)] * 500
    recorded, total, true, _ = run(launches, lambda number, kernel, count: 1e-6 * count ** (1.0 if count < 200 else 1.2))
    assert {1000, 1001} < set(recorded), "a new kernel"
    assert 2000 not in recorded and 2001 in recorded, "the launch after the first with other work"
    assert len(recorded) < 300 and total == pytest.approx(true, rel=0.01)


def test_work_that_shrinks_is_sampled_where_it_leaves_what_was_seen() -> None:
    """As in an elimination: row by row fewer instructions, with a time that does not follow their number."""
    launches = [("a", 10_000 - 9 * step) for step in range(1000)]
    recorded, total, true, _ = run(launches, lambda number, kernel, count: 1e-6 * (500 + count))
    assert len(recorded) < 400 and total == pytest.approx(true, rel=1e-6)


STEPS = [(kernel, count) for step in range(256) for kernel, count in (("norm", 500), ("scale", 800), ("update", 90 * (256 - step)))]


@pytest.mark.parametrize("floor", [0, 6000, 60_000])
def test_time_that_one_warp_bounds_does_not_shrink_with_the_instructions(floor: int) -> None:
    """As in the orthogonalisation of a matrix: fewer and fewer warps, each with as much work as before."""
    def seconds(number: int, kernel: str, count: int) -> float:
        return 1e-9 * (max(floor, count) if kernel == "update" else 900)

    recorded, total, true, samples = run(STEPS, seconds)
    assert len(recorded) < 550 and total == pytest.approx(true, rel=2e-3)
    assert samples.wrong <= 0.02 * samples.checked


def test_every_eighth_launch_that_takes_longer_counts_with_its_share() -> None:
    """As where a row begins within a sector. The latest sample alone would stand for all, or for none."""
    launches = [("a", 100)] * 20 + [("a", 1000)] * 2000
    _, total, true, _ = run(launches, lambda number, kernel, count: 1e-6 * (1.15 if number % 8 == 0 and count == 1000 else 1.0))
    assert total == pytest.approx(true, rel=5e-3)


def test_launches_between_windows_get_fewer_where_samples_were_wrong_and_the_check_says_so() -> None:
    """The time drifts while the instructions stay: 2 % in 25 launches, from window to window over 8 of them, not over 16."""
    launches = [("a", 100)] * 2000
    recorded, total, true, samples = run(launches, lambda number, kernel, count: 1e-6 * 1.0008**number)
    gaps = [after - before - 1 for before, after in pairwise(recorded) if after > before + 1]
    assert gaps[:4] == [LEAST, LEAST // 2, LEAST, LEAST // 2]
    assert abs(total / true - 1) < samples.wrong / samples.checked


def test_first_launch_of_each_kind_in_a_window_brings_only_the_l2_into_its_state() -> None:
    """The first two launches after skipped ones find an L2 that others left, and would take ten times as long."""
    stale = {start + k for start in STARTS[1:] for k in range(2)}
    recorded, total, _, samples = run(LOOP, lambda number, kernel, count: count * (1e-5 if number in stale else 1e-6))
    assert stale & set(recorded) and len(recorded) < 200
    assert total == pytest.approx(5000 * 400e-6) and samples.wrong == pytest.approx(0, abs=1e-9)


def test_counts_that_begin_to_drift_within_a_long_gap_are_recorded_again_at_ten_per_cent() -> None:
    """4,000 launches alike, so that a gap is longer than what follows; then each has 0.5 % more instructions, and takes time with
    the power 1.5 of them. 1.005 to the 20th is 1.105: the sample stands for 20 launches of the drift, and windows follow.
    """
    steady = [("a", 100_000)] * 4000
    drifting = [("a", round(100_000 * 1.005**k)) for k in range(1, 401)]
    recorded, total, true, _ = run(steady + drifting, lambda number, kernel, count: 1e-9 * count**1.5)
    late = [number for number in recorded if number > len(steady)]
    assert len(recorded) - len(late) < 200 and late[0] <= len(steady) + 22
    assert len(late) > 200, "no sample from before tells the time of those that follow"
    assert total == pytest.approx(true, rel=0.01)
