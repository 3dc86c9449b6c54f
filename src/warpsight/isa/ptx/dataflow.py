"""The registers that are live at the bounds of basic blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from warpsight.base.compile_budget import check
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.program import Function, Instruction
from warpsight.isa.ptx.rules import reads, writes


def live_in(function: Function, cfg: ControlFlowGraph) -> list[frozenset[str]]:
    """Per basic block, the registers whose value at its start may be read later. A guarded write does not end a value's life."""
    return _named(function, cfg, at_start=True)


def live_out(function: Function, cfg: ControlFlowGraph) -> list[frozenset[str]]:
    """Per basic block, the registers whose value at its end may be read later."""
    return _named(function, cfg, at_start=False)


def live_around(function: Function, cfg: ControlFlowGraph) -> Iterator[tuple[Instruction, frozenset[str], frozenset[str]]]:
    """Each instruction with the registers that are live after it and before it, from the end of each block to its start."""
    for block, live in enumerate(live_out(function, cfg)):
        for instruction in reversed(function.instructions[cfg.block_start[block] : cfg.block_start[block + 1]]):
            # Lanes that a guard turns off keep the old value, so a guarded write does not end a life.
            kept = live.difference(writes(instruction)) if instruction.guard is None else live
            before = kept.union(reads(instruction))
            yield instruction, live, before
            live = before  # noqa: PLW2901  the walk goes backwards


class RegisterBits:
    """Sets of registers as integers: a bit for each name, in the order in which they come."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._names: list[str] = []

    def of(self, registers: Iterable[str]) -> int:
        """The set of these registers."""
        bits = 0
        for register in registers:
            if register not in self._number:
                self._number[register] = len(self._names)
                self._names.append(register)
            bits |= 1 << self._number[register]
        return bits

    def names(self, bits: int) -> frozenset[str]:
        """The registers in a set."""
        members = []
        while bits:
            lowest = bits & -bits
            members.append(self._names[lowest.bit_length() - 1])
            bits ^= lowest
        return frozenset(members)


def _named(function: Function, cfg: ControlFlowGraph, at_start: bool) -> list[frozenset[str]]:
    registers = RegisterBits()
    start, end = _solve(cfg, *_block_sets(function, cfg, registers))
    return [registers.names(bits) for bits in (start if at_start else end)]


def _block_sets(function: Function, cfg: ControlFlowGraph, registers: RegisterBits) -> tuple[list[int], list[int]]:
    """Bit sets per block: read before being surely written; surely written."""
    bits = registers.of
    used, killed = [], []
    for first, last in pairwise(cfg.block_start.tolist()):
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
    pending = dict.fromkeys(range(count))
    while pending:
        block, _ = pending.popitem()
        if not block & 63:
            check("looking for live registers")
        out = 0
        for successor in cfg.successors[block]:
            out |= start[successor]
        end[block] = out
        live = used[block] | (out & ~killed[block])
        if live != start[block]:
            start[block] = live
            pending.update(dict.fromkeys(cfg.predecessors[block]))
    return start, end
