"""The L1 of an SM: one request a cycle reaches its tags; a request that cannot be served blocks all behind it.

Write-through, no write allocation, LRU. A miss takes an MSHR, for a line that is not yet on its way also a way of its set
(allocation on miss) unless the L1 allocates on fill ("streaming"), and room in the miss queue before the network. A line that is on
its way takes up to `targets` requests.
"""

from __future__ import annotations

from warpsight.addressing.coalescing import part_of_line
from warpsight.addressing.integers import quotient
from warpsight.addressing.mapping import set_index
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import codes
from warpsight.simulator.bulk import answered
from warpsight.simulator.lsu import accesses_done, handle_of, has_room_at_tags, load_of, request_done
from warpsight.simulator.noc import sm_has_room
from warpsight.simulator.scheduler import blocked_by_mshr, blocked_by_room
from warpsight.simulator.state import Reply, Request, Sm, State
from warpsight.simulator.structures import (
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
    return set_index(line, state.l1.sets, state.l1.index_rule) * state.l1.ways


# -- Packets to the L2: one for each L2 line that the sectors of an L1 line lie in.

@inlined
def _parts(state: State, line: int, sectors: int) -> int:
    """How many L2 lines `sectors` of L1 line `line` lie in."""
    l1, l2 = state.l1.line_sectors, state.l2.line_sectors
    if l1 == l2:
        return 1
    count = 0
    for part in range(quotient(line * l1, l2), quotient((line + 1) * l1 - 1, l2) + 1):
        count += 1 if part_of_line(line, sectors, l1, part, l2) != 0 else 0
    return count


@inlined
def _send_one(state: State, sm: Sm, request: Request, line: int, mask: int, kind: int, handle: int, now: int) -> None:
    """Put a packet for L2 line `line` into the miss queue (there is room)."""
    packet = sm.packets[end_of(sm.miss_queue)]
    packet.line, packet.mask, packet.kind, packet.sm, packet.handle = line, mask, kind, sm.number, handle
    packet.whole, packet.repeats, packet.changed = request.whole, request.repeats, request.changed
    packet.since, packet.pc = now, request.pc
    if sm.miss_queue.count == 0:
        state.next_port[sm.number] = max(now, quotient(sm.port_free, codes.TICKS))
    sm.miss_queue.count += 1


@inlined
def _send(state: State, sm: Sm, request: Request, sectors: int, kind: int, handle: int, now: int) -> None:
    """Put a packet for each L2 line that `sectors` of the request's line lie in into the miss queue (there is room)."""
    l1, l2, line = state.l1.line_sectors, state.l2.line_sectors, request.line
    if l1 == l2:
        _send_one(state, sm, request, line, sectors, kind, handle, now)
        return
    for part in range(quotient(line * l1, l2), quotient((line + 1) * l1 - 1, l2) + 1):
        mask = part_of_line(line, sectors, l1, part, l2)
        if mask != 0:
            _send_one(state, sm, request, part, mask, kind, handle, now)


# -- At the tags. Each kind of access returns NOT_BLOCKED, or why it cannot be served now; then nothing has changed.

@inlined
def _note_waits(state: State, sm: Sm, handle: int, now: int) -> None:
    """Record what the load's latest request waited for until now: the load-store unit, an MSHR, room in the miss queue."""
    slot, number = load_of(state, handle)
    if number < 0:
        return
    load = sm.warps[slot].loads[number]
    load.mshr_wait = blocked_by_mshr(sm, now) - load.mshr_before
    load.room_wait = blocked_by_room(sm, now) - load.room_before
    fixed = state.machine.address_cycles + state.machine.pipeline_cycles
    load.unit_wait = max(0, now - load.issued - fixed - load.mshr_wait - load.room_wait)


@inlined
def _read(state: State, sm: Sm, request: Request, now: int) -> int:
    cache, first = sm.l1, _first_way(state, request.line)
    needed = state.l1.sector_groups[request.mask]
    way = -1 if state.code[request.pc].bypasses_l1 else find_way(cache, first, state.l1.ways, request.line)
    missing = needed & ~(cache.lines[way].valid if way >= 0 else 0)
    handle = handle_of(state, request.slot, request.load)
    if missing != 0:
        return _miss(state, sm, request, missing, first, way, handle, now)
    to_front(cache, first, way)
    state.counters[request.pc].l1_reads += 1
    state.counters[request.pc].l1_hits += 1
    _note_waits(state, sm, handle, now)
    request_done(state, sm, handle, now + state.machine.write_back_cycles, 0, 0, now)
    return codes.NOT_BLOCKED


@inlined
def _miss(state: State, sm: Sm, request: Request, missing: int, first: int, way: int, handle: int, now: int) -> int:
    """Wait for the `missing` sectors, and fetch those that are not on their way."""
    cache, number = sm.l1, find_mshr(sm.l1, state.l1, request.line)
    if cache.free_target == state.l1.mshrs * state.l1.targets:
        return codes.NO_MSHR
    if number >= 0:
        if cache.mshrs[number].targets >= state.l1.targets:
            return codes.NO_MSHR
        missing &= ~cache.mshrs[number].pending
    elif cache.free_mshr == state.l1.mshrs:
        return codes.NO_MSHR
    present, keeps = way >= 0, not state.code[request.pc].bypasses_l1
    if missing != 0:
        parts = _parts(state, request.line, missing)
        if sm.miss_queue.count + parts > sm.miss_queue.room:
            return codes.NO_ROOM
        if keeps and not present and not state.l1.allocate_on_fill:
            way = victim(cache, first, state.l1.ways)
            if way < 0:
                return codes.NO_MSHR
        if number < 0:
            number = allocate_mshr(cache, state.l1, request.line)
        cache.mshrs[number].pending |= missing
        cache.mshrs[number].expected += parts
        _send(state, sm, request, missing, codes.READ, number, now)
    mshr = cache.mshrs[number]
    mshr.keeps = mshr.keeps or keeps
    if way >= 0:
        line = to_front(cache, first, way) if present else replace(cache, first, way, request.line)
        line.pending = mshr.pending
    _note_waits(state, sm, handle, now)
    target = add_target(cache, mshr, handle)
    target.merged, target.since, target.pc = missing == 0, request.born if missing != 0 else now, request.pc
    _count_read_miss(state, sm, request, missing == 0, now)
    return codes.NOT_BLOCKED


@inlined
def _count_read_miss(state: State, sm: Sm, request: Request, merged: bool, now: int) -> None:
    """Count the miss, and what it waited for since its instruction was taken by the load-store unit."""
    counters = state.counters[request.pc]
    counters.l1_reads += 1
    if merged:
        counters.l1_merges += 1
        return
    counters.l1_misses += 1
    waited = now - request.born
    room = min(blocked_by_room(sm, now) - request.room_before, waited)
    counters.miss_noc += room
    counters.miss_mshr += waited - room


@inlined
def _write(state: State, sm: Sm, request: Request, now: int) -> int:
    """Send the write to the L2; a line that is present becomes the most recent."""
    parts = _parts(state, request.line, request.mask)
    if sm.miss_queue.count + parts > sm.miss_queue.room:
        return codes.NO_ROOM
    first = _first_way(state, request.line)
    way = find_way(sm.l1, first, state.l1.ways, request.line)
    if way >= 0:
        to_front(sm.l1, first, way)
    state.counters[request.pc].l1_writes += 1
    _send(state, sm, request, request.mask, codes.WRITE, handle_of(state, request.slot, -1), now)
    if parts > 1:
        accesses_done(state, sm, sm.warps[request.slot], 1 - parts, now)
    return codes.NOT_BLOCKED


@inlined
def _atomic(state: State, sm: Sm, request: Request, now: int) -> int:
    """Send one sector of an atomic to the L2, which executes it."""
    if sm.miss_queue.count >= sm.miss_queue.room:
        return codes.NO_ROOM
    handle = handle_of(state, request.slot, request.load)
    _note_waits(state, sm, handle, now)
    line = quotient(request.line, state.l2.line_sectors)
    sector = 1 << (request.line - line * state.l2.line_sectors)
    _send_one(state, sm, request, line, sector, codes.ATOMIC, handle, now)
    return codes.NOT_BLOCKED


@inlined
def _look_up_one(state: State, sm: Sm, now: int) -> bool:
    """Look the oldest request in the pipeline up, unless it is blocked. Returns whether the next one is at the tags with it."""
    request = sm.pipeline_requests[sm.pipeline.head]
    access = state.code[request.pc].access
    if access == codes.IS_LOAD:
        why = _read(state, sm, request, now)
    elif access == codes.IS_STORE:
        why = _write(state, sm, request, now)
    else:
        why = _atomic(state, sm, request, now)
    if sm.blocked != why:
        sm.blocked_by_mshr, sm.blocked_by_room = blocked_by_mshr(sm, now), blocked_by_room(sm, now)
        sm.blocked, sm.blocked_since = why, now
    if why != codes.NOT_BLOCKED:
        state.next_l1[sm.number] = codes.NEVER  # until a fill, or the port, makes room
        return False
    if sm.in_hand >= 0 and not has_room_at_tags(state, sm):
        state.next_lsu[sm.number] = min(state.next_lsu[sm.number], max(now, sm.tags_free))
    remove_oldest(sm.pipeline)
    following = sm.pipeline_requests[sm.pipeline.head]
    state.next_l1[sm.number] = max(now + 1, following.time) if sm.pipeline.count > 0 else codes.NEVER
    return sm.pipeline.count > 0 and following.together


@compiled
def look_up(state: State, sm: Sm, now: int) -> None:
    """The oldest requests in the pipeline reach the tags: of a load one for each bank of tags, else one."""
    while _look_up_one(state, sm, now):
        pass


# -- Replies.

@inlined
def _install(state: State, sm: Sm, line: int, sectors: int, keeps: bool) -> None:
    """The sectors of a line that was on its way become valid, if some request `keeps` them."""
    first = _first_way(state, line)
    way = find_way(sm.l1, first, state.l1.ways, line)
    if way >= 0:
        sm.l1.lines[way].valid |= sectors
        sm.l1.lines[way].pending = 0
    elif keeps and state.l1.allocate_on_fill:
        replace(sm.l1, first, first + state.l1.ways - 1, line).valid = sectors


@inlined
def _count_miss(state: State, target: Target, reply: Reply, now: int) -> None:
    """Where the cycles of a miss went (MDM, Fig. 3); those in no queue are the way to the L2 and back, or DRAM."""
    counters = state.counters[target.pc]
    counters.miss_latency += now - target.since
    counters.miss_noc += reply.noc_wait
    counters.miss_dram_queue += reply.dram_wait
    if reply.source == codes.FROM_DRAM:
        counters.miss_dram += state.machine.dram_cycles


@inlined
def _fill(state: State, sm: Sm, reply: Reply, now: int) -> None:
    """One part of a missing line has arrived; with the last part the waiting requests get their data, one a cycle."""
    mshr = sm.l1.mshrs[reply.handle]
    mshr.expected -= 1
    if mshr.expected > 0:
        return
    _install(state, sm, mshr.line, mshr.pending, mshr.keeps)
    when = max(now, sm.fill_free)
    while mshr.first >= 0:
        target = remove_target(sm.l1, mshr)
        when += 1
        noc, dram = reply.noc_wait, reply.dram_wait
        if target.merged:
            # Merged while the line was on its way: it has spent at most as long in the queues as it waited.
            waited = now - target.since
            noc, dram = min(noc, waited), min(dram, max(0, waited - noc))
        else:
            _count_miss(state, target, reply, now)
        request_done(state, sm, target.handle, when, noc, dram, now)
    sm.fill_free = when
    release_mshr(sm.l1, state.l1, reply.handle)


@compiled
def receive(state: State, sm: Sm, now: int) -> None:
    """Take one reply from the network: to a read miss, to a write, or to an atomic."""
    reply = sm.arrivals[sm.arrival_queue.head]
    remove_oldest(sm.arrival_queue)
    sm_has_room(state, sm, now)
    if reply.handle < 0:
        slot = answered(state, sm, reply, now)
        accesses_done(state, sm, sm.warps[slot], 1, now)
    elif reply.kind == codes.READ:
        _fill(state, sm, reply, now)
    else:
        request_done(state, sm, reply.handle, now + 1, reply.noc_wait, reply.dram_wait, now)
    following = max(now + 1, sm.arrivals[sm.arrival_queue.head].time) if sm.arrival_queue.count > 0 else codes.NEVER
    state.next_arrival[sm.number] = following
    if sm.blocked == codes.NO_MSHR:
        state.next_l1[sm.number] = now
