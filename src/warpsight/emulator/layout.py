"""The memory that native code and Python share: one context per launch, one state per warp. Defined here, once, for both sides.

The context is an array of int64 slots. The state of a warp is a byte record, one after the other for the warps of a block.
"""

from __future__ import annotations

from enum import IntEnum, auto

WARP = 32

# The device's address space. Global and constant memory lie in an arena that the host maps; the windows are where generic addresses
# of shared and local memory live; local memory is recorded in traces as if interleaved word by word from LOCAL_TRACE_BASE.
SHARED_WINDOW = 1 << 24
LOCAL_WINDOW = 1 << 25
WINDOW_BYTES = 1 << 24
ARENA_BASE = 1 << 32
ARENA_LIMIT = 1 << 36
LOCAL_TRACE_BASE = 1 << 36
LOCAL_TRACE_LIMIT = 1 << 37


class Slot(IntEnum):
    """Index of an int64 in the context. `*_CURSOR`, `*_END` and `*_PTR` are host addresses."""

    ARENA_DELTA = 0  # host address minus device address of global memory
    PARAM_PTR = auto()
    SHARED_PTR = auto()
    SHARED_SIZE = auto()
    LOCAL_PTR = auto()  # of the running block: [warp][lane][local_size]
    LOCAL_SIZE = auto()
    ALLOC_PTR = auto()  # live allocations, int64 rows (low, high, writable)
    ALLOC_COUNT = auto()
    SITE_PTR = auto()  # per memory instruction, int64 rows (low, high): the allocation it last hit
    PATTERN_PTR = auto()  # per shared-memory instruction, its last pattern of words and that pattern's conflict degree
    PATH_CURSOR = auto()
    PATH_END = auto()
    EVENT_CURSOR = auto()
    EVENT_END = auto()
    SECTOR_CURSOR = auto()
    SECTOR_END = auto()
    SEGMENT_CURSOR = auto()
    SEGMENT_END = auto()
    SECTOR_SOFT_END = auto()  # the driver returns to Python after the block that passes it
    EVENT_SOFT_END = auto()
    PATH_SOFT_END = auto()
    INSTRUCTIONS = auto()  # warp instructions so far
    POLL_AT = auto()  # instruction count at which native code asks Python whether to go on
    FAULT_KIND = auto()
    FAULT_PC = auto()
    FAULT_LANE = auto()
    FAULT_ADDRESS = auto()
    FAULT_WARP = auto()
    CTAID_X = auto()
    CTAID_Y = auto()
    CTAID_Z = auto()
    NCTAID_X = auto()
    NCTAID_Y = auto()
    NCTAID_Z = auto()
    NTID_X = auto()
    NTID_Y = auto()
    NTID_Z = auto()
    BLOCK = auto()  # linear number of the running block
    WARP = auto()  # number of the running warp in its block
    WARPS_PER_BLOCK = auto()
    STATE_PTR = auto()
    STATE_STRIDE = auto()
    TID_PTR = auto()  # int32 [warp][3][32]
    LAST_WARP_MASK = auto()
    DYNAMIC_SHARED = auto()
    VOTES = auto()  # lanes that voted yes, and all that voted, at the barrier that the block has passed
    VOTERS = auto()
    VOTES_COMING = auto()  # the same for the barrier that it is coming to
    VOTERS_COMING = auto()
    COUNT = auto()


class Fault(IntEnum):
    """Why a launch was stopped. Zero is none."""

    OUT_OF_BOUNDS = 1
    MISALIGNED = auto()
    READ_ONLY = auto()
    SHARED_BOUNDS = auto()
    LOCAL_BOUNDS = auto()
    PARAM_BOUNDS = auto()
    TRAP = auto()
    LIMIT = auto()
    INTERRUPTED = auto()
    NO_MEMORY = auto()
    BRANCH_INDEX = auto()
    MIXED_SPACES = auto()
    BARRIERS_DIFFER = auto()


# A remembered pattern: 32 int32 word offsets from lane 0's, int32 mask, int32 degree.
PATTERN_BYTES = 192

# Result of the native warp function.
EXITED, BARRIER, FAULTED = 0, 1, 2

# The state of a warp: int32 words, the reconvergence stack, then the register save area.
RESUME, MASK, RECONVERGE, DEPTH, GONE, START = range(6)  # int32 words; GONE: lanes that left the kernel, START: all there were
STATE_HEADER_BYTES = 32
STACK_ENTRY_BYTES = 12  # int32 block, mask, reconvergence block of the entry
# Masks of pending entries are disjoint and reconvergence entries strictly nested: at most 64 can exist, and as many again of lanes
# that run ahead to a barrier, with 32 that are parked there.
STACK_ENTRIES = 192
SAVE_OFFSET = (STATE_HEADER_BYTES + STACK_ENTRY_BYTES * STACK_ENTRIES + 127) // 128 * 128

DONE_RESUME = -1
NO_BLOCK = -1  # "reconverges only at the exit"
PARKED = 1 << 30  # added to the block of lanes that have arrived at a barrier; their entry's third word is the barrier's pc

PATH_ENTRY_BYTES = 8  # uint32 block | lanes << 24... see skeleton.record_block; uint32 repeat
LANES_SHIFT = 24
SEGMENT_MARK = 0xFFFFFFFF
SEGMENT_WORDS = 4  # int64 warp of the launch, path, event and sector cursors at its start
MAX_REPEAT = 0x7FFFFFFF
