"""The referee's memory: one int64 array of parameters `p`, one of state `s`, and where each table begins in `s`.

As in the cache simulation, every table lies in one array: row k, column c of table T is `s[p[T] + k * WIDTH + c]`. Components are
told apart by their tables: each module of this package steps one of them. Times are core cycles; ports that pass fractions of a
packet a cycle count in *ticks*, `TICKS` to a cycle.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.caches.exact.state import GTO

__all__ = ["GTO"]

# Columns of the window's table of warps, an array of its own.
W_ENTRY, W_END, W_EVENT, W_EVENT_END, W_SECTOR, W_SECTOR_END = range(6)
WINDOW_WIDTH = 6

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

TICKS = 1024
NEVER = 1 << 60
LATEST = 1 << 62  # later than any time in ticks
WHEEL = 64  # cycles that a scheduler's wheel of wake-ups spans, and warps that a scheduler can have

# --- Parameters: what the machine and the launch are.
(
    SM_COUNT, SCHEDULERS, WIDTH, POLICY, PLACES, WARPS_PER_BLOCK, SLOTS, GRID, REGISTERS, LOADS, INSTRUCTIONS, QUEUE_DEPTH,
    ADDRESS, BACK, PIPE, L1_SETS, L1_WAYS, L1_RULE, L1_LINE, L1_ON_FILL, MISS_QUEUE,
    FLIT, FLIT_TICKS, EJECT_ROOM,
    SLICES, L2_SETS, L2_WAYS, L2_RULE, L2_LINE, PER_PIECE, L2_PIPE, IN_ROOM, OUT_ROOM,
    CHANNELS, SLICES_PER_CHANNEL, DRAM_LATENCY, DRAM_TICKS, DRAM_QUEUE, BANKS, ROW_SECTORS, ROW_OPEN, ROW_CLOSE, TURNAROUND,
    L1_MSHRS, L1_TARGETS, L1_BUCKETS, L2_MSHRS, L2_TARGETS, L2_BUCKETS, UNITS, SHARED_LATENCY, MAX_CYCLES, WATCHED_SM, WATCH_ROOM,
    L1_NODES, L2_NODES, RETURN_ROOM, FETCH_WIDTH,
) = range(58)  # fmt: skip

# --- Parameters: where tables begin in the state.
FIRST_TABLE = 58
(
    CODE,  # per pc
    REGS,  # registers of the instructions, one list after the other
    BLOCK,  # per basic block: first pc; one more for the end
    PATH,  # per path entry: basic block, active lanes, repeat
    INITIATION,  # per unit: cycles until it takes the next warp instruction
    L1_UNIT,  # per mask of touched 32 B sectors: the L1's own sectors
    L2_UNIT,
    CELL,  # launch bookkeeping
    WARP,  # per SM and warp slot
    READY,  # per SM, slot and register: when its value is there
    LOAD,  # per SM, slot and load: what of it is still to come
    SCHED,  # per SM and scheduler
    WANTS,  # per SM, scheduler and unit: warps whose next instruction needs it; then when the unit is free
    UNIT_FREE,
    SLOT_WHEEL,  # per SM, scheduler and cycle of the wheel: warps that wake up then
    SM,  # per SM
    PLACE,  # per SM and place of a block
    ORDER,  # per SM and age: the place of the block
    QUEUE,  # per SM: memory instructions that wait for the load-store unit (ring)
    LINES, MASKS,  # per SM: requests of the instruction in hand
    PIPELINE,  # per SM: requests on their way to the tags (ring)
    L1_WAYS_TABLE,  # per SM, set: tags, then valid and pending sectors
    L1_BUCKET, L1_MSHR, L1_NODE,
    MISSES,  # per SM: packets that wait for the network (ring)
    ARRIVALS,  # per SM: packets from the network (ring)
    SLICE,  # per slice
    INBOX,  # per slice: packets from the network (ring)
    OUTBOX,  # per slice: replies (ring)
    L2_WAYS_TABLE,
    L2_BUCKET, L2_MSHR, L2_NODE,
    CHANNEL,  # per channel
    WAITING,  # per channel: accesses that wait (list in order of arrival)
    RETURNS,  # per channel: reads that come back (ring)
    BANK,  # per channel and bank: open row, when it can be used
    # Agenda: when each component has something to do next, one table for each step of a cycle, in that order.
    NEXT_RETURN, NEXT_PICK,  # per channel: data comes back, an access begins
    NEXT_L2, NEXT_REPLY,  # per slice: a packet comes to the tags, a reply leaves
    NEXT_ARRIVAL, NEXT_L1, NEXT_PORT, NEXT_LSU,  # per SM: a reply comes, a request is at the tags, a packet leaves, one is cut
    NEXT_SCHEDULER,  # per SM and scheduler
    DUE, DUE_BITS,  # the components whose time has come in the step at hand, as numbers and as bits
    COUNT,  # per pc: counters
    WATCH,  # what the SM that is watched issued
) = range(FIRST_TABLE, FIRST_TABLE + 52)  # fmt: skip
PARAMETERS = FIRST_TABLE + 52

# --- Columns.
CODE_WIDTH = 13
(
    KIND, UNIT, LATENCY, FIRST_REG, REG_COUNT, WRITES, ACCESS, ACCESS_BYTES, EVENT_BYTES, HAS_SECTORS, HAS_DEGREE,
    LOAD_INDEX, PACKED,
) = range(13)  # fmt: skip
PATH_WIDTH = 3
WARP_WIDTH = 24
(
    ID, ENTRY, END, REPEAT, PC, BLOCK_END, EVENT, EVENT_END, SECTOR, SECTOR_END, TAKEN, STATE, READY_AT, CAUSE, OUTSTANDING,
    LIVE_LANES, PART_DATA, PART_STRUCT, PART_MSHR, PART_NOC, PART_DRAM, BUFFERED, FETCHED_AT,
) = range(23)  # fmt: skip
LOAD_WIDTH = 10
(REMAINING, ISSUED, MSHR_BEFORE, NOC_BEFORE, LOAD_PC, WAIT_MSHR, WAIT_PORT, WAIT_UNIT, WAIT_NOC, WAIT_DRAM) = range(10)
SCHED_WIDTH = 8
READY_MASK, OCCUPIED, FAR, LAST, LAST_ISSUE, SEEN_MSHR, SEEN_NOC = range(7)
SM_WIDTH = 32
(
    QUEUE_HEAD, QUEUE_COUNT, LSU_SLOT, LSU_PC, LSU_DONE, LSU_REQUESTS, LSU_WHOLE, LSU_UNTIL,
    PIPE_HEAD, PIPE_COUNT, BLOCKED, BLOCKED_SINCE, BLOCKED_MSHR, BLOCKED_NOC,
    MISS_HEAD, MISS_COUNT, PORT_FREE, ARRIVAL_HEAD, ARRIVAL_COUNT, EJECT_FREE,
    FREE_MSHR, FREE_NODE, RESIDENT, FILL_FREE, PORT_WAITS, PORT_GRANTED, REPLIES_WAITING, REPLY_TURN, REPLIES_GRANTED,
    FETCH_NEXT, LSU_SINCE, LSU_ROOM,
) = range(32)  # fmt: skip
PLACE_WIDTH = 4
LIVE, AT_BARRIER, PLACE_SINCE = range(3)
QUEUE_WIDTH = 5
Q_SLOT, Q_PC, Q_FOUND, Q_WHOLE, Q_TIME = range(5)
PIPE_WIDTH = 8
R_LINE, R_MASK, R_SLOT, R_PC, R_WHOLE, R_TIME, R_BORN, R_ROOM = range(8)
MISS_WIDTH = 8
P_LINE, P_MASK, P_KIND, P_SM, P_HANDLE, P_WHOLE, P_SINCE, P_PC = range(8)
ARRIVAL_WIDTH = 6
A_KIND, A_HANDLE, A_TIME, A_NOC, A_DRAM, A_LEVEL = range(6)
SLICE_WIDTH = 16
(
    IN_HEAD, IN_COUNT, IN_FREE, OUT_HEAD, OUT_COUNT, OUT_FREE, L2_FREE_MSHR, L2_FREE_NODE, BUSY_UNTIL,
    TAG_BLOCKED, PORTS_WAITING, OUT_WAITS, OUT_GRANTED, PORT_TURN, PORTS_GRANTED,
) = range(15)  # fmt: skip
IN_WIDTH = 10  # a packet, when it is at the tags, what it waited
I_TIME, I_WAITED = 8, 9
OUT_WIDTH = 8
O_SM, O_KIND, O_HANDLE, O_FLITS, O_SINCE, O_NOC, O_DRAM, O_LEVEL = range(8)
CHANNEL_WIDTH = 8
WAIT_COUNT, BUS_FREE, RETURN_HEAD, RETURN_COUNT, LAST_WAS_WRITE = range(5)
WAIT_WIDTH = 7
D_SECTORS, D_WRITE, D_SLICE, D_HANDLE, D_SINCE, D_ROW, D_BANK = range(7)
RETURN_WIDTH = 4
BANK_WIDTH = 2
B_ROW, B_READY = range(2)
WATCH_WIDTH = 6
MSHR_WIDTH = 8
M_LINE, M_CHAIN, M_PENDING, M_EXPECTED, M_TARGETS, M_FIRST, M_LAST, M_DRAM = range(8)
NODE_WIDTH = 4
N_NEXT, N_HANDLE, N_SINCE, N_DATA = range(4)
(
    NEXT_BLOCK, LIVE_WARPS, BAD_WARP, FIRST_WARP, LAST_WARP, NOW, ISSUED_TOTAL, WANT_BLOCK, LAST_END, WATCHED, DISPATCH_SM,
) = range(11)  # fmt: skip

# --- Values.
ALU, GLOBAL, SHARED, BARRIER, FENCE = range(5)
IS_LOAD, IS_STORE, IS_ATOMIC = 0, 1, 2
# What a warp does: runs (it is in the ready mask or in the wheel), waits for data without a known time, stands at a barrier, waits
# for its stores at a fence, has no instructions left but accesses under way.
RUNS, NEEDS_DATA, STANDS, FENCED, DRAINS = range(5)
CAUSE_START, CAUSE_ALU, CAUSE_MEMORY, CAUSE_BARRIER, CAUSE_FETCH = range(5)
NOT_BLOCKED, NO_MSHR, NO_ROOM = range(3)
READ, WRITE, ATOMIC_PACKET = range(3)
LEVEL_L1, LEVEL_L2, LEVEL_DRAM = range(3)
UNIT_MEMORY = 0  # the load-store unit; the others are op classes
MOST_REQUESTS = 256
VALID_BITS = (1 << 16) - 1
PENDING_SHIFT, DIRTY = 16, 1 << 32

COUNTERS = 24
(
    C_EXECUTIONS, C_DIVERGENT, C_L1_READS, C_L1_HITS, C_L1_MISSES, C_L1_MERGES, C_L1_WRITES, C_L2_READS, C_L2_READ_HITS,
    C_L2_READ_MISSES, C_L2_READ_MERGES, C_L2_WRITES, C_L2_WRITE_HITS, C_L2_WRITE_MISSES, C_DRAM_READS, C_DRAM_WRITES,
    C_MISS_LATENCY, C_MISS_MSHR, C_MISS_NOC, C_MISS_DRAM_QUEUE, C_MISS_DRAM, C_ISSUED,
) = range(22)  # fmt: skip
# The CPI stack's columns, per pc, in a float array `f`.
F_BASE, F_COM_DATA, F_COM_STRUCT, F_MEM_DATA, F_MSHR, F_NOC, F_DRAM, F_SYNC, F_IDLE = range(9)
STACK_WIDTH = 9
