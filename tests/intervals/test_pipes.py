"""What do instructions of machine code demand of the pipes of a scheduler and of the load-store unit? Worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_programs import LATENCIES, gpu, load, misses, op, trace

from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.algorithm import path_stats, steps
from warpsight.intervals.blocks import blocks_alone
from warpsight.intervals.demands import busiest_on_path, cycles_alone, demands_of
from warpsight.intervals.usage import l1_cycles
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit


def machine(fp32: int = 1, imad: int = 2, **sm: int) -> GpuSpec:
    plain = gpu(latency_cycles=LATENCIES | {"imad": 4}, initiation_cycles={"int": 2, "fp32": fp32, "imad": imad})
    return replace(plain, sm=replace(plain.sm, **sm))


def program(*classes: str) -> KernelTrace:
    """One warp with an independent instruction of each class."""
    code = tuple(op(pc, (pc,), (), each) for pc, each in enumerate(classes))
    return trace(code, [0, len(code)], [[(0, 1)]], [0])


def unit_cycles(launched: KernelTrace, on: GpuSpec) -> float:
    count = len(launched.instructions)
    stats = path_stats(launched, steps(launched.instructions, launched.block_start), np.ones(count))
    times = np.ones(count, dtype=np.int64)
    alone = np.ones(1, dtype=np.int64)
    return demands_of(launched, misses(count), on, stats, alone, times, 0.0, 1, np.zeros(1)).unit_cycles


@pytest.mark.parametrize(
    ("fp32", "imads", "others", "cycles"),
    [
        (1, 3, 0, 6),  # half of the pipe, two cycles each
        (1, 3, 9, 6),  # 12 instructions in 12 issue slots; the half is busy for 6
        (2, 3, 9, 24),  # one pipe for both
        (2, 3, 0, 6),
    ],
)
def test_multiply_adds_of_integers_share_the_pipe_of_single_precision(fp32: int, imads: int, others: int, cycles: float) -> None:
    launched = program(*["imad"] * imads, *["fp32"] * others)
    assert unit_cycles(launched, machine(fp32)) == cycles


def test_busiest_resource_of_a_path_counts_both() -> None:
    cycles, schedulers = busiest_on_path(program("imad", "imad", "fp32"), machine(2), np.zeros(3), np.ones(3, dtype=np.int64))
    assert (cycles.tolist(), schedulers) == ([6], 1)


@pytest.mark.parametrize(
    ("classes", "fp32", "cycles"),
    [
        (("imad", "imad", "imad"), 1, 5), (("imad", "fp32", "imad"), 1, 3), (("imad", "fp32", "imad"), 2, 5),
        (("imad", "int", "fp32"), 2, 3),
    ],
)
def test_warp_alone_waits_for_the_pipe_that_another_class_occupies(classes: tuple[str, ...], fp32: int, cycles: float) -> None:
    """The last instruction issues at `cycles` - 1."""
    launched = program(*classes)
    walked = steps(launched.instructions, launched.block_start)
    assert float(cycles_alone(launched, walked, np.full(3, 4.0), np.zeros(3), machine(fp32))[0][0]) == cycles


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_load_takes_the_cycles_in_which_its_lines_are_looked_up(level: str) -> None:
    launched = trace((load(0, (0,)), load(1, (1,))), [0, 2], [[(0, 10)]], [0])
    counts = misses(2, executions={0: 10, 1: 10}, l1_reads={0: 80, 1: 80}, tag_cycles={0: 20, 1: 80}, sectors={0: 80, 1: 80})
    assert l1_cycles(replace(launched, header=replace(launched.header, level=level)), counts, machine()).tolist() == [20, 80]


@pytest.mark.parametrize(
    ("sm", "whole", "word", "passes", "lanes"),
    [
        ({}, 10, 10, 15, 15 + 80),
        ({"access_interval_cycles": 2}, 20, 20, 20, 15 + 80),  # 10 instructions
        ({"access_interval_cycles": 2, "access_width_bytes": 64}, 20, 20, 30, 30 + 80),
        ({"access_width_bytes": 32}, 40, 10, 60, 60 + 80),
    ],
)
def test_load_store_unit_takes_as_long_as_instructions_and_their_data(
    sm: dict[str, int], whole: float, word: float, passes: float, lanes: float
) -> None:
    """Ten loads of whole lines (4 sectors), ten of one sector, and ten accesses to shared memory of 15 passes in all.

    `lanes`: these accesses, as atomics with 40 further lanes at the same address of two cycles each.
    """
    code = (load(0, (0,)), load(1, (1,)), load(2, (2,), space="shared"))
    launched = trace(code, [0, 3], [[(0, 10)]], [0])
    ten = {0: 10, 1: 10}
    counts = misses(
        3, executions=ten, l1_reads=ten, sectors={0: 40, 1: 10}, shared_executions={2: 10}, shared_passes={2: 15}
    )
    on = machine(**sm)
    on = replace(on, l1=replace(on.l1, sector_bytes=32))
    sass = replace(launched, header=replace(launched.header, level="sass"))
    assert l1_cycles(sass, counts, on).tolist() == [whole, word, passes]
    assert l1_cycles(launched, counts, on).tolist() == [10, 10, 15]  # at the level of PTX
    shared = replace(counts, shared_repeats=np.array([0, 0, 40]))
    on = replace(on, sm=replace(on.sm, atomic_lane_cycles=2))
    assert l1_cycles(sass, shared, on).tolist() == [whole, word, lanes]
    assert l1_cycles(launched, shared, on).tolist() == [10, 10, 15 + 80]


def test_copies_have_the_tags_and_the_data_path_one_after_the_other() -> None:
    """Ten copies of 512 B from 8 lines each, and ten accesses to shared memory: the cycles are those of the busier stage."""
    code = (replace(load(0, ()), opcode="LDGSTS.E.BYPASS.128", access_bytes=16), load(1, (1,), space="shared"))
    launched = trace(code, [0, 2], [[(0, 10)]], [0])
    for passes, cycles in ((80, [40.0, 80.0]), (10, [80.0, 0.0])):
        counts = misses(
            2, executions={0: 10}, l1_reads={0: 80}, sectors={0: 160}, shared_executions={1: 10}, shared_passes={1: passes}
        )
        assert l1_cycles(launched, counts, machine()).tolist() == cycles


def test_warps_of_a_block_are_served_one_after_the_other_by_each_unit() -> None:
    """Eight warps on four schedulers. Of two instructions each for a pipe that takes a warp every 2 cycles, the fourth of a
    scheduler issues at 6. Of two accesses of four passes each, the last of 16 begins after 15 x 4 cycles, and is used 24 later."""
    on = machine(2, schedulers=4)
    pipe = trace(program("fp32", "fp32").instructions, [0, 2], [[(0, 1)]], [0] * 8, warps_per_block=8)
    walked = steps(pipe.instructions, pipe.block_start)
    assert blocks_alone(pipe, walked, np.full(2, 4.0), np.zeros(2), on).cycles == 6 + 1
    code = (load(0, (0,), space="shared"), load(1, (1,), space="shared"), op(2, (2,), (1,), "fp32"))
    reads = trace(code, [0, 3], [[(0, 1)]], [0] * 8, warps_per_block=8)
    walked = steps(reads.instructions, reads.block_start)
    assert blocks_alone(reads, walked, np.array([24.0, 24.0, 4.0]), np.array([4.0, 4.0, 0.0]), on).cycles == 60 + 24 + 1
