"""Loads and stores of each type, vector and state space, with each order, scope and cache operator that PTX has."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch, ptx
from hopper_launch import LANES, hopper, run

from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit
RNG = np.random.default_rng(5)
REGISTERS = {8: "%h", 16: "%h", 32: "%r", 64: "%q", 128: "%w"}
SHAPES = [
    (kind, bits, count)
    for kind, bits in [
        *((f"{kind}{bits}", bits) for kind in "bus" for bits in (8, 16, 32, 64)),
        ("f32", 32), ("f64", 64), ("b128", 128),
    ]
    for count in (1, 2, 4)
    if bits * count <= 128
]  # fmt: skip
SPACES = {
    "global": "[%in+{}]",
    "shared": "[%r31+{}]", "shared::cta": "[%q30+{}]", "shared::cluster": "[%r31+{}]",
    "local": "[%r30+{}]",
    "": "[%q28+{}]",
}  # fmt: skip


def _registers(kind: str, bits: int, count: int) -> str:
    prefix = {"f32": "%f", "f64": "%d"}.get(kind, REGISTERS[bits])
    names = [f"{prefix}{k}" for k in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}"


@pytest.mark.parametrize("space", SPACES)
def test_each_type_and_vector_moves_its_bytes_through_each_space(space: str) -> None:
    # Every lane has 64 * len(SHAPES) bytes of input; a shape stores 16 of them into the space, loads them and gives them out.
    lines = ["mov.u32 %r31, s;", "cvt.u64.u32 %q30, %r31;", "mov.u32 %r30, l;", "cvt.u64.u32 %q29, %r30;"]
    lines += ["mad.lo.u32 %r31, %i, 16, %r31;", "mad.wide.u32 %q30, %i, 16, %q30;"]
    lines += [f"mad.wide.u32 %in, %i, {16 * len(SHAPES)}, %in;"]
    lines += ["cvta.shared.u64 %q28, %q30;", "mov.u64 %q27, %in;", "mov.u64 %in, %out;"]
    for number, (kind, bits, count) in enumerate(SHAPES):
        words, vector = _registers(kind, bits, count), "" if count == 1 else f".v{count}"
        dotted = f".{space}" if space else ""
        place = SPACES[space].format(16 * number if space == "global" else 0)
        lines += [f"ld.global{vector}.{kind} {words}, [%q27+{16 * number}];", f"st{dotted}{vector}.{kind} {place}, {words};"]
        lines += [f"ld{dotted}{vector}.{kind} {words}, {place};", f"st.global{vector}.{kind} [%out+{16 * number}], {words};"]
    declarations = ".shared .align 16 .b8 s[512]; .local .align 16 .b8 l[16];"
    data = RNG.integers(0, 256, (32, len(SHAPES), 16)).astype(np.uint8)
    got = run(hopper("\n".join(lines), 2 * len(SHAPES), declarations=declarations), data, words=2 * len(SHAPES)).view(np.uint8)
    for number, (kind, bits, count) in enumerate(SHAPES):
        size = bits * count // 8
        wanted = data[:, number, :size]
        np.testing.assert_array_equal(got.reshape(32, -1, 16)[:, number, :size], wanted, err_msg=f"{space} {kind} x {count}")
        assert not got.reshape(32, -1, 16)[:, number, size:].any()


@pytest.mark.parametrize(("kind", "bits"), [(f"{kind}{bits}", bits) for kind in "bus" for bits in (8, 16, 32)])
def test_load_into_a_wider_register_extends_by_the_type(kind: str, bits: int) -> None:
    body = f"""
        mad.wide.u32 %in, %i, 4, %in;
        ld.global.{kind} %r1, [%in];
        ld.global.{kind} %q1, [%in];
        st.global.u32 [%out], %r1;
        st.global.u64 [%out+8], %q1;"""
    data = RNG.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32)
    got = run(hopper(body, 2), data, words=2)
    low = data.astype(np.int64) & ((1 << bits) - 1)
    wanted = np.where((kind[0] == "s") & (low >> (bits - 1) == 1), low - (1 << bits), low)
    np.testing.assert_array_equal(got[:, 0], (wanted % (1 << 32)).astype(np.uint64))
    np.testing.assert_array_equal(got[:, 1].view(np.int64), wanted)


LOADS = [
    "ld.weak.global", "ld.volatile.global", "ld.relaxed.cta.global", "ld.relaxed.cluster.global", "ld.acquire.gpu.global",
    "ld.acquire.sys.global", "ld.mmio.relaxed.sys.global", "ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.global.lu",
    "ld.global.cv", "ld.global.nc", "ld.global.ca.nc", "ld.global.cs.nc", "ld.global.L1::evict_normal", "ld.global.L1::evict_last",
    "ld.global.L1::evict_first", "ld.global.L1::evict_unchanged", "ld.global.L1::no_allocate", "ld.global.L2::64B",
    "ld.global.L2::128B", "ld.global.L2::256B", "ld.global.nc.L1::no_allocate.L2::128B", "ldu.global", "ld.weak.global.cg.L2::128B",
    "ld.relaxed.gpu.global.L1::no_allocate.L2::64B", "ldu", "ld.volatile", "ld.relaxed.sys", "ld.acquire.cluster",
]  # fmt: skip
STORES = [
    "st.weak.global", "st.volatile.global", "st.relaxed.cta.global", "st.release.cluster.global", "st.release.sys.global",
    "st.mmio.relaxed.sys.global", "st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt", "st.global.L1::evict_last",
    "st.global.L1::no_allocate", "st.relaxed.gpu.global.L1::evict_first", "st.volatile", "st.release.gpu",
]  # fmt: skip


def test_orders_scopes_and_cache_operators_change_no_value() -> None:
    lines = ["mad.wide.u32 %in, %i, 8, %in;", "createpolicy.fractional.L2::evict_last.b64 %q31, 0.5;"]
    count = 0
    for opcode in [*LOADS, "ld.global.L2::cache_hint", "ld.global.nc.L1::evict_last.L2::cache_hint"]:
        hint = ", %q31" if "hint" in opcode else ""
        lines += ["ld.global.v2.u32 {%r2, %r3}, [%in];", f"{opcode}.u32 %r1, [%in]{hint};", "add.u32 %r1, %r1, %r3;"]
        lines += [f"st.global.u32 [%out+{8 * count}], %r1;"]
        count += 1
    for opcode in [*STORES, "st.global.L2::cache_hint", "st.relaxed.cta.global.L1::no_allocate.L2::cache_hint"]:
        hint = ", %q31" if "hint" in opcode else ""
        lines += [f"add.u32 %r1, %r2, {count};", f"{opcode}.u32 [%out+{8 * count}], %r1{hint};"]
        count += 1
    data = RNG.integers(0, 1 << 32, (32, 2), dtype=np.uint64).astype(np.uint32)
    got = run(hopper("\n".join(lines), count), data, words=count)
    loads = len(LOADS) + 2
    x, y = data.astype(np.uint64).T
    for k in range(count):
        np.testing.assert_array_equal(got[:, k], (x + (y if k < loads else k)) % (1 << 32))


def test_vectors_of_32_bytes_of_global_memory() -> None:
    body = """
        mad.wide.u32 %in, %i, 64, %in;
        ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%in];
        ld.global.L2::evict_last.v4.b64 {%q1, %q2, %q3, %q4}, [%in+32];
        st.global.v8.b32 [%out+32], {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8};
        st.global.v4.b64 [%out], {%q1, %q2, %q3, %q4};"""
    data = RNG.integers(0, 1 << 63, (32, 8), dtype=np.uint64)
    got = run(hopper(body, 8, target="sm_100"), data, words=8)
    np.testing.assert_array_equal(got, np.concatenate([data[:, 4:], data[:, :4]], axis=1))


def test_constant_and_parameter_space_are_read_at_fixed_and_computed_addresses() -> None:
    outside = ".const .align 8 .u32 c[4] = {11, 22, 33, 44};"
    body = """
        and.b32 %r1, %i, 3;
        mov.u64 %q1, c;
        mad.wide.u32 %q1, %r1, 4, %q1;
        ld.const.u32 %r2, [%q1];
        ld.const.u32 %r3, [c+4];
        cvta.const.u64 %q2, %q1;
        ld.u32 %r4, [%q2];
        ld.param.u64 %q3, [in];
        ld.param::entry.u64 %q4, [in];
        mov.b64 %q5, in;
        ld.param.u64 %q6, [%q5];
        cvta.param.u64 %q7, %q5;
        ld.u64 %q8, [%q7];
        ld.v2.u32 {%r5, %r6}, [%q7];
        cvta.to.param.u64 %q9, %q7;
        ld.param.u64 %q10, [%q9];
        st.global.v2.u32 [%out], {%r2, %r3};
        st.global.u64 [%out+8], %q3;
        st.global.u64 [%out+16], %q4;
        st.global.u64 [%out+24], %q6;
        st.global.u64 [%out+32], %q8;
        st.global.v2.u32 [%out+40], {%r5, %r6};
        st.global.u64 [%out+48], %q10;
        st.global.u32 [%out+56], %r4;"""
    got = run(hopper(body, 8, outside=outside), words=8)
    values = (LANES % 4 + 1) * 11
    np.testing.assert_array_equal(got[:, 0].copy().view(np.uint32).reshape(32, 2), np.stack([values, np.full(32, 22)], axis=1))
    # The constants lie first, then the output, then the input.
    assert {int(v) for v in got[:, 1:7].ravel()} == {(1 << 32) + 256 + 32 * 8 * 8}
    np.testing.assert_array_equal(got[:, 7], values)


@pytest.mark.parametrize(
    ("access", "problem"),
    [
        ("ld.global.u32 %r1, [%in+2];", "misaligned"), ("ld.global.v2.u32 {%r1, %r2}, [%in+4];", "misaligned"),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%in+8];", "misaligned"), ("ld.global.b128 %w1, [%in+8];", "misaligned"),
        ("st.global.u16 [%in+1], %h1;", "misaligned"), ("ld.u64 %q1, [%in+4];", "misaligned"),
        ("ld.shared.v2.u64 {%q1, %q2}, [s+8];", "misaligned"), ("st.local.u32 [l+2], %r1;", "misaligned"),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%in+16];", "out of bounds"),  # the array ends within the vector
        ("ld.global.v2.u64 {%q1, %q2}, [%in+16];", "out of bounds"), ("st.global.b128 [%in+16], %w1;", "out of bounds"),
        ("st.global.u8 [%in+24], %h1;", "out of bounds"), ("ld.global.u32 %r1, [%in+-260];", "out of bounds"),
        ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [s+256];", "end of shared"), ("ld.shared.u8 %r1, [s+256];", "end of shared"),
        ("st.local.v2.u32 [l+16], {%r1, %r2};", "end of a thread's local"), ("ld.shared.u32 %r1, [s+-4];", "end of shared"),
        ("mov.u64 %q1, c; st.global.u32 [%q1], 1;", "write to constant"), ("mov.u64 %q1, c; st.u32 [%q1], 1;", "write to constant"),
        ("mov.b64 %q1, in; cvta.param.u64 %q1, %q1; st.u32 [%q1], 1;", "write to constant"),
        ("mov.b64 %q1, in; ld.param.u64 %q2, [%q1+8];", "end of the kernel's parameters"),
        ("mov.b64 %q1, in; ld.param.u32 %r2, [%q1+2];", "misaligned"),
        ("mov.b64 %q1, in; cvta.param.u64 %q1, %q1; ld.u64 %q2, [%q1+8];", "end of the kernel's parameters"),
        ("atom.global.add.u64 %q1, [%in+4], 1;", "misaligned"), ("atom.global.add.u32 %r1, [%in+24], 1;", "out of bounds"),
        ("atom.shared.add.u32 %r1, [s+256], 1;", "end of shared"), ("red.shared.add.u32 [s+2], 1;", "misaligned"),
        ("mov.u64 %q1, c; red.global.add.u32 [%q1], 1;", "write to constant"),
    ],
)  # fmt: skip
def test_access_that_is_not_allowed_faults(access: str, problem: str) -> None:
    declarations = ".shared .align 16 .b8 s[40]; .local .align 8 .b8 l[16];"
    guarded = "setp.eq.u32 %p15, %i, 7;\n@!%p15 ret;\n"
    source = hopper(guarded + access, declarations=declarations, outside=".const .align 8 .u32 c[4];")
    with pytest.raises(LaunchFault, match=rf"{problem}.* thread \(7,0,0\)"):
        run(source, np.zeros(24, np.uint8))


@pytest.mark.parametrize(
    "access",
    [
        "st.param.u32 [in], %r1;", "ld.param.u32 %r1, [in+2];", "ld.param.v2.u64 {%q1, %q2}, [in+8];", "ld.param.u64 %q1, [in+16];",
        "st.const.u32 [c], %r1;", "ld.shared.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%r9];",
        "ld.global.v2.u32 %r1, [%in];", "ld.global.L2::cache_hint.u32 %r1, [%in];", "ld.global.u32 %r1, [%in], %q1;",
        "ld.global.tf32 %r1, [%in];", "ld.global.wild.u32 %r1, [%in];", "st.bulk.weak.shared::cta [%r1], 16, 0;",
    ],
)  # fmt: skip
def test_access_that_has_no_meaning_is_refused(access: str) -> None:
    with pytest.raises(UnsupportedError, match=access.split(maxsplit=1)[0]):
        launch(ptx(access + "\nret;", ".param .u64 out, .param .u64 in", ".const .u32 c;"), "k", 1, 32, [np.zeros(32), np.zeros(1)])


ROWS = """
extern "C" __global__ void rows(char* a, short* b, float* c, float2* d, float4* e) {
    __shared__ float4 tile[40];
    int at = threadIdx.y * 24 + threadIdx.x, way = 20 * threadIdx.y + threadIdx.x;
    tile[way] = e[at];
    __syncthreads();
    a[at + 64] = a[at]; b[at + 64] = b[at]; c[at + 64] = c[at]; d[at + 64] = d[at]; e[at + 64] = tile[way];
}
"""


def test_rows_of_16_lanes_move_their_bytes_of_each_size() -> None:
    arrays = [RNG.integers(0, 256, (128, size)).astype(np.uint8) for size in (1, 2, 4, 8, 16)]
    wanted = [array.copy() for array in arrays]
    for array in wanted:
        array[64:80], array[88:104] = array[0:16], array[24:40]
    launch(load_source(ROWS), "rows", 1, (16, 2), arrays)
    for got, array in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(got, array)
