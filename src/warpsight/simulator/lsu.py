"""The load-store unit of an SM: memory instructions in the order of issue, cut into requests, and what happens when those are done."""

from __future__ import annotations

from warpsight.addressing.coalescing import LINE_128, is_divergent, merge_lines
from warpsight.addressing.integers import quotient, signed
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import layout as at
from warpsight.simulator.layout import Ints
from warpsight.simulator.scheduler import blocked_so_far
from warpsight.simulator.structures import wrapped
from warpsight.simulator.warps import Sectors, data_came, ended, schedule, warp_row


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


# -- The load-store unit of an SM: memory instructions in the order of issue, cut into requests that enter the L1, one a cycle.

@inlined
def _wake_schedulers(p: Ints, s: Ints, sm: int, now: int) -> None:
    """There is room in the queue again: whoever waits for it can issue in this cycle."""
    for scheduler in range(sm * p[at.SCHEDULERS], (sm + 1) * p[at.SCHEDULERS]):
        s[p[at.NEXT_SCHEDULER] + scheduler] = now


@inlined
def _requests(p: Ints, s: Ints, sectors: Sectors, sm: int, first: int, count: int, pc: int) -> int:
    """List the access's requests: lines of the L1, or for an atomic its sectors. Gives their number."""
    lines, masks = p[at.LINES] + sm * at.MOST_REQUESTS, p[at.MASKS] + sm * at.MOST_REQUESTS
    if s[p[at.CODE] + pc * at.CODE_WIDTH + at.ACCESS] == at.IS_ATOMIC:
        for k in range(count):
            s[lines + k], s[masks + k] = signed(sectors[first + k]), 1
        return count
    packed = s[p[at.CODE] + pc * at.CODE_WIDTH + at.PACKED]
    if count > packed and s[p[at.CODE] + pc * at.CODE_WIDTH + at.ACCESS] == at.IS_LOAD:
        touched = merge_lines(sectors, first, count, LINE_128, s, lines, masks)
        s[p[at.COUNT] + pc * at.COUNTERS + at.C_DIVERGENT] += 1 if is_divergent(touched, packed) else 0
        if p[at.L1_LINE] == LINE_128:  # they are the requests
            return touched
    return merge_lines(sectors, first, count, p[at.L1_LINE], s, lines, masks)


@inlined
def _begin(p: Ints, s: Ints, sectors: Sectors, sm: int, memory: int, now: int) -> None:
    """Take the oldest waiting instruction in hand. One that only touches shared memory occupies the unit for its passes."""
    entry = p[at.QUEUE] + (sm * p[at.QUEUE_DEPTH] + s[memory + at.QUEUE_HEAD]) * at.QUEUE_WIDTH
    slot, pc, found = s[entry + at.Q_SLOT], s[entry + at.Q_PC], s[entry + at.Q_FOUND]
    if s[memory + at.QUEUE_COUNT] == p[at.QUEUE_DEPTH]:
        _wake_schedulers(p, s, sm, now)
    s[memory + at.QUEUE_HEAD] = wrapped(s[memory + at.QUEUE_HEAD] + 1, p[at.QUEUE_DEPTH])
    s[memory + at.QUEUE_COUNT] -= 1
    code, warp = p[at.CODE] + pc * at.CODE_WIDTH, warp_row(p, sm, slot)
    count, passes = found & 255, found >> 8 & 255
    s[memory + at.LSU_UNTIL] = now + max(1, passes) - (1 if count > 0 else 0)
    if count == 0:
        if s[code + at.LOAD_INDEX] >= 0:
            when = now + p[at.SHARED_LATENCY] + passes - 1
            data_came(p, s, sm, slot, pc, when, now, at.CAUSE_ALU)
        accesses_done(p, s, sm, slot, 1, now)
        return
    requests = _requests(p, s, sectors, sm, s[warp + at.SECTOR], count, pc)
    s[warp + at.SECTOR] += count
    s[warp + at.OUTSTANDING] += requests
    s[p[at.COUNT] + pc * at.COUNTERS + at.C_EXECUTIONS] += 1
    if s[code + at.LOAD_INDEX] >= 0:
        load = (sm * p[at.SLOTS] + slot) * p[at.LOADS] + s[code + at.LOAD_INDEX]
        s[p[at.LOAD] + load * at.LOAD_WIDTH + at.REMAINING] = requests
    s[memory + at.LSU_SLOT], s[memory + at.LSU_PC], s[memory + at.LSU_WHOLE] = slot, pc, s[entry + at.Q_WHOLE]
    s[memory + at.LSU_DONE], s[memory + at.LSU_REQUESTS] = 0, requests
    s[memory + at.LSU_SINCE], s[memory + at.LSU_ROOM] = now, blocked_so_far(s, memory, at.NO_ROOM, now)
    if passes > 1:
        s[memory + at.LSU_UNTIL] = now + passes - 1


@inlined
def _next_instruction(p: Ints, s: Ints, sm: int, memory: int, after: int) -> int:
    """When the unit can take the next waiting instruction."""
    if s[memory + at.QUEUE_COUNT] == 0:
        return at.NEVER
    entry = p[at.QUEUE] + (sm * p[at.QUEUE_DEPTH] + s[memory + at.QUEUE_HEAD]) * at.QUEUE_WIDTH
    return int(max(after, s[entry + at.Q_TIME], s[memory + at.LSU_UNTIL]))


@compiled
def cut(p: Ints, s: Ints, sectors: Sectors, sm: int, now: int) -> None:
    """One cycle of the load-store unit: take an instruction if none is in hand, and send one request into the L1."""
    memory = p[at.SM] + sm * at.SM_WIDTH
    if s[memory + at.LSU_SLOT] < 0:
        _begin(p, s, sectors, sm, memory, now)
        if s[memory + at.LSU_SLOT] < 0:
            s[p[at.NEXT_LSU] + sm] = _next_instruction(p, s, sm, memory, now + 1)
            return
    if s[memory + at.PIPE_COUNT] > p[at.PIPE]:
        s[p[at.NEXT_LSU] + sm] = at.NEVER  # until the L1 takes one out
        return
    done = s[memory + at.LSU_DONE]
    room = p[at.PIPE] + 1
    place = wrapped(s[memory + at.PIPE_HEAD] + s[memory + at.PIPE_COUNT], room)
    entry = p[at.PIPELINE] + (sm * room + place) * at.PIPE_WIDTH
    lines = sm * at.MOST_REQUESTS + done
    s[entry + at.R_LINE], s[entry + at.R_MASK] = s[p[at.LINES] + lines], s[p[at.MASKS] + lines]
    s[entry + at.R_SLOT], s[entry + at.R_PC], s[entry + at.R_WHOLE] = (
        s[memory + at.LSU_SLOT], s[memory + at.LSU_PC], s[memory + at.LSU_WHOLE]
    )  # fmt: skip
    s[entry + at.R_TIME] = now + p[at.PIPE]
    # when it would be at the tags if nothing had been in the way since its instruction was taken in hand
    s[entry + at.R_BORN], s[entry + at.R_ROOM] = s[memory + at.LSU_SINCE] + done + p[at.PIPE], s[memory + at.LSU_ROOM]
    if s[memory + at.PIPE_COUNT] == 0:
        s[p[at.NEXT_L1] + sm] = now + p[at.PIPE]
    s[memory + at.PIPE_COUNT] += 1
    if s[p[at.CODE] + s[memory + at.LSU_PC] * at.CODE_WIDTH + at.ACCESS] == at.IS_ATOMIC:
        s[memory + at.LSU_WHOLE] = 0  # its repeats are those of one address: the first sector's
    s[memory + at.LSU_DONE] = done + 1
    if done + 1 < s[memory + at.LSU_REQUESTS]:
        # with the pipeline full now, not before the L1 takes one out
        s[p[at.NEXT_LSU] + sm] = now + 1 if s[memory + at.PIPE_COUNT] < room else at.NEVER
        return
    slot = s[memory + at.LSU_SLOT]
    s[memory + at.LSU_SLOT] = -1
    s[p[at.NEXT_LSU] + sm] = _next_instruction(p, s, sm, memory, now + 1)
    accesses_done(p, s, sm, slot, 1, now)
