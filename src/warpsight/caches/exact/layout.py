"""The simulation's memory: one int64 array of parameters `p`, one of state `s`, and where each table begins in `s`.

Compiled code that hands dozens of arrays from function to function takes a minute to compile and spends its time on copying array
descriptors, so every table lies in one array: entry k of table T is `s[p[T] + k * width + column]`. Times are int64 *ticks*,
`TICKS` to a core cycle.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.traces.window import END as W_END
from warpsight.traces.window import ENTRY as W_ENTRY
from warpsight.traces.window import EVENT as W_EVENT
from warpsight.traces.window import EVENT_END as W_EVENT_END
from warpsight.traces.window import SECTOR as W_SECTOR
from warpsight.traces.window import SECTOR_END as W_SECTOR_END
from warpsight.traces.window import WIDTH as WINDOW_WIDTH

# columns of the window's table of warps, an array of its own
__all__ = ["WINDOW_WIDTH", "W_END", "W_ENTRY", "W_EVENT", "W_EVENT_END", "W_SECTOR", "W_SECTOR_END"]

Ints = npt.NDArray[np.int64]

TICKS = 1024
NEVER = 1 << 62

# Parameters: machine and launch. Times in ticks, lines in 32 B sectors.
(
    SM_COUNT,
    SCHEDULERS,
    POLICY,
    BLOCKS_PER_SM,
    WARPS_PER_BLOCK,
    SLOTS,
    GRID,
    ISSUE_COST,
    LSU_COST,
    L1_SETS,
    L1_WAYS,
    L1_RULE,
    L1_LINE,
    L1_LATENCY,
    MSHRS,
    SLICES,
    L2_SETS,
    L2_WAYS,
    L2_RULE,
    L2_LINE,
    PER_PIECE,
    L2_LATENCY,
    CHANNELS,
    DRAM_LATENCY,
    SLICE_SERVICE,
    DRAM_SERVICE,
    ISSUERS,
    LOADS,
    INSTRUCTIONS,
    PATIENCE,
    DEPTH,
    LOOKAHEAD,  # how far one SM may be ahead of another
    STORE_SERVICE,  # the least that a store takes of a slice's input port
    PORT_ROOM,  # how long stores can wait at that port before those behind them wait in the SM
    FETCH_ROOM,  # the same for lines that stores fetch from memory
    TURN,  # SMs by which the one that goes first in a round moves on from round to round
) = range(36)

# Parameters: where tables begin in the state.
(
    BLOCK,  # per basic block: first stop, instructions and ticks after its last stop; one more row for the end
    STOP,  # per stop: kind, item, instructions and ticks since the stop before
    CODE,  # per pc
    PATH,  # per path entry: basic block, active lanes, repeat
    L1_UNIT,  # per mask of touched 32 B sectors: the L1's own sectors, as such a mask
    L2_UNIT,
    CELL,  # launch bookkeeping
    QUEUE,  # ring of free block slots: SM, place, since when
    WARP,  # per warp slot
    ELIGIBLE,  # per warp slot: when it can be picked
    READY,  # per warp slot and load: when its data is there
    LSU_FREE,  # per SM: when its load-store unit can take a request
    LSU,  # per SM: the access that it works at, and those that wait for it
    WAITING_ACCESS,  # per SM and place in the queue
    RESIDENT,  # per SM: blocks
    ORDER,  # per SM and age: place of the block
    LIVE,  # per SM and place: warps not ended
    WAITING,  # per SM and place: warps at the barrier
    CLOCK,  # per issuer (warp scheduler)
    PICKED,  # per issuer: place of the warp that goes next
    LAST,  # per issuer: place of the warp that went last
    KEY,  # per issuer and then per SM: when the warp scheduler, the load-store unit acts next
    FIRST,  # per SM: the earliest of its keys
    L1_SET,  # per SM and set: see `ways`
    MSHR,  # per SM: see `mshr`
    MSHR_ENDS,  # per SM: head and tail
    L2_SET,  # per slice and set: see `ways`
    SLICE_FREE,
    CHANNEL_FREE,
    COUNT,  # per pc: counters
    LINES,  # per SM: requests of the access in hand
    MASKS,
    SLICE_IN_FREE,
    REPLY_LOAD,  # per slice: what left it in this window
    REQUEST_LOAD,  # per slice: what came to it
    CHANNEL_LOAD,
    REPEAT_LOAD,  # per slice: repeats of atomics
    SPREAD,  # see `spread`
    FLIGHT,  # of all misses: see `mshr`
) = range(36, 36 + 39)

PARAMETERS = 36 + 39

# Columns.
BLOCK_WIDTH, STOP_WIDTH, CODE_WIDTH, PATH_WIDTH, QUEUE_WIDTH, WARP_WIDTH = 3, 4, 8, 3, 3, 17
ACCESS, ACCESS_BYTES, PACKED, EVENT_BYTES, HAS_SECTORS, HAS_DEGREE, COST, LOAD_INDEX = range(8)
(ID, ENTRY, END, REPEAT, NEXT, EVENT, EVENT_END, SECTOR, SECTOR_END, KIND, PC, SECTORS_HERE, REPEATS_HERE, GAP, ARRIVE, TAKEN,
 PENDING) = range(17)  # fmt: skip
NEXT_BLOCK, QUEUE_HEAD, QUEUE_TAIL, LIVE_WARPS, TURNS, BAD_WARP, FIRST_WARP, LAST_WARP, ROUND, NEXT_SM, WINDOW = range(11)
SERVED, SERVED_PC, DONE_REQUESTS, REQUESTS, BACK, LEVEL, HEAD, LENGTH, ROOM_SINCE, WAITED = range(10)
LSU_WIDTH, ACCESS_WIDTH = 10, 5
SPREAD_WIDTH = 16
IN_FLIGHT, HELD_UP, FLIGHT_WIDTH = range(3)
MOST_REQUESTS = 256  # an event counts sectors in one byte

# What a warp stands at. HELD: it needs data of a load that has not yet been through the load-store unit (the load is in `PC`).
DO_MEMORY, DO_BARRIER, DO_EXIT, HELD = 0, 1, 2, 3
# A way's word.
VALID_MASK, DIRTY, LEVEL_SHIFT, TAG_SHIFT = (1 << 16) - 1, 1 << 16, 17, 20
# Kinds of stops and of accesses.
WAIT, SECTORS, SHARED, BARRIER = 0, 1, 2, 3
IS_LOAD, IS_STORE, IS_ATOMIC = 0, 1, 2
GTO, LRR = 0, 1
LEVEL_L1, LEVEL_L2, LEVEL_DRAM = 0, 1, 2

COUNTERS = 25
(
    EXECUTIONS,
    DIVERGENT,
    TOUCHED_SECTORS,
    SLOWEST_L1,
    SLOWEST_L2,
    SLOWEST_DRAM,
    L1_READS,
    L1_HITS,
    L1_MISSES,
    L1_MERGES,
    L1_WRITES,
    L2_READS,
    L2_READ_HITS,
    L2_READ_MISSES,
    L2_READ_MERGES,
    L2_WRITES,
    L2_WRITE_HITS,
    L2_WRITE_MISSES,
    DRAM_READS,
    DRAM_WRITES,
    SHARED_EXECUTIONS,
    SHARED_PASSES,
    SLOWEST_MERGED,
    MERGED_WAIT_CYCLES,  # kept in ticks while it runs
    ATOMIC_REPEATS,
) = range(COUNTERS)
