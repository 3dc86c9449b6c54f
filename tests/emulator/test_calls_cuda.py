"""Do CUDA kernels whose calls stay calls compute what the same functions compute in Python?"""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import cuda, launch

from warpsight.base.errors import LaunchFault

pytestmark = pytest.mark.unit
SOURCE = "calls.cu"
RNG = np.random.default_rng(11)
LANES = range(64)


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@pytest.mark.parametrize("low", [0, 9])
def test_fibonacci_with_depth_by_lane_equals_python(low: int) -> None:
    n, out = RNG.integers(low, 10, 64, dtype=np.int32), np.zeros(64, np.int32)
    launch(cuda(SOURCE), "fibonacci_numbers", 1, 64, [out, n])
    assert out.tolist() == [fibonacci(int(v)) for v in n]


def test_factorial_like_recursion_equals_python() -> None:
    def factorial(n: int) -> int:
        return 1 if n <= 1 else n * factorial(n - 1) + (n & 1)

    out = np.zeros(64, np.uint32)
    launch(cuda(SOURCE), "factorials", 1, 64, [out])
    assert out.tolist() == [factorial(i % 13) & 0xFFFFFFFF for i in LANES]


def test_call_whose_argument_is_a_call_of_itself_equals_python() -> None:
    def ackermann(m: int, n: int) -> int:
        if m == 0:
            return n + 1
        return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))

    out = np.zeros(64, np.int32)
    launch(cuda(SOURCE), "ackermann_numbers", 1, 64, [out])
    assert out.tolist() == [ackermann(i % 3, i % 7) for i in LANES]


def test_quicksort_of_a_row_per_thread_sorts_exactly_that_row() -> None:
    rows = RNG.normal(size=(96, 25)).astype(np.float32)
    length = RNG.integers(0, 26, 96, dtype=np.int32)
    wanted = [np.concatenate([np.sort(row[:n]), row[n:]]) for row, n in zip(rows, length, strict=True)]
    launch(cuda(SOURCE), "sort_rows", 2, 48, [rows, length, 25])
    assert (rows == wanted).all()


def test_mutual_recursion_that_writes_through_a_pointer_equals_python() -> None:
    def even(n: int, seen: list[int]) -> int:
        seen[0] += n
        return 1 if n == 0 else odd(n - 1, seen) + (n % 5 == 2)

    def odd(n: int, seen: list[int]) -> int:
        seen[0] -= 1
        return 0 if n == 0 else even(n - 1, seen) * 3

    out, seen = np.zeros(64, np.int64), np.zeros(64, np.int32)
    launch(cuda(SOURCE), "mutual", 1, 64, [out, seen])
    counts = [[0] for _ in LANES]
    assert out.tolist() == [even(i * 7 % 23, counts[i]) for i in LANES]
    assert seen.tolist() == [count[0] for count in counts]


def test_local_array_of_each_activation_is_its_own() -> None:
    def nested(n: int, step: int) -> int:
        own = [n * 10 + k for k in range(4)]
        own[n & 3] += step
        if n == 0:
            return own[0]
        inner = nested(n - 1, step + own[(n + 1) & 3])
        return inner + own[inner & 3]

    out = np.zeros(64, np.int32)
    launch(cuda(SOURCE), "local_arrays", 1, 64, [out])
    assert out.tolist() == [nested(i % 9, i) for i in LANES]


def climb(x: int) -> int:
    return 0 if x <= 0 else x + climb(x - 3)


def collatz(x: int) -> int:
    n = 0
    while x != 1:
        x = 3 * x + 1 if x & 1 else x >> 1
        n += 1
        if n == 40:
            return -1
    return n


UNARY = [lambda x: x + 1, lambda x: 2 * x, climb, collatz]


@pytest.mark.parametrize("functions", [1, 4])
def test_table_of_functions_in_global_and_constant_memory_equals_python(functions: int) -> None:
    which, out = RNG.integers(0, functions, 64, dtype=np.int32), np.zeros(64, np.int32)
    launch(cuda(SOURCE), "by_table", 1, 64, [out, which])
    assert out.tolist() == [UNARY[which[i]](i + 1) * 1000 + UNARY[1 - (i & 1)](i) for i in LANES]


def test_function_passed_as_argument_equals_python() -> None:
    def apply(f: int, x: int, times: int) -> int:
        for _ in range(times):
            x = UNARY[f](x)
        return x

    out = np.zeros(64, np.int32)
    launch(cuda(SOURCE), "as_argument", 1, 64, [out])
    assert out.tolist() == [apply(0 if i % 3 else 1, i, i % 5) + apply(2 if i & 4 else 1, 5, 2) for i in LANES]


def test_pointer_written_by_one_kernel_is_called_by_another() -> None:
    pointers, out = np.zeros(64, np.uint64), np.zeros(64, np.int32)
    launch(cuda(SOURCE), "give_pointers", 1, 64, [pointers])
    launch(cuda(SOURCE), "take_pointers", 1, 64, [pointers, out])
    assert len(set(pointers.tolist())) == 2
    assert out.tolist() == [UNARY[i & 1](i + 5) for i in LANES]


@pytest.mark.parametrize("number", [0, 5, 1 << 40])
def test_call_of_a_number_that_is_no_function_is_a_fault_that_names_it(number: int) -> None:
    with pytest.raises(LaunchFault, match=rf"not a function.*block \(0,0,0\) thread \(0,0,0\), value {number:#x}"):
        launch(cuda(SOURCE), "call_number", 1, 1, [np.zeros(1, np.int32), number])


def test_virtual_functions_through_a_base_pointer_equal_python() -> None:
    def wanted(i: int) -> int:
        scale = 1 + (i & 1)
        if i % 3 == 0:
            return i * i * scale * 10 + 4
        if i % 3 == 1:
            return (2 * (i + 1) ** 2 * scale + 4 * (i + 1) * 2 * scale) * 10 + 4
        return ((i + 2) if (i + 2) * scale < 4 else 3 * (i + 2) ** 2 * scale) * 10

    out = np.zeros(64, np.int32)
    launch(cuda(SOURCE), "shapes", 1, 64, [out])
    assert out.tolist() == [wanted(i) for i in LANES]


def test_aggregate_by_value_and_as_result_of_a_recursive_function_equals_python() -> None:
    def turn(tag: list[int], s: int, d: float, w: list[int], by: int) -> tuple[list[int], int, float, list[int]]:
        tag, w = tag[:], w[:]
        tag[by % 5] = tag[(by + 1) % 5] + 1
        w[by & 1] = w[0] - w[1]
        s, d = s + by, d * by
        return turn(tag, s, d, w, by - 1) if by > 2 else (tag, s, d, w)

    out = np.zeros((32, 4))
    launch(cuda(SOURCE), "aggregates", 1, 32, [out])
    for i in range(32):
        tag, s, d, w = turn([i + k for k in range(5)], -i, 0.5 * i, [1000 * i, i], i % 6)
        tags = 0
        for value in tag:
            tags = tags * 128 + value
        assert out[i].tolist() == [tags, s, d, w[0] * 7 + w[1]]


def test_vectors_and_flags_by_value_equal_python() -> None:
    def rotate(x: float, y: float, quarter: int, total: list[float], flip: bool) -> tuple[float, float]:
        if quarter <= 0:
            return (-x, y) if flip else (x, y)
        total[0] += x
        total[1] += 1
        return rotate(-y, x, quarter - 1, total, not flip)

    out = np.zeros((64, 4), np.float32)
    launch(cuda(SOURCE), "vectors", 1, 64, [out])
    for i in LANES:
        total = [0.0, 0.0]
        assert out[i].tolist() == [*rotate(i, 2 * i + 1, i % 7, total, bool(i & 8)), *total]


def test_barrier_in_each_activation_of_a_recursive_function_orders_the_block() -> None:
    out = np.zeros((3, 128), np.int32)
    launch(cuda(SOURCE), "sums", 3, 128, [out])
    for block in range(3):
        total = sum(i * i + block for i in range(128)) + 64 + 32 + 16 + 8 + 4 + 2
        assert out[block].tolist() == [total + 3 * i for i in range(128)]


def test_lanes_that_meet_at_a_barrier_in_a_function_return_to_where_each_called() -> None:
    def given(i: int) -> tuple[int, int]:
        x, deep = (i, i % 4) if i % 3 else (-i, i % 5)
        return x + deep, deep

    def back(i: int) -> int:
        r = given(i ^ 1)[0]
        for deep in range(1, given(i)[1] + 1):
            r = r * 2 + deep
        return r + (100000 if i % 3 else 7)

    out = np.zeros(64, np.int32)
    launch(cuda(SOURCE), "meet_in_function", 1, 64, [out])
    assert out.tolist() == [back(i) for i in LANES]


def test_lanes_that_exit_inside_a_recursive_function_never_return() -> None:
    def wanted(lane: int) -> int:
        total, n, calls = 0, 1, 0
        while True:
            total += n
            if n == lane % 4:
                return total
            calls += 1
            if n >= 8:
                return total + 100 * calls + 1000
            n += 2

    out = np.zeros(64, np.int32)
    launch(cuda(SOURCE), "leave_from_within", 1, 64, [out])
    assert out.tolist() == [wanted(i) for i in LANES]


def test_deep_recursion_faults_with_sizes_and_a_larger_stack_lets_it_end() -> None:
    def dive(n: int) -> int:
        value = 1
        for k in range(1, n + 1):
            value = (value * 5 + k) & 0xFFFFFFFF
        return value

    out = np.zeros(64, np.uint32)
    launch(cuda(SOURCE), "depths", 1, 64, [out, 60])
    assert out.tolist() == [dive(60 - i % 2) for i in LANES]
    with pytest.raises(LaunchFault, match=r"call stack overflow.*thread \(0,0,0\), [\d,]+ bytes.*8,192 available") as caught:
        launch(cuda(SOURCE), "depths", 1, 64, [out, 2000])
    assert "`stack_bytes`" in caught.value.remedy
    launch(cuda(SOURCE), "depths", 1, 64, [out, 2000], stack_bytes=1 << 18)
    assert out.tolist() == [dive(2000 - i % 2) for i in LANES]


def test_recursion_without_end_faults_however_large_the_stack() -> None:
    with pytest.raises(LaunchFault, match="call stack overflow"):
        launch(cuda(SOURCE), "depths", 1, 64, [np.zeros(64, np.uint32), -1], stack_bytes=1 << 21)
