"""The compiled main loop: cycle by cycle, components in the order memory, slices, SMs; cycles in which nobody acts are skipped."""

from __future__ import annotations

from warpsight.addressing.integers import trailing_zeros
from warpsight.base.compiled import compiled, inlined, kept_until_changed, pointer
from warpsight.simulator import layout as at
from warpsight.simulator.dram import pick
from warpsight.simulator.l1 import at_tags, fill
from warpsight.simulator.l2 import from_memory, tags
from warpsight.simulator.layout import Floats, Ints
from warpsight.simulator.lsu import cut
from warpsight.simulator.noc import inject, reply
from warpsight.simulator.scheduler import act
from warpsight.simulator.structures import wrapped
from warpsight.simulator.warps import Events, Sectors, break_barriers, hand_out

# -- Who acts in a cycle. Each step of a cycle has a table of the times at which its components have something to do next.
#
# The times of up to 64 components are compared into a mask without a branch, and only those whose time has come are visited: in a
# busy cycle a fifth to a third of them, in no order that a branch for each could be predicted by.

WORD = 64


@inlined
def _bits(s: Ints, first: int, count: int, now: int) -> int:
    """Which of `count` times from `first` on have come, as bits."""
    bits = 0
    for k in range(count):
        bits |= (1 << k) if s[first + k] <= now else 0
    return bits


@compiled
def due(p: Ints, s: Ints, table: int, count: int, turn: int, now: int) -> int:
    """List in `DUE` those of the table's `count` components that act now, from number `turn` on and round; gives how many."""
    words = (count + WORD - 1) // WORD
    for word in range(words):
        first = word * WORD
        s[p[at.DUE_BITS] + word] = _bits(s, table + first, min(WORD, count - first), now)
    found = p[at.DUE]
    before = (1 << (turn & (WORD - 1))) - 1
    for k in range(words + 1):
        word = turn // WORD + k
        word = word if word < words else word - words
        bits = s[p[at.DUE_BITS] + word]
        bits &= ~before if k == 0 else before if k == words else -1
        while bits != 0:
            s[found] = word * WORD + trailing_zeros(bits)
            found += 1
            bits &= bits - 1
    return int(found - p[at.DUE])


@inlined
def earliest(p: Ints, s: Ints) -> int:
    """When somebody acts next. The tables lie one after the other."""
    time = at.NEVER
    for k in range(p[at.NEXT_RETURN], p[at.DUE]):
        time = min(time, s[k])
    return int(time)


# -- The compiled main loop: cycle by cycle, components in the order memory, slices, SMs; cycles in which nobody acts are skipped.

DONE, NEED_BLOCK, PAUSED, BAD_TRACE, TOO_LONG, STUCK = range(6)

# Who comes first in a cycle changes with a prime stride, so that no period of the machine favours anyone.
_STRIDE = 7919


@inlined
def _return(p: Ints, s: Ints, channel: int, now: int) -> None:
    """Data of a channel comes back to its slice, if that can take it."""
    row, room = p[at.CHANNEL] + channel * at.CHANNEL_WIDTH, p[at.RETURN_ROOM]
    back = p[at.RETURNS] + (channel * room + s[row + at.RETURN_HEAD]) * at.RETURN_WIDTH
    if not from_memory(p, s, s[back + 1], s[back + 2], s[back + 3], now):
        s[p[at.NEXT_RETURN] + channel] = now + 1
        return
    s[row + at.RETURN_HEAD] = wrapped(s[row + at.RETURN_HEAD] + 1, room)
    s[row + at.RETURN_COUNT] -= 1
    following = p[at.RETURNS] + (channel * room + s[row + at.RETURN_HEAD]) * at.RETURN_WIDTH
    s[p[at.NEXT_RETURN] + channel] = max(now + 1, s[following]) if s[row + at.RETURN_COUNT] > 0 else at.NEVER


@inlined
def _memory_and_slices(p: Ints, s: Ints, now: int) -> None:
    """One cycle of the memory channels and the L2 slices."""
    for k in range(due(p, s, p[at.NEXT_RETURN], p[at.CHANNELS], 0, now)):
        _return(p, s, s[p[at.DUE] + k], now)
    for k in range(due(p, s, p[at.NEXT_PICK], p[at.CHANNELS], 0, now)):
        pick(p, s, s[p[at.DUE] + k], now)
    turn = now * _STRIDE % p[at.SLICES]
    for k in range(due(p, s, p[at.NEXT_L2], p[at.SLICES], turn, now)):
        tags(p, s, s[p[at.DUE] + k], now)
    for k in range(due(p, s, p[at.NEXT_REPLY], p[at.SLICES], turn, now)):
        reply(p, s, s[p[at.DUE] + k], now)


@inlined
def _sms(p: Ints, s: Ints, f: Floats, events: Events, sectors: Sectors, now: int) -> None:
    """One cycle of the SMs."""
    turn, sms = now * _STRIDE % p[at.SM_COUNT], p[at.SM_COUNT]
    for k in range(due(p, s, p[at.NEXT_ARRIVAL], sms, turn, now)):
        fill(p, s, s[p[at.DUE] + k], now)
    for k in range(due(p, s, p[at.NEXT_L1], sms, turn, now)):
        at_tags(p, s, s[p[at.DUE] + k], now)
    for k in range(due(p, s, p[at.NEXT_PORT], sms, turn, now)):
        inject(p, s, s[p[at.DUE] + k], now)
    for k in range(due(p, s, p[at.NEXT_LSU], sms, turn, now)):
        cut(p, s, sectors, s[p[at.DUE] + k], now)
    for k in range(due(p, s, p[at.NEXT_SCHEDULER], sms * p[at.SCHEDULERS], turn * p[at.SCHEDULERS], now)):
        act(p, s, f, events, s[p[at.DUE] + k], now)


@compiled
def _run(p: Ints, s: Ints, f: Floats, warps: Ints, events: Events, sectors: Sectors, cycles: int) -> int:
    cell = p[at.CELL]
    now = s[cell + at.NOW]
    until = now + cycles
    while s[cell + at.BAD_WARP] < 0:
        if s[cell + at.WANT_BLOCK] > 0 and not hand_out(p, s, warps, now):
            return NEED_BLOCK
        _memory_and_slices(p, s, now)
        _sms(p, s, f, events, sectors, now)
        following = earliest(p, s)
        if s[cell + at.WANT_BLOCK] > 0:
            following = min(following, now + 1)
        if following >= at.NEVER:
            if s[cell + at.LIVE_WARPS] == 0:
                return DONE
            break_barriers(p, s, now)
            following = earliest(p, s)
            if following >= at.NEVER:
                return STUCK
        now = following
        s[cell + at.NOW] = now
        if now > p[at.MAX_CYCLES]:
            return TOO_LONG
        if now >= until:
            return PAUSED
    return BAD_TRACE


@kept_until_changed("addressing", "caches/exact", "simulator", "traces/window.py")
def run(p: Ints, s: Ints, f: Floats, warps: Ints, events: Events, sectors: Sectors, cycles: int) -> int:
    """Go on until the launch is done, a block is missing in the window, the trace is wrong, or `cycles` have passed."""
    return _run(pointer(p), pointer(s), pointer(f), pointer(warps), pointer(events), pointer(sectors), cycles)
