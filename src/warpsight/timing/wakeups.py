"""When warps can issue next: the registers they wait for, and each scheduler's wheel of wake-ups.

Slot `i` of an SM belongs to scheduler `i % schedulers`, bit `i // schedulers` of its masks. A warp whose next instruction has all
its operands at a known time lies in the wheel until then, and in the ready mask afterwards. The wheel spans `WHEEL` cycles; what
wakes up later goes round it again (`FAR`).
"""

from __future__ import annotations

from warpsight.addressing.integers import quotient
from warpsight.caches.compiled import compiled, inlined
from warpsight.timing import layout as at
from warpsight.timing.layout import Ints


@inlined
def warp_row(p: Ints, sm: int, slot: int) -> int:
    """Where the row of the warp in `slot` begins."""
    return int(p[at.WARP] + (sm * p[at.SLOTS] + slot) * at.WARP_WIDTH)


@inlined
def operands_ready(p: Ints, s: Ints, sm: int, slot: int, pc: int) -> int:
    """When all registers that `pc` reads or writes are there; NEVER while a load under way is to write one of them."""
    code = p[at.CODE] + pc * at.CODE_WIDTH
    first = p[at.REGS] + s[code + at.FIRST_REG]
    values = p[at.READY] + (sm * p[at.SLOTS] + slot) * p[at.REGISTERS]
    ready = 0
    for k in range(first, first + s[code + at.REG_COUNT]):
        ready = max(ready, s[values + s[k]])
    return ready


@inlined
def put_in_wheel(p: Ints, s: Ints, sm: int, slot: int, when: int, now: int) -> None:
    """Let the warp become ready at `when`, after `now`."""
    scheduler = slot % p[at.SCHEDULERS]
    row = p[at.SCHED] + (sm * p[at.SCHEDULERS] + scheduler) * at.SCHED_WIDTH
    bit = 1 << quotient(slot, p[at.SCHEDULERS])
    place = when
    if when - now >= at.WHEEL:
        place = now + at.WHEEL - 1
        s[row + at.FAR] |= bit
    spoke = place & (at.WHEEL - 1)
    s[p[at.SLOT_WHEEL] + (sm * p[at.SCHEDULERS] + scheduler) * at.WHEEL + spoke] |= bit
    s[row + at.OCCUPIED] |= 1 << spoke
    following = p[at.NEXT_SCHEDULER] + sm * p[at.SCHEDULERS] + scheduler
    s[following] = min(s[following], place)


@inlined
def fetch(p: Ints, s: Ints, sm: int, row: int, from_cycle: int) -> None:
    """Fill the warp's instruction buffer: one warp of the SM a cycle, decoded in the next, to be issued in the one after that."""
    memory = p[at.SM] + sm * at.SM_WIDTH
    when = max(from_cycle, s[memory + at.FETCH_NEXT])
    s[memory + at.FETCH_NEXT] = when + 1
    s[row + at.FETCHED_AT] = when + 2
    s[row + at.BUFFERED] = p[at.FETCH_WIDTH]


@compiled
def schedule(p: Ints, s: Ints, sm: int, slot: int, earliest: int, now: int, cause: int) -> None:
    """The warp stands at its next instruction and can issue from `earliest` (> `now`) on, if its operands are there."""
    row = warp_row(p, sm, slot)
    pc = s[row + at.PC]
    ready = operands_ready(p, s, sm, slot, pc)
    scheduler = slot % p[at.SCHEDULERS]
    bit = 1 << quotient(slot, p[at.SCHEDULERS])
    unit = s[p[at.CODE] + pc * at.CODE_WIDTH + at.UNIT]
    s[p[at.WANTS] + (sm * p[at.SCHEDULERS] + scheduler) * p[at.UNITS] + unit] |= bit
    if ready >= at.NEVER:
        s[row + at.STATE] = at.NEEDS_DATA
        return
    s[row + at.STATE] = at.RUNS
    when = max(ready, earliest, s[row + at.FETCHED_AT])
    s[row + at.CAUSE] = cause if when == earliest else (at.CAUSE_ALU if when == ready else at.CAUSE_FETCH)
    s[row + at.READY_AT] = when
    put_in_wheel(p, s, sm, slot, when, now)


@compiled
def data_came(p: Ints, s: Ints, sm: int, slot: int, pc: int, when: int, now: int, cause: int) -> None:
    """The registers that `pc` writes are there at `when`; a warp that waits for them goes on."""
    code = p[at.CODE] + pc * at.CODE_WIDTH
    first = p[at.REGS] + s[code + at.FIRST_REG]
    values = p[at.READY] + (sm * p[at.SLOTS] + slot) * p[at.REGISTERS]
    for k in range(first, first + s[code + at.WRITES]):
        s[values + s[k]] = when
    row = warp_row(p, sm, slot)
    if s[row + at.STATE] == at.NEEDS_DATA:
        ready = operands_ready(p, s, sm, slot, s[row + at.PC])
        if ready < at.NEVER:
            s[row + at.STATE] = at.RUNS
            s[row + at.CAUSE] = cause
            s[row + at.READY_AT] = max(ready, now + 1, s[row + at.FETCHED_AT])
            put_in_wheel(p, s, sm, slot, s[row + at.READY_AT], now)
