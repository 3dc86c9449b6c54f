"""Where the address of an access can come from, by the PTX: the parameters and variables that each register has its value from."""

from __future__ import annotations

from collections.abc import Iterable

from warpsight.isa.ptx.program import Address, Function, Immediate, Instruction, Symbol, Vector
from warpsight.isa.ptx.rules import memory_access, reads, register_names, writes

ANYTHING = "?"
"""Stands for a pointer that was read from memory: it may be one to anything."""
_LOADED = "loaded"  # stands for up to 32 bits that were read from memory: two of them may make a pointer


class PointerSources:
    """The parameters and variables that each register of a kernel in PTX can have its value from. Order of execution is left out.

    What loads of 64 bits and more bring may be a pointer to anything, and so may 64 bits that are put together from narrower loads.
    """

    def __init__(self, function: Function) -> None:
        self._of: dict[str, frozenset[str]] = {}
        self._by_line: dict[int, list[Instruction]] = {}
        for instruction in function.instructions:
            self._by_line.setdefault(instruction.ptx_line, []).append(instruction)
        changed = True
        while changed:
            changed = False
            for instruction in function.instructions:
                found = self._value(instruction)
                for name in writes(instruction) if found else ():
                    known = self._of.get(name, frozenset())
                    if not found <= known:
                        self._of[name], changed = known | found, True

    def _value(self, instruction: Instruction) -> frozenset[str]:
        if instruction.opcode in ("ld", "ldu", "atom") and "param" not in instruction.modifiers:
            wide = {"u64", "s64", "b64", "f64", "b128"} & set(instruction.modifiers)
            return frozenset({ANYTHING if wide else _LOADED})
        names = self._names(instruction.operands, reads(instruction))
        return names | {ANYTHING} if _LOADED in names and _puts_together(instruction) else names

    def _names(self, operands: Iterable[object], registers: Iterable[str]) -> frozenset[str]:
        symbols = [o.base if isinstance(o, Address) else o for o in operands]
        named = {o.name for o in symbols if isinstance(o, Symbol)}
        return frozenset(named).union(*(self._of.get(name, frozenset()) for name in registers))

    def of_accesses(self, line: int, kinds: tuple[str, ...]) -> frozenset[str]:
        """What the addresses of the accesses of these `kinds` in a line of the PTX can come from; nothing where there are none."""
        found: frozenset[str] = frozenset()
        for instruction in self._by_line.get(line, ()):
            access = memory_access(instruction)
            if access is not None and access.access in kinds:
                addresses = [o for o in instruction.operands if isinstance(o, Address)]
                found |= self._names(addresses, register_names(addresses))
        return found - {_LOADED}


def _puts_together(instruction: Instruction) -> bool:
    """Whether it may make 64 bits of two narrower parts: `mov.b64` of a vector, `bfi.b64`, or a shift to the upper half."""
    sources = instruction.operands[1:]
    if instruction.opcode == "shl":
        return any(isinstance(o, Immediate) and o.value >= 32 for o in sources)
    if instruction.opcode == "bfi":
        return "b64" in instruction.modifiers
    return instruction.opcode == "mov" and any(isinstance(o, Vector) for o in sources)
