"""The static side of a trace: one row per instruction, from the parsed kernel."""

from __future__ import annotations

from dataclasses import replace

from warpsight.emulator.codegen.recording import BULK_COUNT_BYTES
from warpsight.isa.ptx.program import Function, Immediate, Instruction
from warpsight.isa.ptx.rules import is_bulk_copy, memory_access, op_class, reads, writes
from warpsight.isa.sass.native import NO_BARRIER, NativeImmediate, NativeWord
from warpsight.isa.sass.opcodes import TMA
from warpsight.traces.schema import NEXT_GROUP, StaticInstruction

_NO_WAIT = -1


def _control(instruction: Instruction) -> tuple[int, int, int, int]:
    """Stall cycles, barriers set and barriers waited for, of an instruction that has a control word."""
    if instruction.native is None:
        return 0, NO_BARRIER, NO_BARRIER, 0
    control = instruction.native.control
    return control.stall, control.write_barrier, control.read_barrier, control.waits


def _group_barriers(function: Function) -> set[str]:
    """The barriers of the control words that count groups of asynchronous copies: those that `LDGDEPBAR` sets."""
    closing = [i.native for i in function.instructions if i.native is not None and i.native.base == "LDGDEPBAR"]
    return {f"SB{native.control.write_barrier}" for native in closing}


def _wait_groups(instruction: Instruction, barriers: set[str]) -> int:
    """How many groups of asynchronous copies may still be on their way, of an instruction that waits for them."""
    native = instruction.native
    if native is None:
        kind = instruction.modifiers[1:] if instruction.opcode == "cp" and instruction.modifiers[:1] == ("async",) else ()
        groups = instruction.operands[0] if instruction.operands else None
        left = int(groups.value) if kind == ("wait_group",) and isinstance(groups, Immediate) else _NO_WAIT
        return 0 if kind == ("wait_all",) else left
    if native.base != "DEPBAR" or "LE" not in native.modifiers or len(native.operands) < 2:
        return _NO_WAIT
    barrier, count = native.operands[:2]
    of_copies = isinstance(barrier, NativeWord) and barrier.text in barriers
    return count.value if of_copies and isinstance(count, NativeImmediate) else _NO_WAIT


def _is_bulk(instruction: Instruction) -> bool:
    if instruction.native is not None:
        return instruction.native.base in TMA
    return is_bulk_copy(instruction)


def static_instructions(function: Function) -> tuple[StaticInstruction, ...]:
    """Rows in pc order. Registers are numbered densely, in order of first mention."""
    numbers: dict[str, int] = {}

    def dense(names: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(n, len(numbers)) for n in names)

    rows, barriers = [], _group_barriers(function)
    for ins in function.instructions:
        memory = memory_access(ins)
        space, access, size = (memory.space, memory.access, memory.bytes_per_lane) if memory else ("", "", 0)
        rows.append(
            StaticInstruction(
                ins.index, ins.text, op_class(ins), dense(writes(ins)), dense(reads(ins)), space,
                access, size, ins.file, ins.line, ins.ptx_line, *_control(ins), wait_groups=_wait_groups(ins, barriers),
                count_bytes=BULK_COUNT_BYTES if _is_bulk(ins) else 1,
            )
        )
    if any(row.arrives_with_copies for row in rows):
        rows = [replace(row, wait_groups=NEXT_GROUP) if row.polls_mbarrier else row for row in rows]
    return tuple(rows)
