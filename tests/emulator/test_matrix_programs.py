"""Whole CUDA programs on tensor cores, compiled for sm_75, sm_80 and sm_90: does 2 A B come out as NumPy has it?"""

from __future__ import annotations

import functools
from string import Template

import numpy as np
import pytest
from emulator_launch import KERNELS, launch, whole

from warpsight.kernels.launch import KernelSource
from warpsight.kernels.sources import load_source
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit
N = 64


@functools.cache
def compiled(arch: int) -> KernelSource:
    return load_source(KERNELS / "matrix.cu", arch=arch)


def run(arch: int, kernel: str, a: np.ndarray, b: np.ndarray, dtype: type) -> tuple[np.ndarray, KernelTrace]:
    out = np.zeros((N, N), dtype)
    trace = launch(compiled(arch), kernel, 1, 128, [a, b, out])
    return out, trace


def small(low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(12)
    return rng.integers(low, high, (N, N)), rng.integers(low, high, (N, N))


@pytest.mark.parametrize("arch", [75, 80, 90])
def test_wmma_of_halves_into_singles_equals_numpy(arch: int) -> None:
    a, b = small(-20, 20)
    out, _ = run(arch, "half_to_float", a.astype(np.float16), b.astype(np.float16), np.float32)
    np.testing.assert_array_equal(out, 2 * (a @ b))


@pytest.mark.parametrize("arch", [75, 80, 90])
def test_wmma_of_halves_into_halves_equals_numpy(arch: int) -> None:
    a, b = small(-4, 4)
    out, _ = run(arch, "half_to_half", a.astype(np.float16), b.astype(np.float16), np.float16)
    np.testing.assert_array_equal(out, 2 * (a @ b.T))


@pytest.mark.parametrize("arch", [75, 80, 90])
def test_wmma_of_bytes_equals_numpy(arch: int) -> None:
    a, b = small(-128, 128)
    out, _ = run(arch, "bytes", a.astype(np.int8), b.astype(np.int8), np.int32)
    np.testing.assert_array_equal(out, 2 * (a @ b))


@pytest.mark.parametrize("arch", [80, 90])
def test_wmma_of_brain_floats_equals_numpy(arch: int) -> None:
    a, b = small(-100, 100)
    upper = [(x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    out, _ = run(arch, "brain_floats", upper[0], upper[1], np.float32)
    np.testing.assert_array_equal(out, 2 * (a @ b.T))


@pytest.mark.parametrize("arch", [80, 90])
def test_mma_and_ldmatrix_by_hand_equal_numpy_and_have_no_bank_conflict(arch: int) -> None:
    a, b = small(-20, 20)
    out, trace = run(arch, "by_hand", a.astype(np.float16), b.astype(np.float16), np.float32)
    np.testing.assert_array_equal(out, 2 * (a @ b))
    events = whole(trace).events
    assert set(events) <= {16, 8, 4, 2}  # 16 sectors in, 8 out; passes: 4 for 16 bytes a lane and .x4, 2 for .x2
    opcodes = [i.opcode for i in compiled(arch).module.kernels["by_hand"].instructions]
    assert {"mma", "ldmatrix"} <= set(opcodes)


def test_product_of_random_halves_is_near_numpys() -> None:
    rng = np.random.default_rng(13)
    a, b = (rng.normal(0, 1, (N, N)).astype(np.float16) for _ in range(2))
    out, _ = run(80, "half_to_float", a, b, np.float32)
    exact = 2 * (a.astype(np.float64) @ b.astype(np.float64))
    scale = 2 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    assert np.all(np.abs(out - exact) <= scale * 2.0**-20) and not np.array_equal(out, exact)


# In the manner of Triton: dynamic shared memory, blanks within brackets and braces, accumulators as plain 32-bit registers.
TILE_COMPILER = Template("""
.version 8.3
.target $target
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry product(
    .param .u64 .ptr .global .align 1 product_param_0,
    .param .u64 .ptr .global .align 1 product_param_1,
    .param .u64 .ptr .global .align 1 product_param_2
)
.reqntid 32, 1, 1
{
    .reg .pred %p<3>; .reg .b32 %r<40>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [product_param_0]; ld.param.u64 %rd2, [product_param_1]; ld.param.u64 %rd3, [product_param_2];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 4;
    cvt.u64.u32 %rd4, %r2;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    mov.pred %p1, -1;
    setp.lt.u32 %p2, %r1, 16;
    // begin inline asm
    mov.u32 %r3, 0x0;
    mov.u32 %r4, 0x0;
    mov.u32 %r5, 0x0;
    mov.u32 %r6, 0x0;
    @%p1 ld.global.v4.b32 { %r3, %r4, %r5, %r6 }, [ %rd5 + 0 ];
    // end inline asm
    @%p2 ld.global.v4.b32 { %r7, %r8, %r9, %r10 }, [ %rd6 + 0 ];
    mov.u32 %r11, global_smem;
    add.s32 %r12, %r11, %r2;
    @%p1 st.shared.v4.b32 [ %r12 + 0 ], { %r3, %r4, %r5, %r6 };
    @%p2 st.shared.v4.b32 [ %r12 + 512 ], { %r7, %r8, %r9, %r10 };
    bar.sync 0;
    and.b32 %r13, %r1, 15;
    shl.b32 %r14, %r13, 5;
    and.b32 %r15, %r1, 16;
    or.b32 %r16, %r14, %r15;
    add.s32 %r17, %r11, %r16;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %r20, %r21, %r22, %r23 }, [ %r17 + 0 ];
    shl.b32 %r18, %r13, 4;
    add.s32 %r19, %r11, %r18;
    ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 { %r24, %r25 }, [ %r19 + 512 ];
    mov.b32 %r26, 0f00000000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %r27, %r28, %r29, %r30 }, { %r20, %r21, %r22, %r23 }, { %r24, %r25 }, { %r26, %r26, %r26, %r26 };
    shl.b32 %r31, %r1, 3;
    cvt.u64.u32 %rd7, %r31;
    add.s64 %rd8, %rd3, %rd7;
    st.global.v2.b32 [ %rd8 + 0 ], { %r27, %r28 };
    st.global.v2.b32 [ %rd8 + 256 ], { %r29, %r30 };
    ret;
}
""")  # noqa: E501


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_ptx_in_the_manner_of_a_tile_compiler_is_accepted(target: str) -> None:
    a, b = (x.astype(np.float16) for x in small(-9, 9))
    out = np.zeros((16, 8), np.float32)
    source = load_source(TILE_COMPILER.substitute(target=target), name="tile.ptx")
    launch(source, "product", 1, 32, [a[:16, :16].copy(), b[:16, :8].copy(), out], shared=1024)
    np.testing.assert_array_equal(out, a[:16, :16].astype(np.float64) @ b[:16, :8].astype(np.float64))
