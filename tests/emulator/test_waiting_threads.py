"""Do threads that wait for other threads go on, with the outcome that Python gives, whichever thread they wait for?"""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import cuda, launch, whole

from warpsight.emulator.run.launch import execute, prepare_kernel
from warpsight.kernels.launch_check import make_launch
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit
I32, U32 = np.int32, np.uint32
RNG = np.random.default_rng(11)
LIMIT = 10**8


def run(kernel: str, grid: int, block: int, *args: object) -> KernelTrace:
    return launch(cuda("waiting.cu"), kernel, grid, block, args, max_instructions=LIMIT)


@pytest.mark.parametrize("kernel", ["lock_in_branch", "lock_spinning", "lock_backoff"])
@pytest.mark.parametrize(("grid", "block"), [(1, 2), (1, 32), (1, 100), (5, 64)])
def test_lock_that_lanes_take_one_by_one_lets_each_in_once(kernel: str, grid: int, block: int) -> None:
    threads = grid * block
    lock, total, order = np.zeros(1, I32), np.zeros(2, I32), np.full(threads, -1, I32)
    run(kernel, grid, block, lock, total, order)
    assert total.tolist() == [threads, threads * (threads + 1) // 2]
    assert sorted(order.tolist()) == list(range(threads))
    assert lock[0] == 0


def test_two_locks_per_thread_keep_the_sum_of_all_accounts() -> None:
    accounts, threads = 23, 3 * 64
    locks, money = np.zeros(accounts, I32), np.full(accounts, 1000, I32)
    run("transfers", 3, 64, locks, money, accounts)
    wanted = np.full(accounts, 1000)
    for i in range(threads):
        source, target = i * 7 % accounts, (i * 3 + 1) % accounts
        if source != target:
            wanted[source] -= i
            wanted[target] += i
    assert money.tolist() == wanted.tolist()
    assert not locks.any()


def test_sorted_list_with_a_lock_per_node_takes_all_values() -> None:
    n = 90
    values = RNG.integers(0, 40, n, dtype=I32)
    following, value, locks = np.full(n + 1, -1, I32), np.full(n + 1, -1, I32), np.zeros(n + 1, I32)
    run("list_insert", 3, 32, following, value, locks, values, n)
    nodes, at = [], int(following[0])
    while at >= 0:
        nodes.append(at)
        at = int(following[at])
    assert nodes == sorted(range(1, n + 1), key=lambda node: (values[node - 1], node))


def test_lanes_of_a_warp_that_wait_for_the_lane_above_finish() -> None:
    out = np.zeros(32, I32)
    run("lanes_in_a_row", 1, 32, out)
    assert out.tolist() == [1000 + sum(range(lane, 31)) for lane in range(32)]


@pytest.mark.parametrize("rounds", [1, 20])
def test_lanes_that_make_and_lanes_that_take_finish(rounds: int) -> None:
    out = np.zeros(64, I32)
    run("producer_consumer_lanes", 1, 64, out, rounds)
    wanted = []
    for pair in range(32):
        total = 0
        for k in range(rounds):
            total = total * 3 + pair + k * k
        wanted += [(total + (1 << 31)) % (1 << 32) - (1 << 31), 0]
    assert out.tolist() == wanted


def test_warps_that_wait_for_later_warps_finish() -> None:
    out = np.zeros(2 * 256, I32)
    run("warps_in_a_row", 2, 256, out)
    before, wanted = 1, {}
    for warp in reversed(range(8)):
        wanted[warp] = before
        before += 1 + warp
    assert out.tolist() == [wanted[t // 32] * 100 + t % 32 for t in range(256)] * 2


@pytest.mark.parametrize(("consumers", "rounds"), [(32, 1), (64, 7), (160, 12)])
def test_warps_that_make_and_warps_that_take_meet_at_named_barriers(consumers: int, rounds: int) -> None:
    data, out = RNG.integers(0, 100, rounds * 64, dtype=I32), np.zeros(2 * consumers, I32)
    run("specialised_warps", 2, 64 + consumers, data, out, rounds)
    wanted = []
    for t in range(64, 64 + consumers):
        total = 0
        for k in range(rounds):
            total = total * 5 + 2 * int(data[k * 64 + (t * 3 + k) % 64])
        wanted.append((total + (1 << 31)) % (1 << 32) - (1 << 31))
    assert out.tolist() == wanted * 2


def test_halves_of_a_block_count_their_own_votes() -> None:
    x, out = RNG.integers(0, 12, 256, dtype=I32), np.zeros(256, I32)
    run("halves", 1, 256, x, out)
    wanted: list[int] = []
    for half in range(2):
        s = [int(v) for v in x[128 * half : 128 * half + 128]]
        for k in range(3 + 4 * half):
            y = [s[(t * 5 + 1) % 128] for t in range(128)]
            votes = sum(v > 3 * k for v in y)
            s = [v + votes for v in y]
        wanted += s
    assert out.tolist() == wanted


def test_lanes_that_come_to_a_barrier_in_different_places_wait_for_each_other() -> None:
    out = np.zeros(96, I32)
    run("barrier_on_both_sides", 1, 96, out)
    first = [t * 10 if t % 3 == 0 else t + 1 for t in range(96)]
    second = [first[(t + 1) % 96] * 2 if t % 3 == 0 else first[(t + 7) % 96] * 3 for t in range(96)]
    assert out.tolist() == second[::-1]


def test_lanes_on_both_sides_of_a_branch_meet_at_a_barrier_of_the_warp() -> None:
    out = np.zeros(32, I32)
    run("warp_barrier_on_both_sides", 1, 32, out)
    assert out.tolist() == [(lane + 16) * 5 for lane in range(16)] + [lane * 3 for lane in range(16)]


@pytest.mark.parametrize("blocks", [1, 100])
def test_ticket_lock_serves_blocks_in_the_order_of_their_tickets(blocks: int) -> None:
    following, serving = np.zeros(1, U32), np.zeros(1, U32)
    total, order = np.zeros(2, I32), np.full(blocks, -1, I32)
    run("ticket_lock", blocks, 64, following, serving, total, order)
    assert (int(following[0]), int(serving[0]), int(total[0])) == (blocks, blocks, blocks)
    assert sorted(order.tolist()) == [64 * b for b in range(blocks)]


@pytest.mark.parametrize("down", [0, 1])
@pytest.mark.parametrize("blocks", [2, 40])
def test_blocks_that_wait_for_the_block_before_or_behind_finish(blocks: int, down: int) -> None:
    flags, out = np.zeros(blocks, I32), np.zeros(blocks * 64, I32)
    run("blocks_in_a_row", blocks, 64, flags, out, down)
    order = list(reversed(range(blocks))) if down else list(range(blocks))
    got, total = {}, 0
    for b in order:
        total += b + 1
        got[b] = total
    assert out.tolist() == [got[b] * 1000 + t for b in range(blocks) for t in range(64)]


@pytest.mark.parametrize(("blocks", "rounds"), [(1, 3), (64, 4)])
def test_barrier_of_the_whole_grid_keeps_what_each_block_has(blocks: int, rounds: int) -> None:
    arrived, values = np.zeros(1, U32), np.zeros((rounds + 1, blocks), I32)
    out = np.zeros(blocks * 64, I32)
    run("grid_barrier_rounds", blocks, 64, arrived, values, out, rounds)
    wanted = np.zeros((rounds + 1, blocks), np.int64)
    for r in range(rounds):
        wanted[r + 1] = [wanted[r, (b + 1) % blocks] + b * r + 1 for b in range(blocks)]
    assert values.tolist() == wanted.tolist()
    for b in range(blocks):
        mine = np.array([[(b * 64 + t) * k for k in range(4)] for t in range(64)])
        for r in range(rounds):
            for t in range(64):
                mine[t, (t + r) % 4] += wanted[r + 1, (b + 5) % blocks]
        # kept[t] changes while others read it: its parity alone decides, and how far depends on the order of the two warps.
        rest = out[b * 64 : b * 64 + 64] - (mine @ [1, 3, 5, 7])
        kept = rest // 1000 - np.arange(b * 64, b * 64 + 64)
        assert (rest % 1000 == 0).all()
        assert ((kept >= 0) & (kept <= rounds)).all()


def test_last_block_to_finish_sees_all_partial_sums() -> None:
    x, partial = RNG.integers(0, 100, 20 * 64, dtype=I32), np.zeros(20, I32)
    count, out = np.zeros(1, U32), np.zeros(1, I32)
    run("last_block", 20, 64, x, partial, count, out)
    assert out[0] == x.sum()


@pytest.mark.parametrize("threads", [32, 128])
def test_barrier_with_phases_in_shared_memory_opens_each_time(threads: int) -> None:
    out = np.zeros(threads, I32)
    run("phases", 1, threads, out, 5)
    x = list(range(threads))
    for r in range(5):
        x = [x[(t + 1) % threads] + r for t in range(threads)]
    assert out.tolist() == x


def test_launch_whose_threads_wait_has_the_same_trace_each_time() -> None:
    traces = []
    for _ in range(2):
        arrived, values, out = np.zeros(1, U32), np.zeros((4, 24), I32), np.zeros(24 * 64, I32)
        traces.append(run("grid_barrier_rounds", 24, 64, arrived, values, out, 3))
    first, second = (whole(trace) for trace in traces)
    for name in ("path", "events", "event_offset", "sectors", "sector_offset"):
        assert (getattr(first, name) == getattr(second, name)).all()
    assert traces[0].header.warp_instructions == traces[1].header.warp_instructions
    assert (traces[0].paths.block == traces[1].paths.block).all()


@pytest.mark.parametrize("down", [0, 1])
def test_blocks_that_wait_for_each_other_finish_without_a_trace_too(down: int) -> None:
    source = cuda("waiting.cu")
    flags, out = np.zeros(24, I32), np.zeros(24 * 64, I32)
    words = make_launch(source, "blocks_in_a_row", 24, 64, [flags, out, down])
    recorded = launch(source, "blocks_in_a_row", 24, 64, [flags.copy(), out.copy(), down], max_instructions=LIMIT)
    count = execute(prepare_kernel(source, words.kernel), words, None, max_instructions=LIMIT)
    # blocks that come first wait for all others: what they look at in vain is executed, and not in the trace
    assert (count > 100 * recorded.header.warp_instructions) if down else (count == recorded.header.warp_instructions)


@pytest.mark.parametrize("spread", [1, 4])
def test_lock_inside_a_recursive_function_lets_each_lane_in_once(spread: int) -> None:
    threads = 2 * 64
    lock, total, depth = np.zeros(1, I32), np.zeros(1, I32), np.full(threads, -1, I32)
    run("lock_in_recursion", 2, 64, lock, total, depth, spread)
    assert total[0] == threads * (threads + 1) // 2
    assert depth.tolist() == [i % spread for i in range(threads)]


def test_lock_taken_in_a_call_and_released_after_its_return_lets_each_lane_in_once() -> None:
    lock, total = np.zeros(1, I32), np.zeros(1, I32)
    run("lock_across_return", 2, 48, lock, total, 3)
    assert (lock[0], total[0]) == (0, 96)
