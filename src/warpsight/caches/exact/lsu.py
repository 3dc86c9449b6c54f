"""The load-store unit of an SM: memory instructions in the order of issue, each cut into line requests to the hierarchy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import LINE_128, is_divergent, merge_lines
from warpsight.addressing.integers import quotient, signed
from warpsight.base.compiled import compiled, inlined
from warpsight.caches.exact.l1 import l1_read, l1_write
from warpsight.caches.exact.l2 import l2_read, l2_repeat, l2_write
from warpsight.caches.exact.layout import (
    ACCESS,
    ACCESS_BYTES,
    ACCESS_WIDTH,
    BACK,
    CODE,
    CODE_WIDTH,
    COUNT,
    COUNTERS,
    DEPTH,
    DIVERGENT,
    DONE_REQUESTS,
    DRAM_LATENCY,
    ENTRY,
    EXECUTIONS,
    HEAD,
    IS_ATOMIC,
    IS_LOAD,
    IS_STORE,
    ISSUERS,
    KEY,
    L1_LATENCY,
    L1_LINE,
    L2_LATENCY,
    L2_LINE,
    LENGTH,
    LEVEL,
    LEVEL_DRAM,
    LEVEL_L1,
    LINES,
    LOAD_INDEX,
    LOADS,
    LSU,
    LSU_COST,
    LSU_FREE,
    LSU_WIDTH,
    MASKS,
    MERGED_WAIT_CYCLES,
    MOST_REQUESTS,
    NEVER,
    PACKED,
    PATH,
    PATH_WIDTH,
    PATIENCE,
    PC,
    PENDING,
    READY,
    REPEATS_HERE,
    REQUESTS,
    ROOM_SINCE,
    SECTOR,
    SECTORS_HERE,
    SERVED,
    SERVED_PC,
    SLOWEST_L1,
    SLOWEST_MERGED,
    TOUCHED_SECTORS,
    WAITED,
    WAITING_ACCESS,
    WARP,
    WARP_WIDTH,
    Ints,
)
from warpsight.caches.exact.warps import Events, served

Sectors = npt.NDArray[np.uint32]


@inlined
def _load(p: Ints, s: Ints, sm: int, pc: int, now: int) -> bool:
    """Go on with the load that the load-store unit of `sm` works at. False when it has to wait so long that others go first."""
    lsu = p[LSU] + sm * LSU_WIDTH
    lines, masks = p[LINES] + sm * MOST_REQUESTS, p[MASKS] + sm * MOST_REQUESTS
    patience = now + p[PATIENCE]
    k, last = s[lsu + DONE_REQUESTS], s[lsu + REQUESTS]
    while k < last:
        passed = l1_read(p, s, sm, s[lines + k], s[masks + k], pc, now, patience)
        if passed < 0:
            now = ~passed
            break
        now = passed + p[LSU_COST]
        k += 1
    s[p[LSU_FREE] + sm] = now
    s[lsu + DONE_REQUESTS] = k
    return bool(k == last)


@compiled
def _store(p: Ints, s: Ints, sm: int, requests: int, whole: bool, pc: int, now: int) -> None:
    for k in range(sm * MOST_REQUESTS, sm * MOST_REQUESTS + requests):
        now = l1_write(p, s, sm, s[p[LINES] + k], s[p[MASKS] + k], whole, pc, now)
        now += p[LSU_COST]
    s[p[LSU_FREE] + sm] = now


@compiled
def _atomic(p: Ints, s: Ints, sectors: Sectors, sm: int, first: int, count: int, repeats: int, pc: int, now: int) -> None:
    """An atomic, done in the L2: each of its sectors is read and written there, and the first is taken for that of its repeats."""
    lsu = p[LSU] + sm * LSU_WIDTH
    if repeats > 0:
        l2_repeat(p, s, quotient(signed(sectors[first]), p[L2_LINE]), repeats, pc)
    for k in range(first, first + count):
        sector = signed(sectors[k])
        line = quotient(sector, p[L2_LINE])
        bit = 1 << (sector - line * p[L2_LINE])
        answer = l2_read(p, s, line, bit, pc, now)
        l2_write(p, s, line, bit, False, pc, now)
        s[lsu + BACK] = max(s[lsu + BACK], answer >> 2)
        s[lsu + LEVEL] = max(s[lsu + LEVEL], answer & 3)
        now += p[LSU_COST]
    s[p[LSU_FREE] + sm] = now


@inlined
def _requests(p: Ints, s: Ints, sectors: Sectors, sm: int, first: int, count: int, pc: int) -> int:
    """Merge the access's sectors to line requests in the SM's list; gives their number, and counts the access."""
    code, counters = p[CODE] + pc * CODE_WIDTH, p[COUNT] + pc * COUNTERS
    lines, masks = p[LINES] + sm * MOST_REQUESTS, p[MASKS] + sm * MOST_REQUESTS
    s[counters + EXECUTIONS] += 1
    s[counters + TOUCHED_SECTORS] += count
    if s[code + ACCESS] == IS_ATOMIC:
        return count
    requests = merge_lines(sectors, first, count, p[L1_LINE], s, lines, masks)
    if s[code + ACCESS] == IS_LOAD and count > s[code + PACKED]:
        touched = requests
        if p[L1_LINE] != LINE_128:
            touched = merge_lines(sectors, first, count, LINE_128, s, lines, masks)
            merge_lines(sectors, first, count, p[L1_LINE], s, lines, masks)
        s[counters + DIVERGENT] += 1 if is_divergent(touched, s[code + PACKED]) else 0
    return requests


@inlined
def _begin(p: Ints, s: Ints, sectors: Sectors, sm: int, now: int) -> int:
    """Take the oldest waiting access; a load is made ready for `_load`, others are done at once. Gives 1 if more is to be done."""
    lsu = p[LSU] + sm * LSU_WIDTH
    waiting = p[WAITING_ACCESS] + (sm * p[DEPTH] + s[lsu + HEAD]) * ACCESS_WIDTH
    slot, pc, count, whole, repeats = s[waiting], s[waiting + 1], s[waiting + 2], s[waiting + 3], s[waiting + 4]
    if s[lsu + LENGTH] == p[DEPTH]:
        s[lsu + ROOM_SINCE] = now
    s[lsu + HEAD] = s[lsu + HEAD] + 1 if s[lsu + HEAD] + 1 < p[DEPTH] else 0
    s[lsu + LENGTH] -= 1
    first = s[p[WARP] + slot * WARP_WIDTH + SECTOR]
    s[p[WARP] + slot * WARP_WIDTH + SECTOR] += count
    requests = _requests(p, s, sectors, sm, first, count, pc)
    s[lsu + SERVED], s[lsu + SERVED_PC], s[lsu + BACK], s[lsu + LEVEL] = slot, pc, now, LEVEL_L1
    s[lsu + WAITED] = 0
    s[lsu + DONE_REQUESTS], s[lsu + REQUESTS] = 0, requests
    kind = s[p[CODE] + pc * CODE_WIDTH + ACCESS]
    if kind == IS_STORE:
        _store(p, s, sm, requests, whole != 0, pc, now)
    elif kind == IS_ATOMIC:
        _atomic(p, s, sectors, sm, first, count, repeats, pc, now)
    return 1 if kind == IS_LOAD else 0


@inlined
def _count_slowest(p: Ints, s: Ints, counters: int, level: int, waited: int) -> None:
    """Count an access by its slowest request: the level that served it, or a line that was already on its way, `waited` for."""
    alone = p[L1_LATENCY] if level == LEVEL_L1 else p[L2_LATENCY] + (p[DRAM_LATENCY] if level == LEVEL_DRAM else 0)
    if waited > alone:
        s[counters + SLOWEST_MERGED] += 1
        s[counters + MERGED_WAIT_CYCLES] += waited
    else:
        s[counters + SLOWEST_L1 + level] += 1


@compiled
def work(p: Ints, s: Ints, events: Events, sectors: Sectors, sm: int, now: int) -> bool:
    """Let the load-store unit of `sm` do its next access, or go on with one; False if that changes nothing for the schedulers."""
    lsu = p[LSU] + sm * LSU_WIDTH
    goes_on = s[lsu + SERVED] >= 0
    more = 1 if goes_on else _begin(p, s, sectors, sm, now)
    if more != 0 and not _load(p, s, sm, s[lsu + SERVED_PC], now):
        s[p[KEY] + p[ISSUERS] + sm] = s[p[LSU_FREE] + sm]
        return not goes_on
    slot, pc = s[lsu + SERVED], s[lsu + SERVED_PC]
    s[lsu + SERVED] = -1
    code = p[CODE] + pc * CODE_WIDTH
    if s[code + ACCESS] != IS_STORE:
        _count_slowest(p, s, p[COUNT] + pc * COUNTERS, s[lsu + LEVEL], s[lsu + WAITED])
    s[p[KEY] + p[ISSUERS] + sm] = s[p[LSU_FREE] + sm] if s[lsu + LENGTH] > 0 else NEVER
    served(p, s, events, slot, s[code + LOAD_INDEX], s[lsu + BACK], now)
    return True


@inlined
def issue(p: Ints, s: Ints, events: Events, sectors: Sectors, sm: int, slot: int, now: int) -> None:
    """The warp in `slot` issues the access that it stands at; it is done at once if the load-store unit has nothing else to do."""
    row, lsu = p[WARP] + slot * WARP_WIDTH, p[LSU] + sm * LSU_WIDTH
    pc, count = s[row + PC], s[row + SECTORS_HERE]
    code = p[CODE] + pc * CODE_WIDTH
    # Lanes are known where the block was entered; with fewer bytes than its sectors hold, some sector is only partly written.
    lanes = s[p[PATH] + s[row + ENTRY] * PATH_WIDTH + 1]
    whole = 1 if lanes * s[code + ACCESS_BYTES] >= 32 * count else 0
    place = s[lsu + HEAD] + s[lsu + LENGTH]
    if place >= p[DEPTH]:
        place -= p[DEPTH]
    waiting = p[WAITING_ACCESS] + (sm * p[DEPTH] + place) * ACCESS_WIDTH
    s[waiting], s[waiting + 1], s[waiting + 2], s[waiting + 3], s[waiting + 4] = slot, pc, count, whole, s[row + REPEATS_HERE]
    s[lsu + LENGTH] += 1
    s[row + PENDING] += 1
    if s[code + LOAD_INDEX] >= 0:
        s[p[READY] + slot * p[LOADS] + s[code + LOAD_INDEX]] = NEVER
    if s[lsu + SERVED] < 0 and s[lsu + LENGTH] == 1:
        if s[p[LSU_FREE] + sm] <= now:
            work(p, s, events, sectors, sm, now)
        else:
            s[p[KEY] + p[ISSUERS] + sm] = s[p[LSU_FREE] + sm]
