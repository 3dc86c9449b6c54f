"""A memory channel: accesses wait in a queue, and the data bus carries one after the other.

Without a row model (`dram.row` 0 B) an access takes the bus for its data alone, in the order of arrival. With it a bank holds one
open row, and accesses to an open row go first (FR-FCFS); another row costs a precharge and an activation before its data can
come, which other banks' data hide, and the bus turns around between reads and writes.
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient, set_bits
from warpsight.addressing.mapping import channel_of_slice, line_in_slice
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import layout as at
from warpsight.simulator.layout import Ints
from warpsight.simulator.structures import wrapped


@inlined
def channel_of(p: Ints, part: int) -> int:
    """The channel behind a slice."""
    return int(channel_of_slice(part, p[at.SLICES], p[at.CHANNELS]))


@inlined
def has_room(p: Ints, s: Ints, part: int, accesses: int) -> bool:
    """Whether the queue of the slice's channel takes so many more accesses."""
    row = p[at.CHANNEL] + channel_of(p, part) * at.CHANNEL_WIDTH
    return bool(s[row + at.WAIT_COUNT] + accesses <= p[at.DRAM_QUEUE])


@inlined
def unblock(p: Ints, s: Ints, part: int, now: int) -> None:
    """Memory has done something: a slice that is held up tries again."""
    row = p[at.SLICE] + part * at.SLICE_WIDTH
    if s[row + at.TAG_BLOCKED] != 0:
        s[p[at.NEXT_L2] + part] = now


@inlined
def ask(p: Ints, s: Ints, part: int, line: int, sectors: int, write: int, handle: int, now: int) -> None:
    """Put an access into the queue of the slice's channel (there is room)."""
    channel = channel_of(p, part)
    row = p[at.CHANNEL] + channel * at.CHANNEL_WIDTH
    entry = p[at.WAITING] + (channel * p[at.DRAM_QUEUE] + s[row + at.WAIT_COUNT]) * at.WAIT_WIDTH
    s[row + at.WAIT_COUNT] += 1
    s[entry + at.D_SECTORS], s[entry + at.D_WRITE] = set_bits(sectors), write
    s[entry + at.D_SLICE], s[entry + at.D_HANDLE], s[entry + at.D_SINCE] = part, handle, now
    s[entry + at.D_ROW], s[entry + at.D_BANK] = _place_of(p, line, part)
    s[p[at.NEXT_PICK] + channel] = min(s[p[at.NEXT_PICK] + channel], max(now + 1, quotient(s[row + at.BUS_FREE], at.TICKS)))


@inlined
def _place_of(p: Ints, line: int, part: int) -> tuple[int, int]:
    """The row (numbered over its bank) and the bank of a line.

    Rows of a channel lie in its banks in turn, shifted by higher bits: else a line and the one that it drives out of the L2 share a
    bank (Zhang, Zhu, Zhang, "A permutation-based page interleaving scheme", MICRO 2000).
    """
    if p[at.ROW_SECTORS] == 0:
        return 0, 0
    within = line_in_slice(line, p[at.PER_PIECE], p[at.SLICES]) * p[at.L2_LINE]
    number = quotient(within, p[at.ROW_SECTORS]) * p[at.SLICES_PER_CHANNEL] + part % p[at.SLICES_PER_CHANNEL]
    row = quotient(number, p[at.BANKS])
    return row, (number + row + quotient(row, p[at.BANKS])) % p[at.BANKS]


@inlined
def _open_rows(p: Ints, s: Ints, channel: int, first: int, count: int, now: int) -> None:
    """Begin to open the row of the oldest access of every bank that nobody waits for with its row as it is."""
    banks = p[at.BANK] + channel * p[at.BANKS] * at.BANK_WIDTH
    kept = 0
    for entry in range(first, first + count * at.WAIT_WIDTH, at.WAIT_WIDTH):
        bank = s[entry + at.D_BANK]
        if s[banks + bank * at.BANK_WIDTH + at.B_ROW] == s[entry + at.D_ROW]:
            kept |= 1 << bank
    for entry in range(first, first + count * at.WAIT_WIDTH, at.WAIT_WIDTH):
        bank = s[entry + at.D_BANK]
        if kept & (1 << bank) == 0:
            kept |= 1 << bank
            row = banks + bank * at.BANK_WIDTH
            closing = p[at.ROW_CLOSE] if s[row + at.B_ROW] >= 0 else 0
            s[row + at.B_READY] = max(s[row + at.B_READY], now * at.TICKS) + closing + p[at.ROW_OPEN]
            s[row + at.B_ROW] = s[entry + at.D_ROW]


@inlined
def _ready(p: Ints, s: Ints, channel: int, entry: int) -> int:
    """When the data of the access can be on the bus, in ticks, if nothing else is in between."""
    state = p[at.CHANNEL] + channel * at.CHANNEL_WIDTH
    turn = p[at.TURNAROUND] if s[entry + at.D_WRITE] != s[state + at.LAST_WAS_WRITE] else 0
    bank = p[at.BANK] + (channel * p[at.BANKS] + s[entry + at.D_BANK]) * at.BANK_WIDTH
    return int(max(s[state + at.BUS_FREE] + turn, s[bank + at.B_READY]))


@inlined
def _choose(p: Ints, s: Ints, channel: int, first: int, count: int) -> int:
    """Of the accesses to open rows the one whose data can be on the bus first, of several the oldest. Gives where it stands.

    So reads go on as long as there are some, and writes leave together when the queue is full of them.
    """
    banks = p[at.BANK] + channel * p[at.BANKS] * at.BANK_WIDTH
    chosen, best = first, at.LATEST
    for entry in range(first, first + count * at.WAIT_WIDTH, at.WAIT_WIDTH):
        if s[banks + s[entry + at.D_BANK] * at.BANK_WIDTH + at.B_ROW] == s[entry + at.D_ROW]:
            ready = _ready(p, s, channel, entry)
            if ready < best:
                chosen, best = entry, ready
    return int(chosen)


@compiled
def pick(p: Ints, s: Ints, channel: int, now: int) -> None:
    """Begin the next access of the channel, if its row is open."""
    state = p[at.CHANNEL] + channel * at.CHANNEL_WIDTH
    count = s[state + at.WAIT_COUNT]
    first = entry = p[at.WAITING] + channel * p[at.DRAM_QUEUE] * at.WAIT_WIDTH
    if p[at.ROW_SECTORS] != 0:
        _open_rows(p, s, channel, first, count, now)
        entry = _choose(p, s, channel, first, count)
    start = max(_ready(p, s, channel, entry), now * at.TICKS)
    if start >= (now + 1) * at.TICKS:
        s[p[at.NEXT_PICK] + channel] = quotient(start, at.TICKS)
        return
    end = start + s[entry + at.D_SECTORS] * p[at.DRAM_TICKS]
    s[state + at.BUS_FREE], s[state + at.LAST_WAS_WRITE] = end, s[entry + at.D_WRITE]
    s[p[at.BANK] + (channel * p[at.BANKS] + s[entry + at.D_BANK]) * at.BANK_WIDTH + at.B_READY] = end
    if s[entry + at.D_WRITE] == 0:
        _return(p, s, channel, entry, quotient(start, at.TICKS))
    for place in range(entry, first + (count - 1) * at.WAIT_WIDTH):
        s[place] = s[place + at.WAIT_WIDTH]
    s[state + at.WAIT_COUNT] = count - 1
    if count + 2 > p[at.DRAM_QUEUE]:
        for part in range(channel * p[at.SLICES_PER_CHANNEL], (channel + 1) * p[at.SLICES_PER_CHANNEL]):
            unblock(p, s, part, now)
    s[p[at.NEXT_PICK] + channel] = max(now + 1, quotient(end, at.TICKS)) if count > 1 else at.NEVER


@inlined
def _return(p: Ints, s: Ints, channel: int, entry: int, begins: int) -> None:
    """Send the data of a read back; the latency of the description holds for a row that had to be opened, without a queue."""
    state = p[at.CHANNEL] + channel * at.CHANNEL_WIDTH
    place = wrapped(s[state + at.RETURN_HEAD] + s[state + at.RETURN_COUNT], p[at.RETURN_ROOM])
    back = p[at.RETURNS] + (channel * p[at.RETURN_ROOM] + place) * at.RETURN_WIDTH
    opening = quotient(p[at.ROW_OPEN], at.TICKS)
    s[back] = begins + max(0, p[at.DRAM_LATENCY] - opening - 1)
    s[back + 1], s[back + 2] = s[entry + at.D_SLICE], s[entry + at.D_HANDLE]
    s[back + 3] = max(0, begins - s[entry + at.D_SINCE] - opening - 1)
    if s[state + at.RETURN_COUNT] == 0:
        s[p[at.NEXT_RETURN] + channel] = s[back]
    s[state + at.RETURN_COUNT] += 1
