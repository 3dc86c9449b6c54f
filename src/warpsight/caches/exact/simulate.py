"""Exact simulation of the L1 of every SM and of the shared L2 over all warps of a launch.

The kernel's code is reduced to stops, the simulation's memory is laid out and filled, the compiled loop runs over the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from warpsight.addressing.coalescing import packed_lines
from warpsight.addressing.mapping import first_wave
from warpsight.caches.exact import layout as at
from warpsight.caches.exact.engine import BAD_TRACE, DONE, NEED_BLOCK, run
from warpsight.caches.exact.geometry import parameters_of, sector_groups
from warpsight.caches.exact.l1 import way_wait
from warpsight.caches.exact.l2 import shares_in_use
from warpsight.caches.exact.layout import (
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
from warpsight.caches.miss_profile import COUNTS, SHARES, MissProfile
from warpsight.gpu.spec import GpuSpec
from warpsight.traces.schema import ATOMIC, LOAD, STORE, KernelTrace, StaticInstruction
from warpsight.traces.window import Places, TraceWindow, contradiction

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


# -- Lays out the simulation's memory and fills it for a launch on an empty GPU.

def _sizes(p: Ints, program: Program) -> dict[int, int]:
    sms, issuers, slots = int(p[at.SM_COUNT]), int(p[at.ISSUERS]), int(p[at.SM_COUNT] * p[at.SLOTS])
    places = int(p[at.SM_COUNT] * p[at.BLOCKS_PER_SM])
    l1 = int(p[at.SM_COUNT] * p[at.L1_SETS] * p[at.L1_WAYS])
    l2 = int(p[at.SLICES] * p[at.L2_SETS] * p[at.L2_WAYS])
    sizes = {
        at.BLOCK: program.blocks.size,
        at.STOP: program.stops.size,
        at.CODE: program.code.size,
        at.PATH: program.paths.size,
        at.L1_UNIT: 1 << int(p[at.L1_LINE]),
        at.L2_UNIT: 1 << int(p[at.L2_LINE]),
        at.CELL: 16,
        at.QUEUE: places * at.QUEUE_WIDTH,
        at.WARP: slots * at.WARP_WIDTH,
        at.READY: slots * program.loads,
        at.L1_SET: 2 * l1,
        at.L2_SET: 2 * l2,
        at.KEY: issuers + sms,
        at.MSHR: 2 * sms * int(p[at.MSHRS]),
        at.MSHR_ENDS: 2 * sms,
        at.SPREAD: at.SPREAD_WIDTH,
        at.FLIGHT: at.FLIGHT_WIDTH,
        at.COUNT: len(program.code) * at.COUNTERS,
        at.LSU: sms * at.LSU_WIDTH,
        at.WAITING_ACCESS: sms * int(p[at.DEPTH]) * at.ACCESS_WIDTH,
        at.LINES: sms * at.MOST_REQUESTS,
        at.MASKS: sms * at.MOST_REQUESTS,
    }
    sizes |= dict.fromkeys((at.SLICE_FREE, at.SLICE_IN_FREE, at.REPLY_LOAD, at.REQUEST_LOAD, at.REPEAT_LOAD), int(p[at.SLICES]))
    sizes |= dict.fromkeys((at.CHANNEL_FREE, at.CHANNEL_LOAD), int(p[at.CHANNELS]))
    sizes |= dict.fromkeys((at.ELIGIBLE,), slots)
    sizes |= dict.fromkeys((at.LSU_FREE, at.RESIDENT, at.FIRST), sms)
    sizes |= dict.fromkeys((at.ORDER, at.LIVE, at.WAITING), places)
    sizes |= dict.fromkeys((at.CLOCK, at.PICKED, at.LAST), issuers)
    return sizes


def new_memory(p: Ints, program: Program, l1_units: Ints, l2_units: Ints) -> Ints:
    """Fill in the table places in `p` and give the state `s`: cold caches, no warp resident, the first wave queued."""
    p[at.LOADS], p[at.INSTRUCTIONS] = program.loads, len(program.code)
    sizes = _sizes(p, program)
    top = 0
    for table in range(at.BLOCK, at.PARAMETERS):
        p[table] = top
        # Tables start on a cache line of the host.
        top += -(-sizes[table] // 8) * 8
    s = np.zeros(top, np.int64)

    def put(table: int, values: Ints) -> None:
        s[p[table] : p[table] + values.size] = values.ravel()

    for table, values in ((at.BLOCK, program.blocks), (at.STOP, program.stops), (at.CODE, program.code), (at.PATH, program.paths)):
        put(table, values)
    put(at.L1_UNIT, l1_units)
    put(at.L2_UNIT, l2_units)
    for table in (at.WARP, at.PICKED, at.LAST):
        put(table, np.full(sizes[table], -1, np.int64))
    for table in (at.ELIGIBLE, at.KEY):
        put(table, np.full(sizes[table], at.NEVER, np.int64))
    for table, ways in ((at.L1_SET, int(p[at.L1_WAYS])), (at.L2_SET, int(p[at.L2_WAYS]))):
        s[p[table] : p[table] + sizes[table]].reshape(-1, 2, ways)[:, 0] = -1
    s[p[at.LSU] : p[at.LSU] + sizes[at.LSU] : at.LSU_WIDTH] = -1
    places = np.arange(p[at.SM_COUNT] * p[at.BLOCKS_PER_SM], dtype=np.int64)
    # The first wave: SMs in turn, the next place of each once all SMs have had one.
    sms = first_wave(len(places), int(p[at.SM_COUNT]), int(p[at.BLOCKS_PER_SM]))
    put(at.QUEUE, np.stack([sms, places // p[at.SM_COUNT], 0 * places], axis=1))
    s[p[at.CELL] + at.QUEUE_TAIL] = len(places)
    s[p[at.CELL] + at.BAD_WARP] = -1
    s[p[at.CELL] + at.NEXT_SM] = p[at.SM_COUNT]
    return s


def warp_rows(p: Ints, s: Ints) -> Ints:
    """The table of warp slots as [slots, WARP_WIDTH], a view."""
    n = int(p[at.SM_COUNT] * p[at.SLOTS])
    return s[p[at.WARP] : p[at.WARP] + n * at.WARP_WIDTH].reshape(n, at.WARP_WIDTH)


def counts(p: Ints, s: Ints) -> Ints:
    """The counters as [instructions, COUNTERS], a view."""
    n = int(p[at.INSTRUCTIONS])
    return s[p[at.COUNT] : p[at.COUNT] + n * at.COUNTERS].reshape(n, at.COUNTERS)


# -- Exact simulation of the L1 of every SM and of the shared L2 over all warps of a launch.
#
# Hits and misses are exact for the order in which the accesses arrive, and that order is the *interleaving*:
#
# `clocked` (the default). SMs act in the order of their clocks. A warp comes to its next access after the instructions between (one
# a cycle and scheduler, each as late as its operands ask) and after the data that they use has come; the scheduler picks among the
# warps that are there, greedy-then-oldest or round-robin as the GPU says. Issued accesses wait in order, `sm.access_queue` at most,
# for the load-store unit, which takes n cycles for n line requests. A miss takes an MSHR until its data is back: after the latency
# of its level, and its turns at the L2 slice's port to the network and at the memory channel. A request for a line that is still on
# its way is a *merge*. All this decides an order. It is no prediction of time.
#
# `round-robin`. One memory instruction of each warp in turn, SMs in turn (GPUMech, MICRO 2014, section IV; MDM, MICRO 2020). Nothing
# takes time, so a line is there as soon as it was asked for, and no request merges.

TURNS_PER_REPORT = 1_000_000

Progress = Callable[[int, int], None]

_PLACES = Places(at.ID, at.EVENT, at.EVENT_END, at.SECTOR, at.SECTOR_END, at.TAKEN)


def simulate_caches(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, *, progress: Progress | None = None, interleaving: str = "clocked"
) -> MissProfile:
    """Simulate the caches of `gpu` under the whole launch; `blocks_per_sm` blocks are resident on each SM.

    `progress` is called now and then with the warps that have ended and the warps of the launch. `interleaving` is `clocked` or
    `round-robin` (see the module). Memory is bounded by the resident warps' streams and the trace's largest chunk.
    Raises SpecError for a hierarchy that cannot be simulated, UsageError for `blocks_per_sm` below 1 or an unknown interleaving,
    FormatError for a trace that contradicts itself.
    """
    header = trace.header
    p = parameters_of(gpu, header.recorded_blocks, header.warps_per_block, blocks_per_sm, interleaving)
    s = new_memory(p, program_of(trace, gpu, interleaving == "clocked"), sector_groups(gpu.l1), sector_groups(gpu.l2))
    window = TraceWindow(trace, _PLACES)
    cell = s[p[at.CELL] :]
    outcome = NEED_BLOCK
    while outcome != DONE:
        outcome = run(p, s, window.warps, window.events, window.sectors, TURNS_PER_REPORT)
        launched = int(cell[at.NEXT_BLOCK]) * header.warps_per_block
        if outcome == NEED_BLOCK:
            window.extend(warp_rows(p, s), launched)
            cell[at.FIRST_WARP], cell[at.LAST_WARP] = window.first, window.end
        elif outcome == BAD_TRACE:
            raise contradiction(trace, int(cell[at.BAD_WARP]))
        if progress is not None:
            progress(launched - int(cell[at.LIVE_WARPS]), header.warps)
    found = _profile(counts(p, s), shares_in_use(p, s), way_wait(p, s))
    latencies = (gpu.l2.latency_cycles, gpu.dram.latency_cycles) if interleaving == "clocked" else (0, 0)
    return replace(found, l2_latency_cycles=latencies[0], dram_latency_cycles=latencies[1])


def _profile(count: Ints, shares: tuple[float, ...], way_wait: float) -> MissProfile:
    def column(field: str) -> Ints:
        found = count[:, at.TOUCHED_SECTORS if field == "sectors" else getattr(at, field.upper())].copy()
        return found // at.TICKS if field == "merged_wait_cycles" else found

    found: dict[str, Any] = {field: column(field) for field in COUNTS}
    return MissProfile(way_wait=way_wait, **found | dict(zip(SHARES, shares, strict=True)))
