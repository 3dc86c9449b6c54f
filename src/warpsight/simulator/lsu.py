"""The load-store unit of an SM: memory instructions in the order of issue, split into requests that enter the L1, one a cycle."""

from __future__ import annotations

from warpsight.addressing.coalescing import LINE_128, is_divergent, merge_lines
from warpsight.addressing.integers import quotient, set_bits
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import codes
from warpsight.simulator.bulk import has_room, take
from warpsight.simulator.scheduler import blocked_by_room
from warpsight.simulator.state import Access, Sm, State, Warp
from warpsight.simulator.structures import end_of, remove_oldest
from warpsight.simulator.warps import data_came, end_warp, schedule

# -- Requests that are done.

@inlined
def handle_of(state: State, slot: int, load: int) -> int:
    """One number for a warp slot and one of its loads; `load` -1: no warp waits for the data."""
    return slot * (state.machine.loads + 1) + load + 1


@inlined
def load_of(state: State, handle: int) -> tuple[int, int]:
    """The warp slot and the load of a handle."""
    slot = quotient(handle, state.machine.loads + 1)
    return slot, handle - slot * (state.machine.loads + 1) - 1


@compiled
def accesses_done(state: State, sm: Sm, warp: Warp, count: int, now: int) -> None:
    """`count` of the warp's requests are done; a warp that waited for the last of them, at a fence or at its end, continues."""
    warp.outstanding -= count
    if warp.outstanding == 0:
        if warp.state == codes.DRAINS:
            end_warp(state, sm, warp, now)
        elif warp.state == codes.FENCED:
            warp.data_wait = 1
            warp.unit_wait = warp.mshr_wait = warp.noc_wait = warp.dram_wait = 0
            schedule(state, sm, warp, now + 1, now, codes.CAUSE_MEMORY)


@compiled
def request_done(state: State, sm: Sm, handle: int, when: int, noc: int, dram: int, now: int) -> None:
    """A request has its data at `when`, after `noc` and `dram` cycles in queues. The last request completes the load."""
    slot, number = load_of(state, handle)
    warp = sm.warps[slot]
    if number >= 0:
        load = warp.loads[number]
        load.remaining -= 1
        load.done = max(load.done, when)
        if load.remaining == 0:
            warp.unit_wait, warp.mshr_wait = load.unit_wait, load.mshr_wait
            warp.noc_wait, warp.dram_wait = load.room_wait + noc, dram
            total = when - load.issued
            warp.data_wait = max(0, total - warp.unit_wait - warp.mshr_wait - warp.noc_wait - dram)
            data_came(state, sm, warp, load.pc, when, now, codes.CAUSE_MEMORY)
    accesses_done(state, sm, warp, 1, now)


# -- The current instruction.

@inlined
def _split(state: State, sm: Sm, first: int, count: int, pc: int) -> int:
    """List the requests of the access: lines of the L1, or for an atomic its sectors. Returns their number."""
    instruction, lines = state.code[pc], sm.lines
    if instruction.access == codes.IS_ATOMIC:
        for k in range(count):
            lines[k], lines[state.machine.most_requests + k] = state.sectors[first + k], 1
        return count
    if count > instruction.packed_lines and instruction.access == codes.IS_LOAD:
        touched = merge_lines(state.sectors, first, count, LINE_128, lines, 0, state.machine.most_requests)
        state.counters[pc].divergent += 1 if is_divergent(touched, instruction.packed_lines) else 0
        if state.l1.line_sectors == LINE_128:  # they are the requests
            return touched
    return merge_lines(state.sectors, first, count, state.l1.line_sectors, lines, 0, state.machine.most_requests)


@inlined
def _take(state: State, sm: Sm, access: Access, now: int) -> None:
    """Take the oldest waiting instruction. One that touches only shared memory occupies the unit for its passes."""
    slot, pc, count, passes = access.slot, access.pc, access.sectors, access.passes
    if sm.access_queue.count == sm.access_queue.room:
        # the queue has space again: a scheduler that waits for it can issue in this cycle
        for scheduler in range(state.machine.schedulers):
            state.next_scheduler[sm.number * state.machine.schedulers + scheduler] = now
    remove_oldest(sm.access_queue)
    warp, instruction = sm.warps[slot], state.code[pc]
    if instruction.bulk:
        sm.unit_free = now + 1
        take(state, sm, access, now)
        accesses_done(state, sm, warp, 1, now)
        return
    machine = state.machine
    each = machine.cluster_pass_cycles if instruction.remote else machine.pass_cycles
    last_pass = (max(1, passes) - 1) * each + access.repeats * (instruction.lane_cycles if count == 0 else 0)
    least = machine.access_cycles if machine.access_cycles > 1 else 0
    sm.unit_free = now + max(least, last_pass + (each if count == 0 else 0))
    if count == 0:
        if instruction.load >= 0:
            there_and_back = machine.cluster_cycles if instruction.remote else machine.shared_cycles
            data_came(state, sm, warp, pc, now + there_and_back + last_pass, now, codes.CAUSE_ALU)
        accesses_done(state, sm, warp, 1, now)
        return
    sm.requests = _split(state, sm, warp.sector, count, pc)
    warp.sector += count
    warp.outstanding += sm.requests
    state.counters[pc].executions += 1
    if access.load >= 0:  # of a group of copies there can be more
        load = warp.loads[access.load]
        load.remaining = load.remaining - 1 + sm.requests if instruction.copies else sm.requests
    sm.load = access.load
    sm.in_hand, sm.pc, sm.whole, sm.repeats, sm.done = slot, pc, access.whole, access.repeats, 0
    sm.since, sm.room_before = now, blocked_by_room(sm, now)


@inlined
def _next_instruction(sm: Sm, after: int) -> int:
    """When the unit can take the next waiting instruction."""
    if sm.access_queue.count == 0:
        return codes.NEVER
    return max(after, sm.accesses[sm.access_queue.head].time, sm.unit_free)


@compiled
def send_request(state: State, sm: Sm, now: int) -> None:
    """One cycle of the load-store unit: take an instruction if none is in hand, and send one request into the L1."""
    if sm.in_hand < 0:
        if not has_room(state, sm, sm.accesses[sm.access_queue.head]):
            state.next_lsu[sm.number] = now + 1
            return
        _take(state, sm, sm.accesses[sm.access_queue.head], now)
        if sm.in_hand < 0:
            state.next_lsu[sm.number] = _next_instruction(sm, now + 1)
            return
    if sm.pipeline.count == sm.pipeline.room:
        state.next_lsu[sm.number] = codes.NEVER  # until the L1 removes one
        return
    request, done = sm.pipeline_requests[end_of(sm.pipeline)], sm.done
    request.line, request.mask = sm.lines[done], sm.lines[state.machine.most_requests + done]
    request.slot, request.pc, request.load = sm.in_hand, sm.pc, sm.load
    request.whole, request.repeats = sm.whole, sm.repeats
    request.time = now + state.machine.pipeline_cycles
    request.born, request.room_before = sm.since + done + state.machine.pipeline_cycles, sm.room_before
    if sm.pipeline.count == 0:
        state.next_l1[sm.number] = request.time
    sm.pipeline.count += 1
    sm.repeats = 0  # of an atomic they are those of its first sector
    sm.done = done + 1
    at_once = state.machine.sectors_a_cycle
    following = now + quotient(set_bits(request.mask) + at_once - 1, at_once)
    if sm.done < sm.requests:
        state.next_lsu[sm.number] = following if sm.pipeline.count < sm.pipeline.room else codes.NEVER
        return
    warp = sm.warps[sm.in_hand]
    sm.in_hand = -1
    sm.unit_free = max(sm.unit_free, following)
    state.next_lsu[sm.number] = _next_instruction(sm, now + 1)
    accesses_done(state, sm, warp, 1, now)
