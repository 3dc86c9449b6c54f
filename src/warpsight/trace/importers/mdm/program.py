"""The instructions of a kernel from `instruction_trace_<k>.txt`: ``warp,pc,opcode,dst,src1,src2,src3``, opcodes as numbers.

The tool writes the first number of each operand, whatever kind of operand it is; 10000 is none, and sources from 1000 on are not
written: what stands in their place is whatever was in memory there. So a field that is not the same each time is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpsight.base.errors import FormatError
from warpsight.isa.sass.isa_file import unnamed
from warpsight.isa.sass.semantics import SassTable
from warpsight.isa.sass.table import GLOBAL, LOAD, STORE, SassOpcode
from warpsight.trace.importers.launch import REMEDY
from warpsight.trace.importers.lines import Ints, Lines
from warpsight.trace.importers.mdm.memory import Accesses

_TEXT = re.compile(rb"\d{1,10},\d{1,9}(,-?\d{1,11}){3,4}\s*")
_REGISTERS, _PREDICATES = 256, 8
_SHOWN = 12


@dataclass(frozen=True)
class Instruction:
    """One instruction: `names` its operands; `addressed` if its accesses are in the memory trace."""

    pc: int
    opcode: str
    names: tuple[str, ...]
    addressed: bool


@dataclass(frozen=True)
class Program:
    """Instructions in order of pc; `of_text` int32 [texts]: the instruction of each text; `isa` with rows for accesses whose
    opcode is not known. `varying` operand fields were not the same each time and are left out.
    """

    instructions: list[Instruction]
    of_text: Ints
    isa: SassTable
    varying: int


def clean(text: bytes) -> str:
    """What stands behind the warp in a line. Raises ValueError for what is none."""
    if not _TEXT.fullmatch(text):
        raise ValueError("pc, opcode, destination and two or three sources are expected")
    return text.decode("ascii").strip()


def program_of(path: Path, lines: Lines, accesses: Accesses | None, opcodes: Mapping[int, str], isa: SassTable) -> Program:
    """The program. Raises FormatError where a pc has two opcodes, and where the opcode of a number is not known."""
    fields: dict[int, list[list[int]]] = {}
    texts = [[int(field) for field in text.split(",")] for text in lines.texts]
    for number, text in enumerate(texts):
        known = fields.setdefault(text[0], [])
        if known and known[0][1] != text[1]:
            what = f"pc {text[0]:#x} has opcode {text[1]} here and {known[0][1]} above"
            line = int(lines.line[int(np.argmax(lines.text == number))])
            raise FormatError(what, place=f"{path}:{line}", remedy=f"the trace is damaged: {REMEDY}")
        known.append(text)
    recorded = _recorded(accesses)
    names = dict(opcodes)
    rows = dict(isa.own)
    missing = set()
    for pc, found in fields.items():
        number = found[0][1]
        if number in names:
            continue
        if pc in recorded:
            names[number] = unnamed(number)
            what = "an access that the memory trace has"
            rows[unnamed(number)] = SassOpcode(unnamed(number), "memory", GLOBAL, LOAD if recorded[pc] else STORE, what)
        else:
            missing.add(number)
    missing -= set(names)
    if missing:
        shown = ", ".join(map(str, sorted(missing)[:_SHOWN])) + (" ..." if len(missing) > _SHOWN else "")
        raise FormatError(
            f"the opcodes of the numbers {shown} are not known: the tool numbers them anew in each run, and prints them",
            place=str(path),
            remedy="put what it printed (OPCODE LDG.E MAPS TO ID 3 ...) beside it as a .log file, or give --isa-file with "
            "`3: LDG.E`",
        )
    instructions, varying = [], 0
    place = {pc: k for k, pc in enumerate(sorted(fields))}
    for pc in place:
        opcode = names[fields[pc][0][1]]
        operands, odd = _operands(opcode, fields[pc])
        varying += odd
        instructions.append(Instruction(pc, opcode, operands, pc in recorded))
    of_text = np.array([place[text[0]] for text in texts], np.int32)
    return Program(instructions, of_text, SassTable(rows, isa.numbers), varying)


def _recorded(accesses: Accesses | None) -> dict[int, bool]:
    """The pcs that have accesses, and whether those are loads."""
    if accesses is None or not len(accesses.pc):
        return {}
    pcs, first = np.unique(accesses.pc, return_index=True)
    return {pc: bool(load) for pc, load in zip(pcs.tolist(), accesses.load[first].tolist(), strict=True)}


def _operands(opcode: str, texts: list[list[int]]) -> tuple[tuple[str, ...], int]:
    """The registers of an instruction that its texts agree on, and how many fields they do not agree on."""
    base = opcode.split(".", maxsplit=1)[0]
    predicates = 2 if base.endswith("SETP") else 0
    names, varying = [], 0
    for k in range(2, len(texts[0])):
        values = {text[k] for text in texts if len(text) > k}
        if len(values) > 1:
            varying += 1
            continue
        value = values.pop()
        if k - 2 < predicates and 0 <= value < _PREDICATES:
            names.append(f"P{value}")
        elif 0 <= value < _REGISTERS:
            names.append(f"R{value}")
    return tuple(names), varying
