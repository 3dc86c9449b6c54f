"""Reads a trace by its documented layout: what each warp did, instruction by instruction. Independent of the code that made it."""

from __future__ import annotations

from dataclasses import dataclass

from emulator_launch import whole

from warpsight.traces.schema import KernelTrace


@dataclass(frozen=True)
class Access:
    """One executed memory instruction: sectors in order, conflict degree and sharing where its event has them, else None."""

    opcode: str
    pc: int
    sectors: tuple[int, ...] | None
    degree: int | None
    sharing: int | None


def path_of(trace: KernelTrace, warp: int) -> list[tuple[int, int, int]]:
    """(basic block, lanes, repeat) runs of a warp."""
    number, paths = int(whole(trace).path[warp]), trace.paths
    part = slice(int(paths.offset[number]), int(paths.offset[number + 1]))
    return list(zip(paths.block[part].tolist(), paths.lanes[part].tolist(), paths.repeat[part].tolist(), strict=True))


def accesses(trace: KernelTrace, warp: int = 0) -> list[Access]:
    """The memory instructions of a warp that have events, in order."""
    chunk = whole(trace)
    event, sector = int(chunk.event_offset[warp]), int(chunk.sector_offset[warp])
    found = []
    for block, _, repeat in path_of(trace, warp):
        for _ in range(repeat):
            for instruction in trace.instructions[trace.block_start[block] : trace.block_start[block + 1]]:
                sectors = degree = sharing = None
                if instruction.access and instruction.space in ("global", "local", "generic"):
                    count = int.from_bytes(chunk.events[event : event + instruction.count_bytes].tobytes(), "little")
                    sectors, sector = tuple(chunk.sectors[sector : sector + count].tolist()), sector + count
                    event += instruction.count_bytes
                if instruction.access and instruction.space in ("shared", "generic"):
                    degree, event = int(chunk.events[event]), event + 1
                if instruction.access == "atomic" and (sectors is not None or degree is not None):
                    sharing, event = int(chunk.events[event]), event + 1
                event += 12 if instruction.at_barrier else 0  # object, amount, bytes, expected, blocks: 2, 2, 4, 2 and 2 bytes
                if sectors is not None or degree is not None:
                    found.append(Access(instruction.opcode, instruction.pc, sectors, degree, sharing))
    assert (event, sector) == (int(chunk.event_offset[warp + 1]), int(chunk.sector_offset[warp + 1]))
    return found
