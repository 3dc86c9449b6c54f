"""Warp schedulers: which ready warp issues, what its issue does, and what an idle issue slot waited for.

A scheduler issues up to `issue_width` instructions a cycle, of different warps. `lrr` takes the next warp in turn after the one
that issued last, `gto` the same warp again as long as it can, then the oldest (Rogers, O'Connor, Aamodt, MICRO 2012).
"""

from __future__ import annotations

from warpsight.addressing.coalescing import bytes_of_sector
from warpsight.addressing.integers import quotient, trailing_zeros
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import codes, phases
from warpsight.simulator.machine import Machine
from warpsight.simulator.state import Access, CpiStack, Instruction, Scheduler, Sm, State, Warp
from warpsight.simulator.structures import end_of, wrapped
from warpsight.simulator.warps import (
    arrive,
    arrive_at_barrier,
    end_warp,
    fetch,
    meet,
    read_event,
    ring,
    schedule,
    set_results,
    step,
)

# -- The CPI stack: the cycles since a scheduler's last issue are those of what the warp that issues now waited for.

@inlined
def blocked_by_mshr(sm: Sm, now: int) -> int:
    """Cycles until `now` that the SM's L1 has been blocked for lack of an MSHR."""
    return sm.blocked_by_mshr + (now - sm.blocked_since if sm.blocked == codes.NO_MSHR else 0)


@inlined
def blocked_by_room(sm: Sm, now: int) -> int:
    """Cycles until `now` that the SM's L1 has been blocked for lack of room in the miss queue."""
    return sm.blocked_by_room + (now - sm.blocked_since if sm.blocked == codes.NO_ROOM else 0)


@inlined
def _charge_operands(machine: Machine, stack: CpiStack, warp: Warp, cycles: int) -> None:
    """Charge idle cycles to what the operands of the warp's next instruction waited for.

    A warp that starts has been waited for: for its block to come, where that takes time, or because there was none before.
    """
    if warp.cause == codes.CAUSE_ALU:
        stack.com_data += cycles
    elif warp.cause == codes.CAUSE_BARRIER:
        stack.sync += cycles
    elif warp.cause == codes.CAUSE_FETCH:
        stack.com_struct += cycles
    elif warp.cause == codes.CAUSE_START:
        if machine.block_ticks + machine.vacant_cycles + machine.start_cycles > 0:
            stack.launch += cycles
        else:
            stack.idle += cycles
    else:
        whole = warp.data_wait + warp.unit_wait + warp.mshr_wait + warp.noc_wait + warp.dram_wait
        share = cycles / max(1, whole)
        stack.mem_data += share * warp.data_wait if whole > 0 else cycles
        stack.com_struct += share * warp.unit_wait
        stack.mshr += share * warp.mshr_wait
        stack.noc += share * warp.noc_wait
        stack.dram += share * warp.dram_wait


@inlined
def _account(state: State, sm: Sm, scheduler: Scheduler, warp: Warp, now: int) -> None:
    """The warp issues now: charge the scheduler's cycles since its last issue.

    First to the warp's operands, then to its unit; of the latter, as long as the L1 was blocked, to what blocked it.
    """
    stack, last = state.stack[warp.pc], scheduler.last_issue
    if now == last:
        return
    stack.base += 1
    scheduler.last_issue = now
    gap = now - last - 1
    mshr, room = blocked_by_mshr(sm, now), blocked_by_room(sm, now)
    if gap > 0:
        operands = min(gap, max(0, warp.ready_at - last - 1))
        if operands > 0:
            _charge_operands(state.machine, stack, warp, operands)
        rest = gap - operands
        if rest > 0 and state.code[warp.pc].unit <= codes.UNIT_ASYNC_COPIES:
            held = min(rest, mshr - scheduler.mshr_seen)
            stack.mshr += held
            rest -= held
            held = min(rest, room - scheduler.room_seen)
            stack.noc += held
            rest -= held
        stack.com_struct += rest
    scheduler.mshr_seen, scheduler.room_seen = mshr, room


# -- Issue.

@inlined
def _join_writes(machine: Machine, warp: Warp) -> int:
    """A bulk copy from shared memory becomes a part of the open groups of writes and of reads; gives the former."""
    writes = ring(machine, codes.WRITES) + warp.group[codes.WRITES]
    warp.loads[writes].remaining += 1
    warp.loads[writes + machine.groups].remaining += 1
    return writes


@inlined
def _to_load_store_unit(state: State, sm: Sm, warp: Warp, instruction: Instruction, access: Access, now: int) -> None:
    """Complete the entry at the end of its queue of the load-store unit with what the warp has issued."""
    access.slot, access.pc, access.time = warp.slot, warp.pc, now + state.machine.address_cycles
    # Lanes are known where the basic block was entered; with fewer bytes than its sectors hold, some sector is partly written.
    lanes_bytes = warp.live_lanes * instruction.access_bytes
    access.whole = lanes_bytes >= 32 * access.sectors
    access.repeats = max(0, access.repeats - 1) if instruction.access == codes.IS_ATOMIC else 0
    access.changed = bytes_of_sector(lanes_bytes, access.repeats, max(1, access.sectors), instruction.access_bytes)
    queue = sm.async_queue if instruction.copies else sm.access_queue
    queue.count += 1
    sm.first_scheduler = warp.scheduler + 1 if warp.scheduler + 1 < state.machine.schedulers else 0
    if queue.count == 1 and (sm.in_hand < 0 or sm.copying):
        state.next_lsu[sm.number] = min(state.next_lsu[sm.number], access.time)
    warp.outstanding += 1
    if instruction.bulk:
        completes, record = instruction.at_barrier == codes.COMPLETES, warp.event - phases.RECORD_BYTES
        access.phase = phases.find(state, warp.place, record) if completes else -1
        access.data = phases.data(state, record) if completes else 0
        in_cluster = completes and state.machine.cluster_blocks > 1
        access.blocks = phases.blocks(state, record) if in_cluster else 0
        access.reaches = phases.reaches(state, record) if in_cluster else 0
    access.load = ring(state.machine, codes.COPIES) + warp.group[codes.COPIES] if instruction.copies else instruction.load
    if instruction.bulk and instruction.access != codes.IS_LOAD and state.machine.groups > 0:
        access.load = _join_writes(state.machine, warp)
    elif access.load >= 0:
        load = warp.loads[access.load]
        load.issued, load.pc = now, warp.pc
        load.mshr_before, load.room_before = blocked_by_mshr(sm, now), blocked_by_room(sm, now)
        load.unit_wait = load.mshr_wait = load.room_wait = 0
        load.remaining += 1 if instruction.copies else 0  # until its requests are known
        set_results(warp, instruction, codes.NEVER)


@inlined
def _begin_product(machine: Machine, scheduler: Scheduler, warp: Warp, instruction: Instruction, now: int) -> None:
    """A product of a warp group, or with tensor memory, begins when its pipe is free; the warp goes on."""
    begun = max(now, scheduler.unit_free[instruction.pipe])
    scheduler.unit_free[instruction.pipe] = begun + instruction.busy
    if instruction.at_barrier == codes.PRODUCT:
        warp.products = begun + instruction.latency
    elif machine.groups > 0:
        load = warp.loads[ring(machine, codes.PRODUCTS) + warp.group[codes.PRODUCTS]]
        load.done = max(load.done, begun + instruction.latency)


@inlined
def _without_access(state: State, sm: Sm, scheduler: Scheduler, warp: Warp, instruction: Instruction, now: int) -> None:
    """What the issue of an instruction that accesses no memory does to its registers and its unit."""
    if instruction.pipe >= 0:  # all tensor cores make a part of a product with tensor memory, in the same time
        first = 0 if instruction.at_barrier == codes.PRODUCT else scheduler.index
        _begin_product(state.machine, sm.schedulers[first], warp, instruction, now)
        return
    set_results(warp, instruction, now + instruction.latency)
    if instruction.unit > codes.UNIT_ASYNC_COPIES:
        scheduler.unit_free[instruction.whole] = now + instruction.held
        scheduler.unit_free[instruction.unit] = now + instruction.busy


@inlined
def _watch(state: State, warp: Warp, now: int) -> None:
    """Record what the watched SM issues, as long as there is room."""
    if state.watched < state.machine.watch_room:
        record = state.issues[state.watched]
        record.issued, record.slot, record.warp, record.pc = now, warp.slot, warp.id, warp.pc
        record.ready, record.cause = warp.ready_at, warp.cause
        state.watched += 1


@inlined
def _next_in_buffer(state: State, sm: Sm, warp: Warp, in_order: bool, now: int) -> None:
    """Remove the issued instruction from the warp's buffer; after a taken branch, refill the buffer a cycle later."""
    warp.buffered -= 1
    if warp.buffered == 0:
        fetch(state, sm, warp, now)
    elif not in_order:
        fetch(state, sm, warp, now + 1)


@inlined
def _count_groups(machine: Machine, warp: Warp, instruction: Instruction) -> None:
    """The instruction may close a group of asynchronous copies, or have waited for the oldest one."""
    groups, closes = max(1, machine.groups), instruction.ends & (1 << codes.COPIES)
    for kind in range(codes.GROUP_KINDS if instruction.ends != 0 else 0):
        if instruction.ends & (1 << kind) != 0:
            warp.group[kind] = wrapped(warp.group[kind] + 1, groups)
    waited = 1 if instruction.first_group == codes.OLDEST_GROUP else 0
    warp.groups_ahead = min(max(0, warp.groups_ahead - waited) + closes, groups - 1)


@inlined
def _take_event(state: State, sm: Sm, warp: Warp, instruction: Instruction, now: int) -> int:
    """Read the event of what the warp issues, if it has one. Returns 1 for an access, which is in its queue then, 0 for none, and
    -1 where the trace contradicts the warp's path.
    """
    if instruction.kind == codes.BARRIER and instruction.at_barrier != codes.NOT_THERE:
        warp.event += instruction.event_bytes
        return 0 if warp.event <= warp.event_end else -1
    if not codes.GLOBAL <= instruction.kind <= codes.SHARED:
        return 0
    access = sm.async_copies[end_of(sm.async_queue)] if instruction.copies else sm.accesses[end_of(sm.access_queue)]
    if not read_event(state, warp, instruction, access):
        return -1
    if access.sectors + access.passes + access.repeats == 0:
        return 0
    _to_load_store_unit(state, sm, warp, instruction, access, now)
    return 1


@inlined
def _go_on(state: State, sm: Sm, warp: Warp, instruction: Instruction, now: int) -> None:
    """The warp has issued the instruction and has come to the one after it. Arrivals at barriers are taken in turn."""
    if instruction.kind == codes.BARRIER:
        sm.barrier_free = max(sm.barrier_free, now) + state.machine.barrier_cycles
        if instruction.at_barrier != codes.NOT_THERE:
            meet(state, sm, warp, instruction, now)
        else:
            arrive_at_barrier(state, sm, warp, now)
    elif instruction.kind == codes.FENCE and warp.outstanding > warp.copied:
        warp.state = codes.FENCED
    else:
        schedule(state, sm, warp, now + instruction.stall, now, codes.CAUSE_ALU)


@compiled
def _issue(state: State, sm: Sm, scheduler: Scheduler, bit: int, now: int) -> None:
    """The scheduler's warp with this bit issues its next instruction and goes to the one after it."""
    warp = sm.warps[bit * state.machine.schedulers + scheduler.index]
    pc = warp.pc
    instruction = state.code[pc]
    scheduler.wants[instruction.unit] &= ~(1 << bit)
    scheduler.wants[instruction.whole] &= ~(1 << bit)
    _account(state, sm, scheduler, warp, now)
    state.issued += 1
    if sm.number == state.machine.watched_sm:
        _watch(state, warp, now)
    accesses = _take_event(state, sm, warp, instruction, now)
    if accesses < 0:
        state.bad_warp = warp.id
        return
    if accesses == 0:
        _without_access(state, sm, scheduler, warp, instruction, now)
    # a copy that reads nothing, as its box lies outside of the tensor, is done at once
    arrives = instruction.at_barrier in (codes.ARRIVES, codes.COMMITS) and instruction.kind != codes.BARRIER
    if arrives or (instruction.at_barrier == codes.COMPLETES and accesses == 0):
        arrive(state, sm, warp, instruction, now)
    _count_groups(state.machine, warp, instruction)
    if instruction.operands_read >= 0:
        warp.registers_ready[instruction.operands_read] = now + instruction.operand_cycles
    if not step(state, warp):
        end_warp(state, sm, warp, now)
        return
    if state.machine.fetch_width > 0:
        _next_in_buffer(state, sm, warp, warp.pc == pc + 1, now)
    _go_on(state, sm, warp, instruction, now)


# -- Selection.

@inlined
def _bits(first: int, count: int) -> int:
    """A mask of `count` bits from `first` on."""
    return -1 << first if count >= codes.WHEEL else ((1 << count) - 1) << first


@inlined
def _oldest(state: State, sm: Sm, scheduler: int, candidates: int) -> int:
    """The first candidate of the block that has been on the SM for longest."""
    schedulers, warps = state.machine.schedulers, state.machine.warps_per_block
    for age in range(sm.blocks):
        first_slot = sm.oldest_first[age] * warps
        first = quotient(first_slot + schedulers - 1 - scheduler, schedulers)
        last = quotient(first_slot + warps + schedulers - 1 - scheduler, schedulers)
        mine = candidates & _bits(first, last - first)
        if mine != 0:
            return int(trailing_zeros(mine))
    return int(trailing_zeros(candidates))


@inlined
def _select(state: State, sm: Sm, scheduler: Scheduler, candidates: int) -> int:
    """The bit of the warp that issues."""
    last = scheduler.last
    if state.machine.greedy:
        if last >= 0 and candidates & (1 << last) != 0:
            return last
        return _oldest(state, sm, scheduler.index, candidates)
    later = candidates & (-2 << last) if last >= 0 else candidates
    return int(trailing_zeros(later if later != 0 else candidates))


@inlined
def _candidates(state: State, sm: Sm, scheduler: Scheduler, now: int) -> int:
    """Ready warps whose unit is free. For the others, `next_scheduler` is set to when their unit is free."""
    candidates = scheduler.ready
    if sm.access_queue.count >= sm.access_queue.room:
        candidates &= ~scheduler.wants[codes.UNIT_MEMORY]
    if sm.async_queue.count >= sm.async_queue.room:
        candidates &= ~scheduler.wants[codes.UNIT_ASYNC_COPIES]
    for unit in range(codes.UNIT_ASYNC_COPIES + 1, state.machine.units):
        free = scheduler.unit_free[unit]
        if free > now:
            if candidates & scheduler.wants[unit] != 0:
                state.next_scheduler[scheduler.number] = min(state.next_scheduler[scheduler.number], free)
            candidates &= ~scheduler.wants[unit]
    return candidates


# -- The timing wheel.

@inlined
def _wake(sm: Sm, scheduler: Scheduler, schedulers: int, now: int) -> None:
    """Move the warps that become ready now from the wheel to the ready mask."""
    spoke = now & (codes.WHEEL - 1)
    if scheduler.occupied & (1 << spoke) == 0:
        return
    woken = scheduler.wheel[spoke]
    scheduler.wheel[spoke] = 0
    scheduler.occupied &= ~(1 << spoke)
    far = woken & scheduler.far
    while far != 0:
        bit = trailing_zeros(far)
        far &= far - 1
        when = sm.warps[bit * schedulers + scheduler.index].ready_at
        if when <= now:
            scheduler.far &= ~(1 << bit)
            continue
        woken &= ~(1 << bit)
        place = min(when, now + codes.WHEEL - 1)
        if place == when:
            scheduler.far &= ~(1 << bit)
        scheduler.wheel[place & (codes.WHEEL - 1)] |= 1 << bit
        scheduler.occupied |= 1 << (place & (codes.WHEEL - 1))
    scheduler.ready |= woken


@inlined
def _next_wakeup(occupied: int, now: int) -> int:
    """When the wheel next has a warp, after `now`."""
    if occupied == 0:
        return codes.NEVER
    start = (now + 1) & (codes.WHEEL - 1)
    later = occupied & (-1 << start)
    if later != 0:
        return now + 1 + int(trailing_zeros(later)) - start
    return now + 1 + int(trailing_zeros(occupied)) + codes.WHEEL - start


@compiled
def schedule_and_issue(state: State, number: int, now: int) -> None:
    """One cycle of the scheduler with this number, counted through all SMs."""
    sm = state.sms[quotient(number, state.machine.schedulers)]
    scheduler = sm.schedulers[number - sm.number * state.machine.schedulers]
    _wake(sm, scheduler, state.machine.schedulers, now)
    state.next_scheduler[number] = codes.NEVER
    issued = 0
    while issued < state.machine.issue_width:
        candidates = _candidates(state, sm, scheduler, now)
        if candidates == 0:
            break
        bit = _select(state, sm, scheduler, candidates)
        scheduler.ready &= ~(1 << bit)
        scheduler.last = bit
        _issue(state, sm, scheduler, bit, now)
        issued += 1
    again = now + 1 if issued > 0 and scheduler.ready != 0 else _next_wakeup(scheduler.occupied, now)
    state.next_scheduler[number] = min(state.next_scheduler[number], again)
