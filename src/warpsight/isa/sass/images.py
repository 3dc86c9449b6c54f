"""Operands of texture and surface instructions: where results, coordinates, and the object's handle lie.

`TEX {results 2 and 3}, {results 0 and 1}, first arguments, second arguments, handle, dimension, mask`. Arguments are the
coordinates, the layer before them; the handle where it is in a register (`.B`); and the level. With `.SCR` half of them, rounded
up, are the first, else the coordinates are. All of this was read off code that NVIDIA's assembler makes of known PTX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.isa.sass.native import NativeAddress, NativeImmediate, NativeOperand, NativeRegister, NativeWord

# Coordinates of each dimension. A surface has the layer behind the others, and writes the dimension as a modifier (`2D_ARRAY`).
DIMENSIONS = {"1D": 1, "2D": 2, "3D": 3, "ARRAY_1D": 2, "ARRAY_2D": 3, "CUBE": 3, "ARRAY_CUBE": 4}
SURFACE_DIMENSIONS = {"1D": 1, "2D": 2, "3D": 3, "1D_ARRAY": 2, "2D_ARRAY": 3}
FETCHES = ("TEX", "TLD", "TLD4", "TXD")
QUERIES = ("TXQ",)
SURFACES = ("SULD", "SUST", "SURED", "SUATOM")
_GRADIENTS = 2  # for each coordinate; they are in the second arguments


@dataclass(frozen=True, slots=True)
class FetchOperands:
    """`results` are the components that are written, in order; `registers` how many each of `arguments` takes."""

    dimension: str
    results: tuple[int, ...]
    arguments: tuple[NativeRegister, ...]
    registers: tuple[int, ...]
    handle: tuple[NativeOperand, ...]


def _masked(operands: Sequence[NativeOperand]) -> tuple[int, ...]:
    """The components that a mask names, which is the only operand; all four without one."""
    if len(operands) > 1 or not all(isinstance(operand, NativeImmediate) for operand in operands):
        raise ValueError(operands)
    mask = next((operand.value for operand in operands if isinstance(operand, NativeImmediate)), 15)
    return tuple(k for k in range(4) if mask >> k & 1)


def query_operands(mnemonic: str, operands: Sequence[NativeOperand]) -> tuple[tuple[int, ...], tuple[NativeOperand, ...]]:
    """The components that a `TXQ` asks for, and where the handle is: the source register with `.B`."""
    bound = "B" in mnemonic.split(".")
    first = 4 if bound else 6
    return _masked(operands[first:]), tuple(operands[2:3] if bound else operands[4:first])


def fetch_operands(mnemonic: str, operands: Sequence[NativeOperand]) -> FetchOperands:
    """The operands of a `TEX`, `TLD`, `TLD4` or `TXD`. Raises ValueError for a form that is not known."""
    base, *modifiers = mnemonic.split(".")
    place = next((k for k, o in enumerate(operands) if isinstance(o, NativeWord) and o.text in DIMENSIONS), -1)
    if place < 0:
        raise ValueError(mnemonic)
    dimension, bound = operands[place], not isinstance(operands[place - 1], NativeImmediate)  # `.B` is also a channel
    assert isinstance(dimension, NativeWord)
    handle_at = place if bound else place - 2
    arguments = tuple(o for o in operands[2:handle_at] if isinstance(o, NativeRegister))
    coordinates = DIMENSIONS[dimension.text]
    others = _GRADIENTS * coordinates if base == "TXD" else bound + ("LL" in modifiers)
    first = -(-(coordinates + others) // 2) if "SCR" in modifiers else coordinates
    registers = tuple(n for n in (first, coordinates + others - first) if n)
    if len(arguments) != len(registers) or len(arguments) != handle_at - 2 or (base == "TXD" and bound):
        raise ValueError(mnemonic)
    return FetchOperands(dimension.text, _masked(operands[place + 1 :]), arguments, registers, tuple(operands[handle_at:place]))


def image_widths(mnemonic: str, operands: Sequence[NativeOperand], data: int) -> list[int] | None:
    """Registers of each operand of a texture instruction, or of a surface one that moves `data`; None for any other opcode."""
    base, *modifiers = mnemonic.split(".")
    widths = [1] * len(operands)
    if base in SURFACES:
        moved = {"R": 1, "RG": 2}.get(next((m for m in modifiers if m in ("R", "RG")), ""), 4) if "P" in modifiers else data
        address = next(k for k, operand in enumerate(operands) if isinstance(operand, NativeAddress))
        widths[0 if address else 1] = moved
        return widths
    if base not in (*FETCHES, *QUERIES):
        return None
    try:
        if base in FETCHES:
            found = fetch_operands(mnemonic, operands)
            widths[2 : 2 + len(found.registers)] = found.registers
            count = len(found.results)
        else:
            count = len(query_operands(mnemonic, operands)[0])
            widths[2] = 1 + ("B" in modifiers)  # also the level
    except ValueError:  # which is refused when it is executed
        return widths
    widths[0], widths[1] = max(0, count - 2), min(2, count)
    return widths


def surface_registers(mnemonic: str, operands: Sequence[NativeOperand]) -> list[str]:
    """The registers behind the first that hold coordinates of a surface instruction."""
    base, *modifiers = mnemonic.split(".")
    if base not in SURFACES:
        return []
    count = next((SURFACE_DIMENSIONS[m] for m in modifiers if m in SURFACE_DIMENSIONS), 1)
    place = next((o.base for o in operands if isinstance(o, NativeAddress)), None)
    if place is None or not place.name[1:].isdecimal():
        return []
    return [f"R{int(place.name[1:]) + k}" for k in range(1, count)]
