"""Is machine code of Blackwell executed rightly: the launch's words at their new places, and integers in pairs of registers?"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import warpsight
from warpsight.kernels.assembler import assemble
from warpsight.kernels.toolkit import parse_architecture

SOURCE = """\
extern "C" __global__ void shape(int* o) {
  extern __shared__ int s[];
  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * (blockIdx.x + gridDim.x * blockIdx.y));
  unsigned dynamic; asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(dynamic));
  s[threadIdx.x] = t;
  o += 8 * t;
  o[0] = s[threadIdx.x], o[1] = blockDim.x, o[2] = blockDim.y, o[3] = gridDim.x, o[4] = gridDim.y, o[5] = gridDim.z, o[6] = dynamic;
}
extern "C" __global__ void pairs(long long* a, const unsigned long long* b, int* o, long long k) {
  int i = threadIdx.x;
  o[i] = (a[i] < a[i + 8]) + 2 * (b[i] < b[i + 8]) + 4 * (a[i] == (long long)b[i]) + 8 * (a[i] > 5) + 16 * (b[i] <= 5);
  a[i + 32] = k - a[i] + (long long)b[i];
}
"""
GPUS = ["b200", "rtx5090"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all tests: the compiler and the disassembler start once for each GPU."""
    path = tmp_path_factory.mktemp("blackwell") / "k.cu"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("gpu", GPUS)
def test_kernel_sees_the_shape_of_its_launch(gpu: str, source: Path) -> None:
    words = np.zeros(8 * 8 * 4 * 6, np.int32)
    trace = warpsight.trace(source, "shape", grid=(3, 2), block=(8, 4), shared=64, args=[words], gpu=gpu)
    assert trace.header.level == "sass"
    rows = words.reshape(-1, 8)
    assert (rows[:, 0] == np.arange(8 * 4 * 6)).all()
    assert (rows[:, 1:7] == [8, 4, 3, 2, 1, 64]).all()


@pytest.mark.parametrize("gpu", GPUS)
def test_sums_and_comparisons_of_register_pairs_are_those_of_64_bits(gpu: str, source: Path) -> None:
    random = np.random.default_rng(1)
    a = random.integers(-3, 8, 64) << random.choice([0, 33], 64)
    b = (random.integers(0, 8, 64) + (random.integers(0, 2, 64) << 63)).astype(np.uint64)
    a[3], b[3] = 7, 7
    before, results, k = a.copy(), np.zeros(32, np.int32), -(1 << 40) - 7
    trace = warpsight.trace(source, "pairs", grid=1, block=32, args=[a, b, results, np.int64(k)], gpu=gpu)
    assert trace.header.level == "sass"
    if gpu == "rtx5090":  # which has them, and B200 not
        assert {"IADD.64", "ISETP.GT.S64.AND"} <= {instruction.opcode for instruction in trace.instructions}
    x, y = before[:32], b[:32]
    expected = (x < before[8:40]) + 2 * (y < b[8:40]) + 4 * (x == y.view(np.int64)) + 8 * (x > 5) + 16 * (y <= 5)
    assert (results == expected).all()
    assert (a[32:] == k - x + y.view(np.int64)).all()


TARGET = """\
.version 8.8
.target sm_{target}
.address_size 64
"""
HEAD = """\
.visible .entry {name}(.param .u64 in)
{{
 .reg .b64 %q<8>; .reg .b32 %r<12>;
 ld.param.u64 %q0, [in]; mov.u32 %r0, %tid.x; mul.wide.u32 %q1, %r0, {size}; add.s64 %q0, %q0, %q1;
"""
LIMITS = """\
 ld.global.b64 %q2, [%q0]; ld.global.b64 %q3, [%q0+256];
 min.u64 %q4, %q2, %q3; max.u64 %q5, %q2, %q3; min.s64 %q6, %q2, %q3; max.s64 %q7, %q2, %q3;
 st.global.b64 [%q0+512], %q4; st.global.b64 [%q0+768], %q5; st.global.b64 [%q0+1024], %q6; st.global.b64 [%q0+1280], %q7;
 ret;
}
"""
WIDE = """\
 ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%q0];
 ld.global.v8.b32 {%r9, _, _, %r10, _, _, _, %r11}, [%q0+1024];
 st.global.v8.b32 [%q0+2048], {%r11, %r2, %r3, %r4, %r5, %r9, %r10, %r1};
 ld.global.v4.b64 {%q2, %q3, %q4, %q5}, [%q0+1024]; add.s64 %q5, %q5, %q2; st.global.v4.b64 [%q0+3072], {%q5, %q4, %q3, %q2};
 ret;
}
"""
SUMS = """\
 ld.global.u32 %r1, [%q0]; neg.s32 %r2, %r1; add.s32 %r3, %r1, 0x1234567; st.global.u32 [%q0], %r2; st.global.u32 [%q0+128], %r3;
 ret;
}
"""


def limits_and_wide(gpu: str) -> str:
    """Two kernels in one module, so that one start of the disassembler serves both."""
    kernels = HEAD.format(name="limits", size=8) + LIMITS + HEAD.format(name="wide", size=32) + WIDE
    return TARGET.format(target="100" if gpu == "b200" else "120") + kernels


@pytest.mark.parametrize("gpu", GPUS)
def test_least_and_greatest_of_register_pairs_are_those_of_64_bits(gpu: str) -> None:
    pairs = np.zeros((6, 32), np.uint64)
    pairs[:2] = np.random.default_rng(2).integers(0, 1 << 64, (2, 32), np.uint64)
    pairs[0, 0], pairs[1, 1] = 1 << 63, (1 << 64) - 1  # the least and -1 where they have a sign
    x, y = pairs[:2].copy()
    trace = warpsight.trace(limits_and_wide(gpu), "limits", grid=1, block=32, args=[pairs], gpu=gpu, level="sass")
    if gpu == "rtx5090":  # which has them, and B200 not
        assert {"IMNMX.U64", "IMNMX.S64"} <= {instruction.opcode for instruction in trace.instructions}
    signed = pairs.view(np.int64)
    assert (pairs[2] == np.minimum(x, y)).all() and (pairs[3] == np.maximum(x, y)).all()
    assert (signed[4] == np.minimum(*signed[:2])).all() and (signed[5] == np.maximum(*signed[:2])).all()


def test_sum_of_two_words_as_later_assemblers_have_it_for_compute_capability_12(tmp_path: Path) -> None:
    """ptxas 13.4 makes `IADD R7, -R0, RZ` and `IADD R5, R0, 0x1234567` and 13.0 IADD3, with registers at the same places."""
    text = TARGET.format(target="120") + HEAD.format(name="k", size=4) + SUMS
    code = bytearray(assemble(text, "sums.ptx", parse_architecture("120")))
    for at in range(0, len(code) - 15, 8):
        low, high = struct.unpack_from("<QQ", code, at)
        changed = {0x7210: 0x7235, 0x7810: 0x7835}.get(low & 0xFFFF)
        if changed and (low >> 32 == 0xFF or low >> 32 == 0x1234567):
            negative = high & 1 << 8  # of the first operand
            struct.pack_into("<QQ", code, at, low - (low & 0xFFFF) + changed, high >> 41 << 41 | 0x78E0000 | negative)
    (tmp_path / "sums.cubin").write_bytes(code)
    words = np.zeros((2, 32), np.uint32)
    words[0] = np.random.default_rng(2).integers(0, 1 << 32, 32, np.uint32)
    before = words[0].copy()
    trace = warpsight.trace(tmp_path / "sums.cubin", "k", grid=1, block=32, args=[words], gpu="rtx5090", level="sass")
    assert [row.opcode for row in trace.instructions].count("IADD") == 2
    assert (words == [-before, before + np.uint32(0x1234567)]).all()


MIXED = """\
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in)
{
 .reg .b64 %q<2>; .reg .b32 %r<2>; .reg .b16 %h<2>; .reg .f32 %f<8>;
 ld.param.u64 %q0, [in]; mov.u32 %r0, %tid.x; mul.wide.u32 %q1, %r0, 4; add.s64 %q0, %q0, %q1;
 ld.global.b32 %r1, [%q0]; mov.b32 {%h0, %h1}, %r1; ld.global.f32 %f0, [%q0+128]; neg.f32 %f1, %f0;
 fma.rn.f32.bf16 %f2, %h0, %h1, %f1; fma.rz.f32.f16 %f3, %h1, %h0, %f0; add.rn.f32.bf16 %f4, %h1, %f0;
 sub.rn.f32.f16 %f5, %h0, %f0; fma.rn.sat.f32.bf16 %f6, %h0, %h1, %f0;
 st.global.f32 [%q0+256], %f2; st.global.f32 [%q0+384], %f3; st.global.f32 [%q0+512], %f4; st.global.f32 [%q0+640], %f5;
 st.global.f32 [%q0+768], %f6;
 ret;
}
"""


def test_sums_and_products_of_halves_and_singles_have_one_rounding(tmp_path: Path) -> None:
    """Products of halves have at most 22 bits, and doubles hold the exact sums of numbers of these magnitudes."""
    (tmp_path / "k.ptx").write_text(MIXED)
    random = np.random.default_rng(3)
    words = np.zeros((7, 32), np.float32)
    patterns = (random.integers(0x3C00, 0x4400, (32, 2)) | random.integers(0, 2, (32, 2)) << 15).astype(np.uint16)
    words[0] = patterns.view(np.float32)[:, 0]
    words[1] = c = random.uniform(-2, 2, 32).astype(np.float32)
    (a, b), (x, y) = patterns.view(np.float16).T.astype(float), (patterns.astype(np.uint32) << 16).view(np.float32).T.astype(float)
    trace = warpsight.trace(tmp_path / "k.ptx", "k", grid=1, block=32, args=[words], gpu="b200", level="sass")
    assert {"FHFMA.BF16", "FHFMA.RZ", "FHADD.BF16", "FHADD", "FHFMA.BF16.SAT"} <= {row.opcode for row in trace.instructions}
    exact = b * a + c.astype(float)
    cut = exact.astype(np.float32)
    cut = np.where(np.abs(cut.astype(float)) > np.abs(exact), np.nextafter(cut, np.float32(0)), cut)
    expected = [x * y - c, cut, y + c, a - c, np.clip(x * y + c, 0, 1)]
    assert (words[2:] == np.array(expected).astype(np.float32)).all()


@pytest.mark.parametrize("gpu", GPUS)
def test_accesses_of_256_bits_move_their_words_in_order(gpu: str) -> None:
    words = np.zeros((4, 32, 8), np.uint32)
    words[:2] = x, y = np.random.default_rng(4).integers(0, 1 << 32, (2, 32, 8), np.uint32)
    trace = warpsight.trace(limits_and_wide(gpu), "wide", grid=1, block=32, args=[words], gpu=gpu, level="sass")
    opcodes = [row.opcode for row in trace.instructions]
    assert opcodes.count("LDG.E.ENL2.256") == 3 and opcodes.count("STG.E.ENL2.256") == 2
    expected = np.stack([y[:, 7], x[:, 1], x[:, 2], x[:, 3], x[:, 4], y[:, 0], y[:, 3], x[:, 0]], axis=1)
    assert (words[2] == expected).all()
    pairs = y.view(np.uint64)
    assert (words[3].view(np.uint64) == np.stack([pairs[:, 3] + pairs[:, 0], *pairs.T[2::-1]], axis=1)).all()


PAIRS = """\
.version 8.7
.target sm_100
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .b64 pair, .param .f32 one)
{
 .reg .b64 %q<24>; .reg .b32 %r<2>; .reg .f32 %f<5>;
 ld.param.u64 %q0, [in]; ld.param.u64 %q1, [out]; ld.param.b64 %q2, [pair]; ld.param.f32 %f0, [one];
 mov.u32 %r0, %tid.x; mul.wide.u32 %q3, %r0, 8; add.s64 %q0, %q0, %q3; add.s64 %q1, %q1, %q3;
 ld.global.b64 %q4, [%q0]; ld.global.b64 %q5, [%q0+256]; ld.global.f32 %f1, [%q0];
 mov.b64 %q6, {%f1, %f1}; mov.b64 %q7, {%f0, %f0}; mov.b64 %q8, 0x400000003f800000; mov.b64 %q9, 0x3f0000003f000000;
 add.f32x2 %q10, %q4, %q5;
 sub.f32x2 %q11, %q10, %q6;
 mul.rz.ftz.f32x2 %q12, %q4, %q9;
 fma.rn.f32x2 %q13, %q4, %q8, %q6;
 fma.rn.ftz.f32x2 %q14, %q5, %q2, %q7;
 mov.b64 {%f2, %f3}, %q13; mov.b64 %q15, {%f3, %f2};
 sub.f32x2 %q16, %q13, %q15;
 mov.b64 %q18, 0x0000000100000001; add.rp.f32x2 %q17, %q4, %q18;
 st.global.b64 [%q1], %q10; st.global.b64 [%q1+256], %q11; st.global.b64 [%q1+512], %q12; st.global.b64 [%q1+768], %q13;
 st.global.b64 [%q1+1024], %q14; st.global.b64 [%q1+1280], %q16; st.global.b64 [%q1+1536], %q17;
 ret;
}
"""


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_arithmetic_of_two_singles_works_on_each_half(level: str) -> None:
    values = np.random.default_rng(2).integers(-99, 99, (2, 32, 2)).astype(np.float32) / 8  # sums and products are exact
    values[0, 3] = 3e-39, -1.5  # a denormal, whose half is flushed to zero
    out = np.zeros((7, 32, 2), np.float32)
    pair = np.array([2, -0.5], np.float32).view(np.uint64)[0]
    warpsight.trace(PAIRS, "k", grid=1, block=32, args=[values, out, pair, np.float32(0.25)], gpu="b200", level=level)
    a, b = values
    low = a[:, :1]  # of both halves, in place of a pair
    halved = a * np.float32(0.5)
    halved[3, 0] = 0
    product = a * np.array([1, 2], np.float32) + low
    scaled = b * np.array([2, -0.5], np.float32) + np.float32(0.25)
    expected = [a + b, a + b - low, halved, product, scaled, product - product[:, ::-1]]
    np.testing.assert_array_equal(out[:6], expected)
    upward = np.nextafter(a, np.float32(np.inf))
    upward[a == 0] = np.float32(1e-45)
    np.testing.assert_array_equal(out[6], upward)


def test_listing_names_both_registers_of_two_singles() -> None:
    arguments = [np.zeros(128, np.float32), np.zeros(448, np.float32), 0, 0.0]
    trace = warpsight.trace(PAIRS, "k", grid=1, block=32, args=arguments, gpu="b200")
    pairs = [i for i in trace.instructions if i.opcode.startswith(("FADD2", "FMUL2", "FFMA2"))]
    assert len(pairs) == 7
    assert all(len(i.destinations) == 2 and i.op_class == "fp32" for i in pairs)
    assert [len(i.sources) for i in pairs if i.opcode.startswith("FMUL2")] == [2]  # a pair and a number
    # A pair and a number, a pair and the same with its halves exchanged, a pair and a single for both, two pairs.
    assert sorted(len(i.sources) for i in pairs if i.opcode.startswith("FADD2")) == [2, 2, 3, 4]


SPILLED = """\
.version 8.8
.target sm_100a
.address_size 64
.visible .entry spilled(.param .u64 o, .param .u64 p)
{
    .reg .b32 %r<5>;
    .reg .b64 %q<4>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %q1, [o];
    ld.param.u64 %q2, [p];
    mul.wide.u32 %q3, %r1, 4;
    add.u64 %q1, %q1, %q3;
    add.u64 %q2, %q2, %q3;
    ld.global.u32 %r2, [%q2];
    redux.sync.add.s32 %r3, %r2, 0xffffffff;
    st.global.u32 [%q1], %r3;
    shfl.sync.idx.b32 %r4, %r2, 5, 31, 0xffffffff;
    st.global.u32 [%q1+128], %r4;
    ret;
}
"""


def test_uniform_registers_are_kept_in_registers_and_taken_back(tmp_path: Path) -> None:
    """`REDUX UR6, R4; SHFL R9, R4; MOV R7, UR6` as assembled, the last as `MOV.SPILL`, and the shuffle as `R2UR.FILL UR6, R4`, with
    the bits that CUDA 13.0 writes for sm_100a: R7 is R4, and not the sum of the warp that REDUX has left in UR6.
    """
    code = assemble(SPILLED, "spilled.ptx", parse_architecture("100a"))
    move, shuffle = code.index(bytes.fromhex("027c070006000000")), code.index(bytes.fromhex("897f0904001fa000"))
    assert move == shuffle + 16
    code = code[: move + 11] + bytes([code[move + 11] | 1]) + code[move + 12 :]
    (tmp_path / "k.cubin").write_bytes(code[:shuffle] + bytes.fromhex("ca7206040000000000004e0000e21f00") + code[shuffle + 16 :])
    results = np.zeros(64, np.int32)
    trace = warpsight.trace(tmp_path / "k.cubin", "spilled", grid=1, block=32, args=[results, np.full(32, 3, np.int32)], gpu="b200")
    assert {"REDUX.SUM.S32", "MOV.SPILL", "R2UR.FILL"} <= {each.opcode for each in trace.instructions}
    assert (results[:32] == 3).all()
