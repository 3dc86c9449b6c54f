"""Do the blocks of a cluster run together, see each other's shared memory, and wait for each other, at both levels?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import LaunchFault, UsageError

KERNELS = Path(__file__).parent / "kernels" / "clusters.cu"
LEVELS = pytest.mark.parametrize("level", ["ptx", "sass"])


def run(kernel: str, grid: Any, block: int, args: list[Any], level: str = "ptx", **options: Any) -> warpsight.KernelTrace:
    limit = {"max_instructions": 1_000_000}
    return warpsight.trace(KERNELS, kernel, grid=grid, block=block, args=args, arch="90a", level=level, **limit, **options)


SHAPES = [((4, 4, 1), (2, 2, 1)), ((4, 2, 2), (2, 1, 2)), ((6, 1, 1), (3, 1, 1)), ((3, 2, 1), None), ((2, 1, 1), (1, 1, 1))]


@LEVELS
@pytest.mark.parametrize(("grid", "cluster"), SHAPES)
def test_special_registers_say_where_a_block_is_in_its_cluster(level: str, grid: Any, cluster: Any) -> None:
    out = np.zeros((*grid[::-1], 16), np.uint32)
    run("registers", grid, 32, [out], level, cluster=cluster)
    shape = np.array(cluster or (1, 1, 1))
    z, y, x = np.meshgrid(*(np.arange(n) for n in grid[::-1]), indexing="ij")
    blocks = np.stack([x, y, z], axis=-1)
    inside, clusters = blocks % shape, blocks // shape
    rank = inside[..., 0] + shape[0] * (inside[..., 1] + shape[1] * inside[..., 2])
    assert np.array_equal(out[..., 0], rank)
    assert np.array_equal(out[..., 2:5], inside) and np.array_equal(out[..., 8:11], clusters)
    everywhere = [shape.prod(), *shape, *(np.array(grid) // shape), cluster is not None]
    assert (out[..., [1, 5, 6, 7, 11, 12, 13, 14]] == np.array(everywhere)).all()


@LEVELS
@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_values_go_round_through_the_shared_memory_of_the_cluster(level: str, blocks: int) -> None:
    out = np.zeros((16, 64, 2), np.uint32)
    run("ring", 16, 64, [out, 3], level, cluster=blocks)
    b, i = np.arange(16)[:, None], np.arange(64)[None]
    source = b // blocks * blocks + (b - 3) % blocks
    assert np.array_equal(out[..., 0], 1000 * source + i)
    assert np.array_equal(out[..., 1], np.broadcast_to((b + 1) % blocks, (16, 64)))


@LEVELS
def test_lanes_of_one_atomic_reach_different_blocks(level: str) -> None:
    out = np.zeros((8, 32), np.uint32)
    run("count", 8, 64, [out], level, cluster=4)
    for block, row in enumerate(out):
        assert row[0] == 4 * sum(t for t in range(64) if t % 4 == block % 4)
        assert np.array_equal(row[1:], np.arange(1, 32) % 4)


@LEVELS
def test_other_blocks_arrive_and_complete_bytes_on_an_mbarrier(level: str) -> None:
    out = np.zeros(8, np.uint32)
    run("signals", 8, 64, [out], level, cluster=4)
    assert out.tolist() == [7, 100, 200, 300, 7, 500, 600, 700]


@LEVELS
def test_blocks_that_have_ended_do_not_count_at_the_clusters_barrier(level: str) -> None:
    out = np.zeros(4, np.uint32)
    run("leave_early", 4, 96, [out], level, cluster=2)
    assert out.tolist() == [0, 1, 0, 1]


def test_blocks_that_wait_for_each_other_without_end_are_a_deadlock() -> None:
    with pytest.raises(LaunchFault, match=r"every running thread of block \(0,0,0\) waits: warp 0 lanes 0-31 at barrier 1"):
        run("stuck", 4, 32, [np.zeros(4, np.uint32)], cluster=4)


@LEVELS
def test_a_rank_that_the_cluster_does_not_have_is_a_fault(level: str) -> None:
    with pytest.raises(LaunchFault, match=r"shared memory of a block that is not in the cluster .*rank 2"):
        run("beyond", 4, 32, [np.zeros(4, np.uint32)], level, cluster=2)


@LEVELS
def test_clusters_that_wait_for_each_other_are_there_together(level: str) -> None:
    flags = np.zeros(8, np.uint32)
    run("between", 16, 32, [flags], level, cluster=2)
    assert flags.all()


def test_a_kernel_is_launched_in_the_clusters_that_it_was_compiled_for() -> None:
    out = np.zeros(4, np.uint32)
    run("pairs", 4, 32, [out])
    assert out.tolist() == [0, 1, 0, 1]
    with pytest.raises(UsageError, match=r"the cluster is \(4,1,1\), and pairs is compiled for \(2,1,1\) only"):
        run("pairs", 4, 32, [out], cluster=4)


@pytest.mark.parametrize(("grid", "cluster", "why"), [
    (6, 4, r"6 blocks in x, not a multiple of the cluster's 4"), (32, 32, r"32 blocks, and ring may have 1 to 16"),
])  # fmt: skip
def test_a_cluster_that_does_not_fit_the_launch_is_refused(grid: int, cluster: int, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        run("ring", grid, 64, [np.zeros(16 * 128, np.uint32), 1], cluster=cluster)


def test_the_trace_of_a_launch_in_clusters_lists_blocks_in_their_order() -> None:
    """Of clusters of 2 x 2 the blocks of a row are not consecutive; each block has as many path entries as any other."""
    out = np.zeros((16, 16), np.uint32)
    trace = run("registers", (4, 4), 64, [out], cluster=(2, 2))
    chunks = list(trace.chunks)
    assert [chunk.first_warp for chunk in chunks] == sorted(chunk.first_warp for chunk in chunks)
    assert sum(len(chunk.path) for chunk in chunks) == 16 * 2
    first = [int(chunk.sectors[chunk.sector_offset[w]]) for chunk in chunks for w in range(len(chunk.path))]
    assert first == sorted(first)  # each block writes behind the one before


def test_checks_watch_launches_in_clusters() -> None:
    assert warpsight.check(KERNELS, "ring", grid=8, block=64, args=["u32[1024]:zeros", 3], arch="90a", cluster=4) == []


def test_a_launch_file_says_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "launch.yaml"
    file.write_text(f"source: {KERNELS}\nkernel: ring\ngrid: 8\nblock: 64\ncluster: 2\narch: 90a\nargs: ['u32[1024]:zeros', 1]\n")
    assert re.search("ring", warpsight.trace(file).header.kernel)
    file.write_text(file.read_text().replace("cluster: 2", "cluster: 3"))
    with pytest.raises(UsageError, match="not a multiple of the cluster's 3"):
        warpsight.trace(file)


STEALING = r"""
extern "C" __global__ void steal(int* done) {
    __shared__ alignas(16) unsigned answer[4];
    __shared__ unsigned long long full;
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(&full), place = (unsigned)__cvta_generic_to_shared(answer);
    unsigned more, next = 0, tile = blockIdx.x, rank, parity = 0;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    answer[threadIdx.x & 3] = 0xffffffff;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(barrier));
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;");
    do {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 16;" :: "r"(barrier));
            if (rank == 0)
                asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes FORM.b128 [%0], [%1];"
                             :: "r"(place), "r"(barrier) : "memory");
        }
        if (threadIdx.x == 0) atomicAdd(done + tile, 1);
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
                     :: "r"(barrier), "r"(parity));
        asm volatile("{ .reg .b128 r; .reg .pred p; ld.shared.b128 r, [%2];"
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r; selp.u32 %0, 1, 0, p;"
                     "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, r; }"
                     : "=r"(more), "+r"(next) : "r"(place) : "memory");
        tile = next + rank;
        parity ^= 1;
    } while (more);
}
"""


@pytest.mark.parametrize(("level", "cluster"), [("ptx", 2), ("sass", 2), ("sass", None)])
def test_blocks_that_ask_for_the_work_of_others_get_none_and_do_their_own(level: str, cluster: int | None, tmp_path: Path) -> None:
    """A leader asks for its cluster, and all blocks of it get the answer; their mbarriers wait for its bytes."""
    (tmp_path / "steal.cu").write_text(STEALING.replace(" FORM", ".multicast::cluster::all" if cluster else ""))
    done = np.zeros(8, np.int32)
    options: dict[str, Any] = {"arch": "100a", "level": level, "max_instructions": 100_000}
    warpsight.trace(tmp_path / "steal.cu", "steal", grid=8, block=32, args=[done], cluster=cluster, **options)
    assert done.tolist() == [1] * 8
