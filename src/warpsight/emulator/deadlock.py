"""Which lanes of a block wait where, when none can go on, as an error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LaunchFault
from warpsight.emulator import layout
from warpsight.emulator.faults import coordinates, place_of
from warpsight.isa.cfg import ControlFlowGraph
from warpsight.isa.program import Function
from warpsight.workload.launch import Launch

_SHOWN = 8
_NUMBER = layout.GRANTED - 1


@dataclass(frozen=True)
class Waiting:
    """Lanes (a mask) of a warp that wait at instruction `pc`: at a barrier of the block, or (None) for lanes of their warp."""

    warp: int
    lanes: int
    pc: int
    barrier: int | None


def find_waiting(states: npt.NDArray[np.int32], graph: ControlFlowGraph) -> list[Waiting]:
    """All that wait in a block, from its warps' states (int32 [warps, words]), in the order of the warps."""
    found = []
    for warp, state in enumerate(states.tolist()):
        if state[layout.RESUME] == layout.DONE_RESUME:
            continue
        present = state[layout.START] & ~state[layout.GONE]
        for entry in range(state[layout.DEPTH]):
            first = layout.STATE_HEADER_BYTES // 4 + layout.STACK_ENTRY_WORDS * entry
            block, mask, _, use = state[first : first + layout.STACK_ENTRY_WORDS]
            number = block & _NUMBER
            if block & layout.PARKED:  # continues behind the barrier, which ends its block
                found.append(Waiting(warp, mask & present & 0xFFFFFFFF, int(graph.block_start[number]) - 1, use & 31))
            elif block & layout.MEETING:
                found.append(Waiting(warp, mask & present & 0xFFFFFFFF, int(graph.block_start[number]), None))
    return found


def describe_deadlock(waiting: list[Waiting], block: int, function: Function, name: str, path: str, launch: Launch) -> LaunchFault:
    """The error for block number `block`, in which nothing can go on: where the first eight groups of lanes wait."""
    x, y, z = coordinates(block, launch.grid)
    lines = []
    for wait in waiting[:_SHOWN]:
        instruction = function.instructions[wait.pc]
        at = f"{place_of(path, instruction)}, PTX line {instruction.ptx_line}"
        if wait.barrier is None:
            what = f'for lanes of its warp at "{instruction.text}"'
        else:
            what = "at the cluster's barrier" if wait.barrier == layout.CLUSTER_ROW else f"at barrier {wait.barrier}"
        lines.append(f"warp {wait.warp} {lanes_text(wait.lanes)} {what} ({at})")
    if len(waiting) > _SHOWN:
        lines.append(f"and {len(waiting) - _SHOWN} more")
    return LaunchFault(
        f"kernel {name}: no thread of block ({x},{y},{z}) can go on; waiting are {'; '.join(lines)}",
        place=place_of(path, function.instructions[waiting[0].pc]) if waiting else path,
        remedy="let all threads that a barrier counts reach it; threads that have ended are not waited for",
    )


def lanes_text(mask: int) -> str:
    """The lanes of a mask as ranges: `lanes 0-3,7`."""
    ranges: list[list[int]] = []
    for lane in range(layout.WARP):
        if mask >> lane & 1:
            if ranges and ranges[-1][1] == lane - 1:
                ranges[-1][1] = lane
            else:
                ranges.append([lane, lane])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
    return f"{'lane' if mask.bit_count() == 1 else 'lanes'} {text}"
