"""Are coalesced and compacted traces what they should be, checked against traces whose every access is known?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from explained import traces
from hypothesis import given
from hypothesis import strategies as st
from trace_by_hand import Warp, build_trace, sector_list

import warpsight
from warpsight.analysis.advice.divergence_rules import compacted, divergent_runs, partings
from warpsight.analysis.advice.memory_rules import coalesced
from warpsight.caches.exact.simulate import simulate_caches
from warpsight.gpu.loader import load_gpu
from warpsight.intervals.usage import occurrences, path_use
from warpsight.traces.events import EventReader
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

GPU = load_gpu("mdm-pascal")
LOAD_TWICE = ["int r0\nload.global.4 r1 <- r0\nstore.shared.4 <- r1\nload.global.4 r2 <- r0", "int r3 <- r2"]


def _lists(trace: KernelTrace, pc: int) -> list[list[int]]:
    """The sectors of each event of `pc`."""
    reader, found = EventReader(trace), []
    for chunk in trace.chunks:
        events = reader.read(chunk)
        for number in np.flatnonzero(events.pc == pc):
            first = events.first[number]
            found.append(chunk.sectors[first : first + events.sectors[number]].tolist())
    return found


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.lists(st.integers(0, 4000), min_size=1, max_size=32)), min_size=1, max_size=5
    ),
    st.integers(1, 3),
)
def test_events_read_are_those_that_were_written(warps: list[tuple[int, list[int]]], chunk_blocks: int) -> None:
    streams = []
    for repeat, bases in warps:
        accesses: list[list[int] | int] = []
        for turn in range(repeat):
            accesses += [[4 * (base + turn) for base in bases], 3, [4 * base + 128 * turn for base in bases]]
        streams.append(Warp(((0, len(bases), repeat), (1, 32, 1)), accesses))
    trace = build_trace(LOAD_TWICE, streams, chunk_blocks=chunk_blocks)
    for pc, place in ((1, 0), (3, 2)):
        wanted = [sector_list(warp.accesses[k], 4) for warp in streams for k in range(place, len(warp.accesses), 3)]  # type: ignore[arg-type]
        assert _lists(trace, pc) == wanted
    lanes = [int(n) for chunk in trace.chunks for n in EventReader(trace).read(chunk).lanes]
    assert lanes == [len(bases) for repeat, bases in warps for _ in range(3 * repeat)]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 32),
            st.lists(st.lists(st.integers(0, 3000), min_size=32, max_size=32), min_size=4, max_size=4),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sets(st.sampled_from([1, 3]), min_size=1),
)
def test_any_trace_coalesced_is_consistent_and_never_touches_more(
    warps: list[tuple[int, list[list[int]]]], pcs: set[int]
) -> None:
    streams = []
    for lanes, words in warps:
        first, second, third, fourth = ([4 * word for word in part[:lanes]] for part in words)
        streams.append(Warp(((0, lanes, 2),), [first, 2, second, third, 2, fourth]))
    trace = build_trace(LOAD_TWICE, streams)
    after = coalesced(trace, sorted(pcs), 128)
    for pc in (1, 3):
        lists = list(zip(_lists(trace, pc), _lists(after, pc), strict=True))
        for number, (before, found) in enumerate(lists):
            least = -(-warps[number // 2][0] * 4 // 32)
            if pc not in pcs:
                assert found == before
            else:
                assert len(found) == min(len(before), least)
                assert len({s // 4 for s in found}) <= max(1, -(-len(found) // 4))
    simulate_caches(after, GPU, 1)  # a trace that contradicts itself is a FormatError


def _strided(steps: int, passes: int = 1) -> KernelTrace:
    """Two warps whose lanes walk along a row of `steps` words each, row after row, `passes` times."""
    code = ["int r0\nload.global.4 r1 <- r0"]
    rows = [
        [[4 * (steps * (32 * warp + lane) + step) for lane in range(32)] for _ in range(passes) for step in range(steps)]
        for warp in range(2)
    ]
    return build_trace(code, [Warp(((0, 32, steps * passes),), accesses) for accesses in rows])


def test_strided_walk_coalesced_touches_the_same_amount_of_data_once() -> None:
    before, after = _strided(32), coalesced(_strided(32), [1], 128)
    assert [len(sectors) for sectors in _lists(before, 1)] == [32] * 64
    lists = _lists(after, 1)
    assert [len(sectors) for sectors in lists] == [4] * 64
    assert all(sectors == list(range(sectors[0], sectors[0] + 4)) and sectors[0] % 4 == 0 for sectors in lists)
    touched = [{s for sectors in found for s in sectors} for found in (_lists(before, 1), lists)]
    assert len(touched[0]) == len(touched[1]) == 2 * 32 * 4
    assert touched[0].isdisjoint(touched[1])


def test_second_pass_over_the_data_finds_what_the_first_one_touched() -> None:
    lists = _lists(coalesced(_strided(32, passes=2), [1], 128), 1)
    for warp in (lists[:64], lists[64:]):
        assert warp[:32] == warp[32:]
    misses = simulate_caches(coalesced(_strided(32, passes=2), [1], 128), GPU, 1, interleaving="round-robin")
    assert int(misses.l1_reads[1]) == 128
    assert int(misses.l1_misses[1]) == 64
    assert int(misses.l1_hits[1]) == 64


def test_access_that_is_coalesced_already_stays_where_it_is() -> None:
    code = ["int r0\nload.global.4 r1 <- r0"]
    straight = [[4 * (32 * k + lane) for lane in range(32)] for k in range(3)]
    trace = build_trace(code, [Warp(((0, 32, 4),), [*straight, [64] * 32])])
    assert _lists(coalesced(trace, [1], 128), 1) == _lists(trace, 1)


def test_other_instructions_keep_their_sectors() -> None:
    warp = Warp(((0, 32, 2), (1, 32, 1)), [[512 * k for k in range(32)], 5, [1024 * k for k in range(32)]] * 2)
    trace = build_trace(LOAD_TWICE, [warp, warp])
    after = coalesced(trace, [1], 128)
    assert _lists(after, 3) == _lists(trace, 3)
    assert {len(sectors) for sectors in _lists(after, 1)} == {4}
    degrees = [int(chunk.events[at]) for chunk in after.chunks for at in EventReader(after).read(chunk).byte[1::3]]
    assert degrees == [5] * 4
    simulate_caches(after, GPU, 1)  # consistent: anything else is a FormatError


def test_fewer_lanes_need_fewer_sectors() -> None:
    trace = build_trace(["load.global.8 r1"], [Warp(((0, 5, 1),), [[4096 * k for k in range(5)]])])
    # 5 lanes of 8 bytes: 40 bytes, 2 sectors
    assert [len(sectors) for sectors in _lists(coalesced(trace, [0], 128), 0)] == [2]


def test_coalesced_row_sum_is_predicted_as_its_transposed_twin(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        """__global__ void rows(const float* m, float* s, int n, int columns) {
             int row = blockIdx.x * blockDim.x + threadIdx.x; float t = 0;
             for (int c = 0; c < columns; c++) t += m[INDEX];
             s[row] = t;
           }"""
    )
    made = {}
    for name, index in (("by row", "row * columns + c"), ("transposed", "c * n + row")):
        args = [np.zeros((8192, 64), np.float32), np.zeros(8192, np.float32), 8192, 64]
        made[name] = warpsight.trace(source, grid=32, block=256, args=args, defines=[f"INDEX={index}"])
    loads = [i.pc for i in made["by row"].instructions if i.has_sectors and i.access == "load"]
    traces_of_both = (coalesced(made["by row"], loads, 128), made["transposed"])
    rewritten, twin = (warpsight.predict(trace, model="mdm") for trace in traces_of_both)
    assert rewritten.cycles == pytest.approx(twin.cycles, rel=0.05)
    assert warpsight.predict(made["by row"], model="mdm").cycles > 3 * twin.cycles


def test_threads_that_agree_do_the_same_work_with_whole_warps(tmp_path: Path) -> None:
    trace = traces(tmp_path)["odd_and_even"]
    misses = simulate_caches(trace, GPU, 4)
    (part,) = partings(trace)
    assert part.needed == part.executed / 2  # odd lanes on one side, even ones on the other
    after, counts = compacted(trace, misses, part.block)
    executed = [occurrences(t, path_use(t)[0]) for t in (trace, after)]
    assert executed[0].sum() - executed[1].sum() == part.executed - part.needed
    assert after.header.warp_instructions == executed[1].sum()
    # each side of the branch is run by half the warps, both by all of them together
    behind = set(np.unique(trace.paths.block[divergent_runs(trace) >= 0]).tolist())
    for block in range(len(trace.block_start) - 1):
        pc = int(trace.block_start[block])
        assert executed[1][pc] == executed[0][pc] / (2 if block in behind else 1)
    assert (counts.l1_reads == misses.l1_reads).all()
    assert (divergent_runs(after) < 0).all()


def test_events_left_are_those_of_the_executions_left() -> None:
    # the branch of block 0 sends half the lanes to block 1, the rest to block 2; all meet again in block 3
    code = ["int r0\nload.global.4 r1 <- r0\nbranch <- r1", "load.global.4 r2 <- r0", "store.shared.4 <- r0"]
    code.append("load.global.4 r3 <- r0")
    path = ((0, 32, 1), (1, 16, 1), (2, 16, 1), (3, 32, 1))
    warps = [Warp(path, [[128 * w], [4096 + 128 * w], 7, [8192 + 128 * w]]) for w in range(16)]
    trace = build_trace(code, warps, chunk_blocks=5)
    trace = replace(trace, header=replace(trace.header, warp_instructions=16 * 6))
    misses = simulate_caches(trace, GPU, 1)
    (part,) = partings(trace)
    after, counts = compacted(trace, misses, part.block)
    assert after.header.warp_instructions == 16 * 5
    # of the 16 warps 8 run either side, and each keeps its own access
    kept = {pc: [sectors[0] for sectors in _lists(after, pc)] for pc in (1, 3, 5)}
    assert kept[1] == [4 * w for w in range(16)]
    assert kept[5] == [256 + 4 * w for w in range(16)]
    assert len(kept[3]) == 8
    assert set(kept[3]) < {128 + 4 * w for w in range(16)}
    again = simulate_caches(after, GPU, 1)  # a trace that contradicts itself is a FormatError
    assert again.executions.tolist() == [0, 16, 0, 8, 0, 16] == counts.executions.tolist()
    assert again.shared_passes[4] == 7 * 8 == counts.shared_passes[4]
    assert counts.l1_reads[3] == 16


def test_warps_whose_lanes_stay_together_have_no_parting(tmp_path: Path) -> None:
    assert partings(traces(tmp_path)["row_sum"]) == []
