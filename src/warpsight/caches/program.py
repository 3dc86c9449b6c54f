"""The kernel's static code reduced to *stops*: the few instructions of each basic block at which the cache simulation must act.

A stop is a memory access, the first use of a load's result, or a block-wide barrier. What lies between two stops is two numbers: how many
instructions the scheduler issues, and how many cycles the warp alone needs for them (in order, one a cycle, each waiting for its
operands; latencies by op class from the GPU description).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import packed_lines
from warpsight.gpu.spec import GpuSpec
from warpsight.trace.schema import ATOMIC, LOAD, STORE, KernelTrace, StaticInstruction

Ints = npt.NDArray[np.int64]

WAIT, SECTORS, SHARED, BARRIER = 0, 1, 2, 3
IS_LOAD, IS_STORE, IS_ATOMIC = 0, 1, 2
_ACCESS = {LOAD: IS_LOAD, STORE: IS_STORE, ATOMIC: IS_ATOMIC}


class Program(NamedTuple):
    """Stops of basic block b: `begin[b]` .. `begin[b + 1]`; `tail_*` is what follows its last stop. Other arrays are by pc.

    `kind`, `item` (a pc, or for WAIT a load index), `gap` (instructions since the last stop) and `lag` (cycles) are by stop.
    `load_index` numbers the loads and atomics that write a register (-1: none); `packed` is the 128 B lines of 32 packed lanes;
    `cost` the issue slots of an access that makes no request.
    """

    begin: Ints
    tail_gap: Ints
    tail_lag: Ints
    kind: Ints
    item: Ints
    gap: Ints
    lag: Ints
    access: Ints
    access_bytes: Ints
    packed: Ints
    event_bytes: Ints
    has_sectors: npt.NDArray[np.bool_]
    has_degree: npt.NDArray[np.bool_]
    cost: Ints
    load_index: Ints
    path_block: npt.NDArray[np.int32]
    path_lanes: npt.NDArray[np.uint8]
    path_repeat: npt.NDArray[np.int32]


class _Table:
    """Collects the stops while the blocks are walked."""

    def __init__(self) -> None:
        self.begin, self.tail_gap, self.tail_lag = [0], list[int](), list[int]()
        self.kind, self.item, self.gap, self.lag = list[int](), list[int](), list[int](), list[int]()

    def add(self, kind: int, item: int, gap: int, lag: int) -> None:
        self.kind.append(kind)
        self.item.append(item)
        self.gap.append(gap)
        self.lag.append(lag)

    def close(self, gap: int, lag: int) -> None:
        self.tail_gap.append(gap)
        self.tail_lag.append(lag)
        self.begin.append(len(self.kind))


def is_block_barrier(instruction: StaticInstruction) -> bool:
    """Whether the whole block waits here. Warp-wide and arrive-only barriers hold nobody up."""
    words = instruction.opcode.lower().split(".")
    return words[0] in ("bar", "barrier") and "warp" not in words and "arrive" not in words


def _stop_kind(instruction: StaticInstruction) -> int | None:
    if instruction.has_sectors:
        return SECTORS
    if instruction.event_bytes:
        return SHARED
    return BARRIER if is_block_barrier(instruction) else None


def _returns_later(instruction: StaticInstruction) -> bool:
    return instruction.has_sectors and instruction.access != STORE and bool(instruction.destinations)


def _latency(instruction: StaticInstruction, latencies: dict[str, int]) -> int:
    if instruction.space == "shared" and instruction.access:
        return latencies.get("shared", 1)
    return latencies.get(instruction.op_class, 1)


def _walk(block: tuple[StaticInstruction, ...], writers: dict[int, list[int]], latencies: dict[str, int], table: _Table, timed: bool) -> None:
    """Append the stops of one basic block. `writers` maps a register to the load indices that may write it."""
    ready: dict[int, int] = {}
    waited: set[int] = set()
    cycle, last_cycle, gap = -1, 0, 0
    for instruction in block:
        cycle = max([cycle + 1, *(ready.get(r, 0) for r in instruction.sources)])
        for load in sorted({w for r in instruction.sources for w in writers.get(r, ())} - waited) if timed else ():
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
    table.close(gap if timed else 0, cycle + 1 - last_cycle if timed else 0)


def program_of(trace: KernelTrace, gpu: GpuSpec, timed: bool) -> tuple[Program, int]:
    """The stops of all blocks and the number of loads. Without `timed` only memory accesses are stops and nothing costs time."""
    code = trace.instructions
    load_index = np.full(len(code), -1, np.int64)
    writers: dict[int, list[int]] = {}
    loads = 0
    for instruction in code:
        if _returns_later(instruction):
            load_index[instruction.pc] = loads
            for register in instruction.destinations:
                writers.setdefault(register, []).append(loads)
            loads += 1
    table = _Table()
    for first, end in zip(trace.block_start[:-1].tolist(), trace.block_start[1:].tolist(), strict=True):
        _walk(code[first:end], writers, gpu.latency_cycles, table, timed)

    def ints(values: list[int]) -> Ints:
        return np.array(values, np.int64)

    program = Program(
        begin=ints(table.begin),
        tail_gap=ints(table.tail_gap),
        tail_lag=ints(table.tail_lag),
        kind=ints(table.kind),
        item=ints(table.item),
        gap=ints(table.gap),
        lag=ints(table.lag),
        access=ints([_ACCESS.get(i.access, -1) for i in code]),
        access_bytes=ints([i.access_bytes for i in code]),
        packed=ints([packed_lines(i.access_bytes) for i in code]),
        event_bytes=ints([i.event_bytes for i in code]),
        has_sectors=np.array([i.has_sectors for i in code], np.bool_),
        has_degree=np.array([i.has_degree for i in code], np.bool_),
        cost=np.full(len(code), int(timed), np.int64),
        load_index=load_index,
        path_block=np.ascontiguousarray(trace.paths.block, np.int32),
        path_lanes=np.ascontiguousarray(trace.paths.lanes, np.uint8),
        path_repeat=np.ascontiguousarray(trace.paths.repeat, np.int32),
    )
    return program, loads
