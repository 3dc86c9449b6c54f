"""Structures that the units share: finite queues, cache sets in LRU order, miss status holding registers (MSHRs), and what is under
way in an SM: loads, groups of asynchronous work, bulk copies, and phases of mbarriers.
"""

from __future__ import annotations

from warpsight.base.compiled import inlined
from warpsight.base.records import Int32, Record, Table, UInt8, UInt16


@inlined
def wrapped(place: int, room: int) -> int:
    """`place % room` for 0 <= place < 2 * room, without the cost of a division."""
    return place - room if place >= room else place


# -- A finite queue. Its entries are a table of the unit, used as a ring buffer.

class Queue(Record):
    """A queue of `count` entries with space for `room`; the oldest is entry `head` of the table."""

    head: int
    count: int
    room: int


@inlined
def end_of(queue: Queue) -> int:
    """The entry that the next element takes (the queue is not full)."""
    return wrapped(queue.head + queue.count, queue.room)


@inlined
def remove_oldest(queue: Queue) -> None:
    """Remove the oldest element."""
    queue.head = wrapped(queue.head + 1, queue.room)
    queue.count -= 1


# -- One set of a cache: its lines in the order of their last use, most recent first, so that LRU needs no time stamps.

class Line(Record):
    """A way of a set. `valid`, `pending` and `dirty` are masks of 32 B sectors: those that can be read, those that a miss will
    bring, and those with data that memory does not have, of which those that are not valid were written in part.
    """

    number: int  # byte address // line size; -1: empty
    valid: UInt16
    pending: UInt16
    dirty: UInt16
    copied: UInt16  # of an L2 slice: sectors that the other partition has a copy of, or on its way until `copy_ready`
    copy_ready: int


class Geometry(Record):
    """The shape of a cache, the same for all L1s and for all L2 slices."""

    sets: int
    ways: int
    index_rule: int  # of `addressing.mapping.SET_INDEX_RULES`
    line_sectors: int
    sector_groups: Table[int]  # per mask of touched 32 B sectors: the mask of the cache's own sectors that hold them
    mshrs: int
    targets: int  # requests that one MSHR can hold
    buckets: int  # a power of two
    allocate_on_fill: bool


class Mshr(Record):
    """The MSHR of one line that is being fetched, and the requests (`Target`) that wait for it, oldest first."""

    line: int
    pending: int  # mask of sectors under way
    expected: int  # replies still to come
    targets: int
    first: Int32
    last: Int32
    next: Int32  # in its bucket, or in the list of free MSHRs
    dram_wait: int  # cycles in the DRAM queue
    keeps: bool  # in an L1: some request does not go past it, so that the line stays


class Target(Record):
    """A request that waits for a line. An L1 uses `since`, `merged` and `pc`; an L2 slice `sm`, `kind`, `sectors`, `noc_wait` and
    `flight`.
    """

    since: int  # when it would have reached the tags without a queue; if merged, when it was merged
    next: Int32
    handle: Int32
    pc: Int32
    sm: Int32
    noc_wait: Int32
    flight: Int32  # as in `Packet`
    sectors: UInt8
    kind: UInt8
    merged: bool


class Cache(Record):
    """The state of an L1 or of an L2 slice."""

    lines: Table[Line]  # `ways` rows per set
    buckets: Table[Int32]  # first MSHR per bucket of line numbers; -1: none
    mshrs: Table[Mshr]
    targets: Table[Target]
    free_mshr: int  # first of the list of free ones; the number of all: none
    free_target: int


@inlined
def find_way(cache: Cache, first: int, ways: int, line: int) -> int:
    """The row of `cache.lines` that holds `line` in the set whose rows begin at `first`, or -1."""
    row = -1
    for way in range(first, first + ways):
        row = way if cache.lines[way].number == line else row
    return row


@inlined
def victim(cache: Cache, first: int, ways: int) -> int:
    """The row of the least recently used line that no miss is pending for, or -1."""
    for way in range(first + ways - 1, first - 1, -1):
        if cache.lines[way].pending == 0:
            return way
    return -1


@inlined
def to_front(cache: Cache, first: int, way: int) -> Line:
    """Make row `way` the most recently used line of its set; returns that line."""
    line = cache.lines[way]
    number, valid, pending, dirty = line.number, line.valid, line.pending, line.dirty
    copied, copy_ready = line.copied, line.copy_ready
    for place in range(way, first, -1):
        cache.lines[place] = cache.lines[place - 1]
    line = cache.lines[first]
    line.number, line.valid, line.pending, line.dirty = number, valid, pending, dirty
    line.copied, line.copy_ready = copied, copy_ready
    return line


@inlined
def replace(cache: Cache, first: int, way: int, number: int) -> Line:
    """Give row `way` to line `number`, without valid sectors, as the most recently used line of its set; returns that line."""
    for place in range(way, first, -1):
        cache.lines[place] = cache.lines[place - 1]
    line = cache.lines[first]
    line.number, line.valid, line.pending, line.dirty = number, 0, 0, 0
    line.copied, line.copy_ready = 0, 0
    return line


# -- MSHRs of a cache. They are found by line number through lists that start in buckets. Free ones are in a list, too, as are free
# targets: `next` of these counts from the entry behind, so that a table of zeros is the list of all and need not be written.

@inlined
def find_mshr(cache: Cache, geometry: Geometry, line: int) -> int:
    """The MSHR of `line`, or -1."""
    number = cache.buckets[line & (geometry.buckets - 1)]
    while number >= 0 and cache.mshrs[number].line != line:
        number = cache.mshrs[number].next
    return number


@inlined
def allocate_mshr(cache: Cache, geometry: Geometry, line: int) -> int:
    """Take the first free MSHR (there is one) for `line`."""
    number, bucket = cache.free_mshr, line & (geometry.buckets - 1)
    mshr = cache.mshrs[number]
    cache.free_mshr = number + 1 + mshr.next
    mshr.line, mshr.next = line, cache.buckets[bucket]
    cache.buckets[bucket] = number
    mshr.pending = mshr.expected = mshr.targets = mshr.dram_wait = 0
    mshr.first = mshr.last = -1
    mshr.keeps = False
    return number


@inlined
def release_mshr(cache: Cache, geometry: Geometry, number: int) -> None:
    """Give the MSHR back."""
    mshr = cache.mshrs[number]
    bucket = mshr.line & (geometry.buckets - 1)
    if cache.buckets[bucket] == number:
        cache.buckets[bucket] = mshr.next
    else:
        before = cache.buckets[bucket]
        while cache.mshrs[before].next != number:
            before = cache.mshrs[before].next
        cache.mshrs[before].next = mshr.next
    mshr.next = cache.free_mshr - number - 1
    cache.free_mshr = number


@inlined
def add_target(cache: Cache, mshr: Mshr, handle: int) -> Target:
    """Add a request to the MSHR (a target is free); the caller fills in the cache's own fields."""
    number = cache.free_target
    target = cache.targets[number]
    cache.free_target = number + 1 + target.next
    target.next, target.handle = -1, handle
    if mshr.last >= 0:
        cache.targets[mshr.last].next = number
    else:
        mshr.first = number
    mshr.last = number
    mshr.targets += 1
    return target


@inlined
def remove_target(cache: Cache, mshr: Mshr) -> Target:
    """Remove the oldest request from the MSHR; its content stays until the next `add_target`."""
    number = mshr.first
    target = cache.targets[number]
    mshr.first = target.next
    if mshr.first < 0:
        mshr.last = -1
    target.next = cache.free_target - number - 1
    cache.free_target = number
    mshr.targets -= 1
    return target


# -- What is under way in an SM.

class Phase(Record):
    """An mbarrier in the shared memory of a block: the phase that is not over, and how the one before it ended."""

    parity: int
    pending: int  # arrivals still to come; -1: not known before the first
    data: int  # bytes still to come
    latest: int  # when the latest of both was there
    over: int  # when the phase before was over, and the cycles of its last copy, if that was what came last
    total: int
    noc_wait: int
    dram_wait: int


class Copy(Record):
    """A bulk copy: requests that the unit has still to send, and those that are not answered yet."""

    pc: int  # -1: this place is free
    slot: int
    phase: int  # of the SM's: the mbarrier on which it completes; -1: none
    data: int  # its bytes, below 0
    group: int  # of writes, among the warp's loads; -1: none
    unsent: int
    remaining: int
    issued: int
    blocks: int  # the ranks, as a mask, of the blocks at whose mbarrier it completes; 0: its own alone
    reaches: int  # those that get the data of a multicast; 0: its own
    first: int  # how many blocks have started before the first of its cluster


class CopyRequest(Record):
    """A request of a bulk copy: a line of the L2 and the mask of its sectors."""

    line: int
    mask: Int32
    copy: Int32


class Load(Record):
    """A load or atomic of a warp that is under way, or a group of asynchronous work: requests still to come, and what its latest
    request has waited for. `done`: when the data of the latest request came.
    """

    remaining: int
    passes: int  # of copies: through the banks of shared memory, when their data comes
    done: int
    issued: int
    pc: int
    mshr_before: int  # cycles that the L1 had been blocked when it was issued, by reason
    room_before: int
    unit_wait: int
    mshr_wait: int
    room_wait: int
