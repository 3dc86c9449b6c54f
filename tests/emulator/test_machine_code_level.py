"""Does machine code write the same memory as PTX, bit for bit? Each kernel of our suite on one architecture, by its place in the
list.

`validation/machine_code.py` runs all of them on all architectures, and `pytest tests/emulator --machine-code 80` every kernel of
these tests.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import warpsight
from machine_code import ARCHITECTURES, compared
from warpsight.base.errors import LaunchFault
from warpsight.kernels.sources import load_source
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.suites import load_suite

pytestmark = pytest.mark.oracle

SUITE = load_suite(Path(__file__).resolve().parents[2] / "suites" / "warpsight")
CASES = {number: SUITE.kernels[place :: len(ARCHITECTURES)] for place, number in enumerate(ARCHITECTURES)}
LINES = re.compile(r"^\s*\.(?:loc|file)\s.*\n", re.MULTILINE)


@functools.lru_cache(maxsize=1)
def launches(architecture: int) -> dict[str, ReadyLaunch]:
    """Those of the kernels of one architecture, in one module: one start of the assembler and of the disassembler serves all."""
    ready = {kernel.name: prepare(kernel.request()) for kernel in CASES[architecture]}
    parts = [each.source.ptx.partition(".address_size 64\n") for each in ready.values()]
    (head,) = {head + mark for head, mark, _ in parts}
    text = head + "".join(LINES.sub("", body).partition("\n\t.section")[0] for _, _, body in parts)
    source = load_source(text, name="suite.ptx")
    return {name: replace(each, source=source) for name, each in ready.items()}


@pytest.mark.parametrize(
    ("architecture", "kernel"), [(number, kernel.name) for number, kernels in CASES.items() for kernel in kernels]
)
def test_kernel_of_the_suite_writes_the_same_memory_at_both_levels(architecture: int, kernel: str) -> None:
    run = compared(launches(architecture)[kernel], architecture)
    assert run.differences == 0
    assert run.opcodes  # it was machine code that ran


def test_variable_that_a_function_declares_is_found_under_the_name_that_the_assembler_gives_it() -> None:
    source = """.version 7.8
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out) {
    .global .b32 table[4] = {10, 20, 30, 40};
    .reg .b32 %r<4>; .reg .b64 %rd<5>;
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4;
    mov.u64 %rd2, table; add.u64 %rd2, %rd2, %rd1; ld.global.u32 %r2, [%rd2];
    ld.param.u64 %rd3, [out]; add.u64 %rd3, %rd3, %rd1; st.global.u32 [%rd3], %r2;
    ret;
}
"""
    out = np.zeros(4, np.uint32)
    warpsight.trace(source, "k", grid=1, block=4, args=[out], gpu="a100")
    assert out.tolist() == [10, 20, 30, 40]


HALF_SUMS = """
#include <cuda_fp16.h>
extern "C" __global__ void sums(__half* x, int n) { if (threadIdx.x < n) atomicAdd(x + threadIdx.x, __float2half(1.0f)); }
extern "C" __global__ void reads(unsigned char* x, int n) { x[0] = x[n]; }
"""


def test_atomic_of_16_bits_at_the_end_of_an_array_is_no_fault() -> None:
    x = np.zeros(5, np.float16)
    warpsight.trace(HALF_SUMS, "sums", grid=1, block=32, args=[x, 5], gpu="rtx2060")
    assert x.tolist() == [1.0] * 5


def test_access_behind_an_array_that_does_not_fill_its_last_word_is_a_fault() -> None:
    source = HALF_SUMS.replace("atomicAdd(x + threadIdx.x, __float2half(1.0f))", "x[threadIdx.x] = x[0]")
    with pytest.raises(LaunchFault, match="out of bounds"):
        warpsight.trace(source, "reads", grid=1, block=1, args=[np.zeros(5, np.uint8), 5], gpu="rtx2060")


COLLISIONS = """
extern "C" __global__ void collide(float *out, unsigned long long *wide)
{
    __shared__ float sum[4];
    __shared__ double pair[4];
    int i = threadIdx.x;
    if (i < 4)
        sum[i] = pair[i] = 0;
    __syncthreads();
    atomicAdd(sum + i % 3, i + 1.0f);
    atomicAdd(pair + i % 3, i + 1.0);
    __syncthreads();
    if (i < 4) {
        out[i] = sum[i];
        wide[i] = (unsigned long long)pair[i];
    }
}
"""


@pytest.mark.parametrize("gpu", ["rtx2060", "a100", "h100-sxm", "b200", "rtx5090"])
def test_lanes_that_add_to_one_word_of_shared_memory_lose_nothing(gpu: str) -> None:
    """Sums of floats are loops of `ATOMS.CAST.SPIN` there, whose outcome is in a register before sm_100, then in a predicate."""
    out, wide = np.zeros(4, np.float32), np.zeros(4, np.uint64)
    warpsight.trace(COLLISIONS, "collide", grid=1, block=64, args=[out, wide], gpu=gpu, level="sass")
    sums = [sum(i + 1 for i in range(64) if i % 3 == k) for k in range(3)]
    assert out.tolist() == [*sums, 0] and wide.tolist() == [*sums, 0]


SIGNED = """.version 8.6
.target {arch}
.address_size 64
.visible .entry k(.param .u64 values) {{
    .reg .b32 %r<9>; .reg .f32 %f<5>; .reg .b64 %rd<5>;
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 16;
    ld.param.u64 %rd2, [values]; add.u64 %rd2, %rd2, %rd1; ld.global.f32 %f1, [%rd2]; ld.global.b32 %r2, [%rd2+12];
    min.xorsign.abs.f32 %f2, %f1, 0f40C00000; st.global.f32 [%rd2+4], %f2;
    max.xorsign.abs.f32 %f3, %f1, 0fC0C00000; st.global.f32 [%rd2+8], %f3;
    mov.b32 %r3, 0x40004600;
    min.xorsign.abs.f16x2 %r4, %r2, %r3; st.global.b32 [%rd2+12], %r4;
    ret;
}}
"""


@pytest.mark.parametrize(("gpu", "arch"), [("rtx3080", "sm_86"), ("h100-sxm", "sm_90a"), ("b200", "sm_100a")])
def test_minimum_with_the_signs_multiplied_of_a_number_in_the_instruction(gpu: str, arch: str) -> None:
    """Triton's `clamp(x, -6, 6)` is the minimum with 6. PTX ISA, min: the magnitude of the minimum, the sign of the product."""
    numbers = [-8.0, -2.0, -0.0, 0.0, 3.0, 7.0]
    values = np.zeros((6, 4), np.float32)
    values[:, 0] = numbers
    halves = values.view(np.float16)
    halves[:, 6], halves[:, 7] = numbers, numbers  # against 6 and 2
    warpsight.trace(SIGNED.format(arch=arch), "k", grid=1, block=6, args=[values], gpu=gpu, level="sass")
    assert [str(x) for x in values[:, 1]] == ["-6.0", "-2.0", "-0.0", "0.0", "3.0", "6.0"]
    assert values[:, 2].tolist() == [8, 6, 6, -6, -6, -7]
    assert halves[:, 6].tolist() == [-6, -2, 0, 0, 3, 6] and halves[:, 7].tolist() == [-2, -2, 0, 0, 2, 2]


SCALED = """
extern "C" __global__ void scaled(const float* a, const float* b, float* out)
{
    int i = threadIdx.x, n = blockDim.x;
    out[i] = 0.5f * (a[i] * b[i]);
    out[i + n] = 4.0f * (a[i] * 0.3f);
    out[i + 2 * n] = 0.125f * (b[i] * 7.0f);
}
"""


@pytest.mark.parametrize("gpu", ["rtx2060", "rtx3080", "b200"])
def test_product_times_a_power_of_two_is_rounded_once(gpu: str) -> None:
    """The assembler makes one instruction of `0.5f * (a * b)`. Products that only then fit or are denormal show it."""
    rng = np.random.default_rng(3)
    a = np.concatenate([rng.uniform(-1e3, 1e3, 28), [2.5e38, 1.2e-38, 1e-45, np.inf]]).astype(np.float32)
    b = np.concatenate([rng.uniform(-1, 1, 28), [1.5, 1.7, 0.9, -2.0]]).astype(np.float32)
    out = np.zeros(96, np.float32)
    trace = warpsight.trace(SCALED, "scaled", grid=1, block=32, args=[a, b, out], gpu=gpu, level="sass")
    assert {"FMUL.D2", "FMUL.M4", "FMUL.D8"} <= {i.opcode for i in trace.instructions}
    x, y = a.astype(np.float64), b.astype(np.float64)
    wanted = [0.5 * (x * y), 4.0 * (x * np.float32(0.3)), 0.125 * (y * 7.0)]
    np.testing.assert_array_equal(out, np.concatenate(wanted).astype(np.float32))


STOCHASTIC = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 values) {
    .reg .b32 %r<6>; .reg .f32 %f<3>; .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 24;
    ld.param.u64 %rd2, [values]; add.u64 %rd2, %rd2, %rd1;
    ld.global.f32 %f1, [%rd2]; ld.global.f32 %f2, [%rd2+4]; ld.global.b32 %r2, [%rd2+8];
    cvt.rs.f16x2.f32 %r3, %f1, %f2, %r2; st.global.b32 [%rd2+12], %r3;
    cvt.rs.bf16x2.f32 %r4, %f1, %f2, %r2; st.global.b32 [%rd2+16], %r4;
    cvt.rs.relu.satfinite.f16x2.f32 %r5, %f1, %f2, %r2; st.global.b32 [%rd2+20], %r5;
    ret;
}
"""


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_stochastic_rounding_adds_the_random_bits_below_the_last_that_is_kept(level: str) -> None:
    """PTX ISA, cvt.rs: the first single has bits 28 to 16 (f16) or 31 to 16 (bf16) of the word, the second one the low ones.

    A quarter of a step above 1 rounds up from three quarters of the random bits on; in bf16 it is a 32nd of a step.
    """
    step, tiny = 2.0**-10, 2.0**-24
    cases = [  # the singles, the word, then the f16 of both without and with .relu.satfinite
        (1 + step / 4, -1 - step / 4, 0x1800_17FF, (1 + step, -1), (1 + step, 0)),
        (1 + step / 4, -1 - step / 4, 0xF7FF_F800, (1, -1 - step), (1, 0)),  # the highest bits are not used
        (65535, -65535, 0x0000_1FFF, (65504, -np.inf), (65504, 0)),
        (65535, 70000, 0x1FFF_0000, (np.inf, np.inf), (65504, 65504)),
        (1.25 * tiny, 1.25 * tiny, 0x1800_17FF, (2 * tiny, tiny), (2 * tiny, tiny)),  # subnormal
        (tiny / 2, np.inf, 0x1000_1FFF, (tiny, np.inf), (tiny, 65504)),
    ]
    values = np.zeros((len(cases), 6), np.uint32)
    values[:, :2] = np.array([case[:2] for case in cases], np.float32).view(np.uint32)
    values[:, 2] = [case[2] for case in cases]
    warpsight.trace(STOCHASTIC, "k", grid=1, block=len(cases), args=[values], gpu="b200", level=level)
    halves = values.view(np.float16)
    assert [(high, low) for low, high in halves[:, 6:8].tolist()] == [case[3] for case in cases]
    assert [(high, low) for low, high in halves[:, 10:12].tolist()] == [case[4] for case in cases]
    bfloats = (values[:2, 4:5] << np.array([0, 16], np.uint32) & 0xFFFF_0000).view(np.float32)  # the high one first
    assert bfloats.tolist() == [[1, -1], [1, -1 - 2.0**-7]]
