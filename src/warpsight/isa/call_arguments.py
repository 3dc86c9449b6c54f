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
    """One register for every place of an argument that is stored or loaded; a place is (argument, byte offset, bits)."""

    refuse: Refuse
    names: set[str] = field(default_factory=set)
    registers: dict[str, str] = field(default_factory=dict)
    _places: dict[str, dict[int, int]] = field(default_factory=dict)

    def moves(self, instruction: Instruction) -> list[Instruction] | None:
        """What an `ld.param` or `st.param` becomes, or None if it names no argument (one of `names`).

        Raises UnsupportedError where two accesses to an argument overlap without being the same, so that no register holds it.
        """
        if instruction.opcode not in ("ld", "st"):
            return None
        at = instruction.operands[0 if instruction.opcode == "st" else 1]
        if not isinstance(at, Address) or not isinstance(at.base, Symbol) or at.base.name not in self.names:
            return None
        value = instruction.operands[1 if instruction.opcode == "st" else 0]
        kind, argument, offset = value_type(instruction), at.base.name, at.base.offset + at.offset
        parts = value.elements if isinstance(value, Vector) else (value,)
        moved = []
        for number, part in enumerate(parts):
            if part is None or isinstance(part, Address):
                continue
            place = self._register(instruction, argument, offset + number * (type_bits(kind) // 8), kind)
            moved.append(_move(instruction, part, place, kind))  # type: ignore[arg-type]
        return moved

    def _register(self, instruction: Instruction, argument: str, offset: int, kind: str) -> Register:
        bits, known = type_bits(kind), self._places.setdefault(argument, {})
        if bits not in (8, 16, 32, 64):
            raise self.refuse(instruction, f"an argument of type .{kind} is not modelled")
        overlaps = any(o < offset + bits // 8 and offset < o + b // 8 and (o, b) != (offset, bits) for o, b in known.items())
        if overlaps:
            raise self.refuse(instruction, "an argument is written and read in pieces of different sizes, which is not modelled")
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
