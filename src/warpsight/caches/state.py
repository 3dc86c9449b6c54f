"""What the cache simulation keeps while it runs: flat arrays, grouped in named tuples so that compiled code can take them whole.

Times are float64 core cycles. `slot` counts warp slots over the GPU (SM * slots per SM + place in the SM); an *issuer* is one warp
scheduler of one SM (SM * schedulers + scheduler).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.caches.geometry import Machine

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Columns of WarpState.row.
ID, ENTRY, END, REPEAT, STOP, EVENT, EVENT_END, SECTOR, SECTOR_END, KIND, PC, COUNT, GAP = range(13)
ROW_WIDTH = 13

# What a warp does next.
DO_MEMORY, DO_BARRIER, DO_EXIT = 0, 1, 2

# Cells of Control.cell.
NEXT_BLOCK, QUEUE_HEAD, QUEUE_TAIL, LIVE_WARPS, TICK, TURNS, BAD_WARP = range(7)

NEVER = np.inf


class WarpState(NamedTuple):
    """Per warp slot. `arrive`: when its next stop can issue as far as the warp itself goes; `eligible`: when it can be picked."""

    row: Ints
    arrive: Floats
    eligible: Floats
    load_ready: Floats


class SmState(NamedTuple):
    """Per SM, its blocks and its issuers. `order[sm]` lists block slots by age; `winner` and `key` are the tournament over issuers."""

    block_live: Ints
    block_waiting: Ints
    order: Ints
    resident: Ints
    lsu_free: Floats
    port_free: Floats
    clock: Floats
    picked: Ints
    last: Ints
    key: Floats
    winner: Ints


class Control(NamedTuple):
    """Launch bookkeeping: counters, and the queue of free block slots (`queue` int64 [n, 2]: SM, block slot; `since`: since when)."""

    cell: Ints
    queue: Ints
    since: Floats


class CacheState(NamedTuple):
    """Tags and line states of the L1s and of the L2 slices, misses in flight per L1, and when each server is free."""

    l1_tag: Ints
    l1_used: Ints
    l1_valid: Ints
    l1_ready: Floats
    l1_level: Ints
    mshr: Floats
    mshr_used: Ints
    l2_tag: Ints
    l2_used: Ints
    l2_valid: Ints
    l2_dirty: npt.NDArray[np.bool_]
    l2_ready: Floats
    slice_free: Floats
    channel_free: Floats
    count: Ints
    lines: Ints
    masks: Ints


class State(NamedTuple):
    """All of it."""

    warp: WarpState
    sm: SmState
    control: Control
    cache: CacheState


def _warps(machine: Machine, loads: int) -> WarpState:
    slots = machine.sm_count * machine.slots
    row = np.full((slots, ROW_WIDTH), -1, np.int64)
    return WarpState(row, np.zeros(slots), np.full(slots, NEVER), np.zeros((slots, max(loads, 1))))


def _sms(machine: Machine) -> SmState:
    sms, blocks = machine.sm_count, machine.blocks_per_sm
    issuers = sms * machine.schedulers
    leaves = 1 << max(issuers - 1, 1).bit_length()
    winner = np.zeros(2 * leaves, np.int64)
    winner[leaves:] = np.arange(leaves)
    return SmState(
        block_live=np.zeros((sms, blocks), np.int64),
        block_waiting=np.zeros((sms, blocks), np.int64),
        order=np.zeros((sms, blocks), np.int64),
        resident=np.zeros(sms, np.int64),
        lsu_free=np.zeros(sms),
        port_free=np.zeros(sms),
        clock=np.zeros(issuers),
        picked=np.full(issuers, -1, np.int64),
        last=np.full(issuers, -1, np.int64),
        key=np.full(leaves, NEVER),
        winner=winner,
    )


def _control(machine: Machine) -> Control:
    places = np.arange(machine.sm_count * machine.blocks_per_sm, dtype=np.int64)
    cell = np.zeros(8, np.int64)
    cell[QUEUE_TAIL] = len(places)
    cell[BAD_WARP] = -1
    # The first wave: SMs in turn (addressing.placement), the next block slot of each once all SMs have had one.
    queue = np.stack([places % machine.sm_count, places // machine.sm_count], axis=1)
    return Control(cell, queue, np.zeros(len(places)))


def _caches(machine: Machine, instructions: int, counters: int) -> CacheState:
    l1 = machine.sm_count * machine.l1_sets * machine.l1_ways
    l2 = machine.slices * machine.l2_sets * machine.l2_ways
    return CacheState(
        l1_tag=np.full(l1, -1, np.int64),
        l1_used=np.zeros(l1, np.int64),
        l1_valid=np.zeros(l1, np.int64),
        l1_ready=np.zeros(l1),
        l1_level=np.zeros(l1, np.int64),
        mshr=np.zeros((machine.sm_count, machine.mshrs + 1)),
        mshr_used=np.zeros(machine.sm_count, np.int64),
        l2_tag=np.full(l2, -1, np.int64),
        l2_used=np.zeros(l2, np.int64),
        l2_valid=np.zeros(l2, np.int64),
        l2_dirty=np.zeros(l2, np.bool_),
        l2_ready=np.zeros(l2),
        slice_free=np.zeros(machine.slices),
        channel_free=np.zeros(machine.channels),
        count=np.zeros((max(instructions, 1), counters), np.int64),
        lines=np.zeros(256, np.int64),
        masks=np.zeros(256, np.int64),
    )


def new_state(machine: Machine, instructions: int, loads: int, counters: int) -> State:
    """An empty GPU with cold caches. `loads` is the number of distinct load instructions (`Program.load_index`)."""
    return State(_warps(machine, loads), _sms(machine), _control(machine), _caches(machine, instructions, counters))
