"""Does control flow of compiled CUDA kernels do what Python says it does, whichever lanes go which way?"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from emulator_launch import cuda, launch

from warpsight.base.errors import LaunchFault

pytestmark = pytest.mark.unit
SOURCE = "control.cu"
RNG = np.random.default_rng(3)


def ints(low: int, high: int, count: int) -> np.ndarray:
    return RNG.integers(low, high, count, dtype=np.int32)


def test_nested_conditions_and_loops_equal_python() -> None:
    x = ints(0, 1000, 300)

    def wanted(v: int) -> int:
        if v & 1:
            if v & 2:
                return v * 3
            return (v - 7) ^ 0x55 if v & 4 else v - 7
        if v % 3 == 0:
            return -v
        return sum(k * v for k in range(v & 7) if k != 5)

    out = np.full(300, 99, np.int32)
    launch(cuda(SOURCE), "nested", 4, 96, [x, out, 290])
    assert out[:290].tolist() == [wanted(int(v)) for v in x[:290]]
    assert (out[290:] == 99).all()


def test_loop_with_trip_count_by_lane_equals_python() -> None:
    x, out = ints(1, 10000, 500), np.zeros(500, np.int32)

    def steps(v: int) -> int:
        count = 0
        while v != 1 and count < 100:
            v = 3 * v + 1 if v & 1 else v >> 1
            count += 1
        return count

    launch(cuda(SOURCE), "collatz", 4, 128, [x, out, 500])
    assert out.tolist() == [steps(int(v)) for v in x]


def test_break_continue_and_goto_out_of_two_loops_equal_python() -> None:
    x, out = ints(0, 40, 12), np.zeros(160, np.int32)

    def found(i: int) -> int:
        for a in range(12):
            for b in range(a, 12):
                s = int(x[a] + x[b])
                if s % 2 == 0 and i % 3 == 0:
                    continue
                if s == i:
                    return a * 100 + b
                if s > 4 * i + 50:
                    break
        return -1

    launch(cuda(SOURCE), "search", 5, 32, [x, out, 12])
    assert out.tolist() == [found(i) for i in range(160)]


@pytest.mark.parametrize("spread", [1, 12])
def test_switch_of_ten_cases_equals_python(spread: int) -> None:
    x = (np.arange(256) // 32 + ints(0, spread, 256)).astype(np.int32)  # one case in a warp, then many
    out = np.full(256, 77, np.int32)

    def wanted(i: int, v: int) -> int:
        r = v
        if v == 5:
            for k in range(i % 5):
                r = r * 3 + k
            return r
        table = {0: 11, 1: i * 7 + 5, 2: 7, 3: i // 3, 4: -i, 6: 6 ^ i, 7: 77, 8: i % 7, 9: i << 3}
        return table.get(v, -1)

    launch(cuda(SOURCE), "dense_switch", 2, 128, [x, out])
    assert out.tolist() == [wanted(i, int(v)) for i, v in enumerate(x)]


def test_short_circuit_conditions_never_read_out_of_bounds() -> None:
    n = 45
    x, out = ints(0, 6, n), np.zeros(96, np.int32)
    launch(cuda(SOURCE), "short_circuit", 3, 32, [x, out, n])
    wanted = [(i < n and x[i] > 3) + 2 * (i >= n or x[i] == 1) + 4 * (5 < i < n and x[n - 1 - i] == 2) for i in range(96)]
    assert out.tolist() == [int(w) for w in wanted]


@pytest.mark.parametrize("stay", [1, 5, 8])
def test_barrier_after_early_return_waits_for_those_that_stay(stay: int) -> None:
    out = np.zeros(3 * 256, np.int32)
    launch(cuda(SOURCE), "early_return", 3, 256, [out, stay])
    for block, values in enumerate(out.reshape(3, 256)):
        staying = [t for t in range(256) if (t * 5 + block) % 8 < stay]
        total = sum(10 * t for t in staying)
        assert values.tolist() == [total + t if t in staying else -1 for t in range(256)]


def _return_in_loop(lengths: np.ndarray) -> list[int]:
    s, out, staying, sums = [1000] * 128, [0] * 128, [], {}
    for t in range(128):
        at = next((k for k in range(int(lengths[t])) if k * 13 + t == 60), None)
        if at is not None:
            out[t], s[t] = -at, at
        else:
            staying.append(t)
            sums[t] = sum(range(int(lengths[t])))
    for t in staying:
        s[(t + 1) % 128] += sums[t]
    for _ in range(3):
        seen = {t: s[(t + 7) % 128] for t in staying}
        for t in staying:
            s[t] += seen[t] & 3
    for t in staying:
        out[t] = s[(t + 1) % 128] + s[(t + 127) % 128]
    return out


def test_barrier_after_return_from_a_divergent_loop_waits_for_all_lanes() -> None:
    # A lane that leaves writes s[t] before anyone adds to it: give those lanes no neighbour that adds before they leave.
    lengths, out = ints(0, 40, 128), np.zeros(128, np.int32)
    leaving = [t for t in range(128) if any(k * 13 + t == 60 for k in range(int(lengths[t])))]
    assert len(leaving) >= 2
    lengths[[t - 1 for t in leaving]] = 0
    launch(cuda(SOURCE), "return_in_loop", 1, 128, [lengths, out])
    assert out.tolist() == _return_in_loop(lengths)


@pytest.mark.parametrize("n", [32, 50, 71])
def test_barrier_in_a_branch_lets_other_lanes_run_to_the_end(n: int) -> None:
    out = np.zeros(96, np.int32)
    launch(cuda(SOURCE), "barrier_in_branch", 1, 96, [out, n])
    assert out.tolist() == [3 * t + (n - t if t < n else 0) for t in range(96)]


def test_lanes_of_a_warp_at_different_barriers_are_refused() -> None:
    with pytest.raises(LaunchFault, match="different barriers") as caught:
        launch(cuda(SOURCE), "different_barriers", 1, 32, [np.zeros(32, np.int32)])
    assert "control.cu" in caught.value.place


def test_votes_of_the_block_count_all_its_threads() -> None:
    x, out = ints(0, 9, 3 * 80), np.zeros(3 * 80, np.int32)
    x[80 + 13] = 9
    launch(cuda(SOURCE), "votes_of_block", 3, 80, [x, out])
    for values, got in zip(x.reshape(3, 80), out.reshape(3, 80), strict=True):
        more = 0
        for k in range(4):
            more = more * 37 + int((values == k).sum())
        wanted = int((values > 4).sum()) + 1000 * bool((values == 9).any()) + 2000 * bool((values < 9).all()) + 10000 * more
        assert (got == np.int64(wanted).astype(np.int32)).all()


def test_function_that_the_compiler_keeps_apart_is_called() -> None:
    out = np.arange(32, dtype=np.float32)
    launch(cuda(SOURCE), "calls", 1, 32, [out])
    assert out.tolist() == [2 * i + 1 for i in range(32)]


@pytest.mark.parametrize(
    ("grid", "block"), [((1, 1, 1), (1, 1, 1)), ((5, 1, 1), (33, 1, 1)), ((3, 2, 1), (7, 5, 1)), ((2, 3, 4), (5, 3, 7))]
)
def test_thread_and_block_numbers_of_odd_shapes_count_x_first(grid: tuple[int, ...], block: tuple[int, ...]) -> None:
    threads = int(np.prod(grid) * np.prod(block))
    out = np.full((threads, 6), -1, np.int32)
    launch(cuda(SOURCE), "shapes", grid, block, [out])
    wanted = [
        (t[2], t[1], t[0], b[2], b[1], b[0])
        for b in itertools.product(*map(range, grid[::-1]))
        for t in itertools.product(*map(range, block[::-1]))
    ]
    assert out.tolist() == [list(w) for w in wanted]


def test_trial_division_with_break_and_do_while_equals_python() -> None:
    out = np.zeros(128, np.int32)
    launch(cuda(SOURCE), "primes", 2, 64, [out])
    wanted = [10 * (i > 1 and all(i % k for k in range(2, int(i**0.5) + 1))) + len(str(i)) for i in range(128)]
    assert out.tolist() == wanted
