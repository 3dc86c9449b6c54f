"""The state of the simulated machine: the records of its units, which Python fills and compiled code reads and writes.

Times are core cycles. Ports and buses that pass a fraction of a packet per cycle count in *ticks*, `TICKS` to a cycle.
"""

from __future__ import annotations

from warpsight.base.records import Int32, Record, Table, UInt8, UInt32
from warpsight.caches.exact.state import PathEntry, RequestCounters
from warpsight.simulator.machine import Machine
from warpsight.simulator.structures import Cache, Copy, CopyRequest, Geometry, Load, Phase, Queue
from warpsight.traces.window import WindowWarp

# -- The kernel.

class Instruction(Record):
    """One row per pc."""

    kind: int
    unit: int
    whole: int  # the unit that this one is a part of; itself, if of none
    busy: int  # cycles until its unit takes the next warp instruction
    held: int  # the same of the unit that this one is a part of
    latency: int  # cycles from its issue to that of an instruction that uses its result
    stall: int  # cycles from its issue to the warp's next
    registers: Table[Int32]  # read or written, the written ones first
    register_count: int
    written: int
    operands_read: int  # the register that says that its operands have been read; -1: none does
    operand_cycles: int  # until then
    access: int
    access_bytes: int
    packed_lines: int  # of `addressing.coalescing.packed_lines`
    event_bytes: int
    sector_bytes: int  # of the event: how many of its first bytes count sectors
    has_degree: bool
    remote: bool  # in shared memory it accesses that of another block
    load: int  # its number among the instructions whose data returns later; -1: none of them
    copies: bool  # each lane, asynchronously to shared memory
    bulk: bool  # a copy that the unit for bulk copies makes
    bypasses_l1: bool
    lane_cycles: int  # of an atomic on shared memory: for each further lane at its most shared address
    pipe: int  # of a product that goes on while the warp issues: the unit that it waits for; -1: any other instruction
    ends: int  # a mask of the kinds of groups that end with it
    wait_kind: int  # of the groups that it waits for
    first_group: int  # those closed before this one, 1 the latest; 0: and what came later; -1: for none (or `codes.OLDEST_GROUP`)
    at_barrier: int  # what it does at an mbarrier


class Counters(RequestCounters):
    """Counts per pc. The `miss_*` are sums of cycles over L1 read misses."""

    miss_latency: int
    miss_mshr: int
    miss_noc: int
    miss_dram_queue: int
    miss_dram: int


class CpiStack(Record):
    """Scheduler cycles per pc, by component."""

    base: float
    com_data: float
    com_struct: float
    mem_data: float
    mshr: float
    noc: float
    dram: float
    sync: float
    idle: float
    launch: float


# -- An SM.

class Warp(Record):
    """A warp slot of an SM. Slot `i` belongs to scheduler `i % schedulers`, as bit `i // schedulers` of its masks."""

    id: int  # of the launch; -1: the slot is free
    slot: int
    scheduler: int
    bit: int
    place: int  # of its block
    state: int
    # its path
    entry: int
    end: int
    repeat: int
    pc: int
    block_end: int
    live_lanes: int
    # its events and sectors in the trace window; `taken`: sectors of the events read so far
    event: int
    event_end: int
    sector: int
    sector_end: int
    taken: int
    # its next instruction
    ready_at: int
    cause: int
    buffered: int
    fetched_at: int
    registers_ready: Table[int]  # per register: when its value is there
    # its accesses, and the cycles of the latest load by what it waited for
    outstanding: int
    copied: int  # of these the requests of bulk copies, for which a fence does not wait
    loads: Table[Load]  # by the number of the instruction, then the groups of copies, used in turn
    group: Table[int]  # by kind: the one that is open
    groups_ahead: int  # closed ones that it has not waited for, where waits are for the oldest of them
    products: int  # when its latest product with tensor memory is done
    awaited: int  # AT_BARRIER: the SM's barrier for a part of its block; -1: the block's
    data_wait: int
    unit_wait: int
    mshr_wait: int
    noc_wait: int
    dram_wait: int


class Scheduler(Record):
    """A warp scheduler; masks have a bit for each of its warps."""

    number: int  # counted through all SMs
    index: int  # within its SM
    ready: int  # warps whose operands are there
    wheel: Table[int]  # per cycle of the timing wheel: warps that become ready then
    occupied: int  # cycles of the wheel that have warps
    far: int  # warps in the wheel that become ready later than it spans
    wants: Table[int]  # per unit: warps whose next instruction needs it
    unit_free: Table[int]  # per unit
    last: int  # the warp that issued last
    last_issue: int
    mshr_seen: int  # cycles that the L1 had been blocked at the last issue, by reason
    room_seen: int


class Place(Record):
    """Space for a block on an SM. `live`: warps that have not ended; -1: free."""

    live: int
    at_barrier: int
    free_since: int  # the cycle after which the next block can start there
    order: int  # how many blocks of the launch have started before that of a cluster that is there


class Access(Record):
    """A memory instruction in the load-store unit's queue."""

    slot: int
    pc: int
    load: int
    first: int  # of its sectors, among the warp's
    sectors: int
    passes: int  # through the banks of shared memory
    whole: bool  # writes every byte of the sectors that it touches
    repeats: int  # of an atomic: further lanes at its most shared address
    changed: int  # bytes of each of its sectors that it changes
    time: int  # when it can be taken
    phase: int  # of a bulk copy: the mbarrier on which it completes, as in `Copy`, its bytes, and the blocks that have it
    data: int
    blocks: int
    reaches: int  # of a multicast: the blocks that get the data, which may signal fewer


class Request(Record):
    """A request on its way to the tags of the L1: a line and the mask of its sectors, or one sector of an atomic."""

    line: int
    mask: int
    slot: int
    pc: int
    load: int
    whole: bool
    repeats: int
    changed: int
    time: int  # when it is at the tags
    together: bool  # with the request before it
    born: int  # when it would have been there without a queue
    room_before: int  # cycles that the L1 had been blocked for lack of room by then


class Packet(Record):
    """A request from an SM to an L2 slice."""

    line: int
    mask: int
    kind: int
    sm: int
    handle: int  # of a read: the MSHR; else of the load (`lsu.handle_of`)
    whole: bool
    repeats: int
    changed: int
    pc: int
    since: int  # when it came to the SM's port
    time: int  # when it is at the slice's tags
    noc_wait: int
    flight: int  # of a read that others may join: its number in the slice's `merger`; else -1


class Reply(Record):
    """A reply from an L2 slice to an SM."""

    sm: int
    kind: int
    handle: int
    flits: int
    since: int  # when it came to the slice's port
    time: int  # when it is at the SM
    noc_wait: int
    dram_wait: int
    source: int
    far_cycles: int  # further cycles of its way from the other partition
    flight: int  # as in `Packet`
    joined: bool  # it goes to a read that joined another one, with whose data it passes the slice's port


class Sm(Record):
    """A streaming multiprocessor."""

    number: int
    gpc: int
    # blocks and warps
    places: Table[Place]
    oldest_first: Table[Int32]  # the places of its blocks
    blocks: int
    warps: Table[Warp]
    schedulers: Table[Scheduler]
    first_scheduler: int  # that goes first of those that act in a cycle
    next_fetch: int
    barrier_free: int  # when the unit of barriers has taken the latest arrival
    # load-store unit: accesses that wait, asynchronous copies that wait, the requests of the one in hand, and how many are done
    access_queue: Queue
    accesses: Table[Access]
    async_queue: Queue
    async_copies: Table[Access]
    in_hand: int  # warp slot; -1: none
    copying: bool  # it is an asynchronous copy
    pc: int
    load: int
    whole: bool
    repeats: int
    changed: int
    requests: int
    done: int
    lookups: int  # cycles in which requests were sent
    busy_banks: int  # of the tags in this cycle
    since: int
    room_before: int
    tags_free: int  # when the next request can be sent to the tags
    unit_free: int  # when the data path is free, between registers and the memory of L1 and shared memory
    # unit for bulk copies (TMA), and the mbarriers of the SM's blocks
    copies: Table[Copy]
    copy_queue: Queue
    copy_requests: Table[CopyRequest]
    phases: Table[Phase]
    lines: Table[int]  # [2, most requests]: the lines of the requests, and their masks
    # L1: requests on their way to the tags, and since when and how long it has been blocked by each reason
    pipeline: Queue
    pipeline_requests: Table[Request]
    l1: Cache
    fill_free: int
    blocked: int
    blocked_since: int
    blocked_by_mshr: int
    blocked_by_room: int
    # port to the network
    miss_queue: Queue
    packets: Table[Packet]
    port_free: int  # ticks
    requests_free: int  # ticks: of the TPC with this number
    waits_for: int  # the slice that has no room for the oldest packet; -1: none
    granted: bool  # that slice keeps an entry for it
    # port from the network
    arrival_queue: Queue
    arrivals: Table[Reply]
    arrival_free: int  # ticks
    others_waiting: int
    others_granted: int
    turn: int


# -- L2 and memory.

class Slice(Record):
    """An L2 slice."""

    number: int
    channel: int
    inbox: Queue
    packets: Table[Packet]
    inbox_free: int  # ticks
    others_waiting: int
    others_granted: int
    turn: int
    merger: Cache  # without lines: an `Mshr` for each read that is not answered yet, whose requests are those that joined it
    cache: Cache
    busy_until: int
    atomic_rest: int  # bytes of atomics that are begun and not yet counted as a cycle
    blocked: bool
    outbox: Queue
    replies: Table[Reply]
    outbox_free: int  # ticks
    waits_for: int  # the SM that has no room for the oldest reply; -1: none
    granted: bool


class DramAccess(Record):
    """An access in the queue of a memory channel."""

    sectors: int
    write: int
    slice: int
    mshr: int
    since: int
    row: int
    bank: int


class DramReply(Record):
    """Data that returns to a slice."""

    time: int
    slice: int
    mshr: int
    queued: int  # cycles in the queue


class Bank(Record):
    """A DRAM bank: its open row (-1: none), and when it can transfer (ticks)."""

    row: int
    ready: int


class Channel(Record):
    """A memory channel."""

    number: int
    waiting: int
    accesses: Table[DramAccess]  # in order of arrival
    banks: Table[Bank]
    bus_free: int  # ticks
    row_free: int  # ticks: when the next row can be opened
    last_was_write: int
    returning: Queue
    replies: Table[DramReply]


# -- The whole.

class Issue(Record):
    """An instruction that the watched SM issued."""

    issued: int
    slot: int
    warp: int
    pc: int
    ready: int
    cause: int


class State(Record):
    """The machine, the kernel, and the launch. `next_*` are the times at which each component acts next, one table per step."""

    machine: Machine
    l1: Geometry
    l2: Geometry
    merger: Geometry
    # the launch
    now: int
    next_block: int
    block_order: Table[int]  # the numbers of the blocks in the order in which they start; empty where they start in theirs
    free_places: int
    next_sm: int  # to get a block in this cycle
    cluster_left: int  # blocks of the latest cluster that have not left for their SMs
    cluster_gpc: int  # to which they go
    gpc_blocks: Table[int]  # [GPC] that have gone to it
    residences: Table[int]  # of the blocks of clusters by the order in which they have started: SM x places + place
    next_start: int  # when the next block may start
    sent: int  # ticks, when the next block can leave for its SM
    live_warps: int
    issued: int
    last_end: int
    chance: int  # the state of the generator by which the L2 chooses a line
    bad_warp: int  # whose streams contradict its path; -1: none
    watched: int
    # the trace; `window` holds warps `first_warp` to `last_warp` - 1
    code: Table[Instruction]
    block_start: Table[int]
    path: Table[PathEntry]
    objects: Table[Int32]  # by the number that events give an mbarrier: its number among those of a block; -1: none
    window: Table[WindowWarp]
    first_warp: int
    last_warp: int
    events: Table[UInt8]
    sectors: Table[UInt32]
    # the machine's units
    sms: Table[Sm]
    slices: Table[Slice]
    channels: Table[Channel]
    # the agenda
    agenda: Table[int]  # all of the following, one after the other
    agenda_length: int
    next_return: Table[int]
    next_pick: Table[int]
    next_l2: Table[int]
    next_reply: Table[int]
    next_arrival: Table[int]
    next_l1: Table[int]
    next_port: Table[int]
    next_copy: Table[int]
    next_lsu: Table[int]
    next_scheduler: Table[int]
    due: Table[Int32]  # the components that act in the step at hand
    due_bits: Table[int]
    # results
    counters: Table[Counters]
    stack: Table[CpiStack]
    issues: Table[Issue]
