"""cp.async and cp.async.bulk: what arrives in memory, what completes, what is recorded, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from atomic_definitions import FORMATS, apply
from hopper_launch import LANES, hopper, run, run_traced
from trace_reader import accesses

from warpsight.base.errors import LaunchFault, UnsupportedError

pytestmark = pytest.mark.unit
RNG = np.random.default_rng(12)
DECLARE = ".shared .align 16 .b8 data[16384]; .shared .align 8 .b64 b;"
HEAD = """
    mov.u32 %r30, data;
    mad.lo.u32 %r31, %i, 16, %r30;
    mad.wide.u32 %q31, %i, 16, %in;
    mov.u32 %r29, b;
    setp.eq.u32 %p1, %i, 0;
"""
GIVE = "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r31]; st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};"
FILL = "mov.b64 %q9, -1; st.shared.v2.u64 [%r31], {%q9, %q9};"
IN = ((1 << 32) + 32 * 16) // 32  # first sector of the input, behind 32 lanes' 16 bytes of output


def copied(text: str, data: np.ndarray) -> np.ndarray:
    """What 16 bytes of shared memory of each lane hold after `text`; they were all ones before."""
    return run(hopper(HEAD + FILL + text + GIVE, 2, declarations=DECLARE), data, words=2).view(np.uint8)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("cp.async.ca.shared.global [%r31], [%q31], 4;", 4), ("cp.async.ca.shared.global.L2::64B [%r31], [%q31], 8;", 8),
        ("cp.async.ca.shared::cta.global.L2::128B [%r31], [%q31], 16;", 16), ("cp.async.cg.shared.global [%r31], [%q31], 16;", 16),
        ("cp.async.cg.shared.global.L2::256B [%r31], [%q31], 16, 16;", 16), ("cp.async.ca.shared.global [%r31], [%q31], 8, 8;", 8),
        ("createpolicy.fractional.L2::evict_first.b64 %q8; cp.async.cg.shared.global.L2::cache_hint [%r31], [%q31], 16, %q8;", 16),
        ("mov.b64 %q8, 0; cp.async.ca.shared.global.L2::cache_hint.L2::128B [%r31], [%q31], 4, 4, %q8;", 4),
    ],
)  # fmt: skip
def test_copy_brings_its_bytes(text: str, size: int) -> None:
    data = RNG.integers(0, 256, (32, 16)).astype(np.uint8)
    waits = "cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all; cp.async.wait_group 2;"
    wanted = np.concatenate([data[:, :size], np.full((32, 16 - size), 255, np.uint8)], axis=1)
    np.testing.assert_array_equal(copied(text + waits, data), wanted)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_bytes_past_the_source_size_are_zeros_and_are_not_read(size: int) -> None:
    # The input ends where the last lane's part of it does, and lanes that read nothing have no valid address.
    body = f"""
        rem.u32 %r5, %i, {size + 1};
        setp.eq.u32 %p2, %r5, 0;
        selp.b64 %q31, 48, %q31, %p2;
        cp.async.{"cg" if size == 16 else "ca"}.shared.global [%r31], [%q31], {size}, %r5;"""
    data = RNG.integers(1, 255, 31 * 16 + 31 % (size + 1)).astype(np.uint8)
    padded = np.concatenate([data, np.zeros(16, np.uint8)])
    wanted = np.full((32, 16), 255)
    for lane in range(32):
        read = lane % (size + 1)
        wanted[lane, :size] = 0
        wanted[lane, :read] = padded[16 * lane : 16 * lane + read]
    np.testing.assert_array_equal(copied(body, data), wanted)


def test_ignored_sources_give_zeros() -> None:
    body = "and.b32 %r5, %i, 1; setp.eq.u32 %p2, %r5, 1; cp.async.ca.shared.global [%r31], [%q31], 16, %p2;"
    data = RNG.integers(0, 256, (32, 16)).astype(np.uint8)
    np.testing.assert_array_equal(copied(body, data), np.where(LANES[:, None] % 2, 0, data))


def test_copy_is_recorded_as_a_load_from_device_memory() -> None:
    body = HEAD + "setp.lt.u32 %p2, %i, 24; setp.ge.u32 %p3, %i, 8;\n@%p2 cp.async.ca.shared.global [%r31], [%q31], 16, %p3;"
    _, trace = run_traced(hopper(body, 2, declarations=DECLARE), np.zeros(512, np.uint8), words=2)
    (access,) = accesses(trace)
    assert (access.sectors, access.degree, access.sharing) == ((IN, IN + 1, IN + 2, IN + 3), None, None)
    (row,) = (i for i in trace.instructions if i.opcode.startswith("cp"))
    assert (row.space, row.access, row.access_bytes, row.op_class, row.destinations) == ("global", "load", 16, "memory", ())


def test_groups_and_waits_of_copies_stand_in_the_trace() -> None:
    body = HEAD + """
        cp.async.ca.shared.global [%r31], [%q31], 16; cp.async.commit_group; cp.async.wait_group 2; cp.async.wait_all;"""
    _, trace = run_traced(hopper(body, 2, declarations=DECLARE), np.zeros(512, np.uint8), words=2)
    rows = [i for i in trace.instructions if i.opcode.startswith("cp")]
    assert [(row.is_async_copy, row.closes_group, row.wait_groups) for row in rows] == [
        (True, False, -1), (False, True, -1), (False, False, 2), (False, True, 0),
    ]  # fmt: skip


def test_bulk_copies_in_and_out_complete_on_their_object_and_group() -> None:
    text = HEAD + """
        @%p1 mbarrier.init.shared.b64 [b], 1;
        @!%p1 bra WAIT;
        mov.u32 %r10, 1024;
        mov.b64 %q8, 0;
        mbarrier.arrive.expect_tx.shared.b64 %q1, [b], 1040;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r30], [%in], %r10, [%r29];
        mbarrier.test_wait.shared.b64 %p2, [b], %q1;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r30+1024], [%in+1024], 16, [%r29], %q8;
        mbarrier.test_wait.shared.b64 %p3, [b], %q1;
        mbarrier.arrive.expect_tx.shared.b64 %q1, [b], 528;
        mov.b16 %h1, 1;
        mov.b16 %h2, 0;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r30+2048], [%in], 16, [%r29], %h1;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r30+2064], [%in], 16, [%r29], %h2;
        cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r30+4096], [%r30+512], 512, [%r29];
        mbarrier.test_wait.shared.b64 %p4, [b], %q1;
        cp.async.bulk.global.shared::cta.bulk_group [%in+2048], [%r30], %r10;
        cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%in+3072], [%r30+4096], 512, %q8;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        cp.async.bulk.wait_group.read 1;
        cp.async.bulk.prefetch.L2.global [%in], 4096;
        selp.u32 %r1, 1, 0, %p2;
        selp.u32 %r2, 1, 0, %p3;
        selp.u32 %r3, 1, 0, %p4;
        st.global.v4.u32 [%out], {%r1, %r2, %r3, %r3};
        ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r30+2048];
        st.global.v4.u32 [%out+16], {%r1, %r2, %r3, %r4};
        ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r30+2064];
        st.global.v4.u32 [%out+32], {%r1, %r2, %r3, %r4};
        ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r30+1024];
        st.global.v4.u32 [%out+48], {%r1, %r2, %r3, %r4};
        WAIT:"""
    data = RNG.integers(0, 256, 4096).astype(np.uint8)
    start = data.copy()
    out, trace = run_traced(hopper(text, 8, declarations=DECLARE), data, words=8)
    got = out[0].view(np.uint8).reshape(4, 16)
    assert got[0].view(np.uint32).tolist() == [0, 1, 1, 1]
    np.testing.assert_array_equal(got[1:], [start[:16], np.zeros(16), start[1024:1040]])
    np.testing.assert_array_equal(data[:2048], start[:2048])
    np.testing.assert_array_equal(data[2048:3072], start[:1024])
    np.testing.assert_array_equal(data[3072:3584], start[512:1024])
    np.testing.assert_array_equal(data[3584:], start[3584:])
    first = ((1 << 32) + 32 * 64) // 32
    seen = [(a.sectors, a.degree, a.sharing) for a in accesses(trace) if ".bulk." in a.opcode]
    assert seen == [
        (tuple(range(first, first + 32)), None, None), ((first + 32,), None, None), ((first,), None, None), ((), None, None),
        (None, 4, None), (tuple(range(first + 64, first + 96)), None, None), (tuple(range(first + 96, first + 112)), None, None),
    ]  # fmt: skip
    rows = [(i.space, i.access, i.access_bytes) for i in trace.instructions if ".bulk." in i.opcode and i.access]
    assert rows == [
        ("global", "load", 8160), ("global", "load", 16), ("global", "load", 16), ("global", "load", 16), ("shared", "store", 512),
        ("global", "store", 8160), ("global", "store", 512),
    ]  # fmt: skip


def test_bulk_copies_of_several_lanes_merge_their_sectors() -> None:
    # Lane i copies 16 (i % 3) bytes from 16 i on: neighbours share sectors, every third copies nothing.
    body = HEAD + """
        rem.u32 %r1, %i, 3;
        mul.lo.u32 %r1, %r1, 16;
        @%p1 mbarrier.init.shared.b64 [b], 1;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r31], [%q31], %r1, [%r29];
        mad.lo.u32 %r31, %i, 16, %r30;"""
    data = RNG.integers(0, 256, (34, 16)).astype(np.uint8)
    out, trace = run_traced(hopper(body + GIVE, 2, declarations=DECLARE), data, words=2)
    wanted = np.zeros((34, 16), np.uint8)
    sectors: dict[int, None] = {}
    for lane in range(32):
        for part in range(lane % 3):
            wanted[lane + part] = data[lane + part]
            sectors[IN + (lane + part) // 2] = None
    np.testing.assert_array_equal(out.view(np.uint8), wanted[:32])
    assert next(a for a in accesses(trace) if "bulk" in a.opcode).sectors == tuple(sectors)


REDUCTIONS = [
    *((op, kind) for op in ("add", "min", "max") for kind in ("u32", "s32", "u64", "s64") if (op, kind) != ("add", "s64")),
    *((op, kind) for op in ("and", "or", "xor") for kind in ("b32", "b64")), ("inc", "u32"), ("dec", "u32"),
    ("add", "f32"), ("add", "f64"), *((op, kind) for op in ("add", "min", "max") for kind in ("f16", "bf16")),
]  # fmt: skip
TO_SHARED = [(op, kind) for op, kind in REDUCTIONS if (op, kind) in [("inc", "u32"), ("dec", "u32"), ("add",
"u64")] or kind == "s32"]
TO_SHARED += [(op, "b32") for op in ("and", "or", "xor")]


def _patterns(kind: str, total: int) -> np.ndarray:
    bits = FORMATS[kind].bits if kind in FORMATS else int(kind[1:])
    values = RNG.integers(0, 256, total * bits // 8).astype(np.uint8)
    return values.view(f"u{bits // 8}")


@pytest.mark.parametrize(("operation", "kind", "to_shared"), [*((*c, False) for c in REDUCTIONS), *((*c, True) for c in TO_SHARED)])
def test_bulk_reductions_act_on_each_element(operation: str, kind: str, to_shared: bool) -> None:
    noftz = ".noftz" if operation == "add" and kind in ("f16", "bf16") else ""
    name = f"{operation}{noftz}.{kind}"
    load = "mad.wide.u32 %q1, %i, 16, %in; ld.global.v2.u64 {%q2, %q3}, [%q1]; st.shared.v2.u64 [%r31], {%q2, %q3};"
    load += "ld.global.v2.u64 {%q2, %q3}, [%q1+512]; st.shared.v2.u64 [%r31+512], {%q2, %q3};"
    if to_shared:
        act = "@%p1 mbarrier.init.shared.b64 [b], 1; @%p1 mbarrier.expect_tx.shared::cta.b64 [b], 512;\n"
        opcode = f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{name}"
        act += f"@%p1 {opcode} [%r30+512], [%r30], 512, [%r29];"
        act += "ld.shared.v2.u64 {%q2, %q3}, [%r31+512]; st.global.v2.u64 [%q1+512], {%q2, %q3};"
    else:
        act = f"@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.{name} [%in+512], [%r30], 512;"
    size = FORMATS[kind].bits // 8 if kind in FORMATS else int(kind[1:]) // 8
    memory = _patterns(kind, 1024 // size)
    start = memory.copy()
    _, trace = run_traced(hopper(HEAD + load + act, 2, declarations=DECLARE), memory, words=2)
    half = len(memory) // 2
    pairs = zip(start[half:].tolist(), start[:half].tolist(), strict=True)
    assert memory[half:].tolist() == [apply(operation, kind, old, b, flush=True) for old, b in pairs]
    np.testing.assert_array_equal(memory[:half], start[:half])
    (access,) = (a for a in accesses(trace) if "reduce" in a.opcode)
    expected = (None, 4) if to_shared else (tuple(range(IN + 16, IN + 32)), None)
    assert (access.sectors, access.degree, access.sharing) == (*expected, 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cp.async.ca.shared.global [%r31], [%q31+2], 4;", "misaligned"), ("cp.async.ca.shared.global [%r31+4], [%q31], 8;",
        "misaligned.* offset 148 of 16,392 bytes"),
        ("cp.async.cg.shared.global [%r31], [%q31+512], 16;", "out of bounds"),
        ("cp.async.cg.shared.global [%r31+16384], [%q31], 16;", "end of shared"),
        ("mov.u32 %r1, 5; cp.async.ca.shared.global [%r31], [%q31], 4, %r1;", "of a size that PTX does not allow"),
        ("cp.async.ca.shared.global [%r31], [%in+508], 4, 3; cp.async.ca.shared.global [%r31], [%in+512], 4, 1;", "out of bounds"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], 528;", "out of bounds"),
        ("mov.u32 %r1, 8; cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], %r1;", "of a size that PTX does not allow"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%in+8], [%r30], 16;", "misaligned"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30+4], 16;", "misaligned"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30+16512], 16;", "end of shared"),
        ("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r30], [%in], 16, [%r29];", "no mbarrier object"),
        ("mov.u64 %q1, c; cp.async.bulk.global.shared::cta.bulk_group [%q1], [%r30], 16;", "write to constant"),
    ],
)  # fmt: skip
def test_copy_that_is_not_allowed_faults(text: str, problem: str) -> None:
    body = f"{HEAD}setp.eq.u32 %p15, %i, 9;\n@!%p15 ret;\n{text}"
    source = hopper(body, 2, declarations=DECLARE, outside=".const .align 16 .b32 c[4];")
    with pytest.raises(LaunchFault, match=rf"(?=.*thread \(9,0,0\)).*{problem}"):
        run(source, np.zeros(512, np.uint8), words=2)


@pytest.mark.parametrize("size", [8160, 8192, 16384])
def test_bulk_copy_of_more_sectors_than_a_byte_counts_is_one_event(size: int) -> None:
    text = HEAD + f"@%p1 cp.async.bulk.global.shared::cta.bulk_group [%in], [%r30], {size};"
    _, trace = run_traced(hopper(text, 2, declarations=DECLARE), np.zeros(16384, np.uint8), words=2)
    (copy,) = [access for access in accesses(trace) if "bulk" in access.opcode]
    assert copy.sectors == tuple(range(copy.sectors[0], copy.sectors[0] + size // 32))


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.bulk.tensor.1d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%r30], [%in, {%r1}], [%r29];",
        "cp.async.cg.shared.global [%r31], [%q31], 8;", "cp.async.ca.shared.global [%r31], [%q31], 2;",
        "cp.async.bulk.global.shared::cta.mbarrier::complete_tx::bytes [%in], [%r30], 16, [%r29];",
        "cp.async.bulk.shared::cta.shared::cta.bulk_group [%r30], [%r30], 16;",
        "cp.async.bulk.global.global.bulk_group [%in], [%in], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%in], [%r30], 16;", "cp.sync.ca [%r30], [%in], 4;",
        "cp.async.wait_group %r1;", "cp.async.ca.shared.global.wild [%r31], [%q31], 4;",
    ],
)  # fmt: skip
def test_copy_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match=r"cp\."):
        run(hopper(HEAD + text, 2, declarations=DECLARE), np.zeros(512, np.uint8), words=2)
