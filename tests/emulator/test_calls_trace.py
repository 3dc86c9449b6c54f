"""Is what a trace says of called functions right: their blocks, their registers, and which accesses are the program's?"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from emulator_launch import PTX_HEAD, launch, ptx
from trace_reader import accesses, path_of

import warpsight
from warpsight.isa.ptx.callgraph import plan_calls
from warpsight.isa.ptx.inlining import inline_calls
from warpsight.isa.ptx.parser import parse_module
from warpsight.kernels.sources import load_source
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

FUNCTION = """
.func (.param .b32 r) f(.param .b32 n) {
    .local .align 4 .b8 own[4]; .reg .b32 %r<8>; .reg .pred %p;
    ld.param.u32 %r1, [n]; st.local.u32 [own], %r1; mov.u32 %r4, 0; setp.eq.u32 %p, %r1, 0; @%p bra END;
    sub.u32 %r2, %r1, 1;
    { .param .b32 a; .param .b32 c; st.param.b32 [a], %r2; call.uni (c), f, (a); ld.param.b32 %r3, [c]; }
    ld.local.u32 %r4, [own]; add.u32 %r4, %r4, %r3;
END: st.param.b32 [r], %r4; ret; }
"""
BODY = """{ .param .b32 a; .param .b32 c; st.param.b32 [a], %i; call (c), f, (a); ld.param.b32 %r1, [c]; }
    st.global.u32 [%out], %r1; ret;"""


def text() -> str:
    return ptx("BODY: ret;").ptx.replace("BODY: ret;", BODY).replace(PTX_HEAD, PTX_HEAD + FUNCTION)


def run(threads: int) -> tuple[KernelTrace, np.ndarray]:
    out = np.zeros(threads, np.uint64)
    return launch(load_source(text(), name="test.ptx"), "k", 1, threads, [out]), out


def test_path_holds_each_block_of_kernel_and_function_with_the_lanes_that_ran_it() -> None:
    trace, out = run(4)
    assert out.tolist() == [0, 1, 3, 6]
    opcodes = [i.opcode for i in trace.instructions]
    starts = trace.block_start.tolist()
    names = {}  # block by its first opcodes and its last
    for block, (first, end) in enumerate(itertools.pairwise(starts)):
        names[block] = f"{opcodes[first].split('.')[0]}..{opcodes[end - 1].split('.')[0]}"
    seen = [(names[block], lanes) for block, lanes, repeat in path_of(trace, 0) for _ in range(repeat)]
    enter, recurse, back, end = "ld..bra", "sub..call", "ld..add", "st..ret"
    calls = [step for depth in (4, 3, 2) for step in ((enter, depth), (recurse, depth - 1))]
    assert seen[0] == ("mov..call", 4)
    assert seen[1 : 1 + len(calls)] == calls
    assert seen[1 + len(calls)] == (enter, 1)
    assert seen[-1] == ("ld..ret", 4)
    rest = seen[2 + len(calls) : -1]
    # Lanes that return from the call of a depth meet the lane that made none before all of them end the function.
    assert rest == [(end, 1), *(step for depth in (1, 2, 3) for step in ((back, depth), (end, depth + 1)))]


def test_registers_of_kernel_and_function_are_distinct_and_calls_write_none() -> None:
    trace, _ = run(4)
    begin = min(i.pc for i in trace.instructions if i.opcode == "ld.param::func.u32" or i.opcode.startswith("st.local")) - 1
    mentioned: list[set[int]] = [set(), set()]
    for each in trace.instructions:
        mentioned[each.pc >= begin].update((*each.destinations, *each.sources))
    shared = mentioned[0] & mentioned[1]
    assert len(shared) == 1  # the frame's address, which nothing writes
    assert not any(shared & set(i.destinations) for i in trace.instructions)
    calls = [i for i in trace.instructions if i.opcode.startswith("call")]
    assert [(i.op_class, i.destinations) for i in calls] == [("branch", ()), ("branch", ())]


def test_only_accesses_of_the_program_are_recorded() -> None:
    trace, _ = run(4)
    found = [(a.opcode, len(a.sectors or ())) for a in accesses(trace)]
    assert [opcode for opcode, _ in found] == ["st.local.u32"] * 4 + ["ld.local.u32"] * 3 + ["st.global.u32"]
    assert trace.header.thread_instructions >= sum(9 + 7 * i for i in range(4))


def test_prediction_of_a_kernel_that_recurses_is_made() -> None:
    trace = warpsight.trace(text(), grid=2, block=64, args=[np.zeros(128, np.uint64)])
    profile, prediction = warpsight.profile(trace), warpsight.predict(trace)
    assert profile.total_warp_instructions == trace.header.warp_instructions
    assert trace.header.warp_instructions > 4 * 32 * 10  # a warp of 32 lanes enters the function 32 times
    assert prediction.cycles > trace.header.warp_instructions / 4


# -- who is expanded, and who is called --------------------------------------------------------------------------------------


def leaf(name: str, callees: str = "", size: int = 10) -> str:
    steps = "".join(f"add.u32 %r1, %r1, {k};" for k in range(size))
    calls = "".join(f"call {callee};" for callee in callees.split())
    return f".func {name}() {{ .reg .b32 %r<3>; {steps} {calls} ret; }}\n"


@pytest.mark.parametrize(
    ("functions", "kept", "cycle"),
    [
        (leaf("a") + leaf("b", "a") + leaf("f", "a b"), set(), set()),
        (leaf("a", "f") + leaf("b", "a") + leaf("f", "a b"), {"a", "b", "f"}, {"a", "b", "f"}),
        (leaf("a", "a") + leaf("b", "a") + leaf("f", "a b"), {"a"}, {"a"}),
        (leaf("a", size=400) + leaf("f", " a" * 20), {"a"}, set()),
        (leaf("a", size=40) + leaf("b", " a" * 20) + leaf("f", " b" * 20), {"a"}, set()),
        (leaf("a", size=9000) + leaf("f", "a"), set(), set()),  # a single copy costs nothing
    ],
)
def test_recursive_functions_and_those_with_many_large_copies_are_kept(functions: str, kept: set[str], cycle: set[str]) -> None:
    module = parse_module(f"{PTX_HEAD}\n{functions}\n.visible .entry k() {{ call f; ret; }}")
    plan = plan_calls(module, module.functions["k"], lambda instruction, why: AssertionError(why))
    assert set(plan.kept) == kept
    assert plan.recursive == cycle
    assert set(plan.callables) == kept
    linked = inline_calls(module, module.functions["k"])
    assert set(linked.callables) == kept
    assert [each.index for each in linked.instructions] == list(range(len(linked.instructions)))
    assert sum(each.opcode == "call" for each in linked.instructions) == len(linked.call_sites)
