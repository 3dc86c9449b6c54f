"""Basic blocks and post-dominators: against hand-drawn graphs, and against the definition on random functions."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from ptx_samples import kernel
from random_functions import functions, next_instructions

from warpsight.base.errors import UnsupportedError
from warpsight.isa.ptx.cfg import ControlFlowGraph, build_cfg
from warpsight.isa.ptx.parser import parse_module
from warpsight.isa.ptx.program import Function


def graph(body: str) -> ControlFlowGraph:
    return build_cfg(parse_module(kernel(body)).kernels["k"])


@pytest.mark.unit
def test_if_else_meets_after_both_sides() -> None:
    cfg = graph("setp.lt.s32 %p1, %r1, 3; @%p1 bra A; mov.u32 %r1, 1; bra.uni B; A: mov.u32 %r1, 2; B: ret;")
    assert cfg.block_start.tolist() == [0, 2, 4, 5, 6] and cfg.block_start.dtype == "int32"
    assert cfg.successors == ((2, 1), (3,), (3,), ()) and cfg.predecessors == ((), (0,), (0,), (1, 2))
    assert cfg.post_dominator == (3, 3, 3, -1) and cfg.exit_blocks == (3,)
    assert [cfg.block_of(pc) for pc in range(6)] == [0, 0, 1, 1, 2, 3]


@pytest.mark.unit
def test_loop_meets_at_its_exit() -> None:
    cfg = graph("mov.u32 %r1, 0; A: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 9; @%p1 bra A; ret;")
    assert cfg.successors == ((1,), (1, 2), ()) and cfg.post_dominator == (1, 2, -1)


@pytest.mark.unit
def test_guarded_return_is_a_branch_to_the_exit() -> None:
    cfg = graph("@%p1 ret; mov.u32 %r1, 0; @%p2 exit; trap;")
    assert cfg.block_start.tolist() == [0, 1, 3, 4] and cfg.exit_blocks == (0, 1, 2)
    assert cfg.successors == ((1,), (2,), ()) and cfg.post_dominator == (-1, -1, -1)


@pytest.mark.unit
def test_block_barrier_ends_a_block_and_other_barriers_do_not() -> None:
    cfg = graph("bar.sync 0; mov.u32 %r1, 0; @%p1 barrier.sync 1; bar.warp.sync -1; membar.gl; bar.red.popc.u32 %r1, 0, %p1; ret;")
    assert cfg.block_start.tolist() == [0, 1, 3, 6, 7] and cfg.successors == ((1,), (2,), (3,), ())


@pytest.mark.unit
def test_endless_loop_has_no_post_dominator_and_does_not_hide_that_of_others() -> None:
    cfg = graph("@%p1 bra A; mov.u32 %r1, 0; B: ret; A: bra A;")
    assert cfg.successors == ((2, 1), (), (2,)) and cfg.post_dominator == (1, -1, -1)


@pytest.mark.unit
def test_unreachable_code_keeps_its_block() -> None:
    cfg = graph("bra B; mov.u32 %r1, 0; B: ret;")
    assert len(cfg) == 3 and cfg.predecessors == ((), (), (0, 1)) and cfg.post_dominator == (2, 2, -1)


@pytest.mark.unit
def test_body_without_end_or_without_instructions_exits() -> None:
    assert graph("mov.u32 %r1, 0;").exit_blocks == (0,)
    assert graph("@%p1 bra E; mov.u32 %r1, 0; E:").exit_blocks == (0, 1)
    empty = graph("")
    assert len(empty) == 0 and empty.block_start.tolist() == [0] and empty.exit_blocks == ()


@pytest.mark.unit
def test_jump_table_goes_to_each_label_once() -> None:
    cfg = graph("T: .branchtargets A, B, A; brx.idx %r1, T; A: ret; B: ret; C: ret;")
    assert cfg.successors == ((1, 2), (), (), ()) and cfg.block_start.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.unit
def test_jump_table_that_is_not_listed_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="has no list of targets"):
        graph("brx.idx %r1, A; A: ret;")


def reach(function: Function, start: int, without: range) -> set[int]:
    seen, pending = set(), [start]
    while pending:
        pc = pending.pop()
        if pc in seen or pc in without:
            continue
        seen.add(pc)
        if pc >= 0:
            pending.extend(next_instructions(function, pc))
    return seen


@pytest.mark.property
@settings(max_examples=80, deadline=None)
@given(functions())
def test_edges_of_random_functions_are_those_of_their_instructions(function: Function) -> None:
    cfg = build_cfg(function)
    bounds = cfg.block_start.tolist()
    assert bounds == sorted(set(bounds)) and bounds[-1] == len(function.instructions)
    for block in range(len(cfg)):
        inside = range(bounds[block], bounds[block + 1])
        for pc in inside[:-1]:
            assert next_instructions(function, pc) == {pc + 1}
        expected = next_instructions(function, inside[-1])
        assert {bounds[s] for s in cfg.successors[block]} == expected - {-1}
        assert (block in cfg.exit_blocks) == (-1 in expected)
        assert all(block in cfg.predecessors[s] for s in cfg.successors[block])


@pytest.mark.property
@settings(max_examples=80, deadline=None)
@given(functions())
def test_post_dominators_of_random_functions_follow_the_definition(function: Function) -> None:
    cfg = build_cfg(function)
    bounds = cfg.block_start.tolist()
    blocks = [range(a, b) for a, b in pairwise(bounds)]
    never = range(0)

    def dominators(block: int) -> set[int]:
        """Blocks without which the exit cannot be reached from `block`; none when it cannot be reached at all."""
        if -1 not in reach(function, bounds[block], never):
            return set()
        return {b for b in range(len(blocks)) if b != block and -1 not in reach(function, bounds[block], blocks[b])}

    sets = [dominators(block) for block in range(len(blocks))]
    for block, found in enumerate(cfg.post_dominator):
        # The immediate one is that which all others post-dominate: it has one dominator less than the block itself.
        nearest = [b for b in sets[block] if sets[b] == sets[block] - {b}]
        assert ([found] if found >= 0 else []) == nearest
