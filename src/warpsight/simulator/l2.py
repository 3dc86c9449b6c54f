"""An L2 slice: one packet a cycle reaches its tags; write-back, write-allocate, LRU; atomics are done here.

A write that covers whole sectors needs no data from memory; any other that misses fetches its line first, as a read does. A packet
that cannot be served (no miss register, no way that is not on its way, no room before DRAM or in the reply queue) holds up those
behind it.
"""

from __future__ import annotations

from warpsight.addressing.integers import set_bits
from warpsight.addressing.mapping import line_in_slice, set_index
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import layout as at
from warpsight.simulator.dram import ask, has_room, unblock
from warpsight.simulator.layout import Ints
from warpsight.simulator.noc import push_reply, slice_has_room
from warpsight.simulator.structures import add_target, drop, find, find_way, is_dirty, take, take_target, to_front, victim, wrapped


@inlined
def _set_of(p: Ints, part: int, line: int) -> int:
    row = set_index(line_in_slice(line, p[at.PER_PIECE], p[at.SLICES]), p[at.L2_SETS], p[at.L2_RULE])
    return int(p[at.L2_WAYS_TABLE] + (part * p[at.L2_SETS] + row) * 2 * p[at.L2_WAYS])


@inlined
def _evict(p: Ints, s: Ints, part: int, base: int, way: int, pc: int, now: int) -> None:
    """Write the line that is given up to memory if that does not know it yet, on the account of `pc`."""
    if is_dirty(s, base, p[at.L2_WAYS], way):
        sectors = s[base + p[at.L2_WAYS] + way] & at.VALID_BITS
        s[p[at.COUNT] + pc * at.COUNTERS + at.C_DRAM_WRITES] += 1
        ask(p, s, part, s[base + way], sectors, 1, -1, now)


@inlined
def _miss(p: Ints, s: Ints, part: int, entry: int, needed: int, base: int, way: int, sectors: int, now: int) -> bool:
    """A packet asks for sectors that are not there: wait for them, and fetch those that are not on their way; False if blocked."""
    row, line, pc = p[at.SLICE] + part * at.SLICE_WIDTH, s[entry + at.P_LINE], s[entry + at.P_PC]
    buckets, registers = p[at.L2_BUCKET] + part * p[at.L2_BUCKETS], p[at.L2_MSHR] + part * p[at.L2_MSHRS] * at.MSHR_WIDTH
    free_node, ways = row + at.L2_FREE_NODE, p[at.L2_WAYS]
    register = find(s, buckets, p[at.L2_BUCKETS], registers, line)
    missing = needed & ~sectors
    if register >= 0:
        if s[register + at.M_TARGETS] >= p[at.L2_TARGETS] or s[free_node] < 0:
            return False
        missing &= ~s[register + at.M_PENDING]
    elif s[row + at.L2_FREE_MSHR] < 0 or s[free_node] < 0:
        return False
    count, kind = p[at.COUNT] + pc * at.COUNTERS, s[entry + at.P_KIND]
    if missing != 0:
        if way < 0:
            way = victim(s, base, ways)
        if way < 0 or not has_room(p, s, part, 2):
            return False
        if s[base + way] != line:
            _evict(p, s, part, base, way, pc, now)
        if register < 0:
            register = take(s, buckets, p[at.L2_BUCKETS], registers, row + at.L2_FREE_MSHR, line)
        s[register + at.M_PENDING] |= missing
        s[register + at.M_EXPECTED] += 1
        s[count + at.C_DRAM_READS] += 1
        ask(p, s, part, line, missing, 0, register, now)
    kept = sectors if s[base + way] == line else 0
    written = s[entry + at.P_MASK] if kind == at.WRITE else 0
    dirty = at.DIRTY if kind != at.READ else 0
    to_front(s, base, ways, way, line, kept | (s[register + at.M_PENDING] & ~kept) << at.PENDING_SHIFT | dirty | written)
    if kind == at.WRITE:
        s[count + at.C_L2_WRITES] += 1
        s[count + at.C_L2_WRITE_MISSES] += 1
    else:
        s[count + at.C_L2_READS] += 1
        s[count + (at.C_L2_READ_MISSES if missing != 0 else at.C_L2_READ_MERGES)] += 1
    since = s[entry + at.P_SM] if kind != at.WRITE else -1
    data = s[entry + at.P_MASK] | kind << 16 | s[entry + at.I_WAITED] << 20
    add_target(s, p[at.L2_NODE] + part * p[at.L2_NODES] * at.NODE_WIDTH, free_node, register, s[entry + at.P_HANDLE], since, data)
    return True


@inlined
def _serve(p: Ints, s: Ints, part: int, entry: int, now: int) -> bool:
    """Serve a packet at the tags; False if it must wait, and then nothing has changed."""
    row, line, kind, mask = p[at.SLICE] + part * at.SLICE_WIDTH, s[entry + at.P_LINE], s[entry + at.P_KIND], s[entry + at.P_MASK]
    if s[row + at.OUT_COUNT] >= p[at.OUT_ROOM]:
        return False
    ways, count = p[at.L2_WAYS], p[at.COUNT] + s[entry + at.P_PC] * at.COUNTERS
    base = _set_of(p, part, line)
    way = find_way(s, base, ways, line)
    sectors = s[base + ways + way] if way >= 0 else 0
    needed = s[p[at.L2_UNIT] + mask]
    covers = kind == at.WRITE and s[entry + at.P_WHOLE] != 0 and needed == mask
    if sectors & needed != needed and not covers:
        if not _miss(p, s, part, entry, needed, base, way, sectors, now):
            return False
        if kind == at.WRITE:
            _acknowledge(p, s, part, entry, now)
        return True
    hit = way >= 0 and sectors & needed == needed
    if way < 0:
        way = victim(s, base, ways)
        if way < 0 or not has_room(p, s, part, 1):
            return False
        _evict(p, s, part, base, way, s[entry + at.P_PC], now)
    dirty = at.DIRTY | needed if kind != at.READ else 0
    to_front(s, base, ways, way, line, sectors | dirty)
    if kind == at.WRITE:
        s[count + at.C_L2_WRITES] += 1
        s[count + (at.C_L2_WRITE_HITS if hit else at.C_L2_WRITE_MISSES)] += 1
        _acknowledge(p, s, part, entry, now)
        return True
    s[count + at.C_L2_READS] += 1
    s[count + at.C_L2_READ_HITS] += 1
    sm, handle = s[entry + at.P_SM], s[entry + at.P_HANDLE]
    push_reply(p, s, part, sm, kind, handle, set_bits(mask), s[entry + at.I_WAITED], 0, at.LEVEL_L2, now)
    return True


@inlined
def _acknowledge(p: Ints, s: Ints, part: int, entry: int, now: int) -> None:
    """A write is taken: tell its SM, without data."""
    push_reply(p, s, part, s[entry + at.P_SM], at.WRITE, s[entry + at.P_HANDLE], 0, s[entry + at.I_WAITED], 0, at.LEVEL_L2, now)


@compiled
def tags(p: Ints, s: Ints, part: int, now: int) -> None:
    """The oldest packet of the slice comes to the tags."""
    row = p[at.SLICE] + part * at.SLICE_WIDTH
    entry = p[at.INBOX] + (part * p[at.IN_ROOM] + s[row + at.IN_HEAD]) * at.IN_WIDTH
    before = s[entry + at.I_WAITED]
    s[entry + at.I_WAITED] = before + now - s[entry + at.I_TIME]
    if not _serve(p, s, part, entry, now):
        s[entry + at.I_WAITED] = before
        s[row + at.TAG_BLOCKED], s[p[at.NEXT_L2] + part] = 1, at.NEVER  # until memory or the port makes room
        return
    s[row + at.TAG_BLOCKED] = 0
    # an atomic is done once more for each further lane at its most shared address
    free = now + 1 + (s[entry + at.P_WHOLE] if s[entry + at.P_KIND] == at.ATOMIC_PACKET else 0)
    s[row + at.IN_HEAD] = wrapped(s[row + at.IN_HEAD] + 1, p[at.IN_ROOM])
    s[row + at.IN_COUNT] -= 1
    slice_has_room(p, s, part, now)
    if s[row + at.IN_COUNT] > 0:
        following = p[at.INBOX] + (part * p[at.IN_ROOM] + s[row + at.IN_HEAD]) * at.IN_WIDTH
        s[p[at.NEXT_L2] + part] = max(free, s[following + at.I_TIME])
    else:
        s[p[at.NEXT_L2] + part] = at.NEVER
    s[row + at.BUSY_UNTIL] = free


@compiled
def from_memory(p: Ints, s: Ints, part: int, register: int, queued: int, now: int) -> bool:
    """What a miss register waited for has come; answer who waits. False if the reply queue has no room for all of them."""
    row = p[at.SLICE] + part * at.SLICE_WIDTH
    unblock(p, s, part, now)
    if s[register + at.M_EXPECTED] == 1 and s[row + at.OUT_COUNT] + s[register + at.M_TARGETS] > p[at.OUT_ROOM]:
        return False
    s[register + at.M_DRAM] = max(s[register + at.M_DRAM], queued)
    s[register + at.M_EXPECTED] -= 1
    if s[register + at.M_EXPECTED] > 0:
        return True
    line, ways = s[register + at.M_LINE], p[at.L2_WAYS]
    base = _set_of(p, part, line)
    way = find_way(s, base, ways, line)
    word = s[base + ways + way]
    s[base + ways + way] = word & (at.VALID_BITS | at.DIRTY) | s[register + at.M_PENDING]
    nodes = p[at.L2_NODE] + part * p[at.L2_NODES] * at.NODE_WIDTH
    while s[register + at.M_FIRST] >= 0:
        node = take_target(s, nodes, row + at.L2_FREE_NODE, register)
        sm, data = s[node + at.N_SINCE], s[node + at.N_DATA]
        if sm >= 0:
            kind, sectors = data >> 16 & 15, set_bits(data & at.VALID_BITS)
            waited = s[register + at.M_DRAM]
            push_reply(p, s, part, sm, kind, s[node + at.N_HANDLE], sectors, data >> 20, waited, at.LEVEL_DRAM, now)
    registers = p[at.L2_MSHR] + part * p[at.L2_MSHRS] * at.MSHR_WIDTH
    drop(s, p[at.L2_BUCKET] + part * p[at.L2_BUCKETS], p[at.L2_BUCKETS], registers, row + at.L2_FREE_MSHR, register)
    return True
