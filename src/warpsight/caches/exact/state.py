"""The state of the cache simulation: one record per unit of the GPU, all reached from `State`.

Python fills these records (`simulate`), compiled code reads and writes them; each module of this package is one unit and changes
its own records. Times are *ticks*, `TICKS` to a core cycle. Lines are numbered by byte address // line size, and a *mask* has a bit
for each 32 B sector of a line.
"""

from __future__ import annotations

from warpsight.base.records import CACHE_LINE_BYTES, Constants, Int32, Record, Table, UInt8, UInt16, UInt32
from warpsight.traces.window import WindowWarp

TICKS = 1024
NEVER = 1 << 62
NO_LINE = 0xFFFFFFFF  # no line of 32 bytes or more has this number below 128 GiB, which is as far as sectors are numbered
FEW_LOADS = 63  # of a kernel: one word tells which of them may be on their way
ALL_LOADS = (1 << FEW_LOADS) - 1
HOST_LINE = CACHE_LINE_BYTES // 8  # integers in a line of the host's caches
FEW_WAYS = 8  # of a set of an L1: their order of use fits into a word, and their tags lie side by side
AT_ONCE = 16  # tags of an L2 that are compared at once
MOST_PLACES = 1 << 16  # of a scheduler

# Warp scheduler policies.
GTO, LRR = 0, 1
# What a warp waits to do. HELD: it needs the data of a load that has not yet passed the load-store unit (the load is in `Warp.pc`).
DO_MEMORY, DO_BARRIER, DO_EXIT, HELD = range(4)
# Kinds of stops, and of memory accesses.
WAIT, WAIT_ONE, SECTORS, SHARED, BARRIER = range(5)
IS_LOAD, IS_STORE, IS_ATOMIC = range(3)
# Where a request was served; FAR: in the partition of the L2 that is not the SM's own.
LEVEL_L1, LEVEL_L2, LEVEL_FAR, LEVEL_DRAM = range(4)


class Cache(Constants):
    """The geometry of a cache."""

    sets: int
    ways: int
    index_rule: int
    line_sectors: int
    latency: int


class Machine(Constants):
    """The GPU and the launch, constant while the simulation runs."""

    sm_count: int
    schedulers: int  # per SM
    policy: int
    blocks_per_sm: int
    warps_per_block: int
    warp_slots: int  # per SM
    scheduler_slots: int  # of these per scheduler, at most
    blocks: int  # of the launch
    cluster_blocks: int  # that start together, on SMs of one GPC
    gpcs: int
    in_order: bool  # blocks start in the order of their numbers
    loads: int  # of the kernel: instructions that load or do an atomic, and write a register; in no more host lines than they need
    issue_ticks: int  # per warp instruction and scheduler
    looks_ahead: bool  # the records of all SMs do not fit the host's nearest caches, so those of the next ones are asked for
    access_queue: int  # issued accesses that can wait for the load-store unit of an SM
    request_ticks: int  # per line request of the load-store unit
    most_requests: int  # of an access
    tag_banks: int  # of the L1, in each of which it looks up a line in a cycle; a power of two
    patience: int  # how far one access may run ahead before the other SMs take their turns
    l1: Cache
    l1_mshrs: int
    l1_buckets: int  # of an L1's table of lines, a power of two
    l1_on_fill: bool  # a line in flight holds no way of its set
    l2: Cache
    l2_way_bits: int  # of a way in the order of use of its set
    l2_order_words: int  # of a set
    slices: int
    lines_per_piece: int  # L2 lines in a row that belong to one slice
    slice_rule: int  # of `addressing.mapping.SLICE_INDEX_RULES`
    reply_ticks: int  # per line through the port of a slice
    store_ticks: int  # the least that a store occupies the input port of a slice
    store_backlog: int  # how long stores can queue at that port before they wait in the SM
    atomic_width: int  # bytes of a sector that a slice changes in a cycle for an atomic
    fetch_backlog: int  # the same for lines that stores fetch from memory
    channels: int
    dram_latency: int
    dram_ticks: int  # per sector of the L2 and channel
    unit_sectors: int  # 32 B sectors in a sector of the L2
    row_lines: int  # L2 lines in a row of a memory bank; 0: rows cost nothing
    dram_queue: int  # accesses of which a channel takes those to one row together
    partitions: int  # of the L2
    far_latency: int  # what the way to the other partition adds
    merged_reads: int  # of a sector that a slice answers together
    random: bool  # the L2 evicts any line, not the least recently used
    masks: bool  # the L2 marks the bytes of a partial write, and does not fetch the rest
    most_dirty: int  # lines of an L2 set
    lookahead: int  # length of a round: how far one SM may be ahead of another
    first_sm_step: int  # SMs by which the one that goes first moves on from round to round


class BasicBlock(Constants):
    """A basic block. One more row marks the end of the stops."""

    first_stop: int
    tail_instructions: int  # after its last stop
    tail_ticks: int


class Stop(Constants):
    """A place in a basic block where a warp does something that needs the simulation."""

    kind: int
    item: int  # WAIT: a mask of loads below FEW_LOADS; WAIT_ONE: the number of another; otherwise a pc
    instructions: int  # since the stop before
    ticks: int


class Instruction(Constants):
    """What the simulation knows of the instruction at a pc."""

    access: int
    access_bytes: int  # per lane
    packed_lines: int
    event_bytes: int
    sector_bytes: int  # of the event: how many of its first bytes count sectors
    has_degree: bool
    adds_lanes_up: bool
    bypasses_l1: bool
    issue_cost: int  # instructions that it counts for: 0 without time
    load: int  # its number among the loads and atomics that write a register; -1: none


class PathEntry(Constants):
    """Part of a dynamic instruction stream: a basic block, the active lanes, and how often it runs. There can be 10^8 of them."""

    block: UInt32
    lanes: UInt32
    repeat: UInt32


class RequestCounters(Record):
    """The counts of one pc that every simulation of the hierarchy keeps, as `MissProfile` names them."""

    executions: int
    divergent: int
    l1_reads: int
    l1_hits: int
    l1_misses: int
    l1_merges: int
    l1_writes: int
    tag_cycles: int
    l2_reads: int
    l2_read_hits: int
    l2_far_hits: int  # of these
    l2_read_misses: int
    l2_read_merges: int
    l2_joins: int  # reads that a slice answers together with an earlier one
    l2_writes: int
    l2_write_hits: int
    l2_write_misses: int
    dram_reads: int
    dram_writes: int
    dram_read_sectors: int
    dram_write_sectors: int
    dram_rows: int


class Counters(RequestCounters):
    """All counts of one pc; `merged_wait_cycles` is kept in ticks, `atomic_cycles` in bytes at `atomic_width`."""

    sectors: int
    slowest_l1: int
    slowest_l2: int
    slowest_far: int  # of these
    slowest_dram: int
    slowest_merged: int
    merged_wait_cycles: int
    shared_executions: int
    shared_passes: int
    atomic_repeats: int
    atomic_cycles: int
    shared_repeats: int


class Slot(Record):
    """A warp slot."""

    id: int  # of its warp; -1: it is free


class Warp(Record):
    """What changes as the warp in a slot goes on: two lines of the host's cache, of which a choice of warps needs one."""

    # What its streams need.
    event: int
    event_end: int
    event_wrap: int  # where its loop's events begin again, as long as laps are left
    sector: int
    sector_wrap: int  # the same of its sectors; NEVER: nowhere any more
    sectors_left: int  # of events that were not read, as if its loop were not packed
    event_period: UInt32
    event_laps: UInt32  # left to be read
    sector_period: UInt32
    lap: UInt32  # from 0 on, of the sector that is read next
    # What schedulers and the load-store unit need.
    in_flight: int  # mask of loads: 0 of those below FEW_LOADS whose data is certainly there
    gap: int  # instructions since its last turn
    arrival: int  # when it reached the stop where it stands
    last_lap: UInt32
    path_entry: UInt32
    path_end: UInt32
    repeat: UInt32  # executions left of the basic block
    next_stop: UInt32
    sectors_here: UInt32  # of the access at which it stands
    repeats_here: UInt32
    pc: UInt32
    kind: UInt8  # what it does at that stop
    pending: UInt8  # accesses that it issued and that have not passed the load-store unit
    scheduler: UInt16  # of its slot, which stays
    turn: UInt32  # of its slot: where in `State.eligible`


class Place(Record):
    """Room for a block on an SM."""

    live: int  # warps that have not ended
    waiting: int  # warps at the barrier


class FreePlace(Record):
    """An entry of a GPC's queue of places that wait for a block."""

    sm: int
    place: int
    since: int


class Gpc(Record):
    """SMs among which the blocks of a cluster are placed together (without clusters all SMs), and its queue of free places."""

    first: int  # of its `free_places`, a ring
    room: int
    head: int  # places that have been given to blocks
    tail: int


class Scheduler(Record):
    """A warp scheduler."""

    clock: int  # when it can issue next
    time: int  # when the picked warp can go, if it finds room in the queue of accesses; NEVER: there is none
    picked: Int32  # place (of its own) of the warp that goes next; -1: none
    last: Int32  # place of the warp that went last; -1: none
    issues: bool  # the picked warp stands at an access


class LoadStoreUnit(Record):
    """The load-store unit of an SM: the access being processed and the queue of waiting accesses."""

    free_at: int
    next_event: int
    slot: int  # warp slot (of the GPU) whose access is in work; -1: none
    pc: int
    done: int  # requests that have passed
    requests: int
    busy_banks: int  # of the tags in this cycle
    back: int  # when the data of all requests that have passed is there
    level: int  # the slowest level that served one
    waited: int  # the longest wait of a merged request
    head: int  # of the queue
    length: int
    room_since: int  # when the queue was last full
    turn: int  # the scheduler that goes first of those that act at the same time


class WaitingAccess(Record):
    """An access in the queue of a load-store unit."""

    slot: UInt32
    pc: UInt32
    sectors: UInt32
    repeats: UInt32
    lanes_bytes: UInt32  # of all active lanes together, as the path knows them


class Sm(Record):
    """A streaming multiprocessor."""

    next_event: int  # the earliest of its schedulers and its load-store unit
    gpc: int
    mshr_head: int  # misses in flight: entries `mshr_head` to `mshr_tail` of its MSHRs
    mshr_tail: int
    lsu: LoadStoreUnit


class L1Line(Record):
    """A way of a set of an L1, and the line in it. Ways are numbered within their L1."""

    tag: UInt32
    valid: UInt16  # mask of the sectors that can be read; 0: an empty way
    level: UInt8  # that served the last of them
    newer: UInt32  # the way of its set that was used next after this one
    older: UInt32
    following: UInt32  # number + 1 of the next way of its bucket; 0: none
    ready: int  # when it is, or was, there


class L1Set(Record):
    """A set of an L1, and the order of use of its ways."""

    first: UInt32  # of its ways
    order: UInt32  # of up to FEW_WAYS ways: four bits for each, the lowest for the most recently used; counted from the first
    newest: UInt32  # of more ways: the ends of the list of ways
    oldest: UInt32


class Line(Record):
    """A way of a set of the L2, and the line in it."""

    tag: UInt32
    valid: UInt16  # mask of the sectors that can be read
    dirty: UInt16  # mask of the sectors that memory does not have; one that is not valid was written in part. Both 0: an empty way
    ready: int  # when it is, or was, there


class Copy(Record):
    """What the other partition has of an L2 line."""

    sectors: UInt16  # mask
    ready: int  # when the latest of them is, or was, there


class Flight(Record):
    """A read of an L2 line whose data is on its way, which others may join."""

    line: UInt32
    sectors: UInt32  # mask
    reads: UInt32  # so far
    until: int


class Port(Record):
    """A slice's port or a memory channel, which serves one access after the other."""

    free_at: int
    load: int  # in this window
    accesses: int  # of a channel whose rows are counted, so far


class OpenRow(Record):
    """A row of a channel's memory, and the number (from 1) of the queue of accesses for which it was opened last."""

    row: int
    queue: int


class Spread(Record):
    """How evenly traffic spreads over the ports of one kind."""

    squares: int  # of the weights of the accesses in this window
    busiest: int  # load of the busiest port times ports, over all windows
    total: int  # load of all ports, over all windows


class State(Record):
    """The state of the simulation."""

    machine: Machine
    # The kernel.
    basic_blocks: Table[BasicBlock]
    stops: Table[Stop]
    code: Table[Instruction]
    path: Table[PathEntry]
    counters: Table[Counters]  # [pc]
    l1_groups: Table[int]  # [mask] the L1's own sectors that hold the touched ones
    l2_groups: Table[int]
    # The window on the trace.
    window: Table[WindowWarp]
    events: Table[UInt8]
    sectors: Table[UInt32]
    first_warp: int
    end_warp: int
    bad_warp: int  # whose streams do not fit its path; -1: none
    # The launch.
    next_block: int
    live_warps: int
    has_free_places: bool  # since blocks were started last
    block_order: Table[int]  # the numbers of the blocks in the order in which they start; empty where they start in theirs
    free_places: Table[FreePlace]  # [GPC, place]
    gpcs: Table[Gpc]
    # Rounds.
    turns: int
    round_start: int
    rounds: int
    next_sm: int  # in this round
    # The SMs.
    sms: Table[Sm]
    schedulers: Table[Scheduler]  # [SM, scheduler]
    places: Table[Place]  # [SM, place]
    slots: Table[Slot]  # [SM, slot]
    warps: Table[Warp]  # [SM, slot]
    eligible: Table[int]  # [SM, scheduler, place] when the warp can be picked; NEVER for places without a slot
    ages: Table[int]  # [SM, scheduler, place] the older the warp, the lower; the place in the lowest bits
    load_ready: Table[int]  # [SM, slot, load] when the data is there
    waiting_accesses: Table[WaitingAccess]  # [SM, entry of the queue]
    current: Table[UInt32]  # [most requests] sectors of the access that begins
    upcoming: Table[int]  # [requests in a round] of the SM that acts next: line << 1, with 1 for those that go to the L2
    requests: Table[int]  # [SM, 2, most requests] line numbers and masks of the access being processed
    l1_lines: Table[L1Line]  # [SM, set, way]
    l1_sets: Table[L1Set]  # [SM, set]
    l1_tags: Table[UInt32]  # [SM, set, way] of up to FEW_WAYS ways: `L1Line.tag`, or `NO_LINE`; empty where there are more
    l1_buckets: Table[UInt32]  # [SM, bucket] number + 1 of the first way of each bucket; 0: none
    mshrs: Table[int]  # [SM, 2 MSHRs] when misses in flight return, in order
    in_flight: int  # time of all misses in flight
    held_up: int  # time for which L1s waited for a way
    chance: int  # the state of the generator by which the L2 chooses a line
    # The L2 and the memory.
    l2_lines: Table[Line]  # [slice, set, way]
    l2_copies: Table[Copy]  # [slice, set, way] of the line there; empty where the L2 has no partitions
    l2_tags: Table[UInt32]  # [slice, set, way] `Line.tag`, or `NO_LINE`: where a line is looked for; and AT_ONCE rows of `NO_LINE`
    l2_order: Table[int]  # [slice, set, word] the ways of each set, the most recently used first, `l2_way_bits` each
    l2_dirty: Table[UInt16]  # [slice, set] dirty lines
    flights: Table[Flight]  # [slice, set, way] of the line there; empty where reads are not merged
    replies: Table[Port]  # [slice] to the SMs
    stores: Table[Port]  # [slice] from the SMs
    atomics: Table[Port]  # [slice] repeats of atomics
    channels: Table[Port]
    open_rows: Table[OpenRow]  # [channel, place]
    reply_spread: Spread
    store_spread: Spread
    atomic_spread: Spread
    channel_spread: Spread
