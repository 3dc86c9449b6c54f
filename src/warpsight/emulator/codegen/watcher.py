"""What watches a launch for `check`: a table of what was found, and racecheck's order of accesses (`watcher_entries.py` calls it).

Racecheck keeps, for each 4-byte word, the last write and the last reads by two warps. Two accesses of which one writes are a hazard
unless one happens before the other:

- in a block and a cluster, by barriers, and in a warp, by what its lanes meet at (`warp_order.py`);
- between warps of different blocks, and where a flag takes the place of a barrier: the first warp has executed a fence of that
  scope since its access (or a warp that waited for it at a barrier has), and the second warp has read something strongly
  (volatile, relaxed, atomic). Which flag is not looked at: wrong alarms are worse than a missed one (as in iGUARD, Kamath and Basu,
  SOSP 2021). Of locks more is known (`locks.py`).

Bulk copies, and operations on tensor memory, access memory on their own until they have been waited for (`copy_order.py`). Tensor
memory has cells for 16 lanes of a column each, as if it were shared memory from TENSOR_ADDRESS on. What products and copies read in
shared memory must also have been fenced since threads wrote it (`fence.proxy.async`; looked at outside of clusters).

Strong accesses whose scopes cover each other are no hazard (PTX ISA, "Morally strong operations"), nor are writes of a value that
is there already, unless asked for. Volatile accesses are strong to the PTX ISA, but programs mark data so too, which then needs an
order like any other: they count as strong only in kernels that wait in a loop of volatile loads.

The state is int64 words: WATCH, of the launch, with a row for each finding; and words of each block that is running, behind which
the cells of its shared memory lie.
"""

from __future__ import annotations

from warpsight.base.compiled import jit
from warpsight.emulator.codegen import copy_order, locks
from warpsight.emulator.codegen.layout import RANK_SHIFT, TENSOR_COLUMNS, TENSOR_LANES, Slot
from warpsight.emulator.codegen.warp_order import (
    ACQUIRED,
    BLOCKS,
    CLOCK,
    FENCED,
    KIND_NOW,
    KNOWS,
    MET,
    TENSOR,
    arrive,
    is_in_cluster,
    lanes_at,
    meet,
    met_in_cluster,
    part,
    resume,
    start,
    wait_for_cluster,
    words_of_address,
)

# WATCH: how many rows are taken, findings without room for a row, the number of the launch's first warp, whether lanes of a warp
# are told apart, whether writes of equal values count, where the traits of instructions and the fences of warps begin; with
# synccheck where the basic blocks begin: of each the pc of its first instruction, `ONLY_LEAVES` if it does nothing but end, and
# from BARRIER_SHIFT on the number, from 1, of the barrier before it (`meetings.barrier_joins`); where the rows of `locks.py` begin.
FOUND, DROPPED, FIRST_WARP, LANES_APART, EQUAL_VALUES, TRAITS_AT, FENCES_AT, BLOCKS_AT, LOCKS_AT, HEADER = range(10)
# A row: kind, pc, lanes, and of the first lane block, warp, lane and address; then of the other access of a hazard.
KIND, PC, LANES, BLOCK, WARP, LANE, ADDRESS, OTHER_PC, OTHER_WARP, OTHER_LANES, ROW_WORDS = range(11)
ROWS = 1024

# Kinds of hazards, beside those of `Fault`; and by how much more where both accesses are made under one lock, or the other one is a
# copy that may not be done; NOT_FENCED: an asynchronous read of what the generic proxy has written without a fence.
READ_AFTER_WRITE, WRITE_AFTER_READ, WRITE_AFTER_WRITE, UNDER_LOCK, NOT_DONE, NOT_FENCED = 100, 101, 102, 3, 6, 109
TENSOR_ADDRESS, TENSOR_PART = 1 << 19, 16

# And what synccheck finds: at barriers lanes of a warp, then warps, that are not at the same one, or come with another count; lanes
# outside of their member mask; lanes that meet with other masks, or never come; reads of lanes that give nothing; live objects.
LANES_AT_BARRIER, LANES_MISSED_BARRIER, WARPS_AT_BARRIER, BARRIER_COUNTS = range(110, 114)
LANE_NOT_IN_MASK, MASKS_DIFFER, MISSING_LANES, INACTIVE_SOURCE, MBARRIER_LIVE = range(114, 119)
WARPS_MISSED_BARRIER = 119
ONLY_LEAVES, START_MASK, BARRIER_SHIFT = 1 << 40, (1 << 40) - 1, 41

# Traits of instructions: how memory is accessed (STRONG and ATOMIC, within a block only with CTA) and ordered.
STRONG, CTA, ATOMIC, RELEASES, ACQUIRES = 1, 2, 4, 8, 16
_MIXED = 8  # flag of a cell: its lanes accessed different bytes of the word, so which one did what is not known

# A cell: the last write, and the last reads of two warps. Of each warp and clock, then pc, flags, bytes of the word and lanes. The
# clock of an access by a bulk copy (_COPY) is that of `copy_order.py`.
CELL_WORDS = 6
_WRITE, _READ, _OLDER = 0, 2, 4
_PC_SHIFT, _FLAG_SHIFT, _BYTES_SHIFT = 40, 36, 32
_COPY, _PC_MASK = 1 << 62, (1 << 22) - 1
_LOW, _OFFSET = 0xFFFFFFFF, (1 << RANK_SHIFT) - 1  # the latter of an address in shared memory, without the rank

# What `order` is told. RELEASE: an arrival that may be on an mbarrier of another block of the cluster.
# COMMIT and GROUPS: bulk groups. WAITED: for an mbarrier object of the block, the operand is its offset and the parity; INITIALISED
# and ARRIVED: its offset. COMMITTED: products, to an object; LOADED and STORED: loads and stores of tensor memory are done.
BLOCK_STARTS, BARRIER, ARRIVES, CLUSTER_WAIT, WARP_MEETS, FENCE, BLOCK_FENCE, RELEASE, ACQUIRE = range(9)
COMMIT, GROUPS, WAITED, INITIALISED, ARRIVED, COMMITTED, LOADED, STORED, PROXY_FENCE = range(9, 18)
# What a copy completes on, if not an mbarrier object: its group, or nothing that is known here.
BY_GROUP, AT_ONCE, BY_PRODUCTS, BY_LOADS, BY_STORES = range(-1, -6, -1)
# What `access` and `copied` are told, in one number. COMPARES: `atom.cas`, `values` are what it compares with; a copy that reduces.
READS, WRITES, IN_SHARED, COMPARES, COUNT_SHIFT, BYTES_SHIFT = 1, 2, 4, 8, 8, 16

_BLOCK, _WARP, _WARPS = (int(s) for s in (Slot.BLOCK, Slot.WARP, Slot.WARPS_PER_BLOCK))


def block_words(warps: int, shared_bytes: int, tensor: bool) -> int:
    """How many words a block of so many warps needs (`copy_order.py`), with the cells of its memory; most are never touched."""
    bytes_watched = TENSOR_ADDRESS + 4 * TENSOR_COLUMNS * TENSOR_LANES // TENSOR_PART if tensor else shared_bytes
    return int(copy_order.cells_at(warps)) + CELL_WORDS * (-(-bytes_watched // 4) + 4)


@jit()
def _find_row(watch, kind, pc, other):  # type: ignore[no-untyped-def]
    """The first word of the row for this kind and these instructions, and whether it is new; 0 where there is no room."""
    for k in range(watch[FOUND]):
        row = HEADER + k * ROW_WORDS
        if watch[row + KIND] == kind and watch[row + PC] == pc and watch[row + OTHER_PC] == other:
            return row, False
    if watch[FOUND] == ROWS:
        watch[DROPPED] += 1
        return 0, False
    row = HEADER + watch[FOUND] * ROW_WORDS
    watch[FOUND] += 1
    return row, True


@jit()
def note_one(context, watch, kind, pc, lane, address, other_pc, other_warp, other_lanes):  # type: ignore[no-untyped-def]
    """Count one lane's finding. `other_*` are of the other access of a hazard: its pc (-1: none), warp of the launch and lanes."""
    row, fresh = _find_row(watch, kind, pc, other_pc)
    if row == 0:
        return
    watch[row + LANES] += 1
    if fresh:
        watch[row + KIND], watch[row + PC], watch[row + LANES] = kind, pc, 1
        watch[row + BLOCK], watch[row + WARP], watch[row + LANE] = context[_BLOCK], context[_WARP], lane
        watch[row + ADDRESS] = address
        watch[row + OTHER_PC], watch[row + OTHER_WARP], watch[row + OTHER_LANES] = other_pc, other_warp, other_lanes


@jit()
def note_lanes(context, watch, kind, pc, mask, address, other_pc, other_warp, other_lanes):  # type: ignore[no-untyped-def]
    """`note_one` of each lane of a mask."""
    for lane in range(32):
        if mask >> lane & 1:
            note_one(context, watch, kind, pc, lane, address, other_pc, other_warp, other_lanes)


# -- The order of warps and lanes.

@jit()
def _lock_row(context, watch):  # type: ignore[no-untyped-def]
    return watch[LOCKS_AT] + locks.ROW_WORDS * (context[_BLOCK] * context[_WARPS] + context[_WARP])


@jit()
def _fence(context, watch, block, warps, warp, device):  # type: ignore[no-untyped-def]
    """What the warp did, and what it knows that others of the block did, can be seen by who reads strongly."""
    knows, fences = part(KNOWS, warps) + warp * warps, watch[FENCES_AT] + context[_BLOCK] * warps
    clock = block[part(CLOCK, warps) + warp]
    for other in range(warps):
        seen = clock if other == warp else block[knows + other]
        fenced = part(FENCED, warps) + other
        block[fenced] = max(block[fenced], seen)
        if device:
            watch[fences + other] = max(watch[fences + other], seen)
    if watch[LOCKS_AT]:
        locks.note_fence(watch, _lock_row(context, watch), clock + 1, device)
    block[part(CLOCK, warps) + warp] = clock + 1


@jit()
def _resume(block, warps, warp, mask):  # type: ignore[no-untyped-def]
    if resume(block, warps, warp, mask):
        copy_order.hand_on(block, warps, warp, warps)


@jit()
def _order_copies(block, warps, warp, mask, what, operand):  # type: ignore[no-untyped-def]
    if mask == 0:
        return
    if what == COMMIT:
        copy_order.commit(block, warps, warp, copy_order.COPIES)
    elif what == GROUPS:
        copy_order.wait_for_groups(block, warps, warp, copy_order.COPIES, operand)
    elif what in (LOADED, STORED):
        kind = copy_order.LOADS if what == LOADED else copy_order.STORES
        copy_order.commit(block, warps, warp, kind)
        copy_order.wait_for_groups(block, warps, warp, kind, 0)
    elif what == COMMITTED:
        copy_order.commit_products(block, warps, warp, operand & _OFFSET)
    elif what == PROXY_FENCE:
        copy_order.fence_proxies(block, warps, warp)
    elif what == WAITED:
        copy_order.wait(block, warps, warp, operand >> 1 & _OFFSET, operand & 1)
    elif what == INITIALISED:
        copy_order.initialise(block, warps, operand & _OFFSET)
    else:
        copy_order.arrive_on(block, warps, warp, operand & _OFFSET)


@jit()
def order(context, watch, block, mask, what, operand):  # type: ignore[no-untyped-def]
    """Lanes of the mask wait, meet, fence or arrive; see `watcher_entries.order_address`."""
    warps, warp = context[_WARPS], context[_WARP]
    if what == BLOCK_STARTS:
        start(block, warps, context[_BLOCK])
        copy_order.start_copies(block, warps)
        return
    _resume(block, warps, warp, mask)
    if what >= COMMIT:
        _order_copies(block, warps, warp, mask, what, operand)
        return
    if what not in (WARP_MEETS, ACQUIRE):
        copy_order.hand_on(block, warps, warps, warp)
    if what in (BARRIER, ARRIVES, CLUSTER_WAIT):
        if what == CLUSTER_WAIT:
            wait_for_cluster(block, warps, warp, mask)
        else:
            arrive(block, warps, warp, operand, mask, what == BARRIER)
        if watch[LOCKS_AT]:
            locks.note_fence(watch, _lock_row(context, watch), block[part(CLOCK, warps) + warp], True)
    elif what == WARP_MEETS:
        meet(block, warps, warp, mask)
    elif what in (FENCE, BLOCK_FENCE, RELEASE):
        _fence(context, watch, block, warps, warp, what != BLOCK_FENCE)
    if what in (FENCE, ACQUIRE):
        block[ACQUIRED] |= 1 << warp
        copy_order.hand_on(block, warps, warp, warps)


# -- Hazards.

@jit()
def _may_swap(context, watch, number, clock):  # type: ignore[no-untyped-def]
    mine, theirs = _lock_row(context, watch), watch[LOCKS_AT] + locks.ROW_WORDS * number
    same_block = number // context[_WARPS] == context[_BLOCK]
    return watch[LOCKS_AT] != 0 and mine != theirs and locks.may_swap(watch, mine, theirs, clock, same_block)


@jit()
def _ordered(context, watch, block, lane, stamp, info, owner):  # type: ignore[no-untyped-def]
    """Does an earlier access, of another warp or of other lanes of this one, happen before what `lane` does now? The words of the
    block in whose shared memory it lies begin at `owner`.
    """
    warps, warp = context[_WARPS], context[_WARP]
    if info & _COPY:
        own = (stamp >> 32) - watch[FIRST_WARP] - 1 == context[_BLOCK] * warps + warp
        if own and copy_order.in_one_order(stamp & _LOW, warps, warp, block[KIND_NOW]):
            return True
        return copy_order.is_done(block, owner, warps, warp, stamp & _LOW)
    clock, number = stamp & _LOW, (stamp >> 32) - watch[FIRST_WARP] - 1
    other = number - context[_BLOCK] * warps
    same_block = 0 <= other < warps
    if other != warp:
        if same_block and block[part(KNOWS, warps) + warp * warps + other] >= clock:
            return True
        if not same_block and met_in_cluster(block, warps, warp, number, clock):
            return True
        fenced = block[part(FENCED, warps) + other] if same_block else watch[watch[FENCES_AT] + number]
        if fenced < clock or not block[ACQUIRED] >> warp & 1:
            return False
        return not _may_swap(context, watch, number, clock)
    left = info & _LOW & ~(1 << lane)
    if left == 0 or info >> _FLAG_SHIFT & _MIXED or watch[LANES_APART] == 0 or block[part(MET, warps) + warp] >= clock:
        return True
    lanes = lanes_at(warps, warp) + 32 * lane
    unordered = 0
    for k in range(32):
        unordered |= (left >> k & 1) & (block[lanes + k] < clock)
    return unordered == 0


@jit()
def _clash(context, watch, block, stamp, info, touched, flags, shared):  # type: ignore[no-untyped-def]
    """Is an access to the same bytes, and do the scopes of both not cover each other?

    In shared memory only those of the blocks that run in the cluster count, not of blocks that were there before.
    """
    if not info >> _BYTES_SHIFT & touched:
        return False
    number = ((stamp >> 32) - watch[FIRST_WARP] - 1) // context[_WARPS]
    elsewhere = number != context[_BLOCK]
    if elsewhere and shared and not is_in_cluster(block, number):
        return False
    before = info >> _FLAG_SHIFT & 15
    if before & flags & STRONG:
        return elsewhere and (before | flags) & CTA != 0
    return True


@jit()
def _same_value(addresses, values, old, lane, lanes, bounds, size, element, at_once):  # type: ignore[no-untyped-def]
    """Does a lane store, in those of its bytes, what is there, or, `at_once`, what other lanes store by this very access?"""
    for k in range(bounds[0], bounds[1]):
        first = 32 * (k // element) * element + k % element
        mine = values[first + lane * element]
        if not at_once:
            if old[first + lane * element] != mine:
                return False
            continue
        for other in range(32):
            apart = abs(addresses[other] - addresses[lane])
            if not lanes >> other & 1 or other == lane or apart >= size:
                continue
            if apart or values[first + other * element] != mine:
                return False
    return True


@jit()
def _hazard(context, watch, kind, pc, lane, address, stamp, info):  # type: ignore[no-untyped-def]
    warp = (stamp >> 32) - watch[FIRST_WARP] - 1
    if kind != NOT_FENCED:
        kind += NOT_DONE if info & _COPY else UNDER_LOCK * _may_swap(context, watch, warp, stamp & _LOW)
    note_one(context, watch, kind, pc, lane, address, info >> _PC_SHIFT & _PC_MASK, warp, info & _LOW)


@jit()
def _merged(info, before):  # type: ignore[no-untyped-def]
    """An access with the lanes and bytes of another of its warp."""
    differ = (info ^ before) >> _BYTES_SHIFT & 15
    return info | before & (_LOW | 15 << _BYTES_SHIFT | _MIXED << _FLAG_SHIFT) | (_MIXED << _FLAG_SHIFT if differ else 0)


@jit()
def _read(cells, at, stamp, info, met):  # type: ignore[no-untyped-def]
    """Remember a read of one lane."""
    known, before = cells[at + _READ], cells[at + _READ + 1]
    if known >> 32 != stamp >> 32 or (before | info) & _COPY:
        cells[at + _OLDER], cells[at + _OLDER + 1] = known, before
    elif known & _LOW > met:  # lanes that have read since the warp last met as a whole stay in the set
        info = _merged(info, before)
    cells[at + _READ], cells[at + _READ + 1] = stamp, info


@jit()
def _load(context, watch, block, cells, at, stamp, info, low, lane, met, oldest, shared, owner):  # type: ignore[no-untyped-def]
    """Lanes of `info`, the first of which is `lane`, read bytes of a word, from address `low` on."""
    wrote, how = cells[at], cells[at + 1]
    touched, flags = info >> _BYTES_SHIFT & 15, info >> _FLAG_SHIFT & 15
    # What another warp wrote is in one order with all lanes, and so is what this one wrote before its lanes met.
    one_order = wrote >> 32 != stamp >> 32 or wrote & _LOW <= met
    clash = wrote >> 32 > oldest and _clash(context, watch, block, wrote, how, touched, flags, shared)
    if clash and not (one_order and _ordered(context, watch, block, lane, wrote, how, owner)):
        left, pc = (info & _LOW) >> lane, info >> _PC_SHIFT & _PC_MASK
        while left:
            if left & 1 and not _ordered(context, watch, block, lane, wrote, how, owner):
                _hazard(context, watch, READ_AFTER_WRITE, pc, lane, low & _OFFSET if shared else low, wrote, how)
            lane, left = lane + 1, left >> 1
    _read(cells, at, stamp, info, met)


@jit()
def _check_fence(context, watch, block, cells, at, pc, lane, low, oldest):  # type: ignore[no-untyped-def]
    """An asynchronous operation reads a word of shared memory, from address `low` on: was it fenced since a warp wrote it?"""
    wrote, how = cells[at], cells[at + 1]
    warp = (wrote >> 32) - watch[FIRST_WARP] - 1 - context[_BLOCK] * context[_WARPS]
    if block[BLOCKS] > 1 or wrote >> 32 <= oldest or how & _COPY or low >= TENSOR_ADDRESS or not 0 <= warp < context[_WARPS]:
        return
    if block[copy_order.fenced_at(context[_WARPS]) + warp] < wrote & _LOW:
        _hazard(context, watch, NOT_FENCED, pc, lane, low, wrote, how)


@jit()
def _store(context, watch, block, cells, at, stamp, info, low, lane, oldest, shared, owner, given):  # type: ignore[no-untyped-def]
    """A lane writes bytes of a word, from address `low` on. `given` is what all lanes store; `element` is 0 if not known."""
    addresses, values, old, size, element = given
    touched, flags, begin = info >> _BYTES_SHIFT & 15, info >> _FLAG_SHIFT & 15, addresses[lane]
    wrote, how = cells[at], cells[at + 1]
    for slot in (_WRITE, _READ, _OLDER):
        seen, by = cells[at + slot], cells[at + slot + 1]
        at_once = seen == stamp and not by & _COPY
        if seen >> 32 <= oldest or (slot != _WRITE and at_once):
            continue
        if not _clash(context, watch, block, seen, by, touched, flags, shared):
            continue
        if _ordered(context, watch, block, lane, seen, by, owner):
            continue
        bounds = (low - begin, min(begin + size, (low | 3) + 1) - begin)
        equal = element and _same_value(addresses, values, old, lane, by & _LOW, bounds, size, element, at_once)
        if not equal or watch[EQUAL_VALUES]:
            kind = WRITE_AFTER_WRITE if slot == _WRITE else WRITE_AFTER_READ
            _hazard(context, watch, kind, info >> _PC_SHIFT & _PC_MASK, lane, low & _OFFSET if shared else low, seen, by)
    if wrote == stamp and not info & _COPY:
        info = _merged(info, how)
    cells[at], cells[at + 1] = stamp, info
    cells[at + _READ], cells[at + _OLDER] = 0, 0


@jit()
def _rise(addresses, mask):  # type: ignore[no-untyped-def]
    """Is each lane's address above that of the lane before? Then no two are the same, which takes long to find out else."""
    last = -1
    for lane in range(32):
        if mask >> lane & 1:
            if addresses[lane] <= last:
                return False
            last = addresses[lane]
    return True


@jit()
def access(context, watch, block, cells, first, mask, pc, addresses, what, values, old):  # type: ignore[no-untyped-def]
    """One access of a warp. `cells[first]` is the cell of address 0; see `watcher_entries.access_address` for the rest."""
    warps, warp = context[_WARPS], context[_WARP]
    traits = watch[watch[TRAITS_AT] + pc]
    _resume(block, warps, warp, mask)
    if traits & RELEASES:
        _fence(context, watch, block, warps, warp, not traits & CTA)
        copy_order.hand_on(block, warps, warps, warp)
    if traits & ACQUIRES or (traits & STRONG and what & READS):
        block[ACQUIRED] |= 1 << warp
        copy_order.hand_on(block, warps, warp, warps)
    element, shared = what >> BYTES_SHIFT, what & IN_SHARED != 0
    size, flags = (what >> COUNT_SHIFT & 255) * element, traits & (STRONG | CTA | ATOMIC)
    clock = block[part(CLOCK, warps) + warp] + 1
    block[part(CLOCK, warps) + warp] = clock
    met = block[part(MET, warps) + warp]
    if watch[LOCKS_AT] and what & WRITES and not shared:
        row = _lock_row(context, watch)
        locks.note_write(watch, row, clock, mask, addresses, element if what & COMPARES else 0, values, old)
        if traits & ACQUIRES:
            locks.note_fence(watch, row, clock, not traits & CTA)
    # In shared memory only what the running block did counts, in a cluster and elsewhere what this launch did.
    oldest = watch[FIRST_WARP] + (context[_BLOCK] * warps if shared and block[BLOCKS] < 2 else 0)
    stamp = (watch[FIRST_WARP] + context[_BLOCK] * warps + warp + 1) << 32 | clock
    given = (addresses, values, old, size, 0 if what & READS else element)
    left, lane = mask, -1
    may_share = not what & WRITES and not _rise(addresses, mask)
    while left:
        lane = lane + 1
        if not left >> lane & 1:
            continue
        begin, lanes = addresses[lane], 1 << lane
        if may_share:  # lanes that read the same are one
            for other in range(lane + 1, 32):
                lanes |= (left >> other & 1 & (addresses[other] == begin)) << other
        left &= ~lanes
        owner = words_of_address(block, begin) if shared else 0
        home = first + owner - (CELL_WORDS * (begin >> RANK_SHIFT << RANK_SHIFT - 2) if shared else 0)
        for word in range(begin >> 2, (begin + size + 3) >> 2):
            low, high = max(begin, 4 * word), min(begin + size, 4 * word + 4)
            touched = (1 << (high - 4 * word)) - (1 << (low - 4 * word))
            at = home + CELL_WORDS * word
            info = pc << _PC_SHIFT | flags << _FLAG_SHIFT | touched << _BYTES_SHIFT | lanes
            if what & WRITES:
                _store(context, watch, block, cells, at, stamp, info, low, lane, oldest, shared, owner, given)
            else:
                _load(context, watch, block, cells, at, stamp, info, low, lane, met, oldest, shared, owner)


@jit()
def copied(context, watch, block, cells, first, nothing, lane, pc, address, size, until, what):  # type: ignore[no-untyped-def]
    """A bulk copy accesses `size` bytes from an address on; `until` is the offset of its mbarrier object, BY_GROUP or AT_ONCE."""
    warps, warp = context[_WARPS], context[_WARP]
    _resume(block, warps, warp, 1 << lane)
    clock = block[part(CLOCK, warps) + warp] + 1
    block[part(CLOCK, warps) + warp] = clock
    met, shared = block[part(MET, warps) + warp], what & IN_SHARED != 0
    owner = words_of_address(block, address) if shared else 0
    if until >= 0:
        there = words_of_address(block, until)
        clock = copy_order.clock_of_object(block, there, warps, until & _OFFSET)
        if clock >= 0 and shared and there != owner:
            clock = copy_order.clock_elsewhere(block, there, clock)
    elif until != AT_ONCE:
        kind = (copy_order.COPIES, AT_ONCE, copy_order.PRODUCTS, copy_order.LOADS, copy_order.STORES)[-1 - until]
        clock = copy_order.clock_of_group(block, warps, warp, kind)
        block[KIND_NOW] = kind
        if kind != copy_order.COPIES:
            block[TENSOR] = 1
            clock = copy_order.clock_elsewhere(block, 0, clock) if owner else clock
    if clock < 0:
        return
    home = first + owner - (CELL_WORDS * (address >> RANK_SHIFT << RANK_SHIFT - 2) if shared else 0)
    oldest = watch[FIRST_WARP] + (context[_BLOCK] * warps if shared and block[BLOCKS] < 2 else 0)
    stamp = (watch[FIRST_WARP] + context[_BLOCK] * warps + warp + 1) << 32 | clock
    flags = STRONG | ATOMIC if what & COMPARES else 0
    about = (0 if until == AT_ONCE else _COPY) | pc << _PC_SHIFT | flags << _FLAG_SHIFT | 1 << lane
    for word in range(address >> 2, (address + size + 3) >> 2):
        low, high = max(address, 4 * word), min(address + size, 4 * word + 4)
        info = about | ((1 << (high - 4 * word)) - (1 << (low - 4 * word))) << _BYTES_SHIFT
        at = home + CELL_WORDS * word
        if what & WRITES:
            given = (block, nothing, nothing, size, 0)
            _store(context, watch, block, cells, at, stamp, info, low, lane, oldest, shared, owner, given)
        else:
            if until == BY_PRODUCTS:
                _check_fence(context, watch, block, cells, at, pc, lane, low, oldest)
            _load(context, watch, block, cells, at, stamp, info, low, lane, met, oldest, shared, owner)
    block[KIND_NOW] = copy_order.COPIES
