"""Does a trace say which sectors, banks and shared addresses each access touched? Expectations follow from the definitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulator_launch import cuda, launch, ptx
from trace_reader import Access, accesses

pytestmark = pytest.mark.unit
FIRST = (1 << 32) // 32  # sector of the first array's first byte
LOCAL = (1 << 36) // 32  # of the local memory of warp 0
IN_OUT = ".param .u64 out, .param .u64 in"
SPACE = ".shared .align 16 .b8 s[32768];"
LANES = np.arange(32)


def words(threads: int) -> np.ndarray:
    return np.zeros(threads, np.uint64)


# -- sectors of device memory ------------------------------------------------------------------------------------------------

GATHER = """
    ld.param.u64 %in, [in];
    mad.wide.u32 %in, %i, 4, %in;
    ld.global.u32 %r1, [%in];
    setp.ne.u32 %p1, %r1, -1;
    ld.param.u64 %q1, [out];
    cvt.u64.u32 %q2, %r1;
    add.u64 %q1, %q1, %q2;
    @%p1 {access};
    ret;"""
LOADS = {
    1: "ld.global.u8 %r2, [%q1]", 2: "ld.global.u16 %h2, [%q1]", 4: "ld.global.f32 %f1, [%q1]", 8: "ld.global.u64 %q3, [%q1]",
    16: "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%q1]",
}  # fmt: skip
STORES = {
    4: "st.global.u32 [%q1], %r2", 8: "st.global.v2.u32 [%q1], {%r2, %r3}", 16: "st.global.v4.u32 [%q1], {%r2, %r3, %r4, %r5}",
}  # fmt: skip
OFF = 0xFFFFFFFF
SHUFFLED = np.random.default_rng(1).permutation(32)
PATTERNS: dict[str, Callable[[int], np.ndarray]] = {
    "aligned": lambda size: LANES * size,
    "one element on": lambda size: LANES * size + size,
    "stride 2": lambda size: LANES * 2 * size,
    "stride 32": lambda size: LANES * 32 * size,
    "all the same": lambda size: LANES * 0 + 3 * size,
    "backwards": lambda size: LANES[::-1] * size,
    "permuted": lambda size: SHUFFLED * size,
    "random": lambda size: np.random.default_rng(size).integers(0, 1024 // size, 32) * size,
    "half of the lanes": lambda size: np.where(LANES % 2, LANES * size, OFF),
    "one lane": lambda size: np.where(LANES == 17, 512, OFF),
    "no lane": lambda size: LANES * 0 + OFF,
    "pairs far apart": lambda size: LANES // 2 * 448,
    "rows of 16": lambda size: LANES % 16 * size + LANES // 16 * 1024,
    "rows of 16 that overlap": lambda size: LANES % 16 * size + LANES // 16 * 4 * size,
    "rows of 16, the second first": lambda size: LANES % 16 * size + (1 - LANES // 16) * 1024,
    "the first 20 lanes": lambda size: np.where(LANES < 20, LANES * 2 * size, OFF),
    "two lanes": lambda size: np.where(LANES % 15 == 3, 2048 - 64 * LANES, OFF),
}


def touched(offsets: np.ndarray) -> tuple[int, ...]:
    """Sectors in the order in which lanes first touch them. An aligned access of 16 bytes or less lies in one."""
    return tuple(dict.fromkeys(FIRST + int(o) // 32 for o in offsets if o != OFF))


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_loads_record_sectors_in_order_of_first_touch(size: int) -> None:
    source = ptx(GATHER.format(access=LOADS[size]), IN_OUT)
    for name, pattern in PATTERNS.items():
        offsets = pattern(size).astype(np.uint32)
        trace = launch(source, "k", 1, 32, [np.zeros(32 * 32 * 16, np.uint8), offsets])
        assert accesses(trace)[-1].sectors == touched(offsets), name


@pytest.mark.parametrize("size", [4, 8, 16])
def test_stores_record_sectors_in_order_of_first_touch(size: int) -> None:
    source = ptx(GATHER.format(access=STORES[size]), IN_OUT)
    for name, pattern in PATTERNS.items():
        offsets = pattern(size).astype(np.uint32)
        trace = launch(source, "k", 1, 32, [np.zeros(32 * 32 * 16, np.uint8), offsets])
        assert accesses(trace)[-1].sectors == touched(offsets), name


def test_number_of_sectors_of_well_known_patterns() -> None:
    source = ptx(GATHER.format(access=LOADS[4]), IN_OUT)
    counts = {"aligned": 4, "one element on": 5, "stride 2": 8, "stride 32": 32, "all the same": 1, "permuted": 4, "no lane": 0}
    for name, count in counts.items():
        trace = launch(source, "k", 1, 32, [np.zeros(1 << 14, np.uint8), PATTERNS[name](4).astype(np.uint32)])
        sectors = accesses(trace)[-1].sectors
        assert sectors is not None and len(sectors) == count, name


def test_partial_warp_records_the_sectors_of_its_lanes() -> None:
    trace = launch(ptx("st.global.u32 [%out], 1;\nret;"), "k", 1, 37, [words(37)])
    assert accesses(trace, 0)[0].sectors == tuple(range(FIRST, FIRST + 8))
    assert accesses(trace, 1)[0].sectors == (FIRST + 8, FIRST + 9)


# -- shared memory, atomics, generic and local memory ------------------------------------------------------------------------

SHARED = """
    ld.param.u64 %in, [in];
    mad.wide.u32 %in, %i, 4, %in;
    ld.global.u32 %r1, [%in];
    setp.ne.u32 %p1, %r1, -1;
    @%p1 {access};
    ret;"""


def degree(access: str, offsets: np.ndarray) -> Access:
    source = ptx(SHARED.format(access=access), IN_OUT)
    return accesses(launch(source, "k", 1, 32, [words(1), offsets.astype(np.uint32)], shared=32768))[-1]


@pytest.mark.parametrize(
    ("stride", "want"), [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1), (64, 32), (65, 1), (17, 1)]
)
def test_bank_conflicts_of_a_stride_in_words(stride: int, want: int) -> None:
    for access in ("ld.shared.f32 %f1, [%r1]", "st.shared.f32 [%r1], %f1"):
        assert degree(access, LANES * 4 * stride).degree == want
        assert degree(access, LANES * 4 * stride + 128 * 5 + 4).degree == want  # wherever it starts


@pytest.mark.parametrize(
    ("access", "offsets", "want"),
    [
        ("ld.shared.v2.f32 {%f1, %f2}, [%r1]", LANES * 8, 2),
        ("st.shared.v4.f32 [%r1], {%f1, %f2, %f3, %f4}", LANES * 16, 4),
        ("ld.shared.f64 %d1, [%r1]", LANES * 16, 4),  # a half-warp at stride 4 words: 16 lanes on 8 banks, twice
        ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", LANES * 16, 4),
        # loads of lanes n and n ^ 1, or n and n ^ 2, at one address: two parts of the warp at a time
        ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", LANES * 0, 2),
        ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", LANES // 16 * 4096, 2),
        ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", LANES // 2 * 16, 2),
        ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", (LANES % 2 + LANES // 4 * 2) * 16, 2),
        ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", LANES // 4 % 2 * 16 + LANES % 4 // 3 * 64, 4),  # 3 differs from 1 and 2
        ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", np.where(LANES % 4 < 3, LANES // 4 * 16, OFF), 2),
        ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", LANES // 2 * 128, 16),  # eight lines in one bank, twice
        ("st.shared.v4.f32 [%r1], {%f1, %f2, %f3, %f4}", LANES * 0, 4),
        ("ld.shared.v2.f32 {%f1, %f2}, [%r1]", LANES * 0, 1),
        ("ld.shared.f64 %d1, [%r1]", LANES // 2 * 8, 1),
        ("ld.shared.f64 %d1, [%r1]", LANES // 2 * 16, 2),
        ("st.shared.f64 [%r1], %d1", LANES // 2 * 8, 2),
        ("ld.shared.u8 %r2, [%r1]", LANES, 1),  # four lanes share a word
        ("ld.shared.u16 %h1, [%r1]", LANES * 64, 16),
        ("ld.shared.f32 %f1, [%r1]", np.where(LANES < 16, 0, 128), 2),  # two words of one bank
        ("ld.shared.f32 %f1, [%r1]", np.where(LANES % 4 == 0, LANES * 128, OFF), 8),
        ("ld.shared.f32 %f1, [%r1]", LANES * 0 + OFF, 0),
        ("ld.shared.f32 %f1, [%r1]", SHUFFLED * 4, 1),
    ],
)
def test_bank_conflicts_of_vectors_narrow_types_and_partial_masks(access: str, offsets: np.ndarray, want: int) -> None:
    assert degree(access, offsets).degree == want


def test_bank_conflicts_of_one_instruction_follow_its_changing_pattern_and_mask() -> None:
    # Rows of offsets, a warp's each; the same instruction runs them all, one after the other.
    rng = np.random.default_rng(8)
    rows = [LANES * 4, LANES * 8, LANES * 8 + 640, np.where(LANES < 9, LANES * 8, OFF)]
    rows += [np.where(LANES > 0, LANES * 128, OFF), LANES * 4]
    rows += [np.where(rng.random(32) < 0.7, rng.integers(0, 64, 32) * 4, OFF) for _ in range(20)]
    body = f"""
        ld.param.u64 %in, [in];
        mad.wide.u32 %in, %i, 4, %in;
        mov.u32 %r2, 0;
        L: ld.global.u32 %r1, [%in];
        setp.ne.u32 %p1, %r1, -1;
        @%p1 ld.shared.f32 %f1, [%r1];
        add.u64 %in, %in, 128;
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p2, %r2, {len(rows)};
        @%p2 bra L;
        ret;"""
    trace = launch(ptx(body, IN_OUT), "k", 1, 32, [words(1), np.array(rows, np.uint32)], shared=8192)
    wanted = []
    for row in rows:
        banks: dict[int, set[int]] = {}
        for offset in row[row != OFF]:
            banks.setdefault(int(offset) // 4 % 32, set()).add(int(offset) // 4)
        wanted.append(max(map(len, banks.values()), default=0))
    assert [a.degree for a in accesses(trace) if a.degree is not None] == wanted


@pytest.mark.parametrize(
    ("offsets", "sharing"),
    [
        (LANES * 4, 1),
        (LANES * 0, 32),
        (LANES // 2 * 4, 2),
        (np.where(LANES < 20, 8, LANES * 4), 20),
        (np.where(LANES < 5, 0, OFF), 5),
    ],
)
def test_atomics_record_how_many_lanes_share_an_address(offsets: np.ndarray, sharing: int) -> None:
    got = degree("atom.shared.add.u32 %r2, [%r1], 1", offsets)
    assert (got.sectors, got.degree, got.sharing) == (None, 1, sharing)
    source = ptx(GATHER.format(access="red.global.add.u32 [%q1], 1"), IN_OUT)
    (_, got) = accesses(launch(source, "k", 1, 32, [np.zeros(64, np.uint32), offsets.astype(np.uint32)]))
    assert (got.sectors, got.degree, got.sharing) == (touched(offsets.astype(np.uint32)), None, sharing)


def test_generic_access_records_sectors_or_degree_by_where_it_goes() -> None:
    body = """
        mov.u32 %r1, s;
        cvt.u64.u32 %q1, %r1;
        cvta.shared.u64 %q1, %q1;
        mad.wide.u32 %q1, %i, 8, %q1;
        st.u32 [%q1], 1;
        st.u32 [%out], 2;
        atom.add.u32 %r2, [%q1], 3;
        atom.add.u32 %r2, [%out], 4;
        ret;"""
    got = accesses(launch(ptx(body, registers=SPACE), "k", 1, 32, [words(32)]))
    eight = tuple(range(FIRST, FIRST + 8))
    assert [(a.sectors, a.degree, a.sharing) for a in got] == [((), 2, None), (eight, 0, None), ((), 2, 1), (eight, 0, 1)]


def test_generic_access_to_several_spaces_records_all_of_them() -> None:
    # Lanes 0, 3, ... go to device memory, 1, 4, ... to shared memory, 2, 5, ... to the first word of their local memory.
    body = """
        rem.u32 %r1, %i, 3;
        setp.eq.u32 %p1, %r1, 1;
        setp.eq.u32 %p2, %r1, 2;
        mov.u32 %r2, s;
        mad.lo.u32 %r2, %i, 32, %r2;
        cvt.u64.u32 %q1, %r2;
        cvta.shared.u64 %q1, %q1;
        mov.u32 %r3, a;
        cvt.u64.u32 %q2, %r3;
        cvta.local.u64 %q2, %q2;
        selp.b64 %q3, %q1, %out, %p1;
        selp.b64 %q4, %q2, %q3, %p2;
        st.u32 [%q4], %i;
        ld.u32 %r4, [%q4];
        atom.add.u32 %r5, [%q3], 1;
        ret;"""
    trace = launch(ptx(body, registers=SPACE + ".local .align 16 .b8 a[64];"), "k", 1, 32, [words(32)])
    device, local = touched(LANES[LANES % 3 == 0] * 8), tuple(LOCAL + k for k in range(4))
    # Shared memory has a bank every 4 bytes, so a stride of 32 bytes leaves 4 banks of 32; three of the lanes 1, 4, ... share one.
    both = (device + local, 3, None)
    assert [(a.sectors, a.degree, a.sharing) for a in accesses(trace)] == [both, both, (touched(LANES[LANES % 3 != 1] * 8), 3, 1)]


def test_local_memory_is_interleaved_word_by_word() -> None:
    # 64 bytes a thread: a word of all 32 lanes takes 128 bytes, and warp w begins at w * 64 * 32.
    body = """
        st.local.u32 [a+8], %i;
        st.local.v2.u32 [a+16], {%r1, %r2};
        and.b32 %r1, %i, 15;
        mul.lo.u32 %r1, %r1, 4;
        mov.u32 %r2, a;
        add.u32 %r2, %r2, %r1;
        ld.local.u32 %r3, [%r2];
        st.local.u8 [a+5], %r3;
        ret;"""
    trace = launch(ptx(body, registers=".local .align 16 .b8 a[64];"), "k", 2, 64, [words(128)])

    def row(warp: int, word: int) -> tuple[int, ...]:
        start = LOCAL + warp * 64 + word * 4
        return tuple(range(start, start + 4))

    for warp in range(4):
        got = [a.sectors for a in accesses(trace, warp)]
        diagonal = tuple(dict.fromkeys(LOCAL + warp * 64 + (lane & 15) * 4 + lane // 8 for lane in range(32)))
        assert got == [row(warp, 2), (*row(warp, 4), *row(warp, 5)), diagonal, row(warp, 1)]
        assert len(diagonal) == 32


def test_constant_and_parameter_loads_leave_no_event() -> None:
    trace = launch(cuda("memory.cu"), "module_data", 1, 64, [np.zeros(64, np.float32), np.zeros(64, np.int32)])
    assert any(i.space == "const" for i in trace.instructions)
    assert {i.event_bytes for i in trace.instructions if i.space in ("const", "param")} == {0}
