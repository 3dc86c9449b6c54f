"""What a reader of results must know about an imported trace, whatever its format."""

from __future__ import annotations

from collections import Counter

from warpsight.isa.sass.opcodes import SassTable
from warpsight.traces.importers.instructions import Code
from warpsight.traces.importers.launch import KernelHeader
from warpsight.traces.importers.layout import LOCAL_PAGES

_STRAIGHT = (0, 8, 16)  # bytes from an instruction to the next; before sm_70, control words stand between some
_SHOWN = 4


def notes_of(header: KernelHeader, code: Code, isa: SassTable, blocks: int, empty: str, local_pages: int) -> list[str]:
    """The notes that every format needs, most important first.

    `blocks` are in the trace, `empty` is the note on warps without instructions, `local_pages` of local memory are in use.
    """
    notes = (
        header.origin,
        _residency(header),
        _missing(header, blocks),
        _unknown(code),
        _own(code, isa),
        empty,
        _skipped(code),
        _unaddressed(code),
        _continued(code),
        _local(local_pages),
        _windows(header, code),
    )
    return [note for note in notes if note]


def _residency(header: KernelHeader) -> str:
    target = f"sm_{header.binary}" if header.binary else "the GPU of the trace, which the trace does not name"
    return (
        f"registers and shared memory, and therefore occupancy, are as compiled for {target}; the L1's share of an SM is that "
        "of the GPU description"
    )


def _missing(header: KernelHeader, blocks: int) -> str:
    if blocks == header.blocks:
        return ""
    return (
        f"{blocks:,} of {header.blocks:,} blocks are in the trace ({blocks / header.blocks:.2%}); "
        "instructions of the launch are scaled from them"
    )


def _unknown(code: Code) -> str:
    total = int(code.rows["executed"].sum())
    executed: Counter[tuple[str, str]] = Counter()
    for instruction, count in zip(code.executed, code.rows["executed"].tolist(), strict=True):
        if not instruction.meaning.known:
            executed[instruction.opcode, instruction.row.name] += count
    if not executed:
        return ""
    named = ", ".join(f"{opcode} as {row} ({count / total:.2%})" for (opcode, row), count in executed.most_common())
    return (
        f"warning: {len(executed)} opcodes are not in the table and are priced by the nearest name, with their share of warp "
        f"instructions: {named}; a file of opcodes can say what they are"
    )


def _own(code: Code, isa: SassTable) -> str:
    used = sorted({each.row.name for each in code.executed if isa.own.get(each.row.name) is each.row})
    return f"opcodes defined by the given file: {', '.join(used)}" if used else ""


def _skipped(code: Code) -> str:
    """Instructions that are not branches and are not followed by the next pc: the tracer left something out behind them."""
    places = []
    for instruction, successor in zip(code.executed, code.rows["successor"].tolist(), strict=True):
        if successor < 0 or instruction.row.op_class == "branch":
            continue
        after = code.executed[int(code.rank[successor])].pc
        if after - instruction.pc not in _STRAIGHT:
            places.append(f"{instruction.pc:04x} to {after:04x}")
    if not places:
        return ""
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return (
        f"the pc jumps {len(places)} times where no branch was recorded ({', '.join(places[:_SHOWN])}{more}): the tracer "
        "leaves out some calls (CALL.REL.NOINC), which are then not counted"
    )


def _unaddressed(code: Code) -> str:
    executed: Counter[str] = Counter()
    for instruction, count in zip(code.executed, code.rows["executed"].tolist(), strict=True):
        if instruction.row.access and instruction.row.space != "const" and not instruction.access:
            executed[instruction.opcode.split(".")[0]] += count
    if not executed:
        return ""
    named = ", ".join(f"{base} ({count:,})" for base, count in sorted(executed.items()))
    return f"executed without addresses in the trace, so without memory traffic: {named}"


def _continued(code: Code) -> str:
    bulk = [k for k, each in enumerate(code.executed) if each.part == 1 and each.row.name != "LDGSTS"]
    count = int(code.rows["executed"][bulk].sum())
    if not count:
        return ""
    return f"bulk copies of more than 255 sectors count as several instructions: {count:,} more than were executed"


def _local(pages: int) -> str:
    if pages <= LOCAL_PAGES:
        return ""
    return "the warps use more than 64 GiB of local memory in all: later warps reuse the places of earlier ones, as on hardware"


def _windows(header: KernelHeader, code: Code) -> str:
    if (header.shared_base and header.local_base) or not any(each.access and each.space == "generic" for each in code.executed):
        return ""
    missing = " and ".join(name for name, base in (("shared", header.shared_base), ("local", header.local_base)) if not base)
    return f"the header gives no base address of {missing} memory: generic accesses to it count as accesses to device memory"
