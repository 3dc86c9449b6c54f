"""What a reader of results must know about an imported trace."""

from __future__ import annotations

import numpy as np

from warpsight.isa.sass.opcodes import SassTable
from warpsight.traces.importers.accelsim import layout as at
from warpsight.traces.importers.accelsim.instructions import Code
from warpsight.traces.importers.accelsim.layout import Slot, Static
from warpsight.traces.importers.accelsim.parser import BlockOrder, Parser
from warpsight.traces.importers.launch import KernelHeader

_STRAIGHT = (0, 8, 16)  # bytes from an instruction to the next; words of scheduling control stand between some before sm_70
_SHOWN = 4


def notes_of(header: KernelHeader, code: Code, rows: at.Longs, order: BlockOrder, isa: SassTable, parser: Parser) -> list[str]:
    """The notes, most important first."""
    return [
        note
        for note in (
            _origin(header),
            _residency(header),
            _missing(header, order),
            _unknown(code, rows),
            _own(code, isa),
            _empty(order),
            _skipped(code, rows),
            _unaddressed(code, rows),
            _continued(code, rows),
            _hidden(header),
            _local(parser.state),
            _odd(parser),
            _windows(header, code),
            _keys(header),
        )
        if note
    ]


def _origin(header: KernelHeader) -> str:
    if header.origin:
        return header.origin
    tool = f"Accel-Sim tracer {header.version}" + (f", NVBit {header.nvbit}" if header.nvbit else "")
    return f"SASS of sm_{header.binary} ({tool}): addresses and control flow carry over to other GPUs, opcodes do not"


def _residency(header: KernelHeader) -> str:
    target = f"sm_{header.binary}" if header.binary else "the GPU of the trace, which does not name it"
    return (
        f"registers and shared memory, and so occupancy, are as compiled for {target}; the L1's part of an SM is the GPU "
        "description's"
    )


def _missing(header: KernelHeader, order: BlockOrder) -> str:
    if order.blocks == header.blocks:
        return ""
    return (
        f"{order.blocks:,} of {header.blocks:,} blocks are in the trace ({order.blocks / header.blocks:.2%}); "
        "instructions of the launch are scaled from them"
    )


def _unknown(code: Code, rows: at.Longs) -> str:
    total = int(rows[:, Static.EXECUTED].sum())
    found: dict[str, tuple[int, str]] = {}
    for k, line in zip(code.order, code.lines, strict=True):
        if not line.known:
            found[line.opcode] = (found.get(line.opcode, (0, ""))[0] + int(rows[k, Static.EXECUTED]), line.row.name)
    if not found:
        return ""
    named = ", ".join(
        f"{opcode} as {row} ({count / total:.2%})" for opcode, (count, row) in sorted(found.items(), key=lambda i: -i[1][0])
    )
    return (
        f"warning: {len(found)} opcodes are not in the table and are priced by the nearest name, with their share of warp "
        f"instructions: {named}; --isa-file says what they are"
    )


def _own(code: Code, isa: SassTable) -> str:
    used = sorted({line.row.name for line in code.lines if isa.own.get(line.row.name) is line.row})
    return f"opcodes by the file that was given: {', '.join(used)}" if used else ""


def _empty(order: BlockOrder) -> str:
    if not order.empty:
        return ""
    return f"{order.empty:,} warps have no instructions (the first: {order.first_empty})"


def _skipped(code: Code, rows: at.Longs) -> str:
    """Instructions after which the pc jumps though they are no branches: the tracer has left something out behind them."""
    places = []
    for k, line in zip(code.order, code.lines, strict=True):
        following = int(rows[k, Static.SUCCESSOR])
        if following < 0 or line.row.op_class == "branch":
            continue
        after = code.lines[int(code.rank[following])].pc
        if after - line.pc not in _STRAIGHT:
            places.append(f"{line.pc:04x} to {after:04x}")
    if not places:
        return ""
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return (
        f"the pc jumps {len(places)} times where no branch was recorded ({', '.join(places[:_SHOWN])}{more}): the tracer "
        "leaves out some calls (CALL.REL.NOINC), which are then not counted"
    )


def _unaddressed(code: Code, rows: at.Longs) -> str:
    found: dict[str, int] = {}
    for k, line in zip(code.order, code.lines, strict=True):
        if line.row.access and line.row.space != "const" and not line.access:
            base = line.opcode.split(".")[0]
            found[base] = found.get(base, 0) + int(rows[k, Static.EXECUTED])
    if not found:
        return ""
    named = ", ".join(f"{base} ({count:,})" for base, count in sorted(found.items()))
    return f"executed without addresses in the trace, so without memory traffic: {named}"


def _continued(code: Code, rows: at.Longs) -> str:
    bulk = [k for k, line in zip(code.order, code.lines, strict=True) if line.part == 1 and line.row.name != "LDGSTS"]
    count = int(np.sum(rows[bulk, Static.EXECUTED])) if bulk else 0
    if not count:
        return ""
    return f"bulk copies of more than 255 sectors count as several instructions: {count:,} more than were executed"


def _hidden(header: KernelHeader) -> str:
    if header.version >= 6 or header.origin:
        return ""
    return "this tracer leaves out predicates, uniform registers or constants: dependences through them are not seen"


def _odd(parser: Parser) -> str:
    odd, total = int(parser.state[Slot.ODD_LINES]), int(parser.state[Slot.MEMORY_LINES])
    if not odd:
        return ""
    return (
        f"{odd:,} of {total:,} memory lines have more or fewer fields at their end than the first one ({parser.odd}): "
        "addresses may be lost or added there"
    )


def _windows(header: KernelHeader, code: Code) -> str:
    if (header.shared_base and header.local_base) or not any(line.access and line.space == "generic" for line in code.lines):
        return ""
    missing = " and ".join(name for name, base in (("shared", header.shared_base), ("local", header.local_base)) if not base)
    return f"the header gives no base address of {missing} memory: generic accesses to it count as accesses to device memory"


def _keys(header: KernelHeader) -> str:
    if not header.other:
        return ""
    named = ", ".join(f"-{key[:40]}" for key in header.other[:6])
    return f"keys of the header that no known tracer writes have no part in this: {named}"


def _local(state: at.Longs) -> str:
    if int(state[Slot.LOCAL_NEXT]) <= at.LOCAL_PAGES:
        return ""
    return "local memory of more than 64 GiB in all: later warps use the places of earlier ones again, as on hardware"
