"""The compiled main loop. SMs act in rounds, one after the other.

A round is as long as an effect of one SM takes to reach another (through the L2), the lookahead of conservative parallel simulation
(Chandy and Misra, 1979). Within it an SM acts alone, in the order of time: its state stays in the host's nearest cache.
"""

from __future__ import annotations

from warpsight.base.compiled import compiled, inlined, kept_until_changed, reference_to
from warpsight.base.records import Address
from warpsight.caches.exact.ahead import look_ahead
from warpsight.caches.exact.l2 import close_launch, close_round
from warpsight.caches.exact.lsu import issue, work
from warpsight.caches.exact.scheduler import next_event, pick, pick_all, pick_with_room
from warpsight.caches.exact.state import DO_EXIT, DO_MEMORY, GTO, NEVER, State
from warpsight.caches.exact.warps import advance, arrive_or_end, break_barriers, launch_blocks

DONE, NEED_BLOCK, PAUSED, BAD_TRACE = range(4)

_state_at = reference_to(State)


@inlined
def _issue_turn(state: State, sm: int, number: int) -> bool:
    """The picked warp of scheduler `number` of `sm` does what it stands at. Whether no other warp can go on by it."""
    machine = state.machine
    scheduler = state.schedulers[sm * machine.schedulers + number]
    slot = sm * machine.warp_slots + scheduler.picked * machine.schedulers + number
    kind, now = state.warps[slot].kind, state.sms[sm].next_event
    ends = kind == DO_EXIT
    scheduler.clock = now if ends else now + machine.issue_ticks
    # A greedy scheduler must not favour the warp that next moves into the slot of one that ended.
    scheduler.last = -1 if ends and machine.policy == GTO else scheduler.picked
    if kind == DO_MEMORY:
        # Schedulers take turns with the load-store unit: none is served before the others when all wait for room in its queue.
        state.sms[sm].lsu.turn = number + 1 if number + 1 < machine.schedulers else 0
        issue(state, sm, slot, now)
        state.warps[slot].gap = 0
        advance(state, slot, now)
        return True
    return not arrive_or_end(state, sm, slot, now)


@inlined
def _next_actor(state: State, sm: int) -> int:
    """What of `sm` acts first: the number of a warp scheduler, or of none for the load-store unit. Keeps the time in the SM."""
    unit, schedulers = state.sms[sm], state.machine.schedulers
    actor, time = schedulers, unit.lsu.next_event
    for after in range(schedulers - 1, -1, -1):
        number = unit.lsu.turn + after
        number -= schedulers if number >= schedulers else 0
        acts = next_event(state, sm, number)
        if acts <= time:
            actor, time = number, acts
    unit.next_event = time
    return actor


@compiled
def _run_sm(state: State, sm: int, until: int) -> bool:
    """Let `sm` act until the time `until`; False if it first needs a block that is missing in the window."""
    machine, lsu = state.machine, state.sms[sm].lsu
    while True:
        if state.has_free_places and not launch_blocks(state):
            return False
        actor = _next_actor(state, sm)
        now = state.sms[sm].next_event
        if now >= until:
            return True
        state.turns += 1
        had_room_since = lsu.room_since
        if actor < machine.schedulers:
            concerned = actor if _issue_turn(state, sm, actor) else machine.schedulers
        else:
            passed = work(state, sm, now)
            concerned = state.warps[passed].scheduler if passed >= 0 else -1
        if concerned == machine.schedulers:
            pick_all(state, sm)
            continue
        if lsu.room_since != had_room_since:
            pick_with_room(state, sm, concerned, had_room_since)
        elif concerned >= 0:
            pick(state, sm, concerned)


@inlined
def _run_round(state: State) -> bool:
    """Let the SMs that have not had their turn in this round act until its end; False if a block is missing in the window."""
    machine = state.machine
    until = state.round_start + machine.lookahead
    while state.next_sm < machine.sm_count:
        # ports serve SMs in turn: no SM is always the first at every slice and channel
        sm = (state.next_sm + state.rounds * machine.first_sm_step) % machine.sm_count
        if machine.looks_ahead:
            look_ahead(state, until)
        if state.sms[sm].next_event < until and not _run_sm(state, sm, until):
            return False
        state.next_sm += 1
    return True


@inlined
def _start_round(state: State) -> int:
    """Begin a round at the time at which the first of the SMs acts, which is returned; NEVER if none does."""
    close_round(state)
    start = NEVER
    for sm in range(state.machine.sm_count):
        _next_actor(state, sm)
        start = min(start, state.sms[sm].next_event)
    state.round_start = start
    state.next_sm = 0
    return start


@compiled
def _run(state: State, turns: int) -> int:
    stop = state.turns + turns
    while state.bad_warp < 0:
        if not (launch_blocks(state) and _run_round(state)):
            return NEED_BLOCK
        if state.turns >= stop:
            return PAUSED
        if _start_round(state) == NEVER:
            if state.bad_warp < 0 and state.live_warps == 0:
                close_launch(state)
                return DONE
            state.next_sm = state.machine.sm_count
            break_barriers(state)
    return BAD_TRACE


@kept_until_changed("addressing", "caches", "traces/events.py", "traces/window.py")
def run(address: Address, turns: int) -> int:
    """Simulate until the launch is done, a block is missing in the window, the trace contradicts itself, or `turns` are over.

    `address` is that of the `State`. Returns `DONE`, `NEED_BLOCK`, `BAD_TRACE` or `PAUSED`.
    """
    return _run(_state_at(address), turns)
