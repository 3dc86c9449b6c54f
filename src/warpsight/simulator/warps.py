"""Warps and blocks on SMs: a warp's next instruction, when it can issue, barriers, and the launch and the end of blocks."""

from __future__ import annotations

from warpsight.addressing.integers import quotient
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import codes, phases
from warpsight.simulator.machine import Machine
from warpsight.simulator.state import Access, Instruction, Place, Sm, State, Warp
from warpsight.simulator.structures import wrapped
from warpsight.traces.events import sectors_of_event

# -- The next instruction: a warp follows its path, entry by entry.

@inlined
def _enter(state: State, warp: Warp) -> bool:
    """Go to the first instruction of the warp's path entry, or of the next that has one; False if none is left."""
    while warp.entry < warp.end:
        entry = state.path[warp.entry]
        warp.live_lanes, warp.repeat = entry.lanes, entry.repeat
        warp.pc, warp.block_end = state.block_start[entry.block], state.block_start[entry.block + 1]
        if warp.repeat > 0 and warp.pc < warp.block_end:
            return True
        warp.entry += 1
    return False


@inlined
def step(state: State, warp: Warp) -> bool:
    """Go to the next instruction; False if there is none."""
    warp.pc += 1
    if warp.pc < warp.block_end:
        return True
    warp.repeat -= 1
    if warp.repeat > 0:
        warp.pc = state.block_start[state.path[warp.entry].block]
        return True
    warp.entry += 1
    return _enter(state, warp)


@inlined
def read_event(state: State, warp: Warp, instruction: Instruction, access: Access) -> bool:
    """Read the warp's next event into `access`. False where the trace contradicts the warp's path."""
    place = warp.event
    warp.event = place + instruction.event_bytes
    if warp.event > warp.event_end:
        return False
    access.sectors, access.passes, access.repeats = sectors_of_event(state.events, place, instruction.sector_bytes), 0, 0
    access.first = warp.taken - warp.sector
    place += instruction.sector_bytes
    warp.taken += access.sectors
    if warp.taken > warp.sector_end:
        return False
    if instruction.has_degree:
        access.passes = state.events[place]
        place += 1
    if instruction.access == codes.IS_ATOMIC:
        access.repeats = state.events[place]
    return True


# -- When a warp can issue. In order, when all registers that its next instruction reads or writes are there (scoreboard).
#
# A warp whose operands have a known time is in its scheduler's timing wheel until then, and in the ready mask afterwards. The wheel
# spans `WHEEL` cycles; a warp that becomes ready later goes round again (`far`).

@inlined
def ring(machine: Machine, kind: int) -> int:
    """The first of a warp's loads that are groups of this kind."""
    return machine.loads - (codes.GROUP_KINDS - kind) * machine.groups


@inlined
def _groups_ready(state: State, warp: Warp, kind: int, first: int) -> int:
    """When the groups of a kind are there that were closed before the latest `first`; 0: and what came since."""
    groups, ready = state.machine.groups, 0
    for age in range(first, groups):
        load = warp.loads[ring(state.machine, kind) + wrapped(warp.group[kind] + groups - age, groups)]
        ready = max(ready, codes.NEVER if load.remaining > 0 else load.done)
    return ready


@inlined
def _phase_over(state: State, sm: Sm, warp: Warp, instruction: Instruction) -> int:
    """When the phase was over that the warp's next instruction tests; NEVER while it is not."""
    record = warp.event + instruction.event_bytes - phases.RECORD_BYTES
    number = phases.find(state, warp.place, record)
    if number < 0:
        return 0
    phase = sm.phases[number]
    return codes.NEVER if phase.parity == phases.amount(state, record) else phase.over


@inlined
def _operands_ready(state: State, sm: Sm, warp: Warp, instruction: Instruction) -> int:
    """When all registers of the instruction are there; NEVER while a load under way is to write one of them."""
    first = instruction.first_group
    if first == codes.OLDEST_GROUP:
        first = warp.groups_ahead if warp.groups_ahead > 0 else -1
    ready = 0 if first < 0 else _groups_ready(state, warp, instruction.wait_kind, first)
    if instruction.at_barrier == codes.TESTS:
        ready = max(ready, _phase_over(state, sm, warp, instruction))
    for k in range(instruction.register_count):
        ready = max(ready, warp.registers_ready[instruction.registers[k]])
    return ready


@inlined
def set_results(warp: Warp, instruction: Instruction, when: int) -> None:
    """The registers that the instruction writes are there at `when`."""
    for k in range(instruction.written):
        warp.registers_ready[instruction.registers[k]] = when


@inlined
def _put_in_wheel(state: State, sm: Sm, warp: Warp, when: int, now: int) -> None:
    """Let the warp become ready at `when`, after `now`."""
    scheduler = sm.schedulers[warp.scheduler]
    place = when
    if when - now >= codes.WHEEL:
        place = now + codes.WHEEL - 1
        scheduler.far |= 1 << warp.bit
    scheduler.wheel[place & (codes.WHEEL - 1)] |= 1 << warp.bit
    scheduler.occupied |= 1 << (place & (codes.WHEEL - 1))
    state.next_scheduler[scheduler.number] = min(state.next_scheduler[scheduler.number], place)


@compiled
def schedule(state: State, sm: Sm, warp: Warp, earliest: int, now: int, cause: int) -> None:
    """The warp has come to its next instruction and can issue it from `earliest` (> `now`) on, if its operands are there."""
    instruction = state.code[warp.pc]
    ready = _operands_ready(state, sm, warp, instruction)
    wants = sm.schedulers[warp.scheduler].wants
    wants[instruction.unit] |= 1 << warp.bit
    wants[instruction.whole] |= 1 << warp.bit
    if ready >= codes.NEVER:
        warp.state = codes.NEEDS_DATA
        warp.fetched_at = max(warp.fetched_at, earliest)
        return
    warp.state = codes.RUNS
    warp.ready_at = max(ready, earliest, warp.fetched_at)
    warp.cause = cause if warp.ready_at == earliest else (codes.CAUSE_ALU if warp.ready_at == ready else codes.CAUSE_FETCH)
    _put_in_wheel(state, sm, warp, warp.ready_at, now)


@compiled
def data_came(state: State, sm: Sm, warp: Warp, pc: int, when: int, now: int, cause: int) -> None:
    """The registers that `pc` writes are there at `when`; a warp that waits for them, or for copies, becomes ready then."""
    set_results(warp, state.code[pc], when)
    wake(state, sm, warp, now, cause)


@inlined
def wake(state: State, sm: Sm, warp: Warp, now: int, cause: int) -> bool:
    """Something that warps wait for is there: the warp becomes ready if it waits for nothing else. Returns whether it does."""
    if warp.state != codes.NEEDS_DATA:
        return False
    ready = _operands_ready(state, sm, warp, state.code[warp.pc])
    if ready >= codes.NEVER:
        return False
    warp.state, warp.cause = codes.RUNS, cause
    warp.ready_at = max(ready, now + 1, warp.fetched_at)
    _put_in_wheel(state, sm, warp, warp.ready_at, now)
    return True


@inlined
def fetch(state: State, sm: Sm, warp: Warp, from_cycle: int) -> None:
    """Fill the warp's instruction buffer: one warp of the SM a cycle, decoded in the next, to be issued in the one after that."""
    when = max(from_cycle, sm.next_fetch)
    sm.next_fetch = when + 1
    warp.fetched_at = when + 2
    warp.buffered = state.machine.fetch_width


# -- Barriers of the whole block, and those for a part of it in traces of other tools, which do not tell them apart.

@inlined
def _open_barrier(state: State, sm: Sm, number: int, now: int) -> None:
    """Let all warps of the block at place `number` that wait at its barrier continue."""
    sm.places[number].at_barrier, over = 0, sm.barrier_free + state.machine.barrier_latency
    first = number * state.machine.warps_per_block
    for slot in range(first, first + state.machine.warps_per_block):
        warp = sm.warps[slot]
        if warp.id >= 0 and warp.state == codes.AT_BARRIER and warp.awaited < 0:
            schedule(state, sm, warp, max(now + 1, over), now, codes.CAUSE_BARRIER)


@compiled
def arrive_at_barrier(state: State, sm: Sm, warp: Warp, now: int) -> None:
    """The warp has issued a barrier: it waits until all warps of its block that have not ended have arrived."""
    place, warp.state, warp.awaited = sm.places[warp.place], codes.AT_BARRIER, -1
    place.at_barrier += 1
    if place.at_barrier == place.live:
        _open_barrier(state, sm, warp.place, now)


@compiled
def open_all_barriers(state: State, now: int) -> None:
    """No warp can continue: they wait at barriers for a part of a block. Open these."""
    for number in range(state.machine.sm_count):
        sm = state.sms[number]
        for place in range(state.machine.places):
            if sm.places[place].at_barrier > 0:
                _open_barrier(state, sm, place, now)


# -- mbarriers: of a block, and of bulk copies; and barriers for a part of a block.

@compiled
def wake_at(state: State, sm: Sm, number: int, now: int) -> None:
    """A phase of mbarrier `number` of the SM is over: the warps of its block that wait for it become ready."""
    phase, warps = sm.phases[number], state.machine.warps_per_block
    first = quotient(number, state.machine.phases) * warps
    cause = codes.CAUSE_MEMORY if phase.total > 0 else codes.CAUSE_BARRIER
    for slot in range(first, first + warps):
        warp = sm.warps[slot]
        if warp.id >= 0 and wake(state, sm, warp, now, cause):
            warp.noc_wait, warp.dram_wait, warp.unit_wait, warp.mshr_wait = phase.noc_wait, phase.dram_wait, 0, 0
            warp.data_wait = max(0, phase.total - phase.noc_wait - phase.dram_wait)
        elif warp.id >= 0 and warp.state == codes.AT_BARRIER and warp.awaited == number:
            schedule(state, sm, warp, max(now + 1, phase.over), now, codes.CAUSE_BARRIER)


@compiled
def meet(state: State, sm: Sm, warp: Warp, instruction: Instruction, now: int) -> None:
    """The warp has issued a barrier for a part of its block: it arrives there, and may wait for the others of that part."""
    number = phases.find(state, warp.place, warp.event - phases.RECORD_BYTES)
    if number >= 0 and instruction.at_barrier == codes.MEETS:
        warp.state, warp.awaited = codes.AT_BARRIER, number
    else:
        schedule(state, sm, warp, now + instruction.stall, now, codes.CAUSE_ALU)
    if number >= 0:
        over = sm.barrier_free + state.machine.barrier_latency
        _arrive_at(state, sm, number, warp, instruction, max(now + state.machine.address_cycles, over), now)


@compiled
def arrive(state: State, sm: Sm, warp: Warp, instruction: Instruction, now: int) -> None:
    """The warp has issued an arrival on an mbarrier, which its latest event names, in its own block or in others of its cluster."""
    record = warp.event - phases.RECORD_BYTES
    number, reached, blocks = phases.find(state, warp.place, record), phases.blocks(state, record), state.machine.cluster_blocks
    if number < 0:
        return
    when = now + state.machine.address_cycles
    if reached == 0 or blocks == 1:
        _arrive_at(state, sm, number, warp, instruction, when, now)
        return
    away = now + max(state.machine.address_cycles, state.machine.cluster_cycles // 2)  # half of a round trip
    order = sm.places[warp.place].order
    first = order - order % blocks
    for rank in range(blocks):
        residence = residence_of(state, first, rank) if reached >> rank & 1 else -1
        if residence >= 0:
            there, place = state.sms[residence // state.machine.places], residence % state.machine.places
            at = place * state.machine.phases + number % state.machine.phases
            _arrive_at(state, there, at, warp, instruction, when if first + rank == order else away, now)


@inlined
def residence_of(state: State, first: int, rank: int) -> int:
    """Where a block of the cluster is that began with block `first` of the order: SM x places + place; -1: it is not there."""
    residence = state.residences[first + rank]
    place = state.sms[residence // state.machine.places].places[residence % state.machine.places]
    return residence if place.order == first + rank else -1


@inlined
def _arrive_at(state: State, sm: Sm, number: int, warp: Warp, instruction: Instruction, when: int, now: int) -> None:
    """Do what the warp has issued at mbarrier `number` of an SM; a commit arrives behind the warp's products."""
    record = warp.event - phases.RECORD_BYTES
    moved = phases.data(state, record)
    if instruction.at_barrier == codes.COMPLETES:
        over = phases.complete(sm.phases[number], moved, when, 1, 0, 0)
    else:
        done = max(when, warp.products) if instruction.at_barrier == codes.COMMITS else when
        over = phases.arrive(state, sm.phases[number], record, moved, done)
    if over:
        wake_at(state, sm, number, now)


@compiled
def end_awaited_phases(state: State, now: int) -> None:
    """No warp can continue: they wait for what the trace does not have. End in each block the phase that was waited for first."""
    for number in range(state.machine.sm_count):
        sm = state.sms[number]
        for place in range(state.machine.places):
            found = _waited_for_first(state, sm, place)
            if found >= 0:
                phases.end(sm.phases[found], now)
                wake_at(state, sm, found, now)


@inlined
def _waited_for_first(state: State, sm: Sm, place: int) -> int:
    """The mbarrier of the block at a place for which a warp waits the longest, or its barrier for a part of it; -1: none does."""
    found, since = -1, codes.NEVER
    for slot in range(place * state.machine.warps_per_block, (place + 1) * state.machine.warps_per_block):
        warp = sm.warps[slot]
        if warp.id >= 0 and warp.state == codes.AT_BARRIER and warp.awaited >= 0 and found < 0:
            found = warp.awaited
        if warp.id >= 0 and warp.state == codes.NEEDS_DATA and state.code[warp.pc].at_barrier == codes.TESTS:
            record = warp.event + state.code[warp.pc].event_bytes - phases.RECORD_BYTES
            number = phases.find(state, place, record)
            waits = number >= 0 and sm.phases[number].parity == phases.amount(state, record)
            if waits and warp.fetched_at < since:
                found, since = number, warp.fetched_at
    return found


# -- Blocks: one a cycle and SM while there is space, in the order of the grid.

@compiled
def end_warp(state: State, sm: Sm, warp: Warp, now: int) -> None:
    """The warp has no instructions left. It leaves when its accesses are done; the last one of a block frees its place."""
    if warp.event != warp.event_end or warp.taken != warp.sector_end:
        state.bad_warp = warp.id
        return
    warp.state = codes.DRAINS
    if warp.outstanding > 0:
        return
    place = sm.places[warp.place]
    warp.id = -1
    place.live -= 1
    state.live_warps -= 1
    state.last_end = now
    if place.live == 0:
        _free_place(state, sm, place, warp.place, now)
    elif place.at_barrier == place.live:
        _open_barrier(state, sm, warp.place, now)


@inlined
def _free_place(state: State, sm: Sm, place: Place, number: int, now: int) -> None:
    """The block has ended; the block distributor uses its place in the next cycle, or when the SM is ready for the next block."""
    age = 0
    while sm.oldest_first[age] != number:
        age += 1
    sm.blocks -= 1
    for k in range(age, sm.blocks):
        sm.oldest_first[k] = sm.oldest_first[k + 1]
    place.live, place.free_since = -1, now + state.machine.vacant_cycles
    state.free_places += 1
    state.next_start = min(state.next_start, place.free_since + 1)


@inlined
def _start_warp(state: State, sm: Sm, warp: Warp, number: int, now: int, after: int) -> None:
    """Begin warp `number` of the launch in a free slot; it can issue `after` cycles after the next."""
    window = state.window[number - state.first_warp]
    warp.id = number
    warp.entry, warp.end = window.entry, window.end
    warp.event, warp.event_end = window.event, window.event_end
    warp.sector, warp.taken, warp.sector_end = window.sector, window.sector, window.sector_end
    warp.outstanding = warp.copied = warp.fetched_at = warp.groups_ahead = warp.products = 0
    for register in range(state.machine.registers):
        warp.registers_ready[register] = 0
    if state.machine.fetch_width > 0:
        fetch(state, sm, warp, now)
    if _enter(state, warp):
        schedule(state, sm, warp, now + 1 + after, now, codes.CAUSE_START)
    else:
        end_warp(state, sm, warp, now)


@inlined
def _started(state: State, place: int) -> int:
    """The number of the block that starts at `place` of the order."""
    return place if state.machine.in_order else state.block_order[place]


@compiled
def _start_block(state: State, sm: Sm, number: int, now: int) -> None:
    """Put the next block of the grid into the free place `number`."""
    warps = state.machine.warps_per_block
    first = _started(state, state.next_block) * warps
    state.free_places -= 1
    state.next_start = now + 1
    state.sent = max(state.sent, now * codes.TICKS) + state.machine.block_ticks
    state.next_block += 1
    state.live_warps += warps
    sm.oldest_first[sm.blocks] = number
    sm.blocks += 1
    place = sm.places[number]
    place.live, place.at_barrier = warps, 0
    if state.machine.cluster_blocks > 1:
        place.order = state.next_block - 1
        state.residences[place.order] = sm.number * state.machine.places + number
    for k in range(number * state.machine.phases, (number + 1) * state.machine.phases):
        phases.begin(sm.phases[k])
    for k in range(warps):
        _start_warp(state, sm, sm.warps[number * warps + k], first + k, now, k * state.machine.start_cycles)


@inlined
def _vacant(state: State, sm: Sm, now: int) -> int:
    """A place of the SM where a block can start now; -1 if there is none. Notes when the next of the others can be used."""
    for number in range(state.machine.places):
        place = sm.places[number]
        if place.live < 0:
            if place.free_since < now:
                return number
            state.next_start = min(state.next_start, place.free_since + 1)
    return -1


@compiled
def distribute_blocks(state: State, now: int) -> bool:
    """Start one block on each SM that has a free place, at the GPU's pace; False when the next block is not in the window."""
    if state.next_start > now:
        return True
    first = state.next_sm
    state.next_start = now + 1 if first > 0 else codes.NEVER  # the SMs before it have not been asked
    for number in range(first, state.machine.sm_count):
        state.next_sm = number
        if state.next_block >= state.machine.blocks:
            state.free_places = 0
            break
        if state.sent >= (now + 1) * codes.TICKS:
            state.next_start = state.sent // codes.TICKS
            return True
        sm = state.sms[number]
        place = _vacant(state, sm, now)
        if place >= 0:
            if (state.next_block + 1) * state.machine.warps_per_block > state.last_warp:
                state.next_start = now
                return False
            _start_block(state, sm, place, now)
    state.next_sm = 0
    return True


# -- Clusters: their blocks leave one after the other for SMs of one GPC that has room for all of them.

@inlined
def _vacant_places(state: State, sm: Sm, now: int) -> int:
    """Places of the SM where blocks can start now. Notes when the next of the others can be used."""
    vacant = 0
    for number in range(state.machine.places):
        place = sm.places[number]
        if place.live < 0 and place.free_since < now:
            vacant += 1
        elif place.live < 0:
            state.next_start = min(state.next_start, place.free_since + 1)
    return vacant


@compiled
def _choose_gpc(state: State, now: int) -> int:
    """Of the GPCs with room for a cluster, that to which the fewest blocks have gone; -1 if there is none."""
    chosen = -1
    for gpc in range(state.machine.gpcs):
        vacant = 0
        for number in range(state.machine.sm_count):
            if state.sms[number].gpc == gpc:
                vacant += _vacant_places(state, state.sms[number], now)
        fits = vacant >= state.machine.cluster_blocks
        if fits and (chosen < 0 or state.gpc_blocks[gpc] < state.gpc_blocks[chosen]):
            chosen = gpc
    return chosen


@compiled
def _emptiest_sm(state: State, now: int) -> int:
    """The SM of the cluster's GPC that has the fewest blocks, of those with room for one."""
    chosen = -1
    for number in range(state.machine.sm_count):
        sm = state.sms[number]
        fewer = chosen < 0 or sm.blocks < state.sms[chosen].blocks
        if sm.gpc == state.cluster_gpc and fewer and _vacant(state, sm, now) >= 0:
            chosen = number
    return chosen


@compiled
def distribute_clusters(state: State, now: int) -> bool:
    """Start the blocks of clusters at the GPU's pace; False when the next cluster is not in the window."""
    if state.next_start > now:
        return True
    state.next_start = codes.NEVER
    while state.cluster_left > 0 or state.next_block < state.machine.blocks:
        if state.sent >= (now + 1) * codes.TICKS:
            state.next_start = state.sent // codes.TICKS
            return True
        if state.cluster_left == 0:
            last = _started(state, state.next_block + state.machine.cluster_blocks - 1)
            if (last + 1) * state.machine.warps_per_block > state.last_warp:
                state.next_start = now
                return False
            gpc = _choose_gpc(state, now)
            if gpc < 0:
                return True
            state.cluster_gpc, state.cluster_left = gpc, state.machine.cluster_blocks
            state.gpc_blocks[gpc] += state.machine.cluster_blocks
        sm = state.sms[_emptiest_sm(state, now)]
        state.cluster_left -= 1
        _start_block(state, sm, _vacant(state, sm, now), now)
    state.free_places = 0
    return True
