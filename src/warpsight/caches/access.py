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
    CELL,
    CODE,
    CODE_WIDTH,
    COUNT,
    COUNTERS,
    DIVERGENT,
    ENTRY,
    EXECUTIONS,
    IS_ATOMIC,
    IS_LOAD,
    L1_LINE,
    L2_LINE,
    LEVEL_L1,
    LINES,
    LOAD_INDEX,
    LOADS,
    LSU_COST,
    LSU_FREE,
    MASKS,
    PACKED,
    PATH,
    PATH_WIDTH,
    PC,
    READY,
    SECTOR,
    SECTORS_HERE,
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
def _load(p: Ints, s: Ints, sm: int, requests: int, pc: int, now: int) -> int:
    """A load of line requests; gives when the last of its data is there."""
    back, level = now, LEVEL_L1
    for k in range(requests):
        s[p[CELL] + TICK] += 1
        its_back, its_level, now = l1_read(p, s, sm, s[p[LINES] + k], s[p[MASKS] + k], pc, now)
        back, level = max(back, its_back), max(level, its_level)
        now += p[LSU_COST]
    s[p[LSU_FREE] + sm] = now
    s[p[COUNT] + pc * COUNTERS + SLOWEST_L1 + level] += 1
    return back


@compiled
def _store(p: Ints, s: Ints, sm: int, requests: int, whole: bool, pc: int, now: int) -> None:
    for k in range(requests):
        s[p[CELL] + TICK] += 1
        l1_write(p, s, sm, s[p[LINES] + k], s[p[MASKS] + k], whole, pc, now)
        now += p[LSU_COST]
    s[p[LSU_FREE] + sm] = now


@compiled
def _atomic(p: Ints, s: Ints, sectors: Sectors, sm: int, first: int, count: int, pc: int, now: int) -> int:
    """An atomic, done in the L2: each of its sectors is read and written there; gives when the last old value is back."""
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
    s[p[COUNT] + pc * COUNTERS + SLOWEST_L1 + level] += 1
    return back


@compiled
def access(p: Ints, s: Ints, sectors: Sectors, sm: int, slot: int, now: int) -> None:
    """Do the memory instruction that the warp in `slot` stands at."""
    row = p[WARP] + slot * WARP_WIDTH
    pc, first, count = s[row + PC], s[row + SECTOR], s[row + SECTORS_HERE]
    s[row + SECTOR] = first + count
    code, counters = p[CODE] + pc * CODE_WIDTH, p[COUNT] + pc * COUNTERS
    s[counters + EXECUTIONS] += 1
    s[counters + TOUCHED_SECTORS] += count
    kind, packed = s[code + ACCESS], s[code + PACKED]
    requests = merge_lines(sectors, first, count, p[L1_LINE], s, p[LINES], p[MASKS])
    if kind == IS_LOAD and count > packed:
        touched = requests
        if p[L1_LINE] != LINE_128:
            touched = merge_lines(sectors, first, count, LINE_128, s, p[LINES], p[MASKS])
            merge_lines(sectors, first, count, p[L1_LINE], s, p[LINES], p[MASKS])
        s[counters + DIVERGENT] += 1 if touched > packed else 0
    now = max(now, s[p[LSU_FREE] + sm])
    back = now
    if kind == IS_ATOMIC:
        back = _atomic(p, s, sectors, sm, first, count, pc, now)
    elif kind == IS_LOAD:
        back = _load(p, s, sm, requests, pc, now)
    else:
        # Lanes are known where the block was entered; with fewer bytes than its sectors hold, some sector is only partly written.
        lanes = s[p[PATH] + s[row + ENTRY] * PATH_WIDTH + 1]
        _store(p, s, sm, requests, lanes * s[code + ACCESS_BYTES] >= 32 * count, pc, now)
    if s[code + LOAD_INDEX] >= 0:
        s[p[READY] + slot * p[LOADS] + s[code + LOAD_INDEX]] = back
