"""The load-store unit of an SM: memory instructions in the order of issue, each split into line requests to the hierarchy."""

from __future__ import annotations

from warpsight.addressing.coalescing import LINE_128, SECTOR_BYTES, bank_of, bytes_of_sector, is_divergent, merge_lines
from warpsight.addressing.integers import quotient
from warpsight.base.compiled import compiled, inlined
from warpsight.caches.exact.l1 import ask_for_bucket, l1_read, l1_write
from warpsight.caches.exact.l2 import l2_atomic, l2_read, l2_write, latency_beyond_l1
from warpsight.caches.exact.state import (
    FEW_LOADS,
    IS_ATOMIC,
    IS_LOAD,
    IS_STORE,
    LEVEL_DRAM,
    LEVEL_FAR,
    LEVEL_L1,
    NEVER,
    State,
    Warp,
)
from warpsight.caches.exact.warps import access_passed, next_sector, pass_sectors


@inlined
def _load(state: State, sm: int, pc: int, now: int) -> bool:
    """Continue with the load in work. False when it has to wait so long that the other SMs go first."""
    lsu, machine = state.sms[sm].lsu, state.machine
    most = state.machine.most_requests
    lines, masks = 2 * sm * most, (2 * sm + 1) * most
    patience = now + machine.patience
    k, last = lsu.done, lsu.requests
    while k < last:
        line = state.requests[lines + k]
        passed = l1_read(state, sm, line, state.requests[masks + k], pc, now, patience)
        if passed < 0:
            now = ~passed
            break
        now = passed
        k += 1
        lsu.busy_banks |= bank_of(line, machine.tag_banks)
        if k == last or lsu.busy_banks & bank_of(state.requests[lines + k], machine.tag_banks):
            lsu.busy_banks = 0
            state.counters[pc].tag_cycles += 1
            now += machine.request_ticks
    lsu.free_at, lsu.done = now, k
    return k == last


@compiled
def _store(state: State, sm: int, requests: int, whole: bool, pc: int, now: int) -> None:
    most = state.machine.most_requests
    lines, masks = 2 * sm * most, (2 * sm + 1) * most
    for k in range(requests):
        now = l1_write(state, sm, state.requests[lines + k], state.requests[masks + k], whole, pc, now)
        now += state.machine.request_ticks
    state.sms[sm].lsu.free_at = now


@compiled
def _atomic(state: State, sm: int, count: int, lanes_bytes: int, repeats: int, pc: int, now: int) -> None:
    """An atomic, done in the L2: each of its sectors is read and written there; its repeats are counted at the first one.

    Bulk copies add to whole sectors.
    """
    code, lsu, per_line = state.code[pc], state.sms[sm].lsu, state.machine.l2.line_sectors
    changed = SECTOR_BYTES
    if code.sector_bytes == 1:
        changed = bytes_of_sector(lanes_bytes, repeats, count, code.access_bytes)
    for k in range(count):
        sector = state.current[k]
        line = quotient(sector, per_line)
        bit = 1 << (sector - line * per_line)
        l2_atomic(state, line, changed, repeats if k == 0 else 0, pc)
        answer = l2_read(state, line, bit, pc, now, sm)
        l2_write(state, line, bit, False, pc, now)
        lsu.back = max(lsu.back, answer >> 2)
        lsu.level = max(lsu.level, answer & 3)
        now += state.machine.request_ticks
    lsu.free_at = now


@inlined
def _one_line(state: State, warp: Warp, count: int) -> int:
    """The line of the L1 in 128 bytes of which all of the warp's next `count` sectors lie, one after the other: nothing has to be
    merged then, and nothing is divergent. -1: there is none.
    """
    first, per_line = next_sector(state, warp, 0), state.machine.l1.line_sectors
    line = quotient(first, per_line)
    if first - line * per_line + count > min(per_line, LINE_128):
        return -1
    others = 0
    for k in range(1, count):
        others |= next_sector(state, warp, k) ^ (first + k)
    return line if others == 0 else -1


@inlined
def _split(state: State, sm: int, warp: Warp, count: int, pc: int) -> int:
    """Count the access and merge its sectors into line requests; returns their number."""
    code, counters, per_line = state.code[pc], state.counters[pc], state.machine.l1.line_sectors
    most = state.machine.most_requests
    lines, masks = 2 * sm * most, (2 * sm + 1) * most
    counters.executions += 1
    counters.sectors += count
    line = -1 if code.access == IS_ATOMIC else _one_line(state, warp, count)
    if line >= 0:
        state.requests[lines] = line
        state.requests[masks] = ((1 << count) - 1) << (next_sector(state, warp, 0) - line * per_line)
        return 1
    for k in range(count):
        state.current[k] = next_sector(state, warp, k)
    if code.access == IS_ATOMIC:
        return count
    requests = merge_lines(state.current, 0, count, per_line, state.requests, lines, masks)
    if code.access == IS_LOAD and count > code.packed_lines:
        touched = requests
        if per_line != LINE_128:
            touched = merge_lines(state.current, 0, count, LINE_128, state.requests, lines, masks)
            merge_lines(state.current, 0, count, per_line, state.requests, lines, masks)
        counters.divergent += 1 if is_divergent(touched, code.packed_lines) else 0
    return requests


@inlined
def _begin(state: State, sm: int, now: int) -> bool:
    """Take the oldest waiting access; a store or atomic is done at once. Returns whether it is a load, which `_load` does."""
    lsu, depth = state.sms[sm].lsu, state.machine.access_queue
    access = state.waiting_accesses[sm * depth + lsu.head]
    slot, pc, count, lanes_bytes, repeats = access.slot, access.pc, access.sectors, access.lanes_bytes, access.repeats
    if lsu.length == depth:
        lsu.room_since = now
    lsu.head = lsu.head + 1 if lsu.head + 1 < depth else 0
    lsu.length -= 1
    requests = _split(state, sm, state.warps[slot], count, pc)
    pass_sectors(state.warps[slot], count)
    lsu.slot, lsu.pc, lsu.requests, lsu.done = slot, pc, requests, 0
    lsu.back, lsu.level, lsu.waited = now, LEVEL_L1, 0
    kind = state.code[pc].access
    if kind == IS_STORE:
        # with fewer bytes than its sectors hold, some sector is written in part
        _store(state, sm, requests, lanes_bytes >= SECTOR_BYTES * count, pc, now)
    elif kind == IS_ATOMIC:
        _atomic(state, sm, count, lanes_bytes, repeats, pc, now)
    return kind == IS_LOAD


@inlined
def _count_slowest(state: State, pc: int, level: int, waited: int) -> None:
    """Count an access by its slowest request: the level that served it, or a line in flight for which it `waited`."""
    machine, counters = state.machine, state.counters[pc]
    alone = machine.l1.latency if level == LEVEL_L1 else latency_beyond_l1(machine, level)
    if waited > alone:
        counters.slowest_merged += 1
        counters.merged_wait_cycles += waited
    elif level == LEVEL_L1:
        counters.slowest_l1 += 1
    elif level == LEVEL_DRAM:
        counters.slowest_dram += 1
    else:
        counters.slowest_l2 += 1
        counters.slowest_far += 1 if level == LEVEL_FAR else 0


@compiled
def work(state: State, sm: int, now: int) -> int:
    """Let the load-store unit do its next access, or continue with one; the slot of the warp whose access has passed, or -1."""
    lsu = state.sms[sm].lsu
    is_load = lsu.slot >= 0 or _begin(state, sm, now)
    if is_load and not _load(state, sm, lsu.pc, now):
        lsu.next_event = lsu.free_at
        return -1
    slot, pc = lsu.slot, lsu.pc
    lsu.slot = -1
    if state.code[pc].access != IS_STORE:
        _count_slowest(state, pc, lsu.level, lsu.waited)
    lsu.next_event = lsu.free_at if lsu.length > 0 else NEVER
    access_passed(state, slot, state.code[pc].load, lsu.back, now)
    return slot


@inlined
def issue(state: State, sm: int, slot: int, now: int) -> None:
    """The warp issues the access at which it stands; an idle load-store unit does it at once."""
    warp, lsu, depth = state.warps[slot], state.sms[sm].lsu, state.machine.access_queue
    code = state.code[warp.pc]
    place = lsu.head + lsu.length
    if place >= depth:
        place -= depth
    access = state.waiting_accesses[sm * depth + place]
    access.slot, access.pc, access.sectors, access.repeats = slot, warp.pc, warp.sectors_here, warp.repeats_here
    access.lanes_bytes = state.path[warp.path_entry].lanes * code.access_bytes
    lsu.length += 1
    warp.pending += 1
    if code.load >= 0:
        warp.in_flight |= 1 << code.load if code.load < FEW_LOADS else 0
        state.load_ready[slot * state.machine.loads + code.load] = NEVER
    if state.machine.looks_ahead:
        ask_for_bucket(state, sm, quotient(next_sector(state, warp, 0), state.machine.l1.line_sectors))
        ask_for_bucket(state, sm, quotient(next_sector(state, warp, warp.sectors_here - 1), state.machine.l1.line_sectors))
    if lsu.slot < 0 and lsu.length == 1:
        if lsu.free_at <= now:
            work(state, sm, now)
        else:
            lsu.next_event = lsu.free_at
