"""The memory that native code and Python share: one context per launch, one state per warp. Defined here, once, for both sides.

The context is an array of int64 slots. The state of a warp is a byte record, one after the other for the warps of a block.
"""

from __future__ import annotations

from enum import IntEnum

WARP = 32

# The device's address space. Global and constant memory lie in an arena that the host maps; the windows are where generic addresses
# of shared and local memory live; local memory is recorded in traces as if interleaved word by word from LOCAL_TRACE_BASE.
EXTERNAL_BASE = 1 << 19  # addresses of the functions that the runtime provides
FUNCTION_BASE = 1 << 20  # the address of a function is a number in a range where no data lie
FUNCTION_STEP = 16
SHARED_WINDOW = 1 << 24
LOCAL_WINDOW = 1 << 25
PARAM_WINDOW = 3 << 24
WINDOW_BYTES = 1 << 24
# Generic addresses of shared memory in a cluster of several blocks: from here on, the rank of the block, then the offset in its
# memory. An address in shared memory itself has the rank above the offset too, as on a GPU.
CLUSTER_WINDOW = 1 << 40
RANK_SHIFT = 24
MOST_RANKS = 16  # blocks of a cluster (CUDA C++ Programming Guide: 8 are portable, a GPU may allow 16)
ARENA_BASE = 1 << 32
ARENA_LIMIT = 1 << 36
LOCAL_TRACE_BASE = 1 << 36


# Tensor memory of a block (sm_100): lanes of columns of 32 bits, then two words about what is allocated.
TENSOR_LANES, TENSOR_COLUMNS = 128, 512
TENSOR_BYTES = 4 * TENSOR_LANES * TENSOR_COLUMNS + 16


class Slot(IntEnum):
    """Index of an int64 in the context. `*_CURSOR`, `*_END` and `*_PTR` are host addresses."""

    (
        ARENA_DELTA,  # host address minus device address of global memory
        PARAM_PTR, SHARED_PTR,
        SHARED_SIZE,  # what accesses may reach: the allocated bytes, with memcheck only those that the launch has asked for
        LOCAL_PTR,  # of the running block: [warp][lane][local_size]
        LOCAL_SIZE,
        ALLOC_PTR, ALLOC_COUNT,  # live allocations, int64 rows (low, high, writable)
        SITE_PTR,  # per memory instruction, int64 rows (low, high): the allocation it last hit
        PATTERN_PTR,  # per shared-memory instruction, its last pattern of words and that pattern's conflict degree
        PATH_CURSOR, PATH_END, EVENT_CURSOR, EVENT_END, SECTOR_CURSOR, SECTOR_END, SEGMENT_CURSOR, SEGMENT_END,
        SECTOR_SOFT_END, EVENT_SOFT_END, PATH_SOFT_END,  # the driver returns to Python after the block that passes one
        INSTRUCTIONS,  # warp instructions so far
        POLL_AT,  # instruction count at which native code asks Python whether to go on
        FAULT_KIND, FAULT_PC, FAULT_LANE, FAULT_ADDRESS, FAULT_WARP,
        FAULT_BYTES,  # of an access to device memory out of line
        CTAID_X, CTAID_Y, CTAID_Z, NCTAID_X, NCTAID_Y, NCTAID_Z,
        NTID_X, NTID_Y, NTID_Z,
        BLOCK,  # linear number of the running block
        WARP,  # number of the running warp in its block
        WARPS_PER_BLOCK, STATE_PTR, STATE_STRIDE,
        TID_PTR,  # int32 [warp][3][32]
        LAST_WARP_MASK, DYNAMIC_SHARED,
        VOTES, VOTERS,  # lanes that voted yes, and all that voted, at the barrier that the block has passed
        VOTES_COMING, VOTERS_COMING,  # the same for the barrier that it is coming to
        PARAM_SIZE,  # bytes
        IMAGE_PTR, IMAGE_COUNT,  # packed descriptors of textures, surfaces and samplers: see `textures/objects.py`
        LOCAL_CLEARED,  # bytes at the start of each lane's local memory that blocks have used: what the next one clears
        RECORD_PTR,  # the running block's barriers and progress, int64 [RECORD_ROWS][RECORD_WORDS]
        RESUMING,  # not 0: the block named first has run before; native code clears it
        STALLED,  # native code sets it when it returns a block whose warps all spin
        STALL_ROUNDS,  # turns of all warps without progress after which a block counts as stalled
        HOLD,  # not 0: blocks are suspended, so that nothing can be drained
        WORKSPACE,  # device address of what cooperative groups synchronise the grid with, 0 if the kernel does not ask for it
        # With initcheck: from a byte of that memory to its shadow, as a distance between host addresses.
        SHARED_SHADOW, LOCAL_SHADOW, GLOBAL_SHADOW,
        WATCH_PTR, WATCH_BLOCK_PTR, CELLS_PTR,  # with checks, the words that `watcher.py` describes, and racecheck's cells
        PROBE_PTR,  # of code compiled with probes: what they look for and find (see `recording.py`)
        OUTSIDE_PTR,  # of accesses out of bounds that are let through: see `OUTSIDE_ROW_WORDS`; 0: they are faults
        CHANCE_PTR,  # of code compiled for other orders: what decides between orders (see `orders.py`)
        # Of a block in a cluster: host address of the shared memory of rank 0, the distance to that of the next rank, its own rank,
        # the cluster's shape and blocks, whether the launch asked for clusters, and where the cluster's barrier lies, in words
        # behind RECORD_PTR: its generation, then for each rank the generation that it has arrived in, plus 1.
        CLUSTER_SHARED, CLUSTER_STRIDE, CLUSTER_RANK, CLUSTER_X, CLUSTER_Y, CLUSTER_Z, CLUSTER_BLOCKS, CLUSTER_EXPLICIT,
        CLUSTER_RECORD,
        TENSOR_PTR,  # the running block's tensor memory, of kernels that use it: see `TENSOR_BYTES`
        PRODUCT_PTR,  # for each pc, an int64: the descriptor of a product with tensor memory, plus 1; -1 where it has had several
        TOTAL_SHARED, AGGREGATE_SHARED,  # bytes allocated for the block, without and with those of the system
        COUNT,
    ) = range(83)  # fmt: skip


class Fault(IntEnum):
    """Why a launch was stopped. Zero is none."""

    (
        OUT_OF_BOUNDS, MISALIGNED, READ_ONLY, SHARED_BOUNDS, LOCAL_BOUNDS, PARAM_BOUNDS, TRAP, LIMIT, INTERRUPTED, NO_MEMORY,
        BRANCH_INDEX, GENERIC_SPACE, BARRIERS_DIFFER, MBARRIER_STATE, MBARRIER_COUNT, ALLOCA_OVERFLOW, BULK_SIZE, WARP_INCOMPLETE,
        BAD_IMAGE, IMAGE_KIND, SURFACE_BOUNDS, STACK_OVERFLOW, CALL_DEPTH, CALL_TARGET, RETURN_TARGET, DEADLOCK, BARRIER_OPERAND,
        MEETING_APART, BREAKPOINT, ASSERTION, USE_AFTER_FREE, DOUBLE_FREE, BAD_FREE, UNWRITTEN, CLUSTER_RANK, TENSOR_MAP,
        TENSOR_FORM, GROUP_INCOMPLETE, TENSOR_MEMORY, TENSOR_COLUMNS, PRODUCT_FORM, TENSOR_RANGE,
    ) = range(1, 43)  # fmt: skip


# Accesses out of bounds that are let through: zeros that each lane reads, or a place for what it writes, then for each memory
# instruction int64 words: how many there were, and of the first one pc, lane, address, warp and block. Only what lies in a page of
# device memory with an allocation is let through: the rest stops on a GPU too.
OUTSIDE_LANE_BYTES = 32
OUTSIDE_ROW_WORDS = 6
MAPPED_PAGE_BITS = 21  # 2 MiB, the granularity of cuMemGetAllocationGranularity (CUDA driver API)

# A remembered pattern: 32 int32 word offsets from lane 0's, int32 mask, int32 degree.
PATTERN_BYTES = 192

# Result of the native warp function.
EXITED, BARRIER, FAULTED, YIELDED = 0, 1, 2, 3

# The state of a warp: int32 words, the reconvergence stack, then, at a multiple of 128 bytes, the register save area.
RESUME, MASK, RECONVERGE, DEPTH, GONE, START = range(6)  # int32 words; GONE: lanes that left the kernel, START: all there were
# The words that follow are those of warps that can be suspended anywhere (see `lane_scheduler.py`).
BUDGET, GIVEN = 6, 7  # loops it may still close before it gives way, and how many it was given when it last did
STATUS, SEEN = 8, 9  # result of its last turn, and how many barriers of its block had opened by then
STORES, STORES_SEEN = 10, 11  # basic blocks with stores that it has run, now and when it last gave way
PATIENCE = 12  # 1 when it last gave way to other warps, 0 when to lanes of its own
YES, WOKEN_BY, WAIT_PC = 13, 14, 15  # lanes that vote yes; the barrier that has opened for it; where it last began to wait
CLUSTER_LANES, CLUSTER_GENERATION = 16, 17  # lanes that have arrived at the cluster's barrier, in which generation
AWAITED, AWAITED_PC = 18, 19  # with synccheck: lanes that waited where the lanes of a barrier were to come, and its pc
PASSED, AROUND = 20, 21  # and bits of barriers: those that it came to, and those that it went around, since it last did the other
SIGNALLED = 22  # 1 when it has signalled an mbarrier, and not waited for a phase since
STATE_WORDS = 23
STATE_HEADER_BYTES = 128
STACK_ENTRY_WORDS = 4
STACK_ENTRY_BYTES = 4 * STACK_ENTRY_WORDS  # int32 block, mask, reconvergence block of the entry, and what waiting lanes wait for
# Masks of pending entries are disjoint and reconvergence entries strictly nested: at most 64 can exist, and as many again of lanes
# that run ahead to a barrier, with 32 that are parked there.
STACK_ENTRIES = 192

# Calls that are not expanded in place leave an entry each, however deep they are nested: so many more, checked at each call.
CALL_ENTRIES = 8192
RETURN_TOKENS = 1 << 28  # from here on the numbers of calls, where an entry's block or reconvergence block stands

DONE_RESUME = -1
SUSPENDED_RESUME = 1
NO_BLOCK = -1  # "reconverges only at the exit"
PARKED = 1 << 30  # added to the block of lanes that have arrived at a barrier; their entry's third word is the barrier's pc
MEETING = 1 << 29  # added to the block of lanes that wait in front of it for other lanes of their warp
WAKING = 1 << 27  # added to the block of lanes whose barrier has opened
GRANTED = 1 << 26  # added to the block of lanes that need no longer wait in front of it

# A block's record. Rows 0-15 are its barriers, 16 its part in that of its cluster, 17 its progress, 18-25 the barriers of its warp
# groups.
RECORD_ROWS, RECORD_WORDS = 26, 8
CLUSTER_ROW, PROGRESS_ROW, GROUP_ROW = 16, 17, 18
# FIRST_ARRIVAL: with synccheck, of the warp that arrived first its number, and in the lower half the pc, from 1.
ARRIVED, EXPECTED, GENERATION, VOTES_NOW, VOTERS_NOW, VOTES_PASSED, VOTERS_PASSED, FIRST_ARRIVAL = range(8)
OPENED, ADVANCED, LAST_ADVANCED, STALLS, LAST_LIVE, IDLE = range(6)  # IDLE: it has stalled, and none of its warps spins
CLUSTER_RECORD_WORDS = 1 + MOST_RANKS

PATH_ENTRY_BYTES = 8  # uint32 block | lanes << 24... see `recording.py`; uint32 repeat
SEGMENT_MARK = 0xFFFFFFFF
SEGMENT_WORDS = 4  # int64 warp of the launch, path, event and sector cursors at its start
MAX_REPEAT = 0x7FFFFFFF
