"""The kernel as the cache simulation sees it: basic blocks reduced to *stops*, where a warp needs the simulation to go on.

Between stops a warp issues instructions, in order, each as late as its operands demand; of these only number and time are kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import packed_lines
from warpsight.base.records import dtype_of
from warpsight.caches.exact.state import (
    BARRIER,
    IS_ATOMIC,
    IS_LOAD,
    IS_STORE,
    SECTORS,
    SHARED,
    TICKS,
    WAIT,
    BasicBlock,
    Instruction,
    PathEntry,
    Stop,
)
from warpsight.gpu.spec import GpuSpec
from warpsight.traces.schema import ATOMIC, LOAD, STORE, KernelTrace, StaticInstruction

_ACCESS = {LOAD: IS_LOAD, STORE: IS_STORE, ATOMIC: IS_ATOMIC}

Rows = npt.NDArray[Any]


class Program(NamedTuple):
    """The kernel's tables of `State`, structured arrays, and the number of its loads (and atomics) that write a register."""

    basic_blocks: Rows
    stops: Rows
    code: Rows
    path: Rows
    loads: int


class _Stops:
    """Collects the stops while the blocks are walked."""

    def __init__(self) -> None:
        self.stops: list[tuple[int, int, int, int]] = []
        self.blocks: list[tuple[int, int, int]] = []

    def add(self, kind: int, item: int, instructions: int, cycles: int) -> None:
        self.stops.append((kind, item, instructions, cycles * TICKS))

    def close(self, first: int, instructions: int, cycles: int) -> None:
        self.blocks.append((first, instructions, cycles * TICKS))


def _stop_kind(instruction: StaticInstruction) -> int | None:
    if instruction.has_sectors:
        return SECTORS
    if instruction.event_bytes:
        return SHARED
    return BARRIER if instruction.is_block_barrier else None


def _returns_later(instruction: StaticInstruction) -> bool:
    return instruction.has_sectors and instruction.access != STORE and bool(instruction.destinations)


def _latency(instruction: StaticInstruction, latencies: dict[str, int]) -> int:
    if instruction.space == "shared" and instruction.access:
        return latencies.get("shared", 1)
    return latencies.get(instruction.op_class, 1)


def _walk(
    block: tuple[StaticInstruction, ...], writers: dict[int, list[int]], latencies: dict[str, int], table: _Stops, timed: bool
) -> None:
    """Append the stops of one basic block. `writers` maps a register to the numbers of the loads that may write it."""
    first = len(table.stops)
    ready: dict[int, int] = {}
    waited: set[int] = set()
    cycle, last_cycle, gap = -1, 0, 0
    for instruction in block:
        # In order, a register is neither read nor written again before the load that writes it is back.
        touched = instruction.sources + instruction.destinations
        cycle = max([cycle + 1, *(ready.get(r, 0) for r in instruction.sources)])
        for load in sorted({w for r in touched for w in writers.get(r, ())} - waited) if timed else ():
            waited.add(load)
            table.add(WAIT, load, gap, cycle - last_cycle)
            last_cycle, gap = cycle, 0
        kind = _stop_kind(instruction)
        if kind is not None and (timed or kind != BARRIER):
            table.add(kind, instruction.pc, gap if timed else 0, cycle - last_cycle if timed else 0)
            last_cycle, gap = cycle, 0
        else:
            gap += 1
        if _returns_later(instruction):
            waited -= {w for r in instruction.destinations for w in writers[r]}
        else:
            ready.update(dict.fromkeys(instruction.destinations, cycle + _latency(instruction, latencies)))
    table.close(first, gap if timed else 0, cycle + 1 - last_cycle if timed else 0)


def _number_loads(code: tuple[StaticInstruction, ...]) -> tuple[list[int], dict[int, list[int]], int]:
    """The number of the load at each pc (-1: none), the loads that may write each register, and how many loads there are."""
    index: list[int] = []
    writers: dict[int, list[int]] = {}
    loads = 0
    for instruction in code:
        if not _returns_later(instruction):
            index.append(-1)
            continue
        for register in instruction.destinations:
            writers.setdefault(register, []).append(loads)
        index.append(loads)
        loads += 1
    return index, writers, loads


def program_of(trace: KernelTrace, gpu: GpuSpec, timed: bool) -> Program:
    """The stops of all blocks. Without `timed` only memory accesses are stops and nothing costs time."""
    code = trace.instructions
    index, writers, loads = _number_loads(code)
    table = _Stops()
    for first, end in zip(trace.block_start[:-1].tolist(), trace.block_start[1:].tolist(), strict=True):
        _walk(code[first:end], writers, gpu.latency_cycles, table, timed)
    table.close(len(table.stops), 0, 0)
    rows = [
        (
            _ACCESS.get(i.access, -1),
            i.access_bytes,
            packed_lines(i.access_bytes),
            i.event_bytes,
            i.has_sectors,
            i.has_degree,
            timed,
            index[i.pc],
        )
        for i in code
    ]
    path = np.zeros(len(trace.paths.block), dtype_of(PathEntry))
    path["block"], path["lanes"], path["repeat"] = trace.paths.block, trace.paths.lanes, trace.paths.repeat
    return Program(
        np.array(table.blocks, dtype_of(BasicBlock)),
        np.array(table.stops, dtype_of(Stop)),
        np.array(rows, dtype_of(Instruction)),
        path,
        loads,
    )
