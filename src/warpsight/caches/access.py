"""One memory instruction of one warp: from its sectors to line requests, and those through the hierarchy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import merge_lines
from warpsight.caches.compiled import compiled
from warpsight.caches.l1 import l1_read, l1_write
from warpsight.caches.l2 import l2_read, l2_write
from warpsight.caches.layout import (
    ACCESS,
    ACCESS_BYTES,
    BACK,
    CELL,
    CODE,
    CODE_WIDTH,
    COUNT,
    COUNTERS,
    DIVERGENT,
    DONE_REQUESTS,
    ENTRY,
    EXECUTIONS,
    IS_ATOMIC,
    IS_LOAD,
    IS_STORE,
    L1_LINE,
    L2_LINE,
    LEVEL,
    LEVEL_L1,
    LINES,
    LOAD_INDEX,
    LOADS,
    LSU,
    LSU_COST,
    LSU_FREE,
    LSU_WIDTH,
    MASKS,
    MOST_REQUESTS,
    OWNER,
    PACKED,
    PATH,
    PATH_WIDTH,
    PATIENCE,
    PC,
    READY,
    REQUESTS,
    SECTOR,
    SECTORS_HERE,
    SINCE,
    SLOWEST_L1,
    TICK,
    TOUCHED_SECTORS,
    WARP,
    WARP_WIDTH,
    Ints,
)

Sectors = npt.NDArray[np.uint32]
LINE_128 = 4


@compiled
def _load(p: Ints, s: Ints, sm: int, pc: int, now: int) -> bool:
    """Go on with the load that the load-store unit of `sm` works at. False when it has to wait so long that others go first."""
    lsu = p[LSU] + sm * LSU_WIDTH
    requests, patience = sm * MOST_REQUESTS, now + p[PATIENCE]
    k, last, back, level = s[lsu + DONE_REQUESTS], s[lsu + REQUESTS], s[lsu + BACK], s[lsu + LEVEL]
    while k < last:
        s[p[CELL] + TICK] += 1
        its_back, its_level, now = l1_read(p, s, sm, s[p[LINES] + requests + k], s[p[MASKS] + requests + k], pc, now, patience)
        if its_level < 0:
            break
        back, level = max(back, its_back), max(level, its_level)
        now += p[LSU_COST]
        k += 1
    s[p[LSU_FREE] + sm] = now
    s[lsu + DONE_REQUESTS], s[lsu + BACK], s[lsu + LEVEL] = k, back, level
    return k == last


@compiled
def _store(p: Ints, s: Ints, sm: int, requests: int, whole: bool, pc: int, now: int) -> None:
    for k in range(sm * MOST_REQUESTS, sm * MOST_REQUESTS + requests):
        s[p[CELL] + TICK] += 1
        l1_write(p, s, sm, s[p[LINES] + k], s[p[MASKS] + k], whole, pc, now)
        now += p[LSU_COST]
    s[p[LSU_FREE] + sm] = now


@compiled
def _atomic(p: Ints, s: Ints, sectors: Sectors, sm: int, first: int, count: int, pc: int, now: int) -> tuple[int, int]:
    """An atomic, done in the L2: each of its sectors is read and written there; when the last old value is back, and the slowest level."""
    back, level = now, LEVEL_L1
    for k in range(first, first + count):
        s[p[CELL] + TICK] += 1
        sector = np.int64(sectors[k])
        line = sector // p[L2_LINE]
        bit = np.int64(1) << (sector - line * p[L2_LINE])
        its_back, its_level = l2_read(p, s, line, bit, pc, now)
        l2_write(p, s, line, bit, False, pc, now)
        back, level = max(back, its_back), max(level, its_level)
        now += p[LSU_COST]
    s[p[LSU_FREE] + sm] = now
    return back, level


@compiled
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
        s[counters + DIVERGENT] += 1 if touched > s[code + PACKED] else 0
    return requests


@compiled
def _load_ends(p: Ints, s: Ints, sm: int, slot: int, pc: int, back: int, level: int) -> None:
    s[p[COUNT] + pc * COUNTERS + SLOWEST_L1 + level] += 1
    load = s[p[CODE] + pc * CODE_WIDTH + LOAD_INDEX]
    if load >= 0:
        s[p[READY] + slot * p[LOADS] + load] = back
    s[p[LSU] + sm * LSU_WIDTH + OWNER] = -1


@compiled
def access(p: Ints, s: Ints, sectors: Sectors, sm: int, slot: int, now: int) -> int:
    """Do the memory instruction that the warp in `slot` stands at, or go on with it; gives when it was issued, -1 if it is not done yet."""
    row, lsu = p[WARP] + slot * WARP_WIDTH, p[LSU] + sm * LSU_WIDTH
    pc, first, count = s[row + PC], s[row + SECTOR], s[row + SECTORS_HERE]
    kind = s[p[CODE] + pc * CODE_WIDTH + ACCESS]
    if s[lsu + OWNER] != slot:
        requests = _requests(p, s, sectors, sm, first, count, pc)
        s[row + SECTOR] = first + count
        if kind == IS_STORE:
            # Lanes are known where the block was entered; with fewer bytes than its sectors hold, some sector is only partly written.
            lanes = s[p[PATH] + s[row + ENTRY] * PATH_WIDTH + 1]
            whole = lanes * s[p[CODE] + pc * CODE_WIDTH + ACCESS_BYTES] >= 32 * count
            _store(p, s, sm, requests, whole, pc, now)
            return now
        if kind == IS_ATOMIC:
            back, level = _atomic(p, s, sectors, sm, first, count, pc, now)
            _load_ends(p, s, sm, slot, pc, back, level)
            return now
        s[lsu + OWNER], s[lsu + SINCE], s[lsu + BACK], s[lsu + LEVEL] = slot, now, now, LEVEL_L1
        s[lsu + DONE_REQUESTS], s[lsu + REQUESTS] = 0, requests
    if not _load(p, s, sm, pc, now):
        return -1
    _load_ends(p, s, sm, slot, pc, s[lsu + BACK], s[lsu + LEVEL])
    return s[lsu + SINCE]
