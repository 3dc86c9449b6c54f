"""Warp schedulers: which eligible warp issues, what its issue does, and what an idle issue slot waited for."""

from __future__ import annotations

from warpsight.addressing.integers import quotient, trailing_zeros
from warpsight.base.compiled import compiled, inlined
from warpsight.simulator import layout as at
from warpsight.simulator.layout import Floats, Ints
from warpsight.simulator.structures import wrapped
from warpsight.simulator.warps import Events, arrive_at_barrier, ended, fetch, schedule, step, take_event


@inlined
def blocked_so_far(s: Ints, memory: int, why: int, now: int) -> int:
    """Cycles until `now` that the L1 of the SM with row `memory` has been held up for the reason `why`."""
    total = s[memory + at.BLOCKED_MSHR - at.NO_MSHR + why]
    return int(total + now - s[memory + at.BLOCKED_SINCE] if s[memory + at.BLOCKED] == why else total)


@inlined
def _charge_data(s: Ints, f: Floats, stack: int, warp: int, cycles: int) -> None:
    """Charge idle cycles to what the operands of the warp's next instruction waited for."""
    cause = s[warp + at.CAUSE]
    if cause == at.CAUSE_ALU:
        f[stack + at.F_COM_DATA] += cycles
    elif cause == at.CAUSE_BARRIER:
        f[stack + at.F_SYNC] += cycles
    elif cause == at.CAUSE_FETCH:
        f[stack + at.F_COM_STRUCT] += cycles
    elif cause == at.CAUSE_START:
        f[stack + at.F_IDLE] += cycles
    else:
        whole = 0
        for k in range(5):
            whole += s[warp + at.PART_DATA + k]
        share = cycles / max(1, whole)
        f[stack + at.F_MEM_DATA] += share * s[warp + at.PART_DATA] if whole > 0 else cycles
        f[stack + at.F_COM_STRUCT] += share * s[warp + at.PART_STRUCT]
        f[stack + at.F_MSHR] += share * s[warp + at.PART_MSHR]
        f[stack + at.F_NOC] += share * s[warp + at.PART_NOC]
        f[stack + at.F_DRAM] += share * s[warp + at.PART_DRAM]


@inlined
def _account(p: Ints, s: Ints, f: Floats, sm: int, row: int, warp: int, pc: int, now: int) -> None:
    """The scheduler issues `pc` now: its cycles since its last issue are those of what this warp waited for.

    First for operands, then for a unit; of the latter, as long as the L1 was held up, for what held it up.
    """
    memory, stack = p[at.SM] + sm * at.SM_WIDTH, pc * at.STACK_WIDTH
    last = s[row + at.LAST_ISSUE]
    if now == last:
        return
    f[stack + at.F_BASE] += 1
    s[row + at.LAST_ISSUE] = now
    gap = now - last - 1
    mshr, room = blocked_so_far(s, memory, at.NO_MSHR, now), blocked_so_far(s, memory, at.NO_ROOM, now)
    if gap > 0:
        data = min(gap, max(0, s[warp + at.READY_AT] - last - 1))
        if data > 0:
            _charge_data(s, f, stack, warp, data)
        rest = gap - data
        if rest > 0 and s[p[at.CODE] + pc * at.CODE_WIDTH + at.UNIT] == at.UNIT_MEMORY:
            held = min(rest, mshr - s[row + at.SEEN_MSHR])
            f[stack + at.F_MSHR] += held
            rest -= held
            held = min(rest, room - s[row + at.SEEN_NOC])
            f[stack + at.F_NOC] += held
            rest -= held
        f[stack + at.F_COM_STRUCT] += rest
    s[row + at.SEEN_MSHR], s[row + at.SEEN_NOC] = mshr, room


@inlined
def _set_results(p: Ints, s: Ints, sm: int, slot: int, code: int, when: int) -> None:
    """The registers that the instruction writes are there at `when`."""
    first = p[at.REGS] + s[code + at.FIRST_REG]
    values = p[at.READY] + (sm * p[at.SLOTS] + slot) * p[at.REGISTERS]
    for k in range(first, first + s[code + at.WRITES]):
        s[values + s[k]] = when


@inlined
def _to_load_store_unit(p: Ints, s: Ints, sm: int, slot: int, warp: int, pc: int, found: int, now: int) -> None:
    """Put the memory instruction at the end of the load-store unit's queue."""
    code, memory = p[at.CODE] + pc * at.CODE_WIDTH, p[at.SM] + sm * at.SM_WIDTH
    place = wrapped(s[memory + at.QUEUE_HEAD] + s[memory + at.QUEUE_COUNT], p[at.QUEUE_DEPTH])
    entry = p[at.QUEUE] + (sm * p[at.QUEUE_DEPTH] + place) * at.QUEUE_WIDTH
    # Lanes are known where the block was entered; with fewer bytes than its sectors hold, some sector is only partly written.
    whole = 1 if s[warp + at.LIVE_LANES] * s[code + at.ACCESS_BYTES] >= 32 * (found & 255) else 0
    if s[code + at.ACCESS] == at.IS_ATOMIC:
        whole = max(0, (found >> 16) - 1)
    s[entry + at.Q_SLOT], s[entry + at.Q_PC], s[entry + at.Q_FOUND] = slot, pc, found
    s[entry + at.Q_WHOLE], s[entry + at.Q_TIME] = whole, now + p[at.ADDRESS]
    s[memory + at.QUEUE_COUNT] += 1
    if s[memory + at.QUEUE_COUNT] == 1 and s[memory + at.LSU_SLOT] < 0:
        s[p[at.NEXT_LSU] + sm] = max(now + p[at.ADDRESS], s[memory + at.LSU_UNTIL])
    s[warp + at.OUTSTANDING] += 1
    load = s[code + at.LOAD_INDEX]
    if load >= 0:
        record = p[at.LOAD] + ((sm * p[at.SLOTS] + slot) * p[at.LOADS] + load) * at.LOAD_WIDTH
        s[record + at.ISSUED], s[record + at.LOAD_PC] = now, pc
        s[record + at.MSHR_BEFORE] = blocked_so_far(s, memory, at.NO_MSHR, now)
        s[record + at.NOC_BEFORE] = blocked_so_far(s, memory, at.NO_ROOM, now)
        for k in range(at.WAIT_MSHR, at.LOAD_WIDTH):
            s[record + k] = 0
        _set_results(p, s, sm, slot, code, at.NEVER)


@inlined
def _watch(p: Ints, s: Ints, warp: int, slot: int, pc: int, now: int) -> None:
    """Keep what the watched SM issues, as long as there is room."""
    count = s[p[at.CELL] + at.WATCHED]
    if count < p[at.WATCH_ROOM]:
        record = p[at.WATCH] + count * at.WATCH_WIDTH
        s[record], s[record + 1], s[record + 2], s[record + 3] = now, slot, s[warp + at.ID], pc
        s[record + 4], s[record + 5] = s[warp + at.READY_AT], s[warp + at.CAUSE]
        s[p[at.CELL] + at.WATCHED] = count + 1


@inlined
def _next_in_buffer(p: Ints, s: Ints, sm: int, warp: int, in_order: bool, now: int) -> None:
    """Take the issued instruction out of the warp's buffer; what is behind a branch that was taken goes with it, a cycle later."""
    s[warp + at.BUFFERED] -= 1
    if s[warp + at.BUFFERED] == 0:
        fetch(p, s, sm, warp, now)
    elif not in_order:
        fetch(p, s, sm, warp, now + 1)


@compiled
def issue(p: Ints, s: Ints, f: Floats, events: Events, sm: int, scheduler: int, row: int, bit: int, now: int) -> None:
    """The warp of `scheduler` with this bit issues its next instruction and comes to the one after it."""
    slot = bit * p[at.SCHEDULERS] + scheduler
    warp = p[at.WARP] + (sm * p[at.SLOTS] + slot) * at.WARP_WIDTH
    pc = s[warp + at.PC]
    code = p[at.CODE] + pc * at.CODE_WIDTH
    kind, unit = s[code + at.KIND], s[code + at.UNIT]
    units = (sm * p[at.SCHEDULERS] + scheduler) * p[at.UNITS] + unit
    s[p[at.WANTS] + units] &= ~(1 << bit)
    _account(p, s, f, sm, row, warp, pc, now)
    s[p[at.CELL] + at.ISSUED_TOTAL] += 1
    s[p[at.COUNT] + pc * at.COUNTERS + at.C_ISSUED] += 1
    if sm == p[at.WATCHED_SM]:
        _watch(p, s, warp, slot, pc, now)
    found = 0
    if at.GLOBAL <= kind <= at.SHARED:
        found = take_event(p, s, events, warp, pc)
        if found < 0:
            s[p[at.CELL] + at.BAD_WARP] = s[warp + at.ID]
            return
    if found != 0:
        _to_load_store_unit(p, s, sm, slot, warp, pc, found, now)
    else:
        _set_results(p, s, sm, slot, code, now + s[code + at.LATENCY])
        if unit != at.UNIT_MEMORY:
            s[p[at.UNIT_FREE] + units] = now + s[p[at.INITIATION] + unit]
    if not step(p, s, warp):
        ended(p, s, sm, slot, warp, now)
        return
    if p[at.FETCH_WIDTH] > 0:
        _next_in_buffer(p, s, sm, warp, s[warp + at.PC] == pc + 1, now)
    if kind == at.BARRIER:
        arrive_at_barrier(p, s, sm, slot, warp, now)
    elif kind == at.FENCE and s[warp + at.OUTSTANDING] > 0:
        s[warp + at.STATE] = at.FENCED
    else:
        schedule(p, s, sm, slot, now + 1, now, at.CAUSE_ALU)


# -- Warp schedulers: which eligible warp issues, and what an idle issue slot waited for.
#
# A scheduler issues up to `issue_width` instructions a cycle, of different warps. `lrr` takes the next warp in turn after the one
# that issued last, `gto` the same warp again as long as it can, then the oldest (Rogers, O'Connor, Aamodt, MICRO 2012).

@inlined
def _bits(first: int, count: int) -> int:
    """A mask of `count` bits from `first` on."""
    return -1 << first if count >= at.WHEEL else ((1 << count) - 1) << first


@inlined
def _oldest(p: Ints, s: Ints, sm: int, scheduler: int, candidates: int) -> int:
    """The candidate of the block that came first to the SM, and of its warps the first."""
    order, schedulers, per_block = p[at.ORDER] + sm * p[at.PLACES], p[at.SCHEDULERS], p[at.WARPS_PER_BLOCK]
    for age in range(s[p[at.SM] + sm * at.SM_WIDTH + at.RESIDENT]):
        first_slot = s[order + age] * per_block
        first = quotient(first_slot + schedulers - 1 - scheduler, schedulers)
        last = quotient(first_slot + per_block + schedulers - 1 - scheduler, schedulers)
        mine = candidates & _bits(first, last - first)
        if mine != 0:
            return int(trailing_zeros(mine))
    return int(trailing_zeros(candidates))


@inlined
def _pick(p: Ints, s: Ints, sm: int, scheduler: int, row: int, candidates: int) -> int:
    """The bit of the warp that issues."""
    last = s[row + at.LAST]
    if p[at.POLICY] == at.GTO:
        if last >= 0 and candidates & (1 << last) != 0:
            return int(last)
        return int(_oldest(p, s, sm, scheduler, candidates))
    later = candidates & (-2 << last) if last >= 0 else candidates
    return int(trailing_zeros(later if later != 0 else candidates))


@inlined
def _wake(p: Ints, s: Ints, sm: int, scheduler: int, row: int, now: int) -> None:
    """Take the warps whose time has come out of the wheel."""
    spoke = now & (at.WHEEL - 1)
    if s[row + at.OCCUPIED] & (1 << spoke) == 0:
        return
    wheel = p[at.SLOT_WHEEL] + (sm * p[at.SCHEDULERS] + scheduler) * at.WHEEL
    woken = s[wheel + spoke]
    s[wheel + spoke] = 0
    s[row + at.OCCUPIED] &= ~(1 << spoke)
    far = woken & s[row + at.FAR]
    while far != 0:
        bit = trailing_zeros(far)
        far &= far - 1
        warp = p[at.WARP] + (sm * p[at.SLOTS] + bit * p[at.SCHEDULERS] + scheduler) * at.WARP_WIDTH
        when = s[warp + at.READY_AT]
        if when <= now:
            s[row + at.FAR] &= ~(1 << bit)
            continue
        woken &= ~(1 << bit)
        place = min(when, now + at.WHEEL - 1)
        if place == when:
            s[row + at.FAR] &= ~(1 << bit)
        s[wheel + (place & (at.WHEEL - 1))] |= 1 << bit
        s[row + at.OCCUPIED] |= 1 << (place & (at.WHEEL - 1))
    s[row + at.READY_MASK] |= woken


@inlined
def _next_wakeup(s: Ints, row: int, now: int) -> int:
    """When the wheel next turns somebody out, after `now`."""
    occupied = s[row + at.OCCUPIED]
    if occupied == 0:
        return at.NEVER
    start = (now + 1) & (at.WHEEL - 1)
    later = occupied & (-1 << start)
    if later != 0:
        return int(now + 1 + trailing_zeros(later) - start)
    return int(now + 1 + trailing_zeros(occupied) + at.WHEEL - start)


@inlined
def _candidates(p: Ints, s: Ints, sm: int, scheduler: int, row: int, now: int) -> int:
    """Ready warps whose unit is free; keeps in `NEXT_SCHEDULER` when another unit is."""
    candidates = s[row + at.READY_MASK]
    units = (sm * p[at.SCHEDULERS] + scheduler) * p[at.UNITS]
    memory, following = p[at.SM] + sm * at.SM_WIDTH, p[at.NEXT_SCHEDULER] + sm * p[at.SCHEDULERS] + scheduler
    if s[memory + at.QUEUE_COUNT] >= p[at.QUEUE_DEPTH]:
        candidates &= ~s[p[at.WANTS] + units + at.UNIT_MEMORY]
    for unit in range(1, p[at.UNITS]):
        free = s[p[at.UNIT_FREE] + units + unit]
        if free > now:
            if candidates & s[p[at.WANTS] + units + unit] != 0:
                s[following] = min(s[following], free)
            candidates &= ~s[p[at.WANTS] + units + unit]
    return int(candidates)


@compiled
def act(p: Ints, s: Ints, f: Floats, events: Events, number: int, now: int) -> None:
    """One cycle of the scheduler with this number, counted through all SMs."""
    sm = quotient(number, p[at.SCHEDULERS])
    scheduler = number - sm * p[at.SCHEDULERS]
    row, following = p[at.SCHED] + number * at.SCHED_WIDTH, p[at.NEXT_SCHEDULER] + number
    _wake(p, s, sm, scheduler, row, now)
    s[following] = at.NEVER
    issued = 0
    while issued < p[at.WIDTH]:
        candidates = _candidates(p, s, sm, scheduler, row, now)
        if candidates == 0:
            break
        bit = _pick(p, s, sm, scheduler, row, candidates)
        s[row + at.READY_MASK] &= ~(1 << bit)
        s[row + at.LAST] = bit
        issue(p, s, f, events, sm, scheduler, row, bit, now)
        issued += 1
    again = now + 1 if issued > 0 and s[row + at.READY_MASK] != 0 else _next_wakeup(s, row, now)
    s[following] = min(s[following], again)
