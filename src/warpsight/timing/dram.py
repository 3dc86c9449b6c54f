"""A memory channel: accesses wait in a queue, and the data bus carries one after the other.

Without a row model (`dram.row` 0 B) an access takes the bus for its data alone, in the order of arrival. With it a bank holds one
open row, and accesses to an open row go first (FR-FCFS); another row costs a precharge and an activation before its data can
come, which other banks' data hide, and the bus turns around between reads and writes.
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient, set_bits
from warpsight.addressing.slices import channel_of_slice, line_in_slice
from warpsight.caches.compiled import compiled, inlined
from warpsight.timing import layout as at
from warpsight.timing.layout import Ints


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
def ask(p: Ints, s: Ints, part: int, line: int, sectors: int, write: int, handle: int, now: int) -> None:
    """Put an access into the queue of the slice's channel (there is room)."""
    channel = channel_of(p, part)
    row = p[at.CHANNEL] + channel * at.CHANNEL_WIDTH
    entry = p[at.WAITING] + (channel * p[at.DRAM_QUEUE] + s[row + at.WAIT_COUNT]) * at.WAIT_WIDTH
    s[row + at.WAIT_COUNT] += 1
    s[entry + at.D_LINE], s[entry + at.D_SECTORS], s[entry + at.D_WRITE] = line, set_bits(sectors), write
    s[entry + at.D_SLICE], s[entry + at.D_HANDLE], s[entry + at.D_SINCE] = part, handle, now
    s[row + at.PICK_NEXT] = min(s[row + at.PICK_NEXT], max(now + 1, quotient(s[row + at.BUS_FREE], at.TICKS)))
    s[p[at.NEXT_CHANNEL] + channel] = min(s[p[at.NEXT_CHANNEL] + channel], s[row + at.PICK_NEXT])


@inlined
def _row_and_bank(p: Ints, line: int, part: int) -> tuple[int, int]:
    """The row (numbered over its bank) and the bank of a line: rows of a channel lie in its banks in turn."""
    within = line_in_slice(line, p[at.PER_PIECE], p[at.SLICES]) * p[at.L2_LINE]
    number = quotient(within, p[at.ROW_SECTORS]) * p[at.SLICES_PER_CHANNEL] + part % p[at.SLICES_PER_CHANNEL]
    return quotient(number, p[at.BANKS]), number % p[at.BANKS]


@inlined
def _choose(p: Ints, s: Ints, channel: int, count: int) -> int:
    """The oldest access to an open row, or the oldest of all."""
    if p[at.ROW_SECTORS] == 0:
        return 0
    first = p[at.WAITING] + channel * p[at.DRAM_QUEUE] * at.WAIT_WIDTH
    for k in range(count):
        entry = first + k * at.WAIT_WIDTH
        row, bank = _row_and_bank(p, s[entry + at.D_LINE], s[entry + at.D_SLICE])
        if s[p[at.BANK] + (channel * p[at.BANKS] + bank) * at.BANK_WIDTH] == row:
            return k
    return 0


@inlined
def _open_row(p: Ints, s: Ints, channel: int, line: int, part: int, now: int) -> int:
    """Open the row of `line`; gives when its data can be on the bus, in ticks."""
    row, bank = _row_and_bank(p, line, part)
    state = p[at.BANK] + (channel * p[at.BANKS] + bank) * at.BANK_WIDTH
    if s[state] != row:
        s[state + 1] = max(s[state + 1], now * at.TICKS) + p[at.ROW_CLOSE] + p[at.ROW_OPEN]
        s[state] = row
    return int(s[state + 1])


@compiled
def pick(p: Ints, s: Ints, channel: int, now: int) -> None:
    """Begin the next access of the channel."""
    state = p[at.CHANNEL] + channel * at.CHANNEL_WIDTH
    count = s[state + at.WAIT_COUNT]
    first = p[at.WAITING] + channel * p[at.DRAM_QUEUE] * at.WAIT_WIDTH
    chosen = _choose(p, s, channel, count)
    entry = first + chosen * at.WAIT_WIDTH
    line, sectors, write = s[entry + at.D_LINE], s[entry + at.D_SECTORS], s[entry + at.D_WRITE]
    part, handle, since = s[entry + at.D_SLICE], s[entry + at.D_HANDLE], s[entry + at.D_SINCE]
    for place in range(entry, first + (count - 1) * at.WAIT_WIDTH):
        s[place] = s[place + at.WAIT_WIDTH]
    s[state + at.WAIT_COUNT] = count - 1
    start = max(s[state + at.BUS_FREE], now * at.TICKS)
    if p[at.ROW_SECTORS] != 0:
        start = max(start, _open_row(p, s, channel, line, part, now))
    if write != s[state + at.LAST_WAS_WRITE]:
        start += p[at.TURNAROUND]
        s[state + at.LAST_WAS_WRITE] = write
    s[state + at.BUS_FREE] = start + sectors * p[at.DRAM_TICKS]
    if write == 0:
        begins = quotient(start, at.TICKS)
        place = (s[state + at.RETURN_HEAD] + s[state + at.RETURN_COUNT]) % p[at.RETURN_ROOM]
        back = p[at.RETURNS] + (channel * p[at.RETURN_ROOM] + place) * at.RETURN_WIDTH
        s[back], s[back + 1], s[back + 2] = begins + max(0, p[at.DRAM_LATENCY] - 1), part, handle
        s[back + 3] = begins - since - 1
        if s[state + at.RETURN_COUNT] == 0:
            s[state + at.RETURN_NEXT] = s[back]
        s[state + at.RETURN_COUNT] += 1
    following = max(now + 1, quotient(s[state + at.BUS_FREE], at.TICKS))
    s[state + at.PICK_NEXT] = following if count > 1 else at.NEVER
