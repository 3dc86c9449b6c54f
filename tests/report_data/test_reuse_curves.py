"""Are the hits of a reuse curve those of a plain LRU list, instruction by instruction?"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.analysis.report_data.loads import MOST_STEPS, curve, reuse_curves
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import trace_kernel

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void lookups(const float* in, const int* table, float* out, int turns) {
  int warp = threadIdx.x / 32;
  float sum = 0.0f;
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) sum += in[32 * table[warp * turns + turn]];
  out[threadIdx.x] = sum;
}
"""
WARPS, TURNS = 4, 40


def naive(lines: list[tuple[str, int]]) -> dict[str, list[int]]:
    """Distances of a list of (what asks, line) in one LRU list; -1 for first uses."""
    stack: list[int] = []
    found: dict[str, list[int]] = defaultdict(list)
    for name, line in lines:
        found[name].append(stack.index(line) if line in stack else -1)
        if line in stack:
            stack.remove(line)
        stack.insert(0, line)
    return found


def test_curves_of_two_loads_are_those_of_one_lru_list_that_they_share(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("lookups")
    table = np.random.default_rng(3).integers(0, 24, WARPS * TURNS).astype(np.int32)
    np.save(folder / "table.npy", table)
    (folder / "lookups.cu").write_text(SOURCE)
    request = KernelRequest(
        str(folder / "lookups.cu"), grid=1, block=32 * WARPS,
        args=(f"f32[{32 * 24}]:uniform", f"@{folder / 'table.npy'}", f"f32[{32 * WARPS}]:zeros", TURNS),
    )  # fmt: skip
    trace, gpu = trace_kernel(request), load_gpu("mdm-pascal")
    reads = [i.pc for i in trace.instructions if i.access == "load" and i.has_sectors]
    assert len(reads) == 2
    # each warp in turn does one access: all read the table, then all read what it says
    order = []
    for turn in range(TURNS):
        places = [warp * TURNS + turn for warp in range(WARPS)]
        order += [("table", 1000 + place // 32) for place in places] + [("in", int(table[place])) for place in places]
    wanted = naive(order)
    curves, note = reuse_curves(trace, gpu, 4, reads, len(order))
    assert note == ""
    for pc, name in zip(reads, ("table", "in"), strict=True):
        found = curves[pc]
        distances = wanted[name]
        assert found["requests"] == len(distances)
        assert found["first_uses"] == distances.count(-1)
        for lines, share in zip(found["capacities"], found["hit_shares"], strict=True):
            hits = sum(0 <= distance < lines for distance in distances)
            assert share == pytest.approx(hits / len(distances), abs=1e-5), (name, lines)
        assert gpu.l1.size_bytes // gpu.l1.line_bytes in found["capacities"]


@given(st.lists(st.integers(-1, 300), min_size=1, max_size=400), st.integers(1, 500))
def test_curve_counts_the_distances_below_each_capacity(distances: list[int], lines: int) -> None:
    found = curve(np.array(distances), lines)
    assert lines in found["capacities"]
    assert len(found["capacities"]) <= MOST_STEPS + 2
    assert found["capacities"] == sorted(set(found["capacities"]))
    for capacity, share in zip(found["capacities"], found["hit_shares"], strict=True):
        assert share == pytest.approx(sum(0 <= d < capacity for d in distances) / len(distances), abs=1e-5)
    assert found["hit_shares"][-1] == pytest.approx(1 - distances.count(-1) / len(distances), abs=1e-5)


def test_lines_that_hold_no_whole_sector_have_no_curve() -> None:
    from dataclasses import replace

    gpu = load_gpu("mdm-pascal")
    odd = replace(gpu, l1=replace(gpu.l1, line_bytes=48, sector_bytes=48))
    trace = object()
    assert reuse_curves(trace, odd, 1, [0], 1)[0] == {}  # type: ignore[arg-type]
