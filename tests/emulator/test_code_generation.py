"""Does a kernel do the same however its machine code is made: all in line, all in functions, fully optimised or quickly?"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from emulator_launch import launch, ptx, whole

from warpsight.base import diskcache
from warpsight.emulator.codegen import kernel_builder as budget
from warpsight.emulator.codegen import object_code, shared_functions
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


# -- Functions that kernels share are compiled once.

_ENGINES: list[dict[str, object]] = []  # LLVM goes on to know the symbols of those that a test has loaded, so they must stay


def forget_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    _ENGINES.append({})
    monkeypatch.setattr(shared_functions, "_LOADED", _ENGINES[-1])


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The modules that are compiled from here on, as in a new process with an empty cache folder."""
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "cache"))
    forget_loaded(monkeypatch)
    texts: list[str] = []
    usual = object_code.object_code

    def noted(text: str, effort: int, quickly: bool) -> bytes:
        texts.append(text)
        return usual(text, effort, quickly)

    monkeypatch.setattr(object_code, "object_code", noted)
    return texts


def add_loaded(number: int) -> list[int]:
    """Of a kernel that adds `number` to each element of an array that it loads."""
    out = np.arange(64, dtype=np.uint64)
    source = ptx(f"ld.global.u64 %q1, [%out]; add.u64 %q1, %q1, {number}; st.global.u64 [%out], %q1; ret;")
    launch(source, "k", 2, 32, [out])
    return out.tolist()


def test_second_kernel_shares_the_functions_of_the_first(modules: list[str]) -> None:
    assert add_loaded(3) == list(range(3, 67))
    lines = [line for text in modules for line in text.splitlines() if line.startswith("define ") and "warpsight.shared." in line]
    names = [line.partition("warpsight.shared.")[2].partition(".")[0] for line in lines]
    assert {"run", "check_lanes", "scattered_sectors"} <= set(names)
    assert len(names) == len(set(names)) == len(modules) - 1  # and the kernel
    modules.clear()
    assert add_loaded(5) == list(range(5, 69))
    assert len(modules) == 1
    assert 'define i32 @"warp"' in modules[0]


def test_kernel_is_compiled_again_where_a_function_that_it_shares_is_no_longer_kept(
    modules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_loaded(3)
    first = len(modules)
    for state, compiled in (("whole", 0), ("without the functions", first)):
        modules.clear()
        forget_loaded(monkeypatch)
        if state != "whole":
            kept = sorted((diskcache.folder() / "native").glob("*/*"), key=lambda path: path.stat().st_mtime_ns)
            assert len(kept) == first
            for path in kept[:-1]:  # the kernel is the last
                path.unlink()
        assert add_loaded(3) == list(range(3, 67))
        assert len(modules) == compiled


def test_functions_made_for_an_earlier_kernel_are_those_that_a_kernel_would_make(
    modules: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    symbols, compiled = [], []
    for earlier in (0, 1):  # kernels in the same process
        shared_functions.known_functions.cache_clear()
        forget_loaded(monkeypatch)
        monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / f"after {earlier}"))
        for _ in range(earlier):
            add_loaded(3)
        modules.clear()
        run_mixed()
        (kernel,) = (text for text in modules if 'define i32 @"warp"' in text)
        symbols.append(set(re.findall(r"warpsight\.shared\.[\w.]+", kernel)))  # each has a hash of the text, and of what it calls
        compiled.append(len(modules))
    assert symbols[0] == symbols[1]
    assert compiled[0] > compiled[1] > 1
