"""Registers read and written, and live registers: by hand, and against paths followed instruction by instruction."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from ptx_samples import kernel
from random_functions import functions, next_instructions

from warpsight.isa.ptx.cfg import build_cfg
from warpsight.isa.ptx.dataflow import live_in, live_out
from warpsight.isa.ptx.parser import parse_module
from warpsight.isa.ptx.program import Function
from warpsight.isa.ptx.rules import reads, writes


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "read", "written"),
    [
        ("add.s32 %r1, %r2, %r2;", "%r2", "%r1"),
        ("@%p1 mad.lo.s32 %r1, %r2, %r3, %r1;", "%p1 %r2 %r3 %r1", "%r1"),
        ("@!%p1 bra END;", "%p1", ""),
        ("ld.global.v2.u32 {%r1, _}, [%rd1+8];", "%rd1", "%r1"),
        ("st.global.v2.u32 [%rd1], {%r1, %r2};", "%rd1 %r1 %r2", ""),
        ("atom.global.cas.b32 %r1, [%rd1], %r2, %r3;", "%rd1 %r2 %r3", "%r1"),
        ("atom.global.add.u32 _, [%rd1], %r2;", "%rd1 %r2", ""),
        ("red.global.add.u32 [%rd1], %r2;", "%rd1 %r2", ""),
        ("shfl.sync.idx.b32 %r1|%p1, %r2, %r3, 31, %r4;", "%r2 %r3 %r4", "%r1 %p1"),
        ("setp.lt.and.s32 %p1|%p2, %r1, 0, !%p3;", "%r1 %p3", "%p1 %p2"),
        ("mov.b64 {%r1, %r2}, %rd1;", "%rd1", "%r1 %r2"),
        ("mov.b64 %rd1, {%r1, %r2};", "%r1 %r2", "%rd1"),
        ("mov.u32 %r1, %tid.x;", "", "%r1"),
        ("bar.sync %r1;", "%r1", ""),
        ("bar.red.popc.u32 %r1, 0, %p1;", "%p1", "%r1"),
        ("call (%r1), f, (%r2, %r3);", "%r2 %r3", "%r1"),
        ("wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd1], {%f1, %f2}, %r1;", "%rd1 %f1 %f2 %r1", ""),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1, %r2}, [%rd1], %r3;", "%rd1 %r3", "%r1 %r2"),
        ("prefetch.global.L2 [%rd1];", "%rd1", ""),
    ],
)
def test_registers_of_an_instruction(text: str, read: str, written: str) -> None:
    module = parse_module(kernel(f"{text}\nEND:", module=".func (.reg .b32 r) f(.reg .b32 a, .reg .b32 b);\n"))
    (instruction,) = module.kernels["k"].instructions
    assert reads(instruction) == tuple(read.split()) and writes(instruction) == tuple(written.split())


@pytest.mark.unit
def test_guarded_write_does_not_end_the_life_of_the_old_value() -> None:
    function = parse_module(kernel("@%p1 mov.u32 %r1, 1; st.global.u32 [%rd1], %r1; mov.u32 %r1, 2; ret;")).kernels["k"]
    cfg = build_cfg(function)
    assert live_in(function, cfg) == [frozenset({"%p1", "%r1", "%rd1"})] and live_out(function, cfg) == [frozenset()]


def may_be_read(function: Function, start: int, register: str) -> bool:
    """Whether some path from `start` reads the register before a write that is not guarded."""
    seen, pending = set(), [start]
    while pending:
        pc = pending.pop()
        if pc in seen or pc < 0:
            continue
        seen.add(pc)
        instruction = function.instructions[pc]
        if register in reads(instruction):
            return True
        if register in writes(instruction) and instruction.guard is None:
            continue
        pending.extend(next_instructions(function, pc))
    return False


@pytest.mark.property
@settings(max_examples=80, deadline=None)
@given(functions())
def test_live_registers_of_random_functions_are_those_that_a_path_reads(function: Function) -> None:
    cfg = build_cfg(function)
    bounds = cfg.block_start.tolist()
    starts, ends = live_in(function, cfg), live_out(function, cfg)
    assert len(starts) == len(ends) == len(cfg)
    for block in range(len(cfg)):
        following = next_instructions(function, bounds[block + 1] - 1)
        for register in function.registers:
            assert (register in starts[block]) == may_be_read(function, bounds[block], register)
            assert (register in ends[block]) == any(may_be_read(function, pc, register) for pc in following)
