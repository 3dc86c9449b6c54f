"""Does the interval algorithm follow eq. 4 of GPUMech?"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_programs import issue_cycles, load, op, trace

from warpsight.intervals.algorithm import PathIntervals, PathStats, dependences, path_intervals, path_stats, steps
from warpsight.traces.schema import KernelTrace, StaticInstruction

pytestmark = pytest.mark.unit


def _stats(launched: KernelTrace, latency: list[float]) -> PathStats:
    return path_stats(launched, steps(launched.instructions, launched.block_start), np.array(latency))


def _intervals(launched: KernelTrace, latency: list[float], path: int = 0) -> PathIntervals:
    columns = np.arange(len(launched.instructions), dtype=np.float64)[:, None]
    return path_intervals(launched, path, dependences(launched.instructions), np.array(latency), columns)


def test_stall_of_a_dependent_pair_at_latency_4_is_4_cycles() -> None:
    # issue 0, done 4, so the second issues in cycle 5: cycles 1 to 4 are stall
    launched = trace((op(0, (1,)), op(1, (2,), (1,))), [0, 2], [[(0, 1)]], [0])
    found = _intervals(launched, [4.0, 4.0])
    assert found.instructions.tolist() == [1, 1]
    assert found.stall_cycles.tolist() == [4, 0]
    assert found.pc.tolist() == [0, -1]
    assert _stats(launched, [4.0, 4.0]).cycles.tolist() == [6]


def test_stall_with_three_independent_instructions_between_is_1_cycle() -> None:
    program = (op(0, (1,)), op(1, (5,)), op(2, (6,)), op(3, (7,)), op(4, (2,), (1,)))
    launched = trace(program, [0, 5], [[(0, 1)]], [0])
    found = _intervals(launched, [4.0] * 5)
    assert (found.instructions.tolist(), found.stall_cycles.tolist()) == ([4, 1], [1, 0])
    # the column adds the pc of each instruction: 0 + 1 + 2 + 3 and 4
    assert found.sums[:, 0].tolist() == [6, 4]


def test_latency_0_between_dependent_instructions_never_stalls() -> None:
    launched = trace((op(0, (1,)), op(1, (1,), (1,))), [0, 2], [[(0, 50)]], [0])
    assert len(_intervals(launched, [0.0, 0.0]).instructions) == 1
    assert _stats(launched, [0.0, 0.0]).cycles.tolist() == [100]


def test_figure_6_of_gpumech_only_the_awaited_load_ends_an_interval() -> None:
    # i3 is long and i5 needs it; nothing depends on i1, i2, i4
    program = (op(0, (1,)), op(1, (2,)), load(2, (3,)), op(3, (4,)), op(4, (5,), (3,)), op(5, (6,)))
    found = _intervals(trace(program, [0, 6], [[(0, 1)]], [0]), [4.0, 4.0, 25.0, 4.0, 4.0, 4.0])
    # i3 issues in 2 and is done in 27; i4 issues in 3, i5 in 28: 24 stall cycles
    assert found.instructions.tolist() == [4, 2]
    assert found.stall_cycles.tolist() == [24, 0]
    assert found.pc.tolist() == [2, -1]


def test_loop_carried_dependence_repeated_a_thousand_times_stalls_in_each_round() -> None:
    launched = trace((op(0, (1,), (1,)), op(1, (), (), "branch")), [0, 2], [[(0, 1000)]], [0])
    # round k issues 5 cycles after round k - 1; the first finds its register ready
    assert _stats(launched, [4.0, 0.0]).cycles.tolist() == [999 * 5 + 2]
    found = _intervals(launched, [4.0, 0.0])
    assert len(found.instructions) == 1000
    assert set(found.stall_cycles[:-1].tolist()) == {3.0}


def test_instructions_of_paths_with_repeats_are_all_counted() -> None:
    program = tuple(op(pc) for pc in range(7))
    launched = trace(program, [0, 3, 7], [[(0, 2), (1, 5)], [], [(1, 1)]], [0, 2])
    found = _stats(launched, [4.0] * 7)
    assert found.instructions.tolist() == [26, 0, 4]
    assert found.cycles.tolist() == [26, 0, 4]


_registers = st.integers(0, 6)
_instruction = st.tuples(st.lists(_registers, max_size=3, unique=True), st.lists(_registers, max_size=6))
_latency = st.integers(0, 80).map(lambda eighths: Fraction(eighths, 8))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(_instruction, _latency), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=8),
)
def test_walk_of_any_program_equals_equation_4_word_for_word(
    program: list[tuple[tuple[list[int], list[int]], Fraction]], path: list[tuple[int, int]]
) -> None:
    instructions = tuple(op(pc, tuple(writes), tuple(reads)) for pc, ((writes, reads), _) in enumerate(program))
    latency = [cycles for _, cycles in program]
    size = len(instructions)
    blocks = [0, size // 3, 2 * size // 3, size]
    launched = trace(instructions, blocks, [path], [0])
    stream: list[StaticInstruction] = []
    for block, times in path:
        stream += list(instructions[blocks[block] : blocks[block + 1]]) * times
    if not stream:
        return
    issued, waited = issue_cycles(stream, latency)
    gaps = [after - before - 1 for before, after in pairwise(issued)]
    ends = [k for k, gap in enumerate(gaps) if gap > 0]
    found = _intervals(launched, [float(cycles) for cycles in latency])
    assert found.stall_cycles.tolist() == [*(float(gaps[k]) for k in ends), 0.0]
    assert found.pc.tolist() == [*(waited[k + 1] for k in ends), -1]
    assert found.instructions.tolist() == np.diff([-1, *ends, len(stream) - 1]).tolist()
    assert found.sums.sum() == sum(instruction.pc for instruction in stream)
    assert _stats(launched, [float(cycles) for cycles in latency]).cycles.tolist() == [float(issued[-1] + 1)]
