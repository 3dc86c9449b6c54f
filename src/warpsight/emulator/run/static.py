"""The static side of a trace: one row per instruction, from the parsed kernel."""

from __future__ import annotations

from warpsight.isa.ptx.program import Function, Instruction
from warpsight.isa.ptx.rules import memory_access, op_class, reads, writes
from warpsight.traces.schema import StaticInstruction


def _control(instruction: Instruction) -> tuple[int, ...]:
    """Stall cycles, barriers set and barriers waited for, of an instruction that has a control word."""
    if instruction.native is None:
        return ()
    control = instruction.native.control
    return control.stall, control.write_barrier, control.read_barrier, control.waits


def static_instructions(function: Function) -> tuple[StaticInstruction, ...]:
    """Rows in pc order. Registers are numbered densely, in order of first mention."""
    numbers: dict[str, int] = {}

    def dense(names: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(n, len(numbers)) for n in names)

    rows = []
    for ins in function.instructions:
        memory = memory_access(ins)
        space, access, size = (memory.space, memory.access, memory.bytes_per_lane) if memory else ("", "", 0)
        rows.append(
            StaticInstruction(
                ins.index, ins.text, op_class(ins), dense(writes(ins)), dense(reads(ins)), space, access, size, ins.file, ins.line,
                ins.ptx_line, *_control(ins),
            )
        )
    return tuple(rows)
