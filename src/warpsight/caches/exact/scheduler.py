"""Which warp of an SM issues next. Warp slots belong to the SM's schedulers in turn."""

from __future__ import annotations

from warpsight.base.compiled import compiled, inlined
from warpsight.base.records import Table
from warpsight.caches.exact.state import DO_MEMORY, GTO, NEVER, State


@inlined
def _earliest(times: Table[int], first: int, end: int, step: int) -> int:
    """The least of every `step`-th entry. Free of branches where all count, so that the compiler compares several at a time."""
    least = NEVER
    if step == 1:
        for place in range(first, end):
            least = min(least, times[place])
        return least
    place = first
    while place < end:
        least = min(least, times[place])
        place += step
    return least


@inlined
def _greedy_then_oldest(state: State, sm: int, scheduler: int, limit: int) -> int:
    """The oldest of the scheduler's warps that is eligible by `limit`; -1 if none."""
    machine, first_slot = state.machine, sm * state.machine.warp_slots
    for age in range(state.sms[sm].resident):
        slot = state.age_order[sm * machine.blocks_per_sm + age] * machine.warps_per_block
        end = slot + machine.warps_per_block
        while machine.schedulers > 1 and (slot - scheduler) % machine.schedulers != 0:
            slot += 1
        while slot < end:
            if state.eligible[first_slot + slot] <= limit:
                return slot
            slot += machine.schedulers
    return -1


@compiled
def _round_robin(state: State, sm: int, scheduler: int, limit: int) -> int:
    """The next of the scheduler's warps in turn that is eligible by `limit`; -1 if none."""
    step, slots = state.machine.schedulers, state.machine.warp_slots
    slot = state.schedulers[sm * step + scheduler].last
    for _ in range(slots):
        slot = scheduler if slot < 0 or slot + step >= slots else slot + step
        if state.eligible[sm * slots + slot] <= limit:
            return slot
    return -1


@inlined
def _choose(state: State, sm: int, scheduler: int, horizon: int) -> int:
    """The warp that goes next, by the GPU's policy, among those eligible by `horizon`, else the first that is; -1 if none.

    A greedy scheduler stays with its last warp while that is eligible.
    """
    machine = state.machine
    first = sm * machine.warp_slots
    greedy = machine.policy == GTO
    last = state.schedulers[sm * machine.schedulers + scheduler].last
    if greedy and last >= 0 and state.eligible[first + last] <= horizon:
        return last
    earliest = _earliest(state.eligible, first + scheduler, first + machine.warp_slots, machine.schedulers)
    if earliest == NEVER:
        return -1
    limit = max(earliest, horizon)
    return _greedy_then_oldest(state, sm, scheduler, limit) if greedy else _round_robin(state, sm, scheduler, limit)


@compiled
def pick(state: State, sm: int, number: int) -> None:
    """Choose the warp that scheduler `number` of `sm` runs next, and when. Needed after a change of its warps or its clock."""
    machine, lsu = state.machine, state.sms[sm].lsu
    scheduler = state.schedulers[sm * machine.schedulers + number]
    clock, room_since = scheduler.clock, lsu.room_since
    slot = _choose(state, sm, number, max(clock, room_since))
    scheduler.picked = slot
    time = NEVER
    if slot >= 0:
        warp = state.warps[sm * machine.warp_slots + slot]
        time = max(clock + warp.gap * machine.issue_ticks, warp.arrival)
        if warp.kind == DO_MEMORY:
            # While the queue of accesses is full the scheduler waits; it chooses again when there is room.
            time = NEVER if lsu.length == machine.access_queue else max(time, room_since)
    scheduler.next_event = time


@inlined
def pick_all(state: State, sm: int) -> None:
    """Let every scheduler of `sm` choose again, after a change that concerns them all."""
    for scheduler in range(state.machine.schedulers):
        pick(state, sm, scheduler)
