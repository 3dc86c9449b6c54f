"""The compiled main loop: cycle by cycle, components in the order memory, slices, SMs; cycles in which nobody acts are skipped."""

from __future__ import annotations

from collections.abc import Callable

from warpsight.caches.compiled import compiled, compiled_and_kept, inlined, pointer
from warpsight.timing import layout as at
from warpsight.timing.blocks import break_barriers, hand_out
from warpsight.timing.compiled import source_fingerprint
from warpsight.timing.dram import pick
from warpsight.timing.l1 import at_tags, fill
from warpsight.timing.l2 import from_memory, tags
from warpsight.timing.layout import Floats, Ints
from warpsight.timing.lsu import cut
from warpsight.timing.noc import inject, reply
from warpsight.timing.paths import Events, Sectors
from warpsight.timing.ring import wrapped
from warpsight.timing.scheduler import act

DONE, NEED_BLOCK, PAUSED, BAD_TRACE, TOO_LONG, STUCK = range(6)

_STRIDE = 7919

Run = Callable[[Ints, Ints, Floats, Ints, Events, Sectors, int], int]


@compiled
def _channel(p: Ints, s: Ints, channel: int, now: int) -> None:
    """One cycle of a memory channel."""
    row = p[at.CHANNEL] + channel * at.CHANNEL_WIDTH
    if s[row + at.RETURN_NEXT] <= now:
        back = p[at.RETURNS] + (channel * p[at.RETURN_ROOM] + s[row + at.RETURN_HEAD]) * at.RETURN_WIDTH
        if from_memory(p, s, s[back + 1], s[back + 2], s[back + 3], now):
            s[row + at.RETURN_HEAD] = wrapped(s[row + at.RETURN_HEAD] + 1, p[at.RETURN_ROOM])
            s[row + at.RETURN_COUNT] -= 1
            following = p[at.RETURNS] + (channel * p[at.RETURN_ROOM] + s[row + at.RETURN_HEAD]) * at.RETURN_WIDTH
            s[row + at.RETURN_NEXT] = max(now + 1, s[following]) if s[row + at.RETURN_COUNT] > 0 else at.NEVER
        else:
            s[row + at.RETURN_NEXT] = now + 1
    if s[row + at.PICK_NEXT] <= now:
        pick(p, s, channel, now)
    s[p[at.NEXT_CHANNEL] + channel] = min(s[row + at.RETURN_NEXT], s[row + at.PICK_NEXT])


@compiled
def _slice(p: Ints, s: Ints, part: int, now: int) -> None:
    """One cycle of an L2 slice."""
    row = p[at.SLICE] + part * at.SLICE_WIDTH
    if s[row + at.TAG_NEXT] <= now:
        tags(p, s, part, now)
    if s[row + at.OUT_NEXT] <= now:
        reply(p, s, part, now)
    s[p[at.NEXT_SLICE] + part] = min(s[row + at.TAG_NEXT], s[row + at.OUT_NEXT])


@compiled
def _sm(p: Ints, s: Ints, f: Floats, events: Events, sectors: Sectors, sm: int, now: int) -> None:
    """One cycle of an SM."""
    row = p[at.SM] + sm * at.SM_WIDTH
    if s[row + at.ARRIVAL_NEXT] <= now:
        fill(p, s, sm, now)
    if s[row + at.PIPE_NEXT] <= now:
        at_tags(p, s, sm, now)
    if s[row + at.PORT_NEXT] <= now:
        inject(p, s, sm, now)
    if s[row + at.LSU_NEXT] <= now:
        cut(p, s, sectors, sm, now)
    first = p[at.SCHED] + sm * p[at.SCHEDULERS] * at.SCHED_WIDTH
    following = min(s[row + at.ARRIVAL_NEXT], s[row + at.PIPE_NEXT], s[row + at.PORT_NEXT])
    for scheduler in range(p[at.SCHEDULERS]):
        if s[first + scheduler * at.SCHED_WIDTH + at.SCHED_NEXT] <= now:
            act(p, s, f, events, sm, scheduler, now)
        following = min(following, s[first + scheduler * at.SCHED_WIDTH + at.SCHED_NEXT])
    s[p[at.NEXT_SM] + sm] = min(following, s[row + at.LSU_NEXT])


@inlined
def _all(p: Ints, s: Ints, f: Floats, events: Events, sectors: Sectors, now: int) -> None:
    """One cycle of the GPU. Who comes first in it changes with a prime stride, so that no period of the machine favours anyone."""
    for channel in range(p[at.CHANNELS]):
        if s[p[at.NEXT_CHANNEL] + channel] <= now:
            _channel(p, s, channel, now)
    turn = now * _STRIDE % p[at.SLICES]
    for k in range(p[at.SLICES]):
        part = k + turn if k + turn < p[at.SLICES] else k + turn - p[at.SLICES]
        if s[p[at.NEXT_SLICE] + part] <= now:
            _slice(p, s, part, now)
    turn = now * _STRIDE % p[at.SM_COUNT]
    for k in range(p[at.SM_COUNT]):
        sm = k + turn if k + turn < p[at.SM_COUNT] else k + turn - p[at.SM_COUNT]
        if s[p[at.NEXT_SM] + sm] <= now:
            _sm(p, s, f, events, sectors, sm, now)


@inlined
def _earliest(p: Ints, s: Ints) -> int:
    """When somebody acts next. The three tables of times lie one after the other."""
    earliest = at.NEVER
    for k in range(p[at.NEXT_SM], p[at.NEXT_CHANNEL] + p[at.CHANNELS]):
        earliest = min(earliest, s[k])
    return int(earliest)


@compiled
def _run(p: Ints, s: Ints, f: Floats, warps: Ints, events: Events, sectors: Sectors, cycles: int) -> int:
    cell = p[at.CELL]
    now = s[cell + at.NOW]
    until = now + cycles
    while s[cell + at.BAD_WARP] < 0:
        if s[cell + at.WANT_BLOCK] > 0 and not hand_out(p, s, warps, now):
            return NEED_BLOCK
        _all(p, s, f, events, sectors, now)
        following = _earliest(p, s)
        if s[cell + at.WANT_BLOCK] > 0:
            following = min(following, now + 1)
        if following >= at.NEVER:
            if s[cell + at.LIVE_WARPS] == 0:
                return DONE
            break_barriers(p, s, now)
            following = _earliest(p, s)
            if following >= at.NEVER:
                return STUCK
        now = following
        s[cell + at.NOW] = now
        if now > p[at.MAX_CYCLES]:
            return TOO_LONG
        if now >= until:
            return PAUSED
    return BAD_TRACE


def _build(fingerprint: int) -> Run:
    @compiled_and_kept
    def run(p: Ints, s: Ints, f: Floats, warps: Ints, events: Events, sectors: Sectors, cycles: int) -> int:
        """Go on until the launch is done, a block is missing in the window, the trace is wrong, or `cycles` have passed."""
        return _run(
            pointer(p), pointer(s), pointer(f), pointer(warps), pointer(events), pointer(sectors), cycles + 0 * fingerprint
        )

    return run


run = _build(source_fingerprint())
