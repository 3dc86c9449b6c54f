"""Is the trace the same when only what decides it is executed, and is the rest left out?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from emulator_launch import REGISTERS, whole

from warpsight.base.errors import LaunchFault
from warpsight.emulator.run.launch import PreparedKernel, emulate, prepare_kernel
from warpsight.gpu.loader import load_gpu
from warpsight.isa.ptx import slicing
from warpsight.kernels.launch import KernelSource, Launch
from warpsight.kernels.launch_check import make_launch
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture
from warpsight.pipeline import tracing
from warpsight.pipeline.request import KernelRequest
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void product(float* a, float* b, float* c, int n)
{
    __shared__ float tile[32];
    float sum = 0;
    for (int k = 0; k < n; k += 32) {
        tile[threadIdx.x] = a[k + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 32; i++) sum = fmaf(tile[i], b[(k + i) % 64], sum);
        __syncthreads();
    }
    c[threadIdx.x] = sum;
}
extern "C" __global__ void indirect(int* index, int* where, float* values, float* out)
{
    __shared__ int order[32];
    int i = threadIdx.x;
    where[i] = index[i] * 3;
    order[i] = index[i];
    __syncthreads();
    int from = order[(i * 7) % 32];
    if (from % 3) out[where[i] % 64] = sqrtf(values[from]) * 2.0f;
    atomicAdd(&out[64 + from], values[i]);
    if (__shfl_xor_sync(~0u, values[i] > 0.5f, 1)) out[97 + i] = 1.0f;
}
extern "C" __global__ void table(int* index, float* out)
{
    int local[8];
    for (int k = 0; k < 8; k++) local[k] = index[k] % 32;
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += out[local[index[k + threadIdx.x % 8] % 8]];
    out[threadIdx.x] = sum;
}
extern "C" __global__ void halves(unsigned long long* pointers, int* index, float* out, int n)
{
    int i = threadIdx.x;
    pointers[i] = (unsigned long long)index;
    __syncthreads();
    uint2 half;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(half.x), "=r"(half.y) : "l"(pointers + 31 - i) : "memory");
    int* same = (int*)((unsigned long long)half.y << 32 | half.x);
    asm volatile("st.global.u32 [%0], %1;" :: "l"(same + n + i), "r"(i * 5 % 32) : "memory");
    __syncthreads();
    out[index[i]] = 1.0f;
}
"""
INTEGERS, FLOATS = np.arange(40, dtype=np.int32) * 5 % 32, np.linspace(0, 1, 256, dtype=np.float32)
ARGUMENTS: dict[str, list[Any]] = {
    "product": [FLOATS, FLOATS.copy(), FLOATS.copy(), 64],
    "indirect": [INTEGERS, INTEGERS.copy(), FLOATS, FLOATS.copy()],
    "table": [INTEGERS, FLOATS],
    "halves": [np.zeros(32, np.uint64), np.zeros(64, np.int32), FLOATS, 0],
}
AMPERE = Architecture(80)


@pytest.fixture(scope="module")
def source() -> KernelSource:
    return load_source(SOURCE, arch="compute_80")


def launch_of(source: KernelSource, kernel: str, arguments: list[Any]) -> Launch:
    """A launch of one block, with arrays of its own."""
    arrays = {id(each): each.copy() for each in arguments if isinstance(each, np.ndarray)}
    return make_launch(source, kernel, 1, 32, [arrays.get(id(each), each) for each in arguments])


def traced(
    source: KernelSource, launch: Launch, architecture: Architecture | None, **given: Any
) -> tuple[KernelTrace, PreparedKernel]:
    prepared = prepare_kernel(source, launch.kernel, architecture=architecture, **given)
    return emulate(source, launch, registers=REGISTERS, prepared=prepared), prepared


def assert_same_trace(source: KernelSource, launch: Launch, architecture: Architecture | None) -> PreparedKernel:
    """Execute the launch with and without what decides nothing; gives the kernel without it."""
    trace, sliced = traced(source, launch, architecture, traced=launch)  # which leaves the arrays as they are
    everything, _ = traced(source, launch, architecture)
    assert not sliced.native.computes
    for name in ("path", "events", "sectors", "event_offset", "sector_offset"):
        np.testing.assert_array_equal(getattr(whole(trace), name), getattr(whole(everything), name))
    for name in ("offset", "block", "lanes", "repeat"):
        np.testing.assert_array_equal(getattr(trace.paths, name), getattr(everything.paths, name))
    assert replace(trace.header, emulation_seconds=0) == replace(everything.header, emulation_seconds=0)
    assert trace.instructions == everything.instructions
    return sliced


def left_out(kernel: PreparedKernel, **names: tuple[str, ...]) -> list[str]:
    """The opcodes of which nothing is executed, and of accesses of which only the record is, with ``!`` behind."""
    found = slicing.slice_of(kernel.function, kernel.native.graph, lambda instruction: frozenset(names.get(instruction.text, ())))
    assert found is not None
    return [
        each.text.partition(".")[0] + "!" * (each.index in found.recorded)
        for each in kernel.function.instructions if each.index in found.skipped or each.index in found.recorded
    ]  # fmt: skip


@pytest.mark.parametrize(("kernel", "architecture"), [
    ("product", AMPERE), ("indirect", AMPERE), ("indirect", None), ("table", AMPERE), ("halves", AMPERE),
])  # fmt: skip
def test_trace_is_the_same_without_what_decides_nothing(
    source: KernelSource, kernel: str, architecture: Architecture | None
) -> None:
    assert_same_trace(source, launch_of(source, kernel, ARGUMENTS[kernel]), architecture)


def test_sums_and_the_data_that_only_they_use_are_left_out(source: KernelSource) -> None:
    launch = launch_of(source, "product", ARGUMENTS["product"])
    gone = set(left_out(traced(source, launch, AMPERE, traced=launch)[1]))
    assert gone >= {"FFMA", "LDG!", "LDS!", "STS!", "STG!"}
    assert not {"BAR", "ISETP", "BRA", "S2R"} & gone


def test_array_that_may_be_the_same_as_another_is_told_apart_from_none(source: KernelSource) -> None:
    same = INTEGERS.copy()
    launch = make_launch(source, "indirect", 1, 32, [same, same, FLOATS.copy(), FLOATS.copy()])
    assert_same_trace(source, launch, AMPERE)


GUARDED = """.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out) {
    .reg .pred %p; .reg .b32 %r, %x; .reg .b64 %a, %b, %c;
    ld.param.u64 %b, [out]; mov.u32 %r, %tid.x; setp.lt.u32 %p, %r, 7;
    mul.wide.u32 %c, %r, 4; add.u64 %a, %b, %c;
    ld.global.u32 %x, [%a];
    mul.wide.u32 %c, %x, 0;
@%p mul.wide.u32 %c, %r, 8;
@%p add.u64 %a, %b, %c;
    REST
    ret;
}
"""


@pytest.mark.parametrize(("rest", "is_left_out"), [
    ("@%p st.global.u32 [%a], %x;", True),  # in other lanes nobody reads what the product of the load was
    ("@!%p st.global.u32 [%a], %x;", True),  # the same for what was written under the guard
    ("setp.gt.u32 %p, %r, 3; @%p st.global.u32 [%c], %x;", False),  # the guard is another one by then
    ("st.global.u32 [%c], %x;", False),
])  # fmt: skip
def test_value_that_is_read_only_under_the_guard_that_overwrites_it_does_not_count(rest: str, is_left_out: bool) -> None:
    source = load_source(GUARDED.replace("REST", rest))
    kernel = prepare_kernel(source, "k")
    assert ("ld!" in left_out(kernel)) is is_left_out


def test_address_out_of_bounds_is_found_although_nothing_is_loaded(source: KernelSource) -> None:
    launch = launch_of(source, "product", [*ARGUMENTS["product"][:3], 4096])
    with pytest.raises(LaunchFault, match="out of bounds"):
        traced(source, launch, AMPERE, traced=launch)


def test_kernel_is_executed_whole_where_the_tables_do_not_say_what_it_reads(
    source: KernelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = slicing.reads
    monkeypatch.setattr(slicing, "reads", lambda i: () if i.text.startswith("LOP3") else reads(i))
    launch = launch_of(source, "indirect", ARGUMENTS["indirect"])
    assert traced(source, launch, AMPERE, traced=launch)[1].native.computes


def test_what_prints_is_executed_whole() -> None:
    source = load_source('extern "C" __global__ void k(float* x) { printf("%f\\n", x[threadIdx.x] * 2); }')
    launch = make_launch(source, "k", 1, 1, [FLOATS.copy()])
    assert prepare_kernel(source, "k", architecture=AMPERE, traced=launch).native.computes


@pytest.mark.parametrize(("array", "is_whole"), [("f32[256]:zeros", False), (np.zeros(256, np.float32), True)])
def test_results_are_computed_for_arrays_of_the_caller_alone(array: Any, is_whole: bool) -> None:
    args = ("f32[256]:zeros", "f32[256]:zeros", array, 64)
    asked = KernelRequest(SOURCE, kernel="product", grid=1, block=32, args=args)
    assert tracing.launch_of(asked, load_gpu("a100"))[1].native.computes is is_whole
