"""The carry of extended-precision arithmetic outlives branches, loops, guards and barriers, for each lane on its own."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch, ptx

pytestmark = pytest.mark.unit
RNG = np.random.default_rng(5)
PARAMETERS = ".param .u64 out, .param .u64 in"
LOAD = """
    ld.param.u64 %in, [in];
    mad.wide.u32 %in, %i, 16, %in;
    ld.global.u64 %q1, [%in];
    ld.global.u64 %q2, [%in+8];
"""


def run(body: str, values: np.ndarray, block: int = 32) -> np.ndarray:
    """What each thread wrote, in rows of one."""
    out = np.zeros((block, 1), np.uint64)
    launch(ptx(body, PARAMETERS), "k", 1, block, [out, values])
    return out


def pairs(block: int = 32) -> np.ndarray:
    values = RNG.integers(0, 1 << 64, (block, 2), dtype=np.uint64)
    values[::3] = [(1 << 64) - 1, 1]
    return values


def test_carry_crosses_a_branch_that_splits_the_warp() -> None:
    values = pairs()
    body = f"""{LOAD}
        and.b32 %r1, %i, 1;
        setp.eq.u32 %p1, %r1, 0;
        add.cc.u64 %q3, %q1, %q2;
        @%p1 bra EVEN;
        addc.u64 %q4, 100, 0;
        bra.uni END;
        EVEN:
        addc.u64 %q4, 200, 0;
        END:
        st.global.u64 [%out], %q4;
        ret;"""
    carries = [(int(a) + int(b)) >> 64 for a, b in values]
    assert run(body, values)[:, 0].tolist() == [c + (100 if k % 2 else 200) for k, c in enumerate(carries)]


def test_guarded_sum_leaves_the_carry_of_other_lanes() -> None:
    values = pairs()
    body = f"""{LOAD}
        and.b32 %r1, %i, 1;
        setp.eq.u32 %p1, %r1, 0;
        add.cc.u64 %q3, %q1, %q2;
        @%p1 add.cc.u64 %q3, 1, 1;
        addc.u64 %q4, 0, 0;
        @!%p1 addc.u64 %q4, 5, 0;
        st.global.u64 [%out], %q4;
        ret;"""
    carries = [(int(a) + int(b)) >> 64 for a, b in values]
    assert run(body, values)[:, 0].tolist() == [c + 5 if k % 2 else 0 for k, c in enumerate(carries)]


def test_carry_before_any_sum_is_clear() -> None:
    body = "setp.eq.u32 %p1, %i, 3;\n@%p1 add.cc.u32 %r1, -1, 1;\naddc.u32 %r2, 7, 0;\nst.global.u32 [%out], %r2;\nret;"
    assert run(body, pairs())[:, 0].tolist() == [8 if k == 3 else 7 for k in range(32)]


def test_borrow_runs_through_a_loop_of_different_lengths() -> None:
    """Thread k subtracts 1 from a number of k + 1 words, all zero but the last, 9: the borrow runs through all of them."""
    body = """
        mov.u32 %r1, 0;
        mov.u32 %r3, 0;
        sub.cc.u32 %r2, 0, 1;
        LOOP:
        setp.ge.u32 %p1, %r1, %i;
        @%p1 bra LAST;
        subc.cc.u32 %r2, 0, 0;
        add.u32 %r3, %r3, %r2;
        add.u32 %r1, %r1, 1;
        bra LOOP;
        LAST:
        subc.u32 %r4, 9, 0;
        mad.lo.u32 %r4, %r3, 16, %r4;
        st.global.u32 [%out], %r4;
        ret;"""
    assert run(body, pairs())[:, 0].tolist() == [(-k * 16 + 8) % (1 << 32) for k in range(32)]


def test_carry_outlives_a_barrier() -> None:
    values = pairs(128)
    body = f"{LOAD}\nadd.cc.u64 %q3, %q1, %q2;\nbar.sync 0;\naddc.u64 %q4, 40, 0;\nst.global.u64 [%out], %q4;\nret;"
    assert run(body, values, block=128)[:, 0].tolist() == [40 + ((int(a) + int(b)) >> 64) for a, b in values]


def test_product_and_sum_in_four_steps_equals_the_128_bit_product() -> None:
    """The schoolbook product of 64-bit numbers from 32-bit words, as compilers write it."""
    values = pairs()
    body = f"""{LOAD}
        mov.b64 {{%r1, %r2}}, %q1;
        mov.b64 {{%r3, %r4}}, %q2;
        mul.lo.u32 %r5, %r1, %r3;
        mul.hi.u32 %r6, %r1, %r3;
        mad.lo.cc.u32 %r6, %r2, %r3, %r6;
        madc.hi.u32 %r7, %r2, %r3, 0;
        mad.lo.cc.u32 %r6, %r1, %r4, %r6;
        madc.hi.cc.u32 %r7, %r1, %r4, %r7;
        addc.u32 %r8, 0, 0;
        mad.lo.cc.u32 %r7, %r2, %r4, %r7;
        madc.hi.u32 %r8, %r2, %r4, %r8;
        mov.b64 %q3, {{%r7, %r8}};
        st.global.u64 [%out], %q3;
        ret;"""
    assert run(body, values)[:, 0].tolist() == [int(a) * int(b) >> 64 for a, b in values]


def test_signed_high_products_with_carry() -> None:
    values = pairs()
    body = f"""{LOAD}
        sub.cc.s64 %q3, %q1, %q2;
        madc.hi.s64 %q4, %q1, %q2, 5;
        st.global.u64 [%out], %q4;
        ret;"""

    def signed(x: int) -> int:
        return x - (1 << 64) if x >> 63 else x

    wanted = [((signed(int(a)) * signed(int(b)) >> 64) + 5 + int(int(a) >= int(b))) % (1 << 64) for a, b in values]
    assert run(body, values)[:, 0].tolist() == wanted


def test_carry_after_a_difference_is_the_inverted_borrow() -> None:
    """As GPUs have it: what `sub.cc` leaves is the carry out of the sum with the complement."""
    values = pairs()
    values[1] = [7, 7]
    body = f"{LOAD}\nsub.cc.u64 %q3, %q1, %q2;\naddc.u64 %q4, 40, 0;\nst.global.u64 [%out], %q4;\nret;"
    assert run(body, values)[:, 0].tolist() == [40 + int(int(a) >= int(b)) for a, b in values]


def test_difference_after_a_sum_borrows_unless_the_sum_carried() -> None:
    values = pairs()
    body = f"{LOAD}\nadd.cc.u64 %q3, %q1, %q2;\nsubc.u64 %q4, 40, 1;\nst.global.u64 [%out], %q4;\nret;"
    assert run(body, values)[:, 0].tolist() == [38 + ((int(a) + int(b)) >> 64) for a, b in values]
