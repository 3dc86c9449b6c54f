"""Do the blocks of a cluster start together on SMs of one GPC, in the caches, the simulator and the waves of the models?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from micro import gpu, loop, run
from trace_by_hand import Warp, build_trace

import warpsight
from warpsight.base.errors import UsageError
from warpsight.caches.exact.simulate import simulate_caches
from warpsight.gpu.design import Design
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import gpc_of_sms, occupancy, resident_clusters
from warpsight.intervals.build import build_profile
from warpsight.intervals.interval_profile import LaunchShape
from warpsight.models.interval_model import waves_of
from warpsight.simulator.simulate import simulate_launch
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit


LOAD = "load.global.4 r0 <- q0\nint r1 <- r0"


def in_clusters(trace: KernelTrace, cluster: tuple[int, int, int], grid: tuple[int, int, int] | None = None) -> KernelTrace:
    """The trace as of a launch in clusters."""
    header = dataclasses.replace(trace.header, cluster=cluster, grid=grid or trace.header.grid, warp_instructions=100)
    return dataclasses.replace(trace, header=header)


def on(sms: int, gpcs: int = 0, **costs: float) -> Any:
    machine = gpu(sms)
    return dataclasses.replace(machine, gpc_count=gpcs, dispatch=dataclasses.replace(machine.dispatch, **costs))


# -- Which SMs form a GPC, and how many clusters fit.

@pytest.mark.parametrize(
    ("sms", "gpcs", "sizes"),
    [(132, 8, [18, 18] + 6 * [16]), (114, 8, [16] + 7 * [14]), (148, 8, [20, 20] + 6 * [18]), (170, 11, 8 * [16] + 3 * [14]),
     (6, 2, [4, 2]), (5, 0, [5])],
)  # fmt: skip
def test_pairs_of_sms_are_divided_evenly_among_gpcs(sms: int, gpcs: int, sizes: list[int]) -> None:
    assert np.bincount(gpc_of_sms(sms, gpcs)).tolist() == sizes


@pytest.mark.parametrize(("blocks", "clusters"), [(1, 132), (2, 66), (4, 32), (8, 16), (16, 8)])
def test_gpcs_of_an_h100_hold_whole_clusters(blocks: int, clusters: int) -> None:
    """With one block on an SM: two GPCs of 18 SMs and six of 16."""
    assert resident_clusters(load_gpu("h100-sxm"), 1, blocks) == clusters


def test_cluster_that_is_larger_than_a_gpc_is_refused() -> None:
    tiny = dataclasses.replace(load_gpu("h100-sxm"), sm_count=32)  # four SMs a GPC
    assert occupancy(tiny, 1024, 32, 0, 8).blocks_per_sm == 2
    with pytest.raises(UsageError, match="16 blocks does not fit on h100-sxm: 8 of these blocks fit on its largest GPC"):
        occupancy(tiny, 1024, 32, 0, 16)
    trace = in_clusters(loop("int r0 <- r0", 1, warps=4), (4, 1, 1))
    for simulate in (simulate_launch, simulate_caches):  # with a residency that the caller chooses
        with pytest.raises(UsageError, match="4 blocks does not fit on micro: 2 of these"):
            simulate(trace, on(4, 2), 1)


# -- The models: waves of the SMs that clusters can fill.

def test_waves_are_of_the_sms_that_clusters_can_fill() -> None:
    """264 blocks are two waves of 132. In clusters of four they are two waves of 128 and one of 8."""
    design = Design.of(load_gpu("h100-sxm"))
    plain, clustered = (waves_of(LaunchShape(264, 4, 1, cluster_blocks=n), design) for n in (1, 4))
    assert (plain.full.item(), plain.last_blocks.item(), plain.last_sms.item(), plain.imbalance.item()) == (1, 1, 132, 1)
    assert (clustered.full.item(), clustered.last_blocks.item(), clustered.last_sms.item()) == (2, 1, 8)
    assert clustered.imbalance.item() == pytest.approx(3 / 2)


# -- The simulator and the caches.

def test_cluster_waits_until_one_gpc_has_room_for_all_of_it() -> None:
    """Six SMs, GPCs of four and two: of four clusters of three blocks one runs at a time. Without clusters two waves are enough."""
    trace, machine = loop("int r0 <- r0", 50, warps=12), on(6, 2)
    alone = run(loop("int r0 <- r0", 50), on(1)).cycles
    waves = run(trace, machine).cycles
    assert waves == 2 * alone
    assert run(in_clusters(trace, (3, 1, 1)), machine).cycles == 4 * alone
    assert run(in_clusters(trace, (2, 1, 1)), machine).cycles == waves  # three clusters of two fill the GPCs


def test_cluster_waits_for_a_gpc_while_single_places_are_free() -> None:
    """Two SMs with two places: a cluster of four takes all of them, and the next waits for the slowest of its blocks."""
    work = [Warp(((0, 32, times),), ()) for times in (10, 10, 10, 100, 10, 10, 10, 10)]
    whole, first, second = (build_trace(["int r0 <- r0"], warps) for warps in (work, work[:4], work[4:]))
    long, short = (run(trace, on(2), blocks=2).cycles for trace in (first, second))
    assert run(whole, on(2), blocks=2).cycles == long  # the others use the three places that are free early
    assert run(in_clusters(whole, (4, 1, 1)), on(2), blocks=2).cycles == long + short


def test_blocks_of_clusters_leave_at_the_pace_of_the_gpu() -> None:
    """As without clusters: sixteen blocks, one every 2.5 cycles; the last leaves after 37, and issues a cycle later."""
    trace = in_clusters(loop("int r0 <- q0", 1, warps=16), (4, 1, 1))
    assert run(trace, on(16, 4, block_interval_ns=2.5)).cycles == 37 + 2


def columns() -> KernelTrace:
    """Blocks (0,0), (1,0), (0,1), (1,1), a warp each; a row of blocks loads the same line."""
    warps = [Warp(((0, 1, 1),), [[128 * line]]) for line in (0, 0, 64, 64)]
    return in_clusters(build_trace([LOAD], warps, chunk_blocks=1), (1, 1, 1), (2, 2, 1))


@pytest.mark.parametrize(("cluster", "misses"), [((1, 1, 1), 4), ((1, 2, 1), 2), ((2, 1, 1), 4)])
def test_blocks_of_a_cluster_are_side_by_side(cluster: tuple[int, int, int], misses: int) -> None:
    """Two SMs, a block each. Clusters of a column start blocks 0 and 2, then 1 and 3: either SM loads a line once and finds it."""
    trace = in_clusters(columns(), cluster)
    assert run(trace, on(2)).totals()["l1_misses"] == misses
    assert simulate_caches(trace, on(2), 1).l1_misses.sum() == misses


def test_clusters_go_to_gpcs_in_turn() -> None:
    """Four SMs in two GPCs, two blocks on each. Of clusters of two the first and the third are on one GPC, and their blocks on both
    of its SMs: either of them loads their line once."""
    warps = [Warp(((0, 1, 1),), [[128 * line]]) for line in (0, 0, 64, 64, 0, 0, 64, 64)]
    trace = in_clusters(build_trace([LOAD], warps), (2, 1, 1))
    assert run(trace, on(4, 2), blocks=2).totals()["l1_misses"] == simulate_caches(trace, on(4, 2), 2).l1_misses.sum() == 4


# -- Shared memory of other blocks.

@pytest.mark.parametrize(("cluster", "latency"), [((1, 1, 1), 24), ((2, 1, 1), 180)])
def test_load_from_another_block_takes_the_way_between_two_sms(cluster: tuple[int, int, int], latency: int) -> None:
    """Generic loads that wait for each other and touch shared memory alone: one pass through the banks, and no sector."""
    machine = dataclasses.replace(on(2), sm=dataclasses.replace(on(2).sm, cluster_latency_cycles=180))
    short, long = (
        in_clusters(build_trace(["load.generic.4 r0 <- r0"], [Warp(((0, 32, times),), [(0, 1)] * times)] * 2), cluster)
        for times in (10, 30)
    )
    assert run(long, machine).cycles - run(short, machine).cycles == 20 * latency
    profile = build_profile(long, simulate_caches(long, machine, 1), machine, occupancy(machine, 32, 32, 0))
    assert profile.stall_cycles.sum() == pytest.approx(29 * latency, rel=0.01)


def test_data_of_another_block_pass_at_the_width_of_the_network_between_sms() -> None:
    """Four warps store 30 times. A pass of 128 B takes the load-store unit a cycle, or eight at 16 B a cycle; a
    degree of two is two of them."""
    for width, degree, cycles in ((0, 1, 1), (16, 1, 8), (16, 2, 16)):
        machine = dataclasses.replace(on(2), sm=dataclasses.replace(on(2).sm, cluster_width_bytes=width))
        few, many = (
            in_clusters(build_trace(["store.generic.4 <- q0"], [Warp(((0, 32, n),), [(0, degree)] * n)] * 8, 4), (2, 1, 1))
            for n in (30, 60)
        )
        assert run(many, machine).cycles - run(few, machine).cycles == pytest.approx(4 * 30 * cycles, abs=2)
        profile = build_profile(many, simulate_caches(many, machine, 1), machine, occupancy(machine, 128, 32, 0))
        assert profile.demands is not None and profile.demands.l1_cycles == 60 * cycles


# -- Multicasts: what a block asks for arrives at the SMs of all blocks that it names.

MULTICASTS = r"""
extern "C" __global__ void __cluster_dims__(2) copies(const char* x, int rounds, int alone) {
    __shared__ alignas(128) char buffer[2][2048];
    __shared__ unsigned long long full;
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(&full);
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(barrier));
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(barrier), "r"(2048 * rounds * (alone ? 1 : 2)));
    }
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;");
    if (threadIdx.x == 0) {
        #pragma unroll 1
        for (int k = 0; k < rounds; ++k)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                         " [%0], [%1], 2048, [%2], %3;" :: "r"((unsigned)__cvta_generic_to_shared(buffer[rank])),
                         "l"(x + 2048 * (rounds * rank + k)), "r"(barrier), "h"((short)(alone ? 1 << rank : 3)) : "memory");
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(barrier));
    }
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;");
}
"""


def test_multicast_passes_the_ports_of_all_sms_that_it_is_for(tmp_path: Path) -> None:
    """Two blocks fetch 2 KiB a round. The port of an SM passes 64 B a cycle: its own 2 KiB, and with a multicast the other's.

    A block waits for the bytes that both bring.
    """
    (tmp_path / "copies.cu").write_text(MULTICASTS)
    wide = "noc.bandwidth=8985.6GB/s"  # slices that send 64 B a cycle are no limit
    overrides = ["dispatch.grid=0 cycles", "l2.far_latency=0 cycles", wide]
    machine = {"gpu": "h100-pcie", "overrides": overrides, "caches_before": "cold"}
    for alone, cycles in ((1, 32), (0, 64)):
        few, many = (
            warpsight.trace(tmp_path / "copies.cu", "copies", grid=2, block=32, args=[np.zeros(1 << 19, np.uint8), rounds, alone],
                            gpu="h100-pcie", level="ptx", arch="sm_90")
            for rounds in (32, 128)
        )  # fmt: skip
        for answer in (warpsight.predict, warpsight.simulate):
            assert (answer(many, **machine).cycles - answer(few, **machine).cycles) / 96 == pytest.approx(cycles, rel=0.01)
