"""The network between SMs and L2 slices: a crossbar with a port at every SM and slice, one network in each direction.

A packet is a header and its data in flits of `noc.flit` bytes, at least one; a port passes `noc.bandwidth / slices`, and that
of an SM takes a third of `noc.store_time` for the header of a store or an atomic, for the mask of its bytes and for each sector;
a store of whole sectors has no mask. The `noc.tpc_sms` SMs of a TPC send the requests of their loads in turn, one a cycle.
A packet leaves its SM's port when the slice has room for it, and the slice's port takes
packets one after the other. Replies travel back in the same way; one from the other partition of the L2 arrives later, and
others pass it. Where several ports wait for room at one end, they get it in turn.

In front of a slice, reads of a line join one that is not answered yet, up to `l2.merged_reads` in all. Those that join take no room
in the slice and no cycle of its tags. The data pass the slice's port once and the port of each SM.
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient, set_bits
from warpsight.addressing.mapping import is_in_other_partition, slice_of_line
from warpsight.base.compiled import compiled, inlined
from warpsight.base.records import Table
from warpsight.simulator import codes
from warpsight.simulator.state import Packet, Reply, Slice, Sm, State
from warpsight.simulator.structures import (
    Copy,
    Queue,
    add_target,
    allocate_mshr,
    end_of,
    find_mshr,
    release_mshr,
    remove_oldest,
    remove_target,
    wrapped,
)


@inlined
def flits_of(state: State, sectors: int) -> int:
    """Flits of a packet with data of so many 32 B sectors."""
    flit = state.machine.flit_bytes
    return max(1, quotient(sectors * 32 + flit - 1, flit))


@inlined
def _cycle_at(ticks: int) -> int:
    """The first cycle that begins at `ticks` or later."""
    return quotient(ticks + codes.TICKS - 1, codes.TICKS)


@inlined
def _reserve(end: Slice | Sm, others: Table[Sm] | Table[Slice], count: int) -> int:
    """Reserve the free entry of a queue at `end` for the next in turn of the `others` that wait for it; -1: none does."""
    if end.others_waiting == 0:
        return -1
    number = end.turn
    while others[number].waits_for != end.number:
        number = number + 1 if number + 1 < count else 0
    end.turn = number + 1 if number + 1 < count else 0
    others[number].waits_for, others[number].granted = -1, True
    end.others_waiting -= 1
    end.others_granted += 1
    return number


@inlined
def _has_turn(port: Slice | Sm, end: Slice | Sm, queue: Queue) -> bool:
    """Whether the `queue` at the other `end` has room for what the `port` sends, or has kept some for it; else the port waits."""
    if port.granted:
        port.granted = False
        end.others_granted -= 1
        return True
    if queue.count + end.others_granted < queue.room:
        return True
    port.waits_for = end.number
    end.others_waiting += 1
    return False


# -- Reads that a slice answers together.

@inlined
def _joins(state: State, part: Slice, packet: Packet, noc_wait: int) -> bool:
    """Whether a read joins one of its line on its way."""
    number = find_mshr(part.merger, state.merger, packet.line)
    if number < 0:
        return False
    flight = part.merger.mshrs[number]  # `expected` counts the reads, `pending` are the sectors of the first
    if packet.mask & ~flight.pending != 0 or flight.expected >= state.machine.merged_reads:
        return False
    flight.expected += 1
    target = add_target(part.merger, flight, packet.handle)
    target.sm, target.sectors, target.noc_wait, target.pc = packet.sm, set_bits(packet.mask), noc_wait, packet.pc
    counters = state.counters[packet.pc]
    counters.l2_reads += 1
    counters.l2_joins += 1
    return True


@inlined
def _may_be_joined(state: State, part: Slice, packet: Packet) -> int:
    """Let others join a read until its data have left the slice; returns its number."""
    number = allocate_mshr(part.merger, state.merger, packet.line)
    flight = part.merger.mshrs[number]
    flight.pending, flight.expected = packet.mask, 1
    return number


@inlined
def _next_joined(state: State, part: Slice, reply: Reply) -> bool:
    """Make `reply`, whose data leave the slice, that of the next read that joined; False: there is none."""
    if reply.flight < 0:
        return False
    flight = part.merger.mshrs[reply.flight]
    if flight.first < 0:
        release_mshr(part.merger, state.merger, reply.flight)
        return False
    flight.expected = state.machine.merged_reads
    target, slices = remove_target(part.merger, flight), state.machine.slices
    away = is_in_other_partition(part.number, slices, target.sm)
    if away != is_in_other_partition(part.number, slices, reply.sm):
        reply.far_cycles = state.machine.far_cycles if away else 0
    reply.sm, reply.handle, reply.noc_wait, reply.joined = target.sm, target.handle, target.noc_wait, True
    reply.flits = flits_of(state, target.sectors)
    counters = state.counters[target.pc]
    counters.l2_read_hits += 1 if reply.source == codes.FROM_L2 else 0
    counters.l2_read_merges += 1 if reply.source == codes.FROM_DRAM else 0
    return True


# -- From the SMs to the slices.

@inlined
def _store_ticks(state: State, packet: Packet) -> int:
    """How long a store or an atomic occupies the SM's port."""
    header_and_mask = 1 if packet.kind == codes.WRITE and packet.whole else 2
    return quotient((header_and_mask + set_bits(packet.mask)) * state.machine.store_ticks, 3)


@inlined
def slice_has_room(state: State, part: Slice, now: int) -> None:
    """The slice has removed a packet from its queue, or has not added it."""
    number = _reserve(part, state.sms, state.machine.sm_count)
    if number >= 0:
        state.next_port[number] = now


@inlined
def _deliver(state: State, sm: Sm, part: Slice, packet: Packet, now: int) -> None:
    """Pass the packet through both ports into the slice's queue, unless it joins another."""
    service = (1 if packet.kind == codes.READ else flits_of(state, set_bits(packet.mask))) * state.machine.flit_ticks
    start = max(sm.port_free, now * codes.TICKS)
    if packet.kind == codes.READ:  # SMs side by side are in different TPCs, so that a launch first has blocks in all of these
        tpc = state.sms[sm.number % state.machine.tpcs]
        start = max(start, tpc.requests_free)
        tpc.requests_free = start + state.machine.request_ticks
    sm.port_free = start + (service if packet.kind == codes.READ else max(service, _store_ticks(state, packet)))
    part.inbox_free = max(part.inbox_free, start) + service
    arrival = _cycle_at(part.inbox_free)
    noc_wait = arrival - packet.since - _cycle_at(service)
    merges = packet.kind == codes.READ and state.machine.merged_reads > 1
    if merges and _joins(state, part, packet, noc_wait):
        slice_has_room(state, part, now + 1)  # what was kept for it
        return
    place = end_of(part.inbox)
    part.packets[place] = packet
    arrived = part.packets[place]
    arrived.time, arrived.noc_wait = arrival + state.machine.l2_cycles, noc_wait
    arrived.flight = _may_be_joined(state, part, packet) if merges else -1
    if part.inbox.count == 0:
        state.next_l2[part.number] = max(arrived.time, part.busy_until)
    part.inbox.count += 1


@compiled
def send_packet(state: State, sm: Sm, now: int) -> None:
    """The SM's port sends the oldest packet of the miss queue to its slice, if that has room."""
    packet = sm.packets[sm.miss_queue.head]
    part = state.slices[slice_of_line(packet.line, state.machine.lines_per_piece, state.machine.slices, state.machine.slice_rule)]
    if not _has_turn(sm, part, part.inbox):
        state.next_port[sm.number] = codes.NEVER  # until it is this port's turn
        return
    _deliver(state, sm, part, packet, now)
    remove_oldest(sm.miss_queue)
    state.next_port[sm.number] = max(now + 1, quotient(sm.port_free, codes.TICKS)) if sm.miss_queue.count > 0 else codes.NEVER
    if sm.blocked == codes.NO_ROOM:
        state.next_l1[sm.number] = now + 1


# -- From the slices to the SMs.

@inlined
def push_reply(state: State, part: Slice, reply: Reply, sectors: int, now: int) -> None:
    """Complete `reply`, the entry at the end of the slice's queue, and add it."""
    reply.flits, reply.since, reply.joined = flits_of(state, sectors), now, False
    if part.outbox.count == 0:
        state.next_reply[part.number] = max(now, quotient(part.outbox_free, codes.TICKS))
    part.outbox.count += 1


@inlined
def _arrive(sm: Sm, reply: Reply, time: int) -> int:
    """Add the reply to the SM's queue, before those that arrive after `time`; returns its place."""
    queue, place = sm.arrival_queue, sm.arrival_queue.count
    while place > 0 and sm.arrivals[wrapped(queue.head + place - 1, queue.room)].time > time:
        sm.arrivals[wrapped(queue.head + place, queue.room)] = sm.arrivals[wrapped(queue.head + place - 1, queue.room)]
        place -= 1
    sm.arrivals[wrapped(queue.head + place, queue.room)] = reply
    sm.arrivals[wrapped(queue.head + place, queue.room)].time = time
    queue.count += 1
    return place


@inlined
def _arrive_elsewhere(state: State, sm: Sm, copy: Copy, start: int, service: int) -> None:
    """A slice sends the data of a multicast once: they pass the ports of all SMs with blocks that it reaches at the same time."""
    rank, blocks = 0, copy.reaches
    while blocks > 0:
        other = state.sms[state.residences[copy.first + rank] // state.machine.places]
        if blocks & 1 and other.number != sm.number:
            other.arrival_free = max(other.arrival_free, start) + service
        rank, blocks = rank + 1, blocks >> 1


@inlined
def _send(state: State, part: Slice, sm: Sm, reply: Reply, now: int) -> None:
    """Pass the data of a reply through both ports; those of a read that joined pass the slice's with the data before."""
    service = reply.flits * state.machine.flit_ticks
    start = max(part.outbox_free - (service if reply.joined else 0), now * codes.TICKS)
    part.outbox_free = max(part.outbox_free, start) if reply.joined else start + service
    sm.arrival_free = max(sm.arrival_free, start) + service
    if reply.handle < 0 and reply.kind == codes.READ:
        _arrive_elsewhere(state, sm, sm.copies[-1 - reply.handle], start, service)
    passed = _cycle_at(sm.arrival_free)
    reply.noc_wait += passed - reply.since - _cycle_at(service)
    if _arrive(sm, reply, passed + reply.far_cycles) == 0:
        state.next_arrival[sm.number] = passed + reply.far_cycles


@compiled
def send_reply(state: State, part: Slice, now: int) -> None:
    """The slice's port sends its oldest reply, and its data to the reads that joined it, if their SMs have room for it."""
    reply, more = part.replies[part.outbox.head], True
    while more:
        sm = state.sms[reply.sm]
        if not _has_turn(part, sm, sm.arrival_queue):
            state.next_reply[part.number] = codes.NEVER  # until it is this slice's turn
            return
        _send(state, part, sm, reply, now)
        more = _next_joined(state, part, reply)
    remove_oldest(part.outbox)
    following = max(now + 1, quotient(part.outbox_free, codes.TICKS)) if part.outbox.count > 0 else codes.NEVER
    state.next_reply[part.number] = following
    if part.blocked:
        state.next_l2[part.number] = now + 1


@inlined
def sm_has_room(state: State, sm: Sm, now: int) -> None:
    """The SM has removed a reply from its queue."""
    number = _reserve(sm, state.slices, state.machine.slices)
    if number >= 0:
        state.next_reply[number] = now + 1
