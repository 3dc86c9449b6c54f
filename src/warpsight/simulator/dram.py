"""A memory channel: accesses wait in a queue, and the data bus carries one after the other.

The bus turns around between reads and writes, which takes `dram.turnaround`. So accesses that need no turn go first, and of these
the oldest. With a row model (`dram.row` above 0 B) a bank holds one open row, and accesses to an open row go first (FR-FCFS);
another row costs a precharge and an activation before its data can come, which other banks' data hide, and no two rows of a channel
are opened in less than `dram.row_interval`.
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient, set_bits
from warpsight.addressing.mapping import line_in_slice
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import codes
from warpsight.simulator.state import Channel, DramAccess, Slice, State
from warpsight.simulator.structures import end_of

# -- What slices ask for.

@inlined
def has_room(state: State, part: Slice, accesses: int) -> bool:
    """Whether the queue of the slice's channel takes so many more accesses."""
    return state.channels[part.channel].waiting + accesses <= state.machine.dram_queue


@inlined
def unblock(state: State, part: Slice, now: int) -> None:
    """The channel has made progress: a blocked slice tries again."""
    if part.blocked:
        state.next_l2[part.number] = now


@inlined
def _row_and_bank(state: State, line: int, part: int) -> tuple[int, int]:
    """The row (numbered within its bank) and the bank of a line.

    Rows of a channel go to its banks in turn, shifted by higher bits: otherwise a line and the one that it evicts from the L2 share
    a bank (Zhang, Zhu, Zhang, "A permutation-based page interleaving scheme", MICRO 2000).
    """
    machine = state.machine
    if machine.row_sectors == 0:
        return 0, 0
    within = line_in_slice(line, machine.lines_per_piece, machine.slices) * state.l2.line_sectors
    number = quotient(within, machine.row_sectors) * machine.slices_per_channel + part % machine.slices_per_channel
    row = quotient(number, machine.banks)
    return row, (number + row + quotient(row, machine.banks)) % machine.banks


@inlined
def request_dram(state: State, part: Slice, line: int, sectors: int, write: int, mshr: int, now: int) -> None:
    """Put an access to `sectors` (mask) of the line into the queue of the slice's channel (there is room)."""
    channel = state.channels[part.channel]
    access = channel.accesses[channel.waiting]
    channel.waiting += 1
    access.sectors, access.write, access.slice, access.mshr, access.since = set_bits(sectors), write, part.number, mshr, now
    access.row, access.bank = _row_and_bank(state, line, part.number)
    begin = max(now + 1, quotient(channel.bus_free, codes.TICKS))
    state.next_pick[channel.number] = min(state.next_pick[channel.number], begin)


# -- Which access begins.

@inlined
def _open_rows(state: State, channel: Channel, now: int) -> None:
    """In every bank whose open row no access waits for, begin to open the row of the oldest access."""
    kept = 0
    for k in range(channel.waiting):
        access = channel.accesses[k]
        if channel.banks[access.bank].row == access.row:
            kept |= 1 << access.bank
    for k in range(channel.waiting):
        access = channel.accesses[k]
        if kept & (1 << access.bank) == 0:
            kept |= 1 << access.bank
            bank = channel.banks[access.bank]
            closing = state.machine.close_ticks if bank.row >= 0 else 0
            begin = max(max(bank.ready, now * codes.TICKS) + closing, channel.row_free)
            channel.row_free = begin + state.machine.row_ticks
            bank.ready = begin + state.machine.open_ticks
            bank.row = access.row


@inlined
def _ready(state: State, channel: Channel, access: DramAccess) -> int:
    """When the data of the access can be on the bus (ticks), if no other access is in between."""
    turn = state.machine.turnaround_ticks if access.write != channel.last_was_write else 0
    return max(channel.bus_free + turn, channel.banks[access.bank].ready)


@inlined
def _choose(state: State, channel: Channel, now: int) -> int:
    """Of the accesses to open rows the one whose data can be on the bus first; of several, the oldest.

    So reads continue as long as there are any, and writes leave together when the queue is full of them.
    """
    chosen, best = 0, codes.LATEST
    for k in range(channel.waiting):
        access = channel.accesses[k]
        if channel.banks[access.bank].row == access.row:
            ready = max(_ready(state, channel, access), now * codes.TICKS)
            if ready < best:
                chosen, best = k, ready
    return chosen


@inlined
def _return(state: State, channel: Channel, access: DramAccess, begins: int) -> None:
    """Send the data of a read back. The latency of the description is that of a row that had to be opened, without a queue."""
    reply = channel.replies[end_of(channel.returning)]
    opening = quotient(state.machine.open_ticks, codes.TICKS)
    reply.time = begins + max(0, state.machine.dram_cycles - opening - 1)
    reply.slice, reply.mshr, reply.queued = access.slice, access.mshr, max(0, begins - access.since - opening - 1)
    if channel.returning.count == 0:
        state.next_return[channel.number] = reply.time
    channel.returning.count += 1


@compiled
def begin_access(state: State, channel: Channel, now: int) -> None:
    """Begin the next access of the channel, if its row is open."""
    chosen = 0
    if state.machine.row_sectors != 0:
        _open_rows(state, channel, now)
    if state.machine.row_sectors != 0 or state.machine.turnaround_ticks != 0:
        chosen = _choose(state, channel, now)
    access = channel.accesses[chosen]
    start = max(_ready(state, channel, access), now * codes.TICKS)
    if start >= (now + 1) * codes.TICKS:
        state.next_pick[channel.number] = quotient(start, codes.TICKS)
        return
    end = start + access.sectors * state.machine.dram_ticks
    channel.bus_free, channel.last_was_write = end, access.write
    channel.banks[access.bank].ready = end
    if access.write == 0:
        _return(state, channel, access, quotient(start, codes.TICKS))
    for k in range(chosen, channel.waiting - 1):
        channel.accesses[k] = channel.accesses[k + 1]
    channel.waiting -= 1
    if channel.waiting + 3 > state.machine.dram_queue:
        first = channel.number * state.machine.slices_per_channel
        for number in range(first, first + state.machine.slices_per_channel):
            unblock(state, state.slices[number], now)
    state.next_pick[channel.number] = max(now + 1, quotient(end, codes.TICKS)) if channel.waiting > 0 else codes.NEVER
