"""Generic addresses, state spaces, special registers, the stack of a thread, fences and cache hints."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from emulator_launch import REGISTERS, launch
from hopper_launch import ALL, LANES, hopper, run, run_traced
from trace_reader import accesses

from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.base.findings import MEMCHECK, Finding
from warpsight.emulator.run.launch import PreparedKernel, emulate, prepare_kernel
from warpsight.kernels.launch import KernelSource, RunOptions
from warpsight.kernels.launch_check import make_launch
from warpsight.kernels.toolkit import Architecture

pytestmark = pytest.mark.unit
OUTSIDE = ".global .align 8 .u32 g[4] = {5, 6, 7, 8};\n.const .align 8 .u32 c[4] = {1, 2, 3, 4};\n.global .align 8 .u32 h[4];"
SPACES = ["global", "const", "shared", "local", "param"]
WORDS = {"shared": ["shared", "shared::cta", "shared::cluster"], "param": ["param", "param::entry"]}
DECLARE = ".shared .align 16 .b8 s[64]; .local .align 16 .b8 l[64];"


def test_each_space_knows_its_generic_addresses() -> None:
    sources = {"global": "g", "const": "c", "shared": "s", "local": "l", "param": "in"}
    asked = [word for space in SPACES for word in WORDS.get(space, [space])]
    lines = []
    for row, space in enumerate(SPACES):
        lines += [f"mov.b64 %q1, {sources[space]}; cvta.{space}.u64 %q2, %q1; cvta.to.{space}.u64 %q3, %q2; mov.u32 %r1, 0;"]
        for k, word in enumerate(asked):
            lines += [f"isspacep.{word} %p1, %q2; selp.u32 %r2, {1 << k}, 0, %p1; or.b32 %r1, %r1, %r2;"]
        lines += ["setp.eq.u64 %p2, %q1, %q3; selp.u32 %r3, 1, 0, %p2;", f"st.global.v2.u32 [%out+{8 * row}], {{%r1, %r3}};"]
    lines += ["mov.u64 %q1, h; isspacep.global %p1, %q1; isspacep.const %p2, %q1;"]
    lines += [f"selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 1, 0, %p2; st.global.v2.u32 [%out+{8 * len(SPACES)}], {{%r1, %r2}};"]
    got = run(hopper("\n".join(lines), 6, declarations=DECLARE, outside=OUTSIDE), words=6).view(np.uint32)
    for row, space in enumerate(SPACES):
        # Parameters lie in the window of global memory too (PTX ISA, isspacep).
        true = {space, "global"} if space == "param" else {space}
        bits = sum(1 << k for k, word in enumerate(asked) if word.split("::")[0] in true)
        assert got[:, 2 * row : 2 * row + 2].tolist() == [[bits, 1]] * 32, space
    assert got[:, 10:].tolist() == [[1, 0]] * 32


def test_a_cluster_is_the_block_itself() -> None:
    body = """
        mov.u32 %r1, s;
        mapa.shared::cluster.u32 %r2, %r1, 0;
        mov.u64 %q1, s;
        cvta.shared::cluster.u64 %q2, %q1;
        mapa.u64 %q3, %q2, %r10;
        mapa.shared::cluster.u64 %q4, %q1, 0;
        getctarank.shared::cluster.u32 %r3, %r2;
        getctarank.u64 %r4, %q3;
        mad.lo.u32 %r2, %i, 4, %r2;
        st.shared::cluster.u32 [%r2], %i;
        ld.shared::cta.u32 %r5, [%r2];
        ld.u32 %r6, [%q3+8];
        ld.shared::cluster.u32 %r7, [%q4+12];
        st.global.v2.u32 [%out], {%r3, %r4};
        st.global.v4.u32 [%out+16], {%r5, %r6, %r7, 0};"""
    got = run(hopper(body, 4, declarations=".shared .align 16 .b8 s[128];"), words=4).view(np.uint32)
    for lane in range(32):
        assert got[lane, :2].tolist() == [0, 0] and got[lane, 4:7].tolist() == [lane, 2, 3]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mov.u32 %r1, s; mapa.shared::cluster.u32 %r2, %r1, 1; ld.shared::cluster.u32 %r3, [%r2];", "end of shared"),
        ("mov.u64 %q1, s; cvta.shared.u64 %q1, %q1; mapa.u64 %q2, %q1, 3; ld.u32 %r3, [%q2];", "out of bounds"),
    ],
)  # fmt: skip
def test_access_to_another_block_of_the_cluster_faults(text: str, problem: str) -> None:
    with pytest.raises(LaunchFault, match=problem):
        run(hopper(text, declarations=DECLARE))


# Units of allocation: PTX ISA, "%total_smem_size": 256 bytes up to sm_7x, 128 bytes from sm_8x on, where the system has 1 KiB more.
ARCHITECTURES = pytest.mark.parametrize(
    ("target", "native", "unit"), [("sm_75", False, 256), ("sm_75", True, 256), ("sm_80", True, 128), ("sm_90", False, 128),
                                   ("sm_90", True, 128), ("sm_100", True, 128)]
)  # fmt: skip


@functools.cache
def reading_kernel(target: str, native: bool, checks: frozenset[str]) -> tuple[KernelSource, PreparedKernel]:
    """A block asks for 40 + 24 bytes of shared memory, and reads 16 bytes at the offset in the input array."""
    body = """mov.u32 %r9, s; st.shared.u32 [%r9], %i; st.shared.u32 [d], %i; bar.sync 0; ld.global.u32 %r8, [%in];
        add.u32 %r9, %r9, %r8; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r9]; st.global.u32 [%out], %r1;"""
    source = hopper(body, declarations=".shared .align 16 .b8 s[40];", outside=".extern .shared .align 16 .b8 d[];", target=target)
    architecture = Architecture(int(target[3:])) if native else None
    return source, prepare_kernel(source, "k", architecture=architecture, checks=checks)


def reads_shared(target: str, native: bool, offset: int, checks: frozenset[str] = frozenset()) -> list[Finding]:
    """What the checks find in a launch of `reading_kernel`."""
    found: list[Finding] = []
    source, prepared = reading_kernel(target, native, checks)
    launched = make_launch(source, "k", 1, 32, [np.zeros(32, np.uint64), np.array([offset])], shared=16)
    options = RunOptions(check=checks, found=found.append if checks else None)
    emulate(source, launched, registers=REGISTERS, options=options, prepared=prepared)
    return found


def starts_at(target: str, native: bool) -> int:
    """Machine code since sm_90 has what the system takes at offset 0, and the block's own behind it."""
    return 1024 if native and int(target[3:]) >= 90 else 0


@ARCHITECTURES
def test_shared_memory_ends_with_the_unit_in_which_it_is_allocated(target: str, native: bool, unit: int) -> None:
    reads_shared(target, native, 64)
    reads_shared(target, native, unit - 16)
    first = starts_at(target, native)
    size, end = f"{first + 64:,}", f"{first + unit:,}"
    with pytest.raises(LaunchFault, match=f"past the end of shared memory.*offset {end} of {size} bytes \\({end} are allocated\\)"):
        reads_shared(target, native, unit)


@ARCHITECTURES
def test_memcheck_reports_what_the_launch_did_not_ask_for(target: str, native: bool, unit: int) -> None:
    checks = frozenset({MEMCHECK})
    assert reads_shared(target, native, 48, checks) == []
    (found,) = reads_shared(target, native, 64, checks)
    assert (found.kind, found.address, found.count) == ("shared-out-of-bounds", starts_at(target, native) + 64, 32)


@ARCHITECTURES
def test_sizes_of_shared_memory_are_those_allocated(target: str, native: bool, unit: int) -> None:
    aggregate = "mov.u32 %r2, %aggr_smem_size;" if int(target[3:]) >= 90 else "mov.u32 %r2, 0;"
    body = f"mov.u32 %r1, %total_smem_size; {aggregate} st.shared.u32 [s], %r1; st.global.v2.u32 [%out], {{%r1, %r2}};"
    source = hopper(body, declarations=".shared .align 16 .b8 s[300];", target=target)
    out = np.zeros(32, np.uint64)
    prepared = prepare_kernel(source, "k", architecture=Architecture(int(target[3:])) if native else None)
    launch(source, "k", 1, 32, [out, np.zeros(1)], prepared=prepared)
    total = {256: 512, 128: 384}[unit]
    expected = [total, total + 1024 if "aggr" in aggregate else 0]
    assert out.view(np.uint32).reshape(-1, 2).tolist() == [expected] * 32


def test_every_special_register_has_its_value() -> None:
    axes = {"x": 0, "y": 1, "z": 2}
    grid, block, dynamic = (3, 2, 1), (8, 4, 2), 48
    plain = {
        "%nwarpid": 2, "%smid": 0, "%nsmid": 1, "%cluster_ctarank": 0, "%cluster_nctarank": 1, "%clock_hi": 0, "%globaltimer_hi": 0,
        "%total_smem_size": 128, "%aggr_smem_size": 128 + 1024, "%dynamic_smem_size": dynamic,
        "%reserved_smem_offset_begin": 0, "%reserved_smem_offset_end": 1024, "%reserved_smem_offset_cap": 1024,
        "%reserved_smem_offset_0": 0, "%reserved_smem_offset_1": 512, "WARP_SZ": 32,
        **{f"%pm{k}": 0 for k in range(8)}, **{f"%envreg{k}": 0 for k in range(32) if k not in (1, 2)},
        **{f"%ntid.{a}": block[k] for a, k in axes.items()}, **{f"%nctaid.{a}": grid[k] for a, k in axes.items()},
        **{f"%nclusterid.{a}": grid[k] for a, k in axes.items()}, **{f"%cluster_ctaid.{a}": 0 for a in axes},
        **{f"%cluster_nctaid.{a}": 1 for a in axes},
    }  # fmt: skip
    own = ["%tid.x", "%tid.y", "%tid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%clusterid.x", "%clusterid.y", "%clusterid.z",
           "%laneid", "%warpid", "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge"]  # fmt: skip
    wide = {"%gridid": 1, "%current_graph_exec": 0, **{f"%pm{k}_64": 0 for k in range(8)}}
    names = [*plain, *own]
    words = len(names) + len(wide) + 1
    lines = ["mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r1, 3, %r2; mov.u32 %r2, %tid.z; mov.u32 %r3, %tid.y;"]
    lines += ["mad.lo.u32 %r2, %r2, 4, %r3; mad.lo.u32 %r2, %r2, 8, %i; mad.lo.u32 %r1, %r1, 64, %r2; ld.param.u64 %out, [out];"]
    lines += [f"mad.wide.u32 %out, %r1, {8 * words}, %out; mov.u32 %r9, s; st.shared.u32 [%r9], %r1; st.shared.u32 [d], %r1;"]
    lines += [f"mov.u32 %r3, {name}; st.global.u32 [%out+{8 * k}], %r3;" for k, name in enumerate(names)]
    lines += [f"mov.u64 %q3, {name}; st.global.u64 [%out+{8 * (k + len(names))}], %q3;" for k, name in enumerate(wide)]
    lines += ["mov.pred %p1, %is_explicit_cluster; selp.u32 %r3, 5, 6, %p1;", f"st.global.u32 [%out+{8 * (words - 1)}], %r3;"]
    outside = ".extern .shared .align 16 .b8 d[];"
    source = hopper("\n".join(lines), words, declarations=".shared .align 16 .b8 s[64];", outside=outside)
    out = np.zeros((6, 64, words), np.uint64)
    launch(source, "k", grid, block, [out, np.zeros(1)], shared=dynamic)
    for number in range(6):
        for thread in range(64):
            place = [number % 3, number // 3, 0]
            lane, bit = thread % 32, 1 << thread % 32
            masks = [bit, bit - 1, 2 * bit - 1, ALL & ~(2 * bit - 1), ALL & ~(bit - 1)]
            values = [*plain.values(), thread % 8, thread // 8 % 4, thread // 32, *place, *place, lane, thread // 32, *masks]
            assert out[number, thread].tolist() == [*values, *wide.values(), 6]


def test_clocks_count_warp_instructions() -> None:
    body = """
        mov.u32 %r1, %clock;
        mov.u64 %q1, %clock64;
        add.u32 %r9, %r9, 1;
        mov.u64 %q2, %globaltimer;
        mov.u32 %r2, %globaltimer_lo;
        setp.ge.u32 %p1, %i, 16;
        @%p1 bra L;
        add.u32 %r9, %r9, 1;
        L: mov.u32 %r3, %clock;
        st.global.v2.u32 [%out], {%r1, %r2};
        st.global.u32 [%out+8], %r3;
        st.global.v2.u64 [%out+16], {%q1, %q2};"""
    got = run(hopper(body, 4), words=4)
    clock, low, later = (got.view(np.uint32)[:, k] for k in (0, 1, 2))
    assert clock.tolist() == [4] * 32  # behind the kernel's four first instructions
    assert (got[:, 2] - clock).tolist() == [1] * 32 and (got[:, 3] - clock).tolist() == [3] * 32
    assert (low - clock).tolist() == [4] * 32 and (later - clock).tolist() == [8] * 32


def test_stack_allocations_are_apart_aligned_and_given_back() -> None:
    body = """
        stacksave.u64 %q1;
        and.b32 %r1, %i, 7;
        add.u32 %r1, %r1, 1;
        cvt.u64.u32 %q9, %r1;
        alloca.u64 %q2, %q9;
        alloca.u64 %q3, 16, 32;
        st.local.u8 [%q2], %i;
        st.local.u32 [%q3], 1000;
        st.local.u32 [%q3+12], %i;
        st.local.u32 [l], 7;
        bar.sync 0;
        stacksave.u64 %q4;
        alloca.u64 %q5, 64;
        st.local.u64 [%q5+56], %q4;
        stackrestore.u64 %q4;
        alloca.u64 %q6, 8;
        ld.local.u8 %r2, [%q2];
        ld.local.u32 %r3, [%q3+12];
        ld.local.u32 %r4, [l];
        stackrestore.u64 %q1;
        alloca.u64 %q7, 8;
        st.global.v2.u64 [%out], {%q1, %q2};
        st.global.v2.u64 [%out+16], {%q3, %q4};
        st.global.v2.u64 [%out+32], {%q5, %q6};
        st.global.u64 [%out+48], %q7;
        st.global.v4.u32 [%out+64], {%r2, %r3, %r4, 0};"""
    got = run(hopper(body, 10, declarations=".local .align 4 .b8 l[4];"), block=64, words=10)
    for thread, row in enumerate(got.tolist()):
        save, first, second, saved, third, fourth, again = row[:7]
        assert first == save == again == 16 and second % 32 == 0 and second >= first + thread % 8 + 1
        assert saved == second + 16 and third == fourth == (saved + 7) // 8 * 8
        assert row[8] == thread | thread << 32 and row[9] == 7


def test_guarded_allocation_moves_the_stack_of_its_lanes() -> None:
    body = """
        setp.lt.u32 %p1, %i, 5;
        @%p1 alloca.u32 %r1, 24;
        alloca.u32 %r2, 8;
        st.global.v2.u32 [%out], {%r1, %r2};"""
    got = run(hopper(body)).view(np.uint32)
    assert got[:, 1].tolist() == np.where(LANES < 5, 24, 0).tolist()


@pytest.mark.parametrize(
    "text",
    ["alloca.u64 %q1, 1025;", "mov.u64 %q2, -8; alloca.u64 %q1, %q2;",
     "mov.u64 %q2, 5000; stackrestore.u64 %q2;", "mov.u64 %q2, 8; stackrestore.u64 %q2;"],
)  # fmt: skip
def test_stack_past_its_end_faults(text: str) -> None:
    run(hopper("alloca.u64 %q1, 1024;", declarations=".local .b64 l;"))
    with pytest.raises(LaunchFault, match=r"stack past its end .* thread \(3,0,0\)"):
        source = f"setp.eq.u32 %p1, %i, 3;\n@!%p1 ret;\nst.local.u32 [l], 1;\n{text}"
        run(hopper(source, declarations=".local .align 4 .b8 l[4];"))


FENCES = [
    "membar.cta;", "membar.gl;", "membar.sys;", "fence.sc.cta;", "fence.sc.cluster;", "fence.acq_rel.gpu;", "fence.acq_rel.sys;",
    "fence.gpu;", "fence.acquire.sync_restrict::shared::cluster.cluster;", "fence.release.sync_restrict::shared::cta.cluster;",
    "fence.mbarrier_init.release.cluster;", "fence.proxy.alias;", "fence.proxy.async;", "fence.proxy.async.global;",
    "fence.proxy.async.shared::cta;", "fence.proxy.async.shared::cluster;", "fence.acquire.gpu;", "fence.release.cluster;",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.proxy.tensormap::generic.release.gpu;", "fence.proxy.tensormap::generic.acquire.gpu [%in], 128;",
]  # fmt: skip
HINTS = [
    "prefetch.global.L1 [%in];", "prefetch.global.L2 [%q9];", "prefetch.local.L1 [l];", "prefetch.L2 [%in];", "prefetchu.L1 [%in];",
    "prefetch.global.L2::evict_last [%in];", "prefetch.global.L2::evict_normal [%in];",
    "applypriority.global.L2::evict_normal [%in], 128;", "applypriority.L2::evict_normal [%in], 128;",
    "discard.global.L2 [%in], 128;", "discard.L2 [%in+128], 128;",
    "createpolicy.fractional.L2::evict_last.b64 %q1;", "createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %q1, 0.25;",
    "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %q1, [%in], 64, 128;",
    "createpolicy.range.L2::evict_normal.b64 %q1, [%in], %r1, 128;", "createpolicy.cvt.L2.b64 %q1, 0x10F0000000000000;",
    "createpolicy.fractional.L2::evict_normal.b64 %q1, 1.0;",
]  # fmt: skip


def test_fences_and_hints_change_nothing() -> None:
    body = "mov.u64 %q9, 64; mov.u32 %r1, 32;" + "\n".join([*FENCES, *HINTS])
    body += "ld.global.u32 %r2, [%in+4]; st.global.u32 [%out], %r2;"
    memory = np.arange(64, dtype=np.uint32)
    out, trace = run_traced(hopper(body, declarations=".local .b32 l;"), memory)
    assert set(out[:, 0].tolist()) == {1} and memory.tolist() == list(range(64))
    assert [a.opcode for a in accesses(trace)] == ["ld.global.u32", "st.global.u32"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [("discard.global.L2 [%in+64], 128;", "misaligned"), ("discard.global.L2 [%in+128], 128;", "out of bounds"),
     ("mov.u64 %q1, c; discard.global.L2 [%q1], 128;", "write to constant")],
)  # fmt: skip
def test_discard_is_checked_like_a_write(text: str, problem: str) -> None:
    with pytest.raises(LaunchFault, match=problem):
        run(hopper(text, outside=".const .align 128 .b8 c[128];"), np.zeros(128, np.uint8))


@pytest.mark.parametrize(
    "text",
    ["fence.wild.gpu;", "fence.sc.gpu [%in], 128;", "prefetch.global.L3 [%in];",
    "discard.global.L2 [%in], 64;",
     "createpolicy.wild.b64 %q1;", "mapa.s32 %r1, %r2, 0;", "cvta.u64 %q1, %q2;", "alloca.u64 %q1, 8, 3;",
     "isspacep.tex %p1, %q1;"],
)  # fmt: skip
def test_form_that_has_no_meaning_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split(".", maxsplit=1)[0]):
        run(hopper(text))


def test_reserved_shared_memory_is_apart_from_the_variables_of_the_kernel() -> None:
    text = "mov.u32 %r9, %reserved_smem_offset_1; mov.u32 %r8, s; st.shared.u32 [%r8], 7; st.shared.u32 [%r9+284], 9;"
    text += "ld.shared.u32 %r1, [%r8]; ld.shared.u32 %r2, [%r9+284]; mad.lo.u32 %r1, %r1, 10, %r2;"
    text += "ld.param.u64 %out, [out]; st.global.u32 [%out], %r1;"
    assert run(hopper(text, declarations=DECLARE))[0] == 79
