"""What the lanes of a warp do together in PTX: guards, carries, special registers, reductions, and vectors with holes."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch, ptx

from warpsight.base.errors import LaunchFault
from warpsight.kernels.launch import KernelSource

pytestmark = pytest.mark.unit
LANES = np.arange(32)
RNG = np.random.default_rng(21)
IN_OUT = ".param .u64 out, .param .u64 in"


def run(source: KernelSource, *more: np.ndarray, block: int = 32, grid: int = 1, words: int = 1) -> np.ndarray:
    """Run `k` and give its output: `words` u64 for each thread."""
    out = np.zeros((grid * block, words), np.uint64)
    launch(source, "k", grid, block, [out, *more])
    return out


def test_guard_keeps_old_values_of_lanes_that_are_off() -> None:
    got = run(
        ptx("""
        mov.u32 %r1, %laneid;
        setp.lt.u32 %p1, %r1, 10;
        mov.u32 %r2, 100;
        @%p1 mov.u32 %r2, 200;
        @!%p1 add.u32 %r2, %r2, %r1;
        setp.eq.u32 %p2, %r1, 5;
        @%p1 setp.eq.u32 %p2, %r1, 7;
        selp.u32 %r3, 1000, 0, %p2;
        add.u32 %r2, %r2, %r3;
        mov.f32 %f1, 0f3F800000;
        @%p2 mov.f32 %f1, 0f40000000;
        cvt.rzi.u32.f32 %r4, %f1;
        mad.lo.u32 %r2, %r4, 10000, %r2;
        st.global.u32 [%out], %r2;
        ret;""")
    )[:, 0]
    wanted = np.where(LANES < 10, 200, 100 + LANES) + np.where(LANES == 7, 1000, 0) + np.where(LANES == 7, 20000, 10000)
    assert got.tolist() == wanted.tolist()


def test_guarded_loads_stores_and_atomics_touch_nothing_in_lanes_that_are_off() -> None:
    # Lanes 3 and up would read and write far outside.
    source = ptx(
        """
        ld.param.u64 %in, [in];
        mov.u32 %r1, %laneid;
        setp.lt.u32 %p1, %r1, 3;
        mul.wide.u32 %q1, %r1, 4;
        add.u64 %q1, %in, %q1;
        selp.b64 %q1, %q1, 16, %p1;
        mov.u32 %r2, 7;
        @%p1 ld.global.u32 %r2, [%q1];
        @%p1 st.global.u32 [%q1+12], %r2;
        mov.u32 %r3, 9;
        @%p1 atom.global.add.u32 %r3, [%in+24], %r2;
        mul.lo.u32 %r3, %r3, 1000;
        add.u32 %r2, %r2, %r3;
        st.global.u32 [%out], %r2;
        ret;""",
        IN_OUT,
    )
    memory = np.array([1, 2, 3, 0, 0, 0, 10], np.uint32)
    got = run(source, memory)[:, 0].tolist()
    assert got == [1 + 10_000, 2 + 11_000, 3 + 13_000, *[7 + 9_000] * 29]
    assert memory.tolist() == [1, 2, 3, 1, 2, 3, 16]


def test_guarded_exit_ends_its_lanes_only() -> None:
    got = run(
        ptx("""
        mov.u32 %r1, %tid.x;
        and.b32 %r2, %r1, 3;
        setp.eq.u32 %p1, %r2, 1;
        st.global.u32 [%out], 5;
        @%p1 exit;
        st.global.u32 [%out], 6;
        setp.eq.u32 %p2, %r2, 2;
        @!%p2 ret;
        st.global.u32 [%out], 7;"""),
        block=48,
    )[:, 0]
    assert got.tolist() == [(6, 5, 7, 6)[t & 3] for t in range(48)]


def test_barrier_as_last_instruction_ends_the_kernel() -> None:
    assert run(ptx("st.global.u32 [%out], 3;\nbar.sync 0;"), block=64)[:, 0].tolist() == [3] * 64


def test_special_registers_say_where_a_thread_is() -> None:
    names = ["%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x", "%laneid", "%warpid"]
    names += ["%lanemask_lt", "%lanemask_ge", "%tid.y", "%ntid.z", "%ctaid.z", "%lanemask_eq"]
    lines = ["mul.lo.u32 %r1, %i, 88;", "cvt.u64.u32 %q1, %r1;", "add.u64 %out, %out, %q1;"]
    for k, name in enumerate(names):
        lines += [f"mov.u32 %r2, {name};", f"st.global.u32 [%out+{8 * k}], %r2;"]
    lines += ["add.u32 %r3, %tid.x, WARP_SZ;"]
    got = run(ptx("\n".join([*lines, "ret;"])), block=40, grid=3, words=len(names))
    for number, row in enumerate(got):
        block, t = divmod(number, 40)
        lane = t % 32
        masks = [(1 << lane) - 1, 0xFFFFFFFF & ~((1 << lane) - 1)]
        assert row.tolist() == [t, 40, block, 3, lane, t // 32, *masks, 0, 1, 0, 1 << lane]


def test_carry_chain_adds_subtracts_and_multiplies_128_bits() -> None:
    values = RNG.integers(0, 1 << 63, (32, 4), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    values[0] = [2**64 - 1, 2**64 - 1, 1, 0]
    values[1] = [0, 1, 1, 0]
    loads = "\n".join(f"ld.global.u64 %q{k + 1}, [%in+{8 * k}];" for k in range(4))
    stores = "\n".join(f"st.global.u64 [%out+{8 * k}], %q{k + 5};" for k in range(6))
    source = ptx(
        f"""
        ld.param.u64 %in, [in];
        mad.wide.u32 %in, %i, 32, %in;
        mad.wide.u32 %out, %i, 40, %out;
        {loads}
        add.cc.u64 %q5, %q1, %q3;
        addc.u64 %q6, %q2, %q4;
        sub.cc.u64 %q7, %q1, %q3;
        subc.u64 %q8, %q2, %q4;
        mul.lo.u64 %q9, %q1, %q3;
        mul.hi.u64 %q10, %q1, %q3;
        mad.lo.cc.u64 %q9, %q2, %q4, %q9;
        madc.hi.u64 %q10, %q2, %q4, %q10;
        {stores}
        ret;""",
        IN_OUT,
    )
    got = run(source, values, words=6)
    span = 1 << 128
    for row, (a, b, c, d) in zip(got, values.tolist(), strict=True):
        x, y = a | b << 64, c | d << 64
        wanted = [(x + y) % span, (x - y) % span, (a * c + b * d) % span]
        assert [int(row[k]) | int(row[k + 1]) << 64 for k in (0, 2, 4)] == wanted


def test_carry_of_three_words_and_of_32_bits_passes_through() -> None:
    source = ptx("""
        mov.u32 %r1, -1;
        add.cc.u32 %r2, %r1, 1;
        addc.cc.u32 %r3, %r1, 0;
        addc.u32 %r4, 5, 0;
        sub.cc.u32 %r5, 0, 1;
        subc.cc.u32 %r6, 0, 0;
        subc.u32 %r7, 9, 2;
        mul.lo.u32 %r4, %r4, 1000;
        add.u32 %r4, %r4, %r2;
        add.u32 %r4, %r4, %r3;
        add.u32 %r4, %r4, %r7;
        st.global.u32 [%out], %r4;
        ret;""")
    assert set(run(source)[:, 0].tolist()) == {6006}


@pytest.mark.parametrize("members", [0xFFFFFFFF, 0x0F0F00F0])
def test_redux_reduces_the_members(members: int) -> None:
    x = RNG.integers(-(2**31), 2**31, 32).astype(np.int32)
    kinds = ["add.s32", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32", "xor.b32"]
    lines = [f"redux.sync.{kind} %r2, %r1, %r9;\nst.global.u32 [%out+{8 * k}], %r2;" for k, kind in enumerate(kinds)]
    head = f"""
        ld.param.u64 %in, [in];
        mad.wide.u32 %in, %i, 4, %in;
        mad.wide.u32 %out, %i, 56, %out;
        ld.global.u32 %r1, [%in];
        mov.u32 %r9, {members};
        shr.u32 %r3, %r9, %i;
        and.b32 %r3, %r3, 1;
        setp.eq.u32 %p1, %r3, 0;
        @%p1 ret;"""
    got = run(ptx("\n".join([head, *lines, "ret;"]), IN_OUT), x, words=len(kinds))
    inside = [k for k in range(32) if members >> k & 1]
    s, u = x[inside].astype(np.int64), x.view(np.uint32)[inside].astype(np.int64)
    numbers = [s.sum(), s.min(), s.max(), u.min(), u.max(), *(f.reduce(u) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor))]
    wanted = [int(n) % (1 << 32) for n in numbers]
    assert [row.tolist() for row in got[inside]] == [wanted] * len(inside)


def test_vector_accesses_may_skip_elements() -> None:
    x = RNG.integers(0, 2**32, (32, 4), dtype=np.uint64).astype(np.uint32)
    source = ptx(
        """
        ld.param.u64 %in, [in];
        mad.wide.u32 %in, %i, 16, %in;
        ld.global.v4.u32 {%r1, _, %r3, _}, [%in];
        ld.global.v2.u32 {_, %r2}, [%in+8];
        st.global.v2.u32 [%out], {%r3, %r2};
        ret;""",
        IN_OUT,
    )
    got = run(source, x).view(np.uint32)
    np.testing.assert_array_equal(got, x[:, 2:])


def test_indexed_branch_sends_each_lane_to_its_target() -> None:
    body = """
        and.b32 %r1, %i, 3;
        T: .branchtargets A, B, A, C;
        brx.idx %r1, T;
        A: st.global.u32 [%out], 10; bra D;
        B: st.global.u32 [%out], 20; bra D;
        C: st.global.u32 [%out], 30;
        D: ld.global.u32 %r2, [%out]; add.u32 %r2, %r2, %r1; st.global.u32 [%out], %r2;
        ret;"""
    assert run(ptx(body))[:, 0].tolist() == [(10, 21, 12, 33)[t & 3] for t in range(32)]
    with pytest.raises(LaunchFault, match=r"indexed branch .* thread \(4,0,0\)"):
        run(ptx(body.replace("and.b32 %r1, %i, 3", "and.b32 %r1, %i, 7")))


def test_shared_variables_of_the_kernel_and_the_module_are_both_there() -> None:
    source = ptx(
        """
        mov.u32 %r1, own;
        mad.lo.u32 %r1, %i, 4, %r1;
        st.shared.u32 [%r1], %i;
        cvta.shared.u64 %q1, %q2;
        isspacep.shared %p1, %q1;
        isspacep.global %p2, %out;
        isspacep.shared %p3, %out;
        selp.u32 %r2, 100, 0, %p1;
        selp.u32 %r3, 200, 0, %p2;
        selp.u32 %r4, 400, 0, %p3;
        bar.sync 0;
        ld.shared.u32 %r5, [own+28];
        add.u32 %r2, %r2, %r3;
        add.u32 %r2, %r2, %r4;
        add.u32 %r2, %r2, %r5;
        st.global.u32 [%out], %r2;
        ret;""",
        registers=".shared .align 4 .b8 own[128];",
    )
    assert set(run(source)[:, 0].tolist()) == {307}
