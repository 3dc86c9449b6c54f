"""Registers that instructions read and write, and which are live at the bounds of basic blocks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.names import SINK
from warpsight.isa.ptx.program import Address, Function, Instruction, Negated, Operand, Register, Vector
from warpsight.isa.ptx.rules import destination_count

CARRY = "%.cc"  # the carry of extended-precision arithmetic: a predicate register that no program can name


def in_chain(instruction: Instruction) -> bool:
    """Does it read or write the carry?"""
    return "cc" in instruction.modifiers or instruction.opcode in ("addc", "subc", "madc")


def reads(instruction: Instruction) -> tuple[str, ...]:
    """Names of the registers that an instruction reads, each once: guard, then sources, address bases and vector elements in order.

    The old value that a guarded write leaves in place is not listed; special registers are not. Raises UnsupportedError for an
    opcode that is not in the table.
    """
    written = destination_count(instruction)
    found: dict[str, None] = {}
    if instruction.guard is not None:
        found[instruction.guard.register.name] = None
    _collect(instruction.operands[written:], found)
    # A destination may hold an address only by mistake; its base would still be read.
    _collect((operand for operand in instruction.operands[:written] if isinstance(operand, Address)), found)
    if instruction.opcode in ("addc", "subc", "madc"):
        found[CARRY] = None
    return tuple(found)


def writes(instruction: Instruction) -> tuple[str, ...]:
    """Names of the registers that an instruction writes, each once: destination, vector elements, second of a pair; not `_`.

    Raises UnsupportedError for an opcode that is not in the table.
    """
    found: dict[str, None] = {}
    _collect((o for o in instruction.operands[: destination_count(instruction)] if not isinstance(o, Address)), found)
    if instruction.pair is not None and instruction.pair.name != SINK:
        found[instruction.pair.name] = None
    if "cc" in instruction.modifiers:
        found[CARRY] = None
    return tuple(found)


def _collect(operands: Iterable[Operand | Negated], found: dict[str, None]) -> None:
    for operand in operands:
        if isinstance(operand, Register):
            if operand.name != SINK:
                found[operand.name] = None
        elif isinstance(operand, Address):
            if isinstance(operand.base, Register):
                found[operand.base.name] = None
        elif isinstance(operand, Vector):
            _collect((element for element in operand.elements if element is not None), found)
        elif isinstance(operand, Negated):
            found[operand.register.name] = None


def live_in(function: Function, cfg: ControlFlowGraph) -> list[frozenset[str]]:
    """Per basic block, the registers whose value at its start may be read later. A guarded write does not end a value's life."""
    return _named(function, cfg, at_start=True)


def live_out(function: Function, cfg: ControlFlowGraph) -> list[frozenset[str]]:
    """Per basic block, the registers whose value at its end may be read later."""
    return _named(function, cfg, at_start=False)


def _named(function: Function, cfg: ControlFlowGraph, at_start: bool) -> list[frozenset[str]]:
    names: list[str] = []
    number: dict[str, int] = {}
    used, killed = _block_sets(function, cfg, names, number)
    start, end = _solve(cfg, used, killed)
    return [frozenset(_members(bits, names)) for bits in (start if at_start else end)]


def _block_sets(function: Function, cfg: ControlFlowGraph, names: list[str], number: dict[str, int]) -> tuple[list[int], list[int]]:
    """Bit sets per block: read before being surely written; surely written. Bit i is register `names[i]`."""

    def bits(registers: tuple[str, ...]) -> int:
        result = 0
        for register in registers:
            if register not in number:
                number[register] = len(names)
                names.append(register)
            result |= 1 << number[register]
        return result

    used, killed = [], []
    bounds = cfg.block_start.tolist()
    for first, last in pairwise(bounds):
        use = kill = 0
        for instruction in reversed(function.instructions[first:last]):
            if instruction.guard is None:
                written = bits(writes(instruction))
                use &= ~written
                kill |= written
            use |= bits(reads(instruction))
        used.append(use)
        killed.append(kill)
    return used, killed


def _solve(cfg: ControlFlowGraph, used: list[int], killed: list[int]) -> tuple[list[int], list[int]]:
    """Backward may-analysis to its least fixed point, by a worklist that starts from the last block."""
    count = len(used)
    start, end = list(used), [0] * count
    pending = list(range(count))
    waiting = [True] * count
    while pending:
        block = pending.pop()
        waiting[block] = False
        out = 0
        for successor in cfg.successors[block]:
            out |= start[successor]
        end[block] = out
        live = used[block] | (out & ~killed[block])
        if live != start[block]:
            start[block] = live
            for predecessor in cfg.predecessors[block]:
                if not waiting[predecessor]:
                    waiting[predecessor] = True
                    pending.append(predecessor)
    return start, end


def _members(bits: int, names: list[str]) -> list[str]:
    found = []
    while bits:
        lowest = bits & -bits
        found.append(names[lowest.bit_length() - 1])
        bits ^= lowest
    return found
