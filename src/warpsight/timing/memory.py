"""Lays out the simulation's memory and fills it for a launch on an empty GPU."""

from __future__ import annotations

import numpy as np

from warpsight.caches.geometry import sector_groups
from warpsight.gpu.spec import GpuSpec
from warpsight.timing import layout as at
from warpsight.timing.code import Code
from warpsight.timing.layout import Ints
from warpsight.trace.schema import KernelTrace


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
