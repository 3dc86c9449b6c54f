"""Which kernels are found to wait for other threads, and where."""

from __future__ import annotations

import pytest
from ptx_samples import kernel

from warpsight.isa.ptx.cfg import ControlFlowGraph, build_cfg
from warpsight.isa.ptx.parser import parse_module

pytestmark = pytest.mark.unit


def graph(body: str) -> ControlFlowGraph:
    return build_cfg(parse_module(kernel(body)).kernels["k"])


def loop(poll: str, rest: str = "setp.ne.u32 %p1, %r1, 0;") -> str:
    return f"mov.u32 %r2, 0; L: {poll} {rest} @%p1 bra L; st.global.u32 [%rd1], %r1; ret;"


@pytest.mark.parametrize(
    "poll",
    [
        "atom.global.cas.b32 %r1, [%rd1], 0, 1;",
        "ld.volatile.global.u32 %r1, [%rd1];",
        "ld.acquire.gpu.global.u32 %r1, [%rd1+4];",
        "ld.shared.u32 %r1, [%rd1];",
        "add.s64 %rd1, %rd1, 4; ld.global.u32 %r1, [%rd1]; membar.gl;",
    ],
)
def test_loop_that_ends_by_what_another_thread_writes_is_named(poll: str) -> None:
    waits = graph(loop(poll)).waits
    assert waits.independent
    assert waits.spinning == {(1, 1)}


@pytest.mark.parametrize(
    ("poll", "rest"),
    [
        ("add.s64 %rd1, %rd1, 4; ld.global.u32 %r1, [%rd1];", "setp.ne.u32 %p1, %r1, 0;"),  # walks along an array
        ("ld.local.u32 %r1, [%rd1];", "setp.ne.u32 %p1, %r1, 0;"),
        ("ld.volatile.global.u32 %r1, [%rd1];", "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 9;"),  # counts
        ("atom.global.add.u32 %r1, [%rd1], 1;", "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 9;"),
    ],
)
def test_loop_that_ends_by_itself_is_not(poll: str, rest: str) -> None:
    assert not graph(loop(poll, rest)).waits.independent


@pytest.mark.parametrize(
    ("poll", "rest", "in_vain"),
    [
        ("ld.acquire.gpu.global.u32 %r1, [%rd1];", "setp.ne.u32 %p1, %r1, 0;", True),
        ("atom.global.cas.b32 %r1, [%rd1], 0, 1;", "setp.ne.u32 %p1, %r1, 0;", True),  # a lock
        ("atom.global.add.u32 %r1, [%rd1], 0;", "setp.ne.u32 %p1, %r1, 0;", True),
        ("atom.global.add.u32 %r1, [%rd1], 1;", "setp.ne.u32 %p1, %r1, 0;", False),  # each turn takes a number
        ("ld.volatile.global.u32 %r1, [%rd1];", "add.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r1, 0;", True),  # counts, and does not care
        ("ld.volatile.global.u32 %r1, [%rd1];", "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1;", False),  # counts up to it
        ("ld.volatile.global.u32 %r1, [%rd1];", "mov.u32 %r2, %clock; setp.lt.u32 %p1, %r2, %r1;", False),
        ("add.s64 %rd1, %rd1, 4; ld.volatile.global.u32 %r1, [%rd1];", "setp.ne.u32 %p1, %r1, 0;", False),  # looks back
        ("mov.u32 %r3, %r1; atom.global.cas.b32 %r1, [%rd1], %r3, 1;", "setp.ne.u32 %p1, %r1, %r3;", False),  # with another value
    ],
)
def test_loop_repeats_a_test_in_vain_if_only_another_thread_can_end_it(poll: str, rest: str, in_vain: bool) -> None:
    waits = graph(loop(poll, rest)).waits
    assert waits.spinning == {(1, 1)}
    accesses = [i.index for i in parse_module(kernel(loop(poll, rest))).kernels["k"].instructions if i.opcode in ("ld", "atom")]
    assert waits.tests == (((accesses[-1], frozenset({1})),) if in_vain else ())


def test_loop_that_is_the_last_block_is_found() -> None:
    """Compilers put loops that seldom run behind the return."""
    body = """bra L; D: ret;
        L: atom.global.cas.b32 %r1, [%rd1], 0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra D; bra L;"""
    code = parse_module(kernel(body)).kernels["k"].instructions
    first = next(i.index for i in code if i.opcode == "atom")
    waits = graph(body).waits
    assert (3, 2) in waits.spinning and waits.polls >= set(range(first, len(code)))


def test_poll_that_decides_through_other_branches_is_found() -> None:
    body = """L: atom.global.cas.b32 %r1, [%rd1], 0, 1;
        setp.ne.u32 %p1, %r1, 0; @%p1 bra N; mov.u32 %r2, 1; N: setp.eq.u32 %p2, %r2, 0; @%p2 bra L; ret;"""
    assert graph(body).waits.spinning == {(2, 0)}


@pytest.mark.parametrize(
    "barrier",
    ["bar.sync 1, 64;", "bar.arrive 1, 64;", "bar.sync %r1;", "@%p1 bar.sync 0;", "bar.sync 16;", "bar.sync 0; bar.sync 1;"],
)
def test_barriers_other_than_one_of_the_whole_block_need_independent_lanes(barrier: str) -> None:
    assert graph(f"{barrier} ret;").waits.independent


@pytest.mark.parametrize("barrier", ["bar.sync 0; bar.sync 0;", "barrier.sync 0;", "bar.red.popc.u32 %r1, 0, %p1;", "bar.sync 3;"])
def test_one_barrier_of_the_whole_block_does_not(barrier: str) -> None:
    assert not graph(f"{barrier} ret;").waits.independent


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("bar.warp.sync -1;", "bar.warp.sync -1;", True),
        ("barrier.sync 0;", "barrier.sync 0;", True),
        ("bar.sync 0;", "bar.sync 0;", False),  # all lanes of a warp must come to the same one
        ("bar.warp.sync -1;", "mov.u32 %r1, 1;", False),
    ],
)
def test_lanes_that_may_meet_from_both_sides_of_a_branch_are_found(one: str, other: str, wanted: bool) -> None:
    cfg = graph(f"@%p1 bra A; {one} bra.uni B; A: mov.u32 %r2, 1; {other} B: ret;")
    assert cfg.waits.independent == wanted
    if wanted and "warp" in one:
        assert {int(cfg.block_start[cfg.block_of(pc)]) for pc in cfg.waits.meetings} == cfg.waits.meetings == {1, 4}
