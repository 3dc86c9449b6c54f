"""Does the first read from the other partition of the L2 take longer, in the caches, the simulator and the models?

Slices 0 and 1 of four are near to SMs 0, 2, ..., slices 2 and 3 to SMs 1, 3, ...; lines 0 and 1 are in slice 0, 4 and 5 in slice 2.
"""

from __future__ import annotations

import dataclasses

import pytest
from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight import predict, profile, simulate
from warpsight.addressing.mapping import HASH, slice_of_line
from warpsight.caches.exact.simulate import CacheSimulation, simulate_caches
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.simulator.simulate import simulate_launch
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

LOAD = "load.global.4 r1 <- r0\nint r0 <- r1"
STORE = "store.global.4 <- r0\nmembar"
NEAR, FAR, DRAM = 120, 150, 220
FAST = 1e15  # of a port that never delays


def two_partitions(sms: int = 2, far: int = FAR) -> GpuSpec:
    """Each L1 holds one line; the L2 4 slices, 64 KiB."""
    gpu = small_gpu(sms, {"size_bytes": 128, "ways": 1}, {"size_bytes": 1 << 16, "slices": 4, "far_latency_cycles": far})
    fast = {part: dataclasses.replace(getattr(gpu, part), bandwidth_bytes_per_s=FAST) for part in ("noc", "dram")}
    return dataclasses.replace(gpu, latency_cycles=gpu.latency_cycles | {"membar": 1}, **fast)


def warps(*streams: str) -> KernelTrace:
    """A block of one warp, and so an SM, for each stream: `0` loads line 0, `w0` writes a word of it; each waits for the last."""
    made = []
    for stream in streams:
        steps = stream.split()
        path = tuple((1 if step[0] == "w" else 0, 1, 1) for step in steps)
        made.append(Warp(path, [[128 * int(step.strip("w"))] for step in steps]))
    return build_trace([LOAD, STORE], made)


def found(trace: KernelTrace, gpu: GpuSpec, *names: str) -> list[int]:
    totals = simulate_caches(trace, gpu, 1, warm=True).totals()
    return [totals[name] for name in names]


def simulated(trace: KernelTrace, gpu: GpuSpec) -> tuple[int, int]:
    """Cycles, and hits in the other partition, in the simulator."""
    run = simulate_launch(trace, gpu, 1, warm=True)
    return run.cycles, run.totals()["l2_far_hits"]


@pytest.mark.parametrize("interleaving", ["clocked", "round-robin"])
def test_does_a_hit_count_by_the_partition_of_the_sm(interleaving: str) -> None:
    trace = warps("0 1 4", "0 4 5")
    profile = simulate_caches(trace, two_partitions(), 1, interleaving=interleaving, warm=True)
    # SM 0 finds line 4 in the other partition, SM 1 line 0
    assert profile.l2_read_hits.sum() == profile.slowest_l2.sum() == 6
    assert profile.l2_far_hits.sum() == profile.slowest_far.sum() == 2


def test_does_the_second_read_find_the_copy() -> None:
    trace = warps("4 0 4")
    assert found(trace, two_partitions(), "l2_read_hits", "l2_far_hits") == [3, 1]
    assert simulated(trace, two_partitions())[1] == 1


def test_is_the_copy_there_for_other_sms_of_the_partition() -> None:
    """SM 2 reads line 4 long after SM 0, which the same partition is near to."""
    trace = warps("4", "5", "0 1 0 4")
    assert found(trace, two_partitions(3), "l2_far_hits") == [1]
    assert simulated(trace, two_partitions(3))[1] == 1


def test_do_reads_at_the_same_time_wait_for_the_same_copy() -> None:
    trace = warps("4", "5", "4")
    assert found(trace, two_partitions(3), "l2_far_hits") == [2]
    assert simulated(trace, two_partitions(3))[1] == 2


@pytest.mark.parametrize(("stream", "far"), [("4 w4 0 4", 2), ("4 w0 0 4", 1)])
def test_does_a_write_drop_the_copy_of_its_line(stream: str, far: int) -> None:
    trace = warps(stream)
    assert found(trace, two_partitions(), "l2_far_hits") == [far]
    assert simulated(trace, two_partitions())[1] == far


def test_does_an_atomic_go_to_the_partition_of_its_line_each_time() -> None:
    trace = build_trace(["atomic.global.4 r1 <- r0\nint r0 <- r1"], [Warp(((0, 1, 3),), [[4 * 128]] * 3)])
    assert found(trace, two_partitions(), "l2_far_hits") == [3]
    assert simulated(trace, two_partitions())[1] == 3


def test_does_a_miss_take_the_mean_latency_and_bring_the_copy() -> None:
    """Cold: SM 0 misses on line 4 as it does on line 0, and then finds the copy."""
    trace, gpu = warps("4 0 4"), two_partitions()
    totals = simulate_caches(trace, gpu, 1).totals()
    assert (totals["slowest_dram"], totals["l2_read_hits"], totals["l2_far_hits"]) == (2, 1, 0)
    cold = [simulate_launch(trace, each, 1).cycles for each in (gpu, two_partitions(far=0))]
    assert cold[0] == cold[1]


@pytest.mark.parametrize(("stream", "further"), [("0", 0), ("4", FAR), ("4 0 4", FAR), ("4 0 5 1", 2 * FAR)])
def test_how_much_longer_is_a_chain_of_loads(stream: str, further: int) -> None:
    """In the simulator to the cycle."""
    trace = warps(stream)
    with_two, with_one = simulated(trace, two_partitions()), simulated(trace, two_partitions(far=0))
    assert with_two[0] - with_one[0] == further


def test_do_near_replies_pass_far_ones_in_the_simulator() -> None:
    """One warp with a far and a near load at the same time: the near one's data is used first."""
    code = "load.global.4 r0 <- q0\nload.global.4 r1 <- q1\nint u1 <- r1\nint u0 <- r0"
    trace = build_trace([code], [Warp(((0, 1, 1),), [[4 * 128], [0]])])
    gpu = dataclasses.replace(two_partitions(), l1=dataclasses.replace(two_partitions().l1, size_bytes=512, ways=2))
    timeline = simulate_launch(trace, gpu, 1, warm=True, watch_sm=0).timeline
    assert timeline is not None
    assert (timeline.issued - timeline.issued[0]).tolist() == [0, 1, 1 + NEAR, NEAR + FAR]


def test_does_the_next_launch_find_data_but_no_copies() -> None:
    simulation = CacheSimulation(warps("4 0 4"), two_partitions(), 1)
    left = simulation.run()[1]
    profile = simulation.run(left)[0]
    assert (profile.l2_read_hits.sum(), profile.l2_far_hits.sum()) == (3, 1)


def test_is_a_chain_of_loads_on_an_a100_longer_by_those_in_the_other_partition() -> None:
    """One warp on SM 0 follows a chain through 200 lines, each read once."""
    lines = [37 * k for k in range(200)]
    made = build_trace([LOAD], [Warp(((0, 1, len(lines)),), [[128 * line] for line in lines])])
    trace = dataclasses.replace(made, header=dataclasses.replace(made.header, warp_instructions=2 * len(lines)))
    l2 = load_gpu("a100").l2
    per_piece = l2.slice_interleave_bytes // l2.line_bytes
    away = sum(2 * slice_of_line(line, per_piece, l2.slices, HASH) >= l2.slices for line in lines)
    assert 60 < away < 140
    for engine in (predict, simulate):
        near = engine(trace, gpu="a100", overrides=["l2.far_latency=0cycles"], caches_before="warm")
        longer = engine(trace, gpu="a100", caches_before="warm").cycles - near.cycles
        assert longer == pytest.approx(away * l2.far_latency_cycles, rel=0.01), engine


def test_which_gpus_have_two_partitions() -> None:
    two = {"a100", "a100-80gb", "h100-pcie", "h100-sxm", "h200", "b200"}
    for name in (*two, "rtx4090", "v100", "mdm-pascal"):
        assert (load_gpu(name).l2.far_latency_cycles > 0) == (name in two), name


# -- Reads of several SMs that a slice answers together.

@pytest.mark.parametrize(("most", "joins"), [(1, 0), (2, 3), (4, 4), (8, 5)])
def test_how_many_reads_of_a_line_join_one_on_its_way(most: int, joins: int) -> None:
    """Six SMs read line 0 at a time: in pairs three reads join, in fours three and one."""
    gpu = dataclasses.replace(two_partitions(6, far=0), l2=dataclasses.replace(two_partitions(6, far=0).l2, merged_reads=most))
    assert found(warps(*["0"] * 6), gpu, "l2_reads", "l2_joins") == [6, joins]


def test_reads_join_none_of_another_line_none_whose_data_has_come_and_no_atomic() -> None:
    gpu = dataclasses.replace(two_partitions(far=0), l2=dataclasses.replace(two_partitions(far=0).l2, merged_reads=8))
    assert found(warps("0", "4"), gpu, "l2_joins") == [0]
    assert found(warps("0 1", "1 0 4"), gpu, "l2_joins") == [0]  # each line by one SM, and then long after that by the other
    atomic = build_trace(["atomic.global.4 r1 <- r0\nint r0 <- r1"], [Warp(((0, 1, 1),), [[0]]), Warp(((0, 1, 1),), [[0]])])
    assert found(atomic, gpu, "l2_reads", "l2_joins") == [2, 0]


def test_joined_reads_pass_the_slice_once_and_the_port_of_each_sm() -> None:
    """Three of four reads of a sector join: 32 B of the slice for four warps, and the other 96 B come beside that."""
    trace = build_trace([LOAD], [Warp(((0, 1, 1),), [[0]])] * 4)
    counted = dataclasses.replace(trace, header=dataclasses.replace(trace.header, warp_instructions=8))
    demands = profile(counted, gpu="h100-sxm", caches_before="warm").demands
    assert demands is not None
    assert (demands.fetched_bytes, demands.multicast_bytes, demands.slice_accesses) == (8, 24, 0.25)
