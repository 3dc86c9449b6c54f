"""The unit of an SM for bulk and tensor copies (TMA): it sends a request for a line of the L2 a cycle, past the L1, copy by copy.

A copy is taken from the load-store unit's queue, where its only instruction has come to. When all its requests are answered, its
bytes complete on its mbarrier, or on those of the blocks of the cluster that it names, or its group of writes is done. NVIDIA gives
no rate or latency for the unit: a line a cycle is more than the SM's port passes, and a request takes as long as one of a load that
misses in the L1.
"""

from __future__ import annotations

from warpsight.addressing.coalescing import merge_lines
from warpsight.addressing.integers import quotient, set_bits
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import codes, phases
from warpsight.simulator.state import Access, Reply, Sm, State
from warpsight.simulator.structures import Copy, end_of, remove_oldest
from warpsight.simulator.warps import residence_of, wake, wake_at
from warpsight.traces.schema import SECTOR_BYTES


@inlined
def _free_copy(state: State, sm: Sm) -> int:
    """A place for a copy; -1 if all are under way."""
    for number in range(state.machine.copies):
        if sm.copies[number].pc < 0:
            return number
    return -1


@inlined
def has_room(state: State, sm: Sm, access: Access) -> bool:
    """Whether the unit can take the access."""
    return sm.copy_queue.count + access.sectors <= sm.copy_queue.room and _free_copy(state, sm) >= 0


@inlined
def _requests(state: State, sm: Sm, first: int, count: int, pc: int) -> int:
    """List the lines of the L2 that a copy accesses, or of a reduction the sectors. Returns their number."""
    most = state.machine.most_requests
    if state.code[pc].access != codes.IS_ATOMIC:
        return merge_lines(state.sectors, first, count, state.l2.line_sectors, sm.lines, 0, most)
    for k in range(count):
        line = quotient(state.sectors[first + k], state.l2.line_sectors)
        sm.lines[k], sm.lines[most + k] = line, 1 << (state.sectors[first + k] - line * state.l2.line_sectors)
    return count


@compiled
def take(state: State, sm: Sm, access: Access, now: int) -> None:
    """Begin the copy of an access (there is room)."""
    number, warp, pc = _free_copy(state, sm), sm.warps[access.slot], access.pc
    copy = sm.copies[number]
    copy.pc, copy.slot, copy.group = pc, access.slot, access.load
    copy.issued = access.time - state.machine.address_cycles
    copy.phase, copy.data, copy.blocks, copy.reaches = access.phase, access.data, access.blocks, access.reaches
    order = sm.places[warp.place].order
    copy.first = order - order % state.machine.cluster_blocks
    count = _requests(state, sm, warp.sector + access.first, access.sectors, pc)
    warp.outstanding += count
    warp.copied += count
    copy.unsent = copy.remaining = count
    state.counters[pc].executions += 1
    for k in range(count):
        request = sm.copy_requests[end_of(sm.copy_queue)]
        request.line, request.mask, request.copy = sm.lines[k], sm.lines[state.machine.most_requests + k], number
        if sm.copy_queue.count == 0:
            state.next_copy[sm.number] = now + state.machine.pipeline_cycles
        sm.copy_queue.count += 1


@inlined
def _group_done(state: State, sm: Sm, copy: Copy, number: int, when: int, now: int) -> None:
    """A copy of the warp's group `number` is done."""
    warp = sm.warps[copy.slot]
    load = warp.loads[number]
    load.remaining -= 1
    load.done = max(load.done, when)
    if load.remaining == 0 and wake(state, sm, warp, now, codes.CAUSE_MEMORY):
        warp.data_wait, warp.unit_wait, warp.mshr_wait, warp.noc_wait, warp.dram_wait = 1, 0, 0, 0, 0


@compiled
def send_request(state: State, sm: Sm, now: int) -> None:
    """Send the oldest request to the network, if that has room."""
    state.next_copy[sm.number] = now + 1 if sm.copy_queue.count > 0 else codes.NEVER
    if sm.copy_queue.count == 0 or sm.miss_queue.count >= sm.miss_queue.room:
        return
    request, packet = sm.copy_requests[sm.copy_queue.head], sm.packets[end_of(sm.miss_queue)]
    copy = sm.copies[request.copy]
    access, counters = state.code[copy.pc].access, state.counters[copy.pc]
    packet.line, packet.mask, packet.sm, packet.handle = request.line, request.mask, sm.number, -1 - request.copy
    packet.kind = codes.READ if access == codes.IS_LOAD else codes.WRITE if access == codes.IS_STORE else codes.ATOMIC
    packet.whole, packet.repeats, packet.since, packet.pc = True, 0, now, copy.pc
    packet.changed = SECTOR_BYTES * set_bits(request.mask)
    counters.l1_reads += 1 if access == codes.IS_LOAD else 0
    counters.l1_misses += 1 if access == codes.IS_LOAD else 0
    counters.l1_writes += 1 if access == codes.IS_STORE else 0
    if sm.miss_queue.count == 0:
        state.next_port[sm.number] = max(now, quotient(sm.port_free, codes.TICKS))
    sm.miss_queue.count += 1
    remove_oldest(sm.copy_queue)
    copy.unsent -= 1
    if copy.unsent == 0 and copy.group >= 0:
        _group_done(state, sm, copy, copy.group + state.machine.groups, now, now)
    state.next_copy[sm.number] = now + 1 if sm.copy_queue.count > 0 else codes.NEVER


@inlined
def _complete(state: State, sm: Sm, number: int, copy: Copy, when: int, reply: Reply, now: int) -> None:
    """The bytes of a copy are there, on mbarrier `number` of an SM."""
    total = when - copy.issued
    if phases.complete(sm.phases[number], copy.data, when, total, reply.noc_wait, reply.dram_wait):
        wake_at(state, sm, number, now)


@inlined
def _complete_everywhere(state: State, copy: Copy, when: int, reply: Reply, now: int) -> None:
    """The bytes of a copy are there: at the same mbarrier of each block of its mask."""
    among = copy.phase % state.machine.phases
    for rank in range(state.machine.cluster_blocks):
        residence = residence_of(state, copy.first, rank) if copy.blocks >> rank & 1 else -1
        if residence >= 0:
            sm, place = state.sms[residence // state.machine.places], residence % state.machine.places
            _complete(state, sm, place * state.machine.phases + among, copy, when, reply, now)


@compiled
def answered(state: State, sm: Sm, reply: Reply, now: int) -> int:
    """A request of a copy is answered; with the last one the copy is done. Returns the slot of its warp."""
    copy, when = sm.copies[-1 - reply.handle], now + 1
    copy.remaining -= 1
    slot = copy.slot
    sm.warps[slot].copied -= 1
    if copy.remaining == 0:
        if copy.group >= 0:
            _group_done(state, sm, copy, copy.group, when, now)
        if copy.phase >= 0 and copy.blocks == 0:
            _complete(state, sm, copy.phase, copy, when, reply, now)
        elif copy.phase >= 0:
            _complete_everywhere(state, copy, when, reply, now)
        copy.pc = -1
    return slot
