"""The static side of a trace: one row per instruction, from the parsed kernel."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from warpsight.emulator.codegen.recording import BULK_COUNT_BYTES
from warpsight.isa.ptx.program import Function, Immediate, Instruction
from warpsight.isa.ptx.rules import MemoryAccess, counts_threads, is_bulk_copy, memory_access, op_class, reads, writes
from warpsight.isa.sass.native import NO_BARRIER, NativeImmediate, NativeWord
from warpsight.isa.sass.opcodes import TMA
from warpsight.traces.schema import COPIES, NEXT_GROUP, PRODUCTS, READS, WRITES, StaticInstruction

_NO_WAIT = -1, COPIES


def _control(instruction: Instruction) -> tuple[int, int, int, int]:
    """Stall cycles, barriers set and barriers waited for, of an instruction that has a control word."""
    if instruction.native is None:
        return 0, NO_BARRIER, NO_BARRIER, 0
    control = instruction.native.control
    return control.stall, control.write_barrier, control.read_barrier, control.waits


def _group_barriers(function: Function) -> dict[str, str]:
    """What counts groups of asynchronous work in machine code, and their kind: barriers that `LDGDEPBAR` or `UTMACMDFLUSH` sets."""
    kinds = {"gsb0": PRODUCTS}
    for instruction in function.instructions:
        if (native := instruction.native) is None:
            continue
        if native.base == "LDGDEPBAR":
            kinds[f"SB{native.control.write_barrier}"] = COPIES
        elif native.base == "UTMACMDFLUSH":
            kinds[f"SB{native.control.read_barrier}"] = READS
    return kinds


def _wait(instruction: Instruction, after: Instruction | None, kinds: dict[str, str]) -> tuple[int, str]:
    """How many groups may still be on their way, of an instruction that waits for them, and their kind."""
    native = instruction.native
    if native is None:
        return _ptx_wait(instruction)
    if native.base not in ("DEPBAR", "WARPGROUP") or "LE" not in native.modifiers or len(native.operands) < 2:
        return _NO_WAIT
    barrier, count = native.operands[:2]
    kind = kinds.get(barrier.text) if isinstance(barrier, NativeWord) else None
    if kind is None or not isinstance(count, NativeImmediate):
        return _NO_WAIT
    # The assembler makes one instruction of a wait for reads and of one for writes, but forgets the L1's lines after the latter.
    written = kind == READS and after is not None and after.native is not None and after.native.mnemonic == "CCTL.IVALL"
    return count.value, WRITES if written else kind


def _ptx_wait(instruction: Instruction) -> tuple[int, str]:
    words = [m for m in instruction.modifiers if m not in ("async", "sync", "aligned")]
    kinds = {
        ("cp", "wait_group"): COPIES, ("cp", "wait_all"): COPIES, ("cp", "bulk", "wait_group"): WRITES,
        ("cp", "bulk", "wait_group", "read"): READS, ("wgmma", "wait_group"): PRODUCTS,
    }  # fmt: skip
    kind = kinds.get((instruction.opcode, *words))
    if kind is None or words == ["wait_all"]:
        return _NO_WAIT if kind is None else (0, kind)
    groups = instruction.operands[0] if instruction.operands else None
    return (int(groups.value), kind) if isinstance(groups, Immediate) else _NO_WAIT


def _ends_products(instruction: Instruction) -> bool:
    """Of machine code, whose last product of a group names `gsb0`."""
    native = instruction.native
    if native is None or "GMMA" not in native.base:
        return False
    return any(isinstance(operand, NativeWord) and operand.text == "gsb0" for operand in native.operands)


def _at_barrier(instruction: Instruction, access: MemoryAccess | None) -> bool:
    """Whether it arrives at an mbarrier, tests one, or brings data that complete on one; what the event says is written there.

    So it is for barriers of a part of a block.
    """
    native = instruction.native
    if access is None:
        return counts_threads(instruction)
    if _is_bulk(instruction):  # what is written in device memory is awaited with its group
        return (access.space, access.access) == ("global", "load") or access.space == "shared"
    if native is not None:
        signals = ("ARRIVES", "UGETNEXTWORKID", "UTCBAR", "SYNCS.ARRIVE", "SYNCS.PHASECHK", "ATOMS.ARRIVE", "STAS", "REDAS")
        return native.mnemonic.startswith(signals)
    if instruction.opcode in ("st", "red"):
        return "async" in instruction.modifiers
    if instruction.opcode == "cp":
        return "mbarrier" in instruction.modifiers
    if instruction.opcode == "tcgen05":
        return "commit" in instruction.modifiers
    return instruction.opcode in ("mbarrier", "clusterlaunchcontrol") and instruction.modifiers[0] not in ("init", "inval")


def _is_bulk(instruction: Instruction) -> bool:
    if instruction.native is not None:
        return instruction.native.base in TMA
    return is_bulk_copy(instruction)


def static_instructions(function: Function) -> tuple[StaticInstruction, ...]:
    """Rows in pc order. Registers are numbered densely, in order of first mention."""
    numbers: dict[str, int] = {}

    def dense(names: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(n, len(numbers)) for n in names)

    rows, kinds = [], _group_barriers(function)
    for ins, after in zip_longest(function.instructions, function.instructions[1:]):
        memory = memory_access(ins)
        groups, kind = _wait(ins, after, kinds)
        space, access, size = (memory.space, memory.access, memory.bytes_per_lane) if memory else ("", "", 0)
        file, line = ins.user_place
        rows.append(
            StaticInstruction(
                ins.index, ins.text, op_class(ins), dense(writes(ins)), dense(reads(ins)), space, access, size, file, line,
                ins.ptx_line, *_control(ins), wait_groups=groups, wait_kind=kind,
                count_bytes=BULK_COUNT_BYTES if _is_bulk(ins) else 1, at_barrier=_at_barrier(ins, memory),
                ends_products=_ends_products(ins),
            )
        )
    if any(row.arrives_with_copies for row in rows):
        rows = [replace(row, wait_groups=NEXT_GROUP) if row.polls_mbarrier else row for row in rows]
    return tuple(rows)
