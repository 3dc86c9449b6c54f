"""Do streams reach the bandwidth of the description, and no more?"""

from __future__ import annotations

import pytest
from micro import DRAM_LATENCY, L1_LATENCY, L2_LATENCY, gpu, run
from trace_by_hand import Warp, build_trace

pytestmark = pytest.mark.unit

LOADS = ["\n".join(f"load.global.4 r{k} <- q{k}" for k in range(8))]
LANES = [4 * k for k in range(32)]


def stream(warps: int, times: int, step: int, wrap: int = 0) -> object:
    """`warps` warps, each with 8 x `times` independent loads of whole lines, `step` lines apart; all repeat after `wrap` lines."""
    made = []
    for warp in range(warps):
        lines = [(warp + (8 * k + j) * step) % (wrap or 1 << 20) for k in range(times) for j in range(8)]
        made.append(Warp(((0, 32, times),), [[128 * line + a for a in LANES] for line in lines]))
    return build_trace(LOADS, made, 8)


def rate(short: object, long: object, on: object, bytes_more: int, blocks: int) -> float:
    """Bytes a cycle of what the longer stream has more."""
    return bytes_more / (run(long, on, blocks).cycles - run(short, on, blocks).cycles)  # type: ignore[arg-type]


@pytest.mark.parametrize("bandwidth", [64e9, 128e9])
def test_dram_stream_reaches_its_bandwidth(bandwidth: float) -> None:
    # an L1 whose sets are no limit to the lines in flight
    spec = gpu(4, dram={"bandwidth_bytes_per_s": bandwidth}, l1={"mshrs": 128, "size_bytes": 1 << 20})
    found = rate(stream(128, 4, 128), stream(128, 12, 128), spec, 128 * 8 * 8 * 128, 4)
    assert 0.95 < found / (bandwidth / 1e9) <= 1.0


@pytest.mark.parametrize(("bandwidth", "flit"), [(128e9, 32), (128e9, 128), (64e9, 64)])
def test_l2_resident_stream_reaches_the_network_s_bandwidth(bandwidth: float, flit: int) -> None:
    # 4 MiB of requests over 512 KiB: more than the L1s, and in the L2 after the first round
    spec = gpu(8, noc={"bandwidth_bytes_per_s": bandwidth, "flit_bytes": flit}, l1={"mshrs": 128})
    found = rate(stream(256, 4, 256, 4096), stream(256, 12, 256, 4096), spec, 256 * 8 * 8 * 128, 4)
    assert 0.95 < found / (bandwidth / 1e9) <= 1.005


def test_l1_serves_one_line_a_cycle() -> None:
    found = rate(stream(32, 10, 0), stream(32, 60, 0), gpu(), 32 * 50 * 8 * 128, 4)
    assert found / 128 == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(("warps", "requests", "mshrs"), [(4, 8, 8), (4, 8, 16), (4, 8, 32), (6, 4, 8), (2, 32, 16)])
def test_misses_go_in_batches_of_the_miss_registers(warps: int, requests: int, mshrs: int) -> None:
    """MDM (MICRO 2020, Fig. 4): warps x requests misses at once on M registers take ceil(warps x requests / M) round trips."""
    made = [Warp(((0, 32, 1),), [[128 * (4 * 33 * (warp * requests + k % requests)) for k in range(32)]]) for warp in range(warps)]
    trace = build_trace(["load.global.4 r0 <- q0\nint r1 <- r0"], made, warps)
    spec = gpu(l1={"mshrs": mshrs}, noc={"bandwidth_bytes_per_s": 1e15}, dram={"bandwidth_bytes_per_s": 1e15})
    batches = -(-warps * requests // mshrs)
    cycles = run(trace, spec).cycles
    fill = warps * requests + L1_LATENCY  # one request a cycle comes to the tags
    assert batches * (L2_LATENCY + DRAM_LATENCY) - L1_LATENCY * batches <= cycles <= batches * (L2_LATENCY + DRAM_LATENCY) + fill


def test_full_miss_registers_are_charged_to_mshr() -> None:
    made = [Warp(((0, 32, 4),), [[128 * (132 * (32 * warp + k) + j) for k in range(32)] for j in range(4)]) for warp in range(8)]
    trace = build_trace(["load.global.4 r0 <- q0\nint r1 <- r0"], made, 8)
    few, many = (run(trace, gpu(l1={"mshrs": m})).components(1, 1) for m in (4, 1024))
    assert few["mshr"] > 0.5 * sum(few.values())
    assert many["mshr"] < 0.2 * few["mshr"]


def test_streaming_l1_with_thousands_of_registers_is_not_held_up_by_its_ways() -> None:
    """MDM section VI-G: allocation on fill, so that more lines can be in flight than a set has ways."""
    lines = [32 * k for k in range(64)]  # all in one L1 set of 4 ways
    made = [Warp(((0, 32, 1),), [[128 * line for line in lines[32 * j : 32 * j + 32]] for j in range(2)])]
    trace = build_trace(["load.global.4 r0 <- q0\nload.global.4 r1 <- q1"], made)
    held = run(trace, gpu(l1={"mshrs": 1024}))
    free = run(trace, gpu(l1={"mshrs": 1024, "allocation": "on-fill"}))
    assert held.cycles > 5 * free.cycles


def test_stores_take_no_miss_register_but_the_network() -> None:
    made = [Warp(((0, 32, 64),), [[128 * (k * 8 + warp) + a for a in LANES] for k in range(64)]) for warp in range(8)]
    trace = build_trace(["store.global.4 <- q0"], made, 8)
    few, many = (run(trace, gpu(l1={"mshrs": m})).cycles for m in (1, 64))
    assert few == many
    slow = run(trace, gpu(noc={"bandwidth_bytes_per_s": 16e9, "flit_bytes": 32})).cycles
    assert slow >= 64 * 8 * 128 / 16 * 0.9
