"""Does each rule of the L1 cost what it says: MSHRs, merged misses, the miss queue, allocation, fills?"""

from __future__ import annotations

import pytest
from micro import FAST, L1_LATENCY, L2_LATENCY, MISS, cycles_of, gpu, issues, loads_then_uses, run, uses, whole, word
from trace_by_hand import Warp, build_trace

from warpsight.gpu.spec import GpuSpec
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

# Five lines of one set (of 32), and no port or bus that delays them.
ONE_SET = [word(32 * k) for k in range(5)]


def fast(**parts: dict[str, object]) -> GpuSpec:
    return gpu(**{"noc": FAST, "dram": FAST, **parts})


def present_then(accesses: list[list[int]]) -> KernelTrace:
    """A load of line 0 that is waited for (it issues in 1, its use in 341), then a load for each access, then a use of the last."""
    code = ["load.global.4 r0 <- q0", "int r1 <- r0", *(f"load.global.4 s{k} <- r1" for k in range(len(accesses)))]
    code.append(f"int t <- s{len(accesses) - 1}")
    return build_trace(["\n".join(code)], [Warp(((0, max(map(len, accesses)), 1),), [word(0), *accesses])])


def last_use(trace: KernelTrace, on: GpuSpec) -> int:
    return issues(trace, on)[-1][0]


# -- Hits.

def test_does_a_line_that_was_brought_hit() -> None:
    """The int of 341 gives the address in 345, the load hits: 345 + 25."""
    assert last_use(present_then([word(0)]), gpu()) == 345 + L1_LATENCY


def test_do_independent_hits_follow_one_another_cycle_by_cycle() -> None:
    """Three loads issue in 345 to 347; the last has its data 25 cycles after its own issue."""
    assert last_use(present_then([word(0)] * 3), gpu()) == 347 + L1_LATENCY


def test_does_another_word_of_the_line_hit_and_another_sector_of_a_sectored_line_miss() -> None:
    """With sectors of 32 B only the sector that was asked for is there. In the L2, whose sectors are lines, the rest is: 120."""
    other = present_then([[32]])
    assert last_use(other, gpu()) == 345 + L1_LATENCY
    assert last_use(other, gpu(l1={"sector_bytes": 32})) == 345 + L2_LATENCY


def test_does_a_store_leave_no_line_behind() -> None:
    """Write-through without allocation. The load behind the store of the whole line misses the L1, and hits the L2."""
    trace = build_trace(["store.global.4 <- q0\nload.global.4 r0 <- q1\nint r1 <- r0"], [Warp(((0, 32, 1),), [whole(0), whole(0)])])
    found = run(trace, gpu()).totals()
    assert (found["l1_writes"], found["l1_misses"], found["l2_read_hits"], found["dram_reads"]) == (1, 1, 1, 0)
    assert cycles_of(2, trace, gpu()) == [2 + L2_LATENCY]


def test_does_a_store_to_a_line_make_it_the_most_recent() -> None:
    """Four lines fill a set. A store to line 0 saves it when a fifth line comes: then line 32 is the least recently used."""
    code = ["load.global.4 r0 <- r0", "store.global.4 <- r0"]
    lines, tail = [word(32 * k) for k in range(4)], [word(128), word(0)]
    kept = build_trace(code, [Warp(((0, 1, 4), (1, 1, 1), (0, 1, 2)), [*lines, word(0), *tail])])
    lost = build_trace(code, [Warp(((0, 1, 6),), [*lines, *tail])])
    assert (run(kept, gpu()).totals()["l1_hits"], run(lost, gpu()).totals()["l1_hits"]) == (1, 0)


# -- Misses under way.

def test_does_a_merged_miss_wait_for_the_first() -> None:
    """Loads of one line in 1 and 2: one request goes out, the first has its data in 341, the second in the next cycle."""
    assert uses([word(0), word(0)], gpu()) == [1 + MISS, 2 + MISS]
    found = run(loads_then_uses([word(0), word(0)]), gpu()).totals()
    assert (found["l1_misses"], found["l1_merges"], found["l2_reads"]) == (1, 1, 1)


def test_does_a_fill_answer_one_request_a_cycle() -> None:
    """Four schedulers with a warp each load one line. Its data is for them in 341, 342, 343 and 344, though each could issue in
    341."""
    trace = build_trace(["load.global.4 r0 <- q0\nint r1 <- r0"], [Warp(((0, 1, 1),), [word(0)])] * 4, 4)
    spec = gpu(sm={"schedulers": 4})
    assert [cycle for cycle, _, pc in issues(trace, spec) if pc == 1] == [341, 342, 343, 344]


def test_does_a_merged_miss_that_comes_late_wait_for_the_rest_only() -> None:
    """The second load depends on 20 ints of latency 4: it issues in 82, and has its data one cycle after the first, in 342."""
    code = "load.global.4 r0 <- q0\n" + "int r1 <- r1\n" * 20 + "load.global.4 r2 <- r1\nint r3 <- r2"
    trace = build_trace([code], [Warp(((0, 1, 1),), [word(0), word(0)])])
    assert (cycles_of(21, trace, gpu()), cycles_of(22, trace, gpu())) == ([2 + 20 * 4], [342])


def test_does_a_full_mshr_table_hold_the_l1() -> None:
    """One MSHR: the second miss waits at the tags until the fill of 340 and is served in that cycle, 316 cycles before its data."""
    assert uses([word(0), word(8)], fast(l1={"mshrs": 2})) == [341, 342]
    assert uses([word(0), word(8)], fast(l1={"mshrs": 1})) == [341, 340 + (MISS - 24)]


def test_does_a_hit_wait_behind_a_miss_without_an_mshr() -> None:
    """Line 0 is there. Two misses and a hit issue in 345, 346, 347. With an MSHR for both the hit takes its 25 cycles. With one,
    the second miss holds the tags to the fill of the first in 345 + 339 = 684; the hit is at the tags in 685, and used in the
    next."""
    trace = present_then([word(8), word(16), word(0)])
    assert last_use(trace, gpu(l1={"mshrs": 2})) == 347 + L1_LATENCY
    assert last_use(trace, gpu(l1={"mshrs": 1})) == 345 + 339 + 2


def test_does_an_mshr_without_a_free_target_hold_the_l1() -> None:
    """One target: the second load of the line waits at the tags, and finds it there in the cycle of the fill, 340: a hit."""
    spec = gpu(l1={"targets": 1})
    assert uses([word(0), word(0)], spec) == [341, 342]
    found = run(loads_then_uses([word(0), word(0)]), spec).totals()
    assert (found["l1_misses"], found["l1_merges"], found["l1_hits"]) == (1, 0, 1)


def test_does_a_miss_of_another_sector_use_the_mshr_of_its_line() -> None:
    """Sectors of 32 B, one MSHR: two sectors of one line are two requests to the L2, under one MSHR: nothing is held up."""
    spec = gpu(l1={"sector_bytes": 32, "mshrs": 1})
    found = run(loads_then_uses([[0], [32]]), spec)
    assert (found.totals()["l1_misses"], found.totals()["l2_reads"]) == (2, 2)
    # the line is complete with its second sector, one cycle after the first; then both loads get their data, one a cycle
    assert uses([[0], [32]], spec) == [342, 343]


# -- Allocation.

def test_does_a_miss_need_a_way_that_is_not_on_its_way() -> None:
    """Four ways, five misses of one set: the fifth waits at the tags for the first fill, in 340, and takes 316 cycles from
    there."""
    assert uses(ONE_SET, fast()) == [341, 342, 343, 344, 340 + (MISS - 24)]


def test_does_allocation_on_fill_let_more_misses_be_under_way_than_a_set_has_ways() -> None:
    assert uses(ONE_SET, fast(l1={"allocation": "on-fill"})) == [341, 342, 343, 344, 345]


def test_does_allocation_on_fill_keep_the_lines_that_came_last() -> None:
    """Five lines of one set, then the first and the last again: the first has been evicted, the last is there."""
    spec = fast(l1={"allocation": "on-fill"})
    again = [word(32 * k) for k in (0, 1, 2, 3, 4)]
    code = ["load.global.4 r0 <- r0"]
    first = run(build_trace(code, [Warp(((0, 1, 6),), [*again, word(0)])]), spec).totals()
    last = run(build_trace(code, [Warp(((0, 1, 6),), [*again, word(128)])]), spec).totals()
    assert (first["l1_hits"], last["l1_hits"]) == (0, 1)


# -- Lines of other sizes than the L2's.

def test_does_a_long_line_wait_for_both_lines_of_the_l2() -> None:
    """L1 lines of 256 B are two packets, and the data is there with the second, which the SM's port sends a cycle later."""
    spec = gpu(l1={"line_bytes": 256, "sector_bytes": 256}, l2={"latency_cycles": 121})
    found = run(loads_then_uses([word(0)]), spec).totals()
    assert (found["l1_misses"], found["l2_reads"], found["dram_reads"]) == (1, 2, 2)
    # both lines are in one slice and so behind one channel: its bus carries the second line after the 2 cycles of the first
    assert uses([word(0)], spec)[0] - uses([word(0)], gpu(l2={"latency_cycles": 121}))[0] in (1, 2, 3)


def test_does_a_short_line_ask_for_its_part_of_an_l2_line() -> None:
    """L1 lines of 32 B: four neighbours are four misses of the L1, one of the L2 and three that merge with it."""
    spec = gpu(l1={"line_bytes": 32, "sector_bytes": 32})
    found = run(loads_then_uses([[32 * k] for k in range(4)]), spec).totals()
    assert (found["l1_misses"], found["l2_read_misses"], found["l2_read_merges"], found["dram_reads"]) == (4, 1, 3, 1)


# -- The miss queue.

def test_does_a_full_miss_queue_hold_the_l1() -> None:
    """The port sends a packet every 8 cycles. Line 0 is there; three misses and a hit follow from 345 on. With room for 16
    packets the hit takes its 25 cycles from its issue in 348. With room for one the third miss waits for the second packet to
    leave, 8 cycles after the first: at the tags a cycle later, 378, the hit in 379, its use in 380."""
    slow = {"bandwidth_bytes_per_s": 64e9}
    trace = present_then([word(8), word(16), word(24), word(0)])
    start = issues(trace, gpu(noc=slow))[2][0]  # the first of the loads
    tags = start + 24
    assert last_use(trace, gpu(noc=slow)) == start + 3 + L1_LATENCY
    assert last_use(trace, gpu(noc=slow, l1={"miss_queue": 1})) == tags + 8 + 1 + 1 + 1
