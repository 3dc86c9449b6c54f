"""Register dependences of a kernel's instructions as flat arrays, the forms that the interval algorithm walks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from warpsight.trace.schema import StaticInstruction

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

SOURCES_PER_STEP = 3


@dataclass(frozen=True)
class Dependences:
    """Registers read and written by each pc, all int32.

    Pc p reads `sources[source_offset[p]:source_offset[p + 1]]` and writes the like of `destinations`. There are `registers`.
    """

    source_offset: Ints
    sources: Ints
    destination_offset: Ints
    destinations: Ints
    registers: int


@dataclass(frozen=True)
class Steps:
    """The same with an equal shape for every step, which a processor walks without a loop over registers.

    Basic block b is steps `start[b]` to `start[b + 1]`. A step reads `sources` uint32 [steps, 3] and writes `destination` uint32
    [steps]; register number `registers` stands for no source, `registers + 1` for no destination. Most instructions are one step;
    `ends` is False for all but the last step of one with more registers. `pc` int32 is the instruction of each step.
    """

    start: Longs
    sources: npt.NDArray[np.uint32]
    destination: npt.NDArray[np.uint32]
    ends: npt.NDArray[np.bool_]
    pc: Ints
    registers: int


def dependences(instructions: tuple[StaticInstruction, ...]) -> Dependences:
    """The dependences of `instructions`, guard predicates included. A register that is never written is ready from the start."""
    source_offset, sources = _flat([instruction.sources for instruction in instructions])
    destination_offset, destinations = _flat([instruction.destinations for instruction in instructions])
    most = max((int(part.max()) for part in (sources, destinations) if part.size), default=-1)
    return Dependences(source_offset, sources, destination_offset, destinations, most + 1)


def steps(instructions: tuple[StaticInstruction, ...], block_start: Ints) -> Steps:
    """The steps of every basic block; `block_start` int32 [blocks + 1] as in a trace.

    A source that an earlier instruction of the block has read, and nothing has written since, is left out: a warp issues in
    order, so it was waited for then and cannot stall anybody again.
    """
    registers = dependences(instructions).registers
    rows: list[_Row] = []
    start = [0]
    for begin, end in pairwise(block_start.tolist()):
        waited: set[int] = set()
        for instruction in instructions[begin:end]:
            rows += _steps_of(instruction, waited, registers)
            waited |= set(instruction.sources)
            waited -= set(instruction.destinations)
        start.append(len(rows))
    return Steps(
        np.array(start, dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.uint32).reshape(-1, SOURCES_PER_STEP),
        np.array([row[3] for row in rows], dtype=np.uint32),
        np.array([row[1] for row in rows], dtype=np.bool_),
        np.array([row[0] for row in rows], dtype=np.int32),
        registers,
    )


_Row = tuple[int, bool, list[int], int]


def _steps_of(instruction: StaticInstruction, waited: set[int], registers: int) -> list[_Row]:
    """Pc, whether it is the last, sources and destination of each step. All sources are waited for before any result is written."""
    none, sink = registers, registers + 1
    needed = [source for source in dict.fromkeys(instruction.sources) if source not in waited]
    reads = [needed[k : k + SOURCES_PER_STEP] for k in range(0, len(needed), SOURCES_PER_STEP)] or [[]]
    writes = list(instruction.destinations) or [sink]
    pairs = [*((part, sink) for part in reads[:-1]), (reads[-1], writes[0]), *(([], register) for register in writes[1:])]
    padded = [(part + [none] * (SOURCES_PER_STEP - len(part)), register) for part, register in pairs]
    return [(instruction.pc, number == len(padded) - 1, part, register) for number, (part, register) in enumerate(padded)]


def _flat(lists: list[tuple[int, ...]]) -> tuple[Ints, Ints]:
    offset = np.zeros(len(lists) + 1, dtype=np.int32)
    np.cumsum([len(part) for part in lists], out=offset[1:])
    return offset, np.array([register for part in lists for register in part], dtype=np.int32)
