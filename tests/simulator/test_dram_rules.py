"""Does a memory channel carry one line after the other, and do rows, banks and the bus's turnaround cost what they say?"""

from __future__ import annotations

import pytest
from micro import FAST, MISS, chase, gpu, issues, per_step, run, uses, whole, word
from trace_by_hand import Warp, build_trace

from warpsight.gpu.spec import GpuSpec

pytestmark = pytest.mark.unit

OPEN, CLOSE = 30, 20
# Lines 0, 1, 8, 9, ... of slice 0, which are neighbours there; rows of 2 KiB hold 16 of them.
SLICE_0 = [8 * (k // 2) + k % 2 for k in range(64)]
ROW_0, ROW_1 = SLICE_0[:16], SLICE_0[16:32]


def rows(banks: int = 16, turnaround: int = 0, l2: dict[str, int] | None = None, **dram: float) -> GpuSpec:
    """A GPU whose banks have rows; a line takes the bus for 2 cycles."""
    fields = {"row_bytes": 2048, "banks": banks, "activate_cycles": OPEN, "precharge_cycles": CLOSE}
    return gpu(noc=FAST, l2=l2 or {}, dram={**fields, "turnaround_cycles": turnaround, **dram})


# -- The bus.

@pytest.mark.parametrize(("bandwidth", "cycles"), [(256e9, 2), (64e9, 8), (16e9, 32)])
def test_does_the_bus_carry_one_line_after_the_other(bandwidth: float, cycles: int) -> None:
    """Three lines of one channel, asked for in neighbouring cycles: each comes the time of a line after the one before."""
    spec = gpu(noc=FAST, dram={"bandwidth_bytes_per_s": bandwidth})
    assert uses([word(line) for line in SLICE_0[:3]], spec) == [341, 341 + cycles, 341 + 2 * cycles]


@pytest.mark.parametrize(("efficiency", "cycles"), [(1.0, 8), (0.5, 16)])
def test_does_a_stream_reach_the_efficiency_of_the_bus(efficiency: float, cycles: int) -> None:
    spec = gpu(noc=FAST, dram={"bandwidth_bytes_per_s": 64e9, "efficiency": efficiency})
    assert uses([word(line) for line in SLICE_0[:3]], spec) == [341, 341 + cycles, 341 + 2 * cycles]


def test_do_channels_not_delay_each_other() -> None:
    """Lines 0, 2, 4, 6 lie behind the four channels: their data comes in neighbouring cycles however slow each bus is."""
    spec = gpu(noc=FAST, dram={"bandwidth_bytes_per_s": 16e9})
    assert uses([word(line) for line in (0, 2, 4, 6)], spec) == [341, 342, 343, 344]


def test_does_a_sector_take_its_part_of_a_line_s_time() -> None:
    """16 B a cycle: of 128 B lines the second comes 8 cycles later, of 32 B sectors 2 cycles."""
    spec = gpu(noc=FAST, dram={"bandwidth_bytes_per_s": 64e9}, l1={"sector_bytes": 32}, l2={"sector_bytes": 32})
    assert uses([word(0), word(8)], spec) == [341, 343]


@pytest.mark.parametrize("queue", [2, 3, 64])
def test_does_a_short_queue_hold_the_slice_but_not_the_bus(queue: int) -> None:
    """Reads of one channel, 8 cycles each: with room for at least 2 the next access is always there when the bus is free."""
    spec = gpu(noc=FAST, dram={"bandwidth_bytes_per_s": 64e9, "queue": queue})
    assert uses([word(line) for line in SLICE_0[:5]], spec) == [341 + 8 * k for k in range(5)]


def test_is_the_wait_for_the_bus_the_miss_s_dram_queue() -> None:
    """The second line asks a cycle after the first and begins 8 cycles after it: it waited 7. Mean of 0 and 7."""
    code = "load.global.4 r0 <- q0\nload.global.4 r1 <- q1"
    trace = build_trace([code], [Warp(((0, 1, 1),), [word(0), word(8)])])
    found = run(trace, gpu(noc=FAST, dram={"bandwidth_bytes_per_s": 64e9})).miss_latency
    assert (found["dram_queue"], found["dram"]) == (3.5, 220)


# -- Rows and banks.

def test_does_the_latency_hold_for_a_row_that_must_be_opened() -> None:
    assert uses([word(0)], rows()) == [1 + MISS]


def test_do_row_hits_cost_less() -> None:
    """A dependent chain through one row: only its first access opens the row, the others save the activation."""
    assert per_step(run(chase(ROW_0[:1]), rows()), run(chase(ROW_0), rows()), 15) == MISS - OPEN


def test_does_another_row_of_the_bank_cost_a_precharge() -> None:
    """One bank: a chain that changes between two rows closes one and opens the other each time."""
    lines = [line for pair in zip(ROW_0, ROW_1, strict=True) for line in pair]
    assert per_step(run(chase(lines[:1]), rows(1)), run(chase(lines), rows(1)), 31) == MISS + CLOSE


def test_do_two_banks_keep_their_rows_open() -> None:
    """The same chain with 16 banks: after the first two accesses both rows are open."""
    lines = [line for pair in zip(ROW_0, ROW_1, strict=True) for line in pair]
    assert per_step(run(chase(lines[:2]), rows()), run(chase(lines), rows()), 30) == MISS - OPEN


def test_is_a_row_opened_while_another_bank_transfers() -> None:
    """Rows 0 and 1 in two banks: the second row opens at the same time, so the second line comes right after the first, in 343;
    in one bank it waits for the precharge and the activation after the first transfer."""
    assert uses([word(ROW_0[0]), word(ROW_1[0])], rows()) == [341, 343]
    assert uses([word(ROW_0[0]), word(ROW_1[0])], rows(1)) == [341, 343 + CLOSE + OPEN]


@pytest.mark.parametrize(("interval", "cycles"), [(0.0, 2), (1.0, 2), (40.0, 40)])
def test_do_rows_of_a_channel_open_one_after_the_other(interval: float, cycles: int) -> None:
    """At 1 GHz, two banks: their rows open 40 cycles after each other, or the second line waits only for the bus."""
    spec = rows(row_interval_ns=interval)
    assert uses([word(ROW_0[0]), word(ROW_1[0])], spec) == [341, 341 + cycles]


def test_does_a_row_hit_overtake_an_older_access_to_another_row() -> None:
    """FR-FCFS. One bank; lines of row 0, row 1 and row 0: the third goes before the second, 2 cycles behind the first; the second
    after the 4 cycles of both, a precharge and an activation."""
    lines = [word(ROW_0[0]), word(ROW_1[0]), word(ROW_0[1])]
    assert uses(lines, rows(1), order=[0, 2, 1]) == [341, 343, 345 + CLOSE + OPEN]


def test_do_accesses_without_rows_keep_their_order() -> None:
    lines = [word(ROW_0[0]), word(ROW_1[0]), word(ROW_0[1])]
    assert uses(lines, gpu(noc=FAST), order=[0, 1, 2]) == [341, 343, 345]


# -- Reads and writes.

TWO_WAYS = {"size_bytes": 4 * 2 * 128, "ways": 2}


def evictions(turnaround: int, queue: int, row: int = 2048) -> list[int]:
    """Two stores fill a set of two ways of slice 0; then two independent loads, one cycle apart, evict both lines: a write-back
    and a read each, of one open row. The cycles from the first load's issue to the uses of both."""
    spec = rows(turnaround=turnaround, queue=queue, activate_cycles=0, precharge_cycles=0, l2=TWO_WAYS, row_bytes=row)
    spec.latency_cycles["membar"] = 1
    code = ["store.global.4 <- q0\nmembar", "load.global.4 r0 <- q1\nload.global.4 r1 <- q2\nint r2 <- r0\nint r3 <- r1"]
    trace = build_trace(code, [Warp(((0, 32, 2), (1, 32, 1)), [whole(0), whole(8), whole(16), whole(24)])])
    cycles = [cycle for cycle, _, pc in issues(trace, spec) if pc >= 2]
    return [cycle - cycles[0] for cycle in cycles[2:]]


@pytest.mark.parametrize("turnaround", [5, 25])
def test_do_writes_leave_together_before_the_bus_turns_around(turnaround: int) -> None:
    """The first write-back is the older access and finds the bus idle: it goes first. While it is on the bus the second one is
    asked for, which needs no turnaround. The reads follow, T after the 4 cycles of both writes, and 2 cycles apart."""
    assert evictions(turnaround, 64) == [MISS + 4 + turnaround, MISS + 6 + turnaround]
    assert evictions(turnaround, 64, row=0) == [MISS + 4 + turnaround, MISS + 6 + turnaround]


@pytest.mark.parametrize("turnaround", [5, 25])
def test_do_reads_continue_before_the_bus_turns_around(turnaround: int) -> None:
    """A queue of 2 has room for one miss: the second is asked for when the first read begins, 2 + T after the first write. Now its
    read needs no turnaround, and goes before its older write-back."""
    assert evictions(turnaround, 2) == [MISS + 2 + turnaround, MISS + 4 + turnaround]


@pytest.mark.parametrize("queue", [2, 64])
def test_do_reads_and_writes_keep_their_order_where_the_turnaround_costs_nothing(queue: int) -> None:
    """Write, read, write, read, 2 cycles each: the first read begins 2 cycles late; the second 6, less the cycle of its later
    issue, and is used 6 cycles after the round trip of the first load."""
    assert evictions(0, queue) == [MISS + 2, MISS + 6]
