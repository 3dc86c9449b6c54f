"""Arguments and results of inlined calls: `st.param` and `ld.param` of a call become moves to and from registers.

The ABI of NVIDIA's assembler passes them in registers too, so that no memory traffic is made up and none is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from warpsight.base.errors import UnsupportedError
from warpsight.isa.opcodes import value_type
from warpsight.isa.program import Address, Instruction, Operand, Register, Symbol, Vector
from warpsight.isa.types import type_bits

Refuse = Callable[[Instruction, str], UnsupportedError]


@dataclass
class ArgumentRegisters:
    """One register for every place of an argument that is stored or loaded; a place is (argument, byte offset, bits).

    An argument in `in_memory` has no registers: it is passed to a function that is called, its address is taken, or two accesses to
    it overlap without being the same. Those of the last kind are added here.
    """

    refuse: Refuse
    names: set[str] = field(default_factory=set)
    in_memory: set[str] = field(default_factory=set)
    registers: dict[str, str] = field(default_factory=dict)
    _places: dict[str, dict[int, int]] = field(default_factory=dict)

    def moves(self, instruction: Instruction) -> list[Instruction] | None:
        """What an `ld.param` or `st.param` becomes, or None if it names no argument (one of `names`) or one in memory."""
        if instruction.opcode not in ("ld", "st"):
            return None
        at = instruction.operands[0 if instruction.opcode == "st" else 1]
        if not isinstance(at, Address) or not isinstance(at.base, Symbol):
            return None
        if at.base.name not in self.names or at.base.name in self.in_memory:
            return None
        value = instruction.operands[1 if instruction.opcode == "st" else 0]
        kind, argument, offset = value_type(instruction), at.base.name, at.base.offset + at.offset
        parts = value.elements if isinstance(value, Vector) else (value,)
        moved = []
        for number, part in enumerate(parts):
            if part is None or isinstance(part, Address):
                continue
            place = self.place(instruction, argument, offset + number * (type_bits(kind) // 8), kind)
            moved.append(_move(instruction, part, place, kind))  # type: ignore[arg-type]
        return moved

    def place(self, instruction: Instruction, argument: str, offset: int, kind: str) -> Register:
        """The register for `kind` at a byte offset of an argument. Raises UnsupportedError as `moves` does."""
        bits, known = type_bits(kind), self._places.setdefault(argument, {})
        if bits not in (8, 16, 32, 64):
            raise self.refuse(instruction, f"an argument of type .{kind} is not modelled")
        if any(o < offset + bits // 8 and offset < o + b // 8 and (o, b) != (offset, bits) for o, b in known.items()):
            self.in_memory.add(argument)
        known[offset] = bits
        name = f"{argument}+{offset}"
        self.registers[name] = f"b{max(bits, 16)}"
        return Register(name)


def _move(instruction: Instruction, part: Operand, place: Register, kind: str) -> Instruction:
    """One element. A move cannot widen a byte, so bytes go through `cvt`."""
    opcode = "mov"
    modifiers: tuple[str, ...] = (kind,)
    if type_bits(kind) == 8:
        opcode, modifiers = "cvt", ("s16", "s8") if kind.startswith("s") else ("u16", "u8")
    operands = (place, part) if instruction.opcode == "st" else (part, place)
    return replace(instruction, opcode=opcode, modifiers=modifiers, operands=operands, pair=None)
