"""Do the memory spaces, atomics and warp exchanges of compiled CUDA kernels do what NumPy does? And whole algorithms?"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulator_launch import cuda, launch

pytestmark = pytest.mark.unit
SOURCE = "memory.cu"
RNG = np.random.default_rng(9)
I32, U32, F32 = np.int32, np.uint32, np.float32


def run(kernel: str, grid: Any, block: Any, *args: Any, **options: Any) -> None:
    launch(cuda(SOURCE), kernel, grid, block, args, **options)


def ints(low: int, high: int, count: int, dtype: Any = I32) -> np.ndarray:
    return RNG.integers(low, high, count).astype(dtype)


def test_module_data_is_initialised_reachable_and_writable() -> None:
    out, numbers = np.zeros(64, F32), np.zeros(64, I32)
    run("module_data", 1, 64, out, numbers)
    table, counters = [1.5, -2.0, 3.25, 0.0, 10.0, -0.5, 7.0, 8.0], [100, 200, 300, 400]
    i = range(64)
    assert out.tolist() == [table[k % 8] + (2.5, -1.25)[k & 1] for k in i]
    wanted = [counters[k % 4] * 1000 + b"warp"[k % 4] + (-3, 4)[k & 1] + b"xy"[k & 1] for k in i]
    wanted[6] = 77 + 101
    assert numbers.tolist() == wanted


def test_module_data_starts_anew_at_every_launch() -> None:
    first, second = np.zeros(64, I32), np.zeros(64, I32)
    for numbers in (first, second):
        run("module_data", 1, 64, np.zeros(64, F32), numbers)
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize("flag", [0, 1])
def test_struct_by_value_is_laid_out_as_in_c(flag: int) -> None:
    out = np.full(64, -1, F32)
    settings = struct.pack("@ifd3hP", 50, 0.25, 100.5, 7, -8, 9, 0)
    run("by_value", 1, 64, settings, out, np.int8(flag))
    wanted = [0.25 * i + 100.5 + (7, -8, 9)[i % 3] + 0.5 * flag for i in range(50)]
    assert out.tolist() == wanted + [-1] * 14


@pytest.mark.parametrize("n", [64, 100])
def test_static_and_dynamic_shared_memory_do_not_overlap(n: int) -> None:
    x, out = RNG.random(128).astype(F32), np.zeros(128, F32)
    run("two_shared", 2, 64, x, out, n, shared=4 * n)
    t = np.arange(64)
    wanted = [block[::-1] + F32((t * 7) % n) + (97 + t % 5).astype(F32) for block in x.reshape(2, 64)]
    np.testing.assert_array_equal(out.reshape(2, 64), np.array(wanted, F32))


def test_local_array_with_computed_index_is_each_threads_own() -> None:
    x, out = ints(0, 1000, 96), np.zeros(96, I32)
    run("local_array", 3, 32, x, out)
    for i, v in enumerate(map(int, x)):
        a = [k * k + i for k in range(24)]
        a[v % 24] = -1
        a[(3 if v & 1 else 0) + v % 7] += 1000
        s = 0
        for k in range(24):
            s = (s * 3 + a[(k * v) % 24]) & 0xFFFFFFFF
        assert int(out[i]) & 0xFFFFFFFF == s, i


def test_generic_pointer_reaches_shared_and_global_memory() -> None:
    scratch, out = np.zeros(256, I32), np.zeros(256, I32)
    run("generic_pointer", 4, 64, scratch, out)
    one = np.arange(64) * 3
    np.add.at(one, np.arange(64) // 2, np.arange(64))
    assert out.reshape(4, 64).tolist() == [one[::-1].tolist()] * 4
    assert scratch.reshape(4, 64).tolist() == [[0] * 64, one.tolist()] * 2


def test_generic_access_of_one_warp_to_three_spaces() -> None:
    scratch, sums, out, t = np.arange(64, dtype=I32), np.zeros(16, F32), np.zeros(256, I32), np.arange(64)
    run("mixed_pointer", 1, 64, scratch, sums, out)
    in_device, in_shared, in_local = (7 * (t % 3 == k) for k in range(3))
    shared, local = 100 * t + in_shared, 10000 * (t % 4) + t + in_local
    assert scratch.tolist() == (t + in_device).tolist()
    assert sums.tolist() == [2.0] * 16
    before = t // 2 % 2  # of the four lanes of an element two add in each space, one after the other
    wanted = [np.where(t % 3 == 0, t + 7, np.where(t % 3 == 1, shared, local)), shared, local, 10 * before + 2]
    assert out.reshape(64, 4).T.tolist() == [row.tolist() for row in wanted]


def test_narrow_loads_extend_by_their_sign() -> None:
    arrays = [ints(-128, 128, 64, np.int8), ints(0, 256, 64, np.uint8), ints(-(2**15), 2**15, 64, np.int16)]
    arrays += [ints(0, 2**16, 64, np.uint16), ints(0, 2, 64, np.bool_)]
    out = np.zeros((64, 6), I32)
    run("narrow", 2, 32, *arrays, out)
    c, u, s, v, b = (a.astype(I32) for a in arrays)
    np.testing.assert_array_equal(out, np.array([c, u, s, v, np.where(b, 5, -5), c * s]).T)


def test_narrow_stores_keep_the_low_bits() -> None:
    x = ints(-(2**31), 2**31, 96)
    c, s, b = np.zeros(96, np.int8), np.zeros(96, np.int16), np.zeros(96, np.bool_)
    run("narrow_stores", 3, 32, x, c, s, b)
    for got, wanted in ((c, x.astype(np.int8)), (s, x.astype(np.int16)), (b, x & 1)):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("block", [32, 48])
def test_vector_loads_and_stores_keep_their_elements_apart(block: int) -> None:
    n = 96
    a, b, e = RNG.random((n, 2)).astype(F32), RNG.random((n, 4)).astype(F32), RNG.random((n, 2))
    c, d = ints(-99, 99, 4 * n).reshape(n, 4), ints(0, 256, 4 * n, np.uint8).reshape(n, 4)
    out, sums = np.zeros((n, 4), F32), np.zeros((n, 2))
    run("vectors", n // block, block, a, b, c, d, e, out, sums)
    w = d.astype(I32)
    wanted = [a[:, 0] + b[:, 3], a[:, 1] - b[:, 2], (c[:, 0] + c[:, 3]).astype(F32), (w[:, 0] - w[:, 2] + c[:, 1]).astype(F32)]
    np.testing.assert_array_equal(out, np.array(wanted).T)
    np.testing.assert_array_equal(sums, e[:, ::-1])


def test_read_only_cache_and_volatile_accesses_are_plain_ones() -> None:
    a, v, out = RNG.random(65).astype(F32), RNG.random(64).astype(F32), np.zeros(64, F32)
    was = v.copy()
    run("read_only", 2, 32, a, v, out)
    np.testing.assert_array_equal(v, (was + F32(1)) * F32(2))
    np.testing.assert_array_equal(out, a[:64] + a[1:] + a[:64])


def replay(memory: np.ndarray, x: np.ndarray, low: int) -> list[list[int]]:
    """What each thread gets from the eight atomic operations, one thread after the other in order."""
    m, olds = [int(v) for v in memory], []
    for v in map(int, x):
        olds.append(list(m))
        m = [m[0] + v, min(m[1], v), max(m[2], v), m[3] & (v | 0xF0), m[4] | (v & 0xFF), m[5] ^ v, v, v + 1 if m[7] == v else m[7]]
        span = 1 << (memory.itemsize * 8)
        m = [(w - low) % span + low for w in m]
    return [*olds, m]


@pytest.mark.parametrize(("kernel", "dtype"), [("atomics_int", I32), ("atomics_u64", np.uint64), ("atomics_shared", I32)])
def test_integer_atomics_return_what_a_serial_order_gives(kernel: str, dtype: Any) -> None:
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, 64, dtype=dtype)
    x[::5] = x[0]
    m = RNG.integers(info.min, info.max, 8, dtype=dtype)
    m[7] = x[10]
    *olds, final = replay(m, x, int(info.min))
    out = np.zeros((64, 8), dtype)
    run(kernel, 1, 64, m, x, out)
    # Each operation is done by a whole warp before the next one, so every column is in thread order by itself.
    assert out.tolist() == olds
    assert m.tolist() == final


def test_wrapping_and_unsigned_atomics_return_what_a_serial_order_gives() -> None:
    x, m, out = ints(0, 2**32, 64, U32), np.array([3, 20, 2**31, 5], U32), np.zeros((64, 4), U32)
    state, olds = [3, 20, 2**31, 5], []
    for v in map(int, x):
        olds.append(list(state))
        up, down = state[0], state[1]
        state = [0 if up >= 7 else up + 1, 9 if down == 0 or down > 9 else down - 1, min(state[2], v), max(state[3], v)]
    run("atomics_unsigned", 2, 32, m, x, out)
    assert out.tolist() == olds
    assert m.tolist() == state


def test_float_atomics_round_after_each_lane() -> None:
    x = RNG.normal(size=64).astype(F32)
    f, d, h = np.zeros(4, F32), np.zeros(1), np.array([4], np.uint16)
    fo, do = np.zeros((64, 2), F32), np.zeros(64)
    run("atomics_float", 1, 64, f, d, x, fo, do, h)
    sums = np.concatenate(([F32(0)], np.add.accumulate(x)))  # NumPy accumulates one after the other, in single precision
    doubles = np.concatenate(([0.0], np.add.accumulate(x.astype(np.float64))))
    np.testing.assert_array_equal(fo[:, 0], sums[:-1])
    np.testing.assert_array_equal(fo[:, 1], np.concatenate(([F32(0)], x[:-1])))
    np.testing.assert_array_equal(do, doubles[:-1])
    assert (f[0], f[1], d[0], h[0]) == (sums[-1], x[-1], doubles[-1], 1234)
    assert f[2:].tolist() == [np.add.accumulate(x[k::2])[-1] for k in (0, 1)]


def test_compare_and_swap_loop_finds_the_maximum() -> None:
    x, m = ints(-(10**6), 10**6, 4 * 96), np.array([-(2**31)], I32)
    run("cas_loop", 4, 96, m, x)
    assert m[0] == x.max()


def _source_lanes(kind: str, offset: Callable[[int], int], width: int) -> list[int]:
    """The lane that each lane reads, by the CUDA programming guide; its own where that lies outside its part."""
    lanes = []
    for lane in range(32):
        base, inside = lane // width * width, lane % width
        if kind == "idx":
            lanes.append(base + offset(lane) % width)
            continue
        other = {"up": inside - offset(lane), "down": inside + offset(lane), "xor": inside ^ offset(lane)}[kind]
        lanes.append(base + other if 0 <= other < width else lane)
    return lanes


def test_shuffles_of_all_kinds_and_widths_follow_the_guide() -> None:
    x, out = ints(-(2**31), 2**31, 96), np.zeros((96, 12), I32)
    run("shuffles", 1, 96, x, out)
    kinds: list[tuple[str, Callable[[int], int], int]] = [
        ("idx", lambda n: n * 7 & 31, 32), ("idx", lambda n: n + 3, 8), ("idx", lambda n: 5, 16),
        ("up", lambda n: 3, 32), ("up", lambda n: 3, 8), ("up", lambda n: 1, 16),
        ("down", lambda n: 5, 32), ("down", lambda n: 2, 8), ("down", lambda n: 15, 16),
        ("xor", lambda n: 11, 32), ("xor", lambda n: 4, 8), ("xor", lambda n: 12, 16),
    ]  # fmt: skip
    for k, kind in enumerate(kinds):
        wanted = [warp[_source_lanes(*kind)] for warp in x.reshape(3, 32)]
        np.testing.assert_array_equal(out[:, k].reshape(3, 32), wanted, err_msg=str(kind[::2]))


def test_shuffles_of_doubles_and_floats_move_all_bits() -> None:
    x, f = RNG.random(64), RNG.random(64).astype(F32)
    out, g = np.zeros(64), np.zeros(64, F32)
    run("wide_shuffles", 1, 64, x, out, f, g)
    np.testing.assert_array_equal(out.reshape(2, 32), [np.append(w[1:], w[31]) for w in x.reshape(2, 32)])
    np.testing.assert_array_equal(g.reshape(2, 32), f.reshape(2, 32)[:, ::-1])


def _mask(lanes: np.ndarray) -> int:
    return int(sum(1 << k for k in np.flatnonzero(lanes)))


def test_votes_and_matches_cover_the_warp_or_the_branch() -> None:
    x = ints(0, 20, 96)
    x[64:] = 7 + 32
    x[3] = 99
    out = np.zeros((96, 8), U32)
    run("votes", 1, 96, x, out)
    for warp, rows in zip(x.reshape(3, 32), out.reshape(3, 32, 8), strict=True):
        same = len(set(warp >> 5)) == 1
        for lane, v in enumerate(warp):
            third = warp % 3 == 0
            inside = [_mask(third), _mask(third & (warp & 2 != 0))] if third[lane] else [0, 0]
            wanted = [_mask(warp & 1), (warp == 7).any(), (warp < 99).all(), _mask(warp == v), 0xFFFFFFFF * same, same, *inside]
            assert rows[lane].tolist() == [int(w) for w in wanted]


def test_block_wide_reduction_with_shuffles_gives_the_sum() -> None:
    x, out = ints(-1000, 1000, 10_001, F32), np.zeros(1)
    run("block_sum", 7, 192, x, out, len(x))
    assert out[0] == x.astype(np.int64).sum()


def test_transpose_through_padded_shared_memory_gives_the_transpose() -> None:
    x, out = RNG.random((45, 70)).astype(F32), np.zeros((70, 45), F32)
    run("transpose", (5, 3), (16, 16), x, out, 70, 45)
    np.testing.assert_array_equal(out, x.T)


def test_prefix_sum_in_shared_memory_gives_the_running_sum() -> None:
    x, out = ints(-50, 50, 5 * 256), np.zeros(5 * 256, I32)
    run("prefix_sum", 5, 256, x, out)
    np.testing.assert_array_equal(out.reshape(5, 256), x.reshape(5, 256).cumsum(1))


def test_bitonic_sort_sorts_each_block_of_100_thousand_numbers() -> None:
    x = ints(-(2**31), 2**31, 100 * 1024)
    wanted = np.sort(x.reshape(100, 1024), axis=1)
    run("bitonic_sort", 100, 512, x)
    np.testing.assert_array_equal(x.reshape(100, 1024), wanted)


def test_histogram_with_shared_atomics_counts_all_values() -> None:
    x, bins = np.minimum(RNG.integers(0, 256, 20_000), RNG.integers(0, 256, 20_000)).astype(np.uint8), np.zeros(256, I32)
    run("histogram", 6, 256, x, bins, len(x))
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))
