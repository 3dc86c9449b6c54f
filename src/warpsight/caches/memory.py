"""Lays out the simulation's memory and fills it for a launch on an empty GPU."""

from __future__ import annotations

import numpy as np

from warpsight.addressing.placement import first_wave
from warpsight.caches import layout as at
from warpsight.caches.layout import Ints
from warpsight.caches.program import Program


def _sizes(p: Ints, program: Program) -> dict[int, int]:
    sms, issuers, slots = int(p[at.SM_COUNT]), int(p[at.ISSUERS]), int(p[at.SM_COUNT] * p[at.SLOTS])
    places = int(p[at.SM_COUNT] * p[at.BLOCKS_PER_SM])
    l1 = int(p[at.SM_COUNT] * p[at.L1_SETS] * p[at.L1_WAYS])
    l2 = int(p[at.SLICES] * p[at.L2_SETS] * p[at.L2_WAYS])
    sizes = {
        at.BLOCK: program.blocks.size,
        at.STOP: program.stops.size,
        at.CODE: program.code.size,
        at.PATH: program.paths.size,
        at.L1_UNIT: 1 << int(p[at.L1_LINE]),
        at.L2_UNIT: 1 << int(p[at.L2_LINE]),
        at.CELL: 16,
        at.QUEUE: places * at.QUEUE_WIDTH,
        at.WARP: slots * at.WARP_WIDTH,
        at.READY: slots * program.loads,
        at.L1_SET: 2 * l1,
        at.L2_SET: 2 * l2,
        at.KEY: issuers + sms,
        at.MSHR: 2 * sms * int(p[at.MSHRS]),
        at.MSHR_ENDS: 2 * sms,
        at.SPREAD: at.SPREAD_WIDTH,
        at.FLIGHT: at.FLIGHT_WIDTH,
        at.COUNT: len(program.code) * at.COUNTERS,
        at.LSU: sms * at.LSU_WIDTH,
        at.WAITING_ACCESS: sms * int(p[at.DEPTH]) * at.ACCESS_WIDTH,
        at.LINES: sms * at.MOST_REQUESTS,
        at.MASKS: sms * at.MOST_REQUESTS,
    }
    sizes |= dict.fromkeys((at.SLICE_FREE, at.SLICE_IN_FREE, at.REPLY_LOAD, at.REQUEST_LOAD, at.REPEAT_LOAD), int(p[at.SLICES]))
    sizes |= dict.fromkeys((at.CHANNEL_FREE, at.CHANNEL_LOAD), int(p[at.CHANNELS]))
    sizes |= dict.fromkeys((at.ELIGIBLE,), slots)
    sizes |= dict.fromkeys((at.LSU_FREE, at.RESIDENT, at.FIRST), sms)
    sizes |= dict.fromkeys((at.ORDER, at.LIVE, at.WAITING), places)
    sizes |= dict.fromkeys((at.CLOCK, at.PICKED, at.LAST), issuers)
    return sizes


def new_memory(p: Ints, program: Program, l1_units: Ints, l2_units: Ints) -> Ints:
    """Fill in the table places in `p` and give the state `s`: cold caches, no warp resident, the first wave queued."""
    p[at.LOADS], p[at.INSTRUCTIONS] = program.loads, len(program.code)
    sizes = _sizes(p, program)
    top = 0
    for table in range(at.BLOCK, at.PARAMETERS):
        p[table] = top
        # Tables start on a cache line of the host.
        top += -(-sizes[table] // 8) * 8
    s = np.zeros(top, np.int64)

    def put(table: int, values: Ints) -> None:
        s[p[table] : p[table] + values.size] = values.ravel()

    for table, values in ((at.BLOCK, program.blocks), (at.STOP, program.stops), (at.CODE, program.code), (at.PATH, program.paths)):
        put(table, values)
    put(at.L1_UNIT, l1_units)
    put(at.L2_UNIT, l2_units)
    for table in (at.WARP, at.PICKED, at.LAST):
        put(table, np.full(sizes[table], -1, np.int64))
    for table in (at.ELIGIBLE, at.KEY):
        put(table, np.full(sizes[table], at.NEVER, np.int64))
    for table, ways in ((at.L1_SET, int(p[at.L1_WAYS])), (at.L2_SET, int(p[at.L2_WAYS]))):
        s[p[table] : p[table] + sizes[table]].reshape(-1, 2, ways)[:, 0] = -1
    s[p[at.LSU] : p[at.LSU] + sizes[at.LSU] : at.LSU_WIDTH] = -1
    places = np.arange(p[at.SM_COUNT] * p[at.BLOCKS_PER_SM], dtype=np.int64)
    # The first wave: SMs in turn, the next place of each once all SMs have had one.
    sms = first_wave(len(places), int(p[at.SM_COUNT]), int(p[at.BLOCKS_PER_SM]))
    put(at.QUEUE, np.stack([sms, places // p[at.SM_COUNT], 0 * places], axis=1))
    s[p[at.CELL] + at.QUEUE_TAIL] = len(places)
    s[p[at.CELL] + at.BAD_WARP] = -1
    s[p[at.CELL] + at.NEXT_SM] = p[at.SM_COUNT]
    return s


def warp_rows(p: Ints, s: Ints) -> Ints:
    """The table of warp slots as [slots, WARP_WIDTH], a view."""
    n = int(p[at.SM_COUNT] * p[at.SLOTS])
    return s[p[at.WARP] : p[at.WARP] + n * at.WARP_WIDTH].reshape(n, at.WARP_WIDTH)


def counts(p: Ints, s: Ints) -> Ints:
    """The counters as [instructions, COUNTERS], a view."""
    n = int(p[at.INSTRUCTIONS])
    return s[p[at.COUNT] : p[at.COUNT] + n * at.COUNTERS].reshape(n, at.COUNTERS)
