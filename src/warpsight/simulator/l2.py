"""An L2 slice: one packet a cycle reaches its tags; write-back, write-allocate; atomics are executed here.

A write that covers whole sectors needs no data from memory; any other that misses fetches its line first, as a read does, unless
the L2 marks written bytes: then the sector is dirty but not valid, and a read fetches the rest. In an L2 of two partitions a hit
has a longer way back to an SM of the other one, unless an earlier read has brought a copy there; a write drops copies. A packet
that cannot be served (no MSHR, no way that is not on its way, no room before DRAM or in the reply queue) blocks those behind it.
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient, set_bits
from warpsight.addressing.mapping import is_in_other_partition, line_in_slice, set_index
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import codes
from warpsight.simulator.dram import has_room, request_dram, unblock
from warpsight.simulator.noc import push_reply, slice_has_room
from warpsight.simulator.state import DramReply, Packet, Slice, State
from warpsight.simulator.structures import (
    Cache,
    Line,
    Target,
    add_target,
    allocate_mshr,
    end_of,
    find_mshr,
    find_way,
    release_mshr,
    remove_oldest,
    remove_target,
    replace,
    to_front,
    victim,
)


@inlined
def _first_way(state: State, line: int) -> int:
    """The first row of the line's set."""
    within = line_in_slice(line, state.machine.lines_per_piece, state.machine.slices)
    return set_index(within, state.l2.sets, state.l2.index_rule) * state.l2.ways


@inlined
def _write_back(state: State, part: Slice, line: Line, pc: int, now: int) -> None:
    """Write a line that is to be evicted to memory if it is dirty, on the account of `pc`."""
    if line.dirty != 0:
        state.counters[pc].dram_writes += 1
        state.counters[pc].dram_write_sectors += set_bits(line.dirty)
        request_dram(state, part, line.number, line.dirty, 1, -1, now)
        line.dirty = 0


@inlined
def _victim(state: State, cache: Cache, first: int) -> int:
    """The row of the line that is to be evicted, which no miss is pending for, or -1."""
    way = victim(cache, first, state.l2.ways)
    if state.machine.random and way >= 0 and cache.lines[way].number >= 0:
        state.chance = (state.chance * 1103515245 + 12345) & 0x7FFFFFFF  # the generator of the C standard
        other = first + (state.chance >> 12) % state.l2.ways
        way = other if cache.lines[other].pending == 0 else way
    return way


@inlined
def _limit_dirty(state: State, part: Slice, first: int, pc: int, now: int) -> None:
    """Write back the least recently used dirty line of a set that has too many of them, unless the channel has no room."""
    lines, dirty, oldest = part.cache.lines, 0, first
    for way in range(first, first + state.l2.ways):
        if lines[way].dirty != 0:
            dirty, oldest = dirty + 1, way
    if dirty > state.machine.most_dirty and lines[oldest].pending == 0 and has_room(state, part, 1):
        _write_back(state, part, lines[oldest], pc, now)


# -- Replies.

@inlined
def _reply(state: State, part: Slice, packet: Packet, sectors: int, now: int, far_cycles: int) -> None:
    """Answer a packet that was served at the tags; a write without data."""
    reply = part.replies[end_of(part.outbox)]
    reply.sm, reply.kind, reply.handle = packet.sm, packet.kind, packet.handle
    reply.noc_wait, reply.dram_wait, reply.source, reply.far_cycles = packet.noc_wait, 0, codes.FROM_L2, far_cycles
    reply.flight = packet.flight
    push_reply(state, part, reply, sectors, now)


@inlined
def _reply_to_target(state: State, part: Slice, target: Target, dram_wait: int, now: int) -> None:
    """Answer a request that waited for its line."""
    reply = part.replies[end_of(part.outbox)]
    reply.sm, reply.kind, reply.handle = target.sm, target.kind, target.handle
    reply.noc_wait, reply.dram_wait, reply.source, reply.far_cycles = target.noc_wait, dram_wait, codes.FROM_DRAM, 0
    reply.flight = target.flight
    push_reply(state, part, reply, target.sectors, now)


@inlined
def _far_cycles(state: State, part: Slice, packet: Packet, line: Line, needed: int, now: int) -> int:
    """Further cycles of a hit's way from the other partition: all, or what a copy that is on its way still takes."""
    if state.machine.far_cycles == 0 or packet.kind == codes.WRITE:
        return 0
    if not is_in_other_partition(part.number, state.machine.slices, packet.sm):
        return 0
    if needed & ~line.copied != 0:
        line.copy_ready = now + state.machine.far_cycles
        state.counters[packet.pc].l2_far_hits += 1
        return state.machine.far_cycles
    further = max(0, line.copy_ready - now)
    state.counters[packet.pc].l2_far_hits += 1 if 2 * further > state.machine.far_cycles else 0
    return further


@inlined
def _follow_copies(state: State, part: Slice, packet: Packet, line: Line, needed: int) -> None:
    """The other partition has copies of the sectors that its SMs read, and drops those of sectors that are written."""
    if packet.kind != codes.READ:
        line.copied &= ~needed
    elif is_in_other_partition(part.number, state.machine.slices, packet.sm):
        line.copied |= needed


# -- At the tags. False if the packet must wait, and then nothing has changed.

@inlined
def _miss(state: State, part: Slice, packet: Packet, needed: int, first: int, way: int, now: int) -> bool:
    """The packet needs sectors that are not there: wait for them, and fetch those that are not on their way."""
    cache, counters = part.cache, state.counters[packet.pc]
    number, missing = find_mshr(cache, state.l2, packet.line), needed & ~(cache.lines[way].valid if way >= 0 else 0)
    if cache.free_target == state.l2.mshrs * state.l2.targets:
        return False
    if number >= 0:
        if cache.mshrs[number].targets >= state.l2.targets:
            return False
        missing &= ~cache.mshrs[number].pending
    elif cache.free_mshr == state.l2.mshrs:
        return False
    present = way >= 0
    if missing != 0:
        if not present:
            way = _victim(state, cache, first)
        if way < 0 or not has_room(state, part, 2):
            return False
        if not present:
            _write_back(state, part, cache.lines[way], packet.pc, now)
        if number < 0:
            number = allocate_mshr(cache, state.l2, packet.line)
        cache.mshrs[number].pending |= missing
        cache.mshrs[number].expected += 1
        counters.dram_reads += 1
        counters.dram_read_sectors += set_bits(missing)
        request_dram(state, part, packet.line, missing, 0, number, now)
    mshr = cache.mshrs[number]
    line = to_front(cache, first, way) if present else replace(cache, first, way, packet.line)
    line.pending |= mshr.pending & ~line.valid
    if packet.kind != codes.READ:
        line.dirty |= needed
    _follow_copies(state, part, packet, line, needed)
    target = add_target(cache, mshr, packet.handle)
    target.sm, target.kind, target.sectors, target.noc_wait = packet.sm, packet.kind, set_bits(packet.mask), packet.noc_wait
    target.flight = packet.flight
    if packet.kind == codes.WRITE:
        line.valid |= packet.mask
        target.sm = -1  # is answered at once
        counters.l2_writes += 1
        counters.l2_write_misses += 1
        _reply(state, part, packet, 0, now, 0)
    else:
        counters.l2_reads += 1
        counters.l2_read_misses += 1 if missing != 0 else 0
        counters.l2_read_merges += 1 if missing == 0 else 0
    return True


@inlined
def _serve(state: State, part: Slice, packet: Packet, now: int) -> bool:
    """Serve a packet at the tags."""
    if part.outbox.count >= part.outbox.room:
        return False
    cache, counters, first = part.cache, state.counters[packet.pc], _first_way(state, packet.line)
    way, needed = find_way(cache, first, state.l2.ways, packet.line), state.l2.sector_groups[packet.mask]
    present = cache.lines[way].valid if way >= 0 else 0
    covers = packet.kind == codes.WRITE and packet.whole and needed == packet.mask
    marks = packet.kind == codes.WRITE and state.machine.masks
    hit = present & needed == needed
    if marks and way >= 0:
        hit = (present | cache.lines[way].dirty) & needed == needed
    if not hit and not covers and not marks:
        return _miss(state, part, packet, needed, first, way, now)
    if way >= 0:
        line = to_front(cache, first, way)
    else:
        way = _victim(state, cache, first)
        if way < 0 or not has_room(state, part, 1):
            return False
        _write_back(state, part, cache.lines[way], packet.pc, now)
        line = replace(cache, first, way, packet.line)
    far_cycles = _far_cycles(state, part, packet, line, needed, now)
    _follow_copies(state, part, packet, line, needed)
    if packet.kind != codes.READ:
        line.valid |= needed & present if marks and not covers else needed
        line.dirty |= needed
        if state.machine.most_dirty < state.l2.ways:
            _limit_dirty(state, part, first, packet.pc, now)
    if packet.kind == codes.WRITE:
        counters.l2_writes += 1
        counters.l2_write_hits += 1 if hit else 0
        counters.l2_write_misses += 0 if hit else 1
        _reply(state, part, packet, 0, now, 0)
    else:
        counters.l2_reads += 1
        counters.l2_read_hits += 1
        _reply(state, part, packet, set_bits(packet.mask), now, far_cycles)
    return True


@inlined
def _atomic_cycles(state: State, part: Slice, packet: Packet) -> int:
    """Cycles in which the slice changes a sector, at its width and at least one; further lanes at one address take a cycle each.

    What is left of the last cycle is for the slice's next atomic.
    """
    width = state.machine.atomic_width
    work = max(packet.changed, (1 + packet.repeats) * width) + part.atomic_rest
    cycles = quotient(work, width)
    part.atomic_rest = work - cycles * width
    return cycles


@compiled
def look_up(state: State, part: Slice, now: int) -> None:
    """The oldest packet of the slice reaches the tags."""
    packet = part.packets[part.inbox.head]
    before = packet.noc_wait
    packet.noc_wait = before + now - packet.time
    if not _serve(state, part, packet, now):
        packet.noc_wait = before
        part.blocked, state.next_l2[part.number] = True, codes.NEVER  # until memory or the port makes room
        return
    part.blocked = False
    part.busy_until = now + (_atomic_cycles(state, part, packet) if packet.kind == codes.ATOMIC else 1)
    remove_oldest(part.inbox)
    slice_has_room(state, part, now)
    following = max(part.busy_until, part.packets[part.inbox.head].time) if part.inbox.count > 0 else codes.NEVER
    state.next_l2[part.number] = following


@compiled
def fill(state: State, part: Slice, reply: DramReply, now: int) -> bool:
    """Data that an MSHR waited for has arrived; answer its requests. False if the reply queue has no room for all of them."""
    cache, mshr = part.cache, part.cache.mshrs[reply.mshr]
    unblock(state, part, now)
    if mshr.expected == 1 and part.outbox.count + mshr.targets > part.outbox.room:
        return False
    mshr.dram_wait = max(mshr.dram_wait, reply.queued)
    mshr.expected -= 1
    if mshr.expected > 0:
        return True
    line = cache.lines[find_way(cache, _first_way(state, mshr.line), state.l2.ways, mshr.line)]
    line.valid |= mshr.pending
    line.pending = 0
    while mshr.first >= 0:
        target = remove_target(cache, mshr)
        if target.sm >= 0:
            _reply_to_target(state, part, target, mshr.dram_wait, now)
    release_mshr(cache, state.l2, reply.mshr)
    return True
