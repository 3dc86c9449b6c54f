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


@pytest.mark.parametrize(
    ("sms", "blocks", "found"),
    [
        (2, 1, [[341, 349, 357, 365]]),  # the other SM sends nothing
        (2, 2, [[341, 349, 357, 365], [342, 350, 358, 366]]),
        (4, 2, [[341, 349, 357, 365]] * 2),  # SMs of different TPCs
    ],
)
def test_do_the_sms_of_a_tpc_send_their_requests_in_turn(sms: int, blocks: int, found: list[list[int]]) -> None:
    """Each block loads from four slices, of which others do not load at the time. A request takes its SM's port 8 cycles."""
    code = [f"load.global.4 r{k} <- q{k}" for k in range(4)] + [f"int u{k} <- r{k}" for k in range(4)]
    orders = [[0, 2, 4, 6], [12, 14, 8, 10]]
    trace = build_trace(["\n".join(code)], [Warp(((0, 1, 1),), [word(line) for line in orders[b]]) for b in range(blocks)])
    spec = gpu(sms, noc={**SLOW["noc"], "tpc_sms": 2}, dram=FAST)
    seen = [[cycle for cycle, _, pc in issues(trace, spec, sm=sm) if pc >= 4] for sm in range(blocks)]
    assert sorted(seen) == found


@pytest.mark.parametrize(("tpc_sms", "later"), [(1, [0, 0]), (2, [15, 16])])
def test_does_a_tpc_send_a_request_a_cycle(tpc_sms: int, later: list[int]) -> None:
    """A flit takes half a cycle. Two SMs load 16 lines each, one a cycle: their last requests leave in cycles 31 and 32, not 16."""
    loads = [Warp(((0, 16, 1),), [[128 * (2 * lane + far) for lane in range(16)]]) for far in (0, 1026)]

    def used(count: int, tpc_sms: int) -> list[int]:
        trace = build_trace(["load.global.4 r0 <- q0\nint r1 <- r0"], loads[:count])
        spec = gpu(2, noc={"bandwidth_bytes_per_s": 1024e9, "tpc_sms": tpc_sms}, dram=FAST)
        return [cycles_of(1, trace, spec, warp=sm, sm=sm)[0] for sm in range(count)]

    (alone,) = used(1, tpc_sms)
    assert sorted(each - alone for each in used(2, tpc_sms)) == later


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


# -- Reads that a slice answers together.

@pytest.mark.parametrize(("most", "found"), [
    (1, [341, 349, 357, 365]), (2, [341, 341, 349, 349]), (3, [341, 341, 341, 349]), (4, [341] * 4),
])  # fmt: skip
def test_does_a_slice_send_the_data_of_reads_that_join_once(most: int, found: list[int]) -> None:
    """Four SMs load one line in the same cycle. Their requests pass the slice's port 8 cycles apart, long before the data come,
    which pass it once for every `most` of them, in 8 cycles."""
    spec = gpu(4, **SLOW, l2={"merged_reads": most})
    trace = one_load_each([0] * 4)
    assert sorted(cycles_of(1, trace, spec, warp=sm, sm=sm)[0] for sm in range(4)) == found
    counts = run(trace, spec).totals()
    joined = 4 - len({*found})
    assert (counts["l2_reads"], counts["l2_joins"], counts["l2_read_misses"], counts["l2_read_merges"]) == (4, joined, 1, 3)
    assert counts["dram_reads"] == 1


def test_do_the_data_of_a_read_that_joined_pass_the_port_of_its_sm() -> None:
    """Both SMs load a line of two slices; each line is sent once, and comes to both SMs as 4 flits, 4 cycles behind the first."""
    trace = build_trace(
        ["load.global.4 r0 <- q0\nload.global.4 r1 <- q1\nint r2 <- r0\nint r3 <- r1"], [Warp(((0, 1, 1),), [word(0), word(2)])] * 2
    )
    spec = gpu(2, **NARROW, l2={"merged_reads": 2})
    for sm in range(2):
        assert [cycles_of(pc, trace, spec, warp=sm, sm=sm) for pc in (2, 3)] == [[1 + MISS], [1 + MISS + 4]]
    assert run(trace, spec).totals()["l2_joins"] == 2


def test_do_reads_that_join_take_no_cycle_of_the_slice_s_tags() -> None:
    """Fifteen SMs load line 0, and one line 1 of the same slice a cycle later. Its read is the second at the tags or the 16th."""
    def of_the_other(most: int) -> int:
        load = "load.global.4 r0 <- q0\nint r1 <- r0"
        first, other = Warp(((0, 1, 1),), [word(0)]), Warp(((1, 1, 1),), [word(1)])
        spec = gpu(16, noc=FAST, dram=FAST, l2={"merged_reads": most})
        return cycles_of(4, build_trace([load, f"int r2 <- r2\n{load}"], [first] * 15 + [other]), spec, warp=15, sm=15)[0]

    assert (of_the_other(16), of_the_other(1)) == (2 + MISS, 2 + MISS + 14)


def test_which_reads_join_none() -> None:
    """None of a sector that the first does not fetch, none whose data has left the slice, and no atomic."""
    sectors = {"l1": {"sector_bytes": 32}, "l2": {"sector_bytes": 32, "merged_reads": 8}}
    assert run(build_trace(["load.global.4 r0 <- q0\nint r1 <- r0"], [Warp(((0, 1, 1),), [[32 * k]]) for k in (0, 0, 1)]),
               gpu(3, **sectors)).totals()["l2_joins"] == 1  # fmt: skip
    twice = [Warp(((0, 1, 1),), [word(0), word(8)]), Warp(((0, 1, 1),), [word(8), word(0)])]
    chain = build_trace(["load.global.4 r0 <- q0\nload.global.4 r1 <- r0\nint r2 <- r1"], twice)
    assert run(chain, gpu(2, l2={"merged_reads": 8})).totals()["l2_joins"] == 0
    atomic = build_trace(["atomic.global.4 r1 <- r0\nint r0 <- r1"], [Warp(((0, 1, 1),), [word(0)])] * 2)
    assert run(atomic, gpu(2, l2={"merged_reads": 8})).totals()["l2_joins"] == 0
