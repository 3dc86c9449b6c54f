"""What happens to a warp when a request of one of its memory instructions is done."""

from __future__ import annotations

from warpsight.addressing.integers import quotient
from warpsight.caches.compiled import compiled, inlined
from warpsight.timing import layout as at
from warpsight.timing.blocks import ended
from warpsight.timing.layout import Ints
from warpsight.timing.wakeups import data_came, schedule, warp_row


@inlined
def handle_of(p: Ints, slot: int, load: int) -> int:
    """One number for a warp slot and one of its loads; `load` -1: nobody waits for the data."""
    return int(slot * (p[at.LOADS] + 1) + load + 1)


@compiled
def accesses_done(p: Ints, s: Ints, sm: int, slot: int, count: int, now: int) -> None:
    """`count` of the warp's requests are done; a warp that waited for the last of them at a fence or at its end goes on."""
    warp = warp_row(p, sm, slot)
    s[warp + at.OUTSTANDING] -= count
    if s[warp + at.OUTSTANDING] == 0:
        if s[warp + at.STATE] == at.DRAINS:
            ended(p, s, sm, slot, warp, now)
        elif s[warp + at.STATE] == at.FENCED:
            for part in range(5):
                s[warp + at.PART_DATA + part] = 1 if part == 0 else 0
            schedule(p, s, sm, slot, now + 1, now, at.CAUSE_MEMORY)


@compiled
def request_done(p: Ints, s: Ints, sm: int, handle: int, when: int, noc: int, dram: int, now: int) -> None:
    """A request of a load has its data at `when`, after `noc` and `dram` cycles in queues. The last one completes the load."""
    slot = quotient(handle, p[at.LOADS] + 1)
    load = handle - slot * (p[at.LOADS] + 1) - 1
    if load >= 0:
        record = p[at.LOAD] + ((sm * p[at.SLOTS] + slot) * p[at.LOADS] + load) * at.LOAD_WIDTH
        s[record + at.REMAINING] -= 1
        s[record + at.WAIT_NOC], s[record + at.WAIT_DRAM] = noc, dram
        if s[record + at.REMAINING] == 0:
            warp = warp_row(p, sm, slot)
            waited = (s[record + at.WAIT_UNIT], s[record + at.WAIT_MSHR], s[record + at.WAIT_PORT] + noc, dram)
            total = when - s[record + at.ISSUED]
            s[warp + at.PART_STRUCT], s[warp + at.PART_MSHR], s[warp + at.PART_NOC], s[warp + at.PART_DRAM] = waited
            s[warp + at.PART_DATA] = max(0, total - waited[0] - waited[1] - waited[2] - waited[3])
            data_came(p, s, sm, slot, s[record + at.LOAD_PC], when, now, at.CAUSE_MEMORY)
    accesses_done(p, s, sm, slot, 1, now)
