"""`ldmatrix`, `stmatrix`, `movmatrix`: where each element goes, which addresses count, conflicts in the trace, faults."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch, ptx, whole

import warpsight
from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit
_LIST = ".param .u64 out, .param .u64 at"
_FILL = """
.shared .align 16 .b8 tile[8192];
ld.param.u64 %q1, [at];
mad.wide.u32 %q1, %i, 4, %q1;
ld.global.u32 %r8, [%q1];            // this lane's address
mov.u32 %r9, tile;
add.u32 %r8, %r8, %r9;
mov.u32 %r1, %i;
FILL:
shl.b32 %r2, %r1, 1;
add.u32 %r2, %r2, %r9;
cvt.u16.u32 %h1, %r1;
st.shared.u16 [%r2], %h1;            // element n holds n
add.u32 %r1, %r1, 32;
setp.lt.u32 %p1, %r1, 4096;
@%p1 bra FILL;
bar.sync 0;
"""
_KEEP = "ld.param.u64 %q2, [out]; mad.wide.u32 %q2, %i, 16, %q2; st.global.v4.u32 [%q2], {%r4, %r5, %r6, %r7};"
_CLEAR = "mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;"


def _registers(count: int) -> str:
    return "{" + ", ".join(f"%r{4 + k}" for k in range(count)) + "}"


def _load(addresses: np.ndarray, count: int, trans: bool, generic: bool = False) -> tuple[np.ndarray, list[int]]:
    """What the four registers of each lane hold, as halves, and the event of the `ldmatrix`."""
    words = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}{'' if generic else '.shared'}.b16"
    where = "cvt.u64.u32 %q3, %r8; cvta.shared.u64 %q3, %q3;" if generic else ""
    line = f"{words} {_registers(count)}, [{'%q3' if generic else '%r8'}];"
    out = np.zeros((32, 4), np.uint32)
    trace = launch(ptx("\n".join([_FILL, _CLEAR, where, line, _KEEP, "ret;"]), _LIST), "k", 1, 32, [out, addresses])
    return out.view(np.uint16).reshape(32, 4, 2), list(whole(trace).events)


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_gives_each_lane_its_two_elements(count: int, trans: bool, generic: bool) -> None:
    rows = np.random.default_rng(7).permutation(512)[:32]
    addresses = (16 * rows).astype(np.uint32)
    addresses[8 * count :] = 0xFFFF0001  # not looked at
    got, events = _load(addresses, count, trans, generic)
    wanted = np.zeros((32, 4, 2), np.uint16)
    for matrix in range(count):
        tile = np.array([[8 * rows[8 * matrix + r] + c for c in range(8)] for r in range(8)])
        tile = tile.T if trans else tile
        for lane in range(32):
            wanted[lane, matrix] = tile[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2]
    np.testing.assert_array_equal(got, wanted)
    groups = [np.bincount(rows[8 * m : 8 * m + 8] % 8).max() for m in range(count)]
    assert events[-2] == sum(groups)  # then comes the store of the results: one byte


@pytest.mark.parametrize(("pitch", "degree"), [(16, 4), (80, 4), (128, 32), (64, 16), (144, 4)])
def test_ldmatrix_records_the_passes_of_its_four_matrices(pitch: int, degree: int) -> None:
    _, events = _load((np.arange(32) * pitch).astype(np.uint32), 4, trans=False)
    assert events[-2] == degree


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_puts_each_element_in_its_row(count: int, trans: bool) -> None:
    rows = np.random.default_rng(8).permutation(64)[:32]
    addresses = (16 * rows).astype(np.uint32)
    addresses[8 * count :] = 0xFFFF0001
    body = f"""
    .shared .align 16 .b8 tile[1024];
    ld.param.u64 %q1, [at]; mad.wide.u32 %q1, %i, 4, %q1; ld.global.u32 %r8, [%q1];
    mov.u32 %r9, tile; add.u32 %r8, %r8, %r9;
    mul.lo.u32 %r4, %i, 131074; add.u32 %r4, %r4, 65536;
    add.u32 %r5, %r4, 0x00400040; add.u32 %r6, %r5, 0x00400040; add.u32 %r7, %r6, 0x00400040;
    stmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16 [%r8], {_registers(count)};
    bar.sync 0;
    shl.b32 %r1, %i, 5; add.u32 %r1, %r1, %r9;
    ld.param.u64 %q2, [out]; mad.wide.u32 %q2, %i, 32, %q2;
    ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r1]; st.global.v4.u32 [%q2], {{%r10, %r11, %r12, %r13}};
    ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r1+16]; st.global.v4.u32 [%q2+16], {{%r10, %r11, %r12, %r13}};
    ret;"""
    out = np.zeros((64, 8), np.uint16)
    launch(ptx(body, _LIST), "k", 1, 32, [out, addresses])
    wanted = np.zeros((64, 8), np.uint16)
    for matrix in range(count):
        held = np.zeros((8, 8), np.uint16)  # element n of matrix m is n + 64 m
        for lane in range(32):
            for s in range(2):
                held[lane // 4, lane % 4 * 2 + s] = 2 * lane + s + 64 * matrix
        for r in range(8):
            wanted[rows[8 * matrix + r]] = (held.T if trans else held)[r]
    np.testing.assert_array_equal(out, wanted)


def test_movmatrix_transposes_across_the_warp() -> None:
    body = """
    ld.param.u64 %q1, [at]; mad.wide.u32 %q1, %i, 4, %q1; ld.global.u32 %r1, [%q1];
    movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
    ld.param.u64 %q2, [out]; mad.wide.u32 %q2, %i, 4, %q2; st.global.u32 [%q2], %r2;
    ret;"""
    given = np.random.default_rng(9).integers(0, 1 << 16, (8, 8)).astype(np.uint16)
    out = np.zeros((8, 8), np.uint16)
    launch(ptx(body, _LIST), "k", 1, 32, [out, given])
    np.testing.assert_array_equal(out, given.T)


@pytest.mark.parametrize(
    ("lane", "address", "message"),
    [(5, 8192, r"past the end of shared memory by \"ldmatrix.*thread \(5,0,0\), offset 8,192"),
     (9, 24, r"misaligned .*thread \(9,0,0\)"), (31, 8180, r"shared memory|misaligned")],
)  # fmt: skip
def test_each_row_address_is_checked(lane: int, address: int, message: str) -> None:
    addresses = np.zeros(32, np.uint32)
    addresses[lane] = address
    with pytest.raises(LaunchFault, match=message):
        _load(addresses, 4, trans=False)


def test_generic_address_outside_shared_memory_is_a_fault() -> None:
    body = "ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%out];\nret;"
    with pytest.raises(LaunchFault, match="past the end of shared memory"):
        launch(ptx(body), "k", 1, 32, [np.zeros(32, np.uint64)])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r1, %r2}, [%r3];", "this shape with these types"),
        ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r1, %r2}, [%r3];", "x1 and .x2 of this shape"),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1}, [%r3];", "2 matrices but names 1"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r1}, [%r3];", "this shape with these types"),
        ("stmatrix.sync.aligned.m16n8.x1.shared.b8 [%r3], {%r1};", "this shape with these types"),
        ("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8x16.b4x16_p64 [%r3], {%r1};", "this shape with these types"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r3];", "2 matrices but names 1"),
        ("ldmatrix.sync.aligned.m8n8.shared.b16 {%r1}, [%r3];", "x1, .x2, .x4"),
        ("movmatrix.sync.aligned.m8n8.b16 %r1, %r2;", "trans"),
    ],
)
def test_form_that_ptx_does_not_have_is_refused_by_name(line: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        launch(ptx(f"{line}\nret;"), "k", 1, 32, [np.zeros(32, np.uint64)])


# -- Matrices of bytes (sm_100). Rows are 16 elements in 16 bytes; what a lane gets is read off CUTLASS's `copy_traits_sm100.hpp`.

BYTES = [
    *(("m16n16", count, kind) for count in (1, 2) for kind in ("b8", "b8x16.b6x16_p32", "b8x16.b4x16_p64")),
    *(("m8n16", count, kind) for count in (1, 2, 4) for kind in ("b8x16.b6x16_p32", "b8x16.b4x16_p64")),
]  # fmt: skip


def _elements(rows: np.ndarray, kind: str) -> np.ndarray:
    """The 16 elements of each row of 16 bytes."""
    bits = {"b8": 8, "b8x16.b6x16_p32": 6}.get(kind, 4)
    digits = np.unpackbits(rows, axis=1, bitorder="little")[:, : 16 * bits].reshape(len(rows), 16, bits)
    return (digits << np.arange(bits, dtype=np.uint8)).sum(axis=2).astype(np.uint32)


def _word(elements: list[int]) -> int:
    return sum(int(element) << 8 * k for k, element in enumerate(elements))


def _loaded(rows: np.ndarray, shape: str, count: int, kind: str) -> np.ndarray:
    """The registers [lane, register] that a load gives."""
    e, lanes = _elements(rows, kind), range(32)
    if shape == "m8n16":
        pieces = e.reshape(-1, 4, 4)  # of four elements
        return np.array([[_word(pieces[8 * m + lane // 4, lane % 4]) for m in range(count)] for lane in lanes])
    first = [16 * m + 2 * second for m in range(count) for second in range(2)]
    places = [(k % 2, 8 * (k // 2)) for k in range(4)]
    return np.array([[_word([e[start + 4 * (lane % 4) + down, lane // 4 + right] for down, right in places]) for start in first]
                     for lane in lanes])  # fmt: skip


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_matrices_of_bytes_are_loaded_and_stored(level: str) -> None:
    """All loads, then a store of the transposed matrices that `m16n8` wants: rows 2 c and 2 c + 1 of columns r and r + 8."""
    rng = np.random.default_rng(4)
    rows, order = rng.integers(0, 256, (64, 16), dtype=np.uint8), rng.permutation(64)[:32].astype(np.uint32)
    stored = rng.integers(0, 1 << 32, (32, 4), dtype=np.uint64).astype(np.uint32)
    lines, widths = [], []
    for number, (shape, count, kind) in enumerate(BYTES):
        width = count * (2 if shape == "m16n16" else 1)
        trans = ".trans" if shape == "m16n16" else ""
        names = [f"%o{4 * number + k}" for k in range(width)]
        lines.append(f"ldmatrix.sync.aligned.{shape}.x{count}{trans}.shared.{kind} {{{', '.join(names)}}}, [%r1];")
        lines += [f"st.global.b32 [%q1 + {16 * number + 4 * k}], {name};" for k, name in enumerate(names)]
        widths.append(width)
    for count in (1, 2, 4):
        names = ", ".join(f"%s{k}" for k in range(count))
        lines.append(f"bar.sync 0; stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r3], {{{names}}}; add.u32 %r3, %r3, 512;")
    text = f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 rows, .param .u64 order, .param .u64 words, .param .u64 out, .param .u64 kept)
{{
    .reg .b64 %q<8>; .reg .b32 %r<8>, %s<4>, %o<{4 * len(BYTES)}>; .shared .align 16 .b8 room[{1024 + 3 * 512}];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room;
    ld.param.u64 %q0, [rows]; mad.wide.u32 %q0, %r0, 32, %q0; mad.lo.u32 %r2, %r0, 32, %r1;
    ld.global.b64 %q2, [%q0]; ld.global.b64 %q3, [%q0 + 8]; ld.global.b64 %q4, [%q0 + 16]; ld.global.b64 %q5, [%q0 + 24];
    st.shared.b64 [%r2], %q2; st.shared.b64 [%r2 + 8], %q3; st.shared.b64 [%r2 + 16], %q4; st.shared.b64 [%r2 + 24], %q5;
    ld.param.u64 %q0, [words]; mad.wide.u32 %q0, %r0, 16, %q0; ld.global.v4.b32 {{%s0, %s1, %s2, %s3}}, [%q0];
    ld.param.u64 %q0, [order]; mad.wide.u32 %q0, %r0, 4, %q0; ld.global.b32 %r4, [%q0];
    mad.lo.u32 %r3, %r0, 16, %r1; add.u32 %r3, %r3, 1024; mad.lo.u32 %r1, %r4, 16, %r1;
    ld.param.u64 %q1, [out]; mad.wide.u32 %q1, %r0, {16 * len(BYTES)}, %q1;
    bar.sync 0;
    {" ".join(lines)}
    bar.sync 0;
    ld.param.u64 %q1, [kept]; mad.wide.u32 %q1, %r0, 48, %q1; mov.u32 %r1, room; mad.lo.u32 %r1, %r0, 48, %r1;
    {" ".join(f"ld.shared.b64 %q2, [%r1 + {1024 + 8 * k}]; st.global.b64 [%q1 + {8 * k}], %q2;" for k in range(6))}
    ret;
}}
"""
    out, kept = np.zeros((32, len(BYTES), 4), np.uint32), np.zeros((3, 32, 16), np.uint8)
    arguments = [rows, order, stored, out, kept]
    if level == "ptx":
        launch(load_source(text, name="tiles.ptx"), "k", 1, 32, arguments)
    else:
        warpsight.trace(text, "k", grid=1, block=32, args=arguments, gpu="b200", level="sass")
    for number, (form, width) in enumerate(zip(BYTES, widths, strict=True)):
        np.testing.assert_array_equal(out[:, number, :width], _loaded(rows[order], *form), err_msg=str(form))
    parts = stored.view(np.uint8).reshape(32, 4, 4)
    for number, count in enumerate((1, 2, 4)):
        wanted = np.zeros((32, 16), np.uint8)
        for lane, m, k in np.ndindex(32, count, 4):
            wanted[8 * m + 2 * (lane % 4) + k % 2, lane // 4 + 8 * (k // 2)] = parts[lane, m, k]
        np.testing.assert_array_equal(kept[number], wanted)
