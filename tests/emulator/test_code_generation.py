"""Does a kernel do the same however its machine code is made: all in line, all in functions, fully optimised or quickly?"""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch, whole

from warpsight.emulator.codegen import kernel_builder as budget
from warpsight.emulator.codegen.kernel_builder import blocks_in_line, loop_depths
from warpsight.isa.ptx.cfg import build_cfg
from warpsight.isa.ptx.parser import parse_module
from warpsight.kernels.sources import load_source
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit
LENGTH_DECIDES = budget.is_quick  # without what tests/conftest.py makes of it


@pytest.fixture(autouse=True)
def _length_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only long kernels are made quickly."""
    monkeypatch.setattr(budget, "is_quick", LENGTH_DECIDES)


SOURCE = """
extern "C" __global__ void mixed(const float* a, const int* where, float* out, int n)
{
    __shared__ float tile[128];
    __shared__ double wide[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float own[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    tile[threadIdx.x] = a[i];
    wide[threadIdx.x / 2] = i;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < (i & 7); ++k) {
        own[(k + i) & 3] += tile[(threadIdx.x * 3 + k) & 127];
        if (where[i] > k)
            sum += a[(where[i] + k * 17) % n];
        else
            atomicAdd(&out[i], 0.5f);
    }
    for (int k = 0; k < 4; ++k) sum += own[k] + (float)wide[(k * 5 + threadIdx.x) & 63];
    if (i < n) out[i] += sum;
}
"""
NESTED = """.version 7.0
.target sm_75
.address_size 64
.visible .entry k()
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    mov.u32 %r0, 0;
OUTER:
    mov.u32 %r1, 0;
INNER:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, 4;
    @%p bra INNER;
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p, %r0, 4;
    @%p bra OUTER;
    ret;
}
"""


def run_mixed() -> tuple[np.ndarray, KernelTrace]:
    generator = np.random.default_rng(3)
    a, where = generator.random(512, np.float32), generator.integers(0, 9, 512).astype(np.int32)
    out = np.zeros(512, np.float32)
    trace = launch(load_source(SOURCE, name="mixed.cu"), "mixed", (4, 1, 1), (128, 1, 1), [a, where, out, np.int32(500)])
    return out, trace


@pytest.mark.parametrize(("budgeted", "quick_above"), [(0, 400), (96, 0), (0, 0)], ids=["functions", "quick", "quick functions"])
def test_results_and_trace_do_not_depend_on_how_code_is_made(
    monkeypatch: pytest.MonkeyPatch, budgeted: int, quick_above: int
) -> None:
    usual, usual_trace = run_mixed()
    monkeypatch.setattr(budget, "BUDGET", budgeted)
    monkeypatch.setattr(budget, "QUICK_ABOVE", quick_above)
    monkeypatch.setattr(budget, "QUICK_BUDGET", budgeted)
    found, trace = run_mixed()
    np.testing.assert_array_equal(found, usual)
    for name in ("path", "event_offset", "events", "sector_offset", "sectors"):
        np.testing.assert_array_equal(getattr(whole(trace), name), getattr(whole(usual_trace), name), err_msg=name)


def test_loop_depth_of_nested_loops_counts_backward_edges() -> None:
    graph = build_cfg(parse_module(NESTED, "nested.ptx").functions["k"])
    assert loop_depths(graph) == [0, 1, 2, 1, 0]


def test_blocks_in_line_when_the_budget_is_short_are_the_innermost(monkeypatch: pytest.MonkeyPatch) -> None:
    function = parse_module(NESTED, "nested.ptx").functions["k"]
    graph = build_cfg(function)
    assert blocks_in_line(function, graph) == frozenset(range(5))
    monkeypatch.setattr(budget, "BUDGET", 2)
    assert blocks_in_line(function, graph) == {1, 2}
