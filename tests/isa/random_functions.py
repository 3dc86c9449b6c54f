"""Random functions for the properties of control and data flow: every mix of blocks, branches, exits, barriers and guards."""

from __future__ import annotations

from hypothesis import strategies as st
from ptx_samples import kernel

from warpsight.isa.ptx.parser import parse_module
from warpsight.isa.ptx.program import Function

REGISTERS = [f"%r{i}" for i in range(5)]
PREDICATES = [f"%p{i}" for i in range(3)]


@st.composite
def functions(draw: st.DrawFn) -> Function:
    """A function of up to 12 labelled pieces; each ends in a branch, an exit, a barrier or nothing."""
    pieces = draw(st.integers(1, 12))
    register, predicate = st.sampled_from(REGISTERS), st.sampled_from(PREDICATES)
    lines = []
    for piece in range(pieces):
        lines.append(f"L{piece}:")
        for _ in range(draw(st.integers(0, 3))):
            guard = draw(st.sampled_from(["", "", f"@{draw(predicate)} "]))
            lines.append(
                draw(
                    st.sampled_from(
                        [
                            f"{guard}add.s32 {draw(register)}, {draw(register)}, {draw(register)};",
                            f"{guard}mov.u32 {draw(register)}, 1;",
                            f"{guard}setp.lt.s32 {draw(predicate)}|{draw(predicate)}, {draw(register)}, 3;",
                            f"{guard}st.global.u32 [%rd1], {draw(register)};",
                        ]
                    )
                )
            )
        target = f"L{draw(st.integers(0, pieces - 1))}"
        guard = draw(st.sampled_from(["", f"@{draw(predicate)} ", f"@!{draw(predicate)} "]))
        ends = ["", f"{guard}bra {target};", f"{guard}bra {target};", f"{guard}ret;", "bar.sync 0;", f"{guard}trap;"]
        lines.append(draw(st.sampled_from(ends)))
    return parse_module(kernel("\n".join(lines))).kernels["k"]


def next_instructions(function: Function, pc: int) -> set[int]:
    """Where control may go after instruction `pc`, read off the instruction alone; the virtual exit is -1."""
    instruction = function.instructions[pc]
    after = pc + 1 if pc + 1 < len(function.instructions) else -1
    if instruction.opcode == "bra":
        target = function.labels[instruction.operands[0].name]
        jump = {target if target < len(function.instructions) else -1}
        return jump | {after} if instruction.guard else jump
    if instruction.opcode in {"ret", "trap", "exit"}:
        return {-1, after} if instruction.guard else {-1}
    return {after}
