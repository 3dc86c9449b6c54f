"""vote, match, shfl, redux, elect and activemask against the definitions of the PTX ISA, lane by lane."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch, ptx
from hopper_launch import ALL, hopper, run

import warpsight
from warpsight.base.errors import UnsupportedError

pytestmark = pytest.mark.unit
RNG = np.random.default_rng(31)
MASKS = [ALL, 0x0F0F00F0, 1 << 17, 0x80000001]
# Lanes that are not members leave before the instruction, as PTX asks.
MEMBERS = "mov.u32 %r31, {mask}; shr.u32 %r30, %r31, %i; and.b32 %r30, %r30, 1; setp.eq.u32 %p15, %r30, 0;\n@%p15 ret;\n"


def members_of(mask: int) -> list[int]:
    return [k for k in range(32) if mask >> k & 1]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("sync", [True, False])
def test_votes_of_the_members(mask: int, sync: bool) -> None:
    dot, more = (".sync", ", %r31") if sync else ("", "")
    voters = [0, ALL, 0x00FF00F1, 0x80000001]
    lines = [MEMBERS.format(mask=mask)]
    for row, yes in enumerate(voters):
        lines += [f"mov.u32 %r1, {yes}; shr.u32 %r1, %r1, %i; and.b32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0;"]
        lines += [f"vote{dot}.all.pred %p2, %p1{more}; vote{dot}.any.pred %p3, %p1{more}; vote{dot}.uni.pred %p4, %p1{more};"]
        lines += [f"vote{dot}.any.pred %p5, !%p1{more}; vote{dot}.ballot.b32 %r2, %p1{more};"]
        lines += [f"selp.u32 %r{4 + k}, {1 << k}, 0, %p{2 + k};" for k in range(4)]
        lines += [f"or.b32 %r4, %r4, %r{5 + k};" for k in range(3)]
        lines += [f"st.global.v2.u32 [%out+{8 * row}], {{%r2, %r4}};"]
    source = hopper("\n".join(lines), len(voters), target="sm_90" if sync else "sm_60")
    got = run(source, words=len(voters)).view(np.uint32).reshape(32, len(voters), 2)
    for row, yes in enumerate(voters):
        votes = [bool(yes >> k & 1) for k in members_of(mask)]
        bits = all(votes) | any(votes) << 1 | (len(set(votes)) == 1) << 2 | (not all(votes)) << 3
        for lane in range(32):
            assert got[lane, row].tolist() == ([yes & mask, bits] if mask >> lane & 1 else [0, 0])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("alike", [False, True])
def test_match_finds_the_members_with_the_same_value(mask: int, alike: bool) -> None:
    lines = [MEMBERS.format(mask=mask), "mad.wide.u32 %in, %i, 16, %in; ld.global.u32 %r1, [%in]; ld.global.u64 %q1, [%in+8];"]
    lines += ["match.any.sync.b32 %r2, %r1, %r31; match.any.sync.b64 %r3, %q1, %r31;"]
    lines += ["match.all.sync.b32 %r4|%p1, %r1, %r31; match.all.sync.b64 %r5|%p2, %q1, %r31; match.all.sync.b64 %r6, %q1, %r31;"]
    lines += ["selp.u32 %r7, 1, 0, %p1; selp.u32 %r8, 2, 0, %p2; or.b32 %r7, %r7, %r8;"]
    lines += ["st.global.v4.u32 [%out], {%r2, %r3, %r4, %r5}; st.global.v2.u32 [%out+16], {%r6, %r7};"]
    values = np.zeros((32, 2), np.uint64)
    values[:, 0] = 7 if alike else RNG.integers(0, 3, 32)
    values[:, 1] = np.uint64(1 << 40) + (values[:, 0] << np.uint64(32))
    if not alike:  # equal in their low halves, so that only 64 bits tell them apart
        values[:, 0] = RNG.integers(0, 3, 32)
    got = run(hopper("\n".join(lines), 4), values, words=4).view(np.uint32)
    inside = members_of(mask)
    for lane in inside:
        any32, any64 = (sum(1 << k for k in inside if values[k, c] == values[lane, c]) for c in (0, 1))
        all32, all64 = (mask if len({int(values[k, c]) for k in inside}) == 1 else 0 for c in (0, 1))
        assert got[lane, :6].tolist() == [any32, any64, all32, all64, all64, (all32 != 0) | (all64 != 0) << 1]


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """PTX ISA, shfl.sync: the source lane, and whether it is in range."""
    bval, cval, segmask = b & 31, c & 31, c >> 8 & 31
    top, bottom = lane & segmask | cval & ~segmask & 31, lane & segmask
    source, valid = {
        "up": (lane - bval, lane - bval >= top),
        "down": (lane + bval, lane + bval <= top),
        "bfly": (lane ^ bval, lane ^ bval <= top),
        "idx": (bottom | bval & ~segmask & 31, (bottom | bval & ~segmask & 31) <= top),
    }[mode]
    return (source if valid else lane), valid


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_of_every_distance_and_segment(mode: str, sync: bool) -> None:
    dot, more = (".sync", ", -1") if sync else ("", "")
    rows = [(b, c) for c in (0, 31, 0x1C03, 0x1800, 0x101F, 0x1E1F, 0x100F) for b in (0, 1, 2, 3, 7, 16, 31, 35)]
    lines = []
    for k, (b, c) in enumerate(rows):
        lines += [f"add.u32 %r1, %i, {100 + k}; shfl{dot}.{mode}.b32 %r2|%p1, %r1, {b}, {c}{more}; selp.u32 %r3, 1, 0, %p1;"]
        lines += [f"st.global.v2.u32 [%out+{8 * k}], {{%r2, %r3}};"]
    # Distance and control from registers, each lane its own.
    lines += ["mul.lo.u32 %r4, %i, 7; and.b32 %r4, %r4, 31; and.b32 %r5, %i, 8; add.u32 %r5, %r5, 0x1007;"]
    lines += [f"shfl{dot}.{mode}.b32 %r2, %i, %r4, %r5{more}; st.global.u32 [%out+{8 * len(rows)}], %r2;"]
    got = run(hopper("\n".join(lines), len(rows) + 1, target="sm_90" if sync else "sm_60"), words=len(rows) + 1).view(np.uint32)
    for lane in range(32):
        for k, (b, c) in enumerate(rows):
            source, valid = shuffled(mode, lane, b, c)
            assert got[lane, 2 * k : 2 * k + 2].tolist() == [source + 100 + k, valid], (mode, lane, b, hex(c))
        assert got[lane, 2 * len(rows)] == shuffled(mode, lane, 7 * lane % 32, 0x1007 + (lane & 8))[0]


def test_a_shuffle_from_a_lane_that_is_not_there_gives_zero() -> None:
    body = "setp.gt.u32 %p1, %i, 9;\n@%p1 ret;\nadd.u32 %r1, %i, 50;"
    body += "shfl.sync.down.b32 %r2, %r1, 4, 31, 0x3FF; st.global.u32 [%out], %r2;"
    assert run(hopper(body))[:, 0].tolist() == [54, 55, 56, 57, 58, 59, 0, 0, 0, 0, *[0] * 22]


@pytest.mark.parametrize("mask", MASKS)
def test_election_takes_one_member(mask: int) -> None:
    body = MEMBERS.format(mask=mask) + """
        elect.sync %r1|%p1, %r31;
        elect.sync _|%p2, %r31;
        selp.u32 %r2, 1, 0, %p1;
        selp.u32 %r3, 2, 0, %p2;
        or.b32 %r2, %r2, %r3;
        activemask.b32 %r4;
        st.global.v4.u32 [%out], {%r1, %r2, %r4, 0};"""
    got = run(hopper(body, 2), words=2).view(np.uint32)
    inside = members_of(mask)
    for lane in inside:
        assert got[lane].tolist() == [inside[0], 3 if lane == inside[0] else 0, mask, 0]


def test_guards_choose_who_takes_part() -> None:
    body = """
        and.b32 %r1, %i, 3;
        setp.eq.u32 %p1, %r1, 1;
        mov.u32 %r2, 5;
        mov.u32 %r3, 5;
        mov.u32 %r6, 0x22222222;
        @!%p1 mov.u32 %r6, 0;
        @%p1 activemask.b32 %r2;
        @%p1 vote.sync.ballot.b32 %r3, %p1, %r6;
        @%p1 redux.sync.add.u32 %r4, %i, %r6;
        @%p1 elect.sync %r5|%p2, %r6;
        st.global.v4.u32 [%out], {%r2, %r3, %r4, %r5};"""
    got = run(hopper(body, 2), words=2).view(np.uint32)
    inside = [k for k in range(32) if k % 4 == 1]
    for lane in range(32):
        assert got[lane].tolist() == ([0x22222222, 0x22222222, sum(inside), 1] if lane in inside else [5, 5, 0, 0])


@pytest.mark.parametrize("text", ["vote.sync.most.pred %p1, %p2, -1;", "shfl.sync.b32 %r1, %r2, 1, 31, -1;",
"elect.all %r1|%p1, -1;",
                                  "redux.sync.add.f32 %f1, %f2, -1;", "match.some.sync.b32 %r1, %r2, -1;"])  # fmt: skip
def test_exchange_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split(".", maxsplit=1)[0]):
        run(hopper(text))


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_reductions_of_floats_leave_nans_out_or_give_them(level: str) -> None:
    """PTX ISA 8.6: as `min` and `max` of two, with -0 below +0; `.NaN` gives a NaN if there is one, 0x7fffffff."""
    forms = ("max", "min", "max.abs", "min.abs", "max.NaN", "min.NaN", "min.abs.NaN")
    body = "\n".join(f"redux.sync.{name}.f32 %f1, %f0, -1; st.global.f32 [%q1+{128 * k}], %f1;" for k, name in enumerate(forms, 1))
    text = f""".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p)
    {{ .reg .f32 %f<2>; .reg .b64 %q<2>; .reg .b32 %r;
    ld.param.u64 %q0, [p]; mov.u32 %r, %tid.x; mul.wide.u32 %q1, %r, 4; add.u64 %q1, %q1, %q0; ld.global.f32 %f0, [%q1];
    {body} ret; }}"""
    numbers = np.where(np.arange(32) % 2, -7.5, 3.0).astype(np.float32)
    zeros = np.where(np.arange(32) % 2, -0.0, 0.0).astype(np.float32)
    holed, empty = numbers.copy(), np.full(32, np.nan, np.float32)
    holed[5] = np.nan
    nan = 0x7FFFFFFF

    def bits(*values: float) -> list[int]:
        return np.array(values, np.float32).view(np.uint32).tolist()

    expected = {
        "numbers": (numbers, bits(3, -7.5, 7.5, 3, 3, -7.5, 3)), "zeros": (zeros, bits(0, -0.0, 0, 0, 0, -0.0, 0)),
        "one NaN": (holed, [*bits(3, -7.5, 7.5, 3), nan, nan, nan]), "NaNs": (empty, [nan] * 7),
    }  # fmt: skip
    for name, (values, results) in expected.items():
        out = np.zeros((8, 32), np.float32)
        out[0] = values
        warpsight.trace(text, "k", grid=1, block=32, args=[out], gpu="b200", level=level)
        assert [set(row.tolist()) for row in out[1:].view(np.uint32)] == [{each} for each in results], name


def test_reductions_and_matches_of_tiles_take_each_lanes_own_mask() -> None:
    source = ptx(
        """
    mov.u32 %r0, %laneid;
    and.b32 %r1, %r0, 24;
    mov.u32 %r2, 255;
    shl.b32 %r2, %r2, %r1;
    redux.sync.add.s32 %r3, %r0, %r2;
    and.b32 %r4, %r0, 1;
    match.any.sync.b32 %r5, %r4, %r2;
    st.global.u32 [%out], %r3;
    st.global.u32 [%out+4], %r5;
    ret;
"""
    )
    out = np.zeros(32, np.uint64)
    launch(source, "k", 1, 32, [out])
    words = out.view(np.uint32).reshape(32, 2)
    for lane in range(32):
        tile = range(8 * (lane // 8), 8 * (lane // 8) + 8)
        assert words[lane, 0] == sum(tile)
        assert words[lane, 1] == sum(1 << other for other in tile if other % 2 == lane % 2)
