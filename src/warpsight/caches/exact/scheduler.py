"""Which warp of an SM issues next. Warp slots belong to the SM's schedulers in turn: slot `place * schedulers + number` is the
scheduler's own `place`.
"""

from __future__ import annotations

from warpsight.base.compiled import compiled, inlined
from warpsight.base.records import Table
from warpsight.caches.exact.state import DO_MEMORY, GTO, LRR, MOST_PLACES, NEVER, State


@inlined
def _earliest(times: Table[int], first: int, count: int) -> int:
    """The least of `count` entries. Free of branches, as the next, so that the compiler compares several at a time."""
    least = NEVER
    for place in range(count):
        least = min(least, times[first + place])
    return least


@inlined
def _next_in_turn(times: Table[int], first: int, count: int, last: int, limit: int) -> int:
    """Of `count` entries the first after number `last`, in turn, that is at most `limit`; -1 if none."""
    nearest = count
    for place in range(count):
        turns = place - last - 1
        turns += count if turns < 0 else 0
        nearest = min(nearest, turns if times[first + place] <= limit else count)
    place = last + 1 + nearest
    return -1 if nearest == count else place if place < count else place - count


@inlined
def _oldest(times: Table[int], ages: Table[int], first: int, count: int, limit: int) -> int:
    """The place of the oldest of a scheduler's warps that is eligible by `limit`; -1 if none."""
    oldest = NEVER
    for place in range(count):
        oldest = min(oldest, ages[first + place] if times[first + place] <= limit else NEVER)
    return -1 if oldest == NEVER else oldest & (MOST_PLACES - 1)


@inlined
def _by_policy(state: State, sm: int, number: int, first: int, limit: int) -> int:
    machine = state.machine
    if machine.policy == GTO:
        return _oldest(state.eligible, state.ages, first, machine.scheduler_slots, limit)
    last = state.schedulers[sm * machine.schedulers + number].last
    return _next_in_turn(state.eligible, first, machine.scheduler_slots, last, limit)


@inlined
def _choose(state: State, sm: int, number: int, horizon: int) -> int:
    """The place of the warp that goes next, by the GPU's policy, among those eligible by `horizon`, else the first that is; -1 if
    none.

    A greedy scheduler stays with its last warp while that is eligible. In turn, nobody comes before the warp after the last one.
    """
    machine = state.machine
    scheduler = sm * machine.schedulers + number
    first = scheduler * machine.scheduler_slots
    favoured = state.schedulers[scheduler].last
    if machine.policy == LRR:
        favoured = favoured + 1 if favoured + 1 < machine.scheduler_slots else 0
    if favoured >= 0 and state.eligible[first + favoured] <= horizon:
        return favoured
    earliest = _earliest(state.eligible, first, machine.scheduler_slots)
    return -1 if earliest == NEVER else _by_policy(state, sm, number, first, max(horizon, earliest))


@compiled
def pick(state: State, sm: int, number: int) -> None:
    """Choose the warp that scheduler `number` of `sm` runs next, and when. Needed after a change of its warps or its clock."""
    machine = state.machine
    scheduler = state.schedulers[sm * machine.schedulers + number]
    place = _choose(state, sm, number, max(scheduler.clock, state.sms[sm].lsu.room_since))
    scheduler.picked, scheduler.time, scheduler.issues = place, NEVER, False
    if place >= 0:
        warp = state.warps[sm * machine.warp_slots + place * machine.schedulers + number]
        scheduler.time = max(scheduler.clock + warp.gap * machine.issue_ticks, warp.arrival)
        scheduler.issues = warp.kind == DO_MEMORY


@inlined
def pick_all(state: State, sm: int) -> None:
    """Let every scheduler of `sm` choose again, after a change that concerns them all."""
    for number in range(state.machine.schedulers):
        pick(state, sm, number)


@inlined
def pick_with_room(state: State, sm: int, concerned: int, had_room_since: int) -> None:
    """The queue of accesses has had room since another time than before: let those choose again that look farther ahead for it, and
    scheduler `concerned` in any case (-1: none).
    """
    machine, room_since = state.machine, state.sms[sm].lsu.room_since
    for number in range(machine.schedulers):
        clock = state.schedulers[sm * machine.schedulers + number].clock
        if number == concerned or max(clock, room_since) != max(clock, had_room_since):
            pick(state, sm, number)


@inlined
def next_event(state: State, sm: int, number: int) -> int:
    """When scheduler `number` of `sm` acts: while the queue of accesses is full, it waits with a warp that stands at one."""
    machine, lsu = state.machine, state.sms[sm].lsu
    scheduler = state.schedulers[sm * machine.schedulers + number]
    if not scheduler.issues:
        return scheduler.time
    return NEVER if lsu.length == machine.access_queue else max(scheduler.time, lsu.room_since)
