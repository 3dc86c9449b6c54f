"""Warps and blocks on SMs: how a warp goes from one stop to the next along its path; launches, barriers and ends of blocks.

A warp is named by its slot among those of all SMs.
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient, trailing_zeros
from warpsight.base.compiled import ask_for, compiled, inlined
from warpsight.caches.exact.l1 import ask_for_bucket
from warpsight.caches.exact.l2 import ask_for_room
from warpsight.caches.exact.scheduler import pick_all
from warpsight.caches.exact.state import (
    ALL_LOADS,
    BARRIER,
    DO_BARRIER,
    DO_EXIT,
    DO_MEMORY,
    HELD,
    IS_ATOMIC,
    MOST_PLACES,
    NEVER,
    WAIT_ONE,
    BasicBlock,
    Gpc,
    State,
    Stop,
    Warp,
)
from warpsight.traces.events import sectors_of_event
from warpsight.traces.window import WindowWarp


@inlined
def _take_event(state: State, warp: Warp, pc: int) -> int:
    """Read the event of the memory instruction at `pc`; returns its sectors, or -1 if the warp's streams have no such event."""
    code, event = state.code[pc], warp.event
    warp.event = event + code.event_bytes
    if warp.event > warp.event_end:
        return -1
    sectors = sectors_of_event(state.events, event, code.sector_bytes)
    passes = state.events[event + code.sector_bytes] if code.has_degree else 0
    if passes > 0:
        state.counters[pc].shared_executions += 1
        state.counters[pc].shared_passes += passes
    warp.repeats_here = 0
    if code.access == IS_ATOMIC:
        # the event's last byte: most lanes that share one address, 0 if none is active
        warp.repeats_here = max(0, state.events[warp.event - 1] - 1)
        if sectors == 0 and not code.adds_lanes_up:
            state.counters[pc].shared_repeats += warp.repeats_here
    warp.sectors_left -= sectors
    if warp.event == warp.event_wrap and warp.event_laps > 0:
        warp.event -= warp.event_period
        warp.event_laps -= 1
    return sectors if warp.sectors_left >= 0 else -1


@inlined
def next_sector(state: State, warp: Warp, number: int) -> int:
    """Sector `number` of those that the warp accesses next; in a later lap of its loop each is some strides farther on."""
    place = warp.sector + number
    return (state.sectors[place] + warp.lap * state.sectors[place + warp.sector_period]) & 0xFFFFFFFF


@inlined
def pass_sectors(warp: Warp, count: int) -> None:
    """The warp has accessed its next `count` sectors."""
    warp.sector += count
    if warp.sector == warp.sector_wrap:
        if warp.lap < warp.last_lap:
            warp.sector -= warp.sector_period
            warp.lap += 1
        else:
            warp.sector += warp.sector_period
            warp.sector_wrap, warp.sector_period, warp.lap = NEVER, 0, 0


@inlined
def _start_streams(warp: Warp, streams: WindowWarp) -> None:
    """Let the warp begin its path and its streams."""
    loop = streams.loop
    warp.path_entry, warp.path_end = streams.entry, streams.end
    warp.event, warp.event_end = streams.event, streams.event_end
    warp.sector, warp.sectors_left = streams.sector, streams.sector_end - streams.sector
    warp.event_wrap, warp.event_period = streams.event + loop.event + loop.event_period, loop.event_period
    warp.event_laps = warp.last_lap = loop.laps - 1
    warp.sector_wrap, warp.sector_period = streams.sector + loop.sector + loop.sector_period, loop.sector_period
    warp.lap = 0
    if loop.sector_period == 0:
        warp.sector_wrap = NEVER


@inlined
def _ask_for_access(state: State, slot: int) -> None:
    """Ask for what the access at which the warp stands is looked up in."""
    machine = state.machine
    first = next_sector(state, state.warps[slot], 0)
    ask_for_bucket(state, quotient(slot, machine.warp_slots), quotient(first, machine.l1.line_sectors))
    ask_for_room(state, quotient(first, machine.l2.line_sectors))


@inlined
def _stand(state: State, slot: int, kind: int, gap: int, since_wait: int, now: int) -> None:
    """Let the warp stand at a stop that it reaches at `now`, after `gap` instructions, `since_wait` of them after its last wait."""
    warp = state.warps[slot]
    warp.kind, warp.gap, warp.arrival = kind, gap, now
    # The warp issues those instructions while it waits, so it can be picked that much earlier. A warp's accesses leave in order,
    # and only one of them can wait for the load-store unit: the next is issued when that one has passed.
    at_once = kind == DO_BARRIER or (kind != HELD and warp.pending == 0)
    state.eligible[warp.turn] = now - since_wait * state.machine.issue_ticks if at_once else NEVER
    if at_once and kind == DO_MEMORY:
        _ask_for_access(state, slot)


@inlined
def _enter_block(state: State, warp: Warp) -> None:
    """Begin the path entry that the warp has come to, if there is one left."""
    if warp.path_entry < warp.path_end:
        entry = state.path[warp.path_entry]
        warp.repeat = entry.repeat
        warp.next_stop = state.basic_blocks[entry.block].first_stop


@inlined
def _leave_block(state: State, warp: Warp, block: BasicBlock, last_stop: int) -> int:
    """Leave a basic block; returns how often its tail was executed. A block without stops is executed with all its repeats."""
    executed = warp.repeat
    if block.first_stop < last_stop:
        executed = 1
        warp.repeat -= 1
        warp.next_stop = block.first_stop
        if warp.repeat > 0:
            return executed
    warp.path_entry += 1
    _enter_block(state, warp)
    return executed


@inlined
def _wait(state: State, slot: int, stop: Stop, now: int) -> int:
    """When the warp, at `stop` since `now`, has the data of the loads that it needs there.

    If one of them has not yet passed the load-store unit, it is kept in `Warp.pc`, and the complement (~) of the time until which
    the warp waits for those before it is returned.
    """
    warp, loads = state.warps[slot], slot * state.machine.loads
    if stop.kind == WAIT_ONE:
        ready = state.load_ready[loads + stop.item]
        warp.pc = stop.item if ready == NEVER else warp.pc
        return ~now if ready == NEVER else max(now, ready)
    needed = stop.item & warp.in_flight
    while needed != 0:
        load = trailing_zeros(needed)
        ready = state.load_ready[loads + load]
        if ready == NEVER:
            warp.pc = load
            return ~now
        now = max(now, ready)
        needed &= needed - 1
        warp.in_flight &= ~(1 << load)
    return now


@compiled
def advance(state: State, slot: int, now: int) -> None:
    """Bring the warp, which continues at `now`, to its next stop that needs a turn: a request, a barrier or its end.

    `Warp.gap` counts the instructions since its last turn. If it continues later than it arrived, it has waited since. It does not
    stop for shared-memory accesses, accesses without an active lane and data that is already there. A warp that was held comes to
    its stop once more, without the way there.
    """
    warp = state.warps[slot]
    gap, again = warp.gap, warp.kind == HELD
    since_wait = 0 if now > warp.arrival else gap
    if now < warp.arrival:  # the barrier opened before it came: what was there then may still be on its way
        warp.in_flight = ALL_LOADS
    while warp.path_entry < warp.path_end:
        number = state.path[warp.path_entry].block
        block, last_stop = state.basic_blocks[number], state.basic_blocks[number + 1].first_stop
        while warp.next_stop < last_stop:
            stop = state.stops[warp.next_stop]
            if not again:
                gap += stop.instructions
                since_wait += stop.instructions
                now += stop.ticks
            again = False
            if stop.kind <= WAIT_ONE:
                ready = _wait(state, slot, stop, now)
                if ready < 0:
                    _stand(state, slot, HELD, gap, since_wait, ~ready)
                    return
                since_wait = 0 if ready > now else since_wait
                now = ready
                warp.next_stop += 1
                continue
            warp.next_stop += 1
            if stop.kind == BARRIER:
                _stand(state, slot, DO_BARRIER, gap, since_wait, now)
                return
            sectors = _take_event(state, warp, stop.item)
            if sectors < 0:
                state.bad_warp = state.slots[slot].id
            elif sectors > 0:
                warp.pc = stop.item
                warp.sectors_here = sectors
                _stand(state, slot, DO_MEMORY, gap, since_wait, now)
                return
            gap += state.code[stop.item].issue_cost
            since_wait += state.code[stop.item].issue_cost
        executed = _leave_block(state, warp, block, last_stop)
        gap += executed * block.tail_instructions
        since_wait += executed * block.tail_instructions
        now += executed * block.tail_ticks
    if warp.event != warp.event_end or warp.sectors_left != 0:
        state.bad_warp = state.slots[slot].id
    _stand(state, slot, DO_EXIT, gap, since_wait, now)


@inlined
def access_passed(state: State, slot: int, load: int, back: int, now: int) -> None:
    """An access of the warp has passed the load-store unit by `now`; the data of load `load` (-1: none) is there at `back`."""
    warp = state.warps[slot]
    warp.pending -= 1
    if load >= 0:
        state.load_ready[slot * state.machine.loads + load] = back
        if warp.kind == HELD and warp.pc == load:
            advance(state, slot, max(back, warp.arrival))
    kind = warp.kind
    if warp.pending == 0 and state.eligible[warp.turn] == NEVER and kind in (DO_EXIT, DO_MEMORY):
        gap_ticks = warp.gap * state.machine.issue_ticks if kind == DO_MEMORY else 0
        state.eligible[warp.turn] = max(now, warp.arrival) - gap_ticks
        if kind == DO_MEMORY:
            _ask_for_access(state, slot)


# -- Blocks on SMs: launching them in free places, and the barriers and ends of their warps.

@compiled
def _start_warp(state: State, slot: int, number: int, now: int) -> None:
    """Put warp `number` of the launch, which is in the window, into the slot and bring it to its first stop."""
    warp, streams = state.warps[slot], state.window[number - state.first_warp]
    state.slots[slot].id = number
    _start_streams(warp, streams)
    warp.pending, warp.in_flight, warp.arrival = 0, 0, now
    _enter_block(state, warp)
    for load in range(state.machine.loads):
        state.load_ready[slot * state.machine.loads + load] = 0
    warp.gap = 0
    advance(state, slot, now)


@inlined
def _free_since(state: State, gpc: Gpc) -> int:
    """When the GPC has had room for a cluster; NEVER if it has none."""
    if gpc.tail - gpc.head < state.machine.cluster_blocks:
        return NEVER
    since = 0
    for entry in range(gpc.head, gpc.head + state.machine.cluster_blocks):
        since = max(since, state.free_places[gpc.first + entry % gpc.room].since)
    return since


@compiled
def _start_block(state: State, gpc: Gpc, block: int, now: int) -> None:
    """Put a block into the place of the GPC that has waited longest."""
    machine, per_block = state.machine, state.machine.warps_per_block
    free = state.free_places[gpc.first + gpc.head % gpc.room]
    sm, number = free.sm, free.place
    gpc.head += 1
    state.live_warps += per_block
    state.places[sm * machine.blocks_per_sm + number].live = per_block
    for k in range(per_block):
        in_block = number * per_block + k
        slot = sm * machine.warp_slots + in_block
        age = state.next_block * per_block + k
        state.ages[state.warps[slot].turn] = age * MOST_PLACES + quotient(in_block, machine.schedulers)
        _start_warp(state, slot, block * per_block + k, now)
        # The streams of the next block, in order, are asked for before it starts.
        following = (block + 1) * per_block + k
        if following < state.end_warp:
            ask_for(state.sectors, state.window[following - state.first_warp].sector)
    state.next_block += 1
    pick_all(state, sm)


@inlined
def _started(state: State, place: int) -> int:
    """The number of the block that starts at `place` of the order."""
    return place if state.machine.in_order else state.block_order[place]


@compiled
def launch_blocks(state: State) -> bool:
    """Give free places the next blocks, whole clusters at a time; False when one of them is not in the window.

    A cluster goes to the GPC that has had room for it for the longest time; of equal ones to that which has had the fewest blocks.
    """
    machine = state.machine
    while state.next_block < machine.blocks:
        chosen, now = 0, _free_since(state, state.gpcs[0])
        for number in range(1, machine.gpcs):
            since = _free_since(state, state.gpcs[number])
            if since < now or (since == now and state.gpcs[number].head < state.gpcs[chosen].head):
                chosen, now = number, since
        if now == NEVER:
            break
        last = state.next_block + machine.cluster_blocks - 1
        if (_started(state, last) + 1) * machine.warps_per_block > state.end_warp:
            return False
        while state.next_block <= last:
            _start_block(state, state.gpcs[chosen], _started(state, state.next_block), now)
    state.has_free_places = False
    return True


@compiled
def _free_place(state: State, sm: int, number: int, now: int) -> None:
    """The block in place `number` of `sm` has ended."""
    gpc = state.gpcs[state.sms[sm].gpc]
    free = state.free_places[gpc.first + gpc.tail % gpc.room]
    gpc.tail += 1
    free.sm, free.place, free.since = sm, number, now
    state.has_free_places = True


@compiled
def _open_barrier(state: State, sm: int, number: int, now: int) -> None:
    """Let all warps of a block that wait at a barrier continue."""
    machine = state.machine
    state.places[sm * machine.blocks_per_sm + number].waiting = 0
    first = sm * machine.warp_slots + number * machine.warps_per_block
    for slot in range(first, first + machine.warps_per_block):
        warp = state.warps[slot]
        if state.slots[slot].id >= 0 and warp.kind == DO_BARRIER and state.eligible[warp.turn] == NEVER:
            warp.gap = 0
            advance(state, slot, now)


@compiled
def arrive_or_end(state: State, sm: int, slot: int, now: int) -> bool:
    """A warp reaches a barrier or its end; either can complete its block's barrier. Whether it did."""
    machine, warp = state.machine, state.warps[slot]
    number = quotient(slot - sm * machine.warp_slots, machine.warps_per_block)
    place = state.places[sm * machine.blocks_per_sm + number]
    state.eligible[warp.turn] = NEVER
    if warp.kind == DO_BARRIER:
        place.waiting += 1
    else:
        state.slots[slot].id = -1
        place.live -= 1
        state.live_warps -= 1
    if place.live == 0:
        _free_place(state, sm, number, now)
        return False
    if place.waiting < place.live:
        return False
    _open_barrier(state, sm, number, now)
    return True


@compiled
def break_barriers(state: State) -> None:
    """No warp can continue: some barriers are for a part of a block, which the trace does not tell. Open those with warps."""
    machine = state.machine
    for sm in range(machine.sm_count):
        for number in range(machine.blocks_per_sm):
            if state.places[sm * machine.blocks_per_sm + number].waiting > 0:
                _open_barrier(state, sm, number, state.schedulers[sm * machine.schedulers].clock)
        pick_all(state, sm)
