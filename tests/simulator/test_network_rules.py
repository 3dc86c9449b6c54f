"""Does a port of the network pass one packet after the other, and does a packet take a cycle for each flit?"""

from __future__ import annotations

import pytest
from micro import FAST, MISS, cycles_of, gpu, issues, run, uses, whole, word
from trace_by_hand import Warp, build_trace

from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

# A port passes 16 B a cycle: a flit of 128 B, which a request is, takes 8 cycles. Memory delays nothing.
SLOW = {"noc": {"bandwidth_bytes_per_s": 64e9}, "dram": FAST}
# A port passes 32 B a cycle, in flits of 32 B: a request takes 1 cycle, a line 4.
NARROW = {"noc": {"bandwidth_bytes_per_s": 128e9, "flit_bytes": 32}, "dram": FAST}


def one_load_each(lines: list[int]) -> KernelTrace:
    """Blocks of one warp with one load of a line each, and a use of it."""
    return build_trace(["load.global.4 r0 <- q0\nint r1 <- r0"], [Warp(((0, 1, 1),), [word(line)]) for line in lines])


def test_does_a_packet_alone_take_no_longer_than_the_description_says() -> None:
    """The L2's latency of the description includes the flits of a request and of a line, however slow the ports are."""
    assert uses([word(0)], gpu(**SLOW)) == uses([word(0)], gpu(**NARROW)) == [1 + MISS]


def test_does_an_sm_s_port_serve_one_packet_after_the_other() -> None:
    """Requests to four slices are at the port in 25 to 28 and leave it 8 cycles apart; their data comes 8 cycles apart."""
    assert uses([word(2 * k) for k in range(4)], gpu(**SLOW)) == [341, 349, 357, 365]


def test_does_the_port_serve_a_flit_a_cycle() -> None:
    """At 32 B a cycle in flits of 32 B requests leave one a cycle; a line comes back as 4 flits, so they arrive 4 cycles apart."""
    assert uses([word(2 * k) for k in range(4)], gpu(**NARROW)) == [341, 345, 349, 353]


def test_does_a_store_take_a_flit_for_each_sector() -> None:
    """A store of a whole line is 4 flits, one of a word is 1. The load behind it leaves the port 3 cycles later, or with no
    delay."""
    def load_behind(addresses: list[int]) -> list[int]:
        trace = build_trace(
            ["store.global.4 <- q0\nload.global.4 r0 <- q1\nint r1 <- r0"], [Warp(((0, 32, 1),), [addresses, whole(2)])]
        )
        return cycles_of(2, trace, gpu(**NARROW))

    assert load_behind(whole(0)) == [2 + MISS + 3]
    assert load_behind([0] * 32) == [2 + MISS]


@pytest.mark.parametrize(("lanes", "time", "busy"), [(1, 0, 1), (1, 6, 6), (8, 6, 4), (16, 6, 6), (32, 6, 10), (9, 6, 8)])
def test_does_a_store_hold_the_sm_s_port_for_its_header_its_mask_and_its_sectors(lanes: int, time: int, busy: int) -> None:
    """Each takes 2 of 6 cycles, and sectors that 8 lanes fill have no mask. The load behind it is at the port a cycle later."""
    addresses = [4 * lane for lane in range(lanes)]
    trace = build_trace(
        ["store.global.4 <- q0\nload.global.4 r0 <- q1\nint r1 <- r0"], [Warp(((0, lanes, 1),), [addresses, [256] * lanes])]
    )
    spec = gpu(noc={"bandwidth_bytes_per_s": 128e9, "flit_bytes": 32, "store_time_cycles": time}, dram=FAST)
    assert cycles_of(2, trace, spec) == [2 + MISS + busy - 1]


def test_does_an_acknowledgement_take_one_flit() -> None:
    """Of a whole line: 4 flits there and 1 back. The description's 120 cycles are for 1 there and 4 back: the same sum."""
    spec = gpu(**NARROW)
    spec.latency_cycles["membar"] = 1
    trace = build_trace(["store.global.4 <- q0\nmembar\nint r1 <- q1"], [Warp(((0, 32, 1),), [whole(0)])])
    assert cycles_of(2, trace, spec) == [121]


def test_does_a_slice_s_port_take_the_packets_of_several_sms_in_turn() -> None:
    """Four SMs load four lines of slice 0 in the same cycle: the slice's port takes their packets 8 cycles apart, in some order."""
    trace = one_load_each([0, 1, 8, 9])
    found = sorted(cycles_of(1, trace, gpu(4, **SLOW), warp=sm, sm=sm)[0] for sm in range(4))
    assert found == [341, 349, 357, 365]


def test_do_sms_that_ask_different_slices_not_delay_each_other() -> None:
    trace = one_load_each([0, 2, 4, 6])
    assert [cycles_of(1, trace, gpu(4, **SLOW), warp=sm, sm=sm) for sm in range(4)] == [[341]] * 4


def test_is_a_merged_miss_no_packet() -> None:
    """Two loads of one line leave the port free for the third: its packet is the second, 8 cycles behind the first."""
    assert uses([word(0), word(0), word(2)], gpu(**SLOW)) == [341, 342, 349]


@pytest.mark.parametrize(("buffer", "apart"), [(1, 2), (2, 1), (64, 1)])
def test_does_a_reply_wait_for_an_entry_of_the_sm_s_buffer(buffer: int, apart: int) -> None:
    """Replies come one a cycle. With one entry a slice sends in the cycle after the SM has taken the reply before: every second
    cycle; two entries are enough for one a cycle."""
    spec = gpu(noc={"buffer": buffer, **FAST}, dram=FAST, l1={"mshrs": 64})
    lines = [whole(2 * k) for k in range(16)]
    code = "\n".join([f"load.global.4 r{k} <- q{k}" for k in range(16)] + [f"int u{k} <- r{k}" for k in range(16)])
    trace = build_trace([code], [Warp(((0, 32, 1),), lines)])
    assert [cycle for cycle, _, pc in issues(trace, spec) if pc >= 16] == [341 + apart * k for k in range(16)]


def test_is_the_time_in_the_ports_queues_the_miss_s_noc_latency() -> None:
    """Of four misses the k-th waits 8 k cycles for the port, less the k cycles by which it came later: 0, 7, 14, 21; mean 10.5."""
    lines = [word(2 * k) for k in range(4)]
    code = "\n".join(f"load.global.4 r{k} <- q{k}" for k in range(4))
    found = run(build_trace([code], [Warp(((0, 1, 1),), lines)]), gpu(**SLOW)).miss_latency
    assert found["noc_queue"] == pytest.approx(10.5)
    assert (found["mshr"], found["dram_queue"], found["dram"]) == (0, 0, 220)
