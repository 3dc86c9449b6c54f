"""The L1 of an SM: one request a cycle reaches its tags; what cannot be served holds up all behind it.

Write-through, no write allocation, LRU. A miss takes a miss register, for a line that is not yet on its way also a way of its set
(allocation on miss) unless the L1 allocates on fill ("streaming"), and room in the miss queue before the network. A line that is on
its way takes up to `targets` requests.
"""

from __future__ import annotations

from warpsight.addressing.coalescing import part_of_line
from warpsight.addressing.integers import quotient
from warpsight.addressing.mapping import set_index
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import layout as at
from warpsight.simulator.layout import Ints
from warpsight.simulator.lsu import accesses_done, handle_of, request_done
from warpsight.simulator.noc import sm_has_room
from warpsight.simulator.scheduler import blocked_so_far
from warpsight.simulator.structures import add_target, drop, find, find_way, take, take_target, to_front, victim, wrapped


@inlined
def _set_of(p: Ints, sm: int, line: int) -> int:
    row = sm * p[at.L1_SETS] + set_index(line, p[at.L1_SETS], p[at.L1_RULE])
    return int(p[at.L1_WAYS_TABLE] + row * 2 * p[at.L1_WAYS])


@inlined
def _parts(p: Ints, line: int, sectors: int) -> int:
    """How many L2 lines `sectors` of L1 line `line` lie in."""
    if p[at.L1_LINE] == p[at.L2_LINE]:
        return 1
    first, last = quotient(line * p[at.L1_LINE], p[at.L2_LINE]), quotient((line + 1) * p[at.L1_LINE] - 1, p[at.L2_LINE])
    count = 0
    for l2_line in range(first, last + 1):
        count += 1 if part_of_line(line, sectors, p[at.L1_LINE], l2_line, p[at.L2_LINE]) != 0 else 0
    return count


@inlined
def _send_one(p: Ints, s: Ints, sm: int, line: int, mask: int, kind: int, handle: int, whole: int, pc: int, now: int) -> None:
    memory = p[at.SM] + sm * at.SM_WIDTH
    place = wrapped(s[memory + at.MISS_HEAD] + s[memory + at.MISS_COUNT], p[at.MISS_QUEUE])
    packet = p[at.MISSES] + (sm * p[at.MISS_QUEUE] + place) * at.MISS_WIDTH
    s[packet + at.P_LINE], s[packet + at.P_MASK], s[packet + at.P_KIND], s[packet + at.P_SM] = line, mask, kind, sm
    s[packet + at.P_HANDLE], s[packet + at.P_WHOLE], s[packet + at.P_SINCE], s[packet + at.P_PC] = handle, whole, now, pc
    if s[memory + at.MISS_COUNT] == 0:
        s[p[at.NEXT_PORT] + sm] = max(now, quotient(s[memory + at.PORT_FREE], at.TICKS))
    s[memory + at.MISS_COUNT] += 1


@inlined
def _send(p: Ints, s: Ints, sm: int, line: int, sectors: int, kind: int, handle: int, whole: int, pc: int, now: int) -> None:
    """Put a packet for each L2 line that `sectors` of L1 line `line` lie in into the miss queue (there is room)."""
    if p[at.L1_LINE] == p[at.L2_LINE]:
        _send_one(p, s, sm, line, sectors, kind, handle, whole, pc, now)
        return
    first, last = quotient(line * p[at.L1_LINE], p[at.L2_LINE]), quotient((line + 1) * p[at.L1_LINE] - 1, p[at.L2_LINE])
    for l2_line in range(first, last + 1):
        part = part_of_line(line, sectors, p[at.L1_LINE], l2_line, p[at.L2_LINE])
        if part != 0:
            _send_one(p, s, sm, l2_line, part, kind, handle, whole, pc, now)


@inlined
def _note_wait(p: Ints, s: Ints, sm: int, handle: int, entry: int, now: int) -> None:
    """Keep what the load's latest request waited for until here: the unit, a miss register, the network's port."""
    slot = quotient(handle, p[at.LOADS] + 1)
    load = handle - slot * (p[at.LOADS] + 1) - 1
    if load < 0:
        return
    memory = p[at.SM] + sm * at.SM_WIDTH
    record = p[at.LOAD] + ((sm * p[at.SLOTS] + slot) * p[at.LOADS] + load) * at.LOAD_WIDTH
    mshr = blocked_so_far(s, memory, at.NO_MSHR, now) - s[record + at.MSHR_BEFORE]
    port = blocked_so_far(s, memory, at.NO_ROOM, now) - s[record + at.NOC_BEFORE]
    s[record + at.WAIT_MSHR], s[record + at.WAIT_PORT] = mshr, port
    s[record + at.WAIT_UNIT] = max(0, now - s[record + at.ISSUED] - p[at.ADDRESS] - p[at.PIPE] - mshr - port)


@inlined
def _read(p: Ints, s: Ints, sm: int, entry: int, now: int) -> int:
    """Serve a read at the tags. Gives NOT_BLOCKED, or why it cannot be served now; then nothing has changed."""
    memory, ways, pc, line = p[at.SM] + sm * at.SM_WIDTH, p[at.L1_WAYS], s[entry + at.R_PC], s[entry + at.R_LINE]
    count = p[at.COUNT] + pc * at.COUNTERS
    needed = s[p[at.L1_UNIT] + s[entry + at.R_MASK]]
    base = _set_of(p, sm, line)
    way = find_way(s, base, ways, line)
    sectors = s[base + ways + way] if way >= 0 else 0
    handle = handle_of(p, s[entry + at.R_SLOT], s[p[at.CODE] + pc * at.CODE_WIDTH + at.LOAD_INDEX])
    if sectors & needed == needed:
        s[count + at.C_L1_READS] += 1
        s[count + at.C_L1_HITS] += 1
        to_front(s, base, ways, way, line, sectors)
        _note_wait(p, s, sm, handle, entry, now)
        request_done(p, s, sm, handle, now + p[at.BACK], 0, 0, now)
        return at.NOT_BLOCKED
    buckets, registers = p[at.L1_BUCKET] + sm * p[at.L1_BUCKETS], p[at.L1_MSHR] + sm * p[at.L1_MSHRS] * at.MSHR_WIDTH
    nodes, free_node = p[at.L1_NODE] + sm * p[at.L1_NODES] * at.NODE_WIDTH, memory + at.FREE_NODE
    row = find(s, buckets, p[at.L1_BUCKETS], registers, line)
    missing = needed & ~sectors
    if row >= 0:
        if s[row + at.M_TARGETS] >= p[at.L1_TARGETS] or s[free_node] < 0:
            return at.NO_MSHR
        missing &= ~s[row + at.M_PENDING]
    elif s[memory + at.FREE_MSHR] < 0 or s[free_node] < 0:
        return at.NO_MSHR
    if missing != 0:
        parts = _parts(p, line, missing)
        if s[memory + at.MISS_COUNT] + parts > p[at.MISS_QUEUE]:
            return at.NO_ROOM
        if way < 0 and p[at.L1_ON_FILL] == 0:
            way = victim(s, base, ways)
            if way < 0:
                return at.NO_MSHR
        if row < 0:
            row = take(s, buckets, p[at.L1_BUCKETS], registers, memory + at.FREE_MSHR, line)
        s[row + at.M_PENDING] |= missing
        s[row + at.M_EXPECTED] += parts
        _send(p, s, sm, line, missing, at.READ, row, 0, pc, now)
    if way >= 0:
        pending = s[row + at.M_PENDING] << at.PENDING_SHIFT
        to_front(s, base, ways, way, line, (sectors if s[base + way] == line else 0) | pending)
    s[count + at.C_L1_READS] += 1
    s[count + (at.C_L1_MISSES if missing != 0 else at.C_L1_MERGES)] += 1
    if missing != 0:
        room = blocked_so_far(s, memory, at.NO_ROOM, now) - s[entry + at.R_ROOM]
        held = now - s[entry + at.R_BORN]
        s[count + at.C_MISS_NOC] += min(room, held)
        s[count + at.C_MISS_MSHR] += held - min(room, held)
    _note_wait(p, s, sm, handle, entry, now)
    add_target(s, nodes, free_node, row, handle, s[entry + at.R_BORN] if missing != 0 else -1 - now, pc)
    return at.NOT_BLOCKED


@inlined
def _write(p: Ints, s: Ints, sm: int, entry: int, now: int) -> int:
    """Send a write on to the L2; a line that is present becomes the most recent. As `_read`."""
    memory, line, pc, slot = p[at.SM] + sm * at.SM_WIDTH, s[entry + at.R_LINE], s[entry + at.R_PC], s[entry + at.R_SLOT]
    mask = s[entry + at.R_MASK]
    parts = _parts(p, line, mask)
    if s[memory + at.MISS_COUNT] + parts > p[at.MISS_QUEUE]:
        return at.NO_ROOM
    base = _set_of(p, sm, line)
    way = find_way(s, base, p[at.L1_WAYS], line)
    if way >= 0:
        to_front(s, base, p[at.L1_WAYS], way, line, s[base + p[at.L1_WAYS] + way])
    s[p[at.COUNT] + pc * at.COUNTERS + at.C_L1_WRITES] += 1
    _send(p, s, sm, line, mask, at.WRITE, handle_of(p, slot, -1), s[entry + at.R_WHOLE], pc, now)
    if parts > 1:
        accesses_done(p, s, sm, slot, 1 - parts, now)
    return at.NOT_BLOCKED


@inlined
def _atomic(p: Ints, s: Ints, sm: int, entry: int, now: int) -> int:
    """Send one sector of an atomic on to the L2, where it is done. As `_read`."""
    memory, pc, sector = p[at.SM] + sm * at.SM_WIDTH, s[entry + at.R_PC], s[entry + at.R_LINE]
    if s[memory + at.MISS_COUNT] >= p[at.MISS_QUEUE]:
        return at.NO_ROOM
    handle = handle_of(p, s[entry + at.R_SLOT], s[p[at.CODE] + pc * at.CODE_WIDTH + at.LOAD_INDEX])
    _note_wait(p, s, sm, handle, entry, now)
    line = quotient(sector, p[at.L2_LINE])
    _send_one(p, s, sm, line, 1 << (sector - line * p[at.L2_LINE]), at.ATOMIC_PACKET, handle, s[entry + at.R_WHOLE], pc, now)
    return at.NOT_BLOCKED


@compiled
def at_tags(p: Ints, s: Ints, sm: int, now: int) -> None:
    """The oldest request in the pipeline comes to the tags."""
    memory, room = p[at.SM] + sm * at.SM_WIDTH, p[at.PIPE] + 1
    entry = p[at.PIPELINE] + (sm * room + s[memory + at.PIPE_HEAD]) * at.PIPE_WIDTH
    access = s[p[at.CODE] + s[entry + at.R_PC] * at.CODE_WIDTH + at.ACCESS]
    if access == at.IS_LOAD:
        why = _read(p, s, sm, entry, now)
    elif access == at.IS_STORE:
        why = _write(p, s, sm, entry, now)
    else:
        why = _atomic(p, s, sm, entry, now)
    if s[memory + at.BLOCKED] != why:
        if s[memory + at.BLOCKED] != at.NOT_BLOCKED:
            s[memory + at.BLOCKED_MSHR - at.NO_MSHR + s[memory + at.BLOCKED]] += now - s[memory + at.BLOCKED_SINCE]
        s[memory + at.BLOCKED], s[memory + at.BLOCKED_SINCE] = why, now
    if why != at.NOT_BLOCKED:
        s[p[at.NEXT_L1] + sm] = at.NEVER  # until a fill, or the port, makes room
        return
    s[memory + at.PIPE_HEAD] = wrapped(s[memory + at.PIPE_HEAD] + 1, room)
    s[memory + at.PIPE_COUNT] -= 1
    if s[memory + at.LSU_SLOT] >= 0 and s[p[at.NEXT_LSU] + sm] == at.NEVER:
        s[p[at.NEXT_LSU] + sm] = now
    if s[memory + at.PIPE_COUNT] > 0:
        following = p[at.PIPELINE] + (sm * room + s[memory + at.PIPE_HEAD]) * at.PIPE_WIDTH
        s[p[at.NEXT_L1] + sm] = max(now + 1, s[following + at.R_TIME])
    else:
        s[p[at.NEXT_L1] + sm] = at.NEVER


@inlined
def _install(p: Ints, s: Ints, sm: int, row: int) -> None:
    """The line of a miss register is there: its pending sectors become valid."""
    ways, line = p[at.L1_WAYS], s[row + at.M_LINE]
    base = _set_of(p, sm, line)
    way = find_way(s, base, ways, line)
    if way >= 0:
        s[base + ways + way] = s[base + ways + way] & at.VALID_BITS | s[row + at.M_PENDING]
    elif p[at.L1_ON_FILL] != 0:
        to_front(s, base, ways, ways - 1, line, s[row + at.M_PENDING])


@compiled
def fill(p: Ints, s: Ints, sm: int, now: int) -> None:
    """Take one packet that the network has brought: the answer to a miss, to a write, or to an atomic."""
    memory = p[at.SM] + sm * at.SM_WIDTH
    entry = p[at.ARRIVALS] + (sm * p[at.EJECT_ROOM] + s[memory + at.ARRIVAL_HEAD]) * at.ARRIVAL_WIDTH
    s[memory + at.ARRIVAL_HEAD] = wrapped(s[memory + at.ARRIVAL_HEAD] + 1, p[at.EJECT_ROOM])
    s[memory + at.ARRIVAL_COUNT] -= 1
    sm_has_room(p, s, sm, now)
    handle, noc, dram = s[entry + at.A_HANDLE], s[entry + at.A_NOC], s[entry + at.A_DRAM]
    if s[entry + at.A_KIND] != at.READ:
        request_done(p, s, sm, handle, now + 1, noc, dram, now)
    else:
        _answer(p, s, sm, handle, noc, dram, s[entry + at.A_LEVEL], now)
    if s[memory + at.ARRIVAL_COUNT] > 0:
        following = p[at.ARRIVALS] + (sm * p[at.EJECT_ROOM] + s[memory + at.ARRIVAL_HEAD]) * at.ARRIVAL_WIDTH
        s[p[at.NEXT_ARRIVAL] + sm] = max(now + 1, s[following + at.A_TIME])
    else:
        s[p[at.NEXT_ARRIVAL] + sm] = at.NEVER
    if s[memory + at.BLOCKED] == at.NO_MSHR:
        s[p[at.NEXT_L1] + sm] = now


@inlined
def _answer(p: Ints, s: Ints, sm: int, row: int, noc: int, dram: int, level: int, now: int) -> None:
    """One part of a missing line has come; with the last part the waiting requests have their data, one a cycle."""
    memory = p[at.SM] + sm * at.SM_WIDTH
    s[row + at.M_EXPECTED] -= 1
    if s[row + at.M_EXPECTED] > 0:
        return
    _install(p, s, sm, row)
    when = max(now, s[memory + at.FILL_FREE])
    nodes = p[at.L1_NODE] + sm * p[at.L1_NODES] * at.NODE_WIDTH
    while s[row + at.M_FIRST] >= 0:
        node = take_target(s, nodes, memory + at.FREE_NODE, row)
        when += 1
        since = s[node + at.N_SINCE]
        if since >= 0:
            _count_miss(p, s, s[node + at.N_DATA], now - since, noc, dram, level)
            request_done(p, s, sm, s[node + at.N_HANDLE], when, noc, dram, now)
        else:
            # It came when the line was on its way: of the queues it has seen at most as much as it waited.
            waited = now + 1 + since
            request_done(p, s, sm, s[node + at.N_HANDLE], when, min(noc, waited), min(dram, max(0, waited - noc)), now)
    s[memory + at.FILL_FREE] = when
    registers = p[at.L1_MSHR] + sm * p[at.L1_MSHRS] * at.MSHR_WIDTH
    drop(s, p[at.L1_BUCKET] + sm * p[at.L1_BUCKETS], p[at.L1_BUCKETS], registers, memory + at.FREE_MSHR, row)


@inlined
def _count_miss(p: Ints, s: Ints, pc: int, latency: int, noc: int, dram: int, level: int) -> None:
    """Where the cycles of a miss went (MDM, Fig. 3); what is in no queue is the way to the L2 and back, or DRAM."""
    count = p[at.COUNT] + pc * at.COUNTERS
    s[count + at.C_MISS_LATENCY] += latency
    s[count + at.C_MISS_NOC] += noc
    s[count + at.C_MISS_DRAM_QUEUE] += dram
    if level == at.LEVEL_DRAM:
        s[count + at.C_MISS_DRAM] += p[at.DRAM_LATENCY]
