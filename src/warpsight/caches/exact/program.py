"""The kernel as the cache simulation sees it: basic blocks reduced to *stops*, where a warp needs the simulation to go on.

Between stops a warp issues instructions, in order, each as late as its operands demand; of these only number and time are kept.
Asynchronous copies are loads that only a wait for all of their groups waits for: here one for all but the latest groups is none.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import packed_lines
from warpsight.base.records import dtype_of
from warpsight.base.room import drop_pages, room_for
from warpsight.caches.exact import state
from warpsight.gpu.spec import GpuSpec
from warpsight.traces.path_store import pieces
from warpsight.traces.schema import ATOMIC, LOAD, STORE, KernelTrace, PathTable, StaticInstruction

_ACCESS = {LOAD: state.IS_LOAD, STORE: state.IS_STORE, ATOMIC: state.IS_ATOMIC}

Rows = npt.NDArray[Any]
_Stop = tuple[int, int, int, int]  # a row of `state.Stop`


class Program(NamedTuple):
    """The kernel's tables of `State`, structured arrays, and the number of its loads (and atomics) that a warp can wait for."""

    basic_blocks: Rows
    stops: Rows
    code: Rows
    path: Rows
    loads: int


def _stop_kind(instruction: StaticInstruction) -> int | None:
    if instruction.has_sectors:
        return state.SECTORS
    if instruction.event_bytes:
        return state.SHARED
    return state.BARRIER if instruction.is_block_barrier else None


_MOST_KEPT = 1 << 18  # entries of paths
_COPIES = -1  # stands for a register that asynchronous copies write


def _writes(instruction: StaticInstruction) -> tuple[int, ...]:
    return (*instruction.destinations, _COPIES) if instruction.is_async_copy else instruction.destinations


def _returns_later(instruction: StaticInstruction) -> bool:
    return instruction.has_sectors and instruction.access != STORE and bool(_writes(instruction))


def _latency(instruction: StaticInstruction, latencies: dict[str, int]) -> int:
    if instruction.space == "shared" and instruction.access:
        return latencies.get("shared", 1)
    return latencies.get(instruction.op_class, 1)


def _waits(loads: set[int]) -> list[tuple[int, int]]:
    """Kind and item of the stops at which a warp waits for `loads`, in the order of their numbers."""
    few = sum(1 << load for load in loads if load < state.FEW_LOADS)
    return [(state.WAIT, few)] * (few != 0) + [(state.WAIT_ONE, load) for load in sorted(loads) if load >= state.FEW_LOADS]


def _walk(
    block: tuple[StaticInstruction, ...], writers: dict[int, list[int]], latencies: dict[str, int], stops: list[_Stop], timed: bool
) -> tuple[int, int, int]:
    """Append the stops of one basic block to `stops`; returns the block's row of `state.BasicBlock`.

    `writers` maps a register to the numbers of the loads that may write it.
    """
    first = len(stops)
    ready: dict[int, int] = {}
    waited: set[int] = set()
    cycle, last_cycle, gap = -1, 0, 0
    for instruction in block:
        # In order, a register is neither read nor written again before the load that writes it is back.
        touched = instruction.sources + instruction.destinations + ((_COPIES,) if instruction.wait_groups == 0 else ())
        cycle = max([cycle + 1, *(ready.get(r, 0) for r in instruction.sources)])
        needed = {w for r in touched for w in writers.get(r, ())} - waited if timed else set()
        waited |= needed
        for wait in _waits(needed):
            stops.append((*wait, gap, (cycle - last_cycle) * state.TICKS))
            last_cycle, gap = cycle, 0
        kind = _stop_kind(instruction)
        if kind is not None and (timed or kind != state.BARRIER):
            stops.append((kind, instruction.pc, gap if timed else 0, (cycle - last_cycle) * state.TICKS if timed else 0))
            last_cycle, gap = cycle, 0
        else:
            gap += 1
        if _returns_later(instruction):
            waited -= {w for r in _writes(instruction) for w in writers[r]}
        else:
            ready.update(dict.fromkeys(instruction.destinations, cycle + _latency(instruction, latencies)))
    return (first, gap, (cycle + 1 - last_cycle) * state.TICKS) if timed else (first, 0, 0)


def program_of(trace: KernelTrace, gpu: GpuSpec, timed: bool) -> Program:
    """The stops of all blocks. Without `timed` only memory accesses are stops and nothing costs time. The last one is kept with the
    trace, unless its paths are long.
    """
    latencies = [gpu.latency_cycles.get(each) for each in sorted(latencies_read(trace))]
    kept: tuple[list[int | None], Program] | None = trace.kept.get(("program", timed))
    if kept is None or kept[0] != latencies:
        kept = latencies, _program(trace, gpu, timed)
        if len(kept[1].path) <= _MOST_KEPT:
            trace.kept["program", timed] = kept
    return kept[1]


def latencies_read(trace: KernelTrace) -> set[str]:
    """The op classes whose latencies the simulation reads."""
    return {i.op_class for i in trace.instructions} | {"shared" for i in trace.instructions if i.space == "shared" and i.access}


def _program(trace: KernelTrace, gpu: GpuSpec, timed: bool) -> Program:
    code = trace.instructions
    loads = [instruction for instruction in code if _returns_later(instruction)]
    load_number = {instruction.pc: number for number, instruction in enumerate(loads)}
    writers: dict[int, list[int]] = {}
    for number, instruction in enumerate(loads):
        for register in _writes(instruction):
            writers.setdefault(register, []).append(number)
    stops: list[_Stop] = []
    bounds = pairwise(trace.block_start.tolist())
    blocks = [_walk(code[first:end], writers, gpu.latency_cycles, stops, timed) for first, end in bounds]
    rows = [
        (
            _ACCESS.get(i.access, -1), i.access_bytes, packed_lines(i.access_bytes), i.event_bytes, i.sector_bytes, i.has_degree,
            i.adds_lanes_up, i.bypasses_l1, timed, load_number.get(i.pc, -1),
        )
        for i in code
    ]
    return Program(
        np.array([*blocks, (len(stops), 0, 0)], dtype_of(state.BasicBlock)), np.array(stops, dtype_of(state.Stop)),
        np.array(rows, dtype_of(state.Instruction)), path_entries(trace.paths), len(loads),
    )


def path_entries(paths: PathTable) -> Rows:
    """The runs of all paths as records that compiled code walks, in a file where they are many."""
    entries = room_for(len(paths.block), dtype_of(state.PathEntry))
    for part, piece in pieces(paths):
        into = entries[paths.offset[part.start] : paths.offset[part.stop]]
        into["block"], into["lanes"], into["repeat"] = piece.block, piece.lanes, piece.repeat
        drop_pages(entries)
    return entries
