"""Which lanes of a warp run next, when lanes are scheduled independently (Volta and later), and when barriers open.

A warp's stack (see `warp_function.py`) is then a list of groups of lanes. Each entry has four words: the block where the lanes
stand, with a flag when they wait there; the lanes; for lanes that can run, the block where others wait for them, else what they
wait for; and more of that.

A group that closed a loop many times without a store gives way: first to the other warps of its block; then, if that did not help,
to the lanes of its own warp, which no longer wait for it where they would have met, but one level further out. Groups that stand
at the same block become one again. Groups that wait at a barrier (`PARKED`) or for lanes of their warp (`MEETING`) lie in the same
list and belong to no level.

A warp arrives at a barrier as a whole (PTX ISA, barrier: a thread waits for all threads of its warp that have not exited, and the
warp counts as 32). Warps that have ended no longer count at a barrier without a thread count.

With synccheck what is wrong with a barrier is noted (`watcher.py`), and lanes go on as on a GPU where that is possible.

All of it is one C function, `schedule`, compiled by Numba, that native code calls; what it knows lies in the context, the block's
record and the states of the block's warps, int32 arrays.
"""

from __future__ import annotations

import functools
import zlib
from pathlib import Path
from typing import Any

import lazy_loader as lazy
import numpy as np

from warpsight.base.compiled import c_function, jit
from warpsight.emulator.codegen import layout as lay
from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.lane_groups import (
    ALL,
    FIRST,
    WORDS,
    fail,
    insert,
    lanes_of,
    population,
    present_lanes,
    remove,
    strike,
)
from warpsight.emulator.codegen.layout import Fault, Slot
from warpsight.emulator.codegen.watcher import note_lanes

numba = lazy.load("numba")

# Enumerations do not compile to plain numbers everywhere.
_ADDRESS = int(Slot.FAULT_ADDRESS)
_FAULT_WARP, _WARPS, _STRIDE, _STALL_ROUNDS, _SLOTS = (
    int(s) for s in (Slot.FAULT_WARP, Slot.WARPS_PER_BLOCK, Slot.STATE_STRIDE, Slot.STALL_ROUNDS, Slot.COUNT)
)
_WATCH, _WARP = int(Slot.WATCH_PTR), int(Slot.WARP)
_RANK, _BLOCKS, _CLUSTER = int(Slot.CLUSTER_RANK), int(Slot.CLUSTER_BLOCKS), int(Slot.CLUSTER_RECORD)
_FOR_EVER = 1 << 60  # the generation of the cluster's barrier for which a block that has ended still counts as arrived
_DIFFER, _APART, _DEADLOCK, _OPERAND = (
    int(f) for f in (Fault.BARRIERS_DIFFER, Fault.MEETING_APART, Fault.DEADLOCK, Fault.BARRIER_OPERAND)
)

FIRST_BUDGET = 1024  # retreating edges before the first yield of a warp
SPIN_BUDGET = 64  # before the next; twice as many as before, up to the first number, as long as the warp stores in between

# Operations, the fifth argument. CHOOSE: the running lanes have ended or met others. TURN: it is this warp's turn again.
CHOOSE, YIELD, AT_BARRIER, MEET, READY, ROUND, TURN, CLUSTER_ARRIVE, CLUSTER_WAIT = range(9)

# Answers other than the block to run: -1 - result of the warp function.
EXIT, BLOCK, FAIL, GIVE_WAY = (-1 - r for r in (lay.EXITED, lay.BARRIER, lay.FAULTED, lay.YIELDED))
# Answers to ROUND.
AGAIN, FINISHED, STALLED, DEADLOCKED = range(4)

# How a barrier is used: bits of the operand of AT_BARRIER, above the barrier's number. The thread count starts at COUNT_SHIFT.
ALIGNED, ARRIVE_ONLY, VOTING, COUNT_SHIFT = 1 << 5, 1 << 6, 1 << 7, 8

_FLAGS = lay.GRANTED - 1
_ASSEMBLING = -1  # third word of a parked entry until its whole warp has arrived; then the generation that it waits for


@jit()
def _live_warps(context, states):  # type: ignore[no-untyped-def]
    stride, live = context[_STRIDE] // 4, 0
    for warp in range(context[_WARPS]):
        state = states[warp * stride : warp * stride + FIRST]
        live += present_lanes(state) != 0 and state[lay.RESUME] != lay.DONE_RESUME
    return live


@jit()
def _live_group(context, states, group):  # type: ignore[no-untyped-def]
    """The warps of a warp group that have not ended."""
    stride, live = context[_STRIDE] // 4, 0
    for warp in range(4 * group, min(4 * group + 4, context[_WARPS])):
        state = states[warp * stride : warp * stride + FIRST]
        live += present_lanes(state) != 0 and state[lay.RESUME] != lay.DONE_RESUME
    return live


@jit()
def _syncs(context, watch):  # type: ignore[no-untyped-def]
    """Does synccheck watch?"""
    return context[_WATCH] != 0 and watch[watcher.BLOCKS_AT] != 0


@jit()
def _note_ended(context, watch, states, row):  # type: ignore[no-untyped-def]
    """The block's barrier opens: did warps that have ended go around it?"""
    barrier, first = row[lay.FIRST_ARRIVAL] >> 48, row[lay.FIRST_ARRIVAL] >> 32 & 0xFFFF
    if barrier == 0:
        return
    stride, running = context[_STRIDE] // 4, context[_WARP]
    for warp in range(context[_WARPS]):
        state = states[warp * stride : warp * stride + FIRST]
        ended = present_lanes(state) == 0 or state[lay.RESUME] == lay.DONE_RESUME
        if ended and state[lay.AROUND] >> (barrier - 1) & 1:
            context[_WARP] = first
            pc = (row[lay.FIRST_ARRIVAL] & ALL) - 1
            mask = present_lanes(states[first * stride : first * stride + FIRST])
            note_lanes(context, watch, watcher.WARPS_MISSED_BARRIER, pc, mask, warp, -1, warp, ALL)
            context[_WARP] = running
            return


@jit()
def _open_if_complete(context, states, record, number, watch):  # type: ignore[no-untyped-def]
    row = record[number]
    if row[lay.ARRIVED] == 0:
        return
    if number >= lay.GROUP_ROW:
        needed = 32 * _live_group(context, states, number - lay.GROUP_ROW)
    else:
        needed = row[lay.EXPECTED] if row[lay.EXPECTED] else 32 * _live_warps(context, states)
    if row[lay.ARRIVED] < needed:
        return
    if number == 0 and row[lay.EXPECTED] == 0 and _syncs(context, watch):
        _note_ended(context, watch, states, row)
    row[lay.ARRIVED] = 0
    row[lay.GENERATION] += 1
    row[lay.VOTES_PASSED], row[lay.VOTERS_PASSED] = row[lay.VOTES_NOW], row[lay.VOTERS_NOW]
    row[lay.VOTES_NOW] = row[lay.VOTERS_NOW] = 0
    record[lay.PROGRESS_ROW, lay.OPENED] += 1
    record[lay.PROGRESS_ROW, lay.ADVANCED] += 1


@jit()
def _pc_of(watch, block, behind):  # type: ignore[no-untyped-def]
    """The pc of the first instruction of a block, or of the one before."""
    return (watch[watch[watcher.BLOCKS_AT] + (block & _FLAGS)] & watcher.START_MASK) - behind


@jit()
def _await(watch, state, mask, pc):  # type: ignore[no-untyped-def]
    """Lanes of a mask come to an aligned barrier: remember who waits, somewhere else, for them to come there too."""
    present, waiting = present_lanes(state), np.int64(0)
    for k in range(state[lay.DEPTH]):
        block, lanes = state[FIRST + WORDS * k], lanes_of(state, k)
        leaves = block < lay.GRANTED and watch[watch[watcher.BLOCKS_AT] + block] & watcher.ONLY_LEAVES
        if lanes & mask and block >= 0 and not block & (lay.PARKED | lay.MEETING) and not leaves:
            waiting |= lanes & present & ~mask
    if waiting and not state[lay.AWAITED]:
        state[lay.AWAITED], state[lay.AWAITED_PC] = np.int32(waiting), pc


@jit()
def _note_arrival(context, watch, state, row, use, block):  # type: ignore[no-untyped-def]
    """A warp arrives at a barrier: did lanes miss it, and did the warps before come to the same one with the same count?"""
    warp, present, pc = context[_WARP], present_lanes(state), _pc_of(watch, block, 1)
    barrier = watch[watch[watcher.BLOCKS_AT] + (block & _FLAGS)] >> watcher.BARRIER_SHIFT
    if barrier:
        state[lay.PASSED] |= np.int32(1 << (barrier - 1))
        state[lay.AROUND] &= np.int32(~(1 << (barrier - 1)))
    missed = np.int64(state[lay.AWAITED]) & np.int64(state[lay.GONE]) & ALL
    if missed:
        note_lanes(context, watch, watcher.LANES_MISSED_BARRIER, state[lay.AWAITED_PC], present, missed, -1, warp, missed)
    state[lay.AWAITED] = 0
    count = use >> COUNT_SHIFT
    if row[lay.ARRIVED] == 0:
        row[lay.FIRST_ARRIVAL] = (barrier << 48) | (warp << 32) | (pc + 1)
        return
    first, other = (row[lay.FIRST_ARRIVAL] & ALL) - 1, row[lay.FIRST_ARRIVAL] >> 32 & 0xFFFF
    all_threads = 32 * context[_WARPS]
    if (count if count else all_threads) != (row[lay.EXPECTED] if row[lay.EXPECTED] else all_threads):
        note_lanes(context, watch, watcher.BARRIER_COUNTS, pc, present, count, first, other, ALL)
    elif first != pc and use & ALIGNED and use & 31 == 0 and count == 0:
        note_lanes(context, watch, watcher.WARPS_AT_BARRIER, pc, present, 0, first, other, ALL)


@jit()
def _assemble(context, states, record, state, watch):  # type: ignore[no-untyped-def]
    """When all lanes of a warp are at one barrier, the warp arrives there. False when that is a fault."""
    present, parked, use, block = present_lanes(state), np.int64(0), -1, -1
    first, apart, apart_at = np.int64(0), np.int64(0), -1
    for k in range(state[lay.DEPTH]):
        entry = FIRST + WORDS * k
        if state[entry] & lay.PARKED and state[entry + 2] == _ASSEMBLING:
            mine = state[entry + 3] & ~(ARRIVE_ONLY | VOTING)
            if use >= 0 and (mine ^ use) & ~ALIGNED:
                return True  # at another barrier, or with another count
            if use >= 0 and (mine | use) & ALIGNED and state[entry] != block:
                if not _syncs(context, watch):
                    fail(context, state, _DIFFER, lanes_of(state, k))
                    return False
                apart, apart_at = lanes_of(state, k), state[entry]
            elif use < 0:
                first, block = lanes_of(state, k), state[entry]
            use = mine
            parked |= lanes_of(state, k)
    if use < 0 or present & ~parked:
        return True
    if _syncs(context, watch):
        _note_arrival(context, watch, state, record[use & 31], use, block)
        if apart:
            pc, there = _pc_of(watch, block, 1), _pc_of(watch, apart_at, 1)
            note_lanes(context, watch, watcher.LANES_AT_BARRIER, pc, first, 0, there, context[_WARP], apart)
    _arrive(state, record[use & 31], use)
    _open_if_complete(context, states, record, use & 31, watch)
    return True


@jit()
def _arrive(state, row, use):  # type: ignore[no-untyped-def]
    """The warp arrives as a whole at the barrier of a row; its lanes wait for it from now on, or go on."""
    present = present_lanes(state)
    row[lay.EXPECTED] = use >> COUNT_SHIFT
    row[lay.ARRIVED] += 32
    row[lay.VOTES_NOW] += population(np.int64(state[lay.YES]) & present)
    row[lay.VOTERS_NOW] += population(present)
    state[lay.YES] = 0
    for k in range(state[lay.DEPTH]):
        entry = FIRST + WORDS * k
        if state[entry] & lay.PARKED and state[entry + 2] == _ASSEMBLING:
            if state[entry + 3] & ARRIVE_ONLY:
                state[entry] &= _FLAGS
                state[entry + 2], state[entry + 3] = lay.NO_BLOCK, 0
            else:
                state[entry + 2] = np.int32(row[lay.GENERATION])


@jit()
def _grant(context, state, watch):  # type: ignore[no-untyped-def]
    """Let groups go on all of whose named lanes have come to the same operation. False when they cannot exchange values there."""
    depth, present = state[lay.DEPTH], present_lanes(state)
    granted = np.int64(0)
    for k in range(depth):
        entry = FIRST + WORDS * k
        if not state[entry] & lay.MEETING:
            continue
        needed, here = np.int64(state[entry + 2]) & present, np.int64(0)
        for j in range(depth):
            other = FIRST + WORDS * j
            if state[other] & lay.MEETING and state[other + 3] == state[entry + 3]:
                here |= lanes_of(state, j)
        if needed & ~here:
            continue
        if state[entry + 3] & 1 and needed & ~lanes_of(state, k):
            if not _syncs(context, watch):
                fail(context, state, _APART, lanes_of(state, k))
                return False
            absent, pc = needed & ~lanes_of(state, k), _pc_of(watch, state[entry], 0)
            note_lanes(context, watch, watcher.MISSING_LANES, pc, lanes_of(state, k), absent, -1, context[_WARP], absent)
        granted |= np.int64(1) << k if k < 62 else 0
    for k in range(min(depth, 62)):
        if (granted >> k) & 1:
            entry = FIRST + WORDS * k
            state[entry] = (state[entry] & _FLAGS) | lay.GRANTED
    return True


@jit()
def _choose(context, states, record, state, watch):  # type: ignore[no-untyped-def]
    """The block of the group that runs next; its lanes go into the warp's state. Else EXIT, BLOCK or FAIL."""
    strike(state, 0)
    if not (_grant(context, state, watch) and _assemble(context, states, record, state, watch)):
        return FAIL
    for k in range(state[lay.DEPTH] - 1, -1, -1):
        entry = FIRST + WORDS * k
        block, reconverge = state[entry], np.int32(lay.NO_BLOCK)
        if block & lay.MEETING:
            continue
        if block & lay.PARKED:
            number = state[entry + 3] & 31
            if state[entry + 2] == _ASSEMBLING or state[entry + 2] == record[number, lay.GENERATION]:
                continue
            state[lay.WOKEN_BY] = number
            block = (block & _FLAGS) | lay.WAKING
        elif not block & lay.GRANTED:
            reconverge = state[entry + 2]
        state[lay.MASK], state[lay.RECONVERGE] = state[entry + 1], reconverge
        remove(state, k)
        return block
    if state[lay.DEPTH]:
        state[lay.RESUME] = lay.SUSPENDED_RESUME
        return BLOCK
    state[lay.RESUME] = lay.DONE_RESUME
    return EXIT


@jit()
def _yield(context, states, record, state, block, watch):  # type: ignore[no-untyped-def]
    """The running group has spun at `block`."""
    stored = state[lay.STORES] != state[lay.STORES_SEEN]
    state[lay.STORES_SEEN] = state[lay.STORES]
    budget = min(2 * state[lay.GIVEN], FIRST_BUDGET) if stored and state[lay.GIVEN] else SPIN_BUDGET
    state[lay.BUDGET] = state[lay.GIVEN] = budget
    if stored:
        record[lay.PROGRESS_ROW, lay.ADVANCED] += 1
    mask = np.int64(state[lay.MASK]) & ALL
    if not state[lay.PATIENCE] or mask == present_lanes(state):
        state[lay.PATIENCE] = 1
        insert(state, state[lay.DEPTH], block, mask, state[lay.RECONVERGE], 0)
        state[lay.RESUME] = lay.SUSPENDED_RESUME
        return GIVE_WAY
    state[lay.PATIENCE] = 0
    for k in range(state[lay.DEPTH] - 1, -1, -1):
        entry = FIRST + WORDS * k
        if lanes_of(state, k) & mask:  # where the others wait for these lanes
            outer = state[entry + 2]
            state[entry + 1] = np.int32(lanes_of(state, k) & ~mask)
            insert(state, k, block, mask, outer, 0)
            return _choose(context, states, record, state, watch)
    insert(state, 0, block, mask, lay.NO_BLOCK, 0)
    return _choose(context, states, record, state, watch)


@jit()
def _all_arrived(context, states, generation):  # type: ignore[no-untyped-def]
    """Have all lanes of the block that have not ended come to the cluster's barrier?"""
    stride = context[_STRIDE] // 4
    for warp in range(context[_WARPS]):
        state = states[warp * stride : warp * stride + FIRST]
        arrived = np.int64(state[lay.CLUSTER_LANES]) & ALL if state[lay.CLUSTER_GENERATION] == generation else np.int64(0)
        if present_lanes(state) & ~arrived and state[lay.RESUME] != lay.DONE_RESUME:
            return False
    return True


@jit()
def _open_cluster(context, states, record, cluster, ended):  # type: ignore[no-untyped-def]
    """The block's part in the cluster's barrier, which opens when all blocks have arrived; it may have opened meanwhile."""
    row, rank = record[lay.CLUSTER_ROW], context[_RANK]
    if ended:
        cluster[1 + rank] = _FOR_EVER
    elif cluster[1 + rank] <= row[lay.GENERATION] and _all_arrived(context, states, np.int32(row[lay.GENERATION])):
        cluster[1 + rank] = row[lay.GENERATION] + 1
    opens = True
    for other in range(context[_BLOCKS]):
        opens &= cluster[1 + other] > cluster[0]
    if opens and not ended:
        cluster[0] += 1
    if row[lay.GENERATION] != cluster[0]:
        row[lay.GENERATION] = cluster[0]
        record[lay.PROGRESS_ROW, lay.OPENED] += 1
        record[lay.PROGRESS_ROW, lay.ADVANCED] += 1


@jit()
def _cluster(context, states, record, cluster, state, block, waits, watch):  # type: ignore[no-untyped-def]
    """`barrier.cluster.arrive` and `.wait`: lanes count one by one, and wait for their own arrival."""
    row, mask = record[lay.CLUSTER_ROW], np.int64(state[lay.MASK]) & ALL
    generation = np.int32(row[lay.GENERATION])
    pending = np.int64(state[lay.CLUSTER_LANES]) & ALL if state[lay.CLUSTER_GENERATION] == generation else np.int64(0)
    if not waits:
        state[lay.CLUSTER_LANES] = np.int32(pending | mask)
        state[lay.CLUSTER_GENERATION] = generation
        _open_cluster(context, states, record, cluster, False)
        return block
    waiting = mask & pending
    if waiting == 0:
        return block
    strike(state, waiting)
    insert(state, 0, block | lay.PARKED, waiting, generation, lay.CLUSTER_ROW)
    if mask & ~waiting:
        state[lay.MASK] = np.int32(mask & ~waiting)
        return block
    return _choose(context, states, record, state, watch)


@jit()
def _round(context, states, record, cluster, watch):  # type: ignore[no-untyped-def]
    """After a turn of each warp: does the block go on?"""
    progress, stride = record[lay.PROGRESS_ROW], context[_STRIDE] // 4
    for number in range(lay.RECORD_ROWS):
        if number not in (lay.CLUSTER_ROW, lay.PROGRESS_ROW):
            _open_if_complete(context, states, record, number, watch)
    _open_cluster(context, states, record, cluster, False)
    live, spinning, first = 0, False, -1
    for warp in range(context[_WARPS]):
        state = states[warp * stride : warp * stride + FIRST]
        if state[lay.RESUME] != lay.DONE_RESUME:
            live += 1
            first = warp if first < 0 else first
            spinning |= state[lay.STATUS] == lay.YIELDED
    if live == 0:
        _open_cluster(context, states, record, cluster, True)
        return FINISHED
    if progress[lay.ADVANCED] != progress[lay.LAST_ADVANCED] or live != progress[lay.LAST_LIVE]:
        progress[lay.LAST_ADVANCED], progress[lay.LAST_LIVE] = progress[lay.ADVANCED], live
        progress[lay.STALLS] = 0
        return AGAIN
    progress[lay.IDLE] = not spinning
    if not spinning and context[_BLOCKS] > 1:  # another block of the cluster may open the barrier
        return STALLED
    if not spinning:
        state = states[first * stride : first * stride + FIRST]
        fail(context, state, _DEADLOCK, present_lanes(state))
        context[_FAULT_WARP] = first
        return DEADLOCKED
    progress[lay.STALLS] += 1
    if progress[lay.STALLS] < context[_STALL_ROUNDS]:
        return AGAIN
    progress[lay.STALLS] = 0
    return STALLED


@jit()
def _park(context, states, record, state, block, use, yes, pc, watch):  # type: ignore[no-untyped-def]
    mask = np.int64(state[lay.MASK]) & ALL
    state[lay.WAIT_PC] = pc
    count = use >> COUNT_SHIFT
    if 15 < use & 31 < lay.GROUP_ROW or count % 32 or (use & ARRIVE_ONLY and not count):
        fail(context, state, _OPERAND, mask)
        context[_ADDRESS] = count
        return FAIL
    state[lay.YES] = np.int32((np.int64(state[lay.YES]) & ~mask) | (np.int64(yes) & mask))
    if use & ALIGNED and not use & ARRIVE_ONLY and _syncs(context, watch):
        _await(watch, state, mask, pc)
    strike(state, mask)
    insert(state, 0, block | lay.PARKED, mask, _ASSEMBLING, use)
    return _choose(context, states, record, state, watch)


@jit()
def _meet(context, states, record, state, block, named, kind, pc, watch):  # type: ignore[no-untyped-def]
    mask = np.int64(state[lay.MASK]) & ALL
    state[lay.WAIT_PC] = pc
    strike(state, mask)
    for k in range(state[lay.DEPTH]):
        entry = FIRST + WORDS * k
        if state[entry] == block | lay.MEETING and state[entry + 2] & named:
            state[entry + 1] = np.int32(state[entry + 1] | mask)
            state[entry + 2] = np.int32(state[entry + 2] | named)
            return _choose(context, states, record, state, watch)
    insert(state, 0, block | lay.MEETING, mask, named, kind)
    return _choose(context, states, record, state, watch)


def _compiled(version: int) -> Any:
    """The C function. Its compiled form is kept on disk under `version` too, because it holds constants of other files."""

    def schedule(context_at, watch_at, states_at, record_at, state_at, operation, a, b, c, d):  # type: ignore[no-untyped-def]
        if operation < 0:
            return np.int32(version)
        watch = numba.carray(watch_at, (1,))  # no bounds are checked in compiled code; nothing where nobody watches
        context = numba.carray(context_at, (_SLOTS,))
        words = context[_STRIDE] // 4
        states = numba.carray(states_at, (context[_WARPS] * words,))
        record = numba.carray(record_at, (lay.RECORD_ROWS, lay.RECORD_WORDS))
        start = context[_CLUSTER]
        cluster = numba.carray(record_at, (start + lay.CLUSTER_RECORD_WORDS,))[start:]
        if operation == ROUND:
            return np.int32(_round(context, states, record, cluster, watch))
        state = numba.carray(state_at, (words,))
        if operation == READY:
            if record[lay.CLUSTER_ROW, lay.GENERATION] != cluster[0]:
                _open_cluster(context, states, record, cluster, False)
            blocked = state[lay.STATUS] == lay.BARRIER and state[lay.SEEN] == np.int32(record[lay.PROGRESS_ROW, lay.OPENED])
            return np.int32(state[lay.RESUME] != lay.DONE_RESUME and not blocked)
        if operation == YIELD:
            return np.int32(_yield(context, states, record, state, a, watch))
        if operation == AT_BARRIER:
            return np.int32(_park(context, states, record, state, a, b, c, d, watch))
        if operation == MEET:
            return np.int32(_meet(context, states, record, state, a, b, c, d, watch))
        if operation in (CLUSTER_ARRIVE, CLUSTER_WAIT):
            state[lay.WAIT_PC] = d
            return np.int32(_cluster(context, states, record, cluster, state, a, operation == CLUSTER_WAIT, watch))
        if operation == CHOOSE:
            state[lay.DEPTH] += 1  # what was taken from the stack waits; it is still there
        return np.int32(_choose(context, states, record, state, watch))

    types = numba.types
    words, longs = types.CPointer(types.int32), types.CPointer(types.int64)
    return c_function(schedule, types.int32(longs, longs, words, longs, words, *(types.int32,) * 5))


@functools.cache
def schedule_address() -> int:
    """Address of `schedule(context, watch, states of the block, its record, state of the warp, operation, operands)`.

    It is compiled if need be, and answers as named above.
    """
    files = b"".join(Path(__file__).with_name(name).read_bytes() for name in ("layout.py", "lane_groups.py", "watcher.py"))
    version = zlib.crc32(files) >> 1
    return int(_compiled(version).address)
