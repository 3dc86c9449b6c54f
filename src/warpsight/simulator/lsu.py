"""The load-store unit of an SM: memory instructions in the order of issue, split into requests that enter the L1, one a cycle."""

from __future__ import annotations

from warpsight.addressing.coalescing import LINE_128, bank_of, is_divergent, merge_lines
from warpsight.addressing.integers import quotient, set_bits
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import codes
from warpsight.simulator.bulk import has_room, take
from warpsight.simulator.scheduler import blocked_by_room
from warpsight.simulator.state import Access, Sm, State, Warp
from warpsight.simulator.structures import Queue, end_of, remove_oldest
from warpsight.simulator.warps import data_came, end_warp, schedule

_SECTORS_A_PASS = 4  # 128 bytes

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
    if warp.state == codes.DRAINS and warp.outstanding == 0:
        end_warp(state, sm, warp, now)
    elif warp.state == codes.FENCED and warp.outstanding == warp.copied:
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
        if state.code[load.pc].copies:  # written to shared memory as it comes
            passes = quotient(load.passes, load.remaining)
            sm.unit_free = max(sm.unit_free, now) + passes * state.machine.pass_cycles
            load.passes -= passes
            when = max(when, sm.unit_free)
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
def _taken(state: State, sm: Sm, queue: Queue, now: int) -> None:
    """The oldest instruction leaves its queue. If it was full, a scheduler that waits for it can issue in this cycle."""
    if queue.count == queue.room:
        for scheduler in range(state.machine.schedulers):
            state.next_scheduler[sm.number * state.machine.schedulers + scheduler] = now
    remove_oldest(queue)


@inlined
def _passes(state: State, sm: Sm, access: Access, now: int) -> None:
    """The instruction occupies the data path: for its passes through the banks, and no shorter than an instruction takes."""
    machine, alone = state.machine, access.sectors == 0
    each = machine.cluster_pass_cycles if state.code[access.pc].remote else machine.pass_cycles
    last_pass = (max(1, access.passes) - 1) * each
    last_pass += access.repeats * state.code[access.pc].lane_cycles if alone else 0
    least = machine.access_cycles if machine.access_cycles > 1 else 0
    sm.unit_free = now + max(least, last_pass + (each if alone else 0))
    if alone:
        warp, instruction = sm.warps[access.slot], state.code[access.pc]
        if instruction.load >= 0:
            there_and_back = machine.cluster_cycles if instruction.remote else machine.shared_cycles
            data_came(state, sm, warp, access.pc, now + there_and_back + last_pass, now, codes.CAUSE_ALU)
        accesses_done(state, sm, warp, 1, now)


@inlined
def _to_hand(state: State, sm: Sm, access: Access, now: int) -> None:
    """The requests of the instruction are next at the tags."""
    slot, pc, count = access.slot, access.pc, access.sectors
    warp, instruction = sm.warps[slot], state.code[pc]
    sm.requests = _split(state, sm, warp.sector + access.first, count, pc)
    warp.outstanding += sm.requests
    state.counters[pc].executions += 1
    if access.load >= 0:  # of a group of copies there can be more
        load = warp.loads[access.load]
        load.remaining = load.remaining - 1 + sm.requests if instruction.copies else sm.requests
        load.passes += quotient(count + _SECTORS_A_PASS - 1, _SECTORS_A_PASS) if instruction.copies else 0
    sm.load = access.load
    sm.in_hand, sm.pc, sm.whole, sm.repeats, sm.changed, sm.done = slot, pc, access.whole, access.repeats, access.changed, 0
    sm.copying, sm.lookups = instruction.copies, 0
    sm.since, sm.room_before = now, blocked_by_room(sm, now)


@inlined
def _take(state: State, sm: Sm, now: int) -> None:
    """Take the oldest instruction that can begin: an access if the data path is free, a copy if the tags are.

    While the requests of a copy are sent, accesses to shared memory alone pass it. Bulk copies go on to their own unit.
    """
    accesses, copies = sm.access_queue, sm.async_queue
    if accesses.count > 0 and max(sm.accesses[accesses.head].time, sm.unit_free) <= now:
        access = sm.accesses[accesses.head]
        if state.code[access.pc].bulk:
            if has_room(state, sm, access):
                _taken(state, sm, accesses, now)
                sm.unit_free = now + 1
                take(state, sm, access, now)
                accesses_done(state, sm, sm.warps[access.slot], 1, now)
        elif access.sectors == 0 or (sm.in_hand < 0 and sm.tags_free <= now):
            _taken(state, sm, accesses, now)
            _passes(state, sm, access, now)
            if access.sectors > 0:
                _to_hand(state, sm, access, now)
    if sm.in_hand < 0 and copies.count > 0 and max(sm.async_copies[copies.head].time, sm.tags_free) <= now:
        access = sm.async_copies[copies.head]
        _taken(state, sm, copies, now)
        if access.sectors > 0:
            _to_hand(state, sm, access, now)
        else:  # it writes zeros
            request_done(state, sm, handle_of(state, access.slot, access.load), now + 1, 0, 0, now)


@inlined
def has_room_at_tags(state: State, sm: Sm) -> bool:
    """Whether the pipeline of the L1 takes what is looked up together."""
    return bool(sm.pipeline.count + state.machine.tag_banks <= sm.pipeline.room)


@inlined
def _bank(state: State, sm: Sm) -> int:
    """The bank of the tags for the next request of the instruction in hand. Stores and atomics send one request a cycle."""
    banks = state.machine.tag_banks if state.code[sm.pc].access == codes.IS_LOAD else 1
    return bank_of(sm.lines[sm.done], banks)


@inlined
def _send(state: State, sm: Sm, now: int) -> None:
    """Send one request of the instruction in hand to the tags of the L1, to a bank that is not busy in this cycle."""
    request, done, access = sm.pipeline_requests[end_of(sm.pipeline)], sm.done, state.code[sm.pc].access
    request.together = sm.busy_banks != 0
    if not request.together:
        sm.lookups += 1
        state.counters[sm.pc].tag_cycles += 1 if access == codes.IS_LOAD else 0
    sm.busy_banks |= _bank(state, sm)
    request.line, request.mask = sm.lines[done], sm.lines[state.machine.most_requests + done]
    request.slot, request.pc, request.load = sm.in_hand, sm.pc, sm.load
    request.whole, request.repeats, request.changed = sm.whole, sm.repeats, sm.changed
    request.time = now + state.machine.pipeline_cycles
    request.born, request.room_before = sm.since + sm.lookups - 1 + state.machine.pipeline_cycles, sm.room_before
    if sm.pipeline.count == 0:
        state.next_l1[sm.number] = request.time
    sm.pipeline.count += 1
    sm.repeats = 0  # of an atomic they are those of its first sector
    sm.done = done + 1
    at_once = state.machine.sectors_a_cycle
    sm.tags_free = max(sm.tags_free, now + quotient(set_bits(request.mask) + at_once - 1, at_once))
    if sm.done == sm.requests:
        warp = sm.warps[sm.in_hand]
        sm.in_hand = -1
        if not sm.copying:
            sm.unit_free = max(sm.unit_free, sm.tags_free)
        accesses_done(state, sm, warp, 1, now)


@inlined
def _next(state: State, sm: Sm, now: int) -> int:
    """When the unit can do more."""
    time = codes.NEVER  # until the L1 removes a request
    if sm.in_hand >= 0 and has_room_at_tags(state, sm):
        time = sm.tags_free
    if sm.access_queue.count > 0 and (sm.in_hand < 0 or sm.copying):
        time = min(time, max(sm.accesses[sm.access_queue.head].time, sm.unit_free))
    if sm.async_queue.count > 0 and sm.in_hand < 0:
        time = min(time, max(sm.async_copies[sm.async_queue.head].time, sm.tags_free))
    return max(time, now + 1)


@compiled
def work_on_accesses(state: State, sm: Sm, now: int) -> None:
    """One cycle of the load-store unit: take an instruction, and send one request into the L1, of a load one to each bank of tags.

    An access to global memory has the data path as long as it sends requests. A copy has it when its data come (`request_done`).
    """
    if sm.in_hand < 0 or sm.copying:
        _take(state, sm, now)
    if sm.tags_free <= now and has_room_at_tags(state, sm):
        sm.busy_banks = 0
        while sm.in_hand >= 0 and not sm.busy_banks & _bank(state, sm):
            _send(state, sm, now)
    state.next_lsu[sm.number] = _next(state, sm, now)
