"""The kernel's static code reduced to *stops*: the few instructions of each basic block at which the simulation must act.

A stop is a memory access, the first use of a load's result, or a block-wide barrier. What lies between two stops is two numbers:
how many instructions the scheduler issues, and how many cycles the warp alone needs for them (in order, one a cycle, each waiting
for its operands; latencies by op class from the GPU description).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpsight.addressing.coalescing import packed_lines
from warpsight.caches.layout import (
    BARRIER,
    BLOCK_WIDTH,
    CODE_WIDTH,
    IS_ATOMIC,
    IS_LOAD,
    IS_STORE,
    SECTORS,
    SHARED,
    STOP_WIDTH,
    TICKS,
    WAIT,
    Ints,
)
from warpsight.gpu.spec import GpuSpec
from warpsight.trace.schema import ATOMIC, LOAD, STORE, KernelTrace, StaticInstruction

_ACCESS = {LOAD: IS_LOAD, STORE: IS_STORE, ATOMIC: IS_ATOMIC}


class Program(NamedTuple):
    """The tables `BLOCK`, `STOP`, `CODE` and `PATH` of module `layout`, int64, one row an entry, and the number of loads.

    Loads and atomics that write a register are numbered (`LOAD_INDEX`). The item of a WAIT is such a number, of other stops a pc.
    """

    blocks: Ints
    stops: Ints
    code: Ints
    paths: Ints
    loads: int


class _Table:
    """Collects the stops while the blocks are walked."""

    def __init__(self) -> None:
        self.stops: list[tuple[int, int, int, int]] = []
        self.blocks: list[tuple[int, int, int]] = []

    def add(self, kind: int, item: int, gap: int, cycles: int) -> None:
        self.stops.append((kind, item, gap, cycles * TICKS))

    def close(self, first: int, gap: int, cycles: int) -> None:
        self.blocks.append((first, gap, cycles * TICKS))


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
    block: tuple[StaticInstruction, ...], writers: dict[int, list[int]], latencies: dict[str, int], table: _Table, timed: bool
) -> None:
    """Append the stops of one basic block. `writers` maps a register to the load indices that may write it."""
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
    """The load index of each pc (-1: none), the loads that may write each register, and how many loads there are."""
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
    table = _Table()
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
    paths = np.stack([trace.paths.block, trace.paths.lanes, trace.paths.repeat], axis=1).astype(np.int64)
    return Program(
        np.array(table.blocks, np.int64).reshape(-1, BLOCK_WIDTH),
        np.array(table.stops, np.int64).reshape(-1, STOP_WIDTH),
        np.array(rows, np.int64).reshape(-1, CODE_WIDTH),
        paths,
        loads,
    )
