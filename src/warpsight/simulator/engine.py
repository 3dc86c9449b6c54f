"""The compiled main loop: cycle by cycle, units in the order memory, slices, SMs; cycles in which no unit acts are skipped."""

from __future__ import annotations

from warpsight.addressing.integers import quotient, trailing_zeros
from warpsight.base.compiled import compiled, inlined, kept_until_changed, reference_to
from warpsight.base.records import Address, Table
from warpsight.simulator import bulk, codes, l1, l2
from warpsight.simulator.dram import begin_access
from warpsight.simulator.lsu import work_on_accesses
from warpsight.simulator.noc import send_packet, send_reply
from warpsight.simulator.scheduler import schedule_and_issue
from warpsight.simulator.state import Channel, State
from warpsight.simulator.structures import remove_oldest
from warpsight.simulator.warps import distribute_blocks, distribute_clusters, end_awaited_phases, open_all_barriers

# -- Who acts in a cycle. Each step of a cycle has a table of the times at which its components act next.
#
# The times of up to 64 components are compared into a mask without a branch, and only those whose time has come are visited: in a
# busy cycle a fifth to a third of them, in an order that no branch predictor could learn.

WORD = 64


@inlined
def _bits(times: Table[int], first: int, count: int, now: int) -> int:
    """Which of `count` times from `first` on have come, as bits."""
    bits = 0
    for k in range(count):
        bits |= (1 << k) if times[first + k] <= now else 0
    return bits


@compiled
def list_due(state: State, times: Table[int], count: int, turn: int, now: int) -> int:
    """List in `due` those of `count` components that act now, from number `turn` on, cyclically; returns how many."""
    words = (count + WORD - 1) // WORD
    for word in range(words):
        state.due_bits[word] = _bits(times, word * WORD, min(WORD, count - word * WORD), now)
    listed = 0
    before = (1 << (turn & (WORD - 1))) - 1
    for k in range(words + 1):
        word = turn // WORD + k
        word = word if word < words else word - words
        bits = state.due_bits[word]
        bits &= ~before if k == 0 else before if k == words else -1
        while bits != 0:
            state.due[listed] = word * WORD + trailing_zeros(bits)
            listed += 1
            bits &= bits - 1
    return listed


@inlined
def _earliest(state: State) -> int:
    """When a component acts next."""
    time = codes.NEVER
    for k in range(state.agenda_length):
        time = min(time, state.agenda[k])
    return time


# -- One cycle.

# Which component goes first in a cycle changes with a prime stride, so that no period of the machine favours any.
_STRIDE = 7919


@inlined
def _return(state: State, channel: Channel, now: int) -> None:
    """Data of a channel arrives at its slice, if that can take it."""
    reply = channel.replies[channel.returning.head]
    if not l2.fill(state, state.slices[reply.slice], reply, now):
        state.next_return[channel.number] = now + 1
        return
    remove_oldest(channel.returning)
    following = max(now + 1, channel.replies[channel.returning.head].time) if channel.returning.count > 0 else codes.NEVER
    state.next_return[channel.number] = following


@inlined
def _memory_and_slices(state: State, now: int) -> None:
    """One cycle of the memory channels and the L2 slices."""
    machine = state.machine
    for k in range(list_due(state, state.next_return, machine.channels, 0, now)):
        _return(state, state.channels[state.due[k]], now)
    for k in range(list_due(state, state.next_pick, machine.channels, 0, now)):
        begin_access(state, state.channels[state.due[k]], now)
    turn = now * _STRIDE % machine.slices
    for k in range(list_due(state, state.next_l2, machine.slices, turn, now)):
        l2.look_up(state, state.slices[state.due[k]], now)
    for k in range(list_due(state, state.next_reply, machine.slices, turn, now)):
        send_reply(state, state.slices[state.due[k]], now)


@inlined
def _schedulers_of_sm(state: State, first: int, listed: int, now: int) -> int:
    """One cycle of those schedulers of an SM that are in `due` from place `first` on; returns the place behind them.

    The scheduler goes first that comes after the one whose access went to the load-store unit last: else, while its queue is full,
    the first scheduler alone would get all room.
    """
    count, sm = state.machine.schedulers, quotient(state.due[first], state.machine.schedulers)
    favoured, end = sm * count + state.sms[sm].first_scheduler, first
    while end < listed and sm * count <= state.due[end] < (sm + 1) * count:
        end += 1
    for k in range(first, end):
        if state.due[k] >= favoured:
            schedule_and_issue(state, state.due[k], now)
    for k in range(first, end):
        if state.due[k] < favoured:
            schedule_and_issue(state, state.due[k], now)
    return end


@inlined
def _sms(state: State, now: int) -> None:
    """One cycle of the SMs."""
    sms, schedulers = state.machine.sm_count, state.machine.schedulers
    turn = now * _STRIDE % sms
    for k in range(list_due(state, state.next_arrival, sms, turn, now)):
        l1.receive(state, state.sms[state.due[k]], now)
    for k in range(list_due(state, state.next_l1, sms, turn, now)):
        l1.look_up(state, state.sms[state.due[k]], now)
    for k in range(list_due(state, state.next_copy, sms, turn, now)):
        bulk.send_request(state, state.sms[state.due[k]], now)
    for k in range(list_due(state, state.next_port, sms, turn, now)):
        send_packet(state, state.sms[state.due[k]], now)
    for k in range(list_due(state, state.next_lsu, sms, turn, now)):
        work_on_accesses(state, state.sms[state.due[k]], now)
    listed, k = list_due(state, state.next_scheduler, sms * schedulers, turn * schedulers, now), 0
    while k < listed:
        k = _schedulers_of_sm(state, k, listed, now)


# -- The run. `NEED_BLOCK`: the next block is not in the trace window. `STUCK`: no unit will ever act.

DONE, NEED_BLOCK, PAUSED, BAD_TRACE, TOO_LONG, STUCK = range(6)


@inlined
def _distribute(state: State, now: int) -> bool:
    """Start blocks on SMs with free places; False when the next of them are not in the window."""
    return distribute_clusters(state, now) if state.machine.cluster_blocks > 1 else distribute_blocks(state, now)


@compiled
def _run(state: State, cycles: int) -> int:
    until = state.now + cycles
    while state.bad_warp < 0:
        now = state.now
        if state.free_places > 0 and not _distribute(state, now):
            return NEED_BLOCK
        _memory_and_slices(state, now)
        _sms(state, now)
        following = _earliest(state)
        if state.free_places > 0:
            following = min(following, max(now + 1, state.next_start))
        if following >= codes.NEVER:
            if state.live_warps == 0:
                return DONE
            open_all_barriers(state, now)
            following = _earliest(state)
            if following >= codes.NEVER:
                end_awaited_phases(state, now)
                following = _earliest(state)
            if following >= codes.NEVER:
                return STUCK
        state.now = following
        if following > state.machine.max_cycles:
            return TOO_LONG
        if following >= until:
            return PAUSED
    return BAD_TRACE


_state_at = reference_to(State)


@kept_until_changed("addressing", "caches/exact/state.py", "simulator", "traces/events.py", "traces/window.py")
def run(address: Address, cycles: int) -> int:
    """Run until the launch is done, a block is missing in the window, the trace is wrong, or `cycles` have passed.

    `address` is that of the `State`. Returns one of the codes above.
    """
    return _run(_state_at(address), cycles)
