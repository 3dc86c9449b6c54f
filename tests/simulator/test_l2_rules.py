"""Does an L2 slice serve one packet a cycle, merge misses, write back what is dirty, and execute atomics?"""

from __future__ import annotations

import pytest
from micro import FAST, MISS, cycles_of, gpu, issues, loads_then_uses, run, uses, whole, word
from trace_by_hand import Warp, build_trace

from warpsight.gpu.spec import GpuSpec
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

# One line in each of the four slices. Lines 0, 8, 16 ... are in slice 0, and there in the same set.
TINY = {"size_bytes": 4 * 128, "ways": 1}
TWO_WAYS = {"size_bytes": 4 * 2 * 128, "ways": 2}


def fast(sm_count: int = 1, **parts: dict[str, object]) -> GpuSpec:
    return gpu(sm_count, **{"noc": FAST, "dram": FAST, **parts})


def each(code: str, accesses: list[list[int]], lanes: int = 1) -> KernelTrace:
    """Blocks of one warp that run `code` with one of the accesses each."""
    return build_trace([code], [Warp(((0, lanes, 1),), [access]) for access in accesses])


def in_turn(*accesses: tuple[str, list[int]]) -> KernelTrace:
    """One warp with these accesses (load or store), each of which waits for the one before."""
    code, path = ["load.global.4 r0 <- r0", "store.global.4 <- r0\nmembar"], []
    for kind, lanes in accesses:
        path.append((0 if kind == "load" else 1, len(lanes), 1))
    return build_trace(code, [Warp(tuple(path), [lanes for _, lanes in accesses])])


def counts(trace: KernelTrace, on: GpuSpec) -> dict[str, int]:
    on.latency_cycles["membar"] = 1
    return run(trace, on).totals()


# -- The tags.

def test_does_a_slice_serve_one_packet_a_cycle() -> None:
    """Two SMs load two lines of slice 0 in the same cycle: one of them waits a cycle at the tags."""
    trace = each("load.global.4 r0 <- q0\nint r1 <- r0", [word(0), word(1)])
    assert sorted(cycles_of(1, trace, fast(2), warp=sm, sm=sm)[0] for sm in range(2)) == [341, 342]


def test_do_slices_serve_their_packets_at_the_same_time() -> None:
    trace = each("load.global.4 r0 <- q0\nint r1 <- r0", [word(0), word(2)])
    assert [cycles_of(1, trace, fast(2), warp=sm, sm=sm) for sm in range(2)] == [[341], [341]]


def test_do_misses_of_two_sms_to_one_line_fetch_it_once() -> None:
    """The second SM's request merges; both are answered when the data comes, the second reply a cycle after the first."""
    trace = each("load.global.4 r0 <- q0\nint r1 <- r0", [word(0), word(0)])
    found = run(trace, gpu(2)).totals()
    assert (found["l1_misses"], found["l2_read_misses"], found["l2_read_merges"], found["dram_reads"]) == (2, 1, 1, 1)
    assert sorted(cycles_of(1, trace, gpu(2), warp=sm, sm=sm)[0] for sm in range(2)) == [341, 342]


def test_does_a_full_mshr_table_hold_the_slice() -> None:
    """One MSHR a slice: the second miss is at the tags in 119 or 120 and waits for the data of the first, in 339; it asks memory in
    that cycle and has its data 220 cycles later, in 559, at the SM in 560, and its use issues in 561."""
    assert uses([word(0), word(8)], fast(l2={"mshrs": 2})) == [341, 342]
    assert uses([word(0), word(8)], fast(l2={"mshrs": 1})) == [341, 561]


def test_does_a_blocked_slice_hold_up_a_hit_behind_it() -> None:
    """Line 2's slice is not concerned. Behind the blocked miss of line 8 line 1, which merges with nothing, waits as well."""
    found = uses([word(0), word(8), word(2)], fast(l2={"mshrs": 1}), order=[0, 2, 1])
    assert found == [341, 343, 561]


def test_does_a_miss_need_a_way_that_is_not_on_its_way() -> None:
    """One way a set: line 8 waits until line 0 has come, in 339, and then takes its place."""
    assert uses([word(0), word(8)], fast(l2=TINY)) == [341, 561]
    assert uses([word(0), word(8)], fast(l2=TWO_WAYS)) == [341, 342]


# -- Writes.

def test_does_a_store_of_a_whole_line_need_no_data_from_memory() -> None:
    found = counts(in_turn(("store", whole(0)), ("load", whole(0))), gpu())
    assert (found["l2_write_misses"], found["l2_read_hits"], found["dram_reads"], found["dram_writes"]) == (1, 1, 0, 0)


def test_does_a_store_of_a_word_fetch_its_line() -> None:
    """And is acknowledged at once: the fence behind it ends after the 120 cycles of the L2 (1 + 120), not after those of DRAM."""
    spec = gpu()
    found = counts(in_turn(("store", word(0))), spec)
    assert (found["l2_write_misses"], found["dram_reads"], found["dram_writes"]) == (1, 1, 0)
    trace = build_trace(["store.global.4 <- q0\nmembar\nint r0 <- q1"], [Warp(((0, 1, 1),), [word(0)])])
    assert cycles_of(2, trace, spec) == [121]


def test_does_a_store_of_whole_sectors_need_no_data_in_a_sectored_l2() -> None:
    sector = [4 * k for k in range(8)]
    trace = in_turn(("store", sector))
    whole_line, sectored = counts(trace, gpu()), counts(trace, gpu(l2={"sector_bytes": 32}))
    assert (whole_line["dram_reads"], sectored["dram_reads"]) == (1, 0)


MARKS = {"sector_bytes": 32, "partial_writes": "mask"}


def test_does_an_l2_that_marks_bytes_fetch_no_part_of_a_sector_before_it_is_read() -> None:
    written = counts(in_turn(("store", word(0)), ("store", word(0))), gpu(l2=MARKS))
    assert (written["l2_write_misses"], written["l2_write_hits"], written["dram_reads"]) == (1, 1, 0)
    read = counts(in_turn(("store", word(0)), ("load", word(0))), gpu(l1={"sector_bytes": 32}, l2=MARKS))
    assert (read["l2_read_misses"], read["dram_reads"], read["dram_read_sectors"]) == (1, 1, 1)


@pytest.mark.parametrize(("stored", "sectors"), [(word(0), 1), (whole(0), 4)])
def test_does_a_write_back_move_the_sectors_that_were_written(stored: list[int], sectors: int) -> None:
    found = counts(in_turn(("store", stored), ("load", word(8))), gpu(l1={"sector_bytes": 32}, l2=TINY | MARKS))
    assert (found["dram_writes"], found["dram_write_sectors"]) == (1, sectors)


@pytest.mark.parametrize(("share", "writes"), [(1.0, 0), (0.5, 1)])
def test_is_a_line_written_back_when_a_set_has_too_many_dirty_ones(share: float, writes: int) -> None:
    """Lines 0 and 8 fill a set; line 0 stays there, clean."""
    found = counts(in_turn(("store", whole(0)), ("store", whole(8)), ("load", word(0))), gpu(l2=TWO_WAYS | {"dirty_share": share}))
    assert (found["dram_writes"], found["l2_read_hits"]) == (writes, 1)


def test_does_random_replacement_keep_a_part_of_what_lru_loses() -> None:
    """Three lines in turn through a set of two ways."""
    stream = [("load", word(8 * (k % 3))) for k in range(90)]
    lru, random = (
        counts(in_turn(*stream), gpu(l1={"size_bytes": 128, "ways": 1}, l2=TWO_WAYS | {"replacement": word}))
        for word in ("lru", "random")
    )
    assert lru["l2_read_hits"] == 0 and 20 < random["l2_read_hits"] < 60


def test_is_a_dirty_line_written_back_when_it_is_evicted() -> None:
    """One way a set. The store makes line 0 dirty, the load of line 8 evicts it: one write, on the load's account."""
    spec = gpu(l2=TINY)
    spec.latency_cycles["membar"] = 1
    found = run(in_turn(("store", whole(0)), ("load", word(8))), spec)
    assert found.counts["dram_writes"].tolist() == [1, 0, 0]
    assert found.counts["dram_reads"].tolist() == [1, 0, 0]


def test_is_a_clean_line_not_written_back() -> None:
    found = counts(in_turn(("load", word(0)), ("load", word(8)), ("load", word(16))), gpu(l2=TINY))
    assert (found["dram_reads"], found["dram_writes"]) == (3, 0)


def test_is_a_line_that_was_written_while_it_was_fetched_dirty() -> None:
    """A store of a word fetches line 0; lines 8 and 16 come later in its place: one write-back."""
    found = counts(in_turn(("store", word(0)), ("load", word(8)), ("load", word(16))), gpu(l2=TINY))
    assert (found["dram_reads"], found["dram_writes"]) == (3, 1)


def test_is_the_least_recently_used_line_evicted() -> None:
    """Two ways: 0, 8, 0, 16: line 8 goes, and the next load of line 0, which the L1 (one line) no longer has, hits the L2."""
    one_line = {"size_bytes": 128, "ways": 1}
    stream = [("load", word(line)) for line in (0, 8, 0, 16, 0)]
    found = counts(in_turn(*stream), gpu(l1=one_line, l2=TWO_WAYS))
    assert (found["l2_read_hits"], found["l2_read_misses"]) == (2, 3)


# -- Atomics.

@pytest.mark.parametrize("lanes", [1, 2, 32])
def test_does_an_atomic_occupy_its_slice_for_each_lane_at_its_address(lanes: int) -> None:
    """The atomic of `lanes` lanes at one address occupies the tags for as many cycles; a load of the slice behind it waits."""
    code = "atomic.global.4 r0 <- q0\nload.global.4 r1 <- q1\nint r2 <- r1"
    trace = build_trace([code], [Warp(((0, lanes, 1),), [[0] * lanes, word(8)])])
    assert cycles_of(2, trace, fast()) == [2 + MISS + lanes - 1]


@pytest.mark.parametrize(("addresses", "cycles"), [([0], 1), ([0] * 5, 5), ([0, 4, 8, 12, 16, 20, 24, 28], 4), ([0, 4, 8], 1)])
def test_does_a_slice_change_a_sector_at_its_width_while_it_serves_lanes_at_one_address(addresses: list[int], cycles: int) -> None:
    """Of the time for its bytes, 8 a cycle, and a cycle for each lane at one address the longer. The load behind the atomic waits,
    but not for the half cycle that is left of 12 bytes.
    """
    code = "atomic.global.4 r0 <- q0\nload.global.4 r1 <- q1\nint r2 <- r1"
    trace = build_trace([code], [Warp(((0, len(addresses), 1),), [addresses, word(8)])])
    assert cycles_of(2, trace, fast(l2={"atomic_width_bytes": 8})) == [2 + MISS + cycles - 1]


def test_does_the_rest_of_a_cycle_of_an_atomic_count_for_the_next_one_of_its_slice() -> None:
    """Two atomics of 12 bytes at 8 a cycle take three cycles together; the load behind them waits for the second."""
    code = "atomic.global.4 r0 <- q0\natomic.global.4 r1 <- q0\nload.global.4 r2 <- q1\nint r3 <- r2"
    trace = build_trace([code], [Warp(((0, 3, 1),), [[0, 4, 8], [0, 4, 8], word(8)])])
    (found,), (at_once,) = (cycles_of(3, trace, fast(l2={"atomic_width_bytes": width})) for width in (8, 12))
    assert found == at_once + 1


def test_does_an_atomic_not_occupy_other_slices() -> None:
    code = "atomic.global.4 r0 <- q0\nload.global.4 r1 <- q1\nint r2 <- r1"
    trace = build_trace([code], [Warp(((0, 32, 1),), [[0] * 32, word(2)])])
    assert cycles_of(2, trace, fast()) == [2 + MISS]


def test_does_an_atomic_pass_by_the_l1_and_leave_a_dirty_line_in_the_l2() -> None:
    """Two atomics on line 0: a miss and a hit of the L2, none of the L1; a load that evicts the line writes it back."""
    trace = build_trace(
        ["atomic.global.4 r0 <- r0", "load.global.4 r0 <- r0"], [Warp(((0, 1, 2), (1, 1, 1)), [word(0), word(0), word(8)])]
    )
    found = run(trace, gpu(l2=TINY)).totals()
    assert (found["l1_reads"], found["l1_misses"]) == (1, 1)
    assert (found["l2_read_misses"], found["l2_read_hits"], found["dram_reads"], found["dram_writes"]) == (2, 1, 2, 1)


def test_does_an_atomic_s_result_take_the_latency_of_the_l2() -> None:
    """The line is there after the first atomic: a chain of them takes 120 cycles a step."""
    trace = build_trace(["atomic.global.4 r0 <- r0"], [Warp(((0, 1, 4),), [word(0)] * 4)])
    assert [cycle for cycle, _, _ in issues(trace, gpu())] == [1, 341, 461, 581]


def test_is_the_l2_s_part_of_a_miss_what_is_in_no_queue() -> None:
    """A miss alone: 220 cycles of DRAM, none in a queue, and the rest of its way: from the L1's tags 340 - 24 - 1 cycles less
    220."""
    found = run(loads_then_uses([word(0)]), gpu()).miss_latency
    assert (found["mshr"], found["noc_queue"], found["dram_queue"], found["dram"]) == (0, 0, 0, 220)
    assert found["l2"] == MISS - 24 - 1 - 220
