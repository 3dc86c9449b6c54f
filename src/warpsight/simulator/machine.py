"""What the compiled simulation reads: the GPU description and the kernel's code as plain numbers, and the memory filled with them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from warpsight.addressing.coalescing import packed_lines
from warpsight.addressing.mapping import SET_INDEX_RULES
from warpsight.base.errors import LimitError, SpecError, UsageError
from warpsight.caches.exact.geometry import POLICIES, check_hierarchy, sector_groups
from warpsight.gpu.spec import ISSUE_ONLY, GpuSpec, op_latency
from warpsight.simulator import layout as at
from warpsight.simulator.layout import TICKS, Ints
from warpsight.traces.schema import ATOMIC, LOAD, SECTOR_BYTES, STORE, KernelTrace, StaticInstruction

WRITE_BACK_CYCLES = 1  # of the data of an access into the registers
_MOST_TARGETS = 1 << 22


def _flits(sectors: int, flit_bytes: int) -> int:
    return max(1, -(-sectors * SECTOR_BYTES // flit_bytes))


def _check(gpu: GpuSpec, blocks_per_sm: int, warps_per_block: int) -> None:
    check_hierarchy(gpu, blocks_per_sm)
    slots = blocks_per_sm * warps_per_block
    if -(-slots // gpu.sm.schedulers) > at.WHEEL:
        raise LimitError(
            f"{slots} warps on {gpu.sm.schedulers} schedulers: the simulator has {at.WHEEL} warps a scheduler at most",
            place=f"{gpu.name}: sm.max_warps",
            remedy="lower sm.max_warps, or give more sm.schedulers",
        )
    for name, cache in (("l1", gpu.l1), ("l2", gpu.l2)):
        if cache.mshrs * cache.targets > _MOST_TARGETS:
            raise LimitError(
                f"{cache.mshrs:,} MSHRs x {cache.targets:,} targets are more than {_MOST_TARGETS:,} waiting requests",
                place=f"{gpu.name}: {name}.targets",
                remedy=f"lower {name}.mshrs or {name}.targets",
            )
    if gpu.dram.row_bytes % gpu.l2.line_bytes:
        raise SpecError(
            f"a row of {gpu.dram.row_bytes} B is not a whole number of L2 lines of {gpu.l2.line_bytes} B",
            place=f"{gpu.name}: dram.row",
            remedy="make it a multiple of l2.line, for example 2 KiB, or 0 B for memory without rows",
        )
    if gpu.l2.slices % gpu.dram.channels:
        raise SpecError(
            f"{gpu.l2.slices} L2 slices do not divide evenly among {gpu.dram.channels} memory channels",
            place=f"{gpu.name}: dram.channels",
            remedy="make l2.slices a multiple of dram.channels",
        )


def parameters_of(gpu: GpuSpec, blocks: int, warps_per_block: int, blocks_per_sm: int) -> Ints:
    """Check and reduce `gpu` for a launch of `blocks` blocks to the machine part of `p` (module `layout`).

    Raises SpecError, LimitError or UsageError for what cannot be simulated.
    """
    if blocks < 1:
        raise UsageError("the launch has no blocks", remedy="record a launch with at least one block")
    _check(gpu, blocks_per_sm, warps_per_block)
    p = np.zeros(at.PARAMETERS, np.int64)
    p[at.SM_COUNT], p[at.GRID] = gpu.sm_count, blocks
    p[at.SCHEDULERS], p[at.WIDTH], p[at.POLICY] = gpu.sm.schedulers, gpu.sm.issue_width, POLICIES[gpu.sm.policy]
    p[at.PLACES], p[at.WARPS_PER_BLOCK] = blocks_per_sm, warps_per_block
    p[at.SLOTS] = blocks_per_sm * warps_per_block
    p[at.QUEUE_DEPTH], p[at.FETCH_WIDTH] = gpu.sm.access_queue, gpu.sm.fetch_width
    _set_caches(p, gpu)
    _set_network(p, gpu)
    _set_memory(p, gpu)
    _set_latencies(p, gpu)
    return p


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


def _set_caches(p: Ints, gpu: GpuSpec) -> None:
    l1, l2 = gpu.l1, gpu.l2
    p[at.L1_SETS], p[at.L1_WAYS], p[at.L1_RULE], p[at.L1_LINE] = l1.sets, l1.ways, SET_INDEX_RULES[l1.index], l1.line_bytes // SECTOR_BYTES
    p[at.L2_SETS], p[at.L2_WAYS], p[at.L2_RULE], p[at.L2_LINE] = l2.sets, l2.ways, SET_INDEX_RULES[l2.index], l2.line_bytes // SECTOR_BYTES
    p[at.SLICES], p[at.PER_PIECE] = l2.slices, l2.slice_interleave_bytes // l2.line_bytes
    p[at.L1_ON_FILL] = l1.allocation == "on-fill"
    parts = max(1, l1.line_bytes // l2.line_bytes)
    p[at.MISS_QUEUE] = max(l1.miss_queue, parts)
    for name, cache in (("L1", l1), ("L2", l2)):
        p[getattr(at, f"{name}_MSHRS")], p[getattr(at, f"{name}_TARGETS")] = cache.mshrs, cache.targets
        p[getattr(at, f"{name}_NODES")] = cache.mshrs * cache.targets
        p[getattr(at, f"{name}_BUCKETS")] = _power_of_two(2 * cache.mshrs)


def _set_network(p: Ints, gpu: GpuSpec) -> None:
    port = gpu.noc.bandwidth_bytes_per_s / gpu.l2.slices
    p[at.FLIT] = gpu.noc.flit_bytes
    p[at.FLIT_TICKS] = max(1, round(TICKS * gpu.noc.flit_bytes * gpu.core_clock_hz / port))
    p[at.EJECT_ROOM] = gpu.noc.buffer
    p[at.OUT_ROOM] = gpu.noc.buffer + gpu.l2.targets  # a line that comes from memory answers all who wait for it at once


def _set_memory(p: Ints, gpu: GpuSpec) -> None:
    dram = gpu.dram
    channel = dram.bandwidth_bytes_per_s / dram.channels
    p[at.CHANNELS], p[at.SLICES_PER_CHANNEL] = dram.channels, gpu.l2.slices // dram.channels
    p[at.DRAM_LATENCY], p[at.DRAM_QUEUE] = dram.latency_cycles, max(2, dram.queue)
    p[at.DRAM_TICKS] = max(1, round(TICKS * SECTOR_BYTES * gpu.core_clock_hz / channel))
    p[at.BANKS], p[at.ROW_SECTORS] = dram.banks, dram.row_bytes // SECTOR_BYTES
    if dram.row_bytes:
        p[at.ROW_OPEN], p[at.ROW_CLOSE] = TICKS * dram.activate_cycles, TICKS * dram.precharge_cycles
        p[at.TURNAROUND] = TICKS * dram.turnaround_cycles
    p[at.RETURN_ROOM] = gpu.l2.mshrs * (gpu.l2.slices // dram.channels) * int(p[at.L2_LINE])


def _set_latencies(p: Ints, gpu: GpuSpec) -> None:
    """Shares out the round trips of the description, so that an access alone takes exactly what they say."""
    l1, l2 = gpu.l1.latency_cycles, gpu.l2.latency_cycles
    # reading registers and adding an offset is what an integer operation does
    p[at.ADDRESS] = min(gpu.latency_cycles["int"], l1 - 1)
    p[at.BACK] = min(WRITE_BACK_CYCLES, l1 - int(p[at.ADDRESS]))
    p[at.PIPE] = l1 - int(p[at.ADDRESS]) - int(p[at.BACK])
    p[at.SHARED_LATENCY] = max(1, gpu.latency_cycles["shared"] - int(p[at.ADDRESS]))
    line = min(int(p[at.L1_LINE]), gpu.l1.sector_bytes // SECTOR_BYTES)
    flit = int(p[at.FLIT_TICKS])
    there, back = math.ceil(flit / TICKS), math.ceil(_flits(line, gpu.noc.flit_bytes) * flit / TICKS)
    fixed = int(p[at.ADDRESS]) + int(p[at.PIPE]) + there + back + 1
    if l2 < fixed:
        raise SpecError(
            f"an L2 round trip of {l2} cycles is shorter than its way: the L1 ({l1} cycles) and the ports ({there + back})",
            place=f"{gpu.name}: l2.latency",
            remedy=f"give l2.latency of at least {fixed} cycles, or a shorter l1.latency or more noc.bandwidth",
        )
    p[at.L2_PIPE] = l2 - fixed
    p[at.IN_ROOM] = int(p[at.L2_PIPE]) + gpu.noc.buffer


# -- The kernel's instructions as the simulation reads them: one row of numbers for each pc.

_ACCESS = {LOAD: at.IS_LOAD, STORE: at.IS_STORE, ATOMIC: at.IS_ATOMIC}
_FENCES = ("membar", "fence")


class Code(NamedTuple):
    """The tables `CODE` and `REGS` of module `layout`, how many registers and loads there are, and the units' initiation."""

    rows: Ints
    registers: Ints
    register_count: int
    loads: int
    initiation: Ints


def _kind(instruction: StaticInstruction) -> int:
    if instruction.has_sectors:
        return at.GLOBAL
    if instruction.event_bytes:
        return at.SHARED
    if instruction.is_block_barrier:
        return at.BARRIER
    return at.FENCE if instruction.opcode.lower().split(".")[0] in _FENCES else at.ALU


def _latency(instruction: StaticInstruction, gpu: GpuSpec) -> int:
    """Issue to dependent issue. Raises SpecError for an op class that the GPU has no latency for."""
    if instruction.access:
        return gpu.latency_cycles["int"]  # constants and parameters lie next to the register file and cost what a move costs
    if instruction.op_class in ISSUE_ONLY or instruction.op_class == "memory":
        return 1
    return op_latency(gpu, instruction.op_class, f'"{instruction.opcode}" ({instruction.file}:{instruction.line})')


def _renumber(code: tuple[StaticInstruction, ...]) -> dict[int, int]:
    """Dense numbers for the registers, in the order of first appearance."""
    numbers: dict[int, int] = {}
    for instruction in code:
        for register in instruction.destinations + instruction.sources:
            numbers.setdefault(register, len(numbers))
    return numbers


def code_of(trace: KernelTrace, gpu: GpuSpec) -> Code:
    """The code of `trace` on `gpu`. Raises SpecError for an op class without a latency."""
    numbers = _renumber(trace.instructions)
    units = {"": at.UNIT_MEMORY} | {name: k + 1 for k, name in enumerate(sorted(gpu.latency_cycles))}
    rows: list[tuple[int, ...]] = []
    registers: list[int] = []
    loads = 0
    for i in trace.instructions:
        kind = _kind(i)
        touched = [numbers[r] for r in dict.fromkeys(i.destinations + i.sources)]
        through_unit = kind in (at.GLOBAL, at.SHARED)
        returns = through_unit and i.access != STORE and bool(i.destinations)
        unit = at.UNIT_MEMORY if through_unit else units.get("int" if i.access else i.op_class, units["int"])
        rows.append((
            kind, unit, _latency(i, gpu), len(registers), len(touched), len(set(i.destinations)), _ACCESS.get(i.access, -1),
            i.access_bytes, i.event_bytes, i.has_sectors, i.has_degree, loads if returns else -1, packed_lines(i.access_bytes),
        ))  # fmt: skip
        registers.extend(touched)
        loads += returns
    initiation = [1] + [gpu.initiation_cycles.get(name, 1) for name in sorted(gpu.latency_cycles)]
    return Code(
        np.array(rows, np.int64).reshape(-1, at.CODE_WIDTH),
        np.array(registers, np.int64),
        max(1, len(numbers)),
        max(1, loads),
        np.array(initiation, np.int64),
    )


# -- Lays out the simulation's memory and fills it for a launch on an empty GPU.

def _sizes(p: Ints, code: Code, blocks: int, entries: int) -> dict[int, int]:
    def of(key: int) -> int:
        return int(p[key])

    sms, slices, channels = of(at.SM_COUNT), of(at.SLICES), of(at.CHANNELS)
    slots, places, schedulers = sms * of(at.SLOTS), sms * of(at.PLACES), sms * of(at.SCHEDULERS)
    return {
        at.CODE: code.rows.size, at.REGS: len(code.registers), at.BLOCK: blocks + 1, at.PATH: entries * at.PATH_WIDTH,
        at.INITIATION: len(code.initiation), at.L1_UNIT: 1 << of(at.L1_LINE), at.L2_UNIT: 1 << of(at.L2_LINE), at.CELL: 16,
        at.WARP: slots * at.WARP_WIDTH, at.READY: slots * of(at.REGISTERS), at.LOAD: slots * of(at.LOADS) * at.LOAD_WIDTH,
        at.SCHED: schedulers * at.SCHED_WIDTH, at.WANTS: schedulers * of(at.UNITS), at.UNIT_FREE: schedulers * of(at.UNITS),
        at.SLOT_WHEEL: schedulers * at.WHEEL, at.SM: sms * at.SM_WIDTH, at.PLACE: places * at.PLACE_WIDTH, at.ORDER: places,
        at.QUEUE: sms * of(at.QUEUE_DEPTH) * at.QUEUE_WIDTH, at.LINES: sms * at.MOST_REQUESTS, at.MASKS: sms * at.MOST_REQUESTS,
        at.PIPELINE: sms * (of(at.PIPE) + 1) * at.PIPE_WIDTH,
        at.L1_WAYS_TABLE: 2 * sms * of(at.L1_SETS) * of(at.L1_WAYS),
        at.L1_BUCKET: sms * of(at.L1_BUCKETS), at.L1_MSHR: sms * of(at.L1_MSHRS) * at.MSHR_WIDTH,
        at.L1_NODE: sms * of(at.L1_NODES) * at.NODE_WIDTH,
        at.MISSES: sms * of(at.MISS_QUEUE) * at.MISS_WIDTH, at.ARRIVALS: sms * of(at.EJECT_ROOM) * at.ARRIVAL_WIDTH,
        at.SLICE: slices * at.SLICE_WIDTH, at.INBOX: slices * of(at.IN_ROOM) * at.IN_WIDTH,
        at.OUTBOX: slices * of(at.OUT_ROOM) * at.OUT_WIDTH,
        at.L2_WAYS_TABLE: 2 * slices * of(at.L2_SETS) * of(at.L2_WAYS),
        at.L2_BUCKET: slices * of(at.L2_BUCKETS), at.L2_MSHR: slices * of(at.L2_MSHRS) * at.MSHR_WIDTH,
        at.L2_NODE: slices * of(at.L2_NODES) * at.NODE_WIDTH,
        at.CHANNEL: channels * at.CHANNEL_WIDTH, at.WAITING: channels * of(at.DRAM_QUEUE) * at.WAIT_WIDTH,
        at.RETURNS: channels * of(at.RETURN_ROOM) * at.RETURN_WIDTH, at.BANK: channels * of(at.BANKS) * at.BANK_WIDTH,
        at.NEXT_RETURN: channels, at.NEXT_PICK: channels, at.NEXT_L2: slices, at.NEXT_REPLY: slices, at.NEXT_ARRIVAL: sms,
        at.NEXT_L1: sms, at.NEXT_PORT: sms, at.NEXT_LSU: sms, at.NEXT_SCHEDULER: schedulers,
        at.DUE: max(schedulers, slices, channels), at.DUE_BITS: -(-max(schedulers, slices, channels) // 64),
        at.COUNT: len(code.rows) * at.COUNTERS, at.WATCH: of(at.WATCH_ROOM) * at.WATCH_WIDTH,
    }  # fmt: skip


def _aligned(words: int) -> Ints:
    """Zeros that begin on a cache line of the host; NumPy's own begin two words behind one."""
    room = np.zeros(words + 8, np.int64)
    begin = -(room.ctypes.data // 8) % 8
    return room[begin : begin + words]


class _Memory:
    """The state while it is filled."""

    def __init__(self, p: Ints, sizes: dict[int, int]) -> None:
        self.p = p
        self.sizes = sizes
        top = 0
        for table in range(at.FIRST_TABLE, at.PARAMETERS):
            p[table] = top
            top += -(-sizes[table] // 8) * 8  # tables start on a cache line of the host
        self.s = _aligned(top)

    def table(self, table: int, width: int) -> Ints:
        """A view of a table as [rows, width]."""
        return self.s[self.p[table] : self.p[table] + self.sizes[table]].reshape(-1, width)

    def put(self, table: int, values: Ints) -> None:
        self.s[self.p[table] : self.p[table] + values.size] = values.ravel()

    def chain(self, table: int, width: int, per_cache: int, link: int) -> None:
        """Let each cache's rows of `table` form a list of free rows, from row 0 on."""
        following = np.arange(1, per_cache + 1)
        following[-1] = -1
        rows = self.table(table, width)
        rows[:, link] = np.tile(following, len(rows) // per_cache)


def new_memory(p: Ints, trace: KernelTrace, gpu: GpuSpec, code: Code) -> Ints:
    """Fill in the table places in `p` and give the state `s`: cold caches, no warp resident, all places free."""
    p[at.LOADS], p[at.REGISTERS], p[at.UNITS], p[at.INSTRUCTIONS] = (
        code.loads, code.register_count, len(code.initiation), len(code.rows),
    )  # fmt: skip
    paths = np.stack([trace.paths.block, trace.paths.lanes, trace.paths.repeat], axis=1).astype(np.int64)
    memory = _Memory(p, _sizes(p, code, len(trace.block_start) - 1, len(paths)))
    memory.put(at.CODE, code.rows)
    memory.put(at.REGS, code.registers)
    memory.put(at.BLOCK, trace.block_start.astype(np.int64))
    memory.put(at.PATH, paths)
    memory.put(at.INITIATION, code.initiation)
    memory.put(at.L1_UNIT, sector_groups(gpu.l1))
    memory.put(at.L2_UNIT, sector_groups(gpu.l2))
    for table, ways in ((at.L1_WAYS_TABLE, int(p[at.L1_WAYS])), (at.L2_WAYS_TABLE, int(p[at.L2_WAYS]))):
        memory.table(table, 2 * ways)[:, :ways] = -1
    for table in (at.L1_BUCKET, at.L2_BUCKET):
        memory.table(table, 1)[:] = -1
    for name in ("L1", "L2"):
        memory.chain(getattr(at, f"{name}_MSHR"), at.MSHR_WIDTH, int(p[getattr(at, f"{name}_MSHRS")]), at.M_CHAIN)
        memory.chain(getattr(at, f"{name}_NODE"), at.NODE_WIDTH, int(p[getattr(at, f"{name}_NODES")]), at.N_NEXT)
    _idle(memory)
    return memory.s


def _idle(memory: _Memory) -> None:
    """Nobody acts and nobody waits; every place of every SM is free for a block."""
    p = memory.p
    memory.table(at.WARP, at.WARP_WIDTH)[:, at.ID] = -1
    schedulers = memory.table(at.SCHED, at.SCHED_WIDTH)
    schedulers[:, [at.LAST, at.LAST_ISSUE]] = -1
    memory.table(at.SM, at.SM_WIDTH)[:, [at.LSU_SLOT, at.PORT_WAITS]] = -1
    memory.table(at.SLICE, at.SLICE_WIDTH)[:, at.OUT_WAITS] = -1
    memory.table(at.BANK, at.BANK_WIDTH)[:, 0] = -1
    places = memory.table(at.PLACE, at.PLACE_WIDTH)
    places[:, [at.LIVE, at.PLACE_SINCE]] = -1
    # The tables of the agenda lie one after the other, and what lies between them never acts.
    memory.s[p[at.NEXT_RETURN] : p[at.DUE]] = at.NEVER
    cell = int(p[at.CELL])
    memory.s[cell + at.WANT_BLOCK] = len(places)
    memory.s[cell + at.BAD_WARP] = -1
