"""What a trace holds, put back into warps' streams: for comparisons with what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.traces.schema import KernelTrace

LOCAL = 1 << 31


@dataclass(frozen=True)
class Read:
    """One execution as a trace has it: number and pc of the instruction, lanes of its basic block, its event."""

    instruction: int
    pc: int
    lanes: int
    sectors: tuple[int, ...]
    passes: int
    sharing: int


def streams(trace: KernelTrace) -> list[list[Read]]:
    """The executions of every warp, in order; sectors of device memory as true addresses // 32."""
    pcs = trace.extra["accelsim"]["pcs"]
    found: list[list[Read]] = []
    for chunk in trace.chunks:
        for warp, path in enumerate(chunk.path.tolist()):
            events = chunk.events[chunk.event_offset[warp] : chunk.event_offset[warp + 1]].tolist()
            sectors = chunk.sectors[chunk.sector_offset[warp] : chunk.sector_offset[warp + 1]].tolist()
            found.append(_stream(trace, path, events, sectors, pcs))
    return found


def _stream(trace: KernelTrace, path: int, events: list[int], sectors: list[int], pcs: list[int]) -> list[Read]:
    table, out = trace.paths, []
    for run in range(int(table.offset[path]), int(table.offset[path + 1])):
        block = int(table.block[run])
        for _ in range(int(table.repeat[run])):
            for k in range(int(trace.block_start[block]), int(trace.block_start[block + 1])):
                instruction = trace.instructions[k]
                count = passes = sharing = 0
                if instruction.has_sectors:
                    count = events.pop(0)
                if instruction.has_degree:
                    passes = events.pop(0)
                if instruction.has_sharing:
                    sharing = events.pop(0)
                mine = tuple(true_sector(trace, sectors.pop(0)) for _ in range(count))
                out.append(Read(k, pcs[k], int(table.lanes[run]), mine, passes, sharing))
    assert not events
    assert not sectors
    return out


def true_sector(trace: KernelTrace, sector: int) -> int:
    """The address // 32 that a sector number stands for; of local memory -1 - its place there."""
    if sector >= LOCAL:
        return LOCAL - sector - 1
    return trace.extra["accelsim"]["regions"][(sector >> 23) - 1] << 23 | (sector & ((1 << 23) - 1))


def same(one: KernelTrace, other: KernelTrace) -> list[str]:
    """What differs between two traces, apart from where and when they were read."""
    bad = [name for name in ("instructions",) if getattr(one, name) != getattr(other, name)]
    fields = (
        "kernel",
        "mangled",
        "grid",
        "block",
        "static_shared_bytes",
        "registers_per_thread",
        "target",
        "kernel_hash",
        "input_hash",
        "warp_instructions",
        "thread_instructions",
        "sampled_blocks",
        "sampled_instructions",
    )
    bad += [name for name in fields if getattr(one.header, name) != getattr(other.header, name)]
    bad += [
        name
        for name in ("offset", "block", "lanes", "repeat")
        if not np.array_equal(getattr(one.paths, name), getattr(other.paths, name))
    ]
    bad += [name for name in ("path", "events", "sectors") if not np.array_equal(joined(one, name), joined(other, name))]
    return bad


def joined(trace: KernelTrace, name: str) -> Any:
    """A column of all chunks."""
    return np.concatenate([getattr(chunk, name) for chunk in trace.chunks])
