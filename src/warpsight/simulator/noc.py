"""The network between SMs and L2 slices: a crossbar with a port at every SM and slice, one network each way.

A packet is a header and its data in flits of `noc.flit` bytes, at least one; a port passes `noc.bandwidth / slices`. A packet
leaves its SM's port when the slice has room for it, and the slice's port takes packets one after the other; so on the way back.
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient, set_bits
from warpsight.addressing.mapping import slice_of_line
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import layout as at
from warpsight.simulator.layout import Ints
from warpsight.simulator.structures import wrapped


@inlined
def flits_of(p: Ints, sectors: int) -> int:
    """Flits of a packet with so many 32 B sectors of data."""
    return int(max(1, quotient(sectors * 32 + p[at.FLIT] - 1, p[at.FLIT])))


@inlined
def _at_cycle(ticks: int) -> int:
    """The first cycle that begins at `ticks` or later."""
    return int(quotient(ticks + at.TICKS - 1, at.TICKS))


@compiled
def inject(p: Ints, s: Ints, sm: int, now: int) -> None:
    """The SM's port sends the oldest packet of the miss queue to its slice, if that has room."""
    memory = p[at.SM] + sm * at.SM_WIDTH
    packet = p[at.MISSES] + (sm * p[at.MISS_QUEUE] + s[memory + at.MISS_HEAD]) * at.MISS_WIDTH
    part = slice_of_line(s[packet + at.P_LINE], p[at.PER_PIECE], p[at.SLICES])
    row = p[at.SLICE] + part * at.SLICE_WIDTH
    if s[memory + at.PORT_GRANTED] != 0:
        s[memory + at.PORT_GRANTED] = 0
        s[row + at.PORTS_GRANTED] -= 1
    elif s[row + at.IN_COUNT] + s[row + at.PORTS_GRANTED] >= p[at.IN_ROOM]:
        s[p[at.NEXT_PORT] + sm] = at.NEVER  # until it is this port's turn
        s[memory + at.PORT_WAITS] = part
        s[row + at.PORTS_WAITING] += 1
        return
    kind = s[packet + at.P_KIND]
    service = (1 if kind == at.READ else flits_of(p, set_bits(s[packet + at.P_MASK]))) * p[at.FLIT_TICKS]
    start = max(s[memory + at.PORT_FREE], now * at.TICKS)
    s[memory + at.PORT_FREE] = start + service
    s[row + at.IN_FREE] = max(s[row + at.IN_FREE], start) + service
    place = wrapped(s[row + at.IN_HEAD] + s[row + at.IN_COUNT], p[at.IN_ROOM])
    entry = p[at.INBOX] + (part * p[at.IN_ROOM] + place) * at.IN_WIDTH
    for k in range(at.MISS_WIDTH):
        s[entry + k] = s[packet + k]
    arrival = _at_cycle(s[row + at.IN_FREE])
    s[entry + at.I_TIME] = arrival + p[at.L2_PIPE]
    s[entry + at.I_WAITED] = arrival - s[packet + at.P_SINCE] - _at_cycle(service)
    if s[row + at.IN_COUNT] == 0:
        s[p[at.NEXT_L2] + part] = max(s[entry + at.I_TIME], s[row + at.BUSY_UNTIL])
    s[row + at.IN_COUNT] += 1
    s[memory + at.MISS_HEAD] = wrapped(s[memory + at.MISS_HEAD] + 1, p[at.MISS_QUEUE])
    s[memory + at.MISS_COUNT] -= 1
    free = max(now + 1, quotient(s[memory + at.PORT_FREE], at.TICKS))
    s[p[at.NEXT_PORT] + sm] = free if s[memory + at.MISS_COUNT] > 0 else at.NEVER
    if s[memory + at.BLOCKED] == at.NO_ROOM:
        s[p[at.NEXT_L1] + sm] = now + 1


@inlined
def _next_in_turn(s: Ints, turn: int, entries: int, width: int, count: int, wanted: int) -> int:
    """Of `count` rows, the first from `s[turn]` on whose entry (`entries` in row 0) is `wanted`; the turn goes on after it.

    One of them is.
    """
    row = s[turn]
    while s[entries + row * width] != wanted:
        row = row + 1 if row + 1 < count else 0
    s[turn] = row + 1 if row + 1 < count else 0
    return int(row)


@inlined
def slice_has_room(p: Ints, s: Ints, part: int, now: int) -> None:
    """The slice has taken a packet out of its queue: the place is kept for the next in turn of the ports that wait for it."""
    row = p[at.SLICE] + part * at.SLICE_WIDTH
    if s[row + at.PORTS_WAITING] == 0:
        return
    sm = _next_in_turn(s, row + at.PORT_TURN, p[at.SM] + at.PORT_WAITS, at.SM_WIDTH, p[at.SM_COUNT], part)
    memory = p[at.SM] + sm * at.SM_WIDTH
    s[memory + at.PORT_WAITS], s[memory + at.PORT_GRANTED] = -1, 1
    s[row + at.PORTS_WAITING] -= 1
    s[row + at.PORTS_GRANTED] += 1
    s[p[at.NEXT_PORT] + sm] = now


@inlined
def sm_has_room(p: Ints, s: Ints, sm: int, now: int) -> None:
    """The SM has taken a packet out of its queue: the place is kept for the next in turn of the slices that wait for it."""
    memory = p[at.SM] + sm * at.SM_WIDTH
    if s[memory + at.REPLIES_WAITING] == 0:
        return
    part = _next_in_turn(s, memory + at.REPLY_TURN, p[at.SLICE] + at.OUT_WAITS, at.SLICE_WIDTH, p[at.SLICES], sm)
    row = p[at.SLICE] + part * at.SLICE_WIDTH
    s[row + at.OUT_WAITS], s[row + at.OUT_GRANTED] = -1, 1
    s[memory + at.REPLIES_WAITING] -= 1
    s[memory + at.REPLIES_GRANTED] += 1
    s[p[at.NEXT_REPLY] + part] = now + 1


@inlined
def push_reply(
    p: Ints, s: Ints, part: int, sm: int, kind: int, handle: int, sectors: int, noc: int, dram: int, level: int, now: int
) -> None:
    """Put a reply into the slice's queue (there is room)."""
    row = p[at.SLICE] + part * at.SLICE_WIDTH
    place = wrapped(s[row + at.OUT_HEAD] + s[row + at.OUT_COUNT], p[at.OUT_ROOM])
    entry = p[at.OUTBOX] + (part * p[at.OUT_ROOM] + place) * at.OUT_WIDTH
    s[entry + at.O_SM], s[entry + at.O_KIND], s[entry + at.O_HANDLE] = sm, kind, handle
    s[entry + at.O_FLITS], s[entry + at.O_SINCE], s[entry + at.O_NOC] = flits_of(p, sectors), now, noc
    s[entry + at.O_DRAM], s[entry + at.O_LEVEL] = dram, level
    if s[row + at.OUT_COUNT] == 0:
        s[p[at.NEXT_REPLY] + part] = max(now, quotient(s[row + at.OUT_FREE], at.TICKS))
    s[row + at.OUT_COUNT] += 1


@compiled
def reply(p: Ints, s: Ints, part: int, now: int) -> None:
    """The slice's port sends its oldest reply, if the SM has room for it."""
    row = p[at.SLICE] + part * at.SLICE_WIDTH
    entry = p[at.OUTBOX] + (part * p[at.OUT_ROOM] + s[row + at.OUT_HEAD]) * at.OUT_WIDTH
    sm = s[entry + at.O_SM]
    memory = p[at.SM] + sm * at.SM_WIDTH
    if s[row + at.OUT_GRANTED] != 0:
        s[row + at.OUT_GRANTED] = 0
        s[memory + at.REPLIES_GRANTED] -= 1
    elif s[memory + at.ARRIVAL_COUNT] + s[memory + at.REPLIES_GRANTED] >= p[at.EJECT_ROOM]:
        s[p[at.NEXT_REPLY] + part] = at.NEVER  # until it is this slice's turn
        s[row + at.OUT_WAITS] = sm
        s[memory + at.REPLIES_WAITING] += 1
        return
    service = s[entry + at.O_FLITS] * p[at.FLIT_TICKS]
    start = max(s[row + at.OUT_FREE], now * at.TICKS)
    s[row + at.OUT_FREE] = start + service
    s[memory + at.EJECT_FREE] = max(s[memory + at.EJECT_FREE], start) + service
    arrival = _at_cycle(s[memory + at.EJECT_FREE])
    place = wrapped(s[memory + at.ARRIVAL_HEAD] + s[memory + at.ARRIVAL_COUNT], p[at.EJECT_ROOM])
    came = p[at.ARRIVALS] + (sm * p[at.EJECT_ROOM] + place) * at.ARRIVAL_WIDTH
    s[came + at.A_KIND], s[came + at.A_HANDLE], s[came + at.A_TIME] = s[entry + at.O_KIND], s[entry + at.O_HANDLE], arrival
    s[came + at.A_NOC] = s[entry + at.O_NOC] + arrival - s[entry + at.O_SINCE] - _at_cycle(service)
    s[came + at.A_DRAM], s[came + at.A_LEVEL] = s[entry + at.O_DRAM], s[entry + at.O_LEVEL]
    if s[memory + at.ARRIVAL_COUNT] == 0:
        s[p[at.NEXT_ARRIVAL] + sm] = arrival
    s[memory + at.ARRIVAL_COUNT] += 1
    s[row + at.OUT_HEAD] = wrapped(s[row + at.OUT_HEAD] + 1, p[at.OUT_ROOM])
    s[row + at.OUT_COUNT] -= 1
    s[p[at.NEXT_REPLY] + part] = max(now + 1, quotient(s[row + at.OUT_FREE], at.TICKS)) if s[row + at.OUT_COUNT] > 0 else at.NEVER
    if s[row + at.TAG_BLOCKED] != 0:
        s[p[at.NEXT_L2] + part] = now + 1
